--- Optimisers. A step is recorded like any other work and ends by evaluating parameters and
-- state, so that forward, backward and update of a training step are planned together.
-- Learning rates, betas … are scalars of the recorded step: changing them builds no plan.
--
-- Names, defaults, rules and the order of options are those of torch.optim; each rule has a
-- declaration (src/lua/declare.h). State has torch's names too (exp_avg, momentum_buffer, …). Muon
-- and rarer rules: optim/rules.lua; also optim/lbfgs.lua, optim/scaler.lua, optim/schedule.lua.
local flame = require "flame"
local internal = flame.internal
local func = require "flame.autograd.func"
local objects = require "flame.base.objects"
local parts = require "flame.autograd.parts"
local dtypes = require "flame.base.dtypes"
local recording = require "flame.base.recording"
local refused = require "flame.optim.refused"
local slips = require "flame.tools.slips"

local optim = {}

-- Raises "op: message" at the line of the script, however deep in the library it is called.
local function fail(message, ...) internal.fail("", message:format(...)) end

local pin, unpin = recording.pin, recording.unpin

---@class flame.Optimizer
---@field lr number         rate of the first group; assigning sets that of all groups
---@field groups table[]    {params =, lr =, …}; the fields may be changed between steps
local Optimizer = {}
Optimizer.__index = Optimizer
Optimizer.__name = "Optimizer"
objects.classes.Optimizer = Optimizer

internal.moves = internal.moves or 0             -- how often modules moved their parameters

-- Adds a function to the table t; text declares its name and arguments (src/lua/declare.h).
local function put(t, text, f) t[text:match("([%w_]+)%(")] = internal.declare(text, "", f) end

local function number(what, name, value, low)
  if type(value) ~= "number" or value ~= value or value < low then
    local tensor = flame.is_tensor(value)
    fail("%s: %s is %s, need a number of at least %g%s", what, name,
      tensor and "a tensor" or tostring(value), low, tensor and "\1: write x:item()" or "")
  end
end

-- ---- options ------------------------------------------------------------------------------------

-- "differentiable" and similar options choose an implementation in torch, and have no effect here.
-- capturable has one in Adam and AdamW: the number of the step is a tensor.
local without_effect = { foreach = true, fused = true, differentiable = true }
-- Fields that are known only when the last step's checks have been read -> names of what is kept.
local settled = { steps = "made", state = "states" }
local PLAIN = "foreach?: bool, fused?: bool, capturable = false, differentiable = false"

local function check_betas(what, betas)
  if betas == nil then return end
  if #betas ~= 2 then fail("%s: betas must be two numbers {b1, b2}", what) end
  for i = 1, 2 do
    local b = betas[i]
    if not (b >= 0 and b < 1) then
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
  if #params == 0 then
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

local function add_group(self, params, values)
  check_settings(self.what, values)
  values.params = check_params(self, params)
  self.groups[#self.groups + 1] = setmetatable(values, getmetatable(self).of_groups)
end

--- Adds a group of parameters: {params = {…}, lr = …}; other options are those of the constructor.
put(Optimizer, "Optimizer:add_param_group(group: table)", function(self, given)
  local merged = {}
  if given.params == nil then
    fail("%s: a group is a table with params\1; of a module: net:parameters()", self.what)
  end
  for key, value in pairs(self.defaults) do merged[key] = value end
  for key, value in pairs(given) do merged[key] = value end
  merged.params = nil
  add_group(self, self.read(given.params, merged))
end)

-- A function that reads the arguments of an optimiser's constructor, or of a group, as declared by
-- 'text'; it returns params, and the options by name.
local function reader(class, text)
  return function(params, ...)
    local values = {}
    if #class.names == 0 then
      local names = {}
      for i, p in ipairs(internal.declaration(text)[1].params) do
        names[i] = p.name
        if i > 1 and not without_effect[p.name] then
          class.options[p.name], class.in_groups[p.name] = true, true
        end
      end
      class.names = names                  -- set last: if memory runs out before, it stays empty
    end
    for i = 2, #class.names do
      if class.options[class.names[i]] then values[class.names[i]] = (select(i - 1, ...)) end
    end
    values.capturable = values.capturable or nil
    return params, values
  end
end

-- states: parameter -> its state; made: number of steps; known: a set of parameters; moves:
-- internal.moves at a step; unsure: a step whose checks are not read (refused.watch), or false.
local function new(class, params, values)
  local self = setmetatable({ groups = {}, states = {}, made = 0, what = class.what, known = {},
    moves = internal.moves, defaults = {}, options = class.options, read = class.read,
    unsure = false, flights = false, seen = slips.steps_of() }, class)        -- for slips
  for key, value in pairs(values) do self.defaults[key] = value end
  if type(params) == "table" and type(params[1]) == "table" then
    for _, g in ipairs(params) do self:add_param_group(g) end
  else
    add_group(self, params, values)
  end
  return self
end

-- Makes the class of an optimiser from its declaration, in which OPTIONS and PLAIN stand for
-- options of many. update(group, p, g, state) records one step of one parameter, or of a 1-d part
-- of it; check(opt) checks a new optimiser. whole: if update needs whole parameters, not parts, a
-- text that says what to do instead. run(group, first, …) or nil: an update in C (src/lua/update.c)
-- of the group's parameters from 'first' on. Returns the class; class.step may be replaced.
local function make_class(text, update, check, whole, run)
  text = text:gsub("OPTIONS", "*, maximize = false, " .. PLAIN):gsub("PLAIN", "*, " .. PLAIN)
  local name = text:match("%.(%w+)%(")
  local class = setmetatable({ what = name, update = update, whole = whole, names = {},
    options = {}, in_groups = { params = true, initial_lr = true }, of_groups = {}, run = run },
    { __index = Optimizer })
  local read = reader(class, text)
  class.read = internal.declare(text, "", read)
  class.of_groups.__index, class.of_groups.__newindex = objects.closed(name .. ": a group",
    {}, class.in_groups)
  local get, set = objects.closed(name, class,
    { lr = true, groups = true, param_groups = true, state = true, steps = true },
    function(_, key)
      if class.options[key] then
        fail("%s: %s stands in the groups\1: opt.groups[1].%s", name, key, key)
      end
    end)
  class.__index = function(self, key)
    if key == "lr" then return rawget(self, "groups")[1].lr end
    if key == "param_groups" then return rawget(self, "groups") end
    if settled[key] then return refused.settle(self)[settled[key]] end
    return get(self, key)
  end
  class.__newindex = function(self, key, value)
    if key == "param_groups" then
      fail("%s: param_groups can not be assigned\1: use add_param_group, or change its groups",
        name)
    end
    if settled[key] then             -- first, so that taking back a failed step does not change it
      return rawset(refused.settle(self), settled[key], value)
    end
    if key ~= "lr" then return set(self, key, value) end
    number(name, "lr", value, 0)
    for _, group in ipairs(self.groups) do group.lr = value end
  end
  class.__name = name
  class.__tostring = Optimizer.describe
  put(optim, text, function(...)
    local self = new(class, read(...))
    if check then check(self) end
    return self
  end)
  return class
end

-- ---- methods of all optimisers -----------------------------------------------------------------

--- The settings of all groups as text, as print shows them.
put(Optimizer, "Optimizer:describe() -> str", function(self)
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
end)

--- Sets the gradient of every parameter to nil; set_to_none = false fills them with 0 instead.
put(Optimizer, "Optimizer:zero_grad(set_to_none = true)", function(self, set_to_none)
  for _, group in ipairs(self.groups) do
    func.zero_grad(group.params, set_to_none)
  end
end)

local function state_of(self, p)
  local state = self.states[p]
  if not state then
    state = { step = 0 }
    self.states[p] = state
  end
  return state
end
--- The table with the state of a parameter for this rule: {step = 0} if it has had no step.
put(Optimizer, "Optimizer:state_of(parameter: T) -> table",
  function(self, p) return state_of(refused.settle(self), p) end)

local state_for

-- Moves and converts the state of parameters that a module has moved or converted since the last
-- step.
local function follow(self)
  local moves = internal.moves
  if self.moves == moves then return end
  self.moves = moves
  for p, state in pairs(self.states) do self.states[p] = state_for(p, state) end
end

-- Updates one parameter; returns whether backward added to a gradient that an earlier step used.
local function update_one(self, group, p, taken, shared_out)
  local x, g, part = parts.take(p)
  if not g then return false end
  local state, changed = state_of(self, p), taken.changed
  if part then
    parts.settle(part, state)
    shared_out[#shared_out + 1] = p
  end
  refused.before(taken, x, state)
  state.step = state.step + 1
  local added = internal.gradient_used(g, self.seen.number)
  self.update(group, x, rawget(group, "maximize") and -g or g, state)
  taken.at = nil
  if part then parts.use_up(part) end
  changed[#changed + 1] = x
  for _, value in pairs(state) do
    if type(value) == "userdata" then
      internal.hold(value)                       -- scopes do not close it
      changed[#changed + 1] = value
    end
  end
  return added
end

-- Updates all parameters. Returns the list of changed ones that processes divide (parts.of).
local function update_all(self, taken)
  local changed, shared_out, added = taken.changed, {}, false
  follow(self)
  local run = next(parts.of) == nil and getmetatable(self).run
  for _, group in ipairs(self.groups) do
    local params, i, more = group.params, 1, false
    local all = run and not rawget(group, "maximize") and run
    while params[i] ~= nil do
      if all then i, more = all(group, i, self.states, changed, self.seen.number) end
      local p = params[i]
      if p ~= nil then more = update_one(self, group, p, taken, shared_out) or more end
      added, i = added or more, i + 1
    end
  end
  if added then slips.added() end
  slips.empty(self, #changed > 0)
  return shared_out
end

-- Intermediate tensors of a step are released at its end rather than by the garbage collector.
-- Those in the state are held, so that they stay: by update_one, and here if a rule raises.
local function hold_states(self)
  for _, state in pairs(self.states) do
    for _, value in pairs(state) do
      if type(value) == "userdata" then internal.hold(value) end
    end
  end
end

local holder = { __close = function(guard, e) if e ~= nil then hold_states(guard[1]) end end }
local function update_in_scope(self, taken)
  local _ <close> = flame.scope()
  local _ <close> = setmetatable({ self }, holder)
  return update_all(self, taken)
end

-- ---- state that flame.warmup restores ----------------------------------------------------------
local function shallow(t)
  local copy = {}
  for key, v in next, t do copy[key] = v end
  return copy
end

-- Called before tables of an optimiser change: a rehearsal (flame.warmup) saves their fields.
local function before_change(...)
  local rehearsal = rawget(internal, "rehearsal")
  for i = 1, rehearsal and select("#", ...) or 0 do
    local t = select(i, ...)
    rehearsal[t] = rehearsal[t] or shallow(t)
  end
end

local function before_step(self)
  for _, group in ipairs(getmetatable(self).whole and self.groups or {}) do
    for _, p in ipairs(group.params) do
      if parts.of[p] then
        fail("%s: a step needs whole gradients, and data_parallel shares them out\1: %s", self.what,
          getmetatable(self).whole)
      end
    end
  end
  if not rawget(internal, "rehearsal") then return end
  before_change(self, self.states, table.unpack(self.groups))
  for _, state in pairs(self.states) do
    before_change(state)
    for _, list in pairs(state) do if type(list) == "table" then before_change(list) end end
  end
end

--- One update from the parameters' gradients; parameters without one are unchanged.
--- A closure computes the loss and its gradients again; its result is returned.
put(Optimizer, "Optimizer:step(closure?: fn) -> any", function(self, closure)
  local loss
  if closure then
    refused.told(self)                           -- before the closure: it is not run then either
    loss = flame.enable_grad(closure)
  end
  local _ <close> = unpin
  pin()
  refused.told(self)
  before_step(self)
  local changed = internal.room(3 * #self.groups[1].params)
  local taken <close> = refused.watch(self, changed)
  self.made = self.made + 1
  local shared_out = flame.no_grad(update_in_scope, self, taken)
  if #changed > 0 then internal.eval_list(changed) end
  if #shared_out > 0 then flame.no_grad(parts.spread, shared_out) end
  if rawget(internal, "after_step") then internal.after_step() end     -- of flame-lua --watch
  self.unsure = internal.flown(self.flights) and taken
  return loss
end)

-- ---- saving -------------------------------------------------------------------------------------

local function copy_of(value)
  if type(value) == "userdata" then return value:detach() end
  if type(value) ~= "table" then return value end
  local copy = {}
  for key, v in pairs(value) do copy[key] = copy_of(v) end
  return copy
end

--- A snapshot: {steps =, param_groups = {{lr = …, params = {1, 2}}, …}, state = {[1] = {…}, …}};
--- parameters are numbered through all groups.
put(Optimizer, "Optimizer:state_dict() -> table", function(self)
  refused.told(self)
  local out = { steps = self.made, param_groups = {}, state = {} }
  local i = 0
  for k, group in ipairs(self.groups) do
    local kept = { params = {} }
    for key, value in pairs(group) do if key ~= "params" then kept[key] = copy_of(value) end end
    for j, p in ipairs(group.params) do
      i = i + 1
      kept.params[j] = i
      out.state[i] = self.states[p] and copy_of(parts.whole(p, self.states[p]))
    end
    out.param_groups[k] = kept
  end
  return out
end)

-- A copy of a value or table of p's state, on p's device, with floats in p's dtype.
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

--- Restores what state_dict gave; there must be equally many groups and parameters.
put(Optimizer, "Optimizer:load_state_dict(state: table)", function(self, saved)
  if type(saved.param_groups) ~= "table" or type(saved.state) ~= "table" then
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
        objects.no_option(self.what .. ": load_state_dict: group " .. k, key, self.options)
      end
    end
  end
  self.unsure = false
  self.made = saved.steps or 0
  self.states = {}
  for k, group in ipairs(self.groups) do
    for key, value in pairs(groups[k]) do
      if key ~= "params" and not without_effect[key] then group[key] = copy_of(value) end
    end
    for j, p in ipairs(group.params) do
      local state = saved.state[groups[k].params[j]]
      if state then self.states[p] = state_for(p, state) end
    end
  end
end)

-- ---- the rules ----------------------------------------------------------------------------------

-- Writes a value into a tensor of the state, and returns it. Rules compute with the result, not
-- with the tensor: if an index check fails, the tensor keeps its old value, but the result fails.
local function set(x, value)
  x:copy_(value)
  return value
end

--- Stochastic gradient descent, PyTorch's form: buf = momentum buf + (1 - dampening) g.
make_class([[optim.SGD(params: T|T[]|table[], lr = 1e-3, momentum = 0, dampening = 0,
  weight_decay = 0, nesterov = false, OPTIONS) -> Optimizer]],
  function(group, p, g, state)
    if group.weight_decay ~= 0 then g = g + p * group.weight_decay end
    if group.momentum ~= 0 then
      local moving, before = g, state.momentum_buffer
      state.momentum_buffer = before or flame.zeros_like(p)
      if before then moving = before * group.momentum + g * (1 - group.dampening) end
      moving = set(state.momentum_buffer, moving)
      g = group.nesterov and g + moving * group.momentum or moving
    end
    p:copy_(p - g * group.lr)
  end, nil, nil,
  function(group, first, states, changed, mine)
    return internal.sgd_run(group.params, first, states, changed, mine, group.lr,
      group.momentum, group.dampening, group.weight_decay, group.nesterov)
  end)

-- The update of Adam and AdamW; the ops are recorded in C (fl_adam_step).
local function adam(always)
  return function(group, p, g, state)
    if not state.exp_avg then
      state.exp_avg, state.exp_avg_sq = flame.zeros_like(p), flame.zeros_like(p)
      if group.amsgrad then state.max_exp_avg_sq = flame.zeros_like(p) end
    end
    if rawget(group, "capturable") then
      state.count = state.count or
        flame.full({}, state.step - 1, { dtype = "i64", device = p.device })
      state.count:add_(1)
    end
    internal.adam(p, g, state.exp_avg, state.exp_avg_sq,
      group.amsgrad and state.max_exp_avg_sq or nil, group.lr,
      group.betas[1], group.betas[2], group.eps, group.weight_decay,
      always or group.decoupled_weight_decay, state.step, state.count)
  end
end

-- The 'run' of make_class: updates in C, at once, many parameters that have a state already.
local function adam_run(always)
  return function(group, first, states, changed, mine)
    if group.amsgrad or rawget(group, "capturable") then return first, false end
    return internal.adam_run(group.params, first, states, changed, mine, group.lr,
      group.betas[1], group.betas[2], group.eps, group.weight_decay,
      always or group.decoupled_weight_decay)
  end
end

--- Kingma and Ba 2015; weight_decay is added to the gradient, or, with decoupled_weight_decay =
--- true, acts as AdamW's.
make_class([[optim.Adam(params: T|T[]|table[], lr = 1e-3, betas = {0.9, 0.999}, eps = 1e-8,
  weight_decay = 0, amsgrad = false, OPTIONS, decoupled_weight_decay = false) -> Optimizer]],
  adam(false), nil, nil, adam_run(false))

--- Loshchilov and Hutter 2019: the decay acts on the parameter, not on the gradient.
make_class([[optim.AdamW(params: T|T[]|table[], lr = 1e-3, betas = {0.9, 0.999}, eps = 1e-8,
  weight_decay = 0.01, amsgrad = false, OPTIONS) -> Optimizer]],
  adam(true), nil, nil, adam_run(true))

-- ---- gradients ----------------------------------------------------------------------------------

local function list_of(params) return flame.is_tensor(params) and { params } or params end

-- The sum of |g|^p over g's elements, for p = inf their largest magnitude; half types in f32.
local function power_sum(g, p)
  if dtypes.half[g.dtype] then g = g:to("f32") end
  if p < math.huge then return (p == 2 and g * g or g:abs() ^ p):sum() end
  return g:numel() == 0 and flame.zeros({}, { dtype = g.dtype, device = g.device }) or g:abs():max()
end

-- The sum of these 0-d tensors, for p = inf the largest; nil: there are none.
local function joined(list, p)
  if #list < 2 then return list[1] end
  local all = flame.stack(list, 1)
  return p == math.huge and all:max() or all:sum()
end

-- The p-norm of all gradients together, for p = inf the largest magnitude; nil if there are none.
local function joint_norm(params, p)
  local of_parts, of_all = {}, {}
  local what <const> = p == 2 and 0 or p == 1 and 1 or p == math.huge and 2
  local norm = what and next(parts.of) == nil and internal.power_sum(params, what)
  if norm then return norm end
  for _, x in ipairs(params) do
    local g = parts.gradient("clip_grad_norm", x)
    local list = parts.of[x] and of_parts or of_all
    if g then list[#list + 1] = power_sum(g, p) end
  end
  local own = joined(of_parts, p)
  own = own and parts.total("clip_grad_norm", params, own, p == math.huge and "max" or "sum")
  if own then table.insert(of_all, 1, own) end
  local total = joined(of_all, p)
  return total and (p == 2 and total:sqrt() or p < math.huge and total ^ (1 / p)) or total
end

-- Writes y into g, in such a way that g still counts as a new gradient for the next step.
local function rescale(g, y)
  local mark = internal.gradient_mark(g)
  g:copy_(y)
  internal.gradient_mark(g, mark)
end

--- Scales all gradients in place so that their joint norm is at most max_norm. Gives the norm
--- before, 0-d.
put(optim, [[optim.clip_grad_norm(parameters: T|T[], max_norm: num|T, norm_type = 2,
  error_if_nonfinite = false, *, foreach?: bool) -> T]],
  function(params, max_norm, norm_type, error_if_nonfinite)
  if flame.is_tensor(max_norm) then max_norm = max_norm:item() end
  number("clip_grad_norm", "max_norm", max_norm, 0)
  params = list_of(params)
  local _ <close> = unpin
  pin()
  return flame.no_grad(function()
    local norm = joint_norm(params, norm_type)
    if not norm then return flame.zeros({}) end
    if error_if_nonfinite and not norm:isfinite():item() then
      fail("clip_grad_norm: the norm of the gradients is %s", tostring(norm:item()))
    end
    local scale = (max_norm / (norm + 1e-6)):minimum(1)
    if next(parts.of) == nil and internal.scale_grads(params, scale) then return norm end
    for _, p in ipairs(params) do
      local g = parts.gradient("clip_grad_norm", p)
      if g then rescale(g, g * scale) end
    end
    return norm
  end)
end)

--- Clamps every gradient value in place to -clip_value … clip_value.
put(optim, "optim.clip_grad_value(parameters: T|T[], clip_value: num, *, foreach?: bool)",
  function(params, c)
  number("clip_grad_value", "clip_value", c, 0)
  params = list_of(params)
  flame.no_grad(function()
    for _, p in ipairs(params) do
      local g = parts.gradient("clip_grad_value", p)
      if g then rescale(g, g:clamp(-c, c)) end
    end
  end)
end)

local shared = { set = set, make_class = make_class, follow = follow, fail = fail, number = number,
  put = put, copy_of = copy_of, before_change = before_change, before_step = before_step }
require "flame.optim.rules"(optim, shared)
require "flame.optim.lbfgs"(optim, shared)
require "flame.optim.scaler"(optim, shared)
require "flame.optim.schedule"(optim, shared)

return objects.namespace(optim, "optim")
