-- Comparing two computations (flame.compare, flame.bisect) and replacing an op by a function
-- (flame.use), with their messages.

local flame = require "flame"
local nn = require "flame.nn"

local refused = require("spec.support.helper").raises

local function line() return debug.getinfo(2, "l").currentline end

--- Checks that flame.compare(…) finds a difference, and that its message matches 'pattern', in
--- which LINE stands for the line 'at' of this file.
local function differs(at, pattern, ...)
  local same, where = flame.compare(...)
  assert.is_false(same)
  local place = "[^ ]*swap_spec%.lua:" .. (at or "")
  assert.matches(pattern:gsub("LINE", function() return place end), where)
end

local x, y = flame.randn(3, 4), flame.randn(4)
flame.eval(x, y)

local function net()
  return nn.Sequential(nn.Linear(4, 6), nn.GELU(), nn.Linear(6, 5), nn.LayerNorm(5),
    nn.Linear(5, 2))
end

describe("flame.compare", function()
  local function f(a, b) return ((a * 2):exp() + b):sum(2) end

  it("passes what is the same, to the bit, planned or op by op", function()
    assert.is_true((flame.compare(f, f, { x, y }, { bits = true })))
    assert.is_true((flame.compare(f, nil, { x, y }, { bits = true, eager = true })))
    assert.is_true((flame.compare(flame.exp, function(a) return a:exp() end, x)))
    local m = net()
    assert.is_true((flame.compare(m, m:clone(), x, { bits = true })))
  end)

  it("takes another dtype with the coarser one's tolerance", function()
    assert.is_true((flame.compare(f, nil, { x, y }, { dtype = "f64" })))
    assert.is_true((flame.compare(net(), nil, x, { dtype = "f64" })))
    local same, where = flame.compare(f, nil, { x, y }, { dtype = "f64", rtol = 0, atol = 0 })
    assert.is_false(same)
    assert.matches("^forward: ", where)
  end)

  it("names the first op whose value differs, with its line", function()
    local at
    local function g(a, b)
      local c = (a * 2.5):exp() at = line()
      return (c + b):sum(2)
    end
    g(x, y)
    differs(at, "^forward: mul at LINE, number 1 of 4, is the first that differs: 12 of 12 ",
      g, f, { x, y })
  end)

  it("names an argument that nothing of both made", function()
    local w1, w2 = flame.ones(4), flame.full({ 4 }, 2)
    differs("%d+", "^forward: mul at LINE, number 1 of 2, is the first that differs: its argument "
      .. "2 differs already: 4 of 4 elements differ", function(a) return (a * w1):sum() end,
      function(a) return (a * w2):sum() end, x)
  end)

  it("names the op whose backward differs", function()
    local function twice(factor)
      return flame.func { name = "twice", forward = function(_, a) return a * 2 end,
        backward = function(_, g) return g * factor end }
    end
    local right, wrong = twice(2), twice(3)
    local at
    local function of(t)
      return function(a)
        local b = a:sin()
        local c = t(b) at = line()
        return c:exp():sum()
      end
    end
    of(right)(x)
    differs(at, "^backward of twice at LINE is the first that differs: 12 of 12 elements differ",
      of(right), of(wrong), x)
    differs("%d+", "^backward of twice at LINE is the first that differs, in the gradient of input "
      .. "1: ", function(a) return right(a):sum() end, function(a) return wrong(a):sum() end, x)
    assert.is_true((flame.compare(of(right), of(wrong), x, { backward = false })))
  end)

  it("holds a kernel against its reference", function()
    local function kernel(factor)
      return flame.kernel { constants = { factor = factor }, source = [[
        __global__ void scale(const float *x, float *y, int n) {
          int i = blockIdx.x * blockDim.x + threadIdx.x;
          if (i < n) y[i] = x[i] * ${factor};
        }]] }
    end
    local two, three = kernel(2.0), kernel(3.0)
    assert.is_true((flame.compare(two, function(a) return a * 2 end, x)))
    differs(nil, "^forward: output 1 differs: 12 of 12 elements differ", three,
      function(a) return a * 2 end, x)
    differs("%d+", "^forward: kernel scale at LINE, number 2 of 3, is the first that differs: ",
      function(a) return two(a + 1):sum() end, function(a) return three(a + 1):sum() end, x)
  end)

  it("names the layer, the op in it, and the parameter that is another", function()
    local a = net()
    local b = a:clone()
    flame.no_grad(function() b[3].weight:mul_(1.5) end)
    differs("%d+", "^forward: linear at LINE in layer 3, number 5 of %d+, is the first that differs: "
      .. "its argument 2 %(3%.weight%) differs already: 30 of 30 elements", a, b, x)
  end)

  it("names each parameter of each layer, where that is the one that is another", function()
    local sequence = flame.randn(2, 5, 8)
    for _, case in ipairs { { nn.TransformerBlock(8, 2), sequence }, { nn.GRU(8, 3), sequence },
        { nn.MultiheadAttention(8, 2), sequence }, { nn.BatchNorm1d(4), x },
        { nn.Conv2d(2, 3, 3), flame.randn(1, 2, 6, 6) },
        { nn.Sequential(nn.Embedding(9, 4), nn.Linear(4, 2)), flame.tensor { 1, 2, 3 }:long() } } do
      local m, batch = case[1], case[2]
      assert.is_true((flame.compare(m, m:clone(), batch, { bits = true })))
      for name in m:named_parameters() do
        local other = m:clone()
        for k, p in other:named_parameters() do
          if k == name then flame.no_grad(function() p:add_(0.5) end) end
        end
        local same, where = flame.compare(m, other, batch)
        assert.is_false(same)
        assert.truthy(where:find("(" .. name .. ") differs already: ", 1, true), where)
      end
    end
  end)

  it("compares numbers and results in tables, and refuses to compare nothing", function()
    differs(nil, "^forward: output 1%.loss differs: 1 of 1 elements differ, most: 12 and 24, by 12$",
      function() return { loss = 12 } end, function() return { loss = 24 } end, x)
    refused("compare: f gave no tensor and no number to compare", flame.compare, print, nil, {})
    refused("compare: f must be a function, got number 3", flame.compare, 3, nil, {})
  end)

  it("says how shapes, dtypes, signs of zeros and numbers of results differ", function()
    differs(nil, "differs: shapes %(3, 4%) and %(4, 3%)$", function(a) return a:clone() end,
      function(a) return a:t() end, x)
    differs(nil, "dtypes f32 and f64$", function(a) return a:clone() end,
      function(a) return a:double() end, x, { bits = true })
    local zero = flame.zeros(2)
    differs(nil, "zeros of different sign$", function(a) return a:clone() end,
      function(a) return a:neg() end, zero, { bits = true })
    assert.is_true((flame.compare(function(a) return a:clone() end, function(a) return a:neg() end,
      zero, { backward = false })))
    differs(nil, "the number of outputs differs: 1 and 2$", function(a) return a end,
      function(a) return a, a end, x)
  end)

  it("draws the same numbers on both sides, and leaves all as it was", function()
    local m = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Dropout(0.5))
    local state, mean = flame.rng_state(), m[2].running_mean:totable()
    assert.is_true((flame.compare(m, m, x, { bits = true })))
    assert.same(state, flame.rng_state())
    assert.same(mean, m[2].running_mean:totable())
    assert.is_nil(m[1].weight.grad)
    local exp, add = flame.exp, x + y
    assert.has_error(function() flame.compare(f, function() error "mine" end, { x, y }) end)
    assert.equal(exp, flame.exp)
    assert.is_true(flame.equal(add, x + y))
  end)
end)

describe("flame.bisect", function()
  it("names the first layer that differs, and what differs in it", function()
    local a = net()
    local b = a:clone()
    assert.is_true((flame.bisect(a, b, x)))
    flame.no_grad(function() a[4].weight:add_(1) end)
    local same, where = flame.bisect(a, b, x)
    assert.is_false(same)
    assert.matches("^layer 4 %(LayerNorm%), number 4 of 5, is the first that differs: %d+ of 15 "
      .. "elements differ, most at .*; on the reference's inputs forward: layer_norm at .*, number 1 "
      .. "of 1, is the first that differs: its argument %d differs already: ", where)
  end)

  it("finds a gradient that differs where forward does not", function()
    local Half = nn.Module.extend "Half"
    function Half:forward(v)
      if self.wrong then return v * 0.5 + (v * 0.25 - v:detach() * 0.25) end
      return v * 0.5
    end
    local a = nn.Sequential(nn.Linear(4, 3), Half(), nn.Linear(3, 2))
    local b = a:clone()
    a[2].wrong = true
    local same, where = flame.bisect(a, b, x)
    assert.is_false(same)
    assert.matches("^backward of ", where)
    assert.matches("layer 2", where)
  end)

  it("needs modules with layers of the same names", function()
    refused("bisect: reference is a table, need a module", flame.bisect, net(), {}, x)
    local Other = nn.Module.extend "Other"
    function Other:init() self.fc = nn.Linear(4, 2) end
    function Other:forward(v) return self.fc(v) end
    refused("bisect: no layer of the model has the name of one of the reference", flame.bisect,
      net(), Other(), x)
  end)
end)

describe("flame.use", function()
  it("puts a function in the place of an op, in flame, methods, operators and layers", function()
    local layer = nn.ReLU()
    local calls = 0
    do
      local swap <close> = flame.use("relu", function(v) calls = calls + 1 return v:relu() + 1 end)
      local v = flame.tensor { -1, 2 }
      for _, got in ipairs { flame.relu(v), v:relu(), layer(v) } do
        assert.same({ 1, 3 }, got:totable())
      end
      assert.equal('flame.use("relu"), on', tostring(swap))
    end
    assert.equal(3, calls)
    assert.same({ 0, 2 }, flame.tensor({ -1, 2 }):relu():totable())
    local swap = flame.use("add", function(a, b) return a - b end)
    assert.same({ -1 }, (flame.tensor { 1 } + flame.tensor { 2 }):totable())
    swap:close()
    swap:close()
    assert.same({ 3 }, (flame.tensor { 1 } + flame.tensor { 2 }):totable())
  end)

  it("is nested, and closing one closes those above it", function()
    local before = flame.sin
    local first = flame.use("sin", function(v) return v:sin() + 10 end)
    local second = flame.use("sin", function(v) return v:sin() + 100 end)
    assert.equal(110, flame.zeros(1):sin():item())
    first:close()
    assert.equal(before, flame.sin)
    assert.equal('flame.use("sin"), closed', tostring(second))
    assert.equal(0, flame.zeros(1):sin():item())
  end)

  it("stays in order after an error in the reference", function()
    local swap <close> = flame.use("cos", function() error("mine", 0) end)
    assert.has_error(function() return flame.zeros(1):cos() end, "mine")
    assert.has_error(function() return flame.zeros(1):cos() end, "mine")
    swap:close()
    assert.equal(1, flame.zeros(1):cos():item())
  end)

  it("lets an op be held against a reference in a whole network", function()
    local m = net()
    local function slow(v) return 0.5 * v * (1 + (v / 2 ^ 0.5):erf()) end
    assert.is_true((flame.compare(m, function(v)
      local _ <close> = flame.use("gelu", slow)
      return m(v)
    end, x)))
  end)

  it("refuses a name that is none", function()
    refused("use: there is no op 'geluu'", flame.use, "geluu", print)
  end)
end)
