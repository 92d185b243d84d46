--- words: checks that comments, docs, messages and titles of specs are plain English: refuses the
-- phrases of the table below, and says what to write instead. Exit code 1 if it finds one. Before
-- that each row must find its own planted sentences, and nothing in sentences that are correct.
--   lua5.4 tools/words.lua           all files of the tree
--   lua5.4 tools/words.lua FILE…     these
-- A phrase may be broken over two lines. Patterns are in small letters and find whole words.

local function set(words)
  local found = {}
  for word in words:gmatch("%a+") do found[word] = true end
  return found
end

-- "bytes an element", "a thread an element" are refused; "words a lane loads" is right.
local parts = set [[block channel chunk element group lane multiprocessor row thread tile unit warp
  worker]]
local counted = set [[bits bytes blocks channels chunks elements groups indices instructions matrices
  outputs panels registers results rounds rows systems threads vectors workers]]

local function per(text, init)
  for first, one, two, after in text:gmatch("()%f[%a](%a+) an? (%a+)()", init) do
    if parts[two] and counted[one] then return first, after - 1 end
  end
end

local function each(text, init)
  for first, one, two, after in text:gmatch("()%f[%a]an? (%a+) an? (%a+)()", init) do
    if parts[one] and parts[two] then return first, after - 1 end
  end
end

local refused = {
  -- pattern                         write instead               sentences that have it
  { "anew",                          "again",                    "Anew, it is made anew." },
  { "seldom",                        "rarely",                   "A case seldom met." },
  { "in vain",                       "without effect",           "It waits in vain." },
  { "lest",                          "so that … not",            "Raised, lest it be lost." },
  { "the like",                      "similar …, and so on",     "Sums and the like." },
  { "whoever",                       "name what acts",           "Whoever reads it waits." },
  { "nobody",                        "no reader, nothing, …",    "Nobody reads nobody's value." },
  { "its fellows",                   "the others",               "The file a.c and its fellows." },
  { "of its own",                    "separate, its, own",       "A file of\n-- its own." },
  { "of their own",                  "separate, their, own",     "Names of their own." },
  { "turn%a* round",                 "transposed, reversed, …",  "A row turned round." },
  { "there and back",                "forward and reverse",      "Loops, there\n** and back." },
  { "behind the last",               "after the last",           "Behind the last write." },
  { "whose is",                      "which … owns",             "Whose is an element?" },
  { "no whole number of",            "not a multiple of",        "It is no whole number of u16." },
  { "no whole multiple",             "not a multiple",           "No whole multiple of 4." },
  { "stands? twice",                 "appears twice",            "The axis stands twice." },
  { "at most [%w%%]+ %a* ?possible", "at most N",                "At most 62 are possible." },
  { "what asks",                     "its client",               "The search, what asks." },
  { "stands? where %a+ %a+ is",      "expected …, got …",        "It stands where a sum is." },
  { per,                             "per",                      "Few outputs a group." },
  { each,                            "one … per …",              "A thread an element." },
}
local right = { "A renewal of its owner, latest, possible, as at most one is.",
  "It stands where it stood.", "words a lane loads", "Whose isomer? This has a row a user gave.",
  "Behind the lasting lesson, the likely one." }

--- The first and last position of the row's phrase in a text in small letters.
local function find(row, text, init)
  if type(row[1]) == "function" then return row[1](text, init) end
  return text:find("%f[%w]" .. row[1] .. "%f[%W]", init)
end

--- The line without the marks of a comment or quotation at its beginning.
local function bare(line) return (line:gsub("^[%s%-*/#>|]+", "")) end

--- What is wrong in a text: list of { line, phrase, instead }. A phrase that begins in a line may
--- end in the next.
local function faults_of(text)
  local lines, found = {}, {}
  for line in (text .. "\n"):gmatch("(.-)\r?\n") do lines[#lines + 1] = line:lower() end
  for i, line in ipairs(lines) do
    local own = line:gsub("%s+$", "")
    local both = own .. " " .. bare(lines[i + 1] or "")
    for _, row in ipairs(refused) do
      local first, last = find(row, both, 1)
      while first and first <= #own do
        found[#found + 1] = { i, both:sub(first, last), row[2] }
        first, last = find(row, both, last + 1)
      end
    end
  end
  return found
end

local wrong = 0
local function complain(...)
  wrong = wrong + 1
  io.write(("%s:%d: %s\n"):format(...))
end

for i, row in ipairs(refused) do
  if #faults_of(row[3]) == 0 then complain("planted", i, "is not seen: " .. row[3]) end
end
for i, text in ipairs(right) do
  for _, fault in ipairs(faults_of(text)) do complain("right", i, fault[2] .. " in: " .. text) end
end

local folders = "src lua/flame kernels docs spec tools examples bench README.md CMakeLists.txt "
  .. "Makefile"
-- Files that are not checked: generated ones, and those that list the refused phrases.
local other = { "^spec/golden/", "^docs/ops%.md$", "^tools/words%.lua$",
  "^spec/docs/words_spec%.lua$", "%.svg$", "%.png$" }

local function is_checked(name)
  for _, pattern in ipairs(other) do if name:find(pattern) then return false end end
  return true
end

local names = { ... }
if #names == 0 then
  local list = assert(io.popen("git ls-files " .. folders))
  for name in list:lines() do if is_checked(name) then names[#names + 1] = name end end
  list:close()
end
local count = 0
for _, name in ipairs(names) do
  local file = io.open(name, "rb")
  if file then
    count = count + 1
    for _, fault in ipairs(faults_of(file:read("a"))) do
      complain(name, fault[1], ('"%s": write %s'):format(fault[2], fault[3]))
    end
    file:close()
  end
end
io.write(("words: %d files, %d wrong\n"):format(count, wrong))
os.exit(wrong == 0 and count > 0)
