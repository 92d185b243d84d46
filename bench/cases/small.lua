--- Programs of small ops, whose overhead costs more than their arithmetic: an agent that learns, a
--- network that solves an equation (PINN), differential equations. bench/cases/small.py has the
--- same in PyTorch.
local flame = require "flame"
local nn, optim = require "flame.nn", require "flame.optim"
local cases = {}

--- A step of PPO (proximal policy optimisation) from o.batch moves, with Adam.
function cases.ppo(o, peer)
  local nets = nn.ModuleList { peer.mlp { 4, 64, 64, 2 }, peer.mlp { 4, 64, 64, 1 } }
  local actor, critic, n = nets[1], nets[2], o.batch
  peer.net(nets)
  local opt = optim.Adam(nets:parameters(), { lr = 1e-3 })
  local seen, gain = peer.give("seen", flame.randn(n, 4)), peer.give("gain", flame.randn(n))
  local value = peer.give("value", flame.randn(n))
  local before = peer.give("before", flame.randn(n) * 0.1 - 0.7)
  local moves = peer.give("moves", flame.randint({ n, 1 }, 1, 2))
  return peer.train(nets, opt, function()
    local logs = actor(seen):log_softmax(2)
    local ratio = (logs:gather(2, moves):squeeze(2) - before):exp()
    local kept = flame.minimum(ratio * gain, ratio:clamp(0.8, 1.2) * gain):mean()
    return 0.5 * flame.mse_loss(critic(seen):squeeze(2), value) - kept
      + 0.01 * (logs:exp() * logs):sum(2):mean()
  end, { clip = 0.5 })
end

--- A network learns Burgers' equation (PINN) at o.points points, by gradients of gradients.
function cases.pinn(o, peer)
  local net = peer.net(peer.mlp { 2, 20, 20, 20, 20, 1 })
  local opt = optim.Adam(net:parameters(), { lr = 1e-3 })
  local x = peer.give("x", flame.rand(o.points, 1) * 2 - 1):requires_grad_(true)
  local t = peer.give("t", flame.rand(o.points, 1)):requires_grad_(true)
  return peer.train(net, opt, function()
    local u = net(flame.cat({ x, t }, 2))
    local first = u:sum():gradients({ x, t }, { create_graph = true })
    local second = first[x]:sum():gradients({ x }, { create_graph = true })[x]
    return (first[t] + u * first[x] - 0.01 / math.pi * second):square():mean()
  end)
end

--- The state after 'count' steps of length dt of the fourth-order method of Runge and Kutta.
local function solve(law, x, count, dt)
  for _ = 1, count do
    local a = law(x)
    local b = law(x + a * (dt / 2))
    local c = law(x + b * (dt / 2))
    local d = law(x + c * dt)
    x = x + (a + 2 * b + 2 * c + d) * (dt / 6)
  end
  return x
end

--- A differential equation with a network as its law, from 64 initial values.
function cases.ode_solve(o, peer)
  local net, x = peer.net(peer.mlp { 2, 50, 2 }), peer.give("x", flame.randn(64, 2))
  return peer.call(function()
    return flame.no_grad(function() return solve(net, x, o.steps, 0.05) end)
  end)
end

--- One training step of such a law.
function cases.ode_step(o, peer)
  local net, x = peer.net(peer.mlp { 2, 50, 2 }), peer.give("x", flame.randn(64, 2))
  local y = peer.give("y", flame.randn(64, 2))
  local opt = optim.Adam(net:parameters(), { lr = 1e-3 })
  return peer.train(net, opt, function() return flame.mse_loss(solve(net, x, o.steps, 0.05), y) end)
end

return cases
