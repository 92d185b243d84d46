--- The random generator: Philox4x32-10 in plain Lua against published test vectors, and flame's
-- draws against that; distributions by Kolmogorov-Smirnov tests with fixed seeds; a GPU's bits.
require "spec.support.helper"
local flame = require "flame"
local ordered = require "spec.support.ordered"

local scalars = require "spec.support.scalars"
local philox = scalars.philox
--- The words of n draws of 32 bits from a counter c on: draw i is word i % 4 of block c + i // 4.
local function words(n, counter, seed)
  local out = {}
  for i = 0, n - 1 do out[i + 1] = philox(counter + i // 4, 0, seed)[i % 4 + 1] end
  return out
end
--- n draws of 64 bits: each of two words, the high one first.
local function wide(n, counter, seed)
  local out = {}
  for i = 0, n - 1 do
    local w, at = philox(counter + i // 2, 0, seed), i % 2 * 2
    out[i + 1] = w[at + 1] << 32 | w[at + 2]
  end
  return out
end

describe("Philox4x32-10", function()
  it("matches the vectors that its authors published", function()
    assert.same({ 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8 }, philox(0, 0, 0))
    assert.same({ 0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd }, philox(-1, -1, -1))
    assert.same({ 0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1 },
      philox(0x85a308d3243f6a88, 0x0370734413198a2e, 0x299f31d0a4093822))
  end)
  for _, seed in ipairs { 0, 1, 42, 0x123456789abcdef } do
    it("is what rand in f32 takes its bits from, seed " .. seed, function()
      flame.seed(seed)
      local first, second = flame.rand(10):totable(), flame.rand(5):totable()
      local a, b = words(10, 0, seed), words(5, 3, seed)                  -- 10 draws take 3 blocks
      for i, w in ipairs(a) do assert.equal((w >> 8) * 2.0 ^ -24, first[i]) end
      for i, w in ipairs(b) do assert.equal((w >> 8) * 2.0 ^ -24, second[i]) end
    end)
    it("is what rand in f64 takes its bits from, seed " .. seed, function()
      flame.seed(seed)
      local got = flame.rand(7, { dtype = "f64" }):totable()
      for i, w in ipairs(wide(7, 0, seed)) do assert.equal((w >> 11) * 2.0 ^ -53, got[i]) end
    end)
    it("is what randint over all of i64 gives as it is, seed " .. seed, function()
      flame.seed(seed)
      local got = flame.randint({ 6 }, math.mininteger, math.maxinteger):totable()
      for i, w in ipairs(wide(6, 0, seed)) do assert.equal(math.mininteger + w, got[i]) end
    end)
  end
  it("goes on where its state was taken", function()
    flame.seed(7)
    flame.rand(13)
    local state = flame.rng_state()
    local a = flame.randn(9)
    flame.rng_state(state)
    assert.is_true(flame.equal(a, flame.randn(9)))
  end)
  it("takes its numbers when a draw is recorded, used or not", function()
    flame.seed(3)
    local _, _ = flame.rand(4), flame.rand(4)
    local third = flame.rand(4)
    flame.seed(3)
    flame.rand(4):totable()
    flame.rand(4):totable()
    assert.is_true(flame.equal(third, flame.rand(4)))
  end)
end)

-- ---- distributions ------------------------------------------------------------------------------
--- The normal distribution function, by the series and continued fraction for erfc in
--- spec/support/scalars.lua.
local erfc
do
  erfc = scalars.unary.erfc[1]
end
local function normal(x) return erfc(-x / math.sqrt(2)) / 2 end
--- sqrt(n) times the largest distance between the empirical and the true distribution function.
local function distance(values, f)
  table.sort(values)
  local n, d = #values, 0
  for i, v in ipairs(values) do
    local p = f(v)
    d = math.max(d, math.abs(p - i / n), math.abs(p - (i - 1) / n))
  end
  return d * math.sqrt(n)
end
-- the distance is larger for one seed in a thousand; the seeds here are fixed
local LIMIT = 1.95

describe("distributions", function()
  for seed = 1, 4 do
    for _, dtype in ipairs { "f32", "f64" } do
      it(("of uniform and normal pass Kolmogorov and Smirnov, %s, seed %d"):format(dtype, seed),
        function()
        flame.seed(seed)
        local u = flame.rand(4000, { dtype = dtype }):totable()
        local v = flame.uniform({ 4000 }, -3, 5, { dtype = dtype }):totable()
        local z = flame.randn(4000, { dtype = dtype }):totable()
        local w = flame.normal({ 4000 }, 2, 0.5, { dtype = dtype }):totable()
        assert.is_true(distance(u, function(x) return x end) < LIMIT, "uniform")
        assert.is_true(distance(v, function(x) return (x + 3) / 8 end) < LIMIT, "uniform -3 to 5")
        assert.is_true(distance(z, normal) < LIMIT, "normal")
        assert.is_true(distance(w, function(x) return normal((x - 2) / 0.5) end) < LIMIT,
          "normal 2, 0.5")
      end)
    end
  end
  it("of half types have the moments they should", function()
    flame.seed(11)
    for _, dtype in ipairs { "f16", "bf16" } do
      local u, z = flame.rand(20000, { dtype = dtype }):double(),
        flame.randn(20000, { dtype = dtype }):double()
      assert.close(0.5, u:mean(), 0.01)
      assert.close(1 / 12, u:var(), 0.005)
      assert.close(0, z:mean(), 0.03)
      assert.close(1, z:var(), 0.05)
      assert.is_true(u:amax():item() < 1 and u:amin():item() >= 0)
    end
  end)
  it("of neighbours are independent", function()
    flame.seed(5)
    for _, make in ipairs { flame.rand, flame.randn } do
      local x = make(20001, { dtype = "f64" })
      x = x - x:mean()
      local a, b = x:narrow(1, 1, 20000), x:narrow(1, 2, 20000)
      assert.close(0, (a * b):mean():item() / x:var():item(), 0.03)
    end
  end)
  it("of randint give each number alike", function()
    flame.seed(8)
    local counts = flame.bincount(flame.randint({ 60000 }, 1, 6)):totable()
    local chi = 0
    for i = 1, 6 do chi = chi + (counts[i] - 10000) ^ 2 / 10000 end
    -- chi-squared with five degrees of freedom is larger with probability 0.01
    assert.is_true(chi < 15.1, chi)
  end)
  it("of multinomial, bernoulli and dropout follow their probabilities", function()
    flame.seed(9)
    local drawn =
      flame.bincount(flame.multinomial(flame.tensor({ 1, 2, 5 }), 8000, { replacement = true }))
      :totable()
    for i, share in ipairs { 1000, 2000, 5000 } do
      assert.close(share, drawn[i], 4 * math.sqrt(share))
    end
    assert.close(0.3, flame.bernoulli(flame.full({ 20000 }, 0.3)):mean(), 0.015)
    assert.close(0.25, flame.ones(20000):dropout(0.25):eq(0):float():mean(), 0.015)
    local first = flame.zeros(3)
    for _ = 1, 300 do
      local order = flame.multinomial(flame.tensor({ 1, 2, 5 }), 3)
      first[order[1]:item()] = first[order[1]:item()] + 1
    end
    assert.close(300 * 5 / 8, first[3]:item(), 40)
  end)
  it("of randperm are permutations, each first element as likely", function()
    flame.seed(2)
    local counts = flame.zeros(4)
    for _ = 1, 400 do
      local p = flame.randperm(4)
      assert.same({ 1, 2, 3, 4 }, (p:sort()):totable())
      counts[p[1]:item()] = counts[p[1]:item()] + 1
    end
    for i = 1, 4 do assert.close(100, counts[i]:item(), 40) end
  end)
  it("#cuda come in the same bits on the GPU", function()
    if flame.best_device() ~= "cuda" then return pending("no CUDA device") end
    for _, make in ipairs {
      function(o) return flame.rand(1003, o) end, function(o) return flame.randn(1003, o) end,
      function(o) return flame.uniform({ 77 }, -2, 9, o) end,
      function(o) return flame.normal({ 77 }, 1, 3, o) end,
    } do
      for _, dtype in ipairs { "f64", "f32", "f16", "bf16" } do
        flame.seed(21)
        local here = make({ dtype = dtype, device = "cpu" }):bytes()
        flame.seed(21)
        assert.equal(here, make({ dtype = dtype, device = "cuda" }):bytes(), dtype)
      end
    end
  end)
end)

describe("draws inside of kernels", function()
  -- Random numbers that are drawn inside a kernel with other work (elementwise, rows, columns) must
  -- be those of a tensor of draws, also where a row does not begin at a block of four draws: row
  -- lengths are multiples of four and others, and some views begin elsewhere.
  local makers = {
    uniform = function(size, dtype) return flame.rand(size, { dtype = dtype }) end,
    normal = function(size, dtype) return flame.randn(size, { dtype = dtype }) end,
    integer = function(size) return flame.randint(size, -100, 100) end,
  }
  local views = {
    whole = function(u) return u end,
    ["from the second column on"] = function(u) return u[{ {}, { 2, -1 } }] end,
    ["every second column"] = function(u) return u[{ {}, { 1, -1, 2 } }] end,
    ["from the second row on"] = function(u) return u[{ { 2, -1 }, {} }] end,
    turned = function(u) return u:transpose(1, 2) end,
    ["as three axes"] = function(u) return u:reshape(u:size(1), 2, -1) end,
  }
  local sizes = { { 5, 8 }, { 7, 30 }, { 6, 384 }, { 5, 386 }, { 3, 1002 }, { 4, 4096 },
    { 3, 9000 }, { 2, 40002 } }
  for name, make in ordered(makers) do
    for _, dtype in ipairs(name == "integer" and { "i64" } or { "f32", "f64", "bf16" }) do
      it(("have the same bits: %s, %s"):format(name, dtype), function()
        for _, size in ipairs(sizes) do
          for what, view in pairs(views) do
            flame.seed(33)
            local kept = view(make(size, dtype)):double()
            flame.eval(kept)
            local rows, columns = kept:amax(-1), kept:amin(1)
            local most = kept - kept:amax(-1, { keepdim = true })
            flame.eval(rows, columns, most)
            flame.seed(33)
            local a = view(make(size, dtype)):double()
            local own = { a:amax(-1), a:amin(1), a - a:amax(-1, { keepdim = true }) }
            a = nil
            flame.eval(own[1], own[2], own[3])
            for k, x in ipairs { rows, columns, most } do
              assert.is_true(own[k]:equal(x), ("%d x %d, %s, %d"):format(size[1], size[2], what, k))
            end
          end
        end
      end)
    end
  end
end)
