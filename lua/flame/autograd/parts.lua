--- Parameters that are divided among processes, as data_parallel{shard = true} leaves them. Of such
-- a parameter this process has the summed gradient of its part of the elements alone, and .grad is
-- nil; an optimiser steps that part, whose state is all that it keeps, and all processes get the
-- new values of all.
--
-- parts.of[p] is a part, or nil: {shape = p.shape; all = its elements; first =, count =: those of
-- p:reshape(-1) that are this process's; grad = their gradient, nil: there is none; value = their
-- new value, from the update until all processes have it; group = what the processes do together:
-- each calls the same in the same order}. A group has total(op, x, reduce), the x of all processes
-- reduced; whole(part, x), the parts of all joined, in p's shape; spread(list), which gives
-- parameters the values of all parts.
local flame = require "flame"
local internal = flame.internal

local of = setmetatable({}, { __mode = "k" })
local parts = { of = of }

local function text_of(shape) return "(" .. table.concat(shape, ", ") .. ")" end

--- Sets part.grad or part.value, which lives until it is replaced, whichever scopes end.
local function set(part, name, x)
  local _ <close> = part[name]
  part[name] = x and internal.hold(x)
end

--- This process's elements of x, which has the shape of the parameter.
local function cut(part, x) return x:reshape(-1):narrow(1, part.first, part.count) end

--- The gradient of p, or of its part.
function parts.gradient(op, p)
  local part, g = of[p], p.grad
  if not part then return g end
  if g then
    internal.fail(op, ("a gradient of shape %s is of this rank alone\1: let the last backward before"
      .. " it be outside of no_sync, and leave .grad to it"):format(text_of(p.shape)))
  end
  return part.grad
end

--- Adds a gradient of p's part.
function parts.add(p, g)
  local part = of[p]
  set(part, "grad", part.grad and part.grad + g or g)
end

--- What zero_grad does to p, in addition to its .grad.
function parts.clear(p, set_to_none)
  local part = of[p]
  if not part or not part.grad then return end
  if set_to_none ~= false then set(part, "grad") else part.grad:zero_() end
end

--- What a step updates: p and its gradient, or its part of both, and the part.
function parts.take(p)
  local part = of[p]
  if not part then return p, p.grad end
  set(part, "value")
  local g = parts.gradient("step", p)
  if not g then return p end
  set(part, "value", cut(part, p:detach()):clone())
  return part.value, g, part
end

--- Called when the step has recorded the part's new value: the gradient is used up.
function parts.use_up(part) set(part, "grad") end

--- Cuts an optimiser's state for a whole parameter, as a checkpoint has it, to the part: all values
--- that have the parameter's shape. State of the part is unchanged.
function parts.settle(part, state)
  if part.count == part.all and #part.shape == 1 then return end      -- the part is the whole
  for name, x in pairs(state) do
    if flame.is_tensor(x) and x.ndim == #part.shape and x:numel() == part.all
      and x:is_floating_point() then
      state[name] = internal.hold(cut(part, x):clone())
    end
  end
end

--- The state of the whole parameter, on the CPU: all processes get it, and call this.
function parts.whole(p, state)
  local part, names, out = of[p], {}, {}
  if not part then return state end
  parts.settle(part, state)
  for name in pairs(state) do names[#names + 1] = name end
  table.sort(names)
  for _, name in ipairs(names) do
    local x = state[name]
    out[name] = x
    if flame.is_tensor(x) and x:is_floating_point() and x.ndim == 1 then
      out[name] = part.group.whole(part, x):to("cpu")
      flame.eval(out[name])                      -- one at a time on the GPU
    end
  end
  return out
end

--- The sum, or the maximum, over all processes of what was computed of parts of these parameters;
--- x itself where none of them is shared out.
function parts.total(op, params, x, reduce)
  for _, p in ipairs(params) do
    if of[p] then return of[p].group.total(op, x, reduce) end
  end
  return x
end

--- Called after the parts of these parameters were stepped: gives all processes all values.
function parts.spread(params)
  local groups, lists = {}, {}
  for _, p in ipairs(params) do
    local part = of[p]
    if part and part.value then
      local list = lists[part.group]
      if not list then
        list = {}
        groups[#groups + 1], lists[part.group] = part.group, list
      end
      list[#list + 1] = p
    end
  end
  for _, group in ipairs(groups) do group.spread(lists[group]) end
  for _, list in pairs(lists) do
    for _, p in ipairs(list) do set(of[p], "value") end
  end
end

return parts
