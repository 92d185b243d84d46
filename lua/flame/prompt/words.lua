--- Splits a Lua text into words (tokens), for the prompt, which keeps an entry's locals and
--- completes what is before the cursor.
local words = {}

local keywords = {}
for name in ([[and break do else elseif end false for function goto if in local nil not or repeat return then true
  until while]]):gmatch("%S+") do keywords[name] = true end
words.keywords = keywords

-- Where the string that begins at i ends, and whether its closing quote is missing.
local function string_end(text, i)
  local quote, k = text:sub(i, i), i + 1
  while k <= #text do
    local c = text:sub(k, k)
    if c == "\\" then k = k + 1
    elseif c == quote then return k, false
    elseif c == "\n" then return k - 1, true end
    k = k + 1
  end
  return #text, true
end

-- The end of the long bracket [[…]] or [=[…]=] at i, and whether its end is missing; nil: none.
local function long_end(text, i)
  local equals = text:match("^%[(=*)%[", i)
  if not equals then return nil end
  local _, e = text:find("]" .. equals .. "]", i, true)
  return e or #text, not e
end

local function comment_end(text, i)
  local e, open = long_end(text, i + 2)
  if e then return e, open end
  return (text:find("\n", i, true) or #text + 1) - 1, false
end

-- The kind and the end of the word at i (not a blank); true if its closing quote is missing.
local function word_at(text, i)
  local c = text:sub(i, i)
  local e = select(2, text:find("^[%a_][%w_]*", i))
  if e then return keywords[text:sub(i, e)] and "keyword" or "name", e end
  if c == '"' or c == "'" then
    local stop, open = string_end(text, i)
    return "string", stop, open
  end
  if text:find("^%-%-", i) then
    local stop, open = comment_end(text, i)
    return "comment", stop, open
  end
  local stop, open = long_end(text, i)
  if stop then return "string", stop, open end
  e = select(2, text:find("^0[xX][%x%.]+[pP]?[+-]?%x*", i))
    or select(2, text:find("^%.?%d[%d%.]*[eE]?[+-]?%d*", i))
  if e then return "number", e end
  for n = 3, 2, -1 do
    local op = text:sub(i, i + n - 1)
    if op == "..." or op == ".." or op == "::" or op == "==" or op == "~=" or op == "<="
        or op == ">=" or op == "//" or
      op == "<<" or op == ">>" then
      return "op", i + n - 1
    end
  end
  return "op", i
end

--- The words of a text in order: {kind =, text =, from =, to =, open =}. kind: "name", "keyword",
--- "string", "number", "comment" or "op". open: the end of a string or comment is missing.
function words.of(text)
  local list, i = {}, 1
  while true do
    i = text:find("%S", i)
    if not i then return list end
    local kind, e, open = word_at(text, i)
    if e < i then e = i end
    list[#list + 1] = { kind = kind, text = text:sub(i, e), from = i, to = e, open = open }
    i = e + 1
  end
end

local deeper = { ["do"] = 1, ["function"] = 1, ["if"] = 1, ["repeat"] = 1, ["end"] = -1,
  ["until"] = -1 }
local brackets = { ["("] = 1, ["["] = 1, ["{"] = 1, [")"] = -1, ["]"] = -1, ["}"] = -1 }

-- The names of a 'local', from word k on: their list, the index after
-- them, and whether one of them has the attribute <close>.
local function names_after(list, k)
  local names, closed = {}, false
  while list[k] and list[k].kind == "name" do
    names[#names + 1] = list[k].text
    k = k + 1
    if list[k] and list[k].text == "<" and list[k + 1] and list[k + 2]
        and list[k + 2].text == ">" then
      closed = closed or list[k + 1].text == "close"
      k = k + 3
    end
    if not (list[k] and list[k].text == ",") then break end
    k = k + 1
  end
  return names, k, closed
end

-- What replaces 'local' and its names at word k, the index after, 1 for a function; nil: it stays.
local function kept_at(list, k, place)
  local next_word = list[k + 1]
  if next_word and next_word.text == "function" and list[k + 2] and list[k + 2].kind == "name" then
    return place .. list[k + 2].text .. " = function", k + 3, 1
  end
  local names, behind, closed = names_after(list, k + 1)
  if #names == 0 or closed then return nil end
  for i, name in ipairs(names) do
    if name == "_ENV" then return nil end
    names[i] = place .. name
  end
  local given = list[behind] and list[behind].text == "="
  return table.concat(names, ", ") .. (given and "" or " = nil"), behind, 0
end

--- The text with each local of its outermost level replaced by a field of 'place' ("_ENV.x."), on
--- the same lines. Those declared together with a <close> or an _ENV stay.
function words.keep_locals(text, place)
  local list, all, out, done, depth, k = {}, words.of(text), {}, 1, 0, 1
  for _, w in ipairs(all) do if w.kind ~= "comment" then list[#list + 1] = w end end
  while list[k] do
    local w, step = list[k], 1
    local change = w.kind == "keyword" and deeper[w.text]
      or w.kind == "op" and brackets[w.text] or 0
    if depth == 0 and w.kind == "keyword" and w.text == "local" then
      local made, behind, inside = kept_at(list, k, place)
      if made then
        local to = list[behind - 1].to
        out[#out + 1] = text:sub(done, w.from - 1) .. made .. text:sub(w.from, to):gsub("[^\n]", "")
        done, step, change = to + 1, behind - k, inside
      end
    end
    depth, k = depth + change, k + step
  end
  return table.concat(out) .. text:sub(done)
end

return words
