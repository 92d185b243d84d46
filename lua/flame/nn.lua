--- Modules: parameters in a tree, found by name, and the layers built from them.
-- A module is a table whose metatable is its class. What is assigned to a module is noted in
-- order of first assignment: parameters (nn.Parameter), buffers (nn.Buffer), modules, and plain
-- lists of those. Parameters and buffers stand beside the table and not in it, so that each
-- assignment to their names is seen. Names are dotted paths with 1-based list positions:
-- "blocks.1.norm.weight". Layouts, defaults, initialisation and the order of arguments are
-- PyTorch's; what has a default there comes by position or in one table at the end. nn_layers.lua:
-- containers and the first layers; nn_more.lua: norms, activations, losses; nn_attention.lua and
-- nn_transformer.lua; nn_init.lua: nn.init and nn.utils; nn_packed.lua and nn_rnn.lua: sequences;
-- nn_copy.lua and nn_average.lua: whole networks; nn_parametrize.lua, nn_gated.lua, nn_lora.lua;
-- nn_fields.lua: what stands under a name; nn_lazy.lua: layers that take their input's size from
-- the first input, weights made of others.
local flame = require "flame"

local nn = {}

--- Raises with the script's line, however deep in the library it is called.
local function fail(message, ...) flame.internal.fail("", message:format(...)) end

local order = setmetatable({}, { __mode = "k" })     -- module -> list of keys as first assigned
local kinds = setmetatable({}, { __mode = "k" })     -- tensor -> "parameter" | "buffer" | "passing"
local hooks = setmetatable({}, { __mode = "k" })     -- module -> {before = {…}, after = {…}}

local function word(v) return flame.internal.word(v) end

--- The options t, all of whose names are among 'known'.
local function options_of(what, t, known)
  if t == nil then return {} end
  if type(t) ~= "table" then fail("%s: options are a table, got %s", what, word(t)) end
  for key in pairs(t) do
    if not known[key] then flame.internal.no_option(what, key, known) end
  end
  return t
end

local function need_tensor(what, x)
  if not flame.is_tensor(x) then fail("%s: need a tensor, got %s", what, word(x)) end
end

--- Of a tensor that is to be marked: its option, by position or in a table;
--- nil where it is left out.
local function mark_flag(what, x, name, value)
  need_tensor(what, x)
  if type(value) == "table" then value = options_of(what, value, { [name] = true })[name] end
  if value ~= nil then flame.internal.need_flag(what, name, value) end
  return value
end

--- Marks a tensor as a parameter: it is tracked, and found by module:parameters(). A view gets
--- a value of its own, since views can not be written.
---@param x flame.Tensor
---@param requires_grad boolean|table|nil  true, also as {requires_grad = true}
---@return flame.Tensor
function nn.Parameter(x, requires_grad)
  requires_grad = mark_flag("Parameter", x, "requires_grad", requires_grad)
  if not x.is_leaf then x = x:detach() end
  if flame.internal.is_view(x) then x = x:detach():clone() end
  if requires_grad ~= false then x:requires_grad_(true) end
  kinds[x] = "parameter"
  return flame.internal.hold(x)                        -- no scope closes it
end

--- Marks a tensor as part of a module's state that is not trained.
---@param x flame.Tensor
---@param persistent boolean|table|nil  false, or {persistent = false}: not in state_dict
---@return flame.Tensor
function nn.Buffer(x, persistent)
  persistent = mark_flag("Buffer", x, "persistent", persistent)
  if flame.internal.is_view(x) then x = x:detach():clone() end
  kinds[x] = persistent == false and "passing" or "buffer"
  return flame.internal.hold(x)
end

-- ---- Module ------------------------------------------------------------------------------

---@class flame.Module
---@field training boolean
local Module = {}
Module.__name = "Module"
nn.Module = setmetatable(Module, { __call = function()
  fail('Module\1: make a class of your own first: local Net = nn.Module.extend("Net"), then Net(…)')
end })

local fields = require "flame.nn_fields"(order, kinds, fail,
  function(...) return nn.Buffer(...) end)
local marked, field, settled = fields.marked, fields.field, fields.settled

local function is_module(x)
  return type(x) == "table" and order[x] ~= nil
end

-- What constructors have no default for, by the names that PyTorch gives it.
local REQUIRED = {
  ["^Linear$"] = "in_features out_features",
  ["^Bilinear$"] = "in1_features in2_features out_features",
  ["^Embedding"] = "num_embeddings embedding_dim",
  ["^Conv"] = "in_channels out_channels kernel_size",
  ["^RNN"] = "input_size hidden_size", ["^LSTM"] = "input_size hidden_size",
  ["^GRU"] = "input_size hidden_size",
  ["Norm[123]d$"] = "num_features",
  ["^GroupNorm$"] = "num_groups num_channels", ["^LayerNorm$"] = "normalized_shape",
  ["^RMSNorm$"] = "normalized_shape",
  ["^MultiheadAttention$"] = "embed_dim num_heads", ["^Transformer.+Layer$"] = "d_model nhead",
  ["^MaxPool"] = "kernel_size", ["^AvgPool"] = "kernel_size", ["^Adaptive.+Pool"] = "output_size",
  ["^PixelShuffle$"] = "upscale_factor", ["^PixelUnshuffle$"] = "downscale_factor",
}
--- The constructor of a class of this library, with those arguments by position or by name.
local function by_name(class, init)
  local name = class.__name
  if rawget(nn, name) ~= class then return init end
  for pattern, names in pairs(REQUIRED) do
    if name:find(pattern) then return flame.internal.placed(name, init, names) end
  end
  return init
end

-- Arguments of init and forward of a class of this library, beside the
-- module, where their number is fixed.
local limits = {}
local function check_surplus(class, most, ...)
  local given = select("#", ...)
  while given > most and select(given, ...) == nil do given = given - 1 end
  if given > most then
    fail("%s: %d argument%s at most, got %d", class.__name, most, most == 1 and "" or "s", given)
  end
end

local function construct(class, ...)
  local self = setmetatable({}, class)
  order[self] = {}
  rawset(self, "training", true)
  local init = class.init
  if init then
    if limits[init] then check_surplus(class, limits[init], ...) end
    by_name(class, init)(self, ...)
  end
  return self
end

-- A call with hooks: those before may replace the arguments, those behind the result.
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

--- A new class of modules: class(…) makes one and runs class.init; module(…) runs class.forward.
---@param name string
---@param parent table?  the class whose functions it inherits
function Module.extend(name, parent)
  -- Parent:extend(name)
  if type(name) == "table" and type(parent) == "string" then name, parent = parent, name end
  if type(name) ~= "string" then fail("extend: the class needs a name, got %s", type(name)) end
  parent = parent or Module
  local class = setmetatable({}, { __index = parent, __call = construct, __name = "class" })
  class.__name = name
  fields.give(class)
  class.__call = function(self, ...)
    local forward = self.forward
    local most = limits[forward]
    if most and select("#", ...) > most then check_surplus(class, most, ...) end
    if hooks[self] then return call_hooked(self, ...) end
    return forward(self, ...)
  end
  class.__tostring = function(self) return self:describe() end
  return class
end

function Module.forward(...)
  local name = getmetatable((...)).__name
  fail("%s has no forward\1: define function %s:forward(…)", name, name)
end

local function add_hook(self, place, f)
  if not flame.internal.callable(f) then
    fail("%s: a hook is a function, got %s", getmetatable(self).__name, word(f))
  end
  hooks[self] = hooks[self] or { before = {}, after = {} }
  local list = hooks[self][place]
  list[#list + 1] = f
  return { remove = function()
    for i, g in ipairs(list) do if g == f then table.remove(list, i) return end end
  end }
end

--- f(module, arguments, result) runs after each forward; what it returns replaces the result.
---@return table  with remove()
function Module:register_forward_hook(f) return add_hook(self, "after", f) end
--- f(module, arguments) runs before each forward; what it returns replaces the arguments.
---@return table  with remove()
function Module:register_forward_pre_hook(f) return add_hook(self, "before", f) end

-- ---- what is below ---------------------------------------------------------------------------

-- Visits every (path, value) below a module in order: tensors that are marked, and modules.
-- Shared things once, unless 'again' is to hear of them too.
local function walk(self, visit, prefix, seen, again)
  local function item(path, value)
    local tensor = marked(value)
    if not tensor and not is_module(value) then return end
    if seen[value] then
      if again and tensor then again(path, value) end
      return
    end
    seen[value] = true
    visit(path, value)
    if not tensor then walk(value, visit, path .. ".", seen, again) end
  end
  local met = {}                                       -- a key that was nil in between stands twice
  for _, key in ipairs(order[self] or {}) do
    local value = not met[key] and settled(self, key) or nil
    met[key] = true
    if type(value) == "table" and order[value] == nil then
      if not getmetatable(value) and not seen[value] then
        seen[value] = true
        for i, part in ipairs(value) do item(prefix .. tostring(key) .. "." .. i, part) end
      end
    else
      item(prefix .. tostring(key), value)
    end
  end
end

--- Names of the parameters and buffers below, with what each stands for.
local function collect(self, wanted, again)
  local list = {}
  walk(self, function(path, value)
    if type(value) == "userdata" and (wanted == nil or wanted[kinds[value]]) then
      list[#list + 1] = { path, value }
    end
  end, "", { [self] = true }, again)
  return list
end
local parameters_only, buffers_only, saved_only = { parameter = true },
  { buffer = true, passing = true },
  { parameter = true, buffer = true }

-- A list of values that 'for v in list do' walks too.
local each_value = { __call = function(self)
  local i = (rawget(self, 0) or 0) + 1
  self[0] = i
  return self[i]
end }
local function values_of(list)
  local out = {}
  for i, entry in ipairs(list) do out[i] = entry[2] end
  return out
end

-- for name, value in it do … end; pairs(it) does the same.
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

--- Parameters in order of first assignment, shared ones once.
---@return flame.Tensor[]
function Module:parameters() return values_of(collect(self, parameters_only)) end

--- Buffers in order of first assignment.
---@return flame.Tensor[]
function Module:buffers() return values_of(collect(self, buffers_only)) end

--- for name, parameter in net:named_parameters() do … end
function Module:named_parameters() return pairs_of(collect(self, parameters_only)) end

--- for name, buffer in net:named_buffers() do … end
function Module:named_buffers() return pairs_of(collect(self, buffers_only)) end

local function modules_below(self)
  local list = { { "", self } }
  walk(self, function(path, value)
    if type(value) == "table" then list[#list + 1] = { path, value } end
  end, "", { [self] = true })
  return list
end

--- for name, module in net:named_modules() do … end; the module itself comes first, as "".
function Module:named_modules() return pairs_of(modules_below(self)) end

--- The module and all below it: a list, or for module in net:modules() do … end.
function Module:modules() return setmetatable(values_of(modules_below(self)), each_value) end

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
function Module:named_children() return pairs_of(children_of(self)) end
--- The modules that the module itself holds: a list, or for child in net:children() do … end.
function Module:children() return setmetatable(values_of(children_of(self)), each_value) end

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
--- What stands at a dotted path; raises when nothing does.
function Module:get_submodule(path) return at_path(self, path, "module") end
function Module:get_parameter(path) return at_path(self, path, "parameter") end
function Module:get_buffer(path) return at_path(self, path, "buffer") end

--- As self[name] = nn.Buffer(x), nn.Parameter(x) and self[name] = module.
function Module:register_buffer(name, x, persistent)
  self[name] = x and nn.Buffer(x, persistent) or nil
end
function Module:register_parameter(name, x)
  self[name] = x and (kinds[x] == "parameter" and x or nn.Parameter(x)) or nil
end
function Module:add_module(name, module) self[name] = module end
Module.register_module = Module.add_module

-- ---- state --------------------------------------------------------------------------------------

--- A snapshot of all parameters and buffers by name; training on does not change it.
---@return table<string, flame.Tensor>
function Module:state_dict()
  local out = {}
  for _, entry in ipairs(collect(self, saved_only)) do out[entry[1]] = entry[2]:detach() end
  return out
end

-- "blocks.0.weight" -> "blocks.1.weight"
local function one_based(name)
  return (("." .. name .. "."):gsub("%.(%d+)%f[.]",
    function(i) return "." .. math.tointeger(i) + 1 end):sub(2, -2))
end

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

-- What each saved tensor of the module is to become, and names without a partner.
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

--- Takes values into the same handles; every name must be there, unless strict = false. On an error
--- nothing has changed.
---@param state table<string, flame.Tensor>
---@param options table?  {strict = true, zero_based = false: names count lists from 0, as PyTorch's}
---@return table  {missing_keys = {…}, unexpected_keys = {…}}
function Module:load_state_dict(state, options)
  if type(options) == "boolean" then options = { strict = options } end
  options = options_of("load_state_dict", options, { strict = true, zero_based = true })
  if type(state) ~= "table" then
    fail("load_state_dict: need a table of tensors by name, got %s", word(state))
  end
  local given = {}
  for name, value in pairs(state) do
    given[options.zero_based and one_based(tostring(name)) or name] = value
  end
  local found, missing, surplus, wrong = match(self, given)
  if #wrong > 0 or options.strict ~= false and (#missing > 0 or #surplus > 0) then
    fail("load_state_dict: %s",
      complaints(wrong, options.strict ~= false and missing or {},
        options.strict ~= false and surplus or {}))
  end
  flame.no_grad(function()
    for _, pair in ipairs(found) do
      local x, value = pair[1], pair[2]
      if value:is_floating_point() and not x:is_floating_point() then value = value:to(x.dtype) end
      x:copy_(value:to(x.device))
    end
  end)
  return { missing_keys = missing, unexpected_keys = surplus }
end

--- Training mode for the module and all below it.
function Module:train(on)
  if on == nil then on = true end
  if type(on) ~= "boolean" then fail("train: need true or false, got %s", type(on)) end
  for _, entry in ipairs(modules_below(self)) do rawset(entry[2], "training", on) end
  return self
end

function Module:eval() return self:train(false) end

--- Calls f on every module below and then on the module itself.
function Module:apply(f)
  if not flame.internal.callable(f) then
    fail("%s: apply needs a function, got %s", getmetatable(self).__name, word(f))
  end
  for _, entry in ipairs(children_of(self)) do entry[2]:apply(f) end
  f(self)
  return self
end

--- Sets .grad of every parameter to nil; set_to_none = false, also in a
--- table, fills them with 0 instead.
---@param set_to_none? boolean|table  true
function Module:zero_grad(set_to_none)
  flame.internal.zero_grad("zero_grad", self:parameters(), set_to_none)
end

--- Tracks every parameter, or none.
function Module:requires_grad_(on)
  for _, p in ipairs(self:parameters()) do p:requires_grad_(on ~= false) end
  return self
end

local float_names = { f64 = true, f32 = true, f16 = true, bf16 = true }
local other_names = { i64 = true, i32 = true, i16 = true, i8 = true, u8 = true, bool = true }

--- Moves every parameter and buffer, or converts the floating ones, inside the same handles.
---@param ... string  device, floating dtype, or both; or a tensor to be like
function Module:to(...)
  local given = table.pack(...)
  flame.internal.moves = (flame.internal.moves or 0) + 1          -- the state of optimisers follows
  if flame.is_tensor(given[1]) then given = { given[1].device, given[1].dtype, n = 2 } end
  if given.n == 0 then fail("to: need a device or a floating dtype") end
  for i = 1, given.n do
    local where = given[i]
    if type(where) ~= "string" then
      fail("to: need a device or a floating dtype, got %s", type(where))
    end
    if other_names[where] then
      fail("to: modules convert to f64, f32, f16 or bf16, not to %s", where)
    end
    for _, entry in ipairs(collect(self)) do
      local x = entry[2]
      if not float_names[where] or float_names[x.dtype] then x:to_(where) end
    end
  end
  return self
end

function Module:cuda(n) return self:to(n and "cuda:" .. n or "cuda") end
function Module:cpu() return self:to("cpu") end
function Module:float() return self:to("f32") end
function Module:double() return self:to("f64") end
function Module:half() return self:to("f16") end
function Module:bfloat16() return self:to("bf16") end

--- Number of elements of all parameters.
function Module:count()
  local n = 0
  for _, p in ipairs(self:parameters()) do n = n + p:numel() end
  return n
end

--- The tree as text: "Name(extra)", and what is below in lines of its own.
function Module:describe()
  local extra = self.extra or self.extra_repr
  local head, lines = extra and extra(self) or "", {}
  local name = getmetatable(self).__name
  for _, entry in ipairs(children_of(self)) do
    lines[#lines + 1] = "  (" .. entry[1] .. "): " .. entry[2]:describe():gsub("\n", "\n  ")
  end
  if #lines == 0 then return name .. "(" .. head .. ")" end
  return name .. "(\n" .. (head ~= "" and "  " .. head .. "\n" or "")
    .. table.concat(lines, "\n") .. "\n)"
end

local positive, read, make_options = require "flame.nn_arguments"(fail, options_of)
local shared = { fail = fail, positive = positive, options_of = options_of, read = read,
  make_options = make_options, is_module = is_module, kinds = kinds, marked = marked }
flame.internal.load()                                  -- what flame.internal gets from Lua
require "flame.nn_hooks"(nn, shared)
require "flame.nn_init"(nn, shared)
require "flame.nn_layers"(nn, shared)
require "flame.nn_more"(nn, positive, options_of, shared)
require "flame.nn_attention"(nn, shared)
require "flame.nn_transformer"(nn, shared)
require "flame.nn_conv"(nn, shared)
require "flame.nn_packed"(nn, shared)
require "flame.nn_rnn"(nn, shared)
require "flame.nn_lazy"(nn, shared)
shared.order, shared.hooks, shared.fields, shared.collect = order, hooks, fields, collect
require "flame.nn_shim"(nn, shared)
require "flame.nn_copy"(nn, shared)
require "flame.nn_average"(nn, shared)
require "flame.nn_parametrize"(nn, shared)
require "flame.nn_gated"(nn, shared)
require "flame.nn_lora"(nn, shared)

for _, class in pairs(nn) do
  if class == Module then flame.internal.limit(class)
  elseif type(class) == "table" and rawget(class, "__name") then
    local init, forward = rawget(class, "init"), rawget(class, "forward")
    class.init, class.forward = nil, nil
    flame.internal.limit(class)
    for key, f in pairs { init = init, forward = forward } do
      local facts = debug.getinfo(f, "u")
      if not facts.isvararg then limits[f] = facts.nparams - 1 end
      class[key] = f
    end
  end
end
for _, t in ipairs { nn.init, nn.utils } do flame.internal.limit(t) end

return flame.internal.namespace(nn, "nn")
