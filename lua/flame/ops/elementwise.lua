--- Elementwise functions that are composed of others, and what has not found its chapter.
local flame = require "flame"
local internal = flame.internal
local dtypes = require "flame.base.dtypes"
local recording = require "flame.base.recording"
local arguments = require "flame.base.arguments"
local fail, def, need_tensor, need_int = arguments.fail, arguments.def, arguments.need_tensor,
  arguments.need_int
local axis_of, is_tensor = arguments.axis_of, flame.is_tensor

local function is_float(x) return x:is_floating_point() end

-- ---- elementwise ---------------------------------------------------------------------------
local where = flame.where
local function unary(name, f) def(name .. "_?(x: T) -> T", f) end

--- x between low and high; the gradient is 0 at the bounds too, as PyTorch has it, and not at NaN.
local function inside(x, low, high)
  return is_float(x) and internal.piecewise("hardtanh", x, low, high) or x:clamp(low, high)
end
--- alpha * (exp(x / scale) - 1) below 0, x above; at 0 the slope is that of the first and the
--- second one 0, as in PyTorch.
local function bent(x, alpha, scale)
  local below = x:lt(0)
  local part = recording.tracked(x) and where(below, x, 0) or x           -- no slope times infinity
  local line = alpha == scale and x or where(x:gt(0), x, x * (alpha / scale))
  return where(below, (scale == 1 and part or part / scale):expm1() * alpha, line)
end

local function number_type(op, x)
  if x.dtype == "bool" then fail(op, "dtype bool is not supported, need a number type") end
  return x
end
--- x between 0 and 6.
unary("relu6", function(x) return inside(number_type("relu6", x), 0, 6) end)
--- x tanh(softplus(x)).
unary("mish", function(x) return x * x:softplus():tanh() end)
--- log(sigmoid(x)).
unary("logsigmoid", function(x) return -((-x):softplus()) end)
--- x / (1 + |x|).
unary("softsign", function(x) return x / (x:abs() + 1) end)
--- (x + 3) / 6 between 0 and 1.
unary("hardsigmoid", function(x)
  return is_float(x) and internal.piecewise("hardsigmoid", x) or (x + 3):clamp(0, 6) / 6
end)
--- x hardsigmoid(x).
unary("hardswish", function(x)
  return is_float(x) and internal.piecewise("hardswish", x) or x * (x + 3):clamp(0, 6) / 6
end)
--- Scaled elu with PyTorch's constants.
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
--- x between -1 and 1, or the bounds given.
def("hardtanh_?(x: T, min_val = -1, max_val = 1) -> T", function(x, low, high)
  return inside(number_type("hardtanh", x), low, high)
end)

--- The forms with parameters of functions that C has without: called from there.
function internal.softplus(x, beta, threshold)
  local z = x * beta
  return where(z:gt(threshold), x, where(z:gt(threshold), 0, z):softplus() / beta)
end
--- The positions where c holds, a tensor for each axis.
function internal.where(c) return c:nonzero():unbind(2) end
function internal.round(x, decimals)
  local scale = 10.0 ^ decimals
  return scale >= 1 and (x * scale):round() / scale or (x / (1 / scale)):round() * (1 / scale)
end
--- NaN as 0, infinities as the largest finite numbers, or what is given.
def("nan_to_num_?(x: T, nan = 0.0, posinf?: num, neginf?: num) -> T",
  function(x, nan, posinf, neginf)
    if not is_float(x) then return x:clone() end
    local largest = dtypes.largest[x.dtype]
    local y = where(x:isnan(), nan, x)
    y = where(x:eq(math.huge), posinf or largest, y)
    return where(x:eq(-math.huge), neginf or -largest, y)
  end)
--- x + w (y - x).
def("lerp_?(x: T, y: T|num, weight: T|num) -> T",
  function(x, y, weight) return x + weight * (y - x) end)
--- a and b as x is where that is the wider float: the product is not to be rounded before the sum.
local function as_wide(x, a, b)
  local function lift(v)
    if not is_tensor(v) or not is_float(x) or v.dtype == x.dtype then return v end
    return dtypes.float_of(x, v) == x.dtype and v:to(x.dtype) or v
  end
  return lift(a), lift(b)
end
--- x + value a b.
def("addcmul_?(x: T, tensor1: T|num, tensor2: T|num, value = 1) -> T", function(x, a, b, value)
  a, b = as_wide(x, a, b)
  return x + (value == 1 and a * b or a * b * value)
end)
--- x + value a / b.
def("addcdiv_?(x: T, tensor1: T|num, tensor2: T|num, value = 1) -> T", function(x, a, b, value)
  a, b = as_wide(x, a, b)
  return x + (value == 1 and a / b or a / b * value)
end)
local half = dtypes.half
--- log(exp(x) + exp(y)) without overflow, for a pair of inverse functions;
--- where the larger is infinite, it.
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

-- ---- shapes ------------------------------------------------------------------------------------
--- The axes of source moved to the places of destination: numbers, or lists of one length.
def("movedim(x: T, source: axes, destination: axes) -> T", function(x, a, b)
  a, b = type(a) == "table" and a or { a }, type(b) == "table" and b or { b }
  if #a ~= #b then fail("movedim", "%d axes and %d places", #a, #b) end
  local order, moved = {}, {}
  for i = 1, #a do
    local from, to = axis_of("movedim", x, a[i]), axis_of("movedim", x, b[i])
    if moved[from] or order[to] then
      fail("movedim", "axis %d is named twice", moved[from] and a[i] or b[i])
    end
    order[to], moved[from] = from, true
  end
  local rest = 1
  for d = 1, x.ndim do
    if not moved[d] then
      while order[rest] do rest = rest + 1 end
      order[rest] = d
    end
  end
  return x.ndim == 0 and x:reshape({}) or x:permute(order)
end)

--- Copies side by side along each axis.
def("tile(x: T, dims...: int) -> T", function(x, ...)
  local reps = { ... }
  local shape, n = x.shape, math.max(x.ndim, #reps)
  local apart, whole, joined = {}, {}, {}
  for d = 1, n do
    local size, times = rawget(shape, d - n + #shape) or 1, reps[d - n + #reps] or 1
    table.move({ 1, size }, 1, 2, #apart + 1, apart)
    table.move({ times, size }, 1, 2, #whole + 1, whole)
    joined[d] = times * size
  end
  if #apart <= 8 then return x:reshape(apart):expand(whole):reshape(joined):clone() end
  local y = x:reshape(table.move(shape, 1, #shape, n - #shape + 1, (function()
    local ones = {}
    for d = 1, n - #shape do ones[d] = 1 end
    return ones
  end)()))
  for d = 1, n do
    local copies = {}
    for k = 1, reps[d - n + #reps] or 1 do copies[k] = y end
    y = flame.cat(copies, d)
  end
  return y
end)
--- Positions of x, each as often as its count says; the counts are read here.
local function by_counts(x, counts, d)
  local at = {}
  if #counts ~= x.shape[d] then
    fail("repeat_interleave", "%d counts, axis %d has %d elements", #counts, d, x.shape[d])
  end
  for i, count in ipairs(counts) do
    if need_int("repeat_interleave", "count " .. i, count) < 0 then
      fail("repeat_interleave", "count %d is %d", i, count)
    end
    for _ = 1, count do at[#at + 1] = i end
  end
  return x:index_select(d, flame.tensor(at, { dtype = "i64", device = x.device }))
end
local function repeated(x, n, d)
  if is_tensor(n) and arguments.need_integers("repeat_interleave", "repeats", n):numel() == 1 then
    n = n:item()
  end
  if is_tensor(n) then return by_counts(x, n:detach():reshape(-1):totable(), d) end
  local wide, last = x:unsqueeze(d + 1).shape, x.shape
  wide[d + 1], last[d] = n, last[d] * n
  return x:unsqueeze(d + 1):expand(wide):reshape(last):clone()
end
--- Each element 'repeats' times behind itself, along an axis; without one of all elements in a row.
--- output_size is how many there have to be.
def("repeat_interleave(x: T, repeats: int|T, dim?: axis, *, output_size?: int) -> T",
  function(x, n, d, size)
    if d == nil then x, d = x:reshape(-1), 1 end
    d = axis_of("repeat_interleave", x, d)
    local y = repeated(x, n, d)
    if size and size ~= y.shape[d] then
      fail("repeat_interleave", "output_size is %d, the result has %d", size, y.shape[d])
    end
    return y
  end)
local function roll_one(x, n, d)
  d = axis_of("roll", x, d)
  local size = x.shape[d] or 0
  n = need_int("roll", "shifts", n)
  n = size > 0 and n % size or 0
  if n == 0 then return x:clone() end
  return flame.cat({ x:narrow(d, size - n + 1, n), x:narrow(d, 1, size - n) }, d)
end
--- Shifted by as many positions, around the end.
def("roll(x: T, shifts: int|int[], dims?: axes) -> T", function(x, n, d)
  if d == nil then
    if type(n) == "table" then fail("roll", "several shifts need as many dims") end
    return roll_one(x:reshape(-1), n, 1):reshape(x.shape):clone()
  end
  if type(n) ~= "table" and type(d) ~= "table" then return roll_one(x, n, d) end
  if type(n) ~= "table" or type(d) ~= "table" or #n ~= #d then
    fail("roll", "shifts and dims must be two numbers, or two tables of one length")
  end
  for i = 1, #n do x = roll_one(x, n[i], d[i]) end
  return #n == 0 and x:clone() or x
end)

--- All in their common shape.
def(".broadcast(tensors...: T) -> T[]", function(...)
  local list = { ... }
  local shape = arguments.broadcast_shape("broadcast", list)
  for i = 1, #list do list[i] = list[i]:expand(shape) end
  return list
end)
--- Coordinates of all points.
def('.meshgrid(tensors...: T, *, indexing: "ij"|"xy" = "ij") -> T[]', function(indexing, ...)
  local list, n, shape = { ... }, select("#", ...), {}
  for i = 1, n do shape[i] = list[i]:numel() end
  local out = {}
  for i = 1, n do
    local one = {}
    for d = 1, n do one[d] = d == i and shape[i] or 1 end
    out[i] = list[i]:reshape(one):expand(shape)
    if indexing == "xy" and n > 1 then out[i] = out[i]:transpose(1, 2) end
  end
  return out
end)

-- ---- reductions ----------------------------------------------------------------------
--- f(x) with gradient 0 where x is 0: for roots, whose slope is infinite there.
local function flat_at_0(x, f)
  if not x.requires_grad then return f(x) end
  local zero = x:eq(0)
  return where(zero, f(x:detach()), f(where(zero, 1, x)))
end
local function root(x) return flat_at_0(x, flame.sqrt) end

-- ---- random ------------------------------------------------------------------------------------
--- 1 with probability p, else 0.
def("bernoulli(p: T) -> T", function(p)
  if not is_float(p) then fail("bernoulli", "p is %s, need a float", p.dtype) end
  local ok = p:detach():ge(0):logical_and(p:detach():le(1)):all()
  if not ok:item() then fail("bernoulli", "p has values outside 0 to 1") end
  return flame.rand_like(p):lt(p):to(p.dtype)
end)
-- ---- products -----------------------------------------------------------------------------------
--- All products of two vectors.
def("outer(x: T, y: T) -> T", function(x, y)
  for name, v in pairs { x = x, y = y } do
    if v.ndim ~= 1 then
      fail("outer", "%s has shape (%s), need one axis", name, table.concat(v.shape, ", "))
    end
  end
  return x:reshape(-1, 1) * y:reshape(1, -1)
end)
local function add_product(x, a, b, beta, alpha)
  local y = a:matmul(b)
  if alpha ~= 1 then y = y * alpha end
  return beta == 0 and y or beta == 1 and x + y or x * beta + y
end
--- beta x + alpha a b.
def("addmm_?(x: T|num, mat1: T, mat2: T, *, beta = 1, alpha = 1) -> T @half", add_product)
--- beta x + alpha a b over batches.
def("baddbmm_?(x: T|num, batch1: T, batch2: T, *, beta = 1, alpha = 1) -> T @half", add_product)

return { flat_at_0 = flat_at_0, root = root, log_of_sum = log_of_sum }
