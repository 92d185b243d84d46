-- Smoke that is steered: which forces must blow through a box so that the smoke in it forms a ring?
-- What this shows: a simulation with hundreds of launches of two short kernels, for transport and
-- for pressure, is differentiated as a whole.
-- Method: Stam, "Stable fluids" (SIGGRAPH 1999), steered as by McNamara et al., "Fluid control
-- using the adjoint method" (SIGGRAPH 2004).
--   flame-lua examples/gallery/fluid.lua [--device auto|cpu|cuda] [--out fluid.png]
-- on a GPU: --size 128 --time 60 --sweeps 30 --steps 200
local flame = require "flame"
local data, optim, plot = require "flame.data", require "flame.optim", require "flame.plot"

local options = data.options(arg, {
  { "device", "auto", "auto, cpu or cuda" },
  { "size", 32, "cells along a side" },
  { "time", 12, "steps of the simulation" },
  { "sweeps", 8, "sweeps that solve for the pressure" },
  { "steps", 60, "steps of the optimiser" },
  { "rate", 0.15, "learning rate" },
  { "out", "fluid.png", "the picture that is written" },
})
flame.default_device(options.device == "auto" and flame.best_device() or options.device)
local size = options.size
local launch = { block = { 16, 16 }, grid = { (size + 15) // 16, (size + 15) // 16 } }

-- Transport of q by the fluid; one thread computes one cell. Its new value is the old one at the
-- place from which its fluid comes, between four cells. u, v: velocity in cells per step.
local carry = flame.kernel { source = [[
__global__ void carry(const float *q, const float *u, const float *v, float *out, int n) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= n || y >= n) return;
  int i = y * n + x;
  float fx = fminf(fmaxf(x - u[i], 0.f), n - 1.001f), fy = fminf(fmaxf(y - v[i], 0.f), n - 1.001f);
  int x0 = (int)fx, y0 = (int)fy, at = y0 * n + x0;
  float a = fx - x0, b = fy - y0;
  out[i] = (1.f - b) * ((1.f - a) * q[at] + a * q[at + 1])
         + b * ((1.f - a) * q[at + n] + a * q[at + n + 1]);
}
]] }:with(launch)

-- A sweep of Jacobi's method: the pressure of a cell becomes the mean of its neighbours' pressures
-- minus a quarter of what flows out of it.
local relax = flame.kernel { source = [[
__global__ void relax(const float *p, const float *outflow, float *next, int n) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= n || y >= n) return;
  int i = y * n + x;
  float left = x > 0 ? p[i - 1] : p[i], right = x < n - 1 ? p[i + 1] : p[i];
  float above = y > 0 ? p[i - n] : p[i], below = y < n - 1 ? p[i + n] : p[i];
  next[i] = 0.25f * (left + right + above + below - outflow[i]);
}
]] }:with(launch)

--- Half the difference of the two neighbours along an axis; beyond the border values repeat.
local function slope(q, axis)
  local first, last = q:narrow(axis, 1, 1), q:narrow(axis, size, 1)
  return 0.5 * (flame.cat({ q:narrow(axis, 2, size - 1), last }, axis)
    - flame.cat({ first, q:narrow(axis, 1, size - 1) }, axis))
end
--- The velocity, changed so that as much flows into each cell as out of it, and the pressure.
local function project(u, v, p)
  local outflow = slope(u, 2) + slope(v, 1)
  for _ = 1, options.sweeps do p = relax(p, outflow, size) end
  return u - slope(p, 2), v - slope(p, 1), p
end
--- The smoke and the velocity at the end. force: (2, size, size), the same at each step.
local function blow(smoke, force)
  local u, v, p = flame.zeros(size, size), flame.zeros(size, size), flame.zeros(size, size)
  for _ = 1, options.time do
    u, v, p = project(u + force[1], v + force[2], p)
    smoke = carry(smoke, u, v, size)
    u, v = carry(u, u, v, size), carry(v, u, v, size)
  end
  return smoke, u, v
end

local axis = flame.linspace(-1, 1, size)
local x, y = axis:reshape(1, size), axis:reshape(size, 1)
local away = (x ^ 2 + y ^ 2):sqrt()
local start = ((0.55 - away) * 12):sigmoid()
local wanted = ((0.17 - (away - 0.6):abs()) * 12):sigmoid()
wanted = wanted * (start:sum() / wanted:sum())                       -- smoke is not made or lost
--- How far smoke is from the wanted ring, relative to the ring.
local function distance(smoke)
  return ((smoke - wanted):square():sum() / wanted:square():sum()):sqrt()
end

local force = flame.zeros({ 2, size, size }, { requires_grad = true })
local opt = optim.Adam({ force }, { lr = options.rate / options.time })
for step = 1, options.steps do
  local loss = opt:step(function()
    opt:zero_grad()
    local l = distance(blow(start, force))
    l:backward()
    return l
  end)
  if step == 1 or step % math.max(1, options.steps // 5) == 0 then
    print(("step %4d  distance %.4f"):format(step, loss:item()))
  end
end

local smoke, u, v = blow(start, force:detach())
local pictures = {}
for k, p in ipairs { { "Smoke at first", start }, { "At the end", smoke }, { "Wanted", wanted },
  { "Speed at the end", (u ^ 2 + v ^ 2):sqrt() } } do
  pictures[k] = plot.new { title = p[1], width = 230, height = 240, axes = false }
    :heatmap(p[2], { map = k < 4 and "grey" or "heat", bar = false })
end
plot.grid(pictures, { columns = 4 }):save(options.out, { scale = 1 })
print("wrote " .. options.out)
print(("measure: relative distance: %.4f, at most 0.2"):format(distance(smoke):item()))
