--- Every public function with counts that are out of all bounds: each declared parameter that is a
-- number, an axis or a list of these gets the values of COUNTS in turn, and each tensor is replaced
-- by one with such elements, while other parameters have values with which the call works, if these
-- are found. Results are evaluated. It is a fault if an error is not a string, names no op, or is
-- one that Lua itself raises, as in spec/fuzz/calls.lua.
--   flame-lua spec/fuzz/counts.lua [PART OF [AFTER]]
-- prints each name before its calls, so that the last one is that of a call that did not end, its
-- faults as "fault: …", and at the end the number of calls. spec/limits/counts_spec.lua runs it
-- with limits of time and memory. PART OF: the functions are divided into OF parts, of which it
-- calls number PART (1 1: all). AFTER: skips names up to it; COUNTS_TRACE=1 prints each call.
local flame = require "flame"
local nn, optim, data = require "flame.nn", require "flame.optim", require "flame.data"
local plot, tokenizers = require "flame.plot", require "flame.tokenizers"
local calls = require "spec.fuzz.calls"
local in_folder = require "spec.support.folder"
local trace = os.getenv("COUNTS_TRACE")

local COUNTS = { -1, 0, 1.5, 0 / 0, math.huge, -math.huge, 1 << 31, 1 << 40, 2 ^ 53, 1 << 62,
  math.mininteger, math.maxinteger, 2 ^ 63, 1e300 }
--- A list that its metatable gives.
local function list_of(length, element)
  return setmetatable({}, { __len = function() return length end,
    __index = function(_, k) return math.type(k) == "integer" and element or nil end })
end
-- Elements of a tensor: { value, dtype }.
local ELEMENTS = { { -1, "i64" }, { 0, "i64" }, { 1 << 40, "i64" }, { 1 << 62, "i64" },
  { 0 / 0, "f64" }, { math.huge, "f64" }, { 1e300, "f64" } }
local LENGTHS = { 1 << 40, 1.5, -1, 0 / 0, "3", {} }

-- ---- values with which calls work ---------------------------------------------------------------
local SHAPES = { { 4 }, { 3, 3 }, { 2, 4, 4 }, { 1, 2, 4, 4 }, { 1, 2, 4, 4, 4 }, {}, { 1, 4 },
  { 16 } }
local FIXED = { bool = false, str = "a", dtype = "f32", fn = function(x) return x end }

-- ---- what is called -----------------------------------------------------------------------------
-- Functions that are not called: they call a function as often as an argument says, or they change
-- or end the session.
local SKIP = { bench = true, leakcheck = true, bisect = true, compare = true, debug = true,
  seed = true, manual_seed = true, cuda = true, ["data.seed"] = true, ["data.options"] = true }

local function parameters() return { flame.ones(3, { requires_grad = true }) } end
local function a_plot() return plot.line({ 1, 2, 3 }, { 4, 5, 6 }) end
local function a_tokenizer() return tokenizers.train_bpe({ "a b a b c" }, { vocab_size = 300 }) end
local OBJECTS = {
  Distribution = calls.distribution, Transform = calls.transform, Schedule = calls.schedule,
  NoiseSchedule = calls.schedule, Algebra = calls.algebra,
  Optimizer = function() return optim.SGD(parameters(), { lr = 0.1 }) end,
  GradScaler = function() return optim.GradScaler() end,
  ReduceOnPlateau = function() return optim.schedule.reduce_on_plateau(optim.SGD(parameters())) end,
  Plot = a_plot, Grid = function() return plot.grid { a_plot(), a_plot() } end,
  Tokenizer = a_tokenizer, TokenStream = function() return a_tokenizer():stream() end,
  Dataset = function() return data.dataset(5, function(i) return flame.full({ 2 }, i) end) end,
  Module = function() return nn.Linear(4, 4) end,
  ModuleList = function() return nn.ModuleList { nn.ReLU() } end,
  TransformerBlock = function() return nn.TransformerBlock(4, 2, { causal = true }) end,
  CausalSelfAttention = function() return nn.CausalSelfAttention(4, 2) end,
  MultiheadAttention = function() return nn.MultiheadAttention(4, 2) end,
  GroupedQueryAttention = function() return nn.GroupedQueryAttention(4, 2) end,
  EventWriter = function() return data.events("events") end,
  Progress = function() return data.progress { steps = 9, unit = "a" } end,
}
--- A function with planted faults.
local function planted()
  local f = flame.internal.declare("planted(n: int)", "", function(n)
    if n == -1 then return n.field end
    if n == 0 then error("wrong", 0) end
    while n == 1 << 40 do end
  end)
  return { { name = "planted", call = f, forms = flame.internal.declaration(f) } }
end
--- All declared functions that take counts: {name, call, forms (signatures), class = is it in nn}.
local function collect()
  local list = {}
  for _, e in ipairs(dofile("tools/meta.lua").collect()) do
    local f = e.value
    local forms = type(f) == "function" and not SKIP[e.name] and flame.internal.declaration(f)
    local class, method = e.name:match "^(%u%w+):(.*)$"
    if class then
      local make = OBJECTS[class]
      f = make and function(...)
        local object = make()
        return object[method](object, ...)
      end
    elseif e.kind == "class" then
      f = require("flame." .. e.name:match "^(%w+)%.")[e.name:match "%.(.*)$"]
    end
    if forms and f then
      list[#list + 1] = { name = e.name, call = f, forms = forms, class = e.name:find "^nn%." ~= nil
        and e.kind == "class" }
    end
  end
  table.sort(list, function(a, b) return a.name < b.name end)
  return list
end

local function is_count(kind)
  return kind == "int" or kind == "num" or kind:find "^ax[ie]s" or kind:find "^dims"
end
local function tensor_for(name, theme)
  local mask = name:find "mask" or name:find "^cond"
  local position = name:find "^ind" or name:find "^idx" or name == "ids" or name == "target"
    or name == "pivots" or name == "labels"
  return flame.ones(theme.shape,
    { dtype = mask and "bool" or position and "i64" or theme.dtype })
end
--- A value of a kind, or nil.
local function one_of(kind, name, theme)
  if kind == "T" then return tensor_for(name, theme) end
  if is_count(kind) then return theme.number end
  if kind:find '^"' then return kind:sub(2, -2) end
  if kind:find "^%u%a" then return OBJECTS[kind] and OBJECTS[kind]() end
  return FIXED[kind]
end
--- A value for a parameter, or nil.
local function usual(p, theme)
  for kind in p.type:gmatch "[^|]+" do
    local single = kind:gsub("%[%]$", "")
    local value = one_of(single, p.name, theme)
    if value ~= nil then
      if single == kind then return value end
      local list = {}
      for k = 1, kind == "T[]" and 2 or math.max(1, #theme.shape) do list[k] = value end
      return list
    end
  end
end

local function is_number(p)
  for kind in p.type:gmatch "[^|]+" do
    if is_count((kind:gsub("%[%]$", ""))) then return true end
  end
  return false
end
--- Usual arguments of a form (a declared signature): list, length, parameter -> position, options.
local function arguments_of(form, theme)
  local args, n, at, options = {}, 0, {}, {}
  for k, p in ipairs(form.params) do
    local needed = not p.optional and p.default == nil
      or theme.all and p.optional and is_number(p)
    if p.named then
      if needed then options[p.name] = usual(p, theme) end
    else
      n = n + 1
      at[k] = n
      if needed then args[n] = usual(p, theme) end
    end
  end
  return args, n, at, options
end

local function run(entry, theme, args, n, options)
  if next(options) then
    while n > 0 and args[n] == nil do n = n - 1 end
    n = n + 1
    args[n] = options
  end
  local results = { entry.call(table.unpack(args, 1, n)) }
  if entry.class and results[1] then
    local x = flame.ones(theme.shape, { dtype = theme.dtype })
    results[2] = results[1](x, not pcall(results[1], x) and x or nil)
  end
  for _, y in ipairs(calls.tensors_in(results, {}, 2)) do flame.eval(y) end
end

--- The first shape, dtype and number with which a call of the form (signature) works, or nil.
local function theme_of(entry, form)
  local function works(theme)
    calls.follow(theme)
    return pcall(function()
      local args, n, _, options = arguments_of(form, theme)
      run(entry, theme, args, n, options)
    end)
  end
  for try = 1, 4 do
    for _, shape in ipairs(SHAPES) do
      for number = 1, 4 do
        local theme = { shape = shape, dtype = try % 2 == 0 and "i64" or "f32", number = number,
          all = try > 2 }
        if works(theme) then return theme end
      end
    end
  end
end

-- ---- the counts ---------------------------------------------------------------------------------
--- Adds tensors with the elements of ELEMENTS to a list: of this shape, and of shape {3}.
local function add_tensors(values, shape)
  for _, e in ipairs(ELEMENTS) do
    values[#values + 1] = flame.full(shape, e[1], { dtype = e[2] })
    if #shape ~= 1 then values[#values + 1] = flame.full({ 3 }, e[1], { dtype = e[2] }) end
  end
end
--- The list of values that a parameter gets one after the other.
local function counts_for(p, theme)
  local values, one, list = {}, false, false
  for kind in p.type:gmatch "[^|]+" do
    local single = kind:gsub("%[%]$", "")
    if kind == "T" then
      add_tensors(values, theme.shape)
    elseif kind == "T[]" then
      for _, n in ipairs(LENGTHS) do values[#values + 1] = list_of(n, flame.ones(2)) end
      for _, v in ipairs { 1, "a", {} } do values[#values + 1] = list_of(2, v) end
    elseif is_count(single) or kind == "any[]" then
      list = list or single ~= kind or kind:find "^dims" or kind == "axes"
      one = one or single == kind
    end
  end
  for _, v in ipairs(COUNTS) do
    if one then values[#values + 1] = v end
    if list then
      for _, l in ipairs { { v }, { v, v }, { 1, v }, { v, 1 } } do values[#values + 1] = l end
    end
  end
  if list then
    for _, n in ipairs(LENGTHS) do values[#values + 1] = list_of(n, 1) end
    for _, v in ipairs { "a", {}, 1.5 } do values[#values + 1] = list_of(2, v) end
  end
  return values
end

local function text_of(v)
  if flame.is_tensor(v) then
    return ("%s of %s in (%s)"):format(tostring(v:reshape(-1)[1]:item()), v.dtype,
      table.concat(v.shape, ", "))
  end
  if type(v) ~= "table" then return tostring(v) end
  local m, out = getmetatable(v), {}
  if m then return ("a list of length %s, of %s"):format(m.__len(), m.__index(nil, 1)) end
  for k, x in ipairs(v) do out[k] = tostring(x) end
  return "{" .. table.concat(out, ", ") .. "}"
end

local LONG = 2                     -- CPU seconds that a call's Lua code may take
local function call(entry, form, theme, k, v)
  local args, n, at, options = arguments_of(form, theme)
  if at[k] then args[at[k]] = v else options[form.params[k].name] = v end
  local till = os.clock() + LONG
  debug.sethook(function()
    if os.clock() > till then error(debug.traceback("attempt to end: it goes on"), 0) end
  end, "", 100000)
  run(entry, theme, args, n, options)
end
--- Calls a form (a signature) with each count for each parameter, and adds faults to the list.
--- Returns the number of calls, and whether usual values work.
local function walk(entry, form, faults)
  local found, made = theme_of(entry, form), 0
  local theme = found or { shape = { 3, 3 }, dtype = "f32", number = 1 }
  calls.follow(theme)
  for k, p in ipairs(form.params) do
    for _, v in ipairs(counts_for(p, theme)) do
      local text = ("%s: %s = %s"):format(entry.name, p.name, text_of(v))
      if trace then io.stderr:write("  ", text, "\n") end
      local ok, e = pcall(call, entry, form, theme, k, v)
      debug.sethook()
      local wrong = not ok and calls.complaint(e)
      if wrong then faults[#faults + 1] = ("%s: %s: %s"):format(text, wrong, tostring(e)) end
      made = made + 1
      if made % 64 == 0 then collectgarbage() end
    end
  end
  return made, found ~= nil
end

-- ---- the walk -----------------------------------------------------------------------------------
local part, parts, after = tonumber(arg[1] or 1), tonumber(arg[2] or 1), arg[3] or ""
-- Only these are kept: out of memory the library collects garbage, for longer in a larger heap.
local mine = {}
for k, entry in ipairs(os.getenv("COUNTS_PLANT") and planted() or collect()) do
  if k % parts == part % parts and entry.name > after then mine[#mine + 1] = entry end
end
local made, forms, working = 0, 0, 0
in_folder(function()
  for _, entry in ipairs(mine) do
    for _, form in ipairs(entry.forms) do
      io.write(entry.name, "\n")
      io.flush()
      local faults = {}
      local n, found = walk(entry, form, faults)
      made, forms = made + n, forms + (n > 0 and 1 or 0)
      working = working + (n > 0 and found and 1 or 0)
      if trace and n > 0 and not found then io.write("no usual values: ", form.text, "\n") end
      for _, f in ipairs(faults) do io.write("fault: ", f, "\n") end
    end
  end
end)
print(("counts: %d calls of %d forms, %d of which work with usual values"):format(made, forms,
  working))
