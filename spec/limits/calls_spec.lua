--- A few rounds of random calls of every public function (spec/fuzz/calls.lua); tools/fuzz makes
-- more under sanitizers. Runs in the root of the repository.
require "spec.support.helper"
local flame = require "flame"
local calls = require "spec.fuzz.calls"

describe("random calls of every public function", function()
  it("give values or errors that name an op, and leave nothing", function()
    local made = 0
    for seed = 1, 8 do
      local n, faults = calls.round(seed)
      made = made + n
      assert.same({}, faults, "round of seed " .. seed)
    end
    assert.is_true(made >= 8 * calls.ROUND)
  end)
  it("reach a thousand names, and get values from many of them", function()
    local worked = 0
    for _ in pairs(calls.worked) do worked = worked + 1 end
    assert.is_true(calls.count() > 1000 and worked > 300)
  end)
  it("see faults that are planted", function()
    local kept = {}
    assert.matches("its text speaks of attempt to",
      calls.once("planted", function(x) return x.shape.none.at end, { "x" }))
    assert.matches("the error is a table", calls.once("planted", function() error {} end, {}))
    assert.matches("the mark before its remedy is left",
      calls.once("planted", function() error("planted: x\1; use y", 0) end, {}))
    assert.matches("its text names no op",
      calls.once("planted", function() error("went wrong", 0) end, {}))
    assert.is_nil(calls.once("planted", function() error("planted: x is not one", 0) end, {}))
    local _, faults = calls.round(1, false, function() kept[#kept + 1] = flame.ones(2) end)
    assert.matches("tensors are left each time", faults[1])
  end)
end)
