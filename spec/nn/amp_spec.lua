-- Mixed precision: the dtype in which each op runs under flame.autocast, and training with it; and
-- rotary embeddings.

local flame = require "flame"
local nn, optim = require "flame.nn", require "flame.optim"

describe("autocast", function()
  local a, b = flame.ones(3, 4), flame.ones(4, 5)

  it("runs products in the half type, losses and sums in f32, the rest as it comes", function()
    for _, dtype in ipairs { "bf16", "f16" } do
      flame.autocast(dtype, function()
        local y = a:matmul(b)
        assert.equal(dtype, y.dtype)
        assert.equal(dtype, flame.matmul(a, b).dtype)
        assert.equal(dtype, flame.linear(a, b:t()).dtype)
        assert.equal(dtype, flame.einsum("ij,jk->ik", a, b).dtype)
        assert.equal(dtype, (y + 1):relu().dtype)
        assert.equal("f32", (y + a:sum()).dtype)
        for _, f in ipairs { "sum", "exp", "log", "softmax", "norm", "cumsum" } do
          assert.equal("f32",
            f == "softmax" and y:softmax(1).dtype or f == "cumsum" and y:cumsum(1).dtype
            or y[f](y).dtype, f)
        end
        assert.equal("f32", (y ^ 2).dtype)
        assert.equal("f32", flame.mse_loss(y, y).dtype)
        assert.equal("f32", y:layer_norm({ 5 }).dtype)
        assert.equal("f64", a:double():matmul(b:double()).dtype)
        assert.equal("i64",
          flame.ones({ 2, 2 },
            { dtype = "i64" }):matmul(flame.ones({ 2, 2 }, { dtype = "i64" })).dtype)
      end)
    end
    assert.equal("f32", a:matmul(b).dtype)
  end)

  it("gives f's results, and ends with an error of f", function()
    assert.same({ 1, 2, 3 }, { flame.autocast("bf16", function(...) return ... end, 1, 2, 3) })
    assert.falsy((pcall(flame.autocast, "bf16", function() error("no") end)))
    assert.is_nil(flame.autocast())
    assert.equal("f32", a:matmul(b).dtype)
  end)

  it("is a guard too, nests, and can be switched off inside", function()
    do
      local _ <close> = flame.autocast("f16")
      assert.equal("f16", a:matmul(b).dtype)
      do
        local _ <close> = flame.autocast(false)
        assert.equal("f32", a:matmul(b).dtype)
      end
      flame.autocast("bf16", function() assert.equal("bf16", a:matmul(b).dtype) end)
      assert.equal("f16", flame.autocast())
    end
    assert.equal("f32", a:matmul(b).dtype)
    for _, bad in ipairs { "f32", 3 } do assert.falsy((pcall(flame.autocast, bad, print))) end
  end)

  it("ends when its guard is dropped", function()
    flame.autocast("f16")
    collectgarbage()
    collectgarbage()
    assert.is_nil(flame.autocast())
  end)

  it("a backward pass gives f32 gradients of f32 parameters", function()
    flame.seed(3)
    local net = nn.Sequential { nn.Linear(6, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 3) }
    local x, y = flame.randn(20, 6), flame.randint({ 20 }, 1, 3)
    local exact = flame.cross_entropy(net(x), y)
    exact:backward()
    local want = net[1].weight.grad:clone()
    net:zero_grad()
    local loss = flame.autocast("bf16", function() return flame.cross_entropy(net(x), y) end)
    loss:backward()
    assert.equal("f32", net[1].weight.grad.dtype)
    assert.close(exact:item(), loss:item(), 0.02)
    assert.allclose(want, net[1].weight.grad, { rtol = 0.1, atol = 0.01 })
  end)

  it("trains with a scaler in f16", function()
    flame.seed(4)
    local net = nn.Sequential { nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 1) }
    local opt, scaler = optim.Adam(net:parameters(), { lr = 0.02 }), optim.GradScaler()
    local x = flame.randn(64, 4)
    local y = x:sum(2, { keepdim = true }):tanh()
    local first, last
    for _ = 1, 60 do
      opt:zero_grad()
      local loss = flame.autocast("f16", function() return flame.mse_loss(net(x), y) end)
      scaler:scale(loss):backward()
      scaler:step(opt)
      scaler:update()
      last = loss:item()
      first = first or last
    end
    assert.is_true(last < 0.2 * first, ("%g of %g"):format(last, first))
  end)

  it("a checkpoint computes again in the dtypes of the first time", function()
    local w = flame.randn({ 4, 4 }, { requires_grad = true })
    local x = flame.randn({ 3, 4 }, { requires_grad = true })
    local function f(v) return v:matmul(w):relu() end
    local function gradient(g)
      w.grad = nil
      flame.autocast("bf16", g, f, x):float():sum():backward()
      return w.grad
    end
    local plain = gradient(function(h, v) return h(v) end)
    assert.truthy(flame.equal(plain, gradient(function(h, v) return flame.checkpoint(h, v) end)))
  end)

  it("attention runs in the half type inside", function()
    local q = flame.ones(2, 3, 4)
    local y = flame.autocast("bf16", function()
      return flame.scaled_dot_product_attention(q, q, q, { is_causal = true })
    end)
    assert.equal("bf16", y.dtype)
  end)
end)

describe("rotary embedding", function()
  it("turns pairs of features and keeps their length", function()
    local x = flame.randn(2, 5, 8)
    local y = x:rotary()
    assert.allclose(x:norm(2, -1), y:norm(2, -1))
    assert.allclose(x[{ {}, 1 }], y[{ {}, 1 }])                     -- position 0 is not rotated
    -- feature i is rotated with feature i + d / 2, by t base^(-2 (i - 1) / d)
    local t = 3
    for i = 1, 4 do
      local angle = (t - 1) * 10000 ^ (-2 * (i - 1) / 8)
      local p, q = x[{ 1, t, i }]:item(), x[{ 1, t, i + 4 }]:item()
      assert.close(p * math.cos(angle) - q * math.sin(angle), y[{ 1, t, i }]:item(), 1e-5)
      assert.close(q * math.cos(angle) + p * math.sin(angle), y[{ 1, t, i + 4 }]:item(), 1e-5)
    end
  end)

  it("goes on at an offset, takes tables, and pairs neighbours when asked", function()
    local x = flame.randn(6, 4)
    assert.allclose(x:rotary()[{ { 4, 6 } }], x[{ { 4, 6 } }]:rotary({ offset = 3 }))
    local cos, sin = flame.randn(6, 4), flame.randn(6, 4)
    local turned = flame.cat({ -x[{ {}, { 3, 4 } }], x[{ {}, { 1, 2 } }] }, 2)
    assert.allclose(x * cos + turned * sin, x:rotary(cos, sin))
    local y = x:rotary({ interleaved = true, base = 100 })
    local p, q = x[{ 2, 1 }]:item(), x[{ 2, 2 }]:item()
    assert.close(p * math.cos(1) - q * math.sin(1), y[{ 2, 1 }]:item(), 1e-5)
    assert.close(q * math.cos(1) + p * math.sin(1), y[{ 2, 2 }]:item(), 1e-5)
    assert.equal("bf16", x:bfloat16():rotary().dtype)
  end)

  it("has a gradient, and refuses odd features", function()
    assert.is_true(flame.gradcheck(function(x) return x:rotary() end,
      { flame.randn({ 3, 4 }, { dtype = "f64" }) }))
    assert.falsy((pcall(flame.rotary, flame.ones(3, 5))))
    assert.falsy((pcall(flame.rotary, flame.ones(3, 4), flame.ones(3, 4))))
  end)
end)

describe("a linear layer in half types", function()
  local function half(x, t) return flame.tensor(x):to(t) end

  it("adds its bias before the sum is rounded", function()
    -- 257 is no bf16 and 2049 no f16: a sum that is rounded before the bias would lose 1
    for t, n in pairs { bf16 = 256, f16 = 2048 } do
      local x, w = half({ { n, 1 } }, t), half({ { 1, 1 }, { 1, -1 } }, t)
      assert.same({ { n + 2, n - 1 } }, flame.linear(x, w, half({ 1, 0 }, t)):totable())
    end
  end)

  it("is right for rows of any layout, and leaves f32 as it is", function()
    local x, w, b = flame.randn(6, 5, 4):bfloat16(), flame.randn(3, 4):bfloat16(),
      flame.randn(6):bfloat16()[{ { 1, 6, 2 } }]
    local function wide(v) return flame.linear(v:float(), w:float(), b:float()) end
    for _, v in ipairs { x, x[1], x:transpose(1, 2), x[{ {}, { 5, 1, -1 } }], x[{ {}, 2 }] } do
      local y = flame.linear(v, w, b)
      assert.equal("bf16", y.dtype)
      assert.truthy(y:float():allclose(wide(v), { rtol = 2 ^ -8, atol = 1e-6 }))
    end
    assert.equal("f32", flame.linear(x, w, b:float()).dtype)
    assert.same({ 3 }, flame.linear(x[1][1], w, b).shape)
    local none = flame.linear(x[1][1]:narrow(1, 1, 0), w:narrow(2, 1, 0), b)       -- no terms
    assert.same(b:totable(), none:totable())
    assert.falsy((pcall(flame.linear, x, w, b:narrow(1, 1, 2))))
  end)

  it("rounds once, whatever the sizes and places", function()
    local function check(dtype, x, w, b, what)
      local p, y = x:double():matmul(w:double():t()), flame.linear(x, w, b):double()
      local once = (p + b:double()):to(dtype):double()
      local twice = (p:to(dtype):double() + b:double()):to(dtype):double()
      local differ = once:ne(twice)
      local n, wrong = differ:sum():item(), (differ & y:ne(once)):sum():item()
      assert(wrong <= n // 16, ("%s %s: %d of %d are rounded twice"):format(dtype, what, wrong, n))
      return n
    end
    for _, dtype in ipairs { "bf16", "f16" } do
      local n = 0
      for _, size in ipairs { { 64, 3, 4 }, { 30, 7, 64 }, { 128, 2, 3072 }, { 500, 9, 20 },
        { 40, 100, 12 }, { 300, 257, 260 }, { 16, 128, 4 }, { 33, 16, 8 }, { 4200, 264, 4 } } do
        local rows, columns, terms = table.unpack(size)
        local x, w = flame.randn(rows, terms):to(dtype),
          (flame.randn(columns, terms) / math.sqrt(terms)):to(dtype)
        n = n + check(dtype, x, w, flame.randn(columns):to(dtype), table.concat(size, " "))
      end
      local wide, bias = flame.randn(40, 33):to(dtype), flame.randn(25):to(dtype)
      -- addresses that are not multiples of 16 bytes
      flame.eval(wide, bias)
      local w = flame.randn(24, 16):to(dtype)
      n = n + check(dtype, wide[{ {}, { 2, 17 } }], w, bias[{ { 2, 25 } }], "rows and bias inside")
      n = n + check(dtype, wide[{ {}, { 1, 32, 2 } }], w, bias[{ { 1, 24 } }], "every other")
      n = n + check(dtype, wide[{ {}, { 1, 32 } }]:reshape(40, 2, 16):transpose(1, 2), w,
        bias[{ { 1, 24 } }], "batches of rows")
      assert(n > 1000, n)
    end
  end)

  it("has the gradients of a product and of a sum over rows", function()
    local x, w, b = flame.randn(2, 7, 4):bfloat16(), flame.randn(3, 4):bfloat16(),
      flame.randn(3):bfloat16()
    local g = flame.randn(2, 7, 3):bfloat16()
    local function gradients(...)
      local p = {}
      for i, v in ipairs { ... } do p[i] = v:detach():requires_grad_() end
      flame.linear(p[1], p[2], p[3]):backward(g:to(p[1].dtype))
      return p[1].grad, p[2].grad, p[3].grad
    end
    local half_ones = { gradients(x, w, b) }
    for i, v in ipairs { gradients(x:float(), w:float(), b:float()) } do
      assert.equal("bf16", half_ones[i].dtype)
      assert.truthy(half_ones[i]:float():allclose(v, { rtol = 2 ^ -8, atol = 1e-5 }), "input " .. i)
    end
  end)

  it("gives the same bits evaluated alone and with what reads it", function()
    local x, w, b = flame.randn(33, 40):bfloat16(), flame.randn(50, 40):bfloat16(),
      flame.randn(50)
    local function run(each)
      local y = flame.linear(x, w, (b * 2):bfloat16())
      if each then flame.eval(y) end
      return (y:gelu("tanh") + y):totable()
    end
    assert.same(run(true), run(false))
  end)
end)
