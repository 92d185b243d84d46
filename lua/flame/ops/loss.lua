--- Loss functions, composed of other ops.
local flame = require "flame"
local internal = flame.internal
local arguments = require "flame.base.arguments"
local slips = require "flame.tools.slips"
local fail, need_tensor, def = arguments.fail, arguments.need_tensor, arguments.def
local where = flame.where

-- Reduces the losses y of all elements: "mean", "sum", or none.
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
-- Raises unless all of the given tensors have the same number of axes.
local function need_same_rank(op, ...)
  local first = (...)
  for i = 2, select("#", ...) do
    local x = (select(i, ...))
    if x.ndim ~= first.ndim then
      fail(op, "shapes %s and %s have different numbers of axes", shape_text(first), shape_text(x))
    end
  end
end
-- Raises unless w is nil or has one weight for each class.
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

--- Half the square of the difference up to delta, linear beyond.
def([[huber_loss(input: T, target: T, reduction: "mean"|"sum"|"none" = "mean",
    delta = 1.0) -> T @single]],
  function(x, y, reduction, delta)
    if not (delta > 0) then fail("huber_loss", "delta = %g, need delta > 0", delta) end
    slips.pairs("huber_loss", x, y, reduction)
    -- e is squared, not abs(e), so that the second derivative at 0 is right
    local e = x - y
    local d = e:abs()
    local value = where(d:lt(delta), e * e * 0.5, (d - 0.5 * delta) * delta)
    return reduce(value, reduction)
  end)

--- huber_loss with delta = beta, divided by beta; for beta = 0 |input - target|.
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

--- The cross entropy of probabilities: -(target log input + (1 - target) log(1 - input)), times
--- weight. Logarithms count as at least -100.
def([[binary_cross_entropy(input: T, target: T, weight?: T|num,
    reduction: "mean"|"sum"|"none" = "mean") -> T @single]], function(x, y, weight, reduction)
  need_same_shape("binary_cross_entropy", x, y)
  local v = x:detach()
  local edge = v:le(0):logical_or(v:ge(1))
  local e = -(y * x:log():clamp({ min = -100 }) + (1 - y) * (-x):log1p():clamp({ min = -100 }))
  -- for x = 0 and x = 1 the slope is PyTorch's, with a denominator x (1 - x) of at least 1e-12
  if x.requires_grad then
    local inner = where(edge, 0.5, x)
    local slope = (v - y) / (v * (1 - v)):clamp({ min = 1e-12 })
    local usual = -(y * inner:log():clamp({ min = -100 }) + (1 - y) * (-inner):log1p()
      :clamp({ min = -100 }))
    e = where(edge, e:detach() + slope * (x - v), usual)
  end
  return reduce(weight and e * weight or e, reduction)
end)

--- binary_cross_entropy of sigmoid(input), without overflow; pos_weight multiplies the part of
--- targets that are 1.
def([[binary_cross_entropy_with_logits(input: T, target: T, weight?: T|num, pos_weight?: T|num,
    reduction: "mean"|"sum"|"none" = "mean") -> T @single]],
function(x, y, weight, pos_weight, reduction)
  need_same_shape("binary_cross_entropy_with_logits", x, y)
  local hit = (-x):softplus() * y
  local e = x:softplus() * (1 - y) + (pos_weight and hit * pos_weight or hit)
  return reduce(weight and e * weight or e, reduction)
end)

--- target (log target - input), where input has log-probabilities; log_target: so has target.
--- "batchmean" is the sum of all elements divided by the size of the first axis.
def([[kl_div(input: T, target: T, reduction: "mean"|"sum"|"none"|"batchmean" = "mean",
    log_target = false) -> T @single]], function(x, y, reduction, log_target)
  local e
  if log_target then e = y:exp() * (y - x)
  else e = where(y:ne(0), y * (where(y:ne(0), y, 1):log() - x), 0) end
  if reduction == "batchmean" then return e:sum() / x.shape[1] end
  return reduce(e, reduction)
end)

--- Minus input, log-probabilities (n, classes, …) or (classes), at class ids target (n, …) or 0-d.
--- weight: per class, also in the mean; targets equal to ignore_index do not count.
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

--- max(0, distance to positive - distance to negative + margin), both from the anchor. swap: uses
--- the distance from positive to negative if that is smaller.
def([[triplet_margin_loss(anchor: T, positive: T, negative: T, margin = 1.0, p = 2, eps = 1e-6,
    swap = false, reduction: "mean"|"sum"|"none" = "mean") -> T @single]],
  function(a, b, n, margin, p, eps, swap, reduction)
    need_same_rank("triplet_margin_loss", a, b, n)
    local near, far = (a - b + eps):norm(p, -1), (a - n + eps):norm(p, -1)
    if swap then far = far:minimum((b - n + eps):norm(p, -1)) end
    return reduce((near - far + margin):relu(), reduction)
  end)

--- x = input, y = target: exp(x) - y x (log_input) or x - y log(x + eps); full: plus an
--- approximation of log(y!).
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

--- The input where the target is 1, max(0, margin - input) where it is -1.
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

--- The sum of max(0, margin - x at the label + x)^p over the other classes, divided by the number
--- of classes; p is 1 or 2, weight has one number for each class.
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

--- Minus log-likelihood of target under a normal of mean input and variance var, at least eps; its
--- constant, log(2 pi) / 2, is added if full is true.
def([[gaussian_nll_loss(input: T, target: T, var: T|num, full = false, eps = 1e-6,
    reduction: "mean"|"sum"|"none" = "mean") -> T]], function(x, y, var, full, eps, reduction)
  if type(var) == "number" then var = flame.full_like(x:detach(), var) end
  if var.ndim == x.ndim - 1 then var = var:unsqueeze(-1) end
  local bad = var:detach():lt(0)
  -- var is raised to eps at least; as in PyTorch, its gradient passes this bound unchanged
  var = var + (var:clamp({ min = eps }) - var):detach()
  local e = where(bad, 0 / 0, (var:log() + (x - y):square() / var) * 0.5)
  return reduce(full and e + 0.5 * math.log(2 * math.pi) or e, reduction)
end)

--- max(0, -target (x1 - x2) + margin): with target 1 x1 should be larger, with -1 x2.
def([[margin_ranking_loss(x1: T, x2: T, target: T, margin = 0,
    reduction: "mean"|"sum"|"none" = "mean") -> T]], function(x1, x2, y, margin, reduction)
  need_same_rank("margin_ranking_loss", x1, x2, y)
  return reduce((-y * (x1 - x2) + margin):clamp({ min = 0 }), reduction)
end)

--- 1 - cosine where target is 1, max(0, cosine - margin) where it is -1.
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

-- ---- margins -----------------------------------------------------------------------------------
--- The sum of max(0, 1 - (input at a label - at another class)) over all such pairs, divided by the
-- number of classes. target: ids from 1 in each row, up to the first 0.
def([[multilabel_margin_loss(input: T, target: T, reduction: "mean"|"sum"|"none" = "mean") -> T]],
  function(x, y, reduction)
    local op = "multilabel_margin_loss"
    arguments.need_integers(op, "target", y)
    if x.ndim > 2 or shape_text(x) ~= shape_text(y) then
      fail(op, "input has shape %s and target %s, need the same of at most two axes", shape_text(x),
        shape_text(y))
    end
    local single = x.ndim < 2
    if single then x, y = x:reshape(1, -1), y:reshape(1, -1) end
    local n = x.shape[2]
    local there = y:ne(0):to("i64"):cumprod(2):bool()             -- up to the first 0
    local ids = where(there, y:long(), 1)
    internal.naming(op)
    ids = internal.classes(ids, n)
    local own = flame.zeros(x.shape, { dtype = "i64", device = x.device }):scatter_add(2, ids,
      there:long()):gt(0)
    local at = x:gather(2, ids):unsqueeze(3)
    local e = (1 - at + x:unsqueeze(2)):relu()
    e = where(there:unsqueeze(3):logical_and(own:logical_not():unsqueeze(2)), e,
      0):sum({ 2, 3 }) / n
    return reduce(single and e:reshape({}) or e, reduction)
  end)
--- triplet_margin_loss with a given distance: a function of two tensors that gives one number per
--- row, by default pairwise_distance.
def([[triplet_margin_with_distance_loss(anchor: T, positive: T, negative: T, *,
    distance_function?: fn, margin = 1.0, swap = false,
    reduction: "mean"|"sum"|"none" = "mean") -> T]],
  function(a, p, n, distance, margin, swap, reduction)
    distance = distance or flame.pairwise_distance
    local near, far = distance(a, p), distance(a, n)
    if swap then far = far:minimum(distance(p, n)) end
    return reduce((near - far + margin):clamp({ min = 0 }), reduction)
  end)

-- ---- connectionist temporal classification ------------------------------------------------------
--- log(exp a + exp b + …) of the tensors in a list, which may be -inf; where all are, the result is
--- -inf without a gradient.
local function join(list)
  local top = list[1]:detach()
  for k = 2, #list do top = top:maximum(list[k]:detach()) end
  local none = top:eq(-math.huge)
  top = where(none, 0, top)
  local sum
  for _, v in ipairs(list) do
    local e = (v - top):exp()
    sum = sum and sum + e or e
  end
  return where(none, -math.huge, where(none, 1, sum):log() + top)
end

-- The labels y as rows (n, longest), from such rows or from one vector with all labels; and the
-- length of the longest row. lengths: the number of labels of each row.
local function label_rows(op, y, n, lengths)
  local longest, total = 0, 0
  for _, l in ipairs(lengths) do longest, total = math.max(longest, l), total + l end
  if y.ndim == 2 then
    if y.shape[1] ~= n or y.shape[2] < longest then
      fail(op, "target has shape %s, need (%d, %d) or more columns", shape_text(y), n, longest)
    end
    if longest == 0 then return y:narrow(2, 1, 0), 0 end
    -- elements after the end of a row may be anything: they are set to 1, a valid class
    local as = { dtype = "i64", device = y.device }
    local there = flame.arange(1, longest, as):le(flame.tensor(lengths, as):unsqueeze(2))
    return where(there, y:narrow(2, 1, longest), 1), longest
  end
  if y:numel() ~= total then
    fail(op, "target has %d labels, target_lengths add up to %d", y:numel(), total)
  end
  local rows, first = {}, 1
  for i, l in ipairs(lengths) do
    rows[i] = y:narrow(1, first, l):pad({ 0, longest - l }, "constant", 1)
    first = first + l
  end
  return flame.stack(rows, 1), longest
end

local function lengths_of(op, name, v, n, most)
  local list = flame.is_tensor(v) and v:reshape(-1):totable() or type(v) == "number" and { v } or v
  if type(list) ~= "table" or #list ~= n then fail(op, "%s must be %d numbers", name, n) end
  for i, l in ipairs(list) do
    if math.type(l) ~= "integer" or l < 0 or l > most then
      fail(op, "%s[%d] = %s, need 0 to %d", name, i, tostring(l), most)
    end
  end
  return list
end

-- The losses (n): minus the log-probability of all paths that spell the labels (Graves et al.
-- 2006). The forward variable alpha has the states blank, label 1, blank, label 2, …, blank.
local function ctc_losses(x, rows, longest, in_lengths, lengths, blank)
  local t, n, device = x.shape[1], x.shape[2], x.device
  local states = 2 * longest + 1
  local extended = flame.full({ n, longest + 1, 2 }, blank, { dtype = "i64", device = device })
  if longest > 0 then extended[{ {}, { 1, longest }, 2 }] = rows:long() end
  extended = extended:flatten(2):narrow(2, 1, states)
  local at = extended:unsqueeze(1):expand({ t, n, states })
  internal.naming("ctc_loss")
  local p = x:gather(3, at)                                               -- (t, n, states)
  local low = flame.full({ n, 2 }, -math.huge, { dtype = x.dtype, device = device })
  local jump = flame.zeros({ n, states }, { dtype = "bool", device = device })
  -- a path may skip the blank between two different labels
  if states > 2 then
    local other = extended:narrow(2, 3, states - 2):ne(extended:narrow(2, 1, states - 2))
    jump = other:logical_and(extended:narrow(2, 3, states - 2):ne(blank)):to("u8")
      :pad({ 2, 0 }):bool()
  end
  local start = flame.arange(1, states, { dtype = "i64", device = device }):le(2)
    :expand({ n, states })
  local alpha = where(start, p[1], -math.huge)
  local steps = flame.tensor(in_lengths, { dtype = "i64", device = device }):unsqueeze(2)
  for k = 2, t do
    local before = flame.cat({ low, alpha }, 2)
    local arrived = join { alpha, before:narrow(2, 2, states),
      where(jump, before:narrow(2, 1, states), -math.huge) } + p[k]
    alpha = where(steps:ge(k), arrived, alpha)
  end
  local last = flame.tensor(lengths, { dtype = "i64", device = device }):unsqueeze(2) * 2 + 1
  local final = alpha:gather(2, last)
  local label = where(last:gt(1), alpha:gather(2, (last - 1):clamp({ min = 1 })), -math.huge)
  return -join({ final, label }):squeeze(2)
end

--- input: log-probabilities (t, n, classes) or (t, classes); target: ids (n, longest), or those of
--- all sequences in one vector; lengths as tensors or lists; blank: the class id of the blank.
--- "mean" first divides each loss by its number of labels; zero_infinity: infinite losses are 0.
def([[ctc_loss(input: T, target: T, input_lengths: T|int|int[], target_lengths: T|int|int[],
    blank: int = 1, reduction: "mean"|"sum"|"none" = "mean", zero_infinity = false) -> T]],
  function(x, y, input_lengths, target_lengths, blank, reduction, zero_infinity)
    local op = "ctc_loss"
    local single = x.ndim == 2
    if x.ndim ~= 2 and x.ndim ~= 3 then
      fail(op, "input has shape %s, need (time, batch, classes)", shape_text(x))
    end
    if single then x = x:unsqueeze(2) end
    local t, n, classes = x.shape[1], x.shape[2], x.shape[3]
    if blank < 1 or blank > classes then
      fail(op, "blank = %d, need 1 to %d", blank, classes)
    end
    input_lengths = lengths_of(op, "input_lengths", input_lengths, n, t)
    target_lengths = lengths_of(op, "target_lengths", target_lengths, n, y:numel())
    local rows, longest = label_rows(op, y, n, target_lengths)
    if t == 0 then fail(op, "input has no steps") end
    local e = ctc_losses(x, rows, longest, input_lengths, target_lengths, blank)
    if zero_infinity then e = where(e:detach():isinf(), 0, e) end
    if reduction == "mean" then
      local l = {}
      for i, v in ipairs(target_lengths) do l[i] = math.max(v, 1) end
      return (e / flame.tensor(l, { dtype = x.dtype, device = x.device })):mean()
    end
    e = reduce(e, reduction)
    return single and e:reshape({}) or e
  end)
