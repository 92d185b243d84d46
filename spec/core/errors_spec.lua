local flame = require "flame"
local helper = require "spec.support.helper"

local here = debug.getinfo(1, "S").short_src
local function line() return debug.getinfo(2, "l").currentline end

describe("an error", function()
  it("names the line, the op and the facts", function()
    local at = line() + 1
    local e = helper.message(function() return flame.zeros(4, 3):matmul(flame.zeros(5, 2)) end)
    assert.equal(("%s:%d: matmul: inner sizes differ, (4, 3) and (5, 2)"):format(here, at), e)
  end)
  it("names the line of the pcall when the function is called by it", function()
    local ok, e = pcall(flame.matmul, flame.zeros(4, 3), flame.zeros(5, 2))
    assert.is_false(ok)
    assert.equal(("%s:%d: matmul: inner sizes differ, (4, 3) and (5, 2)"):format(here, line() - 2),
      e)
  end)
  it("names the script's line when the library's Lua code fails", function()
    local e = helper.message(function() return flame.zeros(2):tile("x") end)
    assert.equal(("%s:%d: tile: dims[1] must be an integer, got string 'x'")
      :format(here, line() - 2), e)
    local f = helper.message(function() return flame.mse_loss(flame.zeros(2), flame.zeros(3)) end)
    assert.equal(("%s:%d: mse_loss: shapes (2) and (3) do not broadcast"):format(here, line() - 1),
      f)
  end)
  it("names the chunk of a loaded string", function()
    assert.matches("^chunk:2: a tensor has no field 'nope'",
      helper.message(load("local f = ... \n f.zeros(2).nope = 1", "=chunk"), flame))
  end)
  it("is told as a mistake in the use of the function that was called", function()
    local x, ids = flame.ones(2, 3), flame.tensor({ 1, 2 }, { dtype = "i64" })
    local function says(start, f)
      local e = helper.message(f)
      assert.equal(start, e:gsub("^.-:%d+: ", ""):sub(1, #start))
    end
    says("max: shapes (2, 3) and (5) do not", function() return x:max(flame.ones(5)) + 0 end)
    says("max: axis 1 of shape (0) is empty", function() return flame.zeros(0):max() + 0 end)
    says("min: axis 1 of shape (0, 2) is empty", function()
      return (flame.zeros(0, 2):min(1)) + 0
    end)
    says("std: dtype i32", function() return x:int():std() + 0 end)
    says("clamp: shapes", function() return x:clamp(flame.ones(5)) + 0 end)
    says("clamp_: shapes", function() return x:clamp_(flame.ones(5)) + 0 end)
    local bound = flame.zeros({ 5 }, { requires_grad = true })
    says("clamp: shapes", function() return x:clamp(bound, 1) + 0 end)
    says("clamp: shapes", function() return x:clamp(bound, bound) + 0 end)
    says("scatter: x must be a tensor, got string", function()
      return flame.scatter("x", 1, x:long(), x, nil)
    end)
    says("embedding: ids must be a tensor, got nil", function()
      return flame.embedding(nil, x, 1)
    end)
    says("embedding: weight has 0 axes, need 2", function()
      return flame.embedding(x:long(), x:sum(), 1)
    end)
    says("broadcast_to: shape (2, 3) can not", function() return x:broadcast_to({ 7 }) + 0 end)
    says("expand_as: shape (2, 3) can not", function() return x:expand_as(flame.ones(5)) + 0 end)
    says("mv: inner sizes", function() return x:mv(flame.ones(5)) + 0 end)
    says("linear: shapes", function()
      return flame.linear(x, flame.ones(2, 3), flame.ones(5)) + 0
    end)
    says("x[…]: shapes (2) and (3)", function()
      return x(ids, flame.tensor({ 1, 2, 3 }, { dtype = "i64" })) + 0
    end)
    says("x[…]: src has shape", function() x[x:gt(0)] = flame.ones(2) end)
    says("index_fill: src has shape", function()
      return x:index_fill(1, ids, flame.ones(3, 4)) + 0
    end)
    says("softplus: beta must be a number", function() return x:softplus(flame.ones(5)) + 0 end)
  end)
  it("comes from no line of the library's own, whatever a function is given", function()
    local t, i = flame.arange(12.0):reshape(3, 4), flame.tensor({ 1, 2, 9 }, { dtype = "i64" })
    local odd = { true, function() end, "a", {}, { a = 1 }, { {} }, { true }, 1.5, -9, 1 << 62, i,
      flame.tensor(1), t:int(), flame.zeros(0, 3) }
    local skip = { save = 1, load = 1, default_device = 1, debug = 1, profile = 1, help = 1,
      seed = 1, rng_state = 1, leakcheck = 1, deterministic = 1, info = 1, scope = 1, timer = 1,
      no_grad = 1, enable_grad = 1, kernel_cache = 1, inference_mode = 1, set_grad_enabled = 1,
      set_default_device = 1, set_rng_state = 1, use = 1, bench = 1 }
    local function try(name, ...)
      local ok, e = pcall(flame[name], ...)
      if ok then return end
      assert.equal("string", type(e), name)
      assert.equal(here, e:match("^(.-):%d+: [%w_.…%[%]]+: "), name .. ": " .. e)
    end
    -- ThreadSanitizer never drops frames left by longjmp, and has 65,536 of them: fewer calls then
    local seen, every = 0, os.getenv("FLAME_SANITIZE") == "thread" and 8 or 1
    for name, f in pairs(flame) do
      seen = seen + 1
      if type(f) == "function" and not skip[name] and seen % every == 0 then
        for _, v in ipairs(odd) do
          try(name, v)
          local x = name == "to_dlpack" and t:clone() or t           -- may be given away
          try(name, x, v)
          try(name, t, 1, v)
          try(name, t, t, v)
          try(name, v, t)
          try(name, t:clone(), v, v, v)
        end
        try(name)
        try(name, flame.ones(2, 3, 4, 5), flame.ones(2, 9, 3, 3))
      end
    end
  end)
  it("names parameters, not their numbers", function()
    local says, x = helper.says, flame.zeros(1)
    says("add: y must be a tensor or a number, got nothing", flame.add, x, {})
    says("add: y must be a tensor or a number, got table", flame.add, x, { 1 })
    says("add: x or y must be a tensor, both are numbers", flame.add, 1, 2)
    says("exp: x must be a tensor, got string 'x'", flame.exp, "x")
    says("exp: x must be a tensor, got nothing", flame.exp)
  end)
  it("keeps a percent sign of the script as it is", function()
    assert.matches("dtype must be a dtype .* got string '%%s%%n'",
      helper.message(flame.zeros, 1, { dtype = "%s%n" }))
  end)
  it("names the function that was called, not one that it is made of", function()
    helper.raises(": linspace: (9223372036854775807) elements are too many",
      flame.linspace, 0, 1, math.maxinteger)
  end)
  it("is told to programs by last_error", function()
    pcall(flame.matmul, flame.zeros(4, 3), flame.zeros(5, 2))
    local e = flame.last_error()
    assert.equal("bad argument", e.code)
    assert.equal("matmul", e.op)
    assert.equal("inner sizes differ, (4, 3) and (5, 2)", e.message)
    assert.equal("", e.hint)
    pcall(flame.mean, flame.ones(2, { dtype = "i64" }))
    assert.equal("cast first: x:float()", flame.last_error().hint)
  end)
  --- Calls f, which must raise; returns flame.last_error() and the message.
  local function told(f, ...)
    local text = helper.message(f, ...)
    local e = flame.last_error()
    assert.truthy(text:find(e.message, 1, true), text)
    assert.truthy(e.message:find(e.hint, 1, true), e.message)
    assert.is_nil((text .. e.message .. e.hint):find "%c")
    return e, text
  end
  it("tells what to do apart from the facts", function()
    local x = flame.ones(2, 3)
    for hint, f in pairs {
      ["write x[{2, 3}] = v, or clone() first"] = function() x[2]:zero_() end,
      ["reduce it, as x:sum(), or pass a seed of its shape"] = function()
        flame.ones(2, { requires_grad = true }):exp():backward()
      end,
      ["cast one of them"] = function()
        x:scatter_add(1, flame.ones(1, 1, { dtype = "i64" }), flame.ones(1, 1, { dtype = "f64" }))
      end,
      ["give size or scale_factor, not both"] = function()
        flame.interpolate(flame.ones(1, 1, 4), { size = 2, scale_factor = 2 })
      end,
      ["use flame.kernel"] = function() flame.cuda.load("__global__ void k(float *x) {}", "k") end,
      ["use target:long()"] = function() flame.cross_entropy(x, flame.ones(2)) end,
      ["did you mean 'keepdim'?"] = function() x:sum(1, { keepdims = true }) end,
      ["did you mean 'momentum'?"] = function()
        flame.optim.SGD({ x }, 0.1).groups[1].momentun = 1
      end,
      ["x:tile(…)"] = function() return x["repeat"] end,
      [""] = function() x:sum(3) end,
    } do
      assert.matches(hint, told(f).hint:sub(-#hint), 1, true)
      assert.equal(hint == "", flame.last_error().hint == "")
    end
  end)
  it("tells what to do where a value is read, as well as where it is recorded", function()
    local lost = flame.cross_entropy(flame.ones(2, 3), flame.tensor({ 0, 1 }, { dtype = "i64" }))
    for _ = 1, 2 do
      local e = told(lost.item, lost)
      assert.same({ "bad value", "cross_entropy", "labels of a 0-based file need + 1" },
        { e.code, e.op, e.hint })
      assert.equal("class 0 at position 1, need 1 to 3 (labels of a 0-based file need + 1)", e.message)
    end
    assert.equal("labels of a 0-based file need + 1",
      told(function() return (lost + 1):item() end).hint)
  end)
  it("tells what to do of a kernel that is refused, and of one without a derivative", function()
    local kernel = [[__global__ void k(float *y, int n) { int i = threadIx.x; if (i < n) y[i] = 1; }]]
    local text = helper.message(flame.kernel, kernel)
    assert.matches("did you mean 'threadIdx'", text, 1, true)
    assert.equal("did you mean 'threadIdx'?", flame.last_error().hint)
    assert.is_nil(text:find("\1", 1, true))
    local k = flame.kernel [[__global__ void k(float *y, const float *x, int n) {
      if (threadIdx.x < n) atomicExch(&y[threadIdx.x], x[threadIdx.x]); }]]
    local y = k(flame.ones(4, { requires_grad = true }), 4)
    assert.equal("give vjp = ... or mark the argument nodiff",
      told(function() y:sum():backward() end).hint)
    helper.raises("; use fmodf", flame.kernel,
      "__global__ void k(float *y, int n) { y[0] = y[0] % 2.f; }")
  end)
  it("is of the last error, whether a script caught it or raises it again", function()
    local ok, outer = pcall(function()
      local _, inner = pcall(flame.mean, flame.ones(2, { dtype = "i64" }))
      assert.equal("cast first: x:float()", flame.last_error().hint)
      pcall(flame.matmul, flame.zeros(4, 3), flame.zeros(5, 2))
      assert.same({ "matmul", "" }, { flame.last_error().op, flame.last_error().hint })
      error(inner, 0)
    end)
    assert.is_false(ok)
    assert.matches("mean: dtype i64 is not supported; cast first: x:float()", outer, 1, true)
    assert.equal("matmul", flame.last_error().op)
  end)
  it("keeps what to do where the facts are too long", function()
    local names = {}
    for k = 1, 60 do names[k] = ("field_%d_of_many"):format(k) end
    local e = told(function()
      flame.nn.Linear(2, 2, { [("b"):rep(300)] = 1, ["bais"] = nil })
    end)
    assert.equal("", e.hint)
    e = told(function()
      flame.internal.fail("op", table.concat(names, " ") .. "\1; use field_1")
    end)
    assert.equal("use field_1", e.hint)
    assert.equal(799, #e.message)
    assert.matches(" field.*; use field_1$", e.message)
  end)
  it("of a class id names the class, the position and the range", function()
    local x, y = flame.randn(4, 10), flame.tensor({ 1, 2, 0, 10 }, { dtype = "i64" })
    helper.raises("cross_entropy: class 0 at position 3, need 1 to 10",
      function() return x:cross_entropy(y):item() end)
  end)
  it("leaves the session as it was", function()
    local x = flame.ones(3)
    for _ = 1, 10 do pcall(function() return x + flame.ones(4) end) end
    assert.same({ 2, 2, 2 }, (x + 1):totable())
  end)
  it("leaks nothing", function()
    collectgarbage() collectgarbage()
    local before = flame.stats().live_tensors
    for _ = 1, 50 do pcall(flame.matmul, flame.zeros(4, 3), flame.zeros(5, 2)) end
    collectgarbage() collectgarbage()
    assert.equal(before, flame.stats().live_tensors)
  end)
  it("refuses a foreign userdata without reading it", function()
    helper.raises("exp: x must be a tensor, got userdata", flame.exp, io.stdout)
  end)
  it("comes through the metatable's lock", function()
    assert.is_false(getmetatable(flame.ones(1)))
    assert.has_error(function() setmetatable(flame.ones(1), {}) end)
  end)
end)

describe("an interrupt", function()
  it("raises at the next evaluation and leaves the session intact", function()
    local x = flame.ones(4) + 1
    flame.internal.interrupt()
    assert.matches("interrupted!$", helper.message(function() return x:sum():item() end))
    assert.equal(8, (flame.ones(4) + 1):sum():item())
  end)

  it("leaves no trace where nothing of its run is left: values are computed together again", function()
    for _, ended in ipairs { "by eval", "by a read" } do
      local x = flame.ones(3)
      flame.internal.interrupt()
      assert.matches("interrupted!$", helper.message(function() return x:sum():item() end))
      if ended == "by a read" then x:sum():item() else
        x = nil
        collectgarbage()
        collectgarbage()
        flame.eval()
      end
      local a, b = flame.ones(3) + 1, flame.ones(3) * 3
      assert.same({ 2, 2, 2 }, a:totable())
      flame.stats("reset")
      assert.same({ 3, 3, 3 }, b:totable())
      assert.equal(0, flame.stats().launches, ended)
    end
  end)
end)

describe("running out of host memory", function()
  it("raises and lets the session go on", function()
    local a = flame.ones(3)
    for k = 1, 40 do
      flame.internal.fail_alloc(k)
      local ok, e = pcall(function()
        local t = flame.tensor({ 1, 2, 3 }, { requires_grad = true })
        local y = (t * a):sum()
        y:backward()
        return t.grad:totable()
      end)
      flame.internal.fail_alloc(0)
      if not ok then assert.is_string(e) end
      if ok then assert.same({ 1, 1, 1 }, e) end
    end
    assert.same({ 2, 2, 2 }, (a + 1):totable())
  end)
end)

describe("what rests on a value that failed", function()
  local function missing(x)
    return x:index_select(1, flame.full({ x.shape[1] }, 99, { dtype = "i64" }))
  end
  local function told(f)
    helper.raises("index 99 at position 1 is out of range", f)
  end

  it("fails with it: a write of what fails to a tensor that has failed", function()
    for _, from in ipairs { "i16", "f32", "f64" } do
      for _, when in ipairs { "before", "at the same time" } do
        local x = missing(flame.ones(2):double())
        if when == "before" then told(function() flame.eval(x) end) end
        x:copy_(missing(flame.ones(2):to(from)))
        told(function() flame.eval(x) end)
        told(function() x:totable() end)
        x:copy_(flame.ones(2))
        assert.same({ 1, 1 }, x:totable())
      end
    end
  end)

  it("fails with it, and writes of it are refused, though it was evaluated alone", function()
    local kept = flame.ones(1)
    flame.eval(kept)
    local x = missing(flame.ones(1))
    local y, z = x + 1, flame.ones(3) * 2
    local part = y:unsqueeze(1)
    kept:copy_(x * 2)
    -- more memory than there is
    local huge = flame.zeros(1000000, 1000000) + flame.rand(1000000, 1000000)
    told(function() x:item() end)
    told(function() y:item() end)
    told(function() part:item() end)
    local ok = pcall(huge.sum, huge)
    huge = ok and nil
    collectgarbage()
    collectgarbage()
    pcall(kept.item, kept)                          -- the first read reports the failed write
    assert.same({ 1 }, kept:totable())
    assert.same({ 2, 2, 2 }, z:totable())
  end)

  --- Two refused writes, a good one, a value that fails: reads 'first' first, returns its error.
  local function written(first)
    local source = flame.arange(5.0)
    local a, b, d = flame.zeros(2), flame.zeros(2), flame.zeros(2)
    flame.eval(source, a, b, d)
    local function at(k)
      return source:index_select(1, flame.tensor({ k, 1 }, { dtype = "i64" }))
    end
    a:copy_(at(100))
    b:copy_(at(200))
    d:copy_(at(2))
    local y = at(300) * 2
    local all = { a = a, b = b, d = d, y = y }
    local ok, why = pcall(all[first].totable, all[first])
    assert.is_false(ok)
    local function values(x) return x:totable() end
    assert.same({ { 0, 0 }, { 0, 0 }, { 2, 1 } }, { values(a), values(b), values(d) })
    helper.raises("index 300 at", values, y)
    return why
  end
  it("is told by eval of everything, with each write that was refused, and by no read after", function()
    local source, a, b, d = flame.arange(5.0), flame.zeros(1), flame.zeros(1), flame.ones(1)
    flame.eval(source, a, b, d)
    for _, how in ipairs { flame.eval, flame.synchronize } do
      local function at(k) return source:take(flame.tensor({ k }, { dtype = "i64" })) end
      a:copy_(at(100))
      b:copy_(at(200))
      local y = at(300)
      local why = helper.message(how)
      for _, index in ipairs { "100", "200" } do
        assert.equal(1, select(2, why:gsub("take: index " .. index .. " at", "")), why)
      end
      assert.same({ { 1 }, { 2 }, { 0 } }, { d:totable(), (d + 1):totable(), a:totable() })
      helper.raises("index 300 at", y.totable, y)
    end
  end)
  it("names each write that was refused, whichever value is read first", function()
    for _, first in ipairs { "a", "b", "d", "y" } do
      local why = written(first)
      for _, index in ipairs { "100", "200" } do
        local _, times = why:gsub("errors_spec.lua:%d+: index_select: index " .. index .. " at", "")
        assert.equal(1, times, why)
      end
      assert.equal(first == "y", why:find("index 300", 1, true) ~= nil)
    end
  end)
end)
