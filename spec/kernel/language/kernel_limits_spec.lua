--- Kernel texts at and beyond every limit: a list that is too long, a nesting that is too deep or a
--- size that is too large is refused with the limit and the line; texts within the limits run.
local flame = require "flame"
local helper = require "spec.support.helper"

local rep = string.rep

local function body(text) return "__global__ void k(float *x, int n) { " .. text .. " }" end

--- The message that flame.kernel raises for a text, or our parser's refusal; nil: it is accepted.
local function refusal(text)
  local ok, k = pcall(flame.kernel, text)
  if not ok then return tostring(k) end
  return k:report().refusal
end

local function list(n, item, sep)
  local t = {}
  for i = 1, n do t[i] = item:gsub("@", i) end
  return table.concat(t, sep or ", ")
end

-- { what is limited, the limit, function(n): a text with n of it, words of the message }
local LISTS = {
  { "arguments of a call", 48, function(n)
    return ("__device__ float f(%s) { return a1; }\n"):format(list(math.min(n, 48), "float a@")) ..
      body("x[0] = f(" .. list(n, "@.f") .. ");") end },
  { "arguments of a call", 48,
    function(n) return body("x[0] = sinf(" .. list(n, "@.f") .. ");") end, "takes" },
  { "arguments of a constructor", 48, function(n)
    return ("struct S { float v; __device__ S(%s) : v(a1) {} };\n"):format(list(math.min(n, 48),
      "float a@")) ..
      body("S s{" .. list(n, "@.f") .. "}; x[0] = s.v;") end },
  { "parameters of a function", 48, function(n)
    return ("__device__ float f(%s) { return a1; }\n"):format(list(n, "float a@")) ..
      body("x[0] = f(" .. list(math.min(n, 48), "@.f") .. ");") end },
  { "parameters of a template", 24, function(n)
    return ("template <%s> __device__ int f() { return A1; }\n"):format(list(n, "int A@")) ..
      body("x[0] = f<" .. list(math.min(n, 24), "@") .. ">();") end },
  { "arguments of a template", 24, function(n)
    return ("template <%s> __device__ int f() { return A1; }\n"):format(
      list(math.min(n, 24), "int A@")) ..
      body("x[0] = f<" .. list(n, "@") .. ">();") end },
  { "members of a struct", 64, function(n)
    return "struct S {" .. list(n, "float m@;", " ") .. "};\n"
      .. body("S s = {}; x[0] = s.m1;") end },
  { "dimensions of an array", 4, function(n)
    return body("float a" .. rep("[2]", n) .. "; a" .. rep("[0]", n) .. " = 1.f; x[0] = n;")
  end },
  { "names of parts", 16, function(n)
    return body("float a[" .. n .. "] = {}; auto [" .. list(n, "b@") .. "] = a; x[0] = b1;") end },
  { "values for printf", 32, function(n) return body('printf("a", ' .. list(n, "@") .. ");") end },
  { "variables that a lambda takes", 32, function(n)
    return body("float " .. list(n, "a@ = x[@]") .. "; auto f = [" .. list(n, "a@")
      .. "] { return a1; }; x[0] = f();") end },
  { "parameters of a macro", 48, function(n)
    return ("#define F(%s) a1\n"):format(list(n, "a@"))
      .. body("x[0] = F(" .. list(math.min(n, 48), "@.f") .. ");") end },
  { "arguments of a macro", 48, function(n)
    return ("#define F(%s) a1\n"):format(list(math.min(n, 48), "a@"))
      .. body("x[0] = F(" .. list(n, "@.f") .. ");") end },
  { "parameters of a macro", 47, function(n)
    return ("#define F(%s, ...) a1\n"):format(list(n, "a@"))
      .. body("x[0] = F(" .. list(n, "@.f") .. ", 2.f);") end },
  { "#if inside each other", 64, function(n)
    return rep("#if 1\n", n) .. rep("#endif\n", n) .. body("x[0] = n;")
  end },
}

describe("a list of fixed size in a kernel", function()
  for _, case in ipairs(LISTS) do
    local what, most, make, other = table.unpack(case)
    it("holds " .. most .. " " .. what, function()
      local why = refusal(make(most))
      if other then assert.truthy(why and why:find(other, 1, true), why) else assert.is_nil(why) end
    end)
    it("refuses more " .. what .. " than " .. most, function()
      for _, n in ipairs { most + 1, most + 2, 3 * most, 200 } do
        local why = refusal(make(n))
        assert.truthy(why and why:find("at most %d+ " .. what) and why:find("line %d"),
          ("%d: %s"):format(n, tostring(why)))
      end
    end)
  end

  it("that is full before the parameters are read is told by a call", function()
    local k = flame.kernel { source = ("#define M(%s) m1\n"):format(list(49, "m@"))
      .. "__global__ void k(const float *x, float *y) { y[0] = x[0]; }", block = 1, shape = { 1 } }
    for _, given in ipairs { {}, { flame.ones(1) } } do
      local e = select(2, pcall(k, table.unpack(given)))
      assert.truthy(e:find("k: kernel 'k', line 1 (.-): at most 48 parameters of a macro"), e)
    end
  end)
  it("has no limit for names of a namespace", function()
    local aliases = list(40, "namespace g@ = cooperative_groups;", "\n")
    assert.is_nil(refusal(aliases .. body("x[0] = g40::this_thread_block().thread_rank();")))
  end)

  it("keeps the elements of a pack apart by names of any length", function()
    local name = rep("v", 90)
    local k = flame.kernel(
      ("template <class... T> __device__ float f(T... %s) { return (%s + ...); }\n"):format(name,
        name) ..
      "__global__ void k(const float *x, float *y, int n) { if (threadIdx.x == 0) y[0] = f(x[0], 2.f, 3.f); }")
    assert.equal(6, k(flame.ones(1)):item())
  end)

  it("takes a switch of more cases than blocks may be nested", function()
    local cases = list(300, "case @: y[i] = @.f + 0.5f; break;", " ")
    local k = flame.kernel("__global__ void k(const float *x, float *y, int n) { int i = blockIdx.x * 256 + threadIdx.x; "
      .. "if (i < n) switch (i) {" .. cases .. " default: y[i] = x[i]; } }")
    local y = k(flame.full({ 310 }, 7), 310)
    assert.same({ 7, 1.5, 300.5, 7 }, { y[1]:item(), y[2]:item(), y[301]:item(), y[302]:item() })
  end)
end)

local N = 100000
-- Texts with nesting of depth N.
local DEEP = {
  parentheses = body("x[0] = " .. rep("(", N) .. "1" .. rep(")", N) .. ";"),
  sum = body("x[0] = " .. rep("x[1]+", 2000) .. "1;"),
  index = body("x[" .. rep("n+", 2000) .. "1] = 1;"),
  operators = body("n = " .. rep("!", N) .. "n;"),
  casts = body("n = " .. rep("(int)", N) .. "n;"),
  calls = body("x[0] = " .. rep("sinf(", N) .. "1.f" .. rep(")", N) .. ";"),
  assignments = body(rep("n=", N) .. "n;"),
  choices = body("n = " .. rep("n ? 1 : ", N) .. "n;"),
  blocks = body(rep("{", N) .. rep("}", N)),
  ifs = body(rep("if (n) ", N) .. ";"),
  elses = body(rep("if (n) ; else ", N / 2) .. ";"),
  unread = body("if constexpr (0) " .. rep("if (n) ", N) .. ";"),
  dos = body(rep("do ", N) .. ";" .. rep("while (0);", N)),
  switches = body(rep("switch (n) { case 1: ", N / 2) .. ";" .. rep("}", N / 2)),
  cases = body("switch (n) {" .. list(1200, "case @: x[0] = 1; break;", " ") .. "}"),
  pointers = body("float " .. rep("*", N) .. "p;"),
  templates = "template <class T> struct V { T x; };\n"
  .. body(rep("V<", N) .. "int" .. rep(">", N) .. " v;"),
  defaults = "template <class T = V<>> struct V { T x; };\n" .. body("V<> v;"),
  growing = "template <int N> struct V { V<N + 1> x; };\n" .. body("V<1> v;"),
  aliases = "template <int N> using V = V<N + 1>;\n" .. body("V<1> v;"),
  values = "template <int N> constexpr int f = f<N - 1>;\n" .. body("n = f<3>;"),
  constants = "constexpr int f(int n) { return n ? f(n - 1) : 0; }\n" .. body("int a[f(3)];"),
  lists = body("int a[2] = " .. rep("{", N) .. rep("}", N) .. ";"),
  captures = body("auto f = " .. rep("[x = ", N / 2) .. "1" .. rep("](){ }", N / 2) .. ";"),
  structs = rep("struct S { ", N) .. rep("} s;", N) .. body(""),
  chain = "struct S0 { int a; };\n" .. list(N / 4, "struct S@ { S0 a; };",
    "\n"):gsub("struct S(%d+) { S0", function(i)
    return ("struct S%d { S%d"):format(i, i - 1) end) .. body("S9 s;"),
  bases = "struct S0 { int a; };\n" .. list(N / 4, "struct S@ : S0 { };",
    "\n"):gsub("struct S(%d+) : S0", function(i)
    return ("struct S%d : S%d"):format(i, i - 1) end) .. body("S9 s;"),
  typedefs = "typedef int *T0;\n" .. list(N / 4, "typedef T0 *T@;",
    "\n"):gsub("T0 %*T(%d+)", function(i)
    return ("T%d *T%d"):format(i - 1, i) end) .. body("T9 s;"),
  decltypes = body(rep("decltype(", N) .. "n" .. rep(")", N) .. " m;"),
  macros = "#define F(x) x\n" .. body("n = " .. rep("F(", N) .. "1" .. rep(")", N) .. ";"),
  conditions = "#if " .. rep("1?1:", N) .. "1\n#endif\n" .. body(""),
  negations = "#if " .. rep("!", N) .. "1\n#endif\n" .. body(""),
  directives = rep("#if 1\n", N) .. rep("#endif\n", N) .. body(""),
}

describe("what is nested in a kernel", function()
  for name, text in pairs(DEEP) do
    it("has a bound: " .. name, function()
      local why = refusal(text)
      assert.truthy(why and why:find("line %d"), why)
      if not name:find("conditions") and not name:find("negations") then
        assert.truthy(why:find("nested") or why:find("too long") or why:find("at most")
          or why:find("part of itself")
          or why:find("too deeply") or why:find("unknown type") or why:find("error:"), why)
      end
    end)
  end

  it("may be 150 deep", function()
    assert.is_nil(refusal(body("x[0] = " .. rep("(", 70) .. "1.f" .. rep(")", 70) .. ";")))
    assert.is_nil(refusal(body(rep("{", 150) .. "x[0] = 1.f;" .. rep("}", 150))))
  end)
end)

describe("a class template", function()
  it("has functions that take and return it", function()
    local k = flame.kernel [[
      template <typename T> struct V2 {
        T x, y;
        __device__ T dot(const V2<T> &o) const { return x * o.x + y * o.y; }
        __device__ V2<T> plus(V2<T> o) const { V2<T> r; r.x = x + o.x; r.y = y + o.y; return r; }
        __device__ V2<double> wide() const { V2<double> r; r.x = x; r.y = y; return r; }
        __device__ V2<float> narrow() const { V2<float> r; r.x = x; r.y = y; return r; }
      };
      __global__ void k(const float *x, float *y, int n) {
        int i = threadIdx.x;
        if (i >= n) return;
        V2<float> a = { x[i], 2.f }, b = { 3.f, 4.f };
        y[i] = a.plus(b).wide().narrow().dot(b);
      }]]
    local x = flame.tensor({ 1, 2 }, { requires_grad = true })
    local y = k(x)
    assert.same({ 36, 39 }, y:totable())
    y:sum():backward()
    assert.same({ 3, 3 }, x.grad:totable())
  end)

  it("is no part of itself", function()
    local why = refusal("template <class T> struct V { V<T> *x; };\n" .. body("V<int> v;"))
    assert.truthy(why:find("'V<int>' is a part of itself", 1, true), why)
  end)
end)

describe("the size of a kernel's data", function()
  it("is bounded before a compiler is asked", function()
    for _, text in ipairs {
      body "float a[2147483648] = {}; x[0] = a[n];", body "float a[4194305] = {}; x[0] = a[n];",
      body "float a[4096][4096] = {}; x[0] = a[n][n];", body "float a[1 << 30]; x[0] = a[n];",
      "struct S { float a[1000000], b[1000000], c[1000000], d[1000000], e[1000000]; };\n"
      .. body "S s = {}; x[0] = s.a[n];",
      "__device__ float a[100000000] = {};\n" .. body "x[0] = a[n];",
      "__device__ float f(int n) { float a[100000000] = {}; return a[n]; }\n"
      .. body "x[0] = f(n);",
    } do
      local e = helper.message(flame.kernel, text)
      assert.truthy(e:find("line 1 %(.*more than 16777216 bytes"), e)
    end
  end)

  it("is bounded in functions that are not called", function()
    local k = body 'asm("brkpt;"); x[0] = 1;'
    for _, text in ipairs { "float a[100000000] = {1.f}; return a[n];",
      "int m = 3, q[2], a[N] = {}; return m;",
      "if (n) { const double a[4096][1024] = {}; return a[n][n]; } return 0;",
      "float a[2 * (N / 4)]; return a[n];", "static unsigned char a[N]; return a[n];",
      "int a[2][2][2][2][N]; return 0;" } do
      for _, head in ipairs { "__device__ float f(int n) { ",
        "template <int M> __device__ float f(int n) { ",
        "struct S { float v; __device__ float f(int n) const { " } do
        local tail = head:find("^struct") and " } };\n" or " }\n"
        local ok, e = pcall(flame.kernel,
          "constexpr int N = 1 << 28;\n" .. head .. text .. tail .. k)
        assert.is_false(ok, text)
        assert.truthy(e:find("line 2 (", 1, true)
          and (e:find("more than 16777216 bytes", 1, true) or e:find "at most 4"), e)
      end
    end
  end)

  it("is not that of an index, of memory of the device's own or of a name from elsewhere", function()
    assert.is_nil(refusal("constexpr int N = 1 << 28;\n__device__ float big[N];\nnamespace q { __device__ float b[N]; }\n" ..
      "__device__ float f(float *p, int n) { p[N] = 1; int r = n, q = p[N]; unsigned char c[8000000]; return p[N - 1] + q + r; }\n" ..
      "template <int M> __device__ float g() { float a[M]; a[0] = 1; return a[0]; }\n"
      .. body "x[0] = g<2>();"))
  end)

  it("counts the tokens of an expression, not of a list", function()
    local e = helper.message(flame.kernel, body("x[0] = " .. rep("x[1]+", 4001) .. "1;"))
    assert.truthy(e:find("line 1 (", 1, true)
      and e:find("an expression is too long: at most 20000 tokens", 1, true), e)
    assert.is_nil(
      refusal("__constant__ float t[30000] = {" .. rep("1.f,", 30000) .. "};\n"
        .. body("x[0] = t[n];")))
  end)

  it("counts dimensions: a compiler's time grows with a power of them", function()
    for _, text in ipairs { "float a" .. rep("[1]", 3000) .. "; x[0] = n;",
      "x[0] = sizeof(float" .. rep("[1]", 3000) .. ");",
      "float a[1]; a" .. rep("[0]", 3000) .. " = 1.f;" } do
      local started = os.clock()
      local e = helper.message(flame.kernel, body(text))
      assert.truthy(e:find("line 1 (", 1, true)
        and e:find("at most 4 dimensions of an array, 64 at once", 1, true), e)
      assert.is_true(os.clock() - started < 2)
    end
  end)

  it("lets a text that is long by its macros go to no compiler", function()
    local bomb = "#define A0 n=n;\n" .. list(30, "#define A@ A0 A0",
      "\n"):gsub("A(%d+) A0 A0", function(i)
      return ("A%d A%d A%d"):format(i, i - 1, i - 1) end)
    local e = helper.message(flame.kernel, bomb .. "\n" .. body("A30"))
    assert.truthy(e:find "too long after macro expansion", e)
  end)
end)

describe("a long text", function()
  it("of 600,000 tokens is read, whatever the kernel uses of it", function()
    local many = list(2000, "__device__ float f@(float v) { return v" .. (" + v"):rep(145)
      .. "; }", "\n")
    local k = flame.kernel(many .. "\n__global__ void k(const float *x, float *y, int n) "
      .. "{ if (threadIdx.x < n) y[threadIdx.x] = f7(x[threadIdx.x]); }")
    assert.equal(292, k(flame.tensor { 2 }):item())
  end)
end)

describe("a wrong directive", function()
  local OK <const> = "__global__ void k(const float *x, float *y) { y[0] = x[0]; }\n"

  for _, c in ipairs {
    { "#if 1\n", 2, "#if without #endif" },
    { "#ifndef N\n#if 1\n#endif\n", 2, "#if without #endif" },
    { "#if 0\n#foo\n", 2, "#if without #endif" }, { "#endif\n", 2, "#endif without #if" },
    { "#else\n", 2, "#else or #elif without #if" },
    { "#elif 1\n", 2, "#else or #elif without #if" },
    { "#if 1\n#else\n#else\n#endif\n", 4, "#else or #elif after #else" },
    { "#if 0\n#else\n#elif 1\n#endif\n", 4, "#else or #elif after #else" },
    { "#define\n", 2, "without the name of a macro" }, { "#undef 3\n", 2, "without the name" },
    { "#ifdef\n#endif\n", 2, "without the name" }, { "#foo\n", 2, "a directive that there is not" },
    { "#error \"not\" now\n", 2, '#error "not" now' },
    { "#define M(\n", 2, "names between ( and )" }, { "#define M(a\n", 2, "names between ( and )" },
    { "#define M(a,) a\n", 2, "names between ( and )" },
    { "#define M(,a) a\n", 2, "names between" },
    { "#define M(a b) a\n", 2, "names between ( and )" },
    { "#define M(1) 1\n", 2, "names between" },
    { "#define M(..., a) a\n", 2, "names between ( and )" },
  } do
    it("is refused with its line, before and behind a kernel: " .. c[1]:gsub("\n", " "), function()
      for _, text in ipairs { "\n" .. c[1] .. OK, OK .. c[1] } do
        local e = helper.message(flame.kernel, text)
        assert.truthy(e:find("line " .. c[2] .. " (", 1, true) and e:find(c[3], 1, true), e)
      end
    end)
  end

  it("is nothing where no text is compiled, and right ones are taken", function()
    local k = flame.kernel([[
#if 0
#foo
#error never
#define M(
#ifdef
#elif 1 @
#else
#endif
#elif 1
#else
#endif
#
#line 20
#pragma unroll
#ifdef M
#elif defined(M) || defined N
#endif
#define NONE() 2
#define GNU(a...) a
#define REST( a , ... ) a __VA_ARGS__
#define NAKED (1)
__global__ void k(const float *x, float *y) { y[0] = x[0] * GNU(NONE()) + REST(1, + 3) + NAKED; }
]])
    assert.equal(11, k(flame.tensor { 3 }):item())
  end)

  it("by an operand that defined does not have decides nothing", function()
    for _, c in ipairs { "defined", "defined(", "defined 3", "defined()", "" } do
      local e = helper.message(function()
        flame.kernel("\n#if " .. c .. "\n#endif\n" .. OK)(flame.ones(1)):item()
      end)
      assert.truthy(e:find("line 2 (", 1, true), e)
    end
  end)
end)

describe("loops inside each other", function()
  local function nested(n, open, inner)
    return "__global__ void k(const float *x, float *y, int n) { int i = threadIdx.x; float s = i < n ? x[i] : 0.f; " .. open ..
      list(n, "for (int i@ = 0; i@ < 1; ++i@) {", " ") .. inner .. rep("}", n)
      .. " if (i < n) y[i] = s; }"
  end

  it("are derived however many there are", function()
    for _, n in ipairs { 4, 24, 60 } do
      local k = flame.kernel(nested(n, "", "s = s * s + x[i < n ? i : 0];"))
      assert.truthy(k:source("adjoint"):find("k_vjp", 1, true))
      assert.truthy(k:source("tangent"))
    end
    local x = flame.tensor({ 2, 3 }, { requires_grad = true })
    flame.kernel(nested(6, "", "s = s * s;"))(x):sum():backward()
    assert.same({ 4, 6 }, x.grad:totable())
  end)

  it("are derived with barriers in each of them", function()
    local text = nested(40, "__shared__ float p[256]; ",
      "p[i] = s; __syncthreads(); s += p[i] * 0.f; __syncthreads();")
    assert.truthy(flame.kernel(text):source("adjoint"):find("k_vjp", 1, true))
  end)
end)

describe("deriving a kernel", function()
  local function lines(n, line)
    return "__global__ void k(const float *x, float *y, int n) { int i = threadIdx.x; if (i < n) { float s = x[i];\n" ..
      rep(line or "s = s * s + sinf(s);\n", n) .. "y[i] = s; } }"
  end

  it("ends at an interrupt, and may be asked again", function()
    for _, what in ipairs { "adjoint", "tangent" } do
      local k = flame.kernel(lines(500))
      flame.internal.interrupt()
      local e = helper.message(k.source, k, what)
      assert.matches("interrupted!$", e)
      assert.truthy(k:source(what):find("sinf", 1, true))
    end
  end)

  it("is refused where the kernel is too long", function()
    for line, what in pairs { ["s = -s;\n"] = "a kernel of more than 100000 statements",
        ["s = s * x[i];\n"] = "a kernel that reads and writes elements at more than 10000 places" } do
      local n = tonumber(what:match "%d+") + 1
      local e = helper.message(function() return flame.kernel(lines(n, line)):source("adjoint") end)
      assert.truthy(e:find("line 1 (", 1, true) and e:find(what, 1, true), e)
    end
  end)

  it("is refused where an expression of it is nested too deep", function()
    local k = flame.kernel("__global__ void k(const float *x, float *y, int n) { int i = threadIdx.x; if (i < n) y[i] = x[i]" ..
      rep("*x[i]", 700) .. "; }")
    helper.raises("too large to be differentiated", k.source, k, "tangent")
    assert.truthy(k:source("adjoint"):find("k_vjp", 1, true))
  end)
end)

describe("kernels that are gone", function()
  it("leave no memory behind once they have run", function()
    local x = flame.ones(4)
    local function run(from, to)
      for i = from, to do
        flame.kernel(("__global__ void k(const float *x, float *y, int n) { int i = threadIdx.x; if (i < n) y[i] = x[i] * %d.f; }")
          :format(i))(x):sum():item()
      end
      collectgarbage()
      collectgarbage()
      flame.kernel_cache("clear")
      return flame.memory().host
    end
    local before = run(1, 20)                      -- each kernel kept holds 80 kB
    assert.is_true(run(21, 220) - before < 20 * 80000)
  end)
end)

--- A script for a child process, since checks are chosen at the start; it prints results of tests.
local CHILD = [[
local flame = require "flame"
local k = flame.kernel "__global__ void k(float *x, int n) { int i = blockIdx.x * 256 + threadIdx.x; if (i < n) x[i] += 1; }"
local function run(n)
  local x = flame.zeros(n)
  flame.eval(x)
  local before = flame.memory().host
  for _ = 1, 3 do k:launch({ grid = { (n + 255) // 256 }, block = { 256 } }, x, n) flame.eval(x) end
  return flame.memory().host - before
end
local few, none, many = run(1000), run(1000), run(100000)
local large = run(6 << 20)                        -- its tables have 151 MB
run(100000)
local kept = flame.memory().host
flame.empty_cache()
print(few >= 24000, none < 24000, many >= 2300000, large < 100000000, kept - flame.memory().host >= 2400000)
]]

describe("the race check", function()
  it("keeps its tables for the next launch, up to a bound, until the cache is emptied", function()
    local interpreter = dofile("spec/support/interpreter.lua")
    local command = "FLAME_DEVICE=cpu FLAME_CHECK=race '%s' -e '%s' 2>&1"
    local p = assert(io.popen(command:format(interpreter, CHILD)))
    local said = p:read "a"
    assert(p:close(), said)
    assert.equal("true\ttrue\ttrue\ttrue\ttrue\n", said)
  end)
end)
