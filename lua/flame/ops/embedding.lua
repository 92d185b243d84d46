--- embedding with its options (max_norm and so on), and embedding_bag.
local flame = require "flame"
local internal = flame.internal
local arguments = require "flame.base.arguments"
local fail, def = arguments.fail, arguments.def
local where = flame.where

local function shape_text(x) return "(" .. table.concat(x.shape, ", ") .. ")" end

-- Scales rows of w in place so that none of those looked up is longer than max_norm.
local function renorm_rows(w, ids, max_norm, p)
  flame.no_grad(function()
    local used = flame.unique(ids:reshape(-1)):long()
    if used:numel() == 0 then return end
    w:index_copy_(1, used, w:detach():index_select(1, used):renorm(p, 1, max_norm))
  end)
end

-- For each id 1 / how often ids has it, in w's dtype and the shape of ids with a last axis of 1.
local function by_frequency(ids, w)
  local flat = ids:reshape(-1):long()
  local count = flame.zeros({ w.shape[1] }, { dtype = "i64", device = w.device }):index_add(1, flat,
    flame.ones_like(flat))
  local share = count:index_select(1, flat):to(w.dtype):reciprocal():reshape(ids.shape)
    :unsqueeze(-1)
  return share
end

--- embedding with options: rows at padding_idx get no gradient; max_norm limits the norm of rows
--- that are looked up, in place; scale_grad_by_freq divides a row's gradient by how often it occurs
--- in ids. Called from C.
function internal.embedding(ids, w, k, max_norm, norm_type, scale_grad_by_freq)
  local op, n = "embedding", w.shape[1]
  if w.ndim ~= 2 then fail(op, "weight has %d axes, need 2", w.ndim) end
  if k and (k == 0 or k > n or k < -n) then fail(op, "padding_idx %d, need 1 to %d", k, n) end
  if max_norm then renorm_rows(w, ids, max_norm, norm_type) end
  local y = flame.embedding(ids, w)
  if scale_grad_by_freq and y.requires_grad then
    y = y:detach() + (y - y:detach()) * by_frequency(ids, w)
  end
  if not k then return y end
  return where(ids:eq(k > 0 and k or n + 1 + k):unsqueeze(-1), y:detach(), y)
end

-- The number of each id's bag, as a vector, without ids that are in no bag; the number of bags.
local function bags_of(op, ids, w, offsets, include_last)
  if ids.ndim == 2 then
    if offsets then
      fail(op, "offsets are for ids of one axis, ids has shape %s", shape_text(ids))
    end
    local bags = ids.shape[1]
    local bag = flame.arange(1, math.max(bags, 1),
      { dtype = "i64", device = w.device }):unsqueeze(2)
    return bag:expand({ math.max(bags, 1), ids.shape[2] }):narrow(1, 1, bags):reshape(-1), bags
  end
  if ids.ndim ~= 1 or not offsets then
    fail(op, "ids has shape %s, need two axes, or one and offsets", shape_text(ids))
  end
  if arguments.need_integers(op, "offsets", offsets).ndim ~= 1 then
    fail(op, "offsets has %d axes, need 1", offsets.ndim)
  end
  if offsets.dtype == "bool" then fail(op, "offsets is bool, need integers") end
  local first, least = offsets:totable(), 1
  if #first == 0 then fail(op, "offsets has no elements, the first is 1") end
  for k, i in ipairs(first) do
    local most = k == 1 and 1 or ids.shape[1] + 1
    if i < least or i > most then
      fail(op, "offset %d at position %d, need %s", i, k,
        k == 1 and "1" or ("%d to %d: offsets rise"):format(least, most))
    end
    least = i
  end
  local bags, at, now = #first - (include_last and 1 or 0), {}, 0
  -- with include_last the last offset is an end: ids from it on are in no bag
  for i = 1, include_last and least - 1 or ids.shape[1] do
    while now < bags and first[now + 1] <= i do now = now + 1 end
    at[i] = now
  end
  return flame.tensor(at, { dtype = "i64", device = w.device }), bags
end

local function check_weights(op, ids, by, mode)
  if mode ~= "sum" then fail(op, 'per_sample_weights need mode = "sum"') end
  if shape_text(by) ~= shape_text(ids) then
    fail(op, "per_sample_weights has shape %s and ids %s", shape_text(by), shape_text(ids))
  end
end

--- Sums, means or maxima of bags of rows of weight: (bags, features); 0 for an empty bag. ids are
--- (n, k), a bag per row, or one axis with offsets, the positions (from 1) in ids at which the bags
--- begin; include_last_offset: the last one is where the last bag ends. sparse has no effect.
def([[embedding_bag(ids: T, weight: T, offsets?: T, max_norm?: num, norm_type: num = 2,
    scale_grad_by_freq = false, mode: "mean"|"sum"|"max" = "mean", sparse = false,
    per_sample_weights?: T, include_last_offset = false, padding_idx?: int) -> T]],
  function(ids, w, offsets, max_norm, norm_type, scale_grad_by_freq, mode, _, by, include_last,
    padding_idx)
    local op = "embedding_bag"
    if w.ndim ~= 2 then fail(op, "weight is %d-d, need rows of a matrix", w.ndim) end
    if by then check_weights(op, ids, by, mode) end
    local bag, bags = bags_of(op, ids, w, offsets, include_last)
    local n = bag:numel()
    internal.naming(op)
    local flat = internal.positions(ids:reshape(-1):narrow(1, 1, n), w.shape[1])
    local rows = internal.embedding(flat, w, padding_idx, max_norm, norm_type, scale_grad_by_freq)
    if by then rows = rows * by:reshape(-1, 1):narrow(1, 1, n) end
    local counts = flame.ones(flat.shape, { dtype = "i64", device = w.device })
    if padding_idx then                                             -- padding belongs to no bag
      local k = padding_idx > 0 and padding_idx or w.shape[1] + 1 + padding_idx
      local pad = flat:eq(k)
      counts = where(pad, 0, counts)
      rows = where(pad:unsqueeze(2), mode == "max" and -math.huge or 0, rows)
    end
    local total = flame.zeros({ bags }, { dtype = "i64", device = w.device })
      :index_add(1, bag, counts)
    local zero = flame.zeros({ bags, w.shape[2] }, { dtype = w.dtype, device = w.device })
    if mode == "max" then
      local y = flame.scatter_reduce(zero, 1, bag:unsqueeze(2):expand(rows.shape), rows, "amax",
        { include_self = false })
      return where(total:eq(0):unsqueeze(2), 0, y)
    end
    local y = zero:index_add(1, bag, rows)
    return mode == "sum" and y or y / total:clamp({ min = 1 }):to(w.dtype):unsqueeze(2)
  end)
