--- A picture's parts (plot/layout.lua) as pixels 0xRRGGBB, with smooth edges: how much of a pixel a
--- stroke covers is computed from the distance between the pixel's centre and the stroke. The
--- strokes of one line are joined before they are mixed with the pixels below, so that overlaps are
--- not drawn twice.
local colour = require "flame.plot.colour"
local font = require "flame.plot.font"
local raster = {}

local floor, ceil, max, min, sqrt = math.floor, math.ceil, math.max, math.min, math.sqrt

-- Blends the colour 'over' into pixel i, with opacity t.
local function mix(pixels, i, over, t)
  if t >= 1 then
    pixels[i] = over
    return
  end
  local under = pixels[i]
  local r, g, b = under >> 16, under >> 8 & 255, under & 255
  r = floor(r + t * ((over >> 16) - r) + 0.5)
  g = floor(g + t * ((over >> 8 & 255) - g) + 0.5)
  b = floor(b + t * ((over & 255) - b) + 0.5)
  pixels[i] = r << 16 | g << 8 | b
end

-- The bounds of the canvas, or of the clip box, in pixels: the first and one past the last column
-- and row.
local function bounds(c, clip)
  if not clip then return 0, c.width, 0, c.height end
  local s = c.scale
  return max(0, floor(clip.x * s)), min(c.width, ceil((clip.x + clip.w) * s)),
    max(0, floor(clip.y * s)),
    min(c.height, ceil((clip.y + clip.h) * s))
end

-- Updates cover[i], the largest part of pixel i that a stroke covers, with a stroke of half width
-- 'half' and round ends. b: bounds.
local function stroke(c, cover, x0, y0, x1, y1, half, b)
  local dx, dy = x1 - x0, y1 - y0
  local long = dx * dx + dy * dy
  local reach = half + 0.5
  for y = max(b[3], floor(min(y0, y1) - reach)), min(b[4] - 1, ceil(max(y0, y1) + reach)) do
    local py = y + 0.5
    local lo, hi = min(x0, x1) - reach, max(x0, x1) + reach
    if dy ~= 0 then                     -- the columns of this row that the stroke can touch
      local middle, slack = x0 + (py - y0) / dy * dx, reach * sqrt(long) / math.abs(dy)
      lo, hi = max(lo, middle - slack), min(hi, middle + slack)
    end
    local row = y * c.width + 1
    for x = max(b[1], floor(lo)), min(b[2] - 1, ceil(hi)) do
      local ex, ey = x + 0.5 - x0, py - y0
      local t = long > 0 and max(0, min(1, (ex * dx + ey * dy) / long)) or 0
      ex, ey = ex - t * dx, ey - t * dy
      local share = reach - sqrt(ex * ex + ey * ey)
      if share > 0 then
        if share > 1 then share = 1 end
        if share > (cover[row + x] or 0) then cover[row + x] = share end
      end
    end
  end
end

-- Blends the item's colour into the covered pixels; strength < 1 makes thin strokes weaker.
local function ink(c, cover, item, strength)
  strength = strength * (item.alpha or 1)
  local pixels, over = c.pixels, item.colour
  for i, share in next, cover do mix(pixels, i, over, share * strength) end
end

local draw = {}

-- The dashes of a line {x, y, …}: pieces of length 'on', 'off' apart, each {x, y, …}.
local function dashed(points, on, off)
  local out, at, left, drawing = {}, 1, on, true
  local x, y = points[1], points[2]
  while at + 3 <= #points do
    local tx, ty = points[at + 2], points[at + 3]
    local d = sqrt((tx - x) ^ 2 + (ty - y) ^ 2)
    if d <= left then
      if drawing then out[#out + 1] = { x, y, tx, ty } end
      x, y, left, at = tx, ty, left - d, at + 2
    else
      local nx, ny = x + (tx - x) * left / d, y + (ty - y) * left / d
      if drawing then out[#out + 1] = { x, y, nx, ny } end
      x, y, drawing = nx, ny, not drawing
      left = drawing and on or off
    end
  end
  return out
end

function draw.line(c, item)
  local s, p, cover, b = c.scale, item.points, {}, { bounds(c, item.clip) }
  local half = item.width * s / 2
  if item.dash then
    for _, q in ipairs(dashed(p, item.dash[1], item.dash[2])) do
      stroke(c, cover, q[1] * s, q[2] * s, q[3] * s, q[4] * s, half, b)
    end
  elseif #p == 4 and (p[1] == p[3] or p[2] == p[4]) then   -- along an axis: its ends are square
    local x0, x1, y0, y1 = min(p[1], p[3]) * s, max(p[1], p[3]) * s, min(p[2], p[4]) * s,
      max(p[2], p[4]) * s
    if x0 == x1 then x0, x1 = x0 - half, x1 + half else y0, y1 = y0 - half, y1 + half end
    return draw.rect(c,
      { x = x0 / s, y = y0 / s, w = (x1 - x0) / s, h = (y1 - y0) / s, colour = item.colour,
      alpha = item.alpha, clip = item.clip })
  else
    for i = 1, #p - 3, 2 do
      stroke(c, cover, p[i] * s, p[i + 1] * s, p[i + 2] * s, p[i + 3] * s, half, b)
    end
  end
  ink(c, cover, item, min(1, 2 * half))
end

function draw.rect(c, item)
  local s, x_first, x_end, y_first, y_end = c.scale, bounds(c, item.clip)
  local x0, x1, y0, y1 = item.x * s, (item.x + item.w) * s, item.y * s, (item.y + item.h) * s
  local alpha = item.alpha or 1
  for y = max(y_first, floor(y0)), min(y_end - 1, ceil(y1) - 1) do
    local down = min(y + 1, y1) - max(y, y0)
    for x = max(x_first, floor(x0)), min(x_end - 1, ceil(x1) - 1) do
      local share = (min(x + 1, x1) - max(x, x0)) * down * alpha
      if share > 0 then mix(c.pixels, y * c.width + x + 1, item.colour, share) end
    end
  end
end

-- Strokes of a mark around (0, 0), and their half width.
local function mark_strokes(shape, r)
  if shape == "cross" then return { { -r, -r, r, r }, { -r, r, r, -r } }, 0.75 end
  if shape == "plus" then return { { -r, 0, r, 0 }, { 0, -r, 0, r } }, 0.75 end
  return { { 0, 0, 0, 0 } }, r
end

function draw.marks(c, item)
  local s, p, b = c.scale, item.points, { bounds(c) }
  if item.shape == "square" then
    for i = 1, #p, 2 do
      draw.rect(c,
        { x = p[i] - item.r, y = p[i + 1] - item.r, w = 2 * item.r, h = 2 * item.r,
          colour = item.colour, alpha = item.alpha })
    end
    return
  end
  local strokes, half = mark_strokes(item.shape, item.r)
  local cover = {}
  for i = 1, #p, 2 do
    for _, q in ipairs(strokes) do
      stroke(c, cover, (p[i] + q[1]) * s, (p[i + 1] + q[2]) * s, (p[i] + q[3]) * s,
        (p[i + 1] + q[4]) * s, half * s, b)
    end
    if item.apart then
      ink(c, cover, item, 1)
      cover = {}
    end
  end
  ink(c, cover, item, 1)
end

function draw.text(c, item)
  local s, cover, b = c.scale, {}, { bounds(c) }
  local width = font.width(item.text, item.size)
  local back = item.anchor == "middle" and width / 2 or item.anchor == "end" and width or 0
  local half = font.weight(item.size, item.bold) * s / 2
  font.each_stroke(item.text, item.size, function(x0, y0, x1, y1)
    x0, x1 = x0 - back, x1 - back
    if item.upright then
      stroke(c, cover, (item.x - y0) * s, (item.y - x0) * s, (item.x - y1) * s,
        (item.y - x1) * s, half, b)
    else
      stroke(c, cover, (item.x + x0) * s, (item.y - y0) * s, (item.x + x1) * s,
        (item.y - y1) * s, half, b)
    end
  end)
  ink(c, cover, item, 1)
end

function draw.image(c, item)
  local s, x_first, x_end, y_first, y_end = c.scale, bounds(c, item.clip)
  local x0, y0 = floor(item.x * s + 0.5), floor(item.y * s + 0.5)
  local w, h = max(1, floor((item.x + item.w) * s + 0.5) - x0),
    max(1, floor((item.y + item.h) * s + 0.5) - y0)
  for y = max(y_first, y0), min(y_end, y0 + h) - 1 do
    local row = floor((y - y0 + 0.5) / h * item.rows) * item.columns + 1
    for x = max(x_first, x0), min(x_end, x0 + w) - 1 do
      c.pixels[y * c.width + x + 1] = item.pixels[row + floor((x - x0 + 0.5) / w * item.columns)]
    end
  end
end

--- The pixels of a picture, k pixels per pixel of the layout: {width, height, pixels}.
function raster.draw(picture, k)
  local width, height = floor(picture.width * k + 0.5), floor(picture.height * k + 0.5)
  local c = { width = width, height = height, scale = k, pixels = {} }
  for i = 1, width * height do c.pixels[i] = colour.paper end
  for _, item in ipairs(picture.parts) do draw[item.kind](c, item) end
  return c
end

return raster
