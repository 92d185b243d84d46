--- Activation functions that are composed of others.
local flame = require "flame"
local internal = flame.internal
local arguments = require "flame.base.arguments"
local tracked = require("flame.base.recording").tracked
local fail, def = arguments.fail, arguments.def
local where = flame.where
local axis_of = arguments.axis_of

local function is_float(x) return x:is_floating_point() end
local function unary(name, f) def(name .. "_?(x: T) -> T", f) end

-- x limited to low … high. As in PyTorch a float's gradient is 0 at the bounds too, but 1 at NaN.
local function inside(x, low, high)
  return is_float(x) and internal.piecewise("hardtanh", x, low, high) or x:clamp(low, high)
end
-- alpha * (exp(x / scale) - 1) for x < 0, else x. At 0, as in PyTorch, the slope is alpha / scale,
-- and the second derivative is 0.
local function bent(x, alpha, scale)
  local below = x:lt(0)
  -- x > 0 is replaced, so that backward does not multiply 0 by an infinite exponential
  local part = tracked(x) and where(below, x, 0) or x
  local line = alpha == scale and x or where(x:gt(0), x, x * (alpha / scale))
  return where(below, (scale == 1 and part or part / scale):expm1() * alpha, line)
end

local function number_type(op, x)
  if x.dtype == "bool" then fail(op, "dtype bool is not supported, need a number type") end
  return x
end
--- x limited to 0 … 6.
unary("relu6", function(x) return inside(number_type("relu6", x), 0, 6) end)
--- x tanh(softplus(x)).
unary("mish", function(x) return x * x:softplus():tanh() end)
--- log(sigmoid(x)).
unary("logsigmoid", function(x) return -((-x):softplus()) end)
--- x / (1 + |x|).
unary("softsign", function(x) return x / (x:abs() + 1) end)
--- (x + 3) / 6 limited to 0 … 1.
unary("hardsigmoid", function(x)
  return is_float(x) and internal.piecewise("hardsigmoid", x) or (x + 3):clamp(0, 6) / 6
end)
--- x hardsigmoid(x).
unary("hardswish", function(x)
  return is_float(x) and internal.piecewise("hardswish", x) or x * (x + 3):clamp(0, 6) / 6
end)
--- 1.0507 elu(x, 1.6733): Klambauer et al. 2017.
unary("selu", function(x) return bent(x, 1.6732632423543772, 1) * 1.0507009873554805 end)

--- x above 0, else the slope (0.01) times x.
def("leaky_relu_?(x: T, negative_slope = 0.01) -> T", function(x, slope)
  if is_float(x) then return internal.piecewise("leaky_relu", x, slope) end
  return where(x:gt(0), x, x * slope)
end)
--- x above 0, else alpha (exp(x) - 1).
def("elu_?(x: T, alpha = 1) -> T", function(x, alpha) return bent(x, alpha, 1) end)
--- x above 0, else alpha (exp(x / alpha) - 1).
def("celu_?(x: T, alpha = 1) -> T", function(x, alpha)
  if alpha == 0 then fail("celu", "alpha is 0, need another number: x is divided by it") end
  return bent(x, alpha, alpha)
end)
--- x limited to min_val … max_val.
def("hardtanh_?(x: T, min_val = -1, max_val = 1) -> T", function(x, low, high)
  return inside(number_type("hardtanh", x), low, high)
end)
--- softplus(beta x) / beta, and x itself where beta x is above the threshold. Called from C.
function internal.softplus(x, beta, threshold)
  local z = x * beta
  return where(z:gt(threshold), x, where(z:gt(threshold), 0, z):softplus() / beta)
end
--- x where it is above the threshold, else 'value'.
def("threshold_?(x: T, threshold: T|num, value: T|num) -> T",
  function(x, threshold, value) return where(x:le(threshold), value, x) end)
--- 0 where |x| <= lambd.
def("hardshrink_?(x: T, lambd = 0.5) -> T",
  function(x, lambd) return where(x:abs():le(lambd), 0, x) end)
--- x moved towards 0 by lambd; 0 where |x| <= lambd.
def("softshrink_?(x: T, lambd = 0.5) -> T", function(x, l)
  if l < 0 then fail("softshrink", "lambd = %g is negative", l) end
  return where(x:gt(l), x - l, where(x:lt(-l), x + l, x * 0))
end)
--- x - tanh(x).
unary("tanhshrink", function(x) return x - x:tanh() end)
--- x where it is above 0, else weight x; weight has one element, or one per channel (axis 2).
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
--- The first half along dim times the sigmoid of the second.
def("glu(x: T, dim: axis = -1) -> T", function(x, d)
  d = axis_of("glu", x, d)
  local n = x.shape[d] or 1
  if n % 2 ~= 0 then fail("glu", "axis %d has %d elements, need an even number", d, n) end
  return x:narrow(d, 1, n // 2) * x:narrow(d, n // 2 + 1, n // 2):sigmoid()
end)
--- leaky_relu with a slope between lower and upper: random for each element when training, else the
--- middle.
def("rrelu_?(x: T, lower = 0.125, upper = 0.3333333333333333, training = false) -> T",
  function(x, lower, upper, training)
    if lower > upper then fail("rrelu", "lower = %g is above upper = %g", lower, upper) end
    local slope = training and flame.uniform(x.shape, lower, upper,
      { dtype = x.dtype, device = x.device }) or (lower + upper) / 2
    return where(x:le(0), x * slope, x)
  end)
-- 1 at the largest element along d, else 0.
local function one_hot_of(y, d)
  local at = y:detach():argmax(d, { keepdim = true })
  return flame.zeros_like(y:detach()):scatter(d, at,
    flame.ones(at.shape, { dtype = y.dtype, device = y.device }))
end
--- Softmax of (x + Gumbel noise) / tau. hard: a one-hot result with the gradient of the softmax.
def("gumbel_softmax(x: T, tau = 1, hard = false, dim: axis = -1) -> T", function(x, tau, hard, d)
  local noise = -(-(flame.rand_like(x:detach()):clamp({ min = 1e-38 })):log()):log()
  local y = ((x + noise) / tau):softmax(d)
  return hard and one_hot_of(y, d) - y:detach() + y or y
end)

--- x becomes x:gelu(…).
def(':gelu_(x: T, approximate: "none"|"tanh" = "none") -> T',
  function(x, approximate) return x:copy_(flame.gelu(x, approximate)) end)
--- x becomes x:silu().
def(":silu_(x: T) -> T", function(x) return x:copy_(flame.silu(x)) end)
