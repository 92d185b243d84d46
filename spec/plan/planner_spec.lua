-- How many launches, bytes moved, plans and copies a script can rely on. All are counted by
-- flame.stats(), so the numbers are the same on CPU and GPU.
local flame = require "flame"
local nn, optim = require "flame.nn", require "flame.optim"
local raises = require("spec.support.helper").raises

--- By how much f() changes each counter of flame.stats(); pending work is evaluated before.
local function counted(f)
  flame.eval()
  local a = flame.stats()
  f()
  local b = flame.stats()
  for k, v in pairs(b) do if k ~= "not_replayed" then b[k] = v - (a[k] or 0) end end
  return b
end

describe("a sum of columns", function()
  -- The elements are small integers, so that sums are exact in any order. At these sizes a GPU's
  -- blocks take 256, 512, 1024 and 2048 rows, with a remainder, or one block takes all rows.
  for _, size in ipairs { { 700, 40 }, { 1100, 25600 }, { 4100, 16400 }, { 4100, 32800 },
      { 500, 65600 } } do
    it(("of %d x %d is exact"):format(size[1], size[2]), function()
      local n, m = size[1], size[2]
      local x = (flame.arange(1.0, n):reshape(n, 1) % 7 + flame.arange(1.0, m) % 5):float()
      flame.eval(x)
      local whole, rest = n // 7 * 21, 0
      for i = n // 7 * 7 + 1, n do rest = rest + i % 7 end
      local expected = (flame.arange(1.0, m) % 5 * n + (whole + rest)):float()
      assert.equal(0, (x:sum(1) - expected):abs():max():item())
    end)
  end
end)

describe("a launch count", function()
  local R, C = 64, 257
  local function data(...) local x = flame.randn(...); flame.eval(x); return x end

  it("is one for an elementwise chain that moves each input and each result once", function()
    local x, y = data(R, C), nil
    local s = counted(function() y = (x * 2 + 1):relu(); flame.eval(y) end)
    assert.equal(1, s.launches)
    assert.equal(8 * R * C, s.bytes_moved)
  end)

  it("is one for a chain of a hundred ops", function()
    local x = data(1000)
    local s = counted(function()
      local y = x
      for _ = 1, 50 do y = y * 0.99 + 0.01 end
      flame.eval(y)
    end)
    assert.equal(1, s.launches)
    assert.equal(8000, s.bytes_moved)
  end)

  it("is one for softmax over rows, moving 8 bytes per element", function()
    local x, y = data(R, C), nil
    local s = counted(function() y = x:softmax(2); flame.eval(y) end)
    assert.equal(1, s.launches)
    assert.equal(8 * R * C, s.bytes_moved)
    s = counted(function() y = x:log_softmax(-1); flame.eval(y) end)
    assert.equal(1, s.launches)
    assert.equal(8 * R * C, s.bytes_moved)
  end)

  it("is one more for what two products read and no library can", function()
    local x, y = data(40, 60)[{ {}, { 1, -1, 2 } }], nil
    local s = counted(function()
      y = x:matmul(x:transpose(1, 2)) + x:transpose(1, 2):matmul(x)[{ 1, 1 }]
      flame.eval(y)
    end)
    assert.equal(1 + 2 + 1, s.launches)                  -- copy, products, sum
    local z = x:clone() flame.eval(z)
    assert.is_true(y:equal(z:matmul(z:transpose(1, 2)) + z:transpose(1, 2):matmul(z)[{ 1, 1 }]))
  end)

  it("is one for layer_norm", function()
    local x, w, b, y = data(R, C), data(C), data(C), nil
    local s = counted(function() y = x:layer_norm({ C }); flame.eval(y) end)
    assert.equal(1, s.launches)
    assert.equal(8 * R * C, s.bytes_moved)
    s = counted(function() y = x:layer_norm({ C }, w, b); flame.eval(y) end)
    assert.equal(1, s.launches)
    assert.equal(8 * R * C + 8 * C, s.bytes_moved)
  end)

  it("is at most three for layer_norm with all gradients", function()
    local x, w, b, seed = data(R, C), data(C), data(C), data(R, C)
    for _, t in ipairs { x, w, b } do t:requires_grad_(true) end
    local s = counted(function()
      local y = x:layer_norm({ C }, w, b)
      y:backward(seed)
      flame.eval(y, x.grad, w.grad, b.grad)
    end)
    assert.is_true(s.launches <= 3, s.launches .. " launches")
  end)

  it("computes what is made of a row's sums once a row, not in each pass that reads it", function()
    for name, f in pairs {
      layer_norm = function(x, w, b) return x:layer_norm({ C }, w, b) end,
      batch_norm = function(x, w, b) return x:batch_norm(nil, nil, w, b, { training = true }) end,
    } do
      local x, seed = flame.randn(R, C):requires_grad_(true), flame.randn(R, C)
      local w, b = flame.ones({ C }, { requires_grad = true }),
        flame.zeros({ C }, { requires_grad = true })
      flame.eval(x, seed, w, b)
      local p = flame.profile(function()
        local y = f(x, w, b)
        y:backward(seed)
        flame.eval(y, x.grad, w.grad, b.grad)
      end)
      local roots = 0
      for _, row in ipairs(p) do if row.op:find "sqrt" then roots = roots + row.launches end end
      assert.equal(1, roots, name)
    end
  end)

  it("of cross_entropy reads the logits once", function()
    local x, ids, loss = data(R, C), flame.randint({ R }, 1, C), nil
    flame.eval(ids)
    local s = counted(function()
      loss = flame.cross_entropy(x, ids, { reduction = "sum" })
      flame.eval(loss)
    end)
    -- on a GPU a launch before these checks the labels, so that the host can go on
    local early = flame.default_device() ~= "cpu"
    assert.is_true(s.launches <= (early and 3 or 2), s.launches .. " launches")
    -- bytes: logits once; per row the label in both launches, the label's logit, and a loss that is
    -- written and read; the sum
    local most = 4 * R * C + 16 * R + 4 * R + 8 * R + 4 + (early and 16 * R or 0)
    assert.is_true(s.bytes_moved <= most, s.bytes_moved .. " bytes")
  end)

  it("of cross_entropy finds the label's logit by a gather where logits lie in memory", function()
    local x, w, ids = data(R, 8), data(C, 8), flame.randint({ R }, 1, C)
    ids[2] = -100
    local function loss(logits) return flame.cross_entropy(logits, ids, { reduction = "none" }) end
    local function gathers(f)
      local y
      local p = flame.profile(function() y = f() flame.eval(y) end)
      for _, row in ipairs(p) do if row.op:find "gather" then return y, true end end
      return y, false
    end
    local function half(f)
      return flame.autocast("bf16", function() return f(flame.linear(x, w)) end)
    end
    for _, how in ipairs { function(f) return f(flame.linear(x, w)) end, half } do
      local y, gathered = gathers(function() return how(loss) end)
      local z, found = gathers(function()
        return how(function(logits) return loss(logits:clamp(-1e30, 1e30)) end)
      end)
      assert.is_true(gathered and not found)
      assert.is_true(y:eq(z):all():item(), "other bits")
    end
  end)

  it("of siblings with one expression is one", function()
    local a, b, c = data(100), data(7, 9), data(33)
    local s = counted(function()
      local x, y, z = a * 2 + 1, b * 3 + 4, c * 5 + 6
      flame.eval(x)
      assert(y and z)
    end)
    assert.equal(1, s.launches)
  end)
end)

describe("AdamW", function()
  it("reads p, g, m, v and writes p, m, v: 28 bytes per element, and copies nothing", function()
    local n = 4096
    local p = nn.Parameter(flame.randn(n))
    local opt = optim.AdamW({ p }, { lr = 1e-3, weight_decay = 0.01 })
    local g = flame.randn(n)
    flame.eval(g, p)
    local function step()
      p.grad = g:clone()
      flame.eval(p.grad)
      return counted(function() opt:step() end)
    end
    for _ = 1, 3 do step() end
    local copies = flame.stats().copies
    local s = step()
    assert.equal(1, s.launches)
    assert.equal(28 * n, s.bytes_moved)
    for _ = 1, 100 do step() end
    assert.equal(copies, flame.stats().copies)
  end)
end)

describe("a training loop", function()
  local function trainer(lr)
    flame.seed(3)
    local net = nn.Sequential { nn.Linear(12, 16), nn.ReLU(), nn.LayerNorm(16), nn.Linear(16, 5) }
    local opt = optim.AdamW(net:parameters(), { lr = lr })
    return function(n)
      local x, y = flame.randn(n, 12), flame.randint({ n }, 1, 5)
      local loss = flame.cross_entropy(net(x), y)
      opt:zero_grad()
      loss:backward()
      opt:step()
      opt.lr = opt.lr * 0.999
      return loss:item()
    end
  end

  it("makes no plan and no kernel text after its third step, and never copies", function()
    local step = trainer(1e-2)
    for _ = 1, 3 do step(8) end
    collectgarbage()
    step(8)
    local a = flame.stats()
    for _ = 1, 100 do step(8) end
    local b = flame.stats()
    assert.equal(a.plans, b.plans)
    assert.equal(a.texts, b.texts)
    assert.equal(a.compiles, b.compiles)
    assert.equal(0, b.copies - a.copies)
  end)

  -- Results that are garbage but not yet collected are stored too, and that needs another plan.
  it("makes at most one plan more wherever the collector's steps come", function()
    local step, waits = trainer(1e-2), flame.internal.collector_waits
    for _ = 1, 4 do step(8) end
    local a = flame.stats()
    for _, n in ipairs { 16384, 60, 0, 300, 10, 0, 16384 } do
      waits(n)
      for _ = 1, 20 do step(8) end
    end
    waits(0)
    local b = flame.stats()
    assert.equal(a.plans + 1, b.plans)
    assert.equal(0, b.copies - a.copies)
  end)

  it("generates no kernel text for a new batch size", function()
    local step = trainer(1e-2)
    for _ = 1, 4 do step(8) end
    local a = flame.stats()
    step(11)
    step(24)
    local b = flame.stats()
    assert.equal(a.texts, b.texts)
    assert.equal(a.compiles, b.compiles)
  end)

  it("lowers its loss", function()
    flame.seed(1)
    local x, y = flame.randn(32, 12), flame.randint({ 32 }, 1, 5)
    local net = nn.Sequential { nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 5) }
    local opt = optim.AdamW(net:parameters(), { lr = 1e-2 })
    local first, last
    for i = 1, 60 do
      local loss = flame.cross_entropy(net(x), y)
      opt:zero_grad()
      loss:backward()
      opt:step()
      if i == 1 then first = loss:item() elseif i == 60 then last = loss:item() end
    end
    assert.is_true(last < 0.3 * first)
  end)
end)

describe("a write", function()
  it("of what another array held before its own write comes first, checks or not", function()
    for _, checked in ipairs { false, true } do
      local a, b = flame.tensor { { 1, 2 }, { 3, 4 }, { 5, 6 } }, flame.zeros(3)
      local x, i = flame.tensor { 10, 20, 30 }, flame.tensor({ 2, 1, 3 }, { dtype = "i64" })
      flame.eval(a, b, x, i)
      local old = a:select(2, 2)
      local taken = checked and x:gather(1, i) or x * 2
      a:add_(a)
      b:copy_(old)
      flame.eval(a, b, taken)
      assert.same({ 2, 4, 6 }, b:totable())
      assert.same({ { 2, 4 }, { 6, 8 }, { 10, 12 } }, a:totable())
    end
  end)
end)

describe("a value that many steps read", function()
  -- h is a residual sum over all layers before; if each layer computed it again from the start, the
  -- bytes would grow with the square of the depth
  local function moved(depth, dtype, kept)
    local w, h = flame.randn(64, 64):to(dtype), flame.randn(256, 64):to(dtype)
    flame.eval(w, h)
    local before = flame.stats().bytes_moved
    for _ = 1, depth do h = h + h:layer_norm { 64 }:matmul(w) end
    flame.eval(kept and h or h:sum())
    return flame.stats().bytes_moved - before
  end

  it("is stored once when it is made of several arrays", function()
    for _, dtype in ipairs { "f32", "f64", "bf16", "f16" } do
      for _, kept in ipairs { false, true } do
        local few, many = moved(6, dtype, kept), moved(12, dtype, kept)
        assert.is_true(many < 2.1 * few, ("%s: %d bytes, then %d"):format(dtype, few, many))
      end
    end
  end)
  it("is read where it lies when it is made of one or two", function()
    local x, y = flame.randn(64, 64), flame.randn(64, 64)
    flame.eval(x, y)
    local before = flame.stats()
    local h = x + y
    local a, b = (h * 2):sum(1), (h * 3):sum(2)
    flame.eval(a, b)
    local after = flame.stats()
    assert.is_true(after.bytes_moved - before.bytes_moved <= 4 * 64 * 64 * 4 + 2 * 64 * 4)
  end)
end)

describe("a plan", function()
  it("is not taken for other shapes, wherever their layouts lie in memory", function()
    local plans = flame.stats().plans
    for i = 1, 60 do
      local rows, columns = 3 + i, 211 - i
      flame.scope(function()
        local x = flame.full({ rows, columns }, 1)
        flame.eval(x)
        assert.equal(2 * rows * columns, (x + 1):sum():item())
      end)
      collectgarbage()
    end
    assert.equal(120, flame.stats().plans - plans)
  end)
  -- One kernel of all would take NVRTC minutes: a sweep over a row that is in no registers computes
  -- again what the sweeps before it have computed.
  for _, dtype in ipairs { "f32", "bf16", "f64" } do
    for _, length in ipairs { 0, 64, 512, 3000, 40000 } do
      it(("has several kernels for a long chain of reductions of rows: %s, %d elements")
        :format(dtype, length), function()
        for _, work in ipairs { 0, 20 } do
          local x = flame.randn(length > 3000 and 2 or 6, length):to(dtype)
          flame.eval(x)
          --- 60 steps over rows. each: evaluates each step; kept: the results of every fourth step.
          local function chain(each)
            local y, kept = x, {}
            for i = 1, 60 do
              for _ = 1, work do y = y:sin() end
              y = work > 0 and y - y:mean(2, true) or y:softmax(2)
              if i % 4 == 0 then kept[#kept + 1] = y end
              if each then flame.eval(y) end
            end
            local before = flame.stats().launches
            flame.eval(y, table.unpack(kept))
            return kept, flame.stats().launches - before
          end
          local together, launches = chain(false)
          if length > 0 then assert.is_true(launches >= (work > 0 and 9 or 5), launches) end
          for i, y in ipairs(chain(true)) do
            assert.is_true(flame.equal(y:nan_to_num(), together[i]:nan_to_num()), i)
          end
        end
      end)
    end
  end
end)

describe("a position out of range that no value needs", function()
  local function ids(t) return flame.tensor(t, { dtype = "i64" }) end
  local x, y = flame.arange(24.0):reshape(6, 4), flame.ones(6, 4)
  local bad = ids { 6, 5, 4, 9, 2, 1 }
  local cases = {
    ["rows"] = function(i) return (x[i] + 1)[{ { 1, 3 } }] + y[{ { 1, 3 } }] end,
    ["every second row"] = function(i) return x[i][{ { 1, 6, 2 } }] * 2 end,
    ["one row"] = function(i) return y - x[i][2] end,
    ["elements of the flattened array"] = function(i)
      return x[i]:reshape(24)[{ { 3, 11 } }] * 2
    end,
    ["one element"] = function(i) return x[i]:tanh()[{ 1, 2 }] + 1 end,
    ["rows, and a sum beside them"] = function(i)
      return (x[i] + y:sum())[{ { 1, 3 } }] * 2
    end,
    ["part of a sum"] = function(i) return x[i]:sum(2)[{ { 1, 3 } }] * 2 end,
    ["positions that are gathered"] = function(i)
      return x[ids({ 1, 2, 3, 4, 5, 6 })[i][{ { 1, 3 } }]]
    end,
    ["another part of a join"] = function(i)
      return flame.cat({ y, x[i] + 1 }, 1)[{ { 1, 6 } }] * 1
    end,
    ["a row that is written"] = function(i)
      local z = y:clone()
      z[1] = x[i][1]
      return z
    end,
    ["no row, summed"] = function(i) return x[i][{ { 1, 0 } }]:sum() end,
    ["no column, in products"] = function(i) return ((x[i] * 2)[{ {}, { 1, 0 } }]:prod(2)) * 3 end,
    ["no sum of rows"] = function(i) return x[i]:sum(2)[{ { 1, 0 } }]:sum() end,
    ["no row, joined"] = function(i) return flame.cat({ y, x[i][{ { 1, 0 } }] }, 1) * 2 end,
    ["no row, written"] = function(i)
      local z = flame.zeros(6, 4)
      z[{ { 1, 0 } }] = x[i][{ { 1, 0 } }]
      return z
    end,
    ["no element of a row"] = function(i) return flame.zeros(6, 0)[i] * 1 end,
    ["products over no element"] = function(i) return (flame.zeros(6, 0)[i] * 2):prod(2) * 3 end,
    ["a matrix without columns"] = function(i)
      return (flame.zeros(6, 0)[i] + 1):matmul(flame.zeros(0, 3))
    end,
  }
  for title, f in pairs(cases) do
    it("is told: of " .. title, function()
      for _, budget in ipairs { 1, 3, 1 << 20 } do
        local before = flame.internal.budget(budget)
        local ok, why = pcall(function() return f(bad):totable() end)
        flame.internal.budget(before)
        assert.is_false(ok)
        assert.truthy(tostring(why):find("index 9 at position 4 is out of range", 1, true), why)
        assert.is_true(pcall(function() return f(ids { 6, 5, 4, -1, 2, 1 }):totable() end))
      end
    end)
  end
  it("fails its value though another check fails first", function()
    local none = (y:sum():gt(1e9)):long()
    local a = x[ids { 1, 2, 7, 4, 5, 6 } + none]
    local b = flame.cat({ y, x[bad + none] }, 1)[{ { 1, 6 } }] * 1
    raises("index 7 at position 3", a.totable, a)
    raises("index 9 at position 4", b.totable, b)
  end)
  it("is found by the kernel that reads, where it reads all positions", function()
    local good = ids { 6, 5, 4, 3, 2, 1 }
    flame.eval(x, y)
    for title, f in pairs {
      ["all"] = function() return x[good] * y end,
      ["turned"] = function() return x[good]:t() * 2 end,
      ["columns of all rows"] = function() return x[good][{ {}, { 2, 3 } }] * 2 end,
      ["a column"] = function() return x[good][{ {}, 2 }] * 2 end,
      ["backwards"] = function() return x[good]:flip(1) * 2 end,
    } do
      flame.stats "reset"
      flame.eval(f())
      assert.equal(1, flame.stats().launches, title)
    end
  end)
end)
