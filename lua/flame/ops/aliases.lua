--- Names of PyTorch that few scripts look for: other forms of what there is, pooling of windows at
-- random places, histograms, random writes. Compositions, as ops/statistics.lua.
local flame = require "flame"
local internal = flame.internal
local methods = internal.methods
local func = require "flame.autograd.func"
local arguments = require "flame.base.arguments"
local resize = require "flame.ops.resize"
local fail, need_int, def, where = arguments.fail, arguments.need_int, arguments.def, flame.where

-- ---- other names --------------------------------------------------------------------------------
--- Another name of what there is; the in-place form too.
local function alias(name, of)
  flame[name] = flame[of]
  methods[name] = methods[of]
  if rawget(methods, of .. "_") ~= nil then methods[name .. "_"] = methods[of .. "_"] end
end
for name, of in pairs {
  absolute = "abs", negative = "neg", subtract = "sub", multiply = "mul", divide = "div",
  true_divide = "div", floor_divide = "floordiv", remainder = "mod", greater = "gt",
  greater_equal = "ge", less = "lt", less_equal = "le", not_equal = "ne", arccos = "acos",
  arcsin = "asin", arctan = "atan", arccosh = "acosh", arcsinh = "asinh", arctanh = "atanh",
  arctan2 = "atan2", fix = "trunc", expit = "sigmoid", sgn = "sign", swapaxes = "transpose",
  swapdims = "transpose", moveaxis = "movedim", concat = "cat", concatenate = "cat", vdot = "dot",
  ger = "outer", broadcast_tensors = "broadcast", clip = "clamp", trapz = "trapezoid",
} do alias(name, of) end
methods.tolist, methods.nelement, methods.ndimension = methods.totable, methods.numel, methods.dim

-- ---- other forms --------------------------------------------------------------------------------
for name, of in pairs { narrow_copy = "narrow", split_with_sizes = "split" } do
  flame[name], methods[name] = flame[of], methods[of]
end
flame.manual_seed, flame.scalar_tensor, flame.inference_mode = flame.seed,
  flame.tensor, flame.no_grad
flame.get_rng_state, flame.set_rng_state = flame.rng_state, flame.rng_state
flame.set_default_dtype, flame.get_default_dtype = flame.default_dtype, flame.default_dtype
flame.set_default_device, flame.get_default_device = flame.default_device, flame.default_device
flame.cuda.is_available, flame.cuda.device_count = flame.cuda.available, flame.cuda.count
-- PyTorch's words for dtypes, and its constants.
for name, dtype in pairs { float64 = "f64", double = "f64", float32 = "f32", float = "f32",
  float16 = "f16", half = "f16", bfloat16 = "bf16", int64 = "i64", long = "i64", int32 = "i32",
  int = "i32", int16 = "i16", short = "i16", int8 = "i8", uint8 = "u8",
  bool = "bool" } do flame[name] = dtype end
flame.pi, flame.e, flame.inf, flame.nan = math.pi, math.exp(1), math.huge, 0 / 0
--- A device as text: "cuda" and 1 give "cuda:1".
def(".device(name: str, ordinal?: int) -> str", function(name, ordinal)
  local text = ordinal and ("%s:%d"):format(name, ordinal) or name
  if text ~= "cpu" and text ~= "cuda" and not text:find("^cuda:%d+$") then
    fail("device", '"%s" is no device; there are "cpu", "cuda" and "cuda:0" to "cuda:15"', text)
  end
  return text
end)
--- Gradients recorded or not, as the condition says: as enable_grad or no_grad.
def(".set_grad_enabled(on: bool, ...) -> ...",
  function(on, ...) return (on and flame.enable_grad or flame.no_grad)(...) end)
--- The product of matrices in the cheapest order.
def(".chain_matmul(tensors...: T) -> T", function(...) return flame.linalg.multi_dot({ ... }) end)
--- A tensor of the values, or the tensor itself in the dtype and on the device given.
def(".as_tensor(x: T, *, dtype?: dtype, device?: device) -> T",
  function(x, dtype, device) return x:to(dtype or x.dtype, device or x.device) end,
  ".as_tensor(values: num|bool|table, *factory) -> T",
  function(values, dtype, device, requires_grad)
    return flame.tensor(values, { dtype = dtype, device = device, requires_grad = requires_grad })
  end)
flame.asarray = flame.as_tensor
--- Have both the same shape.
def("is_same_size(x: T, y: T) -> bool",
  function(x, y) return table.concat(x.shape, " ") == table.concat(y.shape, " ") end)
--- x in another dtype; without one, the name of x's.
def(":type(x: T, dtype?: dtype|device|T) -> T|str",
  function(x, dtype) return dtype and x:to(dtype) or x.dtype end)
--- x becomes f of each of its elements, in order: a Lua function of a number,
--- slow, for small tensors.
def(":apply_(x: T, f: fn) -> T", function(x, f)
  local values = x:reshape(-1):totable()
  for i, v in ipairs(values) do values[i] = f(v) end
  return x:copy_(flame.tensor(values, { dtype = x.dtype, device = x.device }):reshape(x.shape))
end)
--- The angle of a real number: pi below 0, else 0.
def("angle(x: T) -> T", function(x)
  x = x:is_floating_point() and x or x:float()
  return where(x:isnan(), x, x:lt(0):to(x.dtype) * math.pi)
end)
--- False: there are no complex dtypes.
def("is_complex(x: T) -> bool", function() return false end)
--- The dtype of a sum of the two.
def("result_type(x: T|num, y: T|num) -> dtype", function(x, y)
  if not flame.is_tensor(x) and not flame.is_tensor(y) then
    fail("result_type", "x or y must be a tensor, both are numbers")
  end
  local function none(v)
    if not flame.is_tensor(v) then return v end
    return flame.zeros({ 0 }, { dtype = v.dtype, device = v.device })
  end
  return (none(x) + none(y)).dtype
end)
--- May the one dtype be stored in the other, as torch.can_cast has it: floats
--- not in integers, numbers not in bool.
def(".can_cast(from: dtype, to: dtype) -> bool", function(from, to)
  local function kind(dtype)
    local x = flame.zeros({ 0 }, { dtype = dtype })
    return dtype == "bool" and 0 or x:is_floating_point() and 2 or 1
  end
  return kind(from) <= kind(to)
end)
--- The last two axes exchanged: of real numbers the adjoint.
def("adjoint(x: T) -> T", function(x) return flame.linalg.matrix_transpose(x) end)
--- pad with a constant; pad holds before and after, from the last axis backwards.
def("constant_pad_nd(x: T, pad: int[], value = 0) -> T",
  function(x, amounts, value) return flame.pad(x, amounts, { value = value }) end)
--- interpolate under its older name.
def("upsample" .. resize.arguments, flame.interpolate)
local function upsampling(name, mode, align)
  def(name .. "(x: T, size?: int|int[], scale_factor?: num|num[]) -> T",
    function(x, size, factor)
      return flame.interpolate(x,
        { size = size, scale_factor = factor, mode = mode, align_corners = align })
    end)
end
--- interpolate, nearest.
upsampling("upsample_nearest", "nearest")
--- interpolate, bilinear with aligned corners; of four axes.
upsampling("upsample_bilinear", "bilinear", true)

--- True everywhere: there are no complex dtypes.
def("isreal(x: T) -> T", function(x) return flame.ones_like(x, { dtype = "bool" }) end)
--- Is the one element of x not 0.
def("is_nonzero(x: T) -> bool", function(x)
  local v = x:item()
  return v ~= 0 and v ~= false
end)
--- Can the dtype hold negative numbers.
def("is_signed(x: T) -> bool",
  function(x) return x.dtype ~= "u8" and x.dtype ~= "bool" end)
--- Bytes of one element.
def(":element_size(x: T) -> int",
  function(x) return flame.zeros({ 1 }, { dtype = x.dtype, device = "cpu" }):nbytes() end)
--- The shape that shapes (lists, or numbers) have together.
def(".broadcast_shapes(...) -> int[]", function(...)
  local op, out, shapes = "broadcast_shapes", {}, table.pack(...)
  for i = 1, shapes.n do
    local shape = shapes[i]
    shape = arguments.need_shape(op,
      type(shape) == "table" and shape or { need_int(op, "size", shape) })
    for k = 1, math.max(#out, #shape) do                       -- from the last axis backwards
      local a, b = out[k] or 1, rawget(shape, #shape - k + 1) or 1
      if a ~= b and a ~= 1 and b ~= 1 then fail(op, "sizes %d and %d do not broadcast", a, b) end
      out[k] = a == 1 and b or a
    end
  end
  for k = 1, #out // 2 do out[k], out[#out - k + 1] = out[#out - k + 1], out[k] end
  return out
end)
--- The dtype of a sum of these two dtypes.
def(".promote_types(a: dtype, b: dtype) -> dtype", function(a, b)
  local function one(dtype) return flame.zeros({}, { dtype = dtype, device = "cpu" }) end
  return (one(a) + one(b)).dtype
end)

--- Positions in a tensor of this shape, a tensor an axis, of positions counted over all elements.
def(".unravel_index(idx: T, shape: int[]) -> T[]", function(idx, shape)
  local volume = 1
  for d = 1, #shape do volume = volume * shape[d] end
  internal.naming("unravel_index")
  local out, rest = {}, internal.positions(idx, volume) - 1
  for d = #shape, 1, -1 do
    out[d] = rest % shape[d] + 1
    rest = rest:floordiv(shape[d])
  end
  return out
end)

-- ---- dropout of channels ------------------------------------------------------------------------
--- One draw a channel: axis 2, or axis 1 where there is no batch.
local function channels_of(x, single)
  local shape = x.shape
  for d = 1, #shape do if d > 2 or single and d > 1 then shape[d] = 1 end end
  return shape
end
for n = 1, 3 do
  local name = ("dropout%dd"):format(n)
  --- Whole channels are 0 with probability p, the rest scaled by 1 / (1 - p).
  def(name .. "(x: T, p = 0.5, training = true) -> T", function(x, p, training)
    if x.ndim < 2 then fail(name, "x has %d axes, need channels on axis 2", x.ndim) end
    if not training then return x:clone() end
    return x * flame.ones(channels_of(x, n ~= 2 and x.ndim == n + 1),
      { dtype = x.dtype, device = x.device }):dropout(p)
  end)
end
-- SELU's value far below 0 stands for what is dropped; scale and shift keep mean and variance.
local function alpha_dropout(name, shape_of)
  def(name .. "(x: T, p = 0.5, training = false) -> T", function(x, p, training)
    local low = -1.7580993408473766
    if not (p >= 0 and p <= 1) then fail(name, "p = %g, need 0 to 1", p) end
    if not training or p == 0 then return x:clone() end
    if p == 1 then return x * 0 end
    local a = ((1 - p) * (1 + p * low * low)) ^ -0.5
    return where(flame.rand(shape_of(x), { device = x.device }):ge(p), x, low) * a - a * low * p
  end)
end
--- Dropout that keeps mean and variance of what SELU gives; o: {p = 0.5, training = false}.
alpha_dropout("alpha_dropout", function(x) return x.shape end)
--- alpha_dropout of whole channels.
alpha_dropout("feature_alpha_dropout", channels_of)

-- ---- windows at random places -------------------------------------------------------------------
--- First positions, from 0, of 'count' windows: u (n, c, 1) moves them, the
--- last ends with the axis.
local function places(u, size, count, kernel)
  local last = flame.full({ 1, 1, 1 }, size - kernel, { dtype = "i64", device = u.device })
    :expand(u.shape)
  if count == 1 then return last end
  local alpha = (size - kernel) / (count - 1)
  local i = flame.arange(0, count - 2, { dtype = u.dtype, device = u.device })
  return flame.cat({ ((i + u) * alpha):long() - (u * alpha):long(), last }, 3)
end
--- Sizes of the windows and of the result.
local function fractional_sizes(op, x, n, kernel, output_size, ratio)
  local function each(v, i) if type(v) == "table" then return v[#v == 1 and 1 or i] end return v end
  local k, out = {}, {}
  for i = 1, n do
    local size = x.shape[x.ndim - n + i]
    k[i] = math.tointeger(each(kernel, i))
    if output_size then out[i] = math.tointeger(each(output_size, i))
    elseif ratio then out[i] = math.floor(size * (each(ratio, i) or 0))
    else fail(op, "output_size or output_ratio is missing") end
    if k[i] < 1 or out[i] < 1 or out[i] + k[i] - 1 > size then
      fail(op, "%d windows of %d do not fit %d elements", out[i], k[i], size)
    end
  end
  return k, out
end
--- Positions, from 0, in the planes of v: the windows' axes, then those within a window.
local function windows_at(v, n, u, k, out)
  local at
  for i = 1, n do                                       -- torch's 2-d draw stands in the order w, h
    local size = v.shape[i + 2]
    local first = places(u:narrow(3, n == 2 and 3 - i or i, 1), size, out[i], k[i])
    local shape, steps = { v.shape[1], v.shape[2] }, {}
    for j = 1, n do shape[2 + j], shape[2 + n + j], steps[j] = 1, 1, 1 end
    shape[2 + i], steps[i] = out[i], k[i]
    local step = flame.arange(0, k[i] - 1, { dtype = "i64", device = v.device }):reshape(steps)
    local here = first:reshape(shape) + step
    at = at and at * size + here or here
  end
  return at
end
for n = 2, 3 do
  local op = ("fractional_max_pool%dd"):format(n)
  --- Largest of windows of kernel_size at places drawn at random (Graham
  --- 2014), as many as output_size asks for, or as output_ratio of the elements.
  def(op .. ([[(x: T, kernel_size: dims(%d), output_size?: dims(%d), output_ratio?: num|num[],
      return_indices = false, _random_samples?: T) -> T, positions: T if return_indices]]):format(n,
    n), function(x, kernel, output_size, ratio, return_indices, samples)
    if x.ndim ~= n + 1 and x.ndim ~= n + 2 then
      fail(op, "x has %d axes, need %d, or %d without a batch", x.ndim, n + 2, n + 1)
    end
    local single = x.ndim == n + 1
    local v = single and x:unsqueeze(1) or x
    local k, out = fractional_sizes(op, v, n, kernel, output_size, ratio)
    local b, c = v.shape[1], v.shape[2]
    local u = samples or flame.rand({ b, c, n }, { device = x.device })
    local at = windows_at(v, n, u, k, out):flatten(n + 3) + 1
    local y, which = v:flatten(3):gather(3, at:flatten(3)):reshape(at.shape):max(-1)
    y = single and y:squeeze(1):clone() or y
    if not return_indices then return y end
    local idx = at:gather(-1, which:unsqueeze(-1)):squeeze(-1)
    return y, (single and idx:squeeze(1) or idx):clone()
  end)
end

-- ---- counts and segments ------------------------------------------------------------------------
--- The edges of the bins for the values of 'flat': as given, or so many equal ones in the range.
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
--- The bin of each value, 1 to n, and whether it lies in one.
local function bins_of(flat, edges)
  local n = edges:numel() - 1
  local bin = where(flat:eq(edges[-1]), n, flame.searchsorted(edges, flat, { right = true }) - 1)
  return bin:clamp(1, n), bin:ge(1):logical_and(bin:le(n)):logical_and(flat:isnan():logical_not())
end
--- A weight for each of the values, which are x's but for its last 'axes'.
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
--- Sums of the weights (1) in bins, and the edges of the bins: as many equal ones as 'bins' between
--- the extremes of x or range = {low, high}, or those between the edges in a tensor. The last bin
--- has both its edges.
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
--- The same of points, rows of x (…, n): sums in n-dimensional bins, and a list of n tensors of
--- edges. bins: a number, or a list of numbers or edges; range: the bounds of each axis in turn.
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
--- Sums, means, products, largest or smallest of runs of x along axis 1: 'lengths' of the runs, or
--- the offsets where each begins and the last ends.
def([[segment_reduce(x: T, reduce: "sum"|"mean"|"prod"|"max"|"min", *, lengths?: T, offsets?: T,
    axis: axis = 1, unsafe = false, initial?: num) -> T]],
function(x, reduce, lengths, offsets, axis, _, initial)
  local op = "segment_reduce"
  if offsets then lengths = offsets:diff() end
  if axis ~= 1 then fail(op, "axis = %d, only axis 1 is supported", axis) end
  if not lengths then fail(op, "lengths or offsets must be given") end
  local n = arguments.need_integers(op, "lengths", lengths):numel()
  if lengths:sum():item() ~= x.shape[1] then
    fail(op, "lengths add up to %d, x has %d rows", lengths:sum():item(), x.shape[1])
  end
  local start = ({ sum = 0, mean = 0, prod = 1, max = -math.huge, min = math.huge })[reduce]
  local shape, wide = x.shape, { x.shape[1] }
  shape[1] = n
  for k = 2, x.ndim do wide[k] = 1 end
  local at = flame.arange(1, n, { dtype = "i64", device = x.device }):repeat_interleave(lengths)
    :reshape(wide):expand(x.shape)
  local base = flame.full(shape, initial or start, { dtype = x.dtype, device = x.device })
  local how = ({ max = "amax", min = "amin" })[reduce] or reduce
  if reduce ~= "mean" then return flame.scatter_reduce(base, 1, at, x, how) end
  wide[1] = n
  local count = lengths:clamp(initial and 1 or 0)            -- an empty run keeps its initial value
  return flame.scatter_reduce(base, 1, at, x, "sum") / count:to(x.dtype):reshape(wide)
end)

-- ---- random writes ------------------------------------------------------------------------------
--- Uniform numbers above 0 and below 1 for each element of x, in f64.
local function open_uniform(x)
  return flame.uniform(x.shape, 2.0 ^ -54, 1, { dtype = "f64", device = x.device })
end
local function random_write(name, parameters, f)
  def((":%s(x: T, %s) -> T"):format(name, parameters), function(x, ...)
    if not x:is_floating_point() then fail(name, "x is %s, need a float", x.dtype) end
    return x:copy_(f(open_uniform(x), ...):to(x.dtype))
  end)
end
--- x becomes Cauchy's numbers around the median, as wide as sigma.
random_write("cauchy_", "median = 0, sigma = 1", function(u, median, sigma)
  if not (sigma > 0) then fail("cauchy_", "sigma = %g, need sigma > 0", sigma) end
  return ((u - 0.5) * math.pi):tan() * sigma + median
end)
--- x becomes e to the power of normal numbers of this mean and deviation.
random_write("log_normal_", "mean = 1, std = 2", function(u, mean, std)
  if not (std > 0) then fail("log_normal_", "std = %g, need std > 0", std) end
  return ((u * 2 - 1):erfinv() * (std * math.sqrt(2)) + mean):exp()
end)
--- x becomes numbers of trials until one of chance p is met.
random_write("geometric_", "p = 0.5", function(u, p)
  if not (p > 0 and p < 1) then fail("geometric_", "p = %g, need 0 < p < 1", p) end
  return (u:log() / math.log(1 - p)):ceil():clamp({ min = 1 })
end)
