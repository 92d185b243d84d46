--- A step of training Llama written out: rotary positions, root-mean-square norms, gated units,
--- fewer heads of keys than of queries.
local flame = require "flame"
local nn, optim = require "flame.nn", require "flame.optim"

local Norm = nn.Module.extend("Norm")
function Norm:init(n) self.weight = nn.Parameter(flame.ones(n)) end
function Norm:forward(x)
  local f = x:float()
  return (f * (f:square():mean(-1, true) + 1e-6):rsqrt()):to(x.dtype) * self.weight
end

local function linear(a, b) return nn.Linear(a, b, { bias = false }) end

local function rotate(x, cos, sin)
  local half = x:size(-1) // 2
  local a, b = x:narrow(-1, 1, half), x:narrow(-1, half + 1, half)
  return x * cos + flame.cat({ -b, a }, -1) * sin
end

local Block = nn.Module.extend("Block")
function Block:init(o)
  local w, size = o.width, o.width // o.heads
  self.heads, self.kv, self.size = o.heads, o.kv, size
  self.norm1, self.norm2 = Norm(w), Norm(w)
  self.q, self.k, self.v = linear(w, w), linear(w, o.kv * size), linear(w, o.kv * size)
  self.out = linear(w, w)
  self.gate, self.up, self.down = linear(w, o.ff), linear(w, o.ff), linear(o.ff, w)
end
function Block:forward(x, cos, sin)
  local n, length, width = table.unpack(x.shape)
  local h = self.norm1(x)
  local function heads(y, count) return y:view(n, length, count, self.size):transpose(2, 3) end
  local q, k, v = heads(self.q(h), self.heads), heads(self.k(h), self.kv), heads(self.v(h), self.kv)
  q, k = rotate(q, cos, sin), rotate(k, cos, sin)
  local y = flame.scaled_dot_product_attention(q, k, v, { is_causal = true, enable_gqa = true })
  x = x + self.out(y:transpose(2, 3):reshape(n, length, width))
  h = self.norm2(x)
  return x + self.down(flame.silu(self.gate(h)) * self.up(h))
end

local Llama = nn.Module.extend("Llama")
function Llama:init(o)
  self.token = nn.Embedding(o.vocabulary, o.width)
  self.blocks = nn.ModuleList {}
  for _ = 1, o.layers do self.blocks:append(Block(o)) end
  self.norm, self.head = Norm(o.width), linear(o.width, o.vocabulary)
  local size = o.width // o.heads
  local speeds = (flame.arange(0, size - 1, 2):float() * (-math.log(10000) / size)):exp()
  local angles = (flame.arange(o.length) - 1):float():unsqueeze(-1) * speeds
  angles = flame.cat({ angles, angles }, -1)
  self.cos, self.sin = angles:cos():to("bf16"), angles:sin():to("bf16")
end
function Llama:forward(ids)
  local x = self.token(ids)
  for _, block in ipairs(self.blocks) do x = block(x, self.cos, self.sin) end
  return self.head(self.norm(x))
end

return function(o, peer)
  local net = peer.net(Llama(o))
  local opt = optim.AdamW(net:parameters(), { lr = 1e-4 })
  local ids = peer.give("ids", flame.randint({ o.batch, o.length + 1 }, 1, o.vocabulary))
  return peer.train(net, opt, function()
    return flame.cross_entropy(net(ids:narrow(2, 1, o.length)):reshape(-1, o.vocabulary),
      ids:narrow(2, 2, o.length):reshape(-1))
  end, { bf16 = o.dtype == "bf16", clip = 1.0 })
end
