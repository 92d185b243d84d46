-- The numbers of flame.memory(), messages when memory runs out, and reports of flame.leakcheck.

local flame = require "flame"
local helper = require "spec.support.helper"

-- a square f32 matrix with so many rows needs 2^48 bytes, more than the address space
local huge = 1 << 23

--- The message that a function raises.
local refusal = helper.message

local function line() return debug.getinfo(2, "l").currentline end

describe("flame.memory", function()
  it("has intermediate values in its peak", function()
    local n = 512
    local q, v = flame.randn(n, 16), flame.randn(n, 16)
    flame.eval(q, v)
    flame.empty_cache()
    flame.memory "reset_peak"
    local before = flame.memory()
    assert.equal(0, before.arena)
    local y = (q:matmul(q:t()) / 4):softmax(2):matmul(v)
    flame.eval(y)
    local m = flame.memory()
    assert.is_true(m.arena >= n * n * 4)
    assert.is_true(m.peak >= before.peak + n * n * 4)
    assert.is_true(m.peak <= m.allocated_peak + m.arena + m.workspace)
    assert.equal(before.allocated + n * 16 * 4, m.allocated_peak)
    assert.is_true(m.reserved_peak >= m.peak)
  end)

  it("gives the arena back with the cache", function()
    local a = flame.randn(300, 300)
    local y = (a:matmul(a) + 1):matmul(a)
    flame.eval(y)
    assert.is_true(flame.memory().arena > 0)
    flame.empty_cache()
    local m = flame.memory()
    assert.equal(0, m.arena)
    local segment = flame.default_device() == "cpu" and 1 or 2 << 20
    local used = m.allocated + m.workspace
    assert.is_true(used <= m.reserved and m.reserved < used + segment)
    local again = (a:matmul(a) + 1):matmul(a)
    assert.is_true(flame.equal(y, again))
  end)

  it("lists the lines whose values hold the most", function()
    local small = {}
    local large = flame.ones(1000, 500) local at = line()
    for i = 1, 4 do small[i] = flame.ones(1000, 100) * i end local small_at = line()
    flame.eval()
    local owners = flame.memory().owners
    assert.equal(2000000, large:nbytes())
    assert.matches("usage_spec%.lua:" .. at .. "$", owners[1].site)
    assert.same({ 2000000, 1 }, { owners[1].bytes, owners[1].values })
    assert.matches("usage_spec%.lua:" .. small_at .. "$", owners[2].site)
    assert.same({ 1600000, 4 }, { owners[2].bytes, owners[2].values })
    for i = 2, #owners do assert.is_true(owners[i].bytes <= owners[i - 1].bytes) end
    assert.is_true(#owners <= 10)
  end)

  it("counts a value that only a history holds", function()
    local w, y = flame.ones(1000, 10, { requires_grad = true }), nil
    local at
    do
      local x = w:exp() at = line()
      y = x:sum()
    end
    flame.eval(y)
    collectgarbage()
    collectgarbage()
    local found
    for _, o in ipairs(flame.memory().owners) do
      if o.site:find(":" .. at .. "$") then found = o end
    end
    assert.equal(40000, found.bytes)
    y:backward()
  end)

  it("is not confused by more lines than its table holds", function()
    local text = { "local flame = ...\nlocal t = {}" }
    for i = 1, 700 do text[#text + 1] = ("t[%d] = flame.ones(%d)"):format(i, i) end
    text[#text + 1] = "flame.eval() return t"
    local t = assert(load(table.concat(text, "\n"), "=many.lua"))(flame)
    local owners = flame.memory().owners
    assert.equal(10, #owners)
    assert.equal(700, #t)
  end)
end)

describe("memory that is out", function()
  it("is told with the op and the line that recorded it", function()
    local held = flame.ones(1000, 1000) * 2 local at = line()
    flame.eval(held)
    local x, recorded
    local why = refusal(function()
      x = flame.ones(huge, huge) + 1 recorded = line()
      flame.eval(x)
    end)
    assert.matches("usage_spec%.lua:" .. recorded .. ": add: out of memory on "
      .. flame.default_device() .. ": asked for " .. huge * huge * 4 .. " bytes for its value, "
      .. "%d+ free, %d+ reserved, %d+ live in tensors; most is held by [^ ]*usage_spec%.lua:" .. at
      .. " %(3%.8 MiB%)", why)
    local e = flame.last_error()
    assert.same({ "no memory", "add" }, { e.code, e.op })
  end)

  it("names the largest of the intermediate values", function()
    local a, recorded = flame.ones(huge, 1), line() + 2
    local why = refusal(function()
      return a:matmul(a:t())
        :cumsum(1):amax():item()
    end)
    assert.matches("usage_spec%.lua:" .. recorded .. ": matmul: out of memory on "
      .. flame.default_device() .. ": asked for "
      .. "%d+ bytes for intermediate values, its own the largest, ", why)
  end)

  it("leaves what was recorded before as it was", function()
    local x = flame.ones(10) * 3
    refusal(function() return flame.eval(flame.ones(huge, huge) + 1) end)
    assert.equal(30, x:sum():item())
  end)
end)

describe("flame.leakcheck", function()
  it("names the line whose values are kept, and the run that began it", function()
    local kept, k, at = {}, 0, nil
    local why = refusal(function()
      flame.leakcheck(function()
        k = k + 1
        local x = flame.ones(100) * 2 at = line()
        if k > 3 then kept[k] = x end
      end)
    end)
    assert.matches("leakcheck: 5 runs left 3 tensors, 1200 bytes and 3 recorded values more, from "
      .. "run 4 on; most at [^ ]*usage_spec%.lua:" .. at .. ", 3 values of 1200 bytes$", why)
  end)

  it("finds a history that grows without evaluation", function()
    local w = flame.ones(10, { requires_grad = true })
    local total, at = flame.zeros(1), nil
    local why = refusal(function()
      flame.leakcheck(function()
        total = total + (w * 2):sum() at = line()
      end, 4)
    end)
    assert.matches("leakcheck: 4 runs left 0 tensors, 0 bytes and %d+ recorded values more, from run 2 "
      .. "on; most at [^ ]*usage_spec%.lua:" .. at .. ", %d+ values of 0 bytes$", why)
  end)

  it("passes values that are replaced, and what stops to grow", function()
    local total, w, k = flame.zeros(3), flame.ones(3, { requires_grad = true }), 0
    assert.is_true(flame.leakcheck(function() total = total + 1 end))
    assert.is_true(flame.leakcheck(function()
      w.grad = nil
      (w * total):sum():backward()
    end))
    local cache = { [0] = flame.ones(1), flame.ones(1) }
    assert.is_true(flame.leakcheck(function()
      k = k + 1
      cache[k % 2] = flame.ones(1)
      if k == 2 then cache[2] = flame.ones(1) end
      if k == 4 then cache[2] = nil end
    end))
  end)
end)
