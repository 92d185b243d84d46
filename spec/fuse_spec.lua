-- Operations that go in one trip on the CPU give the bits that they give one by one.
local flame = require "flame"

local function same_bits(want, got)
  local a, b = want:flatten():totable(), got:flatten():totable()
  assert.equal(#a, #b)
  for i = 1, #a do
    if not (a[i] == b[i] and 1 / a[i] == 1 / b[i] or a[i] ~= a[i] and b[i] ~= b[i]) then
      error(("element %d: %a, not %a"):format(i, b[i], a[i]), 2)
    end
  end
end

local ops = {
  add = function(a, b) return a + b end,
  sub = function(a, b) return a - b end,
  rsub = function(a, b) return b - a end,
  mul = function(a, b) return a * b end,
}

--- f(stop), with every step evaluated by itself (stop evaluates) and all at once.
local function compare(f)
  local want = f(function(t) flame.eval(t) return t end)
  local got = f(function(t) return t end)
  flame.eval(want, got)
  same_bits(want, got)
end

describe("operations of one trip", function()
  flame.default_device("cpu")
  for _, dtype in ipairs { "f32", "f64" } do
    it("pair sums, differences and products of any length in " .. dtype, function()
      flame.seed(3)
      for _, n in ipairs { 1, 3, 7, 8, 17, 63, 1000, 1025, 5003 } do
        local x, y, z = flame.randn(n, { dtype = dtype }), flame.randn(n, { dtype = dtype }), flame.randn(n, { dtype = dtype })
        for _, first in pairs(ops) do
          for _, second in pairs(ops) do
            compare(function(stop) return second(stop(first(x, y)), z) end)
            compare(function(stop) return second(stop(first(x, 1.5)), z) end)
            compare(function(stop) return second(stop(first(x, y)), -0.1) end)
            compare(function(stop) return second(stop(first(2, x)), 0.3) end)
          end
        end
      end
    end)

    it("take values of a row and of a column in " .. dtype, function()
      flame.seed(4)
      for _, shape in ipairs { { 5, 64 }, { 33, 100 }, { 40, 129 }, { 9, 1000 }, { 3, 5000 } } do
        local m, n = shape[1], shape[2]
        local x, y = flame.randn(m, n, { dtype = dtype }), flame.randn(m, n, { dtype = dtype })
        local column = flame.randn(n, { dtype = dtype })
        for axis = 1, 2 do
          compare(function(stop)
            local mean = stop(x:sum(axis, true))
            local centred = stop(x - mean)
            local sum = stop(stop(centred * y):sum(axis, true))
            return stop(stop(stop(centred * sum) * column) + y) - mean
          end)
          compare(function(stop) return stop(stop(x * y):sum(axis)) end)
          compare(function(stop) return stop(stop(x - column):square():sum(axis)) end)
        end
        compare(function(stop) return stop(x * y):sum() end)
      end
    end)
  end

  it("sum a broadcast negative with the sign of zero that it had", function()
    local x = flame.tensor({ { 1, -1 }, { 2, 3 } })
    local c = flame.tensor({ { 0.5 }, { 0.25 } }, { requires_grad = true })
    local y = x - c
    y:backward(flame.tensor({ { 1, -1 }, { 2, 3 } }))
    assert.same({ { 0 }, { -5 } }, c.grad:totable())
    assert.equal(math.huge, 1 / c.grad:totable()[1][1])
  end)
end)
