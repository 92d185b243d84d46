-- What the Lua code of pages and examples calls exists: every function of flame and of the modules
-- below, and every key in a table of options at the end of such a call, also where no spec runs it.
-- The known keys come from the editors' stub, which tools/docs makes from the declarations.

local flame = require "flame"

local modules = { nn = true, optim = true, data = true, plot = true, distributions = true }
-- functions whose last table has the user's values, not options
local takes_values = { save = true, export = true, gradients_table = true, ["nn.ModuleDict"] = true,
  ["nn.ParameterDict"] = true }

local function read(path)
  local f <close> = assert(io.open(path))
  return f:read("a")
end

--- Function -> its options, as a set.
local function read_options()
  local options, class = {}, nil
  for line in read("lua/meta/flame.lua"):gmatch("[^\n]*") do
    local name = line:match("^%-%-%-@class flame%.options%.([%w_.:]+)")
    if name then
      class = {}
      options[name] = class
    elseif class and line:find("^%-%-%-@field") then
      class[line:match("@field ([%w_]+)")] = true
    else
      class = nil
    end
  end
  return options
end

local options = read_options()

--- The Lua code of a file, or of the ```lua blocks of a page, without comments.
local function code_of(path)
  local text = read(path)
  if path:find("%.md$") then
    local blocks = {}
    for block in text:gmatch("```lua[^\n]*\n(.-)```") do blocks[#blocks + 1] = block end
    text = table.concat(blocks, "\n")
  end
  return (text:gsub("%-%-[^\n]*", ""))
end

--- What the braces of the last argument of the call at 'at' contain, without nested brackets,
-- functions and the contents of strings; "" if it is not a table.
local function last_table(text, at)
  local arguments = text:match("^%b()", at)
  local t
  if arguments then t = arguments:match("[,%(]%s*(%b{})%s*%)$") else t = text:match("^%b{}", at) end
  if not t then return "" end
  t = t:sub(2, -2):gsub("%[(=*)%[.-%]%1%]", '""'):gsub('"[^"\n]*"', '""'):gsub("function.-end", "")
  return (t:gsub("%b{}", ""):gsub("%b()", ""))
end

--- A list of the names and keys in 'text' that are not declared, and how many were checked.
local function unknown_in(text)
  local found, count = {}, 0
  for head, name, at in text:gmatch("%f[%w_.]([%a_]+)%.([%a_][%w_]*[%w_.]*)%s*()[%({]") do
    local full = head == "flame" and name or modules[head] and head .. "." .. name
    if full then
      count = count + 1
      if not flame.has(full) then found[#found + 1] = full end
      local known = not takes_values[full] and options[full]
      for key in (known and last_table(text, at) or ""):gmatch("%f[%w_]([%a_][%w_]*)%s*=%f[^=]") do
        count = count + 1
        if not known[key] then found[#found + 1] = full .. "{" .. key .. "}" end
      end
    end
  end
  return found, count
end

describe("a call in docs/ and examples/", function()
  it("names what is declared, with keys that are", function()
    local pipe <close> = assert(io.popen("ls README.md docs/*.md examples/*.lua examples/*/*.lua"))
    local all = 0
    for path in pipe:lines() do
      if path ~= "docs/messages.md" then                       -- that page shows mistakes
        local found, count = unknown_in(code_of(path))
        assert.equal("", table.concat(found, " "), path)
        all = all + count
      end
    end
    assert.is_true(all > 1500, all)
  end)

  it("is found where it names or gives what is not there", function()
    assert.same({ "nn.Liner", "zeros{dtyp}", "topk{larges}" }, (unknown_in(
      "nn.Liner(2, 3) flame.zeros(2, {dtyp = 'f32', device = d}) flame.topk{larges = true, k = 2}")))
  end)
end)

describe("docs/ops.md", function()
  --- The functions in the page's tables, except aliases, that do not occur in 'code'.
  local function without_example(page, code)
    local found = {}
    for name, about in page:gmatch("\n| `([%w_.:]+)%([^\n]-` | ([^\n]*) |") do
      local last = name:match("[%w_]+$")
      local same = about:find("The same as", 1, true) or about:find("x becomes x:", 1, true)
        or about:find("^A call of")
      if not same and not code:find("%f[%w_]" .. last .. "_?%f[^%w_]") then
        found[#found + 1] = name
      end
    end
    return found
  end

  it("lists no function that no page has an example of", function()
    local pipe <close> = assert(io.popen("ls README.md docs/*.md"))
    local code = {}
    for path in pipe:lines() do code[#code + 1] = code_of(path) end
    code = table.concat(code, "\n")
    assert.equal("", table.concat(without_example(read("docs/ops.md"), code), " "))
  end)

  it("would be told of one", function()
    local row = "\n| `rise(x: T) -> T` | x, and one more. |\n| `r2(x: T)` | The same as rise. |\n"
    assert.same({ "rise" }, without_example(row, "print(risen(x))"))
    assert.same({}, without_example(row, "print(x:rise())"))
  end)
end)
