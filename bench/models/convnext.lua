--- A step of training ConvNeXt: wide windows by channel, layer norms over channels, gelu.
local flame = require "flame"
local nn, optim = require "flame.nn", require "flame.optim"

local Block = nn.Module.extend("Block")
function Block:init(c)
  self.depthwise = nn.Conv2d(c, c, 7, { padding = 3, groups = c })
  self.norm, self.up, self.down = nn.LayerNorm(c), nn.Linear(c, 4 * c), nn.Linear(4 * c, c)
  self.scale = nn.Parameter(flame.full({ c }, 1e-6))
end
function Block:forward(x)
  local y = self.depthwise(x):permute(1, 3, 4, 2)
  y = self.down(flame.gelu(self.up(self.norm(y)))) * self.scale
  return x + y:permute(1, 4, 2, 3)
end

local Net = nn.Module.extend("Net")
function Net:init(o)
  local w, small = o.width, o.deep == 1
  local depth = { 3, 3, o.deep, small and 1 or 3 }
  self.layers = nn.ModuleList { nn.Conv2d(3, w, 4, { stride = 4 }) }
  for i = 1, 4 do
    if i > 1 then
      self.layers:append(nn.Conv2d(w << (i - 2), w << (i - 1), 2, { stride = 2 }))
    end
    for _ = 1, depth[i] do self.layers:append(Block(w << (i - 1))) end
  end
  self.norm, self.head = nn.LayerNorm(8 * w), nn.Linear(8 * w, 1000)
end
function Net:forward(x)
  for _, layer in ipairs(self.layers) do x = layer(x) end
  return self.head(self.norm(x:mean({ 3, 4 })))
end

return function(o, peer)
  local net = peer.net(Net(o))
  local x = peer.give("x", flame.randn(o.batch, 3, o.size, o.size))
  local t = peer.give("t", flame.randint({ o.batch }, 1, 1000))
  local opt = optim.AdamW(net:parameters(), { lr = 1e-4 })
  return peer.train(net, opt, function() return flame.cross_entropy(net(x), t) end,
    { bf16 = o.dtype == "bf16" })
end
