--- flame.cuda.load: kernels from PTX text or a cubin image. Their signatures are read from the
-- binary.
local internal = require("flame").internal
local arguments = require "flame.base.arguments"
local image_of = require "flame.kernel.image"
require "flame.kernel.show"
local fail = arguments.fail

local SIZED = { [8] = "void *", [4] = "int", [2] = "short", [1] = "signed char" }

local function signature(entry, list)
  local text = {}
  for i, t in ipairs(list) do
    local name = math.type(t) and (SIZED[t] or "struct" .. t) or t
    if name:find("^struct") then
      fail("cuda.load",
        "parameter %d of '%s' is a struct of %s bytes\1: compile it by flame.kernel", i,
        entry, name:sub(7))
    end
    text[i] = name .. " p" .. i
  end
  return ("extern \"C\" __global__ void %s(%s) {}"):format(entry, table.concat(text, ", "))
end

--- A kernel from PTX text or a cubin image, for :launch. A cubin tells only the sizes of
--- parameters: one of 4 bytes takes an integer, unless params = {"float", …} names its type.
arguments.def("cuda.load(image: str, entry?: str, *, params?: str[]) -> Kernel",
function(image, entry, types)
  local order, params
  if image:sub(1, 4) == "\127ELF" then order, params = image_of.cubin_entries(image)
  elseif image:find("%.version%s") and image:find("%.target%s") then
    order, params = image_of.ptx_entries(image)
  elseif image:find("__global__", 1, true) then
    fail("cuda.load", "this is CUDA C\1: use flame.kernel")
  elseif image:sub(1, 4) == "\x50\xed\x55\xba" then
    fail("cuda.load", "this is a fat binary\1: take the cubin out of it (cuobjdump -xelf)")
  else fail("cuda.load", "this is neither PTX nor a cubin") end
  if not order then
    fail("cuda.load", "this cubin is not whole: it has %d bytes, and its headers name more\1: copy "
      .. "or compile it again", #image)
  end
  if #order == 0 then fail("cuda.load", "this binary has no kernel") end
  if entry == nil and #order == 1 then entry = order[1] end
  if type(entry) ~= "string" then
    fail("cuda.load", "need the entry's name, the binary has: %s", table.concat(order, ", "))
  end
  if not params[entry] then
    fail("cuda.load", "there is no entry '%s', the binary has: %s", entry,
      table.concat(order, ", "))
  end
  local k = internal.kernel_load(image, signature(entry, types or params[entry]))
  return internal.kernel_with(k, { derived = {} })
end)
