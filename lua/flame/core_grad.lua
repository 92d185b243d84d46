--- Gradients in Lua: the map of gradients(), flame.grad and its kin, functions of the
-- script. The walk itself is C (internal.gradients).
local flame, methods, internal = ...
local fail, need_tensor, options, def = internal.failf, internal.need_tensor,
  internal.options, internal.def
local is_tensor = flame.is_tensor

--- A function, a module or a kernel.
local function need_callable(op, f)
  if not internal.callable(f) then fail(op, "f must be a function, got %s", internal.word(f)) end
end
internal.need_callable = need_callable

-- ---- the map ---------------------------------------------------------------------------------
local Gradients = {}
Gradients.__name = "flame.gradients"
-- The order asked for, by map; weak, so a map is collected as any table.
local asked = setmetatable({}, { __mode = "k" })

function Gradients.__index(g, key)
  local method = Gradients[key]
  if method ~= nil then return method end
  if not is_tensor(key) then
    fail("gradients", "a map of gradients has no field '%s'", tostring(key))
  end
  if asked[g].unused[key] then return nil end
  fail("gradients", "not asked for in this call\1: name it in gradients{…}")
end
--- Iterate tensor, gradient in the order asked for.
function Gradients.items(g)
  local order, i = asked[g].order, 0
  return function()
    repeat i = i + 1 until order[i] == nil or rawget(g, order[i]) ~= nil
    if order[i] ~= nil then return order[i], rawget(g, order[i]) end
  end
end
Gradients.__pairs = function(g) return Gradients.items(g) end
--- Square root of the sum of all squares, 0-d.
function Gradients.norm(g)
  local sum
  for _, v in Gradients.items(g) do
    local s = (v * v):sum()
    sum = sum and sum + s or s
  end
  return (sum or flame.zeros({})):sqrt()
end
--- Scale all in place so that the norm is at most 'most'; gives the norm before.
function Gradients.clip(g, most)
  local norm = Gradients.norm(g)
  local _ <close> = flame.no_grad()
  local scale = (most / (norm + 1e-6)):clamp({ max = 1 })
  for _, v in Gradients.items(g) do v:mul_(scale:to(v.dtype)) end
  return norm
end

local function make_map(xs, grads, allow_unused)
  local g, unused = {}, {}
  for i, x in ipairs(xs) do
    if grads[i] then
      g[x] = grads[i]
    elseif allow_unused then
      unused[x] = true
    elseif not x.requires_grad then
      fail("gradients", "input %d is not tracked\1: make it with requires_grad", i)
    else
      fail("gradients", "input %d is not on a path to the result (detached, or never used)\1;" ..
        " allow_unused = true skips it", i)
    end
  end
  asked[g] = { order = xs, unused = unused }
  return setmetatable(g, Gradients)
end

local function gradients_of(y, xs, seed, o)
  o = options("gradients", o,
    { create_graph = false, retain_graph = false, allow_unused = false, seed = false })
  seed = seed or o.seed or nil
  local how = { create_graph = o.create_graph, retain_graph = o.retain_graph or o.create_graph }
  return internal.gradients({ y }, seed and { seed }, xs, how), o
end

methods.gradients = function(y, xs, o, ...)
  need_tensor("gradients", "x", y)
  if select("#", ...) > 0 then
    fail("gradients", "3 arguments at most, got %d", 3 + select("#", ...))
  end
  if is_tensor(xs) then xs = { xs } end
  if type(xs) ~= "table" then
    fail("gradients", "inputs must be a list of tensors, got %s", internal.word(xs))
  end
  for i = 1, #xs do need_tensor("gradients", ("inputs[%d]"):format(i), xs[i]) end
  local list, opts = gradients_of(y, xs, nil, o)
  return make_map(xs, list, opts.allow_unused)
end

--- The tensors in v, one or a list.
local function tensors_of(op, name, v)
  if is_tensor(v) then return { v } end
  if type(v) ~= "table" or #v == 0 then
    fail(op, "%s must be a tensor or a list of tensors, got %s", name, internal.word(v))
  end
  for i = 1, #v do need_tensor(op, ("%s[%d]"):format(name, i), v[i]) end
  return v
end
--- The gradients of outputs (a tensor or a list) by inputs, a list in their order.
---@param outputs flame.Tensor|flame.Tensor[]
---@param inputs flame.Tensor|flame.Tensor[]
---@param ... any  {grad_outputs =, retain_graph =, create_graph =, allow_unused = false}, or by position
---@return flame.Tensor[]
flame.autograd.grad = internal.checked(function(outputs, inputs, ...)
  local op = "autograd.grad"
  local o = internal.arguments(op,
    { "grad_outputs", "retain_graph", "create_graph", "only_inputs", "allow_unused" },
    { grad_outputs = false, retain_graph = false, create_graph = false, only_inputs = true,
      allow_unused = false }, ...)
  local ys, xs, seeds = tensors_of(op, "outputs", outputs), tensors_of(op, "inputs", inputs), nil
  if o.grad_outputs then
    seeds = tensors_of(op, "grad_outputs", o.grad_outputs)
    if #seeds ~= #ys then fail(op, "%d grad_outputs for %d outputs", #seeds, #ys) end
  end
  local map = make_map(xs, internal.gradients(ys, seeds, xs,
    { create_graph = o.create_graph, retain_graph = o.retain_graph or o.create_graph }),
  o.allow_unused)
  local list = {}
  for i, x in ipairs(xs) do list[i] = map[x] end
  return list
end, "autograd.grad", 7)

-- ---- functions of functions ---------------------------------------------------------------------
--- All tensors of nested tables, in a fixed order of keys; and how to rebuild the form.
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
-- Functions of functions may stand in each other. What the outer one differentiates by is 'active'
-- while its f runs; the inner one then keeps its graph and detaches nothing.
local active = setmetatable({}, { __mode = "k" })
local Running = { __close = function(r)
  for _, x in ipairs(r) do
    local n = active[x]
    active[x] = n and n > 1 and n - 1 or nil
  end
end }
local function nested() return next(active) ~= nil and flame.is_grad_enabled() end
--- f's results, with xs active meanwhile.
local function inside(xs, f, ...)
  local running <close> = setmetatable({}, Running)
  for i, x in ipairs(xs) do running[i], active[x] = x, (active[x] or 0) + 1 end
  return f(...)
end
--- What f gets for x: a tracked copy, x's own leaf, or an alias: what f reads
--- of x in another way is constant then.
local function stand_in(x)
  if not x.requires_grad then return x:detach():requires_grad_(true) end
  return x.is_leaf and not active[x] and x or x:reshape(x.shape)
end

local function scalar_result(op, y)
  if not is_tensor(y) then fail(op, "f must return a tensor first, got %s", internal.word(y)) end
  if y:numel() ~= 1 then
    fail(op, "f must return one element, got shape (%s)", table.concat(y.shape, ", "))
  end
  return y
end

--- f(params, …) → value, gradients in the form of params, and what else f returned.
---@return function
def("value_and_grad", 1, function(f)
  need_callable("value_and_grad", f)
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
end, "module")

def("grad", 9, function(f, ...)
  need_callable("grad", f)
  local nums = { ... }
  if #nums == 0 then nums[1] = 1 end
  for i, k in ipairs(nums) do internal.need_int("grad", "argnum " .. i, k) end
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
end, "module")

-- What follows takes a tensor, or a list of tensors that are f's arguments, or a nested table of
-- tensors with names that is f's one argument; results have the same form. Grad mode is on inside.
-- Inside the f of another function of functions the results keep their graph.

--- f's arguments as tracked copies (keep: what stands for those that are tracked) and what f gives.
local function apply(op, f, x, keep)
  local single, xs = is_tensor(x), {}
  if not single and type(x) ~= "table" then need_tensor(op, "x", x) end
  need_callable(op, f)
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
--- The tensors of v, one for each of 'like' and of its shape; nil: ones.
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
--- One tensor as it is, several as a list.
local function joined(list, n) if n == 1 then return list[1] end return list end
local function values_of(results, keep)
  local out = {}
  for i = 1, results.n do out[i] = keep and results[i] or results[i]:detach() end
  return joined(out, results.n)
end
--- In the form of x: its float tensors replaced in order, others by zeros.
local function like_x(x, list)
  local k = 0
  return rebuild(x, function(t)
    if not t:is_floating_point() then return flame.zeros_like(t) end
    k = k + 1
    return list[k]
  end)
end
--- Gradients of the tracked ones of ys by xs; false where there is none.
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

--- f(x) and the product of v with its derivative: what backward computes.
---@param f function
---@param x flame.tensor|table
---@param v? flame.tensor|table  in the form of the result; ones
---@return any, any  values, products
def("vjp", 3, function(f, x, v)
  local create = nested()
  local _ <close> = flame.enable_grad()
  local xs, results = apply("vjp", f, x, create)
  local seeds = directions("vjp", v, results, "the result has", create)
  local g = pull(results, seeds, xs, { create_graph = create, retain_graph = create })
  for i = 1, #xs do g[i] = g[i] or flame.zeros_like(xs[i]:detach()) end
  return values_of(results, create), like_x(x, g)
end, "module")

--- f(x) and the product of its derivative with v: how the result moves when x moves along v.
--- The backward product is linear in its seed; its own derivative by the seed is this product.
---@param f function
---@param x flame.tensor|table
---@param v? flame.tensor|table  in the form of x; ones
---@return any, any  values, products
def("jvp", 3, function(f, x, v)
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
end, "module")

--- f(x), one number, and the product of its second derivatives with v.
---@param f function
---@param x flame.tensor|table
---@param v? flame.tensor|table  in the form of x; ones
---@return flame.Tensor, any  value, products
def("hvp", 3, function(f, x, v)
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
end, "module")
flame.vhp = flame.hvp

--- stack of any number.
local function stack_all(rows, like)
  if #rows == 0 then return flame.zeros({ 0 }, { dtype = like.dtype, device = like.device }) end
  local parts = {}
  for first = 1, #rows, 4096 do
    parts[#parts + 1] = flame.stack(table.move(rows, first, math.min(first + 4095, #rows), 1, {}))
  end
  return #parts == 1 and parts[1] or flame.cat(parts, 1)
end
--- Derivatives of one result by all xs: shapes of y and x joined.
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
--- The derivative of every element of f(x) by every element of x: axes of the result, then of x.
--- Several results give a list, and so do several inputs: [result][input].
---@param f function
---@param x flame.tensor|table
---@param o? table  {create_graph = false}
---@return any
def("jacobian", 3, function(f, x, o)
  local create = options("jacobian", o, { create_graph = false }).create_graph or nested()
  local _ <close> = flame.enable_grad()
  local xs, results = apply("jacobian", f, x, create)
  local out = {}
  for i = 1, results.n do out[i] = like_x(x, jacobians(results[i], xs, create)) end
  return joined(out, results.n)
end, "module")
--- Second derivatives of f, one number: axes of x twice. Several inputs: [input][input].
---@param f function
---@param x flame.tensor|table
---@return any
def("hessian", 2, function(f, x)
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
end, "module")

-- ---- flame.func ---------------------------------------------------------------------------------
local Context = {}
Context.__index = Context
function Context:save(...)
  local saved, origin = table.pack(...), {}
  for i = 1, saved.n do
    if is_tensor(saved[i]) then
      origin[i] = saved[i]
      saved[i] = internal.snapshot(saved[i])
      internal.hold(saved[i])
    end
  end
  self._saved, self._origin = saved, origin
end
--- Forward is done: the saved tensors as a list for the graph to keep, so that the context, which
-- only the collector can end, keeps none. results: position by tensor.
local function hand_over(ctx, results)
  local saved, origin, kept, place, which = ctx._saved, ctx._origin, {}, {}, {}
  for i in pairs(origin or {}) do
    which[i], place[i] = results[origin[i]], #kept + 1
    kept[#kept + 1], saved[i] = saved[i], nil
  end
  ctx._origin, ctx._place, ctx._which = nil, place, which
  return kept
end
--- What was saved. A saved result of forward comes back tracked where the gradient is to have
-- gradients itself, so backward may be written in terms of it.
function Context:saved()
  local s, again = self._saved, self._again
  if not s then return end
  local out = { table.unpack(s, 1, s.n) }
  for i, k in pairs(self._place or {}) do
    if not self._kept then
      fail("func", "ctx:saved() is there in forward and while backward runs")
    end
    local which = again and flame.is_grad_enabled() and self._which[i]
    out[i] = which and again(which, self._kept[k]) or self._kept[k]
  end
  return table.unpack(out, 1, s.n)
end

-- PyTorch's words.
Context.save_for_backward, Context.saved_tensors = Context.save, Context.saved

--- A backward ends, by an error too: what it had for saved() goes.
function Context:__close() self._again, self._kept = nil, nil end

--- Is a gradient of shape 'given' one of 'shape', or of what that broadcasts
--- to? Then its sum is taken.
local function reducible(given, shape)
  for k = 0, #shape - 1 do
    local n = shape[#shape - k]
    if n ~= 1 and n ~= given[#given - k] then return false end
  end
  return #given >= #shape
end
local function check_gradients(name, gradients, shapes)
  for i = 1, gradients.n do
    local g, shape = gradients[i], shapes[i]
    if g and not shape then
      fail(name, "backward gave %d gradients, forward has %d tensors", gradients.n, #shapes)
    elseif g and not is_tensor(g) then
      fail(name, "gradient %d of backward is a %s, need a tensor or nil", i, type(g))
    elseif g and not reducible(g.shape, shape) then
      fail(name, "gradient %d of backward has shape (%s), its tensor (%s)", i,
        table.concat(g.shape, ", "), table.concat(shape, ", "))
    end
  end
end

--- The function that 'spec' describes. backward gives one gradient (or nil) for each tensor
-- argument of forward, in order.
---@param spec table  {name =, forward =, backward =}
---@return function
def("func", 1, function(spec)
  if type(spec) ~= "table" or not internal.callable(spec.forward) then fail("func",
    "need {name =, forward =, backward =}") end
  internal.options("func", spec, { name = "", forward = "", backward = "" })
  local name, proven = spec.name or "func", {}
  local of_script = internal.prove_once and not debug.getinfo(2, "S").source:find("^=%[?flame") and
    not debug.getinfo(2, "S").source:find("lua/flame/", 1, true)
  return function(...)
    local ctx, inputs, args = setmetatable({}, Context), {}, table.pack(...)
    for i = 1, args.n do if is_tensor(args[i]) then inputs[#inputs + 1] = args[i] end end
    local values = table.pack(flame.no_grad(spec.forward, ctx, ...))
    local any = false
    for _, x in ipairs(inputs) do any = any or x.requires_grad end
    if not any or not flame.is_grad_enabled() then return table.unpack(values, 1, values.n) end
    if not internal.callable(spec.backward) then
      fail(name, "has no backward: the result can not be tracked")
    end
    local n, results, like, made, at = values.n, {}, {}, {}, {}
    for i = 1, n do
      if is_tensor(values[i]) then                       -- anything else is given back as it is
        made[#made + 1], at[#at + 1], results[values[i]] = values[i], i, #at + 1
        like[i] = n > 1 and values[i]:detach() or nil    -- forward may return what is tracked
      end
    end
    local shapes = {}                                    -- not the tensors: the graph holds those
    for i, x in ipairs(inputs) do shapes[i] = x.shape end
    local prove = of_script and not proven.func and internal.proof_of_func(name, spec,
      ctx, args, values)
    made = table.pack(internal.custom(made, inputs, function(which, g, again, _, kept)
      local running <close> = ctx
      running._kept = kept
      if prove then internal.prove_once(proven, "func", prove) end
      local seeds = {}
      for k, i in ipairs(at) do seeds[i] = k == which and g or flame.zeros_like(like[i]) end
      ctx._again = again
      local gradients = table.pack(spec.backward(ctx, table.unpack(seeds, 1, n)))
      check_gradients(name, gradients, shapes)
      return table.unpack(gradients, 1, gradients.n)
    end, hand_over(ctx, results)))
    for k, i in ipairs(at) do values[i] = made[k] end
    return table.unpack(values, 1, n)
  end
end, "module")

--- The value y of op, which follows the tensors after it although nothing here knows its gradient:
--- where one of them is tracked, backward raises at y, instead of leaving them out.
function internal.opaque(op, y, ...)
  if not is_tensor(y) or not y:is_floating_point() or not internal.tracked(...) then return y end
  return flame.func {
    name = op,
    forward = function(_, v) return v:clone() end,
    backward = function()
      fail(op, "it has no gradient here\1: detach what it is given, x:detach(), if none is wanted")
    end,
  }(y, ...)
end

--- Of tensors: no gradients, or, with set_to_none = false (also in a table),
--- zeros where there are some.
function internal.zero_grad(op, list, set_to_none)
  if type(set_to_none) == "table" then
    set_to_none = internal.options(op, set_to_none, { set_to_none = true }).set_to_none
  end
  if set_to_none ~= nil then internal.need_flag(op, "set_to_none", set_to_none) end
  for _, p in ipairs(list) do
    if set_to_none ~= false then p.grad = nil
    elseif p.grad then p.grad:zero_() end
  end
end

--- f of the tensors in 'kept' and of 'args' elsewhere, from the state 'rng' of the generator,
-- which is afterwards where it was.
local function again(f, args, kept, rng)
  local now <const> = flame.rng_state()
  local _ <close> = setmetatable({}, { __close = function() flame.rng_state(now) end })
  local _ <close> = flame.enable_grad()
  flame.rng_state(rng)
  local fresh = { table.unpack(args, 1, args.n) }
  for i, x in pairs(kept) do fresh[i] = internal.snapshot(x) end
  return table.pack(f(table.unpack(fresh, 1, args.n)))
end

--- f's results without keeping what is inside: backward runs f again, with the same random numbers.
---@return any
def("checkpoint", 64, function(f, ...)
  need_callable("checkpoint", f)
  if not flame.is_grad_enabled() then return f(...) end
  local args, kept, rng = table.pack(...), {}, flame.rng_state()
  for i = 1, args.n do
    if is_tensor(args[i]) then kept[i] = internal.hold(internal.snapshot(args[i])) end
  end
  local since = internal.sequence()
  -- a tracked argument comes through its copy, as it will again: the gradient goes there
  for i, x in pairs(kept) do if x.requires_grad then args[i] = internal.snapshot(x) end end
  local values, tracked, at = table.pack(f(table.unpack(args, 1, args.n))), {}, {}
  for i = 1, args.n do if kept[i] then args[i] = false end end
  for i = 1, values.n do
    local v = values[i]
    if is_tensor(v) and v.requires_grad and not v.is_leaf then
      tracked[#tracked + 1], at[#at + 1] = v, i
    end
  end
  local made = table.pack(internal.checkpointed(tracked, since, function(which, g, _, gradients)
    local start, y = internal.sequence(), again(f, args, kept, rng)[at[which]]
    local got = is_tensor(y) and "(" .. table.concat(y.shape, ", ") .. ")" or internal.word(y)
    if not is_tensor(y) or got ~= "(" .. table.concat(g.shape, ", ") .. ")" then
      fail("checkpoint", "result %d has shape (%s), and is %s when f runs again", at[which],
        table.concat(g.shape, ", "), got)
    end
    return gradients(y, g, start)
  end))
  for k, i in ipairs(at) do values[i] = made[k] end
  return table.unpack(values, 1, values.n)
end, "module")
