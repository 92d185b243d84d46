--- Losses and the norms that are compositions.
local flame = require "flame"
local internal = flame.internal
local arguments = require "flame.base.arguments"
local dtypes = require "flame.base.dtypes"
local recording = require "flame.base.recording"
local elementwise = require "flame.ops.elementwise"
local slips = require "flame.tools.slips"
local fail, need_tensor, def = arguments.fail, arguments.need_tensor, arguments.def
local where = flame.where

--- A loss of each element as "reduction" asks.
local function reduce(y, how)
  if how == "mean" then return y:mean() end
  if how == "sum" then return y:sum() end
  return y
end

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

--- Mean of squared differences.
def([[mse_loss(input: T, target: T, reduction: "mean"|"sum"|"none" = "mean") -> T @single]],
  function(x, y, reduction)
    slips.pairs("mse_loss", x, y, reduction)
    return reduce((x - y):square(), reduction)
  end)

--- Mean of |input - target|.
def([[l1_loss(input: T, target: T, reduction: "mean"|"sum"|"none" = "mean") -> T @single]],
  function(x, y, reduction)
    slips.pairs("l1_loss", x, y, reduction)
    return reduce((x - y):abs(), reduction)
  end)

--- Squares up to delta, then lines.
def([[huber_loss(input: T, target: T, reduction: "mean"|"sum"|"none" = "mean",
    delta = 1.0) -> T @single]],
  function(x, y, reduction, delta)
    if not (delta > 0) then fail("huber_loss", "delta = %g, need delta > 0", delta) end
    slips.pairs("huber_loss", x, y, reduction)
    local e = x - y                         -- squared as it is: abs has no second slope at 0
    local d = e:abs()
    local value = where(d:lt(delta), e * e * 0.5, (d - 0.5 * delta) * delta)
    return reduce(value, reduction)
  end)

--- huber_loss over beta.
def([[smooth_l1_loss(input: T, target: T, reduction: "mean"|"sum"|"none" = "mean",
  beta = 1.0) -> T @single]],
  function(x, y, reduction, beta)
    if not (beta >= 0) then fail("smooth_l1_loss", "beta = %g is negative", beta) end
    slips.pairs("smooth_l1_loss", x, y, reduction)
    local e = x - y
    local d = e:abs()
    if beta == 0 then return reduce(d, reduction) end
    return reduce(where(d:lt(beta), e * e * (0.5 / beta), d - 0.5 * beta), reduction)
  end)

--- max(0, margin - input target).
def([[hinge_loss(input: T, target: T, margin = 1.0,
    reduction: "mean"|"sum"|"none" = "mean") -> T @single]],
  function(x, y, margin, reduction) return reduce((margin - x * y):relu(), reduction) end)

--- The cross entropy of probabilities.
def([[binary_cross_entropy(input: T, target: T, weight?: T|num,
    reduction: "mean"|"sum"|"none" = "mean") -> T @single]], function(x, y, weight, reduction)
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
  return reduce(weight and e * weight or e, reduction)
end)

--- The cross entropy of logits; pos_weight is that of the targets that are 1.
def([[binary_cross_entropy_with_logits(input: T, target: T, weight?: T|num, pos_weight?: T|num,
    reduction: "mean"|"sum"|"none" = "mean") -> T @single]],
function(x, y, weight, pos_weight, reduction)
  need_same_shape("binary_cross_entropy_with_logits", x, y)
  local hit = (-x):softplus() * y
  local e = x:softplus() * (1 - y) + (pos_weight and hit * pos_weight or hit)
  return reduce(weight and e * weight or e, reduction)
end)

--- target (log target - input), input being log-probabilities; log_target: so is the target.
--- "batchmean" is the sum over the first axis' size.
def([[kl_div(input: T, target: T, reduction: "mean"|"sum"|"none"|"batchmean" = "mean",
    log_target = false) -> T @single]], function(x, y, reduction, log_target)
  local e
  if log_target then e = y:exp() * (y - x)
  else e = where(y:ne(0), y * (where(y:ne(0), y, 1):log() - x), 0) end
  if reduction == "batchmean" then return e:sum() / x.shape[1] end
  return reduce(e, reduction)
end)

--- Log-probabilities (n, classes, …) and class ids (n, …); weight is one for each class.
def([[nll_loss(input: T, target: T, weight?: T, ignore_index: int = -100,
    reduction: "mean"|"sum"|"none" = "mean") -> T @single]],
function(x, y, weight, ignore_index, reduction)
  if x.ndim == 0 then fail("nll_loss", "input is 0-d, need an axis of classes") end
  local d = x.ndim == 1 and 1 or 2
  if x.shape[d] == 0 then
    fail("nll_loss", "input has no classes along axis %d, need at least 1", d)
  end
  need_class_weights("nll_loss", weight, x.shape[d])
  local ignored = y:eq(ignore_index)
  local ids = internal.classes(where(ignored, 1, y), x.shape[d])
  local picked = -x:gather(d, ids:unsqueeze(d)):squeeze(d)
  local w = weight and weight:take(ids) or flame.ones_like(picked)
  w = where(ignored, 0, w)
  local e = where(ignored, 0, picked * w)
  if reduction == "mean" then return e:sum() / w:sum() end
  return reduce(e, reduction)
end)

--- Sum of products over the product of the norms, along axis 2 (1 where there is one).
def("cosine_similarity(x: T, y: T, dim?: axes, eps = 1e-8) -> T @single", function(x, y, d, eps)
  d = d or (x.ndim > 1 and 2 or 1)
  local keep = { keepdim = true }
  if table.concat(x.shape, " ") ~= table.concat(y.shape, " ") then
    x, y = table.unpack(flame.broadcast(x, y))
  end
  local m, n = elementwise.root((x * x):sum(d, keep)), elementwise.root((y * y):sum(d, keep))
  return (x / m:clamp({ min = eps }) * (y / n:clamp({ min = eps }))):sum(d)
end)

--- The anchor is to be nearer to the positive than to the negative, by the margin; swap: also the
--- positive may be the one near to the negative.
def([[triplet_margin_loss(anchor: T, positive: T, negative: T, margin = 1.0, p = 2, eps = 1e-6,
    swap = false, reduction: "mean"|"sum"|"none" = "mean") -> T @single]],
  function(a, b, n, margin, p, eps, swap, reduction)
    need_same_rank("triplet_margin_loss", a, b, n)
    local near, far = (a - b + eps):norm(p, -1), (a - n + eps):norm(p, -1)
    if swap then far = far:minimum((b - n + eps):norm(p, -1)) end
    return reduce((near - far + margin):relu(), reduction)
  end)

--- exp(x) - y x (log_input) or x - y log(x + eps); full adds Stirling's term for log(y!).
def([[poisson_nll_loss(input: T, target: T, log_input = true, full = false, eps = 1e-8,
    reduction: "mean"|"sum"|"none" = "mean") -> T]], function(x, y, log_input, full, eps, reduction)
  local e = log_input and x:exp() - y * x or x - y * (x + eps):log()
  if not full then return reduce(e, reduction) end
  local big = where(y:gt(1), y, 1)
  local stirling = big * big:log() - big + (big * (2 * math.pi)):log() * 0.5
  return reduce(e + where(y:gt(1), stirling, 0), reduction)
end)

--- log(1 + exp(-target input)).
def([[soft_margin_loss(input: T, target: T, reduction: "mean"|"sum"|"none" = "mean") -> T]],
  function(x, y, reduction) return reduce((-y * x):softplus(), reduction) end)

--- Input where the target is 1, max(0, margin - input) where it is -1.
def([[hinge_embedding_loss(input: T, target: T, margin = 1.0,
    reduction: "mean"|"sum"|"none" = "mean") -> T]], function(x, y, margin, reduction)
  local e = where(y:ne(1), (margin - x):clamp({ min = 0 }), 0) + where(y:ne(-1), x, 0)
  return reduce(e, reduction)
end)

--- Mean over the classes of the binary cross entropies of logits.
def([[multilabel_soft_margin_loss(input: T, target: T, weight?: T|num,
    reduction: "mean"|"sum"|"none" = "mean") -> T]], function(x, y, weight, reduction)
  local e = -(y * x:logsigmoid() + (1 - y) * (-x):logsigmoid())
  return reduce((weight and e * weight or e):mean(-1), reduction)
end)

--- Sum over the other classes of (margin - x at the label + x)^p, over the number of classes; p
-- is 1
--- or 2, weight one for each class.
def([[multi_margin_loss(input: T, target: T, p: int = 1, margin = 1.0, weight?: T,
    reduction: "mean"|"sum"|"none" = "mean") -> T]], function(x, y, p, margin, weight, reduction)
  local op = "multi_margin_loss"
  if p ~= 1 and p ~= 2 then fail(op, "p = %d, need 1 or 2", p) end
  need_class_weights(op, weight, x.ndim > 0 and x.shape[x.ndim] or 1)
  local single = x.ndim < 2
  if single then x, y = x:reshape(1, -1), y:reshape(1) end
  internal.naming(op)
  local n, ids = x.shape[x.ndim], internal.classes(y, x.shape[x.ndim])
  local e = (margin - x:gather(-1, ids:unsqueeze(-1)) + x):relu()
  if p ~= 1 then e = e ^ p end
  if weight then e = e * weight:take(ids):unsqueeze(-1) end
  local own = flame.one_hot(ids, n):bool()
  e = where(own, 0, e):sum(-1) / n
  return reduce(single and e:reshape({}) or e, reduction)
end)

--- Negative log-likelihood of y under a normal of mean x and variance var.
def([[gaussian_nll_loss(input: T, target: T, var: T, full = false, eps = 1e-6,
    reduction: "mean"|"sum"|"none" = "mean") -> T]], function(x, y, var, full, eps, reduction)
  if var.ndim == x.ndim - 1 then var = var:unsqueeze(-1) end
  local bad = var:detach():lt(0)
  var = var + (var:clamp({ min = eps }) - var):detach()        -- as PyTorch: the bound has slope 1
  local e = where(bad, 0 / 0, (var:log() + (x - y):square() / var) * 0.5)
  return reduce(full and e + 0.5 * math.log(2 * math.pi) or e, reduction)
end)

--- max(0, -y (x1 - x2) + margin): y = 1 wants x1 above x2, -1 the other way round.
def([[margin_ranking_loss(x1: T, x2: T, target: T, margin = 0,
    reduction: "mean"|"sum"|"none" = "mean") -> T]], function(x1, x2, y, margin, reduction)
  need_same_rank("margin_ranking_loss", x1, x2, y)
  return reduce((-y * (x1 - x2) + margin):clamp({ min = 0 }), reduction)
end)

--- 1 - cosine where y is 1, max(0, cosine - margin) where it is -1.
def([[cosine_embedding_loss(x1: T, x2: T, target: T, margin = 0,
    reduction: "mean"|"sum"|"none" = "mean") -> T]], function(x1, x2, y, margin, reduction)
  local rank = math.max(x1.ndim, x2.ndim)
  if y.ndim ~= rank - 1 then
    fail("cosine_embedding_loss", "target has shape %s, inputs %s and %s: need one axis less",
      shape_text(y), shape_text(x1), shape_text(x2))
  end
  local m, n = (x1 * x1):sum(-1) + 1e-12, (x2 * x2):sum(-1) + 1e-12
  local cos = (x1 * x2):sum(-1) / (m * n):sqrt()
  local e = where(y:eq(1), 1 - cos, 0) + where(y:eq(-1), (cos - margin):clamp({ min = 0 }), 0)
  return reduce(e, reduction)
end)

-- ---- norms --------------------------------------------------------------------------------------
local half = dtypes.half

-- What PyTorch has without eps.
local epsilon = dtypes.epsilon

--- Over the root mean square along the last axes, which are of normalized_shape, times weight;
-- without
--- eps that of the dtype.
def("rms_norm(x: T, normalized_shape: int|int[], weight?: T|num, eps?: num) -> T @single",
  function(x, shape, w, eps)
    eps = eps or epsilon[x.dtype] or 1e-5
    if type(shape) ~= "table" then shape = { shape } end
    local axes = {}
    if #shape == 0 then
      fail("rms_norm", "normalized_shape is an empty list, need a size or a list of them")
    end
    for k = 1, #shape do
      axes[k] = -k
      if rawget(x.shape, x.ndim - #shape + k) ~= shape[k] then
        fail("rms_norm", "shape (%s) does not end in (%s)", table.concat(x.shape, ", "),
          table.concat(shape, ", "))
      end
    end
    local v = half[x.dtype] and x:float() or x
    local y = v * ((v * v):mean(axes, { keepdim = true }) + eps):rsqrt()
    if w then y = y * w end
    return half[x.dtype] and y:to(x.dtype) or y
  end)

--- Normalised over groups of channels, then times weight plus bias.
def("group_norm(x: T, num_groups: int, weight?: T, bias?: T, eps = 1e-5) -> T @single",
  function(x, groups, w, b, eps) return internal.grouped_norm(x, groups, eps, w, b) end)

-- ---- attention ----------------------------------------------------------------------------------
local attention = "scaled_dot_product_attention"

--- How many heads of q read one of x: both are (…, heads, time, size).
local function heads_for_one(name, x, q)
  if q.ndim < 3 or x.ndim < 3 then
    fail(attention, "enable_gqa needs an axis of heads: q has shape %s and %s %s", shape_text(q),
      name, shape_text(x))
  end
  local heads, most = x.shape[x.ndim - 2], q.shape[q.ndim - 2]
  if heads == most then return 1 end
  if heads == 0 or most % heads ~= 0 then
    fail(attention, "%s has %d heads, which do not divide the %d of q", name, heads, most)
  end
  return most // heads
end

--- Does a head of k and v serve the one row of each of several heads of q, as in a step with a
--- cache? Then these are rows of one head, and nothing is repeated.
local function rows_for_heads(q, o)
  local mask = o.attn_mask
  local m = mask and mask.shape or {}
  return o.k_for > 1 and o.k_for == o.v_for and q.shape[q.ndim - 1] == 1 and not o.is_causal
    and o.dropout_p == 0 and (not o.scale or type(o.scale) == "number")
    and (#m < 2 or m[#m - 1] == 1) and (#m < 3 or m[#m - 2] == 1)
end

--- All scores at once: shapes that broadcast, dropout, masks with gradients, and few rows.
local composed
function composed(q, k, v, o)
  if rows_for_heads(q, o) then
    local n, shape = q.ndim, table.move(q.shape, 1, q.ndim, 1, {})
    shape[n - 2], shape[n - 1] = shape[n - 2] // o.k_for, o.k_for
    local y = composed(q:reshape(shape), k, v, { k_for = 1, v_for = 1, attn_mask = o.attn_mask,
      scale = o.scale, dropout_p = 0 })
    shape = table.move(y.shape, 1, n, 1, {})
    shape[n - 2], shape[n - 1] = shape[n - 2] * shape[n - 1], 1
    return y:reshape(shape)
  end
  if o.k_for > 1 then k = k:repeat_interleave(o.k_for, -3) end
  if o.v_for > 1 then v = v:repeat_interleave(o.v_for, -3) end
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
end

--- What the op takes on a device. rows: with fewer, all scores fit a cache, and are made faster.
--- size: most features of a head; even: keys and values have as many, for half types a multiple of
--- 8.
local takes = {
  cpu = { rows = 64, size = 1024, even = false, f64 = true, f32 = true, f16 = true, bf16 = true },
  cuda = { rows = 16, size = 256, even = true, f32 = true, f16 = true, bf16 = true },
}

--- Shape, led by ones to four axes.
local function four(x)
  local shape = x.shape
  while #shape < 4 do table.insert(shape, 1, 1) end
  return shape
end

--- Are these the shapes (b, h, t, d), (b, hk, s, d) and (b, hk, s, d2), none empty, and of sizes
--- that the device takes?
local function shapes_fit(q, k, v, can, o)
  for i = 1, 4 do if q[i] < 1 or k[i] < 1 or v[i] < 1 then return false end end
  if q[1] ~= k[1] or q[2] ~= k[2] * o.k_for or q[4] ~= k[4] then return false end
  if k[1] ~= v[1] or k[2] ~= v[2] or k[3] ~= v[3] then return false end
  return q[3] >= can.rows and q[4] <= can.size and v[4] <= can.size
    and (not can.even or q[4] == v[4])
end

--- Does the mask broadcast to (b, h, t, s), and is it a plain value?
local function mask_fits(mask, q, shape, keys)
  if mask.ndim > 4 or mask.device ~= q.device or recording.tracked(mask) then return false end
  if mask.dtype ~= "bool" and mask.dtype ~= q.dtype then return false end
  local m = four(mask)
  local whole = { shape[1], shape[2], shape[3], keys }
  for i = 1, 4 do if m[i] ~= 1 and m[i] ~= whole[i] then return false end end
  return true
end

--- Can the op compute this, which keeps no scores? q, k and v with 2 to 4 axes.
local function fits(q, k, v, o)
  local can, n = takes[q.device == "cpu" and "cpu" or "cuda"], q.ndim
  if o.dropout_p > 0 or n < 2 or n > 4 or k.ndim ~= n or v.ndim ~= n or not can[q.dtype] then
    return false
  end
  if k.dtype ~= q.dtype or v.dtype ~= q.dtype or k.device ~= q.device or v.device ~= q.device then
    return false
  end
  if o.scale and type(o.scale) ~= "number" then return false end
  local shape, keys = four(q), four(k)
  if not shapes_fit(shape, keys, four(v), can, o) or can.even and half[q.dtype]
      and shape[4] % 8 ~= 0 then
    return false
  end
  return not o.attn_mask or mask_fits(o.attn_mask, q, shape, keys[3])
end

--- softmax(q k' / sqrt(d) + mask) v over the last two axes. attn_mask: bool, true takes part, or a
--- float that is added; is_causal: row i sees keys 1 to i. enable_gqa: k and v may have fewer heads
--- (axis -3) than q, each for as many heads of q. Scores are kept, forward or backward, only where
--- there is dropout, where batch axes broadcast, for few rows, and of odd sizes on a GPU.
--- Without a scale it is d ^ -0.5.
def([[scaled_dot_product_attention(q: T, k: T, v: T, attn_mask?: T, dropout_p = 0,
    is_causal = false, scale?: num|T, enable_gqa = false) -> T @half]],
function(q, k, v, attn_mask, dropout_p, is_causal, scale, enable_gqa)
  local o = { attn_mask = attn_mask, dropout_p = dropout_p, is_causal = is_causal, scale = scale,
    enable_gqa = enable_gqa }
  if q.ndim == 0 then fail(attention, "q is 0-d, need an axis of features") end
  o.k_for, o.v_for = o.enable_gqa and heads_for_one("k", k, q) or 1,
    o.enable_gqa and heads_for_one("v", v, q) or 1
  if not fits(q, k, v, o) then return composed(q, k, v, o) end
  local function lifted(x) return x.ndim == 4 and x or x:reshape(four(x)) end
  local y = internal.attention(lifted(q), lifted(k), lifted(v), attn_mask,
    scale or q.shape[q.ndim] ^ -0.5, is_causal)
  if q.ndim == 4 then return y end
  return q.ndim == 3 and y:squeeze(1) or y:squeeze(1):squeeze(1)
end)

return { reduce = reduce }
