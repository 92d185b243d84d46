-- One small plot of each kind, of numbers that are the same on every machine: spec/golden/plot has
-- them as SVG and PNG. flame-lua spec/support/plots.lua FOLDER writes them into a folder.
local flame = require "flame"
local plot = require "flame.plot"

local function small(o)
  o.width, o.height = o.width or 320, o.height or 220
  return plot.new(o)
end

-- n numbers from 0 to 1 that look random: the fractions of multiples of an irrational number.
local function spread(n, step)
  local out = {}
  for i = 1, n do out[i] = i * step % 1 end
  return out
end
-- n numbers that are about normally distributed: sums of 12 fractions that look random, minus 6.
local function bell(n)
  local out = {}
  for i = 1, n do
    local sum = -6
    for k = 1, 12 do
      sum = sum + (i * 0.6180339887498949 * k + i * i * 0.1414213562373095 * k) % 1
    end
    out[i] = sum
  end
  return out
end
local function wave(n, f)
  local out = {}
  for i = 1, n do out[i] = f((i - 1) / (n - 1)) end
  return out
end
local function hills(n)
  local rows = {}
  for i = 1, n do
    rows[i] = {}
    for j = 1, n do
      local x, y = (j - 1) / (n - 1) * 4 - 2, (i - 1) / (n - 1) * 4 - 2
      rows[i][j] = x / (1 + x * x * x * x + y * y)
    end
  end
  return rows
end

local plots = {}

function plots.lines()
  local x = wave(60, function(t) return 10 * t end)
  return small { title = "Three lines", xlabel = "time in s", ylabel = "height in m" }
    :line(x, wave(60, function(t) return 4 * t * (1 - t) end), { label = "ball" })
    :line(x, wave(60, function(t) return 1 - t * t end), { label = "stone" })
    :line(x, wave(60, function(t) return 0.2 + t / 2 end),
      { label = "limit", dash = true, width = 1 })
end
function plots.scatter()
  return small { title = "Groups", xlabel = "width", ylabel = "length" }
    :scatter(spread(40, 0.6180339887), spread(40, 0.4142135623), { label = "a", alpha = 0.6 })
    :scatter(wave(12, function(t) return t end), wave(12, function(t) return 1.2 - t end),
      { label = "b", shape = "square" })
    :scatter(wave(9, function(t) return t end), wave(9, function(t) return t * t end),
      { label = "c", shape = "cross" })
    :scatter({ 0.1, 0.2 }, { 1.1, 1.2 }, { label = "d", shape = "plus" })
end
function plots.histogram()
  return small { title = "2000 sums", xlabel = "sum", ylabel = "count" }:histogram(bell(2000))
end
function plots.bars()
  return small { title = "Accuracy", ylabel = "%" }:bars({ "linear", "two layers", "convolution" },
    { 91.5, 97.25, 99 })
end
function plots.bars_upright()
  local names, heights = {}, {}
  for i = 1, 14 do names[i], heights[i] = ("experiment %d"):format(i), i % 5 - 2 + i / 10 end
  return small { ylabel = "gain" }:bars(names, heights)
end
function plots.heatmap()
  return small { title = "A matrix", xlabel = "column", ylabel = "row" }:heatmap(hills(12),
    { map = "signed" })
end
function plots.heatmap_depth()
  return small {}:heatmap({ { 1, 2, 3 }, { 4, 0 / 0, 6 }, { 7e6, 8e6, 9e6 } })
end
function plots.contour()
  local x = wave(40, function(t) return 4 * t - 2 end)
  return small { title = "Contours", xlabel = "x", ylabel = "y" }:contour(hills(40),
    { x = x, y = x })
end
function plots.image()
  local across, down = flame.arange(0, 11):float() / 11,
    flame.arange(0, 7):float():reshape(8, 1) / 7
  return small { title = "8 by 12 pixels" }
    :image(flame.stack({ across + down * 0, down + across * 0, 1 - across * down }, 1))
end
function plots.log()
  return small { title = "Loss", xlabel = "step",
    yscale = "log" }:line(wave(80, function(t) return 4e6 * t end),
    wave(80, function(t) return 3 / (1 + 900 * t * t) end), { label = "train" })
end
function plots.log_log()
  local x = { 1, 10, 100, 1e4, 1e6 }
  return small { xscale = "log", yscale = "log", xlabel = "n", ylabel = "seconds" }:line(x,
    { 2e-6, 1e-5, 2e-4, 0.3, 60 }):scatter(x,
    { 2e-6, 1e-5, 2e-4, 0.3, 60 }, { colour = 1 })
end
function plots.gaps()
  local nan, inf = 0 / 0, math.huge
  return small { title = "Gaps",
    yscale = "log" }:line({ 1, 2, nan, 4, 8, 0, 3, -1, 5, inf, 7, 9, -inf, 2 }, { label = "loss" })
end
function plots.nothing() return small { title = "Nothing", xlabel = "x" }:line({}) end
function plots.one_point() return small {}:line({ 3 }) end
function plots.equal() return small {}:line({ 7, 7, 7, 7 }) end
function plots.many_points()
  return small { title = "100000 points" }
    :line(wave(100000, function(t) return (t * 51.3 % 1) * (1 - t) + (t * 49999.7 % 1) * 0.1 end))
end
function plots.grid()
  return plot.grid({ plots.lines(), plots.histogram(), plots.heatmap(), plots.contour() },
    { columns = 2 })
end

local function names()
  local list = {}
  for name in pairs(plots) do list[#list + 1] = name end
  table.sort(list)
  return list
end

if arg and arg[0] and arg[0]:match("plots%.lua$") then
  for _, name in ipairs(names()) do
    local p = plots[name]()
    p:save(("%s/%s.svg"):format(arg[1], name)):save(("%s/%s.png"):format(arg[1], name),
      { scale = 1.5 })
  end
end
return { plots = plots, names = names() }
