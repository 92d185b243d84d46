--- A step of training three layers of message passing: each node gets the mean of its neighbours.
local flame = require "flame"
local nn, optim = require "flame.nn", require "flame.optim"
local CLASSES <const> = 10

return function(o, peer)
  local n, edges, f = o.nodes, o.edges, o.features
  local from = peer.give("from", flame.randint({ edges }, 1, n))
  local to = peer.give("to", flame.randint({ edges }, 1, n))
  local x = peer.give("x", flame.randn(n, f))
  local t = peer.give("t", flame.randint({ n }, 1, CLASSES))
  local net = nn.ModuleList {}
  for i = 1, 3 do net:append(nn.Linear(2 * f, i == 3 and CLASSES or f)) end
  peer.net(net)
  local degree = flame.zeros(n):index_add(1, to, flame.ones(edges)):clamp(1):unsqueeze(-1)
  local opt = optim.Adam(net:parameters(), { lr = 1e-3 })
  return peer.train(net, opt, function()
    local h = x
    for i, layer in ipairs(net) do
      local sum = flame.zeros(n, h:size(2)):index_add(1, to, h:index_select(1, from))
      h = layer(flame.cat({ h, sum / degree }, -1))
      if i < 3 then h = flame.relu(h) end
    end
    return flame.cross_entropy(h, t)
  end)
end
