--- The C++ of kernels, statement by statement: each body ran as C++ of g++ (float, no contraction) over 16
-- values of x, and the CPU gives the same; the gradient agrees in both modes. On the default device.
local flame = require "flame"
local proof = dofile("spec/kernel/kernel_proof.lua")

local N = 16
local xs = {}
for i = 1, N do xs[i] = math.floor(math.sin(i * 12.9) * 1024) / 512 end

-- name, body of the kernel (i, x, y, n), y[5], the sum of (i + 1) y[i], text of file scope
-- luacheck: no max line length
local cases = {
  { "ref return chain", "V a{x[i], 1.f}; (a += 2.f) += 3.f; y[i] = a.a * a.b;", 40.89844, 3579.094,
    "struct V { float a, b; __device__ V &operator+=(float s) { a += s; b += s; return *this; } };" },
  { "copy then modify", "V a{x[i], 1.f}; V b = a; b.a = 5.f; V &c = a; c.b = 7.f; y[i] = a.a + a.b * b.a + b.b;", 37.81641, 4812.516,
    "struct V { float a, b; };" },
  { "pass by value not modified", "V a{x[i], 1.f}; float r = f(a); y[i] = r * 10 + a.a;", 56.30859, -2588.016,
    "struct V { float a, b; }; __device__ float f(V v) { v.a *= 3; return v.a; }" },
  { "const ref alias", "float v = x[i]; float r = f(v, v); y[i] = r;", 28.16406, 525.1562,
    "__device__ float f(const float &a, float &b) { b += 1.f; return a * 10.f; }" },
  { "lambda by ref sees later change", "float s = 1.f; auto f = [&](float v) { return v * s; }; s = x[i]; y[i] = f(2.f);", 3.632812, -166.9688 },
  { "lambda by val frozen", "float s = 1.f; auto f = [s](float v) { return v * s; }; s = x[i]; y[i] = f(2.f);", 2, 272 },
  { "lambda array by val", "float s[2] = {1.f, x[i]}; auto f = [=](int k) { return s[k]; }; s[1] = 100.f; y[i] = f(1) + f(0);", 2.816406, 52.51562 },
  { "lambda nested", "float s = x[i]; auto f = [&](float v) { auto g = [&](float w) { s += w; return w * v; }; return g(2.f) + g(3.f); }; y[i] = f(1.f) * s;", 34.08203, 2982.578 },
  { "lambda mixed captures", "float s = x[i], t = 2.f; auto f = [&, t](float v) { s += t; return v; }; t = 50.f; y[i] = f(1.f) + s;", 4.816406, 324.5156 },
  { "lambda init capture", "float s = x[i]; auto f = [q = s * 2.f](float v) { return v + q; }; s = 0; y[i] = f(1.f);", 4.632812, -30.96875 },
  { "lambda shadows param", "float s = x[i]; auto f = [&](float s) { return s * 2.f; }; y[i] = f(3.f) + s;", 7.816406, 732.5156 },
  { "lambda in loop captured counter", "float s = 0; for (int k = 0; k < 3; ++k) { auto f = [&](float v) { return v * k; }; s += f(x[i]); } y[i] = s;", 5.449219, -250.4531 },
  { "lambda passed, caller has same names", "float v = x[i]; auto f = [&](float q) { return q + v; }; y[i] = app(f, 2.f);", 3.816406, 188.5156,
    "template <typename F> __device__ float app(F f, float w) { float v = 1000.f; return f(w) + v * 0.f; }" },
  { "lambda returning struct", "auto f = [](float a) { return make_float2(a, a * 2.f); }; y[i] = f(x[i]).y + f(2.f).x;", 5.632812, 105.0312 },
  { "lambda void", "float s = 0; auto add = [&](float v) { if (v < 0) return; s += v; }; add(x[i]); add(1.f); y[i] = s;", 2.816406, 192.6504 },
  { "lambda recursion of calls", "auto sq = [](float v) { return v * v; }; y[i] = sq(sq(x[i]) + sq(2.f));", 53.28024, 5828.304 },
  { "generic lambda types", "auto f = [](auto a, auto b) { return a / b; }; y[i] = f(7, 2) + f(x[i], 2.f) + f(7.f, 2);", 7.408203, 842.2578 },
  { "auto deduce int div", "auto a = 7; auto b = a / 2; auto c = 7.f / 2; y[i] = b + c;", 6.5, 884 },
  { "auto copy from ref", "float v = x[i]; float &r = v; auto c = r; c = 5.f; y[i] = v + c;", 6.816406, 596.5156 },
  { "auto& from array elem", "float a[2] = {x[i], 1.f}; auto &r = a[1]; r = 3.f; y[i] = a[0] * a[1];", 5.449219, -250.4531 },
  { "template deduce const array", "const float a[3] = {1.f, 2.f, 3.f}; y[i] = x[i] * len(a);", 5.449219, -250.4531,
    "template <typename T, int N> __device__ int len(const T (&)[N]) { return N; }" },
  { "pointers swapped in a loop", "float u[4] = {x[i], 1.f, 2.f, 3.f}, v[4]; float *a = u, *b = v; for (int s = 0; s < 3; ++s) { for (int k = 0; k < 4; ++k) b[k] = a[k] * 0.5f + a[(k + 1) & 3] * x[i]; float *t = a; a = b; b = t; } y[i] = a[0] + 2 * a[2];", 68.1045914, -1586.81189 },
  { "pointer chosen", "float u[2] = {x[i], 1.f}, v[2] = {2.f, 5.f}; const float *p = (i & 1) ? u : v; const float *q = x[i] > 0 ? u + 1 : v + 1; y[i] = p[0] * q[0] + p[1];", 2.81640625, 479.976562 },
  { "pointer set in both branches", "float u[2] = {x[i], 1.f}, v[2] = {2.f * x[i], 5.f}; float *p; if (i % 3 == 0) p = u; else p = v; p[1] += p[0]; y[i] = u[1] * v[1];", 8.6328125, 406.425781 },
  { "pointer to input, then to own arrays", "float v[16], w[16]; const float *src = x; float *dst = v; for (int s = 0; s < 3; ++s) { for (int k = 0; k < 16; ++k) dst[k] = src[k] * src[(k + 1) & 15]; src = dst; dst = dst == v ? w : v; } y[i] = src[i];", 1.12945569, 5422.60277 },
  { "pointer's copy stays", "float u[3] = {x[i], 1.f, 2.f}, v[3] = {3.f, 4.f, x[i] * x[i]}; float *a = u; float *c = a; a = v; c[1] = 7.f; a[1] = 9.f; y[i] = u[1] * u[0] + v[1] * v[2] + c[0] + a[2];", 47.5245667, 2604.5056 },
  { "swapped pointers as arguments", "float u[3] = {x[i], 1.f, 2.f}, v[3] = {3.f, 4.f, x[i] * x[i]}; float *a = u, *b = v; for (int s = 0; s < 4; ++s) { step(a, b, 3); float *t = a; a = b; b = t; } y[i] = a[0] * a[2] + b[1];", 1.33820605, 71.6331742,
    "__device__ void step(const float *s, float *d, int n) { for (int k = 0; k < n; ++k) d[k] = 0.5f * s[k] + 0.25f * s[(k + 1) % n] * s[k]; }" },
  { "pointers swapped in a function", "float u[3] = {x[i], 1.f, 2.f}, v[3]; y[i] = iter(u, v, 5);", 9.11362267, -86.0936309,
    "__device__ float iter(float *a, float *b, int n) { for (int s = 0; s < n; ++s) { for (int k = 0; k < 3; ++k) b[k] = a[k] + 0.1f * a[(k + 2) % 3] * a[k]; float *t = b; b = a; a = t; } return a[0] + a[1]; }" },
  { "pointer that moves and turns", "float u[4] = {x[i], 1.f, 2.f, 3.f}, v[4] = {5.f, 6.f, x[i], 8.f}; float *p = u; float s = 0; for (int k = 0; k < 4; ++k) { s += *p++ * x[i]; if (k == 1) p = v + 2; } y[i] = s;", 22.9463196, -96.883255 },
  { "pointers swapped by reference", "float u[2] = {x[i], 1.f}, v[2] = {4.f, x[i] * 2}; float *a = u, *b = v; swap_(a, b); y[i] = a[0] + 10 * b[0] + a[1];", 25.796875, -457.8125,
    "template <typename T> __device__ void swap_(T &a, T &b) { T t = a; a = b; b = t; }" },
  { "pointer by reference advanced", "const float *p = x; float s = 0; s += next(p) * x[i]; s += next(p); y[i] = s;", 2.42479706, 113.517059,
    "__device__ float next(const float *&p) { return *p++; }" },
  { "value behind a chosen pointer", "float u[2] = {x[i], 1.f}, v[2] = {0.5f, x[i] * x[i]}; const float *big = u[0] > v[0] ? u : v; const float &r = big[1]; y[i] = r * big[0];", 1.81640625, 173.857426 },
  { "pointer to one of three", "float u[1] = {x[i]}, v[1] = {2.f}, w[1] = {x[i] * x[i]}; float *p = i % 3 == 0 ? u : i % 3 == 1 ? v : w; *p *= 2.f; y[i] = u[0] + v[0] + w[0];", 10.4150696, 671.974983 },
  { "lambda without parameters", "auto f = [&] { return x[i] * 2; }; float q = [=] { float s = 0; for (int k = 0; k < 2; ++k) s += x[i]; return s; }(); y[i] = f() + q;", 7.265625, -333.9375 },
  { "structured binding copies", "float2 p = make_float2(x[i], 2.f); auto [a, b] = p; a += 1; y[i] = a * b + p.x;", 7.44921875, 21.546875 },
  { "structured binding refers", "S s = {x[i], 3}; auto &[a, m] = s; a *= m; y[i] = s.a + m;", 8.44921875, 157.546875,
    "struct S { float a; int n; };" },
  { "structured binding of arrays", "float q[2] = {x[i], 3.f}; auto [a, b] = q; a = 9; const auto &[c, d] = q; y[i] = a * b + c * d;", 32.4492188, 3421.54688 },
  { "structured binding of a result", "auto [s, c] = sc(x[i]); y[i] = s * c;", -0.235850915, 8.66351925,
    "struct R { float s, c; }; __device__ R sc(float v) { return {sinf(v), cosf(v)}; }" },
  { "structured binding of an element", "const auto [a, b] = make_float2(x[i], 2.f); float2 q[2] = {make_float2(a, b), make_float2(b, a)}; int k = i & 1; auto &[c, d] = q[k]; k = 5; c += 1; y[i] = q[0].x * q[1].x + d;", 7.265625, -6.296875 },
  { "volatile variable", "volatile float v = x[i]; v = v * v; y[i] = v;", 3.29933167, 327.23806 },
  { "template deduce array of arrays", "float m[2][3] = {{x[i], 1, 2}, {3, 4, x[i]}}; y[i] = f(m) + g(m, 2);", 25.265625, 2114.0625,
    "template <typename T, int N, int M> __device__ T f(const T (&m)[N][M]) { T s = 0; for (int a = 0; a < N; ++a) for (int b = 0; b < M; ++b) s += m[a][b] * (a + b); return s; } template <typename T, int M> __device__ T g(const T m[][M], int r) { T s = 0; for (int k = 0; k < r; ++k) s += m[k][M - 1]; return s; }" },
  { "template int arith", "y[i] = x[i] * F<3 * 2 - 1>::v + F<(4 > 2)>::v;", 12.89844, -228.9063,
    "template <int N> struct F { static constexpr int v = N + 1; };" },
  { "template nested >>", "W<W<float>> w; w.a.a = x[i]; y[i] = w.a.a;", 1.816406, -83.48437,
    "template <typename T> struct W { T a; };" },
  { "template two types", "y[i] = add(x[i], 2) + add(1, 2);", 6.816406, 596.5156,
    "template <typename A, typename B> __device__ float add(A a, B b) { A c = a; c += b; return c; }" },
  { "template T int vs float", "y[i] = half(7) + half(x[i]) + half(7.f);", 7.408203, 842.2578,
    "template <typename T> __device__ T half(T v) { return v / 2; }" },
  { "template explicit overrides", "y[i] = half<int>(7.9f) + half<float>(7);", 6.5, 884,
    "template <typename T> __device__ T half(T v) { return v / 2; }" },
  { "template overload vs plain", "y[i] = g(x[i]) + g(1) + g(1.0);", 22, 2992,
    "template <typename T> __device__ float g(T v) { return 1.f; } __device__ float g(float v) { return 20.f; }" },
  { "template more specialised ptr unneeded", "y[i] = g(x[i]) + g(3);", 21, 2856,
    "template <typename T> __device__ float g(T v) { return 1.f; } template <> __device__ float g<int>(int v) { return 20.f; }" },
  { "struct specialisation", "y[i] = x[i] * Tr<float>::k + Tr<int>::k + Tr<char>::k;", 10.26562, 74.0625,
    "template <typename T> struct Tr { static constexpr int k = 1; }; template <> struct Tr<float> { static constexpr int k = 4; }; template <> struct Tr<int> { static constexpr int k = 2; };" },
  { "member template", "V v{x[i]}; y[i] = v.as<int>() + v.as<float>();", 2.816406, -151.4844,
    "struct V { float a; template <typename T> __device__ T as() const { return (T)a; } };" },
  { "template type alias", "y[i] = f<float>(x[i]);", 2.816406, 52.51562,
    "template <typename T> struct H { using type = T; }; template <typename T> __device__ T f(T v) { typename H<T>::type r = v; return r + 1; }" },
  { "template default type", "A<> a; a.v = 7.9f; A<int> b; b.v = 7.9f; y[i] = a.v + b.v;", 14.9, 2026.4,
    "template <typename T = float, int N = 4> struct A { T v; T pad[N]; };" },
  { "template functor op", "y[i] = reduce<4>(x[i], Add()) + reduce<3>(x[i], Mul{2.f});", 31.23733, -1427.836,
    "struct Add { __device__ float operator()(float a, float b) const { return a + b; } }; struct Mul { float s; __device__ float operator()(float a, float b) const { return a * b * s; } }; template <int N, typename Op> __device__ float reduce(float v, Op op) { float r = v; for (int k = 1; k < N; ++k) r = op(r, v); return r; }" },
  { "ctor order of init", "P p(x[i]); y[i] = p.a * 100 + p.b * 10 + p.c;", 204.6406, -5220.437,
    "struct P { float a, b = 2.f, c; __device__ P(float v) : a(v), c(b + 1.f) {} };" },
  { "ctor body overrides default", "P p; P q(3.f); y[i] = p.a + q.a * 10 + x[i];", 42.81641, 5492.516,
    "struct P { float a = 1.f; __device__ P() {} __device__ P(float v) { a += v; } };" },
  { "array of default objects", "P p[3]; p[1].a = x[i]; y[i] = p[0].a + p[1].a + p[2].a;", 4.816406, 324.5156,
    "struct P { float a = 1.5f; };" },
  { "array of ctor objects list", "P p[2] = {P(x[i]), P(2.f)}; y[i] = p[0].a * p[1].a;", 14.53125, -667.875,
    "struct P { float a; __device__ P(float v) : a(v * 2) {} };" },
  { "nested member objects", "O o(x[i]); o.in.add(1.f); y[i] = o.in.a + o.k;", 7.632812, 377.0312,
    "struct I { float a; __device__ I(float v) : a(v) {} __device__ void add(float v) { a += v; } }; struct O { I in; int k = 3; __device__ O(float v) : in(v * 2.f) {} };" },
  { "aggregate with defaults", "P p{x[i]}; P q = {}; y[i] = p.a + p.b * 10 + q.a + q.b;", 24.81641, 3044.516,
    "struct P { float a = 1.f, b = 2.f; };" },
  { "method overload const", "V v{x[i]}; const V c{2.f}; y[i] = v.get() + c.get() * 10;", -18.18359, -2803.484,
    "struct V { float a; __device__ float get() { return a; } __device__ float get() const { return -a; } };" },
  { "method named like field elsewhere", "V v{x[i], 3}; y[i] = v.size() * v.a;", 5.449219, -250.4531,
    "struct V { float a; int n; __device__ int size() const { return n; } };" },
  { "method calls method & static", "V v{x[i]}; y[i] = v.twice();", 5.632812, 105.0312,
    "struct V { float a; static __device__ float dbl(float q) { return q * 2; } __device__ float one() const { return a; } __device__ float twice() const { return dbl(one()) + V::dbl(1.f); } };" },
  { "method param hides field", "V v{x[i]}; y[i] = v.f(2.f) + v.a;", 5.449219, -250.4531,
    "struct V { float a; __device__ float f(float a) { return this->a * a; } };" },
  { "method local hides field", "V v{x[i]}; y[i] = v.f() + v.a;", 6.816406, 596.5156,
    "struct V { float a; __device__ float f() { float a = 5.f; return a; } };" },
  { "method hides global", "V v{x[i]}; y[i] = v.f() + g(1.f);", 182.6406, -8212.437,
    "__device__ float g(float v) { return v; } struct V { float a; __device__ float g(float q) const { return q * 100; } __device__ float f() const { return g(a); } };" },
  { "operator() matrix ref", "M m; for (int r = 0; r < 2; ++r) for (int c = 0; c < 2; ++c) m(r, c) = x[i] + r * 2 + c; m(1, 0) *= 3.f; y[i] = m(0, 0) * m(1, 1) - m(0, 1) * m(1, 0);", -23.4971, -969.5699,
    "struct M { float d[4]; __device__ float &operator()(int r, int c) { return d[r * 2 + c]; } __device__ float operator()(int r, int c) const { return d[r * 2 + c]; } };" },
  { "operator[] const and not", "A a; a[0] = x[i]; a[1] = 2.f; y[i] = sum(a);", 21.81641, 2636.516,
    "struct A { float d[2]; __device__ float &operator[](int k) { return d[k]; } __device__ const float &operator[](int k) const { return d[k]; } }; __device__ float sum(const A &a) { return a[0] + a[1] * 10; }" },
  { "compare ops", "V a{x[i]}, b{0.f}; y[i] = (a < b) * 1 + (a == b) * 2 + !(a < b) * 4;", 4, 271,
    "struct V { float a; __device__ bool operator<(const V &o) const { return a < o.a; } }; __device__ bool operator==(const V &p, const V &q) { return p.a == q.a; }" },
  { "unary ops", "V a{x[i], 2.f}; V b = -a; y[i] = b.a + (-b).b + (~a);", 3.816406, 188.5156,
    "struct V { float a, b; __device__ V operator-() const { return {-a, -b}; } __device__ float operator~() const { return a * b; } };" },
  { "friend both sides", "V a{x[i]}; y[i] = (2.f * a).a + (a * 3.f).a + (a * a).a;", 15.38136, 317.8162,
    "struct V { float a; friend __device__ V operator*(float s, const V &v) { return {s * v.a}; } __device__ V operator*(float s) const { return {a * s + 1}; } __device__ V operator*(const V &o) const { return {a * o.a + 2}; } };" },
  { "dual numbers", "D u(x[i], 1.f); D r = u * u * 3.f + u / (u * u + 1.f) - 2.f; y[i] = r.v + r.d;", 19.09452, 191.1116,
    "struct D { float v, d; __device__ D(float v_, float d_ = 0.f) : v(v_), d(d_) {} };\n__device__ D operator+(D a, D b) { return D(a.v + b.v, a.d + b.d); }\n__device__ D operator+(D a, float b) { return D(a.v + b, a.d); }\n__device__ D operator-(D a, float b) { return D(a.v - b, a.d); }\n__device__ D operator*(D a, D b) { return D(a.v * b.v, a.d * b.v + a.v * b.d); }\n__device__ D operator*(D a, float b) { return D(a.v * b, a.d * b); }\n__device__ D operator/(D a, D b) { return D(a.v / b.v, (a.d * b.v - a.v * b.d) / (b.v * b.v)); }" },
  { "early return ref to array", "float a[3] = {x[i], 1.f, 2.f}; pick(a, 1) = 9.f; pick(a, 5) += 1.f; y[i] = a[0] + a[1] * 10 + a[2] * 100;", 292.8164, 39492.52,
    "__device__ float &pick(float *a, int k) { if (k > 2) return a[0]; return a[k]; }" },
  { "pointer return moves", "const float *p = from(x, i); y[i] = p[0] * 2.f;", 3.632812, -166.9688,
    "__device__ const float *from(const float *p, int k) { p += k; return p; }" },
  { "default args", "y[i] = f(x[i]) + f(x[i], 2.f) + f(x[i], 2.f, 3);", 30.42969, -488.7813,
    "__device__ float f(float v, float s = 10.f, int k = 1) { return v * s + k; }" },
  { "default arg names global const", "const float C = 5.f; y[i] = f(x[i]) + C * 0;", 3.632812, -166.9688,
    "const float C = 2.f; __device__ float f(float v, float s = C) { return v * s; }" },
  { "range for by ref and value", "float a[3] = {x[i], 1.f, 2.f}; for (auto &e : a) e *= 2.f; for (float e : a) { e = 100.f; } float s = 0; for (const float &e : a) s += e; y[i] = s;", 9.632812, 649.0312 },
  { "range for continue break", "int a[4] = {1, 2, 3, 4}; float s = 0; for (int e : a) { if (e == 2) continue; if (e == 4) break; s += e * x[i]; } y[i] = s;", 7.265625, -333.9375 },
  { "range for 2d", "float m[2][2] = {{x[i], 1.f}, {2.f, 3.f}}; float s = 0; for (auto &r : m) for (auto v : r) s = s * 2.f + v; y[i] = s;", 25.53125, 828.125 },
  { "if init", "if (int k = i % 3; k == 1) y[i] = k * x[i]; else y[i] = k;", 2, 70.59766 },
  { "if decl shadow", "int k = 7; if (int k = i % 2) y[i] = k; else y[i] = k + 10; y[i] += k;", 8, 1664 },
  { "enum class switch", "Op o = static_cast<Op>(i % 3); float r = 0; switch (o) { case Op::A: r = 1; break; case Op::B: r = x[i]; break; default: r = 3; } y[i] = r;", 3, 166.5977,
    "enum class Op : int { A, B = 1, C };" },
  { "two enum classes", "y[i] = (int)A::X * 10 + (int)B::X + x[i] * 0;", 15, 2040,
    "enum class A { Q, X }; enum class B { X = 5 };" },
  { "namespaced", "y[i] = m::f(x[i]) + m::K + m::n::g(1.f);", 8.632812, 513.0312,
    "namespace m { constexpr float K = 2.f; __device__ float f(float v) { return v * K; } namespace n { __device__ float g(float v) { return f(v) + 1; } } }" },
  { "constexpr fn sizes", "float a[sq(3)]; for (int k = 0; k < sq(3); ++k) a[k] = x[i] * k; y[i] = a[sq(2)];", 7.265625, -333.9375,
    "constexpr __device__ int sq(int k) { return k * k; }" },
  { "constexpr fn runtime", "int k = i % 4; y[i] = sq(k) * x[i];", 1.816406, -379.6797,
    "constexpr __device__ int sq(int k) { return k * k; }" },
  { "promotion overload", "short s = 3; unsigned char c = 200; y[i] = f(s) + f(c) + f(true) + f('a') + f(2.f) + f(2.0);", 303, 41208,
    "__device__ float f(int v) { return v; } __device__ float f(double v) { return v * 0.5; }" },
  { "overload by ref const", "float v = x[i]; const float w = 1.f; y[i] = f(v) + f(w) + f(2.f);", 3, 408,
    "__device__ float f(const float &v) { return 1.f; } __device__ float f(float2 v) { return 100.f; }" },
  { "overload by count", "y[i] = f(1.f) + f(1.f, 2.f) + f(1.f, 2.f, 3.f);", 136, 18496,
    "__device__ float f(float a) { return a; } __device__ float f(float a, float b) { return a * 10 + b; } __device__ float f(float a, float b, float c) { return a * 100 + b * 10 + c; }" },
  { "two-arg overload", "y[i] = f(1, 2.f) + f(1.f, 2);", 21, 2856,
    "__device__ float f(int a, float b) { return 1.f; } __device__ float f(float a, int b) { return 20.f; }" },
  { "macro paste & string", "CAT(v, 1) = x[i]; y[i] = v1 * XCAT(n, um);", 5.449219, -250.4531,
    "#define CAT(a, b) float a##b\n#define XCAT(a, b) a##b\n#define num 3" },
  { "macro indirect paste", "y[i] = x[i] * J(K_, L);", 7.265625, -333.9375,
    "#define J2(a, b) a##b\n#define J(a, b) J2(a, b)\n#define L 7\n#define K_7 4.f" },
  { "macro variadic args", "y[i] = SUM3(x[i], 2.f, 3.f) + FIRST(1.f, 2.f);", 8.816406, 868.5156,
    "#define SUM3(...) add3(__VA_ARGS__)\n#define FIRST(a, ...) (a)\n__device__ float add3(float a, float b, float c) { return a + b * c; }" },
  { "macro named variadic with comma drop", "y[i] = CALL(f0) + CALL(f1, x[i]);", 3.816406, 188.5156,
    "#define CALL(f, ...) f(1.f, ##__VA_ARGS__)\n__device__ float f0(float a) { return a; } __device__ float f1(float a, float b) { return a + b; }" },
  { "macro multi statement", "float s = 0; REPEAT4(k, s += x[i] * k;) y[i] = s;", 10.89844, -500.9063,
    "#define REPEAT4(v, body) { const int v = 0; body } { const int v = 1; body } { const int v = 2; body } { const int v = 3; body }" },
  { "x-macro table", "float s = 0;\n#define X(n, v) s += v * x[i];\nLIST\n#undef X\ny[i] = s;", 12.71484, -584.3906,
    "#define LIST X(a, 1.f) X(b, 2.f) X(c, 4.f)" },
  { "#if arithmetic", "y[i] = x[i] * Q;", 5.449219, -250.4531,
    "#define W 8\n#if (W & (W - 1)) == 0 && W >> 2 == 2 && ~0 == -1 && (W ? 1 : 0)\n#define Q 3\n#elif W\n#define Q 4\n#endif" },
  { "#if function macro", "y[i] = x[i] * Q;", 9.082031, -417.4219,
    "#define V(a, b) ((a) * 100 + (b))\n#define CUR V(12, 3)\n#if CUR >= V(12, 0)\n#define Q 5\n#else\n#define Q 6\n#endif" },
  { "float4 array punning", "float a[8]; for (int k = 0; k < 8; ++k) a[k] = x[i] + k; float4 *p = reinterpret_cast<float4 *>(a); p[1].x = p[0].w * 2.f; float4 v = p[1]; y[i] = a[4] + v.y;", 16.44922, 1245.547 },
  { "vector as array", "float4 v = make_float4(x[i], 1.f, 2.f, 3.f); float *p = reinterpret_cast<float *>(&v); p[2] = 10.f; float s = 0; for (int k = 0; k < 4; ++k) s += p[k] * (k + 1); y[i] = s + v.z;", 55.81641, 7260.516 },
  { "vector (&v.x)[k] write", "float3 v = make_float3(0.f, 0.f, 0.f); for (int k = 0; k < 3; ++k) (&v.x)[k] = x[i] * k; y[i] = v.x + v.y * 10 + v.z * 100;", 381.4453, -17531.72 },
  { "vectors in an array (&r[a].x)[k]", "float3 r[2]; r[0] = make_float3(x[i], 2.f, 3.f); r[1] = make_float3(4.f, x[i] * x[i], 6.f); float s = 0; for (int k = 0; k < 6; ++k) s += (&r[k / 3].x)[k % 3] * (k + 1); (&r[0].y)[1] *= x[i]; y[i] = s + r[0].z;", 88.7622833, 10142.2525 },
  { "a vector of a struct (&s.p.x)[k]", "S s; s.p = make_float3(x[i], 2.f, 3.f); s.w = x[i] * 7.f; (&s.p.x)[i % 3] += 5.f; y[i] = s.p.x * s.p.y + (&s.p.x)[3] * s.p.z;", 105.351562, -2506.29297,
    "struct S { float3 p; float w; };" },
  { "vectors of a struct, a pointer that walks", "S s; s.a[0] = make_float3(x[i], 2.f, 3.f); s.a[1] = make_float3(4.f, x[i] * x[i], 6.f); float t = 0; for (const float *p = &s.a[0].x, *e = p + 6; p < e; ) t = t * 0.5f + *p++; y[i] = t;", 9.20642853, 1181.01014,
    "struct S { float3 a[2]; };" },
  { "a member function that counts members", "S s[2] = {{x[i], 2.f, 3.f}, {4.f, x[i] * x[i], 6.f}}; y[i] = s[1].at(i % 3) * s[0].at(0) + s[0].at(2);", 13.8984375, 20.4807673,
    "struct S { float a, b, c; __device__ float at(int k) const { return (&a)[k]; } };" },
  { "a function gets the address of a member", "float3 r[2]; r[0] = make_float3(x[i], 2.f, 3.f); r[1] = make_float3(4.f, x[i] * x[i], 6.f); y[i] = sum(&r[1].x) * sum(&r[0].x);", 423.729401, 45020.5839,
    "__device__ float sum(const float *p) { return p[0] + 2.f * p[1] + 3.f * p[2]; }" },
  { "a pointer to vectors cast to numbers", "float3 r[2]; r[0] = make_float3(x[i], 2.f, 3.f); r[1] = make_float3(4.f, x[i] * x[i], 6.f); float3 *q = r; float s = 0; for (int k = 0; k < 6; ++k) s += ((float *)q)[k] * (k + 1); y[i] = s;", 83.3130646, 10392.7056 },
  { "how far members are apart", "float3 r[2]; r[0] = make_float3(x[i], 2.f, 3.f); r[1] = make_float3(4.f, x[i] * x[i], 6.f); const float *p = &r[1].y, *q = &r[0].y; y[i] = x[i] * (float)(p - q) + (float)(&r[1] - &r[0]);", 6.44921875, -114.453125 },
  { "array of vectors as scalars", "float2 a[3]; for (int k = 0; k < 3; ++k) a[k] = make_float2(x[i] + k, k); float *p = (float *)a; float s = 0; for (int k = 0; k < 6; ++k) s = s * 2.f + p[k]; y[i] = s;", 94.28906, -1058.344 },
  { "struct of vectors pass", "R r = {make_float3(x[i], 0.f, 1.f), make_float3(0.f, 1.f, 0.f)}; y[i] = at(r, 2.f).x + at(r, 2.f).y;", 3.816406, 188.5156,
    "struct R { float3 o, d; }; __device__ float3 at(const R &r, float t) { return make_float3(r.o.x + t * r.d.x, r.o.y + t * r.d.y, r.o.z + t * r.d.z); }" },
  { "list args names", "float n = 2.f; y[i] = f(3.f, {n, n * 2.f});", 324, 44064,
    "__device__ float f(float n, float2 v) { return n * 100.f + v.x * 10.f + v.y; }" },
  { "return list", "y[i] = f(x[i]).a + f(1.f).b;", 3.816406, 188.5156,
    "struct P { float a; int b; }; __device__ P f(float v) { return {v, (int)v + 1}; }" },
  { "int narrowing in ctor", "P p(7.9f); y[i] = p.k + x[i];", 8.816406, 868.5156,
    "struct P { int k; __device__ P(int v) : k(v) {} };" },
  { "bool conversions", "bool b = 0.5f; int k = b + b; y[i] = k + (b == true) + x[i] * !b;", 3, 408 },
  { "comma & nested fn effects", "int c = 0; float r = (c++, g(c)) + g(c); y[i] = r + c;", 21, 2856,
    "__device__ float g(int &c) { return c * 10.f; }" },
  { "assignment value chain", "float a, b; a = b = x[i]; b += a *= 2.f; y[i] = a + b * 10.f;", 58.125, -2671.5 },
  { "compound on int with float", "int k = 7; k *= 1.5f; k -= 0.9; y[i] = k; unsigned char c = 250; c += 10; y[i] += c; short s = 32767; s++; y[i] += s;", -32755, -4454680 },
  { "unsigned wrap mix", "unsigned u = 3; int d = -5; y[i] = (u + d) > 0u ? 1 : 2; y[i] += (float)(u - 5u) > 1e9f ? 10 : 20; y[i] += (long long)u + d;", 9, 1224 },
  { "shift counts", "unsigned u = 1u << 31; int s = (int)u >> 31; y[i] = (u >> 31) + s + (1ll << 40 >> 38);", 4, 544 },
  { "switch fallthrough default mid", "int r = 0; switch (i % 4) { case 0: r += 1; default: r += 10; case 1: r += 100; break; case 2: r += 1000; } y[i] = r + x[i] * 0;", 100, 46708 },
  { "loop else breaks", "int k = 0; for (;;) { if (k > i % 5) break; k += 2; if (k == 4) continue; k++; } y[i] = k;", 3, 579 },
  { "do while scope", "int k = 0; do { int k2 = k * 2; k = k2 + 1; } while (k < 10); y[i] = k;", 15, 2040 },
  { "goto-free state machine", "enum { S0, S1, S2 }; int s = S0, c = 0; while (s != S2) { switch (s) { case S0: s = x[i] > 0 ? S1 : S2; break; case S1: if (++c > 3) s = S2; break; } } y[i] = c;", 4, 180 },
  { "struct compare & swap fn", "P a{x[i], 1}, b{0.5f, 2}; if (b < a) swp(a, b); y[i] = a.k * 10 + b.k;", 21, 1956,
    "struct P { float v; int k; __device__ bool operator<(const P &o) const { return v < o.v; } }; template <typename T> __device__ void swp(T &a, T &b) { T t = a; a = b; b = t; }" },
  { "insertion sort template", "float a[5]; for (int k = 0; k < 5; ++k) a[k] = x[(i + k) % 16]; srt(a); y[i] = a[0] + a[2] * 10 + a[4] * 100;", 190.3535, 10203.96,
    "template <typename T, int N> __device__ void srt(T (&a)[N]) { for (int k = 1; k < N; ++k) { T v = a[k]; int j = k - 1; while (j >= 0 && a[j] > v) { a[j + 1] = a[j]; j--; } a[j + 1] = v; } }" },
  { "stack struct", "Stack<float, 8> s; for (int k = 0; k < 5; ++k) s.push(x[i] * k); float r = 0; while (!s.empty()) r = r * 0.5f + s.pop(); y[i] = r;", 2.95166, -135.6621,
    "template <typename T, int N> struct Stack { T d[N]; int n = 0; __device__ void push(T v) { if (n < N) d[n++] = v; } __device__ T pop() { return d[--n]; } __device__ bool empty() const { return n == 0; } };" },
  { "crtp-free policy", "y[i] = run<Relu>(x[i]) + run<Neg>(x[i]);", 0, 280.2695,
    "struct Relu { static __device__ float f(float v) { return v > 0 ? v : 0; } }; struct Neg { static __device__ float f(float v) { return -v; } }; template <typename Op> __device__ float run(float v) { return Op::f(v) * 2.f; }" },
  { "rng class", "Rng r(i * 7 + 1); float s = 0; for (int k = 0; k < 4; ++k) s += r.next(); y[i] = s * x[i];", 4.561525, -189.3366,
    "class Rng { unsigned s; public: __device__ explicit Rng(unsigned seed) : s(seed) {} __device__ float next() { s ^= s << 13; s ^= s >> 17; s ^= s << 5; return (s & 0xffff) / 65536.f; } };" },
  { "static const in fn", "y[i] = f(i % 3) * x[i];", 7.265625, -188.5273,
    "__device__ float f(int k) { static const float t[3] = {1.f, 2.f, 4.f}; return t[k]; }" },
  { "matrix template mul", "Mat<2, 3> a; Mat<3, 2> b; for (int k = 0; k < 6; ++k) { a.d[k / 3][k % 3] = x[i] + k; b.d[k / 2][k % 2] = k; } Mat<2, 2> c = mul(a, b); y[i] = c.d[0][0] + c.d[1][1] * 10.f;", 584.375, 47745.5,
    "template <int R, int C> struct Mat { float d[R][C]; }; template <int R, int K, int C> __device__ Mat<R, C> mul(const Mat<R, K> &a, const Mat<K, C> &b) { Mat<R, C> o; for (int r = 0; r < R; ++r) for (int c = 0; c < C; ++c) { float s = 0; for (int k = 0; k < K; ++k) s += a.d[r][k] * b.d[k][c]; o.d[r][c] = s; } return o; }" },
  { "typedef template", "typedef W<float> Wf; using Wi = W<int>; Wf a; Wi b; a.a = x[i]; b.a = 7.9f; y[i] = a.a + b.a;", 8.816406, 868.5156,
    "template <typename T> struct W { T a; };" },
  { "inner struct", "O o; o.p.v = x[i]; O::P q; q.v = 2.f; y[i] = o.p.v * q.v;", 3.632812, -166.9688,
    "struct O { struct P { float v; }; P p; };" },
  { "const method modifies copy", "V v{x[i]}; V w = v.plus(1.f); y[i] = v.a + w.a * 10.f;", 29.98047, 441.6719,
    "struct V { float a; __device__ V plus(float s) const { V r = *this; r.a += s; return r; } };" },
  { "method on temporary", "y[i] = V{x[i]}.dbl().dbl().a;", 7.265625, -333.9375,
    "struct V { float a; __device__ V dbl() const { return V{a * 2.f}; } };" },
  { "chain set", "V v{0.f, 0.f}; v.setA(x[i]).setB(2.f); y[i] = v.a * v.b;", 3.632812, -166.9688,
    "struct V { float a, b; __device__ V &setA(float q) { a = q; return *this; } __device__ V &setB(float q) { b = q; return *this; } };" },
  { "elements with effects", "V v[3] = {{1.f}, {2.f}, {3.f}}; int k = 0; v[k++].add(x[i]); v[k++].add(10.f); y[i] = v[0].a + v[1].a + v[2].a * k;", 20.81641, 2500.516,
    "struct V { float a; __device__ void add(float s) { a += s; } };" },
  { "ref to elem then index moves", "float a[3] = {1.f, 2.f, 3.f}; int k = 0; float &r = a[k]; k = 2; r = x[i]; y[i] = a[0] + a[2] * 10.f;", 31.81641, 3996.516 },
  { "swap idiom macro types", "int a = i, b = 3; SWAP(int, a, b); y[i] = a * 100 + b;", 305, 42160,
    "#define SWAP(T, a, b) do { T t_ = (a); (a) = (b); (b) = t_; } while (0)" },
  { "unroll with template bounds", "y[i] = dotN<4>(x, x + 1);", 10.02997, 1364.076,
    "template <int N> __device__ float dotN(const float *a, const float *b) { float s = 0;\n#pragma unroll\nfor (int k = 0; k < N; ++k) s += a[k] * b[k]; return s; }" },
  { "if constexpr else-if", "y[i] = act<0>(x[i]) + act<1>(x[i]) + act<2>(x[i]);", 11.10866, -29.721,
    "template <int M> __device__ float act(float v) { if constexpr (M == 0) return v; else if constexpr (M == 1) return v * v; else { float r = v; for (int k = 0; k < 2; ++k) r *= v; return r; } }" },
  { "operator new-type mixing", "I3 a{1, 2, 3}, b{4, 5, 6}; I3 c = a + b * 2; y[i] = c.x * 100 + c.y * 10 + c.z;", 1035, 140760,
    "struct I3 { int x, y, z; }; __device__ I3 operator+(I3 a, I3 b) { return {a.x + b.x, a.y + b.y, a.z + b.z}; } __device__ I3 operator*(I3 a, int s) { return {a.x * s, a.y * s, a.z * s}; }" },
  { "min max user template", "y[i] = mn(x[i], 0.5f) + mn(3, 2) + mn<float>(1, 0.5f);", 3, 220.3437,
    "template <typename T> __device__ T mn(T a, T b) { return a < b ? a : b; }" },
  { "void* free fn ptr param const", "y[i] = sum3(&x[i % 14]);", 4.167969, -44.2168,
    "__device__ float sum3(const float *p) { float s = 0; const float *e = p + 3; for (; p < e; p++) s += *p; return s; }" },
  { "local struct with method", "struct L { float a; __device__ float f() const { return a * 2; } }; L l{x[i]}; y[i] = l.f();", 3.632812, -166.9688 },
  { "struct static method in expression", "float r = Op::twice(x[i]) * Op::k; y[i] = r;", 10.89844, -500.9063,
    "struct Op { static const int k = 3; static __device__ float twice(float v) { return 2 * v; } };" },
  { "decltype var", "decltype(x[0] * 2) a = x[i]; decltype(i) b = 7.9f; y[i] = a + b;", 8.816406, 868.5156 },
  { "trailing return", "y[i] = f(x[i], 2);", 3.632812, -166.9688,
    "template <typename A, typename B> __device__ auto f(A a, B b) -> decltype(a * b) { return a * b; }" },
  { "sizeof template", "y[i] = sizeof(A<float, 3>) + sizeof(A<double, 2>) + x[i];", 29.81641, 3724.516,
    "template <typename T, int N> struct A { T d[N]; };" },
  { "member array default 0", "A a{}; a.d[1] = x[i]; y[i] = a.d[0] + a.d[1] + a.d[2];", 1.816406, -83.48437,
    "struct A { float d[3]; };" },
  { "implicit ctor in operators", "D a(x[i], 1.f); D r = a * a * 2.f + 3.f; D q = 1.f + 2 * a; y[i] = r.v + r.d * q.d;", 24.1299133, 394.601112,
    "struct D { float v, d; __device__ D(float a = 0.f, float b = 0.f) : v(a), d(b) {} }; __device__ D operator+(const D &a, const D &b) { return D(a.v + b.v, a.d + b.d); } __device__ D operator*(const D &a, const D &b) { return D(a.v * b.v, a.d * b.v + a.v * b.d); }" },
  { "implicit ctor assign and return", "D a = f(x[i]); a = 2.f; D b = x[i]; y[i] = a.v * b.v + a.d;", 3.6328125, -166.96875,
    "struct D { float v, d; __device__ D(float a = 0.f, float b = 0.f) : v(a), d(b) {} }; __device__ D operator+(const D &a, const D &b) { return D(a.v + b.v, a.d + b.d); } __device__ D operator*(const D &a, const D &b) { return D(a.v * b.v, a.d * b.v + a.v * b.d); }__device__ D f(float v) { return v; }" },
  { "implicit ctor const ref param", "y[i] = f(x[i]) + f(3);", 9.6328125, 649.03125,
    "struct D { float v, d; __device__ D(float a = 0.f, float b = 0.f) : v(a), d(b) {} }; __device__ D operator+(const D &a, const D &b) { return D(a.v + b.v, a.d + b.d); } __device__ D operator*(const D &a, const D &b) { return D(a.v * b.v, a.d * b.v + a.v * b.d); }__device__ float f(const D &a) { return a.v * 2 + a.d; }" },
  { "explicit ctor not implicit", "y[i] = f(x[i]);", 1.81640625, -83.484375,
    "struct E { float v; __device__ explicit E(float a) : v(a) {} }; __device__ float f(E e) { return e.v * 100; } __device__ float f(double d) { return d; }" },
  { "two converters", "H h{x[i]}; y[i] = (float)h.v + f(h);", 6.11573792, 379.753685,
    "struct H { float v; __device__ operator float() const { return v * v; } }; __device__ float f(float v) { return v + 1; }" },
  { "conversion in conditions and calls", "H h{x[i]}; float s = 0; if (h > 0.5f) s += sinf(h); s += fmaxf(h, 0.f) + -h + h * h; y[i] = s;", 4.26932096, 500.221931,
    "struct H { float v; __device__ operator float() const { return v; } };" },
  { "proxy assignment", "float a[4] = {1, 2, 3, x[i]}; Row r; r.k = 0; r = x[i]; y[i] = r.k * 2 + a[3];", 7.44921875, 21.546875,
    "struct Row { float k; __device__ Row &operator=(float v) { k = v + 1; return *this; } };" },
  { "operator= chain", "V a{x[i]}, b, c; c = b = a; y[i] = c.v + b.v * 10;", 31.9804688, 713.671875,
    "struct V { float v; __device__ V &operator=(const V &o) { v = o.v + 1.f; return *this; } };" },
  { "copy ctor counts", "V a(x[i]); V b = a; V c(b); V d{c}; y[i] = d.v + f(d);", 62.9804688, 4929.67188,
    "struct V { float v; __device__ V(float q) : v(q) {} __device__ V(const V &o) : v(o.v + 1.f) {} }; __device__ float f(V q) { return q.v * 10; }" },
  { "likely without else", "y[i] = 1.f; if (x[i] > 0) [[likely]] y[i] = x[i] * 3;", 5.44921875, 260.951172 },
  { "_Pragma inside nest", "float s = 0; for (int a = 0; a < 3; ++a) _Pragma(\"unroll\") for (int b = 0; b < 2; ++b) s += x[i] * (a + b); y[i] = s;", 16.3476562, -751.359375 },
  { "attribute before if body braces", "float s = 0; for (int a = 0; a < 3; ++a) [[unlikely]] { s += a * x[i]; } y[i] = s;", 5.44921875, -250.453125 },
  { "iterator struct", "float a[4] = {x[i], 1, 2, 3}; float s = 0; for (It b{0}, e{4}; b != e; ++b) s += a[*b] * (*b); y[i] = s;", 14, 1904,
    "struct It { int k; __device__ bool operator!=(const It &o) const { return k != o.k; } __device__ It &operator++() { ++k; return *this; } __device__ int operator*() const { return k; } };" },
  { "local && of a value", "auto &&v = x[i] * 2.f; const auto &&w = v + 1; y[i] = v * w;", 16.8301392, 1141.98349 },
  { "local && of a variable", "float a = x[i]; auto &&v = a; v += 1.f; y[i] = a * v;", 7.93214417, 296.26931 },
  { "lambda = with refs", "float s = 0, q = x[i]; float arr[2] = {1.f, 2.f}; auto f = [=, &s, &arr](float v) { s += v * q; arr[1] += v; }; q = 100.f; f(2.f); f(x[i]); y[i] = s + arr[1];", 12.7485504, 620.784931 },
  { "unary minus & plus with converter", "H h{x[i]}; y[i] = -h + +h * 2 + !h;", 1.81640625, -83.484375,
    "struct H { float v; __device__ operator float() const { return v; } };" },
  { "half wrapper", "F a(x[i]), b(2.f); F c = a + b; c += a; y[i] = float(c) * static_cast<float>(a);", 10.2314758, 487.50737,
    "struct F { float r; __device__ F() {} __device__ explicit F(float v) : r(v) {} __device__ explicit operator float() const { return r; } __device__ F operator+(F o) const { return F(r + o.r); } __device__ F &operator+=(F o) { r += o.r; return *this; } };" },
  { "strong index type", "Index k(2); float a[4] = {x[i], 1, x[i] * 2, 3}; y[i] = a[k] + a[k + 1];", 6.6328125, 241.03125,
    "struct Index { int v; __device__ Index(int q) : v(q) {} __device__ operator int() const { return v; } };" },
  { "namespace alias local", "namespace q = outer::inner; y[i] = q::f(x[i]);", 3.29933167, 327.23806,
    "namespace outer { namespace inner { __device__ float f(float v) { return v * v; } } }" },
  { "postfix ++ on struct value", "It a{1}; It b = a++; y[i] = x[i] * (a.k * 10 + b.k); It c = --a; y[i] += c.k;", 39.1445312, -1617.17188,
    "struct It { int k; __device__ It &operator++() { ++k; return *this; } __device__ It operator++(int) { It o = *this; ++k; return o; } __device__ It &operator--() { --k; return *this; } };" },
  { "template wrapper converting", "W<float> w(x[i]); W<int> n(3); float s = w * n + w; y[i] = s;", 7.265625, -333.9375,
    "template <class T> struct W { T v; __device__ W(T q) : v(q) {} __device__ operator T() const { return v; } };" },
  { "conversion operator", "H h{x[i]}; float f = h; y[i] = f * 2.f + h;", 5.44921875, -250.453125,
    "struct H { float v; __device__ operator float() const { return v; } };" },
  { "explicit conversion bool", "H h{x[i]}; y[i] = h ? x[i] : 2.f;", 1.81640625, 238.650391,
    "struct H { float v; __device__ explicit operator bool() const { return v > 0; } };" },
  { "copy ctor default", "H h(x[i]); H g = h; g.v += 1; y[i] = h.v * g.v;", 5.11573792, 243.753685,
    "struct H { float v; H() = default; __device__ H(float q) : v(q) {} H(const H &) = default; H &operator=(const H &) = default; };" },
  { "forward ref auto&&", "float a[3] = {x[i], 2.f, 3.f}; float s = 0; for (auto &&v : a) { v *= 2.f; s += v; } y[i] = s * a[0];", 49.5254517, -360.735275 },
  { "using declaration", "using ops::f; y[i] = f(x[i]);", 3.29933167, 327.23806,
    "namespace ops { __device__ float f(float v) { return v * v; } }" },
  { "alignas keyword", "V v{x[i], 1, 2, 3}; y[i] = v.a * v.d; alignas(16) float q[4]; q[0] = 1; y[i] += q[0];", 6.44921875, -114.453125,
    "struct alignas(16) V { float a, b, c, d; };" },
  { "likely", "if (x[i] > 0) [[likely]] { y[i] = x[i]; } else y[i] = -x[i] * x[i];", 1.81640625, -182.038151 },
  { "not and or keywords", "if (not (x[i] > 0) and i > 2 or i == 0) y[i] = x[i]; else y[i] = 2 * x[i];", 3.6328125, -27.4882812 },
  { "operator-> none; operator* deref", "Box b{x[i]}; y[i] = *b * 2.f;", 3.6328125, -166.96875,
    "struct Box { float v; __device__ float &operator*() { return v; } };" },
  { "derived struct", "B b{}; b.v = x[i]; b.w = 2.f; y[i] = b.get() * b.w;", 6.59866333, 654.47612,
    "struct A { float v; __device__ float get() const { return v * v; } }; struct B : A { float w; };" },
  { "derived with constructors", "B b(x[i]); B c = b; c.v += 1.f; y[i] = b.get() * b.w + c.get();", 38.3613892, 1426.10849,
    "struct A { float v; __device__ A(float q) : v(q) {} __device__ float get() const { return v * v; } }; class B : public A { public: float w; __device__ B(float q) : A(q + 1.f), w(3.f) {} };" },
  { "derived aggregate list", "B b{{x[i], 2.f}, 3.f}; B c{x[i], 5.f, 1.f}; y[i] = b.u * b.v * b.w + c.v * c.w + c.u;", 17.7148438, 95.609375,
    "struct A { float u, v; }; struct B : A { float w; };" },
  { "derived overrides and calls its base", "C c; c.v = x[i]; y[i] = c.f() + c.g();", 21.796875, -1001.8125,
    "struct A { float v; __device__ float f() const { return v; } __device__ float g() const { return f() * 10; } }; struct B : A { __device__ float f() const { return A::f() * 2; } }; struct C final : B { __device__ float h() const { return B::f(); } };" },
  { "derived passed as its base", "B b; b.v = x[i]; b.w = 1.f; bump(b); y[i] = val(b) + ref(b) + b.w;", 15.0820312, 398.578125,
    "struct A { float v; }; struct B : A { float w; }; __device__ void bump(A &a) { a.v += 1.f; } __device__ float val(A a) { a.v *= 2.f; return a.v; } __device__ float ref(const A &a) { return a.v * 3.f; }" },
  { "sliced by assignment and cast", "B b; b.v = x[i]; b.w = 1.f; A a = b; a.v += 1.f; A c; c = b; y[i] = a.v * c.v + static_cast<A>(b).v + b.v * b.w;", 8.74855042, 76.784935,
    "struct A { float v; }; struct B : A { float w; };" },
  { "two bases", "C c; c.a = x[i]; c.b = 2.f; c.k = 3.f; y[i] = c.fa() + c.fb() * c.k;", 12.2993317, 1551.23806,
    "struct A { float a; __device__ float fa() { return a * a; } }; struct B { float b; __device__ float fb() { return b + 1.f; } }; struct C : A, B { float k; };" },
  { "empty base of functions", "P p{x[i], 2.f}; y[i] = p.sq(p.u) + p.v + P::K;", 12.2993317, 1551.23806,
    "struct Ops { static constexpr int K = 7; __device__ float sq(float a) const { return a * a; } }; struct P : Ops { float u, v; __device__ P(float a, float b) : u(a), v(b) {} };" },
  { "template derived from a template", "Scaled<float, 3> s(x[i]); y[i] = s.get() + s.scaled();", 9.08203125, -417.421875,
    "template <class T> struct Box { T v; __device__ Box(T a) : v(a) {} __device__ T get() const { return v; } }; template <class T, int K> struct Scaled : public Box<T> { __device__ Scaled(T a) : Box<T>(a) {} __device__ T scaled() const { return this->v * K + Box<T>::get(); } };" },
  { "operators of a base", "B a, b; a.v = x[i]; b.v = 2.f; a.w = b.w = 0; A c = a + b; y[i] = c.v * (a < b) + 1;", 4.81640625, 324.515625,
    "struct A { float v; __device__ A operator+(const A &o) const { return A{v + o.v}; } friend __device__ bool operator<(const A &p, const A &q) { return p.v < q.v; } }; struct B : A { float w; };" },
  { "defaults and constructors of a base", "B b; y[i] = b.v * x[i] + b.w + b.z;", 11.6328125, 921.03125,
    "struct A { float v = 2.f, z; __device__ A() : z(5.f) {} }; struct B : A { float w = 3.f; };" },
  { "policy classes", "Run<Fast> r{x[i]}; Run<Slow> q{x[i]}; y[i] = r.go() + q.go();", 11.6257391, -168.443439,
    "struct Fast { __device__ static float f(float v) { return v * 2.f; } }; struct Slow { __device__ static float f(float v) { return v * v * v; } }; template <class P> struct Run : P { float v; __device__ Run(float a) : v(a) {} __device__ float go() const { return P::f(v) + 1.f; } };" },
  { "types of a base", "D d; typename D::value t = x[i]; y[i] = d.twice(t);", 3.6328125, -166.96875,
    "struct Tr { using value = float; enum { N = 2 }; }; struct D : Tr { __device__ value twice(value v) const { return v * N; } };" },
  { "base in shared-like array", "B b[3]; for (int k = 0; k < 3; ++k) { b[k].v = x[i] * k; b[k].w = k; } float s = 0; for (const B &e : b) s += e.v * e.w + e.dbl(); y[i] = s;", 19.9804688, -918.328125,
    "struct A { float v; __device__ float dbl() const { return 2 * v; } }; struct B : A { float w; };" },
  { "alias template", "Arr<3> a = {{x[i], 1.f, 2.f}}; y[i] = a.v[0] * a.v[2];", 3.6328125, -166.96875,
    "template <class T, int N> struct V { T v[N]; }; template <int N> using Arr = V<float, N>;" },
  { "alias template of a member type", "Elem<float> e = x[i]; Ptr<float> p = &e; *p += 1.f; y[i] = e * 2;", 5.6328125, 105.03125,
    "template <class T> struct H { using type = T; }; template <class T> using Elem = typename H<T>::type; template <class T> using Ptr = T *;" },
  { "alias template in a function", "y[i] = f<float>(x[i]);", 5.11573792, 243.753685,
    "template <class T> struct Two { T a, b; }; template <class T> using Pair2 = Two<T>; template <class T> __device__ T f(T v) { Pair2<T> q{v, v * v}; return q.a + q.b; }" },
  { "an argument of a template is not its base's", "S<int> s(x[i]); y[i] = s.f(x[i] * 3.f);", 9.08203125, 878.072266,
    "template <class T> struct Box { T v; __device__ Box(T a) : v(a) {} }; template <class T> struct S : Box<float> { __device__ S(float a) : Box<float>(a) {} __device__ float f(T k) const { T q = k; return q * v; } };" },
  { "a name of the file is not the base's argument", "D d(x[i]); y[i] = d.f(2.6f);", 3.6328125, -166.96875,
    "using T = int; template <class T> struct Box { T v; __device__ Box(T a) : v(a) {} }; struct D : Box<float> { __device__ D(float a) : Box<float>(a) {} __device__ float f(float k) const { T q = k; return q * v; } };" },
  { "derived passed by the pointer of its base", "B b; b.v = x[i]; b.w = 2.f; f(&b); y[i] = b.v * b.w;", 5.6328125, 105.03125,
    "struct A { float v; }; struct B : A { float w; }; __device__ void f(A *a) { a->v += 1.f; }" },
  { "template default of a template", "y[i] = f(x[i], 2.f) + f<float, Plus<float>>(x[i], 3.f) + g<int>(2.6f);", 18.6806946, 645.054245,
    "template <class T> struct Plus { __device__ T operator()(T a, T b) const { return a + b; } }; template <class T, class F = Plus<T>> __device__ T f(T a, T b, F op = F()) { return op(a, b) * a; } template <class T, class V = Plus<T>, int N = (3 > 2)> __device__ T g(T v) { return V()(v, N); }" },
  { "template default compared", "y[i] = f<2>(x[i]);", 7.265625, -333.9375,
    "template <int N, int M = N * 2, bool B = (M > 3)> __device__ float f(float v) { return B ? v * M : v + N; }" },
  { "constructors that hand over", "V a(x[i]); V b; W<int> w(2.6f); y[i] = a.u * a.v + b.u + b.v * w.t + w.s;", 18.4150696, 1930.99174,
    "struct V { float u, v = 9.f; __device__ V(float a, float b) : u(a), v(b) {} __device__ V(float a) : V(a, a * 2.f) { v += 1.f; } __device__ V() : V(1.f) {} }; template <class T> struct W { T t, s; __device__ W(T a, T b) : t(a), s(b) {} __device__ explicit W(float v) : W<T>((T)v, 3) {} };" },
  { "swapped pointers to structs", "P a[2] = {{x[i], 1.f}, {2.f, 3.f}}, b[2] = {{4.f, x[i]}, {1.f, 1.f}}; P *p = a, *q = b; P *t = p; p = q; q = t; y[i] = p[0].u * q[0].u + p[0].w + q[1].w; p->u = 7.f; y[i] += b[0].u * a[0].u;", 24.796875, -593.8125,
    "struct P { float u, w; };" },
  { "pointer chosen of vectors", "float2 a[2] = {{x[i], 1.f}, {2.f, 3.f}}, b[2] = {{4.f, x[i]}, {1.f, 1.f}}; const float2 *p = x[i] > 0 ? a : b; y[i] = p[0].x * p[1].y + p[0].y;", 6.44921875, 438.816406 },
  { "vectors stepped between two arrays", "float4 u[3] = {{x[i], 1, 2, 3}, {1, x[i], 0, 1}, {2, 2, 2, x[i]}}, v[3]; float4 *s = u, *d = v; for (int k = 0; k < 3; ++k) { for (int j = 0; j < 3; ++j) { const float4 l = s[(j + 2) % 3], c = s[j]; d[j] = make_float4(l.x * 0.5f + c.x, c.y * l.z, c.z - l.w, 0.25f * c.w); } float4 *t = s; s = d; d = t; } y[i] = s[0].x + s[1].y * s[2].z + s[0].w;", 5.71629429, -2531.52911 },
  { "structs stepped in a function", "P u[2] = {{x[i], 1.f}, {2.f, 3.f}}, v[2]; y[i] = run(u, v, 3);", 1.45964384, 37.6677978,
    "struct P { float a, b; __device__ float sum() const { return a + b; } }; __device__ float run(P *s, P *d, int n) { for (int k = 0; k < n; ++k) { for (int j = 0; j < 2; ++j) { d[j] = s[1 - j]; d[j].a *= 0.5f; d[j].b += s[j].a; } P *t = s; s = d; d = t; } return s->sum() * s[1].a; }" },
}

describe("a kernel's C++:", function()
  for _, c in ipairs(cases) do
    it(c[1], function()
      local x = flame.tensor(xs)
      local k = flame.kernel { block = { 32 }, source = (c[5] or "") .. [[

__global__ void k(const float *x, float *y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) {
]] .. c[2] .. "\n  }\n}" }
      local y = k(x, N)
      local sum, list = 0, y:totable()
      for i = 1, N do sum = sum + i * list[i] end
      assert(math.abs(list[6] - c[3]) <= 1e-5 * (1 + math.abs(c[3])), ("y[5] = %.9g, expected %.9g"):format(list[6], c[3]))
      assert(math.abs(sum - c[4]) <= 1e-5 * (1 + math.abs(c[4])) * N, ("sum %.9g, expected %.9g"):format(sum, c[4]))
      local forward, reverse = proof.both_modes(function(v) return k(v, N) end, { x })
      assert(math.abs(forward - reverse) <= 1e-4 * (1 + math.abs(forward)),
        ("<J v, u> = %.9g, <v, J' u> = %.9g"):format(forward, reverse))
    end)
  end
end)

-- ---- what was read wrongly ---------------------------------------------------------------------------
local function value(source, options)
  return flame.kernel { source = source .. "\n__global__ void k(const float *x, float *y, int n) { y[0] = Q; }",
    options = options }(flame.ones(1), 1):item()
end

describe("the preprocessor of a kernel", function()
  it("knows the macros of the options", function()
    local text = "#ifndef TILE\n#define TILE 16\n#endif\n#define Q TILE"
    assert.equal(16, value(text))
    assert.equal(8, value(text, { "-DTILE=8" }))
    assert.equal(4, value(text, { "-D", "TILE=4" }))
    assert.equal(2, value(text, { "--define-macro=TILE=2" }))
    assert.equal(1, value(text, { "-DTILE" }))
    assert.equal(16, value(text, { "-DTILE=8", "-UTILE" }))
  end)

  for _, c in ipairs { { "2 & 1", 0 }, { "(1 << 2) == 1", 0 }, { "1 ? 0 : 1", 0 }, { "6 ^ 6", 0 }, { "~0 == -1", 1 },
      { "4 | 0 && 1", 1 }, { "SQ(3) == 9", 1 }, { "defined SQ && !defined(NO)", 1 }, { "-7 / 2 == -3 && 7 % 4 == 3", 1 } } do
    it("decides #if " .. c[1], function()
      assert.equal(c[2], value("#define SQ(a) ((a) * (a))\n#if " .. c[1] .. "\n#define Q 1\n#else\n#define Q 0\n#endif"))
    end)
  end

  it("refuses a condition that it cannot read", function()
    assert(not pcall(value, "#if 1 @ 2\n#define Q 1\n#else\n#define Q 0\n#endif"))
  end)
end)

describe("a name in a kernel", function()
  local function run(before, body)
    return flame.kernel(before .. "\n__global__ void k(const float *x, float *y, int n) {\n" .. body .. "\n}")(flame.ones(1), 1):item()
  end

  it("of two functions of namespaces is refused", function()
    local two = "namespace a { __device__ float f(float v) { return 1; } } namespace b { __device__ float f(float v) { return 2; } }"
    if flame.default_device():sub(1, 4) == "cuda" then return pending "the device's compiler tells them apart" end
    local ok, why = pcall(run, two, "y[0] = b::f(1.f);")
    assert(not ok and tostring(why):find("two namespaces", 1, true), why)
  end)

  it("behind a namespace is not the function's own", function()
    assert.equal(6, run("namespace a { constexpr float K = 1.f; }", "float K = 5.f; y[0] = a::K + K;"))
    assert.equal(6, run("constexpr float K = 1.f;", "float K = 5.f; y[0] = ::K + K;"))
  end)

  it("of a built-in function stays that for other types", function()
    assert.equal(70001, run("#include <cuda_fp16.h>\n__device__ __half max(__half a, __half b) { return a > b ? a : b; }",
      "int a = 70001, b = 1; y[0] = max(a, b);"))
    assert.equal(3, run("__device__ float3 make_float3(float s) { return make_float3(s, s, s); }", "y[0] = make_float3(3.f).z;"))
  end)

  it("may have linkage of C beside kernels that have not", function()
    assert.equal(4, run('extern "C" { __device__ float sq(float v) { return v * v; } }', "y[0] = sq(2.f * x[0]);"))
    assert.equal(4, flame.kernel("__launch_bounds__(64) __global__ void k(const float *x, float *y, int n) { y[0] = 4.f; }")(flame.ones(1), 1):item())
  end)

  it("in a list of arguments is the caller's", function()
    assert.equal(30, run("__device__ float f(float n, float2 v) { return n * 10.f + v.x + v.y; }",
      "{ float n = 0.f; y[0] = f(3.f, {n, n}); }"))
  end)
end)
