--- A case of bench/ported.lua:
--- a cycle on two grids: relaxed, the rest summed to the coarse grid, its solution added.
local flame, size, blocks, cases = ...

local NEIGHBOURS = [=[
__device__ __forceinline__ float at(const float *u, int x, int y, int w, int h) {
  return x >= 0 && x < w && y >= 0 && y < h ? u[y * w + x] : 0.f;
}
__device__ __forceinline__ float laplace(const float *u, int x, int y, int w, int h) {
  return at(u, x - 1, y, w, h) + at(u, x + 1, y, w, h) + at(u, x, y - 1, w, h) + at(u, x, y + 1, w, h) - 4.f * at(u, x, y, w, h);
}
]=]
local function grid_kernel(parameters, body)
  return flame.kernel(NEIGHBOURS .. "__global__ void k(" .. parameters .. [=[, int w, int h) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= w || y >= h) return;
  const int i = y * w + x;
  ]=] .. body .. "\n}")
end
local SMOOTH = grid_kernel("const float *u, const float *f, float *out",
  "out[i] = u[i] + 0.2f * (f[i] + laplace(u, x, y, w, h));")
local SMOOTH_BACK = grid_kernel("const float *g, float *du, float *df",
  "du[i] = g[i] + 0.2f * laplace(g, x, y, w, h);\n  df[i] = 0.2f * g[i];")
-- w and h of these two: of the coarse grid
local RESTRICT = grid_kernel("const float *u, const float *f, float *out", [=[float sum = 0.f;
  for (int b = 0; b < 2; b++)
    for (int a = 0; a < 2; a++) sum += f[(2 * y + b) * 2 * w + 2 * x + a] + laplace(u, 2 * x + a, 2 * y + b, 2 * w, 2 * h);
  out[i] = sum;]=])
local PROLONG_BACK = grid_kernel("const float *g, float *de", [=[float sum = 0.f;
  for (int b = 0; b < 2; b++)
    for (int a = 0; a < 2; a++) sum += g[(2 * y + b) * 2 * w + 2 * x + a];
  de[i] = sum;]=])
local PROLONG = grid_kernel("const float *u, const float *e, float *out",
  "out[i] = u[i] + e[y / 2 * (w / 2) + x / 2];")
local RESTRICT_BACK = grid_kernel("const float *g, float *du, float *df", [=[const int v = w / 2, t = h / 2;
  auto coarse = [=](int a, int b) { return a >= 0 && a < w && b >= 0 && b < h ? g[min(b / 2, t - 1) * v + a / 2] : 0.f; };
  df[i] = coarse(x, y);
  du[i] = coarse(x - 1, y) + coarse(x + 1, y) + coarse(x, y - 1) + coarse(x, y + 1) - 4.f * df[i];]=])
do
  local w, h = size(4096, 24), size(2048, 20)
  local function with(k, x, y)
    return k:with { block = { 32, 8 }, grid = { blocks(x, 32), blocks(y, 8) }, shape = { y, x } }
  end
  local cw, ch = w // 2, h // 2
  local fine, coarse, down, up = with(SMOOTH, w, h), with(SMOOTH, cw, ch), with(RESTRICT, cw, ch),
    with(PROLONG, w, h)
  local fine_back, coarse_back, down_back, up_back = with(SMOOTH_BACK, w, h),
    with(SMOOTH_BACK, cw, ch), with(RESTRICT_BACK, w, h), with(PROLONG_BACK, cw, ch)
  local zeros = flame.zeros(ch, cw)
  cases[#cases + 1] = { "cycle of two grids",
    inputs = function() return flame.randn(h, w), flame.randn(h, w) end,
    forward = function(u, f)
      local a = fine(u, f, w, h)
      local r = down(a, f, cw, ch)
      local e = coarse(coarse(zeros, r, cw, ch), r, cw, ch)
      return fine(up(a, e, w, h), f, w, h)
    end,
    hand = function(_, _, _, g)
      local da, f1 = fine_back(g, w, h)
      local e, r1 = coarse_back(up_back(da, cw, ch), cw, ch)
      local _, r2 = coarse_back(e, cw, ch)
      local db, f2 = down_back(r1 + r2, w, h)
      local du, f3 = fine_back(da + db, w, h)
      return du, f1 + f2 + f3
    end }
end
