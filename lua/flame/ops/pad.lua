--- pad with its modes.
local flame = require "flame"
local internal = flame.internal
local arguments = require "flame.base.arguments"
local fail, def = arguments.fail, arguments.def

-- ---- pad ----------------------------------------------------------------------------------------
--- edges[mode](x, d, n, …): the parts to put before and after axis d, which has n elements.
local edges = {}
function edges.reflect(x, d, n, before, after)
  if math.max(before, after) >= n then
    fail("pad", "reflecting needs less than the axis: %d and %d, axis %d has %d",
      before, after, d, n)
  end
  return x:narrow(d, 2, before):flip(d), x:narrow(d, n - after, after):flip(d)
end
function edges.circular(x, d, n, before, after)
  if math.max(before, after) > n then
    fail("pad", "%d and %d around axis %d that has %d", before, after, d, n)
  end
  return x:narrow(d, n - before + 1, before), x:narrow(d, 1, after)
end
function edges.replicate(x, d, n, before, after)
  if n == 0 then fail("pad", "axis %d is empty: there is nothing to repeat", d) end
  local shape = x.shape
  local function of(at, count)
    shape[d] = count
    return x:narrow(d, at, 1):expand(shape)
  end
  return of(1, before), of(n, after)
end

local function pad_axis(x, d, before, after, mode)
  local n = x.shape[d]
  -- A negative number cuts elements off one end; the other end may then repeat an element that
  -- was cut off, so positions are clamped instead of cutting first.
  if mode == "replicate" and n > 0 and math.min(before, after) < 0 and n + before + after >= 0 then
    local at = flame.arange(1 - before, n + after, { dtype = "i64", device = x.device }):clamp(1, n)
    return x:index_select(d, n + before + after > 0 and at or at:narrow(1, 1, 0))
  end
  if before < 0 or after < 0 then
    local cut, rest = math.max(-before, 0), n - math.max(-before, 0) - math.max(-after, 0)
    if rest < 0 then fail("pad", "axis %d would be shorter than nothing", d) end
    x, n, before, after = rest > 0 and x:narrow(d, cut + 1, rest) or x:narrow(d, 1, 0), rest,
      math.max(before, 0), math.max(after, 0)
  end
  if before == 0 and after == 0 then return x end
  local first, last = edges[mode](x, d, n, before, after)
  local parts = { x }
  if before > 0 then table.insert(parts, 1, first) end
  if after > 0 then parts[#parts + 1] = last end
  return flame.cat(parts, d)
end

--- x with elements added before and after each axis, or with negative numbers removed: pad is
--- {before, after, …}, pairs from the last axis backwards. value is for the mode "constant".
def([[pad(x: T, pad: int[], mode: "constant"|"reflect"|"replicate"|"circular" = "constant",
    value: num|bool = 0) -> T]], function(x, pairs_of, mode, value)
  if value == true then value = 1 end
  if mode == "constant" then return internal.pad_constant(x, pairs_of, value or 0) end
  if #pairs_of % 2 ~= 0 or #pairs_of > 2 * x.ndim then
    fail("pad", "need {before, after, …}, a pair an axis at most")
  end
  local y = x
  for k = 1, #pairs_of, 2 do
    y = pad_axis(y, x.ndim - (k - 1) // 2, math.tointeger(pairs_of[k]),
      math.tointeger(pairs_of[k + 1]), mode)
  end
  return y:clone()
end)
