--- LBFGS. The file returns a function that adds it to flame.optim.
local flame = require "flame"
local objects = require "flame.base.objects"

return function(_, shared)
  local fail, make_class, put = shared.fail, shared.make_class, shared.put

  -- ---- LBFGS ------------------------------------------------------------------------------------
  --- Limited-memory BFGS (Nocedal 1980): step(closure) calls the closure, which clears the
  --- gradients, computes the loss, calls backward and returns it, several times. line_search_fn =
  --- "strong_wolfe" searches for a step length that satisfies Wolfe's conditions.
  local lbfgs = make_class([[optim.LBFGS(params: T|T[]|table[], lr = 1, max_iter: int = 20,
    max_eval?: int, tolerance_grad = 1e-7, tolerance_change = 1e-9, history_size: int = 100,
    line_search_fn?: "strong_wolfe", PLAIN) -> Optimizer]], function() end, function(self)
    if #self.groups ~= 1 then fail("LBFGS: one group of parameters, got %d", #self.groups) end
  end, "leave out its option shard")

  -- All gradients in one vector; a parameter without one counts as 0.
  local function flat_gradient(params)
    local parts = {}
    for i, p in ipairs(params) do
      parts[i] = (p.grad and p.grad:detach() or flame.zeros_like(p)):reshape(-1)
    end
    return flame.cat(parts, 1)
  end

  -- Sets the parameters to 'from' + t d (nil: adds t d to them).
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

  -- The minimum in low … high of the cubic through points a and b, each {t =, f =, slope =}.
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

  -- Tries longer and longer steps from t on: a list of two points with an acceptable step between
  -- them, or of one acceptable point; and the number of trials after t.
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

  -- A step by the strong Wolfe conditions, else the best tried (Nocedal and Wright, 3.5 and 3.6).
  -- It ends if no parameter would move by 'tolerance'; reach: the largest element of the direction.
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

  -- Adds the last step to the history; returns the next direction, by Nocedal's two loops over it.
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

  local function replace(state, with)
    for key in pairs(state) do state[key] = nil end
    for key, v in pairs(with) do state[key] = v end
  end

  local function restore(before)
    replace(before.run.state, before.state)
    before.opt.steps = before.steps
    for i, p in ipairs(before.run.params) do p:copy_(before.from[i]) end
  end

  -- Restores, if a step raises (for instance in the closure), what there was before it: the
  -- parameters, since those of a trial of the line search are no result, and the optimiser's state,
  -- in which steps and gradients belong together in pairs.
  local restored = { __close = function(before, e)
    if e ~= nil then pcall(flame.no_grad, restore, before) end
  end }
  local function watch(opt, run)
    local before = { opt = opt, run = run, steps = opt.steps, state = {}, from = {} }
    for key, v in pairs(run.state) do
      before.state[key] = type(v) == "table" and table.move(v, 1, #v, 1, {}) or v
    end
    for i, p in ipairs(run.params) do before.from[i] = p:detach() end
    return setmetatable(before, restored)
  end

  objects.classes.LBFGS = lbfgs
  --- One step, for which the closure runs several times; gives the first loss. If it raises, the
  --- parameters are as they were.
  put(lbfgs, "LBFGS:step(closure: fn) -> any", function(self, closure)
    shared.before_step(self)
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
      shared.follow(self)
      run.state = self:state_of(group.params[1])
      local _ <close> = watch(self, run)
      self.steps = self.steps + 1
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
end
