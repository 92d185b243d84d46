--- Programs that people write in CUDA, each with a backward kernel written by hand. The file
--- returns { cases =, beside = }:
---   cases(small)   the list of cases of bench/ported: { title, inputs =, forward =, hand = }
---   beside(case)   makes its tensors; { derived =, hand =, forward =, differ = }: functions that
---                  give the gradients (of the first output, with respect to all inputs) in the two
---                  ways, the outputs, and the largest relative difference of the two gradients
--- 'inputs' makes tensors; 'forward' gives the outputs; 'hand' gives the gradients in the order of
--- the inputs, from inputs, outputs and the gradient of the first output.
local flame = require "flame"
local ported = {}

local FILES <const> = { "attention", "matrices", "greatest", "cell", "splats", "bodies",
  "particles", "relaxation", "cycle", "pointwise", "loops" }

function ported.cases(small)
  local list = {}
  local function size(large, little) return small and little or large end
  local function blocks(n, threads) return (n + threads - 1) // threads end
  for _, name in ipairs(FILES) do
    assert(loadfile("bench/ported/" .. name .. ".lua"))(flame, size, blocks, list)
  end
  return list
end

function ported.beside(c)
  flame.seed(1)
  local plain, inputs = { c.inputs() }, {}
  flame.eval(plain)
  for i, x in ipairs(plain) do inputs[i] = x:clone():requires_grad_(true) end
  local outs, values = { c.forward(table.unpack(inputs)) }, {}
  for i, y in ipairs(outs) do values[i] = y:detach() end
  flame.eval(outs)
  values[#values + 1] = flame.randn(outs[1]:size())
  flame.eval(values)
  local all = table.move(values, 1, #values, #plain + 1, table.move(plain, 1, #plain, 1, {}))
  local function derived()
    local grads, list = outs[1]:gradients(inputs, { seed = all[#all], retain_graph = true }), {}
    for i, x in ipairs(inputs) do list[i] = grads[x] end
    return list
  end
  local function hand() return { c.hand(table.unpack(all)) } end
  local function differ()
    local worst, mine = 0, derived()
    for i, a in ipairs(hand()) do
      local off = ((a - mine[i]):norm() / a:norm()):item()
      if not (off <= worst) then worst = off end               -- NaN as well
    end
    return worst
  end
  return { derived = derived, hand = hand, differ = differ,
    forward = function() return { c.forward(table.unpack(plain)) } end }
end

return ported
