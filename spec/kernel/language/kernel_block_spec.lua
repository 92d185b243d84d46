--- block = "auto": the block size with which a GPU holds most threads at a time (for the simulated
-- GPU, spec/c/fake_kernels.c says how many). The cache on disk keeps it; a CPU reads it there.
local flame = require "flame"
local helper = require "spec.support.helper"
local machine = dofile("spec/support/machine.lua")

local SIZE <const> = [[__global__ void size(const float *x, float *y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] * blockDim.x;
}]]
local SUM <const> = [[__global__ void rows(const float *x, float *y, int n) {
  extern __shared__ float s[];
  s[threadIdx.x] = 0;
  for (int i = threadIdx.x; i < n; i += blockDim.x) s[threadIdx.x] += x[blockIdx.x * n + i];
  for (int d = blockDim.x / 2; d > 0; d /= 2) {
    __syncthreads();
    if (threadIdx.x < d) s[threadIdx.x] += s[threadIdx.x + d];
  }
  if (threadIdx.x == 0) y[blockIdx.x] = s[0] * s[0] + blockDim.x;
}]]
local TURN <const> = [[template <int TILE>
__global__ void turn(const float *x, float *y, int w, int h) {
  __shared__ float tile[TILE][TILE + 1];
  int c = blockIdx.x * TILE + threadIdx.x, r = blockIdx.y * TILE + threadIdx.y;
  if (c < w && r < h) tile[threadIdx.y][threadIdx.x] = x[r * w + c];
  __syncthreads();
  int c2 = blockIdx.y * TILE + threadIdx.x, r2 = blockIdx.x * TILE + threadIdx.y;
  if (c2 < h && r2 < w) y[r2 * h + c2] = tile[threadIdx.x][threadIdx.y] + 0.f * blockDim.x;
}]]

local function kernel(text, more)
  more = more or {}
  more.source, more.block = text, more.block or "auto"
  return flame.kernel(more)
end
--- The block size that a kernel has written to its result.
local function written(text, more) return kernel(text, more)(flame.ones(3), 3):totable()[1] end

describe("block = \"auto\"", function()
  it("has 256 threads where nothing says otherwise, and as many blocks as it takes", function()
    local k = kernel(SIZE)
    local y = k(flame.ones(1000))
    assert.equal(256, y:min():item())
    assert.equal(256, y:max():item())
    assert.equal(0, k(flame.ones(0)):numel())
    assert.equal(64, k:with { block = 64 } (flame.ones(1)):item())
    assert.equal(256, k:with { block = 64 }:with { block = "auto" } (flame.ones(1)):item())
  end)

  it("keeps to __launch_bounds__ and to the arrays that threads index", function()
    local bounds = SIZE:gsub("void", "void __launch_bounds__(%%d)", 1)
    for _, c in ipairs { { 1024, 256 }, { 200, 128 }, { 96, 64 }, { 32, 32 }, { 20, 20 },
        { 1, 1 } } do
      assert.equal(c[2], written(bounds:format(c[1])))
    end
    local arrays = [[__global__ void size(const float *x, float *y, int n) {
      __shared__ float s%s;
      int t = %s;
      %s s[t%s] = x[0];
      __syncthreads();
      if (blockIdx.x * blockDim.x + threadIdx.x == 0) y[0] = blockDim.x;
    }]]
    for _, c in ipairs {
      { 128, "[128]", "threadIdx.x", "", "" }, { 64, "[100]", "threadIdx.x", "", "" },
      { 32, "[35]", "threadIdx.x", "", " + 2" }, { 64, "[128]", "2 * threadIdx.x", "", " + 1" },
      { 256, "[8]", "threadIdx.x / 32", "", "" },
      { 256, "[16]", "threadIdx.x", "if (threadIdx.x < 16)", "" },
      { 256, "[600]", "threadIdx.x", "if (threadIdx.x < 5)", " + 512" },
      { 1024, "[1024]", "threadIdx.x", "", "" },
    } do
      assert.equal(c[1], written(arrays:format(table.unpack(c, 2))), c[2] .. c[3] .. c[4])
    end
  end)

  it("counts threads along several axes", function()
    local x = flame.arange(50.0 * 70):reshape(50, 70)
    local turn = kernel(TURN, { entry = "turn<16>", shape = { 70, 50 },
      threads = function(_, w, h) return { w, h } end })
    assert.is_true(turn(x, 70, 50):equal(x:t():contiguous()))
    local plain = kernel([[__global__ void at(float *y, int w, int h) {
      int c = blockIdx.x * blockDim.x + threadIdx.x, r = blockIdx.y * blockDim.y + threadIdx.y;
      if (c < w && r < h) y[r * w + c] = blockDim.x + 1000 * blockDim.y;
    }]], { shape = { 5, 70 }, threads = { 70, 5 } })
    local y = plain(70, 5)
    assert.equal(8032, y:min():item())
    assert.equal(8032, y:max():item())
    assert.equal(8032, plain:with { grid = { 3, 1 } } (70, 5):max():item())
  end)

  it("takes threads for any block, and in a launch", function()
    local k = flame.kernel { source = SIZE, block = 32, threads = function(x) return x:numel() end }
    assert.equal(32, k(flame.ones(100)):min():item())
    local out = flame.zeros(100)
    k:launch({ threads = 100 }, flame.ones(100), out, 100)
    assert.equal(32, out:min():item())
    kernel(SIZE):launch({ threads = 50 }, flame.ones(100), out, 50)
    assert.equal(256, out:max():item())
    assert.equal(32, out:min():item())
    k:with { block = "auto" }:launch({ threads = 0 }, flame.ones(100), out, 0)
    k:with { grid = { 4 } } (flame.ones(100))
  end)

  it("differentiates as with a block that is named", function()
    local x, w = flame.randn(3, 500), flame.randn(3)
    local function gradient(k)
      local a = x:clone():requires_grad_(true)
      local y = k(a, 500)
      flame.sum(y * w):backward()
      return y, a.grad
    end
    local auto = kernel(SUM, { grid = { 3 }, shape = { 3 },
      shared = function(threads) return 4 * threads end })
    local y, g = gradient(auto)
    local y2, g2 = gradient(auto:with { block = 256 })
    assert.is_true(y:equal(y2) and g:equal(g2))
    local exact = (2 * w:reshape(3, 1) * x:sum(2, true)):expand(3, 500)
    assert.is_true(g:allclose(exact, 1e-4, 1e-4))
  end)

  it("chooses what a GPU holds most of, also in a rehearsal; a CPU then does so too", function()
    local folder = machine.new()
    local script = "local k = flame.kernel { source = [==[" .. SUM .. [[]==], block = "auto",
      grid = { 3 }, shape = { 3 }, shared = function(threads) return 250 * threads end }
      local x = flame.zeros(3, 100):requires_grad_(true)
      if DRY then flame.warmup(function() k(x, 100):sum():backward() end) end
      for _ = 1, 3 do
        local y = k(x, 100)
        y:sum():backward()
        flame.eval(x.grad)
        print(x.device, y[2]:item())
      end]]
    local function run(device, more)
      local said = machine.run(folder, script:gsub("DRY", more == "dry" and "true" or "false"),
        ("FAKE_CUDA=\"computes=1\" FLAME_DEVICE=%s FLAME_CACHE_DIR=%s/cache %s"):format(device,
        folder, more == "eager" and "FLAME_EAGER=1" or ""))
      local all = {}
      for block in said:gmatch "%S+%s+(%d+)%.0\n" do all[#all + 1] = block end
      assert.equal(3, #all, said)
      assert.same({ all[1], all[1], all[1] }, all)
      return all[1]
    end
    -- a block of 256 threads takes 64,000 bytes and 1 KB, one of 128 half: of 228 KB 3 or 7 fit
    assert.equal("256", run("cpu"))
    for _, how in ipairs { "dry", "", "eager" } do assert.equal("128", run("cuda", how)) end
    assert.equal("128", run("cpu"))
    assert.equal("128", run("cpu", "eager"))
    machine.remove(folder)
  end)

  it("says why a block can not be chosen", function()
    local x = flame.ones(3)
    local function fails(say, f)
      local why = helper.message(f) or "no error"
      assert(why:find(say, 1, true), why)
      assert(why:find("kernel_block_spec.lua:", 1, true), why)
    end
    local fixed = "__global__ void f(const float *x, float *y, int n) {\n"
      .. "  int i = blockIdx.x * 256 + threadIdx.x;\n  if (i < n) y[i] = x[i];\n}"
    fails("reads threadIdx.x, and the text never asks for blockDim.x, so that its block is fixed: name it",
      function() kernel(fixed) end)
    fails("line 2", function() kernel(fixed) end)
    fails("block = \"auto\" is for kernels that can be read, and this one is outside the language",
      function() kernel("__global__ void f(float *y) { goto end; end: y[0] = 1; }") end)
    fails("block = \"best\": a block is a number, up to three, or \"auto\"",
      function() kernel(SIZE, { block = "best" }) end)
    fails("it has threads along y: say how many, threads = {nx, ny}", function()
      kernel([[__global__ void f(const float *x, float *y) {
        y[threadIdx.y + blockDim.y * threadIdx.x * blockDim.x] = x[0];
      }]])(x)
    end)
    fails("grid is how many blocks, threads how many threads: give one of them",
      function() kernel(SIZE, { grid = 3, threads = 3 }) end)
    fails("launch: give grid or threads, not both",
      function() kernel(SIZE):launch({ grid = 1, threads = 3 }, x, flame.ones(3), 3) end)
    fails("the shared function must return a number of bytes, got string",
      function() kernel(SIZE, { shared = function() return "a" end })(x) end)
    fails("shared must be a number of bytes, or a function of the threads of a block that returns one, "
      .. "got string", function() kernel(SIZE, { shared = "many" }) end)
    fails("the threads function must return a number or a list of up to 3, got nil",
      function() kernel(SIZE, { threads = function() end })(x) end)
    fails("grid.y = 100000, need 1 to 65535",
      function() kernel(SIZE, { block = { 32, 1 }, threads = { 1, 100000 } })(x) end)
  end)
end)
