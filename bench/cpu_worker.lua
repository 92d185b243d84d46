-- Benchmarks on the CPU: reads lines "name reps" and answers each with the seconds per repetition.
-- bench/cpu_peer.py runs these and PyTorch's with the same names in turns. Without it:
--   echo "softmax_1024 20" | flame-lua bench/cpu_worker.lua
-- If the argument, the number of threads, is 1, it measures processor time, not elapsed time.
local flame = require "flame"
local nn, optim = require "flame.nn", require "flame.optim"
flame.default_device("cpu")
flame.seed(1)

local cases = {}

--- Adds a case: make() gives operands; body(operands…) gives results, which are then evaluated.
local function case(name, make, body)
  cases[name] = function()
    local args = table.pack(make())
    return function() flame.eval(body(table.unpack(args, 1, args.n))) end
  end
end

local function randn(...)
  local shape = { ... }
  return function() return flame.randn(shape) end
end
local function two(...)
  local shape = { ... }
  return function() return flame.randn(shape), flame.randn(shape) end
end

-- Elementwise ops on large tensors.
for name, n in pairs { ["1e6"] = 1000000, ["1e7"] = 10000000 } do
  case("map_" .. name, randn(n), function(x) return (x * 2 + 1):relu() end)
  case("gelu_" .. name, randn(n), function(x) return x:gelu() end)
  case("chain8_" .. name, two(n), function(x, y)
    return (((x * y + 1):relu() - y) * 0.5 + x):tanh() * y
  end)
end
case("add_1e6", two(1000000), function(x, y) return x + y end)
for _, op in ipairs { "exp", "log", "tanh", "sigmoid", "sin", "erf", "sqrt" } do
  case(op .. "_1e6", function() return flame.rand(1000000) * 8 + 0.01 end,
    function(x) return x[op](x) end)
end
for _, op in ipairs { "exp", "log", "log1p", "tanh", "sin", "asin", "erf", "erfinv" } do
  case(op .. "_f64_1e6",
    function() return flame.rand({ 1000000 }, { dtype = "f64" }) * 0.9 + 0.01 end,
    function(x) return x[op](x) end)
end
for _, op in ipairs { "lgamma", "digamma" } do
  case(op .. "_1e6", function() return flame.rand(1000000) * 8 + 0.01 end,
    function(x) return x[op](x) end)
end
case("pow_1e6", function() return flame.rand(1000000) * 8 + 0.01, flame.randn(1000000) end,
  function(x, y) return x ^ y end)
case("fmod_1e6", function() return flame.randn(1000000) * 100, flame.rand(1000000) + 1 end,
  function(x, y) return x:fmod(y) end)
case("mod_1e6", function() return flame.randn(1000000) * 100, flame.rand(1000000) + 1 end,
  function(x, y) return x % y end)
case("normal_1e6", function() end, function() return flame.randn(1000000) end)
case("uniform_1e6", function() end, function() return flame.rand(1000000) end)
case("dropout_1e6", randn(1000000), function(x) return x:dropout(0.1) end)

-- Small tensors: most of the time goes into recording and launching.
for _, n in ipairs { 16, 256, 4096 } do
  case("chain20_" .. n, randn(n), function(x)
    for _ = 1, 10 do x = x * 0.999 + 0.001 end
    return x
  end)
  cases["chain20_backward_" .. n] = function()
    local x = flame.randn(n, { requires_grad = true })
    return function()
      local y = x
      for _ = 1, 10 do y = (y * 0.999):tanh() end
      local d = y:sum():gradients { x }
      flame.eval(d[x])
    end
  end
end

local function training(batch, sizes)
  return function()
    local layers = {}
    for i = 2, #sizes do
      if i > 2 then layers[#layers + 1] = nn.ReLU() end
      layers[#layers + 1] = nn.Linear(sizes[i - 1], sizes[i])
    end
    local net = nn.Sequential(layers)
    local opt = optim.AdamW(net:parameters(), { lr = 1e-3 })
    local x, t = flame.randn(batch, sizes[1]), flame.randint({ batch }, 1, sizes[#sizes])
    return function()
      local loss = flame.cross_entropy(net(x), t)
      opt:zero_grad()
      loss:backward()
      opt:step()
    end
  end
end
cases.mlp_small = training(16, { 16, 32, 32, 4 })
cases.mlp_digits = training(64, { 784, 256, 128, 10 })
for name, n in pairs { ["32"] = 32, ["128"] = 128 } do
  cases["adamw60_" .. name] = function()
    local params = {}
    for i = 1, 60 do
      params[i] = nn.Parameter(flame.randn(n, n))
      params[i].grad = flame.randn(n, n)
    end
    local opt = optim.AdamW(params, { lr = 1e-3 })
    return function() opt:step() end
  end
end

for _, dtype in ipairs { "f32", "f64" } do
  for _, n in ipairs { 64, 128, 256, 512, 1024 } do
    case(("matmul_%s_%d"):format(dtype, n), function()
      return flame.randn(n, n, { dtype = dtype }), flame.randn(n, n, { dtype = dtype })
    end, function(a, b) return a:matmul(b) end)
  end
end

-- Ops on rows of n elements, about a million elements in all.
for _, n in ipairs { 128, 1024, 8192 } do
  local m = (1 << 20) // n
  case("softmax_" .. n, randn(m, n), function(x) return x:softmax(2) end)
  case("log_softmax_" .. n, randn(m, n), function(x) return x:log_softmax(2) end)
  case("layer_norm_" .. n, function() return flame.randn(m, n), flame.randn(n), flame.randn(n) end,
       function(x, w, b) return x:layer_norm({ n }, w, b) end)
  cases["layer_norm_backward_" .. n] = function()
    local x, w, b = flame.randn(m, n), flame.randn(n), flame.randn(n)
    local g = flame.randn(m, n)
    for _, t in ipairs { x, w, b } do t:requires_grad_(true) end
    return function()
      local y = x:layer_norm({ n }, w, b)
      local d = y:gradients({ x, w, b }, { seed = g })
      flame.eval(y, d[x], d[w], d[b])
    end
  end
end

for _, op in ipairs { "sum", "mean", "amax", "argmax", "var" } do
  case(op .. "_rows", randn(1024, 1024), function(x) return x[op](x, 2) end)
  case(op .. "_columns", randn(1024, 1024), function(x) return x[op](x, 1) end)
  case(op .. "_all", randn(1024, 1024), function(x) return x[op](x) end)
end
for _, op in ipairs { "cumsum", "cumprod", "cummax" } do
  case(op .. "_rows", randn(1000, 1000), function(x) return x[op](x, 2) end)
  case(op .. "_columns", randn(1000, 1000), function(x) return x[op](x, 1) end)
  case(op .. "_1e6", randn(1000000), function(x) return x[op](x, 1) end)
end

case("sort_1e6", randn(1000000), function(x) return x:sort(1) end)
case("sort_rows", randn(1000, 1000), function(x) return x:sort(2) end)
case("topk_10_of_1e6", randn(1000000), function(x) return x:topk(10, 1) end)
case("topk_10_rows", randn(1000, 1000), function(x) return x:topk(10, 2) end)

case("cross_entropy", function()
  return flame.randn(1024, 1000), flame.randint({ 1024 }, 1, 1000)
end,
     function(x, t) return flame.cross_entropy(x, t) end)
cases.cross_entropy_backward = function()
  local x, t = flame.randn(1024, 1000, { requires_grad = true }), flame.randint({ 1024 }, 1, 1000)
  return function()
    local loss = flame.cross_entropy(x, t)
    local d = loss:gradients { x }
    flame.eval(loss, d[x])
  end
end
local function ids() return flame.randint({ 8192 }, 1, 10000), flame.randn(10000, 64) end
case("embedding", ids, function(i, w) return flame.embedding(i, w) end)
cases.embedding_backward = function()
  local i, w = ids()
  local g = flame.randn(8192, 64)
  w:requires_grad_(true)
  return function()
    local d = flame.embedding(i, w):gradients({ w }, { seed = g })
    flame.eval(d[w])
  end
end
local function table_of_ids()
  return flame.randn(1000, 1000), flame.randint({ 1000, 1000 }, 1, 1000)
end
case("gather", table_of_ids, function(x, i) return x:gather(2, i) end)
case("scatter_add", function()
  local x, i = table_of_ids()
  return flame.zeros(1000, 1000), i, x
end, function(z, i, x) return z:scatter_add(2, i, x) end)
case("index_add", function()
  return flame.zeros(10000, 64), flame.randint({ 8192 }, 1, 10000), flame.randn(8192, 64)
end,
     function(z, i, x) return z:index_add(1, i, x) end)

case("transpose_f32", randn(2048, 2048), function(x) return x:t():contiguous() end)
case("transpose_f64", function() return flame.randn(1024, 1024, { dtype = "f64" }) end,
  function(x) return x:t():contiguous() end)
case("permute", randn(32, 64, 32, 32), function(x) return x:permute(1, 3, 4, 2):contiguous() end)
case("copy_1e7", randn(10000000), function(x) return x + 0 end)

-- Many more cases (-g of bench/cpu_peer.py), by names operation.layout.dtype.size: the same shapes
-- and operands as there.
local shapes = {
  rows = { s = { 64, 128 }, m = { 1024, 1024 }, l = { 4096, 4096 } },
  short = { s = { 512, 16 }, m = { 65536, 16 }, l = { 1 << 20, 16 } },
  long = { s = { 2, 4096 }, m = { 8, 131072 }, l = { 8, 2097152 } },
  middle = { s = { 8, 32, 32 }, m = { 32, 256, 128 }, l = { 64, 1024, 256 } },
}
shapes.columns, shapes.all = shapes.rows, shapes.rows
local axis_of = { rows = -1, short = -1, long = -1, columns = 1, middle = 2 }

local norms = {
  layer_norm = function(x, w, b) return x:layer_norm({ w:size(1) }, w, b) end,
  rms_norm = function(x, w) return x:rms_norm({ w:size(1) }, w) end,
  batch_norm = function(x, w, b) return x:batch_norm(nil, nil, w, b, { training = true }) end,
  group_norm = function(x, w, b) return x:group_norm(8, w, b) end,
  softmax = function(x) return x:softmax(2) end,
  log_softmax = function(x) return x:log_softmax(2) end,
  cross_entropy = function(x, _, _, t) return flame.cross_entropy(x, t) end,
}

local function normalising(op, backward, m, n, o)
  local f, x, c = norms[op], flame.randn(m, n, o), n
  if op == "group_norm" then x, c = x:reshape(m // 8, 32, n // 4):clone(), 32 end
  local w, b, t = flame.randn(c, o), flame.randn(c, o), flame.randint({ m }, 1, n)
  if not backward then return function() flame.eval(f(x, w, b, t)) end end
  local inputs = { x }
  if op:find("norm") then inputs = op == "rms_norm" and { x, w } or { x, w, b } end
  for _, p in ipairs(inputs) do p:requires_grad_(true) end
  local seed = op == "cross_entropy" and flame.randn({}, o) or flame.randn(x.shape, o)
  return function()
    local y = f(x, w, b, t)
    local d, all = y:gradients(inputs, { seed = seed }), { y }
    for i, p in ipairs(inputs) do all[i + 1] = d[p] end
    flame.eval(table.unpack(all))
  end
end

local function moving(op, m, n, o)
  local x, y = flame.randn(m, n, o), flame.randn(m, n, o)
  local i, r = flame.randint({ m, n }, 1, n), flame.randint({ m }, 1, m)
  local c, k = flame.randint({ n }, 1, n), flame.randint({ m, n }, 1, m)
  return ({
    gather_rows = function() return x:gather(2, i) end,
    gather_columns = function() return x:gather(1, k) end,
    scatter_add_rows = function() return y:scatter_add(2, i, x) end,
    scatter_add_columns = function() return y:scatter_add(1, k, x) end,
    select_rows = function() return x:index_select(1, r) end,
    select_columns = function() return x:index_select(2, c) end,
    index_add = function() return y:index_add(1, r, x) end,
    embedding = function() return flame.embedding(r, x) end,
    cat_rows = function() return flame.cat({ x, y }, 1) end,
    cat_columns = function() return flame.cat({ x, y }, 2) end,
    transpose = function() return x:t():contiguous() end,
    clone = function() return x + 0 end,
  })[op]
end

local function grid(name)
  local op, layout, dtype, size = name:match("^([%w_]+)%.(%w+)%.(%w+)%.(%w)$")
  if not op then return nil end
  local shape, o = shapes[layout][size], { dtype = dtype }
  local forward = op:gsub("_backward$", "")
  if norms[forward] and (forward ~= op or not op:find("softmax")) then
    return function() return normalising(forward, forward ~= op, shape[1], shape[2], o) end
  end
  return function()
    local move = #shape == 2 and moving(op, shape[1], shape[2], o)
    if move then return function() flame.eval(move()) end end
    local x, d = flame.randn(shape, o), axis_of[layout]
    if op:find("prod") then x = x * 0.01 + 1 end
    local p = op == "norm" and 2 or nil
    return function()
      if p and d then flame.eval(x:norm(p, d)) else flame.eval(x[op](x, d)) end
    end
  end
end

local current = {}                            -- { name =, body = }
for line in io.lines() do
  local name, reps = line:match("^(%S+)%s+(%d+)")
  local make = cases[name] or name and grid(name)
  if not make then
    print("error no benchmark " .. tostring(name))
  else
    if current.name ~= name then
      current.name, current.body = nil, nil   -- makes the tensors of the last case garbage
      collectgarbage() collectgarbage()
      flame.empty_cache()
      current.name, current.body = name, make()
      for _ = 1, 3 do current.body() end
    end
    local body = current.body
    local clock = flame.timer()
    if arg[1] == "1" then
      local start = os.clock()
      clock = function() return os.clock() - start end
    end
    for _ = 1, tonumber(reps) do body() end
    print(("%.9f"):format(clock() / tonumber(reps)))
  end
  io.stdout:flush()
end
