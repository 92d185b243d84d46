--- Convolutions on the default device in every float dtype against f64 on the CPU. There are shapes
--- that a GPU gives to cuDNN, to matrix products, and to kernels of this library.
require "spec.support.helper"
local flame = require "flame"
local device = flame.default_device()
local eps = { f64 = 1e-12, f32 = 2e-5, f16 = 2e-2, bf16 = 1.5e-1 }     -- of the largest value

--- name, number of axes, n, c, o, groups, size of each axis, kernel's size, options, transposed?
local cases = {
  { "3 x 3", 2, 2, 16, 24, 1, 9, 3, { padding = 1 } },
  { "3 x 3 in steps of 2", 2, 3, 64, 32, 1, 15, 3, { padding = 1, stride = 2 } },
  { "1 x 1", 2, 3, 40, 24, 1, 7, 1, {} },
  { "1 x 1 in steps of 2", 2, 2, 16, 48, 1, 9, 1, { stride = 2 } },
  { "7 x 7 of 3 channels", 2, 2, 3, 16, 1, 30, 7, { padding = 3, stride = 2 } },
  { "odd channels", 2, 2, 13, 11, 1, 10, 3, { padding = 2 } },
  { "groups", 2, 2, 64, 64, 4, 8, 3, { padding = 1, groups = 4 } },
  { "thin groups", 2, 2, 32, 32, 8, 8, 3, { padding = 1, groups = 8 } },
  { "depthwise", 2, 2, 24, 24, 24, 11, 5, { padding = 2, stride = 2, groups = 24 } },
  { "depthwise in uneven steps", 2, 3, 5, 5, 5, 13, 4,
    { padding = { 1, 3 }, stride = { 1, 3 }, groups = 5 } },
  { "dilated", 2, 2, 16, 16, 1, 12, 3, { padding = 2, dilation = 2 } },
  { "one dimension", 1, 2, 16, 24, 1, 50, 3, { padding = 1 } },
  { "three dimensions", 3, 2, 16, 8, 1, 6, 3, { padding = 1 } },
  { "three dimensions, more rows", 3, 2, 40, 33, 1, 7, 3, { padding = 1 } },
  { "three dimensions in steps", 3, 2, 6, 5, 1, 9, { 2, 3, 4 }, { padding = 1, stride = 2 } },
  { "three dimensions, long lines", 3, 1, 2, 3, 1, { 4, 3, 70 }, { 2, 2, 7 },
    { padding = { 0, 1, 3 } } },
  { "5 x 5 of 4 channels", 2, 2, 4, 34, 1, 70, 5, { padding = 2 } },
  { "transposed", 2, 2, 16, 24, 1, 7, 4, { padding = 1, stride = 2 }, true },
  { "transposed 1 x 1", 2, 2, 16, 24, 1, 7, 1, {}, true },
  { "transposed and longer", 2, 2, 16, 24, 1, 7, 1, { dilation = 2, output_padding = 1 }, true },
  { "uneven padding", 2, 2, 16, 16, 1, 9, 3, { padding = { { 0, 1 }, { 2, 0 } } } },
  { "one position", 2, 5, 32, 16, 1, 3, 3, {} },
}

local function wide(...) return flame.randn({ ... }, { dtype = "f64", device = "cpu" }) end

local function operands(case)
  local _, axes, n, c, o, groups, size, k, _, transposed = table.unpack(case, 1, 10)
  local x, w = { n, c }, transposed and { c, o // groups } or { o, c // groups }
  for i = 1, axes do
    x[2 + i], w[2 + i] = type(size) == "table" and size[i] or size, type(k) == "table" and k[i] or k
  end
  return wide(table.unpack(x)), wide(table.unpack(w))
end

--- Result and gradients of one case.
local function run(case, x, w, dtype, on)
  local f = flame[(case[10] and "conv_transpose%dd" or "conv%dd"):format(case[2])]
  local a, b = x:to(on):to(dtype):requires_grad_(true), w:to(on):to(dtype):requires_grad_(true)
  local y = f(a, b, case[9])
  local g = y:gradients({ a, b }, { seed = flame.ones_like(y) * 0.5 })
  return { y = y, dx = g[a], dw = g[b] }
end

--- The largest difference between two tensors, relative to the largest of the right values.
local function off(mine, right)
  return (mine:detach():to("cpu"):double() - right):abs():max()
    :item() / (right:abs():max():item() + 1e-30)
end

describe("convolutions of a device", function()
  for _, case in ipairs(cases) do
    for _, dtype in ipairs { "f64", "f32", "f16", "bf16" } do
      it(("agree with f64 on the CPU: %s, %s"):format(case[1], dtype), function()
        flame.seed(7)
        local x, w = operands(case)
        x, w = x:to(dtype):double(), w:to(dtype):double()
        local mine, right = run(case, x, w, dtype, device), run(case, x, w, "f64", "cpu")
        for name, v in pairs(right) do
          local far = off(mine[name], v:detach())
          assert.is_true(far <= eps[dtype], ("%s is off by %g of the largest"):format(name, far))
        end
      end)
    end
  end

  it("give the same bits at each run, and values as near when they need not", function()
    for _, case in ipairs(cases) do
      local x, w = operands(case)
      local first, again = run(case, x, w, "f32", device), run(case, x, w, "f32", device)
      flame.deterministic(false)
      local free = run(case, x, w, "f32", device)
      flame.deterministic(true)
      for name, v in pairs(first) do
        assert.is_true(v:detach():bytes() == again[name]:detach():bytes(), case[1] .. ": " .. name)
        assert.is_true(off(free[name], v:detach():cpu():double()) <= eps.f32,
          case[1] .. ": " .. name)
      end
    end
  end)

  for _, dtype in ipairs { "f32", "bf16" } do
    it("take slices that begin at any element, " .. dtype, function()
      local x, w = wide(4, 16, 5, 5):to(dtype):double(), wide(8, 16, 3, 3):to(dtype):double()
      for first = 1, 3 do
        local long =
          flame.cat({ flame.zeros({ first }, { dtype = "f64", device = "cpu" }), x:reshape(-1) }, 1)
        local slice = long:to(device):to(dtype):narrow(1, first + 1, x:numel()):reshape(4, 16, 5, 5)
        assert.is_true(off(flame.conv2d(slice, w:to(device):to(dtype)),
          flame.conv2d(x, w)) <= eps[dtype])
      end
    end)
  end
end)
