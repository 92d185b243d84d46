--- Rotary position embedding (Su et al. 2021), in the convention of the PyTorch world's Llama:
-- feature i turns with feature i + d / 2.
local flame = require "flame"
local arguments = require "flame.base.arguments"
local fail, def = arguments.fail, arguments.def

-- Angles (t, d / 2) of the positions from 'offset' on, which counts from 0.
local function angles(t, d, base, offset, device)
  local rate =
    (flame.arange(0, d - 2, 2, { dtype = "f64", device = device }) * (-math.log(base) / d)):exp()
  local at = flame.arange(offset, offset + t - 1, 1, { dtype = "f64", device = device })
  return at:reshape(-1, 1) * rate
end

local function turned(x, interleaved)
  local d = x.shape[x.ndim]
  if not interleaved then
    return flame.cat({ -x:narrow(-1, d // 2 + 1, d // 2), x:narrow(-1, 1, d // 2) }, -1)
  end
  local split = x:unflatten(-1, { d // 2, 2 })
  return flame.stack({ -split:select(-1, 2), split:select(-1, 1) }, -1):flatten(-2, -1)
end

--- x (…, t, d) with each pair of features turned by its position: x cos + turned(x) sin. Either the
--- tables cos and sin are given, (t, d) or what broadcasts to x; or they are those of
--- base, the first row at position 'offset'; interleaved: pairs 1 2, 3 4, ….
def([[rotary(x: T, cos?: T, sin?: T, *, base = 10000, offset = 0,
    interleaved = false) -> T]], function(x, cos, sin, base, offset, interleaved)
  if x.ndim < 2 then fail("rotary", "x has %d axes, need at least 2 (…, t, d)", x.ndim) end
  if not x:is_floating_point() then fail("rotary", "x is %s, need a float", x.dtype) end
  local t, d = x.shape[x.ndim - 1], x.shape[x.ndim]
  if d % 2 ~= 0 then fail("rotary", "the last axis has %d features, need an even number", d) end
  if (cos == nil) ~= (sin == nil) then fail("rotary", "\1give both cos and sin, or neither") end
  if not cos then
    local a = angles(t, d, base, offset, x.device)
    if interleaved then a = a:repeat_interleave(2, 2) else a = flame.cat({ a, a }, 2) end
    local dtype = (x.dtype == "f16" or x.dtype == "bf16") and "f32" or x.dtype
    cos, sin = a:cos():to(dtype), a:sin():to(dtype)
  end
  local y = x * cos + turned(x, interleaved) * sin
  return y.dtype == x.dtype and y or y:to(x.dtype)
end)
