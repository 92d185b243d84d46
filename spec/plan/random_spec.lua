-- Random programs (spec/support/programs.lua, program_run.lua): the same bits for every limit of
-- pending nodes and mode of the collector, and the values of a plain evaluator within its bounds;
-- with FLAME_DEVICE=cuda also those of the CPU. A failure prints its seed and a reduced program.
-- FLAME_FUZZ=n: n programs (600; 300 under sanitizers); FLAME_FUZZ_SEED=s: from seed s;
-- RANDOM_PART=2/8: every eighth program and planted bug only: eight processes can share the work.
-- tools/fuzz runs such programs from another seed each day (spec/fuzz/programs.lua).
local flame = require "flame"
local P = dofile("spec/support/program_run.lua")
local plant = flame.internal.plant

local sanitized = os.getenv "FLAME_SANITIZE"
local COUNT = tonumber(os.getenv "FLAME_FUZZ") or (sanitized and 300 or 600)
local FIRST = tonumber(os.getenv "FLAME_FUZZ_SEED") or 1
local PART, PARTS = (os.getenv "RANDOM_PART" or "1/1"):match "(%d+)/(%d+)"
PART, PARTS = tonumber(PART) % tonumber(PARTS), tonumber(PARTS)
--- First, last and step of the seeds that this process tests of the first n.
local function seeds(n) return FIRST + (PART - FIRST) % PARTS, FIRST + n - 1, PARTS end
local WHOLE = 1 << 20
local modes_of = P.modes_of

local function report(program, modes, why)
  local function fails(p) return P.check(p, modes) end
  local small = P.shrink(program, fails)
  error(("seed %d: %s\nsmallest program: %s\n%s"):format(program.seed, why,
    P.check(small, modes) or why, P.text(small)), 0)
end

describe("the oracle", function()
  local O = P.oracle
  local function given(dtype, ...)
    return O.leaf { shape = { select("#", ...) }, dtype = dtype, data = { ... } }
  end

  it("is one small file that loads no other", function()
    local size = 0
    for line in io.lines "spec/support/oracle.lua" do
      size = size + #line
      assert.is_nil(line:find "dofile" or line:find "require" or line:find "loadfile", line)
    end
    assert.is_true(size < 22000, size .. " characters")
  end)

  it("has doubts where both operands must move for another answer, and none otherwise", function()
    local x, y = given("f32", 1, 1, 1), given("f32", 1.15, 1.25, 1)
    for i = 1, 3 do x.v[i][2], y.v[i][2] = 0.1, 0.1 end
    local below = O.flat(x:lt(y))
    assert.is_true(below[1][2] > 0 and below[3][2] > 0)
    assert.same({ 1, 0 }, below[2])
    local row = O.stack({ x, y }, 1)
    local best = O.flat(row:argmax(1))
    assert.same({ 2, 0 }, best[2])
    assert.is_true(best[1][2] > 0 and best[3][2] > 0)
  end)

  it("gives zeros the signs that the library gives them", function()
    local function signs(lib, zero)
      local ids, y = lib == O and given("i64", 1) or flame.tensor({ 1 }, { dtype = "i64" }), {}
      for i, x in ipairs { zero:sum(1), zero:prod(1), zero:amax(1), zero:index_add(1, ids, zero),
          zero:round(), zero:maximum(zero) } do
        local z = lib == O and O.flat(x:reciprocal())[1][1] or x:reciprocal():sum():item()
        y[i] = z > 0
      end
      return y
    end
    assert.same(signs(flame, flame.tensor { -0.0 }), signs(O, given("f32", -0.0)))
  end)
end)

describe("random programs", function()
  local counts = {}

  it("#slow agree bit for bit between budgets and collector modes, and with the oracle", function()
    local first, last, step = seeds(COUNT)
    io.write(("random programs: seeds %d to %d by %d on %s\n"):format(first, last, step,
      flame.default_device()))
    for seed = first, last, step do
      local program = P.make(seed)
      P.count(program, counts)
      local why = P.check(program, modes_of(seed))
      if why then report(program, modes_of(seed), why) end
    end
  end)

  it("hold each kind that matters in one of twenty", function()
    for _, kind in ipairs { "write under a live snapshot", "refused write to a view",
      "read after the source changed", "dead random op", "budget cut inside a chain",
      "error in mid-window", "0-d", "empty" } do
      io.write(("random programs: %s: %d\n"):format(kind, counts[kind] or 0))
      local least = 100 * COUNT // 2000
      if PARTS > 1 then least = least // PARTS // 2 end    -- all parts together must reach it
      assert.is_true((counts[kind] or 0) >= least, kind .. ": " .. (counts[kind] or 0))
    end
  end)

  it("#slow have the gradients of central differences, in the same bits in every mode", function()
    local first, last, step = seeds(COUNT // 8)
    for seed = first, last, step do
      local program = P.make(seed, seed % 3 == 0 and "f32" or "f64")
      local why = P.check(program, modes_of(seed))
      if why then report(program, modes_of(seed), why) end
    end
    io.write(("random programs: %d gradients compared\n"):format(P.counts.gradients))
    if P.second then
      io.write(
        ("random programs: %d values with the bits of the %s, %d within bounds\n"):format(
        P.counts.same or 0,
        P.second, P.counts.near or 0))
    end
  end)

  it("find their plans again with other numbers", function()
    local mode, tried = { budget = WHOLE, collector = "stop" }, 0
    local first, last, step = seeds(150)
    for seed = first, last, step do
      local program = P.make(seed)
      local branches = false
      for _, s in ipairs(program.steps) do branches = branches or s.f == "branch" end
      if not branches then
        collectgarbage()
        local before = flame.stats().collections
        assert(P.run(program, mode))
        local plans = flame.stats().plans
        assert(P.run(P.other_numbers(program), mode))
        if flame.stats().collections == before then
          tried = tried + 1
          assert.equal(plans, flame.stats().plans, "seed " .. seed)
        end
      end
    end
    assert.is_true(tried > 50 // PARTS // 2)
  end)

  it("do not take each other's plans when only their slices differ", function()
    local modes, tried = { { budget = WHOLE, collector = "stop" } }, 0
    local first, last, step = seeds(300)
    for seed = first, last, step do
      local program = P.make(seed)
      local twin = P.other_slices(program)
      if twin then
        tried = tried + 1
        assert(P.run(program, modes[1]))
        local why = P.check(twin, modes)
        if why then error(("seed %d: %s\n%s"):format(seed, why, P.text(twin)), 0) end
      end
    end
    -- a part may have none
    assert.is_true(tried > 10 or PARTS > 1, tried .. " programs with a slice")
  end)
end)

-- Each planted bug is a mistake that a planner could make; the random programs must find it.
describe("a planted planner bug", function()
  after_each(function() plant(0) end)

  --- Plants bug k and runs programs: how many until one fails, and why; nil if none of 'most' does.
  local function found(k, most, check)
    plant(k)
    for i = 1, most do
      local ok, why = pcall(check, P.make(FIRST + i - 1, i % 2 == 0 and "f32" or nil))
      if not ok or why then return i, tostring(why):match("^[^\n]*") end
    end
  end
  local function plain(program)
    local modes = {}
    for i, budget in ipairs { 1, 7, WHOLE } do
      modes[i] = { budget = budget, collector = "stop" }
    end
    return P.check(program, modes, true)
  end
  local function against_slices(program)
    local twin = P.other_slices(program)
    if not twin or program.float then return nil end
    assert(P.run(program, { budget = WHOLE, collector = "stop" }))
    return P.check(twin, { { budget = WHOLE, collector = "stop" } })
  end
  local function against_numbers(program)
    assert(P.run(program, { budget = WHOLE, collector = "stop" }))
    local plans = flame.stats().plans
    assert(P.run(P.other_numbers(program), { budget = WHOLE, collector = "stop" }))
    if flame.stats().plans > plans then return "another plan for other numbers" end
  end
  local bugs = { { "dropped anti-dependency", plain }, { "skipped copy", plain },
    { "live value taken for dead", plain },
    { "scalar in the key", against_numbers }, { "two buffers at one address", plain },
    { "stale plan", against_slices } }
  for k, bug in ipairs(bugs) do
    if k % PARTS ~= PART then goto next end
    it("is found: " .. bug[1], function()
      local n, why = found(k, 800, bug[2])
      io.write(("planted: %s: %s\n"):format(bug[1],
        n and "program " .. n .. ": " .. why or "not found"))
      assert.truthy(n)
    end)
    ::next::
  end
end)
