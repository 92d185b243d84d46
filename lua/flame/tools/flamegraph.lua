--- flame.flamegraph: where the time of a script goes, by stacks of its functions, as a picture or
--- as folded stacks. It measures the host's time: calls that wait for a GPU include the wait.
local flame = require "flame"
local internal = flame.internal
local arguments = require "flame.base.arguments"
local fail = arguments.fail

---@class flame.FlameGraph
---@field ms number         milliseconds of all functions together
local Graph = { __name = "flame.FlameGraph" }
Graph.__index = Graph

-- the host's locale may write a comma
local function number(format, v) return (format:format(v):gsub(",", ".")) end

--- The stacks, one per line, each with the microseconds spent in its last function itself:
--- "main;step;matmul 120".
local function folded(self)
  local lines, paths = {}, {}
  for i, node in ipairs(self.nodes) do
    local name = node.name:gsub("[;\n]", "_")
    paths[i] = node.parent > 0 and paths[node.parent] .. ";" .. name or name
    local us = math.floor(node.ms * 1000 + 0.5)
    if us > 0 then lines[#lines + 1] = paths[i] .. " " .. us end
  end
  table.sort(lines)
  return table.concat(lines, "\n") .. (#lines > 0 and "\n" or "")
end

-- ---- the picture ------------------------------------------------------------------------------
local WIDE <const>, HIGH <const>, LETTER <const> = 1200, 17, 6.6      -- pixels

local function escaped(s)
  return (s:gsub("[&<>\"]", { ["&"] = "&amp;", ["<"] = "&lt;", [">"] = "&gt;", ['"'] = "&quot;" }))
end

--- A warm colour for a function, always the same for the same name.
local function colour_of(name)
  local h = 0
  for k = 1, #name do h = (h * 31 + name:byte(k)) % 1009 end
  return ("rgb(%d,%d,%d)"):format(205 + h % 50, 80 + h % 130, h % 60)
end

--- Draws a rectangle for a node, with its name if there is room, and as a tooltip.
local function rectangle(out, node, total, depth, x, w)
  local y = (depth - 1) * HIGH + 24
  local letters = (w - 4) // LETTER | 0
  local name = #node.name <= letters and node.name
    or letters >= 3 and node.name:sub(1, letters - 2) .. ".." or ""
  out[#out + 1] = ('<g><title>%s: %s ms, %s %%, %d calls</title><rect x="%s" y="%d" width="%s" '
    .. 'height="%d" fill="%s" rx="1"/><text x="%s" y="%d">%s</text></g>'):format(
    escaped(node.name), number("%.3f", node.all), number("%.2f", 100 * node.all / total),
    node.calls, number("%.1f", x), y, number("%.1f", w), HIGH - 1, colour_of(node.name),
    number("%.1f", x + 2), y + 12, escaped(name))
end

local function svg(self)
  local out, deepest, total = {}, 1, math.max(self.ms, 1e-9)
  local function draw(list, x, depth)
    table.sort(list, function(a, b) return a.name < b.name end)
    for _, node in ipairs(list) do
      local w = node.all / total * WIDE
      if w >= 0.3 then
        deepest = math.max(deepest, depth)
        rectangle(out, node, total, depth, x, w)
        draw(node.below, x, depth + 1)
      end
      x = x + w
    end
  end
  draw(self.roots, 0, 1)
  return ('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" '
    .. 'font-family="monospace" font-size="11">\n<text x="4" y="15">%s ms of the host</text>\n'
    .. '%s\n</svg>\n'):format(WIDE, deepest * HIGH + 30, WIDE, number("%.3f", self.ms),
    table.concat(out, "\n"))
end

-- ---- the object ---------------------------------------------------------------------------------

--- The functions by their own time, the slowest first, at most twenty.
function Graph:__tostring()
  local lines = { ("%-40s %10s %10s %7s"):format("function", "calls", "ms", "part") }
  for i = 1, math.min(20, #self) do
    local row = self[i]
    lines[#lines + 1] = ("%-40s %10d %10s %7s"):format(row.name, row.calls,
      number("%.3f", row.ms), number("%.1f %%", 100 * row.ms / math.max(self.ms, 1e-9)))
  end
  return table.concat(lines, "\n")
end

local function write(path, text) internal.io_write(path, "flamegraph", text) end

--- The second node, which is the script's f (the first one is the library's caller of f), and all
--- nodes below it.
local function below_second(nodes)
  local list, place = {}, { [0] = 0 }
  for i, node in ipairs(nodes) do
    if i == 2 or (place[node.parent] or 0) > 0 then
      list[#list + 1] = node
      node.parent, place[i] = place[node.parent] or 0, #list
    end
  end
  return list
end

--- Completes self: sets each node's total time and children, and makes a row for each function.
--- The row has calls and own time.
local function complete(self, nodes)
  local rows, by_name = {}, {}
  for _, node in ipairs(nodes) do node.all, node.below = node.ms, {} end
  -- from the end, since callers are in the list before the functions that they call
  for i = #nodes, 1, -1 do
    local node = nodes[i]
    local list = node.parent > 0 and nodes[node.parent].below or self.roots
    list[#list + 1] = node
    if node.parent > 0 then nodes[node.parent].all = nodes[node.parent].all + node.all end
    self.ms = self.ms + node.ms
    local row = by_name[node.name]
    if not row then
      row = { name = node.name, calls = 0, ms = 0 }
      rows[#rows + 1], by_name[node.name] = row, row
    end
    row.calls, row.ms = row.calls + node.calls, row.ms + node.ms
  end
  table.sort(rows, function(a, b)
    if a.ms ~= b.ms then return a.ms > b.ms end
    return a.name < b.name
  end)
  table.move(rows, 1, #rows, 1, self)
  self.nodes = nodes
end

local function graph_of(path, f, ...)
  if internal.bounded then fail("flamegraph", "a state with limits has no flame graphs") end
  if path then write(path, "") end                     -- complain before the work, not after it
  local self = setmetatable({ ms = 0, roots = {} }, Graph)
  local results, on
  local whole = internal.whole
  do
    local _ <close> = setmetatable({}, { __close = function()
      self.nodes = on and internal.stacks_stop()
    end })
    on = internal.stacks_start()
    if not on then fail("flamegraph", "one is on already") end
    results = table.pack(whole(f, ...))
  end
  complete(self, below_second(self.nodes))
  self.folded = folded(self)
  if path then write(path, path:find "%.svg$" and svg(self) or self.folded) end
  return self, table.unpack(results, 1, results.n)
end

--- Runs f and notes how long each function takes, by stacks: those of Lua by name, file and line,
--- C functions by name. Returns {ms, folded, [i] = {name, calls, own ms}}, the slowest first, and
--- f's results; it prints as a table. folded has the stacks in the form that flamegraph.pl and
--- speedscope read. With a path a picture is written if it ends in .svg, otherwise folded stacks.
--- Noting a call takes about a fifth of a microsecond. f may not yield.
arguments.def(".flamegraph(f: fn, ...) -> FlameGraph, ...",
  function(...) return graph_of(nil, ...) end,
  ".flamegraph(path: str, f: fn, ...) -> FlameGraph, ...", graph_of)
