--- Which function a call means, where const, casts and enumerations decide it. Values are compared
-- with g++ on the same text, on the default device; NVRTC, if there is one, compiles the texts.
local flame = require "flame"
local judged = dofile("spec/kernel/kernel_judged.lua")

local has_gcc = os.execute "g++ --version > /dev/null 2>&1"
local HEADERS <const> = "#include <cstddef>\n#include <cstdint>\n#include <type_traits>\n"
local function kernel(head, body)
  return HEADERS .. head .. "__global__ void k(const double *x, double *y, int n) {\n" ..
    "  int i = threadIdx.x;\n  if (i >= n) return;\n  double t = 0;\n  " .. body .. "\n}\n"
end
local function made(source)
  return flame.kernel { source = source, grid = { 1 }, block = { 32 }, shape = { judged.N } }
end

--- Compares the values that the statements give to y[i], all in one kernel, with those of g++.
local function agree(head, list)
  local parts = {}
  for k, statements in ipairs(list) do
    parts[k] = "{ " .. statements .. " }\n  t = 3 * t + y[i];"
  end
  local source = kernel(head, table.concat(parts, "\n  ") .. "\n  y[i] = t;")
  local x = judged.numbers(judged.N, 0)
  local right = judged.values(source, { "x" }, judged.array("x", { table.unpack(x) }))
  assert(right or not has_gcc, "g++ does not compile the text")
  local k = made(source)
  if right then judged.near(k(judged.row(judged.N, 0), judged.N):totable(), right[1], head) end
  judged.compiles(k)
end

local function refused(head, statements, why)
  local known, k = pcall(made, kernel(head, statements .. " y[i] = x[i];"))
  local refusal = not known and k or k:report().refusal or "none"
  assert(refusal:find(why, 1, true), ("%s: %s"):format(statements, refusal))
end

local CONST <const> = [[
  struct V { double a[3];
    __device__ double &operator[](int i) { return a[i]; }
    __device__ double operator[](int i) const { return a[i] + 100; }
    __device__ int kind() { return 1; } __device__ int kind() const { return 2; }
    __device__ double *begin() { return a; } __device__ const double *begin() const { return a; }
    __device__ const V &self() const { return *this; } __device__ V &self() { return *this; }
    __device__ const V &fixed() { return *this; } __device__ const V *at() { return this; } };
  __device__ int f(double &) { return 1; } __device__ int f(const double &) { return 2; }
  __device__ int g(double *) { return 1; } __device__ int g(const double *) { return 2; }
  __device__ int h(V &) { return 1; } __device__ int h(const V &) { return 2; }
  template <class T> __device__ int t2(T &) { return 1; }
  template <class T> __device__ int t2(const T &) { return 2; }
  template <class T> __device__ const T &fixed(T &v) { return v; }
  struct X { V v; double r, w[2]; V u[2];
    __device__ double get(int i) const { return v[i]; } __device__ double own(int i) { return v[i]; }
    __device__ int a() const { return f(r) * 1000 + g(&r) * 100 + g(w) * 10 + h(v); }
    __device__ int b() { return f(r) * 1000 + g(&r) * 100 + g(w) * 10 + h(v); }
    __device__ int c() const { return t2(r) * 100 + t2(v) * 10 + t2(w[0]); }
    __device__ int d() const { auto &q = v; const auto &s = v; auto u = v;
      return q.kind() * 100 + s.kind() * 10 + u.kind(); }
    __device__ int e() const { auto p = &r; auto *s = w; return g(p) * 10 + g(s); }
    __device__ int l() const { auto k = [&] { return v.kind(); }; auto m = [=] { return v.kind(); };
      return k() * 10 + m(); }
    __device__ int m() { auto k = [this] { return v.kind(); }; auto m = [=] { return v.kind(); };
      return k() * 10 + m(); }
    __device__ int n() const { return this->v.kind() * 10 + (*this).u[1].kind(); }
    __device__ int o() const { int z = 0; for (auto &e : u) z = 10 * z + e.kind(); return z; }
    __device__ int q() const { return const_cast<X *>(this)->v.kind() * 10 +
      const_cast<V &>(v).kind(); } };
  struct Y : X { __device__ int k() const { return v.kind() + 10 * a(); }
    __device__ int k2() { return v.kind(); } };
]]

describe("in a const function of an object that is not const", function()
  it("members are const", function()
    agree(CONST, {
      "X w; w.v.a[0] = x[i]; w.v.a[1] = 2; const X &c = w; y[i] = w.get(1) + w.own(0) + c.get(0);",
      "X w; y[i] = w.a();", "X w; y[i] = w.b();", "X w; y[i] = w.c();", "X w; y[i] = w.d();",
      "X w; y[i] = w.e();", "X w; y[i] = w.n();", "X w; y[i] = w.o();", "X w; y[i] = w.q();",
      "Y w; y[i] = w.k() + 100 * w.k2();",
      "X w; const X *p = &w; y[i] = p->v.kind() + 10 * p->u[1].kind();",
    })
  end)
  it("they are in lambdas too, which reach them through this", function()
    agree(CONST .. [[
      struct A { double r; int n; double w[2];
        __device__ double late() { auto l = [=] { return r + n + w[1]; }; r = 50; n = 7; w[1] = 9; return l(); }
        __device__ double put() { auto l = [=](double z) { r = z; w[0] += z; n++; }; l(3); l(5);
          return r * 100 + w[0] * 10 + n; }
        __device__ double cap() { auto l = [=, r = r] { return r * 10 + n; }; r = 8; n = 3; return l(); }
        __device__ double both(double q) { double z = q; auto l = [=] { return z + q + r; };
          z = 100; q = 100; r = 4; return l(); }
        __device__ double in() { auto l = [=] { auto m = [=] { return r; }; r = 6; return m(); }; return l(); }
      };]], {
      "X w; y[i] = w.l();", "X w; y[i] = w.m();",
      "A a{}; a.r = x[i]; a.n = 2; a.w[0] = a.w[1] = 1; y[i] = a.late();", "A a{}; y[i] = a.put();",
      "A a{}; a.r = x[i]; y[i] = a.cap();",
      "A a{}; a.r = 2; y[i] = a.both(x[i]);", "A a{}; y[i] = a.in();",
    })
  end)
  for _, body in ipairs {
      "r = 3;", "++r;", "f();", "double &q = r; q = 3;", "double *q = &r; *q = 3;",
      "auto &q = r; q = 2;", "this->r = 1;" } do
    it("they are not written by " .. body, function()
      refused("struct A { double r; __device__ double f() { return r; }\n" ..
        "__device__ double g() const { " .. body .. " return r; } };\n", "A a{}; t = a.g();",
        body == "f();" and "'f' may change its object, which is const" or "is const")
    end)
  end
end)

describe("const", function()
  it("is what a declaration or a cast says", function()
    agree(CONST, {
      "double a[2] = {x[i], 2}; const double *p = a; y[i] = g((double *)p) * 10 + g(p) + 100 * g(const_cast<double *>(p));",
      "double a[2] = {x[i], 2}; const auto *p = a; auto *q = a; auto r = a; const auto s = a; auto *const z = a; auto const *o = a;" ..
        "y[i] = g(p) * 1e5 + g(q) * 1e4 + g(r) * 1000 + g(s) * 100 + g(z) * 10 + g(o);",
      "double a[2] = {x[i], 2}; const double *p = a; auto *q = p; auto r = p; y[i] = g(q) * 10 + g(r);",
      "double a[2] = {x[i], 2}; const double *p = a; double *q = (double *)p; q[0] = 3; y[i] = a[0] + g(q);",
      "double a = x[i]; const double &r = a; const_cast<double &>(r) = 5; y[i] = a + 10 * f(const_cast<double &>(r)) +" ..
        "100 * f(static_cast<const double &>(a)) + f((double &)r) * 1000;",
      "double a = x[i]; auto &r = a; const auto &s = a; const double b = a; auto &u = b; y[i] = f(r) + 10 * f(s) + 100 * f(u) + 1000 * f(b);",
      "double a = x[i]; y[i] = f((const double &)a) + 10 * g((const double *)&a) + 100 * g(static_cast<const double *>(&a)) +" ..
        "1000 * g(reinterpret_cast<const double *>(&a));",
      "double a[2] = {1, 2}; double *const p = a; const double *const q = a; y[i] = g(p) + 10 * g(q) + 100 * f(p[0]) + 1000 * f(q[1]) + 1e4 * f(*q);",
      "double a[2] = {1, 2}; const double *p; p = a; const double *q = nullptr; if (i % 2) q = a; y[i] = g(p) + 10 * g(q);",
      "y[i] = g(x) * 10 + g(y) + 100 * f(x[0]) + 1000 * f(y[0]) + 1e4 * t2(x[0]) + 1e5 * t2(y[0]);",
    })
  end)
  it("is what a function returns", function()
    agree(CONST, {
      "V v; const V &c = v; y[i] = g(v.begin()) + 10 * g(c.begin()) + 100 * v.self().kind() + 1000 * c.self().kind();",
      "V v; y[i] = v.fixed().kind() + 10 * v.at()->kind() + 100 * fixed(v).kind() + 1000 * h(fixed(v));",
      "double a = x[i], b = 2; y[i] = f(i % 2 ? a : b) + 10 * f(const_cast<const double &>(i % 2 ? a : b));",
    })
  end)
  it("is that of captures, loops and parts", function()
    agree(CONST, {
      "V v; auto l = [v] { return v.kind(); }; auto m = [&v] { return v.kind(); }; auto o = [&] { return v.kind(); };" ..
        "auto q = [=] { return v.kind(); }; auto r = [w = v] { return w.kind(); }; y[i] = l() + 10 * m() + 100 * o() + 1000 * q() + 1e4 * r();",
      "double a[2] = {1, 2}; auto l = [a] { return g(a) * 10 + f(a[0]); }; auto m = [&] { return g(a) * 10 + f(a[0]); }; y[i] = l() + 100 * m();",
      "double a[2] = {1, 2}; double *p = a; auto l = [p] { return g(p) * 10 + f(p[0]); }; auto m = [=] { return g(p) * 10 + f(*p); }; y[i] = l() + 100 * m();",
      "const V c[2] = {}; V v[2]; int z = 0; for (auto &e : c) z = z * 10 + h(e); for (const auto &e : v) z = z * 10 + h(e);" ..
        "for (auto &e : v) z = z * 10 + h(e); for (auto e : c) z = z * 10 + h(e); y[i] = z;",
      "struct Q { int a; } q = { 3 }; const Q s = { i }; auto [u] = s; auto &[w] = s; const auto &[z] = q;" ..
        "y[i] = t2(u) + 10 * t2(w) + 100 * t2(z) + 1000 * t2(s.a) + 1e4 * t2(q.a);",
    })
  end)
  it("and volatile of what a pointer points to tell overloads apart", function()
    agree([[
      __device__ int f(volatile float *p) { return 1; } __device__ int f(float *p) { return 2; }
      __device__ int f(const float *p) { return 3; } __device__ int f(const volatile float *p) { return 4; }
      template <class T> __device__ int t2(T *p) { return 1; }
      template <class T> __device__ int t2(volatile T *p) { return 2; }
      template <class T> __device__ int t2(const T *p) { return 3; }
      __device__ void add(volatile double *s, int k) { s[k] += s[k + 1]; }
      __device__ void add(double *s, int k) { s[k] *= s[k + 1]; }]], {
      "float a[2] = {0, 0}; volatile float *v = a; const float *c = a; y[i] = f(a) + 10 * f(v) + 100 * f(c) + 1000 * t2(a) + 1e4 * t2(v) + 1e5 * t2(c);",
      "double s[3] = {x[i], 2, 3}; volatile double *v = s; add(v, 0); add(s, 1); y[i] = s[0] + s[1];",
    })
  end)
  it("of a kernel's parameter stays", function()
    refused("", "((double *)x)[0] = 1;", "'x' is const")
    refused("", "atomicAdd(const_cast<double *>(x), 1.0);", "'x' is const")
  end)
end)

local ENUM <const> = [[
  enum class E : unsigned { N = 0, A = 1, B = 2, C = 4, ALL = 7 };
  enum U { P = 1, Q = 2, R = 4 };
  __device__ constexpr E operator|(E a, E b) { return static_cast<E>(static_cast<unsigned>(a) | static_cast<unsigned>(b)); }
  __device__ constexpr E operator&(E a, E b) { return E(unsigned(a) & unsigned(b)); }
  __device__ constexpr E operator~(E a) { return E(~unsigned(a) & 7u); }
  __device__ constexpr bool operator!(E a) { return unsigned(a) == 0; }
  __device__ E &operator|=(E &a, E b) { return a = a | b; }
  __device__ E &operator&=(E &a, const E &b) { a = a & b; return a; }
  __device__ E &operator<<=(E &a, int s) { return a = E(unsigned(a) << s); }
  __device__ E &operator++(E &e) { e = E(unsigned(e) * 2); return e; }
  __device__ E operator++(E &e, int) { E o = e; e = E(unsigned(e) + 3); return o; }
  __device__ E operator--(E &e, int) { E o = e; e = E(unsigned(e) - 1); return o; }
  __device__ int operator-(E a) { return 50 + int(a); }
  __device__ int operator+(E a) { return 60 + int(a); }
  __device__ int operator-(E a, E b) { return 70 + int(a) - int(b); }
  __device__ E operator+(E a, int k) { return E(unsigned(a) + k); }
  __device__ double operator*(double s, E a) { return s * int(a) + 1000; }
  __device__ U operator|(U a, U b) { return U(int(a) | int(b) | 64); }
  __device__ U operator~(U a) { return U(99); }
  __device__ bool operator!(U a) { return true; }
  __device__ U &operator|=(U &a, U b) { a = U(int(a) + int(b) * 10); return a; }
  __device__ U &operator++(U &a) { a = U(a + 5); return a; }
  __device__ U operator-(U a) { return U(77); }
  __device__ int operator+(U a, U b) { return 500; }
  __device__ bool operator==(U a, U b) { return int(a) + 1 == int(b); }
  __device__ bool operator<(U a, U b) { return int(a) > int(b); }
  __device__ U operator<<(U a, int s) { return U(1000 + a + s); }
  __device__ int operator*(U a, float s) { return 2000; }
  template <class T> __device__ T any(T a, T b) { return a | b; }
  template <int K> struct Int { static constexpr int v = K; };
  template <E e> struct Has { static constexpr bool a = (e & E::A) == E::A; };
]]

describe("operators of enumerations", function()
  it("are those of the text", function()
    agree(ENUM, {
      "E e = E::A | E::B; e |= E::C; y[i] = int(e);",
      "E e = E::ALL; e &= E::A | E::C; y[i] = int(e) + 10 * !e + 100 * !(e & E::B);",
      "y[i] = int(~E::A) + 100 * (-E::B) + 1000 * (+E::C);",
      "E e = E::A; ++e; E f = ++e; E g = e++; e++; e--; y[i] = int(e) + 100 * int(f) + 1e4 * int(g);",
      "E e = E::A; (++e) |= E::C; (e |= E::A) &= E::C; e <<= 1; y[i] = int(e) + (E::C - E::A) * 100;",
      "y[i] = int(E::A + i) + x[i] * E::C;",
      "E e = i % 2 ? E::A : E::B, s[2] = { e, E::C }; s[0] |= s[1]; ++s[1]; y[i] = int(s[0]) + 10 * int(s[1]);",
      "struct S { E e; U u; } s = { E::A, P }; s.e |= E::B; s.u |= Q; ++s.u; y[i] = int(s.e) + 10 * s.u;",
      "E e = E::N; auto set = [&](E f) { e |= f; }; set(E::A); set(E::C); y[i] = int(e); switch (e & E::ALL) {" ..
        "case E::A | E::C: y[i] += 100; break; default: ; }",
      "y[i] = Has<E::A | E::B>::a + 10 * Has<~E::A>::a + 100 * Int<int(E::A | E::C)>::v;",
    })
  end)
  it("are built in where those of the text fit worse", function()
    agree(ENUM, {
      "U u = P; u |= Q; y[i] = u;", "U u = P; ++u; U v = Q | R; y[i] = u + 100 * v;",
      "y[i] = int(~P) + int(-Q) * 100 + !P * 10000;",
      "y[i] = (P + Q) + (P + 1) + (P == Q) * 10 + (P == P) * 100 + (P < Q) * 1000 + (P != P);",
      "y[i] = (P << 3) + (1 << Q) + (P << (short)1) + int(P) * 2;",
      "y[i] = any(P, Q) + int(any(E::A, E::B)) * 1000 + any(4, 1);",
      "int v = P | 8; v |= Q; y[i] = v + (3 & Q) + (P > 0) + (Q >= 1.5);",
    })
  end)
  it("are found as templates, in namespaces and among friends", function()
    agree([[
      template <class T> struct OK { static constexpr bool v = false; };
      enum class E { A = 1, B = 2 }; enum class F { A = 3, B = 4 };
      template <> struct OK<E> { static constexpr bool v = true; };
      template <class T> __device__ std::enable_if_t<OK<T>::v, T> operator|(T a, T b) { return T(int(a) + 10 * int(b)); }
      namespace n { enum class G { A = 1, B = 2 };
        __device__ G operator|(G a, G b) { return G(int(a) + 10 * int(b)); } }
      struct S { enum H { A = 1, B = 2 };
        friend __device__ H operator|(H a, H b) { return H(int(a) + 10 * int(b)); } };
      struct T { int v; };
      __device__ T operator|(T a, E b) { return { a.v + 10 * int(b) }; }
      __device__ T operator|(E a, T b) { return { b.v + 100 * int(a) }; }]], {
      "T s{1}; y[i] = int(E::A | E::B) + (1 | 2) + int(n::G::A | n::G::B) + int(S::A | S::B) + (s | E::B).v + (E::A | s).v;",
    })
  end)
  it("are not there for an enum class otherwise", function()
    local head = "enum class E { A = 1, B = 2 };\n__device__ int operator^(E a, int b) { return 1; }\n" ..
      "__device__ int take(int a) { return a; }\n"
    for _, body in ipairs {
        "E e = E::A | E::B;", "E e = E::A; e |= E::B;", "E e = E::A; ++e;", "E e = E::A; e--;",
        "int v = E::A + 1;", "int v = E::A << 1;", "int v = E::A < 2;", "int v = E::A ^ E::B;" } do
      refused(head, body, "of enum class 'E'")
    end
    for _, op in ipairs { "~", "-", "!", "+" } do
      refused(head, "int v = " .. op .. "E::A;", "there is no operator '" .. op .. "' for 'E'")
    end
    refused(head, "int v = take(E::A);", "'take' takes (int), given (E)")
    agree(head, { "E e = E::A; y[i] = (e == E::B) + (E::A < E::B) * 10 + (e ^ 3) * 100 + int(e);" })
  end)
end)

describe("templates", function()
  it("are specialised with the defaults of the primary", function()
    agree([[
      template <class T> __device__ int f(T a, int b = 3) { return 10 + b; }
      template <> __device__ int f<double>(double a, int b) { return 20 + b; }
      template <class T, int N = 2> __device__ int g(T *a, int b = N) { return 10 * N + b; }
      template <> __device__ int g<double>(double *a, int b) { return 70 + b; }
      template <class T> __device__ int h(const T &a, T b = T(4)) { return (int)b; }
      template <> __device__ int h(const int &a, int b) { return 50 + b; }
      template <class T> __device__ int u(T) { return 1; } __device__ int u(double) { return 2; }
      struct yes { static constexpr bool value = true; }; struct no { static constexpr bool value = false; };
      template <class T> struct is : no {}; template <> struct is<int> : yes {};]], {
      "double d = 1; int k = 2; y[i] = f(d) + 100 * f(1) + 1000 * f(2.0, 7) + g(&d) * 1e4 + g(&k) * 1e6 + h(1) * 1e8 + h(1.5) * 1e10;",
      "y[i] = u(1.) + 10 * u<>(1.) + 100 * u<double>(1.) + 1000 * is<int>::value + 1e4 * is<float>::value;",
    })
  end)
  it("are declared with other names, and defaults, than they are defined with", function()
    agree([[
      __device__ long long f(long long, unsigned int = 2u, unsigned long b = 3ul);
      __device__ long long f(long long a, unsigned int c, unsigned long d) { return a + c * 10 + d * 100; }
      template <class T> __device__ T g(T, long long = 4, const unsigned char = 3);
      template <class T> __device__ T g(T a, long long b, const unsigned char c) { return a + b * 10 + c * 100; }
      template <typename T> __device__ T q(const T *, int n = 2, T z = T(1));
      template <typename U> __device__ U q(const U *p, int m, U w) { return p[0] * m + w; }
      struct S { template <class T> __device__ T n(T a, int b = sizeof(T)) const; };
      template <class Q> __device__ Q S::n(Q x, int yy) const { return x * 10 + yy; }
      template <class V> struct W { V v; template <class T> __device__ T n(T a, V b = V(sizeof(T))) const; };
      template <class A> template <class Q> __device__ Q W<A>::n(Q x, A yy) const { return x * 10 + yy + v; }
      namespace m { template <class T> __device__ T twice(T v, int n = 2); }
      template <class T> __device__ T use(T v) { return m::twice(v); }
      namespace m { template <class T> __device__ T twice(T w, int k) { return w * k; } }]], {
      "double d = x[i]; S s; W<int> w{3}; y[i] = f(1) + g(2) + q(&d) + s.n(4.5) + s.n(2) + w.n(4.5) + w.n(2) + use(x[i]);",
    })
  end)
  it("leave out what does not fit: types and constants that a struct lacks", function()
    agree([[
      template <class T, class = void> struct K { static constexpr int v = 1; };
      template <class T> struct K<T, std::enable_if_t<std::is_integral<T>::value>> { static constexpr int v = 2; };
      template <class T> struct K<T, typename std::enable_if<std::is_floating_point<T>::value && sizeof(T) == 8>::type> {
        static constexpr int v = 3; };
      struct A { typedef double type; static constexpr int size = 3; using T2 = int; }; struct B { double z; }; struct C : A {};
      template <class...> using gone = void;
      template <class T, class = void> struct Typed { static constexpr int v = 0; };
      template <class T> struct Typed<T, gone<typename T::type, typename T::T2>> { static constexpr int v = 1; };
      template <class T, class = void> struct Sized : std::integral_constant<int, -1> {};
      template <class T> struct Sized<T, std::void_t<decltype(T::size)>> : std::integral_constant<int, T::size> {};
      template <bool B, class T = void> struct when {}; template <class T> struct when<true, T> { typedef T type; };
      template <class T, class = void> struct Big { static constexpr int v = 1; };
      template <class T> struct Big<T, typename when<sizeof(T) == 8>::type> { static constexpr int v = 2; };
      template <class T> __device__ typename when<sizeof(T) == 8, int>::type f(T) { return 8; }
      template <class T> __device__ typename when<sizeof(T) != 8, int>::type f(T) { return 4; }
      template <class T> __device__ typename T::type g(T, int) { return 1.5; }
      template <class T> __device__ int g(T, long) { return 2; }
      template <class T, class = typename T::T2> __device__ int h(const T &, int) { return 1; }
      template <class T> __device__ int h(const T &, double) { return 2; }]], {
      "y[i] = K<int>::v + 10 * K<double>::v + 100 * K<float>::v + 1000 * Big<int>::v + 1e4 * Big<double>::v + 1e5 * f(1) + 1e6 * f(2.0);",
      "y[i] = Typed<A>::v + 10 * Typed<B>::v + 100 * Typed<C>::v + 1000 * Typed<int>::v + 1e4 * Sized<A>::value + 1e6 * Sized<B>::value;",
      "y[i] = g(A{}, 1) + 10 * g(B{}, 1) + 100 * g(C{}, 1) + 1000 * h(A{}, 1) + 1e4 * h(B{}, 1) + 1e5 * g(3, 1);",
    })
    refused("template <class T, class = void> struct K { static constexpr int v = 1; };\n" ..
      "template <class T> struct K<T, typename unheard_of<T>::type> { static constexpr int v = 2; };\n",
      "int v = K<int>::v;", "unheard_of")
  end)
  it("tell T[] and T[N], and long and long long, apart", function()
    agree([[
      template <class T> struct Tr { static constexpr int v = 1; }; template <class T> struct Tr<T[]> { static constexpr int v = 2; };
      template <class T, int N> struct Tr<T[N]> { static constexpr int v = 3 + N; };
      __device__ int f(long) { return 1; } __device__ int f(long long) { return 2; } __device__ int f(unsigned long) { return 3; }
      __device__ int f(unsigned long long) { return 4; } __device__ int f(int) { return 5; }
      template <class T> struct I { static constexpr int v = 0; }; template <> struct I<int64_t> { static constexpr int v = 1; };
      template <> struct I<long long> { static constexpr int v = 2; }; template <> struct I<uint64_t> { static constexpr int v = 3; };]], {
      "y[i] = Tr<int>::v + 10 * Tr<int[]>::v + 100 * Tr<int[4]>::v;",
      "int64_t a = 1; uint64_t b = 2; size_t c = 3; std::ptrdiff_t d = 4; std::int64_t e = 3; intptr_t h = 1; uintptr_t k = 4;" ..
        "y[i] = f(a) + 10 * f(b) + 100 * f(c) + 1000 * f(d) + 1e4 * f(e) + 1e5 * f(h) + 1e6 * f(k) + 1e7 * f(a + 1) + 1e8 * f(a + 1ll) + 1e9 * f(i + b);",
      "y[i] = I<long>::v + 10 * I<long long>::v + 100 * I<unsigned long>::v + 1000 * I<int64_t>::v + 1e4 * I<size_t>::v;",
    })
  end)
  it("have the type long where a call's tensors are of i64", function()
    local k = flame.kernel [[
      template <class T> struct I { static constexpr int v = 0; }; template <> struct I<int64_t> { static constexpr int v = 1; };
      template <class T> __global__ void k(const T *x, T *y, int n) { if (threadIdx.x < n) y[threadIdx.x] = x[0] + I<T>::v; }]]
    assert.same({ 8 }, k(flame.tensor({ 7 }, { dtype = "i64" })):totable())
    assert.same({ 7 }, k(flame.tensor({ 7 }, { dtype = "i32" })):totable())
  end)
end)

describe("a struct that is declared before it is defined", function()
  it("is pointed and referred to", function()
    agree([[
      struct Node; class Tree; struct List;
      __device__ double walk(const Node *n, int k); __device__ double sum(const Node &n);
      struct Node { double v; int next; __device__ double of(const Tree &t) const; };
      class Tree { public: Node n[2]; __device__ double total() const { return n[0].v + n[1].v; } };
      __device__ double Node::of(const Tree &t) const { return v * t.total(); }
      __device__ double walk(const Node *n, int k) { return n[k].v + n[n[k].next].v; }
      __device__ double sum(const Node &n) { return n.v + n.next; }
      template <class T> struct Ptr { T *p; __device__ T *operator->() const { return p; } };
      struct List { Node n[4]; int head;
        __device__ const Node &at(int k) const { return n[k]; } __device__ Node &at(int k) { return n[k]; }
        __device__ double sum() const { double s = 0; for (int k = head; k >= 0; k = at(k).next) s += at(k).v; return s; } };]], {
      "Node s[2] = {{x[i], 1}, {3, 0}}; y[i] = walk(s, 0) + sum(s[1]);",
      "Tree r = {{{x[i]}, {2}}}; y[i] = r.n[0].of(r);",
      "List l; l.head = 2; for (int k = 0; k < 4; ++k) { l.at(k).v = x[k]; l.at(k).next = k - 1; } y[i] = l.sum();",
      "Node s{x[i], 3}; Ptr<Node> p{&s}; p->v += 1; y[i] = p->v + s.next;",
    })
  end)
  it("is refused as a whole until then", function()
    refused("struct N;\nstruct M { N n; };\n", "M m;", "without a size")
    refused("struct N;\nstruct M : N { int a; };\n", "M m;", "a base must be a struct")
    refused("struct N;\n", "N v;", "'v' has no size")
    local k = flame.kernel("struct N; __global__ void k(const N *x, float *y) { y[0] = 1; }")
    assert(k:report().refusal:find("a struct that is not defined yet", 1, true))
  end)
end)

describe("a struct that is an argument of its base", function()
  it("is reached from the base by a cast", function()
    agree([[
      template <class D> struct Shape { __device__ double area() const { return static_cast<const D *>(this)->impl(); }
        __device__ D &self() { return static_cast<D &>(*this); } };
      struct Square : Shape<Square> { double s; __device__ double impl() const { return s * s; } __device__ void grow() { s += 1; } };
      struct Circle : Shape<Circle> { double r; __device__ double impl() const { return 3 * r * r; } };
      template <class D> __device__ double twice(const Shape<D> &s) { return 2 * s.area(); }
      template <class D> struct Count { int n = 0; __device__ D &inc() { ++n; return static_cast<D &>(*this); } __device__ D *me() { return static_cast<D *>(this); } };
      struct Other { double z; __device__ double get() const { return z; } };
      struct A : Other, Count<A> { double v; __device__ A &add(double d) { v += d; return *this; } __device__ double total() const { return v + n * 10 + z * 100; } };
      template <class D, class T> struct Base { T w; __device__ T get() const { return static_cast<const D *>(this)->scale() * w; } };
      template <class T> struct Der : Base<Der<T>, T> { T s; __device__ T scale() const { return s; } };
      template <class T, int N> struct Der2 : Der<T> { T a[N]; __device__ T all() const { return this->get() + a[N - 1]; } };
      template <class D> struct Step { double b; __device__ D &d() { return *static_cast<D *>(this); } __device__ void run() { d().step(); b += d().v; } };
      struct S : Step<S> { double v; __device__ void step() { v *= 2; } };
      template <class D> struct Call { __device__ double operator()(double a, double b) const { return static_cast<const D *>(this)->apply(a, b); } };
      struct Add : Call<Add> { __device__ double apply(double a, double b) const { return a + b; } };
      template <class D> __device__ double fold(const Call<D> &op, const double *x, int n) { double r = x[0]; for (int k = 1; k < n; ++k) r = op(r, x[k]); return r; }]], {
      "Square q; q.s = x[i]; q.self().grow(); Circle c; c.r = 2; y[i] = q.area() + twice(c) + twice(q);",
      "A a; a.z = 3; a.v = x[i]; a.inc().add(2).inc(); a.me()->add(1); (*a.me()).n += 5; y[i] = a.total() + a.get();",
      "Der<double> d[2]; d[1].w = x[i]; d[1].s = 3; d[0].w = d[0].s = 1; Der2<double, 2> e; e.w = 2; e.s = x[0]; e.a[1] = 7; y[i] = d[1].get() + d[i % 2].get() + e.all();",
      "S s[2]; S *p = &s[i % 2]; p->b = 1; p->v = x[i]; p->run(); p->run(); y[i] = p->b + p->v;",
      "y[i] = fold(Add(), x, n) + Add{}(x[i], 2);",
    })
  end)
  it("may be an expression that is evaluated later", function()
    agree([[
      template <class E> struct Expr { __device__ double operator[](int i) const { return static_cast<const E &>(*this)[i]; }
        __device__ const E &self() const { return static_cast<const E &>(*this); }
        __device__ double sum() const { double s = 0; for (int i = 0; i < 3; ++i) s += self()[i]; return s; } };
      struct Vec : Expr<Vec> { double v[3]; __device__ double operator[](int i) const { return v[i]; } __device__ double &operator[](int i) { return v[i]; }
        template <class E> __device__ Vec &operator=(const Expr<E> &e) { for (int i = 0; i < 3; ++i) v[i] = e[i]; return *this; } };
      template <class L, class R> struct Sum : Expr<Sum<L, R>> { L l; R r; __device__ Sum(const L &a, const R &b) : l(a), r(b) {}
        __device__ double operator[](int i) const { return l[i] + r[i]; } };
      template <class L> struct Scale : Expr<Scale<L>> { L l; double s; __device__ Scale(const L &a, double b) : l(a), s(b) {}
        __device__ double operator[](int i) const { return l[i] * s; } };
      template <class L, class R> __device__ Sum<L, R> operator+(const Expr<L> &a, const Expr<R> &b) { return Sum<L, R>(a.self(), b.self()); }
      template <class L> __device__ Scale<L> operator*(double s, const Expr<L> &a) { return Scale<L>(a.self(), s); }]], {
      "Vec a, b; for (int k = 0; k < 3; ++k) { a[k] = x[k]; b[k] = k + x[i]; } Vec c; c = a + 2.0 * b; y[i] = c.sum() + (a + b).sum() + c[1];",
    })
  end)
  it("is no object where the base is one by itself", function()
    local head = "struct B { double a; }; struct D : B { int n; };\n__device__ double f(const B &b) { return static_cast<const D &>(b).n; }\n"
    refused(head, "B b{x[i]}; t = f(b);", "a cast to 'D' of what is no part of one")
    agree("struct A { int n; }; struct B { double a; __device__ double up() const; }; struct D : A, B { double c; };\n" ..
      "__device__ double B::up() const { const D &d = static_cast<const D &>(*this); return d.n * 100 + d.c + a; }\n" ..
      "struct E : B { double c; }; __device__ double sum(const B *b, int k) { const E *d = static_cast<const E *>(b); return d[k].a + 10 * d[k].c; }\n", {
      "D d; d.n = 3; d.a = x[i]; d.c = 5; D e[2] = {d, d}; e[1].n = i; y[i] = d.up() + e[i % 2].up() * 1000;",
      "E d[3]; for (int k = 0; k < 3; ++k) { d[k].a = x[k]; d[k].c = k; } E *e = (E *)(B *)&d[1]; e->c += 5; y[i] = d[1].c + e->a;" ..
        "double w[4] = {1, 2, 3, x[i]}; y[i] += sum((const B *)w, 1);",
    })
  end)
end)

describe("a function without a body", function()
  it("is refused where it is called", function()
    refused("__device__ double f(double) = delete;\n", "t = f(x[i]);", "'f' is deleted")
    refused("struct E { int a; __device__ bool operator==(const E &) const = default; };\n",
      "E a = {1}; t = a == a;", "function 'operator==' is declared (line 4), and has no body")
  end)
end)
