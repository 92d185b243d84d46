--- A case of bench/ported.lua:
--- relaxation: a block does several sweeps of Jacobi on its tile, whose edge stays.
local flame, size, blocks, cases = ...

local SWEEPS = 16
local JACOBI = flame.kernel { constants = { sweeps = SWEEPS }, source = [=[
__global__ void jacobi(const float *u, const float *f, float *out, int w, int h) {
  __shared__ float a[18][18], b[18][18];
  const int tx = threadIdx.x + 1, ty = threadIdx.y + 1, x = blockIdx.x * 16 + threadIdx.x, y = blockIdx.y * 16 + threadIdx.y;
  for (int e = threadIdx.y * 16 + threadIdx.x; e < 324; e += 256) {
    const int ex = (int)blockIdx.x * 16 + e % 18 - 1, ey = (int)blockIdx.y * 16 + e / 18 - 1;
    const float v = ex >= 0 && ex < w && ey >= 0 && ey < h ? u[ey * w + ex] : 0.f;
    a[e / 18][e % 18] = v;
    b[e / 18][e % 18] = v;
  }
  const float source = x < w && y < h ? f[y * w + x] : 0.f;
  __syncthreads();
  for (int s = 0; s < ${sweeps}; s += 2) {
    b[ty][tx] = 0.25f * (a[ty][tx - 1] + a[ty][tx + 1] + a[ty - 1][tx] + a[ty + 1][tx] + source);
    __syncthreads();
    a[ty][tx] = 0.25f * (b[ty][tx - 1] + b[ty][tx + 1] + b[ty - 1][tx] + b[ty + 1][tx] + source);
    __syncthreads();
  }
  if (x < w && y < h) out[y * w + x] = a[ty][tx];
}]=] }
-- The same sweeps, transposed: what a point gave to its neighbours comes back from them.
local JACOBI_BACK = flame.kernel { inout = { "du" }, constants = { sweeps = SWEEPS }, source = [=[
__global__ void jacobi_back(const float *g, float *du, float *df, int w, int h) {
  __shared__ float a[18][18], b[18][18];
  const int tx = threadIdx.x + 1, ty = threadIdx.y + 1, x = blockIdx.x * 16 + threadIdx.x, y = blockIdx.y * 16 + threadIdx.y;
  const bool in = x < w && y < h;
  const int thread = threadIdx.y * 16 + threadIdx.x;
  for (int e = thread; e < 324; e += 256) a[e / 18][e % 18] = b[e / 18][e % 18] = 0.f;
  __syncthreads();
  a[ty][tx] = in ? g[y * w + x] : 0.f;
  float sum = 0.f, edge[2] = {0.f, 0.f};
  __syncthreads();
  for (int s = 0; s < ${sweeps}; s += 2) {
    float d = 0.25f * a[ty][tx];
    sum += d;
    for (int k = 0; k < 2; k++) {
      const int e = thread + 256 * k, ex = e % 18, ey = e / 18;
      if (e < 324 && (ex == 0 || ex == 17 || ey == 0 || ey == 17)) {
        const int ix = min(max(ex, 1), 16), iy = min(max(ey, 1), 16);
        if ((ix == ex) != (iy == ey)) edge[k] += 0.25f * a[iy][ix];
      }
    }
    b[ty][tx] = 0.25f * ((tx > 1 ? a[ty][tx - 1] : 0.f) + (tx < 16 ? a[ty][tx + 1] : 0.f) +
                         (ty > 1 ? a[ty - 1][tx] : 0.f) + (ty < 16 ? a[ty + 1][tx] : 0.f));
    __syncthreads();
    d = 0.25f * b[ty][tx];
    sum += d;
    for (int k = 0; k < 2; k++) {
      const int e = thread + 256 * k, ex = e % 18, ey = e / 18;
      if (e < 324 && (ex == 0 || ex == 17 || ey == 0 || ey == 17)) {
        const int ix = min(max(ex, 1), 16), iy = min(max(ey, 1), 16);
        if ((ix == ex) != (iy == ey)) edge[k] += 0.25f * b[iy][ix];
      }
    }
    a[ty][tx] = 0.25f * ((tx > 1 ? b[ty][tx - 1] : 0.f) + (tx < 16 ? b[ty][tx + 1] : 0.f) +
                         (ty > 1 ? b[ty - 1][tx] : 0.f) + (ty < 16 ? b[ty + 1][tx] : 0.f));
    __syncthreads();
  }
  if (in) { df[y * w + x] = sum; atomicAdd(&du[y * w + x], a[ty][tx]); }
  for (int k = 0; k < 2; k++) {
    const int e = thread + 256 * k, ex = (int)blockIdx.x * 16 + e % 18 - 1, ey = (int)blockIdx.y * 16 + e / 18 - 1;
    if (e < 324 && edge[k] != 0.f && ex >= 0 && ex < w && ey >= 0 && ey < h) atomicAdd(&du[ey * w + ex], edge[k]);
  }
}]=] }
do
  local w, h = size(2048, 32), size(2048, 48)
  local launch = { block = { 16, 16 }, grid = { blocks(w, 16), blocks(h, 16) }, shape = { h, w } }
  local forward, back = JACOBI:with(launch), JACOBI_BACK:with(launch)
  cases[#cases + 1] = { "relaxation",
    inputs = function() return flame.randn(h, w), flame.randn(h, w) end,
    forward = function(u, f) return forward(u, f, w, h) end,
    hand = function(_, _, _, g) return back(g, flame.zeros(h, w), w, h) end }
end
