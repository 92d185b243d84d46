--- Accuracy of functions on the CPU: f32 functions at 2^20 bit patterns (subnormals, infinities and
--- NaN among them) and near the ends of their ranges are compared with the same function in f64;
--- the error is in units in the last place. tools/ulp.c measures the C definitions
--- (docs/accuracy.md), this spec the vector loops that are compiled from them.
require "spec.support.helper"
local flame = require "flame"

--- A tensor of 2^20 f32 bit patterns over the whole range, and of the neighbours of special values.
local function patterns()
  local parts = {}
  for i = 0, 2 ^ 20 - 1 do parts[i + 1] = string.pack("<I4", i * 4096 + i % 4093) end
  for _, edge in ipairs { 0.0, 1.0, -1.0, 0.5, 88.72284, -87.33655, -103.97208, 128.0, -126.0,
    math.pi, math.pi / 2, 3.4e38, 9.0, 4.0, 2.0 ^ -126 } do
    local bits = string.unpack("<I4", string.pack("<f", edge))
    for k = -64, 64 do parts[#parts + 1] = string.pack("<I4", (bits + k) & 0xffffffff) end
  end
  return flame.from_bytes(table.concat(parts), { #parts }, "f32"), #parts
end

--- The largest error of v (f32) against r (f64) in units in the last place of r, and its position.
--- Infinity is taken as 2^128; a wrong NaN counts as an infinite error.
local function worst(v, r)
  v = v:double()
  local largest = 2.0 ^ 128
  local w = flame.where(v:isinf(), v:sign() * largest, v)
  r = flame.where(r:abs():ge(largest), r:sign() * largest, r)
  local _, e = flame.frexp(r)
  local ulp = (e:double():clamp({ min = -125, max = 128 }) - 24):exp2()
  local off = flame.where(v:isnan():logical_and(r:isnan()), 0, (w - r):abs() / ulp)
  off = flame.where(off:isnan(), math.huge, off)
  return off:max(1)
end

describe("f32 loops of the CPU", function()
  local x, n = patterns()
  for _, name in ipairs { "exp", "log", "sin", "cos", "tanh", "erf" } do
    it(name .. " is within 2 ulp over all kinds of values", function()
      local off, at = worst(x[name](x), x:double()[name](x:double()))
      assert.is_true(off:item() <= 2, ("%g ulp at %.9g"):format(off:item(), x[at:item()]:item()))
    end)
  end
  for _, name in ipairs { "exp2", "expm1", "log2", "log10", "log1p", "asin", "acos", "atan", "sinh",
      "cosh", "sqrt", "cbrt" } do
    it(name .. " is within 2.5 ulp", function()
      local off, at = worst(x[name](x), x:double()[name](x:double()))
      assert.is_true(off:item() <= 2.5, ("%g ulp at %.9g"):format(off:item(), x[at:item()]:item()))
    end)
  end
  it("fmod is exact, short and long quotients", function()
    local y = flame.from_bytes(x:flip(1):contiguous():bytes(), { n }, "f32")
    for _, z in ipairs { y, x * 0.37, flame.full({ n }, 2.5) } do
      local got, exact = x:fmod(z):double(), x:double():fmod(z:double())
      local same = got:eq(exact):logical_or(got:isnan():logical_and(exact:isnan()))
      assert.is_true(same:all():item())
    end
  end)
end)

describe("f64 loops of the CPU", function()
  it("keep subnormal results of sigmoid, which are e^x there", function()
    local x = flame.tensor({ -700, -709.5, -715, -730, -744 }, { dtype = "f64" })
    local y, e = x:sigmoid(), x:exp()
    assert.is_true((y - e):abs():le(e * 1e-15 + 5e-324):all():item())
    assert.same({ 0, 0.5, 1, 1 },
      flame.tensor({ -math.huge, -0.0, 800, math.huge }, { dtype = "f64" }):sigmoid():totable())
  end)
end)
