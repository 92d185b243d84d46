--- A step of training a radiance field: points on rays, their positions as sines, eight layers, and
--- the sum of colours along each ray.
local flame = require "flame"
local nn, optim = require "flame.nn", require "flame.optim"

return function(o, peer)
  local rays, samples, w = o.rays, o.samples, o.width
  local net = nn.Sequential(nn.Linear(63, w), nn.ReLU())
  for _ = 1, 6 do net:append(nn.Linear(w, w)) net:append(nn.ReLU()) end
  net:append(nn.Linear(w, 4))
  peer.net(net)
  local opt = optim.Adam(net:parameters(), { lr = 5e-4 })
  local origin = peer.give("origin", flame.randn(rays, 1, 3))
  local way = peer.give("way", flame.randn(rays, 1, 3))
  local want = peer.give("want", flame.rand(rays, 3))
  local places, far, ones = flame.linspace(2, 6, samples), flame.full({ rays, 1 }, 1e10),
    flame.ones(rays, 1)
  return peer.train(net, opt, function()
    local t = places + peer.draw(function() return flame.rand(rays, samples) end) * (4 / samples)
    local p = origin + way * t:unsqueeze(-1)
    local code = { p }
    for k = 0, 9 do
      code[#code + 1] = (p * 2 ^ k):sin()
      code[#code + 1] = (p * 2 ^ k):cos()
    end
    local out = net(flame.cat(code, -1))
    local density, colour = flame.relu(out:select(-1, 4)), flame.sigmoid(out:narrow(-1, 1, 3))
    local length = t:narrow(2, 2, samples - 1) - t:narrow(2, 1, samples - 1)
    local alpha = 1 - (-density * flame.cat({ length, far }, -1)):exp()
    local left = flame.cat({ ones, (1 - alpha + 1e-10):narrow(2, 1, samples - 1) }, -1):cumprod(-1)
    return flame.mse_loss(((alpha * left):unsqueeze(-1) * colour):sum(2), want)
  end)
end
