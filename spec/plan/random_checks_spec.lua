-- Random programs whose index checks may fail (spec/support/checked.lua): on the CPU, and on a GPU
-- that computes on the CPU (spec/support/machine.lua), the same values fail, the same writes do not
-- happen and the others have the values of plain Lua. A failure prints its seed and a reduced
-- program. FLAME_FUZZ=n: n programs on the CPU (500; 100 under sanitizers), and fewer on the GPU;
-- FLAME_FUZZ_SEED=s: from seed s (1).
local flame = require "flame"
local machine = dofile("spec/support/machine.lua")
local M = dofile("spec/support/checked.lua")
local COUNT = tonumber(os.getenv "FLAME_FUZZ") or (os.getenv "FLAME_SANITIZE" and 100 or 500)
local FIRST = tonumber(os.getenv "FLAME_FUZZ_SEED") or 1
local has_gxx = os.execute("g++ --version >/dev/null 2>&1")

describe("random programs whose index checks may fail", function()
  it("agree with plain Lua", function()
    for seed = FIRST, FIRST + COUNT - 1 do
      local why = M.check(seed, flame.default_device())
      if why then error(why, 0) end
    end
  end)

  it("hold each kind that matters", function()
    local counts = {}
    local function count(kind) counts[kind] = (counts[kind] or 0) + 1 end
    for seed = 1, 500 do
      local program = M.make(seed)
      local values, any, refused = M.expect(program)
      count(not values and "unsound" or refused and "refused" or any and "failing" or "fine")
      for _, s in ipairs(program.steps) do
        count(s.op)
        count(s.how)
        if s.shown then count(s.shown) end
        if s.after then count("then " .. s.after) end
      end
    end
    assert.is_true(counts.unsound < 10)
    local kinds = { "refused", "failing", "fine", "stored", "computed", "i32", "pending", "held",
      "then all", "then alone", "then read", "then drop", "then written" }
    for _, op in ipairs(M.ops) do kinds[#kinds + 1] = op end
    for _, kind in ipairs(kinds) do
      assert.is_true((counts[kind] or 0) >= 40, kind .. " " .. (counts[kind] or 0))
    end
  end)

  it("see what a planner may do wrong", function()
    for _, bug in ipairs { 1, 2, 3, 5 } do               -- as numbered in random_spec.lua
      local found
      flame.internal.plant(bug)
      for seed = 1, 200 do
        local ok, why = pcall(M.fault, M.make(seed), "cpu")
        found = not ok or why
        if found then break end
      end
      flame.internal.plant(0)
      assert.truthy(found, "planted bug " .. bug)
    end
  end)

  --- Programs on a simulated GPU, run three times: the third time plans are graphs
  --- (FLAME_REPLAY=2), for whose checks the host does not wait. Returns what is printed: failures,
  --- then whether checks failed, and whether there were such runs.
  local function repeated(count)
    local folder <close> = setmetatable({ machine.new() },
      { __close = function(f) machine.remove(f[1]) end })
    return machine.run(folder[1], ([[
local flame = require "flame"
local M = dofile("spec/support/checked.lua")
for seed = %d, %d do
  local program = M.make(seed)
  local why = M.repeated(program, "cuda", 2)
  if why then print(why, "seed " .. seed, M.show(program)) end
end
pcall(flame.internal.checked)
local faults, flights = flame.internal.checked()
print(faults > 0, flights > 2)]]):format(FIRST, FIRST + count - 1),
      ("FAKE_CUDA=\"computes=1\" FLAME_REPLAY=2 FLAME_CACHE_DIR=%s/cache TMPDIR=%s"):format(
        folder[1], folder[1]))
  end

  it("#cuda agree with plain Lua where graphs are not waited for", has_gxx and function()
    assert.equal("true\ttrue\n", repeated(math.max(COUNT // 8, 60)))
  end or function() pending "no g++" end)

  it("#cuda agree with plain Lua on a GPU", has_gxx and function()
    local folder <close> = setmetatable({ machine.new() },
      { __close = function(f) machine.remove(f[1]) end })
    local text = machine.run(folder[1], ([[
local M = dofile("spec/support/checked.lua")
for seed = %d, %d do
  local why = M.check(seed, "cuda")
  if why then print(why) end
end
print "done"]]):format(FIRST, FIRST + math.max(COUNT // 125, 1) - 1),
      ("FAKE_CUDA=\"computes=1\" FLAME_CACHE_DIR=%s/cache TMPDIR=%s"):format(folder[1], folder[1]))
    assert.equal("done\n", text)
  end or function() pending "no g++" end)
end)
