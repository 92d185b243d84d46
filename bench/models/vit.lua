--- A step of training a vision transformer, with dropout everywhere, also of attention's weights.
local flame = require "flame"
local nn, optim = require "flame.nn", require "flame.optim"
local DROPOUT <const> = 0.1
local PATCH <const> = 16

local Block = nn.Module.extend("Block")
function Block:init(w, heads)
  self.norm1, self.norm2, self.heads = nn.LayerNorm(w), nn.LayerNorm(w), heads
  self.qkv, self.out = nn.Linear(w, 3 * w), nn.Linear(w, w)
  self.up, self.down, self.drop = nn.Linear(w, 4 * w), nn.Linear(4 * w, w), nn.Dropout(DROPOUT)
end
function Block:forward(x)
  local n, length, w = table.unpack(x.shape)
  local p = self.qkv(self.norm1(x)):reshape(n, length, 3, self.heads, w // self.heads)
    :permute(3, 1, 4, 2, 5)
  local y = flame.scaled_dot_product_attention(p:select(1, 1), p:select(1, 2), p:select(1, 3),
    { dropout_p = self.training and DROPOUT or 0 })
  x = x + self.drop(self.out(y:transpose(2, 3):reshape(n, length, w)))
  return x + self.drop(self.down(self.drop(flame.gelu(self.up(self.norm2(x))))))
end

local Vision = nn.Module.extend("Vision")
function Vision:init(o)
  local w, patches = o.width, (o.size // PATCH) ^ 2 // 1 | 0
  self.patch = nn.Conv2d(3, w, PATCH, { stride = PATCH })
  self.first = nn.Parameter(flame.zeros(1, 1, w))
  self.position = nn.Parameter(flame.randn(1, patches + 1, w) * 0.02)
  self.blocks = nn.ModuleList {}
  for _ = 1, o.layers do self.blocks:append(Block(w, o.heads)) end
  self.norm, self.head = nn.LayerNorm(w), nn.Linear(w, 1000)
end
function Vision:forward(x)
  local y = self.patch(x):flatten(3):transpose(2, 3)
  y = flame.cat({ self.first:expand(x:size(1), 1, -1):to(y.dtype), y }, 2) + self.position
  for _, block in ipairs(self.blocks) do y = block(y) end
  return self.head(self.norm(y):select(2, 1))
end

return function(o, peer)
  local net = peer.net(Vision(o))
  local opt = optim.AdamW(net:parameters(), { lr = 1e-4 })
  local x = peer.give("x", flame.randn(o.batch, 3, o.size, o.size))
  local t = peer.give("t", flame.randint({ o.batch }, 1, 1000))
  return peer.train(net, opt,
    function() return flame.cross_entropy(net(x), t, { label_smoothing = 0.1 }) end,
    { bf16 = o.dtype == "bf16", clip = 1.0, quiet = true })
end
