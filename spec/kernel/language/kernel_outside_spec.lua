--- Functions of structs that are defined outside of them. Values are compared with g++ on the same
--- text, gradients with central differences; NVRTC, if there is one, compiles the texts. Runs on
--- the default device.
local flame = require "flame"
local helper = require "spec.support.helper"
local proof = dofile("spec/kernel/kernel_proof.lua")
local judged = dofile("spec/kernel/kernel_judged.lua")
local message = helper.message

local N <const> = judged.N

local DECLARED <const> = [[
  struct V {
    double x, y;
    __device__ V(double a);
    __device__ V(double a, double b);
    __device__ V();
    __device__ double dot(const V &o) const;
    __device__ double dot(double by) const;
    __device__ V operator+(const V &o) const;
    __device__ V &operator+=(const V &);
    __device__ operator double() const;
    __device__ double operator()(int i) const;
    __device__ double &operator[](int i);
    static __device__ double twice(double v, double by = 2);
    template <typename T> __device__ T scaled(T by) const;
    typedef double number;
    __device__ number least(number) const;
    struct In { double q; __device__ double get() const; } in;
    static constexpr int K = 3;
    __device__ double late(double a, double b, double c = K) const;
    template <typename T> __device__ T more(T a, T by = T(K) / 2, int k = K) const;
    template <int M, typename T> __device__ T far(const T *p, int at = M + K, const T *q = nullptr) const;
  };
  template <typename T, int N> struct A {
    T v[N];
    __device__ A(T s);
    __device__ T dot(const A &o) const;
    __device__ A<T, N> operator*(T by) const;
    template <typename U> __device__ U sum(U start) const;
    __device__ T first(T plus = T(1)) const;
    static __device__ T constant();
    template <typename U> __device__ T mixed(U by, T plus = T(N) / 3, U other = U(2)) const;
    template <typename F> __device__ T each(F f, T from = T(N)) const;
  };
  template <typename T> struct B : A<T, 2> {
    __device__ B(T s);
    __device__ T both() const;
  };
  __device__ double early(const A<double, 2> &a) { return a.first(); }
]]

local DEFINED <const> = [[
  __device__ V::V(double a) : x(a), y(a * a) { in.q = a; }
  __device__ V::V(double first, double second) : V(first) { y = second; }
  __device__ V::V() : x(0), y(1) { in.q = 3; }
  __device__ __forceinline__ double V::dot(const V &other) const { return x * other.x + y * other.y; }
  __device__ double V::dot(double by) const { return x * by - y; }
  __device__ V V::operator+(const V &o) const { return V(x + o.x, y + o.y); }
  inline __device__ V &V::operator+=(const V &o) { x += o.x; y += o.y; return *this; }
  __device__ V::operator double() const { return x * y; }
  __device__ double V::operator()(int i) const { return i ? x : y; }
  __device__ double &V::operator[](int) { return x; }
  __device__ double V::twice(double v, double by) { return v * by; }
  template <typename T> __device__ T V::scaled(T by) const { return by * x; }
  __device__ V::number V::least(number v) const { return v < x ? v : x; }
  __device__ double V::In::get() const { return q * q; }
  __device__ double V::late(double a, double b = 4, double c) const { return x * a + b * c; }
  template <typename T> __device__ T V::more(T a, T by, int k) const { return x * a + by * k; }
  template <int M, typename T> __device__ T V::far(const T *p, int at, const T *q) const {
    return x * at + (q ? q[0] : p[1]);
  }
  template <typename T, int N> template <typename U>
  __device__ T A<T, N>::mixed(U by, T plus, U other) const { return v[0] * by + plus * other; }
  template <typename T, int N> template <typename F> __device__ T A<T, N>::each(F f, T from) const {
    for (int i = 0; i < N; ++i) from = f(from, v[i]);
    return from;
  }
  template <typename T, int N> __device__ A<T, N>::A(T s) {
    for (int i = 0; i < N; ++i) v[i] = s * (i + 1);
  }
  template <typename T, int N> __device__ T A<T, N>::dot(const A<T, N> &o) const {
    T s = 0;
    for (int i = 0; i < N; ++i) s += v[i] * o.v[i];
    return s;
  }
  template <typename S, int M> __device__ A<S, M> A<S, M>::operator*(S by) const {
    A<S, M> r(S(0));
    for (int i = 0; i < M; ++i) r.v[i] = v[i] * by;
    return r;
  }
  template <typename T, int N> template <typename U> __device__ U A<T, N>::sum(U start) const {
    for (int i = 0; i < N; ++i) start += v[i];
    return start;
  }
  template <typename T, int N> __device__ T A<T, N>::first(T plus) const { return v[0] + plus; }
  template <typename T, int N> __device__ T A<T, N>::constant() { return T(N); }
  template <> __device__ float A<float, 2>::constant() { return 7; }
  template <typename T> __device__ B<T>::B(T s) : A<T, 2>(s * s) {}
  template <typename T> __device__ T B<T>::both() const { return this->v[0] * this->v[1]; }
]]

local rows <const> = {
  "V a(x[i]), b(x[i], 2.); y[i] = a.dot(b) + b.dot(3.);",
  "V a(x[i]), c; c += a + V(x[0], x[i]); y[i] = c.x * c.y;",
  "V a(x[i], x[n - 1 - i]); double p = a; y[i] = p * a(1) + a(0);",
  "V a; a[0] = x[i]; a[1] += x[0]; y[i] = a.x * a.y;",
  "y[i] = V::twice(x[i]) + V::twice(x[i], x[0]);",
  "V a(x[i]); y[i] = a.scaled(3.) * a.in.get() + a.least(0.25);",
  "A<double, 3> p(x[i]); y[i] = p.dot(p * x[0]);",
  "A<double, 2> p(x[i]); y[i] = early(p) + p.sum(1.) * p.first(x[i]);",
  "y[i] = x[i] * (A<double, 4>::constant() + A<float, 2>::constant());",
  "B<double> b(x[i]); y[i] = b.both() + b.dot(b) + b.first();",
  "V a(x[i]); y[i] = a.late(x[0]) + a.late(2, x[i]) + a.late(1, 2, x[i]);",
  "V a(x[i]); y[i] = a.more(x[0]) * a.more(2., x[i]) + a.more(1., 2., 5) + a.more<double>(3);",
  "V a(x[i]); y[i] = a.far<2>(x) + a.far<1>(x, 4) + a.far<1>(x, 4, x + 2);",
  "A<double, 2> a(x[i]); y[i] = a.mixed(3) + a.mixed(x[i]) * a.mixed(x[0], x[1], 2.);",
  "A<double, 2> a(x[i]); y[i] = a.each([=](double s, double v) { return s * v + x[0]; });",
}

--- A kernel's text, with the definitions (DEFINED) after the kernel that uses them, or before it.
local function source(body, after)
  local kernel = "__global__ void k(const double *x, double *y, int n) {\n  int i = threadIdx.x;\n"
    .. "  if (i < n) {\n" .. body .. "\n  }\n}\n"
  return DECLARED .. (after and kernel .. DEFINED or DEFINED .. kernel)
end

describe("a function that is defined outside of its struct", function()
  for _, body in ipairs(rows) do
    local later = judged.row_later((source(body):gsub("__forceinline__", "")))
    it("is that of the declaration: " .. body, function()
      local right = later()
      -- C++ wants a specialisation, and a definition that adds a default, before the first use
      local before = body:find "A<float" or body:find "late"
      for _, after in ipairs(before and { false } or { false, true }) do
        local k, x = flame.kernel(source(body, after)), judged.row(N, 1)
        if right then judged.near(k(x, N):totable(), right[1], body) end
        proof.check(function(v) return k(v, N) end, { x })
        judged.compiles(k)
      end
    end)
  end

  local function refused(text, body)
    return message(function()
      return flame.kernel(text .. "\n__global__ void k(const float *x, float *y, int n) {\n"
        .. "int i = threadIdx.x; if (i < n) {\n" .. body .. "\n} }")(flame.ones(2)):totable()
    end)
  end

  it("is refused with the line where it is declared and never defined", function()
    if flame.default_device() ~= "cpu" then return end       -- a GPU's compiler may only miss it
    assert.matches("line 4.*function 'f' is declared %(line 1%), and has no body here",
      refused("struct V { float x; __device__ float f() const; };", "V v{x[i]}; y[i] = v.f();"))
    assert.matches("line 4.*a constructor of 'V' is declared %(line 1%), and has no body here",
      refused("struct V { float x; __device__ V(float a); };", "V v(x[i]); y[i] = v.x;"))
    assert.matches("line 4.*function 'f' is declared %(line 1%), and has no body here",
      refused("template <typename T> struct V { T x; __device__ T f() const; };",
        "V<float> v{x[i]}; y[i] = v.f();"))
    assert.matches("line 5.*function 'f' is declared",
      refused("struct V { float x; __device__ float f(int) const; };\n",
        "V v{x[i]}; y[i] = v.f(1);"))
  end)

  it("is refused with the line where it is not the declared one", function()
    if flame.default_device() ~= "cpu" then return end
    local use = "V v{x[i]}; y[i] = v.f(1);"
    for text, why in pairs {
      ["struct V { float x; __device__ float f(int) const; };"
        .. "__device__ float V::f(int a) { return x; }"] = "function 'f' is declared",
      ["struct V { float x; __device__ float f(int) const; };"
        .. "__device__ float V::f(long a) const { return x; }"] = "function 'f' is declared",
      ["struct V { float x; __device__ float f(int) const; };"
        .. "__device__ float V::f(int a) const { goto end; end: return x; }"] = "line 1.*goto",
      ["struct V { float x; __device__ float f(int) const; };"
        .. "__device__ float V::f(int a) const { return x; }"
        .. "__device__ float V::f(int a) const { return 2 * x; }"] = "defined twice",
      ["struct V { float x; __device__ float f(unknown) const; };"
        .. "__device__ float V::f(unknown a) const { return x; }"] = "unknown",
      ["template <typename T> struct W; template <typename T> struct W<T *> { float x; "
        .. "__device__ float f(int) const; }; typedef W<float *> V; template <typename T> "
        .. "__device__ float W<T *>::f(int a) const { return x; }"] =
        "function 'f' is declared",
    } do
      local got = refused(text, use)
      assert.matches(why, got)
      assert.matches("line %d+", got)
    end
  end)

  it("has the defaults that its definition adds from there on", function()
    local use = "__global__ void k(const float *x, float *y) { V v{x[0]}; y[0] = v.f(3); }\n"
    local declared = "struct V { float x; __device__ float f(float a, float b) const; };\n"
    local defined = "__device__ float V::f(float a, float b = 2) const { return x * a + b; }\n"
    assert.equal(17, flame.kernel(declared .. defined .. use)(flame.tensor { 5 }):item())
    local why = message(function()
      flame.kernel(declared .. use .. defined)(flame.tensor { 5 }):item()
    end)
    assert.matches(flame.default_device() == "cpu" and "line 2.*'f' takes" or "f", why)
  end)

  -- w and g are names outside, and parameters where the function is defined
  for text, use in pairs {
    ["struct S { static constexpr double w = 3; __device__ double f(double v, double u = w) const; };"
      .. "__device__ double S::f(double w, double q) const { return w * 10 + q; }"] = "S().f(a)",
    ["const double w = 4; struct S { __device__ double operator()(double v, double u = w) const; };"
      .. "__device__ double S::operator()(double w, double q) const { return w * 10 + q; }"] = "S()(a)",
    ["const double w = 5; struct S { double k; __device__ S(double v, double u = w); };"
      .. "__device__ S::S(double w, double q) : k(w * 10 + q) {}"] = "S(a).k",
    ["struct A { static constexpr double w = 6; };"
      .. "struct S : A { __device__ double f(double v, double u = w); };"
      .. "__device__ double S::f(double w, double q) { return w * 10 + q; }"] = "S().f(a)",
    ["const double w = 1;"
      .. "template <class T> struct S { static constexpr T w = 5; __device__ T f(T v, T u = w); };"
      .. "template <class T> __device__ T S<T>::f(T w, T q) { return w * 10 + q; }"] =
      "S<double>().f(a)",
    ["const double w = 7; struct S { template <class T> __device__ T f(T v, T u = w) const; };"
      .. "template <class T> __device__ T S::f(T w, T q) const { return w * 10 + q; }"] = "S().f(a)",
    ["const double w = 8; __device__ double f(double v, double u = w + 1, double o = w * 2);"
      .. "__device__ double f(double w, double q, double o) { return w * 10 + q + o; }"] =
      "f(a) + f(a, a)",
    ["const double w = 9; __device__ double f(double v, const double &u = w);"
      .. "__device__ double f(double w, const double &q) { return w * 10 + q; }"] = "f(a)",
    ["__device__ double g(double v) { return 3 * v; } __device__ double f(double v, double u = g(2));"
      .. "__device__ double f(double g, double q) { return g * 10 + q; }"] = "f(a)",
    ["struct P { double x; }; struct S { __device__ double f(double v, P u = P{2}) const; };"
      .. "__device__ double S::f(double P, ::P q) const { return P * 10 + q.x; }"] = "S().f(a)",
    ["const double g[3] = {1, 2, 3}; __device__ double f(double v, double u = g[1]);"
      .. "__device__ double f(double g, double q) { return g * 10 + q; }"] = "f(a)",
    ["enum { w = 3 }; constexpr __device__ int f(int v, int u = w);"
      .. "constexpr __device__ int f(int w, int q) { return w * 10 + q; }"] = "a * f(2)",
  } do
    it("has defaults that mean the names where it is declared: " .. text, function()
      local all = text .. "\n__global__ void k(const double *x, double *y, int n) {\n"
        .. "int i = threadIdx.x; if (i >= n) return; double a = x[i]; y[i] = " .. use .. "; }"
      local k, x = flame.kernel(all), judged.row(judged.N, 1)
      local right = judged.values(all, { "x" }, judged.array("x", judged.numbers(judged.N, 1)))
      if right then judged.near(k(x, judged.N):totable(), right[1], text) end
      judged.compiles(k)
    end)
  end

  it("is refused where its defaults may mean other types than in the definition", function()
    if flame.default_device() ~= "cpu" then return end
    for _, text in ipairs {
      "template <class S, class T> struct W { S x; __device__ S f(int, S b = S(3.5)) const; };"
        .. "template <class T, class S> __device__ T W<T, S>::f(int a, T b) const { return x * b; }"
        .. "typedef W<float, int> V;",
      "struct V { float x; template <class T, class U = int> __device__ T f(T, U b = U(2)) const; };"
        .. "template <class U, class T> __device__ U V::f(U a, T b) const { return x * b; }",
      "template <class S> struct W { S x; template <class T> __device__ S f(T, S b = S(3.5)) const; };"
        .. "template <class U> template <class S> __device__ U W<U>::f(S a, U b) const { return b; }"
        .. "typedef W<float> V;",
    } do
      assert.matches("line 4.*'f' has defaults, and its template's parameters have other names",
        refused(text, "V v{x[i]}; y[i] = v.f(1);"))
    end
    local same = "template <class S, class T> struct W { S x; __device__ S f(int, S b = S(3.5)) const; };"
      .. "template <class A, class B> __device__ A W<A, B>::f(int a, A b) const { return x * b; }"
      .. "typedef W<float, int> V; __global__ void k(const float *x, float *y) { y[0] = V{x[0]}.f(1); }"
    assert.equal(7, flame.kernel(same)(flame.tensor { 2 }):item())
    local own = "struct V { float x; template <class T> __device__ T f(T, T b = T(2.5)) const; };"
      .. "template <class U> __device__ U V::f(U a, U b) const { return x * b + a; }"
      .. "__global__ void k(const float *x, float *y) { y[0] = V{x[0]}.f(1) + V{x[0]}.f(1.f); }"
    assert.equal(11, flame.kernel(own)(flame.tensor { 2 }):item())
  end)

  it("leaves functions of the host and other names alone", function()
    local text = [[
      struct V { float x; V(const V &o); ~V(); void print(std::ostream &out) const; __device__ V(float a); };
      V::V(const V &o) : x(o.x) {}
      V::~V() {}
      void V::print(std::ostream &out) const { out << x; }
      __device__ V::V(float a) : x(a) {}
      __device__ float dot(float a, float b) { return a * b; }
      struct P { float a; __device__ float dot(float b) const; };
      __device__ float P::dot(float b) const { return 2 * ::dot(a, b); }
      __global__ void k(const float *x, float *y, int n) {
        int i = threadIdx.x;
        if (i < n) y[i] = V(x[i]).x + dot(x[i], 2) + P{x[i]}.dot(1);
      }]]
    local k = flame.kernel(text)
    assert.same({ 5, 10 }, k(flame.tensor { 1, 2 }, 2):totable())
    judged.compiles(k)
  end)
end)

describe("a class of the host", function()
  it("says of a type in it that could not be read what is wrong with that", function()
    local k = function(body)
      return flame.kernel("class H : public B {\n public:\n  struct A { int m : 3; int n; };\n"
        .. "  struct C { int n; };\n virtual void f();\n};\nH::H() { }\n"
        .. "__global__ void k(const float *x, float *y, int n) {\n" .. body .. "\n}")
    end
    for body, reason in pairs {
      ["H::A a; y[0] = a.n;"] = "bit-fields are outside the language (line 3)",
      ["H::D d; y[0] = d.n;"] = "there is no 'D' here", ["G::C c; y[0] = c.n;"] = "names of 'G'",
    } do
      local ok, got = pcall(k, body)
      local why = ok and got:report().refusal or tostring(got)
      assert(why:find("line 9", 1, true) and why:find(reason, 1, true), why)
    end
    assert.equal(4, k("H::C c = { 4 }; y[0] = c.n;")(flame.ones(1), 1):item())
  end)
end)
