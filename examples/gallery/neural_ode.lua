-- A neural ordinary differential equation: a network learns the law of motion of a spiral from
-- noisy tracks, and then continues one that it has never seen.
-- What this shows: a solver is a loop of ordinary operations, so gradients go through it. What the
-- network learns is a law of motion, not a table of places.
-- Method: Chen et al., "Neural ordinary differential equations" (NeurIPS 2018).
--   flame-lua examples/gallery/neural_ode.lua [--device auto|cpu|cuda] [--out neural_ode.svg]
-- on a GPU: --width 256 --tracks 2048 --steps 2000
local flame = require "flame"
local nn, data, optim = require "flame.nn", require "flame.data", require "flame.optim"
local plot = require "flame.plot"

local options = data.options(arg, {
  { "device", "auto", "auto, cpu or cuda" },
  { "width", 32, "units of the hidden layer" },
  { "tracks", 32, "tracks to learn from" },
  { "long", 20, "places of a track" },
  { "steps", 500, "steps of the optimiser" },
  { "rate", 1e-2, "learning rate" },
  { "out", "neural_ode.svg", "the picture that is written" },
})
flame.default_device(options.device == "auto" and flame.best_device() or options.device)
flame.seed(1)

--- The places (time, track, 2) of points that move with the velocity law(place), by the
--- fourth-order method of Runge and Kutta.
local function solve(law, x, count, dt)
  local track = { x }
  for k = 2, count do
    local a = law(x)
    local b = law(x + a * (dt / 2))
    local c = law(x + b * (dt / 2))
    local d = law(x + c * dt)
    x = x + (a + 2 * b + 2 * c + d) * (dt / 6)
    track[k] = x
  end
  return flame.stack(track)
end

--- The true law, the velocity at places x: a spiral inwards, faster at large distances.
local turn = flame.tensor { { -0.05, 0.5 }, { -0.5, -0.05 } }
local function spiral(x) return (x ^ 3):matmul(turn) end

local dt = 0.05
local tracks = solve(spiral, flame.uniform({ options.tracks, 2 }, -2, 2), options.long, dt)
local seen = tracks + flame.randn_like(tracks) * 0.01

-- the network also gets the cubes of the places, so it need not learn them
local net = nn.Sequential { nn.Linear(4, options.width), nn.Tanh(), nn.Linear(options.width, 2) }
local straight = nn.Linear(4, 2)
local function law(x)
  local features = flame.cat({ x, x ^ 3 * 0.2 }, 2)
  return straight(features) + net(features)
end

local parameters = net:parameters()
for _, p in ipairs(straight:parameters()) do parameters[#parameters + 1] = p end
local opt = optim.Adam(parameters, { lr = options.rate })
local schedule = optim.schedule.cosine { opt = opt, steps = options.steps, min = 1e-4 }
-- train on short parts of the tracks, one from each observed place: on a long track the errors of a
-- bad law grow
local short = 5
local starts = seen:narrow(1, 1, options.long - short + 1)
local pieces = {}
for k = 1, short do pieces[k] = seen:narrow(1, k, options.long - short + 1):reshape(-1, 2) end
local ways = flame.stack(pieces)
for step = 1, options.steps do
  local loss = opt:step(function()
    opt:zero_grad()
    local l = (solve(law, starts:reshape(-1, 2), short, dt) - ways):square():mean()
    l:backward()
    return l
  end)
  schedule:step()
  if step == 1 or step % math.max(1, options.steps // 5) == 0 then
    print(("step %4d  loss %.6f"):format(step, loss:item()))
  end
end

local start = flame.tensor { { 2, 0 }, { -0.3, -1.6 } }
local count = 120
local actual = solve(spiral, start, count, dt)
local found = flame.no_grad(function() return solve(law, start, count, dt) end)
local p = plot.new { title = "Two tracks that were not seen", width = 460, height = 380 }
p:scatter(seen:select(3, 1):reshape(-1), seen:select(3, 2):reshape(-1),
  { label = "seen", size = 2, colour = "#999999" })
for k = 1, 2 do
  p:line(actual:select(2, k):select(2, 1), actual:select(2, k):select(2, 2),
    { colour = k, width = 5, alpha = 0.35, label = k == 1 and "truth" or nil })
  p:line(found:select(2, k):select(2, 1), found:select(2, k):select(2, 2),
    { colour = k, label = k == 1 and "learned" or nil })
end
p:save(options.out)
print("wrote " .. options.out)
local distance = (found - actual):square():sum(3):sqrt():mean():item()
print(("measure: mean distance of the tracks: %.4f, at most 0.1"):format(distance))
