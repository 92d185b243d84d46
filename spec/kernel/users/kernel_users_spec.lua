--- Kernels as CUDA programmers write them (spec/kernel/users/). Each must compute what its function
-- in plain Lua does, in f32 and f64, and its gradient must be right or refused with the line. Runs
-- on the default device. USERS_PART=2/8 tests every eighth kernel only, so that eight processes can
-- share the work.
local run = dofile("spec/kernel/users/run.lua")
local on_gpu = require("flame").default_device():sub(1, 4) == "cuda"
local checked = (os.getenv("FLAME_CHECK") or ""):find("bounds")

local part, parts = (os.getenv("USERS_PART") or "1/1"):match("(%d+)/(%d+)")
local number = 0

for _, file in ipairs { "blocks", "warps", "threads", "memory", "functions", "learning", "science",
    "objects", "views", "fields", "fusion", "models", "motion", "groups", "pictures", "chance",
    "layers", "sums", "grids", "words", "programs",
    "ported", "asm", "forms", "cub", "glm", "idioms", "hosts" } do
  describe("a user's kernel: " .. file .. ":", function()
    for _, case in ipairs(dofile("spec/kernel/users/" .. file .. ".lua")) do
      number = number + 1
      -- 'drawn': blocks take positions from a counter, on a GPU in any order; not tested there
      if number % parts == part % parts and not (case.drawn and on_gpu) then
        it(case[1] .. " gives its values", function() run.values(case) end)
        it(case[1] .. (case.refuses and " is refused a gradient" or " has its gradient"), function()
          run.gradients(case)
        end)
        if file == "ported" or file == "views" or file == "asm" or file == "forms" or
          file == "cub" or file == "glm" or file == "idioms" or file == "hosts" then
          it(case[1] .. " compiles", function() run.compiles(case) end)
        end
      end
    end
  end)
end

-- ---- texts that are refused --------------------------------------------------------------------
local flame = require "flame"
local helper = require "spec.support.helper"

local function kernel(body, before)
  return flame.kernel((before or "") .. "__global__ void k(const float *x, float *y, int n) {\n" ..
    "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n  if (i < n) {\n" .. body .. "\n  }\n}")
end

local function message(f)
  local why = helper.message(f)
  return tostring(why)
end

--- Value and gradient.
local function both(body, before)
  local x = flame.tensor({ 1, 2, 3, 4 }, { requires_grad = true })
  local y = kernel(body, before)(x)
  y:sum():backward()
  return y:sum():item() + x.grad:sum():item()
end

describe("a user is told the line and the reason of", function()
  local cases = {   -- name; body (line 4 on); line (without text before); reason; text before
    { "inline asm", 'float r;\nasm("copysign.f32 %0, %1, %1;" : "=f"(r) : "f"(x[i]));\ny[i] = r;', 5,
      "inline asm" },
    { "an address in shared memory as a number",
      "unsigned a = __cvta_generic_to_shared(s);\ny[i] = a ^ 16;", 5,
      "'^' of a pointer and a number: compute with the index, not the address",
      "__shared__ float s[64];\n" },
    { "an address that is assigned", "unsigned a;\na = __cvta_generic_to_shared(s);\ny[i] = 1;", 5,
      "an address in shared memory is a variable's first value", "__shared__ float s[64];\n" },
    { "an address of global memory", "unsigned a = __cvta_generic_to_shared(x);\ny[i] = 1;", 4,
      "__cvta_generic_to_shared of what is not in shared memory" },
    { "a copy of 12 bytes", "__pipeline_memcpy_async(s, x, 12);\ny[i] = s[0];", 4,
      "an asynchronous copy is of 4, 8 or 16 bytes", "__shared__ float s[64];\n" },
    { "a copy of 8 bytes that is not kept",
      'asm volatile("cp.async.cg.shared.global [%0], [%1], 8;" :: "r"((unsigned)__cvta_generic_to_shared(s)), "l"(x));'
      .. "\ny[i] = s[0];", 4, "an asynchronous copy is of 4, 8 or 16 bytes (.cg: 16)",
      "__shared__ float s[64];\n" },
    { "a copy that goes back", "__pipeline_memcpy_async(y, s, 4);\ny[i] = s[0];", 4,
      "a constant, from global to shared memory",
      "__shared__ float s[64];\n" },
    { "a copy at an odd place", "__pipeline_memcpy_async(s, x + 1, 8);\ny[i] = s[0];", 4,
      "misaligned address: 'uint2' of 'x'", "__shared__ float s[64];\n", run = true },
    { "goto", "float s = x[i];\nif (s > 1) goto end;\ns *= 2;\nend: y[i] = s;", 5, "goto" },
    { "recursion", "y[i] = f(x[i]);", 1, "recursion",
      "__device__ float f(float v) { return v > 1 ? v : f(v * 2); }\n" },
    { "a function pointer", "float (*f)(float) = sinf;\ny[i] = f(x[i]);", 4, "function pointers" },
    { "pointers in memory", "const float *p[2] = {x, x + 1};\ny[i] = p[i & 1][0];", 4,
      "arrays of pointers" },
    { "a pointer to another type",
      "const int *p = (const int *)x;\ny[i] = x[i] * __int_as_float(p[i] + 1);", 5,
      "the bits of a real number" },
    { "the address of a float as an int's", "int v = *(int *)&x[i] - 1;\ny[i] = *(float *)&v;", 4,
      "the bits of a real number" },
    { "a part of a number in memory", "char *p = (char *)y;\np[4 * i] = (char)x[i];\ny[i] += x[i];", 5,
      "the bits of a real number" },
    { "a part of a small number in memory", "char *p = (char *)h;\np[2 * i] = 1;\ny[i] = x[i];", 5,
      "a part of an element of 'h' is written", "__device__ short h[64];\n" },
    { "an atomic on two numbers at once",
      "if (n < 0) atomicAdd((unsigned long long *)&y[0], 1ull);\ny[i] = x[i];", 4,
      "an atomic on 'y' seen as a type of another size" },
    { "an atomic on a real's bits", "atomicMax((int *)&y[0], __float_as_int(x[i]) | 1);", 4,
      "the bits of a real number" },
    { "a texture", "cudaTextureObject_t t = 0;\ny[i] = tex1D<float>(t, x[i]);", 5,
      "textures that filter" },
    { "an overload of what is not read", "y[i] = f(x[i]);", 4,
      "template 'T', which a call is to find from its arguments, is outside the language",
      "template <template <class> class T> __device__ float f(T<int> v) { return 2; }  __device__ float f(int v) { return 1; }\n" },
    { "a specialisation of no template", "y[i] = f(x[i]);", 4,
      "a specialisation of no template: write its arguments, 'f<…>'",
      "template <typename T> __device__ float f(T v) { return v; }  template <> __device__ float f(float v, int) { return 7; }\n" },
    { "the clock", "long long t = clock64();\ny[i] = x[i] + (t < 0);", 4, "clock64()" },
    { "a template of structs among members that hides another", "V v;\ny[i] = v.f() * x[i];", 1,
      "'C': a template of a name that another one has is outside the language",
      "template <int N> struct C { float w; }; " ..
      "struct V { template <int N> struct C { float v[N]; }; __device__ float f() { C<2> c; c.v[1] = 1; return c.v[1]; } };\n" },
    { "a vector and a number in one sum", "atomicAdd((float2 *)y, x[i]);\ny[i] = x[i];", 4,
      "atomicAdd of a 'float2' and something else" },
    { "a group of five lanes of CUB",
      "typedef cub::WarpReduce<float, 5> R;\n__shared__ typename R::TempStorage t;\ny[i] = R(t).Sum(x[i]);", 6,
      "static_assert: CUB has groups of 1, 2, 4, 8, 16 or 32 lanes here" },
    { "other names of CUB", "cub::BlockRadixSort<float, 32, 1>::TempStorage t;\ny[i] = x[i];", 4,
      "names of 'cub' are outside the language" },
    { "a literal of C", "float2 v = (float2){ x[i], 1 };\ny[i] = v.x * v.y;", 4,
      "(float2){…} is no C++" },
    { "a union of what is mixed", "U u;\nu.i = 2;\ny[i] = u.i * x[i];", 4,
      "member 's' of a union is not of numbers of one type",
      "struct S { float f; char c; }; union U { S s; int i; };\n" },
    { "a lambda that changes its copies",
      "float s = 0.f;\nauto f = [=](float v) mutable { return s += v; };\ny[i] = f(x[i]);", 5,
      "mutable lambdas" },
    { "a virtual function", "A a;\ny[i] = a.f() * x[i];", 4, "virtual functions",
      "struct A { virtual __device__ float f() { return 1; } };\n" },
    { "a member of two bases", "C c;\ny[i] = c.v * x[i];", 5, "'v'",
      "struct A { float v; }; struct B { float v; }; struct C : A, B {};\n" },
    { "a part that says how it is copied", "B b;\ny[i] = b.a.v * x[i];", 4, "its own copies",
      "struct A { float v; __device__ A &operator=(const A &o) { v = -o.v; return *this; } }; struct B { A a; };\n" },
    { "an object of two numbers", "A a{x[i]};\ny[i] = a;", 5,
      "a number is needed here, this is a 'A'",
      "struct A { float v; __device__ operator float() const { return v; } __device__ operator int() const { return 1; }};\n" },
    { "a template of variables", "y[i] = pi<float> * x[i];", 4,
      "a template of variables that are not constexpr",
      "template <class T> __device__ T pi = T(3.14);\n" },
    { "pointers in an array of structs", "V v[2] = {{x}, {x}};\ny[i] = v[0].p[i];", 4,
      "pointers stored in memory",
      "struct V { const float *p; };\n" },
    { "what lies behind a member of mixed structs",
      "S s[2] = {{x[i], 2}, {1.f, 3}};\ny[i] = (&s[0].a)[1];", 5,
      "a pointer to one variable is moved off it", "struct S { float a; int b; };\n" },
    { "a reference to one or another",
      "S a{x[i], 1}, b{2.f, 2};\nfloat &r = i > 1 ? a.f : b.f;\ny[i] = r;", 5,
      "a reference to one 'float' or another, chosen by ?:",
      "struct S { float f; int i; };\n" },
    { "new", "float *p = new float[3];\np[0] = x[i];\ny[i] = p[0];", 4, "new" },
    { "memset to what is not constant", "memset(&y[i], n, 4);", 4,
      "memset to a value that is not constant" },
    { "a copy of a part of a number", "memcpy(y + i, x + i, i + 3);", 4,
      "a number of bytes is a multiple of 4", run = true },
    { "null that is read", "const float *p = 0;\ny[i] = p[i];", 5, "is followed is not null",
      run = true },
    { "null at first that is read", "const float *p = nullptr;\nif (i > 2) p = x;\ny[i] = p[0];", 6,
      "is followed is not null", run = true },
    { "null of two that is read", "const float *p = i > 2 ? x : nullptr;\ny[i] = p[0];", 5,
      "is followed is not null", run = true },
    { "a pointer asked before it has a value",
      "const float *p = nullptr;\ny[i] = p ? 1.f : 2.f;\np = x;", 5,
      "pointer 'p' is used before it has a value" },
    { "atomicExch of an active value", "atomicExch(&y[i], x[i]);", 4,
      "atomicExch on 'y' cannot be differentiated" },
    { "bits", "y[i] = __int_as_float(__float_as_int(x[i]) + 1);", 4, "the bits of a real number" },
    { "a barrier that some threads miss", "if (x[i] > 2.f)\n  __syncthreads();\ny[i] = x[i];", 5,
      "is not reached by all threads", run = true },
    { "an index out of range", "y[i + 100] = x[i];", 4,
      "index 100 of 'y' (4 elements) by thread (0, 0, 0)", run = true },
  }
  for _, c in ipairs(cases) do
    it(c[1], function()
      if c.run and on_gpu and not checked then
        return pending "a GPU looks only with FLAME_CHECK"
      end
      local why = message(function() return both(c[2], c[5]) end)
      assert(why:find(c[4], 1, true), why)
      local line = c[3] + (c[5] and c[3] > 1 and 1 or 0)
      assert(why:find(("kernel 'k', line %d ("):format(line), 1, true), why)
    end)
  end
end)

describe("a call that is not right says", function()
  local k, x = kernel "y[i] = x[i];", flame.ones(4)
  local known
  --- What is reported about k, which each k:report() would compile again.
  local function compiled()
    known = known or k:report()
    return known
  end
  local cases = {
    { "how many arguments", function() k(x, 4, 5) end, "3 arguments, need 1 or 2: (x, n)" },
    { "no argument", function() k() end, "0 arguments, need 1 or 2" },
    { "which must be a tensor", function() k { 1, 2 } end, "x must be a tensor, got table" },
    { "the dtype", function() k(x:double()) end, "x must be f32, got f64; cast it first" },
    { "contiguous", function() k(flame.ones(3, 4):t()) end, "x of shape (4, 3) is not contiguous" },
    { "integer", function() k(x, 4.5) end, "n must be an integer (int), got 4.5" },
    { "the range of an int", function() k(x, 2 ^ 40) end, "does not fit in int" },
    { "the limit of a block", function() k:with { block = { 2000 } }(x) end,
      "block.x = 2000, need 1 to 1024" },
    { "the threads of a block", function() k:with { block = { 32, 64 } }(x) end,
      "2048 threads, at most 1024" },
    { "that a grid has blocks", function() k:with { grid = { 0 } }(x) end,
      "grid.x = 0, need 1 to 2147483647" },
    { "the limit of shared memory", function() k:with { shared = 300000 }(x) end,
      "shared = 300000 bytes" },
    { "the limit of static shared memory", function()
      flame.kernel "__global__ void g(float *y) {\n__shared__ float s[20000];\ns[0] = 1;\ny[0] = s[0]; }"
        :with { shape = { 1 } }():item()
    end, "shared", cpu = true },                        -- a GPU's compiler drops unused code
    { "that outputs need a shape", function()
      flame.kernel "__global__ void g(float *y, float v, int n) { if (threadIdx.x < n) y[threadIdx.x] = v; }" (3.0, 4)
    end, "use :with{shape = {…}}" },
    { "which names inout may have", function()
      flame.kernel { source = k:source(), inout = { "q" } }
    end, "inout: there is no parameter 'q', the kernel has: n x y" },
    { "that const is not written", function()
      flame.kernel { source = k:source(), inout = { "x" } }
    end, "inout: 'x' is no pointer that the kernel may write" },
    { "which kernels there are", function()
      flame.kernel(k:source() .. "\n" .. k:source():gsub("void k", "void m"))
    end, "the source has several kernels (k, m): name one with entry =" },
    { "that a template has arguments", function()
      flame.kernel "template <typename T> __global__ void g(T *y, int n) { y[0] = n; }"
    end, "a kernel that is a template is named with its arguments" },
    { "how many arguments a template has", function()
      flame.kernel { source = "template <typename T, int N> __global__ void g(T *y) { y[0] = N; }",
        entry = "g<float>" }
    end, "entry 'g<float>': the template has 2 parameters: <typename T, int N>" },
    { "which templates there are", function()
      flame.kernel { source = k:source(), entry = "k<3>" }
    end,
      "there is no template of a kernel 'k'" },
    { "that packs are no parameters", function()
      flame.kernel { source = "template <typename... T> __global__ void g(float *y) { y[0] = 1; }",
        entry = "g<int>" }
    end, "parameter 'typename... T' of the template is outside the language" },
    { "what __launch_bounds__ allows", function()
      flame.kernel { source = "__global__ void __launch_bounds__(64) g(const float *x, float *y, int n) { y[threadIdx.x % n] = x[0]; }",
        block = 128 } (x)
    end, "a block of (128, 1, 1) has 128 threads, __launch_bounds__ allows 64" },
    { "that an output has no old contents", function()
      flame.kernel "__global__ void g(const float *x, float *y, int n) { int i = threadIdx.x; if (i < n) y[i] = y[i] * x[i]; }" (x)
    end, 'reads output \'y\' (line 1) which it has not written: name it in inout = {"y"}' },
  }
  for _, c in ipairs(cases) do
    it(c[1], function()
      if c.cpu and on_gpu then return pending "on the CPU" end
      local why = message(c[2])
      assert(why:find(c[3], 1, true), why)
      assert(why:find("kernel_users_spec.lua:", 1, true), why)
    end)
  end

  it("nothing where an instance of a template is named", function()
    local source = [[
template <typename T>                                   // a template <int N> __global__ void power(
struct Scale { T s; };
template <typename T,
          int N = 3 /* the exponent, > 0 */, bool MINUS = (1 > 2)>
__global__ void __launch_bounds__(256) power(const T *x, T *y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  Scale<T> c = { (T)2 };
  T p = c.s;
  #pragma unroll
  for (int k = 0; k < N; ++k) p *= x[i];
  if constexpr (MINUS) p = -p;
  y[i] = p;
}
template <int N> __global__ void other(float *y) { y[0] = N; }
template __global__ void power<float, 2>(const float *, float *, int);
]]
    for entry, want in pairs { ["power<float>"] = 12, [" power< float, 1 + 1,true >"] = -4,
        ["power<float, (2 > 1)>"] = 1 } do
      local v = flame.tensor({ 0.5, 1 }, { requires_grad = true })
      local p = flame.kernel { source = source, entry = entry }
      p(v):sum():backward()
      local order = math.abs(want) == 12 and 3 or math.abs(want) == 4 and 2 or 1
      local sign = want < 0 and -1 or 1
      assert.equal(sign * 2 * order, v.grad[2]:item())
      assert.equal(sign * 2 * order * 0.5 ^ (order - 1), v.grad[1]:item())
      local why = message(function() p(v, 9999999999) end)
      assert(why:find("power: n", 1, true), why)
      -- compiled by NVRTC, if there is one
      assert.equal(compiled().compiled ~= nil, p:report().compiled ~= nil)
    end
    assert.equal(7, flame.kernel { source = source, entry = "other<7>", shape = { 1 } }():item())
    local late = flame.kernel { source = source:gsub("c%.s;", "c.s + x[n];"),
      entry = "power<float, 2>" }
    if not on_gpu then
      assert(message(function() late(x):sum():item() end):find("line 9 (", 1, true))
    end
  end)

  it("no brackets where all parameters of a template have defaults", function()
    local source = [[
template <int B = 4, typename T = float> __global__ void __launch_bounds__(B * 16)
e(const T *x, T *y, int n) { int i = threadIdx.x; if (i < n) y[i] = B * x[i]; }
]]
    for _, entry in ipairs { false, "e", "e<>", "e<4>" } do
      local e = flame.kernel { source = source, entry = entry or nil }
      assert.equal(16, e(x):sum():item(), entry)
      assert.equal(compiled().registers > 0, e:report().registers > 0)
    end
    source = source .. "__global__ void other(float *y) { y[0] = 1.f; }\n"
    assert.equal(16, flame.kernel { source = source, entry = "e" }(x):sum():item())
    assert.equal(1, flame.kernel { source = source, entry = "other", shape = { 1 } }():item())
    assert(message(function() flame.kernel(source)(x) end))
    local plain = "__global__ void e(float *y, int n) { y[0] = n; }\n"
    assert.equal(7, flame.kernel { source = source:gsub("e%(const", "f(const") .. plain,
      entry = "e", shape = { 1 } }(7):item())
  end)

  it("nothing where __launch_bounds__ is of expressions", function()
    local function first_refused(bounds, before)
      local source = (before or "") .. "\n__global__ void " .. bounds
        .. " g(const float *x, float *y, int n) { y[threadIdx.x % n] = x[0]; }"
      for _, threads in ipairs { 32, 64, 128, 256, 512 } do
        local ok, why = pcall(flame.kernel { source = source, block = threads }, x)
        if not ok then
          assert(tostring(why):find("__launch_bounds__ allows", 1, true), why)
          return threads
        end
      end
    end
    assert.equal(128, first_refused "__launch_bounds__(32 * 2)")
    assert.equal(256, first_refused("__launch_bounds__(B + C, 2)",
      "#define B 64\nconstexpr int C = sizeof(double) * 8;"))
    assert.equal(512, first_refused("__launch_bounds__(f(255))",
      "constexpr __device__ int f(int n) { return n + 1; }"))
    assert.equal(128, first_refused("__launch_bounds__(E)", "enum { D = 63, E };"))
    assert.is_nil(first_refused "")
  end)

  it("nothing where __launch_bounds__ leaves fewer threads than usual", function()
    local twice = flame.kernel { source = [[
__global__ void __launch_bounds__(64) twice(const float *x, float *y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = 2.0f * x[i];
}]], vjp = [[
__global__ void __launch_bounds__(32) twice_vjp(const float *x, int n, const float *dy, float *dx) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) dx[i] = 2.0f * dy[i];
}]] }
    local v = flame.ones({ 1000 }, { requires_grad = true })
    twice(v):sum():backward()
    assert.equal(2000, v.grad:sum():item())
  end)

  it("nothing where a plain kernel stands beside a template", function()
    local source = k:source():gsub("void k", "void plain") .. [[
template <int N> __global__ void times(const float *x, float *y, int n) { int i = threadIdx.x; if (i < n) y[i] = N * x[i]; }]]
    assert.equal(4, flame.kernel { source = source, entry = "plain" }(x):sum():item())
    assert.equal(12, flame.kernel { source = source, entry = "times<3>" }(x):sum():item())
    -- both have registers (compiled by NVRTC), or neither does where there is no NVRTC
    for _, entry in ipairs { "plain", "times<3>" } do
      local r, of = flame.kernel { source = source, entry = entry }:report(), compiled()
      assert.equal(of.registers > 0, r.registers > 0)
    end
  end)

  it("nothing where other templates of the text have defaults", function()
    local before = [[
// a > b
template <int N> struct S { static constexpr int v = N; };
constexpr __host__ __device__ int f(int n) { return n + 1; }
]]
    local entry = [[
template <int B> __global__ void e(const float *x, float *y, int n) { int i = threadIdx.x; if (i < n) y[i] = B * x[i]; }
]]
    for _, list in ipairs { "int B = 256", "typename T = float", "class B = float, int N = 4",
      "bool F = true", "size_t B = 4", "int N = 1 << 4", "int N = int{4}", "typename U = S<4>",
      "typename U = S<S<4>::v>", "bool B = 2 < 3", "int B, int N = f(B)",
      "typename = float", "int... B", "template <int> class Q = S" } do
      local other = "template <" .. list .. "> __global__ void other(float *y) { y[0] = 1; }\n"
      local device = other:gsub("__global__", "__device__")
      for _, source in ipairs { before .. entry .. other, before .. other .. entry,
          before .. device .. entry } do
        local e = flame.kernel { source = source, entry = "e<3>" }
        assert.equal(12, e(x):sum():item(), source)
        assert.equal(compiled().registers > 0, e:report().registers > 0, source)
      end
    end
  end)

  it("nothing where its parameters have defaults with operators and brackets", function()
    for list, want in pairs { ["int B = 1 << 4"] = 12, ["int B = int{4}"] = 12,
      ["int B, bool F = 2 < 3, int M = 2 >= 1"] = 12,
      ["int A, int B = A << 1, int C = 2"] = 24, ["int A, int C = (A > 2), int B = A + C"] = 16 } do
      local source = "template <" .. list
        .. "> __global__ void e(const float *x, float *y, int n)" ..
        "{ int i = threadIdx.x; if (i < n) y[i] = B * x[i]; }\n"
      for _, given in ipairs { "3", "(6 >> 1)", "6 - 3", "int{3}" } do
        local e = flame.kernel { source = source, entry = "e<" .. given .. ">" }
        assert.equal(want, e(x):sum():item(), list .. " " .. given)
        assert.equal(compiled().registers > 0, e:report().registers > 0, list)
      end
    end
    local source = "template <int B = 1 << 2, int C = 1> __global__ void e(float *y) { y[0] = B + C; }"
    assert.equal(5, flame.kernel { source = source, entry = "e<>", shape = { 1 } }():item())
    assert.equal(17, flame.kernel { source = source, entry = "e<1 << 4>", shape = { 1 } }():item())
  end)

  it("nothing where several kernels have an entry, or C++ linkage", function()
    local two = flame.kernel { source = k:source() .. "\n" .. k:source():gsub("void k", "void m"),
      entry = "m" }
    assert.equal(4, two(x):sum():item())
    assert.equal(4, flame.kernel('extern "C" ' .. k:source())(x):sum():item())
  end)
end)
