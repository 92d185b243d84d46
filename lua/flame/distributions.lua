--- Probability distributions: draws, log-densities, entropies, divergences, distribution
-- functions, under PyTorch's names. An object holds its parameters as tensors of one shape, the
-- batch; a value has the batch's axes and after them those of one event. Gradients go to the
-- parameters, also through draws by rsample.
--
-- Draws are made of ops that have the same bits on every device. Only flame.poisson and
-- flame.binomial loop until a value is accepted: the rejection of a gamma variate is a fixed number
-- of rounds (distributions/gamma.lua).
--
-- distributions/real.lua: the line and half-lines; distributions/gamma.lua: gamma, beta and what
-- is made of them; distributions/count.lua: classes and counts; distributions/joint.lua: vectors,
-- mixtures, batches as events; distributions/transform.lua: images under maps;
-- distributions/pairs.lua: divergences; distributions/share.lua: functions that flame lacks.
local flame = require "flame"
local internal = flame.internal
local arguments = require "flame.base.arguments"
local dtypes = require "flame.base.dtypes"
local objects = require "flame.base.objects"

local distributions = {}

--- Raises "op: message" at the line of the script, however deep in the library it is called.
local function fail(op, message, ...) internal.fail(op, message:format(...)) end

---@class flame.Distribution
---@field batch_shape integer[]  axes of the parameters
---@field event_shape integer[]  axes of one value
---@field mean flame.Tensor
---@field variance flame.Tensor
---@field stddev flame.Tensor
---@field mode flame.Tensor
local Distribution = { __name = "Distribution", properties = {} }
Distribution.__index = Distribution
distributions.Distribution = Distribution

local checking = true                                    -- unless a constructor says

-- ---- classes ------------------------------------------------------------------------------------

--- __index of a class: a method, or a property, which is computed; any other name raises.
local function reader(class)
  return function(self, key)
    local f = class[key]
    if f ~= nil then return f end
    local get = class.properties[key]
    if get then return get(self) end
    if class.optional[key] then return nil end
    local known = {}
    for name in pairs(self) do known[name] = true end
    for _, t in ipairs { class.properties, Distribution.properties, class, Distribution } do
      for name in pairs(t) do known[name] = true end
    end
    fail("", "%s has no field '%s'%s", class.__name, tostring(key),
      internal.hint(tostring(key), known))
  end
end

--- A new class of distributions; optional: names of fields that may be nil, with spaces between.
local function extend(name, parent, optional)
  parent = parent or Distribution
  local class = setmetatable({ __name = name, optional = {} }, { __index = parent })
  class.properties = setmetatable({}, { __index = parent.properties })
  for key in (optional or ""):gmatch("%S+") do class.optional[key] = true end
  class.__index, class.__tostring = reader(class), Distribution.__tostring
  return class
end

--- Sets flame.distributions.Name, the constructor of a class: f makes the object. text declares the
--- arguments; the name, and validate_args at the end, are added here.
local function constructor(class, text, f)
  local name = class.__name
  distributions[name] = internal.declare(
    ("%s(%s, *, validate_args?: bool) -> Distribution"):format(name, text), "", f)
  return class
end

-- ---- parameters and values ----------------------------------------------------------------------

--- Conditions on values: holds(x) tells where x fulfils it, 'text' is its name in messages.
local number = { holds = function(x) return x:eq(x) end, text = "a number" }
local need = {
  number = number,
  finite = { holds = function(x) return x:isfinite() end, text = "a finite number" },
  positive = { holds = function(x) return x:gt(0):logical_and(x:lt(math.huge)) end,
    text = "a number above 0" },
  not_negative = { holds = function(x) return x:ge(0):logical_and(x:lt(math.huge)) end,
    text = "a number from 0 on" },
  share = { holds = function(x) return x:ge(0):logical_and(x:le(1)) end, text = "0 to 1" },
  inner_share = { holds = function(x) return x:gt(0):logical_and(x:lt(1)) end,
    text = "a number between 0 and 1" },
  positive_share = { holds = function(x) return x:gt(0):logical_and(x:le(1)) end,
    text = "above 0 and at most 1" },
  count = { holds = function(x)
    return x:ge(0):logical_and(x:eq(x:floor())):logical_and(x:lt(math.huge))
  end, text = "a whole number from 0 on" },
}

--- Raises at the first element of x for which 'good' is false.
local function check(op, name, x, good, text)
  if not flame.is_tensor(good) or good:all():item() then return end
  local shape, at = x.shape, good:logical_not():reshape(-1):long():argmax():item()
  local place, rest = {}, at - 1
  for d = #shape, 1, -1 do
    place[d] = rest % shape[d] + 1
    rest = rest // shape[d]
  end
  local v = x:reshape(-1)[at]:item()
  fail(op, "%s is %s%s, need %s", name, math.type(v) == "float" and ("%.7g"):format(v)
    or tostring(v), #place > 0 and (" at position (%s)"):format(table.concat(place, ", ")) or "",
    text)
end

--- The parameters of a new distribution, converted to floats of one dtype and device and checked:
--- values = { loc = x, scale = y }, list = {{"loc", need.number}, …}. Returns them in the order of
--- the list.
local function take(self, op, values, list)
  local like
  for _, entry in ipairs(list) do
    local x = values[entry[1]]
    if flame.is_tensor(x) then
      if not x:is_floating_point() then fail(op, "%s is %s, need a float", entry[1], x.dtype) end
      if like and x.device ~= like.device then
        fail(op, "%s is on %s, another parameter on %s\1; use %s:to(…)", entry[1], x.device,
          like.device, entry[1])
      end
      like = like and like.dtype ~= x.dtype
        and { device = x.device, dtype = dtypes.float_of(
          flame.zeros({ 0 }, like), flame.zeros({ 0 }, { dtype = x.dtype, device = x.device })) }
        or { device = x.device, dtype = x.dtype }
    end
  end
  local all = {}
  for i, entry in ipairs(list) do
    local x = values[entry[1]]
    all[i] = flame.is_tensor(x) and x:to(like.dtype) or flame.full({}, x, like)
  end
  if self.validate then
    for i, entry in ipairs(list) do
      check(op, entry[1], all[i]:detach(), entry[2].holds(all[i]:detach()), entry[2].text)
    end
  end
  return all
end

--- A new object of a class.
local function new(class, validate, event_shape)
  if validate == nil then validate = checking end
  return setmetatable({ validate = validate, event_shape = event_shape or {} }, class)
end

--- An object of a class whose parameters are numbers or tensors that broadcast against each other,
--- each given as {name, value, need}; messages name 'op'.
local function simple_as(op, class, validate, ...)
  local self, values, list = new(class, validate), {}, {}
  for i, entry in ipairs { ... } do
    values[entry[1]], list[i] = entry[2], { entry[1], entry[3] }
  end
  local all = take(self, op, values, list)
  if #all > 1 then
    local shapes = {}
    for i, x in ipairs(all) do shapes[i] = x.shape end
    local ok = pcall(flame.broadcast_shapes, table.unpack(shapes))
    if not ok then
      local texts = {}
      for i, x in ipairs(all) do
        texts[i] = ("%s (%s)"):format(list[i][1], table.concat(x.shape, ", "))
      end
      fail(op, "shapes do not go together: %s", table.concat(texts, ", "))
    end
    all = flame.broadcast(table.unpack(all))
  end
  self.names = {}
  for i, x in ipairs(all) do self[list[i][1]], self.names[i] = x, list[i][1] end
  self.batch_shape = all[1].shape
  return self
end

local function simple(class, ...) return simple_as(class.__name, class, ...) end

--- The name and value of the given one of probs and logits; raises if both or none is given.
local function either(op, probs, logits)
  if (probs == nil) == (logits == nil) then
    fail(op, "need probs or logits, got %s", probs == nil and "none of them" or "both")
  end
  return probs and "probs" or "logits", probs or logits
end

local function joined(...)
  local out = {}
  for _, list in ipairs { ... } do for _, n in ipairs(list) do out[#out + 1] = n end end
  return out
end

--- The shape of draws: '...' is (3, 2), {3, 2} or nothing; the axes of batch and event follow.
local function size_of(self, what, ...)
  local shape = { ... }
  if type(shape[1]) == "table" and #shape == 1 then shape = shape[1] end
  for i, n in ipairs(shape) do
    if math.type(n) ~= "integer" or n < 0 then
      fail(self.class_name, "%s: size %d is %s, need an integer from 0 on", what, i,
        flame.is_tensor(n) and "a tensor" or tostring(n))
    end
  end
  return joined(shape, self.batch_shape, self.event_shape)
end

--- 'value' as a tensor; raises if its shape does not fit or, with validation, is not as 'wanted'.
local function value_of(self, what, value, wanted, like)
  local op = self.class_name
  like = like or self[self.names[1]]
  if type(value) == "number" then
    value = flame.full({}, value, { dtype = like.dtype, device = like.device })
  end
  if not flame.is_tensor(value) then
    fail(op, "%s: value must be a tensor or a number, got %s", what, arguments.word(value))
  end
  if not value:is_floating_point() then value = value:to(like.dtype) end
  local own, given, of = joined(self.batch_shape, self.event_shape), value.shape, #self.event_shape
  for k = 0, math.max(#own, of) - 1 do
    local n, m = rawget(own, #own - k) or 1, rawget(given, #given - k)
    local fits = n == m or k >= of and (n == 1 or m == 1 or m == nil)
    if not fits then
      fail(op, "%s: value has shape (%s), draws have (%s)", what, table.concat(given, ", "),
        table.concat(own, ", "))
    end
  end
  if self.validate and wanted then
    local x = value:detach()
    check(op, what .. ": value", x, wanted.holds(x), wanted.text)
  end
  return value
end

local shared = { extend = extend, constructor = constructor, need = need, take = take, new = new,
  simple = simple, simple_as = simple_as, either = either, joined = joined, value_of = value_of,
  check = check, fail = fail, never = function() return false end }

-- ---- what all have ------------------------------------------------------------------------------

--- Sets whether constructors and log_prob check values and raise at the first wrong one (default:
--- true). A check evaluates the tensor, so a tight loop may turn checks off.
distributions.set_default_validate_args = internal.declare(
  "set_default_validate_args(on: bool)", "", function(on) checking = on end)

function Distribution:__tostring()
  local parts = {}
  for _, name in ipairs(self.shown or self.names) do
    local x = self[name]
    parts[#parts + 1] = ("%s: %s"):format(name, not flame.is_tensor(x) and tostring(x)
      or x.ndim == 0 and ("%.7g"):format(x:item()) or "(" .. table.concat(x.shape, ", ") .. ")")
  end
  return ("%s(%s)"):format(self.class_name, table.concat(parts, ", "))
end
function Distribution.properties:class_name() return getmetatable(self).__name end

local function missing(self, what)
  fail(self.class_name, "it has no %s here", what)
end
for _, name in ipairs { "mean", "variance", "mode" } do
  Distribution.properties[name] = function(self) missing(self, name) end
end
function Distribution.properties:stddev() return self.variance:sqrt() end

--- Random draws that are differentiable with respect to the parameters.
---@param ... integer|integer[]  axes of independent draws, before the batch's
---@return flame.Tensor  (draws, batch, event)
function Distribution:rsample(...)
  if not self.has_rsample then
    fail(self.class_name, "its draws have no gradient\1: use sample")
  end
  return self:draw(size_of(self, "rsample", ...))
end

--- Draws, without gradients.
---@param ... integer|integer[]  axes of independent draws, before the batch's
---@return flame.Tensor  (draws, batch, event)
function Distribution:sample(...)
  local size = size_of(self, "sample", ...)
  return flame.no_grad(function() return self:draw(size) end)
end
function Distribution.properties:has_rsample() return true end
Distribution.shown = false                               -- names in tostring, unless 'names'

--- The logarithm of the density, or of the probability of a count or class.
---@param value flame.Tensor|number  (…, batch, event)
---@return flame.Tensor  (…, batch)
function Distribution:log_prob(value) -- luacheck: no unused args
  missing(self, "log_prob")
end

--- The entropy: minus the expected value of log_prob at a draw.
---@return flame.Tensor  (batch)
function Distribution:entropy() missing(self, "entropy in closed form") end

--- The cumulative distribution function: the probability that a draw is at most 'value'.
---@param value flame.Tensor|number
---@return flame.Tensor
function Distribution:cdf(value) -- luacheck: no unused args
  missing(self, "cdf")
end

--- The value below which a draw lies with probability 'share': the inverse of cdf.
---@param share flame.Tensor|number  0 to 1
---@return flame.Tensor
function Distribution:icdf(share) -- luacheck: no unused args
  missing(self, "icdf")
end

function shared.need_sizes(self, shape)
  if type(shape) ~= "table" then
    fail(self.class_name, "expand: need a list of sizes, got %s", arguments.word(shape))
  end
end

--- The same distribution over a larger batch, to whose shape its own is broadcast.
---@param shape integer[]
---@return flame.Distribution
function Distribution:expand(shape)
  shared.need_sizes(self, shape)
  local other = setmetatable({}, getmetatable(self))
  for key, v in next, self do other[key] = v end
  for _, name in ipairs(self.names) do
    local x = self[name]
    if flame.is_tensor(x) then
      local inner = table.move(x.shape, #self.batch_shape + 1, x.ndim, 1, {})
      other[name] = x:expand(joined(shape, inner))
    else other[name] = x:expand(shape) end
  end
  other.batch_shape = joined(shape)
  return other
end

require "flame.distributions.share"(shared)
require "flame.distributions.real"(distributions, shared)
require "flame.distributions.gamma"(distributions, shared)
require "flame.distributions.count"(distributions, shared)
require "flame.distributions.joint"(distributions, shared)
require "flame.distributions.transform"(distributions, shared)
require "flame.distributions.pairs"(distributions, shared)

return objects.namespace(distributions, "distributions")
