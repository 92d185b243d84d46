--- On a GPU, independent kernels of equal structure become instances of one launch. This spec looks
--- at plans for the fake driver (spec/c/fake_cuda.c); spec/core/computing_spec.lua compares the
--- values.
require "spec.support.helper"
local machine = require "spec.support.machine"

local folder
setup(function() folder = machine.new() end)
teardown(function() machine.remove(folder) end)

--- The lines of a script's plans (FLAME_DEBUG=1) that are steps over rows, sorted.
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

  it("is so too where they come from several layers, one after the other", function()
    local list = rows [[
      local w, x = {}, flame.ones(4, 6)
      for i = 1, 9 do w[i] = flame.ones(6, 6):requires_grad_(true) end
      flame.eval(w)
      for i = 1, 9 do x = x:matmul(w[i]):tanh() end
      x:sum():backward()
      local sum = 0
      for i = 1, 9 do sum = sum + (w[i].grad * w[i].grad):sum() end
      flame.eval(sum)]]
    assert.same({ "9 times row kept() reduced(36)" }, list)
  end)

  it("stays one kernel where sums share what they read", function()
    assert.same({ "row kept() reduced(300)" }, rows [[
      local x = flame.ones(300)
      flame.eval(x)
      flame.eval(x:sum(), (x * x):sum(), x:amax())]])
  end)
end)

describe("an optimiser's step", function()
  --- The plan's steps for two optimisers: one has six parameters of n elements, one has 'more'.
  local function maps(n, more)
    local list = {}
    local text = machine.run(folder, ([[
      local optim = require "flame.optim"
      local a, b, all = {}, {}, {}
      for i = 1, 6 + MORE do
        local p = flame.ones(N):requires_grad_(true)
        p.grad = flame.ones(N)
        table.insert(i > 6 and b or a, p)
        all[i] = p
      end
      flame.eval(all)
      local list = { optim.AdamW(a, { lr = 0.1 }) }
      if #b > 0 then list[2] = optim.SGD(b, { lr = 0.1, momentum = 0.9 }) end
      for k = 1, 3 do                              -- the second makes the plan of all later ones
        if k == 2 then print "begins" elseif k == 3 then print "ends" end
        for _, o in ipairs(list) do o:step() end
        flame.eval(all)
      end]]):gsub("MORE", more):gsub("N", n), "FLAME_DEBUG=1")
    for line in text:match("begins(.*)ends"):gmatch "step %d+: ([^\n]*)" do
      list[#list + 1] = line
    end
    table.sort(list)
    return list
  end
  it("over parameters of one shape is instances of one launch", function()
    assert.same({ "6 times map kept(30)" }, maps("30", "0"))
  end)
  it("is a launch for each optimiser where they are large", function()
    assert.same({ "6 times map kept(262144)", "6 times map kept(262144)" }, maps("262144", "6"))
  end)
end)
