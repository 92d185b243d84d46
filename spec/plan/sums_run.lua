--- Prints the bits (as numbers) of gradients that are sums of a large product of f32 and something
--- else: a GPU computes such a sum in one step (n_add_fused in src/tensor/build_matmul.c).
--- Arguments: the first and the last seed.
local flame = require "flame"
local generator = dofile("spec/support/generator.lua")

local function hash(x)
  x = x:detach():contiguous()
  if x.dtype == "f32" then x = x:view "i32" end
  local place = flame.arange(x:numel(), { device = x.device }) % 1009 + 1
  return (x:flatten():to "i64" * place):sum():item()
end

--- What else x is used for, beside a product: a function of x with a value of its shape.
local other = {
  square = function(x) return x:square() end,
  norm = function(x) return flame.layer_norm(x, { x.shape[x.ndim] }) end,
  turned = function(x) return x:transpose(-1, -2):contiguous():transpose(-1, -2) * 3 end,
  sums = function(x) return x:cumsum(-1) end,
  parts = function(x)
    local n = x.shape[1] // 2
    return flame.cat { x:narrow(1, 1, n):sin(), x:narrow(1, n + 1, x.shape[1] - n):cos() }
  end,
  column = function(x) return x * x:mean(-1, true) end,
  stored = function(x) local y = x * 2 flame.eval(y) return y * y end,
}
local names = {}
for name in pairs(other) do names[#names + 1] = name end
table.sort(names)

local shapes <const> = { { 1025, 1024 }, { 4, 512, 520 }, { 2048, 513 }, { 3, 2, 400, 441 },
  { 8, 256, 512 } }

local function program(seed)
  local r = generator(seed)
  local choose = r.pick
  flame.seed(seed)
  local shape, K = choose(shapes), choose { 16, 33, 64 }
  local N = shape[#shape]
  local x = flame.randn(shape):requires_grad_(true)
  local many = #shape == 3 and r.chance(1 / 2)
  local w = (many and flame.randn(shape[1], N, K) or flame.randn(N, K)):requires_grad_(true)
  local v = r.chance(1 / 3) and flame.randn(N, K):requires_grad_(true) or nil
  flame.eval(x, w, v)
  local from = r.chance(1 / 2) and x * 0.5 or x                       -- a leaf, or not
  if r.chance(1 / 3) and from ~= x then from:retain_grad() end
  local f = other[choose(names)]
  local loss = (from:matmul(w) * 0.1):square():sum() + f(from):square():sum()
  if v then loss = loss + from:matmul(v):sin():sum() end
  local twice = r.chance(1 / 4)
  local out = {}
  if twice then
    local g = flame.autograd.grad(loss, { x }, { create_graph = true })[1]
    out[1] = g:detach()
    g:square():sum():backward()
  else loss:backward() end
  for _, p in ipairs { x, w, v, from } do if p.grad then out[#out + 1] = p.grad end end
  if r.chance(1 / 2) then loss:detach() end
  flame.eval(out)
  return out
end

local first, last = math.tointeger(tonumber(arg[1])), math.tointeger(tonumber(arg[2]))
for seed = first, last do
  for turn = 1, 2 do
    local list = {}
    for i, x in ipairs(program(seed)) do list[i] = tostring(hash(x)) end
    print(seed, turn, table.concat(list, " "))
  end
end
