--- flame-lua --bundle OUT script.lua [files]: finds the parts of a bundle. src/cli/bundle.c does
--- the rest, and provides the functions that write parts and read a text.

local SCRIPT, MODULE, FILE = 0, 1, 2

-- The position after the string, comment or long bracket at i; nil: none begins there.
local function after_text(s, i)
  local comment = s:match("^%-%-()", i)
  local equals = s:match("^%[(=*)%[", comment or i)
  if equals then
    local _, last = s:find("]" .. equals .. "]", i, true)
    return (last or #s) + 1
  end
  if comment then return (s:find("\n", i, true) or #s) + 1 end
  local quote = s:match("^[\"']", i)
  if not quote then return nil end
  local k = i + 1
  while k <= #s do
    local c = s:sub(k, k)
    if c == quote then return k + 1 end
    k = k + (c == "\\" and 2 or 1)
  end
  return k
end

-- Names of modules that a text requires by a literal: name -> line; the line is negative if the
-- module may be missing (pcall(require, "x")).
local function required(s)
  local names, i = {}, 1
  while i <= #s do
    i = s:find("[%a_%-%[\"']", i)
    if not i then break end
    local word, past = s:match("^[%a_][%w_]*", i), after_text(s, i)
    if word == "require" and not s:sub(1, i - 1):find("[.:]%s*$") then
      local _, name = s:match("^%s*%(?%s*([\"'])([^\"'\n]+)%1", i + 7)
      local _, maybe = s:match("^%s*,%s*([\"'])([^\"'\n]+)%1", i + 7)
      local line = select(2, s:sub(1, i):gsub("\n", "")) + 1
      if name then names[name] = line
      elseif maybe then names[maybe] = names[maybe] or -line end
    end
    i = past or i + (word and #word or 1)
  end
  return names
end

local function short(path) return (path:gsub("^%./", "")) end

-- Adds the modules that the file at 'path' requires, and those that they require.
local function follow(b, path)
  for name, line in pairs(required(b.read(path))) do
    local own = package.loaded[name] or package.preload[name] or name:find "^flame%."
    if not own and not b.known[name] then
      b.known[name] = true
      local found = package.searchpath(name, package.path)
      local object = not found and package.searchpath(name, package.cpath)
      if object then
        error(("bundle: %s:%d: module '%s' is a shared object, %s, which a bundle can not hold")
          :format(path, math.abs(line), name, object), 0)
      elseif found then
        b.add(name, found, MODULE)
        follow(b, found)
      elseif line > 0 then
        error(("bundle: %s:%d: there is no module '%s'"):format(path, line, name), 0)
      end
    end
  end
end

-- --bundle: write(out, names, paths, kinds) writes the bundle, read(path) gives a file's text.
local function make(write, read, out, script, ...)
  local names, paths, kinds, taken = {}, {}, {}, {}
  if not script then error("bundle: need flame-lua --bundle OUT script.lua [files]", 0) end
  local b = { known = {}, read = read }
  function b.add(name, path, kind)
    if taken[kind .. name] then error(("bundle: %s is named twice"):format(name), 0) end
    if short(path) == short(out) then error("bundle: " .. out .. " would be written over", 0) end
    taken[kind .. name] = true
    names[#names + 1], paths[#paths + 1], kinds[#kinds + 1] = name, path, kind
  end
  b.add(short(script), script, SCRIPT)
  follow(b, script)
  for _, path in ipairs { ... } do
    if path:find "%.so[%d.]*$" then
      error(("bundle: %s is a shared object, which a bundle can not hold"):format(path), 0)
    end
    b.add(short(path), path, FILE)
    if path:find "%.lua$" then follow(b, path) end
  end
  write(out, names, paths, kinds)
end

-- --bundle-check: list(path) gives the parts of a bundle, {name, bytes, is it as it was bundled?}.
local function check(list, _, path, more)
  if not path or more then error("bundle: need flame-lua --bundle-check FILE", 0) end
  local bad
  for _, e in ipairs(list(path)) do
    print(("%-9s %12d  %s"):format(e[3] and "good" or "DAMAGED", e[2], e[1]))
    bad = bad or not e[3] and e[1]
  end
  if bad then error(("bundle: %s: '%s' is not what was bundled"):format(path, bad), 0) end
end

return function(checks, f, ...) return (checks and check or make)(f, ...) end
