--- Thousands of random declarations (src/lua/declare.h) with random calls: arguments or messages
--- must be those of spec/support/declare_oracle.lua.
local flame = require "flame"
local oracle = dofile "spec/support/declare_oracle.lua"
-- loads all functions that are written in Lua, which otherwise come at their first use
flame.internal.load()
local nn = require "flame.nn"

local declared = dofile "spec/support/declared.lua"

local x, y = flame.ones(2, 3), flame.zeros(2)

local random = math.random
local function pick(list) return list[random(#list)] end
local TYPES = { "T", "num", "int", "bool", "str", "fn", "any", "axis", "axes", "dims(2)", "dtype",
  "device", '"mean"', '"sum"', "T[]",
  "int[]", "str[]", "Module", "Linear", "fn[]", "num[]", "bool[]", "table", "table[]", "Module[]" }
local DEFAULTS = { T = {}, num = { "1", "-2.5", "inf" }, int = { "1", "-3" },
  bool = { "true", "false" }, str = { '"s"' }, any = { "1" },
  axis = { "-1" }, axes = { "1" }, ["dims(2)"] = { "0" }, ['"mean"'] = { '"mean"' },
    ['"sum"'] = { '"sum"' }, dtype = { '"f32"' }, ["num[]"] = { "{1, -2.5, inf}", "{3}" },
    ["int[]"] = { "{ 1 ,2}" } }
local NAMES = { "a", "b", "c", "dim", "keepdim", "shape", "weight" }

local function random_param(k, names)
  local name, kind = NAMES[k], pick(TYPES)
  local defaults = DEFAULTS[kind] or {}
  for _ = 1, random(0, 2) do kind = kind .. "|" .. pick(TYPES) end
  local way = random(6)
  if way == 1 then return name .. "?: " .. kind end
  if way == 2 and #defaults > 0 then return ("%s: %s = %s"):format(name, kind, pick(defaults)) end
  if way == 3 then return name .. " = " .. pick { "1", "true", "false", '"word"', "-inf",
    "2.5", "{0.5, 7}" } end
  if way == 4 and k > 1 and names[k - 1] then return name .. " = " .. names[k - 1] end
  return name .. ": " .. kind
end
local function random_form()
  local n, parts, names, star = random(0, 5), {}, {}, false
  for k = 1, n do
    if not star and random(8) == 1 then star = true parts[#parts + 1] = "*" end
    parts[#parts + 1] = random_param(k, names)
    names[k] = NAMES[k]
  end
  local way = random(8)
  if way == 1 and not star then parts[#parts + 1] = "..."
  elseif way <= 3 and not star then
    parts[#parts + 1] = "rest...: " .. pick { "int", "T", "any", "str|num", "int" }
    if random(2) == 1 then parts[#parts + 1] = "*factory" end
  elseif way == 4 then
    parts[#parts + 1] = star and "on = true" or "*factory"
  end
  return pick { "f(", "f(", "f(", "Module:f(", "Linear:f(" } .. table.concat(parts, ", ") .. ")"
end

local layer = nn.Linear(2, 2)
local VALUES = {
  function() return x end, function() return y end, function() return random(-3, 5) end,
  function() return random(3) + 0.0 end, function() return 2.5 end, function() return 0 / 0 end,
  function() return pick { math.huge, 2.0 ^ 70, -1e300, math.mininteger } end,
  function() return true end, function() return false end, function() return nil end,
  function() return pick { "mean", "sum", "word", "f32", "cpu", "cuda:1", "", "a\0b" } end,
  function() return print end, function() return layer end, function() return {} end,
  function() return setmetatable({ a = 1 }, { __call = print }) end,
  function() return setmetatable({ a = 1 }, { __name = "Other" }) end,
  function() return coroutine.create(print) end,
  function()                                             -- a list that its metatable gives
    local n, v = pick { 0, 1, 2, 3, 2.0, -1, 1.5, "2" }, pick { 1, 2.0, x, "s" }
    return setmetatable({}, { __len = function() return n end, __index = function() return v end })
  end,
  function() return setmetatable({ 1, 2 }, { __len = function() return 1 end }) end,
}
local function random_value(deep)
  local way = random(deep and #VALUES or #VALUES + 7)
  if way <= #VALUES then return VALUES[way]() end
  local list = {}
  local like = random(3)
  for k = 1, random(0, 3) do
    if like == 1 then list[k] = random(4)
    elseif like == 2 then list[k] = x else list[k] = random_value(true) end
  end
  return list
end
local function random_call()
  local n = random(0, 6)
  local args = { n = n }
  for k = 1, n do args[k] = random_value() end
  if random(4) == 1 then args[1] = layer end
  if random(2) == 1 then
    local o = {}
    for _ = 1, random(0, 3) do o[pick { "a", "b", "c", "dim", "keepdim", "shape", "rest", "dtype",
      "on", "nothing" }] = random_value() end
    if random(20) == 1 then o[1] = 1 end
    args.n = n + 1
    args[n + 1] = o
  end
  if random(8) == 1 then args.n = args.n + 1 end
  return args
end

--- Random arguments that are likely to fit the first form (signature), chosen by types in its text.
local function likely_call(text)
  local args, o = { n = 0 }, nil
  if text:find("^%w+:") then args = { n = 1, layer } end
  for name, kind in text:match("%b()"):gmatch("([%w_]+)%??: ([%w]+)") do
    local v = ({ T = x, num = 1.5, int = 2, axis = 1, axes = 1, dims = 2, bool = true, str = "s",
      fn = print, any = 1, Module = layer,
      Linear = layer, dtype = "f32", device = "cpu", table = {} })[kind]
    if random(6) == 1 then v = random_value() end
    local named = o or random(5) == 1
    if not named then args.n = args.n + 1 args[args.n] = v end
    -- sometimes by name and by position
    if named or random(20) == 1 then o = o or {} o[name] = v end
  end
  if o then args.n = args.n + 1 args[args.n] = o end
  return args
end

local function same(a, b)
  if type(a) ~= "table" or type(b) ~= "table" or a == b then return a == b or a ~= a and b ~= b end
  for k = 1, math.max(#a, #b) do
    if a[k] ~= b[k] or math.type(a[k]) ~= math.type(b[k]) then return false end
  end
  return true
end
local function shown(args)
  local out = {}
  for i = 1, args.n do
    local v = args[i]
    out[i] = flame.is_tensor(v) and "tensor" or type(v) == "table" and "table of " .. rawlen(v)
      or tostring(v)
    for k, e in next, type(v) == "table" and v or {} do
      out[i] = ("%s %s=%s"):format(out[i], tostring(k), flame.is_tensor(e) and "T" or tostring(e))
    end
  end
  return table.concat(out, "; ")
end
local REASON = { many = "at most, got", type = "must be", missing = "must be",
  twice = "by position and by name", option = "no option",
  key = "options have names", forms = "no form takes" }

local function compare(text, f, args)
  local form, want = oracle.read(text, flame.is_tensor, args)
  local got = table.pack(pcall(f, table.unpack(args, 1, args.n)))
  local where = ("%s\nwith (%s)"):format(text, shown(args))
  if not form then
    assert(got[1] == false, where .. "\nis taken, the oracle says " .. want)
    assert(got[2]:find(": f: ", 1, true), where .. "\nis not told in the function's name: "
      .. got[2])
    return want, got[2], where
  end
  assert(got[1], where .. "\nis refused: " .. tostring(got[2]))
  assert(got[2] == form, where .. ("\nis form %s, not %d"):format(got[2], form))
  assert(got.n - 2 == want.n, where .. ("\ngives %d parameters, not %d"):format(got.n - 2, want.n))
  for i = 1, want.n do
    assert(same(got[i + 2], want[i]) and math.type(got[i + 2]) == math.type(want[i]),
      where .. ("\nparameter %d is %s, not %s"):format(i, tostring(got[i + 2]), tostring(want[i])))
  end
  return "taken"
end

describe("random declarations", function()
  local rounds = tonumber(os.getenv "FLAME_DECLARE_ROUNDS") or 3000
  it(("take and refuse what the oracle does, %d of them"):format(rounds), function()
    math.randomseed(tonumber(os.getenv "FLAME_DECLARE_SEED") or 20)
    local met = {}
    for _ = 1, rounds do
      local forms = {}
      for k = 1, random(3) == 1 and random(2, 3) or 1 do forms[k] = random_form() end
      local text = table.concat(forms, "\n")
      local f = declared(text)
      for _ = 1, 8 do
        local why, message, where = compare(text, f, random(2) == 1 and random_call()
          or likely_call(forms[1]))
        met[why] = (met[why] or 0) + 1
        if message and #forms == 1 and why ~= "type" then
          local known = message:find(REASON[why], 1, true) or why == "option"
            and message:find("options have names", 1, true)
            or message:find("must be", 1, true)
          assert(known, where .. "\nis told: " .. message)
        end
      end
    end
    for _, why in ipairs { "taken", "many", "type", "missing", "twice", "option", "forms" } do
      assert((met[why] or 0) > rounds // 400, ("%s: met %d times"):format(why, met[why] or 0))
    end
  end)
end)
