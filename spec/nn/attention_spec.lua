-- scaled_dot_product_attention: the op, which stores no scores, is compared with a composition of
-- ops that does, and with plain Lua; also properties that both share. For small shapes the op is
-- called as internal.attention, since flame uses the composition for few rows.
local raises = require "spec.support.helper".raises
local flame = require "flame"
local helper = require "spec.support.helper"
local nn = require "flame.nn"
local internal = flame.internal
local attend = flame.scaled_dot_product_attention
local INF = math.huge

local function randn(shape, dtype) return flame.randn(shape, { dtype = dtype or "f32" }) end
local function leaf(x) return x:detach():clone():requires_grad_(true) end

--- The composition, by its definition.
local function composed(q, k, v, mask, scale, causal)
  local heads = q.shape[2] // k.shape[2]
  if heads > 1 then k, v = k:repeat_interleave(heads, 2), v:repeat_interleave(heads, 2) end
  local scores = (q * scale):matmul(k:transpose(-2, -1))
  local t, s = q.shape[3], k.shape[3]
  if causal then
    scores = scores:masked_fill(flame.ones(t, s, { dtype = "bool", device = q.device }):triu(1),
      -INF)
  end
  if mask and mask.dtype == "bool" then scores = scores:masked_fill(mask:logical_not(), -INF)
  elseif mask then scores = scores + mask end
  return scores:softmax(-1):matmul(v)
end

--- The result of f(q, k, v, …), and the gradients of q, k and v for the cotangent g.
local function both(f, q, k, v, g, ...)
  local a, b, c = leaf(q), leaf(k), leaf(v)
  local y = f(a, b, c, ...)
  y:backward(g)
  return { y:detach(), a.grad, b.grad, c.grad }
end
local CLOSE = { rtol = 1e-4, atol = 1e-5 }
local TOL = { f64 = 1e-12, f32 = 3e-5, f16 = 2e-2, bf16 = 1.5e-1 }
local function near(expected, got, dtype, what)
  for i = 1, 4 do
    assert.same(expected[i].shape, got[i].shape)
    assert.equal(dtype, got[i].dtype)
    assert.allclose(expected[i]:double():totable(), got[i]:double(),
      { rtol = TOL[dtype], atol = TOL[dtype], equal_nan = true },
      ("%s %s"):format(what or "", ({ "result", "dq", "dk", "dv" })[i]))
  end
end
local function compare(q, k, v, mask, causal, what)
  local g = randn({ q.shape[1], q.shape[2], q.shape[3], v.shape[4] }, q.dtype)
  local scale = q.shape[4] ^ -0.5
  near(both(composed, q, k, v, g, mask, scale, causal),
    both(internal.attention, q, k, v, g, mask, scale, causal), q.dtype, what)
end

--- softmax(q k' scale) v for nested tables q (t, d), k (s, d) and v (s, d2).
local function plain(q, k, v, scale, visible)
  local out = {}
  for i, row in ipairs(q) do
    local p, sum = {}, 0
    for j, key in ipairs(k) do
      local dot = 0
      for e = 1, #row do dot = dot + row[e] * key[e] end
      p[j] = visible(i, j) and math.exp(dot * scale) or 0
      sum = sum + p[j]
    end
    out[i] = {}
    for e = 1, #v[1] do
      local y = 0
      for j = 1, #k do y = y + p[j] * v[j][e] end
      out[i][e] = y / sum
    end
  end
  return out
end

describe("attention without scores", function()
  it("gives in f64 what plain Lua gives", function()
    flame.manual_seed(1)
    local q, k, v = randn({ 70, 5 }, "f64"), randn({ 90, 5 }, "f64"), randn({ 90, 3 }, "f64")
    local function all() return true end
    local function past(i, j) return j <= i end
    assert.allclose(plain(q:totable(), k:totable(), v:totable(), 5 ^ -0.5, all), attend(q, k, v),
      { rtol = 1e-12, atol = 1e-12 })
    assert.allclose(plain(q:totable(), k:totable(), v:totable(), 0.7, past),
      attend(q, k, v, { is_causal = true, scale = 0.7 }),
      { rtol = 1e-12, atol = 1e-12 })
  end)
  for _, dtype in ipairs { "f64", "f32", "f16", "bf16" } do
    it("has in " .. dtype .. " the composition's values and gradients, causal or not, with any mask", function()
      flame.manual_seed(2)
      for _, s in ipairs { { 2, 3, 3, 70, 90, 8, 8 }, { 1, 4, 2, 100, 300, 5, 13 },
          { 2, 2, 1, 1, 7, 4, 4 }, { 1, 1, 1, 33, 1, 1, 1 } } do
        local b, h, hk, t, n, d, d2 = table.unpack(s)
        local q, k, v = randn({ b, h, t, d }, dtype), randn({ b, hk, n, d }, dtype),
          randn({ b, hk, n, d2 }, dtype)
        local seen = flame.rand(b, 1, t, n):gt(0.4)
        seen[{ {}, {}, {}, 1 }] = true
        local padding = flame.ones(b, 1, 1, n):gt(0)
        if n > 1 then padding[{ 1, 1, 1, n }] = false end
        for _, causal in ipairs { false, true } do
          local what = table.concat(s, " ") .. (causal and " causal" or "")
          compare(q, k, v, nil, causal, what)
          compare(q, k, v, seen, causal, what .. ", bool mask")
          compare(q, k, v, padding, causal, what .. ", padding")
          compare(q, k, v, randn({ 1, h, t, n }, dtype), causal, what .. ", float mask")
          compare(q, k, v, randn({ n }, dtype), causal, what .. ", mask of keys")
        end
      end
    end)
  end
  it("is taken for ranks 2, 3 and 4", function()
    flame.manual_seed(3)
    local q, k, v = randn({ 2, 3, 80, 8 }, "f32"), randn({ 2, 3, 90, 8 }, "f32"),
      randn({ 2, 3, 90, 8 }, "f32")
    local mask = flame.rand(3, 80, 90):gt(0.2)
    local whole = attend(q, k, v, { attn_mask = mask })
    assert.same({ 2, 3, 80, 8 }, whole.shape)
    assert.is_true(flame.equal(whole[2], attend(q[2], k[2], v[2], { attn_mask = mask })))
    assert.is_true(flame.equal(whole[{ 2, 3 }],
      attend(q[{ 2, 3 }], k[{ 2, 3 }], v[{ 2, 3 }], { attn_mask = mask[3] })))
  end)
  it("gives rows that see nothing NaN, as the composition does", function()
    flame.manual_seed(4)
    for _, dtype in ipairs { "f64", "bf16" } do
      local q, k, v = randn({ 1, 2, 9, 4 }, dtype), randn({ 1, 2, 300, 4 }, dtype),
        randn({ 1, 2, 300, 4 }, dtype)
      local seen = flame.ones(9, 300):gt(0)
      seen[{ 3, {} }] = false
      compare(q, k, v, seen, false, "a row hidden")
      compare(q, k, v, seen, true, "a row hidden, causal")
      local low = flame.zeros({ 9, 300 }, { dtype = dtype })
      low[{ 2, {} }] = -INF
      assert.same(composed(q, k, v, low, 0.5):isnan():totable(),
        internal.attention(q, k, v, low, 0.5, false):isnan():totable())
    end
  end)
  it("lets NaN and infinities through where the composition does", function()
    flame.manual_seed(5)
    for _, bad in ipairs { 0 / 0, INF, -INF } do
      for which = 1, 3 do
        local x = { randn { 1, 1, 70, 4 }, randn { 1, 1, 80, 4 }, randn { 1, 1, 80, 4 } }
        x[which][{ 1, 1, 5, 2 }] = bad
        compare(x[1], x[2], x[3], nil, false, ("%g in %d"):format(bad, which))
      end
    end
  end)
  it("keeps weights that differ by more than a dtype's range", function()
    local q = flame.zeros(1, 1, 1, 1):fill_(1)
    local k = flame.tensor { { { { 3e38 }, { 0 }, { 3e38 }, { -3e38 } } } }
    local v = flame.tensor { { { { 1 }, { 2 }, { 4 }, { 8 } } } }
    assert.allclose({ { { { 2.5 } } } }, internal.attention(q, k, v, nil, 1, false))
  end)
  it("has the gradient that differences give", function()
    flame.manual_seed(6)
    local function of(q, k, v) return internal.attention(q, k, v, nil, 0.6, true) end
    assert.is_true(flame.gradcheck(of,
      { randn({ 1, 2, 5, 3 }, "f64"), randn({ 1, 1, 6, 3 }, "f64"), randn({ 1, 1, 6, 2 }, "f64") }))
    local mask = randn({ 5, 6 }, "f64")
    local function with_mask(q, k, v) return internal.attention(q, k, v, mask, 0.6, false) end
    assert.is_true(flame.gradcheck(with_mask,
      { randn({ 1, 2, 5, 3 }, "f64"), randn({ 1, 2, 6, 3 }, "f64"), randn({ 1, 2, 6, 2 }, "f64") }))
  end)
  it("has second derivatives, and products with its Jacobian, of the composition", function()
    flame.manual_seed(7)
    local k, v, mask = randn({ 1, 1, 6, 3 }, "f64"), randn({ 1, 1, 6, 2 }, "f64"),
      flame.rand(1, 2, 5, 6):gt(0.3)
    mask[{ 1, {}, {}, 1 }] = true
    for _, causal in ipairs { false, true } do
      for at = 1, 3 do
        local function through(f)
          return function(x)
            local a = { randn({ 1, 2, 5, 3 }, "f64"):zero_() + 0.3, k, v }
            a[at] = x
            return f(a[1], a[2], a[3], mask, 0.6, causal):square():sum()
          end
        end
        local x = at == 1 and randn({ 1, 2, 5, 3 }, "f64") or (at == 2 and k or v):clone()
        local want, got = flame.hessian(through(composed), x),
          flame.hessian(through(internal.attention), x)
        assert.allclose(want:totable(), got, { rtol = 1e-11, atol = 1e-12 })
        local along = flame.randn_like(x)
        local _, a = flame.jvp(through(composed), x, along)
        local _, b = flame.jvp(through(internal.attention), x, along)
        assert.allclose(a:totable(), b, { rtol = 1e-11, atol = 1e-12 })
      end
    end
  end)
end)

describe("attention's operands", function()
  it("are read where they lie: parts of one packed product, turned, expanded, and copied where they lie badly", function()
    flame.manual_seed(8)
    local b, t, h, d = 2, 70, 3, 8
    local packed = randn { b, t, 3, h, d }
    local function of(x, f)
      local function part(i) return x:select(3, i):transpose(2, 3) end
      return f(part(1), part(2), part(3), nil, 0.3, true)
    end
    local x, y, g = leaf(packed), leaf(packed), randn { b, h, t, d }
    local got, want = of(x, internal.attention), of(y, composed)
    got:backward(g)
    want:backward(g)
    assert.allclose(want:totable(), got, CLOSE)
    assert.allclose(y.grad:totable(), x.grad, CLOSE)
    local pending = packed * 2                             -- not in memory yet
    assert.allclose(of(packed * 2, composed):totable(), of(pending, internal.attention), CLOSE)
    local q = randn { b, h, d, t }:transpose(-2, -1)      -- columns side by side
    local k = randn { b, 1, t, d }:expand(b, h, t, d)
    local v = randn { b, h, t, d }:flip(3)
    compare(q, k, v, nil, false, "turned, expanded, flipped")
    compare(q, k, v:narrow(4, 2, 3), flame.rand(t, t):t():gt(0.2), false,
      "a part of each row, a turned mask")
  end)
  it("are not copied when they are parts of a packed product", function()
    flame.manual_seed(9)
    local packed = randn { 1, 256, 3, 4, 16 }
    flame.eval(packed)
    flame.stats("reset")
    local function part(i) return packed:select(3, i):transpose(2, 3) end
    flame.eval((attend(part(1), part(2), part(3))))
    assert.equal(1, flame.stats().launches)
    assert.equal(0, flame.stats().copies)
  end)
  it("stay what they were in the gradient when they are written to after", function()
    flame.manual_seed(10)
    local q, k, v, g = randn { 1, 1, 70, 4 }, randn { 1, 1, 80, 4 }, randn { 1, 1, 80, 4 },
      randn { 1, 1, 70, 4 }
    local a, b, c = leaf(q), leaf(k), leaf(v)
    local kk = b * 1
    local y = attend(a, kk, c)
    flame.no_grad(function() kk:zero_() c:zero_() end)
    y:backward(g)
    near(both(composed, q, k, v, g, nil, 0.5, false), { y:detach(), a.grad, b.grad, c.grad }, "f32")
  end)
  it("that failed fail the result, and name why", function()
    local q = randn { 1, 1, 70, 4 }
    local bad = randn { 1, 1, 70,
      4 }:take_along_dim(flame.tensor({ { { { 99 } } } }, { dtype = "i64" }), 3):expand(1, 1, 70, 4)
    local y = attend(q, bad, q)
    raises("99", function() y:totable() end)
    raises("99", function() attend(q, bad, q):totable() end)
  end)
  it("may be empty", function()
    local function zeros(...) return flame.zeros(...) end
    assert.same({ 1, 2, 0, 3 },
      attend(zeros(1, 2, 0, 4), zeros(1, 2, 5, 4), zeros(1, 2, 5, 3)).shape)
    assert.same({ 0, 2, 70, 3 },
      attend(zeros(0, 2, 70, 4), zeros(0, 2, 5, 4), zeros(0, 2, 5, 3)).shape)
    assert.same({ 1, 0, 70, 3 },
      attend(zeros(1, 0, 70, 4), zeros(1, 0, 5, 4), zeros(1, 0, 5, 3)).shape)
    local none = attend(zeros(1, 1, 70, 4), zeros(1, 1, 0, 4), zeros(1, 1, 0, 3))
    assert.same({ 1, 1, 70, 3 }, none.shape)
    assert.equal(0, none:abs():sum():item())
    assert.same({ 1, 1, 70, 0 },
      attend(zeros(1, 1, 70, 4), zeros(1, 1, 5, 4), zeros(1, 1, 5, 0)).shape)
  end)
  it("have one row of several heads of q for a head of keys, with masks and gradients", function()
    for _, mask in ipairs { false, flame.rand(2, 1, 1, 11):gt(0.4), flame.rand(2, 6, 1, 11):gt(0.4),
      randn { 1, 11 }, randn { 11 } } do
      local function tracked(...)
        return flame.randn({ ... }, { dtype = "f64", requires_grad = true })
      end
      local q, k, v = tracked(2, 6, 1, 8), tracked(2, 2, 11, 8), tracked(2, 2, 11, 5)
      mask = mask and (mask.dtype == "bool" and mask or mask:double()) or nil
      local y = flame.scaled_dot_product_attention(q, k, v, { attn_mask = mask, enable_gqa = true })
      local want = flame.scaled_dot_product_attention(q, k:repeat_interleave(3, 2),
        v:repeat_interleave(3, 2), { attn_mask = mask })
      local g = flame.randn(want.shape, { dtype = "f64" })
      assert.allclose(want, y, { rtol = 1e-12, atol = 1e-12 })
      for i, d in ipairs(flame.autograd.grad(want, { q, k, v }, { grad_outputs = g })) do
        assert.allclose(d, flame.autograd.grad(y, { q, k, v }, { grad_outputs = g,
          retain_graph = true })[i], { rtol = 1e-12, atol = 1e-12 })
      end
    end
  end)
  it("have heads in groups where enable_gqa says so, by the op and by the composition", function()
    flame.manual_seed(11)
    local q, k, v = randn { 2, 6, 70, 4 }, randn { 2, 2, 80, 4 }, randn { 2, 2, 80, 3 }
    local want = composed(q, k, v, nil, 0.5, true)
    assert.allclose(want:totable(), attend(q, k, v, { is_causal = true, enable_gqa = true }), CLOSE)
    local few = attend(q[{ {}, {}, { 1, 5 } }], k, v, { is_causal = true, enable_gqa = true })
    assert.allclose(want[{ {}, {}, { 1, 5 } }]:totable(), few, CLOSE)
    local function uneven()
      attend(q, randn { 2, 4, 80, 4 }, randn { 2, 4, 80, 3 }, { enable_gqa = true })
    end
    raises("k has 4 heads, which do not divide the 6 of q", uneven)
    raises("needs an axis of heads", function()
      attend(randn { 70, 4 }, randn { 80, 4 }, v, { enable_gqa = true })
    end)
    raises("batch sizes do not broadcast", function() attend(q, k, v) end)
  end)
  it("are refused where they do not go together, with the sizes or dtypes", function()
    local q, k, v = randn { 1, 1, 70, 4 }, randn { 1, 1, 80, 4 }, randn { 1, 1, 80, 4 }
    raises("inner sizes differ, (1, 1, 70, 4) and (1, 1, 5, 80)",
      function() attend(q, randn { 1, 1, 80, 5 }, v) end)
    raises("inner sizes differ", function() attend(q, k, randn { 1, 1, 81, 4 }) end)
    raises("attn_mask", function() attend(q, k, v, { attn_mask = true }) end)
    raises("(3, 80)", function() attend(q, k, v, { attn_mask = randn { 3, 80 } }) end)
    raises("causal", function() attend(q, k, v, { causal = true }) end)
    raises("q is 0-d", function() attend(flame.tensor(1), k, v) end)
    raises("q is 1-d, need at least 2 axes", function()
      attend(randn { 80 }, randn { 80, 80 }, randn { 80 }, { is_causal = true })
    end)
    raises("k is 1-d", function() attend(q, randn { 80 }, v) end)
    raises("v is 1-d", function() attend(q, k, randn { 80 }) end)
    raises("need the shapes", function()
      internal.attention(q, k, randn { 1, 1, 81, 4 }, nil, 1, false)
    end)
    raises("sizes or dtypes do not fit", function()
      internal.attention(q, k:double(), v, nil, 1, false)
    end)
    raises("do not fit", function()
      internal.attention(q, k, v, flame.ones({ 1, 80 }, { dtype = "i64" }), 1, false)
    end)
    assert.same("f64", attend(q:double(), k, v).dtype)    -- mixed: promoted
  end)
  it("may broadcast, have a mask that is tracked, or a scale that is a tensor: the composition serves", function()
    flame.manual_seed(12)
    local q, k, v = randn { 2, 3, 70, 4 }, randn { 1, 1, 80, 4 }, randn { 1, 1, 80, 4 }
    local wide = attend(q, k:expand(2, 3, 80, 4), v:expand(2, 3, 80, 4))
    assert.allclose(wide:totable(), attend(q, k, v), CLOSE)
    local mask = flame.zeros(70, 80):requires_grad_(true)
    attend(q, k, v, { attn_mask = mask }):square():sum():backward()
    assert.is_true(mask.grad:abs():sum():item() > 0)
    assert.allclose(wide:totable(), attend(q, k, v, { scale = flame.tensor(0.5) }), CLOSE)
  end)
end)

describe("attention in a program", function()
  it("has the same bits eager and planned", function()
    local function run(budget)
      local before = internal.budget(budget)
      flame.manual_seed(13)
      local x, w = randn { 2, 70, 12 }, leaf(randn { 36, 12 })
      local packed = flame.linear(x, w):reshape(2, 70, 3, 3, 4)
      local function part(i) return packed:select(3, i):transpose(2, 3) end
      local y = attend(part(1) * 2, part(2), part(3):exp(), { is_causal = true }):transpose(2,
        3):reshape(2, 70, 12)
      y:square():mean():backward()
      local list = { y:detach():totable(), w.grad:totable() }
      internal.budget(before)
      return list
    end
    local planned = run(100000)
    assert.same(planned, run(1))
    assert.same(planned, run(7))
  end)
  it("takes another scale without another plan", function()
    local q = randn { 1, 1, 70, 4 }
    flame.eval(q, (attend(q, q, q, { scale = 0.1 })))
    flame.stats("reset")
    local y = attend(q, q, q, { scale = 0.2 })
    assert.allclose(composed(q:double(), q:double(), q:double(), nil, 0.2):totable(),
      y:double(), CLOSE)
    local z = attend(q, q, q, { scale = 0.3 })
    flame.eval(z)
    assert.is_true(flame.stats().hits >= 1)
  end)
  it("runs in a half type under autocast, and again in a checkpoint", function()
    flame.manual_seed(14)
    local q, k, v = leaf(randn { 1, 2, 70, 8 }), leaf(randn { 1, 2, 70, 8 }),
      leaf(randn { 1, 2, 70, 8 })
    local o = { is_causal = true, attn_mask = flame.zeros(70, 70) }
    local y = flame.autocast("bf16", function()
      return flame.scaled_dot_product_attention(q, k, v, o)
    end)
    assert.equal("bf16", y.dtype)
    y:float():sum():backward()
    assert.equal("f32", q.grad.dtype)
    local function of(a, b, c) return attend(a, b, c, { is_causal = true }) end
    local g = randn { 1, 2, 70, 8 }
    local want = both(of, q, k, v, g)
    local got = both(function(a, b, c) return flame.checkpoint(of, a, b, c) end, q, k, v, g)
    for i = 1, 4 do assert.is_true(flame.equal(want[i], got[i])) end
  end)
  for _, drop in ipairs { 0, 0.1 } do
    it(("takes no memory for scores, forward or backward, dropout %g"):format(drop), function()
      local t = 2048
      local q, k, v = leaf(randn { 1, 2, t, 16 }), leaf(randn { 1, 2, t, 16 }),
        leaf(randn { 1, 2, t, 16 })
      flame.eval(q, k, v)
      flame.memory("reset_peak")
      local before = flame.memory()
      local y = attend(q, k, v, { is_causal = true, dropout_p = drop })
      y:sum():backward()
      flame.eval(y, q.grad, k.grad, v.grad)
      local m, scores = flame.memory(), 2 * t * t * 4
      assert.is_true(m.peak - before.peak < scores / 8, "peak " .. m.peak - before.peak)
      assert.is_true(m.host_peak - before.host_peak < scores / 4,
        "host peak " .. m.host_peak - before.host_peak)
    end)
  end
  it("keeps its scale in an exported program", function()
    local q, path = randn { 1, 2, 70, 8 }, os.tmpname()
    local function of(x) return attend(x, x, x, { scale = 0.3, is_causal = true }) end
    flame.export(path, of, { q })
    local p <close> = flame.program(path)
    os.remove(path)
    assert.is_true(flame.equal(of(q), p(q)))
  end)
  it("gives back what its gradient kept", function()
    local function run()
      local q = leaf(randn { 1, 2, 80, 16 })
      local y = attend(q, q, q)
      y:sum():backward()
      flame.eval(q.grad)
    end
    run()
    collectgarbage()
    collectgarbage()
    local live = flame.memory().allocated
    run()
    collectgarbage()
    collectgarbage()
    assert.equal(live, flame.memory().allocated)
  end)
end)

describe("modules of nn", function()
  local function rows(x, w, b, heads)
    local size = x.shape[3] // heads
    return flame.linear(x, w, b):reshape(x.shape[1], x.shape[2], heads, size):transpose(2, 3)
  end
  it("attend by it with every mask as by scores", function()
    flame.manual_seed(15)
    local mha = nn.MultiheadAttention(12, 3, { batch_first = true })
    local x = randn { 2, 70, 12 }
    local padding = flame.zeros(2, 70):gt(0)
    padding[{ 2, { 60, 70 } }] = true
    for _, o in ipairs { {}, { is_causal = true }, { key_padding_mask = padding },
      { key_padding_mask = padding, is_causal = true },
      { attn_mask = randn { 70, 70 }, is_causal = true } } do
      local with, without = { need_weights = true }, { need_weights = false }
      for name, value in pairs(o) do with[name], without[name] = value, value end
      local want, weights = mha(x, x, x, with)
      assert.allclose(want:totable(), (mha(x, x, x, without)), CLOSE)
      assert.same({ 2, 70, 70 }, weights.shape)
    end
  end)
  it("look at no position ahead in CausalSelfAttention", function()
    flame.manual_seed(16)
    local net = nn.CausalSelfAttention(12, 3)
    local x = randn { 2, 70, 12 }
    local w, b = net.qkv.weight, net.qkv.bias
    local function part(i)
      return rows(x, w:narrow(1, 12 * (i - 1) + 1, 12), b:narrow(1, 12 * (i - 1) + 1, 12), 3)
    end
    local want = composed(part(1), part(2), part(3), nil, 0.5, true):transpose(2,
      3):reshape(2, 70, 12)
    assert.allclose(net.proj(want):totable(), net(x), CLOSE)
    local dropping = nn.CausalSelfAttention(12, 3, { dropout = 0.5 })
    assert.is_false(flame.equal(dropping(x), dropping(x)))
    dropping:eval()
    assert.is_true(flame.equal(dropping(x), dropping(x)))
  end)
end)

describe("heads that lie side by side in rows", function()
  --- Compares CausalSelfAttention, which gives the op packed rows of q, k and v, with the function
  --- on three views of the same rows.
  local function twice(kv, dtype, size)
    local heads, t = 4, size and 576 or 70
    size = size or 4
    local net = nn.CausalSelfAttention(heads * size, heads, { num_kv_heads = kv }):to(dtype)
    local function apart(x)
      local qkv = net.qkv(x):reshape(2, t, heads + 2 * kv, size)
      local function part(from, n) return qkv:narrow(3, from, n):transpose(2, 3) end
      local y = flame.scaled_dot_product_attention(part(1, heads), part(heads + 1, kv),
        part(heads + kv + 1, kv), { is_causal = true, enable_gqa = kv ~= heads })
      return net.proj(y:transpose(2, 3):reshape(2, t, heads * size))
    end
    return net, apart, flame.randn(2, t, heads * size):to(dtype):requires_grad_()
  end

  it("give the bits of attention of the three, and its gradients", function()
    flame.manual_seed(17)
    for _, kv in ipairs { 4, 2, 1 } do
      for _, dtype in ipairs { "f32", "f64", "bf16", "f16" } do
        local net, apart, x = twice(kv, dtype, dtype:find "16" and 16)
        local g = flame.randn(x.shape):to(dtype)
        local function all(f)
          local y = f(x)
          local d = (y * g):sum():gradients { x, net.qkv.weight, net.qkv.bias }
          return { y, d[x], d[net.qkv.weight], d[net.qkv.bias] }
        end
        local one, three = all(net), all(apart)
        for i, v in ipairs(one) do
          assert.is_true(v:equal(three[i]), ("%s, %d heads of keys, %d"):format(dtype, kv, i))
        end
      end
    end
  end)

  it("have second derivatives", function()
    flame.manual_seed(18)
    local net, apart, x = twice(2, "f64")
    local g = flame.randn(x.shape):double()
    local function second(f)
      local d = (f(x) * g):sum():gradients { inputs = { x }, create_graph = true }
      return (d[x] * g):sum():gradients { net.qkv.weight }[net.qkv.weight]
    end
    assert.allclose(second(apart):totable(), second(net), { rtol = 1e-10, atol = 1e-10 })
  end)

  it("are left to the composition of few rows", function()
    local net = nn.CausalSelfAttention(16, 4)
    assert.same({ 2, 5, 16 }, net(flame.randn(2, 5, 16)).shape)
  end)
end)

describe("a cache of keys and values", function()
  it("gives what attention over the whole text gives, however it is cut", function()
    flame.manual_seed(5)
    local net = nn.CausalSelfAttention(16, 4)
    local x = flame.randn(3, 12, 16)
    local whole = net(x)
    for _, pieces in ipairs { { 12 }, { 1, 1, 1, 9 }, { 5, 7 }, { 4, 1, 1, 1, 5 } } do
      local cache, parts, from = net:cache(3, 14), {}, 1
      flame.no_grad(function()
        for k, n in ipairs(pieces) do
          parts[k] = net(x:narrow(2, from, n), cache)
          from = from + n
        end
      end)
      assert.equal(12, cache.seen)
      assert.allclose(whole:totable(), flame.cat(parts, 2):totable(), { rtol = 1e-5, atol = 1e-6 })
    end
  end)
  it("serves under autocast, in half types and in f64, evaluated or not", function()
    flame.manual_seed(6)
    for _, dtype in ipairs { "f32", "f64", "bf16", "f16" } do
      for _, half in ipairs { false, "bf16" } do
        local net = nn.CausalSelfAttention(16, 2):to(dtype)
        local x = flame.randn(2, 6, 16):to(dtype)
        local cache, parts = net:cache(2, 8), {}
        flame.no_grad(function()
          local whole = flame.autocast(half, net, x)
          for k = 1, 6 do
            parts[k] = flame.autocast(half, net, x:narrow(2, k, 1), cache)
            if k % 2 == 0 then flame.eval(parts[k], cache.k) end
          end
          local far = (whole:double() - flame.cat(parts, 2):double()):abs():amax():item()
          local bound = (half or dtype:find "16") and 0.03 or 1e-5
          assert.is_true(far <= bound, ("%s, autocast %s: %g"):format(dtype, tostring(half), far))
        end)
        assert.equal(dtype, cache.k.dtype)
      end
    end
  end)
  it("says what does not fit", function()
    local net = nn.CausalSelfAttention(8, 2)
    local cache = net:cache(1, 4)
    net(flame.randn(1, 3, 8), cache)
    local e = helper.message(net, flame.randn(1, 2, 8), cache)
    assert.matches("2 positions after 3 do not fit a cache of 4", tostring(e))
    assert.equal(3, cache.seen)
    for _, wrong in ipairs { 3, {}, "cache", flame.ones(2) } do
      local why = helper.message(net, flame.randn(1, 1, 8), wrong)
      assert.matches(type(wrong) == "table" and "cache must come from its cache%(batch, length%)"
        or "cache must be a table, got ", tostring(why))
    end
    local why = helper.message(net, flame.randn(2, 1, 8), cache)
    assert.matches("x has batch 2, heads 2, size 4, the cache %(1, 2, 4%)", tostring(why))
    for _, wrong in ipairs { { 0, 4 }, { 1, -1 }, { 1.5, 4 }, {} } do
      assert.has_error(function() net:cache(table.unpack(wrong)) end)
    end
  end)
end)
