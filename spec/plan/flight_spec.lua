-- Runs on a GPU whose index checks are read later (src/engine/flight.h): random training loops
-- (spec/support/late.lua) and scripts (late_scripts.lua), on a GPU that computes on the CPU
-- (spec/support/machine.lua) or on the real one, have the values and writes of the CPU. Both record
-- each first run (FLAME_REPLAY=2): by default so short programs have hardly a run in flight. A
-- failure prints its seed and program. FLAME_FUZZ=n: n / 20 loops (25) and n / 50 scripts (10);
-- FLAME_FUZZ_SEED=s: from seed s.
local flame = require "flame"
local machine = dofile("spec/support/machine.lua")
local FUZZ = tonumber(os.getenv "FLAME_FUZZ") or 500
local COUNT, SCRIPTS = FUZZ // 20, FUZZ // 50
local FIRST = tonumber(os.getenv "FLAME_FUZZ_SEED") or 1
local has_gxx = os.execute("g++ --version >/dev/null 2>&1")
local fake = flame.default_device() == "cpu" and { machine.new() }
local environment = fake and
  ("FAKE_CUDA=\"computes=1 devices=2\" FLAME_REPLAY=2 FLAME_CACHE_DIR=%s/cache "
    .. "TMPDIR=%s"):format(fake[1], fake[1])

--- What a script prints, on the fake GPU or on the real one.
local function run(script)
  if fake then return machine.run(fake[1], script, environment) end
  local pipe = assert(io.popen(("FLAME_DEVICE=cuda FLAME_REPLAY=2 '%s' -e '%s' 2>&1"):format(
    dofile("spec/support/interpreter.lua"), script)))
  local text = pipe:read "a"
  assert(pipe:close(), text)
  return text
end

--- Compares programs %d to %d with the CPU, with a planted bug (%d); with %d > 0 until one differs.
--- Prints the first that differs; then how many do, whether more than 2 runs in flight (whose
--- checks are read later) had a bad index, and whether more than 20 runs were in flight at all.
local loops <const> = [[
local flame = require "flame"
local M = dofile("spec/support/late.lua")
local wrong, first, flights = 0, flame.internal.checked()
for seed = %d, %d do
  local program = M.make(seed)
  flame.default_device "cpu"
  local expected = M.run(program)
  flame.default_device "cuda"
  flame.internal.plant(%d)
  local ok, got = pcall(M.run, program)
  flame.internal.plant(0)
  local d = ok and M.difference(expected, got) or not ok and got
  if d then
    wrong = wrong + 1
    if wrong == 1 then print(seed, d, M.show(program)) end
    if %d > 0 then break end
  end
end
local faults, all = flame.internal.checked()
print(wrong, faults - first > 2, all - flights > 20)]]

--- The same for scripts %d to %d with bug %d.
local scripts <const> = [[
local flame = require "flame"
local M = dofile("spec/support/late_scripts.lua")
local second = flame.cuda.device_count() > 1 and "cuda:1" or "cuda:0"
for seed = %d, %d do
  local program = M.make(seed)
  flame.default_device "cpu"
  local expected = M.run(program, { "cpu", "cpu" })
  flame.internal.plant(%d)
  local ok, got = pcall(M.run, program, { "cuda:0", second })
  flame.internal.plant(0)
  local d = ok and M.difference(program, expected, got) or not ok and got
  if d then print("wrong", seed, d, M.show(program)) end
end
print(select(2, flame.internal.checked()) > 0)]]

local start <const> = [[
local flame = require "flame"
local nn, optim = flame.nn, flame.optim
flame.default_device "cuda"
flame.seed(3)
local x = flame.randn(6, 4)
local good = flame.tensor({ 1, 2, 3, 1, 2, 3 }, { dtype = "i64" })
local bad = flame.tensor({ 1, 2, 3, 1, 9, 3 }, { dtype = "i64" })
local function net_of(...)
  local net = nn.Sequential(...)
  local opt, last = optim.Adam(net:parameters(), { lr = 0.01 }), nil
  return net, opt, function(t)
    local loss = flame.cross_entropy(net(x), t)
    opt:zero_grad()
    loss:backward()
    opt:step()
    last = loss
    return loss
  end
end
local net, opt, step = net_of(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
]]

local case = (not fake or has_gxx) and it or function(name) pending(name .. ": no g++") end

describe("#cuda a repeated run", function()
  teardown(function() if fake then machine.remove(fake[1]) end end)

  case("agrees with the CPU in random training loops", function()
    local text = run(loops:format(FIRST, FIRST + COUNT - 1, 0, 0))
    assert.truthy(text:find(COUNT >= 25 and "^0\ttrue\ttrue\n$" or "^0\t"), text)
  end)

  case("agrees with the CPU in random scripts", function()
    local text = run(scripts:format(FIRST, FIRST + SCRIPTS - 1, 0))
    assert.truthy(text:find(SCRIPTS >= 10 and "true\n$" or "\n$") and not text:find "wrong", text)
  end)

  case("shows a planted bug: writes of what may still fail are not guarded", function()
    assert.truthy(run(scripts:format(57, 57, 12)):find "wrong\t57")
  end)

  -- A step that does not wait makes a race: the step that updates a weight follows the one that
  -- makes the weight's gradient, beside which another reads the weight, and a real GPU is done with
  -- that in time. The fake GPU runs every second graph in the worst order that it allows.
  for bug, what in pairs {
    [10] = fake and "a step that does not wait for those that read what it writes" or nil,
    [11] = "a bad index that fails what does not depend on it" } do
    case("shows a planted bug: " .. what, function()
      local text = run(loops:format(1, 120, bug, 1))
      assert.truthy(text:find("\n1\t%a+\t%a+\n$"), text)
    end)
  end

  case("tells a bad label at the next step, which is not made", function()
    local text = run(start .. [[
for i = 1, 6 do step(good) end
local ok = pcall(step, bad)
local steps = opt.steps
local later, why = pcall(step, good)
print(ok, steps, later, tostring(why):match "class 9 at position 5", opt.steps)
local again = pcall(step, good)
print(again, opt.steps)]])
    assert.equal("true\t6\tfalse\tclass 9 at position 5\t6\ntrue\t7\n", text)
  end)

  case("does not lose what a value in flight is written to", function()
    local text = run(start .. [[
local function by_hand(t)
  net:zero_grad()
  flame.cross_entropy(net(x), t):backward()
  local ok = pcall(flame.eval)
  for _, p in ipairs(net:parameters()) do
    flame.no_grad(function() p:sub_(p.grad * 0.1) end)
  end
  return ok
end
for i = 1, 6 do by_hand(good) flame.eval() end
local before = net[1].weight:clone()
flame.eval(before)
print(by_hand(bad), select(2, pcall(flame.eval)):match "class 9 at position 5")
print((net[1].weight - before):abs():max():item(), pcall(by_hand, good))]])
    assert.equal("true\tclass 9 at position 5\n0.0\ttrue\ttrue\n", text)
  end)

  case("does not count a step whose parameters were written again before it was told", function()
    local text = run(start .. [[
local opt = optim.SGD(net:parameters(), { lr = 0.1 })
local function step(t)
  opt:zero_grad()
  flame.cross_entropy(net(x), t):backward()
  opt:step()
end
for i = 1, 6 do step(good) end
step(bad)
flame.no_grad(function() for _, p in ipairs(net:parameters()) do p:clamp_(-0.3, 0.3) end end)
print(pcall(function() return net[1].weight:totable() end))
step(good)
print(opt.steps)]])
    assert.truthy(text:find "^false.*class 9.*\n7\n$", text)
  end)

  case("is not counted, however many others fail before its optimiser is asked", function()
    local text = run(start .. [[
local other, opt2, step2 = net_of(nn.Linear(4, 7), nn.ReLU(), nn.Linear(7, 3))
for i = 1, 6 do step(good) step2(good) end
step(bad)
local faults = 0
for i = 1, 80 do if not pcall(step2, bad) then faults = faults + 1 end end
print(faults > 30, opt.steps, opt.state[net[1].weight].step, opt2.steps)
print(pcall(flame.synchronize))]])
    assert.truthy(text:find "^true\t6\t6\t6\nfalse\t.*class 9", text)
  end)

  case("is waited for by what reads the state of a parameter", function()
    local text = run(start .. [[
local p = net[3].bias
for i = 1, 6 do step(good) end
step(bad)
print(opt.state[p].step, opt:state_of(p).step)
print(pcall(step, good), opt.state[p].step)
step(good)
local loss = step(bad)
print(pcall(loss.item, loss))
print(opt.state[p].step, opt.steps)]])
    assert.truthy(text:find "^6\t6\nfalse\t6\nfalse\t.*class 9.*\n7\t7\n$", text)
  end)

  case("tells it before a closure is called", function()
    local text = run(start .. [[
local calls, labels = 0, good
local function closure()
  calls = calls + 1
  opt:zero_grad()
  local loss = flame.cross_entropy(net(x), labels)
  loss:backward()
  return loss
end
for i = 1, 6 do opt:step(closure) end
labels = bad
opt:step(closure)
print(calls, select(2, pcall(opt.step, opt, closure)):match "class 9 at position 5")
print(calls, opt.steps)]])
    assert.equal("7\tclass 9 at position 5\n7\t6\n", text)
  end)

  if fake then
    case("leaves the step of parameters on another GPU counted", function()
      local text = run(start .. [[
local function net_on(device)
  return nn.Linear(4, 3):to(device), x:to(device), good:to(device), bad:to(device)
end
local a, xa, good_a, bad_a = net_on "cuda:0"
local b, xb, good_b, bad_b = net_on "cuda:1"
local opt = optim.Adam({ a.weight, b.weight }, { lr = 0.1 })
local function step(for_a, for_b)
  opt:zero_grad()
  flame.cross_entropy(a(xa), for_a):backward()
  flame.cross_entropy(b(xb), for_b):backward()
  return pcall(opt.step, opt)
end
for i = 1, 4 do step(good_a, good_b) end
step(good_a, bad_b)
print(opt.steps, opt.state[a.weight].step, opt.state[b.weight].step)
print(pcall(function() return a.weight:totable() end))
opt:zero_grad()                                            -- another plan, which is waited for
flame.cross_entropy(a(xa) * 2, bad_a):backward()
flame.cross_entropy(b(xb), good_b):backward()
print(pcall(opt.step, opt) == false, opt.steps, opt.state[a.weight].step, opt.state[b.weight].step)]])
      assert.truthy(text:find "^5\t5\t4\nfalse\t.*class 9.*\ntrue\t6\t5\t5\n$", text)
    end)
  end

  case("tells it when a value is read, asked for or waited for", function()
    local text = run(start .. [[
for _, ask in ipairs { function(l) return l:item() end, flame.eval,
  function() flame.synchronize() end,  function() return net[1].weight:totable() end, function() return opt:state_dict() end } do
  for i = 1, 6 do step(good) end
  local loss = step(bad)
  local ok, why = pcall(ask, loss)
  print(ok, why and tostring(why):match "class 9", pcall(step, good) and opt.steps)
end]])
    assert.equal(table.concat({ "false\tclass 9\t7", "false\tclass 9\t14", "false\tclass 9\t21",
      "false\tclass 9\t28", "false\tclass 9\t35" }, "\n") .. "\n", text)
  end)

  case("is waited for if it writes what depends on no check", function()
    local text = run(start .. [[
local net, opt, step = net_of(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 3))
for i = 1, 6 do step(good) end
print(pcall(step, bad) == false, opt.steps)]])
    assert.equal("true\t6\n", text)
  end)

  if fake then
    for last, status in pairs { ["step(bad)"] = 1, ["step(bad) require = nil"] = 1,
      ["step(bad) os.exit()"] = 1, ["step(bad) os.exit(true, true)"] = 1,
      ["step(bad) os.exit(3)"] = 3, ["step(bad) print(opt.steps)"] = 1 } do
      case("is told at the end of a script that ends with " .. last, function()
        local script = start .. "for i = 1, 6 do step(good) end " .. last
        local pipe <close> = assert(io.popen(("FLAME_DEVICE=cuda %s FLAME_TEST_MACHINE=%s %s "
          .. "-e '%s' 2>&1; echo status $?"):format(environment, fake[1],
          dofile("spec/support/interpreter.lua"), script)))
        local text = pipe:read "a"
        assert.truthy(text:find("class 9 at position 5", 1, true), text)
        assert.truthy(text:find(("status %d\n"):format(status), 1, true), text)
      end)
    end
    local stock = has_gxx and not os.getenv "FLAME_SANITIZE"
      and os.execute "command -v lua5.4 >/dev/null" and it or pending
    for last, told in pairs { ["step(bad)"] = 1, ["step(bad) os.exit(0, true)"] = 1,
      ["step(bad) net, opt, step = nil"] = 1, ["step(bad) pcall(step, good)"] = 0,
      ["step(bad) pcall(flame.synchronize)"] = 0, ["step(good)"] = 0 } do
      stock("is told " .. told .. " times by the end of a state of Lua's own program: " .. last,
        function()
          local build = dofile("spec/support/interpreter.lua"):match "^(.*)/[^/]*$"
          local pipe <close> = assert(io.popen(("FLAME_DEVICE=cuda %s FLAME_TEST_MACHINE=%s "
            .. "LUA_CPATH='%s/?.so' lua5.4 -e '%s' 2>&1; echo status $?"):format(environment,
            fake[1], build, start .. "for i = 1, 6 do step(good) end " .. last)))
          local text = pipe:read "a"
          local _, count = text:gsub("class 9 at position 5[^\n]*%(at the end of the script%)\n", "")
          assert.equal(told, count, text)
          assert.truthy(text:find "status 0\n$", text)
        end)
    end
    case("whose device is lost leaves values on the CPU", function()
      for call = 6, 8 do                              -- the sixth step is in flight
        local text = machine.run(fake[1], start .. [[
local there = flame.ones(3, { device = "cpu" })
flame.eval(there)
for i = 1, 6 do step(good) end
print(there:sum():item())
print(pcall(function() return (net[1].weight * 2):sum():item() end))
print(pcall(function() return (net[1].weight * 3):sum():item() end))
print((there * 2):sum():item())]], (environment:gsub("computes=1",
          ("computes=1 fail=EventQuery:%d:700"):format(call))))
        assert.truthy(text:find("is lost", 1, true), text)
        assert.truthy(text:find("^3.0\n.*\n6.0\n$"), text)
      end
    end)
    case("that has failed leaves a script that ends well its status", function()
      run(start .. "for i = 1, 6 do step(good) end require = nil os.exit(0)")
    end)
  end
end)
