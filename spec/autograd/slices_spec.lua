-- The gradients of slices of one value are collected, and joined into one gradient if the slices
-- cover the value (autograd/tiles.c). It is compared with sums of weights computed in Lua.
local flame = require "flame"

local function numbers(x) return x:detach():cpu():double():totable() end

--- Two tables: the gradient of x for total = sum over slices of x of (slice * weight):sum(), and
--- the gradient expected, the sum of the weights of each element. 'cuts' lists the slices as
--- {axis, first, count[, step]}; with(x, want) may add to the total and to what is expected.
local function both(rows, columns, cuts, with)
  local want = {}
  for r = 1, rows do
    want[r] = {}
    for c = 1, columns do want[r][c] = 0 end
  end
  local x = flame.ones(rows, columns):requires_grad_(true)
  local total = 0
  for k, cut in ipairs(cuts) do
    local axis, first, count, step = cut[1], cut[2], cut[3], cut[4] or 1
    local last = first + (count - 1) * step
    local part = axis == 1 and x[{ { first, last, step } }] or x[{ {}, { first, last, step } }]
    local weight = flame.arange(1, part:numel(), { dtype = "f32" }):reshape(part.shape) * k
    total = total + (part * weight):sum()
    for r = 1, part.shape[1] do
      for c = 1, part.shape[2] do
        local at = first + ((axis == 1 and r or c) - 1) * step
        local i, j = axis == 1 and at or r, axis == 1 and c or at
        want[i][j] = want[i][j] + ((r - 1) * part.shape[2] + c) * k
      end
    end
  end
  if with then total = total + with(x, want) end
  total:backward()
  return numbers(x.grad), want
end

describe("the gradient of a value that is read by slices", function()
  local cases = {
    ["divides it, in order"] = { { 2, 1, 2 }, { 2, 3, 1 }, { 2, 4, 3 } },
    ["divides it, backwards"] = { { 2, 4, 3 }, { 2, 3, 1 }, { 2, 1, 2 } },
    ["divides it, in any order"] = { { 1, 3, 1 }, { 1, 1, 1 }, { 1, 4, 1 }, { 1, 2, 1 } },
    ["leaves a gap"] = { { 2, 1, 2 }, { 2, 5, 2 } },
    ["overlaps"] = { { 2, 1, 4 }, { 2, 3, 4 } },
    ["has as many elements as the value and overlaps"] = { { 1, 1, 2 }, { 1, 2, 2 } },
    ["goes along both axes"] = { { 1, 1, 2 }, { 2, 1, 3 }, { 1, 3, 2 }, { 2, 4, 3 } },
    ["has steps"] = { { 2, 1, 3, 2 }, { 2, 2, 3, 2 } },
    ["is one slice of all"] = { { 1, 1, 4 } },
    ["repeats a slice"] = { { 1, 1, 2 }, { 1, 1, 2 }, { 1, 3, 2 } },
  }
  for name, cuts in pairs(cases) do
    it(name, function()
      local got, want = both(4, 6, cuts)
      assert.same(want, got)
    end)
  end

  it("has what reads the whole as well", function()
    local got, want = both(4, 6, cases["divides it, in order"], function(x, sums)
      for i = 1, 4 do for j = 1, 6 do sums[i][j] = sums[i][j] + 0.5 end end
      return (x * 0.5):sum()
    end)
    assert.same(want, got)
  end)

  it("is the same where slices leave out the axis", function()
    local x = flame.ones(3, 2):requires_grad_(true)
    local r = x:unbind(1)
    ;(r[3] * 3 + r[1] + r[2] * 2):sum():backward()
    assert.same({ { 1, 1 }, { 2, 2 }, { 3, 3 } }, numbers(x.grad))
  end)

  it("reaches a value between, with its hooks, and more than one node joins", function()
    local x, seen = flame.ones(600):requires_grad_(true), nil
    local y = x * 2
    y:register_hook(function(g) seen = numbers(g) end)
    local total = 0
    for i, v in ipairs(y:unbind(1)) do total = total + v * i end
    total:backward()
    local want = {}
    for i = 1, 600 do want[i] = i end
    assert.same(want, seen)
    assert.equal(1200, x.grad[600]:item())
  end)

  it("has gradients itself", function()
    local x = flame.tensor({ 1, 2, 3, 4 }, { dtype = "f64" }):requires_grad_(true)
    local a, b = table.unpack(x:chunk(2, 1))
    local g = (a * a * b):sum():gradients({ x }, { create_graph = true })[x]
    assert.same({ 6, 16, 1, 4 }, numbers(g))
    g:sum():backward()                        -- 2 b + 2 a, then 2 a
    assert.same({ 8, 12, 2, 4 }, numbers(x.grad))
  end)

  it("is that of a thousand rows in any order, in each dtype", function()
    local n, order = 1000, {}
    for i = 1, n do order[i] = i * 7 % n + 1 end
    for _, dtype in ipairs { "f64", "f32", "f16", "bf16" } do
      local x = flame.ones(n, 2, { dtype = dtype }):requires_grad_(true)
      local groups, want = {}, {}
      for k, i in ipairs(order) do
        local part = x[i] * (k % 5)
        groups[k % 9 + 1] = groups[k % 9 + 1] and groups[k % 9 + 1] + part or part
        want[i] = { k % 5, k % 5 }
      end
      local total = 0
      for _, v in ipairs(groups) do total = total + v:sum() end
      total:backward()
      assert.equal(dtype, x.grad.dtype)
      assert.same(want, numbers(x.grad))
    end
  end)

  it("does not depend on what is evaluated between", function()
    local function gradient(evaluate)
      local x = flame.linspace(-1, 1, 12):reshape(3, 4):requires_grad_(true)
      local a, b = table.unpack((x * 1.5):chunk(2, 2))
      if evaluate then
        for _, v in ipairs { a, b } do v:register_hook(function(g) flame.eval(g) end) end
      end
      (a:sigmoid() * b:tanh()):sum():backward()
      return numbers(x.grad)
    end
    assert.same(gradient(false), gradient(true))
  end)

  it("records two nodes for each of the slices that divide it, at most", function()
    local function recorded(n)
      local x = flame.ones(n, 3):requires_grad_(true)
      local total = 0
      for _, v in ipairs(x:unbind(1)) do total = total + v end
      total = total:sum()
      flame.stats("reset")
      total:backward()
      return flame.stats().recorded
    end
    assert.equal(recorded(8) - recorded(4), recorded(12) - recorded(8))
    assert.is_true(recorded(12) - recorded(8) <= 8)
  end)
end)
