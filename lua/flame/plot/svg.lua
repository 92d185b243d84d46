--- A picture's parts (plot/layout.lua) as an SVG text: the same bytes for the same picture.
local flame = require "flame"
local colour = require "flame.plot.colour"
local internal = flame.internal
local svg = {}

-- A coordinate with at most two decimals.
local function n(v)
  local s = ("%.2f"):format(v):gsub(",", "."):gsub("%.?0+$", "")
  return s == "-0" and "0" or s
end

local entities = { ["&"] = "&amp;", ["<"] = "&lt;", [">"] = "&gt;", ['"'] = "&quot;" }
local function escaped(s)
  if not utf8.len(s) then s = s:gsub("[\x80-\xff]", "?") end
  return (s:gsub("%c", " "):gsub('[&<>"]', entities))
end

local alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
local function base64(bytes)
  local out = {}
  for i = 1, #bytes, 3 do
    local a, b, c = bytes:byte(i, i + 2)
    local v = a << 16 | (b or 0) << 8 | (c or 0)
    local text = ""
    for shift = 18, 0, -6 do
      local k = (v >> shift & 63) + 1
      text = text .. alphabet:sub(k, k)
    end
    out[#out + 1] = c and text or b and text:sub(1, 3) .. "=" or text:sub(1, 2) .. "=="
  end
  return table.concat(out)
end

local function opacity(item, of)
  return item.alpha and (' %s-opacity="%s"'):format(of, n(item.alpha)) or ""
end

local put = {}

local function path_of(points)
  local out = { "M" .. n(points[1]) .. " " .. n(points[2]) }
  for i = 3, #points, 2 do
    out[#out + 1] = (i == 3 and "L" or " ") .. n(points[i]) .. " " .. n(points[i + 1])
  end
  return table.concat(out)
end

function put.line(item)
  return ('<path d="%s" fill="none" stroke="%s" stroke-width="%s"%s%s%s/>'):format(
    path_of(item.points), colour.hex(item.colour),
    n(item.width),
    item.dash and (' stroke-dasharray="%s %s"'):format(n(item.dash[1]), n(item.dash[2])) or "",
    item.clip and ' stroke-linejoin="round"' or "", opacity(item, "stroke"))
end

function put.rect(item)
  return ('<rect x="%s" y="%s" width="%s" height="%s" fill="%s"%s/>'):format(n(item.x), n(item.y),
    n(item.w), n(item.h),
    colour.hex(item.colour), opacity(item, "fill"))
end

local shapes = {
  circle = function() return "h0" end,
  square = function(r)
    return ("m%s %sh%sv%sh%sz"):format(n(-r), n(-r), n(2 * r), n(2 * r), n(-2 * r))
  end,
  cross = function(r)
    return ("m%s %sl%s %sm0 %sl%s %s"):format(n(-r), n(-r), n(2 * r), n(2 * r), n(-2 * r),
      n(-2 * r), n(2 * r))
  end,
  plus = function(r)
    return ("m%s 0h%sm%s %sv%s"):format(n(-r), n(2 * r), n(-r), n(-r), n(2 * r))
  end,
}
function put.marks(item)
  local p, out = item.points, {}
  if #p == 0 then return nil end
  local shape = shapes[item.shape](item.r)
  for i = 1, #p, 2 do out[#out + 1] = "M" .. n(p[i]) .. " " .. n(p[i + 1]) .. shape end
  local style = ('fill="none" stroke="%s" stroke-width="%s" stroke-linecap="round"%s'):format(
    colour.hex(item.colour),
    n(item.shape == "circle" and 2 * item.r or 1.5), opacity(item, "stroke"))
  if item.shape == "square" then
    style = ('fill="%s"%s'):format(colour.hex(item.colour), opacity(item, "fill"))
  end
  if not item.apart then return ('<path d="%s" %s/>'):format(table.concat(out), style) end
  return ('<g %s><path d="%s"/></g>'):format(style, table.concat(out, '"/><path d="'))
end

function put.text(item)
  local place = item.upright
    and (' transform="translate(%s %s) rotate(-90)"'):format(n(item.x), n(item.y))
    or (' x="%s" y="%s"'):format(n(item.x), n(item.y))
  return ('<text%s font-size="%s"%s%s fill="%s">%s</text>'):format(place, n(item.size),
    item.anchor == "start" and "" or (' text-anchor="%s"'):format(item.anchor),
    item.bold and ' font-weight="bold"' or "",
    colour.hex(item.colour), escaped(item.text))
end

-- Viewers smooth images even if they are told not to, so the pixels of an image that is not to be
-- smooth are repeated until it has at least two per pixel of the picture along each axis.
function put.image(item)
  local x = svg.planes(item.pixels, item.rows, item.columns)
  local down, across = math.max(1, math.ceil(2 * item.h / item.rows)),
    math.max(1, math.ceil(2 * item.w / item.columns))
  if not item.smooth then x = x:repeat_interleave(down, 2):repeat_interleave(across, 3) end
  return ('<image x="%s" y="%s" width="%s" height="%s" preserveAspectRatio="none" href="data:image/png;base64,%s"/>'):format(
    n(item.x), n(item.y), n(item.w), n(item.h), base64(internal.io_png_bytes(x)))
end

--- The u8 tensor (3, rows, columns) of pixels 0xRRGGBB, row by row.
function svg.planes(pixels, rows, columns)
  local p = flame.tensor(pixels, { dtype = "i32", device = "cpu" }):reshape(rows, columns)
  return flame.stack({ p // 65536, p // 256 % 256, p % 256 }, 1):byte()
end

--- The text of a picture.
function svg.text(picture)
  local w, h = n(picture.width), n(picture.height)
  local out = { ('<svg xmlns="http://www.w3.org/2000/svg" width="%s" height="%s" viewBox="0 0 %s %s" '
    .. 'font-family="Helvetica, Arial, DejaVu Sans, sans-serif">'):format(w, h, w, h),
    ('<rect width="%s" height="%s" fill="#FFFFFF"/>'):format(w, h) }
  local clip, number = nil, 0
  for _, item in ipairs(picture.parts) do
    if item.clip ~= clip then
      if clip then out[#out + 1] = "</g>" end
      clip = item.clip
      if clip then
        number = number + 1
        out[#out + 1] = ('<clipPath id="c%d"><rect x="%s" y="%s" width="%s" height="%s"/></clipPath><g clip-path="url(#c%d)">'):format(
          number, n(clip.x), n(clip.y), n(clip.w), n(clip.h), number)
      end
    end
    out[#out + 1] = put[item.kind](item)
  end
  if clip then out[#out + 1] = "</g>" end
  out[#out + 1] = "</svg>\n"
  return table.concat(out, "\n")
end

return svg
