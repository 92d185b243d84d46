--- Names that a user of PyTorch looks for, each a line or two over what there is. Where another
-- file has the name already, that one stays. Positions are 1-based here as everywhere: in
-- tril_indices, combinations, bucketize, take_along_dim, scatter_reduce.
local flame, methods, internal = ...
local fail, need_tensor, need_int = internal.failf, internal.need_tensor, internal.need_int
local defaults, axis_of, is_tensor = internal.defaults, internal.axis_of, flame.is_tensor
local where = flame.where

local function add(name, most, f, kind)
  if rawget(flame, name) == nil and rawget(methods, name) == nil then internal.def(name, most, f, kind) end
end
--- Another name of what there is; the in-place form too.
local function alias(name, of)
  if rawget(flame, name) == nil then flame[name] = flame[of] end
  if rawget(methods, name) == nil then methods[name] = methods[of] end
  if rawget(methods, of .. "_") ~= nil then methods[name .. "_"] = methods[of .. "_"] end
end
for name, of in pairs {
  absolute = "abs", negative = "neg", subtract = "sub", multiply = "mul", divide = "div", true_divide = "div",
  floor_divide = "floordiv", remainder = "mod", greater = "gt", greater_equal = "ge", less = "lt", less_equal = "le",
  not_equal = "ne", arccos = "acos", arcsin = "asin", arctan = "atan", arccosh = "acosh", arcsinh = "asinh",
  arctanh = "atanh", arctan2 = "atan2", fix = "trunc", expit = "sigmoid", sgn = "sign", swapaxes = "transpose",
  swapdims = "transpose", moveaxis = "movedim", concat = "cat", concatenate = "cat", argwhere = "nonzero",
  vdot = "dot", ger = "outer", broadcast_tensors = "broadcast",
} do if rawget(flame, of) ~= nil or rawget(methods, of) ~= nil then alias(name, of) end end
methods.tolist, methods.nelement, methods.ndimension = methods.totable, methods.numel, methods.dim

--- Both as tensors: a number becomes 0-d, of the other's dtype when that is a float, else f32.
local function pair(op, x, y)
  local like = is_tensor(x) and x or need_tensor(op, "y", y)
  local function lift(v, name)
    if type(v) ~= "number" then return need_tensor(op, name, v) end
    return flame.full({}, v, { dtype = like:is_floating_point() and like.dtype or "f32", device = like.device })
  end
  return lift(x, "x"), lift(y, "y")
end
local function unary(name, f) add(name, 1, function(x) return f(need_tensor(name, "x", x)) end, "e") end
local function float(x) return x:is_floating_point() and x or x:float() end

-- ---- elementwise -----------------------------------------------------------------------------
--- x * log(y), 0 where x is 0.
add("xlogy", 2, function(x, y)
  x, y = pair("xlogy", x, y)
  local dead = x:eq(0):logical_and(y:le(0):logical_or(y:eq(math.huge)))
  return where(dead, 0, x * where(dead, 1, y):log())
end, "e")
--- x * log1p(y), 0 where x is 0.
add("xlog1py", 2, function(x, y)
  x, y = pair("xlog1py", x, y)
  local dead = x:eq(0):logical_and(y:le(-1):logical_or(y:eq(math.huge)))
  return where(dead, 0, x * where(dead, 0, y):log1p())
end, "e")
--- -x * log(x); 0 at 0, -inf below.
unary("entr", function(x) return where(x:lt(0), -math.huge, -flame.xlogy(x, where(x:lt(0), 1, x))) end)
--- sin(pi x) / (pi x), 1 at 0.
unary("sinc", function(x)
  local zero = x:eq(0)
  local z = where(zero, 1, x) * math.pi
  return where(zero, 1, z:sin() / z)
end)
--- log(x / (1 - x)); with eps, x is kept between eps and 1 - eps.
add("logit", 2, function(x, eps)
  need_tensor("logit", "x", x)
  eps = defaults("logit", { "eps" }, { eps = false }, eps).eps
  if eps then x = x:clamp(eps, 1 - eps) end
  return (x / (1 - x)):log()
end, "e")
--- 0 below 0, 1 above, 'values' at 0.
add("heaviside", 2, function(x, values)
  need_tensor("heaviside", "x", x)
  return where(x:detach():eq(0), values, x:detach():gt(0):to(x.dtype))
end, "e")
unary("deg2rad", function(x) return x * (math.pi / 180) end)
unary("rad2deg", function(x) return x * (180 / math.pi) end)
--- Is the sign bit set; -0.0 has it.
add("signbit", 1, function(x)
  need_tensor("signbit", "x", x)
  x = x:detach()
  if x.dtype == "bool" then return flame.zeros_like(x) end
  return x:is_floating_point() and flame.copysign(1, x):lt(0) or x:lt(0)
end)
unary("positive", function(x) return x:clone() end)
add("isposinf", 1, function(x) return need_tensor("isposinf", "x", x):detach():eq(math.huge) end)
add("isneginf", 1, function(x) return need_tensor("isneginf", "x", x):detach():eq(-math.huge) end)
--- |x - y| <= atol + rtol |y|, element by element.
---@param rtol? number  1e-5
---@param atol? number  1e-8
---@param equal_nan? boolean  false
add("isclose", 5, function(x, y, rtol, atol, equal_nan)
  need_tensor("isclose", "x", x)
  need_tensor("isclose", "y", y)
  local o = defaults("isclose", { "rtol", "atol", "equal_nan" }, { rtol = 1e-5, atol = 1e-8, equal_nan = false },
    rtol, atol, equal_nan)
  local a, b = x:detach():double(), y:detach():double()
  local close = a:eq(b):logical_or((a - b):abs():le(b:abs() * o.rtol + o.atol):logical_and(b:isfinite()))
  return o.equal_nan and close:logical_or(a:isnan():logical_and(b:isnan())) or close
end)
--- x to the power y, in f64.
add("float_power", 2, function(x, y)
  return (is_tensor(x) and x:double() or x) ^ (is_tensor(y) and y:double() or y)
end)
--- x * 2^y.
add("ldexp", 2, function(x, y) return need_tensor("ldexp", "x", x) * float(need_tensor("ldexp", "y", y)):exp2() end, "e")
--- log2(2^x + 2^y).
add("logaddexp2", 2, function(x, y)
  local ln2 = math.log(2)
  return flame.logaddexp(x * ln2, y * ln2) / ln2
end, "e")
--- y - alpha * x, the operands of sub the other way round.
---@param alpha? number  1
add("rsub", 3, function(x, y, alpha)
  alpha = defaults("rsub", { "alpha" }, { alpha = 1 }, alpha).alpha
  return y - (alpha == 1 and need_tensor("rsub", "x", x) or x * alpha)
end)
add("clamp_min", 2, function(x, low) return need_tensor("clamp_min", "x", x):clamp({ min = low }) end, "e")
add("clamp_max", 2, function(x, high) return need_tensor("clamp_max", "x", x):clamp({ max = high }) end, "e")
--- Every element v.
add("fill", 2, function(x, v) return flame.full_like(need_tensor("fill", "x", x), v) end)

--- 'value' where x is not above the threshold.
add("threshold", 3, function(x, threshold, value) return where(need_tensor("threshold", "x", x):le(threshold), value, x) end, "e")
--- 0 where |x| <= lambd.
---@param lambd? number  0.5
add("hardshrink", 2, function(x, lambd)
  local l = defaults("hardshrink", { "lambd" }, { lambd = 0.5 }, lambd).lambd
  return where(need_tensor("hardshrink", "x", x):abs():le(l), 0, x)
end, "e")
--- x moved towards 0 by lambd.
---@param lambd? number  0.5
add("softshrink", 2, function(x, lambd)
  local l = defaults("softshrink", { "lambd" }, { lambd = 0.5 }, lambd).lambd
  if l < 0 then fail("softshrink", "lambd = %g is negative", l) end
  need_tensor("softshrink", "x", x)
  return where(x:gt(l), x - l, where(x:lt(-l), x + l, x * 0))
end, "e")
--- x - tanh(x).
unary("tanhshrink", function(x) return x - x:tanh() end)
--- x where it is above 0, else w x; w has one element, or one a channel (axis 2).
add("prelu", 2, function(x, w)
  need_tensor("prelu", "x", x)
  need_tensor("prelu", "w", w)
  if w:numel() ~= 1 then
    local shape = x.shape
    if #shape < 2 or w.ndim ~= 1 or w.shape[1] ~= shape[2] then
      fail("prelu", "w has %d elements, need 1 or the %d channels of x", w:numel(), shape[2] or 1)
    end
    for d = 1, #shape do shape[d] = d == 2 and shape[2] or 1 end
    w = w:reshape(shape)
  end
  return where(x:gt(0), x, x * (x.ndim == 0 and w:reshape({}) or w:numel() == 1 and w:reshape({}) or w))
end)
--- The first half along d times the sigmoid of the second.
---@param d? integer  -1
add("glu", 2, function(x, d)
  d = axis_of("glu", need_tensor("glu", "x", x), defaults("glu", { "dim" }, { dim = -1 }, d).dim)
  local n = x.shape[d] or 1
  if n % 2 ~= 0 then fail("glu", "axis %d has %d elements, need an even number", d, n) end
  return x:narrow(d, 1, n // 2) * x:narrow(d, n // 2 + 1, n // 2):sigmoid()
end)
--- leaky_relu with a slope between lower and upper: random when training, else the middle.
---@param lower? number  1/8
---@param upper? number  1/3
---@param training? boolean  false
add("rrelu", 4, function(x, lower, upper, training)
  need_tensor("rrelu", "x", x)
  local o = defaults("rrelu", { "lower", "upper", "training" }, { lower = 1 / 8, upper = 1 / 3, training = false },
    lower, upper, training)
  local slope = o.training and flame.uniform(x.shape, o.lower, o.upper, { dtype = x.dtype, device = x.device })
    or (o.lower + o.upper) / 2
  return where(x:le(0), x * slope, x)
end, "e")
local function one_hot_of(y, d)
  local at = y:detach():argmax(d, { keepdim = true })
  return flame.zeros_like(y:detach()):scatter(d, at, flame.ones(at.shape, { dtype = y.dtype, device = y.device }))
end
--- Softmax of x plus Gumbel noise over tau; hard: one-hot forward, the soft gradient.
---@param tau? number  1
---@param hard? boolean  false
---@param d? integer  -1
add("gumbel_softmax", 4, function(x, tau, hard, d)
  need_tensor("gumbel_softmax", "x", x)
  local o = defaults("gumbel_softmax", { "tau", "hard", "dim" }, { tau = 1, hard = false, dim = -1 }, tau, hard, d)
  local noise = -(-(flame.rand_like(x:detach()):clamp({ min = 1e-38 })):log()):log()
  local y = ((x + noise) / o.tau):softmax(o.dim)
  return o.hard and one_hot_of(y, o.dim) - y:detach() + y or y
end)
--- x over its p-norm along d, the norm at least eps.
---@param p? number  2
---@param d? integer  2
---@param eps? number  1e-12
add("normalize", 4, function(x, p, d, eps)
  need_tensor("normalize", "x", x)
  local o = defaults("normalize", { "p", "dim", "eps" }, { p = 2, dim = 2, eps = 1e-12 }, p, d, eps)
  return x / x:norm(o.p, o.dim, { keepdim = true }):clamp({ min = o.eps })
end)
--- p-norm of x - y + eps over the last axis.
---@param p? number  2
---@param eps? number  1e-6
---@param keepdim? boolean  false
add("pairwise_distance", 5, function(x, y, p, eps, keepdim)
  need_tensor("pairwise_distance", "x", x)
  local o = defaults("pairwise_distance", { "p", "eps", "keepdim" }, { p = 2, eps = 1e-6, keepdim = false }, p, eps, keepdim)
  return (x - need_tensor("pairwise_distance", "y", y) + o.eps):norm(o.p, -1, { keepdim = o.keepdim })
end)
--- Distances of all pairs of rows, the first with the second, third, …
---@param p? number  2
add("pdist", 2, function(x, p)
  if need_tensor("pdist", "x", x).ndim ~= 2 then fail("pdist", "x has %d axes, need 2", x.ndim) end
  local at = flame.triu_indices(x.shape[1], x.shape[1], 1, { device = x.device })
  return (x:index_select(1, at:select(1, 1)) - x:index_select(1, at:select(1, 2))):norm(p or 2, 2)
end)
--- p-norm of x - y.
---@param p? number  2
add("dist", 3, function(x, y, p) return (need_tensor("dist", "x", x) - y):norm(p or 2) end)

-- ---- products -----------------------------------------------------------------------------------
local function add_product(name, product)
  add(name, 4, function(x, a, b, o)
    o = internal.options(name, o, { alpha = 1, beta = 1 })
    need_tensor(name, "x", x)
    local y = product(need_tensor(name, "a", a), need_tensor(name, "b", b))
    if o.alpha ~= 1 then y = y * o.alpha end
    return o.beta == 0 and y or o.beta == 1 and x + y or x * o.beta + y
  end)
end
add_product("addmv", function(a, v) return a:mv(v) end)
add_product("addr", function(v, w) return v:outer(w) end)
add_product("addbmm", function(a, b) return a:bmm(b):sum(1) end)
--- Sum of products over the last axes.
add("inner", 2, function(x, y)
  need_tensor("inner", "x", x)
  need_tensor("inner", "y", y)
  if x.ndim == 0 or y.ndim == 0 then return x * y end
  return flame.tensordot(x, y, { { -1 }, { -1 } })
end)
--- Sum of products over axes: the last n of x with the first n of y, or {axes of x, axes of y}.
---@param dims? integer|integer[][]  2
add("tensordot", 3, function(x, y, dims)
  need_tensor("tensordot", "x", x)
  need_tensor("tensordot", "y", y)
  dims = dims == nil and 2 or dims
  local a, b = {}, {}
  if type(dims) == "number" then
    for k = 1, need_int("tensordot", "dims", dims) do a[k], b[k] = k - dims - 1, k end
  else
    a, b = dims[1] or {}, dims[2] or {}
  end
  if #a ~= #b then fail("tensordot", "%d axes of x and %d of y", #a, #b) end
  local function spread(v, axes, first)
    local taken, order, n = {}, {}, 1
    for k, d in ipairs(axes) do axes[k] = axis_of("tensordot", v, d); taken[axes[k]] = true; n = n * v.shape[axes[k]] end
    local rest = {}
    for d = 1, v.ndim do if not taken[d] then rest[#rest + 1] = d end end
    for _, list in ipairs(first and { rest, axes } or { axes, rest }) do table.move(list, 1, #list, #order + 1, order) end
    local sizes, m = {}, 1
    for k, d in ipairs(rest) do sizes[k] = v.shape[d]; m = m * sizes[k] end
    return (#order > 0 and v:permute(order) or v):reshape(first and { m, n } or { n, m }), sizes
  end
  a, b = table.move(a, 1, #a, 1, {}), table.move(b, 1, #b, 1, {})
  for k = 1, #a do
    local p, q = x.shape[axis_of("tensordot", x, a[k])], y.shape[axis_of("tensordot", y, b[k])]
    if p ~= q then fail("tensordot", "axis %d of x has %d elements, axis %d of y %d", a[k], p, b[k], q) end
  end
  local p, left = spread(x, a, true)
  local q, right = spread(y, b, false)
  return p:matmul(q):reshape(table.move(right, 1, #right, #left + 1, left)):clone()
end)

-- ---- reductions -----------------------------------------------------------------------------------
--- Sum of what is not NaN.
add("nansum", 3, function(x, d, o)
  need_tensor("nansum", "x", x)
  return where(x:isnan(), 0, x):sum(d, o)
end)
--- Mean of what is not NaN.
add("nanmean", 3, function(x, d, o)
  need_tensor("nanmean", "x", x)
  local there = x:detach():isnan():logical_not()
  return where(there, x, 0):sum(d, o) / there:sum(d, o)
end)
--- std and mean along d.
add("std_mean", 3, function(x, d, o)
  local keep = type(o) == "table" and o or type(d) == "table" and d
  keep = { keepdim = keep and keep.keepdim or nil }
  return need_tensor("std_mean", "x", x):std(d, o), x:mean(not (type(d) == "table" and next(d) and d[1] == nil) and d or nil, keep)
end)
--- var and mean along d.
add("var_mean", 3, function(x, d, o)
  local keep = type(o) == "table" and o or type(d) == "table" and d
  keep = { keepdim = keep and keep.keepdim or nil }
  return need_tensor("var_mean", "x", x):var(d, o), x:mean(not (type(d) == "table" and next(d) and d[1] == nil) and d or nil, keep)
end)
--- Smallest and largest.
---@param o? table  {dim = all, keepdim = false}
add("aminmax", 2, function(x, o)
  need_tensor("aminmax", "x", x)
  o = internal.options("aminmax", o, { dim = false, keepdim = false })
  return x:amin(o.dim or nil, { keepdim = o.keepdim }), x:amax(o.dim or nil, { keepdim = o.keepdim })
end)
--- Differences of neighbours along d, n times.
---@param n? integer  1
---@param d? integer  -1
add("diff", 3, function(x, n, d)
  local o = defaults("diff", { "n", "dim" }, { n = 1, dim = -1 }, n, d)
  d = axis_of("diff", need_tensor("diff", "x", x), o.dim)
  if x.ndim == 0 then fail("diff", "a 0-d tensor has no neighbours") end
  if need_int("diff", "n", o.n) < 0 then fail("diff", "n = %d is negative", o.n) end
  local y = x
  for _ = 1, o.n do
    local size = y.shape[d]
    if size <= 1 then return y:narrow(d, 1, 0):clone() end
    local high, low = y:narrow(d, 2, size - 1), y:narrow(d, 1, size - 1)
    y = x.dtype == "bool" and high:ne(low) or high - low
  end
  return o.n == 0 and y:clone() or y
end)
--- The trapezes between neighbours along d; x: positions, a tensor or the distance.
local function trapezes(op, y, x, d)
  need_tensor(op, "y", y)
  if type(x) == "table" then d, x = x.dim or d, x.dx or x.x end
  d = axis_of(op, y, d or -1)
  local n = y.shape[d]
  if n < 2 then return y:narrow(d, 1, 0), d end
  local both = y:narrow(d, 1, n - 1) + y:narrow(d, 2, n - 1)
  if not is_tensor(x) then return both * ((x or 1) / 2), d end
  if x.ndim == 1 then
    local shape = {}
    for k = 1, y.ndim do shape[k] = k == d and x.shape[1] or 1 end
    x = x:reshape(shape)
  end
  return both * x:diff(1, d) / 2, d
end
--- Integral along d by trapezes.
---@param x? flame.tensor|number|table  positions, or their distance (1), or {dx =, dim =}
---@param d? integer  -1
add("trapezoid", 3, function(y, x, d)
  local parts, axis = trapezes("trapezoid", y, x, d)
  return parts:sum(axis)
end)
alias("trapz", "trapezoid")
--- Running integral along d by trapezes.
---@param x? flame.tensor|number|table  positions, or their distance (1), or {dx =, dim =}
---@param d? integer  -1
add("cumulative_trapezoid", 3, function(y, x, d)
  local parts, axis = trapezes("cumulative_trapezoid", y, x, d)
  return parts:cumsum(axis)
end)
--- Covariances of the rows of x.
---@param o? table  {correction = 1}
add("cov", 2, function(x, o)
  if need_tensor("cov", "x", x).ndim > 2 then fail("cov", "x has %d axes, need 2 at most", x.ndim) end
  o = internal.options("cov", o, { correction = 1 })
  local v = float(x.ndim < 2 and x:reshape(1, -1) or x)
  local c = v - v:mean(2, { keepdim = true })
  local y = c:matmul(c:t()) / math.max(v.shape[2] - o.correction, 0)
  return v.shape[1] == 1 and y:reshape({}) or y
end)
--- Correlations of the rows of x, between -1 and 1.
add("corrcoef", 1, function(x)
  local c = flame.cov(x)
  if c.ndim == 0 then return c / c end
  local s = c:diagonal():sqrt()
  return (c / s:unsqueeze(2) / s:unsqueeze(1)):clamp(-1, 1)
end)
--- Is each element of x among those of y.
add("isin", 2, function(x, y)
  x, y = pair("isin", x, y)
  return x:detach():unsqueeze(-1):eq(y:detach():reshape(-1)):any(-1)
end)
--- The value below which a share q of the elements lies, between neighbours by interpolation.
---@param q number|flame.tensor  0 to 1; several come along a new first axis
---@param d? integer  all
---@param o? table  {keepdim = false, interpolation = "linear"}
add("quantile", 4, function(x, q, d, o)
  local op = "quantile"
  need_tensor(op, "x", x)
  if not x:is_floating_point() then fail(op, "x is %s, need a float", x.dtype) end
  if type(o) == "boolean" then o = { keepdim = o } end
  if type(d) == "table" then d, o = nil, d end
  o = internal.options(op, o, { keepdim = false, interpolation = "linear" })
  local v = d == nil and x:reshape(-1) or x
  local axis, shape = d == nil and 1 or axis_of(op, x, d), x.shape
  local n = v.ndim == 0 and 1 or v.shape[axis]
  if n == 0 then fail(op, "axis %d has no elements", axis) end
  local sorted = v.ndim == 0 and v:reshape(1) or v:sort(axis)
  local nan = sorted:isnan():any(axis, { keepdim = true })
  local function at(share)
    if not (share >= 0 and share <= 1) then fail(op, "q = %g, need 0 to 1", share) end
    local p = share * (n - 1)
    local low = math.floor(p)
    local high, w = math.ceil(p), p - low
    if o.interpolation == "lower" then w = 0 elseif o.interpolation == "higher" then w = w > 0 and 1 or 0
    elseif o.interpolation == "midpoint" then w = w > 0 and 0.5 or 0
    elseif o.interpolation == "nearest" then w = (w > 0.5 or w == 0.5 and low % 2 == 1) and 1 or 0
    elseif o.interpolation ~= "linear" then fail(op, "no interpolation '%s'", tostring(o.interpolation)) end
    local a = sorted:narrow(axis, low + 1, 1)
    local y = where(nan, 0 / 0, w == 0 and a or a + (sorted:narrow(axis, high + 1, 1) - a) * w)
    if d == nil then
      for k = 1, #shape do shape[k] = 1 end
      return o.keepdim and y:reshape(shape) or y:reshape({})
    end
    return (o.keepdim or x.ndim == 0) and y:reshape(x.ndim == 0 and {} or y.shape) or y:squeeze(axis)
  end
  if type(q) == "number" then return at(q):clone() end
  local list = need_tensor(op, "q", q):totable()
  if q.ndim == 0 then return at(list):clone() end
  for k, share in ipairs(list) do list[k] = at(share) end
  return flame.stack(list, 1)
end)

-- ---- shapes ------------------------------------------------------------------------------------------
add("ravel", 1, function(x) return need_tensor("ravel", "x", x):reshape(-1) end)
add("fliplr", 1, function(x) return need_tensor("fliplr", "x", x):flip(2) end)
add("flipud", 1, function(x) return need_tensor("flipud", "x", x):flip(1) end)
--- Turned by k quarters in the plane of two axes, from the first towards the second.
---@param k? integer  1
---@param axes? integer[]  {1, 2}
add("rot90", 3, function(x, k, axes)
  need_tensor("rot90", "x", x)
  axes = axes or { 1, 2 }
  if type(axes) ~= "table" or #axes ~= 2 then fail("rot90", "axes must be two") end
  local a, b = axis_of("rot90", x, axes[1]), axis_of("rot90", x, axes[2])
  if a == b then fail("rot90", "the two axes must differ") end
  k = need_int("rot90", "k", k or 1) % 4
  if k == 0 then return x:clone() end
  if k == 2 then return x:flip(a, b) end
  return k == 1 and x:flip(b):transpose(a, b):clone() or x:transpose(a, b):flip(b)
end)
local function at_least(n)
  return function(x)
    if x.ndim >= n then return x end
    if n == 3 and x.ndim == 2 then return x:unsqueeze(3) end
    if n == 3 and x.ndim == 1 then return x:reshape(1, -1, 1) end
    if n == 2 and x.ndim == 1 then return x:unsqueeze(1) end
    return x:reshape(table.move({ 1, 1, 1 }, 1, n, 1, {}))
  end
end
for n = 1, 3 do
  local name, lift = ("atleast_%dd"):format(n), at_least(n)
  add(name, 1, function(x) return lift(need_tensor(name, "x", x)):clone() end)
end
local function stacked(name, lift, d)
  add(name, 1, function(list)
    if type(list) ~= "table" then fail(name, "tensors must be a list of tensors, got %s", type(list)) end
    local parts = {}
    for k, x in ipairs(list) do parts[k] = lift(need_tensor(name, ("tensors[%d]"):format(k), x)) end
    return flame.cat(parts, type(d) == "function" and d(parts[1]) or d)
  end, "module")
end
stacked("hstack", at_least(1), function(x) return x and x.ndim > 1 and 2 or 1 end)
stacked("vstack", at_least(2), 1)
stacked("row_stack", at_least(2), 1)
stacked("dstack", at_least(3), 3)
stacked("column_stack", function(x) return x.ndim < 2 and x:reshape(-1, 1) or x end, 2)
--- n parts along d as equal as can be, or cuts behind the positions of a list.
---@param n integer|integer[]
---@param d? integer  1
add("tensor_split", 3, function(x, n, d)
  d = axis_of("tensor_split", need_tensor("tensor_split", "x", x), d or 1)
  local size, parts, first = x.shape[d], {}, 0
  if size == nil then fail("tensor_split", "a 0-d tensor has no axes") end
  if type(n) == "table" then
    for k = 1, #n + 1 do
      local last = k > #n and size or need_int("tensor_split", "position", n[k])
      last = math.max(math.min(last < 0 and last + size or last, size), 0)
      local count = math.max(last - first, 0)
      parts[k] = x:narrow(d, count > 0 and first + 1 or 1, count)
      first = last
    end
    return parts
  end
  if need_int("tensor_split", "n", n) < 1 then fail("tensor_split", "n = %d must be positive", n) end
  for k = 1, n do
    local count = size // n + (k <= size % n and 1 or 0)
    parts[k] = x:narrow(d, count > 0 and first + 1 or 1, count)
    first = first + count
  end
  return parts
end)
--- Square blocks along the diagonal of zeros.
add("block_diag", 64, function(...)
  local list, rows, columns = { ... }, 0, 0
  for k, x in ipairs(list) do
    if need_tensor("block_diag", "tensor " .. k, x).ndim > 2 then fail("block_diag", "tensor %d has %d axes, need 2 at most", k, x.ndim) end
    list[k] = x.ndim < 2 and x:reshape(1, -1) or x
    columns = columns + list[k].shape[2]
  end
  for k, x in ipairs(list) do
    list[k] = x:pad({ rows, columns - rows - x.shape[2] })
    rows = rows + x.shape[2]
  end
  return #list > 0 and flame.cat(list, 1) or flame.zeros(1, 0)
end, "module")
--- All choices of one element from each, as rows.
add("cartesian_prod", 64, function(...)
  local list = flame.meshgrid(...)
  if #list == 1 then return list[1]:clone() end
  for k, x in ipairs(list) do list[k] = x:reshape(-1) end
  return flame.stack(list, 2)
end, "module")
--- All choices of r elements of x in order, as rows.
---@param r? integer  2
---@param with_replacement? boolean  false
add("combinations", 3, function(x, r, with_replacement)
  if need_tensor("combinations", "x", x).ndim ~= 1 then fail("combinations", "x has %d axes, need 1", x.ndim) end
  local o = defaults("combinations", { "r", "with_replacement" }, { r = 2, with_replacement = false }, r, with_replacement)
  local n, at, now = x.shape[1], {}, {}
  local function choose(k, from)
    if k > o.r then at[#at + 1] = table.move(now, 1, o.r, 1, {}) return end
    for i = from, n do now[k] = i; choose(k + 1, o.with_replacement and i or i + 1) end
  end
  choose(1, 1)
  if #at == 0 or o.r == 0 then return flame.zeros(0, o.r, { dtype = x.dtype, device = x.device }) end
  return x:take(flame.tensor(at, { dtype = "i64", device = x.device }))
end)
local function triangle_indices(name, keep)
  add(name, 4, function(rows, columns, offset, o)
    if type(offset) == "table" then offset, o = 0, offset end
    o = internal.options(name, o, { device = flame.default_device(), dtype = "i64" })
    local at = { {}, {} }
    for i = 1, need_int(name, "rows", rows) do
      for j = 1, need_int(name, "columns", columns) do
        if keep(j - i, offset or 0) then at[1][#at[1] + 1], at[2][#at[2] + 1] = i, j end
      end
    end
    return flame.tensor(at, o)
  end, "module")
end
triangle_indices("tril_indices", function(k, offset) return k <= offset end)
triangle_indices("triu_indices", function(k, offset) return k >= offset end)
--- n values from base^first to base^last, equally apart in the exponent.
---@param base? number  10
---@param o? table  {dtype =, device =, requires_grad =}
add("logspace", 5, function(first, last, n, base, o)
  if type(base) == "table" then base, o = nil, base end
  local y = flame.linspace(first, last, n, { dtype = "f64", device = o and o.device })
  y = ((base or 10.0) ^ y):to(o and o.dtype or "f32")
  return o and o.requires_grad and y:requires_grad_(true) or y
end, "module")
--- A vector as the diagonal of a matrix of zeros; of a matrix its diagonal.
---@param k? integer  0
add("diag", 2, function(x, k)
  if need_tensor("diag", "x", x).ndim > 2 or x.ndim == 0 then fail("diag", "x has %d axes, need 1 or 2", x.ndim) end
  return x.ndim == 2 and x:diagonal(k or 0):clone() or flame.diag_embed(x, k or 0)
end)
--- All elements as the diagonal of a matrix of zeros.
---@param k? integer  0
add("diagflat", 2, function(x, k) return flame.diag_embed(need_tensor("diagflat", "x", x):reshape(-1), k or 0) end)
--- The last axis as the diagonal of two new axes.
---@param k? integer  0
---@param a? integer  -2
---@param b? integer  -1
add("diag_embed", 4, function(x, k, a, b)
  if need_tensor("diag_embed", "x", x).ndim == 0 then fail("diag_embed", "a 0-d tensor has no axes") end
  local o = defaults("diag_embed", { "offset", "dim1", "dim2" }, { offset = 0, dim1 = -2, dim2 = -1 }, k, a, b)
  local n, m = x.shape[x.ndim], math.abs(o.offset)
  local y = x:unsqueeze(-1) * flame.eye(n, { dtype = x.dtype == "bool" and "bool" or x.dtype, device = x.device })
  if m > 0 then y = y:pad(o.offset > 0 and { m, 0, 0, m } or { 0, m, m, 0 }) end
  local rank = y.ndim
  local p, q = axis_of("diag_embed", y, o.dim1), axis_of("diag_embed", y, o.dim2)
  if p == q then fail("diag_embed", "the two axes must differ") end
  if p == rank - 1 and q == rank then return y end
  local order, from = {}, 0
  for d = 1, rank do
    if d ~= p and d ~= q then from = from + 1 end
    order[d] = d == p and rank - 1 or d == q and rank or from
  end
  return y:permute(order):clone()
end)
--- (n, c r r, h, w) to (n, c, h r, w r).
add("pixel_shuffle", 2, function(x, r)
  return need_tensor("pixel_shuffle", "x", x):rearrange("n (c p q) h w -> n c (h p) (w q)", { p = r, q = r }):clone()
end)
--- (n, c, h r, w r) to (n, c r r, h, w).
add("pixel_unshuffle", 2, function(x, r)
  return need_tensor("pixel_unshuffle", "x", x):rearrange("n c (h p) (w q) -> n (c p q) h w", { p = r, q = r }):clone()
end)
for name, of in pairs { view_as = "reshape", reshape_as = "reshape" } do
  add(name, 2, function(x, y) return need_tensor(name, "x", x)[of](x, need_tensor(name, "y", y).shape) end)
end
add("type_as", 2, function(x, y) return need_tensor("type_as", "x", x):to(need_tensor("type_as", "y", y).dtype) end)

--- x:new_zeros(…sizes[, options]): of x's dtype and device.
for _, name in ipairs { "zeros", "ones", "empty" } do
  methods["new_" .. name] = internal.checked(function(x, ...)
    local list, o = table.pack(...), {}
    if list.n > 1 and type(list[list.n]) == "table" or list.n == 1 and type(list[1]) == "table" and list[1][1] == nil and next(list[1]) then
      o, list.n = list[list.n], list.n - 1
    end
    local sizes = list.n == 1 and type(list[1]) == "table" and list[1] or table.move(list, 1, list.n, 1, {})
    return flame[name](sizes, { dtype = o.dtype or x.dtype, device = o.device or x.device, requires_grad = o.requires_grad })
  end, "new_" .. name, 10)
end
methods.new_full = internal.checked(function(x, shape, v, o)
  o = o or {}
  return flame.full(shape, v, { dtype = o.dtype or x.dtype, device = o.device or x.device, requires_grad = o.requires_grad })
end, "new_full", 4)
methods.new_tensor = internal.checked(function(x, v, o)
  o = o or {}
  return flame.tensor(v, { dtype = o.dtype or x.dtype, device = o.device or x.device, requires_grad = o.requires_grad })
end, "new_tensor", 3)

-- ---- by position ------------------------------------------------------------------------------------------
--- Positions (1 to n + 1) at which x would be put into ascending boundaries.
---@param o? table  {right = false}
add("bucketize", 3, function(x, boundaries, o) return flame.searchsorted(boundaries, x, o) end)
--- gather with shapes that broadcast; without d, of the flat x.
---@param d? integer
add("take_along_dim", 3, function(x, idx, d)
  need_tensor("take_along_dim", "x", x)
  need_tensor("take_along_dim", "idx", idx)
  if d == nil then return x:reshape(-1):gather(1, idx:reshape(-1)) end
  d = axis_of("take_along_dim", x, d)
  local p, q = x.shape, idx.shape
  if #p ~= #q then fail("take_along_dim", "x has %d axes and idx %d", #p, #q) end
  p[d], q[d] = 1, 1
  local shape = internal.broadcast_shape("take_along_dim", { flame.zeros(p), flame.zeros(q) })
  p, q = table.move(shape, 1, #shape, 1, {}), shape
  p[d], q[d] = x.shape[d], idx.shape[d]
  return x:expand(p):gather(d, idx:expand(q))
end)
--- x with the positions idx along d replaced by the slices of src.
add("index_copy", 4, function(x, d, idx, src)
  d = axis_of("index_copy", need_tensor("index_copy", "x", x), d)
  need_tensor("index_copy", "idx", idx)
  need_tensor("index_copy", "src", src)
  if idx.ndim > 1 then fail("index_copy", "idx has %d axes, need 1", idx.ndim) end
  local keep = {}
  for k = 1, x.ndim do keep[k] = k == d and idx:numel() or 1 end
  return x:scatter(d, idx:reshape(keep):expand(src.shape), src)
end, "e")
--- x where mask is false; where it is true the elements of src, in order.
add("masked_scatter", 3, function(x, mask, src)
  need_tensor("masked_scatter", "x", x)
  if need_tensor("masked_scatter", "mask", mask).dtype ~= "bool" then fail("masked_scatter", "mask is %s, need bool", mask.dtype) end
  need_tensor("masked_scatter", "src", src)
  local hit = mask:expand(x.shape)
  local at = hit:reshape(-1):cumsum(1)
  local n = x:numel() > 0 and at[-1]:item() or 0
  if n > src:numel() then fail("masked_scatter", "mask is true at %d positions, src has %d elements", n, src:numel()) end
  if n == 0 then return x:clone() end
  return where(hit, src:reshape(-1):take(at:clamp({ min = 1 })):reshape(x.shape), x)
end, "e")
--- x with one position of axis d replaced by src.
add("select_scatter", 4, function(x, src, d, i)
  d = axis_of("select_scatter", need_tensor("select_scatter", "x", x), d)
  local y, key = x:clone(), {}
  for k = 1, x.ndim do key[k] = k == d and i or {} end
  y[key] = need_tensor("select_scatter", "src", src)
  return y
end)
--- x with positions first to last (every step-th) of axis d replaced by src.
---@param d? integer  1
---@param first? integer  1
---@param last? integer  the end
---@param step? integer  1
add("slice_scatter", 6, function(x, src, d, first, last, step)
  d = axis_of("slice_scatter", need_tensor("slice_scatter", "x", x), d or 1)
  local y, key = x:clone(), {}
  for k = 1, x.ndim do key[k] = k == d and { first or 1, last or x.shape[d], step or 1 } or {} end
  y[key] = need_tensor("slice_scatter", "src", src)
  return y
end)

local unit = { prod = 1, amax = -math.huge, amin = math.huge }
--- Every element of x with those of src that idx sends to it.
---@param reduce "sum"|"prod"|"mean"|"amax"|"amin"
---@param o? table  {include_self = true}
add("scatter_reduce", 6, function(x, d, idx, src, reduce, o)
  local op = "scatter_reduce"
  d = axis_of(op, need_tensor(op, "x", x), d)
  need_tensor(op, "idx", idx)
  need_tensor(op, "src", src)
  o = internal.options(op, o, { include_self = true })
  if reduce ~= "sum" and reduce ~= "mean" and not unit[reduce] then
    fail(op, 'reduce must be "sum", "prod", "mean", "amax" or "amin", got "%s"', tostring(reduce))
  end
  local ones = flame.ones(idx.shape, { dtype = "i64", device = x.device })
  local count = flame.zeros(x.shape, { dtype = "i64", device = x.device }):scatter_add(d, idx, ones)
  local base = o.include_self and x or where(count:gt(0), 0, x)
  if reduce == "sum" then return base:scatter_add(d, idx, src) end
  if reduce == "mean" then
    local n = count + (o.include_self and 1 or 0)
    local sum = base:scatter_add(d, idx, src)
    n = n:clamp({ min = 1 })
    return x:is_floating_point() and sum / n:to(x.dtype) or sum:div(n, { rounding_mode = "floor" }):to(x.dtype)
  end
  local key, region = {}, {}
  for k = 1, x.ndim do key[k], region[k] = { 1, idx.shape[k] }, k == d and { 1, x.shape[d] } or { 1, idx.shape[k] } end
  if idx:numel() == 0 then return x:clone() end
  local at = flame.arange(1, x.shape[d], { dtype = "i64", device = x.device }):reshape(-1, 1)
  local hit = idx:long():movedim(d, -1):unsqueeze(-2):eq(at)
  local low = not x:is_floating_point() and reduce ~= "prod" and (reduce == "amax" and x:amin():minimum(src:amin())
    or x:amax():maximum(src:amax())) or unit[reduce]
  local sent = where(hit, src(table.unpack(key)):movedim(d, -1):unsqueeze(-2), low)
  local best = sent[reduce](sent, -1):movedim(-1, d):to(x.dtype)
  local part, there = x(table.unpack(region)), count(table.unpack(region)):gt(0)
  local both = reduce == "prod" and part * best or reduce == "amax" and part:maximum(best) or part:minimum(best)
  local y = x:clone()
  y[region] = where(there, o.include_self and both or best, part)
  return y
end)

-- ---- writes with random numbers --------------------------------------------------------------------------
methods.bernoulli_ = internal.checked(function(x, p)
  p = p == nil and 0.5 or p
  return x:copy_(flame.rand(x.shape, { device = x.device }):lt(p):to(x.dtype))
end, "bernoulli_", 2)
methods.exponential_ = internal.checked(function(x, rate)
  return x:copy_((1 - flame.rand(x.shape, { dtype = x.dtype, device = x.device })):log() / -(rate or 1))
end, "exponential_", 2)
methods.random_ = internal.checked(function(x, low, high)
  if high == nil then low, high = 1, low or 2 ^ 24 | 0 end
  return x:copy_(flame.randint(x.shape, low, high, { device = x.device }):to(x.dtype))
end, "random_", 3)
