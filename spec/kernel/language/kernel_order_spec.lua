--- Evaluation order in user kernels, by the rules of C++17. Sequenced expressions are compared with
--- clang, if there is one (g++ 12 reads 'i' too late in "b[i++] += i" and "m[i][i++]"). Unsequenced
--- ones are refused, or evaluated from left to right if they call functions. Runs on the default
--- device. What NVRTC makes of such texts is read from its PTX in spec/c/test_kernel_order.c.
local flame = require "flame"

local BEFORE = [[
  __device__ int next(int *s) { *s = *s * 5 + 1; return *s; }
  __device__ int step(int &s) { s = s * 3 + 2; return s; }
  __device__ int two(int a, int b) { return a * 1000 + b; }
  __device__ int twice(int &a, int b) { a += b; return a * 10 + b; }
  struct Pair { int a, b; __device__ Pair(int u, int v) : a(u), b(v) {} };
  struct Plain { int a, b; };
  struct Count { int n; __device__ int up(int by) { n += by; return n; } __device__ int operator[](int k) { return n * 10 + k; } };
]]

-- b[8] = {0}, i = 0, q = 5, s = 7, m[3][3] = 1 … 9
local ordered = {
  "b[i++] = i;", "b[3] = 1; q = 3; b[q++] += q; b[0] = q;", "q = 2; b[q] = q++;", "b[q = 2] = q;",
  "q = 2; b[q] = q = 4;", "q = q++; b[0] = q;", "q += q++; b[0] = q;", "q -= 2 * q++; b[0] = q;",
  "b[step(s) & 7] = step(s);", "b[i++] = b[i++] = 3; b[7] = i;",
  "b[1] = 4; i = 1; b[i++] <<= i; b[7] = i;", "int *p = b; *p++ = *p + 1; *p = (int)(p - b);",
  "b[i] = i++ ? 2 : 3; b[7] = i;", "q = 3; b[0] = q << q++; b[1] = q;",
  "q = 300; b[0] = q >> (q = 2); b[1] = q;", "q = 3; b[0] = q++ << q; b[1] = q;",
  "q = 1; b[0] = m[q][q++]; b[1] = q;", "q = 1; b[0] = m[q++][q]; b[1] = q;",
  "q = 1; b[0] = (m[q])[q = 2];", "b[0] = (q++, q);", "b[0] = (q = 2, s = q * 3, s + q);",
  "b[0] = q++ && q == 6; b[1] = q;", "b[0] = q-- == 9 || q == 4; b[1] = q;",
  "b[0] = 0 && q++; b[1] = q;", "b[0] = 1 || q++; b[1] = q;", "b[0] = q++ == 5 ? q : -q;",
  "b[0] = q == 6 ? q++ : q--; b[1] = q;", "Pair p{q++, q}; b[0] = p.a; b[1] = p.b;",
  "Pair p{q, q++}; b[0] = p.a; b[1] = p.b;", "Plain p{q, q++}; b[0] = p.a; b[1] = p.b;",
  "Plain p = {q++, q++}; b[0] = p.a; b[1] = p.b;",
  "int a[3] = {q, q++, q}; b[0] = a[0]; b[1] = a[1]; b[2] = a[2];",
  "Pair p{next(&s), s}; b[0] = p.a; b[1] = p.b;", "Pair p{s, next(&s)}; b[0] = p.a; b[1] = p.b;",
  "b[0] = int(q++); b[1] = q;", "b[0] = static_cast<int>(q++) * 2; b[1] = q;",
  "Count c[3] = {{1}, {2}, {3}}; b[0] = c[i].up(++i); b[1] = c[0].n; b[2] = c[1].n;",
  "int u = q++, v = q++; b[0] = u; b[1] = v;", "b[0] = two(q++, s++); b[1] = q; b[2] = s;",
  "b[0] = twice(q, s++); b[1] = q;", "b[i] = 3, b[i + 1] = b[i]++ + 1;",
  "b[0] = m[1][0] + (m[1][1] = 9);", "int k = 0; b[k++] = k++; b[k] = 9; b[7] = k;",
  "Count c = {2}; b[0] = c[c.n = 4];", "b[2] = (i = 4) + q; b[1] = i;",
  "(q > 3 ? b[i] : b[5]) = i = 2;", "int &r = x[1] > 3 ? i : q; b[r] = r = 2; b[7] = i;",
  "b[0] = ++(x[0] ? q : s) << (x[0] ? i : q)++ % 3; b[1] = q; b[2] = s; b[3] = i;",
  "(x[1] > 3 ? b[1] : b[2]) = 7, b[3] = b[1]; (i ? q : s) += q = 3; b[4] = s; b[5] = q;",
}

-- { body, b[0] }: a compiler may choose the order; NVRTC and our CPU code choose the same order.
local called = {
  { "b[0] = next(&s) - 3 * next(&s);", -507 }, { "b[0] = two(next(&s), next(&s));", 36181 },
  { "b[0] = 1000 * s + next(&s);", 7036 },
  { "b[0] = next(&s) + 1000 * s;", 36036 }, { "b[0] = two(s, next(&s));", 7036 },
  { "b[0] = two(step(s), next(&s));", 23116 },
  { "b[0] = twice(q, next(&q));", 546 },
  { "b[0] = 1; b[1] = b[0] * 100 + next(b); b[0] = b[1];", 106 },
  { "b[0] = 1; b[1] = b[i] * 100 + next(b + i); b[0] = b[1];", 106 },
  { "b[0] = 7; int k = 0; b[0] = b[k] * 1000 + two(next(b), 0) / 1000;", 7036 },
}

local open = {
  { "b[0] = q + q++;", "q" }, { "b[0] = q++ + q;", "q" }, { "b[0] = q++ * q--;", "q" },
  { "b[0] = two(q++, q);", "q" },
  { "b[0] = two(q, q++);", "q" }, { "b[0] = two(q, q = 3);", "q" },
  { "b[0] = two(b[i], i++);", "i" }, { "b[0] = (q = 3) + q;", "q" },
  { "b[0] = q - (q += 2);", "q" }, { "b[0] = b[1] + (b[1] = 3);", "b" },
  { "b[0] = q == q++;", "q" }, { "b[0] = min(q++, q);", "q" },
  { "int *p = b; b[0] = *p++ - *p++;", "p" }, { "Pair p(q++, q); b[0] = p.a;", "q" },
  { "b[0] = b[i++] + b[i];", "i" },
  { "b[0] = ~q & q++;", "q" }, { "b[0] = 2 * q - 3 * (i + q--);", "q" },
  { "Plain p = {1, 2}; b[0] = p.a + p.a++;", "p" },
  { "int &r = x[0] ? q : s; b[0] = r + (q = 3);", "q" },
  { "int &r = x[0] ? q : s; b[0] = two(r, s = 3);", "r" },
  { "b[0] = two(q, (x[0] ? q : s) = 3);", "q" },
}

local HEAD = "  int b[8] = {0}, i = x[0], q = x[1], s = x[2], m[3][3] = {{1, 2, 3}, {4, 5, 6}, {7, 8, 9}}; m[2][2] += i;\n  "

local function kernel(body)
  return flame.kernel {
    source = BEFORE .. "__global__ void k(const int *x, int *y) {\n" .. HEAD .. body ..
    "\n  for (int j = 0; j < 8; ++j) y[j] = b[j];\n}", grid = { 1 }, block = { 1 }, shape = { 8 } }
end

local function values(body)
  return kernel(body)(flame.tensor({ 0, 5, 7 }, { dtype = "i32" })):totable()
end

--- The results of clang for all bodies of 'ordered', or nil if there is no clang.
local function judged()
  local name = os.tmpname()
  local f = assert(io.open(name .. ".cpp", "w"))
  f:write("#define __device__\n#include <cstdio>\n", BEFORE)
  for k, body in ipairs(ordered) do
    f:write(
      ("void f%d(const int *x, int *y) {\n%s%s\n  for (int j = 0; j < 8; ++j) y[j] = b[j];\n}\n"):format(
        k, HEAD, body))
  end
  f:write("int main() { const int x[3] = {0, 5, 7}; int y[8];\n")
  for k = 1, #ordered do
    f:write(("f%d(x, y); for (int j = 0; j < 8; ++j) printf(\"%%d \", y[j]); printf(\"\\n\");\n"):format(k))
  end
  f:write("}\n")
  f:close()
  local lines
  if os.execute "clang++ --version >/dev/null 2>&1" then
    assert(os.execute(("clang++ -std=c++17 -w -O0 -o %s.out %s.cpp"):format(name, name)))
    lines = {}
    for l in io.popen(name .. ".out"):lines() do lines[#lines + 1] = l:gsub(" $", "") end
  end
  for _, ending in ipairs { "", ".cpp", ".out" } do os.remove(name .. ending) end
  return lines
end

describe("a kernel's evaluation order", function()
  it("is that of C++17 where it has one", function()
    local right = judged()
    for k, body in ipairs(ordered) do
      local got = table.concat(values(body), " ")
      if right then assert.equal(right[k], got, body) end
    end
  end)

  it("takes the right side of an assignment first", function()
    assert.same({ 0, 0, 0, 0, 0, 0, 0, 0 }, values "b[i++] = i;")
    assert.same({ 4, 0, 0, 4, 0, 0, 0, 0 }, values "b[3] = 1; q = 3; b[q++] += q; b[0] = q;")
    assert.same({ 24, 4, 0, 0, 0, 0, 0, 0 }, values "q = 3; b[0] = q << q++; b[1] = q;")
  end)

  for _, c in ipairs(called) do
    it("of functions that are called is from left to right: " .. c[1], function()
      assert.equal(c[2], values(c[1])[1])
    end)
  end

  for _, c in ipairs(open) do
    it("is refused where C++ leaves it open: " .. c[1], function()
      local report = kernel(c[1]):report()
      assert.matches("line 10 .-: one %w+ changes '" .. c[2], report.refusal)
      assert.matches("C%+%+ does not say which is first", report.refusal)
    end)
  end

  it("of && and || over a pack evaluates no more than it needs", function()
    local k = flame.kernel { source = [[
      __device__ bool seen(int &n, int v) { ++n; return v > 0; }
      template <typename... T> __device__ int all(T... v) { int n = 0; bool r = (seen(n, v) && ...); return n * 10 + r; }
      template <typename... T> __device__ int any(T... v) { int n = 0; bool r = (... || seen(n, v)); return n * 10 + r; }
      __global__ void k(const int *x, int *y) {
        y[0] = all(x[0], x[1], x[2]); y[1] = all(x[1], x[0], x[2]); y[2] = any(x[0], x[1], x[2]); y[3] = all(x[1], x[2], x[2]);
      }]], grid = { 1 }, block = { 1 }, shape = { 4 } }
    assert.same({ 10, 20, 21, 31 }, k(flame.tensor({ 0, 5, 7 }, { dtype = "i32" })):totable())
  end)

  it("of a constructor's braces is from left to right, for the elements of a pack too", function()
    local k = flame.kernel { source = [[
      struct P { int a, b, c; __device__ P(int x, int y, int z) : a(x), b(y), c(z) {} };
      template <typename... T> __device__ P make(T... v) { return P{v..., 9,}; }
      __global__ void k(const int *x, int *y) {
        int i = 0; const P p{i, i++, i++}, q = make(x[0], x[1]);
        y[0] = p.a; y[1] = p.b; y[2] = p.c; y[3] = q.a; y[4] = q.b; y[5] = q.c;
      }]], grid = { 1 }, block = { 1 }, shape = { 6 } }
    assert.same({ 0, 0, 1, 5, 7, 9 }, k(flame.tensor({ 5, 7 }, { dtype = "i32" })):totable())
  end)

  it("has atomics where they stand, seen from one thread", function()
    local k = flame.kernel { source = [[
      struct P { int n, v; };
      __global__ void k(const int *x, int *y) {
        __shared__ int s; __shared__ P e[2];
        s = x[1]; e[0] = {0, 1}; e[1] = {1, 2};
        y[0] = s * 100 + atomicAdd(&s, 1); y[1] = s << atomicAdd(&s, -3); y[2] = atomicAdd(&s, 4) * 10 + s;
        e[atomicSub(&e[1].n, 1) - 1] = e[1]; y[3] = e[0].n * 10 + e[0].v;
      }]], grid = { 1 }, block = { 1 }, shape = { 4 } }
    assert.same({ 505, 384, 37, 2 }, k(flame.tensor({ 0, 5, 7 }, { dtype = "i32" })):totable())
  end)

  it("holds for gradients, too", function()
    local k = flame.kernel { source = [[
      __device__ double take(double *s) { *s = *s * *s; return *s; }
      __global__ void k(const double *x, double *y) {
        int i = 0, j = threadIdx.x; double b[4] = {x[j], 1, 2, 3}, s = x[j];
        b[i++] *= x[j + i]; b[++i] = b[i - 1] * 2; y[j] = b[0] * b[2] + s * take(&s) - b[1];
      }]], grid = { 1 }, block = { 2 }, shape = { 2 } }
    assert(flame.gradcheck(k, { flame.tensor({ 0.5, -1.2, 0.7 }, { dtype = "f64" }) },
      { order = 2 }))
    local x = flame.tensor({ 2, 3, 5 }, { dtype = "f64", requires_grad = true })
    -- b[0] = x[j] * x[j], since x[j + i] is evaluated before i++; b[2] = 2 b[0]
    assert.same({ 4 * 8 + 8 - 1, 9 * 18 + 27 - 1 }, k(x):totable())
  end)
end)
