--- Every public name with its signature and a line of description. They are collected from the op
-- table, from declarations (src/lua/declare.h), which describe the arguments of their functions
-- completely, from tools/fields.txt (the fields of tensors), and from the comments above
-- definitions in the Lua sources. Run by tools/docs from the top of the tree; as a program it
-- prints lua/meta/flame.lua, the stub for editors (LuaLS), which help() at the prompt reads as
-- well.
--
--   meta.collect() -> list of { name =, kind = "function" | "method" | "both" | "class" | …,
--                               params = { { name, type } }, doc = { lines },
--                               source = "ops.def" | "C" | file }
local flame = require "flame"
local internal = flame.internal
--- function -> the library's lines that were on the stack when it was declared, the innermost
--- first: its comment is above one of them, or above the function itself.
local declared_at = {}
local declare = internal.declare
function internal.declare(...)
  local f, name = declare(...)
  declared_at[f] = {}
  for level = 2, 12 do
    local info = debug.getinfo(level, "Sl")
    if not info then break end
    local file = info.source:match("^[=@].-(flame/[%w_/]+%.lua)$")
    if file then table.insert(declared_at[f], { file = file, line = info.currentline }) end
  end
  local inner = select(select("#", ...), ...)
  local info = type(inner) == "function" and debug.getinfo(inner, "S")
  local file = info and info.source:match("^[=@].-(flame/[%w_/]+%.lua)$")
  if file then table.insert(declared_at[f], { file = file, line = info.linedefined }) end
  return f, name
end
internal.load()                                          -- the functions written in Lua
local meta = {}
--- Reads a file like tools/fields.txt: name -> { type, text }. Raises if a name appears twice or a
--- line cannot be read.
function meta.read_fields(path)
  local fields, number = {}, 0
  for line in io.lines(path) do
    number = number + 1
    local name, kind, text = line:match("^%.([%w_]+):%s+(.-) | (.*)$")
    if name then
      if fields[name] then error(("%s:%d: '.%s' appears twice"):format(path, number, name), 0) end
      fields[name] = { kind, text }
    elseif line ~= "" and line:sub(1, 1) ~= "#" then
      error(("%s:%d: is neither a comment nor '.name: type | text'"):format(path, number), 0)
    end
  end
  return fields
end
local fields = meta.read_fields("tools/fields.txt")
local function long(type) return (type:gsub("%f[%w]T%f[%W]", "flame.Tensor")) end

-- ---- the sources --------------------------------------------------------------------------------
local files = {}                                         -- "flame/nn.lua" -> lines
local function lines_of(name)
  if files[name] ~= nil then return files[name] end
  local f = io.open("lua/" .. name)
  local lines = f and {} or false
  for line in f and f:lines() or function() end do lines[#lines + 1] = line end
  if f then f:close() end
  files[name] = lines
  return lines
end
local listing = assert(io.popen("cd lua/flame && find . -name '*.lua'"))
local names_of_files = {}
for name in listing:lines() do names_of_files[#names_of_files + 1] = "flame/" .. name:sub(3) end
listing:close()
table.sort(names_of_files)

--- The comment block directly above line 'at': its lines of text, and its ---@ lines, two lists.
local function comment_above(lines, at)
  local doc, tags, first = {}, {}, at
  while first > 1 and lines[first - 1]:match("^%s*%-%-")
      and not lines[first - 1]:match("^%s*%-%- %-%-%-%-") do
    first = first - 1
  end
  local open = false
  for i = first, at - 1 do
    local tag = lines[i]:match("^%s*%-%-%-%s*(@.*)$")
    local text = lines[i]:match("^%s*%-%-%-%s?(.*)$") or lines[i]:match("^%s*%-%-%s?(.*)$")
    if tag then tags[#tags + 1] = tag
    elseif lines[i]:match("^%s*%-%-%-") then open = true; doc[#doc + 1] = text
    elseif open then doc[#doc + 1] = text end
  end
  return doc, tags
end
--- The name that a line of code declares, as def("name(…" or def([[linalg.name_?(…, or nil.
local function declared_in(line)
  local name = line:match("^[%a_][%w_%.]*%([%['\"]+([%w_%.:]+)%??%(")
  return name and name:gsub("_$", ""):gsub("^[%.:]", "")
end
local heads = {}                                         -- file -> head of a declaration -> line
--- The line of a file where the text of a declaration begins with 'head', such as "nn.Linear".
local function line_of_head(file, head)
  local lines = lines_of(file)
  if not heads[file] then
    heads[file] = {}
    for i, line in ipairs(lines or {}) do
      for found in line:gmatch("[\"'%[]([%a][%w_%.:%%]*)_?%??%(") do
        heads[file][found] = heads[file][found] or i
      end
    end
  end
  return heads[file][head]
end
--- The line of a statement word("name", … that defines 'name', at the start of a line.
local function line_of_call(lines, name)
  for i, line in ipairs(lines) do
    local indent, word, given = line:match("^(%s*)([%a_][%w_%.]*)%s*%(?%s*\"([%w_]+)\"")
    if not given then given = declared_in(line) indent, word = "", "def" end
    if given == name and (indent == "" or word:match("^named")) and word ~= "local"
        and word ~= "return" then
      return i
    end
  end
end
local function line_of_function(lines, pattern)
  for i, line in ipairs(lines) do if line:match(pattern) then return i end end
end

--- The function inside a wrapper that base/objects.lua made (its upvalue 'in_order'); f itself if
--- it is no wrapper.
local function in_order(f)
  for i = 1, 8 do
    local name, value = debug.getupvalue(f, i)
    if name == "in_order" then return value end
  end
  return f
end
--- The library's Lua function for a public function. Declared functions are C closures: there it
--- is the first upvalue that is a Lua function.
local function behind(f)
  local info = debug.getinfo(f, "S")
  if info.what ~= "C" then return in_order(f) end
  for i = 1, 8 do
    local name, value = debug.getupvalue(f, i)
    if not name then return nil end
    if type(value) == "function" and debug.getinfo(value, "S").what ~= "C" then
      return in_order(value)
    end
  end
end
local function parameters(f, skip)
  local list, info = {}, debug.getinfo(f, "u")
  for i = 1 + (skip or 0), info.nparams do list[#list + 1] = debug.getlocal(f, i) end
  if info.isvararg then list[#list + 1] = "..." end
  return list
end

local TENSOR, AXES = "flame.Tensor", "integer|integer[]"
local types = {
  x = TENSOR, y = TENSOR, a = TENSOR, b = TENSOR, w = TENSOR, idx = TENSOR, src = TENSOR,
  mask = TENSOR, q = TENSOR, v = TENSOR, input = TENSOR, target = TENSOR, probs = TENSOR,
  p = "number", n = "integer", d = AXES .. "?", o = "table?", f = "function",
  x1 = TENSOR, x2 = TENSOR, sorted = TENSOR, ids = TENSOR, shape = "integer|integer[]",
  mean = TENSOR .. "?", var = TENSOR .. "?", reduce = "string", spec = "string",
  list = TENSOR .. "[]", options = "table?", path = "string", k = "integer",
  values = TENSOR, grid = TENSOR, boundaries = TENSOR, theta = TENSOR, weights = TENSOR .. "?",
  eps = "number?", size = AXES, output_size = AXES, factor = "integer", groups = "integer",
  threshold = "number", value = "number?", wrap = "boolean?", n_fft = "integer",
  algebra = "flame.Algebra", kernel = AXES, window = TENSOR .. "?",
  first = "number", last = "number", i = "integer?",
}
--- Parameters with their types: from ---@param lines if there are any, else by usual names.
local function typed(names, tags)
  local given, out = {}, {}
  for _, tag in ipairs(tags) do
    local name, rest = tag:match("^@param%s+([%w_%.]+%??)%s+(.*)$")
    if name then given[name:gsub("%?$", "")] = (name:match("%?$") and "?" or "") .. " " .. rest end
  end
  for i, name in ipairs(names) do
    local rest = given[name]
    if rest then out[i] = { name, (rest:gsub("^%??%s*", "")), rest:match("^%?") and true or false }
    else out[i] = { name, types[name] or "any", false } end
  end
  return out
end
--- The type of a parameter that has a default; a table of options may be given in its place.
local of_default = { dim = AXES, ord = "number|string", s = "integer[]", norm = "string",
  eps = "number", size = AXES, weight = TENSOR, bins = "integer|" .. TENSOR, output_size = AXES,
  scale_factor = "number|number[]", window = TENSOR, attn_mask = TENSOR, scale = "number" }
for name in ([[keepdim training align_corners replacement descending upper hard full log_target largest accumulate ceil_mode normalized
  onesided return_indices return_inverse return_counts return_complex is_causal unbiased swap zero_infinity]]):gmatch("%S+") do
  of_default[name] = "boolean"
end
local function type_of_default(name, default)
  local kind = of_default[name] or default and type(default)
  if not kind or kind == "table" then return "any" end
  return kind .. "|table"
    .. (default and type(default) ~= "table" and "  " .. tostring(default) or "")
end
--- The parameters that '...' stands for: those of defaults(op, { names }, { name = default }, ...)
--- in the body of f, or those that ---@param lines name in addition to those of the signature.
local function behind_dots(lines, f, names, tags)
  local info, list, known = debug.getinfo(f, "S"), {}, { ["..."] = true }
  local body = table.concat(lines, "\n", info.linedefined, info.lastlinedefined)
  local call = body:match("defaults(%b())") or body:match("arguments(%b())") or ""
  local order, table_of = call:match("^%([^{]-(%b{}),%s*(%b{}),%s*%.%.%.%)$")
  if order then
    local read = load("return " .. table_of, "=defaults", "t",
      setmetatable({}, { __index = function() return false end }))
    local ok, defaults = pcall(read or error)
    for name in order:gmatch('"([%w_]+)"') do
      list[#list + 1] = { name, type_of_default(name, ok and defaults[name]), true }
      known[name] = true
    end
    local rest = {}
    for name in pairs(ok and defaults or {}) do
      if not known[name] then rest[#rest + 1] = name .. " =" end
    end
    table.sort(rest)
    if #rest > 0 and #list > 0 then
      list[#list][2] = list[#list][2] .. "  the table: also {" .. table.concat(rest, ", ") .. "}"
    end
    return list
  end
  for _, name in ipairs(names) do known[name] = true end
  for _, tag in ipairs(tags) do
    local name, rest = tag:match("^@param%s+([%w_%.]+)%?%s+(.*)$")
    if name and not known[name] then list[#list + 1] = { name, rest, true } end
  end
  return list
end
local function returns(tags)
  local list = {}
  for _, tag in ipairs(tags) do
    local what = tag:match("^@return%s+(.*)$")
    if what then list[#list + 1] = what end
  end
  return list
end

-- ---- declarations -------------------------------------------------------------------------------
local OF_ATOM = { T = TENSOR, table = "table", num = "number", int = "integer", bool = "boolean",
  str = "string",
  fn = "function", any = "any", axis = "integer", axes = AXES, dtype = "string", device = "string" }
--- The type of a list of values of a type.
local function list_of(kind)
  return (kind:find("|", 1, true) and "(" .. kind .. ")" or kind) .. "[]"
end
--- The type of a declaration, such as "T|num", in LuaLS's notation.
local function stub_type(text)
  local out = {}
  for atom in text:gmatch("[^|]+") do
    local name, list = atom:match("^%s*(.-)(%[?%]?)%s*$")
    local kind = OF_ATOM[name] or name:match("^dims") and AXES or name:match('^"') and name
      or name:match("^%u") and "flame." .. name or name
    out[#out + 1] = list == "[]" and list_of(kind) or kind .. list
  end
  return table.concat(out, "|")
end
--- The comment above the declaration of f, its file, and its place on the page: the text of
--- "---@example Subject: code", or nil.
local function doc_above(f)
  for _, at in ipairs(declared_at[f] or {}) do
    local lines = lines_of(at.file)
    local doc, tags = {}, {}
    if lines then doc, tags = comment_above(lines, at.line) end
    local example
    for _, tag in ipairs(tags) do example = example or tag:match("^@example (.*)$") end
    if #doc > 0 then return doc, at.file, example end
  end
  return {}, declared_at[f] and declared_at[f][1] and declared_at[f][1].file
end
--- An entry for a declaration: parameters and results of its first signature, the texts of all.
--- has_named: a parameter is given by name only.
local function entry_of_declaration(d)
  local e = { params = {}, returns = {}, forms = {}, options = {},
    all_named = d[1].self or d[1].options_first }
  for i, p in ipairs(d[1].params) do
    local open = p.optional or p.default ~= nil
    local dots = d[1].rest == "list" and i == #d[1].params
    local kind, default = stub_type(p.type), p.default and "  " .. p.default or ""
    if dots then
      e.params[#e.params + 1] = { "...", kind .. "|" .. list_of(kind), false, default }
    elseif not p.named then e.params[#e.params + 1] = { p.name, kind, open, default } end
    if i > 1 or e.all_named then
      e.options[#e.options + 1] = { p.name, dots and list_of(kind) or kind, default }
    end
    e.has_named = e.has_named or p.named
  end
  local seen = {}                           -- what other forms take by name only is an option too
  for _, o in ipairs(e.options) do seen[o[1]] = true end
  for i = 2, #e.options > 0 and #d or 1 do
    for _, p in ipairs(d[i].params) do
      if p.named and not seen[p.name] then
        seen[p.name] = true
        e.options[#e.options + 1] = { p.name, stub_type(p.type),
          p.default and "  " .. p.default or "" }
      end
    end
  end
  if d[1].rest == "as they are" then e.params[#e.params + 1] = { "...", "any", false } end
  for _, r in ipairs(d[1].results) do
    local kind = r.type == "self" and "any" or stub_type(r.type)
    e.returns[#e.returns + 1] = kind .. (r.flag and "?" or "") .. (r.name and " " .. r.name or "")
  end
  for i, form in ipairs(d) do e.forms[i] = form.text:gsub("^[%.:]", "") end
  return e
end

-- ---- the names ----------------------------------------------------------------------------------
local ops = {}
for _, op in ipairs(internal.ops()) do ops[op.name] = op end
local OPERANDS = { unary = { "x" }, binary = { "x", "y" }, ternary = { "x", "y", "z" } }

local function entry_of_op(op)
  if op.form == "reduce" then
    return { params = { { "x", TENSOR }, { "d", AXES, true }, { "o", "table", true } },
      returns = { TENSOR }, doc = { op.doc .. "; o: {keepdim = false}" } }
  end
  local params = {}
  for i, name in ipairs(OPERANDS[op.form]) do
    params[i] = { name,
      (op.form == "unary" or op.name == "clamp" and i == 1) and TENSOR or TENSOR .. "|number" }
  end
  return { params = params, returns = { TENSOR }, doc = { op.doc } }
end

--- The first line of the declaration of 'name' whose function is at line 'at'.
local function first_line(lines, at, name)
  local last = name:match("([%w_]+)$")
  for i = at, math.max(at - 4, 1), -1 do
    if lines[i]:find("[%.:]" .. last .. "%(") then return i end
  end
  return at
end
--- The entry of the function f, named 'name', from the comment above it in the Lua sources; nil if
--- it has none. declared: the name in its declaration, if it has one.
local function entry_of_lua(name, f, declared)
  local base, at, where = declared or name:match("([%w_]+)$"), nil, nil
  local info = debug.getinfo(f, "S")
  local own = info.source:gsub("^[=@]", ""):gsub("^.*lua/flame/", "flame/")
  local order = { own, table.unpack(names_of_files) }
  local method = name:find(":", 1, true) or name:find("^plot%.") or name:find("^image%.")
  -- for these, only f's own file counts: other files have other functions of the same name
  if method and lines_of(own) then
    at = line_of_function(lines_of(own), "^%s*function [%w_]+[%.:]" .. base .. "%s*%(")
    if at then where, order = own, {} end
  end
  for _, file in ipairs(order) do
    local lines = lines_of(file)
    at = lines and line_of_call(lines, base)
    if at then where = file break end
  end
  local lines = lines_of(where or own)
  if not at and lines then
    at = line_of_function(lines, "^%s*function [%w_%.]*[%.:]" .. base .. "%s*%(")
      or line_of_function(lines, "^%s*local function " .. base .. "%s*%(")
      or line_of_function(lines, "^%s*[%w_%.]+%." .. base .. "%s*=")
  end
  if not at then at = lines and first_line(lines, info.linedefined, base) or info.linedefined end
  if not lines then return nil end
  local doc, tags = comment_above(lines, at)
  local names = parameters(f)
  local params, more = typed(names, tags), {}
  if names[#names] == "..." and lines_of(own) then
    more = behind_dots(lines_of(own), f, names, tags)
  end
  if #more > 0 then
    params[#params] = nil
    table.move(more, 1, #more, #params + 1, params)
  end
  return { params = params, returns = returns(tags), doc = doc, source = where or own }
end

local AXES_OF = { "1d", "2d", "3d" }
--- The comment above the declaration of a class, of a method, or of a function of a module; for
--- declarations in a loop, the comment above the text that has "ND" or "%dd" instead of "2d".
local function doc_of_declared(d, f, full)
  local base = full:match("([%w_]+)$")
  if base ~= d.name then return { ("The same as %s%s."):format(d[1].scope, d.name) }, "alias" end
  local own = debug.getinfo(behind(f), "S").source:gsub("^[=@]", ""):gsub("^.*lua/flame/", "flame/")
  local tries = { full, base }
  for _, name in ipairs { full, base } do
    for _, n in ipairs(AXES_OF) do
      if name:sub(-2) == n then
        tries[#tries + 1] = name:sub(1, -3) .. "ND"
        tries[#tries + 1] = name:sub(1, -3) .. "%dd"
      end
    end
  end
  -- a class may be made by a function of another file
  for _, file in ipairs { own, table.unpack(names_of_files) } do
    for _, head in ipairs(tries) do
      local at = (file == own or head:find("%f[%w]%u")) and line_of_head(file, head)
        or head == full and line_of_head(file, head)
      local doc = at and comment_above(lines_of(file), at)
      if doc and #doc > 0 then return doc, file end
    end
  end
  local lazy = base:match("^Lazy(.*)")
  return { lazy and ("nn.%s that takes the size of its input from the first one."):format(lazy) },
    own
end

--- function -> its name; for a function with several names the first one in alphabetical order.
local plain = {}
for name, f in pairs(flame) do
  local known = type(f) == "function" and ops[name]
  if known and not (plain[f] and plain[f] < name) then plain[f] = name end
end

--- Modules whose function has another name.
local function_of = { Unfold = "im2col" }
--- The text for a module without a comment: nn.ReLU is "The module of flame.relu."
local function text_of_class(name)
  if function_of[name] then return "The module of flame." .. function_of[name] .. "." end
  local words = name:gsub("ELU$", "Elu"):gsub("SiLU", "Silu"):gsub("GLU",
    "Glu"):gsub("ReLU", "Relu")
  words = words:gsub("CTC", "Ctc"):gsub("MultiLabel", "Multilabel")
  words = words:gsub("BCE", "BinaryCrossEntropy"):gsub("MSE", "Mse"):gsub("NLL",
    "Nll"):gsub("KL", "Kl")
  words = words:gsub("(%l)(%u)", "%1_%2"):gsub("(%d)(%u)", "%1_%2"):lower()
  for _, try in ipairs { words, (words:gsub("_loss$", "")), (words:gsub("_", "")) } do
    if rawget(flame, try) then return "The module of flame." .. try .. "." end
  end
  return ""
end

--- Modules that scripts can require, as a set: is_module["nn"].
local modules = internal.chapters
local is_module = {}
for _, name in ipairs(modules) do is_module[name] = true end
meta.is_module = is_module

--- Makes the entry of a function f. name: as scripts write it; kind: see the head of this file.
local describe
function describe(name, f, kind)
  local base = name:match("([%w_]+)$")
  if name:match("^special%.") then                        -- most of them are aliases
    local own = rawget(flame, base)
    local of = own == f and base
    for other, g in pairs(flame) do
      if g == f and (not of or other < of) and own ~= f then of = other end
    end
    if of then
      local e = describe(of, f, "both")
      e.name, e.doc = name, { "The same as flame." .. of .. "." }
      return e
    end
  end
  local inner = name:match("^[%w_]+$") or name:match("^linalg%.") or name:match("^fft%.")
  local d = internal.declaration(f)
  local e
  if d then
    e = entry_of_declaration(d)
    local scope = d[1].scope and d[1].scope:gsub("^[%.:]$", "") or ""
    if d[1].self or is_module[scope:match("^%w+")] or scope:find("^%u") then
      e.doc, e.source = doc_of_declared(d, f, name)
    else
      e.doc, e.source, e.example = doc_above(f)
      local op = ops[base] or ops[d.name] or ops[base:gsub("_$", "")]
      if #e.doc == 0 and (d.doc or op) then
        e.doc, e.source = { d.doc or op.doc }, d.doc and "C" or "ops.def"
      end
      if d.name ~= base and d.name .. "_" ~= base then
        e.doc = { "The same as " .. d.name .. "." }
      end
    end
  elseif inner and not ops[base] and plain[f] and ops[plain[f]] and plain[f] ~= base then
    e = entry_of_op(ops[plain[f]])
    e.doc, e.source = { "The same as " .. plain[f] .. "." }, "alias"
  elseif ops[base] and ops[base].form ~= "special" and not name:find("%.") then
    e = entry_of_op(ops[base])
    e.source = "ops.def"
  else
    local lua = behind(f)
    e = lua and entry_of_lua(name, lua) or { params = { { "...", "any" } }, returns = {}, doc = {} }
  end
  if #e.returns == 0 and e.source ~= "C" then
    if kind == "both" or name:find("^linalg%.") or name:find("^special%.") then
      e.returns = { TENSOR }
    end
    if kind == "class" and name:find("^nn%.") then e.returns = { "flame.Module" } end
  end
  if kind == "class" and (not e.doc[1] or e.doc[1] == "") then e.doc = { text_of_class(base) } end
  e.name, e.kind, e.value = name, kind, f
  return e
end

local function is_class(v, name)
  if type(v) ~= "table" or not name:match("^%u") then return false end
  return rawget(v, "init") ~= nil or rawget(v, "forward") ~= nil or rawget(v, "step") ~= nil
end

--- Name -> class, for classes whose methods are documented: local p = data.progress(…); p:tick(…).
local function classes()
  local found = { Plot = require("flame.plot").Plot,
    Algebra = require("flame.clifford").Algebra,
    Distribution = require("flame.distributions").Distribution,
    Transform = require("flame.distributions").Transform,
    NoiseSchedule = require("flame.diffusion").NoiseSchedule,
    Tokenizer = require("flame.tokenizers").Tokenizer,
    TokenStream = require("flame.tokenizers").TokenStream }
  for _, module in ipairs { "nn", "optim", "data", "data.tensorboard" } do
    require("flame." .. module)
  end
  for name, class in pairs(require("flame.base.objects").classes) do found[name] = class end
  found.LBFGS = { step = found.LBFGS.step }                -- only its step is documented
  return found
end

--- Calls put(entry) for each function in the table flame and in tables in it, such as flame.linalg.
local function collect_functions(put)
  for name, f in pairs(flame) do
    if type(f) == "function" then
      put(describe(name, f, rawget(internal.methods, name) ~= nil and "both" or "function"))
    elseif type(f) == "table" and name ~= "internal" and not is_module[name] then
      for key, g in pairs(f) do
        if type(g) == "function" then put(describe(name .. "." .. key, g, "function")) end
      end
    end
  end
end

--- Calls put(entry) for fields and methods of tensors. In-place methods (name_) have no text.
local function collect_methods(put)
  local methods = internal.methods
  for name, f in pairs(methods) do
    if type(name) == "string" and not name:find("^__") then
      if type(f) == "number" then
        put({ name = name, kind = "field", params = {}, returns = {},
          doc = { fields[name] and fields[name][2] or "" },
          type = fields[name] and long(fields[name][1]) })
      elseif type(f) == "function" and type(rawget(flame, name)) ~= "function" then
        local base = name:match("^(.-)_$")
        local d = internal.declaration(f)
        local own = d and d.name == name                  -- not the name_ of a declaration "name_?"
        if base and (rawget(methods, base) or rawget(flame, base)) and not own then
          local of = describe(base, methods[base] or flame[base], "method")
          put({ name = name, kind = "write", of = base, params = of.params, returns = { TENSOR },
            forms = d and of.forms,
            source = of.source, value = f, doc = { "x becomes x:" .. base .. "(…)." } })
        else
          put(describe(name, f, name:match("_$") and "write" or "method"))
        end
      end
    end
  end
end

--- Calls put(entry) for each public function of a table, with the name prefix .. key.
local function collect_table(put, prefix, t, kind)
  for key, g in pairs(t) do
    if type(g) == "function" and type(key) == "string" and not key:find("^_") then
      local d = kind == "member" and internal.declaration(g)
      put(describe((d and not d[1].self and prefix:gsub(":", ".") or prefix) .. key, g, kind))
    end
  end
end

--- The entry of the function plot.line(x, …), made from that of the method Plot:line.
local function entry_of_plot(name, f)
  local e = describe("Plot:" .. name, require("flame.plot").Plot[name], "member")
  e.name, e.kind, e.value = "plot." .. name, "function", f
  if not e.forms then e.params = table.move(e.params, 2, #e.params, 1, {}) end
  e.doc = { (e.doc[1]:gsub("^Adds ", "Makes a plot with ")), table.unpack(e.doc, 2) }
  return e
end

--- Adds to the entry e of a module class what it returns and the signature of its call; puts an
--- entry of the call, unless that is just (x) -> result, and entries of its methods. prefix: the
--- module's name and a dot, "" for nn.
local function put_class(put, e, class, prefix)
  local base = e.name:match("[%w_]+$")
  local call = rawget(class, "forward")
  call = call and internal.declaration(call)
  e.returns, e.calls = { "flame." .. prefix .. base }, call and entry_of_declaration(call)
  if call and call[1].text:match("%(.*") ~= "(x: T) -> T" then
    put({ name = prefix .. base, kind = "call", forms = e.calls.forms, params = {}, returns = {},
      doc = { ("A call of %s."):format(e.name) } })
  end
  for key, f in pairs(class) do
    local d = type(f) == "function" and key ~= "init" and key ~= "forward"
      and internal.declaration(f)
    if d then
      put(describe((d[1].self and base .. ":" or e.name .. ".") .. key, f,
        d[1].self and "member" or "function"))
    end
  end
end

--- Classes and functions of the modules.
local function collect_modules(put)
  for _, module in ipairs(modules) do
    for name, v in pairs(require("flame." .. module)) do
      local full = module .. "." .. name
      if is_class(v, name) then
        local init = rawget(v, "init") or rawget(v, "forward") or rawget(v, "step")
        local e = describe(full, init, "class")
        put(e)
        e.members = v
        if e.forms then put_class(put, e, v, module == "nn" and "" or module .. ".") end
      elseif type(v) == "table" and v ~= flame and not rawget(v, "__name")
          and v ~= require("flame.plot").Plot then                         -- nn.functional is flame
        collect_table(put, full .. ".", v, "function")
      elseif module == "plot" and name ~= "save" and rawget(require("flame.plot").Plot, name) then
        put(entry_of_plot(name, v))
      elseif type(v) == "function" then
        put(describe(full, v, "function"))
      end
    end
  end
end

--- Everything public, sorted by name.
function meta.collect()
  local list, seen = {}, {}
  local function put(e)
    if seen[e.kind .. e.name] then return end
    seen[e.kind .. e.name] = true
    list[#list + 1] = e
  end
  collect_functions(put)
  collect_methods(put)
  collect_modules(put)
  for name, class in pairs(classes()) do collect_table(put, name .. ":", class, "member") end
  table.sort(list, function(a, b)
    return a.name < b.name or a.name == b.name and a.kind < b.kind
  end)
  return list
end

--- The signature of an entry: the declaration, or else a text such as "topk(x, k[, d, o])".
function meta.signature(e)
  if e.forms then
    local texts = {}
    for i, form in ipairs(e.forms) do texts[i] = form:gsub("^[%w_%.:]+%??", e.name) end
    return table.concat(texts, "; ")
  end
  local out, optional = {}, 0
  for i, p in ipairs(e.params) do
    local open = p[3] or tostring(p[2]):match("%?$")
    if open and optional == 0 then optional = i end
    out[i] = p[1]
  end
  if optional > 0 then
    local fixed = table.concat(out, ", ", 1, optional - 1)
    return ("%s(%s[%s%s])"):format(e.name, fixed, fixed ~= "" and ", " or "",
      table.concat(out, ", ", optional))
  end
  return ("%s(%s)"):format(e.name, table.concat(out, ", "))
end

-- ---- the stub -----------------------------------------------------------------------------------
--- Writes the LuaLS class for a declaration's table of options; returns the class's name, or nil if
--- there are no options.
local function put_options(out, e)
  if #e.options == 0 then return end
  local class = "flame.options." .. e.name
  out[#out + 1] = "---@class " .. class
  for _, o in ipairs(e.options) do
    out[#out + 1] = ("---@field %s? %s%s"):format(o[1], o[2], o[3])
  end
  out[#out + 1] = ""
  return class
end

local function put_function(out, e, head, skip)
  local options = e.options and put_options(out, e)
  for _, line in ipairs(e.doc) do out[#out + 1] = "---" .. (line ~= "" and " " .. line or "") end
  local names = {}
  for i, p in ipairs(e.params) do
    if i > (skip or 0) then
      names[#names + 1] = p[1]
      -- where an argument may be missing, and among those of "id...", the table may be
      local open = p[3] or p[1] == "..." and p[4]
      local kind = options and open and p[2] .. "|" .. options .. p[4] or p[2]
      out[#out + 1] = ("---@param %s%s %s"):format(p[1], p[3] and "?" or "", kind)
    end
  end
  if options and e.has_named and names[#names] ~= "..." then
    names[#names + 1] = "options"
    out[#out + 1] = "---@param options? " .. options
  end
  if options and e.all_named then
    out[#out + 1] = ("---@overload fun(options: %s): %s"):format(options, e.returns[1] or "nil")
  end
  for _, r in ipairs(e.returns) do
    if r ~= "" and r ~= "nothing" then
      out[#out + 1] = "---@return " .. (r == "..." and "any ..." or r)
    end
  end
  out[#out + 1] = ("function %s(%s) end"):format(head, table.concat(names, ", "))
  out[#out + 1] = ""
end

local function put_tensor(out, list)
  out[#out + 1] = "---@class flame.Tensor"
  for _, e in ipairs(list) do
    if e.kind == "field" then
      out[#out + 1] = ("---@field %s %s %s"):format(e.name, e.type or "any", e.doc[1])
    end
  end
  for _, op in ipairs { "add", "sub", "mul", "div", "pow", "mod", "idiv" } do
    out[#out + 1] = ("---@operator %s(flame.Tensor|number): flame.Tensor"):format(op)
  end
  for _, op in ipairs { "band", "bor", "bxor" } do
    out[#out + 1] = ("---@operator %s(flame.Tensor|integer): flame.Tensor"):format(op)
  end
  for _, op in ipairs { "unm: flame.Tensor", "bnot: flame.Tensor", "len: integer",
      "call(any): flame.Tensor" } do
    out[#out + 1] = "---@operator " .. op
  end
  out[#out + 1] = "---@field [integer|table|flame.Tensor] flame.Tensor|any"
  out[#out + 1] = "local Tensor = {}"
  out[#out + 1] = ""
end

--- Writes the tables that contain functions: flame.linalg, nn, nn.init, …
local function put_groups(out, list)
  local groups = {}
  for _, e in ipairs(list) do
    local group = e.name:match("^(.*)%.[%w_]+$")
    if group and not groups[group] and e.kind ~= "member" then
      groups[group] = true
      local path = group
      local root = path:match("^[%w_]+")
      if not is_module[root] then path = "flame." .. path
      elseif path == root then out[#out + 1] = ("---@class flame.%s"):format(root) end
      out[#out + 1] = (path == root and "local " or "") .. path .. " = {}"
    end
  end
end

--- Writes the classes of modules: the parameters of their call, and a table for their methods.
local function put_classes(out, list)
  local own = {}
  for _, e in ipairs(list) do
    if e.kind == "member" then own[e.name:match("^%w+")] = true end
  end
  for _, e in ipairs(list) do
    if e.kind == "class" and e.forms then
      local base, args = e.name:match("[%w_]+$"), {}
      for i, p in ipairs(e.calls and e.calls.params or {}) do
        args[i] = ("%s%s: %s"):format(p[1], p[3] and "?" or "", p[2])
      end
      out[#out + 1] = ("---@class %s: flame.Module"):format(e.returns[1])
      out[#out + 1] = ("---@overload fun(%s): %s"):format(table.concat(args, ", "),
        e.calls and table.concat(e.calls.returns, ", "):gsub(" [%w_]+", "") or "any")
      if own[base] then out[#out + 1] = ("local %s = {}"):format(base) end
      out[#out + 1] = ""
    end
  end
end

function meta.stub()
  local out = { "---@meta flame",
    "-- Generated by tools/docs from src/tensor/ops.def, tools/fields.txt and lua/flame: do not edit.", "",
    "---@class flame",
    "---@field newaxis lightuserdata in a key, x[{ {}, flame.newaxis }], an axis of one element more",
    "---@field version string", "local flame = {}", "" }
  local list = meta.collect()
  put_tensor(out, list)
  put_groups(out, list)
  out[#out + 1] = "---@class flame.Module\n---@operator call(any): any\nlocal Module = {}\n"
  out[#out + 1] = "---@class flame.Algebra\n---@field [string] any\nlocal Algebra = {}\n"
  for _, name in ipairs { "Batches", "EventWriter", "GradScaler", "Optimizer", "PackedSequence",
      "Plot", "Progress", "Schedule", "NoiseSchedule", "LBFGS: flame.Optimizer",
      "ReduceOnPlateau: flame.Schedule" } do
    out[#out + 1] = ("---@class flame.%s\nlocal %s = {}\n"):format(name, name:match("%w+"))
  end
  put_classes(out, list)
  for _, e in ipairs(list) do
    local root = e.name:match("^(%w+)%.")
    local own = is_module[root]
    if e.kind == "function" then put_function(out, e, (own and "" or "flame.") .. e.name)
    elseif e.kind == "class" then put_function(out, e, e.name)
    elseif e.kind == "both" then
      put_function(out, e, "flame." .. e.name)
      out[#out] = ("Tensor.%s = flame.%s\n"):format(e.name, e.name)
    elseif e.kind == "write" and e.of then
      local of = (rawget(flame, e.of) and "flame." or "Tensor.") .. e.of
      out[#out + 1] = ("Tensor.%s = %s"):format(e.name, of)
      if type(flame[e.name]) == "function" then
        out[#out + 1] = ("flame.%s = %s"):format(e.name, of)
      end
    elseif e.kind == "method" or e.kind == "write" then put_function(out, e, "Tensor:" .. e.name, 1)
    elseif e.kind == "member" then put_function(out, e, e.name, e.forms and 0 or 1)
    end
  end
  out[#out + 1] = "return flame"
  return table.concat(out, "\n") .. "\n"
end

--- Names without a text: { name, … }.
function meta.undocumented()
  local out = {}
  for _, e in ipairs(meta.collect()) do
    if e.kind ~= "write" and (not e.doc[1] or e.doc[1] == "") then out[#out + 1] = e.name end
  end
  return out
end

if arg and arg[0] and arg[0]:match("meta%.lua$") then
  if arg[1] == "missing" then
    for _, name in ipairs(meta.undocumented()) do print(name) end
  else
    io.write(meta.stub())
  end
end
return meta
