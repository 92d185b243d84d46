--- Gradients of random kernels in which many threads read the same elements in loops
-- (spec/kernel/lanes_program.lua), on the CPU and on the fake GPU: with all lanes of a warp
-- together, and with seeds, which order threads at random and let lanes of a warp diverge.
-- Other programs: LANES_SEED=1000 LANES_COUNT=500.
local flame = require "flame"
local programs = dofile "spec/kernel/lanes_run.lua"
local machine = dofile "spec/support/machine.lua"
local has_gxx = os.execute "g++ --version >/dev/null 2>&1"
local first = math.tointeger(os.getenv "LANES_SEED" or 1)
local count = math.tointeger(os.getenv "LANES_COUNT" or 14)
local LAUNCHES <const> = 4

describe("a kernel whose threads read the same elements", function()
  local folder
  setup(function() folder = machine.new() end)
  teardown(function() machine.remove(folder) end)

  --- What the programs say on the fake GPU.
  local function run(seed, more)
    return machine.run(folder, ([[
local flame = require "flame"
print(dofile("spec/kernel/lanes_run.lua").run(flame, %d, %d, %d))]]):format(first, count,
      LAUNCHES), ("FAKE_CUDA=\"computes=1 seed=%d\" FLAME_CACHE_DIR=%s/cache TMPDIR=%s %s"):format(
      seed, folder, folder, more or ""))
  end

  local compared
  it("has the gradients of a tape on the CPU", function()
    local before <const> = flame.deterministic()
    local why
    compared, why = programs.run(flame, first, count, LAUNCHES, true)
    flame.deterministic(before)
    assert(compared, why)
    assert(compared > count * LAUNCHES * 0.9)
  end)

  for _, seed in ipairs { 0, first, first + 1 } do
    local title <const> = seed > 0 and "in seed " .. seed or "with all lanes together"
    it("has them on a GPU, threads ordered " .. title, has_gxx and function()
      local said = run(seed)
      assert(said == compared .. "\n", said)
    end or function() pending "no g++" end)
  end

  -- Lanes that leave the inner loop early meet the others, at the same element, in a later round of
  -- the outer loop, and hold another number of sums.
  local ROUNDS <const> = [[
__global__ void k(const double *x, const double *w, double *y, int n) {
  const int i = blockIdx.x * 32 + threadIdx.x;
  double s = 0;
  for (int o = 0; o < n; ++o)
    for (int j = 0; j < 1 + i % 3; ++j) s += w[j / 2] * x[i];
  y[i] = s;
}]]
  -- Its adjoint has joined sums in a loop that counts down.
  local STATE <const> = [[
__global__ void k(const double *x, const double *w, double *y, int n) {
  __shared__ double tile[32];
  const int i = blockIdx.x * 32 + threadIdx.x;
  tile[threadIdx.x] = x[i];
  __syncthreads();
  double s = 0;
  for (int j = 0; j < 1 + i % n; ++j)
    s = s * w[j] + tile[2 * j] * x[i] - tile[2 * j + 1] + w[j + 1];
  y[i] = s;
}]]
  -- The lanes that read the tile wait for each other alone: no other lane may add in their stead.
  local PARTS <const> = [[
__global__ void k(const double *x, const double *w, double *y, int n) {
  __shared__ double tile[16];
  const int t = threadIdx.x, i = blockIdx.x * 32 + t;
  double s = 0;
  if (t < 8) {
    tile[t] = x[t] * w[t];
    tile[t + 8] = x[t] + w[t];
    __syncwarp(0xff);
  }
  const int c = t < 8 ? 8 : 2 * n;
  for (int j = 0; j < c; j++)
    if (t < 8) s += tile[j] * x[i] + tile[j + 8]; else s += x[i] * j;
  y[i] = s;
}]]
  -- Its adjoint reads what the loop has added after the last barrier in the loop's step.
  local STEP <const> = [[
__global__ void k(const double *x, const double *w, double *y, int n) {
  __shared__ double acc[64];
  const int t = threadIdx.x, i = blockIdx.x * 32 + t;
  double s = 0;
  for (int e = t; e < 64; e += blockDim.x) acc[e] = 0;
  __syncthreads();
  for (int j = 0; j < n; j++, __syncthreads()) atomicAdd(&acc[j], w[j] * x[i]);
  for (int j = 0; j < n; j++) s += acc[j] * acc[j] * x[i];
  y[i] = s;
}]]
  -- What a wait leaves of the sums of one element: made by all lanes, or by each lane alone.
  local WAITS <const> = {
    ["__syncwarp();"] = true, ["__syncwarp(0xffffffffu);"] = true, ["__syncwarp(0xff);"] = false,
    ["cg::tiled_partition<32>(cg::this_thread_block()).sync();"] = true,
    ["cg::tiled_partition<8>(cg::this_thread_block()).sync();"] = false,
    ["cg::coalesced_threads().sync();"] = false,
  }
  it("has sums of all lanes unless a part of a warp waits for itself", function()
    for wait, together in pairs(WAITS) do
      local k = flame.kernel([[
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
__global__ void k(const float *x, float *y, int n) {
  __shared__ float tile[64];
  tile[threadIdx.x] = x[threadIdx.x];
  ]] .. wait .. [[
  float s = 0;
  for (int j = 0; j < n; j++) s += tile[j] * x[threadIdx.x];
  y[threadIdx.x] = s;
}]])
      local text = k:source "adjoint":match 'extern "C" __global__.*'
      assert.equal(together, text:find "fl_step_adds%(" ~= nil, wait)
      assert.equal(together, not text:find "atomicAdd%(&d_tile", wait)
    end
  end)

  local SCRIPT <const> = [[
local flame = require "flame"
local k = flame.kernel { block = 32, grid = 2, shape = { 64 }, source = [=[SOURCE]=] }
local function f(x, w)
  local a, b = x:detach():requires_grad_(), w:detach():requires_grad_()
  local g = (k(a, b, 5) * 2):sum():gradients { a, b }
  return { a = g[a], b = g[b] }
end
local function text(a, b)
  return table.concat(a:cpu():totable(), " ") .. " " .. table.concat(b:cpu():totable(), " ")
end
local f64 = { dtype = "f64" }
local x = ((flame.arange(64.0, f64):remainder(3) - 1) * 0.5):to "cpu"
local w = (flame.arange(8.0, f64):remainder(3) * 0.5):to "cpu"
for _, exact in ipairs { true, false } do
  flame.deterministic(exact)
  local want, u, v = f(x, w), x:to "cuda", w:to "cuda"
  local got = f(u, v)
  flame.export("FOLDER/program", f, { u, v })
  local p <close> = flame.program "FOLDER/program"
  want = text(want.a, want.b)
  print(want == text(got.a, got.b), want == text(p(u, v)))
end]]

  for name, source in pairs { ["of different rounds of an outer loop"] = ROUNDS,
    ["of a loop that carries a state"] = STATE, ["of a part of a warp"] = PARTS,
    ["that wait in the step of a loop"] = STEP } do
    it("has the same bits on a GPU, also saved and loaded: lanes " .. name, has_gxx and function()
      for seed = 0, 2 do
        local script = SCRIPT:gsub("SOURCE", function() return source end):gsub("FOLDER", folder)
        local said = machine.run(folder, script,
          ("FAKE_CUDA=\"computes=1 seed=%d\" FLAME_CACHE_DIR=%s/cache TMPDIR=%s"):format(seed,
            folder, folder))
        assert.equal(("true\ttrue\n"):rep(2), said)
      end
    end or function() pending "no g++" end)
  end
end)
