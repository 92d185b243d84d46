--- Measures derived gradients of programs that people write in CUDA (attention by tiles, LU, the
--- greatest of a row, an LSTM's cell, splats, bodies, particles, relaxation, a cycle on two grids)
--- against backward kernels written by hand. Both gradients are computed from the same data and
--- compared first. Prints medians in microseconds and ratios to the kernels by hand; a sample is
--- many calls in a row, in turns, so that the device's time is measured.
--
--   FLAME_DEVICE=cuda flame-lua bench/ported.lua [small] [name]
local flame = require "flame"
local small = arg[1] == "small"
local only = arg[small and 2 or 1]
local REPEAT = small and 1 or 15

-- Cases: 'inputs' makes tensors; 'forward' gives the outputs, of which the first is differentiated;
-- 'hand' gives the gradients in the order of the inputs, from inputs, outputs and the gradient of
-- the first output.
local cases = {}

--- size(LARGE, LITTLE): a size for this run.
local function size(large, little) return small and little or large end

--- The number of blocks of so many threads that hold n.
local function blocks(n, threads) return (n + threads - 1) // threads end

for _, name in ipairs { "attention", "matrices", "greatest", "cell", "splats", "bodies",
  "particles", "relaxation", "cycle" } do
  assert(loadfile("bench/ported/" .. name .. ".lua"))(flame, size, blocks, cases)
end

-- ---- measuring ----

local compare = dofile "bench/turns.lua"(REPEAT, 20)

local function with_mode(mode, f)
  return function()
    local before = flame.deterministic()
    flame.deterministic(mode)
    local r = f()
    flame.deterministic(before)
    return r
  end
end

--- Compares the gradients of one case, then measures it.
local function case(c)
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
  local g = all[#all]
  local function derived()
    local grads, list = outs[1]:gradients(inputs, { seed = g, retain_graph = true }), {}
    for i, x in ipairs(inputs) do list[i] = grads[x] end
    return list
  end
  local function hand() return { c.hand(table.unpack(all)) } end
  for i, a in ipairs(hand()) do
    local b = derived()[i]
    local off = ((a - b):abs():sum() / a:abs():sum()):item()
    assert(off < 1e-4, ("%s: gradient %d differs by %g"):format(c[1], i, off))
  end
  compare(c[1], {
    { name = "by hand", f = hand }, { name = "derived", f = with_mode(false, derived) },
    { name = "derived, deterministic", f = with_mode(true, derived) },
    { name = "forward", f = function() return { c.forward(table.unpack(plain)) } end },
  })
end

print(("%s on %s"):format(small and "small" or "whole", flame.default_device()))
for _, c in ipairs(cases) do
  if not only or c[1]:find(only, 1, true) then case(c) end
end
