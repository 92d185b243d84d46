--- Modules: parameters in a tree, found by name, and the layers built from them.
-- A module is a table whose metatable is its class. Assignments to a module are noted in the order
-- of first assignment: parameters (nn.Parameter), buffers (nn.Buffer), modules, and plain lists of
-- those. Parameters and buffers are kept outside the module's table, so that each assignment to
-- their names is seen. Names are dotted paths with 1-based list positions: "blocks.1.norm.weight".
-- Layouts, defaults, initialisation and the order of arguments are PyTorch's. Constructors, calls
-- and methods are declared (src/lua/declare.h). nn/layers.lua: containers and the first layers;
-- nn/norm.lua, nn/activation.lua, nn/loss.lua; nn/attention.lua, nn/transformer.lua;
-- nn/initialise.lua: nn.init, nn.utils; nn/packed.lua and nn/rnn.lua: sequences; nn/copy.lua and
-- nn/average.lua: whole networks; nn/parametrize.lua, nn/gated.lua, nn/grouped.lua, nn/lora.lua;
-- nn/fields.lua: the values of names; nn/lazy.lua: layers that take their input's size from the
-- first input, weights made of others.
local flame = require "flame"
local dtypes = require "flame.base.dtypes"
local func = require "flame.autograd.func"
local objects = require "flame.base.objects"

local nn = {}

--- Raises the message at the line of the script, however deep in the library it is called.
local function fail(message, ...) flame.internal.fail("", message:format(...)) end

local order = setmetatable({}, { __mode = "k" })     -- module -> list of keys as first assigned
-- tensor -> "parameter", "buffer" or, for a buffer that is not in state_dict, "passing"
local kinds = setmetatable({}, { __mode = "k" })
local hooks = setmetatable({}, { __mode = "k" })     -- module -> {before = {…}, after = {…}}

local declare = flame.internal.declare

--- Adds a function to the table t; text declares its name and arguments (src/lua/declare.h). name:
--- what messages call it, by default the declared name.
local function put(t, text, f, name)
  local key = text:match("([%w_]+)%(")
  t[key] = declare(text, name or "", f)
end

--- Marks a tensor as a parameter: it is tracked, and found by module:parameters(). A view is copied
--- first, since views can not be written.
put(nn, "nn.Parameter(x: T, requires_grad = true) -> T", function(x, requires_grad)
  if not x.is_leaf then x = x:detach() end
  if flame.internal.is_view(x) then x = x:detach():clone() end
  if requires_grad then x:requires_grad_(true) end
  kinds[x] = "parameter"
  return flame.internal.hold(x)                        -- scopes do not close it
end)

--- Marks a tensor as part of a module's state that is not trained; with persistent = false it is
--- not in state_dict.
put(nn, "nn.Buffer(x: T, persistent = true) -> T", function(x, persistent)
  if flame.internal.is_view(x) then x = x:detach():clone() end
  kinds[x] = persistent and "buffer" or "passing"
  return flame.internal.hold(x)
end)

-- ---- Module ------------------------------------------------------------------------------

---@class flame.Module
---@field training boolean
local Module = {}
Module.__name = "Module"
--- The parent of all modules; nn.Module.extend(name) makes a class.
nn.Module = setmetatable(Module, { __call = function()
  fail('Module\1: make a class of your own first: local Net = nn.Module.extend("Net"), then Net(…)')
end })
objects.classes.Module = Module

local fields = require "flame.nn.fields"(order, kinds, fail,
  function(...) return nn.Buffer(...) end)
local marked, field, settled = fields.marked, fields.field, fields.settled

local function is_module(x)
  return type(x) == "table" and order[x] ~= nil
end

local function construct(class, ...)
  local self = setmetatable({}, class)
  order[self] = {}
  rawset(self, "training", true)
  local init = class.init
  if init then init(self, ...) end
  return self
end

-- Calls a module with hooks: those before the call may replace the arguments, those after it the
-- first result.
local function call_hooked(self, ...)
  local args = table.pack(...)
  for _, f in ipairs(hooks[self].before) do
    local new = f(self, args)
    if new ~= nil then
      args = type(new) == "table" and table.pack(table.unpack(new, 1, new.n or #new))
        or table.pack(new)
    end
  end
  local out = table.pack(self:forward(table.unpack(args, 1, args.n)))
  for _, f in ipairs(hooks[self].after) do
    local new = f(self, args, out[1])
    if new ~= nil then out[1] = new end
  end
  return table.unpack(out, 1, out.n)
end

local function extend(name, parent)
  parent = parent or Module
  local class = setmetatable({}, { __index = parent, __call = construct, __name = "class" })
  class.__name = name
  fields.give(class)
  class.__call = function(self, ...)
    if hooks[self] then return call_hooked(self, ...) end
    return self:forward(...)
  end
  class.__tostring = function(self) return self:describe() end
  return class
end

--- A new class of modules: class(…) makes one and runs class.init; module(…) runs class.forward.
--- It inherits the functions of its parent, nn.Module or another class; Parent:extend(name) is the
--- same.
Module.extend = declare("Module.extend(name: str, parent?: table) -> table\n"
  .. "Module.extend(parent: table, name: str) -> table", "",
  extend, function(parent, name) return extend(name, parent) end)

--- Makes a class of the library in flame.nn or in the table 'into'. text: the declaration of its
--- constructor; init gets the module, then the parameters.
local function class(text, init, parent, into)
  local name = text:match("([%w_]+)%(")
  local made = extend(name, parent)
  made.init, made.constructor = declare("new " .. text, "", init), text
  local t = into or nn
  t[name] = made
  return made
end
--- Declares a call of a module of the class; messages use the class's name.
local function call(made, text, f)
  made.forward = declare(made.__name .. ":forward" .. text, made.__name, f)
end
flame.internal.module_class, flame.internal.module_call = class, call

--- What module(…) computes; each class defines its own.
function Module.forward(...)
  local name = getmetatable((...)).__name
  fail("%s has no forward\1: define function %s:forward(…)", name, name)
end

local function add_hook(self, place, f)
  hooks[self] = hooks[self] or { before = {}, after = {} }
  local list = hooks[self][place]
  list[#list + 1] = f
  return { remove = function()
    for i, g in ipairs(list) do if g == f then table.remove(list, i) return end end
  end }
end

--- f(module, arguments, result) runs after each forward; a value that it returns replaces the
--- result. Returns a table with remove().
put(Module, "Module:register_forward_hook(f: fn) -> table",
  function(self, f) return add_hook(self, "after", f) end)
--- f(module, arguments) runs before each forward; values that it returns replace the arguments.
--- Returns a table with remove().
put(Module, "Module:register_forward_pre_hook(f: fn) -> table",
  function(self, f) return add_hook(self, "before", f) end)

-- ---- modules and parameters of a tree ----------------------------------------------------------

-- Calls visit(path, value) for every marked tensor and module below a module, in order. With prefix
-- nil paths are nil, which saves most of the work. Shared values are visited once; 'again', if
-- given, is called with the further paths of shared tensors. 'above': the shared modules that are
-- being walked for these paths.
local function walk(self, visit, prefix, seen, again, above)
  local function item(path, value)
    local tensor = marked(value)
    if not tensor and not is_module(value) then return end
    if seen[value] then
      if again and tensor then again(path, value)
      elseif again and not (above and above[value]) then
        local function further(name, x) if marked(x) then again(name, x) end end
        walk(value, further, path .. ".", { [value] = true }, again,
          setmetatable({ [value] = true }, { __index = above }))
      end
      return
    end
    seen[value] = true
    visit(path, value)
    if not tensor then walk(value, visit, path and path .. ".", seen, again, above) end
  end
  local met = {}                               -- a key set again after nil is twice in order[self]
  for _, key in ipairs(order[self] or {}) do
    local value = not met[key] and settled(self, key) or nil
    met[key] = true
    if type(value) == "table" and order[value] == nil then
      if not getmetatable(value) and not seen[value] then
        seen[value] = true
        for i, part in ipairs(value) do
          item(prefix and prefix .. tostring(key) .. "." .. i, part)
        end
      end
    else
      item(prefix and prefix .. tostring(key), value)
    end
  end
end

--- A list of {name, tensor} for the parameters and buffers below; wanted: set of kinds, nil: all.
local function collect(self, wanted, again)
  local list = {}
  walk(self, function(path, value)
    if type(value) == "userdata" and (wanted == nil or wanted[kinds[value]]) then
      list[#list + 1] = { path, value }
    end
  end, "", { [self] = true }, again)
  return list
end
--- The list of the parameters or buffers below a module whose kind is in the set 'wanted'.
local function tensors_of(self, wanted)
  local list = {}
  walk(self, function(_, value)
    if type(value) == "userdata" and wanted[kinds[value]] then list[#list + 1] = value end
  end, nil, { [self] = true })
  return list
end
local parameters_only, buffers_only, saved_only = { parameter = true },
  { buffer = true, passing = true },
  { parameter = true, buffer = true }

-- Metatable of a list that 'for v in list do' can iterate over as well; list() gives the next one.
local each_value = { __call = function(self, ...)
  local i, before = rawget(self, 0) or 0, (select(2, ...))
  if select("#", ...) >= 2 and (before == nil or before ~= self[i]) then    -- begins, or nested
    i = before == nil and 0 or #self
    for k, v in ipairs(self) do if v == before then i = k end end
  end
  self[0] = i + 1
  return self[i + 1]
end }
local function values_of(list)
  local out = {}
  for i, entry in ipairs(list) do out[i] = entry[2] end
  return out
end

-- Metatable of an iterator over names and values: for name, value in it do, or pairs(it).
local each_pair = {}
each_pair.__index = each_pair
each_pair.__len = function(self) return #self.list end
each_pair.__call = function(self)
  self.at = self.at + 1
  local entry = self.list[self.at]
  if entry then return entry[1], entry[2] end
end
each_pair.__pairs = function(self) return setmetatable({ list = self.list, at = 0 }, each_pair) end
local function pairs_of(list) return setmetatable({ list = list, at = 0 }, each_pair) end

--- Parameters in the order of first assignment, shared ones once.
put(Module, "Module:parameters() -> T[]",
  function(self) return tensors_of(self, parameters_only) end)

--- Buffers in order of first assignment.
put(Module, "Module:buffers() -> T[]",
  function(self) return tensors_of(self, buffers_only) end)

--- for name, parameter in net:named_parameters() do … end
put(Module, "Module:named_parameters() -> fn",
  function(self) return pairs_of(collect(self, parameters_only)) end)

--- for name, buffer in net:named_buffers() do … end
put(Module, "Module:named_buffers() -> fn",
  function(self) return pairs_of(collect(self, buffers_only)) end)

local function modules_below(self)
  local list = { { "", self } }
  walk(self, function(path, value)
    if type(value) == "table" then list[#list + 1] = { path, value } end
  end, "", { [self] = true })
  return list
end

--- for name, module in net:named_modules() do … end; the module itself comes first, as "".
put(Module, "Module:named_modules() -> fn", function(self) return pairs_of(modules_below(self)) end)

--- The module and all below it: a list, or for module in net:modules() do … end.
put(Module, "Module:modules() -> Module[]",
  function(self) return setmetatable(values_of(modules_below(self)), each_value) end)

local function children_of(self)
  local list, direct = {}, {}
  for _, entry in ipairs(modules_below(self)) do
    local name = entry[1]
    local above = name:match("^(.*)%.[^.]*$")
    if name ~= "" and not (above and direct[above]) then
      local inside = false
      while above and not inside do
        inside, above = direct[above] == true, above:match("^(.*)%.[^.]*$")
      end
      if not inside then
        list[#list + 1] = entry
        direct[name] = true
      end
    end
  end
  return list
end

--- The modules that the module itself holds, with their names.
put(Module, "Module:named_children() -> fn", function(self) return pairs_of(children_of(self)) end)
--- The modules that the module itself holds: a list, or for child in net:children() do … end.
put(Module, "Module:children() -> Module[]",
  function(self) return setmetatable(values_of(children_of(self)), each_value) end)

local function at_path(self, path, what)
  local value = self
  for part in tostring(path):gmatch("[^.]+") do
    value = type(value) == "table" and field(value, math.tointeger(tonumber(part)) or part) or nil
  end
  if value == nil then fail("%s: there is no %s", getmetatable(self).__name, tostring(path)) end
  if what == "module" and not is_module(value) or what ~= "module" and not kinds[value] then
    fail("%s: %s is no %s", getmetatable(self).__name, tostring(path), what)
  end
  return value
end
--- The module at a dotted path; raises if there is none.
put(Module, "Module:get_submodule(path: str|int) -> Module",
  function(self, path) return at_path(self, path, "module") end)
--- The parameter at a dotted path.
put(Module, "Module:get_parameter(path: str|int) -> T",
  function(self, path) return at_path(self, path, "parameter") end)
--- The buffer at a dotted path.
put(Module, "Module:get_buffer(path: str|int) -> T",
  function(self, path) return at_path(self, path, "buffer") end)

--- As self[name] = nn.Buffer(x, persistent).
put(Module, "Module:register_buffer(name: str|int, x?: T, persistent = true)",
  function(self, name, x, persistent) self[name] = x and nn.Buffer(x, persistent) or nil end)
--- As self[name] = nn.Parameter(x).
put(Module, "Module:register_parameter(name: str|int, x?: T)", function(self, name, x)
  self[name] = x and (kinds[x] == "parameter" and x or nn.Parameter(x)) or nil
end)
--- As self[name] = module.
put(Module, "Module:add_module(name: str|int, module?: Module)",
  function(self, name, module) self[name] = module end)
Module.register_module = Module.add_module

-- ---- state --------------------------------------------------------------------------------------

-- Adds 'by' to the list positions in a name: "blocks.0.weight" gives "blocks.1.weight" for by = 1.
local function moved(name, by)
  return (("." .. name .. "."):gsub("%.(%d+)%f[.]", function(i)
    local n = math.tointeger(i) + by
    if n < 0 then fail("state_dict: %s counts from 0 as it is: leave out zero_based", name) end
    return "." .. n
  end):sub(2, -2))
end

--- A snapshot of all parameters and persistent buffers by name; training does not change it. With
--- zero_based, names count lists from 0 and shared tensors have all their names, so that
--- PyTorch loads it.
put(Module, "Module:state_dict(*, zero_based = false) -> table", function(self, zero_based)
  local out = {}
  local function take(name, x)
    if saved_only[kinds[x]] then out[zero_based and moved(name, -1) or name] = x:detach() end
  end
  for _, entry in ipairs(collect(self, saved_only, zero_based and take or nil)) do
    take(entry[1], entry[2])
  end
  return out
end)

local function some(names)
  local text = table.concat(names, ", ", 1, math.min(#names, 8))
  return #names > 8 and ("%s and %d more"):format(text, #names - 8) or text
end

local function complaints(wrong, missing, surplus)
  local text = table.move(wrong, 1, #wrong, 1, {})
  if #missing > 0 then text[#text + 1] = "missing " .. some(missing) end
  if #surplus > 0 then text[#text + 1] = "not in the module " .. some(surplus) end
  return table.concat(text, "; ")
end

-- Pairs {saved tensor, its value in 'given'}; the names that 'given' lacks; others; complaints.
local function match(self, given)
  local known, also, missing, wrong, pairs_found = {}, {}, {}, {}, {}
  local entries = collect(self, saved_only, function(path, x)
    known[path] = true
    also[x] = also[x] or {}
    table.insert(also[x], path)
  end)
  for _, entry in ipairs(entries) do
    local name, x = entry[1], entry[2]
    local value = given[name]
    for _, other in ipairs(also[x] or {}) do if value == nil then value = given[other] end end
    known[name] = true
    if value == nil then
      missing[#missing + 1] = name
    elseif not flame.is_tensor(value) then
      wrong[#wrong + 1] = ("%s is a %s, need a tensor"):format(name, type(value))
    else
      local want, have = table.concat(x.shape, ", "), table.concat(value.shape, ", ")
      if want ~= have then
        wrong[#wrong + 1] = ("%s is (%s) in the file and (%s) in the module"):format(
          name, have, want)
      end
      pairs_found[#pairs_found + 1] = { x, value }
    end
  end
  local surplus = {}
  for name in pairs(given) do if not known[name] then surplus[#surplus + 1] = tostring(name) end end
  table.sort(surplus)
  return pairs_found, missing, surplus, wrong
end

--- Copies values into the module's tensors; names must be the same, unless strict = false. With
--- zero_based, names count lists from 0, as PyTorch's do. After an error nothing has changed.
--- Returns {missing_keys = {…}, unexpected_keys = {…}}.
put(Module, "Module:load_state_dict(state: table, strict = true, *, zero_based = false) -> table",
  function(self, state, strict, zero_based)
  local given = {}
  for name, value in pairs(state) do
    given[zero_based and moved(tostring(name), 1) or name] = value
  end
  local found, missing, surplus, wrong = match(self, given)
  if #wrong > 0 or strict and (#missing > 0 or #surplus > 0) then
    fail("load_state_dict: %s",
      complaints(wrong, strict and missing or {}, strict and surplus or {}))
  end
  flame.no_grad(function()
    for _, pair in ipairs(found) do
      local x, value = pair[1], pair[2]
      if value:is_floating_point() and not x:is_floating_point() then value = value:to(x.dtype) end
      x:copy_(value:to(x.device))
    end
  end)
  return { missing_keys = missing, unexpected_keys = surplus }
end)

--- Training mode for the module and all below it.
put(Module, "Module:train(mode = true) -> self", function(self, on)
  for _, entry in ipairs(modules_below(self)) do rawset(entry[2], "training", on) end
  return self
end)

--- Evaluation mode for the module and all below it: no dropout, running statistics.
put(Module, "Module:eval() -> self", function(self) return self:train(false) end)

--- Calls f on every module below and then on the module itself.
put(Module, "Module:apply(f: fn) -> self", function(self, f)
  for _, entry in ipairs(children_of(self)) do entry[2]:apply(f) end
  f(self)
  return self
end)

--- Sets .grad of every parameter to nil; set_to_none = false fills them with 0 instead.
put(Module, "Module:zero_grad(set_to_none = true)", function(self, set_to_none)
  func.zero_grad(self:parameters(), set_to_none)
end)

--- Makes every parameter tracked, or untracked.
put(Module, "Module:requires_grad_(requires_grad = true) -> self", function(self, on)
  for _, p in ipairs(self:parameters()) do p:requires_grad_(on) end
  return self
end)

-- Moves what k:constant has set, of v if it is a kernel, or of the kernels in it if it is a plain
-- table.
local function move_constants(v, where)
  local meta = type(v) == "table" and getmetatable(v)
  if meta == nil or meta and meta.__name == "flame.kernels" then
    for _, k in next, v do if type(k) == "userdata" then move_constants(k, where) end end
  elseif type(v) == "userdata" and flame.internal.is_kernel(v) then
    local memory = flame.internal.kernel_info(v).config.memory or {}
    for name, x in next, memory do memory[name] = x:to(where) end
  end
end

--- Moves every parameter and buffer, and the constants of kernels among the fields, to a device, or
--- converts the floating parameters and buffers to a dtype, or both; or to the device and dtype of
--- a tensor. The handles stay the same.
put(Module, "Module:to(target...: dtype|device|T) -> self", function(self, ...)
  local given = table.pack(...)
  -- optimisers compare this counter, and move their state after the parameters
  flame.internal.moves = (flame.internal.moves or 0) + 1
  if flame.is_tensor(given[1]) then given = { given[1].device, given[1].dtype, n = 2 } end
  if given.n == 0 then fail("to: need a device or a floating dtype") end
  for i = 1, given.n do
    local where = given[i]
    if flame.is_tensor(where) then fail("to: a tensor to be like stands alone") end
    if dtypes.whole[where] then
      fail("to: modules convert to f64, f32, f16 or bf16, not to %s", where)
    end
    for _, entry in ipairs(collect(self)) do
      local x = entry[2]
      if not dtypes.float[where] or dtypes.float[x.dtype] then x:to_(where) end
    end
    for _, module in ipairs(dtypes.float[where] and {} or self:modules()) do
      for _, v in next, module do move_constants(v, where) end
    end
  end
  return self
end)

--- All values to a GPU.
put(Module, "Module:cuda(ordinal?: int) -> self",
  function(self, n) return self:to(n and "cuda:" .. n or "cuda") end)
--- All values to the CPU.
put(Module, "Module:cpu() -> self", function(self) return self:to("cpu") end)
--- Float values as f32.
put(Module, "Module:float() -> self", function(self) return self:to("f32") end)
--- Float values as f64.
put(Module, "Module:double() -> self", function(self) return self:to("f64") end)
--- Float values as f16.
put(Module, "Module:half() -> self", function(self) return self:to("f16") end)
--- Float values as bf16.
put(Module, "Module:bfloat16() -> self", function(self) return self:to("bf16") end)

--- Number of elements of all parameters.
put(Module, "Module:count() -> int", function(self)
  local n = 0
  for _, p in ipairs(self:parameters()) do n = n + p:numel() end
  return n
end)

--- The tree as text: "Name(extra)", with the modules below it in separate lines.
put(Module, "Module:describe() -> str", function(self)
  local extra = self.extra or self.extra_repr
  local head, lines = extra and extra(self) or "", {}
  local name = getmetatable(self).__name
  for _, entry in ipairs(children_of(self)) do
    lines[#lines + 1] = "  (" .. entry[1] .. "): " .. entry[2]:describe():gsub("\n", "\n  ")
  end
  if #lines == 0 then return name .. "(" .. head .. ")" end
  return name .. "(\n" .. (head ~= "" and "  " .. head .. "\n" or "")
    .. table.concat(lines, "\n") .. "\n)"
end)

local function positive(what, name, value, most)
  if value < 1 then fail("%s: %s is %d, need a positive integer", what, name, value) end
  if most and value > most then
    fail("%s: %s is %d, need at most %d", what, name, value, most)
  end
end

--- Raises "op: message" at the line of the script, as 'fail' does without op.
local function raise(op, message, ...) flame.internal.fail(op, message:format(...)) end

local shared = { fail = fail, raise = raise, positive = positive, count = positive, class = class,
  call = call, put = put, LAYERS = 10000,                  -- of a stack, at most
  is_module = is_module, kinds = kinds, marked = marked }
require "flame.nn.hooks"(nn, shared)
require "flame.nn.initialise"(nn, shared)
require "flame.nn.layers"(nn, shared)
require "flame.nn.norm"(nn, shared)
require "flame.nn.activation"(nn, shared)
require "flame.nn.loss"(nn, shared)
require "flame.nn.keys"(nn, shared)
require "flame.nn.attention"(nn, shared)
require "flame.nn.transformer"(nn, shared)
require "flame.nn.conv"(nn, shared)
require "flame.nn.packed"(nn, shared)
require "flame.nn.rnn"(nn, shared)
require "flame.nn.lazy"(nn, shared)
shared.order, shared.hooks, shared.fields, shared.collect = order, hooks, fields, collect
require "flame.nn.copy"(nn, shared)
require "flame.nn.average"(nn, shared)
require "flame.nn.parametrize"(nn, shared)
require "flame.nn.gated"(nn, shared)
require "flame.nn.grouped"(nn, shared)
require "flame.nn.lora"(nn, shared)

return objects.namespace(nn, "nn")
