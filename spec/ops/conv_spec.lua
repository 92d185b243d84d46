--- Convolutions, pooling, resampling and recurrent layers against plain Lua. spec/peer/ops_conv.py
--- compares them with PyTorch for thousands of random arguments.
local flame = require "flame"
local helper = require "spec.support.helper"
local nn = require "flame.nn"

local function f64(x) return x:double() end
local function randn(...) return flame.randn(...):double() end

-- ---- oracle: nested loops over lists of three axes ----------------------------------------------
local function flat(x) return x:detach():reshape(-1):totable() end
local function volume(s) return s[1] * s[2] * s[3] end
local function three(list, fill)
  local out = {}
  for i = 1, 3 - #list do out[i] = fill end
  for i = 1, #list do out[#out + 1] = list[i] end
  return out
end
--- Calls f(flat index, {a, b, c}) for all indices of three axes, from 0.
local function each(size, f)
  local at = 0
  for a = 0, size[1] - 1 do for b = 0, size[2] - 1 do for c = 0, size[3] - 1 do
    f(at, { a, b, c })
    at = at + 1
  end end end
end

--- The zero-padded convolution of x (n, c, …) with w (o, c / groups, …); stride …: lists by axis.
local function plain_conv(x, w, stride, before, after, dilation, groups)
  local xs, ws = x.shape, w.shape
  local nd = #xs - 2
  local function tail(s) return three(table.move(s, 3, #s, 1, {}), 1) end
  local size, k, xv, wv = tail(xs), tail(ws), flat(x), flat(w)
  local st, be, af, di = three(stride, 1), three(before, 0), three(after, 0), three(dilation, 1)
  local out, y = {}, {}
  for a = 1, 3 do out[a] = (size[a] + be[a] + af[a] - di[a] * (k[a] - 1) - 1) // st[a] + 1 end
  local cg, og = ws[2], ws[1] // groups
  for n = 0, xs[1] - 1 do for o = 0, ws[1] - 1 do
    each(out, function(_, p)
      local sum = 0
      each(k, function(kk, q)
        local at = 0
        for a = 1, 3 do
          local i = p[a] * st[a] - be[a] + q[a] * di[a]
          if i < 0 or i >= size[a] then return end
          at = at * size[a] + i
        end
        for c = 0, cg - 1 do
          sum = sum + xv[((n * xs[2]) + o // og * cg + c) * volume(size) + at + 1]
            * wv[(o * cg + c) * volume(k) + kk + 1]
        end
      end)
      y[#y + 1] = sum
    end)
  end end
  local shape = { xs[1], ws[1] }
  for a = 4 - nd, 3 do shape[#shape + 1] = out[a] end
  return flame.tensor(y, { dtype = "f64", device = "cpu" }):reshape(shape)
end

describe("convolutions", function()
  it("are sums of products over the kernel", function()
    local cases = {
      { 1, { 2, 4, 9 }, { 6, 2, 3 }, { 2 }, { 1 }, { 1 }, { 2 }, 2 },
      { 2, { 2, 3, 6, 5 }, { 4, 3, 3, 2 }, { 2, 1 }, { 1, 0 }, { 1, 0 }, { 1, 2 }, 1 },
      { 2, { 1, 4, 6, 6 }, { 4, 1, 3, 3 }, { 1, 2 }, { 1, 1 }, { 1, 1 }, { 2, 1 }, 4 },
      { 3, { 1, 2, 3, 4, 5 }, { 2, 2, 2, 2, 3 }, { 1, 2, 1 }, { 1, 0, 1 }, { 1, 0, 1 },
        { 1, 1, 1 }, 1 },
    }
    for _, c in ipairs(cases) do
      local x, w, b = randn(c[2]), randn(c[3]), randn(c[3][1])
      local y = flame["conv" .. c[1] .. "d"](x, w, b,
        { stride = c[4], padding = c[5], dilation = c[7], groups = c[8] })
      local along = { 1, c[3][1] }
      for i = 1, c[1] do along[2 + i] = 1 end
      assert.allclose(plain_conv(x, w, c[4], c[5], c[6], c[7], c[8]):cpu() + b:cpu():reshape(along),
        y:cpu(), { atol = 1e-12 })
    end
  end)

  it("pad differently before and after", function()
    local x, w = randn(1, 2, 5, 6), randn(3, 2, 2, 4)
    assert.allclose(plain_conv(x, w, { 1, 1 }, { 0, 1 }, { 1, 2 }, { 1, 1 }, 1):cpu(),
      flame.conv2d(x, w, { padding = "same" }):cpu())
    assert.allclose(plain_conv(x, w, { 2, 1 }, { 0, 3 }, { 2, 1 }, { 1, 1 }, 1):cpu(),
      flame.conv2d(x, w, { padding = { { 0, 2 }, { 3, 1 } }, stride = { 2, 1 } }):cpu())
    assert.same({ 1, 3, 4, 3 }, x:conv2d(w, nil, 1, "valid").shape)
  end)

  it("take one sample without a batch axis, empty batches, and views", function()
    local x, w = randn(2, 4, 7), randn(3, 4, 3)
    assert.allclose(flame.conv1d(x, w)[2], flame.conv1d(x[2], w))
    assert.same({ 0, 3, 5 }, flame.conv1d(flame.zeros(0, 4, 7):double(), w).shape)
    local turned = randn(7, 4, 2)
    assert.allclose(flame.conv1d(turned:permute(3, 2, 1):contiguous(), w),
      flame.conv1d(turned:permute(3, 2, 1), w))
  end)

  it("transposed, are the adjoints", function()
    for n, sizes in ipairs { { { 2, 4, 5 }, { 4, 3, 3 } }, { { 2, 4, 3, 4 }, { 4, 3, 2, 3 } },
        { { 1, 2, 2, 3, 2 }, { 2, 3, 2, 2, 2 } } } do
      local g, w = randn(sizes[1]), randn(sizes[2])
      local o = { stride = 2, padding = 1 }
      local y = flame["conv_transpose" .. n .. "d"](g, w, nil, o)
      local x = flame.randn(y.shape):double()
      assert.close((x * y):sum():item(),
        (flame["conv" .. n .. "d"](x, w, o) * g):sum():item(), 1e-10)
    end
    local y = flame.conv_transpose1d(randn(1, 2, 4), randn(2, 3, 3), randn(6),
      { stride = 3, output_padding = 1, groups = 2, dilation = 2 })
    assert.same({ 1, 6, 15 }, y.shape)
  end)

  it("are differentiable twice", function()
    local o = { order = 2 }
    flame.gradcheck(function(x, w, b) return flame.conv1d(x, w, b, 2, 1) end,
      { randn(2, 2, 5), randn(2, 2, 3), randn(2) }, o)
    flame.gradcheck(function(x, w)
      return flame.conv2d(x, w,
        { stride = { 1, 2 }, padding = "valid", dilation = { 2, 1 }, groups = 2 })
    end,
      { randn(1, 2, 4, 5), randn(2, 1, 2, 2) }, o)
    flame.gradcheck(function(x, w) return flame.conv3d(x, w, { padding = 1 }) end,
      { randn(1, 1, 2, 2, 2), randn(1, 1, 2, 2, 2) }, o)
    flame.gradcheck(function(x, w)
      return flame.conv_transpose2d(x, w, { stride = 2, padding = 1, output_padding = 1 })
    end,
      { randn(1, 2, 2, 3), randn(2, 2, 3, 3) }, o)
  end)

  -- cuDNN can not pad one side only, so on CUDA these cases test kernels of this library.
  it("agree with padded inputs where a call pads one side only", function()
    local p = { 2, 4, 6, 2, 1, 5, 6, 1, 3, 2, 1, 2, 6, 1, 2, 1, 0, 1, 1, 1, 1, 1 }
    for dtype, tol in pairs { f64 = 1e-12, f32 = 1e-4, f16 = 3e-2 } do
      local call = flame.internal.call
      local x, w, g = flame.randn(2, 4, 5, 6):to(dtype), flame.randn(6, 2, 3, 2):to(dtype),
        flame.randn(2, 6, 2, 6):to(dtype)
      local xd, wd = f64(x):requires_grad_(true), f64(w):requires_grad_(true)
      local y = flame.conv2d(xd:pad({ 1, 0, 1, 0 }), wd, { stride = { 2, 1 }, groups = 2 })
      local d = y:gradients({ xd, wd }, { seed = f64(g) })
      local near = { atol = tol, rtol = tol }
      assert.allclose(y, f64(call("conv", "conv2d", { x, w }, p, { 2, 6, 2, 6 }, dtype)), near)
      assert.allclose(d[xd],
        f64(call("conv_data", "conv2d", { g, w }, p, { 2, 4, 5, 6 }, dtype)), near)
      assert.allclose(d[wd],
        f64(call("conv_weight", "conv2d", { g, x }, p, { 6, 2, 3, 2 }, dtype)), near)
    end
    assert.has_error(function()
      flame.internal.call("conv", "conv2d", { flame.ones(3), flame.ones(2) }, p,
        { 2, 6, 2, 6 }, "f32")
    end)
  end)

  it("round half types once, and wrap integers", function()
    local x, w = flame.randn(1, 8, 6, 6), flame.randn(4, 8, 3, 3)
    for dtype, tol in pairs { f16 = 2e-3, bf16 = 2e-2 } do
      local a, b = x:to(dtype), w:to(dtype)
      assert.allclose(flame.conv2d(a:float(), b:float()), flame.conv2d(a, b):float(),
        { atol = tol, rtol = tol })
    end
    local i = flame.arange(16):reshape(1, 1, 4, 4)
    assert.same({ { { { 54, 63 }, { 90, 99 } } } },
      flame.conv2d(i, flame.ones(1, 1, 3, 3):long()):totable())
    local wrapped = flame.conv1d(flame.full({ 1, 1, 2 }, 100, { dtype = "i8" }),
      flame.ones(1, 1, 2):to("i8"))
    assert.same({ { { -56 } } }, wrapped:totable())
  end)

  it("say what does not fit", function()
    local x = flame.ones(1, 3, 5, 5)
    local message = require("spec.support.helper").message
    assert.matches("conv2d: x has 3 channels, weight %(8, 4, 3, 3%) with groups 1 needs 4",
      message(flame.conv2d, x, flame.ones(8, 4, 3, 3)))
    assert.matches("conv2d: axis 3 of x has 5 elements with padding, the kernel spans 7",
      message(flame.conv2d, x, flame.ones(8, 3, 4, 4), { dilation = 2 }))
    local w = flame.ones(8, 3, 3, 3)
    assert.matches("no option 'strides', there is: weight bias stride padding dilation groups",
      message(flame.conv2d, x, w, { strides = 2 }))
    assert.matches("bias has shape %(3%), the result has 8 channels",
      message(flame.conv2d, x, w, flame.ones(3)))
    assert.matches("output_padding = 2, need less than stride 2",
      message(flame.conv_transpose2d, x, flame.ones(3, 1, 3, 3),
      { stride = 2, output_padding = 2 }))
    assert.matches("x is bool", message(flame.conv2d, x:bool(), flame.ones(8, 3, 3, 3)))
    assert.matches("max_pool2d: padding = 2, need at most half",
      message(flame.max_pool2d, x, 3, { padding = 2 }))
    assert.matches("at most, got 8", message(flame.max_pool2d, x, 3, 1, 0, 1, false, false, 1))
    assert.matches("avg_pool2d: x is i64, need a float", message(flame.avg_pool2d, x:long(), 2))
  end)
end)

-- ---- pooling ------------------------------------------------------------------------------------
describe("pooling", function()
  local x = flame.tensor { { { { 1, 5, 2, 0 }, { 3, 4, 8, 1 }, { 7, 2, 2, 2 }, { 0, 6, 9, 9 } } } }

  it("takes the largest of each window and its place", function()
    local y, at = x:max_pool2d(2, { return_indices = true })
    assert.same({ { { { 5, 8 }, { 7, 9 } } } }, y:totable())
    assert.same({ { { { 2, 7 }, { 9, 15 } } } }, at:totable())                -- the first of equals
    assert.same({ { { { 5, 8, 8 }, { 7, 8, 8 }, { 7, 9, 9 } } } }, x:max_pool2d(2, 1):totable())
    assert.same({ { { { 1, 5, 0 }, { 7, 8, 2 }, { 0, 9, 9 } } } },
      x:max_pool2d(2, { stride = 2, padding = 1 }):totable())
    assert.same({ { { { 8 } } } }, x:max_pool2d({ 2, 3 }, { stride = 4 }):totable())
    assert.same({ { { { 8, 8 }, { 9, 9 } } } }, x:max_pool2d(3, 2, { ceil_mode = true }):totable())
    local z = flame.max_unpool2d(y, at, 2)
    assert.same({ { { { 0, 5, 0, 0 }, { 0, 0, 8, 0 }, { 7, 0, 0, 0 }, { 0, 0, 9, 0 } } } },
      z:totable())
    for n = 1, 3, 2 do
      local shape = n == 1 and { 1, 2, 4 } or { 1, 2, 4, 4, 4 }
      local v, i = flame["max_pool" .. n .. "d"](flame.randn(shape), 2, { return_indices = true })
      assert.same(shape, (n == 1 and flame.max_unpool1d or flame.max_unpool3d)(v, i, 2).shape)
    end
  end)

  it("lets a NaN through, and keeps integers", function()
    local y = flame.tensor({ { { 0 / 0, 1, 2, 3 } } }):max_pool1d(2):totable()
    assert.is_true(y[1][1][1] ~= y[1][1][1] and y[1][1][2] == 3)
    assert.same({ { { 3, 4 } } },
      flame.tensor({ { { 3, 1, 2, 4 } } }, { dtype = "i32" }):max_pool1d(2):totable())
  end)

  it("averages, counting the padding or not", function()
    assert.same({ { { { 3.25, 2.75 }, { 3.75, 5.5 } } } }, x:avg_pool2d(2):totable())
    local ones = flame.ones(1, 1, 2, 2)
    assert.same({ { { { 0.25, 0.25 }, { 0.25, 0.25 } } } },
      ones:avg_pool2d(2, { padding = 1 }):totable())
    assert.same({ { { { 1, 1 }, { 1, 1 } } } },
      ones:avg_pool2d(2, { padding = 1, count_include_pad = false }):totable())
    assert.same({ { { { 2 } } } }, ones:avg_pool2d(2, { divisor_override = 2 }):totable())
    assert.same({ { { 1, 1, 1 } } },
      flame.ones(1, 1, 5):avg_pool1d(2, { ceil_mode = true }):totable())
    assert.same({ 1, 1, 1, 1, 1 }, flame.ones(1, 1, 2, 2, 2):avg_pool3d(2).shape)
    assert.close(math.sqrt(1 + 25 + 9 + 16), x:lp_pool2d(2, 2):totable()[1][1][1][1], 1e-5)
    local cube = flame.arange(8.0):reshape(1, 1, 2, 2, 2)
    assert.close(math.sqrt(204), cube:lp_pool3d(2, 2):item(), 1e-5)
    assert.close(36, require("flame.nn").LPPool3d(1, 2)(cube):item(), 1e-5)
    assert.close(3, flame.ones(1, 1, 9):lp_pool1d(1, 3):totable()[1][1][1], 1e-6)
  end)

  it("adapts its windows", function()
    local v = flame.arange(5.0):reshape(1, 1, 5)
    assert.same({ { { 1.5, 3, 4.5 } } }, v:adaptive_avg_pool1d(3):totable())
    local y, at = v:adaptive_max_pool1d(2, { return_indices = true })
    assert.same({ { { 3, 5 } } }, y:totable())
    assert.same({ { { 3, 5 } } }, at:totable())
    assert.same({ 2, 3, 2, 5 }, flame.randn(2, 3, 4, 5):adaptive_avg_pool2d({ 2, false }).shape)
    assert.close(x:mean():item(), x:adaptive_avg_pool2d(1):item(), 1e-6)
    assert.same({ { { { 9 } } } }, x:adaptive_max_pool2d(1):totable())
    assert.same({ 1, 2, 1, 2, 3 },
      flame.randn(1, 2, 3, 3, 3):adaptive_avg_pool3d({ 1, 2, 3 }).shape)
    assert.same({ 1, 2, 1, 2, 3 },
      flame.randn(1, 2, 3, 3, 3):adaptive_max_pool3d({ 1, 2, 3 }).shape)
  end)

  it("is differentiable twice", function()
    local o = { order = 2 }
    local function check(f, ...)
      flame.gradcheck(function(v) return f(v):square() end, { f64(flame.randn(...)) }, o)
    end
    check(function(v) return v:max_pool2d(2, { stride = 1, padding = 1 }) end, 1, 1, 3, 4)
    check(function(v) return (v:max_pool1d(2, { return_indices = true })) end, 2, 2, 6)
    check(function(v) return v:max_pool3d(2) end, 1, 1, 2, 4, 2)
    check(function(v)
      return v:avg_pool2d({ 2, 3 }, { stride = 1, padding = 1, count_include_pad = false })
    end, 1, 1, 3, 4)
    check(function(v) return v:adaptive_avg_pool2d({ 2, 3 }) end, 1, 1, 3, 4)
    check(function(v) return v:adaptive_max_pool2d(2) end, 1, 1, 3, 4)
    flame.gradcheck(function(v) return v:local_response_norm(3, { alpha = 0.5 }) end,
      { randn(1, 4, 3) }, o)
  end)
end)

-- ---- resampling ---------------------------------------------------------------------------------
describe("resampling", function()
  local x = flame.tensor { { { { 1, 2 }, { 3, 4 } } } }

  it("interpolates without aliases: each output is a mean under the widened filter", function()
    local v = flame.tensor({ { { { 1, 5, 2, 8 } } } }, { dtype = "f64" })
    local function hat(t) return math.max(1 - math.abs(t), 0) end
    local want, total = {}, nil
    for i = 0, 1 do                                                -- distance 2, centres 1 and 3
      want[i + 1], total = 0, 0
      for k, value in ipairs { 1, 5, 2, 8 } do
        local w = hat((k - 0.5 - (2 * i + 1)) / 2)
        want[i + 1], total = want[i + 1] + w * value, total + w
      end
      want[i + 1] = want[i + 1] / total
    end
    assert.allclose({ { { want } } },
      v:interpolate({ size = { 1, 2 }, mode = "bilinear", antialias = true }))
    assert.allclose(flame.ones(1, 1, 3, 2),
      flame.ones(1, 1, 7, 9):interpolate({ size = { 3, 2 }, mode = "bicubic", antialias = true }))
    local larger = { size = { 2, 9 }, mode = "bilinear" }
    local plain = v:interpolate(larger)
    larger.antialias = true
    assert.allclose(plain, v:interpolate(larger))
    assert.is_true(flame.gradcheck(function(y)
      return y:interpolate({ size = { 2, 2 }, mode = "bicubic", antialias = true })
    end,
      { flame.randn({ 1, 1, 4, 5 }, { dtype = "f64" }) }))
    local why = helper.message(flame.interpolate, v, { size = { 1, 2 }, antialias = true })
    assert.matches("antialias needs mode bilinear or bicubic, got nearest", why)
  end)
  it("leaves an axis alone whose size stays, also with a scale", function()
    local v = flame.randn(1, 1, 3)
    assert.same(v:totable(), v:interpolate({ scale_factor = 1.3, mode = "linear" }):totable())
  end)
  it("samples volumes", function()
    local v = flame.randn({ 2, 3, 4, 5, 2 }, { dtype = "f64" })
    local same = flame.tensor({ { { 1, 0, 0, 0 }, { 0, 1, 0, 0 }, { 0, 0, 1, 0 } } },
      { dtype = "f64" }):expand(2, 3, 4)
    for _, align in ipairs { true, false } do
      local grid = flame.affine_grid(same, { 2, 3, 4, 5, 2 }, align)
      assert.same({ 2, 4, 5, 2, 3 }, grid.shape)
      for _, mode in ipairs { "bilinear", "nearest" } do
        assert.allclose(v, flame.grid_sample(v, grid, { mode = mode, align_corners = align }),
          { atol = 1e-9 })
      end
    end
    local middle = flame.zeros({ 2, 1, 1, 1, 3 }, { dtype = "f64" })
    -- sizes 4 (even), 5 (odd) and 2 (even): four neighbours
    local cube = v:narrow(3, 2, 2):narrow(4, 3, 1)
    assert.allclose(cube:mean({ 3, 4, 5 }), flame.grid_sample(v, middle):reshape(2, 3))
    for _, padding in ipairs { "zeros", "border", "reflection" } do
      local grid = flame.uniform({ 1, 2, 1, 2, 3 }, -0.9, 0.9, { dtype = "f64" })
      assert.is_true(flame.gradcheck(function(y, g)
        return flame.grid_sample(y, g, { padding_mode = padding })
      end,
        { flame.randn({ 1, 1, 3, 4, 5 }, { dtype = "f64" }), grid }))
    end
    local why = helper.message(flame.grid_sample, v, middle, { mode = "bicubic" })
    assert.matches("mode bicubic needs 4 axes", why)
  end)
  it("interpolates in every mode", function()
    assert.same({ { { { 1, 1, 2, 2 }, { 1, 1, 2, 2 }, { 3, 3, 4, 4 }, { 3, 3, 4, 4 } } } },
      x:interpolate({ scale_factor = 2 }):totable())
    local line = flame.tensor { { { 0, 1, 2 } } }
    assert.allclose({ { { 0, 0.25, 0.75, 1.25, 1.75, 2 } } },
      line:interpolate({ scale_factor = 2, mode = "linear" }))
    assert.allclose({ { { 0, 0.4, 0.8, 1.2, 1.6, 2 } } },
      line:interpolate({ size = 6, mode = "linear", align_corners = true }))
    assert.same({ { { 0, 0, 1, 2 } } }, line:interpolate({ size = 4, mode = "nearest" }):totable())
    assert.same({ { { 0, 1, 1, 2 } } },
      line:interpolate({ size = 4, mode = "nearest-exact" }):totable())
    assert.same({ { { { 2.5 } } } }, x:interpolate({ size = 1, mode = "area" }):totable())
    assert.allclose({ { { { 1, 1.5, 2 }, { 2, 2.5, 3 }, { 3, 3.5, 4 } } } },
      x:interpolate({ size = 3, mode = "bilinear", align_corners = true }))
    assert.same({ 1, 1, 5, 3 }, x:interpolate({ size = { 5, 3 }, mode = "bicubic" }).shape)
    assert.same({ 1, 1, 3, 4, 4 },
      flame.randn(1, 1, 2, 2, 2):interpolate({ size = { 3, 4, 4 }, mode = "trilinear" }).shape)
    assert.has_error(function() x:interpolate({ size = 3, scale_factor = 2 }) end)
    assert.has_error(function() x:interpolate({ size = 3, mode = "linear" }) end)
  end)

  it("is differentiable", function()
    for _, mode in ipairs { "nearest", "bilinear", "bicubic", "area" } do
      flame.gradcheck(function(v)
        return v:interpolate({ size = { 3, 4 }, mode = mode }):square()
      end, { randn(1, 1, 2, 3) }, { order = 2 })
    end
    local grid = flame.uniform({ 1, 2, 2, 2 }, -0.9, 0.9):double()
    for _, mode in ipairs { "bilinear", "bicubic" } do
      flame.gradcheck(function(v, g) return flame.grid_sample(v, g, { mode = mode }) end,
        { randn(1, 1, 4, 4), grid }, { order = 1 })
    end
  end)

  it("samples the identity grid as it is", function()
    local v = flame.randn(2, 3, 4, 5)
    local theta = flame.tensor({ { { 1, 0, 0 }, { 0, 1, 0 } } }):expand(2, 2, 3)
    for _, align in ipairs { true, false } do
      local grid = flame.affine_grid(theta, { 2, 3, 4, 5 }, align)
      for _, mode in ipairs { "bilinear", "nearest", "bicubic" } do
        assert.allclose(v, flame.grid_sample(v, grid, { mode = mode, align_corners = align }),
          { atol = 1e-5 })
      end
    end
    local far = flame.full({ 2, 1, 1, 2 }, 3)
    assert.close(0, flame.grid_sample(v, far):abs():sum():item())
    assert.allclose(v(1, {}, -1, -1),
      flame.grid_sample(v, far, { padding_mode = "border" })(1, {}, 1, 1))
    local corner = flame.grid_sample(v, flame.full({ 2, 1, 1, 2 }, 1),
      { padding_mode = "reflection", align_corners = true })
    assert.allclose(v(1, {}, -1, -1), corner(1, {}, 1, 1), { atol = 1e-5 })
  end)

  it("shuffles pixels forward and back", function()
    local v = flame.randn(2, 8, 3, 3)
    assert.same({ 2, 2, 6, 6 }, v:pixel_shuffle(2).shape)
    assert.is_true(flame.equal(v, v:pixel_shuffle(2):pixel_unshuffle(2)))
    local rows = flame.tensor { { { 1, 1 }, { 2, 2 }, { 3, 3 }, { 4, 4 } } }
    assert.same({ { { 1, 1 }, { 3, 3 }, { 2, 2 }, { 4, 4 } } }, rows:channel_shuffle(2):totable())
  end)

  it("lays windows out as columns, and adds them up again", function()
    local v, w, o = randn(2, 3, 5, 6), randn(4, 3, 3, 2),
      { stride = { 2, 1 }, padding = 1, dilation = { 1, 2 } }
    local columns = v:im2col({ 3, 2 }, o)
    assert.allclose(flame.conv2d(v, w, o), w:reshape(4, -1):matmul(columns):reshape(2, 4, 3, 6),
      { atol = 1e-10 })
    local c = flame.randn(columns.shape):double()
    assert.close((columns * c):sum():item(),
      (v * c:col2im({ 5, 6 }, { 3, 2 }, o)):sum():item(), 1e-9)
  end)
end)

-- ---- modules ------------------------------------------------------------------------------------
describe("modules", function()
  it("hold PyTorch's parameters, drawn within its bounds", function()
    local c = nn.Conv2d(4, 6, { 3, 2 }, { stride = 2, padding = { 1, 0 }, groups = 2 })
    assert.same({ 6, 2, 3, 2 }, c.weight.shape)
    assert.is_true(c.weight:abs():amax():item() <= 1 / math.sqrt(12)
      and c.bias:abs():amax():item() <= 1 / math.sqrt(12))
    assert.allclose(flame.conv2d(flame.ones(1, 4, 5, 5), c.weight, c.bias, 2, { 1, 0 }, 1, 2),
      c(flame.ones(1, 4, 5, 5)))
    local t = nn.ConvTranspose2d(4, 6, 3, { stride = 2, padding = 1, bias = false })
    assert.same({ 4, 6, 3, 3 }, t.weight.shape)
    assert.is_nil(t.bias)
    assert.same({ 1, 6, 10, 10 }, t(flame.ones(1, 4, 5, 5), { 10, 10 }).shape)
    assert.same({ 1, 2, 6 }, nn.Conv1d(3, 2, 3)(flame.ones(1, 3, 8)).shape)
    assert.same({ 1, 2, 1, 1, 1 }, nn.Conv3d(3, 2, 3)(flame.ones(1, 3, 3, 3, 3)).shape)
    assert.same({ 1, 2, 10 }, nn.ConvTranspose1d(3, 2, 3)(flame.ones(1, 3, 8)).shape)
    assert.same({ 1, 2, 3, 3, 3 }, nn.ConvTranspose3d(3, 2, 2)(flame.ones(1, 3, 2, 2, 2)).shape)
    local around = nn.Conv1d(1, 1, 3, { padding = 1, padding_mode = "circular", bias = false })
    local v = flame.randn(1, 1, 6)
    assert.allclose(around(v):roll(2, 3), around(v:roll(2, 3)), { atol = 1e-6 })
    assert.has_error(function() nn.Conv2d(3, 4, 3, { groups = 2 }) end)
  end)

  it("call their functions", function()
    local plane, cube, line = flame.randn(2, 4, 4, 4), flame.randn(1, 2, 4, 4, 4),
      flame.randn(2, 4, 4)
    local function shape(m, x) return table.concat(m(x).shape, " ") end
    assert.equal("2 4 2", shape(nn.MaxPool1d(2), line))
    assert.equal("2 4 3 3", shape(nn.MaxPool2d(2, { stride = 1 }), plane))
    assert.equal("1 2 2 2 2", shape(nn.MaxPool3d(2), cube))
    assert.equal("2 4 2", shape(nn.AvgPool1d(2), line))
    assert.equal("2 4 2 2", shape(nn.AvgPool2d(2), plane))
    assert.equal("1 2 2 2 2", shape(nn.AvgPool3d(2), cube))
    assert.equal("2 4 3", shape(nn.AdaptiveAvgPool1d(3), line))
    assert.equal("2 4 1 1", shape(nn.AdaptiveAvgPool2d(1), plane))
    assert.equal("1 2 1 1 1", shape(nn.AdaptiveAvgPool3d(1), cube))
    assert.equal("2 4 3", shape(nn.AdaptiveMaxPool1d(3), line))
    assert.equal("2 4 1 2", shape(nn.AdaptiveMaxPool2d({ 1, 2 }), plane))
    assert.equal("1 2 1 1 1", shape(nn.AdaptiveMaxPool3d(1), cube))
    assert.equal("2 4 2", shape(nn.LPPool1d(2, 2), line:abs()))
    assert.equal("2 4 2 2", shape(nn.LPPool2d(2, 2), plane))
    assert.equal("2 4 4 4", shape(nn.LocalResponseNorm(2), plane))
    assert.equal("2 4 8 8", shape(nn.Upsample { scale_factor = 2 }, plane))
    assert.equal("2 1 8 8", shape(nn.PixelShuffle(2), plane))
    assert.equal("2 16 2 2", shape(nn.PixelUnshuffle(2), plane))
    assert.equal("2 4 4 4", shape(nn.ChannelShuffle(2), plane))
    assert.equal("2 16 9", shape(nn.Unfold(2), plane))
    assert.equal("2 1 4 4", shape(nn.Fold({ 4, 4 }, 2), flame.randn(2, 4, 9)))
    for n, x in ipairs { line, plane, cube } do
      local class = n == 1 and nn.MaxUnpool1d or n == 2 and nn.MaxUnpool2d or nn.MaxUnpool3d
      local y, at = flame[("max_pool%dd"):format(n)](x, 2, { return_indices = true })
      assert.equal(table.concat(x.shape, " "), table.concat(class(2)(y, at).shape, " "))
    end
  end)

  it("pad in every mode", function()
    local v = flame.tensor { { { 1, 2, 3 } } }
    assert.same({ { { 0, 1, 2, 3, 0 } } }, nn.ZeroPad1d(1)(v):totable())
    assert.same({ { { 7, 7, 1, 2, 3 } } }, nn.ConstantPad1d({ 2, 0 }, 7)(v):totable())
    assert.same({ { { 2, 1, 2, 3, 2 } } }, nn.ReflectionPad1d(1)(v):totable())
    assert.same({ { { 1, 1, 2, 3, 3 } } }, nn.ReplicationPad1d(1)(v):totable())
    assert.same({ { { 3, 1, 2, 3, 1 } } }, nn.CircularPad1d(1)(v):totable())
    local plane, cube = flame.ones(1, 1, 3, 3), flame.ones(1, 1, 3, 3, 3)
    for _, m in ipairs { nn.ZeroPad2d(1), nn.ConstantPad2d(1, 2), nn.ReflectionPad2d(1),
        nn.ReplicationPad2d(1), nn.CircularPad2d(1) } do
      assert.same({ 1, 1, 5, 5 }, m(plane).shape)
    end
    for _, m in ipairs { nn.ZeroPad3d(1), nn.ConstantPad3d(1, 2), nn.ReflectionPad3d(1),
        nn.ReplicationPad3d(1), nn.CircularPad3d(1) } do
      assert.same({ 1, 1, 5, 5, 5 }, m(cube).shape)
    end
  end)
end)

describe("recurrent layers", function()
  --- A layer's outputs and last states, computed step by step with a cell that has its weights.
  local function by_cells(layer, cell, x, suffix)
    for _, name in ipairs { "weight_ih", "weight_hh", "bias_ih", "bias_hh" } do
      cell[name] = layer[name .. (suffix or "_l0")]
    end
    local out, h, c = {}, nil, nil
    for t = 1, x.shape[1] do
      h, c = cell(x[t], h, c)
      out[t] = h
    end
    return flame.stack(out), h, c
  end
  local classes = { RNN = nn.RNNCell, LSTM = nn.LSTMCell, GRU = nn.GRUCell }

  it("are chains of their cells", function()
    local x = flame.randn(5, 2, 3)
    for name, cell in pairs(classes) do
      local layer = nn[name](3, 4)
      local y, h, c = layer(x)
      local y2, h2, c2 = by_cells(layer, cell(3, 4), x)
      assert.allclose(y2, y, { atol = 1e-6 })
      assert.allclose(h2, h[1], { atol = 1e-6 })
      if c then assert.allclose(c2, c[1], { atol = 1e-6 }) end
    end
  end)

  it("compute the gates as written in the books", function()
    local cell = nn.LSTMCell(2, 1)
    local x, h, c = flame.randn(1, 2), flame.randn(1, 1), flame.randn(1, 1)
    local g =
      flat(x:matmul(cell.weight_ih:t()) + cell.bias_ih + h:matmul(cell.weight_hh:t())
        + cell.bias_hh)
    local function s(v) return 1 / (1 + math.exp(-v)) end
    local function tanh(v) return 1 - 2 / (math.exp(2 * v) + 1) end
    local new = s(g[2]) * c:item() + s(g[1]) * tanh(g[3])
    local h2, c2 = cell(x, h, c)
    assert.close(new, c2:item(), 1e-5)
    assert.close(s(g[4]) * tanh(new), h2:item(), 1e-5)
    local gru = nn.GRUCell(2, 1)
    local a, b = flat(x:matmul(gru.weight_ih:t()) + gru.bias_ih),
      flat(h:matmul(gru.weight_hh:t()) + gru.bias_hh)
    local r, z = s(a[1] + b[1]), s(a[2] + b[2])
    local n = tanh(a[3] + r * b[3])
    assert.close((1 - z) * n + z * h:item(), gru(x, h):item(), 1e-5)
  end)

  it("go both ways, batch first, without a batch, and through several layers", function()
    local x = flame.randn(4, 2, 3)
    for name, cell in pairs(classes) do
      local both = nn[name](3, 5, { bidirectional = true })
      local y, h = both(x)
      local back = by_cells(both, cell(3, 5), x:flip(1), "_l0_reverse"):flip(1)
      assert.allclose(back, y:narrow(3, 6, 5), { atol = 1e-6 })
      assert.same({ 2, 2, 5 }, h.shape)
      local first = nn[name](3, 5, { batch_first = true, bidirectional = true })
      first:load_state_dict(both:state_dict())
      assert.allclose(y:transpose(1, 2), (first(x:transpose(1, 2))), { atol = 1e-6 })
      assert.allclose(y:select(2, 1), (both(x:select(2, 1))), { atol = 1e-6 })
      local deep = nn[name](3, 5, { num_layers = 2, dropout = 0.5, bias = false })
      deep:eval()
      local one, two = nn[name](3, 5, { bias = false }), nn[name](5, 5, { bias = false })
      one.weight_ih_l0, one.weight_hh_l0 = deep.weight_ih_l0, deep.weight_hh_l0
      two.weight_ih_l0, two.weight_hh_l0 = deep.weight_ih_l1, deep.weight_hh_l1
      assert.allclose((two((one(x)))), (deep(x)), { atol = 1e-6 })
    end
  end)

  it("name their parameters as PyTorch does, and train", function()
    local names = {}
    local l = nn.LSTM(3, 4, { num_layers = 2, bidirectional = true })
    for name in l:named_parameters() do names[#names + 1] = name end
    assert.equal(16, #names)
    assert.same({ "weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0",
      "weight_ih_l0_reverse" }, table.move(names, 1, 5, 1, {}))
    assert.same({ 16, 8 }, l.weight_ih_l1.shape)
    l(flame.randn(3, 2, 3)):square():sum():backward()
    for _, p in ipairs(l:parameters()) do assert.is_true(p.grad:abs():sum():item() > 0) end
    assert.has_error(function() l(flame.randn(3, 2, 4)) end)
    assert.has_error(function() l(flame.randn(3, 2, 3), flame.randn(1, 2, 4)) end)
  end)

  it("are differentiable", function()
    for name in pairs(classes) do
      local l = nn[name](2, 2):double()
      flame.gradcheck(function(x) return (l(x)) end, { randn(3, 1, 2) }, { order = 2 })
    end
  end)
end)

describe("PNG files", function()
  it("hold the bytes of an image", function()
    local path = os.tmpname() .. ".png"
    flame.save(path, flame.tensor { { 0, 1 }, { 0.5, 2 } })
    local f = assert(io.open(path, "rb"))
    local bytes = f:read("a")
    f:close()
    os.remove(path)
    assert.equal("\x89PNG\r\n\x1a\n", bytes:sub(1, 8))
    assert.equal("\0\0\0\2\0\0\0\2\8\0", bytes:sub(17, 26))
    flame.save(path, flame.tensor { { 0, 255 }, { 128, 255 } }:to("u8"))
    local again = flame.load(path)
    os.remove(path)
    assert.same({ { 0, 255 }, { 128, 255 } }, again:long():totable())
    assert.has_error(function() flame.save(path, flame.rand(5, 2, 2)) end)
  end)
end)
