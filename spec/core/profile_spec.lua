--- Profiles, beyond their tables (inspect_spec.lua): shares of the device's peak rates, regions,
--- traces of a GPU, ranges for NVIDIA's tools, and flame graphs. GPUs are those of the fake driver,
--- in a separate process.
local flame = require "flame"
local helper = require "spec.support.helper"
local refused = helper.raises

local function read(path)
  local f <close> = assert(io.open(path, "rb"))
  return f:read "a"
end

-- ---- traces -------------------------------------------------------------------------------------

--- Checks the format of a trace; returns its tracks: name -> list of events {name, cat, from, to}.
local function tracks_of(text)
  assert.truthy(text:find('^{"displayTimeUnit":"ms","traceEvents":%[\n'))
  assert.truthy(text:find("\n]}\n$"))
  local names, tracks = {}, {}
  for line in text:gmatch "[^\n]+" do
    local tid, track = line:match('^{"ph":"M","pid":1,"tid":(%d+),"name":"thread_name",'
      .. '"args":{"name":"(.-)"}},?$')
    if tid then
      assert.is_nil(names[tid])
      names[tid], tracks[track] = track, {}
    elseif line:find('^{"ph"') then
      local at, name, cat, from, time = line:match('^{"ph":"X","pid":1,"tid":(%d+),"name":"(.-)",'
        .. '"cat":"(%l+)","ts":(%d+%.%d+),"dur":(%d+%.%d+),'
        .. '"args":{"bytes":%d+,"calls":%d+,"shape":".-","line":".-"}},?$')
      assert.truthy(names[at], line)
      table.insert(tracks[names[at]], { name = name, cat = cat, from = tonumber(from),
        to = from + time })
    end
  end
  return tracks
end

--- Checks that a track's events are disjoint or nested, up to 0.001, since times are rounded.
local function nests(list)
  table.sort(list, function(a, b)
    return a.from < b.from or (a.from == b.from and a.to > b.to)
  end)
  local open = {}
  for _, e in ipairs(list) do
    while open[1] and open[#open].to <= e.from + 0.001 do open[#open] = nil end
    assert.is_true(not open[1] or e.to <= open[#open].to + 0.001, e.name)
    e.inside = {}
    for k, outer in ipairs(open) do e.inside[k] = outer.name end
    open[#open + 1] = e
  end
end

local function with_machine(libraries, f)
  local root = os.tmpname()
  os.remove(root)
  local build = dofile("spec/support/interpreter.lua"):match "^(.*)/[^/]*$"
  assert(os.execute("mkdir " .. root))
  for _, name in ipairs(libraries) do
    assert(os.execute(("cp '%s/spec/fake_cuda.so' %s/%s"):format(build, root, name)))
  end
  local done, why = pcall(f, root, function(script, environment)
    local path = root .. "/script.lua"
    do
      local file <close> = assert(io.open(path, "w"))
      file:write(script)
    end
    local pipe = assert(io.popen(("env -u CUDA_VISIBLE_DEVICES -u FLAME_DEVICE FLAME_CACHE_DIR=off "
      .. "FLAME_TEST_MACHINE=%s %s %s/flame-lua %s 2>&1"):format(root, environment or "", build,
      path)))
    local text = pipe:read "a"
    assert.is_true(pipe:close() and true, text)
    return text
  end)
  os.execute("rm -rf " .. root)
  if not done then error(why, 0) end
end
local gpu = { "libcuda.so.1", "libnvrtc.so.13", "libcublasLt.so.13" }

describe("a trace of a GPU", function()
  it("has stream, copies and host on separate tracks, each of which nests", function()
    with_machine(gpu, function(root, run)
      run([[
local x = flame.ones(8, 8):to "cuda"
flame.eval(x)
flame.profile(arg[0] .. ".json", function()
  for i = 1, 5 do
    flame.region("round", function()
      local y = flame.full({ 8, 8 }, i):to "cuda"
      local z = ((x + y):matmul(x)):exp():sum():item()
    end)
  end
end)]])
      local tracks = tracks_of(read(root .. "/script.lua.json"))
      local found, cats = {}, {}
      for name, list in pairs(tracks) do
        found[#found + 1] = name
        nests(list)
        for _, e in ipairs(list) do cats[name .. " " .. e.cat] = true end
      end
      table.sort(found)
      assert.same({ "cpu", "cpu copies", "cuda:0 copies", "cuda:0 stream", "host" }, found)
      for _, what in ipairs { "cuda:0 stream op", "cuda:0 copies copy", "host host", "host queue",
          "host region" } do
        assert.is_true(cats[what], what)
      end
      for _, e in ipairs(tracks.host) do
        if e.cat == "queue" then assert.same({ "round", "run" }, e.inside) end
      end
      for _, e in ipairs(tracks["cuda:0 stream"]) do assert.same({}, e.inside) end
    end)
  end)
end)

describe("regions", function()
  it("are on the host's track around what is computed in them, and give f's results", function()
    local path = os.tmpname()
    flame.profile(path, function()
      local _ <close> = flame.region "outer"
      local a, b = flame.region("inner", function(x, y)
        flame.eval(flame.ones(10) + x)
        return x, y
      end, 1, nil)
      assert.same({ 1 }, { a, b })
    end)
    local tracks = tracks_of(read(path))
    os.remove(path)
    nests(tracks.host)
    local inside = {}
    for _, e in ipairs(tracks.host) do
      if e.name == "run" or e.name == "inner" then inside[e.name] = e.inside end
    end
    assert.same({ "outer" }, inside.inner)
    assert.same({ "outer", "inner" }, inside.run)
  end)
  it("end once, with an error, and cost nothing of a profile's rows", function()
    local r = flame.region "twice"
    r:close()
    r:close()
    refused("boom", flame.region, "failing", function() error("boom", 0) end)
    local p = flame.profile(function()
      flame.region("named", function() flame.eval(flame.ones(3) + 1) end)
    end)
    assert.equal(1, #p)
    refused("region: no form takes (a table); there is region(name: str, f: fn, ...)",
      flame.region, {})
  end)
end)

describe("lines for NVIDIA's tools", function()
  local script = [[
local k = flame.kernel [==[
  __global__ void k(const float *x, float *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float p = 1.f;
    for (int j = 0; j < 5; ++j)
      p *= x[i];
    y[i] = p;
  }
]==]
local x = flame.full({ 4 }, 2, { device = "cuda", requires_grad = true })
k(x):sum():backward()
print(x.grad:sum():item())
flame.vmap(k)(x:reshape(2, 2)):sum():item()
print(k:source("adjoint"))]]
  it("are in the text of a gradient where a tool listens, and nowhere else", function()
    with_machine(gpu, function(_, run)
      local text = run(script, "FAKE_CUDA=computes=1 NVTX_INJECTION64_PATH=libcuda.so.1")
      assert(text:find("320.0", 1, true), text)
      local line = text:match("#line (%d+) \"[^\"\n]*script.lua\"\n[^\n]*d_t%d+ = %(d_t%d+ %+ ")
      assert.equal("7", line, text)
      local plain = run(script, "FAKE_CUDA=computes=1")
      assert(plain:find("320.0", 1, true), plain)
      assert.is_nil(plain:find("#line", 1, true))
    end)
  end)
end)

describe("ranges for NVIDIA's tools", function()
  local script = [[
flame.region("train", function()
  local x = flame.ones(4):to "cuda"
  local y = (x * 2):sum():item()
end)]]
  it("are told to the library that the tool names: regions, runs with lines, copies", function()
    with_machine(gpu, function(_, run)
      local text = run(script, "NVTX_INJECTION64_PATH=libcuda.so.1")
      assert.truthy(text:find("NVTX train\n", 1, true), text)
      assert.truthy(text:find("NVTX   flame: run to [^\n]*script.lua:%d, %d steps on cuda:0\n"),
        text)
      assert.truthy(text:find("NVTX   flame: compile\n", 1, true), text)
      assert.truthy(text:find("NVTX   flame: upload\n", 1, true), text)
      assert.truthy(text:find("NVTX   flame: download\n", 1, true), text)
      assert.is_nil(text:find("too many", 1, true))
    end)
  end)
  it("nest with a profile on, whose spans they do not change", function()
    with_machine(gpu, function(_, run)
      local text = run("local p = flame.profile(function() " .. script:gsub("\n", " ")
        .. " end) print(#p > 0, p.upload_ms > 0)", "NVTX_INJECTION64_PATH=libcuda.so.1")
      assert.truthy(text:find("true\ttrue\n", 1, true), text)
      assert.truthy(text:find("NVTX   flame: upload\n", 1, true), text)
    end)
  end)
  it("are none without a tool, with one that refuses, and with a file that is none", function()
    with_machine(gpu, function(_, run)
      assert.equal("", run(script))
      assert.equal("", run(script, "NVTX_REFUSE=1 NVTX_INJECTION64_PATH=libcuda.so.1"))
      assert.equal("", run(script, "NVTX_INJECTION64_PATH=libnone.so"))
      assert.equal("", run(script, "NVTX_INJECTION64_PATH="))
    end)
  end)
end)

-- ---- shares -------------------------------------------------------------------------------------

describe("a row's shares", function()
  it("are of a large copy and of large products, and none where they have no meaning", function()
    local x, y = flame.ones(300, 300), flame.ones(1 << 20)
    flame.eval(x, y)
    local p = flame.profile(function() flame.eval(x:matmul(x), y * 2) end)
    assert.is_true(p.matmul.peak_share > 0 and p.matmul.copy_share > 0)
    assert.is_true(p.mul.copy_share > 0)
    assert.is_nil(p.mul.peak_share)
    local one, other = p.mul.copy_share * p.mul.ms, p.matmul.copy_share * p.matmul.ms
    assert.near(1, one / p.mul.bytes * p.matmul.bytes / other, 1e-9)
    assert.is_nil(p.mul.other)
    assert.truthy(tostring(p):find("%d %%"))
  end)
  it("are not measured before somebody asks", function()
    local before = flame.stats().launches
    local p = flame.profile(function() flame.eval(flame.ones(3) + 1) end)
    assert.equal(before + 1, flame.stats().launches)
    assert.equal(1, p.launches)
  end)
end)

-- ---- flame graphs -------------------------------------------------------------------------------

describe("flame.flamegraph", function()
  local function leaf(n)
    local s = 0
    for i = 1, n do s = s + i end
    return s
  end
  local function twice(f, n)
    local s = leaf(n) + f(n)
    return s
  end
  local function row(g, name)
    for _, r in ipairs(g) do if r.name:find(name, 1, true) then return r end end
  end

  it("has each function's calls and time, by stacks, and f's results", function()
    local g, a, b = flame.flamegraph(function(x)
      local s = twice(leaf, 20000)
      local y = flame.ones(10):exp()
      flame.eval(y)
      return x, s
    end, 7)
    assert.same({ 7, 20000 * 20001 }, { a, b })
    assert.equal(1, row(g, "twice").calls)
    assert.is_truthy(g.folded:find("twice %(profile_spec.lua:%d+%);leaf %(profile_spec.lua:%d+%) %d+\n"))
    assert.equal(1, row(g, "exp").calls)
    local sum = 0
    for _, r in ipairs(g) do sum = sum + r.ms end
    assert.near(g.ms, sum, 1e-9)
    for i = 2, #g do assert.is_true(g[i - 1].ms >= g[i].ms) end
    assert.truthy(tostring(g):find("leaf (profile_spec.lua", 1, true))
  end)
  it("keeps its stacks through errors, coroutines, tail calls, closures and recursion", function()
    local function fail() error("x", 0) end
    local function tail(n) return leaf(n) end
    local function deep(n)
      if n == 0 then return 0 end
      local s = 1 + deep(n - 1)
      return s
    end
    local function after() return (leaf(10)) end
    local g = flame.flamegraph(function()
      pcall(fail)
      local co = coroutine.wrap(function()
        coroutine.yield(leaf(10))
        coroutine.yield(leaf(10))
      end)
      co()
      co()
      tail(10)
      for _ = 1, 5 do (function() leaf(10) end)() end
      deep(1000)
      after()
    end)
    assert.equal(1, row(g, "after").calls)
    for _, path in ipairs { "fail", "deep" } do
      assert.is_nil(g.folded:find(path .. " [^;\n]*;[^\n]*after"), g.folded)
    end
    for _, node in ipairs(g.nodes) do
      if node.name:find "^after" then assert.equal(1, node.parent) end
    end
    assert.equal(8, row(g, "leaf").calls)          -- a tail call has no name
    assert.equal(256 - 1, row(g, "deep").calls)
  end)
  it("writes folded stacks and pictures", function()
    local path = os.tmpname()
    local g = flame.flamegraph(path, twice, leaf, 30000)
    assert.equal(g.folded, read(path))
    for line in g.folded:gmatch "[^\n]+" do assert.truthy(line:find("^.+ %d+$")) end
    os.remove(path)
    flame.flamegraph(path .. ".svg", twice, leaf, 30000)
    local svg = read(path .. ".svg")
    os.remove(path .. ".svg")
    assert.truthy(svg:find('^<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1200 %d+"'))
    local rows = {}
    for name, x, y, w in svg:gmatch(
        '<title>([%w_]+) .-</title><rect x="([%d.]+)" y="(%d+)" width="([%d.]+)"') do
      rows[name] = rows[name] or { tonumber(x), tonumber(y), tonumber(w) }
    end
    local first = rows["function"]                  -- 'twice', which C calls without a name
    assert.equal(first[2] + 17, rows.leaf[2])
    assert.is_true(rows.leaf[1] >= first[1] and rows.leaf[3] <= first[3])
  end)
  it("escapes what a picture and a stack can not hold", function()
    local odd = load("local leaf = ... leaf(100000)", "=a<b>;c")
    local path = os.tmpname() .. ".svg"
    local g = flame.flamegraph(path, odd, leaf)
    local svg = read(path)
    os.remove(path)
    assert.truthy(svg:find("a&lt;b&gt;", 1, true))
    assert.truthy(g.folded:find("main chunk (a<b>_c)", 1, true), g.folded)
  end)
  it("sees a coroutine that is older than it", function()
    local turn = coroutine.wrap(function() while true do leaf(50000) coroutine.yield() end end)
    turn()
    local g = flame.flamegraph(turn)
    assert.truthy(g.folded:find("leaf", 1, true), g.folded)
    assert.is_nil((debug.gethook()))
  end)
  it("ends with an error of f, puts the hook back, and is one at a time", function()
    local count = 0
    local function hook() count = count + 1 end
    debug.sethook(hook, "", 1000000)
    refused("boom", flame.flamegraph, function() error("boom", 0) end)
    refused("flamegraph: one is on already", flame.flamegraph, flame.flamegraph, leaf, 1)
    assert.equal(hook, (debug.gethook()))
    debug.sethook()
    refused("No such file", flame.flamegraph, "/nonexistent/a.svg", leaf, 1)
    local before = flame.memory().host
    for _ = 1, 3 do flame.flamegraph(leaf, 10) end
    collectgarbage()
    collectgarbage()
    assert.is_true(flame.memory().host <= before + 4096)
  end)
end)
