-- Arrays that are joined along an axis (cat, stack): each part is written by itself, and readers of
-- a part read only that. Also the op 'form', whose components are such parts. Launches and bytes
-- are the same on CPU and GPU.
local flame = require "flame"
local internal = flame.internal
local raises = require("spec.support.helper").raises

local function counted(f)
  flame.eval()
  local a = flame.stats()
  f()
  local b = flame.stats()
  for k, v in pairs(b) do b[k] = type(v) == "number" and v - (a[k] or 0) or nil end
  return b
end
local function data(...)
  local x = flame.randn(...)
  flame.eval(x)
  return x
end
--- Checks that f(stop) gives the same bits if stop evaluates its argument and if it only returns
--- it.
local function compare(f)
  local want = { f(function(t) flame.eval(t) return t end) }
  local got = { f(function(t) return t end) }
  flame.eval(table.unpack(want))
  flame.eval(table.unpack(got))
  assert.equal(#want, #got)
  for i = 1, #want do
    assert.equal(table.concat(want[i].shape, ","), table.concat(got[i].shape, ","))
    assert.same(want[i]:totable(), got[i]:totable())
  end
end

describe("joined results", function()
  it("of the same arrays are one kernel that reads each once and copies nothing", function()
    local x, y, r = data(4, 6, 10), data(4, 6, 10), nil
    local s = counted(function()
      r = flame.scope(function()               -- the scope frees the parts
        local list = {}
        for k = 1, 4 do list[k] = x[k] * y[5 - k] + x[k % 4 + 1] end
        return flame.stack(list, 1)
      end)
      flame.eval(r)
    end)
    assert.equal(1, s.launches)
    assert.equal(3 * 4 * 240, s.bytes_moved)
  end)

  it("are not stored where only pieces of them are read", function()
    local x = data(4, 6, 10)
    local r
    local s = counted(function()
      r = flame.scope(function()
        local all = flame.cat({ x[1] * 2, x[2] + x[1] }, 1)
        return all:narrow(1, 1, 6) * all:narrow(1, 7, 6)
      end)
      flame.eval(r)
    end)
    assert.equal(1, s.launches)
    assert.equal(3 * 4 * 60, s.bytes_moved)
  end)

  it("have the bits of single steps along every axis, with views, broadcast and casts", function()
    local x, y, row = data(3, 4, 5), data(3, 4, 5), data(1, 1, 5)
    for d = 1, 3 do
      compare(function(stop)
        local a, b = stop(x * y), stop(x + row)
        local all = stop(flame.cat({ a, b:narrow(d, 1, 2), y, row:expand(3, 4, 5) }, d))
        local n = x:size(d)
        local first, last = all:narrow(d, 1, n), all:narrow(d, all:size(d) - n + 1, n)
        local flip = all:flip(d):narrow(d, 1, n)
        return stop(first * last), all, stop(flip - first), stop(all:narrow(d, n, 2) * 3)
      end)
      compare(function(stop)
        local all = stop(flame.cat({ stop(x:double()), stop(y * x), stop(x:bfloat16()) }, d))
        return all, stop(all:sum(d)), stop(all:narrow(d, 2, x:size(d)):sum(d))
      end)
    end
  end)

  it("nest, have pieces without elements, and may be many", function()
    local x = data(2, 3)
    compare(function(stop)
      local inner = stop(flame.cat({ stop(x * 2), stop(x:narrow(1, 1, 0) * 3), x }, 1))
      local outer = stop(flame.cat({ inner, stop(inner + 1) }, 2))
      return outer, stop(outer:narrow(2, 4, 3):narrow(1, 3, 2) * x)
    end)
    compare(function(stop)
      local list = {}
      for k = 1, 600 do list[k] = stop(x[1] * k) end
      local all = stop(flame.stack(list, 1))
      return all, stop(all[300] + all[599])
    end)
    compare(function(stop)
      local deep = x
      for k = 1, 500 do
        deep = stop(flame.cat({ deep:narrow(1, 2, 1), stop(deep:narrow(1, 1, 1) + k) }, 1))
      end
      return deep
    end)
  end)

  it("are written over their own sources", function()
    for _, d in ipairs { 1, 2 } do
      compare(function(stop)
        local x = flame.arange(1.0, 24):reshape(4, 6) * 1
        flame.eval(x)
        x:copy_(stop(flame.cat({ x:narrow(d, 3, x:size(d) - 2), x:narrow(d, 1, 2) }, d)))
        stop(x)
        local rest = x:narrow(d, 3, x:size(d) - 2)
        x:copy_(stop(flame.cat({ stop(x:narrow(d, 1, 2) * 2), stop(rest + 1) }, d)))
        return x
      end)
    end
  end)

  it("wait for all that their pieces are made of", function()
    local x, y = data(8, 40), data(8, 40)
    compare(function(stop)
      local soft, sum = stop(x:softmax(2)), stop(stop(x * y):sum(2, true))
      local all = stop(flame.cat({ soft, stop(soft * sum), stop(y - sum) }, 2))
      local again = stop(all:narrow(2, 41, 40):softmax(2))
      return all, again, stop(flame.cat({ again, all:narrow(2, 1, 40) }, 1)):sum(1)
    end)
  end)

  it("take back gradients of slices as one kernel", function()
    local x, y = data(4, 6, 10), data(4, 6, 10)
    x:requires_grad_()
    local function gradient()
      local sum
      for k = 1, 4 do
        local p = x[k] * y[5 - k]
        sum = sum and sum + p * p or p * p
      end
      sum:backward(flame.ones_like(sum))
      local g = x.grad
      x.grad = nil
      flame.eval(g)
      return g
    end
    gradient()
    assert.equal(1, counted(gradient).launches)
  end)
end)

describe("stored inputs", function()
  it("that begin at one element are read once", function()
    local x = data(4, 60)
    local r
    local s = counted(function()
      r = x[2] * 3 + x[2]:exp() * x:narrow(1, 2, 1):reshape(60)
      flame.eval(r)
    end)
    assert.equal(2 * 4 * 60, s.bytes_moved)
  end)

  it("find their plan at other places, and another one where they meet", function()
    local x = data(10, 60)
    local function f(i, j) return (x[i] * 2 - x[j]):totable() end
    f(1, 2)
    assert.equal(0, counted(function() f(4, 3) f(7, 9) end).plans)
    assert.equal(1, counted(function() assert.same(x[5]:totable(), f(5, 5)) end).plans)
    assert.equal(0, counted(function() assert.same(x[6]:totable(), f(6, 6)) f(1, 5) end).plans)
  end)
end)

describe("a form", function()
  --- Code of the op form (form.h); groups: { sign, last input's component or -1, {sign, i, j}, … }.
  local function code(factors, last, components)
    local head, body = { factors, last, #components }, {}
    for k, groups in ipairs(components) do
      head[3 + k] = 3 + #components + #body
      body[#body + 1] = #groups
      for _, g in ipairs(groups) do
        for _, v in ipairs { g[1], g[2], #g - 2 } do body[#body + 1] = v end
        for t = 3, #g do for _, v in ipairs(g[t]) do body[#body + 1] = v end end
      end
    end
    table.move(body, 1, #body, #head + 1, head)
    for i, v in ipairs(head) do head[i] = ("i2"):pack(v) end
    return table.concat(head)
  end
  local some = code(2, 1, {
    { { 1, 0, { 1, 0, 1 }, { -1, 1, 0 } }, { -1, 2, { 1, 2, -1 } } },
    {},
    { { -1, 1, { 1, -1, 1 }, { 1, 0, 0 } } },
  })
  local function by_hand(x, y, w, stop)
    return flame.cat({
      stop(stop(stop(stop(x[{ { 1 } }] * y[{ { 2 } }]) - stop(x[{ { 2 } }] * y[{ { 1 } }]))
        * w[{ { 1 } }]) - stop(x[{ { 3 } }] * w[{ { 3 } }])),
      flame.zeros_like(x[{ { 1 } }]),
      stop(-stop(stop(y[{ { 2 } }] + stop(x[{ { 1 } }] * y[{ { 1 } }])) * w[{ { 2 } }])),
    }, 1)
  end

  it("has the bits of its sums, as a whole, by component and in what follows", function()
    for _, dtype in ipairs { "f32", "f64" } do
      local x, y, w = data(3, 5, 7, { dtype = dtype }), data(3, 5, 7, { dtype = dtype }),
        data(3, 1, 7, { dtype = dtype })
      local want = by_hand(x, y, w, function(t) flame.eval(t) return t end)
      assert.same(want:totable(), internal.form("form", 1, some, false, x, y, w):totable())
      compare(function(stop)
        local r = stop(internal.form("form", 1, some, false, stop(x * 2), stop(y + x), w))
        local again = stop(internal.form("form", 1, some, false, r, x, stop(r:flip(1))))
        return r, again, stop(r:softmax(3)), stop(r[1] * again[3]), stop(again:movedim(1, 3):sum(2))
      end)
      compare(function(stop)
        local r = stop(internal.form("form", 2, some, false, x:movedim(1, 2), y:movedim(1, 2),
          w:movedim(1, 2)))
        return stop(r + 1), stop(r:narrow(2, 2, 2):sum(3))
      end)
    end
  end)

  it("sums between the components and the last axis", function()
    local x, y, w = data(3, 5, 7), data(3, 5, 7), data(3, 1, 7)
    assert.allclose(by_hand(x, y, w, function(t) return t end):sum(2),
      internal.form("form", 1, some, true, x, y, w), { rtol = 1e-5, atol = 1e-5 })
  end)

  it("is refused where its code does not fit the inputs", function()
    local x, y, w = data(3, 5), data(3, 5), data(3, 1)
    local function refused(text, ...) raises(text, internal.form, "form", ...) end
    refused("does not fit its 2 inputs", 1, some, false, x, y)
    refused("does not fit its 3 inputs", 1, some, false, x, y, w:narrow(1, 1, 2))
    for cut = 1, #some, 2 do
      refused("does not fit", 1, some:sub(1, cut), false, x, y, w)
    end
    refused("make no form", 1, some, false, x, data(3, 4), w)
    refused("make no form", 1, some, false, x, y:double(), w)
    refused("make no form", 3, some, false, x, y, w)
    refused("make no form", 1, some, false, x:long(), y:long(), w:long())
  end)
end)
