--- programs.lua COUNT [SEED [SECONDS]]: runs random programs (spec/support/programs.lua) from SEED
-- on, for at most SECONDS: of each seed one of mixed dtypes, and one as in random_spec.lua, every
-- fourth time with gradients. Run it in the root of the repository. Each difference is printed with
-- its seed and a program that was reduced; the last line has counts. The exit status is 1 if there
-- was a difference. FUZZ_PLANT=k: plants bug k in the planner (random_spec.lua), which is to be
-- found.
local P = dofile("spec/support/program_run.lua")
local count, first, seconds = tonumber(arg[1]), tonumber(arg[2] or 1), tonumber(arg[3] or math.huge)
local flame, counts, done, bad, start = require "flame", {}, 0, 0, os.time()
flame.internal.plant(tonumber(os.getenv "FUZZ_PLANT" or 0))
print(("programs: seeds from %d, %s, %s, FLAME_ISA=%s"):format(first, os.date "%Y-%m-%d %H:%M:%S",
  flame.default_device(),
  os.getenv "FLAME_ISA" or ""))

--- Why the programs of a seed differ; nil: they do not.
local function differ(seed)
  local why = P.check_mixed(seed, counts)
  if why then return why end
  local kind = seed % 4 == 0 and (seed % 3 == 0 and "f32" or "f64") or nil
  local program = P.make(seed, kind)
  why = P.check(program, P.modes_of(seed))
  return why and ("seed %d: %s: %s"):format(seed, why, P.text(P.shrink(program, function(p)
    return P.check(p, P.modes_of(seed))
  end)))
end

for seed = first, first + count - 1 do
  if os.difftime(os.time(), start) >= seconds then break end
  local ok, why = pcall(differ, seed)
  if not ok then why = ("seed %d: %s"):format(seed, why) end
  done = done + 1
  if why then
    bad = bad + 1
    print("programs: " .. why)
  end
  if done % 1000 == 0 then print(("programs: %d so far, %d differ"):format(done, bad)) end
  io.stdout:flush()
end
print(("programs: %d rounds, %d differ, seeds %d to %d"):format(done, bad, first, first + done - 1))
os.exit(bad == 0, true)
