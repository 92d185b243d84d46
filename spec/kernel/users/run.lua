--- Runs kernels as users write them and checks values against plain Lua, the derived gradient
--- against differences, and forward against reverse mode. The other files of this folder
--- have the kernels; spec/kernel/users/kernel_users_spec.lua makes a test of each.
--
--- A kernel is written for float. run.double converts its text to the same kernel for double, whose
--- derivatives are compared with central differences to second order.
--
---   { "name", [[source]], args = function(t) … end, want = function(…) … end,
---     block =, grid =, shape =, shared =, inout =, entry =, nodiff =,    as of flame.kernel
---     refuses = "text"    asking for a gradient raises this, with its line
---     single = true       the kernel is for f32 alone (it looks at bits, or stays in halves)
---     outside = "text"    the CPU refuses to run it with this, and its line: no 'want'
---     order = 1, eps =    of flame.gradcheck
---     half = true         derivatives of halves are f32 in the f64 variant, too
---     same = true         results do not depend on real arguments: no gradient
---     tol =, tol64 =      of values, relative and absolute (2e-5 in f32, 1e-9 in f64) }
--
--- 'args' makes the arguments with t.f{shape, low =, high =} (reals), t.i{…} (i32), t.tensor(list,
--- dtype) and plain Lua values. 'want' gets them as flat tables from 0 and returns such tables.
local flame = require "flame"
local helper = require "spec.support.helper"
local proof = dofile("spec/kernel/kernel_proof.lua")

local run = {}

local with_f = "sqrt rsqrt sin cos tan exp log log2 log10 exp2 exp10 pow fabs fma fmin fmax floor ceil erf erfc " ..
  "tanh sinh cosh atan2 atan asin acos hypot copysign expm1 log1p cbrt rcbrt lgamma tgamma normcdf sincos round rint " ..
  "nearbyint trunc fmod fdim ldexp scalbn rhypot norm3d rnorm3d norm4d erfinv erfcx sinpi cospi sincospi frexp modf logb " ..
  "cuCadd cuCsub cuCmul cuCdiv cuCfma cuCabs cuCreal cuCimag cuConj"
local fast = "sin cos sincos exp log pow log2 log10 exp10 tan"

--- The text of a kernel with double instead of float.
function run.double(source)
  for name in fast:gmatch("%w+") do
    source = source:gsub("__" .. name .. "f%f[%W]", name)
  end
  for name in with_f:gmatch("%w+") do source = source:gsub("%f[%w_]" .. name .. "f%f[%W]", name) end
  source = source:gsub("__fmaf_rn", "__fma_rn"):gsub("__f(%l+)_rn",
    "__d%1_rn"):gsub("__dma_rn", "__fma_rn")
  source = source:gsub("__fdividef", "__ddiv_rn"):gsub("FLT_MAX", "DBL_MAX"):gsub("FLT_EPSILON",
    "DBL_EPSILON")
  source = source:gsub("cuFloatComplex", "cuDoubleComplex")
  source = source:gsub("%f[%w_]make_float", "make_double"):gsub("%f[%w_]float", "double")
  return (source:gsub("%f[%w_]([%d.]+[eE]?[+-]?%d*)f%f[%W]",
    "%1"):gsub("(%d[%d.]*[eE]?[+-]?%d*)f%f[%W]", "%1"))
end

local function maker(dtype, device)
  local n = 0
  local t = {}
  function t.tensor(list, kind)
    return flame.tensor(list, { dtype = kind or dtype, device = device })
  end
  --- A float tensor of numbers that look random, the same in both dtypes and on every machine.
  function t.f(how)
    local shape, low, high = {}, how.low or -1, how.high or 1
    local count = 1
    for i, size in ipairs(how) do shape[i], count = size, count * size end
    local list = {}
    for i = 1, count do
      n = n + 1
      local u = (math.sin(n * 12.9898 + count) * 43758.5453) % 1
      list[i] = math.floor((low + (high - low) * u) * 4096) / 4096
    end
    return t.tensor(list):reshape(shape)
  end
  function t.i(list) return t.tensor(list, "i32") end
  return t
end

local function flat(x)
  if type(x) ~= "userdata" then return x end
  local list, out = x:reshape(x:numel()):totable(), {}
  for i, v in ipairs(list) do out[i - 1] = v == true and 1 or v == false and 0 or v end
  return out
end

--- The kernel of a case for f32 or f64, and its arguments on a device (nil: the default one).
function run.make(case, dtype, device)
  local spec = { source = dtype == "f64" and run.double(case[2]) or case[2] }
  for _, key in ipairs { "block", "grid", "shape", "shared", "inout", "entry", "nodiff",
      "constants" } do
    spec[key] = case[key]
  end
  if dtype == "f64" and type(spec.shared) == "number" then spec.shared = 2 * spec.shared end
  return flame.kernel(spec), case.args(maker(dtype, device))
end

local function compare(case, k, args, tol)
  local got, lists = table.pack(k(table.unpack(args))), {}
  for i, x in ipairs(args) do lists[i] = flat(x) end
  local want = table.pack(case.want(table.unpack(lists)))
  assert(got.n == want.n, ("%d results, expected %d"):format(got.n, want.n))
  for r = 1, got.n do
    local have = flat(got[r])
    for e = 0, got[r]:numel() - 1 do
      local a, b = have[e], want[r][e]
      local near = a == b or (a ~= a and b ~= b) or math.abs(a - b) <= tol * (1 + math.abs(b))
      if not near then
        error(("result %d, element %d: %.17g, expected %.17g"):format(r, e, a, b), 0)
      end
    end
  end
end

--- The kernel k as a function of its float tensors alone, and these tensors.
local function of_floats(k, args)
  local at, inputs = {}, {}
  for i, x in ipairs(args) do
    if type(x) == "userdata" and x:is_floating_point() then
      at[#at + 1], inputs[#inputs + 1] = i, x
    end
  end
  local function f(...)
    local now = table.pack(table.unpack(args))
    for j, i in ipairs(at) do now[i] = (select(j, ...)) end
    local out = {}
    for _, y in ipairs { k(table.unpack(now)) } do
      if y:is_floating_point() then out[#out + 1] = y end
    end
    return table.unpack(out)
  end
  return f, inputs
end

--- Values, tangents and gradients of a case in one list, with a word before each kind.
local function everything(case, dtype, device)
  if case.outside then return {} end
  local k, args = run.make(case, dtype, device)
  local f, inputs = of_floats(k, args)
  local out = { "value", k(table.unpack(args)) }
  if case.same or case.refuses then return out end
  for _, way in ipairs { "jvp", "vjp" } do
    local seeds = {}
    for i, x in ipairs(way == "jvp" and inputs or table.pack(f(table.unpack(inputs)))) do
      seeds[i] = proof.direction(x, way == "jvp" and 0.4 or 1.1)
    end
    local _, list = flame[way](f, inputs, seeds)
    out[#out + 1] = way
    for _, t in ipairs(type(list) == "table" and list or { list }) do out[#out + 1] = t end
  end
  return out
end

--- Checks that a device computes the same as the CPU, up to the rounding of sums in another order.
function run.devices(case, device)
  for dtype, tol in pairs { f32 = math.max(case.tol or 0, 2e-4),
      f64 = not case.single and 1e-9 or nil } do
    local a, b, what = everything(case, dtype, "cpu"), everything(case, dtype, device), "?"
    for i = 1, #a do
      if type(a[i]) == "string" then what = a[i]
      else
        local x, y = a[i]:double():flatten(), b[i]:to("cpu"):double():flatten()
        local worst = ((x - y):abs() / (x:abs() + 1)):max():item()
        assert(worst <= tol, ("%s, %s: %g apart"):format(dtype, what, worst))
      end
    end
  end
end

local function refusal(case, k, args)
  local f, inputs = of_floats(k, args)
  for _, x in ipairs(inputs) do x.requires_grad = true end
  local ok, why = pcall(function()
    local sum
    for _, y in ipairs { f(table.unpack(inputs)) } do sum = sum and sum + y:sum() or y:sum() end
    sum:backward()
  end)
  assert(not ok, "a gradient was given")
  assert(tostring(why):find(case.refuses, 1, true), tostring(why))
  assert(tostring(why):find("line %d+"), "no line: " .. tostring(why))
end

--- Checks that a kernel that our parser does not accept raises when it runs on the CPU.
local function outside(case)
  local k, args = run.make(case, "f32")
  local why = helper.message(function() return (k(table.unpack(args))):sum():item() end)
  assert(why:find(case.outside, 1, true) and why:find("line %d+"), why)
end

function run.values(case)
  if case.outside then return flame.default_device() == "cpu" and outside(case) end
  local single, list = run.make(case, "f32")
  compare(case, single, list, case.tol or 2e-5)
  if case.single then return end
  local k, args = run.make(case, "f64")
  compare(case, k, args, case.tol64 or 1e-9)
end

function run.gradients(case)
  if case.outside then return end
  local k, args = run.make(case, case.single and "f32" or "f64")
  if case.refuses then return refusal(case, k, args) end
  if case.same then return end
  if not case.single then
    local f, inputs = of_floats(k, args)
    proof.check(f, inputs, { order = case.order, eps = case.eps, tol = case.half and 1e-6 })
  end
  local single, list = of_floats(run.make(case, "f32"))
  local forward, reverse = proof.both_modes(single, list)
  assert(math.abs(forward - reverse) <= 1e-4 * (1 + math.abs(forward)),
    ("f32: <J v, u> = %.9g, <v, J' u> = %.9g"):format(forward, reverse))
end

local there                      -- whether there is an NVRTC; nil: not asked yet

--- Checks that NVRTC, if there is one, compiles the kernel's text and that of its adjoint.
function run.compiles(case)
  if there == nil then
    local plain = flame.kernel("__global__ void k(const float *x, float *y) { y[0] = x[0]; }")
    there = plain:report().registers > 0
  end
  local report = run.make(case, "f32"):report()
  assert((report.registers > 0) == there, "the kernel does not compile")
  if case.refuses or case.outside then return end
  assert((report.adjoint.registers or 0) > 0 == there, "its adjoint does not compile")
end

return run
