--- flame.reload, flame.keep and flame-lua --watch: a module's file is run again while the program
--- runs. The contents of the table that it returns are copied into the existing tables, so existing
--- objects call the new methods, since their class is the same table.
--
--- Old and new tables are paired: the tables that the module returned, and classes below them with
--- the same key or in the same local of a function. Then, in the locals of new functions, new
--- tables are replaced by the old ones, and the functions are copied into the old tables.
local flame = require "flame"
local internal = flame.internal
local arguments = require "flame.base.arguments"
local fail = arguments.fail

-- ---- pairs --------------------------------------------------------------------------------------

-- Is t a table of functions: a class, or a module's table?
local function is_class(t)
  if type(t) ~= "table" then return false end
  local meta = getmetatable(t)
  if rawget(t, "__index") ~= nil then return true end
  if type(meta) == "table" and meta.__name == "class" then return true end
  if meta ~= nil then return false end
  for _, v in next, t do if type(v) == "function" then return true end end
  return false
end

-- Is f a function of a file outside of the library?
local function is_lua(f)
  if type(f) ~= "function" then return false end
  local info = debug.getinfo(f, "S")
  return info.what ~= "C" and info.source:sub(1, 1) == "@"
end

local pair

-- Pairs classes in locals (upvalues) of the same name of the functions old and new, and,
-- recursively, of functions in such locals.
local function pair_locals(r, old, new)
  if old == new or r.met[new] or not is_lua(old) or not is_lua(new) then return end
  r.met[new] = true
  local before = {}
  for i = 1, math.huge do
    local name, v = debug.getupvalue(old, i)
    if not name then break end
    before[name] = v
  end
  for i = 1, math.huge do
    local name, v = debug.getupvalue(new, i)
    if not name then return end
    if name ~= "_ENV" then pair(r, before[name], v) end
  end
end

function pair(r, old, new)
  if old == new or r.own[new] or old == nil or new == nil then return end
  if type(old) == "function" then return pair_locals(r, old, new) end
  if r.old[new] or r.list[1] and not (is_class(old) and is_class(new)) then return end
  r.old[new] = old
  r.list[#r.list + 1] = new
  for key, v in next, new do pair(r, rawget(old, key), v) end
  local a, b = getmetatable(old), getmetatable(new)
  if type(a) == "table" and type(b) == "table" and a ~= b and not r.own[b] then
    r.old[b] = a
    r.list[#r.list + 1] = b
    for key, v in next, b do pair(r, rawget(a, key), v) end
  end
end

-- ---- putting old tables into new functions -----------------------------------------------------

local renew

local function renew_function(r, f)
  for i = 1, math.huge do
    local name, v = debug.getupvalue(f, i)
    if not name then return end
    if r.old[v] then debug.setupvalue(f, i, r.old[v])
    elseif name ~= "_ENV" then renew(r, v) end
  end
end

local function renew_table(r, t)
  for key, v in next, t do
    if r.old[v] and not r.old[t] then rawset(t, key, r.old[v]) else renew(r, v) end
  end
  local meta = getmetatable(t)
  if r.old[meta] and not r.old[t] then setmetatable(t, r.old[meta])
  elseif type(meta) == "table" then renew(r, meta) end
end

--- Replaces new tables by the old ones paired with them, in all that v reaches and this load made.
function renew(r, v)
  local kind = type(v)
  if kind ~= "table" and kind ~= "function" or r.seen[v] or r.own[v] or r.live[v] then return end
  r.seen[v] = true
  if kind == "table" then renew_table(r, v) elseif is_lua(v) then renew_function(r, v) end
end

local plain = { number = true, string = true, boolean = true, ["function"] = true }

-- Copies functions and plain values into the old table, removes other functions.
local function put(r, old, new)
  for key, v in next, new do
    local have = rawget(old, key)
    v = r.old[v] or v
    if plain[type(v)] or have == nil then rawset(old, key, v)
    elseif key == "__index" or key == "__newindex" then rawset(old, key, v) end
  end
  for key, v in next, old do
    if type(v) == "function" and rawget(new, key) == nil then rawset(old, key, nil) end
  end
end

-- The set of tables and functions that the load did not make: the library, globals, other modules.
local function others(name)
  local own = { [_G] = true, [package.loaded] = true }
  for key, v in pairs(package.loaded) do
    if key ~= name and (type(v) == "table" or type(v) == "function") then own[v] = true end
  end
  for _, v in next, flame do if type(v) == "table" then own[v] = true end end
  own[internal] = true
  return own
end

-- Copies 'new', the table that the file of module 'name' has returned now, into 'old'. r.old: new
-- table -> its old one; list: these new tables in order; live: the set of the old ones; met, seen:
-- what 'pair' and 'renew' have visited; own: what this load did not make.
local function take_over(name, old, new)
  local r = { old = {}, list = {}, met = {}, seen = {}, live = {}, own = others(name) }
  pair(r, old, new)
  for _, t in pairs(r.old) do r.live[t] = true end
  renew(r, new)
  for _, t in ipairs(r.list) do renew(r, t) end
  for _, t in ipairs(r.list) do put(r, r.old[t], t) end
end

-- ---- modules ------------------------------------------------------------------------------------

local stamps, kept = {}, {}                     -- by path; by path and name

local function path_of(name)
  if not package then fail("reload", "this state has no modules of files") end
  if type(name) ~= "string" or name:find "^flame%f[.\0]" or package.preload[name] then
    return nil
  end
  return package.searchpath(name, package.path)
end

-- A value for a <close> variable: if the file raises, it restores the values of flame.keep and the
-- entry of package.loaded.
local function undo(name)
  local before, old = {}, package.loaded[name]
  for file, list in next, kept do
    before[file] = {}
    for key, v in next, list do before[file][key] = v end
  end
  return setmetatable({}, { __close = function(_, failed)
    if failed ~= nil then kept, package.loaded[name] = before, old end
  end })
end

-- Runs the module's file again; if it raises, nothing has changed.
local function reload(name, path)
  stamps[path] = internal.io_stamp(path)
  local ok, load, where = pcall(package.searchers[2], name)
  if not ok or type(load) ~= "function" then
    fail("reload", "%s", tostring(load):match("\n\t(.*)") or tostring(load))
  end
  local old = package.loaded[name]
  local _ <close> = undo(name)
  local new = load(name, where)
  if new == nil then new = package.loaded[name] end
  if type(old) == "table" and type(new) ~= "table" then
    fail("reload", "module '%s' returned a table and returns a %s now\1: what uses the old one "
      .. "would not see it", name, type(new))
  end
  if type(old) == "table" and type(new) == "table" then
    if old ~= new then take_over(name, old, new) end
    package.loaded[name] = old
  elseif new ~= nil then
    package.loaded[name] = new
  end
  return package.loaded[name]
end

local function changed()
  local list = {}
  for name in pairs(package.loaded) do
    local path = path_of(name)
    local stamp = path and internal.io_stamp(path)
    if stamp and stamps[path] and stamps[path] ~= stamp then list[#list + 1] = { name, path } end
    if path and not stamps[path] then stamps[path] = stamp end
  end
  table.sort(list, function(a, b) return a[1] < b[1] end)
  return list
end

--- Runs the module's file again. Functions, classes, numbers, strings and booleans of the table
--- that it returns are put into the existing table, so objects of its classes have the new methods;
--- other values are kept, and locals are initialised again, except values of flame.keep. An error
--- in the file is raised, and then nothing has changed. Without a name: all modules whose files
--- changed since the last time. Returns the module, or a list of their names.
arguments.def(".reload(module?: str) -> any", function(name)
  if name then
    if package.loaded[name] == nil then
      fail("reload", "module '%s' is not loaded\1: require it first", name)
    end
    local path, why = path_of(name)
    if not path then fail("reload", "module '%s' is not in a file of Lua%s", name,
      why and "\n\t" .. why or "") end
    return reload(name, path)
  end
  local names = {}
  for i, m in ipairs(changed()) do
    names[i] = m[1]
    reload(m[1], m[2])
  end
  return names
end)

local function file_of_caller()
  for level = 2, math.huge do
    local info = debug.getinfo(level, "S")
    if not info then return "" end
    if info.source:find "^@" then return info.source end
  end
end

--- In a module: a value that outlives flame.reload. The first time it is init, or what init
--- returns; later it is the value from before.
arguments.def(".keep(name: str, init: any) -> any", function(name, init)
  local file = file_of_caller()
  kept[file] = kept[file] or {}
  if kept[file][name] == nil then
    if type(init) == "function" then init = init() end
    kept[file][name] = init
  end
  return kept[file][name]
end)

-- ---- flame-lua --watch --------------------------------------------------------------------------

local last

-- At the end of an optimiser's step: from time to time looks for changed files and reloads them.
local function look()
  local now = internal.io_now()
  if last and now - last < 0.2 then return end
  last = now
  for _, m in ipairs(changed()) do
    local ok, why = pcall(reload, m[1], m[2])
    io.stderr:write(ok and ("flame: reloaded %s\n"):format(m[2])
      or ("flame: %s: the old one goes on\n"):format(tostring(why)))
  end
end
function internal.watch() internal.after_step = look end
