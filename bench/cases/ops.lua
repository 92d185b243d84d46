--- Single ops, and few in a row: what is limited by memory, by the library of products or by
--- launches. bench/cases/ops.py has the same in PyTorch, ops_jax.py some in JAX.
local flame = require "flame"
local nn, optim = require "flame.nn", require "flame.optim"
local cases = {}

local function normal(dtype, ...) return flame.randn(...):to(dtype) end

function cases.map(o, peer)
  local x = peer.give("x", normal(o.dtype, o.n))
  return peer.call(function() return (x * 2 + 1):relu() end)
end

function cases.chain(o, peer)
  local x, y = peer.give("x", normal(o.dtype, o.n)), peer.give("y", normal(o.dtype, o.n))
  return peer.call(function() return (((x * y + 1):relu() - y) * 0.5 + x):tanh() * y end)
end

--- Many ops on a few numbers: what recording and launching costs.
function cases.launches(o, peer)
  local x = peer.give("x", flame.randn(16))
  return peer.call(function()
    local y = x
    for _ = 1, o.ops // 2 do y = y * 0.999 + 0.001 end
    return y
  end)
end

function cases.softmax(o, peer)
  local x = peer.give("x", normal(o.dtype, o.rows, o.columns))
  return peer.call(function() return x:softmax(2) end)
end

function cases.sum(o, peer)
  local x = peer.give("x", normal(o.dtype, o.rows, o.columns))
  if o.over == "all" then return peer.call(function() return x:sum() end) end
  local axis = o.over == "rows" and 2 or 1
  return peer.call(function() return x:sum(axis) end)
end

function cases.matmul(o, peer)
  local a, b = peer.give("a", normal(o.dtype, o.n, o.n)), peer.give("b", normal(o.dtype, o.n, o.n))
  return peer.call(function() return a:matmul(b) end)
end

function cases.layer_norm(o, peer)
  local n = o.columns
  local x = peer.give("x", normal(o.dtype, o.rows, n))
  local w, b = peer.give("w", normal(o.dtype, n)), peer.give("b", normal(o.dtype, n))
  if o.backward ~= 1 then return peer.call(function() return x:layer_norm({ n }, w, b) end) end
  local g = peer.give("g", normal(o.dtype, o.rows, n))
  for _, t in ipairs { x, w, b } do t:requires_grad_(true) end
  return peer.call(function()
    return peer.backward(x:layer_norm({ n }, w, b), { x, w, b }, g)
  end)
end

function cases.cross_entropy(o, peer)
  local x = peer.give("x", normal(o.dtype, o.rows, o.columns)):requires_grad_(true)
  local t = peer.give("t", flame.randint({ o.rows }, 1, o.columns))
  return peer.call(function() return peer.backward(flame.cross_entropy(x, t), { x }) end)
end

function cases.attention(o, peer)
  local shape, list = { o.batch, o.heads, o.length, o.size }, {}
  for i, name in ipairs { "q", "k", "v", "g" } do
    list[i] = peer.give(name, flame.randn(shape):to(o.dtype))
  end
  local q, k, v, g = table.unpack(list)
  local function attend()
    return flame.scaled_dot_product_attention(q, k, v, { is_causal = true })
  end
  if o.backward ~= 1 then return peer.call(attend) end
  for _, x in ipairs { q, k, v } do x:requires_grad_(true) end
  return peer.call(function() return peer.backward(attend(), { q, k, v }, g) end)
end

function cases.adamw(o, peer)
  local list = nn.ParameterList {}
  for i = 1, o.count do
    list[i] = nn.Parameter(flame.randn(o.n, o.n))
    list[i].grad = flame.randn(o.n, o.n)
    peer.give("p." .. i, list[i])
    peer.give("g." .. i, list[i].grad)
  end
  local opt = optim.AdamW(list:parameters(), { lr = 1e-3 })
  local function check()
    local out = {}
    for _ = 1, 3 do opt:step() end
    for i, p in ipairs(list:parameters()) do out["out." .. i] = p end
    return out
  end
  return { step = function() opt:step() end, check = check }
end

return cases
