--- The rest of core_extra.lua: shapes, positions, writes with random numbers. Positions are 1-based
-- here as everywhere: in tril_indices, combinations, take_along_dim, scatter_reduce.
local flame, methods, internal = ...
local fail, need_tensor, need_int = internal.failf, internal.need_tensor, internal.need_int
local defaults, axis_of, add, where = internal.defaults, internal.axis_of,
  internal.add_name, flame.where

-- ---- shapes -------------------------------------------------------------------------------------
add("ravel", 1, function(x) return need_tensor("ravel", "x", x):reshape(-1) end)
add("fliplr", 1, function(x) return need_tensor("fliplr", "x", x):flip(2) end)
add("flipud", 1, function(x)
  if need_tensor("flipud", "x", x).ndim == 0 then
    fail("flipud", "x is 0-d, need at least one axis")
  end
  return x:flip(1)
end)
--- Turned by k quarters in the plane of two axes, from the first towards the second.
---@param k? integer  1
---@param axes? integer[]  {1, 2}
add("rot90", 3, function(x, ...)
  need_tensor("rot90", "x", x)
  local o = internal.arguments("rot90", { "k", "dims" }, { k = 1, dims = { 1, 2 } }, ...)
  local k, axes = o.k, o.dims
  if type(axes) ~= "table" or #axes ~= 2 then fail("rot90", "axes must be two") end
  local a, b = axis_of("rot90", x, axes[1]), axis_of("rot90", x, axes[2])
  if a == b then fail("rot90", "the two axes must differ") end
  k = need_int("rot90", "k", k) % 4
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
  local name, lift = ("atleast_%dd"):format(n), at_least(n)
  local function one(x, what) return lift(need_tensor(name, what, x)):clone() end
  --- x with that many axes at least; of a list of tensors a list.
  add(name, 1, function(x)
    if type(x) ~= "table" then return one(x, "x") end
    local out = {}
    for k, y in ipairs(x) do out[k] = one(y, ("tensors[%d]"):format(k)) end
    return out
  end)
end
local function stacked(name, lift, d)
  add(name, 1, function(list)
    if type(list) ~= "table" then
      fail(name, "tensors must be a list of tensors, got %s", internal.word(list))
    end
    local parts = {}
    for k, x in ipairs(list) do parts[k] = lift(need_tensor(name, ("tensors[%d]"):format(k), x)) end
    return flame.cat(parts, type(d) == "function" and d(parts[1]) or d)
  end, "module")
end
stacked("hstack", at_least(1), function(x) return x and x.ndim > 1 and 2 or 1 end)
stacked("vstack", at_least(2), 1)
stacked("row_stack", at_least(2), 1)
stacked("dstack", at_least(3), 3)
stacked("column_stack", function(x) return x.ndim < 2 and x:reshape(-1, 1) or x end, 2)
--- n parts along d as equal as can be, or cuts behind the positions of a list.
---@param n integer|integer[]|flame.Tensor
---@param d? integer  1
---@return flame.Tensor[]
add("tensor_split", 3, function(x, n, d)
  d = axis_of("tensor_split", need_tensor("tensor_split", "x", x), d or 1)
  local size, parts, first = x.shape[d], {}, 0
  if size == nil then fail("tensor_split", "a 0-d tensor has no axes") end
  if flame.is_tensor(n) then
    if n:is_floating_point() or n.ndim > 1 then
      fail("tensor_split", "n is %s of %d axes, need integers, one axis at most", n.dtype, n.ndim)
    end
    n = n:totable()
  end
  if type(n) == "table" then
    for k = 1, #n + 1 do
      local last = k > #n and size or need_int("tensor_split", "position", n[k])
      last = math.max(math.min(last < 0 and last + size or last, size), 0)
      local count = math.max(last - first, 0)
      parts[k] = x:narrow(d, count > 0 and first + 1 or 1, count)
      first = last
    end
    return parts
  end
  if need_int("tensor_split", "n", n) < 1 or n > 65536 then
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
---@param ... flame.Tensor
---@return flame.Tensor
add("block_diag", 64, function(...)
  local list, rows, columns = { ... }, 0, 0
  for k, x in ipairs(list) do
    if need_tensor("block_diag", "tensor " .. k, x).ndim > 2 then
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
end, "module")
--- All choices of one element from each, as rows.
---@param ... flame.Tensor
---@return flame.Tensor
add("cartesian_prod", 64, function(...)
  local list = flame.meshgrid(...)
  if #list == 1 then return list[1]:clone() end
  for k, x in ipairs(list) do list[k] = x:reshape(-1) end
  return flame.stack(list, 2)
end, "module")
--- All choices of r elements of x in order, as rows.
---@param r? integer  2
---@param with_replacement? boolean  false
add("combinations", 3, function(x, r, with_replacement)
  if need_tensor("combinations", "x", x).ndim ~= 1 then
    fail("combinations", "x has %d axes, need 1", x.ndim)
  end
  local o = defaults("combinations", { "r", "with_replacement" },
    { r = 2, with_replacement = false }, r, with_replacement)
  local n, at, now = x.shape[1], {}, {}
  local function choose(k, from)
    if k > o.r then at[#at + 1] = table.move(now, 1, o.r, 1, {}) return end
    for i = from, n do now[k] = i; choose(k + 1, o.with_replacement and i or i + 1) end
  end
  if o.r > 0 then choose(1, 1) end
  if o.r == 0 then return flame.zeros({ 0 }, { dtype = x.dtype, device = x.device }) end
  if #at == 0 then return flame.zeros(0, o.r, { dtype = x.dtype, device = x.device }) end
  return x:take(flame.tensor(at, { dtype = "i64", device = x.device }))
end)
-- A loop over the rows; what is as large as the result is recorded.
local function triangle_indices(name, upper)
  add(name, 4, function(rows, columns, ...)
    for k, what in ipairs { "rows", "columns" } do
      local n = k == 1 and rows or columns
      if need_int(name, what, n) < 0 then fail(name, "%s = %d is negative", what, n) end
    end
    local o = defaults(name, { "offset" },
      { offset = 0, device = flame.default_device(), dtype = "i64" }, ...)
    local offset, ends, shift, total = need_int(name, "offset", o.offset), {}, {}, 0
    for i = 1, rows do
      local first = upper and math.max(i + offset, 1) or 1
      shift[i] = first - 1 - total
      total = total + math.max((upper and columns or math.min(i + offset, columns)) - first + 1, 0)
      ends[i] = total
    end
    if total == 0 then return flame.zeros({ 2, 0 }, { dtype = o.dtype, device = o.device }) end
    local integers = { dtype = "i64", device = o.device }
    local k = flame.arange(1, total, integers)
    local row = flame.searchsorted(flame.tensor(ends, integers), k)
    return flame.stack({ row, k + flame.tensor(shift, integers):take(row) }):to(o.dtype)
  end, "module")
end
triangle_indices("tril_indices", false)
triangle_indices("triu_indices", true)
local function whole(v)
  return type(v) == "number" and (v < 0 and math.ceil(v) or math.floor(v)) or v
end
--- n values from base^first to base^last, equally apart in the exponent.
---@param base? number  10
---@param o? table  {dtype =, device =, requires_grad =}
---@return flame.Tensor
add("logspace", 5, function(first, last, n, base, o)
  if type(base) == "table" then base, o = nil, base end
  local dtype = o and o.dtype or "f32"
  -- integers, as in linspace
  if not dtype:find("f", 1, true) then first, last = whole(first), whole(last) end
  local y = flame.linspace(first, last, n, { dtype = "f64", device = o and o.device })
  y = ((base or 10.0) ^ y):to(dtype)
  return o and o.requires_grad and y:requires_grad_(true) or y
end, "module")
--- A vector as the diagonal of a matrix of zeros; of a matrix its diagonal.
---@param k? integer  0
add("diag", 2, function(x, k)
  if need_tensor("diag", "x", x).ndim > 2 or x.ndim == 0 then
    fail("diag", "x has %d axes, need 1 or 2", x.ndim)
  end
  k = defaults("diag", { "diagonal" }, { diagonal = 0 }, k).diagonal
  return x.ndim == 2 and x:diagonal(k):clone() or flame.diag_embed(x, k)
end)
--- All elements as the diagonal of a matrix of zeros.
---@param k? integer  0
add("diagflat", 2, function(x, k)
  k = defaults("diagflat", { "offset" }, { offset = 0 }, k).offset
  return flame.diag_embed(need_tensor("diagflat", "x", x):reshape(-1), k)
end)
for name, of in pairs { view_as = "reshape", reshape_as = "reshape" } do
  add(name, 2, function(x, y)
    return need_tensor(name, "x", x)[of](x, need_tensor(name, "y", y).shape)
  end)
end
add("type_as", 2, function(x, y)
  return need_tensor("type_as", "x", x):to(need_tensor("type_as", "y", y).dtype)
end)

local function options_like(op, x, o)
  return internal.options(op, o,
    { dtype = need_tensor(op, "x", x).dtype, device = x.device, requires_grad = false })
end
--- x:new_zeros(…sizes[, options]): of x's dtype and device.
for _, name in ipairs { "zeros", "ones", "empty" } do
  methods["new_" .. name] = internal.checked(function(x, ...)
    local list, o = table.pack(...), nil
    if list.n > 1 and type(list[list.n]) == "table" or list.n == 1 and type(list[1]) == "table"
        and list[1][1] == nil and next(list[1]) then
      o, list.n = list[list.n], list.n - 1
    end
    local sizes = list.n == 1 and type(list[1]) == "table" and list[1]
      or table.move(list, 1, list.n, 1, {})
    return flame[name](sizes, options_like("new_" .. name, x, o))
  end, "new_" .. name, 10)
end
methods.new_full = internal.checked(function(x, shape, v, o)
  return flame.full(shape, v, options_like("new_full", x, o))
end, "new_full", 4)
methods.new_tensor = internal.checked(function(x, v, o)
  return flame.tensor(v, options_like("new_tensor", x, o))
end, "new_tensor", 3)

-- ---- by position --------------------------------------------------------------------------------
--- gather with shapes that broadcast; without d, of the flat x.
---@param d? integer
add("take_along_dim", 3, function(x, idx, d)
  need_tensor("take_along_dim", "x", x)
  need_tensor("take_along_dim", "idx", idx)
  if d == nil then
    x, idx = x:reshape(-1), idx:reshape(-1)
    internal.naming("take_along_dim")
    return x:gather(1, idx)
  end
  d = axis_of("take_along_dim", x, d)
  local p, q = x.shape, idx.shape
  if #p ~= #q then fail("take_along_dim", "x has %d axes and idx %d", #p, #q) end
  p[d], q[d] = 1, 1
  local shape = internal.broadcast_shape("take_along_dim", { flame.zeros(p), flame.zeros(q) })
  p, q = table.move(shape, 1, #shape, 1, {}), shape
  p[d], q[d] = x.shape[d], idx.shape[d]
  x, idx = x:expand(p), idx:expand(q)
  internal.naming("take_along_dim")
  return x:gather(d, idx)
end)
--- x where mask is false; where it is true the elements of src, in order.
add("masked_scatter", 3, function(x, mask, src)
  need_tensor("masked_scatter", "x", x)
  if need_tensor("masked_scatter", "mask", mask).dtype ~= "bool" then
    fail("masked_scatter", "mask is %s, need bool", mask.dtype)
  end
  if need_tensor("masked_scatter", "src", src).dtype ~= x.dtype then
    fail("masked_scatter", "src is %s and x %s\1: cast one of them", src.dtype, x.dtype)
  end
  x = x:expand(internal.broadcast_shape("masked_scatter", { x, mask }))
  local hit = mask:expand(x.shape)
  local at = hit:reshape(-1):cumsum(1)
  local n = x:numel() > 0 and at[-1]:item() or 0
  if n > src:numel() then
    fail("masked_scatter", "mask is true at %d positions, src has %d elements", n, src:numel())
  end
  if n == 0 then return x:clone() end
  return where(hit, src:reshape(-1):take(at:clamp({ min = 1 })):reshape(x.shape), x)
end, "e")
--- y with the region 'key' written, where src has its shape.
local function with_region(op, x, key, src)
  local y, want = x:clone(), x[key].shape
  if table.concat(need_tensor(op, "src", src).shape, ", ") ~= table.concat(want, ", ") then
    fail(op, "src has shape (%s), the region (%s)", table.concat(src.shape, ", "),
      table.concat(want, ", "))
  end
  y[key] = src
  return y
end
--- x with one position of axis d replaced by src.
add("select_scatter", 4, function(x, src, d, i)
  d = axis_of("select_scatter", need_tensor("select_scatter", "x", x), d)
  local key = {}
  for k = 1, x.ndim do key[k] = k == d and i or {} end
  return with_region("select_scatter", x, key, src)
end)
--- x with positions first to last (every step-th) of axis d replaced by src.
---@param d? integer  1
---@param first? integer  1
---@param last? integer  the end
---@param step? integer  1
add("slice_scatter", 6, function(x, src, d, first, last, step)
  d = axis_of("slice_scatter", need_tensor("slice_scatter", "x", x), d or 1)
  local key = {}
  for k = 1, x.ndim do key[k] = k == d and { first or 1, last or x.shape[d], step or 1 } or {} end
  return with_region("slice_scatter", x, key, src)
end)

-- ---- writes with random numbers -----------------------------------------------------------------
methods.bernoulli_ = internal.checked(function(x, p)
  p = p == nil and 0.5 or p
  if type(p) == "number" and not (p >= 0 and p <= 1) then
    fail("bernoulli_", "p = %g, need 0 <= p <= 1", p)
  end
  return x:copy_(flame.rand(x.shape, { device = x.device }):lt(p):to(x.dtype))
end, "bernoulli_", 2)
methods.exponential_ = internal.checked(function(x, rate)
  rate = rate == nil and 1 or internal.need_number("exponential_", "rate", rate)
  if not (rate > 0) then fail("exponential_", "rate = %g, need rate > 0", rate) end
  return x:copy_((1 - flame.rand(x.shape, { dtype = x.dtype, device = x.device })):log() / -rate)
end, "exponential_", 2)
methods.random_ = internal.checked(function(x, low, high)
  if high == nil then low, high = 1, low or 2 ^ 24 | 0 end
  return x:copy_(flame.randint(x.shape, low, high, { device = x.device }):to(x.dtype))
end, "random_", 3)
