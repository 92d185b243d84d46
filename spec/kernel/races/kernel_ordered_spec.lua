--- Sums of gradients that do not depend on the order of the threads (ordered_sums.lua here): the
-- bits are the same whatever unit was guessed, in each way to run, and faults that are planted into
-- the kernels show. On the fake GPU, which orders threads at random, and on a GPU.
local flame = require "flame"
local machine = dofile "spec/support/machine.lua"
local has_gxx = os.execute "g++ --version >/dev/null 2>&1"
local parts <const> = { "few", "many", "doubles", "odd", "long", "cancel", "several", "twice",
  "taken", "steps" }

describe("sums in a fixed unit", function()
  local folder
  setup(function() folder = machine.new() end)
  teardown(function() machine.remove(folder) end)

  --- What the parts say on the fake GPU: lines of verdict, hash and replays.
  local function run(names, environment)
    return machine.run(folder, ([[
local sums = dofile("spec/kernel/races/ordered_sums.lua")
for name in ("%s"):gmatch "%%a+" do print(name, sums(name)) end]]):format(table.concat(names, " ")),
      ("FLAME_CACHE_DIR=%s/cache TMPDIR=%s %s"):format(folder, folder, environment))
  end
  local function seeded(seed, more)
    return run(parts, ("FAKE_CUDA=\"computes=1 seed=%d\" %s"):format(seed, more or ""))
  end

  --- A test, which is pending where there is no g++.
  local function case(title, test)
    it(title, has_gxx and test or function() pending "no g++" end)
  end

  --- The lines without the number of replays.
  local function same(text) return (text:gsub("(steps\tgood\t%x+)\t%d+", "%1")) end

  case("have the same bits after other gradients, as graphs, by steps, in any order", function()
    local first = seeded(1)
    for _, name in ipairs(parts) do assert.truthy(first:find(name .. "\tgood\t"), first) end
    assert.truthy(tonumber(first:match "steps\tgood\t%x+\t(%d+)") >= 10, first)
    for _, more in ipairs { "FLAME_REPLAY=2", "FLAME_REPLAY=0", "FLAME_EAGER=1" } do
      assert.equal(same(first), same(seeded(2, more)))
    end
  end)

  case("have them where all calls share one guess", function()
    local names <const> = { "few", "doubles", "several" }
    local text = "FLAME_CACHE_DIR=off FAKE_CUDA=\"computes=1\" "
      .. "FAKE_CUDA_PLANT=\"GUESSES = 4096|GUESSES = %d\""
    assert.equal(run(names, text:format(4096)), run(names, text:format(1)))
  end)

  case("have them where lanes at the ends of different sums meet", function()
    local text = "FLAME_CACHE_DIR=off FAKE_CUDA=\"computes=1 seed=5\" FAKE_CUDA_PLANT=\"%s\""
    local head, names <const> = "FL_FN void fl_ordered_end(", { "several", "twice" }
    local apart = "static __attribute__((noinline)) void fl_ordered_end("
    assert.equal(run(names, text:format(head .. "|" .. head)),
      run(names, text:format(head .. "|" .. apart)))
  end)

  -- A fault, and parts that find it.
  local plants = {
    ["no launch is repeated"] = { "if (!is_again(x, sums)) return;|return;", "few", "cancel" },
    ["a guess that is too large holds"] = { "!= x[k].guess|> x[k].guess", "few" },
    ["a guess that is too small holds"] = { "!= x[k].guess|< x[k].guess", "few" },
    ["sums are not cleared"] = {
      "(n + 1) / 2; i += threads()) x->low[i] = 0;|(n + 1) / 2; i += threads()) {}", "few" },
    ["arrays are not put back"] = { "put_back(c.at[k]);|{}", "taken" },
    ["sums that leave 64 bits are kept"] = { "else *(volatile unsigned *)x.again = 1;|", "long" },
    ["upper halves are dropped"] = { "if (x.mode) atomicAdd(x.high|if (x.mode) (void)(x.high", "long" },
    ["infinities are passed over"] = { "*(volatile unsigned *)x.again = 1;|{}", "odd" },
    ["one sum has the unit of another"] = {
      "bucket_of(&x[k], *x[k].top))|bucket_of(&x[0], *x[0].top))", "several", "twice" },
    ["the second launch never runs"] = {
      "if (fl_pass && !fl_fix->again[1]) return;|if (fl_pass) return;", "few" },
  }
  for title, plant in pairs(plants) do
    case("are found wrong where " .. title, function()
      local text = run({ table.unpack(plant, 2) },
        ("FLAME_CACHE_DIR=off FAKE_CUDA=\"computes=1\" FAKE_CUDA_PLANT=\"%s\""):format(plant[1]))
      for i = 2, #plant do assert.falsy(text:find(plant[i] .. "\tgood"), text) end
    end)
  end

  -- With this fault a launch adds only where the unit was guessed: the second equal one does.
  case("are made by one launch where the unit is that of the last time", function()
    local text = machine.run(folder, [==[
local sum = flame.kernel { source = [=[
  __global__ void sum(const int *at, const float *x, float *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[at[i]];
  }]=], shape = { 300 } }
local places = {}
for i = 1, 300 do places[i] = i % 3 end
local at = flame.tensor(places, { dtype = "i32" })
for _, m in ipairs { 3, 300000 } do
  local x, g = flame.ones(m):requires_grad_(true), flame.ones(300)
  flame.eval(at, x, g)
  for turn = 1, 4 do
    local by = turn < 4 and turn + 3 or 2 ^ 9
    local d = sum(at, x, 300):gradients({ x }, { seed = g * by })[x]
    print(m, turn, d[1]:item())
    d = nil
    collectgarbage()
  end
end]==], "FAKE_CUDA=\"computes=1\" TMPDIR=" .. folder
      .. " FAKE_CUDA_PLANT=\"if (fl_pass && !fl_fix->again[1]) return;|if (fl_pass) return;\"")
    for _, m in ipairs { 3, 300000 } do
      local said = ("m\t1\t0.0\nm\t2\t500.0\nm\t3\t600.0\nm\t4\t0.0\n"):gsub("m", m)
      assert.truthy(text:find(said, 1, true), text)
    end
  end)

  it("have the same bits on this GPU each time", function()
    if flame.default_device() == "cpu" then return end
    local sums = dofile "spec/kernel/races/ordered_sums.lua"
    for _, name in ipairs(parts) do
      local what, hash = sums(name)
      assert.equal("good", what, name)
      for _ = 1, 3 do
        local again, bits = sums(name)
        assert.same({ what, hash }, { again, bits }, name)
      end
    end
  end)
end)
