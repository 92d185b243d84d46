--- Random positions: permutations and draws by weight. They use what is the same on every device
-- bit for bit (draws, quotients, integer sums, sorts), so the same seed draws the same everywhere.
local flame, _, internal = ...
local fail, need_int, def = internal.failf, internal.need_int, internal.def
local options, defaults, call = internal.options, internal.defaults, internal.call

local function like(x, dtype) return { dtype = dtype or x.dtype, device = x.device } end

--- 1 to n in random order: the order of n random numbers of 53 bits.
---@param o table?  {dtype = "i64", device = the default}
def("randperm", 2, function(n, o)
  o = options("randperm", o, { device = flame.default_device(), dtype = "i64" })
  if need_int("randperm", "n", n) < 0 then fail("randperm", "n = %d, need 0 or more", n) end
  local at = flame.rand({ n }, { dtype = "f64", device = o.device })
  at = call("argsort", "randperm", { at }, { 1, n, 0 }, { n }, "i64")
  return o.dtype == "i64" and at or at:to(o.dtype)
end, "module")

--- Weights as integers of at most 38 bits, so that their sums have no order; few enough bits that
--- the sum of all is a double.
local function whole_weights(rows)
  local bits = math.min(38, 52 - math.ceil(math.log(rows.shape[2], 2)))
  return (rows / rows:amax(2, { keepdim = true }) * 2.0 ^ bits):round():long()
end

local function check_weights(probs, rows)
  local bad = rows:ge(0):logical_and(rows:lt(math.huge)):logical_not()
  local none = rows:sum(2):eq(0)
  if not bad:any():logical_or(none:any()):item() then return end
  if bad:any():item() then
    fail("multinomial", "probs has a value that is negative, infinite or NaN at position %d",
      bad:reshape(-1):long():argmax():item())
  end
  if none:any():item() then
    fail("multinomial", probs.ndim == 1 and "probs is 0 everywhere" or "row %d of probs is 0 everywhere",
      none:long():argmax():item())
  end
end

--- n positions drawn from each row of probs (any non-negative weights). Without replacement:
--- the largest of weight over an exponential number, which is half the sum of two squared normal ones.
---@param o table?  {replacement = false}
def("multinomial", 3, function(probs, n, ...)
  internal.need_tensor("multinomial", "probs", probs)
  if not probs:is_floating_point() then fail("multinomial", "probs is %s, need a float", probs.dtype) end
  local o = defaults("multinomial", { "replacement" }, { replacement = false }, ...)
  local replacement = o.replacement
  if type(replacement) ~= "boolean" then
    fail("multinomial", "replacement must be true or false, got %s", internal.word(replacement))
  end
  if probs.ndim ~= 1 and probs.ndim ~= 2 then fail("multinomial", "probs has %d axes, need 1 or 2", probs.ndim) end
  if need_int("multinomial", "n", n) < 1 then fail("multinomial", "n = %d, need at least 1", n) end
  local rows = probs:detach():double()
  if probs.ndim == 1 then rows = rows:unsqueeze(1) end
  local count, classes = rows.shape[1], rows.shape[2]
  if not replacement and n > classes then fail("multinomial", "n = %d of %d classes without replacement", n, classes) end
  if classes == 0 then fail("multinomial", "probs has no classes") end
  local shape = probs.ndim == 1 and { n } or { count, n }
  if count == 0 then return flame.zeros(shape, like(probs, "i64")) end
  check_weights(probs, rows)
  if replacement then
    local edges = whole_weights(rows):cumsum(2)
    local u = flame.rand({ count, n }, like(rows)) * edges:narrow(2, classes, 1):double()
    local at = call("searchsorted", "multinomial", { edges, u:floor():long() }, { count, classes, n, 1, 0 },
      { count, n }, "i64")
    return at:clamp(1, classes):reshape(shape):clone()
  end
  local a, b = flame.randn({ count, classes }, like(rows)), flame.randn({ count, classes }, like(rows))
  local _, at = (rows / (a * a + b * b)):topk(n, 2)
  return at:reshape(shape):clone()
end)
