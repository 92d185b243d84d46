--- Resampling of planes: interpolate (axis by axis, by sparse matrices or copies of elements) and
--- grid_sample (gathers with weights). Inf and NaN reach only the results that read them. Which
--- elements are read is computed as in PyTorch; by interpolate in f32, or f64 if x is f64.
local flame = require "flame"
local internal = flame.internal
local arguments = require "flame.base.arguments"
local dtypes = require "flame.base.dtypes"
local recording = require "flame.base.recording"
local windows = require "flame.ops.conv"
local fail, def, per_axis = arguments.fail, arguments.def, windows.per_axis
local float = dtypes.float

local text = windows.text

-- ---- interpolate --------------------------------------------------------------------------------
--- v rounded to f32, since PyTorch computes positions in f32 unless x is f64.
local function single(v) return (string.unpack("<f", string.pack("<f", v))) end
local function exactly(v) return v end

-- The step between input positions of neighbouring outputs, for n inputs and 'out' outputs; r:
-- rounds as PyTorch does. scale: the script's scale factor, or nil.
local function ratio(r, n, out, scale, align)
  if align then return out > 1 and r(r(n - 1) / r(out - 1)) or 0.0 end
  return scale and r(1 / scale) or r(r(n) / r(out))
end

-- The input position (1-based) of each output, for the nearest modes.
local function nearest_positions(x, n, out, scale, mode)
  local r, at = x.dtype == "f64" and exactly or single, {}
  local step = ratio(r, n, out, scale, false)
  for i = 0, out - 1 do
    local source
    if mode == "nearest" then source = r(step * i)
    else source = r(r(r(step * r(i + 0.5)) - 0.5) + 0.5) end
    at[i + 1] = math.min(math.max(math.floor(source), 0), n - 1) + 1
  end
  return at
end

-- The input positions and weights of the two neighbours of each output.
local function linear_taps(r, n, out, scale, align)
  local step, taps = ratio(r, n, out, scale, align), { { at = {}, w = {} }, { at = {}, w = {} } }
  for i = 0, out - 1 do
    local source = align and r(step * i) or out == n and i
      or math.max(r(r(step * r(i + 0.5)) - 0.5), 0)
    local low = math.min(math.floor(source), n - 1)
    local high, part = math.min(low + 1, n - 1), math.min(math.max(r(source - low), 0), 1)
    taps[1].at[i + 1], taps[1].w[i + 1] = low + 1, r(1 - part)
    taps[2].at[i + 1], taps[2].w[i + 1] = high + 1, part
  end
  return taps
end

local A = -0.75                          -- parameter of the cubic kernel
-- The kernel at a distance t of up to 1, and of 1 to 2.
local function near(r, t) return r(r(r(r(r(A + 2) * t) - r(A + 3)) * t) * t + 1) end
local function far(r, t) return r(r(r(r(r(r(A * t) - 5 * A) * t) + 8 * A) * t) - 4 * A) end

-- The input positions, clamped to the edge, and weights of the four neighbours of each output.
local function cubic_taps(r, n, out, scale, align)
  local step, taps = ratio(r, n, out, scale, align), {}
  for k = 1, 4 do taps[k] = { at = {}, w = {} } end
  for i = 0, out - 1 do
    local source = align and r(step * i) or r(r(step * r(i + 0.5)) - 0.5)
    local low = math.floor(source)
    local t = r(source - low)
    local w = { far(r, r(t + 1)), near(r, t), near(r, r(1 - t)), far(r, r(2 - t)) }
    for k = 1, 4 do
      taps[k].at[i + 1], taps[k].w[i + 1] = math.min(math.max(low + k - 2, 0), n - 1) + 1, w[k]
    end
  end
  return taps
end

--- Filters, as functions of the distance t: the triangular and the cubic kernel (a = -0.5); 0 for t
--- above 'reach'. With antialias they are as wide as the distance of the outputs.
local filters = {
  bilinear = { reach = 1, function(t) return math.max(1 - t, 0) end },
  bicubic = { reach = 2, function(t)
    if t < 1 then return (1.5 * t - 2.5) * t * t + 1 end
    return t < 2 and ((-0.5 * t + 2.5) * t - 4) * t + 2 or 0
  end },
}
-- The input positions and weights of all neighbours of each output under a filter. Outputs with
-- fewer neighbours than others repeat the last one and divide its weight.
local function smooth_taps(filter)
  return function(r, n, out, scale, align)
    local step, rows, most = ratio(r, n, out, scale, align), {}, 0
    local wide = math.max(step, 1)
    for i = 0, out - 1 do
      local centre, total, row = step * (i + 0.5), 0, {}
      local first = math.max(math.floor(centre - filter.reach * wide + 0.5), 0)
      local last = math.min(math.floor(centre + filter.reach * wide + 0.5), n) - 1
      for at = first, last do
        local w = filter[1](math.abs((at - centre + 0.5) / wide))
        row[#row + 1], total = { at + 1, w }, total + w
      end
      for _, tap in ipairs(row) do tap[2] = tap[2] / total end
      rows[i + 1], most = row, math.max(most, #row)
    end
    local taps = {}
    for k = 1, most do taps[k] = { at = {}, w = {} } end
    for i, row in ipairs(rows) do
      while #row < most do
        local last = row[#row]
        last[2] = last[2] / 2
        row[#row + 1] = { last[1], last[2] }
      end
      for k = 1, most do taps[k].at[i], taps[k].w[i] = row[k][1], row[k][2] end
    end
    return taps
  end
end

-- ---- sums along an axis -------------------------------------------------------------------------
--- A sparse matrix by rows. taps[k].at[i] is the column (1-based) of row i's k-th term and
--- taps[k].w[i] its weight; 'back' gives the transposed matrix. It has 'rows' rows and is returned
--- as {n = rows, where each row begins, columns from 0, weights}.
local function by_rows(taps, rows, back, x)
  local start, at, w, n = {}, {}, {}, #taps[1].at
  for r = 1, rows + 1 do start[r] = 0 end
  for i = 1, n do
    for k = 1, #taps do
      local r = back and taps[k].at[i] or i
      start[r + 1] = start[r + 1] + 1
    end
  end
  for r = 1, rows do start[r + 1] = start[r + 1] + start[r] end
  local free = table.move(start, 1, rows, 1, {})
  for i = 1, n do
    for k = 1, #taps do
      local r = back and taps[k].at[i] or i
      free[r] = free[r] + 1
      at[free[r]], w[free[r]] = (back and i or taps[k].at[i]) - 1, taps[k].w[i]
    end
  end
  local ids = { dtype = "i64", device = x.device }
  local matrix = { n = rows, flame.tensor(start, ids), flame.tensor(at, ids),
    flame.tensor(w, { dtype = x.dtype, device = x.device }) }
  internal.hold(matrix[1], matrix[2], matrix[3])            -- so that no scope closes them
  return matrix
end

local function multiply(x, d, matrix)
  local shape, outer, inner = x.shape, 1, 1
  for i = 1, d - 1 do outer = outer * shape[i] end
  for i = d + 1, #shape do inner = inner * shape[i] end
  local params = { outer, shape[d], matrix.n, inner }
  shape[d] = matrix.n
  return internal.call("resample", "interpolate", { x, matrix[1], matrix[2], matrix[3] }, params,
    shape, x.dtype)
end

--- The op y = matrix times x along axis d; 'back' is the transposed matrix, for the gradient.
local resample
local function make_resample()
  resample = flame.func { name = "interpolate",
    forward = function(ctx, x, d, matrix, back)
      ctx.d, ctx.matrix, ctx.back = d, matrix, back
      return multiply(x, d, matrix)
    end,
    backward = function(ctx, g) return resample(g, ctx.d, ctx.back, ctx.matrix) end }
end

-- A cache of the last matrices, newest first: a network uses the same ones at each step.
local MATRICES = 16
local kept = {}

local function matrices(key, x, make)
  for i, entry in ipairs(kept) do
    if entry.key == key then
      table.insert(kept, 1, table.remove(kept, i))
      return entry
    end
  end
  local taps = make()
  local entry = { key = key, taps = taps, forth = by_rows(taps, #taps[1].at, false, x) }
  table.insert(kept, 1, entry)
  kept[MATRICES + 1] = nil
  return entry
end

-- The weighted sums of neighbours along axis d. make() returns their positions and weights; 'key'
-- finds the matrix made of them in the cache.
local function weigh(x, d, key, make)
  local entry = matrices(("%s %s %s %d"):format(key, x.dtype, x.device, x.shape[d]), x, make)
  if not recording.tracked(x) then return multiply(x, d, entry.forth) end
  if not resample then make_resample() end
  entry.back = entry.back or by_rows(entry.taps, x.shape[d], true, x)
  return resample(x, d, entry.forth, entry.back)
end

local axes_of_mode = { linear = 1, bilinear = 2, bicubic = 2, trilinear = 3 }

-- most elements of a result, and of one axis (positions along an axis are computed in Lua)
local MOST <const>, LONGEST <const> = 1 << 40, 1 << 24

-- The sizes of the result along the last n axes, and the factors from which positions are computed
-- (empty: from the sizes). f: scale_factor.
local function output_sizes(op, x, n, size, f, recompute)
  local out, scale = {}, {}
  if size and f then fail(op, "\1give size or scale_factor, not both") end
  if size then
    out = per_axis(op, "size", size, n, 1)
  elseif f then
    if type(f) == "table" and #f ~= n then
      fail(op, "scale_factor has %d numbers, need 1 or %d", #f, n)
    end
    for i = 1, n do
      scale[i] = type(f) == "table" and f[i] or f
      if not (scale[i] > 0) then
        fail(op, "scale_factor must be a number above 0, got %s", tostring(scale[i]))
      end
      out[i] = math.floor(x.shape[2 + i] * scale[i])
      if out[i] < 1 then
        fail(op, "axis %d has %d elements: scale_factor %g leaves none", 2 + i,
          x.shape[2 + i], scale[i])
      end
    end
    if recompute then scale = {} end
  else
    fail(op, "\1give size or scale_factor")
  end
  local total = 1.0 * x.shape[1] * x.shape[2]
  for i = 1, n do total = total * out[i] end
  if total > MOST then fail(op, "%g elements are too many", total) end
  for i = 1, n do
    if out[i] > LONGEST and out[i] ~= x.shape[2 + i] then
      fail(op, "%d elements along an axis are too many, need at most %d", out[i], LONGEST)
    end
  end
  return out, scale
end

-- How many outputs each input element gives along an axis, if all give equally many; else nil.
local function whole_factor(x, n, out, scale, mode)
  if out % n ~= 0 or scale and scale ~= out // n then return nil end
  local factor = out // n
  if factor & (factor - 1) == 0 then return factor end           -- its reciprocal is exact
  for i, at in ipairs(nearest_positions(x, n, out, scale, mode)) do
    if at ~= (i - 1) // factor + 1 then return nil end
  end
  return factor
end

-- x with each element repeated along its last #out axes, in one pass; nil if along an axis
-- some are repeated more often than others.
local function repeated(x, out, scale, mode)
  local n, shape, wide = #out, {}, {}
  for i = 1, 2 do shape[i], wide[i] = x.shape[i], x.shape[i] end
  for i = 1, n do
    local size = x.shape[2 + i]
    local factor = whole_factor(x, size, out[i], scale[i], mode)
    if not factor then return nil end
    shape[2 * i + 1], shape[2 * i + 2], wide[2 * i + 1], wide[2 * i + 2] = size, 1, size, factor
  end
  return x:reshape(shape):expand(wide):reshape(x.shape[1], x.shape[2], table.unpack(out)):clone()
end

-- x resized by the nearest modes along its last n axes: its elements are copied.
local function nearest(x, n, out, scale, mode)
  local y, direct = x, x.dtype == "f32" or x.dtype == "f64"
  -- for f32 and f64 on the CPU weigh() is faster
  local all = not (direct and x.device == "cpu") and repeated(x, out, scale, mode)
  if all then return all end
  for i = n, 1, -1 do
    local function at() return nearest_positions(x, x.shape[2 + i], out[i], scale[i], mode) end
    local same = out[i] == x.shape[2 + i] and (scale[i] or 1) == 1
    if not same and direct then
      y = weigh(y, 2 + i, ("%s %d %a"):format(mode, out[i], scale[i] or 0), function()
        local positions, ones = at(), {}
        for k = 1, #positions do ones[k] = 1 end
        return { { at = positions, w = ones } }
      end)
    elseif not same then
      y = y:index_select(2 + i, flame.tensor(at(), { dtype = "i64", device = x.device }))
    end
  end
  return y == x and x:clone() or y
end

local ARGUMENTS <const> = [[(x: T, size?: int|int[], scale_factor?: num|num[],
    mode: "nearest"|"nearest-exact"|"linear"|"bilinear"|"bicubic"|"trilinear"|"area" = "nearest",
    align_corners = false, recompute_scale_factor = false, antialias = false) -> T]]
--- Resamples x (n, c, …) to another size, or by scale_factor; recompute_scale_factor: by the
--- quotient of the sizes instead. align_corners: first and last elements stay first and last;
--- antialias: the filter is as wide as the distance of the outputs.
def("interpolate" .. ARGUMENTS,
function(x, size, factor, mode, align_corners, recompute, antialias)
  local op, n = "interpolate", x.ndim - 2
  if n < 1 or n > 3 then
    fail(op, "x has shape %s, need (n, c) and 1 to 3 axes more", text(x.shape))
  end
  if antialias and not filters[mode] then
    fail(op, "antialias needs mode bilinear or bicubic, got %s", tostring(mode))
  end
  local out, scale = output_sizes(op, x, n, size, factor, recompute)
  for i = 2, x.ndim do
    if x.shape[i] == 0 then
      fail(op, "x has shape %s: only the batch may be empty", text(x.shape))
    end
  end
  if mode == "area" then return flame["adaptive_avg_pool" .. n .. "d"](x, out) end
  if mode == "nearest" or mode == "nearest-exact" then
    if align_corners then fail(op, "align_corners has no meaning with mode %s", mode) end
    return nearest(x, n, out, scale, mode)
  end
  if axes_of_mode[mode] ~= n then
    fail(op, "mode %s needs %d axes, x has shape %s", mode, axes_of_mode[mode] + 2, text(x.shape))
  end
  if not float[x.dtype] then fail(op, "x is %s, need a float", x.dtype) end
  local half = x.dtype == "f16" or x.dtype == "bf16"
  local y, r = half and x:float() or x, x.dtype == "f64" and exactly or single
  for i = n, 1, -1 do
    if out[i] ~= x.shape[2 + i] or scale[i] then
      local taps = antialias and smooth_taps(filters[mode]) or mode == "bicubic" and cubic_taps
        or linear_taps
      local key = ("%s %d %a %s %s"):format(mode, out[i], scale[i] or 0, tostring(align_corners),
        tostring(antialias))
      y = weigh(y, 2 + i, key, function()
        return taps(r, x.shape[2 + i], out[i], scale[i], align_corners)
      end)
    end
  end
  return half and y:to(x.dtype) or y == x and x:clone() or y
end)

-- ---- grid_sample --------------------------------------------------------------------------------
--- Pixels of a coordinate in -1 … 1.
local function pixels(g, size, align)
  if align then return (g + 1) * ((size - 1) / 2) end
  return ((g + 1) * size - 1) / 2
end

-- Positions v limited to 0 … size - 1; the gradient outside is 0.
local function clip(v, size)
  return flame.where(v:gt(0):logical_and(v:lt(size - 1)), v, v:detach():clamp(0, size - 1))
end

-- Positions v mirrored at the borders low / 2 and high / 2 (given doubled, as integers).
local function reflect(v, low, high)
  if low == high then return v * 0 end
  local least, span = low / 2, (high - low) / 2
  local a = (v - least):abs()
  local turns = (a:detach() / span):floor()
  local extra = a - turns * span
  return flame.where(turns:fmod(2):eq(0), extra + least, span + least - extra)
end

local function bordered(v, size, padding, align)
  if padding == "border" then return clip(v, size) end
  if padding == "reflection" then
    if align then v = reflect(v, 0, 2 * (size - 1)) else v = reflect(v, -1, 2 * size - 1) end
    return clip(v, size)
  end
  return v
end

-- The values (n, c, h * w) of x at whole pixels (ix, iy: (n, h, w), 0-based floats); 0 outside of
-- the plane. flat: x with each plane as one axis.
local function values_at(x, flat, ix, iy)
  local s, out = x.shape, ix.shape
  local h, w = s[3], s[4]
  local inside = ix:ge(0):logical_and(ix:le(w - 1)):logical_and(iy:ge(0)):logical_and(iy:le(h - 1))
  local at = flame.where(inside, iy * w + ix, 0):long() + 1
  local n, count = out[1], out[2] * out[3]
  local v = flat:gather(3, at:reshape(n, 1, count):expand(n, s[2], count))
  return flame.where(inside:reshape(n, 1, count), v, 0)
end

-- The weights of the four neighbours of a point at the fraction t between the middle two.
local function cubic(t)
  local function close(v) return ((A + 2) * v - (A + 3)) * v * v + 1 end
  local function away(v) return ((A * v - 5 * A) * v + 8 * A) * v - 4 * A end
  return { away(t + 1), close(t), close(1 - t), away(2 - t) }
end

-- samplers[mode](x, flat, px, py, padding, align, wide): flat is x with each plane as one axis, px
-- and py (n, h, w) are the points; wide(w) gives weights w the shape of values_at's result.
local samplers = {}
function samplers.nearest(x, flat, px, py, padding, align)
  px, py = bordered(px, x.shape[4], padding, align), bordered(py, x.shape[3], padding, align)
  return values_at(x, flat, px:detach():round(), py:detach():round())
end
function samplers.bilinear(x, flat, px, py, padding, align, wide)
  px, py = bordered(px, x.shape[4], padding, align), bordered(py, x.shape[3], padding, align)
  local x0, y0 = px:detach():floor(), py:detach():floor()
  local fx, fy = px - x0, py - y0
  return values_at(x, flat, x0, y0) * wide((1 - fx) * (1 - fy)) + values_at(x, flat, x0 + 1,
    y0) * wide(fx * (1 - fy))
    + values_at(x, flat, x0, y0 + 1) * wide((1 - fx) * fy) + values_at(x, flat, x0 + 1,
      y0 + 1) * wide(fx * fy)
end
function samplers.bicubic(x, flat, px, py, padding, align, wide)
  local x0, y0 = px:detach():floor(), py:detach():floor()
  local wx, wy, y = cubic(px - x0), cubic(py - y0), nil
  for j = 1, 4 do
    local row
    for i = 1, 4 do
      local ix = bordered(x0 + (i - 2), x.shape[4], padding, align)
      local iy = bordered(y0 + (j - 2), x.shape[3], padding, align)
      local term = values_at(x, flat, ix, iy) * wide(wx[i])
      row = row and row + term or term
    end
    row = row * wide(wy[j])
    y = y and y + row or row
  end
  return y
end

-- The values (n, c, points) of x (n, c, d, h, w) at voxels; at[1], at[2], at[3], each (n, points),
-- are their coordinates along w, h, d. 0 outside of the volume.
local function voxels_at(x, flat, at)
  local s, inside, place, stride = x.shape, nil, nil, 1
  for k, v in ipairs(at) do
    local size = s[#s + 1 - k]
    local fits = v:ge(0):logical_and(v:le(size - 1))
    inside, place = inside and inside:logical_and(fits) or fits, place and place + v * stride or v
    stride = stride * size
  end
  local n, count = s[1], at[1].shape[2]
  local id = flame.where(inside, place, 0):long() + 1
  local v = flat:gather(3, id:reshape(n, 1, count):expand(n, s[2], count))
  return flame.where(inside:reshape(n, 1, count), v, 0)
end

-- x (n, c, d, h, w) at the points p[1] (along w), p[2], p[3] (n, points): interpolated from eight
-- neighbours, or the nearest one.
local function sample_volume(x, p, mode, padding, align)
  local s, flat = x.shape, x:flatten(3)
  for k = 1, 3 do p[k] = bordered(p[k], s[#s + 1 - k], padding, align) end
  if mode == "nearest" then
    for k = 1, 3 do p[k] = p[k]:detach():round() end
    return voxels_at(x, flat, p)
  end
  local low, part, y = {}, {}, nil
  for k = 1, 3 do
    low[k] = p[k]:detach():floor()
    part[k] = p[k] - low[k]
  end
  for corner = 0, 7 do
    local at, w = {}, nil
    for k = 1, 3 do
      local high = corner >> (k - 1) & 1
      at[k] = low[k] + high
      local share = high == 1 and part[k] or 1 - part[k]
      w = w and w * share or share
    end
    local term = voxels_at(x, flat, at) * w:unsqueeze(2)
    y = y and y + term or term
  end
  return y
end

--- The values of x (n, c, h, w) at the points of grid (n, h', w', 2), each x then y, with -1 and 1
--- at the edges; or of x (n, c, d, h, w) at the points of grid (n, d', h', w', 3).
def([[grid_sample(x: T, grid: T, mode: "bilinear"|"nearest"|"bicubic" = "bilinear",
    padding_mode: "zeros"|"border"|"reflection" = "zeros", align_corners = false) -> T]],
function(x, grid, mode, padding_mode, align_corners)
  local op = "grid_sample"
  local axes = x.ndim - 2
  if axes ~= 2 and axes ~= 3 or grid.ndim ~= x.ndim or grid.shape[grid.ndim] ~= axes
      or grid.shape[1] ~= x.shape[1] then
    fail(op,
      "x has shape %s and grid %s, need (n, c, h, w) and (n, h', w', 2), or (n, c, d, h, w) and (n, d', h', w', 3)",
      text(x.shape), text(grid.shape))
  end
  local s, g, count = x.shape, grid.shape, 1
  for k = 3, #s do
    if s[k] == 0 then fail(op, "x has shape %s: there is nothing to sample", text(s)) end
  end
  if axes == 3 and mode == "bicubic" then
    fail(op, "mode bicubic needs 4 axes, x has shape %s", text(s))
  end
  local n, p, y = g[1], {}
  for k = 2, #g - 1 do count = count * g[k] end
  for k = 1, axes do p[k] = pixels(grid:select(-1, k), s[#s + 1 - k], align_corners) end
  if axes == 3 then
    for k = 1, 3 do p[k] = p[k]:reshape(n, count) end
    y = sample_volume(x, p, mode, padding_mode, align_corners)
  else
    y = samplers[mode](x, x:reshape(s[1], s[2], s[3] * s[4]), p[1], p[2], padding_mode,
      align_corners, function(w) return w:reshape(n, 1, count) end)
  end
  local shape = { n, s[2] }
  return y:reshape(table.move(g, 2, #g - 1, 3, shape)):clone()
end)

--- The grid, for grid_sample, of affine maps: (n, h, w, 2) for theta (n, 2, 3) and size {n, c, h,
--- w}; (n, d, h, w, 3) for theta (n, 3, 4) and size {n, c, d, h, w}.
def("affine_grid(theta: T, size: int[], align_corners = false) -> T",
function(theta, size, align_corners)
  local op, axes = "affine_grid", #size - 2
  if axes ~= 2 and axes ~= 3 then fail(op, "size must be {n, c, h, w} or {n, c, d, h, w}") end
  if theta.ndim ~= 3 or theta.shape[2] ~= axes or theta.shape[3] ~= axes + 1 then
    fail(op, "theta has shape %s, need (n, %d, %d)", text(theta.shape), axes, axes + 1)
  end
  local kind = { dtype = theta.dtype, device = theta.device }
  local function line(n)
    if n == 1 then return flame.zeros({ 1 }, kind) end
    local edge = align_corners and 1 or (n - 1) / n
    return flame.linspace(-edge, edge, n, kind)
  end
  local sizes, columns, out = table.move(size, 3, #size, 1, {}), {}, { size[1] }
  for k = 1, axes do                                        -- x first: along the last axis
    local shape, n = {}, sizes[axes + 1 - k]
    for j = 1, axes do shape[j] = j == axes + 1 - k and n or 1 end
    columns[k] = line(n):reshape(shape):expand(sizes)
  end
  columns[axes + 1] = flame.ones(sizes, kind)
  local points = flame.stack(columns, -1):reshape(1, -1, axes + 1)
  table.move(sizes, 1, axes, 2, out)[axes + 2] = axes
  return points:expand(size[1], points.shape[2], axes + 1):matmul(theta:transpose(2, 3))
    :reshape(out):clone()
end)

-- ---- other names --------------------------------------------------------------------------------
--- interpolate under its older name.
def("upsample" .. ARGUMENTS, flame.interpolate)
local function upsampling(name, mode, align)
  def(name .. "(x: T, size?: int|int[], scale_factor?: num|num[]) -> T",
    function(x, size, factor)
      return flame.interpolate(x,
        { size = size, scale_factor = factor, mode = mode, align_corners = align })
    end)
end
--- interpolate, nearest.
upsampling("upsample_nearest", "nearest")
--- interpolate, bilinear with aligned corners, for x with four axes.
upsampling("upsample_bilinear", "bilinear", true)
