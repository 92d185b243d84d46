--- A step of training a U-Net in three dimensions, which finds parts in volumes.
local flame = require "flame"
local nn, optim = require "flame.nn", require "flame.optim"

local function block(a, b)
  local list = {}
  for _, from in ipairs { a, b } do
    list[#list + 1] = nn.Conv3d(from, b, 3, { padding = 1 })
    list[#list + 1], list[#list + 2] = nn.InstanceNorm3d(b), nn.LeakyReLU()
  end
  return nn.Sequential(list)
end

local function wider(a, b) return nn.ConvTranspose3d(a, b, 2, { stride = 2 }) end

local Net = nn.Module.extend("Net")
function Net:init(c)
  self.in1, self.in2, self.in3 = block(1, c), block(c, 2 * c), block(2 * c, 4 * c)
  self.up2, self.out2 = wider(4 * c, 2 * c), block(4 * c, 2 * c)
  self.up1, self.out1, self.last = wider(2 * c, c), block(2 * c, c), nn.Conv3d(c, 4, 1)
end
function Net:forward(x)
  local a = self.in1(x)
  local b = self.in2(flame.max_pool3d(a, 2))
  local y = self.in3(flame.max_pool3d(b, 2))
  y = self.out2(flame.cat({ self.up2(y), b }, 2))
  return self.last(self.out1(flame.cat({ self.up1(y), a }, 2)))
end

return function(o, peer)
  local net, n, s = peer.net(Net(o.width)), o.batch, o.size
  local x = peer.give("x", flame.randn(n, 1, s, s, s))
  local t = peer.give("t", flame.randint({ n, s, s, s }, 1, 4))
  local opt = optim.AdamW(net:parameters(), { lr = 1e-4 })
  return peer.train(net, opt, function() return flame.cross_entropy(net(x), t) end,
    { bf16 = o.dtype == "bf16" })
end
