--- run(n, text, {with = "VARIABLE=value …", timeout =, grace =, signal = f}) runs a script of Lua
-- in n processes under mpirun and gives {status =, [rank] = what that rank printed}. The script has
-- flame, distributed (init is done, with a time limit of 20 s), r and n. grace: seconds that mpirun
-- gives ranks from SIGTERM to SIGKILL when one has ended. ranks.there: is there an mpirun?
-- signal(folder) is called while the ranks run: each has written its process id to folder/RANK.pid.
local program = dofile("spec/support/interpreter.lua")

local PRELUDE = [[
local flame, distributed = require "flame", require "flame.distributed"
distributed.init { timeout = %g }
local r, n = distributed.rank(), distributed.size()
]]

local function all_of(path)
  local f = io.open(path)
  if not f then return "" end
  local text = f:read("a")
  f:close()
  return text
end

local ranks = {}

ranks.there = os.execute("command -v mpirun >/dev/null 2>&1") == true

function ranks.run(count, text, o)
  o = o or {}
  local folder = os.tmpname()
  os.remove(folder)
  assert(os.execute("mkdir " .. folder))
  local f <close> = assert(io.open(folder .. "/train.lua", "w"))
  f:write((PRELUDE:format(o.timeout or 20):gsub("\n", " ")), text)
  f:close()
  local start = ([=[cd %s && ASAN_OPTIONS=detect_leaks=0 OMPI_MCA_odls_base_sigkill_timeout=%d ]=]
    .. [=[timeout -k 5 100 mpirun --allow-run-as-root --oversubscribe -n %d sh -c ]=]
    .. [=['echo $$ >$((OMPI_COMM_WORLD_RANK + 1)).pid; exec env %s %s train.lua ]=]
    .. [=[>$((OMPI_COMM_WORLD_RANK + 1)).out 2>&1' >mpirun.out 2>&1 </dev/null]=]):format(folder,
    o.grace or 0, count, o.with or "FLAME_THREADS=1",
    program:find("^/") and program or "$PWD0/" .. program)
  start = "PWD0=$PWD; export PWD0; " .. start
  if o.signal then
    local done = folder .. "/done"
    os.execute(("(%s; echo $? >%s) &"):format(start, done))
    o.signal(folder)
    for _ = 1, 3000 do
      if all_of(done) ~= "" then break end
      os.execute("sleep 0.02")
    end
  end
  local out = { status = o.signal and tonumber(all_of(folder .. "/done"))
    or select(3, os.execute(start)), mpirun = all_of(folder .. "/mpirun.out") }
  for k = 1, count do out[k] = all_of(folder .. "/" .. k .. ".out") end
  os.execute("rm -rf " .. folder)
  return out
end

return ranks
