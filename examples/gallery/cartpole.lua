-- A cart learns to balance a pole by trial and error (a policy gradient): moves that turned out
-- well become more likely. No gradient of the physics is needed.
-- What this shows: thousands of moves of many carts are computed together, since no value is read
-- in between; the gradient is that of the logarithm of a probability.
-- Method: Williams, "REINFORCE" (Machine Learning 1992); the cart of Barto, Sutton and Anderson
-- (IEEE Trans. SMC 1983).
--   flame-lua examples/gallery/cartpole.lua [--device auto|cpu|cuda] [--out cartpole.svg]
-- on a GPU: --carts 4096 --time 500 --steps 200
local flame = require "flame"
local nn, data, optim = require "flame.nn", require "flame.data", require "flame.optim"
local plot = require "flame.plot"

local options = data.options(arg, {
  { "device", "auto", "auto, cpu or cuda" },
  { "carts", 48, "carts at a time" },
  { "time", 200, "moves, at most" },
  { "steps", 40, "steps of the optimiser" },
  { "rate", 2e-2, "learning rate" },
  { "out", "cartpole.svg", "the picture that is written" },
})
flame.default_device(options.device == "auto" and flame.best_device() or options.device)
flame.seed(2)
local carts, time = options.carts, options.time

--- The state (carts, 4: place, velocity, angle, angular velocity) after a push of 10 N to the right
--- where right is 1, to the left where it is 0, for 0.02 s.
local function push(state, right)
  local x, v, a, w = table.unpack(state:unbind(2))
  local s, c = a:sin(), a:cos()
  local force = (right * 20 - 10 + 0.05 * w:square() * s) / 1.1
  local turning = (9.8 * s - c * force) / (0.5 * (4 / 3 - 0.1 * c:square() / 1.1))
  local moving = force - 0.05 * turning * c / 1.1
  return flame.stack({ x + 0.02 * v, v + 0.02 * moving, a + 0.02 * w, w + 0.02 * turning }, 2)
end
local function upright(state)                            -- 1: the pole has not fallen; 0: it has
  local x, _, a = table.unpack(state:unbind(2))
  return (x:abs():lt(2.4):float()) * (a:abs():lt(math.rad(12)):float())
end

local net = nn.Sequential { nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1) }
local scale = flame.tensor { 1, 1, 5, 1 }
--- How much the network is for a push to the right: the sigmoid of this is the probability.
local function policy(state) return net(state * scale):squeeze(-1) end

--- Runs the carts with moves drawn by the policy. Returns the states (time, carts, 4), the pushes
--- and which poles were still up (time, carts).
local function try()
  local state, up = flame.uniform({ carts, 4 }, -0.05, 0.05), flame.ones(carts)
  local states, pushes, ups = {}, {}, {}
  for t = 1, time do
    local right = flame.rand(carts):lt(policy(state):sigmoid()):float()
    states[t], pushes[t], ups[t] = state, right, up
    state = push(state, right)
    up = up * upright(state)
  end
  return flame.stack(states), flame.stack(pushes), flame.stack(ups)
end

local opt = optim.Adam(net:parameters(), { lr = options.rate })
local balanced = {}
for step = 1, options.steps do
  local states, pushes, ups = flame.no_grad(try)
  -- how good each move was: the number of moves from it until the pole fell, minus the mean of this
  -- number over the carts
  local left = ups:flip(1):cumsum(1):flip(1)
  local count = ups:sum(2, { keepdim = true })
  local advantage = (left - (left * ups):sum(2, { keepdim = true }) / count:clamp(1, carts)) * ups
  advantage = advantage / ((advantage:square():sum() / ups:sum()):sqrt() + 1e-6)
  opt:step(function()
    opt:zero_grad()
    local surprise = flame.binary_cross_entropy_with_logits(policy(states), pushes,
      { reduction = "none" })                       -- minus the logarithm of the move's probability
    local l = (surprise * advantage):mean()
    l:backward()
    return l
  end)
  balanced[step] = ups:sum(1):mean():item()
  if step == 1 or step % math.max(1, options.steps // 5) == 0 then
    print(("step %4d  balanced for %.1f moves"):format(step, balanced[step]))
  end
end

local states, _, ups = flame.no_grad(try)
local learning = plot.new { title = "Learning", xlabel = "step", ylabel = "moves", width = 320,
  height = 250 }:line(balanced)
local angles = plot.new { title = "Poles of 6 carts", xlabel = "move", ylabel = "angle in degrees",
  width = 380, height = 250, legend = false }
for k = 1, math.min(6, carts) do
  local n = math.tointeger(ups:select(2, k):sum():item())
  angles:line(states:select(2, k):select(2, 3):narrow(1, 1, n) * (180 / math.pi),
    { width = 1, dash = false, alpha = 0.8 })
end
plot.grid({ learning, angles }, { columns = 2 }):save(options.out)
print("wrote " .. options.out)
print(("measure: moves balanced of %d: %.1f, at least 150"):format(time, ups:sum(1):mean():item()))
