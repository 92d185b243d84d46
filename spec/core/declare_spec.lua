--- Declarations of functions (src/lua/declare.h): what arguments they take, how they are told
-- what is
-- wrong with them, and thousands of random calls of random declarations against
-- spec/support/declare_oracle.lua.
local flame = require "flame"
local helper = require "spec.support.helper"
local oracle = dofile "spec/support/declare_oracle.lua"
flame.internal.load()                                     -- what is written in Lua
local internal = flame.internal
local nn = require "flame.nn"

--- The function of a text with a form on each line: it gives the number of the form and the
-- parameters.
local function declared(text)
  local forms = {}
  for _ in text:gmatch("[^\n]+") do
    local k = #forms + 1
    forms[k] = function(...) return k, ... end
  end
  return (internal.declare(text, "", table.unpack(forms)))
end
local function takes(expected, text, ...)
  local got = table.pack(declared(text)(...))
  assert.equal(expected.n or #expected, got.n - 1, text)
  for i = 1, expected.n or #expected do
    assert.equal(expected[i], got[i + 1], ("%s: parameter %d"):format(text, i))
    assert.equal(math.type(expected[i]), math.type(got[i + 1]),
      ("%s: kind of parameter %d"):format(text, i))
  end
  return got[1]
end
local function message_of(text, ...)
  local ok, message = pcall(declared(text), ...)
  assert.is_false(ok, text .. " takes what it should refuse")
  return message
end
local function refused(message, text, ...) assert.equal(message,
  (message_of(text, ...):gsub("^[^ ]-:%d+: ", ""))) end

local x, y = flame.ones(2, 3), flame.zeros(2)
local LOSS = 'loss(x: T, y: T, margin = 0.5, reduction: "none"|"mean"|"sum" = "mean") -> T'

describe("a declared function", function()
  it("gets its parameters in order, with the defaults of those left out", function()
    takes({ x, y, 0.5, "mean" }, LOSS, x, y)
    takes({ x, y, 2, "mean" }, LOSS, x, y, 2)
    takes({ x, y, 0.5, "sum" }, LOSS, x, y, nil, "sum")
  end)
  it("takes parameters under their names at the end, any of them but the first", function()
    takes({ x, y, 0.5, "sum" }, LOSS, x, y, { reduction = "sum" })
    takes({ x, y, 3, "none" }, LOSS, x, { reduction = "none", margin = 3, y = y })
    takes({ x, y, 3, "none" }, LOSS, x, y, 3, { reduction = "none" })
  end)
  it("takes an empty table as options without any",
    function() takes({ x, y, 0.5, "mean" }, LOSS, x, y, {}) end)
  it("does not mind nil behind its arguments or its options", function()
    takes({ x, y, 1, "mean" }, LOSS, x, y, { margin = 1 }, nil, nil, nil)
    takes({ x, y, 0.5, "mean" }, LOSS, x, y, nil, nil, nil, nil)
  end)
  it("leaves the table of options as it is", function()
    local o = { reduction = "sum" }
    declared(LOSS)(x, y, o)
    assert.same({ reduction = "sum" }, o)
  end)
  it("gives results and errors of the function as they are", function()
    local f = internal.declare("f(a: any)", "", function(a) if a == 1 then error({ 7 }) end
      return a, nil end)
    assert.equal(2, select("#", f(5)))
    local _, e = pcall(f, 1)
    assert.same({ 7 }, e)
  end)
  it("can yield", function()
    local f = internal.declare("f(a: int)", "", function(a) return coroutine.yield(a) + 1 end)
    local co = coroutine.wrap(function() return f(4) end)
    assert.equal(4, co())
    assert.equal(11, co(10))
  end)
  it("is parsed at its first call and not before", function()
    local f = internal.declare("f(a: nothing_of_the_kind)", "", function() end)
    assert.has_error(function() f(1) end)
  end)
  it("may be declared over several lines", function()
    takes({ 1, 2 }, "f(a: int,\n    b: int = 2) -> int", 1)
    refused("f: 2 arguments at most, got 3; it is f(a: int, b: int = 2) -> int",
      "f(a: int,\n    b: int = 2)\n  -> int", 1, 2, 3)
  end)
  it("lives without its text and through collections", function()
    local f = internal.declare(('f(a: int = 3, b = "%s")'):format("word"), "", function(...)
      return ... end)
    collectgarbage()
    assert.equal(3, (f()))
    collectgarbage()
    assert.equal("word", select(2, f()))
  end)
end)

describe("a type", function()
  it("int takes floats that are whole, as integers", function()
    takes({ 3 }, "f(a: int)", 3.0)
    takes({ -4 }, "f(a: axis)", -4.0)
    takes({ 2 ^ 53 | 0 }, "f(a: int)", 2.0 ^ 53)
    takes({ 3.0 }, "f(a: num|int)", 3.0)
  end)
  it("int refuses NaN, infinities, fractions and what no integer holds", function()
    refused("f: a must be an integer, got number 2.5 (a / b is a float, a // b an integer)",
      "f(a: int)", 2.5)
    assert.truthy(message_of("f(a: int)", 0 / 0):find("a must be an integer, got number %-?nan$"))
    refused("f: a must be an integer, got number inf", "f(a: int)", math.huge)
    refused("f: a must be an integer, got number 1e+30", "f(a: int)", 1e30)
    refused("f: a must be an integer, got string '3'", "f(a: int)", "3")
  end)
  it("num takes every number and nothing else", function()
    takes({ math.huge }, "f(a: num)", math.huge)
    refused("f: a must be a number, got string '3'", "f(a: num)", "3")
    refused("f: a must be a number, got boolean", "f(a = 1)", true)
  end)
  it("bool takes true and false alone", function()
    takes({ false }, "f(a = true)", false)
    refused("f: a must be true or false, got number 1", "f(a = true)", 1)
  end)
  it("fn takes what can be called", function()
    local object = setmetatable({ name = 1 }, { __call = print })
    takes({ object }, "f(a: fn)", object)
    takes({ 1, object }, "f(b: int, a: fn)", 1, object)
    refused("f: a must be a function, got a tensor", "f(a: fn)", x)
  end)
  it("axes takes one or a list", function()
    local list = { 1, 2 }
    takes({ list }, "f(a: axes)", list)
    takes({ 2 }, "f(a: axes)", 2)
    refused("f: a[2] must be an integer, got string 'b'", "f(a: axes)", { 1, "b" })
    refused("f: a must be an axis or a list of axes, got a tensor: write x:item()", "f(a: axes)", x)
  end)
  it("dims(n) takes one or a list of one or n", function()
    local list = { 1, 2 }
    takes({ x, list }, "f(x: T, a: dims(2) = 1)", x, list)
    takes({ x, list }, "f(x: T, a: dims(2) = 1)", x, { a = list })
    list = { 3 }
    takes({ list }, "f(a: dims(2))", list)
    refused("f: a must be an integer or a list of 2, got a list of 3", "f(a: dims(2))", { 1, 2, 3 })
  end)
  it("T[] takes lists of tensors", function()
    local list = { x, y }
    takes({ list, 1 }, "f(tensors: T[], dim: axis = 1)", list)
    local holes = { nil, x, nil, y }
    takes({ holes }, "f(list: any[])", holes)
    refused("f: tensors[2] must be a tensor, got number 4", "f(tensors: T[])", { x, 4 })
    refused("f: tensors must be a list of tensors, got a tensor", "f(tensors: T[])", x)
    refused("f: tensors must be a list of tensors, got table; of a module: net:parameters()",
      "f(tensors: T[])", nn.Linear(2, 2))
  end)
  it("of words takes one of them and tells the nearest", function()
    refused('loss: reduction must be "none", "mean" or "sum", got string \'maen\'; '
      .. "did you mean 'mean'?",
      LOSS, x, y, { reduction = "maen" })
  end)
  it("may be several", function()
    takes({ "same" }, 'f(a: dims(2)|"same"|"valid" = 0)', "same")
    takes({ 0 }, 'f(a: dims(2)|"same"|"valid" = 0)')
    refused('f: a must be an integer or a list of 2, "same" or "valid", got boolean',
      'f(a: dims(2)|"same"|"valid" = 0)', true)
  end)
  it("dtype and device take names", function()
    takes({ "f16" }, "f(a: dtype|device)", "f16")
    takes({ "cuda:1" }, "f(a: dtype|device)", "cuda:1")
    refused("f: a must be a dtype (f64 f32 f16 bf16 i64 i32 i16 i8 u8 bool), got string 'f99'",
      "f(a: dtype)", "f99")
  end)
  it("Class takes objects of it and of what is derived from it", function()
    local layer = nn.Linear(2, 2)
    takes({ layer }, "f(a: Module)", layer)
    takes({ layer }, "f(a: Linear)", layer)
    refused("f: a must be a Conv2d, got table", "f(a: Conv2d)", layer)
    refused("f: a must be a Module, got table", "f(a: Module)", {})
  end)
  it("is the default's where there is none", function()
    refused("f: a must be a string, got number 1", 'f(a = "b")', 1)
    refused("f: b must be an integer, got boolean", "f(a: int, b = a)", 1, true)
  end)
end)

describe("what may be left out", function()
  it("is nil, or an earlier parameter, or the literal", function()
    takes({ x, n = 2 }, "f(x: T, bias?: T)", x)
    takes({ 2, 2 }, "f(a: int, b = a)", 2.0)
    takes({ math.huge, -math.huge, 1e-5, -1 }, "f(a = inf, b = -inf, c = 1e-5, d = -1)")
  end)
  it("may be said by false, where false means nothing else", function()
    takes({ x, n = 2 }, "f(x: T, bias?: T)", x, false)
    takes({ x, n = 2 }, "f(x: T, bias?: T)", x, { bias = false })
    takes({ x, false }, "f(x: T, on?: bool)", x, false)
  end)
  it("is told where it is required", function()
    refused("loss: y must be a tensor, got nothing", LOSS, x)
    refused("loss: x must be a tensor, got nil", LOSS, nil, y)
    refused("f: b must be an integer, got nil", "f(a: int, b: int, c: int)", 1, nil, 3)
  end)
end)

describe("an option", function()
  it("that there is not is named with those there are and the nearest", function()
    refused("loss: no option 'redution', there is: y margin reduction; did you mean 'reduction'?",
      LOSS, x, y, { redution = "sum" })
  end)
  it("twice is refused", function()
    refused("loss: margin is given by position and by name; give it once", LOSS, x, y, 3,
      { margin = 3 })
    refused("loss: y is given by position and by name; give it once", LOSS, x, y, { y = y })
  end)
  it("with a key that is no name is refused", function()
    refused("loss: options have names (y margin reduction), got a key number 1", LOSS, x, y,
      { 1, margin = 3 })
  end)
  it("of a wrong type is refused in the function's name", function()
    refused("loss: margin must be a number, got string 'a'", LOSS, x, y, { margin = "a" })
  end)
  it("comes last", function()
    refused("loss: y must be a tensor, got table with names; the options table comes last", LOSS,
      x, { margin = 1 }, y)
  end)
  it("may come first where the first parameter may be left out", function()
    takes({ 3, 2 }, "f(a = 3, b = 1)", { b = 2 })
    refused("loss: x must be a tensor, got table with names; the options table comes last", LOSS,
      { y = y })
  end)
  it("behind * has no place", function()
    takes({ 1, 7 }, "f(a: int, *, b = 2)", 1, { b = 7 })
    refused("f: 1 argument at most, got 2; it is f(a: int, *, b = 2)", "f(a: int, *, b = 2)", 1, 7)
  end)
end)

describe("a parameter of any number", function()
  local ZEROS = ".zeros(shape...: int, *factory) -> T"
  it("takes them one by one, as a list or by name; they come last", function()
    takes({ n = 5, nil, nil, nil, 2, 3 }, ZEROS, 2, 3)
    takes({ n = 5, nil, nil, nil, 2, 3 }, ZEROS, { 2, 3.0 })
    takes({ n = 5, "f64", nil, true, 2, 3 }, ZEROS, 2, 3, { dtype = "f64", requires_grad = true })
    takes({ n = 4, "f64", nil, nil, 2 }, ZEROS, { shape = { 2 }, dtype = "f64" })
    takes({ n = 3 }, ZEROS, {})
    takes({ n = 3 }, ZEROS, {}, {})
    takes({ n = 3 }, ZEROS)
  end)
  it("refuses holes, lists among values, and two ways at once", function()
    refused("zeros: shape[2] must be an integer, got nil", ZEROS, 2, nil, 3)
    refused("zeros: shape come as values or as one list, not both", ZEROS, 2, { 3 })
    refused("zeros: shape is given by position and by name; give it once", ZEROS, 2,
      { shape = { 3 } })
    refused("zeros: shape[1] must be an integer, got string 'a'", ZEROS, { "a" })
  end)
  it("refuses a list that no stack holds", function()
    local function of(n)
      return setmetatable({}, { __len = function() return n end, __index = function()
        return 1 end })
    end
    refused("f: a list of 950000 is too long", "f(a...: any)", of(950000))
    local reads = 0
    local endless = setmetatable({}, { __len = function() return 1 << 40 end, __index = function()
      reads = reads + 1
      return reads <= 1000000 and 1 or error "read to its end"
    end })
    refused("zeros: a list of 1099511627776 is too long", ZEROS, endless)
    assert.equal(0, reads)
    assert.equal(5, select("#", declared("f(a...: any)")(of(4))))
  end)
  it("'...' takes what is left as it is", function()
    local t = { a = 1 }
    takes({ n = 4, print, nil, t, nil }, ".f(f: fn, ...) -> ...", print, nil, t, nil)
  end)
end)

describe("forms", function()
  local MAX = [[max(x: T) -> T
max(x: T, dim: axis, keepdim = false) -> values: T, positions: T
max(x: T, dim: axes, keepdim = false) -> T
max(x: T, other: T) -> T]]
  it("are tried in order, by what is given under names too", function()
    assert.equal(1, takes({ x }, MAX, x))
    assert.equal(2, takes({ x, 1, false }, MAX, x, 1))
    assert.equal(2, takes({ x, 2, true }, MAX, x, { keepdim = true, dim = 2 }))
    local axes = { 1, 2 }
    assert.equal(3, takes({ x, axes, false }, MAX, x, axes))
    assert.equal(3, takes({ x, axes, false }, MAX, x, { dim = axes }))
    assert.equal(4, takes({ x, y }, MAX, x, y))
    assert.equal(4, takes({ x, y }, MAX, x, { other = y }))
  end)
  it("are all told where none fits", function()
    refused("max: no form takes (a tensor, string 'a'); there is max(x: T) -> T, max(x: T, "
      .. "dim: axis, keepdim = false) -> values: T, positions: T, max(x: T, dim: axes, "
      .. "keepdim = false) -> T or max(x: T, other: T) -> T", MAX, x, "a")
  end)
  it("of which none has an option tell the nearest of all", function()
    refused("max: no option 'keepdims', there is: dim keepdim other; did you mean 'keepdim'?", MAX,
      x, { keepdims = true })
  end)
  it("tell an option that none has, though another thing does not fit in some", function()
    local text = "f(a = 1, b = 2)\nf(d: device, a = 1, b = 2)"
    refused("f: no option 'zz', there is: a b", text, { zz = 1 })
    refused("f: no option 'zz', there is: a b", text, "cuda", { zz = 1 })
    refused("f: a must be a number, got string 's'", text, { a = "s" })
  end)
  it("do not change an argument for one that follows", function()
    assert.equal(2, takes({ 3.0, "a" }, "f(a: int, b: int)\nf(a: num, b: str)", 3.0, "a"))
  end)
end)

describe("a tensor that was freed", function()
  it("is told as such", function()
    local z = flame.ones(2)
    z:free()
    assert.truthy(message_of("f(x: T)", z):find("f: ", 1, true))
    assert.truthy(message_of("f(x: T, y: T)", x, { y = z }):find("f: ", 1, true))
  end)
end)

describe("a method", function()
  local TO = "Module:to(target: dtype|device, copy = false) -> self"
  local layer = nn.Linear(2, 2)
  it("gets its object before its parameters, which all have names", function()
    takes({ layer, "f32", false }, TO, layer, "f32")
    takes({ layer, "cpu", true }, TO, layer, { target = "cpu", copy = true })
    takes({ layer }, "Module:to()", layer)
    takes({ n = 3, layer, 3, 4 }, "Module:to(sizes...: int)", layer, 3, 4)
  end)
  it("tells of a wrong object how it is called", function()
    refused("to: the object before the arguments must be a Module, got string 'f32'; "
      .. "write object:to(…)", TO, "f32")
    refused("to: the object before the arguments must be a Module, got nothing; "
      .. "write object:to(…)", TO)
  end)
  it("does not count its object", function()
    refused("to: 2 arguments at most, got 3; it is to(target: dtype|device, copy = false) -> self",
      TO, layer, "f32", true, 1)
    refused("to: no option 'self', there is: target copy", TO, layer, "f32", { self = 1 })
    refused("to: target must be a dtype or a device (f64 f32 f16 bf16 i64 i32 i16 i8 u8 bool, "
      .. "\"cpu\", \"cuda\", \"cuda:1\"), got string 'f31'", TO, layer, "f31")
  end)
end)

describe("a constructor", function()
  it("gets the object that is made before its parameters", function()
    local layer = nn.Linear(2, 2)
    takes({ layer, 3, true }, "new nn.Linear(outputs: int, bias = true)", layer, 3)
    takes({ layer, 3, false }, "new nn.Linear(outputs: int, bias = true)", layer,
      { bias = false, outputs = 3 })
    refused("Linear: outputs must be an integer, got nothing", "new nn.Linear(outputs: int)", layer)
    assert.equal("nn.Linear(outputs: int)",
      internal.declaration("new nn.Linear(outputs: int)")[1].text)
  end)
  it("is a function without an object where its name is longer than new", function()
    takes({ 3 }, "newer(a: int)", 3)
    takes({ 3 }, "new(a: int)", 3)
  end)
end)

describe("an object of a class", function()
  local opt = setmetatable({ groups = {} }, { __name = "Optimizer" })
  it("may be given by name where it is the first parameter", function()
    takes({ opt, 3 }, ".step(opt: Optimizer, size: int)", opt, 3)
    takes({ opt, 3 }, ".step(opt: Optimizer, size: int)", { opt = opt, size = 3 })
    takes({ opt, 3 }, ".step(opt: Optimizer, size: int)", opt, { size = 3 })
    refused("step: no option 'opts', there is: opt size; did you mean 'opt'?",
      ".step(opt: Optimizer, size: int)", { opts = opt, size = 3 })
  end)
  it("is a value of '...' and no list", function()
    local layer = nn.Linear(2, 2)
    takes({ n = 1, layer }, "f(layers...: Module|fn)", layer)
    takes({ n = 2, layer, print }, "f(layers...: Module|fn)", { layer, print })
  end)
end)

describe("a table", function()
  it("is a value where a parameter takes one, with names too", function()
    local state = { weight = x }
    takes({ state, true }, ".load(state: table, strict = true)", state)
    takes({ state, false }, ".load(state: table, strict = true)", state, { strict = false })
    local nothing = {}
    takes({ nothing, true }, ".load(state: table|T, strict = true)", nothing)
    refused("load: state must be a table, got number 3", ".load(state: table)", 3)
  end)
  it("of tables or tensors tells the element that fits none of them", function()
    refused("f: list[2] must be a tensor or a table, got number 3", "f(list: T[]|table[])",
      { x, 3 })
    refused("f: list[2] must be a tensor or a table, got number 3", "f(list: T[]|table[])",
      { {}, 3 })
  end)
end)

describe("a list as a default", function()
  it("is the call's own", function()
    local f = declared("f(betas: num[] = {0.9, -1, inf})")
    local _, a = f()
    assert.same({ 0.9, -1, math.huge }, a)
    assert.equal("integer", math.type(a[2]))
    a[1] = 7
    local _, b = f(nil)
    assert.same({ 0.9, -1, math.huge }, b)
    assert.equal("num[]", internal.declaration("f(a = {1})")[1].params[1].type)
    assert.equal("{0.9, 1}", internal.declaration("f(a = {0.9, 1})")[1].params[1].default)
  end)
end)

describe("a declaration that can not be read", function()
  local many = {}
  for k = 1, 40 do many[k] = "p" .. k .. ": T" end
  many = table.concat(many, ", ")
  for _, text in ipairs { "f", "f(", "f(a", "f(a:)", "f(a: )", "f(a: t)", "f(a: T", "f(a: T,)",
    "f(a T)", "f(a: dims)", "f(a: dims(x))",
    'f(a: "b)', "f(a: T = 1)", "f(a: int = 1.5)", 'f(a: "b" = "c")', "f(a = b)", "f(a = b, b = 1)",
      "f(a: T, a: T)", "f(a: T) ->",
    "f(a: T) -> b: T if c", "f(..., a: T)", "f(a...: int, b: int)", "f(*, a...: int)",
      "f(a?...: int)", "f(a: T) more", "f(a: T)\ng(a: T)",
    "f(a: T |)", "f(a = 1e)", "f(a = --1)", "f(a: T[)", "f(" .. ("a"):rep(30) .. ": T = nil)",
      "1f(a: T)", "(a: T)", "f?(a: T)", "new (a: T)", "f(a = {})", "f(a = {1)", "f(a: T = {1})",
      "f(a: int = {1})", "f(a = {\"b\"})", "Module:f(self: T)", "f(a = {1, })",
    "f(" .. many .. ")" } do
    it(("raises and names the place: %s"):format(text:sub(1, 40):gsub("\n", " / ")), function()
      local message = helper.message(internal.declaration, text)
      assert.truthy(message:find("declaration '", 1, true), message)
      assert.truthy(message:find("at character %d+$"), message)
    end)
  end
  it("raises where it is cut anywhere, or another character stands in it", function()
    local whole = 'new linalg.f_?(x: T, a...: int, *, b?: T|num, c: dims(2)|"s" = "s", d = -1e-5, '
      .. 'e = {1, -2.5e3 , inf}) -> y: T[], z: int if b'
    for n = 0, #whole - 1 do pcall(internal.declaration, whole:sub(1, n)) end
    for n = 1, #whole do
      for _, c in ipairs { "(", ")", "\"", "*", ".", "\0", "\n", "|", "=", "9", "\255" } do
        pcall(internal.declaration, whole:sub(1, n - 1) .. c .. whole:sub(n + 1))
      end
    end
    assert.equal("f", internal.declaration(whole).name)
  end)
end)

describe("what a declaration says", function()
  it("comes as a table", function()
    local text = 'f_?(x: T, n: int = 1, s = "a", *, on?: bool) -> y: T, z: T if on'
    local d = internal.declaration(text)
    assert.equal("f", d.name)
    assert.is_true(d.in_place)
    assert.same({ { name = "x", type = "T", optional = false, named = false },
      { name = "n", type = "int", default = "1", optional = false, named = false },
      { name = "s", type = "str", default = '"a"', optional = false, named = false },
      { name = "on", type = "bool", optional = true, named = true } }, d[1].params)
    assert.same({ { name = "y", type = "T" }, { name = "z", type = "T", flag = "on" } },
      d[1].results)
  end)
  it("comes of the function too, before and after a call", function()
    local f = declared("f(a: int)\nf(a: str)")
    assert.equal(2, #internal.declaration(f))
    f(1)
    assert.equal("f(a: str)", internal.declaration(f)[2].text)
    assert.is_nil(internal.declaration(print))
  end)
end)

-- ---- the library's own -----------------------------------------------------------------------
--- Calls of docs/ops.md by name, those that are declarations.
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
--- Every function of the core library that is public, also under another name: name -> function.
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
--- The texts of all forms, as the page has them, with this name.
local function texts_of(d, name)
  local texts = {}
  for k, form in ipairs(d) do
    texts[k] = form.text:gsub("^[%.:]", ""):gsub("^[%w_%.]+%??", name)
  end
  return table.concat(texts, "; ")
end
--- A value that a parameter takes, by its atoms; nil: there is none here.
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

--- What is wrong of each public function of the core library: what check says of it, or nothing.
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
      if takes_table(place) or takes_table(first) then return end      -- it is the table's own key
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

-- ---- random declarations and calls ----------------------------------------------------------
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

--- A call that the first form has a chance to take: values by the types of its text.
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
    if named or random(20) == 1 then o = o or {} o[name] = v end      -- sometimes both
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
