--- Gradients of kernels that use one array in parts: a loop writes one part and reads another,
-- which is overwritten after the loop. They are compared with central differences, to second order,
-- and the derived kernels run under the race check (in a child process). spec/c/parts_fuzz.c makes
-- random kernels of this kind.
local flame = require "flame"
local proof = dofile("spec/kernel/kernel_proof.lua")

local THREADS = 4
local STATIC, DYNAMIC = "__shared__ double s[2 * 4];", "extern __shared__ double s[];"

--- S: the array's declaration; STORE, READ: an element of each part. x has 8 elements, z 16.
local TWO_PARTS = [[ S
  READ = x[t]; __syncthreads();
  for (int r = 0; r < 2; ++r) { STORE = sin(x[t + 4] + r); v += READ * READ * STORE; } __syncthreads();
  READ = 0.5; __syncthreads(); y[t] = v * READ;]]

local cases = {
  { "rows", TWO_PARTS, "__shared__ double s[2][4];", "s[0][t]", "s[1][t]" },
  { "rows, the other way round", TWO_PARTS, "__shared__ double s[2][4];", "s[1][t]", "s[0][t]" },
  { "halves", TWO_PARTS, STATIC, "s[t]", "s[t + 4]" },
  { "halves of dynamic shared memory", TWO_PARTS, DYNAMIC, "s[t]", "s[t + 4]" },
  { "halves by a parameter", TWO_PARTS, DYNAMIC, "s[t]", "s[t + n]" },
  { "a pointer into the middle", TWO_PARTS, STATIC .. " double *u = s + 4;", "s[t]", "u[t]" },
  { "a pointer into the middle of dynamic shared memory", TWO_PARTS,
    DYNAMIC .. " double *u = s + 4;", "u[t]", "s[t]" },
  { "even and odd elements", TWO_PARTS, STATIC, "s[2 * t]", "s[2 * t + 1]" },
  { "members of an array of structs", TWO_PARTS, "struct P { double a, b; }; __shared__ P s[4];",
    "s[t].a", "s[t].b" },
  { "arrays of a struct", TWO_PARTS, "struct P { double a[4], b[4]; }; __shared__ P s;",
    "s.a[t]", "s.b[t]" },
  { "elements of a local array", TWO_PARTS, "double s[2];", "s[0]", "s[1]" },
  { "what other threads have stored", [[ __shared__ double s[2][4];
    s[0][t] = x[t]; __syncthreads();
    for (int r = 0; r < 3; ++r) {
      s[1][t] = x[t + 4] * (r + 1); __syncthreads();
      for (int j = 0; j < 4; ++j) v += s[0][j] * s[1][(j + r) & 3] * s[0][t];
      __syncthreads();
    }
    s[0][3 - t] = v; __syncthreads(); y[t] = v * s[0][t] + s[0][0];]] },
  { "a query tile and key tiles", [[ extern __shared__ double s[]; double *q = s, *key = s + 4; double m = -1e30, l = 0.;
    q[t] = x[t]; __syncthreads();
    for (int tile = 0; tile < 2; ++tile) {
      key[t] = x[4 * tile + t]; __syncthreads();
      for (int j = 0; j < 4; ++j) {
        double a = q[t] * key[j], m2 = fmax(m, a), c = exp(m - m2), e = exp(a - m2);
        v = v * c + e * key[j]; l = l * c + e; m = m2;
      }
      __syncthreads();
    }
    q[t] = v / l; __syncthreads(); y[t] = q[3 - t] * q[t];]] },
  { "a part that a loop overwrites", [[ __shared__ double s[2][4];
    s[0][t] = x[t]; __syncthreads();
    for (int r = 0; r < 2; ++r) { s[1][t] = x[t + 4] + r; __syncthreads(); v += s[0][t] * s[0][t] * s[1][3 - t]; __syncthreads(); }
    for (int d = 2; d > 0; d /= 2) { if (t < d) s[0][t] = v + s[0][t + d] * s[0][t]; __syncthreads(); }
    y[t] = s[0][0] * v;]] },
  { "a part that a round overwrites", [[ __shared__ double s[2][4];
    for (int r = 0; r < 3; ++r) {
      s[0][t] = x[t] + r; __syncthreads();
      for (int j = 0; j < 2; ++j) { s[1][t] = x[t + 4] * j; v += sin(s[0][t] * s[0][t] * v + s[1][t]); } __syncthreads();
      s[0][3 - t] = v * v; __syncthreads(); v = sin(s[0][t] + x[t]);
    }
    y[t] = v;]] },
  { "the same tile in two loops", [[ __shared__ double s[4];
    for (int r = 0; r < 2; ++r) { s[t] = x[4 * r + t]; __syncthreads(); for (int j = 0; j < 4; ++j) v += s[j] * s[t]; __syncthreads(); }
    for (int r = 0; r < 2; ++r) { s[t] = x[4 * r + t] * v; __syncthreads(); for (int j = 0; j < 4; ++j) v += s[j] * s[t]; __syncthreads(); }
    y[t] = v;]] },
  { "halves of global memory", [[ for (int j = t; j < 8; j += 4) { z[j + 8] = x[j]; v += z[j] * z[j]; }
    z[t] = 0.; y[t] = v;]] },
  { "pairs of global memory", [[ for (int j = t; j < 8; j += 4) { z[2 * j + 1] = x[j]; v += z[2 * j] * z[2 * j]; }
    z[2 * t] = x[t]; y[t] = v;]] },
  { "what a loop rewrites and then something else", [[ for (int j = t; j < 8; j += 4) { v += z[j] * z[j]; z[j] = x[j]; }
    z[t] = 100.; y[t] = v;]] },
  { "a counter that is set after its loop", [[ int j = t; for (; j < 8; j += 4) v += x[j] * x[j];
    j = 100; y[t] = v;]] },
  { "a start value that is set after its loop", [[ int j = t; double a = x[7] * x[t];
    for (; j < 8; j += 4) v += x[j] * x[j] * a; a = 3.; j = 1; y[t] = v;]] },
}

local function f64(n, phase)
  local list = {}
  for j = 1, n do list[j] = 0.7 * math.sin(1.7 * j + phase) + 0.01 * j end
  return flame.tensor(list, { dtype = "f64" })
end

local function kernel(body, s, read, store)
  body = body:gsub("STORE", store):gsub("READ", read):gsub("S\n", s .. "\n", 1)
  return flame.kernel { source = "__global__ void k(const double *x, double *y, double *z, int n) {\n" ..
    "  int t = threadIdx.x; double v = 0.;\n  " .. body .. "\n}",
    block = { THREADS }, grid = { 1 }, shared = 8 * 2 * THREADS, inout = { "z" },
    shape = { THREADS } }
end

describe("the gradient of a kernel with an array in parts:", function()
  for _, case in ipairs(cases) do
    it(case[1], function()
      local k = kernel(case[2], case[3] or "", case[4] or "", case[5] or "")
      proof.check(function(x, z) return k(x, z, THREADS) end, { f64(8, 0.3), f64(16, 1.1) })
    end)
  end

  it("all without a race", function()
    proof.checked("spec/kernel/gradient/kernel_parts_spec.lua", "race")
  end)
end)

describe("the adjoint of a loop that writes its tile again", function()
  it("keeps no copy of it for a later loop that writes the same elements", function()
    local function barriers(index)
      local body = [[ extern __shared__ double s[];
        for (int r = 0; r < 2; ++r) { s[t] = x[4 * r + t]; __syncthreads(); v += s[3 - t] * s[t]; __syncthreads(); }
        for (int r = 0; r < 2; ++r) { s[INDEX] = x[4 * r + t]; __syncthreads(); v += s[3 - t] * s[t]; __syncthreads(); }
        y[t] = v;]]
      local k = kernel((body:gsub("INDEX", index)), "", "", "")
      local text = k:source("adjoint")
      return select(2, text:gsub("__syncthreads", ""))
    end
    assert(barriers("t") < barriers("3 - t"))
  end)
end)
