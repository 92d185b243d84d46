--- A step of training four layers of linear attention whose memory decays, computed in chunks:
--- exact within a chunk, by a state between chunks.
local flame = require "flame"
local nn, optim = require "flame.nn", require "flame.optim"
local SIZE <const> = 64

local Layer = nn.Module.extend("Layer")
function Layer:init(o)
  local w = o.heads * SIZE
  self.heads, self.chunk = o.heads, o.chunk
  self.qkv, self.decay, self.out = nn.Linear(w, 3 * w), nn.Linear(w, o.heads), nn.Linear(w, w)
  self.norm = nn.RMSNorm(w, { eps = 1e-6 })
end

--- What comes from the chunks before: the state that each begins with, times its queries.
local function from_before(q, kv, g)
  local state, states = flame.zeros(kv:size(1), kv:size(2), SIZE, SIZE), {}
  local last = g:narrow(-1, g:size(-1), 1)
  for i = 1, kv:size(3) do
    states[i] = state
    state = state * last:select(3, i):unsqueeze(-1):exp() + kv:select(3, i)
  end
  return (q * g:exp():unsqueeze(-1):to(q.dtype)):matmul(flame.stack(states, 3):to(q.dtype))
end

function Layer:forward(x)
  local n, length, w = table.unpack(x.shape)
  local heads, chunk = self.heads, self.chunk
  local y, count = self.norm(x), length // chunk
  local p = self.qkv(y):reshape(n, count, chunk, 3, heads, SIZE):permute(4, 1, 5, 2, 3, 6)
  local q, k, v = p:select(1, 1), p:select(1, 2), p:select(1, 3)   -- n, heads, count, chunk, SIZE
  local g = flame.logsigmoid(self.decay(y):float()):reshape(n, count, chunk, heads)
    :permute(1, 4, 2, 3):cumsum(-1)
  local later = flame.ones(chunk, chunk):triu(1):ne(0)
  local decay = (g:unsqueeze(-1) - g:unsqueeze(-2)):masked_fill(later, -math.huge):exp()
  local within = (q:matmul(k:transpose(-1, -2)) * decay:to(q.dtype)):matmul(v)
  local left = (g:narrow(-1, chunk, 1) - g):exp():unsqueeze(-1):to(k.dtype)
  local kv = (k * left):transpose(-1, -2):matmul(v)
  local r = within + from_before(q, kv, g)
  return x + self.out(r:permute(1, 3, 4, 2, 5):reshape(n, length, w))
end

return function(o, peer)
  local net, w = peer.net(nn.Sequential(Layer(o), Layer(o), Layer(o), Layer(o))), o.heads * SIZE
  local x = peer.give("x", flame.randn(o.batch, o.length, w))
  local t = peer.give("t", flame.randn(o.batch, o.length, w))
  local opt = optim.AdamW(net:parameters(), { lr = 1e-4 })
  return peer.train(net, opt, function() return flame.mse_loss(net(x):float(), t) end,
    { bf16 = o.dtype == "bf16" })
end
