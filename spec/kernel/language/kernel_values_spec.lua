--- Functions, and templates of functions, as values; variables that have the names of CUDA's own;
--- pointers and references that are initialised in parentheses or braces; __LINE__ and __FILE__.
--- Values are compared with g++ on the same text, gradients with central differences; NVRTC, if
--- there is one, compiles the texts. Runs on the default device.
local flame = require "flame"
local proof = dofile("spec/kernel/kernel_proof.lua")
local judged = dofile("spec/kernel/kernel_judged.lua")

local TYPES <const> = [[
  template <int N, class T> __device__ T add(T v) { return v * v + N; }
  template <class T, int N> __device__ T scale(T v) { return v * N; }
  template <> __device__ double scale<double, 2>(double v) { return 50 * v; }
  template <int N> __device__ double both(double v) { return v + N; }
  __device__ double both(double v) { return -100 * v; }
  __device__ double cube(double v) { return v * v * v; }
  template <int N> __device__ void bump(double &a, double by) { a += N * by; }
  template <class F> __device__ double apply(double v, F f) { return f(v); }
  template <class F> __device__ double through(double v, F f) { return (*f)(v); }
  template <class F, class G> __device__ double after(double v, F f, G g) { return f(g(v)); }
  template <class F> __device__ void change(double &a, F f) { f(a, 2); f(a, a); }
  __device__ int where(const int threadIdx, const int blockIdx) { return threadIdx + 10 * blockIdx; }
  __device__ int own() { return threadIdx.x; }
  struct At { int blockIdx; __device__ int get() const { return blockIdx / 2 + threadIdx.x; } };
  template <class T, int N> struct Gone {
    T v;
    __device__ Gone(T a) : v(a * N) {}
    __device__ ~Gone<T, N>() {}
  };
]]

local function text_of(body)
  return TYPES .. "__global__ void k(const double *x, double *y, int n) {\n"
    .. "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n  if (i >= n) return;\n  " .. body
    .. "\n}"
end

local bodies <const> = {
  "y[i] = apply(x[i], add<3, double>) + apply(2.0, add<5, double>);",
  "y[i] = apply(x[i], &add<3, double>) + through(x[i], add<4, double>) + through(x[i], &cube) + through(x[i], cube);",
  "y[i] = apply(x[i], scale<double, 2>) + apply(x[i], scale<double, 3>);",
  "y[i] = apply(x[i], both<3>) + apply(x[i], both<4>) * x[0];",
  "y[i] = after(x[i], add<1, double>, scale<double, 2>) + after(x[i], cube, add<2, double>);",
  "double a = x[i]; change(a, bump<3>); y[i] = a; change(a, bump<1>); y[i] *= a;",
  "auto f = [](double v) { return v * 3; }; auto *p = &f; y[i] = through(x[i], f) + (*p)(x[i]);",
  "y[i] = x[i] * where(threadIdx.x, 3) + own();",
  "int j = threadIdx.x; { const int threadIdx = 2; y[i] = x[threadIdx] * x[j] + own(); } y[i] += threadIdx.x;",
  "double s = 1; for (int blockIdx = 0; blockIdx < 3; blockIdx++) s = s * 2 + x[i] * blockIdx; y[i] = s + blockIdx.x;",
  "auto f = [](int gridDim) { return gridDim * 3; }; const int warpSize = 4; y[i] = x[i] * f(2) + warpSize;",
  "const At a = { 5 }; y[i] = x[i] * a.get();",
  "double t[3] = { x[i], 2, 3 }; double *p(t), *const q(t + 1); const double *r{x}; *p = *q * x[i]; y[i] = t[0] + r[0];",
  "double t = x[i]; double &a(t), &b{y[i]}; const double &c(x[0]); a *= 3; b = t * c;",
  "double t[2] = { x[i], 4 }; double *p(t + 1); p--; *p += 1; p = t + 1; *p *= t[0]; y[i] = t[1];",
  "Gone<double, 3> g(x[i]); y[i] = g.v * g.v;",
}

describe("a function as a value, and its neighbours", function()
  for _, body in ipairs(bodies) do
    local text = text_of(body)
    local later = judged.row_later(text)
    it("has the value that C++ gives it: " .. body, function()
      judged.row_is_right(flame.kernel(text), text, body, proof, later)
    end)
  end
end)

describe("__LINE__ and __FILE__", function()
  it("are the line of the text, where a macro is used, and a text for printf", function()
    local k = flame.kernel { shape = { 1 }, source = "#define HERE __LINE__\n\n"
      .. "__global__ void k(const float *x, float *y) {\n  y[0] = x[0] + __LINE__ * 100 + HERE;\n"
      .. "  if (x[0] > 9) printf(\"%s:%d\\n\", __FILE__, __LINE__);\n}" }
    assert.equal(405, k(flame.ones(1)):item())
  end)
end)

describe("a function that is defined with the name of its namespace", function()
  local SPACES <const> = [[
    namespace A {
      __device__ double h(double v) { return v * 2; }
      __device__ double g(double v);
      namespace C { __device__ double h(double v) { return v * 3; } __device__ double c(double v);
        __device__ double *at(double *t, int k); }
      __global__ void k(const double *x, double *y, int n);
    }
    namespace B { __device__ double h(double v) { return v * 1000; } __device__ double g(double v); }
    __device__ double h(double v) { return -v; }
    __device__ double A::g(double v) { return h(v) + B::h(1); }
    namespace D { __device__ double h(double v) { return v * v; } __device__ double d(double v) { return h(v); } }
    __device__ double B::g(double v) { return h(v) + A::g(v) * D::d(v); }
    __device__ double twice(double v) { return h(v) * 2; }
    __device__ double A::C::c(double v) { return h(v) + g(v); }
    __device__ double *A::C::at(double *t, int k) { t[0] = h(t[0]); return t + k; }
  ]]
  for _, body in ipairs {
    "y[i] = g(x[i]) + h(x[i]) * ::h(5);",
    "y[i] = B::g(x[i]) + D::d(x[i]) + twice(x[i]);",
    "y[i] = C::c(x[i]) + C::h(x[i]) * h(x[0]);",
    "double t[2] = { x[i], 3 }; *C::at(t, 1) *= x[i]; y[i] = t[0] + t[1];",
  } do
    local text = SPACES .. "__global__ void A::k(const double *x, double *y, int n) {\n"
      .. "  int i = threadIdx.x;\n  if (i < n) { " .. body .. " }\n}\nusing A::k;\n"
    local later = judged.row_later(text)
    it("sees the names of that namespace: " .. body, function()
      judged.row_is_right(flame.kernel(text), text, body, proof, later)
    end)
  end
end)

describe("a function of the text that has the name of a built-in one", function()
  local HEAD <const> = [[
    __device__ void atomicAdd(unsigned char *a, unsigned char v) { *a += v; }
    __device__ void atomicAdd(long *a, long v) { *a += v; }
    __device__ double fmin(const float *a, int b) { return b; }
    __device__ double fmin(const char *a, int b) { return b; }
  ]]
  it("is not called with pointers to other types", function()
    local k = flame.kernel { shape = { 1 }, source = HEAD .. [[
      __global__ void k(const float *x, float *y) {
        __shared__ float s;
        if (!threadIdx.x) s = 0;
        __syncthreads();
        atomicAdd(&s, x[threadIdx.x]);
        __syncthreads();
        if (!threadIdx.x) y[0] = s + fmin(x[0], 2.0f);
      }]], block = { 4 } }
    assert.equal(11.5, k(flame.tensor { 1.5, 2, 3, 3.5 }):item())
  end)
end)

describe("complex numbers of the standard library", function()
  local HEAD <const> = [[
    #include <complex>
    using complex_t = std::complex<double>;
    template <class T> struct Pair { std::complex<T> a, b; __device__ std::complex<T> dot() const { return a * std::conj(b); } };
    template <class T> __device__ T weigh(const std::complex<T> &z, T w) { return std::norm(z) * w + z.real(); }
    template <int N> __device__ complex_t power(complex_t z) { complex_t p = 1; for (int j = 0; j < N; j++) p *= z; return p; }
  ]]
  for _, body in ipairs {
    "complex_t a(x[i], 2), b = x[0]; a += b * 2.0; y[i] = weigh(a, x[i]) + std::abs(a - b) + (a / b).imag();",
    "complex_t a(x[i], x[0] + 3), b(0.5, -1.5); y[i] = (a / b).real() + (2.0 / a).imag() + (a / 2.0).real() + (3.0 - a).imag() + (a - 3.0).real();",
    "Pair<double> p = { complex_t(x[i], 1), { 2, x[0] } }; const complex_t d = p.dot(); y[i] = d.real() * d.imag();",
    "complex_t z = power<3>(complex_t(x[i], 0.5)); z -= complex_t(1, 1); z /= complex_t(x[0] + 2, 1); y[i] = std::real(z) - std::imag(-z);",
    "complex_t z = std::polar(x[i] + 3, x[0]), e = std::exp(complex_t(x[0] / 4, x[i])); y[i] = std::arg(z) + e.real() * std::imag(e) + (z == z) + (z != e);",
    "complex_t z[3] = { x[i], { 1, x[i] } }, s; for (int j = 0; j < 3; j++) s += z[j] * z[(j + 1) % 3] + double(j); y[i] = s.real() + s.imag();",
    "complex_t z; z.real(x[i]); z.imag(2); const std::complex<float> w(1.5f, 2.5f); z *= complex_t(w); y[i] = z.imag() + w.real();",
    "complex_t z = x[i]; z = 4.0; z += x[i]; y[i] = std::abs(z) + std::abs(-x[i]) + fabs(-x[0]);",
  } do
    it("have the values that C++ gives them: " .. body, function()
      local text = HEAD .. "__global__ void k(const double *x, double *y, int n) {\n"
        .. "  int i = threadIdx.x;\n  if (i < n) { " .. body .. " }\n}\n"
      judged.row_is_right(flame.kernel(text), text, body, proof)
    end)
  end

  it("are those of thrust as well, and arguments", function()
    local k = flame.kernel { shape = { 2, 2 }, block = { 2 }, source = [[
      #include <thrust/complex.h>
      template <class T> __global__ void scaled(thrust::complex<T> *y, const thrust::complex<T> *x, int n) {
        if (threadIdx.x < n) y[threadIdx.x] = thrust::conj(x[threadIdx.x]) * thrust::complex<T>(0, 2) + 1.0f;
      }]], entry = "scaled<float>" }
    assert.same({ { 5, 2 }, { 9, 6 } }, k(flame.tensor { { 1, 2 }, { 3, 4 } }, 2):totable())
  end)
end)

describe("a member whose type assigns its members in its own copies", function()
  local function text_of_copies(copies, body)
    return "union Bits { double all; float part[2]; __device__ Bits() {} __device__ ~Bits() {} };\n"
      .. "struct V { double x, y; __device__ V(double a, double b) : x(a), y(b) {} " .. copies
      .. " };\n"
      .. "struct W { Bits u; __device__ W() {} __device__ W(const W &o) { u.all = o.u.all; } __device__ ~W() {} };\n"
      .. "struct H { V v; double s; }; struct G { W w; double s; };\n"
      .. "__global__ void k(const double *x, double *y, int n) {\n"
      .. "  int i = threadIdx.x;\n  if (i < n) { " .. body .. " }\n}\n"
  end
  local ASSIGNED <const> = "__device__ V(const V &o) { x = o.x; this->y = o.y; } "
    .. "__device__ V &operator=(const V &o) { this->x = o.x; y = o.y; return *this; }"
  it("is copied with the struct", function()
    local body <const> = "H a = { V(x[i], 2), 3 }, b = a; b.v.x += 1; a.v = b.v; y[i] = a.v.x * 10 + b.v.y + b.s;"
    local text = text_of_copies(ASSIGNED, body)
    judged.row_is_right(flame.kernel(text), text, body, proof)
  end)
  it("is copied with the struct if all of a union is assigned", function()
    local body <const> = "G a, b; a.w.u.all = x[i]; a.s = 2; b = a; G c = a; c.w.u.all *= 2; y[i] = b.w.u.all * c.s + c.w.u.all;"
    local k = flame.kernel { source = text_of_copies(ASSIGNED, body), shape = { 2 }, block = { 2 } }
    assert.same({ 4, 12 }, k(flame.tensor({ 1, 3 }, judged.f64), 2):totable())
  end)
  for _, wrong in ipairs {
    "__device__ V(const V &o) { x = o.y; y = o.x; }", "__device__ V(const V &o) { x = o.x; }",
    "__device__ V(const V &o) { x = o.x; y = o.y; x += 1; }",
    "__device__ V(const V &o) { x = o.x; x = o.x; }",
    "__device__ V(const V &o) : x(o.x) { y = o.y; }",
    "__device__ V &operator=(const V &o) { x = o.x; y = o.y; return o; }",
  } do
    it("is refused if they do something else: " .. wrong, function()
      if flame.default_device() ~= "cpu" then return end           -- a GPU runs the text
      local ok, why = pcall(function()
        local text = text_of_copies(wrong, "H a = { V(x[i], 2), 3 }; y[i] = a.v.x;")
        return flame.kernel { source = text, shape = { 5 } }(judged.row(5, 0), 5)
      end)
      assert.is_false(ok)
      assert.matches("own copies is no part", tostring(why))
    end)
  end
end)
