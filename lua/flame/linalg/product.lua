--- Products of vectors, matrices and tensors, composed of matmul.
local flame = require "flame"
local arguments = require "flame.base.arguments"
local fail, def, need_int = arguments.fail, arguments.def, arguments.need_int
local axis_of = arguments.axis_of
local shape_text = require("flame.linalg.solve").shape_text
local norm = require "flame.linalg.norm"
local need_float, vector_norm_of = norm.need_float, norm.vector_norm_of

--- Sum of a matrix' diagonal.
def("trace(x: T) -> T", function(x)
  if x.ndim ~= 2 then fail("trace", "x has shape %s, need a matrix (two axes)", shape_text(x)) end
  return x:diagonal():sum()
end)

--- The Kronecker product: a block for each element of x, that element times the whole of y.
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

--- The axes of x and those of y that tensordot's dims means, two lists. dims is a number n (the
--- last n axes of x, the first n of y) or two lists.
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

--- Sum of products over pairs of axes; dims: a number n, the last n axes of x with the first n of
--- y, or {axes of x, axes of y}.
def("tensordot(x: T, y: T, dims: int|any[] = 2) -> T", function(x, y, dims)
  local a, b = dot_axes(x, y, dims)
  local xs, ys = x.shape, y.shape
  for k = 1, #a do
    local m, n = xs[a[k]], ys[b[k]]
    if m ~= n and m ~= 1 and n ~= 1 then
      fail("tensordot", "axis %d of x has %d elements, axis %d of y %d", a[k], m, b[k], n)
    end
    -- an axis of size 1 is expanded to the size of its partner
    xs[a[k]], ys[b[k]] = m == 1 and n or m, n == 1 and m or n
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

--- cut[i][j]: after which matrix to split the product of matrices i to j, so that there are as few
--- multiplications as possible. Matrix i is size[i] by size[i + 1].
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
--- All products of two vectors.
def("outer(x: T, y: T) -> T", function(x, y)
  for name, v in pairs { x = x, y = y } do
    if v.ndim ~= 1 then
      fail("outer", "%s has shape (%s), need one axis", name, table.concat(v.shape, ", "))
    end
  end
  return x:reshape(-1, 1) * y:reshape(1, -1)
end)
local function add_matmul(x, a, b, beta, alpha)
  local y = a:matmul(b)
  if alpha ~= 1 then y = y * alpha end
  return beta == 0 and y or beta == 1 and x + y or x * beta + y
end
--- beta x + alpha mat1 mat2 (a matrix product).
def("addmm_?(x: T|num, mat1: T, mat2: T, *, beta = 1, alpha = 1) -> T @half", add_matmul)
--- beta x + alpha batch1 batch2, a matrix product for each batch.
def("baddbmm_?(x: T|num, batch1: T, batch2: T, *, beta = 1, alpha = 1) -> T @half", add_matmul)
local function add_product(x, y, beta, alpha)
  x:broadcast_to(y.shape)                         -- raises if x does not fit, also with beta = 0
  if alpha ~= 1 then y = y * alpha end
  return beta == 0 and y or beta == 1 and x + y or x * beta + y
end
--- beta x + alpha mat vec.
def("addmv_?(x: T, mat: T, vec: T, *, beta = 1, alpha = 1) -> T",
  function(x, a, v, beta, alpha) return add_product(x, a:mv(v), beta, alpha) end)
--- beta x + alpha outer(vec1, vec2).
def("addr_?(x: T, vec1: T, vec2: T, *, beta = 1, alpha = 1) -> T",
  function(x, v, w, beta, alpha) return add_product(x, v:outer(w), beta, alpha) end)
--- beta x + alpha times the sum of the products of two batches.
def("addbmm_?(x: T, batch1: T, batch2: T, *, beta = 1, alpha = 1) -> T",
  function(x, a, b, beta, alpha)
    return add_product(x, a:bmm(b):sum(1, { dtype = a.dtype }), beta, alpha)
  end)
--- Sum of products over the last axes.
def("inner(x: T, y: T) -> T", function(x, y)
  if x.ndim == 0 or y.ndim == 0 then return x * y end
  return flame.tensordot(x, y, { { -1 }, { -1 } })
end)
--- Bilinear forms x1' weight[k] x2 + bias[k]: x1 (…, n), x2 (…, m), weight (out, n, m).
def("bilinear(x1: T, x2: T, weight: T, bias?: T) -> T", function(x1, x2, w, b)
  local op = "bilinear"
  if w.ndim ~= 3 or w.shape[2] ~= rawget(x1.shape, x1.ndim)
      or w.shape[3] ~= rawget(x2.shape, x2.ndim) then
    fail(op, "x1 has shape %s, x2 %s and weight %s, need (out, n, m)", shape_text(x1),
      shape_text(x2),
      shape_text(w))
  end
  local lead, rows = x1.shape, 1
  for k = 1, #lead - 1 do rows = rows * lead[k] end
  lead[#lead] = w.shape[1]
  local y = flame.einsum("bn,onm,bm->bo", x1:reshape(rows, w.shape[2]), w,
    x2:reshape(rows, w.shape[3])):reshape(lead)
  return b and y + b or y:clone()
end)
