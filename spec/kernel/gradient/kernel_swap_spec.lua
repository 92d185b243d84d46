--- Sums, maxima and minima of real numbers by a loop around atomicCAS are atomic operations to a
--- gradient. A loop that does something else is refused.
local flame = require "flame"
local helper = dofile("spec/support/helper.lua")

--- A kernel in which thread i changes sums[i % 2] by x[i] * x[i]; value: what atomicCAS stores, of
--- val and was; use: what is done with the result, r.
local function kernel(value, use, o)
  o = o or {}
  local bits = o.unsigned and { "unsigned", "__uint_as_float", "__float_as_uint" }
    or o.f32 and { "int", "__int_as_float", "__float_as_int" }
    or { "unsigned long long", "__longlong_as_double", "__double_as_longlong" }
  return flame.kernel { block = 8, grid = 1, inout = { "sums" }, shape = { 8 },
    source = ([[
__device__ REAL change(REAL *address, REAL val, const REAL *more) {
  BITS *bits = (BITS *)address;
  BITS old = *bits, assumed;
  do {
    assumed = old;
    EXTRA
    old = atomicCAS(bits, assumed, TO(VALUE));
  } while (TEST);
  return OF(old);
}
__global__ void k(const REAL *x, REAL *sums, REAL *y, int n) {
  int i = threadIdx.x;
  REAL r = 0;
  HEAD
  USE
  TAIL
  y[i] = r + x[i];
}]]):gsub("%u%u+", { VALUE = value, EXTRA = o.extra or "", TEST = o.test or "assumed != old",
      USE = use or "change(&sums[i % 2], x[i] * x[i], x);",
      HEAD = o.head or "", TAIL = o.tail or "",
      REAL = o.f32 and "float" or "double", BITS = bits[1], OF = bits[2], TO = bits[3] }) }
end

local function check(k, dtype)
  local x = (flame.arange(8):to("f64") * 0.17 + 0.23):to(dtype or "f64")
  local sums = flame.tensor({ 0.6, 0.4 }, { dtype = dtype or "f64" })
  return flame.gradcheck(function(a, b) local s, y = k(a, b, 8) return s, y end, { x, sums },
    { order = 1, rtol = dtype and 2e-2 or 1e-5, atol = dtype and 2e-2 or 1e-6,
      eps = dtype and 1e-2 or nil })
end

describe("a loop around atomicCAS", function()
  for name, value in pairs { ["a sum"] = "val + __longlong_as_double(assumed)",
      ["a sum, the element first"] = "__longlong_as_double(assumed) + val",
      ["a difference"] = "__longlong_as_double(assumed) - val",
      ["a maximum"] = "fmax(val, __longlong_as_double(assumed))",
      ["a minimum"] = "fmin(__longlong_as_double(assumed), val)" } do
    it("is " .. name .. " to a gradient", function()
      local k = kernel(value)
      assert.is_true(check(k))
      assert.is_nil(k:source("adjoint"):find("atomicCAS(&", 1, true))
    end)
  end

  it("is one in floats, by signed and unsigned bits, and in shared memory", function()
    assert.is_true(check(kernel("val + __int_as_float(assumed)", nil, { f32 = true }), "f32"))
    assert.is_true(check(kernel("val + __uint_as_float(assumed)", nil,
      { f32 = true, unsigned = true }), "f32"))
    assert.is_true(check(kernel("val + __longlong_as_double(assumed)",
      "change(&s[i % 4], x[i] * x[i], x);", {
        head = "__shared__ double s[4]; if (i < 4) s[i] = sums[i % 2]; __syncthreads();",
        tail = "__syncthreads(); r = s[i / 2] * s[i / 2];" })))
  end)

  it("may have its sums read again after a barrier", function()
    assert.is_true(check(kernel("val + __longlong_as_double(assumed)", nil,
      { tail = "__syncthreads(); r = sin(sums[i % 2]) * x[i];" })))
  end)

  it("is refused where it does something else, or what was there is used", function()
    for name, k in pairs {
      product = kernel("val * __longlong_as_double(assumed)"),
      ["the other difference"] = kernel("val - __longlong_as_double(assumed)"),
      ["the result is used"] = kernel("val + __longlong_as_double(assumed)",
        "r = change(&sums[i % 2], x[i] * x[i], x);"),
      ["the element twice"] = kernel("__longlong_as_double(assumed) + __longlong_as_double(assumed)"),
      ["a value of the element"] = kernel("val * was + __longlong_as_double(assumed)", nil,
        { extra = "double was = __longlong_as_double(assumed);" }),
      ["one more write"] = kernel("val + __longlong_as_double(assumed)", nil,
        { extra = "address[1 - (threadIdx.x & 1) * 2 + (threadIdx.x & 1)] = val;" }),
      ["another condition"] = kernel("val + __longlong_as_double(assumed)", nil,
        { test = "assumed != old && val < 9.0" }),
      ["a maximum that is read"] = kernel("fmax(val, __longlong_as_double(assumed))", nil,
        { tail = "__syncthreads(); r = sin(sums[i % 2]) * x[i];" }) } do
      local e = helper.message(check, k)
      assert.truthy(e:find "cannot be differentiated", name .. ": " .. tostring(e))
    end
  end)
end)
