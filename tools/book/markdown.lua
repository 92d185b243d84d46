--- markdown: the part of Markdown that the pages of docs/ use, as a tree and as HTML.
--
--   markdown.parse(text) -> list of blocks, each with its line:
--     { kind = "heading", level, text, anchor }      { kind = "paragraph", text }
--     { kind = "code", word = "lua", mark = "norun", lines }
--     { kind = "table", head = { cells }, rows }     { kind = "quote", blocks }
--     { kind = "list", first = 1 or nil, tight, items = { blocks } }
--   markdown.inline(text, link) -> HTML; link(target, image) gives the address of a target
--   markdown.plain(text) -> the text without marks
--   markdown.targets(blocks) -> list of { target =, line =, image = }
--
-- Anchors are those that GitHub gives to headings, so that links hold there and in the site.
local markdown = {}

-- ---- blocks -------------------------------------------------------------------------------------

local function anchor_of(title, taken)
  local anchor = title:lower():gsub("%]%([^)]*%)", ""):gsub("[^%w%s\x80-\xff_-]", "")
    :gsub("%s", "-")
  local n = taken[anchor]
  taken[anchor] = (n or 0) + 1
  return n and anchor .. "-" .. n or anchor
end

local function marker_of(line)
  local mark, rest = line:match("^([-*] +)(.*)$")
  if not mark then mark, rest = line:match("^(%d+%. +)(.*)$") end
  return mark, rest
end

--- The cells of a table's row. As on GitHub, a bar ends a cell even inside code, unless it is "\|".
local function cells_of(line)
  local cells = {}
  local inner = line:match("^%s*|(.*)|%s*$"):gsub("\\|", "\0")
  for cell in (inner .. "|"):gmatch("(.-)|") do
    cells[#cells + 1] = cell:match("^%s*(.-)%s*$"):gsub("%z", "|")
  end
  return cells
end

local function is_rule(line)
  return line and line:match("^|[-:| ]+|%s*$") and line:find("-", 1, true)
end

local function begins_block(lines, at)
  local line = lines[at]
  return line:match("^#+ ") or line:match("^```") or line:match("^> ") or line:match("^<!%-%-")
    or marker_of(line) or line:match("^|") and is_rule(lines[at + 1])
end

local readers = {}

--- A reader returns the block at lines[at] (true: nothing to show) and the number of the line after
--- it; nil if the block there is of another kind.
function readers.comment(lines, at)
  if not lines[at]:match("^<!%-%-") then return nil end
  while not lines[at]:find("-->", 1, true) and lines[at + 1] do at = at + 1 end
  return true, at + 1
end

function readers.code(lines, at)
  local ticks, word, mark = lines[at]:match("^(```+)%s*(%S*)%s*(.-)%s*$")
  if not ticks then return nil end
  local block = { kind = "code", word = word, mark = mark, lines = {} }
  at = at + 1
  while lines[at] and not lines[at]:match("^" .. ticks) do
    block.lines[#block.lines + 1] = lines[at]
    at = at + 1
  end
  return block, at + 1
end

function readers.indented(lines, at)
  if not lines[at]:match("^    ") then return nil end
  local block = { kind = "code", word = "", mark = "", lines = {} }
  while lines[at] and (lines[at]:match("^    ") or lines[at]:match("^%s*$")) do
    block.lines[#block.lines + 1] = lines[at]:sub(5)
    at = at + 1
  end
  while block.lines[#block.lines] == "" do block.lines[#block.lines] = nil end
  return block, at
end

function readers.heading(lines, at, state)
  local marks, text = lines[at]:match("^(#+) +(.-)%s*$")
  if not marks then return nil end
  return { kind = "heading", level = #marks, text = text, anchor = anchor_of(text, state.anchors) },
    at + 1
end

function readers.table(lines, at)
  if not (lines[at]:match("^|") and is_rule(lines[at + 1])) then return nil end
  local block = { kind = "table", head = cells_of(lines[at]), rows = {} }
  at = at + 2
  while lines[at] and lines[at]:match("^|") do
    block.rows[#block.rows + 1] = cells_of(lines[at])
    at = at + 1
  end
  return block, at
end

function readers.quote(lines, at, state)
  if not lines[at]:match("^> ?") then return nil end
  local inner, first = {}, at
  while lines[at] and lines[at]:match("^>") do
    inner[#inner + 1] = lines[at]:match("^> ?(.*)$")
    at = at + 1
  end
  return { kind = "quote", blocks = markdown.blocks(inner, state, first) }, at
end

--- The lines of a list item, without its indent; the next line; whether there was a blank line.
local function item_of(lines, at)
  local mark, rest = marker_of(lines[at])
  local inner, blank = { rest }, false
  at = at + 1
  while lines[at] do
    local line = lines[at]
    if line:match("^%s*$") then
      local next_line = lines[at + 1]
      if not (next_line and next_line:match("^" .. (" "):rep(#mark) .. "%s*%S")) then break end
      inner[#inner + 1], blank = "", true
    elseif line:sub(1, #mark):match("^ +$") then
      inner[#inner + 1] = line:sub(#mark + 1)
    elseif lines[at - 1]:match("^%s*$") or begins_block(lines, at) then
      break
    else
      inner[#inner + 1] = line:match("^%s*(.*)$")
    end
    at = at + 1
  end
  return inner, at, blank
end

function readers.list(lines, at, state)
  local mark = marker_of(lines[at])
  if not mark then return nil end
  local digit = mark:match("^%d+")
  local block = { kind = "list", first = digit and tonumber(digit), tight = true, items = {} }
  while lines[at] do
    local own = marker_of(lines[at])
    if not own or (own:match("^%d") ~= nil) ~= (digit ~= nil) then break end
    local inner, after, blank = item_of(lines, at)
    block.items[#block.items + 1] = markdown.blocks(inner, state, at)
    block.tight = block.tight and not blank
    at = after
    if lines[at] and lines[at]:match("^%s*$") and lines[at + 1] and marker_of(lines[at + 1]) then
      block.tight = false
      at = at + 1
    end
  end
  return block, at
end

function readers.paragraph(lines, at)
  local inner = {}
  while lines[at] and lines[at]:find("%S") and (#inner == 0 or not begins_block(lines, at)) do
    inner[#inner + 1] = lines[at]:match("^%s*(.*)$")
    at = at + 1
  end
  return { kind = "paragraph", text = table.concat(inner, "\n") }, at
end

local order = { "comment", "code", "heading", "table", "quote", "list", "indented", "paragraph" }

function markdown.blocks(lines, state, first)
  local blocks, at = {}, 1
  while lines[at] do
    if lines[at]:match("^%s*$") then
      at = at + 1
    else
      for _, name in ipairs(order) do
        local block, after = readers[name](lines, at, state)
        if block then
          if block ~= true then
            block.line = first + at - 1
            blocks[#blocks + 1] = block
          end
          at = after
          break
        end
      end
    end
  end
  return blocks
end

function markdown.parse(text)
  local lines = {}
  for line in (text:gsub("\n$", "") .. "\n"):gmatch("(.-)\n") do lines[#lines + 1] = line end
  return markdown.blocks(lines, { anchors = {} }, 1)
end

-- ---- inline -------------------------------------------------------------------------------------

local entities = { ["&"] = "&amp;", ["<"] = "&lt;", [">"] = "&gt;", ['"'] = "&quot;" }

function markdown.escape(text) return (text:gsub('[&<>"]', entities)) end
local escape = markdown.escape

--- The position of the bracket that closes the one at 'at', outside of code; nil if there is none.
local function closing(text, at)
  local depth, i = 0, at
  while i <= #text do
    local c = text:sub(i, i)
    if c == "`" then
      local ticks = text:match("^`+", i)
      local _, last = text:find(ticks, i + #ticks, true)
      i = last or i
    elseif c == "[" then depth = depth + 1
    elseif c == "]" then
      depth = depth - 1
      if depth == 0 then return i end
    end
    i = i + 1
  end
end

--- The parts of the link or image that begins at 'at', and the position after it; nil: none does.
local function link_at(text, at)
  local image = text:sub(at, at) == "!"
  local open = image and at + 1 or at
  if text:sub(open, open) ~= "[" then return nil end
  local close = closing(text, open)
  local target = close and text:match("^%(([^)%s]+)%)", close + 1)
  if not target then return nil end
  return { image = image, label = text:sub(open + 1, close - 1), target = target },
    close + #target + 3
end

--- The end of the emphasis that the mark (* or **) at 'at' opens, or nil. A mark between a word and
--- punctuation ("scatter*, index_*") opens none.
local function emphasis_at(text, at, mark)
  local after, before = text:sub(at + #mark, at + #mark), text:sub(at - 1, at - 1)
  if after:match("^[%s*]?$") or after:match("^%p") and after ~= "`" and before:match("%w") then
    return nil
  end
  local i = at + #mark
  while i <= #text do
    local c = text:sub(i, i)
    if c == "`" then
      local ticks = text:match("^`+", i)
      local _, last = text:find(ticks, i + #ticks, true)
      i = (last or i) + 1
    elseif text:sub(i, i + #mark - 1) == mark and not text:sub(i - 1, i - 1):match("%s")
        and (#mark == 2 or text:sub(i + 1, i + 1) ~= "*") then
      return i
    else
      i = i + (c == "*" and #text:match("^%*+", i) or 1)
    end
  end
end

--- The text of the code span that begins at 'at', and the position after it; nil: none does.
local function code_at(text, at)
  local ticks = text:match("^`+", at)
  local first, last = text:find("%f[`]" .. ticks .. "%f[^`]", at + #ticks)
  if not first then return nil end
  local code = text:sub(at + #ticks, first - 1):gsub("\n", " ")
  if code:match("^ .* $") and code:find("[^ ]") then code = code:sub(2, -2) end
  return code, last + 1
end

--- Calls emit.text(s), emit.code(s), emit.link(link), emit.strong(s), emit.em(s), emit.raw(s) for
--- the parts of a text, in order.
local function walk(text, emit)
  local at, from = 1, 1
  local function part(after, name, value)
    if at > from then emit.text(text:sub(from, at - 1)) end
    emit[name](value)
    at, from = after, after
  end
  while at <= #text do
    local next_at = text:find("[`!%[*<\\]", at)
    if not next_at then break end
    at = next_at
    local c = text:sub(at, at)
    local link, after = link_at(text, at)
    local code, code_end
    if c == "`" then code, code_end = code_at(text, at) end
    local tag = text:match("^</?su[bp]>", at)
    local mark = text:match("^%*%*", at) or text:match("^%*", at)
    local close = mark and emphasis_at(text, at, mark)
    if link then part(after, "link", link)
    elseif code then part(code_end, "code", code)
    elseif tag then part(at + #tag, "raw", tag)
    elseif close then
      part(close + #mark, #mark == 2 and "strong" or "em", text:sub(at + #mark, close - 1))
    elseif c == "\\" and text:match("^\\%p", at) then
      part(at + 2, "text", text:sub(at + 1, at + 1))
    else
      at = at + #(mark or text:match("^`+", at) or c)
    end
  end
  if from <= #text then emit.text(text:sub(from)) end
end

function markdown.inline(text, link)
  local out = {}
  local function put(s) out[#out + 1] = s end
  walk(text, {
    text = function(s) put(escape(s)) end,
    raw = put,
    code = function(s) put("<code>" .. escape(s) .. "</code>") end,
    strong = function(s) put("<strong>" .. markdown.inline(s, link) .. "</strong>") end,
    em = function(s) put("<em>" .. markdown.inline(s, link) .. "</em>") end,
    link = function(l)
      local address = escape(link(l.target, l.image))
      if l.image then
        put(('<img src="%s" alt="%s">'):format(address, escape(markdown.plain(l.label))))
      else
        put(('<a href="%s">%s</a>'):format(address, markdown.inline(l.label, link)))
      end
    end,
  })
  return table.concat(out)
end

function markdown.plain(text)
  local out = {}
  local function put(s) out[#out + 1] = s end
  local function inner(s) put(markdown.plain(s)) end
  walk(text, { text = put, raw = function() end, code = put, strong = inner, em = inner,
    link = function(l) inner(l.label) end })
  return table.concat(out)
end

-- ---- links --------------------------------------------------------------------------------------

local function each_text(blocks, f)
  for _, block in ipairs(blocks) do
    if block.text then f(block.text, block.line) end
    for _, cell in ipairs(block.head or {}) do f(cell, block.line) end
    for i, row in ipairs(block.rows or {}) do
      for _, cell in ipairs(row) do f(cell, block.line + 1 + i) end
    end
    for _, item in ipairs(block.items or {}) do each_text(item, f) end
    if block.blocks then each_text(block.blocks, f) end
  end
end

function markdown.targets(blocks)
  local list = {}
  local function nothing() end
  local function look(text, line)
    local function inner(s) look(s, line) end
    walk(text, { text = nothing, raw = nothing, code = nothing, strong = inner, em = inner,
      link = function(l)
        list[#list + 1] = { target = l.target, line = line, image = l.image }
        look(l.label, line)
      end })
  end
  each_text(blocks, look)
  return list
end

--- The anchors of a page's headings, as a set.
function markdown.anchors(blocks)
  local set = {}
  for _, block in ipairs(blocks) do
    if block.kind == "heading" then set[block.anchor] = true end
  end
  return set
end

return markdown
