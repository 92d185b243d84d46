--- flame.profile: where the time goes, op by op, as a table and as a trace for Chrome's viewer
-- (chrome://tracing, Perfetto). What a step of a plan does is named by the ops in it: fused work
-- is one row, "mul+add+relu".
local flame, _, internal = ...
local fail = internal.failf

local counted = { "recorded", "plans", "compiles", "launches", "bytes_moved", "copies", "syncs" }

---@class flame.Profile
---@field ms number         wall clock, with all work done
---@field device_ms number  sum over the rows
local Profile = { __name = "flame.profile" }

-- p.ms and so on; p[i] is row i, p["matmul"] the row of an op.
function Profile.__index(self, key)
  if Profile[key] ~= nil then return Profile[key] end
  if type(key) ~= "string" then return nil end
  for _, row in ipairs(self) do if row.op == key then return row end end
end

local function rows_of(events)
  local rows, by_op = {}, {}
  for _, e in ipairs(events) do
    local name = e.device .. " " .. e.op
    local row = by_op[name]
    if not row then
      row = { op = e.op, device = e.device, site = e.site, calls = 0, launches = 0,
        ms = 0, bytes = 0 }
      by_op[name] = row
      rows[#rows + 1] = row
    end
    row.calls, row.launches = row.calls + e.calls, row.launches + 1
    row.ms, row.bytes = row.ms + e.ms, row.bytes + e.bytes
    if row.site ~= e.site then row.site = "" end
  end
  table.sort(rows, function(a, b)
    if a.ms ~= b.ms then return a.ms > b.ms end
    return a.device .. a.op < b.device .. b.op
  end)
  return rows
end

--- The table: a row an op, the slowest first; below the sums and the counters.
function Profile:__tostring()
  local lines =
    { ("%-40s %8s %12s %14s %9s  %s"):format("op", "calls", "ms", "bytes", "launches", "where") }
  for _, row in ipairs(self) do
    lines[#lines + 1] = ("%-40s %8d %12.3f %14d %9d  %s"):format(row.op, row.calls, row.ms,
      row.bytes, row.launches,
      row.site ~= "" and row.site or row.device)
  end
  lines[#lines + 1] = ("%-40s %8s %12.3f"):format("on the devices", "", self.device_ms)
  lines[#lines + 1] = ("%-40s %8s %12.3f"):format("wall clock", "", self.ms)
  for _, name in ipairs(counted) do lines[#lines + 1] = ("%-40s %8d"):format(name, self[name]) end
  return table.concat(lines, "\n")
end

local function quoted(s)
  return '"' .. s:gsub('[%c"\\]', function(c) return ("\\u%04x"):format(c:byte()) end) .. '"'
end
-- the host's locale may write a comma
local function number(v) return (("%.4f"):format(v):gsub(",", ".")) end

--- Chrome's trace format: complete events, microseconds, a thread a device.
local function trace_of(events)
  local out, threads, n = {}, {}, 0
  for _, e in ipairs(events) do
    if not threads[e.device] then
      n = n + 1
      threads[e.device] = n
      out[#out + 1] =
        ('{"ph":"M","pid":1,"tid":%d,"name":"thread_name","args":{"name":%s}}'):format(n,
          quoted(e.device))
    end
    out[#out + 1] =
      ('{"ph":"X","pid":1,"tid":%d,"name":%s,"cat":"op","ts":%s,"dur":%s,"args":{"bytes":%d,"calls":%d,"line":%s}}')
      :format(threads[e.device], quoted(e.op), number(e.start * 1000), number(e.ms * 1000), e.bytes,
        e.calls, quoted(e.site))
  end
  return '{"displayTimeUnit":"ms","traceEvents":[\n' .. table.concat(out, ",\n") .. "\n]}\n"
end

local function write(path, text)
  local file, why = internal.open(path, "wb")
  if not file then fail("profile", "%s", why) end
  local ok, reason = file:write(text)
  if ok then ok, reason = file:close() else file:close() end
  if not ok then fail("profile", "%s: %s", path, reason) end
end

local function new(path)
  if path then write(path, trace_of {}) end      -- complain before the work, not after it
  return setmetatable({ path = path, device_ms = 0, ms = 0 }, Profile)
end

--- self.on is all that says so: who loses a profile, by an interrupt, has it
--- ended by the collector.
local function start(self)
  flame.synchronize()
  self.before, self.clock = flame.stats(), flame.timer()
  self.on = internal.profile_start()
  if not self.on then fail("profile", "one is on already\1: close it first") end
end

local function finish(self)
  if not self.on then return end
  local done, why = pcall(flame.synchronize)
  local after = flame.stats()
  self.ms = self.clock() * 1000
  local events, lost
  events, lost, self.on = internal.profile_stop()        -- two values: it is off
  for _, name in ipairs(counted) do self[name] = after[name] - self.before[name] end
  for i, row in ipairs(rows_of(events)) do
    self[i] = row
    self.device_ms = self.device_ms + row.ms
  end
  self.lost = lost
  if self.path then write(self.path, trace_of(events)) end
  if not done then error(why, 0) end
end

--- Ends the profile; the table is complete then, and the trace written.
function Profile:close()
  finish(self)
  return self
end
Profile.__close = finish
if not internal.bounded then Profile.__gc = finish end      -- there it stays on until it is closed

local function profiled(path, f, ...)
  local self = new(path)
  local results
  do
    local guard <close> = self
    start(self)
    results = table.pack(f(...))
    guard:close()
  end
  return self, table.unpack(results, 1, results.n)
end
--- profile(f, …): runs f; a table with a row for each op, the slowest first ({op, calls, ms on the
--- device, bytes, launches, device, site}), and ms, device_ms, recorded, plans, compiles, launches,
--- bytes_moved, copies, syncs; then f's results. It prints as a table.
--- profile(path, f, …) writes a Chrome trace too. Without f a guard that profiles until it is
--- closed: local p <close> = flame.profile("trace.json"); p:close() completes its table.
internal.def(".profile(f: fn, ...) -> Profile, ...",
  function(...) return profiled(nil, ...) end,
  ".profile(path?: str, f: fn, ...) -> Profile, ...", profiled,
  ".profile(path?: str) -> Profile", function(path)
    local self = new(path)
    start(self)
    return self
  end)
