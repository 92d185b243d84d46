--- A case of bench/ported.lua: LU factorisation of small matrices, one thread per matrix.
local flame, size, blocks, cases = ...

local LU = flame.kernel { constants = { m = 8 }, source = [=[
__global__ void lu(const float *a, float *f, int n) {
  const int b = blockIdx.x * blockDim.x + threadIdx.x;
  if (b >= n) return;
  float m[${m}][${m}];
  for (int r = 0; r < ${m}; r++) for (int c = 0; c < ${m}; c++) m[r][c] = a[(r * ${m} + c) * n + b];
  for (int k = 0; k < ${m}; k++)
    for (int r = k + 1; r < ${m}; r++) {
      m[r][k] /= m[k][k];
      for (int c = k + 1; c < ${m}; c++) m[r][c] -= m[r][k] * m[k][c];
    }
  for (int r = 0; r < ${m}; r++) for (int c = 0; c < ${m}; c++) f[(r * ${m} + c) * n + b] = m[r][c];
}]=] }
-- The adjoints of the steps of elimination, the last one first. All values that they need are in f.
local LU_BACK = flame.kernel { constants = { m = 8 }, source = [=[
__global__ void lu_back(const float *f, const float *g, float *da, int n) {
  const int b = blockIdx.x * blockDim.x + threadIdx.x;
  if (b >= n) return;
  float m[${m}][${m}], d[${m}][${m}];
  #pragma unroll
  for (int r = 0; r < ${m}; r++)
    #pragma unroll
    for (int c = 0; c < ${m}; c++) { m[r][c] = f[(r * ${m} + c) * n + b]; d[r][c] = g[(r * ${m} + c) * n + b]; }
  #pragma unroll
  for (int k = ${m} - 1; k >= 0; k--) {
    const float inv = 1.f / m[k][k];
    #pragma unroll
    for (int r = ${m} - 1; r > k; r--) {
      #pragma unroll
      for (int c = k + 1; c < ${m}; c++) { d[r][k] -= d[r][c] * m[k][c]; d[k][c] -= d[r][c] * m[r][k]; }
      d[r][k] *= inv;
      d[k][k] -= d[r][k] * m[r][k];
    }
  }
  #pragma unroll
  for (int r = 0; r < ${m}; r++)
    #pragma unroll
    for (int c = 0; c < ${m}; c++) da[(r * ${m} + c) * n + b] = d[r][c];
}]=] }
do
  local n = size(1 << 18, 5)
  local launch = { block = { 128 }, grid = { blocks(n, 128) }, shape = { 8, 8, n } }
  local forward, back = LU:with(launch), LU_BACK:with(launch)
  cases[#cases + 1] = { "LU 8 x 8",
    inputs = function()
      return flame.randn(8, 8, n) + flame.eye(8):reshape(8, 8, 1) * 8
    end,
    forward = function(a) return forward(a, n) end,
    hand = function(_, f, g) return back(f, g, n) end }
end
