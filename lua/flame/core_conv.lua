--- Convolutions. Three calls are the derivatives of one sum of products (see
-- src/tensor/call_conv.h), so their gradients of any order are again these three; a mean and its
-- adjoint, and taking and putting by position, are pairs in the same way.
-- Options follow PyTorch's order or stand in one table at the end; what counts axes is a number
-- or a list with one an axis.
local flame, _, internal = ...
local fail, need_tensor, def = internal.failf, internal.need_tensor, internal.def

-- ---- arguments ----------------------------------------------------------------------------------
--- A table with a name in it, or an empty one: options; else a list.
local function is_options(t) return type(t) == "table" and #t == 0 end

--- Arguments in the order of 'names', or by name in a table at the end. known: name -> default
-- (false: none).
local function arguments(op, names, known, ...)
  local given, o = table.pack(...), {}
  for k, v in pairs(known) do o[k] = v end
  while given.n > 0 and given[given.n] == nil do given.n = given.n - 1 end
  local last = given.n > 0 and given[given.n]
  if last and is_options(last) then
    given.n = given.n - 1
    for k, v in pairs(last) do
      if known[k] == nil then internal.no_option(op, k, known, table.concat(names, " ")) end
      o[k] = v
    end
  end
  if given.n > #names then
    fail(op, "%d options at most after the tensors, got %d", #names, given.n)
  end
  for i = 1, given.n do
    if is_options(given[i]) then fail(op, "the options table comes last") end
    if given[i] ~= nil then o[names[i]] = given[i] end
  end
  return o
end

--- v as a list of n integers of at least 'least'; a number stands for all.
local function per_axis(op, name, v, n, least)
  if type(n) ~= "number" or n > 8 then
    fail(op, "%s: a list of at most 8 numbers", tostring(name))
  end
  local list = {}
  if type(v) == "table" then
    if #v ~= n and #v ~= 1 then fail(op, "%s has %d numbers, need 1 or %d", name, #v, n) end
    for i = 1, n do list[i] = internal.need_int(op, name, v[#v == 1 and 1 or i]) end
  else
    local i = internal.need_int(op, name, v)
    for k = 1, n do list[k] = i end
  end
  for i = 1, n do
    if list[i] < least then fail(op, "%s = %d, need at least %d", name, list[i], least) end
  end
  return list
end

local function text(shape) return "(" .. table.concat(shape, ", ") .. ")" end

--- The last 'n' of a list, led by 'fill' to three.
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

--- Does anybody want gradients of these? If not, nothing is kept for them.
local function tracked(...)
  if not flame.is_grad_enabled() then return false end
  for _, v in ipairs { ... } do if v.requires_grad then return true end end
  return false
end
internal.tracked = tracked

-- ---- convolution: one sum, three derivatives ----------------------------------------------------
--- s: what, params, x, w, y (shapes). Made at first use: flame.func is another part's.
local conv, conv_data, conv_weight

--- Is every position of the result one of x, and on a GPU of half types? Then a product in x's own
-- order moves the least: cuDNN's kernels want channels last.
local function is_pointwise(a, s)
  return s.pointwise and a.device ~= "cpu" and (a.dtype == "f16" or a.dtype == "bf16")
end

local function record(kind, s, a, b, shape)
  if kind ~= "conv_weight" and is_pointwise(a, s) and a:numel() > 0 and b:numel() > 0 then
    local w = b:reshape(b.shape[1], b.shape[2])
    if kind == "conv_data" then w = w:transpose(1, 2) end
    return w:matmul(a:flatten(3)):reshape(shape)
  end
  return internal.call(kind, s.what, { a, b }, s.params, shape, a.dtype)
end

--- What backward needs, tracked as it is, and which of the two gradients anybody asks for.
local function keep(ctx, a, b, s)
  do
    local _ <close> = flame.enable_grad()
    ctx:save(a, b)
  end
  ctx.s, ctx.first, ctx.second = s, a.requires_grad, b.requires_grad
end

--- A product of a and b as an op: its result has the shape s[result]; d_a and d_b of (h, a, b, s)
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

--- Has x (sizes xs) a result at each of its positions, which is a sum over its channels alone?
local function is_one(groups, k, stride, before, xs, ys)
  local one = groups == 1
  for i = 1, #k do
    one = one and k[i] == 1 and stride[i] == 1 and before[i] == 0 and xs[2 + i] == ys[2 + i]
  end
  return one
end

--- Integers of the calls: n c o groups, then in k out stride pad dilation of three axes, and
--- whether sums may be added up in any order.
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

--- padding as two lists, before and after. k, dilation, stride: for "same".
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

--- cuDNN pads both sides alike: there the surplus of one side becomes part of x.
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

--- Tensors of one dtype, float or integer; x with a batch axis; whether it had one.
local function operands(op, n, x, w, b)
  need_tensor(op, "x", x)
  need_tensor(op, "w", w)
  if b ~= nil then need_tensor(op, "b", b) end
  if w.ndim ~= n + 2 then fail(op, "w has shape %s, need %d axes", text(w.shape), n + 2) end
  if x.ndim ~= n + 2 and x.ndim ~= n + 1 then
    fail(op, "x has shape %s, need %d axes, or %d without a batch", text(x.shape), n + 2, n + 1)
  end
  for name, v in pairs { x = x, w = w, b = b } do
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

--- y + b along the channels, and without the batch axis where x had none.
local function finish(op, y, b, channels, n, batched)
  if b ~= nil then
    if b.ndim ~= 1 or b.shape[1] ~= channels then
      fail(op, "b has shape %s, the result has %d channels", text(b.shape), channels)
    end
    local along = { 1, channels }
    for i = 1, n do along[2 + i] = 1 end
    y = y + b:reshape(along)
  end
  return batched and y or y:squeeze(1):clone()
end

--- b and the options: a table in b's place is the options.
local function split_bias(op, b, ...)
  if type(b) == "table" then
    if select("#", ...) > 0 then fail(op, "b must be a tensor, got table") end
    return nil, b
  end
  return b, ...
end

--- Windows of one element in steps: the elements that they read, and single steps. A product of
-- these costs a library less than steps do, above all the gradients.
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

local CONV = { "stride", "padding", "dilation", "groups" }
local function convolution(op, n)
  def(op, 7, function(x, w, ...)
    local given = table.pack(split_bias(op, ...))
    local b = given[1]
    local o = arguments(op, CONV, { stride = 1, padding = 0, dilation = 1, groups = 1 },
      table.unpack(given, 2, given.n))
    local batched
    x, w, batched = operands(op, n, x, w, b)
    local ws, groups = w.shape, per_axis(op, "groups", o.groups, 1, 1)[1]
    local stride, dilation = per_axis(op, "stride", o.stride, n, 1),
      per_axis(op, "dilation", o.dilation, n, 1)
    local k = tail(ws, n)
    local before, after = paddings(op, o.padding, n, k, dilation, stride)
    if x.device ~= "cpu" then
      x, stride = strip(x, k, stride, before, after)
      x, before, after = even(x, n, before, after)
    end
    local xs = x.shape
    local size = tail(xs, n)
    if xs[2] ~= ws[2] * groups then
      fail(op, "x has %d channels, w %s with groups %d needs %d", xs[2], text(ws), groups,
        ws[2] * groups)
    end
    if ws[1] % groups ~= 0 then
      fail(op, "w %s has %d outputs, groups %d does not divide them", text(ws), ws[1], groups)
    end
    local y = { xs[1], ws[1] }
    for i = 1, n do
      local room, span = size[i] + before[i] + after[i], dilation[i] * (k[i] - 1) + 1
      if k[i] < 1 then fail(op, "w has shape %s: the kernel is empty", text(ws)) end
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

--- (x, w[, b, {stride = 1, padding = 0, dilation = 1, groups = 1}]); x (n, c, l) or (c, l), w (o, c
-- / groups, k). padding: a number, "same", "valid", a list, or a list of pairs before and after.
---@param b? flame.Tensor|table
---@param stride? integer|table  1
---@param padding? integer|string|table  0
---@param dilation? integer|table  1
---@param groups? integer|table  1
convolution("conv1d", 1)
convolution("conv2d", 2)
convolution("conv3d", 3)

local TRANSPOSED = { "stride", "padding", "output_padding", "groups", "dilation" }
local function transposed(op, n)
  def(op, 8, function(x, w, ...)
    local given = table.pack(split_bias(op, ...))
    local b = given[1]
    local o = arguments(op, TRANSPOSED,
      { stride = 1, padding = 0, output_padding = 0, groups = 1, dilation = 1 },
      table.unpack(given, 2, given.n))
    local batched
    x, w, batched = operands(op, n, x, w, b)
    local xs, ws, groups = x.shape, w.shape, per_axis(op, "groups", o.groups, 1, 1)[1]
    local stride, dilation = per_axis(op, "stride", o.stride, n, 1),
      per_axis(op, "dilation", o.dilation, n, 1)
    local extra, k = per_axis(op, "output_padding", o.output_padding, n, 0), tail(ws, n)
    if type(o.padding) == "string" then
      fail(op, 'padding must be a number or a list, got "%s"', o.padding)
    end
    local before, after = paddings(op, o.padding, n, k, dilation, stride)
    if xs[2] ~= ws[1] then fail(op, "x has %d channels, w %s needs %d", xs[2], text(ws), ws[1]) end
    if ws[1] % groups ~= 0 then
      fail(op, "x has %d channels, groups %d does not divide them", ws[1], groups)
    end
    local y = { xs[1], ws[2] * groups }
    for i = 1, n do
      if k[i] < 1 then fail(op, "w has shape %s: the kernel is empty", text(ws)) end
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

--- (x, w[, b, {stride = 1, padding = 0, output_padding = 0, groups = 1, dilation = 1}]): the
-- gradient of a convolution by its input, as an op; w (c, o / groups, k).
transposed("conv_transpose1d", 1)
transposed("conv_transpose2d", 2)
transposed("conv_transpose3d", 3)

-- For core_pool.lua, core_resize.lua and core_unfold.lua.
internal.windows = { arguments = arguments, per_axis = per_axis, text = text, three = three,
  append = append, tail = tail }
