--- k:tune finds the fastest block of a list and keeps it on disk. Times are measured on the
--- simulated GPU of the fake driver (spec/c/fake_compute.c); a CPU then reads the choice from disk.
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

  it("tries arguments of a template, with and without blocks", function()
    local folder = machine.new()
    local script = [[local text = "template <typename T, int BY> __global__ void k(const T *x, "
        .. "T *y, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; "
        .. "if (i < n) y[i] = x[i] * T(BY) + T(1000) * T(blockDim.x); }"
      local x = flame.ones(100):requires_grad_(true)
      for _, entry in ipairs { "k<auto, 2>", "k<float, 2>" } do
        local k = flame.kernel { source = text, entry = entry }
        for _, list in ipairs { { template = { { 3 }, { 5 } } },
            { template = { 3, 5 }, block = { 32, { 64 } } } } do
          local y = k:tune(list, x)(x)
          x.grad = nil
          y:sum():backward()
          print(entry, x.device, y[1]:item(), x.grad[1]:item())
        end
      end]]
    local function run(device)
      local said, list = machine.run(folder, script, ("FAKE_CUDA=\"computes=1\" FLAME_DEVICE=%s "
        .. "FLAME_CACHE_DIR=%s/cache"):format(device, folder)), {}
      for y, g in said:gmatch "k<[^\n]->%s+%S+%s+(%d+)%.0%s+(%d+)%.0" do
        assert.equal(tonumber(y) % 1000, tonumber(g), said)
        list[#list + 1] = y
      end
      assert.equal(4, #list, said)
      return list
    end
    assert.same({ "256003", "32003", "256003", "32003" }, run("cpu"))
    local chosen = run("cuda")
    assert.same(chosen, run("cuda"))
    assert.same(chosen, run("cpu"))
    machine.remove(folder)
  end)

  it("keeps geometry and constants", function()
    local w = flame.kernel { source = [[__constant__ float c[1];
      template <int N = 1, int M = 7> __global__ void w(const float *x, float *y, int n) {
        if (blockIdx.x * blockDim.x + threadIdx.x == 0) y[0] = x[0] * N * c[0] + M + 100 * gridDim.x;
      }]], shape = { 1 }, grid = { 2 } }
    w:constant("c", 3)
    assert.equal(210, w(flame.ones(4), 4):item())
    local tuned = w:with { grid = { 5 } }:tune({ template = { { 9, 8 } } }, flame.ones(4), 4)
    assert.equal(535, tuned(flame.ones(4), 4):item())
    assert.equal(537, tuned:tune({ template = { 10 } }, flame.ones(4), 4)(flame.ones(4), 4):item())
  end)

  it("says what is wrong with the list", function()
    local plain = helper.message(function() k:tune({ template = { 3 } }, flame.ones(3)) end)
    assert(plain:find("template: 1 argument for a kernel, which has 0", 1, true), plain)
    local key = helper.message(function()
      k:tune({ blocks = { 3 }, block = { 3 } }, flame.ones(3))
    end)
    assert(key:find("blocks", 1, true), key)
    local none = helper.message(function() k:tune({ template = {} }, flame.ones(3)) end)
    local say = "need a list of arguments of the template, {{16}, {32}}, got none"
    assert(none:find(say, 1, true), none)
    local odd = helper.message(function() k:tune({ template = { { {} } } }, flame.ones(3)) end)
    assert(odd:find("argument 1 of a template is a table", 1, true), odd)
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
