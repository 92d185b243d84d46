--- Facts of dtypes, each a table by the dtype's name, from src/tensor/dtype.def; and helpers for
-- float functions that are composed of several ops: the dtype of the result, and of the work.
local flame = require "flame"
local arguments = require "flame.base.arguments"
local is_tensor, need_tensor, def = flame.is_tensor, arguments.need_tensor, arguments.def

local dtypes = {
  float = {},                        -- name -> true, as the next two
  half = {}, whole = {},
  size = {},                         -- bytes of an element
  bits = {},                         -- of a float's significand; integers are less than 2^bits
  least = {},                        -- exponent: 2^(least - 1) is the smallest normal number
  epsilon = {}, largest = {},        -- the distance from 1 to the next float; the largest finite
  kernel = {},                       -- the type's name in the text of kernels
}
for name, facts in pairs(flame.internal.dtypes()) do
  dtypes.size[name], dtypes.bits[name], dtypes.kernel[name] = facts.size, facts.bits, facts.kernel
  if facts.float then
    local e = 2.0 ^ (1 - facts.bits)
    dtypes.float[name], dtypes.least[name], dtypes.epsilon[name] = true, facts.least, e
    dtypes.half[name] = facts.size == 2 or nil
    dtypes.largest[name] = (2 - e) * 2.0 ^ (2 - facts.least)
  else dtypes.whole[name] = true end
end

--- The operands x and y of op as tensors, of which one may be a number: it becomes a 0-d tensor of
--- the other's dtype if that is a float, else of f32.
function dtypes.pair(op, x, y)
  local like = is_tensor(x) and x or need_tensor(op, "y", y)
  local function lift(v, name)
    if type(v) ~= "number" then return need_tensor(op, name, v) end
    return flame.full({}, v,
      { dtype = like:is_floating_point() and like.dtype or "f32", device = like.device })
  end
  return lift(x, "x"), lift(y, "y")
end

--- The dtype of a float result of x and y: one that holds both; f32 if none is a float.
function dtypes.float_of(x, y)
  local a, b = x.dtype, y.dtype
  if not y:is_floating_point() then b = a end
  if not x:is_floating_point() then a = b end
  if not x:is_floating_point() and not y:is_floating_point() then return "f32" end
  if a == b then return a end
  return (a == "f64" or b == "f64") and "f64" or "f32"
end

--- f(x) for an f composed of several ops: integers become f32; half types are computed in f32 and
--- rounded once, at the end.
function dtypes.smooth(x, f)
  x = x:is_floating_point() and x or x:float()
  return dtypes.half[x.dtype] and f(x:float()):to(x.dtype) or f(x)
end

--- Declares flame.name(x, y), composed of several ops, with a result in their common float dtype.
function dtypes.binary(name, f)
  def(name .. "_?(x: T|num, y: T|num) -> T", function(x, y)
    x, y = dtypes.pair(name, x, y)
    local dtype = dtypes.float_of(x, y)
    local work = dtypes.half[dtype] and "f32" or dtype
    local z = f(x:to(work), y:to(work))
    return dtypes.half[dtype] and z:to(dtype) or z
  end)
end

return dtypes
