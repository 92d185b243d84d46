-- flame's part of bench/calls.py, which compares with PyTorch: sorting, selecting, scans,
-- convolution, pooling, linear algebra and transforms. Reads lines "reps op key=value ..." and
-- answers each with the seconds per repetition or "error ...". Without calls.py:
--   echo "20 sort dtype=f32 shape=1000x1000 dim=2" | flame-lua bench/calls.lua cpu
-- Argument 1 is the device. Further arguments: "cpu-time" measures processor time instead of
-- elapsed time; "free" allows sums in any order (deterministic = false).
local flame = require "flame"
local device = arg[1] or flame.best_device()
flame.default_device(device)
flame.seed(1)
local wanted = {}
for i = 2, #arg do wanted[arg[i]] = true end
flame.deterministic(not wanted.free)

--- The list of sizes in a text such as "16x64x32".
local function sizes_of(text)
  local list = {}
  for n in tostring(text):gmatch("%d+") do list[#list + 1] = math.tointeger(n) end
  return list
end

local function normal(o, shape)
  return flame.randn(shape or sizes_of(o.shape)):to(o.dtype or "f32")
end

--- Random numbers with the shape and dtype of the options; integers are at most a million.
local function values(o)
  local shape = sizes_of(o.shape)
  if o.dtype:match("^i") then
    return flame.randint(shape, -1000000, 1000000, { dtype = o.dtype })
  end
  return normal(o, shape)
end

local ops = {}                                -- [name](options) gives the function to be measured

--- ops of one tensor along an axis: o.dim, from 1
for _, name in ipairs { "sort", "argsort", "median", "cumsum", "cumprod",
    "logcumsumexp", "cummax" } do
  ops[name] = function(o)
    local x = values(o)
    return function() return x[name](x, o.dim) end
  end
end
for _, name in ipairs { "topk", "kthvalue" } do
  ops[name] = function(o)
    local x = values(o)
    return function() return x[name](x, o.k, o.dim) end
  end
end
function ops.unique(o)
  local x = flame.randint({ o.n }, 1, o.most)
  return function() return x:unique() end
end
function ops.bincount(o)
  local x = flame.randint({ o.n }, 1, o.bins)
  return function() return x:bincount() end
end
function ops.histc(o)
  local x = normal(o)
  return function() return x:histc(o.bins) end
end
function ops.searchsorted(o)
  local place, x = flame.randn(o.table):sort(1), flame.randn(o.n)
  return function() return place:searchsorted(x) end
end
function ops.nonzero(o)
  local x = flame.rand(sizes_of(o.shape)):lt(o.percent / 100)
  return function() return x:nonzero() end
end
function ops.randperm(o)
  return function() return flame.randperm(o.n) end
end
function ops.multinomial(o)
  local p = flame.rand(sizes_of(o.shape))
  return function() return flame.multinomial(p, o.n, { replacement = o.replacement == 1 }) end
end

--- The function to be measured: 'forward', and with pass=backward also the gradients of 'inputs'.
local function with_gradients(o, inputs, forward)
  if o.pass ~= "backward" then return forward end
  for _, x in ipairs(inputs) do x:requires_grad_(true) end
  local seed = flame.ones_like(forward()):detach()
  return function()
    local y = forward()
    local g, all = y:gradients(inputs, { seed = seed }), { y }
    for i, x in ipairs(inputs) do all[1 + i] = g[x] end
    return table.unpack(all)
  end
end

function ops.conv(o)
  local size, groups = sizes_of(o.size), o.groups or 1
  local ends = o.transposed and { o.c, o.o // groups } or { o.o, o.c // groups }
  local window, shape = { ends[1], ends[2] }, { o.n, o.c }
  for i = 1, #size do window[2 + i], shape[2 + i] = o.k, size[i] end
  local x, w = normal(o, shape), normal(o, window)
  local f = flame[(o.transposed and "conv_transpose%dd" or "conv%dd"):format(#size)]
  local how = { stride = o.stride or 1, padding = o.padding or 0, dilation = o.dilation or 1,
    groups = groups }
  return with_gradients(o, { x, w }, function() return f(x, w, how) end)
end
function ops.max_pool(o)
  local x = normal(o)
  return with_gradients(o, { x }, function() return x:max_pool2d(o.k, o.stride, o.padding or 0) end)
end
function ops.avg_pool(o)
  local x = normal(o)
  return with_gradients(o, { x }, function() return x:avg_pool2d(o.k, o.stride, o.padding or 0) end)
end
function ops.adaptive_avg_pool(o)
  local x = normal(o)
  return with_gradients(o, { x }, function() return x:adaptive_avg_pool2d(o.out) end)
end
function ops.interpolate(o)
  local x = normal(o)
  local how = { scale_factor = o.scale, mode = o.mode }
  return with_gradients(o, { x }, function() return x:interpolate(how) end)
end
function ops.batch_norm(o)
  local x, c = normal(o), sizes_of(o.shape)[2]
  local mean, var, w, b = flame.zeros(c), flame.ones(c), flame.rand(c), flame.rand(c)
  return with_gradients(o, { x, w, b }, function()
    return flame.batch_norm(x, mean, var, w, b, { training = true })
  end)
end

--- Random square matrices, and a multiple of the identity that makes them far from singular.
local function matrices(o)
  local shape = sizes_of(o.shape)
  local n = shape[#shape]
  return normal(o, shape), flame.eye(n, { dtype = o.dtype }) * n
end
function ops.svd(o)
  local x = normal(o)
  return function() return flame.svd(x) end
end
function ops.qr(o)
  local x = normal(o)
  return function() return flame.qr(x) end
end
function ops.eigh(o)
  local x = normal(o)
  local s = x + x:transpose(-1, -2)
  return function() return flame.eigh(s) end
end
function ops.cholesky(o)
  local x, wide = matrices(o)
  local s = x:matmul(x:transpose(-1, -2)) + wide
  return function() return flame.cholesky(s) end
end
function ops.inverse(o)
  local x, wide = matrices(o)
  local a = x + wide
  return function() return flame.inverse(a) end
end
function ops.solve(o)
  local x, wide = matrices(o)
  local a = x + wide
  return function() return flame.solve(a, x) end
end
--- fft of complex numbers, which are pairs along a last axis
function ops.fft(o)
  local shape = sizes_of(o.shape)
  shape[#shape + 1] = 2
  local x = normal(o, shape)
  return function() return flame.fft(x) end
end
function ops.rfft(o)
  local x = normal(o)
  return function() return flame.rfft(x) end
end

--- The name of the op and the options from "op key=value ...".
local function parse(text)
  local op, o = text:match("^%S+"), {}
  for key, v in text:gmatch("(%w+)=(%S+)") do o[key] = math.tointeger(v) or tonumber(v) or v end
  return op, o
end

local clock = flame.timer
if wanted["cpu-time"] then
  clock = function()
    local start = os.clock()
    return function() return os.clock() - start end
  end
end

local current = {}                            -- { text =, body = }
local function prepare(text)
  local op, o = parse(text)
  if not ops[op] then error("no op " .. tostring(op), 0) end
  current.text, current.body = nil, nil       -- makes the tensors of the last case garbage
  collectgarbage() collectgarbage()
  flame.empty_cache()
  local body = ops[op](o)
  for _ = 1, 2 do flame.eval(body()) end
  current.text, current.body = text, body
end

local function measure(reps)
  local body = current.body
  flame.synchronize()
  local seconds = clock()
  for _ = 1, reps do flame.eval(body()) end
  flame.synchronize()
  return seconds() / reps
end

for line in io.lines() do
  local reps, text = line:match("^(%d+)%s+(.*)$")
  local ok, answer = pcall(function()
    if current.text ~= text then prepare(text) end
    return measure(tonumber(reps))
  end)
  print(ok and ("%.9f"):format(answer) or "error " .. tostring(answer):gsub("\n.*", ""))
  io.stdout:flush()
end
