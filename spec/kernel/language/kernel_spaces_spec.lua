--- Names that several namespaces define: types, templates, constants and functions. Values are
--- compared with g++ on the same text, gradients with central differences; NVRTC, if there is one,
--- compiles the texts.
local flame = require "flame"
local judged = dofile("spec/kernel/kernel_judged.lua")
local proof = dofile("spec/kernel/kernel_proof.lua")

local HEAD <const> = [[
struct P { double v = 3; }; __device__ int f(int) { return 3; } __device__ double part(double v) { return 3 * v; }
namespace a {
  typedef float T; struct P { T v = 1; }; constexpr int n = 3; enum E { low = 1 };
  template <class Q> struct V { Q q; static constexpr int k = 1; };
  template <> struct V<int> { int q; static constexpr int k = 30; };
  template <class Q> struct V<Q *> { static constexpr int k = 50; };
  template <class Q> using twice = V<V<Q>>; template <class Q> constexpr int size = sizeof(Q);
  __device__ int f(double) { return 1; } __device__ int g() { return f(1) + 10 * ::f(1); }
  __device__ double part(double v) { return 5 * v; }
  __device__ double rsqrt(double v) { return 7 * v; }
  template <class Q> __device__ int h(Q) { return 1; } template <class Q> __device__ int q(const V<Q> &v) { return n + v.k; }
  namespace in {
    template <class Q> __device__ int h(Q) { return 2; } __device__ int both() { return h(1) + 10 * a::h(1); }
    struct P { double v = 4; }; __device__ double all() { P p; a::P r; ::P s; return p.v + 10 * r.v + 100 * s.v; }
  }
  struct S { int v; __device__ int m() const; P p; __device__ double w() const { P o; return o.v + p.v; } };
  __device__ double use(double v) { return part(v) + ::part(v) + rsqrt(v); }
}
namespace b {
  typedef double T; struct P { T v[2]; }; constexpr int n = 5; enum E { low = 2 };
  template <class Q> struct V { Q q[2]; static constexpr int k = 2; }; template <class Q> struct V<Q *> { static constexpr int k = 60; };
  template <class Q> using twice = V<Q *>; template <class Q> constexpr int size = -(int)sizeof(Q);
  __device__ int f(int) { return 2; } __device__ int g() { return f(1.5); }
  __device__ double rsqrt(double v) { return 9 * v; }
  template <class Q> __device__ int h(Q) { return 4; } template <class Q> __device__ int q(const V<Q> &v) { return n + v.k; }
  struct R; __device__ double of(const R *r); struct R { double v; }; __device__ double of(const R *r) { return r->v; }
  __device__ int s() { V<T> v; return sizeof(v) + V<P>::k + n + E::low; }
}
namespace d { template <class Q> struct Y { static constexpr int v = 6; }; template <class Q> struct Y<Q *> { static constexpr int v = 7; }; }
template <class Q> struct Y { static constexpr int v = 11; }; template <> struct Y<int> { static constexpr int v = 15; };
namespace b { namespace c { template <class Q> struct Y { static constexpr int v = 22; }; struct Z { int v = Y<int>::v; }; } }
namespace c { struct R { int v; }; using b_P = b::P; inline namespace v1 { struct W { int v = 6; }; } namespace { struct U { int v = 8; }; } }
namespace d { struct W { int v = 7; }; struct U { int v = 9; }; __device__ int k() { W w; return w.v; } }
__device__ int a::S::m() const { return f(1) + 10 * n; }
]]
local function text(body)
  return HEAD .. "__global__ void k(const double *x, double *y, int n) {\n" ..
    "  int i = threadIdx.x;\n  if (i >= n) return;\n  " .. body .. "\n}\n"
end

describe("a name of several namespaces", function()
  for _, body in ipairs {
    "y[i] = a::g() + 100 * b::g() + 1000 * f(1.5) + 1e4 * a::f(1) + 1e5 * b::f(1);",
    "a::P p; b::P q{{x[i], 2}}; P r; y[i] = p.v + 10 * q.v[0] + 100 * r.v + 1000 * sizeof(p) + 1e4 * sizeof(q);",
    "y[i] = a::V<float>::k + 10 * a::V<int>::k + 1e3 * a::V<int *>::k + 1e5 * b::V<int>::k + 1e6 * b::V<int *>::k;",
    "y[i] = a::n + 10 * b::n + 100 * a::low + 1000 * b::low + 1e4 * a::size<int> + 1e5 * b::size<double>;",
    "y[i] = a::twice<int>::k + 10 * b::twice<int>::k + 1000 * a::h(1) + 1e4 * b::h(1) + 1e5 * a::in::h(1) + 1e6 * a::in::both();",
    "y[i] = q(a::V<int>{1}) + 100 * q(b::V<int>{{1, 2}}) + 1e4 * b::s() + a::in::all() * 1e6;",
    "y[i] = a::use(x[i]) * a::rsqrt(x[i]) + b::rsqrt(x[i]) + part(x[i]) + a::part(x[0]);",
    "{ using namespace b; y[i] = b::rsqrt(x[i]) + h(1); } y[i] += 100 * f(1.5) + 10 * part(x[i]);",
    "using a::f; y[i] = f(2.5) + 10 * f(1) + 100 * ::f(2.5); { using b::f; y[i] += 1000 * f(2.5); } y[i] += 1e4 * f(1);",
    "{ using b::f; using a::part; y[i] = f(1) + 10 * part(x[i]); } { using a::f; y[i] += 100 * f(1); } y[i] += 1000 * f(1) * part(x[i]);",
    "using a::part; auto r = [](double v) { using ::part; return part(v); }; y[i] = part(x[i]) + 100 * r(x[i]);",
    "if (i) { using namespace a; y[i] = h(1) + g(); } else { using namespace b; y[i] = h(1) + 100 * g(); }",
    "a::S s{2}; b::R r{x[i]}; c::R t{4}; y[i] = s.m() + 100 * s.w() + b::of(&r) * x[i] + 1000 * t.v;",
    "y[i] = Y<char>::v + 100 * Y<int>::v + 1e4 * d::Y<int *>::v + 1e5 * d::Y<char>::v + 1e6 * b::c::Y<int>::v + 1e8 * b::c::Z{}.v;",
    "c::W w; d::W u; c::U e; d::U z; c::b_P o{{x[i], 1}}; y[i] = w.v + 10 * u.v + 100 * d::k() + 1000 * e.v + 1e4 * z.v + o.v[0] * x[i];",
  } do
    it("is that of the namespace it is used in, or is written with: " .. body, function()
      local k = flame.kernel { source = text(body), grid = { 1 }, block = { 32 },
        shape = { judged.N } }
      judged.row_is_right(k, text(body), body, proof)
    end)
  end

  it("is refused where what is meant is not known: a variable, or one that a 'using' may bring", function()
    local A <const> = "namespace a { struct P { int v; }; }"
    local B <const> = "namespace b { struct P { int v; }; }"
    for _, c in ipairs {
      { "namespace a { __constant__ int t[1] = {1}; } namespace b { __constant__ int t[1] = {3}; }",
        "y[i] = a::t[0];" },
      { "namespace a { __device__ int t; } namespace b { __device__ int t; }", "y[i] = a::t;" },
      { "struct P { int v; };" .. B ..
        "namespace c { using b::P; __device__ int f() { P p; return p.v; } }", "y[i] = c::f();" },
      { A .. B .. "namespace q = b;", "q::P p{2}; y[i] = p.v;" },
      { A .. B .. "using namespace a; using namespace b;", "a::P q{1}; P p{2}; y[i] = p.v;" },
    } do
      local known, k = pcall(flame.kernel, c[1] ..
        "\n__global__ void k(const double *x, double *y, int n) { int i = 0; " .. c[2] .. " }")
      assert.matches("is defined in two namespaces, which are not told apart",
        known and k:report().refusal or k)
    end
  end)

  it("is the one that a 'using' brings, where there is no other", function()
    local k = flame.kernel [[namespace a { struct P { int v = 1; }; } namespace b { struct P { int v = 2; }; __device__ int f(int) { return 5; } }
      namespace c { __device__ int f(double) { return 6; } } using namespace b;
      __global__ void k(double *y) { P p; y[0] = p.v + 10 * f(1); }]]
    assert.equal(52, k:with { shape = { 1 } }():item())
  end)

  it("is no function that comes after the call, where one before it fits", function()
    local function value(functions)
      local k = flame.kernel(functions .. "\n__global__ void k(double *y) { y[0] = u(); }")
      if k:report().refusal then return k:report().refusal end
      return k:with { shape = { 1 } }():item()
    end
    local W <const> = "__device__ int W(char) { return 1; } "
    local u <const>, last <const> = "__device__ int u() { return W(1.5f); } ",
      "__device__ int W(double) { return 2; } "
    local early <const> = "'W' is called before the function of that name that fits best"
    assert.matches(early, value(W .. u .. last))
    assert.matches(early, value(W .. "template <class T> __device__ int v(T t) { return W(t); } "
      .. last .. "__device__ int u() { return v(1.5); }"))
    assert.equal(2, value(W .. last .. u))
    assert.equal(2, value("__device__ int W(double); " .. W .. u .. last))
    -- the type of an argument leads to functions that come later
    assert.equal(2, value("struct S {}; __device__ int W(float) { return 1; } "
      .. "template <class T> __device__ int v(T t) { return W(t); } __device__ int W(S) { return 2; } "
      .. "__device__ int u() { return v(S()); }"))
  end)
end)
