--- Random kernels in which several threads read and write one element, all with the same value:
-- with indices made of the thread's indices, quotients, remainders, counters and tables, under
-- guards, in global and in shared memory. The value stored at an element depends on the element
-- only, so there is no race. The gradient is compared with a difference along one direction, and
-- the derived kernel runs under the race check (in a child process). OWNER_RUNS=1000 OWNER_SEED=5
-- runs 1,000 kernels from that seed.
local flame = require "flame"
local proof = dofile("spec/kernel/kernel_proof.lua")
local N <const> = 24
local runs, seed = tonumber(os.getenv "OWNER_RUNS" or 60), tonumber(os.getenv "OWNER_SEED" or 1)

local state = seed * 7919
local function random(n)
  state = state * 6364136223846793005 + 1442695040888963407
  return (state >> 33) % n + 1
end
local function pick(list) return list[random(#list)] end

-- ---- indices ------------------------------------------------------------------------------------
local FORMS = { "(A + B)", "(A + B)", "(A - B)", "(A * F)", "(A * F)", "(A / C)", "(A %% C)",
  "(A & %d)", "(A >> 1)", "min((int)A, (int)B)", "(A ^ %d)", "(A / C * D + A %% C)", "(A * C + B)" }

local function index(depth, vars)
  if depth == 0 or random(5) == 1 then
    return random(4) == 1 and tostring(random(6) - 1) or pick(vars)
  end
  local a, b = index(depth - 1, vars), index(depth - 1, vars)
  local by = { A = a, B = b, C = pick { "2", "3", "4", "6", "8" },
    D = pick { "2", "3", "4" }, F = pick { "2", "3", "6", "m", "w", "(int)blockDim.x" } }
  return (pick(FORMS):format(random(3)):gsub("%u", by))
end

local function guard(vars)
  local a = index(1, vars)
  return pick({ "(int)A < P", "A == Q", "A % 3 == 0", "!(A & 1)", "(unsigned)A < 4u",
    "A >= Q", "A != Q" })
    :gsub("%u", { A = a, P = pick { "4", "6", "m", "w", "n" }, Q = pick { "0", "1", "m" } })
end

local function inside(e) return ("((int)(%s) >= 0 && (int)(%s) < n)"):format(e, e) end
local function with(text, e, other)
  return (text:gsub("[EO]%f[%W]",
    { E = "(int)(" .. e .. ")", O = other and "(int)(" .. other .. ")" }))
end
local VALUES = { "x[E] * x[E]", "0.5 + 0.1 * E", "x[23 - E] + x[E]" }
local COUNTER = "for (int j = %s; j < %s; j += %s) "

-- ---- programs -----------------------------------------------------------------------------------
-- A block writes a row of one pitch and reads rows of another pitch, which may look the same in the
-- text.
local function rows()
  local own = pick { "w", "w", "2", "4" }
  local e = "t + b * " .. own
  local o = "t + " .. pick { "(b << w)", "(b << w)", "b * w", "b * m", "(b << 1)", "w * b + 1",
    "b % w" }
  return ("int b = blockIdx.x; if (t < %s && %s && %s) "):format(own, inside(e), inside(o)) ..
    with("y[E] = x[E] * x[O];", e, o)
end

-- Arrays of planes of one size: a thread accesses one element of each, if its index is below the
-- size, and otherwise those of other threads.
local function columns()
  local size, other = pick { "w", "m", "m" }, pick { "w", "m", "n" }
  local function place()
    return pick { "i", "i + 2 + " .. size, "i + " .. size, "i + " .. pick { size, other },
      ("%d * %s + i"):format(random(4) - 1, size),
      ("i - %s + 2 * %s"):format(size, pick { size, "w" }) }
  end
  local lines = { ("if (i < %s && i < %s && i < n) { double v = 0;"):format(
    pick { size, "w", "m", "n" }, other) }
  for _ = 1, random(3) + 1 do
    local e = place()
    local add = ("if (" .. inside(e) .. ") v += %d * x[E] * x[E];"):format(random(4))
    lines[#lines + 1] = with(add, e)
  end
  -- A kernel with a barrier is not turned into one whose threads each make an element.
  return "__syncthreads(); " .. table.concat(lines, " ") .. " y[i] = v; }"
end

-- The thread's index in digits (quotients and remainders), put together in another order with room
-- for one more digit v, a number or a counter: a thread accesses the elements of several v.
local SPLITS <const> = {
  { { "i % A", "A" }, { "i / A" } },
  { { "i % A", "A" }, { "i / A % B", "B" }, { "i / A / B" } },
  { { "i % A", "A" }, { "i / A % B", "B" }, { "i / (A * B)" } },
  { { "i % (A * B)", "A * B" }, { "i / (A * B)" } },
  { { "(int)threadIdx.x", "(int)blockDim.x" }, { "(int)blockIdx.x" } },
}
local function strips()
  local room = random(3)
  local sizes = { A = pick { "m", "w", "2", "3" }, B = pick { "w", "2", "m" } }
  local digits, parts, step = { table.unpack(pick(SPLITS)) }, {}, "1"
  table.insert(digits, random(#digits + 1), { "V", pick { tostring(room), tostring(room), "w" } })
  local from = random(#digits)
  if random(3) == 1 then digits[1], digits[from] = digits[from], digits[1] end
  for i, d in ipairs(digits) do
    parts[i] = ("(%s) * (%s)"):format(d[1], step)
    step = step .. " * (" .. (random(8) > 1 and d[2] or pick { "2", "w" }) .. ")"
  end
  local form = (pick { "", "", "1 + " } .. table.concat(parts, " + ")):gsub("[AB]", sizes)
  local lines = { "if (m != 0 && i < " .. pick { "n", "w", "m * w" } .. ") { double v = 0;" }
  for _ = 1, random(3) do
    local head, at = "", tostring(random(room + 1) - 1)
    if random(3) == 1 then
      head, at = COUNTER:format(random(2) - 1, pick { room, room, "w", room + 1 }, "1"),
        pick { "j", "j", "(j + 1)" }
    end
    local e = form:gsub("V", at) .. pick { "", "", "", " + w", " + 1" }
    local add = ("if (%s) v += %d * x[E] * x[E];"):format(inside(e), random(4))
    lines[#lines + 1] = head .. with(add, e)
  end
  return "__syncthreads(); " .. table.concat(lines, " ") .. " if (i < n) y[i] = v; } "
end

-- Tiles whose size is a number in the text, which may not be that of the block: a thread has the
-- place (c, r), of which a condition, of the statement or in it, may say that it is in a row of w.
local function tiles()
  local lines = { ("int c = blockIdx.x * %s + threadIdx.x, r = blockIdx.y * %s + threadIdx.y;"):format(
    pick { "4", "6", "8", "blockDim.x" }, pick { "1", "2", "blockDim.y" }) }
  local function bound()
    return pick { "c < w", "c < w", "c + 1 < w", "c <= w", "r < m && c < w", "c < m",
      "(unsigned)c < 4u" }
  end
  lines[#lines + 1] = "double v = 0; { " .. pick { "", "if (" .. bound() .. ") " } .. "{"
  for _ = 1, random(2) do
    local e = pick { "r * w + c", "r * w + c + 1", "w * r + c", "c + 12 * r", "r * w * 2 + c",
      "r * m + c" }
    local value = with(pick { " v += (%s && I) ? x[E] * x[E] : 0.3;",
      " if (I) v += (%s) ? 0.3 : x[E] * x[E];" }:gsub("I", inside(e)), e)
    lines[#lines + 1] = value:format(pick { bound(), bound(), "v < 9", "!(c >= w)" })
  end
  return "__syncthreads(); " .. table.concat(lines, " ") .. " } } atomicAdd(&y[(i + 5) % n], v);"
end

local function in_global()
  if random(4) == 1 then return rows() end
  if random(5) == 1 then return tiles() end
  if random(4) == 1 then return columns() end
  if random(3) == 1 then return strips() end
  local vars = { "i", "i", "t", "t", "(int)threadIdx.x", "(int)threadIdx.y", "(int)blockIdx.x",
    "(int)blockIdx.y", "r" }
  local lines, open = { "int r = (int)(threadIdx.y * blockDim.x + threadIdx.x);" }, 0
  local function enter(text) lines[#lines + 1], open = text .. " {", open + 1 end
  local function name(v, text) lines[#lines + 1], vars[#vars + 1], vars[#vars + 2] = text, v, v end
  if random(3) == 1 then name("q", "int q = " .. index(2, vars) .. ";") end
  if random(3) == 1 then enter("if (" .. guard(vars) .. ")") end
  if random(2) == 1 then
    enter(COUNTER:format(pick { "0", "t", "i", "r", index(1, vars) },
      pick { "n", "m", "4", "8", "w" },
      pick { "1", "2", "3", "(int)blockDim.x", "(int)(blockDim.x * gridDim.x)", "max(w, 1)" }))
    name("j", "int p = " .. index(2, vars) .. ";")
    vars[#vars + 1] = "p"
  end
  local e, other = index(2, vars), index(2, vars)
  local value = with(pick(VALUES), e)
  lines[#lines + 1] = pick {
    with("if (" .. inside(e) .. ") y[E] = " .. value .. ";", e),
    with("if (" .. inside(e) .. ") atomicAdd(&y[(i + 5) % n], x[E] * x[E]);", e),
    with("if (" .. inside(e) .. ") y[E] = x[E] * x[E]; if (" .. guard(vars) .. ") if ("
      .. inside(other) ..
      ") y[O] = x[O] * x[O];", e, other) }
  return table.concat(lines, "\n  ") .. (" }"):rep(open)
end

local SHARED = { "__shared__ double s[24]; __shared__ int f[8];",
  "int r = (int)(threadIdx.y * blockDim.x + threadIdx.x), b = (int)(blockDim.x * blockDim.y);",
  "double v = 0.3;", "for (int z = r; z < 24; z += b) s[z] = x[z]; for (int z = r; z < 8; z += b) f[z] = (z * 5) & 7; __syncthreads();" }

local function place(vars)
  local e = index(2, vars)
  return random(5) == 1 and ("(f[(%s) & 7] * 3)"):format(e) or e
end

local function counted(vars)
  local all = table.move(vars, 1, #vars, 3, { "j", "j" })
  return COUNTER:format(pick { "0", "t", "r" }, pick { "4", "8", "n" }, pick { "1", "3", "b" }), all
end

local function read_shared(vars)
  local loop, all = counted(vars)
  local e, o = place(vars), place(vars)
  local ok, or_ok, j = inside(e), inside(o), place(all)
  return pick {
    with("if (" .. ok .. ") v += 0.5 * s[E] * s[E] * v;", e),
    with("if (" .. guard(vars) .. ") { if (" .. ok .. ") v += s[E] * v; } else if (" .. or_ok
      .. ") v = s[O] * s[O] + 0.1 * v;", e, o),
    with("v += " .. ok .. " ? s[E] * s[E] : " .. or_ok .. " ? s[O] : 0.2;", e, o),
    loop .. with("if (" .. inside(j) .. ") v = 0.3 * v + 0.2 * s[E] * sin(v);", j) }
end

local function write_shared(vars)
  local loop, all = counted(vars)
  local value = pick(VALUES)
  local function one(e) return with("if (" .. inside(e) .. ") s[E] = " .. value .. ";", e) end
  local e, o, j = index(2, vars), index(2, vars), index(2, all)
  return pick { "if (" .. guard(vars) .. ") { " .. one(e) .. " } else { " .. one(o) .. " }",
    one(e) .. " " .. one(o), ("f[(%s) & 7] = ((%s) & 7) ^ %d; "):format(e, e, random(4)) .. one(o),
    loop .. "{ " .. one(j) .. " }" }
end

local function in_shared()
  local vars = { "i", "t", "t", "(int)threadIdx.x", "(int)threadIdx.y",
    "(int)blockIdx.x", "r", "r" }
  local lines = table.move(SHARED, 1, #SHARED, 1, {})
  local function say(text) lines[#lines + 1] = text end
  local rounds = random(3) == 1
  if rounds then say("for (int h = 0; h < 3; ++h) {") vars[#vars + 1] = "h" end
  for _ = 1, random(3) do
    for _ = 1, random(2) do say(read_shared(vars)) end
    say("__syncthreads();")
    say(write_shared(vars))
    say("__syncthreads();")
  end
  say(read_shared(vars))
  if rounds then say("__syncthreads(); }") end
  say("atomicAdd(&y[(i + 5) % n], v * v);")
  return table.concat(lines, "\n  ")
end

-- ---- the check ----------------------------------------------------------------------------------
local function wave(step, phase)
  return (flame.arange(N, { dtype = "f64" }) * step + phase):sin()
end

local function check(body)
  local k = flame.kernel { source = "__global__ void k(const double *x, double *y, int m, int w, int n) {\n" ..
    "  int i = blockIdx.x * blockDim.x + threadIdx.x, t = threadIdx.x;\n  " .. body .. "\n}",
    shape = { N }, grid = { random(3), random(4) == 1 and 2 or 1 },
    block = { pick { 1, 3, 4, 6, 8, 12 }, random(3) == 1 and pick { 2, 3 } or 1 } }
  local m, w = random(8) - 3, random(6)
  local at, u, seeds = wave(1.7, 2), wave(0.9, 0.4), wave(1.3, 1.8)
  local function loss(x) return (k(x, m, w, N) * seeds):sum() end
  local x = at:detach():requires_grad_()
  local ok, g = pcall(function() return loss(x):gradients({ x }, { allow_unused = true })[x] end)
  if not ok and tostring(g):find("cannot be differentiated", 1, true) then
    return assert(tostring(g):find("line %d+"), g)
  end
  assert(ok, tostring(g) .. "\n" .. body)
  local back = g and (g * u):sum():item() or 0
  local along = (loss(at + u * 1e-5):item() - loss(at - u * 1e-5):item()) / 2e-5
  assert(math.abs(along - back) <= 1e-5 * (1 + math.abs(along)),
    ("m = %d, w = %d: %.12g by differences, %.12g by the adjoint\n%s"):format(m, w,
      along, back, body))
end

describe("the gradient of random kernels whose threads meet", function()
  it("in global memory", function() for _ = 1, runs do check(in_global()) end end)
  it("in shared memory", function() for _ = 1, runs do check(in_shared()) end end)
  it("has no races", function()
    if flame.default_device() ~= "cpu" then return end
    proof.checked("spec/kernel/races/kernel_owner_spec.lua", "race")
  end)
end)

describe("an array read at two places that variables move apart", function()
  it("is not summed into without care: a place of one thread is the other place of another", function()
    local k = flame.kernel [[
__global__ void k(const float *x, float *y, int n, int m, int count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, a = n, b = m;
  if (i < count) y[i] = x[i + a] * x[i + b];
}]]
    assert.equal(0, k:report().adjoint.plain)
  end)
  it("is where they are of one element of its thread", function()
    local k = flame.kernel [[
__global__ void k(const float *x, float *y, int count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  float s = 0;
  for (int j = 0; j < 4; j++) s += x[4 * i + j] * x[4 * i + j];
  for (int l = 0; l < 4; l++) s -= x[4 * i + l];
  y[i] = s;
}]]
    local a = k:report().adjoint
    assert.same({ 2, 0, 0 }, { a.plain, a.atomics, a.gathers })
  end)
end)

-- A body of thread i, and whether all elements of x and y that it reaches are of its row, 8 (m)
-- elements from 8 * i (m * i) on; nil: they are, which is not proven (without the launch).
local ROWS <const> = {
  { "y[8 * i] = x[8 * i]; for (int j = 1; j < 8; j++) y[8 * i + j] = y[8 * i + j - 1] * x[8 "
    .. "* i + j];", true },
  { "for (int j = 1; j < 8; j++) y[8 * i + j] = x[8 * i + j] * x[8 * i]; y[8 * i] = x[8 * "
    .. "i];", true },
  { "y[8 * i] = x[8 * i]; for (int j = 2; j < 9; j++) y[8 * i + j - 1] = x[8 * i + j - 1] * "
    .. "x[8 * i];" },
  { "y[m * i] = x[m * i]; for (int j = 1; j < m; j++) y[m * i + j] = y[m * i + j - 1] * x[m "
    .. "* i + j];" },
  { "y[8 * i + 7] = x[8 * i + 7]; for (int j = 6; j >= 0; j--) y[8 * i + j] = x[8 * i + j] * "
    .. "x[8 * i + 7];" },
  -- the row after, or before, is read or written as well
  { "y[8 * i] = x[8 * i]; for (int j = 1; j < 8; j++) y[8 * i + j] = x[8 * i + j] * x[8 * i "
    .. "+ j + 1];", false },
  { "y[8 * i] = x[8 * i]; for (int j = 1; j < 8; j++) y[8 * i + j] = x[8 * i + j - 2 + (i == "
    .. "0)] * x[8 * i];", false },
  { "y[8 * i] = x[8 * i] * x[m]; for (int j = 1; j < 8; j++) y[8 * i + j] = x[8 * i + j];", false },
  { "int k = m; y[k * i] = x[k * i]; k -= 3; for (int j = 1; j < k; j++) y[(k + 3) * i + j] "
    .. "= x[k * i + j] * x[k * i];", false },
  { "y[m * i] = x[m * i]; m -= 3; for (int j = 1; j < m; j++) y[(m + 3) * i + j] = x[m * i + "
    .. "j] * x[m * i];", false },
}

describe("elements that stay in the row of a thread", function()
  for _, row in ipairs(ROWS) do
    it(row[1], function()
      local k = flame.kernel { block = 4, grid = 2, shape = { 64 }, source = [[
__global__ void k(const double *x, double *y, int m) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  ]] .. row[1] .. "\n}" }
      local x = (flame.arange(65, { dtype = "f64" }) * 0.7):sin():requires_grad_(true)
      assert.is_true(flame.gradcheck(function(v) return k(v, 8) end, { x }))
      if row[2] ~= nil then
        k(x, 8):sum():backward()
        local a = k:report().adjoint
        assert.equal(row[2], a.atomics + a.gathers == 0)
      end
    end)
  end
end)

-- How thread i of 24 sums v over elements of x, and whether each element that is read is proven to
-- be its own, for any m and w; nil: not proven, although it may be.
local DIGITS <const> = {
  { "int row = i / m * 3 * m + i % m; v = x[row] * x[row + m] * x[row + 2 * m];", true },
  { "long row = (long)i / m * (3L * m) + i % m; v = x[row] * x[row + m] + x[row + 2 * m];", true },
  { "int q = i / m, r = i % m; v = x[(q * 3 + 2) * m + r] * x[(3 * q + 1) * m + r];", true },
  { "int q = i / m, r = i - q * m; for (int k = 0; k < 3; k++) v += x[(q * 3 + k) * m + r] * k;", true },
  { "int q = i / m, r = i % m; for (int k = 0; k < w; k++) v += x[(q * w + k) * m + r] * k;", true },
  { "int c = i % m, t = i / m % w, b = i / (m * w); v = x[(b * m + c) * w + t];", true },
  { "int c = i % m, t = i / m % w, b = i / m / w; v = x[(t * m + c) + b * (m * w)] * t;", true },
  { "int c = i % 4, t = i / 4 % w, b = i / 4 / w; v = x[(b * 4 + c) * w + t] * c;", true },
  { "unsigned j = i; v = x[j / 4 * 12 + j % 4] * x[j / 4 * 12 + j % 4 + 8];", true },
  { "v = x[i / m * m + m - 1 - i % m] * i;", true },
  { "v = x[i / m * 3 * m + 3 * (i % m)] * x[i / m * 3 * m + 3 * (i % m) + 2];", true },
  { "int s = threadIdx.x, b = 3 * blockIdx.x; if (s < w) for (int k = 0; k < 3; k++) v += "
    .. "x[(b + k) * w + s];", true },
  { "v = x[i / m * 3 * m + i % m] * i;", true, { 5, -4 } },
  { "int row = i / m * 3 * m + i % m; v = x[row] * x[row - m] * x[row - 2 * m];", nil, { -4 } },
  { "int row = i / m * 3 * m + i % m + w; v = x[row] * x[row + m] * x[row + 2 * m];", true },
  { "int row = i / m * 3 * m + i % m + 5; v = x[row + w] * x[row + m] * x[row + 2 * m];", false },
  -- one more, or a divisor that is another number
  { "int row = i / m * 3 * m + i % m; v = x[row + 3 * m] * x[row];", false },
  { "int q = i / m, r = i % m; for (int k = 0; k <= 3; k++) v += x[(q * 3 + k) * m + r] * k;", false },
  { "int q = i / m, r = i % m; for (int k = 0; k <= w; k++) v += x[(q * w + k) * m + r] * k;", false },
  { "v = x[i / m * 3 * m + i % w] * i;", false },
  { "int c = i % m, t = i / m % w, b = i / (m * w); v = x[(b * w + c) * w + t];", false },
  { "int c = i % m, t = i / m % w, b = i / w; v = x[(b * m + c) * w + t];", false },
  { "int q = i / m, r = i % m; m--; v = x[q * 3 * m + r];", false, { 4 } },
  { "int row = i / m * 3 * m + i % m; v = x[row + m] * x[row + w];", false },
  -- unsigned sums may wrap, an int that becomes unsigned may be below 0
  { "unsigned u = m; v = x[i / u * 3 * u + i % u] * i;" },
  { "size_t j = i; v = x[j / m * 3 * m + j % m] * i;" },
}

describe("elements that have a digit of the thread each", function()
  for _, form in ipairs(DIGITS) do
    it("or not: " .. form[1], function()
      local k = flame.kernel { block = 4, grid = 6, shape = { 24 }, source = [[
__global__ void k(const double *x, double *y, int m, int w) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  double v = 0;
  __syncthreads();
  ]] .. form[1] .. "\n  y[i] = v;\n}" }
      local x = (flame.arange(179, { dtype = "f64" }) * 0.7):sin():requires_grad_(true)
      for _, m in ipairs(form[3] or { 4, 2, 7 }) do
        assert.is_true(flame.gradcheck(function(u) return k(u, m, 3) end, { x }))
      end
      local a = k:report().adjoint
      if form[2] ~= nil then assert.equal(form[2], a.atomics == 0) end
    end)
  end
end)

-- The place (c, r) of a thread in tiles of 4 x 2; what is read there is its own in blocks of this
-- size, and if c stays in its row.
local TILES <const> = {
  { "if (c < w && r < m) v = x[r * w + c];", true },
  { "v = c < w && r < m ? x[r * w + c] : 0;", true },
  { "if (c + 1 <= w) v = x[r * w + c] * r;", true },
  { "v = c < w ? x[r * w + c] * (c < w ? x[36 + r * w + c] : 2) : 0;", false },
  { "v = (c > w || x[r * w + c] > 0) ? 1 : x[w * r + c];", false },
  { "if (c <= w) v = x[r * w + c];", false }, { "v = c < w ? 1 : x[r * w + c];", false },
  { "v = x[r * w + c];", false }, { "if (c < m) v = x[r * w + c];", false },
}

describe("a place in tiles of a size that stands in the text", function()
  for _, tile in ipairs(TILES) do
    it("is a thread's, or not: " .. tile[1], function()
      local k = flame.kernel { shape = { 48 }, source = [[
__global__ void k(const double *x, double *y, int w, int m) {
  int c = blockIdx.x * 4 + threadIdx.x, r = blockIdx.y * 2 + threadIdx.y;
  double v = 0;
  __syncthreads();
  ]] .. tile[1] .. "\n  atomicAdd(&y[(r * 8 + c) % 48], v);\n}" }
      local x = (flame.arange(119, { dtype = "f64" }) * 0.7):sin():requires_grad_(true)
      for _, block in ipairs { { 4, 2 }, { 3, 2 }, { 5, 3 } } do
        local tiled = k:with { block = block, grid = { 2, 3 } }
        for _, w in ipairs { 6, 8, 3 } do
          assert.is_true(flame.gradcheck(function(u) return tiled(u, w, 5) end, { x }))
        end
        tiled(x, 6, 5):sum():backward()
        local a = tiled:report().adjoint
        assert.equal(tile[2] and block[1] <= 4, a.atomics == 0)
      end
    end)
  end
end)

describe("an array that threads write and read across barriers", function()
  local HEAD <const> = "__global__ void k(const double *x, double *y, double *z, int n) {\n  int t = threadIdx.x;\n"
  for _, body in ipairs {
    "y[t] = x[t]; __syncthreads(); double a = y[t] * y[t + 1]; __syncthreads(); y[t] = a; __syncthreads(); "
      .. "z[t] = y[t] * y[t + 1];",
    "if (t == 0) y[0] = x[0]; __syncthreads(); double v = x[t] * y[0]; __syncthreads(); "
      .. "if (t == 1) y[0] = v; __syncthreads(); z[t] = v * y[0];",
    "y[t] = x[t]; __syncwarp(); double a = y[t] + y[t + 1]; __syncwarp(); y[t] = a * a; __syncwarp(); "
      .. "z[t] = y[t + 1];",
  } do
    it("is not said to be written by one alone: " .. body, function()
      local k = flame.kernel { block = 8, grid = 1, shape = { 9 },
        source = HEAD .. body .. "\n}" }
      for _, which in ipairs { "tangent", "adjoint" } do
        local head = k:source(which):match "k_[vj][^(]*(%b())"
        assert.truthy(head:find("const double *__restrict__ x", 1, true), head)
        for parameter in head:gmatch "[^,()]+" do
          assert(parameter:find "const" or not parameter:find("__restrict__", 1, true), parameter)
        end
      end
      local x = (flame.arange(8, { dtype = "f64" }) * 0.7 + 1):sin():requires_grad_(true)
      local function z(v) local _, r = k(v, 4) return r end
      assert.is_true(flame.gradcheck(z, { x }))
    end)
  end
  it("is where no threads meet", function()
    local k = flame.kernel [[
__global__ void k(const double *x, double *y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] * x[i];
}]]
    assert.truthy(k:source("adjoint"):find("double *__restrict__ grad_x", 1, true))
  end)
end)

describe("elements that are of one thread in a launch of one block", function()
  -- FLAME_DEBUG=6 tells that they are, and which facts of the launch the proof used
  local SCRIPT <const> = [==[
local flame = require "flame"
local k = flame.kernel { block = 4, grid = 1, shape = { 32 }, source = [[
__global__ void k(const double *x, double *y, int m) {
  int t = threadIdx.x;
  if (blockIdx.x == 0 && t == 2) y[m * t] = 2 * x[3];
  if (blockIdx.x == 1 && t == 2) for (int j = 0; j < m; j++) y[m * t + j] = 2 * x[3];
}]] }
local x = flame.ones({ 4 }, { dtype = "f64", requires_grad = true })
k(x, 8):sum():backward()
print(x.grad[4]:item())]==]
  it("are so for launches of one block alone", function()
    local program = dofile("spec/support/interpreter.lua")
    local p = assert(io.popen(("FLAME_DEVICE=cpu FLAME_DEBUG=6 '%s' -e '%s' 2>&1"):format(program,
      SCRIPT)))
    local said = p:read "a"
    assert(p:close(), said)
    assert.truthy(said:find("adjoint of [^\n]*, extent 9 at most 1 of"), said)
    assert.truthy(said:find("\n2.0\n", 1, true), said)
  end)
end)

-- An element has one thread only if the index is exact: not where an unsigned sum wraps, or a cast
-- drops bits. The threads that meet here would lose sums.
describe("planes of n elements whose index is not exact", function()
  for title, c in pairs {
    ["as an unsigned offset wraps"] = { "unsigned n", "i > 1", "n + i", 0xffffffff,
      { 0, 1, 3, 3, 3, 3, 3, 2 } },
    ["as a size_t wraps below a guard"] = { "size_t n", "i > 1 && i < n", "i + n", -1,
      { 0, 1, 3, 3, 3, 3, 3, 2 } },
    ["as a cast drops bits"] = { "long long n", "i < n && i < 7", "(int)n + i", (1 << 32) + 1,
      { 2, 3, 3, 3, 3, 3, 3, 1 } },
    ["as a cast of a local drops bits"] = { "long long n", "i < n && i < 7",
      "m + i", (1 << 32) + 1, { 2, 3, 3, 3, 3, 3, 3, 1 } },
  } do
    it(title .. " have sums of all threads", function()
      local k = flame.kernel { block = 8, grid = 1, shape = { 8 }, source = ([[
__global__ void k(const double *x, double *y, %s) {
  int i = threadIdx.x;
  const int m = (int)n;
  __syncthreads();
  double v = 0;
  if (%s) v = x[i] * x[i] * x[%s];
  y[i] = v;
}]]):format(c[1], c[2], c[3]) }
      local x = flame.ones({ 8 }, { dtype = "f64" }):requires_grad_()
      k(x, c[4]):sum():backward()
      assert.same(c[5], x.grad:totable())
    end)
  end
end)

-- Indices that look like digits of the thread, of which two threads have one element all the same:
-- body (global index i, t, bx, by), arguments (w, h) in the order of the calls, block, grid. The
-- first calls prove something of their launch that does not hold for the later ones.
describe("digits that do not determine the thread", function()
  local cases <const> = {
    ["as the divisor counts down"] = { "for (int s = w; s > 0; s /= 2) v += x[i / s * 2 * s + i % s] * i;",
      { { 8, 1 }, { 4, 1 } }, { 8 }, { 2 } },
    ["as the stride counts up"] = { "for (int s = 1; s <= w; s++) v += x[(i / s * 3 + 1) * s + i % s] * i;",
      { { 4, 1 } }, { 8 }, { 2 } },
    ["as an unsigned bound is negative later"] = { [[
  const int e = t + 4 * ty + 4 * h * bx + 60;
  if ((unsigned)ty < (unsigned)h && e >= 0 && e < 190) v += x[e] * (ty + 1);]],
      { { 1, 4 }, { 1, -1 }, { 1, -2 } }, { 4, 4 }, { 4 } },
    ["as a sum of them is bounded in two ways"] = { [[
  if (t < w * h && t + w * h * by < w) v += x[t + w * bx + w * h * by] + x[t + w * bx + w * h * by + 1];]],
      { { 4, 2 }, { 4, 4 }, { 2, 2 } }, { 4 }, { 4, 4 }, "" },   -- without a barrier: a gather
    ["as two reads have them in two orders"] = { [[
  if (t < w && t + w * bx < h) v += x[t + w * bx + h * by];
  if (t < h && t + h * by < w) v += 2 * x[t + w * bx + h * by];]],
      { { 2, 4 }, { 4, 2 } }, { 4 }, { 4, 4 } },
    ["as a divisor is negative"] = { [[
  const int e = (by * h + i / w) * 2 * w + i % w + 150;
  if (i / w < h && e >= 0 && e < 200) v = x[e] * (i + 1 + 100 * by);]],
      { { 4, 2 }, { -4, 2 } }, { 8 }, { 4, 2 } },
    ["as a bound is cut"] = { [[
  const int c = 4 * bx + t;
  if (c < (long)(unsigned)w && by * w + c + 100 >= 0) v = x[by * w + c + 100] * c;]],
      { { 8, 1 }, { -1, 1 }, { -2, 1 } }, { 4 }, { 4, 4 } },
  }
  for title, c in pairs(cases) do
    it(title .. ": sums of all threads", function()
      local k = flame.kernel { block = c[3], grid = c[4], shape = { 256 }, source = ([[
__global__ void k(const double *x, double *y, int w, int h) {
  const int t = threadIdx.x, ty = threadIdx.y, bx = blockIdx.x, by = blockIdx.y;
  const int i = bx * blockDim.x + t;
  double v = 0;
  %s
  %s
  y[t + blockDim.x * (ty + blockDim.y * (bx + gridDim.x * by))] = v;
}]]):format(c[5] or "__syncthreads();", c[1]) }
      local x = (flame.arange(200, { dtype = "f64" }) * 0.7):sin():requires_grad_()
      for _, n in ipairs(c[2]) do
        assert(flame.gradcheck(function(u) return k(u, n[1], n[2]) end, { x }))
      end
      k(x, c[2][#c[2]][1], c[2][#c[2]][2]):sum():backward()
      assert.equal(0, k:report().adjoint.plain)
    end)
  end
end)
