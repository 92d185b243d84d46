--- flame.profile: where the time goes, op by op, as a table and as a trace for Chrome's viewer
-- (chrome://tracing, Perfetto). A step of a plan is named after its ops: fused work is one row,
-- "mul+add+relu".
local flame = require "flame"
local internal = flame.internal
local arguments = require "flame.base.arguments"
local fail = arguments.fail

local counted = { "recorded", "plans", "compiles", "launches", "bytes_moved", "copies", "syncs" }

---@class flame.Profile
---@field ms number         wall clock, with all work done
---@field device_ms number  sum over the rows
local Profile = { __name = "flame.profile" }

-- __index of a profile p: p.ms and so on are fields, p[i] row i, p["matmul"] the row of an op.
function Profile.__index(self, key)
  if Profile[key] ~= nil then return Profile[key] end
  if type(key) ~= "string" then return nil end
  for _, row in ipairs(self) do if row.op == key then return row end end
end

-- ---- shares of what the device can do ---------------------------------------------------------
local measured = {}                    -- "cuda:0 f16" -> operations, "cuda:0 copy": bytes per s

--- The milliseconds on the device of the fastest of three runs of f; its bytes and operations.
local function fastest(f)
  local best
  for _ = 1, 4 do                      -- the first warms up
    local on = internal.profile_start()
    if not on then return nil end
    local done = pcall(f)
    pcall(flame.synchronize)
    local ms, bytes, flops = 0, 0, 0
    for _, e in ipairs((internal.profile_stop())) do
      if not e.span then ms, bytes, flops = ms + e.ms, bytes + e.bytes, flops + e.flops end
    end
    if not done or ms <= 0 then return nil end
    if not best or ms < best[1] then best = { ms, bytes, flops } end
  end
  return best
end

--- The peak rate of a device, measured at the first call: bytes per second of a large copy, if what
--- = "copy"; operations per second of a large matrix product, if what is a dtype. nil: the device
--- can not do it.
local function rate_of(device, what)
  local key = device .. " " .. what
  if measured[key] ~= nil or internal.bounded then return measured[key] or nil end
  local gpu, best = device ~= "cpu", nil
  pcall(flame.no_grad, function()
    local like = { device = device, dtype = what ~= "copy" and what or "f32" }
    local n = what == "copy" and (gpu and 1 << 26 or 1 << 24) or gpu and 4096 or 768
    local x = what == "copy" and flame.zeros(n, like) or flame.ones(n, n, like)
    flame.eval(x)
    best = fastest(function()
      local y = what == "copy" and x + 1 or x:matmul(x)
      flame.eval(y)
    end)
  end)
  local amount = best and best[what == "copy" and 2 or 3] or 0
  measured[key] = amount > 0 and amount / best[1] * 1000
  return measured[key] or nil
end

--- Sets the row's copy_share and peak_share: its rates relative to those of a large copy and of
--- large products in its dtypes; nil if unknown.
local function fill_shares(row)
  local time, known = 0, true
  for dtype, flops in pairs(row.flops_of) do
    local rate = rate_of(row.device, dtype)
    if rate then time = time + flops / rate * 1000 else known = false end
  end
  local rate = row.bytes > 0 and rate_of(row.device, "copy")
  if row.ms <= 0 then return end
  if rate then row.copy_share = row.bytes / rate * 1000 / row.ms end
  if known and time > 0 then row.peak_share = time / row.ms end
end

local Row = {}
function Row.__index(row, key)
  if key ~= "copy_share" and key ~= "peak_share" then return nil end
  fill_shares(row)
  return rawget(row, key)
end

local function add(row, e)
  row.calls, row.launches = row.calls + e.calls, row.launches + 1
  row.ms, row.host_ms = row.ms + e.ms, row.host_ms + e.host_ms
  row.bytes, row.flops = row.bytes + e.bytes, row.flops + e.flops
  if e.flops > 0 then row.flops_of[e.dtype] = (row.flops_of[e.dtype] or 0) + e.flops end
  if e.replayed then row.replayed = row.replayed + 1 end
  if row.site ~= e.site then row.site = "" end
  for list, v in pairs { [row.sites] = e.site, [row.shapes] = e.shape } do
    if v ~= "" and not list[v] then list[#list + 1], list[v] = v, true end
  end
end

local function rows_of(events)
  local rows, by_op = {}, {}
  for _, e in ipairs(events) do
    local name = e.device .. " " .. e.op
    local row = by_op[name]
    if not e.span and not row then
      row = setmetatable({ op = e.op, device = e.device, site = e.site, calls = 0, launches = 0,
        ms = 0, host_ms = 0, bytes = 0, flops = 0, flops_of = {}, replayed = 0, sites = {},
        shapes = {} }, Row)
      by_op[name] = row
      rows[#rows + 1] = row
    end
    if not e.span then add(row, e) end
  end
  for _, row in ipairs(rows) do
    for _, list in ipairs { row.sites, row.shapes } do
      for k in pairs(list) do if type(k) == "string" then list[k] = nil end end
    end
  end
  table.sort(rows, function(a, b)
    if a.ms ~= b.ms then return a.ms > b.ms end
    return a.device .. a.op < b.device .. b.op
  end)
  return rows
end

local function several(list, none)
  if #list < 2 then return list[1] or none end
  return ("%s and %d more"):format(list[1], #list - 1)
end

-- units of 10^9 per second; "": not known
local function rate(n, ms) return n > 0 and ms > 0 and ("%.1f"):format(n / ms / 1e6) or "" end

local LAYOUT <const> = "%-32s %8s %11s %11s %13s %8s %6s %9s %6s %9s %8s  %-28s %s"

local function percent(share) return share and ("%.0f %%"):format(100 * share) or "" end

--- The table: one row per op, the slowest first; then the sums and the counters.
function Profile:__tostring()
  local lines = { LAYOUT:format("op", "calls", "ms", "host ms", "bytes", "GB/s", "copy",
    "GFLOP/s", "peak", "launches", "replayed", "shape", "where") }
  for _, row in ipairs(self) do
    lines[#lines + 1] = LAYOUT:format(row.op, row.calls, ("%.3f"):format(row.ms),
      ("%.3f"):format(row.host_ms), row.bytes, rate(row.bytes, row.ms), percent(row.copy_share),
      rate(row.flops, row.ms), percent(row.peak_share), row.launches,
      row.replayed, several(row.shapes, ""), several(row.sites, row.device))
  end
  local function sum(name, ms) lines[#lines + 1] = ("%-32s %8s %11.3f"):format(name, "", ms) end
  sum("on the devices", self.device_ms)
  sum("wall clock", self.ms)
  for _, name in ipairs { "plan", "compile", "upload", "download", "wait" } do
    sum("of it " .. name, self[name .. "_ms"])
  end
  for _, name in ipairs(counted) do lines[#lines + 1] = ("%-32s %8d"):format(name, self[name]) end
  for _, y in ipairs(self.not_replayed) do
    lines[#lines + 1] = ("%-32s %8d  %s"):format("launches that are no graphs", y.launches, y.text)
  end
  return table.concat(lines, "\n")
end

local function quoted(s)
  return '"' .. s:gsub('[%c"\\]', function(c) return ("\\u%04x"):format(c:byte()) end) .. '"'
end
-- the host's locale may write a comma
local function number(v) return (("%.4f"):format(v):gsub(",", ".")) end

-- The tracks of an event: {track, category, start, ms}. The host's track has nested work, and also
-- the queueing of each step of a GPU.
local function places(e)
  if not e.span and e.device == "cpu" then return { { "cpu", "op", e.start, e.ms } } end
  if not e.span then
    return { { e.device .. " stream", "op", e.start, e.ms },
      { "host", "queue", e.host, e.host_ms } }
  end
  if e.region then return { { "host", "region", e.start, e.ms } } end
  local all = { { "host", "host", e.start, e.ms } }
  if e.op == "upload" or e.op == "download" then
    all[2] = { e.device .. " copies", "copy", e.start, e.ms }
  end
  return all
end

--- Chrome's trace format: complete events, microseconds, a thread for each track.
local function trace_of(events)
  local out, threads, n = {}, {}, 0
  local function thread(name)
    if threads[name] then return threads[name] end
    n = n + 1
    threads[name] = n
    out[#out + 1] =
      ('{"ph":"M","pid":1,"tid":%d,"name":"thread_name","args":{"name":%s}}'):format(n,
        quoted(name))
    return n
  end
  for _, e in ipairs(events) do if not e.span then thread(places(e)[1][1]) end end
  for _, e in ipairs(events) do
    for _, at in ipairs(places(e)) do
      local tid = thread(at[1])
      out[#out + 1] =
        ('{"ph":"X","pid":1,"tid":%d,"name":%s,"cat":"%s","ts":%s,"dur":%s,"args":{"bytes":%d,"calls":%d,"shape":%s,"line":%s}}')
        :format(tid, quoted(e.op), at[2], number(at[3] * 1000), number(at[4] * 1000),
          e.bytes, e.calls, quoted(e.shape), quoted(e.site))
    end
  end
  return '{"displayTimeUnit":"ms","traceEvents":[\n' .. table.concat(out, ",\n") .. "\n]}\n"
end

local function write(path, text) internal.io_write(path, "profile", text) end

local function new(path)
  if path then write(path, trace_of {}) end      -- complain before the work, not after it
  return setmetatable({ path = path, device_ms = 0, ms = 0 }, Profile)
end

--- Begins the profile. It is on as long as self.on holds its handle: if an interrupt loses the
--- object, the garbage collector ends the profile.
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
  local events, lost, whys
  events, lost, whys, self.on = internal.profile_stop()  -- three values: it is off now
  for _, name in ipairs(counted) do self[name] = after[name] - self.before[name] end
  for i, row in ipairs(rows_of(events)) do
    self[i] = row
    self.device_ms = self.device_ms + row.ms
  end
  for _, name in ipairs { "plan", "compile", "upload", "download", "wait" } do
    self[name .. "_ms"] = 0
    for _, e in ipairs(events) do
      if e.span and e.op == name then self[name .. "_ms"] = self[name .. "_ms"] + e.ms end
    end
  end
  self.lost, self.not_replayed = lost, whys
  if self.path then write(self.path, trace_of(events)) end
  if not done then error(why, 0) end
end

--- Ends the profile; the table is complete then, and the trace written.
function Profile:close()
  finish(self)
  return self
end
Profile.__close = finish
-- no __gc in a sandbox: there a profile stays on until it is closed
if not internal.bounded then Profile.__gc = finish end

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
--- device, host_ms until it was queued, bytes, flops (0: not known), copy_share and peak_share (of
--- the rates of a large copy and of large products, which are measured when first asked for),
--- launches, replayed (launches that are made as graphs when no profile is on), device, site,
--- sites, shapes}), and ms, device_ms, plan_ms, compile_ms, upload_ms, download_ms, wait_ms,
--- recorded, plans, compiles, launches, bytes_moved, copies, syncs, not_replayed (a list: launches
--- on a GPU that are no graphs without a profile either, and in text why); then f's results. It
--- prints as a table. profile(path, f, …) writes a Chrome trace too. Without f a guard that
--- profiles until it is closed: local p <close> = flame.profile("trace.json"); p:close() completes
--- its table.
arguments.def(".profile(f: fn, ...) -> Profile, ...",
  function(...) return profiled(nil, ...) end,
  ".profile(path?: str, f: fn, ...) -> Profile, ...", profiled,
  ".profile(path?: str) -> Profile", function(path)
    local self = new(path)
    start(self)
    return self
  end)

-- ---- regions ------------------------------------------------------------------------------------
---@class flame.Region
local Region = { __name = "flame.Region" }
Region.__index = Region

--- Ends the region.
function Region:close()
  local from = self.start
  self.start = nil
  if from then internal.region_end(self.name, from) end
end
Region.__close = Region.close

local function region(name)
  return setmetatable({ name = name, start = internal.region_begin(name) }, Region)
end

--- Names a part of the script: in traces of flame.profile, and as an NVTX range for NVIDIA's tools.
--- region(name, f, …) gives f's results; without f a guard: local r <close> = flame.region("x").
--- Regions nest. Work recorded in a region may be computed after it: call flame.eval() at its end.
arguments.def(".region(name: str, f: fn, ...) -> ...", function(name, f, ...)
  local _ <close> = region(name)
  return f(...)
end, ".region(name: str) -> Region", region)
