--- Statistics: differences and integrals, covariances, quantiles, histograms.
local flame = require "flame"
local func = require "flame.autograd.func"
local arguments = require "flame.base.arguments"
local dtypes = require "flame.base.dtypes"
local fail, def, axis_of = arguments.fail, arguments.def, arguments.axis_of
local pair, is_tensor, where = dtypes.pair, flame.is_tensor, flame.where

local function float(x) return x:is_floating_point() and x or x:float() end

--- Differences of neighbours along dim, n times; prepend and append are joined to x first.
def("diff(x: T, n: int = 1, dim: axis = -1, prepend?: T, append?: T) -> T",
  function(x, n, d, prepend, append)
    d = axis_of("diff", x, d)
    if x.ndim == 0 then fail("diff", "a 0-d tensor has no neighbours") end
    if n < 0 then fail("diff", "n = %d is negative", n) end
    local y = x
    if n > 0 and (prepend or append) then
      local parts = { y }
      if prepend then table.insert(parts, 1, prepend) end
      if append then parts[#parts + 1] = append end
      y = flame.cat(parts, d)
    end
    for _ = 1, n do
      local size = y.shape[d]
      if size <= 1 then return y:narrow(d, 1, 0):clone() end
      local high, low = y:narrow(d, 2, size - 1), y:narrow(d, 1, size - 1)
      y = x.dtype == "bool" and high:ne(low) or high - low
    end
    return n == 0 and y:clone() or y
  end)
-- The trapezia between neighbours of y along d, and d from 1; x: positions or distance (nil: dx).
local function trapezes(op, y, x, d, dx)
  d = axis_of(op, y, d)
  x = x or dx
  local n = y.shape[d] or fail(op, "y is 0-d, need an axis")
  if n < 2 then return y:narrow(d, 1, 0), d end
  local both = y:narrow(d, 1, n - 1) + y:narrow(d, 2, n - 1)
  if not is_tensor(x) then return both * (x / 2), d end
  if x.ndim == 1 then
    local shape = {}
    for k = 1, y.ndim do shape[k] = k == d and x.shape[1] or 1 end
    x = x:reshape(shape)
  end
  return both * x:diff(1, d) / 2, d
end
--- Integral along dim by the trapezoidal rule; x: positions, or their distance, as dx.
def("trapezoid(y: T, x?: T|num, dim: axis = -1, *, dx = 1) -> T", function(y, x, d, dx)
  local parts, axis = trapezes("trapezoid", y, x, d, dx)
  return parts:sum(axis)
end)
--- Running integral along dim by the trapezoidal rule; x: positions, or their distance, as dx.
def("cumulative_trapezoid(y: T, x?: T|num, dim: axis = -1, *, dx = 1) -> T",
  function(y, x, d, dx)
    local parts, axis = trapezes("cumulative_trapezoid", y, x, d, dx)
    return parts:cumsum(axis)
  end)
-- The weights of 'count' columns: the product of fweights and aweights, or the given one, or nil.
local function column_weights(count, dtype, fweights, aweights)
  local w
  for name, given in pairs { fweights = fweights, aweights = aweights } do
    if given.ndim ~= 1 or given.shape[1] ~= count then
      fail("cov", "%s has shape (%s), need (%d)", name, table.concat(given.shape, ", "), count)
    end
    if name == "fweights" and given:is_floating_point() then
      fail("cov", "fweights is %s, need integers", given.dtype)
    end
    if given:detach():lt(0):any():item() then fail("cov", "%s has a negative element", name) end
    w = w and w * given:to(dtype) or given:to(dtype)
  end
  return w
end
--- Covariances of the rows of x. fweights: how often each column counts; aweights: its importance.
def("cov(x: T, *, correction = 1, fweights?: T, aweights?: T) -> T",
  function(x, correction, fweights, aweights)
    if x.ndim > 2 then fail("cov", "x has %d axes, need 2 at most", x.ndim) end
    local v = float(x.ndim < 2 and x:reshape(1, -1) or x)
    local w = column_weights(v.shape[2], v.dtype, fweights, aweights)
    if not w then
      local c = v - v:mean(2, { keepdim = true })
      local y = c:matmul(c:t()) / math.max(v.shape[2] - correction, 0)
      return v.shape[1] == 1 and y:reshape({}) or y
    end
    local total = w:sum()
    local c = v - (v * w):sum(2, { keepdim = true }) / total
    local spread = aweights and (w * aweights:to(v.dtype)):sum() / total * correction
      or correction
    local y = (c * w):matmul(c:t()) / (total - spread):clamp({ min = 0 })
    return v.shape[1] == 1 and y:reshape({}) or y
  end)
--- Correlations of the rows of x, between -1 and 1.
def("corrcoef(x: T) -> T", function(x)
  local c = flame.cov(x)
  if c.ndim == 0 then return c / c end
  local s = c:diagonal():sqrt()
  return (c / s:unsqueeze(2) / s:unsqueeze(1)):clamp(-1, 1)
end)
--- Is each element of x among those of y?
def("isin(x: T|num, y: T|num, *, assume_unique = false, invert = false) -> T",
  function(x, y, _, invert)
    x, y = pair("isin", x, y)
    local there = x:detach():unsqueeze(-1):eq(y:detach():reshape(-1)):any(-1)
    return invert and there:logical_not() or there
  end)
--- Interpolation between two neighbours in sorted order: the upper one's weight at the fraction w
--- (0 to 1) between them; low: the position, from 0, of the lower one.
local upper_weight = {
  linear = function(w) return w end,
  lower = function() return 0 end,
  higher = function(w) return w > 0 and 1 or 0 end,
  midpoint = function(w) return w > 0 and 0.5 or 0 end,
  nearest = function(w, low) return (w > 0.5 or w == 0.5 and low % 2 == 1) and 1 or 0 end,
}
--- The value below which a part q (0 to 1) of the elements lies, interpolated between neighbours;
--- several q give a new first axis.
def([[quantile(x: T, q: num|T, dim?: axis, keepdim = false, *,
    interpolation: "linear"|"lower"|"higher"|"midpoint"|"nearest" = "linear") -> T]],
function(x, q, d, keepdim, interpolation)
  local op = "quantile"
  if not x:is_floating_point() then fail(op, "x is %s, need a float", x.dtype) end
  local v = d == nil and x:reshape(-1) or x
  local axis, shape = d == nil and 1 or axis_of(op, x, d), x.shape
  local n = v.ndim == 0 and 1 or v.shape[axis]
  if n == 0 then fail(op, "axis %d has no elements", axis) end
  local sorted = v.ndim == 0 and v:reshape(1) or v:sort(axis)
  local nan = sorted:isnan():any(axis, { keepdim = true })
  local function at(share, tracked)
    if type(share) ~= "number" then fail(op, "q must be a number or a tensor of one axis") end
    if not (share >= 0 and share <= 1) then fail(op, "q = %g, need 0 to 1", share) end
    local p = share * (n - 1)
    local low, high = math.floor(p), math.ceil(p)
    local w = upper_weight[interpolation](p - low, low)
    local a = sorted:narrow(axis, low + 1, 1)
    if tracked and interpolation == "linear" and w > 0 then w = tracked * (n - 1) - low end
    local y = where(nan, 0 / 0, w == 0 and a or a + (sorted:narrow(axis, high + 1, 1) - a) * w)
    if d == nil then
      for k = 1, #shape do shape[k] = 1 end
      return keepdim and y:reshape(shape) or y:reshape({})
    end
    return (keepdim or x.ndim == 0) and y:reshape(x.ndim == 0 and {} or y.shape)
      or y:squeeze(axis)
  end
  if type(q) == "number" then return at(q):clone() end
  local list = q:totable()
  local tracked = q.requires_grad and q:to(x.dtype)
  if q.ndim == 0 then return at(list, tracked):clone() end
  for k, share in ipairs(list) do list[k] = at(share, tracked and tracked[k]) end
  return flame.stack(list, 1)
end)
--- The most frequent value along an axis, the smallest if there are several, and its last position.
def("mode(x: T, dim: axis = -1, keepdim = false) -> values: T, positions: T", function(x, d, keep)
  d = axis_of("mode", x, d)
  if x.ndim == 0 then return x:clone(), flame.ones({}, { dtype = "i64", device = x.device }) end
  local n = x.shape[d]
  if n == 0 then fail("mode", "axis %d has no elements", d) end
  local sorted, order = x:detach():sort(d)
  local rows = sorted:movedim(d, -1):contiguous()
  local first = flame.searchsorted(rows, rows)
  local count = flame.searchsorted(rows, rows, { right = true }) - first
  local at = count:argmax(-1, { keepdim = true })
  local last = (at + count:gather(-1, at) - 1):movedim(-1, d)
  local i = order:gather(d, last)
  local v = x:gather(d, i)
  if keep then return v, i end
  return v:squeeze(d):clone(), i:squeeze(d):clone()
end)
--- Like upper_weight, for tensors: p are positions, low the neighbours below.
local upper_weights = {
  linear = function(p, low) return p - low end,
  lower = function(p, low) return (p - low) * 0 end,
  higher = function(p, low) return (p - low):gt(0):double() end,
  midpoint = function(p, low) return (p - low):gt(0):double() * 0.5 end,
  nearest = function(p, low) return p:round() - low end,
}
--- quantile of the elements that are not NaN; NaN if there are none.
def([[nanquantile(x: T, q: num|T, dim?: axis, keepdim = false, *,
    interpolation: "linear"|"lower"|"higher"|"midpoint"|"nearest" = "linear") -> T]],
function(x, q, d, keepdim, interpolation)
  local op = "nanquantile"
  if not x:is_floating_point() then fail(op, "x is %s, need a float", x.dtype) end
  local v = d == nil and x:reshape(-1) or x.ndim == 0 and x:reshape(1) or x
  local axis = d == nil and 1 or axis_of(op, x, d)
  if v.shape[axis] == 0 then fail(op, "axis %d has no elements", axis) end
  local sorted = v:sort(axis)
  local last = (v:isnan():logical_not():sum(axis, { keepdim = true }) - 1):clamp(
    { min = 0 }):double()
  local shape = x.shape
  local function one(share, tracked)
    if type(share) ~= "number" then fail(op, "q must be a number or a tensor of one axis") end
    if not (share >= 0 and share <= 1) then fail(op, "q = %g, need 0 to 1", share) end
    local p = last * (tracked or share)
    local low = p:detach():floor()
    local w = upper_weights[interpolation](p, low)
    local a, b = sorted:gather(axis, low:long() + 1), sorted:gather(axis, p:ceil():long() + 1)
    local y = a + (b - a) * w:to(x.dtype)
    if d == nil then
      for k = 1, #shape do shape[k] = 1 end
      return keepdim and y:reshape(shape) or y:reshape({})
    end
    return x.ndim == 0 and y:reshape({}) or keepdim and y or y:squeeze(axis)
  end
  if type(q) == "number" then return one(q):clone() end
  local list = q:totable()
  local tracked = q.requires_grad and q:double()
  if q.ndim == 0 then return one(list, tracked):clone() end
  for k, share in ipairs(list) do list[k] = one(share, tracked and tracked[k]) end
  return flame.stack(list, 1)
end)
-- The edges of bins: bins itself if it is a tensor of edges; else those of 'bins' equal bins in
-- the range (default: the extremes of 'flat').
local function edges_for(op, flat, bins, range)
  local edges = bins
  if not flame.is_tensor(bins) then
    if bins < 1 then fail(op, "bins = %d, need at least 1", bins) end
    local low, high = 0, 1
    if range then low, high = range[1], range[2]
    elseif flat:numel() > 0 then low, high = flat:amin():item(), flat:amax():item() end
    if low == high then low, high = low - 0.5, high + 0.5 end
    if not (low < high and high - low < math.huge) then
      fail(op, "range %g to %g, need finite bounds, the first below the last", low, high)
    end
    edges = flame.linspace(low, high, bins + 1, { dtype = flat.dtype, device = flat.device })
  end
  if edges.ndim ~= 1 or edges:numel() < 2 then
    fail(op, "the edges have shape (%s), need one axis and two of them",
      table.concat(edges.shape, ", "))
  end
  return edges
end
-- The bin of each value, 1 to n, and whether it lies in one.
local function bins_of(flat, edges)
  local n = edges:numel() - 1
  local bin = where(flat:eq(edges[-1]), n, flame.searchsorted(edges, flat, { right = true }) - 1)
  return bin:clamp(1, n), bin:ge(1):logical_and(bin:le(n)):logical_and(flat:isnan():logical_not())
end
-- The weights, one for each value; they must have x's shape without its last 'axes' axes.
local function weights_of(op, x, weight, axes)
  if not x:is_floating_point() then fail(op, "x is %s, need a float", x.dtype) end
  local lead = table.move(x.shape, 1, x.ndim - axes, 1, {})
  if not weight then
    return flame.ones(lead, { dtype = x.dtype, device = x.device }):reshape(-1)
  end
  local own = table.concat(weight.shape, ", ")
  if own ~= table.concat(lead, ", ") then
    fail(op, "weight has shape (%s), need (%s)", own, table.concat(lead, ", "))
  end
  return weight:detach():reshape(-1)
end
--- Counts in bins, or sums of weights, and the edges of the bins. bins: the number of equal bins
--- between the extremes of x or in range = {low, high}, or a tensor of edges. The last bin includes
--- both its edges. density: the sums are divided so that their integral over x is 1.
def([[histogram(x: T, bins: int|T, *, range?: num[], weight?: T,
    density = false) -> sums: T, edges: T]], function(x, bins, range, weight, density)
  local w = weights_of("histogram", x, weight, 0)
  if range and #range ~= 2 then fail("histogram", "range has %d bounds, need 2", #range) end
  local flat = x:detach():reshape(-1)
  local edges = edges_for("histogram", flat, bins, range)
  local bin, inside = bins_of(flat, edges)
  local y = flame.zeros({ edges:numel() - 1 }, { dtype = x.dtype, device = x.device }):index_add(1,
    bin, where(inside, w, 0))
  y = density and y / y:sum() / edges:diff() or y
  return func.opaque("histogram", y, x, weight), func.opaque("histogram", edges, x)
end)
--- histogram for points, the rows of x (…, n): sums in n-dimensional bins, and a list of n tensors
--- of edges. bins: a number, or a list of numbers or edges; range: the bounds of each axis in turn.
def([[histogramdd(x: T, bins: int|int[]|T[], *, range?: num[], weight?: T,
    density = false) -> sums: T, edges: T[] ]], function(x, bins, range, weight, density)
  local op = "histogramdd"
  local w, n = weights_of(op, x, weight, 1), rawget(x.shape, x.ndim)
  if x.ndim < 2 or n == 0 or type(bins) == "table" and #bins ~= n
      or range and #range ~= 2 * n then
    fail(op, "x has shape (%s), need points along its last axis, and bins and two bounds for each",
      table.concat(x.shape, ", "))
  end
  local points, at, inside, shape, edges, volume = x:detach():flatten(1, -2), 1, nil, {}, {}, 1
  for d = 1, n do
    local flat = points:select(2, d)
    edges[d] = edges_for(op, flat, type(bins) == "table" and bins[d] or bins,
      range and { range[2 * d - 1], range[2 * d] })
    shape[d] = edges[d]:numel() - 1
    local bin, within = bins_of(flat, edges[d])
    at, inside = (at - 1) * shape[d] + bin, inside and inside:logical_and(within) or within
    volume = (flame.is_tensor(volume) and volume:unsqueeze(-1) or volume) * edges[d]:diff()
  end
  local y = flame.zeros({ volume:numel() }, { dtype = x.dtype, device = x.device }):index_add(1, at,
    where(inside, w, 0)):reshape(shape)
  for d = 1, n do edges[d] = func.opaque(op, edges[d], x) end
  return func.opaque(op, density and y / y:sum() / volume or y:clone(), x, weight), edges
end)
