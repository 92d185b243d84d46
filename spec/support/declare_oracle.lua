--- Reads the arguments of a call by a declaration, slowly and in plain Lua. It implements the
--- language that is described at the head of src/lua/declare.h, and shares nothing with the C code
--- for it.
--
---   oracle.read(text, is_tensor, args) -> number of the form (signature), list of parameters, or
--- nil, why
--
--- 'why' is "many", "type", "missing", "twice", "option" or "key" for one form, "forms" for
--- several.
local oracle = {}

local DTYPES = {}
for name in ("f64 f32 f16 bf16 i64 i32 i16 i8 u8 bool"):gmatch("%S+") do DTYPES[name] = true end

--- The parts of 'text' between separators outside of brackets and quotes, as a list.
local function split(text, separator)
  local parts, depth, quoted, part = {}, 0, false, ""
  for c in text:gmatch(".") do
    if c == '"' then quoted = not quoted end
    if not quoted and c:match("[%(%[{]") then depth = depth + 1 end
    if not quoted and c:match("[%)%]}]") then depth = depth - 1 end
    if c == separator and depth == 0 and not quoted then
      parts[#parts + 1], part = part, ""
    else
      part = part .. c
    end
  end
  if part:match("%S") then parts[#parts + 1] = part end
  return parts
end

local function trim(s) return (s:match("^%s*(.-)%s*$")) end

local function type_of(text)
  local atoms = {}
  for _, part in ipairs(split(text, "|")) do
    part = trim(part)
    local list = part:sub(-2) == "[]"
    if list then part = part:sub(1, -3) end
    local n = part:match("^dims%((%d)%)$")
    atoms[#atoms + 1] = { kind = n and "dims" or part, n = tonumber(n), list = list,
      word = part:match('^"(.*)"$'),
      class = part:match("^%u%w+$") }
  end
  return atoms
end

local function has(atoms, ...)
  for _, a in ipairs(atoms) do
    for _, kind in ipairs { ... } do if not a.list and a.kind == kind then return true end end
  end
  return false
end

local LITERALS = { ["true"] = true, ["false"] = false, inf = math.huge, ["-inf"] = -math.huge }
local function default_of(p, text, form)
  if text == nil then return end
  p.defaulted = true
  local word = text:match('^"(.*)"$')
  if text:match("^{") then
    p.list, p.atoms = text:sub(2, -2), p.atoms or type_of("num[]")
  elseif word then p.default, p.atoms = word, p.atoms or type_of("str")
  elseif text == "true" or text == "false" then p.default, p.atoms = LITERALS[text], p.atoms
    or type_of("bool")
  elseif LITERALS[text] or tonumber(text) then
    p.default, p.atoms = LITERALS[text] or tonumber(text), p.atoms or type_of("num")
  else
    for _, q in ipairs(form.all) do if q.name == text then p.same, p.atoms = q, p.atoms
      or q.atoms end end
  end
end

local function parameter(form, text, named)
  local head, default = text:match('^([^"=]-)%s*=%s*(.*)$')
  if not head then
    head, default = text:match('^(.-[^=])%s*=%s*(.*)$')
    head = head or text
  end
  local name, mark, kind = trim(head):match("^([%w_]+)([%.%?]*)%s*:?%s*(.-)$")
  local p = { name = name, optional = mark == "?", rest = mark == "...", named = named }
  if kind ~= "" then p.atoms = type_of(kind) end
  default_of(p, default and trim(default), form)
  p.atoms = p.atoms or type_of("any")
  return p
end

local function form_of(text)
  local form, named = { all = {}, positional = {}, named = {} }, false
  local inside = text:match("%b()"):sub(2, -2)
  for _, part in ipairs(split(inside, ",")) do
    part = trim(part)
    if part == "..." then form.open = true
    elseif part == "*" then named = true
    elseif part == "*factory" then
      named = true
      for _, p in ipairs { "dtype?: dtype", "device?: device", "requires_grad?: bool" } do
        p = parameter(form, p, true)
        form.all[#form.all + 1], form.named[#form.named + 1] = p, p
      end
    else
      local p = parameter(form, part, named)
      if p.rest then form.rest = p
      else
        form.all[#form.all + 1] = p
        local into = named and form.named or form.positional
        into[#into + 1] = p
      end
    end
  end
  local first = form.positional[1]
  local of_class = true
  for _, a in ipairs(first and first.atoms or {}) do
    if not a.class or a.kind == "T" or a.list then of_class = false end
  end
  form.options_first = not first or (first.optional or first.defaulted or of_class) and true
    or false
  for _, a in ipairs(first and first.atoms or {}) do
    if a.kind == "any" or a.kind == "table" then form.options_first = false end
  end
  -- the object of a method, or the one that a constructor makes, is a parameter before those of the
  -- text
  local class = text:match("([%w_]+):[%w_]+%(") or text:match("^new [%w_%.]-([%w_]+)%(")
  if class then
    local self = { name = "self", atoms = type_of(class), self = true }
    table.insert(form.all, 1, self)
    table.insert(form.positional, 1, self)
    form.options_first = false
  end
  return form
end

-- ---- values ---------------------------------------------------------------------------------
local function whole(v) return type(v) == "number" and math.tointeger(v) ~= nil end
local function callable(v)
  local m = getmetatable(v)
  return type(v) == "function" or type(v) == "table" and m and m.__call ~= nil or false
end
local function string_key(v)
  for k in next, v do if type(k) == "string" then return true end end
  return false
end
local function is_options(v)
  if type(v) ~= "table" or not string_key(v) then return false end
  local m = getmetatable(v)
  return not (m and (m.__call ~= nil or m.__name ~= nil))
end
local function of_class(v, name)
  local m = getmetatable(v)
  while type(m) == "table" do
    local own = rawget(m, "__name")
    if type(own) == "string" and (own == name or own:sub(-#name - 1) == "." .. name) then
      return true end
    local above = getmetatable(m)
    m = above and rawget(above, "__index")
  end
  return false
end

local function one(a, v, is_tensor)
  local kind = a.kind
  if a.word then return v == a.word end
  if kind == "T" then return is_tensor(v) end
  if kind == "num" then return type(v) == "number" end
  if kind == "int" or kind == "axis" or kind == "axes" or kind == "dims" then return whole(v) end
  if kind == "bool" then return type(v) == "boolean" end
  if kind == "str" then return type(v) == "string" end
  if kind == "fn" then return callable(v) end
  if kind == "any" then return v ~= nil end
  if kind == "table" then return type(v) == "table" end
  if kind == "dtype" then return DTYPES[v] == true end
  if kind == "device" then return v == "cpu" or type(v) == "string" and v:sub(1, 4) == "cuda" end
  return type(v) == "table" and of_class(v, kind)
end

--- Whether v is a table whose elements come from a metatable (__index or __len), not an object.
local function is_proxy(v)
  local m = type(v) == "table" and getmetatable(v)
  return m and (m.__index or m.__len) and m.__name == nil and m.__call == nil
end
--- The number of elements of v; nil: __len gives no valid number.
local function count_of(v)
  local n = is_proxy(v) and #v or rawlen(v)
  return whole(n) and n >= 0 and n <= 900000 and math.tointeger(n) or nil
end
local function list_fits(a, v, is_tensor)
  if type(v) ~= "table" or not (a.list or a.kind == "axes" or a.kind == "dims") then
    return false end
  local m = getmetatable(v)
  if m and (m.__index or m.__len) and not is_proxy(v) then return false end
  if not is_proxy(v) and string_key(v) then return false end
  local n = count_of(v)
  if not n then return false end
  if a.kind == "dims" and not a.list and n ~= a.n and n ~= 1 then return false end
  if a.kind == "any" then return true end
  for k = 1, n do if not one(a, v[k], is_tensor) then return false end end
  return true
end

local function fits(p, v, is_tensor)
  if v == false and p.optional then return true end
  if v == nil then return p.optional and true or false end
  for _, a in ipairs(p.atoms) do
    if not a.list and one(a, v, is_tensor) or list_fits(a, v, is_tensor) then return true end
  end
  return false
end

--- The value that the function receives for the argument v of the parameter p.
local function settled(p, v, is_tensor)
  if is_proxy(v) then
    for _, a in ipairs(p.atoms) do if not a.list and one(a, v, is_tensor) then return v end end
    return { table.unpack(v, 1, count_of(v)) }
  end
  local booleans = has(p.atoms, "bool", "any")
  if v == false and p.optional and not booleans then return nil end
  if whole(v) and not has(p.atoms, "num", "any") then return math.tointeger(v) end
  return v
end

-- ---- calls ----------------------------------------------------------------------------------
local function takes_list(p)
  for _, a in ipairs(p.atoms) do
    if a.list or a.kind == "axes" or a.kind == "dims" or a.kind == "any" or a.kind == "table" then
      return true
    end
  end
  return false
end

--- How many arguments are given by position, and the table of options (nil: none).
local function parted(form, args)
  local n = args.n
  if form.open then return n end
  local last = args[n]
  if type(last) ~= "table" or n == 1 and not form.options_first then return n end
  if is_options(last) then
    if form.positional[n] and has(form.positional[n].atoms, "table") then return n end
    return n - 1, last
  end
  local m = getmetatable(last)
  if next(last) ~= nil or m and (m.__index or m.__len or m.__call or m.__name) then return n end
  if #form.all + (form.rest and 1 or 0) <= (form.positional[1] and not form.options_first and 1
      or 0) then
    return n
  end
  local p = form.positional[n]
  if n == 1 and p and not p.optional and not p.defaulted then return n end
  local list = p and takes_list(p) or form.rest and n == #form.positional + 1
  if list then return n end
  return n - 1, last
end

local function rest_values(form, values, is_tensor)
  if values.n == 1 then
    local v = values[1]
    local m = type(v) == "table" and getmetatable(v)
    local object = m and (m.__call ~= nil or m.__name ~= nil)
    if type(v) == "table" and not is_options(v)
        and not (object and fits(form.rest, v, is_tensor)) then
      local n = count_of(v)
      if not n then return nil, "type" end
      values = { n = n, table.unpack(v, 1, n) }
    end
  end
  for i = 1, values.n do
    if not fits(form.rest, values[i], is_tensor) then return nil, "type" end
  end
  return values
end

local function read_form(form, args, is_tensor)
  local m, options = parted(form, args)
  local most, values, given, rest = #form.positional, {}, {}, { n = 0 }
  if m > most and not form.rest and not form.open then return nil, "many" end
  for i = 1, math.min(m, most) do
    local p = form.positional[i]
    if args[i] ~= nil then
      if not fits(p, args[i], is_tensor) then return nil, "type" end
      values[p], given[p] = args[i], true
    end
  end
  if m > most then rest = { n = m - most, table.unpack(args, most + 1, m) } end
  if form.rest and m > most then
    local why
    rest, why = rest_values(form, rest, is_tensor)
    if not rest then return nil, why end
  end
  for key, v in next, options or {} do
    if type(key) ~= "string" then return nil, "key" end
    local found
    for _, p in ipairs(form.all) do if p.name == key and not p.self then found = p end end
    if form.rest and form.rest.name == key then
      if m > most then return nil, "twice" end
      local why
      rest, why = rest_values(form, { n = 1, v }, is_tensor)
      if not rest then return nil, why end
    elseif not found then return nil, "option"
    elseif given[found] then return nil, "twice"
    elseif not fits(found, v, is_tensor) then return nil, "type"
    else values[found] = v end
  end
  local out = { n = 0 }
  for _, list in ipairs { form.positional, form.named } do
    for _, p in ipairs(list) do
      local v = values[p]
      if v == nil then
        if not p.optional and not p.defaulted then return nil, "missing" end
        v = p.default
        if p.list then
          v = {}
          for _, text in ipairs(split(p.list, ",")) do
            v[#v + 1] = tonumber(text) or LITERALS[trim(text)]
          end
        end
        if p.same then v = values[p.same] end
      end
      v = settled(p, v, is_tensor)
      values[p], out.n = v, out.n + 1
      out[out.n] = v
    end
  end
  for i = 1, rest.n do
    out.n = out.n + 1
    if form.rest then out[out.n] = settled(form.rest, rest[i], is_tensor)
    else out[out.n] = rest[i] end
  end
  return out
end

function oracle.read(text, is_tensor, args)
  local forms = {}
  for line in text:gmatch("[^\n]+") do forms[#forms + 1] = form_of(line) end
  local given = { n = args.n, table.unpack(args, 1, args.n) }
  if not forms[1].open then while given.n > 0
    and given[given.n] == nil do given.n = given.n - 1 end end
  local why
  for k, form in ipairs(forms) do
    local out
    out, why = read_form(form, given, is_tensor)
    if out then return k, out end
  end
  return nil, #forms == 1 and why or "forms"
end

--- The names that a call of this form (signature) may use in its table of options, in its order.
function oracle.names(text)
  local form, names = form_of(text), {}
  for _, p in ipairs(form.all) do
    if not p.self and (p ~= form.positional[1] or form.options_first) then
      names[#names + 1] = p.name
    end
  end
  if form.rest then names[#names + 1] = form.rest.name end
  return names, form
end

return oracle
