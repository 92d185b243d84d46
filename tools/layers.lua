--- layers: checks that files of src/ include only headers of the same folder and of earlier layers
-- ('order'), and Lua's headers only in src/lua and src/cli. Prints what is wrong; exit code 1 then.

local order = { "base", "tensor", "autograd", "kernel", "plan", "device", "group", "cpu", "cuda",
                "engine", "rule", "io", "text", "graph", "lua", "cli" }
local rank = {}
for i, name in ipairs(order) do rank[name] = i end

-- Folders inside a layer, in the order in which they may use each other. Files directly in the
-- layer's folder may use all of them; their headers are for other layers and tests.
local inner = {
  kernel = { "tree", "front", "facts", "ad", "lanes", "text" },
  cpu = { "vm", "state", "program", "gemm", "conv", "linalg", "fft", "sort", "scan", "attention" },
  cuda = { "api", "text", "driver", "compile", "library", "call" },
}
local inner_rank = {}
for layer, folders in pairs(inner) do
  for i, name in ipairs(folders) do inner_rank[layer .. "/" .. name] = i end
end

local lua_headers = {
  ["lua.h"] = true, ["lauxlib.h"] = true, ["lualib.h"] = true, ["luaconf.h"] = true,
}

local wrong = 0
local function complain(file, line, text)
  wrong = wrong + 1
  io.write(("%s:%d: %s\n"):format(file, line, text))
end

-- The rank of src/<path> among its layer's folders; the highest if it is in none of them.
local function place(path) return inner_rank[path:match("^([^/]+/[^/]+)/") or ""] or math.huge end

local function check_own(file, line, layer, header)
  local other = header:match("^([^/]+)/")
  if header == "flame.h" then return end
  if not other then
    complain(file, line, ('write "%s/%s": headers are named from src/'):format(layer, header))
  elseif not rank[other] then
    complain(file, line, ('"%s" is in no layer'):format(header))
  elseif rank[other] > rank[layer] then
    complain(file, line, ('"%s" includes "%s": %s comes after it'):format(layer, header, other))
  elseif other == layer and place(header) > place(file:match("^src/(.*)")) then
    complain(file, line, ('includes "%s", whose folder comes after its own'):format(header))
  end
end

local function check_file(file)
  local layer = file:match("^src/([^/]+)/")
  if layer and not rank[layer] then
    complain(file, 1, "the folder is in no layer: add it to docs/internals.md and to tools/layers.lua")
    return
  end
  local sub = file:match("^src/([^/]+/[^/]+)/")
  if sub and not inner_rank[sub] then
    complain(file, 1, "the folder has no place in its layer: add it to docs/internals.md and to tools/layers.lua")
  end
  local n = 0
  for text in io.lines(file) do
    n = n + 1
    local own = text:match('^%s*#%s*include%s*"([^"]+)"')
    local system = text:match("^%s*#%s*include%s*<([^>]+)>")
    local of_lua = lua_headers[own or system or ""]
    if of_lua then
      if layer ~= "lua" and layer ~= "cli" then
        complain(file, n, ("includes %s: only src/lua and src/cli know Lua"):format(own or system))
      end
    elseif own then
      if layer then check_own(file, n, layer, own)
      else complain(file, n, "flame.h includes nothing of ours") end
    end
  end
end

local list = assert(io.popen("find src -name '*.[ch]' -o -name '*.def' -o -name '*.inc' | LC_ALL=C sort"))
local count = 0
for file in list:lines() do
  count = count + 1
  check_file(file)
end
list:close()
io.write(("layers: %d files, %d wrong\n"):format(count, wrong))
os.exit(wrong == 0 and count > 0)
