--- nn.init and nn.utils. Each function of nn.init fills a tensor in place, outside the tape, and
-- returns it; PyTorch's names with a trailing underscore are the same functions. The file returns a
-- function that adds them to flame.nn.
local flame = require "flame"

return function(nn, shared)
  local fail, put = shared.fail, shared.put
  local init = {}
  nn.init = init

  local function like(x) return { dtype = x.dtype, device = x.device } end

  local function rewrite(x, make)
    return flame.no_grad(function() return x:copy_(make(x)) end)
  end

  -- Defines a function of nn.init, also under its name with an underscore.
  local function def(text, f)
    local name = text:match("^[%w_]+")
    put(init, "nn.init." .. text, f, "init." .. name)
    init[name .. "_"] = init[name]
  end

  --- Uniform numbers in [a, b).
  def("uniform(x: T, a = 0, b = 1) -> T", function(x, a, b)
    return rewrite(x, function() return flame.uniform(x.shape, a, b, like(x)) end)
  end)
  --- Normal numbers.
  def("normal(x: T, mean = 0, std = 1) -> T", function(x, mean, std)
    return rewrite(x, function() return flame.normal(x.shape, mean, std, like(x)) end)
  end)
  --- One value everywhere.
  def("constant(x: T, val: num|bool) -> T", function(x, value)
    return rewrite(x, function() return flame.full(x.shape, value, like(x)) end)
  end)
  --- Zeros.
  def("zeros(x: T) -> T", function(x) return init.constant(x, 0) end)
  --- Ones.
  def("ones(x: T) -> T", function(x) return init.constant(x, 1) end)

  --- Ones on the diagonal of a matrix, zeros elsewhere.
  def("eye(x: T) -> T", function(x)
    return rewrite(x, function()
      if x.ndim ~= 2 then fail("init.eye: x has %d axes, need 2", x.ndim) end
      return flame.eye(x:size(1), x:size(2), like(x))
    end)
  end)

  --- A convolution that copies its input: weight (out, in, …) with ones in the middle.
  def("dirac(x: T, groups: int = 1) -> T", function(x, groups)
    return rewrite(x, function()
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
  end)

  local function some(op, list)
    if #list == 0 then fail("%s: need a list of tensors, got an empty one", op) end
    return list
  end

  -- Number of inputs and outputs of a weight (out, in, …).
  local function fans(name, x)
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
  --- The factor for the weights before an activation that makes up for its shrinking. param is the
  --- slope of leaky_relu.
  put(init, "nn.init.calculate_gain(nonlinearity: str, param = 0.01) -> num",
    function(nonlinearity, slope)
      if nonlinearity == "leaky_relu" then return math.sqrt(2 / (1 + slope ^ 2)) end
      return gains[nonlinearity]
        or fail("init.calculate_gain: there is no nonlinearity %s", nonlinearity)
    end, "init.calculate_gain")

  --- Uniform numbers of mean 0 and standard deviation gain sqrt(2 / (fan in + fan out)): Glorot and
  --- Bengio 2010.
  def("xavier_uniform(x: T, gain = 1) -> T", function(x, gain)
    local fan_in, fan_out = fans("xavier_uniform", x)
    local bound = gain * math.sqrt(6 / (fan_in + fan_out))
    return init.uniform(x, -bound, bound)
  end)
  --- Normal numbers of mean 0 and standard deviation gain sqrt(2 / (fan in + fan out)): Glorot and
  --- Bengio 2010.
  def("xavier_normal(x: T, gain = 1) -> T", function(x, gain)
    local fan_in, fan_out = fans("xavier_normal", x)
    return init.normal(x, 0, gain * math.sqrt(2 / (fan_in + fan_out)))
  end)

  -- The standard deviation of He et al.: the activation's gain divided by the root of the fan.
  local function kaiming(name, x, slope, mode, nonlinearity)
    local fan_in, fan_out = fans(name, x)
    return init.calculate_gain(nonlinearity, slope)
      / math.sqrt(mode == "fan_in" and fan_in or fan_out)
  end
  --- He et al. 2015: variance 2 / fan for a ReLU, uniform; a is the slope of leaky_relu.
  def([[kaiming_uniform(x: T, a = 0, mode: "fan_in"|"fan_out" = "fan_in",
    nonlinearity = "leaky_relu") -> T]], function(x, ...)
    local bound = math.sqrt(3) * kaiming("kaiming_uniform", x, ...)
    return init.uniform(x, -bound, bound)
  end)
  --- He et al. 2015: variance 2 / fan for a ReLU, normal; a is the slope of leaky_relu.
  def([[kaiming_normal(x: T, a = 0, mode: "fan_in"|"fan_out" = "fan_in",
    nonlinearity = "leaky_relu") -> T]],
    function(x, ...) return init.normal(x, 0, kaiming("kaiming_normal", x, ...)) end)

  --- Normal numbers limited to a … b, by the inverse of the distribution function.
  def("trunc_normal(x: T, mean = 0, std = 1, a = -2, b = 2) -> T", function(x, mean, std, a, b)
    local function below(v)
      return flame.tensor((v - mean) / std / math.sqrt(2),
        { dtype = "f64", device = "cpu" }):erf():item()
    end
    return rewrite(x, function()
      local u = flame.uniform(x.shape, below(a), below(b), { dtype = "f64", device = x.device })
      return (u:erfinv() * (std * math.sqrt(2)) + mean):clamp(a, b)
    end)
  end)

  --- Saxe et al. 2013: a matrix with orthonormal rows or columns; axes from the second on count as
  --- one.
  def("orthogonal(x: T, gain = 1) -> T", function(x, gain)
    return rewrite(x, function()
      if x.ndim < 2 then fail("init.orthogonal: x has %d axes, need at least 2", x.ndim) end
      local rows = x:size(1)
      local columns = x:numel() // math.max(rows, 1)
      local long, short = math.max(rows, columns), math.min(rows, columns)
      local q, r = flame.qr(
        flame.normal({ long, short }, 0, 1,
          { dtype = x.dtype == "f64" and "f64" or "f32", device = x.device }))
      q = q * r:diagonal():sign()                      -- makes the distribution uniform
      return ((rows < columns and q:t() or q) * gain):reshape(x.shape):to(x.dtype)
    end)
  end)

  --- A matrix of normal numbers with deviation std; in each column a part 'sparsity' of the
  --- elements, rounded up and at random places, is 0.
  def("sparse(x: T, sparsity = 0.1, std = 0.01) -> T", function(x, sparsity, std)
    return rewrite(x, function()
      if x.ndim ~= 2 then fail("init.sparse: x has %d axes, need 2", x.ndim) end
      local rows, columns = x:size(1), x:size(2)
      local y = flame.normal({ rows, columns }, 0, std, like(x))
      local rank = flame.rand(rows, columns, { device = x.device }):argsort(1):argsort(1)
      return y:masked_fill(rank:le(math.ceil(sparsity * rows)), 0)
    end)
  end)

  -- ---- utils -----------------------------------------------------------------------------------
  local utils = {}
  -- PyTorch's places for the same functions
  nn.utils, utils.rnn = utils, utils
  nn.functional = setmetatable({}, { __newindex = flame,
    __index = function(_, name) return flame[name == "unfold" and "im2col" or name] end })

  --- The values of all parameters in one vector, in the list's order.
  put(utils, "nn.utils.parameters_to_vector(parameters: T[]) -> T", function(params)
    local flat = {}
    for i, p in ipairs(some("parameters_to_vector", params)) do flat[i] = p:reshape(-1) end
    return flame.cat(flat, 1)
  end)

  --- The inverse of parameters_to_vector: writes the vector's values into the parameters.
  put(utils, "nn.utils.vector_to_parameters(vec: T, parameters: T[])", function(vector, params)
    local n, at = 0, 1
    for _, p in ipairs(some("vector_to_parameters", params)) do n = n + p:numel() end
    if vector:numel() ~= n then
      fail("vector_to_parameters: %d values, the parameters have %d", vector:numel(), n)
    end
    flame.no_grad(function()
      for _, p in ipairs(params) do
        p:copy_(vector:narrow(1, at, p:numel()):reshape(p.shape))
        at = at + p:numel()
      end
    end)
  end)

  --- As optim.clip_grad_norm.
  put(utils, [[nn.utils.clip_grad_norm(parameters: T|T[], max_norm: num|T, norm_type = 2,
    error_if_nonfinite = false, *, foreach?: bool) -> T]],
    function(...) return require("flame.optim").clip_grad_norm(...) end)
  --- As optim.clip_grad_value.
  put(utils, "nn.utils.clip_grad_value(parameters: T|T[], clip_value: num, *, foreach?: bool)",
    function(...) return require("flame.optim").clip_grad_value(...) end)
  utils.clip_grad_norm_, utils.clip_grad_value_ = utils.clip_grad_norm, utils.clip_grad_value

  --- Sequences (t, …) of different lengths in one tensor, padded at the end to the longest:
  --- (longest, n, …), or (n, longest, …) with batch_first.
  put(utils, "nn.utils.pad_sequence(sequences: T[], batch_first = false, padding_value = 0) -> T",
    function(list, batch_first, padding_value)
    some("pad_sequence", list)
    local longest, padded = 0, {}
    for _, x in ipairs(list) do longest = math.max(longest, x:size(1)) end
    for i, x in ipairs(list) do
      local pairs_from_last = {}
      for k = 1, 2 * x.ndim do pairs_from_last[k] = k == 2 * x.ndim and longest - x:size(1) or 0 end
      padded[i] = x:pad(pairs_from_last, { value = padding_value })
    end
    return flame.stack(padded, batch_first and 1 or 2)
  end)
end
