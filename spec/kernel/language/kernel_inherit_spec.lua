--- What structs have from their bases: names that hide others, using declarations, inherited
--- constructors, names that are ambiguous. Values are compared with g++ on the same text, gradients
--- with central differences; NVRTC, if there is one, compiles the texts. Runs on the default
--- device.
local flame = require "flame"
local helper = require "spec.support.helper"
local proof = dofile("spec/kernel/kernel_proof.lua")
local judged = dofile("spec/kernel/kernel_judged.lua")
local message = helper.message

local function text_of(before, body)
  return before .. "\n__global__ void k(const double *x, double *y, int n) {\n"
    .. "  int i = threadIdx.x;\n  if (i >= n) return;\n  " .. body .. "\n}"
end

local function right(before, body)
  local text = text_of(before, body)
  local k = flame.kernel { source = text, grid = { 1 }, block = { 32 } }
  judged.row_is_right(k, text, body, proof)
end

local function refused(before, body, text)
  local why = message(flame.kernel, text_of(before, body))
  assert(why:find(text, 1, true) and why:find "line %d+", why)
end

local TWO <const> = [[
  struct A {
    double v; enum { N = 3 };
    __device__ double f(double a) const { return v + a; }
    __device__ double operator()(double a) const { return a; }
    __device__ double operator+(double a) const { return a; }
  };
  struct B {
    double v; enum { N = 4 };
    __device__ double f(int a) const { return v * a; }
    __device__ double operator()(double a, double b) const { return a * b; }
    __device__ double operator+(int a) const { return a; }
  };
]]
local BOTH <const> = TWO .. "  struct C : A, B {};\n"

describe("a name that two bases have", function()
  for body, text in pairs {
    ["C c; y[i] = c.v + x[i];"] = "'v': bases 'A' and 'B'",
    ["C c; y[i] = c.f(x[i]);"] = "'f': bases 'A' and 'B'",
    ["C c; y[i] = c(x[i]);"] = "'operator()': bases 'A' and 'B'",
    ["C c; y[i] = c + x[i];"] = "no operator '+'",
    ["y[i] = C::N;"] = "'N': bases 'A' and 'B'",
    ["struct D : C { double g() const { return v; } }; D d; y[i] = d.g();"] =
      "'v': bases 'A' and 'B'",
  } do
    it("is ambiguous: " .. body, function() refused(BOTH, body, text) end)
  end

  it("is told apart by a prefix, a using declaration, or a member that hides it", function()
    right(BOTH, "C c; c.A::v = x[i]; c.B::v = 3; y[i] = c.A::f(2) * c.B::f(2) + C::A::N;")
    right(TWO .. [[ struct C : A, B {
        using B::v; using A::f; using B::f; using A::operator(); using B::operator();
        enum { N = A::N + B::N };
        __device__ double g() const { return v + N; }
      };]], "C c; c.v = x[i]; c.A::v = 2; y[i] = c.g() + c.f(1.5) * c.f(3) + c(x[i]) * c(x[i], 2.0) + C::N;")
    right(TWO .. "struct C : A, B { double v; __device__ double g() { return v * A::v + B::v; } };",
      "C c; c.v = x[i]; c.A::v = 2; c.B::v = 3; A &a = c; y[i] = c.g() + c.v + a.v;")
  end)

  it("may be one thing in both", function()
    right("struct R { enum { N = 3 }; static __device__ double f(double v) { return 2 * v; } };\n"
      .. "struct A : R {}; struct B : R {}; struct C : A, B {};",
      "C c; y[i] = C::N * C::f(x[i]) + c.f(x[i]);")
  end)

  it("is a member of each of two equal bases", function()
    local text = "struct R { double v; __device__ double f() const { return 2 * v; } };\n"
      .. "struct A : R {}; struct B : R {}; struct C : A, B {};\n"
      .. "__device__ double g(const R &r) { return r.v; }"
    right(text, "C c; c.A::v = x[i]; c.B::v = 2; y[i] = c.A::f() * c.B::f();")
    refused(text, "C c; c.A::v = x[i]; y[i] = c.v;", "'v': bases 'A' and 'B'")
    refused(text, "C c; c.A::v = x[i]; y[i] = c.f();", "'f': bases 'A' and 'B'")
    refused(text, "C c; c.A::v = x[i]; y[i] = g(c);", "several bases 'R'")
  end)

  it("makes a struct no argument of a kernel", function()
    for _, text in ipairs { BOTH, "struct A { double v; }; struct C : A { double v; };\n" } do
      local why = message(function()
        local k = flame.kernel(text .. "__global__ void k(C c, double *y, int n) { y[0] = c.A::v; }")
        k({ v = 1 }, 1)
      end)
      assert.truthy(why:find("two members 'v' of a struct and its bases", 1, true), why)
    end
  end)
end)

it("a struct with unnamed unions is an argument", function()
  local k = flame.kernel([[
    struct V { union { float x, r; }; union { float y, g; }; };
    struct W : V { union { int a; float b; }; };
    __global__ void k(W w, const float *x, float *y, int n) { y[0] = w.x + w.g * x[0]; }]])
  assert.truthy(k:report().parameters[1])
end)

describe("a member", function()
  it("hides one of a base, of any kind", function()
    right("struct A { double v[2]; int n; }; struct B : A { double v[3]; float n; };",
      [[B b; for (int j = 0; j < 3; j++) b.v[j] = x[i] * j;
        b.A::v[0] = 1; b.A::v[1] = 10; b.n = 0.5f; b.A::n = 3;
        B c = b; y[i] = c.v[2] + c.A::v[1] + c.n * c.A::n;]])
    right("struct A { double v; __device__ double f() const { return 5; } };\n"
      .. "struct B : A { double f; __device__ double v() const { return A::v + f + A::f(); } };",
      "B b; b.f = x[i]; b.A::v = 2; y[i] = b.v() + b.f + b.A::f();")
  end)
end)

local TEMPLATE <const> = [[
  template <class T> struct A {
    using type = T;
    struct Node { T v; };
    static constexpr int N = 3;
    T v;
    __device__ A(T a) : v(a) {}
    __device__ A(T a, T b) : v(a * b) {}
    __device__ T twice() const { return 2 * v; }
    template <class U> __device__ U as() const { return (U)v; }
    __device__ A &operator=(T a) { v = a + 1; return *this; }
  };
  template <class T> struct B : A<T> {
    using Base = A<T>;
    using Base::Base;
    using Base::v, Base::twice, Base::N;
    using typename Base::type;
    using typename A<T>::Node;
    using Base::operator=;
    using Base::as;
    T w = 4;
    __device__ type g() const { type r = v; Node q; q.v = w; return r + twice() + N * q.v; }
    __device__ T as(T by) const { return v * by; }
  };
]]

describe("a using declaration in a struct", function()
  it("names members of a base that depends on the template's arguments", function()
    right(TEMPLATE, "B<double> b(x[i]); y[i] = b.g() + b.w;")
    right(TEMPLATE, "B<double> b(x[i], 3.0), c(1.0); c = x[i]; y[i] = b.g() * c.v;")
    right(TEMPLATE, "B<double> b(2.5); y[i] = b.as<int>() + b.as(x[i]);")
  end)

  it("adds functions of a base to those of the struct, which hide equal ones", function()
    right([[
      struct A {
        __device__ double f(double v) const { return v; }
        __device__ double f(int v) const { return v + 10; }
      };
      struct B : A { using A::f; __device__ double f(double v) const { return 100 * v; } };
      struct C : B {};
    ]], "C c; y[i] = c.f(x[i]) + c.f(3);")
  end)

  it("names enumerations and their values", function()
    right("struct A { enum Kind { X, Y = 7 }; Kind k; };\n"
      .. "struct B : private A { using A::Kind; using A::k; using A::Y; };",
      "B b; b.k = B::Y; B::Kind q = b.k; y[i] = q * x[i];")
  end)
end)

describe("an inherited constructor", function()
  local MADE <const> = [[
    struct A {
      double v;
      __device__ A(double a, int by = 3) : v(a * by) {}
      template <class T> __device__ A(T a, T b, T c) : v(a + b * c) {}
      __device__ A() : v(9) {}
    };
    struct B : A { using A::A; double w = 4; };
    struct C : B { using B::B; double z = v + w; __device__ C(int a) : B(a, 2) { w = 1; } };
    __device__ double f(B b) { return b.v + b.w; }
  ]]
  it("makes its base, and the other members by default", function()
    right(MADE, "B a(x[i]), b{x[i], 2}, c; y[i] = a.v * b.v + c.v + a.w + f(x[i]);")
    right(MADE, "C a(x[i], 5), b(2.0, 3.0, x[i]), d(7); y[i] = a.z * b.z + d.v + d.w + d.z;")
  end)

  it("is none where the base has none without arguments", function()
    refused("struct A { double v; __device__ A(double a) : v(a) {} }; struct B : A { using A::A; };",
      "B b; y[i] = b.v;", "no constructor of 'A' fits the 0 arguments")
  end)
end)
