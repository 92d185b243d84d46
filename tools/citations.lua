--- citations: checks that every document that the tree names ("docs/design.md 1.8",
-- "(guide.md#memory)") exists, and so does each numbered section of docs/design.md and
-- docs/contract.md that a comment cites. Prints what is wrong; exit code 1 then.

local function read(path)
  local f = io.open(path, "rb")
  if not f then return nil end
  local text = f:read("a")
  f:close()
  return text
end

local function lines_of(command)
  local pipe, list = assert(io.popen(command)), {}
  for line in pipe:lines() do list[#list + 1] = line end
  pipe:close()
  return list
end

-- The set of a document's section numbers: "## 2. Life of a value" is "2",
-- the item "3. **Tensors are values.**" below "## 1." is "1.3".
local function sections_of(text)
  local found, chapter = {}, nil
  for line in text:gmatch("[^\n]+") do
    local head, item = line:match("^## (%d+)%."), line:match("^(%d+)%. ")
    if head then chapter = head; found[head] = true end
    if item and chapter then found[chapter .. "." .. item] = true end
  end
  return found
end

local sections = {}
for _, page in ipairs { "design", "contract" } do
  sections[page] =
    sections_of(assert(read("docs/" .. page .. ".md"), "docs/" .. page .. ".md is missing"))
end

local count, wrong = 0, 0
local function complain(file, number, text)
  wrong = wrong + 1
  io.write(("%s:%d: %s\n"):format(file, number, text))
end

local function check_line(file, number, line)
  for name in line:gsub("%$%w+%.md", ""):gsub("%%%a+%.md", ""):gmatch("[%w_/%.-]+%.md%f[^%w]") do
    local base = name:match("[^/]+$")
    count = count + 1
    if not (read(name) or read("docs/" .. base) or base == "README.md") then
      complain(file, number, name .. " is not in the tree")
    end
  end
  for page, section in line:gmatch("docs/(%l+)%.md (%d[%d.]*)") do
    section = section:gsub("%.$", "")
    if sections[page] and not sections[page][section] then
      complain(file, number, ("docs/%s.md has no section %s"):format(page, section))
    end
  end
end

-- spec/ is not checked: specs name pages that they invent.
for _, file in ipairs(lines_of("git ls-files src lua/flame kernels examples docs tools README.md CMakeLists.txt Makefile")) do
  local number = 0
  for line in ((read(file) or "") .. "\n"):gmatch("(.-)\n") do
    number = number + 1
    check_line(file, number, line)
  end
end
io.write(("citations: %d, %d wrong\n"):format(count, wrong))
os.exit(wrong == 0 and count > 0)
