--- Statistics of gradients: flame.gradients_table and flame.backward_trace.
local flame = require "flame"
local nn, optim = require "flame.nn", require "flame.optim"
local raises_with = require("spec.support.helper").raises
local function raises(f, message) raises_with(message, f) end

local function here(back)
  return ("gradient_table_spec.lua:%d"):format(debug.getinfo(2, "l").currentline - (back or 0))
end
local function leaf(values) return flame.tensor(values, { requires_grad = true }) end
--- A parameter with this gradient.
local function with(g, weight)
  local p = leaf(weight or { 1, 1, 1, 1 })
  p.grad = flame.tensor(g)
  return p
end
local nan, inf = 0 / 0, math.huge

describe("flame.gradients_table", function()
  it("has each parameter's norm, largest magnitude, NaN, Inf and zeros", function()
    local t = flame.gradients_table { a = with { 3, -4, 0, 0 }, b = with { nan, 1, inf, -inf } }
    local a, b = t[1], t.b
    assert.same({ "a", 5, 4, 2.5, 0, 0, 2, "" },
      { a.name, a.norm, a.max, a.rms, a.nan, a.inf, a.zeros, a.mark })
    assert.same({ "b", 1, 1, 1, 2, 0, "NaN" },
      { b.name, b.norm, b.max, b.nan, b.inf, b.zeros, b.mark })
    assert.equal("Inf", flame.gradients_table { with { 1, inf, 1, 1 } }[1].mark)
    assert.is_nil(t.c)
  end)
  it("does not overflow or underflow where squares would", function()
    local t = flame.gradients_table { with { 3e30, 4e30, 0, 0 }, with { 3e-30, 4e-30, 0, 0 } }
    assert.near(5e30, t[1].norm, 1e25)
    assert.near(5e-30, t[2].norm, 1e-35)
  end)
  it("counts magnitudes by decades, and draws them", function()
    local row = flame.gradients_table { with { 1e-20, -2e-3, 3e-3, 500 } }[1]
    assert.same({ 1, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 1 }, row.decades)
    local text = tostring(flame.gradients_table { with { 1e-20, -2e-3, 3e-3, 500 } })
    assert.is_truthy(text:find("▄      █   ▄", 1, true), text)
  end)
  it("marks what vanishes, explodes and is all 0", function()
    local t = flame.gradients_table { with { 1e-8, 0, 0, 0 }, with { 0.1, 0.1, 0.1, 0.1 },
      with { 0.1, 0.1, 0.2, 0.1 }, with { 9e-5, 9e-5, 9e-5, 9e-5 }, with { 0, 0, 0, 0 },
      with { 2e4, 0, 0, 0 }, with { 50, 50, 50, 50 } }
    local marks = {}
    for i, row in ipairs(t) do marks[i] = row.mark end
    assert.same({ "vanishing", "", "", "vanishing", "zero", "exploding", "exploding" }, marks)
  end)
  it("does not call the last layer's gradients large where the first vanish", function()
    local t = flame.gradients_table { with { 1e-6, 1e-6, 1e-6, 1e-6 },
      with { 1e-6, 1e-6, 1e-6, 1e-6 }, with { 0.1, 0.1, 0.1, 0.1 } }
    assert.equal("", t[3].mark)
  end)
  it("says why there is none, and what is frozen", function()
    local w, off, frozen = leaf { 1, 2 }, leaf { 1, 2 }, flame.ones(2)
    ;(w:detach() * off):sum():backward()
    local at = here(1)
    local t = flame.gradients_table { w = w, off = off, frozen = frozen }
    assert.equal("none", t.w.mark)
    assert.is_truthy(t.w.why:find("detached at", 1, true) and t.w.why:find(at, 1, true), t.w.why)
    assert.is_truthy(tostring(t):find("none: the backward at", 1, true))
    assert.equal("frozen", t.frozen.mark)
    assert.is_nil(t.off.why)
  end)
  it("makes a step and says by which part of the weight it moved", function()
    local net = nn.Sequential(nn.Linear(3, 2), nn.Tanh(), nn.Linear(2, 1, { bias = false }))
    net(flame.randn(5, 3)):square():sum():backward()
    local before = {}
    for name, p in net:named_parameters() do before[name] = p:clone() end
    flame.eval()
    local t = flame.gradients_table(net, { step = optim.SGD(net:parameters(), { lr = 0.5 }) })
    for name, p in net:named_parameters() do
      local moved = (p:detach() - before[name]):norm():item()
      assert.is_true(moved > 0)
      assert.near(moved / before[name]:norm():item(), t[name].ratio, 1e-5)
      assert.near(moved, 0.5 * t[name].norm, 1e-5 + 1e-5 * moved)
    end
    assert.is_truthy(tostring(t):find("update/weight", 1, true))
  end)
  it("marks weights that the step's rounding left as they were", function()
    local p = with({ 1e-4, 1e-4 }, { 1, 1 })
    local half = flame.ones(2, { dtype = "bf16", requires_grad = true })
    half.grad = flame.full({ 2 }, 1e-4, { dtype = "bf16" })
    local t = flame.gradients_table({ p, half }, { step = function()
      flame.no_grad(function()
        p:sub_(p.grad)
        half:sub_(half.grad)
      end)
    end })
    assert.equal("", t[1].mark)
    assert.equal("unchanged", t[2].mark)
    assert.equal(0, t[2].ratio)
  end)
  it("takes empty parameters, scalars, every float dtype, and no parameters", function()
    local list = {}
    for _, dtype in ipairs { "f64", "f32", "f16", "bf16" } do
      local p = flame.ones({ 2, 3 }, { dtype = dtype, requires_grad = true })
      p:sum():backward()
      list[#list + 1] = p
    end
    local none, one = leaf {}, leaf(2)
    none.grad = flame.tensor {}
    one.grad = flame.tensor(3)
    list[#list + 1], list[#list + 2] = none, one
    local t = flame.gradients_table(list, { step = function() end })
    for i = 1, 4 do assert.near(math.sqrt(6), t[i].norm, 1e-6) end
    assert.same({ 0, 0, "" }, { t[5].norm, t[5].numel, t[5].mark })
    assert.equal(3, t[6].norm)
    assert.is_string(tostring(t))
    assert.equal(0, #flame.gradients_table {})
    assert.is_string(tostring(flame.gradients_table(nn.ReLU())))
  end)
  it("changes neither gradients nor parameters, and leaves nothing", function()
    local p = with { 1, 2, 3, 4 }
    flame.leakcheck(function() return tostring(flame.gradients_table { p }) end)
    assert.same({ 1, 2, 3, 4 }, p.grad:totable())
    assert.same({ 1, 1, 1, 1 }, p:totable())
  end)
  it("refuses what is none", function()
    raises(function() flame.gradients_table { 1 } end,
      "gradients_table: 1 is a number, need a module or a table of tensors")
    raises(function() flame.gradients_table({}, { step = {} }) end,
      "gradients_table: step is a table without a step(), need an optimiser or a function")
  end)
end)

describe("flame.backward_trace", function()
  it("tells the steps of a backward in order, with lines and leaves by name", function()
    local w = leaf { 1, 2 }
    local y = (w * 3):exp()
    local at = here(1)
    local t = flame.backward_trace(y:sum(), { net = { w = w } })
    local ops = {}
    for i, row in ipairs(t) do ops[i] = row.op end
    assert.same({ "view", "sum", "exp", "mul", "w" }, ops)
    assert.is_truthy(t[3].line:find(at, 1, true))
    assert.same({ 1, { 2 }, false, true }, { t[3].max, t[3].shape, t[3].leaf, t[5].leaf })
    assert.near(math.exp(6), t[4].max, 1e-2)
    assert.near(3 * math.exp(6), w.grad[2]:item(), 1e-2)
  end)
  it("marks the first gradient with a NaN or Inf", function()
    local w = leaf { 0, 1 }
    local t = flame.backward_trace((w * w):sqrt():sum())
    local marks = {}
    for _, row in ipairs(t) do if row.mark ~= "" then marks[#marks + 1] = row.op .. row.mark end end
    assert.same({ "multhe first Inf" }, marks)
    assert.is_truthy(tostring(t):find("the first Inf", 1, true))
  end)
  it("sees gradients(), hooks' results, flame.func and several backwards of a function", function()
    local w, v = leaf { 1, 2 }, leaf { 3 }
    local f = flame.func { forward = function(_, a) return a * 2 end,
      backward = function(_, g) return g * 2 end }
    local t = flame.backward_trace(function()
      local y = f(w)
      y:register_hook(function(g) return g * 10 end)
      y:sum():gradients { w }
      v:sum():backward()
    end)
    local ops = {}
    for i, row in ipairs(t) do ops[i] = row.op end
    assert.same({ "view", "sum", "func", "leaf", "view", "sum", "leaf" }, ops)
    assert.equal(10, t[3].max)
    assert.equal(20, t[4].max)
  end)
  it("ends with what it is given, also by an error, and is not nested", function()
    local w = leaf { 1 }
    raises(function() flame.backward_trace(function() error("mine", 0) end) end, "mine")
    raises(function()
      flame.backward_trace(function() flame.backward_trace(w:sum()) end)
    end, "backward_trace: one is on already")
    local t = flame.backward_trace(function() end)
    w:sum():backward()
    assert.equal(0, #t)
    raises(function() flame.backward_trace(flame.ones(1)) end,
      "the tensor is not tracked: no input has requires_grad")
  end)
  it("leaves nothing", function()
    local w = leaf { 1, 2 }
    flame.leakcheck(function()
      w.grad = nil
      return #flame.backward_trace((w * 2):sum())
    end)
  end)
end)
