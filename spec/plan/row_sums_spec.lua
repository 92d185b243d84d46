-- Sums over the rows of a kernel of rows (spec/support/row_sums.lua): on a GPU one kernel computes
-- a norm's gradients, and another joins its sums. The bits are those of separate sums.
local flame = require "flame"
local machine = dofile "spec/support/machine.lua"
local sums = dofile "spec/support/row_sums.lua"
local gpu = flame.default_device():sub(1, 4) == "cuda"

describe("the sums over rows of a norm's gradient", function()
  for _, case in ipairs(sums.cases) do
    if gpu or case.quick then
      it("have the same bits as separate sums: " .. sums.name(case), function()
        assert.equal("same bits", (sums.compare(case)))
      end)
    end
  end

  it("are right", function()
    local case = { program = "layer", rows = { 8195 }, n = 70, dtype = "f32" }
    local _, _, got = sums.compare(case)
    flame.seed(case.n)
    local function f64(...) return flame.randn({ ... }):to "f64" end
    flame.randn({ 70 }) flame.randn({ 70 }) flame.randn({ 8195, 70 })     -- w, b and r
    local x, g = f64(8195, 70), f64(8195, 70)
    local d = x - x:mean(2, true)
    local normal = d / ((d * d):mean(2, true) + 1e-5):sqrt()
    assert.is_true((got[3]:to "f64" - (g * normal):sum(1)):abs():max():item() < 1e-3)
    assert.is_true((got[4]:to "f64" - g:sum(1)):abs():max():item() < 1e-3)
  end)

  it("are added up by the kernel of the rows on a GPU that computes", function()
    local folder = machine.new()
    local text = machine.run(folder, [[
      local sums = dofile "spec/support/row_sums.lua"
      for i, case in ipairs(sums.cases) do
        if i == 2 or i == 3 or i == 5 then
          print(("%s, %d launches"):format(sums.compare(case)))
        end
      end
    ]], "FAKE_CUDA=computes=2")
    local more = machine.run(folder, [[
      local sums = dofile "spec/support/row_sums.lua"
      for _, f in ipairs { sums.beside, sums.many } do
        local whole, apart = f(), f(true)
        for i, t in ipairs(whole) do print(t:eq(apart[i]):all():item()) end
      end
    ]], "FAKE_CUDA=computes=2")
    machine.remove(folder)
    assert.equal(("true\n"):rep(4), more)
    assert.equal("same bits, 2 launches\nsame bits, 3 launches\nsame bits, 2 launches\n", text)
  end)
end)
