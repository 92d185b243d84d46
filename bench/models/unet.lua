--- A step of training the U-Net of a diffusion model: residual blocks that know the time, attention
--- at the lowest resolution, group norms.
local flame = require "flame"
local nn, optim = require "flame.nn", require "flame.optim"

local function window(a, b, stride)
  return nn.Conv2d(a, b, 3, { stride = stride or 1, padding = 1 })
end

local Residual = nn.Module.extend("Residual")
function Residual:init(a, b, times)
  self.norm1, self.conv1, self.time = nn.GroupNorm(8, a), window(a, b), nn.Linear(times, b)
  self.norm2, self.conv2 = nn.GroupNorm(8, b), window(b, b)
  if a ~= b then self.skip = nn.Conv2d(a, b, 1) end
end
function Residual:forward(x, t)
  local h = self.conv1(flame.silu(self.norm1(x)))
  h = h + self.time(flame.silu(t)):unsqueeze(-1):unsqueeze(-1)
  h = self.conv2(flame.silu(self.norm2(h)))
  return h + (self.skip and self.skip(x) or x)
end

local Attention = nn.Module.extend("Attention")
function Attention:init(c)
  self.norm, self.qkv, self.out = nn.GroupNorm(8, c), nn.Conv2d(c, 3 * c, 1), nn.Conv2d(c, c, 1)
end
function Attention:forward(x)
  local n, c, h, w = table.unpack(x.shape)
  local p = self.qkv(self.norm(x)):reshape(n, 3, 4, c // 4, h * w):transpose(-1, -2)
  local y = flame.scaled_dot_product_attention(p:select(2, 1), p:select(2, 2), p:select(2, 3))
  return x + self.out(y:transpose(-1, -2):reshape(n, c, h, w))
end

local Net = nn.Module.extend("Net")
function Net:init(c)
  local e = 4 * c
  self.width, self.time1, self.time2 = c, nn.Linear(c, e), nn.Linear(e, e)
  self.first, self.less1, self.less2 = window(3, c), window(c, c, 2), window(2 * c, 2 * c, 2)
  self.down1, self.down2 = Residual(c, c, e), Residual(c, 2 * c, e)
  self.down3, self.middle = Residual(2 * c, 2 * c, e), Residual(2 * c, 2 * c, e)
  self.attention = Attention(2 * c)
  self.up3, self.up2 = Residual(4 * c, 2 * c, e), Residual(4 * c, c, e)
  self.up1, self.norm, self.last = Residual(2 * c, c, e), nn.GroupNorm(8, c), window(c, 3)
end
function Net:forward(x, t)
  local half = self.width // 2
  local speeds = ((flame.arange(half) - 1):float() * (-math.log(10000) / half)):exp()
  local angles = t:unsqueeze(-1) * speeds
  local e = self.time2(flame.silu(self.time1(flame.cat({ angles:sin(), angles:cos() }, -1))))
  local x1 = self.down1(self.first(x), e)
  local x2 = self.down2(self.less1(x1), e)
  local x3 = self.down3(self.less2(x2), e)
  local y = self.up3(flame.cat({ self.middle(self.attention(x3), e), x3 }, 2), e)
  y = flame.interpolate(y, { scale_factor = 2, mode = "nearest" })
  y = self.up2(flame.cat({ y, x2 }, 2), e)
  y = flame.interpolate(y, { scale_factor = 2, mode = "nearest" })
  y = self.up1(flame.cat({ y, x1 }, 2), e)
  return self.last(flame.silu(self.norm(y)))
end

return function(o, peer)
  local net, n, s = peer.net(Net(o.width)), o.batch, o.size
  local opt = optim.AdamW(net:parameters(), { lr = 1e-4 })
  local x = peer.give("x", flame.randn(n, 3, s, s))
  local t = peer.give("t", flame.randint({ n }, 1, 1000):float())
  return peer.train(net, opt, function()
    local noise = peer.draw(function() return flame.randn(n, 3, s, s) end)
    return flame.mse_loss(net(x * 0.7 + noise * 0.7, t):float(), noise)
  end, { bf16 = o.dtype == "bf16" })
end
