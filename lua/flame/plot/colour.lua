--- Colours of plots, as integers 0xRRGGBB.
-- Series use Okabe and Ito's palette, which readers with any colour vision can tell apart
-- ("Color universal design", 2008), the colours that are dark enough for lines on white first. Maps
-- are computed in Oklab (Ottosson, "A perceptual color space for image processing", 2020): equal
-- steps of a value are equal steps of lightness, so the order is visible also in grey. For each
-- lightness the chroma is the largest that sRGB can show at that hue, up to a bound.
local colour = {}

--- Blue, vermilion, green, purple, orange, sky blue, black. (Yellow is too light for lines.)
colour.palette = { 0x0072B2, 0xD55E00, 0x009E73, 0xCC79A7, 0xE69F00, 0x56B4E9, 0x000000 }
colour.ink, colour.text, colour.grid, colour.paper, colour.missing = 0x333333, 0x222222, 0xE4E4E4,
  0xFFFFFF, 0xC8C8C8

local function srgb(v)
  v = v <= 0.0031308 and 12.92 * v or 1.055 * v ^ (1 / 2.4) - 0.055
  return math.floor(255 * math.max(0, math.min(1, v)) + 0.5)
end

-- Linear sRGB of a colour of Oklab.
local function linear(L, a, b)
  local l = (L + 0.3963377774 * a + 0.2158037573 * b) ^ 3
  local m = (L - 0.1055613458 * a - 0.0638541728 * b) ^ 3
  local s = (L - 0.0894841775 * a - 1.2914855480 * b) ^ 3
  return 4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
    -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
    -0.0041960863 * l - 0.7034186147 * m + 1.7076147010 * s
end

local function fits(r, g, b)
  return math.min(r, g, b) >= -1e-6 and math.max(r, g, b) <= 1 + 1e-6
end

--- The colour with this lightness (0 to 1), chroma and hue in degrees; with less chroma if sRGB can
--- not show as much.
function colour.oklch(L, chroma, hue)
  local c, s = math.cos(math.rad(hue)), math.sin(math.rad(hue))
  local lo, hi = 0, chroma
  if not fits(linear(L, chroma * c, chroma * s)) then
    for _ = 1, 24 do
      local middle = (lo + hi) / 2
      if fits(linear(L, middle * c, middle * s)) then lo = middle else hi = middle end
    end
    chroma = lo
  end
  local r, g, b = linear(L, chroma * c, chroma * s)
  return srgb(r) << 16 | srgb(g) << 8 | srgb(b)
end

local forms = {
  -- from dark violet through blue and green to light yellow; t: 0 to 1
  depth = function(t) return colour.oklch(0.22 + 0.73 * t, 0.12, 300 - 190 * t) end,
  -- from black through red and orange to light yellow
  heat = function(t) return colour.oklch(0.12 + 0.84 * t, 0.16, 10 + 90 * t) end,
  grey = function(t) return colour.oklch(0.1 + 0.9 * t, 0, 0) end,
  -- for signed values: blue, white at the middle, red
  signed = function(t)
    local away = math.abs(2 * t - 1)
    return colour.oklch(0.97 - 0.52 * away, 0.17 * away, t < 0.5 and 255 or 30)
  end,
}
colour.maps = "depth, grey, heat or signed"

local tables = {}
--- The 256 colours of the map 'name', at indices from 0; nil if there is no such map.
function colour.map(name)
  if not forms[name] then return nil end
  if not tables[name] then
    local t = {}
    for i = 0, 255 do t[i] = forms[name](i / 255) end
    tables[name] = t
  end
  return tables[name]
end

function colour.hex(c) return ("#%06X"):format(c) end

--- The colour for v: "#0072B2", 0x0072B2 or a position in the palette; nil if v is none of these.
function colour.of(v)
  if math.type(v) == "integer" and v >= 1 and v <= #colour.palette then return colour.palette[v] end
  if math.type(v) == "integer" and v >= 0 and v <= 0xFFFFFF then return v end
  local digits = type(v) == "string" and v:match("^#(%x%x%x%x%x%x)$")
  return digits and tonumber(digits, 16)
end

return colour
