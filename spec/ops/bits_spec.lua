-- x:view(dtype): the bytes of a tensor as elements of another dtype, for x of every layout, pending
-- or stored. Values for each pair of dtypes are tested in walk/special.lua.
local helper = require "spec.support.helper"
local flame = require "flame"
local raises, message = helper.raises, helper.message

--- string.pack formats; bytes(x): the bytes of a tensor as a string, made from its elements.
local FORMAT = { f64 = "<d", f32 = "<f", i64 = "<i8", i32 = "<i4", i16 = "<i2", u8 = "<B" }
local function bytes(x)
  local out = {}
  for i, v in ipairs(x:flatten():tolist()) do out[i] = FORMAT[x.dtype]:pack(v) end
  return table.concat(out)
end
local function check(x, dtype, shape)
  local y = x:view(dtype)
  assert.same({ dtype, shape }, { y.dtype, y.shape })
  assert.equal(bytes(x), bytes(y))
end

describe("view(dtype)", function()
  it("counts the last axis in elements of the other dtype", function()
    local x = flame.randn(2, 3, 4)
    flame.eval(x)
    check(x, "i32", { 2, 3, 4 })
    check(x, "u8", { 2, 3, 16 })
    check(x, "i64", { 2, 3, 2 })
    check(x, "i16", { 2, 3, 8 })
    check(flame.tensor(1.5), "i32", {})
    check(flame.zeros(0, 4), "u8", { 0, 16 })
    check(flame.zeros(3, 0), "f64", { 3, 0 })
  end)

  it("reads views, expressions, joins and parts row-major", function()
    local x = flame.randn(4, 6)
    for _, made in ipairs { "stored", "pending" } do
      if made == "stored" then flame.eval(x) else x = x * 2 + 1 end
      check(x:t(), "i16", { 6, 8 })
      check(x:flip(2), "u8", { 4, 24 })
      check(x[{ {}, { 2, 5 } }], "i64", { 4, 2 })
      check(x[3], "f64", { 3 })
      check(x:exp(), "i32", { 4, 6 })
      check(flame.cat({ x, x + 1 }, 2), "i64", { 4, 6 })
      check(flame.cat({ x, x + 1 }, 1)[{ { 3, 6 } }], "i64", { 4, 3 })
      check(x[1]:expand(3, 6), "i32", { 3, 6 })
    end
  end)

  it("copies what begins where no element of the wider dtype may lie", function()
    local x = flame.arange(0, 32, { dtype = "u8" })
    flame.eval(x)
    for first = 1, 9 do
      check(x[{ { first, first + 15 } }], "f64", { 2 })
      check(x[{ { first, first + 15 } }], "i16", { 8 })
    end
  end)

  it("is part of the kernels around it", function()
    local x = flame.randn(1000)
    flame.eval(x)
    local before = flame.stats().launches
    local abs = x:view("i32"):bitwise_and(0x7fffffff)
    flame.eval(abs)
    assert.equal(1, flame.stats().launches - before)
    assert.truthy(flame.equal(x:abs(), abs:view("f32")))
    assert.truthy(flame.equal(x:view("i16"):sum(), x:view("i32"):view("i16"):sum()))
  end)

  it("is read beside the elements themselves", function()
    local x = flame.arange(1, 100, { dtype = "f32" })
    flame.eval(x)
    local whole = flame.eval(x:view("i32"):float())
    assert.truthy(flame.equal(whole + x, x:view("i32"):float() + x))
  end)

  -- 10,000 elements are more than one chunk: a chunk is written before the next one is read
  it("reads the value from before a write", function()
    local n = 10000
    local x = flame.arange(0, n - 1, { dtype = "i32" })
    flame.eval(x)
    x:copy_(x:view("i16")[{ { 1, n } }]:int() + 100)
    local expected = flame.stack({ flame.arange(100, 99 + n // 2), flame.full({ n // 2 }, 100) }, 2)
    assert.truthy(flame.equal(expected:flatten():int(), x))
  end)

  it("has no result of another size written over it", function()
    local n = 100 * 100
    local x = flame.arange(0, n - 1, { dtype = "i32" })
    flame.eval(x)
    -- the floats are stored for matmul, and could be written over the i32 values, twice as large
    local function made() return (x * 2):view("i16")[{ { 1, n } }]:float() * 3 end
    local y = made():reshape(100, 100):matmul(flame.eye(100))
    local expected = flame.stack({ flame.arange(0, n - 2, 2) * 3, flame.zeros(n // 2) }, 2)
    assert.truthy(flame.equal(expected:reshape(100, 100):float(), y))
  end)

  it("can be saved in a program", function()
    local f = function(x) return { (x * 2):view("u8"):int(), x[{ { 2, 3 } }]:view("i64") } end
    local path = os.tmpname()
    flame.export(path, f, { flame.randn(3, 4) })
    local p <close> = flame.program(path)
    os.remove(path)
    local x = flame.randn(3, 4)
    local got, expected = { p(x) }, f(x)
    for i = 1, 2 do assert.truthy(flame.equal(expected[i], got[i])) end
  end)

  it("has no gradient, and backward says so", function()
    local w = flame.ones(2, { requires_grad = true })
    local y = (w * 2):view("bf16"):float():sum()
    assert.truthy(message(y.backward, y):find("given to bits at", 1, true))
  end)

  it("tells what does not fit", function()
    local x = flame.zeros(2, 3)
    raises("view: the last axis has 3 elements of f32, need a multiple of 2 for f64",
      x.view, x, "f64")
    raises("view: a 0-d i16 has 2 bytes, an element of u8 1",
      flame.view, flame.tensor(1, { dtype = "i16" }), "u8")
    raises("view: the bytes of f32 need not be 0 or 1, as those of bool are", x.view, x, "bool")
    raises("view: no form takes (a tensor, string 'f31')", x.view, x, "f31")
    assert.same({ "f32", { 2, 3 } }, { x:view("f32").dtype, x:view { dtype = "f32" }.shape })
  end)
end)
