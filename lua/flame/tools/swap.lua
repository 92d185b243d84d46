--- Replaces an op by another function (flame.use), and finds where two computations first differ
--- (flame.compare, flame.bisect). Functions in flame, methods of tensors and their operators can be
--- replaced while a script runs: flame.use replaces one by a function of the script, a comparison
--- replaces all by functions that note arguments and results. Calls that library functions make
--- through locals or in C are attributed to the op that the script called.
local flame = require "flame"
local internal = flame.internal
local methods = internal.methods
local func = require "flame.autograd.func"
local arguments = require "flame.base.arguments"
local fail, def, is_tensor = arguments.fail, arguments.def, flame.is_tensor
local here, metamethod = internal.here, internal.metamethod

internal.load()              -- all files: one loaded during a swap would keep the replacement

local operators = { add = "__add", sub = "__sub", mul = "__mul", div = "__div", pow = "__pow",
  mod = "__mod", floordiv = "__idiv", neg = "__unm" }
local before_swap = { __add = "add", __sub = "sub", __mul = "mul", __div = "div", __pow = "pow",
  __mod = "mod", __idiv = "floordiv", __unm = "neg" }

--- The places of an op: a list of {get =, set =}, one for each table that holds it.
local function places_of(name)
  local list = {}
  for _, t in ipairs { flame, methods } do
    if type(rawget(t, name)) == "function" then
      list[#list + 1] = { get = function() return rawget(t, name) end,
        set = function(f) rawset(t, name, f) end }
    end
  end
  local operator = operators[name]
  if operator then
    list[#list + 1] = { get = function() return metamethod(operator) end,
      set = function(f) metamethod(operator, f) end }
  end
  return list
end

-- ---- one op by another -----------------------------------------------------------------------
local Swap = { __name = "flame.use" }
Swap.__index = Swap
-- op -> its active swap, whose field 'below' is the swap that it replaced
local swapped = {}

--- Restores the op from before the swap; later swaps of the same op end as well.
function Swap:close()
  if not self.on then return end
  local top = swapped[self.op]
  while top ~= self do top:close() top = swapped[self.op] end
  for _, place in ipairs(self.places) do place.set(place.old) end
  self.on, swapped[self.op] = false, self.below
end
Swap.__close = Swap.close
function Swap:__tostring()
  return ("flame.use(%q), %s"):format(self.op, self.on and "on" or "closed")
end

--- From now on reference is called in place of the op: in flame, as a method and as an operator, in
--- scripts and in the library's layers. Within reference the op is the original one, so it may be
--- called. The swap ends when it is closed: local swap <close> = flame.use("gelu", f), or
--- swap:close().
def(".use(op: str, reference: fn) -> Guard", function(op, reference)
  local places, busy = places_of(op), false
  if #places == 0 then
    fail("use", "there is no op '%s'; name a function of flame or a method of tensors", op)
  end
  for _, place in ipairs(places) do
    local old = place.get()
    local function leave() busy = false end
    local ending = setmetatable({}, { __close = leave })
    place.old = old
    place.set(function(...)
      if busy then return old(...) end
      local _ <close> = ending
      busy = true
      return reference(...)
    end)
  end
  local self = setmetatable({ op = op, places = places, on = true, below = swapped[op] }, Swap)
  swapped[op] = self
  return self
end)

-- ---- what ran --------------------------------------------------------------------------------
--- Functions whose calls are not noted: they compute nothing, or call functions of the script, in
--- which ops are noted.
local not_ops = {}
for name in ([[eval is_tensor no_grad enable_grad inference_mode scope profile use compare bisect
  backward gradients register_hook retain_grad requires_grad_ detach to_dlpack help why timer
  grad vmap checkpoint leakcheck summary info memory stats graph allclose equal
  item totable tolist print size dim numel stride]]):gmatch("%S+") do not_ops[name] = true end

--- A note of a tensor: its current value; its gradient is added when backward computes it.
local function note_of(y, trace)
  local note = { value = y:detach() }
  if trace.eager then flame.eval(y) end
  if trace.gradients and y.requires_grad and not y.is_leaf then
    y:register_hook(function(g) note.gradient = g:detach() end)
  end
  return note
end

local function enter(trace, entry, ...)
  entry.inputs, entry.given, entry.notes = table.pack(...), {}, {}
  entry.layer = trace.layers[#trace.layers]
  for i = 1, entry.inputs.n do                    -- their values now, before a later write
    local x = entry.inputs[i]
    if is_tensor(x) then entry.given[i] = x:detach() end
  end
end

local function leave(trace, entry, ...)
  entry.outputs = table.pack(...)
  for i = 1, entry.outputs.n do
    local y = entry.outputs[i]
    if is_tensor(y) then entry.notes[#entry.notes + 1] = note_of(y, trace) end
  end
  if #entry.notes > 0 then trace[#trace + 1] = entry end
  return ...
end

--- Calls f and notes the call, unless it is made inside another noted call.
local function call_noted(trace, name, f, ...)
  if trace.depth > 0 or not trace.on then return f(...) end
  trace.depth = 1
  local _ <close> = trace.ending
  local entry = { op = name, line = here() }
  enter(trace, entry, ...)
  return leave(trace, entry, f(...))
end

local function noted(trace, name, f)
  return function(...) return call_noted(trace, name, f, ...) end
end

--- Replaces all ops by functions that note their calls; returns a function that restores them.
local function watch_ops(trace)
  local old = {}
  for _, t in ipairs { flame, methods } do
    old[t] = {}
    for name, f in pairs(t) do
      if type(name) == "string" and type(f) == "function" and not not_ops[name] then
        old[t][name] = f
      end
    end
    for name, f in pairs(old[t]) do rawset(t, name, noted(trace, name, f)) end
  end
  local signs = {}
  for operator, name in pairs(before_swap) do
    signs[operator] = metamethod(operator)
    metamethod(operator, noted(trace, name, signs[operator]))
  end
  local launch, noting = internal.kernel_call(), func.noting
  internal.kernel_call(function(k, ...)
    return call_noted(trace, (tostring(k):gsub("^flame%.", "")), launch, k, ...)
  end)
  func.noting = function(...) return call_noted(trace, ...) end
  return function()
    for t, list in pairs(old) do for name, f in pairs(list) do rawset(t, name, f) end end
    for operator, f in pairs(signs) do metamethod(operator, f) end
    internal.kernel_call(launch)
    func.noting = noting
  end
end

local function is_module(f) return type(f) == "table" and f.named_modules ~= nil end

--- Also notes the calls of f's layers; returns a list of hooks to remove.
local function watch_layers(trace, f)
  local hooks = {}
  for name, module in f:named_modules() do
    if name ~= "" then
      local entries = {}
      hooks[#hooks + 1] = module:register_forward_pre_hook(function(m, args)
        local entry = { layer_name = name, class = getmetatable(m).__name }
        entries[#entries + 1] = entry
        enter(trace, entry, table.unpack(args, 1, args.n))
        trace.layers[#trace.layers + 1] = name
      end)
      hooks[#hooks + 1] = module:register_forward_hook(function(_, _, y)
        trace.layers[#trace.layers] = nil
        trace.on = false
        leave(trace, table.remove(entries), y)
        trace.on = true
      end)
    end
  end
  return hooks
end

-- ---- one side of a comparison ----------------------------------------------------------------
--- Appends the tensors and numbers in v to the list in a fixed order, named "2", "2.logits".
local function flatten(v, name, list)
  if is_tensor(v) then list[#list + 1] = { name = name, x = v }
  elseif type(v) == "number" then
    list[#list + 1] = { name = name, x = flame.tensor(v, { dtype = "f64" }) }
  elseif type(v) == "table" then
    local keys = {}
    for k in pairs(v) do keys[#keys + 1] = k end
    table.sort(keys, function(a, b) return tostring(a) < tostring(b) end)
    for _, k in ipairs(keys) do
      flatten(v[k], (name == "" and "" or name .. ".") .. tostring(k), list)
    end
  end
  return list
end

--- The inputs for one side: copies in its device and dtype; with o.backward floats become leaves.
local function arguments_of(inputs, o, leaves)
  local args = { n = inputs.n }
  for i = 1, inputs.n do
    local x = inputs[i]
    if is_tensor(x) then
      x = x:detach():clone()
      if o.device then x = x:to(o.device) end
      if x:is_floating_point() then
        if o.dtype then x = x:to(o.dtype) end
        if o.backward then
          x = x:detach():requires_grad_(true)
          leaves[#leaves + 1] = { name = "input " .. i, x = x }
        end
      end
    end
    args[i] = x
  end
  return args
end

--- The seed for the backward of output y: different numbers, the same on both sides.
local function seed_of(y)
  local n = y:numel()
  return (flame.arange(n, { dtype = "f64" }) * 0.7310585):sin():reshape(y.shape):to(y.dtype)
    :to(y.device)
end

local function gradients_of(outputs, leaves)
  local ys, seeds, xs = {}, {}, {}
  for _, y in ipairs(outputs) do
    if y.x.requires_grad then ys[#ys + 1], seeds[#seeds + 1] = y.x, seed_of(y.x) end
  end
  for i, leaf in ipairs(leaves) do xs[i] = leaf.x end
  if #ys == 0 or #xs == 0 then return end
  local grads = internal.gradients(ys, seeds, xs, { strict = false })
  for i, leaf in ipairs(leaves) do leaf.gradient = grads[i] or nil end
end

--- A function that restores the module's buffers as they are now, since a module in training
--- changes them.
local function keep_buffers(f)
  local kept = {}
  if is_module(f) then
    for _, b in f:named_buffers() do kept[#kept + 1] = { b, b:detach():clone() } end
  end
  return function()
    local _ <close> = flame.no_grad()
    for _, pair in ipairs(kept) do pair[1]:copy_(pair[2]) end
  end
end

--- Runs f on the inputs: its outputs, and leaves with gradients. trace: where calls are noted.
local function run(f, inputs, o, trace)
  local leaves, side = {}, { leaves = nil }
  local args = arguments_of(inputs, o, leaves)
  if is_module(f) and o.backward then
    for name, p in f:named_parameters() do
      if p.requires_grad then leaves[#leaves + 1] = { name = name, x = p } end
    end
  end
  local restore, unwatch, hooks = keep_buffers(f), nil, {}
  if trace then
    if is_module(f) then hooks = watch_layers(trace, f) end
    unwatch = watch_ops(trace)
  end
  local ok, why = pcall(function()
    if trace then trace.on = true end
    local results = table.pack(f(table.unpack(args, 1, args.n)))
    if trace then trace.on = false end
    side.outputs = flatten({ table.unpack(results, 1, results.n) }, "", {})
  end)
  if unwatch then unwatch() end
  for _, hook in ipairs(hooks) do hook.remove() end
  restore()
  if not ok then error(why, 0) end
  if o.backward then gradients_of(side.outputs, leaves) end
  side.leaves = leaves
  return side
end

-- ---- what differs ----------------------------------------------------------------------------
local close_to = { f64 = 1e-9, f32 = 1e-4, f16 = 1e-2, bf16 = 3e-2 }
local order = { "bf16", "f16", "f32" }

--- rtol and atol for tensors a and b: as given, else by the coarser dtype and the largest value.
local function tolerance(a, b, o)
  if o.bits then return 0, 0 end
  local dtype = "f64"
  for _, name in ipairs(order) do
    if a.dtype == name or b.dtype == name then dtype = name break end
  end
  local rtol = o.rtol or (a:is_floating_point() and close_to[dtype] or 0)
  if o.atol then return rtol, o.atol end
  local large = b:detach():cpu():double():abs()
  large = flame.where(large:isfinite(), large, 0.0)
  return rtol, o.rtol and 1e-8 or rtol * (large:numel() > 0 and large:amax():item() or 0)
end

--- nil if tensors a and b agree within o's tolerance; else a text on how they differ.
local function differ(a, b, o)
  if not a or not b then
    return a ~= b and ("there is one on the %s side alone"):format(a and "first" or "second") or nil
  end
  local s, t = table.concat(a.shape, ", "), table.concat(b.shape, ", ")
  if s ~= t then return ("shapes (%s) and (%s)"):format(s, t) end
  if o.bits and a.dtype ~= b.dtype then return ("dtypes %s and %s"):format(a.dtype, b.dtype) end
  if a:numel() == 0 then return nil end
  local rtol, atol = tolerance(a, b, o)
  local x, y = a:detach():cpu():double(), b:detach():cpu():double()
  local same, where = x:allclose(y, { rtol = rtol, atol = atol, equal_nan = true })
  if not same then return where end
  if not o.bits or not a:is_floating_point() then return nil end
  local signs = x:signbit():ne(y:signbit()):logical_and(x:isnan():logical_not())
  return signs:any():item() and "zeros of different sign" or nil
end

--- The first output or gradient that differs: its name in a text, how it differs, and the leaf's
--- name for a gradient. nil: none differs.
local function outer_difference(p, q, o)
  if #p.outputs ~= #q.outputs then
    return "the number of outputs", ("%d and %d"):format(#p.outputs, #q.outputs)
  end
  for i, y in ipairs(p.outputs) do
    local how = differ(y.x, q.outputs[i].x, o)
    if how then return "forward: output " .. y.name, how end
  end
  local others = {}
  for _, leaf in ipairs(q.leaves) do others[leaf.name] = leaf end
  for _, leaf in ipairs(p.leaves) do
    local other = others[leaf.name]
    local how = other and differ(leaf.gradient, other.gradient, o)
    if how then return "backward: the gradient of " .. leaf.name, how, leaf.name end
  end
end

local function title(e)
  if e.layer_name then return ("layer %s (%s)"):format(e.layer_name, e.class) end
  return ("%s at %s%s"):format(e.op, e.line, e.layer and " in layer " .. e.layer or "")
end

--- Pairs of calls noted on both sides: all if the same ops ran, else those of equally named layers.
local function pairs_of(p, q)
  local list, same = {}, #p == #q
  for i, e in ipairs(p) do
    local g = q[i]
    same = same and g.op == e.op and g.layer_name == e.layer_name
    list[i] = { e, g }
  end
  if same then return list, true end
  local named = {}
  for _, g in ipairs(q) do
    if g.layer_name then
      named[g.layer_name] = named[g.layer_name] or {}
      table.insert(named[g.layer_name], g)
    end
  end
  list = {}
  for _, e in ipairs(p) do
    local g = e.layer_name and named[e.layer_name] and table.remove(named[e.layer_name], 1)
    if g then list[#list + 1] = { e, g } end
  end
  return list, false
end

--- The index of the first pair with different values, and how they differ; names: leaf -> its name
--- in that text.
local function first_value(list, o, names)
  for i, pair in ipairs(list) do
    for k = 1, pair[1].inputs.n do
      local x = pair[1].given[k]
      local how = x and differ(x, pair[2].given[k], o)
      if how then
        local name = names[pair[1].inputs[k]]
        return i, ("its argument %d%s differs already: %s"):format(k,
          name and " (" .. name .. ")" or "", how)
      end
    end
    for k, note in ipairs(pair[1].notes) do
      local other = pair[2].notes[k]
      local how = differ(note.value, other and other.value, o)
      if how then return i, how end
    end
  end
end

--- The ops (or layers, if only these were noted) that read the tensor, the last first. If its
--- gradient is wrong, one of them has a wrong backward.
local function readers_of(list, tensor)
  local names, layers = {}, {}
  for i = #list, 1, -1 do
    local e = list[i][1]
    for k = 1, e.inputs.n do
      if rawequal(e.inputs[k], tensor) then
        local into = e.layer_name and layers or names
        into[#into + 1] = title(e)
        break
      end
    end
  end
  return #names > 0 and names or layers
end

--- The first difference in the order of backward, as a text: a result with different gradients, and
--- the ops that read it, of which one has a wrong backward.
local function first_gradient(list, o)
  for i = #list, 1, -1 do
    local e, g = list[i][1], list[i][2]
    for k, note in ipairs(e.notes) do
      local other = g.notes[k]
      local how = note.gradient and other and other.gradient
        and differ(note.gradient, other.gradient, o)
      local y = nil
      for j = 1, e.outputs.n do y = y or (is_tensor(e.outputs[j]) and e.outputs[j]) end
      local readers = how and y and readers_of(list, y) or {}
      if how and #readers > 0 then return table.concat(readers, " or "), how end
    end
  end
end

local function new_trace(o, eager)
  local trace = { depth = 0, layers = {}, gradients = o.backward, eager = eager, on = false }
  trace.ending = setmetatable({}, { __close = function() trace.depth = 0 end })
  return trace
end

--- What reads the leaf of this name, found by its tensor on the first side.
local function readers_of_leaf(list, side, name)
  for _, leaf in ipairs(side.leaves) do
    if leaf.name == name then return table.concat(readers_of(list, leaf.x), " or ") end
  end
  return ""
end

--- Runs f and g again, noting calls, and says in a sentence where they first differ.
local function locate(f, g, inputs, o, outer, how, leaf)
  local p, q = new_trace(o, false), new_trace(o, o.eager)
  local seed = flame.rng_state()
  local first = run(f, inputs, o.left, p)
  flame.rng_state(seed)
  run(g, inputs, o.right, q)
  local list = pairs_of(p, q)
  local names = {}
  for _, l in ipairs(first.leaves) do names[l.x] = l.name end
  local i, what = first_value(list, o, names)
  if i then
    return ("forward: %s, number %d of %d, is the first that differs: %s"):format(
      title(list[i][1]), i, #list, what)
  end
  if outer:find "^forward" then return ("%s differs: %s"):format(outer, how) end
  local reader, gradient = first_gradient(list, o)
  if reader then
    return ("backward of %s is the first that differs: %s"):format(reader, gradient)
  end
  local by = leaf and readers_of_leaf(list, first, leaf) or ""
  if by ~= "" then
    return ("backward of %s is the first that differs, in %s: %s"):format(by,
      (outer:gsub("^backward: ", "")), how)
  end
  return ("%s differs: %s"):format(outer, how)
end

--- f for the other side: a module is copied to that side's device and dtype.
local function other_side(f, device, dtype)
  if not is_module(f) or not (device or dtype) then return f end
  local g = f:clone()
  if device then g:to(device) end
  if dtype then g:to(dtype) end
  return g
end

local function compared(f, g, inputs, o)
  inputs = is_tensor(inputs) and { inputs, n = 1 } or table.pack(table.unpack(inputs))
  o.left = { backward = o.backward }
  o.right = { backward = o.backward, device = o.device, dtype = o.dtype }
  g = other_side(g or f, o.device, o.dtype)
  local seed = flame.rng_state()
  local p = run(f, inputs, o.left)
  if #p.outputs == 0 then fail("compare", "f gave no tensor and no number to compare") end
  flame.rng_state(seed)
  local q = run(g, inputs, o.right, o.eager and new_trace({}, true) or nil)
  flame.rng_state(seed)
  local outer, how, leaf = outer_difference(p, q, o)
  if not outer then return true end
  local where = locate(f, g, inputs, o, outer, how, leaf)
  flame.rng_state(seed)
  return false, where
end

--- Do f and g give the same on these inputs (a tensor, or a list of arguments), and the same
--- gradients? If not, the second result names the first op or layer that differs, in forward or
--- backward, with its line, and says where and by how much; so assert(flame.compare(…)) does. f and
--- g are functions, modules or kernels; where both run the same ops, or have layers of the same
--- names, these are compared one by one. Without g f is compared with itself: on another device, in
--- another dtype (a module is copied there), or with eager = true, where each op is computed when
--- it is recorded. bits: requires equal bits; otherwise rtol and atol apply, which follow from the
--- coarser dtype and the largest value.
def([[.compare(f: fn, g?: fn, inputs: T|table, *, rtol?: num, atol?: num, bits = false,
    backward = true, eager = false, device?: device, dtype?: dtype) -> same: bool, where: str]],
function(f, g, inputs, rtol, atol, bits, backward, eager, device, dtype)
  return compared(f, g, inputs, { rtol = rtol, atol = atol, bits = bits, backward = backward,
    eager = eager, device = device, dtype = dtype })
end)

--- The first two calls, of layers of the same name in model and reference, that differ: both, how
--- they differ, the number of this pair and of all. nil: none.
local function first_layer(model, reference, batch, o)
  local p, q = new_trace({}), new_trace({})
  local seed = flame.rng_state()
  run(model, batch, {}, p)
  flame.rng_state(seed)
  run(reference, batch, {}, q)
  flame.rng_state(seed)
  local layers = {}
  for k, trace in ipairs { p, q } do
    layers[k] = {}
    for _, e in ipairs(trace) do if e.layer_name then table.insert(layers[k], e) end end
  end
  local list = pairs_of(layers[1], layers[2])
  if #list == 0 then
    fail("bisect", "no layer of the model has the name of one of the reference")
  end
  local i, how = first_value(list, o, {})
  if i then return list[i][1], list[i][2], how, i, #list end
end

local function module_at(model, name)
  for k, m in model:named_modules() do if k == name then return m end end
end

--- Finds where a model first differs from its reference on a batch (a tensor, or a list of
-- arguments): the first layer, among the names that both have, with a different result. That layer
-- is then run on the arguments of the reference's layer and compared with it: this tells which of
-- its ops differs, or that only its arguments differ. Without a difference in forward, gradients
-- are compared. Returns true, or false and what was found as a sentence.
def([[.bisect(model: table, reference: table, batch: T|table, *, rtol?: num, atol?: num,
    bits = false, backward = true) -> same: bool, where: str]],
function(model, reference, batch, rtol, atol, bits, backward)
  local o = { rtol = rtol, atol = atol, bits = bits, backward = backward }
  for name, m in pairs { model = model, reference = reference } do
    if not is_module(m) then fail("bisect", "%s is a table, need a module", name) end
  end
  local inputs = is_tensor(batch) and { batch, n = 1 } or table.pack(table.unpack(batch))
  local e, g, how, i, n = first_layer(model, reference, inputs, o)
  if not e then return compared(model, reference, batch, o) end
  local args = {}
  for k = 1, g.inputs.n do
    args[k] = is_tensor(g.inputs[k]) and g.inputs[k]:detach() or g.inputs[k]
  end
  local same, where = compared(module_at(model, e.layer_name), module_at(reference, e.layer_name),
    args, { rtol = rtol, atol = atol, bits = bits, backward = false })
  return false, ("%s, number %d of %d, is the first that differs: %s; %s"):format(title(e), i, n,
    how, same and "on the reference's inputs it agrees: look at what it is given"
    or "on the reference's inputs " .. where)
end)
