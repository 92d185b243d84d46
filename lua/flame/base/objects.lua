--- Errors for names that do not exist in the library's tables, options and objects of fixed
--- fields, and for too many arguments to functions of the library's tables.
local flame = require "flame"
local internal = flame.internal
local methods = internal.methods
local arguments = require "flame.base.arguments"
local fail = arguments.fail
local objects = { classes = {} }               -- classes that no table holds, by name

-- ---- names of flame, nn, optim, … ---------------------------------------------------------------

local is_chapter = {}
for _, name in ipairs(internal.chapters) do is_chapter[name] = true end

-- The field of one of the library's tables, or nil; raises nothing.
local function found(t, name)
  local v = rawget(t, name)
  if v == nil and t == flame then
    v = name:find("_$") and methods[name] or is_chapter[name] and flame[name] or nil
  end
  return v
end

--- Is there a function, class or table of this name? flame.has("topk"), flame.has("nn.Linear").
--- Reading an unknown name raises.
---@param name string
---@return boolean
arguments.def(".has(name: str) -> bool", function(name)
  internal.load()
  local t = flame
  for part in name:gmatch("[^.]+") do
    t = type(t) == "table" and found(t, part) or nil
  end
  return t ~= nil and name:find("^[%w_]") ~= nil
end)

-- The end of a message for an unknown name: where it is ("write nn.Linear", for flame.Linear), or
-- what replaces it, for PyTorch's name of a function that has another name here; nil: neither.
local function elsewhere(what, name)
  local torch, places = require "flame.tools.elsewhere", { what, "flame", "nn", "optim", "data" }
  for _, place in ipairs(places) do
    if torch[place] and torch[place][name] then return "\1: " .. torch[place][name] end
    local t = place == "flame" and flame or flame.has(place) and place ~= what and flame[place]
    if t and place ~= what and found(t, name) ~= nil then
      return "\1; write " .. place .. "." .. name
    end
  end
end

-- A hint with the shortest known name that begins with 'name': CrossEntropyLoss for CrossEntropy.
local function longer(name, known)
  local best
  for key in pairs(known) do
    if #name > 4 and type(key) == "string" and key:sub(1, #name) == name
        and (not best or #key < #best or #key == #best and key < best) then
      best = key
    end
  end
  return best and "\1; did you mean '" .. best .. "'?" or ""
end

--- Raises: the table 'what' ("flame", "nn") has no such name. Names that begin with "_", and keys
--- that are not names, are nil, since code that inspects tables reads them.
function internal.unknown_name(t, name, what)
  if type(name) ~= "string" or name:find("^_") then return nil end
  local known = {}
  for key in next, t do known[key] = true end
  if t == flame then for key in pairs(is_chapter) do known[key] = true end end
  local say = elsewhere(what, name) or internal.hint(name, known)
  fail("", "%s has no '%s'%s", what, name, say ~= "" and say or longer(name, known))
end

-- Is it a plain table of functions, such as linalg or nn.init, and neither a class nor a module?
local function is_group(t)
  if type(t) ~= "table" or getmetatable(t) ~= nil or rawget(t, "__index") then return false end
  for name, f in next, t do
    if type(name) ~= "string" or type(f) ~= "function" then return false end
  end
  return next(t) ~= nil
end

--- Makes reading an unknown name of t, or of a table of functions in t, raise; what: t's name.
function objects.namespace(t, what)
  for name, part in next, t do
    if is_group(part) then
      objects.namespace(part, what .. "." .. name)
    end
  end
  return setmetatable(t,
    { __index = function(_, name) return internal.unknown_name(t, name, what) end })
end

--- __pairs of flame: what the table holds, then the modules that are loaded at their first use.
function internal.pairs(t)
  local key, v
  local left, at = {}, 0
  for _, name in ipairs(internal.chapters) do
    if rawget(t, name) == nil then left[#left + 1] = name end
  end
  return function()
    if at == 0 then key, v = next(t, key) end
    if at == 0 and key ~= nil then return key, v end
    repeat
      at = at + 1
      local name = left[at]
      local module = name and t[name]
      if module then return name, module end
    until not name
  end
end

-- ---- options, objects ---------------------------------------------------------------------------

local function keys_of(t)
  local names = {}
  for name in pairs(t) do names[#names + 1] = tostring(name) end
  table.sort(names)
  return #names > 0 and table.concat(names, " ") or "none"
end

--- Raises: 'key' is none of the options, the keys of 'known'. 'text' lists them if their order is
--- meaningful.
function objects.no_option(op, key, known, text)
  fail(op, "no option '%s', there is: %s%s", tostring(key), text or keys_of(known),
    internal.hint(tostring(key), known))
end
--- Returns __index and __newindex for objects with the methods of 'own' and these fields (name ->
--- true) alone: another name raises, with the nearest known one. A method can be replaced by a
--- function. refuse(self, key), if given, is called first and may raise.
function objects.closed(what, own, fields, refuse)
  local function unknown(self, key)
    local known = {}
    if refuse then refuse(self, key) end
    local t = own
    while type(t) == "table" do
      for name in pairs(t) do known[name] = true end
      t = getmetatable(t) and getmetatable(t).__index
    end
    for name in pairs(fields) do known[name] = true end
    local hint = internal.hint(tostring(key), known)
    if hint == "" then hint = ", there is: " .. keys_of(fields) end
    internal.fail("", ("%s has no field '%s'%s"):format(what, tostring(key), hint))
  end
  local function get(self, key)
    local v = own[key]
    if v == nil and not fields[key] then unknown(self, key) end
    return v
  end
  local function set(self, key, value)
    if not fields[key] and not (own[key] ~= nil and type(value) == "function") then
      unknown(self, key)
    end
    rawset(self, key, value)
  end
  return get, set
end

local function is_object(v) return type(v) == "table" and getmetatable(v) ~= nil end

--- Wraps the functions of a table that take a fixed number of arguments, so that more of them
--- raise. An error inside such a function keeps the function name in its message (internal.declare
--- would replace it by the name in the table).
function objects.limit(t)
  local made, names = {}, {}                      -- two names of one function share one wrapper
  for name, f in next, t do
    if type(f) == "function" and not name:find("^__") then names[#names + 1] = name end
  end
  table.sort(names)
  for _, name in ipairs(names) do
    local f = t[name]
    local facts = debug.getinfo(f, "Su")
    local method = debug.getlocal(f, 1) == "self"
    if facts.what == "Lua" and (method or not facts.isvararg) then
      local most, in_order = facts.isvararg and math.huge or facts.nparams, f
      made[f] = made[f] or function(...)
        if method and not is_object((...)) then
          fail(name, "the object before the arguments is missing, got %s", arguments.word((...)))
        end
        if select("#", ...) > most then
          fail(name, "%d argument%s at most, got %d", most, most == 1 and "" or "s",
            (select("#", ...)))
        end
        return in_order(...)
      end
      t[name] = made[f]
    end
  end
end

return objects
