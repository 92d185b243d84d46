local flame = require "flame"
local helper = require "spec.support.helper"

describe("tostring", function()
  it("aligns rows and tells shape, dtype and device below", function()
    assert.equal(" 1 -2\n30  4\nshape (2, 2), f32, cpu",
      tostring(flame.tensor({ { 1, -2 }, { 30, 4 } },
      { device = "cpu" })))
  end)
  it("writes four digits where there are fractions", function()
    assert.equal("0.5000 1.2500  shape (2), f64, cpu",
      tostring(flame.tensor({ 0.5, 1.25 }, { dtype = "f64", device = "cpu" })))
  end)
  it("changes to exponents for wide ranges", function()
    assert.equal("1.0000e-08 5.0000e-01  shape (2), f32, cpu", tostring(flame.tensor({ 1e-8, 0.5 },
      { device = "cpu" })))
  end)
  it("writes integers, booleans, nan and infinities", function()
    assert.equal("1 -7  shape (2), i32, cpu", tostring(flame.tensor({ 1, -7 }, { dtype = "i32",
      device = "cpu" }):clone()))
    assert.equal("true false  shape (2), bool, cpu",
      tostring(flame.tensor({ true, false }, { device = "cpu" })))
    assert.equal("nan inf -inf 1  shape (4), f32, cpu",
      tostring(flame.tensor({ 0 / 0, math.huge, -math.huge, 1 }, { device = "cpu" })))
  end)
  it("writes a 0-d tensor, an empty one and a closed one", function()
    assert.equal("3", tostring(flame.tensor(3, { device = "cpu" })))
    assert.equal("18.1776", tostring(flame.tensor(18.17762, { requires_grad = true })))
    assert.equal("2 1.5000 true 1.0000e-07", ("%s %s %s %s"):format(
      flame.tensor(2, { dtype = "i8" }), flame.tensor(1.5, { dtype = "f16" }), flame.tensor(true),
      flame.tensor(1e-7)))
    assert.equal("shape (0), i32, cpu", tostring(flame.zeros(0, { dtype = "i32", device = "cpu" })))
    assert.equal("shape (0, 3), f32, cpu", tostring(flame.zeros(0, 3, { device = "cpu" })))
    local x = flame.ones(1)
    x:free()
    assert.equal("tensor (closed)", tostring(x))
  end)
  it("puts a vector on one line of 80 columns with its facts, and a longer one above them", function()
    local function of(first)
      return tostring(flame.cat({ flame.full({ 1 }, first, { device = "cpu" }),
        flame.full({ 28 }, 7, { device = "cpu" }) }))
    end
    local full = "10" .. (" 7"):rep(28) .. "  shape (29), f32, cpu"
    assert.equal(full, of(10))
    assert.equal(80, #full)
    assert.equal("100" .. ("   7"):rep(19) .. "\n", of(100):match("^[^\n]*\n"))
    assert.matches("7\nshape %(29%), f32, cpu$", of(100))
    assert.matches("^7 .*7\nshape %(29%), f32, cpu, requires grad$",
      tostring(flame.full({ 29 }, 7, { device = "cpu", requires_grad = true })))
  end)
  it("names the positions of matrices in higher axes", function()
    assert.equal("(1, …, …)\n1 2\n(2, …, …)\n3 4\nshape (2, 1, 2), f32, cpu",
      tostring(flame.tensor({ { { 1, 2 } }, { { 3, 4 } } }, { device = "cpu" })))
  end)
  it("cuts the middle out of long axes and reads only what is shown", function()
    local x = flame.arange(2000.0, { device = "cpu" })
    flame.eval(x)
    assert.equal("1 2 3 … 1998 1999 2000  shape (2000), f32, cpu", tostring(x))
    local rows = select(2, tostring(flame.zeros(100, 100)):gsub("\n", ""))
    assert.equal(7, rows)
  end)
  it("says that a tensor is tracked", function()
    assert.matches("requires grad$", tostring(flame.ones(1, { requires_grad = true })))
  end)
  it("joins with strings", function()
    assert.equal("x = 1", "x = " .. flame.tensor(1, { device = "cpu" }))
  end)
  it("summarises in a line", function()
    local text = flame.tensor({ 1, 2, 3 }, { device = "cpu" }):summary("w")
    assert.equal("w (3) f32 cpu min 1 max 3 mean 2 std 0.816497 nan 0 inf 0", text)
  end)
end)

--- Checks that f raises a message with this text and a line of this file.
local function refused(text, f)
  assert.matches("^spec/core/print_spec.lua:%d+: " .. text .. "$", helper.message(f))
end

describe("a shape", function()
  local x = flame.zeros(2, 3)
  it("prints as its sizes, in print, format and joined with text", function()
    assert.equal("(2, 3)", tostring(x.shape))
    assert.equal("()", tostring(flame.tensor(1).shape))
    assert.equal("(4)", tostring(flame.zeros(4).shape))
    assert.equal("(2, 3) (3, 1)", ("%s %s"):format(x:size(), x:stride()))
    assert.equal("x is (2, 3), 7", "x is " .. x.shape .. ", " .. flame.tensor(7))
    assert.equal("(2, 3)(2, 3)1", x.shape .. x.shape .. 1)
    assert.equal("7 of (2, 3)", flame.tensor(7) .. " of " .. x.shape)
    assert.equal("7(2, 3)", flame.tensor(7) .. x.shape)
    refused("%.%.: can not join a shape and a table", function() return x.shape .. {} end)
  end)
  it("compares by value, also with a plain list", function()
    local y = flame.ones(2, 3)
    assert.is_true(x.shape == y.shape)
    assert.is_true(x.shape == { 2, 3 })
    assert.is_true({ 2, 3 } == x.shape)
    assert.is_false(x.shape == { 2, 3, 1 })
    assert.is_false(x.shape == { 3, 2 })
    assert.is_false(x.shape == flame.zeros(2).shape)
    assert.is_false(x.shape == "(2, 3)")
    assert.is_false(rawequal(x.shape, x.shape))
  end)
  it("counts from the end with negative positions and raises at 0", function()
    local s = x.shape
    assert.equal(3, s[-1])
    assert.equal(2, s[-2])
    assert.is_nil(s[#s + 1])
    assert.is_nil(s.name)
    refused("shape: index 0 is out of range, positions begin at 1", function() return s[0] end)
    refused("shape: index %-3 is out of range, there are 2 sizes", function() return s[-3] end)
  end)
  it("is a fresh list that may be changed", function()
    local s = x.shape
    s[#s + 1] = 7
    s[1] = nil
    s[1] = 2.5
    table.insert(s, 1, "n")
    assert.equal("(n, 2.5, 3, 7)", tostring(s))
    assert.equal("n 2.5 3 7", table.concat(s, " "))
    s[1] = s
    assert.equal("(table, 2.5, 3, 7)", tostring(s))
    assert.equal("(2, 3)", tostring(x.shape))
    local seen = {}
    for i, n in ipairs(x.shape) do seen[#seen + 1] = i .. "=" .. n end
    for k in pairs(x.shape) do seen[#seen + 1] = k end
    assert.same({ "1=2", "2=3", 1, 2 }, seen)
    assert.same({ 2, 3 }, { table.unpack(x.shape) })
  end)
  it("is a plain list to those who ask, to functions and to files", function()
    assert.is_false(getmetatable(x.shape))
    assert.equal("(2, 3)", tostring(flame.zeros(x.shape).shape))
    assert.equal("(2, 3)", tostring(flame.zeros(x.shape, { dtype = "i32" }).shape))
    assert.equal("2 3  shape (2), f32, cpu", tostring(flame.tensor(x.shape, { device = "cpu" })))
    assert.equal("(4, 3)", tostring(flame.zeros(2, 3):tile(flame.zeros(2, 1).shape).shape))
    assert.equal("(2, 4, 3)", tostring(flame.zeros(4, 3):tile(flame.zeros(2, 1, 1).shape).shape))
    local bad = x.shape
    bad[2] = "three"
    refused("constant_pad_nd: pad%[2%] must be an integer, got string 'three'",
      function() return x:constant_pad_nd(bad) end)
    local path = os.tmpname() .. ".safetensors"
    flame.save(path, { shape = x.shape, x = x })
    local back = flame.load(path)
    os.remove(path)
    assert.is_nil(getmetatable(back.shape))
    assert.same({ 2, 3 }, back.shape)
  end)
end)
