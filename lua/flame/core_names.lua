--- Names that do not exist, and arguments too many: what options, closed objects and the functions
-- of the library's tables say of them.
local _, _, internal = ...
local fail = internal.failf

local function keys_of(t)
  local names = {}
  for name in pairs(t) do names[#names + 1] = tostring(name) end
  table.sort(names)
  return #names > 0 and table.concat(names, " ") or "none"
end

--- Raises: 'key' is none of the options, the keys of 'known'. 'text' lists
--- them where their order says something.
function internal.no_option(op, key, known, text)
  fail(op, "no option '%s', there is: %s%s", tostring(key), text or keys_of(known),
    internal.hint(tostring(key), known))
end
--- __index and __newindex of objects that have these methods and fields (name -> true) and no
--- others: another name raises with the nearest one. A method can be replaced by a function.
--- refuse(self, key) may raise first.
function internal.closed(what, own, fields, refuse)
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

--- Lets the functions of a table that take a fixed number of arguments raise where there are more.
--- Messages from inside keep the names that they give (internal.checked would put the function's
--- there).
function internal.limit(t)
  local made, names = {}, {}                  -- two names of one function stay two names of one
  for name, f in next, t do
    if type(f) == "function" and not name:find("^__") then names[#names + 1] = name end
  end
  table.sort(names)
  for _, name in ipairs(names) do
    local f = t[name]
    local facts = debug.getinfo(f, "Su")
    if facts.what == "Lua" and not facts.isvararg then
      local most, in_order = facts.nparams, f
      made[f] = made[f] or function(...)
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
