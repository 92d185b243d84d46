-- Three bodies attract each other: a network learns to predict from positions and velocities where
-- they are a moment later. Its layers commute with rotations and reflections: for turned bodies it
-- predicts the turned positions. To show this, it is also tested on a rotated test set.
--   flame-lua examples/clifford.lua [--steps N] [--batch N] [--features N] [--device auto|cpu|cuda]
local flame = require "flame"
local nn, optim, data, clifford = require "flame.nn", require "flame.optim", require "flame.data",
  require "flame.clifford"

local options = data.options(arg, {
  { "device", "auto", "auto, cpu or cuda" },
  { "steps", 1500, "steps of training" },
  { "batch", 100, "systems a step" },
  { "features", 24, "multivectors a layer" },
  { "systems", 4000, "systems to learn from" },
  { "rate", 5e-3, "learning rate" },
  { "seed", 1, "of the random numbers" },
})
flame.default_device(options.device == "auto" and flame.best_device() or options.device)
flame.seed(options.seed)

-- ---- the bodies: positions and velocities of shape (3 coordinates, system, body) ----------------
local TIME = 0.5                                         -- of the prediction

--- Accelerations of bodies of mass 1 that attract each other, limited at small distances.
local function acceleration(p)
  local d = p:unsqueeze(3) - p:unsqueeze(4)                             -- from each body to all
  return (d / ((d * d):sum(1, { keepdim = true }) + 0.1) ^ 1.5):sum(4)
end
--- The positions after a time, in small steps (velocity Verlet).
local function later(p, v, time, steps)
  local dt = time / steps
  for _ = 1, steps do
    v = v + acceleration(p) * (dt / 2)
    p = p + v * dt
    v = v + acceleration(p) * (dt / 2)
  end
  return p
end
--- n random systems: positions and velocities as inputs (3, n, 6), and the positions after TIME.
local function systems(n)
  local p, v = flame.randn(3, n, 3), flame.randn(3, n, 3) * 0.5
  p, v = p - p:mean(3, { keepdim = true }), v - v:mean(3, { keepdim = true })
  return flame.cat({ p, v }, 3), later(p, v, TIME, 20)
end

--- The positions after TIME if bodies did not attract each other: the model adds to them, and its
--- error is compared with theirs.
local function straight(x) return x:narrow(3, 1, 3) + x:narrow(3, 4, 3) * TIME end

-- ---- the model ----------------------------------------------------------------------------------

local space = clifford.algebra(3)
local Net = nn.Module.extend("Net")
function Net:init(n)
  self.first = clifford.Linear(space, 6, n)
  local kind = { fully_connected = true, normalize = false }             -- keep lengths
  self.layers = nn.ModuleList { clifford.Layer(space, n, kind), clifford.Layer(space, n, kind) }
  self.last = clifford.Linear(space, n, 3, { bias = false })
end
--- Predicts positions (3, system, 3) from x (3, system, 6): straight lines plus a correction.
function Net:forward(x)
  local h = self.first(space:embed(x, 1))
  for _, layer in ipairs(self.layers) do h = h + layer(h) end
  return straight(x) + space:grade(self.last(h), 1)
end

local x, y = systems(options.systems)
local test_x, test_y = systems(500)
local net = Net(options.features)
local opt = optim.Adam(net:parameters(), { lr = options.rate })
local schedule = optim.schedule.cosine { opt = opt, steps = options.steps }

--- The root of the mean squared distance between predicted and actual positions.
local function distance(predicted, actual)
  return (((predicted - actual) ^ 2):sum(1):mean() ^ 0.5):item()
end

for step = 1, options.steps do
  local at = flame.randint({ options.batch }, 1, options.systems, { dtype = "i64" })
  local loss = flame.mse_loss(net(x:index_select(2, at)), y:index_select(2, at))
  opt:zero_grad()
  loss:backward()
  opt:step()
  schedule:step()
  if step % 250 == 0 then print(("step %d  loss %.5f"):format(step, loss:item())) end
end

flame.no_grad(function()
  local rotation = flame.qr(flame.randn(3, 3))          -- orthogonal; a reflection half of the time
  local function turned(v) return flame.einsum("ij,jsb->isb", rotation, v) end
  print(("test error %.4f, of the rotated test set %.4f, of straight lines %.4f"):format(
    distance(net(test_x), test_y),
    distance(net(turned(test_x)), turned(test_y)), distance(straight(test_x), test_y)))
end)
