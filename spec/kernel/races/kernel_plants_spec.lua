--- Errors planted in user kernels: each must be found, with the line in the kernel and in the
-- script. A child process runs the kernels with checks (FLAME_CHECK, FLAME_SIM=1 or --sim) on the
-- CPU, and on a GPU that is the default. The line that a message must name has a comment HERE.
local interpreter = dofile("spec/support/interpreter.lua")
local helper = require "spec.support.helper"

-- name, text of the message, kernel, what differs from a launch of a block of 128 with n = 100
local plants = {
  { "out of range by one", "index 100 of 'x' (100 elements) by thread (100, 0, 0) of block (0, 0, 0)", [=[
__global__ void k(const float *x, float *y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i <= n)
    y[i] = x[i];                                                    // HERE
}]=] },
  { "out of range below", "index -1 of 'x' (100 elements) by thread (0, 0, 0) of block (0, 0, 0)", [=[
__global__ void k(const float *x, float *y, int n) {
  int i = threadIdx.x;
  if (i < n) y[i] = 0.5f * (x[i]
                            + x[i - 1]);                            // HERE
}]=] },
  { "out of a local array", "index [3][1] of 'm' (3 x 2)", [=[
__global__ void k(const float *x, float *y, int n) {
  float m[3][2] = {};
  for (int j = 0; j <= 3; j++)
    m[j][1] = x[j];                                                 // HERE
  if (threadIdx.x < n) y[threadIdx.x] = m[0][1];
}]=] },
  { "a race on one element", "race: write of index 7 of 'y' (100 elements) by thread (40, 0, 0) of block (0, 0, 0), but " ..
    "thread (7, 0, 0) of block (0, 0, 0) wrote it at line 4, with no barrier in between", [=[
__global__ void k(const float *x, float *y, int n) {
  int i = threadIdx.x;
  if (i >= n) return;
  y[i] = x[i];
  if (i == 40)
    y[7] = 2.f * x[i];                                              // HERE
}]=] },
  { "a race between blocks", "wrote it at line 4", [=[
__global__ void k(const float *x, float *y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n)
    y[i % 50] = x[i];                                               // HERE
}]=], "grid = { 4 }, block = { 32 }" },
  { "a missing barrier", "race: read of index 127 of 's' (128 elements)", [=[
__global__ void k(const float *x, float *y, int n) {
  __shared__ float s[128];
  int i = threadIdx.x;
  s[i] = i < n ? x[i] : 0.f;
  // __syncthreads() is forgotten
  if (i < n)
    y[i] = s[127 - i];                                              // HERE
}]=] },
  { "a second barrier that is missing", "race: write of index 28 of 's'", [=[
__global__ void k(const float *x, float *y, int n) {
  __shared__ float s[128];
  int i = threadIdx.x;
  for (int t = 0; t < 3; t++) {
    s[i] = i < n ? t * x[i] : 0.f;                                  // HERE
    __syncthreads();
    if (i < n) y[i] = s[127 - i];
  }
}]=] },
  { "a shared value that was not set", "uninitialised: index 60 of 's' (128 elements) is read before it is written", [=[
__global__ void k(const float *x, float *y, int n) {
  __shared__ float s[128];
  int i = threadIdx.x;
  if (i != 60) s[i] = i < n ? x[i] : 0.f;
  __syncthreads();
  if (i < n)
    y[i] = s[127 - i];                                              // HERE
}]=] },
  { "a variable that was not set", "variable 'v' has no value yet, read by thread (5, 0, 0)", [=[
__global__ void k(const float *x, float *y, int n) {
  int i = threadIdx.x;
  float v;
  if (i != 5 && i < n) v = x[i];
  if (i < n)
    y[i] = v;                                                       // HERE
}]=] },
  { "a barrier that some threads miss",
    "__syncthreads() is not reached by all threads: thread (0, 0, 0) of block (0, 0, 0) " ..
    "is there, thread (100, 0, 0) of block (0, 0, 0) is not", [=[
__global__ void k(const float *x, float *y, int n) {
  __shared__ float s[128];
  int i = threadIdx.x;
  if (i < n) {
    s[i] = x[i];
    __syncthreads();                                                // HERE
    y[i] = s[n - 1 - i];
  }
}]=] },
  { "a shuffle from threads that are not there", "needs thread", [=[
__global__ void k(const float *x, float *y, int n) {
  int i = threadIdx.x;
  if (i < 10)
    y[i] = __shfl_down_sync(0xffffffffu, x[i], 4);                  // HERE
}]=] },
  { "an integer division by zero", "integer division by zero in thread (3, 0, 0)", [=[
__global__ void k(const float *x, float *y, int n) {
  int i = threadIdx.x;
  if (i < n)
    y[i] = x[i] * (n / (i - 3));                                    // HERE
}]=] },
  { "an assert", "assert(x[i] > 0.f) failed in thread (0, 0, 0)", [=[
__global__ void k(const float *x, float *y, int n) {
  int i = threadIdx.x;
  if (i < n) {
    assert(x[i] > 0.f);                                             // HERE
    y[i] = x[i];
  }
}]=] },
  { "a plain value of a sum by atomics",
    "race: atomic change of index 0 of 's' (1 element) by thread (1, 0, 0) " ..
    "of block (0, 0, 0), but thread (0, 0, 0) of block (0, 0, 0) wrote it at line 4, with no barrier", [=[
__global__ void k(const float *x, float *y, int n) {
  __shared__ float s;
  int i = threadIdx.x;
  if (i == 0) s = 0.f;
  atomicAdd(&s, x[i % n]);                                          // HERE
  __syncthreads();
  if (i == 0) y[0] = s;
}]=],
    either = { "race: atomic change of index 0 of 's' (1 element)",
      "but thread (0, 0, 0) of block (0, 0, 0) wrote it at line 4" } },
  { "a sum by atomics that its last thread reads",
    "race: read of index 1 of 'y' (100 elements) by thread (127, 0, 0) " ..
    "of block (0, 0, 0), but thread (126, 0, 0) of block (0, 0, 0) changed it atomically at line 3", [=[
__global__ void k(const float *x, float *y, int n) {
  int i = threadIdx.x;
  atomicAdd(&y[1], x[i % n]);
  if (i == 127)
    y[2] = y[1];                                                    // HERE
}]=],
    either = { "race: read of index 1 of 'y' (100 elements) by thread (127, 0, 0)",
      "changed it atomically at line 3" } },
  { "a plain write into a loop around atomicCAS",
    "race: write of index 0 of 's' (1 element) by thread (9, 0, 0)", [=[
__global__ void k(const float *x, float *y, int n) {
  int i = threadIdx.x;
  __shared__ float s;
  if (i == 0) s = 0.f;
  __syncthreads();
  int *p = (int *)&s;
  int old = *p, assumed;
  do {
    assumed = old;
    old = atomicCAS(p, assumed, __float_as_int(x[i % n] + __int_as_float(assumed)));
  } while (assumed != old);
  if (i == 9)
    s = 2.f;                                                        // HERE
  __syncthreads();
  if (i == 0) y[0] = s;
}]=],
    either = { "race: atomic change of index 0 of 's' (1 element)",
      "but thread (9, 0, 0) of block (0, 0, 0) wrote it at line 13" } },
}

-- Correct kernels that are similar to the planted errors: nothing may be reported.
local clean = {
  { "reversed in shared memory", [=[
__global__ void k(const float *x, float *y, int n) {
  __shared__ float s[128];
  int i = threadIdx.x;
  s[i] = i < n ? x[i] : 0.f;
  __syncthreads();
  if (i < n) y[i] = s[n - 1 - i];
}]=] },
  { "sums by atomics, and one value written by all", [=[
__global__ void k(const float *x, float *y, int n) {
  int i = threadIdx.x;
  if (i < n) atomicAdd(&y[i % 3], x[i]);
  y[50] = 1.f;
}]=] },
  { "a loop around atomicCAS in a function", [=[
__device__ float atomic_max(float *address, float val) {
  int *p = (int *)address;
  int old = *p, assumed;
  do {
    assumed = old;
    old = atomicCAS(p, assumed, __float_as_int(fmaxf(val, __int_as_float(assumed))));
  } while (assumed != old);
  return __int_as_float(old);
}
__global__ void k(const float *x, float *y, int n) {
  __shared__ float s[3];
  int i = threadIdx.x;
  if (i < 3) s[i] = -1000.f;
  __syncthreads();
  if (i < n) atomic_max(&s[i % 3], x[i]);
  __syncthreads();
  if (i < 3) y[i] = s[i];
}]=] },
  { "a loop around atomicCAS that asks first, in shared memory", [=[
__global__ void k(const float *x, float *y, int n) {
  __shared__ float s[2];
  int i = threadIdx.x;
  if (i < 2) s[i] = 0.f;
  __syncthreads();
  float old = s[i % 2], assumed = 0.f;
  while (i < n && old < x[i]) {
    assumed = old;
    old = __int_as_float(atomicCAS((int *)&s[i % 2], __float_as_int(assumed), __float_as_int(x[i])));
    if (old == assumed) break;
  }
  __syncthreads();
  if (i < 2) y[i] = s[i];
}]=] },
  { "the guide's loop around atomicCAS over doubles", [=[
__device__ double atomic_add(double *address, double val) {
  unsigned long long int *address_as_ull = (unsigned long long int *)address;
  unsigned long long int old = *address_as_ull, assumed;
  do {
    assumed = old;
    old = atomicCAS(address_as_ull, assumed, __double_as_longlong(val + __longlong_as_double(assumed)));
  } while (assumed != old);
  return __longlong_as_double(old);
}
__global__ void k(const float *x, float *y, int n) {
  __shared__ double s;
  int i = threadIdx.x;
  if (i == 0) s = 0.;
  __syncthreads();
  if (i < n) atomic_add(&s, x[i]);
  __syncthreads();
  if (i == 0) y[0] = s;
}]=] },
  { "a barrier behind the return of some threads", [=[
__global__ void k(const float *x, float *y, int n) {
  __shared__ float s[128];
  int i = threadIdx.x;
  if (i >= n) return;
  s[i] = x[i];
  __syncthreads();
  y[i] = s[n - 1 - i];
}]=] },
  { "a reduction with its barriers", [=[
__global__ void k(const float *x, float *y, int n) {
  __shared__ float s[128];
  int i = threadIdx.x;
  s[i] = i < n ? x[i] : 0.f;
  for (int d = 64; d > 0; d /= 2) {
    __syncthreads();
    if (i < d) s[i] += s[i + d];
  }
  if (i == 0) y[0] = s[0];
}]=] },
}

local script = { [[
local flame = require "flame"
local x = flame.arange(0.0, 99) * -1
local function try(name, launch, source)
  local k = flame.kernel(source)
  local ok, e = pcall(function() return k:with(launch)(x, 100):totable() end)
  print(name .. "\t" .. (ok and "nothing" or e))
  assert((flame.ones(3) * 2):sum():item() == 6)
end]] }
do
  for _, p in ipairs(plants) do
    script[#script + 1] = ("try(%q, { %s }, [=[%s]=])"):format(p[1],
      p[4] or "grid = { 1 }, block = { 128 }", p[3])
  end
  for _, p in ipairs(clean) do
    script[#script + 1] = ("try(%q, { grid = { 1 }, block = { 128 } }, [=[%s]=])"):format(p[1],
      p[2])
  end
  script[#script + 1] = "for _, d in ipairs { 'cuda:x', 'cudaa', 'cuda:99' } do assert(not pcall(flame.zeros, 2, { device = d }), d) end"
  script[#script + 1] = "print('device\\t' .. (pcall(flame.zeros, 2, { device = 'cuda' }) and 'cuda is there' or 'no cuda'))"
  script = table.concat(script, "\n") .. "\n"
end

-- If the default device is a GPU, kernels run there too, with the checks compiled in.
local device = require("flame").default_device():match("^%a+")

--- Runs the script with all plants; returns its output and, by name of the plant, the messages.
local function run(environment, option, where)
  local path = os.tmpname()
  local f = assert(io.open(path, "w"))
  f:write(script)
  f:close()
  local pipe =
    assert(
      io.popen(("env FLAME_DEVICE=%s %s '%s' %s %s 2>&1"):format(where or "cpu", environment,
        interpreter, option, path)))
  local text = pipe:read("a")
  pipe:close()
  os.remove(path)
  local said = { text = text, path = path }
  for line in text:gmatch("[^\n]+") do
    local name, message = line:match("^(.-)\t(.*)$")
    if name then said[name] = message end
  end
  return said
end

--- The line of HERE in the kernel, and in the script.
local function lines_of(source)
  local function count(text)
    local _, n = text:gsub("\n", "")
    return n + 1
  end
  local at = source:find("HERE", 1, true)
  local first = script:find(source, 1, true)
  return count(source:sub(1, at)), count(script:sub(1, first + at - 1))
end

local ways = {
  { "FLAME_CHECK", "FLAME_CHECK=bounds,race,uninit", "", device },
  { "FLAME_SIM=1", "FLAME_SIM=1", "" },
  { "--sim", "", "--sim" },
}
for _, way in ipairs(ways) do
  describe("under " .. way[1], function()
    local said
    setup(function() said = run(way[2], way[3], way[4]) end)

    for _, p in ipairs(plants) do
      it(p[1] .. " is found", function()
        local message = said[p[1]]
        assert.truthy(message, said.text)
        -- on a GPU either of the two threads of a race may come first
        if way[4] == "cuda" and p.either and message:find(p.either[1], 1, true) then
          assert.truthy(message:find(p.either[2], 1, true), message)
          return
        end
        assert.truthy(message:find(p[2], 1, true), message)
        local line, file_line = lines_of(p[3])
        assert.truthy(
          message:find(("kernel 'k', line %d (%s:%d)"):format(line, said.path, file_line), 1, true),
          message)
      end)
    end

    it("nothing is said about what is right", function()
      for _, p in ipairs(clean) do assert.equal("nothing", said[p[1]], p[1]) end
    end)

    if way[1] ~= "FLAME_CHECK" then
      it("a script that says cuda gets the CPU", function()
        assert.equal("cuda is there", said.device)
      end)
    end
  end)
end

describe("without checks", function()
  local said
  setup(function() said = run("FLAME_CHECK=", "") end)
  it("what leaves an array or a warp or misses a barrier is found all the same", function()
    for _, k in ipairs { 1, 2, 3, 10, 11, 13 } do
      local p = plants[k]
      assert.truthy(said[p[1]] and said[p[1]]:find(p[2], 1, true), said[p[1]] or said.text)
    end
  end)
end)

describe("before a launch", function()
  local flame = require "flame"
  local k = flame.kernel [[
    __global__ void k(const float *x, float a, float *y, int n) {
      int i = blockIdx.x * blockDim.x + threadIdx.x;
      if (i < n) y[i] = a * x[i];
    }]]
  local function here() return debug.getinfo(2, "l").currentline end
  local function says(e, line, text)
    assert.truthy(e:find(("kernel_plants_spec.lua:%d:"):format(line), 1, true), e)
    assert.truthy(e:find(text, 1, true), e)
  end
  it("an argument of a wrong type is named, at the line of the call", function()
    local x = flame.ones(4)
    local line
    local e = helper.message(function() line = here() k(x, "2") end)
    says(e, line, "a must be a number (float), got string")
    e = helper.message(function() line = here() k(x:int(), 2) end)
    says(e, line, "x must be f32, got i32")
  end)
  it("a block of 2,000 threads is refused with the limit", function()
    local line
    local e = helper.message(function()
      line = here() k:with { block = { 2000 } }(flame.ones(4), 2)
    end)
    says(e, line, "block.x = 2000, need 1 to 1024")
  end)
end)

describe("a kernel that never ends", function()
  --- Runs a script with 'command' before the interpreter: it makes a kernel k that never ends for
  --- x ('after_loop' follows its loop), then does 'body'. Returns output, how it ended, status.
  local function session(command, after_loop, body)
    local path = os.tmpname()
    local f = assert(io.open(path, "w"))
    f:write([=[
local flame = require "flame"
local k = flame.kernel [[
__global__ void k(const float *x, float *y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float v = i < n ? x[i] : 3.f;
  while (v < 2.f)
    v = 0.5f * v;]=], after_loop, "\n", [=[
  if (i < n) y[i] = v;
}]]
local x = flame.ones({ 100 }, { requires_grad = true })
io.write("begun\n") io.flush()
]=], body, "\n")
    f:close()
    local pipe = assert(io.popen((command .. " '%s' %s 2>&1"):format(interpreter, path)))
    local text = pipe:read("a")
    local _, how, status = pipe:close()
    os.remove(path)
    return text, how, status
  end
  --- Checks that one SIGINT, as a terminal sends it, ends the script. Without --foreground,
  --- timeout(1) would send a second one, which kills the process. A GPU gets more time to start.
  local function is_stopped(where, body)
    local text, how, status = session(("env -u FLAME_DEBUG FLAME_DEVICE=%s timeout --foreground -s INT -k 20 %d"):format(
      where, where == "cuda" and 5 or 1), "", body)
    assert.truthy(text:find("^begun\n"), text)
    assert.truthy(text:find("interrupted!", 1, true), text)
    assert.truthy(text:find(":12: in main chunk", 1, true), text)
    assert.same({ "exit", 124 }, { how, status })       -- timeout's own: it ended after the signal
  end
  local forward, gradient = "print(k(x):sum():item())",
    "k(x):sum():backward() print(x.grad:sum():item())"
  it("is stopped by Ctrl-C", function() is_stopped("cpu", forward) end)
  it("is stopped in its gradient too", function() is_stopped("cpu", gradient) end)
  if device == "cuda" then
    it("is left behind by Ctrl-C on the GPU, and the program ends",
      function() is_stopped("cuda", forward) end)
  end
  it("is stopped by the limit of its steps", function()
    local text = session(
      ("env FLAME_DEVICE=%s FLAME_CHECK=bounds FLAME_KERNEL_STEPS=20000 timeout 60"):format(device),
      " __syncthreads();", [=[
print(pcall(function() return k(flame.ones(100)):sum():item() end))
print((flame.ones(3) * 2):sum():item())]=])
    assert.truthy(
      text:find("the step limit is reached in a loop by thread (0, 0, 0) of block (0, 0, 0)",
        1, true), text)
    assert.truthy(text:find("line [45] %("), text)
    assert.truthy(text:find("6.0", 1, true), text)
  end)
end)
