--- Gradients of random kernels whose threads pass numbers to neighbours through shared memory
-- (phases_run.lua here): on the CPU, also under the race check, and on the fake GPU, where "+=" of
-- shared memory lets other threads run. In their adjoints sums are made by += between barriers
-- (src/kernel/ad/ad_phases.c). Other programs: PHASES_SEED=1000 PHASES_COUNT=500.
local flame = require "flame"
local programs = dofile "spec/kernel/races/phases_run.lua"
local machine = dofile "spec/support/machine.lua"
local proof = dofile "spec/kernel/kernel_proof.lua"
local interpreter = dofile "spec/support/interpreter.lua"
local has_gxx = os.execute "g++ --version >/dev/null 2>&1"
local first <const> = math.tointeger(os.getenv "PHASES_SEED" or 1)
local count <const> = math.tointeger(os.getenv "PHASES_COUNT" or 80)
local FEW <const> = 8                              -- programs on the fake GPU, compiled by g++

describe("a kernel whose threads read what their neighbours wrote", function()
  local folder
  setup(function() folder = machine.new() end)
  teardown(function() machine.remove(folder) end)

  it("has the gradients of differences", function()
    assert.equal(count, programs.run(flame, first, count))
  end)

  -- The threads with tx == 0 have an element each, those with tx > 0 at the same index have not.
  it("has them where a condition is what tells threads apart", function()
    local k <const> = flame.kernel { source = [[
__global__ void k(const double *x, double *y) {
  __shared__ double t[8];
  const int tx = threadIdx.x, ty = threadIdx.y, r = ty * 3 + tx;
  t[r] = x[r];
  __syncthreads();
  double v = 1.0;
  if (tx > 0) v = t[ty * 2 + tx] * 2.0; else v = t[ty * 2 + tx] * 3.0;
  y[r] = v;
}]], block = { 3, 2 }, grid = { 1 }, shape = { 6 } }
    local x <const> = flame.zeros(6, { dtype = "f64" }):requires_grad_()
    assert.same({ 3, 2, 5, 2, 2, 0 }, k(x):sum():gradients({ x })[x]:totable())
  end)

  it("has an adjoint without races", function()
    proof.checked("spec/kernel/races/kernel_phases_spec.lua", "race")
  end)
  if os.getenv "FLAME_PROOF_CHILD" then return end

  --- What 'few' programs say on the fake GPU.
  local function run(seed, few)
    return machine.run(folder, ([[
local flame = require "flame"
print(pcall(dofile("spec/kernel/races/phases_run.lua").run, flame, %d, %d))]]):format(first, few),
      ("FAKE_CUDA=\"computes=1 seed=%d\" FLAME_CACHE_DIR=%s/cache TMPDIR=%s"):format(seed, folder,
        folder))
  end

  for _, seed in ipairs { 0, first, first + 1 } do
    local title <const> = seed > 0 and "in seed " .. seed or "with all lanes together"
    it("has them on a GPU, threads ordered " .. title, has_gxx and function()
      local said <const> = run(seed, FEW)
      assert(said == ("true\t%d\n"):format(FEW), said)
    end or function() pending "no g++" end)
  end
end)

-- ---- which sums are made how --------------------------------------------------------------------

--- A kernel of a tile t of 70 numbers; what is put into it sets v, and may wait.
local TEXT <const> = [[
__global__ void k(const float *x, const int *at, float *y, int n) {
  __shared__ float t[70];
  const int i = threadIdx.x;
  for (int j = i; j < 70; j += blockDim.x) t[j] = x[j];
  float v = 0;
  __syncthreads();
  %s
  y[blockIdx.x * blockDim.x + i] = v;
}]]

--- In the adjoint: sums into the gradient of t by += and by atomics, and barriers.
local function counts(body)
  local before <const> = flame.deterministic()
  flame.deterministic(false)
  local k <const> = flame.kernel(TEXT:format(body))
  local text <const> = k:source "adjoint":match 'extern "C" __global__.*'
  flame.deterministic(before)
  local _, plain = text:gsub("d_t%[[^\n]*%] %+= ", "")
  local _, atomic = text:gsub("atomicAdd%(&d_t", "")
  local _, waits = text:gsub("__syncthreads%(%)", "")
  return ("%d plain, %d atomic, %d barriers"):format(plain, atomic, waits), text
end

local SUM3 <const> = "v = t[i] + 2.f * t[i + 1] + 3.f * t[i + 2];"

describe("a sum into the gradient of shared memory", function()
  for _, case in ipairs {
    { "is plain where each thread has an element", "v = t[i + 1];",
      "1 plain, 0 atomic, 3 barriers" },
    { "is plain, one barrier after another", SUM3, "3 plain, 0 atomic, 5 barriers" },
    { "is plain in a loop that waits",
      "for (int r = 0; r < n; r++) { " .. SUM3
        .. " __syncthreads(); t[i + 1] = v; __syncthreads(); }",
      "3 plain, 0 atomic, 7 barriers" },
    { "stays atomic where threads share an element", "v = t[i / 2];",
      "0 plain, 1 atomic, 3 barriers" },
    { "stays atomic at an index that is read", "v = t[at[i]];", "0 plain, 1 atomic, 3 barriers" },
    { "stays atomic beside one at an index that is read, without a place for a barrier",
      "if (i < n) v = t[i] + t[at[i]];", "0 plain, 2 atomic, 3 barriers" },
    { "stays atomic in a condition that not all threads meet", "if (i < n) { " .. SUM3 .. " }",
      "0 plain, 3 atomic, 3 barriers" },
    { "stays atomic in a loop that does not wait", "for (int r = 0; r < n; r++) v += t[i + r];",
      "0 plain, 1 atomic, 3 barriers" },
    { "stays atomic where threads leave", "if (i >= n) return; " .. SUM3,
      "0 plain, 3 atomic, 3 barriers" },
  } do
    it(case[1], function()
      local said <const>, text = counts(case[2])
      assert(said == case[3], said .. "\n" .. text)
    end)
  end

  -- That rows of 18 hold those of the block is known of the launch alone.
  it("is plain in a tile of two axes, by the launch", function()
    local command <const> = "FLAME_DEVICE=cpu FLAME_DEBUG=6 '%s' - 2>&1 <<'END'\n%s\nEND"
    local said <const> = assert(io.popen(command:format(interpreter, [==[
local flame = require "flame"
local k = flame.kernel { block = { 16, 16 }, grid = { 2, 2 }, shape = { 32, 32 }, source = [=[
__global__ void k(const float *u, float *out) {
  __shared__ float a[18][18];
  const int tx = threadIdx.x + 1, ty = threadIdx.y + 1;
  for (int e = threadIdx.y * 16 + threadIdx.x; e < 324; e += 256) a[e / 18][e % 18] = u[e];
  __syncthreads();
  out[(blockIdx.y * 16 + ty - 1) * 32 + blockIdx.x * 16 + tx - 1] =
    a[ty][tx - 1] + a[ty][tx + 1] + a[ty - 1][tx] * a[ty + 1][tx];
}]=] }
local u = flame.ones(324):requires_grad_()
print(k(u):sum():gradients { u }[u]:sum():item())]==]))):read "a"
    assert(said:find "\n4096%.0\n", said)
    assert(said:find "adjoint of [^\n]* 0 plain, 0 by block, 1 atomic", said)   -- that into u
    assert(not said:find "adjoint of [^\n]*taken at", said)
  end)

  --- A script that runs the adjoint of SUM3 and prints the sum of what it computes, or the error.
  --- without: the number of a barrier that is left out; 0: none.
  local function script(without)
    local _, text = counts(SUM3)
    local n = 0
    local planted <const> = text:gsub("__syncthreads%(%);", function()
      n = n + 1
      return n == without and "" or nil
    end)
    return ([==[
local flame = require "flame"
local k = flame.kernel { source = [=[%s]=], inout = { "grad_x" }, block = 64, grid = 1 }
local zeros = flame.zeros(70)
print(pcall(function()
  local _, grad = k(zeros, zeros:int(), 1, zeros + 0, flame.ones(64))
  return grad:sum():item()
end))]==]):format(planted), n
  end

  it("needs its barriers, says the race check", function()
    local _, waits = script(0)
    for k = 2, waits do
      local command <const> = "FLAME_DEVICE=cpu FLAME_CHECK=race '%s' - 2>&1 <<'END'\n%s\nEND"
      local p <const> = assert(io.popen(command:format(interpreter, script(k == 2 and 0 or k))))
      local said <const> = p:read "a"
      p:close()
      assert(said:find(k == 2 and "true\t384" or "race: .*'d_t'"), said)
    end
  end)

  it("needs its barriers on a GPU", has_gxx and function()
    local folder <const> = machine.new()
    local _, waits = script(0)
    for k = 2, waits do
      local said <const> = machine.run(folder, script(k == 2 and 0 or k),
        'FAKE_CUDA="computes=1 seed=0" TMPDIR=' .. folder)
      assert.equal(k == 2, said:find "^true\t384" ~= nil, said)
    end
    machine.remove(folder)
  end or function() pending "no g++" end)

  it("has the same bits in any order of the threads", has_gxx and function()
    local folder <const> = machine.new()
    local first_bits
    local kernel_text <const> = TEXT:format("for (int r = 0; r < n; r++) { " .. SUM3
      .. " __syncthreads(); t[i + 1] = 0.3f * v; __syncthreads(); } v += t[i];")
    assert.is_nil(flame.kernel(kernel_text):report().unordered)
    for seed = 0, 3 do
      local said <const> = machine.run(folder, ([==[
local flame = require "flame"
local k = flame.kernel { source = [=[%s]=], block = 64, grid = 2, shape = { 128 } }
local x = (flame.arange(70) * 1.7):sin():requires_grad_()
local y = k(x, flame.zeros(64, { dtype = "i32" }), 5)
local g = (y * (flame.arange(128) * 0.3):cos()):sum():gradients({ x })[x]
local bits = {}
for i, v in ipairs(g:totable()) do bits[i] = ("%%a"):format(v) end
print(table.concat(bits, " "))]==]):format(kernel_text),
        ('FAKE_CUDA="computes=1 seed=%d" TMPDIR=%s'):format(seed, folder))
      first_bits = first_bits or said
      assert.equal(first_bits, said)
    end
    machine.remove(folder)
  end or function() pending "no g++" end)
end)
