-- Functions of functions (grad, vjp, jacobian…), checkpoints and gradcheck.
local flame = require "flame"
local helper = require "spec.support.helper"

local function leaf(t, o)
  o = o or {}
  o.requires_grad = true
  return flame.tensor(t, o)
end

describe("functions of functions", function()
  local function d2(t) return flame.tensor(t, { dtype = "f64" }) end
  it("grad and value_and_grad", function()
    assert.same({ 4, 6 },
      flame.grad(function(x) return (x * x):sum() end)(flame.tensor({ 2, 3 })):totable())
    local value, g, extra = flame.value_and_grad(function(p, k)
      return (p.w * k + p.deep.b):sum(), "extra"
    end)(
      { w = flame.tensor({ 1, 2 }), deep = { b = flame.tensor({ 5 }) } }, 3)
    assert.equal(19, value:item())
    assert.same({ 3, 3 }, g.w:totable())
    assert.same({ 2 }, g.deep.b:totable())
    assert.equal("extra", extra)
  end)
  it("stand in each other", function()
    local x, u = d2 { 2, -1 }, d2 { 1.5, 0.5 }
    local function cube(a) return (a ^ 3):sum() end
    local function cubes(a) return a ^ 3 end
    local function same(expected, y) assert.same(expected, y:totable()) end
    local grad = flame.grad
    same({ 12, -6 }, grad(function(a) return select(2, flame.vjp(cubes, a)):sum() end)(x))
    same({ 18, -3 }, grad(function(a) return select(2, flame.jvp(cubes, a, u)):sum() end)(x))
    same({ 13.5, 1.5 },
      grad(function(a) return (select(2, flame.hvp(cube, a, u)) * u):sum() end)(x))
    same({ 12, -6 }, grad(function(a) return flame.jacobian(cubes, a):sum() end)(x))
    same({ 6, 6 }, grad(function(a) return flame.hessian(cube, a):sum() end)(x))
    local function named(p) return cube(p.w) end
    same({ 12, -6 },
      grad(function(a) return select(2, flame.value_and_grad(named)({ w = a })).w:sum() end)(x))
    same({ 24, 6 }, grad(function(a) return flame.value_and_grad(cube)(a) * 2 end)(x))
    same({ 27, -1.5 },
      select(2, flame.jvp(function(a) return select(2, flame.jvp(cubes, a, u)) end, x, u)))
    local function fourth(a) return (a ^ 4):sum() end
    same({ { 24, 0 }, { 0, 24 } },
      flame.hessian(function(a) return flame.hessian(fourth, a):sum() end, x))
    same({ 48, -6 }, grad(function(a) return select(2, flame.vjp(cubes, x, a * a)):sum() end)(x))
    local _, g = flame.value_and_grad(cube)(d2({ 2 }):requires_grad_(true))
    -- without create_graph the gradient has no graph
    assert.is_false(g.requires_grad)
    assert.is_false(flame.vjp(cubes, x).requires_grad)
    grad(function(a)
      flame.no_grad(function() assert.is_false(select(2, flame.vjp(cubes, a)).requires_grad) end)
      return cube(a)
    end)(x)
    pcall(grad(function() error("left") end), x)
    assert.is_false(select(2, flame.vjp(cubes, x)).requires_grad)
  end)
  it("differentiate by their own argument alone", function()
    local x = d2 { 2, -1 }
    local function twice(inner)
      return flame.grad(function(a) return (inner(a) * d2 { 1, 10 }):sum() end)(x):totable()
    end
    assert.same({ 1, 10 },
      twice(function(a) return flame.grad(function(b) return (a * b):sum() end)(a) end))
    assert.same({ 1, 10 },
      twice(function(a) return select(2, flame.vjp(function(b) return a * b end, a)) end))
    assert.same({ 1, 10 },
      twice(function(a)
        return select(2, flame.value_and_grad(function(b) return (a * b):sum() end)(a))
      end))
    local w = d2({ 2, -1 }):requires_grad_(true)         -- a leaf: grad passes w itself to f
    assert.same({ 4, -2 }, flame.grad(function() return (w * w):sum() end)(w):totable())
    assert.same({ 4, -2 },
      select(2, flame.value_and_grad(function() return (w * w):sum() end)({ w }))[1]:totable())
    assert.same({ 1, 10 }, (function()
      return flame.grad(function(a)
        return (flame.grad(function(b) return (a * b):sum() end)(a) * d2 { 1, 10 }):sum()
      end)(w):totable()
    end)())
  end)
  it("vjp, jvp, jacobian and hessian", function()
    local x = flame.tensor({ 1, 2 })
    local f = function(v) return v * v end
    local _, g = flame.vjp(f, x, flame.tensor({ 1, 10 }))
    assert.same({ 2, 40 }, g:totable())
    local _, t = flame.jvp(f, x, flame.tensor({ 1, 10 }))
    assert.same({ 2, 40 }, t:totable())
    assert.same({ { 2, 0 }, { 0, 4 } }, flame.jacobian(f, x):totable())
    assert.same({ { 6, 0 }, { 0, 12 } },
      flame.hessian(function(v) return (v ^ 3):sum() end, x):totable())
  end)
  it("func defines a function with its own gradient", function()
    local square = flame.func({
      name = "square",
      forward = function(ctx, x) ctx:save(x) return x * x end,
      backward = function(ctx, g) return g * ctx:saved() * 20 end,
    })
    local x = leaf({ 3 })
    local y = square(x)
    assert.equal(9, y:item())
    y:sum():backward()
    assert.same({ 60 }, x.grad:totable())
    assert.is_false(square(flame.ones(1)).requires_grad)
    local named = flame.func({
      forward = function(ctx, v) ctx:save_for_backward(v) return v * v end,
      backward = function(ctx, g) return g * ctx:saved_tensors() * 2 end,
    })
    x.grad = nil
    named(x):sum():backward()
    assert.same({ 6 }, x.grad:totable())
  end)
  it("func passes several results, and the original error of its backward", function()
    local both = flame.func({
      forward = function(_, x, y) return x + y, x - y end,
      backward = function(_, a, b) return a + b, a - b end,
    })
    local x, y = leaf({ 1 }), leaf({ 2 })
    local p, q = both(x, y)
    local z = (p * 3 + q * 5):sum()
    z:backward()
    assert.same({ 8 }, x.grad:totable())
    assert.same({ -2 }, y.grad:totable())
    local mark = {}
    local bad =
      flame.func({ forward = function(_, v) return v * 1 end,
        backward = function() error(mark) end })
    local ok, e = pcall(function() bad(x):sum():backward() end)
    assert.is_false(ok)
    assert.equal(mark, e)
    assert.equal(4, (flame.ones(1) * 4):item())
  end)
  it("hooks see and change the gradient", function()
    local x = leaf({ 3 })
    local y = x * 2
    local seen
    local hook = y:register_hook(function(g) seen = g:item() return g * 10 end)
    local z = (y * 1):sum()
    z:backward()
    assert.equal(1, seen)
    assert.same({ 20 }, x.grad:totable())
    hook:remove()
    assert.has_error(function() flame.ones(1):register_hook(print) end)
  end)
  it("checkpoint gives the same gradient", function()
    local x = leaf({ 0.5, 1 })
    flame.checkpoint(function(v) return (v:tanh() * v):sum() end, x):backward()
    local y = leaf({ 0.5, 1 })
    local z = (y:tanh() * y):sum()
    z:backward()
    assert.allclose(y.grad, x.grad)
  end)
end)

describe("checkpoint", function()
  local nn = require "flame.nn"
  --- Gradients by x and 'others' of a loss of call(f, x), and a random draw made after them.
  local function gradients(call, f, make, others)
    flame.seed(11)
    local x = make()
    local loss = (call(f, x) * x):sum()
    flame.eval(loss)
    local all = { x, table.unpack(others or {}) }
    local g, out = loss:gradients(all), {}
    for i, t in ipairs(all) do out[i] = g[t]:totable() end
    out[#out + 1] = flame.rand(2):totable()
    return out
  end
  local function same(f, make, others)
    local function plain(h, ...) return h(...) end
    assert.same(gradients(plain, f, make, others), gradients(flame.checkpoint, f, make, others))
  end
  local function row() return leaf({ 1, 2, 3, 4, 5, 6, 7, 8 }) end
  it("and flame.func have the gradient of each of many results", function()
    for _, n in ipairs { 128, 129, 257, 300 } do
      local function many(v)
        local list = {}
        for i = 1, n do list[i] = v * i end
        return table.unpack(list)
      end
      local own = flame.func {
        forward = function(_, v) return many(v) end,
        backward = function(_, ...)
          local sum = 0
          for i = 1, n do sum = sum + (select(i, ...)) * i end
          return sum
        end,
      }
      for _, f in ipairs { own, function(v) return flame.checkpoint(many, v) end } do
        local x = flame.ones(2, { dtype = "f64", requires_grad = true })
        local list = { f(x) }
        ;(list[n] * 3 + list[n - 1] + list[1]):sum():backward()
        assert.same({ 4 * n, 4 * n }, x.grad:totable())
      end
    end
  end)

  it("and flame.func say how many tensors their results may depend on", function()
    local list = {}
    for i = 1, 256 do list[i] = flame.ones(1, { requires_grad = true }) end
    local function sum(...)
      local s = 0
      for _, v in ipairs { ... } do s = s + v end
      return s
    end
    local first = function(_, ...) return sum(...) end
    local f = flame.func { forward = first, backward = function(_, g) return g end }
    assert.error_matches(function() f(table.unpack(list)) end,
      "func: the results depend on 256 tensors, at most 255: join some of them, as by flame.cat")
    local function whole() return sum(table.unpack(list)) end
    assert.error_matches(function() flame.checkpoint(whole) end,
      "checkpoint: the results depend on 256 tensors, at most 255: checkpoint parts of f")
    list[256] = nil
    flame.checkpoint(sum, table.unpack(list)):backward()
    assert.equal(1, list[255].grad:item())
  end)

  it("computes again with the random numbers of the first time, and leaves the generator alone", function()
    same(function(x) return x:dropout(0.5) * x end, row)
    same(function(x) return x * flame.rand(8) end, row)
  end)
  it("gives parameters and tensors that f closes over their gradients, and writes none of them", function()
    local net = nn.Sequential { nn.Linear(8, 4), nn.Tanh(), nn.Linear(4, 8) }
    same(function(x) return net(x) end, row, net:parameters())
    same(net, row, net:parameters())
    assert.is_nil(net[1].weight.grad)
    local x = row()
    local h = x * 2                                 -- f closes over h, which depends on x
    flame.checkpoint(function(v) return (v * h):sum() end, x):backward()
    assert.same({ 4, 8, 12, 16, 20, 24, 28, 32 }, x.grad:totable())
    flame.checkpoint(net, flame.ones(8)):sum():backward()      -- no argument is tracked
    assert.truthy(net[1].weight.grad)
  end)
  it("keeps the values of its arguments at the time of the call", function()
    local x, k = row(), flame.full({ 8 }, 3)
    local h = x * 1
    local y = flame.checkpoint(function(v, w) return v * v * w end, h, k):sum()
    k:zero_()
    h:zero_()
    y:backward()
    assert.same({ 6, 12, 18, 24, 30, 36, 42, 48 }, x.grad:totable())
  end)
  it("can be nested, differentiated twice, and give several results and plain values", function()
    local function inner(v) return flame.checkpoint(function(u) return u:sin() * u end, v) end
    same(function(v) return flame.checkpoint(function(u) return inner(u * 2) + inner(u) end, v) end,
      row)
    local x = leaf({ 2 })
    local g = flame.checkpoint(function(v) return v ^ 3 end, x):sum():gradients({ x },
      { create_graph = true })[x]
    assert.same({ 12 }, g:sum():gradients({ x })[x]:totable())
    local a, b, word, n =
      flame.checkpoint(function(v, k) return v * k, v + 1, "word", flame.tensor(1) end, x, 3)
    assert.same({ "word", false }, { word, n.requires_grad })
    local z = (a * b):sum()
    z:backward()
    assert.same({ 15 }, x.grad:totable())
  end)
  it("keeps nothing of what is inside, and outlives the scope it was called in", function()
    local x, y = flame.rand(1000, { requires_grad = true }), nil
    flame.eval(x)
    local before = flame.stats().live_bytes
    do
      local s <close> = flame.scope()
      y = s:keep(flame.checkpoint(function(v) return v:sin():exp():tanh():sin():exp() end, x * 1))
      flame.eval(y)
    end
    assert.is_true(flame.stats().live_bytes - before <= 8000)
    y:sum():backward()
    assert.truthy(x.grad)
  end)
  it("refuses what can not be called", function()
    assert.has_error(function() flame.checkpoint(5) end)
  end)
end)

describe("gradcheck", function()
  local function d(...) return flame.randn({ ... }, { dtype = "f64" }) end
  it("accepts right gradients, of first and second order", function()
    flame.seed(5)
    assert.is_true(flame.gradcheck(function(x, y) return (x * y):tanh() end, { d(3), d(3) },
      { order = 2 }))
    assert.is_true(flame.gradcheck(function(x, w, b) return x:layer_norm({ 4 }, w, b) end,
      { d(2, 4), d(4), d(4) }, { order = 2 }))
    assert.is_true(flame.gradcheck(function(x, w, b) return x:group_norm(2, w, b) end,
      { d(2, 4, 3), d(4), d(4) }, { order = 2 }))
    assert.is_true(flame.gradcheck(function(x, w, b)
      return x:batch_norm(nil, nil, w, b, { training = true })
    end,
      { d(3, 2, 2), d(2), d(2) }, { order = 2 }))
    assert.is_true(flame.gradcheck(function(x, w) return x:matmul(w):log_softmax(2) end,
      { d(2, 3), d(3, 2) }))
    assert.is_true(flame.gradcheck(function(x) return x:max(2) end, { d(2, 3) }))
  end)
  it("a large group_norm, whose sums are by channel first, has the gradients that its parts have", function()
    local o = { dtype = "f64", requires_grad = true }
    local x, w, b = flame.randn({ 2, 6, 8192 }, o), flame.randn({ 6 }, o), flame.randn({ 6 }, o)
    local seed, back = flame.randn({ 2, 6, 8192 }, { dtype = "f64" }),
      flame.randn({ 2, 6, 8192 }, { dtype = "f64" })
    local function by_parts(t)
      local r = t:reshape(2, 3, 2 * 8192)
      local c = r - r:mean(3, true)
      return (c / (c:square():mean(3, true) + 1e-5):sqrt()):reshape(2, 6, 8192) * w:reshape(6,
        1) + b:reshape(6, 1)
    end
    local function gradients(y)
      local first = y:gradients({ x, w, b }, { seed = seed, create_graph = true })
      local second = (first[x] * back):sum():gradients { x, w }
      return { first[x], first[w], first[b], second[x], second[w] }
    end
    local got, expected = gradients(x:group_norm(3, w, b)), gradients(by_parts(x))
    for i = 1, 5 do
      assert.is_true((got[i] - expected[i]):abs():max()
        :item() < 1e-9 * (1 + expected[i]:abs():max():item()), "gradient " .. i)
    end
  end)
  it("covers views, joins and indexing", function()
    flame.seed(6)
    local at = flame.tensor({ 2, 1, 2 }, { dtype = "i64" })
    assert.is_true(flame.gradcheck(function(x)
      return x[{ { 2, 3 }, { -1, 1, -1 } }]:t():reshape(-1)
    end,
      { d(3, 4) }))
    assert.is_true(flame.gradcheck(function(x, y) return flame.cat({ x, y }, 2):pad({ 1, 1 }) end,
      { d(2,
      2), d(2, 3) }))
    assert.is_true(flame.gradcheck(function(x) return x[at] * x:index_select(1, at) end,
      { d(2, 2) }))
    assert.is_true(flame.gradcheck(function(x, s) return x:index_add(1, at, s) end,
      { d(2, 2), d(3, 2) }))
    assert.is_true(flame.gradcheck(function(x) return x:cumsum(1):sort(1) end, { d(5) }))
  end)
  it("of softmax has a second order where nothing holds the result any more", function()
    flame.seed(9)
    local x = flame.randn({ 3, 4 }, { dtype = "f64", requires_grad = true })
    local c = flame.randn({ 12 }, { dtype = "f64" })
    local reads = { function(y) return y:reshape(12) end, function(y) return (y * 2):flatten() end,
      function(y) return y:t():flatten() end }
    for _, read in ipairs(reads) do
      for _, f in ipairs { function(a) return a:softmax(2) end,
          function(a) return a:exp():softmin(1) end } do
        assert.is_true(flame.gradcheck(function(a) return (read(f(a)) * c):sum() end, { x },
          { order = 2 }))
        local z = read(f(x))
        collectgarbage() collectgarbage()
        flame.eval(z)                                  -- only z is held: softmax's result is freed
        local g = (z * c):sum():gradients({ x }, { create_graph = true })[x]
        local kept = f(x)
        local h = (read(kept) * c):sum():gradients({ x }, { create_graph = true })[x]
        assert.same(h:square():sum():gradients({ x })[x]:totable(),
          g:square():sum():gradients({ x })[x]:totable())
      end
    end
    local one = flame.tensor(-2.5, { requires_grad = true })
    assert.equal(0, flame.hessian(function(a) return a:softmin(1) * 3 end, one):item())
  end)
  it("of softmax and the norms, which have their own rules, agrees with the formula to the third order", function()
    flame.seed(8)
    local function plain(x, axes)
      local c = x - x:mean(axes, { keepdim = true })
      return c * (c:square():mean(axes, { keepdim = true }) + 1e-5):rsqrt()
    end
    local x, w = d(3, 4, 2), d(3, 4, 2)
    local function third(f)
      local a = x:clone():requires_grad_(true)
      local y = f(a)
      for _ = 1, 3 do y = (y * w):sum():gradients({ a }, { create_graph = true })[a] end
      return y
    end
    local function shares(a)
      local e = (a - a:amax(2, { keepdim = true }):detach()):exp()
      return e / e:sum(2, { keepdim = true })
    end
    for name, pair in pairs {
      softmax = { function(a) return a:softmax(2) end, shares },
      layer_norm = { function(a) return a:layer_norm({ 4, 2 }) end, { 2, 3 } },
      batch_norm = { function(a) return a:batch_norm(nil, nil, nil, nil, { training = true }) end,
        { 1, 3 } },
      instance_norm = { function(a) return a:instance_norm() end, { 3 } },
      group_norm = { function(a) return a:group_norm(1) end, { 2, 3 } },
    } do
      local own, formula = third(pair[1]),
        third(type(pair[2]) == "table" and function(a) return plain(a, pair[2]) end or pair[2])
      local most = formula:abs():amax():item()
      assert.is_true(most > 0.1 and (own - formula):abs():amax():item() < 1e-9 * most, name)
    end
  end)
  it("raises with the worst entry of a wrong gradient", function()
    local wrong = flame.func({ forward = function(_, x) return x * 2 end, backward = function(_,
      g) return g * 3 end })
    assert.matches("gradcheck: input 1 at %(1%): analytic 3, numeric [12]%.?%d*$",
      helper.message(flame.gradcheck, wrong, { flame.ones({ 1 }, { dtype = "f64" }) }))
  end)
end)

describe("vmap of tables", function()
  local nn = require "flame.nn"
  local function both(x) return { x.weight, x.bias } end
  local function loss(params, x, y)
    return (flame.linear(x, params.weight, params.bias) - y):square():sum()
  end
  it("gives each example's gradients by the names of the parameters", function()
    local net = nn.Linear(3, 2)
    local params = { weight = net.weight:detach(), bias = net.bias:detach() }
    local x, y = flame.randn(4, 3), flame.randn(4, 2)
    local g, more = flame.vmap(function(p, ...)
      return flame.grad(loss)(p, ...), { { sum = p.weight:sum() } }
    end, { false, 1, 1 })(params, x, y)
    assert.same({ { 4, 2, 3 }, { 4, 2 }, { 4 } },
      { g.weight.shape, g.bias.shape, more[1].sum.shape })
    for i = 1, 4 do
      local one = flame.grad(loss)(params, x[i], y[i])
      assert.is_true(flame.equal(one.weight, g.weight[i]) and flame.equal(one.bias, g.bias[i]))
    end
  end)
  it("takes a table's tensors apart along the axis that is named for it", function()
    local many = { weight = flame.randn(2, 5, 3), bias = flame.randn(2, 5), name = "five" }
    local x = flame.randn(3)
    local y = flame.vmap(function(p) return flame.linear(x, p.weight, p.bias) end, { 2 })
    assert.same({ 5, 2 }, y { weight = many.weight, bias = many.bias, name = "five" }.shape)
    for i, row in pairs(y(many)) do
      assert.allclose(flame.linear(x, many.weight[{ {}, i }], many.bias[{ {}, i }]), row)
    end
    local shared = flame.vmap(function(p, v) return both(p)[1] * v end, { false, 1 })
    assert.same({ 4, 2, 5, 3 }, shared(many, flame.ones(4)).shape)
  end)
  it("says which entry differs between examples", function()
    local function of(f) return flame.vmap(f)(flame.arange(2.0)) end
    helper.raises("vmap: result 1.a of example 2 is a nil, need a tensor or a table",
      of, function(x) return x:item() < 2 and { a = x } or { b = x } end)
    helper.raises("vmap: result 1.a.1 of example 1 is a number, need a tensor or a table",
      of, function() return { a = { 3 } } end)
    helper.raises("vmap: result 2 of example 2 is a tensor, need a tensor or a table of them in each",
      of, function(x) return x, x:item() < 2 and { x } or x end)
    helper.raises("examples, those before it", function()
      flame.vmap(function(p) return p.a end, 1) { a = flame.ones(2), b = flame.ones(3) }
    end)
    helper.raises("no argument is a tensor with a batch, nor a table with an axis: give axes",
      function() flame.vmap(both) { weight = flame.ones(2), bias = flame.ones(2) } end)
  end)
end)
