local helper = require "spec.support.helper"
local flame = require "flame"

--- The Toeplitz matrix by loops: c[i - j] on the diagonal and below it, r[j - i] above.
local function expected(c, r)
  local rows = {}
  for i = 1, #c do
    rows[i] = {}
    for j = 1, #r do rows[i][j] = i >= j and c[i - j + 1] or r[j - i + 1] end
  end
  return rows
end

describe("toeplitz", function()
  it("has c as its first column and r as its first row", function()
    for _, size in ipairs { { 1, 1 }, { 1, 4 }, { 5, 1 }, { 3, 3 }, { 4, 7 }, { 6, 2 } } do
      local c, r = flame.randn(size[1]), flame.randn(size[2])
      assert.same(expected(c:tolist(), r:tolist()), c:toeplitz(r):tolist())
      assert.same(expected(c:tolist(), c:tolist()), flame.toeplitz(c):tolist())
    end
    local c, r = flame.arange(1, 6):reshape(2, 3), flame.arange(7, 10):reshape(2, 2)
    assert.same({ expected({ 1, 2, 3 }, { 7, 8 }), expected({ 4, 5, 6 }, { 9, 10 }) },
      c:toeplitz(r):tolist())
    assert.same({ { 0, 3 }, { 3, 0 } },
      { flame.zeros(0):toeplitz(flame.ones(3)).shape, flame.ones(3):toeplitz(flame.ones(0)).shape })
  end)

  it("has the gradient that sums along the diagonals", function()
    local c = flame.ones(3, { requires_grad = true })
    local r = flame.ones(4, { requires_grad = true })
    local y = c:toeplitz(r) * flame.arange(1, 12):reshape(3, 4)
    y:sum():backward()
    assert.same({ 1 + 6 + 11, 5 + 10, 9 }, c.grad:tolist())
    assert.same({ 0, 2 + 7 + 12, 3 + 8, 4 }, r.grad:tolist())
  end)

  it("convolves", function()
    local h, x = flame.randn(3, { dtype = "f64" }), flame.randn(5, { dtype = "f64" })
    local padded = flame.cat({ h, flame.zeros(4, { dtype = "f64" }) }, 1)
    local matrix = padded:toeplitz(flame.zeros(5, { dtype = "f64" }))
    assert.allclose(x:convolve(h), matrix:matmul(x))
  end)

  it("has the dtype that holds both, of whatever length", function()
    local c = flame.arange(3)
    for m = 0, 2 do assert.equal("f32", c:toeplitz(flame.ones(m)).dtype) end
    assert.equal("i64", c:toeplitz(flame.arange(2)).dtype)
  end)

  it("tells what does not fit", function()
    helper.raises("toeplitz: c has 0 axes, r 0, need equally many, at least one",
      flame.toeplitz, flame.tensor(1))
    helper.raises("toeplitz: c has 1 axes, r 2, need equally many, at least one",
      flame.toeplitz, flame.ones(2), flame.ones(2, 2))
  end)
end)
