-- Groups that are moved to a later stage with their readers: what waits for a number of all rows
-- joins the kernel of the rows, and reads them once.
local flame = require "flame"

local rows <const>, classes <const> = 64, 3000
local bytes <const> = rows * classes * 4

--- Bytes that one evaluation of f moves, and its results as lists; the same ops one by one give the
--- same bits.
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
