-- How does a cloud of points rotate? From places and velocities of the points of a rigid body,
-- layers of multivectors learn its angular velocity, which belongs to a plane and so is a bivector.
-- What this shows: these layers commute with rotations. The clouds of the training set lie flat on
-- the ground; those of the test set are rotated at random, and the network is as exact for them.
-- Method: Ruhe et al., "Clifford group equivariant neural networks" (NeurIPS 2023).
--   flame-lua examples/gallery/clouds.lua [--device auto|cpu|cuda] [--out clouds.png]
-- on a GPU: --clouds 20000 --features 48 --batch 1000 --steps 1000
local flame = require "flame"
local nn, data, optim = require "flame.nn", require "flame.data", require "flame.optim"
local plot, clifford = require "flame.plot", require "flame.clifford"

local options = data.options(arg, {
  { "device", "auto", "auto, cpu or cuda" },
  { "clouds", 1000, "clouds to learn from" },
  { "points", 12, "points of a cloud" },
  { "features", 12, "multivectors a layer" },
  { "batch", 100, "clouds a step" },
  { "steps", 500, "steps of the optimiser" },
  { "rate", 1e-2, "learning rate" },
  { "out", "clouds.png", "the picture that is written" },
})
flame.default_device(options.device == "auto" and flame.best_device() or options.device)
flame.seed(1)
local space = clifford.algebra(3)

--- n flat clouds: places and velocities (3, n, points), and angular velocities (3, n), bivectors
-- with components for the planes xy, xz and yz.
local function clouds(n)
  local shape = flame.tensor({ 1, 0.8, 0.5 }):reshape(3, 1, 1)
  local place = flame.randn(3, n, options.points) * shape
  place = place - place:mean(3, { keepdim = true })
  local turning = flame.randn(3, n)
  local x, y, z = table.unpack(place:unbind(1))
  local xy, xz, yz = table.unpack(turning:unsqueeze(3):unbind(1))
  local velocity = flame.stack { -xy * y - xz * z, xy * x - yz * z, xz * x + yz * y }
  return place, velocity, turning
end
--- Rotates vectors (3, n, points) by a 3 x 3 matrix.
local function turned(rotation, v) return flame.einsum("ij,jnp->inp", rotation, v) end
--- Rotates bivectors (3, n): they are antisymmetric matrices M, which become R M R^T.
local function turned_plane(rotation, b)
  local xy, xz, yz = table.unpack(b:unbind(1))
  local zero = flame.zeros_like(xy)
  local matrix = flame.stack { flame.stack { zero, xy, xz }, flame.stack { -xy, zero, yz },
    flame.stack { -xz, -yz, zero } }
  local m = flame.einsum("ij,jkn,lk->iln", rotation, matrix, rotation)
  return flame.stack { m[1][2], m[1][3], m[2][3] }
end

local Net = nn.Module.extend("Net")
function Net:init(n)
  local kind = { fully_connected = true, normalize = false }
  self.first = clifford.Linear(space, 2, n)
  self.point = clifford.Layer(space, n, kind)
  self.cloud = nn.ModuleList { clifford.Layer(space, n, kind), clifford.Layer(space, n, kind) }
  self.last = clifford.Linear(space, n, 1, { bias = false })
end
--- Angular velocities from layers for each point, the mean over the points, and layers per cloud.
function Net:forward(place, velocity)
  local n, points = place:size(2), place:size(3)
  local x = flame.stack({ place, velocity }, 4):reshape(3, n * points, 2)
  local h = self.point(self.first(space:embed(x, 1)))
  h = h:reshape(8, n, points, -1):mean(3)                -- 8: components of a multivector
  for _, layer in ipairs(self.cloud) do h = h + layer(h) end
  return space:grade(self.last(h), 2):squeeze(3)
end

local place, velocity, turning = clouds(options.clouds)
local net = Net(options.features)
local opt = optim.Adam(net:parameters(), { lr = options.rate })
local schedule = optim.schedule.cosine { opt = opt, steps = options.steps, min = 1e-4 }
for step = 1, options.steps do
  local at = flame.randint({ options.batch }, 1, options.clouds)
  local p, v = place:index_select(2, at), velocity:index_select(2, at)
  local b = turning:index_select(2, at)
  local loss = opt:step(function()
    opt:zero_grad()
    local l = (net(p, v) - b):square():sum(1):mean()
    l:backward()
    return l
  end)
  schedule:step()
  if step == 1 or step % math.max(1, options.steps // 5) == 0 then
    print(("step %4d  loss %.4f"):format(step, loss:item()))
  end
end

local p, v, b = clouds(150)
local rotation = flame.qr(flame.randn(3, 3))
local b2 = turned_plane(rotation, b)
local flat, any = flame.no_grad(function()
  return net(p, v), net(turned(rotation, p), turned(rotation, v))
end)
local function distance(found, actual)
  return ((found - actual):square():sum() / actual:square():sum()):sqrt():item()
end
local pictures = {}
for k, c in ipairs { { "Flat clouds, as in training", b, flat }, { "Turned clouds", b2, any } } do
  pictures[k] = plot.new { title = c[1], xlabel = "true turning", ylabel = "found", width = 300,
    height = 270, legend = false }:line({ -3, 3 }, { -3, 3 }, { colour = "#999999", width = 1 })
  for axis = 1, 3 do
    pictures[k]:scatter(c[2][axis], c[3][axis], { colour = axis, size = 3, alpha = 0.7 })
  end
end
plot.grid(pictures, { columns = 2 }):save(options.out, { scale = 1 })
print("wrote " .. options.out)
print(("relative distance of the flat clouds %.4f"):format(distance(flat, b)))
print(("measure: relative distance of the turned clouds: %.4f, at most 0.33"):format(
  distance(any, b2)))
