-- A large product of f32 and what is added to it are one step on a GPU (n_add_fused in
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
  local folder
  setup(function() folder = machine.new() end)
  teardown(function() machine.remove(folder) end)

  it("have the bits of products and sums apart", has_gxx and function()
    local fake = ("FLAME_DEVICE=cuda FLAME_TEST_MACHINE=%s FAKE_CUDA=computes=2 TMPDIR=%s "
      .. "FLAME_CACHE_DIR=%s/cache"):format(folder, folder, folder)
    local expected = run(19, 22, fake .. " FLAME_EAGER=1")
    local text = run(19, 22, fake .. " FLAME_DEBUG=1")
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

  it("are in a saved program what they are without, also of few elements", has_gxx and function()
    local text = machine.run(folder, [[
local path = os.tmpname()
local function gradient(x, w)
  return flame.grad(function(y) return y:matmul(w):square():sum() + y:square():sum() end)(x)
end
local function same(vary, sizes)
  flame.export(path, gradient, { flame.randn(1024, 1024), flame.randn(1024, 32), vary = vary })
  local p <close> = flame.program(path)
  for _, s in ipairs(sizes) do
    local x, w = flame.randn(s[1], 1024), flame.randn(1024, s[2])
    print((p(x, w):eq(gradient(x, w)):all():item()))
  end
end
same({ x = { 1 } }, { { 1024, 32 }, { 300, 32 }, { 16, 32 }, { 1, 32 }, { 0, 32 } })
same({ w = { 2 } }, { { 1024, 64 }, { 1024, 1 }, { 1024, 0 } })
os.remove(path)]], ("FAKE_CUDA=computes=2 FLAME_DEBUG=1 TMPDIR=%s"):format(folder))
    local _, sums = text:gsub(", sum\n", "")
    assert.is_true(sums >= 6, text)
    assert.equal(8, select(2, text:gsub("true\n", "")))
  end or function() pending "no g++" end)
end)
