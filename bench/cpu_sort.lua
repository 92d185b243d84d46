--- Times of the sort family and of scans, one line a case: name and the least milliseconds of
-- several runs. With "peer" as argument bench/cpu_sort.py is asked for PyTorch's time of each
-- case, in turn with ours. FLAME_DEVICE=cuda: both on the GPU, and longer rows too.
--   flame-lua bench/cpu_sort.lua [peer [python3]]
local flame = require "flame"
local device = flame.default_device():match("^%a+")
local python = arg and arg[1] == "peer" and (arg[2] or "python3")

local function values(...) return flame.randn(...) end
local function integers(...) return flame.randint({ ... }, -1000000, 1000000) end

local cases = {
  { "sort f32 1e6", values, { 1000000 }, function(x) return x:sort(1) end },
  { "sort f32 1000x1000", values, { 1000, 1000 }, function(x) return x:sort(2) end },
  { "sort f32 1000x1000 axis 1", values, { 1000, 1000 }, function(x) return x:sort(1) end },
  { "sort f32 20000x16", values, { 20000, 16 }, function(x) return x:sort(2) end },
  { "sort f64 1e6", function(n) return flame.randn(n, { dtype = "f64" }) end, { 1000000 }, function(x) return x:sort(1) end },
  { "sort i64 1e6", integers, { 1000000 }, function(x) return x:sort(1) end },
  { "argsort f32 1e6", values, { 1000000 }, function(x) return x:argsort(1) end },
  { "topk 10 of 1e6", values, { 1000000 }, function(x) return x:topk(10, 1) end },
  { "topk 1000 of 1e6", values, { 1000000 }, function(x) return x:topk(1000, 1) end },
  { "topk 10 of 1000x1000", values, { 1000, 1000 }, function(x) return x:topk(10, 2) end },
  { "median 1000x1000", values, { 1000, 1000 }, function(x) return x:median(2) end },
  { "kthvalue 1e6", values, { 1000000 }, function(x) return x:kthvalue(300000, 1) end },
  { "unique i64 1e6", integers, { 1000000 }, function(x) return x:unique() end },
  { "cumsum f32 1e7", values, { 10000000 }, function(x) return x:cumsum(1) end },
  { "cumsum f32 1000x1000", values, { 1000, 1000 }, function(x) return x:cumsum(2) end },
  { "cumsum f32 1000x1000 axis 1", values, { 1000, 1000 }, function(x) return x:cumsum(1) end },
  { "cumsum i64 1e6", integers, { 1000000 }, function(x) return x:cumsum(1) end },
  { "cumprod f32 1000x1000", values, { 1000, 1000 }, function(x) return x:cumprod(2) end },
  { "logcumsumexp f32 1000x1000", values, { 1000, 1000 }, function(x) return x:logcumsumexp(2) end },
  { "cummax f32 1000x1000", values, { 1000, 1000 }, function(x) return x:cummax(2) end },
  { "searchsorted 1e6 in 1e5", values, { 1000000 }, function(x, t) return t:searchsorted(x) end, 100000 },
  { "bincount 1e6", function(n) return flame.randint({ n }, 1, 1000) end, { 1000000 }, function(x) return x:bincount() end },
  { "histc 1e6", values, { 1000000 }, function(x) return x:histc(100) end },
  { "nonzero 1e6", function(n) return flame.rand(n):lt(0.3) end, { 1000000 }, function(x) return x:nonzero() end },
  { "randperm 1e6", function() return flame.zeros(1) end, { 1 }, function() return flame.randperm(1000000) end },
}

if device == "cuda" then
  for _, case in ipairs {
    { "sort f32 1e8", values, { 100000000 }, function(x) return x:sort(1) end },
    { "topk 100 of 1e8", values, { 100000000 }, function(x) return x:topk(100, 1) end },
    { "cumsum f32 1e8", values, { 100000000 }, function(x) return x:cumsum(1) end },
    { "sort f32 10000x10000", values, { 10000, 10000 }, function(x) return x:sort(2) end },
  } do cases[#cases + 1] = case end
end

local peer_in, peer_out
if python then
  local script = arg[0]:gsub("[^/]*$", "") .. "cpu_sort.py"
  peer_out = os.tmpname()
  peer_in = assert(io.popen(("%s %s %s %s"):format(python, script, peer_out, device), "w"))
  peer_in:setvbuf("line")
end

--- The peer's milliseconds for a case, which it writes into a file.
local function ask(name)
  peer_in:write(name, "\n")
  while true do
    local f = io.open(peer_out)
    local line = f:read("a")
    f:close()
    local who, ms = line:match("^(.-)\t([%d.]+)\n$")
    if who == name then return tonumber(ms) end
  end
end

local function ours(f, x, table_of)
  local least = math.huge
  flame.synchronize()
  for _ = 1, 7 do
    local clock = flame.timer()
    flame.eval(f(x, table_of))
    flame.synchronize()
    least = math.min(least, clock() * 1000)
    collectgarbage()
  end
  return least
end

for _, case in ipairs(cases) do
  local name, make, shape, f, n = table.unpack(case)
  local x, sorted = make(table.unpack(shape)), n and (flame.randn(n):sort(1))
  flame.eval(x)
  if sorted then flame.eval(sorted) end
  local ms = ours(f, x, sorted)
  if python then
    local other = ask(name)
    ms = math.min(ms, ours(f, x, sorted))
    print(("%-30s %9.3f ms  torch %9.3f ms  %6.2f"):format(name, ms, other, other / ms))
  else
    print(("%-30s %9.3f ms"):format(name, ms))
  end
end
if peer_in then
  peer_in:close()
  os.remove(peer_out)
end
