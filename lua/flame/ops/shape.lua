--- Functions that move, repeat, split and join axes. Positions count from 1, also those that
-- tril_indices and triu_indices return.
local flame = require "flame"
local arguments = require "flame.base.arguments"
local fail, def, axis_of = arguments.fail, arguments.def, arguments.axis_of
local need_int, is_tensor = arguments.need_int, flame.is_tensor

--- Moves the axes in source to the places in destination; both are numbers, or lists of equal
--- length.
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

--- x repeated dims[d] times along each axis; the last number is for the last axis.
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
-- x with each slice along axis d repeated counts[i] times; counts is a list of numbers.
local function by_counts(x, counts, d)
  local ends, total = {}, 0
  if #counts ~= x.shape[d] then
    fail("repeat_interleave", "%d counts, axis %d has %d elements", #counts, d, x.shape[d])
  end
  for i, count in ipairs(counts) do
    if count < 0 then fail("repeat_interleave", "count %d is %d", i, count) end
    if count > 2^53 - total then fail("repeat_interleave", "the counts make too many elements") end
    total = total + count
    ends[i] = total
  end
  local options = { dtype = "i64", device = x.device }
  local at = flame.searchsorted(flame.tensor(ends, options), flame.arange(1, total, 1, options))
  return x:index_select(d, at)
end
local function repeated(x, n, d)
  if is_tensor(n) then
    if n.dtype == "bool" then fail("repeat_interleave", "repeats is bool, need integers") end
    if arguments.need_integers("repeat_interleave", "repeats", n):numel() == 1 then n = n:item() end
  end
  if is_tensor(n) then return by_counts(x, n:detach():reshape(-1):totable(), d) end
  local wide, last = x:unsqueeze(d + 1).shape, x.shape
  wide[d + 1], last[d] = n, last[d] * n
  return x:unsqueeze(d + 1):expand(wide):reshape(last):clone()
end
--- Repeats each element 'repeats' times (a tensor: each its own) along dim; without dim, of flat x.
--- output_size: the number of elements that the result must have.
def("repeat_interleave(x: T, repeats: int|T, dim?: axis, *, output_size?: int) -> T",
  function(x, n, d, size)
    if d == nil then x, d = x:reshape(-1), 1 end
    d = axis_of("repeat_interleave", x, d)
    if x.ndim == 0 then x = x:reshape(1) end
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
--- Shifts elements along axes; those pushed past the end come back at the beginning. Without dims
--- it shifts x as one row of elements.
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

--- Broadcasts all tensors to their common shape.
def(".broadcast(tensors...: T) -> T[]", function(...)
  local list = { ... }
  local shape = arguments.broadcast_shape("broadcast", list)
  for i = 1, #list do list[i] = list[i]:expand(shape) end
  return list
end)
--- The coordinates of all points of a grid, one tensor per axis.
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
--- All elements as one axis.
def("ravel(x: T) -> T", function(x) return x:reshape(-1) end)
--- Reverses the second axis.
def("fliplr(x: T) -> T", function(x) return x:flip(2) end)
--- Reverses the first axis.
def("flipud(x: T) -> T", function(x)
  if x.ndim == 0 then fail("flipud", "x is 0-d, need at least one axis") end
  return x:flip(1)
end)
--- Rotates by k quarter turns in the plane of two axes, from the first towards the second.
def("rot90(x: T, k: int = 1, dims: axis[] = {1, 2}) -> T", function(x, k, axes)
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
  --- x with at least this many axes; for a list of tensors a list.
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
--- Joins tensors side by side: along the second axis, or the first for vectors.
stacked("hstack", at_least(1), function(x) return x and x.ndim > 1 and 2 or 1 end)
--- Joins tensors along the first axis; vectors count as rows.
stacked("vstack", at_least(2), 1)
--- The same as vstack.
stacked("row_stack", at_least(2), 1)
--- Joins tensors along the third axis.
stacked("dstack", at_least(3), 3)
--- Joins vectors as columns of a matrix.
stacked("column_stack", function(x) return x.ndim < 2 and x:reshape(-1, 1) or x end, 2)
--- The Toeplitz matrix of the first column c and the first row r (its first element is not read);
--- without r it is symmetric. Axes before the last are those of a batch.
---@example Making tensors: flame.arange(3):toeplitz()
def("toeplitz(c: T, r?: T) -> T", function(c, r)
  r = r or c
  if c.ndim == 0 or r.ndim ~= c.ndim then
    fail("toeplitz", "c has %d axes, r %d, need equally many, at least one", c.ndim, r.ndim)
  end
  local n, m, shape = c.shape[c.ndim], r.shape[c.ndim], c.shape
  shape[c.ndim + 1] = m
  if n == 0 or m == 0 then return flame.cat({ c, r }, c.ndim):new_zeros(shape) end
  -- row i is a window of (c[n] … c[1] r[2] … r[m]); the last row begins at the first element
  local all = flame.cat({ c:flip(-1), r:narrow(-1, 2, m - 1) }, c.ndim)
  return all:unfold(c.ndim, m, 1):flip(c.ndim)
end)

--- Splits along dim into n parts of nearly equal size, or after the positions in a list.
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
--- A matrix of zeros with the given matrices as blocks along its diagonal.
def(".block_diag(tensors...: T) -> T", function(...)
  local list, before, columns = { ... }, 0, 0
  for k, x in ipairs(list) do
    if x.ndim > 2 then
      fail("block_diag", "tensor %d has %d axes, need 2 at most", k, x.ndim)
    end
    list[k] = x.ndim < 2 and x:reshape(1, -1) or x
    columns = columns + list[k].shape[2]
  end
  for k, x in ipairs(list) do
    list[k] = x:pad({ before, columns - before - x.shape[2] })
    before = before + x.shape[2]
  end
  return #list > 0 and flame.cat(list, 1) or flame.zeros(1, 0)
end)
--- All choices of one element from each vector, as rows.
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
-- Positions are made row by row, so that no op works on the whole rows x columns matrix.
local LONGEST <const> = 1 << 24    -- most rows and columns, since Lua loops over rows
local function triangle_indices(name, upper)
  def("." .. name .. [[(rows: int, columns: int, offset: int = 0, *, dtype: dtype = "i64",
      device?: device) -> T]], function(rows, columns, offset, dtype, device)
    for what, n in pairs { rows = rows, columns = columns } do
      if n < 0 then fail(name, "%s = %d is negative", what, n) end
      if n > LONGEST then fail(name, "%s = %d, need at most %d", what, n, LONGEST) end
    end
    offset = math.max(-LONGEST, math.min(offset, LONGEST))
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
--- Positions of the lower triangle: one row of row numbers, one of column numbers.
triangle_indices("tril_indices", false)
--- Positions of the upper triangle: one row of row numbers, one of column numbers.
triangle_indices("triu_indices", true)
local function whole(v)
  return type(v) == "number" and (v < 0 and math.ceil(v) or math.floor(v)) or v
end
--- n values from base^first to base^last with equally spaced exponents.
def(".logspace(first: num, last: num, n: int, base = 10.0, *factory) -> T",
  function(first, last, n, base, dtype, device, requires_grad)
    dtype = dtype or flame.default_dtype()
    -- exponents of integer results are truncated, as linspace does with its bounds
    if not dtype:find("f", 1, true) then first, last = whole(first), whole(last) end
    local y = flame.linspace(first, last, n, { dtype = "f64", device = device })
    y = (base ^ y):to(dtype)
    return requires_grad and y:requires_grad_(true) or y
  end)
--- For a vector, a matrix of zeros with the vector on its diagonal; for a matrix, its diagonal.
def("diag(x: T, diagonal: int = 0) -> T", function(x, k)
  if x.ndim > 2 or x.ndim == 0 then fail("diag", "x has %d axes, need 1 or 2", x.ndim) end
  return x.ndim == 2 and x:diagonal(k):clone() or flame.diag_embed(x, k)
end)
--- A matrix of zeros with all elements of x as its diagonal.
def("diagflat(x: T, offset: int = 0) -> T",
  function(x, k) return flame.diag_embed(x:reshape(-1), k) end)
--- x in y's shape.
def("view_as(x: T, y: T) -> T", function(x, y) return x:reshape(y.shape) end)
--- x in y's shape.
def("reshape_as(x: T, y: T) -> T", function(x, y) return x:reshape(y.shape) end)
--- x in y's dtype.
def("type_as(x: T, y: T) -> T", function(x, y) return x:to(y.dtype) end)

-- The options of a new tensor; dtype and device are x's if they are not given.
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
--- A tensor filled with the value, with x's dtype and device.
def(":new_full(x: T, shape: int|int[], value: num|bool, *factory) -> T",
  function(x, shape, v, ...) return flame.full(shape, v, like(x, ...)) end)
--- A tensor of the values, of x's dtype and device.
def(":new_tensor(x: T, values: num|bool|table, *factory) -> T",
  function(x, v, ...) return flame.tensor(v, like(x, ...)) end)
