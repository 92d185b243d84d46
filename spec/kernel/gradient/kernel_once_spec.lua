--- Where a loop adds to one element of a gradient, or an element is read twice, the adjoint sums in
-- a register and adds to memory once. spec/c/still_fuzz.c has random kernels of this kind. Runs on
-- the default device.
local flame = require "flame"

local function f64(list) return flame.tensor(list, { dtype = "f64" }) end
local function i32(list) return flame.tensor(list, { dtype = "i32" }) end

--- A kernel of doubles in which thread i sets s, which is stored in y[i].
local function kernel(signature, body, options)
  options = options or {}
  options.source = "__global__ void k(" .. signature .. ", double *y, int n) {\n" ..
    "int i = blockIdx.x * blockDim.x + threadIdx.x;\nif (i >= n) return;\ndouble s = 0;\n" ..
    body .. "\ny[i] = s;\n}"
  return flame.kernel(options)
end

--- How many statements of k's adjoint add to the gradient of the parameter 'name': inside of loops,
--- and outside.
local function sums(k, name)
  local inside, outside, depth = 0, 0, 0
  for line in k:source("adjoint"):match("_vjp%(.*"):gmatch("[^\n]+") do
    local adds = line:find("grad_" .. name .. "[", 1, true) and
      (line:find("+=", 1, true) or line:find("atomicAdd", 1, true))
      or line:find("fl_ordered_add", 1, true)
    if line:find("^%s*for ") then depth = #line:match("^%s*") + 1 end
    if depth > 0 and line:find("^%s*}") and #line:match("^%s*") + 1 == depth then depth = 0 end
    if adds and depth > 0 then inside = inside + 1 elseif adds then outside = outside + 1 end
  end
  return { inside, outside }
end

local pairwise = kernel("const double *p", [[
  for (int j = 0; j < n; ++j) {
    double dx = p[2 * i] - p[2 * j], dy = p[2 * i + 1] - p[2 * j + 1];
    s -= rsqrt(dx * dx + dy * dy + 0.01);
  }]], { shape = { 5 } })

describe("a loop that reads an element in each round", function()
  it("adds to its gradient once, after the loop", function()
    assert.same({ 2, 2 }, sums(pairwise, "p"))
    local p = flame.randn({ 5, 2 }, { dtype = "f64" })
    assert.is_true(flame.gradcheck(function(v) return pairwise(v, 5) end, { p }, { order = 2 }))
  end)

  it("adds nothing where it has no rounds, wherever the element would be", function()
    local k = kernel("const double *x, const int *rounds", [[
      for (int j = 0; j < rounds[i]; ++j) s += x[1000 * i] * x[1000 * i] * (j + 1);]],
      { shape = { 3 } })
    assert.same({ 0, 1 }, sums(k, "x"))
    local x = f64({ 3 }):requires_grad_(true)
    k(x, i32 { 2, 0, 0 }, 3):sum():backward()
    assert.same({ 2 * 3 * 3 }, x.grad:totable())
  end)

  it("follows an index that the round sets, if each round sets the same", function()
    local k = kernel("const double *x, const int *at", [[
      for (int j = 0; j < 3; ++j) { int e = at[i] + 1; s += x[e - 1] * (j + 1); }]],
      { shape = { 2 } })
    assert.same({ 0, 1 }, sums(k, "x"))
    local x = f64({ 1, 2, 3 }):requires_grad_(true)
    k(x, i32 { 2, 2 }, 2):sum():backward()
    assert.same({ 0, 0, 12 }, x.grad:totable())
  end)

  it("adds in each round where the index changes, though late or rarely", function()
    for _, body in ipairs {
      "int e = 0; for (int j = 0; j < 3; ++j) { s += x[e] * (j + 1); e = 2; }",
      "int e = 0; for (int j = 0; j < 3; ++j) { if (j == 1) e = 2; s += x[e] * (1 + j); }",
      "int e[1] = { 0 }; for (int j = 0; j < 3; ++j) { s += x[e[0]] * (j + 1); e[0] = 2; }",
    } do
      local k = kernel("const double *x", body, { shape = { 1 } })
      local x = f64({ 1, 2, 3 }):requires_grad_(true)
      k(x, 1):sum():backward()
      assert.same({ 1, 0, 5 }, x.grad:totable(), body)
    end
  end)

  it("passes on what is infinite or no number", function()
    local k = kernel("const double *x, const double *w",
      "for (int j = 0; j < 2; ++j) s += x[i] * w[2 * i + j];", { shape = { 2 } })
    local x = f64({ 1, 1 }):requires_grad_(true)
    k(x, f64 { 1, 1 / 0, 1 / 0, -1 / 0 }, 2):sum():backward()
    local g = x.grad:totable()
    assert.equal(1 / 0, g[1])
    assert.is_true(g[2] ~= g[2])
  end)
end)

describe("an element that is read twice", function()
  it("is added to once", function()
    local k = kernel("const double *x, const int *at",
      "s = x[at[i]] * x[at[i]]; if (s > 1) s += 3 * x[at[i]];")
    assert.same({ 0, 1 }, sums(k, "x"))
    local x = f64({ 1, 2, 3 }):requires_grad_(true)
    k(x, i32 { 2, 2, 0 }, 3):sum():backward()
    assert.same({ 2, 0, 2 * (6 + 3) }, x.grad:totable())
  end)

  it("is read again where its index is another one by then", function()
    local k = kernel("const double *x", [[
      int e = 0; s = x[e] * x[e]; e = 1; s += x[e] * x[e]; for (; e < 3; ++e) s += 5 * x[e];]],
      { shape = { 1 } })
    local x = f64({ 1, 2, 3 }):requires_grad_(true)
    k(x, 1):sum():backward()
    assert.same({ 2, 9, 5 }, x.grad:totable())
  end)

  it("is not read for a thread that asks for it in one branch alone", function()
    local k = kernel("const double *x", [[
      s = i == 0 ? x[i] * x[i] : 0; if (i == 0) s += x[i]; s += i == 0 ? 2 * x[i] : 1;]],
      { shape = { 3 } })
    local x = f64({ 4 }):requires_grad_(true)
    k(x, 3):sum():backward()
    assert.same({ 11 }, x.grad:totable())
  end)
end)

describe("an element that each round of a loop reads at one index", function()
  --- How often the adjoint reads x[i], and whether it stores the gradient instead of adding to it.
  local function reads(k)
    local text, n = k:source("adjoint"):match("_vjp%(.*"), 0
    for _ in text:gmatch("[^_]x%[") do n = n + 1 end
    return { n, text:find("grad_x%[[^\n]* = ") ~= nil }
  end
  local newton = [[
    double r = 1; while (fabs(r * r * r - x[i] * x[i] - 1) > 1e-12)
      r -= (r * r * r - x[i] * x[i] - 1) / (3 * r * r);
    s = r;]]
  local series = "double t = 1; for (int j = 1; j < 5; ++j) { t *= x[i] / j; s += t; }"
  local twice = "int j = 0; do s += j * x[i] * x[i]; while (++j < n);"

  it("is read once, before the loop, and its gradient needs no zeros", function()
    for _, body in ipairs { newton, series, twice } do
      local k = kernel("const double *x", body, { shape = { 3 } })
      assert.same({ 1, true }, reads(k), body)
      local x = f64 { 0.5, 1.5, 2 }
      assert.is_true(flame.gradcheck(function(v) return k(v, 3) end, { x }, { order = 2 }))
      flame.eval(x)
      local y, g = k(x:requires_grad_(true), 3), flame.ones(3, { dtype = "f64" })
      flame.eval(y, g)
      flame.stats("reset")
      local dx = y:gradients({ x }, { seed = g })[x]
      flame.eval(dx)
      assert.equal(3 * 8 * 3, flame.stats().bytes_moved, body)        -- x, g and dx, each once
    end
  end)

  it("is not read for a thread whose loop does not reach it", function()
    for _, body in ipairs {
      "for (int j = 0; j < rounds[i]; ++j) s += x[1000 * i] * x[1000 * i] * (j + 1);",
      "for (int j = 0; j < 2; ++j) if (j < rounds[i]) s += x[1000 * i] * x[1000 * i] * (j + 1);",
      "for (int j = 0; j < rounds[i] && x[1000 * i] > 0; ++j) s += x[1000 * i] * 6;",
      "for (int j = 0; j < 2; ++j) { if (j >= rounds[i]) break; s += x[1000 * i] * x[1000 * i] * (j + 1); }",
      "for (int j = 0; j < 2; ++j) { if (j >= rounds[i]) return; s += x[1000 * i] * 6; if (j) y[i] = s; }",
      "for (int j = 0; j < 2; ++j) s += j < rounds[i] ? 6 * x[1000 * i] : 0;",
    } do
      local k = kernel("const double *x, const int *rounds", body, { shape = { 3 }, block = { 4 } })
      local x = f64({ 3 }):requires_grad_(true)
      local y = k(x, i32 { 2, 0, 0 }, 3)
      y:sum():backward()
      assert.same({ body:find("] * x", 1, true) and 18 or 12 }, x.grad:totable(), body)
    end
  end)

  it("is read again where the loop, or what begins it, changes the index", function()
    for _, body in ipairs {
      "int e = 0; while (x[e] < 3) { s += 10 * x[e]; ++e; } s += x[e];",
      "int e = 2; for (e = 0; e < 3; ++e) s += (e < 2 ? 10 : 1) * x[e];",
      "int e = 2; e = 0; do { s += (e < 2 ? 10 : 1) * x[e]; } while (++e < 3);",
    } do
      local k = kernel("const double *x", body, { shape = { 1 } })
      local x = f64({ 1, 2, 3 }):requires_grad_(true)
      k(x, 1):sum():backward()
      assert.same({ 10, 10, 1 }, x.grad:totable(), body)
    end
  end)
end)

-- Sums into a tile of shared memory are in any order. So are those of the gradient to which the
-- tile's is added; those of others keep a fixed order, also if they go through the same local.
describe("a gradient that a tile's gradient is added to", function()
  local k = flame.kernel { block = 32, shape = function(x) return x.shape end, source = [=[
__global__ void f(const float *x, const float *v, const int *id, float *y, int n) {
  __shared__ float tile[32];
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  float s = x[id[i]];
  tile[threadIdx.x] = s;
  __syncthreads();
  float q = 0.f;
  for (int j = 0; j < 32; j++) q += sinf(tile[j] * i);
  s = v[id[i]];
  y[i] = s * s + q;
}]=] }
  local text = k:source "adjoint"
  it("is summed in any order", function()
    assert.truthy(text:find("atomicAdd(&grad_x[", 1, true))
  end)
  it("does not take the order from another", function()
    assert.falsy(text:find("atomicAdd(&grad_v[", 1, true))
    assert.truthy(text:find("fl_ordered_add(fl_fix[0]", 1, true))
  end)
end)
