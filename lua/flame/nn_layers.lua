--- Containers and the layers that nearly every model has. Given the table of flame.nn, adds to it.
local flame = require "flame"

return function(nn, shared)
  local Module, fail, positive, read = nn.Module, shared.fail, shared.positive, shared.read
  local is_module, make_options = shared.is_module, shared.make_options

  -- ---- containers ------------------------------------------------------------------------------

  --- A table without other keys than 1 … n; nil is an empty one.
  local function need_list(name, list)
    if list == nil then return {} end
    local what = is_module(list) and "a module" or type(list)
    if what ~= "table" then fail("%s: need a list, got %s", name, what) end
    for key in pairs(list) do
      if math.type(key) ~= "integer" or key < 1 or key > #list then
        fail("%s: need a list, got a table with the key %s", name, tostring(key))
      end
    end
    return list
  end

  --- Runs its modules in order: nn.Sequential{ a, b, c } or nn.Sequential(a, b, c). Functions may
  --- stand among them.
  nn.Sequential = Module.extend("Sequential")
  function nn.Sequential:init(list, ...)
    if list == nil then list = {} end
    if is_module(list) or flame.internal.callable(list) then list = { list, ... }
    elseif select("#", ...) > 0 then fail("Sequential: a list of modules, or modules; not both") end
    for _, module in ipairs(need_list("Sequential", list)) do self:append(module) end
  end
  function nn.Sequential:append(module)
    if not is_module(module) and not flame.internal.callable(module) then
      fail("Sequential: item %d is a %s, need a module or a function", #self + 1, type(module))
    end
    self[#self + 1] = module
    return self
  end
  function nn.Sequential:forward(...)
    if #self == 0 then return ... end
    local x = self[1](...)
    for i = 2, #self do x = self[i](x) end
    return x
  end

  --- A list of modules: nn.ModuleList{ a, b }; append, extend, insert; # and [] as usual.
  nn.ModuleList = Module.extend("ModuleList")
  function nn.ModuleList:init(list)
    for _, module in ipairs(need_list("ModuleList", list)) do self:append(module) end
  end
  function nn.ModuleList:append(module)
    if not is_module(module) then
      fail("ModuleList: item %d is a %s, need a module", #self + 1, type(module))
    end
    self[#self + 1] = module
    return self
  end
  --- All of another list at the end. (The name is a class's maker elsewhere:
  --- lists make no classes.)
  function nn.ModuleList:extend(list)
    for _, module in ipairs(need_list("ModuleList", list)) do self:append(module) end
    return self
  end
  function nn.ModuleList:insert(at, module)
    self:append(module)
    for i = #self, at + 1, -1 do rawset(self, i, rawget(self, i - 1)) end
    rawset(self, at, module)
  end

  local function named_table(name, accept, what, make)
    local class = Module.extend(name)
    function class:init(t)
      local keys = {}
      if t ~= nil and type(t) ~= "table" then
        fail("%s: need a table of %ss, got a %s", name, what, type(t))
      end
      t = t or {}
      for key in pairs(t) do keys[#keys + 1] = key end
      table.sort(keys)
      for _, key in ipairs(keys) do
        local x = make and flame.is_tensor(t[key]) and not accept(t[key]) and make(t[key]) or t[key]
        if not accept(x) then
          fail("%s: %s is a %s, need a %s", name, tostring(key), type(t[key]), what)
        end
        self[key] = x
      end
    end
    nn[name] = class
  end
  --- Modules by name, in the order of the names: nn.ModuleDict{ a = …, b = … }.
  named_table("ModuleDict", is_module, "module")
  --- Parameters by name, and in a list.
  named_table("ParameterDict", shared.marked, "Parameter", nn.Parameter)
  nn.ParameterList = Module.extend("ParameterList")
  function nn.ParameterList:init(list)
    for _, x in ipairs(need_list("ParameterList", list)) do self:append(x) end
  end
  function nn.ParameterList:append(x)
    self[#self + 1] = shared.marked(x) and x or nn.Parameter(x)
    return self
  end

  -- ---- layers -----------------------------------------------------------------------------------

  --- y = x W^T + b; weight (out, in), bias (out). Both start uniform in +-1/sqrt(in).
  nn.Linear = Module.extend("Linear")
  function nn.Linear:init(inputs, outputs, ...)
    local o = read("Linear", "bias device dtype", "", ...)
    positive("Linear", "inputs", inputs)
    positive("Linear", "outputs", outputs)
    local bound = 1 / math.sqrt(inputs)
    self.in_features, self.out_features = inputs, outputs
    self.weight = nn.Parameter(flame.uniform({ outputs, inputs }, -bound, bound, make_options(o)))
    if o.bias ~= false then
      self.bias = nn.Parameter(flame.uniform({ outputs }, -bound, bound, make_options(o)))
    end
  end
  function nn.Linear:forward(x) return flame.linear(x, self.weight, self.bias) end
  function nn.Linear:extra()
    return ("in_features=%d, out_features=%d, bias=%s"):format(self.in_features, self.out_features,
      self.bias ~= nil)
  end

  -- Rows for ids: the options of the functions, and the row padding_idx at zero.
  local lookups = "max_norm norm_type scale_grad_by_freq"
  local function rows_of(self, name, n, d, o)
    positive(name, "n", n)
    positive(name, "d", d)
    self.num_embeddings, self.embedding_dim, self.padding_idx = n, d, o.padding_idx
    self.weight = nn.Parameter(flame.normal({ n, d }, 0, 1, make_options(o)))
    local k = o.padding_idx
    if k then
      if math.type(k) ~= "integer" or k == 0 or k < -n or k > n then
        fail("%s: padding_idx is %s, need 1 to %d", name, tostring(k), n)
      end
      flame.no_grad(function() self.weight[k] = 0 end)
    end
    local kept = { padding_idx = k }
    for key in lookups:gmatch("%S+") do kept[key] = o[key] end
    rawset(self, "options", kept)
  end

  --- Rows of a table by ids from 1 to n; weight (n, d), standard normal. The row padding_idx starts
  --- at zero and is not trained. {padding_idx =, max_norm =, norm_type = 2,
  --- scale_grad_by_freq = false}
  nn.Embedding = Module.extend("Embedding")
  function nn.Embedding:init(n, d, ...)
    rows_of(self, "Embedding", n, d,
      read("Embedding", "padding_idx " .. lookups, "sparse dtype device", ...))
  end
  --- A layer with the given table, which is not trained unless freeze = false; the other options
  --- are the constructor's.
  ---@param table_of_rows flame.Tensor
  ---@param ... any  freeze = true, padding_idx, max_norm, norm_type = 2, scale_grad_by_freq = false, or a table of them
  function nn.Embedding.from_pretrained(table_of_rows, ...)
    local o = read("Embedding.from_pretrained", "freeze padding_idx " .. lookups, "sparse", ...)
    local freeze = o.freeze
    flame.internal.need_tensor("Embedding.from_pretrained", "rows", table_of_rows)
    o.freeze, o.dtype, o.device = nil, table_of_rows.dtype, table_of_rows.device
    local layer = nn.Embedding(table_of_rows:size(1), table_of_rows:size(2), o)
    flame.no_grad(function() layer.weight:copy_(table_of_rows) end)
    layer.weight:requires_grad_(freeze == false)
    return layer
  end
  function nn.Embedding:forward(ids)
    if next(self.options) == nil then return flame.embedding(ids, self.weight) end
    return flame.embedding(ids, self.weight, self.options)
  end
  function nn.Embedding:extra()
    return ("%d, %d%s"):format(self.num_embeddings, self.embedding_dim,
      self.padding_idx and ", padding_idx=" .. self.padding_idx or "")
  end

  --- Sums, means (mode = "mean") or maxima of bags of rows: bag(ids[, offsets[,
  --- per_sample_weights]]).
  nn.EmbeddingBag = Module.extend("EmbeddingBag")
  function nn.EmbeddingBag:init(n, d, ...)
    local o = read("EmbeddingBag", lookups .. " mode",
      "padding_idx include_last_offset sparse dtype device", ...)
    rows_of(self, "EmbeddingBag", n, d, o)
    self.options.mode, self.options.include_last_offset = o.mode, o.include_last_offset
  end
  function nn.EmbeddingBag:forward(ids, offsets, weights)
    local o = {}
    for key, value in pairs(self.options) do o[key] = value end
    o.per_sample_weights = weights
    return flame.embedding_bag(ids, self.weight, offsets, o)
  end
  function nn.EmbeddingBag:extra()
    return ("%d, %d, mode=%s"):format(self.num_embeddings, self.embedding_dim,
      self.options.mode or "mean")
  end

  --- Normalises over the last axes of the given shape; weight and bias of that shape.
  nn.LayerNorm = Module.extend("LayerNorm")
  function nn.LayerNorm:init(shape, ...)
    local o = read("LayerNorm", "eps elementwise_affine bias", "affine dtype device", ...)
    if type(shape) == "number" then shape = { shape } end
    if type(shape) ~= "table" then
      fail("LayerNorm: shape is a %s, need a number or a list", type(shape))
    end
    for i = 1, #shape do positive("LayerNorm", "shape[" .. i .. "]", shape[i]) end
    rawset(self, "shape", shape)
    self.eps = o.eps or 1e-5
    self.elementwise_affine = o.affine ~= false and o.elementwise_affine ~= false
    if self.elementwise_affine then
      self.weight = nn.Parameter(flame.ones(shape, make_options(o)))
      if o.bias ~= false then self.bias = nn.Parameter(flame.zeros(shape, make_options(o))) end
    end
  end
  function nn.LayerNorm:forward(x)
    return x:layer_norm(self.shape, self.weight, self.bias, { eps = self.eps })
  end
  function nn.LayerNorm:extra()
    return ("(%s), eps=%g, elementwise_affine=%s"):format(table.concat(self.shape, ", "), self.eps,
      self.elementwise_affine)
  end

  --- Zeroes each value with probability p while training, and scales the others by 1 / (1 - p).
  nn.Dropout = Module.extend("Dropout")
  function nn.Dropout:init(...)
    local p = read(getmetatable(self).__name, "p inplace", "", ...).p or 0.5
    if type(p) ~= "number" or not (p >= 0 and p <= 1) then
      fail("%s: p = %s, need 0 <= p <= 1", getmetatable(self).__name, tostring(p))
    end
    self.p = p
  end
  function nn.Dropout:forward(x)
    if not self.training or self.p == 0 then return x end
    return x:dropout(self.p)
  end
  function nn.Dropout:extra() return ("p=%g"):format(self.p) end

  --- Dropout that keeps mean and variance of what SELU gives.
  nn.AlphaDropout = Module.extend("AlphaDropout", nn.Dropout)
  function nn.AlphaDropout:forward(x)
    return self.training and flame.alpha_dropout(x, self.p, true) or x
  end
  --- The same for whole channels (axis 2).
  nn.FeatureAlphaDropout = Module.extend("FeatureAlphaDropout", nn.Dropout)
  function nn.FeatureAlphaDropout:forward(x)
    return self.training and flame.feature_alpha_dropout(x, self.p, true) or x
  end
end
