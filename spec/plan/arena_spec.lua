-- Memory of what no handle holds, by flame.memory().arena: what shares an address, and that nothing
-- which is still read does.
local flame = require "flame"

local n <const> = 128
local bytes <const> = n * n * 4

local function data() local x = flame.randn(n, n); flame.eval(x); return x end

--- Bytes of the arena that f needs, and its results as lists; the first run is op by op.
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

describe("a kernel of points", function()
  it("takes the memory of what it is the last to read", function()
    local x, w = data(), data()
    assert.equal(bytes, measured(function() return ((x:matmul(w) * 2 + 1):tanh()):matmul(w) end))
  end)

  it("does not where its elements are smaller", function()
    local x, w = data(), data():to("bf16")
    flame.eval(w)
    assert.equal(bytes + bytes // 2,
      measured(function() return x:matmul(x):to("bf16"):matmul(w) end))
  end)

  it("does not where it reads other elements than it writes", function()
    local x = data()
    assert.equal(2 * bytes, measured(function()
      local a = x:matmul(x)
      return (a + a:t()):matmul(x)
    end))
    assert.equal(2 * bytes, measured(function()
      return (x:matmul(x):flip(1) * 2):matmul(x)
    end))
  end)

  it("leaves alone what is read later, and at the same time", function()
    local x, w = data(), data()
    measured(function()
      local a = x:matmul(w)
      local b = (a * 2 + 1):tanh()
      local c = b:matmul(w)
      return c:matmul(a), a:sum(1), b:sum(2)
    end)
  end)

  it("hands memory on along a chain", function()
    local x, w = data(), data()
    assert.equal(2 * bytes, measured(function()
      local a = x
      for _ = 1, 6 do a = (a:matmul(w) * 0.1):tanh() end
      return a:sum(1)
    end))
  end)
end)

describe("what a scatter adds to", function()
  it("is filled just before it, when large", function()
    local rows <const> = 4096
    local x, w, wide, tall = data(), data(), flame.randn(n, rows), flame.randn(rows, n)
    local ids = flame.randint({ n }, 1, rows)
    flame.eval(ids, wide, tall)
    local places = flame.default_device() == "cpu" and 0 or 8 * n    -- there the scatter checks ids
    assert.equal(rows * n * 4 + 2 * bytes + places, measured(function()
      local a = x:matmul(wide):matmul(tall)                -- as large as what is filled
      for _ = 1, 3 do a = a:matmul(w) end                  -- two arrays at a time
      return flame.zeros(rows, n):index_add(1, ids, a):sum(1)
    end))
  end)
end)
