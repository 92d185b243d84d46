--- PyTorch's names for functions that have another name or other arguments in flame.
local flame = require "flame"
local internal = flame.internal
local methods = internal.methods
local arguments = require "flame.base.arguments"
require "flame.linalg.product"                      -- these have other names here
require "flame.ops.shape"
require "flame.ops.statistics"
local fail, need_int, def, where = arguments.fail, arguments.need_int, arguments.def, flame.where

-- ---- other names --------------------------------------------------------------------------------
--- Defines another name of a function, and of its in-place form.
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
flame.set_default_dtype, flame.set_default_device = flame.default_dtype, flame.default_device
flame.cuda.is_available, flame.cuda.device_count = flame.cuda.available, flame.cuda.count
-- PyTorch's words for dtypes, and its constants.
for name, dtype in pairs { float64 = "f64", double = "f64", float32 = "f32", float = "f32",
  float16 = "f16", half = "f16", bfloat16 = "bf16", int64 = "i64", long = "i64", int32 = "i32",
  int = "i32", int16 = "i16", short = "i16", int8 = "i8", uint8 = "u8",
  bool = "bool" } do flame[name] = dtype end
flame.pi, flame.e, flame.inf, flame.nan = math.pi, math.exp(1), math.huge, 0 / 0
--- The same as default_dtype without an argument.
def(".get_default_dtype() -> dtype", function() return flame.default_dtype() end)
--- The same as default_device without an argument.
def(".get_default_device() -> str", function() return flame.default_device() end)
--- A device as text: "cuda" and 1 give "cuda:1".
def(".device(name: str, ordinal?: int) -> str", function(name, ordinal)
  local text = ordinal and ("%s:%d"):format(name, ordinal) or name
  if text ~= "cpu" and text ~= "cuda" and not text:find("^cuda:%d+$") then
    fail("device", '"%s" is no device; there are "cpu", "cuda" and "cuda:0" to "cuda:15"', text)
  end
  return text
end)
--- flame.enable_grad(…) if 'on' is true, else flame.no_grad(…).
def(".set_grad_enabled(on: bool, ...) -> ...",
  function(on, ...) return (on and flame.enable_grad or flame.no_grad)(...) end)
--- The product of matrices in the cheapest order.
def(".chain_matmul(tensors...: T) -> T", function(...) return flame.linalg.multi_dot({ ... }) end)
--- The values as a tensor, or the tensor x converted to the given dtype and device.
def(".as_tensor(x: T, *, dtype?: dtype, device?: device) -> T",
  function(x, dtype, device) return x:to(dtype or x.dtype, device or x.device) end,
  ".as_tensor(values: num|bool|table, *factory) -> T",
  function(values, dtype, device, requires_grad)
    return flame.tensor(values, { dtype = dtype, device = device, requires_grad = requires_grad })
  end)
flame.asarray = flame.as_tensor
--- Do both have the same shape?
def("is_same_size(x: T, y: T) -> bool",
  function(x, y) return table.concat(x.shape, " ") == table.concat(y.shape, " ") end)
--- x in another dtype; without an argument, the name of x's dtype.
def(":type(x: T, dtype?: dtype|device|T) -> T|str",
  function(x, dtype) return dtype and x:to(dtype) or x.dtype end)
--- Replaces each element of x by f(element), in order. f is a Lua function of a number: slow, for
--- small tensors.
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
--- May values of the first dtype be cast to the second, as for torch.can_cast? Not floats to
--- integers, and not numbers to bool.
def(".can_cast(from: dtype, to: dtype) -> bool", function(from, to)
  local function kind(dtype)
    local x = flame.zeros({ 0 }, { dtype = dtype })
    return dtype == "bool" and 0 or x:is_floating_point() and 2 or 1
  end
  return kind(from) <= kind(to)
end)
--- x with the last two axes exchanged, which for real numbers is the adjoint.
def("adjoint(x: T) -> T", function(x) return flame.linalg.matrix_transpose(x) end)
--- flame.pad with a constant; pad: {before, after, …}, from the last axis backwards.
def("constant_pad_nd(x: T, pad: int[], value = 0) -> T",
  function(x, amounts, value) return flame.pad(x, amounts, { value = value }) end)
--- True everywhere: there are no complex dtypes.
def("isreal(x: T) -> T", function(x) return flame.ones_like(x, { dtype = "bool" }) end)
--- Is the only element of x not 0?
def("is_nonzero(x: T) -> bool", function(x)
  local v = x:item()
  return v ~= 0 and v ~= false
end)
--- Can the dtype of x hold negative numbers?
def("is_signed(x: T) -> bool",
  function(x) return x.dtype ~= "u8" and x.dtype ~= "bool" end)
--- Bytes of one element.
def(":element_size(x: T) -> int",
  function(x) return flame.zeros({ 1 }, { dtype = x.dtype, device = "cpu" }):nbytes() end)
--- The shape to which the shapes (lists, or numbers) broadcast.
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

--- Positions along each axis of a tensor of this shape, one tensor per axis, from positions counted
--- over all elements.
def(".unravel_index(idx: T, shape: int[]) -> T[]", function(idx, shape)
  local volume, count = 1, 1.0
  for _, n in ipairs(arguments.need_shape("unravel_index", shape)) do
    volume, count = volume * n, count * n
    if count > 2 ^ 62 then
      fail("unravel_index", "shape (%s) has more elements than can be counted",
        table.concat(shape, ", "))
    end
  end
  internal.naming("unravel_index")
  local out, rest = {}, internal.positions(idx, volume) - 1
  for d = #shape, 1, -1 do
    out[d] = rest % shape[d] + 1
    rest = rest:floordiv(shape[d])
  end
  return out
end)
