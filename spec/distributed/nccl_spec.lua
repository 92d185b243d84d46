--- Collectives of GPU arrays without a GPU: processes with the fake driver (spec/c/fake_cuda.c) and
--- a fake NCCL that exchanges arrays through shared memory (spec/c/fake_nccl.c). Kernels write
--- nothing in this driver, so cases use only uploaded values.
require "spec.support.helper"
local ranks = require "spec.support.ranks"
local interpreter = dofile("spec/support/interpreter.lua")

local machine
local function sh(...) assert(os.execute(table.concat({ ... }, " "))) end
setup(function()
  machine = os.tmpname()
  sh("rm", machine, "&& mkdir", machine)
  for _, name in ipairs { "libcuda.so.1", "libnvrtc.so.13", "libcublasLt.so.13", "libnccl.so.2" } do
    sh("ln -s $(realpath", interpreter:match("^(.*)/[^/]*$") .. "/spec/fake_cuda.so)",
      -- links to one file, so that all libraries share their state
      machine .. "/" .. name)
  end
end)
teardown(function() sh("rm -rf", machine) end)

local function run(n, text, with, timeout)
  return ranks.run(n, "flame.default_device(flame.best_device())\n" .. text, { by = "tcp",
    all = true, timeout = timeout or 4,
    with = ("FLAME_THREADS=1 FLAME_CACHE_DIR=off FLAME_TEST_MACHINE=%s FAKE_CUDA=%s %s"):format(
      machine, "devices=4", with or "") })
end

local function all_print(n, expected, text, with)
  local out = run(n, text, with)
  for k = 1, n do assert.equal(expected, out[k]) end
  assert.equal(0, out.status)
end

local function says(text, piece) assert.is_truthy(text:find(piece, 1, true), text) end

describe("collectives of GPU arrays", function()
  it("are what their names say, in each dtype, with 2 and 4 ranks", function()
    for _, n in ipairs { 2, 4 } do
      all_print(n, "NCCL 2.27.3\n", [[
        local function same(want, x)
          assert(flame.equal(flame.tensor(want, { dtype = x.dtype, device = "cpu" }), x:cpu()), x.dtype)
        end
        local t = n * (n + 1) // 2
        for _, dtype in ipairs { "f64", "f32", "f16", "bf16", "i64", "i32", "i16", "i8", "u8" } do
          local x = flame.tensor({ r, 2 * r, 3, 4 - r, 5 }, { dtype = dtype })
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
          same({ { r * n, t } }, distributed.reduce_scatter(flame.tensor(whole, { dtype = dtype })))
          same(whole, distributed.all_to_all(flame.tensor(turned, { dtype = dtype })))
          if r == 1 then distributed.send(x, 2) end
          if r == 2 then same({ 1, 2, 3, 3, 5 }, distributed.receive(x, 1)) end
          flame.eval()
        end
        same({ 1.5 * t }, distributed.all_reduce(flame.tensor { 1.5 * r }))
        same({ t / n }, distributed.all_reduce(flame.tensor { 1.0 * r }, "mean"))
        same({}, distributed.all_reduce(flame.tensor {}))
        same({ true, true, false }, distributed.all_reduce(flame.tensor { r == 1, r > 0, r > 9 }, "max"))
        local nan = distributed.all_reduce(flame.tensor { r == 2 and 0 / 0 or 1.0 }, "max"):cpu()
        assert(nan:isnan():item())
        print(distributed.stats().over)]])
    end
  end)
  it("have the gradients that differences give, over all ranks", function()
    local text <const> = require "spec.support.group".GRADIENTS
    local out = run(2, text .. " assert(distributed.stats().over:find 'NCCL')",
      'FLAME_DEVICE=cuda FAKE_CUDA="computes=1 devices=2"', 60)
    assert.same({ "good\n", "good\n" }, { out[1], out[2] })
  end)
  it("are done together where a plan has several, and agree where ranks cut it otherwise", function()
    all_print(2, "good\n", [[
      local function one(v) return distributed.all_reduce(flame.tensor { v * r }) end
      for round = 1, 6 do
        local a, b, c = one(1), one(10), one(100)
        if r == round % 3 then assert(b:cpu():item() == 30) end
        if r == 2 then flame.eval() end
        local d = one(1000)
        assert(a:cpu():item() + c:cpu():item() + d:cpu():item() == 3303)
      end
      local s = distributed.stats()
      assert(s.calls == 24 and s.bytes == 96 and s.gpu > 0)
      print "good"]])
  end)
  it("of a training step leave gradients in their own arrays, and steps are replayed", function()
    local text = [[
      local nn, optim = flame.nn, flame.optim
      local net = distributed.data_parallel(nn.Sequential { nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 3) },
        { bucket = 100, ordered = ORDERED })
      local opt, x = optim.AdamW(net:parameters(), { lr = 0.01 }), flame.randn(4, 5)
      for _ = 1, 8 do
        opt:zero_grad()
        local loss = (net(x) ^ 2):mean()
        loss:backward()
        optim.clip_grad_norm(net:parameters(), 1.0)
        opt:step()
        loss:item()
      end
      assert(flame.stats().replays >= 3, flame.stats().replays)
      print(distributed.stats().calls)]]
    for _, n in ipairs { 2, 4 } do                         -- a comparison, 4 parameters, 8 steps
      all_print(n, "37\n", (text:gsub("ORDERED", n > 2 and "true" or "false")))
    end
  end)
  it("of gradients that are cast from a half type send that, between two GPUs or in order", function()
    local text = [[
      local net = distributed.data_parallel(flame.nn.Linear(5, 7), { OPTIONS })
      flame.eval()                                         -- parameters of rank 1
      local before = distributed.stats().bytes
      flame.autocast("bf16", function() return net(flame.randn(4, 5)):sum() end):backward()
      flame.eval()
      print(distributed.stats().bytes - before, net.weight.grad.dtype)]]
    local function sends(n, options, bytes)
      all_print(n, bytes .. "\tf32\n", (text:gsub("OPTIONS", options)))
    end
    sends(2, "", 2 * 42)
    sends(2, "half = false", 4 * 42)
    sends(4, "", 4 * 42)                                   -- NCCL sums f32 in its order
    sends(4, "ordered = true", 2 * 42)
  end)
  it("wait for attention that comes soon, unless their results are needed before", function()
    local out = run(1, [[
      local function gradients(early)
        local x = flame.ones(2, 4, 16, 8, { requires_grad = true })
        local w = flame.ones(8, 8, { requires_grad = true })
        local u, total = flame.ones(8, 8), flame.zeros(1)
        flame.eval()
        local function attend(q)
          return flame.scaled_dot_product_attention(q, q, q, { is_causal = true })
        end
        attend(x):matmul(u):sin():matmul(w):sin():sum():backward()
        local g = distributed.all_reduce(w.grad)
        if early then total:add_(distributed.all_reduce(g):sum()) end
        flame.debug(1)
        flame.eval()
        flame.debug(0)
        io.stderr:write("\nplan end")
      end
      gradients(false)
      gradients(true)]])
    local order = {}
    for plan in out[1]:gmatch("plan: (.-)\nplan end") do
      local names = {}
      for what in plan:gmatch("step %d+: (%l+ ?%l*_?%l*)") do names[#names + 1] = what end
      order[#order + 1] = table.concat(names, ", ", 6)
    end
    local forward = "matmul f, matmul f, map kept, "
    assert.same({ forward .. "matmul f, call collective, call attention_back, map kept",
      forward .. "call collective, matmul f, call collective, call attention_back, row kept, "
        .. "map kept, map kept" }, order)
  end)
  it("of many gradients begin when each is made, however many there are", function()
    local out = run(1, [[
      local x, w, b, s = flame.ones(16, 8), {}, {}, {}
      for k = 1, 6 do
        w[k] = flame.ones(8, 8):requires_grad_()
        b[k], s[k] = flame.ones(8):requires_grad_(), flame.ones(8):requires_grad_()
      end
      flame.eval()
      for k = 1, 6 do x = ((x:matmul(w[k]) + b[k]) * s[k]):sin() end
      x:sum():backward()
      for k = 6, 1, -1 do
        for _, p in ipairs { s[k], b[k], w[k] } do distributed.all_reduce(p.grad) end
      end
      flame.debug(1)
      flame.eval()]])
    local behind, all = 0, 0                               -- the last product; of all
    for what in out[1]:gmatch("step %d+: (%l+ ?%l*)") do
      all = all + (what == "call collective" and 1 or 0)
      behind = what:find("^matmul") and 0 or behind + (what == "call collective" and 1 or 0)
    end
    assert.equal(18, all)
    assert.is_true(behind <= 5, out[1])                    -- of the layers done last
  end)
  it("hold up what reads them, bucket by bucket, and what reads the last comes last", function()
    local sum <const> = "distributed.all_reduce(norms[1] + norms[2] + norms[3] + norms[4])"
    for _, total in ipairs { "", sum } do
      local out = run(1, [[
      local w = {}
      for k = 1, 4 do w[k] = flame.ones(8 * k):requires_grad_() end
      flame.eval()
      local total = 0
      for k = 1, 4 do total = total + (w[k] * flame.randn(8 * k)):sum() end
      total:backward()
      -- collectives of a bucket join the next one
      local function send(k, joins)
        local g = w[k].grad:detach()
        w[k].grad = flame.internal.call("collective", "all_reduce", { g },
          { 1, 0, 0, 1, 1, joins, 0, 0, 1, 8 * k }, g.shape, g.dtype)
      end
      send(1, 1)
      send(2, 0)
      send(3, 0)
      send(4, 0)
      local norms = {}
      for k, f in ipairs { "sin", "exp", "abs", "neg" } do             -- four kernels
        norms[k] = w[5 - k].grad[f](w[5 - k].grad):sum()
      end
      flame.debug(1)
      ]] .. total .. " flame.eval()")
      local steps, waits, at, last = {}, {}, nil, 0
      for line in out[1]:gmatch("[^\n]+") do
        at = line:match("^waits for step (%d+)$") or at
        local what = line:match("^step %d+: (.*)$")
        if what then
          steps[#steps + 1], waits[#waits + 1], at = what, tonumber(at or 0), nil
          if what:find "^row" then last = #steps end
        end
      end
      local first = last - 4                                          -- the collective before them
      assert.equal("call collective, row kept() reduced(16), row kept() reduced(8), "
        .. "row kept() reduced(24), row kept() reduced(32)", table.concat(steps, ", ", first, last))
      assert.same({ first - 2, 0, first - 1, first }, { table.unpack(waits, first + 1, last) })
      assert.equal(total ~= "", table.concat(steps, ", ", last + 1):find "call collective" ~= nil)
    end
  end)
  it("end with a rank that dies, hangs or fails in the library, and name it", function()
    local text = [[

      local x = flame.tensor { 1.0, 2.0 }
      print(distributed.all_reduce(x):cpu()[2]:item())
      local ok, why = pcall(function() return distributed.all_reduce(x):cpu() end)
      print(ok, why)
      print(pcall(function() return distributed.all_reduce(x):cpu() end))]]
    local out = run(2, text, "FAKE_NCCL=1:dies:2")
    says(out[1], "train.lua:5: all_reduce: the connection to rank 2 has ended")
    says(out[1], "the group has ended: the connection to rank 2 has ended")
    out = run(2, text, "FAKE_NCCL=1:hangs:2", 2)
    says(out[1] .. out[2], "waited 2 s for the other ranks' GPUs: the time limit of init")
    says(out[1], "train.lua:5: all_reduce: ")
    says(out[2], "train.lua:5: all_reduce: ")
    out = run(2, text, "FAKE_NCCL=1:fails:2")
    says(out[2], "NCCL: ncclGroupEnd said 'unhandled cuda error': made to fail")
    says(out[1], "rank 2 gave up: NCCL: ncclGroupEnd said")
  end)
  it("raise where a write is evaluated that they end, and the write is not made", function()
    local out = run(2, [[

      local w, x = flame.tensor { 1.0, 2.0 }, flame.tensor { 1.0, 2.0 }
      print(distributed.all_reduce(x):cpu()[2]:item())
      w:copy_(distributed.all_reduce(x))
      print(pcall(flame.eval, w))
      print(w:cpu()[2]:item())]], "FAKE_NCCL=1:dies:2")
    says(out[1], "false\ttrain.lua:5: all_reduce: the connection to rank 2 has ended")
    says(out[1], "\n2.0\n")
  end)
  it("disagree with those of CPU arrays", function()
    local out = run(2, [[

      print(pcall(function()
        return distributed.all_reduce(flame.tensor({ 1.0 }, { device = r == 1 and "cpu" or nil })):cpu()
      end))]])
    says(out[1], "rank 1 calls all_reduce (sum) of f32 (1) at train.lua:4, "
      .. "rank 2 all_reduce (sum) of f32 (1) on a GPU at train.lua:4")
  end)
  it("go over the host where a rank has no NCCL or no GPU to itself, which is said once", function()
    local text = [[
      for _ = 1, 3 do
        assert(distributed.all_reduce(flame.tensor { 1.0 * r }):cpu():item() == 3)
      end]]
    local out = run(2, text, "FLAME_NCCL=off")
    assert.equal("flame: arrays of GPUs go over the host: rank 1: FLAME_NCCL is off\n", out[1])
    assert.equal("", out[2])
    out = run(2, text, "FLAME_NCCL=libnowhere.so")
    says(out[1], "rank 1: libnowhere.so not found (install NCCL (package libnccl2); several GPUs "
      .. "alone need it)")
    out = run(2, text, "FAKE_NCCL_VERSION=$((22809 + 100 * RANK))")
    says(out[1], "arrays of GPUs go over the host: rank 1 has NCCL 2.28.9 and rank 2 NCCL 2.29.9")
    assert.equal(0, out.status)
    out = run(2, 'flame.default_device "cuda"\n' .. text)
    says(out[1], "arrays of GPUs go over the host: ranks 1 and 2 have the same GPU")
    assert.equal(0, out.status)
  end)
  it("come after products that take the way that rank 1 has chosen", function()
    local out = run(2, [[
      local x = flame.zeros(1720, 1720)
      local function way_of(y) return y:cpu()[1][1]:item() end
      print(way_of(x:matmul(x)))
      if r == 2 then print(way_of(flame.zeros(1800, 1720):matmul(x))) end   -- rank 1 waits by then
      print(distributed.all_reduce(flame.tensor { 1.0 }):cpu():item())]],
      [[FLAME_TUNE=1 FAKE_CUDA="devices=4 ways=4 fast=$((2 - RANK))"]])
    assert.same({ "2.0\n2.0\n", "2.0\n0.0\n2.0\n" }, { out[1], out[2] })
  end)
  it("of one rank need no NCCL", function()
    all_print(1, "3.0\n", "print(distributed.all_reduce(flame.tensor { 3.0 }):cpu():item())",
      "FLAME_NCCL=off")
  end)
end)
