--- flame-lua's prompt on a terminal: runs an entry (the text typed) and shows its values.
-- src/cli/repl.c calls start once, then load and show (or failed) for each entry, and complete for
-- Tab. It adds two functions of the terminal to this table: width(s) and size().
--
-- Entries run in a separate environment over the globals: assignments make globals, as usual;
-- locals that an entry declares at its outermost level, and '_', the last value, are fields of that
-- environment only.
local prompt = {}

local env, meta, terminal
local empty = {}                   -- an entry's locals that are nil: they hide globals as well
local last, before, change         -- the last chunk; the variables before it; what :undo reverts
local plain_print = print

-- ---- kept locals --------------------------------------------------------------------------------

-- Sets the local 'name' of entries. While some of them are nil, they hide globals of the same name.
local function keep(_, name, v)
  rawset(env, name, v)
  empty[name] = v == nil or nil
  local any = next(empty) ~= nil
  meta.__index = any and function(_, key) if not empty[key] then return _G[key] end end or _G
  meta.__newindex = any and function(_, key, new)
    if empty[key] then keep(nil, key, new) else _G[key] = new end
  end or _G
end

-- A key of env that no script can name ("local" is a keyword); writes to its fields call keep.
local PLACE = "local"

--- Called once, with the environment of entries; can: can the terminal show more than text?
function prompt.start(environment, can)
  env, meta = environment, getmetatable(environment)
  local none = os.getenv("NO_COLOR")
  terminal = can
  prompt.colours = can and (none == nil or none == "")
  rawset(env, PLACE, setmetatable({}, { __newindex = keep }))
  rawset(env, "prompt", prompt)
  -- the prompt's help hides the global help, if that is flame's: it tells more
  local help = rawget(_G, "help")
  if type(help) == "function" and debug.getinfo(help, "S").source == "=flame/prompt" then
    rawset(env, "help", prompt.help)
  end
end

--- The environment of entries.
function prompt.environment() return env end

-- ---- :undo --------------------------------------------------------------------------------------

local function copy(t)
  local out = {}
  for key, v in next, t do out[key] = v end
  return out
end

local function note_before() before = { globals = copy(_G), kept = copy(env) } end

-- Appends {t, name, old value} to the list for each variable in t that differs from 'was'.
local function differences(was, t, list)
  for name, v in next, t do
    if type(name) == "string" and not rawequal(was[name], v) then
      list[#list + 1] = { t, name, was[name] }
    end
  end
  for name, v in next, was do
    if type(name) == "string" and t[name] == nil then list[#list + 1] = { t, name, v } end
  end
end

local function note_change()
  if not before then return end
  local list, kept = {}, copy(env)
  kept._, before.kept._ = nil, nil
  differences(before.globals, _G, list)
  for name in next, before.kept do
    if rawget(env, name) == nil then list[#list + 1] = { env, name, before.kept[name] } end
  end
  for name, v in next, kept do
    if not rawequal(v, before.kept[name]) then
      list[#list + 1] = { env, name, before.kept[name] }
    end
  end
  if #list > 0 then change = list end
  before = nil
end

--- Undoes the last change of variables; a second call restores it. Writes into a tensor or a table
--- are not undone.
function prompt.undo()
  if not change then plain_print("no variable has changed yet") return end
  local list = change
  table.sort(list, function(a, b) return a[2] < b[2] end)
  for _, c in ipairs(list) do
    if c[1] == env then keep(nil, c[2], c[3]) else rawset(_G, c[2], c[3]) end
    if c[3] == nil then empty[c[2]] = nil end
    plain_print(c[2] .. (c[3] == nil and " is gone" or " is again " .. prompt.line(c[3])))
  end
end

-- ---- an entry -----------------------------------------------------------------------------------

local function part(name) return require("flame.prompt." .. name) end

local function command_chunk(text)
  local name, rest = text:match("^:(%a*)%s*(.-)%s*$")
  return function() return part("commands").run(prompt, name, rest) end
end

-- The name for load: the entry's text, so that its lines can be shown later.
local function name_of(text) return text:find("^[=@]") and "=stdin" or text end

--- Compiles an entry to a function, or nil and a message. An expression returns its value.
function prompt.load(text)
  note_before()
  if text:find("^:%a") or text == ":" then return command_chunk(text) end
  local chunk = load("return " .. text, name_of(text), "t", env)
  if chunk then
    last = chunk
    return chunk
  end
  local kept = text:find("local", 1, true)
    and part("words").keep_locals(text, "_ENV[\"" .. PLACE .. "\"].") or text
  local why
  chunk, why = load(text, "=stdin", "t", env)
  if not chunk then return nil, why end
  last = load(kept, name_of(text), "t", env) or chunk
  return last
end

--- The error message of the last entry for display: "stdin" replaces the chunk's name.
function prompt.failed(message)
  note_change()
  message = message:gsub("\n\tflame/prompt[^\n]*", "")
  if not last then return message end
  local name = debug.getinfo(last, "S").short_src
  local out, at = {}, 1
  while true do
    local from, to = message:find(name, at, true)
    if not from then return table.concat(out) .. message:sub(at) end
    out[#out + 1] = message:sub(at, from - 1) .. "stdin"
    at = to + 1
  end
end

-- ---- values -------------------------------------------------------------------------------------

--- One line on a value.
function prompt.line(v) return part("show").line(prompt, v, (prompt.size())) end

local function is_simple(v)
  local kind = type(v)
  return kind == "nil" or kind == "number" or kind == "boolean" or kind == "string"
end

--- Prints the values of an entry; the first one becomes '_'. If the script has replaced print, that
--- is used.
function prompt.show(...)
  note_change()
  local n, first = select("#", ...), (...)
  if n == 0 then return end
  if first ~= nil then rawset(env, "_", first) end
  if print ~= plain_print then return print(...) end
  local texts, lines = {}, false
  for i = 1, n do
    local v = select(i, ...)
    texts[i] = is_simple(v) and not prompt.colours and tostring(v)
      or part("show").value(prompt, v, (prompt.size()))
    lines = lines or texts[i]:find("\n", 1, true)
  end
  io.stdout:write(table.concat(texts, lines and "\n" or "\t"), "\n")
end

--- Completion by Tab: the new text before the cursor, and a list to be shown (if this is the second
--- Tab: again), or nil.
function prompt.complete(text, again)
  local columns, rows = prompt.size()
  return part("complete").complete(prompt, text, again, columns, rows)
end

for _, name in ipairs { "help", "source", "time", "mem", "why", "explain", "grad", "doc",
  "plot" } do
  prompt[name] = function(...) return part("commands")[name](prompt, ...) end
end

function prompt.on_terminal() return terminal end

return prompt
