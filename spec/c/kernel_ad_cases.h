/* Cases of test_kernel_ad.c. Fields: name, arguments (described in kernel_case.h), source, grid,
** block, which derived kernels are themselves derived and checked (0 none, 1 the tangent, 2 the
** tangent and the adjoint), the expected refusal or NULL, bytes per thread for snapshots of one
** loop (slot_bytes), bytes of dynamic shared memory. */

/* ---- elementwise, branches ------------------------------------------------------------------- */
{"saxpy", "Di d9i d9i d9oz I=9",
 K("double a, const double *x, const double *y, double *out, int n")
 "  if (i < n) out[i] = a * x[i] + y[i];\n}", 3, 4, 2, NULL, 0, 0},
{"a chain of functions", "d9i d9oz I=9",
 K("const double *x, double *y, int n")
 "  if (i >= n) return;\n  double v = sin(x[i]) * exp(x[i] / 2);\n"
 "  v = v * v + tanh(v); v = v / (1.5 + cos(v));\n  y[i] = sqrt(v * v + 1) * atan2(v, 2.0) + fmax(v, x[i]);\n}",
 3, 4, 2, NULL, 0, 0},
{"conditionals", "d9i d9i d9oz I=9",
 K("const double *x, const double *w, double *y, int n")
 "  if (i >= n) return;\n  double v = x[i], r = 0;\n"
 "  if (v > 0) { r = v * w[i]; if (w[i] > 0.2) r *= v; else { r += w[i]; v = r * r; } }\n"
 "  else r = v > -0.5 ? v * v : i > 0 ? w[i - 1] * v : w[i];\n  y[i] = r * v;\n}",
 3, 4, 2, NULL, 0, 0},
{"a switch", "d9i d9oz I=9",
 K("const double *x, double *y, int n")
 "  if (i >= n) return;\n  double v = x[i];\n  switch (i % 4) {\n  case 0: v = v * v; break;\n"
 "  case 1: v = sin(v);\n  case 2: v = v * 3 * v; break;\n  default: v = 2 * v; }\n  y[i] = v * v;\n}",
 3, 4, 1, NULL, 0, 0},
{"device functions and structs", "B3i d9i d9oz I=9",
 "struct P { double a, b, c; };\n"
 "__device__ double poly(P p, double x) { if (x < 0) return p.a * x; double t = p.b * x; return t * x + p.c; }\n"
 "__global__ void k(P p, const double *x, double *y, int n) {\n"
 "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n  if (i < n) y[i] = poly(p, x[i]) * poly(p, x[i] * x[i]);\n}",
 3, 4, 2, NULL, 0, 0},
{"an array in a struct", "B4i d9i d9oz I=9",
 "struct P { double w[4]; };\n__global__ void k(P p, const double *x, double *y, int n) {\n"
 "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n  if (i >= n) return;\n"
 "  double s = 0;\n  for (int j = 0; j < 4; ++j) s = s * x[i] + p.w[j];\n  y[i] = s;\n}",
 3, 4, 2, NULL, 0, 0},
{"vectors", "d12i d8oz I=3",
 "__global__ void k(const double4 *x, double2 *y, int n) {\n"
 "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n  if (i >= n) return;\n"
 "  double4 v = x[i];\n  y[i].x = v.x * v.y + v.z;\n  y[i].y = v.w * v.x;\n}", 1, 4, 1, NULL, 0, 0},
{"a stencil", "d16i d16oz I=16",
 K("const double *x, double *y, int n")
 "  if (i > 0 && i < n - 1) y[i] = x[i - 1] * x[i + 1] - 2 * x[i] * x[i];\n}", 4, 4, 2, NULL, 0, 0},
{"bilinear sampling of a grid", "d30i d7ip d7ip d7oz I=5 I=6 I=7",
 K("const double *g, const double *u, const double *v, double *out, int h, int w, int n")
 "  if (i >= n) return;\n  double x = u[i] * (w - 2), y = v[i] * (h - 2);\n"
 "  int x0 = (int)floor(x), y0 = (int)floor(y);\n  double fx = x - x0, fy = y - y0, s = 0;\n"
 "  for (int dy = 0; dy < 2; ++dy) for (int dx = 0; dx < 2; ++dx) {\n"
 "    int xx = x0 + dx, yy = y0 + dy;\n    if (xx < 0 || yy < 0 || xx >= w || yy >= h) continue;\n"
 "    s += (dx ? fx : 1 - fx) * (dy ? fy : 1 - fy) * g[yy * w + xx];\n  }\n  out[i] = s;\n}",
 2, 4, 2, NULL, 0, 0},
/* ---- loops: the wrong answers of others ------------------------------------------------------ */
{"Warp's documentation: product in a loop", "d3i d1oz I=3",
 K("const double *x, double *y, int n")
 "  if (i > 0) return;\n  double p = 1;\n  for (int j = 0; j < n; ++j) p *= x[j];\n  y[0] = p;\n}",
 1, 2, 2, NULL, 0, 0},
{"Warp's documentation: weighted mean", "d5i d5ip d1oz I=5",
 K("const double *x, const double *w, double *y, int n")
 "  if (i > 0) return;\n  double s = 0, t = 0;\n"
 "  for (int j = 0; j < n; ++j) { s += x[j] * w[j]; t += w[j]; }\n  y[0] = s / t;\n}",
 1, 2, 2, NULL, 0, 0},
{"Warp's documentation: mutated locals", "d5i d5oz I=5",
 K("const double *x, double *y, int n")
 "  if (i >= n) return;\n  double v = x[i];\n  double a = v * v; v = v + a; a = a * v; v = a * sin(v);\n"
 "  v *= v;\n  y[i] = v + a;\n}", 2, 4, 2, NULL, 0, 0},
{"Warp 1694: a value from before a loop", "d5i d5i d5oz I=5",
 K("const double *x, const double *w, double *y, int n")
 "  if (i >= n) return;\n  double s = x[i] * x[i], t = s;\n"
 "  for (int j = 0; j < n; ++j) { t = t * w[j] + s; s = s * 0.5; }\n  y[i] = t * s;\n}",
 2, 4, 2, NULL, 0, 0},
{"Warp 1552: continue", "d8i d8oz I=8",
 K("const double *x, double *y, int n")
 "  if (i >= n) return;\n  double s = 0.5;\n  for (int j = 0; j < n; ++j) {\n"
 "    if (x[j] < 0) continue;\n    s = s * x[j] + x[i];\n    if (s > 1.2) continue;\n    s += s * s;\n  }\n  y[i] = s;\n}",
 2, 4, 1, NULL, 0, 0},
{"Warp 1293: nested loops", "d4i d4oz I=4",
 K("const double *x, double *y, int n")
 "  if (i >= n) return;\n  double s = x[i];\n  for (int a = 0; a < 3; ++a) {\n    double t = s;\n"
 "    for (int b = 0; b <= a; ++b) t = t * x[b] + 0.1 * s;\n    s = s + t * t;\n  }\n  y[i] = s;\n}",
 1, 4, 1, NULL, 0, 0},
{"Warp 1740: a loop's value used after it", "d5i d5oz I=5",
 K("const double *x, double *y, int n")
 "  if (i >= n) return;\n  double s = x[i], last = 0;\n  int k = 0;\n"
 "  while (k < 6) { last = s; s = sin(s) + 0.3 * x[k % 5]; k += 2; }\n  y[i] = s * last + k * s;\n}",
 2, 4, 2, NULL, 0, 0},
{"Slang 13000: nested loops with bounds from data", "d6i i6%5 d6oz I=6",
 K("const double *x, const int *m, double *y, int n")
 "  if (i >= n) return;\n  double s = x[i];\n  for (int a = 0; a < m[i]; ++a)\n"
 "    for (int b = 0; b < m[a] + 1; ++b) { s = s * x[b] + cos(s); if (s > 2) break; }\n  y[i] = s;\n}",
 2, 4, 1, NULL, 0, 0},
{"Slang 2914: do-while", "d6i d6oz I=6",
 K("const double *x, double *y, int n")
 "  if (i >= n) return;\n  double s = x[i];\n  int c = 0;\n"
 "  do { s = s * 0.9 + 0.2 * sin(s); ++c; if (c == 7) break; } while (s * s > 0.01 * c);\n  y[i] = s * c;\n}",
 2, 4, 1, NULL, 0, 0},
{"Taichi 8356: a loop with a local array", "d6i d6oz I=6",
 K("const double *x, double *y, int n")
 "  if (i >= n) return;\n  double a[3] = {x[i], 0, 1};\n"
 "  for (int j = 0; j < n; ++j) { a[j % 3] = a[(j + 1) % 3] * a[j % 3] + x[j]; }\n  y[i] = a[0] * a[1] * a[2];\n}",
 2, 4, 1, NULL, 0, 0},
{"Taichi 2505: two loops, one variable", "d6i d6oz I=6",
 K("const double *x, double *y, int n")
 "  if (i >= n) return;\n  double v = x[i];\n  int j;\n  for (j = 0; j < 3; ++j) v = v * v + 0.1;\n"
 "  for (j = 5; j > 0; j -= 2) v = v * x[j] - v * v;\n  y[i] = v;\n}", 2, 4, 1, NULL, 0, 0},
{"Taichi 3802: a conditional sum that is read", "d6i d6oz I=6",
 K("const double *x, double *y, int n")
 "  if (i >= n) return;\n  double s = 0;\n  for (int j = 0; j < n; ++j) if (x[j] > 0) { s += x[j]; s = s * s; } else s -= x[j] * x[i];\n"
 "  y[i] = s;\n}", 2, 4, 1, NULL, 0, 0},
{"Dr.Jit: iterated square, 10,000 times", "d2i d2oz I=10000",
 K("const double *x, double *y, int n")
 "  double v = x[i] * 0.1 + 1;\n  for (int j = 0; j < n; ++j) v = v * v * 0.25 + 0.74 + 0.0001 * x[i];\n  y[i] = v;\n}",
 1, 2, 0, NULL, 0, 0},
{"many iterations with few slots", "d3i d3oz I=100",
 K("const double *x, double *y, int n")
 "  double v = x[i], w = 0.5;\n  for (int j = 0; j < n; ++j) { double t = v; v = sin(v) + 0.1 * w; w = w * cos(t) + 0.01 * j; }\n  y[i] = v * w;\n}",
 1, 3, 1, NULL, 16, 0},
{"a nest in which both loops pass their slots", "d3i d3oz I=9",
 K("const double *x, double *y, int n")
 "  double v = x[i];\n  for (int a = 0; a < n; ++a) { v = v * 0.9; for (int b = 0; b < n + a; ++b) v = sin(v) * 1.1 + 0.01 * a; }\n  y[i] = v;\n}",
 1, 3, 1, NULL, 32, 0},
{"the worked example of Euler steps", "d6i d6oz Di I=40 I=6",
 K("const double *x, double *y, double dt, int n, int m")
 "  if (i >= m) return;\n  double s = x[i];\n  for (int t = 0; t < n && fabs(s) < 10.0; ++t) s += dt * sin(s);\n  y[i] = s * s;\n}",
 2, 4, 2, NULL, 0, 0},
{"a while loop left by return", "d6i d6oz I=6",
 K("const double *x, double *y, int n")
 "  if (i >= n) return;\n  double s = x[i];\n  int c = 0;\n  while (true) {\n    s = s * s * 0.5 + x[(i + c) % n];\n"
 "    if (s > 0.4) { y[i] = s * 3; return; }\n    if (++c > 5) break;\n  }\n  y[i] = s * s;\n}",
 2, 4, 1, NULL, 0, 0},
{"a grid-stride loop", "d20i d20oz I=20",
 "__global__ void k(const double *x, double *y, int n) {\n"
 "  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) {\n"
 "    double v = x[i];\n    y[i] = v * v * v;\n  }\n}", 2, 3, 2, NULL, 0, 0},
{"rows with sums that are used", "d20i d5i d4oz I=4 I=5",
 K("const double *x, const double *w, double *y, int r, int c")
 "  if (i >= r) return;\n  double m = -1e30, s = 0;\n  for (int j = 0; j < c; ++j) m = fmax(m, x[i * c + j]);\n"
 "  for (int j = 0; j < c; ++j) s += exp(x[i * c + j] - m);\n"
 "  double t = 0;\n  for (int j = 0; j < c; ++j) t += w[j] * exp(x[i * c + j] - m) / s;\n  y[i] = t;\n}",
 1, 4, 2, NULL, 0, 0},
{"columns, twice", "d20i d5oz I=4 I=5",
 K("const double *x, double *y, int r, int c")
 "  if (i >= c) return;\n  double m = 0, s = 0;\n  for (int j = 0; j < r; ++j) m += x[j * c + i];\n"
 "  for (int k = 0; k < r; ++k) s += (x[k * c + i] - m / r) * (x[k * c + i] - m / r);\n  y[i] = sqrt(s);\n}",
 1, 6, 1, NULL, 0, 0},
{"two grid-stride loops that are shifted", "d21i d21oz I=20",
 "__global__ void k(const double *x, double *y, int n) {\n"
 "  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) y[i] += x[i] * x[i];\n"
 "  for (int j = blockIdx.x * blockDim.x + threadIdx.x + 1; j < n; j += blockDim.x * gridDim.x) y[j - 1] += sin(x[j]);\n}",
 2, 3, 1, NULL, 0, 0},
{"one element, read in a loop", "d5i d5i d5oz I=5",
 K("const double *x, const double *w, double *y, int n")
 "  if (i >= n) return;\n  double v = 0.3;\n  for (int j = 0; j < n; ++j) v = v * x[i] + w[j];\n  y[i] = v;\n}",
 1, 6, 2, NULL, 0, 0},
{"one element, read in a grid-stride loop inside a loop", "d9i d9oz I=9",
 "__global__ void k(const double *x, double *y, int n) {\n  for (int t = 0; t < 3; ++t)\n"
 "    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) y[i] += x[i] * x[i] * t;\n}",
 2, 3, 1, NULL, 0, 0},
{"one element, read in a grid-stride loop inside a loop, once", "d9i d9oz I=9",
 "__global__ void k(const double *x, double *y, int n) {\n  for (int t = 0; t < 3; ++t)\n"
 "    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) y[i] += sin(x[i]) * t;\n}",
 2, 3, 1, NULL, 0, 0},
/* ---- arrays that are read and written -------------------------------------------------------- */
{"an element squared in place", "d6io I=6",
 K("double *y, int n") "  if (i < n) y[i] = y[i] * y[i];\n}", 2, 4, 2, NULL, 0, 0},
{"an element rewritten several times", "d6io d6i I=6",
 K("double *y, const double *x, int n")
 "  if (i >= n) return;\n  y[i] = y[i] * x[i];\n  y[i] += sin(y[i]);\n  double t = y[i];\n  y[i] = t * t * x[i];\n  y[i] *= 2;\n}",
 2, 4, 2, NULL, 0, 0},
{"an output written on some paths", "d6io d6i I=6",
 K("double *y, const double *x, int n")
 "  if (i < n && x[i] > 0) y[i] = x[i] * x[i];\n}", 2, 4, 2, NULL, 0, 0},
{"accumulation into an argument", "d6io d6i I=6",
 K("double *y, const double *x, int n") "  if (i < n) y[i] += x[i] * x[i];\n}",
 2, 4, 2, NULL, 0, 0},
{"an output written twice", "d6oz d6i I=6",
 K("double *y, const double *x, int n")
 "  if (i >= n) return;\n  y[i] = x[i];\n  if (x[i] > 0) y[i] = x[i] * x[i];\n}",
 2, 4, 1, NULL, 0, 0},
{"a running sum in memory", "d20io I=4 I=5",
 K("double *y, int r, int c")
 "  if (i >= r) return;\n  for (int j = 1; j < c; ++j) y[i * c + j] = y[i * c + j] + 0.5 * y[i * c + j - 1];\n}",
 1, 4, 1, NULL, 0, 0},
{"a grid-stride loop in place", "d20io d20i I=20",
 "__global__ void k(double *y, const double *x, int n) {\n"
 "  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) {\n"
 "    y[i] = y[i] * y[i] + x[i];\n    y[i] *= x[i];\n  }\n}", 2, 3, 1, NULL, 0, 0},
{"an element rewritten in a loop at a fixed place", "d6io d6i I=6",
 K("double *y, const double *x, int n")
 "  if (i >= n) return;\n  for (int j = 0; j < n; ++j) y[i] = y[i] * x[j] + sin(y[i]);\n}",
 2, 4, 1, NULL, 0, 0},
{"a recurrence in place", "d20io I=4 I=5",
 K("double *y, int r, int c")
 "  if (i >= r) return;\n  for (int j = 1; j < c; ++j) y[i * c + j] = y[i * c + j] * y[i * c + j - 1];\n}",
 1, 4, 1, NULL, 0, 0},
{"a recurrence in place with a state, looking ahead", "d84io I=2 I=42",
 K("double *y, int r, int c")
 "  if (i >= r) return;\n  double m = 0.3;\n  for (int j = 0; j + 1 < c; ++j) {\n"
 "    m = 0.9 * m + 0.1 * m * y[i * c + j + 1];\n    y[i * c + j] = y[i * c + j] * y[i * c + j + 1] + m;\n  }\n}",
 1, 4, 1, NULL, 0, 0},
{"a recurrence along columns", "d20i d20oz I=4 I=5",
 K("const double *x, double *y, int w, int h")
 "  if (i >= w) return;\n  y[i] = x[i];\n"
 "  for (int t = 1; t < h; ++t) y[t * w + i] = x[t * w + i] * sin(y[(t - 1) * w + i]);\n}",
 1, 4, 1, NULL, 0, 0},
{"an element rewritten in a loop at a varying place, again and again", "d20io I=4 I=5",
 K("double *y, int r, int c")
 "  if (i >= r) return;\n  for (int q = 0; q < 2; ++q)\n"
 "    for (int j = 1; j < c; ++j) y[i * c + j] = y[i * c + j] * y[i * c + j - 1];\n}",
 1, 4, 1, NULL, 0, 0},
{"a red-black step in place", "d9io I=9",
 K("double *y, int n")
 "  if (i % 2 == 1 && i < n - 1) y[i] = 0.5 * y[i] * (y[i - 1] + sin(y[i + 1]));\n}",
 3, 4, 1, NULL, 0, 0},
{"an array that the kernel leaves alone", "d9io d9i d9oz I=9",
 K("double *y, const double *x, double *z, int n") "  if (i < n) z[i] = x[i] * x[i];\n}",
 3, 4, 0, NULL, 0, 0},
{"a step of heat in two dimensions", "d48i Di d48oz I=8 I=6",
 "__global__ void k(const double *u, double c, double *v, int w, int h) {\n"
 "  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;\n"
 "  if (x >= w || y >= h) return;\n  int l = x > 0 ? x - 1 : x, r = x < w - 1 ? x + 1 : x;\n"
 "  int a = y > 0 ? y - 1 : y, b = y < h - 1 ? y + 1 : y;\n  double s = u[y * w + x];\n"
 "  v[y * w + x] = s + c * (u[y * w + l] + u[y * w + r] + u[a * w + x] + u[b * w + x] - 4 * s) * s;\n}",
 3 | 2 << 8, 3 | 4 << 8, 1, NULL, 0, 0},
{"a transposed tile in two dimensions", "d48i d48oz I=8 I=6",
 "__global__ void k(const double *u, double *v, int w, int h) {\n  __shared__ double s[4][5];\n"
 "  int x = blockIdx.x * 4 + threadIdx.x, y = blockIdx.y * 4 + threadIdx.y;\n"
 "  if (x < w && y < h) s[threadIdx.y][threadIdx.x] = u[y * w + x] * u[0];\n  __syncthreads();\n"
 "  int q = blockIdx.y * 4 + threadIdx.x, p = blockIdx.x * 4 + threadIdx.y;\n"
 "  if (q < h && p < w) v[p * h + q] = s[threadIdx.x][threadIdx.y] * s[threadIdx.x][threadIdx.y];\n}",
 2 | 2 << 8, 4 | 4 << 8, 1, NULL, 0, 0},
{"a loop with a real counter", "d5i d5oz Dp",
 K("const double *x, double *y, double h")
 "  double s = x[i], e = 0;\n  for (double t = 0; t < 1; t += 0.07) { s += 0.1 * h * (sin(3 * t) - s * s); e = s * t; }\n"
 "  y[i] = s * e;\n}", 1, 5, 2, NULL, 32, 0},
{"a loop that never runs, and one that runs once", "d5i d5oz I=0",
 K("const double *x, double *y, int n")
 "  double s = x[i], t = 1;\n  for (int j = 0; j < n; ++j) { t = s * t; s = sin(t); }\n"
 "  do { t = t * s + t; s = s * t; } while (s < -5);\n  y[i] = s * t;\n}", 1, 5, 2, NULL, 0, 0},
{"indices computed in memory", "d8i i8z d8oz I=8",
 K("const double *x, int *m, double *y, int n")
 "  if (i >= n) return;\n  m[i] = (i * 3 + 1) % n;\n  double v = x[m[i]] * x[m[i]];\n  m[i] = (m[i] + 1) % n;\n"
 "  y[i] = v * x[m[i]];\n}", 2, 4, 1, NULL, 0, 0},
/* ---- local arrays ---------------------------------------------------------------------------- */
{"a small matrix product", "d18i d18oz I=2",
 K("const double *x, double *y, int n")
 "  if (i >= n) return;\n  double a[3][3], b[3][3];\n"
 "  for (int r = 0; r < 3; ++r) for (int c = 0; c < 3; ++c) a[r][c] = x[i * 9 + r * 3 + c];\n"
 "  for (int r = 0; r < 3; ++r) for (int c = 0; c < 3; ++c) {\n    double s = 0;\n"
 "    for (int q = 0; q < 3; ++q) s += a[r][q] * a[q][c];\n    b[r][c] = s;\n  }\n"
 "  for (int r = 0; r < 9; ++r) y[i * 9 + r] = b[r / 3][r % 3];\n}", 1, 2, 1, NULL, 0, 0},
/* ---- atomics --------------------------------------------------------------------------------- */
{"atomicAdd into bins", "d9i i9%3 d3oz I=9",
 K("const double *x, const int *b, double *y, int n")
 "  if (i < n) atomicAdd(&y[b[i]], x[i] * x[i]);\n}", 3, 4, 2, NULL, 0, 0},
{"compaction", "d9i d9oz i1z I=9",
 K("const double *x, double *y, int *m, int n")
 "  if (i < n && x[i] > 0) { int s = atomicAdd(m, 1); y[s] = x[i]; }\n}", 3, 4, 0, "line 3", 0, 0},
/* ---- shared memory and warps ----------------------------------------------------------------- */
{"a tree reduction in shared memory", "d16i d2oz",
 "__global__ void k(const double *x, double *y) {\n  __shared__ double s[8];\n  int t = threadIdx.x;\n"
 "  double v = x[blockIdx.x * 8 + t];\n  s[t] = v * v;\n  __syncthreads();\n"
 "  for (int d = 4; d > 0; d /= 2) { if (t < d) s[t] += s[t + d]; __syncthreads(); }\n"
 "  if (t == 0) y[blockIdx.x] = s[0];\n}", 2, 8, 2, NULL, 0, 0},
{"a tree reduction in dynamic shared memory", "d16i d2oz",
 "__global__ void k(const double *x, double *y) {\n  extern __shared__ double s[];\n  int t = threadIdx.x;\n"
 "  s[t] = sin(x[blockIdx.x * 8 + t]);\n  __syncthreads();\n"
 "  for (int d = 4; d > 0; d >>= 1) { if (t < d) s[t] += s[t + d]; __syncthreads(); }\n"
 "  if (t == 0) y[blockIdx.x] = s[0] * s[0];\n}", 2, 8, 1, NULL, 0, 64},
{"a softmax of a block, by two reductions", "d16i d16oz",
 "__global__ void k(const double *x, double *y) {\n  __shared__ double s[8];\n"
 "  int t = threadIdx.x, i = blockIdx.x * 8 + t;\n  s[t] = x[i];\n  __syncthreads();\n"
 "  for (int d = 4; d > 0; d /= 2) { if (t < d) s[t] = fmax(s[t], s[t + d]); __syncthreads(); }\n"
 "  double m = s[0];\n  __syncthreads();\n  double e = exp(x[i] - m);\n  s[t] = e;\n  __syncthreads();\n"
 "  for (int d = 4; d > 0; d /= 2) { if (t < d) s[t] = s[t] + s[t + d]; __syncthreads(); }\n"
 "  y[i] = e / s[0];\n}", 2, 8, 1, NULL, 0, 0},
{"a guard between loads and barriers", "d16i d2oz Di",
 "__global__ void k(const double *x, double *y, double a) {\n  __shared__ double s[8];\n  int t = threadIdx.x;\n"
 "  double v = t < 6 ? x[blockIdx.x * 8 + t] : a;\n  v *= v;\n  if (t >= 6) return;\n  s[t] = v * a;\n  __syncthreads();\n"
 "  if (t == 0) y[blockIdx.x] = s[0] * s[1] + s[5];\n}", 2, 8, 1, NULL, 0, 0},
{"arrays of structs", "B3i d12i d9oz I=3",
 "struct P { double a, b, c; };\nstruct Q { P p; double d; };\n"
 "__global__ void k(P p, const Q *q, P *y, int n) {\n"
 "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n  if (i >= n) return;\n"
 "  Q v = q[i];\n  y[i].a = v.p.a * p.b;\n  y[i].b = v.d * v.p.c + p.a;\n  y[i].c = sin(q[n - 1 - i].p.b) * p.c;\n}",
 1, 4, 1, NULL, 0, 0},
{"a product in shared memory, with one slot too few", "d32i d1oz",
 "__global__ void k(const double *x, double *y) {\n  __shared__ double s[32];\n  int t = threadIdx.x;\n"
 "  s[t] = 1.5 + x[t];\n  __syncthreads();\n"
 "  for (int d = 16; d > 0; d /= 2) { if (t < d) s[t] *= s[t + d]; __syncthreads(); }\n"
 "  if (t == 0) y[0] = s[0];\n}", 1, 32, 1, NULL, 16, 0},
{"neighbours through shared memory, twice", "d16i d16oz",
 "__global__ void k(const double *x, double *y) {\n  __shared__ double s[8];\n  int t = threadIdx.x, i = blockIdx.x * 8 + t;\n"
 "  s[t] = x[i];\n  __syncthreads();\n  double v = s[(t + 1) % 8] * s[t];\n  __syncthreads();\n"
 "  s[t] = v * v;\n  __syncthreads();\n  y[i] = s[7 - t] * s[t];\n}", 2, 8, 2, NULL, 0, 0},
{"a tiled matrix product", "d64i d64i d64oz",
 "__global__ void k(const double *a, const double *b, double *c) {\n"
 "  __shared__ double p[16], q[16];\n  int r = threadIdx.x / 4, s = threadIdx.x % 4;\n"
 "  int row = blockIdx.x / 2 * 4 + r, col = blockIdx.x % 2 * 4 + s;\n  double v = 0;\n"
 "  for (int t = 0; t < 8; t += 4) {\n    p[r * 4 + s] = a[row * 8 + t + s];\n    q[r * 4 + s] = b[(t + r) * 8 + col];\n"
 "    __syncthreads();\n    for (int j = 0; j < 4; ++j) v += p[r * 4 + j] * q[j * 4 + s];\n    __syncthreads();\n  }\n"
 "  c[row * 8 + col] = v;\n}", 4, 16, 1, NULL, 0, 0},
{"Enzyme 3452: a shuffle reduction", "d64i d2oz",
 "__global__ void k(const double *x, double *y) {\n  int i = blockIdx.x * 32 + threadIdx.x;\n"
 "  double s = x[i] * x[i];\n  for (int d = 16; d > 0; d /= 2) s += __shfl_down_sync(0xffffffffu, s, d);\n"
 "  if (threadIdx.x == 0) y[blockIdx.x] = s * s;\n}", 2, 32, 1, NULL, 0, 0},
{"shuffles up, xor and from a lane", "d32i d32oz",
 "__global__ void k(const double *x, double *y) {\n  int t = threadIdx.x;\n  double v = x[t];\n"
 "  double a = __shfl_up_sync(~0u, v * v, 3), b = __shfl_xor_sync(~0u, v, 5);\n"
 "  double c = __shfl_sync(~0u, sin(v), t / 2), e = __shfl_sync(~0u, v, 7, 8);\n  y[t] = a * b + c * v + e * v;\n}",
 1, 32, 1, NULL, 0, 0},
/* ---- other types ----------------------------------------------------------------------------- */
{"floats, with fast functions", "f9i f9oz F i9%3 I=9",
 K("const float *x, float *y, float a, const int *b, int n")
 "  if (i >= n) return;\n  float s = a;\n  for (int j = 0; j < 40; ++j) s = __sinf(s) * x[i] + 0.2f * b[i];\n"
 "  y[i] = s * __expf(x[i]) + fminf(s, 0.1f);\n}", 3, 4, 2, NULL, 0, 0},
{"halves", "h9i f9i h9oz I=9",
 K("const __half *x, const float *w, __half *y, int n")
 "  if (i >= n) return;\n  float v = __half2float(x[i]) * w[i];\n"
 "  for (int j = 0; j < 3; ++j) v = v * v + 0.1f;\n  y[i] = __float2half(v);\n}",
 3, 4, 1, NULL, 0, 0},
{"mixed precision", "f9i d9oz I=9",
 K("const float *x, double *y, int n")
 "  if (i >= n) return;\n  double s = 0;\n  for (int j = 0; j < n; ++j) s = s * 0.5 + (double)x[j] * x[i];\n  y[i] = s * s;\n}",
 3, 4, 1, NULL, 0, 0},
{"lgamma and tgamma", "d9ip d9oz I=9",
 K("const double *x, double *y, int n") "  if (i < n) y[i] = lgamma(x[i]) + tgamma(x[i] - 3.0);\n}",
 3, 4, 1, NULL, 0, 0},
/* ---- refusals -------------------------------------------------------------------------------- */
{"atomicExch of an active value", "f9i f9oz I=9",
 K("const float *x, float *y, int n") "  if (i < n) atomicExch(&y[i], x[i]);\n}", 3, 4, 0,
 "line 3: atomicExch on 'y'", 0, 0},
{"the result of atomicAdd", "d9i d9oz d1ioz I=9",
 K("const double *x, double *y, double *s, int n") "  if (i < n) y[i] = atomicAdd(s, x[i]);\n}",
 3, 4, 0,
 "line 3", 0, 0},
{"bits of a number", "f9i f9oz I=9",
 K("const float *x, float *y, int n") "  if (i < n) y[i] = __int_as_float(__float_as_int(x[i]) & 0x7ffffffe);\n}",
 3, 4, 0, "line 3: the bits", 0, 0},
{"a shuffle of some lanes", "d32i d32oz",
 "__global__ void k(const double *x, double *y) {\n  int t = threadIdx.x;\n  double v = x[t];\n  if (t < 16)\n"
 "    v += __shfl_xor_sync(0xffffu, v, 1);\n  y[t] = v;\n}", 1, 32, 2, NULL, 0, 0},
