--- What random programs should give: a second evaluator, on nested tables in plain Lua, that shares
-- no code with the library. Slow, small, and meant to be read. It answers to flame's names, so that
-- program_steps.lua runs a program on either. What ops make of single numbers says scalars.lua;
-- composites.lua adds what is made of these ops.
--
-- A value is { shape =, dtype =, v = }. v nests down to cells { y, e }: a number (bools are 0 and
-- 1), and how far the library may be off; 0 where every bit is determined. Ops that IEEE rounds
-- correctly keep 0, others add units in the last place; an op of uncertain operands is tried at
-- the ends of their intervals.
-- Values are made position by position. A view says where in its source a position lies; a
-- reduction or a scattered write collects cells into rows and folds these.
local scalars = dofile("spec/scalars.lua")
local O, X = {}, {}                                     -- X: the methods of values
local huge, abs, max = math.huge, math.abs, math.max
local round, is_float = scalars.round, scalars.is_float
local function is_half(dtype) return scalars.types[dtype].top ~= nil end

-- ---- nested tables ------------------------------------------------------------------------------
local function cell(y, e) return { y, e ~= e and huge or e } end
local function at(t, ix) for d = 1, #ix do t = t[ix[d]] end return t end
--- f(position) for all positions of a shape, nested; the position is one table, changed in place.
local function build(shape, f, ix)
  ix = ix or {}
  local d, t = #ix + 1, {}
  if d > #shape then return f(ix) end
  for i = 1, shape[d] do
    ix[d] = i
    t[i] = build(shape, f, ix)
  end
  ix[d] = nil
  return t
end
local function value(shape, dtype, f)
  return setmetatable({ shape = shape, dtype = dtype, v = build(shape, f) }, X)
end
local function constant(n, dtype)
  return value({}, dtype, function() return { round(dtype, n), 0 } end)
end
local function moved(ix, d, i) local t = { table.unpack(ix) }; t[d] = i; return t end
function O.numel(shape) local n = 1; for _, s in ipairs(shape) do n = n * s end return n end
function O.flat(x)                                      -- its cells in order
  local t = {}
  build(x.shape, function(ix) t[#t + 1] = at(x.v, ix) end)
  return t
end
function O.joint(a, b)                                  -- the broadcast shape, or nil
  local s = {}
  for k = 1, max(#a, #b) do
    local p, q = a[#a + 1 - k] or 1, b[#b + 1 - k] or 1
    if p ~= q and p ~= 1 and q ~= 1 then return nil end
    table.insert(s, 1, p == 1 and q or p)
  end
  return s
end
local function clip(ix, shape)                          -- a position of a broadcast, in 'shape'
  local t = {}
  for d = 1, #shape do t[d] = shape[d] == 1 and 1 or ix[#ix - #shape + d] end
  return t
end

-- ---- elementwise --------------------------------------------------------------------------------
--- f over broadcast operands; 'ulps' is 0 where the bits are determined.
local function apply(dtype, f, ulps, ...)
  local xs, shape = { ... }, {}
  for _, x in ipairs(xs) do shape = O.joint(shape, x.shape) end
  return value(shape, dtype, function(ix)
    local v, err, spread = {}, {}, 0
    for i, x in ipairs(xs) do v[i], err[i] = table.unpack(at(x.v, clip(ix, x.shape))) end
    local y = f(v[1], v[2], v[3])
    for i, e in ipairs(err) do
      local keep, other = v[i], v[3 - i] or 0
      local zero = abs(keep) <= e and 0 * keep or keep
      local tie = abs(keep - other) <= e + (err[3 - i] or 0) and other or keep
      for _, p in ipairs(e == 0 and {} or { keep + e, keep - e, zero, tie }) do
        v[i] = p
        local z = f(v[1], v[2], v[3])
        if z ~= y then spread = spread + abs(z - y) end
      end
      v[i] = keep
    end
    y = round(dtype, y)
    local n = ulps + (spread ~= 0 and 1 or 0)
    if n == 0 or y ~= y and spread == 0 then return cell(y, 0) end
    return cell(y, spread + 2 * n * scalars.slack(dtype, y))
  end)
end
function X.to(x, dtype)
  if x.dtype == dtype then return x end
  return apply(dtype, function(a) return scalars.convert(x.dtype, dtype, a) end, 0, x)
end
--- The dtype of two operands, one of which may be a number of the script.
function O.promote(x, y)
  if type(x) == "number" then x, y = y, x end
  if type(y) ~= "number" then return scalars.promote(x.dtype, y.dtype) end
  if math.type(y) == "float" then return is_float(x.dtype) and x.dtype or "f32" end
  return x.dtype == "bool" and "i64" or x.dtype
end
--- x as an operand of 'dtype'; numbers are not rounded to half types.
local function operand(x, dtype)
  if type(x) ~= "number" then return x:to(dtype) end
  return constant(x, is_half(dtype) and "f32" or dtype)
end
local function op(name, x, y)
  local entry, dtype = scalars[y and "binary" or "unary"][name], y and O.promote(x, y) or x.dtype
  if entry.float and not is_float(dtype) then dtype = "f32" end
  local f = name == "bitwise_not" and dtype == "bool" and scalars.unary.logical_not[1] or entry[1]
  local out = entry.test and "bool" or dtype
  return apply(out, f, entry.ulps or 0, operand(x, dtype), y and operand(y, dtype))
end
function O.where(c, x, y)
  local dtype = O.promote(x, y)
  return apply(dtype, scalars.ternary.where[1], 0, c, operand(x, dtype), operand(y, dtype))
end

-- ---- reductions ---------------------------------------------------------------------------------
--- Adds each cell of src to the row at place(its position).
local function collect(rows, src, place)
  build(src.shape, function(ix) table.insert(at(rows, place(ix)), (at(src.v, ix))) end)
end
--- How far the fold y of a row may be off; of those not named the largest bound of the row.
local bounds = {}
function bounds.sum(row, y, dtype)
  local e, size = 0, 0
  for _, c in ipairs(row) do e, size = e + c[2], size + abs(c[1]) end
  if #row > 2 then e = e + #row * scalars.unit(dtype) * size end
  return e == 0 and 0 or e + 2 * scalars.slack(dtype, y)
end
function bounds.prod(row, y, dtype)
  local far, size = 1, 1
  for _, c in ipairs(row) do far, size = far * (abs(c[1]) + c[2]), size * abs(c[1]) end
  if #row < 2 then return far - size end
  local rounding = scalars.unit(dtype) * far + scalars.types.f32.tiny
  return far - size + 2 * #row * rounding + scalars.slack(dtype, y)
end
local function largest(row)
  local e = 0
  for _, c in ipairs(row) do e = max(e, c[2]) end
  return e
end
function bounds.argmax(row, k)
  local e = largest(row)
  for i, c in ipairs(row) do
    if e > 0 and i ~= k and abs(c[1] - row[k][1]) <= 2 * e then return huge end
  end
  return 0
end
bounds.argmin = bounds.argmax
local function fold(name, row, dtype)
  local v, entry = {}, scalars.reduce[name]
  for i, c in ipairs(row) do v[i] = c[1] end
  local y = #v == 0 and entry.empty or #v == 1 and name == "sum" and v[1] or entry[1](v)
  if not name:find "^arg" then y = round(dtype, y) end
  if not is_float(dtype) and (name == "sum" or name == "prod") then return cell(y, 0) end     -- they wrap, in any order
  return cell(y, (bounds[name] or largest)(row, y, dtype))
end
local function reduce(name, x, axes, keep)
  local gone, ones, kept, dtype = {}, {}, {}, x.dtype
  for i = 1, axes and #axes or #x.shape do gone[axes and axes[i] or i] = true end
  for d, size in ipairs(x.shape) do
    ones[d] = gone[d] and 1 or size
    if not gone[d] then kept[#kept + 1] = size end
  end
  if (name == "sum" or name == "prod") and not is_float(dtype) then dtype = "i64" end
  if name == "any" or name == "all" then dtype = "bool" end
  local rows = build(ones, function() return {} end)
  collect(rows, x:to(dtype), function(ix) return clip(ix, ones) end)
  local out = name:find "^arg" and "i64" or dtype
  local y = value(ones, out, function(ix) return fold(name, at(rows, ix), dtype) end)
  return keep and y or y:reshape(kept)
end
--- x:name(d | { d, … } | nothing, { keepdim = }) for f(x, axes, keep).
function O.reduction(name, f)
  X[name] = function(x, axes, options)
    if type(axes) == "number" then axes = { axes } end
    if axes and axes.keepdim ~= nil then axes, options = nil, axes end
    return f(x, axes, options and options.keepdim)
  end
end
for name in ("sum prod amax amin argmax argmin any all"):gmatch "%a+" do
  O.reduction(name, function(x, axes, keep) return reduce(name, x, axes, keep) end)
end

-- ---- views --------------------------------------------------------------------------------------
local function view(x, shape, from)
  return value(shape, x.dtype, function(ix) return at(x.v, from(ix)) end)
end
function X.reshape(x, shape)
  local cells, k = O.flat(x), 0
  return value(shape, x.dtype, function() k = k + 1; return cells[k] end)
end
function X.expand(x, shape) return view(x, shape, function(ix) return clip(ix, x.shape) end) end
function X.permute(x, order)
  local shape = {}
  for k, d in ipairs(order) do shape[k] = x.shape[d] end
  return view(x, shape, function(ix)
    local t = {}
    for k, d in ipairs(order) do t[d] = ix[k] end
    return t
  end)
end
--- A key of x[…]: where its positions lie in x, and its shape.
function O.region(key, shape)
  local first, step, axis, out = {}, {}, {}, {}
  for d, n in ipairs(shape) do
    local function place(i) return i < 0 and n + 1 + i or i end
    local k = key[d] or {}
    if type(k) == "number" then first[d], step[d] = place(k), 0
    else
      first[d], step[d] = place(k[1] or 1), k[3] or 1
      local last = k[2] and place(k[2]) or k[1] and first[d] or n
      out[#out + 1] = max((last - first[d]) // step[d] + 1, 0)
      axis[d] = #out
    end
  end
  return function(ix)
    local t = {}
    for d = 1, #shape do t[d] = first[d] + ((ix[axis[d]] or 1) - 1) * step[d] end
    return t
  end, out
end
local function slice(x, key)
  local from, out = O.region(key, x.shape)
  return view(x, out, from)
end
function X.select(x, d, item)                           -- item: as in a key
  local key = {}
  for k = 1, #x.shape do key[k] = k == d and item or {} end
  return slice(x, key)
end
function X.diagonal(x)
  local n = math.min(x.shape[1], x.shape[2])
  return view(x, { n }, function(ix) return { ix[1], ix[1] } end)
end
--- x, and 'other' where the position is not in x.
local function within(x, shape, from, other)
  return value(shape, x.dtype, function(ix)
    local place = from(ix)
    return place and at(x.v, place) or { round(x.dtype, other), 0 }
  end)
end
function X.tril(x)
  return within(x, x.shape, function(ix) return ix[#ix] <= ix[#ix - 1] and ix end, 0)
end
function X.pad(x, ends, options)                        -- before and after, last axis first
  local n, shape = #x.shape, {}
  for d = 1, n do shape[d] = x.shape[d] + ends[2 * (n - d) + 1] + ends[2 * (n - d) + 2] end
  return within(x, shape, function(ix)
    local t = {}
    for d = 1, n do
      t[d] = ix[d] - ends[2 * (n - d) + 1]
      if t[d] < 1 or t[d] > x.shape[d] then return nil end
    end
    return t
  end, options.value)
end

-- ---- positions and writes -----------------------------------------------------------------------
function X.gather(x, d, ids)
  return view(x, ids.shape, function(ix) return moved(ix, d, at(ids.v, ix)[1]) end)
end
function X.index_select(x, d, ids)
  local shape = moved(x.shape, d, ids.shape[1])
  return view(x, shape, function(ix) return moved(ix, d, ids.v[ix[d]][1]) end)
end
--- x with the cells of src, in order, stored or added where place(their position) says.
local function put(x, src, place, add)
  local rows = build(x.shape, function(ix) return { at(x.v, ix) } end)
  collect(rows, src:to(x.dtype), place)
  return value(x.shape, x.dtype, function(ix)
    local row = at(rows, ix)
    return add and #row > 1 and fold("sum", row, x.dtype) or row[#row]
  end)
end
function X.scatter(x, d, ids, src, add)
  return put(x, src, function(ix) return moved(ix, d, at(ids.v, ix)[1]) end, add)
end
function X.scatter_add(x, d, ids, src) return x:scatter(d, ids, src, true) end
function X.index_add(x, d, ids, src)
  return put(x, src, function(ix) return moved(ix, d, ids.v[ix[d]][1]) end, true)
end
function X.__newindex(x, key, v)                        -- x[key] = v
  local from, out = O.region(key, x.shape)
  v = type(v) == "table" and v or constant(v == true and 1 or v or 0, x.dtype)
  x.v = put(x, v:expand(out), from).v
end
--- x[key]; x:name(y) and x:name_(y) for every op, the latter a write.
function X.__index(x, name)
  if type(name) == "table" then return slice(x, name) end
  local plain = name:match "^(.*)_$"
  if X[name] or not plain then return X[name] or function(a, b) return op(name, a, b) end end
  return function(a, b)
    local y = plain == "copy" and b or plain == "fill" and constant(b, a.dtype) or a[plain](a, b)
    a.v = y:to(a.dtype):expand(a.shape).v
    return a
  end
end
O.scalars, O.methods, O.value, O.apply, O.at = scalars, X, value, apply, at
local function by_name(_, name) return function(x, y) return op(name, x, y) end end
return setmetatable(O, { __index = by_name })                 -- O.add(x, y) for every op
