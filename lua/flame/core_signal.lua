--- Signals and statistics along an axis: short-time Fourier transforms, transforms of Hermitian
-- signals, numerical gradients, modes and quantiles around NaN.
local flame, _, internal = ...
local fail, need_tensor, need_int = internal.failf, internal.need_tensor, internal.need_int
local options, defaults, def, axis_of = internal.options, internal.defaults, internal.def,
  internal.axis_of
local is_tensor = flame.is_tensor

local function shape_text(x) return "(" .. table.concat(x.shape, ", ") .. ")" end
local conjugate = internal.conjugate

-- ---- Hermitian signals --------------------------------------------------------------------------
local other_norm = { backward = "forward", forward = "backward", ortho = "ortho" }
--- f(x, size, dim, norm) with the norm of the other direction; size and dim may be lists.
local function hermitian(name, f)
  def(name, 5, function(x, ...)
    local list, o = table.pack(...), {}
    local size = (name == "hfft" or name == "ihfft") and "n" or "s"
    if type(list[list.n]) == "table" and type(next(list[list.n])) == "string" then
      o, list[list.n] = list[list.n], nil
    end
    o = options(name, o, { [size] = false, dim = false, norm = "backward" })
    for i, key in ipairs { size, "dim", "norm" } do if list[i] ~= nil then o[key] = list[i] end end
    if not other_norm[o.norm] then
      fail(name, 'norm must be "backward", "ortho" or "forward", got %s', tostring(o.norm))
    end
    return f(need_tensor(name, "x", x),
      { [size] = o[size] or nil, dim = o.dim or nil, norm = other_norm[o.norm] })
  end)
end
--- The real transform of half a Hermitian signal: n elements, 2 (m - 1) of m
--- by default; (x[, n, dim, norm]).
---@param n? integer|table
---@param dim? integer|table  -1
---@param norm? string|table  backward
hermitian("hfft", function(x, o) return flame.irfft(conjugate(x), o) end)
--- hfft along the last of two axes, fft along the other: (x[, s, dim, norm]).
---@param s? integer[]|table
---@param dim? integer[]|table
---@param norm? string|table  backward
hermitian("hfft2", function(x, o) return flame.irfft2(conjugate(x), o) end)
--- hfft along the last of all axes, or of those in dim, fft along the others: (x[, s, dim, norm]).
---@param s? integer[]|table
---@param dim? integer[]|table
---@param norm? string|table  backward
hermitian("hfftn", function(x, o) return flame.irfftn(conjugate(x), o) end)
--- Its inverse: half of the transform of a real signal.
---@param n? integer|table
---@param dim? integer|table  -1
---@param norm? string|table  backward
hermitian("ihfft", function(x, o) return conjugate(flame.rfft(x, o)) end)
--- The inverse of hfft2.
---@param s? integer[]|table
---@param dim? integer[]|table
---@param norm? string|table  backward
hermitian("ihfft2", function(x, o) return conjugate(flame.rfft2(x, o)) end)
--- The inverse of hfftn.
---@param s? integer[]|table
---@param dim? integer[]|table
---@param norm? string|table  backward
hermitian("ihfftn", function(x, o) return conjugate(flame.rfftn(x, o)) end)

-- ---- short-time transforms ----------------------------------------------------------------------
--- The window of length n_fft: given, or ones, with zeros on both sides.
local function window_of(op, x, o, n)
  local size = o.win_length or n
  if size < 1 or size > n then fail(op, "win_length = %d, need 1 to n_fft = %d", size, n) end
  local w = o.window or flame.ones({ size }, { dtype = x.dtype, device = x.device })
  if need_tensor(op, "window", w).ndim ~= 1 or w.shape[1] ~= size then
    fail(op, "window has shape %s, need (%d)", shape_text(w), size)
  end
  local before = (n - size) // 2
  return before + n - size - before == 0 and w or w:pad({ before, n - size - before })
end
local function hop_of(op, o, n)
  local hop = need_int(op, "hop_length", o.hop_length or n // 4)
  if hop < 1 then fail(op, "hop_length = %d, need at least 1", hop) end
  return hop
end

--- Transforms of windows of n_fft elements of x (time) or (batch, time), hop_length apart: (…,
--- frequencies, frames, 2), the last axis real and imaginary part.
---@param x flame.Tensor
---@param n_fft integer
---@param ... any  hop_length = n_fft // 4, win_length = n_fft, window = ones, center = true, pad_mode = "reflect",
def("stft", 11, function(x, n_fft, ...)
  local op = "stft"
  local o = defaults(op,
    { "hop_length", "win_length", "window", "center", "pad_mode", "normalized", "onesided",
      "return_complex" },
    { hop_length = false, win_length = false, window = false, center = true, pad_mode = "reflect",
      normalized = false, onesided = true, return_complex = true }, ...)
  if not need_tensor(op, "x", x):is_floating_point() or x.ndim < 1 or x.ndim > 2 then
    fail(op, "x is %s of shape %s, need floats (time) or (batch, time)", x.dtype, shape_text(x))
  end
  n_fft = need_int(op, "n_fft", n_fft)
  local single, hop = x.ndim == 1, hop_of(op, o, n_fft)
  local v = single and x:unsqueeze(1) or x
  if o.center then
    v = v:unsqueeze(1):pad({ n_fft // 2, n_fft // 2 }, { mode = o.pad_mode }):squeeze(1)
  end
  if n_fft < 1 or n_fft > v.shape[2] then
    fail(op, "n_fft = %d, x has %d elements", n_fft, v.shape[2])
  end
  local frames = v:unfold(2, n_fft, hop) * window_of(op, x, o, n_fft)
  local y = o.onesided and flame.rfft(frames) or flame.fft(flame.stack({ frames, frames * 0 }, -1))
  y = y:transpose(2, 3)
  if o.normalized then y = y * n_fft ^ -0.5 end
  return single and y:squeeze(1):clone() or y:clone()
end)

--- The signal whose stft is x, least squares over the frames: x is (…, frequencies, frames, 2).
---@param x flame.Tensor
---@param n_fft integer
---@param ... any  hop_length, win_length, window, center = true, normalized = false, onesided, length
def("istft", 10, function(x, n_fft, ...)
  local op = "istft"
  local o = defaults(op,
    { "hop_length", "win_length", "window", "center", "normalized", "onesided", "length" },
    { hop_length = false, win_length = false, window = false, center = true, normalized = false,
      onesided = "auto", length = false }, ...)
  n_fft = need_int(op, "n_fft", n_fft)
  if o.onesided == "auto" then
    o.onesided = need_tensor(op, "x", x).ndim < 3 or x.shape[x.ndim - 2] ~= n_fft
  end
  local bins = o.onesided and n_fft // 2 + 1 or n_fft
  if need_tensor(op, "x", x).ndim < 3 or x.ndim > 4 or x.shape[x.ndim] ~= 2
      or x.shape[x.ndim - 2] ~= bins then
    fail(op, "x has shape %s, need (…, %d, frames, 2)", shape_text(x), bins)
  end
  local single, hop = x.ndim == 3, hop_of(op, o, n_fft)
  local v = (single and x:unsqueeze(1) or x):transpose(2, 3)
  if o.normalized then v = v * n_fft ^ 0.5 end
  local w = window_of(op, x, o, n_fft)
  local frames = flame.irfft(o.onesided and v or v:narrow(3, 1, n_fft // 2 + 1), { n = n_fft })
  local count, total = frames.shape[2], n_fft + hop * (frames.shape[2] - 1)
  local at = flame.arange(0, count - 1, { dtype = "i64", device = x.device }):unsqueeze(2) * hop
    + flame.arange(1, n_fft, { dtype = "i64", device = x.device })
  at = at:reshape(-1)
  local zero = flame.zeros({ frames.shape[1], total }, { dtype = x.dtype, device = x.device })
  local sum = zero:index_add(2, at, (frames * w):flatten(2))
  local weight = zero[1]:clone():index_add(1, at, (w * w):expand({ count, n_fft }):reshape(-1))
  local first, last = o.center and n_fft // 2 + 1 or 1, o.center and total - n_fft // 2 or total
  if o.length then last = math.min(first + need_int(op, "length", o.length) - 1, total) end
  local n = math.max(last - first + 1, 0)
  local cover = weight:narrow(1, first, n)
  if n > 0 and cover:detach():amin():item() < 1e-11 then
    fail(op, "the windows leave gaps: their squares add up to less than 1e-11")
  end
  local y = sum:narrow(2, first, n) / cover
  if o.length and n < o.length then y = y:pad({ 0, o.length - n }) end
  return single and y:squeeze(1):clone() or y
end)

-- ---- numerical gradients ------------------------------------------------------------------------
--- The slope along d of values at unequal positions, or at the distance h.
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
  local a, b = gap(1, n - 2), gap(2, n - 2)                  -- before and behind each inner element
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
--- Derivatives of sampled values along each axis of dim (all), a list: by differences to both
--- sides, at the ends to one.
---@param x flame.Tensor
---@param o? table  {spacing = 1: a number, one an axis, or the positions an axis; dim =, edge_order = 1}
---@return flame.Tensor[]
def("gradient", 2, function(x, o)
  local op = "gradient"
  o = options(op, o, { spacing = 1.0, dim = false, edge_order = 1 })
  if need_tensor(op, "x", x).ndim == 0 then fail(op, "a 0-d tensor has no neighbours") end
  if o.edge_order ~= 1 and o.edge_order ~= 2 then
    fail(op, "edge_order = %s, need 1 or 2", tostring(o.edge_order))
  end
  local axes, out = type(o.dim) == "number" and { o.dim } or o.dim or {}, {}
  if not o.dim then for d = 1, x.ndim do axes[d] = d end end
  local v = x:is_floating_point() and x or x:float()
  if type(o.spacing) == "table" and #o.spacing ~= #axes then
    fail(op, "spacing has %d entries for %d axes", #o.spacing, #axes)
  end
  local seen = {}
  for i, d in ipairs(axes) do
    d = axis_of(op, x, d)
    if seen[d] then fail(op, "axis %d is named twice", d) end
    seen[d] = true
    out[i] = slope(v, d, type(o.spacing) == "table" and o.spacing[i] or o.spacing, o.edge_order)
  end
  return out
end)

-- ---- statistics ---------------------------------------------------------------------------------
--- The most frequent value along d, the smallest of several, and its last position.
---@param d? integer  -1
---@param o? table  {keepdim = false}
---@return flame.Tensor, flame.Tensor  values, positions
def("mode", 3, function(x, d, o)
  if type(d) == "table" then d, o = nil, d end
  if type(o) == "boolean" then o = { keepdim = o } end
  o = options("mode", o, { dim = -1, keepdim = false })
  local keep = o.keepdim
  d = axis_of("mode", need_tensor("mode", "x", x), d or o.dim)
  if x.ndim == 0 then return x:clone(), flame.ones({}, { dtype = "i64", device = x.device }) end
  local n = x.shape[d]
  if n == 0 then fail("mode", "axis %d has no elements", d) end
  local sorted, order = x:detach():sort(d)
  local rows = sorted:movedim(d, -1):contiguous()
  local first = flame.searchsorted(rows, rows)
  local count = flame.searchsorted(rows, rows, { right = true }) - first
  local at = count:argmax(-1, { keepdim = true })
  local last = (at + count:gather(-1, at) - 1):movedim(-1, d)
  local i = order:gather(d, last)
  local v = x:gather(d, i)
  if keep then return v, i end
  return v:squeeze(d):clone(), i:squeeze(d):clone()
end)
--- quantile of what is not NaN; NaN where nothing else is.
---@param q number|flame.Tensor  0 to 1; several come along a new first axis
---@param ... any  dim = all, keepdim = false, then {interpolation = "linear"}
def("nanquantile", 5, function(x, q, ...)
  local op = "nanquantile"
  if not need_tensor(op, "x", x):is_floating_point() then
    fail(op, "x is %s, need a float", x.dtype)
  end
  local o = defaults(op, { "dim", "keepdim" },
    { dim = false, keepdim = false, interpolation = "linear" }, ...)
  local d = o.dim or nil
  local v = d == nil and x:reshape(-1) or x.ndim == 0 and x:reshape(1) or x
  local axis = d == nil and 1 or axis_of(op, x, d)
  if v.shape[axis] == 0 then fail(op, "axis %d has no elements", axis) end
  local sorted = v:sort(axis)
  local last = (v:isnan():logical_not():sum(axis, { keepdim = true }) - 1):clamp(
    { min = 0 }):double()
  local shape = x.shape
  local function one(share, tracked)
    if type(share) ~= "number" then fail(op, "q must be a number or a tensor of one axis") end
    if not (share >= 0 and share <= 1) then fail(op, "q = %g, need 0 to 1", share) end
    local p = last * (tracked or share)
    local low = p:detach():floor()
    local w = p - low
    if o.interpolation == "lower" then
      w = w * 0
    elseif o.interpolation == "higher" then
      w = w:gt(0):double()
    elseif o.interpolation == "midpoint" then w = w:gt(0):double() * 0.5
    elseif o.interpolation == "nearest" then w = p:round() - low
    elseif o.interpolation ~= "linear" then
      fail(op, "no interpolation '%s'", tostring(o.interpolation))
    end
    local a, b = sorted:gather(axis, low:long() + 1), sorted:gather(axis, p:ceil():long() + 1)
    local y = a + (b - a) * w:to(x.dtype)
    if d == nil then
      for k = 1, #shape do shape[k] = 1 end
      return o.keepdim and y:reshape(shape) or y:reshape({})
    end
    return x.ndim == 0 and y:reshape({}) or o.keepdim and y or y:squeeze(axis)
  end
  if type(q) == "number" then return one(q):clone() end
  local list = need_tensor(op, "q", q):totable()
  local tracked = q.requires_grad and q:double()
  if q.ndim == 0 then return one(list, tracked):clone() end
  for k, share in ipairs(list) do list[k] = one(share, tracked and tracked[k]) end
  return flame.stack(list, 1)
end)
