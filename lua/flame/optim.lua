--- Optimisers. A step is recorded like any other work and ends by evaluating parameters and
-- state, so that forward, backward and update of a training step are planned together.
-- Learning rates and the like are scalars of the recorded step: changing them builds no plan.
--
-- Names, defaults and rules are torch.optim's; what has a default there comes by position in
-- the same order, or in one table at the end. State has torch's names too (exp_avg,
-- momentum_buffer, …). LBFGS, Muon and rarer rules: optim_more.lua; schedules: optim_schedule.lua.
local flame = require "flame"
local internal = flame.internal
internal.load()                                          -- what it gets from Lua

local optim = {}

--- Raises with the script's line, however deep in the library it is called.
local function fail(message, ...) internal.fail("", message:format(...)) end

-- The ops of a step all belong to the script's line that asked for it: look it up once. What takes
-- it back is there first: an error may come in between.
local unpin = setmetatable({}, { __close = function() internal.unpin() end })
local pin = internal.pin

---@class flame.Optimizer
---@field lr number         rate of the first group; assigned: of all groups
---@field groups table[]    {params =, lr =, …}; what stands in them can be changed between steps
local Optimizer = {}
Optimizer.__index = Optimizer

local function number(what, name, value, low)
  if type(value) ~= "number" or value ~= value or value < low then
    local tensor = flame.is_tensor(value)
    fail("%s: %s is %s, need a number of at least %g%s", what, name,
      tensor and "a tensor" or tostring(value), low, tensor and "\1: write x:item()" or "")
  end
end

-- ---- options ------------------------------------------------------------------------------------

local function is_options(t) return flame.internal.is_options(t) end

--- What follows the parameters: by position in the order of 'names', or a table at the end.
local function given_options(what, names, ...)
  local out, given = {}, table.pack(...)
  local last = given.n
  if last > 0 and is_options(given[last]) then
    for key, value in pairs(given[last]) do out[key] = value end
    last = last - 1
  end
  if last > #names then fail("%s: %d options at most, got %d", what, #names, last) end
  for i = 1, last do
    if given[i] ~= nil then out[names[i]] = given[i] end
  end
  return out
end

-- "differentiable" and the like choose among torch's implementations of one rule: no effect here.
local without_effect = { foreach = true, fused = true, capturable = true, differentiable = true }

local function check_betas(what, betas)
  if betas == nil then return end
  if type(betas) ~= "table" or #betas ~= 2 then
    fail("%s: betas must be two numbers {b1, b2}", what)
  end
  for i = 1, 2 do
    local b = betas[i]
    if type(b) ~= "number" or not (b >= 0 and b < 1) then
      fail("%s: betas[%d] is %s, need 0 <= beta < 1", what, i, tostring(b))
    end
  end
end

local function check_settings(what, group)
  for _, name in ipairs { "lr", "weight_decay", "eps", "momentum", "lr_decay",
      "initial_accumulator_value" } do
    if group[name] ~= nil then number(what, name, group[name], 0) end
  end
  check_betas(what, group.betas)
  if group.nesterov and group.dampening and (group.momentum == 0 or group.dampening ~= 0) then
    fail("%s: nesterov needs a momentum and no dampening", what)
  end
end

local function check_params(self, params)
  local what = self.what
  if flame.is_tensor(params) then params = { params } end
  if type(params) == "table" and type(params.parameters) == "function" then
    fail("%s: got a module\1: give its parameters, net:parameters()", what)
  end
  if type(params) ~= "table" or #params == 0 then
    fail("%s: the parameters are a list of tensors or of groups, and not empty", what)
  end
  for i, p in ipairs(params) do
    if not flame.is_tensor(p) then fail("%s: parameter %d is a %s", what, i, type(p)) end
    if not p.is_leaf then
      fail("%s: parameter %d is no leaf\1: optimise what you made, not what you computed", what, i)
    end
    if self.known[p] then fail("%s: parameter %d was given before", what, i) end
    self.known[p] = true
  end
  return table.move(params, 1, #params, 1, {})
end

--- One more group of parameters: {params = {…}, lr = …}; what is left out is as in the constructor.
function Optimizer:add_param_group(given)
  local what, defaults = self.what, self.defaults
  if type(given) ~= "table" or given.params == nil then
    fail("%s: a group is a table with params\1; of a module: net:parameters()", what)
  end
  local group = {}
  for key, value in pairs(defaults) do group[key] = value end
  for key, value in pairs(given) do
    if key ~= "params" and not without_effect[key] then
      if not self.options[key] then
        internal.no_option(what, key, self.options)
      end
      group[key] = value
    end
  end
  check_settings(what, group)
  group.params = check_params(self, given.params)
  self.groups[#self.groups + 1] = setmetatable(group, getmetatable(self).of_groups)
end

local function new(class, params, names, ...)
  local what = class.what
  local options = given_options(what, names, ...)
  local self = setmetatable(
    { groups = {}, state = {}, steps = 0, what = what, known = {}, moves = internal.moves or 0,
    defaults = class.defaults, options = class.options }, class)
  if type(params) == "table" and type(params[1]) == "table" then
    for _, g in ipairs(params) do
      if type(g) ~= "table" then fail("%s: a %s among the groups", what, type(g)) end
      local merged = {}
      for key, value in pairs(options) do merged[key] = value end
      for key, value in pairs(g) do merged[key] = value end
      self:add_param_group(merged)
    end
  else
    options.params = params == nil and {} or params
    self:add_param_group(options)
  end
  return self
end

--- A new rule: optim[name](params, …). 'names': the options in torch's order; 'defaults' all of
--- them; 'optional' those whose default is nil. update(group, p, g, state) records one step of one
--- parameter. Returns the class; class.step may be replaced.
local function make_class(name, names, defaults, update, optional)
  local class = setmetatable(
    { what = name, defaults = defaults, options = optional or {}, update = update },
    { __index = Optimizer })
  for key in pairs(defaults) do class.options[key] = true end
  local in_groups = { params = true, initial_lr = true }
  for key in pairs(class.options) do in_groups[key] = true end
  class.in_groups, class.of_groups = in_groups, {}
  class.of_groups.__index, class.of_groups.__newindex = internal.closed(name .. ": a group",
    {}, in_groups)
  local get, set = internal.closed(name, class,
    { lr = true, groups = true, param_groups = true, state = true, steps = true },
    function(_, key)
      if class.options[key] then
        fail("%s: %s stands in the groups\1: opt.groups[1].%s", name, key, key)
      end
    end)
  class.__index = function(self, key)
    if key == "lr" then return rawget(self, "groups")[1].lr end
    if key == "param_groups" then return rawget(self, "groups") end
    return get(self, key)
  end
  class.__newindex = function(self, key, value)
    if key == "param_groups" then
      fail("%s: param_groups can not be assigned\1: use add_param_group, or change its groups",
        name)
    end
    if key ~= "lr" then return set(self, key, value) end
    number(name, "lr", value, 0)
    for _, group in ipairs(self.groups) do group.lr = value end
  end
  class.__name = name
  class.__tostring = Optimizer.describe
  optim[name] = function(params, ...) return new(class, params, names, ...) end
  return class
end

-- ---- what all can do ----------------------------------------------------------------------------

function Optimizer:describe()
  local lines = { self.what .. " (" }
  for i, group in ipairs(self.groups) do
    lines[#lines + 1] = ("group %d: %d parameters"):format(i, #group.params)
    local names = {}
    for key in pairs(group) do if key ~= "params" then names[#names + 1] = key end end
    table.sort(names)
    for _, key in ipairs(names) do
      local v = group[key]
      lines[#lines + 1] = ("    %s: %s"):format(key,
        type(v) == "table" and table.concat(v, ", ") or tostring(v))
    end
  end
  lines[#lines + 1] = ")"
  return table.concat(lines, "\n")
end

--- Sets the gradient of every parameter to nil; {set_to_none = false} fills them with 0 instead.
function Optimizer:zero_grad(options)
  for _, group in ipairs(self.groups) do internal.zero_grad("zero_grad", group.params, options) end
end

--- The state of p for this rule, made at its first step.
function Optimizer:state_of(p)
  local state = self.state[p]
  if not state then
    state = { step = 0 }
    self.state[p] = state
  end
  return state
end

local state_for

-- Parameters that a module has moved or converted since the last step: their state follows.
local function follow(self)
  local moves = internal.moves or 0
  if self.moves == moves then return end
  self.moves = moves
  for p, state in pairs(self.state) do self.state[p] = state_for(p, state) end
end

local function update_all(self)
  local changed = {}
  follow(self)
  for _, group in ipairs(self.groups) do
    for _, p in ipairs(group.params) do
      local g = p.grad
      if g then
        local state = self:state_of(p)
        state.step = state.step + 1
        self.update(group, p, rawget(group, "maximize") and -g or g, state)
        changed[#changed + 1] = p
        for _, value in pairs(state) do
          if type(value) == "userdata" then
            internal.hold(value)                       -- no scope closes it
            changed[#changed + 1] = value
          end
        end
      end
    end
  end
  return changed
end

-- A step's hundreds of intermediate handles are closed at its end rather than left to the
-- collector. What a rule has put into its state stays, also when the rule raises.
local function hold_states(self)
  for _, state in pairs(self.state) do
    for _, value in pairs(state) do
      if type(value) == "userdata" then internal.hold(value) end
    end
  end
end

local function update_in_scope(self)
  local _ <close> = flame.scope()
  local _ <close> = setmetatable({},
    { __close = function(_, e) if e ~= nil then hold_states(self) end end })
  return update_all(self)
end

--- One update from the parameters' gradients; those without one are left alone.
---@param closure function?  computes the loss and its gradients anew; its result is returned
function Optimizer:step(closure)
  local loss
  if closure ~= nil then
    if not flame.internal.callable(closure) then
      fail("%s: step takes a function or nothing, got %s", self.what, type(closure))
    end
    loss = flame.enable_grad(closure)
  end
  local _ <close> = unpin
  pin()
  self.steps = self.steps + 1
  local changed = flame.no_grad(update_in_scope, self)
  if #changed > 0 then flame.eval(table.unpack(changed)) end
  return loss
end

Optimizer.follow = follow

-- ---- saving -------------------------------------------------------------------------------------

local function copy_of(value)
  if type(value) == "userdata" then return value:detach() end
  if type(value) ~= "table" then return value end
  local copy = {}
  for key, v in pairs(value) do copy[key] = copy_of(v) end
  return copy
end

--- A snapshot: {steps =, param_groups = {{lr = …, params = {1, 2}}, …}, state = {[1] = {…}, …}};
--- parameters are numbered on over the groups.
function Optimizer:state_dict()
  local out = { steps = self.steps, param_groups = {}, state = {} }
  local i = 0
  for k, group in ipairs(self.groups) do
    local kept = { params = {} }
    for key, value in pairs(group) do if key ~= "params" then kept[key] = copy_of(value) end end
    for j, p in ipairs(group.params) do
      i = i + 1
      kept.params[j] = i
      out.state[i] = self.state[p] and copy_of(self.state[p])
    end
    out.param_groups[k] = kept
  end
  return out
end

-- State goes where its parameter is, and has its dtype.
function state_for(p, value)
  if type(value) == "userdata" then
    if value:is_floating_point() and value.dtype ~= p.dtype then value = value:to(p.dtype) end
    return internal.hold(value:to(p.device):clone())
  end
  if type(value) ~= "table" then return value end
  local copy = {}
  for key, v in pairs(value) do copy[key] = state_for(p, v) end
  return copy
end

--- Takes back what state_dict gave; groups and parameters must be as many.
function Optimizer:load_state_dict(saved)
  if type(saved) ~= "table" or type(saved.param_groups) ~= "table"
      or type(saved.state) ~= "table" then
    fail("load_state_dict: need what an optimiser's state_dict() gave")
  end
  local groups = saved.param_groups
  if #groups ~= #self.groups then
    fail("load_state_dict: %d groups saved, %d here", #groups, #self.groups)
  end
  for k, group in ipairs(self.groups) do
    if #groups[k].params ~= #group.params then
      fail("load_state_dict: group %d has %d parameters saved, %d here", k, #groups[k].params,
        #group.params)
    end
    for key in pairs(groups[k]) do
      if not without_effect[key] and not getmetatable(self).in_groups[key] then
        internal.no_option(self.what .. ": load_state_dict: group " .. k, key, self.options)
      end
    end
  end
  self.steps = saved.steps or 0
  self.state = {}
  for k, group in ipairs(self.groups) do
    for key, value in pairs(groups[k]) do
      if key ~= "params" and not without_effect[key] then group[key] = copy_of(value) end
    end
    for j, p in ipairs(group.params) do
      local state = saved.state[groups[k].params[j]]
      if state then self.state[p] = state_for(p, state) end
    end
  end
end

-- ---- the rules ----------------------------------------------------------------------------------

--- Stochastic gradient descent, PyTorch's form: buf = momentum buf + (1 - dampening) g.
make_class("SGD", { "lr", "momentum", "dampening", "weight_decay", "nesterov" },
  { lr = 1e-3, momentum = 0, dampening = 0, weight_decay = 0, nesterov = false, maximize = false },
  function(group, p, g, state)
    if group.weight_decay ~= 0 then g = g + p * group.weight_decay end
    if group.momentum ~= 0 then
      if state.momentum_buffer then
        state.momentum_buffer:copy_(
          state.momentum_buffer * group.momentum + g * (1 - group.dampening))
      else
        state.momentum_buffer = g:detach():clone()
      end
      g = group.nesterov and g + state.momentum_buffer * group.momentum or state.momentum_buffer
    end
    p:copy_(p - g * group.lr)
  end)

-- Adam and AdamW; the ops are recorded in C (fl_adam_step).
local function adam(always)
  return function(group, p, g, state)
    if not state.exp_avg then
      state.exp_avg, state.exp_avg_sq = flame.zeros_like(p), flame.zeros_like(p)
      if group.amsgrad then state.max_exp_avg_sq = flame.zeros_like(p) end
    end
    internal.adam(p, g, state.exp_avg, state.exp_avg_sq,
      group.amsgrad and state.max_exp_avg_sq or nil, group.lr,
      group.betas[1], group.betas[2], group.eps, group.weight_decay,
      always or group.decoupled_weight_decay, state.step)
  end
end

local adam_names = { "lr", "betas", "eps", "weight_decay", "amsgrad" }
local function adam_defaults(decay, decoupled)
  return { lr = 1e-3, betas = { 0.9, 0.999 }, eps = 1e-8, weight_decay = decay, amsgrad = false,
    maximize = false, decoupled_weight_decay = decoupled }
end

--- Kingma and Ba 2015; weight_decay is added to the gradient, or, with decoupled_weight_decay =
--- true, acts as AdamW's.
make_class("Adam", adam_names, adam_defaults(0, false), adam(false))

--- Loshchilov and Hutter 2019: the decay acts on the parameter, not on the gradient.
make_class("AdamW", adam_names, adam_defaults(0.01), adam(true))

--- Tieleman and Hinton 2012, PyTorch's form.
make_class("RMSprop", { "lr", "alpha", "eps", "weight_decay", "momentum", "centered" },
  { lr = 1e-2, alpha = 0.99, eps = 1e-8, weight_decay = 0, momentum = 0, centered = false,
    maximize = false },
  function(group, p, g, state)
    if group.weight_decay ~= 0 then g = g + p * group.weight_decay end
    state.square_avg = state.square_avg or flame.zeros_like(p)
    state.square_avg:copy_(state.square_avg * group.alpha + g * g * (1 - group.alpha))
    local scale = state.square_avg
    if group.centered then
      state.grad_avg = state.grad_avg or flame.zeros_like(p)
      state.grad_avg:copy_(state.grad_avg * group.alpha + g * (1 - group.alpha))
      scale = scale - state.grad_avg * state.grad_avg
    end
    g = g / (scale:sqrt() + group.eps)
    if group.momentum ~= 0 then
      state.momentum_buffer = state.momentum_buffer or flame.zeros_like(p)
      state.momentum_buffer:copy_(state.momentum_buffer * group.momentum + g)
      g = state.momentum_buffer
    end
    p:copy_(p - g * group.lr)
  end)

--- Duchi, Hazan and Singer 2011.
make_class("Adagrad", { "lr", "lr_decay", "weight_decay", "initial_accumulator_value", "eps" },
  { lr = 1e-2, lr_decay = 0, eps = 1e-10, weight_decay = 0, initial_accumulator_value = 0,
    maximize = false },
  function(group, p, g, state)
    if group.weight_decay ~= 0 then g = g + p * group.weight_decay end
    state.sum = state.sum or flame.full_like(p, group.initial_accumulator_value)
    state.sum:copy_(state.sum + g * g)
    p:copy_(
      p - g / (state.sum:sqrt() + group.eps) * (group.lr / (1 + (state.step - 1) * group.lr_decay)))
  end)

--- Chen et al. 2023: the sign of an interpolated momentum; the decay acts on the parameter.
make_class("Lion", { "lr", "betas", "weight_decay" },
  { lr = 1e-4, betas = { 0.9, 0.99 }, weight_decay = 0, maximize = false },
  function(group, p, g, state)
    state.exp_avg = state.exp_avg or flame.zeros_like(p)
    local b1, b2 = group.betas[1], group.betas[2]
    local direction = (state.exp_avg * b1 + g * (1 - b1)):sign()
    p:copy_(p * (1 - group.lr * group.weight_decay) - direction * group.lr)
    state.exp_avg:copy_(state.exp_avg * b2 + g * (1 - b2))
  end)

-- ---- gradients ----------------------------------------------------------------------------------

local function list_of(what, params)
  if flame.is_tensor(params) then return { params } end
  if type(params) ~= "table" then
    fail("%s: params must be a list of tensors, got %s", what, type(params))
  end
  return params
end

--- Sum of |g|^p over all gradients, its root, or the largest for p = inf; nil where there is none.
local function joint_norm(params, p)
  local total
  for _, x in ipairs(params) do
    local g = x.grad
    if g then
      local part
      if p == 2 then part = (g * g):sum()
      elseif p == math.huge then part = g:abs():max()
      else part = (g:abs() ^ p):sum() end
      if not total then total = part
      elseif p == math.huge then total = total:maximum(part)
      else total = total + part end
    end
  end
  if not total or p == math.huge then return total end
  return p == 2 and total:sqrt() or total ^ (1 / p)
end

--- Scales all gradients in place so that their joint norm is at most max_norm.
---@param ... any  norm_type = 2, error_if_nonfinite = false, or a table of them
---@return flame.Tensor  the norm before, 0-d
function optim.clip_grad_norm(params, max_norm, ...)
  if flame.is_tensor(max_norm) then max_norm = max_norm:item() end
  number("clip_grad_norm", "max_norm", max_norm, 0)
  local options = internal.defaults("clip_grad_norm", { "norm_type", "error_if_nonfinite" },
    { norm_type = 2, error_if_nonfinite = false }, ...)
  params = list_of("clip_grad_norm", params)
  local _ <close> = unpin
  pin()
  return flame.no_grad(function()
    local norm = joint_norm(params, options.norm_type)
    if not norm then return flame.zeros({}) end
    if options.error_if_nonfinite and not norm:isfinite():item() then
      fail("clip_grad_norm: the norm of the gradients is %s", tostring(norm:item()))
    end
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
  params = list_of("clip_grad_value", params)
  flame.no_grad(function()
    for _, p in ipairs(params) do
      if p.grad then p.grad:copy_(p.grad:clamp(-c, c)) end
    end
  end)
end

local shared = { make_class = make_class, fail = fail, number = number, pin = pin, unpin = unpin,
  is_options = is_options, copy_of = copy_of }
require "flame.optim_more"(optim, shared)
require "flame.optim_schedule"(optim, shared)
internal.limit(optim)
internal.limit(Optimizer)

return internal.namespace(optim, "optim")
