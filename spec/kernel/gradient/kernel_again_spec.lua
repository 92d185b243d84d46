--- Sums that atomics make in global memory and that the kernel reads again: in one block, in blocks
--- that each have their elements, between barriers of the grid, and where the last block sums what
--- all have written. Gradients must agree with central differences, and <J v, u> = <v, J' u>; where
--- threads may read too early, the kernel is refused, or the launch of its derivative. FLAME_FUZZ:
--- number of random programs, FLAME_FUZZ_SEED: first seed.
-- luacheck: no max line length
local flame = require "flame"
local generator = dofile("spec/support/generator.lua")
local judged = dofile("spec/kernel/kernel_judged.lua")
local proof = dofile("spec/kernel/kernel_proof.lua")
local machine = dofile("spec/support/machine.lua")

local runs = tonumber(os.getenv "FLAME_FUZZ" or 30)
local seed = tonumber(os.getenv "FLAME_FUZZ_SEED" or 1)
local THREADS <const> = 8

local function f64(n, phase)
  local list = {}
  for e = 1, n do list[e] = math.sin(1.3 * e + phase) * 0.8 + 0.01 * e end
  return flame.tensor(list, { dtype = "f64" })
end

--- A kernel of x, bin, the sums acc (4 for each block, and n), part (n), two counters; results acc,
--- part, y (n). n: elements; o.block: threads, o.grid: blocks. SYNC in the body is the barrier.
local function kernel(body, n, o)
  local sync = o.grid_sync and "cooperative_groups::this_grid().sync()" or "__syncthreads()"
  local source = (o.grid_sync and "#include <cooperative_groups.h>\n" or "") ..
    "__global__ void k(const double *x, const int *bin, double *acc, double *part, int"
      .. " *count, double *y, int n) {\n" ..
    "  int t = threadIdx.x, b = blockIdx.x, i = b * blockDim.x + t, all = gridDim.x *"
      .. " blockDim.x;\n" ..
    "  double v = i < n ? x[i] : 0.0, u = 0.0;\n  " .. body:gsub("SYNC", sync) .. "\n}"
  local blocks = o.blocks or o.one_block and 1 or (n + THREADS - 1) // THREADS
  return flame.kernel { source = source, inout = { "acc", "part", "count" }, shape = { n },
    block = { o.one_block and n or THREADS }, grid = { math.max(blocks, 1) } }
end

local function call(k, x, acc, part, n)
  local bins, device = {}, x.device
  for e = 1, n do bins[e] = (e * 7) % 4 end
  local a, p, _, y = k(x, flame.tensor(bins, { dtype = "i32", device = device }), acc, part,
    flame.zeros({ 2 }, { dtype = "i32", device = device }), n)
  return a, p, y
end

--- The error of the derivative of the kernel; nil: it is right.
local function wrong(body, n, o)
  local k = kernel(body, n, o)
  local function f(x, acc, part) return call(k, x, acc, part, n) end
  local inputs = { f64(n, 0.2), f64(4 * ((n + THREADS - 1) // THREADS) + n, 2), f64(n, 0.7) }
  local ok, why = pcall(function()
    assert(flame.gradcheck(f, inputs, { order = 1, rtol = 1e-4, atol = 1e-5 }))
    if o.both ~= false then
      local forward, reverse = proof.both_modes(f, inputs)
      assert(math.abs(forward - reverse) <= 1e-8 * math.max(1, math.abs(forward)),
        ("%.17g, %.17g"):format(forward, reverse))
    end
  end)
  return not ok and why or nil
end

local ONE <const>, ROWS <const>, GRID <const> = { one_block = true }, {}, { grid_sync = true }
-- of the counted kernels the tangent waits for the last block as well
local fixed = {
  { "a histogram that is read by the block that made it", ONE,
    "atomicAdd(&acc[bin[i]], v * v); SYNC; y[i] = v / (1 + acc[bin[i]] * acc[bin[i]]);" },
  { "sums of loops", ONE, "for (int j = i; j < n; j += 3) atomicAdd(&acc[bin[j]], x[j] * v);"
    .. " SYNC; y[i] = sin(acc[t % 4]);" },
  { "two sums, of which the second needs the first", ONE,
    "atomicAdd(&acc[0], v); SYNC; u = v - acc[0] / n; atomicAdd(&acc[1], u * u); SYNC; y[i] ="
      .. " u * rsqrt(acc[1] * acc[1] + 1);" },
  { "one sum that is read, added to and read again", ONE,
    "atomicAdd(acc, v); SYNC; u = sin(*acc); SYNC; atomicAdd(acc, u * v); SYNC; y[i] = *acc *"
      .. " *acc * u;" },
  { "elements that are set before", ONE, "if (t < 4) acc[t] = 0.5; SYNC;"
    .. " atomicAdd(&acc[bin[i]], v * v); SYNC; y[i] = v / acc[bin[i]];" },
  { "sums of a block in its own elements", ROWS,
    "double *h = acc + 4 * b; if (i < n) atomicAdd(&h[bin[i]], v * v); SYNC; if (i < n) y[i]"
      .. " = v / (1 + h[bin[i]] * h[0]);" },
  { "elements of a thread alone", ROWS, "if (i < n) { atomicAdd(&part[i], v * v); y[i] = v /"
    .. " (2 + part[i] * part[i]); }" },
  { "a norm over the grid", GRID, "if (i < n) atomicAdd(acc, v * v); SYNC; if (i < n) y[i] ="
    .. " v / sqrt(2 + *acc * *acc);" },
  { "a histogram over the grid", GRID, "if (i < n) atomicAdd(&acc[bin[i]], exp(v)); SYNC; if"
    .. " (i < n) y[i] = exp(v) / (3 + acc[bin[i]] * acc[bin[i]]);" },
  { "mean and variance over the grid", GRID, [[if (i < n) atomicAdd(&acc[0], v); SYNC; u = v -
    acc[0] / n;
    if (i < n) atomicAdd(&acc[1], u * u); SYNC; if (i < n) y[i] = u * rsqrt(acc[1] * acc[1] +
    1);]] },
  { "partial sums, and block 0 that reads them", GRID,
    "if (i < n) atomicAdd(&part[b], v * v); SYNC; if (i == 0) for (int j = 0; j < gridDim.x;"
      .. " ++j) u += part[j] * part[j]; SYNC; if (i == 0) y[0] = sqrt(u);" },
  { "steps in time over the grid", GRID, [[for (int s = 0; s < 5; ++s) { if (i < n) u = part[i]
    * part[(i + 1) % n]; SYNC;
    if (i < n) part[i] = sin(u) + v; SYNC; } if (i < n) y[i] = part[i];]] },
  { "two buffers over the grid", GRID, [[double *p = part, *q = acc; for (int s = 0; s < 4; ++s)
    { if (i < n) q[i] = p[i] * p[(i + 1) % n] + v; SYNC;
    double *z = p; p = q; q = z; } if (i < n) y[i] = p[i];]] },
  { "the last block sums", ROWS, [[__shared__ double s[8]; __shared__ bool last; s[t] = i < n ?
    v * v : 0.0; SYNC;
    for (int d = 4; d > 0; d /= 2) { if (t < d) s[t] += s[t + d]; SYNC; }
    if (t == 0) { part[b] = s[0]; __threadfence(); last = atomicInc((unsigned *)count,
    gridDim.x) == gridDim.x - 1; } SYNC;
    if (last) { for (int j = t; j < gridDim.x; j += blockDim.x) u += part[j] * part[j]; s[t] =
    u; SYNC;
      for (int d = 4; d > 0; d /= 2) { if (t < d) s[t] += s[t + d]; SYNC; } if (t == 0) { y[0] =
      sqrt(s[0]); *count = 0; } }]] },
  { "the last thread sums", ROWS, [[__shared__ double s[8]; s[t] = i < n ? v * v : 0.0; SYNC;
    if (t == 0) { for (int j = 0; j < 8; ++j) u += s[j]; part[b] = u; __threadfence();
      if (atomicAdd(count, 1) == gridDim.x - 1) { u = 0; for (int j = 0; j < gridDim.x; ++j) u
      += part[j]; y[0] = sqrt(u); } }]] },
  { "the last block reads a sum of all", ROWS, [[if (i < n) atomicAdd(acc, v * v);
    __threadfence(); SYNC;
    if (t == 0) { int c = atomicAdd(count, 1); if (c == gridDim.x - 1) y[0] = sqrt(2 + *acc *
    *acc); }]] },
  { "the last block and the greatest", ROWS, [[__shared__ double s[8]; __shared__ int ticket;
    s[t] = i < n ? v : -9.0; SYNC;
    for (int d = 4; d > 0; d /= 2) { if (t < d) s[t] = fmax(s[t], s[t + d]); SYNC; }
    if (t == 0) { part[b] = s[0]; __threadfence(); ticket = atomicAdd(count, 1); } SYNC;
    if (ticket == gridDim.x - 1 && t == 0) { u = part[0]; for (int j = 1; j < gridDim.x; ++j) u
    = fmax(u, part[j]); y[0] = u * u; }]] },
}

-- what all blocks have done with an element, and what the last block then does with it
for _, first in ipairs { "part[i] = v * v;", "part[i] += v * v;", "atomicAdd(&part[i], v * v);",
    "u = part[i] * part[i];" } do
  for _, second in ipairs { "part[t] = sin(v);", "part[t] += sin(v);",
      "atomicAdd(&part[t], sin(v));", "for (int j = 0; j < 2; ++j) part[t] = sin(v) + j;" } do
    fixed[#fixed + 1] = { "the last block, after " .. first .. ": " .. second, ROWS,
      "__shared__ bool last; if (i < n) { " .. first .. " y[i] = v * u; } __threadfence(); SYNC;"
        .. " if (t == 0) last = atomicAdd(count, 1) == gridDim.x - 1; SYNC; if (last && t < n) { "
        .. second .. " }" }
  end
end

-- maxima by the bits of positive numbers; no tangent
local maxima = {
  { "a softmax", ONE, [=[__shared__ long long m; __shared__ double s; if (t == 0) { m = 0; s =
    0; } SYNC; v = v * v;
    atomicMax(&m, __double_as_longlong(v)); SYNC; u = exp(v - __longlong_as_double(m));
    atomicAdd(&s, u); SYNC; y[i] = u / s;]=] },
  { "a real number in shared memory", ONE, [=[__shared__ double m; if (t == 0) m = 0.3 * v * v;
    SYNC;
    atomicMax((unsigned long long *)&m, (unsigned long long)__double_as_longlong(v * v)); SYNC;
    y[i] = v * v / (0.1 + m) + sin(m);]=] },
  { "an old value that stays", ONE, [=[__shared__ double m; if (t == 0) m = 100 + v * v; SYNC;
    atomicMax((unsigned long long *)&m, (unsigned long long)__double_as_longlong(v * v)); SYNC;
    y[i] = v / m + sin(m);]=] },
  { "several elements, in a loop", ONE, [=[__shared__ unsigned long long m[4]; if (t < 4) m[t] =
    0; SYNC;
    for (int j = t; j < n; j += 3) atomicMax(&m[bin[j]], (unsigned long
    long)__double_as_longlong(exp(x[j]))); SYNC;
    for (int q = 0; q < 4; ++q) u += sin(__longlong_as_double(m[q])); y[i] = u * v;]=] },
  { "two maxima of one element", ONE, [=[__shared__ long long m; if (t == 0) m = 0; SYNC;
    atomicMax(&m, __double_as_longlong(exp(v))); atomicMax(&m, __double_as_longlong(exp(sin(2 *
    v)))); SYNC; u = __longlong_as_double(m); y[i] = u * u * v;]=] },
  { "one for each round of a loop", ROWS, [=[__shared__ long long m; for (int r = 0; r < 3; ++r)
    { if (t == 0) m = 0; SYNC;
    for (int j = t; j < n; j += blockDim.x) atomicMax(&m, __double_as_longlong(exp(x[j] * (r +
    1)))); SYNC;
    u += sin(__longlong_as_double(m)) * v; SYNC; } if (i < n) y[i] = u;]=] },
  { "a minimum, and bits that are compared", ONE, [=[__shared__ long long m; if (t == 0) m =
    0x7fefffffffffffffll; SYNC; v = exp(v);
    atomicMin(&m, __double_as_longlong(v)); SYNC; y[i] = __double_as_longlong(v) == m ? v * v :
    v * __longlong_as_double(m);]=] },
  { "in global memory, of one block", ONE, "if (t < 4) acc[t] = 0; SYNC; atomicMax((long long"
    .. " *)&acc[bin[i]], __double_as_longlong(exp(v))); SYNC; y[i] = v * acc[bin[i]] +"
    .. " sin(acc[0]);" },
  { "in global memory, of blocks with their elements", ROWS, [=[double *h = acc + 4 * b; if (t
    == 0) h[0] = 0; SYNC;
    atomicMax((long long *)h, __double_as_longlong(exp(v))); SYNC; if (i < n) y[i] = v * h[0] *
    h[0];]=] },
  { "in global memory, over the grid", GRID, [=[if (i == 0) acc[0] = 0; SYNC; if (i < n)
    atomicMax((long long *)acc, __double_as_longlong(exp(v))); SYNC;
    if (i < n) y[i] = v * acc[0] * acc[0];]=] },
  { "of both signs, not read again", ROWS, [=[if (i < n) { if (v >= 0) atomicMax((long long
    *)&acc[0], __double_as_longlong(v));
    else atomicMin((unsigned long long *)&acc[0], (unsigned long long)__double_as_longlong(v));
    y[i] = v; }]=] },
}

-- statements between barriers; I: an index of acc
local STEPS = {
  "if (i < n) atomicAdd(&acc[I], v * x[i]);", "if (i < n) atomicAdd(&acc[I], sin(u) + 0.5);",
    "if (i < n) atomicAdd(&acc[I], -0.3 * v);",
  "for (int j = i; j < n; j += all) atomicAdd(&acc[bin[j]], 0.2 * x[j] * v);", "u +="
    .. " sin(acc[I]);", "v = 0.5 * v + acc[I] * u;",
  "u = sin(u * acc[I]) + acc[I] * acc[I];", "if (i < 4) acc[i] = 0.4 * acc[i] * acc[i];", "if"
    .. " (i < n) part[i] = v * u;", "u += part[(i + 1) % n];",
  "if (i < n) part[i] += 0.5 * u;", "if (i < n) part[(i + 3) % n] = sin(v);", "if (i < n)"
    .. " atomicAdd(&part[(i * 3 + 1) % n], 0.3 * v);", "if (i == 0) acc[1] = sin(acc[2]);",
}

local function program(r)
  local list = {}
  local function steps(count)
    for _ = 1, count do
      local step = r.pick(STEPS):gsub("%f[%w]I%f[%W]", { I = r.pick { "i % 4", "bin[i % n]",
        "0", "3", "(i / 2) % 4" } })
      list[#list + 1] = step .. " SYNC;"
    end
  end
  steps(r.int(2, 5))
  if r.chance(0.3) then
    list[#list + 1] = "for (int s = 0; s < 3; ++s) {"
    steps(r.int(1, 3))
    list[#list + 1] = "}"
    steps(1)
  end
  list[#list + 1] = "if (i < n) y[i] = u + v * v;"
  return table.concat(list, "\n  ")
end

local function is_refused(why) return tostring(why):find("cannot be differentiated", 1, true) end

describe("sums of atomics that are read again have a gradient:", function()
  for _, c in ipairs(fixed) do
    it(c[1], function()
      for _, n in ipairs { 1, 8, 21 } do assert.is_nil(wrong(c[3], n, c[2])) end
      judged.compiles(kernel(c[3], 21, c[2]))
    end)
  end

  for _, c in ipairs(maxima) do
    it("maxima: " .. c[1], function()
      for _, n in ipairs { 1, 8, 21 } do
        local o = { both = false, one_block = c[2].one_block, grid_sync = c[2].grid_sync }
        assert.is_nil(wrong(c[3], n, o))
      end
      judged.compiles(kernel(c[3], 21, c[2]))
    end)
  end

  it("random ones, in one block and over the grid", function()
    for s = seed, seed + runs - 1 do
      local r = generator(s)
      local body, n = program(r), r.pick { 1, 5, 8, 19 }
      local why = wrong(body, n, r.pick { ONE, GRID })
      assert(not why or is_refused(why), tostring(why) .. "\n" .. body)
    end
  end)

  it("on a GPU as on the CPU, where a claim fails as well", function()
    if os.getenv "FLAME_CHECK" then return end
    local folder = machine.new()
    local ok, text = pcall(machine.run, folder, [=[
      local k = flame.kernel { inout = { "sum" }, source = [[__global__ void k(const float *x,
      const int *at, float *sum, float *y, int n) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        const int e = at[blockIdx.x];
        if (i < n) atomicAdd(&sum[e], x[i] * x[i]);
        __syncthreads();
        if (i < n) y[i] = x[i] * sum[e];
      }]], block = { 8 }, grid = { 3 }, shape = { 21 } }
      local function grads(device, at)
        local list = {}
        for e = 1, 21 do list[e] = math.sin(e) end
        local x = flame.tensor(list, { device = device, requires_grad = true })
        local _, y = k(x, flame.tensor(at, { dtype = "i32", device = device }), flame.zeros({ 3
        }, { device = device }), 21)
        local loss = (y * y):sum()
        loss:backward()
        return x.grad:to("cpu")
      end
      local function told(device)
        local ok, why = pcall(function() return grads(device, { 2, 0, 2 }):totable() end)
        return not ok and why:match "kernel .k_vjp., line %d+" ..
          why:match "an element of .-read again, is of one block"
      end
      print(flame.allclose(grads("cpu", { 2, 0, 1 }), grads("cuda", { 2, 0, 1 })), told "cpu" ==
      told "cuda", told "cpu")]=],
      'FAKE_CUDA="computes=1"')
    machine.remove(folder)
    assert(ok, text)
    assert.matches("^true\ttrue\tkernel 'k_vjp', line 5an element of 'sum'", text)
  end)
end)

describe("sums of atomics that are read too early are refused, or the launch of the"
  .. " derivative,", function()
  local it = os.getenv "FLAME_PROOF_CHILD" and function() end or it
  local function told(body, o, what)
    local why = tostring(wrong(body, 21, o))
    assert(why:find(what, 1, true) and why:find("line %d"), why)
  end

  it("where no barrier is in between", function()
    told("if (i < n) { atomicAdd(acc, v * v); y[i] = v / *acc; }", ONE, "read again with no"
      .. " barrier in between")
    told("for (int j = 0; j < 3; ++j) { if (i < n) atomicAdd(acc, v * v); SYNC; u = sin(u +"
      .. " *acc); } y[i] = u;", ONE, "cannot be differentiated")
  end)
  it("where several blocks add", function()
    told("if (i < n) atomicAdd(acc, v * v); SYNC; if (i < n) y[i] = v / *acc;", ROWS, "is of"
      .. " one block")
    told("if (i < n) atomicAdd(&acc[bin[i]], v * v); SYNC; if (i < n) y[i] = v / acc[bin[i]];",
      ROWS, "is of one block")
    told("for (int j = i; j < n; j += all) atomicAdd(&acc[bin[j]], v * v); SYNC; if (i < n)"
      .. " y[i] = v / acc[bin[i]];", ROWS, "is of one block")
    told("if (i < n) atomicAdd(&acc[b], v * v); SYNC; if (i < n) y[i] = v / acc[(b + 1) % 3];",
      ROWS, "is of one block")
  end)
  it("where a barrier of the block alone is between blocks of a grid that has others", function()
    told("if (i < n) atomicAdd(acc, v * v); __syncthreads(); u = *acc; SYNC; if (i < n) y[i]"
      .. " = u * u;", GRID, "other blocks may still add")
  end)
  it("where maxima are read too early, or lost before their gradient is known", function()
    told("if (i < n) { atomicMax((long long *)acc, __double_as_longlong(exp(v))); y[i] = v *"
      .. " *acc; }", ONE, "read again with no barrier in between")
    told([[__shared__ long long m; if (t == 0) m = 0; SYNC; atomicMax(&m,
      __double_as_longlong(exp(v))); SYNC; u = __longlong_as_double(m); SYNC;
      atomicMax(&m, __double_as_longlong(u * exp(v))); SYNC; y[i] = u *
      __longlong_as_double(m);]], ONE, "whose old values are needed again")
  end)
  it("where a loop waits for a flag", function()
    told([[if (t == 0) { part[b] = v * v; count[0] = b + 1; while (count[0] < b) ; y[i] = part[b
      > 0 ? b - 1 : 0]; }]], ROWS, "may wait for one another")
    told([[if (t == 0) { part[b] = v * v; __threadfence(); y[i] = part[b > 0 ? b - 1 : 0]; }]],
      ROWS, "may wait for one another")
  end)
  it("but not where a loop ends by a vote of the warp", function()
    for _, loop in ipairs { "while (__any_sync(0xffu, ++j < 3)) u = sin(v + u);",
        "do u = sin(v + u); while (__ballot_sync(0xffu, ++j < 3));",
        "int more = 1; while (more) { u = sin(v + u); more = __any_sync(0xffu, ++j < 3); }" } do
      assert.is_nil(wrong("int j = 0; " .. loop .. " if (i < n) y[i] = u * v;", 21, ROWS))
    end
  end)
  it("where the last block reads what is written after its count", function()
    told([[__shared__ int c; if (t == 0) c = atomicAdd(count, 1); SYNC; if (t == 0) part[b] = v
      * v; SYNC;
      if (c == gridDim.x - 1 && t == 0) for (int j = 0; j < gridDim.x; ++j) u += part[j]; if (i
      < n) y[i] = u * u;]], ROWS, "may wait for one another")
  end)
end)

it("the derived kernels of sums that are read again have no races", function()
  proof.checked("spec/kernel/gradient/kernel_again_spec.lua", "race")
end)
