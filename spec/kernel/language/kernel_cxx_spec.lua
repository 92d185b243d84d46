--- C++ as public kernels write it: what stands before the kernel, and its body. Values are compared
--- with g++ on the same text, gradients with central differences; NVRTC, if there is one, compiles
--- the texts. Runs on the default device.
local flame = require "flame"
local helper = require "spec.support.helper"
local proof = dofile("spec/kernel/kernel_proof.lua")
local judged = dofile("spec/kernel/kernel_judged.lua")

local function text_of(before, body)
  return before .. "\n__global__ void k(const double *x, double *y, int n) {\n"
    .. "  int i = threadIdx.x;\n  if (i >= n) return;\n  " .. body .. "\n}"
end

local GET <const> = [[
  struct A {
    double v;
    template <int I> __device__ double get() const { return v * I; }
    template <class T> static __device__ T make(double a) { return (T)a; }
    template <class U> struct in { using type = U; };
  };
  template <class S> __device__ double both(const S &s) {
    typename S::template in<double>::type two = s.template get<2>();
    return two + S::template make<int>(3.5);
  }
]]
local CALLED <const> = [[
  namespace far { __device__ double g(double v) { return v * v; } }
  __device__ double g(double v) { return v + 1; }
  struct F { double a; __device__ double operator()(double v) const { return a * v; } };
]]
local OPERATORS <const> = [[
  struct A {
    double v[2];
    __device__ double operator()(double a) const { return 2 * a; }
    template <class T> __device__ T operator()(double a, T by) const { return (T)(a * by); }
    __device__ double &operator[](int i) { return v[i]; }
    __device__ const double &operator[](int i) const;
  };
  __device__ const double &A::operator[](int i) const { return v[i]; }
  struct B : A {
    __device__ double operator()(double a) const { return A::operator()(a) + this->A::operator()(1.0); }
    __device__ double both(double a) const { return (*this)(a) * operator()(a); }
  };
  struct G { template <class T> __device__ T operator()(double v) const { return (T)v; } };
]]
local POINTED <const> = [[
  __device__ double add(double a, double b) { return a + b; }
  __device__ double mul(double a, double b) { return a * b; }
  template <double (*F)(double, double)> __device__ double fold(double a) { return F(a, F(a, 2)); }
  template <double (*F)(double, double), int N> struct Fold {
    static __device__ double of(double a) { for (int j = 0; j < N; j++) a = F(a, 3); return a; }
  };
]]

local SPACES <const> = [[
  namespace a { struct Op { double v; __device__ double f() const { return v; } }; constexpr int One = 5; }
  namespace b {
    template <class T> struct Op { T v; __device__ T f() const { return 2 * v; } };
    template <class T> using One = T;
    __device__ double g(double v) { Op<double> o{v}; return o.f() + One<int>(v); }
  }
  namespace a { __device__ double g(double v) { Op o{v}; return o.f() * One; } }
]]
local COUNTED <const> = [[
  template <class A> struct R { static constexpr int d = A::d; A a; };
  template <class A> struct Q { static_assert(R<A>::d > 0, "no range"); static constexpr int d = R<A>::d; };
  template <class T> __device__ T one() { return T(1); }
  template <class A> __device__ R<Q<A>> one(const R<A> &o) { return o; }
  template <class T> __device__ T two(T a) { return a; }
  template <class A> __device__ typename Q<A>::type two(A a, A b, bool less = sizeof(A) < 2) { return a; }
  template <class T, class... V> __device__ T two(T a, T b, V... v) { return a * b + (v + ...); }
  template <class T> __device__ T two(T a, T b, T c, int = 3) { return a * b * c; }
]]

local SPANS <const> = [[
  struct Span {
    const double *p; int n;
    __device__ const double *begin() const { return p; }
    __device__ const double *end() const { return p + n; }
  };
  template <class T, int N> struct Some {
    T v[N]; int used;
    __device__ T *begin() { return v; }
    __device__ T *end() { return v + used; }
  };
  struct P { double a; int b; };
]]
local RECURSIVE <const> = [[
  constexpr int lg(int n) { return n < 2 ? 0 : 1 + lg(n / 2); }
  constexpr double pw(double b, int e) { return e == 0 ? 1.0 : b * pw(b, e - 1); }
  constexpr unsigned gcd(unsigned a, unsigned b) { return b == 0 ? a : gcd(b, a % b); }
  constexpr int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
  constexpr int sum(int n) { if (n <= 0) return 0; else if (n == 1) return 1; return n + sum(n - 1); }
]]

local COMMA <const> = [[
  struct M {
    double v[4]; int at;
    __device__ M &operator<<(double a) { v[0] = a; at = 1; return *this; }
    __device__ M &operator,(double a) { v[at++] = a; return *this; }
  };
  struct V { double v; };
  __device__ V operator,(V a, V b) { return V{a.v * 10 + b.v}; }
]]
local DIRECTIVES <const> = [[
  __device__ int f(double v) { return 3; }
  namespace a { __device__ int f(int v) { return 1; } __device__ int e(int v) { return v + 4; } }
  namespace a { namespace b {
    __device__ int f(double v) { return 2; }
    __device__ int g() { return f(1); }
  } }
  namespace c { using namespace a; using a::b::g; __device__ int h() { return f(2) + 10 * g(); } }
  namespace d { using a::f; __device__ int h() { return f(2.5); } }
  namespace q { namespace r { __device__ int f(float v) { return 5; } using namespace a; __device__ int h() { return f(1); } } }
  using namespace c;
]]

local FIELDS <const> = [[
  constexpr int n0 = 3, m = 4;
  struct S {
    int n0; double v;
    __device__ constexpr S(int a, double b) : n0(a), v(b) {}
    __device__ constexpr int get() const { return n0; }
    __device__ constexpr double more() const { return get() + v; }
    __device__ constexpr int kind() const { if (n0 > 5) return 1; return 2; }
    static __device__ constexpr int fixed(int a) { return a * 2 + m; }
    __device__ constexpr int both(int a) const { return fixed(a) + n0; }
  };
  template <class T> struct V {
    T *p; unsigned long size_;
    __device__ constexpr unsigned long size() const noexcept { return size_; }
    ~V() noexcept(true) = default;
  };
  struct D : S { using S::S; __device__ constexpr int twice() const { return 2 * get() + n0; } };
]]
local GUIDED <const> = [[
  namespace a {
    template <class T> struct Box { T v; };
    template <class T, int N = 2> struct Span { T *p; __device__ T &at(int i) const { return p[i * N]; } };
    template <class T> Span(Box<T> const &) -> Span<T const>;
    template <class T> Span(Box<T> &) -> Span<T>;
  }
]]
local FRIENDS <const> = [[
  template <class T> class Near;
  class Range {
   public:
    class At {
      friend class Range; friend Range; template <class T> friend class Near; friend class Near<Near<int>>;
     public:
      __device__ double operator*() const { return v; }
     private:
      __device__ explicit At(double a) : v(a) {}
      double v;
    };
    __device__ At begin() const { return b; }
    __device__ Range(double a) : b(a) {}
   private:
    At b;
  };
]]
local LATER <const> = [[
  template <class S, bool C> class It {
   public:
    using value = typename S::value;
    __device__ It(double a) : v(a) {}
    double v;
  };
  template <class T, int N = 3> class Span {
   public:
    using value = T;
    using iterator = It<Span<T, N>, false>;
    __device__ Span(T a) : v(a) {}
    __device__ T get(int k) const { return v * k + N; }
    __device__ iterator begin() const { return iterator(v); }
    T v;
  };
]]
local OPENED <const> = [[
  namespace std { template <class T> struct own_hash; inline int own(const int *p) { return *p; } }
  namespace std { struct mine { double v; }; template <class T> struct pairs { T a, b; }; }
]]

for _, c in ipairs {
  { "a constexpr member reads the fields of its object", FIELDS,
    "S s(i, x[i]); const S u(9, 2.0); D d(i + 1, 0.5); double q[2] = {x[i], 2}; V<double> w{q, 2}; "
    .. "y[i] = s.get() + s.more() * 10 + s.kind() + 100 * u.kind() "
    .. "+ 1e3 * s.both(2) + S::fixed(3) + 1e4 * d.twice() + w.size() * w.p[0];" },
  { "deduction guides are skipped", GUIDED,
    "double t[4] = {x[i], 1, x[i] * x[i], 3}; a::Span<double> s{t}; a::Span<const double, 1> u{t}; "
    .. "y[i] = s.at(1) + u.at(0) * u.at(3);" },
  { "a class has friends that are classes", FRIENDS, "Range r(x[i]); y[i] = *r.begin() * 3;" },
  { "an alias, and a function's result, may need the whole struct", LATER,
    "Span<double> s(x[i]); y[i] = s.get(2) * s.v;" },
  { "a text may open namespace std", OPENED,
    "std::size_t m = 3; std::mine q; q.v = x[i]; std::pairs<double> r{x[i], 2}; y[i] = q.v * r.a + r.b * m;" },
  { "operator, is called for structs", COMMA,
    "M m; m << x[i], 2, 3.5, 4; int a, b; for (a = 0, b = 5; a < b; a++, b--) m.v[1] += a; "
    .. "V u = (V{x[i]}, V{3}); y[i] = m.v[0] + 10 * m.v[1] + 100 * m.v[2] + m.at + u.v;" },
  { "using namespace counts in its namespace, and hides nothing that is nearer", DIRECTIVES,
    "y[i] = a::b::g() + 10 * c::h() + 1e3 * d::h() + 1e4 * q::r::h() + 1e5 * f(2.5) + 1e6 * e(1);" },
  { "a range may lie between two pointers", SPANS,
    [[Span s{x, i}; double t = 0;
      for (double v : s) t += v * v;
      for (const auto &v : Span{x + 1, 3}) t *= v;
      Some<double, 4> a; a.used = 3; int c = 0;
      for (auto &v : a) { v = x[i] + c++; if (c == 2) continue; v *= 2; }
      for (auto v : a) { if (v > 6) break; t += v; a.used = 1; }
      Some<P, 2> q; q.used = 2; q.v[0] = P{x[i], 1}; q.v[1] = P{2, 3};
      for (const P &e : q) t += e.a * e.b;
      y[i] = t + c;]] },
  { "a constexpr function of constants may call itself", RECURSIVE,
    [[double t[lg(64) + sum(2)]; for (int j = 0; j < lg(64); j++) t[j] = x[i] * j;
      constexpr double q = pw(2, 5); const int f = fib(10);
      y[i] = t[5] + q + f + gcd(12, 18) + lg(1000) + sum(4) + (1 ? 7 : 2.0) / 2;]] },
  { "a name may be a struct in one namespace and a template in another", SPACES,
    "y[i] = a::g(x[i]) + 10 * b::g(x[i]) + a::Op{1}.f() + b::Op<double>{2}.f() * a::One;" },
  { "a template that takes another number of arguments is not read", COUNTED,
    "y[i] = one<double>() * x[i] + two(x[i]) + two(x[i], 2.0, 3, 4, 5) + two(x[i], 1.0, 2.0, 4);" },
  { "a member that is a template is named after the word template", GET,
    "A a{x[i]}; y[i] = a.template get<3>() + A::template make<int>(2.5) + both(a);" },
  { "the name of a function may stand in brackets", CALLED,
    "F f{3}; y[i] = (g)(x[i]) + (::g)(2.0) * (far::g)(x[i]) + (f)(x[i]) + (fmax)(x[i], 2.0);" },
  { "operator() and operator[] are called by name", OPERATORS,
    "A a; a.operator[](0) = x[i]; a[1] = 2; const A &c = a; B b; G g; "
    .. "y[i] = a.operator()(x[i]) + b(x[i]) + b.both(x[i]) + c.operator[](0) * c[1] "
    .. "+ g.operator()<int>(2.5) + g.template operator()<double>(x[i]) + a.operator()<int>(2.5, 3);" },
  { "a function is the argument of a template", POINTED,
    "y[i] = fold<add>(x[i]) + fold<mul>(x[i]) * Fold<mul, 2>::of(x[i]) + fold<&add>(1.0);" },
} do
  it(c[1], function()
    local text = text_of(c[2], c[3])
    local k = flame.kernel { source = text, grid = { 1 }, block = { 32 } }
    judged.row_is_right(k, text, c[3], proof)
  end)
end

it("a function that calls itself with other arguments, or without an end, is refused", function()
  if flame.default_device() ~= "cpu" then return end              -- a GPU runs the text
  for body, text in pairs {
    ["y[i] = f(i);"] = "recursion", ["int a[g(3)]; y[i] = a[0];"] = "nested more than" } do
    local why = helper.message(function()
      flame.kernel(text_of([[
        constexpr int f(int n) { return n < 2 ? 0 : 1 + f(n / 2); }
        constexpr int g(int n) { return g(n + 1); }
      ]], body))(judged.row(judged.N, 1), judged.N)
    end)
    assert(why:find(text, 1, true) and why:find("line %d+"), why)
  end
end)

it("a name is refused whose function needs the whole struct, also by another overload", function()
  if flame.default_device() ~= "cpu" then return end              -- a GPU runs the text
  for _, call in ipairs { "s.begin()", "s.begin(1)" } do
    local why = helper.message(function()
      local more = LATER:gsub("T v;", "__device__ T begin(int k) const { return v * k; } T v;")
      local text = text_of(more, "Span<double> s(x[i]); auto b = " .. call .. "; y[i] = 1;")
      flame.kernel(text)(judged.row(judged.N, 1), judged.N)
    end)
    assert(why:find("'begin' ", 1, true), why)
  end
end)

it("a text's own function is called where it fits as well as one of PyTorch's", function()
  local k = flame.kernel { source = [[
    template <class T> __device__ T WARP_SHFL_XOR(T v, int m, int w = 32) { return 2 * v + m + w; }
    __global__ void k(const float *x, float *y) { y[threadIdx.x] = WARP_SHFL_XOR(x[threadIdx.x], 1); }
  ]], grid = { 1 }, block = { 2 }, shape = { 2 } }
  assert.same({ 35, 43 }, k(flame.tensor { 1, 5 }):totable())
end)

it("__assert_fail with the text of a condition is a failed assertion", function()
  if flame.default_device() ~= "cpu" then return end        -- a GPU's error comes with the values
  local k = flame.kernel { source = [[
    __global__ void k(const float *x, float *y) {
      (x[threadIdx.x] > 0) ? static_cast<void>(0) : __assert_fail("x > 0", __FILE__, __LINE__, "k");
      y[threadIdx.x] = 2 * x[threadIdx.x];
    } ]], grid = { 1 }, block = { 2 }, shape = { 2 } }
  assert.same({ 2, 4 }, k(flame.tensor { 1, 2 }):totable())
  local why = helper.message(function() k(flame.tensor { 1, -2 }):totable() end)
  assert(why:find("x > 0", 1, true) and why:find("thread (1, 0, 0)", 1, true), why)
end)

it("a kernel that is a template is told so, also with its bounds first", function()
  local why = helper.message(flame.kernel, [[
    template <bool B> __launch_bounds__(64) __global__ void k(const float *x, float *y) { y[0] = B; }
  ]])
  assert.truthy(why:find("named with its arguments", 1, true), why)
end)
