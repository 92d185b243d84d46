--- Norms, condition numbers, products of vectors and matrices, and forms with special entries:
-- compositions of other ops, so gradients come of themselves. The names that torch has in
-- torch.linalg alone are under flame.linalg alone.
local flame = require "flame"
local arguments = require "flame.base.arguments"
local solve = require "flame.linalg.solve"
local spectrum = require "flame.linalg.spectrum"
local elementwise = require "flame.ops.elementwise"
local fail, need_tensor, need_int = arguments.fail, arguments.need_tensor, arguments.need_int
local def, axis_of = arguments.def, arguments.axis_of
local part = solve
local linalg = flame.linalg
local shape_text, turned = part.shape_text, part.turned

local function need_float(op, x)
  need_tensor(op, "x", x)
  if not x:is_floating_point() then fail(op, "x is %s, need a float", x.dtype) end
  return x
end

-- ---- norms -----------------------------------------------------------------------------------
local root, flat_at_0 = elementwise.root, elementwise.flat_at_0

--- The p-norm of x over the axes d (a number or a list; nil: all). Its slope at 0 is 0, as in
--- PyTorch. Of half types in f32: the powers leave their range long before the norm does.
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

--- The norm of one or several axes; all of them where d is nil or false.
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

--- x with axes a and b last, the others in order; and how to put reduced axes back.
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
  local left = math.abs(tonumber(ord) or 0)                       -- what the largest of is taken
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

--- The norm of matrices, of the two axes dim, {-2, -1}: ord is "fro", "nuc", 1, 2, inf, -1, -2 or
-- -inf.
def([[linalg.matrix_norm(x: T, ord: num|"fro"|"nuc" = "fro", dim?: int[], keepdim = false, *,
    dtype?: dtype) -> T]], function(x, ord, dim, keepdim, dtype)
  need_float("matrix_norm", x)
  return matrix_norm("matrix_norm", dtype and x:to(dtype) or x, ord, dim or { -2, -1 }, keepdim)
end)

--- Without ord all elements as a vector; with two axes, or a matrix and an ord, the matrix norm.
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

--- The norm of the elements as a vector, over axes; p = 2, "fro" or "nuc" too.
def([[norm(x: T, p: num|"fro"|"nuc" = 2, dim?: axes, keepdim = false, *,
    dtype?: dtype) -> T @single]], function(x, p, d, keepdim, dtype)
  need_float("norm", x)
  if dtype then x = x:to(dtype) end
  if p == "fro" then return vector_norm("norm", x, 2, d, keepdim) end
  if p == "nuc" then return matrix_norm("norm", x, p, d or { -2, -1 }, keepdim) end
  return vector_norm_of(x, p, d, keepdim)
end)

--- Condition numbers: p = 2 (default), -2, "fro", "nuc", 1, -1, inf, -inf. Singular: inf.
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

-- ---- products -----------------------------------------------------------------------------------
--- Sum of a matrix' diagonal.
def("trace(x: T) -> T", function(x)
  if x.ndim ~= 2 then fail("trace", "x has shape %s, need a matrix (two axes)", shape_text(x)) end
  return x:diagonal():sum()
end)

--- Every element of x times the whole of y: (x1 y1, x2 y2, …).
def("kron(x: T, y: T) -> T @neutral", function(x, y)
  local n = math.max(x.ndim, y.ndim)
  if n > 4 then fail("kron", "x has %d axes and y %d, at most 4", x.ndim, y.ndim) end
  local a, b, out, s, t = {}, {}, {}, x.shape, y.shape
  for d = 1, n do
    local p, q = rawget(s, d - n + #s) or 1, rawget(t, d - n + #t) or 1
    a[2 * d - 1], a[2 * d], b[2 * d - 1], b[2 * d], out[d] = p, 1, 1, q, p * q
  end
  return (x:reshape(a) * y:reshape(b)):reshape(out):clone()
end)

local function cross_along(op, x, y, d)
  d = axis_of(op, x, d)
  local shape = arguments.broadcast_shape(op, { x, y })
  if x.shape[d] ~= 3 or #shape ~= x.ndim or shape[d] ~= 3 or y.ndim ~= x.ndim
      or y.shape[d] ~= 3 then
    fail(op, "x has shape %s, y %s: axis %d must have 3 elements in both", shape_text(x),
      shape_text(y), d)
  end
  local function at(v, i) return v:narrow(d, i, 1) end
  return flame.cat(
    { at(x, 2) * at(y, 3) - at(x, 3) * at(y, 2), at(x, 3) * at(y, 1) - at(x, 1) * at(y, 3),
    at(x, 1) * at(y, 2) - at(x, 2) * at(y, 1) }, d)
end
--- Vector product along an axis of size 3; without dim the first such axis, as torch.cross has it.
def("cross(x: T, y: T, dim?: axis) -> T", function(x, y, d)
  if d == nil then
    for k, size in ipairs(x.shape) do if size == 3 and not d then d = k end end
    if not d then fail("cross", "x has shape %s, no axis has 3 elements", shape_text(x)) end
  end
  return cross_along("cross", x, y, d)
end)
--- Vector product along an axis of size 3.
def("linalg.cross(x: T, y: T, dim: axis = -1) -> T",
  function(x, y, d) return cross_along("cross", x, y, d) end)
--- Sums of the products along an axis.
def("linalg.vecdot(x: T, y: T, dim: axis = -1) -> T",
  function(x, y, d) return (need_float("vecdot", x) * y):sum(d) end)

--- Distances of the rows of x (…, p, m) and y (…, r, m): (…, p, r). p = 2 by default.
def("cdist(x: T, y: T, p = 2, compute_mode?: str) -> T @single", function(x, y, p)
  local op = "cdist"
  need_float(op, x)
  if x.ndim < 2 or y.ndim < 2 then
    fail(op, "x has shape %s and y %s, need two axes or more", shape_text(x), shape_text(y))
  end
  local m = x.shape[x.ndim]
  if y.shape[y.ndim] ~= m then
    fail(op, "rows of x have %d elements, those of y %d", m, y.shape[y.ndim])
  end
  if not (p >= 0) then fail(op, "p = %s, need p >= 0", tostring(p)) end
  local d = x:unsqueeze(-2) - y:unsqueeze(-3)
  if m == 0 then return d:sum(-1) end
  return vector_norm_of(d, p, -1)
end)

--- Axes as PyTorch's dims: a number n (the last n of x, the first n of y) or two lists.
local function dot_axes(x, y, dims)
  local op, a, b = "tensordot", {}, {}
  if type(dims) == "number" then
    local n = need_int(op, "dims", dims)
    if n < 0 or n > x.ndim or n > y.ndim then
      fail(op, "dims = %d, x has %d axes and y %d", n, x.ndim, y.ndim)
    end
    for k = 1, n do a[k], b[k] = x.ndim - n + k, k end
    return a, b
  end
  if type(dims) ~= "table" or type(dims[1]) ~= "table" or type(dims[2]) ~= "table"
      or #dims[1] ~= #dims[2] then
    fail(op, "dims must be a number or two lists of as many axes")
  end
  for k = 1, #dims[1] do a[k], b[k] = axis_of(op, x, dims[1][k]), axis_of(op, y, dims[2][k]) end
  return a, b
end

--- Axes not in 'list', and the product of the sizes of those that are.
local function other_axes(x, list)
  local taken, rest, size = {}, {}, 1
  for _, k in ipairs(list) do
    if taken[k] then fail("tensordot", "axis %d is named twice", k) end
    taken[k] = true
    size = size * x.shape[k]
  end
  for k = 1, x.ndim do if not taken[k] then rest[#rest + 1] = k end end
  return rest, size
end

local function sizes_at(x, axes, out)
  for _, k in ipairs(axes) do out[#out + 1] = x.shape[k] end
  return out
end

--- Sum of products over pairs of axes; dims: a number (2) or {axes of x, axes of y}.
def("tensordot(x: T, y: T, dims: int|any[] = 2) -> T", function(x, y, dims)
  local a, b = dot_axes(x, y, dims)
  local xs, ys = x.shape, y.shape
  for k = 1, #a do
    local m, n = xs[a[k]], ys[b[k]]
    if m ~= n and m ~= 1 and n ~= 1 then
      fail("tensordot", "axis %d of x has %d elements, axis %d of y %d", a[k], m, b[k], n)
    end
    xs[a[k]], ys[b[k]] = m == 1 and n or m, n == 1 and m or n    -- one element goes with any number
  end
  x, y = x:expand(xs), y:expand(ys)
  local ra, size = other_axes(x, a)
  local rb = other_axes(y, b)
  local shape = sizes_at(y, rb, sizes_at(x, ra, {}))
  local rows, columns = 1, 1
  for _, k in ipairs(ra) do rows = rows * x.shape[k] end
  for _, k in ipairs(rb) do columns = columns * y.shape[k] end
  local left = x:permute(table.move(a, 1, #a, #ra + 1, table.move(ra, 1, #ra, 1, {})))
  local right = y:permute(table.move(rb, 1, #rb, #b + 1, table.move(b, 1, #b, 1, {})))
  return left:reshape(rows, size):matmul(right:reshape(size, columns)):reshape(shape):clone()
end)

--- Where to cut a chain of matrices with these sizes: as few multiplications as possible.
local function best_cuts(size)
  local n, cost, cut = #size - 1, {}, {}
  for i = 1, n do cost[i], cut[i] = { [i] = 0 }, {} end
  for span = 1, n - 1 do
    for i = 1, n - span do
      local j = i + span
      cost[i][j] = math.huge
      for k = i, j - 1 do
        local c = cost[i][k] + cost[k + 1][j] + size[i] * size[k + 1] * size[j + 1]
        if c < cost[i][j] then cost[i][j], cut[i][j] = c, k end
      end
    end
  end
  return cut
end

--- Product of two or more matrices, in the cheapest order; the first and the last may be vectors.
def("linalg.multi_dot(tensors: T[]) -> T", function(list)
  local op = "multi_dot"
  if #list < 2 then fail(op, "need a list of two tensors or more") end
  local all, size = {}, {}
  for i = 1, #list do
    local x = list[i]
    all[i] = x
    local edge = i == 1 or i == #list
    if x.ndim ~= 2 and not (edge and x.ndim == 1) then
      fail(op, "tensor %d has shape %s, need a matrix%s", i, shape_text(x),
        edge and " or a vector" or "")
    end
  end
  local first, last = all[1].ndim == 1, all[#all].ndim == 1
  if first then all[1] = all[1]:unsqueeze(1) end
  if last then all[#all] = all[#all]:unsqueeze(2) end
  for i, x in ipairs(all) do
    if i > 1 and x.shape[1] ~= size[i] then
      fail(op, "tensor %d has %d columns, tensor %d has %d rows", i - 1, size[i], i, x.shape[1])
    end
    size[i], size[i + 1] = x.shape[1], x.shape[2]
  end
  local cut = best_cuts(size)
  local function chain(i, j)
    if i == j then return all[i] end
    return chain(i, cut[i][j]):matmul(chain(cut[i][j] + 1, j))
  end
  local y = chain(1, #all)
  if first and last then return y:reshape({}) end
  return (first and y:squeeze(1) or last and y:squeeze(2) or y):clone()
end)

-- ---- forms --------------------------------------------------------------------------------------
--- x on diagonals of new matrices in axes dim1 and dim2 of the result.
def("diag_embed(x: T, offset: int = 0, dim1: axis = -2, dim2: axis = -1) -> T",
  function(x, k, dim1, dim2)
    local op, rank = "diag_embed", x.ndim + 1
    local function axis(d)
      if d == 0 or d > rank or d < -rank then
        fail(op, "axis %d is out of range, the result has %d axes", d, rank)
      end
      return d > 0 and d or d + rank + 1
    end
    if x.ndim == 0 then fail(op, "x is 0-d, need at least one axis") end
    local a, b = axis(dim1), axis(dim2)
    if a == b then fail(op, "dim1 and dim2 are both axis %d", a) end
    local n = x.shape[x.ndim] + math.abs(k)
    local first = k >= 0 and { k, 0 } or { 0,
      -k }        -- zeros before the columns, before the rows
    local column = flame.arange(1, n, { dtype = "i64", device = x.device })
    local on = column:reshape(n, 1):eq(column - k)
    local wide = x:pad({ first[2], n - x.shape[x.ndim] - first[2] }):unsqueeze(-1)
    local y = flame.where(on, wide, flame.zeros({}, { dtype = x.dtype, device = x.device }))
    local order, at = {}, 1
    for d = 1, rank do
      if d == a then order[d] = rank - 1
      elseif d == b then order[d] = rank
      else order[d], at = at, at + 1 end
    end
    return a == rank - 1 and b == rank and y or y:permute(order):contiguous()
  end)

--- Columns x^0, x^1, … of each element, N of them, or as many as the last axis has elements.
def("linalg.vander(x: T, N?: int) -> T", function(x, N)
  local op, n = "vander", N or rawget(x.shape, x.ndim)
  if not n then fail(op, "x is 0-d, need at least one axis, or N") end
  if x.ndim == 0 then x = x:reshape(1) end
  if n <= 0 or n > 4096 then fail(op, "N = %d, need 1 to 4096", n) end
  if not x:is_floating_point() then x = x:long() end
  local columns = { flame.ones_like(x) }
  for i = 2, n do columns[i] = columns[i - 1] * x end
  return flame.stack(columns, -1)
end)
--- As torch.vander: powers fall unless {increasing = true}.
def("vander(x: T, N?: int, increasing = false) -> T", function(x, N, increasing)
  if x.ndim ~= 1 then fail("vander", "x has shape %s, need one axis", shape_text(x)) end
  local y = linalg.vander(x, N or x.shape[1])
  return increasing and y or y:flip(2)
end)

--- The last two axes exchanged.
def("linalg.matrix_transpose(x: T) -> T", function(x)
  if x.ndim < 2 then
    fail("matrix_transpose", "x has shape %s, need two axes or more", shape_text(x))
  end
  return turned(x)
end)
--- The diagonals of two axes, as a last axis.
def("linalg.diagonal(x: T, offset: int = 0, dim1: axis = -2, dim2: axis = -1) -> T",
  function(x, offset, dim1, dim2) return x:diagonal(offset, dim1, dim2) end)

--- The tensor x with tensordot(a, x, x.ndim) = b; the axes of a in the list
--- dims are moved to its end before.
def("linalg.tensorsolve(a: T, b: T, dims?: int[]) -> T", function(a, b, dims)
  if dims then
    local places = {}
    for k = 1, #dims do places[k] = k - #dims - 1 end
    a = a:movedim(dims, places)
  end
  local rest = {}
  for k = b.ndim + 1, a.ndim do rest[#rest + 1] = a.shape[k] end
  local n = b:numel()
  if a:numel() ~= n * n then
    fail("tensorsolve",
      "a has shape %s and b %s: the axes of a behind those of b must have %d elements",
      shape_text(a), shape_text(b), n)
  end
  return flame.solve(a:reshape(n, n), b:reshape(n)):reshape(rest):clone()
end)
--- The inverse with respect to the first 'ind' axes and the rest.
def("linalg.tensorinv(x: T, ind: int = 2) -> T", function(x, ind)
  if ind < 1 then fail("tensorinv", "ind = %d, need at least 1", ind) end
  local shape, rows, columns = {}, 1, 1
  for k = ind + 1, x.ndim do
    shape[#shape + 1] = x.shape[k]
    columns = columns * x.shape[k]
  end
  for k = 1, math.min(ind, x.ndim) do
    shape[#shape + 1] = x.shape[k]
    rows = rows * x.shape[k]
  end
  if rows ~= columns then
    fail("tensorinv", "x has shape %s: %d elements in the first %d axes, %d in the rest",
      shape_text(x), rows, ind, columns)
  end
  return flame.inverse(x:reshape(rows, columns)):reshape(shape):clone()
end)

for _, name in ipairs { "matmul", "trace", "kron", "cdist", "tensordot", "diag_embed",
  "cholesky_solve", "cholesky_inverse", "logdet", "outer", "mm", "bmm", "mv", "dot", "einsum",
  "addmm", "baddbmm" } do
  linalg[name] = flame[name]
end
