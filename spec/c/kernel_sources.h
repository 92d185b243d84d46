/* Kernel texts that must be accepted, and texts that must be refused with a message, for the tests
** of src/kernel/. */
#ifndef FL_SPEC_KERNEL_SOURCES_H
#define FL_SPEC_KERNEL_SOURCES_H

typedef struct good_source { const char *name, *text; } good_source;
typedef struct bad_source { int line; const char *why, *text; } bad_source;

static const good_source good[] = {
  { "saxpy",
    "extern \"C\" __global__ void saxpy(float a, const float *x, const float *y, float *out, int n) {\n"
    "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n  if (i < n) out[i] = a * x[i] + y[i];\n}\n" },
  { "euler", "__global__ void euler(const float* x, float* y, float dt, int n, int m) {\n"
    "  int i = blockIdx.x*blockDim.x + threadIdx.x; if (i >= m) return;\n"
    "  float s = x[i];  for (int t = 0; t < n && fabsf(s) < 10.f; ++t) s += dt*sinf(s);  y[i] = s*s; }\n" },
  { "stride",
    "__global__ void stride(const double *__restrict__ x, double *__restrict__ y, size_t n) {\n"
    "  for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += (size_t)blockDim.x * gridDim.x)\n"
    "    y[i] = x[i] * x[i] + 0.5 * sin(x[i]);\n}\n" },
  { "reduce", "#define WARP 32\n#define FULL 0xffffffffu\n"
    "__device__ __forceinline__ float warp_sum(float v) {\n#pragma unroll\n"
    "  for (int o = WARP / 2; o > 0; o >>= 1) v += __shfl_down_sync(FULL, v, o);\n  return v;\n}\n"
    "__global__ void __launch_bounds__(256) reduce(const float *x, float *out, int n) {\n"
    "  __shared__ float part[WARP];\n  int t = threadIdx.x; float v = 0.0f;\n"
    "  for (int i = blockIdx.x * blockDim.x + t; i < n; i += gridDim.x * blockDim.x) v += x[i];\n"
    "  v = warp_sum(v);\n  if (t % WARP == 0) part[t / WARP] = v;\n  __syncthreads();\n"
    "  if (t < WARP) {\n    v = t < (blockDim.x + WARP - 1) / WARP ? part[t] : 0.0f;\n    v = warp_sum(v);\n"
    "    if (t == 0) atomicAdd(out, v);\n  }\n}\n" },
  { "tree",
    "__global__ void tree(const float *x, float *out, int n) {\n  extern __shared__ float s[];\n"
    "  unsigned tid = threadIdx.x; unsigned i = blockIdx.x * blockDim.x + tid;\n"
    "  s[tid] = i < n ? x[i] : 0;\n  __syncthreads();\n"
    "  for (unsigned k = blockDim.x / 2; k > 0; k >>= 1) {\n    if (tid < k) s[tid] += s[tid + k];\n    __syncthreads();\n  }\n"
    "  if (!tid) out[blockIdx.x] = s[0];\n}\n" },
  { "heat", "__global__ void heat(const float *u, float *v, int w, int h, float k) {\n"
    "  const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;\n"
    "  if (x >= w || y >= h) return;\n  const float *row = u + y * w;\n  const float c = row[x];\n"
    "  float l = x > 0 ? row[x - 1] : c, r = x < w - 1 ? row[x + 1] : c;\n"
    "  float t = y > 0 ? row[x - w] : c, b = y < h - 1 ? row[x + w] : c;\n"
    "  v[y * w + x] = c + k * (l + r + t + b - 4.0f * c);\n}\n" },
  { "grid_sample", "struct Size { int w, h; float scale[2]; };\n"
    "__device__ inline float at(const float *img, Size s, int x, int y) {\n"
    "  if (x < 0 || y < 0 || x >= s.w || y >= s.h) return 0.f;\n  return img[y * s.w + x];\n}\n"
    "__global__ void grid_sample(const float *img, const float2 *grid, float *out, Size s, int n) {\n"
    "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n  if (i >= n) return;\n  float2 g = grid[i];\n"
    "  float fx = (g.x + 1) * 0.5f * (s.w - 1) * s.scale[0], fy = (g.y + 1) * 0.5f * (s.h - 1) * s.scale[1];\n"
    "  int x0 = (int)floorf(fx), y0 = (int)floorf(fy);\n  float ax = fx - x0, ay = fy - y0;\n"
    "  out[i] = (1 - ay) * ((1 - ax) * at(img, s, x0, y0) + ax * at(img, s, x0 + 1, y0)) +\n"
    "           ay * ((1 - ax) * at(img, s, x0, y0 + 1) + ax * at(img, s, x0 + 1, y0 + 1));\n}\n" },
  { "vectors",
    "__device__ float3 operator+(float3 a, float3 b) { return make_float3(a.x + b.x, a.y + b.y, a.z + b.z); }\n"
    "__device__ float3 operator*(float s, float3 a) { return make_float3(s * a.x, s * a.y, s * a.z); }\n"
    "__device__ float dot(float3 a, float3 b) { return a.x * b.x + a.y * b.y + a.z * b.z; }\n"
    "__global__ void vectors(const float4 *p, float4 *q, float3 c, uint2 k) {\n"
    "  int i = threadIdx.x + k.x; float4 v = p[i]; float3 d = make_float3(v.x, v.y, v.z);\n"
    "  d = d + 2.0f * c;\n  float4 r{d.x, d.y, d.z, rsqrtf(dot(d, d) + 1e-6f)};\n  r = make_float4(r.y, r.x, r.w, r.z);\n"
    "  q[i] = k.y ? r : v; q[i + 1].x += 1.f;\n}\n" },
  { "switches",
    "__global__ void switches(const int *op, const float *x, float *y) {\n  int i = threadIdx.x; float v = x[i];\n"
    "  switch (op[i]) {\n    case 0: v = -v; break;\n    case 1: case 2: { v *= 2; break; }\n    default: v = 0; break;\n    case 'a': v += 1;\n  }\n"
    "  switch (op[i] & 3) {\n    case 0: v += 1;\n    case 1: v *= 3; if (v > 10) break;\n    default: v -= 1;\n    case 3: v /= 2;\n  }\n"
    "  for (int k = 0; k < 4; k++) { switch (k) { case 2: continue; case 3: v += k; } v += 0.5f; }\n  y[i] = v;\n}\n" },
  { "loops",
    "__global__ void loops(const float *x, float *y, int n) {\n  int i = threadIdx.x, k = 0, m; float a[4] = {0}, b[2][3] = {{1, 2}, 3, 4};\n"
    "  while (k++ < n) { if (k == 3) continue; if (k > 7) break; a[k & 3] += x[i * n + k]; }\n"
    "  do { k -= 2; if (k == 5) continue; a[0] *= 1.5f; } while (--k > 0 && (m = k) != 9);\n"
    "  for (int p = 0, q = 10; p < q; p++, q--) b[p & 1][q % 3] += p * q;\n  for (;;) { if (a[1]++ > 3) break; }\n"
    "  y[i] = a[0] + a[1] + a[2] + a[3] + b[0][0] + b[1][2];\n}\n" },
  { "tables",
    "#define TAPS 5\n#define MAX(a, b) ((a) > (b) ? (a) : (b))\n__constant__ float w[TAPS] = {0.1f, 0.2f, 0.4f, 0.2f, 0.1f};\n"
    "static const int off[][2] = {{0, 1}, {1, 0}, {-1, 0}};\nconstexpr double pi = 3.14159; enum Mode { A, B = 4, C };\n"
    "__global__ void tables(const float *x, float *y, int n) {\n  const int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
    "  const float g[3] = {1, -2, 1}; float s = 0;\n  if (i >= n) return;\n"
    "  for (int k = -TAPS / 2; k <= TAPS / 2; k++) { int j = MAX(0, MAX(i + k, 1) - 1); s += w[k + TAPS / 2] * x[j] * g[(k + 6) % 3]; }\n"
    "  y[i] = s + off[i % 3][1] + (float)pi + C + sizeof(g) / sizeof(g[0]);\n}\n" },
  { "pointers", "__device__ void both(float x, float *s, float &c) { *s = sinf(x); c = cosf(x); }\n"
    "__device__ float sum(const float *p, int n) { float s = 0; while (n--) s += *p++; return s; }\n"
    "__global__ void pointers(const float *x, float *y, int n) {\n  float s, c; float t[8]; int i = threadIdx.x;\n"
    "  const float *p = x + i * n; float *q; q = y + i;\n  both(p[0], &s, c); sincosf(x[i], &t[0], t + 1);\n"
    "  for (int k = 2; k < 8; k++) t[k] = p[k];\n  p += 2;\n  *q = s + c + sum(t, 8) + sum(p, 3) + *(x + 1) + __ldg(&x[2]);\n}\n" },
  { "atomics",
    "__global__ void atomics(const int *key, unsigned *count, float *sum, int *list, unsigned long long *big, double *d) {\n"
    "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n  __shared__ int local[64];\n  if (threadIdx.x < 64) local[threadIdx.x] = 0;\n"
    "  __syncthreads();\n  atomicAdd(&local[key[i] & 63], 1); atomicAdd(&sum[key[i]], 0.5f); atomicAdd(d, 1.0);\n"
    "  unsigned slot = atomicAdd(count, 1u);\n  list[slot] = i; atomicMax(&list[0], i); atomicCAS(&list[1], 0, i); atomicAdd(big, 3ull);\n"
    "  if (atomicExch(&list[2], 7) == 7) atomicOr(&list[3], 1 << (i & 31));\n  __threadfence();\n}\n" },
  { "warps",
    "__global__ void warps(float *x, int *y) {\n  int lane = threadIdx.x & 31; float v = x[threadIdx.x];\n"
    "  unsigned m = __ballot_sync(~0u, v > 0); float w = __shfl_sync(~0u, v, 0);\n  w += __shfl_up_sync(~0u, v, 1, 16) + __shfl_xor_sync(~0u, w, 3);\n"
    "  if (__any_sync(~0u, v < 0) && !__all_sync(~0u, lane > 2)) w = -w;\n  __syncwarp();\n  x[threadIdx.x] = w; y[threadIdx.x] = __popc(m) + __ffs(m) + __clz(lane);\n}\n" },
  { "shared2d",
    "#define T 16\n__global__ void shared2d(const float *a, const float *b, float *c, int n) {\n  __shared__ float as[T][T + 1], bs[T][T];\n"
    "  int tx = threadIdx.x, ty = threadIdx.y, row = blockIdx.y * T + ty, col = blockIdx.x * T + tx; float s = 0;\n"
    "  for (int k = 0; k < n; k += T) {\n    as[ty][tx] = a[row * n + k + tx]; bs[ty][tx] = b[(k + ty) * n + col];\n    __syncthreads();\n"
    "    for (int j = 0; j < T; j++) s += as[ty][j] * bs[j][tx];\n    __syncthreads();\n  }\n  c[row * n + col] = s;\n}\n" },
  { "structs",
    "typedef struct { float3 pos; float mass; int id[2]; } Body;\nstruct World { Body b[2]; double dt; char flag; };\n"
    "__device__ Body push(Body b, float3 f, float dt) { b.pos.x += f.x * dt / b.mass; b.id[1] = b.id[0]; return b; }\n"
    "__global__ void structs(World w, float *y) {\n  Body a = w.b[threadIdx.x & 1], c; c = push(a, {1, 2, 3}, w.dt);\n"
    "  Body *p = &c; p->mass += 1; Body arr[2] = {a, c}; arr[1].pos.z = 4;\n  y[threadIdx.x] = p->pos.x + c.mass + arr[threadIdx.x & 1].pos.z + c.id[1] + w.flag;\n}\n" },
  { "mathfns",
    "__global__ void mathfns(const float *x, double *y, int n) {\n  float v = x[0]; double d = v;\n"
    "  y[0] = powf(v, 2.5f) + fminf(v, 1) + max(v, 0.5f) + min(n, 3) + abs(n) + fabs(d) + exp(v) + log1p(d) + tanhf(v);\n"
    "  y[1] = fmaf(v, v, v) + __expf(v) + __sinf(v) + erff(v) + erfinv(d) + floorf(v) + hypot(d, d) + atan2f(v, 1) + __fdividef(v, 3);\n"
    "  y[2] = isnan(v) + isinf(d) + signbit(v) + rintf(v) + roundf(v) + truncf(v) + fmodf(v, 2) + copysignf(1, v) + normcdf(d);\n"
    "  y[3] = __float_as_int(v) + __int_as_float(n) + __float2int_rn(v) + __mulhi(n, n) + sinpif(v) + ldexpf(v, n) + lroundf(v);\n}\n" },
  { "integers",
    "__global__ void integers(const unsigned char *a, short *b, long long *c, unsigned *d, bool *e, signed char *f) {\n"
    "  int i = threadIdx.x; unsigned u = d[i]; unsigned long long h = 0xcbf29ce484222325ull;\n  h ^= a[i]; h *= 1099511628211ULL; u = u << 13 | u >> 19; u ^= ~u % 7u;\n"
    "  b[i] = a[i] + b[i] * 2; b[i] += 3; c[i] = h >> 3; c[i] -= -5 / 2 + 07 + 0x1F + 'A' + (1 << 4); d[i] = u; e[i] = u > 3 && !(i & 1); f[i]--; e[i] |= a[i];\n}\n" },
  { "tern",
    "__global__ void tern(const float *x, float *y, int n) {\n  int i = threadIdx.x, j = 0;\n  float v = i < n && x[i] > 0 ? x[i] : i == n ? 1 : -1;\n"
    "  if (i < n && x[j++] > 1 || j > 3) v += j; v = (j++, v + j); int k = j = 3; y[i] = y[i + 1] = v; y[i] += v > 0 ? k++ : --j; y[j] = k; v > 3 ? v = 1 : v = 2; y[0] = v;\n}\n" },
  { "names",
    "__global__ void names(const float *in, float *out, int half, int t, int min) {\n  int i = threadIdx.x; { int i = half; out[i] = min; } { float i = 2; out[1] = i; }\n"
    "  float T = t, register_ = 1; auto q = in[i] * T; const auto *r = in + 2; out[i] = q + r[0] + register_ + half; printf(\"%d %f\\n\", i, q); assert(i < 4);\n}\n" },
  { "cpp", "#define GLUE(a, b) a##b\n"
    "#define SUM(a, ...) add(a, __VA_ARGS__)\n"
    "namespace m { constexpr __device__ int two(int k) { return k * 2; } enum class E { A, B }; }\n"
    "template <typename T> struct V2 {\n"
    "  T a, b = T(1);\n"
    "  static constexpr int n = m::two(1);\n"
    "  __device__ V2(T u) : a(u) {}\n"
    "  __device__ V2(T u, T v) : a(u), b{v} {}\n"
    "  __device__ V2 operator+(const V2 &o) const { return V2(a + o.a, b + o.b); }\n"
    "  __device__ V2 &operator+=(T s) { a += s; return *this; }\n"
    "  __device__ T &operator[](int k) { return (&a)[k & 0]; }\n"
    "  __device__ T dot(const V2 &o) const { return this->a * o.a + b * o.b; }\n"
    "  friend __device__ V2 operator*(T s, V2 v) { return {s * v.a, s * v.b}; }\n"
    "};\n"
    "struct Sq { __device__ float operator()(float v) const { return v * v; } };\n"
    "template <typename T> __device__ T add(T a, T b = T(2)) { return a + b; }\n"
    "template <int N, typename F> __device__ auto rep(float v, const F &f) { if constexpr (N == 0) return v; else return rep<N - 1>(f(v), f); }\n"
    "template <typename T, int N> __device__ T all(const T (&d)[N]) { T s = 0; for (const T &e : d) s += e; return s; }\n"
    "__global__ void cpp(const float *x, float *y, int n) {\n"
    "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
    "  if (i >= n) return;\n"
    "  V2<float> v(x[i], 2.f), w{x[i]};\n"
    "  float GLUE(l, 1)[3] = {x[i], 1.f, 2.f}, s = 0.f;\n"
    "  auto f = [&](float q) { s += q; return q * v.a; };\n"
    "  auto g = [=](float q) -> float { return q + s; };\n"
    "  (v += 1.f) += 2.f;\n"
    "  if (float t = v.dot(w); t > 0.f) s += t; else s -= (2.f * v + w).b;\n"
    "  float4 q = make_float4(s, f(2.f), g(1), rep<3>(0.5f, Sq()));\n"
    "  for (int k = 0; k < 4; ++k) s += (&q.x)[k];\n"
    "  y[i] = SUM(s, add(all(l1))) + static_cast<float>(m::E::B) * V2<float>::n;\n"
    "}\n" },
  { "asserts", "template <int N> __device__ float f(float x) {\n"
    "  static_assert(N > 1, \"N is small\"); static_assert(noexcept(1 + 1), \"\"); return x * N;\n}\n"
    "__global__ void asserts(float *x) { x[0] = f<2>(x[0]); }\n" },
};

static const good_source with_half[] = {
  { "halves",
    "#include <cuda_fp16.h>\n#include <cuda_bf16.h>\n__global__ void halves(const __half *x, half *y, const __nv_bfloat16 *b, __nv_bfloat16 *c, __half s) {\n"
    "  int i = threadIdx.x; __half v = x[i]; v = v * s + __float2half(0.5f); y[i] = __hadd(v, v) + hexp(v); float f = __half2float(v);\n"
    "  c[i] = __float2bfloat16(__bfloat162float(b[i]) * f); y[i] += v; atomicAdd(&y[3], v); y[1] = __shfl_down_sync(~0u, v, 1);\n}\n" },
  { "chosen",
    "struct P { float a, b; __device__ float &at(int i) { return i ? a : b; }\n"
    "  __device__ void add(float v) { a += v; } };\n"
    "__device__ void times(float &r, float v) { r *= v; }\n"
    "__global__ void chosen(const float *x, float *y, int n) {\n"
    "  int i = threadIdx.x; if (i >= n) return;\n"
    "  float a = x[i], b = 2, s[2] = {a, b}; P p = {a, b}, q = {b, a};\n"
    "  float &r = a > b ? a : s[i & 1]; r = 3 * a; (i & 1 ? a : b) += r; times(i ? a : b, r);\n"
    "  (i & 1 ? p : q).add(r); p.at(i & 1) *= 2; float *t = i ? &a : &b; ++*t;\n"
    "  y[i] = a * b + p.a * q.a + s[0] * s[1];\n}\n" },
  { "copied",
    "__device__ unsigned at(const void *p) { return (unsigned)__cvta_generic_to_shared(p); }\n"
    "__global__ void copied(const float *x, float *y, int n) {\n"
    "  __shared__ __align__(16) float s[128]; unsigned r, to = at(s + 4 * (threadIdx.x & 31));\n"
    "  int i = threadIdx.x & 7;\n"
    "  asm volatile(\"cp.async.cg.shared.global [%0], [%1], 16;\" :: \"r\"(to), \"l\"(x + 4 * i));\n"
    "  asm volatile(\"cp.async.ca.shared.global [%0+4], [%1], 4, %2;\" :: \"r\"(to), \"l\"(x), \"r\"(n > 1 ? 4 : 0));\n"
    "  asm volatile(\"cp.async.wait_all;\"); __pipeline_wait_prior(0); __syncthreads(); to += 16 * 0;\n"
    "  asm volatile(\"ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%0}, [%1];\" : \"=r\"(r) : \"r\"(to));\n"
    "  if (i < n) y[i] = s[i] + (r & 0);\n}\n" },
};

static const bad_source bad[] = {
  { 3, "inline asm", "__global__ void k(float *x) {\n  int i = 0;\n  asm volatile(\"mov\");\n}\n" },
  { 2, "goto", "__global__ void k(float *x) {\n  goto end;\nend: x[0] = 1;\n}\n" },
  { 1, "recursion",
    "__device__ int f(int n) { return n ? f(n - 1) : 0; }\n__global__ void k(int *x) {\n  x[0] = f(3);\n}\n" },
  { 1, "recursion",
    "__device__ int g(int n); __device__ int f(int n) { return g(n); } __device__ int g(int n) { return f(n); }\n__global__ void k(int *x) { x[0] = f(3); }\n" },
  { 2, "function pointers",
    "__device__ float f(float x) { return x; }\n__global__ void k(float *x) { float (*g)(float) = f; x[0] = g(1); }\n" },
  { 2, "clock", "__global__ void k(long long *x) {\n  x[0] = clock64();\n}\n" },
  { 1, "textures",
    "__global__ void k(cudaTextureObject_t t, float *x) { x[0] = tex2D<float>(t, 0, 0); }\n" },
  { 2, "launch kernels",
    "__global__ void j(float *x);\n__global__ void k(float *x) { j<<<1, 1>>>(x); }\n" },
  { 3, "cooperative groups",
    "namespace cg = cooperative_groups;\n__global__ void k(float *x) {\n  auto g = cooperative_groups::this_multi_grid(); x[0] = 1;\n}\n" },
  { 2, "a part of an element of 'x' is written",
    "__global__ void k(short *x) {\n  char *p = (char *)x; p[0] = 1;\n}\n" },
  { 2, "static_assert: N is small",
    "template <int N> __device__ float f(float x) {\n  static_assert(N > 3, \"N is small\"); return x * N;\n}\n__global__ void k(float *x) { x[0] = f<2>(x[0]); }\n" },
  { 2, "a static_assert does not hold",
    "__global__ void k(float *x) {\n  static_assert(sizeof(int) == 8); x[0] = 1;\n}\n" },
  { 2, "a 'float *' where a 'int *' is needed: write a cast",
    "__global__ void k(float *x) {\n  int *p = x; p[0] = 1;\n}\n" },
  { 3, "into another array than before",
    "__global__ void k(float *x, float *y) {\n  int *p = (int *)x;\n  if (x[0] > 0) p = (int *)y; p[0] = 1;\n}\n" },
  { 3, "'a' is declared twice in one block",
    "__global__ void k(float *x) {\n  float a = 1;\n  int a = 2; x[0] = a;\n}\n" },
  { 1, "function 'f' returns no float",
    "__device__ float f(float a) { a * a; }\n__global__ void k(float *x) { x[0] = f(1); }\n" },
  { 2, "'f' takes (float, int), given (float)",
    "__device__ float f(float a, int b) { return a; }\n__global__ void k(float *x) { x[0] = f(x[0]); }\n" },
  { 4, "no function 'f' can be called with (float *)",
    "__device__ float f(float a) { return a; }\n__device__ float f(int a) { return a; }\n"
    "__global__ void k(float *x) {\n  x[0] = f(x);\n}\n" },
  { 2, "'sqrft'; did you mean 'sqrtf'?", "__global__ void k(float *x) {\n  x[0] = sqrft(1);\n}\n" },
  { 2, "'vlaue'; did you mean 'value'?",
    "__global__ void k(float *x) { float value = 1;\n  x[0] = vlaue;\n}\n" },
  { 2, "no member 'mas'; did you mean 'mass'?",
    "struct P { float mass; }; __global__ void k(float *x) { P p = {1};\n  x[0] = p.mas;\n}\n" },
  { 2, "two partial specialisations of 'V' fit",
    "template <class T, int N> struct V {}; template <class T> struct V<T, 0> {}; template <int N> struct V<float, N> {};\n"
    "__global__ void k(float *x) { V<float, 0> v; x[0] = 1; }\n" },
  { 2, "pack 'v' without ...",
    "template <class... T> __device__ float f(T... v) {\n  return v; }\n__global__ void k(float *x) { x[0] = f(1); }\n" },
  { 2, "a template with two packs",
    "template <int... I, class... T> __device__ float f(T... v) { return 1; }\n"
    "__global__ void k(float *x) { x[0] = f<1>(1); }\n" },
  { 2, "a template of variables that are not constexpr",
    "template <class T> __device__ T c = T(1);\n__global__ void k(float *x) { x[0] = c<float>; }\n" },
  { 2, "one array or another",
    "struct M { float a; int b; }; __global__ void k(float *z) { M x[2], y[2];\n  const M *p = z[0] > 0 ? x : y; z[0] = p[0].a;\n}\n" },
  { 3, "another array",
    "struct M { float a; int b; }; __global__ void k(float *z) { M x[2], y[2];\n  const M *p = x;\n  p = y; z[0] = p[0].a;\n}\n" },
  { 1, "is a list of arrays, whose length", "__global__ void k(float **x) { x[0][0] = 1; }\n" },
  { 1, "pointers to pointers", "__global__ void k(float ***x) { x[0][0][0] = 1; }\n" },
  { 1, "pointers to pointers", "__global__ void k(void **x) { }\n" },
  { 2, "'x' is const", "__global__ void k(const float *x) {\n  x[0] = 1;\n}\n" },
  { 2, "unknown name 'q'", "__global__ void k(float *x) {\n  x[0] = q;\n}\n" },
  { 2, "unknown function 'foo'", "__global__ void k(float *x) {\n  x[0] = foo(1);\n}\n" },
  { 2, "';' expected", "__global__ void k(float *x) {\n  x[0] = 1 }\n" },
  { 3, "break outside", "__global__ void k(float *x) {\n  x[0] = 1;\n  break;\n}\n" },
  { 2, "takes 1 argument", "__global__ void k(float *x) {\n  x[0] = sinf(1, 2);\n}\n" },
  { 2, "of floating-point", "__global__ void k(float *x) {\n  x[0] = x[1] % 2;\n}\n" },
  { 2, "no member", "__global__ void k(float4 *x) {\n  x[0].q = 1;\n}\n" },
  { 2, "virtual functions",
    "struct S { float x; virtual __device__ float f() { return x; } };\n__global__ void k(float *x) { S s; x[0] = s.x; }\n" },
  { 2, "wrong arguments for the template",
    "template <class A, class... T> struct S {};\n__global__ void k(float *x) { S<> s; x[0] = 1; }\n" },
  { 3, "fit several functions",
    "__device__ float f(float a) { return 1; }\n__device__ float f(double a) { return 2; }\n__global__ void k(float *x, int n) { x[0] = f(n); }\n" },
  { 1, "#if that is not understood",
    "#if 1 2\n#endif\n__global__ void k(float *x) { x[0] = 1; }\n" },
  { 1, "not const", "float g; __global__ void k(float *x) { x[0] = g; }\n" },
  { 1, "'c' is const",
    "__constant__ float c[4]; __global__ void k(float *x) { c[1] = x[0]; }\n" },
  { 1, "pointers at file scope",
    "__device__ float *g; __global__ void k(float *x) { x[0] = g[0]; }\n" },
  { 1, "the size of an array must be a constant integer",
    "__constant__ int c; __global__ void k(float *x) { float v[c]; x[0] = v[0]; }\n" },
  { 2, "nested", NULL },
  { 2, "too many initialisers",
    "__global__ void k(float *x) {\n  float a[2] = {1, 2, 3}; x[0] = a[0];\n}\n" },
  { 2, "constant integer",
    "__global__ void k(float *x, int n) {\n  float a[n]; x[0] = a[0];\n}\n" },
  { 2, "mutable lambdas",
    "__global__ void k(float *x) {\n  auto f = [=](float v) mutable { return v; }; x[0] = f(1);\n}\n" },
  { 2, "atomicMax of a 'float'", "__global__ void k(float *x) {\n  atomicMax(x, 1.0f);\n}\n" },
  { 1, "", "__global__ void k(float *x) { __device__(x[0]); }\n" },
};
#endif
