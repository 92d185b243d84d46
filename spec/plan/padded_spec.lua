-- Matrices whose rows a plan pads for products on a GPU (src/plan/pitch.c) give the same bits as
-- without padding (padded_run.lua has the programs). The fake GPU computes them where there is
-- none.
local flame = require "flame"
local machine = require "spec.support.machine"
local has_gxx <const> = os.execute "g++ --version >/dev/null 2>&1"
local folder

local function run(script, environment)
  return machine.run(folder, "local P = require \"spec.plan.padded_run\" " .. script,
    ("FAKE_CUDA=computes=2 FLAME_CACHE_DIR=%s/cache TMPDIR=%s %s"):format(folder, folder,
      environment or ""))
end

local function count(text, what) return select(2, text:gsub(what, "")) end

describe("products of half floats of odd sizes", has_gxx and function()
  setup(function() folder = machine.new() end)
  teardown(function() machine.remove(folder) end)

  it("have the same bits in random programs, op by op and padded", function()
    local padded = 0
    for _, seed in ipairs { 1, 3, 5, 8 } do
      local text = run(("print(P.check(%d))"):format(seed), "FLAME_DEBUG=1")
      assert.truthy(text:find("\nnil\t", 1, true), text:match "seed %d+: [^\n]*" or text)
      padded = padded + count(text, "batch dims[^\n]*, padded")
    end
    assert.is_true(padded >= 20, padded .. " padded products")
  end)

  it("have rows of more than 32,768 elements whose last vector is not full", function()
    local function hash(apart, environment)
      local text = run(("print(\"hash\", P.long_hash(%s))"):format(apart), environment)
      return assert(text:match "hash\t(%d+)", text), count(text, "batch dims[^\n]*, padded")
    end
    local expected = hash(true)
    local got, padded = hash(false, "FLAME_DEBUG=1")
    assert.equal(expected, got)
    assert.equal(2, padded)
    -- planted: what follows a row counts
    local plant <const> = "if (j == 16 && e + 1 >= n) x = |if (0) x = "
    local wrong = hash(false, ("FLAME_CACHE_DIR=off FAKE_CUDA_PLANT='%s'"):format(plant))
    assert.not_equal(expected, wrong)
  end)

  it("have the same bits however their rows are read", function()
    local text = run("for name in pairs(P.reads) do print(name, P.differ(name)) end",
      "FLAME_DEBUG=1")
    for _, name in ipairs { "axes", "bytes", "words" } do
      assert.equal("0", text:match("\n" .. name .. "\t(%d+)"), name)
    end
    assert.is_true(count(text, "batch dims[^\n]*, padded") >= 1)
  end)
end or function() it("are compiled", function() pending "no g++" end) end)

describe("products of half floats on this machine", function()
  it("have the same bits op by op and padded", function()
    if not flame.cuda.available() then return pending "no GPU" end
    local P = require "spec.plan.padded_run"
    for seed = 1, 60 do assert.is_nil((P.check(seed))) end
    assert.equal(P.long_hash(true), P.long_hash(false))
    for name in pairs(P.reads) do assert.equal(0, P.differ(name), name) end
  end)
end)
