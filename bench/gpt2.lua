--- One training step of GPT-2 124M, T = 1024, bf16 autocast, AdamW, norm clipping, the loss read
-- each step, on the default device; from the root of the repository:
--   flame-lua bench/gpt2.lua [VOCABULARY [BATCH [STEPS ["profile" | "small"]]]]
-- small: 2 layers of 32 and T = 16, for a specification.
local flame = require "flame"
local nn, optim = require "flame.nn", require "flame.optim"
local V, B, steps = tonumber(arg[1] or 50304), tonumber(arg[2] or 16), tonumber(arg[3] or 40)
local small = arg[4] == "small"
local T = small and 16 or 1024
local net = dofile "bench/gpt.lua" { vocabulary = V, width = small and 32 or 768,
  heads = small and 2 or 12, layers = small and 2 or 12, context = T, tied = true, gelu = "tanh" }
for _, p in ipairs(net:parameters()) do if p.ndim == 2 then nn.init.normal(p, 0, 0.02) end end
local opt = optim.AdamW(net:parameters(), { lr = 1e-4 })
local ids = flame.randint({ B, T + 1 }, 1, V)
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
