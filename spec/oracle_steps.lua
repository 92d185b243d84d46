--- The rest of the oracle (oracle.lua): networks' functions, views, joins, positions, writes, random
-- numbers; and the steps of programs (programs.lua) in terms of them.
local O = dofile("spec/oracle.lua")
local make, view, element, folds, at, build, moved = O.make, O.view, O.element, O.folds, O.at, O.build, O.moved
local op, reduce, cast, widen, back = O.op, O.reduce, O.cast, O.widen, O.back

function O.layer_norm(x, w, b)
  local f, d = widen(x), { #x.shape }
  local c = op("sub", f, O.mean(f, d, true))
  local y = op("mul", c, op("rsqrt", op("add", O.mean(op("square", c), d, true), 1e-5)))
  if w then y = op("mul", y, widen(w)) end
  return back(b and op("add", y, widen(b)) or y, x)
end
function O.cross_entropy(x, ids, how)
  local p = O.softmax(widen(x), 2, true)
  local y = op("neg", make({ x.shape[1] }, p.dtype, function(ix) return element(p, { ix[1], at(ids.v, ix) }) end))
  return back(how == "none" and y or how == "sum" and reduce("sum", y) or O.mean(y), x)
end
function O.silu(x) local w = widen(x); return back(op("mul", w, op("sigmoid", w)), x) end

-- ---- views: 'from' turns a position of the result into one of x -------------------------------
local function linear(ix, shape)
  local n = 0
  for d = 1, #shape do n = n * shape[d] + ix[d] - 1 end
  return n
end
local function delinear(n, shape)
  local ix = {}
  for d = #shape, 1, -1 do ix[d] = n % shape[d] + 1; n = n // shape[d] end
  return ix
end
local function reshape(x, shape) return view(x, shape, function(ix) return delinear(linear(ix, shape), x.shape) end) end
--- A key of x[…]: per axis { first, step, count, dropped }; the shape of what it names.
function O.boxes(key, shape)
  local box, out = {}, {}
  for d = 1, #shape do
    local k, n = key[d] or {}, shape[d]
    local function p(i) return i < 0 and n + 1 + i or i end
    if type(k) == "number" then box[d] = { p(k), 1, 1, true }
    elseif #k == 0 then box[d] = { 1, 1, n }
    elseif #k == 1 then box[d] = { p(k[1]), 1, 1 }
    else
      local first, last, step = p(k[1]), p(k[2]), k[3] or 1
      box[d] = { first, step, math.max((last - first) // step + 1, 0) }
    end
    if not box[d][4] then out[#out + 1] = box[d][3] end
  end
  return box, out
end
local function inside(box, ix)                          -- position ix of the box, in the whole
  local t, k = {}, 0
  for d, b in ipairs(box) do
    if not b[4] then k = k + 1 end
    t[d] = b[4] and b[1] or b[1] + (ix[k] - 1) * b[2]
  end
  return t
end
local function slice(x, key)
  local box, out = O.boxes(key, x.shape)
  return view(x, out, function(ix) return inside(box, ix) end)
end
local function expand(x, shape) return view(x, shape, function(ix) return O.clip(ix, x.shape) end) end
local function along(x, d, item)                        -- the key with 'item' on axis d
  local key = {}
  for k = 1, #x.shape do key[k] = k == d and item or {} end
  return slice(x, key)
end
local views = { reshape = reshape, expand = expand, slice = slice }
for _, f in ipairs { "clone", "detach", "contiguous" } do views[f] = function(x) return x end end
function views.permute(x, p)
  local s = {}
  for k, d in ipairs(p) do s[k] = x.shape[d] end
  return view(x, s, function(ix)
    local t = {}
    for k, d in ipairs(p) do t[d] = ix[k] end
    return t
  end)
end
function views.select(x, a) return along(x, a[1], a[2]) end
function views.narrow(x, a) return along(x, a[1], { a[2], a[2] + a[3] - 1 }) end
function views.flip(x, d) return along(x, d, x.shape[d] > 0 and { -1, 1, -1 } or {}) end
function views.unsqueeze(x, d)
  local s = { table.unpack(x.shape) }
  table.insert(s, d, 1)
  return reshape(x, s)
end
function views.diagonal(x) return view(x, { math.min(x.shape[1], x.shape[2]) }, function(ix) return { ix[1], ix[1] } end) end
function views.tril(x)
  return make(x.shape, x.dtype, function(ix)
    if ix[#ix] > ix[#ix - 1] then return O.round(x.dtype, 0), 0 end
    return element(x, ix)
  end)
end

-- ---- joins and positions ------------------------------------------------------------------------
local function cat(list, d)
  local dtype, shape = list[1].dtype, { table.unpack(list[1].shape) }
  for i = 2, #list do dtype = O.promote(dtype, list[i].dtype); shape[d] = shape[d] + list[i].shape[d] end
  for i, x in ipairs(list) do list[i] = cast(x, dtype) end
  return make(shape, dtype, function(ix)
    local p, i = ix[d], 1
    while p > list[i].shape[d] do p = p - list[i].shape[d]; i = i + 1 end
    return element(list[i], moved(ix, d, p))
  end)
end
local function pad(x, before, after, value)
  local shape = {}
  for d = 1, #x.shape do shape[d] = x.shape[d] + before[d] + after[d] end
  return make(shape, x.dtype, function(ix)
    local t = {}
    for d = 1, #ix do
      t[d] = ix[d] - before[d]
      if t[d] < 1 or t[d] > x.shape[d] then return O.round(x.dtype, value), 0 end
    end
    return element(x, t)
  end)
end
--- x with src stored or added, in order, where place(ix of src) says.
local function put(x, src, place, add)
  local hit = {}
  src = cast(src, x.dtype)
  build(src.shape, function(ix)
    local n = linear(place(ix), x.shape)
    hit[n] = hit[n] or {}
    table.insert(hit[n], { element(src, ix) })
  end)
  return make(x.shape, x.dtype, function(ix)
    local y, e = element(x, ix)
    local list = hit[linear(ix, x.shape)]
    if not list then return y, e end
    if not add then return list[#list][1], list[#list][2] end
    table.insert(list, 1, { y, e })
    return folds.sum(list, x.dtype)
  end)
end
local function set(x, key, v)
  local box, out = O.boxes(key, x.shape)
  v = type(v) == "number" and O.constant(v, x.dtype) or v
  return put(x, expand(v, out), function(ix) return inside(box, ix) end, false)
end

-- ---- random numbers: Philox4x32-10 ----------------------------------------------------------------
local function philox(block, seed)
  local c0, c1, c2, c3, k0, k1 = block & 0xffffffff, block >> 32, 0, 0, seed & 0xffffffff, seed >> 32
  for _ = 1, 10 do
    local p, q = 0xD2511F53 * c0, 0xCD9E8D57 * c2
    c0, c1, c2, c3 = (q >> 32) ~ c1 ~ k0, q & 0xffffffff, (p >> 32) ~ c3 ~ k1, p & 0xffffffff
    k0, k1 = (k0 + 0x9E3779B9) & 0xffffffff, (k1 + 0xBB67AE85) & 0xffffffff
  end
  return { [0] = c0, c1, c2, c3 }
end
--- rng = { seed, counter }; kind: rand (f32 or f64), randn (f32), randint (1 to 6).
local function random(rng, kind, shape, dtype)
  local base, wide = rng.counter, kind == "randint" or dtype == "f64"
  rng.counter = base + (O.numel(shape) * (wide and 2 or 1) + 3) // 4
  return make(shape, dtype, function(ix)
    local i = linear(ix, shape)
    local w = philox(base + (wide and i // 2 or i // 4), rng.seed)
    local k = i % 2 * 2
    if kind == "randint" then return 1 + ((w[k] * 6 + (w[k + 1] * 6 >> 32)) >> 32), 0 end
    if wide then return ((w[k] << 32 | w[k + 1]) >> 11) * 2^-53, 0 end
    if kind == "rand" then return (w[i % 4] >> 8) * 2^-24, 0 end
    local a, turn = w[i % 4 // 2 * 2], 2 * math.pi * w[i % 4 // 2 * 2 + 1] * 2^-32
    local radius = math.sqrt(-2 * math.log((a + 0.5) * 2^-32))           -- near 0 by the width of f32 below 1
    local y = radius * (i % 2 == 0 and math.cos(turn) or math.sin(turn))
    return O.round("f32", y), 2^-20 * (1 + math.abs(y)) + 2^-23 / radius
  end)
end

-- ---- steps: S[f](s, value of s.a, vars, rng) gives the value of s.o --------------------------------
local S = {}
local function operand(vars, s) return s.b and vars[s.b].x or s.n end
--- Runs one step; vars[i] = { x = value, view = made by a view function }.
function O.step(vars, s, rng)
  local y = S[s.f](s, vars[s.a] and vars[s.a].x, vars, rng)
  if y then vars[s.o] = { x = y, view = s.isview } end
end
function S.leaf(s) return make(s.shape, s.dtype, function(ix) return O.round(s.dtype, at(s.data, ix)), 0 end) end
function S.un(s, x) return op(s.op, x) end
function S.bin(s, x, vars)
  local y = operand(vars, s)
  if s.rev then x, y = y, x end
  return op(s.op, x, y)
end
function S.where(s, x, vars) return O.where(x, vars[s.b].x, s.c and vars[s.c].x or s.n) end
function S.clamp(s, x) return op("minimum", op("maximum", x, s.lo), s.hi) end
function S.red(s, x)
  if s.op == "mean" or s.op == "var" then return O[s.op](x, s.axes, s.keep) end
  return reduce(s.op, x, s.axes, s.keep)
end
function S.maxd(s, x, vars)
  vars[s.o2] = { x = reduce("arg" .. s.op, x, { s.d }, s.keep) }
  return reduce("a" .. s.op, x, { s.d }, s.keep)
end
function S.view(s, x) return views[s.op](x, s.arg) end
function S.join(s, _, vars)
  local list = {}
  for i, k in ipairs(s.list) do list[i] = s.op == "stack" and views.unsqueeze(vars[k].x, s.d) or vars[k].x end
  return cat(list, s.d)
end
function S.pad(s, x) return pad(x, s.before, s.after, s.value) end
function S.gather(s, x, vars)
  local i = vars[s.i].x
  return view(x, i.shape, function(ix) return moved(ix, s.d, at(i.v, ix)) end)
end
function S.index_select(s, x, vars)
  local i = vars[s.i].x
  return view(x, moved(x.shape, s.d, i.shape[1]), function(ix) return moved(ix, s.d, i.v[ix[s.d]]) end)
end
function S.embedding(s, x, vars)
  local ids = vars[s.i].x
  local shape = moved(ids.shape, #ids.shape + 1, x.shape[2])
  return view(x, shape, function(ix) return { at(ids.v, { table.unpack(ix, 1, #ix - 1) }), ix[#ix] } end)
end
function S.scatter(s, x, vars)
  local i = vars[s.i].x
  return put(x, vars[s.b].x, function(ix) return moved(ix, s.d, at(i.v, ix)) end, s.add)
end
function S.index_add(s, x, vars)
  local i = vars[s.i].x
  return put(x, vars[s.b].x, function(ix) return moved(ix, s.d, i.v[ix[s.d]]) end, true)
end
function S.mm(s, x, vars) return O.matmul(x, vars[s.b].x) end
function S.softmax(s, x) return O.softmax(x, s.d, s.log) end
function S.layer_norm(s, x, vars) return O.layer_norm(x, s.w and vars[s.w].x, s.b and vars[s.b].x) end
function S.cross_entropy(s, x, vars) return O.cross_entropy(x, vars[s.i].x, s.how) end
function S.silu(_, x) return O.silu(x) end
function S.cast(s, x) return cast(x, s.dtype) end
function S.rand(s, _, _, rng) return random(rng, s.kind, s.shape, s.dtype) end
function S.dead(s, _, _, rng) random(rng, s.kind, s.shape, s.dtype) end
function S.branch(s, x, vars) return op(x.v > s.thr and "add" or "sub", vars[s.b].x, vars[s.c].x) end
function S.set(s, x, vars) vars[s.a] = { x = set(x, s.key, operand(vars, s)) } end
function S.inplace(s, x, vars)
  local y
  if s.op == "copy" then y = operand(vars, s)
  elseif s.op == "fill" then y = O.constant(s.n, x.dtype)
  else y = op(s.op, x, operand(vars, s)) end
  vars[s.a] = { x = expand(cast(y, x.dtype), x.shape) }
end
function S.del(s, _, vars) vars[s.a] = nil end
for _, f in ipairs { "read", "gc", "refuse", "error", "late", "backward" } do S[f] = function() end end
return O
