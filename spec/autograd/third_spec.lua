--- Derivatives to the third order, for ops with hand-written rules. Each level is half the sum of
--- squares of the gradient of the level before; its gradient is compared with central differences.
local flame = require "flame"
local ordered = require "spec.support.ordered"
local D = { dtype = "f64" }
local tensor, linalg = flame.tensor, flame.linalg

--- One number made of all elements of t, each with its own weight.
local function mixed(t)
  return (t * (flame.arange(t:numel(), D):reshape(t.shape) * 0.37):cos()):sum()
end

--- f(leaves) for order 0; for order n, half the sum of squares of the gradient of order n - 1.
local function level(f, order, leaves)
  local l = f(table.unpack(leaves))
  for _ = 1, order do
    local g, sum = l:gradients(leaves, { create_graph = true, allow_unused = true }), 0
    for _, x in ipairs(leaves) do if g[x] then sum = sum + (g[x] * g[x]):sum() end end
    l = sum * 0.5
  end
  return l
end

local function tracked(list)
  local out = {}
  for i, x in ipairs(list) do out[i] = x:clone():requires_grad_(true) end
  return out
end

local function moved(list, which, element, by)
  local out = tracked(list)
  local flat = out[which]:detach():reshape(-1):clone()
  flat[element] = flat[element] + by
  out[which] = flat:reshape(list[which].shape):requires_grad_(true)
  return out
end

local function check(f, inputs)
  local leaves, eps = tracked(inputs), 1e-5
  local g = level(f, 2, leaves):gradients(leaves, { allow_unused = true })
  for i, x in ipairs(inputs) do
    local analytic = (g[leaves[i]] or flame.zeros_like(x)):reshape(-1):totable()
    for e = 1, x:numel() do
      local numeric = (level(f, 2, moved(inputs, i, e, eps)):item() - level(f, 2,
        moved(inputs, i, e, -eps)):item()) / (2 * eps)
      assert(math.abs(analytic[e] - numeric) <= 1e-4 * (1 + math.abs(numeric)),
        ("input %d, element %d: analytic %.10g, numeric %.10g"):format(i, e, analytic[e], numeric))
    end
  end
end

local function numbers(rows, columns, phase)
  return (flame.arange(rows * columns, D) * 1.7 + phase):sin():reshape(rows, columns) * 0.9
end

local function ids(...) return tensor({ ... }, { dtype = "i64" }) end
local function matrix(x) return x[{ {}, { 1, 3 } }] + flame.eye(3, D) * 2 end
local function definite(x) return matrix(x):matmul(matrix(x):t()) + flame.eye(3, D) end
local function right(x) return x[{ {}, { 4, 6 } }] end
local function plane(x) return x:reshape(1, 1, 3, 6) end
local function three(x) return x:reshape(1, 3, 6) end

local cases = {                              -- of x (3 x 6) and w (6)
  det = function(x) return flame.det(matrix(x)) end,
  ["det of a batch"] = function(x) return flame.det(flame.stack { matrix(x), definite(x) }) end,
  inverse = function(x) return flame.inverse(matrix(x)) end,
  solve = function(x) return flame.solve(matrix(x), right(x)) end,
  slogdet = function(x) return (select(2, flame.slogdet(matrix(x)))) end,
  cholesky = function(x) return flame.cholesky(definite(x)) end,
  qr = function(x) local q, r = flame.qr(matrix(x)) return q + r end,
  svdvals = function(x) return linalg.svdvals(matrix(x)) end,
  eigh = function(x)
    local e, v = flame.eigh(definite(x))
    return (v * e:sin():unsqueeze(-2)):matmul(v:t())
  end,
  pinverse = function(x) return flame.pinverse(matrix(x)[{ {}, { 1, 2 } }]) end,
  lstsq = function(x) return (flame.lstsq(matrix(x)[{ {}, { 1, 2 } }], right(x))) end,
  lu = function(x) local _, l, u = linalg.lu(matrix(x)) return l * 2 + u end,
  matrix_exp = function(x) return flame.matrix_exp(matrix(x) * 0.2) end,
  solve_triangular = function(x)
    return linalg.solve_triangular(matrix(x):tril(), right(x), { upper = false })
  end,
  sort = function(x) return (x * x):sort(2) ^ 2 end,
  topk = function(x) return ((x ^ 3):topk(2, 2)) ^ 2 end,
  median = function(x) return ((x * x):median(2)) ^ 2 end,
  cumsum = function(x) return (x ^ 3):cumsum(2) ^ 2 end,
  cumprod = function(x) return x:cumprod(2) ^ 2 end,
  logcumsumexp = function(x) return x:logcumsumexp(2) ^ 2 end,
  cummax = function(x) return ((x:cummax(2))) ^ 3 end,
  max_pool = function(x) return flame.max_pool2d(plane(x), 2, { stride = 1, padding = 1 }) ^ 3 end,
  avg_pool = function(x)
    return flame.avg_pool2d(plane(x) ^ 2, 2, { stride = 1, padding = 1 }) ^ 2
  end,
  interpolate = function(x)
    return flame.interpolate(plane(x) ^ 2, { size = { 5, 7 }, mode = "bicubic" }) ^ 2
  end,
  conv = function(x, w)
    return flame.conv2d(plane(x), w:reshape(1, 1, 2, 3), nil, { padding = 1 }) ^ 3
  end,
  conv_transpose = function(x, w)
    return flame.conv_transpose1d(three(x), w:reshape(3, 1, 2), nil, { stride = 2 }) ^ 3
  end,
  layer_norm = function(x, w) return x:layer_norm({ 6 }, w, w * w, { eps = 0.1 }) ^ 2 end,
  batch_norm = function(x, w)
    return flame.batch_norm(x, nil, nil, w, nil, { training = true, eps = 0.1 }) ^ 2
  end,
  group_norm = function(x, w) return x:group_norm(3, w, nil, { eps = 0.1 }) ^ 2 end,
  softmax = function(x) return x:softmax(2) ^ 2 end,
  cross_entropy = function(x, w) return flame.cross_entropy(x, ids(1, 2, 3)) * w end,
  ctc_loss = function(x)
    return flame.ctc_loss(x:reshape(3, 1, 6):log_softmax(3), ids(2, 3):reshape(1, 2), { 3 }, { 2 })
  end,
  attention = function(x)
    return flame.scaled_dot_product_attention(three(x), three(x * x), three(x:sin()))
  end,
  grid_sample = function(x, w)
    return flame.grid_sample(plane(x), w:reshape(1, 1, 3, 2) * 0.3, { align_corners = false }) ^ 2
  end,
  cdist = function(x, w) return flame.cdist(x, x:flip(1) * 0.7 + w, { p = 3 }) end,
  einsum = function(x, w) return flame.einsum("ij,kj,j->ik", x, x * x, w) end,
  scatter_reduce = function(x, w)
    return x:scatter_reduce(1, ids(1, 1, 2, 2, 1, 1):reshape(1, 6), w:unsqueeze(1), "prod") ^ 2
  end,
  embedding_bag = function(x) return flame.embedding_bag(ids(1, 2, 3, 1):reshape(2, 2), x) ^ 3 end,
  polygamma = function(x) return flame.polygamma(1, x * x + 1) end,
  checkpoint = function(x) return flame.checkpoint(function(q) return q:sin() * q * q end, x) end,
}

describe("third derivatives of", function()
  for name, f in ordered(cases) do
    it(name, function()
      check(function(x, w) return mixed(f(x, w)) end,
        { numbers(3, 6, 0.2), numbers(1, 6, 0.5):reshape(6) })
    end)
  end
end)
