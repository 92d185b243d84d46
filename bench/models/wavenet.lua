--- A step of training WaveNet: windows of two samples, ever farther apart, and gates.
local flame = require "flame"
local nn, optim = require "flame.nn", require "flame.optim"

local Net = nn.Module.extend("Net")
function Net:init(c, layers)
  self.width, self.first = c, nn.Conv1d(1, c, 1)
  self.far, self.near = nn.ModuleList {}, nn.ModuleList {}
  for i = 0, layers - 1 do
    self.far:append(nn.Conv1d(c, 2 * c, 2, { dilation = 1 << i % 10 }))
    self.near:append(nn.Conv1d(c, 2 * c, 1))
  end
  self.out1, self.out2 = nn.Conv1d(c, c, 1), nn.Conv1d(c, 256, 1)
end
function Net:forward(x)
  local h, skip, c = self.first(x), 0, self.width
  for i, far in ipairs(self.far) do
    local y = far(h:pad({ 1 << (i - 1) % 10, 0 }))
    y = self.near[i](y:narrow(2, 1, c):tanh() * y:narrow(2, c + 1, c):sigmoid())
    h = h + y:narrow(2, 1, c)
    skip = skip + y:narrow(2, c + 1, c)
  end
  return self.out2(flame.relu(self.out1(flame.relu(skip))))
end

return function(o, peer)
  local net = peer.net(Net(o.width, o.layers))
  local x = peer.give("x", flame.rand(o.batch, 1, o.length) * 2 - 1)
  local t = peer.give("t", flame.randint({ o.batch, o.length }, 1, 256))
  local opt = optim.Adam(net:parameters(), { lr = 1e-3 })
  return peer.train(net, opt, function() return flame.cross_entropy(net(x), t) end)
end
