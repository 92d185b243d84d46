--- Measures training steps that make many small launches, on the best device. Run from the root of
--- the repository:
---   flame-lua bench/steps.lua [mlp | lstm | lengths | small]...
--- mlp: layers 784-256-128-10, batch 64, Adam. lstm: two layers of 256, sequences of 100, batch 32.
--- lengths: a transformer in bf16 with 50 lengths of sequences from 64 to 512, in random order,
--- measured after 60 steps in which each length occurs. small: small sizes, for a test.
local flame = require "flame"
local nn, optim = require "flame.nn", require "flame.optim"
local cases, names, small = {}, {}, false
for _, word in ipairs(arg) do
  if word == "small" then small = true else names[#names + 1] = word end
end
if #names == 0 then names = { "mlp", "lstm", "lengths" } end
flame.default_device(flame.best_device())
flame.seed(1)

--- Measures 'count' steps five times; prints a step's microseconds, launches, ops and replays.
local function report(name, step, count)
  for _ = 1, small and 1 or 20 do step() end
  local times, before = {}, nil
  for round = 1, 5 do
    flame.synchronize()
    before = flame.stats()
    local clock = flame.timer()
    for _ = 1, count do step() end
    flame.synchronize()
    times[round] = clock() / count * 1e6
  end
  table.sort(times)
  local s = flame.stats()
  print(("%s: %.1f us a step (%.1f to %.1f); %d launches, %d ops recorded, replayed %.2f"):format(
    name, times[3], times[1], times[5], (s.launches - before.launches) // count,
    (s.recorded - before.recorded) // count, (s.replays - before.replays) / count))
end

function cases.mlp()
  local net = nn.Sequential { nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU(),
    nn.Linear(128, 10) }
  local opt = optim.Adam(net:parameters(), { lr = 1e-3 })
  local x, t = flame.randn(64, 784), flame.randint({ 64 }, 1, 10)
  report("mlp", function()
    local loss = flame.cross_entropy(net(x), t)
    opt:zero_grad()
    loss:backward()
    opt:step()
  end, small and 1 or 1000)
end

function cases.lstm()
  local width, T, batch = small and 8 or 256, small and 3 or 100, small and 2 or 32
  local net = nn.LSTM(width, width, 2)
  local opt = optim.SGD(net:parameters(), { lr = 1e-3 })
  local x = flame.randn(T, batch, width)
  report("lstm", function()
    opt:zero_grad()
    net(x):square():mean():backward()
    opt:step()
  end, small and 1 or 20)
end

function cases.lengths()
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
end

for _, name in ipairs(names) do
  if not cases[name] then error(("no case %s: there are lengths, lstm and mlp"):format(name), 0) end
  cases[name]()
end
