--- The transformer that benchmarks train. dofile "bench/gpt.lua" gives its class, to be called with
-- {vocabulary =, width =, heads =, layers =, context =, dropout = 0, tied = false, gelu = "none"}.
-- tied: the last layer's weight is that of the embedding; gelu: "none" (exact) or "tanh".
local flame = require "flame"
local nn = require "flame.nn"

local Block = nn.Module.extend("Block")
function Block:init(o)
  self.norm1, self.norm2 = nn.LayerNorm(o.width), nn.LayerNorm(o.width)
  self.attention = nn.CausalSelfAttention(o.width, o.heads, { dropout = o.dropout or 0 })
  self.up, self.down = nn.Linear(o.width, 4 * o.width), nn.Linear(4 * o.width, o.width)
  self.drop, self.form = nn.Dropout(o.dropout or 0), o.gelu or "none"
end
function Block:forward(x)
  x = x + self.drop(self.attention(self.norm1(x)))
  return x + self.drop(self.down(self.up(self.norm2(x)):gelu(self.form)))
end

local GPT = nn.Module.extend("GPT")
function GPT:init(o)
  self.token = nn.Embedding(o.vocabulary, o.width)
  self.position = nn.Embedding(o.context, o.width)
  self.blocks = nn.ModuleList {}
  for _ = 1, o.layers do self.blocks:append(Block(o)) end
  self.norm = nn.LayerNorm(o.width)
  if not o.tied then self.head = nn.Linear(o.width, o.vocabulary, { bias = false }) end
end
function GPT:forward(x)
  local h = self.token(x) + self.position(flame.arange(x:size(2)))
  for _, block in ipairs(self.blocks) do h = block(h) end
  return flame.linear(self.norm(h), (self.head or self.token).weight)
end

return GPT
