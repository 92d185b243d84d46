--- Times of convolutions, pooling and resampling, one line a case: name, the least milliseconds of
-- several runs, and the arithmetic rate. With "peer" as argument bench/cpu_conv.py is asked for
-- PyTorch's time of each case, in turn with ours. FLAME_DEVICE=cuda: both on the GPU.
--   flame-lua bench/cpu_conv.lua [peer [python3]]
local flame = require "flame"
local device = flame.default_device():match("^%a+")
local python = arg and arg[1] == "peer" and (arg[2] or "python3")
local scale = device == "cuda" and 16 or 1                   -- of the batch

--- name, batch, channels, outputs, groups, size, kernel, stride, padding
local convolutions = {
  { "conv 3x3 64->64 32x32", 16, 64, 64, 1, 32, 3, 1, 1 },
  { "conv 1x1 64->64 32x32", 16, 64, 64, 1, 32, 1, 1, 0 },
  { "conv depthwise 3x3 32x32", 16, 64, 64, 64, 32, 3, 1, 1 },
  { "conv 3x3 stride 2 64->128", 16, 64, 128, 1, 32, 3, 2, 1 },
  { "conv 3x3 128->128 14x14", 16, 128, 128, 1, 14, 3, 1, 1 },
  { "conv 3x3 256->256 7x7", 16, 256, 256, 1, 7, 3, 1, 1 },
  { "conv 3x3 1->32 28x28", 100, 1, 32, 1, 28, 3, 1, 0 },
  { "conv 7x7 stride 2 3->64", 4, 3, 64, 1, 112, 7, 2, 3 },
}
local planes = {
  { "max_pool 2", function(x) return x:max_pool2d(2) end },
  { "max_pool 3 stride 2", function(x) return x:max_pool2d(3, 2, 1) end },
  { "avg_pool 2", function(x) return x:avg_pool2d(2) end },
  { "adaptive_avg_pool 1", function(x) return x:adaptive_avg_pool2d(1) end },
  { "interpolate nearest x2", function(x) return x:interpolate({ scale_factor = 2 }) end },
  { "interpolate bilinear x2", function(x) return x:interpolate({ scale_factor = 2, mode = "bilinear" }) end },
}

local cases = {}
for _, c in ipairs(convolutions) do
  local name, n, channels, outputs, groups, size, k, stride, pad = table.unpack(c)
  local function make() return { flame.randn(n * scale, channels, size, size), flame.randn(outputs, channels // groups, k, k) } end
  local o = { stride = stride, padding = pad, groups = groups }
  local out = (size + 2 * pad - k) // stride + 1
  local work = 2 * n * scale * outputs * out * out * (channels // groups) * k * k
  cases[#cases + 1] = { name, make, function(x) return flame.conv2d(x[1], x[2], o) end, work }
  cases[#cases + 1] = { name .. " gradients", make, function(x)
    local y = flame.conv2d(x[1]:requires_grad_(true), x[2]:requires_grad_(true), o)
    local g = y:gradients({ x[1], x[2] }, { seed = flame.ones_like(y) })
    return y, g[x[1]], g[x[2]]
  end, 3 * work }
end
for _, c in ipairs(planes) do
  local function make() return flame.randn(16 * scale, 64, 32, 32) end
  cases[#cases + 1] = { c[1], make, c[2] }
  cases[#cases + 1] = { c[1] .. " gradient", make, function(x)
    local y = c[2](x:requires_grad_(true))
    return y, y:gradients({ x }, { seed = flame.ones_like(y) })[x]
  end }
end

local peer_in, peer_out
if python then
  local script = arg[0]:gsub("[^/]*$", "") .. "cpu_conv.py"
  peer_out = os.tmpname()
  peer_in = assert(io.popen(("%s %s %s %s"):format(python, script, peer_out, device), "w"))
  peer_in:setvbuf("line")
end

--- The peer's milliseconds for a case, which it writes into a file.
local function ask(name)
  peer_in:write(name, "\n")
  while true do
    local f = io.open(peer_out)
    local line = f and f:read("a") or ""
    if f then f:close() end
    local who, ms = line:match("^(.-)\t([%d.]+)\n$")
    if who == name then return tonumber(ms) end
  end
end

local function ours(f, x)
  local least = math.huge
  for _ = 1, 9 do
    flame.synchronize()
    local clock = flame.timer()
    flame.eval(f(x))
    flame.synchronize()
    least = math.min(least, clock() * 1000)
    collectgarbage()
  end
  return least
end

for _, case in ipairs(cases) do
  local name, make, f, work = table.unpack(case)
  local ms = ours(f, make())
  local rate = work and (" %8.1f GFLOP/s"):format(work / ms * 1e-6) or (" "):rep(17)
  if python then
    local theirs = ask(name)
    print(("%-38s %9.3f ms%s   peer %9.3f ms  %.2f"):format(name, ms, rate, theirs, theirs / ms))
  else
    print(("%-38s %9.3f ms%s"):format(name, ms, rate))
  end
end
if python then
  peer_in:close()
  os.remove(peer_out)
end
