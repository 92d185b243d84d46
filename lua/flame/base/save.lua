--- flame.save and flame.load: nested tables with tensors, numbers, strings and booleans.
-- Tensors are stored in the file under dotted names, as other programs expect; the rest (the shape
-- of the table, types of keys, exact numbers) is one text in the file's metadata under "flame". It
-- is data, never code: reading it builds tables and nothing else.
--
-- The text: "1:" and a value.
--   value = i<digits>; | d<16 hex digits of the big-endian double>; | s<text>; | T | F
--         | t<name of a tensor>; | { [value … ] key value … }       list part first, in order
-- Bytes other than letters, digits, _ and - are written as %XX.
local flame = require "flame"
local internal = flame.internal
local arguments = require "flame.base.arguments"
local fail, is_tensor = arguments.fail, flame.is_tensor

local MAX_DEPTH = 100

local function escape(s)
  return (s:gsub("[^A-Za-z0-9_-]", function(c) return ("%%%02X"):format(c:byte()) end))
end
local function unescape(s)
  return (s:gsub("%%(%x%x)", function(h) return string.char(tonumber(h, 16)) end))
end

-- ---- writing ---------------------------------------------------------------------------------

--- A table's key as a part of a tensor's dotted name; control characters and non-UTF-8 are escaped.
local function part_of(key)
  if type(key) == "string" and (not utf8.len(key) or key:find("%c")) then return escape(key) end
  return tostring(key)
end

local function join(path, key)
  if path == "" then return part_of(key) end
  return path .. "." .. part_of(key)
end

local ranks = { number = 1, string = 2, boolean = 3 }
local function before(a, b)
  local x, y = ranks[type(a)], ranks[type(b)]
  if x ~= y then return x < y end
  if x == 3 then return b and not a end
  if a ~= b then return a < b end
  return false
end

local function scalar(value)
  if math.type(value) == "integer" then return ("i%d;"):format(value) end
  if type(value) == "number" then
    return "d" .. string.pack(">d", value):gsub(".",
      function(c) return ("%02x"):format(c:byte()) end) .. ";"
  end
  if type(value) == "string" then return "s" .. escape(value) .. ";" end
  return value and "T" or "F"
end

--- State of one save: text (out), names and tensors of the file, names taken, tensor -> its name.
local function new_writer()
  return { out = {}, names = {}, tensors = {}, taken = { ["__metadata__"] = true },
    known = {}, open = {} }
end

local function add_tensor(w, x, path)
  local name = w.known[x]
  if not name then
    local base, k = path == "" and "value" or path, 1
    name = base
    while w.taken[name] do
      k = k + 1
      name = ("%s#%d"):format(base, k)
    end
    w.taken[name], w.known[x] = true, name
    w.names[#w.names + 1], w.tensors[#w.tensors + 1] = name, x
  end
  w.out[#w.out + 1] = "t" .. escape(name) .. ";"
end

local add_value

local function sorted_keys(t, from, path)
  local keys = {}
  for key in next, t do
    if not ranks[type(key)] then
      fail("save", "%s has a key that is a %s: need strings, numbers or booleans", path, type(key))
    end
    if not (math.type(key) == "integer" and key >= 1 and key < from) then keys[#keys + 1] = key end
  end
  table.sort(keys, before)
  return keys
end

local function add_table(w, t, path, depth)
  local where = path == "" and "the table" or path
  if getmetatable(t) then
    fail("save", "%s has a metatable\1: save plain tables, of a module its state_dict()", where)
  end
  if w.open[t] then fail("save", "%s contains itself", where) end
  if depth > MAX_DEPTH then fail("save", "%s is nested deeper than %d tables", where, MAX_DEPTH) end
  local out, n = w.out, 1
  w.open[t] = true
  out[#out + 1] = "{"
  if rawget(t, 1) ~= nil then
    out[#out + 1] = "["
    while rawget(t, n) ~= nil do
      add_value(w, rawget(t, n), join(path, n), depth + 1)
      n = n + 1
    end
    out[#out + 1] = "]"
  end
  for _, key in ipairs(sorted_keys(t, n, where)) do
    out[#out + 1] = scalar(key)
    add_value(w, rawget(t, key), join(path, key), depth + 1)
  end
  out[#out + 1] = "}"
  w.open[t] = nil
end

function add_value(w, value, path, depth)
  local kind = type(value)
  if is_tensor(value) then add_tensor(w, value, path)
  elseif kind == "table" then add_table(w, value, path, depth)
  elseif ranks[kind] then w.out[#w.out + 1] = scalar(value)
  else
    fail("save",
      "%s is a %s: tensors, numbers, strings, booleans and tables of them can be saved", path, kind)
  end
end

--- Collects all tensors of a nested table into the lists of w. Any other value raises, since npz
--- holds nothing else.
local function only_tensors(w, t, path, depth)
  for _, key in ipairs(sorted_keys(t, 0, path == "" and "the table" or path)) do
    local value, name = t[key], join(path, key)
    if is_tensor(value) then
      if w.taken[name] then
        fail("save",
          "two tensors have the name %s, which npz can not tell apart\1: use .safetensors", name)
      end
      w.taken[name], w.names[#w.names + 1], w.tensors[#w.tensors + 1] = true, name, value
    elseif type(value) == "table" and not getmetatable(value) and depth < MAX_DEPTH then
      only_tensors(w, value, name, depth + 1)
    else
      fail("save", "%s is a %s: npz holds tensors only\1, use .safetensors", name, type(value))
    end
  end
end

local pickles = { pt = true, pth = true, pkl = true, ckpt = true, bin = true, h5 = true,
  gguf = true, onnx = true }

--- A path's extension: what follows the last dot of the file's name, in lower case; "" without one.
local function extension(path)
  return (path:match("[^/]%.([^./]*)$") or ""):lower()
end

--- The tensor to write to a PNG file: u8, or i32 for 16 bits, as it is; floats from 0 to 1 as u8.
local function pixels(path, value)
  if value.dtype == "u8" then return value end
  if value.dtype == "i32" then return value end              -- 16 bits
  if not value:is_floating_point() then
    fail("save", "%s: a PNG needs u8, i32 from 0 to 65535 or floats from 0 to 1, got %s",
      path, value.dtype)
  end
  return (value:detach() * 255):nan_to_num(0):clamp(0, 255):round():to("u8")
end

local only_one = { npy = "an npy file", png = "a PNG file", csv = "a csv file" }
local known = { [""] = true, safetensors = true, npz = true, npy = true, png = true, csv = true }
local written =
  ".safetensors, .npz (tensors), .npy (one tensor), .png (an image), .csv (rows and columns)"

--- Writes a table (or one tensor) with all that it contains. The ending of the name determines the
--- format: .safetensors, or no ending, for everything, .npz for tensors only, .npy for one tensor,
--- .png for one image, .csv for one tensor of two axes. The file is replaced when the new one is
--- complete.
arguments.def(".save(path: str, value: T|table)", function(path, value)
  local kind = extension(path)
  if pickles[kind] then
    fail("save", "%s: flame writes no .%s files\1: use .safetensors, .npz or .npy", path, kind)
  end
  if not known[kind] then
    fail("save", "%s: flame writes no .%s files, there is %s", path, kind, written)
  end
  if only_one[kind] and not is_tensor(value) then
    fail("save", "%s: %s holds one tensor, got a table\1: use .npz or .safetensors", path,
      only_one[kind])
  end
  if kind == "npy" then return internal.io_save_npy(path, { "" }, { value }) end
  if kind == "csv" then return internal.io_save_csv(path, { "" }, { value:detach() }) end
  if kind == "png" then return internal.io_save_png(path, { "" }, { pixels(path, value) }) end
  if kind == "npz" then
    local w = { names = {}, tensors = {}, taken = {} }
    only_tensors(w, is_tensor(value) and { arr_0 = value } or value, "", 1)
    return internal.io_save_npz(path, w.names, w.tensors)
  end
  local w = new_writer()
  add_value(w, value, "", 1)
  internal.io_save(path, w.names, w.tensors, { "flame" }, { "1:" .. table.concat(w.out) })
end)

-- ---- reading ------------------------------------------------------------------------------------

--- r is the state of one load: text, read up to at; tensors of the file; used: those named in text.
local function bad(r, what)
  fail("load", "%s: metadata 'flame': %s at offset %d", r.path, what, r.at - 1)
end
local function take(r, pattern)
  local s, after = r.text:match(pattern, r.at)
  if not s then bad(r, "unreadable text") end
  r.at = after
  return s
end
local function next_char(r) return r.text:sub(r.at, r.at) end

local function take_scalar(r)
  local c = next_char(r)
  if c == "i" then
    local v = tonumber(take(r, "^i(%-?%d+);()"))
    if math.type(v) ~= "integer" then bad(r, "a number out of range") end
    return v
  elseif c == "d" then
    local h = take(r, "^d(%x+);()")
    if #h ~= 16 then bad(r, "a damaged number") end
    return (string.unpack(">d",
      (h:gsub("%x%x", function(b) return string.char(tonumber(b, 16)) end))))
  elseif c == "s" then
    return unescape(take(r, "^s([A-Za-z0-9_%%-]*);()"))
  end
  take(r, "^([TF])()")
  return c == "T"
end

local take_value

local function take_list(r, t, depth)
  local n = 0
  r.at = r.at + 1
  while next_char(r) ~= "]" do
    n = n + 1
    t[n] = take_value(r, depth)
  end
  r.at = r.at + 1
end

local function take_table(r, depth)
  if depth > MAX_DEPTH then bad(r, "nested too deep") end
  local t = {}
  r.at = r.at + 1
  if next_char(r) == "[" then take_list(r, t, depth + 1) end
  while next_char(r) ~= "}" do
    local key = take_scalar(r)
    if key ~= key or t[key] ~= nil then bad(r, "a key that can not be or appears twice") end
    t[key] = take_value(r, depth + 1)
  end
  r.at = r.at + 1
  return t
end

function take_value(r, depth)
  local c = next_char(r)
  if c == "{" then return take_table(r, depth) end
  if c ~= "t" then return take_scalar(r) end
  local name = unescape(take(r, "^t([A-Za-z0-9_%%-]*);()"))
  if not r.tensors[name] then bad(r, ("tensor '%s' is not in the file"):format(name)) end
  r.used[name] = true
  return r.tensors[name]
end

--- Was the metadata text under "flame" written by flame.save? Such a text is a version and a value
--- in flame.save's characters; any other is another program's.
local function is_ours(text)
  return text ~= nil
    and (text:find("^%d+:{[%w_%%;{}%[%]-]*$") or text:find("^%d+:[tids][%w_%%-]*;$")) ~= nil
end

local function parse(path, text, tensors)
  if text:sub(1, 2) ~= "1:" then fail("load", "%s: written by a later flame", path) end
  local r = { path = path, text = text, at = 3, tensors = tensors, used = {} }
  local result = take_value(r, 1)
  if r.at ~= #text + 1 then bad(r, "text after the end") end
  for name in pairs(tensors) do
    if not r.used[name] then
      fail("load", "%s: tensor '%s' is not in the metadata 'flame'", path, name)
    end
  end
  return result
end

local convert = "convert it once with Python: import torch, safetensors.torch as s; "
  .. "s.save_file(torch.load('model.pt', weights_only=True), 'model.safetensors')"

--- Reads the tensors of a model in several files, which "model.safetensors.index.json" lists. The
--- files are in the list's folder; only the listed tensors are read from each.
local function load_parts(path, device)
  local folder, files, out = path:match("^(.*/)[^/]*$") or "", {}, {}
  for name, file in pairs(internal.io_load_parts(path)) do
    if not file:find("^[%w_][%w._-]*%.safetensors$") then
      fail("load", "%s: '%s' is no name of a safetensors file", path, file)
    end
    files[file] = files[file] or internal.io_load(folder .. file, device)
    out[name] = files[file][name] or fail("load", "%s: %s has no tensor '%s'", path, file, name)
  end
  return out
end

--- Reads what flame.save wrote. For another program's file the result is a table name -> tensor,
-- and its metadata are a second result. Recognised by content: safetensors, npy (a tensor), npz,
-- png (u8, of 16 bits i32; (h, w) or (channels, h, w)); by its ending csv (f32, see data.csv) and
-- the list of a model in several files, "….index.json".
arguments.def(".load(path: str, *, device?: device) -> T|table, metadata: table",
function(path, device)
  device = device or flame.default_device()
  if path:find("%.index%.json$") then return load_parts(path, device) end
  if extension(path) == "csv" then return (require("flame.data").csv(path):to(device)) end
  local head = internal.io_read(path, "load", 0, 8)
  if head:sub(1, 4) == "\x89PNG" then return internal.io_load_png(path, device) end
  if head:sub(1, 6) == "\x93NUMPY" then return internal.io_load_npy(path, device) end
  if head:sub(1, 4) == "PK\3\4" or head:sub(1, 4) == "PK\5\6" then
    return internal.io_load_npz(path, device)
  end
  if head:find("^\x80[\2-\5]") and pickles[extension(path)] then
    fail("load", "%s: is a pickle, which can run code\1; %s", path, convert)
  end
  local tensors, meta = internal.io_load(path, device)
  if is_ours(meta.flame) then return parse(path, meta.flame, tensors) end
  return tensors, meta
end)
