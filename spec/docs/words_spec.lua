--- tools/words.lua: each phrase of its table is refused, with its line and what to write instead,
--- and sentences that only look similar are accepted.
local function run(text)
  local path = os.tmpname()
  local file <close> = assert(io.open(path, "wb"))
  file:write(text)
  file:close()
  local pipe = assert(io.popen("lua5.4 tools/words.lua " .. path .. " 2>&1"))
  local said = pipe:read("a")
  local passed = pipe:close() == true
  os.remove(path)
  return passed, (said:gsub(path, "FILE", nil))
end

local wrong = { "made anew", "seldom so", "all in vain", "lest it fail", "norms and the like",
  "Whoever reads it", "Nobody reads it", "a.c and its fellows", "a file of its own",
  "names of their own", "rows turned round", "turns round", "loops, there and back",
  "behind the last write", "whose is an element?", "is no whole number of float4",
  "no whole multiple of 4", "the axes stand twice", "'x' stands twice",
  "at most 1024 are possible", "at most %d are possible", "at most 8 possible", "what asks with it",
  "a number stands where a tensor is needed", "few outputs a group", "elements a thread",
  "bytes an element", "a thread an element", "a block a row" }

describe("tools/words.lua", function()
  for _, phrase in ipairs(wrong) do
    it("refuses: " .. phrase, function()
      local passed, said = run("first\n-- so " .. phrase .. ".\nlast\n")
      assert.is_false(passed)
      assert.matches('FILE:2: "[^"\n]+": write ', said)
      assert.matches("words: 1 files, 1 wrong", said, 1, true)
    end)
  end

  it("finds a phrase that goes on in the next line, in Lua, C and Markdown, once", function()
    for _, text in ipairs { "--- of its\n--- own", "/* of its\n** own */", "- of its\n  own",
      "> of\n> its own" } do
      local passed, said = run(text .. "\n")
      assert.is_false(passed)
      assert.matches("FILE:1: ", said)
      assert.matches("1 wrong", said, 1, true)
    end
  end)

  it("finds each of several in a line", function()
    assert.matches("3 wrong", select(2, run("anew, seldom, anew")), 1, true)
  end)

  it("passes parts of words, and articles after other nouns", function()
    for _, text in ipairs { "latest", "renewed", "the likely one", "its own file",
      "at most as good",
      "words a lane loads", "this has a row a user gave", "behind the lasting",
      "stands where it is", "of its\n\nowner" } do
      local passed, said = run(text .. "\n")
      assert.is_true(passed, said)
    end
  end)

  it("needs a file that is there", function()
    local pipe = assert(io.popen("lua5.4 tools/words.lua /nowhere/at/all"))
    assert.matches("words: 0 files", pipe:read("a"), 1, true)
    assert.is_nil((pipe:close()))
  end)
end)
