--- The commands of the prompt: ":name text" at the start of a line, and prompt.name(value).
local flame = require "flame"
local internal = flame.internal
local arguments = require "flame.base.arguments"
local dtypes = require "flame.base.dtypes"
local told = require "flame.tools.help"
local show = require "flame.prompt.show"

local commands = {}

local list = {
  { "help", "[x]", "what there is to know about a function, a class, a value; or a word to look for" },
  { "doc", "[word]", "the functions of a module, or those with the word in their names, a line each" },
  { "source", "f", "the text of a function or a kernel" },
  { "time", "expr", "how long it takes, with all work done" },
  { "mem", "", "memory, and the largest tensors with the lines that made them" },
  { "why", "x", "what a tensor was made from, and why it has a gradient or none" },
  { "explain", "x", "the plan that would compute a tensor: kernels and bytes" },
  { "grad", "k", "the adjoint that is derived from a kernel" },
  { "plot", "x", "a picture of values: a line, or of two axes a heat map" },
  { "undo", "", "takes back the last change of variables" },
}

--- The names of the commands, for completion.
function commands.names()
  local out = {}
  for i, c in ipairs(list) do
    out[i] = { c[1], function() return c[3] end, c[2] ~= "" and " " or "" }
  end
  return out
end

-- A mistake in a command: a message without a traceback.
local Mistake = { __tostring = function(self) return self.text end }
local function fail(text, ...) error(setmetatable({ text = text:format(...) }, Mistake)) end

-- ---- evaluating the text after a command -------------------------------------------------------

local function chunk_of(p, text)
  local chunk, why = load("return " .. text, "=stdin", "t", p.environment())
  if not chunk then fail("%s", why) end
  return chunk
end

local function value_of(p, text, op)
  if text == "" then fail("%s: need an expression", op) end
  return (chunk_of(p, text)())
end

local function bytes_text(n)
  for _, unit in ipairs { { 1e9, "GB" }, { 1e6, "MB" }, { 1e3, "kB" } } do
    if n >= unit[1] then return ("%.1f %s"):format(n / unit[1], unit[2]) end
  end
  return ("%d bytes"):format(n)
end

local function need_tensor(op, x)
  if not flame.is_tensor(x) then fail("%s: need a tensor, got %s", op, arguments.word(x)) end
  return x
end

-- Prints a line of columns, cut to the width of the terminal.
local function line(p, ...) print(show.cut(p, (...):format(select(2, ...)), (p.size()) - 1)) end

-- ---- help ---------------------------------------------------------------------------------------

-- The text, with lines that are too long broken at spaces; what continues a line has its indent.
local function wrapped(text, columns)
  local out = {}
  for row in (text .. "\n"):gmatch("(.-)\n") do
    local indent = row:match("^ *")
    while #row >= columns do
      local head = row:sub(1, columns - 1):match("^(.*%S) ")
      if not head or #head <= #indent then break end
      out[#out + 1] = head
      row = indent .. row:sub(#head + 2)
    end
    out[#out + 1] = row
  end
  return table.concat(out, "\n")
end

local function tell(p, name)
  print(wrapped(told.text(name), (p.size())))
  local options = told.options(name)
  if #options == 0 then return end
  local texts = {}
  for i, o in ipairs(options) do texts[i] = o[1] end
  print(wrapped("options: " .. table.concat(texts, " "), (p.size())))
end

local function overview(p)
  print("An entry is an expression, whose value is shown, or statements.")
  print("_ is the last value; a local of an entry stays for those after it.")
  print("Tab completes, a second Tab lists; Ctrl-R searches; Alt-Enter breaks the line.")
  for _, c in ipairs(list) do line(p, ":%-16s %s", c[1] .. " " .. c[2], c[3]) end
  print("Each is a function too: prompt.why(x). help(flame.topk) is as :help topk.")
end

-- A table module -> number of its functions, and the list of modules in order.
local function modules()
  local count, names = {}, {}
  for _, name in ipairs(told.names()) do
    local module = name:match("^(.*)[.:]") or "flame"
    if not count[module] then names[#names + 1] = module end
    count[module] = (count[module] or 0) + 1
  end
  return count, names
end

-- The name of the module whose table is v, or nil.
local function module_name(v)
  if type(v) ~= "table" then return nil end
  for name in pairs((modules())) do
    local t = flame
    for field in (flame.has(name) and name or ""):gmatch("[%w_]+") do t = t[field] end
    if v == t and (name == "flame" or t ~= flame) then return name end
  end
end

-- Prints a line on each function of a module, or only their names if that is more than a screen.
local function tell_module(p, module)
  local columns, rows = p.size()
  local names, row = {}, ""
  for _, name in ipairs(told.names()) do
    local place, field = name:match("^(.*)[.:](.-)$")
    if (place or "flame") == module then names[#names + 1] = field or name end
  end
  if #names < rows then return commands.doc(p, module) end
  for _, name in ipairs(names) do
    if #row + #name + 3 > columns then
      print(row)
      row = ""
    end
    row = row .. "  " .. name
  end
  print(row)
  print((":doc %s has a line on each, :help %s.%s all of one"):format(module, module, names[1]))
end

-- Describes a module or any other value; false for nil.
local function tell_value(p, v)
  local module = module_name(v)
  if module then tell_module(p, module) return true end
  if flame.is_tensor(v) then
    print(show.line(p, v, (p.size()))
      .. "; :why and :explain tell where it comes from, :doc Tensor what it can do")
    return true
  end
  local class = type(v) == "table" and getmetatable(v)
  local name = type(v) == "function" and told.name(v)
    or class and told.name(class)
  if not name and type(class) == "table" and type(class.__name) == "string" then
    name = told.name(class.__name)
  end
  if name then tell(p, name) end
  if class and class.__tostring then print(tostring(v)) return true end
  if name then return true end
  if type(v) == "function" then commands.source(p, v) return true end
  if v == nil then return false end
  print(show.value(p, v, (p.size())))
  return true
end

-- Lists functions (no Tensor methods) with all words in name or help, 20 at most; counts them all.
local function search(p, text)
  local asked, found = {}, {}
  for w in text:lower():gmatch("[%w_]+") do asked[#asked + 1] = w end
  for _, name in ipairs(#asked > 0 and told.names() or {}) do
    local all = (name .. " " .. told.text(name)):lower()
    local fits = true
    for _, w in ipairs(asked) do fits = fits and all:find(w, 1, true) ~= nil end
    if fits and not name:find("^Tensor:") then found[#found + 1] = name end
  end
  for i = 1, math.min(#found, 20) do
    line(p, "  %-24s %s", found[i], (told.line(found[i])))
  end
  if #found > 20 then print(("  … %d more"):format(#found - 20)) end
  return #found
end

local function nearest(text)
  local known = {}
  for _, name in ipairs(told.names()) do known[name:match("[%w_]+$")] = true end
  return internal.hint(text:match("[%w_]+$") or "", known)
end

--- Help on a function, a class, a value or a name; for other words the nearest name, and the
--- functions whose help contains them.
function commands.help(p, what)
  if what == nil then return overview(p) end
  if type(what) ~= "string" then
    if not tell_value(p, what) then fail("help: there is no text on this %s", type(what)) end
    return
  end
  what = what:match("^%s*([\"'])(.*)%1%s*$") and what:match("^%s*[\"'](.*)[\"']%s*$") or what
  local name = told.name(what) or told.name((what:gsub("^flame%.", "")))
  if name then return tell(p, name) end
  local module = what:gsub("^flame%.", "")
  if (modules())[module] then return tell_module(p, module) end
  local chunk = load("return " .. what, "=stdin", "t", p.environment())
  local ok, v = pcall(chunk or error)
  if ok and v ~= nil and tell_value(p, v) then return end
  print(("nothing is named '%s'%s"):format(what, nearest(what)))
  if search(p, what) == 0 then print(":doc lists the modules, :doc pool the names with that word") end
end

--- Lists the functions of a module ("nn", "Tensor"), or those with the word in their names.
function commands.doc(p, word)
  word = word and tostring(word) or ""
  local count, names = modules()
  if word == "" then
    for _, module in ipairs(names) do
      local n = count[module]
      print(("  %-24s %d function%s"):format(module, n, n > 1 and "s" or ""))
    end
    print(":doc nn lists those of a module; the pages in docs/ have more")
    return
  end
  local found = 0
  for _, name in ipairs(told.names()) do
    local module = name:match("^(.*)[.:]") or "flame"
    local again = name:find("^Tensor:") and told.name("flame." .. name:sub(8))
    if module == word
        or not count[word] and not again and name:lower():find(word:lower(), 1, true) then
      found = found + 1
      local text, parameters = told.line(name)
      line(p, "  %-34s %s", name .. parameters, text)
    end
  end
  if found == 0 then print(("no name has '%s' in it%s"):format(word, nearest(word))) end
end

-- ---- source, adjoint ----------------------------------------------------------------------------

-- The Lua functions to show for f: init and forward of a class, or one for each signature.
local function functions_of(f)
  local class = type(f) == "table" and (rawget(f, "init") and f or getmetatable(f))
  if type(class) == "table" then
    local own = {}
    for _, name in ipairs { "init", "forward" } do
      for _, g in ipairs(functions_of(rawget(class, name))) do own[#own + 1] = g end
    end
    return own
  end
  if type(f) ~= "function" then return {} end
  if debug.getinfo(f, "S").what ~= "C" then return { f } end
  local forms, i = {}, 5                             -- AT_FUNCTION in declare.c
  local _, form = debug.getupvalue(f, i)
  while type(form) == "function" do
    forms[#forms + 1] = form
    i = i + 1
    _, form = debug.getupvalue(f, i)
  end
  return forms
end

local function show_source(f)
  local facts = debug.getinfo(f, "S")
  local text, ours = facts.source, facts.source:find("^=flame/")      -- ours: without comments
  if text:find("^@") then
    local file, why = io.open(text:sub(2))
    if not file then fail("source: %s", why) end
    text = file:read("a")
    file:close()
  elseif ours then
    text = internal.embedded((text:sub(2):gsub("%.lua$", ""):gsub("/", "."))) or ""
  elseif text:find("^=") then
    fail("source: the text of %s was not kept", facts.short_src)
  end
  print(("-- %s:%d"):format(facts.short_src, facts.linedefined))
  local n = 0
  for s in (text .. "\n"):gmatch("(.-)\n") do
    n = n + 1
    local inside = n >= facts.linedefined and n <= facts.lastlinedefined
    if inside and (s:find "%S" or not ours) then print(s) end
  end
end

--- Shows the source of a Lua function, of a class's init and forward, or of a kernel.
function commands.source(_, f)
  if internal.is_kernel(f) then print((f:source())) return end
  local own = functions_of(f)
  for _, g in ipairs(own) do show_source(g) end
  if #own > 0 then return end
  if type(f) == "function" then
    fail("source: the function is written in C\1: help tells what it does")
  end
  fail("source: need a function, a class or a kernel, got %s", arguments.word(f))
end

--- Shows the adjoint kernel derived from a kernel, without the helper functions before it.
function commands.grad(_, k)
  if not internal.is_kernel(k) then fail("grad: need a kernel, got %s", arguments.word(k)) end
  for part in k:source("adjoint"):gmatch('extern "C".-\n}') do print(part) end
end

-- ---- time, memory -------------------------------------------------------------------------------

local function run_all(f)
  local out = table.pack(f())
  for i = 1, out.n do if flame.is_tensor(out[i]) then flame.eval(out[i]) end end
  flame.synchronize()
end

local ENOUGH, MOST = 0.2, 1000                   -- seconds, runs

--- Times a function including all its work on devices: the minimum and the median of several runs.
function commands.time(_, f)
  if not internal.callable(f) then
    fail("time: need a function or an expression, got %s", arguments.word(f))
  end
  flame.synchronize()
  local before, times, total = flame.stats(), {}, 0
  repeat
    local clock = flame.timer()
    run_all(f)
    times[#times + 1] = clock()
    total = total + times[#times]
  until total >= ENOUGH or #times >= MOST
  local after, first, n = flame.stats(), times[1], #times
  local launches = (after.launches - before.launches) // n
  table.sort(times)
  print(("%.3f ms, the least of %d runs; median %.3f, first %.3f"):format(times[1] * 1e3, n,
    times[(n + 1) // 2] * 1e3,
    first * 1e3))
  print(("each run: %d launch%s, %s moved; new plans in all: %d"):format(
    launches, launches == 1 and "" or "es",
    bytes_text((after.bytes_moved - before.bytes_moved) // n), after.plans - before.plans))
end

-- A table handle -> name, for the variables that are tensors.
local function variables(p)
  local by = {}
  for _, t in ipairs { p.environment(), _G } do
    for name, v in next, t do
      if type(name) == "string" and flame.is_tensor(v) and name ~= "_" then
        by[internal.handle(v)] = name
      end
    end
  end
  return by
end

--- Shows the memory of the default device and the host, and the largest tensors and their origin.
function commands.mem(p)
  flame.eval()
  local facts = flame.memory()
  print(("%s: %s allocated, %s at most, %s reserved; host %s"):format(flame.default_device(),
    bytes_text(facts.allocated),
    bytes_text(facts.peak), bytes_text(facts.reserved), bytes_text(facts.host)))
  local largest, count = internal.tensors(10)
  local names = variables(p)
  for _, t in ipairs(largest) do
    local name, views = "", -1
    for handle in pairs(t.handles) do
      name, views = names[handle] or name, views + 1
    end
    line(p, "  %10s  %-12s %s %s %s  %s%s", bytes_text(t.bytes), name,
      t.shape, t.dtype,
      t.device, t.site, views > 0 and (", and %d that share its memory"):format(views) or "")
  end
  print(("%d tensors have values"):format(count))
end

-- ---- why ----------------------------------------------------------------------------------------

local SHOWN = 24

local function node_line(p, k, n)
  local inputs = {}
  for i, j in ipairs(n.inputs) do inputs[i] = "%" .. j end
  local tape = n.leaf and "leaf, requires grad" or n.spent and "freed by a backward"
    or n.tracked and "tracked" or "no gradient"
  line(p, "  %%%d = %s(%s)  (%s) %s, %s%s", k, n.leaf and "leaf" or n.op,
    table.concat(inputs, ", "), table.concat(n.shape, ", "),
    n.dtype, tape, n.site ~= "" and "  " .. n.site or "")
end

-- A sentence that says why the node n of a graph has a gradient or none.
local function reason(nodes, n)
  if n.leaf then return "it is a leaf that requires grad: backward adds into its .grad" end
  if n.spent then return "what it was made from was freed by a backward: give that retain_graph = true" end
  local leaves = 0
  for _, m in ipairs(nodes) do if m.leaf then leaves = leaves + 1 end end
  if n.tracked then
    return ("it has a gradient: it depends on %d %s"):format(leaves,
      leaves == 1 and "leaf that requires grad" or "leaves that require grad")
  end
  if not dtypes.float[n.dtype] then
    return ("it has no gradient: it is %s, and gradients are of floats"):format(n.dtype)
  end
  local op
  for _, i in ipairs(n.inputs) do op = op or nodes[i].tracked and n.op end
  if op then return ("it has no gradient though what it is made from has: %s has no derivative, or no_grad or detach was at work")
    :format(op) end
  if #n.inputs == 0 then
    return "it has no gradient: it is a value alone, of a tensor without requires_grad, or made with nothing tracked, under " ..
      "no_grad or by detach"
  end
  return "it has no gradient: nothing that it is made from requires grad"
end

--- Shows what a tensor was made from, with lines of the script, and why it has a gradient or none.
function commands.why(p, x)
  local nodes = internal.graph(need_tensor("why", x), true)
  local first = math.max(#nodes - SHOWN + 1, 1)
  if first > 1 then print(("  … %d before"):format(first - 1)) end
  for k = first, #nodes do node_line(p, k, nodes[k]) end
  print(reason(nodes, nodes[#nodes]))
end

--- Shows the plan that would compute a tensor.
function commands.explain(p, x)
  local plan = internal.plan(need_tensor("explain", x))
  if not plan then
    print(("tensor %s %s: its value is there, nothing is left to run"):format(x.shape, x.dtype))
    return
  end
  local parts = {}
  for _, kind in ipairs { "kernel", "matmul", "scatter", "copy", "call" } do
    if plan[kind] > 0 then parts[#parts + 1] = ("%d %s"):format(plan[kind], kind) end
  end
  print(("%d ops: %s; %s moved, %s between steps"):format(plan.ops,
    #parts > 0 and table.concat(parts, ", ") or "nothing to run",
    bytes_text(plan.bytes), bytes_text(plan.arena)))
  for s in plan.text:gmatch("[^\n]+") do line(p, "  %s", s) end
end

--- Plots values in the terminal: a list or a vector as a line, a matrix as a heat map.
function commands.plot(_, v)
  local plot = flame.plot
  local drawn = type(v) == "table" and getmetatable(v) == plot.Plot
  if not drawn and type(v) ~= "table" and not flame.is_tensor(v) then
    fail("plot: need a tensor, a list of numbers or a plot, got %s", arguments.word(v))
  end
  if drawn then print(v)
  elseif flame.is_tensor(v) and v.ndim == 2 then print(plot.heatmap(v))
  else print(plot.line(flame.is_tensor(v) and v:reshape(-1) or v)) end
end

-- ---- ":name text" -------------------------------------------------------------------------------

local takes_value = { source = true, why = true, explain = true, grad = true, plot = true }

function commands.run(p, name, text)
  if name == "" then return overview(p) end
  if name == "undo" then return p.undo() end
  if takes_value[name] then return commands[name](p, value_of(p, text, name)) end
  if name == "time" then
    if text == "" then fail("time: need an expression") end
    local chunk, why = load("return " .. text, "=stdin", "t", p.environment())
    local other
    if not chunk then chunk, other = load(text, "=stdin", "t", p.environment()) end
    if not chunk then fail("%s", why:find("<eof>", 1, true) and why or other) end
    return commands.time(p, chunk)
  end
  local known = {}
  for _, c in ipairs(list) do known[c[1]] = true end
  if not known[name] then
    local hint = internal.hint(name, known)
    fail("there is no command :%s%s", name, hint ~= "" and hint or "; :help lists them")
  end
  return commands[name](p, text ~= "" and text or nil)
end

return commands
