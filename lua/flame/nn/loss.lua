--- Losses, and modules that compare or multiply two tensors. The file returns a function that adds
--- them to flame.nn.
local flame = require "flame"

return function(nn, shared)
  local fail, positive, class, call = shared.fail, shared.positive, shared.class, shared.call
  local keeper = shared.keeper

  -- ---- products ---------------------------------------------------------------------------------
  --- y[o] = x1 W[o] x2 + b[o] over the last axes; weight (out, in1, in2), uniform in +-1/sqrt(in1).
  class([[nn.Bilinear(in1_features: int, in2_features: int, out_features: int, bias = true,
    device?: device, dtype?: dtype)]], function(self, in1, in2, outputs, bias, device, dtype)
    positive("Bilinear", "in1_features", in1)
    positive("Bilinear", "in2_features", in2)
    positive("Bilinear", "out_features", outputs)
    self.in1_features, self.in2_features, self.out_features = in1, in2, outputs
    local bound, as = 1 / math.sqrt(in1), { device = device, dtype = dtype }
    self.weight = nn.Parameter(flame.uniform({ outputs, in1, in2 }, -bound, bound, as))
    if bias then self.bias = nn.Parameter(flame.uniform({ outputs }, -bound, bound, as)) end
  end)
  call(nn.Bilinear, "(x: T, y: T) -> T", function(self, x, y)
    local shape = x.shape
    shape[#shape] = self.out_features
    local z = flame.einsum("ni,oij,nj->no", x:reshape(-1, self.in1_features), self.weight,
      y:reshape(-1, self.in2_features))
    return (self.bias and z + self.bias or z):reshape(shape):clone()
  end)
  function nn.Bilinear:extra()
    return ("in1_features=%d, in2_features=%d, out_features=%d, bias=%s"):format(self.in1_features,
      self.in2_features,
      self.out_features, self.bias ~= nil)
  end

  --- Cosine of two tensors along an axis.
  keeper("nn.CosineSimilarity(dim: axis = 2, eps = 1e-8)").extra = nil
  call(nn.CosineSimilarity, "(x: T, y: T) -> T",
    function(self, x, y)
      local o = self.options
      return flame.cosine_similarity(x, y, o.dim or 2, { eps = o.eps or 1e-8 })
    end)
  --- The p-norm of the difference of two tensors along the last axis.
  keeper("nn.PairwiseDistance(p = 2, eps = 1e-6, keepdim = false)").extra = nil
  call(nn.PairwiseDistance, "(x: T, y: T) -> T",
    function(self, x, y)
      local o = self.options
      return (x - y + (o.eps or 1e-6)):norm(o.p or 2, -1, { keepdim = o.keepdim == true })
    end)

  -- ---- losses -----------------------------------------------------------------------------------
  local REDUCTION = 'reduction: "mean"|"sum"|"none" = "mean"'
  --- Makes the module of a loss: its call is flame[op] of the inputs, with the options in a table
  --- after them.
  local function loss(text, op, inputs)
    local made = keeper("nn." .. text:gsub("REDUCTION", REDUCTION))
    made.extra = nil
    call(made, ("(%s) -> T"):format(inputs or "input: T, target: T"), function(self, ...)
      local o, args, n = {}, { ... }, select("#", ...)
      for key, value in pairs(self.options) do
        o[key] = flame.is_tensor(value) and self[key] or value
      end
      args[n + 1] = o
      return flame[op](table.unpack(args, 1, n + 1))
    end)
  end
  loss([[CrossEntropyLoss(weight?: T, ignore_index: int = -100, REDUCTION,
    label_smoothing = 0)]], "cross_entropy")
  loss("NLLLoss(weight?: T, ignore_index: int = -100, REDUCTION)", "nll_loss")
  loss("MSELoss(REDUCTION)", "mse_loss")
  loss("L1Loss(REDUCTION)", "l1_loss")
  loss("BCELoss(weight?: T|num, REDUCTION)", "binary_cross_entropy")
  loss("BCEWithLogitsLoss(weight?: T|num, REDUCTION, pos_weight?: T|num)",
    "binary_cross_entropy_with_logits")
  loss("HuberLoss(REDUCTION, delta = 1)", "huber_loss")
  loss("SmoothL1Loss(REDUCTION, beta = 1)", "smooth_l1_loss")
  loss([[KLDivLoss(reduction: "mean"|"sum"|"none"|"batchmean" = "mean", log_target = false)]],
    "kl_div")
  loss("HingeLoss(margin = 1, REDUCTION)", "hinge_loss")
  loss("TripletMarginLoss(margin = 1, p = 2, eps = 1e-6, swap = false, REDUCTION)",
    "triplet_margin_loss", "anchor: T, positive: T, negative: T")
  loss([[TripletMarginWithDistanceLoss(distance_function?: fn, margin = 1, swap = false,
    REDUCTION)]], "triplet_margin_with_distance_loss", "anchor: T, positive: T, negative: T")
  loss("SoftMarginLoss(REDUCTION)", "soft_margin_loss")
  loss("HingeEmbeddingLoss(margin = 1, REDUCTION)", "hinge_embedding_loss")
  loss("MarginRankingLoss(margin = 0, REDUCTION)", "margin_ranking_loss",
    "x1: T, x2: T, target: T")
  loss("CosineEmbeddingLoss(margin = 0, REDUCTION)", "cosine_embedding_loss",
    "x1: T, x2: T, target: T")
  loss("PoissonNLLLoss(log_input = true, full = false, eps = 1e-8, REDUCTION)",
    "poisson_nll_loss")
  loss("GaussianNLLLoss(full = false, eps = 1e-6, REDUCTION)", "gaussian_nll_loss",
    "input: T, target: T, var: T|num")
  loss("MultiMarginLoss(p: int = 1, margin = 1, weight?: T, REDUCTION)", "multi_margin_loss")
  loss("MultiLabelMarginLoss(REDUCTION)", "multilabel_margin_loss")
  loss("MultiLabelSoftMarginLoss(weight?: T|num, REDUCTION)", "multilabel_soft_margin_loss")
  loss("CTCLoss(blank: int = 1, REDUCTION, zero_infinity = false)", "ctc_loss",
    "input: T, target: T, input_lengths: T|int|int[], target_lengths: T|int|int[]")

  --- Log-softmax of many classes, the frequent ones first (Grave, Joulin, Cissé, 2017). adaptive(x,
  --- target) gives the log-probability of each row's class, and minus their mean. The head has an
  --- output for each class up to cutoffs[1] and for each cluster of further classes; the hidden
  --- size of the i-th cluster is in_features / div_value^i.
  class([[nn.AdaptiveLogSoftmaxWithLoss(in_features: int, n_classes: int, cutoffs: int[],
    div_value = 4, head_bias = false, device?: device, dtype?: dtype)]],
    function(self, in_features, n_classes, cutoffs, div_value, head_bias, device, dtype)
    local name = "AdaptiveLogSoftmaxWithLoss"
    positive(name, "in_features", in_features)
    positive(name, "n_classes", n_classes)
    local ends = table.move(cutoffs, 1, #cutoffs, 1, {})
    ends[#ends + 1] = n_classes
    for i = 1, #ends do
      positive(name, "a cutoff", ends[i])
      if i > 1 and ends[i] <= ends[i - 1] then
        fail("%s: cutoffs must rise and stay below n_classes = %d", name, n_classes)
      end
    end
    if #ends < 2 then fail("%s: need one cutoff or more", name) end
    rawset(self, "cutoffs", ends)
    self.head = nn.Linear(in_features, ends[1] + #ends - 1,
      { bias = head_bias, device = device, dtype = dtype })
    local tail, plain = {}, { bias = false, device = device, dtype = dtype }
    for i = 1, #ends - 1 do
      local size = in_features // div_value ^ i | 0
      if size < 1 then
        fail("%s: cluster %d has no features, since in_features = %d is below div_value ^ %d = %g" ..
          "\1: lower div_value", name, i, in_features, i, div_value ^ i)
      end
      tail[i] = nn.Sequential { nn.Linear(in_features, size, plain),
        nn.Linear(size, ends[i + 1] - ends[i], plain) }
    end
    self.tail = nn.ModuleList(tail)
  end)
  local Adaptive, put = nn.AdaptiveLogSoftmaxWithLoss, shared.put
  call(Adaptive, "(x: T, target: T) -> logprob: T, loss: T", function(self, x, target)
    local ends, single = self.cutoffs, x.ndim == 1
    if single then x, target = x:unsqueeze(1), target:unsqueeze(1) end
    if x.ndim ~= 2 or target.ndim ~= 1 or #x ~= #target then
      fail("AdaptiveLogSoftmaxWithLoss: need x (n, features) and target (n)")
    end
    local out = target:lt(1):logical_or(target:gt(ends[#ends])):nonzero():reshape(-1)
    if #out > 0 then
      local at = out[1]:item()
      fail("AdaptiveLogSoftmaxWithLoss: class %d at position %d, need 1 to %d", target[at]:item(),
        at, ends[#ends])
    end
    local place = target
    for i = #ends - 1, 1, -1 do
      place = flame.where(target:gt(ends[i]):logical_and(target:le(ends[i + 1])),
        ends[1] + i, place)
    end
    local y = -flame.nll_loss(self.head(x):log_softmax(2), place, { reduction = "none" })
    for i = 1, #ends - 1 do
      local rows = target:gt(ends[i]):logical_and(target:le(ends[i + 1])):nonzero():reshape(-1)
      if #rows > 0 then
        local inner = self.tail[i](x:index_select(1, rows)):log_softmax(2)
        y = y:index_add(1, rows,
          inner:gather(2, (target:index_select(1, rows) - ends[i]):unsqueeze(2)):squeeze(2))
      end
    end
    return single and y:squeeze(1) or y, -y:mean()
  end)
  --- Log-probabilities of all classes.
  put(Adaptive, "AdaptiveLogSoftmaxWithLoss:log_prob(x: T) -> T", function(self, x)
    local ends, head = self.cutoffs, self.head(x):log_softmax(2)
    local parts = { head:narrow(2, 1, ends[1]) }
    for i = 1, #ends - 1 do
      parts[i + 1] = self.tail[i](x):log_softmax(2) + head:narrow(2, ends[1] + i, 1)
    end
    return flame.cat(parts, 2)
  end)
  --- The likeliest class of each row.
  put(Adaptive, "AdaptiveLogSoftmaxWithLoss:predict(x: T) -> T", function(self, x)
    if x.ndim == 1 then return self:log_prob(x:unsqueeze(1)):argmax() end
    return self:log_prob(x):argmax(2)
  end)
end
