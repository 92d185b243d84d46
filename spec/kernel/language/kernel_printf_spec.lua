--- printf in kernels prints the same lines on the CPU and with --sim, which runs CUDA devices on
--- the CPU: in the order of threads, and in order with the script's output.
local interpreter = dofile "spec/support/interpreter.lua"

local script = [[
local flame = require "flame"
local say = flame.kernel { source = [=[__global__ void say(const float *x, float *y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) {
    y[i] = x[i] * 2;
    const char *word = "odd%";
    if (i == 1) printf("%s%d%s, %s\n", (x[i] > 1) ? "+" : "-", i, i == 2 ? "" : "!", word);
    printf("thread %d: %.2f %c %3d|%-3d|%lld %x %%\n", i, y[i], 'a' + i, i, i, 10000000000ll, 255);
  }
}]=], block = { 2 } }
local y = say(flame.tensor({ 1, 2, 3 }, { device = DEVICE, requires_grad = true }))
print "before"
y:sum():backward()
print(y:sum():item())
]]
local lines = [[
before
+1!, odd%
thread 0: 2.00 a   0|0  |10000000000 ff %
thread 1: 4.00 b   1|1  |10000000000 ff %
thread 2: 6.00 c   2|2  |10000000000 ff %
12.0
]]

local function output(arguments, text)
  local path = os.tmpname()
  do
    local f <close> = assert(io.open(path, "w"))
    f:write(text)
  end
  local pipe = assert(io.popen(("env -u FLAME_DEVICE '%s' %s %s 2>&1"):format(interpreter,
    arguments, path)))
  local out = pipe:read "a"
  pipe:close()
  os.remove(path)
  return out
end

describe("printf of a kernel", function()
  it("writes a line for each thread, on the CPU and under --sim", function()
    assert.equal(lines, output("", (script:gsub("DEVICE", '"cpu"'))))
    assert.equal(lines, output("--sim", (script:gsub("DEVICE", '"cuda"'))))
  end)
  it("and an index alone take the name of a text", function()
    local out = output("", [[
local flame = require "flame"
for _, body in ipairs { "y[0] = w[1];", "y[0] = w == 0;", "const char *v = w + 1; y[0] = v[0];" } do
  print(pcall(function()
    local k = flame.kernel("__global__ void k(float *y) { const char *w = \"abc\"; " .. body .. " }")
    return k:with { shape = { 1 } }():item()
  end))
end]])
    assert.truthy(out:find("true\t98.0", 1, true), out)
    local _, refused = out:gsub("line 1 [^\n]*'w' is a text, for printf and %[i%]", "")
    assert.equal(2, refused, out)
  end)
  it("joins strings that stand side by side, however long", function()
    local long = ("x"):rep(450)
    local out = output("", ([[
local flame = require "flame"
local k = flame.kernel [=[__global__ void say(float *y, int n) {
  if (threadIdx.x == 0) printf("%s" "%s" "end%%c\n", 33);
  if (threadIdx.x < n) y[threadIdx.x] = 1;
}]=]
k:with { shape = { 4 } }(4):sum():item()]]):format(long, long))
    assert.equal(long .. long .. "end!\n", out)
  end)
  it("writes lines of any length, and takes widths and precisions from arguments", function()
    local long = ("x"):rep(450)
    local out = output("", ([[
local flame = require "flame"
local k = flame.kernel [=[__global__ void say(float *y, int n) {
  if (threadIdx.x == 0) printf("%s" "%s" "%s" "%%600d|\n", 7);
  if (threadIdx.x == 0) printf("%%*d|%%-*d|%%.*f|%%*.*f|%%.*f|%%d\n", 5, 42, 4, 7, 2, 3.14159, 8, 1, 2.25, -1, 1.5, 9);
  if (threadIdx.x < n) y[threadIdx.x] = 1;
}]=]
k:with { shape = { 4 } }(4):sum():item()]]):format(long, long, long))
    assert.equal(long .. long .. long .. (" "):rep(599) .. "7|\n"
      .. "   42|7   |3.14|     2.2|1.500000|9\n", out)
  end)
  it("is limited as what the script writes, and goes where that goes", function()
    local out = output("", [[
local flame = require "flame"
local text = {}
local box = flame.sandbox { output = 40, allow = { "kernels" }, print = function(s) text[#text + 1] = s end }
local kernel = [=[__global__ void say(float *y, int n) {
  int i = threadIdx.x;
  if (i < n) { y[i] = i; printf("thread %d\n", i); }
}]=]
print(pcall(box.run, box, "local k = flame.kernel(" .. ("%q"):format(kernel) .. ")"
  .. " print(k:with { shape = { 10 } }():sum():item())"))
print(table.concat(text))
]])
    assert.truthy(out:find("limit of 40", 1, true), out)
    assert.truthy(out:find("thread 0\nthread 1\nthread 2\nthread 3\n", 1, true), out)
    assert.is_nil(out:find("thread 4", 1, true), out)
  end)
end)
