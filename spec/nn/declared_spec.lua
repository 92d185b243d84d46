--- Declarations in flame.nn, flame.optim and flame.data: docs/ops.md shows every module, optimiser,
--- schedule, reader and method as it is declared; a wrong option and a wrong type raise at the line
--- of the script with the names that the page shows; and a module made with all options by name at
--- their defaults is equal to one made without options.
local flame = require "flame"
local nn, optim, data = require "flame.nn", require "flame.optim", require "flame.data"
local clifford = require "flame.clifford"
local oracle = dofile "spec/support/declare_oracle.lua"
local internal = flame.internal

-- ---- the page --------------------------------------------------------------------------------
--- name -> declarations, from the parts of docs/ops.md about modules.
local page = {}
for line in io.lines("docs/ops.md") do
  local text = line:gsub("\\|", "\1"):match("^| `([^`]*%b()[^`]*)` |")
  text = text and text:gsub("\1", "|")
  local name = text and text:match("^[%w_%.:]+")
  if name and (name:find("^nn%.") or name:find("^optim%.") or name:find("^data%.")
      or name:find("^clifford%.") or name:find("^%u%w*:")) then
    page[name] = text
  end
end

-- ---- values ----------------------------------------------------------------------------------
local function layer() return nn.TransformerEncoderLayer(4, 2, 8) end
local function sgd() return optim.SGD(flame.zeros({ 1 }, { requires_grad = true }), 0.1) end
local x = flame.ones(4, 4)

--- Values of required parameters by name (functions make them); others have values by type.
local VALUES = { kernel_size = 2, output_size = 2, num_groups = 2, num_heads = 2, nhead = 2,
  heads = 2, size = 4, padding = 1, upscale_factor = 2, downscale_factor = 2, groups = 2,
  norm_type = 2, n_classes = 5, cutoffs = { 2 }, dim = 2, unflattened_size = { 2, 2 },
  encoder_layer = layer, num_layers = 1, opt = sgd, optimizer = sgd,
  decoder_layer = function() return nn.TransformerDecoderLayer(4, 2, 8) end,
  lengths = { 1 }, nonlinearity = "relu", name = "weight", model = function() return nn.ReLU() end,
  packed = function() return nn.utils.pack_sequence { flame.ones(2, 1) } end, rank = 2,
  schedules = function() return { optim.schedule.constant(sgd()) } end, milestones = {},
  path = "none.npy", folder = "none", algebra = clifford.algebra(3), signature = 3 }
local OF_TYPE = { int = 4, num = 1, T = x, ["T|T[]"] = { x }, ["T[]"] = { x }, str = "a",
  fn = print, table = {}, ["T|T[]|table[]"] = { x }, ["num|T"] = 1, bool = true, Module = function()
    return nn.Linear(4, 4)
  end, ["Module|fn"] = print, ["num|num[]"] = 1, ["dtype|device|T"] = "f32", ["int|int[]"] = 4,
  ["table[]"] = { { lr = 1 } }, ["Module[]"] = {}, ["num[]"] = { 1 } }
local function value_of(p)
  local v = p.type ~= "table[]" and VALUES[p.name] or nil
  if v == nil then v = OF_TYPE[p.type] end
  if v == nil then v = OF_TYPE[p.type:match("^[^|%[]+")] end
  if type(v) == "function" and v ~= print then return v() end
  return v
end
--- Values for the required parameters of a form (a declared signature), as a list and by name.
local function required(form)
  local list, named = {}, {}
  for _, p in ipairs(form.params) do
    if p.default == nil and not p.optional and not (form.rest == "list"
        and p == form.params[#form.params]) then
      named[p.name] = value_of(p)
      list[#list + 1] = named[p.name]
    end
  end
  return list, named
end

local thread = coroutine.create(print)
local told = require("spec.support.helper").placed

-- ---- functions and classes ---------------------------------------------------------------------
local OBJECTS = { Module = function() return nn.Linear(4, 4) end, Optimizer = sgd,
  LBFGS = function() return optim.LBFGS(x) end,
  Schedule = function() return optim.schedule.constant(sgd()) end,
  ReduceOnPlateau = function() return optim.schedule.reduce_on_plateau(sgd()) end,
  GradScaler = optim.GradScaler, Batches = function() return data.batches(x) end,
  Dataset = function() return data.dataset { 1, 2 } end,
  Loader = function() return data.loader { 1, 2 } end,
  Progress = function() return data.progress { steps = 3 } end,
  Algebra = function() return clifford.algebra(3) end }

--- A module of a class, made with the arguments that its declaration requires.
local function module_of(class)
  local list = required(internal.declaration(class.init)[1])
  return class(table.unpack(list))
end

--- The function that has this name on the page; for a method also an object.
local function find(name)
  local class, method = name:match("^(%w+):([%w_]+)$")
  if class then
    local make = OBJECTS[class]
    local of = rawget(nn, class)
    if not make and of then make = function() return module_of(of) end end
    if not make then return nil end
    local object = make()
    local known = require("flame.base.objects").classes[class]
    return known and known[method]
      or object[method], object
  end
  local t = { nn = nn, optim = optim, data = data, clifford = clifford }
  for part in name:gmatch("[^%.]+") do t = type(t) == "table" and rawget(t, part) or nil end
  return t
end
--- Its declaration.
local function declaration_of(f)
  if type(f) == "table" then f = rawget(f, "init") end
  return f and internal.declaration(f)
end

local entries = {}
for name, text in pairs(page) do
  local f, object = find(name)
  local d = f and declaration_of(f)
  if d then
    entries[#entries + 1] = { name = name, text = text, f = f, object = object, d = d,
      class = type(f) == "table" }
  end
end
table.sort(entries, function(a, b) return a.name < b.name end)

--- Calls e with its required arguments by position, and v for the parameter or option 'wrong', by
--- position if it is required or may be a table, else by name; returns the message.
local function call(e, wrong, v)
  local args, last, placed = {}, 0, false
  for i, p in ipairs(e.d[1].params) do
    local whole = p.type:gsub("table%[%]", ""):find "table"
    if not p.named and (p.default == nil and not p.optional or whole)
        and not (e.d[1].rest == "list" and i == #e.d[1].params) then
      last = i
      if p.name == wrong then args[i], placed = v, true else args[i] = value_of(p) end
    end
  end
  if not placed then
    last = last + 1
    args[last] = { [wrong] = v }
  end
  if e.object then return told(e.f, e.object, table.unpack(args, 1, last)) end
  return told(e.f, table.unpack(args, 1, last))
end

describe("the page", function()
  local kinds = {}
  for _, e in ipairs(entries) do
    local kind = e.class and "class" or e.name:match("^%w+")
    kinds[kind] = (kinds[kind] or 0) + 1
    it("has " .. e.name .. " as it is declared", function()
      local forms = {}
      for i, form in ipairs(e.d) do forms[i] = e.name .. form.text:match("%(.*") end
      assert.equal(table.concat(forms, "; "), e.text)
    end)
  end
  it("has all of them", function()
    assert.is_true(kinds.class > 140 and kinds.optim > 40 and kinds.data > 10 and kinds.Module > 35
      and kinds.nn > 40 and kinds.Algebra > 12 and kinds.GradScaler > 7 and kinds.Optimizer > 5
      and kinds.Schedule > 4)
    for name, class in pairs(nn) do
      if type(class) == "table" and rawget(class, "__name") == name and name ~= "Module" then
        assert.truthy(page["nn." .. name], name)
        assert.truthy(internal.declaration(class.init), name .. " has no declaration")
        assert.truthy(name == "Sequential" or name == "Identity" or not rawget(class, "forward")
          or internal.declaration(class.forward), name .. "'s call has no declaration")
      end
    end
    for _, t in ipairs { optim, optim.schedule, optim.lr_scheduler, nn.init, nn.utils, nn.lora,
        data } do
      for name, f in pairs(t) do
        assert.truthy(type(f) ~= "function" or internal.declaration(f),
          name .. " has no declaration")
      end
    end
  end)
end)

describe("a wrong option", function()
  for _, e in ipairs(entries) do
    it("of " .. e.name .. " is told with those that the page names", function()
      local text = (e.class and "new " or "") .. e.text:match("^(.-)%f[;\0]")
      local names, form = oracle.names(text)
      if form.open then return end
      local list = {}
      for _, part in ipairs(#e.d > 1 and {} or names) do list[#list + 1] = part end
      local wrong = (names[#names] or "nothing") .. "q"
      local message = call(e, wrong, 1)
      if #e.d > 1 then return assert.matches("no option '" .. wrong .. "', there is: ", message) end
      local want = ("no option '%s', there is: %s"):format(wrong,
        #list > 0 and table.concat(list, " ") or "none")
      assert.truthy(message:find(want, 1, true), message .. "\nis not " .. want)
    end)
  end
end)

describe("a wrong type", function()
  for _, e in ipairs(entries) do
    it("of a parameter of " .. e.name .. " is told with its name", function()
      local form = e.d[1]
      if #e.d > 1 or form.rest == "as they are" then return end
      for _, p in ipairs(form.params) do
        local any = ("|" .. p.type .. "|"):find("|any|", 1, true)
        if not any then
          local message = call(e, p.name, thread)
          local want = p.name .. " must be "
          assert.truthy(message:find(want, 1, true), message .. "\nis not " .. want)
        end
      end
    end)
  end
end)

describe("a call of a module", function()
  for _, e in ipairs(entries) do
    local call_of = e.class and rawget(e.f, "forward") and internal.declaration(e.f.forward)
    local first = call_of and call_of[1].params[1]
    if first and call_of[1].rest ~= "as they are" then
      it("of " .. e.name .. " tells a wrong input and an option that there is not", function()
        local layer_of = module_of(e.f)
        local base = e.name:match("%w+$")
        assert.truthy(told(layer_of, thread):find(
          ("%s: %s must be "):format(base, first.name), 1, true))
        assert.truthy(told(layer_of, { nothing = 1 }):find(
          ("%s: no option 'nothing', there is: %s"):format(base, first.name), 1, true))
      end)
    end
  end
end)

-- ---- defaults ----------------------------------------------------------------------------------
local function literal(text)
  if text:find('^"') then return text:sub(2, -2) end
  if text == "true" or text == "false" then return text == "true" end
  if text:find("^{") then
    local list = {}
    for n in text:gmatch("[^{},%s]+") do list[#list + 1] = tonumber(n) end
    return list
  end
  return tonumber(text)                         -- nil: an earlier parameter
end
--- All parameters of a form (a declared signature) by name, optional ones as default or false.
local function all_named(form)
  local _, named = required(form)
  for _, p in ipairs(form.params) do
    if p.default then named[p.name] = literal(p.default)
    elseif p.optional and not p.type:find "bool" and not p.type:find "any" then
      named[p.name] = false
    end
  end
  return named
end

--- A module's own fields and tensors, as values that can be compared.
local function shown(v, seen)
  if flame.is_tensor(v) then
    return { dtype = v.dtype, requires_grad = v.requires_grad, shape = v.shape, bits = v:bytes() }
  end
  if type(v) == "function" then return "function" end
  if type(v) ~= "table" or seen[v] then return v end
  seen[v] = true
  local out = {}
  -- an optimiser's field 'seen' is its number, for warnings, and differs
  for key, part in pairs(v) do if key ~= "seen" then out[key] = shown(part, seen) end end
  return out
end
local function same(a, b)
  assert.equal(tostring(a), tostring(b))
  assert.same(shown(a, {}), shown(b, {}))
  if a.state_dict then assert.same(shown(a:state_dict(), {}), shown(b:state_dict(), {})) end
end

describe("all options by name at their defaults", function()
  for _, e in ipairs(entries) do
    -- where the first parameter is a table, a single table would be taken for its value
    local table_first = e.d[1].params[1] and e.d[1].params[1].type == "table"
    if e.class and e.d[1].rest == nil and not table_first then
      it("make the same " .. e.name, function()
        flame.seed(7)
        local one = module_of(e.f)
        flame.seed(7)
        local other = e.f(all_named(e.d[1]))
        same(one, other)
      end)
    elseif e.name:find("^optim%.%u") and e.name ~= "optim.GradScaler" then
      it("make the same " .. e.name, function()
        local named = all_named(e.d[1])
        local params = named.params
        named.params = nil
        same(e.f(params), e.f(params, named))
      end)
    end
  end
end)
