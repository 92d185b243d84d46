--- Random kernels over halves in pairs (__half2, __nv_bfloat162) and in words of four pairs, in
-- registers, in local and shared arrays, through shuffles and atomics. The same text is read a
-- second time with pairs of doubles and functions in the text for the intrinsics. All numbers are
-- small integers, so that values and gradients are the same to the last bit. KERNEL_SEED=2
-- KERNEL_ROUNDS=1000: other programs.
local flame = require "flame"
local first <const> = math.tointeger(os.getenv "KERNEL_SEED" or 1)
local rounds <const> = math.tointeger(os.getenv "KERNEL_ROUNDS" or 12)
local N <const>, BLOCK <const> = 64, 32
local state

local function pick(n)
  state = state * 6364136223846793005 + 1442695040888963407
  return (state >> 33) % n
end
local function one_of(list) return list[1 + pick(#list)] end

-- ---- what the text begins with ------------------------------------------------------------------
local DOUBLES <const> = [[
typedef double T; typedef double A;
struct V2 { double x, y; };
struct W4 { V2 v[4]; };
__device__ V2 mk2(double a, double b) { V2 r = { a, b }; return r; }
__device__ V2 add2(V2 a, V2 b) { return mk2(a.x + b.x, a.y + b.y); }
__device__ V2 sub2(V2 a, V2 b) { return mk2(a.x - b.x, a.y - b.y); }
__device__ V2 mul2(V2 a, V2 b) { return mk2(a.x * b.x, a.y * b.y); }
__device__ V2 fma2(V2 a, V2 b, V2 c) { return mk2(a.x * b.x + c.x, a.y * b.y + c.y); }
__device__ V2 neg2(V2 a) { return mk2(-a.x, -a.y); }
__device__ V2 max2(V2 a, V2 b) { return mk2(fmax(a.x, b.x), fmax(a.y, b.y)); }
__device__ V2 swapped(V2 a) { return mk2(a.y, a.x); }
__device__ V2 twice(double a) { return mk2(a, a); }
__device__ V2 lows(V2 a, V2 b) { return mk2(a.x, b.x); }
__device__ V2 highs(V2 a, V2 b) { return mk2(a.y, b.y); }
__device__ V2 of_floats(float a, float b) { return mk2(a, b); }
__device__ double low(V2 a) { return a.x; }
__device__ double high(V2 a) { return a.y; }
__device__ double number(T a) { return a; }
__device__ T half_of(double a) { return a; }
__device__ V2 pair(const T *p, int k) { return mk2(p[2 * k], p[2 * k + 1]); }
__device__ void put(T *p, V2 v) { p[0] = v.x; p[1] = v.y; }
__device__ W4 word(const T *p) { W4 w; for (int e = 0; e < 4; e++) w.v[e] = pair(p, e); return w; }
__device__ V2 part(W4 w, int e) { return w.v[e]; }
__device__ void put_word(T *p, W4 w) { for (int e = 0; e < 4; e++) put(p + 2 * e, w.v[e]); }
__device__ V2 far(V2 a, int d) {
  return mk2(__shfl_xor_sync(~0u, a.x, d), __shfl_xor_sync(~0u, a.y, d));
}
__device__ V2 from(V2 a, int k) { return mk2(__shfl_sync(~0u, a.x, k), __shfl_sync(~0u, a.y, k)); }
__device__ void sum(T *p, V2 v) { atomicAdd(p, v.x); atomicAdd(p + 1, v.y); }
]]
local HALVES <const> = [[
typedef HALF T; typedef float A; typedef PAIR V2; typedef uint4 W4;
#define add2 __hadd2
#define sub2 __hsub2
#define mul2 __hmul2
#define fma2 __hfma2
#define neg2 __hneg2
#define max2 __hmax2
#define swapped __lowhigh2highlow
__device__ V2 pair(const T *p, int k) { return ((const V2 *)p)[k]; }
__device__ void put(T *p, V2 v) { *reinterpret_cast<V2 *>(p) = v; }
__device__ W4 word(const T *p) { return *(const uint4 *)p; }
__device__ V2 part(W4 w, int e) { return ((V2 *)&w)[e]; }
__device__ void put_word(T *p, W4 w) { *(uint4 *)p = w; }
__device__ V2 far(V2 a, int d) { return __shfl_xor_sync(~0u, a, d); }
__device__ V2 from(V2 a, int k) { return __shfl_sync(~0u, a, k); }
__device__ void sum(T *p, V2 v) { atomicAdd((V2 *)p, v); }
]]
local kinds <const> = {
  { "f16", 500, "#include <cuda_fp16.h>\n#define HALF __half\n#define PAIR __half2\n", {
    mk2 = "__halves2half2", twice = "__half2half2", lows = "__lows2half2", highs = "__highs2half2",
    of_floats = "__floats2half2_rn", low = "__low2half", high = "__high2half",
    number = "__half2float", half_of = "__float2half" } },
  { "bf16", 60, "#include <cuda_bf16.h>\n#define HALF __nv_bfloat16\n#define PAIR __nv_bfloat162\n",
    { mk2 = "__halves2bfloat162", twice = "__bfloat162bfloat162", lows = "__lows2bfloat162",
      highs = "__highs2bfloat162", of_floats = "__floats2bfloat162_rn", low = "__low2bfloat16",
      high = "__high2bfloat16", number = "__bfloat162float", half_of = "__float2bfloat16" } },
}

-- ---- programs -----------------------------------------------------------------------------------
local function expression(depth)
  local function inner() return expression(depth - 1) end
  local function leaf() return expression(0) end
  if depth <= 0 then
    return one_of { "p0", "p1", "p2", "pair(x, i)", ("pair(x, (i + %d) %% n)"):format(pick(4)),
      ("pair(l, %d)"):format(pick(4)), ("pair(x, (i * %d + 1) %% n)"):format(1 + pick(3)),
      ("part(w, %d)"):format(pick(4)), "part(w, i & 3)", "pair(l, i & 3)",
      ("of_floats(%d.f, %d.f)"):format(pick(3) - 1, pick(2)), "mk2(l[3], l[(i + 1) & 7])" }
  end
  return one_of { ("add2(%s, %s)"):format(inner(), leaf()),
    ("sub2(%s, %s)"):format(leaf(), inner()),
    ("mul2(%s, pair(x, i))"):format(inner()), ("mul2(%s, %s)"):format(leaf(), leaf()),
    ("fma2(%s, pair(x, 0), %s)"):format(leaf(), inner()), ("neg2(%s)"):format(inner()),
    ("swapped(%s)"):format(inner()), ("lows(%s, %s)"):format(inner(), leaf()),
    ("highs(%s, %s)"):format(leaf(), inner()), ("twice(low(%s))"):format(inner()),
    ("(i & 1 ? %s : %s)"):format(leaf(), inner()), ("max2(%s, %s)"):format(leaf(), leaf()),
    ("mk2(high(%s), low(%s))"):format(leaf(), leaf()) }
end

local function statement(depth)
  local e, p = expression(1), "p" .. pick(3)
  local half <const> = ("%s(%s)"):format(one_of { "low", "high" }, e)
  local list <const> = { ("%s = %s;"):format(p, expression(2)), ("%s = %s;"):format(p, e),
    ("put(l + 2 * %s, %s);"):format(one_of { "0", "2", "(i & 3)" }, e),
    ("l[%s] = %s;"):format(one_of { "1", "6", "i & 7", "(i + 3) & 7" }, half),
    ("w = word(%s);"):format(one_of { "x + 8 * (i % 4)", "l", "x", "s + 8 * (t % 8)" }),
    ("a += number(%s) * number(x[i]);"):format(half), ("%s = mk2(half_of(a), %s);"):format(p, half),
    "put_word(l, w);" }
  if depth > 0 then return one_of(list) end
  local at <const> = one_of { ("(t + %d) %% 32"):format(pick(5)), "31 - t", "t / 2", "t ^ 3" }
  local back <const> = ("__syncthreads(); %s = pair(s, %s); __syncthreads();"):format(p, at)
  return one_of { one_of(list), one_of(list), ("put(s + 2 * t, %s); %s"):format(e, back),
    ("s[(t + 7) %% 32 * 2 + 1] = %s; %s"):format(half, back),
    ("%s = far(%s, %d);"):format(p, e, 1 + pick(9)), ("%s = from(%s, %s);"):format(p, e, at),
    ("if (%s) { %s } else { %s }"):format(one_of { "i & 1", "m > 1", "t < 5" }, statement(1),
      statement(1)),
    ("for (int j = 0; j < %s; j++) { %s }"):format(one_of { "2", "i % 3", "m" }, statement(1)) }
end

local function program(seed)
  state = seed * 7919 + 1
  local list = {}
  for j = 1, 4 + pick(5) do list[j] = statement(0) end
  return ([[
__global__ void k(const T *x, T *y, T *z, int m, int n) {
  __shared__ __align__(16) T s[64];
  __align__(16) T l[8];
  int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
  for (int e = 0; e < 8; e++) l[e] = x[(i + e) %% (2 * n)];
  s[2 * t] = x[2 * i]; s[2 * t + 1] = x[t];
  __syncthreads();
  V2 p0 = pair(x, i), p1 = pair(x, n - 1 - i), p2 = mk2(x[i], x[3]);
  W4 w = word(x + 8 * (i %% 16));
  A a = number(x[1]);
  %s
  put(y + 4 * i, add2(p0, p1));
  put(y + 4 * i + 2, sub2(p2, pair(l, i & 3)));
  sum(z + 2 * (i %% 5), %s);
  y[4 * i + 1] = half_of(a + number(l[5]));
}]]):format(table.concat(list, "\n  "), one_of { "part(w, t & 3)", "p0", "p2" }), pick(3)
end

-- ---- the comparison -----------------------------------------------------------------------------
local function small(n, list)
  local all = {}
  for j = 1, n do all[j] = one_of(list) end
  return flame.tensor(all, { dtype = "f64" })
end

--- y, z and the gradient of x in one tensor of doubles.
local function results(text, dtype, m, data)
  local k <const> = flame.kernel { source = text, shape = { { 4 * N }, { 12 } }, block = { BLOCK },
    grid = { N // BLOCK } }
  local x <const> = data.x:to(dtype):requires_grad_(true)
  local y, z = k(x, m, N)
  y, z = y:double(), z:double()
  local g <const> = ((y * data.y):sum() + (z * data.z):sum()):gradients({ x })[x]
  return flame.cat({ y:detach(), z:detach(), g:double() }, 1)
end

describe("random kernels over pairs of halves", function()
  it(("give what doubles give, %d of them"):format(rounds), function()
    local compared = 0
    for seed = first, first + rounds - 1 do
      local text <const>, m <const> = program(seed)
      local data <const> = { x = small(2 * N, { -1, 1, 0, 1, -1, 2 }),
        y = small(4 * N, { -1, 0, 1, 1 }), z = small(12, { -1, 0, 1 }) }
      local want <const> = results(DOUBLES .. text, "f64", m, data)
      for _, kind in ipairs(kinds) do
        local dtype, most, head, names = table.unpack(kind)
        if want:abs():max():item() < most then
          local got <const> = results(head .. HALVES .. text:gsub("%f[%w_][%a_][%w_]*", names),
            dtype, m, data)
          local off <const> = (got - want):abs():max():item()
          assert(off == 0, ("%d, %s: %g apart\n%s"):format(seed, dtype, off, text))
          compared = compared + 1
        end
      end
    end
    assert(compared >= rounds)
  end)
end)
