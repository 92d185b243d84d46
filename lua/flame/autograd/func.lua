--- flame.func: functions of the script with their own gradients.
local flame = require "flame"
local internal = flame.internal
local arguments = require "flame.base.arguments"
local autocast = require "flame.base.autocast"
local parts = require "flame.autograd.parts"
local recording = require "flame.base.recording"
local fail, def = arguments.fail, arguments.def
local is_tensor = flame.is_tensor

--- noting: false or, while tools/swap.lua notes ops, what makes calls of flame.func's functions.
local func = { noting = false }

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
--- Called after forward: moves the saved tensors from the context, which only the garbage collector
--- frees, to a list that the graph keeps. results: each result of forward -> its position.
local function hand_over(ctx, results)
  local saved, origin, kept, place, which = ctx._saved, ctx._origin, {}, {}, {}
  for i in pairs(origin or {}) do
    which[i], place[i] = results[origin[i]], #kept + 1
    kept[#kept + 1], saved[i] = saved[i], nil
  end
  ctx._origin, ctx._place, ctx._which = nil, place, which
  return kept
end
--- The values that forward saved. If the gradient is differentiated again, a saved result of
--- forward is tracked, so backward may compute with it.
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

--- Called when a backward ends, also by an error: releases the values that saved() returned.
function Context:__close() self._again, self._kept = nil, nil end

--- Does 'shape' broadcast to 'given', so that a gradient of shape 'given' can be summed to it?
local function reducible(given, shape)
  for k = 0, #shape - 1 do
    local n = shape[#shape - k]
    if n ~= 1 and n ~= rawget(given, #given - k) then return false end
  end
  return #given >= #shape
end
-- Checks what backward returned: a missing value raises; an explicit nil means "no gradient".
local function check_gradients(name, gradients, shapes)
  if gradients.n < #shapes then
    fail(name, "backward gave %d values, forward has %d tensors\1: return one for each, nil" ..
      " where there is no gradient", gradients.n, #shapes)
  end
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

--- A function with its own gradient: func {forward =, backward =}. backward gives one gradient
--- (or nil) for each tensor argument of forward, in order.
def('.func(*, name = "func", forward: fn, backward?: fn) -> fn', function(name, forward, backward)
  local spec, proven = { name = name, forward = forward, backward = backward }, {}
  local of_script = internal.checks_gradients()
    and not debug.getinfo(2, "S").source:find("^=%[?flame") and
    not debug.getinfo(2, "S").source:find("lua/flame/", 1, true)
  local function call(...)
    local ctx, inputs, args = setmetatable({}, Context), {}, table.pack(...)
    for i = 1, args.n do if is_tensor(args[i]) then inputs[#inputs + 1] = args[i] end end
    local values = table.pack(flame.no_grad(forward, ctx, ...))
    local any = false
    for _, x in ipairs(inputs) do any = any or x.requires_grad end
    if not any or not flame.is_grad_enabled() then return table.unpack(values, 1, values.n) end
    if not backward then fail(name, "has no backward: the result can not be tracked") end
    local n, results, like, made, at = values.n, {}, {}, {}, {}
    for i = 1, n do
      if is_tensor(values[i]) then                       -- anything else is returned unchanged
        made[#made + 1], at[#at + 1], results[values[i]] = values[i], i, #at + 1
        like[i] = n > 1 and values[i]:detach() or nil    -- forward may return what is tracked
      end
    end
    local shapes = {}                                    -- not the tensors: the graph holds those
    for i, x in ipairs(inputs) do shapes[i] = x.shape end
    local prove = of_script and not proven.func and require("flame.tools.proof").of_func(name, spec,
      ctx, args, values)
    made = table.pack(internal.custom(made, inputs, function(which, g, again, _, kept)
      local running <close> = ctx
      running._kept = kept
      if prove then require("flame.tools.proof").once(proven, "func", prove) end
      local seeds = {}
      for k, i in ipairs(at) do seeds[i] = k == which and g or flame.zeros_like(like[i]) end
      ctx._again = again
      local gradients = table.pack(backward(ctx, table.unpack(seeds, 1, n)))
      check_gradients(name, gradients, shapes)
      return table.unpack(gradients, 1, gradients.n)
    end, hand_over(ctx, results)))
    for k, i in ipairs(at) do values[i] = made[k] end
    return table.unpack(values, 1, n)
  end
  return function(...)
    if func.noting then return func.noting(name, call, ...) end      -- tools/swap.lua
    return call(...)
  end
end)

--- y, a result of op that depends on the tensors '...' but has no known gradient with respect to
--- them: if one of them is tracked, backward raises at y instead of ignoring the dependence.
function func.opaque(op, y, ...)
  if not is_tensor(y) or not y:is_floating_point() or not recording.tracked(...) then return y end
  return flame.func {
    name = op,
    forward = function(_, v) return v:clone() end,
    backward = function()
      fail(op, "it has no gradient here\1: detach what it is given, x:detach(), if none is wanted")
    end,
  }(y, ...)
end

--- Removes the gradients of tensors; with set_to_none = false sets existing ones to zero.
function func.zero_grad(list, set_to_none)
  if set_to_none then
    local bad = internal.clear_grads(list)
    if bad then list[bad].grad = nil end                        -- raises
  end
  if set_to_none and next(parts.of) == nil then return end
  for _, p in ipairs(list) do
    if not set_to_none and p.grad then p.grad:zero_() end
    parts.clear(p, set_to_none)
  end
end

--- Runs f with the tensors in 'kept' and, at the other positions, the values in 'args'. The random
--- generator starts from the state 'rng'; the script's state is restored afterwards.
local function again(f, args, kept, rng)
  local now <const> = flame.rng_state()
  local _ <close> = setmetatable({}, { __close = function() flame.rng_state(now) end })
  local _ <close> = flame.enable_grad()
  flame.rng_state(rng)
  local fresh = { table.unpack(args, 1, args.n) }
  for i, x in pairs(kept) do fresh[i] = internal.snapshot(x) end
  return table.pack(f(table.unpack(fresh, 1, args.n)))
end

--- f's results, without keeping intermediate values for backward, which runs f again, with the same
--- random numbers.
def(".checkpoint(f: fn, ...) -> ...", function(f, ...)
  if not flame.is_grad_enabled() then return f(...) end
  f = autocast.with_casts(f)
  local args, kept, rng = table.pack(...), {}, flame.rng_state()
  for i = 1, args.n do
    if is_tensor(args[i]) then kept[i] = internal.hold(internal.snapshot(args[i])) end
  end
  local since = internal.sequence()
  -- in both runs f gets copies of tracked arguments: backward returns the gradients of the copies
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
    local got = is_tensor(y) and "(" .. table.concat(y.shape, ", ") .. ")" or arguments.word(y)
    if not is_tensor(y) or got ~= "(" .. table.concat(g.shape, ", ") .. ")" then
      fail("checkpoint", "result %d has shape (%s), and is %s when f runs again", at[which],
        table.concat(g.shape, ", "), got)
    end
    return gradients(y, g, start)
  end))
  for k, i in ipairs(at) do values[i] = made[k] end
  return table.unpack(values, 1, values.n)
end)

--- net(…) with other values: during the call the values of the table replace the network's
--- parameters and buffers of the same names, and gradients go to these values. A shared parameter
--- is replaced in all its places.
def(".functional_call(net: any, values: any, ...) -> ...", function(...)
  require "flame.nn"
  return internal.functional_call(...)
end)

return func
