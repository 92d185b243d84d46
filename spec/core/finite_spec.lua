--- flame.check_finite of named tensors, its warning; where allclose says that two tensors differ.
local flame = require "flame"
local nn = require "flame.nn"

local message = require("spec.support.helper").message
local NAN, INF = 0 / 0, math.huge

describe("flame.check_finite", function()
  it("names what is not finite: by number, by name, by key, by parameter and gradient", function()
    local good, bad = flame.ones(2), flame.tensor { 1, NAN, INF }
    assert.matches("check_finite: tensor 2 has 2 values that are NaN or Inf",
      message(flame.check_finite, good, bad), 1, true)
    assert.matches("check_finite: loss has 2 values",
      message(flame.check_finite, good, bad, "loss"), 1, true)
    assert.matches("check_finite: h.1 has 2 values",
      message(flame.check_finite, { a = good, h = { bad } }), 1, true)
    local net = nn.Sequential { nn.Linear(2, 2), nn.Linear(2, 1) }
    net(flame.ones(1, 2)):sum():backward()
    assert.equal(net, (flame.check_finite(net)))
    net[2].weight.grad = flame.full({ 1, 2 }, NAN)
    assert.matches("check_finite: [%w_.]*2.weight.grad has 2 values",
      message(flame.check_finite, net))
  end)
  it("gives its arguments back, takes integers, empty and 0-d tensors, and refuses others", function()
    local x, i = flame.ones(2), flame.tensor({ 1 }, { dtype = "i64" })
    assert.same({ x, "x", i }, { flame.check_finite(x, "x", i) })
    assert.is_true(pcall(flame.check_finite, flame.zeros(0), flame.tensor(1.5), {}))
    assert.matches("check_finite: tensor 1 must be a tensor, got number",
      message(flame.check_finite, 3), 1, true)
    assert.matches("check_finite: a must be a tensor",
      message(flame.check_finite, { a = 3 }), 1, true)
    assert.is_false((pcall(flame.check_finite, "x")))
  end)
  it("goes once through a table that holds itself", function()
    local state = { x = flame.ones(2) }
    state.again, state.list = state, { state }
    assert.equal(state, (flame.check_finite(state)))
    state.list.bad = flame.tensor(INF)
    assert.matches("check_finite: [%w.]*list.bad has 1 values", message(flame.check_finite, state))
  end)
  it("warns of values above 1e10", function()
    local script = os.tmpname()
    local f <close> = assert(io.open(script, "w"))
    f:write("local flame = require 'flame'\nflame.check_finite(flame.full({ 2 }, -2e10), 'h')\n" ..
      "flame.check_finite(flame.full({ 2 }, 1e9))\n")
    f:flush()
    local pipe <close> = assert(io.popen(("%s -W %s 2>&1"):format(arg and arg[-1] or
      "build-test/flame-lua", script)))
    local out = pipe:read("a")
    os.remove(script)
    assert.matches(":2: check_finite: h holds 2e+10; values above 1e10 overflow soon", out, 1, true)
    assert.is_nil(out:find(":3:", 1, true))
  end)
end)

describe("allclose", function()
  it("says where and by how much", function()
    local x = flame.tensor { { 1, 2, 3 }, { 4, 5, 6 } }
    local y = flame.tensor { { 1, 2, 3.5 }, { 4, 5, 8 } }
    local close, where = x:allclose(y)
    assert.is_false(close)
    assert.equal("2 of 6 elements differ, most at (2, 3): 6 and 8, by 2", where)
    assert.same({ true }, { x:allclose(x) })
    assert.matches("1 of 2 elements differ, most at (2): nan and 1",
      select(2, flame.tensor({ 1, NAN }):allclose(flame.ones(2))):gsub("%-nan", "nan"), 1, true)
    assert.matches("3 of 3 elements differ, most at (1): 3 and 2",
      select(2, flame.tensor(3):allclose(flame.full({ 3 }, 2))), 1, true)
    local u8 = { dtype = "u8" }
    assert.equal("2 of 2 elements differ, most at (2): 10 and 15, by 5",
      select(2, flame.tensor({ 1, 10 }, u8):allclose(flame.tensor({ 3, 15 }, u8))))
    assert.equal("1 of 1 elements differ, most: 1 and 2, by 1",
      select(2, flame.tensor(1.0):allclose(flame.tensor(2.0))))
  end)
end)
