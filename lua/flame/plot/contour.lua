--- Curves of equal value over a grid: marching squares (Lorensen and Cline's method in two
-- dimensions). Each cell of four values has up to two strokes between its edges, and strokes are
-- then joined to curves; if strokes can be placed in two ways, the mean of the four values decides.
-- Cells with a value that is not finite have no strokes.
local contour = {}

local huge = math.huge

-- Edges are numbered: 2 k - 1 goes from grid point k to its right neighbour, 2 k to the one below.
-- The table tells which edges a cell's strokes join (1 top, 2 right, 3 bottom, 4 left). Its index
-- is the sum over the corners above the level: 1 upper left, 2 upper right, 4 lower right, 8 lower
-- left.
local cases = { { 4, 1 }, { 1, 2 }, { 4, 2 }, { 2, 3 }, nil, { 1, 3 }, { 4, 3 }, { 3, 4 }, { 1, 3 },
  nil, { 2, 3 }, { 2, 4 }, { 1, 2 },
  { 1, 4 } }

local function strokes_of(a, b, c, d, level)
  local k = (a > level and 1 or 0) + (b > level and 2 or 0) + (c > level and 4
    or 0) + (d > level and 8 or 0)
  if k == 5 or k == 10 then
    local high = (a + b + c + d) / 4 > level
    if (k == 5) == high then return 4, 3, 1, 2 end
    return 4, 1, 2, 3
  end
  local s = cases[k]
  if s then return s[1], s[2] end
end

-- Returns links (edge that a curve crosses -> the edges that strokes join to it), a list of edges.
local function links_of(rows, h, w, level)
  local links, order = {}, {}
  local function link(e, f)
    for _, pair in ipairs { { e, f }, { f, e } } do
      local list = links[pair[1]]
      if not list then
        list = {}
        links[pair[1]] = list
        order[#order + 1] = pair[1]
      end
      list[#list + 1] = pair[2]
    end
  end
  for i = 1, h - 1 do
    local upper, lower = rows[i], rows[i + 1]
    for j = 1, w - 1 do
      local a, b, c, d = upper[j], upper[j + 1], lower[j + 1], lower[j]
      local sum = a + b + c + d
      if sum == sum and sum < huge and sum > -huge then
        local e, f, g, k = strokes_of(a, b, c, d, level)
        if e then
          local at = (i - 1) * w + j
          local edges = { 2 * at - 1, 2 * (at + 1), 2 * (at + w) - 1, 2 * at }
          link(edges[e], edges[f])
          if g then link(edges[g], edges[k]) end
        end
      end
    end
  end
  return links, order
end

-- The point where the level crosses an edge.
local function crossing(rows, w, edge, level, xs, ys)
  local at = (edge + 1) // 2
  local i, j = (at - 1) // w + 1, (at - 1) % w + 1
  local across = edge % 2 == 1
  local a = rows[i][j]
  local b = across and rows[i][j + 1] or rows[i + 1][j]
  local t = (level - a) / (b - a)
  if across then return xs[j] + t * (xs[j + 1] - xs[j]), ys[i] end
  return xs[j], ys[i] + t * (ys[i + 1] - ys[i])
end

-- The list of edges of a curve from the edge 'from' on; removes the links that it uses.
local function walk(links, from)
  local way, at = { from }, from
  while true do
    local to = table.remove(links[at])
    if not to then return way end
    for k, back in ipairs(links[to]) do
      if back == at then
        table.remove(links[to], k)
        break
      end
    end
    way[#way + 1] = to
    at = to
  end
end

--- The curves of a level: lists {x, y, x, y, …}. Column j of the rows is at
--- xs[j] and row i at ys[i].
function contour.curves(rows, h, w, level, xs, ys)
  local links, order = links_of(rows, h, w, level)
  local curves = {}
  local function take(edge)
    local points = {}
    for _, e in ipairs(walk(links, edge)) do
      points[#points + 1], points[#points + 2] = crossing(rows, w, e, level, xs, ys)
    end
    curves[#curves + 1] = points
  end
  -- open ones from their ends
  for _, edge in ipairs(order) do if #links[edge] == 1 then take(edge) end end
  for _, edge in ipairs(order) do if #links[edge] > 0 then take(edge) end end
  return curves
end

return contour
