--- Tests docs/contract.md sentence by sentence: autograd, training, statistics and debug output,
-- errors.
local flame = require "flame"
local contract = dofile "spec/support/contract.lua"
-- luacheck: ignore
local eager = os.getenv "FLAME_EAGER" == "1"       -- each op is then a separate launch
local eq, near, yes = contract.eq, contract.near, contract.yes
local raises, part = contract.raises, contract.part

local function check(name, f) it(name, contract.all_of(f)) end

local DEVICE = flame.default_device()       -- "cpu", unless FLAME_DEVICE says otherwise
local T = flame.tensor
local function i64(t) return T(t, { dtype = "i64" }) end
local function f64(t) return T(t, { dtype = "f64" }) end

describe("the contract, autograd:", function()
  check("backward, accumulation, gradients", function()
    local x = T({ 2, 3 }, { requires_grad = true })
    local y = (x * x):sum()
    y:backward() eq({ 4, 6 }, x.grad)
    yes(x.grad == x.grad) local g = x.grad
    ;(x * 1):sum():backward() eq({ 5, 7 }, x.grad) yes(g == x.grad)
    g:mul_(2) eq({ 10, 14 }, x.grad)
    x.grad = nil eq(nil, x.grad)
    ;(x * x):backward(T { 1, 10 }) eq({ 4, 60 }, x.grad)
    eq(true, T({ 1 }):requires_grad_(true).requires_grad)
    local z = (x * x * x):sum()
    local m = z:gradients({ x }, { create_graph = true })
    x.grad = nil
    eq({ 12, 27 }, m[x]) eq(nil, x.grad)
    local h = m[x]:sum():gradients({ x }) eq({ 12, 18 }, h[x])
    near(math.sqrt(144 + 324), h:norm())
    local before = h:clip(1)
    near(math.sqrt(144 + 324), before, 1e-4)
    near(1, h:norm(), 1e-4)
    local n = 0
    for k, v in h:items() do n = n + 1 yes(k == x) eq({ 2 }, v.shape) end eq(1, n)
    raises("not asked for in this call", function() return h[T { 1 }] end)
    raises("path", function()
      return (x * 2):sum():gradients({ T({ 1 }, { requires_grad = true }) })
    end)
    raises("tracked", function() return (x * 2):sum():gradients({ T { 1 } }) end)
    local other = T({ 1 }, { requires_grad = true })
    eq(nil, (x * 2):sum():gradients({ x, other }, { allow_unused = true })[other])
    raises("never used", function()
      local d = x:detach()
      local _ = d * 2
      return (x * 2):sum():gradients({ other })
    end)
  end)
  check("refusals of backward say what to do", function()
    local x = T({ 2, 3 }, { requires_grad = true })
    local m = raises("backward", function() (x * 2):backward() end)
    yes(tostring(m):find("seed", 1, true) or tostring(m):find("sum", 1, true), tostring(m))
    m = raises("backward", function() T(1):backward() end)
    yes(tostring(m):find("requires_grad", 1, true), tostring(m))
    local y = (x * x):sum()
    y:backward()
    m = raises("retain_graph", function() y:backward() end)
    local z = (x * x):sum() z:backward(nil, { retain_graph = true }) part(z.backward, z)
    raises("float", function() T({ 1 }, { dtype = "i64", requires_grad = true }) end)
    raises("float", function() i64({ 1 }).requires_grad = true end)
    raises("shape", function() (x * 2):backward(T { 1, 2, 3 }) end)
  end)
  check("functions of functions", function()
    near({ 4, 6 }, flame.grad(function(x) return (x * x):sum() end)(T { 2, 3 }))
    local a, b = flame.grad(function(x, y) return (x * y):sum() end, 1, 2)(T { 2 }, T { 3 })
    eq({ 3 }, a)
    eq({ 2 }, b)
    local only = flame.grad(function(x, y) return (x * y):sum() end, 2)(T { 2 }, T { 3 })
    eq({ 2 }, only)
    near(24, flame.grad(flame.grad(function(x) return x ^ 4 end))(T(math.sqrt(2))), 1e-4)
    local v, g, extra = flame.value_and_grad(function(p, k)
      return (p.w * p.layers[1].b * k):sum(), "extra"
    end)({ w = T { 2 }, layers = { { b = T { 3 } } } }, 10)
    eq(60, v) eq({ 30 }, g.w) eq({ 20 }, g.layers[1].b) eq("extra", extra)
    local v2, g2 = flame.value_and_grad(function(x) return (x * x):sum() end)(T { 3 })
    eq(9, v2)
    eq({ 6 }, g2)
    local y, dx = flame.vjp(function(x) return x * x end, T { 2, 3 }, T { 1, 10 })
    eq({ 4, 9 }, y)
    eq({ 4, 60 }, dx)
    local y2, dy = flame.jvp(function(x) return x * x end, T { 2, 3 }, T { 1, 10 })
    eq({ 4, 9 }, y2)
    eq({ 4, 60 }, dy)
    eq({ { 4, 0 }, { 0, 6 } }, flame.jacobian(function(x) return x * x end, T { 2, 3 }))
    near({ { 12, 0 }, { 0, 18 } },
      flame.hessian(function(x) return (x ^ 3):sum() end, T { 2, 3 }), 1e-4)
    near({ { 0, 1 }, { 1, 0 } }, flame.hessian(function(x) return x[1] * x[2] end, T { 2, 3 }))
    raises("one element", function() flame.grad(function(x) return x end)(T { 1, 2 }) end)
  end)
  check("no_grad, enable_grad, checkpoint, hooks, retain_grad", function()
    local x = T({ 2 }, { requires_grad = true })
    local r, s = flame.no_grad(function(a, b) return a * x, b end, 3, "s")
    eq(false, r.requires_grad)
    eq("s", s)
    do
      local _ <close> = flame.no_grad()
      eq(false, (x * 2).requires_grad)
      do local _ <close> = flame.enable_grad() eq(true, (x * 2).requires_grad) end
      eq(false, (x * 2).requires_grad)
      eq(true, flame.enable_grad(function() return (x * 2).requires_grad end))
      local co = coroutine.wrap(function() return (x * 2).requires_grad end) eq(false, co())
    end
    eq(true, (x * 2).requires_grad)
    pcall(flame.no_grad, function() error("x") end) eq(true, (x * 2).requires_grad)
    local c = flame.checkpoint(function(a) return a:exp() * a end, x)
    c:sum():backward()
    near({ math.exp(2) * 3 }, x.grad, 1e-4)
    x.grad = nil
    local seen
    local y = x * 3
    y:register_hook(function(g) seen = g:item() return g * 2 end) y:retain_grad()
    y:sum():backward() eq(1, seen) eq({ 6 }, x.grad) eq({ 2 }, y.grad)
    x.grad = nil
    local h = x:register_hook(function(g) return g * 100 end);
    (x * 1):sum():backward()
    eq({ 100 }, x.grad)
    h:remove()
    x.grad = nil;
    (x * 1):sum():backward()
    eq({ 1 }, x.grad)
    eq(false, x:detach().requires_grad) eq(true, x.is_leaf) eq(false, y.is_leaf)
  end)
  check("flame.func and gradcheck", function()
    local f = flame.func { name = "cube", forward = function(ctx, x)
      ctx:save(x)
      return x * x * x
    end, backward = function(ctx, gy) local x = ctx:saved() return gy * 3 * x * x end }
    local x = f64 { 2 }
    x.requires_grad = true f(x):sum():backward() eq({ 12 }, x.grad) eq({ 8 }, f(T { 2 }))
    eq(true, flame.gradcheck(f, { f64 { 1, 2 } }))
    eq(true, flame.gradcheck(f, { f64 { 1, 2 } }, { order = 2 }))
    eq(true,
      flame.gradcheck(function(a, b) return a:matmul(b):tanh() end,
        { flame.randn(2, 3, { dtype = "f64" }), flame.randn(3, 2, { dtype = "f64" }) },
        { eps = 1e-6, atol = 1e-4, rtol = 1e-3 }))
    eq(true, flame.gradcheck(function(a) return a:sigmoid() end, { T { 0.5, 1 } }))
    local bad = flame.func { name = "bad", forward = function(_, a) return a * a end,
      backward = function(_, g) return g end }
    local m = raises("input 1", flame.gradcheck, bad, { f64 { 1, 2 } })
    yes(tostring(m):find("analytic") and tostring(m):find("numeric")
      and tostring(m):find("(2)", 1, true), tostring(m))
    local two = flame.func { name = "two", forward = function(_, a, b) return a + b, a * 2 end,
      backward = function(_, g1, g2) return g1 + g2 * 2, g1 end }
    local p, q = T({ 1 }, { requires_grad = true }), T({ 1 }, { requires_grad = true })
    local u, w = two(p, q) ; (u + w):sum():backward() eq({ 3 }, p.grad) eq({ 1 }, q.grad)
  end)
  check("anomaly names the first op that made a NaN or Inf, with its line", function()
    flame.autograd.anomaly(true)
    local line = debug.getinfo(1, "l").currentline + 1
    local ok, why = pcall(function() local y = T({ -1, 4 }):sqrt() return (y * 2):sum():item() end)
    yes(not ok and tostring(why):find("sqrt", 1, true)
      and tostring(why):find("api_training_spec.lua:" .. line, 1, true)
      and tostring(why):lower():find("nan", 1, true), tostring(why))
    local x = T({ 0 }, { requires_grad = true })
    line = debug.getinfo(1, "l").currentline + 1
    local y = x:sqrt()
    ok, why = pcall(function() y:sum():backward() return x.grad:item() end)
    yes(not ok and tostring(why):find("api_training_spec.lua:" .. line, 1, true), tostring(why))
    flame.autograd.anomaly(false)
    part(function() eq(true, T({ -1 }):sqrt():isnan():any()) end)
    eq("table", type(flame.autograd.stats())) flame.autograd.reset()
  end)
end)

describe("the contract, training:", function()
  local nn, optim, data = require "flame.nn", require "flame.optim", require "flame.data"
  check("modules, parameters and their names", function()
    local net = nn.Sequential { nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2) }
    eq({ 5, 2 }, net(flame.ones(5, 4)).shape)
    eq(4, #net:parameters())
    eq({ 3, 4 }, net:parameters()[1].shape)
    local names = {}
    for k, v in net:named_parameters() do names[#names + 1] = k yes(flame.is_tensor(v)) end
    eq({ "1.weight", "1.bias", "3.weight", "3.bias" }, names)
    local Block = nn.Module.extend("Block")
    function Block:init(d)
      self.norm = nn.LayerNorm(d)
      self.w = nn.Parameter(flame.randn(d, d))
      self.seen = nn.Buffer(flame.zeros(1))
    end
    function Block:forward(x) return x + self.norm(x):matmul(self.w) end
    local b = Block(4)
    eq({ 2, 4 }, b(flame.ones(2, 4)).shape)
    local keys = {}
    for k in pairs(b:state_dict()) do keys[#keys + 1] = k end
    table.sort(keys) eq({ "norm.bias", "norm.weight", "seen", "w" }, keys)
    local list = {}
    for k in b:named_parameters() do list[#list + 1] = k end
    eq({ "norm.weight", "norm.bias", "w" }, list)
    local Net = nn.Module.extend("Net")
    function Net:init()
      self.blocks = nn.ModuleList { Block(4), Block(4) }
      self.plain = { Block(4) }
      self.tied = self.blocks[1]
    end
    list = {}
    for k in Net():named_parameters() do list[#list + 1] = k end
    eq("blocks.1.norm.weight", list[1]) eq("plain.1.norm.weight", list[7]) eq(9, #list)
    net:train() eq(true, net.training) net:eval() eq(false, net[1].training)
    raises("", nn.Linear, 0, 2) raises("forward", nn.Module.extend("E")(), 1)
  end)
  check("state_dict is a snapshot, load and to keep handles", function()
    local net = nn.Linear(2, 2)
    local w = net.weight
    local s = net:state_dict()
    local before = s.weight:totable()
    flame.no_grad(function() w:add_(1) end)
    eq(before, s.weight)
    net:load_state_dict(s) yes(net.weight == w) eq(before, w)
    net:to("f64") yes(net.weight == w) eq("f64", w.dtype) eq(true, w.requires_grad)
    raises("weight", net.load_state_dict, net, { bias = flame.zeros(2) })
    raises("other", net.load_state_dict, net, { weight = s.weight, bias = s.bias, other = s.bias })
    raises("(3)", net.load_state_dict, net, { weight = s.weight, bias = flame.zeros(3) })
    local seq = nn.Sequential { nn.Linear(1, 1) }
    seq:load_state_dict({ ["0.weight"] = T { { 5 } }, ["0.bias"] = T { 6 } }, { zero_based = true })
    eq({ { 5 } }, seq[1].weight)
  end)
  check("the layers of the page", function()
    for _, n in ipairs { "Linear", "Embedding", "LayerNorm", "RMSNorm", "GroupNorm", "BatchNorm1d",
        "BatchNorm2d", "Dropout", "Sequential", "ModuleList", "ReLU", "GELU", "SiLU", "Tanh",
        "Sigmoid", "LeakyReLU", "ELU", "Softmax", "LogSoftmax", "Softplus", "Mish", "Hardtanh",
        "Identity", "Flatten", "CrossEntropyLoss", "MSELoss", "L1Loss", "NLLLoss", "BCELoss",
        "BCEWithLogitsLoss", "HuberLoss", "SmoothL1Loss", "KLDivLoss", "MultiheadAttention",
        "TransformerBlock", "Bilinear" } do
      yes(nn[n], "nn." .. n)
    end
    for _, n in ipairs { "uniform", "normal", "constant", "zeros", "ones", "xavier_uniform",
        "xavier_normal", "kaiming_uniform", "kaiming_normal", "trunc_normal",
        "orthogonal", "eye" } do
      if n ~= "orthogonal" then yes(nn.init[n], "nn.init." .. n) end
    end
    part(function()
      local v = nn.utils.parameters_to_vector(nn.Linear(2, 3):parameters()) eq({ 9 }, v.shape)
      local l = nn.Linear(2, 3)
      nn.utils.vector_to_parameters(flame.arange(9.0), l:parameters())
      eq({ 7, 8, 9 }, l.bias)
      eq(true, l.bias.is_leaf)
    end)
    part(function()
      local bn = nn.BatchNorm1d(3)
      local y = bn(flame.randn(10, 3))
      near({ 0, 0, 0 }, y:mean(1), 1e-5)
      bn:eval()
      eq({ 10, 3 }, bn(flame.randn(10, 3)).shape)
      eq({ 2, 3, 4, 4 }, nn.BatchNorm2d(3)(flame.randn(2, 3, 4, 4)).shape)
      eq({ 2, 8 }, nn.RMSNorm(8)(flame.randn(2, 8)).shape)
      eq({ 2, 4, 3 }, nn.GroupNorm(2, 4)(flame.randn(2, 4, 3)).shape)
      eq({ 2, 5, 8 }, nn.TransformerBlock(8, 2)(flame.randn(2, 5, 8)).shape)
      eq({ 2, 5, 8 }, nn.MultiheadAttention(8, 2)(flame.randn(2, 5, 8)).shape)
      near(0, nn.MSELoss()(T { 1 }, T { 1 }))
      eq({ 4, 2 }, nn.Bilinear(3, 5, 2)(flame.randn(4, 3), flame.randn(4, 5)).shape)
    end)
    local l = nn.Linear(100, 50) yes(l.weight:abs():max():item() <= 0.1) eq({ 50 }, l.bias.shape)
    eq(nil, nn.Linear(2, 2, { bias = false }).bias) eq({ 5, 3 }, nn.Embedding(5, 3).weight.shape)
    local d = nn.Dropout(0.5) d:eval() eq({ 1, 1 }, d(T { 1, 1 }))
  end)
  check("optimisers", function()
    local expected = { SGD = { lr = 0.1 }, Adam = { lr = 0.1 },
      AdamW = { lr = 0.1, weight_decay = 0.01 }, RMSprop = { lr = 0.01 }, Adagrad = { lr = 0.1 },
      Lion = { lr = 0.01 } }
    for name, o in pairs(expected) do
      part(function()
        local w = nn.Parameter(T { 1, 2 })
        local opt = optim[name]({ w }, o)
        local first
        for _ = 1, 20 do
          opt:zero_grad() eq(nil, w.grad)
          local loss = (w * w):sum() loss:backward() opt:step()
          first = first or loss:item()
        end
        yes((w * w):sum():item() < first, name)
        eq("table", type(opt:state_dict()))
        opt.lr = 0.5 eq(0.5, opt.groups[1].lr) opt.groups[1].lr = 0.25 eq(0.25, opt.lr)
        local other = optim[name]({ w }, o) other:load_state_dict(opt:state_dict())
      end)
    end
    local a, b = nn.Parameter(T { 1 }), nn.Parameter(T { 1 })
    local opt = optim.SGD({ { params = { a }, lr = 1 }, { params = { b } } }, { lr = 0.5 })
    ;(a + b):sum():backward() opt:step() eq({ 0 }, a) eq({ 0.5 }, b)
    near(math.sqrt(2), optim.clip_grad_norm({ a, b }, 1))
    near({ 1 / math.sqrt(2) }, a.grad, 1e-4)
    eq(0, optim.clip_grad_norm({ a, b }, 1).ndim)
    optim.clip_grad_value({ a }, 0.1) near({ 0.1 }, a.grad)
    local s = optim.schedule.cosine { opt = opt, warmup = 2, steps = 10, min = 0 }
    for _ = 1, 10 do s:step() end near(0, opt.lr, 1e-6)
    raises("", optim.SGD, {}, {}) raises("no option", optim.SGD, { a }, { lrr = 1 })
  end)
  check("data.batches, text, save and load", function()
    local x, y = flame.arange(10.0), flame.arange(10)
    local n, seen = 0, 0
    for i, xb, yb in data.batches({ x, y }, { size = 4, shuffle = true, prefetch = 2 }) do
      n = n + 1
      eq(n, i)
      eq(xb:totable(), yb:float())
      seen = seen + xb:numel()
    end
    eq(3, n) eq(10, seen)
    local name = os.tmpname()
    local f = io.open(name, "w") f:write("hello") f:close()
    local t = data.text(name)
    eq(5, t.ids:numel())
    eq("hello", t.decode(t.ids))
    eq(t.ids:totable(), t.encode("hello"))
    yes(t.ids:amin():item() >= 1)
    yes(t.vocab)
    os.remove(name)
    for _, k in ipairs { "idx", "npy", "csv", "tokens", "text", "batches" } do
      yes(data[k], "data." .. k)
    end
    local tree = { w = T { { 1, 2 } }, list = { T { 1 }, 5, "s", true },
      deep = { lr = 0.1, n = 3 } }
    for _, ext in ipairs { ".safetensors" } do
      flame.save(name .. ext, tree)
      local back = flame.load(name .. ext)
      eq({ { 1, 2 } }, back.w)
      eq({ 1 }, back.list[1])
      eq(5, back.list[2])
      eq("s", back.list[3])
      eq(true, back.list[4])
      eq(0.1, back.deep.lr)
      eq("integer", math.type(back.deep.n))
      os.remove(name .. ext)
    end
    flame.save(name .. ".npy", T { 1, 2 })
    eq({ 1, 2 }, flame.load(name .. ".npy"))
    os.remove(name .. ".npy")
    flame.save(name .. ".npz", { a = T { 1, 2 } })
    eq({ 1, 2 }, flame.load(name .. ".npz").a)
    os.remove(name .. ".npz")
    f = io.open(name .. ".pt", "wb") f:write("\x80\2}q\0.") f:close()
    raises("torch.load", flame.load, name .. ".pt") os.remove(name .. ".pt") os.remove(name)
  end)
end)

describe("the contract, looking inside:", function()
  check("stats, memory, info, version", function()
    flame.stats("reset")
    local s = flame.stats()
    for k in ("recorded plans hits replays launches compiles bytes_moved copies collections syncs live_tensors live_bytes"):gmatch(
        "%S+") do
      eq("integer", math.type(s[k]))
    end
    eq(0, s.launches)
    local x = (T { 1, 2 } * 2 + 1):relu()
    x:totable()
    eq(eager and 3 or 1, flame.stats().launches)
    raises("stats", flame.stats, "x")
    local m = flame.memory()
    for _, k in ipairs { "allocated", "reserved", "peak", "live_tensors" } do
      eq("integer", math.type(m[k]))
    end
    flame.memory("reset_peak") eq("table", type(flame.memory("cpu")))
    local info = flame.info()
    yes(info:find("0.1.0", 1, true) and info:lower():find(DEVICE, 1, true)
      and info:lower():find("cuda", 1, true) and info:find("memory", 1, true), info)
    eq("string", type(flame.version))
    flame.empty_cache()
    flame.synchronize()
    eq("boolean", type(flame.deterministic()))
    eq(true, flame.deterministic())
    local t = flame.timer() yes(t() >= 0)
    flame.debug(false)
  end)
  check("eval, check_finite, leakcheck, graph, profile", function()
    local x = T { 1 } + 1
    local a, b = flame.eval(x, x * 2) yes(a == x) eq({ 4 }, b) flame.eval()
    part(flame.check_finite, x, T { 2 })
    local m = raises("check_finite", flame.check_finite, x, T { 1, 0 / 0 })
    yes(tostring(m):find("2", 1, true))
    eq(true, flame.leakcheck(function() local y = T { 1 } + 1 y:item() end, 3))
    local kept = {}
    raises("leakcheck", flame.leakcheck, function() kept[#kept + 1] = T { 1 } + 1 end, 3)
    local g = flame.graph((T { 1 } * 2):exp())
    yes((eager or g:find("mul")) and g:find("exp") and g:find("api_training_spec.lua"), g)
    yes(flame.graph(T { 1 }:exp(), "dot"):find("digraph", 1, true))
    yes(flame.graph(T({ 1 }):exp(), { format = "dot" }):find("digraph", 1, true))
    local p, r = flame.profile(function() return (T { 1 } + 1):item() end)
    eq(2, r) eq(1, p.launches) yes(tostring(p):find("launches", 1, true))
  end)
  check("scopes close what was made inside", function()
    local leaked, kept
    local r = flame.scope(function() leaked = T { 1 } local y = leaked + 1 return y end)
    eq({ 2 }, r)
    local line
    do
      line = debug.getinfo(1, "l").currentline + 1
      local s <close> = flame.scope()
      leaked = T { 1 } kept = T { 5 } s:keep(kept)
    end
    eq({ 5 }, kept)
    raises(
      ("closed by the scope of spec/core/api_training_spec.lua:%d: return it or s:keep(it)"):format(line),
      function()
        return leaked + 1
      end)
    raises("closed by the scope", function() return leaked.shape end)
    raises("closed by the scope", function() return leaked:item() end)
    raises("closed by the scope", function() leaked[1] = 2 end)
    part(function() tostring(leaked) end)
    local nn = require "flame.nn"
    local w
    flame.scope(function() w = nn.Parameter(T { 1 }) ; (w * 2):sum():backward() end)
    eq({ 1 }, w) eq({ 2 }, w.grad)
    local opt = require "flame.optim".AdamW({ w }, { lr = 0.1 })
    flame.scope(function() opt:step() end) flame.scope(function() opt:step() end)
    local buf
    flame.scope(function() buf = nn.Buffer(T { 3 }) end) eq({ 3 }, buf)
    local f = flame.func { forward = function(ctx, x)
      ctx:save(x * 1)
      return x * 2
    end, backward = function(ctx, g) return g * ctx:saved() end }
    local v = T({ 3 }, { requires_grad = true })
    local y = flame.scope(function() return f(v) end) y:sum():backward() eq({ 3 }, v.grad)
    local t1 = T { 1 }
    local alias = t1:detach()
    do local c <close> = t1 end
    raises("freed", function() return t1 + 1 end) eq({ 1 }, alias)
    local t2 = T { 1 } local v2 = t2:reshape(1) t2:free() eq({ 1 }, v2)
    local inner = flame.scope(function() return flame.scope(function() return { T { 7 } } end) end)
    eq({ 7 }, inner[1])
  end)
end)

describe("the contract, errors:", function()
  check("text, place, last_error", function()
    local a, b = flame.ones(4, 3), flame.ones(5, 2)
    local line = debug.getinfo(1, "l").currentline + 1
    local _, why = pcall(flame.matmul, a, b)
    eq(("spec/core/api_training_spec.lua:%d: matmul: inner sizes differ, (4, 3) and (5, 2)"):format(line),
      why)
    local e = flame.last_error()
    eq("matmul", e.op)
    eq("string", type(e.code))
    yes(e.message:find("inner sizes differ", 1, true))
    eq("string", type(e.hint))
    local nn = require "flame.nn"
    local l = nn.Linear(3, 2)
    line = debug.getinfo(1, "l").currentline + 1
    _, why = pcall(function() return l(flame.ones(2, 5)) end)
    yes(tostring(why):find("api_training_spec.lua:" .. line .. ": linear", 1, true), tostring(why))
    line = debug.getinfo(1, "l").currentline + 1
    local idx = i64 { 9 }
    local g = a:gather(1, flame.stack({ idx, idx, idx }, 2))
    local read = debug.getinfo(1, "l").currentline - 1
    _, why = pcall(function() return
      g:item() end)
    _, why = pcall(g.totable, g)
    yes(tostring(why):find("api_training_spec.lua:" .. read .. ": gather: ", 1, true)
      and tostring(why):find("(read at spec/core/api_training_spec.lua:" .. (read + 4), 1, true),
      tostring(why))
    eq(4, (T { 2 } * 2)[1]:item())
    for _, f in ipairs { function() return T({ 1 }) + T({ 1, 2 }):reshape(3) end,
        function() return a + b end, function() return a:sum(3) end,
        function() return flame.cat({}) end, function() return a:reshape(5, 5) end,
        function() return flame.tensor("x") end } do
      local ok, m = pcall(f)
      yes(not ok and tostring(m):match("^spec/core/api_training_spec.lua:%d+: [%w_]+: "), tostring(m))
    end
    raises("axis 3", function() return a:sum(3) end)
    raises("x must be a tensor", function() return flame.exp(1) end)
  end)
end)
