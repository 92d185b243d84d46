--- For kernel_tiles_spec.lua: sweeps, two buffers that change places, sorts and scans in shared
--- memory, as people write them; 'add' is that of kernel_tiles.lua.
local add = ...

add("redblack", 64, 16, 64, [[
  __shared__ double u[64]; int t = threadIdx.x;
  for (int i = t; i < 64; i += blockDim.x) u[i] = x[i];
  __syncthreads();
  for (int s = 0; s < 3; s++)
    for (int c = 0; c < 2; c++) {
      for (int i = t; i < 64; i += blockDim.x) {
        int r = i / 8, q = i % 8;
        if (r > 0 && r < 7 && q > 0 && q < 7 && ((r + q) & 1) == c)
          u[i] = 0.25 * (u[i - 1] + u[i + 1] + u[i - 8] + u[i + 8]) + 0.1 * u[i] * u[i];
      }
      __syncthreads();
    }
  for (int i = t; i < 64; i += blockDim.x) y[i] = u[i];]])

add("pointer_swap", 32, 8, 32, [[
  __shared__ double b0[32], b1[32]; double *cur = b0, *nxt = b1; int t = threadIdx.x;
  for (int i = t; i < 32; i += blockDim.x) cur[i] = x[i];
  __syncthreads();
  for (int s = 0; s < 5; s++) {
    for (int i = t; i < 32; i += blockDim.x)
      nxt[i] = cur[i] + 0.2 * (cur[(i + 31) % 32] - 2 * cur[i] + cur[(i + 1) % 32]) + 0.05 * cur[i] * cur[i];
    __syncthreads();
    double *tmp = cur; cur = nxt; nxt = tmp;
  }
  for (int i = t; i < 32; i += blockDim.x) y[i] = cur[i];]])

add("half_index", 32, 8, 32, [[
  __shared__ double buf[64]; int t = threadIdx.x;
  for (int i = t; i < 32; i += blockDim.x) buf[i] = x[i];
  __syncthreads();
  int s = 0;
  for (; s < n; s++) {
    double *c = buf + (s & 1) * 32, *d = buf + ((s + 1) & 1) * 32;
    for (int i = t; i < 32; i += blockDim.x) {
      int l = i > 0 ? i - 1 : 0, r = i < 31 ? i + 1 : 31;
      d[i] = c[i] + 0.2 * (c[l] - 2 * c[i] + c[r]) + 0.05 * c[i] * c[i];
    }
    __syncthreads();
  }
  for (int i = t; i < 32; i += blockDim.x) y[i] = buf[(s & 1) * 32 + i];]])

add("cur_toggle", 32, 8, 32, [[
  __shared__ double buf[2][32]; int t = threadIdx.x, cur = 0;
  for (int i = t; i < 32; i += blockDim.x) buf[0][i] = x[i];
  __syncthreads();
  for (int s = 0; s < n; s++) {
    for (int i = t; i < 32; i += blockDim.x)
      buf[1 - cur][i] = buf[cur][i] * 0.9 + 0.1 * buf[cur][(i + 1) % 32] * buf[cur][i];
    __syncthreads();
    cur = 1 - cur;
  }
  for (int i = t; i < 32; i += blockDim.x) y[i] = buf[cur][i];]])

add("bitonic", 32, 16, 32, [[
  __shared__ double s[32]; int t = threadIdx.x;
  for (int i = t; i < 32; i += blockDim.x) s[i] = x[i] + 0.001 * i;
  __syncthreads();
  for (int k = 2; k <= 32; k <<= 1)
    for (int j = k >> 1; j > 0; j >>= 1) {
      for (int i = t; i < 32; i += blockDim.x) {
        int p = i ^ j;
        if (p > i) {
          double u = s[i], v = s[p];
          bool up = (i & k) == 0;
          if ((u > v) == up) { s[i] = v; s[p] = u; }
        }
      }
      __syncthreads();
    }
  for (int i = t; i < 32; i += blockDim.x) y[i] = s[i] * (i + 1);]])

add("bitonic_one", 32, 32, 32, [[
  __shared__ double s[32]; int i = threadIdx.x;
  s[i] = x[i] + 0.001 * i;
  __syncthreads();
  for (int k = 2; k <= 32; k *= 2)
    for (int j = k / 2; j > 0; j /= 2) {
      int p = i ^ j;
      if (p > i) {
        if ((i & k) == 0 ? s[i] > s[p] : s[i] < s[p]) { double u = s[i]; s[i] = s[p];
          s[p] = u; }
      }
      __syncthreads();
    }
  y[i] = s[i] * (i + 1);]])

add("blelloch", 32, 16, 32, [[
  __shared__ double s[32]; int t = threadIdx.x; int offset = 1;
  s[2 * t] = x[2 * t]; s[2 * t + 1] = x[2 * t + 1];
  for (int d = 16; d > 0; d >>= 1) {
    __syncthreads();
    if (t < d) { int a = offset * (2 * t + 1) - 1, b = offset * (2 * t + 2) - 1; s[b] += s[a]; }
    offset *= 2;
  }
  if (t == 0) s[31] = 0;
  for (int d = 1; d < 32; d *= 2) {
    offset >>= 1;
    __syncthreads();
    if (t < d) { int a = offset * (2 * t + 1) - 1, b = offset * (2 * t + 2) - 1;
      double v = s[a]; s[a] = s[b]; s[b] += v; }
  }
  __syncthreads();
  y[2 * t] = s[2 * t] * s[2 * t]; y[2 * t + 1] = s[2 * t + 1];]])

add("blelloch_max", 32, 16, 32, [[
  __shared__ double s[32]; int t = threadIdx.x; int offset = 1;
  s[2 * t] = x[2 * t]; s[2 * t + 1] = x[2 * t + 1];
  for (int d = 16; d > 0; d >>= 1) {
    __syncthreads();
    if (t < d) { int a = offset * (2 * t + 1) - 1, b = offset * (2 * t + 2) - 1;
      s[b] *= 1.0 + 0.1 * s[a]; }
    offset *= 2;
  }
  __syncthreads();
  y[2 * t] = s[2 * t] * s[2 * t]; y[2 * t + 1] = s[2 * t + 1];]])

add("hillis", 32, 32, 32, [[
  __shared__ double s[2][32]; int t = threadIdx.x, in = 1, out = 0;
  s[0][t] = x[t];
  __syncthreads();
  for (int o = 1; o < 32; o *= 2) {
    out = 1 - out; in = 1 - out;
    if (t >= o) s[out][t] = s[in][t] * s[in][t - o]; else s[out][t] = s[in][t];
    __syncthreads();
  }
  y[t] = s[out][t];]])

add("softmax_rounds", 32, 8, 32, [[
  __shared__ double s[32], red[8]; int t = threadIdx.x;
  for (int i = t; i < 32; i += blockDim.x) s[i] = x[i];
  __syncthreads();
  for (int r = 0; r < 3; r++) {
    double m = -1e30;
    for (int i = t; i < 32; i += blockDim.x) m = fmax(m, s[i]);
    red[t] = m; __syncthreads();
    for (int o = 4; o > 0; o /= 2) { if (t < o) red[t] = fmax(red[t], red[t + o]);
      __syncthreads(); }
    m = red[0]; __syncthreads();
    double z = 0;
    for (int i = t; i < 32; i += blockDim.x) { s[i] = exp(s[i] - m); z += s[i]; }
    red[t] = z; __syncthreads();
    for (int o = 4; o > 0; o /= 2) { if (t < o) red[t] += red[t + o]; __syncthreads(); }
    z = red[0]; __syncthreads();
    for (int i = t; i < 32; i += blockDim.x) s[i] = s[i] / z * 3.0 + x[i];
    __syncthreads();
  }
  for (int i = t; i < 32; i += blockDim.x) y[i] = s[i];]])

add("odd_even", 32, 16, 32, [[
  __shared__ double s[32]; int t = threadIdx.x;
  for (int i = t; i < 32; i += blockDim.x) s[i] = x[i];
  __syncthreads();
  for (int st = 1; st < 32; st *= 2) {
    for (int i = t; i < 32; i += blockDim.x)
      if (i % (2 * st) == 0) s[i] = s[i] * s[i + st] + s[i];
    __syncthreads();
  }
  for (int i = t; i < 32; i += blockDim.x) y[i] = s[i];]])

add("odd_even_sort", 16, 8, 16, [[
  __shared__ double s[16]; int t = threadIdx.x;
  for (int i = t; i < 16; i += blockDim.x) s[i] = x[i] + 0.001 * i;
  __syncthreads();
  for (int p = 0; p < 16; p++) {
    int i = 2 * t + (p & 1);
    if (i + 1 < 16 && s[i] > s[i + 1]) { double u = s[i]; s[i] = s[i + 1]; s[i + 1] = u; }
    __syncthreads();
  }
  for (int i = t; i < 16; i += blockDim.x) y[i] = s[i] * (1 + i);]])

add("row_twice", 32, 8, 32, [[
  __shared__ double s[4][8]; int t = threadIdx.x;
  for (int r = 0; r < 4; r++) s[r][t] = x[r * 8 + t];
  __syncthreads();
  for (int k = 0; k < 3; k++) {
    for (int r = 0; r < 4; r++) s[r][t] = s[r][t] * s[r][t] * 0.5 + 0.1;
    for (int r = 0; r < 4; r++) s[r][t] *= 1.0 + s[r][t];
    __syncthreads();
    double v = s[0][(t + 1) % 8]; __syncthreads();
    s[0][t] += 0.1 * v; __syncthreads();
  }
  for (int r = 0; r < 4; r++) y[r * 8 + t] = s[r][t];]])

add("sor_wave", 36, 6, 36, [[
  __shared__ double u[6][6]; int t = threadIdx.x;
  for (int i = 0; i < 6; i++) u[i][t] = x[i * 6 + t];
  __syncthreads();
  for (int s = 0; s < 2; s++)
    for (int d = 2; d <= 8; d++) {
      int i = d - t, j = t;
      if (i > 0 && i < 5 && j > 0 && j < 5) u[i][j] = 0.25 * (u[i-1][j] + u[i+1][j] + u[i][j-1] + u[i][j+1]) + 0.1 * u[i][j] * u[i][j];
      __syncthreads();
    }
  for (int i = 0; i < 6; i++) y[i * 6 + t] = u[i][t];]])

add("life_dyn", 32, 8, 32, [[
  extern __shared__ double m[]; double *p = m, *q = m + 32; int t = threadIdx.x;
  for (int i = t; i < 32; i += blockDim.x) p[i] = x[i];
  __syncthreads();
  for (int s = 0; s < n; s++) {
    for (int i = t; i < 32; i += blockDim.x) q[i] = p[i] * p[(i + 5) % 32] + 0.2;
    __syncthreads();
    double *w = p; p = q; q = w;
  }
  for (int i = t; i < 32; i += blockDim.x) y[i] = p[i];]], { shared = 512 })

add("haar", 32, 16, 32, [[
  __shared__ double s[32], w[32]; int t = threadIdx.x;
  for (int i = t; i < 32; i += blockDim.x) s[i] = x[i];
  __syncthreads();
  for (int len = 32; len > 1; len /= 2) {
    int h = len / 2;
    for (int i = t; i < h; i += blockDim.x) { w[i] = 0.7 * (s[2*i] + s[2*i+1]);
      w[h + i] = 0.7 * (s[2*i] - s[2*i+1]); }
    __syncthreads();
    for (int i = t; i < len; i += blockDim.x) s[i] = w[i] * (1.0 + 0.1 * w[i]);
    __syncthreads();
  }
  for (int i = t; i < 32; i += blockDim.x) y[i] = s[i];]])

add("row_pointer", 32, 8, 32, [[
  __shared__ double b[2][32]; double (*cur)[32] = &b[0], (*nxt)[32] = &b[1];
    int t = threadIdx.x;
  for (int i = t; i < 32; i += blockDim.x) (*cur)[i] = x[i];
  __syncthreads();
  for (int s = 0; s < n; s++) {
    for (int i = t; i < 32; i += blockDim.x) (*nxt)[i] = (*cur)[i] * (*cur)[(i + 1) % 32] + 0.3;
    __syncthreads();
    double (*w)[32] = cur; cur = nxt; nxt = w;
  }
  for (int i = t; i < 32; i += blockDim.x) y[i] = (*cur)[i];]])

add("warp_sort", 32, 32, 32, [[
  volatile __shared__ double s[32]; int i = threadIdx.x;
  s[i] = x[i] + 0.001 * i; __syncwarp();
  for (int k = 2; k <= 32; k *= 2)
    for (int j = k / 2; j > 0; j /= 2) {
      int p = i ^ j; double u = s[i], v = s[p];
      __syncwarp();
      bool keep = ((i & k) == 0) == (i < p);
      s[i] = keep ? fmin(u, v) : fmax(u, v);
      __syncwarp();
    }
  y[i] = s[i] * (i + 1);]])

add("devfun", 32, 8, 32, [[
  __shared__ double s[32]; int t = threadIdx.x;
  for (int i = t; i < 32; i += blockDim.x) s[i] = x[i];
  __syncthreads();
  for (int r = 0; r < n; r++) { sweep(s, t, 0); __syncthreads(); sweep(s, t, 1);
    __syncthreads(); }
  for (int i = t; i < 32; i += blockDim.x) y[i] = s[i];]], { before = [[
  __device__ void sweep(double *s, int t, int c) {
    for (int i = 2 * t + c; i < 31; i += 2 * blockDim.x) if (i > 0) s[i] = 0.5 * (s[i - 1] + s[i + 1]) + 0.1 * s[i] * s[i];
  }]] })

add("merge", 32, 16, 32, [[
  __shared__ double a[32], b[32]; int t = threadIdx.x;
  for (int i = t; i < 32; i += blockDim.x) a[i] = x[i] + 0.001 * i;
  __syncthreads();
  double *p = a, *q = b;
  for (int w = 1; w < 32; w *= 2) {
    for (int i = t; i < 32; i += blockDim.x) {
      int base = i / (2 * w) * 2 * w, left = i - base < w;
      int lo = base + (left ? w : 0), r = 0;
      for (int k = 0; k < w; k++) r += left ? p[lo + k] < p[i] : p[lo + k] <= p[i];
      q[base + (left ? i - base : i - base - w) + r] = p[i];
    }
    __syncthreads();
    double *z = p; p = q; q = z;
  }
  for (int i = t; i < 32; i += blockDim.x) y[i] = p[i] * (i + 1);]])

add("atomic_rounds", 32, 8, 32, [[
  __shared__ double s[32], d[32]; int t = threadIdx.x;
  for (int i = t; i < 32; i += blockDim.x) { s[i] = x[i]; }
  __syncthreads();
  for (int k = 0; k < n; k++) {
    for (int i = t; i < 32; i += blockDim.x) d[i] = 0;
    __syncthreads();
    for (int i = t; i < 32; i += blockDim.x) { atomicAdd(&d[(i * 3) % 32], 0.3 * s[i]);
      atomicAdd(&d[(i * 5 + 1) % 32], 0.2 * s[i] * s[i]); }
    __syncthreads();
    for (int i = t; i < 32; i += blockDim.x) s[i] += d[i];
    __syncthreads();
  }
  for (int i = t; i < 32; i += blockDim.x) y[i] = s[i];]])

add("index_shared", 32, 8, 32, [[
  __shared__ double s[32]; __shared__ int perm[32]; int t = threadIdx.x;
  for (int i = t; i < 32; i += blockDim.x) { s[i] = x[i]; perm[i] = (i * 5 + 3) % 32; }
  __syncthreads();
  for (int k = 0; k < n; k++) {
    for (int i = t; i < 16; i += blockDim.x) { int a = perm[2 * i], b = perm[2 * i + 1];
      double u = s[a], v = s[b]; s[a] = 0.8 * u - 0.6 * v * v; s[b] = 0.6 * u + 0.8 * v; }
    __syncthreads();
    for (int i = t; i < 32; i += blockDim.x) perm[i] = (perm[i] * 3 + k) % 32 ;
    __syncthreads();
    for (int i = t; i < 32; i += blockDim.x) perm[i] = (i * (2 * k + 3) + k) % 32;
    __syncthreads();
  }
  for (int i = t; i < 32; i += blockDim.x) y[i] = s[i];]])

add("heat2d_block", 64, 16, 64, [[
  __shared__ double u[10][10]; int t = threadIdx.x;
  for (int i = t; i < 100; i += blockDim.x) u[i / 10][i % 10] = 0;
  __syncthreads();
  for (int i = t; i < 64; i += blockDim.x) u[1 + i / 8][1 + i % 8] = x[i];
  __syncthreads();
  for (int s = 0; s < n; s++) {
    double v[4];
    for (int k = 0; k < 4; k++) { int i = t + k * 16, r = 1 + i / 8, c = 1 + i % 8;
      v[k] = u[r][c] + 0.2 * (u[r-1][c] + u[r+1][c] + u[r][c-1] + u[r][c+1] - 4 * u[r][c]) + 0.05 * u[r][c] * u[r][c]; }
    __syncthreads();
    for (int k = 0; k < 4; k++) { int i = t + k * 16; u[1 + i / 8][1 + i % 8] = v[k]; }
    __syncthreads();
  }
  for (int i = t; i < 64; i += blockDim.x) y[i] = u[1 + i / 8][1 + i % 8];]])

add("serial_scan_rows", 32, 8, 32, [[
  __shared__ double s[32]; int t = threadIdx.x;
  for (int i = t; i < 32; i += blockDim.x) s[i] = x[i];
  __syncthreads();
  for (int r = 0; r < 3; r++) {
    if (t < 4) for (int j = 1; j < 8;
      j++) s[t * 8 + j] += 0.5 * s[t * 8 + j - 1] * s[t * 8 + j];
    __syncthreads();
    for (int j = 1; j < 4; j++) s[j * 8 + t] += 0.3 * s[(j - 1) * 8 + t];
    __syncthreads();
  }
  for (int i = t; i < 32; i += blockDim.x) y[i] = s[i];]])

add("warps_apart", 64, 64, 64, [[
  __shared__ double s[2][32]; int w = threadIdx.x / 32, l = threadIdx.x % 32;
  s[w][l] = x[threadIdx.x]; __syncwarp();
  for (int r = 0; r < n + w; r++) {
    double v = s[w][(l + 1) % 32]; __syncwarp();
    s[w][l] = 0.9 * s[w][l] + 0.2 * v * s[w][l]; __syncwarp();
  }
  y[threadIdx.x] = s[w][l];]])

add("coop_tile", 64, 64, 64, [[
  __shared__ double s[64]; auto block = cg::this_thread_block(); int t = block.thread_rank();
  s[t] = x[t]; block.sync();
  for (int r = 0; r < n; r++) { double v = s[(t + 1) % 64]; block.sync();
    s[t] = 0.8 * s[t] + 0.3 * v * v; block.sync(); }
  y[t] = s[t];]], { before = "#include <cooperative_groups.h>\nnamespace cg = cooperative_groups;" })

add("early_return", 40, 16, 40, [[
  __shared__ double s[40]; int t = threadIdx.x;
  for (int i = t; i < 40; i += blockDim.x) s[i] = x[i];
  __syncthreads();
  for (int k = 0; k < n; k++) {
    for (int i = t; i < 39; i += blockDim.x) { double v = s[i]; s[i] = v * v * 0.5 + 0.1; }
    __syncthreads();
    if (t == 0) s[39] += s[k] * s[k + 1];
    __syncthreads();
  }
  if (t >= 10) return;
  for (int i = t; i < 40; i += 10) y[i] = s[i];]])

add("do_while", 32, 8, 32, [[
  __shared__ double s[32]; int t = threadIdx.x, k = 16;
  for (int i = t; i < 32; i += blockDim.x) s[i] = x[i];
  __syncthreads();
  do {
    for (int i = t; i < k; i += blockDim.x) s[i] += 0.5 * s[i + k] * s[i];
    __syncthreads();
    k /= 2;
  } while (k > 0);
  for (int i = t; i < 32; i += blockDim.x) y[i] = s[i];]])

add("insertion", 32, 4, 32, [[
  __shared__ double s[4][8]; int t = threadIdx.x;
  for (int j = 0; j < 8; j++) s[t][j] = x[t * 8 + j] + 0.001 * j;
  for (int j = 1; j < 8; j++) {
    double v = s[t][j]; int i = j - 1;
    while (i >= 0 && s[t][i] > v) { s[t][i + 1] = s[t][i]; i--; }
    s[t][i + 1] = v;
  }
  for (int j = 0; j < 8; j++) y[t * 8 + j] = s[t][j] * (j + 1);]])

add("struct_tile", 32, 8, 32, [[
  struct P { double v, w; }; __shared__ P s[16]; int t = threadIdx.x;
  for (int i = t; i < 16; i += blockDim.x) { s[i].v = x[2 * i]; s[i].w = x[2 * i + 1]; }
  __syncthreads();
  for (int k = 0; k < n; k++) {
    for (int i = t; i < 16; i += blockDim.x) { P p = s[i]; p.v += 0.1 * p.w;
      p.w -= 0.1 * sin(p.v); s[i] = p; }
    __syncthreads();
    if (t < 8) { double q = s[t].v; s[t].v = s[15 - t].v; s[15 - t].v = q; }
    __syncthreads();
  }
  for (int i = t; i < 16; i += blockDim.x) { y[2 * i] = s[i].v; y[2 * i + 1] = s[i].w; }]])

add("warp_part", 64, 64, 64, [[
  __shared__ double s[64]; int t = threadIdx.x;
  s[t] = x[t]; __syncthreads();
  for (int k = 0; k < n; k++) {
    if (t < 32) { double v = s[t] + 0.1 * s[t + 32] * s[t]; __syncwarp(); s[t] = v;
      __syncwarp(); }
    __syncthreads();
    s[t] = s[t] * 0.9; __syncthreads();
  }
  y[t] = s[t];]])

add("if_half_loop", 64, 64, 64, [[
  __shared__ double s[64]; int t = threadIdx.x;
  s[t] = x[t]; __syncthreads();
  if (t < 32) {
    for (int d = 16; d > 0; d /= 2) { if (t < d) s[t] += s[t + d] * s[t]; __syncwarp(); }
  } else {
    for (int k = 0; k < 3; k++) { s[t] = s[t] * s[t]; }
  }
  __syncthreads();
  y[t] = s[t] * s[63 - t];]])

add("swap_inplace", 32, 16, 32, [[
  __shared__ double s[32]; int t = threadIdx.x;
  s[t] = x[t]; s[t + 16] = x[t + 16];
  __syncthreads();
  for (int m = 16; m > 0; m >>= 1) {
    int i = t / m * 2 * m + t % m;
    double a = s[i], b = s[i + m];
    s[i] = a + b; s[i + m] = (a - b) * a;
    __syncthreads();
  }
  y[t] = s[t]; y[t + 16] = s[t + 16];]])

add("hist_rounds", 32, 8, 8, [[
  __shared__ double h[8]; int t = threadIdx.x;
  h[t] = 0; __syncthreads();
  for (int k = 0; k < 4; k++) {
    atomicAdd(&h[(t * 3 + k) % 8], x[k * 8 + t] * x[k * 8 + t]);
    __syncthreads();
    if (k == 1) { h[t] *= 0.5; __syncthreads(); }
  }
  y[t] = h[t] * h[t];]])
