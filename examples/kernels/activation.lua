-- A new activation, y = gain · x · sigmoid(slope · x) + leak · min(x, 0), as a kernel in CUDA C:
-- one pass forward and one back. flame derives the gradient from the text of the kernel. Here it is
-- checked against the same formula in flame's ops, and the three numbers are fitted to gelu.
--   flame-lua examples/kernels/activation.lua [--device auto|cpu|cuda] [--steps N] [--elements N]
local flame = require "flame"
local data, optim = require "flame.data", require "flame.optim"

local options = data.options(arg, {
  { "device", "auto", "auto, cpu or cuda" },
  { "steps", 200, "steps of the fit" },
  { "elements", 4096, "points of the fit" },
  { "rate", 5e-2, "learning rate" },
})
flame.default_device(options.device == "auto" and flame.best_device() or options.device)
flame.seed(1)

local activation = flame.kernel [[
__device__ float sigmoid(float v) { return 1.f / (1.f + expf(-v)); }

__global__ void gate(const float *x, float gain, float slope, float leak, float *y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float v = x[i];
  y[i] = gain * v * sigmoid(slope * v) + leak * fminf(v, 0.f);
}
]]

local function number(v) return flame.tensor(v, { requires_grad = true }) end
local gain, slope, leak = number(0.5), number(0.3), number(0.2)

-- check: is the derived gradient that of the ops?
do
  local x = flame.randn({ options.elements }, { requires_grad = true })
  local inputs = { x, gain, slope, leak }
  local mine = activation(x, gain, slope, leak):square():mean():gradients(inputs)
  local ops = (gain * x * (slope * x):sigmoid() + leak * x:minimum(0)):square():mean()
    :gradients(inputs)
  local worst = 0
  for _, t in ipairs(inputs) do worst = math.max(worst, (mine[t] - ops[t]):abs():max():item()) end
  print(("largest difference between the derived gradient and that of the ops: %.2g"):format(worst))
  assert(worst < 1e-4)
end

local x = flame.linspace(-4, 4, options.elements)
local target = x:gelu()
local opt = optim.Adam({ gain, slope, leak }, { lr = options.rate })
local first, last
for step = 1, options.steps do
  local loss = (activation(x, gain, slope, leak) - target):square():mean()
  opt:zero_grad()
  loss:backward()
  opt:step()
  if step == 1 or step == options.steps or step % math.max(1, options.steps // 5) == 0 then
    last = loss:item()
    first = first or last
    print(("step %4d  error %.6f  y = %.3f x sigmoid(%.3f x) + %.3f min(x, 0)"):format(step,
      last, gain:item(),
      slope:item(), leak:item()))
  end
end
assert(last < first / 10, "the error has not fallen to a tenth")
