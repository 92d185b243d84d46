--- Functions of signals along an axis: short-time Fourier transforms, transforms of
-- Hermitian signals, convolutions, numerical gradients.
local flame = require "flame"
local arguments = require "flame.base.arguments"
local fft = require "flame.ops.fft"
local fail, def, axis_of = arguments.fail, arguments.def, arguments.axis_of
local is_tensor = flame.is_tensor

local function shape_text(x) return "(" .. table.concat(x.shape, ", ") .. ")" end
local conjugate = fft.conjugate

-- ---- Hermitian signals --------------------------------------------------------------------------
local other_norm = { backward = "forward", forward = "backward", ortho = "ortho" }
-- Defines a transform as f(x, o); o: its options, with the norm that the inverse transform has.
local function hermitian(name, takes, f)
  local size = takes == "one" and "n" or "s"
  def(name .. fft.arguments[takes], function(x, n, dim, norm)
    return f(x, { [size] = n, dim = dim, norm = other_norm[norm] })
  end)
end
--- The transform, n real values, of a Hermitian signal; x: its first half (m; n = 2 (m - 1)).
hermitian("hfft", "one", function(x, o) return flame.irfft(conjugate(x), o) end)
--- hfft along the last of two axes, fft along the other.
hermitian("hfft2", "several", function(x, o) return flame.irfft2(conjugate(x), o) end)
--- hfft along the last of all axes, or of those in dim, fft along the others.
hermitian("hfftn", "several", function(x, o) return flame.irfftn(conjugate(x), o) end)
--- The inverse of hfft: half of the transform of a real signal.
hermitian("ihfft", "one", function(x, o) return conjugate(flame.rfft(x, o)) end)
--- The inverse of hfft2.
hermitian("ihfft2", "several", function(x, o) return conjugate(flame.rfft2(x, o)) end)
--- The inverse of hfftn.
hermitian("ihfftn", "several", function(x, o) return conjugate(flame.rfftn(x, o)) end)

-- ---- short-time transforms ----------------------------------------------------------------------
--- The window (default: win_length ones), extended with zeros on both sides to length n.
local function window_of(op, x, win_length, window, n)
  local size = win_length or n
  if size < 1 or size > n then fail(op, "win_length = %d, need 1 to n_fft = %d", size, n) end
  local w = window or flame.ones({ size }, { dtype = x.dtype, device = x.device })
  if w.ndim ~= 1 or w.shape[1] ~= size then
    fail(op, "window has shape %s, need (%d)", shape_text(w), size)
  end
  local before = (n - size) // 2
  return before + n - size - before == 0 and w or w:pad({ before, n - size - before })
end
local function hop_of(op, hop, n)
  hop = hop or n // 4
  if hop < 1 then fail(op, "hop_length = %d, need at least 1", hop) end
  return hop
end

--- Transforms of windows of n_fft elements of x (time) or (batch, time), hop_length apart: (…,
--- frequencies, frames, 2), the last axis being real and imaginary part. Defaults: hop_length n_fft
--- // 4, win_length n_fft, a window of ones. center: x is first padded by n_fft // 2 on both sides;
--- normalized: the result is divided by sqrt(n_fft). return_complex has no effect.
def([[stft(x: T, n_fft: int, hop_length?: int, win_length?: int, window?: T, center = true,
    pad_mode = "reflect", normalized = false, onesided = true, return_complex = true) -> T]],
function(x, n_fft, hop, win_length, window, center, pad_mode, normalized, onesided)
  local op, single = "stft", x.ndim == 1
  if not x:is_floating_point() or x.ndim < 1 or x.ndim > 2 then
    fail(op, "x is %s of shape %s, need floats (time) or (batch, time)", x.dtype, shape_text(x))
  end
  hop = hop_of(op, hop, n_fft)
  local v = single and x:unsqueeze(1) or x
  if center then
    v = v:unsqueeze(1):pad({ n_fft // 2, n_fft // 2 }, { mode = pad_mode }):squeeze(1)
  end
  if n_fft < 1 or n_fft > v.shape[2] then
    fail(op, "n_fft = %d, x has %d elements", n_fft, v.shape[2])
  end
  local frames = v:unfold(2, n_fft, hop) * window_of(op, x, win_length, window, n_fft)
  local y = onesided and flame.rfft(frames) or flame.fft(flame.stack({ frames, frames * 0 }, -1))
  y = y:transpose(2, 3)
  if normalized then y = y * n_fft ^ -0.5 end
  return single and y:squeeze(1):clone() or y:clone()
end)

--- The signal that has x as its stft, in the least-squares sense over the frames: x is (…,
--- frequencies, frames, 2). The default of onesided follows from the number of frequencies.
def([[istft(x: T, n_fft: int, hop_length?: int, win_length?: int, window?: T, center = true,
    normalized = false, onesided?: bool, length?: int) -> T]],
function(x, n_fft, hop, win_length, window, center, normalized, onesided, length)
  local op, single = "istft", x.ndim == 3
  if onesided == nil then onesided = x.ndim < 3 or x.shape[x.ndim - 2] ~= n_fft end
  local bins = onesided and n_fft // 2 + 1 or n_fft
  if x.ndim < 3 or x.ndim > 4 or x.shape[x.ndim] ~= 2 or x.shape[x.ndim - 2] ~= bins then
    fail(op, "x has shape %s, need (…, %d, frames, 2)", shape_text(x), bins)
  end
  hop = hop_of(op, hop, n_fft)
  local v = (single and x:unsqueeze(1) or x):transpose(2, 3)
  if normalized then v = v * n_fft ^ 0.5 end
  local w = window_of(op, x, win_length, window, n_fft)
  local frames = flame.irfft(onesided and v or v:narrow(3, 1, n_fft // 2 + 1), { n = n_fft })
  local count, total = frames.shape[2], n_fft + hop * (frames.shape[2] - 1)
  local at = flame.arange(0, count - 1, { dtype = "i64", device = x.device }):unsqueeze(2) * hop
    + flame.arange(1, n_fft, { dtype = "i64", device = x.device })
  at = at:reshape(-1)
  local zero = flame.zeros({ frames.shape[1], total }, { dtype = x.dtype, device = x.device })
  local sum = zero:index_add(2, at, (frames * w):flatten(2))
  local weight = zero[1]:clone():index_add(1, at, (w * w):expand({ count, n_fft }):reshape(-1))
  local first, last = center and n_fft // 2 + 1 or 1, center and total - n_fft // 2 or total
  if length then last = math.min(first + length - 1, total) end
  local n = math.max(last - first + 1, 0)
  local cover = weight:narrow(1, first, n)
  if n > 0 and cover:detach():amin():item() < 1e-11 then
    fail(op, "the windows leave gaps: their squares add up to less than 1e-11")
  end
  local y = sum:narrow(2, first, n) / cover
  if length and n < length then y = y:pad({ 0, length - n }) end
  return single and y:squeeze(1):clone() or y
end)

-- ---- convolution --------------------------------------------------------------------------------
--- The convolution of signals along their last axis, with n and m elements; the other axes are
--- equal. "full": all n + m - 1 sums, "same": the middle n of them, "valid": those over the whole
--- shorter one.
def('convolve(x: T, y: T, mode: "full"|"same"|"valid" = "full") -> T', function(x, y, mode)
  local n, m, lead = rawget(x.shape, x.ndim) or 0, rawget(y.shape, y.ndim) or 0, x.shape
  if n == 0 or m == 0 or shape_text(x:narrow(-1, 1, 1)) ~= shape_text(y:narrow(-1, 1, 1)) then
    fail("convolve", "x has shape %s, y %s, need equal leading axes and a last one with elements",
      shape_text(x), shape_text(y))
  end
  if m > n and mode == "valid" then x, y, n, m = y, x, m, n end
  local rows, size = x:numel() // n, mode == "same" and n or mode == "valid" and n - m + 1
    or n + m - 1
  lead[#lead] = size
  if rows == 0 then return flame.zeros(lead, { dtype = x.dtype, device = x.device }) end
  local z = flame.conv1d(x:reshape(1, rows, n), y:reshape(rows, 1, m):flip(3),
    { groups = rows, padding = mode == "valid" and 0 or m - 1 })
  if mode == "same" then z = z:narrow(3, (m - 1) // 2 + 1, n) end
  return z:reshape(lead)
end)

-- ---- numerical gradients ------------------------------------------------------------------------
--- The derivative of x along d; h: the positions of its values, or the distance between them.
local function slope(x, d, h, order)
  local n = x.shape[d]
  local function part(first, count) return x:narrow(d, first, count) end
  if n < order + 1 then
    fail("gradient", "axis %d has %d elements, need %d or more", d, n, order + 1)
  end
  if not is_tensor(h) then
    local middle = (part(3, n - 2) - part(1, n - 2)) / (2 * h)
    if order == 1 then
      return flame.cat({ (part(2, 1) - part(1, 1)) / h, middle, (part(n, 1) - part(n - 1, 1)) / h },
        d)
    end
    return flame.cat({ (part(2, 1) * 4 - part(1, 1) * 3 - part(3, 1)) / (2 * h), middle,
      (part(n, 1) * 3 - part(n - 1, 1) * 4 + part(n - 2, 1)) / (2 * h) }, d)
  end
  if h.ndim ~= 1 or h.shape[1] ~= n then
    fail("gradient", "the positions have shape %s, need (%d)", shape_text(h), n)
  end
  local column = {}
  for k = 1, x.ndim do column[k] = k == d and -1 or 1 end
  local step = h:diff():reshape(column)
  local function gap(first, count) return step:narrow(d, first, count) end
  -- distances before and after each inner element
  local a, b = gap(1, n - 2), gap(2, n - 2)
  local middle = part(1, n - 2) * (-b / (a * (a + b))) + part(2,
    n - 2) * ((b - a) / (a * b)) + part(3, n - 2) * (a / (b * (a + b)))
  if order == 1 then
    return flame.cat(
      { (part(2, 1) - part(1, 1)) / gap(1, 1), middle,
        (part(n, 1) - part(n - 1, 1)) / gap(n - 1, 1) }, d)
  end
  local p, q = gap(1, 1), gap(2, 1)
  local head = part(1, 1) * (-(p * 2 + q) / (p * (p + q))) + part(2,
    1) * ((p + q) / (p * q)) - part(3, 1) * (p / (q * (p + q)))
  p, q = gap(n - 2, 1), gap(n - 1, 1)
  local tail = part(n - 2, 1) * (q / (p * (p + q))) - part(n - 1, 1) * ((p + q) / (p * q)) + part(n,
    1) * ((q * 2 + p) / (q * (p + q)))
  return flame.cat({ head, middle, tail }, d)
end
--- Derivatives of sampled values along each axis of dim (default: all), as a list: by central
--- differences, at the ends one-sided. spacing: a number, a number for each axis, or the positions
--- along each axis.
def([[gradient(x: T, *, spacing: num|T|any[] = 1.0, dim?: axes,
    edge_order: int = 1) -> T[] ]], function(x, spacing, dim, edge_order)
  local op = "gradient"
  if x.ndim == 0 then fail(op, "a 0-d tensor has no neighbours") end
  if edge_order ~= 1 and edge_order ~= 2 then
    fail(op, "edge_order = %d, need 1 or 2", edge_order)
  end
  local axes, out = type(dim) == "number" and { dim } or dim or {}, {}
  if not dim then for d = 1, x.ndim do axes[d] = d end end
  local v = x:is_floating_point() and x or x:float()
  if type(spacing) == "table" and #spacing ~= #axes then
    fail(op, "spacing has %d entries for %d axes", #spacing, #axes)
  end
  local seen = {}
  for i, d in ipairs(axes) do
    d = axis_of(op, x, d)
    if seen[d] then fail(op, "axis %d is named twice", d) end
    seen[d] = true
    out[i] = slope(v, d, type(spacing) == "table" and spacing[i] or spacing, edge_order)
  end
  return out
end)
