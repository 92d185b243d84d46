--- FLAME_CHECK=grad, in a child process: wrong handwritten gradients are found in the first
--- backward and named; right ones and derived ones pass; points near a kink are skipped.
local interpreter = dofile("spec/support/interpreter.lua")

local script = [==[
local flame = require "flame"
flame.seed(7)
local HEAD = "__global__ void k(const float *x, const float *w, float *y, int n) {\n" ..
  "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
local square = HEAD .. "  if (i < n) y[i] = x[i] * x[i] * w[i];\n}"
local x, w = flame.rand(500):requires_grad_(), flame.rand(500):requires_grad_()
local function try(name, f, ...)
  local args, before = table.pack(...), flame.rng_state().counter
  local ok, e = pcall(function()
    local total
    for _, y in ipairs { f(table.unpack(args, 1, args.n)) } do total = total and total + y:sum() or y:sum() end
    before = flame.rng_state().counter
    total:backward()
  end)
  print(name .. "\t" .. (ok and "right" or e) .. (flame.rng_state().counter == before and "" or " and the generator moved"))
end
local function given(vjp, source) return flame.kernel { source = source or square, vjp = vjp } end

try("derived", flame.kernel(square), x, w)
try("right in Lua", given(function(g, a, b) return 2 * a * b * g, a * a * g end), x, w)
try("half of it", given(function(g, a, b) return a * b * g, a * a * g end), x, w)
try("the other's factor", given(function(g, a, b) return 2 * a * b * g, a * g end), x, w)
try("one element", given(function(g, a, b)
  local d = (2 * a * b * g):clone()
  d[7] = 0
  return d, a * a * g
end), x, w)
local BACK = "__global__ void back(const float *x, const float *w, int n, const float *g, float *dx, float *dw) {\n" ..
  "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n  if (i < n) { dx[i] = 2.f * x[i] * w[i] * g[i]; dw[i] = x[i] * x[i]%s; }\n}"
try("right in CUDA", given(BACK:format(" * g[i]")), x, w)
try("without g in CUDA", given(BACK:format(" * 3.f")), x, w)
try("outside the language, right", given(function(g, a, b) return 2 * a * b * g, a * a * g end,
  HEAD .. "  if (i < n) y[i] = __int_as_float(__float_as_int(x[i])) * x[i] * w[i];\n}"), x, w)
try("outside the language, wrong", given(function(g, a, b) return a * b * g, a * a * g end,
  HEAD .. "  if (i < n) y[i] = __int_as_float(__float_as_int(x[i])) * x[i] * w[i];\n}"), x, w)
local kinks = HEAD .. "  if (i < n) y[i] = fmaxf(x[i], 0.f) * w[i] + floorf(10.f * x[i]);\n}"
try("kinks", flame.kernel(kinks), flame.randn(500):requires_grad_(), w)
try("kinks at every element", flame.kernel(kinks), flame.zeros(500):requires_grad_(), w)
local TWO = "__global__ void k(const float *x, float *a, float *b, int n) { int i = threadIdx.x; " ..
  "if (i < n) { a[i] = x[i] * x[i]; b[i] = 3.f * x[i]; } }"
local few = flame.rand(100):requires_grad_()
try("two results", given(function(ga, gb, a) return 2 * a * ga + 3 * gb end, TWO), few)
try("two results, one wrong", given(function(ga, gb, a) return 2 * a * ga + 2 * gb end, TWO), few)
try("a result of another argument", flame.kernel("__global__ void k(const float *x, const float *w, " ..
  "float *a, float *b, int n) { int i = threadIdx.x; if (i < n) { a[i] = x[i] * x[i]; b[i] = w[i]; } }"),
  few, few * 2)
try("numbers and doubles", flame.kernel("__global__ void k(const double *x, double a, double *y, int n) { " ..
  "int i = threadIdx.x; if (i < n) y[i] = exp(a * x[i]); }"),
  few:detach():double():requires_grad_(), flame.tensor(0.5, { dtype = "f64" }):requires_grad_())
try("halves inside", flame.kernel [[__global__ void k(const double *x, double *y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = __half2float(__hmul(__float2half(x[i]), __float2half(2.f))) + x[i] * x[i];
}]], flame.tensor({ 0.3, 0.71, 1.1 }, { dtype = "f64", requires_grad = true }))
try("halves", flame.kernel("__global__ void k(const __half *x, __half *y, int n) { int i = threadIdx.x; if (i < n) y[i] = x[i] * x[i]; }"),
  few:detach():half():requires_grad_())
try("in and out", flame.kernel { source = "__global__ void k(const float *x, float *s, int n) { " ..
  "int i = threadIdx.x; if (i < n) s[i] = s[i] * x[i] + sinf(s[i]); }",
  inout = { "s" } }, few, flame.rand(100):requires_grad_())
local function cube(factor)
  return flame.func { name = "cube", forward = function(ctx, a) ctx:save(a) return a * a * a end,
    backward = function(ctx, g) return factor * ctx:saved() ^ 2 * g end }
end
try("a function", cube(3), few)
try("a wrong function", cube(2), few)
try("a function that draws", flame.func { name = "drop",
  forward = function(ctx, a) ctx.mask = flame.rand_like(a):gt(0.5):to("f32") return a * ctx.mask end,
  backward = function(ctx, g) return g * ctx.mask end }, few)
]==]

local function run(environment)
  local path = os.tmpname()
  local f = assert(io.open(path, "w"))
  f:write(script)
  f:close()
  local pipe = assert(io.popen(("env %s '%s' %s 2>&1"):format(environment, interpreter, path)))
  local text, said = pipe:read("a"), {}
  pipe:close()
  os.remove(path)
  said.text = text
  for line in text:gmatch("[^\n]+") do
    local name, message = line:match("^(.-)\t(.*)$")
    if name then said[name] = message end
  end
  return said
end

local wrong = {
  ["half of it"] = "gradient by x is off", ["the other's factor"] = "gradient by w is off",
  ["one element"] = "gradient by x is off",
  ["without g in CUDA"] = "gradient by w is off",
  ["outside the language, wrong"] = "gradient by x is off: <J u, v> = ",
  ["two results, one wrong"] = "gradient by x is off",
  ["a wrong function"] = "cube: FLAME_CHECK=grad: the gradient by input 1 is off" }
local right = { "derived", "right in Lua", "right in CUDA", "outside the language, right", "kinks",
  "kinks at every element", "two results",
  "a result of another argument", "numbers and doubles", "halves", "halves inside",
  "in and out", "a function", "a function that draws" }

describe("under FLAME_CHECK=grad", function()
  local said
  local cuda = require("flame").default_device():sub(1, 4) == "cuda"
  setup(function() said = run("FLAME_CHECK=grad") end)
  for name, text in pairs(wrong) do
    if cuda or not name:find("outside") then
      it("a wrong gradient is caught: " .. name, function()
        assert.truthy(said[name], said.text)
        assert.truthy(said[name]:find(text, 1, true), said[name])
        assert.falsy(said[name]:find("generator moved", 1, true), said[name])
      end)
    end
  end
  for _, name in ipairs(right) do
    if cuda or not name:find("outside") then
      it("a right one passes: " .. name, function()
        assert.equal("right", said[name] or said.text)
      end)
    end
  end
end)

describe("without it", function()
  it("nothing is compared", function()
    local said = run("FLAME_CHECK=")
    assert.equal("right", said["half of it"] or said.text)
    assert.equal("right", said["a wrong function"])
  end)
end)
