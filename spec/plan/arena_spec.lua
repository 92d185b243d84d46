-- Memory of intermediate values, as flame.memory().arena reports it: values share addresses, but
-- never with a value that is still to be read. The bits hold on every device, the counts of bytes
-- on the CPU: on a GPU values that need little memory in all share none (src/plan/arena.c: apart).
-- With another default device each case is run on both.
local flame = require "flame"
local default <const> = flame.default_device()

--- A case, on the CPU, and then on the default device if that is another one.
local function case(name, body)
  it(name, function()
    flame.default_device("cpu")
    local ok, why = pcall(body)
    flame.default_device(default)
    if not ok then error(why, 0) end
    if default ~= "cpu" then body() end
  end)
end

local n <const> = 128
local bytes <const> = n * n * 4

local function data() local x = flame.randn(n, n); flame.eval(x); return x end

--- The bytes of intermediates that an evaluation of f's results needs. Checks that the results have
--- the bits of a run op by op.
local function measured(f)
  local expected = table.pack(f())
  for i = 1, expected.n do flame.eval(expected[i]); expected[i] = expected[i]:totable() end
  flame.eval()
  flame.empty_cache()
  local all = table.pack(f())
  flame.eval(table.unpack(all))
  local arena = flame.memory().arena
  for i = 1, all.n do assert.same(expected[i], all[i]:totable()) end
  return arena
end

--- Checks the bits of f's results, and on the CPU the bytes of its intermediates: 'expected', or up
--- to 'slack' (0) more.
local function takes(expected, f, slack)
  local arena = measured(f)
  if flame.default_device() ~= "cpu" then return end
  assert.is_true(arena >= expected and arena <= expected + (slack or 0),
    ("%d bytes, expected %d"):format(arena, expected))
end

describe("a kernel of points", function()
  case("takes the memory of what it is the last to read", function()
    local x, w = data(), data()
    takes(bytes, function() return ((x:matmul(w) * 2 + 1):tanh()):matmul(w) end)
  end)

  case("does not where its elements are smaller", function()
    local x, w = data(), data():to("bf16")
    flame.eval(w)
    takes(bytes + bytes // 2, function() return x:matmul(x):to("bf16"):matmul(w) end)
  end)

  case("does not where it reads other elements than it writes", function()
    local x = data()
    takes(2 * bytes, function()
      local a = x:matmul(x)
      return (a + a:t()):matmul(x)
    end)
    takes(2 * bytes, function()
      return (x:matmul(x):flip(1) * 2):matmul(x)
    end)
  end)

  case("leaves alone what is read later, and at the same time", function()
    local x, w = data(), data()
    measured(function()
      local a = x:matmul(w)
      local b = (a * 2 + 1):tanh()
      local c = b:matmul(w)
      return c:matmul(a), a:sum(1), b:sum(2)
    end)
  end)

  case("does so where it sums columns as well", function()
    local x, w = data(), data()
    takes(bytes, function()
      local a = (x:matmul(w) * 2 + 1):tanh()
      return a:matmul(w), a:sum(1), (a * x):sum(1)
    end)
  end)

  case("hands memory on along a chain", function()
    local x, w = data(), data()
    takes(2 * bytes, function()
      local a = x
      for _ = 1, 6 do a = (a:matmul(w) * 0.1):tanh() end
      return a:sum(1)
    end)
  end)
end)

describe("a kernel of rows", function()
  local rows <const>, classes <const> = 64, 2048
  local function pair(k)
    local a, b = flame.randn(rows, n), flame.randn(n, k)
    flame.eval(a, b)
    return a, b
  end
  local function ids(k)
    local t = flame.randint({ rows }, 1, k)
    flame.eval(t)
    return t
  end
  --- As takes: it may be up to 4 KB more, since a number per row is stored too.
  local function near(expected, f) takes(expected, f, 4095) end

  case("takes the memory of the rows that it is the last to read", function()
    local a, b = pair(n)
    near(rows * n * 4, function() return a:matmul(b):softmax(2):matmul(b) end)
  end)

  --- The loss and the gradient of the weights, which needs the gradient of the logits.
  local function gradient(a, b, t)
    local w = b:detach():requires_grad_(true)
    local l = flame.cross_entropy(a:matmul(w), t)
    return l, l:gradients({ w })[w]
  end

  case("also where it gathers an element of each, before they are written", function()
    local a, b = pair(classes)
    local t = ids(classes)
    near(rows * classes * 4, function() return gradient(a, b, t) end)
  end)

  case("not where rows are a warp's, an element is of another row, or one is read at each point",
    function()
      local a, b = pair(100)
      local t = ids(100)
      near(2 * rows * 100 * 4, function() return gradient(a, b, t) end)
      a, b = pair(classes)
      local other, each = ids(rows), flame.randint({ rows, classes }, 1, classes)
      flame.eval(each)
      --- Checks that the sum is not written over x, since f(x) reads other elements than it writes.
      local function apart(f)
        assert.is_true(measured(function()
          local x = a:matmul(b)
          return (x:softmax(2) + f(x)):matmul(b:t())
        end) >= 2 * rows * classes * 4)
      end
      apart(function(x) return x:index_select(1, other):select(2, 7):unsqueeze(2) end)
      apart(function(x) return x:gather(2, each) end)
      apart(function(x) return x:roll(1, 1) end)
      local one = flame.randint({ rows, 1 }, 1, classes)
      flame.eval(one)
      apart(function(x) return x:narrow(1, 1, 1):expand(rows, classes):gather(2, one) end)
      apart(function(x) return x:flip(1):gather(2, one) end)
      apart(function(x) return x:gather(2, x:argmax(2, { keepdim = true })) end)
    end)
end)

describe("what a scatter adds to", function()
  case("is filled just before it, when large", function()
    local rows <const> = 4096
    local x, w, wide, tall = data(), data(), flame.randn(n, rows), flame.randn(rows, n)
    local ids = flame.randint({ n }, 1, rows)
    flame.eval(ids, wide, tall)
    takes(rows * n * 4 + 2 * bytes, function()
      local a = x:matmul(wide):matmul(tall)                -- as large as the zeros below
      for _ = 1, 3 do a = a:matmul(w) end                  -- two arrays at a time
      return flame.zeros(rows, n):index_add(1, ids, a):sum(1)
    end)
  end)
end)

describe("a step of which no element is read", function()
  -- The first part of a row, shifted by one, has no elements where there is one row alone.
  local steps <const> = {
    { "a scan", function(x) return x:cumsum(1) end },
    { "a sort", function(x) return (x:sort(2)) end },
    { "a product", function(x) return x:matmul(flame.eye(x:size(2)) * 2) end },
    { "a sum at positions", function(x)
      return x:index_add(1, flame.ones({ 1 }, { dtype = "i64" }), x)
    end },
  }
  for _, step in ipairs(steps) do
    case(step[1] .. " has memory for itself", function()
      local x = flame.randn(1, n)
      flame.eval(x)
      local function shifted(y)
        return flame.cat({ flame.ones(1, n), y:narrow(1, 1, #y - 1) }, 1)
      end
      local function read(y) return flame.cat({ y:narrow(1, 2, #y - 1), flame.zeros(1, n) }, 1) end
      local function f() return shifted(step[2](x)) * (read(x) + 3):cumsum(1) end
      for _ = 1, 3 do
        measured(function() return f(), f(), f():matmul(flame.ones(n, n)) end)
        assert.same(flame.full({ 1, n }, 3):totable(), f():totable())
      end
    end)
  end

  case("is that of running products along an axis of one element", function()
    local function gradient()
      local x = flame.full({ 1, n }, 2, { requires_grad = true })
      return (x:cumprod(1) * 1.5):sum():gradients({ x })[x]
    end
    measured(function() return gradient(), gradient() end)
  end)
end)
