--- Runs a loop and prints its use of memory, for memory_spec.lua. arg: the kind of loop, the mode
--- of the collector, the number of steps, and after how many of them the collector has settled.
--- Prints two lines, one at that step and one at the end: the peaks of the bytes of tensors, of
--- resident memory and of Lua's heap (both in KB), and the bytes of tensors left without garbage.
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

--- A recurrent net: its hidden state stays alive from one read, and from one step, to the next.
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

--- Inference under no_grad: tensors, closures and tables live briefly. reads: values read per step.
local function inference(reads)
  local net = nn.Sequential { nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 3) }
  local seen = {}
  return function()
    local out = flame.no_grad(function() return net(flame.tensor { { 1, 2, 3, 4 } }) end)
    local best = out:argmax(2):item()
    if reads > 1 then best = best + out:sum():item() end
    seen[#seen % 100 + 1] = { best = best }
  end
end

local heap, resident = 0, 0
local function look()
  local f <close> = assert(io.open("/proc/self/statm"))
  f:read("n")
  resident = math.max(resident, f:read("n") * 4)
  heap = math.max(heap, collectgarbage("count"))
end

collectgarbage(arg[2])
flame.seed(1)
local kinds = { rnn = rnn, inference = function() return inference(1) end,
  metric = function() return inference(2) end }
local step = kinds[arg[1]] and kinds[arg[1]]() or mlp(tonumber(arg[1]))
local steps, settled = tonumber(arg[3]), tonumber(arg[4])
local function run(from, to)
  for k = from, to do
    step()
    if k % 10 == 0 then look() end
  end
  local peak = flame.memory().peak
  flame.eval()
  collectgarbage()
  collectgarbage()
  print(peak, resident, heap, flame.memory().allocated)
end
run(1, settled)
run(settled + 1, steps)
