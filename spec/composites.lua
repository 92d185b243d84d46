--- What is made of the oracle's ops (oracle.lua): networks' functions, joins, products, shorthands;
-- and the tensors that programs begin with, given and random.
local O = dofile("spec/oracle.lua")
local X, scalars = O.methods, O.scalars
local max, is_float = math.max, scalars.is_float
local function is_half(dtype) return scalars.types[dtype].top ~= nil end

for event, name in pairs { __add = "add", __sub = "sub", __mul = "mul", __div = "div",
  __mod = "mod", __idiv = "floordiv", __band = "bitwise_and", __bor = "bitwise_or",
  __bxor = "bitwise_xor" } do X[event] = function(x, y) return O[name](x, y) end end
function X.__unm(x) return x:neg() end

--- A composite of halves or integers computes in f32 and rounds once.
local function in_f32(f)
  return function(x, ...)
    local y = f((is_half(x.dtype) or not is_float(x.dtype)) and x:to("f32") or x, ...)
    return is_half(x.dtype) and y:to(x.dtype) or y
  end
end
local function share(s, x, less)                        -- s by the count of what went into it
  return s / max(O.numel(x.shape) / max(O.numel(s.shape), 1) - less, 0)
end
local function mean(x, axes, keep) return share(x:sum(axes, { keepdim = keep }), x, 0) end
O.reduction("mean", in_f32(mean))
O.reduction("var", in_f32(function(x, axes, keep)
  local apart = x - mean(x, axes, true)
  return share(apart:square():sum(axes, { keepdim = keep }), x, 1)
end))
function X.narrow(x, d, first, n) return x:select(d, { first, first + n - 1 }) end
function X.flip(x, d) return x:select(d, x.shape[d] > 0 and { -1, 1, -1 } or {}) end
function X.unsqueeze(x, d)
  local shape = { table.unpack(x.shape) }
  table.insert(shape, d, 1)
  return x:reshape(shape)
end
for _, name in ipairs { "clone", "detach", "contiguous" } do
  X[name] = function(x) return x:reshape(x.shape) end
end
function X.item(x) return x.v[1] end
function X.max(x, d, options) return x:amax(d, options), x:argmax(d, options) end
function X.min(x, d, options) return x:amin(d, options), x:argmin(d, options) end
X.softmax = in_f32(function(x, d, logarithm)
  if O.numel(x.shape) == 0 then return x end
  local z = x - x:amax(d, { keepdim = true })
  local e = z:exp()
  local s = e:sum(d, { keepdim = true })
  return logarithm and z - s:log() or e / s
end)
function X.log_softmax(x, d) return x:softmax(d, true) end
X.layer_norm = in_f32(function(x, shape, w, b)
  local d = #x.shape - #shape + 1                       -- programs give one axis
  local c = x - mean(x, d, true)
  local y = c * (mean(c:square(), d, true) + 1e-5):rsqrt()
  y = w and y * w or y
  return b and y + b or y
end)
O.cross_entropy = in_f32(function(x, ids, options)
  local p, how = x:log_softmax(2), options.reduction
  local y = -p:gather(2, ids:reshape { x.shape[1], 1 }):reshape(ids.shape)
  return how == "none" and y or how == "sum" and y:sum() or mean(y)
end)
X.silu = in_f32(function(x) return x * x:sigmoid() end)
function X.clamp(x, low, high) return x:maximum(low):minimum(high) end

function O.cat(list, d)
  local dtype, cells, shape = list[1].dtype, {}, { table.unpack(list[1].shape) }
  shape[d] = 0
  for _, x in ipairs(list) do dtype = scalars.promote(dtype, x.dtype) end
  for _, x in ipairs(list) do
    x = x:to(dtype)
    for i = 1, x.shape[d] do cells[shape[d] + i] = x:select(d, i) end
    shape[d] = shape[d] + x.shape[d]
  end
  return O.value(shape, dtype, function(ix)
    local rest = { table.unpack(ix) }
    return O.at(cells[table.remove(rest, d)].v, rest)
  end)
end
function O.stack(list, d)
  local rows = {}
  for i, x in ipairs(list) do rows[i] = x:unsqueeze(d) end
  return O.cat(rows, d)
end
function O.embedding(ids, w)
  local rows = w:index_select(1, ids:reshape { O.numel(ids.shape) })
  local shape = { table.unpack(ids.shape) }
  shape[#shape + 1] = w.shape[2]
  return rows:reshape(shape)
end
--- (…, i, k) by (…, k, j): the products over k, summed. A product may be off by a unit, since
-- the library may round it or not.
X.matmul = in_f32(function(a, b)
  local p, q = #a.shape > 1 and a or a:unsqueeze(1), #b.shape > 1 and b or b:unsqueeze(2)
  local n, swapped = #q.shape, {}
  for d = 1, n do swapped[d] = d < n - 1 and d or 2 * n - 1 - d end
  q = q:to(a.dtype):permute(swapped):unsqueeze(n - 1)   -- (…, 1, j, k)
  p = p:unsqueeze(#p.shape)                             -- (…, i, 1, k)
  local products = O.apply(a.dtype, scalars.binary.mul[1], 1, p, q)
  local y = products:sum(#products.shape) + 0           -- sums begin at 0, so none is -0
  if #b.shape == 1 then y = y:select(#y.shape, 1) end
  return #a.shape == 1 and y:select(#y.shape - #b.shape + 1, 1) or y
end)

-- ---- beginnings ---------------------------------------------------------------------------------
function O.leaf(s)
  return O.value(s.shape, s.dtype, function(ix)
    return { scalars.round(s.dtype, O.at(s.data, ix)), 0 }
  end)
end
function O.seed(n) O.state = { seed = n, counter = 0 } end
for kind, draw in pairs(scalars.draws) do
  O[kind] = function(shape, options)
    local dtype = kind == "randint" and "i64" or options.dtype
    local state, i, words = O.state, -1, (kind == "randint" or dtype == "f64") and 2 or 1
    local first = state.counter
    state.counter = first + (O.numel(shape) * words + 3) // 4
    return O.value(shape, dtype, function()
      i = i + 1
      return { draw(i, first, state.seed, dtype) }
    end)
  end
end
return O
