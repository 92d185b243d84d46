--- Random kernels that rewrite rows of global memory in place: loops upwards and downwards, over
--- halves, pairs or mirrored elements of a row, with a state that is passed from iteration to
--- iteration. Derivatives must satisfy <J v, u> = <v, J' u> and agree with central differences, or
--- be refused. FLAME_FUZZ: number of programs, FLAME_FUZZ_SEED: first seed.
local flame = require "flame"
local proof = dofile("spec/kernel/kernel_proof.lua")

local LOOPS = {     -- head of a loop; how many elements exist before and after j; is j < n / 2?
  { "for (int j = 0; j < n; ++j)", 0, 0 }, { "for (int j = n - 1; j >= 0; --j)", 0, 0 },
  { "for (int j = 1; j < n; ++j)", 1, 0 }, { "for (int j = n - 2; j >= 0; --j)", 0, 1 },
  { "for (int j = 1; j < n - 1; ++j)", 1, 1 }, { "for (int j = 1; j + 2 < n; j += 3)", 1, 2 },
  { "for (int j = 0; j < n / 2; ++j)", 0, 0, true },
  { "for (int j = n / 2 - 1; j >= 0; --j)", 0, 0, true },
  { "for (int j = 0; j < n; j += 2)", 0, 0 },
}
-- loops that the threads of a block share, and indices that belong to one iteration alone
local SHARED_LOOPS = {
  { "for (int j = t; j < n; j += w)", { "j" } },
  { "for (int j = n - 1 - t; j >= 0; j -= w)", { "j" } },
  { "for (int j = t + 1; j < n; j += w)", { "j" } },
  { "for (int j = t; j < n / 2; j += w)", { "j", "j + n / 2" } },
  { "for (int j = t; j < n / 2; j += w)", { "2 * j", "2 * j + 1" } },
  { "for (int j = t; j < n / 2; j += w)", { "j", "n - 1 - j" } },
  { "for (int j = 2 * t; j + 1 < n; j += 2 * w)", { "j", "j + 1" } },
}
local STEPS = {
  "p[I] = sin(p[I] * p[J]) + q[K];", "p[I] = 0.8 * p[I] + 0.3 * p[J] * a;",
  "p[I] *= 0.9 + 0.1 * sin(p[J]);", "p[I] = 0.5 * p[J] + sin(q[J] * p[I] * p[I]);",
  "{ double t = p[I]; p[I] = p[J]; p[J] = t * t * 0.5; }", "a = sin(a + p[I]);",
  "a = sin(0.5 * a + p[I] * p[J]);", "p[I] = a * p[I];",
  "{ double u = p[I], v = p[J]; p[I] = u * cos(a) - v * sin(a); p[J] = u * sin(a) + v * cos(a); }",
  "p[I] -= q[K];", "if (p[I] > 0.2) p[J] = p[I] * q[I];", "if (j > 2) p[I] = exp(-p[I] * p[I]);",
}

local TAILS = { "p[0] = 0.25;", "p[n - 1] = 0.5;", "p[n / 2] = q[1];", "p[0] = a * a;",
  "p[n - 1] = p[0] * q[0];", "p[1] = sin(p[1]);" }

local function generator(state)
  return function(n)
    state = state * 6364136223846793005 + 1442695040888963407
    return (state >> 33) % n + 1
  end
end

--- One to three random statements of STEPS in braces, with indices of 'all' for I, J and K.
local function steps(random, all)
  local function pick(list) return list[random(#list)] end
  local places, list = { pick(all), pick(all), random(2) == 1 and pick(all) or nil }, {}
  for i = 1, random(3) do
    list[i] = pick(STEPS):gsub("[IJK]", function() return pick(places) end)
  end
  return "{ " .. table.concat(list, " ") .. " }"
end

local function row_loop(random)
  local l, all = LOOPS[random(#LOOPS)], { "j", "j", "n - 1 - j" }
  if l[2] > 0 then all[#all + 1] = "j - 1" end
  if l[3] > 0 then all[#all + 1] = "j + 1" end
  if l[4] then
    table.move({ "j + n / 2", "2 * j", "2 * j + 1", "j + n - n / 2" }, 1, 4, #all + 1, all)
  end
  return l[1] .. " " .. steps(random, all)
end

local function block_loop(random)
  local l = SHARED_LOOPS[random(#SHARED_LOOPS)]
  return l[1] .. " " .. steps(random, l[2]) .. " __syncthreads();"
end

--- A random kernel body, whether a row belongs to a block (else to a thread), and a block size.
local function program(random)
  local by_block = random(3) == 1
  local loop, list = by_block and block_loop or row_loop, {}
  for i = 1, random(3) do
    list[i] = random(5) == 1 and "for (int r = 0; r < 2; ++r) { " .. loop(random) .. " }"
      or loop(random)
  end
  if random(3) == 1 then                     -- overwrites what a loop has read
    list[#list + 1] = (by_block and "if (t == 0) " or "") .. TAILS[random(#TAILS)]
  end
  return table.concat(list, "\n  "), by_block, random(4)
end

local function f64(rows, n, phase)
  local list = {}
  for e = 1, rows * n do list[e] = math.sin(1.3 * e + phase) * 0.8 end
  return flame.tensor(list, { dtype = "f64" }):reshape(rows, n)
end

--- Checks the derivative of a kernel with this body; returns false if it is refused.
local function is_right(body, by_block, block, rows, n, order)
  local k = flame.kernel { source = "__global__ void k(double *y, const double *x, double *z, int n, int rows) {\n" ..
    "  int t = threadIdx.x, w = blockDim.x, me = blockIdx.x * w + t, i = "
    .. (by_block and "blockIdx.x" or "me") ..
    ";\n  if (i >= rows) return;\n" ..
    "  double *p = y + i * n, a = 0.3; const double *q = x + i * n;\n  " .. body
    .. "\n  z[me] = a;\n}", block = { block }, grid = { 4 }, inout = { "y" },
    shape = { 4 * block } }
  local function f(y, x) return k(y, x, n, rows) end
  local inputs = { f64(rows, n, 0), f64(rows, n, 1) }
  local ok, why = pcall(function()
    local a, b = proof.both_modes(f, inputs)
    assert(math.abs(a - b) <= 1e-8 * math.max(1, math.abs(a)),
      ("<J v, u> = %.17g, <v, J' u> = %.17g"):format(a, b))
    if n < 20 then proof.check(f, inputs, { order = order, rtol = 1e-3, atol = 1e-5 }) end
  end)
  if ok then return true end
  assert(tostring(why):find("cannot be differentiated", 1, true), tostring(why) .. "\n" .. body)
  return false
end

describe("rows rewritten in place", function()
  after_each(function() flame.deterministic(true) end)

  it("by chance", function()
    local many, seed = tonumber(os.getenv "FLAME_FUZZ") or 200,
      tonumber(os.getenv "FLAME_FUZZ_SEED") or 7
    local random, right = generator(seed), 0
    for c = 1, many do
      local body, by_block, block = program(random)
      local n = random(5) == 1 and 70 or 4 + random(6)
      flame.deterministic(random(2) == 1)
      if is_right(body, by_block, block, n == 70 and 1 or 3, n,
          c % 8 == 0 and n < 8 and 2 or 1) then
        right = right + 1
      end
    end
    assert(right >= many // 3, ("%d of %d have a gradient"):format(right, many))
  end)

  -- Rows of different threads do not overlap since n > 0, which is known from the launch.
  it("by a store behind a loop that read them", function()
    for _, body in ipairs {
      "for (int j = 0; j < n; ++j) p[j] = sin(p[j]); p[0] = 0.25;",
      "for (int j = 0; j < n; ++j) p[j] = sin(p[j]) * q[j]; p[n - 1] = q[0] * q[0];",
      "for (int j = 0; j < n; ++j) a += p[j] * q[j]; p[0] = a;",
      "for (int j = 0; j < n; ++j) { a += p[j] * p[j]; p[j] = sin(p[j]); } p[0] = 0.25;",
      "for (int j = 0; j < n / 2; ++j) p[j] = p[j] * p[j + n / 2]; p[n / 2] = 0.25;",
      "for (int j = 0; j + 1 < n; ++j) p[j] = sin(p[j + 1]); p[n - 1] = a;",
      "for (int j = 1; j < n; ++j) p[j] = p[j] * p[0]; p[0] = 0.25;",
    } do
      assert(is_right(body, false, 2, 3, 5, 2), body)
    end
  end)
  it("of which several threads may have one where the launch does not tell them apart", function()
    local k = flame.kernel { source = [[__global__ void k(double *y, double *z, int m) {
      int i = blockIdx.x * blockDim.x + threadIdx.x;
      double v = y[i * m] * y[i * m];
      y[i * m] = 0.25;
      z[i] = v;
    }]], block = { 4 }, grid = { 1 }, inout = { "y" }, shape = { 4 } }
    for _, case in ipairs { { 1, { 2, 4, 6, 8, 0 } }, { 0, { 8, 0, 0, 0, 0 } },
      { 1, { 2, 4, 6, 8, 0 } } } do
      local y = flame.tensor({ 1, 2, 3, 4, 5 }, { dtype = "f64", requires_grad = true })
      local _, z = k(y, case[1])
      z:sum():backward()
      assert.same(case[2], y.grad:totable())
    end
  end)
end)

-- Rows of 8 elements that are written from their own elements. R: the row's first element.
local VALUES = { "tanh(A + B)", "sin(A) * B", "exp(0.3 * A) - B", "0.5 * A * A + B",
  "sqrt(1.5 + A * A) * B", "0.7 * A", "B * B", "fma(A, B, 0.1)", "rsqrt(2 + A * A)",
  "A > 0.1 ? tanh(A * B) : B", "a * A" }
-- { code before a loop, the loop, A }. N: one of VALUES, made of A and B; AFTER: one of AFTERS.
local FILLS = {
  { "y[R] = B0;", "for (int j = 1; j < 8; ++j) { y[R + j] = N; AFTER }", "y[R + j - 1]" },
  { "y[R + 7] = B0;", "for (int j = 6; j >= 0; --j) { AFTER y[R + j] = N; }", "y[R + j + 1]" },
  { "y[R] = B0; y[R + 1] = B1;", "for (int j = 2; j < 8; ++j) { AFTER y[R + j] = N; }",
    "(y[R + j - 1] - y[R + j - 2])" },
  { "y[R] = B0; y[R + 1] = B1;", "for (int j = 2; j < 8; ++j) { y[R + j] = N; AFTER }",
    "y[R + j - 2]" },
  { "y[R] = B0;", "for (int j = 2; j < 8; j += 2) { y[R + j] = N; AFTER }", "y[R + j - 2]" },
  { "", "for (int j = 1; j < 8; ++j) { y[R + j] = N; AFTER }", "y[R + j - 1]" },
  { "y[R] = B0;", "for (int j = 1; j < 8; ++j) { if (x[R + j] > 0) y[R + j] = N; AFTER }",
    "y[R + j - 1]" },
  { "y[R + 2] = B0;", "for (int j = 3; j < 8; ++j) { AFTER y[R + j] = j > 4 ? N : x[R]; }",
    "y[R + j - 1]" },
  { "y[R] = B0;", "for (int j = 1; j < m; ++j) { y[R + j] = N; AFTER }", "y[R + j - 1]" },
  { "y[R] = B0;", "for (int j = 1; j < 8; y[R + j] = N, ++j) { AFTER }", "y[R + j - 1]" },
  { "y[R] = B0;",
    "for (int j = 1; j < 8; ++j) { if (x[R + j] < -0.7) break; y[R + j] = N; AFTER }",
    "y[R + j - 1]" },
  { "y[R] = B0;", "for (int j = 1; j < 8; ++j) { double v = N; y[R + j] = v; AFTER }",
    "y[R + j - 1]" },
  { "y[R] = B0;", "for (int r = 0; r < 2; ++r) for (int j = 1 + 3 * r; j < 4 + 3 * r; ++j) " ..
    "{ y[R + j] = N; AFTER }", "y[R + j - 1]" },
  { "y[R] = B0;", "for (int r = 0; r < 2; ++r) for (int j = 1; j < 8; ++j) { y[R + j] = N; AFTER }",
    "y[R + j - 1]" },
  { "int j = 1; y[R] = B0;", "for (; j < 8; ++j) { y[R + j] = N; AFTER } j = 3;", "y[R + j - 1]" },
  { "if (x[R] > -0.7) y[R] = B0;", "for (int j = 1; j < 8; ++j) { y[R + j] = N; AFTER }",
    "y[R + j - 1]" },
  { "y[R + 3] = B0;", "for (int j = 1; j < 8; ++j) { y[R + j] = N; AFTER }", "y[R + j - 1]" },
  { "", "for (int j = 0; j < 8; ++j) { y[R + j] = N; AFTER }", "x[R + j]" },
  { "", "for (int r = 0; r < 2; ++r) for (int j = 0; j < 8; ++j) { y[R + j] = N; AFTER }",
    "(x[R + j] * r)" },
  { "", "for (int j = 0; j < 8; a += sin(y[R + 3]), ++j) { y[R + j] = N; AFTER }",
    "x[R + j]" },
}
local AFTERS = { "", "", "", "a += 0.1 * A;", "a = sin(a + A);", "a += y[R + j] * A;",
  "y[R] = 0.5 * a;",
  "if (j == 3) y[R + 5] = a;", "y[R + j] = y[R + j] * 0.9;", "a += y[R];" }
local ENDS = { "", "", "", "a += y[R + 3] * y[R + 7];", "y[R + 3] = 0.25;", "y[R] = a * a;",
  "y[R] += x[R];",
  "for (int e = 0; e < 8; ++e) a += y[R + e] * x[R + e];",
  "for (int e = 0; e < 8; ++e) y[R + e] *= a;",
  "for (int e = 1; e < 8; ++e) a = sin(a + y[R + e] * y[R + e - 1]);",
  "for (int e = 1; e < 8; ++e) y[R + e] = tanh(y[R + e - 1]);",
  "for (int e = 1; e < 8; ++e) y[R + e] = x[R + e] * a; a += sin(y[R + 2]);",
  "a += sin(y[R + 2]) * y[R];", "y[R] = y[R] + tanh(x[R + 1]); a += sin(y[R]);",
  "if (a > 0) y[R + 7] = sin(y[R + 6]);", "a += y[R + 4]; y[R + 4] = x[R];" }

local function row_of_its_own(random)
  local function pick(list) return list[random(#list)] end
  local fill, b = pick(FILLS), { "x[R + j]", "x[R]", "0.4", "x[R + j] * a", "x[R + 2]" }
  local function put(text, names)
    return (text:gsub("%f[%w]%u%w*%f[%W]", function(name) return names[name] end))
  end
  local value = put(pick(VALUES), { A = fill[3], B = pick(b) })
  local loop = put(fill[2], { N = value, AFTER = put(pick(AFTERS), { A = fill[3] }) })
  return put(fill[1], { B0 = pick { "x[R]", "tanh(x[R])", "0.3" }, B1 = "x[R + 1] * x[R]" })
    .. "\n  " .. loop .. "\n  " .. pick(ENDS) .. (random(3) == 1 and pick(ENDS) or "")
end

--- The kernel with this body; given: y is an argument, else an array of zeros; T: its type.
local function row_kernel(body, given, T, options)
  options = options or { block = { 2 }, grid = { 2 } }
  options.source = "typedef " .. (T or "double") ..
    " T;\n__global__ void k(const double *x, T *y, double *z, int m) {\n" ..
    "  int i = blockIdx.x * blockDim.x + threadIdx.x, R = 8 * i; double a = 0.3;\n  if (i >= 3) return;\n  "
    .. body .. "\n  z[i] = a;\n}"
  options.inout = given and { "y" } or nil
  options.nodiff = given == "constant" and { "y" } or nil
  options.shape = { 3, 8 }
  return flame.kernel(options)
end

--- Checks the gradients of x and, if y is 'given', of its old contents; y is 'constant': given, and
--- not differentiated. Returns the kernel; nil: it is refused.
local check_row
function check_row(body, y, order)
  local k = row_kernel(body, y)
  local inputs, old = { f64(3, 8, 1) }, f64(3, 8, 2)
  if y == "given" then inputs[2] = old end
  local function f(x, given)
    if y then return k(x, given or old, 8) end
    return k(x, 8)
  end
  local ok, why = pcall(function()
    local p, q = proof.both_modes(f, inputs)
    assert(math.abs(p - q) <= 1e-8 * math.max(1, math.abs(p)),
      ("<J v, u> = %.17g, <v, J' u> = %.17g"):format(p, q))
    proof.check(f, inputs, { order = order, rtol = 1e-4, atol = 1e-6 })
  end)
  if ok then return k end
  if not y and tostring(why):find("which it has not written", 1, true) then
    return check_row(body, "constant", order)
  end
  assert(tostring(why):find("cannot be differentiated", 1, true), tostring(why) .. "\n" .. body)
end

--- Two answers about the adjoint: does it only read y; does it write the cotangents of y?
local function uses(k)
  local has, text = pcall(k.source, k, "adjoint")
  if not has then return {} end              -- it has one for fewer arguments
  text = text:match("_vjp%(.*")
  return { text:find("const double %*__restrict__ y,") ~= nil,
    text:find("grad_y%[[^;\n]*%] %+?= ") ~= nil }
end

describe("a row written from its own elements", function()
  after_each(function() flame.deterministic(true) end)

  it("by chance", function()
    local many, seed = tonumber(os.getenv "FLAME_FUZZ") or 300,
      tonumber(os.getenv "FLAME_FUZZ_SEED") or 11
    local random, right, last = generator(seed), 0, 0
    for c = 1, many do
      local body, y = row_of_its_own(random), ({ false, "given", "constant" })[random(3)]
      flame.deterministic(random(2) == 1)
      local k = check_row(body, y, c % 16 == 0 and 2 or 1)
      right = right + (k and 1 or 0)
      if k and uses(k)[1] then last = last + 1 end
    end
    assert(right >= many // 2, ("%d of %d have a gradient"):format(right, many))
    assert(last >= many // 16, ("%d of %d read what the launch leaves"):format(last, many))
  end)

  it("is read as the launch leaves it, its cotangents go from round to round", function()
    local up, down = "for (int j = 1; j < 8; ++j) ", "for (int j = 6; j >= 0; --j) "
    for _, case in ipairs {
      { "y[R] = x[R]; " .. up .. "y[R + j] = tanh(y[R + j - 1] + x[R + j]);", false },
      { "y[R + 7] = x[R]; " .. down .. "y[R + j] = sin(y[R + j + 1]) * x[R + j];", false },
      { "y[R] = x[R]; " .. up .. "{ y[R + j] = sin(y[R + j - 1]); a += y[R + j - 1]; }", true },
      { up .. "y[R + j] = tanh(y[R + j - 1] + x[R + j]);", true },
      { "if (x[R] > -2) y[R] = x[R]; " .. up .. "y[R + j] = sin(y[R + j - 1]) * x[R + j];", true },
    } do
      local k = check_row(case[1], false, 2)
      assert.same({ true, case[2] }, uses(k), case[1])
    end
  end)

  it("is stored again for the gradient where a store comes after a read", function()
    for _, body in ipairs {
      "y[R] = x[R]; for (int j = 1; j < 8; ++j) y[R + j] = sin(y[R + j - 1]); y[R + 3] = 0.25;",
      "y[R] = x[R]; a = sin(y[R]); y[R] = a * x[R + 1];",
      "y[R] = x[R]; for (int r = 0; r < 2; ++r) { a = sin(a * y[R]); y[R] = a * x[R + r]; }",
      "for (int j = 0; j < 8; ++j) { y[R + j] = x[R + j]; y[R + 7 - j] = sin(y[R + j]); }",
      "for (int j = 0; j < 7; y[R + j] = sin(a) * x[R + j], ++j) a += sin(y[R + j + 1]);",
      "for (int j = 0; j < 8; a += sin(y[R + 3]), ++j) y[R + j] = x[R + j] * a;",
      "y[R] = x[R] + 1; y[R] += 1; a = sin(y[R]);",
    } do
      local k = check_row(body, false, 1)
      if k then assert.same(false, uses(k)[1], body) end
    end
  end)

  it("is computed again for the gradient where the value is not the last", function()
    for _, body in ipairs {
      "for (int j = 0; j < 8; ++j) y[R + j] = tanh(x[R + j]); " ..
        "for (int j = 0; j < 8; ++j) y[R + j] = x[R + j] * x[R]; a = y[R + 3] * y[R + 4];",
      "for (int r = 0; r < 2; ++r) for (int j = 0; j < 8; ++j) " ..
        "y[R + j] = tanh(x[R + j] * (r + 1)); a = y[R + 3] * y[R + 4];",
      "for (int r = 0; r < 2; ++r) { a = tanh(a + x[R + r]); y[R] = tanh(a * x[R]); } a = sin(y[R]);",
      "y[R] = x[R]; y[R] = y[R] + tanh(x[R + 1]); a = sin(y[R]);",
      "for (int j = 6; j >= 0; --j) y[R + j] = tanh(x[R + j]); y[R + 6] = x[R] * x[R]; " ..
        "a = y[R + 2] * y[R + 6];",
    } do
      local k = check_row(body, false, 2)
      assert.same({ true }, { k ~= nil }, body)
    end
  end)

  it("passes nothing on to a value that was overwritten by one without end", function()
    for _, body in ipairs {
      "for (int j = 0; j < 4; ++j) y[R + j] = exp(x[R + j]); " ..
        "for (int j = 0; j < 4; ++j) y[R + j] = INFINITY;",
      "for (int r = 0; r < 2; ++r) for (int j = 0; j < 4; ++j) " ..
        "y[R + j] = exp(x[R + j + 4 * r] + 1000 * r);",
    } do
      local k = row_kernel(body .. " a = y[R + 3] > 5 ? x[R] : y[R + 2];")
      local x = f64(3, 8, 1):requires_grad_(true)
      local _, z = k(x, 8)
      local got = z:sum():gradients({ x })[x]
      local one = { 1, 0, 0, 0 }
      assert.same({ one, one, one }, got[{ {}, { 1, 4 } }]:totable(), body)
    end
  end)

  it("is not taken for a thread's own where threads share its elements", function()
    local k = row_kernel("y[R] = x[R]; __syncthreads(); a = sin(y[8 * (2 - i)]);", false, nil,
      { block = { 3 }, grid = { 1 } })
    assert.same(false, uses(k)[1])
    local x = f64(3, 8, 1)
    assert.is_true(flame.gradcheck(function(v) return k(v, 8) end, { x }))
  end)

  it("keeps its gradient in halves and where it is given", function()
    local body = "y[R] = x[R]; for (int j = 1; j < 8; ++j) " ..
      "y[R + j] = (T)tanh((double)y[R + j - 1] + x[R + j]);"
    local g = f64(3, 8, 3)
    local function gradient(k, ...)
      local x = f64(3, 8, 1):requires_grad_(true)
      local y = k(x, ...)
      return y:gradients({ x }, { seed = g:to(y.dtype) })[x]:totable()
    end
    local right = gradient(row_kernel(body, false), 8)
    for T, off in pairs { double = 0, float = 1e-5, __half = 2e-2 } do
      for _, given in ipairs { false, true } do
        local name = T == "double" and "f64" or T == "float" and "f32" or "f16"
        local y = given and flame.full({ 3, 8 }, 7, { dtype = name }) or nil
        local got = y and gradient(row_kernel(body, true, T), y, 8)
          or gradient(row_kernel(body, false, T), 8)
        for r = 1, 3 do
          for e = 1, 8 do assert.near(right[r][e], got[r][e], off, T) end
        end
      end
    end
  end)
end)
