--- Plots: lines, points, bars, histograms, matrices as colours, images and contours, shown in the
-- terminal and written as SVG or PNG. plot.line(y) and similar functions make a plot, which has
-- methods of the same names that add to it: plot.line(x, y, {label = "a"}):line(x, z, {label =
-- "b"}):save("both.svg"). Values are read when they are given: later writes to a tensor do not
-- change a plot. A point that an axis can not show (NaN, an infinity, on a logarithmic axis a
-- number that is not above 0) leaves a gap, and the picture says how many such points there are.
local flame = require "flame"
local internal = flame.internal
local arguments = require "flame.base.arguments"
local objects = require "flame.base.objects"
local colour = require "flame.plot.colour"
local data = require "flame.plot.data"
local scale = require "flame.plot.scale"
local fail = data.fail

local plot = {}
local Plot, Grid = { __name = "Plot" }, { __name = "Grid" }
-- method adds a function to the class Plot or Grid, def to the module; text declares it.
local function method(text, f)
  local class, name = text:match("^(%w+):([%w_]+)%(")
  local into = class == "Plot" and Plot or Grid
  into[name] = internal.declare(text, "plot." .. name, f)
end
local function def(text, f)
  local name = text:match("^plot%.([%w_]+)")
  plot[name] = internal.declare(text, "plot." .. name, f)
end
Plot.__index, Plot.__newindex = objects.closed("plot", Plot,
  { o = true, layers = true, aspect = true })

local huge, floor = math.huge, math.floor
local GRID = 600                               -- most rows and columns of a matrix as colours
local dashes = { { 6, 3 }, { 2, 2 }, { 8, 3, } }

-- ---- options ------------------------------------------------------------------------------------

local function need_size(op, name, v, least, most)
  if not (v >= least and v <= most) then
    fail(op, "%s must be a number from %g to %g, got %s", name, least, most, scale.short(v))
  end
  return v
end

local function need_limits(op, name, v, log)
  if not v then return end
  local lo, hi = v[1], v[2]
  if #v ~= 2 then fail(op, "%s must be a list of two numbers", name) end
  if not (lo < hi and lo > -huge and hi < huge) then
    fail(op, "%s is from %s to %s\1: give two finite numbers, the lower one first", name,
      scale.short(lo), scale.short(hi))
  end
  if log and lo <= 0 then
    fail(op, "%s begins at %s on a logarithmic axis\1: give a number above 0", name,
      scale.short(lo))
  end
end

-- set can remove the first seven
local OPTIONS = { "title", "xlabel", "ylabel", "xscale", "yscale", "xlim", "ylim", "legend", "grid",
  "axes", "width", "height" }

local function check(op, o)
  need_limits(op, "xlim", o.xlim, o.xscale == "log")
  need_limits(op, "ylim", o.ylim, o.yscale == "log")
  need_size(op, "width", o.width, 120, 4000)
  need_size(op, "height", o.height, 80, 4000)
  o.xlim, o.ylim = o.xlim and { o.xlim[1], o.xlim[2] } or nil,
    o.ylim and { o.ylim[1], o.ylim[2] } or nil
  return o
end

--- An empty plot, to which its methods add. xlim and ylim are {first, last}; legend, grid or axes =
--- false leaves that out; width and height are in pixels.
def([[plot.new(*, title?: str, xlabel?: str, ylabel?: str, xscale: "linear"|"log" = "linear",
  yscale: "linear"|"log" = "linear", xlim?: num[], ylim?: num[], legend = true, grid = true,
  axes = true, width: num = 640, height: num = 400) -> Plot]], function(...)
  local o, given = {}, { ... }
  for i, name in ipairs(OPTIONS) do o[name] = given[i] end
  return setmetatable({ o = check("new", o), layers = {} }, Plot)
end)

--- Changes options of plot.new (false: none), and returns the plot.
method([[Plot:set(*, title?: str|bool, xlabel?: str|bool, ylabel?: str|bool, xscale?: "linear"|"log",
  yscale?: "linear"|"log", xlim?: num[]|bool, ylim?: num[]|bool, legend?: bool, grid?: bool,
  axes?: bool, width?: num, height?: num) -> self]], function(self, ...)
  local o, given = {}, { ... }
  for i, name in ipairs(OPTIONS) do
    local v = given[i]
    if v == nil then o[name] = self.o[name]
    elseif type(v) == "boolean" and i <= 7 then
      if v then fail("set", "%s = true: give a value, or false for none", name) end
    else o[name] = v end
  end
  self.o = check("set", o)
  return self
end)

-- Adds a layer, with its label and, unless it is of pixels or curves, a colour (by default the next
-- of the palette) and dashes.
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
  layer.label = o.label
  self.layers[#self.layers + 1] = layer
  return self
end

-- Defines a kind of layer: a method, and a function that makes a plot with it.
local function kind(text, f)
  method("Plot:" .. text, f)
  def("plot." .. text, function(...) return f(plot.new(), ...) end)
end

local function check_drawn(op, o)
  if o.alpha then need_size(op, "alpha", o.alpha, 0, 1) end
  if o.width then need_size(op, "width", o.width, 0.25, 20) end
  if o.size then need_size(op, "size", o.size, 1, 40) end
  return o
end

-- ---- kinds --------------------------------------------------------------------------------------
-- A layer: {kind, x and y = its points, …}. reach: further values that the x axis shows; zero: the
-- y axis shows 0; tight: the axes have no margins; flipped: the y axis goes down.

--- Adds a line through points. Without x the positions are 1, 2, … A colour is "#0072B2", 0x0072B2
--- or a position in the palette.
kind([[line(x: T|any[], y?: T|any[], *, label?: str, colour?: str|int, width: num = 2, dash?: bool,
  alpha: num = 1) -> Plot]], function(self, x, y, label, c, width, dash, alpha)
  local xs, ys = data.points("line", x, y)
  local o = check_drawn("line",
    { label = label, colour = c, width = width, dash = dash, alpha = alpha })
  return add(self, "line",
    { kind = "line", x = xs, y = ys, width = width, alpha = alpha < 1 and alpha or nil }, o)
end)

--- Adds points; size is in pixels.
kind([[scatter(x: T|any[], y?: T|any[], *, label?: str, colour?: str|int, size: num = 6,
  shape: "circle"|"square"|"cross"|"plus" = "circle", alpha: num = 1) -> Plot]],
function(self, x, y, label, c, size, shape, alpha)
  local xs, ys = data.points("scatter", x, y)
  local o = check_drawn("scatter", { label = label, colour = c, size = size, alpha = alpha })
  local layer = { kind = "scatter", x = xs, y = ys, size = size, shape = shape,
    alpha = alpha < 1 and alpha or nil }
  return add(self, "scatter", layer, o)
end)

-- The finite values, sorted; their range; the number of bins (default: Freedman, Diaconis 1981).
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
kind([[histogram(x: T|any[], *, bins?: int, label?: str, colour?: str|int, alpha: num = 0.8)
  -> Plot]], function(self, x, bins, label, c, alpha)
  local o = check_drawn("histogram", { label = label, colour = c, alpha = alpha })
  if bins and (bins < 1 or bins > 100000) then
    fail("histogram", "bins must be an integer from 1 to 100000, got %d", bins)
  end
  if flame.is_tensor(x) then x = x:reshape(-1) end
  local kept, lo, hi, n = bins_of(data.list("histogram", "x", x), bins)
  local layer = { kind = "bars", x = {}, y = {}, left = {}, right = {}, zero = true,
    joined = true, reach = {}, alpha = alpha < 1 and alpha or nil }
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
end)

local function names_of(x)
  if type(x) ~= "table" or flame.is_tensor(x) or type(x[1]) ~= "string" then return nil end
  local names = {}
  for i, name in ipairs(x) do
    if type(name) ~= "string" then
      fail("bars", "name %d is %s, the first is a string", i, arguments.word(name))
    end
    names[i] = name
  end
  return names
end

local function named_points(names, y)
  if y == nil then
    fail("bars", "there are %d names and no heights\1: write plot.bars(names, heights)", #names)
  end
  local xs, ys = data.points("bars", nil, y)
  if #names ~= #ys then
    fail("bars", "there are %d names and %d heights\1: give one of each", #names, #ys)
  end
  return xs, ys
end

-- The smallest distance between two different numbers of the list, 1 if there is only one.
local function least_distance(list)
  local sorted, least, i = list, huge, 2
  while i <= #list and list[i] > list[i - 1] do i = i + 1 end
  if i <= #list then
    sorted = table.move(list, 1, #list, 1, {})
    table.sort(sorted, function(a, b) return a < b or (b ~= b and a == a) end)
  end
  for k = 2, #sorted do
    local d = sorted[k] - sorted[k - 1]
    if d > 0 and d < least then least = d end
  end
  return least == huge and 1 or least
end

--- Adds bars from 0 to the heights y. x says where they are, or is a list of names; without it they
--- are at 1, 2, … Their width is a fraction of the least distance of two positions.
kind([[bars(x: T|any[], y?: T|any[], *, width: num = 0.8, label?: str, colour?: str|int,
  alpha: num = 1) -> Plot]], function(self, x, y, width, label, c, alpha)
  local names = names_of(x)
  local xs, ys
  if names then xs, ys = named_points(names, y) else xs, ys = data.points("bars", x, y) end
  need_size("bars", "width", width, 0.01, 1)
  need_size("bars", "alpha", alpha, 0, 1)
  local half = least_distance(xs) * width / 2
  local layer = { kind = "bars", x = xs, y = ys, left = {}, right = {}, zero = true,
    names = names, reach = {}, alpha = alpha < 1 and alpha or nil }
  for i = 1, #xs do
    layer.left[i], layer.right[i] = xs[i] - half, xs[i] + half
    if not names then layer.reach[2 * i - 1], layer.reach[2 * i] = layer.left[i], layer.right[i] end
  end
  if names then layer.reach = { 0.5, #names + 0.5 } end
  return add(self, "bars", layer, { label = label, colour = c })
end)

-- The range of a heatmap's n rows or columns on an axis: the given {first, last} (v), or 1 to n
-- extended by half a cell at both ends.
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

-- The range of the colours: as given, else that of the values.
local function colour_range(op, rows, limits)
  if limits then
    need_limits(op, "limits", limits)
    return limits[1], limits[2]
  end
  local lo, hi = data.extent(rows)
  return scale.range(lo, hi, { tight = true })
end

--- Adds a matrix as colours. Row 1 is at the top, and NaN is grey. The map is "depth", "grey",
--- "heat" or "signed"; limits = {first, last} is the range of the colours; xlim and ylim are the
--- ranges of the matrix on the axes.
kind([[heatmap(z: T|any[], *, map: str = "depth", limits?: num[], xlim?: num[], ylim?: num[],
  bar = true) -> Plot]], function(self, z, map, limits, xlim, ylim, bar)
  map = map_of("heatmap", map)
  local rows, h, w = data.matrix("heatmap", "z", z, GRID)
  local lo, hi = colour_range("heatmap", rows, limits)
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
  local x0, x1 = ends_of("heatmap", "xlim", xlim, full_w)
  local y0, y1 = ends_of("heatmap", "ylim", ylim, full_h)
  local layer = { kind = "heat", rows = h, columns = w, pixels = pixels, tight = true,
    flipped = not ylim, x = { x0, x1 }, y = { ylim and y1 or y0, ylim and y0 or y1 },
    bar = bar and { lo = lo, hi = hi, map = map } or nil }
  if k == 0 then layer.x, layer.y = {}, {} end
  return add(self, "heatmap", layer, {})
end)

-- The positions of n columns or rows: the given ones, or 1 to 'all'. If 'all' of them were averaged
-- to n blocks, each block has the position of its middle one.
local function positions(name, given, n, all)
  local list = given and data.list("contour", name, given) or {}
  if given and #list ~= all then
    fail("contour", "z has %d %s and %s has %d values\1: give as many", all,
      name == "x" and "columns" or "rows", name, #list)
  end
  for i = 1, given and 0 or all do list[i] = i + 0.0 end
  local some = {}
  for i = 1, n do some[i] = list[n == all and i or floor((i - 0.5) * all / n) + 1] end
  return some
end

--- Adds the curves of equal value of a matrix. Row 1 is at the bottom. levels is a list, or the
--- approximate number of levels, which are then at ticks of the values; x and y are the positions
--- of columns and rows.
kind([[contour(z: T|any[], *, x?: T|any[], y?: T|any[], levels: num|T|any[] = 8, map: str = "depth",
  width: num = 1.5, bar = true) -> Plot]], function(self, z, x, y, levels, map, width, bar)
  map = map_of("contour", map)
  need_size("contour", "width", width, 0.25, 20)
  local rows, h, w = data.matrix("contour", "z", z, GRID // 2)
  local full = flame.is_tensor(z) and { w = z:size(2), h = z:size(1) } or { w = w, h = h }
  local xs, ys = positions("x", x, w, full.w), positions("y", y, h, full.h)
  local lo, hi = data.extent(rows)
  lo, hi = scale.range(lo, hi, { tight = true })
  levels = type(levels) ~= "number" and data.list("contour", "levels", levels)
    or scale.ticks(lo, hi, false, need_size("contour", "levels", levels, 1, 100)).at
  local at, curves = scale.position(lo, hi), {}
  for _, level in ipairs(levels) do
    -- the lightest colours can not be seen on white
    local c = map[floor(math.max(0, math.min(1, at(level))) * 215 + 0.5)]
    for _, points in ipairs(require "flame.plot.contour".curves(rows, h, w, level, xs, ys)) do
      curves[#curves + 1] = { points = points, colour = c }
    end
  end
  local shades = {}
  for i = 0, 255 do shades[i] = map[floor(i * 215 / 255 + 0.5)] end
  return add(self, "contour", { kind = "contour", curves = curves, width = width, tight = true,
    x = h > 0 and { xs[1], xs[w] } or {}, y = h > 0 and { ys[1], ys[h] } or {},
    bar = bar and h > 0 and { lo = lo, hi = hi, map = shades } or nil }, {})
end)

--- Adds an image. Its shape is as flame.load gives it: (h, w) or (1, h, w) grey, (3, h, w) colour,
--- (2 or 4, h, w) with alpha, over white; u8, or floats from 0 to 1. A plot of a single image has
--- the image's proportions and no axes.
kind("image(x: T) -> Plot", function(self, x)
  require "flame.image"
  local pixels, h, w = internal.image_pixels("plot.image", x, GRID)
  if #self.layers == 0 then
    self.o.axes, self.o.grid = false, false
    self.aspect = { w, h }
  end
  return add(self, "image",
    { kind = "heat", rows = h, columns = w, pixels = pixels, tight = true, flipped = true,
    x = { 0.5, w + 0.5 }, y = { 0.5, h + 0.5 } }, {})
end)

-- ---- several side by side -----------------------------------------------------------------------

Grid.__index, Grid.__newindex = objects.closed("plot.grid", Grid, { plots = true, columns = true })

--- Plots side by side, row by row; the grid has the methods save, svg, png and text of a plot.
def("plot.grid(plots: any, *, columns = 2) -> Grid", function(plots, columns)
  if getmetatable(plots) == Plot then
    fail("grid", "need a list of plots, got one plot\1: write plot.grid { p, q }")
  end
  if type(plots) ~= "table" or #plots == 0 then
    fail("grid", "need a list of plots, got %s",
      type(plots) == "table" and "an empty table" or arguments.word(plots))
  end
  if columns < 1 then fail("grid", "columns must be a positive integer, got %d", columns) end
  for i, p in ipairs(plots) do
    if getmetatable(p) ~= Plot then
      fail("grid", "item %d must be a plot, got %s", i, arguments.word(p))
    end
  end
  return setmetatable({ plots = table.move(plots, 1, #plots, 1, {}),
    columns = math.min(columns, #plots) }, Grid)
end)

-- ---- output ------------------------------------------------------------------------------------

-- Defines a method of plots and of grids.
local function shown(text, f)
  method("Plot:" .. text, f)
  method("Grid:" .. text, f)
end

local function picture_of(self)
  local layout = require "flame.plot.layout"
  if getmetatable(self) == Grid then return layout.picture(self.plots, self.columns) end
  return layout.picture({ self }, 1)
end

--- The plot as the text of an SVG file.
shown("svg() -> str",
  function(self) return require("flame.plot.svg").text(picture_of(self)) end)

--- The plot as an image: u8 of shape (3, height, width). scale: pixels of the image per pixel of
--- the plot.
shown("pixels(scale: num = 2) -> T", function(self, factor)
  local k = need_size("pixels", "scale", factor, 0.25, 8)
  local c = require("flame.plot.raster").draw(picture_of(self), k)
  return require("flame.plot.svg").planes(c.pixels, c.height, c.width)
end)

-- Does the standard output show colours?
local function has_colours()
  local function variable(name) return os and os.getenv and os.getenv(name) or "" end
  return internal.io_terminal() and variable "NO_COLOR" == "" and variable "TERM" ~= "dumb"
end

--- The plot in characters, as print shows it. Colours are escape sequences; they are used by
--- default if the standard output is a terminal with colours and NO_COLOR is not set.
local TEXT = "text(*, columns: num = 72, rows: num = 20, colour?: bool) -> str"
method("Plot:" .. TEXT, function(self, columns, rows, coloured)
  need_size("text", "columns", columns, 20, 1000)
  need_size("text", "rows", rows, 6, 1000)
  if coloured == nil then coloured = has_colours() end
  return require("flame.plot.terminal").text(self, floor(columns), floor(rows), coloured)
end)

--- Writes the plot as SVG, PNG or text, by the path's ending (.svg, .png, .txt), and returns it.
shown("save(path: str, *, scale: num = 2) -> self", function(self, path, factor)
  local ending = (path:match("%.(%w+)$") or ""):lower()
  if ending == "png" then
    flame.save(path, self:pixels(factor))
    return self
  end
  if ending ~= "svg" and ending ~= "txt" then
    fail("save", "%s: plots are written as .svg, .png or .txt, by the ending of the path", path)
  end
  local f, why = internal.open(path, "wb")
  if not f then fail("save", "%s", why) end
  local ok, wrong = f:write(ending == "svg" and self:svg() or self:text { colour = false } .. "\n")
  local closed, late = f:close()
  if not ok or not closed then fail("save", "%s: %s", path, wrong or late) end
  return self
end)

Plot.__tostring = function(self) return self:text() end

--- The plots of the grid one below the other, as Plot:text gives them.
method("Grid:" .. TEXT, function(self, columns, rows, coloured)
  local out = {}
  for i, p in ipairs(self.plots) do
    out[i] = p:text { columns = columns, rows = rows, colour = coloured }
  end
  return table.concat(out, "\n\n")
end)
Grid.__tostring = function(self) return self:text() end

--- Writes a plot, as its method save does.
def("plot.save(p: any, path: str, *, scale: num = 2) -> Plot", function(p, path, factor)
  local class = getmetatable(p)
  if class ~= Plot and class ~= Grid then
    fail("save", "need a plot, got %s\1: write plot.save(p, path)", arguments.word(p))
  end
  return p:save(path, { scale = factor })
end)

--- The class of plots.
plot.Plot = Plot
objects.limit(Plot)
objects.classes.Grid = Grid

return objects.namespace(plot, "plot")
