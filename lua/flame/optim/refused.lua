--- Steps of optimisers that are refused. Numbers of a state (the count of steps, a product of
-- momenta) change when a step is recorded, tensors when it is evaluated. If a parameter's write
-- is refused then, or its update raises, its numbers are restored: bias corrections are those of
-- the steps that were made.
local flame = require "flame"
local internal = flame.internal

local refused = {}

local function numbers_of(state)
  local out = {}
  for key, v in pairs(state) do if type(v) == "number" then out[key] = v end end
  return out
end

local function restore(state, numbers)
  for key, v in pairs(state) do if type(v) == "number" then state[key] = numbers[key] end end
  if state.count then flame.no_grad(state.count.fill_, state.count, state.step) end
end

--- The step has raised: restores the numbers of the parameters that it has not written.
--- taken.late: the error was found after the step's end; then all of its writes on a device are
--- refused, or none.
function refused.take_back(taken)
  local opt, made, whole, any = taken.opt, 0, {}, not taken.late
  for _, x in ipairs(taken.late and taken.changed or {}) do
    if internal.was_refused(x) then whole[tostring(x.device)], any = true, true end
  end
  if not any then return end
  opt.unsure = false
  local function look(x, state, numbers)
    local lost = whole[tostring(x.device)] or x == taken.at or internal.was_refused(x)
    if lost then restore(state, numbers) else made = made + 1 end
  end
  for x, old in pairs(taken.old) do look(x, old.state, old.numbers) end
  for _, x in ipairs(taken.changed) do
    local state = not taken.old[x] and opt.state[x]
    if state then look(x, state, { step = state.step - 1 }) end
  end
  if made == 0 then opt.steps = opt.steps - 1 end
end

local watched = { __close = function(taken, e) if e ~= nil then refused.take_back(taken) end end }

--- Returns what is closed at the end of a step: it calls take_back if the step raised. changed: the
--- list of tensors that the step changes, to which a parameter is added when it is recorded.
function refused.watch(opt, changed)
  return setmetatable({ opt = opt, changed = changed, old = {} }, watched)
end

--- Called before an update of x, a parameter or its part, in Lua; taken.at = nil ends it. One in C
--- changes the count of steps alone, and does so when it is recorded.
function refused.before(taken, x, state)
  taken.old[x], taken.at = { state = state, numbers = numbers_of(state) }, x
end

return refused
