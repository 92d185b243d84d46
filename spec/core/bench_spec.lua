-- flame.bench and timers that synchronise: how often functions are called, what is counted, and the
-- line that is printed.
local flame = require "flame"
local refused = require("spec.support.helper").raises

describe("flame.bench", function()
  it("calls f warm-up times, then n runs of so many calls, all in order of the runs", function()
    local called = 0
    local b = flame.bench(function() called = called + 1 end, { warmup = 3, n = 7, calls = 2 })
    assert.equal(3 + 7 * 2, called)
    assert.same({ 7, 2, 7 }, { b.n, b.calls, #b.times })
  end)

  it("runs five times at least, however short the time is, and until it has passed", function()
    assert.equal(5, flame.bench(function() end, { seconds = 0, warmup = 1 }).n)
    local clock = flame.timer()
    local b = flame.bench(function() return flame.ones(10) + 1 end, { seconds = 0.02 })
    assert.is_true(b.n >= 5 and (b.n == 10000 or clock() >= 0.02))
  end)

  it("has the median, quartiles between the least and the most, their distance, the mean", function()
    for n = 1, 6 do
      local b = flame.bench(function() return flame.ones(100) * 2 end, { n = n })
      local sorted = table.move(b.times, 1, n, 1, {})
      table.sort(sorted)
      assert.same({ sorted[1], sorted[n] }, { b.min, b.max })
      local half = (n + 1) // 2
      assert.close((sorted[half] + sorted[n - half + 1]) / 2, b.ms, 1e-12)
      assert.is_true(b.min <= b.low and b.low <= b.ms and b.ms <= b.high and b.high <= b.max)
      assert.close((b.high - b.low) / b.ms, b.spread, 1e-12)
      local sum = 0
      for _, ms in ipairs(b.times) do sum = sum + ms end
      assert.close(sum / n, b.mean, 1e-9)
      assert.is_true(b.first > 0)
    end
  end)

  it("computes what f records, returned or kept, and counts the launches of a call", function()
    local x, kept = flame.ones(1000), nil
    flame.eval(x)
    local b = flame.bench(function() return (x * 3 + 1):relu() end, { n = 4, calls = 5 })
    assert.same({ 1, 8000, 0, flame.default_device(), flame.default_device() ~= "cpu" },
      { b.launches, b.bytes_moved, b.compiles, b.device, b.flushed })
    assert.equal(2, flame.bench(function() kept = x:cumsum(1) * 2 end, { n = 4 }).launches)
    assert.equal(2000, kept[1000]:item())
  end)

  it("does not count what fills the caches between runs, and gives that memory back", function()
    local x = flame.ones(1000)
    flame.eval(x)
    collectgarbage()
    local before = flame.memory().allocated
    local b = flame.bench(function() return x * 3 end, { n = 2, warmup = 1, flush = true })
    assert.same({ 1, 8000, true }, { b.launches, b.bytes_moved, b.flushed })
    collectgarbage()
    collectgarbage()
    assert.equal(before, flame.memory().allocated)
  end)

  it("prints as one line", function()
    local b = flame.bench(function() return flame.ones(1000) * 3 end, { n = 3 })
    local line = tostring(b)
    assert.matches("^%d[%d.]* [num]?s %(%d[%d.]* [num]?s to %d[%d.]* [num]?s, least .-%) in 3 runs, "
      .. "launches 1, 4.00 kB, .-first ", line)
    assert.falsy(line:find("\n"))
  end)

  it("passes errors on, and says what it can not do", function()
    refused("boom", flame.bench, function() error("boom", 0) end)
    refused("bench: f must be a function, got number 3", flame.bench, 3)
    refused("bench: no option 'run', there is: ", flame.bench, print, { run = 3 })
    refused("bench: warmup = 0, need at least 1", flame.bench, print, { warmup = 0 })
    refused("bench: n = 0, need at least 1", flame.bench, print, { n = 0 })
    refused("bench: calls = -1, need at least 1", flame.bench, print, { calls = -1 })
    refused("bench: seconds = inf, need a finite number", flame.bench, print, { seconds = 1 / 0 })
    refused("nan, need a finite number, at least 0", flame.bench, print, { seconds = 0 / 0 })
    local late = function() return flame.ones(3):take(flame.tensor({ 9 }, { dtype = "i64" })) end
    refused("index 9 at position 1 is out of range", flame.bench, late)
  end)
end)

describe("a timer", function()
  it("computes what is recorded when it is asked to, at both ends, and not else", function()
    local x = flame.ones(10)
    flame.eval(x)
    local y = x + 1
    local before = flame.stats().launches
    local plain = flame.timer()
    assert.is_true(plain() >= 0)
    assert.equal(before, flame.stats().launches)
    local clock = flame.timer { sync = true }
    assert.equal(before + 1, flame.stats().launches)
    local z = y * 2
    assert.is_true(clock() >= 0)
    assert.equal(before + 2, flame.stats().launches)
    assert.equal(4, z[1]:item())
  end)
end)
