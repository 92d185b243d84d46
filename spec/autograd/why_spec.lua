--- What x:why(), backward, gradients and similar functions say of a gradient that is missing.
local flame = require "flame"
local helper = require "spec.support.helper"

local function leaf() return flame.ones(2, { requires_grad = true }) end
--- "why_spec.lua:LINE" as in error messages, where LINE is the caller's line minus 'back'.
local function here(back)
  return ("why_spec.lua:%d"):format(debug.getinfo(2, "l").currentline - (back or 0))
end
local function has(text, ...)
  for _, part in ipairs { ... } do
    assert.is_true(text:find(part, 1, true) ~= nil, text .. "\n  has not: " .. part)
  end
end
local message = helper.message

describe("an untracked value", function()
  it("names the line of detach, before and after its evaluation", function()
    local y = leaf():detach()
    local at = here(1)
    y = (y * 2 + 1):sum()
    for _ = 1, 2 do
      has(message(y.backward, y), "backward: the tensor is not tracked: detached at ", at)
      assert.equal("it is not tracked: detached at " .. y:why():match("at (.*)"), y:why())
      flame.eval(y)
    end
  end)
  it("names the line under no_grad, of an op or a view", function()
    local w = leaf()
    local y = flame.no_grad(function() return w * 2 end)
    local at = here(1)
    local v = flame.no_grad(function() return w:reshape(1, 2) end)
    has((y + 1):why(), "made under no_grad at", at)
    has(v:why(), "made under no_grad at", here(2))
  end)
  it("names the op without a gradient and a cast to integers", function()
    local w = leaf()
    local i = w:argmax():float()
    has(i:why(), "given to argmax at", here(1), "which has no gradient")
    has(w:long():float():why(), "cast to a dtype without gradients at", here())
    has(w:argmax():why(), "i64 has no gradients, only floats have")
    has(w:gt(0):float():why(), "which has no gradient")
  end)
  it("says when nothing in it was tracked", function()
    assert.equal("it is not tracked: no input has requires_grad", (flame.ones(2) * 2):why())
  end)
  it("that a backward made is named as such", function()
    local w = leaf()
    w:square():sum():backward()
    has(message(function() w.grad:sum():backward() end),
      "made by a backward at", "without create_graph")
    assert.equal("nothing is missing: it has a gradient", w:why())
  end)
  it("is explained by register_hook and retain_grad", function()
    local y = leaf():detach()
    local at = here(1)
    has(message(y.register_hook, y, print),
      "x is not tracked, and gets no gradient: detached at", at)
    has(message(y.retain_grad, y), "x is not tracked: detached at", at)
  end)
  it("that a reset forgot, and one that was freed, are named", function()
    local w = leaf()
    local y = w * 2
    flame.autograd.reset()
    has(y:why(), "forgotten by autograd.reset at", here(1))
    y:free()
    has(y:why(), "tensor was freed at", here(1))
  end)
  it("keeps the first of several reasons on its way", function()
    local a, b = leaf():detach(), leaf()
    local at = here(1)
    has((a + 1 + flame.ones(2)):why(), "detached at", at)
    assert.is_true((a * b).requires_grad)
    assert.equal("no backward has run since it was made", b:why())
  end)
end)

describe("gradients", function()
  it("names the line where an input was lost, and leaves the graph", function()
    local w, v = leaf(), leaf()
    local d = v:detach()
    local at = here(1)
    local y = (w * d):sum()
    has(message(y.gradients, y, { w, v }),
      "input 2 is not on a path to the result: detached at", at,
      "allow_unused = true skips it")
    assert.equal("allow_unused = true skips it", flame.last_error().hint)
    assert.same({ 1, 1 }, y:gradients({ w })[w]:totable())
  end)
  it("names the lines where it may have been lost", function()
    local w, v = leaf(), leaf()
    local h = v * 2
    local d = h:detach()
    local at = here(1)
    local n = flame.no_grad(function() return h * 3 end)
    local other = here(1)
    has(message(function() return (w * d + n):sum():gradients({ v }) end),
      "never used in it, or lost in what was ",
      "detached at", at, "made under no_grad at", other)
  end)
  it("says never used where nothing in the graph was lost", function()
    local w, v = leaf(), leaf()
    has(message(function() return w:sum():gradients({ v }) end),
      "to the result: never used in it; allow")
    has(message(flame.autograd.grad, w:sum(), v), "to the result: never used in it; allow")
  end)
  it("tells a nil of a function from a missing path", function()
    local f = flame.func { forward = function(_, a, b) return a * b end,
      backward = function(_, g) return g, nil end }
    local a, b = leaf(), leaf()
    has(message(function() return f(a, b):sum():gradients({ b }) end), "nothing came to input 1")
    assert.is_nil(f(a, b):sum():gradients({ b }, { allow_unused = true })[b])
  end)
  it("names the call whose map has it", function()
    local a, b = leaf(), leaf()
    local g, of = a:sum():gradients({ a }), here()
    local h, other = b:sum():gradients({ b }), here()
    has(message(function() return g[b] end),
      "not asked for in this call (this is the map of ", of, other)
    assert.is_not_nil(h[b])
  end)
end)

describe("x:why() of a leaf", function()
  it("tells no backward, another's backward, a later use, a cleared gradient and nil", function()
    local w, v, late = leaf(), leaf(), leaf()
    assert.equal("no backward has run since it was made", w:why())
    w:sum():backward()
    local at = here(1)
    has(v:why(), "the backward at", at, "did not come to it: never used in it")
    local made = late * 2
    has(late:why(), "what was made of it at", here(1), "was no part of that")
    assert.is_true(made.requires_grad)
    w.grad = nil
    has(w:why(), "the backward at", at, "gave it one, which is gone since: zero_grad()")
    local f = flame.func { forward = function(_, a, b) return a * b end,
      backward = function(_, g) return g, nil end }
    f(w, v):sum():backward()
    has(v:why(), "the backward at", here(1), "came to it with nothing")
    assert.equal("no backward has run since it was made", leaf():why())
  end)
  it("tells where the last loss lost it", function()
    local w, v = leaf(), leaf()
    local d = v:detach()
    local at = here(1)
    ;(w * d):sum():backward()
    has(v:why(), "did not come to it: detached at", at)
  end)
  it("tells of results that are no leaves", function()
    local y = leaf() * 2
    has(y:why(), "it is no leaf, but computed at", here(1), "retain_grad()")
    y:sum():backward()
    has(y:why(), "the backward at", here(1), "has freed its graph")
    has(message(function() y:sum():backward() end), "freed by the first, at", here(2))
  end)
  it("leaves no marks on the graph that it looks through", function()
    local w, v = leaf(), leaf()
    local y = v * 2 + v
    w:sum():backward()
    for _ = 1, 3 do assert.is_string(v:why()) end
    y:sum():backward()
    assert.same({ 3, 3 }, v.grad:totable())
  end)
end)

describe("a gradient that the script gives", function()
  it("has a value for each tensor of forward, an explicit nil among them", function()
    local function of(backward)
      local f = flame.func { name = "mine", backward = backward,
        forward = function(_, a, b) return a * b end }
      local a, b = leaf(), leaf()
      f(a, b):sum():backward()
      return a.grad, b.grad
    end
    has(message(of, function(_, g) return g end),
      "mine: backward gave 1 values, forward has 2 tensors" ..
      ": return one for each, nil where there is no gradient")
    assert.equal("return one for each, nil where there is no gradient", flame.last_error().hint)
    has(message(of, function() end), "mine: backward gave 0 values")
    local ga, gb = of(function(_, g) return g, nil end)
    assert.same({ 1, 1 }, ga:totable())
    assert.is_nil(gb)
  end)
  it("of a kernel's vjp reaches to the last tensor", function()
    local function of(vjp)
      local k = flame.kernel({ source = [[__global__ void two(float *y, const float *a, const float *b, int n) {
        int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) y[i] = a[i] * b[i]; }]],
        vjp = vjp })
      local a, b = leaf(), leaf()
      k(a, b, 2):sum():backward()
      return a.grad, b.grad
    end
    has(message(of, function(g) return g end),
      "two: vjp: gave 1 value, the last tensor is argument 2")
    local ga, gb = of(function(g) return g, nil end)
    assert.same({ 1, 1 }, ga:totable())
    assert.is_nil(gb)
  end)
end)
