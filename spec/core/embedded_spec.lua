-- The library in the binary: each module's text is that of its file without comments, except in
-- lua/meta. Its lines have the numbers that they have in the file.
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
  it("has no comments but those that help shows", function()
    local before, after, shown = 0, 0, 0
    each(function(path, text, file)
      before, after = before + #file, after + #text
      if not path:find("^lua/meta/") then
        assert.is_nil(("\n" .. text):find "\n%s*%-%-", path)
        return
      end
      for line in ("\n" .. file):gmatch("\n%s*(%-%-%-[^\n]*)") do
        shown = shown + 1
        assert(text:find(line, 1, true), path .. " has lost " .. line)
      end
    end)
    assert(shown > 1000, shown)
    assert(after < 0.9 * before, ("%d of %d bytes"):format(after, before))
  end)
end)
