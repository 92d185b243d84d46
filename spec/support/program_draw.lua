--- What steps of random programs (programs.lua) are drawn with: random numbers, shapes, elements,
--- leaves, and the choice of a variable. g: the state of the program that is being drawn.
local O = dofile("spec/support/oracle.lua")
local is_float = O.is_float
local generator = dofile("spec/support/generator.lua")
local T = { O = O }

T.MOST = 48                            -- elements of a value
T.FLOATS, T.INTS = { "f64", "f32", "f16", "bf16" }, { "i64", "i32", "i16", "i8", "u8" }
T.MIXED_FLOATS = { "bf16", "bf16", "bf16", "f32", "f32", "f16", "f64" }
T.LIMITS = { i64 = { math.mininteger, math.maxinteger }, i32 = { -2^31 | 0, 2^31 - 1 | 0 },
  i16 = { -32768, 32767 }, i8 = { -128, 127 }, u8 = { 0, 255 } }

local function random_shape(r, rank)
  local shape, n = {}, 1
  for d = 1, rank or r.pick { 0, 1, 1, 2, 2, 2, 3, 3, 4 } do
    shape[d] = r.chance(0.04) and 0 or r.pick { 1, 2, 3, 3, 4, 5, 7 }
    if n * shape[d] > T.MOST then shape[d] = 1 end
    n = n * math.max(shape[d], 1)
  end
  return shape
end

--- Shapes from which mixed programs start: rows and columns are shorter or longer than the blocks
--- in which the library's loops work.
T.BASES = { { 5 }, { 17 }, { 65 }, { 130 }, { 2, 4 }, { 3, 5 }, { 4, 7 }, { 2, 16 }, { 5, 17 },
  { 17, 3 }, { 2, 64 }, { 2, 65 },
  { 65, 2 }, { 1, 70 }, { 2, 3, 4 }, { 3, 2, 17 }, { 2, 5, 1, 3 }, { 4, 1, 9 } }

--- Long programs are drawn with an axis of size LONG. P.run stretches it to one of LENGTHS.
T.LONG, T.LENGTHS = 9, { 63, 64, 65, 100, 1023, 1024, 1025, 2065, 5000 }
T.LONG_BASES = { { 9 }, { 2, 9 }, { 3, 9 }, { 9, 2 }, { 9, 5 }, { 2, 9, 3 }, { 2, 3, 9 } }

local function nested(shape, f, d)
  d = d or 1
  if d > #shape then return f() end
  local t = {}
  for i = 1, shape[d] do t[i] = nested(shape, f, d + 1) end
  return t
end

local function random_element(r, dtype, wild)
  if is_float(dtype) then
    if wild and r.chance(0.1) then
      return r.pick { 0 / 0, math.huge, -math.huge, -0.0, 1e30, 65504.0 }
    end
    return r.chance(0.5) and r.int(-16, 16) / 4 or O.hold("bf16", (r.real() - 0.5) * 6)
  end
  if dtype == "bool" then return r.int(0, 1) end
  if wild and r.chance(0.2) then return r.pick(T.LIMITS[dtype]) end
  return r.int(dtype == "u8" and 0 or -7, 9)
end

--- Nested tables of a shape, filled with random elements of a dtype.
function T.data(r, shape, dtype)
  return nested(shape, function() return random_element(r, dtype) end)
end
local function add_leaf(g, shape, dtype, f)
  return { f = "leaf", shape = shape, dtype = dtype,
    data = nested(shape, f or function() return random_element(g.r, dtype, g.wild) end) }
end

--- In a long program, marks leaf s: P.run is to stretch its axis of size LONG to the program's
--- length and to draw the data of all elements from a separate seed.
local function stretch(g, s)
  if not g.long then return end
  s.long, s.seed = g.long, g.r.int(1, 1 << 30)
end
--- The number of a random live variable for which ok(value, number) is true; nil: there is none.
local function pick(g, ok)
  local list = {}
  for k, x in pairs(g.vars) do if not ok or ok(x, k) then list[#list + 1] = k end end
  table.sort(list)
  if #list == 0 then return nil end
  -- the larger of two draws, so that newer variables are chosen more often
  return list[math.max(g.r.int(1, #list), g.r.int(1, #list))]
end
local function x_of(g, k) return g.vars[k] end
local function float(x) return is_float(x.dtype) end
local function values(x) local t = {}; for i, p in ipairs(O.flat(x)) do t[i] = p[1] end return t end
local function all(x, ok)
  for _, v in ipairs(values(x)) do if not ok(v) then return false end end
  return true
end

local function random_number(g, dtype)
  if is_float(dtype) then
    return g.r.chance(0.3) and g.r.int(-3, 5) or g.r.int(-12, 12) / 8 + 0.1
  end
  return g.r.int(dtype == "bool" and 0 or dtype == "u8" and 0 or -3, dtype == "bool" and 1 or 5)
end
--- Adds a leaf with random positions from 1 to n to the program, and returns its number.
local function index_leaf(g, shape, n)
  local dtype = g.r.pick(T.INTS)
  if n > T.LIMITS[dtype][2] then dtype = "i64" end
  return g.emit(add_leaf(g, shape, dtype, function() return g.r.int(1, n) end))
end
local function row_of(g, allow)
  return pick(g, function(x)
    return #x.shape > 0 and O.numel(x.shape) > 0 and (allow or x.dtype ~= "bool")
  end)
end

T.generator, T.random_shape, T.add_leaf, T.stretch = generator, random_shape, add_leaf, stretch
T.pick, T.x_of, T.float, T.values, T.all = pick, x_of, float, values, all
T.random_number, T.index_leaf, T.row_of = random_number, index_leaf, row_of
return T
