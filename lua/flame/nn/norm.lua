--- Normalisation layers. The file returns a function that adds them to flame.nn; layouts, defaults
-- and initialisation are PyTorch's.
local flame = require "flame"
local dtypes = require "flame.base.dtypes"

return function(nn, shared)
  local fail, positive, class, call = shared.fail, shared.positive, shared.class, shared.call

  -- ---- norms -------------------------------------------------------------------------------
  -- By dtype, the distance from 1 to the next number: the default eps of rms_norm.
  local epsilon = dtypes.epsilon

  --- Root-mean-square norm over the last axes of the given shape; weight of that shape.
  --- eps is by default the machine epsilon of x's dtype. There is no weight if affine or
  --- elementwise_affine is false.
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

  -- Makes the class of a norm with statistics for each channel (batch_norm, instance_norm) for
  -- inputs of 'low' to 'high' axes; run(self, x, momentum) computes it. track: are batches counted?
  -- If so, the statistics of a module without a momentum are the mean over all batches; if not,
  -- they stay as they are.
  local function channel_norm(text, low, high, track, run)
    local name = text:match("%.(%w+)%(")
    local made = class(text, function(self, channels, eps, momentum, affine, tracks, device, dtype)
      local as = { device = device, dtype = dtype }
      positive(name, "num_features", channels)
      self.num_features, self.eps = channels, eps
      self.momentum = momentum or false
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
      if x:size(2) ~= self.num_features then
        fail("%s: x has %d channels, need %d", name, x:size(2), self.num_features)
      end
      local momentum, count = self.momentum, track and self.training and self.num_batches_tracked
      if count and not momentum then
        flame.eval(x)                    -- raises if x's values fail: then the batch is not counted
        momentum = 1 / (count:item() + 1)
      end
      local y = run(self, x, momentum or 0)
      if count then flame.no_grad(count.add_, count, 1) end
      return y
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
    --- batch_norm with running statistics; momentum = false: their mean over all batches so far.
    channel_norm(([[nn.BatchNorm%dd(num_features: int, eps = 1e-5, momentum?: num = 0.1,
      affine = true, track_running_stats = true, device?: device, dtype?: dtype)]]):format(n),
      n == 1 and 2 or n + 2, n + 2, true, batch_norm)
    --- instance_norm, with weights if affine is true, and running statistics if track_running_stats
    --- is; momentum = false leaves these as they are.
    channel_norm(([[nn.InstanceNorm%dd(num_features: int, eps = 1e-5, momentum?: num = 0.1,
      affine = false, track_running_stats = false, device?: device, dtype?: dtype)]]):format(n),
      n + 2, n + 2, false, instance_norm)
  end
end
