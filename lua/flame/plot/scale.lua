--- Scales of axes: the range of an axis, its ticks and their labels.
-- Ticks of a linear axis follow Heckbert, "Nice numbers for graph labels" (Graphics Gems, 1990):
-- the step is 1, 2 or 5 times a power of ten, and ticks are its multiples within the range. A
-- logarithmic axis has ticks at powers of ten if its range contains at least two; else at 1, 2 and
-- 5 times powers of ten if it contains three of these; else those of a linear axis.
local scale = {}

-- limits of an axis: above MOST a sum would overflow, below LEAST a step would underflow
local MOST, LEAST = 1.7e308, 1e-290
local MARGIN = 0.04                            -- fraction of the range left free at each end

local floor, ceil, huge = math.floor, math.ceil, math.huge
local function log10(v) return math.log(v, 10) end
local function clipped(v) return math.max(-MOST, math.min(MOST, v)) end

--- Can v be drawn on this axis?
function scale.holds(log, v) return v == v and v ~= huge and v ~= -huge and (not log or v > 0) end

--- The step near 'raw' that is 1, 2 or 5 times a power of ten.
function scale.nice(raw)
  local power = 10.0 ^ floor(log10(raw))
  local f = raw / power
  return (f < 1.5 and 1 or f < 3 and 2 or f < 7 and 5 or 10) * power
end

--- The range of an axis for values from lo to hi; nil, nil: there are no values. o: {log =, tight =
--- true: no margins, zero = true: 0 is included, from =, to = given ends}.
function scale.range(lo, hi, o)
  if lo == nil then lo, hi = o.log and 1 or 0, o.log and 10 or 1 end
  if o.zero and not o.log then lo, hi = math.min(lo, 0), math.max(hi, 0) end
  local a, b = lo, hi
  if o.log then a, b = log10(lo), log10(hi) end
  local size = math.max(math.abs(a), math.abs(b))
  local span = b - a
  if span == huge then
    a, b = clipped(a), clipped(b)
  elseif span <= size * 1e-12 or span < LEAST then
    local half = o.log and 0.5 or size * 0.05 < LEAST and 0.5 or size * 0.05
    a, b = clipped(a - half), clipped(b + half)
  elseif not o.tight then
    local at_zero = o.zero and not o.log
    a, b = at_zero and lo == 0 and a or clipped(a - MARGIN * span),
      at_zero and hi == 0 and b or clipped(b + MARGIN * span)
  end
  if o.log then a, b = math.max(10.0 ^ a, 5e-324), math.min(10.0 ^ b, MOST) end
  return o.from or a, o.to or b
end

--- A function from a value to its position on the axis: lo gives 0, hi 1.
function scale.position(lo, hi, log)
  if log then
    local a, b = log10(lo), log10(hi)
    return function(v) return (log10(v) - a) / (b - a) end
  end
  local f = hi - lo == huge and 0.25 or 1
  local a, span = lo * f, hi * f - lo * f
  return function(v) return (v * f - a) / span end
end

local function linear_ticks(lo, hi, most)
  local ticks, step
  for n = most, most + 3 do                    -- two ticks at least
    step = scale.nice((hi / 4 - lo / 4) / math.max(1, n - 1) * 4)
    if step == huge then step = 1e308 end
    if not (step > LEAST * 1e-15) then return {}, 1 end      -- it underflows: no ticks
    ticks = {}
    for i = ceil(lo / step - 1e-9), floor(hi / step + 1e-9) do ticks[#ticks + 1] = i * step end
    if #ticks >= 2 then break end
  end
  return ticks, step
end

local function powers(lo, hi, most)
  local first, last = ceil(log10(lo) - 1e-9), floor(log10(hi) + 1e-9)
  if last - first < 1 then return nil end
  local step, ticks, minor = 1, {}, {}
  while (last - first) // step >= math.max(2, most) do
    step = math.tointeger(scale.nice(step * 2.2))
  end
  for e = ceil(first / step) * step, last, step do ticks[#ticks + 1] = 10.0 ^ e end
  for e = first - 1, step == 1 and last or first - 2 do
    for m = 2, 9 do
      local v = m * 10.0 ^ e
      if v >= lo and v <= hi then minor[#minor + 1] = v end
    end
  end
  return ticks, minor
end

local function one_two_five(lo, hi)
  local ticks = {}
  for e = floor(log10(lo)), ceil(log10(hi)) do
    for _, m in ipairs { 1, 2, 5 } do
      local v = m * 10.0 ^ e
      if v >= lo and v <= hi then ticks[#ticks + 1] = v end
    end
  end
  return #ticks >= 3 and ticks or nil
end

local superscripts = { ["-"] = "⁻", ["0"] = "⁰", ["1"] = "¹", ["2"] = "²", ["3"] = "³", ["4"] = "⁴",
  ["5"] = "⁵", ["6"] = "⁶",
  ["7"] = "⁷", ["8"] = "⁸", ["9"] = "⁹" }
local function power_of_ten(e) return "10" .. ("%d"):format(e):gsub(".", superscripts) end

--- v with n decimals and a point, whatever the locale's decimal point; no -0.
function scale.decimals(v, n)
  local s = ("%." .. n .. "f"):format(v):gsub(",", ".")
  return s:find("[1-9]") and s or (s:gsub("^%-", ""))
end

--- v in a few characters: the text of a single number that is not a tick.
function scale.short(v)
  if v ~= v then return "nan" end
  return (("%.4g"):format(v):gsub(",", "."))
end

-- The labels of ticks at multiples of 'step', and the factor "×10ⁿ" that the labels omit, or "".
local function labels_of(ticks, step)
  local most, out = 0, {}
  for _, v in ipairs(ticks) do most = math.max(most, math.abs(v)) end
  local e = most > 0 and floor(log10(most) + 1e-9) or 0
  e = (e >= 6 or e <= -4) and e // 3 * 3 or 0            -- a power of 1000
  local decimals = math.min(15, math.max(0, e - floor(log10(step) + 1e-9)))
  for i, v in ipairs(ticks) do
    local shown = e < -300 and v * 10.0 ^ 300 / 10.0 ^ (e + 300) or v / 10.0 ^ e
    out[i] = scale.decimals(shown, decimals)
  end
  return out, e == 0 and "" or "×" .. power_of_ten(e)
end

--- Ticks of the axis from lo to hi, at most about 'most': {at = values, label = texts, minor =
--- values, factor = text}.
function scale.ticks(lo, hi, log, most)
  if log then
    local ticks, minor = powers(lo, hi, most)
    if ticks then
      local labels = {}
      for i, v in ipairs(ticks) do
        local e = floor(log10(v) + 0.5)
        labels[i] = e >= -3 and e <= 4 and scale.decimals(v, math.max(0, -e)) or power_of_ten(e)
      end
      return { at = ticks, label = labels, minor = minor, factor = "" }
    end
    ticks = one_two_five(lo, hi)
    if ticks then
      local labels, factor = labels_of(ticks,
        ticks[1] == 0 and 1 or 10.0 ^ floor(log10(ticks[1]) + 1e-9))
      return { at = ticks, label = labels, minor = {}, factor = factor }
    end
  end
  local ticks, step = linear_ticks(lo, hi, most)
  local labels, factor = labels_of(ticks, step)
  return { at = ticks, label = labels, minor = {}, factor = factor }
end

return scale
