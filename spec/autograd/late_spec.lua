-- A weight and a bias that are used many times: the products for their gradients wait and are made
-- as one (autograd/late.c). The gradients are compared with those where each use has its own copy.
local flame = require "flame"

local function data(...)
  local x = flame.randn({ ... }, { dtype = "f64" })
  flame.eval(x)
  return x
end

--- The gradients of f(use) by the tensors of 'list'; use(x) is x, or with 'copies' a copy of x.
local function gradients(list, f, copies, options)
  local function use(x) return copies and x * 1.0 or x end
  local y = f(use)
  local d = y:gradients(list, options)
  local out = {}
  for i, x in ipairs(list) do out[i] = d[x] end
  return out
end

local function close(a, b)
  local largest = (a - b):abs():amax():item()
  local scale = math.max(b:abs():amax():item(), 1e-300)
  assert.is_true(largest <= 1e-13 * scale, ("differ by %g of %g"):format(largest, scale))
end

local function compare(list, f)
  for _, x in ipairs(list) do x:requires_grad_(true) end
  local a, b = gradients(list, f, false), gradients(list, f, true)
  for i = 1, #list do close(a[i], b[i]) end
end

--- The sum of squares of h after 'steps' steps of h = tanh(x + h w' + b) from h = x.
local function recurrence(steps, x, w, b, use)
  local h = x
  for _ = 1, steps do h = (x + flame.linear(h, use(w), use(b))):tanh() end
  return (h * h):sum()
end

describe("the gradient of a weight that each step uses", function()
  it("is that of one copy a step, for 2 to 300 steps", function()
    local x, w, b = data(3, 5), data(5, 5), data(5)
    for _, steps in ipairs { 1, 2, 7, 300 } do
      compare({ w, b, x }, function(use) return recurrence(steps, x, w, b, use) end)
    end
  end)

  it("is right where the weight is used as it lies, transposed, and otherwise", function()
    local x, w = data(4, 6), data(6, 6)
    compare({ w }, function(use)
      local y = x:matmul(use(w)) + x:matmul(use(w):t()) + flame.linear(x, use(w))
      return (y:matmul(use(w)) * use(w):sum()):sin():sum()
    end)
  end)

  it("is right where the weight is a view that is a leaf", function()
    local x, w = data(4, 6), data(6, 6):t():detach()
    compare({ w }, function(use) return (x:matmul(use(w)) + x:matmul(use(w)):sin()):sum() end)
  end)

  it("is right for inputs of several axes and numbers of rows", function()
    local w, b = data(3, 2), data(3)
    local many = { data(4, 2), data(2, 5, 2), data(1, 2), data(3, 2, 2, 2) }
    compare({ w, b }, function(use)
      local sum = 0
      for _, x in ipairs(many) do sum = sum + flame.linear(x, use(w), use(b)):sin():sum() end
      return sum
    end)
  end)

  it("is right for more than is kept at once", function()
    local x, w = data(128, 256), data(256, 256)
    compare({ w }, function(use)
      local sum = 0
      for k = 1, 140 do sum = sum + ((x * (1 / k)):matmul(use(w)) * 0.01):square():mean() end
      return sum
    end)
  end)

  it("has gradients itself", function()
    local x, w, b = data(3, 4), data(4, 4), data(4)
    for _, v in ipairs { x, w, b } do v:requires_grad_(true) end
    local function second(copies)
      local d = gradients({ w, b }, function(use) return recurrence(4, x, w, b, use) end, copies,
        { create_graph = true })
      local e = (d[1]:square():sum() + d[2]:sin():sum()):gradients { w, b, x }
      return { e[w], e[b], e[x] }
    end
    local a, c = second(false), second(true)
    for i = 1, 3 do close(a[i], c[i]) end
  end)

  it("has the same bits where every op is evaluated by itself", function()
    local interpreter = dofile("spec/support/interpreter.lua")
    local script = [[
      local flame = require 'flame'
      flame.seed(4)
      local x, w, b = flame.randn(3, 5), flame.randn(5, 5), flame.randn(5)
      for _, v in ipairs { x, w, b } do v:requires_grad_(true) end
      local h = x
      for _ = 1, 9 do h = (x + flame.linear(h, w, b)):tanh() end
      local d = h:sum():gradients { w, b }
      for _, v in ipairs { d[w], d[b] } do
        for _, e in ipairs(v:reshape(-1):totable()) do io.write(('%a '):format(e)) end
      end]]
    local function run(eager)
      local pipe = assert(io.popen(("FLAME_EAGER=%d %s -e \"%s\" 2>&1"):format(eager, interpreter,
        script)))
      local text = pipe:read "a"
      pipe:close()
      return text
    end
    local text = run(0)
    assert.is_true(#text > 200 and not text:find "error", text)
    assert.equal(text, run(1))
  end)
end)

describe("what a cotangent passes on its way to a weight", function()
  it("is right in half types, evaluated or not, with steps that are kept", function()
    local budget, whole = flame.internal.budget, flame.internal.budget()
    local function run(b, dtype, kept)
      budget(b)
      flame.seed(3)
      local w = (flame.randn(6, 5) * 0.3):to(dtype):requires_grad_()
      local v = flame.randn(5, 6):to(dtype):requires_grad_()
      local bias = flame.randn(6):to(dtype):requires_grad_()
      local h, held = flame.randn(3, 5):to(dtype), {}
      for t = 1, 7 do
        local a = (h:matmul(t % 3 == 0 and w:t():clone() or v) + bias):tanh()
        h = t % 2 == 0 and a:matmul(w) or a:float():to(dtype):matmul(w):tanh()
        if kept and t % 3 == 0 then flame.eval(h) held[#held + 1] = h end
      end
      h:float():square():sum():backward()
      budget(whole)
      return { w.grad:double(), v.grad:double(), bias.grad:double() }
    end
    for dtype, most in pairs { bf16 = 0.05, f16 = 0.006, f32 = 1e-6 } do
      local right = run(whole, "f64", false)
      for _, kept in ipairs { false, true } do
        local planned, eager = run(whole, dtype, kept), run(1, dtype, kept)
        for i = 1, 3 do
          assert.same(eager[i]:totable(), planned[i]:totable())
          local off = (planned[i] - right[i]):abs():amax():item() / right[i]:abs():amax():item()
          assert.is_true(off < most, ("%s: off by %g"):format(dtype, off))
        end
      end
    end
  end)
  it("is told where it has a hook, is asked for, or keeps its gradient", function()
    local x, w = data(2, 3), data(4, 3):requires_grad_(true)
    local seen
    local t = w:t()
    t:register_hook(function(g) seen = g:clone(); return g * 2 end)
    local y = x:matmul(t):sum() + flame.linear(x, w):sum()
    local d = y:gradients { w, t }
    local one = x:sum(1):reshape(1, 3):expand(4, 3)
    close(d[w], one * 3)
    close(d[t], one:t() * 2)                        -- the value that the hook returned
    close(seen, one:t())
    t = w:t()
    t:retain_grad()
    x:matmul(t):sum():backward()
    close(t.grad, one:t())
    close(w.grad, one)
  end)
end)

describe("the step of a recurrent layer", function()
  it("makes the product for its weight once", function()
    local net = flame.nn.LSTM(4, 4)
    local function launches(T)
      local x = flame.randn(T, 2, 4)
      flame.eval(x)
      local s
      for _ = 1, 2 do
        for _, p in ipairs(net:parameters()) do p.grad = nil end
        net(x):sum():backward()
        local before = flame.stats().launches
        local all = {}
        for i, p in ipairs(net:parameters()) do all[i] = p.grad end
        flame.eval(table.unpack(all))
        s = flame.stats().launches - before
      end
      return s
    end
    -- per step at most 2 launches forward and 3 backward, one of these for the joined product
    assert.is_true(launches(40) - launches(20) <= 20 * 5 + 6, launches(40) - launches(20))
  end)
end)
