local flame = require "flame"
local NAN, INF = 0 / 0, math.huge

--- A random tensor of few distinct values (ties); floats include NaN, infinities and both zeros.
return function(shape, dtype)
  local x = flame.randint(shape, -3, 3)
  if dtype == "bool" then return x:gt(0) end
  if dtype == "u8" then return x:abs():to(dtype) end
  x = x:to(dtype)
  if not x:is_floating_point() then return x end
  local kind = flame.randint(shape, 1, 12)
  x = flame.where(kind:eq(1), NAN, x)
  x = flame.where(kind:eq(2), INF, x)
  x = flame.where(kind:eq(3), -INF, x)
  return flame.where(kind:eq(4), -0.0, x)
end
