-- Runs a program of examples/gallery unchanged, and checks the gradient of one of its steps:
--   flame-lua spec/support/gallery.lua check|zero PROGRAM [arguments of the program]
-- At the third step of its optimiser the loss is computed at two points near the parameters, along
-- a direction that is half the gradient's and half random, and "gradient: slope S, difference D" is
-- printed. With "zero" each gradient is set to 0 before it is compared and used.

local flame = require "flame"
local optim = require "flame.optim"

local zero = arg[1] == "zero"
local program = arg[2]
-- the arguments that the program sees
table.move(arg, 3, #arg + 2, 1)

local function parameters_of(opt)
  local list = {}
  for _, group in ipairs(opt.groups) do
    table.move(group.params, 1, #group.params, #list + 1, list)
  end
  return list
end

--- The root of the sum of the squares of all elements of a list of tensors.
local function norm(list)
  local s = 0
  for _, x in ipairs(list) do s = s + x:double():square():sum():item() end
  return s ^ 0.5
end

--- One tensor per parameter, together of length 1: the gradients plus a random direction.
local function direction_of(parameters, gradients)
  local random = {}
  for k, p in ipairs(parameters) do random[k] = flame.randn_like(p:detach()) end
  local along, across = norm(gradients), norm(random)
  local out = {}
  for k, r in ipairs(random) do out[k] = r / across + gradients[k] / along end
  local length = norm(out)
  for k, d in ipairs(out) do out[k] = d / length end
  return out
end

--- The slope of the loss along a direction by central differences. Steps get shorter: long ones
--- have the error of the curvature, short ones that of rounding. Where the slopes of two steps in
--- succession agree best, the second one is the result. Restores the parameters.
local function difference_of(parameters, direction, loss)
  local values = {}
  for k, p in ipairs(parameters) do values[k] = p:detach():clone() end
  local function loss_at(h)
    flame.no_grad(function()
      for k, p in ipairs(parameters) do p:copy_(values[k] + direction[k] * h) end
    end)
    return loss():double():item()
  end
  local best, least, before = 0, math.huge, nil
  for exponent = 2, 9 do
    local h = math.max(norm(values), 1) * 10 ^ (-exponent / 2)
    local d = (loss_at(h) - loss_at(-h)) / (2 * h)
    local apart = before and math.abs(d - before) / math.max(math.abs(d), math.abs(before))
    -- where all slopes are 0, 'apart' is NaN, and the result remains 0
    if apart and apart < least then best, least = d, apart end
    before = d
  end
  loss_at(0)
  return best
end

--- The slopes of the loss along a random direction: from the gradients, and by differences.
local function compare(parameters, closure)
  local random = flame.rng_state()
  local function loss()                                              -- with the same random numbers
    flame.rng_state(random)
    return closure()
  end
  loss()
  local gradients = {}
  for k, p in ipairs(parameters) do gradients[k] = p.grad or flame.zeros_like(p:detach()) end
  local direction = direction_of(parameters, gradients)
  local slope = 0
  for k, d in ipairs(direction) do
    local g = zero and gradients[k] * 0 or gradients[k]
    slope = slope + (d:double() * g:double()):sum():item()
  end
  local difference = difference_of(parameters, direction, loss)
  flame.rng_state(random)
  return slope, difference
end

--- A constructor of an optimiser that compares the two slopes at its third step and prints them.
local function watched(class)
  return function(...)
    local opt = class(...)
    local step, count, list = opt.step, 0, parameters_of(opt)
    rawset(opt, "step", function(self, closure)
      count = count + 1
      local function loss()
        local l = closure()
        if zero then for _, p in ipairs(list) do p.grad = p.grad and p.grad * 0 end end
        return l
      end
      if count == 3 then
        print(("gradient: slope %.9g, difference %.9g"):format(compare(list, closure)))
      end
      return step(self, loss)
    end)
    return opt
  end
end

for _, name in ipairs { "Adam", "LBFGS" } do optim[name] = watched(optim[name]) end
dofile(program)
