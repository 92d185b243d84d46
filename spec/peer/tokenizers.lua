--- tokenizers.lua FOLDER: compares ids and texts with those by spec/peer/tokenizers.py.
local flame = require "flame"
local tokenizers = flame.tokenizers

--- The values of a line of JSON that Python wrote: strings, integers, lists, null.
local function parse(text)
  local at = 1
  local escapes = { n = "\n", t = "\t", r = "\r", b = "\b", f = "\f" }
  local function value()
    at = text:find("[^%s,]", at)
    local c = text:sub(at, at)
    if c == "[" then
      local list, n = {}, 0
      at = at + 1
      while text:sub(at, at) ~= "]" do
        n = n + 1
        list[n] = value()
        at = text:find("[^%s,]", at)
      end
      at = at + 1
      return list
    elseif c == '"' then
      local from = at
      repeat
        at = text:find('["\\]', at + 1)
        local quote = text:sub(at, at) == '"'
        if not quote then at = at + 1 end
      until quote
      at = at + 1
      local raw = text:sub(from + 1, at - 2)
      raw = raw:gsub("\\u([dD][89abAB]%x%x)\\u(%x%x%x%x)", function(a, b)
        return utf8.char(0x10000 + (tonumber(a, 16) - 0xD800 << 10) + tonumber(b, 16) - 0xDC00)
      end)
      return (raw:gsub("\\(.)(%x?%x?%x?%x?)", function(e, hex)
        if e == "u" then return utf8.char(tonumber(hex, 16)) end
        return (escapes[e] or e) .. hex
      end))
    elseif text:find("^null", at) then
      at = at + 4
      return nil
    end
    local number = text:match("^-?%d+", at)
    at = at + #number
    return math.tointeger(number)
  end
  return value()
end

local folder, texts, wrong, refused = arg[1], 0, 0, 0
local function differ(file, what, line, ...)
  wrong = wrong + 1
  if wrong <= (tonumber(arg[2]) or 10) then print(file, what, line, ...) end
end
local i = 0
while true do
  local file = ("%s/%d.json"):format(folder, i)
  local cases = io.open(("%s/%d.cases"):format(folder, i))
  if not cases then break end
  local ok, tok = pcall(tokenizers.load, file)
  if not ok then
    refused = refused + 1
    print(file, tok)
  end
  for line in ok and cases:lines() or function() end do
    local case = parse(line)
    texts = texts + 1
    local good, batch = pcall(tok.encode_batch, tok, { case[1] }, case[2] and { case[2] })
    local ids = good and batch.ids[1]:totable() or { batch }
    if table.concat(ids, " ") ~= table.concat(case[3], " ") then
      differ(file, "ids", line, table.concat(ids, " "))
    else
      if #ids > 0 and table.concat(batch.types[1]:totable(), " ") ~= table.concat(case[4], " ") then
        differ(file, "types", line, table.concat(batch.types[1]:totable(), " "))
      end
      for k = 5, 6 do
        local text = tok:decode(case[3], { skip_special = k == 5 })
        if text ~= case[k] then differ(file, "text", line, ("%q"):format(text)) end
      end
      local stream, out = tok:stream(), {}
      for k, id in ipairs(ids) do out[k] = stream:put(id) end
      out[#out + 1] = stream:finish()
      if utf8.len(table.concat(out)) == nil then differ(file, "stream", line) end
    end
  end
  cases:close()
  i = i + 1
end
print(("%d tokenizers, %d refused, %d texts, %d different"):format(i, refused, texts, wrong))
os.exit(wrong == 0 and refused == 0 and texts > 0)
