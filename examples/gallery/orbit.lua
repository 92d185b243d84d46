-- The orbit of an asteroid from a few directions in which it was observed: at which place and with
-- which velocity did it start? Distances were not observed, so all observations are needed
-- together. What this shows: many guesses are tried at once, one per thread, and gradients through
-- the integrator improve each of them, in f64.
-- Method: differential correction of orbits by least squares, Gauss, "Theoria motus" (1809).
--   flame-lua examples/gallery/orbit.lua [--device auto|cpu|cuda] [--out orbit.svg]
-- on a GPU: --guesses 4096 --substeps 200 --steps 100
local flame = require "flame"
local data, optim, plot = require "flame.data", require "flame.optim", require "flame.plot"

local options = data.options(arg, {
  { "device", "auto", "auto, cpu or cuda" },
  { "guesses", 16, "orbits that are tried at once" },
  { "substeps", 8, "steps of the integrator between two observations" },
  { "seen", 24, "observations, 10 days apart" },
  { "steps", 80, "steps of the optimiser" },
  { "out", "orbit.svg", "the picture that is written" },
})
flame.default_device(options.device == "auto" and flame.best_device() or options.device)
flame.default_dtype("f64")
flame.seed(4)
local guesses, seen = options.guesses, options.seen
local days = 10

-- One thread computes one orbit. state: its position (the Earth is at distance 1 from the sun) and
-- its velocity (the Earth's is 1, so a year has 2 pi units of time). Steps of position Verlet (half
-- a step of p, one of v, half a step of p); track gets the position at each observation.
local fly = flame.kernel { source = [[
__global__ void fly(const double *state, double *track, int seen, int substeps, double dt, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  double p[3], v[3];
  for (int k = 0; k < 3; ++k) { p[k] = state[6 * i + k]; v[k] = state[6 * i + 3 + k]; }
  for (int s = 0; s < seen; ++s) {
    for (int t = 0; t < substeps; ++t) {
      for (int k = 0; k < 3; ++k) p[k] += 0.5 * dt * v[k];
      double r2 = p[0] * p[0] + p[1] * p[1] + p[2] * p[2] + 1e-4, pull = dt / (r2 * sqrt(r2));
      for (int k = 0; k < 3; ++k) v[k] -= pull * p[k];
      for (int k = 0; k < 3; ++k) p[k] += 0.5 * dt * v[k];
    }
    for (int k = 0; k < 3; ++k) track[3 * (i * seen + s) + k] = p[k];
  }
}
]], block = { 64 } }
--- The places (guess, observation, 3) of orbits that begin in states (guess, 6).
local function tracks(state, count)
  local n, year = state:size(1), 2 * math.pi / 365.25                  -- a day in units of time
  return fly:with { shape = { n, count, 3 }, grid = { (n + 63) // 64 } }(
    state, count, options.substeps, days * year / options.substeps, n)
end

local earth = tracks(flame.tensor { { 1, 0, 0, 0, 1, 0 } }, seen)
local truth = flame.tensor { { 1.9, 1.3, 0.25, -0.35, 0.55, 0.06 } }
--- The directions in which tracks are seen from the Earth: vectors of length 1.
local function directions(track)
  local d = track - earth
  return d / d:square():sum(3, { keepdim = true }):sqrt()
end
local observed = directions(tracks(truth, seen)) + flame.randn(1, seen, 3) * 1e-5      -- off by 2"

--- For each guess the mean square of the angles between its directions and the observed ones.
local function errors(state)
  return (directions(tracks(state, seen)) - observed):square():sum(3):mean(2)
end
--- Improves all guesses by gradient descent.
local function improve(state, steps)
  state = state:detach():requires_grad_(true)
  local opt = optim.LBFGS({ state }, { max_iter = 1, history_size = 20,
    line_search_fn = "strong_wolfe" })
  for step = 1, steps do
    local each
    opt:step(function()
      opt:zero_grad()
      each = errors(state)
      -- the logarithm gives good and bad guesses equal weight
      local l = (each + 1e-12):log():mean()
      l:backward()
      return l
    end)
    if step == 1 or step % math.max(1, steps // 5) == 0 then
      print(("step %4d  the best of %d guesses is off by %.6f degrees"):format(step, #state,
        math.deg(each:amin():sqrt():item())))
    end
  end
  return state
end

local state = flame.tensor { 1.5, 1, 0, -0.4, 0.6, 0 } + flame.randn(guesses, 6) * 0.2
if guesses > 16 then                                              -- continues with the best guesses
  local _, near = errors(state):topk(16, 1, { largest = false })
  state = state[near]
end
state = improve(state, options.steps)

local best = state:detach()[errors(state):argmin():item()]:reshape(1, 6)
local later = 2 * seen
local found, actual = tracks(best, later)[1], tracks(truth, later)[1]
local p = plot.new { title = "From above, in distances of the Earth", width = 480, height = 330,
  xlim = { -2.6, 2.4 }, ylim = { -1.2, 2.9 } }
p:line(earth[1]:select(2, 1), earth[1]:select(2, 2), { label = "Earth" })
p:line(actual:select(2, 1), actual:select(2, 2), { label = "asteroid", width = 5, alpha = 0.4 })
p:line(found:select(2, 1), found:select(2, 2), { label = "found", colour = "#000000", dash = true })
for s = 1, seen, 4 do                                              -- lines of sight
  local e = earth[1][s]
  local far = e + 3 * observed[1][s]
  p:line(flame.stack { e[1], far[1] }, flame.stack { e[2], far[2] },
    { colour = "#999999", width = 1, dash = false, label = s == 1 and "seen" or nil })
end
p:save(options.out)
print("wrote " .. options.out)
local distance = (found[later] - actual[later]):square():sum():sqrt():item()
print(("measure: distance after %d days: %.5f, at most 0.001"):format(days * later, distance))
