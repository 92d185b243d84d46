--- A step of soft actor-critic: two critics towards a target, the actor, slow copies of critics.
local flame = require "flame"
local nn, optim = require "flame.nn", require "flame.optim"
local SEEN <const>, MOVES <const> = 17, 6

return function(o, peer)
  local n, nets = o.batch, {}
  for name, sizes in pairs { actor = { SEEN, 2 * MOVES }, q1 = { SEEN + MOVES, 1 },
    q2 = { SEEN + MOVES, 1 }, slow1 = { SEEN + MOVES, 1 }, slow2 = { SEEN + MOVES, 1 } } do
    nets[name] = peer.net(peer.mlp({ sizes[1], 256, 256, sizes[2] }, nn.ReLU), name)
  end
  local critics = nn.ModuleList { nets.q1, nets.q2 }
  local acts = optim.Adam(nets.actor:parameters(), { lr = 3e-4 })
  local judges = optim.Adam(critics:parameters(), { lr = 3e-4 })
  local seen, move = peer.give("seen", flame.randn(n, SEEN)),
    peer.give("move", flame.randn(n, MOVES):tanh())
  local gain, after = peer.give("gain", flame.randn(n, 1)), peer.give("after", flame.randn(n, SEEN))
  local function act(x)
    local out = nets.actor(x)
    local mean, log_std = out:narrow(2, 1, MOVES), out:narrow(2, MOVES + 1, MOVES):clamp(-5, 2)
    local noise = peer.draw(function() return flame.randn(n, MOVES) end)
    local y = (mean + noise * log_std:exp()):tanh()
    local logs = -0.5 * noise:square() - log_std - 0.5 * math.log(2 * math.pi)
    return y, (logs - (1 - y:square() + 1e-6):log()):sum(2, true)
  end
  local function step()
    local target = flame.no_grad(function()
      local y, log_p = act(after)
      local x = flame.cat({ after, y }, 2)
      return gain + 0.99 * (flame.minimum(nets.slow1(x), nets.slow2(x)) - 0.2 * log_p)
    end)
    local x = flame.cat({ seen, move }, 2)
    local loss = flame.mse_loss(nets.q1(x), target) + flame.mse_loss(nets.q2(x), target)
    judges:zero_grad()
    loss:backward()
    judges:step()
    local y, log_p = act(seen)
    local z = flame.cat({ seen, y }, 2)
    loss = (0.2 * log_p - flame.minimum(nets.q1(z), nets.q2(z))):mean()
    acts:zero_grad()
    loss:backward()
    acts:step()
    flame.no_grad(function()
      for slow, fast in pairs { [nets.slow1] = nets.q1, [nets.slow2] = nets.q2 } do
        local q = fast:parameters()
        for i, p in ipairs(slow:parameters()) do p:lerp_(q[i], 0.005) end
      end
    end)
    return loss
  end
  return peer.trained { step = step, nets = nets }
end
