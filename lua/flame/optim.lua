--- Optimisers. A step is recorded like any other work and ends by evaluating parameters and
-- state, so that forward, backward and update of a training step are planned together.
-- Learning rates and the like are scalars of the recorded step: changing them builds no plan.
local flame = require "flame"

local optim = {}

--- Raises with the script's line, however deep in the library it is called.
local function fail(message, ...) flame.internal.fail("", message:format(...)) end

-- The ops of a step all belong to the script's line that asked for it: look it up once.
local unpin = setmetatable({}, { __close = function() flame.internal.unpin() end })
local function pin()
  flame.internal.pin()
  return unpin
end

local Optimizer = {}
Optimizer.__index = Optimizer

local function number(what, name, value, low)
  if type(value) ~= "number" or value ~= value or value < low then
    fail("%s: %s is %s, need a number of at least %g", what, name, tostring(value), low)
  end
end

local function group_of(what, params, options, defaults)
  local group = { params = params }
  for key, value in pairs(defaults) do group[key] = value end
  for key, value in pairs(options) do
    if key ~= "params" then
      if defaults[key] == nil then fail("%s: no option %s", what, tostring(key)) end
      group[key] = value
    end
  end
  number(what, "lr", group.lr, 0)
  number(what, "weight_decay", group.weight_decay or 0, 0)
  for i, p in ipairs(params) do
    if type(p) ~= "userdata" then fail("%s: parameter %d is a %s", what, i, type(p)) end
    if not p.is_leaf then fail("%s: parameter %d is no leaf: optimise what you made, not what you computed", what, i) end
  end
  return group
end

-- A list of tensors, or a list of groups {params = {…}, lr = …}.
local function new(class, what, params, options, defaults)
  options = options or {}
  if type(params) ~= "table" or #params == 0 then
    fail("%s: the parameters are a list of tensors or of groups, and not empty", what)
  end
  local self = setmetatable({ groups = {}, state = {}, steps = 0, what = what }, class)
  if type(params[1]) == "table" then
    for i, g in ipairs(params) do
      local merged = {}
      for key, value in pairs(options) do merged[key] = value end
      for key, value in pairs(g) do if key ~= "params" then merged[key] = value end end
      self.groups[i] = group_of(what, g.params, merged, defaults)
    end
  else
    self.groups[1] = group_of(what, params, options, defaults)
  end
  return self
end

local function make_class(name, defaults, update)
  local class = { what = name }
  class.__index = function(self, key)
    if key == "lr" then return rawget(self, "groups")[1].lr end
    return class[key] or Optimizer[key]
  end
  class.__newindex = function(self, key, value)
    if key ~= "lr" then return rawset(self, key, value) end
    number(name, "lr", value, 0)
    for _, group in ipairs(self.groups) do group.lr = value end
  end
  class.update = update
  optim[name] = function(params, options) return new(class, name, params, options, defaults) end
end

--- Sets the gradient of every parameter to nil.
function Optimizer:zero_grad()
  for _, group in ipairs(self.groups) do
    for _, p in ipairs(group.params) do p.grad = nil end
  end
end

--- One update from the parameters' gradients; those without one are left alone.
function Optimizer:step()
  local _ <close> = pin()
  self.steps = self.steps + 1
  local changed = {}
  flame.no_grad(function()
    for _, group in ipairs(self.groups) do
      for _, p in ipairs(group.params) do
        local g = p.grad
        if g then
          local state = self.state[p]
          if not state then
            state = { step = 0 }
            self.state[p] = state
          end
          state.step = state.step + 1
          self.update(group, p, g, state)
          changed[#changed + 1] = p
          for _, value in pairs(state) do
            if type(value) == "userdata" then
              if state.step == 1 then flame.internal.hold(value) end      -- no scope closes it
              changed[#changed + 1] = value
            end
          end
        end
      end
    end
  end)
  if #changed > 0 then flame.eval(table.unpack(changed)) end
end

--- A snapshot: {steps =, groups = {{lr = …}, …}, state = {[position] = {…}}}; parameters count on over the groups.
function Optimizer:state_dict()
  local out = { steps = self.steps, groups = {}, state = {} }
  local i = 0
  for k, group in ipairs(self.groups) do
    local kept = {}
    for key, value in pairs(group) do if key ~= "params" then kept[key] = value end end
    out.groups[k] = kept
    for _, p in ipairs(group.params) do
      i = i + 1
      local state, copy = self.state[p], nil
      if state then
        copy = {}
        for key, value in pairs(state) do copy[key] = type(value) == "userdata" and value:detach() or value end
      end
      out.state["p" .. i] = copy
    end
  end
  return out
end

--- Takes back what state_dict gave; the parameters must be as many.
function Optimizer:load_state_dict(saved)
  if #saved.groups ~= #self.groups then
    fail("load_state_dict: %d groups saved, %d here", #saved.groups, #self.groups)
  end
  local i = 0
  self.steps = saved.steps
  for k, group in ipairs(self.groups) do
    for key, value in pairs(saved.groups[k]) do group[key] = value end
    for _, p in ipairs(group.params) do
      i = i + 1
      local state = saved.state["p" .. i]
      if state then
        local copy = {}
        for key, value in pairs(state) do
          copy[key] = type(value) == "userdata" and flame.internal.hold(value:to(p.device):clone()) or value
        end
        self.state[p] = copy
      end
    end
  end
end

-- ---- the rules ------------------------------------------------------------------------------------

--- Stochastic gradient descent, PyTorch's form: buf = momentum buf + (1 - dampening) g.
make_class("SGD", { lr = 1e-3, momentum = 0, dampening = 0, weight_decay = 0, nesterov = false }, function(group, p, g, state)
  if group.weight_decay ~= 0 then g = g + p * group.weight_decay end
  if group.momentum ~= 0 then
    if state.buf then
      state.buf:copy_(state.buf * group.momentum + g * (1 - group.dampening))
    else
      state.buf = g:clone()
    end
    g = group.nesterov and g + state.buf * group.momentum or state.buf
  end
  p:copy_(p - g * group.lr)
end)

local function moments(group, p, g, state)
  if not state.m then
    state.m, state.v = flame.zeros_like(p), flame.zeros_like(p)
  end
  local b1, b2 = group.betas[1], group.betas[2]
  state.m:copy_(state.m * b1 + g * (1 - b1))
  state.v:copy_(state.v * b2 + g * g * (1 - b2))
  local denominator = state.v:sqrt() * (1 / math.sqrt(1 - b2 ^ state.step)) + group.eps
  return state.m / denominator * (group.lr / (1 - b1 ^ state.step))
end

--- Kingma and Ba 2015; weight_decay is added to the gradient.
make_class("Adam", { lr = 1e-3, betas = { 0.9, 0.999 }, eps = 1e-8, weight_decay = 0 }, function(group, p, g, state)
  if group.weight_decay ~= 0 then g = g + p * group.weight_decay end
  p:copy_(p - moments(group, p, g, state))
end)

--- Loshchilov and Hutter 2019: the decay acts on the parameter, not on the gradient.
make_class("AdamW", { lr = 1e-3, betas = { 0.9, 0.999 }, eps = 1e-8, weight_decay = 0.01 }, function(group, p, g, state)
  p:copy_(p * (1 - group.lr * group.weight_decay) - moments(group, p, g, state))
end)

--- Tieleman and Hinton 2012, PyTorch's form.
make_class("RMSprop", { lr = 1e-2, alpha = 0.99, eps = 1e-8, weight_decay = 0, momentum = 0, centered = false },
  function(group, p, g, state)
    if group.weight_decay ~= 0 then g = g + p * group.weight_decay end
    state.square = state.square or flame.zeros_like(p)
    state.square:copy_(state.square * group.alpha + g * g * (1 - group.alpha))
    local scale = state.square
    if group.centered then
      state.mean = state.mean or flame.zeros_like(p)
      state.mean:copy_(state.mean * group.alpha + g * (1 - group.alpha))
      scale = scale - state.mean * state.mean
    end
    g = g / (scale:sqrt() + group.eps)
    if group.momentum ~= 0 then
      state.buf = state.buf or flame.zeros_like(p)
      state.buf:copy_(state.buf * group.momentum + g)
      g = state.buf
    end
    p:copy_(p - g * group.lr)
  end)

--- Duchi, Hazan and Singer 2011.
make_class("Adagrad", { lr = 1e-2, lr_decay = 0, eps = 1e-10, weight_decay = 0, initial_accumulator_value = 0 },
  function(group, p, g, state)
    if group.weight_decay ~= 0 then g = g + p * group.weight_decay end
    state.sum = state.sum or flame.full_like(p, group.initial_accumulator_value)
    state.sum:copy_(state.sum + g * g)
    p:copy_(p - g / (state.sum:sqrt() + group.eps) * (group.lr / (1 + (state.step - 1) * group.lr_decay)))
  end)

--- Chen et al. 2023: the sign of an interpolated momentum; the decay acts on the parameter.
make_class("Lion", { lr = 1e-4, betas = { 0.9, 0.99 }, weight_decay = 0 }, function(group, p, g, state)
  state.m = state.m or flame.zeros_like(p)
  local b1, b2 = group.betas[1], group.betas[2]
  local direction = (state.m * b1 + g * (1 - b1)):sign()
  p:copy_(p * (1 - group.lr * group.weight_decay) - direction * group.lr)
  state.m:copy_(state.m * b2 + g * (1 - b2))
end)

-- ---- gradients and schedules --------------------------------------------------------------------------

--- Scales all gradients in place so that their joint 2-norm is at most max_norm.
---@return flame.Tensor  the norm before, 0-d
function optim.clip_grad_norm(params, max_norm)
  number("clip_grad_norm", "max_norm", max_norm, 0)
  local _ <close> = pin()
  return flame.no_grad(function()
    local total
    for _, p in ipairs(params) do
      if p.grad then
        local square = (p.grad * p.grad):sum()
        total = total and total + square or square
      end
    end
    if not total then return flame.zeros() end
    local norm = total:sqrt()
    local scale = (max_norm / (norm + 1e-6)):minimum(1)
    for _, p in ipairs(params) do
      if p.grad then p.grad:copy_(p.grad * scale) end
    end
    return norm
  end)
end

--- Clamps every gradient value in place to -c … c.
function optim.clip_grad_value(params, c)
  number("clip_grad_value", "c", c, 0)
  flame.no_grad(function()
    for _, p in ipairs(params) do
      if p.grad then p.grad:copy_(p.grad:clamp(-c, c)) end
    end
  end)
end

local schedule = {}
optim.schedule = schedule

local Schedule = {}
Schedule.__index = Schedule

--- Sets the learning rate of the next step; call it once a training step, after opt:step().
function Schedule:step()
  self.at = self.at + 1
  local factor = self.factor(self.at)
  for i, group in ipairs(self.opt.groups) do group.lr = self.base[i] * factor end
  return self.opt.lr
end
function Schedule:state_dict() return { at = self.at } end
function Schedule:load_state_dict(saved)
  self.at = saved.at - 1
  self:step()
end

local function make_schedule(opt, factor)
  local self = setmetatable({ opt = opt, at = -1, base = {}, factor = factor }, Schedule)
  for i, group in ipairs(opt.groups) do self.base[i] = group.lr end
  self:step()
  return self
end

--- Linear warm-up over 'warmup' steps to the optimiser's rate, then half a cosine down to
--- 'min' at step 'steps'. Options: opt, steps, warmup = 0, min = 0.
function schedule.cosine(options)
  local opt, steps, warmup = options.opt, options.steps, options.warmup or 0
  number("cosine", "steps", steps, 1)
  number("cosine", "warmup", warmup, 0)
  local least = (options.min or 0) / opt.lr
  return make_schedule(opt, function(at)
    if at < warmup then return (at + 1) / warmup end
    local x = math.min(1, (at - warmup) / math.max(1, steps - warmup))
    return least + (1 - least) * 0.5 * (1 + math.cos(math.pi * x))
  end)
end

--- Any function of the step (from 0) as factor of the optimiser's rate.
function schedule.lambda(opt, f) return make_schedule(opt, f) end

return optim
