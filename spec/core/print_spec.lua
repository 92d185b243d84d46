local flame = require "flame"

describe("tostring", function()
  it("aligns rows and tells shape, dtype and device below", function()
    assert.equal(" 1 -2\n30  4\nshape (2, 2), f32, cpu",
      tostring(flame.tensor({ { 1, -2 }, { 30, 4 } },
      { device = "cpu" })))
  end)
  it("writes four digits where there are fractions", function()
    assert.equal("0.5000 1.2500\nshape (2), f64, cpu",
      tostring(flame.tensor({ 0.5, 1.25 }, { dtype = "f64", device = "cpu" })))
  end)
  it("changes to exponents for wide ranges", function()
    assert.equal("1.0000e-08 5.0000e-01\nshape (2), f32, cpu", tostring(flame.tensor({ 1e-8, 0.5 },
      { device = "cpu" })))
  end)
  it("writes integers, booleans, nan and infinities", function()
    assert.equal("1 -7\nshape (2), i32, cpu", tostring(flame.tensor({ 1, -7 }, { dtype = "i32",
      device = "cpu" }):clone()):gsub("^ +", ""))
    assert.equal(" true false\nshape (2), bool, cpu",
      tostring(flame.tensor({ true, false }, { device = "cpu" })))
    assert.equal(" nan  inf -inf    1\nshape (4), f32, cpu",
      tostring(flame.tensor({ 0 / 0, math.huge, -math.huge, 1 }, { device = "cpu" })))
  end)
  it("writes a 0-d tensor, an empty one and a closed one", function()
    assert.equal("3\nshape (), f32, cpu", tostring(flame.tensor(3, { device = "cpu" })))
    assert.equal("shape (0, 3), f32, cpu", tostring(flame.zeros(0, 3, { device = "cpu" })))
    local x = flame.ones(1)
    x:free()
    assert.equal("tensor (closed)", tostring(x))
  end)
  it("names the positions of matrices in higher axes", function()
    assert.equal("(1, …, …)\n1 2\n(2, …, …)\n3 4\nshape (2, 1, 2), f32, cpu",
      tostring(flame.tensor({ { { 1, 2 } }, { { 3, 4 } } }, { device = "cpu" })))
  end)
  it("cuts the middle out of long axes and reads only what is shown", function()
    local x = flame.arange(2000.0, { device = "cpu" })
    flame.eval(x)
    assert.equal("   1    2    3 … 1998 1999 2000\nshape (2000), f32, cpu", tostring(x))
    local rows = select(2, tostring(flame.zeros(100, 100)):gsub("\n", ""))
    assert.equal(7, rows)
  end)
  it("says that a tensor is tracked", function()
    assert.matches("requires grad$", tostring(flame.ones(1, { requires_grad = true })))
  end)
  it("joins with strings", function()
    assert.equal("x = 1\nshape (), f32, cpu", "x = " .. flame.tensor(1, { device = "cpu" }))
  end)
  it("summarises in a line", function()
    local text = flame.tensor({ 1, 2, 3 }, { device = "cpu" }):summary("w")
    assert.equal("w (3) f32 cpu min 1 max 3 mean 2 std 0.816497 nan 0 inf 0", text)
  end)
end)
