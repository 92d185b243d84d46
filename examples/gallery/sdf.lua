-- A neural signed distance field: a small network learns the distance of every place of the plane
-- from a star, knowing only points on the star's border.
-- What this shows: a loss may contain a gradient. The gradient of a distance has length 1
-- everywhere, and the loss requires this of the network's gradient; training differentiates it once
-- more.
-- Method: Gropp et al., "Implicit geometric regularization for learning shapes" (ICML 2020).
--   flame-lua examples/gallery/sdf.lua [--device auto|cpu|cuda] [--out sdf.svg]
-- on a GPU: --width 256 --batch 16384 --steps 3000
local flame = require "flame"
local nn, data, optim = require "flame.nn", require "flame.data", require "flame.optim"
local plot = require "flame.plot"

local options = data.options(arg, {
  { "device", "auto", "auto, cpu or cuda" },
  { "width", 48, "units of a layer" },
  { "batch", 256, "points a step" },
  { "steps", 400, "steps of the optimiser" },
  { "rate", 5e-3, "learning rate" },
  { "out", "sdf.svg", "the picture that is written" },
})
flame.default_device(options.device == "auto" and flame.best_device() or options.device)
flame.seed(1)

--- Points (n, 2) on the border of the star at given angles, and the normals there.
local function border(angle)
  local r, slope = 0.55 + 0.15 * (5 * angle):cos(), -0.75 * (5 * angle):sin()
  local c, s = angle:cos(), angle:sin()
  local normal = flame.stack({ r * c + slope * s, r * s - slope * c }, 2)
  normal = normal / normal:square():sum(2, { keepdim = true }):sqrt()
  return flame.stack({ r * c, r * s }, 2), normal
end

local Field = nn.Module.extend("Field")
function Field:init(width)
  self.first, self.second = nn.Linear(2, width), nn.Linear(width, width)
  self.last = nn.Linear(width, 1)
end
--- The learned distance (n) at points (n, 2): that to a circle plus the network's correction.
function Field:forward(x)
  local h = (self.first(x) * 4):sin()
  h = h + self.second(h):tanh()
  return (x:square():sum(2) + 1e-4):sqrt() - 0.5 + 0.3 * self.last(h):squeeze(2)
end
--- The field at points x, and its gradient (n, 2), which can be differentiated once more.
local function with_slope(field, x)
  x.requires_grad = true
  local f = field(x)
  return f, f:sum():gradients({ x }, { create_graph = true })[x]
end

local field = Field(options.width)
local opt = optim.Adam(field:parameters(), { lr = options.rate })
local schedule = optim.schedule.cosine { opt = opt, steps = options.steps, min = 1e-4 }
for step = 1, options.steps do
  local on, normal = border(flame.rand(options.batch) * 2 * math.pi)
  local anywhere = flame.uniform({ options.batch, 2 }, -1, 1)
  local loss = opt:step(function()
    opt:zero_grad()
    local zero, outward = with_slope(field, on:detach())
    local _, slope = with_slope(field, anywhere:detach())
    local length = (slope:square():sum(2) + 1e-8):sqrt()
    local l = 10 * zero:square():mean() + (outward - normal):square():sum(2):mean()
      + (length - 1):square():mean()
    l:backward()
    return l
  end)
  schedule:step()
  if step == 1 or step % math.max(1, options.steps // 5) == 0 then
    print(("step %4d  loss %.4f"):format(step, loss:item()))
  end
end

-- the true distance on a grid: that to the nearest of many points of the border, negative inside
local grid = 40
local axis = flame.linspace(-1, 1, grid)
local x, y = axis:reshape(1, grid):expand(grid, grid), axis:reshape(grid, 1):expand(grid, grid)
local points = flame.stack({ x:reshape(-1), y:reshape(-1) }, 2)
local curve = border(flame.linspace(0, 2 * math.pi, 721))
local nearest = (points:unsqueeze(2) - curve:unsqueeze(1)):square():sum(3):amin(2):sqrt()
local angle = flame.atan2(points:select(2, 2), points:select(2, 1))
local inside = points:square():sum(2):sqrt():lt(0.55 + 0.15 * (5 * angle):cos())
local truth = flame.where(inside, -nearest, nearest)
local found = flame.no_grad(function() return field(points) end)

local pictures = {}
for k, p in ipairs { { "True distance", truth }, { "Learned", found } } do
  local z = p[2]:reshape(grid, grid)
  pictures[k] = plot.new { title = p[1], width = 340, height = 300 }
    :contour(z, { x = axis, y = axis, levels = { -0.3, -0.2, -0.1, 0, 0.1, 0.2, 0.3, 0.4 } })
    :line(curve:select(2, 1), curve:select(2, 2), { colour = "#000000", width = 1, dash = true })
end
plot.grid(pictures, { columns = 2 }):save(options.out)
print("wrote " .. options.out)
local error = (found - truth):abs():mean():item()
print(("measure: mean error of the distance: %.4f, at most 0.02"):format(error))
