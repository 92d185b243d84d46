--- Gradients of random kernels in which many threads read the same elements in loops
-- (spec/kernel/lanes_program.lua), on the CPU and on the fake GPU: with all lanes of a warp
-- together, and with seeds, which order threads at random and let lanes of a warp diverge.
-- Other programs: LANES_SEED=1000 LANES_COUNT=500.
local flame = require "flame"
local programs = dofile "spec/kernel/lanes_run.lua"
local machine = dofile "spec/support/machine.lua"
local has_gxx = os.execute "g++ --version >/dev/null 2>&1"
local first = math.tointeger(os.getenv "LANES_SEED" or 1)
local count = math.tointeger(os.getenv "LANES_COUNT" or 14)
local LAUNCHES <const> = 4

describe("a kernel whose threads read the same elements", function()
  local folder
  setup(function() folder = machine.new() end)
  teardown(function() machine.remove(folder) end)

  --- What the programs say on the fake GPU.
  local function run(seed, more)
    return machine.run(folder, ([[
local flame = require "flame"
print(dofile("spec/kernel/lanes_run.lua").run(flame, %d, %d, %d))]]):format(first, count,
      LAUNCHES), ("FAKE_CUDA=\"computes=1 seed=%d\" FLAME_CACHE_DIR=%s/cache TMPDIR=%s %s"):format(
      seed, folder, folder, more or ""))
  end

  local compared
  it("has the gradients of a tape on the CPU", function()
    local before <const> = flame.deterministic()
    local why
    compared, why = programs.run(flame, first, count, LAUNCHES, true)
    flame.deterministic(before)
    assert(compared, why)
    assert(compared > count * LAUNCHES * 0.9)
  end)

  for _, seed in ipairs { 0, first, first + 1 } do
    local title <const> = seed > 0 and "in seed " .. seed or "with all lanes together"
    it("has them on a GPU, threads ordered " .. title, has_gxx and function()
      local said = run(seed)
      assert(said == compared .. "\n", said)
    end or function() pending "no g++" end)
  end
end)
