--- Reversed loops, whose derivative needs the state of every round, the last one first: at numbers
-- of rounds around those where states are kept in another way. The oracle is the same recurrence in
-- Lua, with its derivatives carried along. Runs on the default device.
local flame = require "flame"
local helper = require "spec.support.helper"

-- The states of all rounds are kept: up to 48 rounds with room for 64 states, 12 of 16, 2 of 4.
local ROUNDS <const> = { 0, 1, 2, 3, 4, 5, 7, 8, 11, 12, 13, 16, 17, 21, 24, 25, 31, 32, 33, 47, 48,
  49, 64, 65, 97, 400, 769, 1300 }

--- What the kernels below compute from v and w with 'width' elements of state: the result and its
-- derivatives by v and w.
local function oracle(v, w, width, n)
  local q, dv, dq = {}, { 1, 0 }, {}
  for e = 1, width do q[e], dq[e] = e / width, { 0, 0 } end
  for j = 0, n - 1 do
    local e = j % width + 1
    local s, c, d, dd = math.sin(w * v), math.cos(w * v), {}, {}
    for i = 1, 2 do
      d[i] = c * (w * dv[i] + (i == 2 and v or 0)) + dq[e][i] * v * v / 8 + q[e] * v * dv[i] / 4
      dd[i] = -math.sin(v) * dv[i] / 2 + dq[e][i] / 4
    end
    v, q[e], dv, dq[e] = s + q[e] * v * v / 8, math.cos(v) / 2 + q[e] / 4, d, dd
  end
  return v, dv
end

-- name, head of the loop, end of its body
local LOOPS <const> = {
  { "counted", "for (int j = 0; j < n; ++j)", "" },
  { "counted in 64 bits", "for (long long j = 0; j < n; ++j)", "" },
  { "counted down", "for (int m = n, j = 0; m > 0; --m, ++j)", "" },
  { "left by a condition", "int j = 0; while (j < n)", "++j;" },
  { "of a constant number of rounds", "for (int j = 0; j < N; ++j)", "" },
}

--- The kernel with that loop. n: its constant number of rounds.
local function kernel(loop, width, n)
  return flame.kernel { block = 2, grid = 1, shape = { 2 }, source = ([[
#define N %d
#define WIDTH %d
__global__ void k(const double *x, double w, double *y, int n) {
  double v = x[threadIdx.x], q[WIDTH];
  for (int e = 0; e < WIDTH; ++e) q[e] = (e + 1) / (double)WIDTH;
  %s {
    double u = v;
    v = sin(w * v) + q[j %% WIDTH] * v * v / 8;
    q[j %% WIDTH] = cos(u) / 2 + q[j %% WIDTH] / 4;
    %s
  }
  y[threadIdx.x] = v;
}]]):format(n, width, loop[2], loop[3]) }
end

local function check(k, width, n)
  local x = flame.tensor({ 0.7, -0.4 }, { dtype = "f64", requires_grad = true })
  local w = flame.tensor(1.3, { dtype = "f64", requires_grad = true })
  local y = k(x, w, n)
  y:sum():backward()
  local a, da = oracle(0.7, 1.3, width, n)
  local b, db = oracle(-0.4, 1.3, width, n)
  local near = { rtol = 1e-9, atol = 1e-13 }
  assert.allclose(y:totable(), { a, b }, near)
  assert.allclose(x.grad:totable(), { da[1], db[1] }, near)
  assert.allclose({ w.grad:item() }, { da[2] + db[2] }, near)
end

describe("the states of a loop", function()
  for _, loop in ipairs(LOOPS) do
    for _, width in ipairs { 1, 3, 15, 40 } do
      it(("%s, %d elements and a number"):format(loop[1], width), function()
        local constant = loop[2]:find "N"
        local k = not constant and kernel(loop, width, 0)
        for _, n in ipairs(ROUNDS) do check(k or kernel(loop, width, n), width, n) end
      end)
    end
  end
end)

--- What the ring below computes: thread t's element after n rounds, and its derivative by w.
local function ring(x, w, n)
  local s, d, size = table.move(x, 1, #x, 1, {}), {}, #x
  for t = 1, size do d[t] = 0 end
  for _ = 1, n do
    local r, dr = {}, {}
    for t = 1, size do
      local next = t % size + 1
      r[t] = math.sin(w * s[next]) / 2 + s[t] * s[t] / 4
      dr[t] = math.cos(w * s[next]) * (s[next] + w * d[next]) / 2 + s[t] * d[t] / 2
    end
    s, d = r, dr
  end
  local sum = 0
  for t = 1, size do sum = sum + d[t] end
  return s, sum
end

describe("the states of a loop in shared memory", function()
  local X <const> = { 0.3, -0.7, 0.9, 0.2, -0.1, 0.8 }
  for _, how in ipairs { { "of a fixed size", "__shared__ double s[6];" },
      { "of the launch", "extern __shared__ double s[];", 48 } } do
    it(how[1], function()
      local k = flame.kernel { block = 6, grid = 1, shape = { 6 }, shared = how[3], source = [[
__global__ void k(const double *x, double w, double *y, int n) {
  ]] .. how[2] .. [[
  int t = threadIdx.x;
  s[t] = x[t];
  __syncthreads();
  for (int j = 0; j < n; ++j) {
    double r = sin(w * s[(t + 1) % 6]) / 2 + s[t] * s[t] / 4;
    __syncthreads();
    s[t] = r;
    __syncthreads();
  }
  y[t] = s[t];
}]] }
      for _, n in ipairs(ROUNDS) do
        local w = flame.tensor(1.3, { dtype = "f64", requires_grad = true })
        local y = k(flame.tensor(X, { dtype = "f64" }), w, n)
        y:sum():backward()
        local values, dw = ring(X, 1.3, n)
        assert.allclose(y:totable(), values, { rtol = 1e-9 })
        assert.allclose({ w.grad:item() }, { dw }, { rtol = 1e-9, atol = 1e-13 })
      end
    end)
  end
end)

--- v after n rounds, each of which runs an inner loop of (5 j + 3) % m rounds, left when v passes a
--- bound; with its derivatives by v and w.
local function nested_oracle(v, w, n, m)
  local dv, dw = 1, 0
  for j = 0, n - 1 do
    for l = 0, (5 * j + 3) % m - 1 do
      local s, c = math.sin(w * v), math.cos(w * v)
      v, dv, dw = s + 0.01 * l, c * w * dv, c * (v + w * dw)
      if v > 0.85 then break end
    end
    v, dv, dw = v * v + 0.2, 2 * v * dv, 2 * v * dw
  end
  return v, dv, dw
end

describe("the states of nested loops", function()
  for _, constant in ipairs { "", "inner", "outer" } do
    it("left by a break, with a constant number of rounds: " .. constant, function()
      for _, m in ipairs { 1, 2, 9, 70 } do
        for _, n in ipairs { 0, 1, 5, 33, 90 } do
          local k = flame.kernel { block = 2, grid = 1, shape = { 2 }, source = ([[
__global__ void k(const double *x, double w, double *y, int n, int m) {
  double v = x[threadIdx.x];
  for (int j = 0; j < %s; ++j) {
    for (int l = 0; l < %s; ++l) {
      if (l >= (5 * j + 3) %% m) break;
      v = sin(w * v) + 0.01 * l;
      if (v > 0.85) break;
    }
    v = v * v + 0.2;
  }
  y[threadIdx.x] = v;
}]]):format(constant == "outer" and n or "n", constant == "inner" and m or "m") }
          local x = flame.tensor({ 0.7, -0.4 }, { dtype = "f64", requires_grad = true })
          local w = flame.tensor(1.3, { dtype = "f64", requires_grad = true })
          local y = k(x, w, n, m)
          y:sum():backward()
          local a, da, wa = nested_oracle(0.7, 1.3, n, m)
          local b, db, wb = nested_oracle(-0.4, 1.3, n, m)
          local near = { rtol = 1e-9, atol = 1e-13 }
          assert.allclose(y:totable(), { a, b }, near)
          assert.allclose(x.grad:totable(), { da, db }, near)
          assert.allclose({ w.grad:item() }, { wa + wb }, near)
        end
      end
    end)
  end
end)

describe("second derivatives through the states of a loop", function()
  it("are those of differences", function()
    for _, n in ipairs { 1, 12, 65, 130 } do
      local k = kernel(LOOPS[1], 3, 0)
      local w = flame.tensor(1.1, { dtype = "f64" })
      local x = flame.tensor({ 0.7, -0.4 }, { dtype = "f64", requires_grad = true })
      local function f(v) return k(v, w, n) end
      assert.is_true(flame.gradcheck(f, { x }, { order = 2 }))
    end
  end)
end)

-- Tiles that are filled again in each round are no state of the loop. 'kept': is the tile kept?
local TILES <const> = {
  { "filled by a loop of strides", "for (int e = t; e < 12; e += 4) s[e] = x[r * 12 + e];" },
  { "filled by two loops", [[for (int a = 0; a < 3; ++a) for (int e = t; e < 4; e += 4)
      s[a * 4 + e] = x[r * 12 + a * 4 + e];]] },
  { "filled by a choice", [[for (int e = t; e < 12; e += 4)
      if (r % 2) s[e] = x[r * 12 + e]; else s[e] = x[r * 12 + 11 - e];]] },
  { "filled from a place that moves", "for (int e = t + r; e < 12; e += 4) s[e] = x[r * 12 + e];",
    kept = true },
  { "filled to a place that moves", "for (int e = t; e < 8 + r; e += 4) s[e] = x[r * 12 + e];",
    kept = true },
  { "filled in part", "for (int e = t; e < 12; e += 4) if (e != r) s[e] = x[r * 12 + e];",
    kept = true },
  { "filled by a loop that is left", [[for (int e = t; e < 12; e += 4) {
      if (e == 8 + r) break; s[e] = x[r * 12 + e]; }]], kept = true },
  { "added to", "for (int e = t; e < 12; e += 4) s[e] += x[r * 12 + e];", kept = true },
  { "written again", [[for (int e = t; e < 12; e += 4) s[e] = x[r * 12 + e];
    __syncthreads(); if (r == 1) s[t] = v;]], kept = true },
}

local function tile_kernel(fill)
  return flame.kernel { block = 4, grid = 1, shape = { 4 }, source = [[
__global__ void k(const double *x, double *y, int n) {
  __shared__ double s[12];
  const int t = threadIdx.x;
  double v = 0.2 * t;
  for (int e = t; e < 12; e += 4) s[e] = 0.1 * x[e];
  __syncthreads();
  for (int r = 0; r < n; ++r) {
    ]] .. fill .. [[

    __syncthreads();
    for (int e = 0; e < 12; ++e) v = 0.9 * v + 0.1 * sin(s[e] * (v + e));
    __syncthreads();
  }
  y[t] = v + s[11 - t];
}]] }
end

describe("a tile in shared memory", function()
  for _, c in ipairs(TILES) do
    it(c[1] .. " has the gradient of differences", function()
      local k = tile_kernel(c[2])
      assert.equal(c.kept == true, k:source("adjoint"):find "slots_s" ~= nil, k:source "adjoint")
      flame.seed(4)
      local x = flame.randn({ 48 }, { dtype = "f64" }):requires_grad_()
      for _, n in ipairs { 0, 1, 4 } do
        assert.is_true(flame.gradcheck(function(v) return k(v, n) end, { x }), tostring(n))
      end
    end)
  end
end)

-- The adjoint needs the tile and its gradient: more than the 48 KB that static memory has.
describe("a derivative with more shared memory than is static", function()
  local k = flame.kernel { block = 64, grid = 1, shape = { 64 }, source = [[
__global__ void k(const float *x, float *y, int n) {
  __shared__ float s[4096], u[4096];
  for (int e = threadIdx.x; e < 4096; e += 64) { s[e] = x[e]; u[e] = x[4095 - e]; }
  __syncthreads();
  float v = 0;
  for (int e = 0; e < n; ++e) v += s[(e * 67 + threadIdx.x) % 4096] * u[e];
  y[threadIdx.x] = v;
}]] }
  local function gradient(device)
    flame.seed(5)
    local x = flame.randn({ 4096 }):to(device):requires_grad_()
    k(x, 300):sum():backward()
    return x.grad:cpu()
  end

  it("is that of the same sums by ops", function()
    flame.seed(5)
    local x = flame.randn({ 4096 }):requires_grad_()
    local e, t = flame.arange(0, 299):reshape(300, 1), flame.arange(0, 63):reshape(1, 64)
    local at = (e * 67 + t):remainder(4096):long():flatten() + 1
    local y = x[at]:reshape(300, 64) * x:flip { 1 }[e:long():flatten() + 1]:reshape(300, 1)
    y:sum():backward()
    local want, got = x.grad:cpu(), gradient(flame.default_device())
    assert.is_true((want - got):abs():amax():item() < 1e-3)
  end)

  it("has its arrays in dynamic memory on a GPU, as a text that compiles there", function()
    assert.truthy(k:source("adjoint"):find("fl_dynamic + 4096", 1, true))
    local ok, why = pcall(k.report, k)
    assert.is_true(ok, why)
  end)

  it("is refused beyond what a block has", function()
    local large = flame.kernel { block = 32, grid = 1, shape = { 32 }, source = [[
__global__ void large(const double *x, double *y) {
  __shared__ double s[6000];
  double v = 0;
  for (int r = 0; r < 9; ++r) {
    for (int e = threadIdx.x; e < 6000; e += 32) s[e] = r ? s[e] * s[e] : 0;
    for (int e = threadIdx.x; e < 6000; e += 32) atomicAdd(&s[e], x[e]);
    __syncthreads();
    v += s[r];
    __syncthreads();
  }
  y[threadIdx.x] = v;
}]] }
    local x = flame.zeros({ 6000 }, { dtype = "f64" }):requires_grad_()
    assert.matches("line %d", helper.message(function() large(x):sum():backward() end))
  end)
end)
