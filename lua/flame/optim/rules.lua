--- Muon and the rarer rules of torch.optim. Returns a function that adds them to flame.optim.
local flame = require "flame"

return function(_, shared)
  local fail, make_class, set = shared.fail, shared.make_class, shared.set

  -- ---- first-order rules ----------------------------------------------------------------------
  local function decayed(group, p, g)
    return group.weight_decay ~= 0 and g + p * group.weight_decay or g
  end

  --- Duchi, Hazan and Singer 2011.
  make_class([[optim.Adagrad(params: T|T[]|table[], lr = 1e-2, lr_decay = 0, weight_decay = 0,
    initial_accumulator_value = 0, eps = 1e-10, OPTIONS) -> Optimizer]],
    function(group, p, g, state)
      g = decayed(group, p, g)
      state.sum = state.sum or flame.full_like(p, group.initial_accumulator_value)
      local sum = set(state.sum, state.sum + g * g)
      local rate = group.lr / (1 + (state.step - 1) * group.lr_decay)
      p:copy_(p - g / (sum:sqrt() + group.eps) * rate)
    end)

  --- Tieleman and Hinton 2012, PyTorch's form.
  make_class([[optim.RMSprop(params: T|T[]|table[], lr = 1e-2, alpha = 0.99, eps = 1e-8,
    weight_decay = 0, momentum = 0, centered = false, OPTIONS) -> Optimizer]],
    function(group, p, g, state)
      g = decayed(group, p, g)
      state.square_avg = state.square_avg or flame.zeros_like(p)
      local alpha = group.alpha
      local scale = set(state.square_avg, state.square_avg * alpha + g * g * (1 - alpha))
      if group.centered then
        state.grad_avg = state.grad_avg or flame.zeros_like(p)
        local mean = set(state.grad_avg, state.grad_avg * alpha + g * (1 - alpha))
        scale = scale - mean * mean
      end
      g = g / (scale:sqrt() + group.eps)
      if group.momentum ~= 0 then
        state.momentum_buffer = state.momentum_buffer or flame.zeros_like(p)
        g = set(state.momentum_buffer, state.momentum_buffer * group.momentum + g)
      end
      p:copy_(p - g * group.lr)
    end)

  --- Chen et al. 2023: the sign of an interpolated momentum; the decay acts on the parameter.
  make_class([[optim.Lion(params: T|T[]|table[], lr = 1e-4, betas = {0.9, 0.99}, weight_decay = 0,
    OPTIONS) -> Optimizer]],
    function(group, p, g, state)
      state.exp_avg = state.exp_avg or flame.zeros_like(p)
      local b1, b2 = group.betas[1], group.betas[2]
      local direction = (state.exp_avg * b1 + g * (1 - b1)):sign()
      p:copy_(p * (1 - group.lr * group.weight_decay) - direction * group.lr)
      state.exp_avg:copy_(state.exp_avg * b2 + g * (1 - b2))
    end)

  --- Zeiler 2012: steps as large as earlier ones were; lr only scales them.
  make_class([[optim.Adadelta(params: T|T[]|table[], lr = 1.0, rho = 0.9, eps = 1e-6,
    weight_decay = 0, OPTIONS) -> Optimizer]],
    function(group, p, g, state)
      g = decayed(group, p, g)
      state.square_avg = state.square_avg or flame.zeros_like(p)
      state.acc_delta = state.acc_delta or flame.zeros_like(p)
      local rho = group.rho
      local mean = set(state.square_avg, state.square_avg * rho + g * g * (1 - rho))
      local delta = (state.acc_delta + group.eps):sqrt() / (mean + group.eps):sqrt() * g
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
      local m = set(state.exp_avg, state.exp_avg * b1 + g * (1 - b1))
      local u = set(state.exp_inf, flame.maximum(state.exp_inf * b2, g:abs() + group.eps))
      p:copy_(p - m / u * (group.lr / (1 - b1 ^ state.step)))
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
      local m = set(state.exp_avg, state.exp_avg * b1 + g * (1 - b1))
      local v = set(state.exp_avg_sq, state.exp_avg_sq * b2 + g * g * (1 - b2))
      local denominator = (v * (1 / (1 - b2 ^ state.step))):sqrt() + group.eps
      p:copy_(from - g / denominator * (group.lr * (1 - mu) / (1 - state.mu_product))
        - m / denominator * (group.lr * next_mu / (1 - state.mu_product * next_mu)))
    end)

  --- Liu et al. 2020: Adam that divides by the second moment only once it can be trusted, and
  --- steps along the mean gradient until then.
  make_class([[optim.RAdam(params: T|T[]|table[], lr = 1e-3, betas = {0.9, 0.999}, eps = 1e-8,
    weight_decay = 0, decoupled_weight_decay = false, OPTIONS) -> Optimizer]],
    function(group, p, g, state)
      local b1, b2 = betas_of(group)
      local from, t = p, state.step
      if group.decoupled_weight_decay then from = p * (1 - group.lr * group.weight_decay)
      else g = decayed(group, p, g) end
      state.exp_avg = state.exp_avg or flame.zeros_like(p)
      state.exp_avg_sq = state.exp_avg_sq or flame.zeros_like(p)
      local m = set(state.exp_avg, state.exp_avg * b1 + g * (1 - b1))
      local v = set(state.exp_avg_sq, state.exp_avg_sq * b2 + g * g * (1 - b2))
      local step, most = m * (group.lr / (1 - b1 ^ t)), 2 / (1 - b2) - 1
      local length = most - 2 * t * b2 ^ t / (1 - b2 ^ t)
      if length > 5 then
        local rect = math.sqrt(
          (length - 4) * (length - 2) * most / ((most - 4) * (most - 2) * length))
        step = step * (math.sqrt(1 - b2 ^ t) * rect) / (v:sqrt() + group.eps)
      end
      p:copy_(from - step)
    end)

  --- Riedmiller and Braun 1993: uses only the gradient's sign.
  make_class([[optim.Rprop(params: T|T[]|table[], lr = 1e-2, etas = {0.5, 1.2},
    step_sizes = {1e-6, 50}, OPTIONS) -> Optimizer]],
    function(group, p, g, state)
      state.prev = state.prev or flame.zeros_like(p)
      state.step_size = state.step_size or flame.full_like(p, group.lr)
      local sign = g * state.prev
      local factor = flame.where(sign:gt(0), group.etas[2],
        flame.where(sign:lt(0), group.etas[1], flame.ones_like(p)))
      local size = set(state.step_size,
        (state.step_size * factor):clamp(group.step_sizes[1], group.step_sizes[2]))
      local used = flame.where(sign:lt(0), 0, g)
      p:copy_(p - used:sign() * size)
      state.prev:copy_(used)
    end)

  --- Polyak and Juditsky 1992: steps that shrink; state.ax is the average of
  --- the parameters from step t0 on.
  make_class([[optim.ASGD(params: T|T[]|table[], lr = 1e-2, lambd = 1e-4, alpha = 0.75, t0 = 1e6,
    weight_decay = 0, OPTIONS) -> Optimizer]],
    function(group, p, g, state)
      g = decayed(group, p, g)
      state.eta, state.mu = state.eta or group.lr, state.mu or 1
      state.ax = state.ax or flame.zeros_like(p)
      local x = set(p, p * (1 - group.lambd * state.eta) - g * state.eta)
      state.ax:copy_(state.mu == 1 and x or state.ax + (x - state.ax) * state.mu)
      state.eta = group.lr / (1 + group.lambd * group.lr * state.step) ^ group.alpha
      state.mu = 1 / math.max(1, state.step - group.t0)
    end)

  -- ---- Muon -------------------------------------------------------------------------------------
  --- A matrix with the singular vectors of g and singular values near 1, by the Newton-Schulz
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
  --- Orthogonalised momentum, for the matrices of hidden layers; use AdamW for embeddings, heads
  --- and vectors.
  make_class([[optim.Muon(params: T|T[]|table[], lr = 1e-3, weight_decay = 0.1, momentum = 0.95,
    nesterov = true, ns_coefficients = {3.4445, -4.775, 2.0315}, eps = 1e-7, ns_steps: int = 5,
    adjust_lr_fn: "original"|"match_rms_adamw" = "original", PLAIN) -> Optimizer]],
    function(group, p, g, state)
      state.momentum_buffer = state.momentum_buffer or flame.zeros_like(p)
      local m = group.momentum
      local update = set(state.momentum_buffer, state.momentum_buffer * m + g * (1 - m))
      if group.nesterov then update = g * (1 - m) + update * m end
      local rows, columns = p.shape[1], p.shape[2]
      local ratio = group.adjust_lr_fn == "match_rms_adamw"
        and 0.2 * math.sqrt(math.max(rows, columns))
        or math.sqrt(math.max(1, rows / columns))
      p:copy_(
        p * (1 - group.lr * group.weight_decay) - orthogonal(group,
          update):to(p.dtype) * (group.lr * ratio))
    end, check_matrices, "leave out its option shard, and give the optimiser to shard_state")
end
