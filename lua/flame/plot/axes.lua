--- The axes of a plot: ranges from its layers, ticks that fit the space, and
--- functions from values to positions.
local scale = require "flame.plot.scale"
local font = require "flame.plot.font"
local axes = {}

local huge = math.huge

-- Widens 'ends' to the range of a layer's points; returns how many of them the axes can not show.
local function widen(ends, layer, xlog, ylog)
  local xs, ys, holds, left = layer.x, layer.y, scale.holds, 0
  local x0, x1, y0, y1 = ends.x0, ends.x1, ends.y0, ends.y1
  for i = 1, #xs do
    local x, y = xs[i], ys[i]
    if holds(xlog, x) and holds(ylog, y) then
      if x < x0 then x0 = x end
      if x > x1 then x1 = x end
      if y < y0 then y0 = y end
      if y > y1 then y1 = y end
    else
      left = left + 1
    end
  end
  ends.x0, ends.x1, ends.y0, ends.y1 = x0, x1, y0, y1
  return left
end

local function end_of(v, none) if v == none then return nil end return v end

--- The two axes of a plot: {lo, hi, log, names, label, flipped, at = value -> 0 … 1}; also the
--- number of points that can not be shown, and of all points.
function axes.of(p)
  local o = p.o
  local xlog, ylog = o.xscale == "log", o.yscale == "log"
  local ends, left, all = { x0 = huge, x1 = -huge, y0 = huge, y1 = -huge }, 0, 0
  local tight, zero, names, flipped
  for _, layer in ipairs(p.layers) do
    if layer.x then
      left = left + widen(ends, layer, xlog, ylog)
      all = all + #layer.x
    end
    if layer.reach then
      for _, v in ipairs(layer.reach) do
        if scale.holds(xlog, v) then
          ends.x0, ends.x1 = math.min(ends.x0, v), math.max(ends.x1, v)
        end
      end
    end
    tight, zero, names = tight or layer.tight, zero or layer.zero, layer.names or names
    flipped = flipped or layer.flipped
  end
  local x = { log = xlog, names = names, label = o.xlabel, tight = tight or names ~= nil }
  local y = { log = ylog, label = o.ylabel, tight = tight, zero = zero, flipped = flipped }
  x.from, x.to = (o.xlim or {})[1], (o.xlim or {})[2]
  y.from, y.to = (o.ylim or {})[1], (o.ylim or {})[2]
  x.lo, x.hi = scale.range(end_of(ends.x0, huge), end_of(ends.x1, -huge), x)
  y.lo, y.hi = scale.range(end_of(ends.y0, huge), end_of(ends.y1, -huge), y)
  for _, a in ipairs { x, y } do
    local at, back = scale.position(a.lo, a.hi, a.log), a.flipped
    a.at = back and function(v) return 1 - at(v) end or at
  end
  return x, y, left, all
end

-- Ticks at every k-th name.
local function names_ticks(axis, k)
  local t = { at = {}, label = {}, minor = {}, factor = "" }
  for i = 1, #axis.names, k do
    if i >= axis.lo and i <= axis.hi then
      t.at[#t.at + 1], t.label[#t.label + 1] = i, axis.names[i]
    end
  end
  return t
end

-- Are the labels of ticks t, of width(text), at least 'gap' apart on an axis of length 'room'?
local function apart(axis, t, room, width, gap)
  local last = -huge
  for i, v in ipairs(t.at) do
    local half, at = width(t.label[i]) / 2, axis.at(v) * room
    if at - half < last + gap then return false end
    last = at + half
  end
  return true
end

--- Ticks for an axis of length 'room' (pixels or cells), with labels of width(text) that are at
--- least 'gap' apart, and at most about 'most' of them.
function axes.ticks(axis, room, width, gap, most)
  if axis.names then
    local k = 1
    while k < #axis.names and not apart(axis, names_ticks(axis, k), room, width, gap) do
      k = k + math.max(1, k // 4)
    end
    return names_ticks(axis, k)
  end
  local t
  for n = most, 2, -1 do
    t = scale.ticks(axis.lo, axis.hi, axis.log, n)
    if axis.flipped or apart(axis, t, room, width, gap) then break end
  end
  return t
end

--- The text beside an axis: its label and the factor that tick labels leave out.
function axes.label(axis, t)
  local label = axis.label or ""
  if t.factor == "" then return label end
  return label == "" and t.factor or label .. " (" .. t.factor .. ")"
end

--- Width of the widest label.
function axes.widest(t, size)
  local most = 0
  for _, s in ipairs(t.label) do most = math.max(most, font.room(s, size)) end
  return most
end

return axes
