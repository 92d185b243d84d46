-- An inverse heat problem: how well does each part of a plate conduct, if we can only observe how
-- it cools? The conductivity of every cell is found from a few pictures of a thermal camera.
-- What this shows: a kernel is called in a loop of Lua, and the gradient goes back through all
-- calls to a field that each of them reads.
-- Method: Alifanov, "Inverse heat transfer problems" (1994).
--   flame-lua examples/gallery/heat.lua [--device auto|cpu|cuda] [--out heat.png]
-- on a GPU: --size 128 --time 400 --steps 600
local flame = require "flame"
local data, optim, plot = require "flame.data", require "flame.optim", require "flame.plot"

local options = data.options(arg, {
  { "device", "auto", "auto, cpu or cuda" },
  { "size", 24, "cells along a side" },
  { "time", 40, "steps of the simulation" },
  { "steps", 120, "steps of the optimiser" },
  { "rate", 5e-2, "learning rate" },
  { "out", "heat.png", "the picture that is written" },
})
flame.default_device(options.device == "auto" and flame.best_device() or options.device)
local size, time = options.size, options.time

-- One thread computes one cell; u is its heat, k its conductivity. The flow between two cells is
-- proportional to the mean of their conductivities; nothing flows over the border.
local cool = flame.kernel { source = [[
__device__ float flow(const float *u, const float *k, int from, int to) {
  return 0.5f * (k[from] + k[to]) * (u[from] - u[to]);
}
__global__ void cool(const float *u, const float *k, float *v, int n) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= n || y >= n) return;
  int i = y * n + x;
  float sum = u[i];
  if (x > 0) sum += flow(u, k, i - 1, i);
  if (x < n - 1) sum += flow(u, k, i + 1, i);
  if (y > 0) sum += flow(u, k, i - n, i);
  if (y < n - 1) sum += flow(u, k, i + n, i);
  v[i] = sum;
}
]], block = { 16, 16 }, grid = { (size + 15) // 16, (size + 15) // 16 } }

local axis = flame.linspace(-1, 1, size)
local x, y = axis:reshape(1, size), axis:reshape(size, 1)
--- 1 where the distance to (cx, cy) is below r, 0 elsewhere, with a soft border.
local function disc(cx, cy, r)
  return ((r - ((x - cx) ^ 2 + (y - cy) ^ 2):sqrt()) * 12):sigmoid()
end
-- stripes of warm and cold, so that heat flows everywhere
local start = 0.5 + 0.25 * (9 * x):sin() + 0.25 * (9 * y):sin()

--- The pictures of the camera: the heat after each quarter of the time.
local function film(conductivity)
  local u, pictures = start, {}
  for t = 1, time do
    u = cool(u, conductivity, size)
    if t % math.max(1, time // 4) == 0 then pictures[#pictures + 1] = u end
  end
  return flame.stack(pictures)
end

local truth = 0.05 + 0.15 * disc(-0.35, -0.3, 0.4) + 0.1 * disc(0.4, 0.35, 0.45)
local seen = film(truth)
local logits = flame.full({ size, size }, -1.0, { requires_grad = true })
--- The conductivity, from 0 to 0.24: above 0.25 the simulation would be unstable.
local function conductivity() return 0.24 * logits:sigmoid() end

--- The relative error of the conductivity: the root mean square of its difference from the truth,
--- divided by that of the truth.
local function distance()
  return ((conductivity() - truth):square():mean() / truth:square():mean()):sqrt():item()
end

local opt = optim.Adam({ logits }, { lr = options.rate })
for step = 1, options.steps do
  local loss = opt:step(function()
    opt:zero_grad()
    local l = 1e4 * (film(conductivity()) - seen):square():mean()
    l:backward()
    return l
  end)
  if step == 1 or step % math.max(1, options.steps // 5) == 0 then
    print(("step %4d  loss %.5f  distance %.4f"):format(step, loss:item(), distance()))
  end
end

local limits, pictures = { limits = { 0, 0.24 } }, {}
for k, p in ipairs { { "Heat at first", start }, { "Heat at the end", seen[#seen] },
  { "True conductivity", truth, limits }, { "Found", conductivity():detach(), limits } } do
  pictures[k] = plot.new { title = p[1], width = 280, height = 240 }
    :heatmap(p[2], { map = k > 2 and "depth" or "heat", limits = p[3] and p[3].limits })
end
plot.grid(pictures, { columns = 4 }):save(options.out, { scale = 1 })
print("wrote " .. options.out)
print(("measure: relative distance: %.4f, at most 0.1"):format(distance()))
