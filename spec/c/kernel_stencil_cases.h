/* Cases of test_kernel_ad.c: kernels that read neighbours. Their adjoint must become a gather
** (TURNED) or stay a scatter into neighbours (STAYS). Fields as in kernel_ad_cases.h. */

#define XY(args) "__global__ void k(" args ") {\n" \
  "  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;\n"

/* ---- one dimension --------------------------------------------------------------------------- */
{"three points", "d21i d21oz I=21",
 K("const double *u, double *v, int n")
 "  if (i < 1 || i >= n - 1) return;\n  v[i] = u[i - 1] - 2 * u[i] + u[i + 1];\n}",
 6, 4, 2 + TURNED, NULL, 0, 0},
{"three points, products", "d21i d21oz I=21",
 K("const double *u, double *v, int n")
 "  if (i > 0 && i < n - 1) v[i] = u[i - 1] * u[i + 1] + sqrt(1.5 + u[i] * u[i - 1]);\n}",
 6, 4, 2 + TURNED, NULL, 0, 0},
{"guards of each side alone", "d21i d21oz I=21",
 K("const double *u, double *v, int n")
 "  if (i >= n) return;\n  double s = u[i] * u[i];\n  if (i > 0) s += 2 * u[i - 1]; if (i + 2 < n) s *= u[i + 2];\n"
 "  v[i] = s;\n}", 6, 4, 2 + TURNED, NULL, 0, 0},
{"a launch smaller than the array", "d30i d30oz I=30",
 K("const double *u, double *v, int n")
 "  if (i + 1 < n) v[i] = u[i] * u[i + 1];\n}", 2, 7, 1 + TURNED, NULL, 0, 0},
{"a launch much larger than the array", "d5i d5oz I=5",
 K("const double *u, double *v, int n")
 "  if (i >= 1 && i < n) v[i] = u[i] * u[i - 1];\n}", 7, 13, 1 + TURNED, NULL, 0, 0},
{"reads behind the output", "d25i d20oz I=20 I=5",
 K("const double *u, double *v, int n, int k")
 "  if (i < n) v[i] = u[i] * u[i + k] - u[i + 2];\n}", 5, 4, 1 + TURNED, NULL, 0, 0},
{"a shift by a parameter, to the left", "d25i d25oz I=25 I=3",
 K("const double *u, double *v, int n, int k")
 "  if (i < n && i >= 2 * k) v[i] = u[i - 2 * k] * u[i - k + 1] * u[i];\n}",
 7, 4, 1 + TURNED, NULL, 0, 0},
{"a shift by half a parameter", "d25i d25oz I=25 I=7",
 K("const double *u, double *v, int n, int k")
 "  if (i < n && i >= k / 2) v[i] = u[i - k / 2] * u[i];\n}", 7, 4, 1 + TURNED, NULL, 0, 0},
{"unsigned numbers", "d21i d21oz I=21",
 "__global__ void k(const double *u, double *v, unsigned n) {\n"
 "  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;\n"
 "  if (i - 1u < n - 2u) v[i] = u[i + ~0u] * u[i + 1u];\n}", 6, 4, 1 + TURNED, NULL, 0, 0},
{"long numbers", "d21i d21oz I=21",
 "__global__ void k(const double *u, double *v, int n) {\n"
 "  long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;\n"
 "  if (i > 0 && i < n - 1) v[i] = u[i - 1] * u[i + 1];\n}", 6, 4, 1 + TURNED, NULL, 0, 0},
{"blocks of a constant size", "d21i d21oz I=21",
 "__global__ void k(const double *u, double *v, int n) {\n"
 "  int i = blockIdx.x * 4 + threadIdx.x;\n"
 "  if (i > 0 && i < n - 1) v[i] = u[i - 1] * u[i + 1];\n}", 6, 4, 1 + TURNED, NULL, 0, 0},
{"blocks that overlap", "d21i d21ioz I=21",
 "__global__ void k(const double *u, double *v, int n) {\n"
 "  int i = blockIdx.x * 3 + threadIdx.x;\n"
 "  if (i > 0 && i < n - 1) atomicAdd(&v[i], u[i - 1] * u[i + 1]);\n}",
 6, 4, 1 + TURNED, NULL, 0, 0},
{"every other element", "d41i d20oz I=20",
 K("const double *u, double *v, int n")
 "  if (i < n) v[i] = u[2 * i] * u[2 * i + 1] * u[2 * i + 2];\n}", 5, 4, 2 + TURNED, NULL, 0, 0},
{"a scaled index with negative shift", "d41i d14oz I=14",
 K("const double *u, double *v, int n")
 "  if (i > 0 && i < n) v[i] = u[3 * i - 4 + 1] * u[3 * i] + u[3 * i - 2];\n}",
 4, 4, 1 + TURNED, NULL, 0, 0},
{"numbers of the thread used apart", "d21i d21oz I=21",
 K("const double *u, double *v, int n")
 "  if (i > 0 && i < n - 1) v[i] = u[i - 1] * (threadIdx.x + 1) + u[i + 1] * (blockIdx.x + 2 * blockDim.x + gridDim.x);\n}",
 6, 4, 1 + TURNED, NULL, 0, 0},
{"a parameter that the kernel changes", "d21i d21oz I=21",
 K("const double *u, double *v, int n")
 "  n -= 1;\n  if (i > 0 && i < n) v[i] = u[i - 1] * u[i + 1];\n}", 6, 4, 1 + TURNED, NULL, 0, 0},
{"two arrays", "d21i d21i d21oz I=21",
 K("const double *u, const double *w, double *v, int n")
 "  if (i > 0 && i < n - 1) v[i] = u[i - 1] * w[i + 1] - u[i] * w[i];\n}",
 6, 4, 2 + TURNED, NULL, 0, 0},
{"two arrays, one by its own index", "d21i d19i d21oz I=21",
 K("const double *u, const double *w, double *v, int n")
 "  if (i > 0 && i < n - 1) v[i] = (u[i - 1] + u[i + 1]) * w[i - 1];\n}",
 6, 4, 2 + TURNED, NULL, 0, 0},
{"a stencil and a scattered read", "d21i d4i d21oz i21%4 I=21",
 K("const double *u, const double *w, double *v, const int *b, int n")
 "  if (i > 0 && i < n - 1) v[i] = (u[i - 1] + u[i + 1]) * w[b[i]];\n}",
 6, 4, 2 + TURNED, NULL, 0, 0},
{"a stencil with factors of all", "d21i d3i Di d21oz I=21",
 K("const double *u, const double *w, double a, double *v, int n")
 "  if (i > 0 && i < n - 1) v[i] = w[0] * u[i - 1] + w[1] * u[i] + w[2] * u[i + 1] + a * u[i] * u[i];\n}",
 6, 4, 2 + TURNED, NULL, 0, 0},
{"two outputs", "d21i d21oz d21oz I=21",
 K("const double *u, double *v, double *w, int n")
 "  if (i > 0 && i < n - 1) { v[i] = u[i - 1] * u[i + 1]; w[i] = u[i + 1] - sin(u[i]); }\n}",
 6, 4, 2 + TURNED, NULL, 0, 0},
{"an output that is added to", "d21i d21io I=21",
 K("const double *u, double *v, int n")
 "  if (i > 0 && i < n - 1) v[i] += u[i - 1] * u[i + 1];\n}", 6, 4, 2 + TURNED, NULL, 0, 0},
{"an output that is read", "d21i d21io I=21",
 K("const double *u, double *v, int n")
 "  if (i > 0 && i < n - 1) v[i] = v[i] * 0.5 + u[i - 1] - u[i + 1];\n}", 6, 4, 2, NULL, 0, 0},
{"a branch by value", "d21i d21oz I=21",
 K("const double *u, double *v, int n")
 "  if (i < 1 || i >= n - 1) return;\n  double d = u[i + 1] - u[i - 1];\n"
 "  v[i] = d > 0 ? d * u[i] : d * d;\n}", 6, 4, 2 + TURNED, NULL, 0, 0},
{"floats, three points", "f21i f21oz I=21",
 K("const float *u, float *v, int n")
 "  if (i > 0 && i < n - 1) v[i] = u[i - 1] * u[i + 1] + 0.25f * u[i];\n}",
 6, 4, 1 + TURNED, NULL, 0, 0},
{"halves, three points", "h21i h21oz I=21",
 K("const __half *u, __half *v, int n")
 "  if (i > 0 && i < n - 1) v[i] = __float2half(__half2float(u[i - 1]) * 0.5f + __half2float(u[i + 1]));\n}",
 6, 4, 1 + TURNED, NULL, 0, 0},
{"vectors of two", "d24i d24oz I=12",
 K("const double2 *u, double2 *v, int n")
 "  if (i > 0 && i < n - 1) { v[i].x = u[i - 1].x * u[i + 1].y; v[i].y = u[i].x + u[i - 1].y; }\n}",
 4, 4, 1 + TURNED, NULL, 0, 0},
/* ---- two dimensions -------------------------------------------------------------------------- */
{"five points, one thread per element", "d35i d35oz I=7 I=5",
 K("const double *u, double *v, int w, int h")
 "  if (i >= w * h) return;\n  int x = i % w, y = i / w;\n  double c = u[i];\n"
 "  double l = x > 0 ? u[i - 1] : c, r = x < w - 1 ? u[i + 1] : c;\n"
 "  double t = y > 0 ? u[i - w] : c, b = y < h - 1 ? u[i + w] : c;\n"
 "  v[i] = c + 0.2 * (l + r + t + b - 4 * c) + c * l * b;\n}", 5, 8, 2 + TURNED, NULL, 0, 0},
{"five points, indices made of x and y", "d35i d35oz I=7 I=5",
 K("const double *u, double *v, int w, int h")
 "  int x = i % w, y = i / w;\n  if (y >= h || x < 1 || x >= w - 1 || y < 1 || y + 1 >= h) return;\n"
 "  v[y * w + x] = u[y * w + x - 1] * u[y * w + (x + 1)] - u[(y - 1) * w + x] * u[x + w * (y + 1)];\n}",
 5, 8, 2 + TURNED, NULL, 0, 0},
{"five points, x by subtraction", "d35i d35oz I=7 I=5",
 K("const double *u, double *v, int w, int h")
 "  int y = i / w, x = i - y * w;\n  if (y < 1 || y + 1 >= h || x < 1 || x + 1 >= w) return;\n"
 "  v[i] = u[(y - 1) * w + x] * u[(y + 1) * w + x] * u[y * w + x - 1];\n}",
 5, 8, 1 + TURNED, NULL, 0, 0},
{"nine points, a constant width", "d35i d35oz",
 K("const double *u, double *v")
 "  int x = i % 7, y = i / 7;\n  if (y < 1 || y >= 4 || x < 1 || x >= 6) return;\n  const double *p = u + i;\n"
 "  v[i] = p[-8] + 2 * p[-7] + p[-6] * p[-1] + p[0] * p[1] - p[6] - 2 * p[7] - p[8] * p[8];\n}",
 5, 8, 2 + TURNED, NULL, 0, 0},
{"five points, threads in two dimensions", "d35i d35oz I=7 I=5",
 XY("const double *u, double *v, int w, int h")
 "  if (x < 1 || x >= w - 1 || y < 1 || y >= h - 1) return;\n  int i = y * w + x;\n"
 "  v[i] = u[i - 1] * u[i + 1] + u[i - w] * u[i] - u[i + w];\n}", 2 | 3 << 8, 4 | 2 << 8,
 2 + TURNED, NULL, 0, 0},
{"nine points, threads in two dimensions", "d35i d35oz I=7 I=5",
 XY("const double *u, double *v, int w, int h")
 "  if (x >= w || y >= h) return;\n  int i = y * w + x;\n  double s = u[i] * u[i];\n"
 "  if (x > 0) s += u[i - 1]; if (x + 1 < w) s += 2 * u[i + 1]; if (y > 0) s += 3 * u[i - w]; if (y + 1 < h) s *= u[i + w];\n"
 "  if (x > 0 && y > 0) s += u[(y - 1) * w + x - 1]; if (x + 1 < w && y > 0) s += u[(y - 1) * w + x + 1] * u[i];\n"
 "  if (x > 0 && y + 1 < h) s -= u[(y + 1) * w + x - 1]; if (x + 1 < w && y + 1 < h) s += u[(y + 1) * w + x + 1];\n"
 "  v[i] = s;\n}", 5 | 5 << 8, 3 | 2 << 8, 2 + TURNED, NULL, 0, 0},
{"blocks that stand across", "d35i d35oz I=7 I=5",
 "__global__ void k(const double *u, double *v, int w, int h) {\n"
 "  int y = blockIdx.x * blockDim.x + threadIdx.x, x = blockIdx.y * blockDim.y + threadIdx.y;\n"
 "  if (x < 1 || x >= w - 1 || y < 1 || y >= h - 1) return;\n"
 "  v[y * w + x] = u[y * w + x - 1] * u[y * w + x + 1] - u[(y + 1) * w + x];\n}", 3 | 3 << 8,
 2 | 4 << 8, 1 + TURNED, NULL, 0, 0},
{"a block for each row", "d35i d35oz I=7 I=5",
 "__global__ void k(const double *u, double *v, int w, int h) {\n"
 "  int x = threadIdx.x, y = blockIdx.x;\n"
 "  if (x < 1 || x >= w - 1 || y < 1) return;\n"
 "  v[y * w + x] = u[y * w + x - 1] * u[y * w + x + 1] - u[(y - 1) * w + x];\n}",
 5, 9, 1 + TURNED, NULL, 0, 0},
{"threads in two dimensions without a guard", "d48i d24oz I=8 I=3",
 XY("const double *u, double *v, int w, int h")
 "  v[y * w + x] = u[y * w + x] * u[(y + 2) * w + x + 3] - u[y * w + x + 1];\n}", 2 | 3 << 8,
 4 | 1 << 8, 1 + TURNED, NULL, 0, 0},
{"rows that overlap: threads beyond the width", "d48i d48ioz I=5 I=3",
 XY("const double *u, double *v, int w, int h")
 "  atomicAdd(&v[y * w + x], u[y * w + x] * u[(y + 1) * w + x + 3]);\n}", 2 | 3 << 8, 4 | 1 << 8,
 1 + TURNED, NULL, 0, 0},
{"rows of one place", "d48i d48ioz I=0 I=3",
 XY("const double *u, double *v, int w, int h")
 "  atomicAdd(&v[y * w + x], u[y * w + x + 1] * u[y * w + x]);\n}", 2 | 3 << 8, 4 | 1 << 8,
 1 + TURNED, NULL, 0, 0},
{"rows that go back", "d48i d48ioz I=-3 I=20",
 XY("const double *u, double *v, int w, int h")
 "  atomicAdd(&v[y * w + x + h], u[y * w + x + h + 1] * u[y * w + x + h]);\n}", 2 | 3 << 8,
 4 | 2 << 8, 1 + TURNED, NULL, 0, 0},
{"images of one row and of one column", "d12i d12oz I=1 I=12",
 K("const double *u, double *v, int w, int h")
 "  if (i >= w * h) return;\n  int x = i % w, y = i / w;\n  double s = u[i];\n"
 "  if (x > 1) s *= u[i - 2]; if (x < w - 1) s += u[i + 1]; if (y > 0) s *= u[i - w]; if (y < h - 1) s -= u[i + w];\n"
 "  v[i] = s;\n}", 2, 8, 1 + TURNED, NULL, 0, 0},
{"a negative width", "d35i d35oz I=-7 I=5",
 K("const double *u, double *v, int w, int h")
 "  if (i >= -w * h) return;\n  int x = i % w, y = i / w;\n  double s = u[i];\n"
 "  if (x > 0) s *= u[i - 1]; if (x < -w - 1) s -= u[i + 1]; if (y < 0) s *= u[i + w]; if (y > 1 - h) s += u[i - w] * x;\n"
 "  v[i] = s * y;\n}", 5, 8, 1 + TURNED, NULL, 0, 0},
{"a negative width in three dimensions", "d60i d60oz I=-5 I=-4 I=3",
 K("const double *u, double *v, int w, int h, int d")
 "  if (i >= w * h * d) return;\n  int x = i % w, y = (i / w) % h, z = i / (w * h);\n  double s = u[i];\n"
 "  if (x > 0) s += 2 * u[i - 1] * z; if (x < -w - 1) s += u[i + 1] * x; if (y < 0) s += u[i + w] * y;\n"
 "  if (z > 0) s -= u[i - w * h] * y; if (y < 0 && x > 1) s += u[i + w - 2]; v[i] = s;\n}",
 8, 8, 1 + TURNED, NULL, 0, 0},
{"a width in a long", "d35i d35oz I=7 I=5",
 XY("const double *u, double *v, int w32, int h")
 "  long long w = w32;\n  if (x < 1 || x >= w - 1 || y < 1 || y >= h - 1) return;\n"
 "  v[y * w + x] = u[y * w + x - 1] * u[y * w + x + 1] + u[(y - 1) * w + x];\n}", 2 | 3 << 8,
 4 | 2 << 8, 1 + TURNED, NULL, 0, 0},
{"factors of a stencil from an array of rows", "d35i d5i d35oz I=7 I=5",
 XY("const double *u, const double *r, double *v, int w, int h")
 "  if (x < 1 || x >= w - 1 || y < 1 || y >= h - 1) return;\n  int i = y * w + x;\n"
 "  v[i] = (u[i - 1] + u[i + 1]) * r[y];\n}", 2 | 3 << 8, 4 | 2 << 8, 1 + TURNED, NULL, 0, 0},
/* ---- three dimensions ------------------------------------------------------------------------ */
{"seven points, one thread per element", "d60i d60oz I=5 I=4 I=3",
 K("const double *u, double *v, int w, int h, int d")
 "  if (i >= w * h * d) return;\n  int x = i % w, y = (i / w) % h, z = i / (w * h);\n  double s = u[i];\n"
 "  if (x > 0) s += 2 * u[i - 1]; if (x < w - 1) s -= u[i + 1]; if (y > 0) s += u[i - w]; if (y < h - 1) s += u[i + w];\n"
 "  if (z > 0) s -= u[(z * h - h + y) * w + x]; if (z < d - 1) s += u[((z + 1) * h + y) * w + x] * u[i];\n  v[i] = s;\n}",
 8, 8, 2 + TURNED, NULL, 0, 0},
{"seven points, threads in three dimensions", "d60i d60oz I=5 I=4 I=3",
 "__global__ void k(const double *u, double *v, int w, int h, int d) {\n"
 "  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y, z = blockIdx.z * blockDim.z + threadIdx.z;\n"
 "  if (x >= w || y >= h || z >= d) return;\n  int i = (z * h + y) * w + x;\n  double s = u[i];\n"
 "  if (x > 0) s += 2 * u[i - 1]; if (x < w - 1) s -= u[i + 1]; if (y > 0) s += u[i - w]; if (y < h - 1) s += u[i + w];\n"
 "  if (z > 0) s -= u[i - w * h]; if (z < d - 1) s += u[i + h * w] * u[i]; if (x > 0 && y > 0 && z < d - 1) s += u[i + h * w - w - 1];\n"
 "  v[i] = s;\n}", 3 | 2 << 8 | 2 << 16, 2 | 3 << 8 | 2 << 16, 2 + TURNED, NULL, 0, 0},
/* ---- loops over neighbours ------------------------------------------------------------------- */
{"a window of five", "d21i d21oz I=21",
 K("const double *u, double *v, int n")
 "  if (i >= n) return;\n  double s = 0;\n  for (int k = -2; k <= 2; ++k) if (i + k >= 0 && i + k < n) s += u[i + k] * u[i + k] * (k + 3);\n"
 "  v[i] = s;\n}", 6, 4, 2 + TURNED, NULL, 0, 0},
{"a window of three by three with weights", "d35i d9i d35oz I=7 I=5",
 XY("const double *u, const double *k, double *v, int w, int h")
 "  if (x >= w || y >= h) return;\n  double s = 0;\n  for (int dy = -1; dy <= 1; dy++)\n    for (int dx = -1; dx <= 1; dx++) {\n"
 "      int xx = x + dx, yy = y + dy;\n      if (xx < 0 || xx >= w || yy < 0 || yy >= h) continue;\n"
 "      s += k[(dy + 1) * 3 + dx + 1] * u[yy * w + xx];\n    }\n  v[y * w + x] = s;\n}", 2 | 3 << 8,
 4 | 2 << 8, 2 + TURNED, NULL, 0, 0},
{"a window, one thread per element, down from the end", "d35i d35oz I=7 I=5",
 K("const double *u, double *v, int w, int h")
 "  if (i >= w * h) return;\n  int x = i % w, y = i / w;\n  double s = 0;\n  int dx;\n  for (dx = 2; dx > -2; dx -= 2) {\n"
 "    for (int dy = 0; dy != 2; ++dy) { if (x + dx < w && y + dy < h) s += sin(u[i + dy * w + dx]) * (dx == 0 ? 2 : dy == 0 ? 3 : 1); }\n  }\n"
 "  v[i] = s * dx;\n}", 5, 8, 2 + TURNED, NULL, 0, 0},
{"a window whose inner loop depends on the outer, with a break", "d21i d21oz I=21",
 K("const double *u, double *v, int n")
 "  if (i >= n) return;\n  double s = 1;\n  for (int k = 0; k < 3; ++k) {\n    if (i + k >= n) break;\n"
 "    for (int m = 0; m <= k; ++m) { double q = u[i + k]; s += q * (m + 1); }\n    if (k == 1) continue;\n    s += 0.5 * u[i + k];\n  }\n  v[i] = s;\n}",
 6, 4, 1, NULL, 0, 0},
{"a window of a width that is not known", "d21i d21oz I=21 I=2",
 K("const double *u, double *v, int n, int r")
 "  if (i >= n) return;\n  double s = 0;\n  for (int k = -r; k <= r; ++k) if (i + k >= 0 && i + k < n) s += u[i + k] * u[i + k];\n"
 "  v[i] = s;\n}", 6, 4, 2 + STAYS, NULL, 0, 0},
/* ---- indices at the border ------------------------------------------------------------------- */
{"clamped indices", "d21i d21oz I=21",
 K("const double *u, double *v, int n")
 "  if (i < n) v[i] = u[max(i - 1, 0)] * u[min(i + 1, n - 1)] + u[min(max(i - 2, 0), n - 1)];\n}",
 6, 4, 2 + TURNED, NULL, 0, 0},
{"clamped indices of one element", "d1i d1oz I=1",
 K("const double *u, double *v, int n")
 "  if (i < n) v[i] = u[max(i - 1, 0)] * u[min(i + 1, n - 1)] + u[min(i + 2, n - 1)] + u[max(0, i - 2)];\n}",
 3, 4, 1 + TURNED, NULL, 0, 0},
{"periodic indices", "d21i d21oz I=21",
 K("const double *u, double *v, int n")
 "  if (i >= n) return;\n  int l = (i + n - 1) % n, r = (i + 1) % n;\n  v[i] = u[l] * u[r] + u[i];\n}",
 6, 4, 2 + TURNED, NULL, 0, 0},
{"periodic in one element", "d1i d1oz I=1",
 K("const double *u, double *v, int n")
 "  if (i < n) v[i] = u[(i + n - 2) % n] * u[(i + n - 1) % n] + u[(i + 2) % n] * u[(i + 1) % n];\n}",
 3, 4, 1 + TURNED, NULL, 0, 0},
{"periodic by choice", "d21i d21oz I=21",
 K("const double *u, double *v, int n")
 "  if (i >= n) return;\n  int l = i == 0 ? n - 1 : i - 1, r = i < n - 1 ? i + 1 : 0;\n  v[i] = u[l] * u[r] + u[i];\n}",
 6, 4, 2 + TURNED, NULL, 0, 0},
{"clamped by choice", "d21i d21oz I=21",
 K("const double *u, double *v, int n")
 "  if (i >= n) return;\n  int l = i > 0 ? i - 1 : 0, r = i + 1 < n ? i + 1 : n - 1;\n  v[i] = u[l] * u[r] + u[i >= 1 ? i - 1 : i];\n}",
 6, 4, 2 + TURNED, NULL, 0, 0},
{"mirrored", "d21i d21oz I=21",
 K("const double *u, double *v, int n")
 "  if (i >= n) return;\n  v[i] = u[i > 0 ? i - 1 : 1] * u[i == n - 1 ? n - 2 : i + 1];\n}",
 6, 4, 1 + TURNED, NULL, 0, 0},
{"periodic in two dimensions, one thread per element", "d35i d35oz I=7 I=5",
 K("const double *u, double *v, int w, int h")
 "  if (i >= w * h) return;\n  int x = i % w, y = i / w;\n  int l = (x + w - 1) % w, r = (x + 1) % w, t = (y + h - 1) % h, b = (y + 1) % h;\n"
 "  v[i] = u[y * w + l] * u[y * w + r] + u[t * w + x] - 2 * u[b * w + x] + u[i];\n}",
 5, 8, 2 + TURNED, NULL, 0, 0},
{"periodic in two dimensions, threads in two", "d35i d35oz I=7 I=5",
 XY("const double *u, double *v, int w, int h")
 "  if (x >= w || y >= h) return;\n  int l = (x + w - 1) % w, r = (x + 1) % w, t = (y + h - 1) % h, b = (y + 1) % h;\n"
 "  v[y * w + x] = u[y * w + l] - u[y * w + r] + u[t * w + x] - 2 * u[b * w + x] + u[t * w + l];\n}",
 2 | 3 << 8, 4 | 2 << 8, 2 + TURNED, NULL, 0, 0},
{"clamped in two dimensions, a loop", "d35i d35oz I=7 I=5",
 XY("const double *u, double *v, int w, int h")
 "  if (x >= w || y >= h) return;\n  double s = 0;\n  for (int q = -1; q <= 1; ++q) s += u[min(max(y + q, 0), h - 1) * w + x] * (q + 2);\n"
 "  v[y * w + x] = s;\n}", 2 | 3 << 8, 4 | 2 << 8, 2 + TURNED, NULL, 0, 0},
{"periodic in three dimensions", "d60i d60oz I=5 I=4 I=3",
 K("const double *u, double *v, int w, int h, int d")
 "  if (i >= w * h * d) return;\n  int x = i % w, y = (i / w) % h, z = i / (w * h);\n"
 "  v[i] = u[(z * h + (y + 1) % h) * w + x] - u[((z + d - 1) % d * h + y) * w + x] + u[(z * h + y) * w + (x + w - 1) % w];\n}",
 8, 8, 2 + TURNED, NULL, 0, 0},
{"periodic with a negative width", "d35i d35oz I=-7 I=5",
 K("const double *u, double *v, int w, int h")
 "  if (i >= -w * h) return;\n  int x = i % w, y = i / w;\n  int l = max(x - 1, 0);\n"
 "  v[i] = u[y * w + l] * u[i];\n}", 5, 8, 1, NULL, 0, 0},
/* ---- stays as it is -------------------------------------------------------------------------- */
{"clamped indices of threads without a bound", "d24i d24oz I=21",
 K("const double *u, double *v, int n")
 "  v[i] = u[min(i + 1, n - 1)];\n}", 6, 4, 1 + STAYS, NULL, 0, 0},
{"indices that wrap far away", "d21i d21oz I=21",
 K("const double *u, double *v, int n")
 "  if (i < n) v[i] = u[(3 * i + 1) % n] * u[(i + 7) % n];\n}", 6, 4, 1 + STAYS, NULL, 0, 0},
{"a loop with the stride of the grid", "d41i d41oz I=41",
 K("const double *u, double *v, int n")
 "  for (; i < n - 1; i += gridDim.x * blockDim.x) if (i > 0) v[i] = u[i - 1] * u[i + 1];\n}",
 2, 4, 1 + STAYS, NULL, 0, 0},
{"threads along an axis that the index leaves out", "d21i d21ioz I=21",
 K("const double *u, double *v, int n")
 "  if (i > 0 && i < n - 1) atomicAdd(&v[i], u[i - 1] * u[i + 1] * (threadIdx.y + 1));\n}",
 6, 4 | 3 << 8, 1 + STAYS, NULL, 0, 0},
{"an index that turns back", "d21i d21oz I=21",
 K("const double *u, double *v, int n")
 "  if (i > 0 && i < n) v[i] = u[n - i] * u[n - 1 - i];\n}", 6, 4, 1 + STAYS, NULL, 0, 0},
{"its own element alone", "d21i d21oz I=21",
 K("const double *u, double *v, int n") "  if (i < n) v[i] = u[i] * u[i];\n}",
 6, 4, 1 + STAYS, NULL, 0, 0},
{"a stencil through shared memory", "d16i d16oz I=16",
 K("const double *u, double *v, int n")
 "  __shared__ double s[4];\n  s[threadIdx.x] = u[i];\n  __syncthreads();\n"
 "  v[i] = s[threadIdx.x] * (threadIdx.x > 0 ? s[threadIdx.x - 1] : 1) * u[i > 0 ? i - 1 : i];\n}",
 4, 4, 1 + STAYS, NULL, 0, 0},
#undef XY
