-- Repeated runs are launched as CUDA graphs (src/cuda/replay.h). They must give the same bits as
-- evaluation after each op (budget 1: such plans are too short for graphs), whatever changes
-- between runs of one plan. On the CPU the same programs run without graphs.
local flame = require "flame"
local nn, optim = require "flame.nn", require "flame.optim"
local budget = flame.internal.budget
local on_gpu = flame.default_device() ~= "cpu"

--- Fills free memory with NaN, so that an element that a run should have written does not have the
--- value of the run before.
local function scribble()
  local junk = {}
  for i, n in ipairs { 5, 60, 96, 300, 1600, 2500, 4096 } do
    for k = 1, 24 do junk[i * 24 + k - 24] = flame.full({ n }, 0 / 0) end
  end
  flame.eval(junk)
end

--- The results of f with evaluation after each op, and with whole plans, from one seed. On a GPU at
--- least 'least' (1) runs must have been replayed, unless a fault 'bug' is planted for whole plans.
local function both(f, least, bug)
  local before = budget()
  local results = {}
  for k, b in ipairs { 1, before } do
    scribble()
    collectgarbage()
    budget(b)
    flame.internal.plant(k == 2 and bug or 0)
    flame.seed(7)
    flame.stats "reset"
    local ok, r = pcall(f)
    flame.internal.plant(0)
    budget(before)
    if not ok then error(r, 0) end
    results[#results + 1] = r
  end
  if on_gpu and not bug then
    local n = flame.stats().replays
    assert.is_true(n >= (least or 1), ("%d runs were replayed"):format(n))
  end
  return results[1], results[2]
end

local programs = {}                     -- by what they do
local function same(name, f, least)
  programs[name] = f
  it(name, function() assert.same(both(f, least)) end)
end

--- Weights as lists.
local function values(net)
  local list = {}
  for i, p in ipairs(net:parameters()) do list[i] = p:totable() end
  return list
end

local function classifier(dropout)
  return nn.Sequential(nn.Linear(12, 16), nn.ReLU(), nn.Dropout(dropout or 0), nn.Linear(16, 5))
end

local function step(net, opt, x, labels)
  opt:zero_grad()
  local loss = flame.cross_entropy(net(x), labels)
  loss:backward()
  opt:step()
  return loss
end

local scaled = flame.kernel [[__global__ void scaled(float *y, const float *x, float a, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = a * x[i] + i;
}]]

describe("replay", function()
  same("trains to the same bits, with dropout, a schedule and losses that are read", function()
    local net = classifier(0.3)
    local opt = optim.AdamW(net:parameters(), { lr = 0.01 })
    local schedule = optim.lr_scheduler.CosineAnnealingLR(opt, { T_max = 20 })
    local losses = {}
    for i = 1, 14 do
      local x, labels = flame.randn(8, 12), flame.randint({ 8 }, 1, 5)
      local loss = step(net, opt, x, labels)
      schedule:step()
      if i % 3 ~= 0 then losses[#losses + 1] = loss:item() end
    end
    return { values(net), losses }
  end, 4)

  same("keeps two nets of one shape apart", function()
    local nets, opts = {}, {}
    for k = 1, 2 do
      nets[k] = classifier()
      opts[k] = optim.SGD(nets[k]:parameters(), { lr = 0.1, momentum = 0.9 })
    end
    local x, labels = flame.randn(8, 12), flame.randint({ 8 }, 1, 5)
    for i = 1, 40 do                    -- in the first runs buffers change addresses
      collectgarbage()                  -- as below
      step(nets[i % 2 + 1], opts[i % 2 + 1], x, labels):item()
    end
    return { values(nets[1]), values(nets[2]) }
  end, 2)

  same("takes scalars of each run, of built-in and of user kernels", function()
    local x, held = flame.randn(300), {}
    flame.eval(x)
    for i = 1, 12 do
      local a = i < 8 and 2 or i                     -- equal for some runs, then other values
      local y = scaled(x, a, 300):softmax(1) * i
      local z = (y + flame.rand(300)):cumsum(1):softmax(1) / (i + 1)
      held[i] = scaled(z, 3, 300):softmax(1) * y:sum()
      -- nothing is read meanwhile, so one graph has all steps
      flame.eval(held[i])
    end
    for i, y in ipairs(held) do held[i] = y:totable() end
    return held
  end)

  same("gives old values to those that still hold them", function()
    local w, held = flame.randn(40, 40), {}
    flame.eval(w)
    for i = 1, 12 do
      if i % 4 == 0 then held[#held + 1] = w:clone() end
      local g = (w:matmul(w):softmax(2) - w:softmax(1)):tanh()
      w:sub_(g * 0.1)
      if i % 5 == 0 then held[#held + 1] = w * 1 end
      flame.eval(w)
    end
    local list = { w:totable() }
    for i, h in ipairs(held) do list[i + 1] = h:totable() end
    return list
  end)

  same("raises where an index is wrong, writes nothing then, and goes on", function()
    local net = classifier()
    local opt = optim.SGD(net:parameters(), { lr = 0.05 })
    local x, good = flame.randn(8, 12), flame.randint({ 8 }, 1, 5)
    local bad = flame.full({ 8 }, 6, { dtype = "i64" })
    flame.eval(x, good, bad)
    local said, losses = {}, {}
    for i = 1, 24 do
      collectgarbage()                  -- so that freed memory is used again
      local labels = (i == 7 or i == 11) and bad or good
      local ok, e = pcall(function() losses[#losses + 1] = step(net, opt, x, labels):item() end)
      if not ok then
        said[#said + 1] = tostring(e):match "class 6 at position 1"
        said[#said + 1] = values(net)
      end
    end
    assert.equal(4, #said)
    return { values(net), losses, said }
  end, 4)

  same("reads a value sooner than the steps after it, and not an older one", function()
    local x, seen = flame.randn(64, 64), {}
    flame.eval(x)
    for i = 1, 10 do
      local first = (x * i):sum()
      local y = x
      for _ = 1, 6 do y = y:matmul(x):tanh() end
      local keep = y + first
      seen[#seen + 1] = first:item()
      first:add_(1)
      seen[#seen + 1] = first:item()
      first:copy_(flame.tensor(i))
      seen[#seen + 1] = first:item()
      seen[#seen + 1] = keep:sum():item()
    end
    return seen
  end)

  same("reads a value after other runs, and not what was at its address before they wrote there", function()
    local x, seen, mean = flame.randn(64, 64), {}, flame.zeros(64, 64)
    flame.eval(x, mean)
    local function layers(y)
      for _ = 1, 4 do y = y:matmul(x):tanh() end
      return y
    end
    for i = 1, 12 do
      local y = layers(x * i)
      local loss = y:sum()
      flame.eval(layers(y) + loss, loss)
      mean:mul_(0.9):add_(y)
      flame.eval(mean)
      seen[#seen + 1] = loss:item()
      loss:add_(i)                                     -- one run writes loss, then another run
      flame.eval(loss)
      flame.eval(layers(mean))
      seen[#seen + 1] = loss:item()
      loss = nil
      collectgarbage()
      local new = flame.tensor(2.5 * i)                    -- an upload, perhaps to its address
      local sums = {}
      for k = 1, 4 do sums[k] = (x * k):sum() end          -- and results of a run
      flame.eval(table.unpack(sums))
      seen[#seen + 1] = new:item()
      for _, s in ipairs(sums) do seen[#seen + 1] = s:item() end
    end
    return seen
  end)

  same("goes on where buffers move and come back", function()
    local x, held, sums = flame.randn(50, 50), {}, {}
    flame.eval(x)
    for i = 1, 24 do
      local y = x:matmul(x):softmax(2):matmul(x):tanh():softmax(1)
      flame.eval(y)
      held[i % 3 + 1] = y
      if i == 12 then held = {} collectgarbage() end
      sums[i] = y:sum():item() + (held[1] or x):amax():item()
    end
    return sums
  end)

  -- some 70 steps before the value that is read, 100 after it: each of the two graphs is captured
  -- in one run and instantiated in another (FL_MADE_STEPS in src/cuda/recording.h)
  same("makes graphs of many steps over several runs, in which numbers and addresses change", function()
    local x, table_, held, seen = flame.randn(8, 8), flame.randn(20, 8), {}, {}
    flame.eval(x, table_)
    for i = 1, 24 do
      collectgarbage()                  -- as above
      local at = flame.full({ 8 }, i == 5 and 21 or i % 20 + 1, { dtype = "i64" })
      local y = scaled(x * i, 2, 64)
      for k = 1, 34 do y = y:matmul(x):tanh() * (k == 3 and i or 1) end
      local first = y:sum()
      for _ = 1, 34 do y = scaled(y:matmul(x):softmax(2), 3, 64) end
      local ok, e = pcall(function()
        y = y * first + table_:index_select(1, at)
        flame.eval(y, first)
        held[i % 3 + 1] = y
        seen[#seen + 1] = first:item()
        seen[#seen + 1] = y:sum():item()
      end)
      if not ok then seen[#seen + 1] = tostring(e):match "position 1" end
    end
    for _, h in ipairs(held) do seen[#seen + 1] = h:totable() end
    return seen
  end, 8)

  -- three graphs of some 60 steps; every second run ends before the last two
  same("goes on with graphs of many steps after a run that was not whole", function()
    local x, table_, seen = flame.randn(8, 8), flame.randn(20, 8), {}
    flame.eval(x, table_)
    for i = 1, 30 do
      collectgarbage()                  -- as above
      local at = flame.full({ 8 }, i < 24 and i % 2 == 0 and 21 or i % 20 + 1, { dtype = "i64" })
      local function chain(y)
        for _ = 1, 30 do y = y:matmul(x):tanh() end
        return y
      end
      local ok, e = pcall(function()
        local first = chain(x * i):sum()
        local second = chain(x + first + table_:index_select(1, at)):sum()
        local y = chain(x * second)
        flame.eval(y, first, second)
        for _, v in ipairs { first, second, y:sum() } do seen[#seen + 1] = v:item() end
      end)
      if not ok then seen[#seen + 1] = tostring(e):match "position 1" end
    end
    return seen
  end, 20)

  same("makes calls that need the host as it does without graphs", function()
    local a, list = flame.randn(6, 6), {}
    flame.eval(a)
    for i = 1, 8 do
      local s = a:matmul(a:t()) + flame.eye(6) * i
      local l = flame.linalg.cholesky(s)
      local order = (l:sum(1) * 2):sort(1)
      local drawn = s:abs():multinomial(3)
      list[i] = { (l:tanh() * order):sum():item(), drawn:sum():item() }
    end
    return list
  end, 0)

  same("makes linear algebra by the library apart from graphs", function()
    local a, list = flame.randn(90, 90), {}                -- too large for our own kernels
    flame.eval(a)
    for i = 1, 6 do
      local x = (a * 0.1 + flame.eye(90)):tanh()
      local s = x:matmul(x:t()) + flame.eye(90)
      local spectrum = flame.linalg.eigvalsh(s)
      local small = flame.linalg.eigvalsh(s[{ { 1, 3 }, { 1, 3 } }])
      local q, r = flame.linalg.qr(x)
      local y = (s:inverse() + flame.linalg.solve(s, x)):tanh() * flame.linalg.svdvals(x)
      list[i] = ((y + spectrum * 2) * r:abs() + q:softmax(1) + small:sum()):sum():item()
    end
    return list
  end, 1)

  -- Planted bugs (FL_PLANT_* of base/hooks.h): a graph is replayed without comparing addresses; its
  -- parameters are not set; a value that was copied to the host is used although it has been
  -- overwritten on the device.
  local bugs = { [7] = "keeps two nets of one shape apart",
    [8] = "takes scalars of each run, of built-in and of user kernels",
    [9] = "reads a value sooner than the steps after it, and not an older one" }
  for bug, name in pairs(on_gpu and bugs or {}) do
    it(("is caught with bug %d planted"):format(bug), function()
      assert.is_false(pcall(assert.same, both(programs[name], 0, bug)))
    end)
  end

  it("holds no memory after its plans are forgotten", function()
    local function rounds(n)
      local x = flame.randn(30, 30)
      flame.eval(x)
      for _ = 1, n do flame.eval(x:matmul(x):softmax(2):matmul(x):tanh()) end
    end
    rounds(6)
    flame.internal.forget_plans()
    collectgarbage()
    local before = flame.stats().live_bytes
    rounds(6)
    flame.internal.forget_plans()
    collectgarbage()
    assert.equal(before, flame.stats().live_bytes)
  end)
end)
