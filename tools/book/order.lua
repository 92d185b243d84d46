--- order: the parts of the book and their pages, from docs/order.txt.
--
--   order.read() -> list of { title =, { name = "guide.md", about = "…" }, … }; pages that are not
--                   in docs/ are left out
--   lua5.4 tools/book/order.lua FILE prints FILE's text, with new lists of pages between the lines
--                   "<!-- pages -->" and "<!-- end of pages -->"
local order = {}

local function exists(path)
  local f = io.open(path)
  if f then f:close() end
  return f ~= nil
end

function order.read()
  local parts, number = {}, 0
  for line in io.lines("docs/order.txt") do
    number = number + 1
    local name, about = line:match("^  ([%w_]+%.md): (.*)$")
    if name then
      if exists("docs/" .. name) then
        table.insert(parts[#parts], { name = name, about = about })
      end
    elseif line:match("^%u") then
      parts[#parts + 1] = { title = line }
    elseif line ~= "" and line:sub(1, 1) ~= "#" then
      error(("docs/order.txt:%d: neither a part nor a page's name, indented by two, with what it" ..
        " is for after ': '"):format(number), 0)
    end
  end
  return parts
end

--- The tables of pages of all parts, as Markdown for docs/README.md.
function order.tables()
  local out = {}
  for _, part in ipairs(order.read()) do
    out[#out + 1] = ("### %s\n\n| page | for |\n|---|---|"):format(part.title)
    for _, page in ipairs(part) do
      out[#out + 1] =
        ("| [%s](%s) | %s |"):format(page.name:gsub("%.md$", ""), page.name, page.about)
    end
    out[#out + 1] = ""
  end
  return table.concat(out, "\n")
end

if arg and arg[0] and arg[0]:match("order%.lua$") then
  local f <close> = assert(io.open(arg[1]))
  local before, after =
    f:read("a"):match("^(.-<!%-%- pages %-%->\n).-(<!%-%- end of pages %-%->.*)$")
  assert(before, arg[1] .. ": no line '<!-- pages -->' with its end")
  io.write(before, "\n", order.tables(), "\n", after)
end

return order
