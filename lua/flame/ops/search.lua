--- Searching in sorted rows: searchsorted and bucketize. Positions are 1-based, 1 to n + 1.
local flame = require "flame"
local internal = flame.internal
local arguments = require "flame.base.arguments"
local fail, call, def = arguments.fail, internal.call, arguments.def

local function is_float(x) return x:is_floating_point() end
local function like(x, dtype) return { dtype = dtype or x.dtype, device = x.device } end

local function search_side(op, right, side)
  if side == "left" and right then fail(op, 'side = "left" and right = true contradict') end
  return right or side == "right"
end

local function same_leading(op, sorted, v)
  local a, b = sorted.shape, v.shape
  if #a == #b and table.concat(a, ",", 1, #a - 1) == table.concat(b, ",", 1, #b - 1) then return end
  fail(op, "sorted is (%s), v is (%s): all but the last axis must agree", table.concat(a, ", "),
    table.concat(b, ", "))
end

local function search(op, sorted, v, out_int32, right, sorter)
  if type(v) == "number" then
    if sorted.ndim ~= 1 then fail(op, "v is a number: sorted has %d axes, need 1", sorted.ndim) end
    v = flame.tensor(v, like(sorted, is_float(sorted) and sorted.dtype or "f64"))
  end
  if sorted.ndim == 0 then fail(op, "sorted is 0-d, need at least one axis") end
  if sorted.ndim > 1 then same_leading(op, sorted, v) end
  sorted, v = sorted:detach(), v:detach()
  if sorter then
    if sorter.ndim ~= sorted.ndim or #sorter ~= #sorted
        or sorter:numel() ~= sorted:numel() then
      fail(op, "sorter is (%s), sorted (%s): need the same", table.concat(sorter.shape, ", "),
        table.concat(sorted.shape, ", "))
    end
    sorted = sorted:gather(-1, sorter)
  end
  if sorted.dtype ~= v.dtype then
    local dtype = (flame.zeros(0, like(sorted)) + flame.zeros(0, like(v))).dtype
    sorted, v = sorted:to(dtype), v:to(dtype)
  end
  local n, shape = sorted.shape[sorted.ndim], v.shape
  local rows, m = 1, v:numel()
  if sorted.ndim > 1 then
    m = shape[#shape]
    for k = 1, #shape - 1 do rows = rows * shape[k] end
  end
  local at = call("searchsorted", op, { sorted, v },
    { rows, n, m, right and 1 or 0, sorted.ndim == 1 and 1 or 0 },
    shape, "i64")
  return out_int32 and at:int() or at
end

--- The positions (1 to n + 1) at which v would be inserted into the ascending rows of 'sorted',
--- before (right: after) equal elements.
def([[searchsorted(sorted: T, v: T|num, out_int32 = false, right = false, side?: "left"|"right",
    sorter?: T) -> T]], function(sorted, v, out_int32, right, side, sorter)
  right = search_side("searchsorted", right, side)
  return search("searchsorted", sorted, v, out_int32, right, sorter)
end)

--- The bucket of each element of x: searchsorted in a 1-d tensor of ascending boundaries.
def("bucketize(x: T|num, boundaries: T, out_int32 = false, right = false) -> T",
  function(x, boundaries, out_int32, right)
    if boundaries.ndim ~= 1 then
      fail("bucketize", "boundaries has %d axes, need 1", boundaries.ndim)
    end
    return search("bucketize", boundaries, x, out_int32, right)
  end)
