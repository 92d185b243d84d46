--- Fourier transforms. A complex tensor has a trailing axis of 2, real and imaginary part; 'dim'
-- counts the axes before it, so -1 is the last axis of numbers. fft, ifft and similar functions
-- take complex tensors; rfft takes a real tensor and gives a complex one, irfft the reverse. Sizes,
-- defaults and norm ("backward", "ortho", "forward") are those of torch.fft. f32 and f64; integers
-- and bool count as f32.
-- A transform is linear: its gradient is another one.
local flame = require "flame"
local internal = flame.internal
local arguments = require "flame.base.arguments"
local fail, need_int, def = arguments.fail, arguments.need_int, arguments.def

-- ---- arguments -------------------------------------------------------------------------------
local function shape_text(x) return "(" .. table.concat(x.shape, ", ") .. ")" end

-- x as floats, and its number of axes, without the one of real and imaginary part if 'complex'.
-- Raises for half types and other shapes.
local function need_signal(op, x, complex)
  if x.dtype == "f16" or x.dtype == "bf16" then fail(op, "x is %s, need f32 or f64", x.dtype) end
  if not x:is_floating_point() then x = x:float() end
  if complex and (x.ndim < 2 or x.shape[x.ndim] ~= 2) then
    fail(op,
      "x has shape %s, need complex numbers: at least two axes, the last with 2 elements, real and"
      .. " imaginary part\1 (real data: rfft, or stack with zeros)", shape_text(x))
  end
  if not complex and x.ndim < 1 then fail(op, "x is 0-d, need at least one axis") end
  return x, complex and x.ndim - 1 or x.ndim
end

local function axis_of(op, d, rank)
  d = need_int(op, "dim", d)
  if d == 0 or d > rank or d < -rank then
    fail(op, "dim %d is out of range, there %s %d %s of numbers", d,
      rank == 1 and "is" or "are", rank,
      rank == 1 and "axis" or "axes")
  end
  return d > 0 and d or d + rank + 1
end

-- what the op multiplies by: 0: 1, 1: 1 / n, 2: 1 / sqrt(n)
local forward_norms = { backward = 0, forward = 1, ortho = 2 }
local inverse_norms = { backward = 1, forward = 0, ortho = 2 }
local function norm_of(name, inverse) return (inverse and inverse_norms or forward_norms)[name] end

local function length_of(op, n, default)
  n = n or default
  if n < 1 then fail(op, "n = %d, need at least 1", n) end
  return n
end

-- ---- one axis ----------------------------------------------------------------------------------
-- A transform t: {op =, dim =, n =, size = the result's size along dim, mode = COMPLEX …, inverse =
-- 0 | 1, norm =, across = for a transform of two axes the size of the axis before dim}.
local COMPLEX, TO_HALF, FROM_HALF = 0, 1, 2

local function run(x, t)
  local shape, outer, inner = x.shape, 1, 1
  if t.mode ~= TO_HALF then table.remove(shape) end
  for d = 1, t.dim - (t.across and 2 or 1) do outer = outer * shape[d] end
  for d = t.dim + 1, #shape do inner = inner * shape[d] end
  local size = shape[t.dim]
  shape[t.dim] = t.size
  if t.mode ~= FROM_HALF then shape[#shape + 1] = 2 end
  return internal.call("fft", t.op, { x },
    { outer, size, inner, t.n, t.size, t.mode, t.inverse, t.norm, t.across or 0 }, shape, x.dtype)
end

-- x, the half spectrum of n values along axis d, times f except at frequencies 0 and n / 2.
local function weighted(x, d, n, f)
  local size, along = x.shape[d], {}
  local k = flame.arange(0, size - 1, { dtype = x.dtype, device = x.device })
  for i = 1, x.ndim do along[i] = i == d and size or 1 end
  return x * flame.where(k:eq(0):logical_or(k:eq(n / 2)), 1, f):to(x.dtype):reshape(along)
end

local transform
-- Applies the adjoint of the transform t to g; size: of t's input along its axis.
local function adjoint(g, t, size)
  local back = { op = t.op, dim = t.dim, n = t.n, size = size, mode = COMPLEX,
    inverse = 1 - t.inverse, norm = t.norm, across = t.across }
  if t.mode == COMPLEX then return transform(g, back) end
  back.mode = t.mode == TO_HALF and FROM_HALF or TO_HALF
  if t.mode == TO_HALF then return transform(weighted(g, t.dim, t.n, 0.5), back) end
  return weighted(transform(g, back), t.dim, t.n, 2)
end

local linear                       -- made at the first use
function transform(x, t)
  if not x.requires_grad then return run(x, t) end
  linear = linear or flame.func {
    name = "fft",
    forward = function(ctx, y, how)
      ctx.how, ctx.size = how, y.shape[how.dim]
      return run(y, how)
    end,
    backward = function(ctx, g) return adjoint(g, ctx.how, ctx.size) end,
  }
  return linear(x, t)
end

local function along(op, x, n, d, norm, inverse)
  local y, rank = need_signal(op, x, true)
  d = axis_of(op, d, rank)
  n = length_of(op, n, y:size(d))
  return transform(y,
    { op = op, dim = d, n = n, size = n, mode = COMPLEX, inverse = inverse and 1 or 0,
    norm = norm_of(norm, inverse) })
end
local function to_half(op, x, n, d, norm)
  local y, rank = need_signal(op, x, false)
  d = axis_of(op, d, rank)
  n = length_of(op, n, y:size(d))
  return transform(y,
    { op = op, dim = d, n = n, size = n // 2 + 1, mode = TO_HALF, inverse = 0,
      norm = norm_of(norm) })
end
local function from_half(op, x, n, d, norm)
  local y, rank = need_signal(op, x, true)
  d = axis_of(op, d, rank)
  n = length_of(op, n, 2 * (y:size(d) - 1))
  return transform(y,
    { op = op, dim = d, n = n, size = n, mode = FROM_HALF, inverse = 1,
      norm = norm_of(norm, true) })
end

local NORM = ', norm: "backward"|"ortho"|"forward" = "backward") -> T @neutral'
local ONE = "(x: T, n?: int, dim: axis = -1" .. NORM
local SEVERAL = "(x: T, s?: int|int[], dim?: axes" .. NORM
--- Discrete Fourier transform of complex numbers along one axis, which is first cut, or filled with
--- zeros, to n elements.
def("fft" .. ONE, function(x, n, d, norm) return along("fft", x, n, d, norm, false) end)
--- The inverse of fft.
def("ifft" .. ONE, function(x, n, d, norm) return along("ifft", x, n, d, norm, true) end)
--- The first n // 2 + 1 complex elements of the transform of a real tensor.
def("rfft" .. ONE, function(x, n, d, norm) return to_half("rfft", x, n, d, norm) end)
--- The inverse of rfft: the real tensor of length n, by default 2 (m - 1) for m elements.
def("irfft" .. ONE, function(x, n, d, norm) return from_half("irfft", x, n, d, norm) end)

-- ---- several axes -------------------------------------------------------------------------------
--- The lengths to transform (false: a whole axis) and the axes, for torch's arguments s and dim:
--- without dim the last axes, as many as s has, or all axes.
local function several(op, s, dims, rank)
  if type(dims) == "number" then dims = { dims } end
  if type(s) == "number" then s = { s } end
  local axes, seen = {}, {}
  if dims then
    for i, d in ipairs(dims) do axes[i] = axis_of(op, d, rank) end
  else
    local n = s and #s or rank
    if n > rank then fail(op, "s has %d lengths, there are %d axes of numbers", n, rank) end
    for i = 1, n do axes[i] = rank - n + i end
  end
  if s and #s ~= #axes then fail(op, "s has %d lengths for %d axes", #s, #axes) end
  for _, d in ipairs(axes) do
    if seen[d] then fail(op, "dim names axis %d twice", d) end
    seen[d] = true
  end
  local lengths = {}
  for i = 1, #axes do lengths[i] = s and s[i] ~= -1 and s[i] or false end
  return lengths, axes
end

-- Transforms axes[first] … axes[last] one after the other, except that x's last two axes are one
-- transform if they follow each other in the list and have no lengths.
local function over(op, x, lengths, axes, first, last, norm, inverse)
  local i = first
  while i <= last do
    local rank, shape = x.ndim - 1, x.shape
    if i < last and axes[i] == rank - 1 and axes[i + 1] == rank and not lengths[i]
        and not lengths[i + 1]
      and shape[rank - 1] > 1 and shape[rank] > 0 then
      x = transform(x, { op = op, dim = rank, n = shape[rank], size = shape[rank], mode = COMPLEX,
        inverse = inverse and 1 or 0, norm = norm_of(norm, inverse), across = shape[rank - 1] })
      i = i + 2
    else
      x = along(op, x, lengths[i], axes[i], norm, inverse)
      i = i + 1
    end
  end
  return x
end

local kinds = {}
function kinds.fft(op, x, s, dims, norm)
  local y, rank = need_signal(op, x, true)
  local lengths, axes = several(op, s, dims, rank)
  return over(op, y, lengths, axes, 1, #axes, norm, false)
end
function kinds.ifft(op, x, s, dims, norm)
  local y, rank = need_signal(op, x, true)
  local lengths, axes = several(op, s, dims, rank)
  return over(op, y, lengths, axes, 1, #axes, norm, true)
end
function kinds.rfft(op, x, s, dims, norm)
  local y, rank = need_signal(op, x, false)
  local lengths, axes = several(op, s, dims, rank)
  local k = #axes
  if k == 0 then fail(op, "there must be at least one axis to transform") end
  return over(op, to_half(op, y, lengths[k], axes[k], norm), lengths, axes, 1, k - 1, norm, false)
end
function kinds.irfft(op, x, s, dims, norm)
  local y, rank = need_signal(op, x, true)
  local lengths, axes = several(op, s, dims, rank)
  local k = #axes
  if k == 0 then fail(op, "there must be at least one axis to transform") end
  return from_half(op, over(op, y, lengths, axes, 1, k - 1, norm, true), lengths[k], axes[k], norm)
end

local function over_all(name)
  def(name .. "n" .. SEVERAL,
    function(x, s, dim, norm) return kinds[name](name .. "n", x, s, dim, norm) end)
end
--- fft over the axes in dim; without dim, over the last ones, as many as s has, or over all.
over_all("fft")
--- ifft over the axes in dim; without dim, over the last ones, as many as s has, or over all.
over_all("ifft")
--- rfft along the last axis of dim, then fft along the others; without dim, of the last axes, as
--- many as s has, or of all.
over_all("rfft")
--- The inverse of rfftn.
over_all("irfft")
local function over_two(name)
  def(name .. "2" .. SEVERAL,
    function(x, s, dim, norm) return kinds[name](name .. "2", x, s, dim or { -2, -1 }, norm) end)
end
--- fft over the last two axes, or those in dim.
over_two("fft")
--- ifft over the last two axes, or those in dim.
over_two("ifft")
--- rfft along the last of two axes, then fft along the other.
over_two("rfft")
--- The inverse of rfft2.
over_two("irfft")

-- ---- order and frequencies ----------------------------------------------------------------------
--- Rolls x by half of each axis in dims (counted with the last one), in the direction 'sign'. nil:
--- all axes, without the last if it holds real and imaginary parts ('complex'; nil: if of size 2).
local function shifted(op, x, sign, dims, complex)
  if complex == nil then complex = x.ndim > 1 and x.shape[x.ndim] == 2 end
  local rank, amounts, axes = complex and not dims and x.ndim - 1 or x.ndim, {}, {}
  if type(dims) == "number" then dims = { dims } end
  if not dims then
    dims = {}
    for d = 1, rank do dims[d] = d end
  end
  for i, d in ipairs(dims) do
    axes[i] = axis_of(op, d, rank)
    local n = x.shape[axes[i]]
    amounts[i] = sign > 0 and n // 2 or -(n // 2)
  end
  return x:roll(amounts, axes)
end
--- Rolls x so that the zero frequency is in the middle, along all axes or those named. complex:
--- without dim the last axis, of real and imaginary part, stays; by default if it has 2 elements.
def("fftshift(x: T, dim?: axes, *, complex?: bool) -> T",
  function(x, dim, complex) return shifted("fftshift", x, 1, dim, complex) end)
--- The inverse of fftshift.
def("ifftshift(x: T, dim?: axes, *, complex?: bool) -> T",
  function(x, dim, complex) return shifted("ifftshift", x, -1, dim, complex) end)

local function frequencies(op, n, last, d, dtype, device)
  if n < 1 then fail(op, "n = %d, need at least 1", n) end
  local first = n // 2 - (1 - n % 2)                       -- the largest positive one
  local how = { dtype = dtype or flame.default_dtype(),
    device = device or flame.default_device() }
  local k = last and flame.arange(0, n // 2, how) or n == 1 and flame.zeros({ 1 }, how)
    or flame.cat({ flame.arange(0, first, how), flame.arange(-(n // 2), -1, how) })
  return k * (1 / (n * d))
end
--- Frequencies of the n elements of fft's result, for samples at distances d.
def(".fftfreq(n: int, d = 1.0, *, dtype?: dtype, device?: device) -> T",
  function(n, ...) return frequencies("fftfreq", n, false, ...) end)
--- Frequencies of the n // 2 + 1 elements of rfft's result, for n samples at distances d.
def(".rfftfreq(n: int, d = 1.0, *, dtype?: dtype, device?: device) -> T",
  function(n, ...) return frequencies("rfftfreq", n, true, ...) end)

-- ---- real and imaginary parts -------------------------------------------------------------------
--- Does x hold complex numbers? 'complex' says so; if it is nil, floats with a last axis of 2 after
--- another axis do.
local function holds_complex(op, x, complex)
  if complex == nil then
    complex = x:is_floating_point() and x.ndim > 1 and x.shape[x.ndim] == 2
  end
  if complex then need_signal(op, x, true) end
  return complex
end
-- The complex conjugate of x, whose last axis has real and imaginary part.
local function conjugate(x)
  if not x:is_floating_point() then x = x:float() end
  return x * flame.tensor({ 1, -1 }, { dtype = x.dtype, device = x.device })
end
--- Complex conjugates. Floats with a last axis of 2 after another axis count as complex, other
--- tensors as real, unless {complex = true | false} says otherwise; real numbers are unchanged.
def("conj(x: T, *, complex?: bool) -> T", function(x, complex)
  return holds_complex("conj", x, complex) and conjugate(x) or x:clone()
end)
--- As conj.
def("conj_physical(x: T, *, complex?: bool) -> T", function(x, complex)
  return holds_complex("conj_physical", x, complex) and conjugate(x) or x:clone()
end)
--- The real parts of complex numbers (see conj), without the last axis; of
--- real numbers their values.
def("real(x: T, *, complex?: bool) -> T", function(x, complex)
  return holds_complex("real", x, complex) and x:select(-1, 1):clone() or x:clone()
end)
--- The imaginary parts of complex numbers (see conj), without the last axis.
def("imag(x: T, *, complex?: bool) -> T", function(x, complex)
  if not holds_complex("imag", x, complex) then
    fail("imag", "x has shape %s and holds real numbers: complex ones have a last axis of 2",
      shape_text(x))
  end
  return x:select(-1, 2):clone()
end)
--- A copy of x; for PyTorch's scripts: flame never delays conjugation.
def("resolve_conj(x: T) -> T", function(x) return x:clone() end)
--- A copy of x; for PyTorch's scripts: flame never delays negation.
def("resolve_neg(x: T) -> T", function(x) return x:clone() end)

return { conjugate = conjugate, arguments = { one = ONE, several = SEVERAL } }
