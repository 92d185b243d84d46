--- Layers beyond the first ones: norms, activations, losses, and small things. Given the table
-- of flame.nn, adds to it; layouts, defaults and initialisation are PyTorch's.
local flame = require "flame"

return function(nn, positive, _, shared)
  local Module, fail, read, make_options = nn.Module, shared.fail, shared.read, shared.make_options

  -- ---- norms -------------------------------------------------------------------------------
  -- The smallest e with 1 + e > 1: what rms_norm adds where nothing else is said.
  local epsilon = { f64 = 0x1p-52, f32 = 0x1p-23, f16 = 0x1p-10, bf16 = 0x1p-7 }

  --- Root-mean-square norm over the last axes of the given shape; weight of that shape.
  nn.RMSNorm = Module.extend("RMSNorm")
  function nn.RMSNorm:init(shape, ...)
    local o = read("RMSNorm", "eps elementwise_affine device dtype", "affine", ...)
    if type(shape) == "number" then shape = { shape } end
    if type(shape) ~= "table" then
      fail("RMSNorm: shape is a %s, need a number or a list", type(shape))
    end
    rawset(self, "shape", shape)
    self.eps = o.eps
    if o.affine ~= false and o.elementwise_affine ~= false then
      self.weight = nn.Parameter(flame.ones(shape, make_options(o)))
    end
  end
  function nn.RMSNorm:forward(x)
    return x:rms_norm(self.shape, self.weight, { eps = self.eps or epsilon[x.dtype] })
  end
  function nn.RMSNorm:extra()
    return ("(%s), eps=%s, elementwise_affine=%s"):format(table.concat(self.shape, ", "),
      tostring(self.eps), self.weight ~= nil)
  end

  --- Normalises the channels (axis 2) in groups; weight and bias (channels).
  nn.GroupNorm = Module.extend("GroupNorm")
  function nn.GroupNorm:init(groups, channels, ...)
    local o = read("GroupNorm", "eps affine device dtype", "", ...)
    positive("GroupNorm", "groups", groups)
    positive("GroupNorm", "channels", channels)
    if channels % groups ~= 0 then
      fail("GroupNorm: %d channels do not divide into %d groups", channels, groups)
    end
    self.num_groups, self.num_channels, self.eps = groups, channels, o.eps or 1e-5
    if o.affine ~= false then
      self.weight = nn.Parameter(flame.ones({ channels }, make_options(o)))
      self.bias = nn.Parameter(flame.zeros({ channels }, make_options(o)))
    end
  end
  function nn.GroupNorm:forward(x)
    return x:group_norm(self.num_groups, self.weight, self.bias, { eps = self.eps })
  end
  function nn.GroupNorm:extra()
    return ("%d, %d, eps=%g, affine=%s"):format(self.num_groups, self.num_channels, self.eps,
      self.weight ~= nil)
  end

  -- Norms with statistics of a channel: batch_norm and instance_norm for 'low' to 'high' axes.
  local function channel_norm(name, low, high, affine, track, run)
    local class = Module.extend(name)
    nn[name] = class
    function class:init(channels, ...)
      local o = read(name, "eps momentum affine track_running_stats device dtype", "", ...)
      positive(name, "channels", channels)
      self.num_features, self.eps = channels, o.eps or 1e-5
      self.momentum = o.momentum == nil and 0.1 or o.momentum    -- false: the mean over all batches
      if o.affine == nil and affine or o.affine then
        self.weight = nn.Parameter(flame.ones({ channels }, make_options(o)))
        self.bias = nn.Parameter(flame.zeros({ channels }, make_options(o)))
      end
      if o.track_running_stats == nil and track or o.track_running_stats then
        self.running_mean = nn.Buffer(flame.zeros({ channels }, make_options(o)))
        self.running_var = nn.Buffer(flame.ones({ channels }, make_options(o)))
        self.num_batches_tracked = nn.Buffer(flame.zeros({}, { dtype = "i64", device = o.device }))
      end
    end
    function class:forward(x)
      if x.ndim < low or x.ndim > high then
        fail("%s: x has %d axes, need %d%s", name, x.ndim, low, high > low and " or " .. high or "")
      end
      if x:size(2) ~= self.num_features and not (low == 2 and high == 3 and track == false) then
        fail("%s: x has %d channels, need %d", name, x:size(2), self.num_features)
      end
      local momentum = self.momentum
      if self.training and self.num_batches_tracked then
        -- of BatchNorm: as PyTorch
        if affine then flame.no_grad(function() self.num_batches_tracked:add_(1) end) end
        momentum = momentum or 1 / math.max(self.num_batches_tracked:item(), 1)
      end
      return run(self, x, momentum or 0)
    end
    function class:extra()
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
  channel_norm("BatchNorm1d", 2, 3, true, true, batch_norm)
  channel_norm("BatchNorm2d", 4, 4, true, true, batch_norm)
  channel_norm("BatchNorm3d", 5, 5, true, true, batch_norm)
  channel_norm("InstanceNorm1d", 3, 3, false, false, instance_norm)
  channel_norm("InstanceNorm2d", 4, 4, false, false, instance_norm)
  channel_norm("InstanceNorm3d", 5, 5, false, false, instance_norm)

  -- ---- activations -----------------------------------------------------------------------------
  --- A module of f(x, options); the options come by position in the order of
  --- 'names', or in a table.
  local function activation(name, names, f)
    local class = Module.extend(name)
    function class:init(...)
      local o = read(name, names .. " inplace", "", ...)
      o.inplace = nil                                    -- results are values of their own
      rawset(self, "options", o)
    end
    function class:forward(x)
      return f(flame.internal.need_tensor(name, "x", x), next(self.options) and self.options or nil)
    end
    function class:extra()
      local text = {}
      for key in names:gmatch("%S+") do
        if self.options[key] ~= nil then
          text[#text + 1] = key .. "=" .. tostring(self.options[key])
        end
      end
      return table.concat(text, ", ")
    end
    nn[name] = class
  end
  for name, f in pairs { ReLU = "relu", ReLU6 = "relu6", SELU = "selu", SiLU = "silu",
    Mish = "mish", Tanh = "tanh", Sigmoid = "sigmoid", LogSigmoid = "logsigmoid",
    Softsign = "softsign", Hardsigmoid = "hardsigmoid", Hardswish = "hardswish" } do activation(
      name, "", function(x) return flame[f](x) end) end
  for name, f in pairs { GELU = { "gelu", "approximate" },
    LeakyReLU = { "leaky_relu", "negative_slope" }, ELU = { "elu", "alpha" },
    CELU = { "celu", "alpha" }, Softplus = { "softplus", "beta threshold" },
    Hardtanh = { "hardtanh", "min_val max_val" } } do
    activation(name, f[2], function(x, o) return flame[f[1]](x, o) end)
  end
  activation("Softmax", "dim", function(x, o) return x:softmax(o and o.dim or -1) end)
  activation("LogSoftmax", "dim", function(x, o) return x:log_softmax(o and o.dim or -1) end)
  activation("Softmin", "dim", function(x, o) return (-x):softmax(o and o.dim or -1) end)
  activation("Softmax2d", "", function(x) return x:softmax(-3) end)
  activation("Tanhshrink", "", function(x) return x - x:tanh() end)
  activation("Softshrink", "lambd", function(x, o)
    local l = o and o.lambd or 0.5
    return flame.where(x:gt(l), x - l, flame.where(x:lt(-l), x + l, x * 0))
  end)
  activation("Hardshrink", "lambd", function(x, o)
    local l = o and o.lambd or 0.5
    return flame.where(x:abs():le(l), 0, x)
  end)
  activation("Threshold", "threshold value", function(x, o)
    if not (o and o.threshold and o.value) then fail("Threshold: need threshold and value") end
    return flame.where(x:gt(o.threshold), x, o.value)
  end)
  activation("GLU", "dim", function(x, o)
    local d = o and o.dim or -1
    local n = x:size(d)
    if n % 2 ~= 0 then fail("GLU: axis %d has %d elements, need an even number", d, n) end
    return x:narrow(d, 1, n // 2) * x:narrow(d, n // 2 + 1, n // 2):sigmoid()
  end)

  --- leaky_relu with a slope drawn between lower and upper while training, their mean else.
  nn.RReLU = Module.extend("RReLU")
  function nn.RReLU:init(...)
    local o = read("RReLU", "lower upper", "inplace", ...)
    self.lower, self.upper = o.lower or 1 / 8, o.upper or 1 / 3
  end
  function nn.RReLU:forward(x) return flame.rrelu(x, self.lower, self.upper, self.training) end
  function nn.RReLU:extra() return ("lower=%g, upper=%g"):format(self.lower, self.upper) end

  --- x where positive, else a x; a is learnt: one number, or one a channel (axis 2).
  nn.PReLU = Module.extend("PReLU")
  function nn.PReLU:init(...)
    local o = read("PReLU", "num_parameters init device dtype", "", ...)
    self.num_parameters = o.num_parameters or 1
    self.weight = nn.Parameter(flame.full({ self.num_parameters }, o.init or 0.25, make_options(o)))
  end
  function nn.PReLU:forward(x)
    local a = self.weight
    if self.num_parameters > 1 then
      local shape = {}
      for d = 1, x.ndim do shape[d] = d == 2 and self.num_parameters or 1 end
      a = a:reshape(shape)
    end
    return flame.where(x:gt(0), x, x * a)
  end
  function nn.PReLU:extra() return "num_parameters=" .. self.num_parameters end

  --- Gives its argument back; whatever the constructor is given.
  nn.Identity = Module.extend("Identity")
  function nn.Identity:init() end
  function nn.Identity:forward(...) return ... end

  --- Axes first to last as one.
  activation("Flatten", "start_dim end_dim", function(x, o)
    return x:flatten(o and o.start_dim or 2, o and o.end_dim or -1)
  end)
  nn.Unflatten = Module.extend("Unflatten")
  function nn.Unflatten:init(d, sizes) rawset(self, "d", d) rawset(self, "sizes", sizes) end
  function nn.Unflatten:forward(x) return x:unflatten(self.d, self.sizes) end

  --- Whole channels (axis 2) are zeroed with probability p while training.
  local function channel_dropout(name)
    local class = Module.extend(name, nn.Dropout)
    function class:forward(x)
      if not self.training or self.p == 0 then return x end
      return flame[name:lower()](x, self.p)
    end
    nn[name] = class
  end
  for _, name in ipairs { "Dropout1d", "Dropout2d", "Dropout3d" } do channel_dropout(name) end

  -- ---- products ---------------------------------------------------------------------------------
  --- y[o] = x1 W[o] x2 + b[o] over the last axes; weight (out, in1, in2), uniform in +-1/sqrt(in1).
  nn.Bilinear = Module.extend("Bilinear")
  function nn.Bilinear:init(in1, in2, outputs, ...)
    local o = read("Bilinear", "bias device dtype", "", ...)
    positive("Bilinear", "in1", in1)
    positive("Bilinear", "in2", in2)
    positive("Bilinear", "outputs", outputs)
    self.in1_features, self.in2_features, self.out_features = in1, in2, outputs
    local bound = 1 / math.sqrt(in1)
    self.weight = nn.Parameter(flame.uniform({ outputs, in1, in2 }, -bound, bound, make_options(o)))
    if o.bias ~= false then
      self.bias = nn.Parameter(flame.uniform({ outputs }, -bound, bound, make_options(o)))
    end
  end
  function nn.Bilinear:forward(x, y)
    flame.internal.need_tensor("Bilinear", "x", x)
    flame.internal.need_tensor("Bilinear", "y", y)
    local shape = x.shape
    shape[#shape] = self.out_features
    local z = flame.einsum("ni,oij,nj->no", x:reshape(-1, self.in1_features), self.weight,
      y:reshape(-1, self.in2_features))
    return (self.bias and z + self.bias or z):reshape(shape):clone()
  end
  function nn.Bilinear:extra()
    return ("in1_features=%d, in2_features=%d, out_features=%d, bias=%s"):format(self.in1_features,
      self.in2_features,
      self.out_features, self.bias ~= nil)
  end

  --- Cosine of two tensors along an axis, and the p-norm of their difference along the last.
  nn.CosineSimilarity = Module.extend("CosineSimilarity")
  function nn.CosineSimilarity:init(...)
    rawset(self, "options", read("CosineSimilarity", "dim eps", "", ...))
  end
  function nn.CosineSimilarity:forward(x, y)
    return flame.cosine_similarity(x, y, self.options.dim or 2, { eps = self.options.eps or 1e-8 })
  end
  nn.PairwiseDistance = Module.extend("PairwiseDistance")
  function nn.PairwiseDistance:init(...)
    rawset(self, "options", read("PairwiseDistance", "p eps keepdim", "", ...))
  end
  function nn.PairwiseDistance:forward(x, y)
    local o = self.options
    return (x - y + (o.eps or 1e-6)):norm(o.p or 2, -1, { keepdim = o.keepdim == true })
  end

  -- ---- losses -----------------------------------------------------------------------------------
  -- A module of f(input, target, options). A tensor among the options ("weight", "pos_weight") is a
  -- buffer, so that it moves with the module.
  local function loss(name, names, f)
    local class = Module.extend(name)
    function class:init(...)
      local o = read(name, names, "", ...)
      for key, value in pairs(o) do
        if flame.is_tensor(value) then self[key] = nn.Buffer(value) end
      end
      rawset(self, "options", o)
    end
    function class:forward(...)
      local o = {}
      for key, value in pairs(self.options) do
        o[key] = flame.is_tensor(value) and self[key] or value
      end
      local args = table.pack(...)
      args[args.n + 1] = o
      return f(table.unpack(args, 1, args.n + 1))
    end
    nn[name] = class
  end
  local function of(name) return function(...) return flame[name](...) end end
  loss("CrossEntropyLoss", "weight ignore_index reduction label_smoothing", of "cross_entropy")
  loss("NLLLoss", "weight ignore_index reduction", of "nll_loss")
  loss("MSELoss", "reduction", of "mse_loss")
  loss("L1Loss", "reduction", of "l1_loss")
  loss("BCELoss", "weight reduction", of "binary_cross_entropy")
  loss("BCEWithLogitsLoss", "weight reduction pos_weight", of "binary_cross_entropy_with_logits")
  loss("HuberLoss", "reduction delta", of "huber_loss")
  loss("SmoothL1Loss", "reduction beta", of "smooth_l1_loss")
  loss("KLDivLoss", "reduction log_target", of "kl_div")
  loss("HingeLoss", "margin reduction", of "hinge_loss")
  loss("TripletMarginLoss", "margin p eps swap reduction", of "triplet_margin_loss")
  loss("TripletMarginWithDistanceLoss", "distance_function margin swap reduction",
    of "triplet_margin_with_distance_loss")
  loss("SoftMarginLoss", "reduction", of "soft_margin_loss")
  loss("HingeEmbeddingLoss", "margin reduction", of "hinge_embedding_loss")
  loss("MarginRankingLoss", "margin reduction", of "margin_ranking_loss")
  loss("CosineEmbeddingLoss", "margin reduction", of "cosine_embedding_loss")
  loss("PoissonNLLLoss", "log_input full eps reduction", of "poisson_nll_loss")
  loss("GaussianNLLLoss", "full eps reduction", of "gaussian_nll_loss")
  loss("MultiMarginLoss", "p margin weight reduction", of "multi_margin_loss")
  loss("MultiLabelMarginLoss", "reduction", of "multilabel_margin_loss")
  loss("MultiLabelSoftMarginLoss", "weight reduction", of "multilabel_soft_margin_loss")
  loss("CTCLoss", "blank reduction zero_infinity", of "ctc_loss")

  --- Log-softmax of many classes, the frequent ones first (Grave, Joulin, Cissé, 2017). adaptive(x,
  --- target) gives the log-probability of each row's class, and minus their mean. The head holds
  --- the classes up to cutoffs[1] and a place for each cluster behind; the i-th cluster has a size
  --- smaller by div_value^i.
  nn.AdaptiveLogSoftmaxWithLoss = Module.extend("AdaptiveLogSoftmaxWithLoss")
  local Adaptive = nn.AdaptiveLogSoftmaxWithLoss
  function Adaptive:init(in_features, n_classes, cutoffs, ...)
    local name = "AdaptiveLogSoftmaxWithLoss"
    local o = read(name, "div_value head_bias device dtype", "", ...)
    positive(name, "in_features", in_features)
    positive(name, "n_classes", n_classes)
    if type(cutoffs) ~= "table" then
      fail("%s: cutoffs is a %s, need a list of classes", name, type(cutoffs))
    end
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
      { bias = o.head_bias or false, device = o.device, dtype = o.dtype })
    local tail, plain = {}, { bias = false, device = o.device, dtype = o.dtype }
    for i = 1, #ends - 1 do
      local size = in_features // (o.div_value or 4) ^ i | 0
      tail[i] = nn.Sequential { nn.Linear(in_features, size, plain),
        nn.Linear(size, ends[i + 1] - ends[i], plain) }
    end
    self.tail = nn.ModuleList(tail)
  end
  function Adaptive:forward(x, target)
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
  end
  --- Log-probabilities of all classes.
  function Adaptive:log_prob(x)
    local ends, head = self.cutoffs, self.head(x):log_softmax(2)
    local parts = { head:narrow(2, 1, ends[1]) }
    for i = 1, #ends - 1 do
      parts[i + 1] = self.tail[i](x):log_softmax(2) + head:narrow(2, ends[1] + i, 1)
    end
    return flame.cat(parts, 2)
  end
  --- The likeliest class of each row.
  function Adaptive:predict(x)
    if x.ndim == 1 then return self:log_prob(x:unsqueeze(1)):argmax() end
    return self:log_prob(x):argmax(2)
  end
end
