-- Burgers' equation solved by a network that is trained on the equation itself: no solution is
-- shown to it; its loss is the violation of the equation at random places and times.
-- What this shows: derivatives of a network with respect to its inputs, of first and second order,
-- are part of a loss (a physics-informed network, PINN).
-- Method: Raissi et al., "Physics-informed neural networks" (J. Comp. Phys. 2019). The exact
-- solution, to compare with, is the integral of Cole and Hopf.
--   flame-lua examples/gallery/burgers.lua [--device auto|cpu|cuda] [--out burgers.svg]
-- on a GPU: --viscosity 0.01 --width 64 --points 20000 --steps 1000
local flame = require "flame"
local nn, data, optim = require "flame.nn", require "flame.data", require "flame.optim"
local plot = require "flame.plot"

local options = data.options(arg, {
  { "device", "auto", "auto, cpu or cuda" },
  { "viscosity", 0.03, "the smaller, the steeper the shock" },
  { "width", 20, "units of a layer" },
  { "points", 600, "places and times" },
  { "steps", 200, "steps of the optimiser" },
  { "out", "burgers.svg", "the picture that is written" },
})
flame.default_device(options.device == "auto" and flame.best_device() or options.device)
flame.seed(1)
local nu = options.viscosity

local net = nn.Sequential { nn.Linear(2, options.width), nn.Tanh(),
  nn.Linear(options.width, options.width), nn.Tanh(), nn.Linear(options.width, options.width),
  nn.Tanh(), nn.Linear(options.width, 1) }
--- u(x, t), x and t of shape (n, 1). It is -sin(pi x) at t = 0, and 0 at x = -1 and 1. The formula
--- guarantees both, so the loss has no terms for them.
local function solution(x, t)
  return -(x * math.pi):sin() + t * (1 - x:square()) * net(flame.cat({ x, t }, 2))
end

--- The violation of the equation: u_t + u u_x - nu u_xx, where _t and _x are derivatives.
local function residual(x, t)
  x.requires_grad, t.requires_grad = true, true
  local u = solution(x, t)
  local first = u:sum():gradients({ x, t }, { create_graph = true })
  local second = first[x]:sum():gradients({ x }, { create_graph = true })[x]
  return first[t] + u * first[x] - nu * second
end

-- half of the points near the middle, where the shock is
local half = options.points // 2
local x = flame.cat({ flame.uniform({ half, 1 }, -1, 1), flame.randn(half, 1) * 0.15 }, 1)
x = x:clamp(-1, 1)
local t = flame.rand(2 * half, 1)

local opt = optim.LBFGS(net:parameters(), { max_iter = 4, history_size = 30,
  line_search_fn = "strong_wolfe" })
local losses = {}
for step = 1, options.steps do
  local loss = opt:step(function()
    opt:zero_grad()
    local l = residual(x:detach(), t:detach()):square():mean()
    l:backward()
    return l
  end)
  losses[step] = loss:item()
  if step == 1 or step % math.max(1, options.steps // 5) == 0 then
    print(("step %4d  residual %.6f"):format(step, losses[step]))
  end
end

-- the exact solution on a grid of places and times: the integral over eta, as a sum of 401 values
local columns, rows = 61, 41
local place = flame.linspace(-1, 1, columns, { dtype = "f64" }):reshape(1, columns, 1)
local time = flame.linspace(0.02, 1, rows, { dtype = "f64" }):reshape(rows, 1, 1)
local eta = flame.linspace(-6, 6, 401, { dtype = "f64" }):reshape(1, 1, 401)
local from = place - eta * (4 * nu * time):sqrt()
local weight = (-(from * math.pi):cos() / (2 * math.pi * nu) - eta:square())
weight = (weight - weight:amax(3, { keepdim = true })):exp()
local truth = -((from * math.pi):sin() * weight):sum(3) / weight:sum(3)
local found = flame.no_grad(function()
  return solution(place:float():expand(rows, columns, 1):reshape(-1, 1),
    time:float():expand(rows, columns, 1):reshape(-1, 1)):reshape(rows, columns):double()
end)
local distance = ((found - truth):square():sum() / truth:square():sum()):sqrt():item()

local field = plot.new { title = "What the network found", xlabel = "place", ylabel = "time",
  width = 380, height = 270 }
  :heatmap(found:flip(1), { map = "signed", limits = { -1, 1 }, xlim = { -1, 1 }, ylim = { 0, 1 } })
local cuts = plot.new { title = "At three times", xlabel = "place", width = 380, height = 270 }
for k, row in ipairs { 1, rows // 2, rows } do
  local at = place:reshape(-1)
  cuts:line(at, truth[row], { colour = k, width = 4, alpha = 0.4 })
  local label = ("t = %.2f"):format(time[row]:item())
  cuts:line(at, found[row], { colour = k, dash = true, label = label })
end
plot.grid({ field, cuts }, { columns = 2 }):save(options.out)
print("wrote " .. options.out)
print(("measure: relative distance: %.4f, at most 0.03"):format(distance))
