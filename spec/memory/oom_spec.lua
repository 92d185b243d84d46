--- Failing allocations (spec/support/oom.lua) in ops that every script uses; oom_families_spec.lua
--- has others. The target of a write must have its old or its new bits.
if require "spec.support.bare"(describe, it, "spec/memory/oom_spec.lua") then return end

local flame = require "flame"
local internal = flame.internal
local oom = dofile("spec/support/oom.lua")
local family, ramp, STRIDE, MOST = oom.families(it, 1), oom.ramp, oom.STRIDE, oom.MOST

describe("a failing allocation #oom", function()
  local file = os.tmpname()
  teardown(function() os.remove(file) end)

  family("constructors", function()
    return flame.zeros(3, 4), flame.full({ 2, 2 }, 7, { dtype = "i64" }), flame.eye(3),
      flame.arange(5.0),
      flame.linspace(0, 1, 5), flame.zeros_like(flame.ones(2)),
      flame.from_bytes(("x"):rep(8), { 2 }, "f32")
  end)
  family("tables to tensors", function()
    return flame.tensor({ { 1, 2, 3 }, { 4, 5, 6 } }), flame.tensor({ true, false }),
      flame.tensor({ { { 1 }, { 2 } } }, { dtype = "i16" }), flame.tensor(3.5)
  end)
  family("elementwise work", function(x, y)
    return (x * 2 + y):exp():tanh() / (y * y + 1), x:lt(y), flame.where(x:gt(0), x, y),
      x:to("f16"):to("f64")
  end, function() return ramp(4, 6), flame.eval(-ramp(4, 6)) end)
  family("reductions", function(x)
    local v, i = x:max(2)
    return x:sum(), x:mean(1), x:var(2), v, i, x:cumsum(1), x:logsumexp(2), x:argmin(1)
  end, function() return ramp(5, 7) end)
  family("the bytes of a PNG", function(x)
    local bytes = internal.io_png_bytes(x)
    return flame.from_bytes(bytes, { #bytes }, "u8")
  end, function() return ramp(4, 6):abs():byte() end)
  family("views", function(x)
    return x:t(), x:reshape(3, 8), x[{ { 2, 3 }, {} }], x:unsqueeze(1):expand(2, 4, 6),
      x:narrow(2, 2, 3),
      x[{ {}, { -1, 1, -2 } }], x:permute(2, 1):reshape(24)
  end, function() return ramp(4, 6) end)
  family("indexing", function(x, i)
    return x[2], x[{ 2, 3 }], x[i], x[x:gt(0)], x:gather(1, flame.ones(1, 6, { dtype = "i64" })),
      x:index_select(1, i),
      x:take(i), x:masked_fill(x:gt(0), 9), x:nonzero(), x:index_add(1, i, flame.ones(3, 6)),
      flame.zeros(4, 6):scatter_add(1, i:reshape(3, 1), flame.ones(3, 1))
  end, function() return ramp(4, 6), flame.tensor({ 1, 4, 2 }, { dtype = "i64" }) end)
  family("writes to fresh tensors", function(x)
    local y = x:clone()
    local old = y:clone()
    y[2] = 5
    y[{ {}, { 2, 3 } }] = x[{ {}, { 1, 2 } }]
    y:mul_(2):add_(x)
    y[x:gt(0.5)] = -1
    y:index_add_(1, flame.tensor({ 1, 1 }, { dtype = "i64" }), flame.ones(2, 6))
    return y, old
  end, function() return ramp(4, 6) end)
  family("matmul", function(x, y)
    return x:matmul(y), x:matmul(y[{ {}, 1 }]), flame.bmm(x:reshape(2, 2, 6), y:reshape(2, 6, 2)),
      flame.einsum("ij,jk->ik", x, y)
  end, function() return ramp(4, 6), ramp(6, 4) end)
  family("cat, stack and pad", function(x, y)
    return flame.cat({ x, y }, 1), flame.stack({ x, y }, 2), x:pad({ 1, 2 }), x:split(2, 1)
  end, function() return ramp(4, 6), ramp(4, 6) end)
  family("softmax, norms and losses", function(x, w, ids)
    return x:softmax(2), x:log_softmax(2), x:layer_norm({ 6 }, w, w), flame.cross_entropy(x, ids),
      flame.embedding(ids, x),
      flame.mse_loss(x, x * 2), flame.one_hot(ids, 6)
  end, function() return ramp(4, 6), ramp(6), flame.tensor({ 1, 2, 4, 3 }, { dtype = "i64" }) end)
  family("random numbers", function()
    return flame.rand(5), flame.randn(3, 3), flame.randint({ 4 }, 1, 9), flame.randperm(6),
      flame.bernoulli(flame.full({ 8 }, 0.5)),
      flame.rand(9):dropout(0.5)
  end)
  family("backward through three layers", function(x)
    flame.seed(3)
    local nn = require "flame.nn"
    local net = nn.Sequential { nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 4), nn.ReLU(),
      nn.Linear(4, 2) }
    local loss = net(x):square():mean()
    local params = net:parameters()
    local g = loss:gradients(params, { retain_graph = true })
    loss:backward()
    local out = { loss }
    for i, p in ipairs(params) do out[i + 1] = p.grad + g[p] end
    return out
  end, function() return ramp(4, 6) end)
  family("an optimiser's step", function(x)
    flame.seed(3)
    local optim = require "flame.optim"
    local net = require "flame.nn".Linear(6, 2)
    local opt = optim.AdamW(net:parameters(), { lr = 0.1 })
    for _ = 1, 2 do
      opt:zero_grad()
      net(x):square():mean():backward()
      optim.clip_grad_norm(net:parameters(), 1.0)
      opt:step()
    end
    return net.weight, net.bias
  end, function() return ramp(4, 6) end)
  family("saving and loading", function(x)
    flame.save(file .. ".safetensors", { a = x, b = { c = x[2], n = 3 } })
    local t = flame.load(file .. ".safetensors")
    os.remove(file .. ".safetensors")
    return t.a, t.b.c, t.b.n
  end, function() return ramp(4, 6) end)
  family("totable, item and print", function(x)
    return x:totable(), x[{ 2, 3 }]:item(), tostring(x), tostring(x:t()), x:summary(), x:bytes()
  end, function() return ramp(4, 6) end)
  family("linear algebra and its neighbours", function(x)
    return x:sort(2), x:topk(2, 2), x:flip(1), x:roll(1, 2), x:tril(), x:diagonal(), x:norm(2, 2),
      flame.outer(x[1], x[2])
  end, function() return ramp(4, 6) end)
  family("scopes and custom functions", function(x)
    local cube = flame.func { name = "cube",
      forward = function(ctx, v) ctx:save(v) return v * v * v end,
      backward = function(ctx, g) return g * 3 * ctx:saved() ^ 2 end }
    local r = flame.scope(function()
      local y = x:clone():requires_grad_(true)
      cube(y):sum():backward()
      return y.grad
    end)
    return r, flame.no_grad(function() return x + 1 end)
  end, function() return ramp(3, 2) end)

  it("leaves a write's target with its old or its new value", function()
    for pass = 1, 2 do
      local k, reached = 1, true
      while reached do
        local x = ramp(4, 6)
        local snapshot = x:clone()
        flame.eval(x, snapshot)
        local old, new = x:bytes(), (x * 3 + 1):bytes()
        internal.forget_plans()
        local calls = internal.fail_alloc(k, pass == 2)
        local ok = pcall(function() flame.eval(x:mul_(3)) end)
        local both = ok and pcall(function() flame.eval(x:add_(1)) end)
        reached = internal.fail_alloc(0) >= calls + k
        local now = x:bytes()
        assert(now == old or now == (snapshot * 3):bytes() or now == new,
          "a mixture, allocation " .. k)
        if both then assert(new == now, "another value, allocation " .. k) end
        assert(old == snapshot:bytes(), "the snapshot changed, allocation " .. k)
        k = k + STRIDE
        assert(k < MOST)
      end
    end
  end)
end)
