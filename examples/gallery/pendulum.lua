-- A pendulum that is swung up: its motor is too weak to lift it at once, so it must gain momentum
-- first. The torque at each moment is optimised with the gradient through the simulation.
-- What this shows: a simulation of hundreds of steps is one kernel with a loop. flame derives its
-- gradient, a kernel that runs the loop backwards, from its text.
-- Method: optimal control by adjoints, Bryson and Ho, "Applied optimal control" (1975).
--   flame-lua examples/gallery/pendulum.lua [--device auto|cpu|cuda] [--out pendulum.svg]
-- on a GPU: --pendulums 4096 --time 1000
local flame = require "flame"
local data, optim, plot = require "flame.data", require "flame.optim", require "flame.plot"

local options = data.options(arg, {
  { "device", "auto", "auto, cpu or cuda" },
  { "pendulums", 16, "pendulums, each with its own mass" },
  { "time", 250, "steps of the simulation, of 6 s together" },
  { "steps", 150, "steps of the optimiser" },
  { "rate", 5e-2, "learning rate" },
  { "out", "pendulum.svg", "the picture that is written" },
})
flame.default_device(options.device == "auto" and flame.best_device() or options.device)
flame.seed(1)
local pendulums, time = options.pendulums, options.time

-- One thread moves one pendulum, of length 1 m and with some friction, which hangs at rest at the
-- beginning (angle 0). torque: (time, pendulums), before tanh limits it to the motor's maximum.
local swing = flame.kernel { source = [[
__global__ void swing(const float *torque, const float *mass, float *angle, float *speed,
                      int time, float dt, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float a = 0.f, w = 0.f;
  for (int t = 0; t < time; ++t) {
    float force = 3.f * tanhf(torque[t * n + i]) / mass[i];         // 3 N m at most
    w += dt * (force - 9.81f * sinf(a) - 0.1f * w);
    a += dt * w;
    angle[t * n + i] = a;
    speed[t * n + i] = w;
  }
}
]], shape = { time, pendulums }, block = { 64 }, grid = { (pendulums + 63) // 64 } }

local mass = flame.linspace(0.8, 1.2, pendulums)
local dt = 6.0 / time
local torque = flame.randn(time, pendulums) * 0.1
torque.requires_grad = true

--- How far the pendulums are from upright and from rest, averaged over the last second.
local function missing(angle, speed)
  local last = time // 6
  local a, w = angle:narrow(1, time - last + 1, last), speed:narrow(1, time - last + 1, last)
  return ((1 + a:cos()) + 0.05 * w:square()):mean()
end

local opt = optim.Adam({ torque }, { lr = options.rate })
for step = 1, options.steps do
  local loss = opt:step(function()
    opt:zero_grad()
    local l = missing(swing(torque, mass, time, dt, pendulums))
    l:backward()
    return l
  end)
  if step == 1 or step % math.max(1, options.steps // 5) == 0 then
    print(("step %4d  missing %.4f"):format(step, loss:item()))
  end
end

local angle = swing(torque:detach(), mass, time, dt, pendulums)
local seconds = flame.linspace(dt, 6, time)
local middle = pendulums // 2 + 1
local left = plot.new { title = "Angle", xlabel = "time in s", ylabel = "half turns", width = 360,
  height = 260 }
for _, i in ipairs { 1, middle, pendulums } do
  left:line(seconds, angle:select(2, i) / math.pi, { label = ("%.1f kg"):format(mass[i]:item()) })
end
local right = plot.new { title = "Torque", xlabel = "time in s", ylabel = "N m", width = 360,
  height = 260 }:line(seconds, 3 * torque:detach():select(2, middle):tanh())
plot.grid({ left, right }, { columns = 2 }):save(options.out)
print("wrote " .. options.out)
local height = -angle[time]:cos():mean():item()
print(("measure: height at the end: %.4f m, at least 0.95"):format(height))
