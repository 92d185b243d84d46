--- Distances and similarities of rows.
local flame = require "flame"
local arguments = require "flame.base.arguments"
local fail, def = arguments.fail, arguments.def
local reduce = require "flame.ops.reduce"

--- x over its p-norm along dim, the norm at least eps.
def("normalize(x: T, p = 2, dim: axes = 2, eps = 1e-12) -> T", function(x, p, d, eps)
  return x / x:norm(p, d, { keepdim = true }):clamp({ min = eps })
end)
--- p-norm of x - y + eps over the last axis.
def("pairwise_distance(x: T, y: T, p = 2, eps = 1e-6, keepdim = false) -> T",
  function(x, y, p, eps, keepdim)
    return (x - y + eps):norm(p, -1, { keepdim = keepdim })
  end)
--- Distances of all pairs of rows, the first with the second, third, …
def("pdist(x: T, p = 2) -> T", function(x, p)
  if x.ndim ~= 2 then fail("pdist", "x has %d axes, need 2", x.ndim) end
  local at = flame.triu_indices(x.shape[1], x.shape[1], 1, { device = x.device })
  return (x:index_select(1, at:select(1, 1)) - x:index_select(1, at:select(1, 2))):norm(p, 2)
end)
--- p-norm of x - y.
def("dist(x: T, y: T|num, p = 2) -> T", function(x, y, p) return (x - y):norm(p) end)
--- Sum of products over the product of the norms, along axis 2 (1 where there is one).
def("cosine_similarity(x: T, y: T, dim?: axes, eps = 1e-8) -> T @single", function(x, y, d, eps)
  d = d or (x.ndim > 1 and 2 or 1)
  local keep = { keepdim = true }
  if table.concat(x.shape, " ") ~= table.concat(y.shape, " ") then
    x, y = table.unpack(flame.broadcast(x, y))
  end
  local m, n = reduce.root((x * x):sum(d, keep)), reduce.root((y * y):sum(d, keep))
  return (x / m:clamp({ min = eps }) * (y / n:clamp({ min = eps }))):sum(d)
end)
