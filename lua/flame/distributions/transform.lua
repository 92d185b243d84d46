--- Maps of values and the distributions that they make: AffineTransform, ExpTransform,
-- SigmoidTransform, TanhTransform, ComposeTransform, TransformedDistribution, LogNormal. The file
-- returns a function that adds them to flame.distributions.
local flame = require "flame"
local arguments = require "flame.base.arguments"
local internal, where = flame.internal, flame.where

return function(distributions, shared)
  local extend, constructor, fail = shared.extend, shared.constructor, shared.fail
  local need, value_of, new = shared.need, shared.value_of, shared.new

  ---@class flame.Transform
  local Transform = { __name = "Transform" }
  Transform.__index = Transform
  --- The class of maps of values, strictly monotone and element by element.
  distributions.Transform = setmetatable(Transform, { __call = function()
    fail("Transform", "it is the class of all transforms\1: make one by AffineTransform, ExpTransform, "
      .. "SigmoidTransform, TanhTransform or ComposeTransform")
  end })
  local function method(text, f)
    Transform[text:match(":([%w_]+)%(")] = internal.declare(text, "", f)
  end
  local function map(name, text, make)
    local class = setmetatable({ __name = name }, { __index = Transform })
    class.__index = class
    class.__call = function(self, x) return self:forward(x) end
    distributions[name] = internal.declare(name .. text .. " -> Transform", "",
      make(class))
    return class
  end

  -- Each class of transforms has apply(x), its inverse undo(y), and slope(x, y) = log |dy / dx|.
  --- y = t(x), elementwise and strictly monotone.
  method("Transform:forward(x: T) -> T", function(self, x) return self:apply(x) end)
  --- x with t(x) = y.
  method("Transform:inv(y: T) -> T", function(self, y) return self:undo(y) end)
  --- log |dy / dx|, element by element; y is t(x).
  method("Transform:log_abs_det_jacobian(x: T, y: T) -> T",
    function(self, x, y) return self:slope(x, y) end)
  --- 1 for a map that increases, -1 for one that decreases; a tensor if that differs by element.
  Transform.sign = 1

  local Affine = map("AffineTransform", "(loc: T|num, scale: T|num)", function(class)
    --- y = loc + scale x; scale is not 0.
    return function(loc, scale)
      return setmetatable({ loc = loc, scale = scale,
        sign = flame.is_tensor(scale) and scale:detach():sign() or scale < 0 and -1 or 1 }, class)
    end
  end)
  function Affine:apply(x) return x * self.scale + self.loc end
  function Affine:undo(y) return (y - self.loc) / self.scale end
  function Affine:slope(x)
    local s = self.scale
    return x * 0 + (flame.is_tensor(s) and s:abs():log() or math.log(math.abs(s)))
  end

  local function plain(name, make)
    return map(name, "()", function(class)
      return make(function() return setmetatable({}, class) end)
    end)
  end
  local Exp = plain("ExpTransform", function(new_one)
    --- y = exp(x).
    return function() return new_one() end
  end)
  function Exp:apply(x) return x:exp() end
  function Exp:undo(y) return y:log() end
  function Exp:slope(x) return x end

  local Sigmoid = plain("SigmoidTransform", function(new_one)
    --- y = 1 / (1 + exp(-x)).
    return function() return new_one() end
  end)
  function Sigmoid:apply(x) return x:sigmoid() end
  function Sigmoid:undo(y) return y:log() - (-y):log1p() end
  function Sigmoid:slope(x) return x:logsigmoid() + (-x):logsigmoid() end

  local Tanh = plain("TanhTransform", function(new_one)
    --- y = tanh(x).
    return function() return new_one() end
  end)
  function Tanh:apply(x) return x:tanh() end
  function Tanh:undo(y) return y:atanh() end
  function Tanh:slope(x)
    return (math.log(2) - x - (x * -2):softplus()) * 2
  end

  local function need_maps(op, parts)
    for i, t in ipairs(parts) do
      if type(t) ~= "table" or not t.log_abs_det_jacobian then
        fail(op, "transform %d is a %s, need one as ExpTransform()", i, arguments.word(t))
      end
    end
    return parts
  end
  local Compose = map("ComposeTransform", "(parts: any)", function(class)
    --- The composition of a list of transforms: the first one is applied first.
    return function(parts)
      if type(parts) ~= "table" then
        fail("ComposeTransform", "need a list of transforms, got %s", arguments.word(parts))
      end
      local sign = 1
      for _, t in ipairs(need_maps("ComposeTransform", parts)) do sign = t.sign * sign end
      return setmetatable({ parts = { table.unpack(parts) }, sign = sign }, class)
    end
  end)
  function Compose:apply(x)
    for _, t in ipairs(self.parts) do x = t:forward(x) end
    return x
  end
  function Compose:undo(y)
    for i = #self.parts, 1, -1 do y = self.parts[i]:inv(y) end
    return y
  end
  function Compose:slope(x)
    local sum = x * 0
    for _, t in ipairs(self.parts) do
      local y = t:forward(x)
      sum, x = sum + t:log_abs_det_jacobian(x, y), y
    end
    return sum
  end

  -- ---- TransformedDistribution ------------------------------------------------------------------
  local Transformed = extend "TransformedDistribution"
  --- A distribution whose draws are those of 'base', mapped by the transforms 'maps'.
  local function transformed(class, base, maps, validate)
    if getmetatable(maps) ~= nil then maps = { maps } end
    local self = new(class, validate, base.event_shape)
    self.base_dist, self.names, self.batch_shape = base, { "base_dist" }, base.batch_shape
    self.transforms = need_maps(class.__name, maps)
    self.map = distributions.ComposeTransform(maps)
    return self
  end
  constructor(Transformed, "base_distribution: Distribution, transforms: any",
    --- The distribution of t(x) for draws x of a base; t: a transform or a list, first to last.
    function(base, maps, validate)
      if type(maps) ~= "table" then
        fail("TransformedDistribution", "transforms is a %s, need a transform or a list of them",
          arguments.word(maps))
      end
      return transformed(Transformed, base, maps, validate)
    end)
  function Transformed.properties:has_rsample() return self.base_dist.has_rsample end
  function Transformed:draw(size) return self.map:forward(self.base_dist:draw(size)) end
  function Transformed:log_prob(value)
    local y = value_of(self, "log_prob", value, self.support or need.number,
      shared.like_of(self))
    local x = self.map:inv(y)
    return self.base_dist:log_prob(x)
      - shared.inner_sum(self.map:log_abs_det_jacobian(x, y), #self.event_shape)
  end
  --- The probability p where the map increases, 1 - p where it decreases.
  local function turned(self, p)
    local sign = self.map.sign
    if flame.is_tensor(sign) then return where(sign:lt(0), 1 - p, p) end
    return sign < 0 and 1 - p or p
  end
  function Transformed:cdf(value)
    local y = value_of(self, "cdf", value, self.support or need.number, shared.like_of(self))
    return turned(self, self.base_dist:cdf(self.map:inv(y)))
  end
  function Transformed:icdf(share)
    local p = value_of(self, "icdf", share, need.share, shared.like_of(self))
    return self.map:forward(self.base_dist:icdf(turned(self, p)))
  end
  Transformed.support = false
  function Transformed:__tostring()
    local names = {}
    for i, t in ipairs(self.transforms) do names[i] = getmetatable(t).__name end
    return ("%s(%s, %s)"):format(self.class_name, tostring(self.base_dist),
      table.concat(names, ", "))
  end

  -- ---- LogNormal --------------------------------------------------------------------------------
  local LogNormal = extend("LogNormal", Transformed)
  LogNormal.support, LogNormal.shown = need.not_negative, { "loc", "scale" }
  constructor(LogNormal, "loc: T|num, scale: T|num",
    --- Numbers whose logarithms are normal, with mean loc and standard deviation scale.
    function(loc, scale, validate)
      local base = shared.simple_as("LogNormal", shared.normal_class, validate,
        { "loc", loc, need.finite }, { "scale", scale, need.positive })
      return transformed(LogNormal, base, { distributions.ExpTransform() }, validate)
    end)
  function LogNormal.properties:loc() return self.base_dist.loc end
  function LogNormal.properties:scale() return self.base_dist.scale end
  function LogNormal:entropy() return self.base_dist:entropy() + self.loc end
  function LogNormal.properties:mean() return (self.loc + self.scale:square() * 0.5):exp() end
  function LogNormal.properties:variance()
    local s = self.scale:square()
    return s:expm1() * (self.loc * 2 + s):exp()
  end
  function LogNormal.properties:mode() return (self.loc - self.scale:square()):exp() end
  return distributions
end
