--- Windows of signals: n values computed in f64 and rounded to the dtype at the end. A periodic
--- window, for transforms, is the beginning of a symmetric window of n + 1 values; symmetric ones
--- are for filters. The only value of a window of length 1 is 1.
local flame = require "flame"
local arguments = require "flame.base.arguments"
local fail, def = arguments.fail, arguments.def

-- The length of the symmetric window whose first n values are computed: n, or n + 1 if periodic.
local function length_of(op, n, periodic, sym)
  if n < 0 then fail(op, "n = %d, need at least 0", n) end
  if sym == false and not periodic then fail(op, "periodic = false and sym = false contradict") end
  if sym ~= nil then periodic = not sym end
  return periodic and n + 1 or n
end
-- The n values f(at, length, …) at positions at = 0, 1, … (f64), converted to dtype.
local function values(n, length, dtype, device, f, ...)
  local how = { dtype = "f64", device = device or flame.default_device() }
  dtype = dtype or flame.default_dtype()
  if n <= 1 then return flame.ones({ n }, how):to(dtype) end
  return f(flame.arange(0, n - 1, how), length, ...):to(dtype)
end
local MADE = ", *, sym?: bool, dtype?: dtype, device?: device) -> T"

-- Defines op(n[, periodic, own …]) with the values f(at, length, own …). own: the declarations of
-- the window's own parameters, each after a comma.
local function window(op, own, f)
  local _, count = own:gsub(",", "")
  def("." .. op .. "(n: int, periodic = true" .. own .. MADE, function(n, periodic, ...)
    local sym, dtype, device = select(count + 1, ...)
    return values(n, length_of(op, n, periodic, sym), dtype, device, f, ...)
  end)
end

-- The sum of (-1)^(k - 1) a[k] cos((k - 1) phase); the phase makes one period over the window.
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
  window(op, "", function(at, length) return cosines(at, length, a) end)
end
--- Hann's window: (1 - cos(p)) / 2, where p goes from 0 to 2 pi over the window.
of_cosines("hann_window", { 0.5, 0.5 })
--- The Blackman window.
of_cosines("blackman_window", { 0.42, 0.5, 0.08 })
--- Nuttall's minimal window of four cosines.
of_cosines("nuttall_window", { 0.3635819, 0.4891775, 0.1365995, 0.0106411 })
--- The Hamming window, alpha - beta cos(p), where p goes from 0 to 2 pi over the window.
window("hamming_window", ", alpha = 0.54, beta = 0.46",
  function(at, length, alpha, beta) return cosines(at, length, { alpha, beta }) end)
--- alpha - (1 - alpha) cos(p), where p goes from 0 to 2 pi over the window.
window("general_hamming_window", ", alpha = 0.54",
  function(at, length, alpha) return cosines(at, length, { alpha, 1 - alpha }) end)

--- The sum of (-1)^(k - 1) a[k] cos((k - 1) p), where p goes from 0 to 2 pi over the window.
def(".general_cosine_window(n: int, a: num[]|T, periodic = true" .. MADE,
  function(n, a, periodic, sym, dtype, device)
    local op = "general_cosine_window"
    local length = length_of(op, n, periodic, sym)
    if flame.is_tensor(a) and a.ndim == 1 then a = a:totable() end
    if type(a) ~= "table" or #a == 0 then
      fail(op, "a must be a list of weights, got %s", arguments.word(a))
    end
    return values(n, length, dtype, device, cosines, a)
  end)

--- A triangle.
window("bartlett_window", "", function(at, length)
  return 1 - (at * (2 / (length - 1)) - 1):abs()
end)
--- Half a period of a sine.
window("cosine_window", "", function(at, length)
  return ((at + 0.5) * (math.pi / length)):sin()
end)

local function positive(name, which, v)
  if not (v > 0) then fail(name, "%s = %g, need more than 0", which, v) end
  return v
end
--- A Gaussian of deviation std.
window("gaussian_window", ", std = 1.0", function(at, length, std)
  local x = (at - (length - 1) / 2) / positive("gaussian_window", "std", std)
  return (x * x * -0.5):exp()
end)
--- exp(-|k - center| / tau) for k = 0, 1, …; center is the middle by default.
window("exponential_window", ", center?: num, tau = 1.0", function(at, length, center, tau)
  local name = "exponential_window"
  if center and length == at.shape[1] then
    fail(name, "a symmetric window has its own center\1: leave it out")
  end
  return ((at - (center or (length - 1) / 2)):abs() * (-1 / positive(name, "tau", tau))):exp()
end)
--- Kaiser's window.
window("kaiser_window", ", beta = 12.0", function(at, length, beta)
  local t = at * (2 / (length - 1)) - 1
  local scale = flame.full({}, beta, { dtype = "f64", device = at.device })
  return ((1 - t * t):clamp({ min = 0 }):sqrt() * beta):i0() / scale:i0()
end)
