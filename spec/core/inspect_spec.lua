-- Tools that look at a program: profiles and traces, timers, checks, facts of the machine (--info),
-- the doctor, FLAME_CHECK and FLAME_DEBUG.

local flame = require "flame"

local interpreter = dofile("spec/support/interpreter.lua")
local stopped_everywhere = require("spec.support.helper").stopped_everywhere

local refused = require("spec.support.helper").raises
local on_cpu = flame.default_device() == "cpu"

local function quote(s) return "'" .. s:gsub("'", "'\\''") .. "'" end
local function run(environment, arguments)
  local pipe =
    assert(io.popen(("%s %s %s 2>&1"):format(environment, quote(interpreter), arguments)))
  local text = pipe:read("a")
  local ok, _, status = pipe:close()
  return text, ok and 0 or status
end

local function work()
  local x = flame.ones(32, 16)
  return (x:matmul(x:t()) * 2 + 1):relu():sum():item()
end

describe("a profile", function()
  it("has a row an op with calls, milliseconds, bytes and launches, and f's results", function()
    local p, total = flame.profile(work)
    assert.equal(32 * 32 * 33, total)
    assert.is_true(#p >= 2)
    local launches, ms = 0, 0
    for i, row in ipairs(p) do
      assert.equal("string", type(row.op))
      assert.is_true(row.calls >= 1 and row.launches >= 1 and row.ms >= 0 and row.bytes >= 0)
      assert.is_true(i == 1 or p[i - 1].ms >= row.ms)
      launches, ms = launches + row.launches, ms + row.ms
    end
    assert.equal(p.launches, launches)
    assert.close(p.device_ms, ms, 1e-9)
    assert.is_true(p.ms >= p.device_ms)
    assert.same({ 1, 4 * (2 * 32 * 16 + 32 * 32) }, { p.matmul.calls, p.matmul.bytes })
    assert.truthy(tostring(p):find("matmul", 1, true))
    assert.truthy(p.matmul.site:find("inspect_spec.lua:%d+$"))
  end)

  it("counts what a value moves as bytes_moved does", function()
    local x = flame.ones(1000)
    flame.eval(x)
    local p = flame.profile(function() flame.eval(x * 2 + 1) end)
    assert.same({ 1, 8000, "mul+add" }, { #p, p[1].bytes, p[1].op })
  end)

  it("writes a trace for Chrome's viewer, also as a guard", function()
    local path = os.tmpname()
    do
      local p <close> = flame.profile(path)
      work()
      assert.equal(0, #p)
    end
    local f = assert(io.open(path))
    local text = f:read("a")
    f:close()
    assert.truthy(text:find('^{"displayTimeUnit":"ms","traceEvents":%['))
    assert.truthy(text:find('"ph":"X","pid":1,"tid":1,"name":"matmul","cat":"op","ts":%d+%.%d+,"dur":%d+%.%d+,"args":{"bytes":%d+'))
    assert.truthy(text:find("inspect_spec.lua:", 1, true))
    local q = flame.profile(path, work)
    assert.truthy(q.matmul)
    os.remove(path)
  end)

  it("has the host's time, arithmetic, shapes and lines of a row, and compiling apart", function()
    local w = flame.ones(3, 2, 3, 3)
    local p = flame.profile(function()
      local x = flame.ones(32, 16)
      flame.eval(x:matmul(x:t()), flame.ones(5, 2, 8, 8):conv2d(w))
      flame.eval(flame.ones(32, 8):matmul(flame.ones(8, 4)))
    end)
    assert.equal(2 * 32 * 16 * 32 + 2 * 32 * 8 * 4, p.matmul.flops)
    assert.same({ "32x16 . 16x32 f32", "32x8 . 8x4 f32" }, p.matmul.shapes)
    assert.equal(2, #p.matmul.sites)
    if on_cpu then assert.equal(p.matmul.ms, p.matmul.host_ms) end
    assert.is_true(p.matmul.ms > 0 and p.matmul.host_ms > 0)
    assert.equal(0, p.matmul.replayed)
    local conv
    for _, row in ipairs(p) do if row.op:find("conv") then conv = row end end
    assert.equal(2 * 5 * 3 * 2 * 9 * 36, conv.flops)
    assert.same({ "(5, 3, 6, 6) f32" }, conv.shapes)
    for _, name in ipairs { "plan", "compile", "upload", "download", "wait" } do
      assert.is_true(p[name .. "_ms"] >= 0 and p[name .. "_ms"] <= p.ms)
    end
    assert.is_true(p.plan_ms > 0)
    assert.truthy(tostring(p):find("32x16 . 16x32 f32 and 1 more", 1, true))
  end)

  it("writes tracks of the host, steps and copies, whose events nest", function()
    local path = os.tmpname()
    flame.profile(path, function()
      for _ = 1, 5 do work() end
    end)
    local f = assert(io.open(path))
    local text = f:read("a")
    f:close()
    os.remove(path)
    local names, tracks = {}, {}
    for line in text:gmatch("[^\n]+") do
      local tid, name = line:match('^{"ph":"M","pid":1,"tid":(%d+),"name":"thread_name","args":{"name":"(.-)"}},?$')
      if tid then
        names[tid], tracks[tid] = name, {}
      elseif line:find('^{"ph"') then
        local at, ts, dur = line:match('^{"ph":"X","pid":1,"tid":(%d+),"name":".-","cat":"%l+","ts":([%d.]+),"dur":([%d.]+),"args":{"bytes":%d+,"calls":%d+,"shape":".-","line":".-"}},?$')
        assert.truthy(at, line)
        table.insert(tracks[at], { tonumber(ts), tonumber(ts) + tonumber(dur) })
      end
    end
    local found = {}
    for tid, list in pairs(tracks) do
      found[#found + 1] = names[tid]
      table.sort(list, function(a, b) return a[1] < b[1] or a[1] == b[1] and a[2] > b[2] end)
      local open = {}
      for _, e in ipairs(list) do                      -- 0.001: times are rounded to 0.0001
        while open[1] and open[#open][2] <= e[1] + 0.001 do open[#open] = nil end
        assert.is_true(not open[1] or e[2] <= open[#open][2] + 0.001)
        open[#open + 1] = e
      end
    end
    table.sort(found)
    assert.same(on_cpu and { "cpu", "cpu copies", "host" }
      or { "cuda:0 copies", "cuda:0 stream", "host" }, found)
  end)

  it("is one at a time, ends with an error of f, and says what it can not do", function()
    local p = flame.profile()
    refused("one is on already", flame.profile, work)
    p:close()
    refused("boom", flame.profile, function() error("boom", 0) end)
    local profile = flame.profile
    for _, make in ipairs { function() profile(work) end, function() profile():close() end } do
      local lines = stopped_everywhere(make, function()
        collectgarbage()
        collectgarbage()
      end)
      assert.is_true(lines > 10)
      assert.is_true(#flame.profile(work) > 0)
    end
    refused("No such file", flame.profile, "/nonexistent/trace.json")
    refused("profile: no form takes (number 3); there is profile(f: fn, ...)", flame.profile, 3)
    assert.truthy(flame.profile(work).matmul)
  end)

  it("costs and keeps nothing when it is off", function()
    local before = flame.memory().host
    for _ = 1, 3 do flame.profile(work) end
    collectgarbage()
    collectgarbage()
    assert.is_true(flame.memory().host <= before + 65536)
  end)
end)

describe("small instruments", function()
  it("a timer counts seconds", function()
    local t = flame.timer()
    local first = t()
    assert.is_true(first >= 0 and t() >= first)
  end)

  it("check_finite passes good tensors on and names a bad one", function()
    local a, b = flame.ones(2), flame.zeros(3)
    local c, d = flame.check_finite(a, b)
    assert.truthy(rawequal(a, c) and rawequal(b, d))
    refused("tensor 2 has 1 values that are NaN or Inf", flame.check_finite, a,
      flame.tensor({ 1, 1 / 0 }))
  end)

  it("leakcheck finds what is kept", function()
    assert.is_true(flame.leakcheck(work, 3))
    local kept = {}
    refused("runs left", flame.leakcheck, function() kept[#kept + 1] = flame.ones(10) * 2 end, 3)
  end)

  it("the graph names ops, shapes and lines, as text and as DOT", function()
    local x = flame.ones(2)
    flame.eval(x)
    local text = flame.graph((x * 3):sum())
    assert.truthy(text:find("%%1 = value", 1) and text:find("mul %%1", 1)
      and text:find("inspect_spec.lua:%d+"))
    local dot = flame.graph((x * 3):sum(), { format = "dot" })
    assert.truthy(dot:find("^digraph flame {\n") and dot:find("n1 %-> n2;") and dot:find("}\n$"))
  end)

  it("memory's peak starts again", function()
    do local _ = (flame.ones(100000) * 2):sum():item() end
    collectgarbage()
    flame.memory("reset_peak")
    local m = flame.memory()
    assert.equal(m.allocated, m.allocated_peak)
    assert.equal(m.allocated + m.arena + m.workspace, m.peak)
    for _, key in ipairs { "allocated", "reserved", "peak", "free", "live_tensors", "host", "arena",
        "workspace", "allocated_peak", "reserved_peak" } do
      assert.equal("integer", math.type(m[key]), key)
    end
  end)

  it("stats can be zeroed", function()
    work()
    flame.stats("reset")
    assert.equal(0, flame.stats().recorded)
    refused('stats: what must be "reset", got string \'rest\'', flame.stats, "rest")
  end)
end)

describe("the block of facts", function()
  it("tells versions, devices, memory and a self-test that passed", function()
    local text = flame.info()
    for _, word in ipairs { "flame " .. flame.version, "Lua 5.4", "default device: ", "cuda: ",
        "self-test cpu: passed", "memory cpu: " } do
      assert.truthy(text:find(word, 1, true), word .. " in " .. text)
    end
  end)

  it("the doctor looks at everything and ends with 0 where nothing is wrong", function()
    local text, status = run("", "--doctor")
    for _, word in ipairs { "driver", "nvrtc", "cublaslt", "blas", "cufft", "cusolver", "cudnn",
        "nccl", "cache", "self-test cpu" } do
      assert.truthy(text:find("\n%a+ +" .. word:gsub("%-", "%%-") .. " "), word .. " in " .. text)
    end
    if flame.cuda.available() then return end
    assert.equal(0, status, text)
    assert.truthy(text:find("everything runs on the CPU", 1, true))
    assert.truthy(text:find("Nothing is wrong", 1, true))
  end)

  it("the doctor says when no kernel can be kept", function()
    local text = run("FLAME_CACHE_DIR=/proc/nowhere", "--doctor")
    assert.truthy(text:find("name one with FLAME_CACHE_DIR", 1, true), text)
  end)
end)

describe("FLAME_CHECK", function()
  it("refuses a word that is no check, and says which there are", function()
    for _, list in ipairs { "bound", "nan,bounds race", "grad,,x" } do
      local text, status = run("FLAME_CHECK=" .. quote(list),
        "-e " .. quote("print(flame.version)"))
      assert.equal(1, status)
      assert.truthy(text:find("FLAME_CHECK has the word '", 1, true), text)
      assert.truthy(text:find("it takes nan,sync,bounds,race,uninit,grad", 1, true), text)
    end
    local text = run("FLAME_CHECK=sync,,grad,uninit", "-e " .. quote("print(1)"))
    assert.equal("1\n", (text:gsub("%[CUDA %a+%] [^\n]*\n", "")))     -- sync writes the block
  end)
end)

describe("the debug switch of CUDA", function()
  local show = "-e " .. quote("print(flame.debug(false), flame.debug(true), flame.debug(false))")
  local function blocks(text) return select(2, text:gsub("%[CUDA %a+%] driver: ", "")) end

  it("is one switch in four places, and writes the block when it is set", function()
    for _, way in ipairs { { "DEBUG_CUDA=1", "" }, { "FLAME_CHECK=sync", "" },
        { "", "--debug-cuda " } } do
      local text, status = run(way[1], way[2] .. show)
      assert.equal(0, status, text)
      assert.truthy(text:find("true\tfalse\ttrue\n", 1, true), text)
      assert.equal(2, blocks(text), text)
    end
    local text = run("", show)
    assert.truthy(text:find("false\tfalse\ttrue\n", 1, true), text)
    assert.equal(1, blocks(text), text)
  end)

  it("leaves the ladder of flame.debug(n) alone", function()
    local text = run("", "-e " .. quote("print(flame.debug(2), flame.debug(0), flame.debug())"))
    assert.equal("0\t2\t0\n", text)
  end)
end)

describe("a switch of the environment", function()
  local source <close> = assert(io.open("src/base/env.def"))
  local number = 0
  for name, default, takes in source:read("a"):gmatch('ENV%((%S+),%s*"([^"]*)",%s*"([^"]*)"') do
    number = number + 1
    local low, high = takes:match("^(%d+) to (%d+)$")
    local function tried(value)
      return run(name .. "=" .. quote(value),
        "-e " .. quote("print(require('flame').ones(1):item())"))
    end
    local bad = low and { "many", "-1", tostring(math.tointeger(high) + 1), "1x", "1.5",
      "99999999999999999999" } or
      takes ~= "" and { "many", "avx", "or", "," .. takes } or {}
    for _, value in ipairs(bad) do
      it(("%s refuses '%s'"):format(name, value), function()
        local text, status = tried(value)
        assert.equal(1, status)
        assert.truthy(text:find(name .. " ", 1, true) and text:find(value:match("[^,]+"), 1, true),
          text)
        for word in takes:gsub("^words ", ""):gmatch("[^, ]+") do
          assert.truthy(text:find(word, 1, true), text)
        end
      end)
    end
    it(name .. " takes what it should", function()
      local good = low and { low, high } or {}
      for word in (low and "" or takes:gsub("^words ", ""):gsub(" or ", " ")):gmatch("[^, ]+") do
        good[#good + 1] = word
      end
      good[#good + 1] = default
      for _, value in ipairs(good) do
        local text, status = tried(value)
        assert.equal(0, status, text)
        assert.truthy(text:find("1.0\n", 1, true), text)
      end
    end)
  end
  it("is one of the list", function() assert.is_true(number >= 14) end)
end)

describe("FLAME_CHECK=nan", function()
  local function check(script) return run("FLAME_CHECK=nan", "-e " .. quote(script)) end

  it("names the first op that makes a NaN, with its line", function()
    local text, status = check("local x = flame.tensor{-1, 4}\nlocal y = x + 1\nlocal z = x:sqrt()\nprint((z * 2):sum():item())")
    assert.equal(1, status)
    assert.truthy(
      text:find("(command line):3: sqrt: made NaN out of operands without one, in 1 of 2 elements",
        1, true), text)
  end)

  it("lets infinities pass, and a NaN that was given", function()
    local text, status = check("print((flame.zeros(1):log() + 1):item(), (flame.tensor{0/0} * 2):item())")
    assert.equal(0, status, text)
    assert.truthy(text:find("-inf", 1, true), text)
  end)
end)

describe("FLAME_DEBUG", function()
  it("tells more with each level", function()
    local script = "-e " .. quote("local _ = (flame.ones(3) * 2):sum():item()")
    local seen = {}
    for level = 0, 5 do
      local text = run("FLAME_DEVICE=cpu FLAME_DEBUG=" .. level, script)
      seen[level + 1] = (text:find("plan: ", 1, true) and "p" or "")
        .. (text:find("evaluated %d+ ops on cpu") and "e" or "") ..
        (text:find("\n  mul%+sum, %d+ bytes") and "s" or "")
        .. (text:find("#define fl_kernel fl_mul_sum_%x+\n.*__global__") and "t" or "") ..
        (text:find("window of %d+ ops") and "w" or "")
    end
    assert.same({ "", "p", "pe", "pes", "pest", "pestw" }, seen)
  end)

  it("at 6 shows trees of user kernels after each pass, and what became of them", function()
    local script = "-e " .. quote([[
      local k = flame.kernel("__global__ void k(const float *x, float *y, int n)" ..
        "{ int i = threadIdx.x; if (i < n) y[i] = x[i] * x[i]; }")
      local x = flame.ones(4, { requires_grad = true })
      k:with { shape = { 4 } }(x, 4):sum():backward()
      pcall(flame.kernel("__global__ void r(float *x) { goto a; a: x[0] = 1; }").report)]])
    local text, status = run("FLAME_DEVICE=cpu FLAME_DEBUG=6", script)
    assert.equal(0, status, text)
    for _, pass in ipairs { "reading", "canonical form", "synthesis", "tidying" } do
      assert.truthy(text:find("kernel 'k' after " .. pass .. "\nkernel k\n", 1, true), pass)
    end
    assert.truthy(text:find("y[", 1, true))
    local tree = text:match("kernel 'k' (%x+): lanes ")
    assert.equal(16, #tree)
    assert.truthy(text:find("kernel 'k' " .. tree .. ": adjoint of %d+, .*: %x+, %d+ plain,"), text)
    assert.truthy(text:find("kernel 'r' %x+: .*goto"), text)
    assert.truthy(text:find("kernel 'k': strategies\n  line 1, x: stored, the only sum\n", 1, true),
      text)
    assert.falsy(run("FLAME_DEVICE=cpu FLAME_DEBUG=5", script):find("after reading", 1, true))
  end)
end)
