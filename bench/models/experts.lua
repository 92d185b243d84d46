--- A step of training a mixture of experts: two of eight for each token, with places for a limited
--- number of tokens, found by sorting.
local flame = require "flame"
local nn, optim = require "flame.nn", require "flame.optim"
local EXPERTS <const> = 8

local Mixture = nn.Module.extend("Mixture")
function Mixture:init(width, hidden)
  self.gate = nn.Linear(width, EXPERTS)
  self.up = nn.Parameter(flame.randn(EXPERTS, width, hidden) * width ^ -0.5)
  self.down = nn.Parameter(flame.randn(EXPERTS, hidden, width) * hidden ^ -0.5)
end
function Mixture:forward(x)
  local n, width = x:size(1), x:size(2)
  local p, expert = flame.softmax(self.gate(x):float(), -1):topk(2, -1)
  p = p / p:sum(-1, true)
  local places = n * 2 // EXPERTS + n // EXPERTS
  local flat = expert:reshape(-1)
  local order = flat:argsort({ stable = true })
  local sorted = flat:index_select(1, order)
  local counts = flame.one_hot(flat, EXPERTS):sum(1)
  local start = counts:cumsum(1) - counts
  local at = flame.arange(n * 2) - 1 - start:index_select(1, sorted)
  local slot = (sorted - 1) * places + at:clamp(nil, places - 1) + 1
  local token = (order - 1):floor_divide(2) + 1
  local weight = p:reshape(-1):index_select(1, order) * at:lt(places):float()
  local rows = flame.zeros(EXPERTS * places, width, { dtype = "bf16" })
    :index_copy(1, slot, x:to("bf16"):index_select(1, token)):view(EXPERTS, places, width)
  local y = flame.gelu(rows:matmul(self.up)):matmul(self.down)
    :reshape(EXPERTS * places, width):index_select(1, slot)
  return flame.zeros(n, width):index_add(1, token, y:float() * weight:unsqueeze(-1))
end

return function(o, peer)
  local net = peer.net(Mixture(o.width, o.hidden))
  local x = peer.give("x", flame.randn(o.tokens, o.width))
  local t = peer.give("t", flame.randn(o.tokens, o.width))
  local opt = optim.AdamW(net:parameters(), { lr = 1e-3 })
  return peer.train(net, opt, function() return flame.mse_loss(net(x), t) end, { bf16 = true })
end
