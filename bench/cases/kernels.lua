--- Kernels that users write, in CUDA C, and their derived gradients. Those of bench/ported are
--- beside backward kernels written by hand; bench/cases/kernels.py has the others in PyTorch.
local flame = require "flame"
local cases = {}

-- The Mandelbrot set, each point iterated until it escapes.
local escape = flame.kernel [[
__global__ void escape(const float *cx, const float *cy, float *count, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float x = 0.f, y = 0.f, k = 0.f;
  for (int t = 0; t < 50; ++t) {
    float xx = x * x, yy = y * y;
    if (xx + yy > 4.f) break;
    y = 2.f * x * y + cy[i];
    x = xx - yy + cx[i];
    k += 1.f;
  }
  count[i] = k;
}]]
function cases.escape(o, peer)
  local line = flame.arange(o.n, { dtype = "f32" })
  local cx = peer.give("cx", (line * (3 / o.n) - 2.1):reshape(1, o.n):expand(o.n, o.n):reshape(-1))
  local cy = peer.give("cy",
    (line * (2.4 / o.n) - 1.2):reshape(o.n, 1):expand(o.n, o.n):reshape(-1))
  flame.eval(cx, cy)
  return peer.call(function() return escape(cx, cy) end)
end

-- Bodies that attract each other: the gradient of their energy, the forces. The gradient of a
-- body's place has contributions from the threads of all bodies, added in a fixed order.
local energy = flame.kernel { source = [[
__global__ void energy(const float *p, float *e, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float s = 0.f;
  for (int j = 0; j < n; ++j) {
    float dx = p[2 * i] - p[2 * j], dy = p[2 * i + 1] - p[2 * j + 1];
    s -= rsqrtf(dx * dx + dy * dy + 0.01f);
  }
  e[i] = s;
}]] }
function cases.bodies(o, peer)
  local p = peer.give("p", flame.rand(o.n, 2)):requires_grad_(true)
  local launch = energy:with { shape = { o.n } }
  return peer.call(function()
    local d = launch(p, o.n):mean():gradients { p }
    return d[p]
  end)
end

-- Pendulums, one per thread, over 200 steps: the gradient of their last angles with respect to
-- their first states.
local swing = flame.kernel [[
__global__ void swing(const float *angle, const float *speed, float *last, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float a = angle[i], w = speed[i];
  for (int t = 0; t < 200; ++t) {
    w -= 0.02f * (9.81f * sinf(a) + 0.1f * w);
    a += 0.02f * w;
  }
  last[i] = a;
}]]
function cases.swing(o, peer)
  local angle = peer.give("angle", flame.rand(o.n) * 2 - 1):requires_grad_(true)
  local speed = peer.give("speed", flame.rand(o.n) * 2 - 1):requires_grad_(true)
  return peer.call(function()
    local d = swing(angle, speed):sum():gradients { angle, speed }
    return d[angle], d[speed]
  end)
end

-- The cases of bench/ported: "ported." and the title, with "_" for spaces.
local ported = dofile "bench/ported/beside.lua"
for i, c in ipairs(ported.cases(true)) do
  cases["ported." .. c[1]:gsub(" ", "_")] = function(o)
    local b = ported.beside(ported.cases(o.small == 1)[i])
    local function all(f) return function() flame.eval(f()) end end
    return { step = all(b.derived), others = { hand = all(b.hand) },
      differ = function() return { hand = b.differ() } end, check = function() return {} end }
  end
end

return cases
