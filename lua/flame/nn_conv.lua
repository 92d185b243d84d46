--- Convolutions, pooling, padding and resampling as modules. Given the table of flame.nn, adds to
-- it; arguments in PyTorch's order or in a table at the end, layouts and initialisation PyTorch's.
local flame = require "flame"

return function(nn, shared)
  local Module, fail, positive = nn.Module, shared.fail, shared.positive
  local read, make_options = shared.read, shared.make_options

  --- A number or list as a list of n positive integers.
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
  --- Parameters as PyTorch draws them: uniform in +-1 / sqrt(w's second axis times the kernel).
  local function draw(self, shape, outputs, o)
    local fan = 1
    for i = 2, #shape do fan = fan * shape[i] end
    local bound = fan > 0 and 1 / math.sqrt(fan) or 0
    self.weight = nn.Parameter(flame.uniform(shape, -bound, bound, make_options(o)))
    if o.bias ~= false then
      self.bias = nn.Parameter(flame.uniform({ outputs }, -bound, bound, make_options(o)))
    end
  end

  local function setup(self, name, n, inputs, outputs, kernel_size, o)
    positive(name, "in_channels", inputs)
    positive(name, "out_channels", outputs)
    local groups = o.groups or 1
    positive(name, "groups", groups)
    if inputs % groups ~= 0 or outputs % groups ~= 0 then
      fail("%s: %d and %d channels do not divide into %d groups", name, inputs, outputs, groups)
    end
    self.in_channels, self.out_channels, self.groups = inputs, outputs, groups
    rawset(self, "kernel_size", sizes(name, "kernel_size", kernel_size, n))
    for _, key in ipairs { "stride", "padding", "dilation", "output_padding" } do
      rawset(self, key, o[key] or (key == "stride" or key == "dilation") and 1 or 0)
    end
    return groups
  end

  local function extra(self)
    return ("%d, %d, kernel_size=%s, stride=%s, padding=%s%s"):format(self.in_channels,
      self.out_channels,
      shown(self.kernel_size), shown(self.stride), shown(self.padding),
      self.groups > 1 and ", groups=" .. self.groups or "")
  end

  local pad_modes = { zeros = true, reflect = true, replicate = true, circular = true }

  --- What :pad takes, from the last axis backwards, for a padding of n axes.
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

  local function convolution(n)
    local name, op = "Conv" .. n .. "d", "conv" .. n .. "d"
    local class = Module.extend(name)
    nn[name] = class
    function class:init(inputs, outputs, kernel_size, ...)
      local o = read(name, "stride padding dilation groups bias padding_mode device dtype", "", ...)
      local groups = setup(self, name, n, inputs, outputs, kernel_size, o)
      self.padding_mode = o.padding_mode or "zeros"
      if not pad_modes[self.padding_mode] then
        fail('%s: padding_mode must be "zeros", "reflect", "replicate" or "circular", got "%s"',
          name, tostring(o.padding_mode))
      end
      draw(self, { outputs, inputs // groups, table.unpack(self.kernel_size) }, outputs, o)
    end
    function class:forward(x)
      local o = { stride = self.stride, padding = self.padding, dilation = self.dilation,
        groups = self.groups }
      if self.padding_mode ~= "zeros" and o.padding ~= "valid" then
        x = x:pad(pad_list(self, n), { mode = self.padding_mode })
        o.padding = 0
      end
      return flame[op](x, self.weight, self.bias, o)
    end
    class.extra = extra
  end

  local function transposed(n)
    local name, op = "ConvTranspose" .. n .. "d", "conv_transpose" .. n .. "d"
    local class = Module.extend(name)
    nn[name] = class
    function class:init(inputs, outputs, kernel_size, ...)
      local o = read(name,
        "stride padding output_padding groups bias dilation padding_mode device dtype", "", ...)
      if o.padding_mode and o.padding_mode ~= "zeros" then
        fail('%s: padding_mode must be "zeros"', name)
      end
      local groups = setup(self, name, n, inputs, outputs, kernel_size, o)
      draw(self, { inputs, outputs // groups, table.unpack(self.kernel_size) }, outputs, o)
    end
    --- output_size: chooses output_padding.
    function class:forward(x, output_size)
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
    end
    class.extra = extra
  end

  -- ---- modules of one function -----------------------------------------------------------------
  --- A module that calls flame[op] with its options; names: their order. first: what comes before
  --- them, by position, in the function. more: arguments of a call after x.
  local function simple(name, op, names, first, more)
    local class = Module.extend(name)
    nn[name] = class
    function class:init(...) rawset(self, "options", read(name, names, "", ...)) end
    function class:forward(x, ...)
      local o, list, extra_args = {}, {}, table.pack(...)
      if extra_args.n > (more or 0) then
        fail("%s: %d arguments at most, got %d", name, 1 + (more or 0), 1 + extra_args.n)
      end
      for key, value in pairs(self.options) do o[key] = value end
      for i, key in ipairs(first or {}) do
        if o[key] == nil then fail("%s: %s is missing", name, key) end
        list[i], o[key] = o[key], nil
      end
      table.move(list, 1, #list, extra_args.n + 1, extra_args)
      local count = extra_args.n + #list
      if next(o) ~= nil then
        count = count + 1
        extra_args[count] = o
      end
      return flame[op](x, table.unpack(extra_args, 1, count))
    end
    function class:extra()
      local text = {}
      for key in names:gmatch("%S+") do
        if self.options[key] ~= nil then
          text[#text + 1] = key .. "=" .. shown(self.options[key])
        end
      end
      return table.concat(text, ", ")
    end
    return class
  end

  for n = 1, 3 do
    convolution(n)
    transposed(n)
    local d = n .. "d"
    simple("MaxPool" .. d, "max_pool" .. d,
      "kernel_size stride padding dilation return_indices ceil_mode")
    simple("AvgPool" .. d, "avg_pool" .. d,
      "kernel_size stride padding ceil_mode count_include_pad divisor_override")
    simple("AdaptiveAvgPool" .. d, "adaptive_avg_pool" .. d, "output_size")
    simple("AdaptiveMaxPool" .. d, "adaptive_max_pool" .. d, "output_size return_indices")
    simple("MaxUnpool" .. d, "max_unpool" .. d, "kernel_size stride padding", nil, 2)
  end
  for _, d in ipairs { "2d", "3d" } do
    simple("FractionalMaxPool" .. d, "fractional_max_pool" .. d,
      "kernel_size output_size output_ratio return_indices _random_samples")
  end
  simple("LPPool1d", "lp_pool1d", "norm_type kernel_size stride ceil_mode", { "norm_type" })
  simple("LPPool2d", "lp_pool2d", "norm_type kernel_size stride ceil_mode", { "norm_type" })
  simple("LPPool3d", "lp_pool3d", "norm_type kernel_size stride ceil_mode", { "norm_type" })
  simple("LocalResponseNorm", "local_response_norm", "size alpha beta k")
  simple("Upsample", "interpolate", "size scale_factor mode align_corners recompute_scale_factor")
  --- Upsample with the mode fixed.
  simple("UpsamplingNearest2d", "interpolate", "size scale_factor")
  simple("UpsamplingBilinear2d", "interpolate", "size scale_factor")
  function nn.UpsamplingBilinear2d:forward(x)
    local o = self.options
    return flame.interpolate(x,
      { size = o.size, scale_factor = o.scale_factor, mode = "bilinear", align_corners = true })
  end
  simple("PixelShuffle", "pixel_shuffle", "upscale_factor", { "upscale_factor" })
  simple("PixelUnshuffle", "pixel_unshuffle", "downscale_factor", { "downscale_factor" })
  simple("ChannelShuffle", "channel_shuffle", "groups", { "groups" })
  simple("Unfold", "im2col", "kernel_size dilation padding stride")
  simple("Fold", "col2im", "output_size kernel_size dilation padding stride", { "output_size" })

  -- ---- padding ----------------------------------------------------------------------------------
  --- padding: a number for all sides, or {left, right, top, bottom, …} as :pad takes it.
  local function padding(name, n, mode, value)
    local class = Module.extend(name)
    nn[name] = class
    local function set(self, amount, constant)
      local list = amount
      if type(amount) == "number" then
        list = {}
        for i = 1, 2 * n do list[i] = amount end
      end
      if type(list) ~= "table" or #list ~= 2 * n then
        fail("%s: padding must be a number or %d numbers", name, 2 * n)
      end
      rawset(self, "padding", list)
      rawset(self, "value", value or constant)
      if mode == "constant" and type(self.value) ~= "number" then
        fail("%s: value is missing", name)
      end
    end
    if mode == "constant" and not value then
      function class:init(amount, constant) set(self, amount, constant) end
    else function class:init(amount) set(self, amount) end end
    function class:forward(x)
      return x:pad(self.padding,
        mode == "constant" and { mode = mode, value = self.value } or { mode = mode })
    end
    function class:extra() return shown(self.padding) end
  end
  for n = 1, 3 do
    padding("ZeroPad" .. n .. "d", n, "constant", 0)
    padding("ConstantPad" .. n .. "d", n, "constant")
    padding("ReflectionPad" .. n .. "d", n, "reflect")
    padding("ReplicationPad" .. n .. "d", n, "replicate")
    padding("CircularPad" .. n .. "d", n, "circular")
  end
end
