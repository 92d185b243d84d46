--- Measures a step of training GPT-2 124M: sequences of 1024 tokens, bf16 autocast, AdamW, clipping
--- of the gradient's norm, and a read of the loss, on the default device (with "turns" or several
--- ranks on a GPU if there is one). Run from the root of the repository:
---   flame-lua bench/gpt2.lua [VOCABULARY [BATCH [STEPS ["profile" | "small" | "turns"
---     [BUCKET ["wide" | "shard"]]]]]]
--- small: 2 layers of 32 and 16 tokens, for a test. Under torchrun, mpirun or srun each rank has a
--- batch of this size and a GPU. BUCKET: bytes of gradients that are sent together; wide: they are
--- sent as f32; shard: each rank has the optimiser's state for a part of each parameter. turns
--- (bench/scaling.py): for each line "BATCH STEPS" of the standard input the steps are measured,
--- and the milliseconds of a step printed.
local flame = require "flame"
local nn, optim = require "flame.nn", require "flame.optim"
local distributed = require "flame.distributed"
local rank, ranks = distributed.init()
local V, batch, steps = tonumber(arg[1] or 50304), tonumber(arg[2] or 16), tonumber(arg[3] or 40)
local small, turns = arg[4] == "small", arg[4] == "turns"
if ranks > 1 or turns then flame.default_device(flame.best_device()) end
local T = small and 16 or 1024
local net = dofile "bench/gpt.lua" { vocabulary = V, width = small and 32 or 768,
  heads = small and 2 or 12, layers = small and 2 or 12, context = T, tied = true, gelu = "tanh" }
for _, p in ipairs(net:parameters()) do if p.ndim == 2 then nn.init.normal(p, 0, 0.02) end end
flame.eval(table.unpack(net:parameters()))      -- now: later it would add to the peak of memory
net = distributed.data_parallel(net, { bucket = math.tointeger(tonumber(arg[5] or 25e6)),
  half = arg[6] ~= "wide", shard = arg[6] == "shard" })
local opt = optim.AdamW(net:parameters(), { lr = 1e-4 })

local function stepper(B)
  flame.seed(rank)
  local ids = flame.randint({ B, T + 1 }, 1, V)
  return function()
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
end

--- The mean seconds of 'count' steps, after 'warm' steps that are not measured.
local function measure(step, count, warm)
  for _ = 1, warm do step():item() end
  flame.synchronize()
  if ranks > 1 then distributed.barrier() end
  local clock = flame.timer()
  for _ = 1, count do step():item() end
  flame.synchronize()
  return clock() / count
end

if turns then
  for line in io.lines() do
    local B, count = line:match("^(%d+) (%d+)$")
    local each = measure(stepper(math.tointeger(tonumber(B))), tonumber(count), 5)
    print(("%.3f"):format(each * 1e3))
    io.stdout:flush()
    collectgarbage()
    flame.empty_cache()
  end
  os.exit(0, true)
end

local step = stepper(batch)
local before = distributed.stats()
local each = measure(step, steps, 3)
if rank == 1 then
  print(("vocabulary %d, batch %d: %.2f ms a step, %.1f K tokens/s, %d launches, at most %.2f GB"):format(
    V, batch, each * 1e3, ranks * batch * T / each / 1e3, flame.stats().launches // (steps + 3),
    flame.memory().peak / 1e9))
end
if rank == 1 and ranks > 1 then
  local s, count = distributed.stats(), steps + 3
  print(("%d ranks, %s; a step: collectives %.2f ms, of these %.2f beside other work; host in them "
    .. "%.2f ms"):format(ranks, s.over or "arrays of the host", (s.gpu - before.gpu) / count * 1e3,
    (s.overlapped - before.overlapped) / count * 1e3, (s.seconds - before.seconds) / count * 1e3))
end
if arg[4] == "profile" then
  local profile = flame.profile(function() step():item() end)
  if rank == 1 then print(profile) end
end
