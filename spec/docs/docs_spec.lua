-- What the pages README.md and docs/*.md show is so. For each page
--   * the ```lua blocks run in order, as one program in a separate process, in an empty
--     folder and on the CPU. What a line prints must be the comment after it
--         print(x.shape[1])        --> 2
--     or, for several lines of output, the comment lines "--> …" below it. Blanks count as
--     one, "…" in a comment stands for anything. A block marked "lua norun" is a fragment:
--     it must compile, no more. Lines of ```plan blocks must be among those that the program writes
--     to the standard error (plans, with flame.debug(1));
--   * its pictures, ![…](…), are what its code, or that of another page, writes under these names;
--     spec/docs/gallery_spec.lua checks those in gallery/, bench_spec.lua those in measured/;
--   * relative links lead to files and headings that exist;
--   * commands in ```sh blocks are make targets, files of the tree or well-known programs;
-- and the C of embedding.md is examples/embed.c, compiles, and prints what the page says.

local interpreter = dofile("spec/support/interpreter.lua")
local markdown = dofile("tools/book/markdown.lua")
local order = dofile("tools/book/order.lua")

local function quote(s) return "'" .. s:gsub("'", "'\\''") .. "'" end

local function output_of(command)
  local pipe = assert(io.popen(command))
  local text = pipe:read("a")
  local ok = pipe:close()
  return text, ok
end

local top = output_of("pwd"):gsub("\n", "")
if not interpreter:match("^/") then interpreter = top .. "/" .. interpreter end
local build = interpreter:match("^(.*)/[^/]*$")

local function read(path)
  local f = io.open(path, "rb")
  if not f then return nil end
  local text = f:read("a")
  f:close()
  return text
end

local function exists(path) return os.execute("test -e " .. quote(path)) == true end

local pages = { "README.md" }
for name in output_of("ls docs"):gmatch("[^\n]+") do
  if name:match("%.md$") then pages[#pages + 1] = "docs/" .. name end
end

-- ---- the parts of a page ---------------------------------------------------------------------

--- The fenced blocks of a page: {kind = "lua", mark = "norun", first = line, lines = {…}}.
local function blocks_of(text)
  local blocks, open, number = {}, nil, 0
  for line in (text .. "\n"):gmatch("(.-)\n") do
    number = number + 1
    local fence, word, mark = line:match("^(```+)%s*(%S*)%s*(.-)%s*$")
    if fence and open then
      open = nil
    elseif fence then
      open = { kind = word, mark = mark, first = number + 1, lines = {} }
      blocks[#blocks + 1] = open
    elseif open then
      open.lines[#open.lines + 1] = line
    end
  end
  return blocks
end

local function squeeze(s) return (s:gsub("%s+", " "):gsub("^ ", ""):gsub(" $", "")) end

--- The code of a page by its line numbers in the page, and for each line the output it must print.
local function program_of(text)
  local code, wanted, last = {}, {}, 0
  for _, block in ipairs(blocks_of(text)) do
    for k, line in ipairs(block.kind == "lua" and block.mark == "" and block.lines or {}) do
      local at = block.first + k - 1
      code[at] = line
      last = at
      local before, comment = line:match("^(.-)%-%->(.*)$")
      if comment then
        local owner = at
        if not before:find("%S") then
          owner = at - 1
          while code[owner] and code[owner]:match("^%s*%-%->") do owner = owner - 1 end
        end
        wanted[owner] = wanted[owner] or {}
        table.insert(wanted[owner], comment)
      end
    end
  end
  for i = 1, last do code[i] = code[i] or "" end
  return code, wanted
end

-- Put before the code of every page: a print that writes its text to the file "printed", together
-- with the line of the page that called it, directly or through a function of the library.
local preamble = [[do local out, show, pack = assert(io.open("printed", "wb")), tostring, table.pack; out:setvbuf("no") ]] ..
  [[local page = debug.getinfo(1, "S").source ]] ..
  [[function print(...) local t, k = pack(...), 2; ]] ..
  [[while debug.getinfo(k + 1, "S") and debug.getinfo(k, "S").source ~= page do k = k + 1 end ]] ..
  [[local at = debug.getinfo(k, "l").currentline; ]] ..
  [[for i = 1, t.n do t[i] = show(t[i]) end out:write(string.pack("<i4s4", at, table.concat(t, "\t"))) end end ]]

local function printed_by(file)
  local text, at, by = read(file) or "", 1, {}
  while at <= #text do
    local line, s
    line, s, at = string.unpack("<i4s4", text, at)
    by[line] = by[line] or {}
    for part in (s .. "\n"):gmatch("(.-)\n") do table.insert(by[line], part) end
  end
  return by
end

--- Whether 'text' is equal to 'wanted', in which … stands for any text.
local function agrees(wanted, text)
  local pattern = wanted:gsub("%p", "%%%0"):gsub("\xE2\x80\xA6", "\0"):gsub("%%?\0", ".*")
  return text:find("^" .. pattern .. "$") ~= nil
end

-- The environment of a new user; sanitizers return NULL for huge allocations, as malloc does.
local environment = "env -u LUA_INIT -u FLAME_EAGER -u FLAME_BUDGET -u FLAME_DEBUG FLAME_DEVICE=cpu " ..
  'ASAN_OPTIONS="$ASAN_OPTIONS:allocator_may_return_null=1" TSAN_OPTIONS="$TSAN_OPTIONS:allocator_may_return_null=1"'

local shown, drawn = {}, {}               -- pictures: path -> page

local function run_page(page, text)
  local code, wanted = program_of(text)
  if #code == 0 then return end
  local folder = os.tmpname()
  os.remove(folder)
  assert(os.execute("mkdir " .. quote(folder)))
  local name = page:match("[^/]*$")
  local f = assert(io.open(folder .. "/" .. name, "wb"))
  f:write(preamble, table.concat(code, "\n"), "\n")
  f:close()
  local said, ok =
    output_of(("cd %s && %s %s %s 2>&1"):format(quote(folder), environment,
      quote(interpreter), quote(name)))
  local printed, pictures = printed_by(folder .. "/printed"), {}
  for _, link in ipairs(markdown.targets(markdown.parse(text))) do
    local path = (page:match("^.*/") or "") .. link.target
    if link.image and not link.target:find("^gallery/") and not link.target:find("^measured/") then
      shown[path], pictures[path] = page, read(folder .. "/" .. path:match("[^/]*$"))
    end
  end
  os.execute("rm -rf " .. quote(folder))
  assert(ok, page .. " fails:\n" .. said)
  for _, block in ipairs(blocks_of(text)) do
    local plan = table.concat(block.lines, "\n")
    assert(block.kind ~= "plan" or said:find(plan, 1, true),
      ("%s:%d: this is not printed, but:\n%s"):format(page, block.first, said))
  end
  for picture, bytes in pairs(pictures) do
    drawn[picture] = page
    assert(read(picture) == bytes,
      ("%s: its code does not write %s as it stands in the tree: make docs"):format(page, picture))
  end
  for line, comments in pairs(wanted) do
    local got = printed[line] or {}
    local expected, actual = squeeze(table.concat(comments, " ")), squeeze(table.concat(got, " "))
    assert(agrees(expected, actual),
      ("%s:%d prints %q, the page says %q"):format(page, line, actual, expected))
  end
end

-- ---- links --------------------------------------------------------------------------------------

local function check_links(page, text)
  local folder = page:match("^(.*/)") or ""
  for _, link in ipairs(markdown.targets(markdown.parse(text))) do
    if not link.target:match("^%a+:") then
      local file, anchor = link.target:match("^([^#]*)#?(.*)$")
      local path = file == "" and page or folder .. file
      local function wrong(what)
        error(("%s:%d: link to %s%s"):format(page, link.line, link.target, what), 0)
      end
      if not exists(path) then wrong(", which is not there") end
      if anchor ~= "" and not markdown.anchors(markdown.parse(read(path)))[anchor] then
        wrong(": no such heading")
      end
    end
  end
end

-- ---- commands -----------------------------------------------------------------------------------

local programs = { cc = true, ["lua5.4"] = true, export = true, cd = true, cat = true, ldd = true,
  ["nvidia-smi"] = true }
local folders = { src = true, lua = true, examples = true, bench = true, docs = true, spec = true,
  tools = true, build = true }

local function make_targets()
  local targets = {}
  for names in ("\n" .. read("Makefile")):gmatch("\n([a-z][a-z -]*):[^=]") do
    for name in names:gmatch("%S+") do targets[name] = true end
  end
  return targets
end

--- Whether a file exists. Pages write build/ for files of a build: the build under test has them.
local function in_tree(path)
  return exists(path) or exists((path:gsub("^build/", build .. "/")))
end

local function check_command(page, line, targets, made)
  line = line:gsub("%s#.*$", ""):gsub("^#.*$", "")
  local words = {}
  for word in line:gmatch("%S+") do words[#words + 1] = word end
  local at = 1
  while words[at] and words[at]:match("^[A-Z_]+=") do at = at + 1 end
  local first = words[at]
  if not first then return end
  local function wrong(what) error(("%s: `%s`: %s"):format(page, line, what), 0) end
  if not (first == "make" or programs[first] or made[first]
      or (first:find("/") and in_tree(first))) then
    wrong(first .. " is no file and no known program")
  end
  for k = at + 1, #words do
    local word = words[k]
    if first == "make" and word:match("^[a-z-]+$") and not targets[word] then
      wrong("no target " .. word)
    end
    if words[k - 1] == "-o" then
      made[word] = true
    elseif folders[word:match("^(%l+)/") or ""] and not word:find("[*?]") and not made[word]
        and not in_tree(word) then
      wrong("no file " .. word)
    end
  end
end

local function check_commands(page, text)
  local targets, made = make_targets(), {}
  for _, block in ipairs(blocks_of(text)) do
    if block.kind == "sh" then
      local joined = table.concat(block.lines, "\n"):gsub("\\\n", " ")
      for line in (joined .. "\n"):gmatch("(.-)\n") do check_command(page, line, targets, made) end
    end
  end
end

-- ---- the specs ----------------------------------------------------------------------------------

describe("the page", function()
  for _, page in ipairs(pages) do
    local text = read(page)

    it(page .. " has Lua that runs and prints what it says", function()
      if page == "docs/security.md" and os.getenv("FLAME_SANITIZE") == "thread" then
        return pending "TSan keeps the frames that Lua's errors leave, and has room for 65536"
      end
      run_page(page, text)
      for _, block in ipairs(blocks_of(text)) do
        if block.kind == "lua" and block.mark == "norun" then
          local source = ("\n"):rep(block.first - 1) .. table.concat(block.lines, "\n")
          assert(load(source, "=" .. page, "t"))
        end
      end
    end)

    it(page .. " has links that lead somewhere", function() check_links(page, text) end)

    it(page .. " names commands that exist", function() check_commands(page, text) end)
  end

  it("that shows a picture draws it, or another page does", function()
    for picture, page in pairs(shown) do
      assert(drawn[picture], ("%s: no page's code writes %s"):format(page, picture))
    end
    for _, folder in ipairs { "docs/plots", "docs/pictures" } do
      for name in output_of("ls " .. folder):gmatch("[^\n]+") do
        assert(shown[folder .. "/" .. name], folder .. "/" .. name .. " is on no page")
      end
    end
  end)

  it("docs/order.txt has a place for every page, and docs/README.md names them in that order", function()
    local index, at, placed = read("docs/README.md"), 1, {}
    for _, part in ipairs(order.read()) do
      for _, entry in ipairs(part) do
        at = assert(index:find("](" .. entry.name .. ")", at, true),
          "docs/README.md does not name " .. entry.name .. " in its place: make docs")
        placed["docs/" .. entry.name] = true
      end
    end
    for _, page in ipairs(pages) do
      if page ~= "README.md" and page ~= "docs/README.md" then
        assert(placed[page], page .. " has no place in docs/order.txt")
      end
    end
  end)
end)

describe("docs/flame-lua.1", function()
  local text = read("docs/flame-lua.1")
  --- The words in bold under a heading.
  local function names_under(heading)
    local list = {}
    local part = assert(text:match("\n%.SH " .. heading .. "\n(.-)\n%.SH "))
    for name in part:gmatch("\n%.B ([^\n]*)") do list[#list + 1] = (name:gsub("\\%-", "-")) end
    return list
  end

  it("has the options of flame-lua --help, and each is taken", function()
    local wanted = {}
    for option in output_of(quote(interpreter) .. " --help"):gmatch("\n  (%-.-)  ") do
      wanted[#wanted + 1] = option
    end
    assert.same(wanted, names_under("OPTIONS"))
    assert.is_true(#wanted > 12)
    for option in table.concat(wanted, "\n"):gmatch("%-%-%l[%l-]+") do
      local said = output_of(("%s %s %s -e 'x = 1' </dev/null 2>&1"):format(environment,
        quote(interpreter), option))
      assert.is_nil(said:find("unrecognized option", 1, true), option)
    end
  end)

  it("has every variable of the environment", function()
    local listed = {}
    for _, name in ipairs(names_under("ENVIRONMENT")) do listed[name] = true end
    for name in read("src/base/env.def"):gmatch("\nENV%(([%u%d_]+)") do
      assert(listed[name], name)
    end
  end)

  it("is a page that mandoc takes without an error", function()
    if not os.execute("command -v mandoc >/dev/null 2>&1") then return pending("no mandoc") end
    assert.equal("", (output_of("mandoc -T lint -W error docs/flame-lua.1")))
  end)
end)

describe("docs/internals.md", function()
  it("quotes a line of src/tensor/ops.def", function()
    local quoted = 0
    for _, block in ipairs(blocks_of(read("docs/internals.md"))) do
      for _, line in ipairs(block.kind == "c" and block.lines or {}) do
        assert(("\n" .. read("src/tensor/ops.def")):find("\n" .. line .. "\n", 1, true),
          "not in ops.def: " .. line)
        quoted = quoted + 1
      end
    end
    assert.is_true(quoted > 0)
  end)
end)

describe("docs/embedding.md", function()
  local blocks = {}
  for _, block in ipairs(blocks_of(read("docs/embedding.md"))) do
    block.text = table.concat(block.lines, "\n") .. "\n"
    blocks[block.kind] = blocks[block.kind] or {}
    table.insert(blocks[block.kind], block)
  end
  local have_cc = os.execute("command -v cc >/dev/null 2>&1") == true

  it("shows examples/embed.c as it is", function()
    assert.equal(read("examples/embed.c"), blocks.c[1].text)
  end)

  it("has an example that compiles without a warning and prints what the page says", function()
    if not have_cc then return pending("no C compiler") end
    if os.getenv("FLAME_SANITIZE") then
      return pending("a sanitized library needs a sanitized program")
    end
    if not exists(build .. "/libflame.so.0") then return pending("no libflame.so.0") end
    local program = os.tmpname()
    local said, ok = output_of(("cc -std=c11 -Wall -Wextra -Wpedantic -Werror -Isrc examples/embed.c %s -Wl,-rpath,%s -o %s 2>&1"):format(
      quote(build .. "/libflame.so.0"), quote(build), quote(program)))
    assert(ok, said)
    local printed = output_of("FLAME_DEVICE=cpu " .. quote(program) .. " 2>&1")
    os.remove(program)
    assert.equal(blocks[""][1].text, printed)
  end)

  it("has an installation that pkg-config finds and that can be moved", function()
    if not have_cc then return pending("no C compiler") end
    if os.getenv("FLAME_SANITIZE") then
      return pending("a sanitized library needs a sanitized program")
    end
    if not exists(build .. "/cmake_install.cmake") then return pending("no build folder") end
    if not os.execute("(command -v pkg-config && command -v cmake) >/dev/null 2>&1") then
      return pending("no pkg-config")
    end
    local at = os.tmpname()
    os.remove(at)
    local run = [[set -e
      cmake --install %s --prefix %s/first >/dev/null; mv %s/first %s/moved; cd %s/moved; p=$PWD
      ls include share/man/man1; bin/flame-lua -e 'print(1)'
      LUA_CPATH="$p/lib/lua/5.4/?.so" lua5.4 -e 'print(require("flame").version)'
      flags=$(PKG_CONFIG_PATH=$p/lib/pkgconfig pkg-config --cflags --libs flame)
      cc -std=c11 %s/examples/embed.c $flags -Wl,-rpath,$p/lib -o embed; FLAME_DEVICE=cpu ./embed]]
    local said, ok = output_of(run:format(quote(build), at, at, at, at, quote(top)) .. " 2>&1")
    os.execute("rm -rf " .. quote(at))
    assert(ok, said)
    assert.equal("include:\nflame.h\nflame_api.h\nflame_lua.h\n\nshare/man/man1:\nflame-lua.1\n1\n"
      .. require("flame").version .. "\n" .. blocks[""][1].text, said)
  end)

  it("has fragments that compile", function()
    if not have_cc then return pending("no C compiler") end
    for k = 2, #blocks.c do
      local source = os.tmpname()
      local f = assert(io.open(source, "w"))
      f:write("#include <flame.h>\nvoid fragment(flame_context *c, flame_tensor *w);\n",
        "void fragment(flame_context *c, flame_tensor *w) {\n", blocks.c[k].text, "}\n")
      f:close()
      local said, ok =
        output_of("cc -std=c11 -Wall -fsyntax-only -Isrc -x c " .. quote(source) .. " 2>&1")
      os.remove(source)
      assert(ok, said)
    end
  end)
end)
