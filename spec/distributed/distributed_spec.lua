--- Collectives. Each case runs a script in 2 or 4 processes: over MPI, started by mpirun, and over
-- TCP, started as torchrun does.
local helper = require "spec.support.helper"
local flame = require "flame"
local distributed = require "flame.distributed"
local group = require "spec.support.group"

local run, agree, fails = group.run, group.agree, group.fails
local over_mpi, over_tcp, over_both = group.cases(it, pending)

describe("a group of one", function()
  it("needs a group", function()
    assert.has_error(function() distributed.rank() end)
  end)
  it("gives what there is to each collective", function()
    assert.equal(1, (distributed.init()))
    assert.is_true(distributed.is_initialized())
    assert.same({ 1, 1, 1 }, { distributed.rank(), distributed.size(), distributed.local_rank() })
    local x = flame.tensor { 1.0, 2.0, 3.0 }
    for _, reduce in ipairs { "sum", "mean", "max", "min" } do
      assert.same({ 1, 2, 3 }, distributed.all_reduce(x, reduce):totable())
      assert.same({ 1, 2, 3 }, distributed.reduce_scatter(x, reduce):totable())
    end
    assert.same({ 1, 2, 3 }, distributed.all_gather(x):totable())
    assert.same({ 1, 2, 3 }, distributed.all_gather(x, { 3 }):totable())
    assert.same({ 1, 2, 3 }, distributed.reduce_scatter(x, "sum", { 3 }):totable())
    assert.same({ 1, 2, 3 }, distributed.broadcast(x):totable())
    assert.same({ 1, 2, 3 }, distributed.all_to_all(x):totable())
    distributed.barrier()
    assert.equal(4, distributed.all_gather(flame.tensor(4.0)):item())
  end)
  it("gives their gradients", function()
    distributed.init()
    local x = flame.tensor({ 1.0, 2.0, 3.0 }, { dtype = "f64", requires_grad = true })
    for _, name in ipairs { "all_reduce", "all_gather", "reduce_scatter", "broadcast",
      "all_to_all" } do
      assert.is_true(flame.gradcheck(function(v) return distributed[name](v):sin() end, { x }))
      assert.is_true(flame.gradcheck(function(v) return distributed[name](v):sin() end, { x },
        { order = 2 }))
    end
  end)
  it("names what is wrong with arguments", function()
    distributed.init()
    local x = flame.ones(3)
    for _, case in ipairs {
      { "reduce must be", distributed.all_reduce, x, "product" },
      { "which has no sum", distributed.all_reduce, flame.ones(2):gt(0) },
      { "i64 has no mean", distributed.all_reduce, x:long(), "mean" },
      { "need a rank from 1 to 1", distributed.broadcast, x, 2 },
      { "this rank itself", distributed.send, x, 1 },
      { "need a rank from 1 to 1", distributed.receive, x, 0 },
      { "2 sizes for 1 ranks", distributed.all_gather, x, { 1, 2 } },
      { "sizes[1] is 2", distributed.all_gather, x, { 2 } },
      { "a sum of 4", distributed.reduce_scatter, x, "sum", { 4 } },
      { "a first axis", distributed.all_to_all, flame.tensor(1) },
      { "need seconds above 0", distributed.init, { timeout = 0 } },
    } do
      helper.raises(table.unpack(case))
    end
  end)
  it("runs a collective whose result is not read, once", function()
    distributed.init()
    local before = distributed.stats().calls
    distributed.all_reduce(flame.ones(3))
    collectgarbage()
    collectgarbage()
    flame.eval()
    assert.equal(before + 1, distributed.stats().calls)
    local y = distributed.all_reduce(flame.ones(3))
    assert.equal(3, (y + y):sum():item() / 2)
    assert.equal(3, y:sum():item())
    assert.equal(before + 2, distributed.stats().calls)
    assert.is_true(distributed.stats().bytes > 0 and distributed.stats().seconds >= 0
      and distributed.stats().waited >= 0)
  end)
end)

describe("collectives", function()
  over_both("give what their names say in each dtype, with 2 and 4 ranks", function()
    for _, n in ipairs { 2, 4 } do
      agree(n, "good\n", [[
        local function same(want, x) assert(flame.equal(flame.tensor(want, {dtype = x.dtype}), x)) end
        for _, dtype in ipairs { "f64", "f32", "f16", "bf16", "i64", "i32", "i16", "i8", "u8" } do
          local x = flame.tensor({ r, 2 * r, 3, 4 - r, 5 }, { dtype = dtype })
          local t = n * (n + 1) // 2
          same({ t, 2 * t, 3 * n, 4 * n - t, 5 * n }, distributed.all_reduce(x))
          same({ n, 2 * n, 3, 3, 5 }, distributed.all_reduce(x, "max"))
          same({ 1, 2, 3, 4 - n, 5 }, distributed.all_reduce(x, "min"))
          same({ n, 2 * n, 3, 4 - n, 5 }, distributed.broadcast(x, n))
          local all, whole, turned = {}, {}, {}
          for k = 1, n do
            for _, v in ipairs { k, 2 * k, 3, 4 - k, 5 } do all[#all + 1] = v end
            whole[k], turned[k] = { k, r }, { r, k }
          end
          same(all, distributed.all_gather(x))
          same({ { r * n, t } }, distributed.reduce_scatter(flame.tensor(whole, {dtype = dtype}) +
            flame.tensor({ 0, 0 }, {dtype = dtype})))
          same(whole, distributed.all_to_all(flame.tensor(turned, {dtype = dtype})))
        end
        local b = flame.tensor { r == 1, r > 0, r > 9 }
        same({ true, true, false }, distributed.all_reduce(b, "max"))
        same({ false, true, false }, distributed.all_reduce(b, "min"))
        same({ 1.5 }, distributed.all_reduce(flame.tensor { 1.5 }, "mean"))
        print "good"]])
    end
  end)
  over_both("take arrays of any size, none and more rows than ranks among them", function()
    agree(4, "good\n", [[
      for _, m in ipairs { 0, 1, 2, 3, 5, 7, 1000, 100003 } do
        local x = flame.arange(m):float() * r
        assert(flame.equal(distributed.all_reduce(x), flame.arange(m):float() * 10))
        assert(distributed.all_gather(x):size(1) == 4 * m)
        assert(flame.equal(distributed.broadcast(x, 3), flame.arange(m):float() * 3))
      end
      local y = flame.ones(2, 6):t() * r                          -- not contiguous
      assert(distributed.all_reduce(y):sum():item() == 120)
      assert(distributed.all_reduce(flame.tensor(1.0)):item() == 4)
      print "good"]])
  end)
  over_both("take as many rows of each rank as 'sizes' says", function()
    agree(4, "good\n", [[
      local sizes = { 3, 0, 1, 2 }
      local x = flame.full({ sizes[r], 2 }, r):requires_grad_()
      local all = distributed.all_gather(x, sizes)
      assert(flame.equal(all, flame.tensor {{1,1},{1,1},{1,1},{3,3},{4,4},{4,4}}));
      (all * r):sum():backward()
      assert(flame.equal(x.grad, flame.full({ sizes[r], 2 }, 10)))
      local z = distributed.reduce_scatter(flame.arange(6) * r, "sum", sizes)
      assert(flame.equal(z, flame.arange(6):split(sizes)[r] * 10))
      print "good"]])
  end)
  over_both("send to one rank, and bring the gradient back", function()
    agree(2, { "4 9\n", "0\n" }, [[
      local x = flame.tensor({ 2.0, 3.0 }, { requires_grad = true })
      local loss
      if r == 1 then loss = distributed.send(x, 2)
      else loss = (distributed.receive(x, 1) ^ flame.tensor { 2, 2 } * flame.tensor { 1, 1.5 }):sum() end
      loss:backward()
      if r == 1 then print(("%g %g"):format(x.grad[1]:item(), x.grad[2]:item()))
      else print(x.grad == nil and 0 or x.grad:sum():item()) end]])
  end)
  over_both("have the gradients that differences give, over all ranks", function()
    agree(2, "good\n", group.GRADIENTS)
  end)
  over_both("have gradients of gradients", function()
    agree(2, "good\n", [[
      local x = flame.tensor({ 0.5 * r }, { dtype = "f64", requires_grad = true })
      local y = distributed.all_reduce(x ^ 3)
      local g = (y * y):sum():gradients({ x }, { create_graph = true })[x]
      local s = 0.125 + 1                     -- L = 2 s^2: dL / dx = 4 s 3 x^2
      assert(math.abs(g:item() - 12 * s * (0.5 * r) ^ 2) < 1e-12)
      local h = g:sum():gradients { x }[x]    -- of the sum of both ranks' g
      local g1, g2 = 12 * 0.25, 12 * 1
      local want = 24 * s * 0.5 * r + 3 * (0.5 * r) ^ 2 * (g1 + g2)
      assert(math.abs(h:item() - want) < 1e-12, h:item() - want)
      print "good"]])
  end)
  over_both("sum in the order of ranks, so that every rank has the bits of one loop", function()
    agree(4, "good\n", [[
      for _, dtype in ipairs { "f32", "bf16", "f16" } do
        local parts, total = {}, nil
        for k = 1, n do
          flame.seed(k)
          parts[k] = (flame.randn(1001) * 10 ^ (k % 3)):to(dtype)
          total = total and total + parts[k] or parts[k]
        end
        local y = distributed.all_reduce(parts[r])
        assert(flame.equal(y, total))
        local z = distributed.reduce_scatter(parts[r]:narrow(1, 1, 1000))
        assert(flame.equal(z, total:narrow(1, (r - 1) * 250 + 1, 250)))
      end
      print "good"]])
  end)
  over_both("are not lost where one rank reads less, or draws, or evaluates more often", function()
    agree(2, { "6 2\n", "2\n" }, [[
      local x = flame.tensor { 1.0 * r, 2.0 * r }
      local loss = distributed.all_reduce(x * 2)
      if r == 1 then io.write(("%g "):format(loss[1]:item())) end
      loss = nil
      for _ = 1, 20 do
        x = distributed.all_reduce(x, "mean")
        if r == 2 then flame.eval(x) collectgarbage() end
      end
      distributed.all_reduce(x)
      print(n)]])
    agree(2, "4\n", [[
      local x = distributed.all_reduce(flame.ones(2)) + distributed.all_reduce(flame.ones(2))
      print(("%g"):format(x[1]:item()))]], { with = "FLAME_EAGER=1" })
    agree(2, "4\n", [[
      local x = distributed.all_reduce(flame.ones(2)) + distributed.all_reduce(flame.ones(2))
      print(("%g"):format(x[1]:item()))]], { with = "FLAME_BUDGET=$((OMPI_COMM_WORLD_RANK + 1))" })
  end)
  over_both("run 1,000 steps without growth", function()
    agree(2, "good\n", [[
      local w = flame.zeros(300):requires_grad_()
      local opt = flame.optim.SGD({ w }, { lr = 15 })
      local plans, bytes
      -- With the collector stopped plans keep all values, so that they do not depend on when the
      -- collector finds dead ones (engine/collect.c).
      collectgarbage "stop"
      for step = 1, 1000 do
        if step == 21 then collectgarbage "restart" end
        opt:zero_grad()
        local loss = ((w - r) ^ 2):mean()
        loss:backward()
        w.grad = distributed.all_reduce(w.grad, "mean")
        opt:step()
        if step % 10 == 0 then
          if step > 20 then collectgarbage() end
          distributed.all_reduce(loss:detach(), "mean"):item()
        end
        if step == 100 then
          collectgarbage() collectgarbage()
          plans, bytes = flame.stats().plans, flame.memory().allocated
        end
      end
      collectgarbage() collectgarbage()
      assert(flame.stats().plans == plans, flame.stats().plans .. " plans, were " .. plans)
      assert(flame.memory().allocated <= bytes)
      assert(flame.allclose(w, flame.full({ 300 }, 1.5), 1e-4, 1e-4))
      print "good"]])
  end)
end)

-- The environment of cases with a time limit of seconds: no CUDA, which takes seconds to start.
local HERE <const> = "FLAME_THREADS=1 FLAME_DEVICE=cpu"

--- Sends SIGINT to rank 2 half a second after a rank has made the file "here" in the folder.
local function interrupt_rank_2(folder)
  for _ = 1, 500 do
    local f = io.open(folder .. "/here")
    if f then f:close() break end
    os.execute("sleep 0.02")
  end
  os.execute(("sleep 0.5; kill -INT $(cat %s/2.pid)"):format(folder))
end

describe("a group in which something is wrong", function()
  over_both("raises on all ranks where they call different things, with rank and line", function()
    local same = "the ranks disagree: rank 1 calls all_reduce (sum) of f32 (3) at train.lua:2, "
      .. "rank 2 all_gather of f32 (3) at train.lua:2"
    fails(2, { "train.lua:2: all_reduce: " .. same, "train.lua:2: all_gather: " .. same }, [[

      local y = distributed[r == 1 and "all_reduce" or "all_gather"](flame.ones(3))
      print(y)]])
  end)
  over_both("tells shapes, dtypes, reductions, roots and tracking apart", function()
    for _, case in ipairs {
      { "all_reduce(r == 1 and flame.ones(3) or flame.ones(2, 2))", "f32 (3)", "f32 (2, 2)" },
      { "all_reduce(r == 1 and flame.ones(3) or flame.ones(3):double())", "f32 (3)", "f64 (3)" },
      { "all_reduce(flame.ones(3), r == 1 and 'sum' or 'mean')", "(sum)", "(mean)" },
      { "broadcast(flame.ones(3), r)", "broadcast from 1", "broadcast from 2" },
      { "all_reduce(r == 1 and flame.ones(3):requires_grad_() or flame.ones(3))",
        "tracked f32 (3)", "of f32 (3)" },
      { "all_gather(flame.ones(r == 1 and 2 or 1), r == 1 and { 2, 3 } or { 4, 1 })",
        "all_gather of f32 (3)", "all_gather of f32 (4)" },
      { "all_gather(flame.ones(2), r == 1 and { 2, 1 } or { 1, 2 })",
        "rank 2 all_gather of f32 (2)", "with other sizes or names" },
    } do
      fails(2, { { "rank 1 calls", case[2], case[3] }, { "rank 1 calls", case[2], case[3] } },
        "print(distributed." .. case[1] .. ")")
    end
  end)
  over_both("raises where what is sent is not what is received", function()
    fails(2, { { "send to 2 of f32 (3)", "receive from 1 of f32 (4)" },
      { "send to 2 of f32 (3)", "receive from 1 of f32 (4)" } }, [[
      if r == 1 then print(distributed.send(flame.ones(3), 2))
      else print(distributed.receive(flame.ones(4), 1)) end]])
  end)
  over_both("tells ranks that are no part of a send and its receive that these do not fit", function()
    local why = "the ranks disagree: rank 1 calls send to 2 of f32 (3)"
    fails(4, { why, why, { "barrier: " .. why }, { "receive: " .. why } }, [[
      if r == 1 then print(distributed.send(flame.ones(3), 2))
      elseif r == 2 then print(distributed.receive(flame.ones(4), 1))
      elseif r == 3 then distributed.barrier()
      else print(distributed.receive(flame.ones(4), 3)) end]],
      { timeout = 20, with = HERE })
  end)
  over_both("stays broken, and says since when", function()
    agree(2, "good\n", [[
      local y = distributed.all_reduce(flame.ones(r))
      assert(not pcall(y.totable, y))
      local ok, why = pcall(distributed.barrier)
      assert(not ok and tostring(why):find("the group has ended: the ranks disagree", 1, true), why)
      print "good"]])
  end)
  over_both("gives up a rank that hangs when the time is over, and names it", function()
    fails(2, { { "train.lua:2: all_reduce: waited 1 s for rank 2: the time limit of init" } }, [[

      if r == 1 then print(distributed.all_reduce(flame.ones(3))) else os.execute("sleep 2.5") end
      ]],
      { timeout = 1, with = HERE })
  end)
  over_both("names all ranks that are missing", function()
    fails(4, { "waited 1 s for ranks 2 and 4", [3] = "ranks 2 and 4" }, [[
      if r % 2 == 1 then distributed.barrier() else os.execute("sleep 2.5") end
      ]],
      { timeout = 1, with = HERE })
  end)
  over_both("raises at the next read, of whatever value, if nothing reads what went wrong", function()
    agree(2, "good\n", [[
      local x = flame.ones(3) * 2
      distributed.all_reduce(flame.ones(r))
      local ok, why = pcall(function() return x:sum():item() end)
      assert(not ok and tostring(why):find("train.lua:2: all_reduce: the ranks disagree", 1, true), why)
      assert(x:sum():item() == 6)                           -- it is told once
      print "good"]])
  end)
  over_both("raises when the script ends where nothing has read what went wrong", function()
    fails(2, { { "train.lua:1: all_reduce: the ranks disagree", "read at end of the script" },
      "train.lua:1: all_reduce: the ranks disagree" }, "distributed.all_reduce(flame.ones(r))")
    fails(2, { [2] = "rank 1 has ended, and rank 2 calls barrier" },
      "if r == 2 then flame.internal.same_on_ranks('barrier', 1) end")
    fails(2, { "all_reduce: rank 2 failed at train.lua:3: x[…]: index 9", "x[…]: index 9" }, [[

      local at = flame.tensor({ r == 2 and 9 or 1 }, { dtype = "i64" })
      distributed.all_reduce(flame.ones(3)[at])]])
    -- after os.exit there is no script in which the error could be raised, so it is printed
    local out = run(2, "distributed.all_reduce(flame.ones(r)) os.exit(0, true)")
    assert.is_truthy(out[1]:find("^flame: train.lua:1: all_reduce: the ranks disagree"), out[1])
    assert.is_truthy(out[1]:find("(at the end of the script)", 1, true), out[1])
  end)
  over_both("waits for a rank that is slow", function()
    agree(2, "good\n", [[
      if r == 2 then os.execute("sleep 0.5") end
      assert(distributed.all_reduce(flame.ones(1)):item() == 2)
      if r == 1 then os.execute("sleep 0.5") end
      assert(distributed.all_reduce(flame.ones(1)):item() == 2)
      print "good"]])
  end)
  over_both("ends with a rank that is killed, with the line that waits for it", function()
    fails(2, { { "train.lua:2: all_reduce: ", group.by() == "mpi" and "while it waited for rank 2"
      or "the connection to rank 2 has ended" } }, [[

      if r == 1 then print(distributed.all_reduce(flame.ones(3))) else os.execute("kill -9 $PPID") end]],
      { grace = 2, with = HERE })
  end)
  over_both("ends with a rank whose script raises", function()
    fails(2, { { "rank 2 has ended, and rank 1 calls all_reduce (sum) of f32 (3) at train.lua:3" },
      { "train.lua:2: mine" } }, [[

      if r == 2 then error("mine") end
      print(distributed.all_reduce(flame.ones(3)))]])
  end)
  over_both("raises everywhere for a check that fails on one rank, and writes nothing", function()
    agree(2, "good\n", [[
      local w = flame.zeros(3)
      flame.eval(w)
      local at = flame.tensor({ r == 2 and 9 or 1 }, { dtype = "i64" })
      w:add_(distributed.all_reduce(flame.ones(3)[at]))
      local ok, why = pcall(flame.eval, w)
      local _, told = pcall(distributed.barrier)
      why = tostring(why) .. tostring(told)
      assert(why:find("index 9 at position 1 is out of range", 1, true), why)
      assert(r == 2 or why:find("rank 2 failed at train.lua:4", 1, true), why)
      assert(flame.equal(w, flame.zeros(3)))
      print "good"]])
  end)
  over_tcp("names the collective that brings a NaN of another rank, under FLAME_CHECK=nan", function()
    local out = run(2, [[

      local x = flame.tensor { 1.0, r == 2 and 0 / 0 or 1.0 }
      local ok, why = pcall(function() return distributed.all_reduce(x):sum():item() end)
      print(ok, ok or why)]], { with = "FLAME_THREADS=1 FLAME_CHECK=nan" })
    assert.is_truthy(out[1]:find("false\ttrain.lua:3: all_reduce: made NaN out of operands without one on "
      .. "this rank, in 1 of 2 elements", 1, true), out[1])
    assert.equal("true\ttrue\n", out[2])
    assert.equal(0, out.status)
  end)
  over_both("ends on all ranks when one is interrupted", function()
    local out = run(2, [[

      if r == 1 then os.execute("touch here; sleep 1.5") end
      print(distributed.all_reduce(flame.ones(3)))]], {
      with = HERE, signal = interrupt_rank_2 })
    assert.are_not.equal(0, out.status)
    assert.is_truthy(out[2]:find("interrupted!", 1, true), out[2])
    assert.is_truthy(out[1]:find("rank 2 gave up in all_reduce (sum) of f32 (3) at train.lua:3: interrupted", 1,
      true), out[1])
  end)
  over_both("names a rank that was interrupted in other work", function()
    local out = run(2, [[

      local x = flame.ones(3)
      if r == 2 then
        x = flame.ones(600, 600)
        for _ = 1, 2000 do x = x:matmul(x) end                  -- more than is done in a second
        io.open("here", "w"):close()
        flame.eval(x)
      end
      print(distributed.all_reduce(x))]], {
      with = HERE, signal = interrupt_rank_2 })
    assert.is_truthy(out[2]:find("interrupted!", 1, true), out[2])
    assert.is_truthy(out[1]:find("train.lua:9: all_reduce: rank 2 was interrupted", 1, true),
      out[1])
  end)
  over_mpi("is found by srun's variables as by mpirun's", function()
    agree(2, { "srun 1 2 1 3\n", "srun 2 2 2 3\n" }, [[
      local by = select(4, flame.internal.group_here())
      print(("%s %d %d %d %g"):format(by, r, n, distributed.local_rank(),
        distributed.all_reduce(flame.tensor(1.0 * r)):item()))]], {
      with = "-u OMPI_COMM_WORLD_RANK -u OMPI_COMM_WORLD_SIZE -u OMPI_COMM_WORLD_LOCAL_RANK "
        .. "SLURM_PROCID=$OMPI_COMM_WORLD_RANK SLURM_STEP_NUM_TASKS=$OMPI_COMM_WORLD_SIZE "
        .. "SLURM_LOCALID=$OMPI_COMM_WORLD_LOCAL_RANK FLAME_THREADS=1" })
  end)
  over_mpi("says so where the launcher and MPI count differently", function()
    local program = dofile("spec/support/interpreter.lua")
    local pipe = assert(io.popen(("env SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=2 LSAN_OPTIONS=detect_leaks=0 %s -e '%s' 2>&1")
      :format(program, "print(pcall(require(\"flame.distributed\").init))")))
    local said = pipe:read("a")
    pipe:close()
    assert.is_truthy(said:find("srun says 2 ranks and MPI 1", 1, true), said)
  end)
end)

describe("ranks that meet over TCP", function()
  --- Starts processes that call init, each with its environment: a list of what they print. other:
  -- a program that is run as the first process in place of flame-lua.
  local function meet(processes, limit, other)
    local program, out, pipes = dofile("spec/support/interpreter.lua"), {}, {}
    -- a name of the job that no other run of these specs uses
    local job = os.tmpname()
    os.remove(job)
    for k, with in ipairs(processes) do
      local text = ("print(pcall(require(\"flame.distributed\").init, { timeout = %g }))"):format(
        limit or 20)
      pipes[k] = assert(io.popen(
        ("env TORCHELASTIC_RUN_ID=%s MASTER_ADDR=127.0.0.1 %s %s -e '%s' 2>&1"):format(job, with,
        k == 1 and other or program, text)))
    end
    for k, pipe in ipairs(pipes) do
      out[k] = pipe:read("a")
      pipe:close()
    end
    return out
  end
  local function has(text, piece) assert.is_truthy(text:find(piece, 1, true), text) end

  it("refuse another number of ranks, and another job", function()
    local out = meet({ "RANK=0 WORLD_SIZE=2 MASTER_PORT=18211",
      "RANK=1 WORLD_SIZE=3 MASTER_PORT=18211" }, 1)
    has(out[1], "did not come within the time limit: rank 2")
    has(out[2], "rank 1 was started with another number of ranks")
    out = meet({ "RANK=0 WORLD_SIZE=2 MASTER_PORT=18231",
      "RANK=1 WORLD_SIZE=2 MASTER_PORT=18231 TORCHELASTIC_RUN_ID=other" }, 1)
    has(out[2], "rank 1 is not at MASTER_ADDR and MASTER_PORT: another job is at this address and port")
  end)
  it("refuse another version", function()
    local f <close> = assert(io.open(dofile("spec/support/interpreter.lua"), "rb"))
    local other = os.tmpname()
    local g = assert(io.open(other, "wb"))
    g:write((f:read("a"):gsub("0%.1%.0", "0.1.9")))
    g:close()
    os.execute("chmod +x " .. other)
    local out = meet({ "RANK=0 WORLD_SIZE=2 MASTER_PORT=18221",
      "RANK=1 WORLD_SIZE=2 MASTER_PORT=18221" }, 2, other)
    os.remove(other)
    has(out[2], "init: rank 1 runs flame 0.1.9, and this rank " .. flame.version)
    has(out[1], "did not come within the time limit: rank 2")
  end)
  it("refuse more of them than there can be sockets", function()
    has(meet({ "RANK=0 WORLD_SIZE=1000000 MASTER_PORT=18241" })[1],
      "WORLD_SIZE is 1000000, and there can be 4096 ranks: each has a socket to each other")
    local few <const> = [[sh -c 'ulimit -n 100; exec "$@"' - env ]]
    has(meet({ few .. "RANK=0 WORLD_SIZE=80 MASTER_PORT=18241" })[1],
      "WORLD_SIZE is 80, and there can be 68 ranks")
  end)
  it("say who is not there when the time is over", function()
    local out = meet({ "RANK=0 WORLD_SIZE=4 MASTER_PORT=18251",
      "RANK=2 WORLD_SIZE=4 MASTER_PORT=18251" }, 1)
    has(out[1], "did not come within the time limit: rank 2, 4")
    has(meet({ "RANK=1 WORLD_SIZE=2 MASTER_PORT=18271" }, 0.5)[1],
      "rank 1 is not at MASTER_ADDR and MASTER_PORT: Connection refused")
  end)
  --- Calls f while a program of Python runs, once that has called ready().
  local function beside(text, f)
    local file = os.tmpname()
    local other = assert(io.popen(("python3 -c 'import socket, sys\n%s\nopen(%q, \"w\").write(\"x\")\n"
      .. "sys.stdin.read()' 2>&1"):format(text, file), "w"))
    for _ = 1, 200 do
      local g <close> = assert(io.open(file))
      if g:read("a") == "x" then break end
      os.execute("sleep 0.02")
    end
    f()
    other:close()
    os.remove(file)
  end
  it("pass by a port that something else has", function()
    beside("s = socket.socket(); s.setsockopt(1, 2, 1); s.bind((\"127.0.0.1\", 18291)); s.listen()",
      function()
        local out = meet { "RANK=0 WORLD_SIZE=2 MASTER_PORT=18291",
          "RANK=1 WORLD_SIZE=2 MASTER_PORT=18291" }
        assert.same({ "true\t1\t2\n", "true\t2\t2\n" }, out)
      end)
  end)
  it("do not wait longer than the limit where nothing answers, a firewall or a full queue", function()
    beside("c = []\n" ..
      "for port in range(18311, 18327):\n" ..
      " s = socket.socket(); s.setsockopt(1, 2, 1); s.bind((\"127.0.0.1\", port)); s.listen(0)\n" ..
      " c.append(s)\n" ..
      " for k in range(2):\n" ..
      "  q = socket.socket(); q.setblocking(False); q.connect_ex((\"127.0.0.1\", port)); c.append(q)",
      function()
        local before = os.time()
        local out = meet({ "RANK=1 WORLD_SIZE=2 MASTER_PORT=18311" }, 1)
        has(out[1], "rank 1 is not at MASTER_ADDR and MASTER_PORT: Connection timed out")
        assert.is_true(os.time() - before < 10)     -- the system gives up after minutes
      end)
  end)
  it("need an address and a port", function()
    has(meet({ "RANK=0 WORLD_SIZE=2 MASTER_PORT=" })[1],
      "MASTER_ADDR='127.0.0.1' MASTER_PORT='': need where rank 1 is met, a port from 1 to 65519")
    for _, port in ipairs { "29500x", "65520", "0", "-3" } do
      has(meet({ "RANK=0 WORLD_SIZE=2 MASTER_PORT=" .. port })[1], "MASTER_PORT='" .. port .. "'")
    end
    has(meet({ "RANK=0 WORLD_SIZE=2 MASTER_PORT=18300 MASTER_ADDR=no.such.host.invalid" })[1],
      "can not listen at MASTER_ADDR and MASTER_PORT: no.such.host.invalid")
  end)
end)
