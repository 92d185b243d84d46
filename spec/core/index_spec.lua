local flame = require "flame"

local helper = require "spec.support.helper"
local fails = helper.says
local function ids(t) return flame.tensor(t, { dtype = "i64" }) end
local function grid() return flame.arange(12.0):reshape(3, 4):clone() end  -- rows 1..4, 5..8, 9..12

describe("reading x[…]", function()
  it("takes a position of the first axis, from either end", function()
    local x = grid()
    assert.same({ 5, 6, 7, 8 }, x[2]:totable())
    assert.same({ 9, 10, 11, 12 }, x[-1]:totable())
    assert.same({ 5, 6, 7, 8 }, x[2.0]:totable())
  end)
  it("takes one position an axis", function()
    local x = grid()
    assert.equal(7, x[{ 2, 3 }]:item())
    assert.equal(12, x[{ -1, -1 }]:item())
    assert.same({}, x[{ 2, 3 }].shape)
    assert.same({ 5, 6, 7, 8 }, x[{ 2 }]:totable())
  end)
  it("takes ranges, which keep the axis", function()
    local x = grid()
    assert.same({ { 5, 6, 7, 8 }, { 9, 10, 11, 12 } }, x[{ { 2, 3 }, {} }]:totable())
    assert.same({ { 6, 7 } }, x[{ { 2 }, { 2, 3 } }]:totable())
    assert.same({ { 1, 3 }, { 5, 7 }, { 9, 11 } }, x[{ {}, { 1, -1, 2 } }]:totable())
    assert.same({ { 4, 3, 2, 1 } }, x[{ { 1 }, { -1, 1, -1 } }]:totable())
    assert.same({ 2, 6, 10 }, x[{ {}, 2 }]:totable())
    assert.same({ 0, 4 }, x[{ { 2, 1 } }].shape)
  end)
  it("does the same by a call", function()
    local x = grid()
    assert.same({ 5, 7 }, x(2, { 1, -1, 2 }):totable())
    assert.equal(7, x(2, 3):item())
    assert.same({ 3, 4 }, x().shape)
  end)
  it("takes an index tensor, of any shape and integer dtype", function()
    local x = grid()
    assert.same({ { 9, 10, 11, 12 }, { 1, 2, 3, 4 } }, x[ids({ 3, 1 })]:totable())
    assert.same({ { 12 }, { 4 } }, x[ids({ -1, 1 })][{ {}, { 4 } }]:totable())
    assert.same({ 2, 2, 4 }, x[ids({ { 1, 2 }, { 3, 3 } })].shape)
    assert.same({ { 4, 1 }, { 8, 5 }, { 12, 9 } }, x[{ {}, ids({ 4, 1 }) }]:totable())
    assert.same({ { 5, 6, 7, 8 } }, x[flame.tensor({ 2 }, { dtype = "u8" })]:totable())
    assert.same({ 5, 6, 7, 8 }, x[flame.tensor(2, { dtype = "i32" })]:totable())
  end)
  it("broadcasts several index tensors together", function()
    local x = grid()
    assert.same({ 1, 6, 11 }, x[{ ids({ 1, 2, 3 }), ids({ 1, 2, 3 }) }]:totable())
    assert.same({ { 1, 3 }, { 9, 11 } }, x[{ ids({ { 1 }, { 3 } }), ids({ 1, 3 }) }]:totable())
    local y = flame.arange(24.0):reshape(2, 3, 4)
    assert.same({ 2, 3 }, y[{ ids({ 1, 2 }), {}, ids({ 1, 4 }) }].shape)
    assert.same({ { 1, 5, 9 }, { 16, 20, 24 } }, y[{ ids({ 1, 2 }), {}, ids({ 1, 4 }) }]:totable())
    assert.same({ { 1, 6 }, { 13, 18 } }, y[{ {}, ids({ 1, 2 }), ids({ 1, 2 }) }]:totable())
    assert.same({ 13, 18 }, y[{ 2, ids({ 1, 2 }), ids({ 1, 2 }) }]:totable())
  end)
  it("takes masks of one or more axes", function()
    local x = grid()
    assert.same({ 11, 12 }, x[x:gt(10)]:totable())
    assert.same({ { 1, 2, 3, 4 }, { 9, 10, 11, 12 } },
      x[flame.tensor({ true, false, true })]:totable())
    assert.same({ { 2, 3 }, { 6, 7 }, { 10, 11 } },
      x[{ {}, flame.tensor({ false, true, true, false }) }]:totable())
    assert.same({ 0 }, x[x:gt(100)].shape)
    assert.same({ 11, 12 }, x:masked_select(x:gt(10)):totable())
    assert.same({ { 1, 1 }, { 1, 2 } }, x:le(2):nonzero():totable())
    assert.same({ { 2 }, { 3 } }, flame.tensor({ 0, 5, 6 }):nonzero():totable())
  end)
  it("narrows, selects and takes", function()
    local x = grid()
    assert.same({ { 2, 3 }, { 6, 7 }, { 10, 11 } }, x:narrow(2, 2, 2):totable())
    assert.same({ 3, 7, 11 }, x:select(2, 3):totable())
    assert.same({ 12, 1 }, x:take(ids({ -1, 1 })):totable())
    assert.same({ { 9, 10, 11, 12 }, { 1, 2, 3, 4 } }, x:index_select(1, ids({ 3, 1 })):totable())
    assert.same({ { 2, 1 }, { 8, 5 } }, x:gather(2, ids({ { 2, 1 }, { 4, 1 } })):totable())
  end)
  it("makes a new axis of one element where flame.newaxis stands", function()
    local new, x = flame.newaxis, flame.arange(24.0):reshape(2, 3, 4)
    math.randomseed(5)
    for _ = 1, 300 do
      local plain, key, shape = {}, {}, {}
      for d = 1, 3 do
        while math.random(3) == 1 and #shape < 6 do
          key[#key + 1], shape[#shape + 1] = new, 1
        end
        local item = ({ math.random(x.shape[d]), {}, { 2 }, { 1, 2 }, { -1, 1, -1 } })
          [math.random(5)]
        plain[d], key[#key + 1] = item, item
        if type(item) == "table" then
          shape[#shape + 1] = #item == 0 and x.shape[d] or #item == 1 and 1
            or #item == 2 and 2 or x.shape[d]
        end
      end
      local y = x[key]
      assert.is_true(y.shape == shape)
      assert.same(x[plain]:reshape(-1):totable(), y:reshape(-1):totable())
      assert.same(y:totable(), x(table.unpack(key)):totable())
      local target, other = x:clone(), x:clone()
      target[key], other[plain] = 7, 7
      assert.same(other:totable(), target:totable())
    end
    assert.equal("(1, 2, 3, 4)", tostring(x[new].shape))
    assert.equal("(2, 1, 3, 4)", tostring(x[{ {}, new }].shape))
    local first, last = flame.tensor({ 1, 2 }, { dtype = "i64" }), flame.tensor({ 3, 1 },
      { dtype = "i64" })
    assert.same({ { { 3, 7, 11 } }, { { 13, 17, 21 } } }, x[{ first, new, {}, last }]:totable())
    local w = flame.ones(3, { requires_grad = true })
    local total = (w[{ new, {} }] * flame.ones(4, 3)):sum()
    total:backward()
    assert.same({ 4, 4, 4 }, w.grad:totable())
  end)
  it("takes no nil for a new axis or a whole one", function()
    local x = flame.zeros(2, 3)
    local refused = helper.raises
    local needs = "got nil; write flame.newaxis for a new axis"
    refused(needs, function() return x[{ nil, 2 }] end)
    refused(needs, function() return x[{ {}, nil, 2 }] end)
    refused(needs, function() return x({}, nil) end)
    refused(needs, function() x[{ {}, nil, 2 }] = 1 end)
    local key = { {} }
    key[3] = 1
    refused("item 3 is there and item 2 is nil; write {} for a whole axis, flame.newaxis for a new one",
      function() return x[key] end)
    refused("a new axis makes 9 axes, at most 8",
      function() return flame.zeros(1, 1, 1, 1, 1, 1, 1, 1)[flame.newaxis] end)
    refused("index 9 is out of range for axis 2 with 3 elements",
      function() return x[{ flame.newaxis, 1, flame.newaxis, 9 }] end)
  end)
  it("differentiates through every form", function()
    local x = grid():requires_grad_(true)
    local y = x[2]:sum() + x[{ 1, 1 }] + x[ids({ 1, 1 })]:sum() + x[x:gt(11)]:sum()
    y:backward()
    assert.same({ { 3, 2, 2, 2 }, { 1, 1, 1, 1 }, { 0, 0, 0, 1 } }, x.grad:totable())
  end)
end)

describe("writing x[…] = v", function()
  it("writes numbers and tensors into every form", function()
    local x = flame.zeros(3, 4)
    x[{ 2, 3 }] = 5
    x[1] = flame.tensor({ 1, 2, 3, 4 })
    x[{ { 2, 3 }, 1 }] = flame.tensor({ 8, 9 })
    x[{ 3, { 2, 4, 2 } }] = 7
    assert.same({ { 1, 2, 3, 4 }, { 8, 0, 5, 0 }, { 9, 7, 0, 7 } }, x:totable())
    x[{ {}, { -1, 1, -1 } }] = flame.tensor({ 1, 2, 3, 4 })
    assert.same({ 4, 3, 2, 1 }, x[2]:totable())
  end)
  it("broadcasts the value", function()
    local x = flame.zeros(2, 2)
    x[{}] = flame.tensor({ 1, 2 })
    assert.same({ { 1, 2 }, { 1, 2 } }, x:totable())
    x[{ {}, 2 }] = flame.tensor({ 5 })
    assert.same({ { 1, 5 }, { 1, 5 } }, x:totable())
  end)
  it("writes through index tensors, where the last one wins", function()
    local x = flame.zeros(4)
    x[ids({ 2, 2, 4 })] = flame.tensor({ 1, 2, 3 })
    assert.same({ 0, 2, 0, 3 }, x:totable())
    local y = flame.zeros(2, 3)
    y[{ ids({ 1, 2 }), ids({ 3, 1 }) }] = 9
    assert.same({ { 0, 0, 9 }, { 9, 0, 0 } }, y:totable())
    y[{ 2, ids({ 2, 3 }) }] = flame.tensor({ 5, 6 })
    assert.same({ 9, 5, 6 }, y[2]:totable())
    local z = flame.zeros(2, 2, 2)
    z[{ ids({ 1, 2 }), {}, ids({ 1, 2 }) }] = flame.tensor({ { 1, 2 }, { 3, 4 } })
    assert.same({ { { 1, 0 }, { 2, 0 } }, { { 0, 3 }, { 0, 4 } } }, z:totable())
  end)
  it("writes through masks", function()
    local x = grid()
    x[x:gt(10)] = 0
    assert.same({ 9, 10, 0, 0 }, x[3]:totable())
    x[x:lt(3)] = flame.tensor({ 50, 0, 0, 60 })[{ { 1, 4 } }]
    assert.same({ 50, 0, 3, 4 }, x[1]:totable())
    assert.same({ 9, 10, 0, 60 }, x[3]:totable())
    x[flame.tensor({ false, true, false })] = -1
    assert.same({ -1, -1, -1, -1 }, x[2]:totable())
  end)
  it("scatters, adds and fills along an axis", function()
    local x = flame.zeros(2, 3)
    assert.same({ { 0, 0, 5 }, { 6, 0, 0 } },
      x:scatter(2, ids({ { 3 }, { 1 } }), flame.tensor({ { 5 },
      { 6 } })):totable())
    assert.same({ { 3, 0, 0 }, { 0, 0, 0 } },
      x:scatter_add(2, ids({ { 1, 1 } }), flame.tensor({ { 1, 2 } })):totable())
    assert.same({ { 3, 3, 3 }, { 0, 0, 0 } },
      x:index_add(1, ids({ 1, 1 }), flame.tensor({ { 1, 1, 1 }, { 2,
      2, 2 } })):totable())
    assert.same({ { 0, 4, 0 }, { 0, 4, 0 } }, x:index_fill(2, ids({ 2 }), 4):totable())
    assert.equal(0, x:sum():item())
    x:index_add_(1, ids({ 2 }), flame.ones(1, 3))
    assert.same({ 1, 1, 1 }, x[2]:totable())
    assert.same({ 7, 1 },
      flame.tensor({ 0, 1 }):masked_fill(flame.tensor({ true, false }), 7):totable())
  end)
  it("differentiates the write of a tracked value", function()
    local w = flame.tensor({ 2 }, { requires_grad = true })
    local x = flame.ones(3)
    x[2] = w * 3
    x:sum():backward()
    assert.same({ 3 }, w.grad:totable())
  end)
  it("leaves a snapshot taken before as it was", function()
    local x = flame.zeros(3)
    local before = x[{ { 1, 2 } }]
    flame.eval(before)
    x[1] = 9
    assert.same({ 0, 0 }, before:totable())
    assert.same({ 9, 0, 0 }, x:totable())
  end)
end)

describe("a bad index", function()
  it("is named with the range and the axis", function()
    local x = grid()
    local range = "(1 to 3, or -1 to -3)"
    fails("x[…]: index 4 is out of range for axis 1 with 3 elements " .. range,
      function() return x[4] end)
    fails("x[…]: index 0 is out of range for axis 1 with 3 elements " .. range,
      function() return x[0] end)
    fails("x[…]: index -4 is out of range for axis 1 with 3 elements " .. range,
      function() return x[-4] end)
    fails("x[…]: index 5 is out of range for axis 2 with 4 elements (1 to 4, or -1 to -4)",
      function() return x[{ 1, 5 }] end)
    fails("x[…]: index 5 is out of range for axis 2 with 4 elements (1 to 4, or -1 to -4)",
      function() return x[{ {}, { 2, 5 } }] end)
    local none = flame.zeros(0, 3)
    for key, index in pairs { [1] = 1, [-1] = -1, [{ { 2 } }] = 2, [{ { 1, 2 } }] = 2 } do
      fails(("x[…]: index %d is out of range for axis 1, which has no elements"):format(index),
        function() return none[key] end)
    end
    assert.same({ 0, 3 }, none[{ { 1, 0 } }].shape)
  end)
  it("can not be a long list, a float or too many", function()
    local x = grid()
    fails("x[…]: 4 positions for a tensor with 2 axes (a list of positions is an index tensor)",
      function() return x[{ 1, 2, 3, 4 }] end)
    fails("x[…]: 4 numbers for one axis: a list of positions is an index tensor",
      function() return x[{ { 1, 2, 3, 3 } }] end)
    fails("x[…]: a position must be an integer, got number 1.5 (a / b is a float, a // b an integer)",
      function()
        return x[1.5]
      end)
    fails("x[…]: an index tensor must hold integers, got f32"
      .. ": use :long() (arange(n / 2) is f32, as n / 2 is a float; arange(n // 2) is i64)",
      function() return x[flame.ones(2)] end)
    fails("x[…]: step 0 on axis 1", function() return x[{ { 1, 2, 0 } }] end)
    fails("x[…]: a mask of shape (2) does not cover axis 1 of (3, 4)",
      function() return x[flame.tensor({ true, true })] end)
    fails("x[…]: a key is a position, a range {first, last}, an index tensor or a mask, got boolean",
      function() return x[true] end)
  end)
  it("leaves the target unchanged in a write", function()
    local x = flame.zeros(2, { dtype = "i32" })
    fails("x[…]: 1.5 can not be stored in a tensor of i32", function() x[1] = 1.5 end)
    fails('x[…]: a value of f32 can not be stored in a tensor of i32: use to("i32") first',
      function() x[1] = flame.ones({}) end)
    assert.same({ 0, 0 }, x:totable())
  end)
  it("inside an index tensor is reported at the read, with the line that recorded it", function()
    local y = flame.ones(3):gather(1, ids({ 5 }))
    local recorded = debug.getinfo(1, "l").currentline - 1
    local e = helper.message(function() return y:item() end)
    assert.matches("index_spec.lua:" .. recorded .. ": gather: ", e)
    assert.matches("5", e)
    assert.matches("%(read at .*index_spec.lua:" .. recorded + 2 .. "%)$", e)
    assert.equal(2, (flame.ones(1) * 2):item())
  end)
end)

describe("of several positions out of range", function()
  local function tells(message, f, ...)
    helper.raises(message, f, ...)
  end
  it("the first is told, whichever thread comes to it first", function()
    local at = flame.arange(1, 100000, 1, { dtype = "i64" })
    local bad = flame.where(at:gt(70000), at * -9000000000, 1)
    for _ = 1, 3 do
      local x = flame.zeros(5):index_select(1, bad)
      tells("index -630009000000000 at position 70001 is out of range",
        function() return x:sum():item() end)
    end
  end)
  it("the first op is told, whether they are of one launch or not", function()
    local x, square = flame.arange(4.0), flame.ones(4, 4)
    flame.eval()
    for _ = 1, 3 do
      local a, b = x:index_select(1, ids { 1, 7 }), x:index_select(1, ids { 8, 1 })
      local c = square:matmul(square):index_select(1, ids { 9 })
      tells("index 7 at position 2", x.item, a:sum() + b:sum() + c:sum())
      -- each value has its own error
      tells("index 8 at position 1", function() return b:totable() end)
      tells("index 9 at position 1", function() return c:totable() end)
    end
  end)
end)

describe("a write at a position out of range, found when it runs,", function()
  local internal = flame.internal
  local good, bad = ids({ 2 }), ids({ 9 })
  local function line() return debug.getinfo(2, "l").currentline end
  --- The values of x after f has written to it out of range and the first read has raised. stored:
  --- x is evaluated before; budget: how many ops may be pending (recorded, not computed).
  local function after(f, stored, budget)
    local before = internal.budget(budget)
    local x = flame.zeros(3)
    if stored then flame.eval(x) end
    local at = f(x)
    local ok, why = pcall(x.totable, x)
    internal.budget(before)
    assert.is_false(ok)
    local told = at and ("index_spec.lua:%d: "):format(at) or "index_spec.lua:"
    assert.truthy(tostring(why):find(told, 1, true), tostring(why))
    assert.truthy(tostring(why):find("index 9 at position 1 is out of range", 1, true))
    return x:totable()
  end
  local function always(expected, f)
    for _, stored in ipairs { true, false } do
      for _, budget in ipairs { 1, 3, 1 << 20 } do
        assert.same(expected, after(f, stored, budget))
      end
    end
  end

  it("leaves the target what the writes before it made", function()
    always({ 1, 1, 1 }, function(x)
      x:add_(1)
      local at = line(); x[bad] = 5
      return at
    end)
    always({ 1, 5, 1 }, function(x)
      x:add_(1)
      x[good] = 5
      local at = line(); x[bad] = 6
      return at
    end)
  end)
  it("is as if it were not there for the writes after it", function()
    always({ 1, 1, 1 }, function(x)
      local at = line(); x[bad] = 5
      x:add_(1)
      return at
    end)
    always({ 2, 8, 2 }, function(x)
      x:add_(1)
      x[good] = 5
      local at = line(); x[bad] = 6
      x[good] = 7
      x:add_(1)
      return at
    end)
  end)
  it("is told once, the first of several", function()
    local function f(x)
      x:add_(1)
      local at = line(); x[bad] = 5
      x:add_(1); x[bad] = 6; x:add_(1)
      return at
    end
    for _, stored in ipairs { true, false } do
      assert.same({ 3, 3, 3 }, after(f, stored, 1 << 20))
    end
  end)
  it("leaves a target whose new value had nothing to do with it", function()
    local function f(x)
      local five = flame.arange(5.0)
      x:add_(1)
      local at = line(); x:copy_(five[bad]:expand(3))
      return at
    end
    for _, stored in ipairs { true, false } do
      assert.same({ 1, 1, 1 }, after(f, stored, 1 << 20))
    end
  end)
  it("does not spoil what was read from the target in between", function()
    local x = flame.zeros(3)
    flame.eval(x)
    x:add_(1)
    local first = x * 10
    x[bad] = 5
    local second = x * 10
    assert.is_false((pcall(x.totable, x)))
    assert.same({ 10, 10, 10 }, first:totable())
    assert.same({ 10, 10, 10 }, second:totable())
  end)
  it("keeps a tracked target tracked", function()
    local w = flame.tensor({ 1, 2, 3 }, { requires_grad = true })
    local x = w * 2
    x[bad] = 5
    assert.is_false((pcall(x.totable, x)))
    assert.same({ 2, 4, 6 }, x:totable())
    x:sum():backward()
    assert.same({ 2, 2, 2 }, w.grad:totable())
  end)
  it("leaves a leaf a leaf at its address", function()
    local w = flame.tensor({ 1, 2, 3 }, { requires_grad = true })
    flame.no_grad(function() w:add_(1); w[bad] = 5; w:mul_(2) end)
    assert.is_false((pcall(w.totable, w)))
    assert.same({ 4, 6, 8 }, w:totable())
    assert.is_true(w.is_leaf and w.requires_grad)
    local copies = flame.stats().copies
    flame.no_grad(function() w:add_(1) end)
    assert.same({ 5, 7, 9 }, w:totable())
    assert.equal(copies, flame.stats().copies)
  end)
end)

describe("a sum into places of a table", function()
  local function f32(v) return (string.unpack("f", string.pack("f", v))) end
  --- 'places' rows of zeros, after rows[i] was added to row at[i] for each i in order, rounded.
  local function summed(rows, at, places, width, round)
    local y = {}
    for p = 1, places do
      y[p] = {}
      for c = 1, width do y[p][c] = 0 end
    end
    for i, p in ipairs(at) do
      for c = 1, width do y[p][c] = round(y[p][c] + rows[i][c]) end
    end
    return y
  end

  for _, width in ipairs { 1, 3, 18, 40, 100 } do
    it("adds rows of " .. width .. " in the order of the index", function()
      local n = 36000 // width
      local at, x = flame.randint({ n }, 1, 11), flame.randn(n, width)
      local want = summed(x:totable(), at:totable(), 11, width, f32)
      assert.same(want, flame.zeros(11, width):index_add(1, at, x):totable())
      assert.same(want, flame.zeros(width, 11):index_add(2, at, x:t()):t():totable())
    end)
  end
  it("adds every dtype, half types with one rounding at the end", function()
    local n, width = 1200, 40
    local at = flame.randint({ n }, 1, 300)
    for _, dtype in ipairs { "f64", "f16", "bf16", "i64", "i32", "i16", "i8", "u8" } do
      local x = flame.randint({ n, width }, 0, 3):to(dtype)
      local want = summed(x:totable(), at:totable(), 300, width, function(v) return v end)
      assert.same(want,
        flame.zeros({ 300, width }, { dtype = dtype }):index_add(1, at, x):totable())
    end
    local x = flame.full({ 3, 32 }, 1 / 512, { dtype = "bf16" })         -- 1 + 1 / 512 rounds to 1
    local y = flame.ones({ 1, 32 }, { dtype = "bf16" }):index_add(1, ids({ 1, 1, 1 }), x)
    assert.equal(1 + 1 / 128, y[{ 1, 32 }]:item())
  end)
  it("adds along and across an axis of a large table", function()
    local x, at = flame.randn(300, 170), flame.randint({ 300, 170 }, 1, 170)
    local rows, places = x:totable(), at:totable()
    local want = {}
    for i, row in ipairs(rows) do
      want[i] = {}
      for c = 1, 170 do want[i][c] = 0 end
      for c, v in ipairs(row) do want[i][places[i][c]] = f32(want[i][places[i][c]] + v) end
    end
    assert.same(want, flame.zeros(300, 170):scatter_add(2, at, x):totable())
    assert.same(want, flame.zeros(170, 300):scatter_add(1, at:t(), x:t()):t():totable())
  end)
  it("checks its index in the same step on the CPU", function()
    local o = { device = "cpu" }
    local y, at, x = flame.zeros({ 8, 4 }, o),
      flame.tensor({ 3, 3 }, { dtype = "i64", device = "cpu" }), flame.ones({ 2, 4 }, o)
    flame.eval(y, at, x)
    local before = flame.stats().launches
    flame.eval(y:index_add(1, at, x))
    -- one launch copies y, the other adds to it
    assert.equal(2, flame.stats().launches - before)
  end)
  it("names the first bad value by its position in the index", function()
    local at = flame.ones({ 300, 200 }, { dtype = "i64" })
    at[{ 123, 45 }], at[{ 200, 7 }] = 999, -1
    local x = flame.ones(300, 200)
    fails("scatter_add: index 999 at position " .. 122 * 200 + 45
          .. " is out of range for axis 2, need 1 to 200",
          function() return flame.zeros(300, 200):scatter_add(2, at, x):totable() end)
    fails("scatter_add: index -1 at position " .. 6 * 300 + 200
          .. " is out of range for axis 1, need 1 to 200",
          function() return flame.zeros(200, 300):scatter_add(1, at:t(), x:t()):totable() end)
    local few = flame.ones({ 2000 }, { dtype = "i64" })
    few[1999] = 0
    fails("index_add: index 0 at position 1999 is out of range for axis 1, need 1 to 5",
          function()
            return flame.zeros(5, 20):index_add(1, few, flame.ones(2000, 20)):totable()
          end)
  end)
  it("reads an index before that is written", function()
    local at = ids({ 1, 2, 1 })
    flame.eval(at)
    local y = flame.zeros(4):index_add(1, at, flame.ones(3))
    at:add_(2)
    flame.eval(at, y)
    assert.same({ 2, 1, 0, 0 }, y:totable())
    assert.same({ 3, 4, 3 }, at:totable())
  end)
  it("refuses three index tensors of which two do not go together", function()
    local x, two, three, none = flame.zeros(3, 4, 5), ids({ 1, 2 }), ids({ 1, 2, 3 }),
      ids({}):reshape(0)
    for _, key in ipairs { { two, three, two }, { two, three, three }, { none, two, two },
        { two, none, three } } do
      local shapes = ("x[…]: shapes (%d) and (%d) do not broadcast"):format(#key[1], #key[2])
      fails(shapes, function() return x[key] end)
      fails(shapes, function() x[key] = 1 end)
    end
    assert.equal(0, x:sum():item())
    fails("index_put_: shapes (2) and (3) do not broadcast",
      function() x:index_put_({ two, three, two }, 1) end)
  end)
  it("counts an index without axes as a position", function()
    local x, one, rows = flame.arange(120.0):reshape(2, 3, 4, 5),
      flame.tensor(2, { dtype = "i64" }), ids({ 1, 3 })
    assert.same(x[{ 2, {}, rows }]:totable(), x[{ one, {}, rows }]:totable())
    assert.same({ 3, 2, 5 }, x[{ one, {}, rows }].shape)
    assert.same({ 2, 2 }, x[{ {}, rows, one, rows }].shape)
    assert.same(x[{ {}, rows, 2, rows }]:totable(), x[{ {}, rows, one, rows }]:totable())
    assert.same({ 2, 3, 4 }, x[{ ids({ 1, 2 }), {}, {}, rows }].shape)
    assert.same({ 3, 4 }, x[{ one, {}, {}, one }].shape)
    local y = x:clone()
    y[{ one, {}, rows }] = 0
    assert.equal(0, y[{ 2, {}, rows }]:abs():sum():item())
    assert.equal(x:sum():item() - x[{ 2, {}, rows }]:sum():item(), y:sum():item())
  end)
end)

describe("a position out of range inside a composed op", function()
  local raises, x = require("spec.support.helper").raises, grid()
  local function told(text, f) raises(text, function() return f():totable() end) end
  it("is told under the name that was called, as it was given", function()
    local row, one = ids { { 99, 1, 1, 1 } }, flame.ones(1, 4)
    told("put: index -99 at position 1 is out of range, need -12 to -1 or 1 to 12",
      function() return x:put(ids { -99 }, flame.ones(1)) end)
    told("take_along_dim: index 99 at position 1 is out of range for axis 1, need 1 to 3",
      function() return x:take_along_dim(row, 1) end)
    told("take_along_dim: index 99 at position 1 is out of range",
      function() return x:take_along_dim(ids { 99 }) end)
    told("index_reduce: index 99 at position 1 is out of range for axis 1, need 1 to 3",
      function() return x:index_reduce(1, ids { 99 }, one, "prod") end)
    for _, how in ipairs { "sum", "prod", "mean", "amax" } do
      told("scatter_reduce: index 99 at position 1 is out of range for axis 1, need 1 to 3",
        function() return x:scatter_reduce(1, row, one, how) end)
    end
    told("max_unpool1d: index 99 at position 2",
      function() return flame.max_unpool1d(flame.ones(1, 1, 2), ids { { { 1, 99 } } }, 2) end)
    told("multi_margin_loss: class 99 at position 1, need 1 to 4",
      function() return flame.multi_margin_loss(x, ids { 99, 1, 1 }, { reduction = "none" }) end)
    told("embedding_bag: index 99 at position 2 is out of range, need 1 to 3",
      function() return flame.embedding_bag(ids { { 1, 99 } }, x) end)
    raises("unravel_index: index 13 at position 1 is out of range, need 1 to 12",
      function() return flame.unravel_index(ids { 13 }, { 3, 4 })[1]:item() end)
  end)
  it("does not name the op behind it", function()
    pcall(flame.take_along_dim, x, ids { { 1 } }, 1)
    told("gather: index 99 at position 1 is out of range for axis 2, need 1 to 4",
      function() return x:gather(2, ids { { 99 } }) end)
  end)
  it("is refused among offsets and pivots", function()
    local function bags(offsets)
      return flame.embedding_bag(ids { 1, 2, 3 }, x, ids(offsets), { mode = "sum" })
    end
    assert.same({ { 1, 2, 3, 4 }, { 14, 16, 18, 20 }, { 0, 0, 0, 0 } }, bags({ 1, 2, 4 }):totable())
    raises("embedding_bag: offset 0 at position 2, need 1 to 4: offsets rise", bags, { 1, 0 })
    raises("embedding_bag: offset 5 at position 2, need 1 to 4: offsets rise", bags, { 1, 5 })
    raises("embedding_bag: offset 2 at position 3, need 3 to 4: offsets rise", bags, { 1, 3, 2 })
    raises("lu_solve: pivot 99 at position 1, need 1 to 2", flame.lu_solve,
      flame.ones(2, 1), flame.eye(2),
      flame.tensor({ 99, 2 }, { dtype = "i32" }))
    raises("lu_unpack: pivot 0 at position 2, need 1 to 2", flame.lu_unpack, flame.eye(2),
      flame.tensor({ 1, 0 }, { dtype = "i32" }))
  end)
  it("is not looked for behind the length of a row of labels", function()
    local p = flame.randn(5, 2, 4):log_softmax(3)
    local function loss(last)
      return flame.ctc_loss(p, ids { { 2, 3 }, { 2, last } }, { 5, 5 }, { 2, 1 }):item()
    end
    assert.equal(loss(3), loss(0))
  end)
end)
