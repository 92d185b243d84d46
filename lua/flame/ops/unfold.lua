--- Channels to pixels and back (pixel_shuffle), and columns of windows (unfold, fold).
local flame = require "flame"
local internal = flame.internal
local methods = internal.methods
local arguments = require "flame.base.arguments"
local windows = require "flame.ops.conv"
local fail, def = arguments.fail, arguments.def
local per_axis, text = windows.per_axis, windows.text

-- ---- channels and pixels ------------------------------------------------------------------------
local function need_positive(op, name, n)
  if n < 1 then fail(op, "%s = %d, need at least 1", name, n) end
end
-- The leading axes of x and the last three: channels, height, width.
local function split_shape(op, x, factor, name)
  need_positive(op, name, factor)
  local s = x.shape
  if #s < 3 then fail(op, "x has shape %s, need at least 3 axes", text(s)) end
  return table.move(s, 1, #s - 3, 1, {}), s[#s - 2], s[#s - 1], s[#s]
end

local function with(lead, ...)
  local out = table.move(lead, 1, #lead, 1, {})
  for _, v in ipairs { ... } do out[#out + 1] = v end
  return out
end

-- A permutation for x:permute: axes 1 … n unchanged, then n + each number of 'order'.
local function order_after(n, order)
  local p = {}
  for i = 1, n do p[i] = i end
  for i, k in ipairs(order) do p[n + i] = n + k end
  return p
end

--- (…, c r r, h, w) to (…, c, h r, w r), where r is upscale_factor.
def("pixel_shuffle(x: T, upscale_factor: int) -> T", function(x, r)
  local lead, c, h, w = split_shape("pixel_shuffle", x, r, "upscale_factor")
  if r > c or c % (r * r) ~= 0 then
    fail("pixel_shuffle", "x has %d channels, the square of %d does not divide them", c, r)
  end
  local n = #lead
  return x:reshape(with(lead, c // (r * r), r, r, h, w)):permute(order_after(n, { 1, 4, 2, 5, 3 }))
    :reshape(with(lead, c // (r * r), h * r, w * r)):clone()
end)

--- (…, c, h r, w r) to (…, c r r, h, w), where r is downscale_factor.
def("pixel_unshuffle(x: T, downscale_factor: int) -> T", function(x, r)
  local lead, c, h, w = split_shape("pixel_unshuffle", x, r, "downscale_factor")
  if h % r ~= 0 or w % r ~= 0 then
    fail("pixel_unshuffle", "planes of %d by %d, %d does not divide both", h, w, r)
  end
  local n = #lead
  return x:reshape(with(lead, c, h // r, r, w // r, r)):permute(order_after(n, { 1, 3, 5, 2, 4 }))
    :reshape(with(lead, c * r * r, h // r, w // r)):clone()
end)

--- (n, g c, …) with the channels of groups interleaved.
def("channel_shuffle(x: T, groups: int) -> T", function(x, g)
  local s = x.shape
  need_positive("channel_shuffle", "groups", g)
  if #s < 3 or s[2] % g ~= 0 then
    fail("channel_shuffle", "x has shape %s, %d does not divide its channels", text(s), g)
  end
  return x:unflatten(2, { g, s[2] // g }):transpose(2, 3):reshape(s):clone()
end)

-- ---- columns of windows -------------------------------------------------------------------------
--- Positions (1-based, i64) in a padded plane 'width' wide, as one flat list: for each kernel
--- element in turn, those of all windows.
local function column_positions(k, stride, dilation, out, width, device)
  local kind = { dtype = "i64", device = device }
  local function steps(n, step) return flame.arange(0, n - 1, kind) * step end
  local rows = steps(k[1], dilation[1]):reshape(-1, 1, 1, 1) + steps(out[1],
    stride[1]):reshape(1, 1, -1, 1)
  local cols = steps(k[2], dilation[2]):reshape(1, -1, 1, 1) + steps(out[2],
    stride[2]):reshape(1, 1, 1, -1)
  return (rows * width + cols + 1):reshape(-1)
end

local COLUMNS = "kernel_size: dims(2), dilation: dims(2) = 1, padding: dims(2) = 0, "
  .. "stride: dims(2) = 1) -> T"
local function column_options(op, size, k, dilation, pad, stride)
  local out = {}
  k, dilation = per_axis(op, "kernel_size", k, 2, 1), per_axis(op, "dilation", dilation, 2, 1)
  pad, stride = per_axis(op, "padding", pad, 2, 0), per_axis(op, "stride", stride, 2, 1)
  for i = 1, 2 do
    out[i] = (size[i] + 2 * pad[i] - dilation[i] * (k[i] - 1) - 1) // stride[i] + 1
    if out[i] < 1 then fail(op, "planes of %d by %d: the kernel does not fit", size[1], size[2]) end
  end
  return k, dilation, pad, stride, out
end

--- Columns of windows (PyTorch's F.unfold): (n, c, h, w) to (n, c k,
--- windows), where k, the size of the kernel, varies faster than c.
def("im2col(x: T, " .. COLUMNS, function(x, ...)
  local op = "im2col"
  if x.ndim ~= 3 and x.ndim ~= 4 then
    fail(op, "x has shape %s, need (n, c, h, w) or (c, h, w)", text(x.shape))
  end
  local batched = x.ndim == 4
  local v = batched and x or x:unsqueeze(1)
  local s = v.shape
  local k, dilation, pad, stride, out = column_options(op, { s[3], s[4] }, ...)
  local wide = v:pad({ pad[2], pad[2], pad[1], pad[1] })
  local at = column_positions(k, stride, dilation, out, s[4] + 2 * pad[2], x.device)
  local y = wide:reshape(s[1], s[2], wide.shape[3] * wide.shape[4]):index_select(3, at)
    :reshape(s[1], s[2] * k[1] * k[2], out[1] * out[2])
  return batched and y:clone() or y:squeeze(1):clone()
end)

--- The adjoint of im2col (F.fold): columns added up to planes of output_size.
def("col2im(x: T, output_size: dims(2), " .. COLUMNS, function(x, output_size, ...)
  local op = "col2im"
  if x.ndim ~= 3 and x.ndim ~= 2 then
    fail(op, "x has shape %s, need (n, c k, windows) or (c k, windows)", text(x.shape))
  end
  local size = per_axis(op, "output_size", output_size, 2, 1)
  local k, dilation, pad, stride, out = column_options(op, size, ...)
  local batched = x.ndim == 3
  local v = batched and x or x:unsqueeze(1)
  local s, kk = v.shape, k[1] * k[2]
  if s[2] % kk ~= 0 or s[3] ~= out[1] * out[2] then
    fail(op, "x has shape %s, need a multiple of %d rows and %d columns", text(x.shape), kk,
      out[1] * out[2])
  end
  local h, w, c = size[1] + 2 * pad[1], size[2] + 2 * pad[2], s[2] // kk
  local at = column_positions(k, stride, dilation, out, w, x.device)
  local y = flame.zeros({ s[1], c, h * w }, { dtype = x.dtype, device = x.device })
    :index_add(3, at, v:reshape(s[1], c, kk * s[3])):reshape(s[1], c, h, w)
    :narrow(3, pad[1] + 1, size[1]):narrow(4, pad[2] + 1, size[2])
  return batched and y:clone() or y:squeeze(1):clone()
end)
flame.fold, methods.fold = flame.col2im, methods.col2im                -- as F.fold
