--- A case of bench/ported.lua: the greatest four of a row: a block has a row.
local flame, size, blocks, cases = ...

local TOP = flame.kernel { constants = { k = 4 }, source = [=[
__global__ void top(const float *x, float *values, int *places, int cols) {
  __shared__ float best[128];
  __shared__ int at[128];
  const int t = threadIdx.x;
  const float *row = x + (size_t)blockIdx.x * cols;
  int taken[${k}];
  for (int k = 0; k < ${k}; k++) {
    float v = -INFINITY;
    int p = -1;
    for (int c = t; c < cols; c += blockDim.x) {
      bool free = true;
      for (int j = 0; j < k; j++) free = free && taken[j] != c;
      if (free && row[c] > v) { v = row[c]; p = c; }
    }
    best[t] = v;
    at[t] = p;
    __syncthreads();
    for (int half = blockDim.x / 2; half > 0; half /= 2) {
      if (t < half && best[t + half] > best[t]) { best[t] = best[t + half]; at[t] = at[t + half]; }
      __syncthreads();
    }
    taken[k] = at[0];
    if (t == 0) { values[blockIdx.x * ${k} + k] = row[at[0]]; places[blockIdx.x * ${k} + k] = at[0]; }
    __syncthreads();
  }
}]=] }
local TOP_BACK = flame.kernel { constants = { k = 4 }, source = [=[
__global__ void top_back(const int *places, const float *g, float *dx, int cols) {
  const int c = blockIdx.x * blockDim.x + threadIdx.x, r = blockIdx.y;
  if (c >= cols) return;
  float d = 0.f;
  for (int k = 0; k < ${k}; k++) d = places[r * ${k} + k] == c ? g[r * ${k} + k] : d;
  dx[(size_t)r * cols + c] = d;
}]=] }
do
  local rows, cols = size(8192, 3), size(1024, 300)
  local forward = TOP:with { block = { 128 }, grid = { rows }, shape = { rows, 4 } }
  local back = TOP_BACK:with { block = { 256 }, grid = { blocks(cols, 256), rows },
    shape = { rows, cols } }
  cases[#cases + 1] = { "greatest four",
    inputs = function() return flame.randn(rows, cols) end,
    forward = function(x) return forward(x, cols) end,
    hand = function(_, _, places, g) return back(places, g, cols) end }
end
