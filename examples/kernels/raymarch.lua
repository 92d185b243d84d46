-- A small differentiable ray marcher: a kernel in CUDA C draws coloured blobs of fog, with one ray
-- for each pixel. Gradients of the kernel find places, sizes and colours of the blobs from a
-- picture. With --out, PNGs show this picture and what was found on the way to it.
--   flame-lua examples/kernels/raymarch.lua [--device auto|cpu|cuda] [--steps
--   N] [--size N] [--out FOLDER]
local flame = require "flame"
local data, optim = require "flame.data", require "flame.optim"

local options = data.options(arg, {
  { "device", "auto", "auto, cpu or cuda" },
  { "steps", 200, "steps of the optimiser" },
  { "size", 40, "pixels along a side" },
  { "samples", 24, "samples along a ray" },
  { "rate", 3e-2, "learning rate" },
  { "out", "", "folder for target.png, found.png and steps.png; nothing: write none" },
})
flame.default_device(options.device == "auto" and flame.best_device() or options.device)
flame.seed(5)
local size = options.size

-- blob: x y z, size, r g b for each. One thread follows one ray through the fog; 'through' is the
-- part of the light that has passed so far. A ray ends when hardly any is left.
local render = flame.kernel { source = [[
__global__ void march(const float *blob, float *image, int blobs, int samples, int size) {
  int px = blockIdx.x * blockDim.x + threadIdx.x, py = blockIdx.y * blockDim.y + threadIdx.y;
  if (px >= size || py >= size) return;
  float u = (px + 0.5f) * 2.f / size - 1.f, v = (py + 0.5f) * 2.f / size - 1.f;
  float through = 1.f, r = 0.f, g = 0.f, b = 0.f;
  for (int s = 0; s < samples; ++s) {
    float z = -1.f + 2.f * (s + 0.5f) / samples;
    float x = u * (1.5f + 0.3f * z), y = v * (1.5f + 0.3f * z);
    float fog = 0.f, fr = 0.f, fg = 0.f, fb = 0.f;
    for (int k = 0; k < blobs; ++k) {
      const float *p = blob + 7 * k;
      float dx = x - p[0], dy = y - p[1], dz = z - p[2];
      float d = expf(-(dx * dx + dy * dy + dz * dz) / (p[3] * p[3] + 1e-3f));
      fog += d; fr += d * p[4]; fg += d * p[5]; fb += d * p[6];
    }
    if (fog < 1e-3f) continue;
    float stop = 1.f - expf(-fog * 12.f / samples);
    r += through * stop * fr / fog;
    g += through * stop * fg / fog;
    b += through * stop * fb / fog;
    through *= 1.f - stop;
    if (through < 0.01f) break;
  }
  int at = 3 * (py * size + px);
  image[at] = r;
  image[at + 1] = g;
  image[at + 2] = b;
}
]], shape = { size, size, 3 }, block = { 8, 8 }, grid = { (size + 7) // 8, (size + 7) // 8 } }

local function picture(blobs) return render(blobs, blobs:size(1), options.samples, size) end

local truth = flame.tensor {
  { -0.5, -0.4, 0.0, 0.50, 0.9, 0.2, 0.1 },
  { 0.5, -0.3, 0.3, 0.40, 0.1, 0.8, 0.2 },
  { 0.0, 0.5, -0.2, 0.55, 0.2, 0.3, 0.9 },
}
local target = picture(truth)
local found = flame.tensor({
  { -0.2, -0.2, 0.1, 0.4, 0.5, 0.5, 0.5 },
  { 0.2, -0.1, 0.1, 0.4, 0.5, 0.5, 0.5 },
  { 0.0, 0.2, 0.1, 0.4, 0.5, 0.5, 0.5 },
}, { requires_grad = true })

local opt = optim.Adam({ found }, { lr = options.rate })
local first, last
local strip = {}
for k = 1, options.steps do
  local image = picture(found)
  local loss = (image - target):square():mean()
  opt:zero_grad()
  loss:backward()
  opt:step()
  if k == 1 or k == options.steps or k % math.max(1, options.steps // 5) == 0 then
    last = loss:item()
    first = first or last
    strip[#strip + 1] = image:detach()
    print(("step %4d  error %.6f"):format(k, last))
  end
end
assert(last < first / 10, "the error has not fallen to a tenth")
if options.out ~= "" then
  local function save(name, image)                  -- flame.save wants (colours, rows, columns)
    flame.save(("%s/%s.png"):format(options.out, name), image:permute(3, 1, 2):contiguous())
  end
  save("target", target)
  save("found", strip[#strip])
  save("steps", flame.cat(strip, 2))
  print("wrote target.png, found.png and steps.png to " .. options.out)
end
