--- abi write|check: the binary interface. tools/abi/list.txt lists every function of flame.h and
-- flame_lua.h with the version that brought it, the libraries that have it and its prototype, and
-- every public struct with the offsets of its fields. What is listed is never changed: 'write' adds
-- new functions, and refuses if a prototype has changed, a function is missing, or a struct differs
-- from the old one by more than further fields at its end. From the list it makes the version
-- scripts of the libraries (tools/abi/*.map) and the table of functions for C modules
-- (src/lua/flame_api.h). Run from the top of the tree.
local mode = arg[1] or "check"
local list_name = "tools/abi/list.txt"

local function read(name)
  local f = assert(io.open(name))
  local text = f:read("a")
  f:close()
  return text
end

local bad = false
local function wrong(...)
  print("abi: " .. string.format(...))
  bad = true
end

--- Prototypes of a header in order: { name =, text = }.
local function prototypes(name)
  local text = read(name):gsub("/%*.-%*/", " ")
  local out = {}
  for decl in text:gmatch("FLAME_API%s+([^;{#]-);") do
    local line = decl:gsub("%s+", " ")
    out[#out + 1] = { name = line:match("([%w_]+)%("), text = line }
  end
  return out
end

--- The functions that only libflame-full has: those between the comments <full> and </full> of
--- flame.h.
local function full_names()
  local part = read("src/flame.h"):match("/%* <full> %*/(.-)/%* </full> %*/")
  local names = {}
  for name in part:gsub("/%*.-%*/", " "):gmatch("([%w_]+)%(") do names[name] = true end
  return names
end

local function functions()
  local full, out = full_names(), {}
  for _, p in ipairs(prototypes("src/flame.h")) do
    p.of = full[p.name] and "full" or "core"
    out[#out + 1] = p
  end
  for _, p in ipairs(prototypes("src/lua/flame_lua.h")) do
    p.of = "lua"
    out[#out + 1] = p
  end
  return out
end

--- Public structs with the offsets of their fields, as this machine's C compiler lays them out.
local function structs()
  local text = read("src/flame.h"):gsub("/%*.-%*/", " ")
  local c = { "#include <stddef.h>", "#include <stdio.h>", "#include <flame.h>",
    "int main(void) {" }
  for body, name in text:gmatch("typedef struct [%w_]+ (%b{}) ([%w_]+);") do
    local fields = {}
    local plain = body:sub(2, -2):gsub("%b{}", "")
    for field in plain:gmatch("[^;]+") do
      local known = field:match("%(%*([%w_]+)%)")
      if known then
        fields[#fields + 1] = known
      elseif field:match("%S") then
        for one in field:gsub("%b[]", ""):gmatch("([%w_]+)%s*%f[,\0]") do
          fields[#fields + 1] = one
        end
      end
    end
    c[#c + 1] = ('printf("struct %s %%zu:", sizeof(%s));'):format(name, name)
    for _, field in ipairs(fields) do
      c[#c + 1] = ('printf(" %s %%zu", offsetof(%s, %s));'):format(field, name, field)
    end
    c[#c + 1] = 'puts("");'
  end
  c[#c + 1] = "return 0; }\n"
  local source = os.tmpname()
  local f = assert(io.open(source .. ".c", "w"))
  f:write(table.concat(c, "\n"))
  f:close()
  local cc = os.getenv("CC") or "cc"
  local command = ("%s -std=c11 -Isrc -o %s.x %s.c && %s.x"):format(cc, source, source, source)
  local pipe = assert(io.popen(command))
  local out = {}
  for line in pipe:lines() do out[#out + 1] = line end
  assert(pipe:close(), "the program of structs does not compile")
  for _, end_of in ipairs { "", ".c", ".x" } do os.remove(source .. end_of) end
  return out
end

-- ---- the list -----------------------------------------------------------------------------------

local head = [[
# The binary interface, in the order in which it came. Written by tools/abi/abi.lua write, which
# only adds. core: libflame, libflame-full and flame.so; full: these but libflame; lua: flame.so
# alone.
]]

local function read_list()
  local out = { functions = {}, structs = {}, by_name = {} }
  local f = io.open(list_name)
  for line in f and f:lines() or function() end do
    local version, of, text = line:match("^(FLAME_%S+) (%l+) (.+)$")
    if version then
      local p = { version = version, of = of, text = text, name = text:match("([%w_]+)%(") }
      out.functions[#out.functions + 1] = p
      out.by_name[p.name] = p
    elseif line:match("^struct ") then
      out.structs[#out.structs + 1] = line
    end
  end
  if f then f:close() end
  return out
end

local function version()
  return "FLAME_" .. read("src/flame.h"):match('FLAME_VERSION "(%d+%.%d+)')
end

--- The list with the functions added that only the headers have; reports those gone or changed.
local function merged()
  local list, there = read_list(), {}
  for _, p in ipairs(functions()) do
    there[p.name] = true
    local old = list.by_name[p.name]
    if not old then
      p.version = version()
      list.functions[#list.functions + 1] = p
      if mode == "check" then wrong("%s is not listed: run tools/abi/abi.lua write", p.name) end
    elseif old.text ~= p.text or old.of ~= p.of then
      wrong("%s was %s %s and is %s %s", p.name, old.of, old.text, p.of, p.text)
    end
  end
  for _, p in ipairs(list.functions) do
    if not there[p.name] then wrong("%s is gone", p.name) end
  end
  return list
end

local function merge_structs(list)
  local now = {}
  for _, line in ipairs(structs()) do now[line:match("^struct (%S+)")] = line end
  for i, line in ipairs(list.structs) do
    local name = line:match("^struct (%S+)")
    local fields = line:match(":(.*)")
    local new = now[name]
    now[name] = nil
    if not new then
      wrong("struct %s is gone", name)
    elseif new:match(":(.*)"):sub(1, #fields) ~= fields then
      wrong("struct %s was%s and is%s", name, fields, new:match(":(.*)"))
    elseif new ~= line then
      if mode == "check" then wrong("struct %s has grown: run tools/abi/abi.lua write", name) end
      list.structs[i] = new
    end
  end
  local more = {}
  for _, line in pairs(now) do more[#more + 1] = line end
  table.sort(more)
  for _, line in ipairs(more) do
    if mode == "check" then wrong("%s is not listed: run tools/abi/abi.lua write", line) end
    list.structs[#list.structs + 1] = line
  end
end

-- ---- files made from the list ------------------------------------------------------------------

local function text_of(list)
  local out = { head }
  for _, p in ipairs(list.functions) do
    out[#out + 1] = ("%s %s %s\n"):format(p.version, p.of, p.text)
  end
  for _, line in ipairs(list.structs) do out[#out + 1] = line .. "\n" end
  return table.concat(out)
end

--- A linker's version script: exports the functions of 'parts', by version, and nothing else.
local function map_of(list, parts)
  local out, versions, names = {}, {}, {}
  for _, p in ipairs(list.functions) do
    if parts[p.of] then
      if not names[p.version] then
        names[p.version] = {}
        versions[#versions + 1] = p.version
      end
      table.insert(names[p.version], p.name)
    end
  end
  for i, v in ipairs(versions) do
    out[#out + 1] = ("%s {\n  global:\n    %s;\n%s}%s;\n"):format(v,
      table.concat(names[v], ";\n    "), i == 1 and "  local: *;\n" or "",
      i > 1 and " " .. versions[i - 1] or "")
  end
  return "/* Written by tools/abi/abi.lua from tools/abi/list.txt: do not edit. */\n"
    .. table.concat(out)
end

local api_head = [[
/*
** flame_api.h: the functions of flame.h and flame_lua.h as a table, for C modules of Lua that are
** not linked with flame: the module flame.so, and flame-lua, leave its address in the registry.
** Written by tools/abi/abi.lua from tools/abi/list.txt: new functions come at the end, none goes.
**
**   lua_getfield(L, LUA_REGISTRYINDEX, "flame.api");
**   const flame_api *f = (const flame_api *)lua_touserdata(L, -1);
**   if (!FLAME_HAS(f, exp)) return luaL_error(L, "this needs a later flame");
**   flame_tensor *y = f->exp(x);
*/
#ifndef FLAME_API_H
#define FLAME_API_H
#ifndef FLAME_LUA_H
#error "include flame_lua.h before flame_api.h"
#endif

/* Has the table a function? It may be of an older flame. */
#define FLAME_HAS(f, name) \
  ((f)->bytes >= offsetof(flame_api, name) + sizeof (f)->name)

typedef struct flame_api {
  size_t bytes;                 /* of the table that is there */
]]

local function api_of(list)
  local out = { api_head }
  for _, p in ipairs(list.functions) do
    local short = p.name:gsub("^flame_", "")
    out[#out + 1] = ("  __typeof__(&%s) %s;\n"):format(p.name, short)
  end
  out[#out + 1] = "} flame_api;\n\n#ifdef FLAME_API_TABLE         /* in the module alone */\n"
    .. "static const flame_api flame_api_table = { sizeof(flame_api)"
  for _, p in ipairs(list.functions) do out[#out + 1] = (",\n  %s"):format(p.name) end
  out[#out + 1] = " };\n#endif\n#endif\n"
  return table.concat(out)
end

local list = merged()
merge_structs(list)
if bad and mode == "write" then
  print("abi: nothing is written")
  os.exit(1)
end
local made = {
  [list_name] = text_of(list),
  ["tools/abi/libflame.map"] = map_of(list, { core = true }),
  ["tools/abi/libflame-full.map"] = map_of(list, { core = true, full = true }),
  ["tools/abi/flame.map"] = map_of(list, { core = true, full = true, lua = true }),
  ["src/lua/flame_api.h"] = api_of(list),
}
for name, text in pairs(made) do
  local f = io.open(name)
  local old = f and f:read("a")
  if f then f:close() end
  if old ~= text then
    if mode == "write" then
      f = assert(io.open(name, "w"))
      f:write(text)
      f:close()
      print("wrote " .. name)
    else
      wrong("%s is stale: run tools/abi/abi.lua write", name)
    end
  end
end
print(("abi: %d functions, %d structs, %s"):format(#list.functions, #list.structs,
  bad and "wrong" or "fine"))
os.exit(bad and 1 or 0)
