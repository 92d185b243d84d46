--- Gradients in Lua: the table that gradients() returns, flame.grad and the other functions that
-- differentiate a function. The backward walk itself is C (internal.gradients).
local flame = require "flame"
local internal = flame.internal
local arguments = require "flame.base.arguments"
local fail, need_tensor, def = arguments.fail, arguments.need_tensor, arguments.def
local is_tensor = flame.is_tensor

-- ---- the map ---------------------------------------------------------------------------------
local Gradients = {}
Gradients.__name = "flame.gradients"
-- map of gradients -> {order = its inputs as requested, …}; weak, so that a map can be collected.
local asked = setmetatable({}, { __mode = "k" })

function Gradients.__index(g, key)
  local method = Gradients[key]
  if method ~= nil then return method end
  if not is_tensor(key) then
    fail("gradients", "a map of gradients has no field '%s'", tostring(key))
  end
  if asked[g].unused[key] then return nil end
  local other
  for map, a in pairs(asked) do
    if rawget(map, key) ~= nil and (not other or a.number > other.number) then other = a end
  end
  fail("gradients", "not asked for in this call%s\1: name it in gradients{…}", other and
    (" (this is the map of %s, and it is in that of %s)"):format(asked[g].place, other.place) or "")
end
--- Iterates over tensor, gradient in the order in which the tensors were passed to gradients().
function Gradients.items(g)
  local order, i = asked[g].order, 0
  return function()
    repeat i = i + 1 until order[i] == nil or rawget(g, order[i]) ~= nil
    if order[i] ~= nil then return order[i], rawget(g, order[i]) end
  end
end
Gradients.__pairs = function(g) return Gradients.items(g) end
--- The norm of all gradients together: the root of the sum of all their squares, a 0-d tensor.
function Gradients.norm(g)
  local sum
  for _, v in Gradients.items(g) do
    local s = (v * v):sum()
    sum = sum and sum + s or s
  end
  return (sum or flame.zeros({})):sqrt()
end
--- Scales all gradients in place so that their common norm is at most 'most'; returns the old norm.
function Gradients.clip(g, most)
  local norm = Gradients.norm(g)
  local _ <close> = flame.no_grad()
  local scale = (most / (norm + 1e-6)):clamp({ max = 1 })
  for _, v in Gradients.items(g) do v:mul_(scale:to(v.dtype)) end
  return norm
end

local maps = 0
local function make_map(xs, grads, allow_unused)
  local g, unused = {}, {}
  for i, x in ipairs(xs) do
    if grads[i] then
      g[x] = grads[i]
    elseif allow_unused then
      unused[x] = true
    else
      fail("gradients", "nothing came to input %d: a function's backward or a kernel's vjp gave" ..
        " nil\1; allow_unused = true skips it", i)
    end
  end
  maps = maps + 1
  asked[g] = { order = xs, unused = unused, number = maps, place = internal.here() }
  return setmetatable(g, Gradients)
end

--- A map from each input to its gradient. An input on which x does not depend raises; with
--- allow_unused it is not in the map. seed has x's shape; without it x has one element.
def([[:gradients(x: T, inputs: T|T[], *, create_graph = false, retain_graph = false,
    allow_unused = false, seed?: T) -> table]],
function(y, xs, create_graph, retain_graph, allow_unused, seed)
  if is_tensor(xs) then xs = { xs } end
  return make_map(xs, internal.gradients({ y }, seed and { seed }, xs,
    { create_graph = create_graph, retain_graph = retain_graph or create_graph,
      strict = not allow_unused }), allow_unused)
end)

-- v as a list of tensors: a tensor becomes a list of one; an empty list raises.
local function tensors_of(name, v)
  if is_tensor(v) then return { v } end
  if #v == 0 then
    fail("autograd.grad", "%s must be a tensor or a list of tensors, got an empty list", name)
  end
  return v
end
--- The gradients of outputs (a tensor or a list) with respect to inputs, as a list in their order.
--- An input on which no output depends raises; with allow_unused it has nil in the list.
def([[autograd.grad(outputs: T|T[], inputs: T|T[], grad_outputs?: T|T[], retain_graph?: bool,
    create_graph = false, only_inputs = true, allow_unused = false) -> T[] ]],
function(outputs, inputs, grad_outputs, retain_graph, create_graph, _, allow_unused)
  local ys, xs, seeds = tensors_of("outputs", outputs), tensors_of("inputs", inputs), nil
  if grad_outputs then
    seeds = tensors_of("grad_outputs", grad_outputs)
    if #seeds ~= #ys then
      fail("autograd.grad", "%d grad_outputs for %d outputs", #seeds, #ys)
    end
  end
  local map = make_map(xs, internal.gradients(ys, seeds, xs,
    { create_graph = create_graph, retain_graph = retain_graph or create_graph,
      strict = not allow_unused }), allow_unused)
  local list = {}
  for i, x in ipairs(xs) do list[i] = map[x] end
  return list
end)

-- ---- functions of functions ---------------------------------------------------------------------
--- The keys of a table in a fixed order. In this order 'collect' lists all tensors of nested
--- tables, and 'rebuild' copies the tables, with its argument give(x) in place of a tensor x.
local function sorted_keys(t)
  local keys = {}
  for k in pairs(t) do keys[#keys + 1] = k end
  table.sort(keys, function(a, b)
    local ta, tb = math.type(a) or type(a), math.type(b) or type(b)
    if ta ~= tb then return ta < tb end
    if type(a) == "number" or type(a) == "string" then return a < b end
    return false
  end)
  return keys
end
local function collect(v, list)
  if is_tensor(v) then
    list[#list + 1] = v
  elseif type(v) == "table" then
    for _, k in ipairs(sorted_keys(v)) do collect(v[k], list) end
  end
  return list
end
local function rebuild(v, give)
  if is_tensor(v) then return give(v) end
  if type(v) ~= "table" then return v end
  local out = {}
  for _, k in ipairs(sorted_keys(v)) do out[k] = rebuild(v[k], give) end
  return out
end
-- flame.grad, flame.vjp and so on may be called inside an f that one of them differentiates. While
-- f runs, the tensors with respect to which it is differentiated are 'active' (tensor -> how
-- often); a call inside then keeps its graph and detaches nothing.
local active = setmetatable({}, { __mode = "k" })
local Running = { __close = function(r)
  for _, x in ipairs(r) do
    local n = active[x]
    active[x] = n and n > 1 and n - 1 or nil
  end
end }
local function nested() return next(active) ~= nil and flame.is_grad_enabled() end
-- Runs f with the tensors xs in 'active' and returns f's results.
local function inside(xs, f, ...)
  local running <close> = setmetatable({}, Running)
  for i, x in ipairs(xs) do running[i], active[x] = x, (active[x] or 0) + 1 end
  return f(...)
end
-- The tensor that f gets for its argument x: a tracked copy of an untracked x, x itself if it is a
-- leaf that is not active, else an alias. If f reaches x otherwise, as an upvalue, that x counts
-- as constant, unless it is the leaf itself.
local function stand_in(x)
  if not x.requires_grad then return x:detach():requires_grad_(true) end
  return x.is_leaf and not active[x] and x or x:reshape(x.shape)
end

local function scalar_result(op, y)
  if not is_tensor(y) then fail(op, "f must return a tensor first, got %s", arguments.word(y)) end
  if y:numel() ~= 1 then
    fail(op, "f must return one element, got shape (%s)", table.concat(y.shape, ", "))
  end
  return y
end

--- A function (params, …) -> f's value, gradients as a table like params, f's other results.
def(".value_and_grad(f: fn) -> fn", function(f)
  return function(params, ...)
    local create, xs = nested(), {}
    local _ <close> = flame.enable_grad()
    local inputs = rebuild(params, function(x)
      if not x:is_floating_point() then return x end
      xs[#xs + 1] = stand_in(x)
      return xs[#xs]
    end)
    local out = table.pack(inside(xs, f, inputs, ...))
    local y = scalar_result("value_and_grad", out[1])
    local grads = internal.gradients({ y }, nil, xs,
      { create_graph = create, retain_graph = create })
    local by = {}
    for i, x in ipairs(xs) do by[x] = grads[i] or flame.zeros_like(x) end
    local result = rebuild(inputs, function(x) return by[x] or flame.zeros_like(x) end)
    return create and y or y:detach(), result, table.unpack(out, 2, out.n)
  end
end)

--- A function that returns f's gradients with respect to the arguments with the given numbers
--- (default: the first).
def(".grad(f: fn, argnums...: int) -> fn", function(f, ...)
  local nums = { ... }
  if #nums == 0 then nums[1] = 1 end
  return function(...)
    local args, xs, out, tracked = table.pack(...), {}, {}, flame.is_grad_enabled()
    local _ <close> = flame.enable_grad()
    for _, k in ipairs(nums) do
      local table_of = type(args[k]) == "table" and #collect(args[k], {}) > 0
      if not table_of then need_tensor("grad", "argument " .. k, args[k]) end
      args[k] = rebuild(args[k], function(x)
        if table_of and not x:is_floating_point() then return x end
        xs[#xs + 1] = stand_in(x)
        return xs[#xs]
      end)
    end
    local y, by = scalar_result("grad", (inside(xs, f, table.unpack(args, 1, args.n)))), {}
    local g = y.requires_grad and internal.gradients({ y }, nil, xs,
      { create_graph = tracked, retain_graph = tracked }) or {}
    for i, x in ipairs(xs) do by[x] = g[i] or flame.zeros_like(x) end
    for i, k in ipairs(nums) do
      out[i] = rebuild(args[k], function(x) return by[x] or flame.zeros_like(x) end)
    end
    return table.unpack(out, 1, #nums)
  end
end)

-- The functions below (vjp to hessian) take a tensor x, a list of tensors, which are f's arguments,
-- or a nested table of tensors with names, f's only argument. Grad mode is on while f runs. In an f
-- that is being differentiated itself, their results keep the graph.

-- Runs f on x with each floating-point tensor replaced by a tracked stand-in. This is a detached
-- copy of it; with 'keep', a tracked tensor is used itself, or a view of it, so that results stay
-- on its graph. Returns the list of stand-ins, and f's results as table.pack has them. op: the name
-- in messages.
local function apply(op, f, x, keep)
  local single, xs = is_tensor(x), {}
  local function track(t)
    if not t:is_floating_point() then return t end
    xs[#xs + 1] = stand_in(keep and t or t:detach())
    return xs[#xs]
  end
  local list = {}
  if single or x[1] == nil then list[1] = rebuild(x, track) else
    for i = 1, #x do list[i] = rebuild(x[i], track) end
  end
  local results = table.pack(inside(xs, f, table.unpack(list)))
  if results.n == 0 then fail(op, "f must return a tensor, got nothing") end
  for i = 1, results.n do
    need_tensor(op, results.n == 1 and "f's result" or "f's result " .. i, results[i])
  end
  if #xs == 0 then fail(op, "x has no float tensor") end
  return xs, results
end
-- The tensors in v as a list, checked against the shapes of the list 'like'; ones if v is nil.
local function directions(op, v, like, of, keep)
  local list = v == nil and {} or collect(v, {})
  if v ~= nil and #list ~= #like then fail(op, "v has %d tensors, %s %d", #list, of, #like) end
  for i, x in ipairs(like) do
    list[i] = list[i] or flame.ones_like(x)
    if table.concat(list[i].shape, ", ") ~= table.concat(x.shape, ", ") then
      fail(op, "v has shape (%s), %s (%s)", table.concat(list[i].shape, ", "), of,
        table.concat(x.shape, ", "))
    end
    list[i] = (keep and list[i] or list[i]:detach()):to(x.dtype)
  end
  return list
end
-- The only element of a list of n = 1, else the list.
local function joined(list, n) if n == 1 then return list[1] end return list end
local function values_of(results, keep)
  local out = {}
  for i = 1, results.n do out[i] = keep and results[i] or results[i]:detach() end
  return joined(out, results.n)
end
-- A copy of x, a tensor or nested table, in which the tensors of the list replace the float
-- tensors, in order, and zeros replace the other tensors.
local function like_x(x, list)
  local k = 0
  return rebuild(x, function(t)
    if not t:is_floating_point() then return flame.zeros_like(t) end
    k = k + 1
    return list[k]
  end)
end
-- For each of xs the gradient of the tracked ys, weighted by seeds; false if no y depends on it.
local function pull(ys, seeds, xs, how)
  local y, seed = {}, {}
  for i = 1, #ys do
    if ys[i].requires_grad then y[#y + 1], seed[#seed + 1] = ys[i], seeds[i] end
  end
  if #y > 0 then return internal.gradients(y, seed, xs, how) end
  local none = {}
  for i = 1, #xs do none[i] = false end
  return none
end

--- f(x), and the product of v with f's derivative, in the form of x. v has the shape of f's result
--- (default: ones). This product is what backward computes.
def(".vjp(f: fn, x: T|table, v?: T|table) -> values: T|T[], products: T|table", function(f, x, v)
  local create = nested()
  local _ <close> = flame.enable_grad()
  local xs, results = apply("vjp", f, x, create)
  local seeds = directions("vjp", v, results, "the result has", create)
  local g = pull(results, seeds, xs, { create_graph = create, retain_graph = create })
  for i = 1, #xs do g[i] = g[i] or flame.zeros_like(xs[i]:detach()) end
  return values_of(results, create), like_x(x, g)
end)

--- f(x) and the product of its derivative with v (default: ones): the change of the result when x
--- changes along v. It is computed as the derivative of the vector-Jacobian product, which is
--- linear in its seed, with respect to the seed.
def(".jvp(f: fn, x: T|table, v?: T|table) -> values: T|T[], products: T|T[]", function(f, x, v)
  local create = nested()
  local _ <close> = flame.enable_grad()
  local xs, results = apply("jvp", f, x, create)
  v = directions("jvp", v, xs, "x has", create)
  local seeds, out = {}, {}
  for i = 1, results.n do
    out[i] = flame.zeros_like(results[i]:detach())
    seeds[i] = results[i].requires_grad and flame.zeros_like(out[i]):requires_grad_(true) or out[i]
  end
  local g, ys, along = pull(results, seeds, xs, { create_graph = true, retain_graph = true }), {},
    {}
  for i = 1, #xs do
    if g[i] and g[i].requires_grad then ys[#ys + 1], along[#along + 1] = g[i], v[i] end
  end
  local by, place = {}, {}
  for i = 1, results.n do
    if seeds[i].requires_grad then by[#by + 1], place[#place + 1] = seeds[i], i end
  end
  local how = { create_graph = create, retain_graph = create }
  for k, t in ipairs(#by > 0 and pull(ys, along, by, how) or {}) do
    out[place[k]] = t or out[place[k]]
  end
  return values_of(results, create), joined(out, results.n)
end)

--- f(x), one number, and f's second derivatives times v, which is like x (default: ones).
def(".hvp(f: fn, x: T|table, v?: T|table) -> value: T, products: T|table", function(f, x, v)
  local create = nested()
  local _ <close> = flame.enable_grad()
  local xs, results = apply("hvp", f, x, create)
  local y = scalar_result("hvp", results[1])
  local g, ys, seeds = pull({ y }, { flame.ones_like(y:detach()) }, xs,
    { create_graph = true, retain_graph = true }), {}, {}
  v = directions("hvp", v, xs, "x has", create)
  for i = 1, #xs do
    if g[i] and g[i].requires_grad then ys[#ys + 1], seeds[#seeds + 1] = g[i], v[i] end
  end
  local h = pull(ys, seeds, xs, { create_graph = create, retain_graph = create })
  for i = 1, #xs do h[i] = h[i] or flame.zeros_like(xs[i]:detach()) end
  return create and y or y:detach(), like_x(x, h)
end)
flame.vhp = flame.hvp

-- stack, which also takes no rows.
local function stack_all(rows, like)
  if #rows > 0 then return flame.stack(rows) end
  return flame.zeros({ 0 }, { dtype = like.dtype, device = like.device })
end
-- The derivative of y with respect to each x of xs, as a list; its axes are those of y, then of x.
local function jacobians(y, xs, create)
  local n, rows, out = y:numel(), {}, {}
  for k = 1, #xs do rows[k] = {} end
  for i = 1, n do
    local seed = flame.zeros_like(y:detach()):reshape(-1)
    seed = seed:index_fill(1, flame.tensor({ i }, { dtype = "i64", device = y.device }),
      1):reshape(y.shape)
    local g = pull({ y }, { seed }, xs, { retain_graph = true, create_graph = create })
    for k = 1, #xs do rows[k][i] = g[k] or flame.zeros_like(xs[k]:detach()) end
  end
  for k, x in ipairs(xs) do
    local shape = y.shape
    table.move(x.shape, 1, x.ndim, #shape + 1, shape)
    if #shape > 8 then
      fail("jacobian", "%d axes of the result and %d of x are more than 8", y.ndim, x.ndim)
    end
    out[k] = stack_all(rows[k], x):reshape(shape):clone()
  end
  return out
end
--- The derivative of every element of f(x) with respect to every element of x: axes of the result,
-- then of x. Several results or several inputs give lists, indexed [result][input].
def(".jacobian(f: fn, x: T|table, *, create_graph = false) -> T|table", function(f, x, create)
  create = create or nested()
  local _ <close> = flame.enable_grad()
  local xs, results = apply("jacobian", f, x, create)
  local out = {}
  for i = 1, results.n do out[i] = like_x(x, jacobians(results[i], xs, create)) end
  return joined(out, results.n)
end)
--- Second derivatives of f, whose result is one number. Its axes are those of x, then those of x
--- again. Several inputs: a table [input][input].
def(".hessian(f: fn, x: T|table) -> T|table", function(f, x)
  local create = nested()
  local _ <close> = flame.enable_grad()
  local xs, results = apply("hessian", f, x, create)
  local y = scalar_result("hessian", results[1])
  local g, out = pull({ y }, { flame.ones_like(y:detach()) }, xs,
    { create_graph = true, retain_graph = true }), {}
  for i = 1, #xs do
    local d = g[i] or flame.zeros_like(xs[i]:detach())
    out[i] = like_x(x, jacobians(d, xs, create))
  end
  return like_x(x, out)
end)
