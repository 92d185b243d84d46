--- Plots in characters: lines and points in Braille (two by four dots per character), bars in
-- eighths of a block, matrices and images with two pixels per character in colour, or as shades
-- without colours. Without colours the second line is dashed, the third dotted, and so on; a key
-- below the axes names them.
local axes = require "flame.plot.axes"
local scale = require "flame.plot.scale"
local terminal = {}

local floor, max, min = math.floor, math.max, math.min

local function width(s) return utf8.len(s) or #s end
local function cut(s, n)
  if width(s) <= n then return s end
  if not utf8.len(s) then return s:sub(1, n) end
  return s:sub(1, utf8.offset(s, max(1, n)) - 1) .. "…"
end
local function centred(s, n) return (" "):rep((n - width(s)) // 2) .. s end

-- ---- a canvas of characters ---------------------------------------------------------------------

-- The bits of Braille's dots by row and column.
local dots = { [0] = { [0] = 1, 8 }, { [0] = 2, 16 }, { [0] = 4, 32 }, { [0] = 64, 128 } }

local function new_canvas(w, h)
  return { w = w, h = h, dots = {}, inks = {}, marks = {}, backs = {} }
end

local function dot(c, x, y, ink)
  if x < 0 or y < 0 or x >= 2 * c.w or y >= 4 * c.h then return end
  local cell = y // 4 * c.w + x // 2
  c.dots[cell] = (c.dots[cell] or 0) | dots[y % 4][x % 2]
  c.inks[cell] = ink
end

local function mark(c, x, y, text, ink, back)
  if x < 0 or y < 0 or x >= c.w or y >= c.h then return end
  local cell = y * c.w + x
  c.marks[cell], c.inks[cell], c.backs[cell] = text, ink, back
end

local function code(ground, c)
  return ("\27[%d;2;%d;%d;%dm"):format(ground, c >> 16, c >> 8 & 255, c & 255)
end

-- Row y of the canvas.
local function row_of(c, y, coloured)
  local out, ink, back = {}, nil, nil
  for x = 0, c.w - 1 do
    local cell = y * c.w + x
    local text = c.marks[cell] or c.dots[cell] and utf8.char(0x2800 + c.dots[cell]) or " "
    local want, behind = c.inks[cell], c.backs[cell]
    if coloured and (want ~= ink or behind ~= back) then
      if ink or back then out[#out + 1] = "\27[0m" end
      if want then out[#out + 1] = code(38, want) end
      if behind then out[#out + 1] = code(48, behind) end
      ink, back = want, behind
    end
    out[#out + 1] = text
  end
  if coloured and (ink or back) then out[#out + 1] = "\27[0m" end
  return table.concat(out)
end

-- ---- layers -------------------------------------------------------------------------------------

-- patterns of dashes without colours: number of dots on, then off
local patterns = { [0] = { 1, 0 }, { 4, 3 }, { 1, 2 }, { 7, 2 } }
local samples = { [0] = "⠤⠤⠤", "⠤ ⠤", "⠄⠄⠄", "⠤⠤⠄" }

-- Sets the dots from (x0, y0) to (x1, y1); dots outside of the canvas are left out. at: how many
-- dots of the line came before, for the pattern of dashes; returned with those of this stroke.
local function stroke(c, x0, y0, x1, y1, layer, pattern, at)
  local lo, hi = -4, 4 * max(c.w, c.h) + 4
  x0, x1, y0, y1 = max(lo, min(hi, x0)), max(lo, min(hi, x1)), max(lo, min(hi, y0)),
    max(lo, min(hi, y1))
  local n = max(1, math.ceil(max(math.abs(x1 - x0), math.abs(y1 - y0))))
  for i = 0, n do
    local t = i / n
    if at % (pattern[1] + pattern[2]) < pattern[1] then
      dot(c, floor(x0 + t * (x1 - x0) + 0.5), floor(y0 + t * (y1 - y0) + 0.5), layer.colour)
    end
    if i < n then at = at + 1 end
  end
  return at
end

local draw = {}

local function placers(c, x, y)
  local w, h = 2 * c.w - 1, 4 * c.h - 1
  return function(v) return max(-1e9, min(1e9, x.at(v) * w)) end,
    function(v) return max(-1e9, min(1e9, (1 - y.at(v)) * h)) end
end

-- Joins the first, lowest, highest and last of the points in each column of dots.
function draw.line(c, layer, x, y, pattern)
  local px, py = placers(c, x, y)
  local at, last = 0, nil
  local column
  local function finish()
    if column and column.low ~= column.high then
      stroke(c, column.x, column.low, column.x, column.high, layer, patterns[0], 0)
    end
  end
  for i = 1, #layer.x do
    local vx, vy = layer.x[i], layer.y[i]
    if scale.holds(x.log, vx) and scale.holds(y.log, vy) then
      local h, v = floor(px(vx) + 0.5), floor(py(vy) + 0.5)
      if column and column.x == h and last then
        column.low, column.high, last = min(column.low, v), max(column.high, v), v
      else
        finish()
        if last then
          at = stroke(c, column.x, last, h, v, layer, pattern, at)
        else
          dot(c, h, v, layer.colour)
        end
        column, last = { x = h, low = v, high = v }, v
      end
    else
      last = nil
    end
  end
  finish()
end

function draw.scatter(c, layer, x, y)
  local px, py = placers(c, x, y)
  for i = 1, #layer.x do
    local vx, vy = layer.x[i], layer.y[i]
    if scale.holds(x.log, vx) and scale.holds(y.log, vy) then
      dot(c, floor(px(vx) + 0.5), floor(py(vy) + 0.5), layer.colour)
    end
  end
end

local eighths = { [0] = " ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█" }
function draw.bars(c, layer, x, y)
  local base = y.log and 0 or max(0, min(1, y.at(0)))
  local tops = {}
  for i = 1, #layer.x do
    if scale.holds(y.log, layer.y[i]) and scale.holds(x.log, layer.left[i])
        and scale.holds(x.log, layer.right[i]) then
      local first, last = floor(x.at(layer.left[i]) * c.w + 0.5),
        floor(x.at(layer.right[i]) * c.w + 0.5) - 1
      local top = max(0, min(1, y.at(layer.y[i])))
      for column = max(0, first), min(c.w - 1, max(first, last)) do
        local t = tops[column]
        if not t or math.abs(top - base) > math.abs(t - base) then tops[column] = top end
      end
    end
  end
  for column, top in next, tops do
    local lo, hi = floor(min(base, top) * c.h * 8 + 0.5), floor(max(base, top) * c.h * 8 + 0.5)
    for row = lo // 8, (hi - 1) // 8 do
      local part = min(8, hi - row * 8)
      mark(c, column, c.h - 1 - row, top < base and "█" or eighths[part], layer.colour)
    end
  end
end

local shades = { [0] = "█", "▓", "▒", "░", " " }
local function lightness(p)
  return (0.299 * (p >> 16) + 0.587 * (p >> 8 & 255) + 0.114 * (p & 255)) / 255
end

-- Each character stands for two pixels. With colours: an upper half block in the colour of the
-- upper one on that of the lower one, or a full block if there is only one; without: a shade.
function draw.heat(c, layer, x, y, _, coloured)
  if layer.rows == 0 or layer.columns == 0 then return end
  local x0, x1 = x.at(layer.x[1]) * c.w, x.at(layer.x[2]) * c.w
  local ya, yb = (1 - y.at(layer.y[1])) * c.h, (1 - y.at(layer.y[2])) * c.h
  local y0, y1 = min(ya, yb), max(ya, yb)
  local function pixel(column, row)
    local i = floor((row - y0) / (y1 - y0) * layer.rows)
    local j = floor((column - x0) / (x1 - x0) * layer.columns)
    if i < 0 or j < 0 or i >= layer.rows or j >= layer.columns then return nil end
    return layer.pixels[i * layer.columns + j + 1]
  end
  for row = 0, c.h - 1 do
    for column = 0, c.w - 1 do
      local upper, lower = pixel(column + 0.5, row + 0.25), pixel(column + 0.5, row + 0.75)
      if upper and lower and coloured then
        mark(c, column, row, "▀", upper, lower)
      elseif upper or lower then
        local light = ((upper and lightness(upper) or 1) + (lower and lightness(lower) or 1)) / 2
        mark(c, column, row, coloured and "█" or shades[min(4, floor(light * 5))], upper or lower)
      end
    end
  end
end

function draw.contour(c, layer, x, y)
  for _, curve in ipairs(layer.curves) do
    local xs, ys = {}, {}
    for i = 1, #curve.points, 2 do
      xs[#xs + 1], ys[#ys + 1] = curve.points[i], curve.points[i + 1]
    end
    draw.line(c, { x = xs, y = ys, colour = curve.colour }, x, y, patterns[0])
  end
end

-- ---- around the axes ----------------------------------------------------------------------------

-- Labels of the y axis by row, and the widest.
local function y_labels(y, rows)
  local t = axes.ticks(y, rows, function() return 1 end, 1, max(2, rows // 3))
  local labels, widest = {}, 0
  for i, v in ipairs(t.at) do
    local row = max(0, min(rows - 1, floor((1 - y.at(v)) * (rows - 1) + 0.5)))
    labels[row] = t.label[i]
    widest = max(widest, width(t.label[i]))
  end
  return labels, widest, t
end

-- The x axis: its line with tick marks, the line with their labels, and the ticks.
local function x_lines(x, columns)
  local t = axes.ticks(x, columns, width, 2, max(2, columns // 10))
  local line, labels, used = {}, {}, 0
  for i = 1, columns do line[i] = "─" end
  for i, v in ipairs(t.at) do
    local at = max(0, min(columns - 1, floor(x.at(v) * (columns - 1) + 0.5)))
    line[at + 1] = "┬"
    local s = cut(t.label[i], columns)
    local first = max(used, min(columns - width(s), at - (width(s) - 1) // 2))
    if first + width(s) <= columns + 6 then
      labels[#labels + 1] = (" "):rep(first - used + (#labels > 0 and first == used and 1 or 0))
        .. s
      used = first + width(s) + (#labels > 1 and first == used and 1 or 0)
    end
  end
  return table.concat(line), table.concat(labels), t
end

-- The entries of the key: for each layer with a label a sample and the label.
local function key_of(p, coloured)
  local out, lines = {}, 0
  for _, layer in ipairs(p.layers) do
    local sample = layer.kind == "bars" and "█" or layer.kind == "scatter" and "⠂"
      or samples[lines % 4]
    if layer.kind == "line" then lines = lines + 1 end
    if layer.label then
      if coloured then
        sample = code(38, layer.colour)
          .. (layer.kind == "line" and samples[0] or sample) .. "\27[0m"
      end
      out[#out + 1] = sample .. " " .. layer.label
    end
  end
  return out
end

-- The lines of the key, each with as many entries as fit.
local function key_lines(key, left, columns)
  local out, line, used = {}, nil, 0
  for _, entry in ipairs(key) do
    local w = width((entry:gsub("\27%[[%d;]*m", "")))
    if line and used + 3 + w <= columns then
      line, used = line .. "   " .. entry, used + 3 + w
    else
      out[#out + 1] = line
      line, used = (" "):rep(left) .. entry, w
    end
  end
  out[#out + 1] = line
  return out
end

-- The size of an image in characters, which are about twice as high as wide.
local function fitted(p, columns, rows)
  if not p.aspect then return columns, rows end
  local w = min(columns, floor(2 * rows * p.aspect[1] / p.aspect[2] + 0.5))
  return max(1, w), max(1, min(rows, floor(w * p.aspect[2] / p.aspect[1] / 2 + 0.5)))
end

local function draw_layers(p, c, x, y, coloured)
  local lines = 0
  for _, layer in ipairs(p.layers) do
    draw[layer.kind](c, layer, x, y, coloured and patterns[0] or patterns[lines % 4], coloured)
    if layer.kind == "line" then lines = lines + 1 end
  end
end

--- The text of a plot, 'columns' wide, 'rows' high without title, labels and key.
function terminal.text(p, columns, rows, coloured)
  local x, y, left_out, all = axes.of(p)
  local out, bare = {}, p.o.axes == false
  local labels, margin, yt = y_labels(y, rows)
  margin = bare and 0 or margin + 2
  local w, h = fitted(p, max(4, columns - margin), rows)
  local c = new_canvas(w, h)
  draw_layers(p, c, x, y, coloured)
  if p.o.title then out[#out + 1] = centred(cut(p.o.title, columns), columns) end
  local ylabel = axes.label(y, yt)
  if ylabel ~= "" and not bare then out[#out + 1] = cut(ylabel, columns) end
  for r = 0, h - 1 do
    local s = labels[r] or ""
    local head = bare and "" or (" "):rep(margin - 2 - width(s)) .. s
      .. (labels[r] and " ┤" or " │")
    out[#out + 1] = ((head .. row_of(c, r, coloured)):gsub(" +$", ""))
  end
  if not bare then
    local line, names, xt = x_lines(x, w)
    out[#out + 1] = (" "):rep(margin - 1) .. "└" .. line
    out[#out + 1] = (" "):rep(margin) .. names
    local xlabel = axes.label(x, xt)
    if xlabel ~= "" then out[#out + 1] = (" "):rep(margin) .. centred(cut(xlabel, w), w) end
  end
  for _, s in ipairs(p.o.legend and key_lines(key_of(p, coloured), margin,
      columns - margin) or {}) do
    out[#out + 1] = s
  end
  if left_out > 0 then
    out[#out + 1] = (" "):rep(margin) .. ("not shown: %d of %d values"):format(left_out, all)
  end
  if all == 0 and not bare and #p.layers < 2 then out[#out + 1] = (" "):rep(margin) .. "no data" end
  return table.concat(out, "\n")
end

return terminal
