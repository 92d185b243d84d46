--- Completion at the prompt: globals and words of Lua, fields and methods, options of a call, names
-- in help("…"), files in other strings, commands. It runs no function of a script.
local flame = require "flame"
local internal = flame.internal
local told = require "flame.tools.help"
local words = require "flame.prompt.words"
local show = require "flame.prompt.show"

local complete = {}

-- ---- looking at values without running scripts --------------------------------------------------

-- Is f, a metamethod, the library's? Such may be called, since they only look up fields.
local function is_ours(f)
  if type(f) ~= "function" then return false end
  local facts = debug.getinfo(f, "S")
  return facts.what == "C" or facts.source:find("^=flame/") ~= nil
end

local function get(v, key)
  if flame.is_tensor(v) then
    local ok, x = pcall(function() return v[key] end)
    return ok and x or nil
  end
  for _ = 1, 20 do
    if type(v) == "string" then v = string end
    if type(v) ~= "table" then return nil end
    local x = rawget(v, key)
    if x ~= nil then return x end
    local m = debug.getmetatable(v)
    local index = m and rawget(m, "__index")
    if is_ours(index) then
      local ok, found = pcall(index, v, key)
      return ok and found or nil
    end
    v = index
  end
end

local function add_keys(found, t)
  for key in next, t do
    if type(key) == "string" and key:find("^[%a_][%w_]*$") and not words.keywords[key] then
      found[key] = true
    end
  end
end

-- Names of the fields of a value.
local function fields(v)
  local found = {}
  internal.load()
  if flame.is_tensor(v) then
    add_keys(found, internal.methods)
    return found
  end
  if v == flame then
    for _, name in ipairs(internal.chapters) do found[name] = true end
  end
  if type(v) == "string" then v = string end
  local seen = {}
  while type(v) == "table" and not seen[v] do
    seen[v] = true
    add_keys(found, v)
    local m = debug.getmetatable(v)
    local pairs_of, index = m and rawget(m, "__pairs"), m and rawget(m, "__index")
    if is_ours(pairs_of) then
      local ok, step, t = pcall(pairs_of, v)
      if ok and step == next and type(t) == "table" then add_keys(found, t) end
    end
    v = type(index) == "table" and index or (m and is_ours(index) and m) or nil
  end
  return found
end

-- ---- the value before a '.' or ':' --------------------------------------------------------------

-- The names {a, b, c} of a chain a.b:c that ends with word k, a name; nil
-- if the chain begins with something else.
local function chain(list, k)
  local names = { list[k].text }
  while list[k - 1] and (list[k - 1].text == "." or list[k - 1].text == ":") do
    k = k - 2
    if not list[k] or list[k].kind ~= "name" then return nil end
    table.insert(names, 1, list[k].text)
  end
  return names
end

local function value_of(p, names)
  local v = rawget(p.environment(), names[1])
  if v == nil then v = rawget(_G, names[1]) end
  for i = 2, #names do
    if v == nil then return nil end
    v = get(v, names[i])
  end
  return v
end

-- ---- candidates: lists of {name, function that gives a line about it, closing text} ------------

local function told_of(f)
  local name = told.name(f)
  return name and (told.line(name))
end

-- A line on v. Objects of scripts are not shown, since that could run their __tostring.
local function line_of(p, v)
  if type(v) == "function" then return told_of(v) or show.line(p, v, 60) end
  local m = debug.getmetatable(v)
  if flame.is_tensor(v) or (type(v) ~= "table" and type(v) ~= "userdata")
      or m and is_ours(rawget(m, "__tostring")) then
    return show.line(p, v, 60)
  end
  return type(v)
end

local function names_in(p, v, functions)
  local list = {}
  for name in pairs(fields(v)) do
    local x = flame.is_tensor(v) and internal.methods[name] or not flame.is_tensor(v)
      and get(v, name)
    if not functions or internal.callable(x) then
      list[#list + 1] = { name, function()
        return type(x) == "number" and flame.is_tensor(v) and "" or line_of(p, x)
      end }
    end
  end
  return list
end

local function all_names(p)
  local list, seen = {}, {}
  for _, t in ipairs { p.environment(), _G } do
    for name, v in next, t do
      if type(name) == "string" and not seen[name] and name:find("^[%a_][%w_]*$")
          and not words.keywords[name] then
        seen[name] = true
        list[#list + 1] = { name, function() return line_of(p, v) end }
      end
    end
  end
  for name in pairs(words.keywords) do list[#list + 1] = { name } end
  return list
end

local function help_names()
  local list, seen = {}, {}
  for _, name in ipairs(told.names()) do
    local short = name:gsub("^flame%.", ""):gsub("^Tensor:", "")
    if not seen[short] then
      seen[short] = true
      list[#list + 1] = { short, function() return (told.line(name)) end }
    end
  end
  return list
end

-- Names of files in the folder of the typed path.
local function files(partial, close)
  local folder = partial:match("^(.*/)") or ""
  local home = os.getenv("HOME")
  local found =
    internal.io_list((folder == "" and "." or folder):gsub("^~/",
      (home or "~"):gsub("%%", "%%%%") .. "/"))
  local list = {}
  for name, kind in pairs(found or {}) do
    local hidden = name:sub(1, 1) == "." and partial:sub(#folder + 1, #folder + 1) ~= "."
    if name ~= "." and name ~= ".." and not hidden then
      local is_folder = kind == "d" or kind == "l" and internal.io_list(folder .. name) ~= nil
      list[#list + 1] = { folder .. name .. (is_folder and "/" or ""), nil,
        is_folder and "" or close }
    end
  end
  return list
end

-- ---- where the cursor is ------------------------------------------------------------------------

-- If the cursor is in the open table of options of a call, f{…: the index of the word that names
-- the function; else nil.
local function options_call(list, last)
  local depth, k = 0, last
  while list[k] do
    local t = list[k].kind == "op" and list[k].text or ""
    if t == "}" or t == ")" or t == "]" then depth = depth + 1 end
    if t == "{" or t == "(" or t == "[" then
      if depth == 0 then break end
      depth = depth - 1
    end
    k = k - 1
  end
  if not list[k] or list[k].text ~= "{" then return nil end
  local b = list[k - 1]
  if b and b.kind == "name" then return k - 1 end
  k, depth = k - 1, 0
  while list[k] do
    local t = list[k].kind == "op" and list[k].text or ""
    if t == "}" or t == ")" or t == "]" then depth = depth + 1 end
    if t == "{" or t == "[" or t == "(" then
      if depth == 0 then
        return t == "(" and list[k - 1] and list[k - 1].kind == "name" and k - 1 or nil
      end
      depth = depth - 1
    end
    k = k - 1
  end
end

-- The options of the function that word k names.
local function options_at(p, list, k)
  local names = chain(list, k)
  local name = names and told.name(value_of(p, names))
  if not name and list[k - 1] and list[k - 1].text == ":" then
    name = told.name(list[k].text)
  end
  local out = {}
  for _, o in ipairs(name and told.options(name) or {}) do
    out[#out + 1] = { o[1], function() return o[2] end, " = " }
  end
  return out
end

-- In an unfinished string.
local function in_string(list)
  local s = list[#list]
  local before, callee = list[#list - 1], list[#list - 2]
  local f = before and (before.text == "(" and callee or before)
  local partial = s.text:sub(2)
  if f and f.kind == "name" and f.text == "help" then
    return help_names(), partial, s.text:sub(1, 1) .. (f == callee and ")" or "")
  end
  return files(partial, s.text:sub(1, 1)), partial
end

local function after_dot(p, list, k, partial)
  local mark, names = list[k].text,
    list[k - 1] and list[k - 1].kind == "name" and chain(list, k - 1)
  local v = names and value_of(p, names) or nil
  -- x():name: nothing is known of the call's result, which is probably a tensor
  if v == nil and mark == ":" and not names then
    local found = {}
    for name, f in pairs(internal.methods) do
      if type(f) == "function" then
        found[#found + 1] = { name, function() return told_of(f) or "" end }
      end
    end
    return found, partial
  end
  if v == nil then return {}, partial end
  return names_in(p, v, mark == ":"), partial
end

local function candidates(p, text)
  local command, rest = text:match("^:(%a*)(.*)$")
  if command and rest == "" then return require("flame.prompt.commands").names(), command end
  if command == "help" or command == "doc" then
    local word = rest:match("^%s+([%w_.:]*)$")
    if word then return help_names(), word end
  end
  local list = words.of(command and rest or text)
  local w, partial, k = list[#list], "", #list + 1
  if w and w.open and w.kind == "string" then return in_string(list) end
  if w and w.kind == "comment" then return {}, "" end
  if w and (w.kind == "name" or w.kind == "keyword") and w.to == #(command and rest or text) then
    partial, k = w.text, #list
  end
  local b = list[k - 1]
  if b and (b.text == "." or b.text == ":") then return after_dot(p, list, k - 1, partial) end
  if b and (b.text == "{" or b.text == ",") then
    local call = options_call(list, k - 1)
    local found = call and options_at(p, list, call) or {}
    if #found > 0 then return found, partial end
  end
  return all_names(p), partial
end

-- ---- the answer ---------------------------------------------------------------------------------

local function common(list)
  local first, last = list[1][1], list[#list][1]
  local n = 0
  while n < #first and first:byte(n + 1) == last:byte(n + 1) do n = n + 1 end
  while n > 0 and (first:byte(n + 1) or 0) & 0xc0 == 0x80 do n = n - 1 end
  return first:sub(1, n)
end

-- Names in columns, in order downwards; of more than 'rows' lines the first, and how many names.
local function in_columns(p, list, columns, rows)
  local wide = 0
  for _, c in ipairs(list) do wide = math.max(wide, p.width(c[1]) + 2) end
  local across = math.max(columns // wide, 1)
  local down = (#list + across - 1) // across
  local lines = {}
  for i = 1, math.min(down, rows) do
    local line = {}
    for j = i, #list, down do
      line[#line + 1] = list[j][1] .. (" "):rep(wide - p.width(list[j][1]))
    end
    lines[i] = table.concat(line):gsub("%s+$", "")
  end
  if down > rows then lines[#lines + 1] = ("… %d in all"):format(#list) end
  return table.concat(lines, "\n")
end

local function listing(p, list, columns, rows)
  if #list > rows - 3 then return in_columns(p, list, columns, rows - 3) end
  local wide, lines = 0, {}
  for _, c in ipairs(list) do wide = math.max(wide, p.width(c[1])) end
  for i, c in ipairs(list) do
    local about = (c[2] and c[2]() or ""):gsub("%s*\n.*", " …")
    lines[i] = show.cut(p, c[1] .. (" "):rep(wide - p.width(c[1]) + 2) .. about,
      columns - 1):gsub("%s+$", "")
  end
  return table.concat(lines, "\n")
end

-- The sorted candidates that complete the end of a text; the part of them that is typed already;
-- the text that closes a candidate.
local function fitting(p, text)
  local list, partial, close = candidates(p, text)
  local fit = {}
  for _, c in ipairs(list) do
    local hidden = c[1]:sub(1, 1) == "_" and partial == ""
    if c[1]:sub(1, #partial) == partial and not hidden then fit[#fit + 1] = c end
  end
  table.sort(fit, function(a, b) return a[1] < b[1] end)
  return fit, partial, close
end

--- The candidates for the end of a text, and the part that is typed already.
function complete.matches(p, text)
  local fit, partial = fitting(p, text)
  for i, c in ipairs(fit) do fit[i] = c[1] end
  return fit, partial
end

function complete.complete(p, text, again, columns, rows)
  local fit, partial, close = fitting(p, text)
  if #fit == 0 then return nil end
  local new = text:sub(1, #text - #partial) .. common(fit)
  if #fit == 1 then new = new .. (fit[1][3] or close or "") end
  return new, again and #fit > 1 and listing(p, fit, columns, rows) or nil
end

return complete
