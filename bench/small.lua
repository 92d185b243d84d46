--- Measures programs of small ops, whose overhead costs more than their arithmetic: an agent that
--- acts and learns, a network that solves an equation (PINN), differential equations, kernels with
--- loops. bench/small.py has the same cases in PyTorch, and compares.
--
---   flame-lua bench/small.lua [cpu|cuda]            a table of microseconds
---   flame-lua bench/small.lua cpu ask               answers lines of standard input:
---     "NAME REPS" -> "seconds of a repetition", processor time with FLAME_THREADS=1
---     "NAME check" -> the case's results, three times
local flame = require "flame"
local nn, optim = require "flame.nn", require "flame.optim"
local own = os.getenv("FLAME_THREADS") == "1" and arg[1] == "cpu"    -- processor time
local device = arg[1] or flame.best_device()
flame.default_device(device)

--- A tensor of numbers from -1 to 1 that seem random; bench/small.py computes the same ones.
local function fill(shape, seed)
  local count, values = 1, {}
  for _, n in ipairs(shape) do count = count * n end
  for i = 1, count do
    values[i] = ((i * 7919 + seed * 104729 + i * i % 9973 * 31) % 10007) / 5003.5 - 1
  end
  return flame.tensor(values, { dtype = "f32" }):reshape(shape)
end

--- A network with tanh between its layers; weights come from the seed, at most 1 / sqrt(inputs).
local function network(sizes, seed)
  local layers = {}
  for k = 2, #sizes do
    local layer = nn.Linear(sizes[k - 1], sizes[k])
    local bound = sizes[k - 1] ^ -0.5
    flame.no_grad(function()
      layer.weight:copy_(fill({ sizes[k], sizes[k - 1] }, seed + 2 * k) * bound)
      layer.bias:copy_(fill({ sizes[k] }, seed + 2 * k + 1) * bound)
    end)
    if k > 2 then layers[#layers + 1] = nn.Tanh() end
    layers[#layers + 1] = layer
  end
  return nn.Sequential(layers)
end

local function rows_of_host(n)
  local rows = {}
  for i = 1, n do
    rows[i] = {}
    for k = 1, 4 do rows[i][k] = ((i * 37 + k * 11) % 41) / 20.5 - 1 end
  end
  return rows
end

-- Adds a case: make() makes its data and returns the function to measure, which returns a tensor or
-- a list of numbers.
local cases, order = {}, {}
local function case(name, make)
  cases[name] = make
  order[#order + 1] = name
end

-- An agent acts: n observations are Lua tables, and so are the probabilities of its moves.
for _, n in ipairs { 1, 64 } do
  case("act_" .. n, function()
    local net, rows = network({ 4, 64, 64, 2 }, 1), rows_of_host(n)
    return function()
      return flame.no_grad(function() return net(flame.tensor(rows)):softmax(2):totable()[n] end)
    end
  end)
end

-- An agent learns: a step of PPO (proximal policy optimisation) from 256 moves, with Adam.
case("ppo_step", function()
  local actor, critic = network({ 4, 64, 64, 2 }, 1), network({ 4, 64, 64, 1 }, 20)
  local parameters = actor:parameters()
  for _, p in ipairs(critic:parameters()) do parameters[#parameters + 1] = p end
  local opt = optim.Adam(parameters, { lr = 1e-3 })
  local seen, gain = fill({ 256, 4 }, 40), fill({ 256 }, 41)
  local value, before = fill({ 256 }, 42), fill({ 256 }, 43) * 0.1 - 0.7
  local moves = (fill({ 256, 1 }, 44):gt(0)):long() + 1
  return function()
    local logs = actor(seen):log_softmax(2)
    local ratio = (logs:gather(2, moves):squeeze(2) - before):exp()
    local kept = flame.minimum(ratio * gain, ratio:clamp(0.8, 1.2) * gain):mean()
    local loss = 0.5 * flame.mse_loss(critic(seen):squeeze(2), value) - kept
      + 0.01 * (logs:exp() * logs):sum(2):mean()
    opt:zero_grad()
    loss:backward()
    nn.utils.clip_grad_norm_(parameters, 0.5)
    opt:step()
    return loss
  end
end)

-- A network learns Burgers' equation (PINN): a step with 1,000 points, by gradients of gradients.
case("pinn_step", function()
  local net = network({ 2, 20, 20, 20, 20, 1 }, 1)
  local opt = optim.Adam(net:parameters(), { lr = 1e-3 })
  local x = fill({ 1000, 1 }, 50):requires_grad_(true)
  local t = (fill({ 1000, 1 }, 51) * 0.5 + 0.5):requires_grad_(true)
  return function()
    local u = net(flame.cat({ x, t }, 2))
    local first = u:sum():gradients({ x, t }, { create_graph = true })
    local second = first[x]:sum():gradients({ x }, { create_graph = true })[x]
    local loss = (first[t] + u * first[x] - 0.01 / math.pi * second):square():mean()
    opt:zero_grad()
    loss:backward()
    opt:step()
    return loss
  end
end)

--- The state after 'count' steps of length dt of the fourth-order method of Runge and Kutta.
local function solve(law, x, count, dt)
  for _ = 1, count do
    local a = law(x)
    local b = law(x + a * (dt / 2))
    local c = law(x + b * (dt / 2))
    local d = law(x + c * dt)
    x = x + (a + 2 * b + 2 * c + d) * (dt / 6)
  end
  return x
end

-- A differential equation with a network as its law, solved for 64 initial values over 100 steps;
-- and one training step of such a law over 20 steps.
case("ode_solve", function()
  local net, x = network({ 2, 50, 2 }, 1), fill({ 64, 2 }, 60)
  return function()
    return flame.no_grad(function()
      local y = solve(net, x, 100, 0.05)
      flame.eval(y)
      return y
    end)
  end
end)
case("ode_step", function()
  local net, x, y = network({ 2, 50, 2 }, 1), fill({ 64, 2 }, 60), fill({ 64, 2 }, 61)
  local opt = optim.Adam(net:parameters(), { lr = 1e-3 })
  return function()
    local loss = flame.mse_loss(solve(net, x, 20, 0.05), y)
    opt:zero_grad()
    loss:backward()
    opt:step()
    return loss
  end
end)

-- Kernels with loops. The Mandelbrot set at 256 x 256 points, each iterated until it escapes:
local escape = flame.kernel [[
__global__ void escape(const float *cx, const float *cy, float *count, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float x = 0.f, y = 0.f, k = 0.f;
  for (int t = 0; t < 50; ++t) {
    float xx = x * x, yy = y * y;
    if (xx + yy > 4.f) break;
    y = 2.f * x * y + cy[i];
    x = xx - yy + cx[i];
    k += 1.f;
  }
  count[i] = k;
}]]
case("escape", function()
  local line = flame.arange(256, { dtype = "f32" })
  local cx = (line * (3 / 256) - 2.1):reshape(1, 256):expand(256, 256):reshape(-1)
  local cy = (line * (2.4 / 256) - 1.2):reshape(256, 1):expand(256, 256):reshape(-1)
  flame.eval(cx, cy)
  return function()
    local count = escape(cx, cy)
    flame.eval(count)
    return count
  end
end)

-- 1,024 bodies that attract each other: the energy and its gradient, the forces.
local energy = flame.kernel { shape = { 1024 }, source = [[
__global__ void energy(const float *p, float *e, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float s = 0.f;
  for (int j = 0; j < n; ++j) {
    float dx = p[2 * i] - p[2 * j], dy = p[2 * i + 1] - p[2 * j + 1];
    s -= rsqrtf(dx * dx + dy * dy + 0.01f);
  }
  e[i] = s;
}]] }
-- The gradient of a body's place has contributions from the threads of all bodies. They are added
-- in a fixed order, or in any order.
for name, fixed in pairs { bodies = true, bodies_any_order = false } do
  cases[name] = function()
    local p = fill({ 1024, 2 }, 70):requires_grad_(true)
    return function()
      flame.deterministic(fixed)
      local d = energy(p, 1024):mean():gradients { p }
      flame.eval(d[p])
      flame.deterministic(true)
      return d[p]
    end
  end
end
order[#order + 1], order[#order + 2] = "bodies", "bodies_any_order"

-- 4,096 pendulums, one per thread, over 200 steps: the gradient of their last angles with respect
-- to their first states.
local swing = flame.kernel [[
__global__ void swing(const float *angle, const float *speed, float *last, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float a = angle[i], w = speed[i];
  for (int t = 0; t < 200; ++t) {
    w -= 0.02f * (9.81f * sinf(a) + 0.1f * w);
    a += 0.02f * w;
  }
  last[i] = a;
}]]
case("swing", function()
  local angle = fill({ 4096 }, 80):requires_grad_(true)
  local speed = fill({ 4096 }, 81):requires_grad_(true)
  return function()
    local d = swing(angle, speed):mean():gradients { angle, speed }
    flame.eval(d[angle], d[speed])
    return d[angle] * 4096
  end
end)

-- ---- requests of bench/small.py, or a table ----------------------------------------------------

local function check(name)
  local body, said = cases[name](), {}
  for _ = 1, 3 do
    local value = body()
    if type(value) ~= "table" then value = value:detach():reshape(-1):totable() end
    local sum = 0
    for i, x in ipairs(value) do
      sum = sum + x
      if i <= 4 then said[#said + 1] = ("%.9g"):format(x) end
    end
    said[#said + 1] = ("%.9g"):format(sum / #value)
  end
  return table.concat(said, " ")
end

local function seconds(body, reps)
  flame.synchronize()
  local clock, start = flame.timer(), os.clock()
  if own then clock = function() return os.clock() - start end end
  for _ = 1, reps do body() end
  flame.synchronize()
  return clock() / reps
end

if arg[2] == "ask" then
  local current = {}                          -- { name =, body = }
  for line in io.lines() do
    local name, what = line:match("^(%S+)%s+(%S+)$")
    if not cases[name] then
      print("error no benchmark " .. tostring(name) .. ": there are " .. table.concat(order, " "))
    elseif what == "check" then
      print(check(name))
    else
      if current.name ~= name then
        current = { name = name, body = cases[name]() }
        for _ = 1, 3 do current.body() end
      end
      print(("%.9f"):format(seconds(current.body, tonumber(what))))
    end
    io.stdout:flush()
  end
else
  print(("small work on %s, microseconds, least of 7:"):format(device))
  for _, name in ipairs(order) do
    local body, best = cases[name](), math.huge
    for _ = 1, 3 do body() end
    local reps = math.max(1, math.ceil(0.02 / seconds(body, 2)))
    for _ = 1, 7 do best = math.min(best, seconds(body, reps)) end
    print(("%-17s%10.1f"):format(name, best * 1e6))
  end
end
