-- Sums at positions: every key's terms are added in their order, on each device, however many they
-- are (kernels/steps.cu). scatter_run.lua compares them with plain Lua.
local flame = require "flame"
local interpreter = require "spec.support.interpreter"
local machine = require "spec.support.machine"
local has_gxx <const> = os.execute "g++ --version >/dev/null 2>&1"

local function run(environment, ...)
  local pipe = assert(io.popen(("%s %s spec/plan/scatter_run.lua %s 2>&1"):format(environment,
    interpreter, table.concat({ ... }, " "))))
  local text = pipe:read "a"
  assert(pipe:close(), text)
  return text
end

describe("sums at positions", function()
  it("are those of plain Lua", function()
    assert.equal("74\n", run("", "ordered", 2000))
  end)

  it("are those of plain Lua on a GPU in any order of threads", has_gxx and function()
    local folder <close> = setmetatable({ machine.new() }, { __close = function(f)
      machine.remove(f[1])
    end })
    for seed = 1, 2 do
      local fake = ("FLAME_DEVICE=cuda FLAME_TEST_MACHINE=%s FAKE_CUDA='computes=1 seed=%d' TMPDIR=%s "
        .. "FLAME_CACHE_DIR=%s/cache"):format(folder[1], seed, folder[1], folder[1])
      assert.equal(seed == 1 and "74\n" or "70\n", run(fake, "ordered", seed == 1 and 262200 or ""))
      assert.equal("70\n", run(fake, "any"))
    end
  end or function() pending "no g++" end)

  it("are those of plain Lua on this machine's GPU", function()
    if not flame.cuda.available() then return pending "no GPU" end
    assert.equal("74\n", run("FLAME_DEVICE=cuda", "ordered", 700000))
    assert.equal("70\n", run("FLAME_DEVICE=cuda", "any"))
  end)
end)
