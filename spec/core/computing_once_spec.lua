--- Kernels that read a row of half floats once and hold it in registers, with what they compute of
-- it in shared memory (put_once in src/cuda/text/text_row.c), on the fake GPU. There must be enough
-- rows that a block does not take a part of one (64 for 32,776 elements).
local machine = require "spec.support.machine"
local has_gxx <const> = os.execute "g++ --version >/dev/null 2>&1"
local folder
setup(function() folder = machine.new() end)
teardown(function() machine.remove(folder) end)

--- What the script prints; environment: of it.
local function run(script, environment)
  return machine.run(folder, script, ("FAKE_CUDA=computes=2 FLAME_CACHE_DIR=%s/cache TMPDIR=%s %s")
    :format(folder, folder, environment))
end

-- note(tensors): all bits of their values become a part of 'hash', which is printed.
local note <const> = [==[
local hash, bits = 5381, dofile "spec/support/bits.lua"
local function note(...)
  for _, x in ipairs { ... } do hash = bits(hash, x) end
end
]==]

local entropy <const> = note .. [==[
for _, case in ipairs { { 66, 32776, "f16" }, { 134, 32784, "bf16" } } do    -- (132 blocks)
  local rows, n, dtype = table.unpack(case)
  flame.seed(n)
  local x = (flame.randn(rows, n) * 3):to(dtype):requires_grad_()
  local labels = flame.randint({ rows }, 1, n)
  labels[1] = n
  flame.eval(x, labels)
  local loss = flame.cross_entropy(x, labels, { ignore_index = labels[2]:item() })
  loss:backward()
  flame.eval(loss, x.grad)
  note(loss, x.grad[{ { 1, 3 } }], x.grad[{ { rows - 2, rows } }])
  if rows == 66 then
    labels[2] = n + 1
    print(pcall(function() return flame.cross_entropy(x, labels):item() end))
  end
end
print(hash)]==]

-- the extremes of rows of: zeros of both signs; numbers one of which is none; -inf; numbers one of
-- which is inf; numbers half of which are -inf; random numbers
local extremes <const> = note .. [==[
local n, inf = 32776, math.huge
local at = flame.arange(n)
flame.seed(3)
for _, dtype in ipairs { "f16", "bf16" } do
  local x = flame.stack({ -0.0 * (at % 2), flame.where(at:eq(n - 1), 0 / 0, at % 3),
    flame.full({ n }, -inf), flame.where(at:eq(7), inf, at % 5),
    flame.where((at % 2):eq(1), -inf, -(at % 7) - 100), flame.randn(n) * 3 }, 1):tile(11, 1):to(dtype)
  flame.eval(x)
  local function softmin()
    local e = (x:amin({ dim = 2, keepdim = true }) - x):exp()
    return e / e:sum({ dim = 2, keepdim = true })
  end
  for _, f in ipairs { function() return x:softmax(2) end, softmin } do
    local y = f()
    flame.eval(y)                       -- with the cast of 'note' it would be another kernel
    note(y[{ { 1, 6 } }])
  end
end
print(hash)]==]

describe("rows of half floats that are read once", has_gxx and function()
  it("have the loss and gradient of cross entropy, to the bits of the ops one by one", function()
    local function lines(environment)
      local text = run(entropy, environment)
      return text:match "class 32777 at position 2" or text, text:match "\n(%-?%d+)\n"
    end
    local fault, expected = lines "FLAME_EAGER=1"
    assert.equal("class 32777 at position 2", fault)
    local same, got = lines ""
    assert.equal(fault, same)
    assert.equal(expected, got)
    -- a GPU with too little shared memory for these kernels must give the same values
    local _, small = lines "FAKE_CUDA=\"computes=2 shared=101376\""
    assert.equal(expected, small)
    -- a planted fault, by which these kernels do not load the next row, changes the values
    local _, wrong = lines
      "FLAME_CACHE_DIR=off FAKE_CUDA_PLANT='if (row + gridDim.x < rows) {|if (false) {'"
    assert.not_equal(expected, wrong)
  end)

  it("have the extremes of special numbers, to the bits of the ops one by one", function()
    local function hash(environment) return run(extremes, environment):match "^(%-?%d+)\n" end
    local expected = hash "FLAME_EAGER=1"
    assert.truthy(expected)
    assert.equal(expected, hash "")
    -- another extreme than the one that is asked for changes the values: these kernels are used
    for _, type in ipairs { "f16", "bf16" } do
      for _, plant in ipairs { "= mins_%s(m|= maxs_%s(m", "= maxs_%s(m|= mins_%s(m" } do
        local wrong = hash(("FLAME_CACHE_DIR=off FAKE_CUDA_PLANT='%s'"):format(plant:format(type,
          type)))
        assert.truthy(wrong)
        assert.not_equal(expected, wrong)
      end
    end
  end)
end or function() it("are compiled", function() pending "no g++" end) end)
