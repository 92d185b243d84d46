-- Work that needs a number made of all rows joins another kernel over the same rows, which is then
-- done later, so that the rows are read once (src/plan/raise.c).
local flame = require "flame"

local rows <const>, classes <const> = 64, 3000
local bytes <const> = rows * classes * 4

--- The bytes that one evaluation of f's results moves. Checks that the results are the same where
--- each op is evaluated by itself.
local function moved(f)
  local expected = table.pack(f(function(t) flame.eval(t); return t end))
  for i = 1, expected.n do expected[i] = expected[i]:totable() end
  local all = table.pack(f(function(t) return t end))
  flame.stats("reset")
  flame.eval(table.unpack(all))
  local got = flame.stats().bytes_moved
  for i = 1, all.n do assert.same(expected[i], all[i]:totable()) end
  return got
end

local function logits()
  local x, t = flame.randn(rows, classes), flame.randint({ rows + 1 }, 1, classes)
  t[3] = -100
  flame.eval(x, t)
  return x:requires_grad_(true), t
end

describe("the gradient of a classifier's logits", function()
  it("is made with the rows that its loss sums: they are read once and written once", function()
    local x, t = logits()
    for _, of in ipairs { function() return t:narrow(1, 1, rows) end,
      function() return t:narrow(1, 2, rows) end } do
      local got = moved(function(e)
        local loss = e(flame.cross_entropy(x, of()))
        return loss, loss:gradients({ x })[x]
      end)
      assert.is_true(got >= 2 * bytes and got < 2.1 * bytes, got)
    end
  end)

  it("has the bits of the ops one by one, in each dtype, of logits evaluated or made", function()
    local a, w = flame.randn(rows, 8), flame.randn(8, 1500)
    local t, rate = flame.randint({ rows }, 1, 1500), flame.rand(1500) + 0.5
    t[3], t[9] = -100, -100
    flame.eval(a, w, t, rate)
    for _, dtype in ipairs { "f64", "f32", "f16", "bf16" } do
      for _, o in ipairs { {}, { label_smoothing = 0.1 }, { weight = rate:to(dtype) },
        { reduction = "sum" }, { ignore_index = 7 } } do
        for _, made in ipairs { true, false } do
          for _, keep in ipairs { true, false } do
            local labels = o.ignore_index and t:clamp(1) or t
            moved(function(e)
              local v = w:to(dtype):detach():requires_grad_(true)
              local x = a:to(dtype):matmul(v)
              if not made then flame.eval(x) end
              local loss = e(flame.cross_entropy(x, labels, o))
              local g = loss:gradients({ v, x })
              if keep then return loss, g[v], g[x] end
              return g[v]
            end)
          end
        end
      end
    end
  end)

  it("of no rows is empty, and of ignored rows NaN", function()
    local x = flame.zeros(0, classes):requires_grad_(true)
    local loss = flame.cross_entropy(x, flame.zeros(0, { dtype = "i64" }))
    assert.same({ 0, classes }, loss:gradients({ x })[x].shape)
    local y = flame.randn(rows, classes):requires_grad_(true)
    loss = flame.cross_entropy(y, flame.full({ rows }, -100, { dtype = "i64" }))
    local g = loss:gradients({ y })[y]
    flame.eval(loss, g)
    assert.is_true(loss:isnan():item())
    assert.is_true(g:eq(0):all():item())
  end)

  it("with labels that have to be copied first", function()
    local x = flame.randn(rows, classes):requires_grad_(true)
    local t = flame.randint({ 8, 9 }, 1, classes)
    flame.eval(x, t)
    local got = moved(function(e)
      local loss = e(flame.cross_entropy(x, t:narrow(2, 2, 8):reshape(-1)))
      return loss, loss:gradients({ x })[x]
    end)
    assert.is_true(got >= 2 * bytes and got < 2.1 * bytes, got)
  end)

  it("not where what it waits for rests on the rows", function()
    local x, t = logits()
    local got = moved(function(e)
      local each = e(flame.cross_entropy(x, t:narrow(1, 1, rows), { reduction = "none" }))
      local loss = e((each / e(each:detach():amax())):sum())
      return loss, loss:gradients({ x })[x]
    end)
    assert.is_true(got >= 3 * bytes, got)
  end)
end)

describe("work that waits for a number", function()
  it("is moved with a chain of readers", function()
    local x, m = flame.randn(rows, classes), flame.randn(rows)
    flame.eval(x, m)
    moved(function(e)
      local most = e(x:amax(2))
      local a = e(most:sum())                       -- a reader, which others read
      local b = e(e(most * a):sum())
      local count = e(e(m:gt(0)):float():sum())
      local y = e(x / e(most:unsqueeze(2) * count))
      return b, y, e(y:sum(1) * b)
    end)
  end)

  it("stays where one of its readers is a product", function()
    local x, w, m = flame.randn(rows, classes), flame.randn(rows, rows), flame.randn(rows)
    flame.eval(x, w, m)
    moved(function(e)
      local most = e(x:amax(2))
      local product = e(w:matmul(most))
      local count = e(e(m + product:sum()):gt(0):float():sum())
      return e(x / e(most:unsqueeze(2) * (1 + count))), product
    end)
  end)
end)
