--- Losses and the norms that are compositions. Losses take (input, target, options);
-- {reduction = "mean" | "sum" | "none"}.
local flame, _, internal = ...
local fail, need_tensor, options, def = internal.failf, internal.need_tensor,
  internal.options, internal.def
local defaults, where = internal.defaults, flame.where

--- A loss of each element as the option "reduction" asks.
local function reduce(op, y, how)
  if how == "mean" then return y:mean() end
  if how == "sum" then return y:sum() end
  if how == "none" then return y end
  fail(op, 'reduction must be "mean", "sum" or "none", got "%s"', tostring(how))
end
internal.reduce_loss = reduce

local function shape_text(x) return "(" .. table.concat(x.shape, ", ") .. ")" end
local function need_same_shape(op, x, y)
  if shape_text(x) ~= shape_text(y) then
    fail(op, "input has shape %s and target %s, need the same", shape_text(x), shape_text(y))
  end
end
--- As many axes in all of them.
local function need_same_rank(op, ...)
  local first = (...)
  for i = 2, select("#", ...) do
    local x = (select(i, ...))
    if x.ndim ~= first.ndim then
      fail(op, "shapes %s and %s have different numbers of axes", shape_text(first), shape_text(x))
    end
  end
end
--- A weight for each class.
local function need_class_weights(op, w, classes)
  if w and (need_tensor(op, "weight", w).ndim ~= 1 or #w ~= classes) then
    fail(op, "weight has shape %s, need (%d): one for each class", shape_text(w), classes)
  end
end

--- PyTorch's third argument of losses with weights: (x, y, weight, o) as (x, y, o with weight).
local function with_weight(op, weight, o)
  if weight == nil or not flame.is_tensor(weight) then
    if weight ~= nil and o ~= nil then need_tensor(op, "weight", weight) end
    return weight == nil and o or weight
  end
  if o ~= nil and type(o) ~= "table" then
    fail(op, "options must be a table, got %s", internal.word(o))
  end
  local all = { weight = weight }
  for k, v in pairs(o or {}) do all[k] = v end
  return all
end
--- Add a loss: f(x, y, o) gives the value of each element; 'names' are those
--- that may come by position.
local function loss(name, known, f, names)
  known.reduction = "mean"
  def(name, known.weight ~= nil and 4 or 3 + #(names or {}), function(x, y, o, ...)
    need_tensor(name, "input", x)
    need_tensor(name, "target", y)
    if names then o = defaults(name, names, known, o, ...)
    else o = options(name, known.weight ~= nil and with_weight(name, o, (...)) or o, known) end
    return reduce(name, f(x, y, o), o.reduction)
  end)
end

loss("mse_loss", {}, function(x, y) return (x - y):square() end)
loss("l1_loss", {}, function(x, y) return (x - y):abs() end)
loss("huber_loss", { delta = 1.0 }, function(x, y, o)
  if not (o.delta > 0) then fail("huber_loss", "delta = %g, need delta > 0", o.delta) end
  local e = x - y                         -- squared as it is: abs has no second slope at 0
  local d = e:abs()
  return flame.where(d:lt(o.delta), e * e * 0.5, (d - 0.5 * o.delta) * o.delta)
end, { "reduction", "delta" })
loss("smooth_l1_loss", { beta = 1.0 }, function(x, y, o)
  if not (o.beta >= 0) then fail("smooth_l1_loss", "beta = %g is negative", o.beta) end
  local e = x - y
  local d = e:abs()
  if o.beta == 0 then return d end
  return flame.where(d:lt(o.beta), e * e * (0.5 / o.beta), d - 0.5 * o.beta)
end)
loss("hinge_loss", { margin = 1.0 },
  function(x, y, o) return (o.margin - x * y):relu() end, { "margin" })
loss("binary_cross_entropy", { weight = false }, function(x, y, o)
  need_same_shape("binary_cross_entropy", x, y)
  local v = x:detach()
  local edge = v:le(0):logical_or(v:ge(1))
  local e = -(y * x:log():clamp({ min = -100 }) + (1 - y) * (-x):log1p():clamp({ min = -100 }))
  -- at 0 and 1 the slope that PyTorch has: the denominator x (1 - x) at least 1e-12
  if x.requires_grad then
    local inner = where(edge, 0.5, x)
    local slope = (v - y) / (v * (1 - v)):clamp({ min = 1e-12 })
    local usual = -(y * inner:log():clamp({ min = -100 }) + (1 - y) * (-inner):log1p()
      :clamp({ min = -100 }))
    e = where(edge, e:detach() + slope * (x - v), usual)
  end
  return o.weight and e * o.weight or e
end)
loss("binary_cross_entropy_with_logits", { weight = false, pos_weight = false }, function(x, y, o)
  need_same_shape("binary_cross_entropy_with_logits", x, y)
  local hit = (-x):softplus() * y
  local e = x:softplus() * (1 - y) + (o.pos_weight and hit * o.pos_weight or hit)
  return o.weight and e * o.weight or e
end)

def("kl_div", 3, function(x, y, o)
  need_tensor("kl_div", "input", x)
  need_tensor("kl_div", "target", y)
  o = options("kl_div", o, { reduction = "mean", log_target = false })
  local e
  if o.log_target then e = y:exp() * (y - x)
  else e = flame.where(y:ne(0), y * (flame.where(y:ne(0), y, 1):log() - x), 0) end
  if o.reduction == "batchmean" then return e:sum() / x.shape[1] end
  return reduce("kl_div", e, o.reduction)
end)

--- Log-probabilities (n, classes, …) and class ids (n, …).
---@param o? flame.Tensor|table  weight, or {reduction = "mean", weight =, ignore_index = -100}
---@param rest? table  options behind a weight
def("nll_loss", 4, function(x, y, o, rest)
  need_tensor("nll_loss", "input", x)
  need_tensor("nll_loss", "target", y)
  o = options("nll_loss", with_weight("nll_loss", o, rest),
    { reduction = "mean", weight = false, ignore_index = -100 })
  if x.ndim == 0 then fail("nll_loss", "input is 0-d, need an axis of classes") end
  local d = x.ndim == 1 and 1 or 2
  if x.shape[d] == 0 then
    fail("nll_loss", "input has no classes along axis %d, need at least 1", d)
  end
  need_class_weights("nll_loss", o.weight, x.shape[d])
  local ignored = y:eq(o.ignore_index)
  local ids = internal.classes(flame.where(ignored, 1, y), x.shape[d])
  local picked = -x:gather(d, ids:unsqueeze(d)):squeeze(d)
  local w = o.weight and o.weight:take(ids) or flame.ones_like(picked)
  w = flame.where(ignored, 0, w)
  local e = flame.where(ignored, 0, picked * w)
  if o.reduction == "mean" then return e:sum() / w:sum() end
  return reduce("nll_loss", e, o.reduction)
end)

def("cosine_similarity", 5, function(x, y, d, eps)
  need_tensor("cosine_similarity", "x", x)
  need_tensor("cosine_similarity", "y", y)
  local o = defaults("cosine_similarity", { "dim", "eps" }, { dim = false, eps = 1e-8 }, d, eps)
  d = o.dim or (x.ndim > 1 and 2 or 1)
  local keep = { keepdim = true }
  if table.concat(x.shape, " ") ~= table.concat(y.shape, " ") then
    x, y = table.unpack(flame.broadcast(x, y))
  end
  local m, n = internal.root((x * x):sum(d, keep)), internal.root((y * y):sum(d, keep))
  return (x / m:clamp({ min = o.eps }) * (y / n:clamp({ min = o.eps }))):sum(d)
end)
--- a is to be nearer to p than to n, by the margin; swap: also p may be the one near to n.
def("triplet_margin_loss", 8, function(a, p, n, ...)
  local op = "triplet_margin_loss"
  need_tensor(op, "a", a)
  need_tensor(op, "p", p)
  need_tensor(op, "n", n)
  local o = defaults(op, { "margin", "p", "eps", "swap", "reduction" },
    { margin = 1.0, p = 2, eps = 1e-6, swap = false, reduction = "mean" }, ...)
  need_same_rank(op, a, p, n)
  local near, far = (a - p + o.eps):norm(o.p, -1), (a - n + o.eps):norm(o.p, -1)
  if o.swap then far = far:minimum((p - n + o.eps):norm(o.p, -1)) end
  return reduce(op, (near - far + o.margin):relu(), o.reduction)
end)

--- exp(x) - y x (log_input) or x - y log(x + eps); full adds Stirling's term for log(y!).
loss("poisson_nll_loss", { log_input = true, full = false, eps = 1e-8 }, function(x, y, o)
  local e = o.log_input and x:exp() - y * x or x - y * (x + o.eps):log()
  if not o.full then return e end
  local big = flame.where(y:gt(1), y, 1)
  return e + flame.where(y:gt(1), big * big:log() - big + (big * (2 * math.pi)):log() * 0.5, 0)
end, { "log_input", "full" })
loss("soft_margin_loss", {}, function(x, y) return (-y * x):softplus() end)
loss("hinge_embedding_loss", { margin = 1.0 }, function(x, y, o)
  return flame.where(y:ne(1), (o.margin - x):clamp({ min = 0 }), 0) + flame.where(y:ne(-1), x, 0)
end, { "margin" })
loss("multilabel_soft_margin_loss", { weight = false }, function(x, y, o)
  local e = -(y * x:logsigmoid() + (1 - y) * (-x):logsigmoid())
  return (o.weight and e * o.weight or e):mean(-1)
end)
--- Sum over the other classes of (margin - x at the label + x)^p, over the number of classes.
---@param ... any  p = 1, margin = 1, weight, or {p = 1, margin = 1, weight =, reduction = "mean"}
def("multi_margin_loss", 6, function(x, y, ...)
  local op = "multi_margin_loss"
  need_tensor(op, "input", x)
  need_tensor(op, "target", y)
  local o = defaults(op, { "p", "margin", "weight" },
    { p = 1, margin = 1.0, weight = false, reduction = "mean" }, ...)
  if o.p ~= 1 and o.p ~= 2 then fail(op, "p = %s, need 1 or 2", tostring(o.p)) end
  need_class_weights(op, o.weight, x.ndim > 0 and x.shape[x.ndim] or 1)
  local single = x.ndim < 2
  if single then x, y = x:reshape(1, -1), y:reshape(1) end
  internal.naming(op)
  local n, ids = x.shape[x.ndim], internal.classes(y, x.shape[x.ndim])
  local e = (o.margin - x:gather(-1, ids:unsqueeze(-1)) + x):relu()
  if o.p ~= 1 then e = e ^ o.p end
  if o.weight then e = e * o.weight:take(ids):unsqueeze(-1) end
  local own = flame.one_hot(ids, n):bool()
  e = flame.where(own, 0, e):sum(-1) / n
  return reduce(op, single and e:reshape({}) or e, o.reduction)
end)
--- Negative log-likelihood of y under a normal of mean x and variance var.
---@param ... any  full = false, eps = 1e-6, reduction = "mean", or a table of them
def("gaussian_nll_loss", 6, function(x, y, var, ...)
  local op = "gaussian_nll_loss"
  need_tensor(op, "input", x)
  need_tensor(op, "target", y)
  need_tensor(op, "var", var)
  local o = defaults(op, { "full", "eps", "reduction" },
    { full = false, eps = 1e-6, reduction = "mean" }, ...)
  if var.ndim == x.ndim - 1 then var = var:unsqueeze(-1) end
  local bad = var:detach():lt(0)
  var = var + (var:clamp({ min = o.eps }) - var):detach()       -- as PyTorch: the bound has slope 1
  local e = where(bad, 0 / 0, (var:log() + (x - y):square() / var) * 0.5)
  return reduce(op, o.full and e + 0.5 * math.log(2 * math.pi) or e, o.reduction)
end)
--- max(0, -y (x1 - x2) + margin): y = 1 wants x1 above x2, -1 the other way round.
---@param ... any  margin = 0, or {margin = 0, reduction = "mean"}
def("margin_ranking_loss", 5, function(x1, x2, y, ...)
  local op = "margin_ranking_loss"
  need_tensor(op, "x1", x1)
  need_tensor(op, "x2", x2)
  need_tensor(op, "target", y)
  local o = defaults(op, { "margin" }, { margin = 0, reduction = "mean" }, ...)
  need_same_rank(op, x1, x2, y)
  return reduce(op, (-y * (x1 - x2) + o.margin):clamp({ min = 0 }), o.reduction)
end)
--- 1 - cosine where y is 1, max(0, cosine - margin) where it is -1.
---@param ... any  margin = 0, or {margin = 0, reduction = "mean"}
def("cosine_embedding_loss", 5, function(x1, x2, y, ...)
  local op = "cosine_embedding_loss"
  need_tensor(op, "x1", x1)
  need_tensor(op, "x2", x2)
  need_tensor(op, "target", y)
  local o = defaults(op, { "margin" }, { margin = 0, reduction = "mean" }, ...)
  local rank = math.max(x1.ndim, x2.ndim)
  if y.ndim ~= rank - 1 then
    fail(op, "target has shape %s, inputs %s and %s: need one axis less", shape_text(y),
      shape_text(x1), shape_text(x2))
  end
  local m, n = (x1 * x1):sum(-1) + 1e-12, (x2 * x2):sum(-1) + 1e-12
  local cos = (x1 * x2):sum(-1) / (m * n):sqrt()
  local e = flame.where(y:eq(1), 1 - cos, 0) + flame.where(y:eq(-1),
    (cos - o.margin):clamp({ min = 0 }), 0)
  return reduce(op, e, o.reduction)
end)

-- ---- norms --------------------------------------------------------------------------------------
local half = { f16 = true, bf16 = true }

--- Without eps the epsilon of the dtype, as PyTorch has it.
local epsilon = { f64 = 2.0 ^ -52, f32 = 2.0 ^ -23, f16 = 2.0 ^ -10, bf16 = 2.0 ^ -7 }
def("rms_norm", 4, function(x, shape, w, o)
  need_tensor("rms_norm", "x", x)
  if type(w) == "table" then w, o = nil, w end
  o = defaults("rms_norm", { "eps" }, { eps = epsilon[x.dtype] or 1e-5 }, o)
  if type(shape) ~= "table" then shape = { shape } end
  local axes = {}
  if #shape == 0 then fail("rms_norm", "shape must be a number or a list of sizes") end
  for k = 1, #shape do internal.need_int("rms_norm", "size", shape[k]) end
  for k = 1, #shape do
    axes[k] = -k
    if x.shape[x.ndim - #shape + k] ~= shape[k] then
      fail("rms_norm", "shape (%s) does not end in (%s)", table.concat(x.shape, ", "),
        table.concat(shape, ", "))
    end
  end
  local v = half[x.dtype] and x:float() or x
  local y = v * ((v * v):mean(axes, { keepdim = true }) + o.eps):rsqrt()
  if w then y = y * w end
  return half[x.dtype] and y:to(x.dtype) or y
end)
def("group_norm", 5, function(x, groups, w, b, o)
  if type(w) == "table" then w, b, o = nil, nil, w elseif type(b) == "table" then b, o = nil, b end
  return internal.grouped_norm(x, groups,
    o == nil and 1e-5 or defaults("group_norm", { "eps" }, { eps = 1e-5 }, o).eps, w, b)
end)

--- softmax(q k' / sqrt(d) + mask) v over the last two axes.
def("scaled_dot_product_attention", 8, function(q, k, v, ...)
  local op = "scaled_dot_product_attention"
  need_tensor(op, "q", q)
  need_tensor(op, "k", k)
  need_tensor(op, "v", v)
  local o = defaults(op, { "attn_mask", "dropout_p", "is_causal", "scale" },
    { attn_mask = false, dropout_p = 0, is_causal = false, scale = false }, ...)
  local scores = (q * (o.scale or q.shape[q.ndim] ^ -0.5)):matmul(k:transpose(-2, -1))
  if o.is_causal then
    local n, m = scores.shape[scores.ndim - 1], scores.shape[scores.ndim]
    scores = scores:masked_fill(flame.ones(n, m, { dtype = "bool", device = q.device }):triu(1),
      -math.huge)
  end
  if o.attn_mask then
    if o.attn_mask.dtype == "bool" then
      scores = scores:masked_fill(o.attn_mask:logical_not(), -math.huge)
    else scores = scores + o.attn_mask end
  end
  local p = scores:softmax(-1)
  if o.dropout_p > 0 then p = p:dropout(o.dropout_p) end
  return p:matmul(v)
end)
