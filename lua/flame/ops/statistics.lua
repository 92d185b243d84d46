--- Compositions, each a line or two over what there is: elementwise functions, products, sums.
local flame = require "flame"
local arguments = require "flame.base.arguments"
local dtypes = require "flame.base.dtypes"
local elementwise = require "flame.ops.elementwise"
local fail, need_tensor, def = arguments.fail, arguments.need_tensor, arguments.def
local axis_of, is_tensor, where = arguments.axis_of, flame.is_tensor, flame.where
local binary, smooth, pair = dtypes.binary, dtypes.smooth, dtypes.pair

local function unary(name, f) def(name .. "_?(x: T) -> T", f) end
local function float(x) return x:is_floating_point() and x or x:float() end

-- ---- elementwise -----------------------------------------------------------------------------
--- x * log(y), 0 where x is 0.
binary("xlogy", function(x, y)
  local dead = x:eq(0):logical_and(y:le(0):logical_or(y:eq(math.huge)))
  return where(dead, 0, x * where(dead, 1, y):log())
end)
--- x * log1p(y), 0 where x is 0.
binary("xlog1py", function(x, y)
  local dead = x:eq(0):logical_and(y:le(-1):logical_or(y:eq(math.huge)))
  return where(dead, 0, x * where(dead, 0, y):log1p())
end)
--- -x * log(x); 0 at 0, -inf below.
unary("entr", function(x)
  return smooth(x, function(v)
    return where(v:lt(0), -math.huge, -flame.xlogy(v, where(v:lt(0), 1, v)))
  end)
end)
--- sin(pi x) / (pi x), 1 at 0: near it by its series, whose derivatives do not cancel.
unary("sinc", function(x)
  return smooth(x, function(v)
    local near = v:abs():lt(0.5)
    local z = where(near, v * math.pi, 0):square()
    local series = 1
    for k = 12, 1, -1 do series = 1 - z * (1 / (2 * k * (2 * k + 1))) * series end
    local far = where(near, 1, v) * math.pi
    return where(near, series, far:sin() / far)
  end)
end)
--- log(x / (1 - x)); with eps, x is kept between eps and 1 - eps.
def("logit_?(x: T, eps?: num) -> T", function(x, eps)
  return smooth(x, function(v)
    if eps then v = v:clamp(eps, 1 - eps) end
    v = v + where(v:lt(0):logical_or(v:gt(1)), 0 / 0, v:detach() * 0)
    return v:log() - (-v):log1p()
  end)
end)
--- 0 below 0, 1 above, 'values' at 0.
def("heaviside_?(x: T, values: T|num) -> T", function(x, values)
  if is_tensor(values) and values.dtype ~= x.dtype then
    fail("heaviside", "x is %s and values %s\1: cast one of them", x.dtype, values.dtype)
  end
  return where(x:detach():eq(0), values, x:detach():gt(0):to(x.dtype))
end)
--- Degrees as radians.
unary("deg2rad", function(x) return x * (math.pi / 180) end)
--- Radians as degrees.
unary("rad2deg", function(x) return x * (180 / math.pi) end)
--- Is the sign bit set; -0.0 has it.
def("signbit(x: T) -> T", function(x)
  x = x:detach()
  if x.dtype == "bool" then return flame.zeros_like(x) end
  return x:is_floating_point() and flame.copysign(1, x):lt(0) or x:lt(0)
end)
--- x itself.
unary("positive", function(x)
  if x.dtype == "bool" then fail("positive", "dtype bool is not supported, need a number type") end
  return x:clone()
end)
--- Is x +Inf.
def("isposinf(x: T) -> T", function(x) return x:detach():eq(math.huge) end)
--- Is x -Inf.
def("isneginf(x: T) -> T", function(x) return x:detach():eq(-math.huge) end)
--- |x - y| <= atol + rtol |y|, element by element.
def("isclose(x: T, y: T, rtol = 1e-5, atol = 1e-8, equal_nan = false) -> T",
  function(x, y, rtol, atol, equal_nan)
    for name, v in pairs { rtol = rtol, atol = atol } do
      if not (v >= 0) then fail("isclose", "%s = %g is negative", name, v) end
    end
    local a, b = x:detach():double(), y:detach():double()
    local close = a:eq(b)
      :logical_or((a - b):abs():le(b:abs() * rtol + atol):logical_and(b:isfinite()))
    return equal_nan and close:logical_or(a:isnan():logical_and(b:isnan())) or close
  end)
--- x to the power y, in f64.
def("float_power(x: T|num, y: T|num) -> T", function(x, y)
  if not is_tensor(x) then need_tensor("float_power", "y", y) end
  return (is_tensor(x) and x:double() or x) ^ (is_tensor(y) and y:double() or y)
end)
--- x * 2^y.
def("ldexp_?(x: T, y: T) -> T", function(x, y) return x * float(y):exp2() end)
--- log2(2^x + 2^y).
binary("logaddexp2", function(x, y) return elementwise.log_of_sum(x, y, flame.exp2, flame.log2) end)
--- y - alpha * x, the operands of sub the other way round.
def("rsub(x: T, y: T|num, alpha = 1) -> T",
  function(x, y, alpha) return y - (alpha == 1 and x or x * alpha) end)
--- x, at least min.
def("clamp_min_?(x: T, min: T|num) -> T", function(x, low) return x:clamp({ min = low }) end)
--- x, at most max.
def("clamp_max_?(x: T, max: T|num) -> T", function(x, high) return x:clamp({ max = high }) end)
--- Every element the value.
def("fill(x: T, value: num|bool) -> T", function(x, v) return flame.full_like(x, v) end)

--- 'value' where x is not above the threshold.
def("threshold_?(x: T, threshold: T|num, value: T|num) -> T",
  function(x, threshold, value) return where(x:le(threshold), value, x) end)
--- 0 where |x| <= lambd.
def("hardshrink_?(x: T, lambd = 0.5) -> T",
  function(x, lambd) return where(x:abs():le(lambd), 0, x) end)
--- x moved towards 0 by lambd.
def("softshrink_?(x: T, lambd = 0.5) -> T", function(x, l)
  if l < 0 then fail("softshrink", "lambd = %g is negative", l) end
  return where(x:gt(l), x - l, where(x:lt(-l), x + l, x * 0))
end)
--- x - tanh(x).
unary("tanhshrink", function(x) return x - x:tanh() end)
--- x where it is above 0, else weight x; weight has one element, or one a channel (axis 2).
def("prelu(x: T, weight: T) -> T @half", function(x, w)
  if w:numel() ~= 1 then
    local shape = x.shape
    if #shape < 2 or w.ndim ~= 1 or w.shape[1] ~= shape[2] then
      fail("prelu", "weight has %d elements, need 1 or the %d channels of x", w:numel(),
        shape[2] or 1)
    end
    for d = 1, #shape do shape[d] = d == 2 and shape[2] or 1 end
    w = w:reshape(shape)
  end
  return where(x:gt(0), x,
    x * (x.ndim == 0 and w:reshape({}) or w:numel() == 1 and w:reshape({}) or w))
end)
--- The first half along d times the sigmoid of the second.
def("glu(x: T, dim: axis = -1) -> T", function(x, d)
  d = axis_of("glu", x, d)
  local n = x.shape[d] or 1
  if n % 2 ~= 0 then fail("glu", "axis %d has %d elements, need an even number", d, n) end
  return x:narrow(d, 1, n // 2) * x:narrow(d, n // 2 + 1, n // 2):sigmoid()
end)
--- leaky_relu with a slope between lower and upper: random when training, else the middle.
def("rrelu_?(x: T, lower = 0.125, upper = 0.3333333333333333, training = false) -> T",
  function(x, lower, upper, training)
    if lower > upper then fail("rrelu", "lower = %g is above upper = %g", lower, upper) end
    local slope = training and flame.uniform(x.shape, lower, upper,
      { dtype = x.dtype, device = x.device }) or (lower + upper) / 2
    return where(x:le(0), x * slope, x)
  end)
local function one_hot_of(y, d)
  local at = y:detach():argmax(d, { keepdim = true })
  return flame.zeros_like(y:detach()):scatter(d, at,
    flame.ones(at.shape, { dtype = y.dtype, device = y.device }))
end
--- Softmax of x plus Gumbel noise over tau; hard: one-hot forward, the soft gradient.
def("gumbel_softmax(x: T, tau = 1, hard = false, dim: axis = -1) -> T", function(x, tau, hard, d)
  local noise = -(-(flame.rand_like(x:detach()):clamp({ min = 1e-38 })):log()):log()
  local y = ((x + noise) / tau):softmax(d)
  return hard and one_hot_of(y, d) - y:detach() + y or y
end)
--- x over its p-norm along dim, the norm at least eps.
def("normalize(x: T, p = 2, dim: axes = 2, eps = 1e-12) -> T", function(x, p, d, eps)
  return x / x:norm(p, d, { keepdim = true }):clamp({ min = eps })
end)
--- p-norm of x - y + eps over the last axis.
def("pairwise_distance(x: T, y: T, p = 2, eps = 1e-6, keepdim = false) -> T",
  function(x, y, p, eps, keepdim)
    return (x - y + eps):norm(p, -1, { keepdim = keepdim })
  end)
--- Distances of all pairs of rows, the first with the second, third, …
def("pdist(x: T, p = 2) -> T", function(x, p)
  if x.ndim ~= 2 then fail("pdist", "x has %d axes, need 2", x.ndim) end
  local at = flame.triu_indices(x.shape[1], x.shape[1], 1, { device = x.device })
  return (x:index_select(1, at:select(1, 1)) - x:index_select(1, at:select(1, 2))):norm(p, 2)
end)
--- p-norm of x - y.
def("dist(x: T, y: T|num, p = 2) -> T", function(x, y, p) return (x - y):norm(p) end)

-- ---- products -----------------------------------------------------------------------------------
local function add_product(x, y, beta, alpha)
  x:broadcast_to(y.shape)                         -- raises where x does not fit, also with beta = 0
  if alpha ~= 1 then y = y * alpha end
  return beta == 0 and y or beta == 1 and x + y or x * beta + y
end
--- beta x + alpha mat vec.
def("addmv_?(x: T, mat: T, vec: T, *, beta = 1, alpha = 1) -> T",
  function(x, a, v, beta, alpha) return add_product(x, a:mv(v), beta, alpha) end)
--- beta x + alpha outer(vec1, vec2).
def("addr_?(x: T, vec1: T, vec2: T, *, beta = 1, alpha = 1) -> T",
  function(x, v, w, beta, alpha) return add_product(x, v:outer(w), beta, alpha) end)
--- beta x + alpha times the sum of the products of two batches.
def("addbmm_?(x: T, batch1: T, batch2: T, *, beta = 1, alpha = 1) -> T",
  function(x, a, b, beta, alpha)
    return add_product(x, a:bmm(b):sum(1, { dtype = a.dtype }), beta, alpha)
  end)
--- Sum of products over the last axes.
def("inner(x: T, y: T) -> T", function(x, y)
  if x.ndim == 0 or y.ndim == 0 then return x * y end
  return flame.tensordot(x, y, { { -1 }, { -1 } })
end)
-- ---- reductions ---------------------------------------------------------------------------------
--- Sum of what is not NaN.
def("nansum(x: T, dim?: axes, keepdim = false, *, dtype?: dtype) -> T",
  function(x, d, keepdim, dtype)
    return where(x:isnan(), 0, x):sum(d, { keepdim = keepdim, dtype = dtype })
  end)
--- Mean of what is not NaN.
def("nanmean(x: T, dim?: axes, keepdim = false, *, dtype?: dtype) -> T",
  function(x, d, keepdim, dtype)
    if not x:is_floating_point() then
      fail("nanmean", "dtype %s is not supported\1; cast first: x:float()", x.dtype)
    end
    local there, o = x:detach():isnan():logical_not(), { keepdim = keepdim, dtype = dtype }
    return where(there, x, 0):sum(d, o) / there:sum(d, o)
  end)
--- std and mean, or var and mean.
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
--- Differences of neighbours along dim, n times; prepend and append stand before and behind x.
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
--- The trapezes between neighbours along d; x: positions, a tensor or the distance.
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
--- Integral along dim by trapezes; x: positions, or their distance, as dx.
def("trapezoid(y: T, x?: T|num, dim: axis = -1, *, dx = 1) -> T", function(y, x, d, dx)
  local parts, axis = trapezes("trapezoid", y, x, d, dx)
  return parts:sum(axis)
end)
--- Running integral along dim by trapezes; x: positions, or their distance, as dx.
def("cumulative_trapezoid(y: T, x?: T|num, dim: axis = -1, *, dx = 1) -> T",
  function(y, x, d, dx)
    local parts, axis = trapezes("cumulative_trapezoid", y, x, d, dx)
    return parts:cumsum(axis)
  end)
--- The product of the weights of 'count' columns that are given, in this dtype.
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
--- Is each element of x among those of y.
def("isin(x: T|num, y: T|num, *, assume_unique = false, invert = false) -> T",
  function(x, y, _, invert)
    x, y = pair("isin", x, y)
    local there = x:detach():unsqueeze(-1):eq(y:detach():reshape(-1)):any(-1)
    return invert and there:logical_not() or there
  end)
--- Weight of the upper of two neighbours at place p between them, p counted from 'low'.
local upper_weight = {
  linear = function(w) return w end,
  lower = function() return 0 end,
  higher = function(w) return w > 0 and 1 or 0 end,
  midpoint = function(w) return w > 0 and 0.5 or 0 end,
  nearest = function(w, low) return (w > 0.5 or w == 0.5 and low % 2 == 1) and 1 or 0 end,
}
--- The value below which a share q (0 to 1) of the elements lies, between neighbours by
--- interpolation; several shares come along a new first axis.
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
