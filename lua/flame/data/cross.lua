--- Encodes values as a message for another Lua state (that of a worker thread): nil, booleans,
-- numbers, strings, tensors and plain tables of them. A message is a list of strings: the first has
-- the structure, each other one the bytes of a tensor, in the structure's order.
local flame = require "flame"
local internal = flame.internal
local arguments = require "flame.base.arguments"

local cross = {}

local MOST_DEPTH <const> = 100

local write

local function write_table(out, v, path, depth)
  if depth > MOST_DEPTH then
    error(path:sub(1, 60) .. "… is nested deeper than 100, or holds itself", 0)
  end
  if getmetatable(v) ~= nil then
    error(path .. " is an object: plain tables, tensors, numbers, strings and booleans cross", 0)
  end
  local n, pairs_at = #v, #out[1] + 1
  out[1][pairs_at] = ""
  for i = 1, n do write(out, rawget(v, i), path, i, depth + 1) end
  local count = 0
  for key, value in next, v do
    if not (math.type(key) == "integer" and key >= 1 and key <= n) then
      if type(key) == "table" or flame.is_tensor(key) then
        error(path .. " has a key that is a table", 0)
      end
      write(out, key, path, "a key", depth + 1)
      write(out, value, path, key, depth + 1)
      count = count + 1
    end
  end
  out[1][pairs_at] = string.pack("<c1I8I8", "t", n, count)
end

local function write_tensor(out, x)
  if x.requires_grad then x = x:detach() end
  local shape = table.move(x.shape, 1, x.ndim, 1, {})
  out[1][#out[1] + 1] = string.pack("<c1s1I1" .. ("i8"):rep(#shape), "x", x.dtype, #shape,
    table.unpack(shape))
  out[#out + 1] = x:bytes()
end

--- Appends the encoding of v to the message 'out'. path and key say where v is, for errors.
function write(out, v, path, key, depth)
  local text, kind = out[1], type(v)
  if v == nil then text[#text + 1] = "n"
  elseif kind == "boolean" then text[#text + 1] = v and "T" or "F"
  elseif kind == "number" then
    text[#text + 1] = math.type(v) == "integer" and string.pack("<c1i8", "i", v)
      or string.pack("<c1d", "d", v)
  elseif kind == "string" then text[#text + 1] = string.pack("<c1s8", "s", v)
  else
    if key ~= nil then path = (path == "" and "%s%s" or "%s[%s]"):format(path, tostring(key)) end
    if flame.is_tensor(v) then write_tensor(out, v)
    elseif kind == "table" then write_table(out, v, path, depth)
    else
      error(("%s is a %s: plain tables, tensors, numbers, strings and booleans cross"):format(path,
        kind), 0)
    end
  end
end

--- The message that encodes v. Raises, without a position, an error that names the part of v that
--- can not be sent. name: what the error calls v; with "" elements of v keep their own names.
function cross.pack(v, name)
  local out = { {} }
  write(out, v, name, nil, 1)
  out[1] = table.concat(out[1])
  return out
end

local read

local function read_table(from)
  local n, count
  n, count, from.at = string.unpack("<I8I8", from.text, from.at)
  local t = {}
  for i = 1, n do t[i] = read(from) end
  for _ = 1, count do
    local key = read(from)
    t[key] = read(from)
  end
  return t
end

local function read_tensor(from)
  local text, shape = from.text, {}
  local dtype, ndim, at = string.unpack("<s1I1", text, from.at)
  for i = 1, ndim do shape[i], at = string.unpack("<i8", text, at) end
  from.at = at
  from.blob = from.blob + 1
  local bytes = from.message[from.blob]
  from.message[from.blob] = false                        -- freed once the tensor has it
  return flame.from_bytes(bytes, shape, dtype, { device = from.device })
end

function read(from)
  local letter = from.text:sub(from.at, from.at)
  from.at = from.at + 1
  if letter == "t" then return read_table(from)
  elseif letter == "x" then return read_tensor(from)
  elseif letter == "n" then return nil
  elseif letter == "T" or letter == "F" then return letter == "T" end
  local v
  v, from.at = string.unpack(letter == "i" and "<i8" or letter == "d" and "<d" or "<s8",
    from.text, from.at)
  return v
end

--- Decodes a message from cross.pack; the tensors are made on 'device'.
function cross.unpack(message, device)
  return read { text = message[1], at = 1, blob = 1, message = message, device = device }
end

-- ---- functions ------------------------------------------------------------------------------

--- The function that a source text returns or, if 'text' is a module's name, the module itself.
local function of_text(text, what)
  local f
  if text:find("^[%a_][%w_%.%-]*$") then
    local ok, found = pcall(require, text)
    if not ok then
      error(("%s: %s"):format(what, (tostring(found):gsub("^flame/data/cross%.lua:%d+: ", ""))), 0)
    end
    f = found
  else
    local chunk, why = load(text, "=" .. what, "t")
    if not chunk then error(("%s: %s"):format(what, why), 0) end
    f = chunk()
  end
  if not internal.callable(f) then
    error(("%s: the text gives %s, need a function"):format(what, arguments.word(f)), 0)
  end
  return f
end

--- The function that f stands for: f is a function, a source text, the name of a module, or a
--- result of cross.code.
function cross.callable(f, what)
  if type(f) == "string" then return of_text(f, what) end
  if type(f) ~= "table" or not f.dump then return f end
  local made = assert(load(f.dump, what, "b"))
  for k, module in ipairs(f.locals) do
    debug.setupvalue(made, k, module == "_G" and _G or require(module))
  end
  return made
end

--- The name under which v is loaded as a module.
local function module_of(v)
  if v == nil or type(v) == "boolean" then return nil end
  for name, loaded in next, package.loaded do
    if loaded == v and type(name) == "string" then return name end
  end
end

--- The function f in a form that can be sent to another Lua state; raises, without a position, if
-- it can not be. A local of the script that f uses must be a module, which is required again there.
function cross.code(f, what)
  if type(f) == "string" then return f end
  local remedy = "\1: give what it needs as given, or the source text of a function, or the name of"
    .. " a module that is one; or use workers = 0"
  if type(f) ~= "function" or debug.getinfo(f, "S").what == "C" then
    error(("%s is %s, which a worker's Lua state can not have%s"):format(what,
      type(f) == "function" and "a function of C" or "an object that can be called", remedy), 0)
  end
  local locals = {}
  for k = 1, debug.getinfo(f, "u").nups do
    local name, v = debug.getupvalue(f, k)
    locals[k] = name == "_ENV" and "_G" or module_of(v)
    if not locals[k] then
      error(("%s uses the local '%s' of the script, which is not a module%s"):format(
        what, name, remedy), 0)
    end
  end
  return { dump = string.dump(f), locals = locals }
end

return cross
