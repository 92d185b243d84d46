-- The heat equation in two dimensions, backwards: what was the temperature of a plate at the
-- beginning, given its temperature now? Each time step is a launch of a kernel in CUDA C. flame
-- derives the kernel's gradient, and so that of the whole simulation, from the text of the kernel.
--   flame-lua examples/kernels/heat.lua [--device auto|cpu|cuda] [--steps N]
--   [--size N] [--time N] [--out heat.png]
local flame = require "flame"
local data, optim = require "flame.data", require "flame.optim"

local options = data.options(arg, {
  { "device", "auto", "auto, cpu or cuda" },
  { "steps", 100, "steps of the optimiser" },
  { "size", 48, "cells along a side" },
  { "time", 20, "steps of the simulation" },
  { "rate", 5e-2, "learning rate" },
  { "out", "", "PNG of the true start, the measurement and the start that was found" },
})
flame.default_device(options.device == "auto" and flame.best_device() or options.device)
local size = options.size

-- One thread computes one cell; no heat flows over the border.
local step = flame.kernel { source = [[
__global__ void heat(const float *u, float *v, float c, int w, int h) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= w || y >= h) return;
  int i = y * w + x;
  float here = u[i];
  float left = x > 0 ? u[i - 1] : here, right = x < w - 1 ? u[i + 1] : here;
  float above = y > 0 ? u[i - w] : here, below = y < h - 1 ? u[i + w] : here;
  v[i] = here + c * (left + right + above + below - 4.f * here);
}
]], block = { 16, 16 }, grid = { (size + 15) // 16, (size + 15) // 16 } }

local function simulate(u)
  for _ = 1, options.time do u = step(u, 0.2, size, size) end
  return u
end

-- the true start, which is to be found: a warm ring and a warm spot
local axis = flame.linspace(-1, 1, size)
local x, y = axis:reshape(1, size), axis:reshape(size, 1)
local ring = (((x * x + y * y):sqrt() - 0.6):abs():lt(0.12)):float()
local spot = ((x - 0.1):square() + (y + 0.1):square()):lt(0.04):float()
local truth = ring + spot * 0.7
local measured = simulate(truth)

-- check: the sum of the heat is constant, since heat that leaves one cell enters another
assert(math.abs(measured:sum():item() - truth:sum():item()) < 1e-3 * truth:sum():item())

local start = flame.zeros({ size, size }, { requires_grad = true })
local opt = optim.Adam({ start }, { lr = options.rate })
local first, last
for k = 1, options.steps do
  local loss = (simulate(start) - measured):square():mean()
  opt:zero_grad()
  loss:backward()
  opt:step()
  if k == 1 or k == options.steps or k % math.max(1, options.steps // 5) == 0 then
    last = loss:item()
    first = first or last
    print(("step %4d  error of the measurement %.6f, of the start %.4f"):format(k, last,
      (start:detach() - truth):square():mean():item()))
  end
end
assert(last < first / 10, "the error has not fallen to a tenth")
if options.out ~= "" then
  flame.save(options.out, flame.cat({ truth, measured, start:detach() }, 2))
  print("wrote " .. options.out)
end
