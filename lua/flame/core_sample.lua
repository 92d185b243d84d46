--- Random positions: permutations and draws by weight. They use what is the same on every device
-- bit for bit (draws, quotients, integer sums, sorts), so the same seed draws the same everywhere.
local flame, _, internal = ...
local fail, need_int, def = internal.failf, internal.need_int, internal.def
local options, defaults, call = internal.options, internal.defaults, internal.call

local FEW = 1 << 16                        -- classes that one block of threads adds up

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

--- Running sums of the weights as integers of at most 38 bits, so that they have no order; few enough
--- bits that the sum of all is a double. The last is not above 0 where a row has no such weights.
local function edges_of(rows, top)
  local count, classes = rows.shape[1], rows.shape[2]
  local bits = math.min(38, 52 - math.ceil(math.log(classes, 2)))
  if not top then return call("weights", "multinomial", { rows }, { count, classes, bits }, rows.shape, "i64") end
  return (rows:double() / top:double() * 2.0 ^ bits):round():long():cumsum(2)
end

--- The largest of each row (count, 1), of weights that are some.
local function checked(probs, rows)
  local top = rows:amax(2)
  if rows:amin(2):ge(0):logical_and(top:gt(0)):logical_and(top:lt(math.huge)):all():item() then
    return top:reshape(-1, 1)
  end
  local bad = rows:ge(0):logical_and(rows:lt(math.huge)):logical_not()
  local none = rows:sum(2):eq(0)
  if bad:any():item() then
    fail("multinomial", "probs has a value that is negative, infinite or NaN at position %d",
      bad:reshape(-1):long():argmax():item())
  end
  if none:any():item() then
    fail("multinomial", probs.ndim == 1 and "probs is 0 everywhere" or "row %d of probs is 0 everywhere",
      none:long():argmax():item())
  end
end

--- rows, each a draw of n by weight; it looks at the weights, so it evaluates.
local function with_replacement(probs, rows, n)
  local count, classes = rows.shape[1], rows.shape[2]
  local few = classes <= FEW
  local top = not few and checked(probs, rows) or nil
  local edges = edges_of(rows, top)
  local last = edges:narrow(2, classes, 1)
  if few and (count == 1 and last or last:amin()):item() <= 0 then checked(probs, rows) end
  local u = flame.rand({ count, n }, like(rows, "f64")) * last:double()     -- below the sum: n + 1 never comes
  return call("searchsorted", "multinomial", { edges, u:floor():long() }, { count, classes, n, 1, 0 }, { count, n }, "i64")
end

--- The largest of weight over an exponential number, which is half the sum of two squared normal ones.
local function without_replacement(probs, rows, n)
  local top, a, b = checked(probs, rows), flame.randn(rows.shape, like(rows)), flame.randn(rows.shape, like(rows))
  local _, at = (rows / top / (a * a + b * b + 1e-30)):topk(n, 2)           -- never 0 / 0, which would win
  return at
end

--- n positions drawn from each row of probs (any non-negative weights).
---@param o table?  {replacement = false}
def("multinomial", 3, function(probs, n, ...)
  internal.need_tensor("multinomial", "probs", probs)
  if not probs:is_floating_point() then fail("multinomial", "probs is %s, need a float", probs.dtype) end
  local replacement = defaults("multinomial", { "replacement" }, { replacement = false }, ...).replacement
  if type(replacement) ~= "boolean" then
    fail("multinomial", "replacement must be true or false, got %s", internal.word(replacement))
  end
  if probs.ndim ~= 1 and probs.ndim ~= 2 then fail("multinomial", "probs has %d axes, need 1 or 2", probs.ndim) end
  if need_int("multinomial", "n", n) < 1 then fail("multinomial", "n = %d, need at least 1", n) end
  local rows = probs:detach():to(probs.dtype == "f64" and "f64" or "f32")
  if probs.ndim == 1 then rows = rows:unsqueeze(1) end
  local count, classes = rows.shape[1], rows.shape[2]
  if not replacement and n > classes then fail("multinomial", "n = %d of %d classes without replacement", n, classes) end
  if classes == 0 then fail("multinomial", "probs has no classes") end
  local shape = probs.ndim == 1 and { n } or { count, n }
  if count == 0 then return flame.zeros(shape, like(probs, "i64")) end
  return (replacement and with_replacement or without_replacement)(probs, rows, n):reshape(shape):clone()
end)
