--- Several kernels of one text, on the default device.
local flame = require "flame"
local nn = require "flame.nn"
local helper = require "spec.support.helper"
local message = helper.message

local source <const> = [[
  __constant__ float w[2];
  __device__ float kept[3];
  template <typename T> __global__ void thrice(const T *x, T *y, int n) {
    int i = threadIdx.x;
    if (i < n) y[i] = T(3) * x[i];
  }
  __global__ void twice(const float *x, float *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = 2.f * x[i];
  }
  __global__ void add(const float *x, float *z, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) z[i] += x[i];
  }
  __global__ void fill(const float *x, int n) {
    if (threadIdx.x < n) kept[threadIdx.x] = x[threadIdx.x] * w[0];
  }
  __global__ void use(const float *x, float *y, int n) {
    if (threadIdx.x < n) y[threadIdx.x] = kept[threadIdx.x] + x[threadIdx.x] * w[1];
  }
]]

local x
before_each(function() x = flame.tensor({ 1, 2, 3 }, { requires_grad = true }) end)

describe("several entries of a text", function()
  it("are kernels by name, each with its gradient", function()
    local k = flame.kernel(source, { entry = { "twice", "add" }, inout = { "z" } })
    assert.equal("flame.kernels add, twice", tostring(k))
    assert.same({ 2, 4, 6 }, k.twice(x):totable())
    assert.same({ 11, 12, 13 }, k.add(x, flame.full({ 3 }, 10)):totable())
    local both = k.twice(x) + k.add(x, flame.zeros(3))
    both:sum():backward()
    assert.same({ 3, 3, 3 }, x.grad:totable())
  end)

  it("may be named by the script, and have options that differ", function()
    local k = flame.kernel { source = source, block = 64, threads = 3, entry = {
      "twice", wide = { "twice", block = 128, grid = 2 },
      add = { inout = { "z" }, nodiff = { "x" } }, half = "thrice<__half>", any = "thrice" } }
    assert.same({ 2, 4, 6 }, k.twice(x):totable())
    assert.same({ 2, 4, 6 }, k.wide(x):totable())
    assert.is_false(k.add(x, flame.zeros(3)).requires_grad)
    assert.equal("f16", k.half(flame.ones(3):half()).dtype)
    assert.equal("f64", k.any(flame.ones(3):double()).dtype)
    assert.equal("f64", k.any(flame.ones(3):double()).dtype)
  end)

  it("share the variables of file scope that are set", function()
    local k = flame.kernel { source = source, entry = { "use", fill = { inout = { "kept" } } } }
    k.use:constant("w", flame.tensor { 2, 10 })
    local kept = k.fill(x, 3, flame.zeros(3))
    assert.same({ 2, 4, 6 }, kept:totable())
    assert.matches("use: constant 'kept' has no value", message(k.use, x))
    k.use:constant("kept", kept)
    local y = k.use(x)
    assert.same({ 12, 24, 36 }, y:totable())
    y:sum():backward()
    assert.same({ 12, 12, 12 }, x.grad:totable())
    local other = k.use:with { block = 32 }
    other:constant("w", flame.zeros(2))
    assert.same({ 12, 24, 36 }, k.use(x):totable())
    assert.same({ 2, 4, 6 }, other(x):totable())
  end)

  it("are read from a file, with its lines in messages", function()
    local path = os.tmpname()
    local file <close> = assert(io.open(path, "w"))
    file:write("__global__ void a(const float *x, float *y, int n) {\n",
      "  if (threadIdx.x < n) y[threadIdx.x] = x[threadIdx.x + 1];\n}\n",
      "__global__ void b(const float *x, float *y, int n) {\n  int q = *y;\n}\n")
    file:close()
    local k = flame.kernel_file(path, { entry = { "a", "b" }, block = 32 })
    assert.matches("kernel 'a', line 2 %(.*:2%): index 3 of 'x'", message(function()
      if flame.default_device() ~= "cpu" then error("kernel 'a', line 2 (x:2): index 3 of 'x'") end
      return k.a(x):totable()
    end))
    assert.matches("b: reads output 'y' %(line 5%)", message(k.b, x))
    os.remove(path)
  end)

  it("are compiled together", function()
    if flame.default_device() == "cpu" then return end
    local k = flame.kernel((source:gsub("3", "4")), { entry = { "twice", "add" }, inout = { "z" } })
    local before = flame.stats().texts
    flame.warmup { k.twice, k.add }
    assert.equal(1, flame.stats().texts - before)
    assert.same({ 2, 4, 6 }, k.twice(x):totable())
  end)

  it("are methods of a module that has them, and copied and moved with it", function()
    local here = flame.default_device()
    flame.default_device("cpu")
    local Net = nn.Module.extend("Net")
    function Net:init()
      self.k = flame.kernel { source = source, entry = { "use", fill = { inout = { "kept" } } } }
      self.k.use:constant("w", flame.tensor { 2, 10 }):constant("kept", flame.ones(3))
    end
    function Net:forward(v) return self.k.use(v) end
    local net = Net()
    flame.default_device(here)
    net:to(here)
    local copy = net:clone()
    copy.k.fill:constant("w", flame.tensor { 0, 0 })
    assert.same({ 11, 21, 31 }, net(x):totable())
    assert.same({ 1, 1, 1 }, copy(x):totable())
  end)

  it("are refused where they are not names of kernels", function()
    local function refused(entry, o)
      o = o or {}
      o.entry = entry
      return message(flame.kernel, source, o)
    end
    assert.matches("kernel: entry is an empty table: name a kernel of the source", refused {})
    assert.matches("entry%[2%] must be the name of a kernel, or {name, block = …}, got number",
      refused { "add", 3 })
    assert.matches("entry.k must be the name", refused { k = true })
    assert.matches("there is no entry 'ad', the source has: twice, add, fill, use",
      refused { "twice", "ad" })
    assert.matches("entry has 'twice' twice: give each a name, entry = {one = \"twice\"",
      refused { "twice", "twice" })
    assert.matches("entry has 'thrice' twice: give each a name, entry = {one = \"thrice<float>\", "
      .. "two = \"thrice<int>\"}", refused { "thrice<float>", "thrice<int>" })
    assert.matches("no option 'blok', there is: block grid", refused { add = { blok = 1 } })
    assert.matches("entry.add has 'options', which is for the whole text: give it beside entry",
      refused { add = { options = {} } })
    assert.matches("entry has the key 7: give a list, or names", refused { "add", [7] = "twice" })
    assert.matches("nodiff: no kernel has a parameter 'q' that it fits",
      refused({ "add", "twice" }, { nodiff = { "x", "q" } }))
    assert.matches("inout: no kernel has a parameter 'x' that it fits",
      refused({ "add", "twice" }, { inout = { "x" } }))
    assert.matches("the source has several kernels .*: name one with entry =, or several in a list",
      message(flame.kernel, source))
  end)

  it("say what there is where one is called that is not there", function()
    local k = flame.kernel(source, { entry = { "twice", "add" }, inout = { "z" } })
    assert.matches("kernel: there is no kernel 'double' among: add, twice",
      message(function() return k.double(x) end))
    assert.matches("kernel: these are several kernels: call one of them by name: add, twice",
      message(function() return k(x) end))
  end)

  it("say what to write for a colon, and for methods of one kernel", function()
    local k = flame.kernel(source, { entry = { "twice", any = "thrice" } })
    local colon = ": called with a colon, and what is before it has several kernels: write a dot"
    assert.matches("twice" .. colon, message(function() k:twice(x) end), 1, true)
    assert.matches("thrice" .. colon, message(function() k:any(x) end), 1, true)
    for _, name in ipairs { "with", "constant", "tune", "report", "source" } do
      assert.matches(("kernel: %s is of a kernel, and these are several: write k.any:%s(…)"):format(name,
        name), message(function() k[name](k, {}) end), 1, true)
    end
    local own = flame.kernel(source, { entry = { with = "twice" } })
    assert.same({ 2, 4, 6 }, own.with(x):totable())
  end)
end)
