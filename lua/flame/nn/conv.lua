--- Convolutions, pooling, padding and resampling as modules, with PyTorch's arguments, layouts and
-- initialisation. The file returns a function that adds them to flame.nn.
local flame = require "flame"

return function(nn, shared)
  local fail, positive, class, call = shared.fail, shared.positive, shared.class, shared.call

  -- v as a list of n positive integers: a number or a list of one is for all. Raises for others.
  local function sizes(name, what, v, n)
    local list = {}
    if type(v) == "table" and #v ~= n and #v ~= 1 then
      fail("%s: %s has %d numbers, need 1 or %d", name, what, #v, n)
    end
    for i = 1, n do
      local one = v
      if type(v) == "table" then one = v[#v == 1 and 1 or i] end
      if type(one) ~= "number" or math.tointeger(one) == nil or one < 1 then
        fail("%s: %s is %s, need positive integers", name, what, tostring(one))
      end
      list[i] = math.tointeger(one)
    end
    return list
  end

  local function shown(v)
    if type(v) == "table" then return "(" .. table.concat(v, ", ") .. ")" end
    return tostring(v)
  end

  -- ---- convolutions ------------------------------------------------------------------------
  --- Sets weight and bias as PyTorch does: uniform in +-1 / sqrt(product of shape[2], shape[3], …).
  local function draw(self, shape, outputs, o)
    local fan = 1
    for i = 2, #shape do fan = fan * shape[i] end
    local bound = fan > 0 and 1 / math.sqrt(fan) or 0
    local as = { device = o.device, dtype = o.dtype }
    self.weight = nn.Parameter(flame.uniform(shape, -bound, bound, as))
    if o.bias then self.bias = nn.Parameter(flame.uniform({ outputs }, -bound, bound, as)) end
  end

  -- Checks the sizes, and sets the fields that all convolutions have; o: the options by name.
  local function setup(self, name, n, inputs, outputs, kernel_size, o)
    positive(name, "in_channels", inputs)
    positive(name, "out_channels", outputs)
    local groups = o.groups
    positive(name, "groups", groups)
    if inputs % groups ~= 0 or outputs % groups ~= 0 then
      fail("%s: %d and %d channels do not divide into %d groups", name, inputs, outputs, groups)
    end
    self.in_channels, self.out_channels, self.groups = inputs, outputs, groups
    rawset(self, "kernel_size", sizes(name, "kernel_size", kernel_size, n))
    for _, key in ipairs { "stride", "padding", "dilation", "output_padding" } do
      rawset(self, key, o[key] or 0)
    end
    return groups
  end

  local function extra(self)
    return ("%d, %d, kernel_size=%s, stride=%s, padding=%s%s"):format(self.in_channels,
      self.out_channels,
      shown(self.kernel_size), shown(self.stride), shown(self.padding),
      self.groups > 1 and ", groups=" .. self.groups or "")
  end

  -- The layer's padding as the argument of x:pad: before and after the last axis, then the same of
  -- the axis before it, and so on.
  local function pad_list(self, n)
    local list, k = {}, self.kernel_size
    for i = n, 1, -1 do
      local before, after = self.padding, nil
      if self.padding == "same" then
        local d = type(self.dilation) == "table" and self.dilation[i] or self.dilation
        before, after = d * (k[i] - 1) // 2, d * (k[i] - 1) - d * (k[i] - 1) // 2
      elseif type(before) == "table" then
        before = before[#before == 1 and 1 or i]
        if type(before) == "table" then before, after = before[1], before[2] end
      end
      list[#list + 1] = before
      list[#list + 1] = after or before
    end
    return list
  end

  local function convolution(n, text)
    local name, op = "Conv" .. n .. "d", "conv" .. n .. "d"
    --- A convolution with weights; padding may be a list with a pair {before, after} per axis.
    local made = class(text [[nn.ConvND(in_channels: int, out_channels: int, kernel_size: DIMS,
      stride: DIMS = 1, padding: DIMS|"same"|"valid"|any[] = 0, dilation: DIMS = 1,
      groups: int = 1, bias = true,
      padding_mode: "zeros"|"reflect"|"replicate"|"circular" = "zeros", device?: device,
      dtype?: dtype)]], function(self, inputs, outputs, kernel_size, stride, pad, dilation, groups,
        bias, mode, device, dtype)
      setup(self, name, n, inputs, outputs, kernel_size,
        { stride = stride, padding = pad, dilation = dilation, groups = groups })
      self.padding_mode = mode
      draw(self, { outputs, inputs // groups, table.unpack(self.kernel_size) }, outputs,
        { bias = bias, device = device, dtype = dtype })
    end)
    call(made, "(x: T) -> T", function(self, x)
      local o = { stride = self.stride, padding = self.padding, dilation = self.dilation,
        groups = self.groups }
      if self.padding_mode ~= "zeros" and o.padding ~= "valid" then
        x = x:pad(pad_list(self, n), { mode = self.padding_mode })
        o.padding = 0
      end
      return flame[op](x, self.weight, self.bias, o)
    end)
    made.extra = extra
  end

  local function transposed(n, text)
    local name, op = "ConvTranspose" .. n .. "d", "conv_transpose" .. n .. "d"
    --- A transposed convolution with weights; output_size in a call chooses output_padding.
    local made = class(text [[nn.ConvTransposeND(in_channels: int, out_channels: int,
      kernel_size: DIMS, stride: DIMS = 1, padding: DIMS|any[] = 0, output_padding: DIMS = 0,
      groups: int = 1, bias = true, dilation: DIMS = 1, padding_mode: "zeros" = "zeros",
      device?: device, dtype?: dtype)]], function(self, inputs, outputs, kernel_size, stride, pad,
        output_padding, groups, bias, dilation, _, device, dtype)
      setup(self, name, n, inputs, outputs, kernel_size, { stride = stride, padding = pad,
        dilation = dilation, groups = groups, output_padding = output_padding })
      draw(self, { inputs, outputs // groups, table.unpack(self.kernel_size) }, outputs,
        { bias = bias, device = device, dtype = dtype })
    end)
    call(made, "(x: T, output_size?: int[]) -> T", function(self, x, output_size)
      local more = self.output_padding
      if output_size then
        more = {}
        if type(output_size) ~= "table" or #output_size < n then
          fail("%s: output_size must be a list of %d sizes", name, n)
        end
        local function of(key, i)
          local v = self[key]
          if type(v) == "table" then v = v[#v == 1 and 1 or i] end
          return v or fail("%s: %s has %d numbers, need 1 or %d", name, key, #self[key], n)
        end
        for i = 1, n do
          local k, s = self.kernel_size[i], of("stride", i)
          local least = (x:size(i - n - 1) - 1) * s - 2 * of("padding", i) + of("dilation",
            i) * (k - 1) + 1
          more[i] = output_size[#output_size - n + i] - least
        end
      end
      return flame[op](x, self.weight, self.bias,
        { stride = self.stride, padding = self.padding, output_padding = more,
        dilation = self.dilation, groups = self.groups })
    end)
    made.extra = extra
  end

  -- ---- padding ----------------------------------------------------------------------------------
  --- Makes a module that pads n axes by a number on all sides, or by {left, right, top, bottom, …}
  --- as for :pad; value: the constant.
  local function padding_module(text, n, mode)
    local name = text:match("%.(%w+)%(")
    local made = class(text, function(self, amount, value)
      local list = amount
      if type(amount) == "number" then
        list = {}
        for i = 1, 2 * n do list[i] = amount end
      end
      if #list ~= 2 * n then fail("%s: padding must be a number or %d numbers", name, 2 * n) end
      rawset(self, "padding", list)
      rawset(self, "value", mode == "constant" and (value or 0) or nil)
    end)
    call(made, "(x: T) -> T",
      function(self, x) return x:pad(self.padding, { mode = mode, value = self.value }) end)
    function made:extra() return shown(self.padding) end
  end
  local function padding(text, n)
    --- Zeros around the last axes.
    padding_module(text "nn.ZeroPadND(padding: int|int[])", n, "constant")
    --- A value around the last axes.
    padding_module(text "nn.ConstantPadND(padding: int|int[], value: num)", n, "constant")
    --- The last axes mirrored at their ends.
    padding_module(text "nn.ReflectionPadND(padding: int|int[])", n, "reflect")
    --- The last axes continued with the values at their ends.
    padding_module(text "nn.ReplicationPadND(padding: int|int[])", n, "replicate")
    --- Pads the last axes with the values from their opposite ends.
    padding_module(text "nn.CircularPadND(padding: int|int[])", n, "circular")
  end

  -- ---- modules of one function -----------------------------------------------------------------
  local ONE = "(x: T) -> T"
  -- Makes a module that calls flame[op] with the options that it keeps; first: names of those that
  -- flame[op] takes by position.
  local function simple(text, op, first)
    local made = shared.keeper("nn." .. text)
    call(made, ONE, function(self, x)
      local o, list, n = {}, {}, #(first or {})
      for key, value in pairs(self.options) do o[key] = value end
      for i, key in ipairs(first or {}) do list[i], o[key] = o[key], nil end
      if next(o) ~= nil then
        n = n + 1
        list[n] = o
      end
      return flame[op](x, table.unpack(list, 1, n))
    end)
    return made
  end

  -- Pooling, convolutions and padding of n axes.
  local function of_axes(n)
    local function text(s) return (s:gsub("DIMS", ("dims(%d)"):format(n)):gsub("ND", n .. "d")) end
    convolution(n, text)
    transposed(n, text)
    --- The largest element of each window; with return_indices their positions too.
    simple(text [[MaxPoolND(kernel_size: DIMS, stride?: DIMS, padding: DIMS = 0,
      dilation: DIMS = 1, return_indices = false, ceil_mode = false)]], text "max_poolND")
    --- The mean of each window.
    simple(text [[AvgPoolND(kernel_size: DIMS, stride?: DIMS, padding: DIMS = 0, ceil_mode = false,
      count_include_pad = true, divisor_override?: int)]], text "avg_poolND")
    --- Means over windows such that the result has this size; false keeps the size of an axis.
    simple(text "AdaptiveAvgPoolND(output_size: int|any[])", text "adaptive_avg_poolND")
    --- Largest elements of windows such that the result has this size; false keeps the size of an
    --- axis.
    simple(text "AdaptiveMaxPoolND(output_size: int|any[], return_indices = false)",
      text "adaptive_max_poolND")
    --- The p-norm of each window.
    simple(text "LPPoolND(norm_type: num, kernel_size: DIMS, stride?: DIMS, ceil_mode = false)",
      text "lp_poolND", { "norm_type" })
    --- Puts values at the positions that MaxPool returned, and 0 elsewhere.
    local unpool = shared.keeper(text "nn.MaxUnpoolND(kernel_size: DIMS, stride?: DIMS, padding: DIMS = 0)")
    call(unpool, "(x: T, indices: T, output_size?: int[]) -> T", function(self, x, at, size)
      local o = self.options
      return flame[text "max_unpoolND"](x, at,
        { kernel_size = o.kernel_size, stride = o.stride, padding = o.padding, output_size = size })
    end)
    padding(text, n)
  end
  for n = 1, 3 do of_axes(n) end

  for n = 2, 3 do
    --- Largest elements of windows at random places (Graham 2014); output_size or output_ratio.
    simple(([[FractionalMaxPool%dd(kernel_size: dims(%d), output_size?: dims(%d),
      output_ratio?: num|num[], return_indices = false, _random_samples?: T)]]):format(n, n, n),
      ("fractional_max_pool%dd"):format(n))
  end
  --- x / (k + alpha * mean of x^2 over 'size' neighbouring channels)^beta.
  simple("LocalResponseNorm(size: int, alpha = 1e-4, beta = 0.75, k = 1)", "local_response_norm")
  --- The module of flame.interpolate.
  simple([[Upsample(size?: int|int[], scale_factor?: num|num[],
    mode: "nearest"|"nearest-exact"|"linear"|"bilinear"|"bicubic"|"trilinear"|"area" = "nearest",
    align_corners?: bool, recompute_scale_factor?: bool)]], "interpolate")
  --- Upsample, nearest.
  simple("UpsamplingNearest2d(size?: dims(2), scale_factor?: num|num[])", "interpolate")
  --- Upsample, bilinear with aligned corners.
  simple("UpsamplingBilinear2d(size?: dims(2), scale_factor?: num|num[])", "interpolate")
  call(nn.UpsamplingBilinear2d, ONE, function(self, x)
    local o = self.options
    return flame.interpolate(x,
      { size = o.size, scale_factor = o.scale_factor, mode = "bilinear", align_corners = true })
  end)
  simple("PixelShuffle(upscale_factor: int)", "pixel_shuffle", { "upscale_factor" })
  simple("PixelUnshuffle(downscale_factor: int)", "pixel_unshuffle", { "downscale_factor" })
  simple("ChannelShuffle(groups: int)", "channel_shuffle", { "groups" })
  --- Columns of windows of an image.
  simple([[Unfold(kernel_size: dims(2), dilation: dims(2) = 1, padding: dims(2) = 0,
    stride: dims(2) = 1)]], "im2col")
  --- Sums columns of windows back into an image.
  simple([[Fold(output_size: dims(2), kernel_size: dims(2), dilation: dims(2) = 1,
    padding: dims(2) = 0, stride: dims(2) = 1)]], "col2im", { "output_size" })
end
