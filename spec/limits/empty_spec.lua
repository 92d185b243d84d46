--- Tensors with axes of no elements, and values that failed: ops on them read nothing outside of an
--- array and do not crash.
local raises = require("spec.support.helper").raises
local flame = require "flame"
local helper = require "spec.support.helper"

local DTYPES = { "f64", "f32", "f16", "bf16", "i64", "i32", "i16", "i8", "u8", "bool" }
local function ids(list) return flame.tensor(list, { dtype = "i64" }) end
local function none(...) return flame.zeros({ ... }, { dtype = "i64" }) end
--- The message that f() raises, or that reading its result raises.
local function error_of(f)
  local e = helper.message(function() return f():totable() end)
  return e
end
local function told(text, f)
  local e = error_of(f)
  assert(e:find(text, 1, true), e)
end

describe("a position on an axis of no elements", function()
  it("raises by name, with the position and the axis, and reads nothing", function()
    local at = ids { 1 }
    for _, columns in ipairs { 3, 300000 } do
      local x = flame.zeros(0, columns)
      told("index_select: index 1 at position 1 is out of range for axis 1, which has no elements",
        function() return x:index_select(1, at) end)
      told("x[…]: index 1 at position 1 is out of range for axis 1, which has no elements",
        function() return x[at] end)
      told("embedding: index 1 at position 1 is out of range for axis 1, which has no elements",
        function() return flame.embedding(at, x) end)
      told("take: index 1 at position 1 is out of range for the tensor, which has no elements",
        function() return x:take(at) end)
    end
    told("gather: index 1 at position 1 is out of range for axis 1",
      function() return flame.zeros(0):gather(1, at) end)
    told("take_along_dim: index 1 at position 1 is out of range for axis 1",
      function() return flame.zeros(0):take_along_dim(at, 1) end)
    told("embedding_bag: index 1 at position 1 is out of range",
      function() return flame.embedding_bag(ids { { 1 } }, flame.zeros(0, 2)) end)
  end)
  it("raises for every dtype, inside a longer expression and of a view", function()
    for _, dtype in ipairs(DTYPES) do
      local x = flame.zeros({ 3, 0 }, { dtype = dtype })
      told("out of range for axis 1", function()
        return x:t():index_select(1, ids { 2, 1 }):float():exp():sum(2)
      end)
      told("out of range for axis 2", function() return x:index_select(2, ids { 2, 1 }) end)
      told("out of range for axis 1",
        function()
          return flame.zeros({ 4, 3 }, { dtype = dtype }):narrow(1, 1, 0):index_select(1, ids { 1 })
        end)
    end
  end)
  it("raises when something is written there, and writes nothing", function()
    local at, one = ids { 1 }, flame.ones(1, 3)
    for _, dtype in ipairs(DTYPES) do
      local x, v = flame.zeros({ 0, 3 }, { dtype = dtype }), one:to(dtype)
      told("index_add: index 1 at position 1 is out of range for axis 1, which has no elements",
        function() return x:index_add(1, at, v) end)
      told("index_copy: index 1 at position 1 is out of range for axis 1",
        function() return x:index_copy(1, at, v) end)
      told("scatter: index 1 at position 1 is out of range for axis 1",
        function() return x:scatter(1, ids { { 1, 1, 1 } }, v) end)
      told("scatter_add: index 1 at position 1 is out of range for axis 1",
        function() return x:scatter_add(1, ids { { 1, 1, 1 } }, v) end)
      told("x[…]: index 1 at position 1 is out of range for axis 1", function()
        x[at] = v
        return x
      end)
    end
  end)
  it("is no position where there are none", function()
    for _, dtype in ipairs(DTYPES) do
      local x = flame.zeros({ 0, 3 }, { dtype = dtype })
      assert.same({ 0, 3 }, x:index_select(1, none(0)).shape)
      assert.same({}, x:index_add(1, none(0), x):totable())
    end
  end)
end)

describe("a reduction over no elements", function()
  it("gives its start for every row, whatever it is made of", function()
    for _, dtype in ipairs { "f64", "f32", "f16", "bf16", "i64", "u8" } do
      local a, b = flame.zeros({ 3, 0 }, { dtype = dtype }),
        flame.zeros({ 3, 0 }, { dtype = dtype })
      local c = flame.ones({ 3, 1 }, { dtype = dtype })
      flame.eval(a, b, c)
      assert.same({ 0, 0, 0 }, (a * b + c):sum(2):long():totable())
      assert.same({ 0, 0, 0 }, (a * b + c):t():sum(1):long():totable())
      assert.same({ 1, 1, 1 }, (a * b + c):prod(2):long():totable())
      assert.equal(0, (a * b):sum():item())
      assert.same({ true, true, true }, (a * b):gt(c):all(2):totable())
      assert.same({ false, false, false }, (a * b):gt(c):any(2):totable())
    end
  end)
  it("takes part in what is computed of whole rows, and they in it", function()
    local a = flame.zeros(3, 0)
    flame.eval(a)
    local y = a * 2
    local s = (y + 1):sum(2)
    local z = y - s:unsqueeze(2)
    flame.eval(y, s, z)
    assert.same({ { 0, 0, 0 }, { 3, 0 }, { 3, 0 } }, { s:totable(), y.shape, z.shape })
    assert.same({ 2, 2, 2 }, ((s + 1) * 2):totable())
  end)
  it("has a gradient of no elements", function()
    local x = flame.zeros({ 2, 0 }, { requires_grad = true })
    local w = flame.ones({ 2, 1 }, { requires_grad = true })
    local y = (x * w):sum()
    y:backward()
    assert.same({ { 2, 0 }, { { 0 }, { 0 } } }, { x.grad.shape, w.grad:totable() })
  end)
end)

describe("a value that failed", function()
  local UNARY = {}
  for name in ([[exp abs relu relu6 hardswish hardsigmoid hardtanh leaky_relu gelu silu softmax
    log_softmax logsumexp sum mean var std amax argmax sort argsort cumsum norm layer_norm clone
    contiguous t flatten neg square sqrt elu celu selu mish softplus logsigmoid dropout rms_norm
    normalize softsign hardshrink softshrink tanhshrink threshold median prod all any logcumsumexp
    cumprod cummax unique nonzero diff flip isfinite nan_to_num erf
    lgamma]]):gmatch "%S+" do UNARY[#UNARY + 1] = name end
  it("gives its own error again from every function, in every dtype", function()
    for _, dtype in ipairs(DTYPES) do
      local bad = flame.ones({ 2, 3 }, { dtype = dtype }):index_select(1, ids { 1, 7 })
      assert(not pcall(flame.eval, bad))
      for _, name in ipairs(UNARY) do
        local ok, e = pcall(function()
          local y = bad[name](bad)
          return flame.is_tensor(y) and y:totable()
        end)
        assert(not ok, name .. " " .. dtype .. " gives a value")
        assert.equal("string", type(e))
        assert(e:find("index 7", 1, true) or e:find(name, 1, true),
          name .. " " .. dtype .. ": " .. e)
      end
    end
  end)
end)

describe("losses and windows of nothing", function()
  it("of no classes raise", function()
    told("cross_entropy: input has shape (2, 0): no classes along axis 2, need at least 1",
      function() return flame.cross_entropy(flame.zeros(2, 0), ids { 1, 1 }) end)
    told("cross_entropy: input has shape (2, 0): no classes",
      function() return flame.cross_entropy(flame.zeros(2, 0), flame.zeros(2, 0)) end)
    told("cross_entropy: input has shape (0): no classes along axis 1",
      function() return flame.cross_entropy(flame.zeros(0), flame.zeros(0)) end)
    told("nll_loss: input has no classes along axis 2", function()
      return flame.nll_loss(flame.zeros(2, 0), ids { -100, -100 })
    end)
    told("one_hot: ids has no elements to count classes from",
      function() return flame.one_hot(none(0)) end)
    told("histogramdd: x has shape (4, 0)", function()
      return (flame.histogramdd(flame.zeros(4, 0), {}, { range = {} }))
    end)
  end)
  it("of an empty batch are empty", function()
    local x = flame.zeros({ 0, 2, 4, 4 }, { requires_grad = true })
    local y = flame.fractional_max_pool2d(x, 2, 2)
    assert.same({ 0, 2, 2, 2 }, y.shape)
    y:sum():backward()
    assert.same({ 0, 2, 4, 4 }, x.grad.shape)
    local v, at = flame.fractional_max_pool3d(flame.zeros(0, 2, 4, 4, 4), 2,
      { output_size = 3, return_indices = true })
    assert.same({ { 0, 2, 3, 3, 3 }, { 0, 2, 3, 3, 3 } }, { v.shape, at.shape })
    assert.same({ 0, 4, 2 }, flame.channel_shuffle(flame.zeros(0, 4, 2), 2).shape)
    assert.same({ 0, 2, 2, 2, 2 },
      flame.grid_sample(flame.zeros(0, 2, 3, 3, 3), flame.zeros(0, 2, 2, 2, 3)).shape)
    assert.same({ 2, 0, 2, 2, 2 },
      flame.grid_sample(flame.zeros(2, 0, 3, 3, 3), flame.zeros(2, 2, 2, 2, 3)).shape)
  end)
end)

describe("an index of no elements", function()
  it("may have any shape in gather, which is the result's", function()
    local x = flame.ones({ 2, 3 }, { requires_grad = true })
    for _, shape in ipairs { { 0 }, { 0, 5 }, { 5, 0 }, { 2, 0, 4 } } do
      local y = x:gather(1, none(table.unpack(shape)))
      assert.same({ shape, "f32" }, { y.shape, y.dtype })
    end
    assert.same({ 2, 0 }, flame.scalar_tensor(1):gather(1, none(2, 0)).shape)
    local y = x:gather(2, none(0))
    y:sum():backward()
    assert.same({ { 0, 0, 0 }, { 0, 0, 0 } }, x.grad:totable())
    raises("gather: index shape (2) does not go with (2, 3) along axis 1",
      function() return x:gather(1, ids { 1, 2 }) end)
  end)
  it("leaves a tensor as it is in scatter, scatter_add and scatter_reduce, whatever src is", function()
    local x = flame.arange(6.0):reshape(2, 3):clone()
    local same = x:totable()
    assert.same(same, x:scatter(1, none(0), 7.0):totable())
    assert.same(same, x:scatter(1, none(0), flame.zeros(0)):totable())
    assert.same(same, x:scatter_add(1, none(5, 0), flame.ones(2)):totable())
    assert.same(same, x:scatter_reduce(1, none(0), flame.ones(2, 3), "amax"):totable())
    x:scatter_add_(2, none(0, 9), flame.ones(2))
    assert.same(same, x:totable())
  end)
end)

describe("tensordot", function()
  it("takes an axis of one element for as many as the other has", function()
    local x, y = flame.arange(6):reshape(2, 3), flame.arange(4):reshape(1, 4)
    assert.same({ { 6, 12, 18, 24 }, { 15, 30, 45, 60 } },
      flame.tensordot(x, y, { { 2 }, { 1 } }):totable())
    assert.same({ { 6, 15 }, { 12, 30 }, { 18, 45 }, { 24, 60 } },
      flame.tensordot(y, x, { { 1 }, { 2 } }):totable())
    assert.same({ { 0, 0, 0, 0 }, { 0, 0, 0, 0 } },
      flame.tensordot(flame.ones(2, 0), flame.ones(1, 4), 1):totable())
    raises("tensordot: axis 2 of x has 2 elements, axis 1 of y 3",
      function() return flame.tensordot(flame.ones(2, 2), flame.ones(3, 4), 1) end)
  end)
end)

describe("batch_norm", function()
  it("of no elements on one axis is empty, with a gradient, and needs channels otherwise", function()
    local x = flame.zeros(0, { requires_grad = true })
    for _, training in ipairs { true, false } do
      local y = flame.batch_norm(x, nil, nil, { training = training })
      assert.same({ 0 }, y.shape)
      assert.same({ 0 }, y:sum():gradients { x }[x].shape)
    end
    raises("x has 1 axes, need at least 2",
      function() return flame.batch_norm(flame.zeros(3), nil, nil, { training = true }) end)
  end)
end)

describe("positions from 1 to n alone", function()
  it("are taken by take_along_dim, with and without an axis", function()
    local x = flame.arange(5)
    for _, at in ipairs { -1, 0, 6 } do
      told(("take_along_dim: index %d at position 1 is out of range for axis 1, need 1 to 5"):format(at),
        function() return x:take_along_dim(ids { at }, 1) end)
      told(("take_along_dim: index %d at position 1 is out of range for axis 1, need 1 to 5"):format(at),
        function() return x:take_along_dim(ids { at }) end)
    end
  end)
end)

describe("max_pool of a window in the padding alone", function()
  it("gives the least value of the dtype, at position 0", function()
    local least = { f64 = -math.huge, f32 = -math.huge, f16 = -math.huge, bf16 = -math.huge,
      i64 = math.mininteger, i32 = -2 ^ 31, i16 = -2 ^ 15, i8 = -128, u8 = 0 }
    for dtype, low in pairs(least) do
      local v = flame.tensor({ { { 9, 8, 7, 6 } } }, { dtype = dtype })
      if math.type(low) == "integer" or low > -math.huge then v = -v end
      if v:is_floating_point() then v:requires_grad_() end
      local options = { padding = 1, dilation = 5 }
      assert.equal(low, v:max_pool1d(2, options):item(), dtype)
      options.return_indices = true
      local y, at = v:max_pool1d(2, options)
      assert.same({ low, 0 }, { y:item(), at:item() }, dtype)
      if y.requires_grad then
        y:sum():backward()
        assert.same({ { { 0, 0, 0, 0 } } }, v.grad:totable())
      end
    end
  end)
end)
