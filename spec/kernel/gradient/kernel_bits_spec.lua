--- Bits of real numbers of which at most the sign changes, or which are only compared; unions whose
--- members are numbers of one type; a reciprocal that is rounded towards 0. Values against plain
--- Lua, gradients against central differences, on the default device.
local flame = require "flame"
local helper = require "spec.support.helper"
local judged = dofile("spec/kernel/kernel_judged.lua")
local proof = dofile("spec/kernel/kernel_proof.lua")

local X <const> = { 1.5, -2.5, 0.75, -4.25, 3 }
local function row() return flame.tensor(X, { dtype = "f64" }) end

local function made(body, head)
  return flame.kernel { shape = { #X }, source = (head or "") ..
    "__global__ void k(const double *x, double *y, int n) {\n  int i = threadIdx.x;\n" ..
    "  if (i >= n) return;\n  " .. body .. "\n}" }
end

local function check(k, want, body)
  local got = k(row(), #X):totable()
  for i, v in ipairs(X) do
    assert.equal(want(v, i - 1), got[i], ("%s: element %d"):format(body, i))
  end
  proof.check(function(v) return k(v, #X) end, { row() })
  judged.compiles(k)
end

local BITS <const>, REAL <const> = "__double_as_longlong(", "__longlong_as_double("
local function odd(v, n) return n % 2 == 1 and -v or v end

describe("the bits of a real number whose sign changes", function()
  for body, want in pairs {
    ["y[i] = R B x[i] * x[i]) ^ (long long)i << 63);"] = function(v, i) return odd(v * v, i) end,
    ["y[i] = R (unsigned long long)(0x15u >> i) << 63 ^ B x[i]));"] = function(v, i)
      return odd(v, 0x15 >> i)
    end,
    ["y[i] = R B x[i]) & 0x7fffffffffffffffll);"] = math.abs,
    ["y[i] = R 0x7fffffffffffffffull & B 3 * x[i])) * x[i];"] = function(v)
      return math.abs(3 * v) * v
    end,
    ["y[i] = R B x[i]) | 0x8000000000000000ull);"] = function(v) return -math.abs(v) end,
    ["y[i] = R B x[i] * 2) ^ 0x8000000000000000ull);"] = function(v) return -2 * v end,
    ["y[i] = R B x[i]));"] = function(v) return v end,
    ["double v = x[i] * x[0]; y[i] = *(double *)&v * R *(long long *)&v ^ 1ll << 63);"] = function(v)
      return v * 1.5 * -(v * 1.5)
    end,
  } do
    it("keep its gradient: " .. body, function()
      check(made((body:gsub("%f[%w]R ", REAL):gsub("%f[%w]B ", BITS))), want, body)
    end)
  end

  it("keep its gradient in f32", function()
    local k = flame.kernel("__global__ void k(const float *x, float *y, int n) { int i = threadIdx.x; if (i < n) " ..
      "y[i] = __uint_as_float(__float_as_uint(x[i] * x[i]) ^ (0x25u >> i) << 31) + __int_as_float(0x7fffffff & __float_as_int(x[i])); }")
    local x = flame.tensor(X, { requires_grad = true })
    local y = k(x)
    y:sum():backward()
    for j, v in ipairs(X) do
      assert.equal(odd(v * v, 0x25 >> (j - 1)) + math.abs(v), y:totable()[j])
      assert.equal(odd(2 * v, 0x25 >> (j - 1)) + (v > 0 and 1 or -1), x.grad:totable()[j])
    end
  end)

  it("are zero, infinite and NaN as they are", function()
    local k = made(("y[i] = %s%sx[i]) ^ (long long)i << 63);"):format(REAL, BITS))
    local list <const> = { 0, 0, math.huge, -math.huge, 0 / 0 }
    local got = k(flame.tensor(list, { dtype = "f64" }), 5):totable()
    assert.same({ math.huge, -math.huge, math.huge, math.huge },
      { 1 / got[1], 1 / got[2], got[3], got[4] })
    assert.truthy(got[5] ~= got[5])
  end)

  it("have no gradient where more than the sign may change", function()
    for _, body in ipairs {
      "R B x[i]) ^ (long long)i << 62)", "R B x[i]) ^ 0x8000000000000001ull)", "R B x[i]) + 1)",
      "R B x[i]) & 0x7ffffffffffffff0ll)", "R B x[i]) | (long long)i << 63)",
      "R B x[i]) & (long long)i << 63)", "R B x[i]) - ((long long)i << 63))", "R ~B x[i]))",
      "R B x[i]) & 0x8000000000000000ull)", "R B x[i]) | 0x7fffffffffffffffll)",
    } do
      local k = made("y[i] = " .. body:gsub("%f[%w]R ", REAL):gsub("%f[%w]B ", BITS) .. ";")
      assert.matches("the bits of a real number", k:report().adjoint.refusal, nil, nil, body)
    end
  end)

  it("may be compared as a real number, of whatever bits it is made", function()
    local k = made("long long m = 0; for (int j = 0; j <= i; j++) m |= __double_as_longlong(x[j] * 2);\n" ..
      "if (__longlong_as_double(m & 0x7fffffffffffffffll) == 0.) return; y[i] = x[i] * x[i];")
    check(k, function(v) return v * v end, "compared")
    k = made("double v = __longlong_as_double(__double_as_longlong(x[i]) + 1); y[i] = v < 2 ? x[i] : 1;")
    check(k, function(v) return v < 2 and v or 1 end, "compared in a variable")
    k = made("y[i] = (__longlong_as_double(__double_as_longlong(x[i]) + 1) < 2.) * " ..
      "__longlong_as_double(__double_as_longlong(x[i]) + 1);")
    assert.matches("the bits of a real number", k:report().adjoint.refusal)
  end)
end)

local function written(body)
  return (body:gsub("%f[%w]R ", REAL):gsub("%f[%w]B ", BITS))
end

describe("the bits of a real number that are only handed on", function()
  for body, want in pairs {
    ["long long b = B x[i]); y[i] = R b) * x[i];"] = function(v) return v * v end,
    ["long long b; if (i & 1) b = B x[i]); else b = 4607182418800017408ll; y[i] = R b) * 2;"] =
      function(v, i) return i % 2 == 1 and 2 * v or 2 end,
    ["long long a = B x[i]), b = B 2 * x[i]); for (int j = 0; j < i; j++) { long long t = a; a = b; b = t; } " ..
      "y[i] = R a) * R a) * R b);"] = function(v, i) return (i % 2 == 1 and 4 or 2) * v ^ 3 end,
    ["y[i] = R (i & 1 ? B x[i]) : B x[0] * x[i])));"] = function(v, i)
      return i % 2 == 1 and v or X[1] * v
    end,
    ["unsigned long long u = (unsigned long long)(B x[i])); y[i] = R (long long)u);"] =
      function(v) return v end,
    ["long long b = 0; for (int j = 0; j <= i; j++) if (x[j] > R b)) b = B x[j]); y[i] = R b) * 3;"] =
      function(_, i) return 3 * math.max(table.unpack(X, 1, i + 1)) end,
    ["int e = (int)(B x[i]) >> 63) & 1; y[i] = x[e] * R 4611686018427387904ll);"] = function(v)
      return 2 * X[v < 0 and 2 or 1]
    end,
  } do
    it("are it: " .. body, function() check(made(written(body)), want, body) end)
  end

  it("have no gradient where they may be changed, or go through memory or to other threads", function()
    for _, body in ipairs {
      "long long b = B x[i]); b++; y[i] = R b);",
      "long long b = B x[i]); y[i] = R i > 1 ? b : b & ~1ll);",
      "__shared__ long long s[8]; s[i] = B x[i]); y[i] = R s[i]);",
      "y[i] = R __shfl_sync(~0u, B x[i]), 0));",
      "long long b = B x[i]), c = 0; for (int j = 0; j < 3; j++) { c = c | b; b = c; } y[i] = R b);",
      "double v = R B x[i]) | 1); long long c = B v); y[i] = R c);",
    } do
      local k = made(written(body))
      assert.matches("the bits of a real number", k:report().adjoint.refusal, nil, nil, body)
    end
  end)
end)

describe("the greatest of real numbers, by an atomic on their bits,", function()
  local AT <const> = { 0, 1, 2, 0, 1, 2, 0, 0, 1, 1, 2, 2, 0 }
  local function atomic(body)
    return flame.kernel { source = "__global__ void k(const double *x, double *y, const int *at, int n) {\n" ..
      "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n  " .. written(body) .. "\n}",
      inout = { "y" }, block = { 4 }, grid = { 4 } }
  end
  local function inputs()
    local list = {}
    for e = 1, #AT do list[e] = math.sin(1.3 * e) * 0.8 + 0.2 end
    return { flame.tensor(list, { dtype = "f64" }),
      flame.tensor({ 0.1, 0.9, 0.3 }, { dtype = "f64" }) }
  end
  local at = flame.tensor(AT, { dtype = "i32" })
  local MAX <const> = "atomicMax((unsigned long long *)&y[at[i]], (unsigned long long)B v));"

  for name, body in pairs {
    ["of squares"] = "if (i < n) { double v = x[i] * x[i]; " .. MAX .. " }",
    ["of signed numbers"] = "if (i < n) { double v = fabs(x[i]) * 3; atomicMax((long long *)(y + at[i]), *(long long *)&v); }",
    ["as the least"] = "if (i < n) { double v = fabs(x[i]) * 3 + 0.01; atomicMin((long long *)(y + 1), *(long long *)&v); }",
    ["beside the least"] = "if (i < n) { double v = x[i] * x[i]; if (i & 1) " .. MAX .. " else " ..
      MAX:gsub("Max", "Min") .. " }",
    ["of a loop"] = "for (int j = i; j < n; j += 3) { double v = x[j] * x[j * 5 % n]; if (v > 0) " ..
      "atomicMax((long long *)(y + at[j]), B v)); }",
  } do
    it("has its gradient: " .. name, function()
      local k = atomic(body)
      assert(flame.gradcheck(function(x, y) return k(x, y, at, #AT) end, inputs(), { order = 1 }))
      judged.compiles(k)
    end)
  end

  it("gives equal candidates one cotangent", function()
    local k = atomic("if (i < n) { double v = x[i] * x[i]; " .. MAX .. " }")
    local x = flame.full({ #AT }, 2, { dtype = "f64" }):requires_grad_()
    k(x, flame.zeros(3, { dtype = "f64" }), at, #AT):sum():backward()
    assert.equal(12, x.grad:sum():item())
  end)

  it("is not that of another candidate if an element is infinite", function()
    local k = atomic("if (i < n) { double v = x[i]; atomicMax((long long *)&y[at[i]], B v)); }")
    local list = {}
    for e = 1, #AT do list[e] = -e end               -- greater than -inf, but not as an integer
    list[2], list[5] = 7, math.huge
    local x = flame.tensor(list, { dtype = "f64" }):requires_grad_()
    local y = flame.tensor({ -math.huge, 2, math.huge }, { dtype = "f64" }):requires_grad_()
    local weights = flame.tensor({ 1, 10, 100 }, { dtype = "f64" })
    local g = (k(x, y, at, #AT) * weights):sum():gradients { x, y }
    assert.same({ 1, 0, 100 }, g[y]:totable())
    for e, v in ipairs(g[x]:totable()) do assert.equal(e == 5 and 10 or 0, v) end
  end)

  it("has none where anything else is done with the array, or with the bits", function()
    for _, body in ipairs {
      "if (i < n) { double v = x[i] * x[i]; if (v > y[at[i]]) " .. MAX .. " }",
      "if (i < n) atomicMax((long long *)&y[at[i]], B x[i]) & ~0xffll);",
      "if (i == 0) y[2] = x[0]; if (i < n) { double v = x[i] * x[i]; " .. MAX .. " }",
      "if (i < n) { double v = x[i] * x[i]; if (" .. MAX:sub(1, -2) .. " == 5) y[0] = 1; }",
    } do
      local k = atomic(body)
      assert.matches("cannot be differentiated", k:report().adjoint.refusal, nil, nil, body)
    end
  end)
end)

local VEC <const> = [[
  struct V3 { union { double x, r; }; union { double y, g; }; union { double z, b; };
    __device__ double *data() { return (double *)this; }
    __device__ double &operator[](int i) { return ((double *)this)[i]; } };
  struct V4 { union { double x, r; }; union { double y, g; }; union { double z, b; }; union { double w, a; };
    __device__ V3 &rgb() { return *(V3 *)&x; } };
  union M { V3 row[2]; double d[6]; double2 p[3]; };
  struct A { union { double v; long long bits; }; double w; };
]]

describe("a union of numbers of one type", function()
  local vec <const> = "V4 q; q.x = x[i]; q.g = 2 * x[i]; q.b = x[0]; q.w = 1; "
  for body, want in pairs {
    [vec .. "q.rgb()[1] *= q.r; y[i] = q.y * q.z + q.a;"] = function(v)
      return 2 * v * v * X[1] + 1
    end,
    [vec .. "V3 c = q.rgb(); c.x = c.y * c.b; q.rgb() = c; y[i] = q.r;"] = function(v)
      return 2 * v * X[1]
    end,
    ["M m; for (int j = 0; j < 6; j++) m.d[j] = j * x[i]; y[i] = m.row[1].g * m.p[1].y + m.row[0][2];"] =
      function(v) return 4 * v * 3 * v + 2 * v end,
  } do
    it("is these numbers: " .. body, function() check(made(body, VEC), want, body) end)
  end

  it("makes a pointer to a struct one to its numbers, with a gradient", function()
    local k = flame.kernel { source = VEC .. "__global__ void k(const V4 *p, V3 *q, int n) {\n" ..
      "  int i = threadIdx.x; if (i >= n) return;\n  V4 v = p[i]; v.rgb()[0] *= v.a; q[i] = v.rgb(); q[i].g = v.r * v.b;\n}",
      shape = { 2, 3 } }
    local p = flame.arange(8.0, { dtype = "f64" }):reshape(2, 4) + 1
    assert.same({ { 10, 40, 4 }, { 54, 432, 8 } }, k(p, 2):totable())
    proof.check(function(v) return k(v, 2) end, { p })
    local bytes = flame.kernel(VEC .. "__global__ void k(const A *q, double *y) { y[0] = q[0].v; }")
    assert.matches("q points to A: pass its bytes as a u8 tensor", helper.message(bytes, p))
  end)
end)

describe("__frcp_rz", function()
  local k = flame.kernel "__global__ void k(const float *x, float *y, int n) { int i = threadIdx.x; if (i < n) y[i] = __frcp_rz(x[i]); }"

  it("is the reciprocal rounded towards 0", function()
    local list = { 1, -1, 3, -3, 10, 0.1, 2 ^ 126, 2 ^ 127, -1.7e38, 3.4028234663852886e38,
      2 ^ -127, 2 ^ -128 * 1.25, 2 ^ -149, -2 ^ -149, math.huge, -math.huge }
    for j = 1, 84 do list[#list + 1] = (j % 2 * 2 - 1) * (1 + j / 97) * 2.0 ^ (3 * (j - 42)) end
    local x = flame.tensor(list)
    local at, got = x:totable(), k:with { block = { 128 } }(x):totable()
    for j, v in ipairs(at) do
      local exact, most = math.abs(1 / v), (2 - 2 ^ -23) * 2.0 ^ 127         -- exact enough in f64
      local step = 2.0 ^ (math.max(math.floor(math.log(exact, 2)), -126) - 23)
      local want = v == 1 / 0 and 0 or v == -1 / 0 and 0 or math.min(exact // step * step, most)
      assert.equal(want, math.abs(got[j]), ("1 / %.9g"):format(v))
      assert.equal(v > 0, 1 / got[j] > 0)
    end
    assert.equal(math.huge, k(flame.zeros(1)):item())
  end)

  it("has the gradient of a reciprocal", function()
    local x = flame.tensor({ 2, 3, -7 }, { requires_grad = true })
    k(x):sum():backward()
    for j, v in ipairs { 2, 3, -7 } do assert.near(-1 / v ^ 2, x.grad:totable()[j], 1e-7) end
  end)
end)

describe("bits of a real number as a number by value", function()
  local function grad(body)
    local k = flame.kernel("__global__ void k(const double *x, double *y, int n) {\n  int i = threadIdx.x;\n" ..
      "  if (i >= n) return;\n  " .. body .. "\n}")
    local x = flame.tensor({ 1.5, -2.25, 3 }, { dtype = "f64", requires_grad = true })
    k(x, 3):sum():backward()
    return x.grad:totable()
  end

  for _, body in ipairs {
    "long long b = __double_as_longlong(x[i]); y[i] = (double)b * 1e-18;",
    "float v = x[i]; y[i] = (float)__float_as_uint(v) * 1.1920928955078125e-7f - 126.94269504f;",
    "float v = x[i]; int b = __float_as_int(v); b -= 0x3f800000; int c = b & 0x7fffff; y[i] = c / 8388608.0f;",
    "float v = x[i]; unsigned b = __float_as_uint(v) >> 9; y[i] = v * (float)(b | 1u);",
    "float v = x[i]; int b = i ? __float_as_int(v) : 3; float w = b; y[i] = sqrt((double)(w * w));",
  } do
    it("has a slope, and is refused: " .. body, function()
      local why = helper.message(grad, body)
      assert(why:find("the bits of a real number", 1, true) and why:find("line 4", 1, true), why)
    end)
  end

  for body, want in pairs {
    ["float v = x[i]; y[i] = x[i] * (float)(((__float_as_int(v) >> 23) & 255) - 127);"] = { 0, 1, 1 },
    ["long long b = __double_as_longlong(x[i]); y[i] = (double)((b >> 52) & 2047) + x[i];"] = { 1, 1, 1 },
    ["y[i] = (double)((__double2hiint(x[i]) >> 20) & 2047) + x[i];"] = { 1, 1, 1 },
    ["float v = x[i]; unsigned b = __float_as_uint(v) * 2654435769u; y[i] = x[i] * (1 + 0 * (float)(b >> 8));"] = { 1, 1, 1 },
    ["float v = x[i]; int c = __float_as_int(v); y[i] = x[i] + ((c >> 16) & 255) * 0.5f + ((c >> 8) & 255) + (c & 255) / 255.0f;"] = { 1, 1, 1 },
    ["float v = x[i]; y[i] = x[i] * (double)(__float_as_int(v) < 0 ? 2 : 3);"] = { 3, 2, 3 },
    ["float v = x[i]; y[i] = x[i] * (double)__popc(__float_as_uint(v) & 0x80000000u);"] = { 0, 1, 0 },
  } do
    it("is a staircase, and has none: " .. body, function() assert.same(want, grad(body)) end)
  end
end)
