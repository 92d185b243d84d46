--- Changes the text of a kernel before it is parsed: replaces ${name} by constants, and the head of
-- a template by its arguments. For the entry "k<float, 16>", "template <typename T, int N>" becomes
-- "using T = float; constexpr int N = 16;". The kernel is then no template, and has a C name, on
-- every device.
local arguments = require "flame.base.arguments"
local fail = arguments.fail

local function ending(n) return n == 1 and "" or "s" end
local function blanks(text) return (text:gsub("[^\n]", " ")) end

--- The last position of the comment or literal that begins at i; nil if none begins there.
local function end_of_quiet(source, i)
  local two, quote = source:sub(i, i + 1), source:sub(i, i)
  if two == "//" then return (source:find("\n", i, true) or #source + 1) - 1 end
  if two == "/*" then return select(2, source:find("*/", i + 2, true)) or #source end
  if quote == "/" or (quote == "'" and source:sub(i - 1, i - 1):find("%w")) then return nil end
  local j = i
  repeat
    j = source:find("[\\" .. quote .. "]", j + 1)
    local escape = j and source:sub(j, j) == "\\"
    if escape then j = j + 1 end
  until not escape
  return j or #source
end

--- The source with comments and literals blanked out; every other character keeps its position.
local function bare(source)
  local out, at = {}, 1
  while true do
    local i = source:find("[/\"']", at)
    if not i then break end
    local last = end_of_quiet(source, i)
    out[#out + 1] = source:sub(at, last and i - 1 or i)
      .. (last and blanks(source:sub(i, last)) or "")
    at = (last or i) + 1
  end
  return table.concat(out) .. source:sub(at)
end

--- Replaces ${name} by the constant 'name'; an unknown one raises outside comments and literals.
local function interpolate(source, constants)
  if not source:find("${", 1, true) then return source end
  local code
  return (source:gsub("()%${%s*([%w_]+)%s*}", function(at, name)
    local v = constants and constants[name]
    if v == nil then
      code = code or bare(source)
      if code:sub(at, at) ~= "$" then return nil end
      fail("kernel", "the source wants ${%s}\1: give constants = {%s = …}", name, name)
    end
    if math.type(v) == "float" then
      -- "%g" may write a comma as the decimal point in the host's locale; C needs a point
      local text = ("%.17g"):format(v):gsub(",", ".")
      return text:find("[%.eEn]") and text or text .. ".0"
    end
    return tostring(v)
  end))
end

--- Iterates over brackets and commas of the text from i on: position, character, depth in '<' and
-- depth in other brackets. A '<' counts as a bracket only after a name: "2 < 3", "1 << 4",
-- "<=" and "->" are operators.
local function brackets(text, i)
  local angle, round = 0, 0
  return function()
    while true do
      local at, c = text:match("()([,<>%(%)%[%]{}])", i)
      if not at then return nil end
      local two = text:sub(at, at + 1)
      local double = two == "<<" or two == "<=" or two == ">="
      local named = c ~= "<"
        or text:sub(math.max(at - 80, 1), at - 1):find("%f[%w_][%a_][%w_]*%s*$")
      local operator = double or not named or (c == ">" and text:sub(at - 1, at - 1) == "-")
      i = at + (double and 2 or 1)
      if c == "<" or c == ">" then
        if not operator and round == 0 then angle = angle + (c == "<" and 1 or -1) end
      elseif c ~= "," then round = round + (c:find("[%(%[{]") and 1 or -1) end
      if not operator then return at, c, angle, round end
    end
  end
end

--- Splits a text at commas outside of brackets; returns the list of parts.
local function split(text)
  local list, from = {}, 1
  for at, c, angle, round in brackets(text, 1) do
    if c == "," and angle == 0 and round == 0 then
      list[#list + 1], from = text:sub(from, at - 1), at + 1
    end
  end
  if text:find("%S") then list[#list + 1] = text:sub(from) end
  return list
end

--- The position of the '>' that closes the '<' of a template at i; nil if there is none before a
--- ';' or an unmatched bracket.
local function closing(text, i)
  local stop = text:find(";", i, true) or #text
  for at, c, angle, round in brackets(text, i) do
    if at > stop or round < 0 then return nil end
    if c == ">" and angle == 0 and round == 0 then return at end
  end
end

--- Iterates over the templates of kernels in a text: positions of "template", of its '<' and of its
--- '>', and the text from there to the body or ';'.
local function headers(text)
  local at, stop, word = 1, 0, 0                 -- the next ';' or '{', and the next "__global__"
  local function next_of(pattern, i, from) return i >= from and i or text:find(pattern, from) end
  return function()
    while at do
      local first, open = text:match("()%f[%w_]template%s*()<", at)
      local close = first and closing(text, open)
      at = first and (close or open) + 1         -- templates in <…> are parameters
      if close then
        stop = next_of("[;{]", stop, at) or #text + 1
        word = next_of("__global__", word, at) or #text + 1
        if word < stop then return first, open, close, text:sub(at, stop - 1) end
      end
    end
  end
end

--- Can the template arguments 'given' (texts) belong to a template with these parameters (texts)?
local function fits(parameters, given)
  for i, text in ipairs(parameters) do
    if not given[i] and not text:find("[=.]") then return false end
    local constant = given[i] and given[i]:find("^%s*[-%d]") or given[i] == "true"
      or given[i] == "false"
    if constant and text:find("^%s*typename") or constant and text:find("^%s*class") then
      return false
    end
  end
  return #given <= #parameters
end

--- The "template <…>" of the kernel 'name': its first and last position, and its parameters. A
-- definition is preferred to a declaration, and first of all a template that fits the arguments.
local function header(text, name, given)
  local found, best
  for first, open, close, head in headers(text) do
    if head:find("%f[%w_]" .. name .. "%s*%(") then
      local parameters = split(text:sub(open + 1, close - 1))
      local rank = (fits(parameters, given) and 2 or 0)
        + (text:sub(close + #head + 1, close + #head + 1) == "{" and 1 or 0)
      if not found or rank > best then found, best = { first, close, parameters }, rank end
    end
  end
  if found then return found[1], found[2], found[3] end
end

--- The head of a kernel without what stands before its name and takes arguments, as
-- __launch_bounds__(256) or a macro for it.
local function without_bounds(head) return (head:gsub("[%a_][%w_]*%s*%b()%s*%f[%a_]", "")) end

local function count(text, pattern) return select(2, text:gsub(pattern, "")) end

--- The entry, with "<>" added if it is a template all of whose parameters have defaults. Without an
--- entry, the text's only kernel if that is such a template.
local function by_defaults(source, entry)
  if (entry and not entry:find("^[%a_][%w_]*$")) or not source:find("%f[%w_]template%s*<") then
    return entry
  end
  local text, found = bare(source), nil
  for _, open, close, head in headers(text) do
    local name = without_bounds(head):match("([%a_][%w_]*)%s*%(")
    local all = true
    for _, parameter in ipairs(split(text:sub(open + 1, close - 1))) do
      all = all and parameter:find("=", 1, true) ~= nil
    end
    if all and name and (not entry or name == entry) then found = name end
  end
  local kernels = count(text, "%f[%w_]__global__[^;{}]-%f[%w_]" .. (entry or "[%w_]+") .. "%s*%(")
  return found and kernels == 1 and found .. "<>" or entry
end

local TYPE_WORDS <const> = " int unsigned long short char bool size_t typename class "

--- A parameter that is a template, "template <typename, int N> class Op", with its value "V", in C:
--- "template <typename fl_1, int fl_2> using Op = V<fl_1, fl_2>; ". nil: it is something else.
local function aliased(text, value)
  local inner, name = text:match("^%s*template%s*(%b<>)%s*%a+%s+([%a_][%w_]*)%s*$")
  if not inner then return nil end
  local parts, own = split(inner:sub(2, -2)), {}
  for j, part in ipairs(parts) do
    local rest = part:gsub("=.*", ""):gsub("%.%.%.", " "):match("^%s*(.-)%s*$")
    local kind, last = rest:match("^(.-)%s+([%a_][%w_]*)$")
    if not kind or TYPE_WORDS:find(" " .. last .. " ", 1, true) then kind = rest end
    local dots = part:find("...", 1, true) and "..." or ""
    parts[j], own[j] = ("%s%s fl_%d"):format(kind, dots, j), ("fl_%d%s"):format(j, dots)
  end
  return ("template <%s> using %s = %s<%s>; "):format(table.concat(parts, ", "), name, value,
    table.concat(own, ", "))
end

--- The argument of template parameter i, declared in C: "using T = float; " for typename T.
local function declared(entry, parameters, i, given)
  local text, default = parameters[i]:match("^([^=]*)=(.*)$")
  text = text or parameters[i]
  local kind, name = text:match("^%s*(.-)%s*([%a_][%w_]*)%s*$")
  local alias = given and aliased(text, given)
  if alias then return alias end
  if text:find("%.%.%.") or text:find("template", 1, true) then
    fail("kernel", "entry '%s': parameter '%s' of the template is outside the language", entry,
      (text:gsub("^%s+", "")))
  end
  local value = given or default
  if not value then
    fail("kernel", "entry '%s': the template has %d parameter%s: <%s>", entry, #parameters,
      ending(#parameters), table.concat(parameters, ","))
  end
  if not kind or kind == "" then return "" end             -- without a name
  if kind == "typename" or kind == "class" then return ("using %s = %s; "):format(name, value) end
  return ("constexpr %s %s = %s; "):format(kind, name, value)
end

--- The explicit specialisations of 'name': where each begins and ends (first, last), the end of its
-- "template <>" (head), its "<…>" (from, to), arguments (given; nil: deduced) and formals.
local function specialisations(text, name)
  local list = {}
  for first, open, close, head in headers(text) do
    local at = head:match("%f[%w_]" .. name .. "()%f[^%w_]")
    if at and not text:sub(open + 1, close - 1):find("%S") then
      local angle = text:match("^%s*()<", close + at)
      local last = angle and closing(text, angle) or close + at - 1
      local formals, body = text:match("^%s*(%b())[^;{]*()", last + 1)
      list[#list + 1] = { first = first, head = close, from = close + at, to = last,
        given = angle and split(text:sub(angle + 1, last - 1)), formals = formals or "()",
        last = body and (text:match("^%b{}()", body) or body + 1) - 1 or last }
    end
  end
  return list
end

local SAME = { __half = "half", __nv_bfloat16 = "nv_bfloat16" }

--- A C type or constant in canonical form, without a default: few spaces, 'env' replaces names.
local function compared(text, env)
  return (text:gsub("=.*", ""):gsub("__restrict_*", ""):gsub("[%a_][%w_]*", env)
    :gsub("[%a_][%w_]*", SAME):gsub("%s+", " "):gsub(" ?([%*&<>,:]) ?", "%1")
    :gsub("^ ", ""):gsub(" $", ""))
end

--- The types in a list of formals "(…)" as one text, in canonical form.
local function types(formals, env)
  local list = split(formals:sub(2, -2))
  for i, f in ipairs(list) do
    f = f:gsub("=.*", "")
    list[i] = compared(f:match("^(.-[%s%*&])[%a_][%w_]*%s*$") or f, env):gsub(" ", "")
  end
  return table.concat(list, ",")
end

--- The specialisation for the template arguments 'values', or nil; formals: the template's.
local function special(list, env, values, formals)
  local wanted = types(formals, env)
  for _, s in ipairs(list) do
    local same = not s.given and types(s.formals, {}) == wanted
    if s.given then
      same = true
      for i, v in ipairs(values) do
        same = same and (not s.given[i] or compared(s.given[i], {}) == compared(v, {}))
      end
    end
    if same then return s end
  end
end

local function without(source, from, to)
  return source:sub(1, from - 1) .. blanks(source:sub(from, to)) .. source:sub(to + 1)
end

--- The template's arguments, given or default: parameter's name -> text, and a list of texts.
local function values_of(parameters, given)
  local env, values = {}, {}
  for i, parameter in ipairs(parameters) do
    local text, default = parameter:match("^([^=]*)=(.*)$")
    local name = (text or parameter):match("([%a_][%w_]*)%s*$")
    values[i] = (given[i] or default or ""):match("^%s*(.-)%s*$")
    if name then env[name] = values[i] end
  end
  return env, values
end

--- For an entry "k<…>": the source with this instance of the template as an ordinary kernel, its
--- name, and true if it is an explicit specialisation; with 'general' these are ignored.
local function instance(source, entry, general)
  local name, between = entry:match("^%s*([%a_][%w_]*)%s*<(.*)>%s*$")
  if not name then return source, entry end
  local text, given = bare(source), split(between)
  for from, to in text:gmatch(
      "()%f[%w_]template%s+__global__[^;{<]-%f[%w_]" .. name .. "%s*<[^;{]*;()") do
    source = without(source, from, to - 1)
  end
  local first, last, parameters = header(text, name, given)
  if not first then
    fail("kernel", "entry '%s': there is no template of a kernel '%s' in the source", entry, name)
  end
  if #given > #parameters then
    fail("kernel", "entry '%s': the template has %d parameter%s: <%s>", entry, #parameters,
      ending(#parameters), table.concat(parameters, ","))
  end
  local list = {}
  for i in ipairs(parameters) do list[i] = declared(entry, parameters, i, given[i]) end
  local specials = specialisations(text, name)
  local env, values = values_of(parameters, given)
  local formals = text:match(name .. "%s*(%b())", last) or "()"
  local one = not general and special(specials, env, values, formals)
  if one then                            -- a function beside its template, which stays
    source = without(source, one.from, one.to)
    first, last, list = one.first, one.head, {}
  else
    for _, s in ipairs(specials) do source = without(source, s.first, s.last) end
  end
  local lines = source:sub(first, last):gsub("[^\n]", "")
  return source:sub(1, first - 1) .. table.concat(list) .. lines .. ' extern "C"'
    .. source:sub(last + 1), name, one and true
end

-- Patterns of the permitted compiler options; an option must match one. The options in TAKES_NEXT
-- take the next word of the list as their value.
local OPTIONS = { "^%-D[%a_][%w_]*$", "^%-D[%a_][%w_%(%),]*=[^\n]*$", "^%-U[%a_][%w_]*$",
  "^%-%-define%-macro=[%a_][%w_%(%),]*$", "^%-%-define%-macro=[%a_][%w_%(%),]*=[^\n]*$",
  "^%-%-undefine%-macro=[%a_][%w_]*$", "^%-%-?use_fast_math$", "^%-%-?std=c%+%+%d%d$",
  "^%-%-?maxrregcount=%d+$", "^%-%-?fmad=true$", "^%-%-?fmad=false$" }
local TAKES_NEXT = { ["-D"] = "-D", ["-U"] = "-U", ["--define-macro"] = "-D",
  ["--undefine-macro"] = "-U" }

local function check_option(o)
  if type(o) ~= "string" then
    fail("kernel", "options: expected strings, got %s", arguments.word(o))
  end
  for _, pattern in ipairs(OPTIONS) do
    if not o:find("[%c]") and o:find(pattern) then return o end
  end
  fail("kernel",
    "options: '%s' is none of -D -U --use_fast_math -std= -maxrregcount= --fmad=\1; folders go into include = {…}", o)
end

--- The options for the compiler: those of the script's list, checked, since none may name a file,
--- and one for each folder of 'include'.
local function options(given, include)
  if type(given or {}) ~= "table" then
    fail("kernel", "options must be a list of strings, got %s", arguments.word(given))
  end
  if type(include or {}) ~= "table" then
    fail("kernel", "include must be a list of folders, got %s", arguments.word(include))
  end
  local list, word = {}, nil
  for _, o in ipairs(given or {}) do
    if word then list[#list + 1], word = check_option(word .. tostring(o)), nil
    elseif TAKES_NEXT[o] then word = TAKES_NEXT[o]
    else list[#list + 1] = check_option(o) end
  end
  if word then fail("kernel", "options: '%s' without a name behind it", word) end
  for _, folder in ipairs(include or {}) do
    if type(folder) ~= "string" or folder == "" or folder:find("%c") then
      fail("kernel", "include: expected the names of folders, got %s", arguments.word(folder))
    end
    list[#list + 1] = "--include-path=" .. folder
  end
  return list
end

--- The text to compile, with constants and template arguments filled in, and the kernel's name.
local function text_of(source, constants, entry, general)
  source = interpolate(source, constants)
  entry = by_defaults(source, entry)
  if not entry then return source end
  return instance(source, entry, general)
end

--- The entry "k<…>" with the list 'given' in place of the last arguments of its template.
local function renamed(source, constants, entry, given)
  local text = interpolate(source, constants)
  local full = by_defaults(text, entry) or ""
  local name, between = full:match("^%s*([%a_][%w_]*)%s*<(.*)>%s*$")
  local list = split(between or "")
  local parameters = name and select(3, header(bare(text), name, list)) or {}
  for i = #list + 1, #parameters do list[i] = parameters[i]:match("=(.*)$") or "" end
  if #given > #list then
    fail("tune", "template: %d argument%s for %s, which has %d", #given, ending(#given),
      name or entry or "a kernel", #list)
  end
  for i, v in ipairs(given) do list[#list - #given + i] = tostring(v) end
  return ("%s<%s>"):format(name, table.concat(list, ","))
end

--- A template's parameters as {name, is_type, default}; nil if one is a pack, template or nameless.
local function parameters_of(text)
  local list = {}
  for i, parameter in ipairs(split(text)) do
    local left, default = parameter:match("^([^=]*)=(.*)$")
    local kind, name = (left or parameter):match("^%s*(.-)%s*([%a_][%w_]*)%s*$")
    if not name or kind == "" or parameter:find("[.<(]") then return nil end
    list[i] = { name = name, is_type = kind == "typename" or kind == "class",
      default = default and default:match("^%s*(.-)%s*$") }
  end
  return list
end

--- Makes given arguments (2 in "k<auto, 2>") the parameters' defaults; nil if there are too many.
local function give(parameters, given)
  for i, text in ipairs(given) do
    if not parameters[i] then return nil end
    if not text:find("^%s*auto%s*$") then
      parameters[i].default, parameters[i].is_type = text:match("^%s*(.-)%s*$"), false
    end
  end
  return parameters
end

--- For an entry that is a template named without arguments, or with "auto" among them: its
--- {name, parameters, formals}. nil for another kind of kernel, or if several templates
--- match.
local function template_of(source, constants, entry)
  if not source:find("%f[%w_]template%s*<") then return nil end
  local plain, between = (entry or ""):match("^%s*([%a_][%w_]*)%s*<(.*)>%s*$")
  local given = split(between or "")
  if between then
    if not between:find("%f[%w_]auto%f[^%w_]") then return nil end
    entry = plain
  elseif entry and not entry:find("^[%a_][%w_]*$") then
    return nil
  end
  local text, found, heads = bare(interpolate(source, constants)), nil, 0
  for _, open, close, head in headers(text) do
    local short = without_bounds(head)
    local name, formals = short:match("([%a_][%w_]*)%s*(%b())")
    name = name or short:match("([%a_][%w_]*)%s*<")
    local inside = text:sub(open + 1, close - 1)
    if name and (not entry or name == entry) then
      heads = heads + 1
      if inside:find("%S") and formals then
        if found and found.inside ~= inside then return nil end
        found = { name = name, inside = inside, parameters = parameters_of(inside),
          formals = split(formals:sub(2, -2)) }
      end
    end
  end
  local of = "__global__" .. (entry and "[^;{}]-%f[%w_]" .. entry .. "%s*[%(<]" or "")
  local all = count(text, "%f[%w_]" .. of) - count(text, "%f[%w_]template%s+" .. of)
  if not found or not found.parameters or all ~= heads then return nil end
  local open = between ~= nil                              -- else defaults are meant
  for _, p in ipairs(found.parameters) do open = open or not p.default end
  return open and give(found.parameters, given) and found
end

return { options = options, text_of = text_of, template_of = template_of, renamed = renamed }
