--- Pooling. A mean and its adjoint, and taking and putting by position, are pairs of calls, so that
--- gradients of any order are again these. Options as those of convolutions (core_conv.lua).
local flame, _, internal = ...
local fail, need_tensor, def = internal.failf, internal.need_tensor, internal.def
local float = { f64 = true, f32 = true, f16 = true, bf16 = true }
local w, tracked = internal.windows, internal.tracked
local arguments, per_axis, text = w.arguments, w.per_axis, w.text
local three, append, tail = w.three, w.append, w.tail

local function flag(op, name, v)
  if type(v) ~= "boolean" then
    fail(op, "%s must be true or false, got %s", name, internal.word(v))
  end
  return v
end

-- ---- pooling ------------------------------------------------------------------------------------
--- s: what, params, x, y (shapes of all planes), dtype.
local max_pool, pool_take, pool_put, avg_pool, avg_pool_back

local function make_pools()
  pool_put = flame.func { name = "pool_put",
    forward = function(ctx, g, at, s)
      ctx:save(at)
      ctx.s = s
      return internal.call("pool_put", s.what, { g, at }, s.params, s.x, g.dtype)
    end,
    backward = function(ctx, h) return pool_take(h, ctx:saved(), ctx.s) end }
  pool_take = flame.func { name = "pool_take",
    forward = function(ctx, x, at, s)
      ctx:save(at)
      ctx.s = s
      return internal.call("pool_take", s.what, { x, at }, s.params, s.y, x.dtype)
    end,
    backward = function(ctx, g) return pool_put(g, ctx:saved(), ctx.s) end }
  max_pool = flame.func { name = "max_pool",
    forward = function(ctx, x, s)
      ctx:save(x)
      ctx.s = s
      return internal.call("max_pool", s.what, { x }, s.params, s.y, x.dtype)
    end,
    backward = function(ctx, g)
      local s = ctx.s
      return pool_put(g,
        internal.call("max_pool_at", s.what, { ctx:saved() }, s.params, s.y, "i64"), s)
    end }
  avg_pool = flame.func { name = "avg_pool",
    forward = function(ctx, x, s)
      ctx.s = s
      return internal.call("avg_pool", s.what, { x }, s.params, s.y, x.dtype)
    end,
    backward = function(ctx, g) return avg_pool_back(g, ctx.s) end }
  avg_pool_back = flame.func { name = "avg_pool_back",
    forward = function(ctx, g, s)
      ctx.s = s
      return internal.call("avg_pool_back", s.what, { g }, s.params, s.x, g.dtype)
    end,
    backward = function(ctx, h) return avg_pool(h, ctx.s) end }
end

--- The planes of x (n, c, sizes) or (c, sizes): their number, sizes, and the leading axes.
local function planes_of(op, n, x)
  need_tensor(op, "x", x)
  if x.ndim ~= n + 1 and x.ndim ~= n + 2 then
    fail(op, "x has shape %s, need %d axes, or %d without a batch", text(x.shape), n + 2, n + 1)
  end
  if x.dtype == "bool" then fail(op, "x is bool, need numbers") end
  local shape, lead, planes = x.shape, {}, 1
  for i = 1, #shape - n do
    lead[i] = shape[i]
    planes = planes * shape[i]
  end
  for i = #lead == 1 and 1 or 2, #shape do
    if shape[i] == 0 then fail(op, "x has shape %s: only the batch may be empty", text(shape)) end
  end
  return planes, tail(shape, n), lead
end

local function pool_params(planes, size, k, out, stride, pad, dilation, adaptive,
    include_pad, divisor)
  local p = append({ planes }, three(size, 1))
  append(p, three(k, 1))
  append(p, three(out, 1))
  append(p, three(stride, 1))
  append(p, three(pad, 0))
  append(p, three(dilation, 1))
  return append(p, { adaptive and 1 or 0, include_pad and 1 or 0, divisor or 0 })
end

--- Kernel, stride and padding of a window, and the sizes of the result.
local function windows(op, n, size, o)
  if not o.kernel_size then fail(op, "kernel_size is missing") end
  local k = per_axis(op, "kernel_size", o.kernel_size, n, 1)
  local stride = o.stride and per_axis(op, "stride", o.stride, n, 1) or k
  local pad, dilation = per_axis(op, "padding", o.padding, n, 0),
    per_axis(op, "dilation", o.dilation or 1, n, 1)
  local out, ceil = {}, flag(op, "ceil_mode", o.ceil_mode)
  for i = 1, n do
    local span = dilation[i] * (k[i] - 1) + 1
    if pad[i] > (o.dilation and span or k[i]) // 2 then
      fail(op, "padding = %d, need at most half of the kernel, which spans %d", pad[i], span)
    end
    local room = size[i] + 2 * pad[i] - span
    out[i] = (room + (ceil and stride[i] - 1 or 0)) // stride[i] + 1
    if ceil and (out[i] - 1) * stride[i] >= size[i] + pad[i] then out[i] = out[i] - 1 end
    if out[i] < 1 then
      fail(op, "the kernel spans %d, axis %d from the end has %d elements with padding", span,
        n - i + 1, size[i] + 2 * pad[i])
    end
  end
  return k, stride, pad, dilation, out
end

local function with(lead, sizes)
  return append(table.move(lead, 1, #lead, 1, {}), sizes)
end

--- Values, and positions in their planes if asked for.
local function largest(x, s, positions)
  if not max_pool then make_pools() end
  local track = tracked(x)
  if not positions then
    return track and max_pool(x, s)
      or internal.call("max_pool", s.what, { x }, s.params, s.y, x.dtype)
  end
  local at = internal.call("max_pool_at", s.what, { x:detach() }, s.params, s.y, "i64")
  return track and pool_take(x, at, s)
    or internal.call("pool_take", s.what, { x, at }, s.params, s.y, x.dtype), at
end

local MAX = { "kernel_size", "stride", "padding", "dilation", "ceil_mode", "return_indices" }
local AVG = { "kernel_size", "stride", "padding", "ceil_mode", "count_include_pad",
  "divisor_override" }
local function need_float(op, x)
  if not float[x.dtype] then fail(op, "x is %s, need a float", x.dtype) end
end

local function pools(n)
  local suffix = n .. "d"
  local max_name, avg_name = "max_pool" .. suffix, "avg_pool" .. suffix
  def(max_name, 7, function(x, ...)
    local planes, size, lead = planes_of(max_name, n, x)
    local o = arguments(max_name, MAX,
      { kernel_size = false, stride = false, padding = 0, dilation = 1, ceil_mode = false,
      return_indices = false }, ...)
    local k, stride, pad, dilation, out = windows(max_name, n, size, o)
    local s = { what = max_name, x = x.shape, y = with(lead, out),
      params = pool_params(planes, size, k, out, stride, pad, dilation) }
    return largest(x, s, flag(max_name, "return_indices", o.return_indices))
  end)
  def(avg_name, 7, function(x, ...)
    local planes, size, lead = planes_of(avg_name, n, x)
    need_float(avg_name, x)
    local o = arguments(avg_name, AVG,
      { kernel_size = false, stride = false, padding = 0, ceil_mode = false,
      count_include_pad = true, divisor_override = false }, ...)
    local k, stride, pad, dilation, out = windows(avg_name, n, size, o)
    local divisor = o.divisor_override and internal.need_int(avg_name, "divisor_override",
      o.divisor_override) or nil
    if divisor == 0 then fail(avg_name, "divisor_override is 0") end
    if not avg_pool then make_pools() end
    local s = { what = avg_name, x = x.shape, y = with(lead, out),
      params = pool_params(planes, size, k, out, stride, pad,
      dilation, false, flag(avg_name, "count_include_pad", o.count_include_pad), divisor) }
    return avg_pool(x, s)
  end)
end
--- (x, kernel_size[, stride, padding, dilation, ceil_mode, return_indices]) of x (n, c, …) or (c,
-- …); stride is kernel_size where it is left out. Positions count the plane's elements from 1.
-- avg_poolNd (x, kernel_size[, stride, padding, ceil_mode, count_include_pad, divisor_override]).
for n = 1, 3 do pools(n) end

--- Sizes of an adaptive result; false keeps the axis' own.
local function adaptive_sizes(op, n, size, v)
  local out = {}
  if type(v) == "table" and #v ~= n and #v ~= 1 then
    fail(op, "output_size has %d numbers, need 1 or %d", #v, n)
  end
  for i = 1, n do
    local one = v
    if type(v) == "table" then one = v[#v == 1 and 1 or i] end
    out[i] = one and internal.need_int(op, "output_size", one) or size[i]
    if out[i] < 0 then fail(op, "output_size = %d, need at least 0", out[i]) end
  end
  return out
end

local function adaptive(n)
  local max_name, avg_name = "adaptive_max_pool" .. n .. "d", "adaptive_avg_pool" .. n .. "d"
  local function prepare(op, x, output_size)
    local planes, size, lead = planes_of(op, n, x)
    local out, one = adaptive_sizes(op, n, size, output_size), {}
    for i = 1, n do one[i] = 1 end
    local zero = { 0, 0, 0 }
    if not max_pool then make_pools() end
    return { what = op, x = x.shape, y = with(lead, out),
      params = pool_params(planes, size, one, out, one, table.move(zero, 1, n, 1, {}), one, true) }
  end
  --- One window a plane is a reduction, which is shared among threads.
  local function whole(s)
    for i = 1, n do if s.y[#s.y - n + i] ~= 1 then return false end end
    return true
  end
  def(max_name, 3, function(x, ...)
    local o = arguments(max_name, { "output_size", "return_indices" },
      { output_size = false, return_indices = false }, ...)
    local s, positions = prepare(max_name, x, o.output_size),
      flag(max_name, "return_indices", o.return_indices)
    if not whole(s) or x.dtype == "bool" then return largest(x, s, positions) end
    local y, at = x:flatten(x.ndim - n + 1, x.ndim):max(-1)
    y = y:reshape(s.y)
    if positions then return y, at:reshape(s.y) end
    return y
  end)
  def(avg_name, 2, function(x, ...)
    local o = arguments(avg_name, { "output_size" }, { output_size = false }, ...)
    local s = prepare(avg_name, x, o.output_size)
    need_float(avg_name, x)
    if not whole(s) then return avg_pool(x, s) end
    local axes = {}
    for i = 1, n do axes[i] = i - n - 1 end
    return x:mean(axes, { keepdim = true })
  end)
end
--- (x, output_size[, return_indices]): windows from floor(i in / out) to ceil((i + 1) in / out).
for n = 1, 3 do adaptive(n) end

--- (sum of x^p over the window)^(1/p), as PyTorch has it.
local function lp_pool(n)
  local name, avg = "lp_pool" .. n .. "d", "avg_pool" .. n .. "d"
  def(name, 5, function(x, p, ...)
    need_tensor(name, "x", x)
    if type(p) ~= "number" or p == 0 then
      fail(name, "norm_type must be a number other than 0, got %s", tostring(p))
    end
    local o = arguments(name, { "kernel_size", "stride", "ceil_mode" },
      { kernel_size = false, stride = false, ceil_mode = false }, ...)
    if not o.kernel_size then fail(name, "kernel_size is missing") end
    local k, count = per_axis(name, "kernel_size", o.kernel_size, n, 1), 1
    for i = 1, n do count = count * k[i] end
    local mean = flame[avg](x:pow(p), k, o.stride or nil, 0, o.ceil_mode)
    return (mean:detach():sign() * mean:abs():relu() * count):pow(1 / p)
  end)
end
lp_pool(1)
lp_pool(2)
lp_pool(3)

--- (x, indices, kernel_size[, stride, padding, output_size]): values back to
--- the positions that max_pool gave.
local function unpool(n)
  local name = "max_unpool" .. n .. "d"
  def(name, 6, function(x, at, ...)
    local _, size, lead = planes_of(name, n, x)
    need_tensor(name, "indices", at)
    local o = arguments(name, { "kernel_size", "stride", "padding", "output_size" },
      { kernel_size = false, stride = false, padding = 0, output_size = false }, ...)
    if not o.kernel_size then fail(name, "kernel_size is missing") end
    if text(at.shape) ~= text(x.shape) then
      fail(name, "x has shape %s, indices %s", text(x.shape), text(at.shape))
    end
    local k = per_axis(name, "kernel_size", o.kernel_size, n, 1)
    local stride, pad = per_axis(name, "stride", o.stride or k, n, 1),
      per_axis(name, "padding", o.padding, n, 0)
    local out, volume, count = {}, 1, 1
    local given = o.output_size and tail(o.output_size, n)
    for i = 1, n do
      out[i] = given and given[i] or (size[i] - 1) * stride[i] - 2 * pad[i] + k[i]
      volume, count = volume * out[i], count * size[i]
    end
    local flat = with(lead, { volume })
    local y = flame.zeros(flat, { dtype = x.dtype, device = x.device })
    at, x = at:reshape(with(lead, { count })), x:reshape(with(lead, { count }))
    internal.naming(name)
    return y:scatter(#flat, at, x):reshape(with(lead, out)):clone()
  end)
end
for n = 1, 3 do unpool(n) end

--- x / (k + alpha * mean of x^2 over 'size' channels)^beta.
def("local_response_norm", 5, function(x, ...)
  local op = "local_response_norm"
  need_tensor(op, "x", x)
  local o = arguments(op, { "size", "alpha", "beta", "k" },
    { size = false, alpha = 1e-4, beta = 0.75, k = 1 }, ...)
  if not o.size then fail(op, "size is missing") end
  if x.ndim < 3 then fail(op, "x has shape %s, need at least 3 axes", text(x.shape)) end
  local n, shape = per_axis(op, "size", o.size, 1, 1)[1], x.shape
  local rest = 1
  for k = 3, #shape do rest = rest * shape[k] end
  local square = (x * x):reshape(shape[1], 1, shape[2], rest)
  square = square:pad({ 0, 0, n // 2, (n - 1) // 2 })
  local mean = flame.avg_pool2d(square, { n, 1 }, 1):reshape(shape)
  return x / (mean * o.alpha + o.k):pow(o.beta)
end)
