--- Reductions of everything that have nothing in common are instances of one launch on a GPU: read
-- off the plan of a device that is not there (spec/c/fake_cuda.c).
require "spec.support.helper"
local machine = require "spec.support.machine"

local folder
setup(function() folder = machine.new() end)
teardown(function() machine.remove(folder) end)

--- The steps over rows in the plan of a script.
local function rows(script)
  local text, list = machine.run(folder, script, "FLAME_DEBUG=1"), {}
  for line in text:gmatch "step %d+: ([^\n]*row[^\n]*)" do list[#list + 1] = line end
  table.sort(list)
  return list
end

describe("the norm of many gradients", function()
  it("is a launch for each size and dtype, whatever their number", function()
    assert.same({ "20 times row kept() reduced(300)", "20 times row kept() reduced(300)",
      "3 times row kept() reduced(5000)" }, rows [[
      local sum, all = 0, {}
      for i = 1, 43 do
        all[i] = flame.ones(i > 40 and 5000 or 300):to(i % 2 == 0 and i <= 40 and "bf16" or "f32")
      end
      flame.eval(all)
      for _, x in ipairs(all) do x = x:float() sum = sum + (x * x):sum() end
      flame.eval(sum)]])
  end)

  it("stays one kernel where sums share what they read", function()
    assert.same({ "row kept() reduced(300)" }, rows [[
      local x = flame.ones(300)
      flame.eval(x)
      flame.eval(x:sum(), (x * x):sum(), x:amax())]])
  end)
end)
