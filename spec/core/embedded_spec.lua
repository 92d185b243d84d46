-- The library in the binary: each module's text is that of its file without the comments that
-- document nothing. Its lines have the numbers that they have in the file.
local flame = require "flame"
local internal = flame.internal

local function text_of(path)
  local file <close> = assert(io.open(path))
  return file:read("a")
end

local function each(check)
  local pipe <close> = assert(io.popen("find lua -name '*.lua' | sort"))
  local count = 0
  for path in pipe:lines() do
    local text = internal.embedded((path:sub(#"lua/" + 1, -#".lua" - 1):gsub("/", ".")))
    if text then
      check(path, text, text_of(path))
      count = count + 1
    end
  end
  assert(count > 100, count)
end

describe("the embedded library", function()
  it("is the same code as the files, line by line", function()
    each(function(path, text, file)
      local a, b = assert(load(file, "=x")), assert(load(text, "=x"))
      assert.equal(string.dump(a), string.dump(b), path)
    end)
  end)
  it("has the docstrings and no other comments", function()
    local before, after = 0, 0
    each(function(path, text, file)
      local docs = 0
      for line in ("\n" .. file):gmatch("\n%s*(%-%-%-[^\n]*)") do
        docs = docs + 1
        assert(text:find(line, 1, true), path .. " has lost " .. line)
      end
      assert(text:find("---", 1, true) or docs == 0, path)
      before, after = before + #file, after + #text
    end)
    assert(after < 0.98 * before, ("%d of %d bytes"):format(after, before))
  end)
end)
