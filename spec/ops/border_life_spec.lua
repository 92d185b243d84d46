-- Wrong uses of values over their life: closed and failed values, values of scopes that end, and
-- callbacks that free tensors, fail, recurse or yield. Each must raise a clean error that names the
-- line, and the session must stay usable.
local flame = require "flame"
require "spec.support.helper"
local border = require "spec.support.border"

local error_of, survives = border.error_of, border.survives

describe("a closed tensor", function()
  it("raises at every use and says where it was freed", function()
    local x = flame.ones(2, 2)
    x:free()
    local y = flame.ones(2, 2)
    for _, f in ipairs({
      function() return x + 1 end, function() return y + x end, function() return x[1] end,
      function() x[1] = 2 end,
      function() y[1] = x end, function() return y[x] end, function() return x:sum() end,
      function() return x.shape end,
      function() return x.grad end, function() return x.dtype end, function() return #x end,
      function() return x:item() end,
      function() return x:totable() end, function() x:backward() end,
      function() return flame.cat({ y, x }, 1) end,
      function() return x:clone() end, function() x.requires_grad = true end,
      function() x.grad = y end, function() y.grad = x end,
      function() return x:bytes() end, function() x:zero_() end, function() return y:copy_(x) end,
      function() flame.eval(x) end,
      function() return x:to("f64") end, function() return flame.equal(x, y) end,
      function() return x(1) end,
      function() return flame.where(x, y, y) end, function() return x:register_hook(print) end,
      function() return x:detach() end,
    }) do
      local e = error_of(f)
      assert.matches("freed at ", e)
    end
    x:free()                                  -- a second time is fine
    assert.equal("string", type(tostring(x)))
    assert.is_false(x == y)
    assert.equal(4, y:sum():item())
  end)
  it("may be freed while others share its value, its history or its gradient", function()
    local x = flame.ones(3):requires_grad_(true)
    local y = x * 2
    local v = y[{ { 1, 2 } }]
    local g
    y:register_hook(function(d) g = d end)
    y:free()
    local loss = (v * v):sum()
    v:free()
    loss:backward()
    assert.same({ 8, 8, 0 }, x.grad:totable())
    local grad = x.grad
    x:free()
    assert.same({ 8, 8, 0 }, grad:totable())
  end)
end)

describe("a flame.func whose backward ends by an error", function()
  it("has nothing saved any more, and what it was given for that call is refused", function()
    local context, again, failing
    local f = flame.func {
      name = "f",
      forward = function(ctx, v)
        local y = v:exp()
        ctx:save(y)
        return y
      end,
      backward = function(ctx, g)
        context = ctx
        again = ctx._again
        if failing then error("no", 0) end
        return g * ctx:saved()
      end,
    }
    local x = flame.tensor({ 1, 2 }, { requires_grad = true })
    for k = 1, 2 do
      failing = k == 1
      local loss = f(x):sum()
      local ok, e = pcall(loss.backward, loss, nil, { create_graph = true })
      assert.equal(k == 2, ok, e)
      assert.matches("func: ctx:saved%(%) is there in forward and while backward runs",
        error_of(function() return context:saved() end))
      assert.matches("this backward has ended",
        error_of(function() return again(1, flame.ones(2)) end))
    end
    assert.is_true(flame.allclose(x.grad, x:exp()))
  end)
end)

describe("scopes and guards", function()
  it("closed twice, out of order or from elsewhere do no harm", function()
    local a = flame.scope()
    local t = flame.ones(2)
    local b = flame.scope()
    local u = flame.ones(3)
    a:close()
    a:close()
    b:close()
    error_of(function() return t + 1 end)
    error_of(function() return u + 1 end)
    error_of(function() a:keep(t) end)
    for _, v in ipairs({ io.stdout, "x", {}, flame.ones(1), 1 }) do
      pcall(a.close, v)
      pcall(a.keep, v, v)
    end
    do
      local g <close> = flame.no_grad()
      local close = debug.getmetatable(g).__close
      for _, v in ipairs({ io.stdout, "x", {}, flame.ones(1), a, 1 }) do
        pcall(close, v)
        assert.is_false(flame.ones(1):requires_grad_(true):exp().requires_grad)
      end
      close(g)
      close(g)
    end
    assert.is_true(flame.ones(1):requires_grad_(true):exp().requires_grad)
    collectgarbage()
    collectgarbage()
    assert.equal(6, (flame.ones(3) * 2):sum():item())
  end)

  it("keeps what is returned or named however deep it lies in tables", function()
    local function chain()
      local head
      for i = 1, 1000 do
        head = { value = flame.full({ 1 }, i), [head or "end"] = true }
        head.self = head
      end
      return head
    end
    local function sum(t)
      local s = t.value:item()
      for k in pairs(t) do if type(k) == "table" then return s + sum(k) end end
      return s
    end
    assert.equal(500500, sum(flame.scope(chain)))
    local s = flame.scope()
    local list = chain()
    s:keep(list)
    s:close()
    assert.equal(500500, sum(list))
  end)
  it("keep what is nested deeply and what is nested in itself", function()
    local deep = { flame.ones(1) }
    for _ = 1, 500 do deep = { deep } end
    local loop = { flame.ones(2) }
    loop.self = loop
    local r = flame.scope(function() local t = { flame.ones(3) } t.t = t return t end)
    assert.equal(3, r[1]:sum():item())
    pcall(flame.scope, function() return deep end)
    assert.equal(2, loop[1]:sum():item())
  end)
end)

describe("a failed value", function()
  local function failed()
    local i = flame.tensor({ 9 }, { dtype = "i64" })
    local x = flame.arange(3.0)[i]
    pcall(x.totable, x)
    return x
  end
  it("raises the first cause at every use", function()
    local x = failed()
    for _, f in ipairs({
      function() return x:totable() end, function() return (x + 1):totable() end,
      function() return x:sum():item() end,
      function() return tostring(x) end, function() return x:bytes() end,
      function() flame.eval(x) end,
      function()
        local y = x:clone()
        y[1] = 3
        return y:totable()
      end, function() return flame.cat({ x, x }, 1):totable() end,
    }) do
      assert.matches("index 9", error_of(f))
    end
    survives()
  end)
  it("can be written over, or a target that was to get it keeps its value", function()
    local x = failed()
    local y = flame.ones(1)
    pcall(function() y:copy_(x) flame.eval(y) end)
    assert.is_true(pcall(y.totable, y) or true)
    y = flame.ones(3)
    flame.eval(y)
    local bad = flame.arange(3.0)[flame.tensor({ 1, 2, 8 }, { dtype = "i64" })]
    pcall(function() y:add_(bad) flame.eval(y) end)
    survives()
  end)
end)

describe("callbacks", function()
  it("of backward may free, fail, recurse and return nonsense", function()
    local function net(hook)
      local x = flame.ones(3):requires_grad_(true)
      local y = x * 2
      y:register_hook(hook)
      return x, (y * y):sum(), y
    end
    local x, loss, y = net(function(g) g:free() end)
    pcall(loss.backward, loss)
    x, loss = net(function() error({ 1 }) end)
    local ok, e = pcall(loss.backward, loss)
    assert.is_false(ok)
    -- the error is the table that was raised, not a text made of it
    assert.same({ 1 }, e)
    x, loss = net(function() return "no tensor" end)
    assert.matches("hook", error_of(loss.backward, loss))
    x, loss = net(function() return flame.ones(7) end)
    pcall(loss.backward, loss)
    x, loss, y = net(function() x:free() loss:free() y:free() collectgarbage() end)
    pcall(loss.backward, loss)
    x, loss = net(function(g)
      flame.enable_grad(function() (flame.ones(2):requires_grad_(true) * 3):sum():backward() end)
      return g * 2
    end)
    loss:backward()
    assert.same({ 16, 16, 16 }, x.grad:totable())
    x, loss = net(function() loss:backward() end)
    pcall(loss.backward, loss)
    survives()
  end)
  it("of a custom function may do the same", function()
    for _, backward in ipairs({
      function() end, function() return 1 end, function() return flame.ones(9) end,
      function() error("x") end,
      function(ctx, g)
        g:free()
        return ctx:saved()
      end, function(ctx) return ctx:saved(), ctx:saved() end,
      function(_, g) coroutine.yield(g) end,
    }) do
      local f = flame.func { name = "f", forward = function(ctx, v)
        ctx:save(v)
        return v * 2
      end, backward = backward }
      local x = flame.ones(3):requires_grad_(true)
      local y = f(x):sum()
      pcall(y.backward, y)
    end
    survives()
  end)
  it("that yield raise instead of hanging", function()
    local co = coroutine.wrap(function()
      return pcall(function()
        local x = flame.ones(1):requires_grad_(true)
        x:register_hook(function() coroutine.yield(1) end)
        x:sum():backward()
      end)
    end)
    local ok, e = co()
    assert.is_false(ok)
    assert.matches("yield", tostring(e))
  end)
end)
