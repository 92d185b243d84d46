--- Calls of kernels as methods of modules: net:k(x), for net.k = flame.kernel(…). The module is not
-- an argument of the kernel. Where arguments are missing, the module's tensors with the names of
-- these parameters are passed.
local flame = require "flame"
local internal = flame.internal
local fail = require("flame.base.arguments").fail

local function is_module(x)
  return type(x) == "table" and getmetatable(x) ~= nil and flame.nn.is(x, flame.nn.Module)
end

local function numbers(taken, open)
  return open and taken - 1 .. " or " .. taken or tostring(taken)
end

-- Raises: there are as many arguments as neither the kernel needs nor what the module leaves open.
local function mismatch(k, names, open, own, given)
  local list, rest = {}, {}
  for i, name in ipairs(names) do
    if own[i] then list[#list + 1] = name else rest[#rest + 1] = name end
  end
  local text = ("%d argument%s after the module, need %s: (%s)"):format(given,
    given == 1 and "" or "s", numbers(#names, open), table.concat(names, ", "))
  if #list > 0 then
    text = text .. ("\1: give all, or %s without %s, which the module has"):format(
      numbers(#rest, open), table.concat(list, ", "))
  end
  fail(internal.kernel_info(k).name, "%s", text)
end

--- The arguments of k(net, …), a call as a method of the module net: those given and, where some
--- are missing, net's tensors in the places of parameters with their names.
function internal.kernel_method(k, net, ...)
  local names, open, first_list = internal.kernel_arguments(k)
  local given, taken = select("#", ...), #names
  -- of a kernel whose first argument is a list, the module may be that list
  if first_list and given + 1 <= taken then return net, ... end
  local own, n = {}, 0
  for i, name in ipairs(names) do
    own[i] = flame.is_tensor(net[name]) and net[name] or nil
    if own[i] then n = n + 1 end
  end
  local last = given > 0 and select(-1, ...)
  local whole = given == taken or open and given == taken - 1
  local filled = n > 0 and (given + n == taken or open and given + n == taken - 1)
  if whole and filled and given < taken and n == 1 and math.type(last) then
    if names[names[taken - 1]] ~= "tensor" then
      fail(internal.kernel_info(k).name, "the last argument may be %s or %s, since the module has "
        .. "%s\1: give all %d arguments, or leave %s out", names[taken - 1], names[taken],
        next(own) and names[next(own)], taken, names[taken])
    end
    whole = false
  end
  if whole then return ... end
  if not filled then mismatch(k, names, open, own, given) end
  local args, from = table.pack(...), 1
  local out = { n = given + n }
  for i = 1, out.n do
    if own[i] then out[i] = own[i] else out[i], from = args[from], from + 1 end
  end
  return table.unpack(out, 1, out.n)
end

--- The arguments '...' of a call of kernel k, without a module that the call is a method of. k nil:
--- a kernel of which nothing is known.
local function plain(k, ...)
  if not is_module((...)) then return ... end
  if not k then return select(2, ...) end
  return internal.kernel_method(k, ...)
end

--- Raises if x, the first argument of a call, holds several kernels: kernels:name(…).
local function refuse_kernels(name, x)
  local meta = type(x) == "table" and getmetatable(x)
  if type(meta) == "table" and rawget(meta, "__name") == "flame.kernels" then
    fail(name, "called with a colon, and what is before it has several kernels\1: write a dot")
  end
end

return { plain = plain, is_module = is_module, refuse_kernels = refuse_kernels }
