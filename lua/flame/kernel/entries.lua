--- Several kernels of one text: flame.kernel(source, {entry = {"a", b = {block = 64}}}). The text
-- is parsed once, and kernels that a GPU compiles as they are written are compiled together. They
-- share the variables of file scope that k:constant sets.
local internal = require("flame").internal
local arguments = require "flame.base.arguments"
local objects = require "flame.base.objects"
local fail = arguments.fail

-- The options that may differ, and those of the whole text.
local OWN = { block = true, grid = true, threads = true, shared = true, shape = true, inout = true,
  vjp = true, nodiff = true }
local WHOLE = { source = true, options = true, include = true, constants = true }

local Kernels = { __name = "flame.kernels" }

local function names(t)
  local list = {}
  for name in pairs(t) do list[#list + 1] = tostring(name) end
  table.sort(list)
  return table.concat(list, ", ")
end
Kernels.__index = function(self, name)
  if type(name) == "string" and require("flame.kernel.methods").Kernel[name] then
    fail("kernel", "%s is of a kernel, and these are several\1: write k.%s:%s(…)", name,
      names(self):match("[^,]+"), name)
  end
  fail("kernel", "there is no kernel '%s' among: %s", tostring(name), names(self))
end
Kernels.__call = function(self)
  fail("kernel", "these are several kernels\1: call one of them by name: %s", names(self))
end
Kernels.__tostring = function(self) return "flame.kernels " .. names(self) end

-- An item of 'entry' as {key, its entry, its options}. key: a name, or a position.
local function item_of(key, item)
  local word = math.type(key) and ("entry[%d]"):format(key) or "entry." .. tostring(key)
  local name, options = item, {}
  if type(item) == "table" then
    name, options = item[1], item
    if name == nil and type(key) == "string" then name = key end
  end
  if type(name) ~= "string" then
    fail("kernel", "%s must be the name of a kernel, or {name, block = …}, got %s", word,
      arguments.word(name))
  end
  for option in pairs(options) do
    if WHOLE[option] then
      fail("kernel", "%s has '%s', which is for the whole text\1: give it beside entry", word, option)
    elseif option ~= 1 and not OWN[option] then
      objects.no_option("kernel", tostring(option), OWN)
    end
  end
  if math.type(key) then
    key = name:match("([%a_][%w_]*)%s*<") or name:match("([%a_][%w_]*)%s*$")
  end
  return { key = key or name, name = name, options = options }
end

-- The items in order: those of the list, then the others by name.
local function items_of(entry)
  local list, keys, taken = {}, {}, {}
  for i, item in ipairs(entry) do list[i] = item_of(i, item) end
  for key, item in pairs(entry) do
    if type(key) == "string" then keys[#keys + 1] = item_of(key, item)
    elseif not math.type(key) or key < 1 or key > #list then
      fail("kernel", "entry has the key %s\1: give a list, or names", tostring(key))
    end
  end
  table.sort(keys, function(a, b) return a.key < b.key end)
  table.move(keys, 1, #keys, #list + 1, list)
  if #list == 0 then fail("kernel", "entry is an empty table\1: name a kernel of the source") end
  for _, item in ipairs(list) do
    if taken[item.key] then
      fail("kernel", "entry has '%s' twice\1: give each a name, entry = {one = \"%s\", two = \"%s\"}",
        item.key, taken[item.key], item.name)
    end
    taken[item.key] = item.name
  end
  return list
end

-- The options of one item: its own in place of those for all.
local function options_of(o, item)
  local own = { entry = item.name, names = {} }
  for name, v in pairs(o) do if name ~= "entry" then own[name] = v end end
  if item.options.grid ~= nil then own.threads = nil end
  if item.options.threads ~= nil then own.grid = nil end
  for name in pairs(OWN) do
    if item.options[name] ~= nil then own[name] = item.options[name]
    else own.names[name] = o.open[name] end
  end
  return own
end

--- The kernels of the table o.entry, by name. one(options): makes one of them.
local function new(o, one)
  local set = {}
  o.parsed, o.open = { memory = {} }, {}
  for _, what in ipairs { "inout", "nodiff" } do
    o.open[what] = {}
    local list = type(o[what]) == "table" and o[what] or {}
    for _, name in ipairs(list) do o.open[what][name] = true end
  end
  local read = true                            -- parameters of templates are known at a call
  for _, item in ipairs(items_of(o.entry)) do
    set[item.key] = one(options_of(o, item))
    read = read and internal.is_kernel(set[item.key])
  end
  for what, open in pairs(read and o.open or {}) do
    if next(open) ~= nil then
      fail("kernel", "%s: no kernel has a parameter '%s' that it fits", what, tostring(next(open)))
    end
  end
  return setmetatable(set, Kernels)
end

return { new = new }
