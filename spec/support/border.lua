--- What border_spec.lua and border_life_spec.lua share: error_of(f, …) and survives(). error_of
-- calls f, so where f is a function of the library the error names this file ('here').
local flame = require "flame"
local luassert = require "luassert"

local here = debug.getinfo(1, "S").short_src

-- The message of f(…), which must raise a string without C addresses or unreplaced % formats.
local function error_of(f, ...)
  local caller = debug.getinfo(2, "S").short_src
  local ok, e = pcall(f, ...)
  assert(not ok, "no error was raised")
  assert(type(e) == "string", "the error is a " .. type(e))
  assert(not e:find("bad argument #", 1, true) or e:find(here, 1, true)
    or e:find(caller, 1, true), e)
  assert(not e:find("0x%x%x%x%x%x%x"), e)
  return e
end

local function survives()
  luassert.equal(10, flame.arange(4.0):sum():item())
end

return { error_of = error_of, survives = survives, here = here }
