--- Kernels with pointer parameters that may be nil, and with very many parameters. Values are
--- compared with g++ on the same text, gradients with central differences; NVRTC compiles the texts
--- where there is one. Runs on the default device.
local flame = require "flame"
local helper = require "spec.support.helper"
local proof = dofile("spec/kernel/kernel_proof.lua")
local judged = dofile("spec/kernel/kernel_judged.lua")
local internal = flame.internal

local f64 <const>, N <const> = judged.f64, judged.N
local message, numbers, row, near = helper.message, judged.numbers, judged.row, judged.near
local c_array, compiles, stops = judged.array, judged.compiles, judged.stops

-- ---- nil ----------------------------------------------------------------------------------------

local BEFORE <const> = [[
  __device__ double at(const double *p, int i, double other) { return p ? p[i] : other; }
  template <typename P> __device__ double first(P p, int i) { if (p == nullptr) return 2.; return p[i]; }
  __device__ bool is(const double *p) { return p; }
  __device__ double either(bool first, double one, double other) { return first ? one : other; }
  struct Asked { bool has; __device__ Asked(const double *p) : has(p) {} };
  struct View {
    const double *p; int n;
    __device__ double at(int i) const { return p != nullptr ? p[i % n] : 3.; }
  };
  struct Rows {
    const double *p;
    __device__ Rows(const double *q) : p(q) {}
    __device__ bool some() const { return p != nullptr; }
    __device__ double operator[](int i) const { return p[i]; }
  };
]]

local asked <const> = {
  "double v = x[i] * x[i]; if (b) v += b[i] * x[i]; if (c != nullptr) v *= c[i]; y[i] = v;",
  "y[i] = (b ? b[i] : 0.) + (c ? c[i] * x[i] : x[i]);",
  "const double *q = c; if (q) y[i] = q[i]; if (b == nullptr) y[i] += x[i]; else y[i] += *(b + i);",
  "const double *r = b + i; if (b) y[i] = *r * x[i]; if (nullptr != c) y[i] -= c[0] * c[i];",
  "if (!b) { y[i] = sin(x[i]); return; } y[i] = b[i] * x[i] + (c && i > 0 ? c[i - 1] : 0.);",
  "y[i] = at(b, i, 1.) * x[i] + at(c, i, x[i]);",
  "y[i] = first(b, i) * x[i] - first(c, i);",
  "View v{b, n}, w = {c, n}; y[i] = v.at(i + 1) * w.at(i) + x[i];",
  "Rows r(b), s(c); y[i] = x[i]; if (r.some()) y[i] += r[i] * x[i]; if (s.some()) y[i] *= s[i];",
  "auto f = [=](int j) { return b ? b[j] * x[j] : x[j]; }; y[i] = f(i) * (c ? c[i] : 1.);",
  "const double *p = nullptr; if (b) p = b; if (p) y[i] = p[i]; y[i] += c ? c[i] : x[i];",
  "double s = 0; for (int j = 0; j < n; ++j) { if (c) s += c[j] * x[j]; if (b && j < i) s += b[j]; } y[i] = s;",
  "double s = 1; if (b) for (const double *p = b; p < b + n; ++p) s += *p * x[i]; y[i] = c ? s * c[i] : s;",
  "const double *p = b ? b : x; y[i] = p[i] * x[i]; if (c) y[i] += c[i];",
  "const double *p = b ? b + i : nullptr; y[i] = p ? *p : x[i]; y[i] += p && c ? *p * c[i] : 0.;",
  "bool has = b != 0, both = b && c; y[i] = has ? x[i] * b[i] : x[i]; if (both) y[i] += b[i] * c[i];",
  "bool has = b; const bool other(c); y[i] = has ? b[i] * x[i] : x[i]; if (other && has) y[i] += c[i];",
  "bool h[2] = {false, true}; h[0] = b; h[1] = c; y[i] = x[i]; if (h[0]) y[i] += b[i] * x[i]; if (h[1]) y[i] -= c[i];",
  "bool h{c}; y[i] = is(b) ? x[i] * b[i] : x[i]; Asked a(c); if (a.has == h && h) y[i] *= c[i];",
  "y[i] = x[i] * either(b, 2., 3.); auto f = [](bool g) { return g ? 1. : -1.; }; y[i] += f(c) * x[i];",
  "switch ((b ? 1 : 0) + (c ? 2 : 0)) { case 0: y[i] = x[i]; break; case 1: y[i] = b[i]; break;"
    .. " case 2: y[i] = c[i] * x[i]; break; default: y[i] = b[i] * c[i]; }",
  "if (b) { b += i; y[i] = b[0]; } else y[i] = x[i]; if (c) { c += n - 1; y[i] += c[-i]; }",
  "int k = 0; if (c) for (const double *p = c; p != c + n; ++p) k += *p > 0; y[i] = k + (b ? b[i] : x[i]);",
}

local function asking(body)
  return BEFORE .. "__global__ void k(const double *x, const double *b, const double *c, double *y, "
    .. "int n) {\n  int i = blockIdx.x * blockDim.x + threadIdx.x;\n  if (i >= n) return;\n  "
    .. body .. "\n}"
end

--- Calls f(text, b, c) for each choice of nil arguments; text: which of b and c are nil, as "b=0,".
local function each_nils(f)
  for bits = 0, 3 do
    local no_b, no_c = bits & 1 > 0, bits & 2 > 0
    f((no_b and "b=0," or "") .. (no_c and "c=0," or ""), not no_b and row(N, 1) or nil,
      not no_c and row(N, 2) or nil)
  end
end

describe("nil for a pointer", function()
  for _, body in ipairs(asked) do
    local later = judged.later(asking(body), { "x, b, c", "x, nullptr, c", "x, b, nullptr",
      "x, nullptr, nullptr" }, c_array("x", numbers(N, 0)) .. c_array("b", numbers(N, 1))
      .. c_array("c", numbers(N, 2)))
    it("is a null pointer: " .. body, function()
      local k, x, at = flame.kernel(asking(body)), row(N, 0), 0
      local right = later()
      each_nils(function(forms, b, c)
        at = at + 1
        if right then near(k(x, b, c):totable(), right[at], body .. forms) end
        local inputs = { x, b }
        inputs[#inputs + 1] = c
        proof.check(function(...)
          local given, n = { ... }, 1
          local function next_one(of)
            n = of and n + 1 or n
            return of and given[n]
          end
          return k(given[1], next_one(b) or nil, next_one(c) or nil)
        end, inputs)
        compiles(forms == "" and k or internal.kernel_formed(k, forms))
      end)
    end)
  end
end)

local function of_two(body, more)
  local how = { source = asking(body) }
  for name, v in pairs(more or {}) do how[name] = v end
  return flame.kernel(how)
end

local SIMPLE <const> = "double v = x[i]; if (b) v += b[i] * x[i]; if (c) v *= c[i]; y[i] = v;"

describe("a call with nil", function()
  it("tells why the text is refused, where it is", function()
    local ok, k = pcall(flame.kernel, asking("goto end; end: y[i] = b ? 1 : 2;"))
    if ok then assert.matches("line %d+.*goto", message(k, row(N, 1), nil, nil, N)) end
  end)

  it("is refused where the text never asks", function()
    local k = of_two "y[i] = x[i] + b[i] + (c ? c[i] : 0.);"
    local x = row(N, 0)
    assert.matches("b must be a tensor, got nil, and the kernel never asks whether it is null",
      message(k, x, nil, x))
    assert.matches("x must be a tensor, got nil, and the kernel never asks", message(k, nil, x, x))
    assert.same(k(x, x, nil):totable(), (x + x):totable())
    assert.matches("2 arguments, need 3 or 4", message(k, x, x))
    assert.matches("n must be a number", message(k, x, x, x, nil))
  end)

  it("stops the thread that follows the pointer, with the line", function()
    if not stops then return end
    local x = row(N, 0)
    local k = of_two "y[i] = b || i == 3 ? x[i] * b[i] : x[i];"
    assert.matches("line 19.*a pointer that is followed is not null.*thread %(3, 0, 0%)",
      message(function() return k(x, nil, x):totable() end))
    near(k(x, x, x):totable(), (x * x):totable(), "given")
    assert.matches("c must be a tensor", message(k, x, nil, nil))
  end)

  it("tells a null pointer that is asked after it was moved", function()
    if not stops then return end
    local k, x = of_two "const double *r = b + i; y[i] = r ? *r : x[i];", row(N, 0)
    assert.matches("a null pointer is not moved.*thread %(1, 0, 0%)",
      message(function() return k(x, nil, x):totable() end))
    near(k(x, x, x):totable(), x:totable(), "given")
  end)

  it("is refused with the line where the pointer is set to another array", function()
    if flame.default_device() ~= "cpu" then return end      -- a GPU runs the text
    local k, x = of_two "if (!b) b = x; y[i] = b[i];", row(N, 0)
    near(k(x, x, x):totable(), x:totable(), "given")
    assert.matches("line 19", message(function() return k(x, nil, x):totable() end))
  end)

  it("has results of inout pointers, nil for one that is nil", function()
    local k = flame.kernel { inout = { "a", "b" }, source = [[
      __global__ void k(double *a, const double *x, double *b, double *y, int n) {
        int i = threadIdx.x;
        if (i >= n) return;
        if (a) a[i] += x[i] * x[i];
        if (b) b[i] *= x[i];
        y[i] = (a ? a[i] : 1.) * (b ? b[i] : 1.);
      }]] }
    local a, x, b = row(N, 1), row(N, 0), row(N, 2)
    local na, nb, ny = k(nil, x, b)
    assert.equal(nil, na)
    near(nb:totable(), (b * x):totable(), "b")
    near(ny:totable(), (b * x):totable(), "y")
    na, nb, ny = k(a, x, nil)
    assert.equal(nil, nb)
    near(na:totable(), (a + x * x):totable(), "a")
    near(ny:totable(), (a + x * x):totable(), "y")
    assert.equal(3, select("#", k(nil, x, nil)))
    proof.check(function(v, w) return select(2, k(nil, v, w)) end, { x, b })
    proof.check(function(v, w) local p, _, q = k(v, w, nil) return p, q end, { a, x })
  end)

  it("of a plain launch may leave out outputs", function()
    local k = flame.kernel [[
      __global__ void k(const double *x, double *y, double *z, int n) {
        int i = threadIdx.x;
        if (i >= n) return;
        if (y != nullptr) y[i] = 2 * x[i];
        if (z != nullptr) z[i] = 3 * x[i];
      }]]
    local x, y, z = row(N, 0), flame.zeros(N, f64), flame.zeros(N, f64)
    local how = { grid = { 1 }, block = { 8 } }
    assert.equal(z, k:launch(how, x, nil, z, N))
    assert.equal(y, k:launch(how, x, y, nil, N))
    near(y:totable(), (x * 2):totable(), "y")
    near(z:totable(), (x * 3):totable(), "z")
    assert.matches("no parameter is written",
      message(function() k:launch(how, x, nil, nil, N) end))
    assert.matches("x must be a tensor, got nil",
      message(function() k:launch(how, nil, y, z, N) end))
  end)

  it("goes with other geometries, shape functions, constants, blocks and choices", function()
    local text = "__constant__ double by[1];\n"
      .. asking(SIMPLE):gsub("y%[i%] = v", "y[i] = v * by[0]")
    local seen = 0
    local k = flame.kernel { source = text, block = "auto", shape = function(x, b)
      seen = seen + (b == nil and 1 or 0)
      return x.shape
    end }
    local x, c = row(N, 0), row(N, 2)
    k:constant("by", 2)
    near(k(x, nil, c):totable(), (x * c * 2):totable(), "two")
    k:constant("by", 3)
    near(k(x, nil, c):totable(), (x * c * 3):totable(), "three")
    near(k:with { block = { 32 } }(x, nil, c):totable(), (x * c * 3):totable(), "with")
    near(k:tune({ 32, 64 }, x, nil, c)(x, nil, c):totable(), (x * c * 3):totable(), "tuned")
    assert.is_true(seen >= 3)
  end)

  it("chooses a template by the tensors that there are", function()
    local k = flame.kernel [[
      template <typename T> __global__ void k(const T *b, const T *x, T *y, int n) {
        int i = threadIdx.x;
        if (i < n) y[i] = b ? b[i] * x[i] : x[i] + T(1);
      }]]
    local x = flame.tensor({ 1, 2 }, { dtype = "i32" })
    assert.same({ 2, 3 }, k(nil, x):totable())
    assert.same({ 1, 4 }, k(x, x):totable())
    assert.same({ 2, 3 }, k(nil, x:half()):totable())
    assert.matches("b must be a tensor", message(k, nil, nil))
  end)

  it("is one launch of a batch", function()
    local k = of_two(SIMPLE)
    local x, c = row(3 * N, 0):reshape(3, N), row(N, 2)
    local f = flame.vmap(function(v, w) return k(v, nil, w) end, { 1, false })
    near(f(x, c):flatten():totable(), (x * c):flatten():totable(), "batch")
    proof.check(f, { x, c })
  end)

  it("goes to the script's own gradient, which has nil in its place", function()
    local got
    local k = of_two(SIMPLE, { vjp = function(g, x, b, c, n)
      got = { b, n }
      return g * (c or 1), nil, c and g * x
    end })
    local x, c = row(N, 0):requires_grad_(true), row(N, 2)
    k(x, nil, c):sum():backward()
    near(x.grad:totable(), c:totable(), "by x")
    assert.equal(nil, got[1])
    assert.equal(N, got[2])
    local by_text = of_two(SIMPLE, { vjp = [[
      __global__ void back(const double *x, const double *b, const double *c, int n, const double *g, double *dx) {
        dx[threadIdx.x] = 1;
      }]] })
    assert.matches("parameter 2, b, does not fit",
      message(function() by_text(x, nil, c):sum():backward() end))
  end)

  it("reads the text once for each set of nils", function()
    local k = of_two(SIMPLE)
    local x = row(N, 0)
    k(x, nil, x)
    local first = internal.kernel_info(k).config.formed["b=0,"]
    k(x, nil, x)
    k:with { block = { 32 } }(x, nil, x)
    assert.equal(first, internal.kernel_info(k).config.formed["b=0,"])
    assert.equal(nil, internal.kernel_info(k).config.formed["c=0,"])
  end)
end)

-- ---- other ways to run --------------------------------------------------------------------------

describe("a kernel with nil", function()
  it("is saved with a program as it runs", function()
    local k, x, path = of_two(SIMPLE), row(N, 0), os.tmpname()
    flame.export(path, function(v) return k(v, nil, v) end, { x })
    local f = flame.program(path)
    near(f(x):totable(), (x * x):totable(), "program")
    os.remove(path)
  end)

  it("counts as an op in a rehearsal, under replay, in a graph of changing nils", function()
    local k, c = of_two(SIMPLE), row(N, 2)
    for round = 1, 12 do
      local x = row(N, round):requires_grad_(true)
      local b = round % 3 == 0 and row(N, 1) or nil
      k(x, b, c):sum():backward()
      local want = b and c * (b + 1) or c
      near(x.grad:totable(), want:totable(), "round " .. round)
    end
  end)
end)

-- ---- many parameters ----------------------------------------------------------------------------

--- A kernel with n pointers, y[i] = sum of k * xk[i] * x(k+1)[i] over k (x1 follows xn); its xs.
local function many(n, count)
  local formals, body, xs = {}, {}, {}
  for i = 1, n do
    formals[i] = ("const double *x%d"):format(i)
    body[i] = ("  s += %d * x%d[i] * x%d[i];"):format(i, i, i % n + 1)
    xs[i] = row(count or 2, i)
  end
  return flame.kernel("__global__ void k(" .. table.concat(formals, ", ")
    .. ", double *y, int n) {\n  int i = threadIdx.x;\n  if (i >= n) return;\n  double s = 0;\n"
    .. table.concat(body, "\n") .. "\n  y[i] = s;\n}"), xs
end

local function sum_of(xs)
  local s = 0
  for i, x in ipairs(xs) do s = s + i * x * xs[i % #xs + 1] end
  return s
end

describe("a kernel of many pointers", function()
  for _, n in ipairs { 22, 30, 43, 62 } do
    it("has its gradients: " .. n, function()
      local k, xs = many(n)
      near(k(table.unpack(xs)):totable(), sum_of(xs):totable(), "value")
      for _, x in ipairs(xs) do x.requires_grad = true end
      local got = k(table.unpack(xs)):sum():gradients(xs)
      local want = sum_of(xs):sum():gradients(xs)
      for _, x in ipairs(xs) do near(got[x]:totable(), want[x]:totable(), "gradient") end
      compiles(k)
    end)
  end

  it("has tangents and second derivatives", function()
    local k, xs = many(30)
    local forward, reverse = proof.both_modes(k, xs)
    assert(math.abs(forward - reverse) < 1e-9 * math.abs(forward))
    for _, x in ipairs(xs) do x.requires_grad = true end
    local g = k(table.unpack(xs)):sum():gradients({ xs[30] }, { create_graph = true })[xs[30]]
    near(g:sum():gradients({ xs[1] })[xs[1]]:totable(), { 30, 30 }, "second")
  end)

  it("is a batch up to 64 of them, and separate launches beyond", function()
    for _, n in ipairs { 60, 70, 90 } do
      local k, xs = many(n, 6)
      local axes = {}
      for i, x in ipairs(xs) do xs[i], axes[i] = x:reshape(3, 2), 1 end
      axes[n] = false
      xs[n] = xs[n][1]:clone()
      near(flame.vmap(k, axes)(table.unpack(xs)):flatten():totable(),
        sum_of(xs):flatten():totable(), "batch of " .. n)
    end
  end)

  it("is refused with its number where they are too many", function()
    assert.matches("'k' has 129 parameters, at most 128", message(many, 127))
    local k, xs = many(94)
    near(k(table.unpack(xs)):totable(), sum_of(xs):totable(), "value")
    for _, x in ipairs(xs) do x.requires_grad = true end
    assert.matches("'k_vjp' has %d+ parameters, at most 128",
      message(function() k(table.unpack(xs)):sum():backward() end))
    k, xs = many(97)
    assert.matches("more than 96 tensors", message(k, table.unpack(xs)))
  end)

  it("are no references, which CUDA does not pass", function()
    for _, a in ipairs { "const float &a", "float &a", "float &&a" } do
      local text = ("\n__global__ void k(float *y,\n%s) { y[threadIdx.x] = 1; }"):format(a)
      assert.matches("'k', line 3 .-: parameter a: .*takes no references", message(flame.kernel,
        { source = text, grid = { 1 }, block = { 2 }, shape = { 2 } }))
    end
  end)
end)

-- ---- shapes of outputs --------------------------------------------------------------------------

describe("outputs of several shapes", function()
  local text <const> = [[
    template <typename T> __global__ void sums(const T *x, T *rows, T *all, T *bins, int w, int h) {
      const int r = threadIdx.x;
      if (r < h) {
        T s = 0;
        for (int c = 0; c < w; ++c) s += x[r * w + c] * x[r * w + c];
        rows[r] = s;
        atomicAdd(bins + r % 2, s * T(0.5));
      }
      if (r == 0) all[0] = x[0] * T(3);
    }
  ]]

  it("have them from a list, or from a function, with gradients of all", function()
    local k = flame.kernel { source = text, entry = "sums<double>", inout = { "bins" },
      block = { 32 }, grid = { 1 } }
    local function of_call(_, _, w, h) return { { h }, w == 2 and {} or { 1 } } end
    for _, shape in ipairs { { { 3 }, {} }, of_call } do
      local x = (flame.arange(0, 5):double() - 2):reshape(3, 2):requires_grad_()
      local bins = flame.zeros({ 1, 2 }, { dtype = "f64" })
      local rows, all, binned = k:with { shape = shape } (x, bins, 2, 3)
      assert.same({ { 3 }, {}, { 1, 2 } }, { rows.shape, all.shape, binned.shape })
      assert.same({ 5, 1, 13 }, rows:totable())
      assert.equal(-6, all:item())
      assert.same({ { 9, 0.5 } }, binned:totable())
      local g = (rows * flame.tensor({ 1, 10, 100 }, f64)):sum() + all * 7 + binned:sum()
      assert.same({ { -4 + 21 - 2, -2 - 1 }, { 0, 20 + 1 }, { 400 + 2, 600 + 3 } },
        g:gradients({ x })[x]:totable())
    end
  end)

  it("have them where the type is chosen by the call, and in a batch", function()
    local k = flame.kernel { source = [[
      template <typename T> __global__ void two(const T *x, T *y, T *z) {
        y[threadIdx.x] = x[threadIdx.x] * T(2);
        if (threadIdx.x == 0) z[0] = x[1];
      }
    ]], block = { 2 }, grid = { 1 }, shape = { { 2 }, { 1, 1 } } }
    for _, dtype in ipairs { "f32", "i32" } do
      local y, z = k(flame.tensor({ 3, 4 }, { dtype = dtype }))
      assert.same({ { 6, 8 }, { { 4 } } }, { y:totable(), z:totable() })
      assert.equal(dtype, z.dtype)
    end
    local batch = flame.tensor { { 1, 2 }, { 3, 4 } }
    local y, z = flame.vmap(function(x) return k:of "f32" (x) end)(batch)
    assert.same({ { { 2, 4 }, { 6, 8 } }, { { { 2 } }, { { 4 } } } }, { y:totable(), z:totable() })
  end)

  it("are as many as the shapes", function()
    local k = flame.kernel { source = text, entry = "sums<double>", block = { 32 }, grid = { 1 } }
    local x = flame.zeros({ 3, 2 }, f64)
    for shape, said in pairs {
      [{ { 3 }, {} }] = "sums: shape has 2 lists, and there are more outputs: give one for each",
      [{ { 3 }, {}, { 2 }, { 1 } }] = "sums: shape has 4 lists, and there are 3 outputs that are no argument",
    } do
      helper.raises(said, function() k:with { shape = shape } (x, 2, 3) end)
      helper.raises(said, function() k:with { shape = function() return shape end } (x, 2, 3) end)
    end
    helper.raises("shape 2 of the outputs is a number, need a list of sizes as for the first",
      function() k:with { shape = { { 3 }, 4 } } end)
    helper.raises("size -1 of axis 1 is negative",
      function() k:with { shape = { { -1 }, {}, {} } } end)
    local list = { { 3 }, {}, { 1, 2 } }
    local kept = k:with { shape = list }
    list[2], list[3] = nil, nil                      -- the kernel has a copy
    assert.equal(3, kept(x, 2, 3):numel())
  end)
end)
