--- How the prompt shows values: tables to a depth, sorted, tensors in them as one line; nothing
-- wider than the terminal.
local flame = require "flame"
local told = require "flame.tools.help"

local show = {}

-- most levels of tables, entries of a table, lines of a list of numbers
local DEPTH, ENTRIES, LINES = 4, 100, 12
local COLOURS = { number = "36", string = "32", word = "35", tensor = "34", faint = "2", key = "" }

local function painted(p, kind, text)
  local code = COLOURS[kind]
  return p.colours and code and code ~= "" and "\27[" .. code .. "m" .. text .. "\27[0m" or text
end

-- ---- one line -----------------------------------------------------------------------------------

-- The text cut to this many columns.
local function cut(p, text, columns)
  if p.width(text) <= columns then return text end
  local out, used = {}, 1
  for c in text:gmatch("[%z\1-\127\194-\244][\128-\191]*") do
    local w = p.width(c)
    if used + w > columns then break end
    out[#out + 1], used = c, used + w
  end
  return table.concat(out) .. "…"
end
show.cut = cut

local function quoted(s)
  s = s:gsub('[%c"\\\127]', function(c)
    if c == "\n" then return "\\n" elseif c == "\t" then return "\\t" end
    return (c == '"' or c == "\\") and "\\" .. c or ("\\%d"):format(c:byte())
  end)
  return '"' .. s .. '"'
end

local function tensor_line(x)
  local ok, text = pcall(function()
    return ("tensor %s %s %s%s"):format(x.shape, x.dtype, x.device,
      x.requires_grad and " requires grad" or "")
  end)
  return ok and text or "tensor (closed)"
end

local function function_line(f)
  local name = told.name(f)
  if name then
    local _, parameters = told.line(name)
    return "function " .. name:gsub("^Tensor:", "x:") .. parameters
  end
  local facts = debug.getinfo(f, "S")
  if facts.what == "C" then return tostring(f) end
  return ("function at %s:%d"):format(facts.short_src, facts.linedefined)
end

-- The text of a value that is shown on one line, and the key of its colour; nil for a table that is
-- shown with its entries.
local function atom(v)
  local kind = type(v)
  if kind == "string" then return quoted(v), "string" end
  if kind == "number" then return tostring(v), "number" end
  if kind == "nil" or kind == "boolean" then return tostring(v), "word" end
  if kind == "function" then return function_line(v), "word" end
  if flame.is_tensor(v) then return tensor_line(v), "tensor" end
  local m = debug.getmetatable(v)
  if kind == "table" and not (type(m) == "table" and m.__tostring) then return nil end
  local ok, text = pcall(tostring, v)
  return ok and text or kind, "word"
end

local function key_order(a, b)
  local ka, kb = type(a), type(b)
  if ka ~= kb then return ka < kb end
  if ka == "number" or ka == "string" then return a < b end
  return tostring(a) < tostring(b)
end

-- The keys of a table that are not in its list part, sorted.
local function names_of(t)
  local n, names = rawlen(t), {}
  for key in next, t do
    if not (math.type(key) == "integer" and key >= 1 and key <= n) then names[#names + 1] = key end
  end
  table.sort(names, key_order)
  return names, n
end

local function key_text(p, key)
  if type(key) == "string" and key:find("^[%a_][%w_]*$") then return key end
  return "[" .. (type(key) == "table" and "table" or p.line(key)) .. "]"
end

-- A value on one line of at most 'room' columns, its width; or nil. above: the tables around it.
local function inline(p, v, room, above)
  local text, colour = atom(v)
  if text then
    if p.width(text) > room or text:find("\n", 1, true) then return nil end
    return painted(p, colour, text), p.width(text)
  end
  if above[v] then return "<above>", 7 end
  if above.depth >= DEPTH then return next(v) == nil and "{}" or "{…}", 3 end
  local names, n = names_of(v)
  local parts, used = {}, 2
  above[v], above.depth = true, above.depth + 1
  local function add(name, x)
    local head = name and key_text(p, name) .. " = " or ""
    local item, width = inline(p, x, room - used - p.width(head), above)
    if not item then return false end
    parts[#parts + 1] = head .. item
    used = used + width + p.width(head) + 2
    return used - 2 <= room
  end
  local fits = n + #names <= ENTRIES
  for i = 1, fits and n or 0 do fits = fits and add(nil, rawget(v, i)) end
  for _, name in ipairs(fits and names or {}) do fits = fits and add(name, rawget(v, name)) end
  above[v], above.depth = nil, above.depth - 1
  if not fits then return nil end
  return "{" .. table.concat(parts, ", ") .. "}", math.max(used - 2, 0) + (#parts > 0 and 0 or 2)
end

--- One line on a value, at most this many columns wide.
function show.line(p, v, columns)
  local text = inline(p, v, columns, { depth = 0 })
  if text then return text end
  local word, colour = atom(v)
  if word then return painted(p, colour, cut(p, (word:gsub("\n.*", " …")), columns)) end
  local names, n = names_of(v)
  return ("table of %d"):format(n + #names)
end

-- ---- more than a line ---------------------------------------------------------------------------

local function is_numbers(v)
  local names, n = names_of(v)
  if #names > 0 or n == 0 then return false end
  for i = 1, math.min(n, 1000) do
    local kind = type(rawget(v, i))
    if kind ~= "number" and kind ~= "boolean" then return false end
  end
  return true
end

-- A list of numbers inside another table, without its middle if it is too long for the line.
local function elided(p, v, room)
  local n, head, tail, used, i = rawlen(v), {}, {}, 5, 1
  local from = n
  while i <= from do
    local at = #head <= #tail and i or from
    local text = tostring(rawget(v, at))
    if used + #text + 2 > room then break end
    used = used + #text + 2
    if at == i then head[#head + 1], i = painted(p, "number", text), i + 1
    else table.insert(tail, 1, painted(p, "number", text)) from = from - 1 end
  end
  head[#head + 1] = "…"
  table.move(tail, 1, #tail, #head + 1, head)
  return "{" .. table.concat(head, ", ") .. "}"
end

-- A list of numbers over some lines.
local function wrapped(p, v, indent, columns)
  local lines, line, used, n = {}, {}, 0, rawlen(v)
  for i = 1, n do
    local text = tostring(rawget(v, i))
    if used + #text + 2 > columns - indent - 2 and #line > 0 then
      lines[#lines + 1] = table.concat(line, ", ") .. ","
      line, used = {}, 0
      if #lines == LINES then
        line[1] = painted(p, "faint", ("… %d more"):format(n - i + 1))
        break
      end
    end
    line[#line + 1], used = painted(p, "number", text), used + #text + 2
  end
  lines[#lines + 1] = table.concat(line, ", ")
  local blank = "\n" .. (" "):rep(indent + 2)
  return "{" .. blank .. table.concat(lines, blank) .. "\n" .. (" "):rep(indent) .. "}"
end

local function block(p, v, indent, columns, above, head)
  local room = columns - indent - head - 1
  local text = inline(p, v, room, above)
  if text then return text end
  local word, colour = atom(v)
  if word then return painted(p, colour, cut(p, (word:gsub("\n", " ")), room)) end
  if is_numbers(v) then
    if above.depth > 0 then return elided(p, v, room) end
    return wrapped(p, v, indent, columns)
  end
  local names, n = names_of(v)
  if above.depth >= DEPTH or above[v] then
    return painted(p, "faint", ("{… %d}"):format(n + #names))
  end
  local blank, lines, count = (" "):rep(indent + 2), { "{" }, 0
  above[v], above.depth = true, above.depth + 1
  local function add(name, x)
    count = count + 1
    if count > ENTRIES then return end
    local before = name and cut(p, key_text(p, name), columns // 2) .. " = " or ""
    lines[#lines + 1] = blank .. before .. block(p, x, indent + 2, columns, above,
      p.width(before)) .. ","
  end
  for i = 1, math.min(n, ENTRIES) do add(nil, rawget(v, i)) end
  for _, name in ipairs(count < ENTRIES and names or {}) do add(name, rawget(v, name)) end
  above[v], above.depth = nil, above.depth - 1
  local rest = n + #names - math.min(n + #names, ENTRIES)
  if rest > 0 then lines[#lines + 1] = blank .. painted(p, "faint", ("… %d more"):format(rest)) end
  lines[#lines + 1] = (" "):rep(indent) .. "}"
  return table.concat(lines, "\n")
end

-- ---- tensors ------------------------------------------------------------------------------------

-- A row of values in columns of equal width; of a long row only its first and last values.
local function narrow_row(line, columns)
  local values, wide = {}, 1
  for value in line:gmatch("%S+") do values[#values + 1] = value end
  for _, value in ipairs(values) do wide = math.max(wide, value == "…" and 1 or #value) end
  local fits = math.max((columns - 1) // (wide + 1), 2)
  if #values <= fits then return line end
  local head = fits // 2 + fits % 2
  local out = {}
  for i, value in ipairs(values) do
    if i <= head or i > #values - (fits - head) then
      out[#out + 1] = (" "):rep(wide - utf8.len(value)) .. value
    end
    if i == head then out[#out + 1] = "…" end
  end
  return table.concat(out, " ")
end

-- The lines of a vector, broken again to the width of the terminal.
local function narrow_vector(lines, columns)
  local values, wide, out = {}, 1, {}
  for value in table.concat(lines, " "):gmatch("%S+") do
    values[#values + 1] = value
    wide = math.max(wide, utf8.len(value))
  end
  for i, value in ipairs(values) do values[i] = (" "):rep(wide - utf8.len(value)) .. value end
  local fits = math.max((columns + 1) // (wide + 1), 1)
  for i = 1, #values, fits do
    out[#out + 1] = table.concat(values, " ", i, math.min(i + fits - 1, #values))
  end
  return out
end

local function tensor_text(p, x, columns)
  local lines, wide = {}, false
  for line in (tostring(x) .. "\n"):gmatch("(.-)\n") do
    lines[#lines + 1] = line
    wide = wide or (utf8.len(line) or #line) > columns
  end
  local values, facts = lines[#lines]:match("^(.-)%s*(shape %(.*)$")
  if not facts then return lines[1] end                     -- 0-d, or closed
  if values ~= "" and not wide then return values .. "  " .. painted(p, "faint", facts) end
  lines[#lines] = values ~= "" and values or nil
  if wide and x.ndim == 1 then lines = narrow_vector(lines, columns) end
  if wide and x.ndim > 1 then
    for i, line in ipairs(lines) do
      if (utf8.len(line) or #line) > columns then lines[i] = narrow_row(line, columns) end
    end
  end
  lines[#lines + 1] = painted(p, "faint", facts)
  return table.concat(lines, "\n")
end

--- The text of a value v that an entry returned, for printing.
function show.value(p, v, columns)
  if type(v) == "string" then return v end
  if flame.is_tensor(v) then return tensor_text(p, v, columns) end
  if v == p.help then return "help(flame.topk) tells what a function does; :help lists what the prompt can do" end
  local text, colour = atom(v)
  if text then return painted(p, colour, text) end
  return block(p, v, 0, columns, { depth = 0 }, 0)
end

return show
