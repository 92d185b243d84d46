--- Every public function of the core library is declared (src/lua/declare.h), and docs/ops.md shows
--- its declaration.
local flame = require "flame"
local oracle = dofile "spec/support/declare_oracle.lua"
-- loads all functions that are written in Lua, which otherwise come at their first use
flame.internal.load()
local internal = flame.internal

-- The tensor that is passed where a parameter takes a tensor (kind T in the table FIRST below,
-- which has a value for each kind of argument).

local x = flame.ones(2, 3)

--- The declarations of functions in docs/ops.md: name -> text.
local function declared_on_the_page()
  local calls = {}
  for line in io.lines("docs/ops.md") do
    local call = line:gsub("\\|", "\1"):match("^| `([^`]*%b()[^`]*)` |")
    call = call and call:gsub("\1", "|")
    local name = call and call:match("^[%w_%.]+")
    if name then calls[name] = calls[name] or call end
  end
  return calls
end
--- All public functions of the core library, under each of their names: name -> function.
local function core_functions()
  local all = {}
  local function look(t, prefix)
    for name, f in next, t do
      if type(f) == "function" and type(name) == "string" and not name:find "^__" then
        all[prefix .. name] = f
      end
    end
  end
  look(internal.methods, "")
  look(flame, "")
  for _, group in ipairs { "linalg", "special", "cuda", "autograd" } do
    look(flame[group], group .. ".")
  end
  return all
end
--- All forms (signatures) of the declaration d, with this name, as one text as in docs/ops.md.
local function texts_of(d, name)
  local texts = {}
  for k, form in ipairs(d) do
    texts[k] = form.text:gsub("^[%.:]", ""):gsub("^[%w_%.]+%??", name)
  end
  return table.concat(texts, "; ")
end
--- A value for each kind of argument. value_for: one that parameter p accepts, or nil.
local FIRST = { T = x, int = 1, num = 1, fn = print, dtype = "f32", str = "s", any = 1, bool = true,
  table = {} }
local function value_for(p)
  for _, a in ipairs(p.atoms) do
    if a.list then return { FIRST[a.kind] } end
    if a.word then return a.word end
    if FIRST[a.kind] ~= nil then return FIRST[a.kind] end
  end
end
local function takes_table(p)
  for _, a in ipairs(p and p.atoms or {}) do
    if a.kind == "table" and not a.list then return true end
  end
end

--- Calls check(name, function, declaration, base name) for each public function of the core
--- library; raises if it returns a problem for any of them.
local function all_that(check)
  local wrong, count = {}, 0
  for name, f in pairs(core_functions()) do
    local d = internal.declaration(f)
    local why = d and check(name, f, d, d.name .. (name:find "_$" and not d.name:find "_$" and "_"
      or "")) or not d and "is not declared"
    count = count + 1
    if why then wrong[#wrong + 1] = name .. ": " .. why end
  end
  table.sort(wrong)
  assert.is_true(count > 900, tostring(count))
  assert.equal("", table.concat(wrong, "\n"))
end

describe("every public function of the core library", function()
  it("is declared, and stands on the page as it is", function()
    local page = declared_on_the_page()
    all_that(function(name, _, d)
      local text = texts_of(d, name)
      if page[name] ~= text then return ("is %s, the page has %s"):format(text, page[name]) end
    end)
  end)
  it("tells the options that the page names, and the nearest", function()
    all_that(function(_, f, d, base)
      local names, form = oracle.names(d[1].text)
      if #d > 1 or form.open then return end
      local first = form.positional[1]
      local key = not first or form.options_first
      local place = key and first or form.positional[2]
      -- if a parameter takes a table, an unknown name is a key of that table, not an option
      if takes_table(place) or takes_table(first) then return end
      local wrong = names[1] and names[1] .. "q" or "nothing"
      local args = { not key and value_for(first) or nil }
      args[#args + 1] = { [wrong] = 1 }
      local ok, message = pcall(f, table.unpack(args))
      local told = #names > 0 and table.concat(names, " ") or "none"
      local want = ("%s: no option '%s', there is: %s"):format(base, wrong, told)
      if ok or not message:find(want, 1, true) then
        return ("%s is not %s"):format(message, want)
      end
    end)
  end)
  it("refuses an argument too many", function()
    all_that(function(_, f, d, base)
      local _, form = oracle.names(d[1].text)
      if form.open or form.rest or #d > 1 then return end
      local args = {}
      for k, q in ipairs(form.positional) do args[k] = value_for(q) end
      args[#form.positional + 1] = print
      local ok, message = pcall(f, table.unpack(args, 1, #form.positional + 1))
      if ok or not message:find(base .. ": ", 1, true) then return tostring(message) end
    end)
  end)
  it("refuses a value of no type that it takes", function()
    all_that(function(_, f, d, base)
      if oracle.names(d[1].text) and select(2, oracle.names(d[1].text)).open then return end
      local p = d[1].params[1]
      if p == nil or p.type:find("any", 1, true) then return end
      local ok, message = pcall(f, coroutine.create(print))
      local told = ok or message:find(base .. ": ", 1, true) and (message:find(" must be ", 1, true)
        or message:find("no form takes", 1, true) or message:find("at most, got", 1, true))
      if ok or not told then return tostring(message) end
    end)
  end)
end)
