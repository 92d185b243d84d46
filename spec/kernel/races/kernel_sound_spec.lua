--- Derived gradients where several threads may write or read one element: by an index that only
-- looks different for each thread, by stores in several statements, for some launches; and in loops
-- that rewrite arrays. They are compared with central differences, and the derived kernels run
-- under the race check (in a child process), which shows that sums without atomics are right.
local flame = require "flame"
local proof = dofile("spec/kernel/kernel_proof.lua")

local function f64(n)
  local list = {}
  for j = 1, n do list[j] = math.sin(1.7 * j + 0.3) + 0.01 * j end
  return flame.tensor(list, { dtype = "f64" })
end

local function ints(list) return flame.tensor(list, { dtype = "i32" }) end

-- name, body (x[12] to y[12]; i: the thread), grid (or 1), block (or 12), integers m, at (or none)
local cases = {
  -- several threads have one index and store the same value
  { "a quotient and a remainder", "y[i / 4 + i % 4] = x[i / 4 + i % 4] * x[0];" },
  { "a quotient and a remainder of too small a pitch",
    "int j = i / 4 * 2 + i % 4; y[j] = x[j] * x[j];" },
  { "a quotient and a remainder of other divisors",
    "int j = i / 3 + i % 4 * 2; y[j] = x[j] * x[j];" },
  { "a remainder longer than the pitch", "int j = i / 6 * 4 + i % 6; y[j] = x[j] * x[j];" },
  { "a quotient and a remainder below zero",
    "int a = i - 6; y[a / 4 + a % 4 + 5] = x[a / 4 + a % 4 + 5] * x[1];" },
  { "a remainder times less than the quotients", "int j = i % 4 * 2 + i / 4; y[j] = x[j] * x[j];" },
  { "a counter that wraps", "int q = 0; if (i < 6) for (unsigned c = i; q < 3; c += 0x80000000u, ++q) "
    .. "y[(int)(c << 1)] = x[q] * x[i];" },
  { "a quotient under an equality", "if (i % 2 == 0) y[i / 4] = x[i / 4] * x[i / 4];" },
  { "a quotient under an equality of the block",
    "if (blockIdx.x == 0) y[i / 4] = x[i / 4] * x[i / 4];" },
  { "a warp's number and a lane of another numbering",
    "if (threadIdx.x % 4 == 0) y[i / 4] = x[i / 4] * x[i / 4];", 2, 6 },
  { "an equality with a counter", "for (int j = 0; j < n; ++j) if (i == j) y[0] = x[0] * x[0];" },
  { "an equality with a changing variable",
    "int k = 0; while (k < 4) { if (i == k) y[0] = x[0] * x[0]; k += 1; }" },
  { "an equality of unsigned numbers that wrap",
    "unsigned u = i; if (u * 2147483648u == 0u) y[0] = x[0] * x[0];" },
  { "an equality with data", "if (i % 3 == at[i]) y[i / 6] = x[i / 6] * x[i / 6];", 1, 12, nil,
    { 0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2 } },
  { "threadIdx in several blocks", "int t = threadIdx.x; y[t] = x[t] * x[t];", 3, 4 },
  { "the first thread of several blocks",
    "if (threadIdx.x == 0) y[n - 1] = x[n - 1] * x[0];", 3, 4 },
  { "threads of two axes by one", "y[i] = x[i] * x[i];", 1, { 12, 2 } },
  { "blocks of two axes by one", "if (threadIdx.x == 0) y[blockIdx.x] = x[blockIdx.x] * x[0];", { 3, 2 }, 4 },
  { "an index from memory", "y[at[i]] = x[at[i]] * x[at[i]];", 1, 12, nil,
    { 0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5 } },
  { "a square", "int j = (i - 2) * (i - 2); if (j < n) y[j] = x[j] * x[j];" },
  { "a parameter that is 0", "int j = i * m; y[j] = x[j] * x[j];", 1, 12, 0 },
  { "blocks that overlap by a parameter",
    "int j = blockIdx.x * m + threadIdx.x; y[j] = x[j] * x[j];", 3, 4, 2 },
  { "a product and a shift by its factor", "int t = threadIdx.x, b = blockIdx.x; " ..
    "if (t < m) y[b * m + t] = x[b * m + t] * x[(b << m) + t];", 3, 4, 2 },
  { "blocks that overlap by another number than the bound of their threads",
    "int t = threadIdx.x, b = blockIdx.x; if (t < at[0]) y[b * at[1] + t] = x[t] * x[t];", 3, 4, nil,
    { 4, 0 } },
  { "a quotient by a number of the thread",
    "int u = threadIdx.x; if (u > 0) y[u + 6 / u] = x[0] * x[1];", 1, 4 },
  { "a remainder by a number of the thread",
    "int u = threadIdx.x; if (u > 0) { if (i / u == 1) y[i % u] = x[0] * x[1]; }", 1, 8 },
  { "rows that overlap", "int j = threadIdx.y * m + threadIdx.x; y[j] = x[j] * x[j];", 1,
    { 4, 3 }, 3 },
  { "an unsigned comparison with a negative number", "unsigned c = threadIdx.x; if (c < m) " ..
    "{ int j = 6 + (int)threadIdx.y * m + (int)c; y[j] = x[j] * x[j]; }", 1, { 4, 3 }, -2 },
  { "a product that wraps", "unsigned j = (unsigned)i * 1073741824u; if (j < (unsigned)n) y[j] = x[j] * x[j];" },
  { "a variable set in one round of a loop",
    "int q; for (int j = 0; j < 3; ++j) { if (j == 0) q = j; " ..
    "y[i * 3 + q] = x[i * 3 + j]; }", 1, 4 },
  { "the number of bits", "int j = __popc(i); y[j] = x[j] * x[j];" },
  -- stores in several statements
  { "branches of one place", "if (i == 0) y[0] = x[0] * x[1]; else y[0] = x[1] * x[0];" },
  { "two stores by two threads", "if (i == 0) y[0] = x[3] * x[3]; if (i == 1) y[0] = x[3] * x[3];" },
  { "a neighbour's element behind a barrier",
    "y[i] = x[i]; __syncthreads(); if (i + 1 < n) y[i + 1] = 2. * x[i];" },
  { "a neighbour's element before a barrier",
    "if (i + 1 < n) y[i + 1] = 2. * x[i]; __syncthreads(); y[i] = x[i] * x[i];" },
  { "every other element again", "y[i] = x[i] * x[i]; __syncthreads(); if (i < 6) y[2 * i] = x[i] * 3.; __syncthreads(); " ..
    "if (i < 3) y[4 * i + 1] = x[i] * x[0];" },
  { "a sum that another thread overwrites",
    "atomicAdd(&y[i], x[i] * x[i]); __syncthreads(); if (i + 1 < n) y[i + 1] = x[i] * 3.;" },
  -- reads
  { "reads of overlapping rows", "y[threadIdx.y * 4 + threadIdx.x] = pow(x[threadIdx.y * m + threadIdx.x], 2.);",
    1, { 4, 3 }, 2 },
  { "reads behind an unsigned comparison with a negative number", "if (threadIdx.x < m) { " ..
    "double v = x[6 + threadIdx.y * m + threadIdx.x]; " ..
    "y[threadIdx.y * 4 + threadIdx.x] = v * v; }", 1, { 4, 3 }, -2 },
  { "reads at a product that wraps", "unsigned j = (unsigned)i * 1073741824u; if (j < (unsigned)n) y[i] = x[j] * x[j];" },
  { "reads by a variable set in one round of a loop",
    "double a = 0; int q; for (int j = 0; j < 3; ++j) { if (j == 0) q = j; " ..
    "a += x[i * 3 + q] * (j + 1); } y[i] = a;", 1, 4 },
  { "guarded and unguarded reads", "int c = threadIdx.x, r = threadIdx.y; double a = 0; if (c < m) a = pow(x[r * m + c], 2.); " ..
    "double b = x[r * m + c]; y[r * 4 + c] = a + b * b;", 1, { 4, 3 }, 2 },
  { "guarded and unguarded stores", "int j = threadIdx.y * m + threadIdx.x; " ..
    "if ((int)threadIdx.x < m) y[j] = x[j] * x[j]; else y[j] = x[j] * x[j];",
    1, { 4, 3 }, 2 },
  -- shared memory
  { "a shared element whose place changes",
    "__shared__ double s[24]; int off = 0; double a = x[i]; for (int r = 0; r < 4; ++r) { " ..
    "s[off + i] = a * a; __syncthreads(); a = s[off + (i + 1) % 12] + 0.1 * a; off = 12 - off; } y[i] = a;" },
  { "a tile of two axes", "__shared__ double s[3][5]; double a = 0; for (int r = 0; r < 3; ++r) { " ..
    "s[threadIdx.y][threadIdx.x] = x[(threadIdx.y * 4 + threadIdx.x + r) % 12] * (1. + a); __syncthreads(); " ..
    "a += s[threadIdx.y][(threadIdx.x + r) % 4] * s[(threadIdx.y + 1) % 3][threadIdx.x]; __syncthreads(); } " ..
    "y[threadIdx.y * 4 + threadIdx.x] = a;", 1, { 4, 3 } },
  { "a sum of each warp", "__shared__ double s[3]; double v = x[i] * x[i]; for (int r = 0; r < 2; ++r) { " ..
    "if ((threadIdx.x & 3) == 0) s[threadIdx.x >> 2] = v * x[i + r]; " ..
    "__syncthreads(); v += s[(r + 1) % 3] * v; __syncthreads(); } y[i] = v;" },
}

-- loops that read and rewrite an array in global memory: y is an input and a result
local rewritten = {
  { "squares in a loop of one thread", "if (i == 0) for (int j = 0; j < n; ++j) y[j] = y[j] * y[j];" },
  { "squares in a loop with the stride of a block",
    "for (int j = threadIdx.x; j < n; j += blockDim.x) y[j] = y[j] * y[j];", 4 },
  { "squares in a loop with another stride",
    "for (int j = threadIdx.x; j < n; j += 4) y[j] = y[j] * y[j];", 4 },
  { "pairs",
    "for (int j = i; j < n / 2; j += 4) { double a = y[2 * j], b = y[2 * j + 1]; y[2 * j] = a * b; y[2 * j + 1] = a + b * b; }", 4 },
  { "elements of rows in two loops",
    "if (i < 3) for (int j = 0; j < 2; ++j) for (int k = 0; k < 2; ++k) y[i * 4 + j * 2 + k] *= y[i * 4 + j * 2 + k];" },
  { "a recurrence", "if (i == 0) for (int j = 1; j < n; ++j) y[j] = sin(y[j - 1]) * x[j];" },
  { "a recurrence of two terms", "if (i == 0) for (int j = 2; j < n; ++j) y[j] = y[j - 1] * y[j - 2] + x[j];" },
  { "a recurrence in place", "if (i == 0) for (int j = 1; j < n; ++j) y[j] = y[j - 1] * y[j];" },
  { "a recurrence in place, downwards",
    "if (i == 0) for (int j = n - 2; j >= 0; --j) y[j] = y[j] * y[j] + 0.3 * y[j + 1] * y[j];" },
  { "a recurrence under a condition", "if (i == 0) for (int j = 1; j < n; ++j) { if (j % 3 == 0) continue; y[j] = y[j - 1] * y[j]; }" },
  { "a recurrence under a condition from an argument",
    "if (i == 0) for (int j = 1; j < n; ++j) if (x[j] > 0.) y[j] = y[j - 1] * y[j]; else y[j] = sin(y[j]) * y[j - 1];" },
  { "a recurrence that looks ahead",
    "if (i == 0) for (int j = 0; j + 2 < n; ++j) { double a = y[j + 2]; y[j] = y[j] * y[j + 1] + a * a; }" },
  { "a loop that reads all and rewrites one",
    "if (i == 0) for (int j = 0; j < n; ++j) { double s = 0; for (int k = 0; k < n; ++k) s += y[k] * y[k]; y[j] /= s + 1.; }" },
  { "a recurrence by sums", "if (i == 0) for (int j = 1; j < n; ++j) y[j] += 0.1 * y[j - 1] * y[j - 1];" },
  { "a recurrence between other uses",
    "if (i == 0) { double a = y[3] * y[4]; for (int j = 1; j < n; ++j) y[j] = y[j - 1] * y[j] + a; y[0] = y[5] * y[6]; " ..
    "y[4] = a * y[4]; }" },
  { "a recurrence that others read behind a barrier",
    "if (i == 0) for (int j = 1; j < n; ++j) y[j] *= y[j - 1]; __syncthreads(); " ..
    "double t = y[i * 5 % n]; __syncthreads(); y[i] = t * t;" },
  { "a recurrence with a break", "if (i == 0) for (int j = 1; j < n; ++j) { y[j] = y[j - 1] * y[j] + 0.2; if (y[j] > 1.1) break; }" },
  { "a softmax of rows", "if (i < 3) { double m = -1e30, s = 0; for (int j = 0; j < 4; ++j) m = fmax(m, y[i * 4 + j]); " ..
    "for (int j = 0; j < 4; ++j) { y[i * 4 + j] = exp(y[i * 4 + j] - m); s += y[i * 4 + j]; } for (int j = 0; j < 4; " ..
    "++j) y[i * 4 + j] /= s; }" },
  { "a product along columns", "if (i < 4) for (int j = 1; j < 3; ++j) y[j * 4 + i] *= y[(j - 1) * 4 + i];" },
  { "a recurrence in place of many rounds with a state",
    "if (i == 0) { double m = 0.3; for (int j = 1; j + 1 < n; ++j) { " ..
    "m = m * 0.8 + 0.2 * m * y[j + 1] * y[j]; y[j] = y[j - 1] * y[j + 1] * 0.5 + m; } }", 2, 90 },
  { "a recurrence of many rounds with a state",
    "if (i == 0) { double m = 0.1; for (int j = 1; j < n; ++j) { " ..
    "m = m * 0.9 + 0.1 * y[j - 1] * m; y[j] = y[j - 1] * 0.5 + sin(y[j - 1]) * x[j] * m; } }", 2, 90 },
}

local function size(n) return type(n) == "table" and n or { n or 1 } end

local function check(case)
  local _, body, grid, block, m, at = table.unpack(case, 1, 6)
  local k = flame.kernel { source = "__global__ void k(const int *at, const double *x, double *y, int m, int n) {\n" ..
    "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n  " .. body .. "\n}",
    grid = size(grid), block = size(block or 12), shape = { 12 } }
  at = ints(at or { 0 })
  return flame.gradcheck(function(x) return k(at, x, m or 0, 12) end, { f64(12) }, { order = 2 })
end

describe("the gradient of a kernel with", function()
  for _, case in ipairs(cases) do
    it(case[1], function() assert(check(case)) end)
  end

  for _, case in ipairs(rewritten) do
    it("a loop that rewrites an array: " .. case[1], function()
      local n = case[4] or 12
      local k = flame.kernel {
        source = "__global__ void k(const double *x, double *y, int n) {\n" ..
        "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n  " .. case[2] .. "\n}",
        grid = { 1 }, block = { case[3] or 12 }, inout = { "y" } }
      proof.check(function(x, y) return k(x, y, n) end, { f64(n), f64(n) + 0.4 },
        { order = n > 12 and 1 or 2 })
    end)
  end

  it("each of these stores and reads adds without a race", function()
    proof.checked("spec/kernel/races/kernel_sound_spec.lua", "race")
  end)
end)

describe("a loop whose threads make different numbers of rounds, the first with a barrier", function()
  it("is told on the CPU that its adjoint has a barrier in each round", function()
    if flame.default_device() ~= "cpu" then pending "a GPU does not tell" return end
    local k = flame.kernel { block = { 6 }, grid = { 1 }, shape = { 6 }, source = [=[
__global__ void k(const double *x, double *y) {
  __shared__ double s[6];
  int t = threadIdx.x;
  double a = x[t];
  s[t] = a * a;
  for (int j = 0; j < 2 + t % 3; j++) { if (j < 2) __syncthreads(); a = a * s[(t + 1) % 6] + 0.1; }
  y[t] = a;
}]=] }
    local x = f64(6):requires_grad_(true)
    local y = k(x):sum()
    flame.eval(y)
    assert.error_matches(function()
      y:backward()
      flame.eval(x.grad)
    end, "__syncthreads%(%) is not reached by all threads")
  end)
end)

describe("what a launch decides", function()
  local function gradient(k, x, ...)
    local v = x:detach():requires_grad_()
    return k(v, ...):sum():gradients({ v })[v]:totable()
  end
  local squares = { 2, 4, 6, 8 }

  it("is asked again for each launch: the number of blocks", function()
    local k = flame.kernel { source = "__global__ void k(const float *x, float *y, int n) { int i = threadIdx.x; y[i] = x[i] * x[i]; }",
      block = { 4 }, shape = { 4 } }
    local x = flame.tensor { 1, 2, 3, 4 }
    for _, blocks in ipairs { 1, 3, 1, 2 } do
      assert.same(squares, gradient(k:with { grid = { blocks } }, x))
      assert.equal(blocks > 1,
        k:with { grid = { blocks } }:source("adjoint"):find("atomicExch", 1, true) ~= nil)
    end
  end)

  it("is asked again for each launch: the value of a parameter", function()
    local k = flame.kernel { source = "__global__ void k(const float *x, float *y, int w) { " ..
      "int j = threadIdx.y * w + threadIdx.x; y[j] = x[j] * x[j]; }", block = { 2, 2 },
      grid = { 1 }, shape = { 4 } }
    local x = flame.tensor { 1, 2, 3, 4 }
    assert.same(squares, gradient(k, x, 2))
    assert.same({ 2, 4, 6, 0 }, gradient(k, x, 1))
    assert.same({ 2, 4, 0, 0 }, gradient(k, x, 0))
    assert.same(squares, gradient(k, x, 2))
  end)

  it("compares numbers that all threads have by their expressions", function()
    for body, exchanged in pairs {
      ["int w = at[0]; if (t < w) y[b * w + t] = x[t];"] = false,
      ["if (t < at[n]) y[b * at[n] + t] = x[t];"] = false,
      ["int w = __popc(n); if (t < w) y[b * w + t] = x[t];"] = false,
      ["int w = at[0], v = at[1]; if (t < w) y[b * v + t] = x[t];"] = true,
      ["int w = __popc(n), v = __popc(n + 1); if (t < w) y[b * v + t] = x[t];"] = true,
      ["int w = at[0]; int u = w; if (n > 3) w = at[1]; if (t < u) y[b * w + t] = x[t];"] = true,
      ["int w = at[0]; if (n > 3) w = at[1]; int p = t < w; w = at[2]; if (p) y[b * w + t] = x[t];"] = true,
    } do
      local k = flame.kernel { source = "__global__ void k(const int *at, const float *x, " ..
        "float *y, int n) {\n  int t = threadIdx.x, b = blockIdx.x;\n  " .. body .. "\n}",
        block = { 12 }, grid = { 2 }, shape = { 64 } }
      assert(exchanged == (k:source("adjoint"):find("atomicExch", 1, true) ~= nil), body)
    end
  end)

  it("keeps stores plain whose elements are one thread's own", function()
    for body, exchanged in pairs {
      ["y[i / 4 * 4 + i % 4] = x[i];"] = false, ["y[i / 4 * 5 + i % 4] = x[i];"] = false,
      ["y[i % 4 * 3 + i / 4] = x[i];"] = false,
      ["y[(i & 3) * 3 + (i >> 2)] = x[i];"] = false, ["if (i % 4 == 0) y[i / 4] = x[i];"] = false,
      ["if (threadIdx.x == 0) y[blockIdx.x] = x[i];"] = false,
      ["int lane = i & 31, w = i >> 5; if (!lane) y[w] = x[i];"] = false,
      ["y[n - 1 - i] = x[i];"] = false, ["y[2 * i] = x[i]; y[2 * i + 1] = x[i] * x[i];"] = false,
      ["for (int j = i % 4; j < 8; j += 4) y[i / 4 * 8 + j] = x[i];"] = false,
      ["for (int j = 2 * threadIdx.x; j < 64; j += 2 * blockDim.x) y[j] = x[i];"] = false,
      ["for (int j = i % 4; j < 8; j += 2) y[i / 4 * 8 + j] = x[i];"] = true,
      ["for (int j = i % 4; j < 9; j += 4) y[i / 4 * 8 + j] = x[i];"] = true,
      ["for (int j = 2 * threadIdx.x; j < 64; j += blockDim.x) y[j] = x[i];"] = true,
      ["for (int j = n - 1 - (int)threadIdx.x; j >= 0; j -= blockDim.x) y[j] = x[i];"] = false,
      ["for (int j = n - 1 - (int)threadIdx.x; j >= 0; j -= 5) y[j] = x[i];"] = true,
      ["for (int j = n - 1 - 2 * (int)threadIdx.x; j >= 0; j -= blockDim.x) y[j] = x[i];"] = true,
      ["for (int j = 0; j > -8; --j) if (j < 4) y[40 + i * 4 + j] = x[i];"] = true,
      ["y[i % 4 * 2 + i / 4] = x[i];"] = true, ["if (i % 2 == 0) y[i / 4] = x[i];"] = true,
      ["y[i] = x[i]; y[i + 1] = x[i];"] = true,
    } do
      local k = flame.kernel { source = "__global__ void k(const float *x, float *y, int n) {\n" ..
        "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n  " .. body .. "\n}", block = { 12 },
        grid = { 1 }, shape = { 64 } }
      assert(exchanged == (k:source("adjoint"):find("atomicExch", 1, true) ~= nil), body)
    end
  end)

  -- In the loop of the adjoint an element of 'flag' is a variable, and a number becomes bool there.
  it("takes a number that becomes bool for 0 or 1", function()
    local x <const> = flame.arange(1.0, 9.0, { dtype = "f64" })
    for number, count in pairs {
      ["threadIdx.x"] = 1, ["3u * threadIdx.x + 2u * blockDim.x"] = 1, ["(int)threadIdx.x - 3"] = 1,
      ["(long long)threadIdx.x"] = 1, ["300 * (int)threadIdx.x"] = 1, ["threadIdx.y"] = 2,
      ["threadIdx.z"] = 3, ["(int)(threadIdx.z * 2 - threadIdx.x)"] = 3, ["n"] = 1, ["n - 2"] = 1,
    } do
      for _, use in ipairs { "flag[i]", "(flag[i] ? 1. : 0.)", "(flag[i] == true ? 1. : 0.)" } do
        local block <const> = ({ { 8 }, { 2, 4 }, { 2, 2, 2 } })[count]
        local k = flame.kernel { block = block, grid = { 1 }, source =
          "__global__ void k(const double *x, double *y, bool *flag, int n) {\n" ..
          "  int i = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);\n" ..
          "  double s = 0;\n  for (int j = 0; j < n; j++) {\n    flag[i] = false;\n    flag[i] += " ..
          number .. ";\n    s += x[i] * x[i] * " .. use .. ";\n  }\n  y[i] = s;\n}" }
        local v = x:detach():requires_grad_()
        local y, flag = k(v, 2)
        local set <const>, g <const> = flag:totable(), y:sum():gradients { v }[v]:totable()
        local some = number == "n - 2"
        for j = 1, 8 do
          some = some or set[j]
          assert.equal(set[j] and 2.0 * j * j or 0.0, y[j]:item())
          assert.equal(set[j] and 4.0 * j or 0.0, g[j], ("%s, %s: %d"):format(number, use, j))
        end
        assert(some, number)
      end
    end
  end)
end)
