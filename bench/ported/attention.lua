--- A case of bench/ported.lua, attention: a thread has a query; tiles of keys and values are in
--- shared memory.
local flame, size, blocks, cases = ...

local T, HEADS, D, TILE = size(1024, 40), size(64, 2), 32, 32
local FLASH = flame.kernel { constants = { d = D, tile = TILE }, source = [=[
__global__ void flash(const float *q, const float *k, const float *v, float *o, float *lse, int n, float scale) {
  __shared__ float ks[${tile}][${d}], vs[${tile}][${d}];
  const int head = blockIdx.y * n, row = blockIdx.x * blockDim.x + threadIdx.x;
  float qr[${d}], acc[${d}], m = -INFINITY, l = 0.f;
  for (int j = 0; j < ${d}; j++) { qr[j] = row < n ? q[(head + row) * ${d} + j] * scale : 0.f; acc[j] = 0.f; }
  for (int t0 = 0; t0 < n; t0 += ${tile}) {
    for (int e = threadIdx.x; e < ${tile} * ${d}; e += blockDim.x) {
      const bool in = t0 + e / ${d} < n;
      ks[e / ${d}][e % ${d}] = in ? k[(head + t0) * ${d} + e] : 0.f;
      vs[e / ${d}][e % ${d}] = in ? v[(head + t0) * ${d} + e] : 0.f;
    }
    __syncthreads();
    if (row < n)
      for (int t = 0; t < ${tile} && t0 + t <= row; t++) {
        float s = 0.f;
        #pragma unroll
        for (int j = 0; j < ${d}; j++) s += qr[j] * ks[t][j];
        const float most = fmaxf(m, s), old = expf(m - most), p = expf(s - most);
        l = l * old + p;
        #pragma unroll
        for (int j = 0; j < ${d}; j++) acc[j] = acc[j] * old + p * vs[t][j];
        m = most;
      }
    __syncthreads();
  }
  if (row < n) {
    for (int j = 0; j < ${d}; j++) o[(head + row) * ${d} + j] = acc[j] / l;
    lse[head + row] = m + logf(l);
  }
}]=] }
local FLASH_Q = flame.kernel { constants = { d = D, tile = TILE }, source = [=[
__global__ void flash_q(const float *q, const float *k, const float *v, const float *o, const float *lse, const float *g,
                        float *dq, float *sums, int n, float scale) {
  __shared__ float ks[${tile}][${d}], vs[${tile}][${d}];
  const int head = blockIdx.y * n, row = blockIdx.x * blockDim.x + threadIdx.x;
  float qr[${d}], gr[${d}], dr[${d}], at = 0.f;
  for (int j = 0; j < ${d}; j++) {
    const int i = (head + row) * ${d} + j;
    qr[j] = row < n ? q[i] * scale : 0.f;
    gr[j] = row < n ? g[i] : 0.f;
    at += row < n ? gr[j] * o[i] : 0.f;
    dr[j] = 0.f;
  }
  const float top = row < n ? lse[head + row] : 0.f;
  const int last = min(n, (int)((blockIdx.x + 1) * blockDim.x));
  for (int t0 = 0; t0 < last; t0 += ${tile}) {
    for (int e = threadIdx.x; e < ${tile} * ${d}; e += blockDim.x) {
      const bool in = t0 + e / ${d} < n;
      ks[e / ${d}][e % ${d}] = in ? k[(head + t0) * ${d} + e] : 0.f;
      vs[e / ${d}][e % ${d}] = in ? v[(head + t0) * ${d} + e] : 0.f;
    }
    __syncthreads();
    if (row < n)
      for (int t = 0; t < ${tile} && t0 + t <= row; t++) {
        float s = 0.f, dp = 0.f;
        #pragma unroll
        for (int j = 0; j < ${d}; j++) { s += qr[j] * ks[t][j]; dp += gr[j] * vs[t][j]; }
        const float ds = expf(s - top) * (dp - at) * scale;
        #pragma unroll
        for (int j = 0; j < ${d}; j++) dr[j] += ds * ks[t][j];
      }
    __syncthreads();
  }
  if (row < n) {
    for (int j = 0; j < ${d}; j++) dq[(head + row) * ${d} + j] = dr[j];
    sums[head + row] = at;
  }
}]=] }
local FLASH_KV = flame.kernel { constants = { d = D, tile = TILE }, source = [=[
__global__ void flash_kv(const float *q, const float *k, const float *v, const float *lse, const float *sums, const float *g,
                         float *dk, float *dv, int n, float scale) {
  __shared__ float qs[${tile}][${d}], gs[${tile}][${d}], ls[${tile}], at[${tile}];
  const int head = blockIdx.y * n, key = blockIdx.x * blockDim.x + threadIdx.x;
  float kr[${d}], vr[${d}], dkr[${d}], dvr[${d}];
  for (int j = 0; j < ${d}; j++) {
    kr[j] = key < n ? k[(head + key) * ${d} + j] : 0.f;
    vr[j] = key < n ? v[(head + key) * ${d} + j] : 0.f;
    dkr[j] = dvr[j] = 0.f;
  }
  for (int t0 = blockIdx.x * blockDim.x / ${tile} * ${tile}; t0 < n; t0 += ${tile}) {
    for (int e = threadIdx.x; e < ${tile} * ${d}; e += blockDim.x) {
      const bool in = t0 + e / ${d} < n;
      qs[e / ${d}][e % ${d}] = in ? q[(head + t0) * ${d} + e] * scale : 0.f;
      gs[e / ${d}][e % ${d}] = in ? g[(head + t0) * ${d} + e] : 0.f;
    }
    for (int e = threadIdx.x; e < ${tile}; e += blockDim.x) {
      ls[e] = t0 + e < n ? lse[head + t0 + e] : 0.f;
      at[e] = t0 + e < n ? sums[head + t0 + e] : 0.f;
    }
    __syncthreads();
    if (key < n)
      for (int t = max(0, key - t0); t < ${tile} && t0 + t < n; t++) {
        float s = 0.f, dp = 0.f;
        #pragma unroll
        for (int j = 0; j < ${d}; j++) { s += qs[t][j] * kr[j]; dp += gs[t][j] * vr[j]; }
        const float p = expf(s - ls[t]), ds = p * (dp - at[t]);
        #pragma unroll
        for (int j = 0; j < ${d}; j++) { dvr[j] += p * gs[t][j]; dkr[j] += ds * qs[t][j]; }
      }
    __syncthreads();
  }
  if (key < n)
    for (int j = 0; j < ${d}; j++) { dk[(head + key) * ${d} + j] = dkr[j]; dv[(head + key) * ${d} + j] = dvr[j]; }
}]=] }
do
  local function with(k, ...)
    return k:with { block = { 64 }, grid = { blocks(T, 64), HEADS }, shape = { ... } }
  end
  local rows, one = { HEADS, T, D }, { HEADS, T }
  local forward, dq = with(FLASH, rows, one), with(FLASH_Q, rows, one)
  local dkv = with(FLASH_KV, rows, rows)
  local scale = 1 / math.sqrt(D)
  cases[#cases + 1] = { "attention by tiles",
    inputs = function() return flame.randn(rows), flame.randn(rows), flame.randn(rows) end,
    forward = function(q, k, v) return forward(q, k, v, T, scale) end,
    hand = function(q, k, v, o, lse, g)
      local x, sums = dq(q, k, v, o, lse, g, T, scale)
      return x, dkv(q, k, v, lse, sums, g, T, scale)
    end }
end
