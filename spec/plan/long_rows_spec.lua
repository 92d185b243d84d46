-- Long rows with values that depend on the row alone. A thread of a GPU computes these once for
-- several vectors (cuda/text/text_map.c), and again if its vectors are in two rows. Results are
-- compared with the formula in Lua's numbers, at positions in all parts of the rows.
local flame = require "flame"

--- Positions in a row of n: its ends, both sides of where a GPU's block ends, and some between.
local function places(n)
  local list = {}
  for _, p in ipairs { 1, 2, 7, 8, 9, 2047, 2048, 2049, 8192, 8193, n // 2, n - 8, n - 1, n } do
    if p >= 1 and p <= n then list[#list + 1] = p end
  end
  return list
end

describe("rows of many elements", function()
  for _, n in ipairs { 8192, 10007, 40000, 50304 } do
    for _, dtype in ipairs { "f32", "bf16" } do
      it(("have the gradient of cross entropy, %d %s"):format(n, dtype), function()
        flame.seed(n)
        local rows, ignored = 5, 3
        local x = (flame.randn(rows, n) * 3):to(dtype):requires_grad_()
        local labels = flame.tensor({ 1, n, 17, n // 2, 9 }, { dtype = "i64" })
        flame.eval(x, labels)
        flame.cross_entropy(x, labels, { ignore_index = 17 }):backward()
        local values, got = x:detach():to("f64"):totable(), x.grad:to("f64"):totable()
        for r, label in ipairs(labels:totable()) do
          local top, sum = math.max(table.unpack(values[r], 1, 2)), 0
          for _, v in ipairs(values[r]) do top = math.max(top, v) end
          for _, v in ipairs(values[r]) do sum = sum + math.exp(v - top) end
          for _, p in ipairs(places(n)) do
            local want = (math.exp(values[r][p] - top) / sum - (p == label and 1 or 0)) / (rows - 1)
            if r == ignored then want = 0 end
            assert.near(want, got[r][p], math.abs(want) * (dtype == "f32" and 1e-5 or 6e-3) + 1e-12)
          end
        end
      end)

      it(("take rows of a table, changed by numbers of a row, %d %s"):format(n, dtype), function()
        flame.seed(n)
        local table_ = flame.randn(6, n):to(dtype)
        local at = flame.tensor({ 4, 1, 6, 6, 2, 3, 5 }, { dtype = "i64" })
        local scale, shift = flame.randn(7, 1):to(dtype), flame.randn(7, 1):to(dtype)
        flame.eval(table_, at, scale, shift)
        local y = table_:index_select(1, at):to("f32") * scale:to("f32"):exp()
          - shift:to("f32"):tanh()
        local got, from = y:totable(), table_:to("f32"):totable()
        local by, less = scale:to("f32"):totable(), shift:to("f32"):totable()
        for r, place in ipairs(at:totable()) do
          for _, p in ipairs(places(n)) do
            local a, s = from[place][p] * math.exp(by[r][1]), less[r][1]
            local want = a - (1 - 2 / (math.exp(2 * s) + 1))
            assert.near(want, got[r][p], (math.abs(a) + 1) * 1e-6)
          end
        end
      end)
    end
  end
end)
