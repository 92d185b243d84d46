--- flame.bench: how long a function takes, including all its work on devices.
local flame = require "flame"
local arguments = require "flame.base.arguments"
local fail, def = arguments.fail, arguments.def

-- Number of bytes written between two runs on a GPU: more than any L2 cache has.
local FLUSHED <const> = 1 << 28
local LEAST <const>, MOST <const> = 5, 10000          -- least and most runs if 'n' is not given
local counted = { "launches", "replays", "compiles", "bytes_moved" }

---@class flame.Bench
---@field ms number         median of a call
---@field low number        a quarter of the runs took less
---@field high number       a quarter of the runs took more
---@field min number
---@field max number
---@field mean number
---@field spread number     (high - low) / ms
---@field n integer         runs
---@field calls integer     in each of them
---@field times number[]    milliseconds of a call, run by run
---@field first number      milliseconds of the first call of all, plans and kernels made
---@field launches number   per call, in the timed runs
---@field replays number    evaluations per call that were launched as graphs
---@field bytes_moved number  of a call
---@field compiles integer  kernels compiled during the timed runs: if not 0, the warm-up was too short
---@field warm_compiles integer  kernels compiled before
---@field device string     the first result's, or the default device
---@field flushed boolean
local Bench = { __name = "flame.Bench" }
Bench.__index = Bench

-- v with about three digits and a unit; with a point, whatever the host's locale writes
local function in_units(v, units)
  local i = 1
  while v >= 1000 and i < #units do v, i = v / 1000, i + 1 end
  local digits = v >= 99.95 and 0 or v >= 9.995 and 1 or 2
  return (("%." .. digits .. "f %s"):format(v, units[i]):gsub(",", "."))
end
local function time(ms) return in_units(ms * 1e6, { "ns", "us", "ms", "s" }) end
local function number(v) return (("%.3g"):format(v):gsub(",", ".")) end

--- One line: the median, the spread, what a call launches, and what the first call took.
function Bench:__tostring()
  local parts = { ("%s (%s to %s, least %s) in %d runs"):format(time(self.ms), time(self.low),
    time(self.high), time(self.min), self.n) }
  parts[#parts + 1] = ("launches %s"):format(number(self.launches))
  if self.replays > 0 then parts[#parts + 1] = "replayed" end
  if self.bytes_moved > 0 then
    parts[#parts + 1] = in_units(self.bytes_moved, { "B", "kB", "MB", "GB", "TB" })
  end
  if self.flushed then parts[#parts + 1] = "L2 flushed" end
  parts[#parts + 1] = ("first %s"):format(time(self.first))
  if self.compiles > 0 then
    parts[#parts + 1] = ("%d kernels compiled while timed: warm up longer"):format(self.compiles)
  end
  return table.concat(parts, ", ")
end

--- The q-quantile (q from 0 to 1) of a sorted list, interpolated between two elements.
local function quantile(sorted, q)
  local at = 1 + q * (#sorted - 1)
  local below = at // 1 | 0
  local v = sorted[below]
  return v + (at - below) * ((sorted[below + 1] or v) - v)
end

--- One run: the milliseconds until 'calls' calls are done, and their results. The results are held
--- until then, since values that nothing holds are not computed. Each call is evaluated by itself;
--- otherwise equal work of several calls would be one launch.
local function run(f, calls)
  local results = {}
  local clock = flame.timer()
  for k = 1, calls do
    results[k] = table.pack(f())
    flame.eval()
  end
  flame.synchronize()
  return clock() * 1000, results
end

local function device_of(results)
  for _, list in ipairs(results) do
    for i = 1, list.n do if flame.is_tensor(list[i]) then return list[i].device end end
  end
  return flame.default_device()
end

local function warm_up(self, f, rounds)
  local before = flame.stats().compiles
  flame.synchronize()
  for k = 1, rounds do
    local ms, results = run(f, 1)
    if k == 1 then self.first = ms end
    self.device = device_of(results)
  end
  self.warm_compiles = flame.stats().compiles - before
end

local function time_runs(self, f, seconds, n, buffer)
  local times, clock = {}, flame.timer()
  for _, name in ipairs(counted) do self[name] = 0 end
  while #times < (n or MOST) do
    if not n and #times >= LEAST and clock() >= seconds then break end
    if buffer then
      buffer:zero_()
      flame.synchronize()
    end
    local before = flame.stats()
    times[#times + 1] = run(f, self.calls) / self.calls
    local after = flame.stats()
    for _, name in ipairs(counted) do self[name] = self[name] + after[name] - before[name] end
  end
  return times
end

local function summarise(self, times)
  local sorted, sum = table.move(times, 1, #times, 1, {}), 0
  table.sort(sorted)
  for _, ms in ipairs(times) do sum = sum + ms end
  self.times, self.n, self.mean = times, #times, sum / #times
  self.min, self.max = sorted[1], sorted[#sorted]
  self.low, self.ms = quantile(sorted, 0.25), quantile(sorted, 0.5)
  self.high = quantile(sorted, 0.75)
  self.spread = self.ms > 0 and (self.high - self.low) / self.ms or 0
  local all = self.n * self.calls
  for _, name in ipairs { "launches", "replays", "bytes_moved" } do
    self[name] = self[name] / all
  end
end

--- The time of f() including the computation of all that it records: after 'warmup' calls it is run
--- n times, or for 'seconds'. The result has the median ms, quartiles low and high, min, max, mean,
--- spread (distance of the quartiles divided by the median), times; launches, replays and
--- bytes_moved per call; and first (the first call, which makes plans and kernels). It prints as
--- one line. A run is 'calls' calls and one synchronisation: use more than 1 if a call takes
--- microseconds. On a GPU the L2 cache is filled with other data before each run (flush = false:
--- not; true: the CPU's caches too).
def([[.bench(f: fn, *, warmup: int = 5, seconds = 0.5, n?: int, calls: int = 1,
    flush?: bool) -> Bench]], function(f, warmup, seconds, n, calls, flush)
  if warmup < 1 then fail("bench", "warmup = %d, need at least 1", warmup) end
  if n and n < 1 then fail("bench", "n = %d, need at least 1", n) end
  if calls < 1 then fail("bench", "calls = %d, need at least 1", calls) end
  if not (seconds >= 0 and seconds < math.huge) then
    fail("bench", "seconds = %g, need a finite number, at least 0", seconds)
  end
  local self = setmetatable({ calls = calls }, Bench)
  warm_up(self, f, warmup)
  if flush == nil then flush = self.device ~= "cpu" end
  self.flushed = flush
  local buffer = flush and flame.zeros(FLUSHED, { dtype = "u8", device = self.device }) or nil
  collectgarbage()
  summarise(self, time_runs(self, f, seconds, n, buffer))
  if buffer then buffer:free() end
  return self
end)
