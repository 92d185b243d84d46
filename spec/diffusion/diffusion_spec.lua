-- flame.diffusion: schedules against their formulas, samplers against closed forms for normal data.
--
-- For normal data x with mean M and deviation S, and noise e, x(t) = a x + s e is normal with mean
-- a M and variance v = a² S² + s². So the best predictions are linear in x(t), and deterministic
-- sampling leads from a M + z sqrt(v) to M + S z. The error against that shows a sampler's order.
local flame = require "flame"
local diffusion = require "flame.diffusion"

local M <const>, S <const> = 1.5, 0.5
local F64 <const> = { dtype = "f64" }
local refused = require("spec.support.helper").raises

--- The best possible model for these data: a function of x and times t (one per row).
local function best(schedule, prediction)
  return function(x, t)
    local share = schedule.alphas_cumprod:to(t.device):index_select(1, t):to(x.device)
    local a, s = share:sqrt():unsqueeze(2), (1 - share):sqrt():unsqueeze(2)
    local v = a * a * S ^ 2 + s * s
    local clean, noise = (x - a * M) * a * S ^ 2 / v + M, (x - a * M) * s / v
    if prediction == "sample" then return clean end
    return prediction == "v_prediction" and noise * a - clean * s or noise
  end
end
--- Noisy values at the last time, and the data to which deterministic sampling leads from them.
local function ends(schedule)
  local share = schedule.alphas_cumprod[-1]:item()
  local z = flame.tensor({ { -2 }, { -0.3 }, { 0.4 }, { 1.7 } }, F64)
  return z * math.sqrt(share * S ^ 2 + 1 - share) + math.sqrt(share) * M, z * S + M
end
local function error_of(x, wanted) return (x - wanted):abs():amax():item() end

describe("a schedule", function()
  it("has the variances of its kind", function()
    local linear = diffusion.schedule(1000)
    assert.close(1e-4, linear.betas[1]:item(), 1e-15)
    assert.close(0.02, linear.betas[-1]:item(), 1e-15)
    assert.close((1e-4 + 0.02) / 2, linear.betas[{ {500, 501} }]:mean():item(), 1e-12)
    assert.allclose((1 - linear.betas):cumprod(1), linear.alphas_cumprod, { rtol = 1e-12 })
    local scaled = diffusion.schedule(10, "scaled_linear", { beta_start = 0.01, beta_end = 0.09 })
    assert.allclose((flame.linspace(0.1, 0.3, 10, F64)):square(), scaled.betas)
    local cosine = diffusion.schedule(100, { kind = "cosine" })
    local function left(t) return math.cos((t / 100 + 0.008) / 1.008 * math.pi / 2) ^ 2 end
    for _, t in ipairs { 1, 50, 99 } do
      assert.close(left(t) / left(0), cosine.alphas_cumprod[t]:item(), 1e-12)
    end
    assert.close(0.999, cosine.betas[-1]:item(), 1e-12)
    local own = diffusion.schedule { betas = flame.tensor { 0.5, 0.25 } }
    assert.same({ 0.5, 0.375 }, own.alphas_cumprod:totable())
    assert.equal(2, own.steps)
    assert.equal("NoiseSchedule(cosine, 100 steps)", tostring(cosine))
  end)
  it("mixes data with noise at each example's time, and says what is to be predicted", function()
    local s = diffusion.schedule { betas = flame.tensor { 0.36, 0.4375 } }   -- shares 0.64, 0.36
    local x, e = flame.ones(2, 3, 1), flame.full({ 2, 3, 1 }, 10)
    local t = flame.tensor({ 1, 2 }, { dtype = "i64" })
    assert.allclose(flame.tensor { 0.8 + 6, 0.6 + 8 }:reshape(2, 1, 1):expand(2, 3, 1),
      s:add_noise(x, e, t))
    assert.is_true(flame.equal(e, s:target(x, e, t)))
    assert.is_true(flame.equal(x, s:target(x, e, t, "sample")))
    assert.allclose(flame.tensor { 8 - 0.6, 6 - 0.8 }:reshape(2, 1, 1):expand(2, 3, 1),
      s:target(x, e, t, "v_prediction"))
    assert.equal("bf16", s:add_noise(x:bfloat16(), e:bfloat16(), t).dtype)
  end)
  it("chooses times in each spacing", function()
    local s = diffusion.schedule(1000)
    assert.same({ 1000, 750, 500, 250 }, s:timesteps(4))
    assert.same({ 751, 501, 251, 1 }, s:timesteps(4, "leading"))
    assert.same({ 1000, 667, 334, 1 }, s:timesteps(4, "linspace"))
    local times = s:timesteps(8, "logsnr")
    assert.equal(1000, times[1])
    assert.equal(1, times[#times])
    local function log(t) local a = s.alphas_cumprod[t]:item() return math.log(a / (1 - a)) end
    local even = (log(1) - log(1000)) / 7
    for i = 2, 6 do assert.close(even, log(times[i]) - log(times[i - 1]), 0.02 * even) end
    assert.equal(1000, #s:timesteps(1000))
    assert.same({ 1000 }, s:timesteps(1, "logsnr"))
    assert.is_true(#s:timesteps(1000, "logsnr") < 1000)
  end)
end)

describe("samplers", function()
  local schedule = diffusion.schedule(1000)

  it("ddim comes to the closed form, with half the error for twice the steps", function()
    local x, wanted = ends(schedule)
    local errors = {}
    for i, n in ipairs { 50, 100, 200, 400 } do
      errors[i] = error_of(diffusion.ddim(best(schedule), x, schedule, n), wanted)
    end
    assert.is_true(errors[4] < 0.01, errors[4])
    for i = 1, 3 do assert.close(2, errors[i] / errors[i + 1], 0.35) end
  end)
  it("dpm_solver has its order", function()
    local fine = diffusion.schedule(20000, { beta_start = 5e-6, beta_end = 1e-3 })
    local x, wanted = ends(fine)
    for order, counts in ipairs { { 80, 160 }, { 40, 80 }, { 24, 48 } } do
      local errors = {}
      for i, n in ipairs(counts) do
        errors[i] = error_of(diffusion.dpm_solver(best(fine), x, fine, n,
          { order = order, spacing = "logsnr" }), wanted)
      end
      local drop = errors[1] / errors[2]
      assert.is_true(drop > 2 ^ (order - 0.35),
        ("order %d: errors %g %g"):format(order, errors[1], errors[2]))
    end
  end)
  it("dpm_solver of order 1 is ddim, and higher orders are nearer", function()
    local x, wanted = ends(schedule)
    local function run(order)
      return diffusion.dpm_solver(best(schedule), x, schedule, 20, { order = order,
        spacing = "logsnr" })
    end
    assert.allclose(diffusion.ddim(best(schedule), x, schedule, 20, { spacing = "logsnr" }), run(1),
      { rtol = 1e-9 })
    local one, two, three = error_of(run(1), wanted), error_of(run(2), wanted), error_of(run(3),
      wanted)
    assert.is_true(two < one / 5 and three < two / 2, ("%g %g %g"):format(one, two, three))
  end)
  it("dpm_solver of order 3 is exact where the predicted data are a parabola of log(a / s)", function()
    local times = schedule:timesteps(6)
    local function log(t)
      local share = schedule.alphas_cumprod[t]:item()
      return 0.5 * math.log(share / (1 - share)), share ^ 0.5, (1 - share) ^ 0.5
    end
    local function model(x, t)
      local l = log(math.tointeger(t[1]:item()))
      return x * 0 + (0.3 - 0.7 * l + 0.2 * l * l)
    end
    local at = {}
    diffusion.dpm_solver(model, flame.ones({ 1, 1 }, F64), schedule, 6, { order = 3,
      prediction = "sample", on_step = function(i, x) at[i] = x:item() end })
    for i = 3, 5 do
      local l, _, s = log(times[i])
      local m, _, r = log(times[i + 1])
      -- the integral of exp(u) (0.3 - 0.7 u + 0.2 u²)
      local function integral(u) return math.exp(u) * (1.4 - 1.1 * u + 0.2 * u * u) end
      assert.close(r / s * at[i - 1] + r * (integral(m) - integral(l)), at[i], 1e-11)
    end
  end)
  it("ddpm has the mean and variance of its chain, which are nearly the data's", function()
    for _, variance in ipairs { "small", "large" } do
      -- mean and variance computed as numbers: each step back is gain x + shift + noise, beginning
      -- with a standard normal x at the last time
      local short = diffusion.schedule(200, { beta_start = 5e-4, beta_end = 0.1 })
      local share = short.alphas_cumprod:totable()
      share[0] = 1
      local mean, var = 0, 1
      for t = 200, 1, -1 do
        local a, after = share[t], share[t - 1]
        local ratio, v = a / after, a * S ^ 2 + 1 - a
        local by = after ^ 0.5 * (1 - ratio) / (1 - a)
        local gain = by * a ^ 0.5 * S ^ 2 / v + ratio ^ 0.5 * (1 - after) / (1 - a)
        mean = gain * mean + by * (M - a * S ^ 2 / v * M)
        local spread = variance == "small" and (1 - ratio) * (1 - after) / (1 - a) or 1 - ratio
        var = gain ^ 2 * var + (t > 1 and spread or 0)
      end
      flame.seed(3)
      local n = 40000
      local y = diffusion.ddpm(best(short), flame.randn({ n, 1 }, F64), short,
        { variance = variance })
      assert.close(mean, y:mean():item(), 4 * math.sqrt(var / n))
      assert.close(var, y:var():item(), 4 * var * math.sqrt(2 / n))
      assert.close(M, mean, 0.01)
      assert.close(S ^ 2, var, 0.08 * S ^ 2)
    end
  end)
  it("ddim with eta = 1 and all steps is ddpm", function()
    local short = diffusion.schedule(30, { beta_end = 0.2 })
    local x = flame.randn({ 5, 1 }, F64)
    flame.seed(1)
    local a = diffusion.ddpm(best(short), x, short)
    flame.seed(1)
    assert.allclose(a, diffusion.ddim(best(short), x, short, 30, { eta = 1 }), { rtol = 1e-9 })
  end)
  it("give the same from each prediction", function()
    local x = ends(schedule)
    for _, sampler in ipairs { diffusion.ddim, diffusion.dpm_solver, diffusion.ddpm } do
      local results = {}
      for i, kind in ipairs { "epsilon", "sample", "v_prediction" } do
        flame.seed(2)
        results[i] = sampler(best(schedule, kind), x, schedule, 25, { prediction = kind })
      end
      assert.allclose(results[1], results[2], { rtol = 1e-8 })
      assert.allclose(results[1], results[3], { rtol = 1e-8 })
    end
  end)
  it("clip the predicted data, tell of each step, and track nothing", function()
    local x = ends(schedule)
    local w, seen = flame.ones(1, F64):requires_grad_(true), {}
    local f = best(schedule)
    local y = diffusion.ddim(function(v, t) return f(v, t) * w end, x, schedule, 5, { clip = 1,
      on_step = function(i, v, clean)
        seen[i] = v.shape[1]
        assert.is_true(clean:abs():amax():item() <= 1)
      end })
    assert.same({ 4, 4, 4, 4, 4 }, seen)
    assert.is_false(y.requires_grad)
    assert.is_true(y:abs():amax():item() <= 1)
  end)
  it("make one plan of all their steps", function()
    local x, f = flame.randn(4, 1), best(schedule)
    local function plans(n)
      flame.stats("reset")
      diffusion.dpm_solver(function(v, t) return f(v:double(), t):float() end, x, schedule, n)
      return flame.stats().plans_built or flame.stats().plans
    end
    plans(10)
    if plans(10) == nil then return pending("no count of plans") end
    assert.equal(0, plans(30))
  end)
end)

describe("flow matching", function()
  --- The best prediction of data - noise, given x = (1 - t) noise + t data.
  local function velocity(x, t)
    local u = t:unsqueeze(2)
    local v = (1 - u):square() + u:square() * S ^ 2
    return (x - u * M) * ((u * S ^ 2 - (1 - u)) / v) + M
  end
  it("comes to the closed form with the order of each rule", function()
    local z = flame.tensor({ { -2 }, { -0.3 }, { 0.4 }, { 1.7 } }, F64)
    local wanted = z * S + M
    for method, order in pairs { euler = 1, midpoint = 2, heun = 2, rk4 = 4 } do
      local first = error_of(diffusion.flow(velocity, z, 40, method), wanted)
      local second = error_of(diffusion.flow(velocity, z, 80, method), wanted)
      local drop = first / second
      assert.is_true(drop > 2 ^ (order - 0.3), ("%s: %g %g"):format(method, first, second))
    end
    local calls = 0
    diffusion.flow(velocity, z, { steps = 3, on_step = function() calls = calls + 1 end })
    assert.equal(3, calls)
  end)
  it("has a loss whose least value is what the data leave open", function()
    flame.seed(6)
    local x = flame.randn({ 200000, 1 }, F64) * S + M
    -- given x = (1 - t) noise + t data, data - noise has variance S² / ((1 - t)² + t² S²)
    local least = 0
    for i = 1, 1000 do
      local t = (i - 0.5) / 1000
      least = least + S ^ 2 / ((1 - t) ^ 2 + t ^ 2 * S ^ 2) / 1000
    end
    assert.close(least, diffusion.flow_loss(velocity, x):item(), 0.02 * least)
    assert.is_true(diffusion.flow_loss(function(v) return v * 0 end, x):item() > 2 * least)
  end)
end)

describe("losses and embeddings", function()
  it("the loss of the best network is what the data leave open", function()
    flame.seed(5)
    local schedule = diffusion.schedule(100, { beta_end = 0.2 })
    local x = flame.randn({ 200000, 1 }, F64) * S + M
    local least = { epsilon = 0, sample = 0, v_prediction = 0 }
    for _, share in ipairs(schedule.alphas_cumprod:totable()) do
      local v = share * S ^ 2 + 1 - share
      least.epsilon = least.epsilon + share * S ^ 2 / v / 100
      least.sample = least.sample + (1 - share) * S ^ 2 / v / 100
      least.v_prediction = least.v_prediction + S ^ 2 / v / 100
    end
    for kind, value in pairs(least) do
      assert.close(value, diffusion.loss(best(schedule, kind), x, schedule, kind):item(),
        0.02 * value)
    end
  end)
  it("a network learns by it", function()
    flame.seed(8)
    local nn, optim = require "flame.nn", require "flame.optim"
    local schedule = diffusion.schedule(50, { beta_end = 0.3 })
    local net = nn.Sequential { nn.Linear(9, 32), nn.SiLU(), nn.Linear(32, 1) }
    local function model(x, t)
      return net(flame.cat({ x, diffusion.time_embedding(t, 8, 100) }, 2))
    end
    local opt = optim.Adam(net:parameters(), 0.01)
    local data = flame.randn(512, 1) * S + M
    for _ = 1, 300 do
      opt:zero_grad()
      diffusion.loss(model, data, schedule):backward()
      opt:step()
    end
    local y = diffusion.dpm_solver(model, flame.randn(4000, 1), schedule, 20)
    assert.close(M, y:mean():item(), 0.15)
    assert.close(S, y:std():item(), 0.15)
  end)
  it("time_embedding has cosines and sines from fast to slow", function()
    local e = diffusion.time_embedding(flame.tensor({ 0, 3 }, { dtype = "i64" }), 4, 100)
    assert.allclose({ { 1, 1, 0, 0 },
      { math.cos(3), math.cos(0.3), math.sin(3), math.sin(0.3) } }, e, { atol = 1e-6 })
  end)
end)

describe("diffusion tells", function()
  local schedule = diffusion.schedule(10)
  local x, t = flame.ones(2, 1), flame.tensor({ 1, 2 }, { dtype = "i64" })
  local function same(v) return v end
  it("what is wrong", function()
    refused("schedule: steps is 0, need 1 to 1000000", diffusion.schedule, 0)
    refused("beta 2 is 1.5, need a number between 0 and 1", diffusion.schedule,
      { betas = flame.tensor { 0.5, 1.5 } })
    refused("nan, need a number between 0 and 1", diffusion.schedule,
      { betas = flame.tensor { 0 / 0 } })
    refused("betas has shape (1, 2)", diffusion.schedule, { betas = flame.ones(1, 2) })
    refused("kind", diffusion.schedule, 10, "cosinus")
    refused("no option 'beta_stop'", diffusion.schedule, { beta_stop = 1 })
    refused("need (batch, …) and (batch)", schedule.add_noise, schedule, x, x, t[{ {1, 1} }])
    refused("t is f32", schedule.add_noise, schedule, x, x, flame.ones(2))
    refused("index 11", function()
      schedule:add_noise(x, x, t + 9):totable()
    end)
    refused('prediction must be "epsilon", "sample"', schedule.target, schedule, x, x, t, "noise")
    refused("n is 11, need 1 to 10", schedule.timesteps, schedule, 11)
    for _, sampler in ipairs { diffusion.ddim, diffusion.ddpm, diffusion.dpm_solver } do
      refused("steps is 0, need 1 to 10", sampler, function(v) return v end, x, schedule, 0)
    end
    refused("spacing must be \"trailing\"", schedule.timesteps, schedule, 5, "even")
    refused("NoiseSchedule has no field 'beta'; did you mean 'betas'?",
      function() return schedule.beta end)
    refused("the model's result has shape (2), x (2, 1)", diffusion.ddim,
      function(v) return v:sum(2) end, x, schedule)
    refused("the model's result must be a tensor, got nil", diffusion.loss, function() end, x,
      schedule)
    refused("x is i64 (2)", diffusion.ddpm, same, t, schedule)
    refused("eta is 2", diffusion.ddim, same, x, schedule, { eta = 2 })
    refused("order is 4", diffusion.dpm_solver, same, x, schedule, { order = 4 })
    refused("clip is 0", diffusion.ddim, same, x, schedule, { clip = 0 })
    refused("schedule must be a NoiseSchedule", diffusion.ddim, same, x, 10)
    refused("model must be a function", diffusion.ddim, 3, x, schedule)
    refused("steps is 0", diffusion.flow, same, x, 0)
    refused("method", diffusion.flow, same, x, 3, "eular")
    refused("size is 3, need an even number", diffusion.time_embedding, t, 3)
    refused("x is 0-d", diffusion.flow_loss, same, flame.ones(2)[1])
  end)
end)
