--- Pooling. Means and their adjoint, and reads and writes by position, are pairs of ops, each of
--- which is the other's gradient, to any order. Options are as for convolutions (ops/conv.lua).
local flame = require "flame"
local internal = flame.internal
local arguments = require "flame.base.arguments"
local dtypes = require "flame.base.dtypes"
local recording = require "flame.base.recording"
local w = require "flame.ops.conv"
local fail, def = arguments.fail, arguments.def
local float = dtypes.float
local tracked = recording.tracked
local per_axis, text, three, append, tail = w.per_axis, w.text, w.three, w.append, w.tail

-- ---- pooling ------------------------------------------------------------------------------------
--- The ops, functions of tensors and s = {what = op's name, params, shapes x and y, gaps: see
--- largest}.
local max_pool, pool_take, pool_put, avg_pool, avg_pool_back

local function make_pools()
  pool_put = flame.func { name = "pool_put",
    forward = function(ctx, g, at, s)
      ctx:save(at)
      ctx.s = s
      return internal.call("pool_put", s.what, { g, at }, s.params, s.x, g.dtype)
    end,
    backward = function(ctx, h) return pool_take(h, ctx:saved(), ctx.s), nil end }
  pool_take = flame.func { name = "pool_take",
    forward = function(ctx, x, at, s)
      ctx:save(at)
      ctx.s = s
      return internal.call("pool_take", s.what, { x, at }, s.params, s.y, x.dtype)
    end,
    backward = function(ctx, g) return pool_put(g, ctx:saved(), ctx.s), nil end }
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

-- Reads x (n, c, sizes) or (c, sizes) as planes: their number, their sizes, the leading axes.
local function planes_of(op, n, x)
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

-- Checks a pooling's options: returns kernel, stride (default: the kernel), padding, … as lists,
-- and the sizes of the result.
local function windows(op, n, size, k, stride, pad, dilation, ceil)
  k = per_axis(op, "kernel_size", k, n, 1)
  stride = stride and per_axis(op, "stride", stride, n, 1) or k
  pad, dilation = per_axis(op, "padding", pad, n, 0), per_axis(op, "dilation", dilation, n, 1)
  local out = {}
  for i = 1, n do
    local span = dilation[i] * (k[i] - 1) + 1
    if pad[i] > span // 2 then
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

--- The maxima of windows of x and, if 'positions' is true, their positions in the planes. s.gaps:
--- a window may have no element; its maximum is the least value of the dtype, its position 0.
local largest
function largest(x, s, positions)
  if not max_pool then make_pools() end
  local track = tracked(x)
  if not positions then
    return track and max_pool(x, s)
      or internal.call("max_pool", s.what, { x }, s.params, s.y, x.dtype)
  end
  local at = internal.call("max_pool_at", s.what, { x:detach() }, s.params, s.y, "i64")
  if s.gaps then return (largest(x, s)), at end
  return track and pool_take(x, at, s)
    or internal.call("pool_take", s.what, { x, at }, s.params, s.y, x.dtype), at
end

local function need_float(op, x)
  if not float[x.dtype] then fail(op, "x is %s, need a float", x.dtype) end
end

for n = 1, 3 do
  local name = ("max_pool%dd"):format(n)
  --- The largest of windows of x (n, c, …) or (c, …); stride is kernel_size by default. Positions
  --- count the plane's elements from 1. A window in the padding alone, which a dilation can make,
  --- gives the least value of the dtype, at position 0.
  def(name .. ([[(x: T, kernel_size: dims(%d), stride?: dims(%d), padding: dims(%d) = 0,
      dilation: dims(%d) = 1, ceil_mode = false,
      return_indices = false) -> T, positions: T if return_indices]]):format(n, n, n, n),
    function(x, k, stride, pad, dilation, ceil, positions)
      local planes, size, lead = planes_of(name, n, x)
      local out
      k, stride, pad, dilation, out = windows(name, n, size, k, stride, pad, dilation, ceil)
      local s = { what = name, x = x.shape, y = with(lead, out),
        params = pool_params(planes, size, k, out, stride, pad, dilation) }
      for i = 1, n do s.gaps = s.gaps or pad[i] > 0 and dilation[i] > 1 end
      return largest(x, s, positions)
    end)
end
for n = 1, 3 do
  local name = ("avg_pool%dd"):format(n)
  --- The means of windows of x (n, c, …) or (c, …); stride is kernel_size by default.
  --- divisor_override replaces the number of elements.
  def(name .. ([[(x: T, kernel_size: dims(%d), stride?: dims(%d), padding: dims(%d) = 0,
      ceil_mode = false, count_include_pad = true, divisor_override?: int) -> T]]):format(n, n, n),
    function(x, k, stride, pad, ceil, include_pad, divisor)
      local planes, size, lead = planes_of(name, n, x)
      local dilation, out
      need_float(name, x)
      k, stride, pad, dilation, out = windows(name, n, size, k, stride, pad, 1, ceil)
      if divisor == 0 then fail(name, "divisor_override is 0") end
      if not avg_pool then make_pools() end
      return avg_pool(x, { what = name, x = x.shape, y = with(lead, out),
        params = pool_params(planes, size, k, out, stride, pad, dilation, false, include_pad,
          divisor) })
    end)
end

-- Sizes of an adaptive result; nil or false keeps the size of an axis.
local function adaptive_sizes(op, n, size, v)
  local out = {}
  if type(v) == "table" and #v ~= n and #v ~= 1 then
    fail(op, "output_size has %d numbers, need 1 or %d", #v, n)
  end
  for i = 1, n do
    local one = v
    if type(v) == "table" then one = v[#v == 1 and 1 or i] end
    out[i] = one and arguments.need_int(op, "output_size", one) or size[i]
    if out[i] < 0 then fail(op, "output_size = %d, need at least 0", out[i]) end
  end
  return out
end

-- The arguments of an adaptive pooling's call.
local function prepare(op, n, x, output_size)
  local planes, size, lead = planes_of(op, n, x)
  local out, one, zero = adaptive_sizes(op, n, size, output_size), {}, {}
  for i = 1, n do one[i], zero[i] = 1, 0 end
  if not max_pool then make_pools() end
  return { what = op, x = x.shape, y = with(lead, out),
    params = pool_params(planes, size, one, out, one, zero, one, true) }
end
-- Is there one window per plane? Then pooling is a reduction, which is faster.
local function whole(s, n)
  for i = 1, n do if s.y[#s.y - n + i] ~= 1 then return false end end
  return true
end
for n = 1, 3 do
  local name = ("adaptive_max_pool%dd"):format(n)
  --- The largest elements of windows from floor(i in / out) to ceil((i + 1) in / out), where out is
  --- output_size; nil, or false in a list, keeps the size of an axis.
  def(name .. [[(x: T, output_size?: int|any[],
      return_indices = false) -> T, positions: T if return_indices]],
    function(x, output_size, positions)
      local s = prepare(name, n, x, output_size)
      if not whole(s, n) or x.dtype == "bool" then return largest(x, s, positions) end
      local y, at = x:flatten(x.ndim - n + 1, x.ndim):max(-1)
      y = y:reshape(s.y)
      if positions then return y, at:reshape(s.y) end
      return y
    end)
end
for n = 1, 3 do
  local name = ("adaptive_avg_pool%dd"):format(n)
  --- The means of windows from floor(i in / out) to ceil((i + 1) in / out), where out is
  --- output_size; nil, or false in a list, keeps the size of an axis.
  def(name .. "(x: T, output_size?: int|any[]) -> T", function(x, output_size)
    local s, axes = prepare(name, n, x, output_size), {}
    need_float(name, x)
    if not whole(s, n) then return avg_pool(x, s) end
    for i = 1, n do axes[i] = i - n - 1 end
    return x:mean(axes, { keepdim = true })
  end)
end

for n = 1, 3 do
  local name, avg = ("lp_pool%dd"):format(n), ("avg_pool%dd"):format(n)
  --- (sum of x^norm_type over the window)^(1 / norm_type), as PyTorch has it.
  def(name .. ([[(x: T, norm_type: num, kernel_size: dims(%d), stride?: dims(%d),
      ceil_mode = false) -> T]]):format(n, n),
    function(x, p, k, stride, ceil)
      if p == 0 then fail(name, "norm_type must be a number other than 0, got 0") end
      local count = 1
      k = per_axis(name, "kernel_size", k, n, 1)
      for i = 1, n do count = count * k[i] end
      local mean = flame[avg](x:pow(p), k, stride, 0, ceil)
      return (mean:detach():sign() * mean:abs():relu() * count):pow(1 / p)
    end)
end

for n = 1, 3 do
  local name = ("max_unpool%dd"):format(n)
  --- A tensor with the values of x at the positions that max_pool returned, and 0 elsewhere.
  def(name .. ([[(x: T, indices: T, kernel_size: dims(%d), stride?: dims(%d),
      padding: dims(%d) = 0, output_size?: int[]) -> T]]):format(n, n, n),
    function(x, at, k, stride, pad, output_size)
      local _, size, lead = planes_of(name, n, x)
      if text(at.shape) ~= text(x.shape) then
        fail(name, "x has shape %s, indices %s", text(x.shape), text(at.shape))
      end
      k = per_axis(name, "kernel_size", k, n, 1)
      stride, pad = per_axis(name, "stride", stride or k, n, 1),
        per_axis(name, "padding", pad, n, 0)
      local out, volume, count = {}, 1, 1
      local given = output_size and tail(output_size, n)
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

--- x / (k + alpha * mean of x^2 over 'size' channels)^beta.
def("local_response_norm(x: T, size: int, alpha = 1e-4, beta = 0.75, k = 1) -> T",
  function(x, n, alpha, beta, k)
    local op = "local_response_norm"
    if x.ndim < 3 then fail(op, "x has shape %s, need at least 3 axes", text(x.shape)) end
    if n < 1 then fail(op, "size = %d, need at least 1", n) end
    local shape, rest = x.shape, 1
    for d = 3, #shape do rest = rest * shape[d] end
    local square = (x * x):reshape(shape[1], 1, shape[2], rest)
    square = square:pad({ 0, 0, n // 2, (n - 1) // 2 })
    local mean = flame.avg_pool2d(square, { n, 1 }, 1):reshape(shape)
    return x / (mean * alpha + k):pow(beta)
  end)

-- ---- windows at random places -------------------------------------------------------------------
--- Where 'count' windows of 'kernel' elements begin, from 0, along an axis of 'size' elements: u
--- (n, c, 1), random numbers, shifts them; the last window ends with the axis.
local function places(u, size, count, kernel)
  local last = flame.full({ 1, 1, 1 }, size - kernel, { dtype = "i64", device = u.device })
    :expand(u.shape)
  if count == 1 then return last end
  local alpha = (size - kernel) / (count - 1)
  local i = flame.arange(0, count - 2, { dtype = u.dtype, device = u.device })
  return flame.cat({ ((i + u) * alpha):long() - (u * alpha):long(), last }, 3)
end
-- Sizes of the windows and of the result.
local function fractional_sizes(op, x, n, kernel, output_size, ratio)
  local function each(v, i) if type(v) == "table" then return v[#v == 1 and 1 or i] end return v end
  local k, out = {}, {}
  for i = 1, n do
    local size = x.shape[x.ndim - n + i]
    k[i] = math.tointeger(each(kernel, i))
    if output_size then out[i] = math.tointeger(each(output_size, i))
    elseif ratio then
      local r = each(ratio, i) or 0
      if not (r > 0 and r <= 1) then
        fail(op, "output_ratio is %g, need a number above 0, up to 1", r)
      end
      out[i] = math.floor(size * r)
    else fail(op, "output_size or output_ratio is missing") end
    if k[i] < 1 or out[i] < 1 or out[i] + k[i] - 1 > size then
      fail(op, "%d windows of %d do not fit %d elements", out[i], k[i], size)
    end
  end
  return k, out
end
-- Positions, from 0, in the planes of v of all elements of windows: (n, c, out…, k…).
local function windows_at(v, n, u, k, out)
  local at
  -- torch draws the random numbers of two axes in the order w, h
  for i = 1, n do
    local size = v.shape[i + 2]
    local first = places(u:narrow(3, n == 2 and 3 - i or i, 1), size, out[i], k[i])
    local shape, steps = { v.shape[1], v.shape[2] }, {}
    for j = 1, n do shape[2 + j], shape[2 + n + j], steps[j] = 1, 1, 1 end
    shape[2 + i], steps[i] = out[i], k[i]
    local step = flame.arange(0, k[i] - 1, { dtype = "i64", device = v.device }):reshape(steps)
    local here = first:reshape(shape) + step
    at = at and at * size + here or here
  end
  return at
end
for n = 2, 3 do
  local op = ("fractional_max_pool%dd"):format(n)
  --- The largest elements of windows of kernel_size at random places (Graham 2014); the result has
  --- output_size, or output_ratio times the size of x. _random_samples: the random numbers (n, c,
  --- axes), from 0 to 1, that shift the windows.
  def(op .. ([[(x: T, kernel_size: dims(%d), output_size?: dims(%d), output_ratio?: num|num[],
      return_indices = false, _random_samples?: T) -> T, positions: T if return_indices]]):format(n,
    n), function(x, kernel, output_size, ratio, return_indices, samples)
    if x.ndim ~= n + 1 and x.ndim ~= n + 2 then
      fail(op, "x has %d axes, need %d, or %d without a batch", x.ndim, n + 2, n + 1)
    end
    local single = x.ndim == n + 1
    local v = single and x:unsqueeze(1) or x
    local k, out = fractional_sizes(op, v, n, kernel, output_size, ratio)
    local b, c = v.shape[1], v.shape[2]
    local u = samples or flame.rand({ b, c, n }, { device = x.device })
    local at = windows_at(v, n, u, k, out):flatten(n + 3) + 1
    local y, which = v:flatten(3):gather(3, at:flatten(3)):reshape(at.shape):max(-1)
    y = single and y:squeeze(1):clone() or y
    if not return_indices then return y end
    local idx = at:gather(-1, which:unsqueeze(-1)):squeeze(-1)
    return y, (single and idx:squeeze(1) or idx):clone()
  end)
end
