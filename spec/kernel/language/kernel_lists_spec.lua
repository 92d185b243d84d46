--- Lists of tensors as arguments of kernels, on the default device. Values are compared with g++ on
--- the same text, gradients with central differences; NVRTC, if there is one, compiles the texts.
local flame = require "flame"
local helper = require "spec.support.helper"
local proof = dofile("spec/kernel/kernel_proof.lua")
local judged = dofile("spec/kernel/kernel_judged.lua")
local internal = flame.internal

local f64 <const>, N <const> = judged.f64, judged.N
local message, numbers, row, near = helper.message, judged.numbers, judged.row, judged.near
local c_array, compiles, stops = judged.array, judged.compiles, judged.stops

local IN_LISTS <const> = [[
  __device__ double pick(const double *const *p, int j, int i) { return p[j][i]; }
  __device__ double twice(const double *p, int i) { return 2 * p[i]; }
  struct Set {
    const double *const *p; int m;
    __device__ double total(int i) const { double s = 0; for (int j = 0; j < m; ++j) s += p[j][i]; return s; }
  };
]]

local listed <const> = {
  "y[i] = xs[0][i] * xs[1][i] + w[i] * xs[2][i];",
  "double s = 0; for (int j = 0; j < m; ++j) s += xs[j][i] * xs[j][i] * w[j]; y[i] = s;",
  "const double *p = xs[i % m]; y[i] = p[i] * p[0] + w[i];",
  "y[i] = pick(xs, 1, i) * pick(xs, i % 3, n - 1 - i);",
  "double s = 0; for (int j = 0; j < m; ++j) { const double *p = xs[j] + i; s += *p * w[j] + p[-i]; } y[i] = s;",
  "y[i] = twice(xs[(i + 1) % m], i) + **xs * (*(xs + 2))[i];",
  "int j = w[i] > 0 ? 2 : 0; y[i] = xs[j][i] * xs[m - 1 - j][i];",
  "auto f = [=](int j) { return xs[j][i] * w[i]; }; y[i] = f(0) + f(1) * f(2);",
  "Set s = {xs, m}; y[i] = s.total(i) * w[i];",
  "double best = -1e9; for (int j = 0; j < m; j++) if (xs[j][i] > best) best = xs[j][i]; y[i] = best * best;",
  "double r = w[i]; for (int j = m - 1; j >= 0; --j) r = r * xs[j][i] + 1; y[i] = r;",
  "const double *const *p = xs; y[i] = p[1][i];",
}

local function listing(body)
  return IN_LISTS .. "__global__ void k(const double *const *xs, const double *w, double *y, "
    .. "int m, int n) {\n  int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
    .. "  if (i >= n) return;\n  " .. body .. "\n}"
end

describe("a list of tensors", function()
  for _, body in ipairs(listed) do
    it("is a list of arrays: " .. body, function()
      local k = flame.kernel(listing(body))
      local a, b, c, w = row(N, 1), row(N, 2), row(N, 3), row(N, 4)
      local text = listing(body):gsub("double %*y, int m, int n", "int m, double *y, int n")
      local right = judged.values(text, { "xs, w, 3" },
        c_array("a", numbers(N, 1)) .. c_array("b", numbers(N, 2))
        .. c_array("c", numbers(N, 3)) .. c_array("w", numbers(N, 4))
        .. "const double *const xs[] = {a, b, c};\n")
      if body:find("*p = xs;", 1, true) then
        assert.matches("line 10.*pointers to pointers", message(k, { a, b, c }, w, 3, N))
        return
      end
      if right then near(k({ a, b, c }, w, 3, N):totable(), right[1], body) end
      proof.check(function(u, v, t, s) return k({ u, v, t }, s, 3, N) end, { a, b, c, w })
      compiles(internal.kernel_formed(k, "xs=3,"))
    end)
  end

  local SUM <const> = "double s = 0; for (int j = 0; j < m; ++j) s += xs[j][i] * (j + 1); y[i] = s;"

  it("may have any length up to 64, and has a gradient for each", function()
    local k = flame.kernel(listing(SUM))
    for _, m in ipairs { 1, 2, 17, 40, 64 } do
      local xs, want = {}, 0
      for j = 1, m do
        xs[j] = row(2, j)
        want = want + xs[j] * j
      end
      near(k(xs, xs[1], m, 2):totable(), want:totable(), "length " .. m)
      if m <= 40 then
        for _, x in ipairs(xs) do x.requires_grad = true end
        local g = k(xs, xs[1], m, 2):sum():gradients(xs)
        for j, x in ipairs(xs) do assert.same({ j, j }, g[x]:totable()) end
      end
    end
    local xs = {}
    for j = 1, 65 do xs[j] = row(2, j) end
    assert.matches("xs is a list of 65 tensors, need 1 to 64", message(k, xs, xs[1], 65, 2))
    assert.matches("xs is a list of 0 tensors", message(k, {}, xs[1], 0, 2))
    assert.matches("xs must be a list of tensors, got a tensor", message(k, xs[1], xs[1], 1, 2))
    assert.matches("xs must be a list of tensors, got nil", message(k, nil, xs[1], 1, 2))
    assert.matches("xs%[1%] must be a tensor", message(k, { xs[1], 3 }, xs[1], 2, 2))
    assert.matches("xs%[1%] must be f64, got f32",
      message(k, { xs[1], xs[2]:float() }, xs[1], 2, 2))
    assert.matches("3 arguments, need 4", message(k, { xs[1] }, xs[1], 2))
    xs[65] = nil
    for _, x in ipairs(xs) do x.requires_grad = true end
    assert.matches("'k_vjp' has %d+ parameters, at most 128",
      message(function() k(xs, row(2, 1), 64, 2):sum():backward() end))
  end)

  it("has its bounds: an index of an array, and the number of an array", function()
    if not stops then return end
    local a, b = row(N, 1), row(2, 2)
    assert.matches("line 10 .*index 2 of 'xs%[1%]' %(2 elements%) by thread %(2, 0, 0%)",
      message(function()
        return flame.kernel(listing(SUM)):with { shape = { N } }({ a, b }, a, 2, N):totable()
      end))
    for _, m in ipairs { 3, 1000000 } do
      assert.matches("line 10 .*an array of the list is one of 2%) failed in thread %(0, 0, 0%)",
        message(function() return flame.kernel(listing(SUM))({ a, a }, a, m, N):totable() end))
    end
    assert.matches("line 10 .*array 2 of a list of 2",
      message(flame.kernel(listing "y[i] = xs[2][i];"), { a, a }, a, 2, N))
    assert.matches("line 10 .*array %-1 of a list of 2",
      message(flame.kernel(listing "y[i] = xs[-1][i];"), { a, a }, a, 2, N))
  end)

  it("may have one tensor twice, and the sum of its gradients", function()
    local k, a = flame.kernel(listing(SUM)), row(N, 1)
    a.requires_grad = true
    k({ a, a, a }, a, 3, N):sum():backward()
    assert.same({ 6, 6, 6, 6, 6 }, a.grad:totable())
  end)

  it("is never a stale address: each round has new tensors", function()
    local k, kept = flame.kernel(listing(SUM)), {}
    for round = 1, 12 do
      local a, b = row(N, round), row(N, -round)
      kept[round % 5] = { a, b }
      local y = k({ a * 2, round % 4 == 0 and a or b }, a, 2, N)
      near(y:totable(), (a * 2 + 2 * (round % 4 == 0 and a or b)):totable(), "round " .. round)
    end
  end)

  it("sees its tensors as they were at the call", function()
    local k, a, b = flame.kernel(listing(SUM)), row(N, 1), row(N, 2)
    local y, want = k({ a, b }, a, 2, N), (a + 2 * b):totable()
    a:fill_(7)
    near(y:totable(), want, "before the write")
    near(k({ a, b }, a, 2, N):totable(), (b * 2 + 7):totable(), "after it")
  end)

  it("may be written, in inout and by a plain launch", function()
    local k = flame.kernel { inout = { "outs" }, source = [[
      __global__ void k(double *const *outs, const double **xs, double *last, int m, int n) {
        int i = threadIdx.x;
        if (i >= n) return;
        for (int j = 0; j < m; ++j) outs[j][i] += xs[j][i] * xs[j][i];
        last[i] = outs[m - 1][i];
      }]] }
    local a, b, c, d = row(N, 1), row(N, 2), row(N, 3), row(N, 4)
    local outs, last = k({ a, b }, { c, d }, 2, N)
    assert.equal(2, #outs)
    near(outs[1]:totable(), (a + c * c):totable(), "first")
    near(outs[2]:totable(), (b + d * d):totable(), "second")
    near(last:totable(), (b + d * d):totable(), "last")
    proof.check(function(p, q, r, s)
      local list, z = k({ p, q }, { r, s }, 2, N)
      return list[1], list[2], z
    end, { a, b, c, d })
    local u, v, w = flame.zeros(N, f64), flame.ones(N, f64), flame.zeros(N, f64)
    local list = { u, v }
    local r1, r2 = k:launch({ grid = { 1 }, block = { 8 } }, list, { c, d }, w, 2, N)
    assert.equal(list, r1)
    assert.equal(w, r2)
    near(u:totable(), (c * c):totable(), "u")
    near(v:totable(), (d * d + 1):totable(), "v")
    local open = flame.kernel [[
      __global__ void k(double **outs, const double *x, int n) { outs[0][0] = n; }]]
    assert.matches("outs is a list of outputs, of which a call does not tell how many",
      message(open, a, 1))
    assert.matches("vjp: xs is a list of tensors",
      message(flame.kernel, { source = listing(SUM), vjp = function(g) return g end }))
  end)

  it("goes with templates, nil, nodiff, batches, shapes and saved programs", function()
    local text = [[
      template <typename T> __global__ void k(const T *const *xs, const T *b, T *y, int m, int n) {
        int i = threadIdx.x;
        if (i >= n) return;
        T s = b ? b[i] : T(1);
        for (int j = 0; j < m; ++j) s = s + xs[j][i];
        y[i] = s;
      }]]
    local k, a, b = flame.kernel(text), row(N, 1), row(N, 2)
    near(k({ a, b }, nil, 2, N):totable(), (a + b + 1):totable(), "nil")
    near(k({ a, b }, a, 2, N):totable(), (a + b + a):totable(), "b")
    assert.matches("w must be a tensor, got nil, and the kernel never asks",
      message(flame.kernel(listing "y[i] = xs[0][i] + w[i];"), { a }, nil, 1, N))
    local i = flame.tensor({ 1, 2 }, { dtype = "i32" })
    assert.same({ 4, 7 }, k({ i, i, i }, nil, 3, 2):totable())
    local fixed = flame.kernel { source = listing(SUM), nodiff = { "xs" },
      shape = function(xs) return { xs[1]:numel() } end }
    a.requires_grad = true
    assert.is_false(fixed({ a, b }, b, 2, N).requires_grad)
    local x = row(3 * N, 5):reshape(3, N)
    local all = flame.vmap(function(w) return k({ a, b }, w, 2, N) end)(x)
    near(all:flatten():totable(), (x + a + b):flatten():totable(), "batch")
    local path = os.tmpname()
    flame.export(path, function(v, w) return k({ v, w, v }, nil, 3, N) end, { b, x[1] })
    near(flame.program(path)(b, x[1]):totable(), (b + x[1] + b + 1):totable(), "program")
    os.remove(path)
  end)

  it("may be given through a metatable, and is read once", function()
    local k, reads = flame.kernel(listing(SUM)), 0
    local a, b = row(N, 1), row(N, 2)
    local list = setmetatable({}, {
      __len = function() return 2 end,
      __index = function(_, j)
        reads = reads + 1
        return (j == 1 and a or b) * 1                    -- nothing else holds it
      end,
    })
    near(k(list, a, 2, N):totable(), (a + b * 2):totable(), "proxy")
    assert.equal(2, reads)
    near(k(setmetatable({ a, b }, {}), a, 2, N):totable(), (a + b * 2):totable(), "plain")
    assert.matches("xs is a list of 0 tensors, need 1 to 64",
      message(k, setmetatable({}, {}), a, 0, N))
    local long = setmetatable({}, { __len = function() return (1 << 40) + 2 end })
    assert.matches("xs is a list of 1099511627778 tensors", message(k, long, a, 2, N))
    assert.matches("xs is a list of 65 tensors",
      message(k, setmetatable({}, { __len = function() return 65 end }), a, 0, N))
    assert.matches("xs%[1%] must be a tensor, got nil",
      message(k, setmetatable({ a }, { __len = function() return 2 end }), a, 2, N))
  end)

  --- A kernel for a list of arrays of T; 'value': the expression for xs[j][i] that it sums.
  local function typed(T, value)
    return flame.kernel { shape = { N }, source = ([[
      struct P { float x, y; };
      __global__ void k(const T *const *xs, float *y, int m, int n) {
        int i = threadIdx.x;
        if (i >= n) return;
        float s = 0.f;
        for (int j = 0; j < m; ++j) s += (j + 1) * VALUE;
        y[i] = s;
      }]]):gsub("%f[%w]T%f[%W]", T):gsub("VALUE", value) }
  end

  it("may be of any type that arrays have", function()
    local function whole(dtype, shift)
      return flame.tensor({ 1, 2, 3, 4, 5 }, { dtype = dtype }) + shift
    end
    for T, dtype in pairs { half = "f16", ["__nv_bfloat16"] = "bf16", float = "f32", double = "f64",
        int = "i32", unsigned = "i32", short = "i16", ["long long"] = "i64",
        ["unsigned char"] = "u8" } do
      local k, a, b = typed(T, "float(xs[j][i])"), whole(dtype, 0), whole(dtype, 3)
      assert.same({ 9, 12, 15, 18, 21 }, k({ a, b }, 2, N):totable())
      if a:is_floating_point() then
        compiles(internal.kernel_formed(k, "xs=2,"))
        a.requires_grad, b.requires_grad = true, true
        local g = (k({ a, b }, 2, N) * flame.arange(1.0, N)):sum():gradients { a, b }
        assert.same({ 1, 2, 3, 4, 5 }, g[a]:totable())
        assert.same({ 2, 4, 6, 8, 10 }, g[b]:totable())
      end
    end
    for T, value in pairs { P = "xs[j][i].x * xs[j][i].y", float2 = "xs[j][i].x * xs[j][i].y" } do
      local k, a, b = typed(T, value), flame.arange(1.0, 2 * N), flame.ones(2 * N)
      a.requires_grad = true
      local y = k({ a, b }, 2, N)
      assert.same({ 4, 14, 32, 58, 92 }, y:totable())
      y:sum():backward()
      assert.same({ 2, 1, 4, 3, 6, 5, 8, 7, 10, 9 }, a.grad:totable())
      compiles(internal.kernel_formed(k, "xs=2,"))
    end
    assert.matches("line 2 .*arrays of such a list are chosen by constants only",
      message(flame.kernel("struct Q { float x; int k; };\n__global__ void k(const Q *const *xs, "
        .. "float *y, int m) { float s = 0; for (int j = 0; j < m; ++j) s += xs[j][0].x; y[0] = s; }"),
        { flame.zeros(8, { dtype = "u8" }) }, 1))
  end)

  it("has second derivatives, of each of its arrays", function()
    local k = flame.kernel(listing "double s = 1; for (int j = 0; j < m; ++j) s *= xs[j][i]; y[i] = s * s;")
    local a, b, c = row(N, 1), row(N, 2), row(N, 3)
    for _, x in ipairs { a, b, c } do x.requires_grad = true end
    local g = k({ a, b, c }, a, 3, N):sum():gradients({ a, b, c }, { create_graph = true })
    local h = (g[a] * b):sum():gradients { a, b, c }
    near(h[a]:totable(), (b ^ 3 * c ^ 2 * 2):totable(), "aa")
    near(h[b]:totable(), (a * b ^ 2 * c ^ 2 * 4 + a * b ^ 2 * c ^ 2 * 2):totable(), "ab")
    near(h[c]:totable(), (a * b ^ 3 * c * 4):totable(), "ac")
  end)

  it("is refused with the line where the text does more with it", function()
    local a = row(N, 1)
    for body, why in pairs {
      ["y[i] = xs == nullptr ? 1. : 2.;"] = false,
      ["const double **p = (const double **)xs; y[i] = p[0][i];"] = "line 10",
      ["xs = xs + 1; y[i] = xs[0][i];"] = "line 10",
      ["xs[0] = xs[1]; y[i] = xs[0][i];"] = "line 10",
      ["y[i] = xs - xs;"] = false,
      ["const double *p = xs[0]; p = xs[i % 2]; y[i] = p[i];"] = false,
      ["const double *p = xs[i % 2]; if (i > 2) p = w; y[i] = p[i];"] = false,
    } do
      local k = flame.kernel(listing(body))
      local ok, got = pcall(function() return k({ a, row(N, 2) }, a, 2, N):totable() end)
      if why then assert.matches(why, tostring(got)) end
      assert(ok or tostring(got):find "line %d+", tostring(got))
    end
  end)
end)
