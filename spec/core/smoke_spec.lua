-- A short test of the module that runs under flame-lua and, since it is marked #smoke, also under
-- the stock lua5.4 with flame.so.

local flame = require "flame"
local helper = require "spec.support.helper"

describe("#smoke the module", function()
  it("is one table, for every caller", function()
    assert.equal("table", type(flame))
    assert.equal(flame, require "flame")
    assert.truthy(flame.version:match("^%d+%.%d+%.%d+$"))
  end)

  it("leaves the metatables of strings and numbers alone", function()
    assert.equal(nil, debug.getmetatable(0))
    assert.equal(string, getmetatable("").__index)
  end)

  it("computes what is read", function()
    local x = flame.tensor({ { 1, 2 }, { 3, 4 } })
    assert.allclose({ { 3, 5 }, { 7, 9 } }, x * 2 + 1)
    assert.equal(10, x:sum():item())
    assert.allclose({ { 7, 10 }, { 15, 22 } }, x:matmul(x))
  end)

  it("differentiates", function()
    local x = flame.tensor({ 2, 3 }, { requires_grad = true })
    local y = (x * x):sum()
    y:backward()
    assert.allclose({ 4, 6 }, x.grad)
  end)

  it("indexes from one", function()
    local x = flame.arange(6.0):reshape(2, 3)
    assert.equal(4, x[2][1]:item())
    assert.equal(6, x[-1][-1]:item())
  end)

  it("raises with the script's line", function()
    local message = helper.message(function()
      return flame.zeros(2, 3):matmul(flame.zeros(2, 3))
    end)
    assert.truthy(tostring(message):find("smoke_spec.lua:%d+: matmul"))
  end)

  it("draws the same numbers from the same seed", function()
    flame.seed(7)
    local a = flame.rand(5)
    flame.seed(7)
    assert.truthy(flame.equal(a, flame.rand(5)))
  end)
end)
