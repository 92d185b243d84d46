--- Declares functions, and checks arguments beyond what their declarations (src/lua/declare.h) can
--- say; errors have the function's name and the script's line.
local flame = require "flame"
local internal = flame.internal
local methods = internal.methods
local arguments = {}

--- Raise "op: message" at the script's line.
local function fail(op, message, ...) internal.fail(op, message:format(...)) end
arguments.fail = fail

local is_tensor = flame.is_tensor

--- The word for the type of v, in messages.
local function word(v) return is_tensor(v) and "a tensor" or type(v) end
arguments.word = word

--- The type of v in messages that need a number; for a tensor with the advice to write x:item().
local function no_number(v) return is_tensor(v) and "a tensor\1: write x:item()" or word(v) end

local function need_tensor(op, name, x)
  if not is_tensor(x) then fail(op, "%s must be a tensor, got %s", name, word(x)) end
  return x
end
arguments.need_tensor = need_tensor

--- A tensor of positions or counts.
function arguments.need_integers(op, name, x)
  if need_tensor(op, name, x):is_floating_point() then
    fail(op, "%s is %s, need integers", name, x.dtype)
  end
  return x
end

local function need_int(op, name, v)
  local i = type(v) == "number" and math.tointeger(v)
  return i or fail(op, "%s must be an integer, got %s", name,
    type(v) == "number" and tostring(v) or no_number(v))
end
arguments.need_int = need_int

--- A shape: a list of integers from 0 on and nothing else.
function arguments.need_shape(op, shape)
  for k in pairs(shape) do
    if math.type(k) ~= "integer" then
      fail(op, "need numbers or a list of them, got a table with names")
    end
  end
  for k = 1, #shape do
    if need_int(op, "size", shape[k]) < 0 then fail(op, "size %d is negative", shape[k]) end
  end
  return shape
end

local function is_float(x) return x:is_floating_point() end

--- The in-place function name_: writes f(x, …) into x; raises if x's dtype can not hold the result.
local function in_place(f, name)
  return function(x, ...)
    local y = f(need_tensor(name .. "_", "x", x), ...)
    if is_float(y) and not is_float(x) or x.dtype == "bool" and y.dtype ~= "bool" then
      fail(name .. "_", "the result is %s, x is %s and keeps its dtype", y.dtype, x.dtype)
    end
    return x:copy_(y)
  end
end

--- Declares a function of the library by 'text' (src/lua/declare.h): f gets the checked arguments.
--- A function with several signatures (text, f, text, f, …) has an f for each.
local function def(text, f, ...)
  local list = { f }
  for k = 1, select("#", ...), 2 do
    local form, g = select(k, ...)
    text, list[#list + 1] = text .. "\n" .. form, g
  end
  local group = text:match("^(%a[%w_]*)%.")
  local own = group and group ~= "linalg" and group ~= "special"      -- messages name the group
  local public, name = internal.declare(text, own and text:match("^[%w_.]+") or "",
    table.unpack(list))
  if group then
    flame[group][name:match("[%w_]+$")] = public
    return f
  end
  local scope = text:sub(1, 1)
  if scope ~= ":" then flame[name] = public end
  if scope ~= "." then methods[name] = public end
  if text:find("_?(", 1, true) then
    for k, g in ipairs(list) do list[k] = in_place(g, name) end
    methods[name .. "_"] = internal.declare((text:gsub(" @%a+", "")), "_", table.unpack(list))
  end
  return f
end
arguments.def = def

--- Position of an axis, 1 to rank.
local function axis_of(op, x, d)
  local n = math.max(x.ndim, 1)
  d = need_int(op, "axis", d)
  if d == 0 or d > n or d < -n then
    fail(op, "axis %d is out of range, the tensor has %d %s (1 to %d, or -1 to -%d)",
      d, x.ndim, x.ndim == 1 and "axis" or "axes", n, n)
  end
  return d > 0 and d or d + n + 1
end
arguments.axis_of = axis_of

--- Common shape of the tensors, or raise.
local function broadcast_shape(op, list)
  local n, shape = 0, {}
  for i = 1, #list do n = math.max(n, need_tensor(op, "tensor " .. i, list[i]).ndim) end
  for d = 1, n do
    shape[d] = 1
    for i = 1, #list do
      local s = rawget(list[i].shape, d - n + list[i].ndim) or 1
      if s ~= 1 and shape[d] ~= 1 and s ~= shape[d] then fail(op,
        "sizes %d and %d of axis %d do not go together", shape[d], s, d) end
      if s ~= 1 then shape[d] = s end
    end
  end
  return shape
end
arguments.broadcast_shape = broadcast_shape

return arguments
