--- How a process finds the others of its job: by the variables of launchers, and by MPI's library.
require "spec.support.helper"
local ranks = require "spec.support.ranks"

describe("the environment of a group", function()
  it("goes by what the launcher says", function()
    local program = dofile("spec/support/interpreter.lua")
    local function said_with(with, text)
      local pipe = assert(io.popen(("env %s %s -e '%s' 2>&1"):format(with, program, text)))
      local said = pipe:read("a")
      pipe:close()
      return said
    end
    local show = "local d = require(\"flame.distributed\") print(d.init(), d.local_rank())"
    assert.equal("1\t1\n", said_with("RANK=0 WORLD_SIZE=1 LOCAL_RANK=0", show))
    assert.equal("1\t1\n", said_with("SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=1 SLURM_LOCALID=0", show))
    assert.is_truthy(said_with("RANK=2 WORLD_SIZE=2", show):find(
      "RANK='2' WORLD_SIZE='2' LOCAL_RANK='': need a size, at most 1048576, and a rank from 0, below"
      .. " it", 1, true))
    for with, want in pairs {
      ["WORLD_SIZE=2"] = "RANK='' WORLD_SIZE='2'", ["RANK=1"] = "RANK='1' WORLD_SIZE=''",
      ["RANK=0 WORLD_SIZE=99999999999999999999"] = "WORLD_SIZE='99999999999999999999'",
      ["RANK=-1 WORLD_SIZE=2"] = "RANK='-1'", ["RANK=0 WORLD_SIZE=0"] = "WORLD_SIZE='0'",
      ["RANK=0 WORLD_SIZE=2 LOCAL_RANK=x"] = "LOCAL_RANK='x'",
    } do
      local said = said_with(with, show)
      assert.is_truthy(said:find(want, 1, true), said)
    end
    -- torchrun under srun: MPI, of one rank, is not asked
    local out = ranks.run(2, "print(r, distributed.local_rank())", { by = "tcp",
      with = "SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=1 SLURM_LOCALID=0" })
    for rank = 1, 2 do assert.equal(("%d\t%d\n"):format(rank, rank), out[rank]) end
    -- in a script of sbatch, outside of srun, there is one process, whatever SLURM_NTASKS says
    assert.equal("1\t1\n", said_with("SLURM_PROCID=0 SLURM_NTASKS=4", show))
    assert.is_truthy(said_with("RANK=x WORLD_SIZE=2", show):find("RANK='x'", 1, true))
  end)
  it("says which package has MPI, where there is none, and of another what it lacks", function()
    local program = dofile("spec/support/interpreter.lua")
    for library, want in pairs {
      ["libnowhere.so"] =
        "init: MPI: libnowhere.so not found (Debian: apt-get install openmpi-bin libopenmpi3)",
      ["libm.so.6"] = "init: MPI: libm.so.6 has no MPI_Initialized: it is not OpenMPI, which alone "
        .. "is supported (Debian: apt-get install openmpi-bin libopenmpi3)",
    } do
      local pipe = assert(io.popen(("env FLAME_MPI=%s SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=2 %s -e '%s' 2>&1"):format(
        library, program, "print(pcall(require(\"flame.distributed\").init))")))
      local said = pipe:read("a")
      pipe:close()
      assert.is_truthy(said:find(want, 1, true), said)
    end
  end)
end)
