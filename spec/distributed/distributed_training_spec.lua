--- Training by several processes: data_parallel, shard_state, shards of data, and the examples that
-- use them. Each case runs a script in 2 or 4 processes over MPI, TCP or both.
local helper = require "spec.support.helper"
local flame = require "flame"
local distributed = require "flame.distributed"
local group = require "spec.support.group"

local run, agree, fails = group.run, group.agree, group.fails
local over_mpi, over_tcp, over_both = group.cases(it, pending)
local on_gpu = os.getenv "FLAME_DEVICE" == "cuda"

describe("data_parallel", function()
  -- Trains 'net' on all ranks, each with its part of a batch, and a copy 'alone' on each rank, with
  -- all parts one after the other. Gradients and parameters of the two must be equal.
  local TRAINED = [[
    local nn, optim = flame.nn, flame.optim
    local function make()
      return nn.Sequential { nn.Linear(5, 7), nn.Tanh(), nn.BatchNorm1d(7), nn.Linear(7, 3) }
    end
    flame.seed(r)                                       -- all ranks get the parameters of rank 1
    local net, alone = distributed.data_parallel(make():eval(), OPTIONS), make():eval()
    flame.seed(100)
    alone:load_state_dict(net:state_dict())
    local a, b = net:parameters(), alone:parameters()
    local opt = optim.AdamW(a, { lr = 0.01 })
    local other = optim.AdamW(b, { lr = 0.01 })
    for step = 1, STEPS do
      local xs, ys = flame.randn(n, 6, 5), flame.randn(n, 6, 3)
      opt:zero_grad()
      other:zero_grad()
      local loss = ((net(xs[r]) - ys[r]) ^ 2):mean()
      loss:backward()
      for k = 1, n do (((alone(xs[k]) - ys[k]) ^ 2):mean() / n):backward() end
      for k = 1, #a do assert(flame.equal(a[k].grad, b[k].grad), step) end
      -- also with the whole batch, where sums have another order
      if step == 1 then
        local one = make():eval()
        one:load_state_dict(net:state_dict());
        ((one(xs:reshape(n * 6, 5)) - ys:reshape(n * 6, 3)) ^ 2):mean():backward()
        for k, p in ipairs(one:parameters()) do
          assert(flame.allclose(a[k].grad, p.grad, { rtol = 1e-5, atol = 1e-6 }))
        end
      end
      opt:step()
      other:step()
    end
    for k = 1, #a do assert(flame.equal(a[k], b[k])) end
    print(distributed.stats().calls)]]
  local function trained(options, steps)
    return (TRAINED:gsub("OPTIONS", options):gsub("STEPS", steps))
  end

  over_both("gives each rank the gradients, bit for bit, of one that adds up all parts", function()
    -- the number of collectives: 10 at the start (a comparison of names, 6 parameters, 3 buffers),
    -- then one bucket per step, or on a GPU 6 gradients
    agree(2, on_gpu and "1210\n" or "210\n", trained("{}", 200))
    agree(4, on_gpu and "610\n" or "110\n", trained("{}", 100))
  end)
  over_both("does so with buckets of any size", function()
    agree(2, "310\n", trained("{ bucket = 1 }", 50))                        -- one a parameter
    agree(2, on_gpu and "310\n" or "160\n", trained("{ bucket = 120 }", 50))
  end)
  over_tcp("does so with gradients that are gathered and summed in the order of ranks", function()
    agree(4, "310\n", trained("{ ordered = true }", 50))                      -- one a parameter
  end)
  over_tcp("tells ranks whose backwards differ how gradients are sent in their own dtype", function()
    local script = [[
      local net = distributed.data_parallel(flame.nn.Linear(4, 4), { ordered = true%s })
      local ok, why = pcall(function()
        flame.autocast("bf16", function()
          local y = net(flame.ones(2, 4))
          if r == 2 then y = net(y) end                -- its weight is used twice
          y:float():sum():backward()
        end)
        return net.weight.grad:sum():item()
      end)
      io.write(ok and "fine" or tostring(why):match("give data_parallel half = false") or why)]]
    local out = run(2, script:format "")
    assert.equal("give data_parallel half = false", out[1])
    out = run(2, script:format ", half = false")
    assert.equal("fine", out[1])
    assert.equal("fine", out[2])
  end)
  over_tcp("does so with gradients that are sent in the half type that they were cast from", function()
    agree(2, "good\n", [[
      local nn = flame.nn
      local function make()
        flame.seed(7)
        return nn.Sequential { nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 3) }
      end
      local function loss_of(net, x, dtype)
        return flame.autocast(dtype, function() return (net(x) ^ 2):mean() end)
      end
      for _, dtype in ipairs { "bf16", "f16" } do
        local nets, alone, bytes = {}, make(), {}
        for k, half in ipairs { true, false } do
          nets[k] = distributed.data_parallel(make(), { ordered = true, half = half, bucket = 100 })
        end
        -- ranks may compute it at different times
        nets[1][1].weight:register_hook(function(g)
          if r == 1 then g:sum():item() end
        end)
        for step = 1, 4 do
          flame.seed(step)
          local xs = flame.randn(n, 6, 5)
          for k, net in ipairs(nets) do
            net:zero_grad()
            flame.eval()
            local before = distributed.stats().bytes
            loss_of(net, xs[r], dtype):backward()
            if step == 4 and r == 2 then flame.eval() end
            for _, p in ipairs(net:parameters()) do assert(p.grad.dtype == "f32") end
            flame.eval()
            bytes[k] = distributed.stats().bytes - before
          end
          alone:zero_grad()
          for k = 1, n do (loss_of(alone, xs[k], dtype) / n):backward() end
          for k, p in ipairs(alone:parameters()) do
            assert(flame.equal(nets[1]:parameters()[k].grad, nets[2]:parameters()[k].grad))
            assert(dtype == "f16" or flame.equal(nets[1]:parameters()[k].grad, p.grad))
          end
          assert(bytes[1] == 2 * 66 and bytes[2] == 4 * 66, bytes[1])
        end
      end
      print "good"]])
  end)
  over_both("adds up without it in no_sync, and brings the sum together after it", function()
    agree(2, "good\n", [[
      local net = distributed.data_parallel(flame.nn.Linear(2, 1))
      local w = net.weight
      local function pass(x) net(flame.tensor { x }):sum():backward() end
      distributed.no_sync(pass, { 1, r })
      assert(flame.equal(w.grad, flame.tensor {{ 1, r }}))
      assert(not pcall(distributed.no_sync, error, "mine"))
      pass { 10, 10 * r }
      assert(flame.equal(w.grad, flame.tensor {{ 11, 16.5 }}))
      w.grad:mul_(2)                                    -- the gradient is not a view of a bucket
      assert(flame.equal(w.grad, flame.tensor {{ 22, 33 }}))
      print "good"]])
  end)
  over_both("names parameters that no gradient reaches, or finds them", function()
    fails(2, { "data_parallel: no gradient has reached b.weight, b.bias", "b.weight" }, [[
      local net = flame.nn.Module.extend("Net")()
      net.a, net.b = flame.nn.Linear(2, 2), flame.nn.Linear(2, 2)
      distributed.data_parallel(net)
      net.a(flame.ones(1, 2)):sum():backward()]])
    agree(2, "good\n", [[
      local net = flame.nn.Module.extend("Net")()
      for _, name in ipairs { "a", "b", "c" } do net[name] = flame.nn.Linear(2, 2) end
      distributed.data_parallel(net, { find_unused = true, reduce = "sum" })
      for step = 1, 3 do
        for _, p in ipairs(net:parameters()) do p.grad = nil end
        local y = net.a(flame.ones(1, 2))
        if r == 2 then y = y + net.b(flame.ones(1, 2)) end
        y:sum():backward()
        assert(flame.equal(net.a.bias.grad, flame.tensor { 2, 2 }))
        assert(flame.equal(net.b.bias.grad, flame.tensor { 1, 1 }))
        assert(net.c.bias.grad == nil)
      end
      print "good"]])
  end)
  over_both("leaves other networks, frozen parameters and gradients{} alone", function()
    agree(2, "good\n", [[
      local net = distributed.data_parallel(flame.nn.Linear(2, 1))
      local other = flame.nn.Linear(2, 1)
      other:load_state_dict(net:state_dict())
      other(flame.ones(1, 2) * r):sum():backward()
      assert(flame.equal(other.weight.grad, flame.full({ 1, 2 }, r)))
      assert(net.weight.grad == nil)
      local g = net(flame.ones(1, 2) * r):sum():gradients { net.weight }[net.weight]
      assert(flame.equal(g, flame.full({ 1, 2 }, r)))
      net.bias:requires_grad_(false)
      net(flame.ones(1, 2) * r):sum():backward()
      assert(flame.equal(net.weight.grad, flame.full({ 1, 2 }, 1.5)) and net.bias.grad == nil)
      net.bias:requires_grad_(true):requires_grad_(false):requires_grad_(true)
      net.weight.grad = nil
      net(flame.ones(1, 2) * r):sum():backward()
      assert(flame.equal(net.weight.grad, flame.full({ 1, 2 }, 1.5)))
      assert(net.bias.grad:item() == 1)
      print "good"]])
  end)
  over_both("gives a parameter that comes later the values of rank 1, by its first backward", function()
    agree(2, "good\n", [[
      for _, options in ipairs { {}, { shard = true }, { find_unused = true } } do
        local net = distributed.data_parallel(flame.nn.Sequential { flame.nn.Linear(2, 2) }, options)
        flame.seed(r)
        net:append(flame.nn.Linear(2, 2))
        local mine = net[2].weight:clone()
        local opt = flame.optim.SGD(net:parameters(), { lr = 0.1 })
        for step = 1, 2 do
          opt:zero_grad()
          net(flame.ones(1, 2)):sum():backward()
          if step == 1 then assert(flame.equal(net[2].weight, mine) == (r == 1)) end
          opt:step()
          local w = net[2].weight:detach()
          assert(flame.equal(distributed.broadcast(w), w), step)
        end
      end
      print "good"]])
  end)
  over_tcp("names no half types where other options or dtypes differ", function()
    for _, case in ipairs { "{ find_unused = r == 1 }", "{}, r == 2 and 'f64'" } do
      local out = run(2, ([[
        local options, dtype = %s
        local net = flame.nn.Linear(2, 2)
        if dtype then net:to(dtype) end
        distributed.data_parallel(net, options)
        net(flame.ones(1, 2, { dtype = net.weight.dtype })):sum():backward()
        flame.eval()]]):format(case))
      assert.is_truthy(out[1]:find("the ranks disagree", 1, true), out[1])
      assert.is_nil(out[1]:find("half", 1, true))
    end
  end)
  over_both("raises where the networks of the ranks differ", function()
    fails(2, { "with other sizes or names", "with other sizes or names" }, [[
      distributed.data_parallel(flame.nn.Linear(2, 2, { bias = r == 1 }))
      flame.eval()]])
  end)
  it("is the network itself in a group of one", function()
    distributed.init()
    local net = flame.nn.Linear(2, 1)
    assert.equal(net, distributed.data_parallel(net))
    assert.equal(7, distributed.no_sync(function(a, b) return a + b end, 3, 4))
  end)
end)

describe("shard_state", function()
  over_tcp("steps as one process does, bit for bit, with a part of the state on each rank", function()
    agree(2, "good\n", [[
      local nn, optim = flame.nn, flame.optim
      local function make()
        flame.seed(3)
        return nn.Sequential { nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 3), nn.Linear(3, 2) }
      end
      local function groups(net)
        local p = net:parameters()
        return { { params = { p[1], p[3], p[5] }, weight_decay = 0.1 }, { params = { p[2], p[4], p[6] } } }
      end
      local net, alone = distributed.data_parallel(make()), make()
      local whole, other = optim.AdamW(groups(alone), { lr = 0.01 }), optim.AdamW(groups(net), { lr = 0.01 })
      local opt
      local function train(steps)
        for _ = 1, steps do
          local x = flame.randn(4, 5)
          for _, job in ipairs { { net, opt or other }, { alone, whole } } do
            job[2]:zero_grad()
            job[1](x):square():mean():backward()
            job[2]:step()
          end
        end
      end
      train(3)
      opt = distributed.shard_state(other)              -- with the existing state
      assert(opt == other and not pcall(distributed.shard_state, opt))
      train(5)
      local n = 0
      for k, p in ipairs(net:parameters()) do
        assert(flame.equal(p, alone:parameters()[k]))
        n = n + (opt.state[p] and 1 or 0)
      end
      assert(#opt.groups[1].params == 3 and opt.steps == 8)
      assert(distributed.all_reduce(flame.tensor(n)):item() == 6 and n < 6 and n > 0)
      -- together the ranks save what one process has
      local saved, all = opt:state_dict(), 0
      for i = 1, 6 do
        local mine = saved.state[i]
        if mine then assert(flame.equal(mine.exp_avg, whole:state_dict().state[i].exp_avg)) end
        all = all + (mine and i or 0)
      end
      assert(distributed.all_reduce(flame.tensor(all)):item() == 21)
      print "good"]])
  end)
  over_both("goes on with 4 ranks from what 2 have saved, as one that never stopped", function()
    local folder = os.tmpname()
    os.remove(folder)
    assert(os.execute("mkdir " .. folder))
    local text = [[
      local nn, optim, data = flame.nn, flame.optim, flame.data
      local kept, from, to = os.getenv "KEPT", FROM, TO
      flame.seed(4)
      local x = flame.randn(32, 5)
      local y, net = x:sum(2, true), nn.Sequential { nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 1) }
      local opt, state = optim.AdamW(net:parameters(), { lr = 0.01 }), nil
      if from > 0 then                          -- the parts of all ranks of the earlier run
        local all
        for k = 1, 2 do
          local part = flame.load(kept .. "/opt" .. k)
          for i, s in pairs(part.state) do if all then all.state[i] = s end end
          all = all or part
        end
        local saved = flame.load(kept .. "/net")
        net:load_state_dict(saved.net)
        opt:load_state_dict(all)
        state = saved.data
      end
      net = distributed.data_parallel(net)
      opt = distributed.shard_state(opt)
      local batches = data.batches({ x, y }, { size = 8 // n, shuffle = true, seed = 3, shard = true,
        state = state })
      for _ = from + 1, to do
        local i, xb, yb = batches:next()
        if not i then i, xb, yb = batches:next() end
        opt:zero_grad()
        flame.mse_loss(net(xb), yb):backward()
        opt:step()
      end
      flame.save(kept .. "/opt" .. r, opt:state_dict())
      if r == 1 then flame.save(kept .. "/net", { net = net:state_dict(), data = batches:state() }) end
      distributed.barrier()
      local all = {}
      for k, p in ipairs(net:parameters()) do all[k] = p:detach():reshape(-1) end
      for _, v in ipairs(flame.cat(all, 1):totable()) do io.write(v, " ") end]]
    local function train(count, from, to)
      local out = run(count, (text:gsub("FROM", from):gsub("TO", to)),
        { with = "FLAME_THREADS=1 KEPT=" .. folder })
      assert.equal(0, out.status, out[1])
      for k = 1, count do
        local values = {}
        for v in out[k]:gmatch("%S+") do values[#values + 1] = assert(tonumber(v), out[k]) end
        out[k] = flame.tensor(values)
      end
      return out
    end
    local whole, half = train(1, 0, 6), train(2, 0, 3)
    local out = train(4, 3, 6)
    assert.equal(50, whole[1]:numel())
    assert.is_false(flame.allclose(whole[1], half[1], 1e-3, 1e-3))
    for k = 1, 4 do assert.is_true(flame.allclose(whole[1], out[k], 1e-5, 1e-6)) end
    os.execute("rm -rf " .. folder)
  end)
  it("is the optimiser itself in a group of one", function()
    distributed.init()
    local opt = flame.optim.SGD({ flame.zeros(2, { requires_grad = true }) })
    assert.equal(opt, distributed.shard_state(opt))
    helper.raises("can not be shared out", distributed.shard_state,
      flame.optim.LBFGS({ flame.zeros(2, { requires_grad = true }) }))
  end)
end)

describe("shards of data", function()
  local data = require "flame.data"
  local function epoch(batches)
    local list = {}
    for _, x in batches do list[#list + 1] = x:totable() end
    return list
  end
  it("are what one process with all ranks' sizes goes through", function()
    local x = flame.arange(24)
    for _, shuffle in ipairs { false, true } do
      local one = data.batches(x, { size = 8, shuffle = shuffle, seed = 5 })
      local parts = {}
      for k = 1, 4 do
        parts[k] = data.batches(x, { size = 2, shuffle = shuffle, seed = 5, shard = { k, 4 } })
        assert.equal(3, #parts[k])
      end
      for _ = 1, 2 do
        local whole, of = epoch(one), {}
        for k = 1, 4 do of[k] = epoch(parts[k]) end
        for b = 1, 3 do
          local joined = {}
          for k = 1, 4 do table.move(of[k][b], 1, 2, #joined + 1, joined) end
          assert.same(whole[b], joined)
        end
      end
    end
  end)
  it("are of equal size, without repeats", function()
    local x, seen = flame.arange(23), {}
    for k = 1, 4 do
      local list = epoch(data.batches(x, { size = 3, shuffle = true, seed = 1, shard = { k, 4 } }))
      assert.equal(2, #list)
      assert.equal(2, #list[2])
      for _, b in ipairs(list) do
        for _, v in ipairs(b) do
          assert.is_nil(seen[v])
          seen[v] = true
        end
      end
    end
  end)
  it("go on from where 2 ranks stopped with 4, or with one", function()
    local x = flame.arange(48)
    local function make(size, k, n, state)
      return data.batches(x, { size = size, shuffle = true, seed = 3, state = state,
        shard = n and { k, n } })
    end
    local two, one = make(4, 1, 2), make(8)
    two() two()
    one() one()
    local _, want = one()
    local got = {}
    for k = 1, 4 do
      local _, b = make(2, k, 4, two:state())()
      table.move(b:totable(), 1, 2, #got + 1, got)
    end
    assert.same(want:totable(), got)
    local _, alone = make(8, nil, nil, two:state())()
    assert.same(want:totable(), alone:totable())
    helper.raises("16 items of the epoch are done", make, 5, 1, 2, two:state())
  end)
  it("are those of a loader, too", function()
    local set = data.dataset (24, function(i) return i end)
    local b = data.loader(set, { size = 3, shard = { 2, 2 } })
    assert.equal(4, #b)
    assert.same({ 4, 5, 6 }, select(2, b()):totable())
    assert.same({ 10, 11, 12 }, select(2, b()):totable())
    assert.same({ 7 + 12, 8 + 12, 9 + 12 }, select(2, data.loader(set,
      { size = 3, shard = { 1, 2 }, state = { seed = 0, epoch = 0, at = 3,
        each = 6 } })()):totable())
  end)
  it("say what is wrong with the option", function()
    for _, shard in ipairs { { 3, 2 }, { 0, 2 }, { 1 }, { 1, 2, 3 } } do
      helper.raises("need {k, n} with k from 1 to n", data.batches, flame.ones(4),
        { shard = shard })
    end
  end)
  over_both("take their place from the group, whose ranks must have one seed", function()
    agree(2, { "1 2 5 6\n", "3 4 7 8\n" }, [[
      local all = {}
      for _, x in flame.data.batches(flame.arange(8), { size = 2, shard = true }) do
        for _, v in ipairs(x:totable()) do all[#all + 1] = v end
      end
      print(table.concat(all, " "))]])
    fails(2, { "the ranks disagree", "the ranks disagree" }, [[
      local b = flame.data.batches(flame.arange(8), { size = 2, shuffle = true, seed = r, shard = true })
      print(b())
      distributed.barrier()]])
  end)
  over_tcp("raise where ranks have other items, sizes or positions", function()
    local ones <const> = "flame.arange(24)"
    for _, case in ipairs {
      { "flame.arange(8 * r)", "size = 2" }, { ones, "size = r" },
      { ones, "size = 2, shuffle = r == 1" },
      { ones, "size = 2, state = { seed = 0, epoch = 0, at = r, each = 4 }" },
      { ones, "size = 2, state = { seed = 0, epoch = r, at = 1, each = 4 }" },
    } do
      for _, of in ipairs { "batches(%s, { %s, shard = true })",
          "loader(flame.data.dataset(%s:totable()), { %s, shard = true })" } do
        local made = of:format(case[1], case[2])
        fails(2, { { "the ranks disagree", "with other sizes or names" }, "the ranks disagree" },
          "print(flame.data." .. made .. "())")
      end
    end
  end)
end)

describe("examples in several processes", function()
  local function example(name, options)
    return ("arg = { %s } dofile(os.getenv('TOP') .. '/examples/%s')"):format(options, name)
  end
  over_mpi("digits.lua trains, and rank 1 tells of it", function()
    local out = run(2, example("digits.lua", "'--device', 'cpu', '--epochs', '3', '--batch', '25'"))
    assert.equal(0, out.status, out.mpirun)
    assert.equal("", out[2])
    local right = tonumber(out[1]:match("test accuracy ([%d.]+)"))
    assert.is_true(right and right > 80, out[1])
  end)
  over_tcp("gpt2.lua trains, and rank 1 tells of it", function()
    local out = run(2, example("gpt2.lua", "'--device', 'cpu', '--steps', '6', '--every', '3', "
      .. "'--context', '16', '--batch', '2', '--sample', '4'"))
    assert.equal(0, out.status, out[1])
    assert.equal("", out[2])
    assert.is_truthy(out[1]:find("6 steps of 2 x 2 x 16", 1, true), out[1])
    assert.is_truthy(out[1]:find("validation", 1, true), out[1])
  end)
end)
