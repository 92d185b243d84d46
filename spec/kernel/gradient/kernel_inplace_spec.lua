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
