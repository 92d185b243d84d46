--- Structs that hold pointers, and PyTorch's accessors, as arguments of kernels, on the default
--- device. Values are compared with g++ on the same text, gradients with central differences;
--- NVRTC, if there is one, compiles the texts, and the fake driver runs them.
local flame = require "flame"
local helper = require "spec.support.helper"
local proof = dofile("spec/kernel/kernel_proof.lua")
local judged = dofile("spec/kernel/kernel_judged.lua")
local machine = dofile("spec/support/machine.lua")

local f64 <const>, N <const> = judged.f64, judged.N
local message, numbers, row, near = helper.message, judged.numbers, judged.row, judged.near
local c_array, compiles, stops = judged.array, judged.compiles, judged.stops

local PARAMS <const> = [[
  struct Box { double low, high[2]; float2 at; };
  struct Base { const double *w; };
  struct Inner { const double *w; int m; };
  struct Params : Base {
    int m; const double *__restrict__ x; Box box; double scale; Inner more;
    __device__ double both(int i) const { return x[i] * w[i]; }
    __device__ void swap() { const double *t = x; x = w; w = t; }
  };
  __device__ double first(const Params &p, int i) { return p.x[i] * p.scale; }
  __device__ double second(Params p, int i) { p.x += i; return *p.x + p.more.w[p.m - 1]; }
  __device__ double third(const double *v, int i) { return v[i] * v[0]; }
]]

local bodies <const> = {
  "y[i] = p.x[i] * p.scale + p.w[i] * p.more.w[n - 1 - i];",
  "y[i] = p.both(i) * p.box.low + p.box.high[i % 2] * p.box.at.y;",
  "y[i] = first(p, i) + second(p, i);",
  "y[i] = third(p.x, i) + third(p.more.w + 1, 0);",
  "p.x += i; y[i] = *p.x * p.x[-i]; p.scale *= 2; y[i] += p.scale * *p.w;",
  "Params q = p; q.x = q.w; y[i] = q.x[i] * p.x[i] + q.scale;",
  "const Inner &in = p.more; double s = 0; for (int j = 0; j < in.m; j++) s += in.w[j] * p.x[i]; y[i] = s;",
  "const double *t = p.x[i] > 0 ? p.x : p.w; y[i] = t[i] * t[0];",
  "for (int j = 0; j < i; j++) p.swap(); y[i] = p.x[i] * p.x[0] + p.w[i];",
  "auto f = [=](int j) { return p.x[j] * p.scale; }; y[i] = f(i) + f(0);",
  "auto f = [&](int j) { return p.both(j); }; y[i] = f(i) * f(0);",
  "double s = p.box.low; if (p.x) s += p.x[i]; if (!p.w) s = 0; y[i] = s * s;",
}

local function text_of(body)
  return PARAMS .. "__global__ void k(Params p, double *y, int n) {\n"
    .. "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n  if (i >= n) return;\n  " .. body
    .. "\n}"
end

local function params(x, w, v, scale)
  return { x = x, w = w, m = 2, scale = scale, more = { w = v, m = 3 },
    box = { low = 0.5, high = { 2, -3 }, at = { x = 1, y = 0.25 } } }
end

describe("a struct that holds pointers", function()
  for _, body in ipairs(bodies) do
    local later = judged.later(text_of(body):gsub("float2", "struct { float x, y; }"),
      { "Params{{w}, 2, x, {0.5, {2, -3}, {1, 0.25f}}, 1.5, {v, 3}}" },
      c_array("x", numbers(N, 1)) .. c_array("w", numbers(N, 2)) .. c_array("v", numbers(N, 3)))
    it("is a table of its members: " .. body, function()
      local k, right = flame.kernel(text_of(body)), later()
      local x, w, v, s = row(N, 1), row(N, 2), row(N, 3), flame.tensor({ 1.5 }, f64)
      if right then near(k(params(x, w, v, 1.5), N):totable(), right[1], body) end
      proof.check(function(...) return k(params(...), N) end, { x, w, v, s })
      compiles(k)
    end)
  end

  local saxpy <const> = [[
    template <typename T> struct Vectors { T *x, *y; T *out; int n; };
    template <typename T> __global__ void k(const Vectors<T> v, T a) {
      int i = blockIdx.x * blockDim.x + threadIdx.x;
      if (i < v.n) v.out[i] = a * v.x[i] + v.y[i];
    }]]

  it("has the outputs that the text writes, and they are made by the call", function()
    for dtype, T in pairs { f32 = "float", f64 = "double", f16 = "__half", bf16 = "__nv_bfloat16",
        i32 = "int", i64 = "long long" } do
      local k = flame.kernel { source = saxpy, entry = ("k<%s>"):format(T) }
      local x = flame.tensor({ 1, 2, 3 }, { dtype = dtype })
      local out = k({ x = x, y = x, n = 3 }, 2)
      assert.same({ 3, 6, 9 }, out:double():totable())
      assert.equal(dtype, out.dtype)
      local kept = flame.zeros(3, { dtype = dtype })
      local v = { x = x, y = x, out = kept, n = 3 }
      assert.equal(v, k:launch({ grid = 1 }, v, 3))
      assert.same({ 4, 8, 12 }, kept:double():totable())
      if x:is_floating_point() then
        x.requires_grad = true
        k({ x = x, y = x, n = 3 }, 2):sum():backward()
        assert.same({ 3, 3, 3 }, x.grad:double():totable())
      end
    end
    assert.matches("a kernel that is a template is named with its arguments",
      message(flame.kernel, saxpy))
  end)

  it("may have arrays that are read and written, no elements, and be two of them", function()
    local k = flame.kernel { inout = { "a.x" }, source = [[
      struct S { double *x; int n; };
      struct W { const double *w; };
      __global__ void k(S a, W w, S b) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < a.n) a.x[i] = a.x[i] * w.w[i] + b.x[b.n - 1 - i];
      }]] }
    local function f(x, w, b) return k({ x = x, n = N }, { w = w }, { x = b, n = N }) end
    local x, w, b = row(N, 1), row(N, 2), row(N, 3)
    proof.check(f, { x, w, b })
    local got = f(x, x, x):totable()
    for i, v in ipairs(numbers(N, 1)) do
      assert.near(v * v + numbers(N, 1)[N + 1 - i], got[i], 1e-15)
    end
    local none = flame.zeros(0, f64)
    assert.equal(0, k({ x = none, n = 0 }, { w = none }, { x = none, n = 0 }):numel())
    assert.same({ "double *a.x: inout", "int a.n: scalar", "const double *w.w: in",
      "const double *b.x: in", "int b.n: scalar" }, k:report().parameters)
  end)

  it("is checked: its members, their types, and every index", function()
    local k = flame.kernel { source = saxpy, entry = "k<float>" }
    local x = flame.ones(3)
    for want, v in pairs {
      ["k: v must be a table with v.x, got a tensor"] = x,
      ["k: v.x must be a tensor, got nil, and the kernel never asks"] = { n = 3 },
      ["k: v.y must be f32, got f64"] = { x = x, y = x:double(), n = 3 },
      ["k: v.n must be a number %(int%), got nil"] = { x = x, y = x },
      ["k: v has no member z"] = { x = x, y = x, n = 3, z = 1 },
      ["k: v has no member 1"] = { x, x, n = 3 },
      ["k: v.out is an output, which the call makes"] = { x = x, y = x, n = 3, out = x },
    } do assert.matches(want, message(k, v, 2)) end
    assert.matches("1 argument, need 2: %(v, a%)", message(k, { x = x, y = x, n = 3 }))
    if not stops then return end
    assert.matches("line 4 .*index 3 of 'v.x' %(3 elements%)",
      message(function() return k:with { shape = { 9 } }({ x = x, y = x, n = 9 }, 1):totable() end))
  end)

  it("may have nil where the text asks", function()
    local k = flame.kernel [[
      struct P { const double *x, *bias; int n; };
      __global__ void k(P p, double *y) {
        int i = threadIdx.x;
        if (i < p.n) y[i] = p.x[i] * p.x[i] + (p.bias != nullptr ? p.bias[i] : 0);
      }]]
    local x = row(N, 1)
    local function f(v) return k { x = v, n = N } end
    proof.check(f, { x })
    proof.check(function(v, b) return k { x = v, bias = b, n = N } end, { x, row(N, 2) })
    assert.equal(x[2]:item() ^ 2, f(x)[2]:item())
    assert.matches("p.x must be a tensor, got nil", message(k, { bias = x, n = N }))
  end)

  it("may have arrays of pointers: lists, with a gradient for each", function()
    local k = flame.kernel { inout = { "t.at[1]", "t.at[2]" }, block = { 32 }, source = [[
      struct Tensors { double *at[3][30]; int sizes[30]; const double *rates[2]; };
      __global__ void k(Tensors t, double decay) {
        int j = blockIdx.x;
        double *w = t.at[1][j], *m = t.at[2][j];
        for (int i = threadIdx.x; i < t.sizes[j]; i += blockDim.x) {
          m[i] = decay * m[i] + t.at[0][j][i];
          w[i] -= t.rates[j % 2][0] * m[i] * t.rates[1][0];
        }
      }]] }
    local sizes = { 3, 2, 4 }
    for j = 4, 30 do sizes[j] = 0 end
    local function f(g1, g2, g3, w1, w2, w3, m1, m2, m3, r1, r2)
      local w, m = k:with { grid = { 3 } }({
        at = { { g1, g2, g3 }, { w1, w2, w3 }, { m1, m2, m3 } }, sizes = sizes,
        rates = { r1, r2 } }, 0.5)
      return w[1], w[2], w[3], m[1], m[3]
    end
    local all = {}
    for j = 1, 9 do all[j] = row(sizes[(j - 1) % 3 + 1], j) end
    all[10], all[11] = row(1, 3), row(1, 4)
    proof.check(f, all)
    local w = f(table.unpack(all))
    local m = 0.5 * all[7][2]:item() + all[1][2]:item()
    assert.near(all[4][2]:item() - all[10]:item() * m * all[11]:item(), w[2]:item(), 1e-15)
    local many = {}
    for j = 1, 31 do many[j] = all[1] end
    local function given(at, rates)
      return message(k, { at = at, sizes = sizes, rates = rates }, 0.5)
    end
    assert.matches("'t.rates' has room for 2 arrays, the list has 3",
      given({ { all[1] }, { all[4] }, { all[7] } }, { all[1], all[1], all[1] }))
    assert.matches("t.rates must be a list of tensors, got nil",
      given { { all[1] }, { all[4] }, { all[7] } })
    assert.matches("t.at must be a table with t.at%[0%], got nil", given(nil, { all[1], all[1] }))
    if not stops then return end
    assert.matches("line 4 .*an array of the list is one of 2", message(function()
      return k:with { grid = { 3 } }({ at = { { all[1], all[2] }, { all[4], all[5] },
        { all[7], all[8] } }, sizes = sizes, rates = { all[10], all[11] } }, 0.5)[1][1]:totable()
    end))
  end)

  it("is copied with its arrays of pointers, and an entry is looked for beside others", function()
    local head = [[struct P { const double *t[3]; double a; double *y; int n; };
      __device__ double by_value(const P p, int i) { return p.t[1][i] * p.t[i & 1][i] * p.a; }
      __device__ P more(P p) { p.a += 1; return p; }
      struct H { P p; __device__ double at(int k, int i) const { return p.t[k][i]; } };
      __global__ void other(P p) { goto out; out: p.y[0] = p.t[0][0]; }
      __global__ void k(const P p) { int i = threadIdx.x; if (i >= p.n) return; double *y = p.y; ]]
    for body, want in pairs {
      ["y[i] = by_value(p, i);"] = function(s, t) return t * s * 2 end,
      ["P q = p; q = more(q); y[i] = by_value(q, i) + q.t[0][i];"] = function(s, t)
        return t * s * 3 + s
      end,
      ["H h{p}; H g = h; y[i] = g.at(i & 1, i) * g.at(1 - (i & 1), i) * h.p.a;"] = function(s, t)
        return s * t * 2
      end,
    } do
      local k = flame.kernel { source = head .. body .. "\n}", entry = "k", shape = { 2 } }
      local function f(s, t) return k { t = { s, t }, a = 2, n = 2 } end
      local s, t = row(2, 1), row(2, 2)
      assert.near(want(s[1]:item(), t[1]:item()), f(s, t)[1]:item(), 1e-14)
      proof.check(f, { s, t })
    end
    for body, why in pairs {
      ["P q; y[i] = q.t[0][i];"] = "a row of an array of pointers is chosen by a constant",
      ["P q = p; q.t[0] = q.t[1]; y[i] = q.t[0][i];"] = "the left side cannot be assigned to",
      ["P q[2]; q[0] = p; q[1] = p; y[i] = q[1].t[0][i];"] = "an array of pointers is copied from",
      ["__shared__ P q; q = p; y[i] = q.t[0][i];"] = "pointers stored in memory",
    } do
      local k = flame.kernel { source = head .. body .. "\n}", entry = "k", shape = { 2 } }
      assert.matches(why, message(k, { t = { row(2, 1), row(2, 2) }, a = 2, n = 2 }))
    end
    local two = head:gsub("const P p%) { int", "P p, P r) { int")
    local k = flame.kernel { source = two .. "P q = p; if (i) q = r; y[i] = q.t[0][i];\n}",
      entry = "k", shape = { { 2 }, { 2 } } }
    local one = { t = { row(2, 1) }, a = 2, n = 2 }
    assert.matches("an array of pointers is copied from where", message(k, one, one))
  end)

  it("may have pointers to const that the text writes after a cast", function()
    local k = flame.kernel { inout = { "p.t" }, source = [[struct P { const double *t[2]; int n; };
      __global__ void k(P p) { int i = threadIdx.x; if (i < p.n) ((double *)p.t[1])[i] = p.t[0][i] * p.t[0][i]; }]] }
    local s, t = row(N, 1), row(N, 2)
    assert.same((s * s):totable(), k({ t = { s, t }, n = N })[2]:totable())
    proof.check(function(...) local r = k { t = { ... }, n = N } return r[1], r[2] end, { s, t })
    assert.matches("'p.t' is const", message(flame.kernel, [[struct P { const double *t; };
      __global__ void k(P p) { p.t[0] = 1; }]]))
  end)

  it("is refused where it can not be taken apart, with what to do", function()
    for body, why in pairs {
      ["struct P { struct { float *x; } a[2]; int n; };"] = "'p.a' is an array of structs that "
        .. "hold pointers: write a struct of arrays",
      ["struct P { float **x; int n; };"] = "'p.x' is a pointer to pointers or a texture in a s",
    } do
      assert.matches(why, message(function()
        return flame.kernel(body .. "\n__global__ void k(P p, float *y) { y[0] = p.n; }")(
          { n = 1 })
      end))
    end
    local outside = [[struct P { float *x; int n; };
      __global__ void k(P p) { p.x[0] = clock64(); }]]
    assert.matches("a kernel with pointers in structs runs only if it is understood.*line 2.*clock",
      message(flame.kernel, outside))
    assert.matches("vjp: p.x is in a struct with pointers: its gradients are derived",
      message(flame.kernel, { source = "struct P { float *x; };\n"
        .. "__global__ void k(P p, float *y) { y[0] = p.x[0]; }", vjp = function() end }))
    assert.matches("a row of an array of pointers is chosen by a constant", message(flame.kernel(
      "struct P { float *x[2][2]; };\n__global__ void k(P p, float *y, int j) { y[0] = p.x[j][0][0]; }"),
      { x = { { flame.ones(1) }, { flame.ones(1) } } }, 0))
  end)

  it("is run for each example by vmap, and may be named in nodiff", function()
    local source = [[
      struct P { const double *x, *w; int n; };
      __global__ void k(P p, double *y) {
        int i = threadIdx.x;
        if (i < p.n) y[i] = p.x[i] * p.w[i];
      }]]
    local k, w = flame.kernel { source = source, nodiff = { "p.w" } }, row(N, 2)
    local x = flame.stack { row(N, 1), row(N, 3) }
    local y = flame.vmap(function(v) return k { x = v, w = w, n = N } end)(x)
    assert.same((x * w):totable(), y:totable())
    w.requires_grad = true
    assert.equal(false, k({ x = x[1], w = w, n = N }).requires_grad)
  end)
end)

-- ---- accessors ----------------------------------------------------------------------------------

-- What g++ gets in place of PyTorch: views with the strides of contiguous memory.
local VIEWS <const> = [[
namespace torch {
template <class T> struct RestrictPtrTraits {};
template <class T> struct DefaultPtrTraits {};
template <class T, int N, template <class> class P = DefaultPtrTraits>
struct PackedTensorAccessor32 {
  T *p; int n[N];
  T *data() const { return p; }
  int size(int d) const { return n[d]; }
  int stride(int d) const { int s = 1; for (int k = d + 1; k < N; k++) s *= n[k]; return s; }
  decltype(auto) operator[](int i) const {
    if constexpr (N == 1) return (p[i]);
    else {
      PackedTensorAccessor32<T, N - 1, P> r = { p + i * stride(0) };
      for (int k = 1; k < N; k++) r.n[k - 1] = n[k];
      return r;
    }
  }
};
}
]]

local viewing <const> = {
  [1] = { "y[i] = x[i] * x[x.size(0) - 1 - i] + x.stride(0);",
    "const double *q = x.data() + i; y[i] = *q * *q;" },
  [2] = { "y[i] = x[i % 2][i / 2] * x[1][0];",
    "auto v = x[1]; double s = 0; for (int j = 0; j < v.size(0); j++) s += v[j] * x[0][j]; y[i] = s * v[0];",
    "y[i] = x.data()[i] * x.stride(0) + x[0].data()[1] * x[1].stride(0);" },
  [3] = { "double s = 0; for (int a = 0; a < x.size(0); a++) for (int b = 0; b < x.size(1); b++) "
    .. "for (int c = 0; c < x.size(2); c++) s += x[a][b][c] * x[a][b][i % x.size(2)]; y[i] = s;",
    "const auto &m = x[1]; auto v = m[i % 2]; y[i] = v[1] * m[0][0] + v.size(0) * m.stride(0);" },
  [4] = { "y[i] = x[1][0][1][i % 2] * x[0][1][1][0] + x.stride(0) * x.stride(1) + x.stride(2);" },
  [5] = { "y[i] = x[1][0][1][i % 2][0] * x[0][1][1][0][1] + x.stride(0) + x[1].stride(0) * x.size(4);" },
}

describe("an accessor", function()
  local shapes = { { 5 }, { 2, 3 }, { 2, 2, 3 }, { 2, 2, 2, 2 }, { 2, 2, 2, 2, 2 } }
  for axes, list in ipairs(viewing) do
    for _, body in ipairs(list) do
      it(("is a tensor of %d axes: %s"):format(axes, body), function()
        local text = ([[__global__ void k(
            const torch::PackedTensorAccessor32<double, %d, torch::RestrictPtrTraits> x, double *y, int n) {
          int i = blockIdx.x * blockDim.x + threadIdx.x;
          if (i >= n) return;
          %s
        }]]):format(axes, body)
        local size = 1
        for _, n in ipairs(shapes[axes]) do size = size * n end
        local right = judged.values(VIEWS .. text, { ("{(double *)x, {%s}}"):format(
          table.concat(shapes[axes], ", ")) }, c_array("x", numbers(size, 1)))
        local x, k = row(size, 1):reshape(shapes[axes]), flame.kernel(text):with { shape = { N } }
        if right then near(k(x, N):totable(), right[1], body) end
        proof.check(function(v) return k(v, N) end, { x })
        compiles(k)
      end)
    end
  end

  local rows <const> = [[
    #include <ATen/ATen.h>
    template <typename scalar_t, typename index_t> __device__ scalar_t total(
        const at::TensorAccessor<scalar_t, 1, at::RestrictPtrTraits, index_t> row) {
      at::acc_type<scalar_t, true> s = 0;
      for (index_t j = 0; j < row.size(0); ++j) s += row[j];
      return s;
    }
    template <typename scalar_t> __global__ void k(
        NAME<scalar_t, 2, torch::RestrictPtrTraitsINDEX> x, NAME<scalar_t, 1, torch::RestrictPtrTraitsINDEX> y) {
      const int i = blockIdx.x * blockDim.x + threadIdx.x;
      if (i < x.size(0)) y[i] = total(x[i]) * x[i][0];
    }]]

  it("may be of any name, type and width of its index, and chooses the template's types", function()
    for name, index in pairs { ["torch::PackedTensorAccessor32"] = "",
        ["torch::PackedTensorAccessor64"] = "", ["at::PackedTensorAccessor"] = ", size_t",
        ["at::GenericPackedTensorAccessor"] = ", int32_t" } do
      local text = rows:gsub("NAME", name):gsub("INDEX", index)
      local k = flame.kernel { source = text, shape = function(x) return { x.shape[1] } end }
      for _, dtype in ipairs { "f64", "f32", "f16", "bf16" } do
        local x = flame.tensor({ { 1, 2, 3 }, { 2, 0, -1 } }, { dtype = dtype })
        x.requires_grad = true
        local y = k(x)
        assert.equal(dtype, y.dtype)
        assert.same({ 6, 2 }, y:double():totable())
        y:sum():backward()
        assert.same({ { 7, 1, 1 }, { 3, 2, 2 } }, x.grad:double():totable())
      end
      for _, dtype in ipairs { "i32", "i64" } do
        local x = flame.tensor({ { 1, 2, 3 }, { 2, 0, -1 } }, { dtype = dtype })
        assert.same({ 6, 2 }, k(x):totable())
      end
      compiles(k:of("f64"))
      local kept = flame.zeros(2, f64)
      k:launch({ grid = 1 }, flame.ones(2, 3, f64), kept)
      assert.same({ 3, 3 }, kept:totable())
      assert.equal(0, k(flame.zeros(0, 3)):numel())
      assert.matches("x must have 2 axes, and has the shape %(3%)", message(k, flame.zeros(3)))
      assert.matches("y must have 1 axis, and has the shape %(2, 3%)",
        message(k:with { shape = { 2, 3 } }, flame.zeros(2, 3)))
      assert.matches("x of shape %(3, 2%) is not contiguous", message(k, flame.zeros(2, 3):t()))
      assert.matches("k: x must be a tensor, got number", message(k, 3))
    end
  end)

  it("is a part of a struct, and is read and written", function()
    local k = flame.kernel { inout = { "p.x" }, source = [[
      struct P { torch::PackedTensorAccessor32<double, 2> x, w; float by; };
      __global__ void k(P p) {
        int i = blockIdx.x, j = threadIdx.x;
        if (j < p.x.size(1))
          p.x[i][j] *= p.w[j % p.w.size(0)][i % p.w.size(1)] * p.by;
      }]], grid = { 2 } }
    local x, w = row(6, 1):reshape(2, 3), row(2, 2):reshape(1, 2)
    proof.check(function(a, b) return k { x = a, w = b, by = 1 } end, { x, w })
    assert.same((x * w:t() * 2):totable(), k({ x = x, w = w, by = 2 }):totable())
    assert.matches("p.w must have 2 axes", message(k, { x = x, w = x[1], by = 1 }))
  end)

  it("has one gradient in any order of the threads where its lengths are others'", function()
    local k = flame.kernel { grid = { 2 }, source = [[
      __global__ void k(torch::PackedTensorAccessor64<double, 2> x, torch::PackedTensorAccessor64<double, 2> y) {
        int c = threadIdx.x;
        if (c < x.size(1)) { y[blockIdx.x][c] = x[blockIdx.x][c]; y[blockIdx.x][c] *= y[blockIdx.x][c]; }
      }]] }
    for _, n in ipairs { 1, 2, 3, 7 } do
      local x = row(2 * n, n):reshape(2, n)
      proof.check(k, { x })
      assert.same((x * x):totable(), k(x):totable())
    end
  end)

  it("does not turn kernels with plain pointers beside host code of PyTorch into others", function()
    local k = flame.kernel [[
      #include <torch/extension.h>
      __global__ void k(const float *x, float *y, int n) { int at = threadIdx.x; if (at < n) y[at] = 2 * x[at]; }
      torch::Tensor run(torch::Tensor x) {
        auto y = torch::empty_like(x);
        k<<<1, 32>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.numel());
        return y;
      }]]
    assert.same({ 2, 4 }, k(flame.tensor { 1, 2 }):totable())
  end)

  it("is a batch's part in vmap, one launch after the other", function()
    local k = flame.kernel { source = rows:gsub("NAME", "torch::PackedTensorAccessor32")
      :gsub("INDEX", ""), entry = "k<double>", shape = { 2 } }
    local x = row(12, 1):reshape(2, 2, 3)
    assert.same({ k(x[1]):totable(), k(x[2]):totable() }, flame.vmap(k)(x):totable())
  end)
end)

-- ---- a cell as extensions of PyTorch have it ----------------------------------------------------

local CELL <const> = [[
#include <torch/extension.h>
#include <vector>

template <typename scalar_t> __device__ __forceinline__ scalar_t squash(scalar_t z) {
  return 1.0 / (1.0 + exp(-z));
}
template <typename scalar_t> __device__ __forceinline__ scalar_t slope(scalar_t z) {
  const auto s = squash(z);
  return (1.0 - s) * s;
}

template <typename scalar_t>
__global__ void cell_forward(
    const torch::PackedTensorAccessor32<scalar_t, 3, torch::RestrictPtrTraits> gates,
    const torch::PackedTensorAccessor32<scalar_t, 2, torch::RestrictPtrTraits> old_cell,
    torch::PackedTensorAccessor32<scalar_t, 2, torch::RestrictPtrTraits> new_h,
    torch::PackedTensorAccessor32<scalar_t, 2, torch::RestrictPtrTraits> new_cell) {
  const int n = blockIdx.y;
  const int c = blockIdx.x * blockDim.x + threadIdx.x;
  if (c < gates.size(2)) {
    new_cell[n][c] = old_cell[n][c] + squash(gates[n][0][c]) * tanh(gates[n][2][c]);
    new_h[n][c] = tanh(new_cell[n][c]) * squash(gates[n][1][c]);
  }
}

template <typename scalar_t>
__global__ void cell_backward(
    torch::PackedTensorAccessor32<scalar_t, 2, torch::RestrictPtrTraits> d_old_cell,
    torch::PackedTensorAccessor32<scalar_t, 3, torch::RestrictPtrTraits> d_gates,
    const torch::PackedTensorAccessor32<scalar_t, 2, torch::RestrictPtrTraits> grad_h,
    const torch::PackedTensorAccessor32<scalar_t, 2, torch::RestrictPtrTraits> grad_cell,
    const torch::PackedTensorAccessor32<scalar_t, 2, torch::RestrictPtrTraits> new_cell,
    const torch::PackedTensorAccessor32<scalar_t, 3, torch::RestrictPtrTraits> gates) {
  const int n = blockIdx.y;
  const int c = blockIdx.x * blockDim.x + threadIdx.x;
  if (c < d_gates.size(2)) {
    const auto t = tanh(new_cell[n][c]), a = tanh(gates[n][2][c]);
    const auto d_cell = squash(gates[n][1][c]) * (1 - t * t) * grad_h[n][c] + grad_cell[n][c];
    d_old_cell[n][c] = d_cell;
    d_gates[n][0][c] = a * slope(gates[n][0][c]) * d_cell;
    d_gates[n][1][c] = t * slope(gates[n][1][c]) * grad_h[n][c];
    d_gates[n][2][c] = squash(gates[n][0][c]) * (1 - a * a) * d_cell;
  }
}

std::vector<torch::Tensor> cell(torch::Tensor gates, torch::Tensor old_cell) {
  auto new_h = torch::zeros_like(old_cell);
  AT_DISPATCH_FLOATING_TYPES(gates.type(), "cell", ([&] {
    cell_forward<scalar_t><<<1, 1024>>>(gates.packed_accessor32<scalar_t, 3, torch::RestrictPtrTraits>());
  }));
  return { new_h };
}
]]

describe("a cell of an extension of PyTorch", function()
  local function size_of(gates) return { gates.shape[1], gates.shape[3] } end
  local function grid_of(gates) return { 1, gates.shape[1] } end
  local forward = flame.kernel { source = CELL, entry = "cell_forward", shape = size_of,
    grid = grid_of }
  local backward = flame.kernel { source = CELL, entry = "cell_backward",
    inout = { "d_old_cell", "d_gates" }, grid = function(d) return { 1, d.shape[1] } end }

  it("has the gradient that its backward kernel computes, and one of that", function()
    local gates, old = row(18, 1):reshape(2, 3, 3), row(6, 2):reshape(2, 3)
    proof.check(forward, { gates, old })
    gates.requires_grad, old.requires_grad = true, true
    local h, cell = forward(gates, old)
    local gh, gc = row(6, 3):reshape(2, 3), row(6, 4):reshape(2, 3)
    local g = (h * gh + cell * gc):sum():gradients({ gates, old })
    local none = flame.zeros_like
    local d_old, d_gates = backward(none(old), none(gates), gh, gc, cell:detach(), gates:detach())
    assert.near(0, (d_old - g[old]):abs():max():item(), 1e-14)
    assert.near(0, (d_gates - g[gates]):abs():max():item(), 1e-14)
    local i, o, a = gates:select(2, 1):sigmoid(), gates:select(2, 2):sigmoid(),
      gates:select(2, 3):tanh()
    assert.near(0, ((old + i * a):tanh() * o - h):abs():max():item(), 1e-14)
    proof.check(function(x, y, z, w)
      return backward(none(z):detach(), none(w):detach(), x, y, z, w)
    end, { gh, gc, cell:detach(), gates:detach() })
    compiles(forward:of("f64"))
    compiles(backward:of("f64"))
  end)

  it("computes on a GPU what the CPU does", function()
    if not os.execute("g++ --version >/dev/null 2>&1") then return pending "no g++" end
    local folder = machine.new()
    local said = machine.run(folder, "local CELL = [==[" .. CELL .. "]==]\n" .. [[
      local k = flame.kernel { source = CELL, entry = "cell_forward", grid = { 1, 2 },
        shape = { 2, 3 } }
      local list = flame.kernel { inout = { "t.at[1]" }, grid = { 2 }, source = [=[
        struct Tensors { float *at[2][8]; int n[8]; double by; };
        __global__ void list(Tensors t) {
          int j = blockIdx.x, i = threadIdx.x;
          if (i < t.n[j]) t.at[1][j][i] += t.by * t.at[0][j][i] * t.at[0][j][i];
        }]=] }
      local said = {}
      for _, device in ipairs { "cpu", "cuda" } do
        local g = ((flame.arange(18.0) * 0.7):sin():reshape(2, 3, 3):to(device))
        local c = g:sum(2)
        g.requires_grad, c.requires_grad = true, true
        local h, cell = k(g, c)
        local loss = (h + cell * cell):sum()
        loss:backward()
        local x, y = g[1][1]:detach(), g[2][1]:detach():contiguous()
        x.requires_grad = true
        local out = list { at = { { x, y }, { y, x:detach() } }, n = { 3, 2, 0, 0, 0, 0, 0, 0 },
          by = 0.5 }
        out[1]:sum():backward()
        local all = flame.cat({ h:flatten(), cell:flatten(), g.grad:flatten(), c.grad:flatten(),
          out[1], out[2], x.grad })
        said[#said + 1] = all:to("cpu"):detach()
      end
      print((said[1] - said[2]):abs():max():item() < 1e-6, said[1]:numel())
    ]], ("FAKE_CUDA=\"computes=1 tell=1\" FLAME_CACHE_DIR=%s/cache TMPDIR=%s"):format(folder,
      folder))
    machine.remove(folder)
    assert.matches("true%s+45", said)
  end)
end)
