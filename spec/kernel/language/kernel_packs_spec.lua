--- Templates of structs, other names and constants with packs; packs before other parameters.
--- Values are compared with g++ on the same text, gradients with central differences; NVRTC, if
--- there is one, compiles the texts.
local flame = require "flame"
local judged = dofile("spec/kernel/kernel_judged.lua")
local proof = dofile("spec/kernel/kernel_proof.lua")

local HEADERS <const> = "#include <cstddef>\n#include <cstdint>\n#include <type_traits>\n"
local HEAD <const> = [[
  template <class...> struct conj : std::true_type {};
  template <class B> struct conj<B> : B {};
  template <class B, class... R> struct conj<B, R...> : std::conditional_t<bool(B::value), conj<R...>, B> {};
  template <int N, typename T, typename... Ts>
  using match_t = std::enable_if_t<sizeof...(Ts) == N && conj<std::is_same<Ts, T>...>::value>;
  template <typename T, int N> struct V { T e[N]; V() = default;
    template <typename... Ts, typename = match_t<N, T, Ts...>> __device__ V(Ts... c) : e{c...} {}
    __device__ V(const V<T, N> &a, T s) { for (int k = 0; k < N; k++) e[k] = a.e[k] * s; }
    __device__ T dot(const V<T, N> &o) const { T s = 0; for (int k = 0; k < N; k++) s += e[k] * o.e[k]; return s; } };
  template <class... T> struct Tup;
  template <> struct Tup<> { static constexpr int n = 0; __device__ double sum() const { return 0; } };
  template <class A, class... R> struct Tup<A, R...> { A a; Tup<R...> rest;
    static constexpr int n = 1 + Tup<R...>::n;
    __device__ Tup(A x, R... r) : a(x), rest{r...} {}
    __device__ double sum() const { return a * a + 2 * rest.sum(); } };
  template <class... T> __device__ int count(const Tup<T...> &) { return sizeof...(T); }
  template <class A, class... T> __device__ A first(const Tup<A, T...> &t) { return t.a; }
  template <int... I> struct Seq { static constexpr int n = sizeof...(I), most = (0 + ... + I);
    __device__ static double dot(const double *x) { return (0. + ... + (I * x[I % 5] * x[I % 5])); } };
  template <int A, int... I> struct Last { static constexpr int v = Last<I...>::v; };
  template <int A> struct Last<A> { static constexpr int v = A; };
  template <class... T> struct K { static constexpr int v = 1; };
  template <> struct K<> { static constexpr int v = 2; };
  template <class A> struct K<A, A> { static constexpr int v = 3; };
  template <class... R> struct K<int, R...> { static constexpr int v = 4 + sizeof...(R); };
  template <class A, class... R> struct K<A *, R...> { static constexpr int v = 10 * K<R...>::v; };
  template <class A, class B, class... R> struct K<A &, B, R...> { static constexpr int v = 7; };
  template <class A, class... R> struct K<Tup<A, R...>, R...> { static constexpr int v = 20; };
  template <class... T> using pointers = K<T *..., int>;
  template <class A, class... T> using back = K<T..., A>;
  template <class... T, int N = sizeof...(T)> __device__ double q(T... v) { return N * (0. + ... + v); }
  template <class... T, class = std::enable_if_t<sizeof...(T) == 2>> __device__ double e(T... v) { return 100 + (0. + ... + v); }
  template <class... T, class = std::enable_if_t<sizeof...(T) == 3>, class = void> __device__ double e(T... v) { return (1. * ... * v); }
  template <class... T> struct Sizes { __device__ int f(int k) const; template <class U> __device__ U g(U u) const; };
  template <class... T> __device__ int Sizes<T...>::f(int k) const { return k * (0 + ... + (int)sizeof(T)); }
  template <class... T> template <class U> __device__ U Sizes<T...>::g(U u) const { return u * sizeof...(T); }
  template <class T, class = void> struct Has { static constexpr int v = 0; };
  template <class...> using gone = void;
  template <class T> struct Has<T, gone<decltype(T::most), int>> { static constexpr int v = 1; };
]]

local function text(body)
  return HEADERS .. HEAD .. "__global__ void k(const double *x, double *y, int n) {\n" ..
    "  int i = threadIdx.x;\n  if (i >= n) return;\n  " .. body .. "\n}\n"
end
local function made(source)
  return flame.kernel { source = source, grid = { 1 }, block = { 32 }, shape = { judged.N } }
end

describe("a template of structs with a pack", function()
  for _, body in ipairs {
    "V<double, 3> v(x[i], 2., x[0]); V<double, 3> w(v, x[1]); y[i] = v.dot(w);",
    "V<double, 2> v(x[i], 3.); y[i] = v.dot(v) + V<double, 2>(v, 2.).e[0];",
    "Tup<double, double, int> t(x[i], x[0] * x[i], 5); y[i] = t.sum() + count(t) * first(t) + Tup<int, int>::n;",
    "Tup<> t; Tup<double> u(x[i]); y[i] = t.sum() + u.sum() + count(t) + 10 * count(u);",
    "y[i] = Seq<0, 1, 2, 8>::dot(x) + Seq<>::n + Seq<7, 8>::n * x[i] + Seq<3, 4>::most + Last<4, 5, 6>::v;",
    "y[i] = K<>::v + 10 * K<double>::v + 100 * K<double, double>::v + 1e3 * K<int>::v + 1e4 * K<int, char, float>::v;",
    "y[i] = K<double *, int>::v + 1e3 * K<float *, int *>::v + 1e6 * K<int &, int, char>::v + 1e7 * K<Tup<int, char>, char>::v;",
    "y[i] = pointers<double, int>::v + 1e3 * pointers<>::v + 1e4 * back<double, double>::v + 1e5 * back<char, int, int>::v;",
    "y[i] = q(x[i], 2, x[1]) + q() + q<double>(x[i]) + e(x[i], 2) + e(x[i], x[0], x[1]);",
    "Sizes<int, double> s; Sizes<> t; y[i] = s.f(3) + s.g(x[i]) + t.f(2) + t.g(3);",
    "y[i] = Has<Seq<1>>::v + 10 * Has<Tup<>>::v + 100 * std::is_same<V<int, 2>, V<int, 2>>::value + x[i];",
  } do
    it("has the values of g++, and gradients: " .. body, function()
      judged.row_is_right(made(text(body)), text(body), body, proof)
    end)
  end

  it("is refused where its arguments do not fit, or which specialisation is meant is open", function()
    for body, why in pairs {
      ["V<double, 3> v(x[i], 2, x[0]);"] = "no constructor of 'V<double, 3>' fits the 3 arguments",
      ["y[i] = K<int, int>::v;"] = "two partial specialisations of 'K' fit",
      ["Last<> v;"] = "wrong arguments for the template 'Last'",
      ["Tup<double, int> t(1.5);"] = "no constructor of 'Tup<double, int>' fits",
    } do
      local known, k = pcall(made, text(body .. " y[i] = x[i];"))
      assert.matches(why, known and k:report().refusal or k)
    end
    assert.matches("a template with two packs", made("template <class... A, class... B> " ..
      "__device__ int f(A... a) { return 1; }\n__global__ void k(float *y) { y[0] = f(1); }")
      :report().refusal)
  end)
end)
