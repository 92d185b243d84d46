--- Losses and the norms that are compositions. Losses take (input, target, options);
-- {reduction = "mean" | "sum" | "none"}.
local flame, _, internal = ...
local fail, need_tensor, options, def = internal.failf, internal.need_tensor, internal.options, internal.def

local function reduce(op, y, how)
  if how == "mean" then return y:mean() end
  if how == "sum" then return y:sum() end
  if how == "none" then return y end
  fail(op, 'reduction must be "mean", "sum" or "none", got "%s"', tostring(how))
end

--- Add a loss: f(x, y, o) gives the value of each element.
local function loss(name, known, f)
  known.reduction = "mean"
  def(name, 3, function(x, y, o)
    need_tensor(name, "input", x)
    need_tensor(name, "target", y)
    o = options(name, o, known)
    return reduce(name, f(x, y, o), o.reduction)
  end)
end

loss("mse_loss", {}, function(x, y) return (x - y):square() end)
loss("l1_loss", {}, function(x, y) return (x - y):abs() end)
loss("huber_loss", { delta = 1.0 }, function(x, y, o)
  local d = (x - y):abs()
  return flame.where(d:le(o.delta), d * d * 0.5, (d - 0.5 * o.delta) * o.delta)
end)
loss("smooth_l1_loss", { beta = 1.0 }, function(x, y, o)
  local d = (x - y):abs()
  if o.beta == 0 then return d end
  return flame.where(d:lt(o.beta), d * d * (0.5 / o.beta), d - 0.5 * o.beta)
end)
loss("hinge_loss", { margin = 1.0 }, function(x, y, o) return (o.margin - x * y):relu() end)
loss("binary_cross_entropy", { weight = false }, function(x, y, o)
  local e = -(y * x:log():clamp({ min = -100 }) + (1 - y) * (-x):log1p():clamp({ min = -100 }))
  return o.weight and e * o.weight or e
end)
loss("binary_cross_entropy_with_logits", { weight = false, pos_weight = false }, function(x, y, o)
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
  else e = flame.where(y:gt(0), y * (flame.where(y:gt(0), y, 1):log() - x), 0) end
  if o.reduction == "batchmean" then return e:sum() / x.shape[1] end
  return reduce("kl_div", e, o.reduction)
end)

--- Log-probabilities (n, classes, …) and class ids (n, …).
def("nll_loss", 3, function(x, y, o)
  need_tensor("nll_loss", "input", x)
  need_tensor("nll_loss", "target", y)
  o = options("nll_loss", o, { reduction = "mean", weight = false, ignore_index = -100 })
  local d = x.ndim == 1 and 1 or 2
  local ignored = y:eq(o.ignore_index)
  local ids = internal.classes(flame.where(ignored, 1, y), x.shape[d])
  local picked = -x:gather(d, ids:unsqueeze(d)):squeeze(d)
  local w = o.weight and o.weight:take(ids) or flame.ones_like(picked)
  w = flame.where(ignored, 0, w)
  local e = flame.where(ignored, 0, picked * w)
  if o.reduction == "mean" then return e:sum() / w:sum() end
  return reduce("nll_loss", e, o.reduction)
end)

def("cosine_similarity", 4, function(x, y, d, o)
  need_tensor("cosine_similarity", "x", x)
  need_tensor("cosine_similarity", "y", y)
  if type(d) == "table" then d, o = nil, d end
  o = options("cosine_similarity", o, { eps = 1e-8 })
  d = d or (x.ndim > 1 and 2 or 1)
  local keep = { keepdim = true }
  local m, n = internal.root((x * x):sum(d, keep)), internal.root((y * y):sum(d, keep))
  return (x / m:clamp({ min = o.eps }) * (y / n:clamp({ min = o.eps }))):sum(d)
end)
def("triplet_margin_loss", 4, function(a, p, n, o)
  o = options("triplet_margin_loss", o, { margin = 1.0, p = 2, eps = 1e-6, reduction = "mean" })
  local near, far = (a - p + o.eps):norm(o.p, -1), (a - n + o.eps):norm(o.p, -1)
  return reduce("triplet_margin_loss", (near - far + o.margin):relu(), o.reduction)
end)

-- ---- norms ----------------------------------------------------------------------------------------
local half = { f16 = true, bf16 = true }

def("rms_norm", 4, function(x, shape, w, o)
  need_tensor("rms_norm", "x", x)
  if type(w) == "table" and not flame.is_tensor(w) then w, o = nil, w end
  o = options("rms_norm", o, { eps = 1e-5 })
  if type(shape) == "number" then shape = { shape } end
  local axes = {}
  for k = 1, #shape do
    axes[k] = -k
    if x.shape[x.ndim - #shape + k] ~= shape[k] then
      fail("rms_norm", "shape (%s) does not end in (%s)", table.concat(x.shape, ", "), table.concat(shape, ", "))
    end
  end
  local v = half[x.dtype] and x:float() or x
  local y = v * ((v * v):mean(axes, { keepdim = true }) + o.eps):rsqrt()
  if w then y = y * w end
  return half[x.dtype] and y:to(x.dtype) or y
end)
def("group_norm", 5, function(x, groups, w, b, o)
  need_tensor("group_norm", "x", x)
  for _, v in ipairs({ w or false, b or false }) do if type(v) == "table" then o = v end end
  if type(w) == "table" then w, b = nil, nil elseif type(b) == "table" then b = nil end
  o = options("group_norm", o, { eps = 1e-5 })
  local shape, dtype, per_channel = x.shape, x.dtype, {}
  groups = internal.need_int("group_norm", "groups", groups)
  if x.ndim < 2 or groups < 1 or shape[2] % groups ~= 0 then
    fail("group_norm", "shape (%s) has no channels that divide into %d groups", table.concat(shape, ", "), groups)
  end
  local flat = x:reshape(shape[1], groups, -1)
  if half[dtype] then flat = flat:float() end
  local centred = flat - flat:mean(3, { keepdim = true })
  local y = (centred * (flat:var(3, { correction = 0, keepdim = true }) + o.eps):rsqrt()):reshape(shape)
  for d = 1, #shape do per_channel[d] = d == 2 and shape[2] or 1 end
  if w then y = y * w:reshape(per_channel) end
  if b then y = y + b:reshape(per_channel) end
  return half[dtype] and y:to(dtype) or y
end)

--- softmax(q k' / sqrt(d) + mask) v over the last two axes.
def("scaled_dot_product_attention", 4, function(q, k, v, o)
  local op = "scaled_dot_product_attention"
  need_tensor(op, "q", q)
  need_tensor(op, "k", k)
  need_tensor(op, "v", v)
  o = options(op, o, { is_causal = false, attn_mask = false, scale = false, dropout_p = 0 })
  local scores = (q * (o.scale or q.shape[q.ndim] ^ -0.5)):matmul(k:transpose(-2, -1))
  if o.is_causal then
    local n, m = scores.shape[scores.ndim - 1], scores.shape[scores.ndim]
    scores = scores:masked_fill(flame.ones(n, m, { dtype = "bool", device = q.device }):triu(1), -math.huge)
  end
  if o.attn_mask then
    if o.attn_mask.dtype == "bool" then scores = scores:masked_fill(o.attn_mask:logical_not(), -math.huge)
    else scores = scores + o.attn_mask end
  end
  local p = scores:softmax(-1)
  if o.dropout_p > 0 then p = p:dropout(o.dropout_p) end
  return p:matmul(v)
end)
