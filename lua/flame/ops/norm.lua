--- Normalisation over axes, groups and the batch.
local flame = require "flame"
local internal = flame.internal
local arguments = require "flame.base.arguments"
local dtypes = require "flame.base.dtypes"
local fail, def = arguments.fail, arguments.def

local half = dtypes.half

-- PyTorch's default for eps.
local epsilon = dtypes.epsilon

--- x divided by its root mean square over the last axes, which have the shape normalized_shape,
--- times weight; eps is by default the epsilon of the dtype.
def("rms_norm(x: T, normalized_shape: int|int[], weight?: T|num, eps?: num) -> T @single",
  function(x, shape, w, eps)
    eps = eps or epsilon[x.dtype] or 1e-5
    if type(shape) ~= "table" then shape = { shape } end
    local axes = {}
    if #shape == 0 then
      fail("rms_norm", "normalized_shape is an empty list, need a size or a list of them")
    end
    for k = 1, #shape do
      axes[k] = -k
      if rawget(x.shape, x.ndim - #shape + k) ~= shape[k] then
        fail("rms_norm", "shape (%s) does not end in (%s)", table.concat(x.shape, ", "),
          table.concat(shape, ", "))
      end
    end
    local v = half[x.dtype] and x:float() or x
    local y = v * ((v * v):mean(axes, { keepdim = true }) + eps):rsqrt()
    if w then y = y * w end
    return half[x.dtype] and y:to(x.dtype) or y
  end)

--- x normalised over groups of channels (axis 2), then times weight plus bias.
def("group_norm(x: T, num_groups: int, weight?: T, bias?: T, eps = 1e-5) -> T @single",
  function(x, groups, w, b, eps) return internal.grouped_norm(x, groups, eps, w, b) end)

-- ---- norms over the batch -----------------------------------------------------------------------

local function wide(t) return t and half[t.dtype] and t:float() or t end

-- t of shape (channels), reshaped to broadcast along axis 2 of x; nil for nil.
local function by_channel(x, t)
  local channels = {}
  for d = 1, x.ndim do channels[d] = d == 2 and x.shape[2] or 1 end
  return t and t:reshape(channels)
end

-- Normalises x by the given mean and var (channels), at least in f32; the result has x's dtype.
local function by_running(x, mean, var, w, b, eps)
  local y = (wide(x) - by_channel(x, wide(mean))) * (by_channel(x, wide(var)) + eps):rsqrt()
  if w then y = y * by_channel(x, wide(w)) end
  if b then y = y + by_channel(x, wide(b)) end
  return half[x.dtype] and y:to(x.dtype) or y
end

-- Normalises x by its own mean and variance over 'axes'.
local function by_own(op, x, axes, w, b, eps)
  local y = internal.normalise(op, x, axes, eps, by_channel(x, w), by_channel(x, b))
  return half[x.dtype] and y:to(x.dtype) or y
end

-- Moves the running statistics towards those of x over 'axes', with n values per mean; read(m)
-- gives one value per channel.
local function move_running(x, axes, mean, var, momentum, n, read)
  if not mean and not var then return end
  flame.no_grad(function()
    local v = wide(x:detach())
    local m = v:mean(axes, { keepdim = true })
    if mean then mean:copy_(mean * (1 - momentum) + read(m) * momentum) end
    if not var then return end
    local unbiased = (v - m):square():mean(axes, { keepdim = true }) * (n / (n - 1))
    var:copy_(var * (1 - momentum) + read(unbiased) * momentum)
  end)
end

-- Checks that statistics and weights have a value for each channel.
local function need_channels(op, x, given)
  for name, v in pairs(given) do
    if v:numel() ~= x.shape[2] then
      fail(op, "%s has shape (%s), need (%d): one for each channel", name,
        table.concat(v.shape, ", "), x.shape[2])
    end
  end
end

--- (x - mean) / deviation, times weight, plus bias, per channel (axis 2).
--- Training uses the batch's statistics and moves the running ones in place.
def([[batch_norm(x: T, running_mean?: T, running_var?: T, weight?: T, bias?: T, training = false,
    momentum = 0.1, eps = 1e-5) -> T]], function(x, mean, var, w, b, training, momentum, eps)
  local op = "batch_norm"
  if x.ndim == 1 and x:numel() == 0 then return x:clone() end             -- as PyTorch
  if x.ndim < 2 then fail(op, "x has %d axes, need at least 2 (channels on axis 2)", x.ndim) end
  need_channels(op, x, { running_mean = mean, running_var = var, weight = w, bias = b })
  local axes = {}
  for d = 1, x.ndim do if d ~= 2 then axes[#axes + 1] = d end end
  if not training then
    if not mean or not var then
      fail(op, "running_mean and running_var are needed when training is false")
    end
    return by_running(x, mean, var, w, b, eps)
  end
  local n = x:numel() // math.max(x.shape[2], 1)
  if n == 1 then
    fail(op, "one value a channel, need more when training: x has shape (%s)",
      table.concat(x.shape, ", "))
  end
  move_running(x, axes, mean, var, momentum, n, function(m) return m:reshape(-1) end)
  return by_own(op, x, axes, w, b, eps)
end)

--- Like batch_norm, but with the mean and deviation of each channel of each sample.
def([[instance_norm(x: T, running_mean?: T, running_var?: T, weight?: T, bias?: T,
    use_input_stats = true, momentum = 0.1, eps = 1e-5) -> T @single]],
function(x, mean, var, w, b, use_input_stats, momentum, eps)
  local op = "instance_norm"
  if x.ndim < 3 then fail(op, "x has %d axes, need at least 3 (batch, channels, …)", x.ndim) end
  need_channels(op, x, { running_mean = mean, running_var = var, weight = w, bias = b })
  local axes = {}
  for d = 3, x.ndim do axes[#axes + 1] = d end
  if not use_input_stats then
    if not mean or not var then
      fail(op, "running_mean and running_var are needed when use_input_stats is false")
    end
    return by_running(x, mean, var, w, b, eps)
  end
  local n = x:numel() // math.max(x.shape[1] * x.shape[2], 1)
  if n == 1 then
    fail(op, "one value a channel, need more: x has shape (%s)", table.concat(x.shape, ", "))
  end
  move_running(x, axes, mean, var, momentum, n, function(m) return m:mean(1):reshape(-1) end)
  return by_own(op, x, axes, w, b, eps)
end)
