--- More optimisers: Muon, LBFGS and the rarer rules of torch.optim, and the scaler of losses
-- for f16. Given the table of flame.optim, adds to it.
local flame = require "flame"
local objects = require "flame.base.objects"

return function(optim, shared)
  local fail, number, pin, unpin, make_class, put = shared.fail, shared.number, shared.pin,
    shared.unpin, shared.make_class, shared.put

  -- ---- first-order rules ----------------------------------------------------------------------
  local function decayed(group, p, g)
    return group.weight_decay ~= 0 and g + p * group.weight_decay or g
  end

  --- Zeiler 2012: no rate to tune.
  make_class([[optim.Adadelta(params: T|T[]|table[], lr = 1.0, rho = 0.9, eps = 1e-6,
    weight_decay = 0, OPTIONS) -> Optimizer]],
    function(group, p, g, state)
      g = decayed(group, p, g)
      state.square_avg = state.square_avg or flame.zeros_like(p)
      state.acc_delta = state.acc_delta or flame.zeros_like(p)
      local rho = group.rho
      state.square_avg:copy_(state.square_avg * rho + g * g * (1 - rho))
      local delta = (state.acc_delta + group.eps):sqrt() / (state.square_avg + group.eps):sqrt() * g
      state.acc_delta:copy_(state.acc_delta * rho + delta * delta * (1 - rho))
      p:copy_(p - delta * group.lr)
    end)

  local function betas_of(group) return group.betas[1], group.betas[2] end

  --- Kingma and Ba 2015, section 7: Adam with the largest magnitude instead of the second moment.
  make_class([[optim.Adamax(params: T|T[]|table[], lr = 2e-3, betas = {0.9, 0.999}, eps = 1e-8,
    weight_decay = 0, OPTIONS) -> Optimizer]],
    function(group, p, g, state)
      g = decayed(group, p, g)
      state.exp_avg = state.exp_avg or flame.zeros_like(p)
      state.exp_inf = state.exp_inf or flame.zeros_like(p)
      local b1, b2 = betas_of(group)
      state.exp_avg:copy_(state.exp_avg * b1 + g * (1 - b1))
      state.exp_inf:copy_(flame.maximum(state.exp_inf * b2, g:abs() + group.eps))
      p:copy_(p - state.exp_avg / state.exp_inf * (group.lr / (1 - b1 ^ state.step)))
    end)

  --- Dozat 2016: Adam with Nesterov's momentum.
  make_class([[optim.NAdam(params: T|T[]|table[], lr = 2e-3, betas = {0.9, 0.999}, eps = 1e-8,
    weight_decay = 0, momentum_decay = 4e-3, decoupled_weight_decay = false, OPTIONS)
    -> Optimizer]], function(group, p, g, state)
      local b1, b2 = betas_of(group)
      local from = p
      if group.decoupled_weight_decay then from = p * (1 - group.lr * group.weight_decay)
      else g = decayed(group, p, g) end
      state.exp_avg = state.exp_avg or flame.zeros_like(p)
      state.exp_avg_sq = state.exp_avg_sq or flame.zeros_like(p)
      local mu = b1 * (1 - 0.5 * 0.96 ^ (state.step * group.momentum_decay))
      local next_mu = b1 * (1 - 0.5 * 0.96 ^ ((state.step + 1) * group.momentum_decay))
      state.mu_product = (state.mu_product or 1) * mu
      state.exp_avg:copy_(state.exp_avg * b1 + g * (1 - b1))
      state.exp_avg_sq:copy_(state.exp_avg_sq * b2 + g * g * (1 - b2))
      local denominator = (state.exp_avg_sq * (1 / (1 - b2 ^ state.step))):sqrt() + group.eps
      p:copy_(from - g / denominator * (group.lr * (1 - mu) / (1 - state.mu_product))
        - state.exp_avg / denominator * (group.lr * next_mu / (1 - state.mu_product * next_mu)))
    end)

  --- Liu et al. 2020: Adam that waits until the second moment can be trusted.
  make_class([[optim.RAdam(params: T|T[]|table[], lr = 1e-3, betas = {0.9, 0.999}, eps = 1e-8,
    weight_decay = 0, decoupled_weight_decay = false, OPTIONS) -> Optimizer]],
    function(group, p, g, state)
      local b1, b2 = betas_of(group)
      local from, t = p, state.step
      if group.decoupled_weight_decay then from = p * (1 - group.lr * group.weight_decay)
      else g = decayed(group, p, g) end
      state.exp_avg = state.exp_avg or flame.zeros_like(p)
      state.exp_avg_sq = state.exp_avg_sq or flame.zeros_like(p)
      state.exp_avg:copy_(state.exp_avg * b1 + g * (1 - b1))
      state.exp_avg_sq:copy_(state.exp_avg_sq * b2 + g * g * (1 - b2))
      local step, most = state.exp_avg * (group.lr / (1 - b1 ^ t)), 2 / (1 - b2) - 1
      local length = most - 2 * t * b2 ^ t / (1 - b2 ^ t)
      if length > 5 then
        local rect = math.sqrt(
          (length - 4) * (length - 2) * most / ((most - 4) * (most - 2) * length))
        step = step * (math.sqrt(1 - b2 ^ t) * rect) / (state.exp_avg_sq:sqrt() + group.eps)
      end
      p:copy_(from - step)
    end)

  --- Riedmiller and Braun 1993: the gradient's sign alone counts.
  make_class([[optim.Rprop(params: T|T[]|table[], lr = 1e-2, etas = {0.5, 1.2},
    step_sizes = {1e-6, 50}, OPTIONS) -> Optimizer]],
    function(group, p, g, state)
      state.prev = state.prev or flame.zeros_like(p)
      state.step_size = state.step_size or flame.full_like(p, group.lr)
      local sign = g * state.prev
      local factor = flame.where(sign:gt(0), group.etas[2],
        flame.where(sign:lt(0), group.etas[1], flame.ones_like(p)))
      state.step_size:copy_(
        (state.step_size * factor):clamp(group.step_sizes[1], group.step_sizes[2]))
      local used = flame.where(sign:lt(0), 0, g)
      p:copy_(p - used:sign() * state.step_size)
      state.prev:copy_(used)
    end)

  --- Polyak and Juditsky 1992: the average of the parameters, in state.ax, of
  --- steps that shrink from t0 on.
  make_class([[optim.ASGD(params: T|T[]|table[], lr = 1e-2, lambd = 1e-4, alpha = 0.75, t0 = 1e6,
    weight_decay = 0, OPTIONS) -> Optimizer]],
    function(group, p, g, state)
      g = decayed(group, p, g)
      state.eta, state.mu = state.eta or group.lr, state.mu or 1
      state.ax = state.ax or flame.zeros_like(p)
      p:copy_(p * (1 - group.lambd * state.eta) - g * state.eta)
      state.ax:copy_(state.mu == 1 and p or state.ax + (p - state.ax) * state.mu)
      state.eta = group.lr / (1 + group.lambd * group.lr * state.step) ^ group.alpha
      state.mu = 1 / math.max(1, state.step - group.t0)
    end)

  -- ---- Muon -------------------------------------------------------------------------------------
  --- A matrix with the singular vectors of g and singular values near 1, by Newton and Schulz's
  --- iteration in bf16 (Jordan et al. 2024).
  local function orthogonal(group, g)
    local rows, columns = g.shape[1], g.shape[2]
    local a, b, c = table.unpack(group.ns_coefficients)
    local x = g:bfloat16()
    if rows > columns then x = x:t() end
    x = x / x:norm():clamp({ min = group.eps })
    for _ = 1, group.ns_steps do
      local gram = x:matmul(x:t())
      local update = gram * b + gram:matmul(gram) * c
      x = x * a + update:matmul(x)
    end
    return rows > columns and x:t() or x
  end

  local function check_matrices(self)
    for _, group in ipairs(self.groups) do
      for i, p in ipairs(group.params) do
        if p.ndim ~= 2 then
          fail("Muon: parameter %d has shape (%s), need 2 axes\1: give others to AdamW", i,
            table.concat(p.shape, ", "))
        end
      end
    end
  end
  --- Momentum made orthogonal, for the matrices of hidden layers; give embeddings, heads and
  --- vectors to AdamW.
  make_class([[optim.Muon(params: T|T[]|table[], lr = 1e-3, weight_decay = 0.1, momentum = 0.95,
    nesterov = true, ns_coefficients = {3.4445, -4.775, 2.0315}, eps = 1e-7, ns_steps: int = 5,
    adjust_lr_fn: "original"|"match_rms_adamw" = "original", PLAIN) -> Optimizer]],
    function(group, p, g, state)
      state.momentum_buffer = state.momentum_buffer or flame.zeros_like(p)
      local m = group.momentum
      state.momentum_buffer:copy_(state.momentum_buffer * m + g * (1 - m))
      local update = group.nesterov and g * (1 - m) + state.momentum_buffer * m
        or state.momentum_buffer
      local rows, columns = p.shape[1], p.shape[2]
      local ratio = group.adjust_lr_fn == "match_rms_adamw"
        and 0.2 * math.sqrt(math.max(rows, columns))
        or math.sqrt(math.max(1, rows / columns))
      p:copy_(
        p * (1 - group.lr * group.weight_decay) - orthogonal(group,
          update):to(p.dtype) * (group.lr * ratio))
    end, check_matrices)

  -- ---- LBFGS ------------------------------------------------------------------------------------
  --- Limited-memory BFGS (Nocedal 1980): step(closure) calls the closure, which clears the
  --- gradients, computes the loss, calls backward and returns it, several times. line_search_fn
  --- looks for a step length that Wolfe's conditions accept.
  local lbfgs = make_class([[optim.LBFGS(params: T|T[]|table[], lr = 1, max_iter: int = 20,
    max_eval?: int, tolerance_grad = 1e-7, tolerance_change = 1e-9, history_size: int = 100,
    line_search_fn?: "strong_wolfe", PLAIN) -> Optimizer]], function() end, function(self)
    if #self.groups ~= 1 then fail("LBFGS: one group of parameters, got %d", #self.groups) end
  end)

  -- All gradients in one vector; a parameter without one counts as 0.
  local function flat_gradient(params)
    local parts = {}
    for i, p in ipairs(params) do
      parts[i] = (p.grad and p.grad:detach() or flame.zeros_like(p)):reshape(-1)
    end
    return flame.cat(parts, 1)
  end

  -- The parameters become 'from' + t d (nil: what they are + t d).
  local function move(params, t, d, from)
    local at = 1
    for i, p in ipairs(params) do
      local part = d:narrow(1, at, p:numel()):reshape(p.shape)
      p:copy_((from and from[i] or p) + part * t)
      at = at + p:numel()
    end
  end

  local function dot(a, b) return (a * b):sum():item() end
  local function largest(a) return a:abs():max():item() end

  -- Where the cubic through two points with slopes is least, between 'low' and 'high'.
  local function cubic_least(a, b, low, high)
    if not low then low, high = math.min(a.t, b.t), math.max(a.t, b.t) end
    local d1 = a.slope + b.slope - 3 * (a.f - b.f) / (a.t - b.t)
    local square = d1 * d1 - a.slope * b.slope
    if not (square >= 0) then return (low + high) / 2 end
    local d2 = math.sqrt(square)
    local at
    if a.t <= b.t then at = b.t - (b.t - a.t) * ((b.slope + d2 - d1) / (b.slope - a.slope + 2 * d2))
    else at = a.t - (a.t - b.t) * ((a.slope + d2 - d1) / (a.slope - b.slope + 2 * d2)) end
    return math.min(math.max(at, low), high)
  end

  local C1, C2, MOST_TRIES = 1e-4, 0.9, 25

  -- Two points with an acceptable step between them, the trial number; or one that is acceptable.
  local function bracket(try, start, t)
    local before, tries = start, 0
    local now = try(t)
    while tries < MOST_TRIES do
      if now.f > start.f + C1 * now.t * start.slope or (tries > 1 and now.f >= before.f) then
        return { before, now }, tries
      end
      if math.abs(now.slope) <= -C2 * start.slope then return { now }, tries end
      if now.slope >= 0 then return { before, now }, tries end
      local further = cubic_least(before, now, now.t + 0.01 * (now.t - before.t), now.t * 10)
      before, now = now, try(further)
      tries = tries + 1
    end
    return { start, now }, tries
  end

  -- Strong Wolfe conditions (Nocedal and Wright, algorithms 3.5 and 3.6). try(t): {t, f, g, slope}.
  local function search(try, start, t, reach, tolerance)
    local ends, tries = bracket(try, start, t)
    if #ends == 1 then return ends[1] end
    local slow = false
    local low, high = ends[1], ends[2]
    if not (low.f <= high.f) then low, high = high, low end
    while tries < MOST_TRIES and math.abs(high.t - low.t) * reach >= tolerance do
      local first, last = math.min(low.t, high.t), math.max(low.t, high.t)
      local trial = cubic_least(ends[1], ends[2])
      local margin = 0.1 * (last - first)
      if math.min(last - trial, trial - first) < margin then
        if slow or trial >= last or trial <= first then
          trial = math.abs(trial - last) < math.abs(trial - first) and last - margin
            or first + margin
          slow = false
        else
          slow = true
        end
      else
        slow = false
      end
      local now = try(trial)
      tries = tries + 1
      local place = ends[1] == low and 1 or 2          -- the better end keeps its place
      if now.f > start.f + C1 * now.t * start.slope or now.f >= low.f then
        ends[3 - place] = now
        low, high = ends[1], ends[2]
        if not (low.f <= high.f) then low, high = high, low end
      else
        if math.abs(now.slope) <= -C2 * start.slope then return now end
        if now.slope * (high.t - low.t) >= 0 then
          ends[3 - place] = low
          high = low
        end
        ends[place] = now
        low = now
      end
    end
    return low
  end

  -- The direction of a step from the history: two loops of Nocedal.
  local function direction(state, g, group)
    local s, y = state.d * state.t, g - state.prev_flat_grad
    local curvature = dot(y, s)
    if curvature > 1e-10 then
      if #state.old_dirs == group.history_size then
        table.remove(state.old_dirs, 1)
        table.remove(state.old_stps, 1)
        table.remove(state.ro, 1)
      end
      local n = #state.old_dirs + 1
      state.old_dirs[n], state.old_stps[n], state.ro[n] = y, s, 1 / curvature
      state.H_diag = curvature / dot(y, y)
    end
    local q, alpha = -g, {}
    for i = #state.old_dirs, 1, -1 do
      alpha[i] = dot(state.old_stps[i], q) * state.ro[i]
      q = q - state.old_dirs[i] * alpha[i]
    end
    local r = q * state.H_diag
    for i = 1, #state.old_dirs do
      r = r + state.old_stps[i] * (alpha[i] - dot(state.old_dirs[i], r) * state.ro[i])
    end
    return r
  end

  local function hold_all(t)
    for _, value in pairs(t) do
      if type(value) == "userdata" then flame.internal.hold(value)
      elseif type(value) == "table" then hold_all(value) end
    end
  end

  -- One iteration: moves the parameters; true when there is nothing more to do.
  local function iterate(run, last)
    local state, group, params = run.state, run.group, run.params
    if state.n_iter == 1 then
      state.d, state.H_diag, state.old_dirs, state.old_stps, state.ro = -run.g, 1, {}, {}, {}
    else
      state.d = direction(state, run.g, group)
    end
    state.prev_flat_grad = run.g
    local before = run.loss
    state.t = state.n_iter == 1 and math.min(1, 1 / run.g:abs():sum():item()) * group.lr or group.lr
    local slope = dot(run.g, state.d)
    if slope > -group.tolerance_change then return true end
    if group.line_search_fn then
      local from = {}
      for i, p in ipairs(params) do from[i] = p:detach() end
      local function try(t)
        move(params, t, state.d, from)
        local f, g = run.evaluate()
        return { t = t, f = f, g = g, slope = dot(g, state.d) }
      end
      local found = search(try, { t = 0, f = run.loss, g = run.g, slope = slope }, state.t,
        largest(state.d), 1e-9)
      move(params, found.t, state.d, from)
      state.t, run.loss, run.g = found.t, found.f, found.g
    else
      move(params, state.t, state.d)
      if not last then run.loss, run.g = run.evaluate() end
    end
    return last or run.evaluations >= (group.max_eval or group.max_iter * 5 // 4)
      or largest(run.g) <= group.tolerance_grad
      or largest(state.d * state.t) <= group.tolerance_change
      or math.abs(run.loss - before) < group.tolerance_change
  end

  objects.classes.LBFGS = lbfgs
  --- One step, for which the closure runs several times; gives the first loss.
  put(lbfgs, "LBFGS:step(closure: fn) -> any", function(self, closure)
    local group = self.groups[1]
    local run = { group = group, params = group.params, state = self:state_of(group.params[1]),
      evaluations = 0 }
    local first
    function run.evaluate()
      local loss = flame.enable_grad(closure)
      if loss == nil then fail("LBFGS: the function must return the loss") end
      first = first or loss
      run.evaluations = run.evaluations + 1
      return type(loss) == "number" and loss or loss:item(), flat_gradient(run.params)
    end
    return flame.no_grad(function()
      self.steps = self.steps + 1
      shared.follow(self)
      run.state = self:state_of(group.params[1])
      run.loss, run.g = run.evaluate()
      local state = run.state
      state.step, state.n_iter = state.step + 1, state.n_iter or 0
      if largest(run.g) > group.tolerance_grad then
        for n = 1, group.max_iter do
          state.n_iter = state.n_iter + 1
          if iterate(run, n == group.max_iter) then break end
        end
      end
      state.func_evals = (state.func_evals or 0) + run.evaluations
      hold_all(state)
      flame.eval(table.unpack(run.params))
      return first
    end)
  end)

  -- ---- scaled losses ----------------------------------------------------------------------------
  ---@class flame.GradScaler
  local GradScaler = { __name = "GradScaler" }
  objects.classes.GradScaler = GradScaler
  GradScaler.__index, GradScaler.__newindex = objects.closed("GradScaler", GradScaler, {})

  local SCALER = [[init_scale = 65536, growth_factor = 2, backoff_factor = 0.5,
    growth_interval: int = 2000, enabled = true) -> GradScaler]]
  local function scaler(init_scale, growth, backoff, interval, enabled)
    if not (growth > 1) then
      fail("GradScaler: growth_factor is %g, need more than 1", growth)
    end
    if not (backoff < 1) then
      fail("GradScaler: backoff_factor is %g, need less than 1", backoff)
    end
    number("GradScaler", "init_scale", init_scale, 0)
    number("GradScaler", "growth_interval", interval, 1)
    return setmetatable({ now = init_scale, growth = growth, backoff = backoff,
      interval = interval, tracker = 0, enabled = enabled, seen = {} }, GradScaler)
  end
  --- Keeps small gradients of f16 from vanishing: scaler:scale(loss):backward(); scaler:step(opt);
  --- scaler:update(). A step whose gradients hold NaN or Inf is left out and the scale halved.
  --- A device may stand before the options, as in torch.amp.
  optim.GradScaler = flame.internal.declare("optim.GradScaler(" .. SCALER
    .. "\noptim.GradScaler(device: device, " .. SCALER, "", scaler,
    function(_, ...) return scaler(...) end)

  --- The loss, or a table of losses, times the scale.
  put(GradScaler, "GradScaler:scale(loss: T|num|table) -> any", function(self, loss)
    if not self.enabled then return loss end
    if type(loss) ~= "table" then return loss * self.now end
    local out = {}
    for key, value in pairs(loss) do out[key] = self:scale(value) end
    return out
  end)

  local function each_gradient(opt)
    local list = {}
    for _, group in ipairs(opt.groups) do
      for _, p in ipairs(group.params) do if p.grad then list[#list + 1] = p.grad end end
    end
    return list
  end

  -- How many gradients hold NaN or Inf: one read for all of them.
  local function count_bad(gradients)
    local bad = {}
    for i, g in ipairs(gradients) do bad[i] = g:isfinite():all():logical_not():to("cpu") end
    return #bad == 0 and 0 or flame.stack(bad):sum():item()
  end

  --- Divides the gradients of opt by the scale, once a step: before clipping them.
  put(GradScaler, "GradScaler:unscale(optimizer: Optimizer)", function(self, opt)
    if not self.enabled then return end
    if self.seen[opt] then
      fail("GradScaler: %s since the last update()",
        self.seen[opt].stepped and "step() came" or "unscale() came already")
    end
    local _ <close> = unpin
    pin()
    flame.no_grad(function()
      local gradients = each_gradient(opt)
      for _, g in ipairs(gradients) do
        if g.dtype == "f16" then
          fail("GradScaler: a gradient is f16\1: keep parameters in f32, autocast makes the f16 copies")
        end
      end
      local inverse = 1 / self.now
      for _, g in ipairs(gradients) do g:mul_(inverse) end
      self.seen[opt] = { bad = count_bad(gradients) }
    end)
  end)
  GradScaler.unscale_ = GradScaler.unscale

  --- opt:step(…) unless a gradient holds NaN or Inf; unscales first where that was not done.
  put(GradScaler, "GradScaler:step(optimizer: Optimizer, ...) -> any", function(self, opt, ...)
    if not self.enabled then return opt:step(...) end
    if self.seen[opt] and self.seen[opt].stepped then
      fail("GradScaler: step() came already since the last update()")
    end
    if not self.seen[opt] then self:unscale(opt) end
    local seen = self.seen[opt]
    seen.stepped = true
    if seen.bad == 0 then return opt:step(...) end
  end)

  --- After the steps of an iteration: halves the scale if one was left out, doubles it after
  --- growth_interval good ones; or sets it.
  put(GradScaler, "GradScaler:update(new_scale?: num|T)", function(self, new_scale)
    if not self.enabled then return end
    if new_scale ~= nil then
      self.now = type(new_scale) == "number" and new_scale or new_scale:item()
      self.seen = {}
      return
    end
    if next(self.seen) == nil then
      fail("GradScaler: update() without a step() or unscale() before it")
    end
    local bad = 0
    for _, seen in pairs(self.seen) do bad = bad + seen.bad end
    self.seen = {}
    if bad > 0 then
      self.now, self.tracker = self.now * self.backoff, 0
      return
    end
    self.tracker = self.tracker + 1
    if self.tracker >= self.interval then self.now, self.tracker = self.now * self.growth, 0 end
  end)

  --- The scale now; 1 where the scaler is not enabled.
  put(GradScaler, "GradScaler:get_scale() -> num",
    function(self) return self.enabled and self.now or 1.0 end)
  --- Does the scaler scale.
  put(GradScaler, "GradScaler:is_enabled() -> bool", function(self) return self.enabled end)

  local saved_as = { scale = "now", growth_factor = "growth", backoff_factor = "backoff",
    growth_interval = "interval", growth_tracker = "tracker" }
  --- The scale and its settings as a table.
  put(GradScaler, "GradScaler:state_dict() -> table", function(self)
    local out = {}
    for name, field in pairs(saved_as) do out[name] = self.enabled and self[field] or nil end
    return out
  end)
  --- Takes back what state_dict gave.
  put(GradScaler, "GradScaler:load_state_dict(state: table)", function(self, saved)
    if not self.enabled then return end
    for name, field in pairs(saved_as) do
      if type(saved[name]) ~= "number" then fail("GradScaler: the state has no %s", name) end
      self[field] = saved[name]
    end
  end)
end
