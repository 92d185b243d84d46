--- Diagonal and Vandermonde matrices, transposes, and equations with tensors taken as matrices.
local flame = require "flame"
local arguments = require "flame.base.arguments"
local solve = require "flame.linalg.solve"
require "flame.linalg.product"
require "flame.ops.einsum"
local fail, def = arguments.fail, arguments.def
local shape_text, turned, linalg = solve.shape_text, solve.turned, flame.linalg

--- Matrices, in axes dim1 and dim2 of the result, with x's last axis on their diagonals, else 0.
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

--- Vandermonde matrices: a row x^0, x^1, … of N powers per element (default: the last axis' size).
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
--- A Vandermonde matrix like torch.vander's: powers decrease from left to right unless increasing.
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

--- The tensor x with tensordot(a, x, x.ndim) = b. The axes of a in the list dims are first moved to
--- the end of a.
def("linalg.tensorsolve(a: T, b: T, dims?: axis[]) -> T", function(a, b, dims)
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
--- The inverse of x as a matrix whose rows are the first 'ind' axes and whose columns are the rest.
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
