-- Paints a photograph with Gaussian splats: soft ellipses of one colour each, which are added up.
-- What this shows: a kernel that draws has gradients with respect to everything that it draws, with
-- a loop over splats. flame derives them from the kernel's text.
-- Method: Zhang et al., "GaussianImage" (ECCV 2024), after Kerbl et al., "3D Gaussian splatting"
-- (SIGGRAPH 2023).
--   flame-lua examples/gallery/splats.lua [--device auto|cpu|cuda] [--out splats.png]
-- on a GPU: --size 256 --splats 1500 --steps 500
local flame = require "flame"
local data, optim, plot = require "flame.data", require "flame.optim", require "flame.plot"

local options = data.options(arg, {
  { "device", "auto", "auto, cpu or cuda" },
  { "size", 48, "pixels along a side" },
  { "splats", 120, "splats that paint" },
  { "steps", 150, "steps of the optimiser" },
  { "rate", 3e-2, "learning rate" },
  { "out", "splats.png", "the picture that is written" },
})
flame.default_device(options.device == "auto" and flame.best_device() or options.device)
flame.seed(1)
local size, splats = options.size, options.splats

-- ---- the photograph: an evening by a lake -----------------------------------------------------

--- The picture with one colour where 'mask' is true.
local function over(picture, mask, r, g, b)
  return flame.where(mask, flame.tensor({ r, g, b }):reshape(3, 1, 1), picture)
end
--- A colour picture (3, size, size), computed from the places of its pixels.
local function photograph()
  local axis = (flame.arange(0.0, size - 1.0) + 0.5) / size
  local x, y = axis:reshape(1, size), axis:reshape(size, 1)
  local shore = 0.68
  local up = flame.where(y:lt(shore), y, 2 * shore - y)                 -- the lake mirrors the sky
  -- repeated along x
  up = up + 0 * x
  local sky = flame.stack { 0.25 + 0.9 * up, 0.3 + 0.45 * up, 0.6 - 0.2 * up }
  local away = ((x - 0.62) ^ 2 + (up - 0.42) ^ 2):sqrt()
  sky = sky + flame.tensor({ 0.35, 0.25, 0.05 }):reshape(3, 1, 1) * (-(away / 0.18) ^ 2):exp()
  sky = over(sky, away:lt(0.07), 1, 0.95, 0.7)
  local far = 0.52 + 0.05 * (9 * x + 1):sin() + 0.03 * (23 * x):sin()
  local near = 0.62 + 0.05 * (5 * x + 3):sin() + 0.02 * (31 * x):sin()
  sky = over(sky, up:gt(far), 0.35, 0.3, 0.45)
  sky = over(sky, up:gt(near), 0.12, 0.14, 0.2)
  local ripples = 0.8 + 0.1 * (120 * y + 2 * (14 * x):sin()):sin()
  return flame.where(y:lt(shore), sky, sky * ripples):clamp(0, 1)
end

-- ---- the painter -------------------------------------------------------------------------------

-- splat: x, y, logarithms of two radii, angle, r g b for each. One thread computes one pixel.
local paint = flame.kernel { source = [[
__global__ void paint(const float *splat, float *image, int splats, int size) {
  int px = blockIdx.x * blockDim.x + threadIdx.x, py = blockIdx.y * blockDim.y + threadIdx.y;
  if (px >= size || py >= size) return;
  float x = (px + 0.5f) / size, y = (py + 0.5f) / size;
  float r = 0.f, g = 0.f, b = 0.f;
  for (int k = 0; k < splats; ++k) {
    const float *s = splat + 8 * k;
    float dx = x - s[0], dy = y - s[1], c = cosf(s[4]), d = sinf(s[4]);
    float u = (c * dx + d * dy) * expf(-s[2]), v = (c * dy - d * dx) * expf(-s[3]);
    float w = expf(-0.5f * (u * u + v * v));
    r += w * s[5]; g += w * s[6]; b += w * s[7];
  }
  int at = py * size + px;
  image[at] = r;
  image[size * size + at] = g;
  image[2 * size * size + at] = b;
}
]], shape = { 3, size, size }, block = { 16, 8 }, grid = { (size + 15) // 16, (size + 7) // 8 } }

local target = photograph()
local radius = math.log(0.8 / splats ^ 0.5)
local splat = flame.cat({ flame.rand(splats, 2), flame.full({ splats, 2 }, radius),
  flame.rand(splats, 1) * math.pi, flame.full({ splats, 3 }, 0.08) }, 2)
splat.requires_grad = true
local opt = optim.Adam({ splat }, { lr = options.rate })
local schedule = optim.schedule.cosine { opt = opt, steps = options.steps, min = options.rate / 10 }
local stages = {}
for step = 1, options.steps do
  local image
  local loss = opt:step(function()
    opt:zero_grad()
    image = paint(splat, splats, size)
    local l = (image - target):square():mean()
    l:backward()
    return l
  end)
  schedule:step()
  if step == 1 or step == options.steps // 8 or step == options.steps then
    stages[#stages + 1] = image:detach()
    print(("step %4d  PSNR %.2f dB"):format(step, -10 * math.log(loss:item(), 10)))
  end
end

for k, title in ipairs { "First step", "A little later", "Painted", "The photograph" } do
  stages[k] = plot.new { title = title, width = 190, height = 210 }
    :image((stages[k] or target):clamp(0, 1))
end
plot.grid(stages, { columns = 4 }):save(options.out, { scale = 1 })
print("wrote " .. options.out)
local error = (paint(splat:detach(), splats, size) - target):square():mean():item()
print(("measure: PSNR: %.2f dB, at least 25.5"):format(-10 * math.log(error, 10)))
