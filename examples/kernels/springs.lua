-- Balls between three springs, 1,000 time steps in one kernel: what are the stiffness and the
-- length of the springs, given where the balls are at the end? The loop is in the kernel. The
-- gradient that flame derives runs it backwards, and keeps only a few of its states per thread.
--   flame-lua examples/kernels/springs.lua [--device auto|cpu|cuda] [--steps
--   N] [--balls N] [--time N]
local flame = require "flame"
local data, optim = require "flame.data", require "flame.optim"

local options = data.options(arg, {
  { "device", "auto", "auto, cpu or cuda" },
  { "steps", 80, "steps of the optimiser" },
  { "balls", 32, "balls, each with its own start" },
  { "time", 1000, "steps of the simulation" },
  { "rate", 3e-2, "learning rate" },
})
flame.default_device(options.device == "auto" and flame.best_device() or options.device)
flame.seed(3)

-- One thread moves one ball. spring: for each of three springs its stiffness and length at rest.
local simulate = flame.kernel { source = [[
__global__ void springs(const float2 *from, const float *spring, float2 *to, int steps, float dt, int n) {
  const float anchor[3][2] = { { -1.f, -0.6f }, { 1.f, -0.6f }, { 0.f, 1.1f } };
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float2 at = from[i], speed = { 0.f, 0.f };
  for (int t = 0; t < steps; ++t) {
    float fx = -0.4f * speed.x, fy = -0.4f * speed.y - 0.5f;      // friction, weight
    for (int s = 0; s < 3; ++s) {
      float dx = at.x - anchor[s][0], dy = at.y - anchor[s][1];
      float length = sqrtf(dx * dx + dy * dy + 1e-6f);
      float pull = -spring[2 * s] * (length - spring[2 * s + 1]) / length;
      fx += pull * dx;
      fy += pull * dy;
    }
    speed.x += dt * fx; speed.y += dt * fy;
    at.x += dt * speed.x; at.y += dt * speed.y;
  }
  to[i] = at;
}
]], block = { 64 }, grid = { (options.balls + 63) // 64 } }

local starts = flame.uniform({ options.balls, 2 }, -0.8, 0.8)
local dt = 4.0 / options.time
local function ends(springs) return simulate(starts, springs, options.time, dt, options.balls) end

local truth = flame.tensor { 3.0, 0.7, 2.0, 0.9, 4.0, 0.5 }
local seen = ends(truth)
local guess = flame.tensor({ 2.5, 1.0, 2.5, 1.0, 2.5, 1.0 }, { requires_grad = true })

-- check: is the derivative through all steps about a difference of two losses?
do
  local loss = function(v) return (ends(v) - seen):square():mean() end
  local slope = loss(guess):gradients({ guess })[guess][2]:item()
  local function moved(d) return loss(guess:detach() + flame.tensor { 0, d, 0, 0, 0, 0 }):item() end
  local difference = (moved(1e-2) - moved(-1e-2)) / 2e-2
  print(("through %d steps: derivative %.5f, difference %.5f"):format(options.time,
    slope, difference))
  assert(math.abs(slope - difference) < 0.05 * math.abs(difference) + 1e-4)
end

local opt = optim.Adam({ guess }, { lr = options.rate })
local first, last
for k = 1, options.steps do
  local loss = (ends(guess) - seen):square():mean()
  opt:zero_grad()
  loss:backward()
  opt:step()
  if k == 1 or k == options.steps or k % math.max(1, options.steps // 5) == 0 then
    last = loss:item()
    first = first or last
    local v = guess:detach():totable()
    print(("step %4d  error %.7f  stiffness %.2f %.2f %.2f  length %.2f %.2f %.2f"):format(k, last,
      v[1], v[3], v[5],
      v[2], v[4], v[6]))
  end
end
assert(last < first / 10, "the error has not fallen to a tenth")
