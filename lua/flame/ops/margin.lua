--- Losses that are walked step by step or look at lists of labels, and lookups with options: CTC,
-- margins over several labels, embedding_bag. ops/loss.lua has the others.
local flame = require "flame"
local internal = flame.internal
local arguments = require "flame.base.arguments"
local loss = require "flame.ops.loss"
local fail, def = arguments.fail, arguments.def
local where, reduce = flame.where, loss.reduce

local function shape_text(x) return "(" .. table.concat(x.shape, ", ") .. ")" end

-- ---- margins -----------------------------------------------------------------------------------
--- max(0, 1 - (x at a label - x elsewhere)) over all pairs, over the number of classes. target: ids
--- from 1 in each row, up to the first 0.
def([[multilabel_margin_loss(input: T, target: T, reduction: "mean"|"sum"|"none" = "mean") -> T]],
  function(x, y, reduction)
    local op = "multilabel_margin_loss"
    arguments.need_integers(op, "target", y)
    if x.ndim > 2 or shape_text(x) ~= shape_text(y) then
      fail(op, "input has shape %s and target %s, need the same of at most two axes", shape_text(x),
        shape_text(y))
    end
    local single = x.ndim < 2
    if single then x, y = x:reshape(1, -1), y:reshape(1, -1) end
    local n = x.shape[2]
    local there = y:ne(0):to("i64"):cumprod(2):bool()             -- up to the first 0
    local ids = where(there, y:long(), 1)
    internal.naming(op)
    ids = internal.classes(ids, n)
    local own = flame.zeros(x.shape, { dtype = "i64", device = x.device }):scatter_add(2, ids,
      there:long()):gt(0)
    local at = x:gather(2, ids):unsqueeze(3)
    local e = (1 - at + x:unsqueeze(2)):relu()
    e = where(there:unsqueeze(3):logical_and(own:logical_not():unsqueeze(2)), e,
      0):sum({ 2, 3 }) / n
    return reduce(single and e:reshape({}) or e, reduction)
  end)
--- triplet_margin_loss with a distance of one's own: a function of two
--- tensors that gives one number a row.
--- Without one it is pairwise_distance.
def([[triplet_margin_with_distance_loss(anchor: T, positive: T, negative: T, *,
    distance_function?: fn, margin = 1.0, swap = false,
    reduction: "mean"|"sum"|"none" = "mean") -> T]],
  function(a, p, n, distance, margin, swap, reduction)
    distance = distance or flame.pairwise_distance
    local near, far = distance(a, p), distance(a, n)
    if swap then far = far:minimum(distance(p, n)) end
    return reduce((near - far + margin):clamp({ min = 0 }), reduction)
  end)

-- ---- connectionist temporal classification ------------------------------------------------------
--- log(exp a + exp b + exp c) of what may be -inf: with all of them there, -inf and no gradient.
local function join(list)
  local top = list[1]:detach()
  for k = 2, #list do top = top:maximum(list[k]:detach()) end
  local none = top:eq(-math.huge)
  top = where(none, 0, top)
  local sum
  for _, v in ipairs(list) do
    local e = (v - top):exp()
    sum = sum and sum + e or e
  end
  return where(none, -math.huge, where(none, 1, sum):log() + top)
end

--- Labels in rows (n, longest), from rows or from one list of all behind each
--- other; and their numbers.
local function label_rows(op, y, n, lengths)
  local longest, total = 0, 0
  for _, l in ipairs(lengths) do longest, total = math.max(longest, l), total + l end
  if y.ndim == 2 then
    if y.shape[1] ~= n or y.shape[2] < longest then
      fail(op, "target has shape %s, need (%d, %d) or more columns", shape_text(y), n, longest)
    end
    if longest == 0 then return y:narrow(2, 1, 0), 0 end
    local as = { dtype = "i64", device = y.device }     -- behind its length a row may hold anything
    local there = flame.arange(1, longest, as):le(flame.tensor(lengths, as):unsqueeze(2))
    return where(there, y:narrow(2, 1, longest), 1), longest
  end
  if y:numel() ~= total then
    fail(op, "target has %d labels, target_lengths add up to %d", y:numel(), total)
  end
  local rows, first = {}, 1
  for i, l in ipairs(lengths) do
    rows[i] = y:narrow(1, first, l):pad({ 0, longest - l }, "constant", 1)
    first = first + l
  end
  return flame.stack(rows, 1), longest
end

local function lengths_of(op, name, v, n, most)
  local list = flame.is_tensor(v) and v:reshape(-1):totable() or type(v) == "number" and { v } or v
  if type(list) ~= "table" or #list ~= n then fail(op, "%s must be %d numbers", name, n) end
  for i, l in ipairs(list) do
    if math.type(l) ~= "integer" or l < 0 or l > most then
      fail(op, "%s[%d] = %s, need 0 to %d", name, i, tostring(l), most)
    end
  end
  return list
end

--- Log-probabilities of the paths that spell the labels (Graves et al. 2006): alpha over time for
--- blank, label 1, blank, label 2, …, blank.
local function ctc_losses(x, rows, longest, in_lengths, lengths, blank)
  local t, n, device = x.shape[1], x.shape[2], x.device
  local states = 2 * longest + 1
  local extended = flame.full({ n, longest + 1, 2 }, blank, { dtype = "i64", device = device })
  if longest > 0 then extended[{ {}, { 1, longest }, 2 }] = rows:long() end
  extended = extended:flatten(2):narrow(2, 1, states)
  local at = extended:unsqueeze(1):expand({ t, n, states })
  internal.naming("ctc_loss")
  local p = x:gather(3, at)                                               -- (t, n, states)
  local low = flame.full({ n, 2 }, -math.huge, { dtype = x.dtype, device = device })
  local jump = flame.zeros({ n, states }, { dtype = "bool", device = device })
  if states > 2 then                                  -- over a blank between two labels that differ
    local other = extended:narrow(2, 3, states - 2):ne(extended:narrow(2, 1, states - 2))
    jump = other:logical_and(extended:narrow(2, 3, states - 2):ne(blank)):to("u8")
      :pad({ 2, 0 }):bool()
  end
  local start = flame.arange(1, states, { dtype = "i64", device = device }):le(2)
    :expand({ n, states })
  local alpha = where(start, p[1], -math.huge)
  local steps = flame.tensor(in_lengths, { dtype = "i64", device = device }):unsqueeze(2)
  for k = 2, t do
    local before = flame.cat({ low, alpha }, 2)
    local arrived = join { alpha, before:narrow(2, 2, states),
      where(jump, before:narrow(2, 1, states), -math.huge) } + p[k]
    alpha = where(steps:ge(k), arrived, alpha)
  end
  local last = flame.tensor(lengths, { dtype = "i64", device = device }):unsqueeze(2) * 2 + 1
  local final = alpha:gather(2, last)
  local label = where(last:gt(1), alpha:gather(2, (last - 1):clamp({ min = 1 })), -math.huge)
  return -join({ final, label }):squeeze(2)
end

--- input: log-probabilities (t, n, classes); target: ids (n, longest) or all behind each other; the
--- lengths as tensors or lists; blank is a class id, the first.
def([[ctc_loss(input: T, target: T, input_lengths: T|int|int[], target_lengths: T|int|int[],
    blank: int = 1, reduction: "mean"|"sum"|"none" = "mean", zero_infinity = false) -> T]],
  function(x, y, input_lengths, target_lengths, blank, reduction, zero_infinity)
    local op = "ctc_loss"
    local single = x.ndim == 2
    if x.ndim ~= 2 and x.ndim ~= 3 then
      fail(op, "input has shape %s, need (time, batch, classes)", shape_text(x))
    end
    if single then x = x:unsqueeze(2) end
    local t, n, classes = x.shape[1], x.shape[2], x.shape[3]
    if blank < 1 or blank > classes then
      fail(op, "blank = %d, need 1 to %d", blank, classes)
    end
    input_lengths = lengths_of(op, "input_lengths", input_lengths, n, t)
    target_lengths = lengths_of(op, "target_lengths", target_lengths, n, y:numel())
    local rows, longest = label_rows(op, y, n, target_lengths)
    if t == 0 then fail(op, "input has no steps") end
    local e = ctc_losses(x, rows, longest, input_lengths, target_lengths, blank)
    if zero_infinity then e = where(e:detach():isinf(), 0, e) end
    if reduction == "mean" then
      local l = {}
      for i, v in ipairs(target_lengths) do l[i] = math.max(v, 1) end
      return (e / flame.tensor(l, { dtype = x.dtype, device = x.device })):mean()
    end
    e = reduce(e, reduction)
    return single and e:reshape({}) or e
  end)

-- ---- products and lookups -----------------------------------------------------------------------
--- x1' weight[k] x2 + bias[k]: x1 (…, n), x2 (…, m), weight (out, n, m).
def("bilinear(x1: T, x2: T, weight: T, bias?: T) -> T", function(x1, x2, w, b)
  local op = "bilinear"
  if w.ndim ~= 3 or w.shape[2] ~= rawget(x1.shape, x1.ndim)
      or w.shape[3] ~= rawget(x2.shape, x2.ndim) then
    fail(op, "x1 has shape %s, x2 %s and weight %s, need (out, n, m)", shape_text(x1),
      shape_text(x2),
      shape_text(w))
  end
  local lead, rows = x1.shape, 1
  for k = 1, #lead - 1 do rows = rows * lead[k] end
  lead[#lead] = w.shape[1]
  local y = flame.einsum("bn,onm,bm->bo", x1:reshape(rows, w.shape[2]), w,
    x2:reshape(rows, w.shape[3])):reshape(lead)
  return b and y + b or y:clone()
end)

--- Rows of w renormed in place so that none that is looked up is longer than max_norm.
local function renorm_rows(w, ids, max_norm, p)
  flame.no_grad(function()
    local used = flame.unique(ids:reshape(-1)):long()
    if used:numel() == 0 then return end
    w:index_copy_(1, used, w:detach():index_select(1, used):renorm(p, 1, max_norm))
  end)
end

--- The rows of w, passed on as they are; the gradient of each over how often it is looked up.
local function by_frequency(ids, w)
  local flat = ids:reshape(-1):long()
  local count = flame.zeros({ w.shape[1] }, { dtype = "i64", device = w.device }):index_add(1, flat,
    flame.ones_like(flat))
  local share = count:index_select(1, flat):to(w.dtype):reciprocal():reshape(ids.shape)
    :unsqueeze(-1)
  return share
end

--- embedding with options: rows at padding_idx get no gradient; max_norm renorms, in place, rows
--- that are looked up; scale_grad_by_freq divides a row's gradient by how often it stands in ids.
--- Called from C.
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

--- The bag of each of the ids, in a row, and the number of bags.
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
  -- after the last offset: in no bag
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

--- Sums, means or maxima of bags of rows of w: ids (n, k), or a list with the
--- positions at which the bags begin.
--- The positions count from 1.
def([[embedding_bag(ids: T, weight: T, offsets?: T, max_norm?: num, norm_type: num = 2,
    scale_grad_by_freq = false, mode: "mean"|"sum"|"max" = "mean", sparse = false,
    per_sample_weights?: T, include_last_offset = false, padding_idx?: int) -> T]],
  function(ids, w, offsets, max_norm, norm_type, scale_grad_by_freq, mode, _, by, include_last,
    padding_idx)
    local op = "embedding_bag"
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
