--- Members of structs and of their bases by a prefix, mutable members, objects that convert to
--- pointers under [], functions of unions, and statements that begin with a type and are none the
--- less expressions. Values are compared with g++ on the same text, gradients with central
--- differences; NVRTC, if there is one, compiles the texts. Runs on the default device.
local flame = require "flame"
local on_cpu <const> = flame.default_device() == "cpu"
local helper = require "spec.support.helper"
local proof = dofile("spec/kernel/kernel_proof.lua")
local judged = dofile("spec/kernel/kernel_judged.lua")
local message = helper.message

local N <const> = judged.N

local TYPES <const> = [[
  template <typename T> struct At {
    T *data; int n;
    __device__ T *to(int i) { return data + i; }
    static const int shift = 2;
    __device__ operator T *() { return data; }
    __device__ operator const T *() const { return data; }
  };
  template <typename T> struct Row : public At<T> {
    typedef At<T> base;
    int step;
    __device__ T &operator()(int y, int x) { return At<T>::data[y * step + x]; }
    __device__ T *bytes(int y) { return (T *)((char *)At<T>::data + y * step * sizeof(T)); }
    __device__ int size() const { return base::n * At<T>::shift; }
  };
  struct A {
    double x, y;
    __device__ double f() const { return x; }
    __device__ double g(double by) const { return y * by; }
    static __device__ double twice(double v) { return 2 * v; }
    enum Kind { LOW = 3, HIGH };
  };
  struct B : A {
    double z; A a;
    __device__ double f() const { return 10 * A::x + A::f(); }
    __device__ void set(double v) { A::x = v; B::z = v * v; A::y += B::A::x; }
    __device__ double *place(int k) { return k ? &(A::x) : &z; }
    __device__ double all() const {
      auto h = [this](double by) { return A::x * by + B::z; };
      return h(A::y) + A::twice(A::g(2)) + B::f() + A::HIGH;
    }
  };
  struct C : B {
    double w;
    __device__ double f() const { return B::f() + A::x + B::x + C::w + B::a.x; }
  };
  struct Count {
    mutable int calls; mutable double last[2]; double v;
    __device__ double ask(double x) const { last[calls & 1] = x * v; return last[calls++ & 1]; }
  };
  __device__ double twice(const Count &c, double x) { return c.ask(x) + c.ask(2 * x); }
  struct Holder { Count c; mutable Count d; __device__ double ask(double x) const { return d.ask(x) + (d.v = x); } };
  union Word {
    double f; long long i;
    __device__ Word(double v) : f(v) {}
    __device__ Word(int v) : f(v * 0.5) {}
    __device__ Word() : f(7) {}
    __device__ double half() const { return f / 2; }
    __device__ void add(double v) { f += v; }
    static const int BITS = 64;
  };
  struct Plain { double p, q; };
  struct Over : Plain { double r; __device__ double f() { Plain::p += Over::r; return Plain::p * Over::q; } };
  template <typename T> struct Put {
    T v;
    __device__ Put(T a) : v(a) {}
    __device__ Put(T a, T b) : v(a * b) {}
    __device__ void operator()(T *p, T by) const { *p = v * by; }
    __device__ void into(T *p) const { *p = v; }
  };
  struct None { __device__ void operator()(double *p, double v) { *p = v * v; } };
]]

local function text_of(body)
  return TYPES .. "__global__ void k(const double *x, double *y, int n) {\n"
    .. "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n  if (i >= n) return;\n  " .. body
    .. "\n}"
end

local LOCALS <const> = "double t[4] = { x[i], 2 * x[i], x[i] * x[i], 3 }; Row<double> r; r.data = t; r.n = 4; r.step = 2; "
local OBJECT <const> = "C c; c.z = 2; c.w = 0.5; c.x = x[i]; c.y = x[0] * x[i]; c.a.x = x[i] / 4; c.a.y = 1; "

local bodies <const> = {
  LOCALS .. "y[i] = r(1, 0) * r(0, 1) + r.size();",
  LOCALS .. "r(1, 1) = x[i] * x[i]; y[i] = r.bytes(1)[1] + *r.bytes(1) + r.to(1)[0];",
  LOCALS .. "y[i] = r[2] + r[0] * r[1]; r[3] = x[i]; y[i] += t[3];",
  LOCALS .. "const Row<double> q = r; y[i] = q[2] * q[1] + q.size();",
  LOCALS .. "int k = 0; y[i] = r[k++]; y[i] = y[i] * r[k] + k;",
  LOCALS .. "y[i] = r.At<double>::data[1] * r.Row<double>::step + r.At<double>::n + r.At<double>::shift;",
  LOCALS .. "Row<double> *q = &r; y[i] = q->At<double>::data[0] + *q->At<double>::to(2) + q->base::n;",
  OBJECT .. "y[i] = c.f() + c.B::f() + c.A::f();",
  OBJECT .. "c.set(x[i] * 3); y[i] = c.A::x * c.y + c.B::z + c.A::g(2);",
  OBJECT .. "*c.place(1) = x[i] * x[i]; *c.place(0) *= c.x; y[i] = c.x + c.z;",
  OBJECT .. "y[i] = c.all() + c.A::twice(c.A::x) + c.B::LOW;",
  OBJECT .. "C *p = &c; p->B::z = x[i]; p->A::x += p->B::z; y[i] = p->B::f() + p->C::f() + p->z;",
  OBJECT .. "typedef A First; using Second = B; y[i] = c.First::x + c.Second::z + c.Second::f();",
  OBJECT .. "B &b = c; double A = b.A::x; y[i] = A + b.A::f();",
  "const Count c = { 0, { 0, 0 }, 3 }; y[i] = c.ask(x[i]) + 10 * twice(c, x[i]) + c.calls + c.last[0] * c.last[1];",
  "Count c = { 1, { 1, 1 }, x[i] }; const Count &d = c; d.calls += 4; d.last[1] = x[i]; y[i] = d.ask(2) + c.last[1] + c.calls;",
  "const Holder h = { { 0, { 0, 0 }, 1 }, { 0, { 0, 0 }, 2 } }; y[i] = h.ask(x[i]); y[i] += 3 * h.ask(x[i] + 1) + h.d.calls + h.c.ask(2) + h.c.calls;",
  "auto f = [](const Count &c, double v) { return c.ask(v) - c.ask(v * v); }; Count c = { 0, { 0, 0 }, 2 }; y[i] = f(c, x[i]) + c.calls + c.last[1];",
  "double s = 0; const Count c = { 0, { 0, 0 }, 3 }; for (int j = 0; j < 5; j++) s += c.ask(x[i] * j) * c.calls; y[i] = s;",
  "Word a(x[i]), b, c = x[i] * 2, d(3); b.add(x[i]); y[i] = a.half() + b.f * c.half() + d.f + Word::BITS;",
  "Word a = Word(x[i]); const Word b = a; a.add(b.f); y[i] = a.f * b.half() + Word(x[i] * x[i]).half() + Word(5).f + Word().f;",
  "Word a[2] = { x[i], 4 }; a[1].add(a[0].half()); y[i] = a[1].f * x[i]; a[1] = 2.5; y[i] += a[1].f;",
  "struct Both { Word w; int k; }; Both b = { x[0], 2 }; b.w.add(1); y[i] = b.w.half() * b.k;",
  "Put<double>(x[i] * 3)(y + i, 2); y[i] *= x[i];",
  "Put<double>(x[i], x[0]).into(y + i);",
  "Put<double>{x[i]}.into(&y[i]); None()(y + i, y[i] + x[i]);",
  "None{}(y + i, x[i]);",
  "Over o; o.p = x[i]; o.Plain::q = 3; o.r = x[0]; y[i] = o.f() + o.Over::Plain::p + o.Over::r * o.Plain::p;",
}

describe("a name with a prefix, and its neighbours", function()
  for _, body in ipairs(bodies) do
    local text = text_of(body)
    local later = judged.row_later(text)
    it("has the value that C++ gives it: " .. body, function()
      judged.row_is_right(flame.kernel(text), text, body, proof, later)
    end)
  end
end)

describe("an enumerator as an argument of a template", function()
  local TEMPLATES <const> = [[
    enum E { LOW, MID = 5 }; enum class F { A, B };
    struct S { enum class K { X, Y }; static constexpr F f = F::B; };
    template <typename T, F O, int W = 3> __device__ T w(T v) { return v * W + (O == F::A); }
    template <typename T, F O, F P, int W = 5> __device__ T w(T v) { return v * W + (O == P); }
    template <typename T, F O, F P, F Q, int W = 7> __device__ T w(T v) { return v * W + (P == Q); }
    template <typename T, E O> __device__ T u(T v) { return v + 10 * O; }
    template <typename T, S::K O> __device__ T u(T v) { return v + 100 * int(O); }
    template <typename T, F O> __device__ T u(T v) { return v + 1000 * int(O); }
    template <typename T, int N> __device__ T less(T v) { return v - N; }
    constexpr __device__ F pick(bool b) { return b ? F::A : F::B; }
    template <F G> __device__ double pass(double v) { return w<double, G, 2>(v) + u<double, G>(v); }
    template <F... G> __device__ double all(double v) { return (u<double, G>(v) + ...); }
  ]]
  local function text_of_enum(body)
    return TEMPLATES .. "__global__ void k(const double *x, double *y, int n) {\n"
      .. "  int i = threadIdx.x;\n  if (i < n) " .. body .. "\n}"
  end
  for _, body in ipairs {
    "y[i] = w<double, F::A>(x[i]) + w<double, F::A, 16>(x[i]) + w<double, F::B, F::A>(x[i]);",
    "y[i] = w<double, F::A, F::A, 2>(x[i]) + w<double, F::B, F::A, F::A>(x[i]) + w<double, F::A, F::A, F::B, 1>(x[i]);",
    "y[i] = u<double, LOW>(x[i]) + u<double, MID>(x[i]) + u<double, S::K::Y>(x[i]) + u<double, F::B>(x[i]);",
    "y[i] = u<double, S::f>(x[i]) + u<double, pick(true)>(x[i]) + u<double, (F)1>(x[i]) + less<double, MID>(x[i]);",
    "y[i] = pass<F::A>(x[i]) + pass<F::B>(x[i]) + all<F::A, F::B, F::B>(x[i]);",
    "{ constexpr F g = F::B; y[i] = u<double, g>(x[i]) + u<double, static_cast<F>(0)>(x[i]) + w<double, g, int(g) + 3>(x[i]); }",
  } do
    local text = text_of_enum(body)
    local later = judged.row_later(text)
    it("chooses the function that C++ calls: " .. body, function()
      judged.row_is_right(flame.kernel(text), text, body, proof, later)
    end)
  end
end)

describe("a statement that is never reached", function()
  local HEAD <const> = [[template <typename T> __device__ double put(T v) {
      double s = 0;
      if (std::is_same<T, float>::value && sizeof(T) == 4) { asm("what %0;" : "=d"(s)); s = 100; }
      else if (sizeof(T) == 8) s = v * v;
      else { double (*f)(double) = nullptr; s = f(v); }
      if (!(sizeof(T) == 4)) s += 1; else asm("more %0;" : "+d"(s));
      if (false) for (int j = 0; j < 2; j++) { if (j) s = clock64(); else { s += __nothing(j); } }
      return s;
    }
    __global__ void k(const double *x, double *y, int n) { int i = threadIdx.x; if (i < n) ]]
  it("may be outside the language, with the values and gradients of the rest", function()
    if not on_cpu then return end                       -- a GPU's compiler reads it all the same
    local k = flame.kernel(HEAD .. "y[i] = put(x[i]) * x[i]; }")
    local x = judged.row(N, 1)
    local want = {}
    for i, v in ipairs(x:totable()) do want[i] = (v * v + 1) * v end
    judged.near(k(x, N):totable(), want, "k")
    proof.check(function(v) return k(v, N) end, { x })
  end)
  for why, body in pairs {
    ["inline asm"] = "y[i] = put((float)x[i]); }",
    ["function pointers"] = "y[i] = put((short)x[i]); }",
    ["a case label"] = "switch (n) { case 0: if (0) { case 5: y[i] = x[i]; } } }",
    ["static_assert"] = "if (false) { static_assert(sizeof(int) == 8, \"no\"); } y[i] = x[i]; }",
    ["surely"] = "if (n == 0) surely(); y[i] = x[i]; }",
  } do
    it("is refused where it may be reached: " .. why, function()
      if not on_cpu then return end                     -- a GPU runs the text
      local k <const> = HEAD .. body
      local said = message(function() return flame.kernel(k)(judged.row(N, 1), N):totable() end)
      assert.truthy(said:find(why, 1, true), said)
    end)
  end
end)

describe("a base that depends on a parameter of the template", function()
  local HEAD <const> = [[
    __device__ double h(double a) { return a + 100; }
    __device__ const double z = 50;
    enum { LOW = 1 };
    typedef int R;
    template <typename T> struct A {
      T z, own;
      typedef T R;
      enum { LOW = 5, HIGH = 6 };
      static const int n = 8;
      __device__ T h(T a) { return a + z; }
      __device__ T sqrt(T a) { return a; }
    };
    template <typename T> struct B : A<T> {
      __device__ T all(T by) {
        R whole = by * 3;
        auto f = [=](T v) { return v * z + this->z + by; };
        return h(1) + z * whole + LOW * 10 + this->h(2) + A<T>::z + B::LOW + f(by) + sqrt(by * by);
      }
      __device__ T outside(T by);
    };
    template <typename T> __device__ T B<T>::outside(T by) { return z * by + B::z + h(by); }
    template <typename T> struct Made : B<T> {
      T m, d = z;
      __device__ Made(T v) : m(z * v) { this->z = v; this->own = z; }
      __device__ T all() { return z + this->z * m + B<T>::all(d) + Made::HIGH + h(d); }
    };
    struct Plain : B<double> {
      __device__ double all() { R q = 1.5; return h(q) + z + LOW + HIGH; }
    };
    template <typename T> struct Around {
      struct Inner : A<T> { __device__ T all() { return z + A<T>::z; } };
      struct Fixed : A<double> { __device__ T all() { return z + A<double>::z; } };
      Inner i; Fixed f;
    };
    template <int N> struct Sized { static const int n = N; double v[N]; };
    const int n = 3;
    template <int N> struct Next : Sized<N + 1> {
      static const int m = n + 1;
      __device__ int all() { return n * 100 + m * 10 + Next::n; }
    };
    template <typename T> struct Beside : A<double> {
      __device__ T all() { return h(1) + z + LOW + ::h(2); }
    };
  ]]
  for _, body in ipairs {
    "B<double> b; b.A<double>::z = x[i]; b.own = 2; y[i] = b.all(x[i]) + b.outside(2) + b.h(2);",
    "Made<double> b(x[i]); y[i] = b.all() + b.d * b.own + b.LOW + b.n;",
    "Plain p; p.z = x[i]; y[i] = p.all() + 1000 * p.B<double>::all(x[i]) + p.A<double>::z;",
    "Around<double> a; a.i.z = x[i]; a.f.z = 2 * x[i]; y[i] = a.i.all() + 10 * a.f.all();",
    "Next<3> a; Beside<double> b; b.A<double>::z = x[i]; y[i] = a.all() + b.all() * a.n;",
  } do
    local text = HEAD .. "__global__ void k(const double *x, double *y, int N) {\n"
      .. "  int i = threadIdx.x;\n  if (i >= N) return;\n  " .. body .. "\n}"
    local later = judged.row_later(text)
    it("hides no name around the template: " .. body, function()
      judged.row_is_right(flame.kernel(text), text, body, proof, later)
    end)
  end
end)

describe("what is refused of such names", function()
  local cases <const> = {
    { "C c; c.x = x[i]; double *p = &c.A::x; y[i] = c.y;" },           -- it is right C++
    { "double v = x[i]; double(v); y[i] = v;", "in parentheses is declared" },
    { "double v = 1; { Put<double>(v); } y[i] = v;", "in parentheses is declared" },
    { "Put<double>(x[i])(y + i, 2);", "in parentheses is declared" },
    { "double *p = y; { double(*p); p = y + 1; } *p = 1;", "in parentheses is declared" },
    { "int v = 1; { int(v) = 2; } y[i] = v;", "in parentheses is declared" },
    { "int v[2] = { 1, 2 }; { typedef int I; I(v)[2]; v[0] = 5; } y[i] = v[0];",
      "in parentheses is declared" },
    { "B b; y[i] = b.C::w;", "no base of 'B'" },
    { "B b; y[i] = b.Row<double>::step;", "no base of 'B'" },
    { "y[i] = A::x;", "of no object" },
    { "union U { int a = 3; float f; }; U u; y[i] = u.a;", "a default of a member of a union" },
    { "Count c = { 0, { 0, 0 }, 3 }; auto f = [=](double v) { return c.ask(v); }; y[i] = f(x[i]);",
      "a lambda that copies an object with mutable members" },
    { "Holder h; h.d.v = x[i]; auto f = [h](double v) { return h.d.v + v; }; y[i] = f(x[i]);",
      "a lambda that copies an object with mutable members" },
    { "struct D : A { using A::g; __device__ int g(int by) { return by; } }; D d; y[i] = d.g(2.5);",
      "fit several functions" },
    { "struct D : Put<double> { using Put<double>::operator(); __device__ D() : Put<double>(1) {} "
      .. "__device__ void operator()(int *p, int by) const { *p = by; } }; D d; d(y + i, 2);" },
    { "const Word w(2); w.add(1); y[i] = w.f;", "const" },
    { "const Count c = { 0, { 0, 0 }, 3 }; c.v = 2; y[i] = c.v;", "const" },
  }
  for _, case in ipairs(cases) do
    it(case[1], function()
      if not on_cpu then return end                     -- a GPU runs the text
      local text = text_of(case[1])
      local function run() return flame.kernel(text)(judged.row(N, 1), N):totable() end
      if case[2] then assert.truthy(message(run):find(case[2], 1, true), message(run))
      else run() end
    end)
  end

  it("is the address of a member by its prefix, a pointer to a member", function()
    if not on_cpu then return end
    local text = [[struct S { double v; __device__ double *at() { return &S::v; } };
      __global__ void k(const double *x, double *y, int n) { S s; s.v = x[0]; y[0] = *s.at(); }]]
    local why = message(function() return flame.kernel(text)(judged.row(N, 1), N):totable() end)
    assert.truthy(why:find("pointers to members", 1, true), why)
  end)
end)

describe("PyTorch's description of a tensor", function()
  local function info(t, strides)
    local sizes, steps = {}, {}
    for i = 1, 25 do sizes[i], steps[i] = t.shape[i] or 1, strides[i] or 0 end
    return { data = t, sizes = sizes, strides = steps, dims = #t.shape }
  end

  it("is a struct whose places are found by IndexToOffset", function()
    for _, dims in ipairs { "-1", "2" } do
      local k = flame.kernel { shape = { 6 }, source = ([[
        __global__ void k(const at::cuda::detail::TensorInfo<double, int> a, const c10::Half *h,
                          double *y, int n) {
          int i = threadIdx.x;
          if (i >= n) return;
          const int at = at::cuda::detail::IndexToOffset<double, int, %s>::get(i, a);
          at::native::fastAtomicAdd(y, i, n, a.data[at] * a.data[at] + a.isContiguous(), true);
          y[i] += (double)(c10::Half)h[i] * at::cuda::ATenCeilDiv(n, 4) * (at::opmath_type<c10::Half>)1;
        }]]):format(dims) }
      local x = judged.row(6, 1):reshape(2, 3)
      local half = flame.tensor({ 1, 2, 3, 4, 5, 6 }, { dtype = "f16" })
      local turned = info(x, { 1, 2 })                -- as if the rows were the columns
      local got, v = k(turned, half, 6):totable(), x:reshape(6):totable()
      for i = 0, 5 do
        local at = i // 3 + i % 3 * 2
        assert.near(v[at + 1] ^ 2 + (i + 1) * 2, got[i + 1], 1e-12)
      end
      proof.check(function(t) turned.data = t return k(turned, half, 6) end, { x })
    end
  end)
end)

describe("a header of the toolkit", function()
  it("defines its version where it is included, and not before", function()
    local k = flame.kernel { shape = { 3 }, source = [[
      #ifdef THRUST_VERSION
      #error early
      #endif
      #include <thrust/version.h>
      #if THRUST_VERSION < 100500 || !defined(CUB_VERSION)
      #error old
      #endif
      using c = cuDoubleComplex;
      __global__ void k(const double *x, double *y, int n) {
        const c v = make_cuDoubleComplex(x[0], 2);
        y[0] = THRUST_VERSION >= 200000; y[1] = cuCreal(cuCmul(v, v)); y[2] = cuCimag(v);
      }]] }
    assert.same({ 1, -3, 2 }, k(flame.tensor({ 1 }, judged.f64), 1):totable())
  end)

  it("does not change a version that the options give", function()
    if flame.default_device() ~= "cpu" then return end             -- a GPU includes the header
    local k = flame.kernel { options = { "-DTHRUST_VERSION=7" }, source = [[
      #include <cub/cub.cuh>
      __global__ void k(const double *x, double *y) { y[0] = THRUST_VERSION * x[0]; }]] }
    assert.same({ 14 }, k(flame.tensor({ 2 }, judged.f64)):totable())
  end)

  it("may declare CUDA's functions again", function()
    local k = flame.kernel { block = 32, source = [[
      extern __device__ __device_builtin__ void __syncthreads(void);
      extern "C" __device__ __cudart_builtin__ __device_builtin__ int __ffs(int i);
      __global__ void k(const double *x, double *y) { __syncthreads(); y[0] = __ffs(8) * x[0]; }]] }
    assert.same({ 8 }, k(flame.tensor({ 2 }, judged.f64)):totable())
  end)

  it("is another file than one of the same folder's name in a folder that is given", function()
    local folder = os.tmpname()
    os.remove(folder)
    assert(os.execute("mkdir -p '" .. folder .. "/cuda'"))
    local f = assert(io.open(folder .. "/cuda/by.hpp", "w"))
    f:write("#define BY 3\n")
    f:close()
    local k = flame.kernel { include = { folder }, source = [[
      #include <cuda/std/array>
      #include "cuda/by.hpp"
      __global__ void k(const double *x, double *y) { y[0] = BY * x[0]; }]] }
    assert.same({ 6 }, k(flame.tensor({ 2 }, judged.f64)):totable())
    os.execute("rm -r '" .. folder .. "'")
  end)
end)
