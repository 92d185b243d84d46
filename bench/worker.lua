-- Benchmarks on a GPU: reads lines "name reps" and answers each with the seconds per repetition.
-- bench/gpu_peer.py runs these and PyTorch's in turns. Without it:
--   echo "softmax_f32 10" | flame-lua bench/worker.lua cuda
local flame = require "flame"
local nn, optim = require "flame.nn", require "flame.optim"
local device = arg[1] or flame.best_device()
local small = arg[2] == "small"                -- small sizes, for a test
flame.default_device(device)
flame.seed(1)
local M = small and 1 << 16 or 1 << 26
local R, C = small and 64 or 16384, small and 512 or 8192

local cases = {}
local function case(name, make) cases[name] = make end
local function tensor(dtype, ...) return flame.randn(...):to(dtype) end

case("map_f32", function()
  local x = tensor("f32", M)
  return function() flame.eval((x * 2 + 1):relu()) end
end)
case("chain8_f32", function()
  local x, y = tensor("f32", M), tensor("f32", M)
  return function() flame.eval((((x * y + 1):relu() - y) * 0.5 + x):tanh() * y) end
end)
for _, dtype in ipairs { "f32", "bf16" } do
  case("softmax_" .. dtype, function()
    local x = tensor(dtype, R, C)
    return function() flame.eval(x:softmax(2)) end
  end)
  case("layer_norm_" .. dtype, function()
    local x, w, b = tensor(dtype, R, C), tensor(dtype, C), tensor(dtype, C)
    return function() flame.eval(x:layer_norm({ C }, w, b)) end
  end)
  case("layer_norm_backward_" .. dtype, function()
    local x, w, b = tensor(dtype, R, C), tensor(dtype, C), tensor(dtype, C)
    local g = tensor(dtype, R, C)
    for _, t in ipairs { x, w, b } do t:requires_grad_(true) end
    return function()
      local y = x:layer_norm({ C }, w, b)
      local d = y:gradients({ x, w, b }, { seed = g })
      flame.eval(y, d[x], d[w], d[b])
    end
  end)
  case("sum_rows_" .. dtype, function()
    local x = tensor(dtype, R, C)
    return function() flame.eval(x:sum(2)) end
  end)
  case("sum_columns_" .. dtype, function()
    local x = tensor(dtype, R, C)
    return function() flame.eval(x:sum(1)) end
  end)
  case("sum_all_" .. dtype, function()
    local x = tensor(dtype, R, C)
    return function() flame.eval(x:sum()) end
  end)
  case("cross_entropy_" .. dtype, function()
    local x = tensor(dtype, R, C):requires_grad_(true)
    local t = flame.randint({ R }, 1, C)
    return function()
      local loss = flame.cross_entropy(x, t)
      local d = loss:gradients { x }
      flame.eval(loss, d[x])
    end
  end)
end
case("matmul_f32", function()
  local n = small and 128 or 4096
  local a, b = tensor("f32", n, n), tensor("f32", n, n)
  return function() flame.eval(a:matmul(b)) end
end)
case("matmul_bf16", function()
  local n = small and 128 or 8192
  local a, b = tensor("bf16", n, n), tensor("bf16", n, n)
  return function() flame.eval(a:matmul(b)) end
end)
case("adamw", function()
  local params = {}
  for i = 1, 60 do
    params[i] = nn.Parameter(tensor("f32", small and 64 or 1024, small and 64 or 1024))
    params[i].grad = tensor("f32", small and 64 or 1024, small and 64 or 1024)
  end
  local opt = optim.AdamW(params, { lr = 1e-3 })
  return function() opt:step() end
end)
case("mlp_step", function()
  local net = nn.Sequential { nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU(),
    nn.Linear(128, 10) }
  local opt = optim.Adam(net:parameters(), { lr = 1e-3 })
  local x, t = flame.randn(64, 784), flame.randint({ 64 }, 1, 10)
  return function()
    local loss = flame.cross_entropy(net(x), t)
    opt:zero_grad()
    loss:backward()
    opt:step()
  end
end)

local GPT = dofile "bench/gpt.lua"
for _, dtype in ipairs { "f32", "bf16" } do     -- the model of examples/chargpt.lua --size large
  case("gpt_step_" .. dtype, function()
    local net = GPT { vocabulary = 65, width = small and 32 or 384, heads = small and 2 or 6,
      layers = small and 1 or 6, context = 256, dropout = 0.2 }
    local opt = optim.AdamW(net:parameters(), { lr = 1e-3 })
    local n = small and 2 or 64
    local x, t = flame.randint({ n, 256 }, 1, 65), flame.randint({ n, 256 }, 1, 65)
    local function loss_of() return flame.cross_entropy(net(x):reshape(-1, 65), t:reshape(-1)) end
    return function()
      local loss = dtype == "bf16" and flame.autocast("bf16", loss_of) or loss_of()
      opt:zero_grad()
      loss:backward()
      opt:step()
    end
  end)
end
case("chain_small", function()
  local x = flame.randn(16)
  return function()
    local y = x
    for _ = 1, 500 do y = y * 0.999 + 0.001 end
    flame.eval(y)
  end
end)

local current = {}                            -- { name =, body = }
for line in io.lines() do
  local name, reps = line:match("^(%S+)%s+(%d+)")
  local make = cases[name]
  if not make then
    local names = {}
    for known in pairs(cases) do names[#names + 1] = known end
    table.sort(names)
    print(("error no benchmark %s: there are %s"):format(name, table.concat(names, " ")))
  else
    if current.name ~= name then
      current.name, current.body = nil, nil   -- makes the tensors of the last case garbage
      collectgarbage() collectgarbage()
      flame.empty_cache()
      current.name, current.body = name, make()
      for _ = 1, 3 do current.body() end
    end
    local body = current.body
    flame.synchronize()
    local clock = flame.timer()
    for _ = 1, tonumber(reps) do body() end
    flame.synchronize()
    print(("%.9f"):format(clock() / tonumber(reps)))
  end
  io.stdout:flush()
end
