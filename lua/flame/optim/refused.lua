--- Steps of optimisers that are refused. Numbers of a state (the count of steps, a product of
-- momenta) change when a step is recorded, tensors when it is evaluated. If a parameter's write
-- is refused then, or its update raises, its numbers are restored: bias corrections are those of
-- the steps that were made. A GPU may find a bad index after the step (src/engine/flight.h).
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

--- Takes a step back: restores the numbers of the parameters for which is_lost(x).
local function take_back(taken, is_lost)
  local opt, made = taken.opt, 0
  local function look(x, state, numbers)
    if is_lost(x) then restore(state, numbers) else made = made + 1 end
  end
  for x, old in pairs(taken.old) do look(x, old.state, old.numbers) end
  for _, x in ipairs(taken.changed) do
    local state = not taken.old[x] and opt.states[x]
    if state then look(x, state, { step = state.step - 1 }) end
  end
  if made == 0 then opt.made = opt.made - 1 end
end

--- The step has raised. What is on another device may be in flight.
local function raised(taken)
  pcall(internal.land)
  take_back(taken, function(x) return x == taken.at or internal.was_refused(x) end)
end

--- The checks of the step's runs have been read. Takes it back where one has failed.
local function settle(taken)
  local function is_lost(x) return internal.flew_badly(taken.opt.flights, x) end
  taken.opt.unsure = false
  for _, x in ipairs(taken.changed) do
    if is_lost(x) then return take_back(taken, is_lost) end
  end
end

--- Reads the checks of the optimiser's last step, if that was not done. Returns the optimiser.
function refused.settle(opt)
  if opt.unsure then
    internal.land()
    settle(opt.unsure)
  end
  return opt
end

--- Raises what the checks of the last runs have found, which a GPU tells late.
function refused.told(opt)
  refused.settle(opt)
  internal.checked()
end

local watched = { __close = function(taken, e) if e ~= nil then raised(taken) end end }

--- Returns a to-be-closed value for a step: if the step raises, closing it takes the step back.
--- changed: the list of tensors that the step changes, to which the step adds a parameter when it
--- has recorded its update.
function refused.watch(opt, changed)
  opt.flights = internal.watch_flights(opt.flights)
  return setmetatable({ opt = opt, changed = changed, old = {} }, watched)
end

--- Called before the update of x, a parameter or its part, by a rule in Lua; taken.at = nil ends
--- it. (An update in C changes only the count of steps, and does so when it is recorded.)
function refused.before(taken, x, state)
  internal.forget_refused(x)
  taken.old[x], taken.at = { state = state, numbers = numbers_of(state) }, x
end

return refused
