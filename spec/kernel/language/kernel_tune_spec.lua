--- k:tune: the fastest block of a list, kept on disk. Timed on a GPU that g++ plays
-- (spec/c/fake_compute.c), and taken from there by a CPU.
local flame = require "flame"
local helper = require "spec.support.helper"
local machine = dofile("spec/support/machine.lua")

local SCALE <const> = [[__global__ void scale(const float *x, float *y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = 2.f * x[i];
}]]
local SCRIPT <const> = "local k = flame.kernel [==[" .. SCALE .. [[]==]
  local x = flame.ones(100):requires_grad_(true)
  local t = k:tune({ 32, { 64, 1 }, 128 }, x)
  local b = flame.internal.kernel_info(t).config.block
  t(x):sum():backward()
  print(x.device, type(b) == "table" and b[1] or b, x.grad:sum():item())]]

describe("k:tune", function()
  local k = flame.kernel(SCALE)

  it("chooses on a GPU, and on a CPU and in later processes what was chosen there", function()
    local folder = machine.new()
    local function run(device)
      local said = machine.run(folder, SCRIPT, ("FAKE_CUDA=\"computes=1\" FLAME_DEVICE=%s "
        .. "FLAME_CACHE_DIR=%s/cache"):format(device, folder))
      return said:match("(%S+)%s+(%d+)%s+200%.0")
    end
    local _, first = run("cpu")
    assert.equal("32", first)
    local device, chosen = run("cuda")
    assert.equal("cuda:0", device)
    assert.truthy(("32 64 128"):find(chosen, 1, true))
    local again = select(2, run("cuda"))
    local on_cpu = select(2, run("cpu"))
    machine.remove(folder)
    assert.same({ chosen, chosen }, { again, on_cpu })
  end)

  it("leaves the arguments as they are, and is another kernel", function()
    local decay = flame.kernel { source = [[__global__ void decay(float *x, int n) {
      int i = blockIdx.x * blockDim.x + threadIdx.x;
      if (i < n) x[i] *= 0.5f;
    }]], inout = { "x" } }
    local x = flame.tensor { 4, 8 }
    local tuned = decay:tune({ 64, 32 }, x)
    assert.same({ 4, 8 }, x:totable())
    assert.same({ 2, 4 }, tuned(x):totable())
    assert.not_equal(decay, tuned)
  end)

  it("says what is wrong with the list", function()
    for _, c in ipairs {
      { "need a list of blocks, {64, 128, {16, 16}}, got number", 64 },
      { "need a list of blocks, {64, 128, {16, 16}}, got none", {} },
      { "a block must be an integer, got 1.5", { 32, 1.5 } },
      { "a block must be an integer, got string", { "auto" } },
    } do
      local why = helper.message(function() k:tune(c[2], flame.ones(3)) end)
      assert(why:find(c[1], 1, true), why)
      assert(why:find("kernel_tune_spec.lua:", 1, true), why)
    end
    local why = helper.message(function() k:tune({ 5000 }, flame.ones(3))(flame.ones(3)):sum() end)
    assert(why:find("block.x = 5000, need 1 to 1024", 1, true), why)
  end)
end)
