--- flame.warmup(f) plans and compiles what f does, and computes nothing.
local flame = require "flame"
local nn, optim = require "flame.nn", require "flame.optim"
local raises = require("spec.support.helper").raises

local function network()
  flame.seed(5)
  local net = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.5),
    nn.Linear(8, 1))
  local opt = optim.AdamW(net:parameters(), { lr = 0.01 })
  local x = flame.randn(4, 6)
  flame.eval(x)
  return net, opt, function()
    opt:zero_grad()
    local loss = net(x):square():mean()
    loss:backward()
    opt:step()
    return loss
  end
end

local function values_of(net)
  local list = {}
  for name, x in pairs(net:state_dict()) do list[name] = x:totable() end
  return list
end

describe("flame.warmup of a function", function()
  it("makes the plans of a step, which then finds them", function()
    local _, _, step = network()
    local made = flame.warmup(step)
    assert.is_true(made.plans > 0 and made.compiles >= 0 and made.ms > 0)
    flame.stats "reset"
    step():item()
    assert.equal(0, flame.stats().plans)
    assert.is_true(flame.stats().launches > 0)
  end)
  it("does not let f yield, which would leave the rehearsal on", function()
    local w = flame.ones(3)
    local turn = coroutine.create(function()
      flame.warmup(function() w:add_(1) coroutine.yield() end)
    end)
    local ok, e = coroutine.resume(turn)
    assert.is_false(ok)
    assert.matches("yield", e)
    w:add_(2)
    assert.same({ 3, 3, 3 }, w:totable())
  end)
  it("ends at any instruction at which it is stopped", function()
    local w, done = flame.zeros(3), 0
    local function step() w:add_(1) flame.eval(w) end
    flame.warmup(step)
    for k = 1, 400 do
      local n = 0
      local function stop()
        n = n + 1
        if n < k then return end
        debug.sethook()
        error("stopped", 0)
      end
      local ok, e = pcall(function()
        debug.sethook(stop, "", 1)
        flame.warmup(step)
        debug.sethook()
      end)
      assert.is_true(ok or e == "stopped", e)
      w:add_(2)
      assert.same({ 2 * k, 2 * k, 2 * k }, w:totable())
      done = k
      if ok then break end
    end
    assert.is_true(done > 50 and done < 400, done)
  end)
  it("leaves parameters, buffers, gradients, optimisers and random numbers as they were", function()
    local net, opt, step = network()
    local twin, twin_opt, twin_step = network()
    local first = flame.get_rng_state()
    step():item()
    flame.set_rng_state(first)
    twin_step():item()
    local before = values_of(net)
    flame.warmup(step)
    assert.same(before, values_of(net))
    assert.same(twin:parameters()[1].grad:totable(), net:parameters()[1].grad:totable())
    assert.equal(twin_opt.steps, opt.steps)
    local seed = flame.get_rng_state()
    for _ = 1, 3 do step() end
    flame.set_rng_state(seed)
    for _ = 1, 3 do twin_step() end
    assert.same(values_of(twin), values_of(net))
  end)
  it("leaves an optimiser without a state, and parameters without gradients", function()
    local net, opt, step = network()
    local twin, _, twin_step = network()
    flame.warmup(step)
    assert.is_nil(next(opt.state))
    assert.is_nil(net:parameters()[1].grad)
    local seed = flame.get_rng_state()
    step()
    flame.set_rng_state(seed)
    twin_step()
    assert.same(values_of(twin), values_of(net))
  end)
  it("leaves schedules and scalers, also where the first change is theirs", function()
    local net, opt, step = network()
    opt.lr = 0.5
    local inner = optim.schedule.linear(opt, 0.5, 1, 4)
    local schedules = { optim.schedule.one_cycle(opt, 0.1, 20),
      optim.schedule.sequential(opt, { inner, optim.schedule.constant(opt, 0.25, 3) }, { 2 }),
      optim.schedule.reduce_on_plateau(opt, "min", 0.5, 0) }
    local scaler = optim.GradScaler { init_scale = 8, growth_interval = 1 }
    local function all()
      local out = { scaler:state_dict(), inner:state_dict(), opt.groups[1].betas[1], opt.lr }
      for _, s in ipairs(schedules) do out[#out + 1] = s:state_dict() end
      return out
    end
    local before = all()
    raises("boom", flame.warmup, function()
      for _ = 1, 3 do
        for i = 1, 2 do schedules[i]:step() end
        schedules[3]:step(step())
        net:zero_grad()
        scaler:scale(net(flame.ones(2, 6)):sum()):backward()
        scaler:unscale(opt)
        scaler:step(opt)
        scaler:update()
      end
      schedules[2]:step()
      assert.not_same(before, all())
      scaler:scale(net(flame.ones(2, 6)):sum()):backward()
      scaler:step(opt)
      error("boom", 0)
    end)
    assert.same(before, all())
    assert.is_nil(next(opt.state))
    scaler:scale(net(flame.ones(2, 6)):sum()):backward()
    scaler:step(opt)
    scaler:update()
    assert.equal(16, scaler:get_scale())
    assert.equal(1, opt.steps)
  end)
  it("leaves LBFGS with its history", function()
    local w = flame.tensor({ 1, 2 }, { requires_grad = true })
    local opt = optim.LBFGS({ w }, { lr = 0.1, max_iter = 3 })
    local function step()
      return opt:step(function()
        opt:zero_grad()
        local loss = (w - 3):square():sum() + w:pow(4):sum()
        loss:backward()
        return loss
      end)
    end
    local function saved() return { opt:state_dict().state, opt.steps, w:totable() } end
    flame.warmup(step)
    assert.is_nil(next(opt.state))
    step()
    local function plain(v)
      if type(v) == "userdata" then return v:totable() end
      if type(v) ~= "table" then return v end
      local out = {}
      for key, x in pairs(v) do out[key] = plain(x) end
      return out
    end
    local before = plain(saved())
    flame.warmup(step)
    assert.same(before, plain(saved()))
  end)
  it("runs no kernel, and what is read is 0", function()
    local x = flame.ones(3)
    flame.eval(x)
    flame.stats "reset"
    local seen
    flame.warmup(function(y)
      x:mul_(2)
      seen = { (x + y):sum():item(), (x * 2):totable() }
    end, 5)
    assert.same({ 0, { 0, 0, 0 } }, seen)
    assert.equal(0, flame.stats().launches)
    assert.same({ 1, 1, 1 }, x:totable())
  end)
  it("keeps values that views and other handles have, after several writes", function()
    local x = flame.arange(4.0)
    local view, other = x:narrow(1, 2, 2), x:clone()
    flame.warmup(function()
      x:mul_(3)
      other:add_(1)
      flame.eval()
      x[1] = 7
      other:copy_(x)
    end)
    assert.same({ 1, 2, 3, 4 }, x:totable())
    assert.same({ 2, 3 }, view:totable())
    assert.same({ 1, 2, 3, 4 }, other:totable())
  end)
  it("compiles user kernels and their adjoints", function()
    local k = flame.kernel [[__global__ void cube(const float *x, float *y, int n) {
      int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) y[i] = x[i] * x[i] * x[i]; }]]
    local w = flame.tensor({ 1, 2 }, { requires_grad = true })
    flame.warmup(function() k(w):sum():backward() end)
    assert.is_nil(w.grad)
    k(w):sum():backward()
    assert.same({ 3, 12 }, w.grad:totable())
  end)
  it("ends with an error of f, which is raised, and is not nested or profiled", function()
    local net, opt, step = network()
    local before = values_of(net)
    raises("boom", flame.warmup, function()
      step()
      error("boom", 0)
    end)
    assert.same(before, values_of(net))
    assert.equal(0, opt.steps)
    raises("warmup: one is under way", flame.warmup, function() flame.warmup(step) end)
    local p = flame.profile()
    raises("warmup: a profile is on", flame.warmup, step)
    p:close()
    assert.equal(2, (flame.ones(1) + 1):item())
  end)
  it("leaves nothing", function()
    local x = flame.ones(3)
    flame.leakcheck(function() flame.warmup(function() x:add_(1) end) end)
  end)
end)
