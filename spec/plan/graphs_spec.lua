-- Which runs are replayed, and as how many graphs: counted on the fake driver (spec/c/fake_cuda.c),
-- whose memory is handed out as a GPU's is. What graphs compute is replay_spec's.

local machine = require "spec.support.machine"
local folder
setup(function() folder = machine.new() end)
teardown(function() machine.remove(folder) end)

--- What a script prints there.
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
  --- Graphs of n replayed steps.
  local function graphs(n)
    return tonumber(run(([[
      local nn, optim = require "flame.nn", require "flame.optim"
      local net = nn.Sequential(nn.Linear(12, 16), nn.ReLU(), nn.Linear(16, 5))
      local opt = optim.Adam(net:parameters(), { lr = 0.01 })
      local x, labels = flame.randn(8, 12), flame.randint({ 8 }, 1, 5)
      local function step()
        opt:zero_grad()
        flame.cross_entropy(net(x), labels):backward()
        opt:step()
      end
      for _ = 1, 8 do step() collectgarbage() end
      flame.stats("reset")
      for _ = 1, %d do step() end
      assert(flame.stats().replays == %d)]]):format(n, n),
      "FAKE_CUDA=tell=1"):match("(%d+) graphs"))
  end

  it("is two graphs: the optimiser does not wait until the host has seen that they fit", function()
    assert.equal(20, graphs(14) - graphs(4))
  end)
end)
