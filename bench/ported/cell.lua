--- A case of bench/ported.lua: the cell of an LSTM whose candidate goes through ELU.
local flame, size, blocks, cases = ...

local CELL = flame.kernel [=[
__device__ float sigmoid(float z) { return 1.f / (1.f + expf(-z)); }
__device__ float elu(float z) { return z > 0.f ? z : expf(z) - 1.f; }
__global__ void cell(const float *gates, const float *old, float *h, float *c, int state, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const int row = i / state * 3 * state + i % state;
  const float in = sigmoid(gates[row]), out = sigmoid(gates[row + state]), candidate = elu(gates[row + 2 * state]);
  const float now = old[i] + candidate * in;
  c[i] = now;
  h[i] = tanhf(now) * out;
}]=]
local CELL_BACK = flame.kernel [=[
__device__ float sigmoid(float z) { return 1.f / (1.f + expf(-z)); }
__global__ void cell_back(const float *gates, const float *c, const float *g, float *dgates, float *dold, int state, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const int row = i / state * 3 * state + i % state;
  const float in = sigmoid(gates[row]), out = sigmoid(gates[row + state]), z = gates[row + 2 * state], e = expf(z);
  const float t = tanhf(c[i]), d = g[i] * out * (1.f - t * t);
  dold[i] = d;
  dgates[row] = d * (z > 0.f ? z : e - 1.f) * in * (1.f - in);
  dgates[row + state] = g[i] * t * out * (1.f - out);
  dgates[row + 2 * state] = d * in * (z > 0.f ? 1.f : e);
}]=]
do
  local batch, state = size(4096, 3), size(1024, 20)
  local n = batch * state
  local function with(k, ...)
    return k:with { block = { 256 }, grid = { blocks(n, 256) }, shape = { ... } }
  end
  local wide, one = { batch, 3 * state }, { batch, state }
  local forward, back = with(CELL, one, one), with(CELL_BACK, wide, one)
  cases[#cases + 1] = { "LSTM cell",
    inputs = function() return flame.randn(wide), flame.randn(one) end,
    forward = function(gates, old) return forward(gates, old, state, n) end,
    hand = function(gates, _, _, c, g) return back(gates, c, g, state, n) end }
end
