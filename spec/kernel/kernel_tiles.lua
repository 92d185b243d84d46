--- For kernel_tiles_spec.lua: factorisations, solvers and transforms in shared memory, as people
--- write them; then kernel_sweeps.lua. A list of {name, source, n = numbers of a block, out =
--- results of a block, threads, shared = bytes, steps = the argument n}: x and y are the block's.
local kernels = {}

local function add(name, n, threads, out, source, o)
  kernels[#kernels + 1] = { name = name, n = n, threads = threads, out = out, source = source,
    shared = o and o.shared, steps = o and o.steps or 4, coarse = o and o.coarse,
    before = o and o.before or "" }
end

assert(loadfile "spec/kernel/kernel_sweeps.lua")(add)

add("lu", 36, 8, 36, [[
  const int M = 6; __shared__ double a[36]; int t = threadIdx.x;
  for (int i = t; i < M * M; i += blockDim.x) a[i] = x[i] + (i % (M + 1) == 0 ? 4.0 : 0.0);
  __syncthreads();
  for (int k = 0; k < M; k++) {
    for (int i = k + 1 + t; i < M; i += blockDim.x) a[i * M + k] /= a[k * M + k];
    __syncthreads();
    for (int e = t; e < (M - k - 1) * (M - k - 1); e += blockDim.x) {
      int i = k + 1 + e / (M - k - 1), j = k + 1 + e % (M - k - 1);
      a[i * M + j] -= a[i * M + k] * a[k * M + j];
    }
    __syncthreads();
  }
  for (int i = t; i < M * M; i += blockDim.x) y[i] = a[i];]])

add("lu2d", 36, 36, 36, [[
  __shared__ double a[6][6]; int tx = threadIdx.x % 6, ty = threadIdx.x / 6;
  a[ty][tx] = x[ty * 6 + tx] + (tx == ty ? 4.0 : 0.0);
  __syncthreads();
  for (int k = 0; k < 5; k++) {
    if (tx == k && ty > k) a[ty][k] /= a[k][k];
    __syncthreads();
    if (tx > k && ty > k) a[ty][tx] -= a[ty][k] * a[k][tx];
    __syncthreads();
  }
  y[ty * 6 + tx] = a[ty][tx];]])

add("lu_rows", 36, 6, 36, [[
  __shared__ double a[6][7]; int i = threadIdx.x;
  for (int j = 0; j < 6; j++) a[i][j] = x[i * 6 + j] + (i == j ? 4.0 : 0.0);
  __syncthreads();
  for (int k = 0; k < 5; k++) {
    if (i > k) {
      double f = a[i][k] / a[k][k];
      a[i][k] = f;
      for (int j = k + 1; j < 6; j++) a[i][j] -= f * a[k][j];
    }
    __syncthreads();
  }
  for (int j = 0; j < 6; j++) y[i * 6 + j] = a[i][j];]])

add("cholesky", 36, 8, 36, [[
  const int M = 6; __shared__ double a[36]; int t = threadIdx.x;
  for (int i = t; i < 36;
    i += blockDim.x) a[i] = 0.5 * (x[i] + x[(i % M) * M + i / M]) + (i % (M + 1) == 0 ? 6.0 : 0.0);
  __syncthreads();
  for (int k = 0; k < M; k++) {
    if (t == 0) a[k * M + k] = sqrt(a[k * M + k]);
    __syncthreads();
    for (int i = k + 1 + t; i < M; i += blockDim.x) a[i * M + k] /= a[k * M + k];
    __syncthreads();
    for (int i = k + 1 + t; i < M; i += blockDim.x)
      for (int j = k + 1; j <= i; j++) a[i * M + j] -= a[i * M + k] * a[j * M + k];
    __syncthreads();
  }
  for (int i = t; i < 36; i += blockDim.x) y[i] = (i % M <= i / M) ? a[i] : 0.0;]])

add("forward_sub", 42, 8, 6, [[
  const int M = 6; __shared__ double a[36], b[6]; int t = threadIdx.x;
  for (int i = t; i < 36; i += blockDim.x) a[i] = x[i] + (i % (M + 1) == 0 ? 4.0 : 0.0);
  for (int i = t; i < M; i += blockDim.x) b[i] = x[36 + i];
  __syncthreads();
  for (int k = 0; k < M; k++) {
    if (t == 0) b[k] /= a[k * M + k];
    __syncthreads();
    for (int i = k + 1 + t; i < M; i += blockDim.x) b[i] -= a[i * M + k] * b[k];
    __syncthreads();
  }
  for (int k = M - 1; k >= 0; k--) {
    if (t == 0) b[k] /= a[k * M + k];
    __syncthreads();
    for (int i = t; i < k; i += blockDim.x) b[i] -= a[k * M + i] * b[k];
    __syncthreads();
  }
  for (int i = t; i < M; i += blockDim.x) y[i] = b[i];]])

add("thomas", 32, 4, 8, [[
  __shared__ double c[8], d[8]; int t = threadIdx.x;
  __shared__ double a[8], b[8];
  for (int i = t; i < 8; i += blockDim.x) { a[i] = x[i]; b[i] = x[8 + i] + 4.0;
    c[i] = x[16 + i]; d[i] = x[24 + i]; }
  __syncthreads();
  if (t == 0) {
    c[0] /= b[0]; d[0] /= b[0];
    for (int i = 1; i < 8; i++) {
      double m = b[i] - a[i] * c[i - 1];
      c[i] = c[i] / m; d[i] = (d[i] - a[i] * d[i - 1]) / m;
    }
    for (int i = 6; i >= 0; i--) d[i] -= c[i] * d[i + 1];
  }
  __syncthreads();
  for (int i = t; i < 8; i += blockDim.x) y[i] = d[i];]])

add("cyclic_reduction", 32, 8, 8, [[
  __shared__ double a[8], b[8], c[8], d[8]; int i = threadIdx.x;
  a[i] = i > 0 ? x[i] : 0.0; b[i] = x[8 + i] + 4.0; c[i] = i < 7 ? x[16 + i] : 0.0;
    d[i] = x[24 + i];
  __syncthreads();
  for (int s = 1; s < 8; s *= 2) {
    double na = 0, nb = b[i], nc = 0, nd = d[i];
    if (i - s >= 0) { double k1 = a[i] / b[i - s]; nb -= c[i - s] * k1; nd -= d[i - s] * k1;
      na = -a[i - s] * k1; }
    if (i + s < 8) { double k2 = c[i] / b[i + s]; nb -= a[i + s] * k2; nd -= d[i + s] * k2;
      nc = -c[i + s] * k2; }
    __syncthreads();
    a[i] = na; b[i] = nb; c[i] = nc; d[i] = nd;
    __syncthreads();
  }
  y[i] = d[i] / b[i];]])

add("fft", 32, 8, 32, [[
  __shared__ double re[16], im[16]; int t = threadIdx.x;
  for (int i = t; i < 16; i += blockDim.x) {
    int r = ((i & 1) << 3) | ((i & 2) << 1) | ((i & 4) >> 1) | ((i & 8) >> 3);
    re[r] = x[2 * i]; im[r] = x[2 * i + 1];
  }
  __syncthreads();
  for (int len = 2; len <= 16; len <<= 1) {
    int half = len / 2;
    int g = t / half, k = t % half, i = g * len + k, j = i + half;
    double c = cos(-6.283185307179586 * k / len), s = sin(-6.283185307179586 * k / len);
    double ur = re[i], ui = im[i], vr = re[j] * c - im[j] * s, vi = re[j] * s + im[j] * c;
    re[i] = ur + vr; im[i] = ui + vi; re[j] = ur - vr; im[j] = ui - vi;
    __syncthreads();
  }
  for (int i = t; i < 16; i += blockDim.x) { y[2 * i] = re[i] * re[i] + im[i] * im[i];
    y[2 * i + 1] = im[i]; }]])

add("fft_loop", 32, 4, 32, [[
  __shared__ double re[16], im[16]; int t = threadIdx.x;
  for (int i = t; i < 16; i += blockDim.x) { re[i] = x[2 * i]; im[i] = x[2 * i + 1]; }
  __syncthreads();
  for (int half = 8; half >= 1; half >>= 1) {
    for (int e = t; e < 8; e += blockDim.x) {
      int k = e & (half - 1), i = 2 * (e - k) + k, j = i + half;
      double c = cospi(-(double)k / half), s = sinpi(-(double)k / half);
      double dr = re[i] - re[j], di = im[i] - im[j];
      re[i] += re[j]; im[i] += im[j];
      re[j] = dr * c - di * s; im[j] = dr * s + di * c;
    }
    __syncthreads();
  }
  for (int i = t; i < 16; i += blockDim.x) { y[2 * i] = re[i] * re[i]; y[2 * i + 1] = im[i]; }]])

add("gauss_jordan", 36, 8, 36, [[
  const int M = 6; __shared__ double a[36]; __shared__ double f[6]; int t = threadIdx.x;
  for (int i = t; i < 36; i += blockDim.x) a[i] = x[i] + (i % (M + 1) == 0 ? 4.0 : 0.0);
  __syncthreads();
  for (int k = 0; k < M; k++) {
    double p = 1.0 / a[k * M + k];
    for (int i = t; i < M; i += blockDim.x) f[i] = i == k ? 0.0 : a[i * M + k];
    __syncthreads();
    for (int j = t; j < M; j += blockDim.x) { if (j == k) a[k * M + j] = p;
      else a[k * M + j] *= p; }
    __syncthreads();
    for (int e = t; e < 36; e += blockDim.x) {
      int i = e / M, j = e % M;
      if (i != k) a[e] = j == k ? -f[i] * p : a[e] - f[i] * a[k * M + j];
    }
    __syncthreads();
  }
  for (int i = t; i < 36; i += blockDim.x) y[i] = a[i];]])

add("lu_dyn_n", 36, 8, 36, [[
  extern __shared__ double a[]; int t = threadIdx.x;
  for (int i = t; i < n * n; i += blockDim.x) a[i] = x[i] + (i % (n + 1) == 0 ? 4.0 : 0.0);
  __syncthreads();
  for (int k = 0; k < n; k++) {
    for (int i = k + 1 + t; i < n; i += blockDim.x) a[i * n + k] /= a[k * n + k];
    __syncthreads();
    for (int i = k + 1; i < n; i++)
      for (int j = k + 1 + t; j < n;
        j += blockDim.x) a[i * n + j] -= a[i * n + k] * a[k * n + j];
    __syncthreads();
  }
  for (int i = t; i < n * n; i += blockDim.x) y[i] = a[i];]], { shared = 288, steps = 6 })

add("lu_piv", 36, 8, 36, [[
  __shared__ double a[36]; __shared__ int piv; int t = threadIdx.x; const int M = 6;
  for (int i = t; i < 36; i += blockDim.x) a[i] = x[i];
  __syncthreads();
  for (int k = 0; k < M - 1; k++) {
    if (t == 0) { int p = k; for (int i = k + 1; i < M;
      i++) if (fabs(a[i * M + k]) > fabs(a[p * M + k])) p = i; piv = p; }
    __syncthreads();
    int p = piv;
    if (p != k) for (int j = t; j < M; j += blockDim.x) { double v = a[k * M + j];
      a[k * M + j] = a[p * M + j]; a[p * M + j] = v; }
    __syncthreads();
    for (int i = k + 1 + t; i < M; i += blockDim.x) {
      double f = a[i * M + k] /= a[k * M + k];
      for (int j = k + 1; j < M; j++) a[i * M + j] -= f * a[k * M + j];
    }
    __syncthreads();
  }
  for (int i = t; i < 36; i += blockDim.x) y[i] = a[i];]])

add("converge", 32, 8, 32, [[
  __shared__ double u[32], v[32]; __shared__ double err; int t = threadIdx.x;
  for (int i = t; i < 32; i += blockDim.x) u[i] = x[i];
  __syncthreads();
  int it = 0;
  while (it < 20) {
    for (int i = t; i < 32; i += blockDim.x) v[i] = 0.5 * cos(u[i]) + 0.2 * u[(i + 1) % 32];
    __syncthreads();
    if (t == 0) { double e = 0; for (int i = 0; i < 32; i++) e += fabs(v[i] - u[i]); err = e; }
    __syncthreads();
    for (int i = t; i < 32; i += blockDim.x) u[i] = v[i];
    bool done = err < 1e-1;
    __syncthreads();
    if (done) break;
    it++;
  }
  for (int i = t; i < 32; i += blockDim.x) y[i] = u[i];]])

add("warp_lu", 36, 32, 36, [[
  __shared__ double a[6][6]; int t = threadIdx.x;
  if (t < 6) for (int j = 0; j < 6; j++) a[t][j] = x[t * 6 + j] + (t == j ? 4.0 : 0.0);
  __syncwarp();
  for (int k = 0; k < 5; k++) {
    if (t > k && t < 6) {
      double f = a[t][k] / a[k][k]; a[t][k] = f;
      for (int j = k + 1; j < 6; j++) a[t][j] -= f * a[k][j];
    }
    __syncwarp();
  }
  if (t < 6) for (int j = 0; j < 6; j++) y[t * 6 + j] = a[t][j];]])

add("floyd_loop", 36, 8, 36, [[
  __shared__ double d[36]; int t = threadIdx.x;
  for (int e = t; e < 36; e += blockDim.x) d[e] = x[e] + 1.0 + 0.01 * (e * 7 % 11);
  __syncthreads();
  for (int k = 0; k < 6; k++) {
    for (int e = t; e < 36; e += blockDim.x) { int i = e / 6, j = e % 6;
      if (i != k && j != k) { double v = d[i * 6 + k] + d[k * 6 + j]; if (v < d[e]) d[e] = v;
        } }
    __syncthreads();
  }
  for (int e = t; e < 36; e += blockDim.x) y[e] = d[e];]])

add("qr_house", 36, 6, 36, [[
  __shared__ double a[36], v[6]; __shared__ double beta; int t = threadIdx.x;
  for (int i = 0; i < 6; i++) a[i * 6 + t] = x[i * 6 + t] + (i == t ? 3.0 : 0.0);
  __syncthreads();
  for (int k = 0; k < 5; k++) {
    if (t == 0) { double s = 0; for (int i = k; i < 6; i++) s += a[i * 6 + k] * a[i * 6 + k];
      double al = a[k * 6 + k] > 0 ? -sqrt(s) : sqrt(s);
      for (int i = k; i < 6; i++) v[i] = a[i * 6 + k] - (i == k ? al : 0.0);
      double q = 0; for (int i = k; i < 6; i++) q += v[i] * v[i]; beta = 2.0 / q; }
    __syncthreads();
    if (t >= k) { double s = 0; for (int i = k; i < 6; i++) s += v[i] * a[i * 6 + t];
      s *= beta; for (int i = k; i < 6; i++) a[i * 6 + t] -= s * v[i]; }
    __syncthreads();
  }
  for (int i = 0; i < 6; i++) y[i * 6 + t] = a[i * 6 + t];]])

add("jacobi_rot", 36, 6, 36, [[
  __shared__ double a[36]; int t = threadIdx.x;
  for (int i = 0; i < 6;
    i++) a[i * 6 + t] = 0.5 * (x[i * 6 + t] + x[t * 6 + i]) + (i == t ? 1.0 + i : 0.0);
  __syncthreads();
  for (int p = 0; p < 5; p++) for (int q = p + 1; q < 6; q++) {
    double th = 0.5 * atan2(2 * a[p * 6 + q], a[q * 6 + q] - a[p * 6 + p]), c = cos(th),
      s = sin(th);
    __syncthreads();
    double u = a[p * 6 + t], w = a[q * 6 + t];
    a[p * 6 + t] = c * u - s * w; a[q * 6 + t] = s * u + c * w;
    __syncthreads();
    u = a[t * 6 + p]; w = a[t * 6 + q];
    a[t * 6 + p] = c * u - s * w; a[t * 6 + q] = s * u + c * w;
    __syncthreads();
  }
  for (int i = 0; i < 6; i++) y[i * 6 + t] = a[i * 6 + t];]])

add("stockham", 32, 8, 32, [[
  __shared__ double2 s[2][16]; int t = threadIdx.x;
  for (int i = t; i < 16; i += blockDim.x) s[0][i] = make_double2(x[2 * i], x[2 * i + 1]);
  __syncthreads();
  int cur = 0;
  for (int l = 8, m = 1; l >= 1; l /= 2, m *= 2) {
    int j = t / m, k = t % m;
    double c = cospi(-(double)j / l), d = sinpi(-(double)j / l);
    double2 a = s[cur][k + j * m], b = s[cur][k + j * m + l * m];
    s[1 - cur][k + 2 * j * m] = make_double2(a.x + b.x, a.y + b.y);
    double2 e = make_double2(a.x - b.x, a.y - b.y);
    s[1 - cur][k + 2 * j * m + m] = make_double2(e.x * c - e.y * d, e.x * d + e.y * c);
    __syncthreads();
    cur = 1 - cur;
  }
  for (int i = t; i < 16; i += blockDim.x) { y[2 * i] = s[cur][i].x * s[cur][i].y;
    y[2 * i + 1] = s[cur][i].y; }]])

add("conj_grad", 42, 6, 6, [[
  __shared__ double a[36], r[6], p[6], u[6], ap[6]; __shared__ double rr, al, be;
    int t = threadIdx.x;
  for (int i = 0; i < 6;
    i++) a[i * 6 + t] = 0.3 * (x[i * 6 + t] + x[t * 6 + i]) + (i == t ? 4.0 : 0.0);
  r[t] = p[t] = x[36 + t]; u[t] = 0;
  __syncthreads();
  if (t == 0) { rr = 0; for (int i = 0; i < 6; i++) rr += r[i] * r[i]; }
  __syncthreads();
  for (int k = 0; k < n; k++) {
    double s = 0; for (int j = 0; j < 6; j++) s += a[t * 6 + j] * p[j];
    ap[t] = s; __syncthreads();
    if (t == 0) { double q = 0; for (int i = 0; i < 6; i++) q += p[i] * ap[i]; al = rr / q; }
    __syncthreads();
    u[t] += al * p[t]; r[t] -= al * ap[t];
    __syncthreads();
    if (t == 0) { double q = 0; for (int i = 0; i < 6; i++) q += r[i] * r[i]; be = q / rr;
      rr = q; }
    __syncthreads();
    p[t] = r[t] + be * p[t];
    __syncthreads();
  }
  y[t] = u[t];]])

add("f32_lu", 36, 8, 36, [[
  __shared__ float a[36]; int t = threadIdx.x;
  for (int i = t; i < 36; i += blockDim.x) a[i] = (float)x[i] + (i % 7 == 0 ? 4.0f : 0.0f);
  __syncthreads();
  for (int k = 0; k < 6; ++k) {
    float inv = 1.0f / a[k * 6 + k];
    __syncthreads();
    for (int i = k + 1 + t; i < 6; i += blockDim.x) a[i * 6 + k] *= inv;
    __syncthreads();
    for (int e = t; e < 36; e += blockDim.x) { int i = e / 6, j = e % 6;
      if (i > k && j > k) a[e] = fmaf(-a[i * 6 + k], a[k * 6 + j], a[e]); }
    __syncthreads();
  }
  for (int i = t; i < 36; i += blockDim.x) y[i] = a[i];]], { coarse = true })

add("double_buffer_gemm", 128, 16, 16, [[
  __shared__ double A[2][4][4], Bt[2][4][4]; int tx = threadIdx.x % 4, ty = threadIdx.x / 4;
    double acc = 0; int cur = 0;
  A[0][ty][tx] = x[ty * 16 + tx]; Bt[0][ty][tx] = x[64 + ty * 4 + tx];
  __syncthreads();
  for (int k = 0; k < 4; k++) {
    if (k < 3) { A[cur ^ 1][ty][tx] = x[ty * 16 + (k + 1) * 4 + tx];
      Bt[cur ^ 1][ty][tx] = x[64 + ((k + 1) * 4 + ty) * 4 + tx]; }
    for (int e = 0; e < 4; e++) acc += A[cur][ty][e] * Bt[cur][e][tx];
    __syncthreads();
    cur ^= 1;
  }
  y[ty * 4 + tx] = acc;]])

add("ctc_log", 32, 8, 8, [[
  __shared__ double a[8]; int t = threadIdx.x;
  a[t] = x[t]; __syncthreads();
  for (int s = 1; s < 4; s++) {
    double p = a[t], q = t > 0 ? a[t - 1] : -30.0;
    double m = fmax(p, q), v = m + log(exp(p - m) + exp(q - m)) + x[s * 8 + t];
    __syncthreads();
    a[t] = v;
    __syncthreads();
  }
  y[t] = a[t];]])

add("dtw", 16, 4, 16, [[
  __shared__ double d[5][5]; int t = threadIdx.x;
  for (int i = t; i < 25; i += blockDim.x) d[i / 5][i % 5] = i == 0 ? 0.0 : 10.0;
  __syncthreads();
  for (int k = 0; k < 7; k++) {
    int i = t + 1, j = k - t + 1;
    if (j >= 1 && j <= 4) d[i][j] = x[(i - 1) * 4 + j - 1] * x[(i - 1) * 4 + j - 1] - log(exp(-d[i-1][j]) + exp(-d[i][j-1]) + exp(-d[i-1][j-1]));
    __syncthreads();
  }
  for (int i = t; i < 16; i += blockDim.x) y[i] = d[1 + i / 4][1 + i % 4];]])

return kernels
