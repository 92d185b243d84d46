--- Parameters that are divided among processes, as data_parallel{shard = true} leaves them. Each
-- process has the values of the whole parameter, but the summed gradient of one part of its
-- elements alone, and .grad is nil. An optimiser updates this part and keeps state for it alone;
-- then all processes exchange the new values.
--
-- parts.of[p] describes this process's part of a divided parameter p: {shape = p.shape; all = the
-- number of p's elements; first =, count =: the part, a range of p:reshape(-1); grad = its gradient
-- or nil; value = its new value, from the update until all processes have it; group = collectives,
-- which all processes call in the same order}. A group has total(op, x, reduce), which reduces the
-- x of all processes; whole(part, x), which joins all processes' parts to a tensor in p's shape;
-- spread(list), which gives parameters the new values of all parts.
local flame = require "flame"
local internal = flame.internal

local of = setmetatable({}, { __mode = "k" })
local parts = { of = of }

local function text_of(shape) return "(" .. table.concat(shape, ", ") .. ")" end

--- Sets part.grad or part.value to x or nil, and releases the old one; scopes do not release x.
local function set(part, name, x)
  local _ <close> = part[name]
  part[name] = x and internal.hold(x)
end

--- The elements of this process's part, from a tensor x in the parameter's shape.
local function cut(part, x) return x:reshape(-1):narrow(1, part.first, part.count) end

--- p.grad, or for a divided p the gradient of this process's part.
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

--- zero_grad for the gradient of this process's part of p, if p is divided.
function parts.clear(p, set_to_none)
  local part = of[p]
  if not part or not part.grad then return end
  if set_to_none then set(part, "grad") else part.grad:zero_() end
end

--- p and its gradient or, if p is divided and has one, this process's parts, and parts.of[p].
function parts.take(p)
  local part = of[p]
  if not part then return p, p.grad end
  set(part, "value")
  local g = parts.gradient("step", p)
  if not g then return p end
  set(part, "value", cut(part, p:detach()):clone())
  return part.value, g, part
end

--- Drops the part's gradient, after the optimiser's step has recorded the part's new value.
function parts.use_up(part) set(part, "grad") end

--- Cuts an optimiser's state of a whole parameter, as a checkpoint has it, to this process's part:
--- every tensor in the parameter's shape. State that is of the part already stays as it is.
function parts.settle(part, state)
  if part.count == part.all and #part.shape == 1 then return end      -- the part is the whole
  for name, x in pairs(state) do
    if flame.is_tensor(x) and x.ndim == #part.shape and x:numel() == part.all
      and x:is_floating_point() then
      state[name] = internal.hold(cut(part, x):clone())
    end
  end
end

--- Joins all parts' optimiser state to that of the whole p, on the CPU. All processes must call it.
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

--- The sum, or the maximum, over all processes of an x that each computed from its parts of these
--- parameters; x itself if none of the parameters is divided.
function parts.total(op, params, x, reduce)
  for _, p in ipairs(params) do
    if of[p] then return of[p].group.total(op, x, reduce) end
  end
  return x
end

--- Called after an optimiser's step on parts of params: all processes get all parts' new values.
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
