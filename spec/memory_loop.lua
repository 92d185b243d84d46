--- A training loop in a process of its own: memory_spec.lua reads what it prints, the peak bytes
-- of tensors after 300 steps, when the collector has settled, and after all of them. arg: kind, collector mode, steps.
local flame = require "flame"
local nn, optim = require "flame.nn", require "flame.optim"

local function mlp(reads)
  local net = nn.Sequential { nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4) }
  local opt = optim.AdamW(net:parameters(), { lr = 1e-3 })
  return function()
    local x, y = flame.randn(16, 8), flame.randint({ 16 }, 1, 4)
    local out = net(x)
    if reads > 1 then out:amax():item() end
    local loss = flame.cross_entropy(out, y)
    opt:zero_grad()
    loss:backward()
    if reads > 2 then net[1].weight.grad:sum():item() end
    opt:step()
    return loss:item()
  end
end

--- States live across reads and across steps.
local function rnn()
  local w, u = (flame.randn(8, 8) * 0.3):clone(), flame.randn(4, 8)
  local h = flame.zeros(3, 8)
  return function()
    local states = {}
    for t = 1, 4 do
      h = (flame.randn(3, 4):matmul(u) + h:matmul(w)):tanh()
      states[t] = h
      if t % 2 == 0 then h:sum():item() end
    end
    return flame.stack(states):mean():item()
  end
end

collectgarbage(arg[2])
flame.seed(1)
local step = arg[1] == "rnn" and rnn() or mlp(tonumber(arg[1]))
for _ = 1, 300 do step() end
local early = flame.memory().peak
for _ = 301, tonumber(arg[3]) do step() end
print(early, flame.memory().peak)
