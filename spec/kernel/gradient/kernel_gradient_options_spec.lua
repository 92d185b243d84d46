--- Options for a kernel's derivative: arguments without a gradient, a rule written by hand,
--- gradients with the same bits in each run; refusals and their messages; values kept for backward;
--- k:source and k:report. Runs on the default device.
local flame = require "flame"
local helper = require "spec.support.helper"
local proof = dofile("spec/kernel/kernel_proof.lua")
local machine = dofile("spec/support/machine.lua")

local small = dofile("spec/kernel/kernel_body.lua")
local f64, wave, kernel = small.f64, small.wave, small.kernel

describe("an argument marked nodiff", function()
  local k = kernel("const double *x, const double *w, double *y", "y[i] = x[i] * x[i] * w[i];", 3,
    3, nil, { nodiff = { "w" } })
  it("gets no gradient", function()
    local x, w = f64 { 1, 2, 3 }:requires_grad_(true), f64 { 4, 5, 6 }:requires_grad_(true)
    local g = k(x, w):sum():gradients({ x, w }, { allow_unused = true })
    assert.same({ 8, 20, 36 }, g[x]:totable())
    assert.is_nil(g[w])
  end)
  it("gets none of second order", function()
    local x, w = f64 { 1, 2, 3 }:requires_grad_(true), f64 { 4, 5, 6 }:requires_grad_(true)
    local g = k(x, w):sum():gradients({ x }, { create_graph = true })[x]
    local h = g:sum():gradients({ x, w }, { allow_unused = true })
    assert.same({ 8, 10, 12 }, h[x]:totable())
    assert.is_nil(h[w])
  end)
  it("may be what could not be differentiated", function()
    local hash = kernel("const double *x, const float *seed, double *y",
      "int b = __float_as_int(seed[i]); y[i] = x[i] * x[i] * (b & 3);", 3, 3, nil,
      { nodiff = { "seed" } })
    local seed = flame.tensor({ 1, 2, 3 }, { requires_grad = true })
    proof.check(function(x) return hash(x, seed) end, { f64 { 1, 2, 3 } })
  end)
end)

describe("a gradient written by hand", function()
  it("in Lua: f(cotangents…, arguments…) returns a gradient for each argument", function()
    local calls = 0
    local k = kernel("const double *x, const double *w, double *y",
      "y[i] = x[i] * w[i];", 3, 3, nil, {
      vjp = function(g, x, w)
        calls = calls + 1
        return g * w, g * x
      end })
    proof.check(k, { f64 { 1, 2, 3 }, f64 { -1, 0.5, 2 } })
    assert.is_true(calls > 0)
  end)
  it("in Lua, for a kernel that has no derived one", function()
    local k = kernel("const float *x, float *y",
      "float e = __int_as_float((__float_as_int(x[i]) & 0x7f800000)); y[i] = x[i] / e;",
      3, 3, nil,
      { vjp = function(g, x) return g / (x / x:abs() * x:abs():log2():floor():exp2()) end })
    local x = flame.tensor({ 1.5, 3, 5 }, { requires_grad = true })
    k(x):sum():backward()
    assert.allclose({ 1, 0.5, 0.25 }, x.grad:totable())
  end)
  it("in CUDA C: outputs d<name>", function()
    local k = flame.kernel { source = [[
      __global__ void k(const double *x, const double *w, double *y, int n) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < n) y[i] = x[i] * x[i] * w[i];
      }]], vjp = [[
      __global__ void back(const double *x, const double *w, int n, const double *g, double *dx, double *dw) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < n) { dx[i] = 2.0 * g[i] * x[i] * w[i]; dw[i] = g[i] * x[i] * x[i]; }
      }]] }
    proof.check(function(x, w) return k(x, w) end, { f64(wave(5)), f64(wave(5, 1)) })
  end)
end)

describe("a gradient written by hand that does not fit", function()
  local source = [[
    __global__ void k(const double *x, double *y, int n) {
      int i = blockIdx.x * blockDim.x + threadIdx.x;
      if (i < n) y[i] = 2.0 * x[i];
    }]]
  local cases = {
    { "a wrong shape", function() return flame.zeros(5) end,
      "k: vjp: the gradient by x must be a tensor of shape (3), got (5)" },
    { "a number", function() return 2 end,
      "k: vjp: the gradient by x must be a tensor of shape (3), got number" },
    { "an output of another name", "__global__ void b(const double *x, int n, const double *g, double *out) { }",
      "k: vjp: output 'out' is no gradient of a parameter" },
    { "parameters in another order", "__global__ void b(const double *x, const double *g, double *dx) { }",
      "k: vjp: parameter 2, g, does not fit" },
    { "too many parameters", "__global__ void b(const double *x, int n, const double *g, int m, double *dx) { }",
      "k: vjp: parameter 4, m, does not fit" },
  }
  for _, c in ipairs(cases) do
    it("says so: " .. c[1], function()
      local k = flame.kernel { source = source, vjp = c[2] }
      local x = f64 { 1, 2, 3 }:requires_grad_(true)
      local e = helper.message(function() k(x):sum():backward() end)
      assert.truthy(e:find(c[3], 1, true), e)
    end)
  end
end)

describe("no gradient but a message with kernel, line and reason:", function()
  local cases = {
    { "inline asm", 3, "inline asm", [[
  float r;
  asm("copysign.f32 %0, %1, %1;" : "=f"(r) : "f"(x[i]));
  y[i] = r;]] },
    { "goto", 2, "goto", [[
  if (i >= n) goto done;
  y[i] = x[i];
  done: return;]] },
    { "recursion", 3, "recursion", "  y[i] = f(x[i], 3);",
      "__device__ float f(float x, int n) {\n  if (n == 0) return x;\n  return f(x * x, n - 1);\n}\n" },
    { "function pointers", 2, "function pointers", "  float (*g)(float) = f;\n  y[i] = g(x[i]);",
      "__device__ float f(float x) { return x; }\n" },
    { "variadic templates of structs with pointers in them", 2, "pointers stored in memory",
      "  S<const float *> s[2] = {{x}, {x}};\n  y[i] = s[i & 1].a[i];",
      "template <class... T> struct S;  template <class A> struct S<A> { A a; };\n" },
    { "mutable lambdas", 2, "mutable lambdas",
      "  auto f = [=](float v) mutable { return v; };\n  y[i] = f(x[i]);" },
    { "the clock", 2, "clock", "  y[i] = x[i] * clock64();" },
    { "parts of numbers in memory", 4, "the bits of a real number",
      "  y[i] = 2.f * x[i];\n  char *p = (char *)y;\n  p[4 * i] = 0;" },
    { "pointers in memory", 2, "arrays of pointers",
      "  const float *p[2];\n  p[0] = x;\n  y[i] = p[0][i];" },
    { "the bits of a number", 2, "the bits of a real number",
      "  y[i] = __int_as_float(__float_as_int(x[i]) + 1);" },
    { "an exchange", 2, "atomicExch on 'y'", "  atomicExch(&y[i / 2], x[i]);" },
    { "a comparison and swap", 3, "atomicCAS o", [[
  if (i < n)
    atomicCAS(&y[0], 0.f, x[i]);]] , nil, "cuda refuses it itself" },
    { "the old value of an atomic sum", 2, "the result of an atomic operation on 'y'",
      "  float old = atomicAdd(&y[0], x[i]);\n  y[1 + i] = old;" },
    { "a shuffle of varying width", 2, "a shuffle whose width is not constant",
      "  y[i] = __shfl_down_sync(0xffu, x[i], 1, n & 8);" },
    { "an array summed to and read across a loop", 2, "a loop in which 'y' is read and rewritten",
      "  for (int t = 0; t < 4; t++) {\n    atomicAdd(&y[t], x[i]);\n    y[t + 1] = y[t] * y[t];\n  }" },
  }
  for _, c in ipairs(cases) do
    it(c[1], function()
      local before = c[5] or ""
      local _, first = before:gsub("\n", "")
      local k
      local ok, e = pcall(function()
        k = flame.kernel(before
          .. "__global__ void k(const float *x, float *y, int n) { int i = threadIdx.x;\n"
          .. c[4] .. "\n}")
      end)
      if not ok and c[6] then return assert.truthy(e:find("atomicCAS", 1, true), e) end
      assert(ok, e)
      local r = k:report()
      local text = r.refusal or r.adjoint.refusal
      assert.truthy(text, "it has a gradient")
      local line = c[1] == "recursion" and c[2] or first + c[2]
      assert.truthy(text:find(("kernel 'k', line %d"):format(line), 1, true), text)
      assert.truthy(text:find("kernel_gradient_options_spec.lua:", 1, true), text)
      assert.truthy(text:find(c[3], 1, true), text)
    end)
  end

  it("but a gradient where a pointer is to a variable or into an array", function()
    for text, want in pairs {
      ["const float c = 2.f * i, *p = i < 3 ? x : &c; y[i] = p[0];"] = { 3, 0, 0, 0, 0, 0, 0, 0 },
      ["const float c = 2.f * i, *p = x; if (i >= 3) p = &c; y[i] = p[0];"] =
        { 3, 0, 0, 0, 0, 0, 0, 0 },
      ["float a[2] = {1.f, 2.f * i}; const float *p = i < 3 ? x : a; y[i] = p[1];"] =
        { 0, 3, 0, 0, 0, 0, 0, 0 },
      ["float a[2] = {1.f, x[i]}, b = x[i], *p = i < 3 ? &a[1] : &b; *p *= 2.f; y[i] = a[1] * b;"] =
        { 4, 8, 12, 16, 20, 24, 28, 32 } } do
      local k = flame.kernel { block = 8, shape = { 8 }, source =
        "__global__ void k(const float *x, float *y) { int i = threadIdx.x; " .. text .. "}" }
      local x = flame.arange(8.0):requires_grad_(true)
      assert.same(want, k(x):sum():gradients({ x })[x]:totable())
    end
  end)

  it("when the gradient is asked for, with what to do", function()
    local k = kernel("const float *x, float *y",
      "y[i] = __int_as_float(__float_as_int(x[i]) + 1);", 4)
    local x = flame.ones({ 4 }, { requires_grad = true })
    local y = k(x)                                   -- the kernel itself runs
    assert.is_true(y[1]:item() > 1)
    local e = helper.message(function() y:sum():backward() end)
    assert.truthy(e:find("line 4", 1, true), e)
    assert.truthy(e:find("give vjp = ... or mark the argument nodiff", 1, true), e)
    assert.equal(4, (flame.ones(4) + 0):sum():item())
  end)

  it("a barrier in a branch that not all threads take", function()
    if flame.default_device() ~= "cpu" then return end
    local k = kernel("const float *x, float *y", [[
      __shared__ float s[32];
      s[i] = x[i];
      if (i < 16) __syncthreads();
      y[i] = s[31 - i];]], 32)
    local x = flame.ones({ 32 }, { requires_grad = true })
    local e = helper.message(function() return k(x):sum():gradients({ x })[x]:totable() end)
    assert.truthy(e:find("line 6", 1, true), e)
    assert.truthy(e:find("__syncthreads() is not reached by all threads", 1, true), e)
  end)
end)

describe("what a gradient needs", function()
  local k = kernel("const double *x, const double *w, double *y", "y[i] = x[i] * w[i] * w[i];", 3)
  it("is as it was at the call, whatever is written later", function()
    local x = f64 { 1, 2, 3 }:requires_grad_(true)
    local a, w = x * 1, f64 { 1, 1, 2 }
    local y = k(a, w)
    flame.no_grad(function() a:mul_(0) end)
    w:zero_()
    y:sum():backward()
    assert.same({ 1, 1, 4 }, x.grad:totable())
    assert.same({ 1, 2, 12 }, y:totable())
  end)
  it("is as it was for second derivatives too", function()
    local x, w = f64 { 1, 2, 3 }:requires_grad_(true), f64 { 1, 1, 2 }:requires_grad_(true)
    local v = w * 1
    local g = k(x, v):sum():gradients({ x }, { create_graph = true })[x]
    flame.no_grad(function() v:fill_(100) end)
    assert.same({ 2, 2, 4 }, g:sum():gradients({ w })[w]:totable())
  end)
  it("is not kept where no gradient is wanted", function()
    local x = f64 { 1, 2, 3 }:requires_grad_(true)
    assert.is_false(flame.no_grad(function() return k(x, x) end).requires_grad)
  end)
  it("stays when an inout argument is written by another call", function()
    local square = kernel("double *x", "x[i] = x[i] * x[i];", 3, 3, nil, { inout = { "x" } })
    local x = f64 { 1, 2, 3 }:requires_grad_(true)
    local y = square(square(square(x)))
    y:sum():backward()
    assert.allclose({ 8, 8 * 2 ^ 7, 8 * 3 ^ 7 }, x.grad:totable())
    assert.same({ 1, 2, 3 }, x:totable())
  end)
end)

describe("deterministic gradients", function()
  local k = flame.kernel { source = [=[
    __global__ void gather(const int *at, const float *x, float *y, int n) {
      int i = blockIdx.x * blockDim.x + threadIdx.x;
      if (i < n) y[i] = x[at[i]] * x[at[i]];
    }]=], shape = function(at) return { at:numel() } end }
  local at = flame.randint({ 20000 }, 0, 6, { dtype = "i32" })
  local x, g = flame.randn(7), flame.randn(20000)

  local function gradient()
    local v = x:detach():requires_grad_(true)
    return k(at, v):gradients({ v }, { seed = g })[v]
  end

  it("have the same bits each time", function()
    local first = gradient()
    for _ = 1, 5 do assert.is_true(flame.equal(first, gradient())) end
  end)
  it("agree with those by atomics", function()
    local first = gradient()
    flame.deterministic(false)
    local ok, second = pcall(gradient)
    flame.deterministic(true)
    assert(ok, second)
    assert.allclose(first:totable(), second:totable(), { rtol = 1e-3, atol = 1e-2 })
  end)
end)

describe("looking inside:", function()
  local k = kernel("const double *x, double *y, int n",
    "double v = x[i]; for (int j = 0; j < n; ++j) v = sin(v); y[i] = v;", 4)
  it("k:source gives the text, the adjoint and the tangent", function()
    assert.truthy(k:source():find("__global__ void k(", 1, true))
    local head = "__global__ void k_%s(const double *__restrict__ x"
    assert.truthy(k:source("adjoint"):find(head:format("vjp"), 1, true))
    assert.truthy(k:source("tangent"):find(head:format("jvp"), 1, true))
    assert.has_error(function() k:source("backward") end)
  end)
  it("k:report gives parameters, saved bytes and sums", function()
    local r = k:report()
    assert.equal("k", r.name)
    assert.equal(3, #r.parameters)
    assert.is_nil(r.refusal)
    assert.is_true(r.adjoint.saved_bytes >= 256 and r.adjoint.saved_bytes <= 1024,
      r.adjoint.saved_bytes)
    for _, name in ipairs { "registers", "spills", "plain", "block_sums", "atomics",
        "slot_bytes" } do
      assert.equal("integer", math.type(r.adjoint[name]), name)
    end
    local kept = 0
    for _, loop in ipairs(r.adjoint.loops) do
      assert.truthy(loop.line >= 1 and loop.where:find("%.lua:%d"))
      kept = kept + loop.bytes
    end
    assert.equal(r.adjoint.saved_bytes, kept)
    local text = "  line %d: %d bytes per thread for the loop"
    local loop = r.adjoint.loops[1]
    assert.truthy(tostring(r):find(text:format(loop.line, loop.bytes), 1, true))
    -- by NVRTC, where there is no device
    assert.equal(r.adjoint.compiled ~= nil, r.adjoint.registers > 0)
    assert.same({ "x" }, r.adjoint.keeps)
  end)
  it("k:report tells shared memory, and the block that was chosen", function()
    local one = flame.kernel { source = [[__global__ void one(const float *x, float *y, int n) {
      __shared__ float s[64];
      int i = blockIdx.x * blockDim.x + threadIdx.x;
      s[threadIdx.x] = i < n ? x[i] : 0;
      __syncthreads();
      if (i < n) y[i] = s[63 - threadIdx.x] * s[0];
    }]], block = "auto" }
    assert.is_nil(one:report().block)
    flame.eval(one(flame.ones(100)))
    local r = one:report()
    assert.same({ 64, 1, 1 }, r.block)
    assert.equal(256, r.shared_bytes)
    assert.is_true(r.adjoint.shared_bytes > 256)
    assert.truthy(tostring(r):find("256 bytes of shared memory, blocks of 64 x 1 x 1", 1, true))
  end)
  it("k:report names a line of sums that no mode orders: into shared memory, by several threads", function()
    local q = flame.kernel { source = [=[
      __global__ void q(const float *x, float *y, int n) {
        __shared__ float s[32];
        s[threadIdx.x] = x[threadIdx.x];
        __syncthreads();
        y[threadIdx.x] = s[threadIdx.x % n];
      }]=], block = { 32 } }
    local r = q:report().adjoint
    assert.equal(5, r.unordered)
    assert.matches("\n  line 5: summed in any order on a GPU, deterministic or not",
      tostring(q:report()))
    assert.is_nil(k:report().adjoint.unordered)
  end)
  it("an element is known to be one thread's own behind any number of other quotients", function()
    local reads = {}
    for by = 5, 24 do reads[#reads + 1] = ("x[i / %d]"):format(by) end
    local q = flame.kernel { source = [[
      __global__ void q(const float *x, const float *z, float *y, int n) {
        int i = blockIdx.x * blockDim.x + threadIdx.x, j = i / 4 * 8 + i % 4;
        float s = ]] .. table.concat(reads, " + ") .. [[;
        if (i < n) y[j] = s + z[j] * z[j + 4];
      }]], block = { 32 } }
    assert.is_nil(q:report().adjoint.unordered)
  end)
  it("k:report names the lines of what is added to memory", function()
    local here = debug.getinfo(1, "l").currentline
    local q = flame.kernel [=[
      __global__ void q(const float *x, const int *at, const float *w, float *y, int n) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i >= n) return;
        float v = x[at[i]] * w[i];
        atomicAdd(&y[at[i]], v);
      }]=]
    local r = q:report()
    assert.same(
      { { line = 5, where = ("kernel_gradient_options_spec.lua:%d"):format(here + 6), array = "y",
      plain = 0, block_sums = 0, atomics = 1 } },
    { { line = r.lines[1].line, where = r.lines[1].where:match("[^/]+$"), array = r.lines[1].array,
      plain = r.lines[1].plain, block_sums = r.lines[1].block_sums,
      atomics = r.lines[1].atomics } })
    local by = {}
    for _, l in ipairs(r.adjoint.lines) do by[l.array] = l end
    assert.equal(4, by.x.line)
    assert.equal(1, by.x.atomics)
    assert.equal(4, by.w.line)
    assert.equal(1, by.w.plain)
    assert.equal(0, by.w.atomics)
    assert.same({ "x", "at", "w" }, r.adjoint.keeps)
    local text = tostring(r)
    assert.matches("^q: .*\n  const float %*x: in\n", text)
    assert.matches("\n  line 4: gradient of x: atomics 1\n", text)
    assert.matches("\n  keeps x, at, w$", text)
  end)
end)

describe("a derivative that needs more shared memory than a block has", function()
  local text <const> = [[
    __global__ void turned(const float *x, float *y, int n) {
      STATIC
      extern __shared__ float s[];
      for (int i = threadIdx.x; i < n; i += blockDim.x) s[i] = x[i] * x[i];
      __syncthreads();
      for (int i = threadIdx.x; i < n; i += blockDim.x) y[i] = s[n - 1 - i] WITH;
    }]]
  local function doubled(static, with)
    return flame.kernel { source = text:gsub("STATIC", static):gsub("WITH", with), grid = 1,
      shared = 116240 }
  end
  local facts <const> = "the derivative of 'turned' needs 232480 bytes of shared memory for the "
    .. "116240 of the launch, and a block has at most 232448; launch it with less, shared = …, "
    .. "or give vjp"

  it("is a gradient with arrays in global memory", function()
    local x = flame.ones(10, { requires_grad = true })
    doubled("", "")(x, 10):sum():backward()
    assert.equal(2, x.grad[1]:item())
  end)

  it("is refused with both sizes on a GPU if it is a tangent", function()
    local folder = machine.new()
    local script = [=[
      local text, static, with, shared = %q, %q, %q, %d
      local k = flame.kernel { source = text:gsub("STATIC", static):gsub("WITH", with), grid = 1,
        shared = shared }
      local x = flame.ones(10)
      print(select(2, pcall(flame.jvp, function(v) return k(v, 10) end, x, x)))]=]
    local ok, told = pcall(machine.run, folder, script:format(text, "", "", 116240))
    local and_static, more = pcall(machine.run, folder, script:format(text,
      "__shared__ float t[12000]; t[threadIdx.x] = x[threadIdx.x %% n]; __syncthreads();",
      "* t[i] * t[i + 1]", 80000))
    local fits, y = pcall(machine.run, folder, script:format(text, "", "", 116224))
    machine.remove(folder)
    assert(ok and and_static and fits, told)
    assert.matches(facts, told)
    assert.matches("needs 160000 bytes of shared memory for the 80000 of the launch and 9%d+ for "
      .. "static arrays, and a block has at most 232448", more)
    assert(not y:find("shared memory", 1, true), y)
  end)

  it("has both on the CPU", function()
    if flame.default_device() ~= "cpu" then return end
    local x = flame.ones(10)
    local y, u = flame.jvp(function(v) return doubled("", "")(v, 10) end, x, x)
    assert.same({ 1, 2 }, { y[3]:item(), u[3]:item() })
  end)
end)
