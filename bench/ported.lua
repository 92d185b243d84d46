--- Measures derived gradients of programs that people write in CUDA (attention by tiles, LU, the
--- greatest of a row, an LSTM's cell, splats, bodies, particles, relaxation, a cycle on two grids,
--- stencils, sampling, loops) against backward kernels written by hand. Both gradients are computed
--- from the same data and compared first. Prints medians in microseconds and ratios to the kernels
--- by hand; a sample is many calls in a row, in turns, so that the device's time is measured.
--
--   FLAME_DEVICE=cuda flame-lua bench/ported.lua [small] [name]
local flame = require "flame"
local ported = dofile "bench/ported/beside.lua"
local small = arg[1] == "small"
local only = arg[small and 2 or 1]
local compare = dofile "bench/turns.lua"(small and 1 or 15, 20)

local function with_mode(mode, f)
  return function()
    local before = flame.deterministic()
    flame.deterministic(mode)
    local r = f()
    flame.deterministic(before)
    return r
  end
end

print(("%s on %s"):format(small and "small" or "whole", flame.default_device()))
for _, c in ipairs(ported.cases(small)) do
  if not only or c[1]:find(only, 1, true) then
    local b = ported.beside(c)
    local off = b.differ()
    assert(off < 1e-3, ("%s: gradients differ by %g"):format(c[1], off))
    compare(c[1], {
      { name = "by hand", f = b.hand }, { name = "derived", f = with_mode(false, b.derived) },
      { name = "derived, deterministic", f = with_mode(true, b.derived) },
      { name = "forward", f = b.forward },
    })
  end
end
