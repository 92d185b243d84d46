--- Measures user kernels: derived gradients against backward kernels written by hand (an
--- elementwise chain, a 5-point stencil, bilinear grid sampling and kernels with loops); flame.map
--- against ops that the library fuses; the cost of recording a call. Candidates run in turn. Prints
--- medians in microseconds and ratios to the first candidate. A sample is many calls in a row, so
--- that the device is always busy and its time is measured, not the latency of a call.
--
---   FLAME_DEVICE=cuda flame-lua bench/kernels.lua [elements]
local flame = require "flame"
local N = tonumber(arg and arg[1])
  or (flame.default_device():sub(1, 4) == "cuda" and 1 << 24 or 1 << 18)
local REPEAT = 15

local compare = dofile "bench/turns.lua"(REPEAT, 14)

local CHAIN = flame.kernel [[
__global__ void chain(const float *x, float *y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) { float v = x[i]; float t = tanhf(v); y[i] = t * v * v + expf(-v * v); }
}]]
local CHAIN_BY_HAND = flame.kernel [[
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
local STENCIL_BY_HAND = flame.kernel [[
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
local SAMPLE_BY_HAND = flame.kernel [[
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
}]]

local function elementwise()
  local x = flame.randn({ N }, { requires_grad = true })
  local g = flame.randn(N)
  local plain = x:detach()
  local y = CHAIN(x)
  flame.eval(y)
  compare("chain", {
    { name = "by hand", f = function() return CHAIN_BY_HAND(plain, g) end },
    { name = "derived", f = function()
      return y:gradients({ x }, { seed = g, retain_graph = true })[x]
    end },
    { name = "forward", f = function() return CHAIN(plain) end },
  })
end

local function both_modes(title, hand, y, inputs, g, forward)
  local function derived()
    local grads, list = y:gradients(inputs, { seed = g, retain_graph = true }), {}
    for i, x in ipairs(inputs) do list[i] = grads[x] end
    flame.eval(table.unpack(list))
    return list[1]
  end
  flame.eval(y)
  local function with(mode)
    return function()
      local before = flame.deterministic()
      flame.deterministic(mode)
      local r = derived()
      flame.deterministic(before)
      return r
    end
  end
  compare(title, {
    { name = "by hand", f = hand }, { name = "derived", f = with(false) },
    { name = "derived, deterministic", f = with(true) }, { name = "forward", f = forward },
  })
end

local function stencil()
  local w = 1 << 10
  local h = N // w
  local u = flame.randn({ h, w }, { requires_grad = true })
  local g, plain = flame.randn(h, w), u:detach()
  both_modes("stencil", function() return STENCIL_BY_HAND(g, w, h) end, STENCIL(u, w, h), { u }, g,
    function() return STENCIL(plain, w, h) end)
end

local function sampling()
  local w, h, n = 1024, 1024, N // 4
  local image = flame.randn({ h, w }, { requires_grad = true })
  local at = flame.uniform({ n, 2 }, 0, 1022):requires_grad_(true)
  local g, im, pos = flame.randn(n), image:detach(), at:detach()
  local forward = SAMPLE:with { shape = { n }, grid = { (n + 255) // 256 } }
  local hand = flame.kernel { source = SAMPLE_BY_HAND:source(), inout = { "dimage", "dat" } }
    :with { grid = { (n + 255) // 256 } }
  local di, dat = flame.zeros(h, w), flame.zeros(n, 2)
  both_modes("grid sampling", function()
    local a, b = hand(im, pos, g, di, dat, w, h, n)
    flame.eval(a, b)
    return a
  end, forward(image, at, w, h, n), { image, at }, g, function()
    return forward(im, pos, w, h, n)
  end)
end

-- Kernels with loops, as { title, the code of thread i < n, elements of x per thread, the code of a
-- backward kernel by hand, which has g and dx as well, and the forward's y }. Newton's method by
-- hand is the derivative of the root, not of the steps to it.
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

local function loops()
  local n = N // 64
  local head = "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n  if (i < n) { "
  for _, c in ipairs(LOOPS) do
    local rows = c[1]:find("place") and 64 or 1
    local launch = { block = { 256 }, grid = { (n + 255) // 256 } }
    local k = flame.kernel { source = "__global__ void k(const float *x, float *y, int n) {\n" .. head
      .. c[2] .. " }\n}", block = launch.block, grid = launch.grid, shape = { n * rows } }
    local hand = flame.kernel { block = launch.block, grid = launch.grid, shape = { n * c[3] },
      source = "__global__ void hand(const float *x, const float *y, const float *g, "
      .. "float *dx, int n) {\n" .. head .. c[4] .. " }\n}" }
    local x, g = flame.randn({ n * c[3] }, { requires_grad = true }), flame.randn(n * rows)
    local plain, y = x:detach(), k(x, n)
    local values = y:detach()
    flame.eval(y, values)
    local function derived() return y:gradients({ x }, { seed = g, retain_graph = true })[x] end
    local by_hand, ours = hand(plain, values, g, n), derived()
    local off = ((by_hand - ours):abs():sum() / by_hand:abs():sum()):item()
    assert(off < 1e-3, c[1] .. ": gradients differ by " .. off)
    compare(c[1], {
      { name = "by hand", f = function() return hand(plain, values, g, n) end },
      { name = "derived", f = derived },
      { name = "forward", f = function() return k(plain, n) end },
    })
  end
end

local function map()
  local f = flame.map("x, y -> sqrtf(x * x + y * y) * 0.5f")
  local x, y = flame.randn(N), flame.randn(N)
  compare("map", {
    { name = "built in", f = function() return (x * x + y * y):sqrt() * 0.5 end },
    { name = "flame.map", f = function() return f(x, y) end },
  })
end

local function recording()
  local saxpy = flame.kernel [[
__global__ void saxpy(float a, const float *x, const float *y, float *out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = a * x[i] + y[i];
}]]
  local x, y = flame.randn(256), flame.randn(256)
  local best = math.huge
  for _ = 1, 99 do
    local t = os.clock()
    for _ = 1, 1000 do saxpy(2, x, y) end
    best = math.min(best, (os.clock() - t) / 1000)
  end
  print(("a checked call, recorded: %.0f ns"):format(best * 1e9))
end

print(("%d elements on %s"):format(N, flame.default_device()))
elementwise()
stencil()
sampling()
loops()
map()
recording()
