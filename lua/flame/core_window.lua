--- Windows of signals: n values in f64, rounded to the dtype at the end. A periodic one is the
-- beginning of a window of n + 1 values, for transforms; a symmetric one is for filters. With one
-- value or none a window is 1.
local flame, _, internal = ...
local fail, need_int, need_flag, def = internal.failf, internal.need_int,
  internal.need_flag, internal.def

--- The options of op(n, …): 'names' by position, 'own' the defaults of the window's own parameters.
local function read(op, n, names, own, ...)
  n = need_int(op, "n", n)
  if n < 0 then fail(op, "n = %d, need at least 0", n) end
  local known = { periodic = true, sym = "", dtype = flame.default_dtype(),
    device = flame.default_device() }
  for name, v in pairs(own) do known[name] = v end
  local o = internal.defaults(op, names, known, ...)
  if o.sym ~= "" then
    if need_flag(op, "sym", o.sym) == o.periodic and not o.sym then
      fail(op, "periodic = false and sym = false contradict")
    end
    o.periodic = not o.sym
  end
  return n, o
end

--- Define op(n[, periodic, …]). f(at, length, o): values at the f64 positions 0, 1, …; length: of
--- the symmetric window that they are of. names: of the parameters by position, behind periodic.
local function window(op, names, own, f)
  table.insert(names, 1, "periodic")
  def(op, #names + 2, function(first, ...)
    local n, o = read(op, first, names, own, ...)
    local how = { dtype = "f64", device = o.device }
    if n <= 1 then return flame.ones({ n }, how):to(o.dtype) end
    return f(flame.arange(0, n - 1, how), o.periodic and n + 1 or n, o):to(o.dtype)
  end, "module")
end

--- The sum of (-1)^k a[k] cos(k phase), one period over the window.
local function cosines(at, length, a)
  local phase = at * (2 * math.pi / (length - 1))
  local y = 0
  for k = #a, 2, -1 do
    local term = a[k] * (k == 2 and phase or (k - 1) * phase):cos()
    y = k % 2 == 0 and y - term or y + term
  end
  return #a > 1 and y + a[1] or at * 0 + a[1]
end
local function of_cosines(op, a)
  window(op, {}, {}, function(at, length) return cosines(at, length, a) end)
end
of_cosines("hann_window", { 0.5, 0.5 })
of_cosines("blackman_window", { 0.42, 0.5, 0.08 })
of_cosines("nuttall_window", { 0.3635819, 0.4891775, 0.1365995, 0.0106411 })
window("hamming_window", { "alpha", "beta" }, { alpha = 0.54, beta = 0.46 }, function(at, length, o)
  return cosines(at, length, { o.alpha, o.beta })
end)
window("general_hamming_window", { "alpha" }, { alpha = 0.54 }, function(at, length, o)
  return cosines(at, length, { o.alpha, 1 - o.alpha })
end)

local op = "general_cosine_window"
def(op, 5, internal.placed(op, function(first, a, ...)
  local n, o = read(op, first, { "periodic" }, {}, ...)
  if flame.is_tensor(a) and a.ndim == 1 then a = a:totable() end
  if type(a) ~= "table" or #a == 0 then
    fail(op, "a must be a list of weights, got %s", internal.word(a))
  end
  for k, v in ipairs(a) do
    if type(v) ~= "number" then fail(op, "a[%d] must be a number, got %s", k, internal.word(v)) end
  end
  local how = { dtype = "f64", device = o.device }
  if n <= 1 then return flame.ones({ n }, how):to(o.dtype) end
  return cosines(flame.arange(0, n - 1, how), o.periodic and n + 1 or n, a):to(o.dtype)
end, "a", 5), "module")

window("bartlett_window", {}, {}, function(at, length)
  return 1 - (at * (2 / (length - 1)) - 1):abs()
end)
window("cosine_window", {}, {}, function(at, length)
  return ((at + 0.5) * (math.pi / length)):sin()
end)

local function positive(name, which, v)
  if not (v > 0) then fail(name, "%s = %g, need more than 0", which, v) end
  return v
end
window("gaussian_window", { "std" }, { std = 1.0 }, function(at, length, o)
  local x = (at - (length - 1) / 2) / positive("gaussian_window", "std", o.std)
  return (x * x * -0.5):exp()
end)
window("exponential_window", { "center", "tau" }, { center = false, tau = 1.0 },
  function(at, length, o)
  local name = "exponential_window"
  if o.center and type(o.center) ~= "number" then
    fail(name, "center must be a number, got %s", internal.word(o.center))
  end
  if o.center and not o.periodic then
    fail(name, "a symmetric window has its own center\1: leave it out")
  end
  return ((at - (o.center or (length - 1) / 2)):abs() * (-1 / positive(name, "tau", o.tau))):exp()
end)
window("kaiser_window", { "beta" }, { beta = 12.0 }, function(at, length, o)
  local t = at * (2 / (length - 1)) - 1
  local beta = flame.full({}, o.beta, { dtype = "f64", device = at.device })
  return ((1 - t * t):clamp({ min = 0 }):sqrt() * o.beta):i0() / beta:i0()
end)
