local flame = require "flame"
local ordered = require "spec.support.ordered"

local helper = require "spec.support.helper"
local function fails(pattern, ...) assert.matches(pattern, helper.message(...)) end
local function leaf(t, o)
  o = o or {}
  o.requires_grad = true
  return flame.tensor(t, o)
end

describe("backward", function()
  it("adds into the gradients of leaves", function()
    local x = leaf({ 2, 3 })
    local y = (x * x):sum()
    y:backward()
    assert.same({ 4, 6 }, x.grad:totable())
    local again = (x * x):sum()
    again:backward()
    assert.same({ 8, 12 }, x.grad:totable())
    x.grad = nil
    assert.is_nil(x.grad)
  end)
  it("sums a broadcast gradient back to the input's shape", function()
    local b = flame.zeros({ 1, 3 }, { requires_grad = true })
    local total = (flame.ones(4, 3) + b):sum()
    total:backward()
    assert.same({ { 4, 4, 4 } }, b.grad:totable())
  end)
  it("takes a seed", function()
    local x = leaf({ 1, 2 })
    local y = x * 3
    y:backward(flame.tensor({ 1, 10 }))
    assert.same({ 3, 30 }, x.grad:totable())
  end)
  it("needs one element or a seed", function()
    fails("backward: .*%(2%)", function() (leaf({ 1, 2 }) * 1):backward() end)
  end)
  it("raises on an untracked tensor and on a second walk", function()
    fails("backward: ", function() flame.ones(1):sum():backward() end)
    local x = leaf({ 1 })
    local y = (x * x):sum()
    y:backward()
    fails("retain_graph", function() y:backward() end)
    local z = (x * x):sum()
    z:backward(nil, { retain_graph = true })
    z:backward()
    assert.same({ 6 }, x.grad:totable())
  end)
  it("gives one handle for .grad until it is set to nil", function()
    local x = leaf({ 1, 2 })
    x:sum():backward()
    local g = x.grad
    assert.is_true(rawequal(g, x.grad))
    g:mul_(5)
    assert.same({ 5, 5 }, x.grad:totable())
    local mine = flame.tensor({ 7, 8 })
    x.grad = mine
    assert.is_true(rawequal(mine, x.grad))
    fails("grad: gradient has shape %(3%), x has %(2%)", function() x.grad = flame.ones(3) end)
    fails("grad: a tensor can not be its own gradient: use clone()", function() x.grad = x end)
  end)
  it("keeps the gradient of a non-leaf when asked", function()
    local x = leaf({ 3 })
    local y = x * 2
    y:retain_grad()
    local z = (y * y):sum()
    z:backward()
    assert.same({ 12 }, y.grad:totable())
  end)
  it("is not disturbed by a write after the value was used", function()
    local x = leaf({ 2 })
    local h = x * 1
    local y = h * h
    h:add_(100)
    y:sum():backward()
    assert.same({ 4 }, x.grad:totable())
  end)
  it("survives a chain of 20000 ops", function()
    local x = leaf({ 1 })
    local y = x
    for _ = 1, 20000 do y = y + 1 end
    y:sum():backward()
    assert.same({ 1 }, x.grad:totable())
  end)
end)

describe("tracking", function()
  it("is for floats only, and tells leaves", function()
    fails("requires_grad: only floats have gradients, not i64", function() flame.ones({ 1 },
      { dtype = "i64", requires_grad = true }) end)
    local x = leaf({ 1 })
    assert.is_true(x.requires_grad and x.is_leaf)
    local y = x * 2
    assert.is_true(y.requires_grad and not y.is_leaf)
    assert.is_false(y:detach().requires_grad)
    assert.is_false(flame.ones(1).requires_grad)
    x.requires_grad = false
    assert.is_false(x.requires_grad)
  end)
  it("stops in no_grad, as a function and as a guard", function()
    local x = leaf({ 1 })
    assert.is_false(flame.no_grad(function() return (x * 2).requires_grad end))
    do
      local _ <close> = flame.no_grad()
      assert.is_false((x * 2).requires_grad)
      assert.is_true(flame.enable_grad(function() return (x * 2).requires_grad end))
    end
    assert.is_true((x * 2).requires_grad)
    pcall(flame.no_grad, function() error("x") end)
    assert.is_true(flame.is_grad_enabled())
  end)
  it("refuses a write to a leaf outside no_grad, and keeps it the same leaf inside", function()
    local x = leaf({ 1, 2 })
    fails("add_: .*leaf", function() x:add_(1) end)
    flame.no_grad(function() x:add_(1) end)
    assert.is_true(x.is_leaf and x.requires_grad)
    x:sum():backward()
    assert.same({ 1, 1 }, x.grad:totable())
    assert.same({ 2, 3 }, x:totable())
  end)
end)

describe("gradients", function()
  it("gives a map apart from .grad", function()
    local x, w = leaf({ 2 }), leaf({ 3 })
    local y = (x * w * w):sum()
    local g = y:gradients({ x, w })
    assert.same({ 9 }, g[x]:totable())
    assert.same({ 12 }, g[w]:totable())
    assert.is_nil(x.grad)
    assert.close(15, g:norm():item())
    local seen = {}
    for t, v in g:items() do seen[#seen + 1] = { t == x, v:item() } end
    assert.same({ { true, 9 }, { false, 12 } }, seen)
  end)
  it("clips in place and gives the norm before", function()
    local x = leaf({ 3, 4 })
    local g = (x * x * 0.5):sum():gradients({ x })
    assert.close(5, g:clip(1):item(), 1e-5)
    assert.allclose({ 0.6, 0.8 }, g[x], { atol = 1e-5 })
  end)
  it("explains what is missing", function()
    local x, other = leaf({ 1 }), leaf({ 1 })
    local y = (x * 2):sum()
    fails("not on a path", function() y:gradients({ other }, { retain_graph = true }) end)
    local z = (x * 2):sum()
    local g = z:gradients({ x, other }, { allow_unused = true })
    assert.is_nil(g[other])
    fails("not asked for in this call", function() return g[leaf({ 1 })] end)
    fails("not tracked", function() (x * 2):sum():gradients({ flame.ones(1) }) end)
  end)
  it("goes back to a value whose own graph is spent, and no further", function()
    local x = flame.tensor({ 2 }, { requires_grad = true })
    local y = x * x
    y:sum():backward()
    local w = flame.tensor({ 3 }, { requires_grad = true })
    local g = (y * y * w):sum():gradients({ y, w })
    assert.same({ { 24 }, { 16 } }, { g[y]:totable(), g[w]:totable() })
    fails("second backward", function() (y * w):sum():gradients({ w, x }) end)
    fails("second backward", function() (y * w):sum():backward() end)
    assert.same({ 4 }, x.grad:totable())
  end)
  it("differentiates again with create_graph", function()
    local x = leaf({ 2 })
    local y = (x ^ 3):sum()
    local g = y:gradients({ x }, { create_graph = true })[x]
    assert.close(12, g:item(), 1e-5)
    local h = g:sum():gradients({ x })[x]
    assert.close(12, h:item(), 1e-5)
  end)
end)

describe("a mistake in a function of the script", function()
  local here = debug.getinfo(1, "S").short_src
  --- The error message of a backward pass through a function whose backward is 'gives'.
  local function message(gives)
    local double = flame.func { name = "double", forward = function(_, x) return x * 2 end,
      backward = gives }
    local x = leaf({ 1, 2 })
    return helper.message(function() double(x):sum():backward() end)
  end
  it("is named with the function and the line of backward", function()
    local at = debug.getinfo(1, "l").currentline - 3
    local function told(text) return ("%s:%d: double: %s"):format(here, at, text) end
    assert.equal(told("backward gave 2 gradients, forward has 1 tensors"),
      message(function(_, g) return g, g end))
    assert.equal(told("gradient 1 of backward is a number, need a tensor or nil"),
      message(function() return 5 end))
    assert.equal(told("gradient 1 of backward has shape (3), its tensor (2)"),
      message(function() return flame.ones(3) end))
  end)
  it("is named where backward was called when a hook gives no tensor", function()
    local x = leaf({ 1 })
    x:register_hook(function() return 5 end)
    local e = helper.message(function() (x * 2):sum():backward() end)
    assert.equal(("%s:%d: register_hook: a hook returns a tensor or nothing, got number"):format(here,
      debug.getinfo(1, "l").currentline - 2), e)
  end)
  it("is named where the derivative is asked for what is no function", function()
    for _, name in ipairs { "grad", "value_and_grad" } do
      helper.raises(name .. ": f must be a function, got number", flame[name], 3)
    end
  end)
  it("no_grad takes a module too", function()
    local y = flame.no_grad(require "flame.nn".Linear(2, 3), flame.ones(2))
    assert.is_false(y.requires_grad)
  end)
end)

describe("cotangents of slices", function()
  local R, C = 6, 12
  local seeds = flame.randint({ R, C }, -8, 8):float()          -- exact in any order
  -- Each case is a list of indices {rows, columns} by which x is read. The gradient of x is the sum
  -- of the parts of 'seeds' under these indices, the k-th times k.
  local cases = {
    ["parts of the last axis"] = { { {}, { 1, 4 } }, { {}, { 5, 8 } }, { {}, { 9, 12 } } },
    ["parts in another order"] = { { {}, { 9, 12 } }, { {}, { 1, 4 } }, { {}, { 5, 8 } } },
    ["rows one by one"] = { { 1, {} }, { 2, {} }, { 3, {} }, { 4, {} }, { 5, {} }, { 6, {} } },
    ["parts that leave gaps"] = { { {}, { 2, 3 } }, { { 1, 2 }, { 6, 9 } }, { 6, { 11, 12 } } },
    ["every second column"] = { { {}, { 1, -1, 2 } }, { {}, { 2, -1, 2 } } },
    ["parts that meet"] = { { {}, { 1, 7 } }, { {}, { 5, 12 } }, { { 2, 3 }, { 6, 6 } } },
    ["steps that meet"] = { { {}, { 1, -1, 2 } }, { {}, { 2, -1, 3 } }, { {}, { 12, 12 } } },
    quadrants = { { { 1, 3 }, { 1, 6 } }, { { 4, 6 }, { 1, 6 } }, { { 1, 3 }, { 7, 12 } },
      { { 4, 6 }, { 7, 12 } } },
    ["a flip and a part"] = { { {}, { -1, 1, -1 } }, { {}, { 2, 3 } } },
    ["a part and a flip of others"] = { { {}, { 1, 4 } }, { {}, { 12, 5, -1 } } },
    ["flips by two"] = { { {}, { 12, 2, -2 } }, { {}, { 11, 1, -2 } } },
    ["backward and forward by two, which meet"] = { { {}, { 12, 2, -2 } }, { {}, { 2, 12, 2 } } },
    ["flipped rows one by one"] = { { 1, { -1, 1, -1 } }, { 2, {} }, { 3, { -1, 1, -1 } },
      { { 4, 6 }, {} } },
    ["the same part twice"] = { { {}, { 1, 6 } }, { {}, { 1, 6 } }, { {}, { 7, 12 } } },
  }
  for name, parts in ordered(cases) do
    it("are the sum of them: " .. name, function()
      local x = flame.randn(R, C):requires_grad_(true)
      local expected, total = flame.zeros(R, C), 0
      for k, p in ipairs(parts) do
        expected[p] = expected[p]:clone() + seeds[p] * k
        total = total + (x[p] * (seeds[p] * k)):sum()
      end
      -- evaluated before backward(), so that the gradient is computed in a separate evaluation
      flame.eval(expected)
      total:backward()
      assert.is_true(x.grad:equal(expected), name)
      local y = flame.randn(R, C, { dtype = "f64" })
      for order = 1, 2 do
        assert.is_true(flame.gradcheck(function(a)
          local sum = 0
          for k, p in ipairs(parts) do sum = sum + (a[p]:sin() * k):sum() end
          return sum
        end, { y }, { order = order }))
      end
    end)
  end

  it("hold no negative zero, as sums do, and what a hook reads is added to", function()
    for _, hook in ipairs { false, true } do
      local x = flame.randn(2, 3):requires_grad_(true)
      local y = x * 1
      if hook then y:register_hook(function(g) g:totable() end) end
      local a, b, c = y[{ {}, 1 }], y[{ {}, 2 }], y[{ {}, 3 }]
      local zero = flame.tensor({ -0.0, -0.0 })
      ;(a * zero + b * zero + c):sum():backward()
      assert.same({ math.huge, math.huge }, (1 / x.grad[{ {}, 1 }]):totable())
      assert.same({ math.huge, math.huge }, (1 / x.grad[{ {}, 2 }]):totable())
      assert.same({ 1, 1 }, x.grad[{ {}, 3 }]:totable())
    end
  end)

  it("of an empty tensor have its shape", function()
    local x = flame.zeros(0, 6, 9):requires_grad_(true)
    local columns = x:unbind(3)
    local total = x[{ {}, {}, { 8, 9 } }]:sum() + columns[1]:sum() + columns[4]:sin():sum()
    total:backward()
    assert.same({ 0, 6, 9 }, x.grad.shape)
  end)

  it("of a sequence's steps move each its own elements", function()
    local T, N = 200, 64
    local x = flame.randn(T, N):requires_grad_(true)
    local w = flame.randn(T, N)
    flame.eval(x, w)
    local total = 0
    for t = 1, T do total = total + (x[t] * w[t]):sum() end
    flame.eval(total)
    local before = flame.stats().bytes_moved
    total:backward()
    flame.eval(x.grad)
    local moved = flame.stats().bytes_moved - before
    assert.is_true(x.grad:equal(w))
    -- a sum of all: 4 T T N
    if os.getenv "FLAME_EAGER" ~= "1" then assert.is_true(moved < 40 * T * N, moved .. " bytes") end
  end)
end)
