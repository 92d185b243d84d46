--- data_parallel with shard = true: each rank has a part of each gradient, does the step for it,
-- and gathers the new values. Each case runs a script in 2 or 4 processes.
require "spec.support.helper"
local flame = require "flame"
local distributed = require "flame.distributed"
local group = require "spec.support.group"
local machine = require "spec.support.machine"

local run, agree, fails = group.run, group.agree, group.fails
local _, over_tcp, over_both = group.cases(it, pending)

-- Two nets with equal parameters: of sizes that 2 and 4 do not divide, of one element, of none,
-- 0-d. both(net, alone, i) leaves gradients of batch i in 'net', to which each rank adds its part
-- of the batch, and in 'alone', to which each rank adds all parts.
local NETS = [[
  local nn, optim = flame.nn, flame.optim
  local function make()
    flame.seed(3)
    local net = nn.Module.extend("Net")()
    net.a, net.b, net.c = nn.Linear(5, 7), nn.Linear(7, 3, { bias = false }), nn.Linear(3, 1)
    net.scale, net.none = nn.Parameter(flame.tensor(1.5)), nn.Parameter(flame.zeros(0))
    return net
  end
  local function loss_of(net, x)
    return (net.c(net.b(net.a(x):tanh()):tanh()) * net.scale):square():mean() + net.none:sum()
  end
  local function batch(i)
    flame.seed(100 + i)
    return flame.randn(n, 6, 5)
  end
  local function add_up(alone, i)
    local xs = batch(i)
    for k = 1, n do (loss_of(alone, xs[k]) / n):backward() end
  end
  local function both(net, alone, i)
    loss_of(net, batch(i)[r]):backward()
    add_up(alone, i)
  end
  local function same(net, alone, what)
    local a, b = net:parameters(), alone:parameters()
    for k = 1, #a do assert(flame.equal(a[k], b[k]), ("%s: parameter %d"):format(what, k)) end
  end
]]

--- Trains two networks by one optimiser, with sharded and with whole gradients; both must agree.
local TWO_NETS = [[
  local nn, optim = flame.nn, flame.optim
  local function make()
    flame.seed(1)
    local a, b = nn.Module.extend("Net")(), nn.Linear(3, 3):double()
    a.first, a.half = nn.Linear(3, 2), nn.Linear(3, 2):to("bf16")
    a.turned, a.none = nn.Parameter(flame.randn(3, 5):t()), nn.Parameter(flame.zeros(0, { dtype = "f64" }))
    a.tied = a.first
    return { a, b }
  end
  local function all(nets)
    local list = nets[1]:parameters()
    return table.move(nets[2]:parameters(), 1, #nets[2]:parameters(), #list + 1, list)
  end
  local function loss_of(nets, x)
    local a, b = nets[1], nets[2]
    return a.first(x):square():sum() + a.half(x:to("bf16")):float():square():sum() + a.tied(x):sum()
      + a.turned:matmul(x:t()):square():sum() + (b(x:double()):square():sum() + a.none:sum()):float()
  end
  for _, bucket in ipairs { 1, 25000000 } do
    local nets, alone = make(), make()
    for k, net in ipairs(nets) do
      distributed.data_parallel(net, { shard = true, bucket = bucket, ordered = k == 2 })
    end
    local opt, other = optim.Adam(all(nets), { lr = 0.1 }), optim.Adam(all(alone), { lr = 0.1 })
    local mean, want = nn.AveragedModel(nets[1]), nn.AveragedModel(alone[1])
    for i = 1, 4 do
      for _, each in ipairs { nets, alone } do each[1].first.bias.requires_grad = i > 2 end
      flame.seed(i)
      local xs = flame.randn(n, 4, 3)
      opt:step(function()
        opt:zero_grad()
        loss_of(nets, xs[r]):backward()
      end)
      other:zero_grad()
      for k = 1, n do (loss_of(alone, xs[k]) / n):backward() end
      other:step()
      mean:update_parameters(nets[1])
      want:update_parameters(alone[1])
      for k, p in ipairs(all(nets)) do assert(flame.equal(p, all(alone)[k]), k) end
      for k, p in ipairs(mean:parameters()) do assert(flame.equal(p, want:parameters()[k]), k) end
    end
  end
]]

describe("data_parallel with shard", function()
  over_both("steps as one process does, bit for bit, with an n-th of the state", function()
    for _, n in ipairs { 2, 4 } do
      agree(n, "good\n", NETS .. [[
        for _, rule in ipairs { "SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "Lion", "Adadelta", "Adamax",
            "NAdam", "RAdam", "Rprop", "ASGD" } do
          local net, alone = distributed.data_parallel(make(), { shard = true, bucket = 100 }), make()
          local options = { lr = 0.01, weight_decay = rule ~= "Rprop" and 0.1 or nil,
            momentum = rule == "SGD" and 0.9 or nil, amsgrad = rule == "Adam" or nil,
            capturable = rule == "Adam" or nil }
          local opt, other = optim[rule](net:parameters(), options), optim[rule](alone:parameters(), options)
          for i = 1, 8 do
            opt:zero_grad()
            other:zero_grad()
            both(net, alone, i)
            for _, p in ipairs(net:parameters()) do assert(p.grad == nil) end
            opt:step()
            other:step()
            same(net, alone, rule)
          end
          for k, p in ipairs(net:parameters()) do
            for name, x in pairs(other.state[alone:parameters()[k] ]) do
              local mine = opt.state[p][name]
              if not flame.is_tensor(x) or x.dtype == "i64" then assert(mine == x or flame.equal(mine, x))
              else
                local most = (p:numel() + n - 1) // n
                assert(mine.ndim == 1 and mine:numel() <= most, name)
                local all = distributed.all_reduce(flame.tensor(mine:numel()))
                assert(all:item() == p:numel())
              end
            end
          end
        end
        print "good"]])
    end
  end)
  over_both("sends 2 b (n - 1) / n bytes a step, where shard_state sends half as many again", function()
    local text = [[
      local function sent(options, sharded)
        local net = distributed.data_parallel(flame.nn.Linear(64, 63), options)
        local opt = flame.optim.AdamW(net:parameters())
        if sharded then opt = distributed.shard_state(opt) end
        flame.eval()
        local before = distributed.stats().sent
        for _ = 1, 3 do
          opt:zero_grad()
          net(flame.randn(4, 64)):sum():backward()
          opt:step()
        end
        local bytes = flame.tensor(distributed.stats().sent - before)
        return bytes:item(), distributed.all_reduce(bytes):item()
      end
      local b = 4 * 64 * 63 + 4 * 63
      local mine, all = sent { shard = true }
      b = n == 4 and b + 4 or b                               -- 63 numbers are shared out as 64
      assert(n == 4 or mine == 3 * (b + 4), mine)
      assert(mine == 3 * 2 * (4 * 64 * 63 + 4 * 64) * (n - 1) // n, mine)
      assert(all == n * mine)
      local _, whole = sent({}, true)
      assert(whole == 3 * 3 * (4 * 64 * 63 + 4 * 63) * (n - 1), whole)
      print "good"]]
    agree(2, "good\n", text)
    agree(4, "good\n", text)
  end)
  over_both("clips by the norm of all parts, and by value", function()
    for _, n in ipairs { 2, 4 } do
      agree(n, "good\n", NETS .. [[
        for _, of in ipairs { 2, 1, 3, math.huge, 0 } do
          local net, alone = distributed.data_parallel(make(), { shard = true }), make()
          local opt, other = optim.SGD(net:parameters(), { lr = 0.1 }), optim.SGD(alone:parameters(), { lr = 0.1 })
          both(net, alone, 1)
          if of == 0 then
            optim.clip_grad_value(net:parameters(), 0.02)
            optim.clip_grad_value(alone:parameters(), 0.02)
          else
            local norm = optim.clip_grad_norm(net:parameters(), 0.1, of, true)
            -- an empty array has no maximum
            local full = {}
            for _, p in ipairs(alone:parameters()) do if p:numel() > 0 then full[#full + 1] = p end end
            local want = optim.clip_grad_norm(full, 0.1, of)
            assert(flame.allclose(norm, want, { rtol = 1e-5 }), of)
            assert(norm:item() > 0.1)
            assert(flame.equal(distributed.all_reduce(norm, "max"), norm))
          end
          opt:step()
          other:step()
          for k, p in ipairs(net:parameters()) do
            assert(flame.allclose(p, alone:parameters()[k], { rtol = 1e-5, atol = 1e-7 }), of)
          end
        end
        print "good"]])
    end
  end)
  over_both("leaves .grad nil, adds up in no_sync and over backwards, and is cleared by zero_grad", function()
    agree(2, "good\n", NETS .. [[
      local net, alone = distributed.data_parallel(make(), { shard = true }), make()
      local opt, other = optim.SGD(net:parameters(), { lr = 0.1 }), optim.SGD(alone:parameters(), { lr = 0.1 })
      local function step(what)
        opt:step()
        other:step()
        other:zero_grad()
        same(net, alone, what)
      end
      -- each rank's own sum first, then over the ranks
      distributed.no_sync(function() loss_of(net, batch(1)[r]):backward() end)
      assert(net.a.weight.grad)
      local ok, why = pcall(opt.step, opt)
      assert(not ok and tostring(why):find("step: a gradient of shape (1, 3) is of this rank alone", 1, true), why)
      ok, why = pcall(optim.clip_grad_norm, net:parameters(), 1)
      assert(not ok and tostring(why):find("clip_grad_norm: a gradient of", 1, true), why)
      loss_of(net, batch(2)[r]):backward()
      assert(net.a.weight.grad == nil)
      for k = 1, n do
        ((loss_of(alone, batch(1)[k]) + loss_of(alone, batch(2)[k])) / n):backward()
      end
      opt:step()
      other:step()
      for k, p in ipairs(net:parameters()) do assert(flame.allclose(p, alone:parameters()[k], 1e-5, 1e-7)) end
      alone:load_state_dict(net:state_dict())
      -- a step uses gradients up; each backward outside adds its mean
      for _, p in ipairs(alone:parameters()) do p.grad = nil end
      both(net, alone, 3)
      step "again"
      loss_of(net, batch(4)[r]):backward()
      loss_of(net, batch(5)[r]):backward()
      for i = 4, 5 do
        local one = make()
        one:load_state_dict(alone:state_dict())
        add_up(one, i)
        for k, p in ipairs(alone:parameters()) do
          local g = one:parameters()[k].grad
          p.grad = p.grad and p.grad + g or g
        end
      end
      step "twice"
      for k, clear in ipairs { function() opt:zero_grad() end, function() net:zero_grad() end,
          function() opt:zero_grad(false) end } do
        loss_of(net, batch(6)[r]):backward()
        distributed.no_sync(function() loss_of(net, batch(7)[r]):backward() end)
        clear()
        if k < 3 then for _, p in ipairs(net:parameters()) do assert(p.grad == nil) end end
        both(net, alone, 8)
        step("clear " .. k)
      end
      opt:step()
      same(net, alone, "none")
      print "good"]])
  end)
  over_both("takes values that were written to the parameters since", function()
    agree(2, "good\n", NETS .. [[
      local net, alone = distributed.data_parallel(make(), { shard = true }), make()
      local opt, other = optim.AdamW(net:parameters(), { lr = 0.1 }), optim.AdamW(alone:parameters(), { lr = 0.1 })
      for i = 1, 6 do
        opt:zero_grad() other:zero_grad()
        both(net, alone, i)
        opt:step() other:step()
        if i == 3 then
          for _, m in ipairs { net, alone } do
            local saved = m:state_dict()
            for name, x in pairs(saved) do saved[name] = x * 2 end
            m:load_state_dict(saved)
          end
        elseif i == 5 then
          net:double() alone:double()
          local was = batch
          function batch(k) return was(k):double() end
        end
        same(net, alone, i)
      end
      assert(opt.state[net.a.weight].exp_avg.dtype == "f64")
      print "good"]])
  end)
  over_both("names what no gradient reaches, or finds it", function()
    agree(2, "good\n", [[
      local net = flame.nn.Module.extend("Net")()
      for _, name in ipairs { "a", "b", "c" } do net[name] = flame.nn.Linear(3, 3) end
      distributed.data_parallel(net, { find_unused = true, shard = true, reduce = "sum" })
      local before = {}
      for name, p in net:named_parameters() do before[name] = p:detach():clone() end
      local opt = flame.optim.SGD(net:parameters(), { lr = 1 })
      local y = net.a(flame.ones(1, 3))
      if r == 2 then y = y + net.b(flame.ones(1, 3)) end
      y:sum():backward()
      opt:step()
      assert(flame.equal(net.a.bias, before["a.bias"] - 2))
      assert(flame.equal(net.b.bias, before["b.bias"] - 1))
      assert(flame.equal(net.c.bias, before["c.bias"]))
      print "good"]])
    fails(2, { "data_parallel: no gradient has reached b.weight, b.bias", "b.weight" }, [[
      local net = flame.nn.Module.extend("Net")()
      net.a, net.b = flame.nn.Linear(2, 2), flame.nn.Linear(2, 2)
      distributed.data_parallel(net, { shard = true })
      net.a(flame.ones(1, 2)):sum():backward()]])
  end)
  over_both("steps two networks by one optimiser, of several dtypes, frozen and transposed parameters", function()
    for _, n in ipairs { 2, 4 } do agree(n, "good\n", TWO_NETS .. 'print "good"') end
  end)
  over_tcp("sends the half type that gradients were cast from, and sums after, with ordered", function()
    for _, n in ipairs { 2, 4 } do
      agree(n, "good\n", [[
        local nn, optim = flame.nn, flame.optim
        local function make()
          flame.seed(7)
          return nn.Sequential { nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 3) }
        end
        local kinds = { { ordered = true }, { ordered = true, shard = true, bucket = 100 },
          { ordered = true, shard = true, half = false } }
        local nets, opts, bytes = {}, {}, {}
        for k, kind in ipairs(kinds) do
          nets[k] = distributed.data_parallel(make(), kind)
          opts[k] = optim.AdamW(nets[k]:parameters(), { lr = 0.1 })
        end
        for step = 1, 4 do
          flame.seed(step)
          local xs = flame.randn(n, 6, 5)
          for k, net in ipairs(nets) do
            opts[k]:zero_grad()
            flame.eval()
            flame.autocast("bf16", function() return (net(xs[r]) ^ 2):mean() end):backward()
            local before = distributed.stats().sent
            flame.eval()
            bytes[k] = distributed.stats().sent - before
            opts[k]:step()
          end
          for k = 2, 3 do
            for i, p in ipairs(nets[k]:parameters()) do assert(flame.equal(p, nets[1]:parameters()[i]), step) end
          end
        end
        local elements = n == 2 and 36 + 8 + 22 + 4 or 36 + 8 + 24 + 4
        assert(bytes[2] == 2 * elements * (n - 1) // n and bytes[3] == 2 * bytes[2], bytes[2])
        print "good"]])
    end
  end)
  over_tcp("keeps a part for as long as a step needs it, in whatever scope", function()
    agree(2, "good\n", NETS .. [[
      local net, alone = distributed.data_parallel(make(), { shard = true }), make()
      local opt, other = optim.AdamW(net:parameters(), { lr = 0.1 }), optim.AdamW(alone:parameters(), { lr = 0.1 })
      local allocated, live
      for i = 1, 40 do
        opt:zero_grad() other:zero_grad()
        do
          local _ <close> = flame.scope()
          both(net, alone, i)
        end
        opt:step(function() return 1 end) other:step()
        same(net, alone, i)
        collectgarbage() collectgarbage()
        local m = flame.memory()
        if i == 10 then allocated, live = m.allocated, m.live_tensors end
        assert(i < 10 or m.allocated == allocated and m.live_tensors == live)
      end
      print "good"]])
  end)
  over_tcp("trains for 1,000 steps without growth, as without shard, and with unused parameters", function()
    agree(2, "good\n", [[
      local nn, optim = flame.nn, flame.optim
      -- Plans depend on when the collector finds dead values, which a busy machine would postpone.
      if flame.internal.collector_waits then flame.internal.collector_waits(0) end
      local function resident()
        for line in io.lines "/proc/self/status" do
          local kb = line:match "VmRSS:%s+(%d+)"
          if kb then return tonumber(kb) end
        end
      end
      for _, options in ipairs { { shard = true }, {}, { find_unused = true } } do
        local net = distributed.data_parallel(nn.Sequential { nn.Linear(8, 16), nn.BatchNorm1d(16),
          nn.Dropout(0.1), nn.Linear(16, 2) }, options)
        local opt, before = optim.AdamW(net:parameters(), { lr = 0.01 }), nil
        local batches = flame.data.batches({ flame.randn(64, 8), flame.randn(64, 2) },
          { size = 4, shuffle = true, seed = 3, shard = true })
        for step = 1, 1000 do
          local i, x, y = batches:next()
          if not i then i, x, y = batches:next() end
          opt:zero_grad()
          local function loss() return ((net(x) - y) ^ 2):mean() end
          if step % 3 == 0 then distributed.no_sync(function() loss():backward() end) end
          loss():backward()
          optim.clip_grad_norm(net:parameters(), 1)
          opt:step()
          if step == 200 or step == 1000 then
            i, x, y = nil, nil, nil
            collectgarbage() collectgarbage()
            local m = flame.memory()
            local now = { m.live_tensors, m.allocated, flame.stats().plans, collectgarbage "count", resident() }
            if before then
              local on_gpu = os.getenv "FLAME_DEVICE" == "cuda"    -- there a window may end elsewhere
              for k = 1, 3 do
                assert(now[k] == before[k] or k == 3 and on_gpu and now[k] <= before[k] + 2,
                  ("%d: %d, was %d"):format(k, now[k], before[k]))
              end
              assert(now[4] < before[4] + 64, now[4] - before[4])
              -- sanitizers keep what is freed, and CUDA what it likes
              local ours = not os.getenv "FLAME_SANITIZE" and not on_gpu
              assert(not ours or now[5] < before[5] + 2048, now[5] - before[5])
            end
            before = now
          end
        end
      end
      print "good"]])
  end)
  over_both("skips a scaled step on all ranks where one has an overflow in its part", function()
    agree(2, "good\n", NETS .. [[
      local net = distributed.data_parallel(make(), { shard = true })
      local opt, scaler = optim.SGD(net:parameters(), { lr = 0.1 }), optim.GradScaler()
      local before = net.c.bias:detach():clone()
      local infinite = net.c.bias:register_hook(function(g) return g + 1 / 0 end)
      for step = 1, 3 do
        if step == 3 then infinite:remove() end
        scaler:scale(loss_of(net, batch(1)[r])):backward()
        scaler:step(opt)
        scaler:update()
        opt:zero_grad()
        assert(flame.equal(net.c.bias, before) == (step < 3))
        assert(scaler:get_scale() == (step == 1 and 32768 or 16384))
      end
      print "good"]])
  end)
end)

describe("data_parallel with shard on GPUs", function()
  --- Runs two ranks on the fake driver, with the fake NCCL, which exchanges data in shared memory.
  local function on_gpus(text, settings)
    local folder = machine.new { "libnccl.so.2" }
    text = "flame.default_device(flame.best_device())\n" .. text
      .. " print(distributed.stats().over)"
    local with = ('FLAME_THREADS=1 FLAME_DEVICE=cuda FLAME_CACHE_DIR=%s/cache FLAME_TEST_MACHINE=%s '
      .. 'FAKE_CUDA="%s"'):format(folder, folder, settings)
    local out = require "spec.support.ranks".run(2, text,
      { by = "tcp", all = true, timeout = 60, with = with })
    machine.remove(folder)
    assert.equal("NCCL 2.27.3\n", out[1])
    assert.equal("NCCL 2.27.3\n", out[2])
  end

  it("gives the bits that it gives without, also of gradients that are cast from a half type", function()
    on_gpus([[
      local nn, optim = flame.nn, flame.optim
      local nets, opts, sent = {}, {}, {}
      for k, options in ipairs { { shard = true, bucket = 100 }, {}, { shard = true, half = false },
          { shard = true, ordered = true, reduce = "sum" }, { reduce = "sum" } } do
        flame.seed(7)
        nets[k] = distributed.data_parallel(nn.Sequential { nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 4) }, options)
        opts[k] = optim.AdamW(nets[k]:parameters(), { lr = 0.1 })
      end
      for step = 1, 3 do
        local norms = {}
        for k, net in ipairs(nets) do
          flame.seed(10 * step + r)
          opts[k]:zero_grad()
          flame.autocast("bf16", function() return (net(flame.randn(6, 5)) ^ 2):mean() end):backward()
          flame.eval()
          local before = distributed.stats().sent
          norms[k] = optim.clip_grad_norm(net:parameters(), 1e9):cpu()
          opts[k]:step()
          sent[k] = distributed.stats().sent - before
        end
        for k, as in pairs { [1] = 2, [3] = 2, [4] = 5 } do
          assert(flame.allclose(norms[k], norms[as], 1e-5, 1e-6))
          for i, p in ipairs(nets[k]:parameters()) do
            assert(flame.equal(p:cpu(), nets[as]:parameters()[i]:cpu()), step)
            assert(p.grad == nil)
          end
        end
      end
      -- a norm and half of the new values (35 + 7 + 28 + 4, of which 35 and 7 are shared out as 36 and 8)
      assert(sent[1] == 4 + 4 * 76 // 2 and sent[2] == 0, sent[1])]], "computes=1 devices=2")
  end)
  it("steps two networks by one optimiser, of several dtypes, frozen and transposed parameters", function()
    on_gpus(TWO_NETS, "computes=1 devices=2")
  end)
  it("needs a handful of launches more, and its kernels have less to move", function()
    on_gpus([[
      local nn, optim, launches, moved = flame.nn, flame.optim, {}, {}
      for k, options in ipairs { { shard = true, bucket = 1000 }, { bucket = 1000 } } do
        local layers = {}
        for i = 1, 8 do layers[i] = nn.Sequential { nn.Linear(16, 16), nn.Tanh() } end
        local net = distributed.data_parallel(nn.Sequential(layers), options)
        local opt = optim.AdamW(net:parameters(), { lr = 0.1 })
        for step = 1, 8 do
          if step == 5 then flame.stats "reset" end
          opt:zero_grad()
          local loss = flame.autocast("bf16", function() return (net(flame.randn(6, 16)) ^ 2):mean() end)
          loss:backward()
          optim.clip_grad_norm(net:parameters(), 1)
          opt:step()
          loss:item()
        end
        launches[k], moved[k] = flame.stats().launches // 4, flame.stats().bytes_moved
      end
      -- the sum of the norms, a call that gathers, a copy
      assert(launches[1] <= launches[2] + 4, launches[1] .. " " .. launches[2])
      assert(moved[1] < moved[2])]], "devices=2")
  end)
end)

describe("the state of an optimiser whose parameters are shared out", function()
  over_both("is saved whole, the same on all ranks, and goes on with any number of ranks", function()
    local folder = os.tmpname()
    os.remove(folder)
    assert(os.execute("mkdir " .. folder))
    local text = NETS .. [[
      local kept, from, to, late = os.getenv "KEPT", FROM, TO, LATE
      local net = make()
      local function groups()
        local p = net:parameters()
        return { { params = { p[1], p[3], p[5] }, weight_decay = 0.1 }, { params = { p[2], p[4], p[6], p[7] } } }
      end
      assert(#net:parameters() == 7)
      local opt
      if not late then opt = optim.Adam(groups(), { lr = 0.01, capturable = true }) end
      local function load()
        if from == 0 then return end
        local saved = flame.load(kept .. "/run")
        net:load_state_dict(saved.net)
        opt:load_state_dict(saved.opt)
      end
      if not late then load() end
      net = distributed.data_parallel(net, { shard = true })
      if late then
        opt = optim.Adam(groups(), { lr = 0.01, capturable = true })
        load()
      end
      local whole = opt:state_dict()                           -- also before the first step
      for i = from + 1, to do
        flame.seed(100 + i)
        local x = flame.randn(24, 5):narrow(1, (r - 1) * (24 // n) + 1, 24 // n)
        opt:zero_grad()
        loss_of(net, x):backward()
        opt:step()
      end
      local state = opt:state_dict()
      for k, p in ipairs(groups()[1].params) do
        local x = state.state[k].exp_avg
        assert(table.concat(x.shape, ",") == table.concat(p.shape, ",") and x.device == (n > 1 and "cpu" or p.device) and state.state[k].count:item() == to)
      end
      if r == 1 then flame.save(kept .. "/run", { net = net:state_dict(), opt = state }) end
      distributed.barrier()
      for k = 1, 7 do
        for _, x in ipairs { state.state[k].exp_avg, state.state[k].exp_avg_sq, net:parameters()[k]:detach() } do
          for _, v in ipairs(x:reshape(-1):totable()) do io.write(v, " ") end
        end
      end]]
    local function train(count, from, to, late)
      local out = run(count, (text:gsub("FROM", from):gsub("TO", to):gsub("LATE", tostring(late))),
        { with = "FLAME_THREADS=1 KEPT=" .. folder })
      assert.equal(0, out.status, out[1])
      local values = {}
      for v in out[1]:gmatch("%S+") do values[#values + 1] = assert(tonumber(v), out[1]) end
      for k = 2, count do assert.equal(out[1], out[k]) end
      return flame.tensor(values)
    end
    local whole = train(1, 0, 8, false)
    train(2, 0, 2, false)
    train(4, 2, 4, false)
    train(1, 4, 5, true)
    train(4, 5, 6, true)
    local last = train(2, 6, 8, true)
    assert.equal(3 * (42 + 21 + 4 + 1), whole:numel())
    assert.is_true(flame.allclose(whole, last, 1e-5, 1e-6))
    os.execute("rm -rf " .. folder)
  end)
  over_both("asks all ranks for it, and says which rank did something else", function()
    fails(2, { { "the ranks disagree: rank 1 calls state_dict of f32", "rank 2 barrier at train" },
      { "the ranks disagree" } }, NETS .. [[
      local net = distributed.data_parallel(make(), { shard = true })
      local opt = optim.Adam(net:parameters())
      loss_of(net, batch(1)[r]):backward()
      opt:step()
      if r == 1 then opt:state_dict() end
      distributed.barrier()]])
  end)
end)

describe("what can not be shared out", function()
  over_both("is named, with what to do", function()
    agree(2, "good\n", NETS .. [[
      local function says(piece, f, ...)
        local ok, why = pcall(f, ...)
        assert(not ok and tostring(why):find(piece, 1, true), why)
      end
      local net = distributed.data_parallel(nn.Sequential { nn.Linear(2, 2, { bias = false }) }, { shard = true })
      local opt = optim.Muon(net:parameters())
      net(flame.ones(1, 2)):sum():backward()
      says("Muon: a step needs whole gradients, and data_parallel shares them out: leave out its option shard, "
        .. "and give the optimiser to shard_state", opt.step, opt)
      opt = optim.LBFGS(net:parameters())
      says("LBFGS: a step needs whole gradients", opt.step, opt, function() return 1 end)
      opt = optim.SGD(net:parameters())
      says("shard_state: data_parallel shares the parameters out", distributed.shard_state, opt)
      says("a parameter of shape (2, 2) is shared out already", distributed.data_parallel,
        nn.Sequential { net[1] }, { shard = true })
      local other = nn.Linear(2, 2)
      other(flame.ones(1, 2)):sum():backward()
      says("a parameter of shape (2, 2) has a gradient: call zero_grad() first", distributed.data_parallel, other,
        { shard = true })
      net[1].weight.grad = flame.ones(2, 2)
      says("step: a gradient of shape (2, 2) is of this rank alone", opt.step, opt)
      print "good"]])
    fails(2, { "with other sizes or names", "with other sizes or names" }, [[
      distributed.data_parallel(flame.nn.Linear(2, 2), { shard = r == 1 })
      flame.eval()]])
  end)
  it("is nothing in a group of one", function()
    distributed.init()
    local net = distributed.data_parallel(flame.nn.Linear(2, 1), { shard = true })
    net(flame.ones(1, 2)):sum():backward()
    assert.is_true(flame.equal(net.weight.grad, flame.ones(1, 2)))
  end)
end)
