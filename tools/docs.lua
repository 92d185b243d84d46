-- docs.lua: the last part of docs/ops.md, every function and method with its signature and a line
-- of description (from tools/meta.lua), grouped by the subjects of tools/subjects.txt and
-- tools/modules.txt, with the examples of these files. Run by tools/docs from the top of the tree.
local meta = dofile "tools/meta.lua"
local list = meta.collect()

local function cell(text) return (text:gsub("|", "\\|")) end
local function first_sentence(doc)
  local text = table.concat(doc, " ")
  if #text <= 240 then return text end
  local first = text:gsub("et al%. ", "et al\0 "):match("^(.-%.) ")     -- not the end of a sentence
  first = first and first:gsub("%z", ".") or text
  return #first <= 320 and first or text:match("^(.-)[;:] ") .. "."
end
local function section(title, what, wanted)
  local rows = {}
  for _, e in ipairs(list) do
    if wanted(e) then
      rows[#rows + 1] = ("| `%s` | %s |"):format(cell(meta.signature(e)),
        cell(first_sentence(e.doc)))
    end
  end
  if #rows == 0 then return end
  print(("\n### %s\n%s\n| call | what it gives |\n|---|---|"):format(title,
    what ~= "" and "\n" .. what .. "\n" or ""))
  print(table.concat(rows, "\n"))
end

print("\n## All functions")
print("\nThe ops of the tables above and what is composed of them. The same texts stand in `lua/meta/flame.lua`")
print("for editors, and `help(flame.topk)` or `help(\"topk\")` prints them at the prompt. A mistake in the")
print("arguments raises an error that says what is expected: [messages](messages.md).")
print("")
print("Where types stand, they are: T a tensor, num a number, int an integer, bool, str, fn what can be called,")
print("axes an axis or a list of them, dims(n) an integer or a list of n, `[]` a list. `?` may be left out, and")
print("every parameter but the first may also be given by its name in one table at the end, those behind `*`")
print("only there.")

-- ---- by subject ---------------------------------------------------------------------------------

--- The subjects of a file: { title =, names = {…}, rest = { "linalg" }, examples =
--- { { name, text }, … } }.
local function read_subjects(file)
  local subjects, number = {}, 0
  for line in io.lines(file) do
    number = number + 1
    local name, text = line:match("^  ([%w_.]+): (.+)$")
    local names = line:match("^  ([%w_.* ]+)$")
    local subject = subjects[#subjects]
    if line:match("^%u") then
      subjects[#subjects + 1] = { title = line, names = {}, rest = {}, examples = {} }
    elseif name then
      table.insert(subject.names, name)
      table.insert(subject.examples, text)
      subject.examples[name] = true
    elseif names then
      for word in names:gmatch("%S+") do
        local prefix = word:match("^(%w+)%.%*$")
        table.insert(prefix and subject.rest or subject.names, prefix or word)
      end
    elseif line ~= "" and line:sub(1, 1) ~= "#" then
      error(("%s:%d: neither a subject nor names"):format(file, number), 0)
    end
  end
  return subjects
end

--- Adds functions whose comment has a line ---@example with their subject to that subject's end.
local function place_declared(subjects, made)
  local names = {}
  for name, e in pairs(made) do if e.example then names[#names + 1] = name end end
  table.sort(names)
  for _, name in ipairs(names) do
    local title, text = made[name].example:match("^([^:]+): (.+)$")
    local to
    for _, subject in ipairs(subjects) do if subject.title == title then to = subject end end
    if not to then error(("%s: no subject is called '%s'"):format(name, title), 0) end
    table.insert(to.names, name)
    table.insert(to.examples, text)
    to.examples[name] = true
  end
end

--- The subjects of a file, and name -> subject; raises if a name in 'made' has no subject.
local function place(file, made)
  local placed, homeless, subjects = {}, {}, read_subjects(file)
  place_declared(subjects, made)
  for _, subject in ipairs(subjects) do
    for _, name in ipairs(subject.names) do
      if not made[name] then error(file .. ": there is no " .. name, 0) end
      if placed[name] then error(file .. ": " .. name .. " appears twice", 0) end
      placed[name] = subject
    end
  end
  for _, subject in ipairs(subjects) do
    for _, prefix in ipairs(subject.rest) do
      for name in pairs(made) do
        if not placed[name] and name:match("^(%w+)%.") == prefix then placed[name] = subject end
      end
    end
  end
  for name in pairs(made) do
    if not placed[name] then homeless[#homeless + 1] = name end
  end
  table.sort(homeless)
  if #homeless > 0 then
    error(file .. ": no subject has " .. table.concat(homeless, " "), 0)
  end
  return subjects, placed
end

local made, modules = {}, {}       -- name -> entry: functions and methods; names of nn, optim
for _, e in ipairs(list) do
  local of_module = meta.is_module[e.name:match("^(%w+)%.")]
  if e.kind == "both" or e.kind == "method" or e.kind == "function" and not of_module then
    made[e.name] = e
  elseif e.name:match("^nn%.") or e.name:match("^optim%.") then
    modules[e.name] = e
  end
end
local subjects, placed = place("tools/subjects.txt", made)
local of_modules, placed_modules = place("tools/modules.txt", modules)

local values = {
  a = "flame.tensor { 1, 4, 9 }", b = "flame.tensor { 2, 2, 3 }",
  m = "flame.tensor { { 2, 1 }, { 1, 3 } }",
  n = 'flame.tensor({ 3, 1, 2 }, { dtype = "i64" })',
  t = "flame.tensor { { 1, 2, 3 }, { 4, 5, 6 } }", s = "flame.tensor { -1, 0, 2 }",
  series = "flame.arange(6.0):reshape(1, 1, 6)          -- batch, channels, time",
  image = "flame.arange(16.0):reshape(1, 1, 4, 4)       -- batch, channels, height, width",
  box = "flame.arange(8.0):reshape(1, 1, 2, 2, 2)",
  gained = "flame.tensor({ 1, 2 }, { requires_grad = true })",
}
local order = { "a", "b", "m", "n", "t", "s", "series", "image", "box", "gained" }
local environment = setmetatable({ flame = require "flame" }, { __index = _G })
for _, name in ipairs(order) do
  environment[name] = assert(load("return " .. values[name], "=value", "t", environment))()
end

--- Calls f. Returns the list of lines that it prints, then the results of f.
local function listen(f)
  local said, real = {}, print
  rawset(_G, "print", function(line) said[#said + 1] = tostring(line) end)
  local got = table.pack(pcall(f))
  rawset(_G, "print", real)
  if not got[1] then error(got[2], 0) end
  return said, table.pack(table.unpack(got, 2, got.n))
end

--- Runs an example (code; ";;" separates statements before its last expression). Returns it as an
--- argument of print, its output, and the lines of these statements. A list is unpacked. An example
--- that prints and returns nothing is not changed.
local function shown(text)
  local before, last = text:match("^(.+) ;; (.+)$")
  before = before and before:gsub(" ;; ", "\n")
  text = last or text
  local function values_of(code)
    local chunk = (before and before .. " " or "") .. "return " .. code
    return listen(assert(load(chunk, "=" .. code, "t", environment)))
  end
  local said, got = values_of(text)
  if got.n == 0 and #said > 0 then return text, table.concat(said, "\n"), before end
  if type(got[1]) == "table" and tostring(got[1]):find("^table: ") then
    text = ("table.unpack(%s)"):format(text)
    got = table.pack(table.unpack(got[1]))
  end
  for i = 1, got.n do got[i] = tostring(got[i]):gsub("  shape", " shape") end
  return ("print(%s)"):format(text), table.concat(got, " "), before
end

local function put_examples(subject)
  if #subject.examples == 0 then return end
  print "\n```lua"
  for _, text in ipairs(subject.examples) do
    local line, out, before = shown(text)
    if before then print(before) end
    if out:find("\n") or #line + #out > 100 then
      print(line .. "\n--> " .. out:gsub("%s*\n%s*", "\n--> "))
    else
      print(("%-50s --> %s"):format(line, out))
    end
  end
  print "```"
end

-- Sections without subjects: title -> examples.
local parts = {}
for _, of_title in ipairs(read_subjects("tools/parts.txt")) do parts[of_title.title] = of_title end

--- Prints a section of the page, with its examples from tools/parts.txt.
local function part(title, what, wanted)
  section(title, what, wanted)
  if parts[title] then put_examples(parts[title]) end
  parts[title] = nil
end

local function links(titles)
  local names = {}
  for i, subject in ipairs(titles) do
    names[i] = ("[%s](#%s)"):format(subject.title:lower(), subject.title:lower():gsub(" ", "-"))
  end
  return table.concat(names, " ·\n")
end
print("\nBy subject: " .. links(subjects) .. ". After these: [writes](#writes),")
print("[modules](#modules), [optimisers](#optimisers), [data](#data), [plots](#plots), and what else there is.")
print "\nA function that takes a tensor first is a method as well: `flame.name(x, …)` is `x:name(…)`. The examples use\n"
print "```lua"
for _, name in ipairs(order) do print(("local %s = %s"):format(name, values[name])) end
print "```"
for _, subject in ipairs(subjects) do
  local function of_subject(kind)
    return function(e)
      return made[e.name] == e and placed[e.name] == subject
        and (e.kind == "method") == (kind == "method")
    end
  end
  section(subject.title, "", of_subject "function")
  local rows = {}
  for _, e in ipairs(list) do
    if of_subject "method" (e) then
      rows[#rows + 1] =
        ("| `%s` | method: %s |"):format(cell(meta.signature(e)), cell(first_sentence(e.doc)))
    end
  end
  if #rows > 0 then print(table.concat(rows, "\n")) end
  put_examples(subject)
end

part("Writes", "Methods that change the value of `x` and return it; also as `flame.name_(x, …)`.",
  function(e) return e.kind == "write" end)

-- ---- modules ------------------------------------------------------------------------------------

-- Lua code shown on the page: definitions that the examples of modules use.
local beside = [[
local nn, optim = require "flame.nn", require "flame.optim"
local words = flame.randn(2, 5, 8)                            -- batch, time, features
local ids = flame.tensor({ 1, 3 }, { dtype = "i64" })         -- a class for each row of t
local net = nn.Sequential { nn.Linear(3, 4) }
local function stepped(rule, options)              -- two weights after a step on their squares
  local w = nn.Parameter(flame.tensor { { 1, -2 } })
  local opt = rule({ w }, options)
  opt:step(function()
    opt:zero_grad()
    local loss = w:square():sum()
    loss:backward()
    return loss
  end)
  return w:detach():flatten()
end
local function clipped(clip, limit)                -- a gradient of 6 and 8
  local w = nn.Parameter(flame.tensor { 3, 4 })
  w:square():sum():backward()
  clip({ w }, limit)
  return w.grad
end
local function rates(make, options, measure)       -- of six steps, for a rate of 1 in the optimiser
  local schedule = make(optim.SGD({ nn.Parameter(flame.zeros(1)) }, { lr = 1 }), options)
  local list = {}
  for k = 1, 6 do
    list[k] = ("%.3g"):format(schedule:get_last_lr()[1])
    if measure then schedule:step(measure) else schedule:step() end
  end
  return table.concat(list, " ")
end
local function warm(opt) return optim.schedule.linear(opt, { start_factor = 0.1, total_iters = 3 }) end
local function falling(opt) return optim.schedule.exponential(opt, 0.5) end]]
environment.flame.seed(1)
assert(load(beside:gsub("local function ", "function "):gsub("\nlocal ", "\n"):gsub("^local ", ""),
  "=beside", "t", environment))()

print("\n### Modules\n\nBy subject: " .. links(of_modules) .. ". Then [calls](#calls-of-modules),")
print("[methods of modules](#methods-of-modules), [of optimisers](#methods-of-optimisers) and")
print("[of schedules](#methods-of-schedules). A module is made of its options and called with tensors:")
print("`nn.Linear(3, 2)(t)`. The examples use what those above do, and\n")
print("```lua\n" .. beside .. "\n```")
for _, subject in ipairs(of_modules) do
  section(subject.title, "", function(e)
    return modules[e.name] == e and placed_modules[e.name] == subject
  end)
  put_examples(subject)
  for _, name in ipairs(subject.names) do
    local about = table.concat(modules[name].doc, " ")
    local same = subject.examples[name .. "_"] or about:find("^The same as")
    if not subject.examples[name] and not same then
      error(("tools/modules.txt: %s needs an example"):format(name), 0)
    end
  end
end
local function methods_of(class)
  return function(e) return e.kind == "member" and e.name:match("^%w+") == class end
end
part("Calls of modules", "`net(…)`, of those that take more than one tensor.",
  function(e) return e.kind == "call" end)
part("Methods of modules", "`net:name(…)`.", methods_of "Module")
local others = {}                                      -- classes of methods in other sections
for name in ([[Module Optimizer LBFGS GradScaler Schedule ReduceOnPlateau Batches Dataset Loader
    Progress EventWriter Plot Grid Algebra Distribution Transform NoiseSchedule Tokenizer TokenStream
    CausalLM Program Sandbox KernelTemplate]]):gmatch("%S+") do
  others[name] = true
end
part("Methods of some modules", "`layer:name(…)`.",
  function(e) return e.kind == "member" and not others[e.name:match("^%w+")] end)
part("Methods of saved programs",
  "`local p = flame.program(path)`, then `p:name(…)`: [programs](programs.md).",
  methods_of "Program")
part("Methods of kernels that are templates",
  "`local k = flame.kernel(text)`, `k:name(…)`: [kernels](kernels.md#templates).",
  methods_of "KernelTemplate")
part("Methods of sandboxes",
  "`local jail = flame.sandbox { time = 1 }`, `jail:name(…)`: [security](security.md).",
  methods_of "Sandbox")
part("Methods of optimisers", "`opt:name(…)`.", function(e)
  return methods_of "Optimizer" (e) or methods_of "LBFGS" (e) or methods_of "GradScaler" (e)
end)
part("Methods of schedules", "`schedule:name(…)`.", function(e)
  return methods_of "Schedule" (e) or methods_of "ReduceOnPlateau" (e)
end)
part("Data", "`local data = require \"flame.data\"`.",
  function(e) return e.name:match("^data%.") ~= nil end)
part("Methods of batches", "`local it = data.batches(x, 64)`, then `it:name(…)`.",
  methods_of "Batches")
part("Methods of datasets and loaders",
  "`local set = data.dataset(n, f)`, `local l = data.loader(set)`, then `set:name(…)`, `l:name(…)`.",
  function(e) return methods_of "Dataset" (e) or methods_of "Loader" (e) end)
part("Methods of progress lines",
  "`local p = data.progress { steps = 1000 }`, then `p:name(…)`.", methods_of "Progress")
part("Methods of writers of event files",
  "`local w = data.tensorboard(folder)`, then `w:name(…)`.", methods_of "EventWriter")
part("Plots", "`local plot = require \"flame.plot\"`: [plots](plots.md).",
  function(e) return e.name:match("^plot%.") ~= nil end)
part("Methods of plots", "`local p = plot.new()` or `plot.grid(plots)`, then `p:name(…)`.",
  function(e) return methods_of "Plot" (e) or methods_of "Grid" (e) end)
part("Clifford algebras", "`local clifford = require \"flame.clifford\"`: [clifford](clifford.md).",
  function(e) return e.name:match("^clifford%.") ~= nil end)
part("Methods of algebras", "`local A = clifford.algebra{1, 1, 1}`, then `A:name(…)`.",
  methods_of "Algebra")
part("Distributions",
  "`local distributions = require \"flame.distributions\"`: [distributions](distributions.md).",
  function(e) return e.name:match("^distributions%.") ~= nil end)
part("Methods of distributions", "`local d = distributions.Normal(0, 1)`, then `d:name(…)`.",
  methods_of "Distribution")
part("Methods of transforms", "`local t = distributions.ExpTransform()`, then `t:name(…)`.",
  methods_of "Transform")
part("Diffusion",
  "`local diffusion = require \"flame.diffusion\"`: [diffusion](diffusion.md).",
  function(e) return e.name:match("^diffusion%.") ~= nil end)
part("Methods of noise schedules", "`local s = diffusion.schedule()`, then `s:name(…)`.",
  methods_of "NoiseSchedule")
part("Tokenizers",
  "`local tokenizers = require \"flame.tokenizers\"`: [tokenizers](tokenizers.md).",
  function(e) return e.name:match("^tokenizers%.") ~= nil end)
part("Methods of tokenizers", "`local t = tokenizers.load(\"tokenizer.json\")`, then `t:name(…)`.",
  methods_of "Tokenizer")
part("Methods of streams", "`local s = t:stream()`, then `s:name(…)`.", methods_of "TokenStream")
part("Models", "`local models = require \"flame.models\"`: [models](models.md).",
  function(e) return e.name:match("^models%.") ~= nil end)
part("Methods of models", "`local m = models.from_pretrained(folder)`, then `m:name(…)`.",
  methods_of "CausalLM")
part("Several processes",
  "`local distributed = require \"flame.distributed\"`: [distributed](distributed.md).",
  function(e) return e.name:match("^distributed%.") ~= nil end)
part("Images", "`local image = require \"flame.image\"`.",
  function(e) return e.name:match("^image%.") ~= nil end)

if next(parts) then error("tools/parts.txt: there is no section " .. next(parts), 0) end

print([[

## Where flame differs from PyTorch

- Positions count from 1 and ends are inclusive: axes, indices, ids, labels, `arange`, `randint`, `narrow`, results of
  `argmax`, `sort`, `topk`, `nonzero`, `searchsorted`. Offsets (`diagonal(k)`, `roll(n)`) are as they are.
- A write to a view raises; results of functions never share memory with their arguments as far as a script can see.
- Numbers given to `flame.tensor` are f32 whatever their subtype; `sum`, `prod` and `cumsum` of bool and integers give i64.
- Integers divided by zero give 0; float to integer saturates, and NaN gives 0.
- `sign` of NaN is NaN. Of equal elements the first position wins in `max(d)`, `min(d)`, `sort`, `topk`, `kthvalue`, `median(d)`,
  `cummax` and `cummin`.
- `amax`, `amin`, `maximum` and `minimum` share the gradient among equal elements, as PyTorch's do; `max(d)` sends it to the one
  whose position it returns.
- `floordiv` has the gradient 0, as `floor` and its kin have; PyTorch raises.
- Where all is -inf, the gradient of `logsumexp` is 0 and that of `logaddexp` a half each, where PyTorch's is NaN.
- The gradient of `xlogy` and `xlog1py` at 0 and of `entr` at 0 and below is 0 where PyTorch's is NaN or infinite. That of
  `det` of a singular matrix is the cofactors, where PyTorch's is 0.
- Gradients go to what the result depends on: of `cholesky_solve` and `cholesky_inverse` to one triangle, of `max_unpool`
  to the write that stays, of `ctc_loss` by the log-probabilities as they are (behind `log_softmax` both are the same).
- `binary_cross_entropy` of an input outside 0 to 1 and `gaussian_nll_loss` of a variance below 0 are NaN, where PyTorch
  raises: they would have to read the values.
- Operands of different dtypes are promoted, also where PyTorch wants them alike: `matmul`, `dot`, `addmm`, `cross`, `meshgrid`,
  `isclose`, `sub` with bool. A float number beside integers gives f32, also as `alpha`, `beta` and `value`. Booleans are no
  operands: `x:eq(1)`.
- `default_dtype` (PyTorch's `set_default_dtype`) is that of new tensors alone: `/` of integers and a float number beside
  integers give f32 whatever it is.
- `ldl_factor`, `ldl_solve`, `histogram`, `histogramdd`, `bincount`, `poisson` and `binomial` look at values, and so evaluate; the first
  four have no gradient.
- `hardswish` has the slope 0 at -3 and 1 at 3. With include_self = false, `scatter_reduce` shares the
  gradient of the largest and the smallest among the elements of src alone.
- Where the correction leaves no element, the gradient of `var` is infinite or NaN, whatever the correction; PyTorch's is that
  of the formula for a correction above the number of elements, and without an axis positive.
- Where an input is NaN, the values are NaN as PyTorch's; the slopes of piecewise functions there are those of one of their pieces,
  not always the same one: `relu` 0 (PyTorch 1), `hardsigmoid` 1/6 (0), `elu` NaN (1).
- `ctc_loss` of a target that cannot be reached has the gradient 0, where PyTorch's is NaN.
- `copy_` casts to the dtype of what is written, as PyTorch's; the other writes refuse a result that does not fit.
- `repeat` is a word of Lua: `tile`.
- `torch.fft.rfft` is `flame.rfft`, and so with its kin: `flame.fft` is the transform. A complex number is a last axis of two.
- `lu` always pivots; `linalg.eig` and other functions with complex results are not there.]])
