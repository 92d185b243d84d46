-- Random programs of mixed dtypes (P.mix in spec/support/programs.lua): values and gradients must
-- have the same bits op by op and planned, and be those of a plain evaluator within its bounds. A
-- failure prints its seed and a reduced program. FLAME_FUZZ=n: n programs (600, sanitizers: 200);
-- FLAME_FUZZ_SEED=s: from seed s; tools/fuzz programs COUNT SEED runs any number.
local plant = require "flame".internal.plant
local P = dofile("spec/support/program_run.lua")
local COUNT = tonumber(os.getenv "FLAME_FUZZ") or (os.getenv "FLAME_SANITIZE" and 200 or 600)
local FIRST = tonumber(os.getenv "FLAME_FUZZ_SEED") or 1

describe("random programs of mixed dtypes", function()
  local counts = {}

  it("#slow agree bit for bit between budgets and collector modes, and with the oracle", function()
    for seed = FIRST, FIRST + COUNT - 1 do
      local why = P.check_mixed(seed, counts)
      if why then error(why, 0) end
    end
  end)

  it("hold each kind that matters", function()
    local kinds = { "stored leaf", "pending leaf", "given leaf", "turned leaf",
      "leaf without elements", "reduction", "reduction of widened halves",
      "reduction of the first axis", "row program", "evaluated together", "evaluated alone",
      "given up before", "write", "view", "join", "backward", "long" }
    for _, dtype in ipairs { "f64", "f32", "f16", "bf16", "i64", "i32", "i16", "i8",
        "u8", "bool" } do
      kinds[#kinds + 1], kinds[#kinds + 2] = dtype .. " leaf", "cast to " .. dtype
    end
    for _, kind in ipairs(kinds) do
      local n, least = counts[kind] or 0, COUNT // 50
      assert.is_true(n >= least, ("%s: %d programs of %d, need %d"):format(kind, n, COUNT, least))
    end
  end)

  if FIRST ~= 1 then return end                   -- the process that began at seed 1 does the rest
  it("see what a planner may do wrong", function()
    for _, bug in ipairs { 1, 2, 3, 5 } do               -- as numbered in random_spec.lua
      local found = false
      plant(bug)
      for seed = 1, 200 do
        local ok, why = pcall(P.check_mixed, seed, {})
        found = not ok or why ~= nil
        if found then break end
      end
      plant(0)
      assert.is_true(found, "planted bug " .. bug)
    end
  end)
end)
