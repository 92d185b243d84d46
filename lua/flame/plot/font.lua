--- The letters of PNG pictures: a bitmap font of ASCII and some signs. A letter has up to nine rows
-- of cells, seven above the base line and two below; its strokes go from the middle of each cell
-- that is set to the middles of its neighbours (corner to corner where no cell stands between), so
-- letters can have any size and direction and are drawn as smooth as other lines. Rows are
-- separated by "/"; a character without a letter is drawn as a box.
local font = {}

local CAPITAL = 6                -- cells from the base line to the top of capitals
local CELLS = 9.5                -- cells per font size: a cell is size / CELLS pixels
local SPACE, GAP = 3, 2.2        -- width of a blank, and gap between letters, in cells
-- relative size of superscripts, and by how many cells they are raised
local SMALL, RAISED = 0.62, 3.2

local rows = {
  A = "..#../.#.#./#...#/#...#/#####/#...#/#...#", B = "####./#...#/#...#/####./#...#/#...#/####.",
  C = ".###./#...#/#..../#..../#..../#...#/.###.", D = "####./#...#/#...#/#...#/#...#/#...#/####.",
  E = "####/#.../#.../###./#.../#.../####", F = "####/#.../#.../###./#.../#.../#...",
  G = ".###./#...#/#..../#.###/#...#/#...#/.###.", H = "#...#/#...#/#...#/#####/#...#/#...#/#...#",
  I = "###/.#./.#./.#./.#./.#./###", J = "...#/...#/...#/...#/...#/#..#/.##.",
  K = "#..#/#..#/#.#./##../#.#./#..#/#..#", L = "#.../#.../#.../#.../#.../#.../####",
  M = "#...#/##.##/#.#.#/#.#.#/#...#/#...#/#...#", N = "#...#/##..#/#.#.#/#.#.#/#.#.#/#..##/#...#",
  O = ".###./#...#/#...#/#...#/#...#/#...#/.###.", P = "####./#...#/#...#/####./#..../#..../#....",
  Q = ".###./#...#/#...#/#...#/#.#.#/#..#./.##.#", R = "####./#...#/#...#/####./#.#../#..#./#...#",
  S = ".####/#..../#..../.###./....#/....#/####.", T = "#####/..#../..#../..#../..#../..#../..#..",
  U = "#...#/#...#/#...#/#...#/#...#/#...#/.###.", V = "#...#/#...#/#...#/.#.#./.#.#./.#.#./..#..",
  W = "#...#/#...#/#.#.#/#.#.#/#.#.#/#.#.#/.#.#.", X = "#...#/#...#/.#.#./..#../.#.#./#...#/#...#",
  Y = "#...#/#...#/.#.#./..#../..#../..#../..#..", Z = "#####/....#/...#./..#../.#.../#..../#####",
  a = "//.##./...#/.###/#..#/.###", b = "#.../#.../###./#..#/#..#/#..#/###.",
  c = "//.##./#..#/#.../#..#/.##.", d = "...#/...#/.###/#..#/#..#/#..#/.###",
  e = "//.##./#..#/####/#.../.###", f = "..#/.#./.#./###/.#./.#./.#.",
  g = "//.###/#..#/#..#/#..#/.###/...#/.##.", h = "#.../#.../###./#..#/#..#/#..#/#..#",
  i = "#//#/#/#/#/#", j = ".#//.#/.#/.#/.#/.#/.#/#.", k = "#.../#.../#..#/#.#./##../#.#./#..#",
  l = "#./#./#./#./#./#./.#", m = "//##.#./#.#.#/#.#.#/#.#.#/#.#.#",
  n = "//###./#..#/#..#/#..#/#..#", o = "//.##./#..#/#..#/#..#/.##.",
  p = "//###./#..#/#..#/#..#/###./#.../#...", q = "//.###/#..#/#..#/#..#/.###/...#/...#",
  r = "//#.#/##./#../#../#..", s = "//.###/#.../.##./...#/###.", t = "/.#./###/.#./.#./.#./..#",
  u = "//#..#/#..#/#..#/#..#/.###", v = "//#...#/#...#/.#.#./.#.#./..#..",
  w = "//#.#.#/#.#.#/#.#.#/#.#.#/.#.#.", x = "//#...#/.#.#./..#../.#.#./#...#",
  y = "//#..#/#..#/#..#/#..#/.###/...#/.##.", z = "//####/...#/.##./#.../####",
  ["0"] = ".##./#..#/#..#/#..#/#..#/#..#/.##.", ["1"] = ".#./##./.#./.#./.#./.#./###",
  ["2"] = ".##./#..#/...#/..#./.#../#.../####", ["3"] = ".##./#..#/...#/.##./...#/#..#/.##.",
  ["4"] = "...#./..#../.#.../#..#./#####/...#./...#.", ["5"] = "####/#.../###./...#/...#/#..#/.##.",
  ["6"] = ".##./#..#/#.../###./#..#/#..#/.##.", ["7"] = "####/...#/..#./..#./.#../.#../.#..",
  ["8"] = ".##./#..#/#..#/.##./#..#/#..#/.##.", ["9"] = ".##./#..#/#..#/.###/...#/#..#/.##.",
  ["!"] = "#/#/#/#/#//#", ['"'] = "#.#/#.#", ["#"] = ".#.#./.#.#./#####/.#.#./#####/.#.#./.#.#.",
  ["$"] = "..#../.####/#.#../.###./..#.#/####./..#..",
  ["%"] = "##..#/##.#./...#./..#../.#.../.#.##/#..##",
  ["&"] = ".##../#..#./#.#../.#.../#.#.#/#..#./.##.#", ["'"] = "#/#",
  ["("] = ".#/#./#./#./#./#./.#", [")"] = "#./.#/.#/.#/.#/.#/#.",
  ["*"] = "/#.#/.#./#.#", ["+"] = "/..#../..#../#####/..#../..#..", [","] = "//////.#/#.",
  ["-"] = "///###", ["."] = "//////#",
  ["/"] = "....#/....#/...#./..#../.#.../#..../#....", [":"] = "//#////#", [";"] = "//.#////.#/#.",
  ["<"] = "/..#/.#./#../.#./..#",
  ["="] = "//####//####", [">"] = "/#../.#./..#/.#./#..", ["?"] = ".##./#..#/...#/..#./.#..//.#..",
  ["@"] = ".###./#...#/#.###/#.#.#/#.###/#..../.###.", ["["] = "##/#./#./#./#./#./##",
  ["\\"] = "#..../#..../.#.../..#../...#./....#/....#",
  ["]"] = "##/.#/.#/.#/.#/.#/##", ["^"] = "..#../.#.#./#...#", ["_"] = "///////#####",
  ["`"] = "#./.#",
  ["{"] = "..#/.#./.#./#../.#./.#./..#", ["|"] = "#/#/#/#/#/#/#/#",
  ["}"] = "#../.#./.#./..#/.#./.#./#..", ["~"] = "///.#..#/#.##.",
  ["…"] = "//////#.#.#", ["×"] = "//#...#/.#.#./..#../.#.#./#...#", ["·"] = "///#",
  ["±"] = "..#../..#../#####/..#../..#..//#####",
  ["µ"] = "//#..#/#..#/#..#/#..#/###./#.../#...", ["°"] = ".#./#.#/.#.", ["−"] = "///####",
  ["→"] = "/..#../...#./#####/...#./..#..",
  [""] = "####/#..#/#..#/#..#/#..#/#..#/####",
}
local raised = { ["⁰"] = "0", ["¹"] = "1", ["²"] = "2", ["³"] = "3", ["⁴"] = "4", ["⁵"] = "5",
  ["⁶"] = "6", ["⁷"] = "7", ["⁸"] = "8",
  ["⁹"] = "9", ["⁻"] = "-" }

-- The strokes {x0, y0, x1, y1, …} of a letter in cells, with y upwards from the base line; and its
-- width in cells.
local function strokes_of(text)
  local set, width, y = {}, 0, 0
  for row in (text .. "/"):gmatch("(.-)/") do
    set[y] = row
    width, y = math.max(width, #row), y + 1
  end
  local function on(col, row)
    return set[row] ~= nil and col >= 0 and set[row]:sub(col + 1, col + 1) == "#"
  end
  local out = {}
  local function stroke(col, row, to_col, to_row)
    for _, v in ipairs { col, CAPITAL - row, to_col, CAPITAL - to_row } do out[#out + 1] = v end
  end
  for r = 0, y - 1 do
    for c = 0, width - 1 do
      if on(c, r) then
        local alone = true
        for dr = -1, 1 do
          for dc = -1, 1 do
            local corner = dr ~= 0 and dc ~= 0
            if (dr ~= 0 or dc ~= 0) and on(c + dc, r + dr)
                and not (corner and (on(c + dc, r) or on(c, r + dr))) then
              alone = false
              if dr > 0 or (dr == 0 and dc > 0) then stroke(c, r, c + dc, r + dr) end
            end
          end
        end
        if alone then stroke(c, r, c, r) end
      end
    end
  end
  return out, width
end

local letters = {}
--- A character as {strokes, width in cells, scale, cells by which it is raised}.
local function letter(c)
  local known = letters[c]
  if not known then
    if c == " " then
      known = { {}, SPACE - GAP + 1, 1, 0 }
    else
      local base = raised[c] or c
      local strokes, width = strokes_of(rows[base] or rows[""])
      known = { strokes, width, raised[c] and SMALL or 1, raised[c] and RAISED or 0 }
    end
    letters[c] = known
  end
  return known
end

local function characters(s) return utf8.len(s) and s:gmatch(utf8.charpattern) or s:gmatch(".") end

--- Width in pixels of a text of this size.
function font.width(s, size)
  local cells = 0
  for c in characters(s) do
    local known = letter(c)
    cells = cells + (known[2] - 1 + GAP) * known[3]
  end
  return math.max(0, cells - GAP + 1) * size / CELLS
end

--- The width to reserve for a text: the fonts of SVG viewers may be wider than this one.
function font.room(s, size) return font.width(s, size) * 1.14 end

--- Calls stroke(x0, y0, x1, y1) for each stroke of the text, in pixels to the
--- right of and above its beginning.
function font.each_stroke(s, size, stroke)
  local cell, at = size / CELLS, 0.5
  for c in characters(s) do
    local known = letter(c)
    local strokes, k, up = known[1], known[3] * cell, known[4] * cell
    for i = 1, #strokes, 4 do
      stroke(at * cell + strokes[i] * k, up + strokes[i + 1] * k, at * cell + strokes[i + 2] * k,
        up + strokes[i + 3] * k)
    end
    at = at + (known[2] - 1 + GAP) * known[3]
  end
end

--- Width of strokes in pixels.
function font.weight(size, bold) return size / CELLS * (bold and 1.3 or 0.95) end

return font
