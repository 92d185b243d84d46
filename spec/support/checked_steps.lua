--- The steps of checked.lua: each op with the library, and in plain Lua. An op gets two values a
--- and b of 6 x 4, the step s (positions s.ix of rows, s.labels of columns, s.grid of columns for
--- each row, s.order of all rows, a row s.k) and the tensor that is written. The plain op of a
--- write returns the new value of this tensor.
local flame = require "flame"
local ROWS <const>, COLUMNS <const> = 6, 4
local value, write = {}, {}

--- A value that failed: reading it fails.
local FAILED, UNSOUND = setmetatable({}, {}), {}
getmetatable(FAILED).__index = function() error(FAILED) end

local function map(f)
  local y = {}
  for i = 1, ROWS do
    y[i] = {}
    for j = 1, COLUMNS do
      y[i][j] = f(i, j)
      if not (math.abs(y[i][j]) < 1000) then error(UNSOUND) end
    end
  end
  return y
end

local function sum(n, f)
  local s = 0
  for i = 1, n do s = s + f(i) end
  return s
end
local function total(a, f)
  return sum(ROWS, function(i) return sum(COLUMNS, function(j) return f(a[i][j]) end) end)
end

--- Positions from 1 to n, where negative ones count from the end, unless 'forward'; all must be in
--- range.
local function all_at(ix, n, forward)
  local y = {}
  for k, i in ipairs(ix) do
    y[k] = i < 0 and not forward and i + n + 1 or i
    if y[k] < 1 or y[k] > n then error(FAILED) end
  end
  return y
end

--- rows: a's rows at s.ix. elements: in each row of a the elements at its columns s.grid.
local function rows(a, s, forward)
  local k = all_at(s.ix, ROWS, forward)
  return map(function(i, j) return a[k[i]][j] end)
end
local function elements(a, s)
  local k = {}
  for i = 1, ROWS do k[i] = all_at(s.grid[i], COLUMNS, true) end
  return map(function(i, j) return a[i][k[i][j]] end)
end
local function tanh(v)
  local e = math.exp(-2 * math.abs(v))
  return (1 - e) / (1 + e) * (v < 0 and -1 or 1)
end

value.plain = { function(a, b) return (a * b + 0.5):tanh() end,
  function(a, b) return map(function(i, j) return tanh(a[i][j] * b[i][j] + 0.5) end) end }

value.softmax = { function(a, b) return a:softmax(2) - b end,
  function(a, b)
    return map(function(i, j)
      return 1 / sum(COLUMNS, function(k) return math.exp(a[i][k] - a[i][j]) end) - b[i][j]
    end)
  end }

value.product = { function(a, b) return a:matmul(b:t())[{ {}, { 1, 4 } }] / 4 end,
  function(a, b)
    return map(function(i, j)
      return sum(COLUMNS, function(k) return a[i][k] * b[j][k] end) / 4
    end)
  end }

value.column = { function(a, b) return a * 0.5 + b:sum(1, true) / 4 end,
  function(a, b)
    return map(function(i, j)
      return a[i][j] * 0.5 + sum(ROWS, function(k) return b[k][j] end) / 4
    end)
  end }

value.scan = { function(a, b) return a:cumsum(1) / 4 - b end,
  function(a, b)
    return map(function(i, j) return sum(i, function(k) return a[k][j] end) / 4 - b[i][j] end)
  end }

value.rows = { function(a, _, s) return a[s.ix] end, function(a, _, s) return rows(a, s) end }

value.taken = { function(a, b, s) return a:index_select(1, s.ix) * b end,
  function(a, b, s)
    local g = rows(a, s, true)
    return map(function(i, j) return g[i][j] * b[i][j] end)
  end }

value.elements = { function(a, b, s) return a:gather(2, s.grid) + b / 2 end,
  function(a, b, s)
    local g = elements(a, s)
    return map(function(i, j) return g[i][j] + b[i][j] / 2 end)
  end }

-- positions that depend on a sum
value.waiting = { function(a, b, s) return a[s.ix + (b:sum():gt(1e9)):long()] * b end,
  function(a, b, s)
    local g = rows(a, s)
    return map(function(i, j) return g[i][j] * b[i][j] end)
  end }

-- gathered rows that are added to a sum, so that they are not read before it is known
value.beside = { function(a, b, s)
    return flame.cat({ (a[s.ix] + b:square():sum() / 24)[{ { 1, 3 } }], b[{ { 1, 3 } }] }, 1)
  end,
  function(a, b, s)
    local g, mean = rows(a, s), total(b, function(v) return v * v end) / 24
    return map(function(i, j) return i < 4 and g[i][j] + mean or b[i - 3][j] end)
  end }

-- positions that are computed from values, and in range
value.computed = { function(a, b)
    return a[((b:abs() * 3):floor():clamp(0, 5):long() + 1)[{ {}, 1 }]]
  end,
  function(a, b)
    for i = 1, ROWS do
      local v = math.abs(b[i][1]) * 3
      if math.abs(v - math.floor(v + 0.5)) < 1e-3 then error(UNSOUND) end
    end
    return map(function(i, j) return a[math.floor(math.min(math.abs(b[i][1]) * 3, 5)) + 1][j] end)
  end }

-- twice: 3 of the positions that are gathered themselves; half: the last 3 gathered rows
value.twice = { function(a, b, s)
    return flame.cat({ a[s.order[s.ix][{ { 1, 3 } }]], b[{ { 1, 3 } }] }, 1)
  end,
  function(a, b, s)
    local k = all_at(s.ix, ROWS)
    return map(function(i, j) return i < 4 and a[s.order[k[i]]][j] or b[i - 3][j] end)
  end }

value.half = { function(a, b, s)
    return flame.cat({ a[s.ix][{ { 4, 6 } }] * 2, b[{ { 1, 3 } }] }, 1)
  end,
  function(a, b, s)
    local g = rows(a, s)
    return map(function(i, j) return i < 4 and g[i + 3][j] * 2 or b[i - 3][j] end)
  end }

value.side = { function(a, b, s)
    return flame.cat({ a[s.ix][{ {}, { 1, 2 } }] - 1, b[{ {}, { 1, 2 } }] }, 2)
  end,
  function(a, b, s)
    local g = rows(a, s)
    return map(function(i, j) return j < 3 and g[i][j] - 1 or b[i][j - 2] end)
  end }

value.corner = { function(a, b, s) return (a:gather(2, s.grid):tanh())[{ 1, 2 }] + b end,
  function(a, b, s)
    local g = elements(a, s)
    return map(function(i, j) return tanh(g[1][2]) + b[i][j] end)
  end }

value.steps = { function(a, b, s)
    return flame.stack({ a[s.ix][{ { 1, 6, 2 } }], b[{ { 2, 6, 2 } }] }, 2):reshape(6, 4)
  end,
  function(a, b, s)
    local g = rows(a, s)
    return map(function(i, j) return (i % 2 == 1 and g or b)[i][j] end)
  end }

-- one of the gathered rows (k odd), or none of them (k even)
value.line = { function(a, b, s)
    local g = a[s.ix] * 2
    return s.k % 2 == 0 and b + g[{ { 1, 0 } }]:sum() or b - g[{ { 3, 3 } }]
  end,
  function(a, b, s)
    local g = rows(a, s)
    return map(function(i, j) return b[i][j] - (s.k % 2 == 0 and 0 or g[3][j] * 2) end)
  end }

value.flat = { function(a, b, s)
    return flame.cat({ a[s.ix]:reshape(24)[{ { 7, 18 } }]:reshape(3, 4), b[{ { 1, 3 } }] }, 1)
  end,
  function(a, b, s)
    local g = rows(a, s)
    return map(function(i, j)
      local k = 6 + (i - 1) * 4 + j - 1
      return i > 3 and b[i - 3][j] or g[k // 4 + 1][k % 4 + 1]
    end)
  end }

-- joined: of two joined arrays the end of one and the start of the other; beyond: only the first
value.joined = { function(a, b, s) return flame.cat({ b, a[s.ix] + 1 }, 1)[{ { 4, 9 } }] end,
  function(a, b, s)
    local g = rows(a, s)
    return map(function(i, j) return i < 4 and b[i + 3][j] or g[i - 3][j] + 1 end)
  end }
value.beyond = { function(a, b, s) return flame.cat({ b, a[s.ix] + 1 }, 1)[{ { 1, 6 } }] * 1 end,
  function(a, b, s) return rows(a, s) and map(function(i, j) return b[i][j] end) end }

value.turned = { function(a, b, s) return a[s.ix]:flip(1) + b:t():reshape(6, 4) end,
  function(a, b, s)
    local g = rows(a, s)
    return map(function(i, j)
      local k = (i - 1) * 4 + j - 1
      return g[7 - i][j] + b[k % 6 + 1][k // 6 + 1]
    end)
  end }

value.most = { function(a, b, s) return (a[s.ix] - b):amax(2, true) - b end,
  function(a, b, s)
    local g = rows(a, s)
    return map(function(i, j)
      local m = -math.huge
      for k = 1, COLUMNS do m = math.max(m, g[i][k] - b[i][k]) end
      return m - b[i][j]
    end)
  end }

-- the sums of rows, of which only the second is read
value.part = { function(a, b, s) return b - (a[s.ix] * 2):sum(2, true)[{ { 2, 2 } }] / 4 end,
  function(a, b, s)
    local g = rows(a, s)
    return map(function(i, j)
      return b[i][j] - sum(COLUMNS, function(k) return g[2][k] end) / 2
    end)
  end }

value.chosen = { function(a, b, s) return flame.where(a:gt(b), a[s.ix], b) end,
  function(a, b, s)
    local g = rows(a, s)
    return map(function(i, j)
      if a ~= b and math.abs(a[i][j] - b[i][j]) < 1e-3 then error(UNSOUND) end
      return (a[i][j] > b[i][j] and g or b)[i][j]
    end)
  end }

-- rows gathered from gathered rows, of which three are read
value.again = { function(a, b, s)
    return flame.cat({ a[s.ix][s.order][{ { 2, 4 } }], b[{ { 1, 3 } }] }, 1)
  end,
  function(a, b, s)
    local g = rows(a, s)
    return map(function(i, j) return i < 4 and g[s.order[i + 1]][j] or b[i - 3][j] end)
  end }

-- one element of each gathered row
value.pairs = { function(a, b, s) return a[{ s.ix, s.labels }]:reshape(6, 1) - b end,
  function(a, b, s)
    local g, k = rows(a, s), all_at(s.labels, COLUMNS)
    return map(function(i, j) return g[i][k[i]] - b[i][j] end)
  end }

local function log_sum(a, i)
  return math.log(sum(COLUMNS, function(k) return math.exp(a[i][k]) end))
end
value.loss = { function(a, b, s)
    return flame.cross_entropy(a, s.labels, { reduction = "none" }):reshape(6, 1) / 4 + b
  end,
  function(a, b, s)
    local k = all_at(s.labels, COLUMNS, true)
    return map(function(i, j) return (log_sum(a, i) - a[i][k[i]]) / 4 + b[i][j] end)
  end }

-- gradients of a loss that ignores one class, of all gathered rows, and of the first three
value.loss_gradient = { function(a, b, s)
    local p = a:detach():clone():requires_grad_()
    flame.cross_entropy(p, s.labels, { reduction = "sum", ignore_index = 2 }):backward()
    return p.grad + b / 2
  end,
  function(a, b, s)
    local k = all_at(s.labels, COLUMNS, true)
    return map(function(i, j)
      return b[i][j] / 2 + (k[i] == 2 and 0
        or math.exp(a[i][j] - log_sum(a, i)) - (k[i] == j and 1 or 0))
    end)
  end }
local function gradient(a, b, s, read)
  local k, y = all_at(s.ix, ROWS), {}
  for i = 1, ROWS do y[i] = { 0, 0, 0, 0 } end
  map(function(i, j)
    if i <= read then y[k[i]][j] = y[k[i]][j] + a[k[i]][j] * b[i][j] end
    return a[i][j] + b[i][j]
  end)
  return map(function(i, j) return y[i][j] end)
end
value.gradient = { function(a, b, s)
    local p = a:detach():clone():requires_grad_()
    ;(p[s.ix]:square() * b / 2):sum():backward()
    return p.grad
  end,
  function(a, b, s) return gradient(a, b, s, ROWS) end }
value.gradient_part = { function(a, b, s)
    local p = a:detach():clone():requires_grad_()
    ;(p[s.ix]:square() * b / 2)[{ { 1, 3 } }]:sum():backward()
    return p.grad
  end,
  function(a, b, s) return gradient(a, b, s, 3) end }

write.whole = { function(a, b, _, w) w:copy_(a + b) end,
  function(a, b) return map(function(i, j) return a[i][j] + b[i][j] end) end }

write.first = { function(a, _, s, w) w[{ { 1, 3 } }] = a[s.ix][{ { 1, 3 } }] end,
  function(a, _, s, w)
    local g = rows(a, s)
    return map(function(i, j) return (i < 4 and g or w)[i][j] end)
  end }

write.last = { function(a, b, s, w) w[{ { 3, 5 } }] = (a[s.ix] + b:sum() / 24)[{ { 1, 3 } }] end,
  function(a, b, s, w)
    local g, mean = rows(a, s), total(b, function(v) return v end) / 24
    return map(function(i, j) return i > 2 and i < 6 and g[i - 2][j] + mean or w[i][j] end)
  end }

write.one = { function(a, b, s, w) w[s.k] = a[s.ix][s.k] - b[1] end,
  function(a, b, s, w)
    local g = rows(a, s)
    return map(function(i, j) return i == s.k and g[i][j] - b[1][j] or w[i][j] end)
  end }

write.scatter = { function(_, b, s, w) w[s.ix] = b * 0.5 end,
  function(_, b, s, w)
    local y, k = map(function(i, j) return w[i][j] end), all_at(s.ix, ROWS)
    for i = 1, ROWS do for j = 1, COLUMNS do y[k[i]][j] = b[i][j] * 0.5 end end
    return y
  end }

write.sums = { function(a, b, s, w) w:index_add_(1, s.ix, a - b) end,
  function(a, b, s, w)
    local y, k = map(function(i, j) return w[i][j] end), all_at(s.ix, ROWS, true)
    for i = 1, ROWS do for j = 1, COLUMNS do y[k[i]][j] = y[k[i]][j] + a[i][j] - b[i][j] end end
    return y
  end }

write.pairs = { function(_, b, s, w) w[{ s.ix, s.labels }] = b[{ {}, 1 }] end,
  function(_, b, s, w)
    local y, k = map(function(i, j) return w[i][j] end), all_at(s.ix, ROWS)
    local l = all_at(s.labels, COLUMNS)
    for i = 1, ROWS do y[k[i]][l[i]] = b[i][1] end
    return y
  end }

write.grid = { function(a, b, s, w) w:scatter_add_(2, s.grid, a * b) end,
  function(a, b, s, w)
    local y = map(function(i, j) return w[i][j] end)
    for i = 1, ROWS do
      local k = all_at(s.grid[i], COLUMNS, true)
      for j = 1, COLUMNS do y[i][k[j]] = y[i][k[j]] + a[i][j] * b[i][j] end
    end
    return y
  end }

write.add = { function(a, b, s, w) w:add_(a[s.ix] - b) end,
  function(a, b, s, w)
    local g = rows(a, s)
    return map(function(i, j) return w[i][j] + g[i][j] - b[i][j] end)
  end }

write.scale = { function(_, _, _, w) w:mul_(0.5) end,
  function(_, _, _, w) return map(function(i, j) return w[i][j] / 2 end) end }

--- Ops whose positions are not counted from the end.
local forward = { taken = true, elements = true, corner = true, sums = true, loss = true,
  loss_gradient = true }
--- Ops whose positions are all different.
local each = { scatter = true, pairs = true }

return { value = value, write = write, forward = forward, each = each, map = map, FAILED = FAILED,
  UNSOUND = UNSOUND }
