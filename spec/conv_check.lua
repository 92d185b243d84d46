-- Convolutions of a device against the CPU in f64: shapes, types, all three derivatives, slices that
-- begin anywhere. The last line says how many were compared and how many were wrong.
--   FLAME_DEVICE=cuda flame-lua spec/conv_check.lua
local flame = require "flame"
local device = flame.default_device()
flame.seed(7)
local eps = { f64 = 1e-12, f32 = 2e-5, f16 = 2e-2, bf16 = 1.5e-1 }
local compared, wrong = 0, 0

--- name, axes, n, c, o, groups, size, k, options, transposed
local cases = {
  { "3x3", 2, 2, 16, 24, 1, 9, 3, { padding = 1 } },
  { "3x3 stride 2", 2, 3, 64, 32, 1, 15, 3, { padding = 1, stride = 2 } },
  { "1x1", 2, 3, 40, 24, 1, 7, 1, {} },
  { "1x1 stride 2", 2, 2, 16, 48, 1, 9, 1, { stride = 2 } },
  { "7x7 of 3 channels", 2, 2, 3, 16, 1, 30, 7, { padding = 3, stride = 2 } },
  { "odd channels", 2, 2, 13, 11, 1, 10, 3, { padding = 2 } },
  { "groups", 2, 2, 64, 64, 4, 8, 3, { padding = 1, groups = 4 } },
  { "thin groups", 2, 2, 32, 32, 8, 8, 3, { padding = 1, groups = 8 } },
  { "depthwise", 2, 2, 24, 24, 24, 11, 5, { padding = 2, stride = 2, groups = 24 } },
  { "dilated", 2, 2, 16, 16, 1, 12, 3, { padding = 2, dilation = 2 } },
  { "one dimension", 1, 2, 16, 24, 1, 50, 3, { padding = 1 } },
  { "three dimensions", 3, 2, 16, 8, 1, 6, 3, { padding = 1 } },
  { "transposed", 2, 2, 16, 24, 1, 7, 4, { padding = 1, stride = 2 }, true },
  { "transposed 1x1", 2, 2, 16, 24, 1, 7, 1, {}, true },
  { "uneven padding", 2, 2, 16, 16, 1, 9, 3, { padding = { { 0, 1 }, { 2, 0 } } } },
  { "one position", 2, 5, 32, 16, 1, 3, 3, {} },
}

local function shapes(case)
  local x, w = { case[3], case[4] }, case[10] and { case[4], case[5] // case[6] } or { case[5], case[4] // case[6] }
  for i = 1, case[2] do x[2 + i], w[2 + i] = case[7], case[8] end
  return x, w
end

--- Result and gradients of one case, from f64 values.
local function run(case, x, w, dtype, on)
  local f = flame[(case[10] and "conv_transpose%dd" or "conv%dd"):format(case[2])]
  local a, b = x:to(on):to(dtype):requires_grad_(true), w:to(on):to(dtype):requires_grad_(true)
  local y = f(a, b, case[9])
  local g = y:gradients({ a, b }, { seed = flame.ones_like(y) * 0.5 })
  return { y = y, dx = g[a], dw = g[b] }
end

local function compare(label, case, x, w, dtype)
  local half = dtype == "f16" or dtype == "bf16"
  if half then x, w = x:to(dtype):to("f64"), w:to(dtype):to("f64") end
  local mine, right = run(case, x, w, dtype, device), run(case, x, w, "f64", "cpu")
  for _, name in ipairs { "y", "dx", "dw" } do
    local e = right[name]
    local scale = e:abs():max():item() + 1e-30
    local off = (mine[name]:to("cpu"):to("f64") - e):abs():max():item() / scale
    compared = compared + 1
    if not (off <= eps[dtype]) then
      wrong = wrong + 1
      print(("wrong: %s %s %s: off by %.3g of the largest"):format(label, dtype, name, off))
    end
  end
end

for _, case in ipairs(cases) do
  local xs, ws = shapes(case)
  for dtype in pairs(eps) do
    compare(case[1], case, flame.randn(xs, { dtype = "f64", device = "cpu" }), flame.randn(ws, { dtype = "f64", device = "cpu" }), dtype)
  end
end

-- Slices: the first element at any byte.
for _, dtype in ipairs { "f32", "bf16" } do
  for first = 1, 3 do
    local x = flame.randn({ 4, 16, 5, 5 }, { dtype = "f64", device = "cpu" }):to(dtype):to("f64")
    local w = flame.randn({ 8, 16, 3, 3 }, { dtype = "f64", device = "cpu" }):to(dtype):to("f64")
    local long = flame.cat({ flame.zeros({ first }, { dtype = "f64", device = "cpu" }), x:reshape(-1) }, 1)
    local slice = long:to(device):to(dtype):narrow(1, first + 1, x:numel()):reshape(4, 16, 5, 5)
    local off = (flame.conv2d(slice, w:to(device):to(dtype)):to("cpu"):to("f64") - flame.conv2d(x, w)):abs():max():item()
    compared = compared + 1
    if not (off <= eps[dtype] * 20) then
      wrong = wrong + 1
      print(("wrong: slice from %d, %s: off by %.3g"):format(first, dtype, off))
    end
  end
end
print(("conv_check: %d compared, %d wrong"):format(compared, wrong))
os.exit(wrong == 0)
