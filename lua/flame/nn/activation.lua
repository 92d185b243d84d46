--- Activations and other modules of one function: each keeps its options (by shared.keeper, which
-- nn/conv.lua and nn/loss.lua use too) and calls it. Returns a function that adds to flame.nn.
local flame = require "flame"

return function(nn, shared)
  local fail, class, call = shared.fail, shared.class, shared.call

  local VALUES = { ["true"] = true, ["false"] = false }
  --- Names and defaults of the parameters of a constructor.
  local function parameters_of(made)
    local names, defaults = {}, {}
    for i, p in ipairs(flame.internal.declaration(made.init)[1].params) do
      names[i] = p.name
      local word = p.default and p.default:match('^"(.*)"$')
      defaults[p.name] = word or VALUES[p.default] or tonumber(p.default)
      if p.default == "false" then defaults[p.name] = false end
    end
    return names, defaults
  end

  --- Makes a class that keeps the arguments of its constructor that differ from the defaults, by
  --- name, in 'options'; a tensor among them is a buffer, so that it moves with the module.
  local function keeper(text)
    local names, defaults, made
    made = shared.class(text, function(self, ...)
      if not names then names, defaults = parameters_of(made) end
      local o = {}
      for i, name in ipairs(names) do
        local v = (select(i, ...))
        if v ~= nil and v ~= defaults[name] and name ~= "inplace" then o[name] = v end
        if flame.is_tensor(v) then self[name] = nn.Buffer(v) end
      end
      rawset(self, "options", o)
    end)
    function made:extra()
      local shown = {}
      for _, name in ipairs(names) do
        local v = self.options[name]
        if type(v) == "table" and not getmetatable(v) then
          v = "(" .. table.concat(v, ", ") .. ")"
        end
        if v ~= nil and not flame.is_tensor(v) then
          shown[#shown + 1] = name .. "=" .. tostring(v)
        end
      end
      return table.concat(shown, ", ")
    end
    return made
  end
  shared.keeper = keeper

  --- Makes a module whose call is f(x, options), for a function f of one tensor.
  local function activation(text, f)
    call(keeper("nn." .. text), "(x: T) -> T", function(self, x) return f(x, self.options) end)
  end
  --- Makes a module whose call is flame[op](x, options).
  local function of_function(text, op)
    activation(text, function(x, o)
      if next(o) == nil then return flame[op](x) end
      return flame[op](x, o)
    end)
  end
  for name, op in pairs { ReLU = "relu", ReLU6 = "relu6", SELU = "selu", SiLU = "silu",
    Mish = "mish", Tanh = "tanh", Sigmoid = "sigmoid", LogSigmoid = "logsigmoid",
    Softsign = "softsign", Hardsigmoid = "hardsigmoid", Hardswish = "hardswish" } do
    of_function(name .. "(inplace = false)", op)
  end
  of_function('GELU(approximate: "none"|"tanh" = "none", inplace = false)', "gelu")
  of_function("LeakyReLU(negative_slope = 0.01, inplace = false)", "leaky_relu")
  of_function("ELU(alpha = 1, inplace = false)", "elu")
  of_function("CELU(alpha = 1, inplace = false)", "celu")
  of_function("Softplus(beta = 1, threshold = 20, inplace = false)", "softplus")
  of_function("Hardtanh(min_val = -1, max_val = 1, inplace = false)", "hardtanh")
  activation("Softmax(dim: axis = -1, inplace = false)",
    function(x, o) return x:softmax(o.dim or -1) end)
  activation("LogSoftmax(dim: axis = -1, inplace = false)",
    function(x, o) return x:log_softmax(o.dim or -1) end)
  activation("Softmin(dim: axis = -1, inplace = false)",
    function(x, o) return (-x):softmax(o.dim or -1) end)
  --- Softmax over the channels.
  activation("Softmax2d(inplace = false)", function(x) return x:softmax(-3) end)
  activation("Tanhshrink(inplace = false)", function(x) return x - x:tanh() end)
  activation("Softshrink(lambd = 0.5, inplace = false)", function(x, o)
    local l = o.lambd or 0.5
    return flame.where(x:gt(l), x - l, flame.where(x:lt(-l), x + l, x * 0))
  end)
  activation("Hardshrink(lambd = 0.5, inplace = false)", function(x, o)
    return flame.where(x:abs():le(o.lambd or 0.5), 0, x)
  end)
  activation("Threshold(threshold: num, value: num, inplace = false)", function(x, o)
    return flame.where(x:gt(o.threshold), x, o.value)
  end)
  activation("GLU(dim: axis = -1, inplace = false)", function(x, o)
    local d = o.dim or -1
    local n = x:size(d)
    if n % 2 ~= 0 then fail("GLU: axis %d has %d elements, need an even number", d, n) end
    return x:narrow(d, 1, n // 2) * x:narrow(d, n // 2 + 1, n // 2):sigmoid()
  end)

  --- leaky_relu with a slope drawn between lower and upper while training, and otherwise their
  --- mean.
  class("nn.RReLU(lower = 0.125, upper = 0.3333333333333333, *, inplace = false)",
    function(self, lower, upper) self.lower, self.upper = lower, upper end)
  call(nn.RReLU, "(x: T) -> T",
    function(self, x) return flame.rrelu(x, self.lower, self.upper, self.training) end)
  function nn.RReLU:extra() return ("lower=%g, upper=%g"):format(self.lower, self.upper) end

  --- x where it is positive, else a x; a is learnt: one number, or one per channel (axis 2).
  class("nn.PReLU(num_parameters: int = 1, init = 0.25, device?: device, dtype?: dtype)",
    function(self, n, value, device, dtype)
      self.num_parameters = n
      self.weight = nn.Parameter(flame.full({ n }, value, { device = device, dtype = dtype }))
    end)
  call(nn.PReLU, "(x: T) -> T", function(self, x)
    local a = self.weight
    if self.num_parameters > 1 then
      local shape = {}
      for d = 1, x.ndim do shape[d] = d == 2 and self.num_parameters or 1 end
      a = a:reshape(shape)
    end
    return flame.where(x:gt(0), x, x * a)
  end)
  function nn.PReLU:extra() return "num_parameters=" .. self.num_parameters end

  --- Returns its argument; the constructor takes any arguments.
  class("nn.Identity(...)", function() end)
  function nn.Identity:forward(...) return ... end

  --- Joins axes start_dim to end_dim into one.
  activation("Flatten(start_dim: axis = 2, end_dim: axis = -1, inplace = false)", function(x, o)
    return x:flatten(o.start_dim or 2, o.end_dim or -1)
  end)
  --- Splits an axis into several.
  class("nn.Unflatten(dim: axis, unflattened_size: int[])", function(self, d, sizes)
    rawset(self, "d", d)
    rawset(self, "sizes", sizes)
  end)
  call(nn.Unflatten, "(x: T) -> T", function(self, x) return x:unflatten(self.d, self.sizes) end)
end
