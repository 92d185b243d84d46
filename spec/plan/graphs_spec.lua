-- Which runs are replayed, and as how many CUDA graphs: counted on the fake driver
-- (spec/c/fake_cuda.c), which allocates memory as a GPU does. replay_spec.lua compares values.

local machine = require "spec.support.machine"
local has_gxx <const> = os.execute "g++ --version >/dev/null 2>&1"
local folder
setup(function() folder = machine.new() end)
teardown(function() machine.remove(folder) end)

--- What a script prints on the fake driver.
local function run(script, environment) return machine.run(folder, script, environment) end

describe("a result", function()
  it("returns to its address, when other memory is free beside it", function()
    assert.equal("0001" .. ("1"):rep(20) .. "\n", run [[
      local x, w = flame.randn(32, 64), flame.randn(64, 64):requires_grad_()
      local other = {}
      for i = 1, 6 do other[i] = flame.randn(64, 64) end
      flame.eval(x, w, table.unpack(other))
      local replays = {}
      for i = 1, 24 do
        w.grad = nil
        collectgarbage()
        if i > 4 and i % 5 == 0 then                   -- freed after it: served first
          other[i // 5] = nil
          collectgarbage()
        end
        flame.stats("reset")
        x:matmul(w):tanh():sum():backward()
        flame.eval(w.grad)
        replays[i] = flame.stats().replays
      end
      print(table.concat(replays))]])
  end)
end)

describe("a training step with labels", function()
  --- How often the driver's function 'what' is called in n replayed training steps of these layers.
  local function calls(n, what, layers)
    return tonumber(run(([[
      local nn, optim = require "flame.nn", require "flame.optim"
      local net = nn.Sequential(%s)
      local opt = optim.Adam(net:parameters(), { lr = 0.01 })
      local x, labels = flame.randn(8, net[1].in_features), flame.randint({ 8 }, 1, 5)
      local function step()
        opt:zero_grad()
        flame.cross_entropy(net(x), labels):backward()
        opt:step()
      end
      for _ = 1, 8 do step() collectgarbage() end
      flame.stats("reset")
      for _ = 1, %d do step() end
      assert(flame.stats().replays == %d)]]):format(layers, n, n),
      "FAKE_CUDA=\"idle=1 tell=2\""):match("(%d+) " .. what .. "\n"))
  end
  local function per_step(what, layers)
    return (calls(14, what, layers) - calls(4, what, layers)) / 10
  end
  local two <const> = "nn.Linear(12, 16), nn.ReLU(), nn.Linear(16, 5)"
  local deep <const> = "nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU(), "
    .. "nn.Linear(128, 10)"

  it("is one graph: the optimiser does not wait until the host has seen that they fit", function()
    assert.equal(1, per_step("graphs", two))
  end)

  --- The lines of the last plan of a script, which is given w, x, labels, scores and y = tanh(x w).
  local function last_plan(script)
    local text = run([[
      local w, x = flame.randn(6, 5):requires_grad_(true), flame.randn(8, 6)
      local labels, scores = flame.randint({ 8 }, 1, 5), flame.randn(8, 5)
      flame.eval(w, x, labels, scores)
      local y = x:matmul(w):tanh()
      ]] .. script, "FLAME_DEBUG=1 FAKE_CUDA=\"idle=1\"")
    return text:match ".*(plan: .*)"
  end

  it("checks them in its first launch, so that the host need not wait for the products", function()
    for _, script in ipairs {
      "flame.cross_entropy(y, labels):backward() flame.eval(w.grad)",
      "flame.eval(flame.cross_entropy(y, labels, { reduction = 'none' }))",
      "flame.eval(flame.cross_entropy(y, labels, { label_smoothing = 0.1 }))",
    } do
      local plan = last_plan(script)
      assert.truthy(plan:match("step 1: (.-)step 2:"):find(" = index ", 1, true), plan)
      assert.equal(1, select(2, plan:gsub(" = index ", "")), plan)
    end
  end)

  it("checks more than 131,072 of them where they are read, which moves fewer bytes", function()
    for rows, steps in pairs { [131072] = 3, [131073] = 2 } do
      local plan = last_plan(("local n = %d "):format(rows) .. [[
        local a, t = flame.randn(n, 3), flame.randint({ n }, 1, 3)
        flame.eval(a, t)
        flame.eval(flame.cross_entropy(a, t, { reduction = "sum" }))]])
      assert.equal(steps, tonumber(plan:match "(%d+) steps"), plan)
    end
  end)

  it("checks labels that it computes where they are read", function()
    local plan = last_plan "flame.eval(flame.cross_entropy(y, (scores * 2):argmax(2)))"
    assert.truthy(plan:find "step 1: row kept%(8%) reduced%(5%)", plan)
    assert.equal(1, select(2, plan:gsub(" = index ", "")), plan)
  end)

  it("is one graph where forward and backward check apart, which sends its report", function()
    assert.equal(1, per_step("graphs", deep))
    for _, what in ipairs { "EventRecord", "CopyOut", "Memset8" } do
      assert.equal(calls(4, what, deep), calls(14, what, deep))
    end
  end)
end)

describe("a small result", function()
  --- Graphs launched by 10 steps: 8 layers (a sum after the 4th), then code: 'between', 'read'.
  local function graphs(between, read)
    local function of(n)
      return tonumber(run(([[
        local x, w, mean = flame.randn(8, 8), flame.randn(8, 8), flame.zeros(8, 8)
        for _ = 1, 8 + %d do
          local y, loss = x, nil
          for k = 1, 8 do
            y = y:matmul(w):tanh()
            if k == 4 then loss = y:sum() end
          end
          flame.eval(loss, y)
          %s
          %s
        end]]):format(n, between, read), "FAKE_CUDA=\"tell=1\""):match "(%d+) graphs\n")
    end
    return of(20) - of(10)
  end
  local short <const> = "mean:mul_(0.9):add_(y) flame.eval(mean)"          -- too short for a graph

  it("is copied to the host once it is there if it is read, also after other runs", function()
    assert.equal(10, graphs("", ""))
    assert.equal(20, graphs("", "loss:item()"))
    assert.equal(10, graphs(short, ""))
    assert.equal(20, graphs(short, "loss:item()"))
    assert.equal(10, graphs(short:rep(4, " "), "loss:item()"))             -- too many runs ago
  end)
end)

describe("graphs of many steps", function()
  it("have the same values where a captured graph cannot be instantiated", has_gxx and function()
    -- 100 steps in two graphs, each captured in one run and instantiated in another; instantiation
    -- fails from the call with this number on
    for first, replays in pairs { [1] = 0, [2] = 12, [99] = 12 } do
      local text = run([[
local x = flame.tensor({ 0.5, 1, 2 }, { device = "cuda" }):reshape(1, 3)
local w = flame.eye(3, { device = "cuda" }) * 0.5
local z, v = x:to "cpu", w:to "cpu"
flame.eval { x, w, z, v }
local wrong = 0
for i = 1, 20 do
  local function values(a, b)
    local y = a * i
    for _ = 1, 25 do y = y:matmul(b):tanh() + a end
    local first = y:sum()
    for _ = 1, 25 do y = y:matmul(b):tanh() * first end
    flame.eval(first, y)
    return first:item() + y:sum():item()
  end
  local a, b = values(x, w), values(z, v)
  if math.abs(a - b) > 1e-5 * math.abs(b) then wrong = wrong + 1 end
end
print("wrong", wrong, flame.stats().replays)]],
        ("FAKE_CUDA=\"computes=2 fail=GraphInstantiate:%d:1\" FLAME_CACHE_DIR=%s/cache TMPDIR=%s")
          :format(first, folder, folder))
      local wrong, n = text:match "wrong\t(%d+)\t(%d+)"
      assert.equal("0", wrong, text)
      assert.is_true(replays == 0 and n == "0" or replays > 0 and tonumber(n) >= replays, text)
    end
  end or function() pending "no g++" end)
end)
