--- Norms and condition numbers: compositions of other ops, so gradients need no rules. Names that
--- torch has only in torch.linalg are only in flame.linalg.
local flame = require "flame"
local arguments = require "flame.base.arguments"
local solve = require "flame.linalg.solve"
local spectrum = require "flame.linalg.spectrum"
local reductions = require "flame.ops.reduce"
local fail, need_tensor = arguments.fail, arguments.need_tensor
local def, axis_of = arguments.def, arguments.axis_of
local part = solve
local shape_text = part.shape_text

local function need_float(op, x)
  need_tensor(op, "x", x)
  if not x:is_floating_point() then fail(op, "x is %s, need a float", x.dtype) end
  return x
end

-- ---- norms -----------------------------------------------------------------------------------
local root, flat_at_0 = reductions.root, reductions.flat_at_0

--- The p-norm of x over the axes d (a number or a list; nil: all). Its gradient at 0 is 0, as in
--- PyTorch. Half types are computed in f32, since powers of elements overflow a half type long
--- before the norm does.
local vector_norm_of
function vector_norm_of(x, p, d, keepdim)
  need_float("norm", x)
  if x.dtype == "f16" or x.dtype == "bf16" then
    return vector_norm_of(x:float(), p, d, keepdim):to(x.dtype)
  end
  local k = keepdim and { keepdim = true } or nil
  local function reduce(y, name) return y[name](y, d, k) end
  if p == 2 then return root(reduce(x * x, "sum")) end
  if p == 1 then return reduce(x:abs(), "sum") end
  if p == math.huge then return reduce(x:abs(), "amax") end
  if p == -math.huge then return reduce(x:abs(), "amin") end
  if p == 0 then return reduce(x:ne(0):to(x.dtype), "sum") end
  local function power(a) return a ^ p end
  local a = x:abs()
  if p < 0 then                              -- 0 where there is a 0, and flat
    local zero = a:eq(0)
    return flame.where(reduce(zero, "any"), 0,
      reduce(power(flame.where(zero, 1, a)), "sum") ^ (1 / p))
  end
  return flat_at_0(reduce(p < 1 and flat_at_0(a, power) or power(a), "sum"),
    function(v) return v ^ (1 / p) end)
end

--- The norm of x as a vector over axes d, a number or a list; nil or false: all axes.
local function vector_norm(op, x, ord, d, keepdim)
  if x.ndim == 0 then x, d, keepdim = x:reshape(1), nil, false end
  local given, axes = type(d) == "number" and { d } or d or {}, {}
  for i, k in ipairs(given) do axes[i] = axis_of(op, x, k) end
  if #axes == 0 then for k = 1, x.ndim do axes[k] = k end end
  local elements = 1
  for _, k in ipairs(axes) do elements = elements * x.shape[k] end
  if elements == 0 and x:numel() == 0 and (ord < 0 or ord == math.huge) then
    fail(op, "ord = %g has no value for axes without elements, x has shape %s", ord, shape_text(x))
  end
  return vector_norm_of(x, ord, axes, keepdim)
end

--- The norm of the elements of the axes dim as one vector; x is cast to the dtype first.
def([[linalg.vector_norm(x: T, ord: num = 2, dim?: axes, keepdim = false, *,
    dtype?: dtype) -> T]], function(x, ord, dim, keepdim, dtype)
  need_float("vector_norm", x)
  return vector_norm("vector_norm", dtype and x:to(dtype) or x, ord, dim, keepdim)
end)

local function two_axes(op, x, d)
  if x.ndim < 2 then fail(op, "x has shape %s, need a matrix (two axes or more)", shape_text(x)) end
  if type(d) ~= "table" or #d ~= 2 then fail(op, "dim must be a list of two axes") end
  local a, b = axis_of(op, x, d[1]), axis_of(op, x, d[2])
  if a == b then fail(op, "dim names axis %d twice", a) end
  return a, b
end

--- x with axes a and b moved to the end, a before b: matrix_norm reduces the
--- last two axes.
local function brought_last(x, a, b)
  local order = {}
  for k = 1, x.ndim do if k ~= a and k ~= b then order[#order + 1] = k end end
  order[#order + 1], order[#order + 2] = a, b
  return x:permute(order)
end

local function matrix_norm(op, x, ord, d, keepdim)
  local a, b = two_axes(op, x, d)
  local shape = x.shape
  shape[a], shape[b] = 1, 1
  local y = brought_last(x, a, b)
  local function sums(axis) return y:abs():sum(axis) end
  local m, n = y.shape[y.ndim - 1], y.shape[y.ndim]
  local left = math.abs(tonumber(ord) or 0)                       -- 1: of columns; inf: of rows
  if (left == 1 and n or left == math.huge and m or left == 2 and m * n) == 0 then
    fail(op, "ord = %s has no value for a matrix without elements, x has shape %s", tostring(ord),
      shape_text(x))
  end
  if ord == "fro" then y = vector_norm_of(y, 2, { -2, -1 })
  elseif ord == "nuc" then y = spectrum.svdvals(y, op):sum(-1)
  elseif ord == 2 then y = spectrum.svdvals(y, op):amax(-1)
  elseif ord == -2 then y = spectrum.svdvals(y, op):amin(-1)
  elseif ord == 1 then y = sums(-2):amax(-1)
  elseif ord == -1 then y = sums(-2):amin(-1)
  elseif ord == math.huge then y = sums(-1):amax(-1)
  elseif ord == -math.huge then y = sums(-1):amin(-1)
  else fail(op, 'ord must be "fro", "nuc", 1, 2, inf or their negatives, got %s', tostring(ord)) end
  return keepdim and y:reshape(shape):clone() or y
end

--- Norms of matrices in two axes, dim ({-2, -1}); ord is "fro", "nuc", 1, 2, inf, -1, -2 or
-- -inf.
def([[linalg.matrix_norm(x: T, ord: num|"fro"|"nuc" = "fro", dim?: axis[], keepdim = false, *,
    dtype?: dtype) -> T]], function(x, ord, dim, keepdim, dtype)
  need_float("matrix_norm", x)
  return matrix_norm("matrix_norm", dtype and x:to(dtype) or x, ord, dim or { -2, -1 }, keepdim)
end)

--- A matrix norm if ord is a word, or a number with two axes in dim or, without dim, for a matrix;
--- else the norm ord (default: 2) of the elements of the axes dim (default: all) as one vector.
def([[linalg.norm(x: T, ord?: num|"fro"|"nuc", dim?: axes, keepdim = false, *,
    dtype?: dtype) -> T @single]], function(x, ord, dim, keepdim, dtype)
  need_float("norm", x)
  if dtype then x = x:to(dtype) end
  local d = type(dim) == "number" and { dim } or dim
  if ord and (d and #d == 2 or not d and x.ndim == 2 or type(ord) == "string") then
    return matrix_norm("norm", x, ord, d or { -2, -1 }, keepdim)
  end
  if ord and not d and (x.ndim > 2 or x.ndim == 0) then
    fail("norm", "ord needs dim: x has %d axes", x.ndim)
  end
  return vector_norm("norm", x, ord or 2, d, keepdim)
end)

--- The p-norm of the elements over axes dim (all) as one vector; also "fro" (p = 2) and "nuc".
def([[norm(x: T, p: num|"fro"|"nuc" = 2, dim?: axes, keepdim = false, *,
    dtype?: dtype) -> T @single]], function(x, p, d, keepdim, dtype)
  need_float("norm", x)
  if dtype then x = x:to(dtype) end
  if p == "fro" then return vector_norm("norm", x, 2, d, keepdim) end
  if p == "nuc" then return matrix_norm("norm", x, p, d or { -2, -1 }, keepdim) end
  return vector_norm_of(x, p, d, keepdim)
end)

--- Condition numbers in the norm p: 2 (default), -2, "fro", "nuc", ±1, ±inf. Singular: inf (-2: 0).
def('linalg.cond(x: T, p?: num|"fro"|"nuc") -> T @neutral', function(x, p)
  part.need_matrix("cond", "x", x)
  if p == nil or p == 2 or p == -2 then
    local s = spectrum.svdvals(x, "cond")
    if s.shape[s.ndim] == 0 then
      fail("cond", "x has shape %s, need matrices with elements", shape_text(x))
    end
    local high, low = s:amax(-1), s:amin(-1)
    return p == -2 and low / high or high / low
  end
  part.need_square("cond", "x", x)
  if x.shape[x.ndim] == 0 then return matrix_norm("cond", x, "fro", { -2, -1 }) end
  return matrix_norm("cond", x, p, { -2, -1 }) * matrix_norm("cond",
    solve.quiet_inverse(x, "cond"), p, { -2, -1 })
end)

return { need_float = need_float, vector_norm_of = vector_norm_of }
