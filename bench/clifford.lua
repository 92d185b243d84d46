--- Measures products and layers of flame.clifford in Cl(3,0), forward alone and with all gradients:
--- prints medians in microseconds and numbers of launches. The weighted product with gates and norm
--- is also measured as a formula for each component. The size on a GPU is flash-clifford's.
--
---   FLAME_DEVICE=cuda flame-lua bench/clifford.lua [batch [features]]
local flame = require "flame"
local clifford = require "flame.clifford"

local gpu = flame.default_device():sub(1, 4) == "cuda"
local B, N = tonumber(arg and arg[1]) or (gpu and 4096 or 32), tonumber(arg and arg[2]) or 512
local REPEAT, QUEUED = 15, gpu and 10 or 1
local A = clifford.algebra(3)
local x, y, g = flame.randn(8, B, N), flame.randn(8, B, N), flame.randn(8, B, N)
local w, matrices = flame.randn(#A.paths, N), flame.randn(#A.paths, N, N) / N ^ 0.5
local layer, full = clifford.Layer(A, N), clifford.Layer(A, N, { fully_connected = true })

--- Microseconds and launches of a call of f: the median of REPEAT measurements of QUEUED calls
--- each, so that a GPU works while the host records the next call.
local function measured(f)
  local times = {}
  f()
  flame.stats("reset")
  f()
  local launches = flame.stats().launches
  for i = 1, REPEAT do
    flame.synchronize()
    local t = flame.timer()
    for _ = 1, QUEUED do f() end
    flame.synchronize()
    times[i] = t() * 1e6 / QUEUED
  end
  table.sort(times)
  return times[REPEAT // 2 + 1], launches
end

--- Measures f alone, then with the gradients with respect to the list xs, and prints both.
local function compare(name, f, xs)
  for _, v in ipairs(xs) do v:requires_grad_(true) end
  local forward, some = measured(function() flame.eval((flame.no_grad(f))) end)
  local both, all = measured(function()
    local r = f()
    r:backward(g)
    local list = { r }
    for i, v in ipairs(xs) do list[i + 1], v.grad = v.grad, nil end
    flame.eval(table.unpack(list))
  end)
  for _, v in ipairs(xs) do v:requires_grad_(false) end
  print(("%-34s forward %8.0f us, %2d launches; with backward %8.0f us, %2d launches"):format(name,
    forward, some, both, all))
end

--- gelu, weighted product and norm of x and y, with an expression for each component.
local function by_component()
  local gate, a, b, r = (x[1] * 0.5 ^ 0.5):erf() * 0.5 + 0.5, {}, {}, {}
  local other = (y[1] * 0.5 ^ 0.5):erf() * 0.5 + 0.5
  for k = 1, 8 do a[k], b[k] = x[k] * gate, y[k] * other end
  for _, t in ipairs(A.terms) do
    local v = a[t.x] * b[t.y] * w[t.p] * t.c
    r[t.r] = r[t.r] and r[t.r] + v or v
  end
  return A:grade_norm(flame.stack(r, 1))
end

print(("Cl(3,0), (8, %d, %d), f32, %s"):format(B, N, x.device))
compare("product", function() return A:product(x, y) end, { x, y })
compare("product, weighted", function() return A:product(x, y, w) end, { x, y, w })
compare("gelu, weighted product, norm",
  function() return A:grade_norm(A:product(A:gelu(x), A:gelu(y), w)) end, { x, y, w })
compare("the same by component", by_component, { x, y, w })
compare("fully connected", function() return A:fully_connected(x, y, matrices) end,
  { x, y, matrices })
for name, net in pairs { Layer = layer, ["Layer, fully connected"] = full } do
  local all = net:parameters()
  table.insert(all, 1, x)
  compare(name, function() return net(x) end, all)
end
