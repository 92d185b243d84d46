--- edit_distance against a recursion in plain Lua: lengths from 0 on, several rows, alphabets.
local flame = require "flame"
local helper = require "spec.support.helper"

--- The edit distance between the first i elements of x and the first j of y, by its definition.
local function distance(x, y, i, j, seen)
  if i == 0 or j == 0 then return math.max(i, j) end
  local key = i * 1000 + j
  seen[key] = seen[key] or math.min(distance(x, y, i - 1, j, seen) + 1,
    distance(x, y, i, j - 1, seen) + 1,
    distance(x, y, i - 1, j - 1, seen) + (x[i] == y[j] and 0 or 1))
  return seen[key]
end

local function ids(n, letters)
  local list = {}
  for i = 1, n do list[i] = math.random(letters) end
  return list
end

describe("edit_distance", function()
  it("of two sequences is that of its definition", function()
    for _ = 1, 60 do
      local x, y = ids(math.random(1, 12), 3), ids(math.random(1, 12), 3)
      local got = flame.edit_distance(flame.tensor(x, { dtype = "i64" }),
        flame.tensor(y, { dtype = "i32" }))
      assert.same({}, got.shape)
      assert.equal(distance(x, y, #x, #y, {}), got:item())
    end
  end)

  it("of rows takes as much of each as its length says", function()
    for _ = 1, 20 do
      local rows, n, m = math.random(1, 40), math.random(0, 9), math.random(0, 9)
      local x, y = flame.randint({ rows, n }, 1, 4), flame.randint({ rows, m }, 1, 4)
      local a, b = ids(rows, n + 1), ids(rows, m + 1)
      for i = 1, rows do a[i], b[i] = a[i] - 1, b[i] - 1 end
      local got = flame.edit_distance(x, y, { x_lengths = a, y_lengths = flame.tensor(b) })
      local p, q = x:totable(), y:totable()
      for i = 1, rows do assert.equal(distance(p[i], q[i], a[i], b[i], {}), got[i]:item()) end
    end
  end)

  it("has no pairs, or one length for all", function()
    local none = flame.zeros({ 0, 3 }, { dtype = "i64" })
    assert.same({ 0 }, flame.edit_distance(none, none).shape)
    local x = flame.tensor({ { 1, 2, 3 }, { 3, 2, 1 } }, { dtype = "i64" })
    assert.same({ 2, 2 }, x:edit_distance(x:flip(1), { x_lengths = 2, y_lengths = 3 }):totable())
  end)

  it("says what does not fit", function()
    local x = flame.tensor({ { 1, 2 }, { 3, 4 } }, { dtype = "i64" })
    local raises = helper.raises
    raises("edit_distance: x is f32, need integers", flame.edit_distance, flame.ones(2), x)
    raises("edit_distance: x has shape (2, 2), y (1, 2), need as many rows", flame.edit_distance, x,
      x:narrow(1, 1, 1))
    raises("edit_distance: y_lengths has 1 numbers, y 2 rows", flame.edit_distance, x, x,
      { y_lengths = { 1 } })
    raises("y_lengths[2] is 3, need 0 to 2", function()
      return flame.edit_distance(x, x, { y_lengths = { 2, 3 } }):totable()
    end)
  end)
end)
