--- Declarations of functions (src/lua/declare.h): which arguments are accepted, and the messages
--- for other arguments.
local flame = require "flame"
local helper = require "spec.support.helper"
-- loads all functions that are written in Lua, which otherwise come at their first use
flame.internal.load()
local internal = flame.internal
local nn = require "flame.nn"

local declared = dofile "spec/support/declared.lua"
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
  return helper.message(declared(text), ...)
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
  it("may have the place of a nil, whatever else the options have and in which order", function()
    for name in ("a b c d e f g h i j"):gmatch "%a" do
      local text = ("f(x: T, %s?: int, *, kind?: dtype)"):format(name)
      takes({ n = 3, x, 2, "f32" }, text, x, nil, { [name] = 2, kind = "f32" })
    end
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

local function list_of(n, v)
  return setmetatable({}, { __len = function() return n end, __index = function() return v end })
end

describe("a list that its metatable gives", function()
  local LIST = "f(a: T[]|int, b?: num[]) -> T"
  it("becomes a plain one of its elements", function()
    local _, a, b = declared(LIST)(list_of(2, x), { b = list_of(3, 1.5) })
    assert.is_nil(getmetatable(a))
    assert.is_true(#a == 2 and rawequal(rawget(a, 1), x) and rawequal(rawget(a, 2), x))
    assert.same({ 1.5, 1.5, 1.5 }, b)
    local shorter = setmetatable({ 1, 2, 3 }, { __len = function() return 2.0 end })
    assert.same({ 1, 2 }, (select(3, declared(LIST)(1, shorter))))
    local plain = { x }
    assert.is_true(rawequal(plain, (select(2, declared(LIST)(plain)))))
  end)
  it("is refused for an element as any other", function()
    refused("f: a[1] must be a tensor, got number 1", LIST, list_of(2, 1))
    refused("f: b[1] must be a number, got string 's'", LIST, 1, { b = list_of(1, "s") })
  end)
  it("is refused for a length that is none", function()
    for _, n in ipairs { -1, 1.5, 0 / 0, math.huge, "3" } do
      refused("f: the length of a list must be an integer from 0 on, its __len gives "
        .. tostring(n), LIST, list_of(n, x))
      refused("f: the length of a list must be an integer from 0 on, its __len gives "
        .. tostring(n), "f(a: str)\nf(a: T[])", list_of(n, x))
    end
    refused("f: a list of 4611686018427387904 is too long", LIST, list_of(1 << 62, x))
  end)
  it("is refused where it is another when it is read again", function()
    local function fickle(field)
      local n, reads = 2, 0
      return setmetatable({}, { __len = function() return n end, __index = function()
        reads = reads + 1
        if reads < 2 then return x end
        if field == "length" then n = 1.5 return x end
        return reads == 2 and x or 7
      end })
    end
    refused("f: a changed while it was read", LIST, fickle "length")
    refused("f: a changed while it was read", LIST, fickle "element")
    refused("f: a changed while it was read", "f(a...: T)", fickle "element")
  end)
  it("raises what its metatable raises", function()
    local own = setmetatable({}, { __len = function() error("mine", 0) end })
    assert.equal("mine", message_of(LIST, own))
  end)
  it("is left as it is where any table or value is taken, or an object of a class", function()
    local any = list_of(2, 1)
    assert.is_true(rawequal(any, (select(2, declared("f(a: table)")(any)))))
    assert.is_true(rawequal(any, (select(2, declared("f(a: any)")(any)))))
    local net = require("flame.nn").Linear(2, 2)
    assert.is_true(rawequal(net, (select(2, declared("f(a: Module|T[])")(net)))))
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
    refused("f: a list of 950000 is too long", "f(a...: any)", list_of(950000, 1))
    local reads = 0
    local endless = setmetatable({}, { __len = function() return 1 << 40 end, __index = function()
      reads = reads + 1
      return reads <= 1000000 and 1 or error "read to its end"
    end })
    refused("zeros: a list of 1099511627776 is too long", ZEROS, endless)
    assert.equal(0, reads)
    assert.equal(5, select("#", declared("f(a...: any)")(list_of(4, 1))))
  end)
  it("takes the elements that a list's metatable gives", function()
    takes({ n = 6, nil, nil, nil, 5, 5, 5 }, ZEROS, list_of(3, 5))
    refused("zeros: shape[1] must be an integer, got string 'a'", ZEROS, list_of(2, "a"))
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
