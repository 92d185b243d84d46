-- A ray marcher recovers a scene from its images: three balls, photographed from some sides. Where
-- are they, how large, and of what colour? Then it makes an image from a side that was not
-- photographed.
-- What this shows: the balls are soft, with a density that rises where the distance to the surface
-- falls below 0, so that edges move smoothly and images have gradients with respect to the scene.
-- Method: Yariv et al., "Volume rendering of neural implicit surfaces" (NeurIPS 2021).
--   flame-lua examples/gallery/raymarch.lua [--device auto|cpu|cuda] [--out raymarch.png]
-- on a GPU: --size 128 --samples 96 --views 8 --steps 100
local flame = require "flame"
local data, optim, plot = require "flame.data", require "flame.optim", require "flame.plot"

local options = data.options(arg, {
  { "device", "auto", "auto, cpu or cuda" },
  { "size", 24, "pixels along a side" },
  { "samples", 24, "samples along a ray" },
  { "views", 4, "images" },
  { "steps", 100, "steps of the optimiser" },
  { "rate", 3e-2, "learning rate" },
  { "out", "raymarch.png", "the picture that is written" },
})
flame.default_device(options.device == "auto" and flame.best_device() or options.device)
local size, samples = options.size, options.samples

-- ball: x y z, radius, r g b for each. One thread computes one pixel of one image. camera: sine and
-- cosine of the angle from which an image is taken. Light comes from above.
local march = flame.kernel { source = [[
__global__ void march(const float *ball, const float *camera, float *image, int balls, int samples, int size) {
  int px = blockIdx.x * blockDim.x + threadIdx.x, py = blockIdx.y * blockDim.y + threadIdx.y;
  int view = blockIdx.z;
  if (px >= size || py >= size) return;
  float u = (px + 0.5f) * 2.f / size - 1.f, v = 1.f - (py + 0.5f) * 2.f / size;
  float s = camera[2 * view], c = camera[2 * view + 1];
  float through = 1.f, r = 0.f, g = 0.f, b = 0.f, step = 2.4f / samples;
  for (int t = 0; t < samples; ++t) {
    float depth = -1.2f + step * (t + 0.5f), wide = 1.1f + 0.15f * depth;
    float x = c * u * wide - s * depth, y = v * wide, z = s * u * wide + c * depth;
    float density = 0.f, cr = 0.f, cg = 0.f, cb = 0.f;
    for (int k = 0; k < balls; ++k) {
      const float *p = ball + 7 * k;
      float dx = x - p[0], dy = y - p[1], dz = z - p[2];
      float d = sqrtf(dx * dx + dy * dy + dz * dz + 1e-4f);
      float solid = 15.f / (1.f + expf((d - p[3]) * 20.f));
      float shade = solid * (0.7f + 0.3f * dy / d);
      density += solid; cr += shade * p[4]; cg += shade * p[5]; cb += shade * p[6];
    }
    float part = through * (1.f - expf(-density * step)) / (density + 1e-6f);
    r += part * cr; g += part * cg; b += part * cb;
    through *= expf(-density * step);
    if (through < 0.005f) break;
  }
  float *out = image + 3 * view * size * size + py * size + px;
  out[0] = r + through; out[size * size] = g + through; out[2 * size * size] = b + through;
}
]], block = { 8, 8 } }

--- Images (angle, 3, size, size) of balls, from a list of angles in full turns.
local function images(balls, angles)
  local cameras = {}
  for k, turns in ipairs(angles) do
    cameras[k] = { math.sin(2 * math.pi * turns), math.cos(2 * math.pi * turns) }
  end
  local blocks = (size + 7) // 8
  return march:with { shape = { #angles, 3, size, size }, grid = { blocks, blocks, #angles } }(
    balls, flame.tensor(cameras), balls:size(1), samples, size)
end

local angles = {}
for k = 1, options.views do angles[k] = (k - 1) / options.views end
local truth = flame.tensor {
  { -0.45, -0.25, 0.20, 0.38, 0.9, 0.25, 0.1 },
  { 0.45, -0.05, 0.25, 0.32, 0.15, 0.6, 0.3 },
  { 0.05, 0.45, -0.35, 0.30, 0.2, 0.3, 0.9 },
}
local seen = images(truth, angles)
local balls = flame.tensor({
  { -0.2, -0.1, 0.0, 0.3, 0.5, 0.5, 0.5 },
  { 0.2, -0.1, 0.0, 0.3, 0.5, 0.5, 0.5 },
  { 0.0, 0.2, -0.1, 0.3, 0.5, 0.5, 0.5 },
}, { requires_grad = true })

local function psnr(a, b) return -10 * math.log((a - b):square():mean():item(), 10) end

local unseen = { 0.5 / options.views }
local first = images(balls:detach(), unseen)
local opt = optim.Adam({ balls }, { lr = options.rate })
local schedule = optim.schedule.cosine { opt = opt, steps = options.steps, min = options.rate / 10 }
for step = 1, options.steps do
  local loss = opt:step(function()
    opt:zero_grad()
    local l = (images(balls, angles) - seen):square():mean()
    l:backward()
    return l
  end)
  schedule:step()
  if step == 1 or step % math.max(1, options.steps // 5) == 0 then
    print(("step %4d  PSNR of the images %.2f dB"):format(step, -10 * math.log(loss:item(), 10)))
  end
end

local found, actual = images(balls:detach(), unseen), images(truth, unseen)
local pictures = {}
for k, p in ipairs { { "One that was seen", seen }, { "Unseen: first guess", first },
  { "Found", found }, { "Truth", actual } } do
  pictures[k] = plot.new { title = p[1], width = 225, height = 240 }:image(p[2][1]:clamp(0, 1))
end
plot.grid(pictures, { columns = 4 }):save(options.out, { scale = 1 })
print("wrote " .. options.out)
print(("measure: PSNR of the unseen side: %.2f dB, at least 45"):format(psnr(found, actual)))
