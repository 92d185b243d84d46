--- Learning rates over time. A schedule holds the rates that the groups began with and sets
-- group.lr as a function of how often step() was called, so that a resumed run is bit for bit
-- the same. Call step() once after each opt:step() (or once an epoch, with counts of epochs).
--
-- schedule.name{opt = opt, …}, or schedule.name(opt, …) with torch's arguments in its order.
local flame = require "flame"

return function(optim, shared)
  local fail, number, is_options = shared.fail, shared.number, shared.is_options
  local schedule = {}
  optim.schedule = schedule

  ---@class flame.Schedule
  local Schedule = {}
  local fields = { opt = true, at = true, base = true, rate = true, also = true, more = true,
    schedules = true, o = true }
  Schedule.__index, Schedule.__newindex = flame.internal.closed("a schedule", Schedule, fields)

  --- Sets the rates of the next step.
  ---@return number  the rate of the first group
  function Schedule:step()
    self.at = self.at + 1
    self:apply()
    return self.opt.lr
  end

  -- Rates for the present count; 'count' where another schedule counts for this one.
  function Schedule:apply(count)
    for i, group in ipairs(self.opt.groups) do
      local base = self.base[i] or group.lr
      group.lr = self.rate(count or self.at, base, i)
      if self.also then self.also(count or self.at, group) end
    end
  end

  --- The rates now, a list over the groups.
  function Schedule:get_last_lr()
    local out = {}
    for i, group in ipairs(self.opt.groups) do out[i] = group.lr end
    return out
  end

  function Schedule:state_dict()
    return { at = self.at, base = table.move(self.base, 1, #self.base, 1, {}),
      more = self.more and shared.copy_of(self.more) }
  end
  function Schedule:load_state_dict(saved)
    if type(saved) ~= "table" or type(saved.at) ~= "number" then
      fail("load_state_dict: need what a schedule's state_dict() gave")
    end
    self.at = saved.at
    if saved.base then self.base = table.move(saved.base, 1, #saved.base, 1, {}) end
    if self.more then
      for key, value in pairs(saved.more or {}) do self.more[key] = value end
    end
    if self.rate then self:apply() end
  end

  -- {opt =, …} or (opt, …) in the order of 'names'. 'defaults': all that need not be given.
  local function read(name, names, defaults, first, ...)
    local o, given = {}, table.pack(...)
    for key, value in pairs(defaults) do o[key] = value end
    local known = { opt = true }
    for _, key in ipairs(names) do known[key] = true end
    for key in pairs(defaults) do known[key] = true end
    local function take(t)
      for key, value in pairs(t) do
        if not known[key] then
          flame.internal.no_option(name, key, known, "opt " .. table.concat(names, " "))
        end
        o[key] = value
      end
    end
    if type(first) == "table" and rawget(first, "groups") == nil then
      take(first)
    else
      o.opt = first
      local last = given.n
      if last > 0 and is_options(given[last]) then
        take(given[last])
        last = last - 1
      end
      for i = 1, last do
        if names[i] == nil then fail("%s: %d arguments at most", name, #names + 1) end
        if given[i] ~= nil then o[names[i]] = given[i] end
      end
    end
    if type(o.opt) ~= "table" or rawget(o.opt, "groups") == nil then
      fail("%s: opt must be an optimiser, got %s", name, type(o.opt))
    end
    for _, key in ipairs(names) do
      if o[key] == nil then fail("%s: %s is missing", name, key) end
    end
    return o
  end

  -- The arguments with torch's names of options in a table turned into the ones here.
  local function renamed(names, first, ...)
    local given = table.pack(first, ...)
    for i = 1, given.n do
      if is_options(given[i]) and rawget(given[i], "groups") == nil then
        local o = {}
        for key, value in pairs(given[i]) do o[names[key] or key] = value end
        given[i] = o
      end
    end
    return table.unpack(given, 1, given.n)
  end

  local function check(name, o, low, ...)
    for _, key in ipairs { ... } do number(name, key, o[key], low) end
  end

  local function bases(opt)
    local base = {}
    for i, group in ipairs(opt.groups) do
      group.initial_lr = rawget(group, "initial_lr") or group.lr
      base[i] = group.initial_lr
    end
    return base
  end

  local function start(opt, rate, also)
    local self = setmetatable({ opt = opt, at = -1, base = bases(opt), rate = rate, also = also },
      Schedule)
    self:step()
    return self
  end

  -- ---- shapes ---------------------------------------------------------------------------------
  --- Linear warm-up over 'warmup' steps to the optimiser's rate, then half a cosine down to
  --- 'min' at step 'steps'. Options: opt, steps, warmup = 0, min = 0.
  function schedule.cosine(...)
    local o = read("cosine", { "steps", "min", "warmup" }, { warmup = 0, min = 0 }, ...)
    check("cosine", o, 1, "steps")
    check("cosine", o, 0, "warmup", "min")
    return start(o.opt, function(at, base)
      if at < o.warmup then return base * ((at + 1) / o.warmup) end
      local x = math.min(1, (at - o.warmup) / math.max(1, o.steps - o.warmup))
      return o.min + (base - o.min) * 0.5 * (1 + math.cos(math.pi * x))
    end)
  end

  --- torch's form: half a cosine from the rate down to eta_min in T_max
  --- steps, and up again in as many.
  local function cosine_annealing(...)
    local o = read("CosineAnnealingLR", { "T_max", "eta_min" }, { eta_min = 0 },
      renamed({ steps = "T_max", min = "eta_min" }, ...))
    check("CosineAnnealingLR", o, 1, "T_max")
    return start(o.opt, function(at, base)
      return o.eta_min + (base - o.eta_min) * 0.5 * (1 + math.cos(math.pi * at / o.T_max))
    end)
  end

  --- Cosines that begin anew: the first after T_0 steps, each next one T_mult times as long.
  function schedule.cosine_restarts(...)
    local o = read("cosine_restarts", { "T_0", "T_mult", "eta_min" },
      { T_mult = 1, eta_min = 0 }, ...)
    check("cosine_restarts", o, 1, "T_0", "T_mult")
    return start(o.opt, function(at, base)
      local length = o.T_0
      while at >= length do at, length = at - length, length * o.T_mult end
      return o.eta_min + (base - o.eta_min) * 0.5 * (1 + math.cos(math.pi * at / length))
    end)
  end

  --- Times gamma after every step_size steps.
  function schedule.step(...)
    local o = read("step", { "step_size", "gamma" }, { gamma = 0.1 }, ...)
    check("step", o, 1, "step_size")
    return start(o.opt, function(at, base) return base * o.gamma ^ (at // o.step_size) end)
  end

  --- Times gamma at each of the milestones.
  function schedule.multi_step(...)
    local o = read("multi_step", { "milestones", "gamma" }, { gamma = 0.1 }, ...)
    return start(o.opt, function(at, base)
      local n = 0
      for _, m in ipairs(o.milestones) do if at >= m then n = n + 1 end end
      return base * o.gamma ^ n
    end)
  end

  --- Times gamma at every step.
  function schedule.exponential(...)
    local o = read("exponential", { "gamma" }, {}, ...)
    check("exponential", o, 0, "gamma")
    return start(o.opt, function(at, base) return base * o.gamma ^ at end)
  end

  --- From start_factor to end_factor of the rate, in total_iters steps.
  function schedule.linear(...)
    local o = read("linear", { "start_factor", "end_factor", "total_iters" },
      { start_factor = 1 / 3, end_factor = 1, total_iters = 5 }, ...)
    return start(o.opt, function(at, base)
      local x = math.min(at, o.total_iters) / o.total_iters
      return base * (o.start_factor + (o.end_factor - o.start_factor) * x)
    end)
  end

  --- A factor for the first total_iters steps.
  function schedule.constant(...)
    local o = read("constant", { "factor", "total_iters" },
      { factor = 1 / 3, total_iters = 5 }, ...)
    return start(o.opt, function(at, base)
      return at < o.total_iters and base * o.factor or base
    end)
  end

  --- Down to 0 in total_iters steps, as (1 - t)^power.
  function schedule.polynomial(...)
    local o = read("polynomial", { "total_iters", "power" }, { total_iters = 5, power = 1 }, ...)
    return start(o.opt, function(at, base)
      return base * (1 - math.min(at, o.total_iters) / o.total_iters) ^ o.power
    end)
  end

  -- The function of group i: one for all, or one of a list.
  local function factor(name, f, i)
    if not flame.internal.callable(f) and type(f) == "table" then f = f[i] end
    if not flame.internal.callable(f) then
      fail("%s: f must be a function or a list of one a group, group %d has %s", name, i, type(f))
    end
    return f
  end

  --- Any function of the step (from 0) as factor of the optimiser's rate; a list has one a group.
  function schedule.lambda(...)
    local o = read("lambda", { "f" }, { lr_lambda = false }, renamed({ lr_lambda = "f" }, ...))
    return start(o.opt, function(at, base, i)
      local f = factor("lambda", o.f, i)
      return base * f(at)
    end)
  end
  --- The product of a function's values at the steps 1, 2, … as factor of the
  --- optimiser's rate; a list has one a group.
  function schedule.multiplicative(...)
    local o = read("multiplicative", { "f" }, { lr_lambda = false },
      renamed({ lr_lambda = "f" }, ...))
    local known = {}                            -- group -> { step, factor }: the last one asked for
    return start(o.opt, function(at, base, i)
      local f = factor("multiplicative", o.f, i)
      local last = known[i]
      if not last or last[1] > at then last = { 0, 1 } end
      for k = last[1] + 1, at do last[2] = last[2] * f(k) end
      last[1], known[i] = at, last
      return base * last[2]
    end)
  end

  local function cosine_between(a, b, x) return b + (a - b) / 2 * (math.cos(math.pi * x) + 1) end
  local function line_between(a, b, x) return a + (b - a) * x end

  -- Value of a curve through points {step, value} at a step.
  local function through(points, at, blend)
    for i = 2, #points do
      local a, b = points[i - 1], points[i]
      if at <= b[1] or i == #points then
        return blend(a[2], b[2], math.min(1, (at - a[1]) / (b[1] - a[1])))
      end
    end
  end

  local function cycle_momentum(group, value)
    local betas = rawget(group, "betas")
    if betas then group.betas = { value, betas[2] }
    elseif rawget(group, "momentum") then group.momentum = value end
  end

  --- Smith and Topin 2019: up to max_lr and down far below the start, the momentum the other way.
  function schedule.one_cycle(...)
    local o = read("one_cycle",
      { "max_lr", "total_steps", "epochs", "steps_per_epoch", "pct_start", "anneal_strategy",
      "cycle_momentum", "base_momentum", "max_momentum", "div_factor", "final_div_factor",
      "three_phase" },
      { total_steps = 0, epochs = 0, steps_per_epoch = 0, pct_start = 0.3, anneal_strategy = "cos",
        cycle_momentum = true, base_momentum = 0.85, max_momentum = 0.95, div_factor = 25,
        final_div_factor = 1e4, three_phase = false }, ...)
    local total = o.total_steps > 0 and o.total_steps or o.epochs * o.steps_per_epoch
    if total < 2 then fail("one_cycle\1: give total_steps, or epochs and steps_per_epoch") end
    if o.anneal_strategy ~= "cos" and o.anneal_strategy ~= "linear" then
      fail('one_cycle: anneal_strategy is %s, need "cos" or "linear"', tostring(o.anneal_strategy))
    end
    local blend, up = o.anneal_strategy == "cos" and cosine_between or line_between,
      o.pct_start * total - 1
    local function curve(low, high, last, before_last)
      if not o.three_phase then return { { 0, low }, { up, high }, { total - 1, last } } end
      return { { 0, low }, { up, high }, { 2 * o.pct_start * total - 2, before_last },
        { total - 1, last } }
    end
    local function rate(at, _, i)
      local high = type(o.max_lr) == "table" and o.max_lr[i] or o.max_lr
      local low = high / o.div_factor
      return through(curve(low, high, low / o.final_div_factor, low), at, blend)
    end
    local momentum = curve(o.max_momentum, o.base_momentum, o.max_momentum, o.max_momentum)
    return start(o.opt, rate, o.cycle_momentum and function(at, group)
      cycle_momentum(group, through(momentum, at, blend))
    end)
  end

  --- Smith 2017: to and fro between base_lr and max_lr; the momentum, where
  --- there is one, the other way.
  function schedule.cyclic(...)
    local o = read("cyclic",
      { "base_lr", "max_lr", "step_size_up", "step_size_down", "mode", "gamma",
      "scale_fn", "scale_mode", "cycle_momentum", "base_momentum", "max_momentum" },
    { step_size_up = 2000, step_size_down = 0, mode = "triangular", gamma = 1,
      scale_fn = false, scale_mode = "cycle", cycle_momentum = true, base_momentum = 0.8,
      max_momentum = 0.9 }, ...)
    local down = o.step_size_down > 0 and o.step_size_down or o.step_size_up
    local total = o.step_size_up + down
    local scale = ({ triangular = function() return 1 end,
      triangular2 = function(cycle) return 0.5 ^ (cycle - 1) end,
      exp_range = function(_, at) return o.gamma ^ at end })[o.mode]
    if o.scale_fn then
      scale = function(cycle, at) return o.scale_fn(o.scale_mode == "cycle" and cycle or at) end
    elseif not scale then
      fail("cyclic: there is no mode %s", tostring(o.mode))
    end
    local function height(at)
      local cycle = at // total + 1
      local x = 1 + at / total - cycle
      return (x <= o.step_size_up / total and x * total / o.step_size_up
        or (1 - x) * total / down) * scale(cycle, at)
    end
    local function of(v, i) return type(v) == "table" and v[i] or v end
    return start(o.opt, function(at, _, i)
      return of(o.base_lr, i) + (of(o.max_lr, i) - of(o.base_lr, i)) * height(at)
    end,
      o.cycle_momentum and function(at, group)
        cycle_momentum(group, o.max_momentum - (o.max_momentum - o.base_momentum) * height(at))
      end)
  end

  -- ---- of others --------------------------------------------------------------------------------
  --- One schedule after the other: the k-th until milestones[k], each counting from 0.
  function schedule.sequential(...)
    local o = read("sequential", { "schedules", "milestones" }, {}, ...)
    if #o.milestones ~= #o.schedules - 1 then
      fail("sequential: %d schedules need %d milestones, got %d", #o.schedules, #o.schedules - 1,
        #o.milestones)
    end
    local self = setmetatable(
      { opt = o.opt, at = -1, base = bases(o.opt), schedules = o.schedules }, Schedule)
    function self.apply(s)
      local k, from = 1, 0
      while o.milestones[k] and s.at >= o.milestones[k] do k, from = k + 1, o.milestones[k] end
      o.schedules[k].at = s.at - from
      o.schedules[k]:apply()
    end
    self.rate = true
    self:step()
    return self
  end

  --- All of them at once: the rate is the base times the factor of each.
  function schedule.chained(list, opt)
    if type(list) ~= "table" or #list == 0 then fail("chained: need a list of schedules") end
    return start(opt or list[1].opt, function(at, base, i)
      local lr = base
      for _, s in ipairs(list) do lr = lr * (base == 0 and 1 or s.rate(at, base, i) / base) end
      return lr
    end)
  end

  -- ---- by a measure -----------------------------------------------------------------------------
  local Plateau = setmetatable({}, { __index = Schedule })
  Plateau.__index, Plateau.__newindex = flame.internal.closed("reduce_on_plateau", Plateau, fields)

  local function is_better(o, a, best)
    local margin = o.threshold_mode == "rel" and o.threshold * math.abs(best) or o.threshold
    if best == math.huge or best == -math.huge then
      return o.mode == "min" and a < best or o.mode == "max" and a > best
    end
    if o.mode == "min" then return a < best - margin end
    return a > best + margin
  end

  --- Times 'factor' when the measure given to step(measure) was no better for 'patience' steps.
  function schedule.reduce_on_plateau(...)
    local o = read("reduce_on_plateau",
      { "mode", "factor", "patience", "threshold", "threshold_mode", "cooldown", "min_lr", "eps" },
      { mode = "min", factor = 0.1, patience = 10, threshold = 1e-4, threshold_mode = "rel",
        cooldown = 0, min_lr = 0, eps = 1e-8 }, ...)
    if o.mode ~= "min" and o.mode ~= "max" then
      fail('reduce_on_plateau: mode is %s, need "min" or "max"', tostring(o.mode))
    end
    if not (o.factor < 1) then
      fail("reduce_on_plateau: factor is %g, need less than 1", o.factor)
    end
    local best = o.mode == "min" and math.huge or -math.huge
    return setmetatable(
      { opt = o.opt, o = o, at = 0, base = bases(o.opt),
        more = { best = best, bad = 0, rest = 0 } }, Plateau)
  end

  flame.internal.limit(Schedule)

  local function reduce(self)
    for i, group in ipairs(self.opt.groups) do
      local least = type(self.o.min_lr) == "table" and self.o.min_lr[i] or self.o.min_lr
      local lr = math.max(group.lr * self.o.factor, least)
      if group.lr - lr > self.o.eps then group.lr = lr end
    end
  end

  function Plateau:step(measure)
    if flame.is_tensor(measure) then measure = measure:item() end
    if type(measure) ~= "number" then
      fail("reduce_on_plateau: step needs the measure, got %s", type(measure))
    end
    local s = self.more
    self.at = self.at + 1
    if is_better(self.o, measure, s.best) then s.best, s.bad = measure, 0 else s.bad = s.bad + 1 end
    if s.rest > 0 then s.rest, s.bad = s.rest - 1, 0 end
    if s.bad > self.o.patience then
      reduce(self)
      s.rest, s.bad = self.o.cooldown, 0
    end
    return self.opt.lr
  end

  flame.internal.limit(schedule)
  --- torch's names for the same.
  optim.lr_scheduler = { StepLR = schedule.step, MultiStepLR = schedule.multi_step,
    ExponentialLR = schedule.exponential, LinearLR = schedule.linear,
    ConstantLR = schedule.constant, PolynomialLR = schedule.polynomial, LambdaLR = schedule.lambda,
    MultiplicativeLR = schedule.multiplicative,
    CosineAnnealingLR = cosine_annealing, CosineAnnealingWarmRestarts = schedule.cosine_restarts,
    OneCycleLR = schedule.one_cycle, CyclicLR = schedule.cyclic, SequentialLR = schedule.sequential,
    ChainedScheduler = schedule.chained, ReduceLROnPlateau = schedule.reduce_on_plateau }
end
