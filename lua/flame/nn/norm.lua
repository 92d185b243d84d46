--- Layers beyond the first ones: norms, activations, losses, and small things. Given the table
-- of flame.nn, adds to it; layouts, defaults and initialisation are PyTorch's.
local flame = require "flame"
local dtypes = require "flame.base.dtypes"

return function(nn, shared)
  local fail, positive, class, call = shared.fail, shared.positive, shared.class, shared.call

  -- ---- norms -------------------------------------------------------------------------------
  -- The smallest e with 1 + e > 1: what rms_norm adds where nothing else is said.
  local epsilon = dtypes.epsilon

  --- Root-mean-square norm over the last axes of the given shape; weight of that shape.
  --- eps is by default the smallest e of x's dtype with 1 + e > 1; affine is another name of
  --- elementwise_affine.
  class([[nn.RMSNorm(normalized_shape: int|int[], eps?: num, elementwise_affine = true,
    device?: device, dtype?: dtype, *, affine = true)]],
    function(self, shape, eps, elementwise, device, dtype, affine)
      if type(shape) == "number" then shape = { shape } end
      rawset(self, "shape", shape)
      self.eps = eps
      if affine and elementwise then
        self.weight = nn.Parameter(flame.ones(shape, { device = device, dtype = dtype }))
      end
    end)
  call(nn.RMSNorm, "(x: T) -> T", function(self, x)
    return x:rms_norm(self.shape, self.weight, { eps = self.eps or epsilon[x.dtype] })
  end)
  function nn.RMSNorm:extra()
    return ("(%s), eps=%s, elementwise_affine=%s"):format(table.concat(self.shape, ", "),
      tostring(self.eps), self.weight ~= nil)
  end

  --- Normalises the channels (axis 2) in groups; weight and bias (channels).
  class([[nn.GroupNorm(num_groups: int, num_channels: int, eps = 1e-5, affine = true,
    device?: device, dtype?: dtype)]], function(self, groups, channels, eps, affine, device, dtype)
    positive("GroupNorm", "num_groups", groups)
    positive("GroupNorm", "num_channels", channels)
    if channels % groups ~= 0 then
      fail("GroupNorm: %d channels do not divide into %d groups", channels, groups)
    end
    self.num_groups, self.num_channels, self.eps = groups, channels, eps
    if affine then
      local as = { device = device, dtype = dtype }
      self.weight = nn.Parameter(flame.ones({ channels }, as))
      self.bias = nn.Parameter(flame.zeros({ channels }, as))
    end
  end)
  call(nn.GroupNorm, "(x: T) -> T", function(self, x)
    return x:group_norm(self.num_groups, self.weight, self.bias, { eps = self.eps })
  end)
  function nn.GroupNorm:extra()
    return ("%d, %d, eps=%g, affine=%s"):format(self.num_groups, self.num_channels, self.eps,
      self.weight ~= nil)
  end

  -- Norms with statistics of a channel: batch_norm and instance_norm for 'low' to 'high' axes.
  local function channel_norm(text, low, high, track, run)
    local name = text:match("%.(%w+)%(")
    local made = class(text, function(self, channels, eps, momentum, affine, tracks, device, dtype)
      local as = { device = device, dtype = dtype }
      positive(name, "num_features", channels)
      self.num_features, self.eps = channels, eps
      self.momentum = momentum or false                  -- false: the mean over all batches
      if affine then
        self.weight = nn.Parameter(flame.ones({ channels }, as))
        self.bias = nn.Parameter(flame.zeros({ channels }, as))
      end
      if tracks then
        self.running_mean = nn.Buffer(flame.zeros({ channels }, as))
        self.running_var = nn.Buffer(flame.ones({ channels }, as))
        self.num_batches_tracked = nn.Buffer(flame.zeros({}, { dtype = "i64", device = device }))
      end
    end)
    call(made, "(x: T) -> T", function(self, x)
      if x.ndim < low or x.ndim > high then
        fail("%s: x has %d axes, need %d%s", name, x.ndim, low, high > low and " or " .. high or "")
      end
      if x:size(2) ~= self.num_features and not (low == 2 and high == 3 and track == false) then
        fail("%s: x has %d channels, need %d", name, x:size(2), self.num_features)
      end
      local momentum = self.momentum
      if self.training and self.num_batches_tracked then
        -- of BatchNorm: as PyTorch
        if track then flame.no_grad(function() self.num_batches_tracked:add_(1) end) end
        momentum = momentum or 1 / math.max(self.num_batches_tracked:item(), 1)
      end
      return run(self, x, momentum or 0)
    end)
    function made:extra()
      return ("%d, eps=%g, momentum=%s, affine=%s, track_running_stats=%s"):format(
        self.num_features, self.eps,
        tostring(self.momentum), self.weight ~= nil, self.running_mean ~= nil)
    end
  end
  local function batch_norm(self, x, momentum)
    return x:batch_norm(self.running_mean, self.running_var, self.weight, self.bias,
      { training = self.training or self.running_mean == nil, momentum = momentum, eps = self.eps })
  end
  local function instance_norm(self, x, momentum)
    return x:instance_norm(self.running_mean, self.running_var, self.weight, self.bias,
      { use_input_stats = self.training or self.running_mean == nil, momentum = momentum,
        eps = self.eps })
  end
  for n = 1, 3 do
    --- batch_norm with running statistics; momentum = false: the mean over all batches.
    channel_norm(([[nn.BatchNorm%dd(num_features: int, eps = 1e-5, momentum?: num = 0.1,
      affine = true, track_running_stats = true, device?: device, dtype?: dtype)]]):format(n),
      n == 1 and 2 or n + 2, n + 2, true, batch_norm)
    --- instance_norm, with weights where affine is true.
    channel_norm(([[nn.InstanceNorm%dd(num_features: int, eps = 1e-5, momentum?: num = 0.1,
      affine = false, track_running_stats = false, device?: device, dtype?: dtype)]]):format(n),
      n + 2, n + 2, false, instance_norm)
  end

  -- ---- modules of one function -----------------------------------------------------------------
  -- Those of nn/conv.lua are made here too.

  local VALUES = { ["true"] = true, ["false"] = false }
  --- Names and defaults of the parameters of a constructor.
  local function parameters_of(made)
    local names, defaults = {}, {}
    for i, p in ipairs(flame.internal.declaration(made.init)[1].params) do
      names[i] = p.name
      local word = p.default and p.default:match('^"(.*)"$')
      defaults[p.name] = word or VALUES[p.default] or tonumber(p.default)
      if p.default == "false" then defaults[p.name] = false end
    end
    return names, defaults
  end

  --- A class that keeps what its constructor is given, where it is not as by default, under
  --- 'options' by names; a tensor among them is a buffer, so that it moves with the module.
  local function keeper(text)
    local names, defaults, made
    made = shared.class(text, function(self, ...)
      if not names then names, defaults = parameters_of(made) end
      local o = {}
      for i, name in ipairs(names) do
        local v = (select(i, ...))
        if v ~= nil and v ~= defaults[name] and name ~= "inplace" then o[name] = v end
        if flame.is_tensor(v) then self[name] = nn.Buffer(v) end
      end
      rawset(self, "options", o)
    end)
    function made:extra()
      local shown = {}
      for _, name in ipairs(names) do
        local v = self.options[name]
        if type(v) == "table" and not getmetatable(v) then
          v = "(" .. table.concat(v, ", ") .. ")"
        end
        if v ~= nil and not flame.is_tensor(v) then
          shown[#shown + 1] = name .. "=" .. tostring(v)
        end
      end
      return table.concat(shown, ", ")
    end
    return made
  end
  shared.keeper = keeper

  --- The module of an elementwise function or one along an axis: f(x, options).
  local function activation(text, f)
    call(keeper("nn." .. text), "(x: T) -> T", function(self, x) return f(x, self.options) end)
  end
  --- Those of flame's functions that take the options by name.
  local function of_function(text, op)
    activation(text, function(x, o)
      if next(o) == nil then return flame[op](x) end
      return flame[op](x, o)
    end)
  end
  for name, op in pairs { ReLU = "relu", ReLU6 = "relu6", SELU = "selu", SiLU = "silu",
    Mish = "mish", Tanh = "tanh", Sigmoid = "sigmoid", LogSigmoid = "logsigmoid",
    Softsign = "softsign", Hardsigmoid = "hardsigmoid", Hardswish = "hardswish" } do
    of_function(name .. "(inplace = false)", op)
  end
  of_function('GELU(approximate: "none"|"tanh" = "none", inplace = false)', "gelu")
  of_function("LeakyReLU(negative_slope = 0.01, inplace = false)", "leaky_relu")
  of_function("ELU(alpha = 1, inplace = false)", "elu")
  of_function("CELU(alpha = 1, inplace = false)", "celu")
  of_function("Softplus(beta = 1, threshold = 20, inplace = false)", "softplus")
  of_function("Hardtanh(min_val = -1, max_val = 1, inplace = false)", "hardtanh")
  activation("Softmax(dim: axis = -1, inplace = false)",
    function(x, o) return x:softmax(o.dim or -1) end)
  activation("LogSoftmax(dim: axis = -1, inplace = false)",
    function(x, o) return x:log_softmax(o.dim or -1) end)
  activation("Softmin(dim: axis = -1, inplace = false)",
    function(x, o) return (-x):softmax(o.dim or -1) end)
  --- Softmax over the channels.
  activation("Softmax2d(inplace = false)", function(x) return x:softmax(-3) end)
  activation("Tanhshrink(inplace = false)", function(x) return x - x:tanh() end)
  activation("Softshrink(lambd = 0.5, inplace = false)", function(x, o)
    local l = o.lambd or 0.5
    return flame.where(x:gt(l), x - l, flame.where(x:lt(-l), x + l, x * 0))
  end)
  activation("Hardshrink(lambd = 0.5, inplace = false)", function(x, o)
    return flame.where(x:abs():le(o.lambd or 0.5), 0, x)
  end)
  activation("Threshold(threshold: num, value: num, inplace = false)", function(x, o)
    return flame.where(x:gt(o.threshold), x, o.value)
  end)
  activation("GLU(dim: axis = -1, inplace = false)", function(x, o)
    local d = o.dim or -1
    local n = x:size(d)
    if n % 2 ~= 0 then fail("GLU: axis %d has %d elements, need an even number", d, n) end
    return x:narrow(d, 1, n // 2) * x:narrow(d, n // 2 + 1, n // 2):sigmoid()
  end)

  --- leaky_relu with a slope drawn between lower and upper while training, their mean else.
  class("nn.RReLU(lower = 0.125, upper = 0.3333333333333333, *, inplace = false)",
    function(self, lower, upper) self.lower, self.upper = lower, upper end)
  call(nn.RReLU, "(x: T) -> T",
    function(self, x) return flame.rrelu(x, self.lower, self.upper, self.training) end)
  function nn.RReLU:extra() return ("lower=%g, upper=%g"):format(self.lower, self.upper) end

  --- x where positive, else a x; a is learnt: one number, or one a channel (axis 2).
  class("nn.PReLU(num_parameters: int = 1, init = 0.25, device?: device, dtype?: dtype)",
    function(self, n, value, device, dtype)
      self.num_parameters = n
      self.weight = nn.Parameter(flame.full({ n }, value, { device = device, dtype = dtype }))
    end)
  call(nn.PReLU, "(x: T) -> T", function(self, x)
    local a = self.weight
    if self.num_parameters > 1 then
      local shape = {}
      for d = 1, x.ndim do shape[d] = d == 2 and self.num_parameters or 1 end
      a = a:reshape(shape)
    end
    return flame.where(x:gt(0), x, x * a)
  end)
  function nn.PReLU:extra() return "num_parameters=" .. self.num_parameters end

  --- Gives its argument back; whatever the constructor is given.
  class("nn.Identity(...)", function() end)
  function nn.Identity:forward(...) return ... end

  --- Axes start_dim to end_dim as one.
  activation("Flatten(start_dim: axis = 2, end_dim: axis = -1, inplace = false)", function(x, o)
    return x:flatten(o.start_dim or 2, o.end_dim or -1)
  end)
  --- An axis as several.
  class("nn.Unflatten(dim: axis, unflattened_size: int[])", function(self, d, sizes)
    rawset(self, "d", d)
    rawset(self, "sizes", sizes)
  end)
  call(nn.Unflatten, "(x: T) -> T", function(self, x) return x:unflatten(self.d, self.sizes) end)

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
  --- The module of a loss, which takes the options in a table behind the arguments of a call.
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
  --- target) gives the log-probability of each row's class, and minus their mean. The head holds
  --- the classes up to cutoffs[1] and a place for each cluster behind; the i-th cluster has a size
  --- smaller by div_value^i.
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
