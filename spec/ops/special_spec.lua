--- lua/flame/ops/special.lua: special functions, functions of integers, exponents and mantissas;
-- and elementwise functions of ops/statistics.lua at the ends of their ranges. Expected values come
-- from sums and integrals in plain Lua.
local raises = require("spec.support.helper").raises
local flame = require "flame"
local T = flame.tensor
local huge, nan = math.huge, 0 / 0
local function d(list) return T(list, { dtype = "f64" }) end
local function near(expected, x, tol)
  for i, v in ipairs(x:reshape(-1):totable()) do
    local e = expected[i]
    if not (e == v or e ~= e and v ~= v
        or math.abs(v - e) <= (tol or 1e-12) * math.max(math.abs(e), 1e-300)) then
      error(("element %d is %.17g, expected %.17g"):format(i, v, e), 2)
    end
  end
  assert.equal(#expected, x:numel())
end
--- The integral of f from a to b by Simpson's rule with n intervals.
local function integral(f, a, b, n)
  local h, sum = (b - a) / n, f(a) + f(b)
  for i = 1, n - 1 do sum = sum + f(a + i * h) * (i % 2 == 1 and 4 or 2) end
  return sum * h / 3
end

describe("Bessel functions", function()
  --- exp(-|x|) times the Bessel function I of order n, as the mean of exp(x cos t) cos(n t) over t;
  --- this is accurate to the last digits since the function is periodic.
  local function bessel(n, x)
    local sum, steps = 0.0, 400
    for i = 0, steps - 1 do
      local t = 2 * math.pi * i / steps
      sum = sum + math.exp(x * math.cos(t) - math.abs(x)) * math.cos(n * t)
    end
    return sum / steps
  end
  local points = { 0.1, -0.5, 1, 3.75, -8, 12, 17.9, 18.1, 25, 60, -90 }
  it("of order 0 and 1 are right on both sides of where the series change", function()
    for n = 0, 1 do
      local scaled, plain = {}, {}
      for i, x in ipairs(points) do
        scaled[i] = bessel(n, x)
        plain[i] = scaled[i] * math.exp(math.abs(x))
      end
      near(scaled, flame["i" .. n .. "e"](d(points)), 1e-13)
      near(plain, flame["i" .. n](d(points)), 2e-13)
    end
  end)
  it("know 0, infinity and NaN", function()
    near({ 1, huge, nan }, d({ 0, -huge, nan }):i0())
    near({ 0, 1 }, d({ huge, 0 }):i0e())
    near({ 0, huge, -huge }, d({ 0, huge, -huge }):i1())
  end)
  it("are each other's derivatives", function()
    local x = d({ 0.3, -2, 20 }):requires_grad_(true)
    x:i0():sum():backward()
    near(x.grad:totable(), x:detach():i1(), 1e-12)
    assert.is_true(flame.gradcheck(function(v) return v:i1e() end, { d({ 0.3, -2, 5 }) }))
  end)
  it("stand in flame.special under torch's names", function()
    assert.equal(flame.i0, flame.special.modified_bessel_i0)
    assert.equal(flame.i1, flame.special.modified_bessel_i1)
    for name, of in pairs { gammaln = "lgamma", psi = "digamma", expit = "sigmoid",
      multigammaln = "mvlgamma", gammainc = "igamma",
      gammaincc = "igammac" } do assert.equal(flame[of], flame.special[name]) end
  end)
end)

describe("zeta and polygamma", function()
  it("agree with sums", function()
    near({ math.pi ^ 2 / 6, math.pi ^ 4 / 90 }, flame.zeta(d { 2, 4 }, 1))
    local sum = 0.0
    for k = 20000, 0, -1 do sum = sum + (k + 2.5) ^ -3 end
    near({ sum + 0.5 / 20003 ^ 2 }, flame.zeta(d { 3 }, 2.5), 1e-9)
    near({ huge, nan, huge }, flame.zeta(d { 1, 0.5, 2 }, d { 1, 1, -2 }))
  end)
  it("polygamma is the derivative of the one before", function()
    local x = d { 0.5, 1, 3, 20 }
    near({ -14 * 1.2020569031595942, -2 * 1.2020569031595942 }, flame.polygamma(2, d { 0.5, 1 }))
    for n = 0, 3 do
      local v = x:clone():requires_grad_(true)
      flame.polygamma(n, v):sum():backward()
      near(flame.polygamma(n + 1, x):totable(), v.grad, 1e-11)
    end
    assert.equal(flame.polygamma(2, x):totable()[3], x:polygamma(2):totable()[3])
    raises("polygamma: n = -1 is negative", flame.polygamma, -1, x)
  end)
  it("mvlgamma is a sum of lgamma", function()
    near({ math.log(math.pi) / 2 + 0.0 - 0.12078223763524522 }, flame.mvlgamma(d { 2 }, 2))
    raises("mvlgamma: p = 0, need at least 1", flame.mvlgamma, d { 2 }, 0)
  end)
  it("the incomplete gamma functions add up to 1 and agree with the integral", function()
    for _, case in ipairs { { 2.5, 1.0 }, { 2.5, 6.0 }, { 9, 3.5 }, { 30, 35 }, { 1, 0.25 } } do
      local a, x = case[1], case[2]
      local whole = flame.lgamma(d { a }):exp():item()
      local part = integral(function(t)
        return t == 0 and (a == 1 and 1 or 0) or t ^ (a - 1) * math.exp(-t)
      end, 0, x, 4000)
      near({ part / whole }, flame.igamma(d { a }, d { x }), 1e-8)
      near({ 1 }, flame.igamma(d { a }, d { x }) + flame.igammac(d { a }, d { x }), 1e-14)
    end
    near({ 0, 1, 1, nan }, flame.igamma(d { 1, 1, 0, -1 }, d { 0, huge, 2, 1 }))
    assert.is_true(flame.gradcheck(function(x) return flame.igamma(d { 2, 5 }, x) end,
      { d { 1, 7 } }))
  end)
end)

describe("functions of the normal distribution", function()
  it("ndtr, log_ndtr and ndtri agree with the integral, also far out", function()
    local function tail(x)
      return integral(function(t) return math.exp(-t * t / 2) end, x - 12, x,
        6000) / math.sqrt(2 * math.pi)
    end
    local points, share, log = { -9, -3, -1.5, -0.5, 0.25, 2 }, {}, {}
    for i, x in ipairs(points) do
      share[i] = tail(x)
      log[i] = math.log(share[i])
    end
    near(share, d(points):ndtr(), 1e-9)
    near(log, d(points):log_ndtr(), 1e-9)
    near(points, d(share):ndtri(), 1e-9)
    near({ -huge, huge, 0, nan }, d({ 0, 1, 0.5, 1.5 }):ndtri(), 1e-15)
    assert.is_true(flame.gradcheck(function(p) return p:ndtri() end, { d { 0.01, 0.4, 0.9 } }))
    assert.is_true(flame.gradcheck(function(p) return p:log_ndtr() end,
      { d { -20, -1.5, 0.4, 3 } }))
  end)
  it("erfcx does not overflow", function()
    near({ 1, 1 / (1e10 * math.sqrt(math.pi)), huge }, d({ 0, 1e10, -30 }):erfcx(), 1e-14)
    near({ math.exp(1) * 0.15729920705028513, 0.056140992743822584 }, d({ 1, 10 }):erfcx(), 1e-14)
    local _, slope = flame.vjp(flame.erfcx, d { -6, -30, -huge }, d { 1, 1, 1 })
    near({ -24 * math.exp(36) - 2 / math.sqrt(math.pi), -huge, -huge }, slope, 1e-14)
  end)
end)

describe("integers", function()
  local function plain(a, b) while b ~= 0 do a, b = b, math.fmod(a, b) end return math.abs(a) end
  it("gcd and lcm", function()
    local a, b, g, l = { 12, -18, 0, 7, 0, 100 }, { 8, 12, 5, -21, 0, 75 }, {}, {}
    for i = 1, #a do
      g[i] = plain(a[i], b[i])
      l[i] = g[i] == 0 and 0 or math.abs(a[i] // g[i] * b[i])
    end
    for _, dtype in ipairs { "i64", "i32", "i16", "i8" } do
      local x, y = T(a, { dtype = dtype }), T(b, { dtype = dtype })
      assert.same(g, flame.gcd(x, y):totable())
      if dtype ~= "i8" then assert.same(l, flame.lcm(x, y):totable()) end
    end
    assert.same({ 4, 2 }, flame.gcd(T({ 8, 6 }, { dtype = "u8" }), 4):totable())
    raises("gcd: x is f32, need integers", flame.gcd, T { 1 }, T { 2 })
  end)
  it("shifts", function()
    local x = T({ 5, -5, 1 }, { dtype = "i32" })
    assert.same({ 20, -20, 4 }, x:bitwise_left_shift(2):totable())
    assert.same({ 2, -3, 0 }, x:bitwise_right_shift(T({ 1, 1, 1 }, { dtype = "i32" })):totable())
    assert.same({ { 20, -20, 4 }, { 2, -3, 0 }, { 8, 2 }, { 1, 0 } }, { (x << 2):totable(),
      (x >> 1):totable(), (1 << T({ 3, 1 }, { dtype = "i32" })):totable(),
      (T({ 3, 1 }, { dtype = "i32" }) >> 1):totable() })
    raises("bitwise_left_shift: x is f32, need integers", function() return T { 1 } << 1 end)
    raises("bitwise_right_shift: y must be a tensor or an integer", function() return x >> {} end)
  end)
end)

describe("floats taken apart", function()
  it("frexp gives mantissa and exponent", function()
    local m, e = flame.frexp(T({ 0, 1, -0.75, 3, 2.0 ^ -140, huge }))
    assert.same({ 0, 0.5, -0.75, 0.75, 0.5, huge }, m:totable())
    assert.same({ 0, 1, 0, 2, -139, 0 }, e:totable())
    assert.equal("i32", e.dtype)
    local x = d({ 3 }):requires_grad_(true)
    flame.frexp(x):sum():backward()
    assert.same({ 0.25 }, x.grad:totable())
  end)
  it("nextafter goes one step", function()
    local tiny, step = 2.0 ^ -149, 2.0 ^ -23
    local x = T { 0, 1, 1, tiny, 2.0 ^ -126, huge, 1, -2 }
    local y = T { 1, 2, 0, 0, 0, 0, 1, 0 }
    assert.same({ tiny, 1 + step, 1 - step / 2, 0, 2.0 ^ -126 - tiny, 0x1.fffffep127, 1,
      -2 + step }, flame.nextafter(x, y):totable())
    assert.same({ 5e-324, 0x1.fffffffffffffp1023 },
      flame.nextafter(d { 0, huge }, d { 1, 0 }):totable())
    assert.equal("f64", flame.nextafter(T { 1 }, d { 1 }).dtype)
  end)
end)

describe("elementwise functions at their edges", function()
  it("work in the common dtype of both operands", function()
    local x, y = d { 1.25 }, T { 3.1 }
    near({ 1.25 * math.log(3.0999999046325684) }, x:xlogy(y), 1e-15)
    near({ 1.25 * math.log(4.0999999046325684) }, x:xlog1py(y), 1e-15)
    near({ math.log(2 ^ 1.25 + 2 ^ 3.0999999046325684, 2) }, x:logaddexp2(y), 1e-15)
    assert.equal("f16", flame.xlogy(T({ 2 }, { dtype = "f16" }), T({ 3 }, { dtype = "i8" })).dtype)
  end)
  it("logaddexp gives the gradient to the larger where one is infinite", function()
    for _, name in ipairs { "logaddexp", "logaddexp2" } do
      local x, y = d({ -huge, 1, 3 }):requires_grad_(true),
        d({ huge, -huge, 3 }):requires_grad_(true)
      flame[name](x, y):sum():backward()
      assert.same({ 0, 1, 0.5 }, x.grad:totable())
      assert.same({ 1, 0, 0.5 }, y.grad:totable())
      assert.is_true(flame.gradcheck(flame[name], { d { 1, 3 }, d { 1, -2 } }, { order = 2 }))
    end
  end)
  it("addcmul and addcdiv do not round a narrow product before a wide sum", function()
    local a, b = 1.1000000238418579, 3.2999999523162842             -- 1.1 and 3.3 rounded to f32
    near({ 1 + a * b }, d({ 1 }):addcmul(T { 1.1 }, T { 3.3 }), 1e-15)
    near({ 1 - a / b }, d({ 1 }):addcdiv(T { 1.1 }, T { 3.3 }, { value = -1 }), 1e-15)
  end)
  it("logaddexp with a number keeps the dtype's digits", function()
    near({ math.log(math.exp(1) + math.exp(0.3)) }, d({ 1 }):logaddexp(0.3), 1e-15)
    near({ math.log(math.exp(1) + math.exp(0.3)) }, flame.logaddexp(0.3, d { 1 }), 1e-15)
  end)
  it("logit of integers and outside 0 to 1", function()
    near({ nan, huge }, T({ 2, 1 }, { dtype = "u8" }):logit())
    local x = d({ 0.25, 0, -1 }):requires_grad_(true)
    x:logit():sum():backward()
    near({ 16 / 3, huge, nan }, x.grad)
  end)
  it("sinc is flat at 0", function()
    local x = T({ 1e-40, 1e-10, 0, -1e-3 }):requires_grad_(true)
    local y = x:sinc()
    near({ 1, 1, 1, 1 }, y, 2e-6)
    y:sum():backward()
    for i, v in ipairs(x:totable()) do
      assert.close(-math.pi ^ 2 / 3 * v, x.grad:totable()[i], 1e-8)
    end
    assert.is_true(flame.gradcheck(flame.sinc, { d { 0.05, 0.0999, 0.1001, -0.7, 3.3 } },
      { order = 2 }))
  end)
  it("fmax and fmin let NaN give way", function()
    near({ 1, 2, nan, 3 }, flame.fmax(T { 1, nan, nan, 3 }, T { nan, 2, nan, -3 }))
    near({ 1, 2, nan, -3 }, flame.fmin(T { 1, nan, nan, 3 }, T { nan, 2, nan, -3 }))
  end)
  it("raise where PyTorch does", function()
    raises("heaviside: x is f64 and values f32", flame.heaviside, d { 0 }, T { 1 })
    raises("positive: dtype bool is not supported", flame.positive, T { true })
    raises("relu6: dtype bool is not supported", flame.relu6, T { true })
    raises("hardtanh: dtype bool is not supported", flame.hardtanh, T { true })
    raises("outer: x has shape (1, 1), need one axis", flame.outer, T { { 1 } }, T { 1 })
    raises("nanmean: dtype i64 is not supported", flame.nanmean, T({ 1 }, { dtype = "i64" }))
  end)
end)
