-- The CUDA texts of kernels compute the same as the CPU. The fake driver compiles the texts with
-- g++ and runs them (spec/c/fake_compute.c); it computes matrix products as sums in f64.

local machine = dofile("spec/support/machine.lua")
local has_gxx = os.execute("g++ --version >/dev/null 2>&1")
local folder

--- What a script prints on the machine of the fake driver. environment: "NAME=value …".
local function run(script, environment)
  return machine.run(folder, script, ("FAKE_CUDA=\"computes=1 tell=1\" FLAME_CACHE_DIR=%s/cache "
    .. "TMPDIR=%s %s"):format(folder, folder, environment or ""))
end

--- Defines a test, which is pending where there is no g++.
local function case(title, test)
  it(title, has_gxx and test or function() pending "no g++" end)
end

local training = [[
local nn, optim = require "flame.nn", require "flame.optim"
local function train(device)
  flame.seed(3)
  local net = nn.Sequential(nn.Embedding(9, 12), nn.Linear(12, 16), nn.GELU(), nn.LayerNorm(16),
    nn.Linear(16, 5)):to(device)
  local opt = optim.AdamW(net:parameters(), { lr = 0.01 })
  local x = flame.tensor({ 1, 2, 3, 4, 5, 6, 7, 9 }, { dtype = "i64" }):to(device)
  local good = flame.tensor({ 1, 2, 3, 4, 5, 1, 2, 5 }, { dtype = "i64" }):to(device)
  local bad = flame.tensor({ 1, 2, 3, 4, 9, 1, 2, 5 }, { dtype = "i64" }):to(device)
  local said = {}
  local function weights()
    for _, p in ipairs(net:parameters()) do
      for _, v in ipairs(p:detach():flatten():totable()) do said[#said + 1] = v end
    end
  end
  for i = 1, 7 do
    local ok, loss = pcall(function()
      opt:zero_grad()
      local loss = flame.cross_entropy(net(x), i % 3 == 0 and bad or good)
      loss:backward()
      opt:step()
      flame.eval()
      return loss:item()
    end)
    said[#said + 1] = ok and loss or loss:gsub("^.-:%d+: ", "")
    weights()
  end
  return said
end
]]

describe("#cuda text on the CPU", function()
  setup(function() folder = machine.new() end)
  teardown(function() machine.remove(folder) end)

  case("does to many arrays in one evaluation what the CPU does, also in place", function()
    local text = run [[
local optim = require "flame.optim"
local function both(device)
  flame.seed(2)
  local said, p, a, b = {}, {}, {}, {}
  for i = 1, 14 do
    p[i] = flame.randn(5, 7):to(device):requires_grad_(true)
    p[i].grad = flame.randn(5, 7):to(device)
    a[i], b[i] = flame.randn(35):to(device), flame.randn(35):to(device)
  end
  local all = {}
  for _, list in ipairs { p, a, b } do table.move(list, 1, 14, #all + 1, all) end
  flame.eval(all)
  local opt = optim.AdamW(p, { lr = 0.1 })
  for _ = 1, 3 do
    opt:step()
    for i = 1, 14 do                               -- two arrays are exchanged, and one is added to
      local old = a[i] + 0
      a[i]:copy_(b[i])
      b[i]:copy_(old)
      a[i % 14 + 1]:add_(old)
    end
    flame.eval(all)
  end
  for i, x in ipairs(all) do said[i] = x:detach():cpu() end
  return said
end
local here, there, far = both "cpu", both "cuda", 0
for i, x in ipairs(here) do far = math.max(far, (x - there[i]):abs():amax():item()) end
print(#here, far < 1e-6 or far)]]
    assert.truthy(text:find "42\ttrue", text)
  end)

  -- More operands than one kernel may have.
  case("does so with large arrays, more than a kernel takes", function()
    local text = run([[
local optim = require "flame.optim"
local function both(device)
  flame.seed(2)
  local p = {}
  for i = 1, 26 do
    p[i] = flame.randn(512, 512):to(device):requires_grad_(true)
    p[i].grad = flame.randn(512, 512):to(device)
  end
  flame.eval(p)
  local opt = optim.AdamW(p, { lr = 0.1 })
  for _ = 1, 2 do opt:step() flame.eval(p) end
  return p
end
local here, there, far = both "cpu", both "cuda", 0
for i, x in ipairs(here) do far = math.max(far, (x - there[i]:cpu()):abs():amax():item()) end
print(#here, far < 1e-6 or far)]], "FAKE_CUDA=\"computes=2 tell=1\"")
    assert.truthy(text:find "26\ttrue", text)
  end)

  case("does so with dtypes mixed, slices, draws, indices and results that are dropped", function()
    local text = run [[
local dtypes = { "f32", "bf16", "f64", "f16", "i32", "i64" }
local function both(device)
  flame.seed(4)
  local whole, list, out = flame.randn(20, 9):to(device), {}, {}
  local at = flame.tensor({ 3, 1, 2, 9, 9 }, { dtype = "i64" }):to(device)
  for i = 1, 20 do list[i] = (flame.randn(9):to(device) * 4):to(dtypes[i % 6 + 1]) end
  flame.eval(list)
  flame.eval(whole)
  for i = 1, 20 do
    out[i] = list[i] * 2 + i
    out[20 + i] = (whole[i] + list[i]):float()[at]
    out[40 + i] = flame.rand(9, { device = device }) * whole[i]
    whole[21 - i] = whole[21 - i] + 0.5
    local _ = list[i] - 1
  end
  out[61] = whole
  collectgarbage()
  flame.eval(out)
  for i, x in ipairs(out) do out[i] = x:double():cpu() end
  return out
end
local here, there, far = both "cpu", both "cuda", 0
for i, x in ipairs(here) do far = math.max(far, (x - there[i]):abs():amax():item()) end
print(#here, far < 1e-6 or far)]]
    assert.truthy(text:find "61\ttrue", text)
  end)

  case("has the values of the next run where a replay's numbers could not be set", function()
    -- captures are refused from this one on
    for first, replays in pairs { [1] = 0, [2] = 0, [7] = 3 } do
      local text = run([[
local x = flame.tensor({ 0.5, 1, 2 }, { device = "cuda" })
local z = flame.tensor({ 0.5, 1, 2 }, { device = "cuda" })
flame.eval { x, z }
local failed, wrong = 0, 0
for i = 1, 24 do
  local function value(on)
    return ((x:to(on) * (i * 0.25) + 1):square():sum() + (z:to(on) * (i * 0.5)):amax()):item()
  end
  local ok, v = pcall(value, "cuda")
  if not ok then
    failed = failed + 1
    assert(v:find("cuGraphExecKernelNodeSetParams: CUDA_ERROR_OTHER", 1, true), v)
    v = value "cuda"
  end
  if math.abs(v - value "cpu") > 1e-5 then wrong = wrong + 1 end
end
print("failed", failed > 0, wrong, flame.stats().replays)]],
        ("FAKE_CUDA=\"computes=2 tell=1 fail=GraphExecKernelNodeSetParams:%d:1\""):format(first))
      assert.truthy(text:find("failed\ttrue\t0\t" .. replays), text)
    end
  end)

  case("trains as the CPU does, and nothing of a step sticks whose check fails", function()
    local text = run(training .. [[
local a, b = train "cpu", train "cuda"
local far, fails = 0, 0
for i, v in ipairs(a) do
  if type(v) == "string" then
    fails = fails + 1
    assert(v == b[i] and v:find("class 9 at position 5", 1, true), v .. " " .. tostring(b[i]))
  else
    far = math.max(far, math.abs(v - b[i]))
  end
end
print(#a == #b, fails, far < 2e-4 or far)]])
    assert.truthy(text:find "true\t2\ttrue", text)
  end)

  case("gives the same bits replayed as graphs and queued one by one", function()
    local script = training .. [[
local t = train "cuda"
for i, v in ipairs(t) do t[i] = type(v) == "number" and ("%a"):format(v) or v end
print(table.concat(t, " "))]]
    local recorded = run(script, "FLAME_REPLAY=2")
    local queued = run(script, "FLAME_REPLAY=0")
    local replays = tonumber(recorded:match "(%d+) graphs")
    assert.truthy(replays and replays > 4, recorded)
    assert.truthy(queued:find "^0x" or queued:find "^-0x", queued)
    assert.equal(queued:gsub("%d+ graphs", ""), (recorded:gsub("%d+ graphs", "")))
  end)

  local halves = [[
local worst = 0
for _, dtype in ipairs { "bf16", "f16" } do
  flame.seed(5)
  local x = (flame.randn(37, 65) * 3):to(dtype):to "cpu"
  local function chain(v)
    return ((v * 2 + 1):tanh() - v:sigmoid()):maximum(v:roll(1, 2)) / (v:abs() + 1)
  end
  local a, b = chain(x), chain(x:to "cuda"):to "cpu"
  worst = math.max(worst, (a:float() - b:float()):abs():max():item())
end
print("worst", worst)]]

  case("rounds a chain of halves as the CPU does, bit by bit", function()
    assert.truthy(run(halves):find "worst\t0.0")
  end)

  case("sums a block in shared memory, with its gradient", function()
    local text = run [==[
local k = flame.kernel { grid = 4, block = 64, shape = { 4 }, source = [=[
__global__ void block_sum(float *y, const float *x, int n) {
  __shared__ float part[64];
  const int t = threadIdx.x, i = blockIdx.x * 64 + t;
  part[t] = i < n ? x[i] * x[i] : 0.f;
  __syncthreads();
  for (int d = 32; d > 0; d /= 2) {
    if (t < d) part[t] += part[t + d];
    __syncthreads();
  }
  if (t == 0) y[blockIdx.x] = part[0];
}]=] }
local function both(device)
  flame.seed(2)
  local x = flame.randn(200):to(device):requires_grad_()
  local y = k(x, 200)
  ;(y * flame.tensor({ 1, 2, 3, 4 }):to(device)):sum():backward()
  return y:to "cpu", x.grad:to "cpu"
end
local y, g = both "cpu"
local z, h = both "cuda"
print((y - z):abs():max():item() < 1e-4, (g - h):abs():max():item() < 1e-5, y:sum():item() > 100)]==]
    assert.truthy(text:find "true\ttrue\ttrue", text)
  end)

  case("lets blocks meet that run at the same time, and refuses more", function()
    local text = run [==[
local k = flame.kernel { grid = 1, block = 64, source = [=[
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
__global__ void turn(const float *x, float *y, float *z, int n) {
  const int i = (int)cg::this_grid().thread_rank();
  y[i] = x[i] * x[i];
  cg::this_grid().sync();
  z[i] = y[n - 1 - i] * y[(i + 3) % n];
}]=] }
local _
local function both(device)
  flame.seed(2)
  local x = flame.randn(64):to(device):requires_grad_()
  local z
  for _ = 1, 4 do
    _, z = k(x)
    z:sum():backward()
  end
  return z:to "cpu", x.grad:to "cpu"
end
local y, g = both "cpu"
local z, h = both "cuda"
print((y - z):abs():max():item() < 1e-5, (g - h):abs():max():item() < 1e-4)
print(select(2, pcall(function()
  return k:with { grid = 5000 } (flame.ones(64 * 5000):to "cuda"):sum():item()
end)))]==]
    assert.truthy(text:find "true\ttrue", text)
    assert.truthy(text:find("all 5000 of 64 threads must run at the same time, and this device runs "
      .. "4224; give it a smaller grid", 1, true), text)
  end)

  case("computes rows of two chunks as the CPU does", function()
    local text = run [[
local function both(device, C, dtype)
  local R = 33
  local i = flame.arange(1, R * C):reshape(R, C)
  local x = ((i * 7919 % 10007):to("f32") / 500 - 10):to(dtype):to(device):requires_grad_()
  local y = (flame.arange(1, R):to("i64") * 977 % C + 1):to(device)
  flame.eval(x, y)
  local loss = flame.cross_entropy(x, y)
  loss:backward()
  local z = x:detach()
  return { loss:detach():cpu(), x.grad:cpu(), z:softmax(2):cpu(), z:log_softmax(2):cpu() }
end
for _, c in ipairs { { 40000, "f32" }, { 32769, "f32" }, { 50257, "bf16" } } do
  local a, b = both("cpu", c[1], c[2]), both("cuda", c[1], c[2])
  for k = 1, 4 do
    local x, y = a[k]:to "f64", b[k]:to "f64"
    print(c[1], k, ((x - y):abs():max() / x:abs():max()):item() < 2e-6)
  end
end]]
    local _, same = text:gsub("\ttrue\n", "")
    assert.equal(12, same, text)
  end)

  case("compares a row with its label in each sweep that needs it", function()
    local text = run [[
arg = { [0] = "tools/busted.lua", "--filter=third derivatives of cross_entropy",
  "spec/autograd/third_spec.lua" }
dofile "tools/busted.lua"]]
    assert.truthy(text:find("1 passed, 0 failed", 1, true), text)
  end)

  case("gives a block the dynamic shared memory of its launch, and not a byte more", function()
    local said = {}
    for _, bytes in ipairs { 256, 252, 128 } do
      said[bytes] = run(([==[
local k = flame.kernel { grid = 3, block = 64, shape = { 64 }, shared = %d, source = [=[
__global__ void turn(const float *x, float *y, int n) {
  extern __shared__ float s[];
  s[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  if (blockIdx.x == 0) y[threadIdx.x] = s[63 - threadIdx.x];
}]=] }
print(pcall(function() return k(flame.arange(64.0):to "cuda", 64):sum():item() end))]==])
        :format(bytes))
    end
    assert.truthy(said[256]:find("true\t2080.0", 1, true), said[256])
    assert.truthy(said[252]:find("written beyond 252 bytes of dynamic", 1, true), said[252])
    assert.truthy(said[128]:find("an address outside memory", 1, true), said[128])
  end)

  case("adds a gradient's parts to the same bits, however threads are scheduled", function()
    local script = [==[
local k = flame.kernel { block = 96, source = [=[
__global__ void pick(const float *x, const int *at, float *y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[at[i]] * x[at[i]] * (1.f + 0.001f * i);
}]=], shape = { 400 } }
flame.seed(1)
local x = flame.rand(5):requires_grad_()
local at = {}
-- most threads of a warp add to the same element
for i = 1, 400 do at[i] = i < 200 and 3 or i % 5 end
k(x, flame.tensor(at, { dtype = "i32" }), 400):sum():backward()
local g = x.grad:totable()
for i, v in ipairs(g) do g[i] = ("%a"):format(v) end
print(table.concat(g, " "))]==]
    local bits = {}
    for seed = 1, 3 do
      bits[seed] = run(script, ("FAKE_CUDA=\"computes=2 seed=%d\""):format(seed))
      assert.truthy(bits[seed]:find "^0x", bits[seed])
      assert.equal(bits[1], bits[seed])
    end
  end)

  -- One kernel stores a gradient and sums its columns (text_col.c). Its bits must be those of the
  -- ops one by one (FLAME_EAGER=1), and its values near those in f64 on the CPU.
  local columns = [==[
local function near(x, y)
  return ((x:to("f64"):cpu() - y):abs():amax() / (y:abs():amax() + 1e-30)):item()
end
local hash, most, bits = 5381, 0, dofile "spec/support/bits.lua"
local function check(rows, cols, dtype, shift, kept)
  flame.seed(rows)
  local function data(n)
    local x = flame.randn(n + shift):to(dtype)
    flame.eval(x)
    return x:narrow(1, shift + 1, n)
  end
  local h, g = data(rows * cols):reshape(rows, cols), data(rows * cols):reshape(rows, cols)
  local b = data(cols)
  local function all(h, g, b, half)
    local function round(x) return half and x:to(dtype):to "f64" or x end
    local x = round(h + b)
    local d = round(g * (x * 2):tanh())
    return d, round(d):sum(1), (d * h):sum(1), rows > 0 and d:amax(1) or d
  end
  for _ = 1, 3 do                                          -- the third is replayed
    local d, s, t, m = all(h, g, b)
    local w = (d * 0.5):sum(2)                             -- another kernel reads it
    flame.eval(kept and d or s, s, t, m, w)
    for _, x in ipairs { s, t, m, w, kept and d or s } do hash = bits(hash, x) end
    local far = dtype == "f64" and 1e-12 or dtype == "f32" and 1e-5 or 0.05
    local f = {}
    for i, x in ipairs { h, g, b } do f[i] = x:to("f64"):cpu() end
    local _, s64, t64 = all(f[1], f[2], f[3], dtype ~= "f64" and dtype ~= "f32")
    most = math.max(most, near(s, s64) / far, near(t, t64) / far)
  end
end
for _, rows in ipairs { 64, 65, 300, 530 } do
  for i, cols in ipairs { 64, 65, 130 } do
    for j, dtype in ipairs { "f32", "bf16", "f16", "f64" } do
      if (i + j + rows) % 2 == 0 then check(rows, cols, dtype, (i + j) // 2 % 2, i % 2 == 0) end
    end
  end
end
for _, rows in ipairs { 0, 1, 15 } do check(rows, 7, "f32", 0, true) end
print(hash, most < 1 or most)]==]

  case("sums the columns of what it stores, to the bits of the ops one by one", function()
    local function line(environment) return run(columns, environment):match "^[^\n]*" end
    local expected = line "FLAME_EAGER=1"
    assert.truthy(expected:find("\ttrue$"), expected)
    for _, replay in ipairs { "", "FLAME_REPLAY=0", "FLAME_REPLAY=2" } do
      assert.equal(expected, line(replay))
    end
    -- a planted fault, by which the loop of these kernels leaves rows out, changes the values
    assert.not_equal(expected, line(
      "FLAME_CACHE_DIR=off FAKE_CUDA_PLANT='at < end; at += |at < end; at += 64 + '"))
  end)

  case("tells no fault of a row that threads without one repeat, where rows are written in place",
  function()
    -- nine threads write their result over the values that they read; the others have no result.
    -- A value of more than 8 MB is computed too: where all are smaller, results share no memory
    local script = [==[
local large = flame.arange(2.3e6):cumsum(1):amax()
local x = flame.arange(25.0):reshape(1, 1, 5, 5)
local y, at = flame.fractional_max_pool2d(x, 2, { output_size = 3, return_indices = true,
  _random_samples = flame.tensor { { { 0.3, 0.5 } } } })
flame.eval()
assert(y:sum():item() == 150 and at:sum():item() == 150)
print "right"]==]
    for seed = 1, 3 do
      local text = run(script, ("FAKE_CUDA=\"computes=2 seed=%d\""):format(seed))
      assert.equal("right\n", text)
    end
    local all = run("print(pcall(function() " .. script .. " end))",
      "FLAME_CACHE_DIR=off FAKE_CUDA_PLANT='on ? w[6] : 0|w[6]'")
    assert.truthy(all:find("index 26 at position", 1, true), all)
  end)

  case("is compiled again when a file in a folder that the kernel names has changed", function()
    local script = [==[
local folder = os.getenv "INCLUDED"
local function times(n)
  local f = assert(io.open(folder .. "/now.h", "w"))
  f:write("#define NOW ", n, "\n")
  f:close()
  local k = flame.kernel { include = { folder }, block = { 32 }, source = [[
#include "now.h"
__global__ void k(const float *x, float *y, int n) {
  int i = threadIdx.x;
  if (i >= n) goto end;
  y[i] = x[i] * NOW;
  end:;
}]] }
  return k(flame.ones(3)):sum():item()
end
print(times(%d), times(%d))]==]
    assert(os.execute("mkdir " .. folder .. "/included"))
    local place = ("FAKE_CUDA=\"computes=1\" INCLUDED=%s/included"):format(folder)
    local function kept()
      local list = assert(io.popen("ls " .. folder .. "/cache | wc -l"))
      local n = math.tointeger(list:read "n")
      list:close()
      return n
    end
    assert.equal("3.0\t6.0\n", run(script:format(1, 2), place))
    local before = kept()
    assert.equal("15.0\t9.0\n", run(script:format(5, 3), place))
    assert.equal(before, kept())             -- nothing is kept that no process can use again
  end)

  case("shows a wrong text, and names an instruction that it does not know", function()
    local wrong = run(halves, "FLAME_CACHE_DIR=off FAKE_CUDA_PLANT='return M(tanh)(x)|return -M(tanh)(x)'")
    assert.truthy(tonumber(wrong:match "worst\t(%S+)") > 1, wrong)
    local unknown = run("print(pcall(function() " .. halves .. " end))",
      "FLAME_CACHE_DIR=off FAKE_CUDA_PLANT='cvt.rn.bf16|cvt.rp.bf16'")
    assert.truthy(unknown:find("does not know this asm: cvt.rp.bf16", 1, true), unknown)
  end)

  -- Written out for each element of a vector, 60 special functions in one kernel take NVRTC 10
  -- seconds. As calls they take it less than one, in as many launches and with the same bits.
  for _, dtype in ipairs { "f32", "f64", "bf16" } do
    case("calls the costly functions of a kernel that has many: " .. dtype, function()
      local keep = folder .. "/" .. dtype
      assert(os.execute("mkdir " .. keep))
      local text = run(("local dtype = \"%s\"\n"):format(dtype) .. [[
local function chain(kind, each)
  flame.seed(5)
  local y = flame.rand(70, kind == "long" and 1500 or 66):to(dtype)
  flame.eval(y)
  local before = flame.stats().launches
  local function step(x)
    if each then flame.eval(x) end
    return x
  end
  for i = 1, 14 do
    y = step(step(y:sin()):tanh()):lgamma()
    y = step(flame.where(step(y):isfinite(), y, 0.5) / 3)
    if i % 2 == 0 then y = step(y + step(flame.randn(y.shape, { dtype = dtype }))) end
    if i % 7 == 0 then y = step(y + step(flame.rand(y.shape, { dtype = dtype }))) end
  end
  if kind == "row" then y = y:sum(2) elseif kind == "column" then y = y:sum(1) end
  if kind == "long" then y = y - y:mean(2, true) end
  flame.eval(y)
  return y, flame.stats().launches - before
end
for _, kind in ipairs { "map", "row", "column", "long" } do
  local y, launches = chain(kind, false)
  print(kind, launches, flame.equal(y, (chain(kind, true))), y:isfinite():all():item())
end]], ("FLAME_CACHE_DIR=off FAKE_CUDA_KEEP=1 TMPDIR=%s"):format(keep))
      assert.equal("map\t1\ttrue\ttrue\nrow\t1\ttrue\ttrue\ncolumn\t2\ttrue\ttrue\n"
        .. "long\t1\ttrue\ttrue\n", (text:gsub("%d+ graphs\n", "")))
      local pipe <close> = io.popen("grep -l call_sin " .. keep .. "/*/text.cu | wc -l")
      assert.equal(dtype == "bf16" and 4 or 5, tonumber(pipe:read "a"))
    end)
  end

  case("puts the shared arrays of a derivative into dynamic memory, or else global memory", function()
    local script = [=[
local k = flame.kernel { block = 64, grid = 1, shape = { 64 }, source = [[
__global__ void k(const float *x, float *y, int n) {
  __shared__ float s[4096], u[4096];
  for (int e = threadIdx.x; e < 4096; e += 64) { s[e] = x[e]; u[e] = x[4095 - e]; }
  __syncthreads();
  float v = 0;
  for (int e = 0; e < n; ++e) v += s[(e * 67 + threadIdx.x) % 4096] * u[e];
  y[threadIdx.x] = v;
}]] }
local grads = {}
for i, device in ipairs { "cpu", "cuda" } do
  flame.seed(5)
  local x = flame.randn({ 4096 }):to(device):requires_grad_()
  local ok, why = pcall(function() k(x, 300):sum():backward() grads[i] = x.grad:cpu() flame.eval(grads[i]) end)
  if not ok then return print(why) end
end
print((grads[1] - grads[2]):abs():amax():item() < 1e-4)]=]
    assert.truthy(run(script):find "^true")
    assert.truthy(run(script, "FAKE_CUDA=\"computes=2 shared=50000\""):find "^true")
  end)
end)
