-- A text that the front end reads but a GPU's compiler refuses runs there as it was read.
local machine = require "spec.support.machine"
local has_gxx <const> = os.execute "g++ --version >/dev/null 2>&1"

describe("a text that a GPU's compiler refuses", function()
  local folder
  setup(function() folder = machine.new() end)
  teardown(function() machine.remove(folder) end)
  local function run(script) return machine.run(folder, script, "FAKE_CUDA=computes=1") end

  it("runs as it was read, with its gradient, if it is in the language", has_gxx and function()
    assert.equal("5 9 13\n10 10 10\n1\n", run [[
local k = flame.kernel("__device__ float wide(at::Half h) { return __half2float(h); }\n"
  .. "__global__ void k(const float *x, float *y, int n) {\n"
  .. "  int i = threadIdx.x;\n"
  .. "  if (i < n) y[i] = x[i] * 4.f + wide(1.f);\n}")
local x = flame.tensor({ 1, 2, 3 }, { requires_grad = true })
local y = k(x)
print(("%d %d %d"):format(table.unpack(y:totable())))
;(y * 2.5):sum():backward()
print(("%d %d %d"):format(table.unpack(x.grad:totable())))
print(select(2, k:source():gsub("at::", "")))]])
  end or function() pending "no g++" end)

  it("may have several entries", has_gxx and function()
    assert.equal("2.0\t3.0\n", run [[
local k = flame.kernel { source = "__device__ float wide(at::Half h) { return __half2float(h); }\n"
  .. "__global__ void a(const float *x, float *y) { y[0] = x[0] + wide(1.f); }\n"
  .. "__global__ void b(const float *x, float *y) { y[0] = x[0] + wide(2.f); }", entry = { "a", "b" } }
local x = flame.ones(1)
print(k.a(x):item(), k.b(x):item())]])
  end or function() pending "no g++" end)

  it("is found among others that are compiled at the same time", has_gxx and function()
    local text = run [[
local function one(name, more)
  return flame.kernel("__device__ float wide" .. more .. " h) { return h + 1.f; }\n__global__ void "
    .. name .. "(const float *x, float *y) { y[0] = x[0] * wide(1.f); }")
end
local static = "\nstatic_assert(sizeof(at::Half) == 2, \"two bytes\");\n"
local a, b, c = one("a", "(float"), one("b", "(at::Half"), one("c", "(float")
local d = flame.kernel("__global__ void d(const float *x, float *y) { y[0] = x[0]; }" .. static)
flame.warmup { a, b, c }
print(a(flame.ones(1)):item(), b(flame.ones(1)):item(), c(flame.ones(1)):item())
print(pcall(flame.warmup, { a, d, b }))
print(pcall(function() return d(flame.ones(1)):item() end))
print(a(flame.ones(1)):item(), b(flame.ones(1)):item())]]
    assert.matches("^2.0\t2.0\t2.0\nfalse\t.*\nfalse\t.*\n2.0\t2.0\n$", text)
  end or function() pending "no g++" end)

  it("is refused with what the compiler said of it otherwise", has_gxx and function()
    local text = run [[
print(pcall(function()
  return flame.kernel("__device__ float wide(at::Half h) { return __half2float(h); }\n"
    .. "template <class T> struct Size { static_assert(sizeof(T) == 2, \"two bytes\"); };\n"
    .. "__global__ void k(const float *x, float *y) { y[0] = x[0] + wide(1.f); }")(flame.ones(1)):item()
end))
print(flame.ones(2):sum():item())]]
    assert.matches("^false", text)
    assert.matches("at", text)
    assert.matches("\n2.0\n$", text)
  end or function() pending "no g++" end)
end)

describe("a block with more registers than a GPU gives it", function()
  local folder
  setup(function() folder = machine.new() end)
  teardown(function() machine.remove(folder) end)
  local function run(script)
    return machine.run(folder, script, [[FAKE_CUDA="computes=1 registers=96"]])
  end

  it("runs a text with bounds, and so does its gradient", has_gxx and function()
    assert.equal("1024\n2048.0\n96\t512\n", run [[
local k = flame.kernel { source = "__global__ void k(const float *x, float *y) {\n"
  .. "  y[threadIdx.x] = x[threadIdx.x] * x[threadIdx.x];\n}", block = 1024, grid = 1 }
local x = flame.ones(1024):requires_grad_(true)
local y = k(x)
print(("%d"):format(y:sum():item()))
y:sum():backward()
print(x.grad:sum():item())
print(k:report().registers, (k:with { block = 512, grid = 2 }(flame.ones(1024)):narrow(1, 1, 512):sum():item() // 1 | 0))]])
  end or function() pending "no g++" end)

  it("or else is told, with what to do", function()
    local text = machine.run(folder, [[
local k = flame.kernel { source = "__global__ void k(const float *x, float *y) {\n"
  .. "  asm(\"brkpt;\"); y[threadIdx.x] = x[threadIdx.x];\n}", block = 1024, grid = 1 }
print(pcall(function() return k(flame.ones(1024)):sum():item() end))
print(flame.ones(2):numel())]], "FAKE_CUDA=registers=96")
    assert.matches("1024 threads with 96 registers each", text)
    assert.matches("launch smaller blocks", text)
    assert.matches("\n2\n$", text)
  end)
end)
