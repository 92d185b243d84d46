-- A large product of f32 and what is added to it are one step on a GPU (n_add_once in
-- src/tensor/build_matmul.c), with the bits of two steps. sums_run.lua has the programs.
local flame = require "flame"
local interpreter = require "spec.support.interpreter"
local machine = require "spec.support.machine"
local has_gxx <const> = os.execute "g++ --version >/dev/null 2>&1"

--- What the programs of these seeds print; environment: "NAME=value …".
local function run(first, last, environment)
  local pipe = assert(io.popen(("%s %s spec/plan/sums_run.lua %d %d 2>&1"):format(environment,
    interpreter, first, last)))
  local text = pipe:read "a"
  assert(pipe:close(), text)
  return text
end

describe("sums of products and other gradients", function()
  it("have the bits of products and sums apart", has_gxx and function()
    local folder = machine.new()
    local fake = ("FLAME_DEVICE=cuda FLAME_TEST_MACHINE=%s FAKE_CUDA=computes=2 TMPDIR=%s "
      .. "FLAME_CACHE_DIR=%s/cache"):format(folder, folder, folder)
    local expected = run(1, 4, fake .. " FLAME_EAGER=1")
    local text = run(1, 4, fake .. " FLAME_DEBUG=1")
    machine.remove(folder)
    local lines = {}
    for line in text:gmatch "[^\n]+" do
      if line:find "^%d+\t%d\t" then lines[#lines + 1] = line end
    end
    assert.equal(expected, table.concat(lines, "\n") .. "\n")
    assert.is_true(select(2, text:gsub(", sum\n", "")) >= 3, text)
  end or function() pending "no g++" end)

  it("have them on this machine's GPU", function()
    if not flame.cuda.available() then return pending "no GPU" end
    assert.equal(run(1, 60, "FLAME_EAGER=1"), run(1, 60, "FLAME_EAGER=0"))
  end)
end)
