-- Saved programs (docs/programs.md): a program that flame.export writes computes the same bits as
-- the function, in each run; functions that can not be saved are refused; files of format 1 load in
-- all later versions. Runs on a GPU too.

local flame = require "flame"
local helper = require "spec.support.helper"
local cases = require "spec.support.saved_programs"

local folder = os.tmpname()
os.remove(folder)
os.execute("mkdir '" .. folder .. "'")
teardown(function() os.execute("rm -rf '" .. folder .. "'") end)
local path = folder .. "/program"

local function read(name)
  local f <close> = assert(io.open(name, "rb"))
  return f:read "a"
end
local function write(name, bytes)
  local f <close> = assert(io.open(name, "wb"))
  f:write(bytes)
end

--- Compares the bits of two lists of results, or their values within a tolerance.
local function compare(expected, actual, tolerance)
  assert.equal(#expected, #actual)
  for i, x in ipairs(expected) do
    if tolerance then assert.allclose(x, actual[i], { rtol = 1e-4, atol = 1e-5 })
    else assert.is_true(x:equal(actual[i]), "result " .. i) end
  end
end

--- The results of a function as a list, in the order of a program's outputs: by name for a table.
local function results(...)
  local first = ...
  if type(first) ~= "table" then
    local list = { ... }
    for i, x in ipairs(list) do list[i] = x:clone() end
    return list
  end
  local list, names = {}, {}
  for name in pairs(first) do names[#names + 1] = name end
  table.sort(names)
  for i, name in ipairs(names) do list[i] = first[name] end
  return list
end

local function follow(case, f, p, tolerance)
  p:seed(5)
  for k = 1, case.runs do
    local inputs = { case.more(k) }
    local rng = flame.rng_state()
    if k == 1 then flame.seed(5) else flame.rng_state(case.rng) end
    local expected = results(f(table.unpack(inputs)))
    case.rng = flame.rng_state()
    flame.rng_state(rng)
    compare(expected, { p(table.unpack(inputs)) }, tolerance)
  end
end

describe("a saved program", function()
  for _, case in ipairs(cases) do
    it("has the bits of the script: " .. case.name, function()
      local f, given = case.make()
      flame.export(path, f, given)
      local p <close> = flame.program(path)
      follow(case, f, p)
    end)

    it("of format 1 loads and runs: " .. case.name, function()
      local f = case.make()
      local p <close> = flame.program("spec/golden/programs/" .. case.name .. ".safetensors")
      follow(case, f, p, true)
    end)
  end

  it("leaves tensors, gradients and random numbers as they were", function()
    local w = flame.ones(3):requires_grad_()
    local function f(x)
      w.grad = nil
      local loss = (w * x * flame.rand(3)):sum()
      loss:backward()
      flame.no_grad(function() w:sub_(w.grad) end)
      return loss:detach()
    end
    flame.seed(3)
    local before = flame.rng_state()
    flame.export(path, f, { flame.ones(3) })
    assert.same({ 1, 1, 1 }, w:totable())
    assert.is_nil(w.grad)
    assert.same(before, flame.rng_state())
    assert.is_true(w.requires_grad and w.is_leaf)
  end)

  it("has the gradients of views that repeat elements", function()
    local views = {
      function(x) return x:unfold(2, 3, 2) end,
      function(x) return x:unfold(1, 2, 1) end,
      function(x) return x:diagonal(0, 2, 1):cummax(1) end,
      function(x) return x:as_strided({ 3, 2, 3 }, { 5, 0, 1 }, 1) end }
    for _, view in ipairs(views) do
      local function f(x)
        local v = x:clone():requires_grad_()
        local g = view(v):sin():sum():gradients({ v }, { create_graph = true })[v]
        return g:detach(), (g * g):sum():gradients({ v })[v]
      end
      flame.export(path, f, { flame.randn(4, 5) })
      local p <close> = flame.program(path)
      local x = flame.randn(4, 5)
      compare({ f(x) }, { p(x) })
    end
  end)

  it("goes back to its first state and keeps its own", function()
    local sum = flame.zeros(2)
    flame.export(path, function(x) return sum:add_(x) end, { flame.ones(2) })
    local p <close> = flame.program(path)
    local q <close> = flame.program(path)
    local one = p(flame.ones(2))
    assert.same({ 2, 2 }, p(flame.ones(2)):totable())
    assert.same({ 5, 5 }, q(flame.full({ 2 }, 5)):totable())
    assert.same({ 1, 1 }, one:totable())
    p:reset()
    assert.same({ 3, 3 }, p(flame.full({ 2 }, 3)):totable())
    assert.same({ 0, 0 }, sum:totable())
  end)

  it("keeps apart a state and a tensor that shared its memory", function()
    local a = flame.zeros(2)
    local b = a:detach()
    flame.export(path, function(x)
      a:add_(x)
      return a - b
    end, { flame.ones(2) })
    local p <close> = flame.program(path)
    p(flame.ones(2))
    assert.same({ 2, 2 }, p(flame.ones(2)):totable())
  end)

  it("says what it takes and gives", function()
    flame.export(path, function(x, y) return { sum = x + y, count = x:sum(2):long() } end,
      { flame.ones(3, 2), flame.ones(2), vary = { x = { 1 } } })
    local p <close> = flame.program(path)
    local shown = {}
    for _, list in ipairs { p:inputs(), p:outputs() } do
      for _, q in ipairs(list) do
        shown[#shown + 1] = q.name .. " " .. q.dtype .. " " .. table.concat(q.shape, ",")
      end
    end
    assert.same({ "x f32 -1,2", "y f32 2", "count i64 -1", "sum f32 -1,2" }, shown)
  end)

  it("keeps the bias of a half type in its product", function()
    local x, w, b = flame.randn(5, 4):bfloat16(), flame.randn(3, 4):bfloat16(),
      flame.randn(3):bfloat16()
    local function f(v) return flame.linear(v, w, b) end
    flame.export(path, f, { x })
    assert.is_true(f(x):equal(flame.program(path)(x)))
  end)

  it("saves equal weights once, and of a large tensor what it needs", function()
    local big, w = flame.arange(0, 99999), flame.randn(50, 50)
    local v = w:clone():contiguous()
    flame.eval(big, v)
    flame.export(path, function(x) return (x:matmul(w):matmul(v) + big[{ { 1, 50 } }]):relu() end,
      { flame.ones(1, 50) })
    local size = #read(path)
    assert.is_true(size > 10000 and size < 13000, size)
  end)

  it("computes an index out of range as an error, and its state is as before", function()
    local w, n = flame.arange(1, 4), flame.zeros(1)
    flame.export(path, function(ids)
      n:add_(w[ids]:sum())
      return n
    end, { flame.tensor({ 1, 2 }, { dtype = "i64" }) })
    local p <close> = flame.program(path)
    local bad = p(flame.tensor({ 1, 9 }, { dtype = "i64" }))
    assert.error_matches(function() bad:item() end, "index 9 at position 2 is out of range")
    assert.equal(7, p(flame.tensor({ 3, 4 }, { dtype = "i64" })):item())
  end)
end)

describe("an export refuses", function()
  local x = flame.ones(4)
  local function refuses(message, f, given)
    local why = helper.message(flame.export, path, f, given or { x })
    assert.matches(message, why)
    assert.is_nil(io.open(path .. ".new"))
  end

  it("a branch on what depends on an input, with its line", function()
    local line = debug.getinfo(1, "l").currentline + 2
    refuses("programs_spec.lua:" .. line .. ".* depends on input 1 is read here", function(v)
      if v:sum():item() > 0 then return v end
      return -v
    end)
    refuses("depends on input 1", function(v) return flame.tensor(v:totable()) end)
    refuses("random number is read", function(v) return v * flame.rand(1):item() end)
  end)

  it("a state that is read, with its line", function()
    local n = flame.zeros(1)
    local line = debug.getinfo(1, "l").currentline + 2
    refuses("spec.lua:" .. line .. ": export: a tensor that f writes to is read", function(v)
      local k = n:item()
      n:add_(1)
      return v * k
    end)
  end)

  it("what is another program in the next call", function()
    local n, list = 0, {}
    refuses("two calls of f record different programs, first at .*#3' and 'mul x0 #4'", function(v)
      n = n + 1
      return v * n
    end)
    refuses("two calls of f record different programs", function(v)
      list[#list + 1] = v
      for i = 1, #list do v = v + list[i] end
      return v
    end)
  end)

  it("sizes that change the program", function()
    refuses("for the sizes 5 and 8 f records different programs, first at .*programs_spec",
      function(v)
        for _ = 1, v.shape[1] do v = v + 1 end
        return v
      end, { x, vary = { v = { 1 } } })
    refuses("for the size %d+ f records another program", function(v)
      return v.shape[1] > 100 and v + 1 or v
    end, { x, vary = { v = { 1 } } })
    refuses("different programs", function(v) return v:outer(v):reshape(-1) end,
      { x, vary = { v = { 1 } } })
  end)

  it("writes to its inputs, seeds, other results and options", function()
    refuses("f writes to its input 1", function(v) return v:add_(1) end)
    refuses("f sets the seed", function(v)
      flame.seed(1)
      return v + flame.rand(4)
    end)
    refuses("result out1 of f is a number", function() return 1 end)
    refuses("f must return tensors", function() end)
    refuses("no option 'size'", function(v) return v end, { x, size = {} })
    refuses("f has no input 'w'", function(v) return v end, { x, vary = { w = { 1 } } })
    refuses("v has no axis 2", function(v) return v end, { x, vary = { v = { 2 } } })
    refuses("the axes have sizes 4 and 2", function(v, w) return v, w end,
      { x, flame.ones(2), vary = { v = { 1 }, w = { 1 } } })
    refuses("own", function() error "own" end)
    assert.same({ 1, 1, 1, 1 }, x:totable())
  end)
end)

describe("a program's file", function()
  local bytes
  setup(function()
    local w = flame.ones(4)
    flame.export(path, function(v) return w[v:long()] + w end, { flame.ones(4) })
    bytes = read(path)
  end)

  --- Writes the saved file again with another program text and the same tensors.
  local function with(text)
    local header = bytes:sub(9, 8 + string.unpack("<I8", bytes))
    local from, to = header:find('"flame.program":"[^"]*"')
    header = header:sub(1, from - 1) .. '"flame.program":"' .. text:gsub("\n", "\\n") .. '"'
      .. header:sub(to + 1)
    header = header .. (" "):rep(-#header % 8)
    write(path, string.pack("<I8", #header) .. header .. bytes:sub(9 + string.unpack("<I8", bytes)))
  end

  local function refuses(text, message)
    with("program 1\ngraph 0\ninput _v f32 4\n" .. text)
    assert.error_matches(function() flame.program(path) end, message)
  end

  it("is believed in nothing", function()
    refuses("index 0 9 x0\noutput _y %0", "line 3: .*need an integer dtype")
    refuses("cast i64 x0\ngather 0 0 c0 %0\noutput _y %1",
      "line 4: 'gather': .* index for that axis")
    refuses("cast i64 x0\nindex 0 5 %0\ngather 0 0 c0 %1\noutput _y %2", "index for that axis")
    -- positions are counted from 0: not past the axis, and neither from elsewhere nor in steps
    refuses("iota i64 =0 =1 5\ngather 0 0 c0 %0\noutput _y %1", "count its positions")
    refuses("iota i64 =1 =1 4\ngather 0 0 c0 %0\noutput _y %1", "count its positions")
    refuses("iota i64 =0 =2 2\ngather 0 0 c0 %0\noutput _y %1", "count its positions")
    refuses("iota i64 =0 =1 4\nadd %0 =1\ngather 0 0 c0 %1\noutput _y %2", "count its positions")
    refuses("iota i64 =0 =1 5\ncopy %0\ngather 0 0 c0 %1\noutput _y %2", "count its positions")
    refuses("view 1 1 4 x0\noutput _y %0", "leaves the 4 elements")
    refuses("view 0 1 4 9 x0\noutput _y %0", "leaves the 4 elements")
    refuses("add x0 %0\noutput _y %0", "line 3: 'add': term 2 must be a value that is there by now")
    refuses("add x0 c7\noutput _y %0", "a value that is there")
    refuses("exp x0 x0\noutput _y %0", "term 2 must be the last")
    refuses("matmul x0 x0 \noutput _y %0", "'' is no term")
    refuses("frobnicate x0\noutput _y %0", "no op 'frobnicate'")
    for _, op in ipairs { "custom x0", "mix x0 x0", "adam x0 x0 x0" } do
      refuses(op .. "\noutput _y %0", "line 3: no program has the op '" .. op:match "%a+" .. "'")
    end
    refuses("{\n}\noutput _y x0", "nested blocks need a later version")
    refuses("write s0 x0\noutput _y x0", "must be a state")
    refuses("call kernel _k f32 1 4 9 1 1 1 1 1 1 0 0 0 0 k0 x0\noutput _y %0",
      "a kernel that is there")
    refuses("call argsort _s i64 1 9 4 1 9 1 0 0 x0\noutput _y %0", "do not fit a call")
    refuses("fill f32 #0 9223372036854775000 8\noutput _y %0", "too many")
    refuses("output _y x0\noutput _z", "a port needs a name")
    refuses("add x0 #x7ff\noutput _y %0", "no term")
    refuses("graph 0\noutput _y x0", "other inputs or outputs")
    with("program 2\n")
    assert.error_matches(function() flame.program(path) end, "later format")
    with("other")
    assert.error_matches(function() flame.program(path) end, "does not begin")
    flame.save(path, { a = flame.ones(1) })
    assert.error_matches(function() flame.program(path) end, "holds no program")
    for _, far in ipairs { "=9223372036854775808", "=-9223372036854775809",
      "=18446744073709551617" } do
      refuses("add x0 " .. far .. "\noutput _y %0", "no term")
    end
    with("program 1\ngraph 0\ninput _v f32 4\noutput _y x0")
    local p <close> = flame.program(path)
    assert.same({ 1, 2, 3, 4 }, p(flame.arange(1, 4):float()):totable())
  end)

  it("holds a product and what is added to it, as a GPU records them", function()
    local square = "program 1\ngraph 0\ninput _v f32 4\nview 0 2 2 2 x0\n"
    with(square .. "matmul %0 %0 %0\noutput _y %1")
    do
      local p <close> = flame.program(path)
      local m = flame.tensor { { 1, 2 }, { 3, -4 } }
      assert.same((m:matmul(m) + m):totable(), p(m:flatten()):totable())
    end
    local rows = "view 0 2 2 2 x0\nview 0 2 4 1 x0\n"
    refuses(rows .. "matmul %0 %0 %1\noutput _y %2", "line 5: .*an array of the product's shape")
    refuses(rows .. "cast f64 %0\nmatmul %2 %2 %2\noutput _y %3", "a sum needs f32")
    refuses(rows .. "matmul %0 %0 x0\noutput _y %2", "a bias needs half types")
    refuses(rows .. "cast f64 %0\nmatmul %0 %0 %2\noutput _y %3", "a sum needs f32")
  end)

  it("is closed by an error in its scope, which stays as it is", function()
    with("program 1\ngraph 0\ninput _v f32 4\noutput _y x0")
    local program
    local ok, why = pcall(function()
      local p <close> = flame.program(path)
      program = p
      error("of the script", 0)
    end)
    assert.is_false(ok)
    assert.equal("of the script", why)
    assert.error_matches(function() program(flame.ones(4)) end, "need an open program")
  end)

  it("holds each integer", function()
    local x = flame.tensor({ 1, -3 }, { dtype = "i64" })
    for _, v in ipairs { math.maxinteger, math.mininteger, math.maxinteger - 1, -7 } do
      flame.export(path, function(a) return a:minimum(v) end, { x })
      local p <close> = flame.program(path)
      assert.same({ math.min(1, v), math.min(-3, v) }, p(x):totable())
    end
  end)

  it("gives each sum of a kernel's gradient a result to go to", function()
    local golden = read "spec/golden/programs/sums.safetensors"
    local nowhere, n = golden:gsub("(_scale_vjp [^_]-) 98 0 ", "%1 00 0 ")
    assert.equal(1, n)
    write(path, nowhere)
    assert.error_matches(function() flame.program(path) end, "does not fit its parameter")
  end)

  it("is run with the inputs that it names", function()
    with("program 1\ngraph 0\ninput _v f32 4\noutput _y x0")
    local p <close> = flame.program(path)
    local function fails(message, ...)
      local list = { ... }
      assert.error_matches(function() p(table.unpack(list)) end, message)
    end
    fails("0 inputs and 1 outputs are given")
    fails("input v is i64, need f32", flame.ones(4, { dtype = "i64" }))
    fails("input v has shape %(5%), and no graph .* it takes %(4%)", flame.ones(5))
    fails("v must be a tensor, got number 1", 1)
    p:close()
    fails("need an open program", flame.ones(4))
  end)
end)
