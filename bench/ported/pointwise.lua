--- Cases of bench/ported.lua without loops: a chain of functions of each element, a 5-point stencil
--- and bilinear sampling of an image.
local flame, size, blocks, cases = ...
local N <const> = size(1 << 24, 1 << 12)

local CHAIN = flame.kernel [[
__global__ void chain(const float *x, float *y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) { float v = x[i]; float t = tanhf(v); y[i] = t * v * v + expf(-v * v); }
}]]
local CHAIN_BACK = flame.kernel [[
__global__ void chain_back(const float *x, const float *g, float *dx, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) {
    float v = x[i], t = tanhf(v);
    dx[i] = g[i] * ((1 - t * t) * v * v + 2 * t * v - 2 * v * expf(-v * v));
  }
}]]

local STENCIL = flame.kernel [[
__global__ void heat(const float *u, float *v, int w, int h) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= w * h) return;
  int x = i % w, y = i / w;
  float c = u[i];
  float l = x > 0 ? u[i - 1] : c, r = x < w - 1 ? u[i + 1] : c;
  float t = y > 0 ? u[i - w] : c, b = y < h - 1 ? u[i + w] : c;
  v[i] = c + 0.2f * (l + r + t + b - 4 * c);
}]]
local STENCIL_BACK = flame.kernel [[
__global__ void heat_back(const float *g, float *du, int w, int h) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= w * h) return;
  int x = i % w, y = i / w;
  float c = g[i], s = c;
  s += 0.2f * ((x > 0 ? g[i - 1] : c) + (x < w - 1 ? g[i + 1] : c) + (y > 0 ? g[i - w] : c) + (y < h - 1 ? g[i + w] : c) - 4 * c);
  du[i] = s;
}]]

local SAMPLE = flame.kernel [[
__global__ void sample(const float *image, const float *at, float *out, int w, int h, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float x = at[2 * i], y = at[2 * i + 1];
  int x0 = (int)floorf(x), y0 = (int)floorf(y);
  float fx = x - x0, fy = y - y0, s = 0;
  for (int dy = 0; dy < 2; dy++)
    for (int dx = 0; dx < 2; dx++) {
      int px = x0 + dx, py = y0 + dy;
      if (px >= 0 && px < w && py >= 0 && py < h)
        s += (dx ? fx : 1 - fx) * (dy ? fy : 1 - fy) * image[py * w + px];
    }
  out[i] = s;
}]]
local SAMPLE_BACK = flame.kernel { inout = { "dimage", "dat" }, source = [[
__global__ void sample_back(const float *image, const float *at, const float *g, float *dimage, float *dat, int w, int h, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float x = at[2 * i], y = at[2 * i + 1], gi = g[i];
  int x0 = (int)floorf(x), y0 = (int)floorf(y);
  float fx = x - x0, fy = y - y0, gx = 0, gy = 0;
  for (int dy = 0; dy < 2; dy++)
    for (int dx = 0; dx < 2; dx++) {
      int px = x0 + dx, py = y0 + dy;
      if (px < 0 || px >= w || py < 0 || py >= h) continue;
      float wx = dx ? fx : 1 - fx, wy = dy ? fy : 1 - fy, v = image[py * w + px];
      atomicAdd(&dimage[py * w + px], gi * wx * wy);
      gx += (dx ? v : -v) * wy;
      gy += (dy ? v : -v) * wx;
    }
  dat[2 * i] = gi * gx;
  dat[2 * i + 1] = gi * gy;
}]] }

cases[#cases + 1] = { "elementwise chain",
  inputs = function() return flame.randn(N) end,
  forward = function(x) return CHAIN(x) end,
  hand = function(x, _, g) return CHAIN_BACK(x, g) end }

do
  local w = size(1 << 10, 1 << 6)
  local h = N // w
  cases[#cases + 1] = { "stencil",
    inputs = function() return flame.randn(h, w) end,
    forward = function(u) return STENCIL(u, w, h) end,
    hand = function(_, _, g) return STENCIL_BACK(g, w, h) end }
end

do
  local w, n = size(1 << 10, 1 << 5), N // 4
  local launch = { grid = { blocks(n, 256) }, block = { 256 } }
  local forward = SAMPLE:with { shape = { n }, grid = launch.grid, block = launch.block }
  local back = SAMPLE_BACK:with(launch)
  local no_image, no_place = flame.zeros(w, w), flame.zeros(n, 2)
  cases[#cases + 1] = { "sampling of an image",
    inputs = function() return flame.randn(w, w), flame.uniform({ n, 2 }, 0, w - 2) end,
    forward = function(image, at) return forward(image, at, w, w, n) end,
    hand = function(image, at, _, g)
      return back(image, at, g, no_image, no_place, w, w, n)
    end }
end
