--- Steps of training and inference of known networks. bench/cases/nets.py has the same in PyTorch,
--- nets_jax.py some in JAX.
local flame = require "flame"
local nn, optim = require "flame.nn", require "flame.optim"
local clifford = require "flame.clifford"
local cases = {}

function cases.mlp(o, peer)
  local net = peer.net(peer.mlp({ 784, 256, 128, 10 }, nn.ReLU))
  local x = peer.give("x", flame.randn(o.batch, 784))
  local t = peer.give("t", flame.randint({ o.batch }, 1, 10))
  local opt = optim.Adam(net:parameters(), { lr = 1e-3 })
  return peer.train(net, opt, function() return flame.cross_entropy(net(x), t) end)
end

--- GPT-2's form (bench/gpt.lua): AdamW, clipping of the gradient's norm, the loss read each step.
function cases.gpt(o, peer)
  local net = dofile "bench/gpt.lua" { vocabulary = o.vocabulary, width = o.width, heads = o.heads,
    layers = o.layers, context = o.length, tied = true, gelu = "tanh" }
  for _, p in ipairs(net:parameters()) do if p.ndim == 2 then nn.init.normal(p, 0, 0.02) end end
  peer.net(net)
  local ids = peer.give("ids", flame.randint({ o.batch, o.length + 1 }, 1, o.vocabulary))
  local opt = optim.AdamW(net:parameters(), { lr = 1e-4 })
  return peer.train(net, opt, function()
    return flame.cross_entropy(net(ids:narrow(2, 1, o.length)):reshape(-1, o.vocabulary),
      ids:narrow(2, 2, o.length):reshape(-1))
  end, { bf16 = o.dtype == "bf16", clip = 1.0, read = true })
end

function cases.lstm(o, peer)
  local net = peer.net(nn.LSTM(o.width, o.width, 2))
  local x = peer.give("x", flame.randn(o.length, o.batch, o.width))
  local opt = optim.SGD(net:parameters(), { lr = 1e-3 })
  return peer.train(net, opt, function() return (net(x)):square():mean() end)
end

local Residual = nn.Module.extend("Residual")
function Residual:init(a, b, stride)
  self.conv1 = nn.Conv2d(a, b, 3, { stride = stride, padding = 1, bias = false })
  self.conv2 = nn.Conv2d(b, b, 3, { padding = 1, bias = false })
  self.norm1, self.norm2 = nn.BatchNorm2d(b), nn.BatchNorm2d(b)
  if stride ~= 1 or a ~= b then
    self.skip = nn.Sequential(nn.Conv2d(a, b, 1, { stride = stride, bias = false }),
      nn.BatchNorm2d(b))
  end
end
function Residual:forward(x)
  local y = flame.relu(self.norm1(self.conv1(x)))
  y = self.norm2(self.conv2(y))
  return flame.relu(y + (self.skip and self.skip(x) or x))
end

function cases.resnet18(o, peer)
  local before = o.width
  local net = nn.Sequential(nn.Conv2d(3, before, 7, { stride = 2, padding = 3, bias = false }),
    nn.BatchNorm2d(before), nn.ReLU(), nn.MaxPool2d(3, { stride = 2, padding = 1 }))
  for stage = 0, 3 do
    for i = 1, 2 do
      local width = o.width << stage
      net:append(Residual(before, width, stage > 0 and i == 1 and 2 or 1))
      before = width
    end
  end
  net:append(nn.AdaptiveAvgPool2d(1)) net:append(nn.Flatten()) net:append(nn.Linear(before, 1000))
  peer.net(net)
  local x = peer.give("x", flame.randn(o.batch, 3, o.size, o.size))
  local t = peer.give("t", flame.randint({ o.batch }, 1, 1000))
  local opt = optim.SGD(net:parameters(), { lr = 0.01, momentum = 0.9 })
  return peer.train(net, opt, function() return flame.cross_entropy(net(x), t) end,
    { bf16 = o.dtype == "bf16" })
end

--- flash-clifford's layer in Cl(3,0), forward alone or with all gradients.
function cases.clifford(o, peer)
  local A = clifford.algebra(3)
  local layer = peer.net(clifford.Layer(A, o.features))
  for i, t in ipairs(A.terms) do
    peer.give("term." .. i,
      flame.tensor({ t.x - 1, t.y - 1, t.r - 1, t.p - 1, t.c }, { dtype = "f32" }))
  end
  local x = peer.give("x", flame.randn(8, o.batch, o.features))
  if o.backward ~= 1 then
    return peer.call(function() return flame.no_grad(function() return layer(x) end) end)
  end
  local g, all = peer.give("g", flame.randn(8, o.batch, o.features)), { x:requires_grad_(true) }
  for _, name in ipairs { "linear.weight", "linear.bias", "product.weight" } do
    local at = layer
    for part in name:gmatch("%w+") do at = at[part] end
    all[#all + 1] = at
  end
  return peer.call(function() return peer.backward(layer(x), all, g) end)
end

--- A small network that answers the host: an observation goes in, probabilities come back.
function cases.act(o, peer)
  local net = peer.net(peer.mlp { 4, 64, 64, 2 })
  local rows = {}
  for i = 1, o.batch do
    rows[i] = {}
    for k = 1, 4 do rows[i][k] = ((i * 37 + k * 11) % 41) / 20.5 - 1 end
  end
  local function probabilities()
    return flame.no_grad(function() return net(flame.tensor(rows)):softmax(2) end)
  end
  local case = peer.call(probabilities)
  function case.step() return probabilities():totable()[o.batch] end
  return case
end

return cases
