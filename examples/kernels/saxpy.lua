-- A first kernel: a x + y, written in CUDA C. It is checked against flame's ops, gives gradients
-- that flame derives from its text, and is timed.
--   flame-lua examples/kernels/saxpy.lua [--device auto|cpu|cuda] [--elements N] [--steps N]
local flame = require "flame"
local data = require "flame.data"

local options = data.options(arg, {
  { "device", "auto", "auto, cpu or cuda" },
  { "elements", 1000000, "length of the vectors" },
  { "steps", 20, "calls that are timed" },
})
flame.default_device(options.device == "auto" and flame.best_device() or options.device)

local saxpy = flame.kernel [[
extern "C" __global__ void saxpy(float a, const float *x, const float *y, float *out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = a * x[i] + y[i];
}
]]

-- The output is allocated, and n may be left out: it is the number of elements of the output.
local x, y = flame.randn(options.elements), flame.randn(options.elements)
local z = saxpy(2, x, y)
local worst = (z - (2 * x + y)):abs():max():item()
print(("%d elements on %s, largest difference from 2 * x + y: %g"):format(options.elements,
  z.device, worst))
assert(worst < 1e-6)

-- For a number a tensor may be given, which then has a gradient, too: here the sum of x.
local a = flame.tensor(2, { requires_grad = true })
x:requires_grad_(true)
saxpy(a, x, y):sum():backward()
local sum = x:detach():double():sum():item()
print(("gradient: by x %g everywhere, by a %.3f (the sum of x is %.3f)"):format(x.grad[1]:item(),
  a.grad:item(), sum))
assert((x.grad - 2):abs():max():item() == 0)
assert(math.abs(a.grad:item() - sum) < 1e-2 * math.max(1, math.abs(sum)))

x = x:detach()                                           -- no gradients while calls are timed
flame.eval(saxpy(2, x, y))                               -- what is prepared only once
flame.synchronize()
local best = math.huge
for _ = 1, options.steps do
  local seconds = flame.timer()
  flame.eval(saxpy(2, x, y))
  flame.synchronize()
  best = math.min(best, seconds())
end
print(("best of %d calls: %.1f us, %.1f GB/s"):format(options.steps, best * 1e6,
  12 * options.elements / best / 1e9))                   -- reads 8 bytes per element, writes 4
