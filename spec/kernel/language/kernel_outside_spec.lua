--- Functions of structs that are defined outside of them. Values against g++ on the same text,
--- gradients against central differences, texts compiled by NVRTC where there is one. On the
--- default device.
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
  };
  template <typename T, int N> struct A {
    T v[N];
    __device__ A(T s);
    __device__ T dot(const A &o) const;
    __device__ A<T, N> operator*(T by) const;
    template <typename U> __device__ U sum(U start) const;
    __device__ T first(T plus = T(1)) const;
    static __device__ T constant();
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
}

--- A kernel's text, with the definitions (DEFINED) after the kernel that uses them, or before it.
local function source(body, after)
  local kernel = "__global__ void k(const double *x, double *y, int n) {\n  int i = threadIdx.x;\n"
    .. "  if (i < n) {\n" .. body .. "\n  }\n}\n"
  return DECLARED .. (after and kernel .. DEFINED or DEFINED .. kernel)
end

describe("a function that is defined outside of its struct", function()
  for _, body in ipairs(rows) do
    it("is that of the declaration: " .. body, function()
      local right = judged.values("#define __forceinline__\n" .. source(body), { "x" },
        judged.array("x", judged.numbers(N, 1)))
      -- C++ has a special case before its first use
      for _, after in ipairs(body:find "A<float" and { false } or { false, true }) do
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
