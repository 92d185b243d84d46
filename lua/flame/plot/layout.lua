--- Turns a plot into the parts of a picture, in pixels from the upper left corner, which
--- plot/svg.lua and plot/raster.lua draw:
---   {kind = "line",  points = {x, y, …}, colour, width, dash = {on, off}?, alpha?, clip?}
---   {kind = "rect",  x, y, w, h, colour, alpha?, clip?}
---   {kind = "marks", points = {x, y, …}, shape, r, colour, alpha?, apart =
---   marks on others are darker?}
---   {kind = "text",  x, y (base line), text, size, anchor = "start" |
---                    "middle" | "end", upright?, colour, bold?}
---   {kind = "image", x, y, w, h, rows, columns, pixels = {0xRRGGBB, … row by row}}
--- clip = {x, y, w, h}. Legends and colour bars are at the right of the axes,
--- where they hide nothing.
local axes = require "flame.plot.axes"
local colour = require "flame.plot.colour"
local data = require "flame.plot.data"
local font = require "flame.plot.font"
local scale = require "flame.plot.scale"
local layout = {}

local SMALL, LARGE, BOLD = 12, 14, 1.15      -- sizes of text in pixels; how much wider bold text is
-- in pixels: empty border, length of ticks, width of a colour bar, length of a line in the legend
local PAD, TICK, BAR, SAMPLE = 8, 4, 14, 22
-- most lines of a legend; most marks of a layer that are blended one by one
local MOST_LEGEND, MOST_APART = 20, 5000
local floor = math.floor

-- The middle of a pixel, where a line of width 1 is sharp.
local function crisp(v) return floor(v) + 0.5 end
local function put(out, item) out[#out + 1] = item end
local function text(out, x, y, s, o)
  put(out,
    { kind = "text", x = x, y = y, text = s, size = o.size or SMALL, anchor = o.anchor or "start",
    upright = o.upright, colour = o.colour or colour.text, bold = o.bold })
end

-- ---- layers -------------------------------------------------------------------------------------

-- A function from a value to its pixel on an axis that begins at 'first'; values far outside give a
-- limited number, never an infinite one.
local function placer(axis, first, length)
  local at = axis.at
  return function(v) return math.max(-1e12, math.min(1e12, first + at(v) * length)) end
end

local function inside(box, x, y)
  return x >= box.x and x <= box.x + box.w and y >= box.y and y <= box.y + box.h
end

-- The part of the segment within the box: its ends, or nil (Liang and Barsky, 1984).
local function segment_within(x0, y0, x1, y1, b)
  local t0, t1, dx, dy = 0, 1, x1 - x0, y1 - y0
  for side = 1, 4 do
    local p = side == 1 and -dx or side == 2 and dx or side == 3 and -dy or dy
    local q = side == 1 and x0 - b.x or side == 2 and b.x + b.w - x0 or side == 3 and y0 - b.y
      or b.y + b.h - y0
    if p == 0 then
      if q < 0 then return nil end
    elseif p < 0 then
      t0 = math.max(t0, q / p)
    else
      t1 = math.min(t1, q / p)
    end
  end
  if t0 > t1 then return nil end
  return x0 + t0 * dx, y0 + t0 * dy, x0 + t1 * dx, y0 + t1 * dy
end

-- The pieces of a line {x, y, x, y, …} that are inside the box, extended by 'border'.
local function pieces_within(points, box, border)
  local b = { x = box.x - border, y = box.y - border, w = box.w + 2 * border,
    h = box.h + 2 * border }
  local out, piece, ex, ey = {}, nil, nil, nil
  for i = 1, #points - 3, 2 do
    local x0, y0, x1, y1 = segment_within(points[i], points[i + 1], points[i + 2], points[i + 3], b)
    if x0 then
      if not piece or x0 ~= ex or y0 ~= ey then
        piece = { x0, y0 }
        out[#out + 1] = piece
      end
      piece[#piece + 1], piece[#piece + 2] = x1, y1
      ex, ey = x1, y1
    else
      piece = nil
    end
  end
  return out
end

local MOST_PIECES = 4000

-- The runs of points that the axes show, as pixels: lists of x and of y. Short runs in one column
-- of pixels become one run; if there are more than MOST_PIECES, every k-th is kept.
local function runs_of(layer, x, y, place_x, place_y)
  local runs, px, py, last = {}, nil, nil, nil
  for i = 1, #layer.x do
    local vx, vy = layer.x[i], layer.y[i]
    if scale.holds(x.log, vx) and scale.holds(y.log, vy) then
      local h, v = place_x(vx), place_y(vy)
      if not px and last and floor(last[1][1]) == floor(h)
          and floor(last[1][#last[1]]) == floor(h) then
        px, py = last[1], last[2]
      end
      if not px then
        px, py = {}, {}
        last = { px, py }
        runs[#runs + 1] = last
      end
      px[#px + 1], py[#py + 1] = h, v
    else
      px = nil
    end
  end
  if #runs <= MOST_PIECES then return runs end
  local some, step = {}, math.ceil(#runs / MOST_PIECES)
  for i = 1, #runs, step do some[#some + 1] = runs[i] end
  return some
end

-- draw[kind](out, layer, box, x, y, place_x, place_y) adds the parts of a layer to 'out'. box: that
-- of the axes x and y; place_x and place_y: from values to pixels.
local draw = {}

function draw.line(out, layer, box, x, y, place_x, place_y)
  local dots = { {}, {} }
  for _, run in ipairs(runs_of(layer, x, y, place_x, place_y)) do
    if #run[1] == 1 and not inside(box, run[1][1], run[2][1]) then goto next end
    if #run[1] == 1 then
      table.insert(dots[1], run[1][1])
      table.insert(dots[2], run[2][1])
    else
      for _, piece in ipairs(pieces_within(data.thin_line(run[1], run[2]), box, 20)) do
        put(out,
          { kind = "line", points = piece, colour = layer.colour, width = layer.width,
          dash = layer.dash, alpha = layer.alpha, clip = box })
      end
    end
    ::next::
  end
  if #dots[1] > 0 then
    put(out,
      { kind = "marks", points = data.thin_marks(dots[1], dots[2]), shape = "circle",
      r = layer.width, colour = layer.colour, alpha = layer.alpha })
  end
end

function draw.scatter(out, layer, box, x, y, place_x, place_y)
  local px, py = {}, {}
  for i = 1, #layer.x do
    local vx, vy = layer.x[i], layer.y[i]
    if scale.holds(x.log, vx) and scale.holds(y.log, vy) then
      local h, v = place_x(vx), place_y(vy)
      if inside(box, h, v) then px[#px + 1], py[#py + 1] = h, v end
    end
  end
  local points = data.thin_marks(px, py)
  put(out,
    { kind = "marks", points = points, shape = layer.shape, r = layer.size / 2,
    colour = layer.colour, alpha = layer.alpha, apart = layer.alpha and #points <= 2 * MOST_APART })
end

-- Bars thinner than a pixel are joined: those that begin in one column of pixels become one bar, as
-- high as the highest and as low as the lowest.
function draw.bars(out, layer, box, x, y, place_x, place_y)
  local base = y.log and y.lo or 0
  local columns, order = {}, {}
  for i = 1, #layer.y do
    local v = layer.y[i]
    if scale.holds(y.log, v) and scale.holds(x.log, layer.x[i])
        and scale.holds(x.log, layer.left[i]) then
      local l, r, h = place_x(layer.left[i]), place_x(layer.right[i]), place_y(v)
      local key = r - l < 1 and floor(l) or -i
      local c = columns[key]
      if not c then
        local zero = place_y(base)
        c = { l = key == -i and l or key, r = key == -i and r or key + 1, top = zero,
          bottom = zero }
        columns[key] = c
        order[#order + 1] = c
      end
      c.top, c.bottom = math.min(c.top, h), math.max(c.bottom, h)
    end
  end
  for _, c in ipairs(order) do
    local l, r = math.max(c.l, box.x), math.min(c.r, box.x + box.w)
    local top, bottom = math.max(c.top, box.y), math.min(c.bottom, box.y + box.h)
    -- no seams between neighbours
    if layer.joined or r - l > 6 then l, r = floor(l + 0.5), floor(r + 0.5) end
    if r > l and bottom > top then
      put(out,
        { kind = "rect", x = l, y = top, w = r - l, h = bottom - top, colour = layer.colour,
          alpha = layer.alpha })
    end
  end
end

function draw.heat(out, layer, box, _, _, place_x, place_y)
  if layer.rows == 0 or layer.columns == 0 then return end
  local x0, x1 = place_x(layer.x[1]), place_x(layer.x[2])
  local y0, y1 = place_y(layer.y[1]), place_y(layer.y[2])
  put(out,
    { kind = "image", x = math.min(x0, x1), y = math.min(y0, y1), w = math.abs(x1 - x0),
    h = math.abs(y1 - y0), rows = layer.rows, columns = layer.columns,
    pixels = layer.pixels, clip = box })
end

function draw.contour(out, layer, box, x, y, place_x, place_y)
  for _, curve in ipairs(layer.curves) do
    local px, py = {}, {}
    for i = 1, #curve.points, 2 do
      local vx, vy = curve.points[i], curve.points[i + 1]
      if scale.holds(x.log, vx) and scale.holds(y.log, vy) then
        px[#px + 1], py[#py + 1] = place_x(vx), place_y(vy)
      end
    end
    for _, piece in ipairs(#px > 1 and pieces_within(data.thin_line(px, py), box, 20) or {}) do
      put(out,
        { kind = "line", points = piece, colour = curve.colour, width = layer.width, clip = box })
    end
  end
end

-- ---- beside the axes ----------------------------------------------------------------------------

-- The text s, or the longest beginning of it with "…" that fits the room.
local function cut(s, size, room)
  if font.room(s, size) <= room then return s end
  local ends = {}
  for at in utf8.codes(s) do ends[#ends + 1] = at - 1 end
  for i = #ends, 1, -1 do
    local part = s:sub(1, ends[i]) .. "…"
    if font.room(part, size) <= room then return part end
  end
  return "…"
end

local function legend_of(p)
  local list = {}
  for _, layer in ipairs(p.layers) do
    if layer.label and p.o.legend then list[#list + 1] = layer end
  end
  return list
end

local function legend_width(list, room)
  local most = 0
  for _, layer in ipairs(list) do most = math.max(most, font.room(layer.label, SMALL)) end
  return #list > 0 and math.min(room, math.ceil(most) + SAMPLE + 7) or 0
end

local function draw_legend(out, list, x, y, width, height)
  local most = math.min(#list, MOST_LEGEND, math.max(1, floor(height / 18)))
  for i = 1, most do
    local layer, middle = list[i], crisp(y + 9 + (i - 1) * 18)
    if #list > most and i == most then
      text(out, x + SAMPLE + 6, middle + 4, ("%d more"):format(#list - most + 1), {})
    else
      if layer.kind == "bars" then
        put(out,
          { kind = "rect", x = x + 4, y = middle - 5, w = 12, h = 10, colour = layer.colour,
            alpha = layer.alpha })
      elseif layer.kind == "scatter" then
        put(out,
          { kind = "marks", points = { x + SAMPLE / 2, middle }, shape = layer.shape,
            r = layer.size / 2, colour = layer.colour })
      else
        put(out,
          { kind = "line", points = { x + 1, middle, x + SAMPLE - 1, middle },
          colour = layer.colour, width = layer.width, dash = layer.dash })
      end
      text(out, x + SAMPLE + 6, middle + 4, cut(layer.label, SMALL, width - SAMPLE - 6), {})
    end
  end
end

-- The colour bar (with ticks and width) of the last layer that has one, for draw_bar; or nil.
local function bar_of(p, height)
  for i = #p.layers, 1, -1 do
    local b = p.layers[i].bar
    if b then
      local t = scale.ticks(b.lo, b.hi, false, math.max(2, floor(height / 40)))
      local words = math.max(axes.widest(t, SMALL), font.room(t.factor, SMALL))
      return { lo = b.lo, hi = b.hi, map = b.map, ticks = t, width = BAR + TICK + 4 + words }
    end
  end
end

local function draw_bar(out, b, x, box)
  local pixels = {}
  for i = 0, 255 do pixels[i + 1] = b.map[255 - i] end
  put(out,
    { kind = "image", x = x, y = box.y, w = BAR, h = box.h, rows = 256, columns = 1,
      pixels = pixels, smooth = true })
  local at = scale.position(b.lo, b.hi)
  for i, v in ipairs(b.ticks.at) do
    local y = crisp(box.y + box.h - at(v) * box.h)
    if y >= box.y - 1 and y <= box.y + box.h + 1 then
      put(out,
        { kind = "line", points = { x + BAR, y, x + BAR + TICK, y },
          colour = colour.ink, width = 1 })
      text(out, x + BAR + TICK + 4, y + 4, b.ticks.label[i], {})
    end
  end
  if b.ticks.factor ~= "" then text(out, x, box.y - 5, b.ticks.factor, {}) end
end

-- ---- a whole plot ------------------------------------------------------------------------------

-- The ticks below the x axis; are labels written upwards (names that do not fit side by side)?
local function x_labels(x, width)
  local function horizontal(s) return font.room(s, SMALL) end
  local most = math.max(3, floor(width / 48))
  if not x.names then return axes.ticks(x, width, horizontal, 10, most), false end
  local widest = 0
  for _, s in ipairs(x.names) do widest = math.max(widest, horizontal(s)) end
  if widest + 6 <= width / math.max(1, x.hi - x.lo) then
    return axes.ticks(x, width, horizontal, 4, most), false
  end
  return axes.ticks(x, width, function() return SMALL end, 3, most), true
end

local function x_room(t, upright)
  if not upright then return SMALL end
  local most = 0
  for _, s in ipairs(t.label) do most = math.max(most, font.room(cut(s, SMALL, 100), SMALL)) end
  return most
end

-- The box of the axes within the plot's box, and what is placed around it (ticks, legend, bar).
local function arrange(p, box, x, y)
  local bare = p.o.axes == false
  local top = PAD + (p.o.title and LARGE + 8 or 0)
  local legend = legend_of(p)
  local right = legend_width(legend, box.w * 0.35)
  local height = box.h - top - 2 * PAD - (bare and 0 or 2 * SMALL + 8)
  local bar = bar_of(p, height)
  if bar and bar.ticks.factor ~= "" then top = top + SMALL end
  local yt = axes.ticks(y, height, function() return SMALL end, 4, math.max(3, floor(height / 30)))
  local ylabel = axes.label(y, yt)
  local left = bare and PAD
    or PAD + axes.widest(yt, SMALL) + TICK + 5 + (ylabel ~= "" and SMALL + 8 or 0)
  local beside = (bar and bar.width + 12 or 0) + (right > 0 and right + 12 or 0) + PAD + 8
  local width = math.max(20, box.w - left - beside)
  local xt, upright = x_labels(x, width)
  local xlabel = axes.label(x, xt)
  local below = bare and PAD or TICK + 5 + x_room(xt,
    upright) + (xlabel ~= "" and SMALL + 8 or 0) + (p.left > 0 and SMALL or 0) + PAD
  local inner = { x = box.x + left, y = box.y + top, w = width,
    h = math.max(20, box.h - top - below) }
  if p.aspect then
    local s = math.min(inner.w / p.aspect[1], inner.h / p.aspect[2])
    local w, h = p.aspect[1] * s, p.aspect[2] * s
    inner.x, inner.y, inner.w, inner.h = inner.x + (inner.w - w) / 2,
      inner.y + (inner.h - h) / 2, w, h
  end
  inner.x, inner.y, inner.w, inner.h = floor(inner.x), floor(inner.y), floor(inner.w),
    floor(inner.h)
  return inner,
    { xt = xt, yt = yt, xlabel = xlabel, ylabel = ylabel, upright = upright, legend = legend,
    legend_width = right, bar = bar, bare = bare }
end

local function tick_line(out, x0, y0, x1, y1, c)
  put(out, { kind = "line", points = { x0, y0, x1, y1 }, colour = c, width = 1 })
end

local function draw_grid(out, inner, a, place_x, place_y, names)
  for _, v in ipairs(a.yt.at) do
    local at = crisp(place_y(v))
    tick_line(out, inner.x, at, inner.x + inner.w, at, colour.grid)
  end
  for _, v in ipairs(names and {} or a.xt.at) do
    local at = crisp(place_x(v))
    tick_line(out, at, inner.y, at, inner.y + inner.h, colour.grid)
  end
end

local function draw_axes(out, inner, a, place_x, place_y)
  local left, bottom = crisp(inner.x), crisp(inner.y + inner.h)
  for i, v in ipairs(a.xt.at) do
    local at = crisp(place_x(v))
    tick_line(out, at, bottom, at, bottom + TICK, colour.ink)
    if a.upright then
      text(out, at + 4, bottom + TICK + 4, cut(a.xt.label[i], SMALL, 100),
        { anchor = "end", upright = true })
    else text(out, at, bottom + TICK + 4 + SMALL * 0.75, a.xt.label[i], { anchor = "middle" }) end
  end
  for i, v in ipairs(a.yt.at) do
    local at = crisp(place_y(v))
    tick_line(out, left - TICK, at, left, at, colour.ink)
    text(out, left - TICK - 4, at + 4, a.yt.label[i], { anchor = "end" })
  end
  for _, v in ipairs(a.xt.minor) do
    tick_line(out, crisp(place_x(v)), bottom, crisp(place_x(v)), bottom + TICK / 2, colour.ink)
  end
  for _, v in ipairs(a.yt.minor) do
    tick_line(out, left - TICK / 2, crisp(place_y(v)), left, crisp(place_y(v)), colour.ink)
  end
  put(out,
    { kind = "line", points = { left, inner.y, left, bottom, inner.x + inner.w, bottom },
      colour = colour.ink, width = 1 })
end

local function draw_words(out, p, box, inner, a)
  local o, middle = p.o, inner.x + inner.w / 2
  local bottom = box.y + box.h - PAD
  if o.title then
    local s = cut(o.title, LARGE * BOLD, box.w - 2 * PAD)
    local half = font.room(s, LARGE * BOLD) / 2
    middle = math.max(box.x + PAD + half, math.min(box.x + box.w - PAD - half, middle))
    text(out, middle, box.y + PAD + LARGE * 0.85, s,
      { size = LARGE, anchor = "middle", bold = true })
  end
  if p.left > 0 then
    local s = ("not shown: %d of %d values"):format(p.left, p.all)
    text(out, box.x + box.w - PAD, bottom, cut(s, 10, box.w - 2 * PAD),
      { size = 10, anchor = "end", colour = 0x777777 })
    bottom = bottom - SMALL
  end
  if a.bare then return end
  if a.xlabel ~= "" then
    text(out, inner.x + inner.w / 2, bottom - 2, cut(a.xlabel, SMALL, inner.w),
      { anchor = "middle" })
  end
  if a.ylabel ~= "" then
    text(out, box.x + PAD + SMALL * 0.8, inner.y + inner.h / 2, cut(a.ylabel, SMALL, inner.h),
      { anchor = "middle", upright = true })
  end
  if p.all == 0 and #p.layers < 2 then
    text(out, inner.x + inner.w / 2, inner.y + inner.h / 2, "no data",
      { anchor = "middle", colour = 0x777777 })
  end
end

--- Puts the parts of a plot into 'out', within the box {x, y, w, h}.
function layout.plot(p, box, out)
  local x, y, left, all = axes.of(p)
  local view = setmetatable({ left = left, all = all }, { __index = p })
  local inner, a = arrange(view, box, x, y)
  local place_x = placer(x, inner.x, inner.w)
  local place_y = placer(y, inner.y + inner.h, -inner.h)
  if p.o.grid and not a.bare then draw_grid(out, inner, a, place_x, place_y, x.names) end
  for _, layer in ipairs(p.layers) do
    draw[layer.kind](out, layer, inner, x, y, place_x, place_y)
  end
  if not a.bare then draw_axes(out, inner, a, place_x, place_y) end
  draw_words(out, view, box, inner, a)
  local at = inner.x + inner.w + 12
  if a.bar then
    draw_bar(out, a.bar, at, inner)
    at = at + a.bar.width + 12
  end
  if #a.legend > 0 then draw_legend(out, a.legend, at, inner.y, a.legend_width, inner.h) end
end

--- The picture of plots in a grid with this many columns: {width, height, parts}.
function layout.picture(plots, columns)
  local rows = math.ceil(#plots / columns)
  local widths, heights = {}, {}
  for i, p in ipairs(plots) do
    local r, c = (i - 1) // columns + 1, (i - 1) % columns + 1
    widths[c] = math.max(widths[c] or 0, p.o.width)
    heights[r] = math.max(heights[r] or 0, p.o.height)
  end
  local width, height, out = 0, 0, {}
  for c = 1, #widths do width = width + widths[c] end
  for r = 1, rows do height = height + heights[r] end
  local y = 0
  for r = 1, rows do
    local x = 0
    for c = 1, columns do
      local p = plots[(r - 1) * columns + c]
      if p then layout.plot(p, { x = x, y = y, w = widths[c], h = heights[r] }, out) end
      x = x + (widths[c] or 0)
    end
    y = y + heights[r]
  end
  return { width = width, height = height, parts = out }
end

return layout
