--- Kernels that are templates and are named without template arguments: the dtypes of a call's
-- tensors choose the instance. Runs on the default device.
local flame = require "flame"
local nn = require "flame.nn"
local helper = require "spec.support.helper"

local HEAD = "\n  int i = blockIdx.x * blockDim.x + threadIdx.x;\n  if (i >= n) return;\n"
local function text(head, body) return head .. " {" .. HEAD .. "  " .. body .. "\n}\n" end
local SCALE = text([[
// template <int N> __global__ void other(
template <typename T, int BY = 2> __global__ void __launch_bounds__(128)
scale(const T *__restrict__ x, T *y, int n)]], "y[i] = x[i] * T(BY);")

--- Compares what kernel k of the text stores with what g++ says; NVRTC compiles the text.
local function as_judged(source, title)
  local judged = dofile("spec/kernel/kernel_judged.lua")
  local right = judged.values(source, { "x" }, "double x[5] = {0};\n")
  local k = flame.kernel { source = source, grid = { 1 }, block = { 32 }, shape = { judged.N } }
  if right then judged.near(k(judged.row(5, 0), judged.N):totable(), right[1], title) end
  judged.compiles(k)
end

describe("a kernel that is a template", function()
  it("runs as the instance of its arguments' dtypes, in each of them", function()
    local k = flame.kernel(SCALE)
    for _, dtype in ipairs { "f64", "f32", "f16", "bf16", "i64", "i32", "i16", "i8", "u8" } do
      local y = k(flame.tensor({ 1, 3 }, { dtype = dtype }))
      assert.equal(dtype, y.dtype)
      assert.same({ 2, 6 }, y:totable())
    end
    assert.equal("kernel scale<T, BY>", tostring(k))
  end)

  it("has gradients", function()
    local k = flame.kernel(text(
      "template <class T> __global__ void k(const T *x, T *y, int n)", "y[i] = x[i] * x[i];"))
    local x = flame.tensor({ 1, 3 }, { dtype = "f64" })
    assert.is_true(flame.gradcheck(k, { x }, { order = 2 }))
    local half = flame.tensor({ 1, 3 }, { dtype = "f16" }):requires_grad_(true)
    k(half):sum():backward()
    assert.same({ 2, 6 }, half.grad:totable())
    assert.equal("f16", half.grad.dtype)
  end)

  it("takes each type from the argument that has it, also one that is written", function()
    local k = flame.kernel { source = text(
      "template <typename A, typename B> __global__ void k(B *b, const int *at, const A *a, int n)",
      "b[i] += B(a[at[i]]);"), inout = { "b" } }
    local b = flame.tensor({ 1, 2 }, { dtype = "f64" })
    local at = flame.tensor({ 1, 0 }, { dtype = "i32" })
    local y = k(b, at, flame.tensor({ 5, 7 }, { dtype = "u8" }))
    assert.equal("f64", y.dtype)
    assert.same({ 8, 7 }, y:totable())
    assert.equal("const float *a: in", k:of("f32", "f64"):report().parameters[3])
  end)

  it("is its specialisation where the text has one for the types", function()
    local k = flame.kernel(SCALE:gsub(", int BY = 2", ""):gsub("BY", "2") .. text(
      "template <> __global__ void scale<int>(const int *x, int *y, int n)", "y[i] = -x[i];"))
    assert.same({ 6 }, k(flame.tensor { 3 }):totable())
    assert.same({ -3 }, k(flame.tensor({ 3 }, { dtype = "i32" })):totable())
  end)

  it("may have some arguments given", function()
    local k = flame.kernel { source = SCALE, entry = "scale<auto, 5>" }
    assert.same({ 15 }, k(flame.tensor { 3 }):totable())
    local instantiated = SCALE .. "template __global__ void scale<float, 5>(const float *, float *, int);"
    assert.same({ 6 }, flame.kernel(instantiated)(flame.tensor { 3 }):totable())
    local beside = SCALE .. text("__global__ void scale(const short *x, short *y, int n)", "y[i] = 1;")
    assert.equal("const short *x: in",
      flame.kernel { source = beside, entry = "scale" }:report().parameters[1])
    local source = SCALE:gsub("typename T", "typename T = float")
    local by_defaults = flame.kernel(source)
    assert.equal("f32", by_defaults(flame.ones(1)).dtype)
    assert.equal("const float *x: in", by_defaults:report().parameters[1])
    local double = flame.ones({ 1 }, { dtype = "f64" })
    assert.equal("f64", flame.kernel { source = source, entry = "scale<auto>" }(double).dtype)
    assert.same({ 15 }, k:of("i32")(flame.tensor({ 3 }, { dtype = "i32" })):totable())
    local fixed = flame.kernel { source = SCALE, entry = "scale<float>" }
    assert.same({ 6 }, fixed(flame.tensor { 3 }):totable())
  end)

  it("has another geometry by with, and a plain launch", function()
    local k = flame.kernel(SCALE):with { shape = { 1 } }
    assert.same({ 2 }, k:with { block = { 32 } } (flame.ones(3)):totable())
    assert.equal(k:of("f32"), k:of("f32"))
    local out = flame.zeros({ 2 }, { dtype = "f64" })
    k:launch({ grid = { 1 }, block = { 32 } }, flame.ones({ 2 }, { dtype = "f64" }), out, 2)
    assert.same({ 2, 2 }, out:totable())
  end)

  it("is a field of a module, which follows the module's dtype", function()
    local net = nn.Sequential(nn.Linear(2, 2))
    net.scale = flame.kernel(SCALE)
    function net:forward(x) return self.scale(self[1](x):contiguous()) end
    for _, dtype in ipairs { "f32", "f64", "f16" } do
      local copy = net:clone():to(dtype)
      assert.equal(dtype, copy(flame.ones({ 3, 2 }, { dtype = dtype })).dtype)
    end
  end)

  it("says what is wrong at the line of the call", function()
    local k = flame.kernel(SCALE)
    for _, c in ipairs {
      { "scale: x must be a tensor, got number", function() k(3) end },
      { "scale: x must be a tensor, got nil", function() k() end },
      { "of: 'f99' is no dtype", function() k:of("f99") end },
      { "of: got 2 dtypes, and the template has 1 types: give one for each type",
        function() k:of("f32", "f64") end },
      { "scale: T is not known from the arguments", function() k:of() end },
      { "write k:of(\"f32\"):report(", function() k:report() end },
      { "no option 'blok'", function() k:with { blok = { 1 } } (flame.ones(1)) end },
      { "the template has 2 parameters", function()
        flame.kernel { source = SCALE, entry = "scale<auto, 2, 3>" }
      end },
      { "named with its arguments", function()
        flame.kernel(text("template <typename T> __global__ void k(T *y, int n)", "y[i] = 1;"))
      end },
      { "named with its arguments", function()
        flame.kernel(text(
          "template <typename T, int N> __global__ void k(const T *x, T *y, int n)", "y[i] = N;"))
      end },
    } do
      local why = helper.message(c[2])
      assert(why:find(c[1], 1, true), why)
      assert(why:find("kernel_template_spec.lua:", 1, true), why)
    end
  end)
end)

describe("a template that is an argument of a template", function()
  if flame.default_device() ~= "cpu" then return end             -- a GPU runs the text
  local judged = dofile("spec/kernel/kernel_judged.lua")
  local TEMPLATES <const> = [[
    template <class T> struct Sum { static constexpr T none = 0; __device__ T operator()(T a, T b) const { return a + b; } };
    template <typename T> struct Product { static constexpr T none = 1;
      __device__ T operator()(T a, T b) const { return a * b; } };
    template <template <typename> class Op, typename T> __device__ T fold(const T *x, int n) {
      T r = Op<T>::none;
      for (int i = 0; i < n; ++i) r = Op<T>()(r, x[i]);
      return r;
    }
    template <template <class> class Op = Sum> struct Two {
      template <class T> __device__ T of(T a, T b) const { T w[2] = {a, b}; return Op<T>()(a, b) * fold<Op, T>(w, 2); } };
    template <class T, template <class> class Op> struct Total { Op<T> op; T now; __device__ void add(T v) { now = op(now, v); } };
    template <template <class> class Op> struct Kind; template <> struct Kind<Sum> { enum { is = 1 }; };
    template <> struct Kind<Product> { enum { is = 2 }; };
    template <template <class> class Op, class F> __device__ double use(F f, double a) { return f(Op<double>{}, a); }
    template <class T> using Same = T; template <template <class> class A> __device__ double whole(double v) { return A<int>(v); }
    template <template <class> class C> __device__ double chosen(double v) { return C<int>::none + v; }
    template <class T> __device__ double chosen(T v) { return v * v; }
    template <int N> __device__ double chosen(double v) { return v * N; }
  ]]
  local KERNEL <const> = "__global__ void k(const double *x, double *y, int n) {"
    .. "int i = threadIdx.x; if (i >= n) return; double a = x[i], b = 1.5 - a; y[i] = %s; }"
  for _, use in ipairs {
    "fold<Sum, double>(x, 3) + 2 * fold<Product>(x, 2)",
    "Two<>().of(a, b) + Two<Product>{}.of(b, a)",
    "[&] { Total<double, Product> t{{}, a}; t.add(b); return t.now; }()",
    "a * Kind<Sum>::is + b * Kind<Product>::is", "whole<Same>(3.7 * a) + b",
    "use<Sum>([&](auto op, double v) { return op(v, b); }, a)",
    "chosen<Product>(a) + chosen<double>(b) + chosen<3>(a)",
  } do
    it("is that template: " .. use, function()
      local source, x = TEMPLATES .. KERNEL:format(use), judged.row(judged.N, 1)
      local k = flame.kernel(source)
      local right = judged.values(source, { "x" }, judged.array("x", judged.numbers(judged.N, 1)))
      if right then judged.near(k(x, judged.N):totable(), right[1], use) end
      assert(flame.gradcheck(function(v) return k(v, judged.N) end, { x }))
      judged.compiles(k)
    end)
  end

  it("is refused where a call or a specialisation would have to find it, as all that is not read", function()
    for more, why in pairs {
      ["template <template <class> class C, class T> __device__ double f(C<T> v) { return 2; }"
        .. "template <class T> __device__ double f(T v) { return 1; }"] =
        "template 'C', which a call is to find",
      ["template <class T> struct D { static constexpr int v = 1; };"
        .. "template <template <class> class C, class T> struct D<C<T>> { static constexpr int v = 2; };"
        .. "template <class T> __device__ double f(T v) { return D<T>::v; }"] =
        "'D': a partial specialisation",
      ["template <class T> struct D { static constexpr int v = 1; };"
        .. "template <class T> struct D<Sum<T>> { static constexpr int v = 2; unknown u; };"
        .. "template <class T> __device__ double f(T v) { return D<T>::v; }"] = "unknown",
    } do
      local source = TEMPLATES .. more .. KERNEL:format "f(Sum<double>{})"
      assert.matches(why, helper.message(function()
        flame.kernel(source)(judged.row(judged.N, 1), judged.N):totable()
      end))
    end
  end)
end)

describe("a type that is const or a reference", function()
  local judged = dofile("spec/kernel/kernel_judged.lua")
  local TYPES <const> = [[
#include <limits>
#include <type_traits>
    template <class T> struct rm { using type = T; static constexpr int n = 0; };
    template <class T> struct rm<T &> { using type = T; static constexpr int n = 1; };
    template <class T> struct rc { using type = T; static constexpr int n = 0; };
    template <class T> struct rc<const T> { using type = T; static constexpr int n = 1; };
    template <class T> struct pt { static constexpr int n = 0; };
    template <class T> struct pt<T *> { static constexpr int n = 1; };
    template <class T> struct pt<const T *> { static constexpr int n = 2; };
    template <> struct pt<const float> { static constexpr int n = 3; };
    template <> struct pt<float &> { static constexpr int n = 4; };
    template <> struct pt<float> { static constexpr int n = 5; };
    template <class T> __device__ int kind() { return 0; }
    template <> __device__ int kind<const float>() { return 1; }
    template <> __device__ int kind<float &>() { return 2; }
    template <> __device__ int kind<float>() { return 3; }
    template <class T> __device__ void inc(T v) { v += 1; }
    template <class T> __device__ int isc(T &v) { return rc<T>::n; }
    template <class T> __device__ int isr(T &&v) { return rm<T>::n; }
    template <class A, class B> struct same { static constexpr int n = 0; };
    template <class A> struct same<A, A> { static constexpr int n = 1; };
    using R = int &; using CI = const int;
    namespace ns { template <class T> struct Tpl { T v; }; }
    template <template <class> class C, class T> struct box { C<T> c; };
    template <class... T> __device__ int all(T... v) { return (... && v); }
    template <class... T> __device__ int all3(T... v) { return (3. && ... && v); }
    template <class T> struct View { T *data; int n; __device__ T &at(int i) { return data[i]; }
      __device__ T sum() const { typename std::remove_const<T>::type s = 0; for (int k = 0; k <
      n; k++) s += data[k]; return s; } };
    template <class T> __device__ int psum(T *p, int n) { typename std::remove_const<T>::type s =
      0; for (int k = 0; k < n; k++) s += p[k]; return s + 100 * rc<T>::n; }
    template <class T> __device__ int pass(T &&v) { v += 1; return rm<T>::n * 10 + v; }
    template <class T> __device__ int twice(T &&v) { return pass(static_cast<T &&>(v)); }
    template <class... T> __device__ int each(T &&... v) { int n = 0; ((n = n * 10 + rm<T>::n),
      ...); ((v += 1), ...); return n; }
    template <class T> using ref_t = T &; template <class T> using cref_t = const T &;
    template <class F> __device__ int call(F &&f) { return f(2); }
    struct Pt { int x; template <class T> __device__ int take(T &v) { v += x; return rc<T>::n; }
      };
    template <class A, class B> struct sp { static constexpr int n = 0; };
    template <class A, class B> struct sp<A &, B> { static constexpr int n = 1; };
    template <class A, class B> struct sp<A, B &> { static constexpr int n = 2; };
    template <class A> struct sp<const A &, int> { static constexpr int n = 3; };
    template <class T> struct Own { T v; }; template <class T> struct in { static constexpr int n
      = 0; };
    template <class T> struct in<Own<T>> { static constexpr int n = 1 + rc<T>::n; };
    template <class T> struct in<const Own<T>> { static constexpr int n = 5; };
    template <class T> struct in<Own<T> &> { static constexpr int n = 6; };
    __global__ void k(const double *from, double *y, int n) {
      if (threadIdx.x) return;
      int b[8] = {0}, i = 0, q = 5, s = 7;
      ]]

  for _, body in ipairs {
    "b[0] = rm<int>::n; b[1] = rm<int &>::n; b[2] = rc<const int>::n; b[3] = rc<int>::n;",
    "b[0] = pt<int>::n; b[1] = pt<int *>::n; b[2] = pt<const int *>::n; b[3] = pt<float>::n;",
    "b[0] = pt<const float>::n; b[1] = pt<float &>::n; b[2] = pt<const float &>::n;",
    "b[0] = kind<const float>(); b[1] = kind<float &>(); b[2] = kind<float>(); b[3] = kind<int>();",
    "inc<int &>(q); b[0] = q; inc<int>(q); b[1] = q;",
    "const int c = i + 3; b[0] = isc(c); b[1] = isc(q);",
    "b[0] = isr(q); b[1] = isr(3); b[2] = isr(i + 1);",
    "b[0] = same<int, const int>::n; b[1] = same<int &, int>::n; b[2] = same<int, int>::n; b[3] = same<const int, int const>::n;",
    "R r = q; r = 9; b[0] = q;",
    "CI c = q; b[0] = rc<CI>::n; b[1] = rm<R>::n; b[2] = c;",
    "rm<int &>::type x = q; x = 3; b[0] = q; b[1] = x;",
    "box<ns::Tpl, int> x; x.c.v = 4; b[0] = x.c.v;",
    "b[0] = all(); b[1] = all(1, 2); b[2] = all(1, 0); b[3] = all3();",
    "b[0] = sizeof(all3()); b[1] = all3() / 2 * 2; b[2] = all3(0); b[3] = all3(q);",
    "b[0] = rc<decltype(q)>::n; const int z = i; b[1] = rc<decltype(z)>::n; int &r = q; b[2] = rm<decltype(r)>::n; b[3] = rm<decltype((q))>::n;",
    "decltype((q)) r = q; r = 8; b[0] = q; decltype(q) t = q; t = 3; b[1] = q; decltype(b[1]) yy = b[2]; yy = 77;",
    "const int z = i; auto f = [&](auto &v) { return rc<typename rm<decltype(v)>::type>::n; }; b[0] = f(q); b[1] = f(z);",
    "std::remove_const<const int>::type x = 3; x = q; b[0] = x; std::remove_reference<int &>::type w = q; w = 2; b[1] = q; std::decay<const int &>::type d = 1; d = 4; b[2] = d;",
    "b[0] = std::is_same<int, const int>::value; b[1] = std::is_reference<int &>::value; b[2] = std::is_const<const int>::value; b[3] = std::is_same<int const, const int>::value;",
    "b[0] = std::is_integral<const int>::value; b[1] = std::numeric_limits<const int>::max() & 255; b[2] = std::is_same_v<const int *, int *>; b[3] = std::is_pointer<const int *>::value;",
    "View<int> v = {b, 4}; v.at(2) = 7; View<const int> c = {b, 4}; b[0] = c.sum(); b[1] = c.at(2);",
    "const int *p = b; b[2] = 4; int t = psum(p, 4); b[1] = t; b[3] = psum(&b[2], 1);",
    "b[0] = twice(q); b[1] = q; b[2] = twice(3);",
    "b[0] = each(q, 3, s); b[1] = q; b[2] = s;",
    "auto f = [&](int a) { q += a; return q; }; b[0] = call(f); b[1] = call([&](int a) { return q * a; }); const auto g = f; b[2] = call(g);",
    "Pt t = {3}; const int c = i; b[0] = t.take(q); b[1] = q;",
    "b[0] = sp<int &, int>::n; b[1] = sp<int, int &>::n; b[2] = sp<const int &, int>::n; b[3] = sp<int, int>::n;",
    "b[0] = in<Own<int>>::n; b[1] = in<Own<const int>>::n; b[2] = in<const Own<int>>::n; b[3] = in<Own<int> &>::n;",
    "typedef const int K; typedef int &L; K c = q; L r = q; r += 1; b[0] = c; b[1] = q; b[2] = rc<K>::n; b[3] = rm<L>::n;",
    "typedef int *IP; const IP p = b; *p = 5; b[1] = rc<const IP>::n; b[2] = rc<int *const>::n; b[3] = pt<IP>::n;",
  } do
    it("stays that in aliases and as a template's argument: " .. body, function()
      local source = TYPES .. body .. "\n      for (int j = 0; j < n; ++j) y[j] = b[j];\n    }\n"
      local right = judged.values(source, { "x" }, "double x[5] = {0};\n")
      local k = flame.kernel { source = source, grid = { 1 }, block = { 32 }, shape = { judged.N } }
      if right then judged.near(k(judged.row(5, 0), judged.N):totable(), right[1], body) end
      judged.compiles(k)
    end)
  end
end)

describe("templates and overloads", function()
  local KINDS = [[
    struct S { int a; }; struct D : S { int b; };
    enum U { U0, U1, U2 = 7 }; enum class Z { A, B = 5 }; enum B8 : unsigned char { b0 = 200, b1 };
    enum class L8 : long long { a = 1 }; enum Big { g0 = 0x7fffffff, g1 }; enum Neg { n0 = -3, n1 };
    template <class T> struct W { T a; }; template <class T, int M> struct Arr { T a[M]; };
    template <class A, class B> struct P2 { A a; B b; }; template <class T> using Al = W<T>;
    template <class T> struct K { static constexpr int v = 1; };
    template <> struct K<int> { static constexpr int v = 2; };
    template <> struct K<float> { static constexpr int v = 3; };
    template <> struct K<S> { static constexpr int v = 4; };
    template <> struct K<U> { static constexpr int v = 5; };
    template <> struct K<Z> { static constexpr int v = 6; };
    template <> struct K<B8> { static constexpr int v = 7; };
    template <> struct K<long> { static constexpr int v = 8; };
    template <> struct K<long long> { static constexpr int v = 9; };
    template <> struct K<unsigned long> { static constexpr int v = 10; };
    template <> struct K<unsigned long long> { static constexpr int v = 11; };
    template <> struct K<char> { static constexpr int v = 12; };
    template <> struct K<signed char> { static constexpr int v = 13; };
    template <> struct K<unsigned char> { static constexpr int v = 14; };
    template <> struct K<bool> { static constexpr int v = 15; };
    template <> struct K<unsigned> { static constexpr int v = 16; };
    template <class T> struct K<const T> { static constexpr int v = 100 + K<T>::v; };
    template <class T> struct K<volatile T> { static constexpr int v = 200 + K<T>::v; };
    template <class T> struct K<const volatile T> { static constexpr int v = 300 + K<T>::v; };
    template <class T> struct K<T *> { static constexpr int v = 1000 + K<T>::v; };
    template <class T> struct K<T &> { static constexpr int v = 2000 + K<T>::v; };
    template <class T> struct K<T &&> { static constexpr int v = 3000 + K<T>::v; };
    template <class T, int M> struct K<T[M]> { static constexpr int v = 10000 * M + K<T>::v; };
    template <class T> struct K<W<T>> { static constexpr int v = 20 + K<T>::v; };
    template <class T> struct K<W<T *>> { static constexpr int v = 40 + K<T>::v; };
    template <class T> struct K<W<W<T>>> { static constexpr int v = 60 + K<T>::v; };
    template <class T, int M> struct K<Arr<T, M>> { static constexpr int v = 400 + 10 * M + K<T>::v; };
    template <class A, class B> struct K<P2<W<A>, B>> { static constexpr int v = 500 + 10 * K<A>::v + K<B>::v; };
    template <class T> struct Id { using type = T; };
    template <class T, class E = void> struct E2 { static constexpr int v = 1; };
    template <class T> struct E2<T *> { static constexpr int v = 2; };
    template <int N> struct VI { static constexpr int v = 0; };
    template <> struct VI<-1> { static constexpr int v = 1; };
    template <> struct VI<'a'> { static constexpr int v = 2; };
    template <> struct VI<true> { static constexpr int v = 3; };
    template <auto N> struct VA { static constexpr int v = 0; };
    template <> struct VA<1> { static constexpr int v = 1; };
    template <> struct VA<true> { static constexpr int v = 2; };
    template <> struct VA<'a'> { static constexpr int v = 3; };
    template <> struct VA<1l> { static constexpr int v = 4; };
    template <> struct VA<1ll> { static constexpr int v = 5; };
    template <> struct VA<U1> { static constexpr int v = 6; };
    template <unsigned char C> struct VC { static constexpr int v = C; };
    template <class T, T N> struct VT { static constexpr int v = K<decltype(N)>::v; };
    template <class T> __device__ int of(T) { return K<T>::v; }
    template <class T> __device__ int ref(T &) { return K<T>::v; }
    template <class T> __device__ int fwd(T &&) { return K<T>::v; }
    template <class T> __device__ int con(W<const T>) { return K<T>::v; }
    template <class T> __device__ int inw(W<T>) { return K<T>::v; }
    template <class T, int M> __device__ int arr(T (&)[M]) { return 10 * M + K<T>::v; }
    __device__ int u(long) { return 1; }
    __device__ int u(long long) { return 2; }
    __device__ int u(char) { return 3; }
    __device__ int u(signed char) { return 4; }
    __device__ int u(int) { return 5; }
    __device__ int u(U) { return 6; }
    __device__ int u(unsigned long) { return 7; }
    __device__ int u(double) { return 8; }
    template <class T> __device__ int pq(T, T) { return 1; }
    __device__ int pq(double, double) { return 2; }
    template <class T> __device__ int rv(const T &) { return 1; }
    template <class T> __device__ int rv(T &&) { return 2; }
    template <class T> __device__ int cp_(T *) { return 1; }
    template <class T> __device__ int cp_(const T *) { return 2; }
    template <class T> __device__ int cp_(T) { return 3; }
    template <class T> __device__ int lr(T &) { return 1; }
    template <class T> __device__ int lr(T &&) { return 2; }
    __device__ int cr(const int &) { return 1; }
    __device__ int cr(int &) { return 2; }
    __device__ int cr(int &&) { return 3; }
    __device__ int pb(const void *) { return 1; }
    __device__ int pb(bool) { return 2; }
    __global__ void k(const double *from, double *y, int n) {
      if (threadIdx.x) return;
      int b[5] = {0}, i = 1, ai[3] = {}, *p = ai;
      const int ci = 2, cai[3] = {}, *cp = cai;
      W<int> w = {1}; W<const int> wc = {3}; S s = {}; D d = {}; U e = U1; B8 b8 = b1; long l = 1; long long ll = 1;
      ]]

  for _, list in ipairs {
    "K<volatile int>::v, K<const volatile int>::v, K<volatile int *>::v, K<const int *const>::v, K<int *const *>::v",
    "K<W<int>>::v, K<W<int *>>::v, K<W<W<int>>>::v, K<const W<int>>::v, K<Al<int>>::v",
    "K<P2<W<int>, float>>::v, K<Arr<float, 4>>::v, K<int[4]>::v, K<int (&)[4]>::v, K<int (*)[4]>::v",
    "K<U>::v, K<Z>::v, K<B8>::v, sizeof(B8) + 10 * sizeof(L8) + 100 * sizeof(Big), b1 + (g1 > 0)",
    "of(e), of(Z::A), of(b8), of(b8 + 1), of(e + 1u)",
    "of(l), of(ll), of(l + 1), of(l + ll), of(1ul + l)",
    "of(l * 1u), of(1ull + 1ul), of(-l), of(l << 1), of(1 << ll)",
    "of(sizeof(int)), of('a'), of((signed char)1), of((unsigned char)1), of('a' + 'b')",
    "of(p - ai), of(i ? l : 1), of(i ? ll : l), of(l++), of(l = 2)",
    "u(l), u(ll), u('a'), u((signed char)1), u((short)1)",
    "u(e), u(b8), u(1ul), u(1.f), u(e + 0)",
    "fwd(i), fwd(ci), fwd(p), fwd(ai), fwd(1)",
    "lr(cai), fwd(s), fwd(ai[1]), fwd(static_cast<int &&>(i)), fwd(p + 1)",
    "con(wc), inw(w), inw(wc), arr(ai), arr(cai)",
    "ref(i), ref(ci), ref(p), of(p), of(cp)",
    "pq(1, 2), pq(1.f, 2), pq(1.f, 2.f), pq(1l, 2), pq(1u, 2)",
    "rv(i), rv(ci), rv(1), lr(i), lr(1)",
    "cr(i), cr(ci), cr(1), cr(ai[0]), cr(cai[0])",
    "sizeof(Id<char>::type), K<Id<long>::type>::v, K<Id<const int &>::type>::v",
    "std::numeric_limits<char>::max(), std::numeric_limits<char>::digits, std::is_integral<U>::value, std::is_same<std::make_unsigned<long>::type, unsigned long>::value, std::is_same<std::remove_cv<const volatile int>::type, int>::value",
    "cp_(p), cp_(cp), cp_(cai), cp_(1), fwd(W<int>{1})",
    "pb(p), pb(ai), pb(true), pb(i), rv(d)",
    "E2<int *>::v, E2<int>::v, VI<-1>::v, VI<97>::v, VI<1>::v",
    "VA<1>::v, VA<true>::v, VA<'a'>::v, VA<97>::v, VA<1l>::v",
    "VA<1ll>::v, VA<U1>::v, VA<1u>::v, VC<(char)44>::v, VT<char, 'a'>::v",
    "VT<long, 3>::v, VT<U, U1>::v, VT<bool, true>::v, VI<U2>::v, VC<b1>::v",
  } do
    it("tell types apart as C++ does: " .. list, function()
      local source = KINDS .. "int c[] = { " .. list .. " };\n" ..
        "for (int j = 0; j < (int)(sizeof c / sizeof *c); j++) b[j] = c[j];\n" ..
        "      for (int j = 0; j < n; ++j) y[j] = b[j];\n    }\n"
      as_judged(source, list)
    end)
  end
end)

describe("a declaration before or after the definition", function()
  for what, case in pairs {
    ["gives defaults"] = { [[__device__ int f(int a, int b = 3);
      __device__ int f(int a = 7, int b);
      __device__ int f(int a, int b) { return a * 10 + b; }]], "f(), f(1), f(1, 2)" },
    ["gives calls after it defaults"] = { [[__device__ int f(int a, int b) { return a * 10 + b; }
      __device__ int g(int a) { return f(a, 9); }
      __device__ int f(int a = 5, int b = 4);]], "f(), f(1), g(2)" },
    ["of a function template gives defaults"] = { [[
      template <class T, int M = 5> __device__ inline int f(const T &a, int = 3);
      template <class T> __device__ int f(T *a, int b = 1);
      template <class T, int M> __device__ int f(const T &a, int b) { return a * 100 + b * 10 + M; }
      template <class T> __device__ int f(T *a, int b) { return b; }
      template <class T> __device__ int g(T a) { return a + 1; }
      template <class T> __device__ int g(T a);]], "f(1), f(1, 2), f<int, 6>(2), f(&i), g(4)" },
    ["of a struct template gives defaults"] = { [[
      template <class T, int M = 5> struct V;
      template <class T, int M> struct V { static constexpr int v = sizeof(T) * 10 + M; };
      template <class T, int M = 5> struct X;
      template <class T, int M> struct X;]], "V<char>::v, V<char, 2>::v" },
    ["leaves specialisations between them"] = { [[
      template <class T> struct V;
      template <> struct V<int> { static constexpr int v = 1; };
      template <class T> struct V<T *> { static constexpr int v = 2; };
      template <class T> struct V { static constexpr int v = 3; };
      template <class T> struct V;]], "V<int>::v, V<char *>::v, V<char>::v" },
  } do
    it(what, function()
      local source = case[1] .. "\n__global__ void k(const double *from, double *y, int n) {\n" ..
        "if (threadIdx.x) return;\nint b[5] = {0}, i = 0; i += b[0];\n" ..
        "int c[] = { " .. case[2] .. " };\n" ..
        "for (int j = 0; j < (int)(sizeof c / sizeof *c); j++) b[j] = c[j];\n" ..
        "for (int j = 0; j < n; ++j) y[j] = b[j];\n}\n"
      as_judged(source, what)
    end)
  end
  it("of a type outside the language is told where the template is used", function()
    local k = flame.kernel { source = [[
      template <class T> struct K { static constexpr int v = 1; };
      template <> struct K<long double> { static constexpr int v = 2; };
      __global__ void k(const float *x, float *y, int n) {
        if (threadIdx.x < n) y[threadIdx.x] = x[threadIdx.x] + K<int>::v;
      }]], block = { 32 } }
    assert(k:report().refusal:find("long double is outside the language", 1, true))
  end)
end)
