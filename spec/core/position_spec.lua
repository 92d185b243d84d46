--- lua/flame/ops/index.lua: functions that read and write by position, such as scatter_reduce,
-- 0-d tensors along an axis, parts and sums by shape. Expected values come from loops.
local raises = require("spec.support.helper").raises
local flame = require "flame"
local T = flame.tensor
local nan = 0 / 0
local function d(list) return T(list, { dtype = "f64" }) end
local function ids(list) return T(list, { dtype = "i64" }) end
local function eq(expected, x) assert.allclose(expected, x) end

describe("scatter_reduce", function()
  local combine = {
    sum = function(a, b) return a + b end, prod = function(a, b) return a * b end,
    amax = function(a, b) return (a ~= a or b ~= b) and nan or math.max(a, b) end,
    amin = function(a, b) return (a ~= a or b ~= b) and nan or math.min(a, b) end,
  }
  --- scatter_reduce of the vector x along its axis, in plain Lua; own: include_self.
  local function loop(x, idx, src, how, own)
    local out, count = table.move(x, 1, #x, 1, {}), {}
    for k, i in ipairs(idx) do
      local fresh = not own and not count[i]
      count[i] = (count[i] or 0) + 1
      if fresh then out[i] = src[k] else out[i] = (combine[how] or combine.sum)(out[i], src[k]) end
    end
    if how == "mean" then
      for i, n in pairs(count) do out[i] = out[i] / (n + (own and 1 or 0)) end
    end
    return out
  end
  it("agrees with a loop for every way and many sources a place", function()
    local x, idx, src = {}, {}, {}
    for i = 1, 5 do x[i] = i - 2.5 end
    for k = 1, 37 do idx[k], src[k] = k * k % 4 + 1, math.sin(k) * 1.5 end
    for _, how in ipairs { "sum", "prod", "mean", "amax", "amin" } do
      for _, own in ipairs { true, false } do
        eq(loop(x, idx, src, how, own),
          d(x):scatter_reduce(1, ids(idx), d(src), how, { include_self = own }))
      end
    end
  end)
  it("of integers, bool and NaN", function()
    local x = T({ 5, 5 }, { dtype = "i8" })
    assert.same({ -128, 5 },
      x:scatter_reduce(1, ids { 1, 1 }, T({ 3, -128 }, { dtype = "i8" }), "amin"):totable())
    assert.same({ false, true },
      T({ true, true }):scatter_reduce(1, ids { 1 }, T { false }, "amin"):totable())
    local y = d({ 1, 2 }):scatter_reduce(1, ids { 1, 1, 2 }, d { 4, nan, 9 }, "amax"):totable()
    assert.is_true(y[1] ~= y[1])
    assert.equal(9, y[2])
  end)
  it("shares the gradient of equal ones, and differentiates products through 0", function()
    local x, src = d({ 3, 1 }):requires_grad_(true), d({ 3, 2, 3 }):requires_grad_(true)
    x:scatter_reduce(1, ids { 1, 1, 1 }, src, "amax"):sum():backward()
    eq({ 1 / 3, 1 }, x.grad)
    eq({ 1 / 3, 0, 1 / 3 }, src.grad)
    local function f(a, s)
      return a:scatter_reduce(2, ids { { 1, 2, 1 }, { 2, 2, 2 } }, s, "prod")
    end
    assert.is_true(flame.gradcheck(f,
      { d { { 1, 2 }, { 3, 4 } }, d { { 0, 2, 3 }, { 0.5, 0, 2 } } }, { order = 2 }))
  end)
  it("writes in place, and raises on a src of another dtype", function()
    local x = d { 1, 2 }
    assert.is_true(rawequal(x, x:scatter_reduce_(1, ids { 2 }, d { 7 }, "amax")))
    eq({ 1, 7 }, x)
    raises("scatter_reduce: src is f32 and x f64", flame.scatter_reduce, x, 1, ids { 1 },
      T { 1 }, "sum")
    raises('scatter_reduce: reduce must be', flame.scatter_reduce, x, 1, ids { 1 }, d { 1 }, "max")
    raises("index 3 at position 1 is out of range", function()
      return x:scatter_reduce(1, ids { 3 }, d { 1 }, "amin"):totable()
    end)
    eq({ 1, 7 }, x)
  end)
  it("index_reduce takes slices", function()
    local x = d { { 1, 2 }, { 3, 4 } }
    eq({ { 5, 2 }, { 3, 4 } }, x:index_reduce(1, ids { 1, 1 }, d { { 5, 0 }, { 2, 1 } }, "amax"))
    eq({ { 10, 0 }, { 3, 4 } }, x:index_reduce(1, ids { 1, 1 }, d { { 5, 0 }, { 2, 1 } }, "prod"))
    eq({ { 3.5, 0.5 }, { 3, 4 } },
      x:index_reduce(1, ids { 1, 1 }, d { { 5, 0 }, { 2, 1 } }, "mean", { include_self = false }))
    raises("index_reduce: source has shape (2), need (1, 2)", flame.index_reduce, x, 1, ids { 1 },
      d { 1, 2 }, "amax")
  end)
end)

describe("scatter and its kin", function()
  it("take a 0-d tensor as a list of one", function()
    local x, at = T(5), ids(1)
    for _, i in ipairs { at, ids { 1 } } do
      assert.equal(5, x:index_select(1, i):item())
      assert.equal(0, x:index_select(1, i).ndim)
    end
    assert.same({}, x:gather(1, at).shape)
    assert.same({ 1 }, x:gather(1, ids { 1 }).shape)
    assert.equal(7, x:scatter(1, at, T(7)):item())
    assert.equal(12, x:scatter_add(1, at, T(7)):item())
    assert.equal(8, x:index_add(1, at, T(3)):item())
    assert.equal(2, x:index_fill(1, at, 2):item())
    assert.same({ 6 }, T({ 5, 6 }):index_select(1, ids(2)):totable())
    assert.same({ 2, 1 }, flame.ones(2, 3):index_select(2, ids(2)).shape)
    local w = T(5):requires_grad_(true)
    w:gather(1, ids { 1, 1, 1 }):sum():backward()
    assert.equal(3, w.grad:item())
  end)
  it("refuse a src of another dtype", function()
    local x, at = flame.zeros(2), ids { 1 }
    raises("scatter: src is f64 and x f32: cast one of them", flame.scatter, x, 1, at, d { 1 })
    raises("scatter_add_: src is f64 and x f32", x.scatter_add_, x, 1, at, d { 1 })
    raises("index_add: src is f64 and x f32", flame.index_add, x, 1, at, d { 1 })
    raises("index_copy: src is i64 and x f32", flame.index_copy, x, 1, at, ids { 1 })
    raises("masked_scatter: src is f64 and x f32", flame.masked_scatter, x,
      T { true, false }, d { 1 })
    raises("masked_fill: value has shape (2), need a number or a 0-d tensor", flame.masked_fill, x,
      T { true, false }, x)
    assert.same({ 0, 0 }, x:totable())
  end)
  it("scatter adds or multiplies when asked to", function()
    eq({ 6, 2 }, d({ 1, 2 }):scatter(1, ids { 1, 1 }, d { 2, 3 }, { reduce = "add" }))
    eq({ 6, 2 }, d({ 1, 2 }):scatter(1, ids { 1, 1 }, d { 2, 3 }, { reduce = "multiply" }))
    eq({ 5, 2 }, d({ 1, 2 }):scatter(1, ids { 1 }, 4, { reduce = "add" }))
    raises('scatter: reduce must be "add" or "multiply", got string \'amax\'', flame.scatter,
      d { 1 }, 1,
      ids { 1 }, d { 2 }, { reduce = "amax" })
  end)
  it("put and index_put write, or add where asked to", function()
    eq({ { 1, 9 }, { 8, 4 } }, d({ { 1, 2 }, { 3, 4 } }):put(ids { 2, -2 }, d { 9, 8 }))
    eq({ { 1, 19 }, { 3, 4 } },
      d({ { 1, 2 }, { 3, 4 } }):put(ids { 2, 2 }, d { 9, 8 }, { accumulate = true }))
    eq({ { 1, 2 }, { 3, 7 } },
      d({ { 1, 2 }, { 3, 4 } }):index_put({ ids { 2 }, ids { 2 } }, d { 7 }))
    local x, v = d({ { 1, 2 }, { 3, 4 } }):requires_grad_(true), d({ 10 }):requires_grad_(true)
    local y = x:index_put({ ids { 2, 2, 1 }, {} }, v, true)
    eq({ { 11, 12 }, { 23, 24 } }, y)
    y:sum():backward()
    eq({ { 1, 1 }, { 1, 1 } }, x.grad)
    eq({ 6 }, v.grad)
    raises("put: 2 positions and 1 values", flame.put, x, ids { 1, 2 }, d { 1 })
  end)
end)

describe("diagonals and parts", function()
  it("diagonal_scatter and fill_diagonal_", function()
    eq({ { 0, 5 }, { 0, 0 } }, flame.zeros(2, 2):diagonal_scatter(T { 5 }, 1))
    eq({ { 2, 0 }, { 0, 2 }, { 0, 0 }, { 2, 0 } }, flame.zeros(4, 2):fill_diagonal_(2, true))
    eq({ { 2, 0 }, { 0, 2 }, { 0, 0 } }, flame.zeros(3, 2):fill_diagonal_(2))
    assert.equal(3, flame.zeros(3, 3, 3):fill_diagonal_(1):sum():item())
    raises("fill_diagonal_: x has shape (2, 2, 3): with more than two axes",
      flame.zeros(2, 2, 3).fill_diagonal_, flame.zeros(2, 2, 3), 1)
    raises("diagonal_scatter: src has shape (3), the diagonal (2)", flame.diagonal_scatter,
      flame.zeros(2, 2), T { 1, 2, 3 })
  end)
  it("argwhere, hsplit, vsplit, dsplit and sum_to_size", function()
    assert.same({ { 2 }, { 3 } }, T({ 0, 1, 2 }):argwhere():totable())
    local a, b = table.unpack(T({ { 1, 2 }, { 3, 4 } }):hsplit(2))
    eq({ { 1 }, { 3 } }, a)
    eq({ { 2 }, { 4 } }, b)
    assert.equal(2, #T({ { 1, 2 }, { 3, 4 } }):vsplit(2))
    assert.equal(3, #flame.zeros(1, 1, 3):dsplit(3))
    raises("hsplit: axis 2 has 2 elements, which 3 does not divide", flame.hsplit,
      flame.zeros(2, 2), 3)
    eq({ { 4, 6 } }, T({ { 1, 2 }, { 3, 4 } }):sum_to_size(1, 2))
    eq({ 4, 6 }, T({ { 1, 2 }, { 3, 4 } }):sum_to_size({ 2 }))
    raises("sum_to_size: shape (2, 2) can not become (3)", flame.sum_to_size, flame.zeros(2, 2), 3)
    raises("sum_to_size: options have names (size), got a key number 1", flame.sum_to_size,
      flame.zeros(2), { 2, dim = 1 })
    raises("sum_to_size: no option 'dim', there is: size", flame.sum_to_size, flame.zeros(2, 2),
      { 2 }, { dim = 1 })
  end)
  it("renorm scales long slices down", function()
    local y = d({ { 3, 4 }, { 0.3, 0.4 } }):renorm(2, 1, 1)
    assert.allclose({ { 0.6, 0.8 }, { 0.3, 0.4 } }, y, { rtol = 1e-6 })
    local x = d { { 3, 4 } }
    assert.is_true(rawequal(x, x:renorm_(2, 1, 10)))
    eq({ { 3, 4 } }, x)
  end)
  it("functions have their in-place forms", function()
    eq({ 1, 3, 6 }, T({ 1, 2, 3 }):cumsum_(1))
    eq({ 1, 2, 6 }, T({ 1, 2, 3 }):cumprod_(1))
    eq({ { 1, 0 }, { 1, 1 } }, flame.ones(2, 2):tril_())
    eq({ { 1, 1 }, { 0, 1 } }, flame.ones(2, 2):triu_())
    eq({ 1, 2, 2 }, T({ 0, 2, 3 }):clip_(1, 2))
    eq({ { 3, 3 }, { 3, 3 } }, flame.ones(2, 2):addmm_(flame.ones(2, 2), flame.ones(2, 2)))
    eq({ 3, 3 }, flame.ones(2):addmv_(flame.ones(2, 2), flame.ones(2)))
    eq({ { 2, 2 }, { 2, 2 } }, flame.ones(2, 2):addr_(flame.ones(2), flame.ones(2)))
    eq({ { 2 } }, flame.ones(1, 1):addbmm_(flame.ones(1, 1, 1), flame.ones(1, 1, 1)))
    eq({ { { 2 } } }, flame.ones(1, 1, 1):baddbmm_(flame.ones(1, 1, 1), flame.ones(1, 1, 1)))
    eq({ 4 }, d({ 2 }):float_power_(2))
    raises("float_power_: the result is f64, x is f32 and keeps its dtype",
      T({ 2 }).float_power_, T { 2 }, 2)
  end)
end)

describe("places of the smallest and largest", function()
  math.randomseed(7)
  local LENGTHS = { 1, 2, 3, 7, 8, 15, 16, 17, 33, 64, 100, 255, 256, 257, 300, 1023, 1025, 3000 }
  --- A random element, so that rows have many ties, zeros of both signs, sometimes a NaN.
  local function element(dtype)
    local k = math.random(100)
    if dtype == "i32" then return math.random(0, 3) end
    return k == 1 and nan or k < 20 and 0.0 or k < 40 and -0.0 or math.random(-2, 2) + 0.0
  end
  local function place(row, better)
    local at = 1
    for j = 2, #row do
      local b, a = row[j], row[at]
      if a == a and (b ~= b or better(b, a)) then at = j end
    end
    return at
  end
  local function same(a, b) return a == b and (a ~= 0 or 1 / a == 1 / b) or a ~= a and b ~= b end
  --- Checks positions of extremes, and that min and amin (max, amax) agree, also in zeros' signs.
  local function check(v, x, least)
    local better = least and function(b, a) return b < a end or function(b, a) return b > a end
    local value, at = x[least and "min" or "max"](x, 2)
    local alone, arg = x[least and "amin" or "amax"](x, 2):totable(),
      x[least and "argmin" or "argmax"](x, 2):totable()
    value, at = value:totable(), at:totable()
    for i, row in ipairs(v) do
      local p = place(row, better)
      assert.same({ p, p }, { at[i], arg[i] })
      assert.is_true((value[i] == row[p] or row[p] ~= row[p]) and same(value[i], alone[i]))
    end
  end
  it("in rows of every length are those of a loop", function()
    for _, dtype in ipairs { "f32", "f64", "bf16", "i32" } do
      for _, n in ipairs(LENGTHS) do
        local v = {}
        for i = 1, n < 300 and 37 or 3 do
          v[i] = {}
          for j = 1, n do v[i][j] = element(dtype) end
        end
        local x = T(v, { dtype = dtype })
        check(v, x, true)
        check(v, x:t():contiguous():t(), false)
      end
    end
  end)
end)
