--- Loops without barriers in which each thread reads and rewrites its elements of shared memory,
-- such as a softmax in place. Values are compared with ops of flame, gradients with central
-- differences to second order and by <J v, u> = <v, J' u>. Kernels in which threads use elements of
-- other threads are refused. Runs on the default device.
local flame = require "flame"
local proof = dofile("spec/kernel/kernel_proof.lua")

local function f64(rows, n)
  local list = {}
  for j = 1, rows * n do list[j] = math.sin(1.7 * j + 0.3) + 0.003 * j end
  return flame.tensor(list, { dtype = "f64" }):reshape(rows, n)
end

local DYNAMIC, STATIC = "extern __shared__ T s[];", "__shared__ T s[176];"

--- A kernel with a block for each row of x; t0 is the thread in its block, w the block's size.
local function kernel(body, shared, block, T)
  return flame.kernel { source = "typedef " .. (T or "double") .. " T;\n" ..
    "__global__ void k(const T *x, T *y, int n, int cap) { " .. shared .. "\n" ..
    "int t0 = threadIdx.x, w = blockDim.x; const T *row = x + blockIdx.x * n; T *out = y + blockIdx.x * n; T m = -1e30, sum = 0;\n" ..
    body .. "\n}", block = { block or 32 }, grid = { 3 },
    shared = shared == DYNAMIC and 176 * (T and 4 or 8) or 0 }
end

local MAX = "for (int o = 16; o; o >>= 1) m = fmax(m, __shfl_xor_sync(~0u, m, o));"
local SUM = "for (int o = 16; o; o >>= 1) sum += __shfl_xor_sync(~0u, sum, o);"
local softmax = {
  { "in place", "T *p = s; for (int t = t0; t < n; t += w) { p[t] = row[t]; m = fmax(m, row[t]); }" .. MAX ..
    "for (int t = t0; t < n; t += w) sum += p[t] = exp(p[t] - m);" .. SUM
    .. "for (int t = t0; t < n; t += w) out[t] = p[t] / sum;" },
  { "that reads back what the round wrote",
    "T *p = s; for (int t = t0; t < n; t += w) { p[t] = row[t]; m = fmax(m, p[t]); }" .. MAX ..
    "for (int t = t0; t < n; t += w) { p[t] -= m; p[t] = exp(p[t]); sum += p[t]; }" .. SUM ..
    "for (int t = t0; t < n; t += w) p[t] /= sum; for (int t = t0; t < n; t += w) out[t] = p[t];" },
  { "in an array cut in two", "T *raw = s, *p = s + cap; for (int t = t0; t < n; t += w) { raw[t] = row[t]; m = fmax(m, raw[t]); " ..
    "}" .. MAX ..
    "for (int t = t0; t < n; t += w) { p[t] = exp(raw[t] - m); sum += p[t]; }" .. SUM ..
    "for (int t = t0; t < n; t += w) out[t] = p[t] / sum;" },
  { "in an array cut in two, both written",
    "T *raw = s, *p = s + cap; for (int t = t0; t < n; t += w) { T v = row[t]; raw[t] = v; " ..
    "p[t] = 2 * v; m = fmax(m, raw[t]); }" .. MAX
    .. "for (int t = t0; t < n; t += w) { p[t] = exp(p[t] - raw[t] - m); sum += p[t]; " ..
    "raw[t] *= p[t]; }" .. SUM .. "for (int t = t0; t < n; t += w) out[t] = p[t] / sum + 0 * raw[t];" },
  { "by a block with barriers", "T *p = s, *part = s + cap; for (int t = t0; t < n; t += w) { p[t] = row[t]; m = fmax(m, p[t]); } " ..
    "part[t0] = m; " ..
    "__syncthreads(); for (int d = w / 2; d > 0; d >>= 1) { if (t0 < d) part[t0] = fmax(part[t0], part[t0 + d]); __syncthreads(); } " ..
    "m = part[0]; __syncthreads(); for (int t = t0; t < n; t += w) sum += p[t] = exp(p[t] - m); part[t0] = sum; __syncthreads(); " ..
    "for (int d = w / 2; d > 0; d >>= 1) { if (t0 < d) part[t0] += part[t0 + d]; __syncthreads(); } " ..
    "for (int t = t0; t < n; t += w) out[n - 1 - t] = p[n - 1 - t] / part[0];" },
}

-- { name, body, threads per block }; each runs with n = 7, 12, 20 and 70
local right = {
  { "one thread", "if (t0 == 0) { for (int t = 0; t < n; ++t) s[t] = row[t]; for (int t = 1; t < n; ++t) s[t] = s[t] * s[t - 1] + " ..
    "sin(s[t]); " ..
    "for (int t = 0; t < n; ++t) out[t] = s[t]; }" },
  { "one thread downwards that looks ahead",
    "if (t0 == 0) { for (int t = 0; t < n; ++t) s[t] = row[t]; for (int t = n - 2; t >= 0; " ..
    "--t) " ..
    "s[t] = s[t] * s[t] + 0.3 * s[t + 1] * s[t]; for (int t = 0; t < n; ++t) out[t] = s[t] * s[0]; }" },
  { "two rounds that write one element, and a state",
    "if (t0 == 0) { T a = 0.3; for (int t = 0; t < n; ++t) s[t] = row[t]; " ..
    "for (int t = 0; t < n; ++t) { T p = s[t], q = s[n - 1 - t]; a = sin(a + p * q); s[t] = p * a; s[n - 1 - t] = q + a * a; } " ..
    "for (int t = 0; t < n; ++t) out[t] = s[t]; }" },
  { "a neighbour's old element behind a barrier",
    "for (int t = t0; t < n; t += w) s[t] = row[t]; __syncthreads(); " ..
    "for (int t = t0; t < n; t += w) sum += s[(t + 1) % n] * s[t]; __syncthreads(); for (int t = t0; t < n; t += w) s[t] = exp(s[t] " ..
    "- 0.1 * sum); " ..
    "__syncthreads(); for (int t = t0; t < n; t += w) out[t] = s[t] * s[(t + 3) % n];" },
  { "loops of other strides", "for (int t = t0; t < n; t += w) s[t] = row[t] * row[t]; __syncthreads(); for (int t = t0 * 2; t + 1 < " ..
    "" ..
    "" ..
    "n; t += 2 * w) " ..
    "{ T a = s[t], b = s[t + 1]; s[t] = a * b; s[t + 1] = a + b * b; } __syncthreads(); for (int t = t0; t < n; t += w) out[t] = " ..
    "s[t] * s[n - 1 - t];" },
  { "contents used twice before they are overwritten",
    "for (int t = t0; t < n; t += w) s[t] = row[t]; __syncthreads(); " ..
    "for (int t = t0; t < n; t += w) { T v = s[n - 1 - t]; sum += v * v * row[t]; } __syncthreads(); for (int t = t0; t < n; t += w) " ..
    "" ..
    "" ..
    "s[t] = sum * row[t]; " ..
    "__syncthreads(); for (int t = t0; t < n; t += w) out[t] = s[t] * s[(t + 1) % n];" },
  { "two parts that overlap", "T *a = s, *b = s + w; for (int t = t0; t < n; t += w) { a[t] = row[t]; b[t] = sin(a[t]); m = fmax(m, " ..
    "a[t]); } " ..
    "for (int t = t0; t < n; t += w) { b[t] = exp(b[t] - a[t]); a[t] *= b[t]; } for (int t = t0; t < n; t += w) out[t] = a[t] * b[t] " ..
    "" ..
    "" ..
    "+ m;" },
  { "a loop around it with barriers", "for (int t = t0; t < n; t += w) s[t] = row[t]; for (int r = 0; r < 3; ++r) { __syncthreads(); " ..
    "" ..
    "" ..
    "" ..
    "for (int t = t0; t < n; t += w) s[t] = sin(s[t]) + 0.1 * r * s[t]; __syncthreads(); for (int t = t0; t < n; t += w) " ..
    "sum += s[n - 1 - t] * s[t]; } for (int t = t0; t < n; t += w) out[t] = s[t] * sum;" },
  { "downwards", "for (int t = n - 1 - t0; t >= 0; t -= w) s[t] = row[t]; for (int t = n - 1 - t0; t >= 0; t -= w) { s[t] = " ..
    "exp(s[t]); " ..
    "sum += s[t]; } for (int t = n - 1 - t0; t >= 0; t -= w) out[t] = s[t] * sum;" },
  { "a separate state", "for (int t = t0; t < n; t += w) s[t] = row[t]; T z = 0.3; for (int t = t0; t < n; t += w) { z = sin(z * " ..
    "s[t]) + z; s[t] *= z; } " ..
    "for (int t = t0; t < n; t += w) out[t] = s[t] * z;", 4 },
  { "long counters", "for (long long t = t0; t < n; t += w) s[t] = row[t]; for (unsigned t = threadIdx.x; t < n; t += blockDim.x) " ..
    "s[t] = exp(s[t]); " ..
    "for (int t = t0; t < n; t += w) out[t] = s[t] * s[t];" },
  { "a choice in each round", "for (int t = t0; t < n; t += w) s[t] = row[t]; for (int t = t0; t < n; t += w) " ..
    "sum += s[t] = t % 3 ? exp(s[t]) : 0.; for (int t = t0; t < n; t += w) out[t] = s[t] * sum;" },
  { "a guard in each round", "for (int t = t0; t < n; t += w) s[t] = row[t]; for (int k = 0; k < (n + w - 1) / w; k++) { int t = t0 " ..
    "+ w * k; " ..
    "if (t < n) { s[t] = exp(s[t]); sum += s[t]; } } for (int t = t0; t < n; t += w) out[t] = s[t] * sum;" },
  { "a round that goes on early", "for (int t = t0; t < n; t += w) s[t] = row[t]; for (int t = t0; t < n; t += w) { if (t > cap / " ..
    "10) { s[t] = 0.5; continue; } " ..
    "s[t] = exp(s[t]); sum += s[t]; } for (int t = t0; t < n; t += w) out[t] = s[t] * sum;" },
  { "a guard from an argument", "for (int t = t0; t < n; t += w) s[t] = row[t]; for (int t = t0; t < n; t += w) if (row[t] > 0.2) { " ..
    "s[t] = exp(s[t]); sum += s[t]; } " ..
    "for (int t = t0; t < n; t += w) out[t] = s[t] * sum;" },
  { "pairs of which one may be missing",
    "for (int t = t0; t < n; t += w) s[t] = row[t]; __syncthreads(); for (int t = 2 * t0; t < " ..
    "n; t += 2 * w) { s[t] = exp(s[t]); " ..
    "sum += s[t]; if (t + 1 < n) { s[t + 1] = exp(s[t + 1]) * s[t]; sum += s[t + 1]; } } __syncthreads(); for (int t = t0; t < n; t " ..
    "+= w) out[t] = s[t] * sum;" },
  { "a warp's part of the array", "int lane = t0 % 4, v = t0 / 4, h = n / 2; T *p = s + v * h; for (int t = lane; t < h; t += 4) { " ..
    "p[t] = row[v * h + t]; m = fmax(m, p[t]); } " ..
    "for (int t = lane; t < h; t += 4) sum += p[t] = exp(p[t] - m); for (int t = lane; t < h; t += 4) out[v * h + t] = p[t] / sum;" },
  { "a place from the counter", "if (t0 == 0) { for (int t = 0; t < n; ++t) s[t] = row[t]; for (int t = 0; t + 1 < n; ++t) " ..
    "{ int j = t + 1; s[j] = s[j - 1] * s[j]; } for (int t = 0; t < n; ++t) out[t] = s[t]; }" },
}

-- kernels without a derivative: a thread uses elements of others, a loop may write an element
-- twice, or its guard depends on what the loop rewrites
local refused = {
  { "all threads write all elements", "for (int t = 0; t < n; ++t) s[t] = row[t]; __syncthreads(); for (int t = 0; t < n; ++t) s[t] " ..
    "= exp(s[t]); " ..
    "__syncthreads(); for (int t = 0; t < n; ++t) out[t] = s[t] * s[0];" },
  { "rounds that overlap", "for (int t = t0; t < n; t += w) s[t] = row[t]; for (int t = t0; t < n; t += w) s[t / 2] = exp(s[t / 2] * " ..
    "" ..
    "" ..
    "row[t]); " ..
    "for (int t = t0; t < n; t += w) out[t] = s[t];" },
  { "a place from memory", "for (int t = t0; t < n; t += w) s[t] = row[t]; for (int t = t0; t < n; t += w) { int j = (int)row[t] & " ..
    "3; s[j] = exp(s[j]) * row[t]; } " ..
    "for (int t = t0; t < n; t += w) out[t] = s[t];" },
  { "a guard by the elements themselves",
    "for (int t = t0; t < n; t += w) s[t] = row[t]; for (int t = t0; t < n; t += w) " ..
    "if (s[t] > 0.1) s[t] = exp(s[t]) * row[t]; for (int t = t0; t < n; t += w) out[t] = s[t];" },
  { "a guard that the round before made",
    "for (int t = t0; t < n; t += w) s[t] = row[t]; int f = 0; for (int t = t0; t < n; t += w) " ..
    "" ..
    "" ..
    "{ if (f > 9) s[t] = exp(s[t]) * row[t]; f = t; } for (int t = t0; t < n; t += w) out[t] = s[t];" },
  { "a place that the round before made",
    "for (int t = t0; t < n; t += w) s[t] = row[t]; int f = t0; for (int t = t0; t < n; t += " ..
    "w) " ..
    "{ s[f] = exp(s[f]) * row[t]; f = t; } for (int t = t0; t < n; t += w) out[t] = s[t];" },
  { "a stride that meets others", "for (int t = t0; t < n; t += w) s[t] = row[t]; for (int t = t0; t < n; t += 1) s[t] = exp(s[t]) * " ..
    "" ..
    "" ..
    "row[t]; " ..
    "for (int t = t0; t < n; t += w) out[t] = s[t];" },
}

-- ---- random loops between two barriers, in which a thread uses its elements only ----------------
local LOOPS = { "for (int t = t0; t < n; t += w) ", "for (int t = n - 1 - t0; t >= 0; t -= w) ",
  "for (int t = t0; t < n; t += blockDim.x) if (t != 4) ",
  "for (long long t = t0; t < n; t += w) " }
local PLACES = { { "t", "cap + t" }, { "n - 1 - t", "cap + n - 1 - t" } }
local GUARDS = { "", "", "if (t % 3) ", "if (row[t] > 0.1) ", "if (t < 4) " }
local STEPS = { "s[I] = sin(s[I]);", "s[I] = exp(0.3 * sin(s[J])) + a;",
  "s[I] = sin(s[I] * s[J]) + row[t];", "s[I] += row[t] * a;", "{ a = 0.4 * a + s[I]; s[I] = a; }",
  "a += s[I] * 0.2;", "a = 0.5 * sin(a + s[J]);" }

local function by_chance(random)
  local function pick(list) return list[random(#list)] end
  local function loop()
    local places, steps = pick(PLACES), {}
    for i = 1, random(3) do
      steps[i] = pick(GUARDS) .. pick(STEPS):gsub("I", pick(places)):gsub("J", pick(places))
    end
    return pick(LOOPS) .. "{ " .. table.concat(steps, " ") .. " } __syncthreads();\n"
  end
  local body = "T a = 0.3; for (int t = t0; t < n; t += w) { s[t] = row[t]; s[cap + t] = 0.7 * row[n - 1 - t]; } __syncthreads();\n"
  for _ = 1, random(3) do
    body = body .. (random(4) == 1 and "for (int r = 0; r < 2; ++r) { " .. loop() .. loop()
      .. "}\n" or loop())
  end
  return body .. "for (int t = t0; t < n; t += w) out[t] = s[t] * 1.1 + s[cap + n - 1 - t] + a;"
end

describe("a loop over a thread's own elements of shared memory:", function()
  it("loops by chance", function()
    local state = 20
    local function random(n)
      state = state * 6364136223846793005 + 1442695040888963407
      return (state >> 33) % n + 1
    end
    for _ = 1, 30 do
      local body, n = by_chance(random), 4 + random(8)
      local k = kernel(body, random(2) == 1 and "__shared__ T s[32];" or DYNAMIC,
        ({ 1, 3, 4, 8 })[random(4)])
      local ok, why = pcall(proof.check, function(x) return k(x, n, 20) end, { f64(3, n) },
        { order = 1 })
      assert(ok, tostring(why) .. "\n" .. body)
    end
  end)

  for _, c in ipairs(softmax) do
    for _, shared in ipairs { DYNAMIC, STATIC } do
      it("a softmax " .. c[1] .. (shared == STATIC and ", static" or ", dynamic"), function()
        local k = kernel(c[2], shared, 32)
        for _, n in ipairs { 20, 33, 70 } do
          local x = f64(3, n)
          assert((k(x, n, 80) - x:softmax(2)):abs():max():item() < 1e-13)
          proof.check(function(v) return k(v, n, 80) end, { x }, { order = n < 40 and 2 or 1 })
        end
        local r = k:report()                              -- compiled by NVRTC, if there is one
        assert.equal(r.registers > 0, r.adjoint.registers > 0)
        local single, x = kernel(c[2], shared, 32, "float"), f64(3, 70):float():requires_grad_(true)
        local seed = proof.direction(x:detach(), 0.2)
        local g = single(x, 70, 80):gradients({ x }, { seed = seed })[x]
        assert((g - x:softmax(2):gradients({ x }, { seed = seed })[x]):abs():max():item() < 1e-6)
      end)
    end
  end

  for _, c in ipairs(right) do
    it(c[1], function()
      for _, shared in ipairs { DYNAMIC, STATIC } do
        local k = kernel(c[2], shared, c[3] or 8)
        for _, n in ipairs { 7, 12, 20, 70 } do
          proof.check(function(v) return k(v, n, 80) end, { f64(3, n) },
            { order = n == 12 and 2 or 1 })
        end
      end
    end)
  end

  for _, c in ipairs(refused) do
    it(c[1] .. " is refused, or the launch of its gradient, or that is right", function()
      for _, shared in ipairs { DYNAMIC, STATIC } do
        local k = kernel(c[2], shared, 8)
        local r = k:report().adjoint.refusal
        if r then
          assert.truthy(r:find("kernel 'k', line 4", 1, true), r)
        else
          local ok, why = pcall(proof.check, function(v) return k(v, 12, 80) end, { f64(3, 12) },
            { order = 1 })
          assert(ok or tostring(why):find("an element of 's' that a loop rewrites", 1, true), why)
        end
      end
    end)
  end
end)
