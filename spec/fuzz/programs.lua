--- programs.lua COUNT [SEED [SECONDS]]: runs random programs of mixed dtypes
-- (spec/support/programs.lua) from SEED on, for at most SECONDS; run it in the root of the
-- repository. Each difference is printed with its seed and a program that was reduced; the last
-- line has counts. The exit status is 1 if there was a difference. FUZZ_PLANT=k: plants bug k in
-- the planner (random_spec.lua), which must be found.
local P = dofile("spec/support/program_run.lua")
local count, first, seconds = tonumber(arg[1]), tonumber(arg[2] or 1), tonumber(arg[3] or math.huge)
local flame, counts, done, bad, start = require "flame", {}, 0, 0, os.time()
flame.internal.plant(tonumber(os.getenv "FUZZ_PLANT" or 0))
print(("programs: seeds from %d, %s, %s, FLAME_ISA=%s"):format(first, os.date "%Y-%m-%d %H:%M:%S",
  flame.default_device(),
  os.getenv "FLAME_ISA" or ""))
for seed = first, first + count - 1 do
  if os.difftime(os.time(), start) >= seconds then break end
  local ok, why = pcall(P.check_mixed, seed, counts)
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
