-- The assertions of spec/support/helper.lua: they accept close values, and otherwise name the
-- element that differs most.

describe("assert.close", function()
  it("allows the tolerance and no more", function()
    assert.close(1, 1 + 1e-9)
    assert.close(1, 1.5, 0.5)
    assert.is_not.close(1, 1.1, 0.05)
  end)

  it("knows NaN and infinities", function()
    assert.close(0 / 0, 0 / 0)
    assert.close(math.huge, math.huge)
    assert.is_not.close(math.huge, -math.huge)
    assert.is_not.close(1, 0 / 0)
  end)
end)

describe("assert.allclose", function()
  local function message(...)
    local ok, err = pcall(assert.allclose, ...)
    assert.falsy(ok)
    return type(err) == "table" and tostring(err.message or err) or tostring(err)
  end

  it("compares nested tables", function()
    assert.allclose({ { 1, 2 }, { 3, 4 } }, { { 1, 2 }, { 3, 4.0000001 } })
    assert.allclose({ true, false }, { true, false })
    assert.is_not.allclose({ 1, 2 }, { 1, 2.1 })
  end)

  it("takes rtol and atol", function()
    assert.allclose({ 100 }, { 101 }, { rtol = 0.02 })
    assert.allclose({ 0 }, { 0.01 }, { atol = 0.1 })
  end)

  it("names the worst element", function()
    local text = message({ { 1, 2 }, { 3, 4 } }, { { 1, 2 }, { 3.5, 5 } })
    assert.truthy(text:find("2 of 4 elements differ", 1, true))
    assert.truthy(text:find("value[2][2] is 5, expected 4", 1, true))
  end)

  it("names a different form", function()
    assert.truthy(message({ 1, 2 }, { 1 }):find("1 elements, expected 2", 1, true))
    assert.truthy(message({ { 1 } }, { 1 }):find("value[1]", 1, true))
  end)
end)
