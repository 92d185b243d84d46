--- The tanh form of gelu and cross entropy, which have handwritten gradients: values and gradients
-- are compared with formulas in Lua's numbers, in each float dtype.
local flame = require "flame"

local HALF = { f64 = 2e-15, f32 = 2e-6, f16 = 2e-3, bf16 = 1.2e-2 }
local FLOATS = { "f64", "f32", "f16", "bf16" }

local function w_of(v) return 1.5957691216057308 * v + 0.07135481627260025 * v ^ 3 end
local function sigmoid(v) return 1 / (1 + math.exp(-v)) end
local function slope_of(v)
  local w = w_of(v)
  return sigmoid(w) * (1 + v * (1.5957691216057308 + 0.21406444881780073 * v * v) * sigmoid(-w))
end

local function numbers(x) return x:detach():double():reshape(-1):totable() end

describe("gelu in its tanh form", function()
  it("has the values and the slope of its definition in each dtype", function()
    for _, dtype in ipairs(FLOATS) do
      local x = flame.linspace(-9, 9, 1001):to(dtype):requires_grad_()
      local y = x:gelu("tanh")
      y:backward(flame.full({ 1001 }, 3, { dtype = dtype }))
      local at, value, slope = numbers(x), numbers(y), numbers(x.grad)
      for i, v in ipairs(at) do
        local want = v * sigmoid(w_of(v))
        assert.close(want, value[i], HALF[dtype] * math.max(math.abs(want), 1e-3))
        assert.close(3 * slope_of(v), slope[i], 4 * HALF[dtype])
      end
    end
  end)

  it("is x times a gate at the ends: NaN at -inf, where the gate is 0", function()
    local x = flame.tensor({ -1 / 0, 1 / 0, 0 / 0, -1e30, 1e30, -0.0 }):requires_grad_()
    local y = x:gelu("tanh")
    y:sum():backward()
    local v, d = numbers(y), numbers(x.grad)
    assert.same({ 1 / 0, 0, 1 }, { v[2], v[4], v[5] / 1e30 > 0.9999 and 1 or v[5] })
    assert.is_true(v[1] ~= v[1] and v[3] ~= v[3] and 1 / v[6] == -1 / 0)
    assert.same({ 0, 1, 0, 1, 0.5 }, { d[1], d[2], d[4], d[5], d[6] })
  end)

  it("differentiates twice", function()
    local x = flame.linspace(-4, 4, 41, { dtype = "f64" }):requires_grad_()
    local g = x:gelu("tanh"):sum():gradients({ x }, { create_graph = true })[x]
    local h = g:sum():gradients({ x })[x]
    for i, v in ipairs(numbers(x)) do
      local e = 1e-5
      assert.close((slope_of(v + e) - slope_of(v - e)) / (2 * e), numbers(h)[i], 1e-8)
    end
  end)

  it("keeps its input alone for the gradient", function()
    local x = flame.randn(1000):requires_grad_()
    flame.eval(x)
    local y = x:gelu("tanh")
    flame.stats("reset")
    flame.eval(y)
    assert.equal(8 * 1000, flame.stats().bytes_moved)
  end)
end)

--- The weighted cross entropy of each row of logits, its derivatives with respect to each element,
-- and the sum of the rows' weights; rows whose label is 'ignore' have loss and weight 0.
local function by_hand(rows, ids, ignore, weight)
  local losses, shares, total = {}, {}, 0
  for r, row in ipairs(rows) do
    local sum, most = 0, math.max(table.unpack(row))
    for _, v in ipairs(row) do sum = sum + math.exp(v - most) end
    local k = ids[r] ~= ignore and (weight and weight[ids[r]] or 1) or 0
    losses[r] = k == 0 and 0 or k * (math.log(sum) - (row[ids[r]] - most))
    total, shares[r] = total + k, {}
    for c, v in ipairs(row) do
      shares[r][c] = k * (math.exp(v - most) / sum - (c == ids[r] and 1 or 0))
    end
  end
  return losses, shares, total
end

describe("cross entropy", function()
  it("has the values and gradients of its definition in each dtype", function()
    for _, dtype in ipairs(FLOATS) do
      for _, classes in ipairs { 1, 5, 33 } do
        for _, weighted in ipairs { false, true } do
          local x = (flame.randn(7, classes) * 3):to(dtype):requires_grad_()
          local w = flame.rand(classes) + 0.5
          local t = flame.randint({ 7 }, 1, classes)
          flame.eval(x, t, w)
          local loss = flame.cross_entropy(x, t,
            { ignore_index = 1, reduction = "sum", weight = weighted and w or nil })
          loss:mul(2):backward()
          local losses, shares = by_hand(x:detach():double():totable(), t:totable(), 1,
            weighted and w:totable())
          local sum = 0
          for _, v in ipairs(losses) do sum = sum + v end
          assert.close(sum, loss:item(), HALF[dtype] * 10 * math.max(1, math.abs(sum)))
          local g = x.grad:double():totable()
          for r = 1, 7 do
            for c = 1, classes do assert.close(2 * shares[r][c], g[r][c], HALF[dtype] * 8) end
          end
        end
      end
    end
  end)

  it("differentiates twice as a composition of log_softmax and gather does", function()
    local x = flame.randn(5, 6, { dtype = "f64" }):requires_grad_()
    local t = flame.randint({ 5 }, 1, 6)
    local function twice(f)
      local g = f(x):gradients({ x }, { create_graph = true })[x]
      return (g * g):sum():gradients({ x })[x]
    end
    assert.allclose(twice(function(v)
      return -v:log_softmax(2):gather(2, t:unsqueeze(2)):mean()
    end), twice(function(v) return flame.cross_entropy(v, t) end), { atol = 1e-12 })
  end)

  it("reads the logits twice and writes their gradient once", function()
    local x, t = flame.randn(64, 500):to("bf16"), flame.randint({ 64 }, 1, 500)
    flame.eval(x, t)
    x:requires_grad_()
    flame.stats("reset")
    local loss = flame.cross_entropy(x:float(), t)
    loss:backward()
    loss = loss:detach()
    flame.eval(loss, x.grad)
    assert.is_true(flame.stats().launches <= 4)
    assert.is_true(flame.stats().bytes_moved <= 6 * 64 * 500 + 64 * 80 + 100,
      flame.stats().bytes_moved .. " bytes")
  end)
end)
