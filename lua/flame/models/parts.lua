--- What the models of flame.models share: reading a configuration, numbered layers, activations,
-- the masks, positions and caches of a decoder. The file returns a table of functions.
--
-- Names are Hugging Face's, with lists that count from 0, so that a module's state_dict has the
-- names of its file; ids also count from 0 wherever a model takes or gives them.
local flame = require "flame"
local nn = require "flame.nn"
local json = require "flame.models.json"
local internal = flame.internal
local arguments = require "flame.base.arguments"
local objects = require "flame.base.objects"

local parts = {}

--- Raises "op: message" at the line of the script, however deep in the library it is called.
function parts.fail(op, message, ...) internal.fail(op, message:format(...)) end
local fail = parts.fail

-- ---- configurations -----------------------------------------------------------------------------
local Config = { __name = "Config" }                     -- of op, where, values
Config.__index = Config
--- An object that reads the values of a configuration and checks each; messages say 'where'.
function parts.config(op, where, values)
  return setmetatable({ op = op, where = where, values = values }, Config)
end
function Config:fail(message, ...) fail(self.op, "%s: %s", self.where, message:format(...)) end
--- The value of a name, nil for null.
function Config:get(name)
  local v = self.values[name]
  if v ~= json.null then return v end
end
local function read(self, name, default, kind, fits)
  local v = self:get(name)
  if v == nil then v = default end
  if v == nil then self:fail("%s is missing, need %s", name, kind) end
  if not fits(v) then self:fail("%s is %s, need %s", name, arguments.word(v), kind) end
  return v
end
function Config:int(name, default)
  return math.tointeger(read(self, name, default, "a positive integer",
    function(v) return math.tointeger(v) and math.type(v) and v > 0 end))
end
function Config:num(name, default)
  return read(self, name, default, "a number of at least 0",
    function(v) return math.type(v) and v >= 0 end)
end
function Config:flag(name, default)
  return read(self, name, default, "true or false", function(v) return type(v) == "boolean" end)
end
--- The value of a name, which must be one of the words in the set 'known'.
function Config:word(name, default, known)
  local names = {}
  for word in pairs(known) do names[#names + 1] = word end
  table.sort(names)
  return read(self, name, default, "one of " .. table.concat(names, " "),
    function(v) return known[v] ~= nil end)
end
--- Reads the integers under the names 'width' and 'heads'; raises unless heads divide the width.
function Config:heads(width, heads)
  local d, n = self:int(width), self:int(heads)
  if d % n ~= 0 then
    self:fail("%s is %d, which does not split into %s = %d", width, d, heads, n)
  end
  return d, n
end

--- Number of classes of a classifier.
function Config:labels()
  local names, n = self:get "id2label", 0
  if type(names) == "table" then for _ in pairs(names) do n = n + 1 end end
  return self:int("num_labels", n > 0 and n or 2)
end

-- ---- layers -------------------------------------------------------------------------------------
local ACTIVATIONS <const> = {
  gelu = flame.gelu, relu = flame.relu, silu = flame.silu, swish = flame.silu, tanh = flame.tanh,
  sigmoid = flame.sigmoid, quick_gelu = function(x) return x * (x * 1.702):sigmoid() end,
}
for _, name in ipairs { "gelu_new", "gelu_fast", "gelu_pytorch_tanh" } do
  ACTIVATIONS[name] = function(x) return flame.gelu(x, "tanh") end
end
--- The function of x that a configuration names.
function Config:activation(name, default)
  return ACTIVATIONS[self:word(name, default, ACTIVATIONS)]
end

--- A list of n modules with the names 0 to n - 1, as in weight files; self.list has them from 1 on.
local Stack = nn.Module.extend("Stack")
function Stack:init(n, make)
  rawset(self, "list", {})
  for i = 0, n - 1 do
    self[i] = make(i)
    self.list[i + 1] = self[i]
  end
end
parts.Stack = Stack

--- Makes a class of modules of a model: init(self, c, as) gets a configuration, and dtype and
--- device in 'as'.
function parts.class(name, init, forward)
  local made = nn.Module.extend(name)
  made.init, made.forward = init, forward
  return made
end

--- Rows of a table by ids from 0.
function parts.rows(layer, ids) return layer(ids + 1) end

--- Attention with a module's num_heads heads, of all positions to all: q, k and v (batch, time,
--- features).
function parts.attend(self, q, k, v, mask)
  local b, t, d = q:size(1), q:size(2), q:size(3)
  local function heads(x)
    return x:reshape(b, t, self.num_heads, d // self.num_heads):transpose(2, 3)
  end
  local y = flame.scaled_dot_product_attention(heads(q), heads(k), heads(v), { attn_mask = mask,
    dropout_p = self.training and self.dropout or 0 })
  return y:transpose(2, 3):reshape(b, t, d)
end

-- ---- input --------------------------------------------------------------------------------------
function parts.need_ids(op, name, ids)
  arguments.need_integers(op, name, ids)
  if ids.ndim ~= 2 then
    fail(op, "%s has %d axes, need 2 (batch, time)", name, ids.ndim)
  end
  return ids
end
--- A mask (batch, time) of the shape of ids, converted to bool: true where there is a token.
function parts.need_mask(op, mask, ids)
  if mask == nil then return nil end
  if mask.ndim ~= 2 or mask:size(1) ~= ids:size(1) or mask:size(2) ~= ids:size(2) then
    fail(op, "attention_mask has shape (%s), ids (%s)", table.concat(mask.shape, ", "),
      table.concat(ids.shape, ", "))
  end
  return mask.dtype == "bool" and mask or mask:ne(0)
end

-- ---- caches -------------------------------------------------------------------------------------
---@class flame.ModelCache
---@field batch integer   sequences
---@field length integer  number of positions that fit
---@field seen integer    positions that are written
local ModelCache = { __name = "ModelCache" }
ModelCache.__index, ModelCache.__newindex = objects.closed("ModelCache", ModelCache,
  { batch = true, length = true, seen = true, layers = true, real = true, count = true })
function ModelCache:__tostring()
  return ("ModelCache(batch=%d, %d of %d positions)"):format(self.batch, self.seen, self.length)
end
objects.classes.ModelCache = ModelCache

--- A cache of up to 'length' positions of a batch; layers: the list of the layers' caches.
function parts.cache(batch, length, layers)
  return setmetatable({ batch = batch, length = length, seen = 0, layers = layers }, ModelCache)
end

--- Appends keys and values to a layer's cache; returns all keys and all values of the cache.
function parts.remember(cache, k, v)
  local at = flame.arange(k:size(3), { device = k.device }) + cache.seen
  cache.k:index_copy_(3, at, k:detach():to(cache.k.dtype))
  cache.v:index_copy_(3, at, v:detach():to(cache.v.dtype))
  return cache.k:to(k.dtype), cache.v:to(v.dtype)
end

local function check_cache(op, cache, b, t)
  if cache.batch ~= b then
    fail(op, "ids are %d sequences, the cache is for %d; make one for this batch", b, cache.batch)
  end
  if cache.seen + t > cache.length then
    fail(op, "%d positions after %d do not fit a cache of %d; make a longer one", t, cache.seen,
      cache.length)
  end
  -- a call that failed half way has advanced the positions of some layers: they are reset
  for _, layer in ipairs(cache.layers) do layer.seen = cache.seen end
end

--- Notes in the cache which positions have tokens: cache.real (batch, length), absent while all
--- have one; and cache.count (batch, 1), the number of tokens so far.
local function note_real(cache, mask, b, t)
  if not mask and not cache.real then return end
  local o = { dtype = "bool", device = mask and mask.device or cache.real.device }
  if not cache.real then
    cache.real = flame.ones({ b, cache.length }, o)
    cache.count = flame.full({ b, 1 }, cache.seen, { dtype = "i64", device = o.device })
  end
  if not mask then return end
  local seen, rest = cache.seen, cache.length - cache.seen - t
  cache.real = flame.cat({ cache.real:narrow(2, 1, seen), mask, flame.ones({ b, rest }, o) }, 2)
end

--- A bool mask of the keys that queries may see, apart from the causal order: (batch, 1, 1 or t,
--- keys); nil: all. A position without a token sees itself, so that its softmax is not NaN.
local function visible_of(mask, cache, b, k, q)
  local real = mask
  if cache then real = cache.real end
  if not real then return nil end
  local out = real:reshape(b, 1, 1, -1)
  return mask and out:logical_or(k:eq(q)) or out
end

--- What the layers of a decoder need in one call on ids (batch, time): positions from 0, (batch or
--- 1, time); mask, from visible_of; near, which also hides keys outside of the window; the caches
--- of the layers. done() must be called at the end.
function parts.run(op, ids, attention_mask, cache, window)
  parts.need_ids(op, "ids", ids)
  local b, t, device = ids:size(1), ids:size(2), ids.device
  if t < 1 then fail(op, "ids has no positions, need at least 1") end
  local mask = parts.need_mask(op, attention_mask, ids)
  if cache then
    check_cache(op, cache, b, t)
    note_real(cache, mask, b, t)
  end
  local run, step = { layers = cache and cache.layers or {} }, nil
  if mask then
    step = mask:long():cumsum(2)
    run.positions = (step + (cache and cache.count or 0) - 1):clamp(0)
  else
    local at = flame.arange(t, { device = device }):reshape(1, t) - 1
    run.positions = at + (cache and (cache.count or cache.seen) or 0)
  end
  local seen, keys = cache and cache.seen or 0, cache and cache.length or t
  local k = flame.arange(keys, { device = device }):reshape(1, -1)
  local q = flame.arange(t, { device = device }):reshape(-1, 1) + seen
  run.mask = visible_of(mask, cache, b, k, q)
  run.near = run.mask
  if window and keys > window then
    local near = k:gt(q - window)
    run.near = run.mask and run.mask:logical_and(near) or near
  end
  function run.done()
    if not cache then return end
    if cache.count then cache.count = cache.count + (step and step:narrow(2, t, 1) or t) end
    cache.seen = cache.seen + t
  end
  --- run.mask combined with the causal order, for attention functions that need it as a mask. nil:
  --- there is neither a mask nor a cache, and is_causal is enough.
  function run.ordered()
    if run.whole == nil and (run.mask or cache) then
      local order = k:le(q)
      run.whole = run.mask and run.mask:logical_and(order) or order
    end
    return run.whole
  end
  return run
end

return parts
