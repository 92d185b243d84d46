--- JSON as values of Lua, for the files that come with a model's weights. Objects are tables by
-- name, lists are tables with the metatable 'list', null is the value 'null', so that what is read
-- can be written again. The file returns {read, write, list, null}.
local MAX_DEPTH <const> = 100

local json = { list = { __name = "list" },
  null = setmetatable({}, { __tostring = function() return "null" end }) }

-- ---- reading ------------------------------------------------------------------------------------
--- Raises: the text is wrong ('what') from byte 'at' on, by default from the current position.
local function wrong(r, what, at) error({ what = what, at = (at or r.at) - 1, json = r }, 0) end
local function next_sign(r)
  r.at = r.text:find("[^ \t\r\n]", r.at) or #r.text + 1
  return r.text:sub(r.at, r.at)
end

local ESCAPES <const> = { ['"'] = '"', ["\\"] = "\\", ["/"] = "/", b = "\b", f = "\f", n = "\n",
  r = "\r", t = "\t" }

--- The character of "\uXXXX" at 'at', or of a surrogate pair, and where it ends. An unpaired
--- surrogate gives the replacement character.
local function code_point(r, at)
  local hex = r.text:match("^\\u(%x%x%x%x)", at)
  if not hex then wrong(r, "a \\u without four digits", at) end
  local c = tonumber(hex, 16)
  if c < 0xD800 or c > 0xDFFF then return utf8.char(c), at + 6 end
  local low = tonumber(r.text:match("^\\u([dD][c-fC-F]%x%x)", at + 6) or "0", 16)
  if c > 0xDBFF or low == 0 then return "\u{FFFD}", at + 6 end
  return utf8.char(0x10000 + ((c - 0xD800) << 10) + (low - 0xDC00)), at + 12
end

local function read_string(r)
  local parts, at = {}, r.at + 1
  while true do
    local stop = r.text:find('[%c"\\]', at)
    if not stop then wrong(r, "a string that does not end") end
    parts[#parts + 1] = r.text:sub(at, stop - 1)
    local sign = r.text:sub(stop, stop)
    if sign == '"' then
      r.at = stop + 1
      return table.concat(parts)
    end
    if sign ~= "\\" then
      if sign ~= "\127" then wrong(r, "a control character in a string", stop) end
      parts[#parts + 1], at = sign, stop + 1
    else
      local e = r.text:sub(stop + 1, stop + 1)
      if e == "u" then parts[#parts + 1], at = code_point(r, stop)
      else
        parts[#parts + 1] = ESCAPES[e] or wrong(r, "an unknown escape", stop)
        at = stop + 2
      end
    end
  end
end

local function read_number(r)
  local text = r.text:match("^-?%d+%.?%d*[eE]?[+-]?%d*", r.at)
  local v = text and not text:find "^-?0%d" and not text:find "%.$" and not text:find "%.[eE]"
    and tonumber(text)
  if not v then wrong(r, "expected a value") end
  r.at = r.at + #text
  return v
end

local WORDS <const> = { ["true"] = true, ["false"] = false, null = json.null,
  NaN = 0 / 0, Infinity = math.huge }                    -- the last two as Python writes them
local function read_word(r)
  local word = r.text:match("^%a+", r.at)
  if word == nil or WORDS[word] == nil then
    if r.text:find("^-Infinity", r.at) then
      r.at = r.at + 9
      return -math.huge
    end
    return read_number(r)
  end
  r.at = r.at + #word
  return WORDS[word]
end

local read_value

--- Reads the members of a list or object up to the closing bracket; f() reads each one.
local function members(r, bracket, f)
  r.at = r.at + 1
  if next_sign(r) == bracket then
    r.at = r.at + 1
    return
  end
  while true do
    f()
    local sign = next_sign(r)
    if sign ~= "," and sign ~= bracket then wrong(r, ("expected , or %s"):format(bracket)) end
    r.at = r.at + 1
    if sign == bracket then return end
  end
end

function read_value(r, depth)
  if depth > MAX_DEPTH then wrong(r, ("nested deeper than %d"):format(MAX_DEPTH)) end
  local sign = next_sign(r)
  if sign == '"' then return read_string(r) end
  if sign == "[" then
    local out = setmetatable({}, json.list)
    members(r, "]", function() out[#out + 1] = read_value(r, depth + 1) end)
    return out
  end
  if sign ~= "{" then return read_word(r) end
  local out = {}
  members(r, "}", function()
    if next_sign(r) ~= '"' then wrong(r, "expected a name in quotes") end
    local key = read_string(r)
    if next_sign(r) ~= ":" then wrong(r, "expected :") end
    r.at = r.at + 1
    out[key] = read_value(r, depth + 1)
  end)
  return out
end

--- The value of a text; or nil, what is wrong and the offset in bytes.
function json.read(text)
  local r = { text = text, at = 1 }
  if text:sub(1, 3) == "\xEF\xBB\xBF" then r.at = 4 end
  local ok, v = pcall(function()
    local value = read_value(r, 1)
    if next_sign(r) ~= "" then wrong(r, "text after the end") end
    return value
  end)
  if ok then return v end
  if type(v) == "table" and v.json == r then return nil, v.what, v.at end
  error(v, 0)
end

-- ---- writing ------------------------------------------------------------------------------------
local function quoted(s)
  return '"' .. s:gsub('[%c"\\]', function(c)
    return c == '"' and '\\"' or c == "\\" and "\\\\" or c == "\n" and "\\n"
      or c == "\127" and c or ("\\u%04x"):format(c:byte())
  end) .. '"'
end
local function number(v)
  if v ~= v then return "NaN" end
  if v == math.huge or v == -math.huge then return v > 0 and "Infinity" or "-Infinity" end
  if math.type(v) == "integer" then return tostring(v) end
  local short = ("%.15g"):format(v)
  if tonumber(short) ~= v then short = ("%.17g"):format(v) end
  return short:find "[%.en]" and short or short .. ".0"
end

local write_value
local function write_table(v, indent)
  local parts, inner = {}, indent .. "  "
  if getmetatable(v) == json.list or #v > 0 then
    for i, x in ipairs(v) do parts[i] = inner .. write_value(x, inner) end
    return #parts == 0 and "[]" or ("[\n%s\n%s]"):format(table.concat(parts, ",\n"), indent)
  end
  local keys = {}
  for key in pairs(v) do keys[#keys + 1] = key end
  table.sort(keys, function(a, b) return tostring(a) < tostring(b) end)
  for i, key in ipairs(keys) do
    parts[i] = ("%s%s: %s"):format(inner, quoted(tostring(key)), write_value(v[key], inner))
  end
  return #parts == 0 and "{}" or ("{\n%s\n%s}"):format(table.concat(parts, ",\n"), indent)
end
function write_value(v, indent)
  if type(v) == "string" then return quoted(v) end
  if type(v) == "number" then return number(v) end
  if type(v) == "table" and v ~= json.null then return write_table(v, indent) end
  return tostring(v)
end

--- The text of a value, a line for each member, names in order. A table that has a first element
--- is a list.
function json.write(value) return write_value(value, "") .. "\n" end

return json
