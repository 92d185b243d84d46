--- Searching in sorted rows: searchsorted and bucketize. Positions are 1-based, 1 to n + 1.
local flame, _, internal = ...
local fail, need_tensor, def = internal.failf, internal.need_tensor, internal.def
local options, call, need_flag = internal.options, internal.call, internal.need_flag

local function is_float(x) return x:is_floating_point() end
local function like(x, dtype) return { dtype = dtype or x.dtype, device = x.device } end

local search_options = { right = false, side = false, sorter = false, out_int32 = false }

local function search_side(op, o)
  if o.side and o.side ~= "left" and o.side ~= "right" then
    fail(op, 'side must be "left" or "right", got %s', tostring(o.side))
  end
  if o.side == "left" and need_flag(op, "right", o.right) then
    fail(op, 'side = "left" and right = true contradict')
  end
  need_flag(op, "out_int32", o.out_int32)
  return need_flag(op, "right", o.right) or o.side == "right"
end

local function same_leading(op, sorted, v)
  local a, b = sorted.shape, v.shape
  if #a == #b and table.concat(a, ",", 1, #a - 1) == table.concat(b, ",", 1, #b - 1) then return end
  fail(op, "sorted is (%s), v is (%s): all but the last axis must agree", table.concat(a, ", "),
    table.concat(b, ", "))
end

local function search(op, sorted, v, o)
  local right = search_side(op, o)
  if type(v) == "number" then
    if sorted.ndim ~= 1 then fail(op, "v is a number: sorted has %d axes, need 1", sorted.ndim) end
    v = flame.tensor(v, like(sorted, is_float(sorted) and sorted.dtype or "f64"))
  end
  need_tensor(op, "v", v)
  if sorted.ndim == 0 then fail(op, "sorted is 0-d, need at least one axis") end
  if sorted.ndim > 1 then same_leading(op, sorted, v) end
  sorted, v = sorted:detach(), v:detach()
  if o.sorter then
    if need_tensor(op, "sorter", o.sorter).ndim ~= sorted.ndim or #o.sorter ~= #sorted
        or o.sorter:numel() ~= sorted:numel() then
      fail(op, "sorter is (%s), sorted (%s): need the same", table.concat(o.sorter.shape, ", "),
        table.concat(sorted.shape, ", "))
    end
    sorted = sorted:gather(-1, o.sorter)
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
  return o.out_int32 and at:int() or at
end

--- Positions (1 to n + 1) at which v would be put into the ascending rows of 'sorted', before
--- (right: behind) equal elements.
---@param o table?  {right = false, side = none, sorter = none, out_int32 = false}
def("searchsorted", 3, function(sorted, v, o)
  need_tensor("searchsorted", "sorted", sorted)
  return search("searchsorted", sorted, v, options("searchsorted", o, search_options))
end)

--- The bucket of each element of x: searchsorted in the 1-d tensor of ascending boundaries.
---@param o table?  {right = false, out_int32 = false}
def("bucketize", 3, function(x, boundaries, o)
  need_tensor("bucketize", "boundaries", boundaries)
  if boundaries.ndim ~= 1 then
    fail("bucketize", "boundaries has %d axes, need 1", boundaries.ndim)
  end
  return search("bucketize", boundaries, x,
    options("bucketize", o, { right = false, out_int32 = false }))
end)
