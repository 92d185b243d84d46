--- site: docs/*.md as HTML in a folder that opens from file:// and needs no server: a page for each
-- page, one for each file of the tree that a page links to, the pictures, and search.js, which
-- holds the text of every section. A link that leads nowhere is an error. Run by tools/site from
-- the top of the tree: lua5.4 tools/book/site.lua FOLDER
local markdown = dofile "tools/book/markdown.lua"
local highlight = dofile "tools/book/highlight.lua"
local order = dofile "tools/book/order.lua"
local escape = markdown.escape
local folder = assert(arg[1], "usage: site.lua FOLDER")

local function read(path)
  local f <close> = assert(io.open(path, "rb"))
  return f:read("a")
end
local function write(name, text)
  local f <close> = assert(io.open(folder .. "/" .. name, "wb"))
  f:write(text)
end
local function copy(path, name)
  os.execute(("mkdir -p '%s'"):format((folder .. "/" .. name):match("^(.*)/")))
  write(name, read(path))
end

-- ---- the pages ----------------------------------------------------------------------------------

--- Reads a file of docs/ as a page: { name, html, title, blocks, part }.
local function page_of(name, part)
  local blocks = markdown.parse(read("docs/" .. name))
  local title
  for _, block in ipairs(blocks) do
    if block.kind == "heading" and not title then title = markdown.plain(block.text) end
  end
  return { name = name, blocks = blocks, title = title or name, part = part,
    html = name == "README.md" and "index.html" or name:gsub("%.md$", ".html") }
end

local parts = order.read()
local front = page_of("README.md")
local pages, by_name = { front }, { ["README.md"] = front }
for _, part in ipairs(parts) do
  for _, entry in ipairs(part) do
    local page = page_of(entry.name, part.title)
    pages[#pages + 1], by_name[entry.name] = page, page
  end
end

-- ---- links --------------------------------------------------------------------------------------

local shown, shown_list = {}, {}         -- files of the tree that get a page: path -> its name
local wrong = {}

--- A path relative to docs/, relative to the tree: "../examples/fit.lua" -> "examples/fit.lua".
local function from_top(path)
  local up, rest = path:match("^(%.%./)(.*)$")
  return up and rest or "docs/" .. path
end

local function exists(path)
  local f = io.open(path)
  if f then f:close() end
  return f ~= nil
end

--- The name of the HTML page that shows a file of the tree; notes the file in 'shown'.
local function file_page(path)
  if not shown[path] then
    shown[path] = "file-" .. path:gsub("[/.]", "-") .. ".html"
    shown_list[#shown_list + 1] = path
  end
  return shown[path]
end

local function address(page, target, image)
  if target:match("^%a+:") then return target end
  local file, anchor = target:match("^([^#]*)(#?.*)$")
  local other = file == "" and page or by_name[file]
  if other then
    if anchor ~= "" and not markdown.anchors(other.blocks)[anchor:sub(2)] then
      wrong[#wrong + 1] = ("docs/%s: link to %s: no such heading"):format(page.name, target)
    end
    return (file == "" and "" or other.html) .. anchor
  end
  local path = from_top(file)
  if not exists(path) then
    wrong[#wrong + 1] = ("docs/%s: link to %s, which is not there"):format(page.name, target)
    return target
  end
  if not image and path ~= "LICENSE" and not path:match("%.[%w]+$") then return target end
  if image or path:match("%.svg$") or path:match("%.png$") then
    copy(path, file)
    return file
  end
  return file_page(path)
end

-- ---- blocks as HTML -----------------------------------------------------------------------------

local render

local makers = {}
function makers.heading(block, link)
  return ('<h%d id="%s">%s<a class="here" href="#%s" aria-label="link to this section">#</a></h%d>')
    :format(block.level, block.anchor, markdown.inline(block.text, link), block.anchor, block.level)
end
function makers.paragraph(block, link)
  local inner = markdown.inline(block.text, link)
  if inner:match("^<img [^>]*>$") then return "<figure>" .. inner .. "</figure>" end
  return "<p>" .. inner .. "</p>"
end
function makers.code(block)
  return ('<pre class="%s"><code>%s</code></pre>'):format(block.word == "" and "text" or block.word,
    highlight(block.word, block.lines))
end
function makers.quote(block, link)
  return "<blockquote>" .. render(block.blocks, link) .. "</blockquote>"
end
function makers.table(block, link)
  local function row(cells, tag)
    local out = {}
    for i = 1, #block.head do
      out[i] = ("<%s>%s</%s>"):format(tag, markdown.inline(cells[i] or "", link), tag)
    end
    return "<tr>" .. table.concat(out) .. "</tr>"
  end
  local out = { '<div class="wide"><table><thead>', row(block.head, "th"), "</thead><tbody>" }
  for _, cells in ipairs(block.rows) do out[#out + 1] = row(cells, "td") end
  out[#out + 1] = "</tbody></table></div>"
  return table.concat(out, "\n")
end
function makers.list(block, link)
  local tag = block.first and "ol" or "ul"
  local start = block.first and block.first ~= 1 and (' start="%d"'):format(block.first) or ""
  local out = { ("<%s%s>"):format(tag, start) }
  for _, item in ipairs(block.items) do
    local inner = render(item, link)
    if block.tight then inner = inner:gsub("^<p>(.-)</p>", "%1") end
    out[#out + 1] = "<li>" .. inner .. "</li>"
  end
  out[#out + 1] = ("</%s>"):format(tag)
  return table.concat(out, "\n")
end

function render(blocks, link)
  local out = {}
  for i, block in ipairs(blocks) do out[i] = makers[block.kind](block, link) end
  return table.concat(out, "\n")
end

-- ---- around a page ------------------------------------------------------------------------------

local function navigation(page)
  local function item(p)
    local here = p == page and ' aria-current="page"' or ""
    local text = p == front and "flame-lua" or p.title
    return ('<li><a href="%s"%s>%s</a></li>'):format(p.html, here, escape(text))
  end
  local out = { "<ul>" .. item(front) .. "</ul>" }
  for _, part in ipairs(parts) do
    local rows = {}
    for _, entry in ipairs(part) do rows[#rows + 1] = item(by_name[entry.name]) end
    if #rows > 0 then
      out[#out + 1] =
        ("<h2>%s</h2>\n<ul>%s</ul>"):format(escape(part.title), table.concat(rows, "\n"))
    end
  end
  return table.concat(out, "\n")
end

--- HTML of the list of a page's sections, for the column at the right.
local function contents(page)
  local out = {}
  for _, block in ipairs(page.blocks) do
    if block.kind == "heading" and (block.level == 2 or block.level == 3) then
      out[#out + 1] = ('<li class="l%d"><a href="#%s">%s</a></li>')
        :format(block.level, block.anchor, escape(markdown.plain(block.text)))
    end
  end
  if #out < 2 then return "" end
  return ('<nav class="contents" aria-label="on this page"><h2>On this page</h2><ul>%s</ul></nav>')
    :format(table.concat(out, "\n"))
end

local function neighbours(i)
  local function a(p, class, word)
    return p and ('<a class="%s" href="%s"><small>%s</small>%s</a>')
      :format(class, p.html, word, escape(p.title)) or "<span></span>"
  end
  return ('<nav class="turn" aria-label="pages before and after">%s%s</nav>')
    :format(a(pages[i - 1], "before", "before"), a(pages[i + 1], "after", "next"))
end

local template = read "tools/book/page.html"

--- The template with its {words} replaced.
local function fill(fields)
  return (template:gsub("{{(%w+)}}", function(name) return assert(fields[name], name) end))
end

-- ---- search -------------------------------------------------------------------------------------

--- The words of a block, for searching.
local function words_of(block)
  local out = { block.text and markdown.plain(block.text) or nil }
  for _, line in ipairs(block.lines or {}) do out[#out + 1] = line end
  for _, cell in ipairs(block.head or {}) do out[#out + 1] = markdown.plain(cell) end
  for _, row in ipairs(block.rows or {}) do
    for _, cell in ipairs(row) do out[#out + 1] = markdown.plain(cell) end
  end
  local inner = block.items or block.blocks and { block.blocks } or {}
  for _, blocks in ipairs(inner) do
    for _, b in ipairs(blocks) do out[#out + 1] = words_of(b) end
  end
  return table.concat(out, "\n")
end

--- Appends the search terms of a table: the first name in each row, "nn.Linear" of a call.
local function terms_of(block, out)
  for _, row in ipairs(block.rows or {}) do
    out[#out + 1] = markdown.plain(row[1] or ""):match("^[%w_.:]+")
  end
end

local function js(text)
  return '"' .. text:gsub('[%c"\\<]', function(c)
    return c == "\n" and "\\n" or ("\\u%04x"):format(c:byte())
  end) .. '"'
end

local function index()
  local rows = {}
  for _, page in ipairs(pages) do
    local title, anchor, text, terms = page.title, "", {}, {}
    local function close()
      rows[#rows + 1] = ("[%s,%s,%s,%s,%s,%s]"):format(js(page.html), js(anchor), js(page.title),
        js(title), js(table.concat(text, "\n")), js(table.concat(terms, " ")))
    end
    for i, block in ipairs(page.blocks) do
      if block.kind == "heading" then
        if i > 1 then close() end
        title, anchor, text, terms = markdown.plain(block.text), block.anchor, {}, {}
      else
        terms_of(block, terms)
        text[#text + 1] = words_of(block)
      end
    end
    close()
  end
  return "window.book = [\n" .. table.concat(rows, ",\n") .. "\n];\n"
end

-- ---- the site ----------------------------------------------------------------------------------

local function name_of_language(path)
  local ending = path:match("%.(%w+)$")
  return ({ lua = "lua", c = "c", h = "c", cu = "c" })[ending] or "text"
end

local function file_block(path)
  if path:match("%.md$") then return markdown.parse(read(path)) end
  local lines = {}
  for line in io.lines(path) do lines[#lines + 1] = line end
  return { { kind = "heading", level = 1, text = "`" .. path .. "`", anchor = "file" },
    { kind = "code", word = name_of_language(path), mark = "", lines = lines } }
end

for i, page in ipairs(pages) do
  local function link(target, image) return address(page, target, image) end
  write(page.html, fill { title = escape(page.title), navigation = navigation(page),
    contents = contents(page), main = render(page.blocks, link), turn = neighbours(i) })
end
for _, path in ipairs(shown_list) do
  local page = { name = "../" .. path, blocks = file_block(path), title = path }
  local function link(target) return target end
  write(shown[path], fill { title = escape(path), navigation = navigation(page), contents = "",
    main = render(page.blocks, link), turn = "" })
end
write("search.js", index())
copy("tools/book/book.css", "book.css")
copy("tools/book/book.js", "book.js")
for _, text in ipairs(wrong) do io.stderr:write(text, "\n") end
if #wrong > 0 then os.exit(1) end
print(("%d pages and %d files: open %s/index.html"):format(#pages, #shown_list, folder))
