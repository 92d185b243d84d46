--- highlight: code as HTML with a class for each kind of token: k keyword, b name of the language's
-- library, s string, n number, c comment, o output (what follows "-->" on a page), p prompt.
-- A string of Lua that holds a kernel is coloured as C.
--
--   highlight(word, lines) -> HTML of a block whose fence says 'word' (lua, c, sh, prompt, …)
local escape = dofile("tools/book/markdown.lua").escape

local function set(words)
  local s = {}
  for word in words:gmatch("%S+") do s[word] = true end
  return s
end

local languages = {
  lua = {
    keywords = set [[and break do else elseif end false for function goto if in local nil not or
      repeat return then true until while]],
    names = set [[print require pairs ipairs error assert pcall select tostring tonumber type self
      setmetatable getmetatable math string table io os flame]],
  },
  c = {
    keywords = set [[auto break case char const continue default do double else enum extern float
      for goto if int inline long register restrict return short signed sizeof static struct switch
      typedef union unsigned void volatile while bool template typename]],
    names = set [[__global__ __device__ __shared__ __restrict__ __constant__ blockIdx blockDim
      threadIdx gridDim __syncthreads atomicAdd __shfl_down_sync NULL printf]],
  },
}

local function span(class, text)
  return ('<span class="%s">%s</span>'):format(class, escape(text))
end

local scan

--- The class and the last position of the Lua comment or string that begins at 'at'.
local function lua_token(text, at)
  local level = text:match("^%-%-%[(=*)%[", at) or text:match("^%[(=*)%[", at)
  if level then
    local _, last = text:find("]" .. level .. "]", at, true)
    return text:sub(at, at) == "-" and "c" or "long", last or #text
  end
  if text:match("^%-%->", at) then return "o", (text:find("\n", at, true) or #text + 1) - 1 end
  if text:match("^%-%-", at) then return "c", (text:find("\n", at, true) or #text + 1) - 1 end
end

local function c_token(text, at)
  if text:match("^//", at) then return "c", (text:find("\n", at, true) or #text + 1) - 1 end
  if text:match("^/%*", at) then return "c", select(2, text:find("*/", at + 2, true)) or #text end
  if text:match("^#%s*%a", at) and (at == 1 or text:sub(at - 1, at - 1) == "\n") then
    return "b", select(2, text:find("^#%s*%a+", at))
  end
end

local function string_end(text, at)
  local quote, i = text:sub(at, at), at + 1
  while i <= #text do
    local c = text:sub(i, i)
    if c == "\\" then i = i + 1
    elseif c == quote or c == "\n" then return i end
    i = i + 1
  end
  return #text
end

--- HTML of a long string; if it holds a kernel, what is between its brackets is coloured as C.
local function long_string(text)
  local open, inner, close = text:match("^(%[=*%[)(.*)(%]=*%])$")
  if not open or not inner:find("__%l+__ ") then
    return span("s", text)
  end
  return span("s", open) .. scan("c", inner) .. span("s", close)
end

function scan(name, text)
  local language, special = languages[name], name == "lua" and lua_token or c_token
  local out, at = {}, 1
  while at <= #text do
    local class, last = special(text, at)
    local c = text:sub(at, at)
    if class == nil and (c == '"' or c == "'") then class, last = "s", string_end(text, at) end
    if class == nil and text:match("^%.?%d", at) then
      class, last = "n", select(2, text:find("^%.?%d[%w.]*", at))
    end
    local word = class == nil and text:match("^[%a_][%w_]*", at)
    if class == "long" then
      out[#out + 1] = long_string(text:sub(at, last))
    elseif class then
      out[#out + 1] = span(class, text:sub(at, last))
    elseif word then
      local field = at > 1 and text:sub(at - 1, at - 1):match("[.:]")
      class = not field and (language.keywords[word] and "k" or language.names[word] and "b")
      out[#out + 1] = class and span(class, word) or word
      last = at + #word - 1
    else
      out[#out + 1] = escape(c)
      last = at
    end
    at = last + 1
  end
  return table.concat(out)
end

local function each_line(lines, f)
  local out = {}
  for i, line in ipairs(lines) do out[i] = f(line) end
  return table.concat(out, "\n")
end

local ways = {}
function ways.sh(lines)
  return each_line(lines, function(line)
    local before, comment = line:match("^(.-)(%f[#]#%s.*)$")
    return before and escape(before) .. span("c", comment) or escape(line)
  end)
end
--- HTML of a block 'prompt': lines that begin with > or >> are Lua, others are output.
function ways.prompt(lines)
  return each_line(lines, function(line)
    local mark, typed = line:match("^(>>? ?)(.*)$")
    return mark and span("p", mark) .. scan("lua", typed) or span("o", line)
  end)
end
function ways.lua(lines) return scan("lua", table.concat(lines, "\n")) end
function ways.c(lines) return scan("c", table.concat(lines, "\n")) end

return function(word, lines)
  return (ways[word] or function() return escape(table.concat(lines, "\n")) end)(lines)
end
