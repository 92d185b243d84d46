-- Where a function is expected, any callable value is accepted: a table or a userdata with __call,
-- or a module. Other values are refused, with a message of ours and none of Lua's.

local flame = require "flame"
local data = require "flame.data"
local nn, optim = flame.nn, flame.optim

local function numbers(...)
  local out = {}
  local function add(v)
    if flame.is_tensor(v) then
      out[#out + 1] = table.concat(v.shape, "x")
      for _, x in ipairs(v:reshape(-1):totable()) do out[#out + 1] = x end
    elseif type(v) == "table" and getmetatable(v) == nil then for _, x in ipairs(v) do add(x) end
    elseif type(v) == "number" then out[#out + 1] = v end
  end
  for i = 1, select("#", ...) do add((select(i, ...))) end
  return out
end

local function x3() return flame.tensor({ 0.5, -1, 2 }, { requires_grad = true }) end
local function square(x) return (x * x):sum() end
local function one(f) local p = x3() return p, optim.SGD({ p }, { lr = 0.5 }), f end

local diffusion, distributions = flame.diffusion, flame.distributions
local function model(x, t) return x * 0.1 + t:to(x.dtype):reshape(-1, 1) * 1e-3 end
local function noise() return diffusion.schedule(20, "cosine") end
local function seeded(f, ...) flame.seed(3) return f(...) end

-- name -> { f, call }: call(f) passes f to the function of that name, and returns its results
local cases = {
  no_grad = { square, function(f) return flame.no_grad(f, x3()) end },
  enable_grad = { square, function(f) return flame.enable_grad(f, x3()) end },
  inference_mode = { square, function(f) return flame.inference_mode(f, x3()) end },
  checkpoint = { square, function(f)
    local x = x3()
    flame.checkpoint(f, x):backward()
    return x.grad
  end },
  ["checkpoint in autocast"] = { function(x) return x:matmul(x) end, function(f)
    return flame.autocast("bf16", function() return flame.checkpoint(f, x3()):float() end)
  end },
  autocast = { function(x) return x:matmul(x):float() end,
    function(f) return flame.autocast("bf16", f, x3()) end },
  vmap = { square, function(f) return flame.vmap(f)(flame.tensor { { 1, 2 }, { 3, 4 } }) end },
  no_sync = { square, function(f) return flame.distributed.no_sync(f, x3()) end },
  scope = { function() return square(x3()) end, function(f) return flame.scope(f) end },
  profile = { square, function(f) return select(2, flame.profile(f, x3())) end },
  region = { square, function(f) return flame.region("part", f, x3()) end },
  flamegraph = { square, function(f) return select(2, flame.flamegraph(f, x3())) end },
  warmup = { square, function(f) flame.warmup(f, x3()) return f(x3()) end },
  bench = { function() square(x3()):item() end,
    function(f) return flame.bench(f, { n = 2 }).n end },
  leakcheck = { function() square(x3()):item() end,
    function(f) return flame.leakcheck(f, 2) and 1 end },
  compare = { square, function(f) return flame.compare(f, f, x3()) and 1 end },
  use = { function(x) return x * 1 end, function(f)
    local _ <close> = flame.use("neg", f)
    return flame.neg(x3())
  end },
  export = { function(x) return x * 2 end, function(f)
    local path = os.tmpname()
    flame.export(path, f, { flame.ones(3) })
    local y = flame.program(path)(flame.tensor { 1, 2, 3 })
    flame.eval(y)
    os.remove(path)
    return y
  end },
  grad = { square, function(f) return flame.grad(f)(x3()) end },
  value_and_grad = { square, function(f) return flame.value_and_grad(f)(x3()) end },
  vjp = { square, function(f) return flame.vjp(f, x3(), flame.tensor(2)) end },
  jvp = { square, function(f) return flame.jvp(f, x3(), flame.ones(3)) end },
  hvp = { square, function(f) return flame.hvp(f, x3(), flame.ones(3)) end },
  vhp = { square, function(f) return flame.vhp(f, x3(), flame.ones(3)) end },
  jacobian = { square, function(f) return flame.jacobian(f, x3()) end },
  hessian = { square, function(f) return flame.hessian(f, x3()) end },
  gradcheck = { square, function(f)
    return flame.gradcheck(f, { x3():double():detach():requires_grad_() }) and 1
  end },
  apply_ = { function(v) return v + 1 end, function(f) return flame.ones(3):apply_(f) end },
  register_hook = { function(g) return g * 3 end, function(f)
    local x = x3()
    local y = x * 1
    y:register_hook(f)
    y:sum():backward()
    return x.grad
  end },
  ["func's forward"] = { function(_, x) return x * 2 end, function(f)
    return flame.func { name = "twice", forward = f,
      backward = function(_, g) return g * 2 end }(x3())
  end },
  ["func's backward"] = { function(_, g) return g * 2 end, function(f)
    local x = x3()
    flame.func { name = "twice", forward = function(_, v) return v * 2 end,
      backward = f }(x):sum():backward()
    return x.grad
  end },
  ["a kernel's vjp"] = { function(g) return g * 7 end, function(f)
    local x = x3()
    flame.kernel { source = "__global__ void k(float *y, const float *x, int n) { int i = threadIdx.x; if (i < n) y[i] = 7 * x[i]; }",
      vjp = f }(x):sum():backward()
    return x.grad
  end },
  ["a kernel's grid"] = { function() return 3 end, function(f)
    return flame.kernel { source = "__global__ void k(float *y, int n) { if (blockIdx.x < n) y[blockIdx.x] = gridDim.x; }",
      shape = { 3 }, block = 1, grid = f }(3)
  end },
  ["a kernel's shape"] = { function() return { 4 } end, function(f)
    return flame.kernel { source = "__global__ void k(float *y, int n) { if (threadIdx.x < n) y[threadIdx.x] = n; }",
      shape = f, block = 4, grid = 1 }(4)
  end },
  triplet_margin_with_distance_loss = { function(a, b) return (a - b):abs():sum(2) end, function(f)
    return flame.triplet_margin_with_distance_loss(flame.ones(2, 3), flame.zeros(2, 3),
      flame.full({ 2, 3 }, 2), { distance_function = f })
  end },
  ["Sequential"] = { function(x) return x * 3 end,
    function(f) return nn.Sequential(f)(flame.ones(2)) end },
  ["a list for Sequential"] = { function(x) return x * 3 end,
    function(f) return nn.Sequential { f, f }(flame.ones(2)) end },
  register_forward_hook = { function(_, _, y) return y * 0 end, function(f)
    local net = nn.Identity()
    net:register_forward_hook(f)
    return net(flame.ones(2))
  end },
  register_forward_pre_hook = { function() return { flame.zeros(2) } end, function(f)
    local net = nn.Identity()
    net:register_forward_pre_hook(f)
    return net(flame.ones(2))
  end },
  register_full_backward_hook = { function(_, inputs) return { inputs[1] * 5 } end, function(f)
    local net, x = nn.Tanh(), x3()
    net:register_full_backward_hook(f)
    net(x):sum():backward()
    return x.grad
  end },
  apply = { function(module) module.mark = 4 end, function(f)
    local net = nn.Identity()
    net:apply(f)
    return net.mark
  end },
  TransformerEncoderLayer = { function(x) return x:relu() end, function(f)
    flame.seed(1)
    return nn.TransformerEncoderLayer(4, 2, { activation = f, dropout = 0 })(flame.ones(1, 2, 4))
  end },
  TransformerDecoderLayer = { function(x) return x:relu() end, function(f)
    flame.seed(1)
    return nn.TransformerDecoderLayer(4, 2, { activation = f, dropout = 0 })(flame.ones(1, 2, 4),
      flame.ones(1, 2, 4))
  end },
  Transformer = { function(x) return x:relu() end, function(f)
    flame.seed(1)
    return nn.Transformer(4, 2, { num_encoder_layers = 1, num_decoder_layers = 1, activation = f,
      dropout = 0, dim_feedforward = 8 })(flame.ones(1, 2, 4), flame.ones(1, 2, 4))
  end },
  TripletMarginWithDistanceLoss = { function(a, b) return (a - b):abs():sum(2) end, function(f)
    return nn.TripletMarginWithDistanceLoss { distance_function = f }(flame.ones(2, 3),
      flame.zeros(2, 3), flame.full({ 2, 3 }, 2))
  end },
  loss = { model, function(f) return seeded(diffusion.loss, f, flame.ones(2, 3), noise()) end },
  ddpm = { model, function(f) return seeded(diffusion.ddpm, f, flame.ones(2, 3), noise(), 4) end },
  ddim = { model, function(f) return seeded(diffusion.ddim, f, flame.ones(2, 3), noise(), 4) end },
  dpm_solver = { model,
    function(f) return seeded(diffusion.dpm_solver, f, flame.ones(2, 3), noise(), 4) end },
  flow_loss = { model, function(f) return seeded(diffusion.flow_loss, f, flame.ones(2, 3)) end },
  flow = { model, function(f) return seeded(diffusion.flow, f, flame.ones(2, 3), 4) end },
  cyclic = { function(at) return 1 / (at + 1) end, function(f)
    local _, opt = one()
    local s = optim.schedule.cyclic(opt, 0.1, 0.5, { step_size_up = 2, scale_fn = f })
    for _ = 1, 3 do opt:step() s:step() end
    return opt.groups[1].lr
  end },
  register_kl = { function() return flame.tensor(0.25) end, function(f)
    distributions.register_kl("Laplace", "Gumbel of a specification", f)
    return 1
  end },
  dataset = { function(i) return flame.tensor { i, 2 * i } end,
    function(f) return data.dataset(3, f):item(2) end },
  map = { function(x) return x * 3 end, function(f)
    return data.dataset(3, function(i) return flame.tensor { i, i + 1 } end):map(f):item(3)
  end },
  ["an optimiser's step"] = { function() return flame.tensor(2.5) end, function(f)
    local _, opt = one()
    return opt:step(f)
  end },
  ["LBFGS's step"] = { function() return flame.tensor(2.5) end, function(f)
    local p = x3()
    p.grad = flame.zeros(3)
    return optim.LBFGS({ p }):step(f)
  end },
  lambda = { function(at) return 1 / (at + 1) end, function(f)
    local _, opt = one()
    local s = optim.schedule.lambda(opt, f)
    opt:step() s:step()
    return opt.groups[1].lr
  end },
  ["a list for lambda"] = { function(at) return 1 / (at + 1) end, function(f)
    local _, opt = one()
    local s = optim.schedule.lambda { opt = opt, f = { f } }
    opt:step() s:step()
    return opt.groups[1].lr
  end },
  multiplicative = { function() return 0.5 end, function(f)
    local _, opt = one()
    local s = optim.schedule.multiplicative(opt, f)
    opt:step() s:step()
    return opt.groups[1].lr
  end },
}

local function callable(f)
  return setmetatable({}, { __call = function(_, ...) return f(...) end })
end
local function twice_removed(f)
  return setmetatable({}, { __call = callable(function(_, ...) return f(...) end) })
end

describe("a function's place takes what can be called:", function()
  for name, case in pairs(cases) do
    local f, call = table.unpack(case)
    it(name, function()
      local expected = numbers(call(f))
      assert.is_true(#expected > 0)
      assert.same(expected, numbers(call(callable(f))))
      assert.same(expected, numbers(call(twice_removed(f))))
    end)
  end

  it("a module and a kernel", function()
    local net = nn.Linear(3, 2)
    local x = flame.ones({ 1, 3 }, { requires_grad = true })
    for _, run in ipairs { flame.no_grad, flame.enable_grad, flame.checkpoint,
      function(f, ...) return flame.autocast(false, f, ...) end,
      function(f, ...) return select(2, flame.profile(f, ...)) end,
      function(f, ...) return flame.autocast("bf16", flame.checkpoint, f, ...) end } do
      assert.allclose(net(x), run(net, x):float(), { rtol = 1e-2, atol = 1e-2 })
    end
    local kernel = flame.kernel "__global__ void k(float *y, const float *x, int n) { int i = threadIdx.x; if (i < n) y[i] = x[i] * x[i]; }"
    assert.same({ 1, 4, 9 }, flame.no_grad(kernel, flame.tensor { 1, 2, 3 }):totable())
    assert.same({ 1, 16, 81 }, nn.Sequential(kernel, kernel)(flame.tensor { 1, 2, 3 }):totable())
  end)
end)

describe("a function's place refuses", function()
  local odd = { number = 3, flag = true, table = {}, tensor = flame.ones(2), file = io.stdout,
    ["a __call that is none"] = setmetatable({}, { __call = 5 }) }
  for name, case in pairs(cases) do
    it("what can not be called: " .. name, function()
      for kind, v in pairs(odd) do
        local ok, why = pcall(case[2], v)
        local fits = name == "Sequential" and type(v) == "table"      -- an empty list of modules
          or name == "an optimiser's step" and kind == "table"        -- an empty table of options
          or name == "a kernel's grid" and kind ~= "tensor" and kind ~= "flag" and kind ~= "file"
          or name == "a kernel's shape" and (type(v) == "table" or kind == "number")
        if not fits then
          assert.falsy(ok, kind)
          assert.falsy(why:find("attempt to", 1, true) or why:find("bad argument", 1, true),
            kind .. ": " .. why)
        end
      end
    end)
  end
end)

-- Classes and methods that are tested by a case above with another name.
local ALSO = { step = "an optimiser's step", CyclicLR = "cyclic",
  LambdaLR = "lambda", MultiplicativeLR = "multiplicative" }

describe("the list of functions above", function()
  it("holds every documented function with a parameter that is one", function()
    local parameter, missing = false, {}
    for line in io.lines("lua/meta/flame.lua") do
      if line:find("^%-%-%-@param [%w_]+%?? function") then parameter = true end
      local name = line:match("^function [%w_.:]-([%w_]+)%(")
      if name then
        if parameter and name ~= "help" and not cases[ALSO[name] or name] then
          missing[#missing + 1] = name
        end
        parameter = false
      end
    end
    assert.same({}, missing)
  end)
end)
