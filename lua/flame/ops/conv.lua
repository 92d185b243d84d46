--- Convolutions. Three ops (conv, conv_data, conv_weight) are the derivatives of one sum of
-- products (src/tensor/call_conv.h), so their gradients of any order are again these three. The
-- pairs in ops/pool.lua, such as a mean and its adjoint, are likewise gradients of each other.
local flame = require "flame"
local internal = flame.internal
local arguments = require "flame.base.arguments"
local fail, def = arguments.fail, arguments.def
local tracked = require("flame.base.recording").tracked

-- ---- arguments ----------------------------------------------------------------------------------
--- v as n integers of at least 'least', one per axis; a number, or a list of one, is for all axes.
local function per_axis(op, name, v, n, least)
  if type(n) ~= "number" or n > 8 then
    fail(op, "%s: a list of at most 8 numbers", tostring(name))
  end
  local list = {}
  if type(v) == "table" then
    if #v ~= n and #v ~= 1 then fail(op, "%s has %d numbers, need 1 or %d", name, #v, n) end
    for i = 1, n do list[i] = arguments.need_int(op, name, v[#v == 1 and 1 or i]) end
  else
    local i = arguments.need_int(op, name, v)
    for k = 1, n do list[k] = i end
  end
  for i = 1, n do
    if list[i] < least then fail(op, "%s = %d, need at least %d", name, list[i], least) end
  end
  return list
end

local function text(shape) return "(" .. table.concat(shape, ", ") .. ")" end

-- A copy of the list, extended to three elements at the front with 'fill'.
local function three(list, fill)
  local out, n = {}, #list
  for i = 1, 3 - n do out[i] = fill end
  for i = 1, n do out[3 - n + i] = list[i] end
  return out
end

local function append(to, list)
  for i = 1, #list do to[#to + 1] = list[i] end
  return to
end

-- ---- convolution: one sum, three derivatives ----------------------------------------------------
--- The three ops as functions of operands a, b and s = {what = op's name, params, shapes x, w, y}.
--- They are made at first use, since flame.func is defined in another file.
local conv, conv_data, conv_weight

-- Is s a 1 x 1 convolution without stride, in half types on a GPU? Then a matrix product in x's
-- own order (channels first) moves the fewest bytes, since cuDNN's kernels need channels last.
-- s.pointwise: see is_one.
local function is_pointwise(a, s)
  return s.pointwise and a.device ~= "cpu" and (a.dtype == "f16" or a.dtype == "bf16")
end

-- Records op 'kind' of a and b with this result shape, or a product of matrices that equals it.
local function record(kind, s, a, b, shape)
  if kind ~= "conv_weight" and is_pointwise(a, s) and a:numel() > 0 and b:numel() > 0 then
    local w = b:reshape(b.shape[1], b.shape[2])
    if kind == "conv_data" then w = w:transpose(1, 2) end
    return w:matmul(a:flatten(3)):reshape(shape)
  end
  return internal.call(kind, s.what, { a, b }, s.params, shape, a.dtype)
end

-- Saves a and b for backward, tracked if they are, and which of their gradients are needed.
local function keep(ctx, a, b, s)
  do
    local _ <close> = flame.enable_grad()
    ctx:save(a, b)
  end
  ctx.s, ctx.first, ctx.second = s, a.requires_grad, b.requires_grad
end

-- A product of a and b as an op: its result has the shape s[result]; d_a and d_b of (h, a, b, s)
-- give the gradients for a cotangent h.
local function product(name, result, d_a, d_b)
  return flame.func { name = name,
    forward = function(ctx, a, b, s)
      keep(ctx, a, b, s)
      return record(name, s, a, b, s[result])
    end,
    backward = function(ctx, h)
      local a, b = ctx:saved()
      return ctx.first and d_a(h, a, b, ctx.s) or nil, ctx.second and d_b(h, a, b, ctx.s) or nil
    end }
end

local function make_convs()
  conv = product("conv", "y",                                -- of x and w
    function(h, _, w, s) return conv_data(h, w, s) end,
    function(h, x, _, s) return conv_weight(h, x, s) end)
  conv_data = product("conv_data", "x",                      -- of y's cotangent and w
    function(h, _, w, s) return conv(h, w, s) end,
    function(h, g, _, s) return conv_weight(g, h, s) end)
  conv_weight = product("conv_weight", "w",                  -- of y's cotangent and x
    function(h, _, x, s) return conv(x, h, s) end,
    function(h, g, _, s) return conv_data(g, h, s) end)
end

-- Is k a 1 x 1 kernel without groups, stride and padding, with equal sizes of x (xs) and y (ys)?
local function is_one(groups, k, stride, before, xs, ys)
  local one = groups == 1
  for i = 1, #k do
    one = one and k[i] == 1 and stride[i] == 1 and before[i] == 0 and xs[2 + i] == ys[2 + i]
  end
  return one
end

-- The integer parameters of the ops: n c o groups, then in k out stride pad dilation for three
-- axes each, and whether sums may be added in any order.
local function conv_params(n, c, o, groups, in_size, k, out, stride, before, dilation)
  local p = { n, c, o, groups }
  append(p, three(in_size, 1))
  append(p, three(k, 1))
  append(p, three(out, 1))
  append(p, three(stride, 1))
  append(p, three(before, 0))
  append(p, three(dilation, 1))
  p[#p + 1] = flame.deterministic() and 0 or 1
  return p
end

-- The padding v as two lists, before and after each axis. k, dilation, stride: for "same".
local function paddings(op, v, n, k, dilation, stride)
  local before, after = {}, {}
  if v == "valid" then v = 0 end
  if v == "same" then
    for i = 1, n do
      if stride[i] ~= 1 then fail(op, 'padding "same" needs stride 1, got %d', stride[i]) end
      local all = dilation[i] * (k[i] - 1)
      before[i], after[i] = all // 2, all - all // 2
    end
  elseif type(v) == "string" then
    fail(op, 'padding must be a number, a list, "same" or "valid", got "%s"', v)
  elseif type(v) == "table" and type(v[1]) == "table" then
    if #v ~= n then fail(op, "padding has %d pairs, need %d", #v, n) end
    for i = 1, n do
      local pair = per_axis(op, "padding", v[i], 2, 0)
      before[i], after[i] = pair[1], pair[2]
    end
  else
    before = per_axis(op, "padding", v, n, 0)
    after = before
  end
  return before, after
end

-- Pads x by what one side has more than the other, since cuDNN pads both sides equally.
local function even(x, n, before, after)
  local uneven, pairs_of, less = false, {}, {}
  for i = 1, n do
    less[i] = math.min(before[i], after[i])
    pairs_of[2 * (n - i) + 1], pairs_of[2 * (n - i) + 2] = before[i] - less[i], after[i] - less[i]
    uneven = uneven or before[i] ~= after[i]
  end
  if not uneven then return x, before, after end
  return x:pad(pairs_of), less, less
end

local function tail(shape, n) return table.move(shape, #shape - n + 1, #shape, 1, {}) end

-- Checks x, w and bias b; returns x and w in one dtype, x with a batch axis; whether x had one.
local function operands(op, n, x, w, b)
  if w.ndim ~= n + 2 then fail(op, "weight has shape %s, need %d axes", text(w.shape), n + 2) end
  if x.ndim ~= n + 2 and x.ndim ~= n + 1 then
    fail(op, "x has shape %s, need %d axes, or %d without a batch", text(x.shape), n + 2, n + 1)
  end
  for name, v in pairs { x = x, weight = w, bias = b } do
    if v.dtype == "bool" then fail(op, "%s is bool, need numbers", name) end
    if v.device ~= x.device then
      fail(op, "x is on %s and %s on %s\1; use %s:to(x.device)", x.device, name, v.device, name)
    end
  end
  if x.dtype ~= w.dtype then
    local dtype = (flame.zeros(0, { dtype = x.dtype }) + flame.zeros(0, { dtype = w.dtype })).dtype
    x, w = x:to(dtype), w:to(dtype)
  end
  local batched = x.ndim == n + 2
  return batched and x or x:unsqueeze(1), w, batched
end

-- y + b, b along the channels; without the batch axis if x had none (batched = false).
local function finish(op, y, b, channels, n, batched)
  if b ~= nil then
    if b.ndim ~= 1 or b.shape[1] ~= channels then
      fail(op, "bias has shape %s, the result has %d channels", text(b.shape), channels)
    end
    local along = { 1, channels }
    for i = 1, n do along[2 + i] = 1 end
    y = y + b:reshape(along)
  end
  return batched and y or y:squeeze(1):clone()
end

-- For kernels of one element with a stride: x with only the elements that are read, and stride 1.
-- Libraries are faster without a stride, above all in the gradients.
local function strip(x, k, stride, before, after)
  local index, steps, n = {}, false, #k
  for i = 1, n do
    if k[i] ~= 1 or before[i] ~= 0 or after[i] ~= 0 then return x, stride end
    index[2 + i] = stride[i] > 1 and { 1, -1, stride[i] } or {}
    steps = steps or stride[i] > 1
  end
  if not steps or x:numel() == 0 then return x, stride end
  index[1], index[2] = {}, {}
  local single = {}
  for i = 1, n do single[i] = 1 end
  return x[index], single
end

local function need_groups(op, groups)
  if groups < 1 then fail(op, "groups = %d, need at least 1", groups) end
end

local function convolution(op, n)
  local of = ([[(x: T, weight: T, bias?: T, stride: dims(%d) = 1,
    padding: dims(%d)|any[]|"same"|"valid" = 0, dilation: dims(%d) = 1,
    groups: int = 1) -> T @half]]):format(n, n, n)
  def(op .. of, function(x, w, b, stride, padding, dilation, groups)
    local batched
    x, w, batched = operands(op, n, x, w, b)
    need_groups(op, groups)
    stride = per_axis(op, "stride", stride, n, 1)
    dilation = per_axis(op, "dilation", dilation, n, 1)
    local ws, k = w.shape, tail(w.shape, n)
    local before, after = paddings(op, padding, n, k, dilation, stride)
    if x.device ~= "cpu" then
      x, stride = strip(x, k, stride, before, after)
      x, before, after = even(x, n, before, after)
    end
    local xs = x.shape
    local size = tail(xs, n)
    if xs[2] ~= ws[2] * groups then
      fail(op, "x has %d channels, weight %s with groups %d needs %d", xs[2], text(ws), groups,
        ws[2] * groups)
    end
    if ws[1] % groups ~= 0 then
      fail(op, "weight %s has %d outputs, groups %d does not divide them", text(ws), ws[1], groups)
    end
    local y = { xs[1], ws[1] }
    for i = 1, n do
      local room, span = size[i] + before[i] + after[i], dilation[i] * (k[i] - 1) + 1
      if k[i] < 1 then fail(op, "weight has shape %s: the kernel is empty", text(ws)) end
      if room < span then
        fail(op, "axis %d of x has %d elements with padding, the kernel spans %d",
          i + 2, room, span)
      end
      y[2 + i] = (room - span) // stride[i] + 1
    end
    if not conv then make_convs() end
    local s = { what = op, x = xs, w = ws, y = y,
      pointwise = is_one(groups, k, stride, before, xs, y),
      params = conv_params(xs[1], xs[2], ws[1], groups, size, k, tail(y, n), stride,
        before, dilation) }
    local made = tracked(x, w) and conv(x, w, s) or record("conv", s, x, w, y)
    return finish(op, made, b, ws[1], n, batched)
  end)
end

--- Sums of products of windows of x (n, c, l) or (c, l) with weight (o, c / groups, k), plus bias
--- (o): (n, o, windows) or (o, windows). padding: a number, "same", "valid", a list, or a list of
--- pairs before and after.
convolution("conv1d", 1)
--- The same as conv1d for x (n, c, h, w) and weight (o, c / groups, kh, kw).
convolution("conv2d", 2)
--- The same as conv1d with three axes.
convolution("conv3d", 3)

local function transposed(op, n)
  local of = ([[(x: T, weight: T, bias?: T, stride: dims(%d) = 1, padding: dims(%d)|any[] = 0,
    output_padding: dims(%d) = 0, groups: int = 1, dilation: dims(%d) = 1) -> T @half]]):format(
    n, n, n, n)
  def(op .. of, function(x, w, b, stride, padding, extra, groups, dilation)
    local batched
    x, w, batched = operands(op, n, x, w, b)
    need_groups(op, groups)
    local xs, ws, k = x.shape, w.shape, tail(w.shape, n)
    stride = per_axis(op, "stride", stride, n, 1)
    dilation = per_axis(op, "dilation", dilation, n, 1)
    extra = per_axis(op, "output_padding", extra, n, 0)
    local before, after = paddings(op, padding, n, k, dilation, stride)
    if xs[2] ~= ws[1] then
      fail(op, "x has %d channels, weight %s needs %d", xs[2], text(ws), ws[1])
    end
    if ws[1] % groups ~= 0 then
      fail(op, "x has %d channels, groups %d does not divide them", ws[1], groups)
    end
    local y = { xs[1], ws[2] * groups }
    for i = 1, n do
      if k[i] < 1 then fail(op, "weight has shape %s: the kernel is empty", text(ws)) end
      if extra[i] >= math.max(stride[i], dilation[i]) then
        fail(op, "output_padding = %d, need less than stride %d or dilation %d", extra[i],
          stride[i], dilation[i])
      end
      y[2 + i] = (xs[2 + i] - 1) * stride[i] - before[i] - after[i] + dilation[i] * (k[i] - 1)
        + extra[i] + 1
      if y[2 + i] < 1 or xs[2 + i] == 0 then
        fail(op, "axis %d of x has %d elements: the result would have %d", i + 2,
          xs[2 + i], y[2 + i])
      end
    end
    if not conv then make_convs() end
    local s = { what = op, x = y, w = ws, y = xs,
      pointwise = is_one(groups, k, stride, before, xs, y),
      params = conv_params(xs[1], y[2], ws[1], groups, tail(y, n), k, tail(xs, n), stride,
        before, dilation) }
    local made = tracked(x, w) and conv_data(x, w, s) or record("conv_data", s, x, w, y)
    return finish(op, made, b, y[2], n, batched)
  end)
end

--- The gradient of conv1d with respect to its input, as a function of x (n, c, l) or (c, l) and
--- weight (c, o / groups, k), plus bias (o).
transposed("conv_transpose1d", 1)
--- The gradient of conv2d with respect to its input, as a function: weight (c, o / groups, kh, kw).
transposed("conv_transpose2d", 2)
--- The gradient of conv3d with respect to its input, as a function.
transposed("conv_transpose3d", 3)

-- For ops/pool.lua, ops/resize.lua and ops/unfold.lua.
local windows = { per_axis = per_axis, text = text, three = three, append = append, tail = tail }

return windows
