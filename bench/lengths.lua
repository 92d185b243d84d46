--- Measures training steps of many lengths: a transformer in bf16 with 50 lengths of sequences from
--- 64 to 512, in random order, after 60 steps in which each length occurs; on the best device. Run
--- from the root of the repository:
---   flame-lua bench/lengths.lua [small]
--- small: small sizes, for a test.
local flame = require "flame"
local optim = require "flame.optim"
local small = arg[1] == "small"
flame.default_device(flame.best_device())
flame.seed(1)

local width, layers, batch = small and 16 or 384, small and 1 or 6, small and 1 or 16
local net = dofile "bench/gpt.lua" { vocabulary = 256, width = width, heads = small and 2 or 6,
  layers = layers, context = 512 }
local opt, lengths, times = optim.AdamW(net:parameters(), { lr = 1e-3 }), {}, {}
math.randomseed(7)
for i = 1, small and 2 or 50 do lengths[i] = small and 3 + i or math.random(64, 512) end
local function step(T)
  local ids = flame.randint({ batch, T + 1 }, 1, 256)
  opt:zero_grad()
  local loss = flame.autocast("bf16", function()
    return flame.cross_entropy(net(ids:narrow(2, 1, T)):reshape(-1, 256),
      ids:narrow(2, 2, T):reshape(-1))
  end)
  loss:backward()
  optim.clip_grad_norm(net:parameters(), 1)
  opt:step()
  return loss:item()
end
for i = 1, small and 2 or 60 do step(lengths[(i - 1) % #lengths + 1]) end
local before, n = flame.stats(), small and 4 or 300
for i = 1, n do
  local T, clock = lengths[math.random(#lengths)], flame.timer()
  step(T)
  times[i] = clock() * 1e3
end
table.sort(times)
local s = flame.stats()
print(("lengths: p50 %.2f ms, p99 %.2f; %d plans and %d kernels made, %d of %d steps replayed")
  :format(times[n // 2], times[(n * 99 + 99) // 100], s.plans - before.plans,
    s.compiles - before.compiles, s.replays - before.replays, n))
