--- Plots: lines, points, bars, histograms, matrices as colours, images and contours, shown in the
-- terminal and written as SVG or PNG. plot.line(y) and its kin make a plot, whose methods of the
-- same names add to it: plot.line(x, y, {label = "a"}):line(x, z, {label = "b"}):save("both.svg").
-- Values are read when they are given: later writes to a tensor change no plot. What an axis can
-- not show (NaN, an infinity, on a logarithmic axis a number that is not above 0) leaves a gap,
-- and the picture says how many there are.
local flame = require "flame"
local internal = flame.internal
internal.load()
local colour = require "flame.plot_colour"
local data = require "flame.plot_data"
local scale = require "flame.plot_scale"
local fail = data.fail

local plot = {}
local Plot = {}
Plot.__index, Plot.__newindex = internal.closed("plot", Plot,
  { o = true, layers = true, aspect = true })

local huge, floor = math.huge, math.floor
local GRID = 600                               -- most rows and columns of a matrix as colours
local dashes = { { 6, 3 }, { 2, 2 }, { 8, 3, } }

-- ---- options ------------------------------------------------------------------------------------

local function need_text(op, name, v)
  if v ~= nil and v ~= false and type(v) ~= "string" then
    fail(op, "%s must be a string, got %s", name, internal.word(v))
  end
  return v or nil
end

local function need_size(op, name, v, least, most)
  if type(v) ~= "number" or not (v >= least and v <= most) then
    fail(op, "%s must be a number from %g to %g, got %s", name, least, most,
      type(v) == "number" and scale.short(v) or internal.word(v))
  end
  return v
end

local function need_scale(op, name, v)
  if v ~= "linear" and v ~= "log" then
    fail(op, '%s must be "linear" or "log", got %s', name,
      type(v) == "string" and '"' .. v .. '"' or internal.word(v))
  end
end

local function need_limits(op, name, v, log)
  if not v then return end
  local lo, hi
  if type(v) == "table" then lo, hi = v[1], v[2] end
  if type(lo) ~= "number" or type(hi) ~= "number" then
    fail(op, "%s must be a list of two numbers", name)
  end
  if not (lo < hi and lo > -huge and hi < huge) then
    fail(op, "%s is from %s to %s\1: give two finite numbers, the lower one first", name,
      scale.short(lo), scale.short(hi))
  end
  if log and lo <= 0 then
    fail(op, "%s begins at %s on a logarithmic axis\1: give a number above 0", name,
      scale.short(lo))
  end
end

local defaults = { title = false, xlabel = false, ylabel = false, xscale = "linear",
  yscale = "linear", xlim = false, ylim = false, legend = true, grid = true, axes = true,
  width = 640, height = 400 }

local function check(op, o)
  for _, name in ipairs { "title", "xlabel", "ylabel" } do
    o[name] = need_text(op, name, o[name])
  end
  for _, name in ipairs { "xscale", "yscale" } do need_scale(op, name, o[name]) end
  need_limits(op, "xlim", o.xlim, o.xscale == "log")
  need_limits(op, "ylim", o.ylim, o.yscale == "log")
  need_size(op, "width", o.width, 120, 4000)
  need_size(op, "height", o.height, 80, 4000)
  o.xlim, o.ylim = o.xlim and { o.xlim[1], o.xlim[2] } or nil,
    o.ylim and { o.ylim[1], o.ylim[2] } or nil
  return o
end

--- An empty plot, to which its methods add. xscale and yscale are "linear" or "log", xlim and ylim
--- {first, last}; legend, grid and axes = false leave these out; width = 640 and height = 400 are
--- in pixels.
---@param options? table  {title =, xlabel =, ylabel =, xscale =, yscale =, xlim =, ylim =, legend =, grid =, axes =, width =, height =}
---@return flame.Plot
function plot.new(options)
  return setmetatable({ o = check("new", internal.options("plot.new", options, defaults)),
    layers = {} }, Plot)
end

--- Changes the options of plot.new, and returns the plot.
---@param options table
---@return flame.Plot
function Plot:set(options)
  local now = {}
  for name in pairs(defaults) do now[name] = self.o[name] or false end
  self.o = check("set", internal.options("plot.set", options, now))
  return self
end

-- The layer with what all kinds have: a colour (the next of the palette), a label.
local function add(self, op, layer, o)
  local n = 0
  for _, l in ipairs(self.layers) do if l.colour then n = n + 1 end end
  if not layer.pixels and not layer.curves then
    local cycle = n // #colour.palette
    layer.colour = o.colour and colour.of(o.colour) or colour.palette[n % #colour.palette + 1]
    if o.colour and not colour.of(o.colour) then
      fail(op, 'colour must be "#rrggbb", 0xrrggbb or a position in the palette, 1 to %d, got %s',
        #colour.palette, tostring(o.colour))
    end
    layer.dash = o.dash == true and dashes[1] or o.dash == nil and cycle > 0
      and dashes[(cycle - 1) % #dashes + 1] or nil
    layer.number = n
  end
  layer.label = need_text(op, "label", o.label)
  self.layers[#self.layers + 1] = layer
  return self
end

local function read_options(op, o, known)
  local out = internal.options("plot." .. op, o, known)
  for _, name in ipairs { "colour", "label", "dash" } do
    if out[name] == false and known[name] == false then out[name] = nil end
  end
  if o and o.dash == false then out.dash = false end
  if out.dash ~= nil and type(out.dash) ~= "boolean" then
    fail(op, "dash must be true or false, got %s", internal.word(out.dash))
  end
  if out.alpha then need_size(op, "alpha", out.alpha, 0, 1) end
  if out.width then need_size(op, "width", out.width, 0.25, 20) end
  if out.size then need_size(op, "size", out.size, 1, 40) end
  return out
end

local function is_options(v)
  return type(v) == "table" and not flame.is_tensor(v) and type(next(v)) == "string"
end

-- x may be left out.
local function points_of(op, x, y, o)
  if o == nil and is_options(y) then y, o = nil, y end
  local xs, ys = data.points(op, x, y)
  return xs, ys, o
end

-- ---- kinds --------------------------------------------------------------------------------------

--- Adds a line through points. Without x the positions are 1, 2, … A colour is "#0072B2", 0x0072B2
--- or a position in the palette.
---@param x flame.Tensor | number[]
---@param y? flame.Tensor | number[]
---@param options? table  {label =, colour =, width = 2, dash = false, alpha = 1}
---@return flame.Plot
function Plot:line(x, y, options)
  local xs, ys, o = points_of("line", x, y, options)
  o = read_options("line", o, { label = false, colour = false, width = 2, dash = false, alpha = 1 })
  return add(self, "line",
    { kind = "line", x = xs, y = ys, width = o.width, alpha = o.alpha < 1 and o.alpha or nil }, o)
end

local shapes = { circle = true, square = true, cross = true, plus = true }
--- Adds points. Their shape is "circle", "square", "cross" or "plus", their size in pixels.
---@param x flame.Tensor | number[]
---@param y? flame.Tensor | number[]
---@param options? table  {label =, colour =, size = 6, shape = "circle", alpha = 1}
---@return flame.Plot
function Plot:scatter(x, y, options)
  local xs, ys, o = points_of("scatter", x, y, options)
  o = read_options("scatter", o,
    { label = false, colour = false, size = 6, shape = "circle", alpha = 1 })
  if not shapes[o.shape] then
    fail("scatter", "no shape '%s', there is: circle cross plus square", tostring(o.shape))
  end
  local layer = { kind = "scatter", x = xs, y = ys, size = o.size, shape = o.shape,
    alpha = o.alpha < 1 and o.alpha or nil }
  return add(self, "scatter", layer, o)
end

-- Edges of n bins over the finite values; the rule of Freedman and Diaconis
-- (1981) for n where none is given.
local function bins_of(values, n)
  local kept = {}
  for i = 1, #values do
    local v = values[i]
    if v == v and v ~= huge and v ~= -huge then kept[#kept + 1] = v end
  end
  table.sort(kept)
  local count = #kept
  if count == 0 then return kept, 0, 1, n or 1 end
  local lo, hi = kept[1], kept[count]
  if lo == hi then
    lo, hi = scale.range(lo, hi, {})
    return kept, lo, hi, n or 1
  end
  if not n then
    local spread = kept[math.ceil(0.75 * count)] - kept[math.ceil(0.25 * count)]
    local width = 2 * spread / count ^ (1 / 3)
    n = width > 0 and (hi - lo) / width or math.ceil(math.log(count, 2) + 1)
    n = n == n and math.max(1, math.min(100, math.ceil(n))) or 1
  end
  return kept, lo, hi, n
end

--- Adds the counts of values in bins of equal width, by default as many as Freedman's and Diaconis'
--- rule says, 100 at most.
---@param x flame.Tensor | number[]
---@param options? table  {bins =, label =, colour =, alpha = 0.8}
---@return flame.Plot
function Plot:histogram(x, options)
  local o = read_options("histogram", options,
    { bins = false, label = false, colour = false, alpha = 0.8 })
  if o.bins and (math.type(o.bins) ~= "integer" or o.bins < 1 or o.bins > 100000) then
    fail("histogram", "bins must be an integer from 1 to 100000, got %s", tostring(o.bins))
  end
  if flame.is_tensor(x) then x = x:reshape(-1) end
  local kept, lo, hi, n = bins_of(data.list("histogram", "x", x), o.bins)
  local layer = { kind = "bars", x = {}, y = {}, left = {}, right = {}, zero = true,
    joined = true, reach = {}, alpha = o.alpha < 1 and o.alpha or nil }
  local at, width = scale.position(lo, hi), hi / n - lo / n
  for i = 1, #kept > 0 and n or 0 do
    layer.left[i], layer.right[i], layer.y[i] = lo + (i - 1) * width, lo + i * width, 0.0
    layer.x[i] = layer.left[i] + width / 2
  end
  for _, v in ipairs(kept) do
    local i = math.min(n, floor(at(v) * n) + 1)
    layer.y[i] = layer.y[i] + 1
  end
  if #kept > 0 then layer.reach = { lo, hi } end
  return add(self, "histogram", layer, o)
end

local function names_of(x)
  if type(x) ~= "table" or flame.is_tensor(x) or type(x[1]) ~= "string" then return nil end
  local names = {}
  for i, name in ipairs(x) do
    if type(name) ~= "string" then
      fail("bars", "name %d is %s, the first is a string", i, internal.word(name))
    end
    names[i] = name
  end
  return names
end

local function named_points(names, y, o)
  if y == nil or is_options(y) then
    fail("bars", "there are %d names and no heights\1: write plot.bars(names, heights)", #names)
  end
  local xs, ys = data.points("bars", nil, y)
  if #names ~= #ys then
    fail("bars", "there are %d names and %d heights\1: give one of each", #names, #ys)
  end
  return xs, ys, o
end

-- The least distance of two of the numbers, 1 where there are no two.
local function least_distance(list)
  local sorted, least = table.move(list, 1, #list, 1, {}), huge
  table.sort(sorted, function(a, b) return a < b or (b ~= b and a == a) end)
  for i = 2, #sorted do
    local d = sorted[i] - sorted[i - 1]
    if d > 0 and d < least then least = d end
  end
  return least == huge and 1 or least
end

--- Adds bars from 0 to the heights y. x says where they are, or is a list of names; without it they
--- are at 1, 2, … Their width is a part of the least distance of two.
---@param x flame.Tensor | number[] | string[]
---@param y? flame.Tensor | number[]
---@param options? table  {width = 0.8, label =, colour =, alpha = 1}
---@return flame.Plot
function Plot:bars(x, y, options)
  local names = names_of(x)
  local xs, ys, o
  if names then
    xs, ys, o = named_points(names, y, options)
  else
    xs, ys, o = points_of("bars", x, y, options)
  end
  o = internal.options("plot.bars", o, { width = 0.8, label = false, colour = false, alpha = 1 })
  o.label, o.colour = o.label or nil, o.colour or nil
  need_size("bars", "width", o.width, 0.01, 1)
  need_size("bars", "alpha", o.alpha, 0, 1)
  local half = least_distance(xs) * o.width / 2
  local layer = { kind = "bars", x = xs, y = ys, left = {}, right = {}, zero = true,
    names = names, reach = {}, alpha = o.alpha < 1 and o.alpha or nil }
  for i = 1, #xs do
    layer.left[i], layer.right[i] = xs[i] - half, xs[i] + half
    if not names then layer.reach[2 * i - 1], layer.reach[2 * i] = layer.left[i], layer.right[i] end
  end
  if names then layer.reach = { 0.5, #names + 0.5 } end
  return add(self, "bars", layer, o)
end

-- Where a matrix lies: from the first to the last position of its rows or
-- columns, with half a cell around.
local function ends_of(op, name, v, n)
  if not v then return 0.5, n + 0.5 end
  local list = data.list(op, name, v)
  if #list ~= 2 or not (list[1] < list[2]) then
    fail(op, "%s must be {first, last}, the first below the last", name)
  end
  return list[1], list[2]
end

local function map_of(op, name)
  return colour.map(name) or fail(op, "no map '%s', there is: %s", tostring(name), colour.maps)
end

-- The range of colours: as asked for, else that of the values.
local function colour_range(op, rows, limits)
  if limits then
    need_limits(op, "limits", limits)
    return limits[1], limits[2]
  end
  local lo, hi = data.extent(rows)
  return scale.range(lo, hi, { tight = true })
end

--- Adds a matrix as colours. Row 1 is at the top, and NaN is grey. The map is "depth", "grey",
--- "heat" or "signed"; limits = {first, last} are those of the colours, xlim and ylim those of the
--- matrix on the axes.
---@param z flame.Tensor | number[][]
---@param options? table  {map = "depth", limits =, xlim =, ylim =, bar = true}
---@return flame.Plot
function Plot:heatmap(z, options)
  local o = internal.options("plot.heatmap", options,
    { map = "depth", limits = false, xlim = false, ylim = false, bar = true })
  local map = map_of("heatmap", o.map)
  local rows, h, w = data.matrix("heatmap", "z", z, GRID)
  local lo, hi = colour_range("heatmap", rows, o.limits)
  local at, pixels, k = scale.position(lo, hi), {}, 0
  for i = 1, h do
    for j = 1, w do
      local v = rows[i][j]
      k = k + 1
      pixels[k] = v == v and map[floor(math.max(0, math.min(1, at(v))) * 255 + 0.5)]
        or colour.missing
    end
  end
  local full_h, full_w = h, w
  if flame.is_tensor(z) then full_h, full_w = z:size(1), z:size(2) end
  local x0, x1 = ends_of("heatmap", "xlim", o.xlim, full_w)
  local y0, y1 = ends_of("heatmap", "ylim", o.ylim, full_h)
  local layer = { kind = "heat", rows = h, columns = w, pixels = pixels, tight = true,
    flipped = not o.ylim, x = { x0, x1 }, y = { o.ylim and y1 or y0, o.ylim and y0 or y1 },
    bar = o.bar and { lo = lo, hi = hi, map = map } or nil }
  if k == 0 then layer.x, layer.y = {}, {} end
  return add(self, "heatmap", layer, {})
end

--- Adds the curves of equal value of a matrix. Row 1 is at the bottom. levels is a list, or about
--- how many there are at ticks of the values; x and y are the positions of columns and rows.
---@param z flame.Tensor | number[][]
---@param options? table  {x =, y =, levels = 8, map = "depth", width = 1.5, bar = true}
---@return flame.Plot
function Plot:contour(z, options)
  local o = internal.options("plot.contour", options,
    { x = false, y = false, levels = false, map = "depth", width = 1.5, bar = true })
  local map = map_of("contour", o.map)
  need_size("contour", "width", o.width, 0.25, 20)
  local rows, h, w = data.matrix("contour", "z", z, GRID // 2)
  local full = flame.is_tensor(z) and { w = z:size(2), h = z:size(1) } or { w = w, h = h }
  local function positions(name, n, all)
    local list = o[name] and data.list("contour", name, o[name]) or {}
    if o[name] and #list ~= all then
      fail("contour", "z has %d %s and %s has %d values\1: give as many", all,
        name == "x" and "columns" or "rows", name, #list)
    end
    for i = 1, o[name] and 0 or all do list[i] = i + 0.0 end
    local some = {}
    for i = 1, n do some[i] = list[n == all and i or floor((i - 0.5) * all / n) + 1] end
    return some
  end
  local xs, ys = positions("x", w, full.w), positions("y", h, full.h)
  local lo, hi = data.extent(rows)
  lo, hi = scale.range(lo, hi, { tight = true })
  local levels = type(o.levels) == "table" and data.list("contour", "levels", o.levels)
    or scale.ticks(lo, hi, false,
      o.levels and need_size("contour", "levels", o.levels, 1, 100) or 8).at
  local at, curves = scale.position(lo, hi), {}
  for _, level in ipairs(levels) do
    -- the lightest are not seen on white
    local c = map[floor(math.max(0, math.min(1, at(level))) * 215 + 0.5)]
    for _, points in ipairs(require "flame.plot_contour".curves(rows, h, w, level, xs, ys)) do
      curves[#curves + 1] = { points = points, colour = c }
    end
  end
  local shades = {}
  for i = 0, 255 do shades[i] = map[floor(i * 215 / 255 + 0.5)] end
  return add(self, "contour", { kind = "contour", curves = curves, width = o.width, tight = true,
    x = h > 0 and { xs[1], xs[w] } or {}, y = h > 0 and { ys[1], ys[h] } or {},
    bar = o.bar and h > 0 and { lo = lo, hi = hi, map = shades } or nil }, {})
end

--- Adds an image. Its shape is as flame.load gives it: (h, w) or (1, h, w) grey, (3, h, w) colour,
--- (2 or 4, h, w) with alpha, over white; u8, or floats from 0 to 1. A plot of one image has its
--- proportions and no axes.
---@param x flame.Tensor
---@return flame.Plot
function Plot:image(x)
  require "flame.image"
  local pixels, h, w = internal.image_pixels("plot.image", x, GRID)
  if #self.layers == 0 then
    self.o.axes, self.o.grid = false, false
    self.aspect = { w, h }
  end
  return add(self, "image",
    { kind = "heat", rows = h, columns = w, pixels = pixels, tight = true, flipped = true,
    x = { 0.5, w + 0.5 }, y = { 0.5, h + 0.5 } }, {})
end

for _, kind in ipairs { "line", "scatter", "histogram", "bars", "heatmap", "contour", "image" } do
  plot[kind] = function(...) return Plot[kind](plot.new(), ...) end
end

-- ---- several side by side -----------------------------------------------------------------------

local Grid = {}
Grid.__index, Grid.__newindex = internal.closed("plot.grid", Grid, { plots = true, columns = true })

--- Plots side by side, row by row: with the methods save, svg, png and text of a plot.
---@param plots flame.Plot[]
---@param options? table  {columns = 2}
function plot.grid(plots, options)
  local o = internal.options("plot.grid", options, { columns = 2 })
  if getmetatable(plots) == Plot then
    fail("grid", "need a list of plots, got one plot\1: write plot.grid { p, q }")
  end
  if type(plots) ~= "table" or #plots == 0 then
    fail("grid", "need a list of plots, got %s",
      type(plots) == "table" and "an empty table" or internal.word(plots))
  end
  if math.type(o.columns) ~= "integer" or o.columns < 1 then
    fail("grid", "columns must be a positive integer, got %s", tostring(o.columns))
  end
  for i, p in ipairs(plots) do
    if getmetatable(p) ~= Plot then
      fail("grid", "item %d must be a plot, got %s", i, internal.word(p))
    end
  end
  return setmetatable({ plots = table.move(plots, 1, #plots, 1, {}),
    columns = math.min(o.columns, #plots) }, Grid)
end

-- ---- out ----------------------------------------------------------------------------------------

local function picture_of(self)
  local layout = require "flame.plot_layout"
  if getmetatable(self) == Grid then return layout.picture(self.plots, self.columns) end
  return layout.picture({ self }, 1)
end

--- The plot as the text of an SVG file.
---@return string
function Plot:svg() return require("flame.plot_svg").text(picture_of(self)) end

--- The plot as an image: u8 of shape (3, height, width). scale: pixels of the
--- image to one of the plot.
---@param factor? number  2
---@return flame.Tensor
function Plot:pixels(factor)
  local k = need_size("pixels", "scale", factor or 2, 0.25, 8)
  local c = require("flame.plot_raster").draw(picture_of(self), k)
  return require("flame.plot_svg").planes(c.pixels, c.height, c.width)
end

--- The plot in characters, as print shows it. Colours are escape sequences, by default where the
--- standard output is a terminal.
---@param options? table  {columns = 72, rows = 20, colour = true}
---@return string
function Plot:text(options)
  local o = internal.options("plot.text", options,
    { columns = 72, rows = 20, colour = internal.io_terminal() })
  need_size("text", "columns", o.columns, 20, 1000)
  need_size("text", "rows", o.rows, 6, 1000)
  return require("flame.plot_terminal").text(self, floor(o.columns), floor(o.rows), o.colour)
end

--- Writes the plot as SVG, PNG or text, by the path's ending (.svg, .png, .txt), and returns it.
---@param path string
---@param options? table  {scale = 2}: pixels of a PNG to one of the plot
---@return flame.Plot
function Plot:save(path, options)
  if type(path) ~= "string" then
    fail("save", "path must be a string, got %s", internal.word(path))
  end
  local o = internal.options("plot.save", options, { scale = 2 })
  local kind = (path:match("%.(%w+)$") or ""):lower()
  if kind == "png" then
    flame.save(path, self:pixels(o.scale))
    return self
  end
  if kind ~= "svg" and kind ~= "txt" then
    fail("save", "%s: plots are written as .svg, .png or .txt, by the ending of the path", path)
  end
  local f, why = io.open(path, "wb")
  if not f then fail("save", "%s", why) end
  local ok, wrong = f:write(kind == "svg" and self:svg() or self:text { colour = false } .. "\n")
  local closed, late = f:close()
  if not ok or not closed then fail("save", "%s: %s", path, wrong or late) end
  return self
end

function Plot:__tostring() return Plot.text(self) end

Grid.svg, Grid.pixels, Grid.save, Grid.__tostring = Plot.svg, Plot.pixels, Plot.save,
  Plot.__tostring
function Grid:text(options)
  local out = {}
  for i, p in ipairs(self.plots) do out[i] = p:text(options) end
  return table.concat(out, "\n\n")
end
Grid.__tostring = function(self) return self:text() end

--- Writes a plot, as its method save does.
---@param p flame.Plot
---@param path string
---@param options? table
function plot.save(p, path, options)
  local class = getmetatable(p)
  if class ~= Plot and class ~= Grid then
    fail("save", "need a plot, got %s\1: write plot.save(p, path)", internal.word(p))
  end
  return p:save(path, options)
end

--- The class of plots.
plot.Plot = Plot
internal.limit(Plot)

return internal.namespace(plot, "plot")
