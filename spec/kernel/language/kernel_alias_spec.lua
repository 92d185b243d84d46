--- Where a kernel may read a copy of an object, and where it must read the object: arguments that
-- are taken by reference to const, objects that operators and functions are called on, captures of
-- lambdas, references to what a load gives. Each body changes the object after it was passed, bound
-- or captured. The expected values are written here, and compared with those of a C++ compiler, if
-- there is one. Runs on the default device.
local flame = require "flame"

local BEFORE = [[
  struct S { float v, w; };
  struct Box { float *p; };
  struct Writer { float *p; __device__ void operator()() const { *p = 5; } };
  struct Reader { float *p; __device__ float read(const float &v) const { *p = 5; return v; } };
  struct View { const float *data; int n; };
  struct B { float v; };
  struct D : B { float w; };
  struct A {
    float v;
    __device__ float &operator[](int i) { return v; }
    __device__ A &operator<<(float x) { v = x; return *this; }
    __device__ float operator-(float x) { v = x; return x; }
    __device__ float operator!() { v = 5; return v; }
    __device__ float &operator*() { return v; }
    __device__ A *operator->() { return this; }
    __device__ operator float() { v = 5; return v; }
    __device__ const float *at() const { return &v; }
    __device__ float twice() const { return v + v; }
  };
  __device__ float by_box(Box b, const float &v) { b.p[0] = 5; return v; }
  __device__ float by_const_box(const Box &b, const float &v) { b.p[0] = 5; return v; }
  __device__ float by_pointer(float *p, const float &v) { *p = 5; return v; }
  __device__ float by_reference(float &p, const float &v) { p = 5; return v; }
  template <class F> __device__ float by_function(F f, const float &v) { f(); return v; }
  template <class F> __device__ float by_const_function(const F &f, const float &v) { f(); return v; }
  __device__ const float &same(const float &v) { return v; }
  __device__ const float *address(const float &v) { return &v; }
  __device__ float base(const B &b, float &p) { p = 5; return b.v; }
  __device__ void set(B &b) { b.v = 5; }
  __device__ float parts(float4 &a, const float4 &v) { a.x = 5; return ((const float *)&v)[0]; }
  __device__ float row(float (&s)[4]) { auto f = [=] { return s[0]; }; s[0] = 7; return f(); }
]]

-- Objects that hold 1 (if c, which is 1) or 2: the declaration, the expression, and the one chosen.
local chosen = {
  { "float q = 1, r = 2;", "c ? q : r", "q" },
  { "float q[2] = {1}, r[2] = {2};", "c ? q[0] : r[0]", "q[0]" },
  { "float q[2] = {1}, r[2] = {2}, *p = c ? q : r;", "p[0]", "q[0]" },
  { "S q = {1, 3}, r = {2, 4};", "(c ? q : r).v", "q.v" },
}
-- Reads the object E by reference to const while the object at O is set to 5.
local changed = {
  "y[0] = by_box(Box{&O}, E);", "y[0] = by_const_box(Box{&O}, E);", "y[0] = by_pointer(&O, E);",
  "y[0] = by_reference(O, E);", "y[0] = by_function([&] { O = 5; }, E);",
  "y[0] = by_const_function([&] { O = 5; }, E);", "y[0] = by_function(Writer{&O}, E);",
  "Reader a = {&O}; y[0] = a.read(E);", "const float &a = same(E); O = 5; y[0] = a;",
  "const float *a = address(E); O = 5; y[0] = *a;",
}
local bodies = {}
for _, e in ipairs(chosen) do
  for _, body in ipairs(changed) do
    local text = body:gsub("%f[%w][EO]%f[%W]", { E = e[2], O = e[3] })
    bodies[#bodies + 1] = { e[1] .. " " .. text, 5 }
  end
end

-- Functions and operators that change the object that ?: chooses.
for _, call in ipairs { "(c ? a : b)[0] = 5;", "(c ? a : b) << 5.0f;",
  "((c ? a : b) << 3.0f) << 5.0f;",
  "float z = (c ? a : b) - 5.0f; b.v = z;", "float z = !(c ? a : b); b.v = z;",
  "*(c ? a : b) = 5;", "(c ? a : b)->v = 5;", "float z = (c ? a : b); b.v = z;",
  "const float *p = (c ? a : b).at(); a.v = 5; b.v = *p; a.v = *p;" } do
  bodies[#bodies + 1] = { "A a = {1}, b = {2}; " .. call .. " y[0] = a.v;", 5 }
end

for _, case in ipairs {
  { "A a = {1}, b = {2}; y[0] = (c ? a : b).twice();", 2 },
  { "D d = {}, e = {}; set(c ? d : e); y[0] = d.v;", 5 },
  { "D d = {}, e = {}; d.v = 1; y[0] = base(c ? d : e, d.v);", 5 },
  { "float4 q = make_float4(1, 2, 3, 4); y[0] = parts(q, q);", 5 },
  { "float q[4] = {2}; float &r = q[0]; auto f = [=] { return r; }; q[0] = 7; y[0] = f();", 2 },
  { "SHARED float q[4]; q[0] = 2; float &r = q[0]; auto f = [=] { return r; }; q[0] = 7; y[0] = f();",
    2 },
  { "SHARED float q[4]; q[0] = 2; float &r = q[0]; auto f = [r] { return r; }; q[0] = 7; y[0] = f();",
    2 },
  { "SHARED float q[4]; q[0] = 2; float &r = q[0]; auto f = [&] { return r; }; q[0] = 7; y[0] = f();",
    7 },
  { "SHARED S q[4]; q[1].v = 2; S &r = q[1]; auto f = [=] { return r.v; }; q[1].v = 7; y[0] = f();",
    2 },
  { "SHARED float q[4]; q[0] = 2; y[0] = row(q);", 2 },
  { "float q[2] = {3, 4}; View v = {q, 2}; auto &r = v.data; auto f = [=] { return r[0]; }; " ..
    "v.data += 1; y[0] = f();", 3 },
  { "float q[2] = {3, 4}; View v = {q, 2}; auto &r = v.data; auto f = [&] { return r[0]; }; " ..
    "v.data += 1; y[0] = f();", 4 },
  { "y[0] = 3; const float &r = __ldcg(y); y[0] = 9; y[0] += r;", 12 },
  { "y[0] = 3; auto &&r = __ldcg(y); y[0] = 9; y[0] += r;", 12 },
} do
  bodies[#bodies + 1] = case
end

local function cuda(body) return (body:gsub("SHARED", "__shared__")) end

local function value(body, before)
  local k = flame.kernel { source = (before or BEFORE) .. "__global__ void k(float *y, int c) { "
    .. cuda(body) .. " }", grid = { 1 }, block = { 1 }, shape = { 1 } }
  return k(1):item()
end

--- The results of a C++ compiler for all bodies, or nil if there is none.
local function judged()
  local name, compiler = os.tmpname(), nil
  for _, one in ipairs { "clang++", "g++" } do
    if os.execute(one .. " --version >/dev/null 2>&1") then compiler = compiler or one end
  end
  if not compiler then return nil end
  local f = assert(io.open(name .. ".cpp", "w"))
  f:write("#define __device__\n#define SHARED\n#include <cstdio>\nstruct float4 { float x, y, z, w; };\n",
    "static float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }\n",
    "static float __ldcg(const float *p) { return *p; }\n", BEFORE)
  for k, case in ipairs(bodies) do
    f:write(("void f%d(float *y, int c) { %s }\n"):format(k, case[1]))
  end
  f:write("int main() { float y[1];\n")
  for k = 1, #bodies do f:write(("f%d(y, 1); printf(\"%%g\\n\", y[0]);\n"):format(k)) end
  f:write("}\n")
  f:close()
  assert(os.execute(("%s -std=c++17 -w -O0 -o %s.out %s.cpp"):format(compiler, name, name)))
  local lines = {}
  for l in io.popen(name .. ".out"):lines() do lines[#lines + 1] = tonumber(l) end
  for _, ending in ipairs { "", ".cpp", ".out" } do os.remove(name .. ending) end
  return lines
end

describe("what a kernel passes, calls or captures", function()
  for _, case in ipairs(bodies) do
    it("is the object where C++ says so, and a copy elsewhere: " .. case[1], function()
      assert.equal(case[2], value(case[1]))
    end)
  end

  it("has the value that a C++ compiler gives it", function()
    for k, got in ipairs(judged() or {}) do assert.equal(bodies[k][2], got, bodies[k][1]) end
  end)

  local FILE = "__shared__ float g[4]; __shared__ float4 v;\n"
  local function file(functions, body) return value(body, FILE .. functions) end

  it("is the object if the function writes a variable of file scope", function()
    local body = "float q[2] = {1}; g[0] = 2; float *p = c ? g : q; y[0] = f(p[0]);"
    assert.equal(5, file("__device__ float f(const float &v) { g[0] = 5; return v; }\n", body))
    assert.equal(5, file("__device__ void h() { g[0] = 5; }\n" ..
      "__device__ float f(const float &v) { h(); return v; }\n", body))
    assert.equal(5, file("struct H { __device__ void run() const { g[0] = 5; } };\n" ..
      "__device__ float f(const float &v) { H h; h.run(); return v; }\n", body))
    assert.equal(5, file("struct H { int n; __device__ float operator+(int i) const " ..
      "{ g[0] = 5; return 0; } };\n" ..
      "__device__ float f(const float &v) { H h = {1}; float z = h + 1; return v + z; }\n", body))
    assert.equal(5, file("struct H { float n; __device__ H(float x) : n(x) { g[0] = 5; } };\n" ..
      "__device__ float f(const float &v) { return H(0).n + v; }\n", body))
    assert.equal(5, file("struct H { __device__ void run() const { g[0] = 5; }\n" ..
      "  __device__ float f(const float &v) const { run(); return v; } };\n",
      (body:gsub("y.0. = f", "H h; y[0] = h.f"))))
    assert.equal(5, file("enum class E { A };\n" ..
      "__device__ E operator+(E e, int i) { g[0] = 5; return e; }\n" ..
      "__device__ float f(const float &v) { E e = E::A + 1; return v + (int)e; }\n", body))
    assert.equal(5, file(
      "__device__ float f(const float4 &a) { v.x = 5; return ((const float *)&a)[0]; }\n",
      "v = make_float4(1, 2, 3, 4); y[0] = f(v);"))
    assert.equal(5, file("struct S { float v; __device__ float get() const; };\n" ..
      "__shared__ S s, t;\n__device__ float S::get() const { s.v = 5; return v; }\n",
      "s.v = 1; t.v = 2; y[0] = (c ? s : t).get();"))
  end)

  it("is the object if the function writes dynamic shared memory", function()
    local k = flame.kernel { source = [[
      extern __shared__ float s[];       // (declared in both functions NVRTC takes them for two)
      __device__ float f(const float &v) { s[0] = 5; return v; }
      __global__ void k(float *y, int c) {
        float q[2] = {1}; s[0] = 2;
        float *p = c ? s : q; y[0] = f(p[0]);
      }]], grid = { 1 }, block = { 1 }, shape = { 1 }, shared = 16 }
    assert.equal(5, k(1):item())
  end)

  it("has the gradient of the object", function()
    local k = flame.kernel { source = BEFORE .. [[
      __global__ void k(const double *x, double *y) {
        int i = threadIdx.x; double q[2] = {x[i], 1}, r[2] = {2, x[i]}, *p = x[i] > 0 ? q : r;
        auto f = [&](const double &v) { q[0] = x[i] * x[i]; return v * v; };
        y[i] = f(p[0]) + p[1];
      }]], grid = { 1 }, block = { 3 }, shape = { 3 } }
    assert(flame.gradcheck(k, { flame.tensor({ 0.5, -1.2, 0.7 }, { dtype = "f64" }) },
      { order = 2 }))
  end)
end)
