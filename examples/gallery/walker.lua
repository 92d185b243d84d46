-- A body of masses and springs learns to walk: its springs lengthen and shorten like muscles. When
-- they do so is optimised with the gradient through the simulation, including contacts with the
-- ground.
-- What this shows: one short kernel is one step in time; hundreds of them in a row are a function
-- with a gradient.
-- Method: Hu et al., "DiffTaichi: differentiable programming for physical simulation" (ICLR 2020).
--   flame-lua examples/gallery/walker.lua [--device auto|cpu|cuda] [--out walker.svg]
-- on a GPU: --long 12 --high 4 --time 1500 --steps 20
local flame = require "flame"
local data, optim, plot = require "flame.data", require "flame.optim", require "flame.plot"

local options = data.options(arg, {
  { "device", "auto", "auto, cpu or cuda" },
  { "long", 5, "masses along the body" },
  { "high", 3, "rows of masses, of which the lowest is two legs" },
  { "time", 400, "steps of the simulation" },
  { "steps", 25, "steps of the optimiser" },
  { "rate", 0.1, "learning rate" },
  { "out", "walker.svg", "the picture that is written" },
})
flame.default_device(options.device == "auto" and flame.best_device() or options.device)
flame.seed(1)

-- ---- the body: rows of masses with springs between neighbours, diagonals too --------------------

local long, high = options.long, options.high
local places, ends, lengths = {}, {}, {}
for row = 1, high do
  for column = 1, long do
    if row > 1 or column <= 2 or column > long - 2 then              -- two legs
      places[#places + 1] = { 0.1 * (column - 1), 0.1 * (row - 1) }
    end
  end
end
for a = 1, #places do
  for b = a + 1, #places do
    local length = ((places[a][1] - places[b][1]) ^ 2 + (places[a][2] - places[b][2]) ^ 2) ^ 0.5
    if length < 0.15 then
      ends[#ends + 1] = { a - 1, b - 1 }
      lengths[#lengths + 1] = length
    end
  end
end
local masses, springs = #places, #ends
places, lengths = flame.tensor(places), flame.tensor(lengths)
ends = flame.tensor(ends, { dtype = "i32" })

-- One thread moves one mass. state: place and velocity of each. The ground pushes masses that are
-- below it upwards, and has friction.
local step_in_time = flame.kernel { source = [[
__global__ void walk(const float *state, const int *ends, const float *rest, float *next,
                     int springs, float dt, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const float *me = state + 4 * i;
  float fx = 0.f, fy = -9.8f;                                       // of a mass of 1
  for (int s = 0; s < springs; ++s) {
    int a = ends[2 * s], b = ends[2 * s + 1];
    if (i != a && i != b) continue;
    const float *other = state + 4 * (i == a ? b : a);
    float dx = other[0] - me[0], dy = other[1] - me[1], length = sqrtf(dx * dx + dy * dy + 1e-8f);
    float along = (dx * (other[2] - me[2]) + dy * (other[3] - me[3])) / length;
    float pull = 3000.f * (length - rest[s]) + 15.f * along;
    fx += pull * dx / length; fy += pull * dy / length;
  }
  float depth = fmaxf(-me[1], 0.f), press = 4000.f * depth;
  fy += press - (depth > 0.f ? 20.f * me[3] : 0.f);
  fx -= press * tanhf(4.f * me[2]);                                // friction
  float vx = me[2] + dt * fx, vy = me[3] + dt * fy;
  float *out = next + 4 * i;
  out[0] = me[0] + dt * vx; out[1] = me[1] + dt * vy; out[2] = vx; out[3] = vy;
}
]], block = { 64 }, grid = { (masses + 63) // 64 } }

--- The states (time, mass, 4) of the body. muscle: (2, springs), the amplitudes of the sine and of
--- the cosine in the length of each spring.
local dt, rhythm = 0.004, 2 * math.pi * 2.5                         -- seconds; 2.5 strides a second
local function walk(muscle)
  local state, film = flame.cat({ places, flame.zeros(masses, 2) }, 2), {}
  for t = 1, options.time do
    local angle = rhythm * t * dt
    local pull = (muscle[1] * math.sin(angle) + muscle[2] * math.cos(angle)):tanh()
    state = step_in_time(state, ends, lengths * (1 + 0.15 * pull), springs, dt, masses)
    film[t] = state
  end
  return flame.stack(film)
end

--- How far the middle of the body has moved to the right.
local function distance(film) return (film[options.time] - film[1]):select(2, 1):mean() end

local muscle = flame.randn(2, springs) * 0.1
muscle.requires_grad = true
local opt = optim.Adam({ muscle }, { lr = options.rate })
local schedule = optim.schedule.cosine { opt = opt, steps = options.steps }
local reached, best, film = {}, -math.huge, nil
for step = 1, options.steps do
  local now
  local loss = opt:step(function()
    opt:zero_grad()
    now = walk(muscle)
    local l = -distance(now)
    l:backward()
    return l
  end)
  schedule:step()
  reached[step] = -loss:item()
  if reached[step] > best then best, film = reached[step], now:detach() end
  if step == 1 or step % math.max(1, options.steps // 5) == 0 then
    print(("step %4d  walks %.3f m"):format(step, reached[step]))
  end
end

local body = plot.new { title = "The body at six moments", xlabel = "m", width = 520, height = 230,
  legend = false }
for k = 0, 5 do
  local at = film[math.max(1, options.time * k // 5)]:totable()
  for _, pair in ipairs(ends:totable()) do
    local a, b = at[pair[1] + 1], at[pair[2] + 1]
    body:line({ a[1], b[1] }, { a[2], b[2] }, { colour = k + 1, width = 1.5 })
  end
end
local curve = plot.new { title = "Learning", xlabel = "step", ylabel = "distance in m", width = 300,
  height = 230 }:line(reached)
plot.grid({ body, curve }, { columns = 2 }):save(options.out)
print("wrote " .. options.out)
print(("measure: distance: %.3f m, at least 0.8"):format(best))
