-- Bilinear sampling as a kernel, with gradients with respect to the picture and to the places where
-- it is sampled: the rotation, scale and shift between two pictures are found, and then the picture
-- itself.
--   flame-lua examples/kernels/grid_sample.lua [--device auto|cpu|cuda] [--steps N] [--size N]
local flame = require "flame"
local data, optim = require "flame.data", require "flame.optim"

local options = data.options(arg, {
  { "device", "auto", "auto, cpu or cuda" },
  { "steps", 150, "steps of the optimiser" },
  { "size", 48, "pixels along a side" },
  { "rate", 1e-2, "learning rate" },
})
flame.default_device(options.device == "auto" and flame.best_device() or options.device)
local size = options.size

-- Values of an image at n places, each x and y in pixels; outside of the image there are zeros.
local sample = flame.kernel { source = [[
__device__ float pixel(const float *image, int x, int y, int w, int h) {
  return x >= 0 && x < w && y >= 0 && y < h ? image[y * w + x] : 0.f;
}

__global__ void sample(const float *image, const float2 *at, float *out, int w, int h, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float2 p = at[i];
  int x = (int)floorf(p.x), y = (int)floorf(p.y);
  float fx = p.x - x, fy = p.y - y;
  float top = (1.f - fx) * pixel(image, x, y, w, h) + fx * pixel(image, x + 1, y, w, h);
  float bottom = (1.f - fx) * pixel(image, x, y + 1, w, h) + fx * pixel(image, x + 1, y + 1, w, h);
  out[i] = (1.f - fy) * top + fy * bottom;
}
]],
  shape = function(_, at) return { at:numel() // 2 } end, block = { 256 },
  grid = { (size * size + 255) // 256 } }

local axis = flame.linspace(-1, 1, size)
local ones = flame.ones(size, size)
local grid = flame.stack({ ones * axis:reshape(1, size), ones * axis:reshape(size, 1) },
  3):reshape(size * size, 2)

--- The image after an affine map of places, a 2 x 2 matrix and a shift (places from -1 to 1).
local function warp(image, matrix, shift)
  local at = (grid:matmul(matrix) + shift + 1) * ((size - 1) / 2)
  return sample(image, at:contiguous(), size, size, size * size)
end

-- check: sampled at its own pixels, an image does not change
local x, y = axis:reshape(1, size), axis:reshape(size, 1)
local image = ((x * 7):sin() * (y * 5 + x * 2):cos() * (-(x * x + y * y) * 2):exp() + 1) * 0.5
image = image:contiguous()
local same = warp(image, flame.tensor { { 1, 0 }, { 0, 1 } }, flame.tensor { 0, 0 })
local off = (same - image:reshape(-1)):abs():max():item()
print(("sampled at its own pixels: off by %.2g at most"):format(off))
assert(off < 1e-4)

local c, s = 0.9 * math.cos(0.2), 0.9 * math.sin(0.2)
local true_matrix, true_shift = flame.tensor { { c, s }, { -s, c } }, flame.tensor { 0.08, -0.05 }
local turned = warp(image, true_matrix, true_shift)

local function fit(title, parameters, rate, f)
  local opt = optim.Adam(parameters, { lr = rate })
  local first, last
  for k = 1, options.steps do
    local loss = (f() - turned):square():mean()
    opt:zero_grad()
    loss:backward()
    opt:step()
    if k == 1 or k == options.steps or k % math.max(1, options.steps // 3) == 0 then
      last = loss:item()
      first = first or last
      print(("%s  step %4d  error %.7f"):format(title, k, last))
    end
  end
  assert(last < first / 10, title .. ": the error has not fallen to a tenth")
end

local matrix = flame.tensor({ { 1, 0 }, { 0, 1 } }, { requires_grad = true })
local shift = flame.tensor({ 0, 0 }, { requires_grad = true })
fit("the map", { matrix, shift }, options.rate, function() return warp(image, matrix, shift) end)
print(("shift (%.3f, %.3f), it was (0.080, -0.050)"):format(shift[1]:item(), shift[2]:item()))

local guess = flame.full({ size, size }, 0.5, { requires_grad = true })
fit("the picture", { guess }, 5e-2, function() return warp(guess, true_matrix, true_shift) end)
