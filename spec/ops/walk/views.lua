--- Shapes and views for walk_spec.lua. A view is a tensor made from a base tensor by a function of
--- the library; a rule in plain Lua says which element of the base it has at each index.
local V = {}

function V.numel(shape)
  local n = 1
  for _, s in ipairs(shape) do n = n * s end
  return n
end
--- A flat list of f(index) for all elements of a shape in row-major order; index is a list.
function V.each(shape, f)
  local ix, out = {}, {}
  local function go(d)
    if d > #shape then out[#out + 1] = f(ix) return end
    for i = 1, shape[d] do
      ix[d] = i
      go(d + 1)
    end
    ix[d] = nil
  end
  go(1)
  return out
end
--- The row-major position (from 1) of the index ix, a list, in a shape.
function V.place(shape, ix)
  local p = 0
  for d = 1, #shape do p = p * shape[d] + ix[d] - 1 end
  return p + 1
end
local function copied(t, d, v)
  local out = { table.unpack(t) }
  if d then out[d] = v end
  return out
end

--- Each kind is a function(shape) that returns the base's shape, function(base) -> view, and
--- function(index in the view) -> index in the base; nil if there is no such view of this shape.
V.kinds = {
  contiguous = function(shape)
    return shape, function(x) return x end, function(ix) return ix end
  end,
  permuted = function(shape)
    if #shape < 2 then return end
    local n = #shape
    local base, order = {}, {}
    for d = 1, n do base[d], order[d] = shape[n + 1 - d], n + 1 - d end
    return base, function(x) return x:permute(order) end, function(ix)
      local out = {}
      for d = 1, n do out[d] = ix[n + 1 - d] end
      return out
    end
  end,
  sliced = function(shape)
    if #shape == 0 then return end
    local d = #shape
    if shape[d] == 0 then return end
    local key = {}
    for k = 1, d do key[k] = {} end
    key[d] = { 2, 2 * shape[d], 2 }
    return copied(shape, d, 2 * shape[d] + 1), function(x) return x[key] end,
      function(ix) return copied(ix, d, 2 * ix[d]) end
  end,
  flipped = function(shape)
    if #shape == 0 or V.numel(shape) == 0 then return end
    local key = { { shape[1], 1, -1 } }
    return shape, function(x) return x[key] end,
      function(ix) return copied(ix, 1, shape[1] + 1 - ix[1]) end
  end,
  expanded = function(shape)
    if #shape == 0 then return end
    return copied(shape, 1, 1), function(x) return x:expand(shape) end,
      function(ix) return copied(ix, 1, 1) end
  end,
  selected = function(shape)
    local base = { 2, table.unpack(shape) }
    return base, function(x) return x[2] end, function(ix) return { 2, table.unpack(ix) } end
  end,
}
V.names = { "contiguous", "permuted", "sliced", "flipped", "expanded", "selected" }

--- A view, its values as a flat list, and its base, which draw() fills; nil: there is no such view.
function V.make(flame, kind, shape, dtype, draw)
  local base, view, from = V.kinds[kind](shape)
  if not base then return nil end
  local values = V.each(base, draw)
  local x = V.tensor(flame, values, base, dtype)
  return view(x), V.each(shape, function(ix) return values[V.place(base, from(ix))] end), x
end

local FORMS = { f64 = "<d", f32 = "<f", i64 = "<i8", i32 = "<i4", i16 = "<i2", i8 = "<i1",
  u8 = "<B", bool = "<B" }
--- A tensor of this shape and dtype on the default device from a flat list of values; half types
--- are made from f32, which can represent them.
function V.tensor(flame, values, shape, dtype)
  local form = FORMS[dtype] or "<f"
  local bytes = {}
  for i, v in ipairs(values) do bytes[i] = string.pack(form, v) end
  local x = flame.from_bytes(table.concat(bytes), shape, FORMS[dtype] and dtype or "f32")
  return FORMS[dtype] and x or x:to(dtype)
end
--- All elements of a tensor as a flat list, bools as 0 and 1.
function V.flat(x)
  local dtype = x.dtype
  local form = FORMS[dtype]
  if not form then x, form = x:float(), "<f" end
  local bytes, out, at = x:detach():bytes(), {}, 1
  while at <= #bytes do out[#out + 1], at = string.unpack(form, bytes, at) end
  return out
end
--- The broadcast of two shapes.
function V.joint(a, b)
  local n, out = math.max(#a, #b), {}
  for d = 1, n do
    local p, q = a[d - n + #a] or 1, b[d - n + #b] or 1
    out[d] = p == 1 and q or p
  end
  return out
end
--- The index in an operand of this shape, broadcast, that belongs to the index ix of the result.
function V.clip(ix, shape)
  local out, n = {}, #ix
  for d = 1, #shape do out[d] = shape[d] == 1 and 1 or ix[n - #shape + d] end
  return out
end
return V
