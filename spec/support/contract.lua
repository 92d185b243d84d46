-- Comparisons for the specs of docs/contract.md: a test notes every fault and fails at its end, so
-- that one run reports all faults.
local flame = require "flame"

local found

local function note(fmt, ...)
  local at = 3
  local info = debug.getinfo(at, "l")
  while info and info.currentline < 0 do at, info = at + 1, debug.getinfo(at + 1, "l") end
  found[#found + 1] = ("line %d: "):format(info and info.currentline or 0) .. fmt:format(...)
end

local function text_of(v)
  if type(v) == "userdata" then
    if not flame.is_tensor(v) then return tostring(v) end
    return v.dtype .. text_of(v.ndim == 0 and v:item() or v:totable()) .. "@("
      .. table.concat(v.shape, ",") .. ")"
  end
  if type(v) ~= "table" then
    return (type(v) == "string" and ("%q"):format(v) or tostring(v))
  end
  local parts = {}
  for i = 1, #v do parts[i] = text_of(v[i]) end
  local rest = {}
  for k, e in pairs(v) do
    if not (math.type(k) == "integer" and k >= 1 and k <= #v) then
      rest[#rest + 1] = tostring(k) .. "=" .. text_of(e)
    end
  end
  table.sort(rest)
  for i = 1, #rest do parts[#parts + 1] = rest[i] end
  return "{" .. table.concat(parts, ", ") .. "}"
end

local function same(e, a, tol)
  if flame.is_tensor(a) and not flame.is_tensor(e) then
    a = a.ndim == 0 and a:item() or a:totable()
  end
  if type(e) ~= type(a) then return false end
  if type(e) == "table" then
    for k, v in pairs(e) do if not same(v, a[k], tol) then return false end end
    for k in pairs(a) do if e[k] == nil then return false end end
    return true
  end
  if type(e) == "number" then
    if e ~= e then return a ~= a end
    return e == a or math.abs(e - a) <= (tol or 0)
  end
  return e == a
end

--- Notes a fault if two values differ; tensors are compared as nested tables.
local function eq(expected, actual, tol)
  if not same(expected, actual, tol) then
    note("expected %s, got %s", text_of(expected), text_of(actual))
  end
end
local function near(expected, actual, tol) eq(expected, actual, tol or 1e-5) end
local function yes(v, what) if not v then note("is not so: %s", what or "") end end
--- Notes a fault unless f(…) raises a message that contains the text.
local function raises(text, f, ...)
  local ok, why = pcall(f, ...)
  if ok then note("did not raise: %s", text)
  elseif not tostring(why):find(text, 1, true) then
    note("raised '%s', need '%s'", tostring(why), text)
  end
  return why
end
--- Runs one part of a test: an error in it is noted as a fault, and the test goes on.
local function part(f, ...)
  local ok, why = pcall(f, ...)
  if not ok then note("raised: %s", tostring(why)) end
end

--- The body of a test: runs f, and fails if faults were noted, with all of them.
local function all_of(f)
  return function()
    found = {}
    local ok, why = xpcall(f, debug.traceback)
    if not ok then found[#found + 1] = "stopped: " .. tostring(why) end
    assert(#found == 0, "\n  " .. table.concat(found, "\n  "))
  end
end

return { same = same, eq = eq, near = near, yes = yes, raises = raises, part = part,
  all_of = all_of }
