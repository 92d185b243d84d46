--- Containers and the most common layers. The file returns a function that adds them to flame.nn.
local flame = require "flame"

return function(nn, shared)
  local fail, positive, class, call, put = shared.fail, shared.positive, shared.class,
    shared.call, shared.put

  -- ---- containers ------------------------------------------------------------------------------

  --- Runs its modules in order: nn.Sequential{ a, b, c } or nn.Sequential(a, b, c). Functions may
  --- be among them.
  class("nn.Sequential(modules...: Module|fn)", function(self, ...)
    for i = 1, select("#", ...) do self[i] = (select(i, ...)) end
  end)
  --- Appends a module.
  put(nn.Sequential, "Sequential:append(module: Module|fn) -> self", function(self, module)
    self[#self + 1] = module
    return self
  end)
  function nn.Sequential:forward(...)
    local n = #self
    if n == 0 then return ... end
    local x = self[1](...)
    for i = 2, n do x = self[i](x) end
    return x
  end

  local function append(self, item)
    self[#self + 1] = item
    return self
  end
  local function append_all(self, list)
    for _, item in ipairs(list or {}) do self:append(item) end
    return self
  end
  --- A list of modules: nn.ModuleList{ a, b }; append, extend, insert; # and [] as usual.
  class("nn.ModuleList(modules?: Module[])", append_all)
  --- Appends a module.
  put(nn.ModuleList, "ModuleList:append(module: Module) -> self", append)
  --- Appends all modules of another list. (For other classes 'extend' makes a derived class.)
  put(nn.ModuleList, "ModuleList:extend(modules: Module[]) -> self", append_all)
  --- Inserts a module at a position; those from there on move up.
  put(nn.ModuleList, "ModuleList:insert(index: int, module: Module)", function(self, at, module)
    local n = #self
    if at < 1 or at > n + 1 then
      fail("ModuleList: index is %d, need 1 to %d", at, n + 1)
    end
    self:append(module)
    for i = #self, at + 1, -1 do rawset(self, i, rawget(self, i - 1)) end
    rawset(self, at, module)
  end)

  -- Assigns the items of t to self by name, in the order of the names; accept(x) checks each.
  local function named_items(self, t, accept, what)
    local keys = {}
    for key in pairs(t or {}) do keys[#keys + 1] = key end
    table.sort(keys)
    for _, key in ipairs(keys) do
      self[key] = accept(t[key]) or fail("%s: %s is a %s, need a %s", getmetatable(self).__name,
        tostring(key), type(t[key]), what)
    end
  end
  local function as_parameter(x)
    return shared.marked(x) and x or flame.is_tensor(x) and nn.Parameter(x)
  end
  --- Modules by name, in the order of the names: nn.ModuleDict{ a = …, b = … }.
  class("nn.ModuleDict(modules?: table)", function(self, t)
    named_items(self, t, function(x) return shared.is_module(x) and x end, "module")
  end)
  --- Parameters by name, in the order of the names.
  class("nn.ParameterDict(parameters?: table)",
    function(self, t) named_items(self, t, as_parameter, "Parameter") end)
  --- A list of parameters; append, # and [] as usual.
  class("nn.ParameterList(parameters?: T[])", append_all)
  --- Appends a parameter.
  put(nn.ParameterList, "ParameterList:append(parameter: T) -> self",
    function(self, x) return append(self, as_parameter(x)) end)

  -- ---- layers -----------------------------------------------------------------------------------

  --- y = x W^T + b; weight (out, in), bias (out). Both start uniform in +-1/sqrt(in).
  class([[nn.Linear(in_features: int, out_features: int, bias = true, device?: device,
    dtype?: dtype)]], function(self, inputs, outputs, bias, device, dtype)
    positive("Linear", "in_features", inputs)
    positive("Linear", "out_features", outputs)
    local bound, as = 1 / math.sqrt(inputs), { device = device, dtype = dtype }
    self.in_features, self.out_features = inputs, outputs
    self.weight = nn.Parameter(flame.uniform({ outputs, inputs }, -bound, bound, as))
    if bias then self.bias = nn.Parameter(flame.uniform({ outputs }, -bound, bound, as)) end
  end)
  call(nn.Linear, "(x: T) -> T",
    function(self, x) return flame.linear(x, self.weight, self.bias) end)
  function nn.Linear:extra()
    return ("in_features=%d, out_features=%d, bias=%s"):format(self.in_features, self.out_features,
      self.bias ~= nil)
  end

  -- Sets up the weight (n, d) of an embedding, with row k (padding_idx) at zero. kept: the options
  -- of the lookup that differ from their defaults.
  local function rows_of(self, name, n, d, k, kept, as)
    positive(name, "num_embeddings", n)
    positive(name, "embedding_dim", d)
    self.num_embeddings, self.embedding_dim, self.padding_idx = n, d, k
    self.weight = nn.Parameter(flame.normal({ n, d }, 0, 1, as))
    if k then
      if k == 0 or k < -n or k > n then fail("%s: padding_idx is %d, need 1 to %d", name, k, n) end
      flame.no_grad(function() self.weight[k] = 0 end)
    end
    kept.padding_idx = k
    rawset(self, "options", kept)
  end
  local function lookup(max_norm, norm_type, by_freq)
    return { max_norm = max_norm, norm_type = norm_type ~= 2 and norm_type or nil,
      scale_grad_by_freq = by_freq or nil }
  end

  --- Rows of weight (num_embeddings, embedding_dim) by ids from 1 to num_embeddings. It starts as
  --- standard normal; row padding_idx starts at zero and is not trained. sparse has no effect.
  class([[nn.Embedding(num_embeddings: int, embedding_dim: int, padding_idx?: int, max_norm?: num,
    norm_type = 2, scale_grad_by_freq = false, *, sparse = false, device?: device, dtype?: dtype)]],
    function(self, n, d, k, max_norm, norm_type, by_freq, _, device, dtype)
      rows_of(self, "Embedding", n, d, k, lookup(max_norm, norm_type, by_freq),
        { device = device, dtype = dtype })
    end)
  --- A layer with the given table, which is not trained unless freeze = false; the other options
  --- are those of the constructor.
  put(nn.Embedding, [[nn.Embedding.from_pretrained(embeddings: T, freeze = true, padding_idx?: int,
    max_norm?: num, norm_type = 2, scale_grad_by_freq = false, *, sparse = false) -> Embedding]],
    function(rows, freeze, k, max_norm, norm_type, by_freq)
      if rows.ndim ~= 2 then
        fail("Embedding.from_pretrained: embeddings has %d axes, need 2", rows.ndim)
      end
      local layer = nn.Embedding(rows:size(1), rows:size(2), k, max_norm, norm_type, by_freq,
        { dtype = rows.dtype, device = rows.device })
      flame.no_grad(function() layer.weight:copy_(rows) end)
      layer.weight:requires_grad_(not freeze)
      return layer
    end, "Embedding.from_pretrained")
  call(nn.Embedding, "(ids: T) -> T", function(self, ids)
    if next(self.options) == nil then return flame.embedding(ids, self.weight) end
    return flame.embedding(ids, self.weight, self.options)
  end)
  function nn.Embedding:extra()
    return ("%d, %d%s"):format(self.num_embeddings, self.embedding_dim,
      self.padding_idx and ", padding_idx=" .. self.padding_idx or "")
  end

  --- Sums, means or maxima of bags of rows: bag(ids[, offsets[, per_sample_weights]]). The table
  --- and its options are as in nn.Embedding.
  class([[nn.EmbeddingBag(num_embeddings: int, embedding_dim: int, max_norm?: num, norm_type = 2,
    scale_grad_by_freq = false, mode: "mean"|"sum"|"max" = "mean", *, padding_idx?: int,
    include_last_offset = false, sparse = false, device?: device, dtype?: dtype)]],
    function(self, n, d, max_norm, norm_type, by_freq, mode, k, last, _, device, dtype)
      local kept = lookup(max_norm, norm_type, by_freq)
      kept.mode, kept.include_last_offset = mode ~= "mean" and mode or nil, last or nil
      rows_of(self, "EmbeddingBag", n, d, k, kept, { device = device, dtype = dtype })
    end)
  call(nn.EmbeddingBag, "(ids: T, offsets?: T, per_sample_weights?: T) -> T",
    function(self, ids, offsets, weights)
      local o = {}
      for key, value in pairs(self.options) do o[key] = value end
      o.per_sample_weights = weights
      return flame.embedding_bag(ids, self.weight, offsets, o)
    end)
  function nn.EmbeddingBag:extra()
    return ("%d, %d, mode=%s"):format(self.num_embeddings, self.embedding_dim,
      self.options.mode or "mean")
  end

  --- Normalises over the last axes of the given shape; weight and bias of that shape, neither if
  --- affine or elementwise_affine is false.
  class([[nn.LayerNorm(normalized_shape: int|int[], eps = 1e-5, elementwise_affine = true,
    bias = true, *, affine = true, device?: device, dtype?: dtype)]],
    function(self, shape, eps, elementwise, bias, affine, device, dtype)
      if type(shape) == "number" then shape = { shape } end
      for i = 1, #shape do positive("LayerNorm", ("normalized_shape[%d]"):format(i), shape[i]) end
      rawset(self, "shape", shape)
      self.eps, self.elementwise_affine = eps, affine and elementwise
      if self.elementwise_affine then
        local as = { device = device, dtype = dtype }
        self.weight = nn.Parameter(flame.ones(shape, as))
        if bias then self.bias = nn.Parameter(flame.zeros(shape, as)) end
      end
    end)
  call(nn.LayerNorm, "(x: T) -> T", function(self, x)
    return x:layer_norm(self.shape, self.weight, self.bias, { eps = self.eps })
  end)
  function nn.LayerNorm:extra()
    return ("(%s), eps=%g, elementwise_affine=%s"):format(table.concat(self.shape, ", "), self.eps,
      self.elementwise_affine)
  end

  local function set_chance(self, p)
    if not (p >= 0 and p <= 1) then
      fail("%s: p = %g, need 0 <= p <= 1", getmetatable(self).__name, p)
    end
    self.p = p
  end
  --- Zeroes each value with probability p while training, and scales the others by 1 / (1 - p).
  --- inplace has no effect.
  class("nn.Dropout(p = 0.5, inplace = false)", set_chance)
  call(nn.Dropout, "(x: T) -> T", function(self, x)
    if not self.training or self.p == 0 then return x end
    return x:dropout(self.p)
  end)
  function nn.Dropout:extra() return ("p=%g"):format(self.p) end

  --- Dropout that keeps mean and variance of values after SELU.
  class("nn.AlphaDropout(p = 0.5, inplace = false)", set_chance, nn.Dropout)
  call(nn.AlphaDropout, "(x: T) -> T", function(self, x)
    return self.training and flame.alpha_dropout(x, self.p, true) or x
  end)
  --- AlphaDropout of whole channels (axis 2).
  class("nn.FeatureAlphaDropout(p = 0.5, inplace = false)", set_chance, nn.Dropout)
  call(nn.FeatureAlphaDropout, "(x: T) -> T", function(self, x)
    return self.training and flame.feature_alpha_dropout(x, self.p, true) or x
  end)
  for n = 1, 3 do
    --- Whole channels (axis 2) are zeroed with probability p while training.
    local made = class(("nn.Dropout%dd(p = 0.5, inplace = false)"):format(n), set_chance,
      nn.Dropout)
    local f = ("dropout%dd"):format(n)
    call(made, "(x: T) -> T", function(self, x)
      if not self.training or self.p == 0 then return x end
      return flame[f](x, self.p)
    end)
  end
end
