--- Names that a user of PyTorch looks for, each a line or two over what there is: other names,
-- elementwise functions, products, reductions. core_extra_shape.lua goes on. Where another file
-- has a name already, that one stays.
local flame, methods, internal = ...
local fail, need_tensor, need_int = internal.failf, internal.need_tensor, internal.need_int
local defaults, axis_of, is_tensor = internal.defaults, internal.axis_of, flame.is_tensor
local where = flame.where

--- As def, of a name or a declaration.
local function add(text, ...)
  local name = text:match("^([%w_]-)_?%??%(") or text
  if rawget(flame, name) == nil and rawget(methods, name) == nil then internal.def(text, ...) end
end
--- Another name of what there is; the in-place form too.
local function alias(name, of)
  if rawget(flame, name) == nil then flame[name] = flame[of] end
  if rawget(methods, name) == nil then methods[name] = methods[of] end
  if rawget(methods, of .. "_") ~= nil then methods[name .. "_"] = methods[of .. "_"] end
end
internal.add_name = add
for name, of in pairs {
  absolute = "abs", negative = "neg", subtract = "sub", multiply = "mul", divide = "div",
  true_divide = "div", floor_divide = "floordiv", remainder = "mod", greater = "gt",
  greater_equal = "ge", less = "lt", less_equal = "le", not_equal = "ne", arccos = "acos",
  arcsin = "asin", arctan = "atan", arccosh = "acosh", arcsinh = "asinh", arctanh = "atanh",
  arctan2 = "atan2", fix = "trunc", expit = "sigmoid", sgn = "sign", swapaxes = "transpose",
  swapdims = "transpose", moveaxis = "movedim", concat = "cat", concatenate = "cat", vdot = "dot",
  ger = "outer", broadcast_tensors = "broadcast",
} do if rawget(flame, of) ~= nil or rawget(methods, of) ~= nil then alias(name, of) end end
methods.tolist, methods.nelement, methods.ndimension = methods.totable, methods.numel, methods.dim

--- Both as tensors: a number becomes 0-d, of the other's dtype when that is a float, else f32.
local function pair(op, x, y)
  local like = is_tensor(x) and x or need_tensor(op, "y", y)
  local function lift(v, name)
    if type(v) ~= "number" then return need_tensor(op, name, v) end
    return flame.full({}, v,
      { dtype = like:is_floating_point() and like.dtype or "f32", device = like.device })
  end
  return lift(x, "x"), lift(y, "y")
end
local half = { f16 = true, bf16 = true }
--- The dtype of a float function of the two: the wider float; f32 when none is a float.
local function float_dtype(x, y)
  local a, b = x.dtype, y.dtype
  if not y:is_floating_point() then b = a end
  if not x:is_floating_point() then a = b end
  if not x:is_floating_point() and not y:is_floating_point() then return "f32" end
  if a == b then return a end
  return (a == "f64" or b == "f64") and "f64" or "f32"
end
local function unary(name, f) add(name .. "_?(x: T) -> T", f) end
local function float(x) return x:is_floating_point() and x or x:float() end
--- A function of several steps: integers as f32; half types in f32, rounded once at the end.
local function smooth(x, f)
  x = float(x)
  return half[x.dtype] and f(x:float()):to(x.dtype) or f(x)
end
--- The same of two operands, in their common dtype.
local function binary(name, f)
  add(name, 2, function(x, y)
    x, y = pair(name, x, y)
    local dtype = float_dtype(x, y)
    local work = half[dtype] and "f32" or dtype
    local z = f(x:to(work), y:to(work))
    return half[dtype] and z:to(dtype) or z
  end, "e")
end
internal.pair, internal.smooth, internal.smooth_binary, internal.float_dtype = pair, smooth,
  binary, float_dtype

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
add("logit", 2, function(x, eps)
  need_tensor("logit", "x", x)
  eps = defaults("logit", { "eps" }, { eps = false }, eps).eps
  if eps then internal.need_number("logit", "eps", eps) end
  return smooth(x, function(v)
    if eps then v = v:clamp(eps, 1 - eps) end
    v = v + where(v:lt(0):logical_or(v:gt(1)), 0 / 0, v:detach() * 0)
    return v:log() - (-v):log1p()
  end)
end, "e")
--- 0 below 0, 1 above, 'values' at 0.
add("heaviside", 2, function(x, values)
  need_tensor("heaviside", "x", x)
  if is_tensor(values) and values.dtype ~= x.dtype then
    fail("heaviside", "x is %s and values %s\1: cast one of them", x.dtype, values.dtype)
  end
  return where(x:detach():eq(0), values, x:detach():gt(0):to(x.dtype))
end, "e")
--- Degrees as radians.
unary("deg2rad", function(x) return x * (math.pi / 180) end)
--- Radians as degrees.
unary("rad2deg", function(x) return x * (180 / math.pi) end)
--- Is the sign bit set; -0.0 has it.
add("signbit", 1, function(x)
  need_tensor("signbit", "x", x)
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
add("isposinf(x: T) -> T", function(x) return x:detach():eq(math.huge) end)
--- Is x -Inf.
add("isneginf(x: T) -> T", function(x) return x:detach():eq(-math.huge) end)
--- |x - y| <= atol + rtol |y|, element by element.
---@param rtol? number  1e-5
---@param atol? number  1e-8
---@param equal_nan? boolean  false
add("isclose", 5, function(x, y, rtol, atol, equal_nan)
  need_tensor("isclose", "x", x)
  need_tensor("isclose", "y", y)
  local o = defaults("isclose", { "rtol", "atol", "equal_nan" },
    { rtol = 1e-5, atol = 1e-8, equal_nan = false },
    rtol, atol, equal_nan)
  for _, name in ipairs { "rtol", "atol" } do
    if not (o[name] >= 0) then fail("isclose", "%s = %g is negative", name, o[name]) end
  end
  local a, b = x:detach():double(), y:detach():double()
  local close = a:eq(b)
    :logical_or((a - b):abs():le(b:abs() * o.rtol + o.atol):logical_and(b:isfinite()))
  return o.equal_nan and close:logical_or(a:isnan():logical_and(b:isnan())) or close
end)
--- x to the power y, in f64.
add("float_power", 2, function(x, y)
  internal.need_operand("float_power", "x", x)
  internal.need_operand("float_power", "y", y)
  if not is_tensor(x) then need_tensor("float_power", "y", y) end
  return (is_tensor(x) and x:double() or x) ^ (is_tensor(y) and y:double() or y)
end)
--- x * 2^y.
add("ldexp", 2, function(x, y)
  return need_tensor("ldexp", "x", x) * float(need_tensor("ldexp", "y", y)):exp2()
end, "e")
--- log2(2^x + 2^y).
binary("logaddexp2", function(x, y) return internal.log_of_sum(x, y, flame.exp2, flame.log2) end)
--- y - alpha * x, the operands of sub the other way round.
---@param alpha? number  1
add("rsub", 3, function(x, y, alpha)
  alpha = defaults("rsub", { "alpha" }, { alpha = 1 }, alpha).alpha
  return y - (alpha == 1 and need_tensor("rsub", "x", x) or x * alpha)
end)
add("clamp_min", 2,
  function(x, low) return need_tensor("clamp_min", "x", x):clamp({ min = low }) end, "e")
add("clamp_max", 2,
  function(x, high) return need_tensor("clamp_max", "x", x):clamp({ max = high }) end, "e")
--- Every element v.
---@param v number|flame.Tensor
add("fill", 2, function(x, v)
  return flame.full_like(need_tensor("fill", "x", x), internal.named(v, "value"))
end)

--- 'value' where x is not above the threshold.
add("threshold", 3, function(x, threshold, value)
  need_tensor("threshold", "x", x)
  return where(x:le(internal.need_operand("threshold", "threshold", threshold)),
    internal.need_operand("threshold", "value", value), x)
end, "e")
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
  return where(x:gt(0), x,
    x * (x.ndim == 0 and w:reshape({}) or w:numel() == 1 and w:reshape({}) or w))
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
  local o = defaults("rrelu", { "lower", "upper", "training" },
    { lower = 1 / 8, upper = 1 / 3, training = false },
    lower, upper, training)
  if o.lower > o.upper then fail("rrelu", "lower = %g is above upper = %g", o.lower, o.upper) end
  local slope = o.training and flame.uniform(x.shape, o.lower, o.upper,
    { dtype = x.dtype, device = x.device })
    or (o.lower + o.upper) / 2
  return where(x:le(0), x * slope, x)
end, "e")
local function one_hot_of(y, d)
  local at = y:detach():argmax(d, { keepdim = true })
  return flame.zeros_like(y:detach()):scatter(d, at,
    flame.ones(at.shape, { dtype = y.dtype, device = y.device }))
end
--- Softmax of x plus Gumbel noise over tau; hard: one-hot forward, the soft gradient.
---@param tau? number  1
---@param hard? boolean  false
---@param d? integer  -1
add("gumbel_softmax", 4, function(x, tau, hard, d)
  need_tensor("gumbel_softmax", "x", x)
  local o = defaults("gumbel_softmax", { "tau", "hard", "dim" },
    { tau = 1, hard = false, dim = -1 }, tau, hard, d)
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
  local o = defaults("pairwise_distance", { "p", "eps", "keepdim" },
    { p = 2, eps = 1e-6, keepdim = false }, p, eps, keepdim)
  return (x - need_tensor("pairwise_distance", "y", y) + o.eps):norm(o.p, -1,
    { keepdim = o.keepdim })
end)
--- Distances of all pairs of rows, the first with the second, third, …
---@param p? number  2
add("pdist", 2, function(x, p)
  if need_tensor("pdist", "x", x).ndim ~= 2 then fail("pdist", "x has %d axes, need 2", x.ndim) end
  p = defaults("pdist", { "p" }, { p = 2 }, p).p
  local at = flame.triu_indices(x.shape[1], x.shape[1], 1, { device = x.device })
  return (x:index_select(1, at:select(1, 1)) - x:index_select(1, at:select(1, 2))):norm(p, 2)
end)
--- p-norm of x - y.
---@param p? number  2
add("dist", 3, function(x, y, p)
  return (need_tensor("dist", "x", x) - y):norm(defaults("dist", { "p" }, { p = 2 }, p).p)
end)

-- ---- products -----------------------------------------------------------------------------------
local function add_product(name, product)
  add(name, 4, function(x, a, b, o)
    o = internal.options(name, o, { alpha = 1, beta = 1 })
    need_tensor(name, "x", x)
    local y = product(need_tensor(name, "a", a), need_tensor(name, "b", b))
    x:broadcast_to(y.shape)                       -- raises where x does not fit, also with beta = 0
    if o.alpha ~= 1 then y = y * o.alpha end
    return o.beta == 0 and y or o.beta == 1 and x + y or x * o.beta + y
  end)
end
add_product("addmv", function(a, v) return a:mv(v) end)
add_product("addr", function(v, w) return v:outer(w) end)
add_product("addbmm", function(a, b) return a:bmm(b):sum(1, { dtype = a.dtype }) end)
--- Sum of products over the last axes.
add("inner", 2, function(x, y)
  need_tensor("inner", "x", x)
  need_tensor("inner", "y", y)
  if x.ndim == 0 or y.ndim == 0 then return x * y end
  return flame.tensordot(x, y, { { -1 }, { -1 } })
end)
-- ---- reductions ---------------------------------------------------------------------------------
--- Sum of what is not NaN.
add("nansum", 3, function(x, d, o)
  need_tensor("nansum", "x", x)
  return where(x:isnan(), 0, x):sum(d, o)
end)
--- Mean of what is not NaN.
add("nanmean", 3, function(x, d, o)
  if not need_tensor("nanmean", "x", x):is_floating_point() then
    fail("nanmean", "dtype %s is not supported\1; cast first: x:float()", x.dtype)
  end
  local there = x:detach():isnan():logical_not()
  return where(there, x, 0):sum(d, o) / there:sum(d, o)
end)
--- Arguments of var (axes, unbiased, keepdim, options) as mean takes them: (axes, {keepdim =}).
local function for_mean(d, ...)
  if type(d) == "boolean" then return for_mean(nil, d, ...) end
  local given, keepdim = type(d) == "table" and d[1] == nil and next(d) ~= nil and d, nil
  for i = 1, select("#", ...) do
    local v = (select(i, ...))
    if type(v) == "table" then given = v elseif i == 2 then keepdim = v end
  end
  given = given or {}
  return given ~= d and d or nil, { dim = given.dim, keepdim = given.keepdim or keepdim or false }
end
--- std and mean.
---@param ... any  axes = all, unbiased = true, keepdim = false, or axes, then {correction = 1, keepdim = false}
add("std_mean", 4, function(x, ...)
  return need_tensor("std_mean", "x", x):std(...), x:mean(for_mean(...))
end)
--- var and mean.
---@param ... any  axes = all, unbiased = true, keepdim = false, or axes, then {correction = 1, keepdim = false}
add("var_mean", 4, function(x, ...)
  return need_tensor("var_mean", "x", x):var(...), x:mean(for_mean(...))
end)
--- Smallest and largest.
---@param o? table  {dim = all, keepdim = false}
---@return flame.Tensor, flame.Tensor
add("aminmax", 2, function(x, o)
  need_tensor("aminmax", "x", x)
  o = internal.options("aminmax", o, { dim = false, keepdim = false })
  return x:amin(o.dim or nil, { keepdim = o.keepdim }),
    x:amax(o.dim or nil, { keepdim = o.keepdim })
end)
--- Differences of neighbours along d, n times; prepend and append stand before and behind x.
---@param n? integer  1
---@param d? integer  -1
---@param ... any  prepend, append, or {n = 1, dim = -1, prepend =, append =}
add("diff", 5, function(x, n, d, ...)
  local o = defaults("diff", { "n", "dim", "prepend", "append" },
    { n = 1, dim = -1, prepend = false, append = false }, n, d, ...)
  d = axis_of("diff", need_tensor("diff", "x", x), o.dim)
  if x.ndim == 0 then fail("diff", "a 0-d tensor has no neighbours") end
  if need_int("diff", "n", o.n) < 0 then fail("diff", "n = %d is negative", o.n) end
  local y = x
  if o.n > 0 and (o.prepend or o.append) then
    local parts = { y }
    if o.prepend then table.insert(parts, 1, need_tensor("diff", "prepend", o.prepend)) end
    if o.append then parts[#parts + 1] = need_tensor("diff", "append", o.append) end
    y = flame.cat(parts, d)
  end
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
  if type(d) == "table" then d = internal.options(op, d, { dim = -1 }).dim end
  if type(x) == "table" then
    local o = internal.options(op, x, { dx = 1, x = false, dim = d or -1 })
    d, x = o.dim, o.x or o.dx
  end
  d = axis_of(op, y, d or -1)
  if x ~= nil then internal.need_operand(op, "x", x) end
  local n = y.shape[d] or fail(op, "y is 0-d, need an axis")
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
--- Covariances of the rows of x. fweights: how often each column counts; aweights: its importance.
---@param o? table  {correction = 1, fweights =, aweights =}
add("cov", 2, function(x, o)
  if need_tensor("cov", "x", x).ndim > 2 then
    fail("cov", "x has %d axes, need 2 at most", x.ndim)
  end
  o = internal.options("cov", o, { correction = 1, fweights = false, aweights = false })
  local v = float(x.ndim < 2 and x:reshape(1, -1) or x)
  local w, count = nil, v.shape[2]
  for _, name in ipairs { "fweights", "aweights" } do
    local given = o[name]
    if given then
      if need_tensor("cov", name, given).ndim ~= 1 or given.shape[1] ~= count then
        fail("cov", "%s has shape (%s), need (%d)", name, table.concat(given.shape, ", "), count)
      end
      if name == "fweights" and given:is_floating_point() then
        fail("cov", "fweights is %s, need integers", given.dtype)
      end
      if given:detach():lt(0):any():item() then fail("cov", "%s has a negative element", name) end
      w = w and w * given:to(v.dtype) or given:to(v.dtype)
    end
  end
  if not w then
    local c = v - v:mean(2, { keepdim = true })
    local y = c:matmul(c:t()) / math.max(count - o.correction, 0)
    return v.shape[1] == 1 and y:reshape({}) or y
  end
  local total = w:sum()
  local c = v - (v * w):sum(2, { keepdim = true }) / total
  local spread = o.aweights and (w * o.aweights:to(v.dtype)):sum() / total * o.correction
    or o.correction
  local y = (c * w):matmul(c:t()) / (total - spread):clamp({ min = 0 })
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
---@param o? table  {invert = false, assume_unique = false}
add("isin", 3, function(x, y, o)
  x, y = pair("isin", x, y)
  local invert = internal.options("isin", o, { invert = false, assume_unique = false }).invert
  local there = x:detach():unsqueeze(-1):eq(y:detach():reshape(-1)):any(-1)
  return invert and there:logical_not() or there
end)
--- The value below which a share q of the elements lies, between neighbours by interpolation.
---@param q number|flame.Tensor  0 to 1; several come along a new first axis
---@param ... any  dim = all, keepdim = false, then {interpolation = "linear"}
add("quantile", 5, function(x, q, ...)
  local op = "quantile"
  need_tensor(op, "x", x)
  if not x:is_floating_point() then fail(op, "x is %s, need a float", x.dtype) end
  local o = defaults(op, { "dim", "keepdim" },
    { dim = false, keepdim = false, interpolation = "linear" }, ...)
  local d = o.dim or nil
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
    local low = math.floor(p)
    local high, w = math.ceil(p), p - low
    if o.interpolation == "lower" then
      w = 0
    elseif o.interpolation == "higher" then
      w = w > 0 and 1 or 0
    elseif o.interpolation == "midpoint" then w = w > 0 and 0.5 or 0
    elseif o.interpolation == "nearest" then w = (w > 0.5 or w == 0.5 and low % 2 == 1) and 1 or 0
    elseif o.interpolation ~= "linear" then
      fail(op, "no interpolation '%s'", tostring(o.interpolation))
    end
    local a = sorted:narrow(axis, low + 1, 1)
    if tracked and o.interpolation == "linear" and w > 0 then w = tracked * (n - 1) - low end
    local y = where(nan, 0 / 0, w == 0 and a or a + (sorted:narrow(axis, high + 1, 1) - a) * w)
    if d == nil then
      for k = 1, #shape do shape[k] = 1 end
      return o.keepdim and y:reshape(shape) or y:reshape({})
    end
    return (o.keepdim or x.ndim == 0) and y:reshape(x.ndim == 0 and {} or y.shape)
      or y:squeeze(axis)
  end
  if type(q) == "number" then return at(q):clone() end
  local list = need_tensor(op, "q", q):totable()
  local tracked = q.requires_grad and q:to(x.dtype)
  if q.ndim == 0 then return at(list, tracked):clone() end
  for k, share in ipairs(list) do list[k] = at(share, tracked and tracked[k]) end
  return flame.stack(list, 1)
end)
