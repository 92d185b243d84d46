--- width: checks that no line of C, CUDA or Lua has more than 100 columns; that C code has i++
-- where the value of an increment is not used, and one style of braces (brace_fault); that no
-- function of C or CUDA has more than 40 lines, and no file of src/, lua/flame/, kernels/ or spec/
-- more than 600, except tables of cases ('tables'). Prints what is wrong; exit code 1 then. Before
-- that it must find faults planted here, and accept correct lines.
--
-- A function begins with the last line in column 1 before its brace, and ends with a brace in
-- column 1. Lines of the preprocessor are not counted, such as those that include a table (*.def).
--
-- A line may be longer if it can not be broken:
--   a literal that begins by column 40, with at most 16 columns after it (what closes it, the head
--     of a function): the text of a message, of a kernel, the title of a test
--   a long string of Lua at column 101; a single word, as an address
--   an annotation of Lua (---@), since tools/meta.lua reads a single line
-- Tables (*.def), which have an entry on each line, and generated files (lua/meta, spec/golden) are
-- not checked.

local MOST, BEGINS, AFTER, LINES, BODY = 100, 40, 16, 600, 40
local folders = "src lua/flame spec tools examples bench kernels"
local generated = { "^spec/golden/" }
-- Files of spec/ that may be longer: texts of users' kernels, numbers that other libraries gave.
local tables = { "^spec/kernel/users/[^/]*%.lua$", "^spec/.*reference%.lua$" }

--- Positions of the long strings and long comments of a Lua text: { first, last } each.
local function long_strings(text)
  local list, at = {}, 1
  while true do
    at = text:find("[%-%[\"']", at)
    if not at then return list end
    local level = text:match("^%-%-%[(=*)%[", at) or text:match("^%[(=*)%[", at)
    if level then
      local _, last = text:find("]" .. level .. "]", at, true)
      list[#list + 1] = { at, last or #text }
      at = list[#list][2] + 1
    elseif text:find("^%-%-", at) then
      at = text:find("\n", at, true) or #text + 1
    elseif text:find("^[\"']", at) then
      local quote = text:sub(at, at)
      repeat
        at = text:find("[\\\n" .. quote .. "]", at + 1) or #text
        local escape = text:sub(at, at) == "\\"
        if escape then at = at + 1 end
      until not escape
      at = at + 1
    else
      at = at + 1
    end
  end
end

--- Is the line too long only because of a string literal (see above)?
local function is_literal(line)
  local at = 1
  while true do
    at = line:find("[\"']", at)
    if not at or at > BEGINS then return false end
    local quote, last = line:sub(at, at), at
    repeat
      last = line:find("[\\" .. quote .. "]", last + 1)
      local escape = last and line:sub(last, last) == "\\"
      if escape then last = last + 1 end
    until not escape
    if not last then return false end
    if utf8.len(line:sub(last + 1)) <= AFTER then return true end
    at = last + 1
  end
end

local function columns(line) return utf8.len(line) or #line end

--- Is the line too long? first: its position in the file; long: the file's long strings.
local function is_wide(line, first, long)
  if columns(line) <= MOST then return false end
  local comment = line:find("^%s*%-%-") or line:find("^%s*/%*") or line:find("^%s*%*%*")
  if line:find("^%s*%-%-%-@") or not comment and is_literal(line) then return false end
  if not line:find("^%s*%S+%s+%S") or line:find("^%s*%-%-+ %S+$") then return false end
  local at = first - 1 + (utf8.offset(line, MOST + 1) or MOST + 1)
  for _, string in ipairs(long) do
    if string[1] <= at and at <= string[2] then return false end
  end
  return true
end

--- Does a line of C have ++i (or --i) whose value is not used?
local function is_prefix(line)
  local code = line:gsub('"[^"]*"', '""'):gsub("/%*.*", "")
  if code:find("^%*%*") or code:find("^%s*#") or code:find("\\$") then return false end
  for head in code:gmatch("%f[%w_]for (%b())") do
    local step = head:match(".*;(.*)%)$") or ""
    step = "," .. step:gsub("%b()", ""):gsub("%b[]", "")
    if step:find(",%s*%+%+[%a_*]") or step:find(",%s*%-%-[%a_*]") then return true end
  end
  code = ";" .. code:gsub("%f[%w_]for %b()", "for ()"):gsub("%f[%w_]else ", "; ")
  return code:find("[;{})]%s+%+%+[%a_*][^=(]*;") ~= nil
    or code:find("[;{})]%s+%-%-[%a_*][^=(]*;") ~= nil
end

--- What is wrong with the braces of a line of C, or nil; before: the line above. A brace that opens
--- a body ends the line of its head (a line with the brace alone begins a block), 'else' is on the
--- line of the brace before it, and a word of control, its brackets and its brace have blanks
--- between them.
local function brace_fault(line, before)
  local code = line:gsub("\\.", ""):gsub("([\"']).-%1", '""'):gsub("/%*.*", "")
  if code:find("^%*%*") or code:find("^%s*#") then return nil end
  local above = before:gsub("/%*.-%*/%s*$", "")
  if code:find("^%s*{%s*$") and above:find("[^;{}:,(=%s]%s*$") then
    return "the brace belongs to the line above"
  end
  if code:find("^%s*else%f[^%w_]") and above:find("^" .. code:match "^%s*" .. "}%s*$") then
    return "write } else"
  end
  if code:find("}else%f[^%w_]") or code:find("%f[%w_]else{") or code:find("%f[%w_]do{")
      or code:find("%f[%w_]if%(") or code:find("%f[%w_]for%(") or code:find("%f[%w_]while%(")
      or code:find("%f[%w_]switch%(") or code:find("^%s*%f[%w_][wfis][hofw]%l* %b(){") then
    return "a blank is missing beside a brace or a word"
  end
  return nil
end

--- Appends { line, what } to 'found' for each function of C or CUDA that is too long.
local function long_functions(text, found)
  local number, head, lines, inside, macro = 0, 1, 0, nil, nil
  for line in (text .. "\n"):gmatch("(.-)\n") do
    number = number + 1
    if macro or line:find("^%s*#") then
      macro = line:find("\\$")
    elseif inside then
      lines = lines + 1
      if line:find("^}") then
        if inside == "function" and lines > BODY then
          found[#found + 1] = { head, ("a function of %d lines, %d at most"):format(lines, BODY) }
        end
        inside = nil
      end
    else
      if line:find("^[%a_]") then head, lines = number, 0 end
      lines = lines + 1
      inside = line:find("%)[%s%a]*{$") and "function" or line:find("{$") and "data"
    end
  end
end

--- Does the limit of 600 lines apply to the file 'name'?
local function is_short(name)
  for _, pattern in ipairs(tables) do
    if name:find(pattern) and not name:find("_spec%.lua$") then return false end
  end
  return name:find("^src/") or name:find("^lua/flame/") or name:find("^kernels/")
    or name:find("^spec/")
end

--- What is wrong in a text: list of { line, what }.
local function faults_of(name, text)
  local found, number, first, before = {}, 0, 1, ""
  local is_lua, is_c = name:find("%.lua$"), name:find("%.[ch]$")
  local long = is_lua and long_strings(text) or {}
  for line in (text .. "\n"):gmatch("(.-)\n") do
    number = number + 1
    if is_wide(line, first, long) then
      found[#found + 1] = { number, ("%d columns, %d at most"):format(columns(line), MOST) }
    end
    if is_c and is_prefix(line) then
      found[#found + 1] = { number, "write i++ where no value is used" }
    end
    local braces = is_c and brace_fault(line, before)
    if braces then found[#found + 1] = { number, braces } end
    before, first = line, first + #line + 1
  end
  if is_c or name:find("%.cu$") then long_functions(text, found) end
  local lines = select(2, text:gsub("\n", ""))
  if lines > LINES and is_short(name) then
    found[#found + 1] = { lines, ("%d lines, %d at most"):format(lines, LINES) }
  end
  return found
end

local x60, x90 = ("x"):rep(60), ("x"):rep(90)
local function body(n, head)
  return (head or "int f(void)") .. " {\n" .. ("f();\n"):rep(n) .. "}\n"
end
local wrong_ones = {
  ["a.cu"] = { body(BODY - 1), "T x[] = {\n};\n" .. body(BODY - 2, "KERNEL f(int a,\n  int b)") },
  ["a.c"] = { "int " .. x60 .. " = " .. x60 .. ";", "/* " .. ("word "):rep(20) .. "*/",
    "f(" .. x60 .. ', "' .. x60 .. '");', 'f("' .. x90 .. '", ' .. x60 .. ");",
    "for (int i = 0; i < n; ++i) f();", "  ++n;", "if (x) --p->n;", "for (;; i++, ++j) f(a, b);",
    "} else ++*count;",
    "/* it's " .. ("word "):rep(20) .. "don't */",
    "int f(void)\n{\n}", "  if (x)\n  {", "}\nelse f();",
    "}else f();", "else{", "if(x) f();", "while (f(x)){", "for (;;){", "do{" },
  ["a.lua"] = { "local a = [[x]] .. " .. x60 .. " .. " .. x60, "-- " .. ("word "):rep(20),
    "it([[\n]], " .. x60 .. ", " .. x60 .. ")",
    "x = a" .. ("\u{e9}"):rep(90) .. " or b or c or d" },
  ["src/a.c"] = { ("i++;\n"):rep(LINES + 1) }, ["lua/flame/a.lua"] = { ("f()\n"):rep(LINES + 1) },
  ["spec/kernel/users/a_spec.lua"] = { ("f()\n"):rep(LINES + 1) },
  ["kernels/a.cu"] = { ("int i;\n"):rep(LINES + 1) },
}
local right_ones = {
  ["a.cu"] = { body(BODY - 2), "#define F(x) \\\n" .. ("  x; \\\n"):rep(BODY) .. "  x\n",
    "T x[] = {\n" .. ("  1,\n"):rep(BODY) .. "};\n", body(20) .. body(20),
    "struct x {\n  int f() {\n" .. ("  f();\n"):rep(BODY) .. "  }\n};\n",
    "int f(void) {\n" .. ("#define A\n"):rep(BODY) .. "}\n" },
  ["a.c"] = { 'f("' .. x90 .. '", x);', "  f(L, -2, ++n);", "if (++n > 3) f();", "x = ++y->n;",
    "for (i = ++j; i < n; i++) a[++k] = i;", "while (*++p) f();", "#define F(i) ++i;",
    "f();\n{\n}", "case 1:\n  {", "} else {", "x = (T){ 1 };", "f('\"', x, \"if(x){\");",
    "** for (;; ++i) of a comment", "for (i = 0; i < n; i += f(++j)) g();", "/* http://" .. x90 },
  ["a.lua"] = { 'it("' .. x90 .. '", function()', "x = [[" .. x60 .. " " .. x60 .. "\n]]",
    "---@param a any " .. x90, "--[[ " .. x60 .. " " .. x60 .. " ]]", "-- http://" .. x90,
    "x = '" .. ("\u{e9}"):rep(90) .. "'" },
  ["src/a.c"] = { ("i++;\n"):rep(LINES) },
  ["spec/kernel/users/a.lua"] = { ("f()\n"):rep(LINES + 1) },
}
local wrong = 0
local function complain(...)
  wrong = wrong + 1
  io.write(("%s:%d: %s\n"):format(...))
end
for name, list in pairs(wrong_ones) do
  for i, text in ipairs(list) do
    if #faults_of(name, text) == 0 then
      complain("planted in " .. name, i, "is not seen: " .. text:sub(1, 200))
    end
  end
end
for name, list in pairs(right_ones) do
  for i, text in ipairs(list) do
    if #faults_of(name, text) > 0 then
      complain("planted in " .. name, i, "is right: " .. text:sub(1, 200))
    end
  end
end

local function is_checked(name)
  for _, pattern in ipairs(generated) do if name:find(pattern) then return false end end
  return name:find("%.[ch]$") or name:find("%.cu$") or name:find("%.lua$")
end

local count = 0
local list = assert(io.popen("git ls-files " .. folders))
for name in list:lines() do
  local file = is_checked(name) and io.open(name, "rb")
  if file then
    count = count + 1
    for _, fault in ipairs(faults_of(name, file:read("a"))) do
      complain(name, fault[1], fault[2])
    end
    file:close()
  end
end
list:close()
io.write(("width: %d files, %d wrong\n"):format(count, wrong))
os.exit(wrong == 0 and count > 0)
