--- A step of training MobileNetV2: inverted residual blocks with windows by channel.
local flame = require "flame"
local nn, optim = require "flame.nn", require "flame.optim"
-- channels, blocks, stride, expansion
local STAGES <const> = { { 16, 1, 1, 1 }, { 24, 2, 2, 6 }, { 32, 3, 2, 6 }, { 64, 4, 2, 6 },
  { 96, 3, 1, 6 }, { 160, 3, 2, 6 }, { 320, 1, 1, 6 } }

local function window(a, b, k, stride, groups)
  return nn.Sequential(nn.Conv2d(a, b, k,
    { stride = stride, padding = k // 2, groups = groups, bias = false }), nn.BatchNorm2d(b),
    nn.ReLU6())
end

local Block = nn.Module.extend("Block")
function Block:init(a, b, stride, expansion)
  local h = a * expansion
  self.expand, self.depthwise = window(a, h, 1, 1, 1), window(h, h, 3, stride, h)
  self.project, self.norm = nn.Conv2d(h, b, 1, { bias = false }), nn.BatchNorm2d(b)
  self.skip = stride == 1 and a == b
end
function Block:forward(x)
  local y = self.norm(self.project(self.depthwise(self.expand(x))))
  return self.skip and x + y or y
end

return function(o, peer)
  local net, c = nn.Sequential(window(3, 32, 3, 2, 1)), 32
  for i = 1, o.stages do
    local width, count, stride, expansion = table.unpack(STAGES[i])
    for k = 1, count do
      net:append(Block(c, width, k == 1 and stride or 1, expansion))
      c = width
    end
  end
  net:append(window(c, 1280, 1, 1, 1)) net:append(nn.AdaptiveAvgPool2d(1))
  net:append(nn.Flatten()) net:append(nn.Linear(1280, 1000))
  peer.net(net)
  local x = peer.give("x", flame.randn(o.batch, 3, o.size, o.size))
  local t = peer.give("t", flame.randint({ o.batch }, 1, 1000))
  local opt = optim.SGD(net:parameters(), { lr = 0.01, momentum = 0.9 })
  return peer.train(net, opt, function() return flame.cross_entropy(net(x), t) end)
end
