--- One training step of GPT-2 124M, T = 1024, bf16 autocast, AdamW, norm clipping, the loss read
-- each step. flame-lua bench/gpt2.lua [VOCABULARY [BATCH [STEPS ["profile"]]]] on the default
-- device.
local flame = require "flame"
local nn, optim = require "flame.nn", require "flame.optim"
local V, B, T = tonumber(arg[1] or 50304), tonumber(arg[2] or 16), 1024
local steps = tonumber(arg[3] or 40)
local Block = nn.Module.extend("Block")
function Block:init(width, heads)
  self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
  self.attention = nn.CausalSelfAttention(width, heads)
  self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
end
function Block:forward(x)
  x = x + self.attention(self.norm1(x))
  return x + self.down(self.up(self.norm2(x)):gelu("tanh"))
end
local GPT = nn.Module.extend("GPT")
function GPT:init()
  self.token, self.position = nn.Embedding(V, 768), nn.Embedding(T, 768)
  self.blocks = nn.ModuleList {}
  for _ = 1, 12 do self.blocks:append(Block(768, 12)) end
  self.norm = nn.LayerNorm(768)
  for _, p in ipairs(self:parameters()) do if p.ndim == 2 then nn.init.normal(p, 0, 0.02) end end
end
function GPT:forward(x)
  local h = self.token(x) + self.position(flame.arange(x:size(2)))
  for _, block in ipairs(self.blocks) do h = block(h) end
  return flame.linear(self.norm(h), self.token.weight)
end
local net = GPT()
local opt = optim.AdamW(net:parameters(), { lr = 1e-4 })
local ids = flame.randint({ B, T + 1 }, 1, 50256)
local function step()
  opt:zero_grad()
  local loss = flame.autocast("bf16", function()
    return flame.cross_entropy(net(ids:narrow(2, 1, T)):reshape(-1, V),
      ids:narrow(2, 2, T):reshape(-1))
  end)
  loss:backward()
  optim.clip_grad_norm(net:parameters(), 1.0)
  opt:step()
  return loss
end
for _ = 1, 3 do step():item() end
flame.synchronize()
local clock = flame.timer()
for _ = 1, steps do step():item() end
flame.synchronize()
local each = clock() / steps
print(("vocabulary %d, batch %d: %.2f ms a step, %.1f K tokens/s, %d launches"):format(V, B,
  each * 1e3, B * T / each / 1e3, flame.stats().launches // (steps + 3)))
if arg[4] == "profile" then print(flame.profile(function() step():item() end)) end
