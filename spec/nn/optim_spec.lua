-- Optimisers: arguments, parameter groups, closures, state that resumes bit for bit, scaled losses,
-- schedules. Their arithmetic is compared with PyTorch in spec/peer/optim.py.

local flame = require "flame"
local optim = require "flame.optim"

local function parameter(values) return flame.tensor(values, { requires_grad = true }) end

local helper = require "spec.support.helper"
local refused, says = helper.raises, helper.says

-- A loss with curvature in all directions.
local function bowl(p) return (p * p):sum() * 0.5 + ((p - 0.3) ^ 4):sum() end

local names = { "SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "Lion", "Adadelta", "Adamax", "NAdam",
  "RAdam", "Rprop" }

describe("optimisers", function()
  it("all go down a bowl", function()
    for _, name in ipairs(names) do
      local p = parameter({ { 1, -2 }, { 0.5, 3 } })
      local opt, first = optim[name]({ p }, { lr = name == "Adadelta" and 10 or 0.02 }), nil
      for _ = 1, 30 do
        opt:zero_grad()
        local loss = bowl(p)
        first = first or loss:item()
        loss:backward()
        opt:step()
      end
      assert.is_true(bowl(p):item() < first, name)
    end
  end)

  -- A step of many parameters is one call of C (src/lua/update.c). With maximize it is done for one
  -- parameter at a time; maximize of the negated loss must give the same bits.
  for _, rule in ipairs { { "Adam" }, { "Adam", weight_decay = 0.1 }, { "AdamW" }, { "SGD" },
      { "SGD", momentum = 0.9 }, { "SGD", momentum = 0.5, nesterov = true },
      { "SGD", momentum = 0.9, dampening = 0.2, weight_decay = 0.1 } } do
    for _, dtype in ipairs { "f32", "f64", "bf16" } do
      local function run(maximize)
        local settings, p, out = { lr = 0.1, maximize = maximize }, {}, {}
        for k, v in pairs(rule) do if k ~= 1 then settings[k] = v end end
        flame.seed(5)
        for k = 1, 4 do p[k] = flame.randn(k, 3, { dtype = dtype, requires_grad = true }) end
        local opt = optim[rule[1]](p, settings)
        for i = 1, 6 do
          local loss = 0
          for k = 1, 4 do
            if k ~= 2 or i % 2 == 0 then loss = loss + (p[k] ^ 2 * k):sum() end
          end
          if i == 4 then opt.state[p[3]] = nil end
          opt:zero_grad()
          ;(maximize and -loss or loss):backward()
          opt:step()
        end
        for k = 1, 4 do out[k] = { p[k]:totable(), opt.state[p[k]].step } end
        return out
      end
      it(("%s of %s steps many parameters as it steps one"):format(table.concat(rule), dtype),
        function()
          local many = run(false)
          assert.same(run(true), many)
          assert.same({ 6, 3, 3, 6 }, { many[1][2], many[2][2], many[3][2], many[4][2] })
        end)
    end
  end

  -- Anomaly mode computes op by op; a parameter's step is otherwise a few nodes (src/plan/joint.c).
  for _, rule in ipairs { { "Adam" }, { "Adam", amsgrad = true, weight_decay = 0.1 }, { "AdamW" },
      { "SGD", momentum = 0.9, dampening = 0.2 } } do
    for _, dtype in ipairs { "f32", "f64", "f16", "bf16" } do
      local function run(single)
        local settings, p, g, out = { lr = 0.1 }, {}, {}, {}
        for k, v in pairs(rule) do if k ~= 1 then settings[k] = v end end
        flame.seed(6)
        for k, shape in ipairs { {}, { 0 }, { 3, 1 }, { 40, 50 }, { 3 } } do
          p[k] = flame.randn(shape, { dtype = dtype, requires_grad = true })
          g[k] = flame.rand(shape, { dtype = dtype }) - 1.5
        end
        g[5] = flame.tensor({ 0 / 0, math.huge, 0 }, { dtype = dtype })
        local opt = optim[rule[1]](p, settings)
        for i = 1, 3 do
          for k = 1, 5 do p[k].grad = g[k] * i end
          flame.stats("reset")
          flame.autograd.anomaly(single)
          opt:step()
          flame.autograd.anomaly(false)
        end
        for k = 1, 5 do
          out[k] = { p[k]:bytes() }
          for f, x in pairs(opt.state[p[k]]) do out[k][f] = f == "step" and x or x:bytes() end
        end
        return out, flame.stats().recorded
      end
      it(rule[1] .. " of " .. dtype .. " has its single ops' bits in fewer nodes", function()
        local few, n = run(false)
        local many, most = run(true)
        assert.same({ many, true }, { few, n < most })
      end)
    end
  end

  it("raise for a parameter that was freed", function()
    local p, q = flame.randn(3):requires_grad_(), flame.randn(3):requires_grad_()
    local opt = optim.Adam({ p, q }, { lr = 0.1 })
    for _ = 1, 2 do
      opt:zero_grad()
      ;(p:sum() + q:sum()):backward()
      opt:step()
    end
    q:free()
    assert.error_matches(function() opt:zero_grad() end, "was freed")
    assert.is_nil(p.grad)
    assert.error_matches(function() opt:step() end, "was freed")
  end)

  it("take torch's arguments by position or by name", function()
    local p = parameter({ 1 })
    local a = optim.SGD({ p }, 0.1, 0.9, 0, 1e-4, true).groups[1]
    assert.same({ 0.1, 0.9, 0, 1e-4, true },
      { a.lr, a.momentum, a.dampening, a.weight_decay, a.nesterov })
    local b = optim.Adam({ p }, 0.2, { 0.5, 0.6 }, { amsgrad = true }).groups[1]
    assert.same({ 0.2, 0.5, 0.6, true }, { b.lr, b.betas[1], b.betas[2], b.amsgrad })
    assert.equal(1e-3, optim.SGD({ p }).lr)
  end)

  it("refuse what can not be", function()
    says("Adam: lr is -1, need a number of at least 0", optim.Adam, { parameter { 1 } },
      { lr = -1 })
    local p = parameter({ 1 })
    refused("SGD: no option 'speed', there is: lr momentum", optim.SGD, { p }, { speed = 1 })
    refused("SGD: lr is -1", optim.SGD, { p }, { lr = -1 })
    refused("Adam: betas[2] is 1, need 0 <= beta < 1", optim.Adam, { p }, { betas = { 0.9, 1 } })
    refused("nesterov needs a momentum", optim.SGD, { p }, { nesterov = true })
    refused("not empty", optim.SGD, {})
    refused("params[1] must be a tensor or a table, got string", optim.SGD, { "w" })
    refused("is no leaf", optim.SGD, { p * 2 })
    refused("parameter 2 was given before", optim.SGD, { p, p })
    refused("SGD: 6 arguments at most, got 7", optim.SGD, { p }, 1, 2, 3, 4, false, 6)
    refused("need 2 axes", optim.Muon, { p })
    refused('line_search_fn must be "strong_wolfe", got string', optim.LBFGS, { p },
      { line_search_fn = "armijo" })
    refused("step: closure must be a function, got nothing",
      function() optim.LBFGS({ p }):step() end)
    refused("step: closure must be a function, got number",
      function() optim.SGD({ p }):step(3) end)
  end)

  it("add a group later, with what is left out as in the constructor", function()
    local a, b = parameter({ 1 }), parameter({ 1 })
    local opt = optim.SGD({ a }, { lr = 0.5 })
    opt:add_param_group({ params = { b }, lr = 0.25 })
    assert.equal(2, #opt.groups)
    opt:add_param_group({ params = { parameter({ 1 }) }, foreach = true })
    assert.equal(0.5, opt.groups[3].lr)
    refused("SGD: no option 'lrs', there is: lr momentum", opt.add_param_group, opt,
      { params = { parameter({ 1 }) }, lrs = 1 })
    refused("SGD: lr must be a number, got string 'fast'", optim.SGD,
      { { params = { parameter({ 1 }) }, lr = "fast" } })
    a.grad, b.grad = flame.ones(1), flame.ones(1)
    opt:step()
    assert.allclose({ 0.5, 0.75 }, { a:item(), b:item() })
    opt.groups[2].lr = 0
    opt:step()
    assert.allclose({ 0, 0.75 }, { a:item(), b:item() })
    refused("was given before", opt.add_param_group, opt, { params = { a } })
  end)

  it("have separate lists as settings", function()
    local one, other = optim.Adam(parameter({ 1 })), optim.Adam(parameter({ 1 }))
    one.groups[1].betas[1] = 0
    assert.same({ 0.9, 0.999 }, other.groups[1].betas)
    assert.same({ 0.9, 0.999 }, optim.Adam(parameter({ 1 })).groups[1].betas)
  end)

  it("refuse fields that they do not have, in the groups too", function()
    local p = flame.ones({ 2 }, { requires_grad = true })
    local opt = optim.SGD({ p }, { lr = 0.1 })
    local plan = optim.schedule.step { opt = opt, step_size = 2 }
    refused("SGD has no field 'learning_rate', there is: groups lr param_groups state steps",
      function() opt.learning_rate = 3 end)
    refused("SGD has no field 'learning_rate'", function() return opt.learning_rate end)
    refused("SGD has no field 'zero_grads'; did you mean 'zero_grad'?",
      function() opt:zero_grads() end)
    refused("SGD: momentum stands in the groups: opt.groups[1].momentum",
      function() opt.momentum = 0.9 end)
    refused("SGD: param_groups can not be assigned", function() opt.param_groups = {} end)
    refused("SGD: a group has no field 'weight_decey'; did you mean 'weight_decay'?",
      function() opt.groups[1].weight_decey = 1 end)
    refused("SGD: a group has no field 'betas'", function() return opt.groups[1].betas end)
    refused("a schedule has no field 'bass'; did you mean 'base'?", function() plan.bass = 1 end)
    refused("a schedule has no field 'gamma', there is:", function() return plan.gamma end)
    refused("GradScaler has no field 'scal'; did you mean 'scale'?",
      function() optim.GradScaler().scal = 1 end)
    refused("SGD: load_state_dict: group 1: no option '", opt.load_state_dict, opt,
      optim.Adam({ flame.ones(2) }):state_dict())
    assert.same({ 0.1, 0 }, { opt.lr, opt.groups[1].momentum })
    opt.groups[1].momentum = 0.5
    local calls, step = 0, opt.step
    function opt:step(...) calls = calls + 1 return step(self, ...) end
    opt:step()
    assert.same({ 0.5, 1 }, { opt.groups[1].momentum, calls })
  end)

  it("decay apart from the gradient in Adam, if told to, as AdamW does", function()
    local function run(rule, o)
      local p = flame.tensor({ 1, -2, 3 }, { requires_grad = true })
      local opt = optim[rule]({ p }, o)
      for _ = 1, 5 do
        opt:zero_grad()
        local loss = (p * p * p):sum()
        loss:backward()
        opt:step()
      end
      return p:totable()
    end
    local o = { lr = 0.1, weight_decay = 0.3 }
    local w = run("AdamW", o)
    assert.not_same(w, run("Adam", o))
    o.decoupled_weight_decay = true
    assert.same(w, run("Adam", o))
    refused("AdamW: no option 'decoupled_weight_decay'", optim.AdamW, { flame.ones(1) },
      { decoupled_weight_decay = true })
  end)

  it("run a closure before the step and return its loss", function()
    local p = parameter({ 2 })
    local opt, calls = optim.SGD({ p }, { lr = 0.5 }), 0
    local loss = flame.no_grad(function()
      return opt:step(function()
        calls = calls + 1
        opt:zero_grad()
        local l = (p * p):sum()
        l:backward()
        return l
      end)
    end)
    assert.same({ 1, 4, 0 }, { calls, loss:item(), p:item() })
  end)

  it("maximize climbs", function()
    for _, name in ipairs { "SGD", "Adam", "AdamW", "RMSprop", "Adagrad" } do
      local p = parameter({ 1 })
      local opt = optim[name]({ p }, { lr = 0.1, maximize = true })
      p.grad = flame.ones(1)
      opt:step()
      assert.is_true(p:item() > 0.9, name)
    end
  end)

  it("zero_grad leaves nil, or zeros when asked", function()
    local p = parameter({ 1 })
    local opt = optim.SGD({ p })
    p.grad = flame.ones(1)
    opt:zero_grad({ set_to_none = false })
    assert.equal(0, p.grad:item())
    opt:zero_grad()
    assert.is_nil(p.grad)
  end)

  it("resume bit for bit from a saved file", function()
    local path = os.tmpname() .. ".safetensors"
    local all = { table.unpack(names) }
    table.insert(all, "Muon")
    table.insert(all, "LBFGS")
    for _, name in ipairs(all) do
      local function run(stop)
        local p, q = parameter({ { 1, -2, 0.5 }, { 0.25, 3, -1 } }), parameter({ { 0.5, 1 } })
        local function make() return optim[name]({ p, q }, { lr = 0.01 }) end
        local opt = make()
        for i = 1, 6 do
          if i == stop then
            flame.save(path, opt:state_dict())
            opt = make()
            opt.lr = 0.7
            opt:load_state_dict(flame.load(path))
          end
          opt:step(function()
            opt:zero_grad()
            local loss = bowl(p) + bowl(q) * 2
            loss:backward()
            return loss
          end)
        end
        return p:bytes() .. q:bytes()
      end
      assert.equal(run(0), run(4), name)
    end
    os.remove(path)
  end)

  it("state_of gives what is kept of a parameter", function()
    local p = flame.ones(2)
    assert.same({ step = 0 }, optim.SGD({ p }, { lr = 0.1 }):state_of(p))
  end)
  it("state_dict is a snapshot, and numbers parameters over the groups", function()
    local a, b = parameter({ 1 }), parameter({ 1 })
    local opt = optim.Adam({ { params = { a }, lr = 0.1 }, { params = { b } } })
    a.grad, b.grad = flame.ones(1), flame.ones(1)
    opt:step()
    local saved = opt:state_dict()
    local before = saved.state[2].exp_avg:item()
    opt:step()
    assert.equal(before, saved.state[2].exp_avg:item())
    assert.same({ { 1 }, { 2 } }, { saved.param_groups[1].params, saved.param_groups[2].params })
    assert.equal(0.1, saved.param_groups[1].lr)
    refused("1 groups saved, 2 here", opt.load_state_dict, opt,
      optim.Adam({ parameter({ 1 }) }):state_dict())
    refused("need what an optimiser", opt.load_state_dict, opt, {})
  end)

  it("LBFGS with a line search finds the least of Rosenbrock's valley", function()
    local p = flame.tensor({ -1.2, 1 }, { dtype = "f64", requires_grad = true })
    local opt = optim.LBFGS({ p },
      { max_iter = 100, tolerance_change = 1e-14, line_search_fn = "strong_wolfe" })
    local first = opt:step(function()
      opt:zero_grad()
      local x, y = p[1], p[2]
      local loss = (1 - x) ^ 2 + 100 * (y - x * x) ^ 2
      loss:backward()
      return loss
    end)
    assert.close(24.2, first:item(), 1e-9)
    assert.allclose({ 1, 1 }, p, { atol = 1e-5 })
  end)

  it("Muon steps along orthogonal matrices", function()
    flame.seed(1)
    local p = flame.zeros({ 6, 4 }, { requires_grad = true })
    local opt = optim.Muon({ p }, { lr = 1, weight_decay = 0, momentum = 0 })
    p.grad = flame.randn(6, 4) * 100
    opt:step()
    local gram = p:t():matmul(p):detach() / 1.5                -- the rate grows with rows / columns
    assert.allclose(flame.eye(4), gram, { atol = 0.6 })
    local smooth = gram:diagonal():mean():item()
    assert.is_true(smooth > 0.5 and smooth < 1.5, smooth)
  end)

  it("clip_grad_norm takes powers of half floats in f32, whose range they keep", function()
    for _, norm_type in ipairs { 2, 3 } do
      for _, alone in ipairs { true, false } do
        local a, b = parameter({ 1, 1 }):to("f16"), parameter({ 1 })
        a = a:detach():requires_grad_()
        a.grad, b.grad = flame.tensor({ 300, 400 }, { dtype = "f16" }), flame.zeros_like(b)
        local norm = optim.clip_grad_norm(alone and a or { b, a }, 1, { norm_type = norm_type })
        local want = (300.0 ^ norm_type + 400.0 ^ norm_type) ^ (1 / norm_type)
        assert.near(want, norm:item(), 1e-3 * want)
        assert.near(300 / want, a.grad:totable()[1], 1e-3)
        assert.equal("f16", a.grad.dtype)
      end
    end
  end)
  it("clip_grad_norm takes other norms, and refuses NaN when asked", function()
    local a = parameter({ 1, 1 })
    a.grad = flame.tensor({ 3, -4 })
    assert.close(7, optim.clip_grad_norm({ a }, 100, { norm_type = 1 }):item())
    assert.close(4, optim.clip_grad_norm(a, 2, { norm_type = math.huge }):item())
    assert.allclose({ 1.5, -2 }, a.grad, { rtol = 1e-5 })
    a.grad = flame.tensor({ 0 / 0, 1 })
    refused("the norm of the gradients is", optim.clip_grad_norm, { a }, 1,
      { error_if_nonfinite = true })
    assert.equal(0, optim.clip_grad_norm({ parameter({ 1 }) }, 1):item())
  end)

  it("states follow their parameters when a module is converted", function()
    local nn = require "flame.nn"
    for _, name in ipairs { "Adam", "SGD", "LBFGS" } do
      local net = nn.Linear(2, 1)
      local opt = optim[name](net:parameters(),
        { lr = 0.1, [name == "SGD" and "momentum" or "lr"] = 0.1 })
      local function step()
        opt:step(function()
          opt:zero_grad()
          local loss = net(flame.ones({ 1, 2 }, { dtype = net.weight.dtype })):square():sum()
          loss:backward()
          return loss
        end)
      end
      step()
      net:double()
      step()
      for _, state in pairs(opt.state) do
        for key, value in pairs(state) do
          if flame.is_tensor(value) then assert.equal("f64", value.dtype, name .. " " .. key) end
        end
      end
    end
  end)

  it("states live on outside the scope of the step that made them", function()
    local p = parameter({ 1 })
    local opt = optim.Adam({ p }, { lr = 0.1 })
    for _ = 1, 3 do
      flame.scope(function()
        opt:zero_grad()
        local loss = (p * p):sum()
        loss:backward()
        opt:step()
      end)
    end
    assert.is_true(p:item() < 1)
  end)
end)

describe("the scaler of losses", function()
  local function setup(options)
    local p = parameter({ 1 })
    return p, optim.SGD({ p }, { lr = 0.5 }), optim.GradScaler(options)
  end

  it("gives the step that there would be without it", function()
    local p, opt, scaler = setup()
    scaler:scale((p * 0.5):sum()):backward()
    assert.equal(32768, p.grad:item())
    scaler:step(opt)
    scaler:update()
    assert.equal(0.75, p:item())
    assert.equal(65536, scaler:get_scale())
  end)

  it("leaves out a step with Inf, halves, and doubles after enough good ones", function()
    local p, opt, scaler = setup { init_scale = 8, growth_interval = 2 }
    p.grad = flame.tensor({ math.huge })
    scaler:step(opt)
    scaler:update()
    assert.same({ 1, 4 }, { p:item(), scaler:get_scale() })
    for _ = 1, 2 do
      p.grad = flame.tensor({ 0 })
      scaler:step(opt)
      scaler:update()
    end
    assert.equal(8, scaler:get_scale())
  end)

  it("unscales once, before clipping", function()
    local p, opt, scaler = setup { init_scale = 4 }
    p.grad = flame.tensor({ 8 })
    scaler:unscale(opt)
    assert.equal(2, p.grad:item())
    optim.clip_grad_norm({ p }, 1)
    refused("unscale() came already", scaler.unscale, scaler, opt)
    scaler:step(opt)
    assert.close(0.5, p:item(), 1e-5)
    refused("step() came already", scaler.step, scaler, opt)
    scaler:update()
    refused("without a step()", scaler.update, scaler)
  end)

  it("is transparent when it is off, and its state goes on", function()
    local p, opt, off = setup { enabled = false }
    p.grad = flame.tensor({ 1 })
    off:step(opt)
    off:update()
    assert.same({ 0.5, 1 }, { p:item(), off:get_scale() })
    assert.is_false(off:is_enabled())
    local a = optim.GradScaler { init_scale = 16, growth_interval = 7 }
    local b = optim.GradScaler()
    b:load_state_dict(a:state_dict())
    assert.same(a:state_dict(), b:state_dict())
  end)
end)

describe("schedules", function()
  local function rates(name, options, n)
    local opt = optim.SGD({ parameter({ 1 }) }, { lr = 1, momentum = 0.9 })
    options.opt = opt
    local plan, out = optim.schedule[name](options), {}
    for i = 1, n do
      out[i] = opt.lr
      opt:step()
      plan:step()
    end
    return out, plan
  end

  it("step, multi_step, exponential, linear, constant and polynomial", function()
    assert.allclose({ 1, 1, 0.5, 0.5, 0.25 }, (rates("step", { step_size = 2, gamma = 0.5 }, 5)))
    assert.allclose({ 1, 0.1, 0.1, 0.01 }, (rates("multi_step", { milestones = { 1, 3 } }, 4)))
    assert.allclose({ 1, 0.5, 0.25 }, (rates("exponential", { gamma = 0.5 }, 3)))
    assert.allclose({ 0.5, 0.75, 1, 1 },
      (rates("linear", { start_factor = 0.5, total_iters = 2 }, 4)))
    assert.allclose({ 0.5, 0.5, 1 }, (rates("constant", { factor = 0.5, total_iters = 2 }, 3)))
    assert.allclose({ 1, 0.25, 0, 0 }, (rates("polynomial", { total_iters = 2, power = 2 }, 4)))
  end)

  it("torch's names and order of arguments work too", function()
    local opt = optim.SGD({ parameter({ 1 }) }, { lr = 1 })
    local plan = optim.lr_scheduler.StepLR(opt, 1, 0.5)
    plan:step()
    assert.same({ 0.5 }, plan:get_last_lr())
    refused("step: step_size must be a number, got nothing", optim.schedule.step, { opt = opt })
    refused("step: no option 'size'", optim.schedule.step, { opt = opt, size = 1 })
    refused("opt must be an Optimizer, got nothing", optim.schedule.step, { step_size = 1 })
  end)

  it("sequential counts again at a milestone, chained multiplies", function()
    local opt = optim.SGD({ parameter({ 1 }) }, { lr = 1 })
    local s = optim.schedule
    local plan = s.sequential { opt = opt, milestones = { 2 },
      schedules = { s.constant { opt = opt, factor = 0.1, total_iters = 9 },
        s.exponential { opt = opt, gamma = 0.5 } } }
    local out = {}
    for i = 1, 5 do
      out[i] = opt.lr
      plan:step()
    end
    assert.allclose({ 0.1, 0.1, 1, 0.5, 0.25 }, out)
    opt = optim.SGD({ parameter({ 1 }) }, { lr = 1 })
    plan = s.chained { s.constant { opt = opt, factor = 0.5, total_iters = 2 },
      s.exponential { opt = opt, gamma = 0.5 } }
    for i = 1, 3 do
      out[i] = opt.lr
      plan:step()
    end
    assert.allclose({ 0.5, 0.25, 0.25 }, { out[1], out[2], out[3] })
  end)

  it("reduce_on_plateau waits for 'patience' bad measures", function()
    local opt = optim.SGD({ parameter({ 1 }) }, { lr = 1 })
    local plan, out = optim.schedule.reduce_on_plateau { opt = opt, patience = 1, factor = 0.5 }, {}
    for i, measure in ipairs { 3, 2, 2, 2, 1, 1, 1 } do
      plan:step(i == 1 and flame.tensor(measure) or measure)
      out[i] = opt.lr
    end
    assert.allclose({ 1, 1, 1, 0.5, 0.5, 0.5, 0.25 }, out)
    refused("step: metrics must be a number or a tensor, got nothing", plan.step, plan)
  end)

  it("go on from a saved state, bit for bit", function()
    local function run(stop)
      local opt = optim.Adam({ parameter({ 1 }) }, { lr = 0.3 })
      local plan, out = optim.schedule.one_cycle { opt = opt, max_lr = 1, total_steps = 12 }, {}
      for i = 1, 10 do
        if i == stop then
          local saved, rates_saved = opt:state_dict(), plan:state_dict()
          opt = optim.Adam({ parameter({ 1 }) }, { lr = 0.1 })
          plan = optim.schedule.one_cycle { opt = opt, max_lr = 1, total_steps = 12 }
          opt:load_state_dict(saved)
          plan:load_state_dict(rates_saved)
        end
        out[i] = ("%a %a"):format(opt.lr, opt.groups[1].betas[1])
        opt:step()
        plan:step()
      end
      return out
    end
    assert.same(run(0), run(5))
  end)

  it("keep the ratio of the groups", function()
    local opt =
      optim.SGD({ { params = { parameter({ 1 }) }, lr = 1 },
        { params = { parameter({ 1 }) }, lr = 0.1 } })
    local plan = optim.schedule.cosine { opt = opt, steps = 2, min = 0.01 }
    plan:step()
    assert.allclose({ 0.505, 0.055 }, plan:get_last_lr())
  end)
end)
