--- Cases of bench/ported.lua with loops in a thread.
local flame, size, blocks, cases = ...

-- { title, the code of thread i < n, elements of x per thread, the code of a backward kernel by
-- hand, which has g and dx as well, and the forward's y }. Newton's method by hand is the
-- derivative of the root, not of the steps to it.
local LOOPS = {
  { "sum of 64", "float s = 0; for (int k = 0; k < 64; k++) s += sinf(x[64 * i + k]) * x[64 * i + k]; y[i] = s;", 64,
    "float d = g[i]; for (int k = 0; k < 64; k++) { float v = x[64 * i + k]; dx[64 * i + k] = d * (sinf(v) + v * cosf(v)); }" },
  { "series of 32", "float s = 1, t = 1; for (int k = 1; k < 32; k++) { t *= x[i] / k; s += t; } y[i] = s * s;", 1,
    "float v = x[i], s = 1, t = 1, ds = 0, dt = 0; for (int k = 1; k < 32; k++) { dt = (dt * v + t) / k; t *= v / k; s += t; ds += dt; } dx[i] = 2 * g[i] * s * ds;" },
  { "Newton",
    "float r = 1; while (fabsf(r * r * r - x[i] * x[i] - 1) > 1e-4f) r -= (r * r * r - x[i] * x[i] - 1) / (3 * r * r); y[i] = r;", 1,
    "dx[i] = g[i] * 2 * x[i] / (3 * y[i] * y[i]);" },
  { "row in place 64",
    "y[64 * i] = x[64 * i]; for (int j = 1; j < 64; j++) y[64 * i + j] = tanhf(y[64 * i + j - 1] + x[64 * i + j]);", 64,
    "float c = 0; for (int j = 63; j > 0; j--) { float v = y[64 * i + j], d = (g[64 * i + j] + c) * (1 - v * v); dx[64 * i + j] = d; c = d; } dx[64 * i] = g[64 * i] + c;" },
  { "spring 1,000", "float p = x[i], v = 0; for (int k = 0; k < 1000; k++) { v -= 0.01f * sinf(p); p += 0.01f * v; } y[i] = p;", 1,
    [[float at[32], vt[32], ps[32], p = x[i], v = 0, dp = g[i], dv = 0;
    for (int k = 0; k < 1000; k++) {
      if (k % 32 == 0) { at[k / 32] = p; vt[k / 32] = v; }
      v -= 0.01f * sinf(p); p += 0.01f * v;
    }
    for (int s = 31; s >= 0; s--) {
      int n = s == 31 ? 1000 - 31 * 32 : 32;
      p = at[s]; v = vt[s];
      for (int k = 0; k < n; k++) { ps[k] = p; v -= 0.01f * sinf(p); p += 0.01f * v; }
      for (int k = n - 1; k >= 0; k--) { dv += 0.01f * dp; dp -= 0.01f * cosf(ps[k]) * dv; }
    }
    dx[i] = dp;]] },
}

local HEAD <const> = "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n  if (i < n) { "
local n = size(1 << 18, 1 << 6)
for _, c in ipairs(LOOPS) do
  local rows = c[1]:find("place") and 64 or 1
  local launch = { block = { 256 }, grid = { blocks(n, 256) } }
  local forward = flame.kernel { block = launch.block, grid = launch.grid, shape = { n * rows },
    source = "__global__ void k(const float *x, float *y, int n) {\n" .. HEAD .. c[2] .. " }\n}" }
  local back = flame.kernel { block = launch.block, grid = launch.grid, shape = { n * c[3] },
    source = "__global__ void hand(const float *x, const float *y, const float *g, "
    .. "float *dx, int n) {\n" .. HEAD .. c[4] .. " }\n}" }
  cases[#cases + 1] = { c[1],
    inputs = function() return flame.randn(n * c[3]) end,
    forward = function(x) return forward(x, n) end,
    hand = function(x, y, g) return back(x, y, g, n) end }
end
