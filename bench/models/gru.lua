--- A step of training an encoder of texts: a GRU of two layers in both directions.
local flame = require "flame"
local nn, optim = require "flame.nn", require "flame.optim"

return function(o, peer)
  local w = o.width
  local net = nn.ModuleList { nn.Embedding(o.vocabulary, w),
    nn.GRU(w, w, { num_layers = 2, bidirectional = true, batch_first = true }),
    nn.Linear(2 * w, 10) }
  local words, rnn, head = net[1], net[2], net[3]
  peer.net(net)
  local x = peer.give("x", flame.randint({ o.batch, o.length }, 1, o.vocabulary))
  local t = peer.give("t", flame.randint({ o.batch }, 1, 10))
  local opt = optim.Adam(net:parameters(), { lr = 1e-3 })
  return peer.train(net, opt, function()
    local y = rnn(words(x))
    return flame.cross_entropy(head(y:mean(2)), t)
  end)
end
