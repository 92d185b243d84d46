--- Sorting, selecting, counting and running sums. Routines (calls.def) compute positions;
-- values are gathered by them, so their gradients are gather's. The gradients of scans (running
-- sums and so on) are scans, so they have derivatives of every order. NaN is above every number; of
-- equal values the first position is taken; positions are 1-based.
local flame = require "flame"
local internal = flame.internal
local func = require "flame.autograd.func"
local arguments = require "flame.base.arguments"
local dtypes = require "flame.base.dtypes"
local recording = require "flame.base.recording"
local fail, need_tensor, def = arguments.fail, arguments.need_tensor, arguments.def
local axis_of, call, along = arguments.axis_of, internal.call, internal.along
local where, tracked = flame.where, recording.tracked

local function is_float(x) return x:is_floating_point() end
local function like(x, dtype) return { dtype = dtype or x.dtype, device = x.device } end

local function need_float(op, name, x)
  if not is_float(need_tensor(op, name, x)) then
    fail(op, "%s is %s, need a float", name, x.dtype)
  end
  return x
end

-- In this file a 0-d tensor counts as a tensor with one axis of size 1.

-- Products of the sizes of x's axes before d, the size of d, those after d; x's shape.
local function around(x, d)
  local outer, inner, shape = 1, 1, x.shape
  for k = 1, d - 1 do outer = outer * shape[k] end
  for k = d + 1, #shape do inner = inner * shape[k] end
  return outer, shape[d] or 1, inner, shape
end

-- x, untracked, with axis d moved to the end; the number and the length of rows along d.
local function rows_of(x, d)
  local rows = x:detach()
  if d < x.ndim then rows = rows:movedim(d, -1) end
  local n = x.shape[d] or 1
  local outer, _, inner = around(x, d)
  return rows, outer * inner, n
end

-- The positions (i64) that op 'kind' gives for rows_of(x, d), k per row, with axis d moved back to
-- its place.
local function back(kind, op, x, d, k, params, rows)
  local shape = rows.shape
  if x.ndim > 0 then shape[x.ndim] = k end
  local at = call(kind, op, { rows }, params, shape, "i64")
  return d < x.ndim and at:movedim(-1, d):contiguous() or at
end

local function gather(x, d, at)
  if x.ndim == 0 then return x:clone() end
  return x:gather(d, at)
end

-- ---- sorting -----------------------------------------------------------------------------------
local function positions(op, x, d, descending)
  local rows, count, n = rows_of(x, d)
  return back("argsort", op, x, d, n, { count, n, descending and 1 or 0 }, rows)
end

--- The positions that sort x along an axis; always stable.
def("argsort(x: T, dim: axis = -1, descending = false, stable = false) -> T",
  function(x, d, descending)
    return positions("argsort", x, axis_of("argsort", x, d), descending)
  end)

--- The op that returns 'values', x's sorted elements, with the gradient of x:gather(d, at).
local arranged = flame.func {
  name = "sort",
  forward = function(ctx, x, d, at, values)
    ctx:save(at)
    ctx.d, ctx.shape = d, x.shape
    return values:clone()
  end,
  backward = function(ctx, g)
    return flame.zeros(ctx.shape, like(g)):scatter(ctx.d, ctx:saved(), g), nil, nil
  end,
}

-- Sorted values and their positions from a single op: a GPU sorts both together in less time
-- than it takes to gather the values by positions.
local function sorted_together(op, x, d, descending)
  local rows, count, n = rows_of(x, d)
  local numel, shape = x:numel(), rows.shape
  local bytes = numel * (8 + dtypes.size[x.dtype])
  local packed = call("argsort", op, { rows }, { count, n, descending and 1 or 0, 1 },
    { bytes }, "u8")
  local at = call("part", op, { packed }, { 0 }, shape, "i64")
  local values = call("part", op, { packed }, { 8 * numel }, shape, x.dtype)
  if d < x.ndim then
    at, values = at:movedim(-1, d):contiguous(), values:movedim(-1, d):contiguous()
  end
  return tracked(x) and arranged(x, d, at, values) or values, at
end

--- Sorted values along an axis, and their positions; always stable.
def([[sort(x: T, dim: axis = -1, descending = false,
    stable = false) -> values: T, positions: T]], function(x, d, descending)
  d = axis_of("sort", x, d)
  if x.device ~= "cpu" and x.ndim > 0 and x:numel() > 0 then
    return sorted_together("sort", x, d, descending)
  end
  local at = positions("sort", x, d, descending)
  return gather(x, d, at), at
end)

--- Values sorted along the first axis.
def("msort(x: T) -> T", function(x)
  local at = positions("msort", x, 1, false)
  return gather(x, 1, at)
end)

-- ---- selecting ---------------------------------------------------------------------------------
--- The k largest (or smallest) along an axis, in order, and their positions.
def([[topk(x: T, k: int, dim: axis = -1, largest = true,
    sorted = true) -> values: T, positions: T]], function(x, k, d, largest)
  d, largest = axis_of("topk", x, d), largest and 1 or 0
  local rows, count, n = rows_of(x, d)
  if k < 0 or k > n or (x.ndim == 0 and k ~= 1) then
    fail("topk", "k = %d, axis %d has %d element%s", k, d, n, n == 1 and "" or "s")
  end
  local at = back("topk", "topk", x, d, k, { count, n, k, largest }, rows)
  return gather(x, d, at), at
end)

-- The elements of x at positions 'at' (one along d for each row), and these positions: both in x's
-- shape without axis d, or, with keepdim, with size 1 there.
local function picked(x, d, at, keepdim)
  if x.ndim == 0 then return x:clone(), at end
  local shape = x.shape
  shape[d] = 1
  local whole = at:reshape(shape)
  local v = x:gather(d, whole)
  if keepdim then return v, whole:clone() end
  table.remove(shape, d)
  return v:reshape(shape):clone(), at:reshape(shape):clone()
end

-- One position per row of x along d: of the k-th smallest, or with 'nan' of a NaN if it has one.
local function kth(op, x, d, k, nan)
  local rows, count, n = rows_of(x, d)
  return call("kth", op, { rows }, { count, n, k, nan and 1 or 0 }, { count }, "i64")
end

--- The k-th smallest along an axis, and its first position.
def([[kthvalue(x: T, k: int, dim: axis = -1,
    keepdim = false) -> values: T, positions: T]], function(x, k, d, keepdim)
  d = axis_of("kthvalue", x, d)
  local n = x.shape[d] or 1
  if k < 1 or k > n then
    fail("kthvalue", "k = %d, axis %d has %d element%s", k, d, n, n == 1 and "" or "s")
  end
  return picked(x, d,
    kth("kthvalue", x, d, k, false):reshape(x.ndim == 0 and {} or { -1 }), keepdim)
end)

--- The op x[at], whose gradient is shared by all elements of x that are equal to that value.
local shared = flame.func {
  name = "median",
  forward = function(ctx, x, at)
    local v = x:index_select(1, at):reshape({}):clone()
    ctx:save(x, v)
    return v
  end,
  backward = function(ctx, g)
    local x, v = ctx:saved()
    x, v = x:detach(), v:detach()
    local same = x:eq(v):logical_or(x:isnan():logical_and(v:isnan()))
    return where(same, g / same:sum():to(g.dtype), 0), nil
  end,
}

-- The median of all of no elements, NaN; raises for integers, or if it is along an axis d.
local function nothing(op, x, d)
  if d or not is_float(x) then fail(op, "axis %d has no elements", d or 1) end
  return flame.full({}, 0 / 0, like(x))
end

--- The lower of the two middle values of all, or along axis d with its position; a row with a
--- NaN gives NaN, as in PyTorch.
def("median(x: T, dim?: axis, keepdim = false) -> values: T, positions: T if dim",
  function(x, d, keepdim)
    if d == nil then
      local flat = x:reshape(-1)
      local n = flat.shape[1]
      if n == 0 then return nothing("median", x) end
      return (shared(flat, kth("median", flat, 1, (n + 1) // 2, true)))
    end
    d = axis_of("median", x, d)
    local n = x.shape[d] or 1
    if n == 0 then return nothing("median", x, d) end
    local at = kth("median", x, d, (n + 1) // 2, true)
    return picked(x, d, x.ndim == 0 and at:reshape({}) or at, keepdim)
  end)

--- The median of the elements that are not NaN; NaN if there are none.
def("nanmedian(x: T, dim?: axis, keepdim = false) -> values: T, positions: T if dim",
  function(x, dim, keepdim)
    if not is_float(x) then return x:median(dim, keepdim) end
    local y = dim == nil and x:reshape(-1) or x
    local d = dim == nil and 1 or axis_of("nanmedian", x, dim)
    if (y.shape[d] or 1) == 0 then return nothing("nanmedian", x, dim and d) end
    local rows, count, n = rows_of(y, d)
    local order = call("argsort", "nanmedian", { rows }, { count, n, 0 }, { count, n }, "i64")
    local known = rows:reshape(count, n):isnan():logical_not():sum(2, { keepdim = true })
    local at = order:gather(2, ((known + 1) // 2):clamp(1, n)):reshape(-1)
    if dim == nil then return (shared(y, at)) end
    return picked(y, d, y.ndim == 0 and at:reshape({}) or at, keepdim)
  end)

-- ---- scans -------------------------------------------------------------------------------------
local SUM, PRODUCT, LSE = 0, 1, 2

local function scanned(name, op, x, d, reverse)
  return along("scan", name, x, d, not is_float(x) and "i64" or nil, nil, op, reverse and 1 or 0)
end

-- x shifted by one place along d: next_of has x[k + 1] at place k and v at the end, last_of has
-- x[k - 1] at place k and v at the beginning.
local function next_of(x, d, v)
  local n = x.shape[d]
  return flame.cat({ x:narrow(d, 2, n - 1), flame.full_like(x:narrow(d, 1, 1):detach(), v) }, d)
end
local function last_of(x, d, v)
  local n = x.shape[d]
  return flame.cat({ flame.full_like(x:narrow(d, 1, 1):detach(), v), x:narrow(d, 1, n - 1) }, d)
end

--- sums[reverse]: the op of running sums from the front or the back; each is the other's gradient.
local sums = {}
for _, reverse in ipairs { false, true } do
  sums[reverse] = flame.func {
    name = "cumsum",
    forward = function(ctx, x, d)
      ctx.d = d
      return scanned("cumsum", SUM, x, d, reverse)
    end,
    backward = function(ctx, g) return sums[not reverse](g, ctx.d) end,
  }
end

--- Ops for y[k] = a[k] y[k - 1] + b[k] along d; recurrence[true]: from the back, with y[k + 1]. The
--- gradient of b is a recurrence in the other direction, u[k] = g[k] + a[k + 1] u[k + 1]; that of a
--- is u[k] y[k - 1].
local recurrence = {}
for _, reverse in ipairs { false, true } do
  recurrence[reverse] = flame.func {
    name = "recurrence",
    forward = function(ctx, a, b, d)
      ctx.d = d
      local y = along("recurrence", "recurrence", a, d, nil, b, reverse and 1 or 0)
      ctx:save(a, y)
      return y
    end,
    backward = function(ctx, g)
      local a, y = ctx:saved()
      local later, before = reverse and last_of or next_of, reverse and next_of or last_of
      local u = recurrence[not reverse](later(a, ctx.d, 0), g, ctx.d)
      return u * before(y, ctx.d, 0), u
    end,
  }
end

-- The forward function of a scan, whose backward reads x and the result.
local function saving(name, kind)
  return function(ctx, x, d)
    local y = scanned(name, kind, x, d)
    ctx.d = d
    ctx:save(x, y)
    return y
  end
end

--- The op of running products. The gradient with respect to x[k] is the product before k times the
-- sum of g[j] x[k + 1] … x[j] over j >= k, which is a recurrence. Nothing is divided, so zeros in x
-- need no special treatment.
local products = flame.func {
  name = "cumprod",
  forward = saving("cumprod", PRODUCT),
  backward = function(ctx, g)
    local x, y = ctx:saved()
    return last_of(y, ctx.d, 1) * recurrence[true](next_of(x, ctx.d, 0), g, ctx.d)
  end,
}

--- The op y of running logsumexp. The gradient of x[k] is exp(x[k] - y[k]) times the sum of g[j]
-- exp(y[k] - y[j]) over j >= k, a recurrence. y never decreases, so no factor is above 1. Where y
-- is -Inf the weights are 0.
local logs = flame.func {
  name = "logcumsumexp",
  forward = saving("logcumsumexp", LSE),
  backward = function(ctx, g)
    local x, y = ctx:saved()
    -- nothing follows the last element: its weight is 0
    local later = next_of(y, ctx.d, math.huge)
    local steps = where(later:detach():eq(-math.huge), 0, y - later):exp()
    local none = y:detach():eq(-math.huge)
    local weight = where(none, 0, where(none, 0, x - y):exp())
    return weight * recurrence[true](steps, g, ctx.d)
  end,
}

-- f(x, d) for an f that needs an axis, also for 0-d x.
local function with_axis(f, x, d)
  if x.ndim > 0 then return (f(x, d)) end
  return f(x:reshape(1), 1):reshape({}):clone()
end

-- Defines the scan 'name'; f: its op for tracked x, op: the scan's kind for others. Integers are
-- summed in i64; with the option dtype x is cast first.
local function running(name, op, f)
  def(name .. "(x: T, dim: axis, *, dtype?: dtype) -> T @single", function(x, d, dtype)
    if dtype then x = x:to(dtype) end
    local y
    if tracked(x) then
      d = axis_of(name, x, d)
      y = x:numel() == 0 and x:clone() or with_axis(f, x, d)
    else
      y = scanned(name, op, x, d)
    end
    return dtype and y.dtype ~= dtype and y:to(dtype) or y
  end)
end
--- Running sums along an axis; x is cast to the dtype first.
running("cumsum", SUM, sums[false])
--- Running products along an axis; x is cast to the dtype first.
running("cumprod", PRODUCT, products)

-- If x is tracked, half types are computed in f32, since the gradient's
-- weights are exponentials of differences between results.
--- Running logsumexp along an axis.
def("logcumsumexp(x: T, dim: axis) -> T", function(x, d)
  d = axis_of("logcumsumexp", need_float("logcumsumexp", "x", x), d)
  if x:numel() == 0 then return x:clone() end
  if tracked(x) and (x.dtype == "f16" or x.dtype == "bf16") then
    return with_axis(logs, x:to("f32"), d):to(x.dtype)
  end
  return with_axis(logs, x, d)
end)

-- Defines running maxima or minima (least), with positions; a NaN stays. If x is untracked, a GPU
-- scans x again for the values, and the CPU reads them at the positions, instead of a gather.
local function extremes(name, least)
  def(name .. "(x: T, dim: axis) -> values: T, positions: T", function(x, d)
    local at = along("extreme", name, x, d, "i64", nil, least, 0)
    if tracked(x) then return gather(x, d, at), at end
    return along("extreme", name, x, d, nil, x.device == "cpu" and at or nil, least, 1), at
  end)
end
--- Running maxima and their positions.
extremes("cummax", 0)
--- Running minima and their positions.
extremes("cummin", 1)

-- ---- places and sets ----------------------------------------------------------------------------
--- Positions of the elements that are not 0, one row each; {as_tuple = true}: a list with one
--- tensor per axis. It counts these elements first, so it evaluates.
def("nonzero(x: T, as_tuple = false) -> T|T[]", function(x, as_tuple)
  if x.ndim == 0 and as_tuple then x = x:reshape(1) end
  local flat, shape = x:detach(), x.shape
  local input, count = { flat }
  if x.device == "cpu" then
    count = flat:ne(0):sum():item()
  else
    input[2] = call("nonzero_count", "nonzero", { flat }, {}, { 8192 }, "i64")
    count = input[2]:narrow(1, 1, 1):item()
  end
  local at = call("nonzero", "nonzero", input, { count, #shape, table.unpack(shape) },
    { count, #shape }, "i64")
  if not as_tuple then return at end
  local list = {}
  for d = 1, #shape do list[d] = at:select(2, d):clone() end
  return list
end)

-- For rows (n, …) of which equal ones are neighbours, a list: the distinct rows; as o asks for
-- them, the number of each row's run, the runs' lengths. order: the rows' original places, or nil.
local function runs(rows, order, o)
  local n = rows.shape[1]
  local first = flame.ones({ n }, like(rows, "bool"))
  if n > 1 then
    local differ = rows:narrow(1, 2, n - 1):ne(rows:narrow(1, 1, n - 1))
    if rows.ndim > 1 then differ = differ:flatten(2):any(2) end
    first = flame.cat({ first:narrow(1, 1, 1), differ }, 1)
  end
  local starts = first:nonzero():reshape(-1)
  local out = { rows:index_select(1, starts) }
  if o.return_inverse then
    local run = first:cumsum(1)
    out[2] = order and flame.zeros({ n }, like(rows, "i64")):scatter(1, order, run) or run
  end
  if o.return_counts then
    local ends = flame.cat(
      { starts:narrow(1, 2, #starts - 1), flame.full({ 1 }, n + 1, like(rows, "i64")) }, 1)
    out[#out + 1] = ends - starts
  end
  return out
end

-- The order that sorts the rows of x (n, m) lexicographically: stable sorts, last column first.
local function row_order(x)
  local n, m = x.shape[1], x.shape[2]
  local order = flame.arange(1, n, like(x, "i64"))
  for c = m, 1, -1 do order = order:gather(1, x:select(2, c):gather(1, order):argsort(1)) end
  return order
end

-- What unique and unique_consecutive return for an x without elements.
local function empty_set(op, x, o)
  if o.dim and x:numel() == 0 and x.shape[axis_of(op, x, o.dim)] ~= 0 then
    fail(op, "x of shape (%s) has no elements, but its axis %d does", table.concat(x.shape, ", "),
      axis_of(op, x, o.dim))
  end
  local out = { o.dim and x:clone() or x:reshape(-1):clone() }
  if o.return_inverse then out[2] = flame.zeros(o.dim and { 0 } or x.shape, like(x, "i64")) end
  if o.return_counts then out[#out + 1] = flame.zeros({ 0 }, like(x, "i64")) end
  return table.unpack(out)
end

-- unique by counting, not sorting; nil for floats, bools and wide ranges of integers.
local function counted(op, flat, o)
  if is_float(flat) or flat.dtype == "bool" then return nil end
  local n, ids = flat:numel(), flat:long()
  local least = ids:amin():item()
  local range = ids:amax():item() - least + 1                  -- wraps if it is too wide
  if range < 1 or range > math.max(2 * n, 1 << 10) then return nil end
  ids = ids - (least - 1)
  local count = call("histogram", op, { ids }, { n, range, 0 }, { range }, "i64")
  local places = count:nonzero():reshape(-1)
  local out = { (places + (least - 1)):to(flat.dtype) }
  if o.return_inverse then out[2] = count:gt(0):long():cumsum(1):index_select(1, ids) end
  if o.return_counts then out[#out + 1] = count:index_select(1, places) end
  return out
end

-- Computes unique (sort = true) and unique_consecutive (false), with options o.
local function set_of(op, x, o, sort)
  local given = x
  x = x:detach()
  if x:numel() == 0 then return empty_set(op, x, o) end
  local out
  if not o.dim then
    local flat, order = x:reshape(-1), nil
    out = sort and counted(op, flat, o)
    if not out then
      if sort then flat, order = flat:sort(1) end
      out = runs(flat, order, o)
    end
    if o.return_inverse then out[2] = out[2]:reshape(x.shape):clone() end
    out[1] = func.opaque(op, out[1], given)
    return table.unpack(out)
  end
  local d = axis_of(op, x, o.dim)
  -- axis d first, as PyTorch does: it decides in which order elements of slices are compared
  local y, order = x.ndim == 0 and x:reshape(1) or x:transpose(1, d):contiguous(), nil
  if sort then
    order = row_order(y.ndim > 1 and y:flatten(2) or y:unsqueeze(2))
    y = y:index_select(1, order)
  end
  out = runs(y, order, o)
  if x.ndim > 1 and d ~= 1 then out[1] = out[1]:transpose(1, d):contiguous() end
  out[1] = func.opaque(op, out[1], given)
  return table.unpack(out)
end

--- Sorted distinct values; with return_inverse their positions for each element, with
--- return_counts how often each occurs, as further results in this order. dim: distinct slices
--- along that axis, sorted by their elements. It reads values, so it evaluates, and has no
--- gradient: backward raises.
def([[unique(x: T, sorted = true, return_inverse = false, return_counts = false,
    dim?: axis) -> T, inverse: T if return_inverse, counts: T if return_counts]],
  function(x, _, inverse, counts, dim)
    return set_of("unique", x,
      { return_inverse = inverse, return_counts = counts, dim = dim }, true)
  end)

--- Like unique, but only neighbouring elements are compared, and their order is kept.
def([[unique_consecutive(x: T, return_inverse = false, return_counts = false,
    dim?: axis) -> T, inverse: T if return_inverse, counts: T if return_counts]],
  function(x, inverse, counts, dim)
    return set_of("unique_consecutive", x,
      { return_inverse = inverse, return_counts = counts, dim = dim }, false)
  end)

-- ---- counts -------------------------------------------------------------------------------------
--- How often each of the ids 1, 2, … occurs in x (i64); with weights, the sum of the weights of
--- each id (f32 for f32, else f64). It reads values, so it evaluates.
def("bincount(x: T, weights?: T, minlength: int = 0) -> T", function(x, weights, n)
  if is_float(x) or x.dtype == "bool" then
    fail("bincount", "x is %s, need an integer dtype", x.dtype)
  end
  if x.ndim ~= 1 then fail("bincount", "x has %d axes, need 1", x.ndim) end
  if n < 0 then fail("bincount", "minlength = %d, need 0 or more", n) end
  if weights then
    if weights.ndim ~= 1 or #weights ~= #x then
      fail("bincount", "weights has shape (%s), x has (%d)", table.concat(weights.shape, ", "), #x)
    end
  end
  x = x:detach():long()
  if #x > 0 then
    local least, most = x:amin(), x:amax()
    n = math.max(n, most:item())
    if least:item() < 1 then
      fail("bincount", "id %d at position %d, ids count from 1", least:item(), x:argmin():item())
    end
  end
  if not weights or #x == 0 then
    return call("histogram", "bincount", { x }, { #x, n, 1 }, { n }, "i64")
  end
  local w = weights:detach()
  if w.dtype ~= "f32" then w = w:double() end
  return flame.zeros({ n }, like(w)):index_add(1, x, w)
end)

--- Counts of the elements in bins of equal width between min and max (both equal: the extremes
--- of x).
def("histc(x: T, bins: int = 100, min = 0, max = 0) -> T", function(x, bins, low, high)
  need_float("histc", "x", x)
  if bins < 1 then fail("histc", "bins = %d, need at least 1", bins) end
  x = x:detach():reshape(-1)
  if low == high and #x > 0 then low, high = x:amin():item(), x:amax():item() end
  if low == high then low, high = low - 1, high + 1 end
  if not (low < high and high - low < math.huge) then
    fail("histc", "min = %g, max = %g: need finite bounds, min below max", low, high)
  end
  local inside, wide = x:ge(low):logical_and(x:le(high)), x.dtype == "f64" and x or x:float()
  local at = where(inside,
    ((wide - low) * bins / (high - low)):floor():clamp(0, bins - 1) + 1, 0):long()
  return call("histogram", "histc", { at }, { #x, bins, 0 }, { bins }, "i64"):to(x.dtype)
end)
