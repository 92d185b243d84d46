--- run(n, text, {by = "mpi" | "tcp", with = "VARIABLE=value …", timeout =, grace =, signal =,
-- all =}) runs the Lua script 'text' in n processes, under mpirun or as torchrun starts them, and
-- returns {status =, [rank] = what this rank printed}. The script may use flame, distributed (after
-- init with timeout seconds), its rank r, and n. grace: seconds that mpirun gives ranks from
-- SIGTERM to SIGKILL when one has ended. signal(folder) is called while the ranks run; each has
-- written its process id to folder/RANK.pid. ranks.there: is mpirun installed? With
-- FLAME_DEVICE=cuda each rank has a GPU. With fewer GPUs than ranks arrays go over the host, and
-- the message about this is removed from the output, unless 'all' is given.
local program = dofile("spec/support/interpreter.lua")

local PRELUDE = [[
local flame, distributed = require "flame", require "flame.distributed"
distributed.init { timeout = %g }
local r, n = distributed.rank(), distributed.size()
if os.getenv "FLAME_DEVICE" == "cuda" then flame.default_device(flame.best_device()) end
]]
local ON_GPUS = os.getenv "FLAME_DEVICE" == "cuda"
-- seconds for a whole run, and to wait for another rank: more on a GPU, where ranks compile kernels
local LIMIT <const>, WAIT <const> = ON_GPUS and 250 or 100, ON_GPUS and 100 or 20

local function all_of(path)
  local f = io.open(path)
  if not f then return "" end
  local text = f:read("a")
  f:close()
  return text
end

local ranks = { started = 0 }

ranks.there = os.execute("command -v mpirun >/dev/null 2>&1") == true

--- The shell command that starts the ranks, with output in RANK.out. It succeeds if all ranks do.
local function command(count, o)
  local run = ("env %s %s train.lua"):format(o.with or "FLAME_THREADS=1",
    program:find("^/") and program or "$TOP/" .. program)
  if o.by ~= "tcp" then
    -- ob1 is MPI's transport for a single host; unless it is named here, MPI tries others first
    return ([[OMPI_MCA_pml=ob1 OMPI_MCA_odls_base_sigkill_timeout=%d timeout -k 5 %d mpirun --allow-run-as-root ]]
      .. [[--oversubscribe -n %d sh -c 'echo $$ >$((OMPI_COMM_WORLD_RANK + 1)).pid; exec %s ]]
      .. [[>$((OMPI_COMM_WORLD_RANK + 1)).out 2>&1' >mpirun.out 2>&1 </dev/null]]):format(
      o.grace or 0, LIMIT, count, run)
  end
  -- the variables that torchrun sets; if the port is in use, ranks try the following ones
  local port = 20000 + (ranks.started * 37 + os.time() * 101) % 20000
  ranks.started = ranks.started + 1
  return ([[bad=0; for k in $(seq 1 %d); do TORCHELASTIC_RUN_ID=$PWD MASTER_ADDR=127.0.0.1 MASTER_PORT=%d RANK=$((k - 1)) ]]
    .. [[LOCAL_RANK=$((k - 1)) WORLD_SIZE=%d K=$k timeout -k 5 %d sh -c 'echo $$ >$K.pid; ]]
    .. [[exec %s ]]
    .. [[>$K.out 2>&1' </dev/null & started="$started $!"; done; ]]
    .. [[for k in $started; do wait $k || bad=1; done; exit $bad]]):format(count, port, count,
    LIMIT, run:gsub("OMPI_COMM_WORLD_RANK", "RANK"))
end

function ranks.run(count, text, o)
  o = o or {}
  local folder = os.tmpname()
  os.remove(folder)
  assert(os.execute("mkdir " .. folder))
  local f <close> = assert(io.open(folder .. "/train.lua", "w"))
  f:write((PRELUDE:format(o.timeout or WAIT):gsub("\n", " ")), text)
  f:close()
  local start = ("TOP=$PWD; export TOP ASAN_OPTIONS=detect_leaks=%d; cd %s && (%s)"):format(
    o.by == "tcp" and 1 or 0, folder, command(count, o))                 -- MPI itself leaks
  if o.signal then
    local done = folder .. "/done"
    os.execute(("(%s; echo $? >%s) 2>/dev/null &"):format(start, done))
    o.signal(folder)
    for _ = 1, 3000 do
      if all_of(done) ~= "" then break end
      os.execute("sleep 0.02")
    end
  else start = start .. " 2>/dev/null" end
  local out = { status = o.signal and tonumber(all_of(folder .. "/done"))
    or select(3, os.execute(start)), mpirun = all_of(folder .. "/mpirun.out") }
  for k = 1, count do
    out[k] = all_of(folder .. "/" .. k .. ".out")
    if ON_GPUS and not o.all then
      out[k] = out[k]:gsub("flame: arrays of GPUs go over the host[^\n]*\n", "")
    end
  end
  os.execute("rm -rf " .. folder)
  return out
end

return ranks
