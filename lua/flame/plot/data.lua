--- Data of plots: checks tensors and tables and converts them to lists of floats; thins points, so
--- that more points than can be seen cost neither time nor space in a picture.
local flame = require "flame"
local internal = flame.internal
local arguments = require "flame.base.arguments"
local data = {}

local huge, floor = math.huge, math.floor

function data.fail(op, message, ...) internal.fail("plot." .. op, message:format(...)) end
local fail = data.fail

local function shape_of(x) return "(" .. table.concat(x.shape, ", ") .. ")" end

-- The values of a tensor as floats, a list or a nested one.
local function read(x) return x:detach():cpu():to("f64"):totable() end

local function number_at(op, name, v, place)
  if type(v) ~= "number" then
    fail(op, "%s[%s] is a %s, not a number\1: give a tensor of one axis or a list of numbers", name,
      place, type(v))
  end
  return v + 0.0
end

--- A list of floats from a tensor of one axis or a table of numbers.
function data.list(op, name, v)
  if flame.is_tensor(v) then
    if v.ndim ~= 1 then
      fail(op, "%s must have one axis, its shape is %s\1: make it one by flatten(), or take a row",
        name, shape_of(v))
    end
    return read(v)
  end
  if type(v) ~= "table" then
    fail(op, "%s must be a tensor or a list of numbers, got %s", name, arguments.word(v))
  end
  local out = {}
  for i = 1, #v do out[i] = number_at(op, name, v[i], i) end
  return out
end

--- The two lists of points. Without x the positions are 1, 2, …
function data.points(op, x, y)
  if y == nil then x, y = nil, x end
  local ys = data.list(op, "y", y)
  if x == nil then
    local xs = {}
    for i = 1, #ys do xs[i] = i + 0.0 end
    return xs, ys
  end
  local xs = data.list(op, "x", x)
  if #xs ~= #ys then fail(op, "x has %d values and y has %d\1: give as many of each", #xs, #ys) end
  return xs, ys
end

--- Rows of floats from a tensor of two axes or a table of rows: rows, height, width. Tensors
--- with more than 'most' columns or rows are first averaged over blocks.
function data.matrix(op, name, v, most)
  if flame.is_tensor(v) then
    if v.ndim ~= 2 then
      fail(op,
        "%s must have two axes, its shape is %s\1: make it rows and columns by reshape(h, w)",
        name, shape_of(v))
    end
    local h, w = v:size(1), v:size(2)
    if h > most or w > most then
      h, w = math.min(h, most), math.min(w, most)
      v = v:detach():cpu():to("f64"):unsqueeze(1):adaptive_avg_pool2d({ h, w }):squeeze(1)
    end
    return read(v), h, w
  end
  if type(v) ~= "table" then
    fail(op, "%s must be a tensor or a list of rows, got %s", name, arguments.word(v))
  end
  local rows, w = {}, nil
  for i = 1, #v do
    if type(v[i]) ~= "table" and not flame.is_tensor(v[i]) then
      fail(op, "%s[%d] must be a row of numbers, got %s", name, i, arguments.word(v[i]))
    end
    rows[i] = data.list(op, ("%s[%d]"):format(name, i), v[i])
    w = w or #rows[i]
    if #rows[i] ~= w then
      fail(op, "row 1 of %s has %d values and row %d has %d\1: make them as long", name,
        w, i, #rows[i])
    end
  end
  return rows, #rows, w or 0
end

--- The least and the largest finite value of rows, or nil.
function data.extent(rows)
  local lo, hi = huge, -huge
  for _, row in ipairs(rows) do
    for i = 1, #row do
      local v = row[i]
      if v < lo and v > -huge then lo = v end
      if v > hi and v < huge then hi = v end
    end
  end
  if lo > hi then return nil end
  return lo, hi
end

-- ---- thinning -----------------------------------------------------------------------------------

-- most pixel columns, and runs, of a line after thinning; each has at most four points
local MOST_COLUMNS, MOST_RUNS = 4000, 1000

-- Appends to 'out' those points first … last that remain after thinning, in order: the first, the
-- lowest, the highest and the last.
local function keep(out, px, py, first, last)
  local low, high = first, first
  for i = first + 1, last do
    if py[i] < py[low] then low = i end
    if py[i] > py[high] then high = i end
  end
  local order = { first, math.min(low, high), math.max(low, high), last }
  local before
  for _, i in ipairs(order) do
    if i ~= before then out[#out + 1], out[#out + 2] = px[i], py[i] end
    before = i
  end
end

--- A line through pixels px, py (without gaps) as a flat list {x, y, …}. Of neighbours in one
--- column of pixels only the first, lowest, highest and last are kept. If that leaves more than
--- MOST_COLUMNS columns (a curve that goes back and forth), the line is cut into MOST_RUNS runs of
--- equal length instead.
function data.thin_line(px, py)
  local n, out = #px, {}
  local runs, column = 0, nil
  for i = 1, n do
    local c = floor(px[i])
    if c ~= column then runs, column = runs + 1, c end
  end
  local fixed = runs > MOST_COLUMNS and math.ceil(n / MOST_RUNS)
  local first = 1
  for i = 1, n do
    local ends = i == n or (fixed and i % fixed == 0)
      or (not fixed and floor(px[i + 1]) ~= floor(px[i]))
    if ends then
      keep(out, px, py, first, i)
      first = i + 1
    end
  end
  return out
end

--- Marks at pixels as a flat list: of those in one cell of a grid only the first. Cells have half a
--- pixel, or two pixels if more than 10000 marks would be left.
function data.thin_marks(px, py)
  local function through(cell)
    local seen, out = {}, {}
    for i = 1, #px do
      -- (with 65536 here all cells of a diagonal would have one place in a table of that size)
      local key = floor(px[i] / cell) * 1000003 + floor(py[i] / cell)
      if not seen[key] then
        seen[key] = true
        out[#out + 1], out[#out + 2] = px[i], py[i]
      end
    end
    return out
  end
  local out = through(0.5)
  return #out <= 20000 and out or through(2)
end

return data
