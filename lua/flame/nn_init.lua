--- nn.init and nn.utils. Each function of nn.init fills a tensor in place, outside the tape, and
-- returns it; PyTorch's names with a trailing underscore are the same functions. Given the table
-- of flame.nn, adds to it.
local flame = require "flame"

return function(nn, shared)
  local fail = shared.fail
  local init = {}
  nn.init = init

  local function like(x) return { dtype = x.dtype, device = x.device } end

  local function rewrite(name, x, make)
    if not flame.is_tensor(x) then fail("init.%s: need a tensor, got %s", name, type(x)) end
    return flame.no_grad(function() return x:copy_(make(x)) end)
  end

  -- Arguments by position in the order of 'names', or in one table.
  local function given(name, names, defaults, ...)
    local o = flame.internal.defaults("init." .. name, names, defaults, ...)
    for key, default in pairs(defaults) do
      if type(default) == "number" then flame.internal.need_number("init." .. name, key, o[key]) end
    end
    return o
  end

  function init.uniform(x, ...)
    local o = given("uniform", { "a", "b" }, { a = 0, b = 1 }, ...)
    return rewrite("uniform", x, function() return flame.uniform(x.shape, o.a, o.b, like(x)) end)
  end
  function init.normal(x, ...)
    local o = given("normal", { "mean", "std" }, { mean = 0, std = 1 }, ...)
    return rewrite("normal", x, function() return flame.normal(x.shape, o.mean, o.std, like(x)) end)
  end
  function init.constant(x, value)
    return rewrite("constant", x, function() return flame.full(x.shape, value, like(x)) end)
  end
  function init.zeros(x) return init.constant(x, 0) end
  function init.ones(x) return init.constant(x, 1) end

  --- Ones on the diagonal of a matrix.
  function init.eye(x)
    return rewrite("eye", x, function()
      if x.ndim ~= 2 then fail("init.eye: x has %d axes, need 2", x.ndim) end
      return flame.eye(x:size(1), x:size(2), like(x))
    end)
  end

  --- A convolution that passes its input on: weight (out, in, …) with ones in the middle.
  function init.dirac(x, groups)
    groups = flame.internal.need_int("init.dirac", "groups", groups or 1)
    return rewrite("dirac", x, function()
      if x.ndim < 3 then fail("init.dirac: x has %d axes, need 3 to 5", x.ndim) end
      if groups < 1 or groups > math.max(x:size(1), 1) or x:size(1) % groups ~= 0 then
        fail("init.dirac: groups = %d, which does not divide %d outputs", groups, x:size(1))
      end
      local y, each = flame.zeros(x.shape, like(x)), x:size(1) // groups
      for g = 0, groups - 1 do
        for d = 1, math.min(each, x:size(2)) do
          local at = { g * each + d, d }
          for k = 3, x.ndim do at[k] = x:size(k) // 2 + 1 end
          y[at] = 1
        end
      end
      return y
    end)
  end

  local function tensors(op, list)
    if type(list) ~= "table" or #list == 0 then fail("%s: need a list of tensors, got %s", op,
      type(list) == "table" and "an empty one" or type(list)) end
    for i, x in ipairs(list) do flame.internal.need_tensor(op, ("list[%d]"):format(i), x) end
    return list
  end

  -- Number of inputs and outputs of a weight (out, in, …).
  local function fans(name, x)
    flame.internal.need_tensor("init." .. name, "x", x)
    local s, field = x.shape, 1
    if #s < 2 then
      fail("init.%s: fan in and fan out need at least two axes, x has %d", name, #s)
    end
    for i = 3, #s do field = field * s[i] end
    return s[2] * field, s[1] * field
  end

  local gains = { linear = 1, conv1d = 1, conv2d = 1, conv3d = 1, conv_transpose1d = 1,
    conv_transpose2d = 1, conv_transpose3d = 1, sigmoid = 1, tanh = 5 / 3, relu = math.sqrt(2),
    selu = 3 / 4 }
  --- The factor by which an activation shrinks, to be made good by the weights before it.
  function init.calculate_gain(nonlinearity, slope)
    if nonlinearity == "leaky_relu" then return math.sqrt(2 / (1 + (slope or 0.01) ^ 2)) end
    return gains[nonlinearity]
      or fail("init.calculate_gain: there is no nonlinearity %s", tostring(nonlinearity))
  end

  --- Glorot and Bengio 2010: variance 2 / (fan in + fan out).
  function init.xavier_uniform(x, ...)
    local fan_in, fan_out = fans("xavier_uniform", x)
    local bound = given("xavier_uniform", { "gain" }, { gain = 1 },
      ...).gain * math.sqrt(6 / (fan_in + fan_out))
    return init.uniform(x, -bound, bound)
  end
  function init.xavier_normal(x, ...)
    local fan_in, fan_out = fans("xavier_normal", x)
    return init.normal(x, 0,
      given("xavier_normal", { "gain" }, { gain = 1 },
        ...).gain * math.sqrt(2 / (fan_in + fan_out)))
  end

  -- He's deviation: the gain of the activation over the root of the fan.
  local function kaiming(name, x, ...)
    local o = given(name, { "a", "mode", "nonlinearity" },
      { a = 0, mode = "fan_in", nonlinearity = "leaky_relu" }, ...)
    if o.mode ~= "fan_in" and o.mode ~= "fan_out" then
      fail('init.%s: mode is %s, need "fan_in" or "fan_out"', name, tostring(o.mode))
    end
    local fan_in, fan_out = fans(name, x)
    return init.calculate_gain(o.nonlinearity,
      o.a) / math.sqrt(o.mode == "fan_in" and fan_in or fan_out)
  end
  --- He et al. 2015: variance 2 / fan in for a ReLU; {a = slope, mode =
  --- "fan_in", nonlinearity = "leaky_relu"}.
  function init.kaiming_uniform(x, ...)
    local bound = math.sqrt(3) * kaiming("kaiming_uniform", x, ...)
    return init.uniform(x, -bound, bound)
  end
  function init.kaiming_normal(x, ...)
    return init.normal(x, 0, kaiming("kaiming_normal", x, ...))
  end

  --- Normal between a and b, by the inverse of its distribution.
  function init.trunc_normal(x, ...)
    local o = given("trunc_normal", { "mean", "std", "a", "b" },
      { mean = 0, std = 1, a = -2, b = 2 }, ...)
    local function below(v)
      return flame.tensor((v - o.mean) / o.std / math.sqrt(2),
        { dtype = "f64", device = "cpu" }):erf():item()
    end
    return rewrite("trunc_normal", x, function()
      local u = flame.uniform(x.shape, below(o.a), below(o.b), { dtype = "f64", device = x.device })
      return (u:erfinv() * (o.std * math.sqrt(2)) + o.mean):clamp(o.a, o.b)
    end)
  end

  --- Saxe et al. 2013: a matrix whose rows or columns are orthonormal; axes
  --- from the second on count as one.
  function init.orthogonal(x, ...)
    local gain = given("orthogonal", { "gain" }, { gain = 1 }, ...).gain
    return rewrite("orthogonal", x, function()
      if x.ndim < 2 then fail("init.orthogonal: x has %d axes, need at least 2", x.ndim) end
      local rows = x:size(1)
      local columns = x:numel() // math.max(rows, 1)
      local long, short = math.max(rows, columns), math.min(rows, columns)
      local q, r = flame.qr(
        flame.normal({ long, short }, 0, 1,
          { dtype = x.dtype == "f64" and "f64" or "f32", device = x.device }))
      q = q * r:diagonal():sign()                      -- so that the distribution is uniform
      return ((rows < columns and q:t() or q) * gain):reshape(x.shape):to(x.dtype)
    end)
  end

  --- Normal, with a part of each column set to 0.
  function init.sparse(x, ...)
    local o = given("sparse", { "sparsity", "std" }, { sparsity = 0.1, std = 0.01 }, ...)
    return rewrite("sparse", x, function()
      local rows, columns = x:size(1), x:size(2)
      local y = flame.normal({ rows, columns }, 0, o.std, like(x))
      local rank = flame.rand(rows, columns, { device = x.device }):argsort(1):argsort(1)
      return y:masked_fill(rank:le(math.ceil(o.sparsity * rows)), 0)
    end)
  end

  local names = {}
  for name in pairs(init) do names[#names + 1] = name end
  for _, name in ipairs(names) do
    if name ~= "calculate_gain" then init[name .. "_"] = init[name] end
  end

  -- ---- utils -----------------------------------------------------------------------------------
  local utils = {}
  -- PyTorch's places for the same functions
  nn.utils, utils.rnn, nn.functional = utils, utils, flame

  --- All values in one vector, in the list's order.
  ---@param params flame.Tensor[]
  function utils.parameters_to_vector(params)
    local flat = {}
    for i, p in ipairs(tensors("parameters_to_vector", params)) do flat[i] = p:reshape(-1) end
    return flame.cat(flat, 1)
  end

  --- The way back, into the same handles.
  function utils.vector_to_parameters(vector, params)
    local n, at = 0, 1
    flame.internal.need_tensor("vector_to_parameters", "vector", vector)
    for _, p in ipairs(tensors("vector_to_parameters", params)) do n = n + p:numel() end
    if vector:numel() ~= n then
      fail("vector_to_parameters: %d values, the parameters have %d", vector:numel(), n)
    end
    flame.no_grad(function()
      for _, p in ipairs(params) do
        p:copy_(vector:narrow(1, at, p:numel()):reshape(p.shape))
        at = at + p:numel()
      end
    end)
  end

  --- As optim.clip_grad_norm and optim.clip_grad_value.
  function utils.clip_grad_norm(...) return require("flame.optim").clip_grad_norm(...) end
  function utils.clip_grad_value(...) return require("flame.optim").clip_grad_value(...) end
  utils.clip_grad_norm_, utils.clip_grad_value_ = utils.clip_grad_norm, utils.clip_grad_value

  --- Sequences (t, …) of different lengths in one tensor, padded at the end.
  ---@param o table?  {batch_first = false, padding_value = 0}
  function utils.pad_sequence(list, ...)
    local o = flame.internal.defaults("pad_sequence", { "batch_first", "padding_value" },
      { batch_first = false, padding_value = 0 }, ...)
    tensors("pad_sequence", list)
    local longest, padded = 0, {}
    for _, x in ipairs(list) do longest = math.max(longest, x:size(1)) end
    for i, x in ipairs(list) do
      local pairs_from_last = {}
      for k = 1, 2 * x.ndim do pairs_from_last[k] = k == 2 * x.ndim and longest - x:size(1) or 0 end
      padded[i] = x:pad(pairs_from_last, { value = o.padding_value })
    end
    return flame.stack(padded, o.batch_first and 1 or 2)
  end
end
