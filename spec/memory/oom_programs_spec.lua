--- Failing allocations (spec/support/oom.lua) while programs are exported, saved and loaded.
if require "spec.support.bare"(describe, it, "spec/memory/oom_programs_spec.lua") then return end

local flame = require "flame"
local oom = dofile("spec/support/oom.lua")
local family, ramp = oom.families(it, 5), oom.ramp
describe("a failing allocation #oom", function()
  local file = os.tmpname()
  teardown(function() os.remove(file) end)
  family("an exported program", function(x, w)
    flame.export(file, function(v) return v:matmul(w):tanh() + flame.rand(4) end, { x })
    local p <close> = flame.program(file)
    p:seed(1)
    return p(x)
  end, function() return ramp(3, 4), ramp(4, 4) end)
  family("a program with a state", function(x)
    local total = flame.zeros(4, 4)
    flame.export(file, function(v)
      total:add_(v)
      return total * 2
    end, { x })
    local p <close> = flame.program(file)
    p(x)
    return p(x), total
  end, function() return ramp(4, 4) end)
end)
