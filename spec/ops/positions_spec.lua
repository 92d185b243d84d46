-- Scans, sets, counts and searches: functions other than sort that return positions or counts.
local flame = require "flame"

local DTYPES = { "f64", "f32", "f16", "bf16", "i64", "i32", "i16", "i8", "u8", "bool" }
local NAN, INF = 0 / 0, math.huge

local fails = require("spec.support.helper").says
local function T(v, dtype) return flame.tensor(v, { dtype = dtype or "f32" }) end
local function ids(v) return T(v, "i64") end
local function d(...) return flame.randn({ ... }, { dtype = "f64" }) end

local rough = dofile "spec/support/rough.lua"

local function number(v) if type(v) == "boolean" then return v and 1 or 0 end return v end

describe("scans", function()
  local function plain(x, f, start)
    local out, run = {}, start
    for i, v in ipairs(x) do
      run = f(run, number(v), i)
      out[i] = run
    end
    return out
  end

  it("sum and multiply as a loop does, in i64 for integers", function()
    for _, dtype in ipairs(DTYPES) do
      for _, n in ipairs { 1, 5, 64, 1000 } do
        local x = dtype == "bool" and flame.randint({ n }, 0, 1):bool()
          or flame.randint({ n }, dtype == "u8" and 0 or -1, 2):to(dtype)
        local sums = x:cumsum(1)
        local exact = n <= 64 or dtype ~= "f16" and dtype ~= "bf16"        -- their sums are rounded
        local want = plain(x:totable(), function(a, b) return a + b end,
          x:is_floating_point() and 0.0 or 0)
        if exact then
          assert.same(want, sums:totable())
        else
          assert.allclose(want, sums, { rtol = 0.01 })
        end
        assert.equal(x:is_floating_point() and dtype or "i64", sums.dtype)
        if n < 10 or not x:is_floating_point() then
          assert.same(plain(x:totable(), function(a, b) return a * b end,
            x:is_floating_point() and 1.0 or 1), x:cumprod(1):totable())
        end
      end
    end
    assert.same({ math.maxinteger, math.mininteger },
      ids({ math.maxinteger, 1 }):cumsum(1):totable())
    assert.equal("f64", T({ 1, 2 }):cumsum(1, { dtype = "f64" }).dtype)
    assert.same({ 200, 144 }, T({ 200, 200 }, "u8"):cumsum(1, { dtype = "u8" }):totable())
  end)

  it("take every axis and length", function()
    for _, shape in ipairs { { 3, 4, 5 }, { 2, 3000 }, { 3000, 2 }, { 1, 70000 }, { 70, 70 },
        { 1, 5000, 3 } } do
      local x = flame.randint(shape, -9, 9):double()
      for axis = 1, #shape do
        local y = x:cumsum(axis)
        local n = shape[axis]
        assert.is_true(flame.equal(y:narrow(axis, 1, 1), x:narrow(axis, 1, 1)))
        assert.is_true(flame.equal(y:narrow(axis, 2, n - 1) - y:narrow(axis, 1, n - 1),
          x:narrow(axis, 2, n - 1)))
        assert.is_true(flame.equal(y:narrow(axis, n, 1), x:sum(axis, { keepdim = true })))
        local v, i = x:cummax(axis)
        assert.is_true(flame.equal(v, x:gather(axis, i)))
        assert.is_true(v:narrow(axis, 2, n - 1):ge(v:narrow(axis, 1, n - 1)):all():item())
        assert.is_true(v:ge(x):all():item())
        assert.is_true(flame.equal(v:narrow(axis, n, 1), x:amax(axis, { keepdim = true })))
        assert.is_true(flame.equal(i:narrow(axis, n, 1), x:argmax(axis, { keepdim = true })))
      end
    end
  end)

  it("of nothing have gradients without elements", function()
    for _, name in ipairs { "cumsum", "cumprod", "logcumsumexp", "cummax", "cummin" } do
      for _, shape in ipairs { { 0 }, { 0, 3 }, { 2, 0 } } do
        local x = flame.zeros(shape):requires_grad_(true)
        local y = x[name](x, 1)
        assert.same(shape, y:gradients({ x }, { seed = flame.zeros(shape) })[x].shape)
      end
    end
  end)

  it("are exact sums of long rows of floats to the last bits", function()
    for _, n in ipairs { 1000, 40000, 300000 } do
      local x = flame.rand(n)
      local want = x:double():cumsum(1)
      assert.is_true(((x:cumsum(1):double() - want):abs() / want):amax():item() <= 2 ^ -23)
    end
  end)

  it("keep NaN and infinities where they belong", function()
    local x = T { 1, INF, 2, -INF, 3 }
    assert.same({ 1, INF, INF }, x:cumsum(1):narrow(1, 1, 3):totable())
    assert.is_true(x:cumsum(1):narrow(1, 4, 2):isnan():all():item())
    local v, i = T({ 1, NAN, 5, NAN }):cummax(1)
    assert.is_true(v:narrow(1, 2, 3):isnan():all():item())
    assert.same({ 1, 2, 2, 2 }, i:totable())
    assert.same({ -INF, -INF, 0 }, T({ -INF, -INF, 0 }):logcumsumexp(1):totable())
    assert.same({ 1, INF, INF }, T({ 1, INF, INF }):logcumsumexp(1):totable())
    assert.same({ 0, 0, 0 }, T({ 0, 3e38, 3e38 }):cumprod(1):totable())
    local w, k = ids({ 3, 1, 1, 5 }):cummin(1)
    assert.same({ 3, 1, 1, 1 }, w:totable())
    assert.same({ 1, 2, 2, 2 }, k:totable())
  end)

  it("have gradients to second order, also at zeros", function()
    local x, zeros = d(3, 4), T({ { 2, 0, 3, 0, 1 }, { 0, 1, 2, 3, 4 } }, "f64")
    for _, name in ipairs { "cumsum", "cumprod", "logcumsumexp", "cummax", "cummin" } do
      for axis = 1, 2 do
        assert.is_true(flame.gradcheck(function(v) return (v[name](v, axis)) end, { x },
          { order = 2 }))
      end
      assert.is_true(flame.gradcheck(function(v) return (v[name](v, 1)) end, { d() },
        { order = 2 }))
    end
    for axis = 1, 2 do
      assert.is_true(flame.gradcheck(function(v) return v:cumprod(axis) end, { zeros },
        { order = 2 }))
    end
    local y = T({ -INF, 1, 2 }, "f64"):requires_grad_(true)
    y:logcumsumexp(1):sum():backward()
    assert.equal(0, y.grad:totable()[1])
    assert.is_false(y.grad:isnan():any():item())
  end)

  -- the gradient with respect to x[k] is the sum over j >= k of g[j] exp(x[k] - y[j]), computed in
  -- f64 from the rounded values
  it("of logcumsumexp in half types are those of f32, rounded once", function()
    for _, dtype in ipairs { "bf16", "f16" } do
      for _, size in ipairs { { 1, 1 }, { 3, 7 }, { 2, 400 }, { 2, 3000 } } do
        local rows, n = size[1], size[2]
        local x = flame.randn({ rows, n }, { dtype = "f64" }):mul(3):to(dtype)
        local w = flame.randn({ rows, n }, { dtype = "f64" }):to(dtype)
        if n > 1 then x[{ 1, 1 }] = -INF end
        local function gradient(v)
          v = v:detach():clone():requires_grad_(true)
          local y = v:logcumsumexp(2)
          y:backward(w:to(v.dtype))
          return v.grad, y
        end
        local half, y = gradient(x)
        assert.equal(dtype, half.dtype)
        -- the values do not depend on tracking
        assert.same(x:logcumsumexp(2):totable(), y:totable())
        assert.same(gradient(x:to("f32")):to(dtype):totable(), half:totable())
        local X, W, got = x:totable(), w:totable(), half:totable()
        for r = 1, rows do
          local total, sums, later, size_of = 0, {}, 0, 0
          for j = 1, n do total = total + math.exp(X[r][j]) sums[j] = total end
          for k = n, 1, -1 do
            if sums[k] > 0 then
              later, size_of = later + W[r][k] / sums[k], size_of + math.abs(W[r][k]) / sums[k]
            end
            local e = math.exp(X[r][k])
            local want, bound = e * later,
              (dtype == "f16" and 2^-11 or 2^-8) * math.abs(e * later) + 2^-18 * e * size_of + 2^-24
            assert.is_true(math.abs(got[r][k] - want) <= bound,
              ("%s, row %d, %d: %g, not %g"):format(dtype, r, k, got[r][k], want))
          end
        end
      end
      local z = T({ -INF, 0.5, 2 }, dtype):requires_grad_(true)
      z:logcumsumexp(1):sum():backward()
      assert.equal(0, z.grad:totable()[1])
      local zero = T(1.5, dtype):requires_grad_(true)
      zero:logcumsumexp(1):backward()
      assert.equal(1, zero.grad:item())
    end
  end)
end)

describe("gradients through positions", function()
  it("reach the chosen elements, to second order", function()
    local x = d(3, 4)
    assert.is_true(flame.gradcheck(function(v) return (v:sort(1)) end, { x }, { order = 2 }))
    assert.is_true(flame.gradcheck(function(v) return (v:topk(2, 2)) end, { x }, { order = 2 }))
    assert.is_true(flame.gradcheck(function(v) return (v:kthvalue(2, 1)) end, { x }, { order = 2 }))
    assert.is_true(flame.gradcheck(function(v) return (v:median(2)) end, { x }, { order = 2 }))
    assert.is_true(flame.gradcheck(function(v) return v:median() * v:median() end, { x },
      { order = 2 }))
    assert.is_true(flame.gradcheck(function(v) return v:msort() end, { x }))
  end)
  it("is shared by equal medians", function()
    local x = T({ 1, 2, 2, 5 }):requires_grad_(true)
    x:median():backward()
    assert.same({ 0, 0.5, 0.5, 0 }, x.grad:totable())
  end)
end)

describe("sets and places", function()
  it("unique sorts, inverts and counts", function()
    local v, inverse, counts = T({ { 3, 1 }, { 3, 2 } }):unique { return_inverse = true,
      return_counts = true }
    assert.same({ 1, 2, 3 }, v:totable())
    assert.same({ { 3, 1 }, { 3, 2 } }, inverse:totable())
    assert.same({ 1, 1, 2 }, counts:totable())
    for _, dtype in ipairs(DTYPES) do
      local x = flame.randint({ 5000 }, 0, 1):to(dtype)
      assert.equal(2, #x:unique())
    end
    local big = flame.randint({ 100000 }, 1, 1000)
    local u, at, n = big:unique { return_inverse = true, return_counts = true }
    assert.is_true(flame.equal(u:gather(1, at), big))
    assert.equal(100000, n:sum():item())
    assert.equal(3, #T({ NAN, NAN, 1 }):unique())
    assert.same({ 0 }, flame.zeros(0):unique().shape)
  end)
  it("unique along an axis takes slices", function()
    local x = ids { { 2, 1 }, { 1, 5 }, { 2, 1 }, { 1, 3 } }
    local v, inverse, counts = x:unique { dim = 1, return_inverse = true, return_counts = true }
    assert.same({ { 1, 3 }, { 1, 5 }, { 2, 1 } }, v:totable())
    assert.same({ 3, 2, 3, 1 }, inverse:totable())
    assert.same({ 1, 1, 2 }, counts:totable())
    assert.same({ { 1, 2 }, { 4, 5 } },
      ids({ { 2, 1, 2 }, { 5, 4, 5 } }):unique({ dim = -1 }):totable())
    local w, c = ids({ 1, 1, 2, 1 }):unique_consecutive { return_counts = true }
    assert.same({ 1, 2, 1 }, w:totable())
    assert.same({ 2, 1, 1 }, c:totable())
  end)
  it("nonzero gives positions in order, of every rank", function()
    assert.same({ { 1, 2 }, { 2, 1 } }, T({ { 0, 1 }, { NAN, -0.0 } }):nonzero():totable())
    assert.same({ 0, 3 }, flame.zeros(2, 3, 4):nonzero().shape)
    assert.same({ 1, 0 }, flame.tensor(3):nonzero().shape)
    assert.same({ 0, 2 }, flame.zeros(0, 3):nonzero().shape)
    local x = flame.randint({ 60, 70, 20 }, 0, 1)
    local at = x:nonzero()
    assert.equal(x:sum():item(), #at)
    local linear = ((at:select(2, 1) - 1) * 70 + at:select(2, 2) - 1) * 20 + at:select(2, 3)
    assert.is_true(flame.equal(x:reshape(-1):gather(1, linear), flame.ones(#at, { dtype = "i64" })))
    assert.is_true(linear:narrow(1, 2, #at - 1):gt(linear:narrow(1, 1, #at - 1)):all():item())
    local rows = T({ { 0, 1 }, { 1, 1 } }):nonzero { as_tuple = true }
    assert.same({ 1, 2, 2 }, rows[1]:totable())
    assert.same({ 2, 1, 2 }, rows[2]:totable())
  end)
end)

describe("counts and searches", function()
  it("bincount counts ids from 1, with weights sums them", function()
    assert.same({ 1, 0, 2 }, ids({ 1, 3, 3 }):bincount():totable())
    assert.same({ 1, 0, 2, 0 }, T({ 1, 3, 3 }, "u8"):bincount({ minlength = 4 }):totable())
    local w = ids({ 1, 3, 3 }):bincount(T { 0.5, 1, 2 })
    assert.same({ 0.5, 0, 3 }, w:totable())
    assert.equal("f32", w.dtype)
    assert.same({ 2 }, ids({}):bincount(nil, 2).shape)
    local x = flame.randint({ 300000 }, 1, 5000)
    local n = x:bincount()
    assert.is_true(flame.equal(n,
      flame.zeros(#n, { dtype = "i64" }):index_add(1, x, flame.ones_like(x))))
    fails("bincount: id 0 at position 2, ids count from 1", flame.bincount, ids { 1, 0 })
    fails("bincount: x is f32, need an integer dtype", flame.bincount, T { 1 })
  end)
  it("histc leaves out what is outside, and NaN", function()
    assert.same({ 2, 1, 1 }, T({ 1, 1.5, 2, 4 }):histc(3):totable())
    assert.same({ 1, 2 }, T({ 1, 2, 3, 9, NAN }):histc(2, 1, 3):totable())
    assert.same({ 0, 3, 0 }, T({ 2, 2, 2 }):histc(3):totable())
    assert.equal(100000, flame.randn(100000):histc(50):sum():item())
    assert.equal("f64", T({ 1 }, "f64"):histc(2).dtype)
  end)
  it("histc of half types finds the bins in f32", function()
    local x = flame.arange(-9, 9, 1 / 64)
    for _, dtype in ipairs { "f16", "bf16" } do
      local half = x:to(dtype)
      local counts = half:histc(700, -7, 2)
      assert.equal(dtype, counts.dtype)
      assert.same(half:float():histc(700, -7, 2):totable(), counts:totable())
    end
  end)
  it("searchsorted finds places before or behind equal elements", function()
    local sorted = T { 1, 3, 3, 5 }
    assert.same({ 1, 2, 4, 5, 5 }, sorted:searchsorted(T { 0, 3, 4, 9, NAN }):totable())
    assert.same({ 1, 4, 4, 5, 5 },
      sorted:searchsorted(T { 0, 3, 4, 9, NAN }, { right = true }):totable())
    assert.equal(4, sorted:searchsorted(3, { side = "right" }):item())
    assert.equal(2, ids({ 1, 3 }):searchsorted(2.5):item())
    assert.same({ { 2, 1 }, { 3, 1 } },
      T({ { 1, 3 }, { 0, 2 } }):searchsorted(T { { 2, 0 }, { 7, -1 } }):totable())
    assert.same({ 1, 3 },
      T({ 0, 3 }):bucketize(sorted:unique():narrow(1, 1, 2), { right = true }):totable())
    assert.equal(1, flame.zeros(0):searchsorted(3):item())
    assert.equal("i32", sorted:searchsorted(T { 1 }, { out_int32 = true }).dtype)
    for _, dtype in ipairs(DTYPES) do
      local table_of = rough({ 500 }, dtype):sort(1)
      if table_of:is_floating_point() then
        table_of = table_of:masked_select(table_of:isnan():logical_not())
      end
      local v = rough({ 3000 }, dtype)
      local left, right = table_of:searchsorted(v), table_of:searchsorted(v, { right = true })
      if v:is_floating_point() then
        local real = v:isnan():logical_not()
        v, left, right = v:masked_select(real), left:masked_select(real), right:masked_select(real)
      end
      assert.is_true(flame.equal(left, table_of:unsqueeze(1):lt(v:unsqueeze(2)):sum(2) + 1), dtype)
      assert.is_true(flame.equal(right, table_of:unsqueeze(1):le(v:unsqueeze(2)):sum(2) + 1), dtype)
    end
    fails("searchsorted: sorted is (2, 2), v is (2): all but the last axis must agree",
      flame.searchsorted,
      flame.ones(2, 2), flame.ones(2))
  end)
end)
