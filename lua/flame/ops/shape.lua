--- Shapes, positions, writes with random numbers. Positions are 1-based
-- here as everywhere: in tril_indices, combinations, take_along_dim, scatter_reduce.
local flame = require "flame"
local internal = flame.internal
local arguments = require "flame.base.arguments"
local fail, def, axis_of = arguments.fail, arguments.def, arguments.axis_of
local where = flame.where

-- ---- shapes -------------------------------------------------------------------------------------
--- As one axis.
def("ravel(x: T) -> T", function(x) return x:reshape(-1) end)
--- The second axis the other way round.
def("fliplr(x: T) -> T", function(x) return x:flip(2) end)
--- The first axis the other way round.
def("flipud(x: T) -> T", function(x)
  if x.ndim == 0 then fail("flipud", "x is 0-d, need at least one axis") end
  return x:flip(1)
end)
--- Turned by k quarters in the plane of two axes, from the first towards the second.
def("rot90(x: T, k: int = 1, dims: int[] = {1, 2}) -> T", function(x, k, axes)
  if #axes ~= 2 then fail("rot90", "dims has %d axes, need two", #axes) end
  local a, b = axis_of("rot90", x, axes[1]), axis_of("rot90", x, axes[2])
  if a == b then fail("rot90", "the two axes must differ") end
  k = k % 4
  if k == 0 then return x:clone() end
  if k == 2 then return x:flip(a, b) end
  return k == 1 and x:flip(b):transpose(a, b):clone() or x:transpose(a, b):flip(b)
end)
local function at_least(n)
  return function(x)
    if x.ndim >= n then return x end
    if n == 3 and x.ndim == 2 then return x:unsqueeze(3) end
    if n == 3 and x.ndim == 1 then return x:reshape(1, -1, 1) end
    if n == 2 and x.ndim == 1 then return x:unsqueeze(1) end
    return x:reshape(table.move({ 1, 1, 1 }, 1, n, 1, {}))
  end
end
for n = 1, 3 do
  local lift = at_least(n)
  --- x with that many axes at least; of a list of tensors a list.
  def(("atleast_%dd(x: T) -> T"):format(n), function(x) return lift(x):clone() end,
    ("atleast_%dd(tensors: T[]) -> T[]"):format(n), function(tensors)
      local out = {}
      for k, x in ipairs(tensors) do out[k] = lift(x):clone() end
      return out
    end)
end
local function stacked(name, lift, d)
  def("." .. name .. "(tensors: T[]) -> T", function(list)
    local parts = {}
    for k, x in ipairs(list) do parts[k] = lift(x) end
    return flame.cat(parts, type(d) == "function" and d(parts[1]) or d)
  end)
end
--- Side by side: along the second axis, the first of vectors.
stacked("hstack", at_least(1), function(x) return x and x.ndim > 1 and 2 or 1 end)
--- One above the other.
stacked("vstack", at_least(2), 1)
--- One above the other.
stacked("row_stack", at_least(2), 1)
--- One behind the other, along the third axis.
stacked("dstack", at_least(3), 3)
--- Vectors as columns.
stacked("column_stack", function(x) return x.ndim < 2 and x:reshape(-1, 1) or x end, 2)
--- So many parts along dim as equal as can be, or cuts behind the positions of a list.
def("tensor_split(x: T, n: int|int[]|T, dim: axis = 1) -> T[]", function(x, n, d)
  d = axis_of("tensor_split", x, d)
  local size, parts, first = x.shape[d], {}, 0
  if size == nil then fail("tensor_split", "a 0-d tensor has no axes") end
  if flame.is_tensor(n) then
    if n:is_floating_point() or n.dtype == "bool" or n.ndim > 1 then
      fail("tensor_split", "n is %s of %d axes, need integers, one axis at most", n.dtype, n.ndim)
    end
    n = n:totable()
  end
  if type(n) == "table" then
    for k = 1, #n + 1 do
      local last = k > #n and size or math.tointeger(n[k])
      last = math.max(math.min(last < 0 and last + size or last, size), 0)
      local count = math.max(last - first, 0)
      parts[k] = x:narrow(d, count > 0 and first + 1 or 1, count)
      first = last
    end
    return parts
  end
  if n < 1 or n > 65536 then
    fail("tensor_split", "n = %d, need 1 to 65536", n)
  end
  for k = 1, n do
    local count = size // n + (k <= size % n and 1 or 0)
    parts[k] = x:narrow(d, count > 0 and first + 1 or 1, count)
    first = first + count
  end
  return parts
end)
--- Square blocks along the diagonal of zeros.
def(".block_diag(tensors...: T) -> T", function(...)
  local list, rows, columns = { ... }, 0, 0
  for k, x in ipairs(list) do
    if x.ndim > 2 then
      fail("block_diag", "tensor %d has %d axes, need 2 at most", k, x.ndim)
    end
    list[k] = x.ndim < 2 and x:reshape(1, -1) or x
    columns = columns + list[k].shape[2]
  end
  for k, x in ipairs(list) do
    list[k] = x:pad({ rows, columns - rows - x.shape[2] })
    rows = rows + x.shape[2]
  end
  return #list > 0 and flame.cat(list, 1) or flame.zeros(1, 0)
end)
--- All choices of one element from each, as rows.
def(".cartesian_prod(tensors...: T) -> T", function(...)
  local list = flame.meshgrid(...)
  if #list == 1 then return list[1]:clone() end
  for k, x in ipairs(list) do list[k] = x:reshape(-1) end
  return flame.stack(list, 2)
end)
--- All choices of r elements of x in order, as rows.
def("combinations(x: T, r: int = 2, with_replacement = false) -> T",
  function(x, r, with_replacement)
    if x.ndim ~= 1 then fail("combinations", "x has %d axes, need 1", x.ndim) end
    local n, at, now = x.shape[1], {}, {}
    local function choose(k, from)
      if k > r then at[#at + 1] = table.move(now, 1, r, 1, {}) return end
      for i = from, n do now[k] = i; choose(k + 1, with_replacement and i or i + 1) end
    end
    if r > 0 then choose(1, 1) end
    if r == 0 then return flame.zeros({ 0 }, { dtype = x.dtype, device = x.device }) end
    if #at == 0 then return flame.zeros(0, r, { dtype = x.dtype, device = x.device }) end
    return x:take(flame.tensor(at, { dtype = "i64", device = x.device }))
  end)
-- A loop over the rows; what is as large as the result is recorded.
local function triangle_indices(name, upper)
  def("." .. name .. [[(rows: int, columns: int, offset: int = 0, *, dtype: dtype = "i64",
      device?: device) -> T]], function(rows, columns, offset, dtype, device)
    for what, n in pairs { rows = rows, columns = columns } do
      if n < 0 then fail(name, "%s = %d is negative", what, n) end
    end
    device = device or flame.default_device()
    local ends, shift, total = {}, {}, 0
    for i = 1, rows do
      local first = upper and math.max(i + offset, 1) or 1
      shift[i] = first - 1 - total
      total = total + math.max((upper and columns or math.min(i + offset, columns)) - first + 1, 0)
      ends[i] = total
    end
    if total == 0 then return flame.zeros({ 2, 0 }, { dtype = dtype, device = device }) end
    local integers = { dtype = "i64", device = device }
    local k = flame.arange(1, total, integers)
    local row = flame.searchsorted(flame.tensor(ends, integers), k)
    return flame.stack({ row, k + flame.tensor(shift, integers):take(row) }):to(dtype)
  end)
end
--- Positions of the lower triangle: a row of rows, a row of columns.
triangle_indices("tril_indices", false)
--- Positions of the upper triangle: a row of rows, a row of columns.
triangle_indices("triu_indices", true)
local function whole(v)
  return type(v) == "number" and (v < 0 and math.ceil(v) or math.floor(v)) or v
end
--- n values from base^first to base^last, equally apart in the exponent.
def(".logspace(first: num, last: num, n: int, base = 10.0, *factory) -> T",
  function(first, last, n, base, dtype, device, requires_grad)
    dtype = dtype or "f32"
    -- integers, as in linspace
    if not dtype:find("f", 1, true) then first, last = whole(first), whole(last) end
    local y = flame.linspace(first, last, n, { dtype = "f64", device = device })
    y = (base ^ y):to(dtype)
    return requires_grad and y:requires_grad_(true) or y
  end)
--- A vector as the diagonal of a matrix of zeros; of a matrix its diagonal.
def("diag(x: T, diagonal: int = 0) -> T", function(x, k)
  if x.ndim > 2 or x.ndim == 0 then fail("diag", "x has %d axes, need 1 or 2", x.ndim) end
  return x.ndim == 2 and x:diagonal(k):clone() or flame.diag_embed(x, k)
end)
--- All elements as the diagonal of a matrix of zeros.
def("diagflat(x: T, offset: int = 0) -> T",
  function(x, k) return flame.diag_embed(x:reshape(-1), k) end)
--- x in y's shape.
def("view_as(x: T, y: T) -> T", function(x, y) return x:reshape(y.shape) end)
--- x in y's shape.
def("reshape_as(x: T, y: T) -> T", function(x, y) return x:reshape(y.shape) end)
--- x in y's dtype.
def("type_as(x: T, y: T) -> T", function(x, y) return x:to(y.dtype) end)

--- Options of new tensors: what is not given is x's.
local function like(x, dtype, device, requires_grad)
  return { dtype = dtype or x.dtype, device = device or x.device, requires_grad = requires_grad }
end
local function new_of(name, make)
  def(":" .. name .. "(x: T, shape...: int, *factory) -> T",
    function(x, dtype, device, requires_grad, ...)
      return make({ ... }, like(x, dtype, device, requires_grad))
    end)
end
--- Zeros of x's dtype and device.
new_of("new_zeros", flame.zeros)
--- Ones of x's dtype and device.
new_of("new_ones", flame.ones)
--- Zeros of x's dtype and device.
new_of("new_empty", flame.empty)
--- The value everywhere, of x's dtype and device.
def(":new_full(x: T, shape: int|int[], value: num|bool, *factory) -> T",
  function(x, shape, v, ...) return flame.full(shape, v, like(x, ...)) end)
--- A tensor of the values, of x's dtype and device.
def(":new_tensor(x: T, values: num|bool|table, *factory) -> T",
  function(x, v, ...) return flame.tensor(v, like(x, ...)) end)

-- ---- by position --------------------------------------------------------------------------------
--- gather with shapes that broadcast; without dim, of the flat x.
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
--- x where mask is false; where it is true the elements of src, in order.
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
--- y with the region 'key' written, where src has its shape.
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

-- ---- writes with random numbers -----------------------------------------------------------------
--- x becomes 1 with probability p, else 0.
def(":bernoulli_(x: T, p: num|T = 0.5) -> T", function(x, p)
  if type(p) == "number" and not (p >= 0 and p <= 1) then
    fail("bernoulli_", "p = %g, need 0 <= p <= 1", p)
  end
  return x:copy_(flame.rand(x.shape, { device = x.device }):lt(p):to(x.dtype))
end)
--- x becomes exponential numbers.
def(":exponential_(x: T, lambd = 1) -> T", function(x, rate)
  if not (rate > 0) then fail("exponential_", "lambd = %g, need lambd > 0", rate) end
  return x:copy_((1 - flame.rand(x.shape, { dtype = x.dtype, device = x.device })):log() / -rate)
end)
--- x becomes integers from low to high; random_(high): from 1 on.
def(":random_(x: T, high: int = 16777216) -> T",
  function(x, high)
    return x:copy_(flame.randint(x.shape, 1, high, { device = x.device }):to(x.dtype))
  end,
  ":random_(x: T, low: int, high: int) -> T", function(x, low, high)
    return x:copy_(flame.randint(x.shape, low, high, { device = x.device }):to(x.dtype))
  end)
