--- A case of bench/ported.lua: density of particles that are sorted by the cells of a grid.
local flame, size, blocks, cases = ...

local DENSITY = flame.kernel [=[
__global__ void density(const float *x, const float *y, const int *start, float *rho, int cells, float h, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const float px = x[i], py = y[i];
  const int cx = (int)(px / h), cy = (int)(py / h);
  float sum = 0.f;
  for (int by = max(cy - 1, 0); by <= min(cy + 1, cells - 1); by++)
    for (int bx = max(cx - 1, 0); bx <= min(cx + 1, cells - 1); bx++)
      for (int j = start[by * cells + bx]; j < start[by * cells + bx + 1]; j++) {
        const float dx = px - x[j], dy = py - y[j], left = h * h - dx * dx - dy * dy;
        if (left > 0.f) sum += left * left * left;
      }
  rho[i] = sum;
}]=]
-- A pair gives the same to both: thread i sums what the pairs of particle i give, with no atomics.
local DENSITY_BACK = flame.kernel [=[
__global__ void density_back(const float *x, const float *y, const int *start, const float *g, float *dx_, float *dy_,
                             int cells, float h, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const float px = x[i], py = y[i], gi = g[i];
  const int cx = (int)(px / h), cy = (int)(py / h);
  float sx = 0.f, sy = 0.f;
  for (int by = max(cy - 1, 0); by <= min(cy + 1, cells - 1); by++)
    for (int bx = max(cx - 1, 0); bx <= min(cx + 1, cells - 1); bx++)
      for (int j = start[by * cells + bx]; j < start[by * cells + bx + 1]; j++) {
        const float dx = px - x[j], dy = py - y[j], left = h * h - dx * dx - dy * dy;
        if (left <= 0.f) continue;
        const float d = -6.f * left * left * (gi + g[j]);
        sx += d * dx;
        sy += d * dy;
      }
  dx_[i] = sx;
  dy_[i] = sy;
}]=]
do
  local cells, each = size(256, 5), 4
  local n, h = cells * cells * each, 1
  local launch = { block = { 256 }, grid = { blocks(n, 256) }, shape = { n } }
  local forward, back = DENSITY:with(launch), DENSITY_BACK:with(launch)
  local start = flame.arange(0, cells * cells, 1, { dtype = "i32" }) * each
  cases[#cases + 1] = { "particles",
    inputs = function()
      local cell = flame.arange(0, n - 1):div(each):floor()
      local y = (cell / cells):floor()
      return cell - y * cells + flame.rand(n), y + flame.rand(n)
    end,
    forward = function(x, y) return forward(x, y, start, cells, h, n) end,
    hand = function(x, y, _, g) return back(x, y, start, g, cells, h, n) end }
end
