--- help: a short description of a function. It reads the editor stub (lua/meta/flame.lua, embedded;
--- made from the sources by tools/docs), so prompt, editor and docs/ops.md say the same.
local flame = require "flame"
local internal = flame.internal
local methods = internal.methods
local arguments = require "flame.base.arguments"
local objects = require "flame.base.objects"
local fail = arguments.fail
local help = {}                       -- for the prompt

--- name -> its facts in the editor stub: {params = text, comment = lines}, or {of = aliased name}.
local blocks
local function load_blocks()
  if blocks then return end
  internal.load()
  blocks = {}
  local text, comment = internal.embedded("meta.flame") or "", {}
  for line in text:gmatch("[^\n]*") do
    local name, params = line:match("^function ([%w_%.:]+)%((.-)%) end$")
    local alias, of = line:match("^Tensor%.([%w_]+) = (%w+%.[%w_]+)$")
    if name then
      blocks[name] = { params = params, comment = comment }
      comment = {}
    elseif alias then
      blocks["Tensor:" .. alias] = blocks["Tensor:" .. alias] or { of = of, comment = {} }
      comment = {}
    elseif line:match("^%-%-%-") and not line:match("^%-%-%-@class")
        and not line:match("^%-%-%-@field") then
      if not line:match("^%-%-%-@overload") then comment[#comment + 1] = line end
    else
      comment = {}
    end
  end
end

--- The name in the stub of a function, a class or a word, or nil.
local function find(what)
  -- for other classes write help("Plot:line")
  local places = { "flame.", "Tensor:", "Module:", "Algebra:", "Distribution:", "Transform:",
    "Schedule:", "NoiseSchedule:", "" }
  if type(what) == "string" then
    for _, place in ipairs(places) do if blocks[place .. what] then return place .. what end end
    for _, module in ipairs(internal.chapters) do
      if blocks[module .. "." .. what] then return module .. "." .. what end
    end
    return nil
  end
  local found
  local function look(t, prefix)
    for name, v in next, t do
      if v == what and type(name) == "string" and blocks[prefix .. name]
          and (not found or #name < #found - #prefix) then
        found = prefix .. name
      end
      if prefix == "flame." and type(v) == "table" and name ~= "internal"
          and type(name) == "string" then
        for key, inner in next, v do
          if inner == what then found = found or prefix .. name .. "." .. key end
        end
      end
    end
  end
  look(flame, "flame.")
  look(methods, "Tensor:")
  for _, module in ipairs(internal.chapters) do
    local loaded = package.loaded["flame." .. module]
    if loaded then look(loaded, module .. ".") end
  end
  return found
end

--- The declaration of a function by its name in the stub ("flame.topk", "nn.Linear",
--- "optim.schedule.step", "Module:to"); nil: it has none.
local function declaration_of(name)
  local place, path, base = name:match("^(%w+)(.-)[%.:]([%w_]+)$")
  if not place then return nil end
  local t = place == "flame" and flame or place == "Tensor" and methods
    or name:find(":", 1, true) and objects.classes[place]
    or package.loaded["flame." .. place] or flame.has(place) and flame[place]
  for part in path:gmatch("[^%.]+") do t = type(t) == "table" and rawget(t, part) or nil end
  local f = type(t) == "table" and (t == flame and t[base] or rawget(t, base))
  if type(f) == "table" then f = rawget(f, "init") end
  return type(f) == "function" and internal.declaration(f) or nil
end

--- The declaration of the function 'name' as text, one line per signature; nil: it has none.
local function declared(name)
  local d, forms = declaration_of(name), {}
  if not d then return nil end
  local given = name:gsub("^flame%.", ""):gsub("^Tensor:", "")
  for i, form in ipairs(d) do forms[i] = form.text:gsub("^[%w_%.:]+%??", given) end
  return table.concat(forms, "\n")
end

local function text_of(name)
  local block = blocks[name]
  if block.of then
    local base = block.of:gsub("^Tensor%.", "Tensor:")
    local inner = blocks[base]
    return (name:find("_$") and "x becomes the result of\n" or "")
      .. (inner and text_of(base) or base)
  end
  local out, types, results, optional = {}, {}, {}, {}
  for _, line in ipairs(block.comment) do
    local param, rest = line:match("^%-%-%-@param ([%w_%.]+%??)%s*(.*)$")
    local result = line:match("^%-%-%-@return (.*)$")
    if param then
      types[#types + 1] = ("  %-10s %s"):format((param:gsub("%?$", "")), rest)
      optional[param:gsub("%?$", "")] = param:find("%?$") and true or false
    elseif result then results[#results + 1] = result
    else out[#out + 1] = "  " .. line:gsub("^%-%-%-%s?", "") end
  end
  local forms = declared(name)
  if forms then return (forms .. "\n" .. table.concat(out, "\n")):gsub("\n+$", "") end
  local params = {}
  for word in block.params:gmatch("[^,%s]+") do
    params[#params + 1] = optional[word] and "[" .. word .. "]" or word
  end
  local call = name:gsub("^Tensor:", "x:") .. "(" .. table.concat(params, ", ") .. ")"
  if #results > 0 then call = call .. " -> " .. table.concat(results, ", ") end
  return table.concat({ call, table.concat(out, "\n"), table.concat(types, "\n") },
    "\n"):gsub("\n\n+", "\n"):gsub("\n$", "")
end

-- ---- for the prompt: facts about functions, by name or by the function itself ------------------

--- The name in the stub ("flame.topk", "Tensor:sum", "nn.Linear") of a
--- function, a class or a word; or nil.
function help.name(what)
  load_blocks()
  return find(what)
end

--- The help text for a name in the stub: its signature, then what it does.
function help.text(name)
  load_blocks()
  return text_of(name)
end

--- All such names, in order.
function help.names()
  load_blocks()
  local names = {}
  for name in pairs(blocks) do names[#names + 1] = name end
  table.sort(names)
  return names
end

local function block_of(name)
  local block = blocks[name]
  if block and block.of then return blocks[(block.of:gsub("^Tensor%.", "Tensor:"))] end
  return block
end

--- The first line of the function's description, and its signature without the name.
function help.line(name)
  load_blocks()
  local block = block_of(name)
  if not block then return "", "()" end
  for _, line in ipairs(block.comment) do
    local text = line:match("^%-%-%-%s?([^@].*)$")
    if text then return text, "(" .. block.params .. ")" end
  end
  return "", "(" .. block.params .. ")"
end

--- The options of a function, a list of {name, text of the default or type}: those in braces in its
--- help text, and its optional parameters.
function help.options(name)
  load_blocks()
  local list, seen, block = {}, {}, block_of(name)
  local function add(word, default)
    if seen[word] then return end
    seen[word] = true
    list[#list + 1] = { word, default }
  end
  for _, form in ipairs(declaration_of(name) or {}) do
    for i, p in ipairs(form.params) do
      if (p.optional or p.default or p.named) and (i > 1 or form.self or form.options_first) then
        add(p.name, p.default and "default " .. p.default or p.type or "")
      end
    end
  end
  for _, line in ipairs(#list == 0 and block and block.comment or {}) do
    for braces in line:gmatch("%b{}") do
      for word, default in ("," .. braces:sub(2, -2)):gmatch("[,;]%s*([%a_][%w_]*) =%s*([^,;]*)") do
        add(word, default)
      end
    end
    local word, rest = line:match("^%-%-%-@param ([%a_][%w_]*)%?%s*(.*)$")
    if word and word ~= "o" and word ~= "options" and word ~= "d" then add(word, rest) end
  end
  return list
end

--- Prints the signature of a function and what it does: help(flame.topk), help("topk"),
--- help(x.topk). It takes a class, a kernel or a name too; without an argument it says how to use
--- it.
arguments.def(".help(what?: table|any)", function(what)
  if what == nil then
    print('help(flame.topk) or help("topk") tells what a function does; docs/ops.md lists them all')
    return
  end
  load_blocks()
  local of_kernel = require("flame.kernel.show").help(what)
  if of_kernel then return print(of_kernel) end
  local name = find(what)
  if not name and type(what) == "string" then fail("help", "nothing is named '%s'", what) end
  if not name then fail("help", "there is no text on this %s", type(what)) end
  print((text_of(name)))
end)

return help
