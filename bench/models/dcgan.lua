--- A step of training DCGAN: first the net that tells images apart, then the one that makes them.
local flame = require "flame"
local nn, optim = require "flame.nn", require "flame.optim"
local NOISE <const> = 100

local function maker(c)
  local net, before = nn.Sequential {}, NOISE
  for i, width in ipairs { 8 * c, 4 * c, 2 * c, c } do
    local o = { stride = i > 1 and 2 or 1, padding = i > 1 and 1 or 0, bias = false }
    net:append(nn.ConvTranspose2d(before, width, 4, o))
    net:append(nn.BatchNorm2d(width)) net:append(nn.ReLU())
    before = width
  end
  net:append(nn.ConvTranspose2d(c, 3, 4, { stride = 2, padding = 1, bias = false }))
  net:append(nn.Tanh())
  return net
end

local function judge(c)
  local net, before = nn.Sequential {}, 3
  for i, width in ipairs { c, 2 * c, 4 * c, 8 * c } do
    net:append(nn.Conv2d(before, width, 4, { stride = 2, padding = 1, bias = false }))
    if i > 1 then net:append(nn.BatchNorm2d(width)) end
    net:append(nn.LeakyReLU(0.2))
    before = width
  end
  net:append(nn.Conv2d(before, 1, 4, { bias = false }))
  return net
end

return function(o, peer)
  local make, tell = peer.net(maker(o.width), "make"), peer.net(judge(o.width), "tell")
  local options = { lr = 2e-4, betas = { 0.5, 0.999 } }
  local makes = optim.Adam(make:parameters(), options)
  local tells = optim.Adam(tell:parameters(), options)
  local real = peer.give("real", flame.randn(o.batch, 3, 64, 64):tanh())
  local function loss_of(x, target)
    return flame.binary_cross_entropy_with_logits(x, flame.full(x.shape, target))
  end
  local function step()
    tells:zero_grad()
    local fake = make(peer.draw(function() return flame.randn(o.batch, NOISE, 1, 1) end))
    local loss = loss_of(tell(real), 1) + loss_of(tell(fake:detach()), 0)
    loss:backward()
    tells:step()
    makes:zero_grad()
    loss = loss_of(tell(fake), 1)
    loss:backward()
    makes:step()
    return loss
  end
  return peer.trained { step = step, nets = { make = make, tell = tell } }
end
