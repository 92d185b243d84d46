--- flame.autocast: products in a half type, ops that need range or precision in f32, divided as in
-- PyTorch. The declaration of an op says which it is (@half, @single), and the casts are made where
-- its arguments are read (src/lua/declare_cast.c), so that they reach functions that a script keeps
-- in locals. A backward pass runs in the dtypes of its forward pass. If ops of
-- one evaluation cast the same weight, it is cast once, since equal ops are computed once.
local internal = require("flame").internal
local arguments = require "flame.base.arguments"
local fail, cast_block, cast_begin = arguments.fail, internal.cast_block, internal.cast_begin
local cast_dtype = internal.cast_dtype

local function autocast(dtype, f, ...)
  if dtype == true then fail("autocast", 'dtype must be "f16", "bf16" or false, got true') end
  if f == nil then return cast_begin(cast_block(), dtype) end
  local block <close> = cast_block()
  cast_begin(block, dtype)
  return f(...)
end
--- f with the autocast dtype that is set at this moment: backward calls f again later.
local function with_casts(f)
  local dtype = cast_dtype()
  if not dtype then return f end
  return function(...) return autocast(dtype, f, ...) end
end
--- autocast(dtype, f, …): f's results, with products in dtype ("f16" or "bf16") and losses, sums,
--- norms and similar ops in f32; false in place of the dtype switches it off inside. Without f a
--- guard: local _ <close> = flame.autocast("bf16"). autocast() returns the dtype that is on, or
--- nil.
arguments.def(".autocast() -> dtype", function() return cast_dtype() end,
  '.autocast(dtype: "f16"|"bf16"|bool, f: fn, ...) -> ...', autocast,
  '.autocast(dtype: "f16"|"bf16"|bool = "f16", *, enabled = true) -> Guard',
  function(dtype, enabled) return autocast(enabled and dtype) end)

local Before <const> = { __close = function(before) internal.tf32(before[1]) end }
--- May products of f32 on a GPU, except small ones, round their operands to TF32 (10 bits of
--- fraction) and sum in f32? No, unless it is set here or by FLAME_TF32=1. A product has the
--- setting of the moment at which it is recorded, a gradient's that of backward. tf32(on, f, …):
--- f's results, with this setting inside.
arguments.def(".tf32(on?: bool) -> bool", function(on)
  internal.tf32(on)
  return internal.tf32()
end, ".tf32(on: bool, f: fn, ...) -> ...", function(on, f, ...)
  local _ <close> = setmetatable({ internal.tf32(on) }, Before)
  return f(...)
end)

return { with_casts = with_casts }
