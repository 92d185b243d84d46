--- flame.map: an elementwise expression in CUDA C as a function of tensors. internal.map_text
-- (src/lua/kernel_map.c) translates it to a Lua expression that calls the functions in N, flame's
-- ops with C's meaning. An expression with anything that N lacks becomes a kernel.
local flame = require "flame"
local internal = flame.internal
local arguments = require "flame.base.arguments"
local C_TYPES = require("flame.base.dtypes").kernel
local fail, def = arguments.fail, arguments.def
local is_tensor, where = flame.is_tensor, flame.where

-- ---- the helpers -------------------------------------------------------------------------------
local N = {}

local function both(f, g)
  return function(x, y)
    if is_tensor(x) then return f(x, y) end
    if is_tensor(y) then return g(y, x) end
    return f(flame.tensor(x), y)
  end
end
N.lt = both(flame.lt, flame.gt)
N.gt = both(flame.gt, flame.lt)
N.le = both(flame.le, flame.ge)
N.ge = both(flame.ge, flame.le)
N.eq = both(flame.eq, flame.eq)
N.ne = both(flame.ne, flame.ne)
N.land = both(flame.logical_and, flame.logical_and)
N.lor = both(flame.logical_or, flame.logical_or)
N.band = both(flame.bitwise_and, flame.bitwise_and)
N.bor = both(flame.bitwise_or, flame.bitwise_or)
N.bxor = both(flame.bitwise_xor, flame.bitwise_xor)
function N.lnot(x) return flame.logical_not(x) end
function N.invert(x) return -x - 1 end
function N.neg(x) return -x end
function N.idiv(x, y)
  if not is_tensor(x) and not is_tensor(y) then
    return y == 0 and 0 or (x - math.fmod(x, y)) // y
  end
  return flame.div(x, y, { rounding_mode = "trunc" })
end
function N.rem(x, y)
  if not is_tensor(x) and not is_tensor(y) then return y == 0 and 0 or math.fmod(x, y) end
  return flame.fmod(x, y)
end
function N.select(c, x, y) return where(c, x, y) end
function N.cast(dtype, x)
  if is_tensor(x) then return x.dtype == dtype and x or x:to(dtype) end
  if dtype == "bool" then return x ~= 0 and 1 or 0 end
  if dtype:find("^[fb]") then return x + 0.0 end
  return math.tointeger(x) or (x >= 0 and math.floor(x) or math.ceil(x))
end

local same = { SIN = "sin", COS = "cos", TAN = "tan", ASIN = "asin", ACOS = "acos", ATAN = "atan",
  SINH = "sinh", COSH = "cosh", TANH = "tanh", ASINH = "asinh", ACOSH = "acosh", ATANH = "atanh",
  EXP = "exp", EXP2 = "exp2", EXPM1 = "expm1", LOG = "log", LOG2 = "log2", LOG10 = "log10",
  LOG1P = "log1p", SQRT = "sqrt", RSQRT = "rsqrt", CBRT = "cbrt", ERF = "erf", ERFC = "erfc",
  ERFINV = "erfinv", LGAMMA = "lgamma", FLOOR = "floor", CEIL = "ceil", TRUNC = "trunc",
  RINT = "round", FABS = "abs", POW = "pow", ATAN2 = "atan2", HYPOT = "hypot", FMOD = "fmod",
  COPYSIGN = "copysign", FAST_SIN = "sin", FAST_COS = "cos", FAST_TAN = "tan", FAST_TANH = "tanh",
  FAST_EXP = "exp", FAST_LOG = "log", FAST_LOG2 = "log2", FAST_LOG10 = "log10", FAST_POW = "pow",
  ISNAN = "isnan", ISINF = "isinf", ISFINITE = "isfinite", ABS = "abs", IMIN = "minimum",
  IMAX = "maximum", MIN = "minimum", MAX = "maximum" }
local function over_numbers(name)
  return function(x, y)
    local f = flame[name]
    if y == nil then
      if is_tensor(x) then return f(x) end
      return f(flame.tensor(x, { dtype = "f64" })):item()
    end
    if is_tensor(x) then return f(x, y) end
    if is_tensor(y) then return f(flame.tensor(x, { dtype = y.dtype, device = y.device }), y) end
    return f(flame.tensor(x, { dtype = "f64" }), y):item()
  end
end
for id, name in pairs(same) do N[id] = over_numbers(name) end
-- A binary function as in C: if one operand is NaN, the result is the other one.
local function not_nan(f)
  return function(x, y)
    x, y = is_tensor(x) and x or flame.full_like(y, x), is_tensor(y) and y or flame.full_like(x, y)
    return where(x:isnan(), y, where(y:isnan(), x, f(x, y)))
  end
end
N.FMIN, N.FMAX = not_nan(flame.minimum), not_nan(flame.maximum)
function N.FMA(x, y, z) return x * y + z end
function N.EXP10(x) return over_numbers("pow")(10.0, x) end
function N.FDIM(x, y) return where(N.le(x, y), 0, x - y) end
function N.SATURATE(x) return x:clamp(0, 1) end


-- A kernel over contiguous operands, for an expression that flame's ops do not cover.
local function map_kernel(text, dtypes, result)
  local list, body = text:match("^(.-)%->(.*)$")
  local params, locals, names_of = {}, {}, {}
  for name in list:gmatch("[%a_][%w_]*") do names_of[#names_of + 1] = name end
  for i, name in ipairs(names_of) do
    params[i] = ("const %s *p_%s"):format(C_TYPES[dtypes[i]], name)
    locals[i] = ("    %s %s = p_%s[i];\n"):format(C_TYPES[dtypes[i]], name, name)
  end
  local source = ("extern \"C\" __global__ void map(%s, %s *p_out, long long n) {\n" ..
    "  long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;\n  if (i < n) {\n%s    p_out[i] = %s;\n  }\n}\n")
    :format(table.concat(params, ", "), C_TYPES[result], table.concat(locals), body)
  local k = flame.kernel(source)
  return function(...)
    local all = flame.broadcast(...)
    for i, x in ipairs(all) do all[i] = x:contiguous() end
    return k(table.unpack(all))
  end
end

local function widest_float(dtypes)
  local x
  for _, d in ipairs(dtypes) do
    if d:find("^[fb]") and d ~= "bool" then
      local y = flame.zeros({ 0 }, { dtype = d })
      x = x and x + y or y
    end
  end
  return x and x.dtype
end

local function compile_map(text, dtypes)
  local result = widest_float(dtypes)
  local expr, why = internal.map_text(text, dtypes, result)
  if not expr then fail("map", "%s", why) end
  for name in expr:gmatch("N%.([%w_]+)") do
    if not N[name] then return map_kernel(text, dtypes, result or "f32") end
  end
  local args = {}
  for i = 1, #dtypes do args[i] = "a" .. i end
  local f = assert(
    load(("local N = ...\nreturn function(%s) return %s end"):format(
      table.concat(args, ", "), expr),
    "=flame.map", "t", {}))
  return f(N)
end

--- A function of tensors from an elementwise expression in CUDA C: "x, y -> sqrtf(x*x + y*y)". It
--- broadcasts, fuses with ops before and after it, and is differentiable.
def(".map(text: str) -> fn", function(text)
  local n = internal.map_arity(text)
  if n < 1 then
    fail("map", "need \"x, y -> expression\": names, an arrow, an expression; got \"%s\"", text)
  end
  local compiled = {}
  do                              -- errors of the text are reported now
    local f32 = {}
    for i = 1, n do f32[i] = "f32" end
    compiled[table.concat(f32, " ")] = compile_map(text, f32)
  end
  return function(...)
    local given = select("#", ...)
    if given ~= n then fail("map", "%d operands, \"%s\" needs %d", given, text, n) end
    local args, dtypes, like = { ... }, {}, nil
    for i = 1, n do
      if is_tensor(args[i]) then like = like or args[i]
      elseif type(args[i]) ~= "number" then
        fail("map", "operand %d is a %s, need a tensor or a number", i, type(args[i]))
      end
    end
    if not like then fail("map", "one operand at least must be a tensor") end
    for i = 1, n do
      if not is_tensor(args[i]) then
        args[i] = flame.full({}, args[i], { dtype = like.dtype, device = like.device })
      end
      dtypes[i] = args[i].dtype
    end
    local key = table.concat(dtypes, " ")
    local f = compiled[key]
    if not f then
      f = compile_map(text, dtypes)
      compiled[key] = f
    end
    return f(table.unpack(args, 1, n))
  end
end)
