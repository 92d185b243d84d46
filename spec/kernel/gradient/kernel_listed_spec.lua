--- Kernels whose loops rewrite elements of global memory of which nothing is known but that one
--- thread writes them: indices from memory and from data, lists of the least elements, sorting,
--- factorisation in place, steps with barriers. Fixed kernels, and random ones: derivatives must
--- satisfy <J v, u> = <v, J' u> and agree with central differences; where threads meet, the kernel
--- is refused, or the launch of its derivative. FLAME_FUZZ: number of random programs,
--- FLAME_FUZZ_SEED: first seed.
local flame = require "flame"
local generator = dofile("spec/support/generator.lua")
local judged = dofile("spec/kernel/kernel_judged.lua")
local proof = dofile("spec/kernel/kernel_proof.lua")
local machine = dofile("spec/support/machine.lua")

local runs = tonumber(os.getenv "FLAME_FUZZ" or 30)
local seed = tonumber(os.getenv "FLAME_FUZZ_SEED" or 1)
local ROWS <const>, N <const> = 3, 8

local function f64(rows, n, phase)
  local list = {}
  for e = 1, rows * n do list[e] = math.sin(1.3 * e + phase) * 0.8 + 0.01 * e end
  return flame.tensor(list, { dtype = "f64" }):reshape(rows, n)
end
local function i32(list) return flame.tensor(list, { dtype = "i32" }) end

--- Where row p is: in x or, with o.shared, in a shared array of so many elements, with code that
--- fetches it and puts it back. All in one line.
local function places(o)
  local row = (o.row or "perm[i]") .. " * n"
  if not o.shared then return "double *p = x + " .. row .. ";", "" end
  local array = o.dynamic and "extern __shared__ double tile[]" or
    ("__shared__ double tile[%d]"):format(o.shared)
  local loop = "for (int e = 0; e < n; ++e)"
  if o.by_block then loop = "__syncthreads(); for (int e = t; e < n; e += blockDim.x)" end
  local at = o.by_block and "" or " + " .. row
  return ("%s; double *p = tile%s; %s p[e] = x[%s + e]; %s"):format(array, at, loop, row,
    o.by_block and "__syncthreads();" or ""), (" %s x[%s + e] = p[e];"):format(loop, row)
end

--- A kernel in which thread i has row p of x, by a permutation in memory, and row q of w.
local function rows_kernel(body, o)
  o = o or {}
  local fetch, put = places(o)
  return flame.kernel { source = "__global__ void k(double *x, const double *w, const int *perm, const int *at, " ..
    "const int *len, int *zz, double *y, int n, int m) {\n  int i = " ..
    (o.by_block and "blockIdx.x, t = threadIdx.x" or "blockIdx.x * blockDim.x + threadIdx.x") ..
    ";\n  if (i >= 3) return;\n  " .. fetch ..
    " const double *q = w + i * n; int *z = zz + perm[i] * n;\n" ..
    "  int best = 0, c = 1; double a = 0.1 * i + w[0];\n  " .. body .. put .. "\n}",
    shared = o.dynamic and 8 * o.shared or nil,
    inout = { "x", "zz" }, shape = { ROWS }, block = { o.threads or o.by_block and 4 or 2 },
    grid = { o.by_block and 3 or 2 } }
end

local function call(k, x, w, m)
  local at = i32 { 3, 0, 5, 1, 7, 2, 6, 4 }
  local len = i32 { 5, 0, 11 }
  return k(x, w, i32 { 2, 0, 1 }, at, len, flame.zeros({ ROWS, N }, { dtype = "i32" }), N, m)
end

local function is_large(list)
  for _, v in ipairs(list) do
    if type(v) == "table" and is_large(v) or type(v) ~= "table" and not (math.abs(v) < 30) then
      return true
    end
  end
  return false
end

--- The error of the derivative of kernel k; nil: it is right.
local function wrong(k, m)
  local function f(x, w)
    local changed, _, y = call(k, x, w, m)
    return changed, y
  end
  local inputs = { f64(ROWS, N, 0.1 * m), f64(ROWS, N, 0.7) }
  local changed, y = f(table.unpack(inputs))
  local large = is_large(changed:totable()) or is_large(y:totable())
  local ok, why = pcall(function()
    local forward, reverse = proof.both_modes(f, inputs)
    local tol = (large and 1e-5 or 1e-8) * math.max(1, math.abs(forward))
    assert(math.abs(forward - reverse) <= tol, ("%.17g, %.17g"):format(forward, reverse))
    if not large then
      assert(flame.gradcheck(f, inputs, { order = 1, rtol = 1e-4, atol = 1e-5 }))
    end
  end)
  return not ok and why or nil
end

local fixed = {
  { "the least elements of a stream", [=[int size = 0, worst = 0; double most = 0;
    for (int j = 0; j < m; ++j) {
      double d = q[j % n] * q[(j * 3) % n] + 0.1 * j;
      if (size < 3) { p[size] = d; if (size == 0 || d > most) { most = d; worst = size; } size++; }
      else if (d < most) { p[worst] = d; most = d;
        for (int s = 0; s < 3; ++s) if (p[s] > most) { most = p[s]; worst = s; } }
    }
    y[i] = most;]=] },
  { "a sort by insertion", [=[for (int j = 1; j < n; ++j) { double v = p[j]; int s = j - 1;
      while (s >= 0 && p[s] > v) { p[s + 1] = p[s]; --s; } p[s + 1] = v * q[j]; }
    y[i] = p[0] * p[1];]=] },
  { "a factorisation", [=[for (int r = 0; r < n; ++r) p[r] = 2 + 0.3 * p[r];
    for (int s = 0; s < 2; ++s) for (int r = s + 1; r < 4; ++r) { p[4 - r] /= p[4 + s];
      for (int b = s + 1; b < 3; ++b) p[b + r] -= p[4 - r] * p[b]; }
    y[i] = p[7];]=] },
  { "no round in one thread", "for (int j = 0; j < len[i]; ++j) p[at[j % n]] *= p[at[(j + 1) % n]]; y[i] = p[0];" },
  { "an element read twice and written twice in a round",
    "for (int j = 0; j < m; ++j) { int e = at[j % n]; p[e] = p[e] * p[e]; p[e] = sin(p[e]) + p[e] * a; a = sin(a + p[e]); } y[i] = a;" },
  { "two arrays, one of integers", [=[for (int j = 0; j < m; ++j) { int e = z[c % n] % n; z[(e + j) % n] = (e + 3) % n;
      p[e] = p[e] * q[z[j % n]] + 0.1; c += z[e]; } y[i] = p[best];]=] },
  { "ways out of the loop", [=[for (int j = 0; j < m; ++j) { int e = at[j % n]; if (p[e] > 0.7) continue; p[e] = p[e] * p[(e + 1) % n] + 0.2;
      if (p[e] > 0.65 && j > 4) break; if (p[e] < -3) return; } y[i] = p[1] * p[2];]=] },
  { "a store after the loop, and one before", [=[p[at[1]] = q[2] * q[2]; for (int j = 0; j < m; ++j) { int e = at[(j + best) % n];
      if (p[e] > p[best]) best = e; p[e] = 0.5 * p[e] * p[at[1]]; } p[best] = sin(p[best]); y[i] = p[best] * p[at[2]];]=] },
  { "loops in a loop", [=[for (int r = 0; r < 3; ++r) { for (int j = 1; j < n; ++j) if (p[at[j]] < p[at[j - 1]]) {
      double v = p[at[j]]; p[at[j]] = p[at[j - 1]]; p[at[j - 1]] = 0.9 * v; }
      for (int j = 0; j < n; ++j) a += p[j] * q[j]; p[r] *= a; } y[i] = a;]=] },
  { "a do loop", "int j = 0; do { int e = at[j % n]; p[e] = sin(p[e] * p[(e + j) % n]); ++j; } while (p[at[j % n]] > -0.4 && j < m); y[i] = p[j % n];" },
}

local by_block = {
  { "farthest points", [=[__shared__ int far; for (int j = 0; j < m; ++j) { double u = q[best];
      for (int s = t; s < n; s += 4) p[s] = fmin(p[s], (q[s] - u) * (q[s] - u)); __syncthreads();
      if (t == 0) { far = 0; for (int s = 1; s < n; ++s) if (p[s] > p[far]) far = s; } __syncthreads(); best = far; }
    if (t == 0) y[i] = p[best];]=] },
  { "a wave front", [=[for (int j = 1; j < m; ++j) { for (int s = t; s < n; s += 4) { int e = j - s; double u = s > 0 ? p[s - 1] : 0;
      __syncthreads(); if (e >= 0 && e < n && s > 0) p[s] = log(exp(0.3 * p[s]) + exp(0.2 * u)) * q[e]; __syncthreads(); } }
    if (t == 0) y[i] = p[n - 1];]=] },
  { "elements that change hands", [=[for (int j = 0; j < m; ++j) { int e = (t + j) % 4 + 4 * (j & 1); double u = p[(e + 3) % 8]; __syncthreads();
      p[e] = 0.6 * p[e] * u + 0.1; __syncthreads(); } if (t == 0) y[i] = p[0];]=] },
  { "a barrier at the start of each round alone", [=[for (int j = 0; j < m; ++j) { __syncthreads();
      int e = (t + j) % 4; p[e] = sin(p[e] * p[e] + q[e]); } __syncthreads(); if (t == 0) y[i] = p[0];]=] },
  { "a barrier at the end of each round alone", [=[for (int j = 0; j < m; ++j) {
      int e = (t + j) % 4; p[e] = sin(p[e] * p[e] + q[e]); __syncthreads(); } if (t == 0) y[i] = p[0];]=] },
  { "elements that all threads have read before", [=[a = p[4 + t]; for (int s = 0; s < 4; ++s) a = sin(a * p[s]);
      for (int j = 0; j < m; ++j) { __syncthreads(); int e = (t + j) % 4; p[e] = a * p[e] * q[e] + q[e]; }
    __syncthreads(); if (t == 0) y[i] = p[0];]=] },
  { "integers that all threads have read before", [=[for (int s = 0; s < 4; ++s) a = sin(a * p[z[s]] + p[s]);
      for (int j = 0; j < m; ++j) { __syncthreads(); int e = (t + j) % 4; z[e] = (z[e] + j + 1) % n; }
    __syncthreads(); a += p[z[t]] * p[z[0]]; if (t == 0) y[i] = a;]=] },
}

-- index expressions within 0 … n - 1, and statements with places for them
local INDEX = { "at[j % n]", "(j * 3 + 1) % n", "j % n", "n - 1 - j % n", "best", "(best + j) % n",
  "at[(j + best) % n]", "(a > 0.1 ? 1 : 0)", "c % n", "at[at[j % n]]", "2 % n" }
local STEPS = {
  "p[I] = sin(p[I] * p[J]) + q[K];", "p[I] = 0.8 * p[I] + 0.3 * p[J] * a;",
  "p[I] *= 0.9 + 0.1 * sin(p[J]);",
  "p[I] += 0.5 * p[J] * q[K];", "{ double v = p[I]; p[I] = p[J]; p[J] = v; }", "a = sin(a + p[I]);",
  "if (p[I] > p[J]) { double v = p[I]; p[I] = p[J]; p[J] = v; best = I; }", "a += p[I] * p[J];",
  "p[I] = a * p[I] + q[J];", "if (q[I] < p[J]) { p[J] = q[I] * p[K]; best = J; }",
  "if (p[I] > 0.3) continue;",
  "if (p[I] > 0.9 && j > 2) break;", "for (int s = 0; s < n; ++s) if (p[s] > p[best]) best = s;",
  "for (int s = 1; s < n; ++s) { if (p[s] < p[s - 1]) { double v = p[s]; p[s] = p[s - 1]; p[s - 1] = 0.9 * v; } }",
  "for (int s = 0; s < c % 4; ++s) p[I] = p[I] * p[s % n] + 0.1;", "c++;",
  "if (j % 2 == 0) p[I] -= q[J] * q[J];", "z[c % n] = I;", "c = z[best] + 1;",
  "if (p[I] > 1.5) return;",
  "p[I] = fmin(p[I], q[J]);", "p[I] = fmax(p[J], a);", "p[z[J] % n] = p[I] * 0.7 + a;",
  "{ int s = I; while (s > 0 && p[s - 1] > p[s]) { double v = p[s]; p[s] = p[s - 1]; p[s - 1] = v; --s; } }",
}
local HEADS = { "for (int j = 0; j < m; ++j)", "for (int j = m - 1; j >= 0; --j)",
  "for (int j = 0; j < 3; ++j)",
  "for (int j = 0; j < len[i]; ++j)", "for (int j = i; j < m; j += 2)",
  "for (int j = 0; j < m && a < 2.0; ++j)" }
local TAILS = { "p[0] = 0.25;", "p[n - 1] = a * a;", "p[best] = p[1] * q[0];",
  "p[1] = sin(p[best]);" }

--- The body of a random kernel.
local function program(r)
  local pick = r.pick
  local function steps()
    local list = {}
    for s = 1, r.int(2, 4) do
      local at = {}
      for _, place in ipairs { "I", "J", "K" } do at[place] = "(" .. pick(INDEX) .. ")" end
      list[s] = pick(STEPS):gsub("%f[%w][IJK]%f[%W]", at)
    end
    return table.concat(list, "\n    ")
  end
  local list = {}
  for _ = 1, r.int(1, 2) do
    local body = steps()
    if r.chance(0.25) then
      body = body .. "\n    for (int r = 0; r < 2; ++r) { int f = j; { int j = f + r; " ..
        steps() .. " } }"
    end
    list[#list + 1] = pick(HEADS) .. " {\n    " .. body .. "\n  }"
    if r.chance(0.33) then list[#list + 1] = pick(TAILS) end
  end
  return table.concat(list, "\n  ") .. "\n  y[i] = a + p[best];"
end

-- steps of the threads of a block, each followed by a barrier: A and B are the halves of p
local TOGETHER = {
  "for (int e = t; e < h; e += T) A[e] = sin(A[e] * q[I]) + 0.3 * A[e];",
  "for (int e = t; e < h; e += T) { A[e] = A[e] * A[e] + 0.1 * q[I]; A[e] = A[e] * B[I]; }",
  "for (int e = t; e < h; e += T) B[e] = 0.6 * A[e] * A[(e + 1) % h] + 0.2 * B[e];",
  "for (int e = t; e < h; e += T) p[(1 - cur) * h + e] = e >= d ? sin(p[cur * h + e] * p[cur * h + e - d]) : " ..
    "p[cur * h + e]; __syncthreads(); cur = 1 - cur; d = d < h ? 2 * d : 1;",
  "if (t == 1) for (int e = 1; e < h; ++e) A[e] = 0.7 * A[e] * A[e - 1] + q[I];",
  "for (int e = 2 * t + (j & 1); e + 1 < h; e += 2 * T) if (A[e] > A[e + 1]) { double v = A[e]; A[e] = A[e + 1]; A[e + 1] = 0.9 * v; }",
  "for (int r = 1 + t; r < h; r += T) { double f = A[r] / (2 + A[0] * A[0]); A[r] = f; for (int c = 0; c < h; ++c) A[r] -= f * B[c]; }",
  "{ double u = A[(t + 1) % h]; __syncthreads(); if (t < h) A[t] = 0.5 * u * A[t] + 0.1; }",
  "if (t == 0) { int s = h - 1; while (s > 0 && A[s - 1] > A[s]) { double v = A[s]; A[s] = A[s - 1]; A[s - 1] = v; --s; } }",
  "a = sin(a + A[I]);", "a += A[I] * B[I];", "if (t < h) B[t] = sin(a) * B[t];",
}

--- The body of a random kernel in which the threads of a block share a row.
local function together(r)
  local list = { "const int h = n / 2, T = blockDim.x;",
    "double *A = p, *B = p + h; int cur = 0, d = 1;" }
  local function steps(indent)
    for _ = 1, r.int(1, 3) do
      local at = "(" .. r.pick { "j % h", "at[j % n] % h", "(j + t) % h", "h - 1" } .. ")"
      local step = r.pick(TOGETHER):gsub("%f[%w]I%f[%W]", { I = at })
      list[#list + 1] = indent .. step .. " __syncthreads();"
    end
  end
  for _ = 1, r.int(1, 2) do
    list[#list + 1] = r.pick { HEADS[1], HEADS[2], HEADS[3] } .. " {"
    steps "  "
    if r.chance(0.3) then
      list[#list + 1] = "  for (int s = 0; s < 2; ++s) {"
      steps "    "
      list[#list + 1] = "  }"
    end
    list[#list + 1] = "}"
  end
  list[#list + 1] = "if (t < h) A[t] += 0.1 * a; __syncthreads(); if (t == 0) y[i] = A[h - 1];"
  return table.concat(list, "\n  ")
end

describe("a loop that rewrites elements of one thread has a gradient:", function()
  for _, c in ipairs(fixed) do
    for _, o in ipairs { {}, { shared = 24 }, { shared = 24, dynamic = true } } do
      local where = o.dynamic and "dynamic shared" or o.shared and "shared" or "global"
      it(("in %s memory, %s"):format(where, c[1]), function()
        for _, m in ipairs { 0, 1, 5, 40 } do assert.is_nil(wrong(rows_kernel(c[2], o), m)) end
        judged.compiles(rows_kernel(c[2], o))
      end)
    end
  end
  for _, c in ipairs(by_block) do
    for _, shared in ipairs { 0, 8, 2000 } do      -- the last is too large for copies
      it(("with barriers, shared %d, "):format(shared) .. c[1], function()
        local o = { by_block = true, shared = shared > 0 and shared }
        for _, m in ipairs { 0, 1, 5, 30 } do assert.is_nil(wrong(rows_kernel(c[2], o), m)) end
        judged.compiles(rows_kernel(c[2], o))
      end)
    end
  end

  it("random ones", function()
    for s = seed, seed + runs - 1 do
      local r = generator(s)
      local body = program(r)
      local o = { row = r.pick { "perm[i]", "i" }, shared = r.chance(0.5) and 24, dynamic = false }
      o.dynamic = o.shared and r.chance(0.4)
      local why = wrong(rows_kernel(body, o), r.int(1, 14))
      assert(not why or tostring(why):find("cannot be differentiated", 1, true),
        tostring(why) .. "\n" .. body)
    end
  end)

  it("random ones of the threads of a block", function()
    for s = seed, seed + runs - 1 do
      local r = generator(s)
      local body = together(r)
      local o = { by_block = true, threads = r.pick { 1, 2, 4, 7 } }
      o.shared = r.pick { false, 8, 2000 }
      o.dynamic = o.shared == 8 and r.chance(0.4)
      local why = wrong(rows_kernel(body, o), r.int(0, 14))
      assert(not why or tostring(why):find("cannot be differentiated", 1, true),
        tostring(why) .. "\n" .. body)
    end
  end)

  it("to second order", function()
    local k = rows_kernel(fixed[5][2])
    local function f(x, w)
      local changed, _, y = call(k, x, w, 6)
      return changed, y
    end
    proof.check(f, { f64(ROWS, N, 0.2), f64(ROWS, N, 0.7) },
      { order = 2, rtol = 1e-3, atol = 1e-4 })
  end)

  it("in each of the launches of a batch", function()
    local k = rows_kernel(fixed[2][2])
    local function one(x, w) return select(3, call(k, x, w, 3)) end
    local a = f64(2 * ROWS, N, 0.3):reshape(2, ROWS, N)
    local b = f64(2 * ROWS, N, 0.9):reshape(2, ROWS, N)
    local x = a:detach():requires_grad_()
    flame.vmap(one)(x, b):sum():backward()
    for j = 1, 2 do
      local alone = a[j]:clone():requires_grad_()
      one(alone, b[j]):sum():backward()
      assert(flame.allclose(alone.grad, x.grad[j]))
    end
  end)
end)

describe("a loop that rewrites elements is refused, or the launch of its derivative,", function()
  -- with checks the kernels themselves are told to have races
  local it = os.getenv "FLAME_PROOF_CHILD" and function() end or it
  local function told(body, o)
    local why = tostring(wrong(rows_kernel(body, o), 5))
    assert(why:find("of one thread", 1, true) or why:find("cannot be differentiated", 1, true), why)
    assert(why:find("line 6", 1, true), why)
  end

  it("where all threads write one element", function()
    told("for (int j = 0; j < m; ++j) x[at[j % n]] = x[at[j % n]] * x[at[j % n]]; y[i] = x[0];")
  end)
  it("where threads write one element between barriers", function()
    told("for (int j = 0; j < m; ++j) { p[at[j % n]] *= p[at[j % n]]; __syncthreads(); } y[i] = p[0];",
      { by_block = true })
  end)
  it("where one thread reads what another one writes", function()
    told("for (int j = 0; j < m; ++j) p[at[j % n]] *= x[at[j % n]]; y[i] = p[0];")
    told("for (int j = 0; j < m && x[at[j % n]] < 5; ++j) p[at[j % n]] *= q[1]; y[i] = p[0];")
    told("for (int j = 0; j < m; ++j) if (q[0] > -9 && x[at[j % n]] < 5) p[at[j % n]] *= q[1]; y[i] = p[0];")
  end)
  it("where blocks meet", function()
    told("for (int j = 0; j < m; ++j) { if (t == 0) x[at[j % n]] *= q[0]; __syncthreads(); } y[i] = x[0];",
      { by_block = true })
  end)
  it("where its sums are atomic", function()
    told("for (int j = 0; j < m; ++j) { atomicAdd(&p[at[j % n]], q[j % n]); p[at[(j + 1) % n]] *= p[0]; } y[i] = p[0];")
  end)
end)

it("a claim that fails on a GPU fails what rests on it, and the session goes on", function()
  if os.getenv "FLAME_CHECK" then return end         -- with checks such a run is no graph
  local folder = machine.new()
  local ok, text = pcall(machine.run, folder, [=[
    local k = flame.kernel { inout = { "x" }, source = [[__global__ void k(float *x, const int *at, int n) {
      float *p = x + at[threadIdx.x] * n;
      for (int j = 1; j < n; ++j)
        for (int k = j; k > 0 && p[k - 1] > p[k]; --k) { float t = p[k]; p[k] = p[k - 1]; p[k - 1] = t; }
    }]], block = { 2 }, grid = { 1 } }
    local function run(device, at)
      local x = flame.tensor({ { 3, 2, 1 }, { 5, 9, 4 } }, { device = device, requires_grad = true })
      local w = flame.tensor({ { 1, 2, 3 }, { 4, 5, 6 } }, { device = device, requires_grad = true })
      local y = k(x * 1, flame.tensor(at, { dtype = "i32", device = device }), 3)
      local loss = (y * w):sum() + (w * w):sum()
      loss:backward()
      return x, w
    end
    local function grads(...)
      local x, w = run(...)
      return flame.cat({ x.grad, w.grad }):totable()
    end
    local function flat(t) return table.concat(t[1], " ") .. "; " .. table.concat(t[2], " ") end
    local function told(...)
      local ok, why = pcall(...)
      assert(not ok)
      return (why:gsub("^.-: k_vjp: ", ""):gsub("in thread.*", ""))
    end
    local cpu = told(grads, "cpu", { 1, 1 })
    for round = 1, 4 do
      local x, w = run("cuda", { 1, 1 })
      assert(told(x.grad.totable, x.grad) == cpu and told(x.grad.totable, x.grad) == cpu)
      assert(flat(w.grad:totable()) == "5.0 6.0 7.0; 12.0 15.0 21.0", flat(w.grad:totable()))
      for _ = 1, 3 do assert(flat(grads("cpu", { 1, 0 })) == flat(grads("cuda", { 1, 0 }))) end
    end
    print(cpu, flame.stats().replays > 4)]=], 'FLAME_REPLAY=2 FAKE_CUDA="computes=1"')
  machine.remove(folder)
  assert(ok, text)
  assert.matches("^kernel 'k_vjp', line 4 [^\n]*of one thread[^\n]*\ttrue\n$", text)
end)

it("an assertion of a kernel that fails in a replayed run on a GPU does so as well", function()
  if os.getenv "FLAME_CHECK" then return end         -- with checks such a run is no graph
  local folder = machine.new()
  local ok, text = pcall(machine.run, folder, [=[
    local k = flame.kernel { source = [[__global__ void k(const float *x, const int *at, float *y, int n) {
      __shared__ float tile[64]; int t = threadIdx.x, e = at[t];
      assert(e >= 0 && e < n); tile[t] = x[e]; __syncthreads();
      y[t] = tile[63 - t] + __shfl_xor_sync(~0u, tile[t], 1); }]], block = { 64 }, grid = { 1 }, shape = { 64 } }
    local function list(bad)
      local l = {}
      for i = 1, 64 do l[i] = i == bad and 1 << 29 or 64 - i end
      return flame.tensor(l, { dtype = "i32" })
    end
    local x, at, good, bad = flame.ones(64):requires_grad_(), list(), list(), { list(1), list(42) }
    local told = {}
    for step = 1, 12 do
      at:copy_(step % 4 == 0 and bad[step // 4 % 2 + 1] or good)
      flame.eval(at)
      local before = flame.stats().replays
      x.grad = nil
      local y = (k(x * 2, at, 64) * 3 + 1) * 2
      local loss = (y * y):sum()
      loss:backward()
      local ok, why = pcall(flame.eval)
      local replayed = flame.stats().replays - before
      told[step] = (ok and "" or why:match "k: kernel.*block %b()") .. replayed
      assert(ok == pcall(loss.item, loss) and ok == pcall(x.grad.totable, x.grad))
      assert(not ok or loss:item() == 43264 and x.grad:sum():item() == 79872)
    end
    print(table.concat(told, "|"))]=], 'FLAME_REPLAY=2 FAKE_CUDA="computes=1"')
  machine.remove(folder)
  assert(ok, text)
  local why = "k: kernel 'k', line 3 (%s): assert(e >= 0 && e < n) failed in thread (%d, 0, 0) of block (0, 0, 0)"
  local where = text:match "line 3 %((.-)%): "
  local at = function(thread) return why:format(where, thread) end
  -- after each text: how many replays the run was, of which one that fails is none
  assert.equal(("0|0|1|%s0|1|1|1|%s0|1|1|1|%s0\n"):format(at(41), at(0), at(41)), text)
end)

it("the derived kernels of loops that list elements have no races", function()
  proof.checked("spec/kernel/gradient/kernel_listed_spec.lua", "race,bounds,uninit")
end)
