--- pictures: runs the Lua code of each page that shows pictures, in an empty folder and on the CPU,
-- and copies the picture files that it wrote into docs/. A page may show a picture of another page.
-- Those in docs/gallery/ are made by the programs of examples/gallery (tools/gallery), those in
-- docs/measured/ by bench/compare.py, not here.
-- Run by tools/pictures from the top of the tree.
local markdown = dofile "tools/book/markdown.lua"
local program = assert(arg[1], "usage: pictures.lua PROGRAM")

local function read(path)
  local f = io.open(path, "rb")
  if not f then return nil end
  local text = f:read("a")
  f:close()
  return text
end
local function write(path, text)
  local f <close> = assert(io.open(path, "wb"))
  f:write(text)
end

--- The program of a page: its Lua blocks joined, except those that are marked, as "norun" is.
local function program_of(blocks)
  local out = {}
  for _, block in ipairs(blocks) do
    if block.kind == "code" and block.word == "lua" and block.mark == "" then
      out[#out + 1] = table.concat(block.lines, "\n")
    end
  end
  return table.concat(out, "\n") .. "\n"
end

local shown, drawn = {}, {}              -- paths of pictures

local function draw(page)
  local blocks, wanted = markdown.parse(read(page)), {}
  for _, link in ipairs(markdown.targets(blocks)) do
    local path = (page:match("^.*/") or "") .. link.target
    if link.image and not path:find("^docs/gallery/") and not path:find("^docs/measured/") then
      wanted[#wanted + 1] = path
    end
  end
  if #wanted == 0 then return end
  local folder = os.tmpname()
  os.remove(folder)
  assert(os.execute(("mkdir '%s'"):format(folder)))
  write(folder .. "/page.lua", program_of(blocks))
  local run = "cd '%s' && FLAME_DEVICE=cpu '%s' page.lua >/dev/null"
  local ok = os.execute(run:format(folder, program))
  for _, path in ipairs(ok and wanted or {}) do
    local made = read(folder .. "/" .. path:match("[^/]*$"))
    shown[path] = page
    drawn[path] = drawn[path] or made ~= nil
    if made and made ~= read(path) then
      write(path, made)
      print("wrote " .. path)
    end
  end
  os.execute(("rm -r '%s'"):format(folder))
  if not ok then error(page .. ": its code fails", 0) end
end

local pages <close> = assert(io.popen("ls README.md docs/*.md"))
for page in pages:lines() do draw(page) end
for path, page in pairs(shown) do
  if not drawn[path] then
    error(("%s shows %s, which no page's code writes"):format(page, path), 0)
  end
end
