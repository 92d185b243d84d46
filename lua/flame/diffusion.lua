--- Diffusion models and flow matching: adding noise to data, losses for networks, and samplers that
--- turn noise into data. The network is the script's: model(x, t) with x (batch, …) and t (batch).
--
--- A schedule has times 1 (almost clean) to 'steps' (almost noise); at time t a value is
--- x(t) = a x + s e, a² = alphas_cumprod[t] and s² = 1 - a², e being normal noise; time 0 is the
--- data. A network predicts the noise e ("epsilon"), the data x ("sample"), or a e - s x
--- ("v_prediction"). Coefficients of a step are numbers of Lua in double precision, so all steps of
--- a sampler are one plan.
local flame = require "flame"
local internal = flame.internal
local arguments = require "flame.base.arguments"
local objects = require "flame.base.objects"

local diffusion = {}

--- Raises "op: message" at the line of the script, however deep in the library it is called.
local function fail(op, message, ...) internal.fail(op, message:format(...)) end
local function declare(text, f)
  diffusion[text:match("^([%w_]+)")] = internal.declare(text, "", f)
end
local function shape_text(x) return "(" .. table.concat(x.shape, ", ") .. ")" end

-- ---- schedules ----------------------------------------------------------------------------------

---@class flame.NoiseSchedule
---@field steps integer                number of times
---@field betas flame.Tensor           (steps), f64: the variance that a step adds
---@field alphas_cumprod flame.Tensor  (steps), f64: the share of the data's variance that is left
local NoiseSchedule = { __name = "NoiseSchedule" }
diffusion.NoiseSchedule = NoiseSchedule
objects.classes.NoiseSchedule = NoiseSchedule
--- Adds a method to the class NoiseSchedule; text declares its name and arguments.
local function put(text, f)
  NoiseSchedule[text:match(":([%w_]+)%(")] = internal.declare(text, "", f)
end
NoiseSchedule.__index, NoiseSchedule.__newindex = objects.closed("NoiseSchedule", NoiseSchedule,
  { steps = true, betas = true, alphas_cumprod = true, kind = true, share = true })
function NoiseSchedule:__tostring()
  return ("NoiseSchedule(%s, %d steps)"):format(self.kind, self.steps)
end

local STEPS <const> = 1000000
local function check_steps(op, n)
  if n < 1 or n > STEPS then fail(op, "steps is %d, need 1 to %d", n, STEPS) end
end

--- The schedule's betas, the variances of noise that its n steps add, as a list of numbers.
local function betas_of(kind, n, first, last)
  local list = {}
  for t = 1, n do
    local u = n > 1 and (t - 1) / (n - 1) or 0
    if kind == "linear" then list[t] = first + (last - first) * u
    elseif kind == "scaled_linear" then
      list[t] = (first ^ 0.5 + (last ^ 0.5 - first ^ 0.5) * u) ^ 2
    else
      local function left(v) return math.cos((v + 0.008) / 1.008 * math.pi / 2) ^ 2 end
      list[t] = math.min(1 - left(t / n) / left((t - 1) / n), 0.999)
    end
  end
  return list
end

--- A schedule: "linear" (Ho, Jain and Abbeel 2020) and "scaled_linear" from beta_start to beta_end,
--- "cosine" (Nichol and Dhariwal 2021), or the given betas (steps).
declare([[schedule(steps: int = 1000, kind: "linear"|"scaled_linear"|"cosine" = "linear", *,
  beta_start = 0.0001, beta_end = 0.02, betas?: T) -> NoiseSchedule]],
  function(steps, kind, first, last, betas)
    local op = "schedule"
    if betas then
      if betas.ndim ~= 1 or #betas < 1 then
        fail(op, "betas has shape %s, need one axis of at least one", shape_text(betas))
      end
      kind, steps = "betas", #betas
    end
    check_steps(op, steps)
    local list = betas and betas:double():cpu():totable() or betas_of(kind, steps, first, last)
    local share, left = { [0] = 1.0 }, 1.0
    for t, b in ipairs(list) do
      if not (b > 0 and b < 1) then fail(op, "beta %d is %g, need a number between 0 and 1", t,
        b) end
      left = left * (1 - b)
      share[t] = left
    end
    local o = { dtype = "f64", device = "cpu" }
    return setmetatable({ steps = steps, kind = kind, share = share,
      betas = flame.tensor(list, o),
      alphas_cumprod = flame.tensor({ table.unpack(share) }, o) }, NoiseSchedule)
  end)

--- a and s at times t (batch), in shapes (batch, 1, …) for x (batch, …), of x's dtype.
local function amounts(self, op, x, t)
  arguments.need_tensor(op, "x", x)
  if arguments.need_integers(op, "t", t).ndim ~= 1 or x.ndim < 1 or #t ~= x:size(1) then
    fail(op, "x has shape %s and t %s, need (batch, …) and (batch)", shape_text(x), shape_text(t))
  end
  local share = self.alphas_cumprod:to(x.device):index_select(1, t)
  local shape = { #t }
  for d = 2, x.ndim do shape[d] = 1 end
  return share:sqrt():to(x.dtype):reshape(shape), (1 - share):sqrt():to(x.dtype):reshape(shape)
end

--- x at times t, with the given noise: a x + s noise.
--- x (batch, …), noise as x, t (batch), integers 1 to steps; gives (batch, …).
put("NoiseSchedule:add_noise(x: T, noise: T, t: T) -> T", function(self, x, noise, t)
  local a, s = amounts(self, "add_noise", x, t)
  return x * a + noise * s
end)

--- The value that a network must predict at times t.
--- x (batch, …), noise as x, t (batch), integers 1 to steps; gives (batch, …).
put([[NoiseSchedule:target(x: T, noise: T, t: T,
  prediction: "epsilon"|"sample"|"v_prediction" = "epsilon") -> T]],
  function(self, x, noise, t, prediction)
    local a, s = amounts(self, "target", x, t)
    if prediction == "epsilon" then return noise end
    return prediction == "sample" and x or noise * a - x * s
  end)

local function log_snr(share) return 0.5 * math.log(share / (1 - share)) end

--- n times in descending order: "trailing" starts at the last time, "leading" ends at the first,
--- "linspace" does both, all in even steps; "logsnr" does both in even steps of the logarithm of a
--- / s. Equal times are merged.
put([[NoiseSchedule:timesteps(n: int,
  spacing: "trailing"|"leading"|"linspace"|"logsnr" = "trailing") -> int[] ]],
  function(self, n, spacing)
    local op, steps, list, last = "timesteps", self.steps, {}, nil
    if n < 1 or n > steps then
      fail(op, "n is %d, need 1 to %d", n, steps)
    end
    local high, low = log_snr(self.share[1]), log_snr(self.share[steps])
    local at = steps
    for i = 0, n - 1 do
      local u, t = n > 1 and i / (n - 1) or 0
      if spacing == "trailing" then t = steps - i * steps / n
      elseif spacing == "leading" then t = (n - 1 - i) * (steps // n) + 1
      elseif spacing == "linspace" then t = steps + (1 - steps) * u
      else
        local wanted = low + (high - low) * u
        while at > 1 and log_snr(self.share[at]) < wanted do at = at - 1 end
        local above = at < steps and log_snr(self.share[at]) - wanted
          > wanted - log_snr(self.share[at + 1])
        t = above and at + 1 or at
      end
      t = math.tointeger((t + 0.5) // 1)
      if t ~= last then list[#list + 1] = t end
      last = t
    end
    return list
  end)

-- ---- losses -------------------------------------------------------------------------------------

local function need_result(op, y, x)
  arguments.need_tensor(op, "the model's result", y)
  if shape_text(y) ~= shape_text(x) then
    fail(op, "the model's result has shape %s, x %s", shape_text(y), shape_text(x))
  end
  return y
end

--- The mean squared error of a network's prediction at random times with random noise: the loss of
--- training. x is data, (batch, …).
declare([[loss(model: fn, x: T, schedule: NoiseSchedule,
  prediction: "epsilon"|"sample"|"v_prediction" = "epsilon") -> T]],
  function(model, x, schedule, prediction)
    if x.ndim < 1 then fail("loss", "x is 0-d, need an axis of examples") end
    local noise = flame.randn_like(x)
    local t = flame.randint({ x:size(1) }, 1, schedule.steps, { device = x.device })
    local y = need_result("loss", model(schedule:add_noise(x, noise, t), t), x)
    return flame.mse_loss(y, schedule:target(x, noise, t, prediction))
  end)

-- ---- samplers -----------------------------------------------------------------------------------
-- Each sampler starts from noise x and calls the model once at each of its times.

--- The data and the noise that x consists of, by the network's output y; share: a² at x's time.
local function parts(kind, y, x, share, clip)
  local a, s = share ^ 0.5, (1 - share) ^ 0.5
  local clean
  if kind == "epsilon" then clean = (x - y * s) / a
  elseif kind == "sample" then clean = y
  else clean = x * a - y * s end
  if clip then clean = clean:clamp(-clip, clip)
  elseif kind == "epsilon" then return clean, y end
  if not clip and kind == "v_prediction" then return clean, y * a + x * s end
  return clean, (x - clean * a) / s
end

--- Runs a sampler from noise x. At each time it calls the model and then step(x, clean, noise,
--- share before, share after, i), which returns the next x; shares are a² (see 'parts').
local function descend(op, model, x, schedule, o, step)
  if x.ndim < 1 or not x:is_floating_point() then
    fail(op, "x is %s %s, need floats with an axis of examples", x.dtype, shape_text(x))
  end
  if o.clip and not (o.clip > 0) then fail(op, "clip is %g, need a number above 0", o.clip) end
  local n = o.steps or schedule.steps
  if n < 1 or n > schedule.steps then
    fail(op, "steps is %d, need 1 to %d", n, schedule.steps)
  end
  local times = schedule:timesteps(n, o.spacing)
  x = x:detach()
  return flame.no_grad(function()
    for i, t in ipairs(times) do
      local at = flame.full({ x:size(1) }, t, { dtype = "i64", device = x.device })
      local y = need_result(op, model(x, at), x):to(x.dtype)
      local share = schedule.share[t]
      local clean, noise = parts(o.prediction, y, x, share, o.clip)
      x = step(x, clean, noise, share, schedule.share[times[i + 1] or 0], i)
      flame.eval(x)
      if o.on_step then o.on_step(i, x, clean) end
    end
    return x
  end)
end

--- Data from noise x by the chain of Ho, Jain and Abbeel (2020), with new noise in each step, which
-- has the variance of the reverse step ("small") or of the forward step ("large"). clip bounds the
-- predicted data; on_step(i, x, data) is called after each step.
declare([[ddpm(model: fn, x: T, schedule: NoiseSchedule, steps?: int, *,
  prediction: "epsilon"|"sample"|"v_prediction" = "epsilon", variance: "small"|"large" = "small",
  spacing: "trailing"|"leading"|"linspace"|"logsnr" = "trailing", clip?: num, on_step?: fn) -> T]],
  function(model, x, schedule, steps, prediction, variance, spacing, clip, on_step)
    local o = { steps = steps, prediction = prediction, spacing = spacing, clip = clip,
      on_step = on_step }
    return descend("ddpm", model, x, schedule, o, function(v, clean, _, now, after)
      local ratio = now / after
      local beta = 1 - ratio
      local mean = clean * (after ^ 0.5 * beta / (1 - now))
        + v * (ratio ^ 0.5 * (1 - after) / (1 - now))
      if after == 1 then return mean end
      local spread = variance == "small" and beta * (1 - after) / (1 - now) or beta
      return mean + flame.randn_like(v) * spread ^ 0.5
    end)
  end)

--- Data from noise x in few steps (Song, Meng and Ermon 2020), at most all of the schedule: eta = 0
--- adds no noise, eta = 1 as much as ddpm.
declare([[ddim(model: fn, x: T, schedule: NoiseSchedule, steps: int = 50, *, eta = 0,
  prediction: "epsilon"|"sample"|"v_prediction" = "epsilon",
  spacing: "trailing"|"leading"|"linspace"|"logsnr" = "trailing", clip?: num, on_step?: fn) -> T]],
  function(model, x, schedule, steps, eta, prediction, spacing, clip, on_step)
    if not (eta >= 0 and eta <= 1) then fail("ddim", "eta is %g, need 0 to 1", eta) end
    local o = { steps = math.min(steps, schedule.steps), prediction = prediction,
      spacing = spacing, clip = clip, on_step = on_step }
    return descend("ddim", model, x, schedule, o, function(v, clean, noise, now, after)
      local own = eta ^ 2 * (1 - after) / (1 - now) * (1 - now / after)
      local y = clean * after ^ 0.5 + noise * math.max(1 - after - own, 0) ^ 0.5
      return own > 0 and y + flame.randn_like(v) * own ^ 0.5 or y
    end)
  end)

--- One step of DPM-Solver++ from the share (a²) 'now' to 'after'. data: what was predicted at this
--- time and earlier ones, latest first; logs: log(a / s) at these times.
local function solver_step(x, now, after, data, logs, order)
  local a, s, l = after ^ 0.5, (1 - after) ^ 0.5, log_snr(now)
  if after == 1 then return data[1] end
  local h = log_snr(after) - l
  local e = math.exp(-h) - 1
  local y = x * (s / (1 - now) ^ 0.5) - data[1] * (a * e)
  if order == 1 then return y end
  local r0 = (l - logs[2]) / h
  local slope = (data[1] - data[2]) * (1 / r0)
  if order == 2 then return y - slope * (0.5 * a * e) end
  local r1 = (logs[2] - logs[3]) / h
  local bend = (slope - (data[2] - data[3]) * (1 / r1)) * (1 / (r0 + r1))
  -- parabola through data[1 .. 3]: slope + r0 bend and 2 bend are its derivatives times h and h²
  return y + (slope + bend * r0) * (a * (e / h + 1)) - bend * (2 * a * ((e + h) / h ^ 2 - 0.5))
end

--- Data from noise x in few steps, at most all of the schedule, by DPM-Solver++ (Lu et al. 2022),
--- multistep, of order 1 (as ddim), 2 or 3; the last step, to the data, is of order 1.
declare([[dpm_solver(model: fn, x: T, schedule: NoiseSchedule, steps: int = 20, *, order: int = 2,
  prediction: "epsilon"|"sample"|"v_prediction" = "epsilon",
  spacing: "trailing"|"leading"|"linspace"|"logsnr" = "trailing", clip?: num, on_step?: fn) -> T]],
  function(model, x, schedule, steps, order, prediction, spacing, clip, on_step)
    if order < 1 or order > 3 then fail("dpm_solver", "order is %d, need 1, 2 or 3", order) end
    local o = { steps = math.min(steps, schedule.steps), prediction = prediction,
      spacing = spacing, clip = clip, on_step = on_step }
    local data, logs = {}, {}
    return descend("dpm_solver", model, x, schedule, o, function(v, clean, _, now, after, i)
      table.insert(data, 1, clean)
      table.insert(logs, 1, log_snr(now))
      data[4], logs[4] = nil, nil
      return solver_step(v, now, after, data, logs, math.min(order, i))
    end)
  end)

-- ---- flow matching ------------------------------------------------------------------------------
-- A path from noise at time 0 to data at time 1, x(t) = (1 - t) noise + t data; the network
-- predicts its velocity, data - noise (Lipman et al. 2022; Liu, Gong and Liu 2022).

--- The mean squared error of a network's velocity at random times: model(x, t), t (batch) between 0
--- and 1. x is data, (batch, …).
declare("flow_loss(model: fn, x: T) -> T", function(model, x)
  if x.ndim < 1 then fail("flow_loss", "x is 0-d, need an axis of examples") end
  local noise = flame.randn_like(x)
  local t = flame.rand({ x:size(1) }, { dtype = x.dtype, device = x.device })
  local shape = { x:size(1) }
  for d = 2, x.ndim do shape[d] = 1 end
  local u = t:reshape(shape)
  local y = need_result("flow_loss", model(noise * (1 - u) + x * u, t), x)
  return flame.mse_loss(y, x - noise)
end)

-- One step of an ODE solver from time t to t + h: f(x, t) is the velocity; returns the next x.
local RULES = {
  euler = function(f, x, t, h) return x + f(x, t) * h end,
  midpoint = function(f, x, t, h)
    return x + f(x + f(x, t) * (h / 2), t + h / 2) * h
  end,
  heun = function(f, x, t, h)
    local k = f(x, t)
    return x + (k + f(x + k * h, t + h)) * (h / 2)
  end,
  rk4 = function(f, x, t, h)
    local a = f(x, t)
    local b = f(x + a * (h / 2), t + h / 2)
    local c = f(x + b * (h / 2), t + h / 2)
    local d = f(x + c * h, t + h)
    return x + (a + (b + c) * 2 + d) * (h / 6)
  end,
}

--- Data from noise x along the velocities of model(x, t), t from 0 to 1 in even steps: by Euler's
--- rule, the midpoint rule, Heun's, or the classical one of Runge and Kutta. on_step(i, x) is
--- called after each step.
declare([[flow(model: fn, x: T, steps: int = 50, method: "euler"|"midpoint"|"heun"|"rk4" = "euler",
  *, on_step?: fn) -> T]], function(model, x, steps, method, on_step)
    check_steps("flow", steps)
    if x.ndim < 1 or not x:is_floating_point() then
      fail("flow", "x is %s %s, need floats with an axis of examples", x.dtype, shape_text(x))
    end
    local function velocity(v, t)
      local at = flame.full({ v:size(1) }, t, { dtype = v.dtype, device = v.device })
      return need_result("flow", model(v, at), v):to(v.dtype)
    end
    x = x:detach()
    return flame.no_grad(function()
      for i = 1, steps do
        x = RULES[method](velocity, x, (i - 1) / steps, 1 / steps)
        flame.eval(x)
        if on_step then on_step(i, x) end
      end
      return x
    end)
  end)

--- Sines and cosines of t (batch) at size / 2 frequencies from 1 to almost 1 / max_period:
--- (batch, size), cosines first. An input by which a network gets the time.
declare("time_embedding(t: T, size: int, max_period = 10000) -> T", function(t, size, max_period)
  if size < 2 or size % 2 ~= 0 then
    fail("time_embedding", "size is %d, need an even number from 2 on", size)
  end
  if t.ndim ~= 1 then fail("time_embedding", "t has shape %s, need one axis", shape_text(t)) end
  if not (max_period > 0) then
    fail("time_embedding", "max_period is %g, need a number above 0", max_period)
  end
  local half = size // 2
  local x = t:is_floating_point() and t or t:float()
  local rates = (flame.arange(half, { dtype = x.dtype, device = x.device }) - 1)
    * (-math.log(max_period) / half)
  local angle = x:unsqueeze(2) * rates:exp():unsqueeze(1)
  return flame.cat({ angle:cos(), angle:sin() }, 2)
end)

return diffusion
