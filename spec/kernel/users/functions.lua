--- Kernels that compute one expression: functions of CUDA's library, conversions, corners of C.
local function kernel(name, body, want, o)
  o = o or {}
  return { name, (o.before or "") .. [[

__global__ void one(const float *x, float *y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
]] .. body .. "\n}",
    args = function(t) return { t.f { 8, low = 0.2, high = 2 } } end, order = o.order, eps = o.eps,
    tol = o.tol, tol64 = o.tol64,
    want = function(x)
      local y = {}
      for i = 0, 7 do y[i] = want(x[i], i) end
      return y
    end }
end

local function lgamma(x)
  local s = 0
  while x < 10 do s, x = s - math.log(x), x + 1 end
  return s + (x - 0.5) * math.log(x) - x + 0.5 * math.log(2 * math.pi) + 1 / (12 * x)
    - 1 / (360 * x ^ 3) + 1 / (1260 * x ^ 5)
end

return {
  kernel("lgammaf", "y[i] = lgammaf(x[i]);", lgamma),
  kernel("tgammaf", "y[i] = tgammaf(x[i]);", function(x) return math.exp(lgamma(x)) end),
  kernel("normcdff and erfcf", "y[i] = normcdff(x[i]) + 0.5f * erfcf(x[i] * 0.70710678118654752f) + x[i];",
    function(x) return 1 + x end),
  kernel("erfcxf and erfcf", "y[i] = erfcxf(x[i]) / erfcf(x[i]);",
    function(x) return math.exp(x * x) end, { tol = 1e-4 }),
  kernel("sincosf", "float s, c; sincosf(x[i], &s, &c); y[i] = s * c;",
    function(x) return math.sin(2 * x) / 2 end),
  kernel("__sincosf", "float s, c; __sincosf(x[i], &s, &c); y[i] = s * c;",
    function(x) return math.sin(2 * x) / 2 end),
  kernel("modff", "float w; float f = modff(x[i] * 3.f, &w); y[i] = f * f + w;", function(x)
    return (3 * x - math.floor(3 * x)) ^ 2 + math.floor(3 * x)
  end),
  kernel("frexpf", "int e; float m = frexpf(x[i], &e); y[i] = m * m + e;", function(x)
    local e = math.floor(math.log(x) / math.log(2)) + 1
    return (x / 2 ^ e) ^ 2 + e
  end),
  kernel("ldexpf and scalbnf", "y[i] = ldexpf(x[i], 3) * x[i] + scalbnf(x[i], -1);",
    function(x) return 8 * x * x + x / 2 end),
  kernel("powers", "y[i] = powf(x[i], 3.f) + __powf(x[i], 0.5f) + exp10f(x[i]) + exp2f(x[i]) + cbrtf(x[i]) + rcbrtf(x[i]);",
    function(x) return x ^ 3 + x ^ 0.5 + 10 ^ x + 2 ^ x + x ^ (1 / 3) + x ^ (-1 / 3) end),
  kernel("signs and remainders", "y[i] = copysignf(x[i], -1.f) * fabsf(x[i]) + fdimf(x[i], 1.f) + fmodf(x[i], 0.75f);",
    function(x) return -x * x + math.max(x - 1, 0) + math.fmod(x, 0.75) end),
  kernel("norms", "y[i] = norm3df(x[i], 1, 2) + norm4df(x[i], 1, 2, 3) + rnorm3df(x[i], 1, 2) + rhypotf(x[i], 1.f);",
    function(x)
      return math.sqrt(x * x + 5) + math.sqrt(x * x + 14) + 1 / math.sqrt(x * x + 5)
        + 1 / math.sqrt(x * x + 1)
    end),
  kernel("logarithms", "y[i] = log1pf(x[i]) + expm1f(x[i]) + log10f(x[i]) + __log2f(x[i]) + __logf(x[i]);",
    function(x)
      return math.log(1 + x) + math.exp(x) - 1
        + math.log(x) * (1 / math.log(10) + 1 / math.log(2) + 1)
    end),
  kernel("roundings", "y[i] = roundf(x[i]) + rintf(x[i]) + truncf(x[i]) + ceilf(x[i]) + lrintf(x[i]) + __float2int_rn(x[i]) + x[i] * x[i];",
    function(x) return math.floor(x + 0.5) * 4 + math.floor(x) + math.ceil(x) + x * x end),
  kernel("reciprocals", "y[i] = __fdividef(x[i], 2.f) + 1.f / x[i] + __ldg(&x[i]) * rsqrtf(x[i]) + fmaf(x[i], x[i], 1.f);",
    function(x) return x / 2 + 1 / x + math.sqrt(x) + x * x + 1 end),
  kernel("halves", [[__half h = __float2half(x[i]);
  h = __hmul(h, __float2half(2.f));
  y[i] = __half2float(h) + x[i] * x[i];]], function(x) return 2 * x + x * x end,
    { before = "#include <cuda_fp16.h>", tol = 2e-3, tol64 = 2e-3, order = 1, eps = 0.125 }),
  kernel("bits of integers", "y[i] = x[i] * (__clz(i + 1) + __ffs(i) + __popcll(7ull) + (__brev(i) >> 29));", function(x, i)
    local clz, ffs, brev = 0, 0, 0
    while clz < 32 and (i + 1) >> (31 - clz) == 0 do clz = clz + 1 end
    for b = 2, 0, -1 do
      if i >> b & 1 == 1 then ffs, brev = b + 1, brev | 1 << (2 - b) end
    end
    return x * (clz + ffs + 3 + brev)
  end),
  kernel("random bits", "unsigned s = 123u + i; s ^= s << 13; s ^= s >> 17; s ^= s << 5; y[i] = x[i] * (s & 0xffff);", function(x, i)
    local s = 123 + i
    s = (s ~ s << 13) & 0xffffffff
    s = s ~ s >> 17
    return x * ((s ~ s << 5) & 0xffff)
  end),
  kernel("values through pointers and references", [[float a = x[i], b = 2.f, q;
  exchange(&a, &b);
  square(b, q);
  y[i] = a - q * b;]], function(x) return 2 - x ^ 3 end, { before = [[
__device__ void exchange(float *a, float *b) { float t = *a; *a = *b; *b = t; }
__device__ void square(float v, float &q) { q = v * v; }]] }),
  kernel("an array filled by a function",
    "float a[3]; fill(a, 3, x[i]); y[i] = a[0] + a[1] * a[2];",
    function(x) return x + 6 * x * x end,
    { before = "__device__ void fill(float *a, int n, float v) { for (int k = 0; k < n; k++) a[k] = v * (k + 1); }" }),
  kernel("a pointer along a local array", [[float a[4] = {x[i], 1.f, 2.f, 3.f};
  float *p = a + 1;
  *p = x[i] * x[i];
  p++;
  *p += a[1];
  y[i] = a[2] * p[-1];]], function(x) return (2 + x * x) * x * x end),
  kernel("constants and tables", "y[i] = C0 * x[i] + tab[i & 3] * M_PI;",
    function(x, i) return 2.5 * x + ((i & 3) + 1) * math.pi end,
    { before = "static const float C0 = 2.5f;\n__device__ const float tab[4] = {1, 2, 3, 4};", tol = 1e-5 }),
  kernel("commas and two counters", [[float a = x[i], b;
  for (int j = 0, k = 3; j < k; ++j, --k) b = (a += 0.5f, a * a);
  y[i] = b;]], function(x) return (x + 1) ^ 2 end),
  kernel("names that hide others", [[float v = x[i];
  { float v = x[i] * 2.f; { float v = 3.f; y[i] = v; } y[i] += v; }
  for (int i = 0; i < 2; ++i) { float v = i; y[threadIdx.x] += v * x[threadIdx.x]; }
  for (int n = 1; n < 3; ++n) y[threadIdx.x] += n;
  y[i] += v * v * (n > i);]], function(x) return 6 + 3 * x + x * x end),
  kernel("a count down that wraps", "float s = 0; for (unsigned j = 3; j-- > 0;) s = s * x[i] + j; y[i] = s;",
    function(x) return (2 * x + 1) * x end),
  kernel("a thousand rounds", "float s = x[i]; for (int j = 0; j < 1000; ++j) s = s + 0.001f * sinf(s); y[i] = s;", function(x)
    for _ = 1, 1000 do x = x + 0.001 * math.sin(x) end
    return x
  end, { tol = 1e-4 }),
  kernel("printf and assert", 'if (i == 100) printf("x %d %f\\n", i, x[i]);\n  assert(x[i] > -10.f);\n  y[i] = x[i] * x[i];',
    function(x) return x * x end, { before = "#include <assert.h>" }),
}
