--- "c ? x : y" of two lvalues as an lvalue, on the default device. Values are compared with g++
--- on the same text, gradients with central differences; NVRTC, if there is one, compiles texts.
local flame = require "flame"
local helper = require "spec.support.helper"
local proof = dofile("spec/kernel/kernel_proof.lua")
local judged = dofile("spec/kernel/kernel_judged.lua")

local N <const> = judged.N

local HEAD <const> = [[
  struct P { double x, y; __device__ void add(double d) { x += d; y *= d; }
             __device__ double sum() const { return x + 2 * y; }
             __device__ double &at(int i) { return i ? y : x; }
             __device__ P &operator+=(const P &o) { x += o.x; y += o.y; return *this; } };
  struct V { double x, y, z;
             __device__ double &operator[](int i) { return i == 0 ? x : i == 1 ? y : z; }
             __device__ double &at(int i) { if (i == 0) return x; if (i == 1) return y; return z; } };
  struct M { double v; int n; };
  template <class T> __device__ const T &larger(const T &a, const T &b) { return a > b ? a : b; }
  __device__ double &pick(bool c, double &a, double &b) { return c ? a : b; }
  __device__ void times(double &r, double v) { r *= v; }
  template <class T> __device__ void forward(T &&r, double v) { r = r * v + 1; }
  __device__ double after(const double &r, double &a) { a += 3; return r * a; }
  __device__ double both(const double &a, const double &b) { return a * b; }
  __global__ void k(const double *x, double *y, int n) {
    int i = threadIdx.x;
    if (i >= n) return;
    const bool c = x[i] > 0.1, d = i % 3 == 0;
    double a = x[i], b = 2 * x[0] + x[i] * x[i], s[3] = { x[i], 1, x[0] }, t[2] = { 3, x[i] };
    P u = { x[i], 1 }, w = { x[0], x[i] };
]]

local rows <const> = {
  "double &r = c ? a : b; r *= 3; y[i] = a * b;",
  "double &r = d ? a : c ? b : s[1]; r = r * r; r += 1; y[i] = a * b * s[1];",
  "double &r = c ? s[i % 3] : t[i % 2]; r = x[i] * 4; y[i] = s[0] * s[1] + t[0] * t[1] + s[2];",
  "double &r = c ? a : s[i % 3]; r *= x[0]; y[i] = a * s[0] * s[1] + s[2];",
  "auto &r = c ? a : b; r -= x[0]; auto &q = r; q *= 2; y[i] = a - b * r;",
  "const double &r = c ? a : b; a *= 5; b += 1; y[i] = r;",
  "const auto &r = d ? a : b; double e = r; b = x[0]; y[i] = r * e;",
  "(c ? a : b) = x[i] * x[0]; y[i] = a * b;",
  "(c ? a : b) += x[i]; (d ? s[0] : s[2]) *= a; y[i] = a * b + s[0] * s[2];",
  "double e = ++(c ? a : b), f = (d ? a : b)--; y[i] = a * b * e + f;",
  "(c ? y[i] : a) = x[i] * x[i]; if (!c) y[i] = 3 * a;",
  "times(c ? a : b, x[i]); times(d ? s[i % 3] : a, x[0]); y[i] = a * b + s[0] + s[1] * s[2];",
  "forward(c ? a : b, x[i]); y[i] = a * b;",
  "pick(c, a, pick(d, b, s[0])) = x[i] * 7; y[i] = a * b * s[0];",
  "y[i] = larger(a, b) * both(c ? a : b, d ? s[0] : t[1]);",
  "y[i] = after(c ? a : b, a) + b;",
  "V v = { x[i], 2, 3 }; for (int k = 0; k < 3; ++k) v[k] *= k + x[i]; y[i] = v.x * v.y + v[2];",
  "V v = { x[i], 2, 3 }; for (int k = 0; k < 3; ++k) v.at(k) *= k + x[i]; y[i] = v.x * v.y + v.at(2);",
  "P &r = c ? u : w; r.x *= 3; r.y = r.x; y[i] = u.sum() * w.sum();",
  "(c ? u : w).x *= x[0]; (d ? u : w).y = 4 * x[i]; y[i] = u.sum() * w.sum();",
  "(c ? u : w).add(x[0]); y[i] = u.sum() * w.sum() + (d ? u : w).sum();",
  "(c ? u : w) = { x[0], a }; (d ? u : w) += u; y[i] = u.sum() * w.sum();",
  "P m[2] = { u, w }; P &r = c ? m[i % 2] : u; r.add(a); y[i] = u.sum() * m[0].sum() + m[1].x;",
  "double *p = c ? &a : &b; *p *= x[0]; double *q = d ? p : &s[1]; *q += 2; y[i] = a * b * s[1];",
  "double *p = s; if (c) p = &a; *p += x[0]; p = d ? &b : p; *p *= 2; y[i] = a * b * s[0];",
  "double *p = c ? s : t, &r = p[1]; p = t; r *= x[0]; p[0] = r; y[i] = s[1] * t[1] + t[0];",
  "for (int k = 0; k < 4; ++k) { double &r = k % 2 ? a : b; r = r * x[0] + k; } y[i] = a * b;",
  "M m = { x[i], 2 }; const M e = { x[0], 3 }; y[i] = (c ? m : e).v * (d ? m : e).n;",
  "float f = 2, g = 3; int h = 4; (c ? f : g) = 5; y[i] = f * g * x[i] * (c ? h : f);",
  "int j = 0; double &r = c ? s[j++] : a; r *= 3; y[i] = a * s[0] + s[1] * j;",
  "int j = 0; (c ? s[j++] : s[++j]) *= x[0]; y[i] = s[0] + 3 * s[1] * a + j;",
  "int j = 0; (c ? u : (j++, w)).add(a); P &r = d ? (j += 2, w) : u; r.x *= 3; y[i] = u.sum() * w.x + j;",
  "double &r = c ? u.at(i % 2) : w.at(0); r *= b; (d ? u.at(1) : a) += x[0]; y[i] = u.sum() * w.sum() + a;",
  "auto f = [&](double &q) -> double & { q *= 2; return q; }; double &r = c ? f(a) : f(b); r += a; y[i] = a * b;",
  "const double &r = c ? (b *= 3, a) : s[i % 3]; a *= 2; s[0] += 1; b *= d ? (a += b) : w.y; y[i] = r * b + a;",
  "int j = 0; y[i] = c ? s[j++ % 3] : (a *= b); y[i] += a * j; (d ? y[i] : s[j++]) += a; y[i] += s[0] * j;",
  "int j = 1; P m[2] = { u, w }; (c ? m[j--] : u) = d ? m[0] : w; y[i] = u.sum() + m[0].sum() * m[1].y + j;",
  "bool e = c, f = !d; bool &r = i % 2 ? e : f; r = !r; y[i] = x[i] * (e + 2 * f);",
  "int e = n; int &r = c ? n : e; r += 1; y[i] = x[i] * n + e;",
  "[&](double &r) { r *= 2; }(c ? a : b); auto f = [&]() -> double & { return d ? a : b; }; f() += x[0]; "
    .. "y[i] = a * b;",
}

--- It: the kernel of this text agrees with g++ and with central differences, and NVRTC takes it.
local function agrees(title, source, body)
  local later = judged.row_later(source)
  it(title .. body, function()
    local right, k, x = later(), flame.kernel(source), judged.row(N, 1)
    if right then judged.near(k(x, N):totable(), right[1], body) end
    proof.check(function(v) return k(v, N) end, { x })
    judged.compiles(k)
  end)
end

describe("a choice of two lvalues", function()
  for _, body in ipairs(rows) do
    agrees("is the one that was chosen: ", HEAD .. body .. "\n}\n", body)
  end

  -- C: a constant of file scope; T, Q: in tables; H: in a struct. e and f are folded to numbers.
  local CONSTANTS <const> = HEAD:gsub("struct M", [[
  const double C = 2.25, T[3] = { 1.5, 2.5, 3.5 }; constexpr P Q = { 0.5, 0.75 };
  struct H { static constexpr double h = 3.5; enum { E = 4 }; };
  template <int N, class S> __device__ S counted(S &a, bool c) { const S q = N, &r = c ? a : q; a += 1; return r; }
  __device__ double before(const double &a, double &b) { b += 2; return a * b; }
  __device__ double mixed(const P &a, P &b) { b.x += 2; return a.x * b.y + a.y; }
  struct M]], 1) .. "const double e = 4, f = e; "
  for _, body in ipairs {
    "const double &r = c ? a : e; a += 1; y[i] = r;",
    "const double &r = c ? e : a, &q = d ? r : b; a += 1; b *= 2; y[i] = r + q;",
    "const double &r = c ? (d ? a : e) : (d ? f : b); a += 1; b *= 2; y[i] = r;",
    "const double &r = c ? e : f; a *= 2; y[i] = r * a;",
    "const double &r = true ? a : e; a += 2; y[i] = r;",
    "const double &r = c ? a : static_cast<const double &>(e); a += 1; y[i] = r;",
    "const double &r = c ? a : static_cast<double>(e); a += 1; y[i] = r;",
    "const double &r = c ? a : +e, &q = c ? a : 4., &o = c ? a : -e; a += 1; y[i] = r * q + o;",
    "auto &r = c ? a : e; auto &&q = c ? e : b; a += 1; b *= 3; y[i] = r * q;",
    "const auto g = 4.; const double &r = c ? s[i % 3] : g; s[0] += 1; s[1] += 2; s[2] *= 3; y[i] = r;",
    "const double &r = c ? u.x : C, &q = d ? u.x : H::h; u.x += 1; y[i] = r * q;",
    "const double &r = c ? a : T[1], &q = c ? b : T[i % 3]; a += 1; b += 2; y[i] = r * q;",
    "const double &r = c ? u.x : Q.y; const P &o = c ? u : Q; u.x += 1; y[i] = r * o.sum();",
    "const double g[2] = { 2, 3 }; const double &r = c ? a : g[1]; a += 1; y[i] = r;",
    "y[i] = before(c ? a : d ? e : b, a) + b * before(c ? a : C, a) + mixed(c ? u : Q, u);",
    "y[i] = larger(c ? a : e, b) * both(c ? a : e, d ? e : b) * counted<3>(a, c);",
    "auto g = [&](const double &v) { a += 3; return v * a; }; y[i] = g(c ? a : e);",
    "auto g = [&](auto &v, auto &&w) { w += 3; return v * a; }; y[i] = g(c ? a : e, a);",
    "auto g = [&]() -> const double & { return c ? a : e; }; const double &r = g(); a += 1; y[i] = r;",
    "const double *p = c ? &a : &e, *q = &e; a += 1; y[i] = *p * *q * (p == q) + a;",
    "const double *p = &a; if (c) p = &C; a += 1; y[i] = *p;",
    "const P o = { 2, 3 }; const double *p = c ? &o.x : &b; const P &r = d ? o : u; u.x = *p; y[i] = r.sum();",
    "const int g = 3; const int &r = c ? n : g; const int &q = c ? n : H::E; n += 1; y[i] = r * a + q;",
    "const bool g = true; bool h = d; const bool &r = c ? h : g; h = !h; y[i] = r ? a : b;",
    "double o = 0; for (int k = 0; k < 3; k++) { const double &r = k % 2 ? a : e; a += 1; o += r * k; } y[i] = o;",
  } do
    agrees("may be a const variable, whose value is known: ", CONSTANTS .. body .. "\n}\n", body)
  end

  -- operator= takes its object by reference: it is read after the left side has changed it
  for _, body in ipairs {
    "P m[2] = {{1, a}, {2, b}}; m[(int)(m[1].x -= 1)] = m[1]; y[i] = m[0].sum() + 7 * m[1].sum();",
    "(((u.x += 1) > 1.5) ? u : w) = u; y[i] = u.sum() + 7 * w.sum();",
    "struct A { int n; double v[2]; }; A m[2] = {{1, {a, b}}, {1, {b, 3}}}; m[--m[1].n] = m[1]; "
      .. "y[i] = m[0].v[1] * a + m[0].n + m[0].v[0];",
  } do
    agrees("is changed by the side that it is assigned to: ", HEAD .. body .. "\n}\n", body)
  end

  for _, body in ipairs {
    "const P &r = P(u); u.x *= 2; y[i] = r.sum() * u.x;",
    "P &&r = static_cast<P>(u); u.x *= 3; r.y = x[0]; y[i] = r.sum() * u.sum();",
    "const P &r = (c ? u : w), q = P{r}; u.x *= 2; w.x *= 3; y[i] = r.x * q.x;",
    "((P)u).add(a); P(u).x; P{u}.add(b); y[i] = u.sum() + P(u).sum();",
    "struct Q : P { double z; }; Q o; o.x = a; o.y = b; o.z = 1; P &r = o; const P &q = o; P f = P(o), g{o}; "
      .. "r.x *= 2; o.y *= x[0]; y[i] = q.sum() * f.x + g.y;",
  } do
    agrees("is copied by a cast to its own type, or to that of a base: ", HEAD .. body .. "\n}\n",
      body)
  end

  -- members are assigned one after another: what the index or the choice reads is as it was before
  for _, body in ipairs {
    "double *p = c ? &u.x : &w.x; (d ? u : w) = !(*p > 0.2) ? w : u; y[i] = u.sum() + 5 * w.sum();",
    "P *p = c ? &u : &w, *q = d ? &u : &w; *p = q->x > 0.2 ? *q : P{q->y, q->x}; y[i] = u.sum() - w.y;",
    "P &r = c ? u : w; double *q = d ? &u.x : &w.y; r = P{r.y, *q}; y[i] = u.sum() + 5 * w.sum();",
    "P m[2] = {{0, a}, {1, b}}; m[(int)m[0].x] = m[1]; y[i] = m[0].sum() * m[1].sum();",
    "P m[2] = {{0, a}, {1, b}}; m[(int)m[0].x] = {m[0].y + 2, a}; y[i] = m[0].sum() * m[1].sum();",
    "P m[2] = {{0, a}, {1, b}}; P q = m[(int)m[0].x] = m[1]; y[i] = m[0].sum() * m[1].y + q.sum();",
    "struct A { int n; double v[3]; }; A m[2] = {{1, {0, a, 2}}, {0, {3, b, 5}}}; m[m[0].n - 1] = m[m[0].n]; "
      .. "y[i] = m[0].v[1] * a + m[1].v[1] + m[0].n;",
    "struct A { int n; P v; }; A m[2] = {{1, {0, a}}, {0, {3, b}}}; m[m[0].n - 1] = m[m[0].n]; "
      .. "y[i] = m[0].v.sum() * m[1].v.y + m[0].n;",
  } do
    agrees("is found before an object is assigned: ", HEAD .. body .. "\n}\n", body)
  end

  it("may be in memory of a block, and the target of an atomic", function()
    local k = flame.kernel { source = [[
__global__ void k(const double *x, double *y, int n) {
  __shared__ double one, two, s[4];
  const int i = threadIdx.x;
  if (i == 0) one = two = 0;
  if (i < 4) s[i] = x[i];
  __syncthreads();
  double &r = i % 2 ? one : two;
  atomicAdd(&r, x[i] * x[i]);
  __syncthreads();
  (i % 2 ? s[0] : one) += 0;
  atomicAdd(&(i < 4 ? y[0] : y[1]), one * x[i] + two * s[i % 4]);
}]], block = { 8 }, grid = { 1 }, shape = { 2 } }
    local x = flame.tensor({ 1, 2, 3, 4, 5, 6, 7, 8 }, { dtype = "f64" })
    assert.same({ 120 * 10 + 84 * 10, 120 * 26 + 84 * 10 }, k(x, 8):totable())
  end)

  local function refused(body)
    return helper.message(function()
      local x = judged.row(N, 1)
      return flame.kernel(HEAD .. body .. "\n}\n")(x, N):totable()
    end)
  end

  it("is refused with the line and the way out where it can not be had", function()
    if flame.default_device() ~= "cpu" then return end        -- a GPU runs the text
    for body, why in pairs {
      ["M m = { a, 1 }, o = { b, 2 }; double &r = c ? m.v : o.v; r = 1; y[i] = m.v;"] =
        "a reference to one 'double' or another.-write if %(…%) … else …",
      ["M m = { a, 1 }, o = { b, 2 }; (c ? m : o).n = 3; y[i] = m.n;"] =
        "a reference to one 'int' or",
      ["double *t2 = c ? a > 0 ? s : t : s; (d ? t2[int(b += 1)] : a) = 1; y[i] = a;"] =
        "have effects.-write if",
      ["(c ? P{a, b += 1}.x : a) = 1; y[i] = a;"] = "cannot be assigned to",
      ["double *p = s, *q = t; (c ? p : q) = t; y[i] = *p;"] = "cannot be assigned to.-write if",
      ["const double e = x[0]; (c ? a : e) = 1; y[i] = a;"] = "is const",
      ["float e = 1; double &r = c ? a : e; y[i] = r;"] = "needs a variable of its type",
    } do
      local got = refused(body)
      assert.matches(why, got)
      assert.matches("line 21", got)
    end
  end)

  it("is checked like the variable or the array that it is", function()
    if not judged.stops then return end
    assert.matches("index 3 of 's' %(3 elements%)",
      refused "double &r = i >= 0 ? s[i] : t[0]; r = 1; y[i] = s[0];")
    assert.matches("index 1 of '[ab]' %(1 element%)",
      refused "double *p = c ? &a : &b; y[i] = p[1];")
  end)
end)

describe("a reference to const that is bound to a choice", function()
  local function values(body)
    local k = flame.kernel { block = 4, shape = { 4 }, source = [[
__device__ double most(const double &a, const double &b) { return a > b ? a : b; }
__device__ double step(double &a, double *s) { a += 1; s[0] *= 3; return 0.1; }
struct P {
  double x, y;
  __device__ double into(P &o) const { o.x += 3; o.y *= 2; return x * y; }
  __device__ const double &first() const { return x; }
};
__global__ void k(const double *x, double *y) {
  int i = threadIdx.x;
  bool c = x[i] > 1.5;
  double a = x[i], b = 2 * x[i] + 1, s[2] = {a, b}, t[2] = {b, a};
  P u{x[i], 2.}, w{3., x[i]};
]] .. body .. "}" }
    local x = flame.tensor({ 1, 2, 3, 0.5 }, { dtype = "f64" }):requires_grad_()
    local y = k(x)
    return y:totable(), y:sum():gradients({ x })[x]:totable()
  end
  for body, want in pairs {
    ["const double &ca = a, &cb = b; const double &r = c ? ca : cb; a += 5; b *= 2; y[i] = r * a;"] =
      { { 36, 49, 64, 22 }, { 30, 14, 16, 26 } },
    ["const double *p = s, *q = t; const double &r = c ? p[0] : q[0]; s[0] += 5; y[i] = r;"] =
      { { 3, 7, 8, 2 }, { 2, 1, 1, 2 } },
    ["double &r = c ? a : b; const double &q = r; r += 2; y[i] = q * r;"] =
      { { 25, 16, 25, 16 }, { 20, 8, 10, 16 } },
    ["double *p = c ? s : t; const double &r = *p; s[0] += 1; y[i] = r;"] =
      { { 3, 3, 4, 2 }, { 2, 1, 1, 2 } },
    ["const double &r = c ? x[0] : x[1]; y[i] = r * r;"] = { { 4, 1, 1, 4 }, { 4, 8, 0, 0 } },
    ["auto f = [&](const double &v, double &p) { p += 2; return v * p; }; double &r = c ? a : b;"
      .. " y[i] = f(r, a) + b;"] = { { 12, 21, 32, 7 }, { 11, 10, 12, 9 } },
    ["auto g = [&](double v) { a += v; b -= 1; return v; }; y[i] = most(c ? a : b, g(x[0])) + a + b;"] =
      { { 6, 10, 14, 3.5 }, { 12, 4, 4, 3 } },
    ["y[i] = most(c ? s[0] : s[1], step(a, s)) + a;"] = { { 5, 9, 13, 3.5 }, { 3, 4, 4, 3 } },
    ["auto g = [&](double v) { a += v; return v; }; double &r = c ? a : b;"
      .. " y[i] = most(r, g(x[0])) + a;"] = { { 5, 6, 8, 3.5 }, { 9, 2, 2, 3 } },
    ["y[i] = most(c ? a : b, 2.) * 2;"] = { { 6, 4, 6, 4 }, { 4, 0, 2, 0 } },
    ["y[i] = (c ? u : w).into(u);"] = { { 3, 20, 24, 1.5 }, { 3, 4, 4, 3 } },
    ["const double &r = (c ? u : w).first(); u.x += 1; y[i] = r + u.x;"] =
      { { 5, 6, 8, 4.5 }, { 1, 2, 2, 1 } },
  } do
    it("is that variable, which may change: " .. body, function()
      local y, gradient = values(body)
      assert.same(want[1], y)
      assert.same(want[2], gradient)
    end)
  end
end)
