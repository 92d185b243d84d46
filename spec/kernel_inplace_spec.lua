--- Kernels that rewrite rows of global memory in place, by chance: loops upwards and downwards, halves of a row, pairs,
-- a row turned round, states that go from round to round. <J v, u> = <v, J' u> and central differences; what the
-- compiler can not see through is refused. FLAME_FUZZ: how many programs, FLAME_FUZZ_SEED: from which seed.
local flame = require "flame"
local proof = dofile("spec/kernel_proof.lua")

local LOOPS = {                              -- header, elements before and behind j, is j below n / 2
  { "for (int j = 0; j < n; ++j)", 0, 0 }, { "for (int j = n - 1; j >= 0; --j)", 0, 0 },
  { "for (int j = 1; j < n; ++j)", 1, 0 }, { "for (int j = n - 2; j >= 0; --j)", 0, 1 },
  { "for (int j = 1; j < n - 1; ++j)", 1, 1 }, { "for (int j = 1; j + 2 < n; j += 3)", 1, 2 },
  { "for (int j = 0; j < n / 2; ++j)", 0, 0, true }, { "for (int j = n / 2 - 1; j >= 0; --j)", 0, 0, true },
  { "for (int j = 0; j < n; j += 2)", 0, 0 },
}
local STEPS = {
  "p[I] = sin(p[I] * p[J]) + q[K];", "p[I] = 0.8 * p[I] + 0.3 * p[J] * a;", "p[I] *= 0.9 + 0.1 * sin(p[J]);",
  "p[I] = 0.5 * p[J] + sin(q[J] * p[I] * p[I]);",
  "{ double t = p[I]; p[I] = p[J]; p[J] = t * t * 0.5; }", "a = sin(a + p[I]);", "a = sin(0.5 * a + p[I] * p[J]);", "p[I] = a * p[I];",
  "{ double u = p[I], v = p[J]; p[I] = u * cos(a) - v * sin(a); p[J] = u * sin(a) + v * cos(a); }", "p[I] -= q[K];",
  "if (p[I] > 0.2) p[J] = p[I] * q[I];", "if (j > 2) p[I] = exp(-p[I] * p[I]);",
}

local function generator(state)
  return function(n)
    state = state * 6364136223846793005 + 1442695040888963407
    return (state >> 33) % n + 1
  end
end

local function program(random)
  local function pick(list) return list[random(#list)] end
  local function loop()
    local l, all, steps = pick(LOOPS), { "j", "j", "n - 1 - j" }, {}
    if l[2] > 0 then all[#all + 1] = "j - 1" end
    if l[3] > 0 then all[#all + 1] = "j + 1" end
    if l[4] then table.move({ "j + n / 2", "2 * j", "2 * j + 1", "j + n - n / 2" }, 1, 4, #all + 1, all) end
    local places = { pick(all), pick(all), random(2) == 1 and pick(all) or nil }
    for i = 1, random(3) do steps[i] = pick(STEPS):gsub("[IJK]", function() return pick(places) end) end
    return l[1] .. " { " .. table.concat(steps, " ") .. " }"
  end
  local list = {}
  for i = 1, random(3) do list[i] = random(5) == 1 and "for (int r = 0; r < 2; ++r) { " .. loop() .. " }" or loop() end
  return table.concat(list, "\n  "), pick { "i < rows", "i < rows", "i == 0" }, pick { 1, 2, 4 }
end

local function f64(rows, n, phase)
  local list = {}
  for e = 1, rows * n do list[e] = math.sin(1.3 * e + phase) * 0.8 end
  return flame.tensor(list, { dtype = "f64" }):reshape(rows, n)
end

--- Is it right? false: it is refused.
local function is_right(body, who, block, rows, n, order)
  local k = flame.kernel { source = "__global__ void k(double *y, const double *x, double *z, int n, int rows) {\n" ..
    "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n  if (!(" .. who .. ")) return;\n" ..
    "  double *p = y + i * n, a = 0.3; const double *q = x + i * n;\n  " .. body .. "\n  z[i] = a;\n}",
    block = { block }, grid = { 4 }, inout = { "y" }, shape = { 4 } }
  local function f(y, x) return k(y, x, n, rows) end
  local inputs = { f64(rows, n, 0), f64(rows, n, 1) }
  local ok, why = pcall(function()
    local a, b = proof.both_modes(f, inputs)
    assert(math.abs(a - b) <= 1e-8 * math.max(1, math.abs(a)), ("<J v, u> = %.17g, <v, J' u> = %.17g"):format(a, b))
    if n < 20 then proof.check(f, inputs, { order = order, rtol = 1e-3, atol = 1e-5 }) end
  end)
  if ok then return true end
  assert(tostring(why):find("cannot be differentiated", 1, true), tostring(why) .. "\n" .. body)
  return false
end

describe("rows rewritten in place", function()
  after_each(function() flame.deterministic(true) end)

  it("by chance", function()
    local many, seed = tonumber(os.getenv "FLAME_FUZZ") or 200, tonumber(os.getenv "FLAME_FUZZ_SEED") or 7
    local random, right = generator(seed), 0
    for c = 1, many do
      local body, who, block = program(random)
      local n = random(5) == 1 and 70 or 4 + random(6)
      flame.deterministic(random(2) == 1)
      if is_right(body, who, block, n == 70 and 1 or 3, n, c % 8 == 0 and n < 8 and 2 or 1) then right = right + 1 end
    end
    assert(right >= many // 3, ("%d of %d have a gradient"):format(right, many))
  end)
end)
