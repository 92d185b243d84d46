--- flame.export and flame.program: the work that a function records, as a file (docs/programs.md).
-- The C part (src/graph/export.c) traces one call of f and returns its text. This file calls f
-- until two calls give the same text, varies sizes, and merges the texts of several sizes.
local flame = require "flame"
local internal = flame.internal
local arguments = require "flame.base.arguments"
local objects = require "flame.base.objects"
local fail, is_tensor = arguments.fail, flame.is_tensor

-- ---- traces -------------------------------------------------------------------------------------

local function port_name(what, name)
  if type(name) ~= "string" or not name:find("^[%w_.]+$") or #name > 60 then
    fail("export", "%s has the name %s, need letters, digits, _ and .", what, arguments.word(name))
  end
  return name
end

-- The results of f as a list, and their names: the keys if f returned a table, or out1, out2, …
local function results_of(...)
  local out, list, names = { ... }, {}, {}
  if #out == 1 and type(out[1]) == "table" and not is_tensor(out[1]) then
    for key in pairs(out[1]) do names[#names + 1] = key end
    table.sort(names, function(a, b) return tostring(a) < tostring(b) end)
    for i, key in ipairs(names) do
      local name = type(key) == "number" and "out" .. key or key
      list[i], names[i] = out[1][key], port_name("a result", name)
    end
  else
    for i, v in ipairs(out) do list[i], names[i] = v, "out" .. i end
  end
  for i, v in ipairs(list) do
    if not is_tensor(v) then
      fail("export", "result %s of f is a %s, need a tensor", names[i], type(v))
    end
  end
  if #list == 0 or #list ~= math.max(#names, select("#", ...)) then
    fail("export", "f must return tensors, or a table of them")
  end
  return list, names
end

--- A value for a <close> variable, which calls f(x) at its end, so that tensors are released there
--- and not by the garbage collector.
local closer = { __close = function(t) t.f(t.x) end }
local function closing(f, x) return setmetatable({ f = f, x = x }, closer) end

-- Traces a call of f: the program's text; nil if f wrote to tensors not known as state before.
local function trace(e, inputs)
  local _ <close> = closing(internal.export_cancel, e.x)
  local list, names = results_of(e.f(table.unpack(internal.export_begin(e.x, inputs))))
  return internal.export_end(e.x, list, names, e.names)
end

local function lines_of(text)
  local list = {}
  for line in text:gmatch("[^\n]*\n") do list[#list + 1] = line:sub(1, -2) end
  return list
end

-- Line i of the texts one and two, for a message, with the script's line that recorded it.
local function both(e, i, one, two)
  local place = internal.export_place(e.x, i)
  return ("%s'%s' and '%s'"):format(place ~= "" and place .. ": " or "",
    (one[i] or "nothing"):sub(1, 60), (two[i] or "nothing"):sub(1, 60))
end

local function first_difference(e, a, b)
  local one, two = lines_of(a), lines_of(b)
  for i = 1, math.max(#one, #two) do
    if one[i] ~= two[i] then return both(e, i, one, two) end
  end
end

-- Traces f until two calls in a row give the same text, and returns it; raises after four.
local function steady(e, inputs)
  local last, text
  for _ = 1, 4 do
    last, text = text, trace(e, inputs)
    if text and text == last then return text end
  end
  fail("export", "two calls of f record different programs, first at %s\1: state must be written "
    .. "into tensors; call f once before, so that what it makes once is there",
    last and text and first_difference(e, last, text) or "its state")
end

-- ---- sizes --------------------------------------------------------------------------------------

-- The input x in another shape; its elements are repeated, so that indices in it stay in range.
local function resize(name, x, shape)
  if #shape ~= x.ndim then
    fail("export", "a size of %s has %d axes, the example %d", name, #shape, x.ndim)
  end
  local tracked, y = x.requires_grad, x:detach()
  for a, n in ipairs(shape) do
    local have = x.shape[a]
    if have == 0 and n ~= 0 then
      fail("export", "the example of %s is empty along axis %d", name, a)
    end
    if n ~= have then
      local ids = flame.arange(0, n - 1, { dtype = "i64", device = x.device }):remainder(have) + 1
      y = y:index_select(a, ids)
    end
  end
  if tracked then y:requires_grad_() end
  return y
end

local function with_shapes(e, shapes)
  local list = {}
  for i, name in ipairs(e.names) do
    list[i] = shapes[name] and resize(name, e.inputs[i], shapes[name]) or e.inputs[i]
  end
  for name in pairs(shapes) do
    if not e.at[name] then fail("export", "f has no input '%s'", tostring(name)) end
  end
  return list
end

-- The example inputs with n elements along all axes in 'vary'.
local function with_size(e, vary, n)
  local shapes = {}
  for name, axes in pairs(vary) do
    local shape = table.move(e.inputs[e.at[name]].shape, 1, e.inputs[e.at[name]].ndim, 1, {})
    for _, a in ipairs(axes) do shape[a] = n end
    shapes[name] = shape
  end
  return with_shapes(e, shapes)
end

-- The size that all varying axes have in the examples.
local function size_of(e, vary)
  local size
  for name, axes in pairs(vary) do
    if not e.at[name] then fail("export", "vary: f has no input '%s'", tostring(name)) end
    if type(axes) ~= "table" then
      fail("export", "vary: need lists of axes, as vary = {%s = {1}}", name)
    end
  end
  for i, name in ipairs(e.names) do
    for _, a in ipairs(vary[name] or {}) do
      local x = e.inputs[i]
      local n = math.type(a) == "integer" and a >= 1 and a <= x.ndim and x.shape[a]
      if not n then fail("export", "vary: %s has no axis %s", name, tostring(a)) end
      if size and n ~= size then
        fail("export", "vary: the axes have sizes %d and %d in the examples, and must be one size",
          size, n)
      end
      size = n
    end
  end
  return size or 1
end

-- Merges a word w[1], w[2], w[3] of the texts made with sizes n[1], n[2], n[3]: the word itself if
-- equal, or an expression linear in the size; nil: neither fits.
local function merge_word(w, n)
  if w[1] == w[2] and w[1] == w[3] then return w[1] end
  local mark, divisor, v = nil, nil, {}
  for i = 1, 3 do
    local m, digits, over = w[i]:match("^([#=]?)(%-?%d+)(/?%d*)$")
    if not m or mark and m .. over ~= mark .. divisor then return nil end
    mark, divisor, v[i] = m, over, math.tointeger(tonumber(digits))
  end
  local b, rest = (v[2] - v[1]) // (n[2] - n[1]), (v[2] - v[1]) % (n[2] - n[1])
  if rest ~= 0 or v[3] - v[1] ~= b * (n[3] - n[1]) then return nil end
  return ("%s%d%+dn%s"):format(mark, v[1] - b * n[1], b, divisor)
end

-- Merges the texts made with sizes n[1], n[2], n[3] word by word; raises where they do not fit.
local function merge(e, texts, n)
  local lines, out = {}, {}
  for i = 1, 3 do lines[i] = lines_of(texts[i]) end
  for k = 1, math.max(#lines[1], #lines[3]) do
    local words = { {}, {}, {} }
    for i = 1, 3 do
      for w in (lines[i][k] or ""):gmatch("%S+") do words[i][#words[i] + 1] = w end
    end
    local same = #words[1] == #words[2] and #words[1] == #words[3]
    for j = 1, same and #words[1] or 0 do
      local w = merge_word({ words[1][j], words[2][j], words[3][j] }, n)
      same, words[1][j] = same and w ~= nil, w or ""
    end
    if not same then
      fail("export", "for the sizes %d and %d f records different programs, first at %s\1: give the "
        .. "sizes one by one (sizes =)", n[1], n[3], both(e, k, lines[1], lines[3]))
    end
    out[k] = table.concat(words[1], " ")
  end
  return table.concat(out, "\n") .. "\n"
end

-- A size far from 'first', at which a wrong rounding in a merged text shows. Inputs of this size
-- are used for recording only, and take at most 64 MB unless 2 first + 7 elements take more.
local function far_size(e, vary, first)
  local bytes = 0
  for name in pairs(vary) do
    local x = e.inputs[e.at[name]]
    bytes = bytes + x:numel() * x:element_size() // math.max(first, 1) + 1
  end
  return math.max(2 * first + 7, math.min(2 * first + 1031, (64 << 20) // bytes))
end

-- A merged text with its expressions a+bn computed.
local function at_size(text, n)
  return (text:gsub("(%-?%d+)([+-]%d+)n", function(a, b)
    return ("%d"):format(math.tointeger(tonumber(a)) + math.tointeger(tonumber(b)) * n)
  end))
end

-- Replaces numbers of blocks, elements/threads, with plain integers.
local function plain(text)
  return (text:gsub("(%d+)/(%d+)", function(a, b) return ("%d"):format((a + b - 1) // b) end))
end

-- The program for every size, from the texts of three sizes; that of a fourth must agree. Numbers
-- of blocks are read as elements divided by threads if the fourth text agrees with that, otherwise
-- as plain integers.
local function varying(e, vary)
  local first, texts = size_of(e, vary), {}
  local n = { first + 1, first + 2, first + 4, far_size(e, vary, first) }
  for i, size in ipairs(n) do texts[i] = steady(e, with_size(e, vary, size)) end
  local text = merge(e, texts, n)
  local fourth = at_size(text, n[4])
  if fourth ~= texts[4] then
    for i = 1, 4 do texts[i] = plain(texts[i]) end
    text = merge(e, texts, n)
    fourth = at_size(text, n[4])
  end
  if fourth ~= texts[4] then
    fail("export", "for the size %d f records another program than for %d, first at %s\1: give the "
      .. "sizes one by one (sizes =)", n[4], n[1], first_difference(e, fourth, texts[4]))
  end
  for i = 1, 3 do e.checks[i] = with_size(e, vary, n[i]) end
  return ("graph %d\n%s"):format(n[1], text)
end

-- ---- the file -----------------------------------------------------------------------------------

local function input_names(f, given, n)
  local names = {}
  for i = 1, n do
    local name = given and given[i]
    if not name and type(f) == "function" and debug then name = debug.getlocal(f, i) end
    names[i] = port_name("an input", name or "x" .. i)
  end
  return names
end

-- The state of an export: f; inputs, the examples; names of inputs, and at: name -> number;
-- checks, the lists of inputs with which the file is compared; x, the C part's handle.
local function prepare(f, given)
  local known = { sizes = true, vary = true, names = true }
  local e = { f = f, inputs = {}, at = {}, checks = {}, x = internal.export_new() }
  for key, v in pairs(given) do
    if math.type(key) == "integer" then
      if not is_tensor(v) then fail("export", "input %d is a %s, need a tensor", key, type(v)) end
    elseif not known[key] then
      objects.no_option("export", key, known)
    elseif type(v) ~= "table" then
      fail("export", "%s is a %s, need a table", key, type(v))
    end
  end
  table.move(given, 1, #given, 1, e.inputs)
  e.names = input_names(f, given.names, #e.inputs)
  for i, name in ipairs(e.names) do
    if e.at[name] then fail("export", "two inputs have the name %s", name) end
    e.at[name] = i
  end
  return e
end

-- Loads what was written and compares it with f, call by call.
local function check(e, path)
  local p = internal.program_load(path)
  local _ <close> = closing(internal.program_close, p)
  for _, inputs in ipairs(e.checks) do
    if trace(e, inputs) then internal.export_same(e.x, p) end
  end
end

--- Writes what f records for these inputs as a program: a file that flame.program and, without Lua,
--- flame_program_load run with the same bits. inputs is a list of example tensors, one for each
--- parameter of f, with options: vary = {x = {1}}, the axes of inputs that may have any one size;
--- sizes = {{x = {8, 3}}}, other shapes; names = {"x"} of the inputs, else those of f's
--- parameters. f returns tensors, or a table of them whose keys name them. Branches are fixed as
--- they were taken; tensors from before the call that f writes to are the program's state. f is
--- called several times and must record the same each time; tensors are afterwards as before. See
--- docs/programs.md.
arguments.def(".export(path: str, f: fn, inputs: table)", function(path, f, given)
  local e = prepare(f, given)
  local _ <close> = closing(internal.export_close, e.x)
  collectgarbage()
  local texts = { "program 1\n" }
  if given.vary and next(given.vary) then
    texts[2] = varying(e, given.vary)
  else
    e.checks[1] = e.inputs
    texts[2] = "graph 0\n" .. steady(e, e.inputs)
  end
  for _, shapes in ipairs(given.sizes or {}) do
    local inputs = with_shapes(e, shapes)
    e.checks[#e.checks + 1] = inputs
    texts[#texts + 1] = "graph 0\n" .. steady(e, inputs)
  end
  local text, draft = table.concat(texts), path .. ".new"
  local _ <close> = closing(internal.io_remove, draft)
  internal.export_save(e.x, draft, text)
  check(e, draft)
  internal.export_save(e.x, path, text)
end)

-- ---- programs -----------------------------------------------------------------------------------

local Program = { __name = "Program" }
objects.classes.Program = Program
local get, set = objects.closed("a program", Program, {})
Program.__newindex = set
local blocks = setmetatable({}, { __mode = "k" })
Program.__index = get

local function block(self)
  return blocks[self] or fail("program", "need an open program, got %s", arguments.word(self))
end

--- Loads a file of flame.export onto the default device. p(x, …) runs it and returns its results,
--- untracked. Its state is kept from run to run.
arguments.def(".program(path: str) -> Program", function(path)
  local self = setmetatable({}, Program)
  blocks[self] = internal.program_load(path)
  return self
end)

local function put(text, f) Program[text:match(":([%w_]+)%(")] = internal.declare(text, "", f) end

--- One run: a result for each output.
put("Program:run(...) -> ...", function(self, ...)
  return internal.program_run(block(self), ...)
end)
Program.__call = Program.run

--- The inputs: a list of {name =, dtype =, shape =}; -1 is a size that may vary.
put("Program:inputs() -> table", function(self)
  return internal.program_ports(block(self), false)
end)
--- The outputs, a list like that of inputs().
put("Program:outputs() -> table", function(self)
  return internal.program_ports(block(self), true)
end)
--- Restarts the program's random numbers with this seed, as flame.seed does for those of the
--- script.
put("Program:seed(number: int)", function(self, number)
  internal.program_seed(block(self), number)
end)
--- Resets state and random numbers to those after loading.
put("Program:reset()", function(self) internal.program_reset(block(self)) end)
--- Frees the program, as the end of a <close> variable does.
put("Program:close()", function(self)
  if blocks[self] then internal.program_close(blocks[self]) end
  blocks[self] = nil
end)
-- Lua passes an error, too
function Program:__close() self:close() end
