--- Random kernels in turns: between barriers of the block or the grid each of four arrays is summed
--- into by atomics, gets the greatest by its bits, is stored to, or is read, in branches and loops
--- of any number of rounds, through pointers into the middle. Where the kernel has a gradient it
--- must agree with central differences, and with the tangent if there is one. FLAME_FUZZ: number of
--- programs, FLAME_FUZZ_SEED: first seed.
local flame = require "flame"
local proof = dofile("spec/kernel/kernel_proof.lua")
local generator = dofile("spec/support/generator.lua")

local runs = tonumber(os.getenv "FLAME_FUZZ" or 60)
local seed = tonumber(os.getenv "FLAME_FUZZ_SEED" or 1)
local THREADS <const> = 8
local HEAD <const> = [[
__global__ void k(const double *x, const int *bin, double *acc, double *part, double *top, double *y, int n) {
  int t = threadIdx.x, b = blockIdx.x, i = b * blockDim.x + t;
  __shared__ double s[8];
  s[t] = 0.25 * x[i];
  double v = x[i], u = 0.1, w = 1.0;
  __syncthreads();
]]

local function f64(n, phase)
  local list = {}
  for e = 1, n do
    list[e] = math.sin(1.3 * e + phase) * 0.8 + 0.013 * e + 0.3 * math.cos(3.1 * e * phase)
  end
  return flame.tensor(list, { dtype = "f64" })
end

--- A random program; mode: "one" block, "rows" of blocks that keep to themselves, or "grid".
local function program(pick, mode)
  local R = function(n) return pick(1, n) end
  local function one(list) return list[R(#list)] end
  local rows = mode == "rows"
  local function index(shared)
    if not rows or shared then
      return one { "bin[i]", "i % 8", "0", "t", "(i + 1) % 8", "(2 * i) % 8", "7 - t", "i / 2 % 8",
        "4 + bin[i]", "(i * i) % 8" }
    end
    return "8 * b + " .. one { "bin[i]", "t", "0", "(t + 1) % 8", "t / 2", "7 - t" }
  end
  local function part()
    if rows then return "8 * b + " .. one { "t", "(t + 1) % 8", "7 - t", "bin[i]", "0" } end
    return one { "i", "(i + 1) % n", "n - 1 - i", "0", "bin[i]" }
  end
  local function value()
    return one { "v", "v * v", "u", "u * v", "sin(v)", "sin(u) + v", "0.5 * u", "exp(0.3 * v)",
      "v * w", "1.0 / (2.0 + u * u)", "v - u", "x[(i + 3) % n] * v" }
  end
  local function looped(s)
    local k = R(12)
    if k < 3 then return "for (int j = 0; j < 3; ++j) { " .. s .. " }" end
    if k < 5 then return "for (int j = t; j < 12; j += 5) { " .. s .. " }" end
    if k == 5 then return "for (int j = 0; j < 1 + (v > 0.2) + (t & 1); ++j) { " .. s .. " }" end
    if k ~= 6 then return s end
    return "int j = 0; while (u < 2.0 && j < 4) { ++j; u += 0.4 * v * v; " .. s .. " }"
  end
  local function sum(name, at)
    local k, x = R(14), value()
    if k == 1 then return ("u += 0.1 * atomicAdd(&%s[%s], %s);"):format(name, at, x) end
    if k == 2 then
      return ("{ double *h = %s + 4; atomicAdd(&h[(%s) - 4], %s); }"):format(name, at, x)
    end
    if k == 3 then return ("{ double *h = &%s[%s]; atomicAdd(h, %s); }"):format(name, at, x) end
    return ("atomicAdd(&%s[%s], %s(%s));"):format(name, at, R(4) == 1 and "-" or "", x)
  end
  local roles = { acc = { "sum", "sum", "read", "none", mode ~= "grid" and "store" or "none" },
    s = { "sum", "sum", "read", "none", "store" }, top = { "max", "read", "none" },
    part = { "store", "sum", "read", "none", "add" } }
  local function step(name, role)
    local at = name == "part" and part() or index(name == "s")
    local own = name == "part" and "i" or name == "acc" and rows and "8 * b + t" or "t"
    if role == "sum" then return sum(name, at) end
    if role == "store" then return ("%s[%s] = %s;"):format(name, own, value()) end
    if role == "add" then return ("part[i] += %s;"):format(value()) end
    local x = value()
    if role == "max" then
      return ("atomicMax((long long *)&top[%s], __double_as_longlong(1.0 + (%s) * (%s)));"):format(
        at, x, x)
    end
    return one { "u += %s;", "u = u * 0.5 + sin(%s);", "u += %s * v;", "w = %s;", "u = %s;" }
      :format(("%s[%s]"):format(name, at))
  end
  local lines = {}
  for _ = 1, R(3) + 1 do
    local role = {}
    for _, name in ipairs { "acc", "s", "part", "top" } do role[name] = one(roles[name]) end
    for _ = 1, R(4) do
      local name = one { "acc", "s", "part", "top" }
      local guard = one { "", "", "", "if (v > 0.1) ", "if (t % 2) ", "if (t < 5) ",
        "if (t == 0) ", "if (u > 0.0) " }
      if role[name] ~= "none" then
        lines[#lines + 1] = ("  %s{ %s }"):format(guard, looped(step(name, role[name])))
      end
    end
    lines[#lines + 1] = mode == "grid" and "  cooperative_groups::this_grid().sync();"
      or "  __syncthreads();"
  end
  lines[#lines + 1] = ("  y[i] = u%s + part[%s];\n}"):format(
    one { "", " + acc[" .. index() .. "]", " * v", " + s[t] * w" }, part())
  return (mode == "grid" and "#include <cooperative_groups.h>\n" or "") .. HEAD ..
    table.concat(lines, "\n")
end

--- Checks the gradient of a program; nil: it is right; else why it is refused, or wrong.
local function wrong(source, n)
  local ok, why = pcall(function()
    local k = flame.kernel { source = source, inout = { "acc", "part", "top" }, shape = { n },
      block = THREADS, grid = n // THREADS }
    local bins = {}
    for j = 1, n do bins[j] = (j * 7) % 4 end
    local bin = flame.tensor(bins, { dtype = "i32" })
    local function f(x, acc, part, top)
      local a, p, m, y = k(x, bin, acc, part, top, n)
      return a, p, m, y
    end
    local inputs = { f64(n, 0.2), f64(math.max(n, 16), 2), f64(n, 0.7),
      f64(math.max(n, 16), 3):abs() + 0.7 }
    assert(flame.gradcheck(f, inputs, { order = 1, rtol = 1e-4, atol = 1e-5 }))
    local both, forward, reverse = pcall(proof.both_modes, f, inputs)
    if not both then return assert(tostring(forward):find "cannot be differentiated", forward) end
    assert(math.abs(forward - reverse) <= 1e-8 * math.max(1, math.abs(forward)),
      ("forward %.17g, reverse %.17g"):format(forward, reverse))
  end)
  return not ok and tostring(why) or nil
end

describe("a kernel in turns", function()
  it("has a right gradient or none", function()
    local right = 0
    for program_seed = seed, seed + runs - 1 do
      local pick = generator(program_seed).int
      local mode = ({ "one", "one", "rows", "grid" })[pick(1, 4)]
      local source = program(pick, mode)
      local why = wrong(source, mode == "one" and THREADS or THREADS * pick(1, 3))
      right = right + (why and 0 or 1)
      assert.truthy(not why or why:find "cannot be differentiated",
        ("seed %d: %s\n%s"):format(program_seed, why, source))
    end
    assert.is_true(right >= runs // 2, ("%d of %d have one"):format(right, runs))
  end)

  -- the reverse code of a loop loads again, when the maxima are there
  for name, read in pairs {
      ["its rounds differ"] = "for (int j = t; j < 12; j += 5) u += top[i] * v;",
      ["its rounds are known"] = "for (int j = 0; j < 3; ++j) u = u * 0.5 + sin(top[i]) * u;",
      ["it ends by what it reads"] = "int j = 0; while (u < 2 && j < 4) { ++j; u += v * top[i]; }",
    } do
    it("is refused where a loop reads what an atomicMax replaces later: " .. name, function()
      local body = HEAD .. read .. "\n__syncthreads();\natomicMax((long long *)&top[t], "
        .. "__double_as_longlong(1.0 + v * v));\ny[i] = u;\n}"
      assert.matches("whose old values are needed again", wrong(body, THREADS))
    end)
  end

  it("is right where a branch does", function()
    assert.is_nil(wrong(HEAD .. "if (v > 0.1) { u = u * 0.5 + sin(top[i]); u = u * u; }\n"
      .. "__syncthreads();\natomicMax((long long *)&top[t], __double_as_longlong(1.0 + v * v));\n"
      .. "__syncthreads();\ny[i] = u;\n}", THREADS))
  end)
end)
