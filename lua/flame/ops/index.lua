--- Reads and writes by position that go beyond x[…]: several sources for one place (scatter_reduce,
-- index_reduce, put, index_put), diagonals, sum_to_size, renorm, splits. The order in which
-- elements are combined follows from the positions alone.
local flame = require "flame"
local internal = flame.internal
local arguments = require "flame.base.arguments"
local fail, def, axis_of, where = arguments.fail, arguments.def, arguments.axis_of, flame.where
local is_tensor = flame.is_tensor

local function shape_text(x) return "(" .. table.concat(x.shape, ", ") .. ")" end
local function same_dtype(op, x, src, name)
  if src.dtype ~= x.dtype then
    fail(op, "%s is %s and x %s\1: cast one of them", name or "src", src.dtype, x.dtype)
  end
end

--- The positions of elements that are not 0, one row each.
def("argwhere(x: T) -> T", function(x) return x:nonzero() end)

-- ---- several sources for one place --------------------------------------------------------------
--- Products of runs: along d, elements of v with equal positions in i are neighbours. Returns the
--- running products of each run (the run's product at its last element), and a mask of the last
--- elements. Each step doubles the distance over which elements are combined.
local function runs_of_products(v, i, d)
  local n, reach = v.shape[d], 1
  local last = n > 1 and flame.cat({ i:narrow(d, 1, n - 1):ne(i:narrow(d, 2, n - 1)),
    flame.ones_like(i:narrow(d, 1, 1)):bool() }, d) or flame.ones_like(i):bool()
  while reach < n do
    local kept, rest = v:narrow(d, 1, reach), n - reach
    local same = i:narrow(d, reach + 1, rest):eq(i:narrow(d, 1, rest))
    v = flame.cat({ kept, v:narrow(d, reach + 1, rest) * where(same, v:narrow(d, 1, rest), 1) }, d)
    reach = reach * 2
  end
  return v, last
end

local function products(x, d, idx, src, hit, own)
  local order = idx:argsort(d)
  local i = idx:gather(d, order)
  local v, last = runs_of_products(src:gather(d, order), i, d)
  local made = flame.zeros_like(x:detach()):scatter_add(d, i, where(last, v, 0))
  return where(hit, own and x * made or made, x)
end

-- A sort key: in its ascending order v's largest (amax) or smallest (amin) comes last, then NaN.
local function rising(v, reduce)
  if reduce == "amax" then return v end
  if v:is_floating_point() then return -v end
  return v.dtype == "bool" and v:logical_not() or ~v
end

-- scatter_reduce by "amax" or "amin": sources are written in order of size, so the last one, which
-- stays, is the result. Equal ones share the gradient.
local function extremes(x, d, idx, src, hit, own, reduce)
  local v, base = src:detach(), x:detach()
  local order = rising(v, reduce):argsort(d)
  local best = base:scatter(d, idx:gather(d, order), v:gather(d, order))
  if own then
    best = where(hit, reduce == "amax" and best:maximum(base) or best:minimum(base), base)
  end
  if not x.requires_grad and not src.requires_grad then return best end
  local mine = base:eq(best)
  if not own then mine = mine:logical_and(hit:logical_not()) end
  mine = mine:to(x.dtype)
  local theirs = v:eq(best:gather(d, idx)):to(x.dtype)
  local many = mine + flame.zeros_like(base):scatter_add(d, idx, theirs)
  local flow = where(mine:bool(), x, 0) + flame.zeros_like(base):scatter_add(d, idx,
    where(theirs:bool(), src, 0))
  flow = flow / many:clamp({ min = 1 })
  return best + where(best:isfinite(), flow - flow:detach(), 0)
end

-- scatter_reduce, also used by index_reduce. own: include_self.
local function scatter_reduce(op, x, d, idx, src, reduce, own)
  d = axis_of(op, x, d)
  same_dtype(op, x, src)
  if x.dtype == "bool" then
    return scatter_reduce(op, x:long(), d, idx, src:long(), reduce, own):bool()
  end
  if idx:numel() == 0 then return x:clone() end
  if x.ndim == 0 then
    return scatter_reduce(op, x:reshape(1), 1, idx:reshape(-1), src:reshape(-1), reduce,
      own):reshape({})
  end
  if idx.ndim ~= x.ndim or src.ndim ~= x.ndim then
    fail(op, "x has %d axes, index %d and src %d", x.ndim, idx.ndim, src.ndim)
  end
  local region = {}
  for k = 1, x.ndim do
    if idx.shape[k] > src.shape[k] then
      fail(op, "index has shape %s and src %s", shape_text(idx), shape_text(src))
    end
    region[k] = { 1, idx.shape[k] }
  end
  src = src(table.unpack(region))
  local as = { dtype = "i64", device = x.device }
  local count, one = flame.zeros(x.shape, as), flame.ones(idx.shape, as)
  internal.naming(op)
  count = count:scatter_add(d, idx, one)
  local hit = count:gt(0)
  if reduce == "prod" then return products(x, d, idx, src, hit, own) end
  if reduce == "amax" or reduce == "amin" then return extremes(x, d, idx, src, hit, own, reduce) end
  local total = own and x or where(hit, 0, x)
  internal.naming(op)
  total = total:scatter_add(d, idx, src)
  if reduce == "sum" then return total end
  local n = (count + (own and 1 or 0)):clamp({ min = 1 })
  return x:is_floating_point() and total / n:to(x.dtype)
    or total:div(n, { rounding_mode = "floor" }):to(x.dtype)
end

--- Combines every element of x with the elements of src that index maps to it. include_self =
--- false: elements of x to which any are mapped do not take part.
def([[scatter_reduce_?(x: T, dim: axis, index: T, src: T,
    reduce: "sum"|"prod"|"mean"|"amax"|"amin", *, include_self = true) -> T]],
  function(...) return scatter_reduce("scatter_reduce", ...) end)

local index_reduce
function index_reduce(x, d, idx, src, reduce, own)
  local op = "index_reduce"
  d = axis_of(op, x, d)
  if idx.ndim > 1 then fail(op, "index has %d axes, need 1", idx.ndim) end
  same_dtype(op, x, src, "source")
  if x.ndim == 0 then
    return index_reduce(x:reshape(1), 1, idx, src:reshape(-1), reduce, own):reshape({}):clone()
  end
  local column, want = {}, x.shape
  for k = 1, x.ndim do column[k] = k == d and idx:numel() or 1 end
  want[d] = idx:numel()
  if table.concat(src.shape, " ") ~= table.concat(want, " ") then
    fail(op, "source has shape %s, need (%s)", shape_text(src), table.concat(want, ", "))
  end
  return scatter_reduce(op, x, d, idx:reshape(column):expand(want), src, reduce, own)
end
--- Combines slices of x, at the positions index along dim, with slices of source. (index_add adds.)
--- include_self as in scatter_reduce.
def([[index_reduce_?(x: T, dim: axis, index: T, source: T, reduce: "prod"|"mean"|"amax"|"amin", *,
    include_self = true) -> T]], index_reduce)

--- scatter with reduce, "add" or "multiply". Called from C.
function internal.scatter_form(x, d, idx, src, how)
  if not is_tensor(src) then
    src = flame.full(idx.shape, src, { dtype = x.dtype, device = x.device })
  end
  if how == "add" then return x:scatter_add(d, idx, src) end
  return scatter_reduce("scatter", x, d, idx, src, "prod", true)
end

--- x with the elements at 'index', counted over all elements, set to source; accumulate: added.
def("put_?(x: T, index: T, source: T, accumulate = false) -> T", function(x, idx, src, accumulate)
  arguments.need_integers("put", "index", idx)
  same_dtype("put", x, src, "source")
  if src:numel() ~= idx:numel() then
    fail("put", "%d positions and %d values", idx:numel(), src:numel())
  end
  internal.naming("put")
  local at, flat = internal.positions(idx, x:numel(), true):reshape(-1), x:reshape(-1)
  return (accumulate and flat:index_add(1, at, src:reshape(-1))
    or flat:index_copy(1, at, src:reshape(-1))):reshape(x.shape):clone()
end)

--- x with x[indices] set to values; indices has a tensor, range or number for each axis.
--- accumulate: values are added, all of them if a position is repeated.
def([[index_put_?(x: T, indices: any[], values: T|num|bool,
    accumulate = false) -> T]], function(x, key, v, accumulate)
  if not accumulate then
    local y = x:clone()
    y[key] = v
    return y
  end
  if is_tensor(v) then same_dtype("index_put", x, v, "values") end
  local at = flame.arange(1, x:numel(), { dtype = "i64", device = x.device }):reshape(x.shape)[key]
  v = is_tensor(v) and v or flame.full({}, v, { dtype = x.dtype, device = x.device })
  return x:reshape(-1):index_add(1, at:reshape(-1), v:expand(at.shape):reshape(-1))
    :reshape(x.shape):clone()
end)

-- ---- by position --------------------------------------------------------------------------------
--- gather, with shapes that broadcast; without dim, from the flattened x.
def("take_along_dim(x: T, index: T, dim?: axis) -> T", function(x, idx, d)
  if d == nil then
    x, idx = x:reshape(-1), idx:reshape(-1)
    internal.naming("take_along_dim")
    return x:gather(1, idx)
  end
  d = axis_of("take_along_dim", x, d)
  local p, q = x.shape, idx.shape
  if #p ~= #q then fail("take_along_dim", "x has %d axes and index %d", #p, #q) end
  p[d], q[d] = 1, 1
  local shape = arguments.broadcast_shape("take_along_dim", { flame.zeros(p), flame.zeros(q) })
  p, q = table.move(shape, 1, #shape, 1, {}), shape
  p[d], q[d] = x.shape[d], idx.shape[d]
  x, idx = x:expand(p), idx:expand(q)
  internal.naming("take_along_dim")
  return x:gather(d, idx)
end)
--- x where mask is false; where it is true, elements of src in order.
def("masked_scatter_?(x: T, mask: T, src: T) -> T", function(x, mask, src)
  if mask.dtype ~= "bool" then fail("masked_scatter", "mask is %s, need bool", mask.dtype) end
  if src.dtype ~= x.dtype then
    fail("masked_scatter", "src is %s and x %s\1: cast one of them", src.dtype, x.dtype)
  end
  x = x:expand(arguments.broadcast_shape("masked_scatter", { x, mask }))
  local hit = mask:expand(x.shape)
  local at = hit:reshape(-1):cumsum(1)
  local n = x:numel() > 0 and at[-1]:item() or 0
  if n > src:numel() then
    fail("masked_scatter", "mask is true at %d positions, src has %d elements", n, src:numel())
  end
  if n == 0 then return x:clone() end
  return where(hit, src:reshape(-1):take(at:clamp({ min = 1 })):reshape(x.shape), x)
end)
-- A copy of x with the region x[key] set to src; raises if the shapes differ.
local function with_region(op, x, key, src)
  local y, want = x:clone(), x[key].shape
  if table.concat(src.shape, ", ") ~= table.concat(want, ", ") then
    fail(op, "src has shape (%s), the region (%s)", table.concat(src.shape, ", "),
      table.concat(want, ", "))
  end
  y[key] = src
  return y
end
--- x with one position of axis dim replaced by src.
def("select_scatter(x: T, src: T, dim: axis, index: int) -> T", function(x, src, d, i)
  d = axis_of("select_scatter", x, d)
  local key = {}
  for k = 1, x.ndim do key[k] = k == d and i or {} end
  return with_region("select_scatter", x, key, src)
end)
--- x with positions start to end_ (every step-th) of axis dim replaced by src; "end" is a word of
--- Lua.
def([[slice_scatter(x: T, src: T, dim: axis = 1, start: int = 1, end_?: int,
    step: int = 1) -> T]], function(x, src, d, first, last, step)
  d = axis_of("slice_scatter", x, d)
  local key = {}
  for k = 1, x.ndim do key[k] = k == d and { first, last or x.shape[d], step } or {} end
  return with_region("slice_scatter", x, key, src)
end)

-- ---- diagonals ----------------------------------------------------------------------------------
--- x with a diagonal of two axes replaced by src.
def("diagonal_scatter(x: T, src: T, offset: int = 0, dim1: axis = 1, dim2: axis = 2) -> T",
  function(x, src, offset, dim1, dim2)
    local at = flame.arange(1, x:numel(), { dtype = "i64", device = x.device }):reshape(x.shape)
      :diagonal(offset, dim1, dim2)
    if shape_text(src) ~= shape_text(at) then
      fail("diagonal_scatter", "src has shape %s, the diagonal %s", shape_text(src), shape_text(at))
    end
    return x:reshape(-1):index_copy(1, at:reshape(-1), src:reshape(-1)):reshape(x.shape):clone()
  end)
-- The positions in x, from 1, row by row, of the elements of as_strided's result; 'first' is its
-- storage_offset.
local function strided(op, x, size, stride, first)
  local last = first
  local y = flame.full({}, first + 1, { dtype = "i64", device = x.device })
  if #size ~= #stride then fail(op, "size and stride must be lists of the same length") end
  for d = 1, #size do
    if size[d] < 0 or stride[d] < 0 then fail(op, "a size or stride is negative") end
    y = y:unsqueeze(-1) + flame.arange(0, size[d] - 1,
      { dtype = "i64", device = x.device }) * stride[d]
    last = last + (size[d] - 1) * stride[d]
  end
  if y:numel() > 0 and (first < 0 or last >= x:numel()) then
    fail(op, "positions %d to %d, x has %d elements", first + 1, last + 1, x:numel())
  end
  return y
end
--- A tensor of elements of x (row by row) at the given strides, from storage_offset (0) on. The
--- result is a separate value: writes to it do not change x.
def("as_strided(x: T, size: int[], stride: int[], storage_offset: int = 0) -> T",
  function(x, size, stride, first) return x:take(strided("as_strided", x, size, stride, first)) end)
--- x with the elements that as_strided reads replaced by those of src.
def("as_strided_scatter(x: T, src: T, size: int[], stride: int[], storage_offset: int = 0) -> T",
  function(x, src, size, stride, first)
    local op = "as_strided_scatter"
    local at = strided(op, x, size, stride, first)
    if shape_text(src) ~= shape_text(at) then
      fail(op, "src has shape %s, the region %s", shape_text(src), shape_text(at))
    end
    return x:put(at, src)
  end)
--- Writes fill_value on the diagonal; wrap: the diagonal of a tall matrix begins again below its
--- end.
def(":fill_diagonal_(x: T, fill_value: num|T, wrap = false) -> T", function(x, v, wrap)
  local op, shape = "fill_diagonal_", x.shape
  if #shape < 2 then fail(op, "x has shape %s, need two axes or more", shape_text(x)) end
  local step, size, least = 0, 1, math.huge           -- step: from one diagonal element to the next
  for d = #shape, 1, -1 do
    if #shape > 2 and shape[d] ~= shape[1] then
      fail(op, "x has shape %s: with more than two axes all must be equal", shape_text(x))
    end
    least, step, size = math.min(least, shape[d]), step + size, size * shape[d]
  end
  if least == 0 then return x end
  local last = wrap and #shape == 2 and x:numel() or (least - 1) * step + 1
  local at = flame.arange(1, last, step, { dtype = "i64", device = x.device })
  return x:copy_(x:reshape(-1):index_fill(1, at, v):reshape(shape))
end)

-- ---- by shape -----------------------------------------------------------------------------------
--- Sums x over axes so that the shape becomes 'size', which must broadcast to x's shape.
def("sum_to_size(x: T, size...: int) -> T", function(x, ...)
  local op, to = "sum_to_size", { ... }
  arguments.need_shape(op, to)
  local shape, lead, axes = x.shape, x.ndim - #to, {}
  for d = 1, #shape do
    local want = rawget(to, d - lead)
    if d > lead and want ~= 1 and want ~= shape[d] or lead < 0 then
      fail(op, "shape %s can not become (%s)", shape_text(x), table.concat(to, ", "))
    end
    if d <= lead or want == 1 and shape[d] ~= 1 then axes[#axes + 1] = d end
  end
  if #axes == 0 then return x:clone() end
  return x:sum(axes, { keepdim = true }):reshape(to):clone()
end)
local function split_along(name, least, axis)
  def(name .. "(x: T, n: int|int[]|T) -> T[]", function(x, n)
    if x.ndim < least then
      fail(name, "x has shape %s, need %d axes or more", shape_text(x), least)
    end
    local d = axis(x)
    if type(n) == "number" and (n < 1 or x.shape[d] % n ~= 0) then
      fail(name, "axis %d has %d elements, which %s does not divide", d, x.shape[d], tostring(n))
    end
    return x:tensor_split(n, d)
  end)
end
--- tensor_split along axis 2, or 1 of a vector.
split_along("hsplit", 1, function(x) return x.ndim == 1 and 1 or 2 end)
--- tensor_split along axis 1.
split_along("vsplit", 2, function() return 1 end)
--- tensor_split along axis 3.
split_along("dsplit", 3, function() return 3 end)

--- Scales those slices along dim that have a p-norm above maxnorm down to maxnorm.
def("renorm_?(x: T, p: num, dim: axis, maxnorm: num) -> T", function(x, p, d, maxnorm)
  d = axis_of("renorm", x, d)
  if x.ndim < 2 then fail("renorm", "x has shape %s, need two axes or more", shape_text(x)) end
  if not (p > 0) then fail("renorm", "p = %s, need p > 0", tostring(p)) end
  if maxnorm < 0 then fail("renorm", "maxnorm = %s is negative", tostring(maxnorm)) end
  local rest = {}
  for k = 1, x.ndim do if k ~= d then rest[#rest + 1] = k end end
  local n = x:norm(p, rest, { keepdim = true })
  return x * where(n:gt(maxnorm), maxnorm / (n + 1e-7), 1)
end)

-- ---- in-place forms that keep the dtype of x ----------------------------------------------------
--- x becomes x:cumsum(dim), in its dtype.
def(":cumsum_(x: T, dim: axis, *, dtype?: dtype) -> T",
  function(x, d, dtype) return x:copy_(x:cumsum(d, { dtype = dtype })) end)
--- x becomes x:cumprod(dim), in its dtype.
def(":cumprod_(x: T, dim: axis, *, dtype?: dtype) -> T",
  function(x, d, dtype) return x:copy_(x:cumprod(d, { dtype = dtype })) end)
--- x becomes x:tril(diagonal).
def(":tril_(x: T, diagonal: int = 0) -> T", function(x, k) return x:copy_(x:tril(k)) end)
--- x becomes x:triu(diagonal).
def(":triu_(x: T, diagonal: int = 0) -> T", function(x, k) return x:copy_(x:triu(k)) end)
--- x becomes x:float_power(y). x must be f64, since the result is f64 and x keeps its dtype.
def(":float_power_(x: T, y: T|num) -> T", function(x, y)
  if x.dtype ~= "f64" then
    fail("float_power_", "the result is f64, x is %s and keeps its dtype", x.dtype)
  end
  return x:copy_(flame.float_power(x, y))
end)
