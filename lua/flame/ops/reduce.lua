--- Reductions composed of other ops, also over segments; and functions with gradient 0 at 0.
local flame = require "flame"
local arguments = require "flame.base.arguments"
local fail, def = arguments.fail, arguments.def
local where = flame.where

-- f(x) with gradient 0 where x is 0: for roots, which have an infinite slope there.
local function flat_at_0(x, f)
  if not x.requires_grad then return f(x) end
  local zero = x:eq(0)
  return where(zero, f(x:detach()), f(where(zero, 1, x)))
end
local function root(x) return flat_at_0(x, flame.sqrt) end
--- The sum of the elements that are not NaN.
def("nansum(x: T, dim?: axes, keepdim = false, *, dtype?: dtype) -> T",
  function(x, d, keepdim, dtype)
    return where(x:isnan(), 0, x):sum(d, { keepdim = keepdim, dtype = dtype })
  end)
--- The mean of the elements that are not NaN.
def("nanmean(x: T, dim?: axes, keepdim = false, *, dtype?: dtype) -> T",
  function(x, d, keepdim, dtype)
    if not x:is_floating_point() then
      fail("nanmean", "dtype %s is not supported\1; cast first: x:float()", x.dtype)
    end
    local there, o = x:detach():isnan():logical_not(), { keepdim = keepdim, dtype = dtype }
    return where(there, x, 0):sum(d, o) / there:sum(d, o)
  end)
-- std and mean, or var and mean.
local function spread_and_mean(name)
  local function unbiased(x, on, keepdim)
    local o = { unbiased = on, keepdim = keepdim }
    return x[name](x, o), x:mean({ keepdim = keepdim })
  end
  local function along(x, d, on, keepdim, correction)
    local o = { unbiased = on, correction = correction, keepdim = keepdim }
    return x[name](x, d, o), x:mean(d, { keepdim = keepdim })
  end
  def(name .. "_mean(x: T, unbiased: bool, keepdim = false) -> " .. name .. ": T, mean: T",
    unbiased, name .. "_mean(x: T, dim?: axes, unbiased = true, keepdim = false, *, "
      .. "correction?: num) -> " .. name .. ": T, mean: T", along)
end
--- Standard deviation and mean.
spread_and_mean("std")
--- Variance and mean.
spread_and_mean("var")
--- Smallest and largest.
def("aminmax(x: T, *, dim?: axes, keepdim = false) -> min: T, max: T", function(x, d, keepdim)
  local o = { keepdim = keepdim }
  return x:amin(d, o), x:amax(d, o)
end)

--- Reduces consecutive segments of x along axis 1. lengths: of the segments; or offsets: where each
--- begins, and where the last ends. Each begins with 'initial'; without it an empty one gives 0
--- (sum), NaN (mean), 1 (prod), -inf (max) or inf (min). unsafe has no effect.
def([[segment_reduce(x: T, reduce: "sum"|"mean"|"prod"|"max"|"min", *, lengths?: T, offsets?: T,
    axis: axis = 1, unsafe = false, initial?: num) -> T]],
function(x, reduce, lengths, offsets, axis, _, initial)
  local op = "segment_reduce"
  if offsets then lengths = offsets:diff() end
  if axis ~= 1 then fail(op, "axis = %d, only axis 1 is supported", axis) end
  if not lengths then fail(op, "lengths or offsets must be given") end
  local n = arguments.need_integers(op, "lengths", lengths):numel()
  if lengths:sum():item() ~= x.shape[1] then
    fail(op, "lengths add up to %d, x has %d rows", lengths:sum():item(), x.shape[1])
  end
  local start = ({ sum = 0, mean = 0, prod = 1, max = -math.huge, min = math.huge })[reduce]
  local shape, wide = x.shape, { x.shape[1] }
  shape[1] = n
  for k = 2, x.ndim do wide[k] = 1 end
  local at = flame.arange(1, n, { dtype = "i64", device = x.device }):repeat_interleave(lengths)
    :reshape(wide):expand(x.shape)
  local base = flame.full(shape, initial or start, { dtype = x.dtype, device = x.device })
  local how = ({ max = "amax", min = "amin" })[reduce] or reduce
  if reduce ~= "mean" then return flame.scatter_reduce(base, 1, at, x, how) end
  wide[1] = n
  local count = lengths:clamp(initial and 1 or 0)            -- 'initial' if the segment is empty
  return flame.scatter_reduce(base, 1, at, x, "sum") / count:to(x.dtype):reshape(wide)
end)

return { flat_at_0 = flat_at_0, root = root }
