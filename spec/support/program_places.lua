--- Adds to M the steps of random programs (programs.lua) that move values: views, joins, positions,
--- writes; and those that are refused, fail, evaluate, read or drop. T: program_draw.lua.
local T, M = ...
local O, pick, x_of, float = T.O, T.pick, T.x_of, T.float
local add_leaf, random_number, random_shape = T.add_leaf, T.random_number, T.random_shape
local index_leaf, row_of, UNARY_KINDS, MOST = T.index_leaf, T.row_of, T.UNARY_KINDS, T.MOST

--- A random shape with as many elements as x, for a reshape.
local function regrouped(g, x)
  local n, shape = O.numel(x.shape), {}
  if n == 0 then return g.r.pick { { 0 }, { 2, 0 }, { 0, 3 } } end
  while n > 1 and #shape < 4 do
    local divisors = {}
    for k = 1, n do if n % k == 0 then divisors[#divisors + 1] = k end end
    local k = g.r.pick(divisors)
    shape[#shape + 1], n = k, n // k
  end
  if n > 1 or g.r.chance(0.2) then shape[#shape + 1] = n end
  return shape
end
local function random_key(g, x, scalars)
  local r, key = g.r, {}
  for d = 1, scalars and #x.shape or r.int(1, #x.shape) do
    local n = x.shape[d]
    local k = r.int(1, 6)
    if n == 0 or k == 1 then key[d] = {}
    elseif k == 2 then key[d] = { r.int(1, n) }
    elseif k == 3 then key[d] = r.chance(0.5) and r.int(1, n) or -r.int(1, n)
    else
      local p, q = r.int(1, n), r.int(1, n)
      local step = r.int(1, 3)
      if k == 4 then
        key[d] = { math.max(p, q), math.min(p, q), -step }
      else
        key[d] = { math.min(p, q), math.max(p, q), step }
      end
      if r.chance(0.3) then key[d][1] = key[d][1] - n - 1 end
    end
  end
  return key
end
function M.view(g)
  local r, a = g.r, pick(g)
  if not a then return nil end
  local x = x_of(g, a)
  local n = #x.shape
  local op = r.pick { "reshape", "permute", "slice", "slice", "slice", "expand", "select", "narrow",
    "unsqueeze", "flip", "clone", "detach", "diagonal", "tril", "contiguous" }
  local s = { f = "view", op = op, a = a, isview = true }
  if op == "reshape" then s.arg = regrouped(g, x)
  elseif op == "permute" then
    s.arg = {}
    for d = 1, n do table.insert(s.arg, r.int(1, d), d) end
  elseif op == "slice" then
    if n == 0 then return nil end
    s.arg, s.from = random_key(g, x), x.shape
  elseif op == "expand" then
    s.arg = { table.unpack(x.shape) }
    for d = 1, n do if s.arg[d] == 1 and r.chance(0.7) then s.arg[d] = r.int(2, 4) end end
    if n < 4 and r.chance(0.4) then table.insert(s.arg, 1, r.int(2, 3)) end
    if O.numel(s.arg) > 2 * MOST then return nil end
  elseif op == "select" then
    local d = r.int(1, math.max(n, 1))
    if n == 0 or x.shape[d] == 0 then return nil end
    s.arg = { d, r.int(1, x.shape[d]) }
  elseif op == "narrow" then
    local d = r.int(1, math.max(n, 1))
    if n == 0 or x.shape[d] == 0 then return nil end
    local first = r.int(1, x.shape[d])
    s.arg = { d, first, r.int(1, x.shape[d] - first + 1) }
  elseif op == "unsqueeze" then
    if n > 4 then return nil end
    s.arg = r.int(1, n + 1)
  elseif op == "flip" then
    if n == 0 then return nil end
    s.arg, s.isview = r.int(1, n), nil
  elseif op == "diagonal" then
    if n ~= 2 then return nil end
  elseif op == "tril" then
    if n < 2 then return nil end
    s.isview = nil
  else
    if op == "detach" and g.smooth then return nil end
    s.isview = nil
  end
  return s
end

local function without(shape, d)
  local s = { table.unpack(shape) }
  table.remove(s, d)
  return table.concat(s, ",")
end
function M.join(g)
  local r, a = g.r,
    pick(g, function(x) return #x.shape > 0 and #x.shape < 5 and O.numel(x.shape) <= 20 end)
  if not a then return nil end
  local x, stack = x_of(g, a), r.chance(0.4)
  local d = r.int(1, #x.shape + (stack and 1 or 0))
  local list = { a }
  for _ = 1, r.int(1, 2) do
    list[#list + 1] = pick(g, function(y)
      if O.numel(y.shape) > 20 or #y.shape ~= #x.shape then return false end
      if stack then return table.concat(y.shape, ",") == table.concat(x.shape, ",") end
      return without(y.shape, d) == without(x.shape, d)
    end)
  end
  return { f = "join", op = stack and "stack" or "cat", a = a, list = list, d = d }
end
function M.pad(g)
  local a = pick(g, function(x)
    return #x.shape > 0 and O.numel(x.shape) <= 12 and x.dtype ~= "bool"
  end)
  if not a then return nil end
  local x, s = x_of(g, a), { f = "pad", a = a, before = {}, after = {}, value = g.r.int(0, 2) }
  for d = 1, #x.shape do s.before[d], s.after[d] = g.r.int(0, 2), g.r.int(0, 2) end
  return s
end

function M.index_select(g)
  local a = row_of(g, true)
  if not a then return nil end
  local x = x_of(g, a)
  local d = g.r.int(1, #x.shape)
  return { f = "index_select", a = a, d = d, i = index_leaf(g, { g.r.int(0, 4) }, x.shape[d]) }
end
function M.gather(g)
  local a = row_of(g, true)
  if not a then return nil end
  local x = x_of(g, a)
  local d, shape = g.r.int(1, #x.shape), { table.unpack(x.shape) }
  shape[d] = g.r.int(1, 3)
  return { f = "gather", a = a, d = d, i = index_leaf(g, shape, x.shape[d]) }
end
function M.embedding(g)
  local a = pick(g, function(x)
    return #x.shape == 2 and O.numel(x.shape) > 0 and x.shape[2] < 6
  end)
  if not a then return nil end
  return { f = "embedding", a = a,
    i = index_leaf(g, random_shape(g.r, g.r.int(0, 1)), x_of(g, a).shape[1]) }
end
--- Values stored or added at random positions; always added where gradients are, as some repeat.
function M.scatter(g)
  local a = row_of(g)
  if not a then return nil end
  local x = x_of(g, a)
  local d, shape = g.r.int(1, #x.shape), { table.unpack(x.shape) }
  shape[d] = g.r.int(1, 3)
  local b = g.emit(add_leaf(g, shape, x.dtype))
  return { f = "scatter", a = a, d = d, b = b, add = g.smooth or g.r.chance(0.6),
    i = index_leaf(g, shape, x.shape[d]) }
end
function M.index_add(g)
  local a = row_of(g)
  if not a then return nil end
  local x = x_of(g, a)
  local d, shape = g.r.int(1, #x.shape), { table.unpack(x.shape) }
  shape[d] = g.r.int(1, 4)
  local b = g.emit(add_leaf(g, shape, x.dtype))
  return { f = "index_add", a = a, d = d, b = b, i = index_leaf(g, { shape[d] }, x.shape[d]) }
end

--- A variable that may be written: no view, and no leaf that wants a gradient. nil: there is none.
local function target(g, ok)
  return pick(g, function(x, k)
    return not g.view[k] and not g.tracked_leaf[k] and (not ok or ok(x))
  end)
end
function M.set(g)
  local a = target(g, function(x) return #x.shape > 0 end)
  if not a then return nil end
  local x = x_of(g, a)
  local s = { f = "set", a = a, key = random_key(g, x) }
  local out = O.region(s.key, x.shape)
  if g.r.chance(0.5) then
    s.b = pick(g, function(y)
      if not float(x) and float(y) or #y.shape > #out then return false end
      local t = O.joint(y.shape, out)
      return t and table.concat(t, ",") == table.concat(out, ",")
    end)
  end
  if not s.b then s.n = x.dtype == "bool" and 1 or random_number(g, x.dtype) end
  if not float(x) then s.n = s.n and math.tointeger(s.n) end
  return (s.b or s.n) and s or nil
end
function M.inplace(g)
  local r, a = g.r,
    target(g, g.smooth and function(x) return float(x) and (not g.float or x.dtype == g.float) end)
  if not a then return nil end
  local x = x_of(g, a)
  local op = r.pick(g.smooth and { "add", "mul", "copy", "add", "sub", "fill", "sin" } or
    { "add", "mul", "copy", "copy", "sub", "fill", "relu", "maximum", "neg" })
  if x.dtype == "bool" and op ~= "copy" then return nil end
  local s = { f = "inplace", op = op, a = a }
  if UNARY_KINDS[op] then return s end
  if op == "fill" or (op ~= "copy" and r.chance(0.4)) then
    s.n = random_number(g, x.dtype)
    if not float(x) then s.n = math.tointeger(s.n) or 1 end
    return s
  end
  s.b = pick(g, function(y)
    local t = O.joint(y.shape, x.shape)
    if not t or table.concat(t, ",") ~= table.concat(x.shape, ",") then return false end
    return op == "copy" or O.promote(x, y) == x.dtype
  end)
  return s.b and s
end
function M.refuse(g)
  local a = pick(g, function(x, k) return g.view[k] and x.dtype ~= "bool" end)
  return a and { f = "refuse", a = a }
end
M["error"] = function(g)
  local a = pick(g)
  return a and { f = "error", a = a, how = g.r.int(1, 4) }
end
--- A value that cannot be evaluated because a position is out of range. It must not affect any
--- other value.
function M.late(g)
  local a = row_of(g)
  if not a then return nil end
  local x = x_of(g, a)
  local d = g.r.int(1, #x.shape)
  return { f = "late", a = a, d = d, at = g.r.chance(0.5) and 0 or x.shape[d] + g.r.int(1, 3),
    keep = g.r.chance(0.6) }
end
--- A write at a position out of range: the target keeps its value, with which later steps continue,
--- and the next read raises the error once. Not in programs with gradients: these would depend on
--- the failed write.
function M.missed(g)
  local a = not g.smooth and target(g, function(x) return #x.shape > 0 and O.numel(x.shape) > 0 end)
  return a and { f = "missed", a = a, at = x_of(g, a).shape[1] + g.r.int(1, 3),
    add = g.r.chance(0.3) }
end
--- One call of flame.eval for several values. A random part of the other variables is dropped
--- before, which then are intermediate values, or are not computed at all.
function M.eval(g)
  local s, wanted = { f = "eval", list = {}, drop = {} }, {}
  for _ = 1, g.r.int(1, 4) do
    local k = pick(g, function(_, v) return not wanted[v] end)
    if k then wanted[k], s.list[#s.list + 1] = true, k end
  end
  local order, most = {}, g.r.pick { 0, 0.3, 0.9 }
  for k in pairs(g.vars) do order[#order + 1] = k end
  table.sort(order)
  for _, k in ipairs(order) do
    if not wanted[k] and not g.leaf[k] and g.r.chance(most) then s.drop[#s.drop + 1] = k end
  end
  return #s.list > 0 and s or nil
end
function M.read(g) local a = pick(g); return a and { f = "read", a = a } end
function M.gc(g) return { f = "gc", how = g.r.int(1, 3) } end
function M.del(g)
  local a = pick(g, function(_, k) return not g.tracked_leaf[k] end)
  return a and { f = "del", a = a }
end

M.siblings, M.crossed = dofile("spec/support/program_siblings.lua") {
  O = O, pick = pick, x_of = x_of, target = target,
  checked = function(g) return g.r.chance(0.5) and M.gather(g) or M.index_select(g) end,
}
