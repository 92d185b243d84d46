-- smoke: tests whether a build for another processor computes correctly. Run by tools/cross/aarch64
-- under qemu; needs nothing but flame-lua. Expected values are computed in plain Lua, or by other
-- ops.
local flame = require "flame"
local passed, failed = 0, 0

local function check(ok, what)
  if ok then passed = passed + 1 else failed = failed + 1 print("failed: " .. what) end
end

local function near(x, y, what, tolerance)
  x, y = x:double():flatten(), y:double():flatten()
  check((x - y):abs():amax():item() <= (tolerance or 1e-5), what)
end

--- Compares ops of one argument with Lua's math functions, in three dtypes.
local known = { exp = math.exp, sin = math.sin, cos = math.cos, sqrt = math.sqrt, abs = math.abs,
  floor = math.floor, ceil = math.ceil, atan = math.atan, square = function(v) return v * v end,
  sigmoid = function(v) return 1 / (1 + math.exp(-v)) end, log = math.log }
for name, f in pairs(known) do
  local values, want = {}, {}
  for i = 1, 257 do
    values[i] = i / 40
    want[i] = f(values[i])
  end
  for dtype, tolerance in pairs { f64 = 1e-12, f32 = 2e-5, f16 = 3e-2 } do
    local x = flame.tensor(values, { dtype = dtype })
    local scale = flame.tensor(want, { dtype = "f64" })
    near(x[name](x):double() / (scale:abs() + 1), scale / (scale:abs() + 1), name .. " " .. dtype,
      tolerance * (name == "exp" and dtype == "f16" and 50 or 1))
  end
end

--- Compares matrix products of several small sizes with loops in Lua.
for _, n in ipairs { 1, 2, 3, 5, 7, 17, 33, 65 } do
  local a, b = flame.randn(n, n + 1), flame.randn(n + 1, 3)
  local p, q, y = a:totable(), b:totable(), a:matmul(b):totable()
  local worst = 0
  for i = 1, n do
    for j = 1, 3 do
      local s = 0
      for k = 1, n + 1 do s = s + p[i][k] * q[k][j] end
      worst = math.max(worst, math.abs(s - y[i][j]))
    end
  end
  check(worst < 1e-4, "matmul " .. n)
end

--- Compares f's gradient with central differences, for layers and losses.
local function slope(name, f, x)
  x = x:double():detach():requires_grad_()
  f(x):backward()
  local g, step = x.grad:flatten():totable(), 1e-5
  local v = x:detach():flatten():totable()
  for i = 1, math.min(#v, 6) do
    local y = {}
    for side = -1, 1, 2 do
      local w = table.move(v, 1, #v, 1, {})
      w[i] = w[i] + side * step
      y[side] = f(flame.tensor(w, { dtype = "f64" }):reshape(x.shape)):item()
    end
    check(math.abs((y[1] - y[-1]) / (2 * step) - g[i]) < 1e-5, "gradient of " .. name)
  end
end
flame.seed(2)
slope("softmax", function(x) return (x:softmax(2) * x):sum() end, flame.randn(3, 4))
slope("layer_norm", function(x) return (flame.layer_norm(x, 4) ^ 3):sum() end, flame.randn(3, 4))
slope("conv2d", function(x)
  return (flame.conv2d(x, flame.ones(2, 1, 3, 3, { dtype = "f64" })) ^ 2):sum()
end, flame.randn(1, 1, 5, 5))
slope("attention", function(x)
  return (flame.scaled_dot_product_attention(x, x, x) ^ 2):sum()
end, flame.randn(1, 2, 3, 4))
slope("solve", function(x)
  local a = x:matmul(x:t()) + flame.eye(3, { dtype = "f64" })
  return flame.linalg.solve(a, x):sum()
end, flame.randn(3, 3))

--- Tests a user kernel with atomics and shared memory, and its gradient.
local sums = flame.kernel { source = [[
  __global__ void sums(const float *x, float *y, int n) {
    __shared__ float part[64];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    part[threadIdx.x] = i < n ? x[i] * x[i] : 0.f;
    __syncthreads();
    for (int d = 32; d > 0; d /= 2) {
      if (threadIdx.x < d) part[threadIdx.x] += part[threadIdx.x + d];
      __syncthreads();
    }
    if (threadIdx.x == 0) atomicAdd(y, part[0]);
  }]], block = { 64 }, grid = { 4 }, shape = { 1 } }
local x = flame.arange(200.0):requires_grad_()
local total = sums(x, 200)
near(total, (x * x):sum():reshape(1), "kernel", 1)
total:sum():backward()
near(x.grad, 2 * x, "gradient of a kernel")

--- Sorting, transforms, files, training.
near(flame.tensor({ 3, 1, 2 }):sort(), flame.tensor { 1, 2, 3 }, "sort")
local z = flame.randn(30)
near(flame.irfft(flame.rfft(z), 30), z, "fft")
local file = os.tmpname() .. ".safetensors"
flame.save(file, { z = z })
near(flame.load(file).z, z, "file", 0)
os.remove(file)
local net = flame.nn.Sequential(flame.nn.Linear(2, 8), flame.nn.Tanh(), flame.nn.Linear(8, 1))
local adam = flame.optim.Adam(net:parameters(), { lr = 0.05 })
local inputs = flame.randn(32, 2)
local targets = inputs:narrow(2, 1, 1) * inputs:narrow(2, 2, 1)
local first, last
for _ = 1, 150 do
  adam:zero_grad()
  local loss = flame.mse_loss(net(inputs), targets)
  loss:backward()
  adam:step()
  last = loss:item()
  first = first or last
end
check(last < first / 5, "training")
print(("smoke: %d passed, %d failed"):format(passed, failed))
os.exit(failed == 0 and 0 or 1)
