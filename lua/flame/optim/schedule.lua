--- Learning rates over time. A schedule keeps the initial rates of the groups, and sets group.lr as
--- a function of the number of calls of step(), so that a resumed run is bit for bit the same. Call
--- step() once after each opt:step() (or once an epoch, with counts of epochs).
--
--- schedule.name{opt = opt, …}, or schedule.name(opt, …) with torch's arguments in its order, as
--- its declaration lists them (src/lua/declare.h).
local flame = require "flame"
local objects = require "flame.base.objects"

return function(optim, shared)
  local fail, number, put = shared.fail, shared.number, shared.put
  local schedule = {}
  optim.schedule, optim.lr_scheduler = schedule, {}

  ---@class flame.Schedule
  local Schedule = { __name = "Schedule" }
  objects.classes.Schedule = Schedule
  -- at: count of steps; base: initial rates of the groups; rate(at, base, group's number): the
  -- rule; also(at, group): sets more than the rate, or nil; schedules: of sequential; o, more:
  -- options and state of reduce_on_plateau.
  local fields = { opt = true, at = true, base = true, rate = true, also = true, more = true,
    schedules = true, o = true }
  Schedule.__index, Schedule.__newindex = objects.closed("a schedule", Schedule, fields)

  -- Called before this schedule's state changes, so that flame.warmup can restore it; inner
  -- schedules call it themselves.
  local function before_change(self)
    shared.before_step(self.opt)
    shared.before_change(self)
    if self.more then shared.before_change(self.more) end
  end

  --- Sets the rates of the next step; returns the rate of the first group.
  put(Schedule, "Schedule:step() -> num", function(self)
    before_change(self)
    self.at = self.at + 1
    self:apply()
    return self.opt.lr
  end)

  --- Sets the rates for a count of steps, by default the current one.
  put(Schedule, "Schedule:apply(count?: num)", function(self, count)
    before_change(self)
    for i, group in ipairs(self.opt.groups) do
      local base = self.base[i] or group.lr
      group.lr = self.rate(count or self.at, base, i)
      if self.also then self.also(count or self.at, group) end
    end
  end)

  --- The current rates, a list over the groups.
  put(Schedule, "Schedule:get_last_lr() -> num[]", function(self)
    local out = {}
    for i, group in ipairs(self.opt.groups) do out[i] = group.lr end
    return out
  end)

  --- The position and the initial rates of the groups.
  put(Schedule, "Schedule:state_dict() -> table", function(self)
    return { at = self.at, base = table.move(self.base, 1, #self.base, 1, {}),
      more = self.more and shared.copy_of(self.more) }
  end)
  --- Restores what state_dict gave, and sets the rates.
  put(Schedule, "Schedule:load_state_dict(state: table)", function(self, saved)
    if type(saved.at) ~= "number" then
      fail("load_state_dict: need what a schedule's state_dict() gave")
    end
    self.at = saved.at
    if saved.base then self.base = table.move(saved.base, 1, #saved.base, 1, {}) end
    if self.more then
      for key, value in pairs(saved.more or {}) do self.more[key] = value end
    end
    if self.rate then self:apply() end
  end)

  -- Checks numbers, given as name, value, …, which must be at least 'low'.
  local function check(what, low, ...)
    for i = 1, select("#", ...), 2 do number(what, select(i, ...), (select(i + 1, ...)), low) end
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
  --- 'min' at step 'steps'.
  put(schedule, "optim.schedule.cosine(opt: Optimizer, steps: num, min = 0, warmup = 0) -> Schedule",
    function(opt, steps, min, warmup)
      check("cosine", 1, "steps", steps)
      check("cosine", 0, "warmup", warmup, "min", min)
      return start(opt, function(at, base)
        if at < warmup then return base * ((at + 1) / warmup) end
        local x = math.min(1, (at - warmup) / math.max(1, steps - warmup))
        return min + (base - min) * 0.5 * (1 + math.cos(math.pi * x))
      end)
    end)

  --- torch's form: half a cosine from the rate down to eta_min in T_max
  --- steps, and up again in as many. steps and min are other names of T_max and eta_min.
  put(optim.lr_scheduler, [[optim.lr_scheduler.CosineAnnealingLR(opt: Optimizer, T_max?: num,
    eta_min = 0, *, steps?: num, min?: num) -> Schedule]],
    function(opt, T_max, eta_min, steps, min)
      T_max, eta_min = T_max or steps, min or eta_min
      if T_max == nil then fail("CosineAnnealingLR: T_max must be a number, got nothing") end
      check("CosineAnnealingLR", 1, "T_max", T_max)
      return start(opt, function(at, base)
        return eta_min + (base - eta_min) * 0.5 * (1 + math.cos(math.pi * at / T_max))
      end)
    end)

  --- Half cosines with restarts: the first takes T_0 steps, each following one T_mult times as
  --- many.
  put(schedule, [[optim.schedule.cosine_restarts(opt: Optimizer, T_0: num, T_mult = 1, eta_min = 0)
    -> Schedule]], function(opt, T_0, T_mult, eta_min)
    check("cosine_restarts", 1, "T_0", T_0, "T_mult", T_mult)
    return start(opt, function(at, base)
      local length = T_0
      while at >= length do at, length = at - length, length * T_mult end
      return eta_min + (base - eta_min) * 0.5 * (1 + math.cos(math.pi * at / length))
    end)
  end)

  --- Multiplies the rate by gamma after every step_size steps.
  put(schedule, "optim.schedule.step(opt: Optimizer, step_size: num, gamma = 0.1) -> Schedule",
    function(opt, step_size, gamma)
      check("step", 1, "step_size", step_size)
      return start(opt, function(at, base) return base * gamma ^ (at // step_size) end)
    end)

  --- Multiplies the rate by gamma at each of the milestones.
  put(schedule, [[optim.schedule.multi_step(opt: Optimizer, milestones: num[], gamma = 0.1)
    -> Schedule]], function(opt, milestones, gamma)
    return start(opt, function(at, base)
      local n = 0
      for _, m in ipairs(milestones) do if at >= m then n = n + 1 end end
      return base * gamma ^ n
    end)
  end)

  --- Multiplies the rate by gamma at every step.
  put(schedule, "optim.schedule.exponential(opt: Optimizer, gamma: num) -> Schedule",
    function(opt, gamma)
      check("exponential", 0, "gamma", gamma)
      return start(opt, function(at, base) return base * gamma ^ at end)
    end)

  --- A factor of the rate that goes from start_factor to end_factor in total_iters steps.
  put(schedule, [[optim.schedule.linear(opt: Optimizer, start_factor = 0.3333333333333333,
    end_factor = 1, total_iters = 5) -> Schedule]], function(opt, first, last, total)
    check("linear", 1, "total_iters", total)
    return start(opt, function(at, base)
      local x = math.min(at, total) / total
      return base * (first + (last - first) * x)
    end)
  end)

  --- Multiplies the rate by a factor in the first total_iters steps.
  put(schedule, [[optim.schedule.constant(opt: Optimizer, factor = 0.3333333333333333,
    total_iters = 5) -> Schedule]], function(opt, by, total)
    check("constant", 0, "total_iters", total)
    return start(opt, function(at, base) return at < total and base * by or base end)
  end)

  --- Lowers the rate to 0 in total_iters steps: base (1 - step / total_iters)^power.
  put(schedule, [[optim.schedule.polynomial(opt: Optimizer, total_iters = 5, power = 1)
    -> Schedule]], function(opt, total, power)
    check("polynomial", 1, "total_iters", total)
    return start(opt, function(at, base)
      return base * (1 - math.min(at, total) / total) ^ power
    end)
  end)

  -- The script's function for group i: f itself, or element i of f; name: for messages.
  local function factor(name, f, i)
    if not flame.internal.callable(f) and type(f) == "table" then f = f[i] end
    if not flame.internal.callable(f) then
      fail("%s: f must be a function or a list of one a group, group %d has %s", name, i, type(f))
    end
    return f
  end

  --- Multiplies the optimiser's rate by f(step), steps from 0; a list has one function per group.
  --- lr_lambda is another name of f.
  put(schedule, [[optim.schedule.lambda(opt: Optimizer, f?: fn|fn[], *, lr_lambda?: fn|fn[])
    -> Schedule]], function(opt, f, lr_lambda)
    return start(opt, function(at, base, i)
      return base * factor("lambda", f or lr_lambda, i)(at)
    end)
  end)
  --- Multiplies the optimiser's rate by f(1) f(2) … f(step); a list has one function per group.
  --- lr_lambda is another name of f.
  put(schedule, [[optim.schedule.multiplicative(opt: Optimizer, f?: fn|fn[], *,
    lr_lambda?: fn|fn[]) -> Schedule]], function(opt, given, lr_lambda)
    local known = {}                            -- group -> { step, factor }: the last ones computed
    return start(opt, function(at, base, i)
      local f = factor("multiplicative", given or lr_lambda, i)
      local last = known[i]
      if not last or last[1] > at then last = { 0, 1 } end
      for k = last[1] + 1, at do last[2] = last[2] * f(k) end
      last[1], known[i] = at, last
      return base * last[2]
    end)
  end)

  local function cosine_between(a, b, x) return b + (a - b) / 2 * (math.cos(math.pi * x) + 1) end
  local function line_between(a, b, x) return a + (b - a) * x end

  -- The value at step 'at' of a curve through points {step, value}; blend(a, b, t) interpolates.
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

  --- Smith and Topin 2019: the rate goes up to max_lr, then down far below the start; the momentum
  --- goes the opposite way.
  put(schedule, [[optim.schedule.one_cycle(opt: Optimizer, max_lr: num|num[], total_steps = 0,
    epochs = 0, steps_per_epoch = 0, pct_start = 0.3, anneal_strategy: "cos"|"linear" = "cos",
    cycle_momentum = true, base_momentum = 0.85, max_momentum = 0.95, div_factor = 25,
    final_div_factor = 1e4, three_phase = false) -> Schedule]],
    function(opt, max_lr, total, epochs, steps_per_epoch, pct_start, strategy, cycles,
      base_momentum, max_momentum, div_factor, final_div_factor, three_phase)
    total = total > 0 and total or epochs * steps_per_epoch
    if total < 2 then fail("one_cycle\1: give total_steps, or epochs and steps_per_epoch") end
    local blend, up = strategy == "cos" and cosine_between or line_between, pct_start * total - 1
    local function curve(low, high, last, before_last)
      if not three_phase then return { { 0, low }, { up, high }, { total - 1, last } } end
      return { { 0, low }, { up, high }, { 2 * pct_start * total - 2, before_last },
        { total - 1, last } }
    end
    local function rate(at, _, i)
      local high = type(max_lr) == "table" and max_lr[i] or max_lr
      local low = high / div_factor
      return through(curve(low, high, low / final_div_factor, low), at, blend)
    end
    local momentum = curve(max_momentum, base_momentum, max_momentum, max_momentum)
    return start(opt, rate, cycles and function(at, group)
      cycle_momentum(group, through(momentum, at, blend))
    end)
  end)

  --- Smith 2017: the rate goes up and down between base_lr and max_lr; the momentum, if there is
  --- one, the opposite way. step_size_down 0 means step_size_up.
  put(schedule, [[optim.schedule.cyclic(opt: Optimizer, base_lr: num|num[], max_lr: num|num[],
    step_size_up = 2000, step_size_down = 0,
    mode: "triangular"|"triangular2"|"exp_range" = "triangular", gamma = 1, scale_fn?: fn,
    scale_mode: "cycle"|"iterations" = "cycle", cycle_momentum = true, base_momentum = 0.8,
    max_momentum = 0.9) -> Schedule]], function(opt, base_lr, max_lr, rise, down, mode, gamma,
      scale_fn, scale_mode, cycles, base_momentum, max_momentum)
    check("cyclic", 0, "step_size_up", rise, "step_size_down", down)
    down = down > 0 and down or rise
    if not (rise > 0 and rise + down < math.huge) then
      fail("cyclic: step_size_up is %g, step_size_down %g, need numbers above 0", rise, down)
    end
    local total = rise + down
    local scale = ({ triangular = function() return 1 end,
      triangular2 = function(cycle) return 0.5 ^ (cycle - 1) end,
      exp_range = function(_, at) return gamma ^ at end })[mode]
    if scale_fn then
      scale = function(cycle, at) return scale_fn(scale_mode == "cycle" and cycle or at) end
    end
    local function height(at)
      local cycle = at // total + 1
      local x = 1 + at / total - cycle
      return (x <= rise / total and x * total / rise or (1 - x) * total / down) * scale(cycle, at)
    end
    local function of(v, i) return type(v) == "table" and v[i] or v end
    return start(opt, function(at, _, i)
      return of(base_lr, i) + (of(max_lr, i) - of(base_lr, i)) * height(at)
    end,
      cycles and function(at, group)
        cycle_momentum(group, max_momentum - (max_momentum - base_momentum) * height(at))
      end)
  end)

  -- ---- schedules made of others ----------------------------------------------------------------
  --- One schedule after the other: the k-th until milestones[k], each counting from 0.
  put(schedule, [[optim.schedule.sequential(opt: Optimizer, schedules: Schedule[],
    milestones: num[]) -> Schedule]], function(opt, schedules, milestones)
    if #milestones ~= #schedules - 1 then
      fail("sequential: %d schedules need %d milestones, got %d", #schedules, #schedules - 1,
        #milestones)
    end
    local self = setmetatable(
      { opt = opt, at = -1, base = bases(opt), schedules = schedules }, Schedule)
    function self.apply(s)
      local k, from = 1, 0
      while milestones[k] and s.at >= milestones[k] do k, from = k + 1, milestones[k] end
      shared.before_change(schedules[k])
      schedules[k].at = s.at - from
      schedules[k]:apply()
    end
    self.rate = true
    self:step()
    return self
  end)

  --- Applies all schedules at once: the rate is the base times the factor of each. It raises for
  --- sequential and reduce_on_plateau, which have none.
  put(schedule, "optim.schedule.chained(schedules: Schedule[], opt?: Optimizer) -> Schedule",
    function(list, opt)
    if #list == 0 then fail("chained: need a list of schedules") end
    for i, s in ipairs(list) do
      if type(s.rate) ~= "function" then
        fail("chained: schedule %d is sequential or reduce_on_plateau, which has no factor", i)
      end
    end
    return start(opt or list[1].opt, function(at, base, i)
      local lr = base
      for _, s in ipairs(list) do lr = lr * (base == 0 and 1 or s.rate(at, base, i) / base) end
      return lr
    end)
  end)

  -- ---- a schedule that depends on a measure ----------------------------------------------------
  local Plateau = setmetatable({ __name = "ReduceOnPlateau" }, { __index = Schedule })
  objects.classes.ReduceOnPlateau = Plateau
  Plateau.__index, Plateau.__newindex = objects.closed("reduce_on_plateau", Plateau, fields)

  local function is_better(o, a, best)
    local margin = o.threshold_mode == "rel" and o.threshold * math.abs(best) or o.threshold
    if best == math.huge or best == -math.huge then
      return o.mode == "min" and a < best or o.mode == "max" and a > best
    end
    if o.mode == "min" then return a < best - margin end
    return a > best + margin
  end

  --- Multiplies the rate by 'factor' when the measure given to step(measure) has not improved for
  --- 'patience' steps.
  put(schedule, [[optim.schedule.reduce_on_plateau(opt: Optimizer, mode: "min"|"max" = "min",
    factor = 0.1, patience = 10, threshold = 1e-4, threshold_mode: "rel"|"abs" = "rel",
    cooldown = 0, min_lr: num|num[] = 0, eps = 1e-8) -> Schedule]],
    function(opt, mode, by, patience, threshold, threshold_mode, cooldown, min_lr, eps)
      if not (by < 1) then fail("reduce_on_plateau: factor is %g, need less than 1", by) end
      return setmetatable({ opt = opt, at = 0, base = bases(opt),
        o = { mode = mode, factor = by, patience = patience, threshold = threshold,
          threshold_mode = threshold_mode, cooldown = cooldown, min_lr = min_lr, eps = eps },
        more = { best = mode == "min" and math.huge or -math.huge, bad = 0, rest = 0 } }, Plateau)
    end)

  local function reduce(self)
    for i, group in ipairs(self.opt.groups) do
      local least = type(self.o.min_lr) == "table" and self.o.min_lr[i] or self.o.min_lr
      local lr = math.max(group.lr * self.o.factor, least)
      if group.lr - lr > self.o.eps then group.lr = lr end
    end
  end

  --- Sets the rates according to the measure; returns the rate of the first group.
  put(Plateau, "ReduceOnPlateau:step(metrics: num|T) -> num", function(self, measure)
    if flame.is_tensor(measure) then measure = measure:item() end
    before_change(self)
    local s = self.more
    self.at = self.at + 1
    if is_better(self.o, measure, s.best) then s.best, s.bad = measure, 0 else s.bad = s.bad + 1 end
    if s.rest > 0 then s.rest, s.bad = s.rest - 1, 0 end
    if s.bad > self.o.patience then
      reduce(self)
      s.rest, s.bad = self.o.cooldown, 0
    end
    return self.opt.lr
  end)

  -- torch's names for the same
  for torch, name in pairs { StepLR = "step", MultiStepLR = "multi_step",
    ExponentialLR = "exponential", LinearLR = "linear", ConstantLR = "constant",
    PolynomialLR = "polynomial", LambdaLR = "lambda", MultiplicativeLR = "multiplicative",
    CosineAnnealingWarmRestarts = "cosine_restarts", OneCycleLR = "one_cycle", CyclicLR = "cyclic",
    SequentialLR = "sequential", ChainedScheduler = "chained",
    ReduceLROnPlateau = "reduce_on_plateau" } do
    optim.lr_scheduler[torch] = schedule[name]
  end
end
