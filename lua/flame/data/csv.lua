--- CSV files: numbers as one tensor, or columns of different types. The file returns a function
--- that adds them to flame.data.
local flame = require "flame"
local internal = flame.internal
local arguments = require "flame.base.arguments"

return function(data, shared)
  local fail, put = shared.fail, shared.put

  -- ---- fields -----------------------------------------------------------------------------------
  -- s without blanks at its ends. This takes linear time, while a pattern that ends in %s*$
  -- takes quadratic time.
  local function trimmed(s)
    local first, last = s:find("%S"), #s
    if not first then return "" end
    while s:find("^%s", last) do last = last - 1 end
    return s:sub(first, last)
  end

  -- The text in quotation marks that begins with the mark at 'open', and the position of the
  -- closing mark; nil if there is none. A doubled mark inside stands for one mark.
  local function quoted(text, open)
    local close = open + 1
    while true do
      close = text:find('"', close, true)
      if not close then return nil end
      if text:sub(close + 1, close + 1) ~= '"' then
        return text:sub(open + 1, close - 1):gsub('""', '"'), close
      end
      close = close + 2
    end
  end

  local function plain_fields(line, separator)
    local fields, at = {}, 1
    while true do
      local stop = line:find(separator, at, true)
      fields[#fields + 1] = trimmed(line:sub(at, stop and stop - 1))
      if not stop then return fields end
      at = stop + #separator
    end
  end

  -- Reads the row of 'text' that begins at 'at'. Returns its fields and where the next row begins,
  -- or nil and a message. A field in quotation marks may contain separators and ends of lines.
  local function quoted_fields(text, at, separator)
    local fields = {}
    local line_end = text:find("\n", at, true)
    while true do
      local stop = text:find(separator, at, true)
      if stop and stop > line_end then stop = nil end
      local field = trimmed(text:sub(at, (stop or line_end) - 1))
      if field:sub(1, 1) == '"' then
        local close
        field, close = quoted(text, text:find('"', at, true))
        if not field then return nil, "a quotation mark is not closed" end
        if close > line_end then line_end = text:find("\n", close, true) end
        stop = text:find(separator, close + 1, true)
        if stop and stop > line_end then stop = nil end
        if text:sub(close + 1, (stop or line_end) - 1):find("%S") then
          return nil, "text after a closed quotation mark"
        end
      end
      fields[#fields + 1] = field
      if not stop then return fields, line_end + 1 end
      at = stop + #separator
    end
  end

  local function lines_in(s)
    local n = 0
    for _ in s:gmatch("\n") do n = n + 1 end
    return n
  end

  --- Reads a file: its rows that are not blank, as lists of fields; a list of their line numbers.
  local function rows_of(path, separator)
    local text = internal.io_read(path, "csv"):gsub("^\xEF\xBB\xBF", "")
    if not text:find("\n", 1, true) then text = text:gsub("\r", "\n") end
    text = text .. "\n"
    local rows, lines, at, number = {}, {}, 1, 1
    while at <= #text do
      local stop = text:find("\n", at, true)
      local line = text:sub(at, stop - 1)
      local following, fields = stop + 1, nil
      if line:find('"', 1, true) then
        fields, following = quoted_fields(text, at, separator)
        if not fields then fail("csv", "%s: line %d: %s", path, number, following) end
      elseif line:find("%S") then fields = plain_fields(line, separator) end
      if fields then rows[#rows + 1], lines[#lines + 1] = fields, number end
      if fields and #fields ~= #rows[1] then
        fail("csv", "%s: line %d has %d fields, the first has %d", path, number, #fields, #rows[1])
      end
      number = number + (following == stop + 1 and 1 or lines_in(text:sub(at, following - 1)))
      at = following
    end
    if not rows[1] then fail("csv", "%s: no rows", path) end
    return rows, lines
  end

  local spelled = { nan = 0 / 0, inf = math.huge, infinity = math.huge }
  -- The number that a field contains, or nil if it is not a number. An empty field is NaN.
  local function number_of(field)
    if field == "" then return 0 / 0 end
    local v = tonumber(field)
    if v then return v end
    local sign, word = field:match("^([+-]?)(%a+)$")
    v = word and spelled[word:lower()]
    return v and (sign == "-" and -v or v)
  end

  --- Removes and returns the first row if it has names: header = true, or "auto" and a non-number.
  local function names_of(rows, lines, header)
    local numeric = true
    for _, field in ipairs(rows[1]) do numeric = numeric and number_of(field) ~= nil end
    if header == true or (header == "auto" and not numeric) then
      table.remove(lines, 1)
      return table.remove(rows, 1)
    end
  end

  --- What keeps the number v from being a value of the dtype; nil: nothing. Floats take any.
  local function unfit(v, dtype)
    if dtype:find("^b?f%d") then return nil end
    local n, sign, bits = math.tointeger(v), dtype:match("^([iu])(%d+)$")
    if not n then return "no integer" end
    local low = sign == "i" and -2 ^ (bits - 1) or 0
    local most = low + 2 ^ (sign and bits or 1) - 1                 -- no sign: bool
    return (n < low or n > most) and "out of range" or nil
  end

  --- Raises for a field that is no value of its dtype. where: "field 2", "column 'x'".
  local function refuse(path, line, where, field, why, dtype, advice)
    fail("csv", "%s: line %d, %s: '%s' is %s, and its type is %s%s", path, line, where,
      field:sub(1, 40), why or "no number", dtype,
      not why and advice or field == "" and "\1: a float dtype has NaN for it" or "")
  end

  -- ---- one tensor -------------------------------------------------------------------------------
  local function matrix_of(path, rows, lines, columns, dtype)
    local values = {}
    for i, fields in ipairs(rows) do
      for k = 1, columns do
        local v = number_of(fields[k])
        local why = v and unfit(v, dtype)
        if why or not v then
          refuse(path, lines[i], "field " .. k, fields[k], why, dtype,
            '\1: types = "auto" gives columns of text as such')
        end
        values[#values + 1] = v
      end
    end
    return flame.tensor(values, { dtype = dtype }):reshape(#rows, columns)
  end

  -- ---- columns ----------------------------------------------------------------------------------
  --- Column k read as classes: a tensor of ids from 1, and the sorted list of distinct texts.
  local function classes_of(rows, k)
    local id_of, classes, ids = {}, {}, {}
    for _, fields in ipairs(rows) do
      if not id_of[fields[k]] then
        id_of[fields[k]] = 0
        classes[#classes + 1] = fields[k]
      end
    end
    table.sort(classes)
    for id, name in ipairs(classes) do id_of[name] = id end
    for i, fields in ipairs(rows) do ids[i] = id_of[fields[k]] end
    return flame.tensor(ids, { dtype = "i64" }), classes
  end

  local function type_of(rows, k, floats)
    local kind = "i64"
    for _, fields in ipairs(rows) do
      local v = number_of(fields[k])
      if not v then return "text" end
      if math.type(v) ~= "integer" then kind = floats end
    end
    return kind
  end

  local function column_of(path, rows, lines, k, name, kind)
    if kind == "class" then return classes_of(rows, k) end
    local values = {}
    for i, fields in ipairs(rows) do
      local v = kind == "text" and fields[k] or number_of(fields[k])
      local why = v and kind ~= "text" and unfit(v, kind)
      if why or not v then
        refuse(path, lines[i], ("column '%s'"):format(name), fields[k], why, kind)
      end
      values[i] = v
    end
    return kind == "text" and values or flame.tensor(values, { dtype = kind })
  end

  local KINDS <const> = { auto = true, text = true, class = true, f64 = true, f32 = true,
    f16 = true, bf16 = true, i64 = true, i32 = true, i16 = true, i8 = true, u8 = true }
  local function kinds_of(path, types, names, columns)
    local kinds, place = {}, {}
    for k = 1, columns do
      kinds[k], place[k] = type(types) == "string" and types or "auto", k
      if names and place[names[k]] then
        fail("csv", "%s: two columns are named '%s'", path, names[k])
      end
      if names then place[names[k]] = k end
    end
    for name, kind in next, type(types) == "table" and types or {} do
      local k = place[name] or fail("csv", "%s: types names the column '%s', there is: %s", path,
        tostring(name), names and table.concat(names, ", ") or ("1 to %d"):format(columns))
      kinds[k] = kind
    end
    for k, kind in ipairs(kinds) do
      if not KINDS[kind] then
        fail("csv", "the type of column '%s' is %s, need \"text\", \"class\", \"auto\" or a dtype",
          names and names[k] or k, type(kind) == "string" and kind or arguments.word(kind))
      end
    end
    return kinds
  end

  local function columns_of(path, rows, lines, names, kinds, floats)
    local out, classes = {}, {}
    for k, kind in ipairs(kinds) do
      local name = names and names[k] or k
      if kind == "auto" then kind = type_of(rows, k, floats) end
      out[name], classes[name] = column_of(path, rows, lines, k, name, kind)
    end
    return out, classes
  end

  --- A text file of rows and columns; a row is a line, or several if a quoted field contains ends
  --- of lines. Without types the result is one tensor of numbers; an empty field is NaN, and nan
  --- and inf are numbers too. If 'header' is "auto", a first line with anything but numbers is a
  --- header.
  ---
  --- With types = "auto", or {name = type} for some of the columns, a table of columns by name (by
  --- number without a header), as data.dataset takes it. A type is a dtype, "text" (a list of
  --- strings), "class" (ids from 1, of the distinct texts in order; the third result has these by
  --- name) or "auto": i64, else dtype, else text.
  put(data, [[data.csv(path: str, *, header: bool|"auto" = "auto", sep = ",", dtype: dtype = "f32",
    types?: str|table) -> rows: T|table, names: str[] if header, classes: table if types]],
    function(path, header, sep, dtype, types)
    if sep == "" then fail("csv", "sep must be a string that is not empty") end
    local rows, lines = rows_of(path, sep)
    local columns = #rows[1]
    local names = names_of(rows, lines, header)
    if not types then return matrix_of(path, rows, lines, columns, dtype), names end
    local kinds = kinds_of(path, types, names, columns)
    if #rows == 0 then fail("csv", "%s: no rows behind the header", path) end
    local out, classes = columns_of(path, rows, lines, names, kinds, dtype)
    return out, names, classes
  end)
end
