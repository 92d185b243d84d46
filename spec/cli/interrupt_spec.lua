-- Ctrl-C: a child interpreter at its prompt gets SIGINT in the middle of long work. It must be back
-- at the prompt soon, with its variables and tensors unchanged.
local flame = require "flame"

local sanitized = os.getenv("FLAME_SANITIZE") ~= nil
local LIMIT = sanitized and 20 or 1           -- seconds; 0.2 would do on an idle machine

local program = dofile("spec/support/interpreter.lua")
local helper = require("spec.support.helper")

local function seconds()
  local f <close> = assert(io.open("/proc/uptime"))
  return f:read("n")
end

local function there(path)
  local file = io.open(path)
  if file then file:close() end
  return file ~= nil
end

local function all_of(path)
  local file <close> = assert(io.open(path))
  return file:read("a")
end

-- Polls every 'pause' seconds until question(…) is true; false after 'limit' seconds.
local function wait(limit, pause, question, ...)
  local till = seconds() + limit
  repeat
    if question(...) then return true end
    os.execute("sleep " .. pause)
  until seconds() > till
  return false
end

-- Starts an interpreter at its prompt, in the background, with these lines as its input. exec keeps
-- the process id that the shell has written to base.pid.
local function start(base, lines, environment)
  local f <close> = assert(io.open(base, "w"))
  f:write(table.concat(lines, "\n"), "\n")
  f:flush()
  os.execute(("sh -c 'echo $$ >%s.pid; exec env %s %s -i <%s >%s.out 2>&1' &"):format(base,
    environment or "",
    program, base, base))
end

-- Runs the lines 'before', 'long' and 'after' in a child at its prompt. The child makes a file when
-- 'long' starts, is then interrupted, and makes another file when the prompt takes the next line.
-- Returns its output and the seconds between interrupt and second file.
local function session(before, long, after, environment)
  local base = os.tmpname()
  local started, back, out = base .. ".started", base .. ".back", base .. ".out"
  start(base, {
    ("function touch(f) io.open(f, 'w'):close() end started, back = %q, %q"):format(started, back),
    before,
    ("touch(started) " .. long),
    "touch(back)",
    after,
    "print('the end')",
  }, environment)
  local began = wait(60, 0.01, there, started)
  os.execute("sleep 0.3")                     -- until the long line does its work
  local at = seconds()
  os.execute(("kill -INT $(cat %s.pid)"):format(base))
  local returned = wait(60, 0.01, there, back)
  local took = seconds() - at
  os.execute("sleep 0.1")
  wait(sanitized and 60 or 6, 0.02,
    function() return all_of(out):find("the end", 1, true) end)
  os.execute(("kill -9 $(cat %s.pid) 2>/dev/null"):format(base))
  local text = all_of(out)
  for _, suffix in ipairs({ "", ".started", ".back", ".out", ".pid" }) do
    os.remove(base .. suffix)
  end
  assert(began, "the child did not start: " .. text)
  assert(returned, "the child did not come back: " .. text)
  return text, took
end

describe("Ctrl-C", function()
  local took = {}
  local function comes_back(name, before, long, after, expected, environment)
    it("comes back to the prompt from " .. name, function()
      local text, t
      for _ = 1, 3 do                          -- the machine may be busy just then
        text, t = session(before, long, after, environment)
        if t < LIMIT then break end
      end
      took[#took + 1] = ("%s %.2f s"):format(name, t)
      assert.truthy(text:find("interrupted!", 1, true), text)
      assert.truthy(text:find(expected, 1, true), text)
      assert.truthy(text:find("the end", 1, true), text)
      assert(t < LIMIT, ("it took %.2f s"):format(t))
    end)
  end
  teardown(function()
    if os.getenv("FLAME_INTERRUPT_TIMES") then print(table.concat(took, ", ")) end
  end)

  -- before the interrupt, 'keep' starts the device and compiles what is needed, since neither can
  -- be interrupted
  local keep = "x = flame.arange(5.0) * 2 y = 7 x:sum():item()"
  local look = "print('kept ' .. x:sum():item() .. ' ' .. y)"
  -- TSan delays signals to the next call of the C library, and this loop makes none
  if os.getenv("FLAME_SANITIZE") ~= "thread" then
    comes_back("a tight Lua loop", keep, "while true do end", look, "kept 30.0 7")
  end
  if os.getenv("FLAME_SANITIZE") ~= "thread" then
    comes_back("a loop in a coroutine of before",
      keep .. " co = coroutine.create(function() while true do end end)",
      "print(coroutine.resume(co))", look .. " print(coroutine.status(co))", "kept 30.0 7\ndead")
    comes_back("a loop in a coroutine in another", keep,
      "coroutine.wrap(function() coroutine.wrap(function() while true do end end)() end)()", look,
      "kept 30.0 7")
    comes_back("a loop that resumes one",
      keep .. " co = coroutine.wrap(function() while true do coroutine.yield() end end)",
      "while true do co() end", look, "kept 30.0 7")
    comes_back("a coroutine that is closed", keep,
      "co = coroutine.create(function() local x <close> = setmetatable({}, {__close = function() while true do end end})"
      .. " coroutine.yield() end) coroutine.resume(co) print(coroutine.close(co))", look,
      "kept 30.0 7")
  end
  comes_back("recorded ops in a coroutine", keep,
    "coroutine.wrap(function() local z = x while true do z = z * 0.999 + 0.001 end end)()",
    look, "kept 30.0 7")
  comes_back("evaluations in a coroutine", keep,
    "coroutine.wrap(function() while true do (x * 3):sum():item() end end)()",
    look, "kept 30.0 7")
  comes_back("a loop of recorded ops", keep, "z = x while true do z = z * 0.999 + 0.001 end", look,
    "kept 30.0 7")
  comes_back("a rehearsal", keep .. " opt = flame.optim.SGD({x}, {lr = 1})",
    "flame.warmup(function() while true do x:mul_(2) x.grad = x:clone() opt:step() end end)",
    "print(opt.steps, x.grad) flame.warmup(function() x:add_(1) end) " .. look,
    "0\tnil\nkept 30.0 7")
  comes_back("a loop of evaluations", keep, "while true do (x * 3):sum():item() end", look,
    "kept 30.0 7")
  comes_back("a long product of matrices", keep .. " a = flame.rand(6000, 6000)",
    "while true do a:matmul(a):sum():item() end",
    look .. " print('a ' .. tostring(a:max():item() < 1))", "kept 30.0 7\na true")
  comes_back("a long product by our own kernel", keep .. " a = flame.rand(3000, 3000)",
    "while true do a:matmul(a):sum():item() end", look, "kept 30.0 7", "FLAME_BLAS=off")
  comes_back("a product written into a tensor",
    keep .. " a = flame.rand(4000, 4000) b = flame.full({4000, 4000}, 5) flame.eval(a, b)",
    "while true do b:copy_(a:matmul(a)) b:sum():item() b:fill_(5) flame.eval(b) end", look,
    "kept 30.0 7")
  comes_back("long elementwise work", keep .. " a = flame.rand(30000000)"
    .. " function work() (a:exp():sin():tanh():lgamma() + a):sum():item() end work()",
    "while true do work() end", look, "kept 30.0 7")
  comes_back("a long reduction", keep .. " a = flame.rand(20000000)",
    "while true do a:exp():cumsum(1):sum():item() end", look, "kept 30.0 7")
  comes_back("a sort", keep .. " a = flame.rand(3000000, {device = 'cpu'})",
    "while true do a:sort():sum():item() end", look, "kept 30.0 7")
  -- NVRTC sometimes installs a signal handler, which would end the process (base/signals.h)
  local text = "source = '__global__ void k(const float *x, float *y, int n) "
    .. "{ if (threadIdx.x < n) y[threadIdx.x] = x[threadIdx.x] * %d; }'"
  comes_back("compiling kernels", keep .. " i = 0 " .. text,
    "while true do i = i + 1 flame.kernel { source = source:format(i) }:report() end", look,
    "kept 30.0 7")
  comes_back("training", keep .. " local nn, optim = require 'flame.nn', require 'flame.optim' net = nn.Linear(200, 200)"
    .. " opt = optim.AdamW(net:parameters(), {lr = 1e-3}) inp = flame.rand(500, 200)",
    "while true do opt:zero_grad() net(inp):square():mean():backward() opt:step() end",
    look .. " opt:zero_grad() net(inp):square():mean():backward() opt:step() print(net.weight:isnan():any():item())",
    "kept 30.0 7\nfalse")
  -- single calls that take several seconds each
  local words = keep .. " words = ('some words and \u{4F60}\u{597D} '):rep(4000000)"
    .. " t = flame.tokenizers.train_bpe({words:sub(1, 23)}, 270)"
  comes_back("a long text for a tokenizer", words, "t:encode(words)",
    look .. " print(t:decode(t:encode('some words')))", "kept 30.0 7\nsome words")
  comes_back("a long word for a tokenizer", keep .. " word = ('ab'):rep(500000)"
    .. [=[ t = flame.tokenizers.from_string('{"model":{"type":"Unigram","unk_id":0,"vocab":[]=]
    .. [=[["u",0],["a",-1],["b",-1],["' .. ("ab"):rep(999) .. '",-9]]}}')]=], "t:encode(word)",
    look .. " print(table.concat(t:encode('ab', {list = true}), ' '))", "kept 30.0 7\n1 2")
  comes_back("the training of a tokenizer", keep .. " letters = {}"
    .. " for i = 1, 1000000 do letters[i] = string.char(math.random(97, 122)) end"
    .. " letters = table.concat(letters)", "flame.tokenizers.train_bpe({letters}, 60000)",
    look .. " print(flame.tokenizers.train_bpe({'a a'}, 256))",
    "kept 30.0 7\nTokenizer(BPE, 256 tokens)")
end)

describe("a second Ctrl-C", function()
  -- LAPACK does not poll, so the first signal has no effect yet; the second ends the program
  local long = "x = flame.randn(3000, 3000) flame.eval(x) print('go') io.stdout:flush() flame.eval((x:svd()))"
  it("ends a script in a long call of a library", function()
    if os.getenv("FLAME_SANITIZE") == "thread" then
      pending "TSan delivers a signal at the next call of the C library, and LAPACK makes none"
      return
    end
    local base = os.tmpname()
    local f <close> = assert(io.open(base, "w"))
    f:write("flame = require 'flame' " .. long)
    f:flush()
    os.execute(("sh -c 'echo $$ >%s.pid; exec %s %s' >%s.out 2>&1 &"):format(base,
      program, base, base))
    assert(wait(60, 0.02, function()
      return there(base .. ".out") and all_of(base .. ".out"):find("go", 1, true)
    end))
    os.execute(
      ("sleep 0.3; kill -INT $(cat %s.pid); sleep 0.2; kill -INT $(cat %s.pid)"):format(base, base))
    assert.is_true(wait(10, 0.02, function()
      return not os.execute(("kill -0 $(cat %s.pid) 2>/dev/null"):format(base))
    end))
    for _, suffix in ipairs({ "", ".pid", ".out" }) do os.remove(base .. suffix) end
  end)
end)

describe("an interrupt", function()
  it("during a write leaves the old or the new value, never a part", function()
    -- the interrupt is requested before the evaluation, which then fails or is completed: the
    -- tensor has all of its old values or all of its new ones
    local x = flame.ones(100000)
    flame.eval(x)
    flame.internal.interrupt()
    pcall(function() flame.eval(x:mul_(3)) end)
    local first, last = x:min():item(), x:max():item()
    assert.equal(first, last)
    assert.is_true(first == 1 or first == 3)
    x:fill_(4)
    assert.equal(4, x:max():item())
  end)
  it("ends the planning of many nodes, and leaves them as they were", function()
    local x, rows = flame.ones(3), {}
    flame.eval(x)
    local budget = flame.internal.budget(100000)
    for i = 1, 600 do rows[i] = x * i end
    flame.internal.budget(budget)
    local plans = flame.stats().plans
    flame.internal.interrupt()
    assert.matches("interrupted!$", helper.message(flame.eval))
    assert.equal(plans, flame.stats().plans)
    for i = 1, 600, 7 do assert.equal(3 * i, rows[i]:sum():item()) end
  end)
  it("loses nothing: what was recorded is computed when it is read", function()
    local x = flame.ones(10)
    flame.eval(x)
    local y, w = x * 2, flame.rand(3)
    local total = y:sum()
    flame.internal.interrupt()
    assert.matches("interrupted!$", helper.message(total.item, total))
    assert.equal(20, total:item())
    assert.equal(2, y:max():item())
    assert.is_true(w:max():item() < 1)
    assert.equal(10, x:sum():item())
    assert.equal(20, (x * 2):sum():item())
  end)
end)

describe("an interrupt between two lines of the library", function()
  local optim = require "flame.optim"

  local function modes()
    local _, e = pcall(flame.zeros, -1)
    return ("%s %s %s"):format(flame.is_grad_enabled(), tostring(flame.autocast()), e)
  end

  local function stopped_everywhere(f)
    local before = modes()
    assert.is_true(helper.stopped_everywhere(f, function() assert.equal(before, modes()) end) > 3)
  end

  local x = flame.tensor({ 1, 2 }, { requires_grad = true })
  it("leaves no autocast on, nor off inside", function()
    local a = flame.ones(2, 2)
    local matmul = flame.matmul
    local function work() return flame.matmul(a, a) end
    stopped_everywhere(function() flame.autocast("bf16", work) end)
    assert.equal("bf16", flame.autocast("bf16", work).dtype)
    assert.equal(matmul, flame.matmul)
  end)
  it("leaves no function of functions half done", function()
    local function f(v) return (v * v):sum() end
    stopped_everywhere(function() flame.hessian(f, x) end)
    stopped_everywhere(function() flame.jvp(f, x, x:detach()) end)
    stopped_everywhere(function() flame.value_and_grad(f)(x) end)
    assert.same({ { 2, 0 }, { 0, 2 } }, flame.hessian(f, x):totable())
  end)
  it("leaves no line of a step behind", function()
    local w = flame.ones(2):requires_grad_(true)
    local opt = optim.SGD({ w }, { lr = 0.1, momentum = 0.9 })
    stopped_everywhere(function()
      (w * w):sum():backward()
      opt:step()
      opt:zero_grad()
    end)
    stopped_everywhere(function()
      flame.checkpoint(function(v) return v:exp() end, w):sum():backward()
    end)
  end)
end)
