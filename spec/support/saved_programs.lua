--- Functions for specs of export, with weights, example inputs, and inputs of later runs. In
--- spec/golden/programs each has a file, in the version that the format had when it was exported.
local flame = require "flame"
local nn, optim = flame.nn, flame.optim

local cases = {}

--- Adds a case. make(): f, inputs and options of the export; more(k): inputs of run k of 'runs'.
local function case(name, make, more, runs)
  cases[#cases + 1] = { name = name, runs = runs or 2, more = more,
    make = function()
      flame.seed(11)
      return make()
    end }
end

case("mlp", function()
  local net = nn.Sequential(nn.Linear(6, 5), nn.GELU(), nn.Linear(5, 3))
  return function(x) return net(x):softmax(2) end, { flame.randn(4, 6) }
end, function() return flame.randn(4, 6) end)

case("batch", function()
  local net = nn.Sequential(nn.Linear(6, 5), nn.LayerNorm(5), nn.Tanh(), nn.Linear(5, 3))
  return function(x, y)
    local out = net(x)
    return { logits = out, loss = flame.nn.functional.cross_entropy(out, y) }
  end, { flame.randn(4, 6), flame.tensor({ 1, 3, 2, 1 }, { dtype = "i64" }),
    vary = { x = { 1 }, y = { 1 } } }
end, function(k)
  local n = ({ 1, 9, 2, 300 })[k]
  return flame.randn(n, 6), flame.arange(0, n - 1, { dtype = "i64" }):remainder(3) + 1
end, 4)

case("cnn", function()
  local net = nn.Sequential(nn.Conv2d(2, 4, 3, { padding = 1 }), nn.BatchNorm2d(4), nn.ReLU(),
    nn.MaxPool2d(2), nn.Flatten(), nn.Dropout(0.5), nn.Linear(4 * 4 * 4, 3))
  return function(x) return net(x) end, { flame.randn(3, 2, 8, 8) }
end, function() return flame.randn(3, 2, 8, 8) end, 3)

-- A decoder of one block. It writes keys and values into caches, at a position that is a tensor and
-- is counted up.
case("cache", function()
  local T, D, H = 6, 8, 2
  local wte, norm = nn.Embedding(10, D), nn.LayerNorm(D)
  local qkv, out, head = nn.Linear(D, 3 * D), nn.Linear(D, D), nn.Linear(D, 10)
  local keys, values = flame.zeros(H, T, D // H), flame.zeros(H, T, D // H)
  local at, places = flame.ones(1, { dtype = "i64" }), flame.arange(1, T, { dtype = "i64" })
  return function(id)
    local x = wte(id):reshape(1, D)
    local q, k, v = table.unpack(qkv(norm(x)):reshape(3, H, 1, D // H):unbind(1))
    keys:index_copy_(2, at, k)
    values:index_copy_(2, at, v)
    local scores = q:matmul(keys:transpose(2, 3)) / 2
    scores = flame.where(places:le(at), scores, -math.huge)
    x = x + out(scores:softmax(3):matmul(values):reshape(1, D))
    at:add_(1)
    return head(x)
  end, { flame.tensor({ 3 }, { dtype = "i64" }) }
end, function(k) return flame.tensor({ k }, { dtype = "i64" }) end, 5)

local KERNELS = [[
#define SLOPE 0.1f
__device__ float leaky(float x) { return x > 0 ? x : SLOPE * x; }
__global__ void leak(float *y, const float *x, float a, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = a * leaky(x[i]);
}
__global__ void both(float *y, float *z, const float *x, const float *w, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) { y[i] = x[i] * w[i % 2]; z[i] = x[i] + w[1]; }
}]]

case("kernel", function()
  local leak = flame.kernel { source = KERNELS, entry = "leak" }
  return function(x) return leak(x * 2, 1.5):exp() end, { flame.randn(40), vary = { x = { 1 } } }
end, function(k) return flame.randn(({ 1, 40, 5000 })[k]) end, 3)

case("kernels", function()
  local both, w = flame.kernel { source = KERNELS, entry = "both" }, flame.randn(2)
  return function(x)
    local y, z = both(x, w)
    return y, z
  end, { flame.randn(40), sizes = { { x = { 7 } }, { x = { 300 } } } }
end, function(k) return flame.randn(({ 7, 40, 300 })[k]) end, 3)

-- Kernels in which many threads read one element: its gradient is a sum over threads or blocks.
local SUMS = [[
__global__ void scale(float *y, const float *x, const float *w, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] * w[i % 3] + w[i % 2];
}
__global__ void offset(double *y, const double *x, const double *b) {
  int i = blockIdx.x * 32 + threadIdx.x;
  y[i] = x[i] * b[0] + b[1];
}]]

case("sums", function()
  local scale = flame.kernel { source = SUMS, entry = "scale" }
  local offset = flame.kernel { source = SUMS, entry = "offset", grid = 2, block = 32 }
  local w, b = flame.randn(3):requires_grad_(), flame.randn(2):double():requires_grad_()
  local opt = optim.SGD({ w, b }, { lr = 0.05, momentum = 0.9 })
  local function step(x)
    opt:zero_grad()
    local loss = offset(scale(x, w):double(), b):square():mean()
    loss:backward()
    opt:step()
    return loss:detach(), w, b
  end
  step(flame.randn(64))
  return step, { flame.randn(64) }
end, function() return flame.randn(64) end, 3)

local function training(make)
  return function()
    local net = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 1))
    local opt = make(net:parameters())
    local function step(x, y)
      opt:zero_grad()
      local loss = (net(x) - y):square():mean()
      loss:backward()
      opt:step()
      return loss:detach()
    end
    local x, y = flame.randn(6, 5), flame.randn(6, 1)
    step(x, y)                                              -- makes the state that is made once
    return step, { x, y }
  end
end
local function batch() return flame.randn(6, 5), flame.randn(6, 1) end
case("sgd", training(function(p) return optim.SGD(p, { lr = 0.1, momentum = 0.9 }) end), batch, 4)
case("adam", training(function(p)
  return optim.AdamW(p, { lr = 0.1, capturable = true })
end), batch, 4)

case("random", function()
  local total = flame.zeros(3)
  return function(x)
    local noise = flame.randn(3) + flame.rand(3)
    total:add_(x + noise)
    return total, flame.randint({ 4 }, 1, 9)
  end, { flame.zeros(3) }
end, function() return flame.ones(3) end, 3)

return cases
