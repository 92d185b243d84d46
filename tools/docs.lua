-- docs.lua: the last part of docs/ops.md, a list of all functions and methods there are. Run by
-- tools/docs from the top of the tree. Names that stand in no table are found by trying the
-- words of the sources on a tensor.
local flame = require "flame"

local x = flame.zeros(1)
local function is_method(name)
  local ok, value = pcall(function() return x[name] end)
  return ok and type(value) == "function"
end

local both, module, methods, in_place = {}, {}, {}, {}
local known = {}
local function sort_in(name, in_module)
  if known[name] then return end
  known[name] = true
  local method = is_method(name)
  if name:sub(-1) == "_" then
    if method then in_place[#in_place + 1] = name end
  elseif in_module and method then
    both[#both + 1] = name
  elseif in_module then
    module[#module + 1] = name
  elseif method then
    methods[#methods + 1] = name
  end
end

for name, value in pairs(flame) do
  if type(value) == "function" then
    sort_in(name, true)
    sort_in(name .. "_", false)
  end
  if type(value) == "table" and name ~= "internal" then
    for key in pairs(value) do module[#module + 1] = name .. "." .. key end
  end
end

local sources = assert(io.popen("cat src/lua/*.c lua/flame/core*.lua"))
local text = sources:read("a")
sources:close()
for word in text:gmatch('"([%a_][%w_]*)"') do sort_in(word, false) sort_in(word .. "_", false) end
for word in text:gmatch("methods%.([%a_][%w_]*)") do sort_in(word, false) end

local function section(title, what, names)
  table.sort(names)
  print(("\n### %s\n\n%s\n"):format(title, what))
  local line = ""
  for i, name in ipairs(names) do
    local item = "`" .. name .. "`" .. (i < #names and "," or "")
    if #line + #item + 1 > 98 then
      print(line)
      line = ""
    end
    line = line == "" and item or line .. " " .. item
  end
  print(line)
end

print("\n## All functions")
print("\nThe ops of the tables above and what is composed of them. A mistake in the arguments raises an")
print("error that says what is expected; see the [guide](guide.md) for the usual ones.")
section("Functions and methods", "`flame.name(x, …)` and `x:name(…)`.", both)
section("Functions", "`flame.name(…)`.", module)
section("Methods", "`x:name(…)`.", methods)
section("Writes", "Methods that change the value of `x` and return it.", in_place)
