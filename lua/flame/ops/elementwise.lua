--- Elementwise functions that are composed of others.
local flame = require "flame"
local internal = flame.internal
local arguments = require "flame.base.arguments"
local dtypes = require "flame.base.dtypes"
local fail, def, need_tensor = arguments.fail, arguments.def, arguments.need_tensor
local is_tensor, where = flame.is_tensor, flame.where
local binary, smooth = dtypes.binary, dtypes.smooth

local function is_float(x) return x:is_floating_point() end
local function float(x) return x:is_floating_point() and x or x:float() end

local function unary(name, f) def(name .. "_?(x: T) -> T", f) end

--- The positions where c holds, a tensor for each axis.
function internal.where(c) return c:nonzero():unbind(2) end
--- x rounded to this many decimals, which may be negative. Called from C.
function internal.round(x, decimals)
  local scale = 10.0 ^ decimals
  return scale >= 1 and (x * scale):round() / scale or (x / (1 / scale)):round() * (1 / scale)
end
--- x with NaN replaced by 0, infinities by the largest finite numbers, or by the given numbers.
def("nan_to_num_?(x: T, nan = 0.0, posinf?: num, neginf?: num) -> T",
  function(x, nan, posinf, neginf)
    if not is_float(x) then return x:clone() end
    local largest = dtypes.largest[x.dtype]
    local y = where(x:isnan(), nan, x)
    y = where(x:eq(math.huge), posinf or largest, y)
    return where(x:eq(-math.huge), neginf or -largest, y)
  end)
--- x + weight (y - x).
def("lerp_?(x: T, y: T|num, weight: T|num) -> T",
  function(x, y, weight) return x + weight * (y - x) end)
-- a and b, factors of a product that is added to x, in the dtype of x if that is a wider float, so
-- that the product is not rounded before the sum.
local function as_wide(x, a, b)
  local function lift(v)
    if not is_tensor(v) or not is_float(x) or v.dtype == x.dtype then return v end
    return dtypes.float_of(x, v) == x.dtype and v:to(x.dtype) or v
  end
  return lift(a), lift(b)
end
--- x + value tensor1 tensor2.
def("addcmul_?(x: T, tensor1: T|num, tensor2: T|num, value = 1) -> T", function(x, a, b, value)
  a, b = as_wide(x, a, b)
  return x + (value == 1 and a * b or a * b * value)
end)
--- x + value tensor1 / tensor2.
def("addcdiv_?(x: T, tensor1: T|num, tensor2: T|num, value = 1) -> T", function(x, a, b, value)
  a, b = as_wide(x, a, b)
  return x + (value == 1 and a / b or a / b * value)
end)
local half = dtypes.half
-- log(exp(x) + exp(y)) without overflow, for a pair of functions exp and log (base e or 2). If the
-- larger of x and y is infinite, it is the result.
local function log_of_sum(x, y, exp, log)
  local whole = flame.maximum(x, y)
  local top = whole:detach()
  local endless = top:isinf()
  top = where(endless, 0, top)
  if is_tensor(x) then x = where(endless, 0, x) end
  if is_tensor(y) then y = where(endless, 0, y) end
  return where(endless, whole, log(exp(x - top) + exp(y - top)) + top)
end
--- log(exp(x) + exp(y)) without overflow.
def("logaddexp_?(x: T|num, y: T|num) -> T", function(x, y)
  local like = is_tensor(x) and x or need_tensor("logaddexp", "y", y)
  local dtype = is_tensor(x) and is_tensor(y) and half[x.dtype] and x.dtype == y.dtype and x.dtype
    or not (is_tensor(x) and is_tensor(y)) and half[like.dtype] and like.dtype
  if dtype then x, y = is_tensor(x) and x:float() or x, is_tensor(y) and y:float() or y end
  local z = log_of_sum(x, y, flame.exp, flame.log)
  return dtype and z:to(dtype) or z
end)
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
--- sin(pi x) / (pi x), 1 at 0. Near 0 it is computed by the series, since derivatives of the
--- quotient lose all digits there.
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
--- Is the sign bit set? -0.0 has it.
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
--- Is x +Inf?
def("isposinf(x: T) -> T", function(x) return x:detach():eq(math.huge) end)
--- Is x -Inf?
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
binary("logaddexp2", function(x, y) return log_of_sum(x, y, flame.exp2, flame.log2) end)
--- y - alpha * x: sub with its operands exchanged.
def("rsub(x: T, y: T|num, alpha = 1) -> T",
  function(x, y, alpha) return y - (alpha == 1 and x or x * alpha) end)
--- x, at least min.
def("clamp_min_?(x: T, min: T|num) -> T", function(x, low) return x:clamp({ min = low }) end)
--- x, at most max.
def("clamp_max_?(x: T, max: T|num) -> T", function(x, high) return x:clamp({ max = high }) end)
--- A tensor like x with every element set to the value.
def("fill(x: T, value: num|bool) -> T", function(x, v) return flame.full_like(x, v) end)
