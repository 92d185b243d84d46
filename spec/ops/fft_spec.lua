-- Fourier transforms: values against sums in plain Lua, inverses, gradients and errors.
local flame = require "flame"

local fails = require("spec.support.helper").raises
local function randn(...) return flame.randn({ ... }, { dtype = "f64" }) end

--- The transform of a list of {re, im} by its definition, without a factor; sign: -1 forward.
local function sums(x, sign)
  local n, out = #x, {}
  for k = 0, n - 1 do
    local re, im = 0, 0
    for j = 0, n - 1 do
      local a = sign * 2 * math.pi * (j * k % n) / n
      re = re + x[j + 1][1] * math.cos(a) - x[j + 1][2] * math.sin(a)
      im = im + x[j + 1][1] * math.sin(a) + x[j + 1][2] * math.cos(a)
    end
    out[k + 1] = { re, im }
  end
  return out
end
local close = { rtol = 1e-10, atol = 1e-10 }
local lengths = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 15, 16, 21, 25, 32, 37, 49, 64, 74,
  97, 100, 128 }

describe("one axis", function()
  it("fft and ifft are the sums that define them", function()
    for _, n in ipairs(lengths) do
      local x = randn(n, 2)
      local list = x:totable()
      assert.allclose(sums(list, -1), x:fft(), close)
      assert.allclose(sums(list, 1), x:ifft():mul(n), close)
    end
  end)
  it("rfft is the first half of fft, irfft brings it back", function()
    for _, n in ipairs(lengths) do
      local x = randn(3, n)
      local half = x:rfft()
      assert.same({ 3, n // 2 + 1, 2 }, half.shape)
      local whole = flame.stack({ x, x * 0 }, -1):fft()
      assert.allclose(whole:narrow(2, 1, n // 2 + 1), half, close)
      assert.allclose(x, half:irfft(n), close)
    end
  end)
  it("long lengths of every kind come back", function()
    for _, n in ipairs { 2048, 4096, 2187, 5000, 4099, 8198, 20011 } do
      local x = randn(n, 2)
      local y = x:fft()
      assert.allclose(x, y:ifft(), close)
      assert.allclose((x * x):sum():item() * n, (y * y):sum():item(), { rtol = 1e-12 })
      local r = randn(n)
      assert.allclose(r, r:rfft():irfft(n), close)
      assert.allclose(flame.stack({ r, r * 0 }, -1):fft():narrow(1, 1, n // 2 + 1), r:rfft(),
        { rtol = 1e-9, atol = 1e-9 })
    end
  end)
  it("any axis, any strides, cut and filled", function()
    local x = randn(4, 3, 5, 2)
    for d = 1, 3 do
      assert.allclose(x:movedim(d, 3):fft():movedim(3, d), x:fft(nil, d), close)
      assert.allclose(x:narrow(d, 1, 2):fft(nil, d), x:fft(2, d), close)
      local zeros = flame.zeros_like(x)
      assert.allclose(flame.cat({ x, zeros }, d):fft(nil, d),
        x:fft { n = 2 * x.shape[d], dim = d - 4 }, close)
    end
    assert.allclose(x:permute(2, 1, 3, 4):contiguous():fft(), x:permute(2, 1, 3, 4):fft(), close)
  end)
  it("norms divide as in torch.fft", function()
    local x = randn(6, 2)
    local y = x:fft()
    assert.allclose(y / 6, x:fft { norm = "forward" }, close)
    assert.allclose(y / math.sqrt(6), x:fft { norm = "ortho" }, close)
    assert.allclose(x:ifft() * 6, x:ifft { norm = "forward" }, close)
    assert.allclose(x, x:fft { norm = "ortho" }:ifft { norm = "ortho" }, close)
  end)
  it("f32 stays f32, integers become f32", function()
    local x = flame.randn(1000)
    assert.equal("f32", x:rfft().dtype)
    assert.allclose(x, x:rfft():irfft(), { rtol = 1e-5, atol = 1e-5 })
    assert.allclose({ { 6, 0 }, { -2, 0 } }, flame.tensor({ 2, 4 }, { dtype = "i32" }):rfft())
  end)
  it("empty batches", function()
    assert.same({ 0, 4, 2 }, flame.zeros(0, 4, 2):fft().shape)
    assert.same({ 0, 3, 2 }, flame.zeros(0, 4):rfft().shape)
  end)
  it("says what does not fit", function()
    fails("fft: x has shape (4), need complex numbers", flame.fft, flame.ones(4))
    fails("rfft: x is f16, need f32 or f64", flame.rfft, flame.ones(4):half())
    fails("rfft: n = 0, need at least 1", flame.rfft, flame.ones(4), 0)
    fails("irfft: n = 0, need at least 1", flame.irfft, flame.ones(1, 2))
    fails("rfft: dim 3 is out of range, there are 2 axes of numbers", flame.rfft,
      flame.ones(2, 2), nil, 3)
    fails('rfft: norm must be "backward", "ortho" or "forward", got string \'no\'', flame.rfft,
      flame.ones(4), { norm = "no" })
    fails("rfft: x is 0-d", flame.rfft, flame.tensor(1))
    fails("rfft: 4 arguments at most, got 6", flame.rfft, flame.ones(4), 1, 1, nil, 1, 1)
  end)
end)

describe("several axes", function()
  it("are one after the other", function()
    local x = randn(3, 4, 5, 2)
    assert.allclose(x:fft(nil, 2):fft(nil, 3), x:fft2(), close)
    assert.allclose(x:fft(nil, 1):fft(nil, 2):fft(nil, 3), x:fftn(), close)
    assert.allclose(x, x:fftn():ifftn(), close)
    assert.allclose(x, x:fft2(nil, { 1, 3 }):ifft2(nil, { 1, 3 }), close)
    for _, norm in ipairs { "backward", "ortho", "forward" } do
      assert.allclose(x:fft(nil, 2, norm):fft(nil, 3, norm), x:fft2(nil, nil, norm), close)
      assert.allclose(x:ifft(nil, 2, norm):ifft(nil, 3, norm), x:ifft2(nil, nil, norm), close)
    end
    local r = randn(3, 4, 5)
    assert.allclose(r, r:rfftn():irfftn { 3, 4, 5 }, close)
    assert.allclose(r, r:rfft2():irfft2 { 4, 5 }, close)
    assert.allclose(r:rfft():fft(nil, 1), r:rfftn(nil, { 1, 3 }), close)
    fails("fftn: dim names axis 1 twice", flame.fftn, x, nil, { 1, 1 })
    fails("fftn: s has 2 lengths for 1 axes", flame.fftn, x, { 3, 3 }, { 1 })
  end)
end)

describe("gradients", function()
  it("are transforms, to second order", function()
    for _, n in ipairs { 5, 4, 6 } do
      for _, f in ipairs { "fft", "ifft", "irfft" } do
        assert.is_true(flame.gradcheck(function(x) return x[f](x, n, 1, "ortho") end,
          { randn(4, 2, 2) }, { order = 2 }))
      end
      assert.is_true(flame.gradcheck(function(x) return x:rfft(n, 1) end, { randn(5, 2) },
        { order = 2 }))
      assert.is_true(flame.gradcheck(function(x) return x:ifft2(nil, nil, "ortho") end,
        { randn(2, n, 2, 2) }, { order = 2 }))
      assert.is_true(flame.gradcheck(function(x) return x:rfft() * x:rfft() end, { randn(2, n) },
        { order = 2 }))
    end
    assert.is_true(flame.gradcheck(function(x) return x:rfftn():irfftn { 2, 4 } end,
      { randn(2, 3) }))
  end)
  it("make a filter trainable", function()
    local x, filter = randn(2, 16), flame.ones({ 9, 1 }, { dtype = "f64", requires_grad = true })
    local y = (x:rfft() * filter):irfft(16);
    (y * y):sum():backward()
    assert.is_true(filter.grad:isfinite():all():item())
    assert.allclose(x, y:detach(), close)
  end)
end)

describe("order, frequencies and windows", function()
  it("of known sizes", function()
    assert.allclose({ 0, 0.2, 0.4, -0.4, -0.2 }, flame.fftfreq(5))
    assert.allclose({ 0, 0.5, -1, -0.5 }, flame.fftfreq(4, 0.5))
    assert.allclose({ 0, 0.2, 0.4 }, flame.rfftfreq(5))
    assert.allclose({ -0.4, -0.2, 0, 0.2, 0.4 }, flame.fftfreq(5):fftshift())
    assert.allclose(flame.fftfreq(5), flame.fftfreq(5):fftshift():ifftshift())
    local x = randn(3, 4, 2)
    assert.same(x:roll({ 1, 2 }, { 1, 2 }):totable(), x:fftshift():totable())
    assert.allclose({ 0, 0.5, 1, 0.5 }, flame.hann_window(4))
    assert.allclose({ 0, 0.75, 0.75, 0 }, flame.hann_window(4, false))
    assert.allclose({ 0.08, 0.54, 1, 0.54 }, flame.hamming_window(4))
    assert.allclose({ 0, 0.34, 1, 0.34 }, flame.blackman_window(4))
  end)
end)

describe("conjugates and parts", function()
  it("are of the last axis where that holds complex numbers, and leave real numbers as they are", function()
    local z = flame.tensor({ { 1, 2 }, { -3, 4 } }, { dtype = "f64" })
    local conj = { { 1, -2 }, { -3, -4 } }
    for _, name in ipairs { "conj", "conj_physical" } do
      assert.same(conj, z[name](z):totable())
      assert.same(z:totable(), z[name](z, { complex = false }):totable())
      for _, x in ipairs { flame.ones(2), flame.ones(2, 3), flame.tensor(3.5),
          flame.zeros(0), z:long() } do
        assert.same(x:totable(), x[name](x):totable())
        assert.equal(x.dtype, x[name](x).dtype)
      end
    end
    assert.same({ { 1, -3 }, { 2, 4 } }, { z:real():totable(), z:imag():totable() })
    assert.same(z:totable(), z:real({ complex = false }):totable())
    assert.same({ 1, 1, 1 }, flame.real(flame.ones(3)):totable())
    local long = randn(5, 2)      -- ifft(x) = conj(fft(conj(x))) / n
    assert.allclose(long:ifft(), long:conj():fft():conj() / 5, close)
    for _, name in ipairs { "resolve_conj", "resolve_neg" } do
      assert.same(z:totable(), z[name](z):totable())
    end
    for _, name in ipairs { "conj", "real", "resolve_conj", "resolve_neg" } do
      local y = z[name](z)
      y:zero_()                                          -- a separate value
    end
    assert.same({ 1, 2 }, z[1]:totable())
  end)
  it("have gradients, and refuse what can not be", function()
    local x = randn(3, 2)
    for _, name in ipairs { "conj", "real", "imag", "conj_physical", "resolve_conj",
        "resolve_neg" } do
      assert.is_true(flame.gradcheck(function(v) return v[name](v) end, { x }, { order = 2 }))
      assert.is_true(x:requires_grad_()[name](x).requires_grad)
    end
    fails("imag: x has shape (3) and holds real numbers", flame.imag, flame.ones(3))
    fails("conj: x has shape (2, 3), need complex numbers", flame.conj, flame.ones(2, 3),
      { complex = true })
    fails("complex must be true or false, got number", flame.conj, x, { complex = 1 })
    fails("real: no option 'complx'", flame.real, x, { complx = true })
    fails("conj: x must be a tensor", flame.conj, 3)
  end)
end)
