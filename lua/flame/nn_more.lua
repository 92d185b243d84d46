--- Layers beyond the first ones: norms with running statistics, more activations and losses,
-- attention, initialisers. Given the table of flame.nn, adds to it; layouts, defaults and
-- initialisation are PyTorch's.
local flame = require "flame"

return function(nn, positive, options_of)
  local Module = nn.Module

  -- ---- norms -------------------------------------------------------------------------------
  --- Root-mean-square norm over the last axes of the given shape; weight of that shape.
  nn.RMSNorm = Module.extend("RMSNorm")
  function nn.RMSNorm:init(shape, options)
    options = options_of("RMSNorm", options, { eps = true, affine = true })
    if type(shape) == "number" then shape = { shape } end
    rawset(self, "shape", shape)
    self.eps = options.eps or 1e-5
    if options.affine ~= false then self.weight = nn.Parameter(flame.ones(shape)) end
  end
  function nn.RMSNorm:forward(x) return x:rms_norm(self.shape, self.weight, { eps = self.eps }) end

  --- Normalises the channels (axis 2) in groups; weight and bias (channels).
  nn.GroupNorm = Module.extend("GroupNorm")
  function nn.GroupNorm:init(groups, channels, options)
    options = options_of("GroupNorm", options, { eps = true, affine = true })
    positive("GroupNorm", "groups", groups)
    positive("GroupNorm", "channels", channels)
    self.groups, self.eps = groups, options.eps or 1e-5
    if options.affine ~= false then
      self.weight, self.bias = nn.Parameter(flame.ones(channels)), nn.Parameter(flame.zeros(channels))
    end
  end
  function nn.GroupNorm:forward(x) return x:group_norm(self.groups, self.weight, self.bias, { eps = self.eps }) end

  local function batch_norm(name, low, high)
    local class = Module.extend(name)
    nn[name] = class
    function class:init(channels, options)
      options = options_of(name, options, { eps = true, momentum = true, affine = true, track_running_stats = true })
      positive(name, "channels", channels)
      self.eps, self.momentum = options.eps or 1e-5, options.momentum or 0.1
      if options.affine ~= false then
        self.weight, self.bias = nn.Parameter(flame.ones(channels)), nn.Parameter(flame.zeros(channels))
      end
      if options.track_running_stats ~= false then
        self.running_mean, self.running_var = nn.Buffer(flame.zeros(channels)), nn.Buffer(flame.ones(channels))
        self.num_batches_tracked = nn.Buffer(flame.zeros({}, { dtype = "i64" }))
      end
    end
    function class:forward(x)
      if x.ndim < low or x.ndim > high then error(("%s: x has %d axes, need %d%s"):format(name, x.ndim, low,
        high > low and " or " .. high or ""), 3) end
      if self.training and self.num_batches_tracked then flame.no_grad(function() self.num_batches_tracked:add_(1) end) end
      return x:batch_norm(self.running_mean, self.running_var, self.weight, self.bias,
        { training = self.training or self.running_mean == nil, momentum = self.momentum, eps = self.eps })
    end
  end
  batch_norm("BatchNorm1d", 2, 3)
  batch_norm("BatchNorm2d", 4, 4)

  -- ---- activations -----------------------------------------------------------------------------
  --- A module of flame[f]; the constructor's values follow x.
  local function activation(name, f)
    local class = Module.extend(name)
    function class:init(...) rawset(self, "given", table.pack(...)) end
    function class:forward(x) return flame[f](x, table.unpack(self.given, 1, self.given.n)) end
    nn[name] = class
  end
  for name, f in pairs { LeakyReLU = "leaky_relu", ELU = "elu", CELU = "celu", SELU = "selu", Mish = "mish", ReLU6 = "relu6",
    Hardtanh = "hardtanh", Hardsigmoid = "hardsigmoid", Hardswish = "hardswish", LogSigmoid = "logsigmoid",
    Softsign = "softsign" } do activation(name, f) end

  nn.LogSoftmax = Module.extend("LogSoftmax")
  function nn.LogSoftmax:init(axis) self.axis = axis or -1 end
  function nn.LogSoftmax:forward(x) return x:log_softmax(self.axis) end

  -- ---- losses --------------------------------------------------------------------------------------
  local function loss(name, f)
    local class = Module.extend(name)
    function class:init(options) rawset(self, "options", options or {}) end
    function class:forward(input, target) return flame[f](input, target, self.options) end
    nn[name] = class
  end
  for name, f in pairs { NLLLoss = "nll_loss", BCELoss = "binary_cross_entropy", BCEWithLogitsLoss = "binary_cross_entropy_with_logits",
    HuberLoss = "huber_loss", SmoothL1Loss = "smooth_l1_loss", KLDivLoss = "kl_div" } do loss(name, f) end

  -- ---- products ----------------------------------------------------------------------------------------
  --- y[o] = x1 W[o] x2 + b[o]; weight (out, in1, in2), uniform in +-1/sqrt(in1).
  nn.Bilinear = Module.extend("Bilinear")
  function nn.Bilinear:init(in1, in2, outputs, options)
    options = options_of("Bilinear", options, { bias = true })
    positive("Bilinear", "in1", in1)
    positive("Bilinear", "in2", in2)
    positive("Bilinear", "outputs", outputs)
    local bound = 1 / math.sqrt(in1)
    self.weight = nn.Parameter(flame.uniform({ outputs, in1, in2 }, -bound, bound))
    if options.bias ~= false then self.bias = nn.Parameter(flame.uniform({ outputs }, -bound, bound)) end
  end
  function nn.Bilinear:forward(x, y)
    local z = flame.einsum("ni,oij,nj->no", x, self.weight, y)
    return self.bias and z + self.bias or z
  end

  --- Attention over (batch, time, d) with PyTorch's layout: in_proj_weight (3 d, d). q alone attends to
  --- itself. Options of a call: {is_causal, attn_mask}.
  nn.MultiheadAttention = Module.extend("MultiheadAttention")
  function nn.MultiheadAttention:init(d, heads, options)
    options = options_of("MultiheadAttention", options, { dropout = true, bias = true })
    positive("MultiheadAttention", "d", d)
    positive("MultiheadAttention", "heads", heads)
    if d % heads ~= 0 then error(("MultiheadAttention: %d features do not split into %d heads"):format(d, heads), 3) end
    self.d, self.heads, self.dropout = d, heads, options.dropout or 0
    self.in_proj_weight = nn.Parameter(nn.init.xavier_uniform(flame.empty(3 * d, d)))
    if options.bias ~= false then self.in_proj_bias = nn.Parameter(flame.zeros(3 * d)) end
    self.out_proj = nn.Linear(d, d, { bias = options.bias })
    if self.out_proj.bias then nn.init.zeros(self.out_proj.bias) end
  end
  function nn.MultiheadAttention:forward(q, k, v, o)
    if type(k) == "table" then k, o = nil, k end
    k = k or q
    v = v or k
    o = o or {}
    local d, h = self.d, self.heads
    local function project(x, i)
      local w, b = self.in_proj_weight:narrow(1, (i - 1) * d + 1, d), self.in_proj_bias
      local y = flame.linear(x, w, b and b:narrow(1, (i - 1) * d + 1, d))
      return y:reshape(x:size(1), x:size(2), h, d // h):transpose(2, 3)
    end
    local y = flame.scaled_dot_product_attention(project(q, 1), project(k, 2), project(v, 3), { is_causal = o.is_causal,
      attn_mask = o.attn_mask, dropout_p = self.training and self.dropout or 0 })
    return self.out_proj(y:transpose(2, 3):reshape(q:size(1), q:size(2), d))
  end

  --- x + attention(norm(x)), then x + mlp(norm(x)) with a hidden layer of 4 d and GELU.
  nn.TransformerBlock = Module.extend("TransformerBlock")
  function nn.TransformerBlock:init(d, heads, options)
    options = options_of("TransformerBlock", options, { dropout = true, bias = true, causal = true, hidden = true })
    local hidden = options.hidden or 4 * d
    rawset(self, "causal", options.causal ~= false)
    self.norm1 = nn.LayerNorm(d)
    self.attention = nn.MultiheadAttention(d, heads, { dropout = options.dropout, bias = options.bias })
    self.norm2 = nn.LayerNorm(d)
    self.mlp = nn.Sequential { nn.Linear(d, hidden, { bias = options.bias }), nn.GELU(), nn.Linear(hidden, d, { bias = options.bias }),
      nn.Dropout(options.dropout or 0) }
  end
  function nn.TransformerBlock:forward(x)
    x = x + self.attention(self.norm1(x), { is_causal = self.causal })
    return x + self.mlp(self.norm2(x))
  end

  -- ---- initialisation ------------------------------------------------------------------------------------
  local init = nn.init
  local function fans(x)
    local s, field = x.shape, 1
    if #s < 2 then error("init: fan in and fan out need at least two axes", 3) end
    for i = 3, #s do field = field * s[i] end
    return s[2] * field, s[1] * field
  end
  --- Glorot and Bengio 2010: normal with variance 2 / (fan in + fan out).
  function init.xavier_normal(x, gain)
    local fan_in, fan_out = fans(x)
    return init.normal(x, 0, (gain or 1) * math.sqrt(2 / (fan_in + fan_out)))
  end
  --- He et al. 2015: uniform with variance 2 / fan in.
  function init.kaiming_uniform(x)
    local bound = math.sqrt(6 / (fans(x)))
    return init.uniform(x, -bound, bound)
  end
  --- Normal between a and b (default -2 and 2 deviations from 0), by the inverse of its distribution.
  function init.trunc_normal(x, mean, std, a, b)
    mean, std = mean or 0, std or 1
    a, b = a or -2, b or 2
    local function below(v) return flame.tensor((v - mean) / std / math.sqrt(2), { dtype = "f64" }):erf():item() end
    local low, high = below(a), below(b)
    return flame.no_grad(function()
      local u = flame.uniform(x.shape, low, high, { dtype = "f64", device = x.device })
      return x:copy_((u:erfinv() * (std * math.sqrt(2)) + mean):clamp(a, b))
    end)
  end
  --- Ones on the diagonal.
  function init.eye(x)
    return flame.no_grad(function() return x:copy_(flame.eye(x:size(1), x:size(2), { dtype = x.dtype, device = x.device })) end)
  end

  -- ---- vectors of parameters ---------------------------------------------------------------------------------
  nn.utils = {}
  --- All values in one vector, in the list's order.
  function nn.utils.parameters_to_vector(params)
    local flat = {}
    for i, p in ipairs(params) do flat[i] = p:reshape(-1) end
    return flame.cat(flat, 1)
  end
  --- The way back, into the same handles.
  function nn.utils.vector_to_parameters(vector, params)
    local n, at = 0, 1
    for _, p in ipairs(params) do n = n + p:numel() end
    if vector:numel() ~= n then error(("vector_to_parameters: %d values, the parameters have %d"):format(vector:numel(), n), 2) end
    flame.no_grad(function()
      for _, p in ipairs(params) do
        p:copy_(vector:narrow(1, at, p:numel()):reshape(p.shape))
        at = at + p:numel()
      end
    end)
  end
end
