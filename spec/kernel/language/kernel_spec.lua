--- User kernels: signatures, arguments, launches, maps, and messages about misuse.
local flame = require "flame"

local SAXPY = [[
extern "C" __global__ void saxpy(float a, const float *x, const float *y, float *out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = a * x[i] + y[i];
}
]]

local helper = require "spec.support.helper"
local message, raises = helper.message, helper.raises

describe("flame.kernel", function()
  local saxpy = flame.kernel(SAXPY)

  it("runs with the number of elements left out", function()
    local x, y = flame.arange(1000.0), flame.full({ 1000 }, 3)
    local z = saxpy(2, x, y)
    assert.same({ 1000 }, z.shape)
    assert.equal("f32", z.dtype)
    assert.is_true(flame.equal(z, x * 2 + 3))
    assert.is_true(flame.equal(saxpy(2, x, y, 1000), z))
  end)

  it("gives outputs the shape of the first tensor", function()
    local x = flame.rand(3, 5)
    assert.same({ 3, 5 }, saxpy(1, x, x).shape)
  end)

  it("takes shape, grid and block from with", function()
    local x = flame.arange(10.0)
    local z = saxpy:with { shape = { 4 }, grid = { 1 }, block = { 32 } }(1, x, x)
    assert.same({ 2, 4, 6, 8 }, z:totable())
  end)

  it("works on empty tensors", function()
    assert.same({ 0 }, saxpy(1, flame.zeros(0), flame.zeros(0)).shape)
  end)

  it("joins the recorded window", function()
    local x = flame.arange(8.0)
    local z = (saxpy(2, x * x, x + 1) * 0.5):sum()
    local want = 0
    for i = 1, 8 do want = want + (2 * i * i + i + 1) * 0.5 end
    assert.equal(want, z:item())
  end)

  it("sees the values that its arguments had when it was called", function()
    local x = flame.ones(4)
    local z = saxpy(1, x, x)
    x:add_(10)
    assert.same({ 2, 2, 2, 2 }, z:totable())
  end)

  it("returns several outputs of several dtypes", function()
    local k = flame.kernel [[
      __global__ void two(const float *x, float *half_of, int *count, double *wide, int n) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < n) { half_of[i] = 0.5f * x[i]; count[i] = (int)x[i]; wide[i] = x[i] / 3.0; }
      }]]
    local a, b, c = k(flame.tensor({ 1, 2, 5 }))
    assert.same({ 0.5, 1, 2.5 }, a:totable())
    assert.equal("i32", b.dtype)
    assert.same({ 1, 2, 5 }, b:totable())
    assert.equal("f64", c.dtype)
    assert.is_true(math.abs(c[3]:item() - 5 / 3) < 1e-15)
  end)

  it("works on a copy of what is inout", function()
    local k = flame.kernel { source = [[
      __global__ void twice(float *x, int n) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < n) x[i] = x[i] * 2;
      }]], inout = { "x" } }
    local x = flame.tensor({ 1, 2, 3 })
    assert.same({ 2, 4, 6 }, k(x):totable())
    assert.same({ 1, 2, 3 }, x:totable())
  end)

  it("refuses to read an output that it has not written", function()
    local k = flame.kernel [[
      __global__ void twice(float *x, int n) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < n) x[i] = x[i] * 2;
      }]]
    assert.truthy(message(k, 4):find('inout = {"x"}', 1, true))
  end)

  it("refuses a plain += to what it has not written, and takes atomics and what is written", function()
    local function adding(line, inout)
      return flame.kernel { inout = inout, source = [[
      __global__ void add(const float *x, float *y, int n) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < n) { ]] .. line .. [[ }
      }]] }
    end
    local x = flame.tensor { 1, 2, 3 }
    assert.equal("add: adds to output 'y' (line 3) which it has not written: write = first, add "
      .. "with atomicAdd, or name it in inout = {\"y\"} and give it as an argument",
      (message(adding "y[i] += x[i];", x):gsub("^[^:]*:%d+: ", "")))
    for _, line in ipairs { "y[i] -= x[i];", "y[i]++;", "for (int k = 0; k < 3; k++) y[i] += x[i];",
        "if (x[i] > 1.f) y[i] += x[i]; else y[i] = 0.f;" } do
      assert.truthy(message(adding(line), x):find('inout = {"y"}', 1, true), line)
    end
    for _, line in ipairs { "y[i] = 0.f; y[i] += x[i];", "atomicAdd(&y[i], x[i]);",
        "atomicAdd(&y[i], 0.f); y[i] = x[i];" } do
      assert.same({ 1, 2, 3 }, adding(line)(x):totable())
    end
    assert.same({ 11, 12, 13 },
      adding("y[i] += x[i];", { "y" })(x, flame.full({ 3 }, 10.0)):totable())
  end)

  it("launches in place through the handles given", function()
    local x, y, out = flame.arange(5.0), flame.ones(5), flame.zeros(5)
    local before = out + 0
    -- the handle that was written
    assert.equal(out, saxpy:launch({ grid = { 1 }, block = { 32 } }, 3, x, y, out, 5))
    assert.same({ 4, 7, 10, 13, 16 }, out:totable())
    assert.same({ 0, 0, 0, 0, 0 }, before:totable())
  end)

  it("takes one handle given twice as one pointer", function()
    local x = flame.arange(4.0)
    assert.same({ x, n = 1 }, table.pack(saxpy:launch({ grid = 1, block = 32 }, 1, x, x, x, 4)))
    assert.same({ 2, 4, 6, 8 }, x:totable())
  end)

  it("passes structs and vectors by value", function()
    local k = flame.kernel [[
      struct Box { float low; float high[2]; int n; };
      __global__ void clip(const float *x, float *y, Box b, float2 v, int n) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < n) y[i] = fminf(fmaxf(x[i], b.low), b.high[1]) + v.x * v.y + b.n;
      }]]
    local y = k(flame.tensor({ -5, 0.5, 5 }), { low = -1, high = { 9, 2 }, n = 10 }, { 2, 3 })
    assert.same({ 15, 16.5, 18 }, y:totable())
  end)

  it("interpolates constants", function()
    local k = flame.kernel { source = [[
      __global__ void f(const float *x, float *y, int n) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < n) y[i] = x[i] * ${scale} + ${shift};
      }]], constants = { scale = 2.5, shift = 4 } }
    assert.same({ 6.5, 9 }, k(flame.tensor({ 1, 2 })):totable())
  end)

  it("is found in a chunk whose name has quotes and backslashes", function()
    for _, name in ipairs { false, [[=a "b\c".lua]] } do
      local text = [==[return require "flame".kernel [[
        __global__ void f(const float *x, float *y, int n) {
          int i = threadIdx.x;
          if (i < n) y[i] = x[i] * 3;
        }]]]==]
      local k = assert(load(text, name or nil))()
      assert.same({ 3, 6 }, k(flame.tensor({ 1, 2 })):totable())
      local r = k:report()
      -- NVRTC, if there is one, has compiled both texts
      assert.equal(r.adjoint.compiled ~= nil, r.compiled ~= nil)
    end
  end)

  it("reduces in shared memory and by shuffles", function()
    local k = flame.kernel [[
      __global__ void row_sum(const float *x, float *y, int n) {
        __shared__ float part[32];
        float s = 0;
        for (int i = threadIdx.x; i < n; i += blockDim.x) s += x[blockIdx.x * n + i];
        for (int d = 16; d > 0; d /= 2) s += __shfl_down_sync(0xffffffffu, s, d);
        if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = s;
        __syncthreads();
        if (threadIdx.x == 0) {
          float t = 0;
          for (int w = 0; w < blockDim.x / 32; w++) t += part[w];
          y[blockIdx.x] = t;
        }
      }]]
    local x = flame.arange(1.0, 6 * 100):reshape(6, 100):contiguous()
    local y = k:with { shape = { 6 }, grid = { 6 }, block = { 64 } }(x, 100)
    assert.is_true(flame.equal(y, x:sum(2)))
  end)

  it("adds atomically", function()
    local k = flame.kernel [=[
      __global__ void histogram(const int *x, int *count, int n) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < n) atomicAdd(&count[x[i]], 1);
      }]=]
    local x = flame.randint({ 1000 }, 0, 7, { dtype = "i32" })
    local y = k:with { shape = { 8 }, grid = { 4 }, block = { 256 } }(x, 1000)
    assert.equal(1000, y:sum():item())
    assert.equal(x:eq(3):sum():item(), y[4]:item())
  end)

  it("costs one launch and no copies", function()
    local x = flame.rand(256)
    flame.eval(saxpy(1, x, x))
    flame.stats("reset")
    flame.eval(saxpy(2, x, x))
    assert.equal(1, flame.stats().launches)
    assert.equal(0, flame.stats().copies)
  end)
end)

describe("an output's zeros", function()
  local n, bytes_of_x = 3000, 4 * 3000
  -- zeros stay
  local checked = os.getenv("FLAME_SIM") == "1"
    or (os.getenv("FLAME_CHECK") or ""):find("[bru][oan][uci]")
  local HEAD = "__global__ void k(const float *x, float *y, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; "
  --- The bytes that f(x) moves, and its result. Free memory is filled with NaN before.
  local function moved(f, x)
    for _ = 1, 4 do flame.eval(flame.full({ n }, 0 / 0)) end
    collectgarbage()
    flame.stats("reset")
    local y = f(x)
    flame.eval(y)
    return flame.stats().bytes_moved, y
  end
  local x = flame.arange(1.0, n)
  flame.eval(x)

  it("are left out where the kernel is proven to write all", function()
    local bytes, y = moved(flame.kernel(HEAD .. "if (i < n) y[i] = 2.f * x[i]; }"), x)
    assert.equal((checked and 3 or 2) * bytes_of_x, bytes)
    assert.equal(n * (n + 1), y:sum({ dtype = "f64" }):item())
  end)
  local near = {
    ["under another condition"] = { "if (i < n && x[i] > 10.f) y[i] = x[i]; }",
      function(i) return i <= 10 and 0 or i end },
    ["one element further"] = { "if (i + 1 < n) y[i + 1] = x[i]; }", function(i) return i - 1 end },
    ["by a loop that ends early"] = { "if (i == 0) for (int j = 0; j < n; j++) { if (x[j] > 20.f) break; y[j] = x[j]; } }",
      function(i) return i <= 20 and i or 0 end },
    ["behind a return"] = { "if (i >= n || x[i] > 5.f) return; y[i] = x[i]; }",
      function(i) return i <= 5 and i or 0 end },
    ["by adding"] = { "if (i < n) atomicAdd(&y[i / 2], x[i]); }",
      function(i) return i <= n // 2 and 4 * i - 1 or 0 end },
  }
  for what, q in pairs(near) do
    it("are there for a kernel that writes " .. what, function()
      local _, y = moved(flame.kernel(HEAD .. q[1]), x)
      for i, v in ipairs(y:totable()) do assert.equal(q[2](i), v) end
    end)
  end
  it("are there for a loop that begins where another one is", function()
    local k = flame.kernel(HEAD .. "for (int a = 0; a < 2; a++) for (int b = a; b < 2; b++) y[4 * i + 2 * a + b] = x[i]; }")
    local _, y = moved(k:with { grid = { 3 }, block = { 250 } }, x)
    for i, v in ipairs(y:totable()) do assert.equal(i % 4 == 3 and 0 or (i - 1) // 4 + 1, v) end
  end)
  it("are there when the launch is too small", function()
    local _, y = moved(flame.kernel(HEAD .. "if (i < n) y[i] = x[i]; }"):with { grid = { 3 } }, x)
    for i, v in ipairs(y:totable()) do assert.equal(i <= 768 and i or 0, v) end
    _, y = moved(function(v) return flame.kernel(HEAD .. "if (i < n) y[i] = x[i]; }")(v, 100) end,
      x)
    for i, v in ipairs(y:totable()) do assert.equal(i <= 100 and i or 0, v) end
  end)
  it("and the old contents are not copied for a launch that writes all", function()
    local k = flame.kernel(HEAD .. "if (i < n) y[i] = 3.f * x[i]; }")
    local into = flame.full({ n }, 7)
    flame.eval(into)
    k:launch({ grid = { 12 }, block = { 256 } }, x, into, n)
    assert.equal(3 * n, into[n]:item())
    k:launch({ grid = { 1 }, block = { 256 } }, x * 2, into, n)
    assert.equal(6 * 256, into[256]:item())
    assert.equal(3 * 257, into[257]:item())
  end)
  it("are left out of gradients that are stored once", function()
    local k = flame.kernel(HEAD .. "if (i < n) { float v = x[i]; y[i] = v * v; } }")
    local w = flame.arange(1.0, n):requires_grad_()
    local g = flame.arange(1.0, n)
    flame.eval(w, g)
    local y = k(w)
    flame.eval(y)
    y:gradients({ w }, { seed = g, retain_graph = true })[w]:sum():item()
    local bytes, d = moved(function(seed) return y:gradients({ w }, { seed = seed })[w] end, g)
    assert.equal((checked and 4 or 3) * bytes_of_x, bytes)
    assert.equal(2 * n * n, d[n]:item())
  end)
end)

describe("misuse of a kernel raises before the launch:", function()
  local saxpy = flame.kernel(SAXPY)
  local x = flame.ones(4)
  local cases = {
    { "count", function() saxpy(1, x) end, "2 arguments, need 3 or 4" },
    { "type", function() saxpy(1, x, 3) end, "y must be a tensor, got number" },
    { "scalar type", function() saxpy("a", x, x) end, "a must be a number (float), got string" },
    { "integer", function() saxpy(1, x, x, 1.5) end, "n must be an integer (int), got 1.5" },
    { "range", function() saxpy(1, x, x, 1 << 40) end, "n = 1099511627776 does not fit in int" },
    { "dtype", function() saxpy(1, x, x:double()) end, "y must be f32, got f64" },
    { "contiguity", function() saxpy(1, x, flame.ones(4, 2):select(2, 1)) end, "not contiguous" },
    { "block", function() saxpy:with { block = { 2000 } }(1, x, x) end,
      "block.x = 2000, need 1 to 1024" },
    { "threads", function() saxpy:with { block = { 64, 32 } }(1, x, x) end,
      "2048 threads, at most 1024" },
    { "grid", function() saxpy:with { grid = { 1, 70000 } }(1, x, x) end,
      "grid.y = 70000, need 1 to 65535" },
    { "grid function without a result", function()
      saxpy:with { grid = function() end }(1, x, x)
    end,
      "the grid function must return a number or a list of up to 3, got nil" },
    { "grid function with a part of a block", function()
      saxpy:with { grid = function() return 1.5 end }(1, x, x)
    end,
      "grid must be an integer, got number 1.5" },
    { "size of the outputs", function() saxpy:with { shape = { 1 << 55 } }(1, x, x) end,
      "an output of shape (36028797018963968) is too large" },
    { "option", function() saxpy:with { blocks = 3 } end, "no option 'blocks'" },
    { "no kernel", function() flame.kernel("int f() { return 1; }") end, "no __global__ function" },
    { "entry", function() flame.kernel { source = SAXPY, entry = "axpy" } end,
      "there is no entry 'axpy', the source has: saxpy" },
    { "tracked target", function()
      saxpy:launch({ grid = 1 }, 1, x, x, flame.zeros({ 4 }, { requires_grad = true }), 4)
    end, "out is tracked" },
    { "view target",
      function() saxpy:launch({ grid = 1 }, 1, x, x, flame.zeros(8)[{ { 1, 4 } }], 4) end, "view" },
    { "binary", function() flame.cuda.load(SAXPY, "saxpy") end,
      "this is CUDA C: use flame.kernel" },
    { "map arity", function() flame.map("x, y -> x + y")(x) end, "1 operands" },
  }
  for _, c in ipairs(cases) do
    it(c[1], function() assert.truthy(message(c[2]):find(c[3], 1, true), message(c[2])) end)
  end
end)

describe("a fault in a kernel on the CPU", function()
  local function faulty(body, n)
    local k = flame.kernel("__global__ void k(const float *x, float *y, int n) {\n  int i = blockIdx.x * blockDim.x + threadIdx.x;\n" ..
      body .. "\n}")
    return function() return k(flame.ones(n or 100)):totable() end
  end
  if (flame.default_device():sub(1, 4) == "cuda") then return end

  it("out of range by one is named with line, index and thread", function()
    local e = message(faulty("  if (i <= n) y[i] = 1;"))
    assert.truthy(e:find("line 3", 1, true), e)
    assert.truthy(e:find("100", 1, true), e)
  end)

  it("leaves the session as it was", function()
    pcall(faulty("  y[i] = x[i];"))
    assert.equal(3, (flame.ones(3):sum()):item())
  end)

  it("divergent barriers are reported", function()
    assert.truthy(message(faulty("  if (i < 10) __syncthreads();\n  if (i < n) y[i] = 1;"))
      :find("__syncthreads() is not reached", 1, true))
  end)
end)

describe("a kernel whose blocks meet", function()
  local function meets(body, how)
    how.source = [[
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
__global__ void meets(const float *x, float *y, float *z, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
]] .. body .. "\n}"
    how.block = { 8 }
    return flame.kernel(how)
  end
  local on_cpu = flame.default_device() == "cpu"

  it("says which block does not come to the barrier", function()
    local k = meets("  if (blockIdx.x != 2) cg::this_grid().sync();\n  y[i] = z[i] = x[i];",
      { grid = { 4 } })
    if not on_cpu then return end
    local why = helper.message(function() return k(flame.ones(32)):sum():item() end)
    assert.truthy(why:find("line 5 ", 1, true) and why:find("sync() of the grid is not reached by "
      .. "all threads: thread (0, 0, 0) of block (3, 0, 0) is there, thread (0, 0, 0) of block "
      .. "(2, 0, 0) is not", 1, true), why)
    k = meets("  if (i != 17) cg::this_grid().sync();\n  y[i] = z[i] = x[i];", { grid = { 4 } })
    why = helper.message(function() return k(flame.ones(32)):sum():item() end)
    assert.truthy(why:find("block (2, 0, 0) is there, thread (1, 0, 0) of block (2, 0, 0) is not", 1,
      true), why)
  end)

  it("is refused where the CPU can not keep all blocks", function()
    local k = meets("  y[i] = x[0];\n  cg::this_grid().sync();\n  z[i] = y[n - 1 - i];",
      { grid = { 400000 }, shape = { 3200000 } })
    if not on_cpu then return end
    local why = helper.message(function() return k(flame.ones(1)):sum():item() end)
    assert.truthy(why:find("a grid of (400000, 1, 1)", 1, true) and
      why:find("at most 256 MB; give it a smaller grid", 1, true), why)
    assert.equal(800, k:with { grid = { 100 }, shape = { 800 } }(flame.ones(1)):sum():item())
  end)

  it("has races before the barrier only", function()
    local script = [==[
local flame = require "flame"
local k = flame.kernel { block = { 8 }, grid = { 4 }, source = [=[
#include <cooperative_groups.h>
__global__ void k(const float *x, float *y, float *z, int n) {
  __shared__ float s[8];
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  for (int r = 0; r < 70; ++r) {
    s[threadIdx.x] = y[i] = x[i] + r;
    cooperative_groups::this_grid().sync();
    z[i] = y[n - 1 - i] + s[7 - threadIdx.x];
    if (n > 0) cooperative_groups::this_grid().sync();
  }
}]=] }
local x = flame.ones(32)
local _, z = k(x)
print(z:sum():item())
print(select(2, pcall(function()
  local _, w = flame.kernel { block = { 8 }, grid = { 4 }, source = k:source():gsub("if %(n > 0%)", "if (n < 0)") } (x)
  return w:sum():item()
end)))]==]
    local path = os.tmpname()
    local f = assert(io.open(path, "w"))
    f:write(script)
    f:close()
    local p = assert(io.popen(("FLAME_DEVICE=cpu FLAME_CHECK=race,uninit '%s' %s 2>&1"):format(
      dofile("spec/support/interpreter.lua"), path)))
    local text = p:read "a"
    p:close()
    os.remove(path)
    assert.truthy(text:find("^4480%.0\n"), text)
    assert.truthy(text:find("race: write of index", 1, true), text)
  end)
end)

describe("flame.map", function()
  it("broadcasts, fuses and differentiates", function()
    local dist = flame.map("x, y -> sqrtf(x*x + y*y)")
    local x, y = flame.tensor({ { 3 }, { 6 } }, { requires_grad = true }), flame.tensor({ 4, 8 })
    local z = dist(x, y)
    assert.same({ 2, 2 }, z.shape)
    assert.close(5, z[{ 1, 1 }]:item(), 1e-6)
    z:sum():backward()
    assert.close(3 / 5 + 3 / math.sqrt(73), x.grad[{ 1, 1 }]:item(), 1e-6)
  end)

  it("is as one kernel with its surroundings", function()
    local f = flame.map("x -> x > 0.f ? x * x : expf(x) - 1.f")
    local x = flame.randn(1000)
    flame.eval(f(x) * 2)
    flame.stats("reset")
    flame.eval(f(x) * 2 + 1)
    assert.equal(1, flame.stats().launches)
  end)

  it("takes functions that have no op through a kernel", function()
    local f = flame.map("x -> j0f(x) + cospif(x)")
    local x = flame.tensor({ 0, 0.5, 1 }, { requires_grad = true })
    local y = f(x)
    assert.close(2, y[1]:item(), 1e-5)
    y:sum():backward()
    assert.same({ 3 }, x.grad.shape)
  end)
end)

describe("a cubin", function()
  --- A minimal ELF file as NVRTC makes it: a name table and, for each kernel, a section .nv.info
  --- with the sizes of its parameters.
  local function cubin(kernels)
    local names, parts, sections = "\0.shstrtab\0", {}, {}
    local at = 64
    for _, k in ipairs(kernels) do
      local info = ""
      for i, bytes in ipairs(k[2]) do
        info = info .. string.pack("<I1I1I2I4I2I2I4", 4, 0x17, 12, 0, i - 1, 0, bytes << 18)
      end
      sections[#sections + 1] = { #names, at, #info }
      names, at, parts[#parts + 1] = names .. ".nv.info." .. k[1] .. "\0", at + #info, info
    end
    local body = table.concat(parts) .. names
    sections[#sections + 1] = { 1, at, #names }
    local headers = ""
    for _, s in ipairs(sections) do
      headers = headers .. string.pack("<I4I4I8I8I8I8I4I4I8I8", s[1], 1, 0, 0, s[2],
        s[3], 0, 0, 1, 0)
    end
    return string.pack("<c4I4I8I2I2I4I8I8I8I4I2I2I2I2I2I2", "\127ELF", 0x10102, 0, 2, 190, 1, 0, 0,
      64 + #body, 0, 64, 0, 0, 64,
      #sections, #sections - 1) .. body .. headers
  end
  local image = cubin { { "scale", { 8, 8, 4 } }, { "other", { 8, 12 } } }
  it("tells its entries and their parameters", function()
    assert.equal("flame.kernel scale",
      tostring(flame.cuda.load(image, "scale", { params = { "float *", "float *", "int" } })))
    local k = flame.cuda.load(image, "scale")
    assert.equal(3, #k:report().parameters)
    assert.truthy(k:report().parameters[3]:find("^int "))
  end)
  it("with an unknown entry or a struct is refused", function()
    helper.raises("there is no entry 'third', the binary has: scale, other",
      flame.cuda.load, image, "third")
    raises("parameter 2 of 'other' is a struct of 12 bytes", flame.cuda.load, image, "other")
    helper.raises("cuda.load: this binary has no kernel", flame.cuda.load, cubin {})
  end)
  it("that is cut off or changed is told", function()
    for n = 4, #image - 1 do
      helper.raises(("cuda.load: this cubin is not whole: it has %d bytes"):format(n),
        flame.cuda.load, image:sub(1, n), "scale")
    end
    for n = 5, #image do
      for _, c in ipairs { "\0", "\x7f", "\x80", "\xff" } do
        local text = image:sub(1, n - 1) .. c .. image:sub(n + 1)
        local ok, why = pcall(flame.cuda.load, text, "scale")
        assert.truthy(ok or why:find "cuda.load: th" or why:find "cuda.load: param", why)
      end
    end
  end)
end)

describe("a kernel that is a template", function()
  local text = [[
    template <typename T> __global__ void k(T *y, const T *x, int n);
    template <typename T> __global__ void k(T *__restrict__ y, const T *x, const int n) {
      int i = threadIdx.x;
      if (i < n) y[i] = x[i] + (T)1;
    }
    template <> __global__ void k(double *__restrict__ out, const double* in, const int m) {
      int i = threadIdx.x;
      if (i < m) out[i] = in[i] * 2;
    }
    template <> __global__ void k<int>(int *y, const int *x, const int n) {
      int i = threadIdx.x;
      if (i < n) y[i] = x[i] * 3;
    }
    template __global__ void k<float>(float *, const float *, const int);
    #ifdef NOT_DEFINED
    template <> __global__ void k(short *out, const short *in, const int m) { out[0] = 77; }
    #endif
  ]]
  local compiler = flame.kernel("__global__ void k(float *x) { x[0] = 1.f; }")
  for type, case in pairs { float = { "f32", 6 }, double = { "f64", 10 }, int = { "i32", 15 },
    short = { "i16", 6 } } do
    it("is the specialisation of its arguments where there is one: " .. type, function()
      local k = flame.kernel { source = text, entry = "k<" .. type .. ">", block = { 32 } }
      assert.equal(case[2], k(flame.tensor({ 5, 6 }, { dtype = case[1] })):totable()[1])
      assert.equal(compiler:report().registers > 0, k:report().registers > 0)
    end)
  end
  it("is compiled as it was read where code for the host stands beside it", function()
    local k = flame.kernel { entry = "twice", block = { 32 }, source = [[
      #include <vector>
      #include "utils.h"
      struct Timer { cudaEvent_t begin, end; std::vector<float> times; void start(); };
      void Timer::start() { cudaEventRecord(begin); }
      static std::string name(const std::vector<int> &v) { return "x"; }
      __device__ float two() { return 2.f; }
      __global__ void twice(const float *x, float *y, int n) {
        int i = threadIdx.x;
        if (i < n) y[i] = two() * x[i];
      }
      template <typename T> void launch(T *x, cudaStream_t stream) {
        twice<<<1, 32, 0, stream>>>(x, x, 3);
      }
      int main(int argc, char **argv) {
        float *x;
        cudaMalloc(&x, 12);
        for (int i = 0; i < 100; i++) twice<<<1, 32>>>(x, x, 3);
        printf("%s\n", cudaGetErrorString(cudaGetLastError()));
        return 0;
      }]] }
    assert.equal(10, k(flame.tensor { 5, 6 }):totable()[1])
    assert.equal(compiler:report().registers > 0, k:report().registers > 0)
  end)
  it("says what of a struct is not known where its value is a parameter", function()
    local why = helper.message(flame.kernel,
      "struct P { float v; Unknown u; cudaStream_t s; };\n" ..
      "__global__ void k(P p, float *y) { y[0] = p.v; }")
    assert.truthy(why:find("parameter p: .* 'P': unknown type 'Unknown'"), why)
    local k = flame.kernel("struct P { float v; cudaStream_t stream; };\n" ..
      "__global__ void k(P p, float *y) { y[0] = p.v; }")
    assert.is_nil(k:report().refusal)
  end)
  it("is read beside a variable that has no type, which is refused where it is cut off", function()
    local why = helper.message(flame.kernel, "__device__ void n{mnm")
    assert.truthy(why:find("'n' has no type of a variable", 1, true), why)
  end)
  it("is asked for by name where the text has no other kernel, whatever else is not read", function()
    local why = helper.message(flame.kernel, "void run(cudaStream_t s) { }\n" ..
      "template <typename T>\nvoid __global__ k(T *x) { x[0] = 1; }")
    assert.truthy(why:find("line 2.*named with its arguments"), why)
  end)
end)
