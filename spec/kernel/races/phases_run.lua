--- Random kernels whose threads pass numbers to neighbours through shared memory, in steps with
-- barriers in between: by tables of one and two axes, with pitches at which rows overlap or do not,
-- under conditions, in loops, at indices that are shifted, reversed, twofold or looked up. In their
-- adjoints sums into shared memory are made by += between barriers where that is proven to be right
-- (src/kernel/ad/ad_phases.c), and by atomics elsewhere. run(flame, first, count) compares
-- gradients with differences along one direction.
local CELLS <const>, N <const> = 120, 24
local state

local function random(n)
  state = state * 6364136223846793005 + 1442695040888963407
  return (state >> 33) % n + 1
end
local function pick(list) return list[random(#list)] end

-- ---- indices ------------------------------------------------------------------------------------
--- An index by which each thread of a block has an element for itself.
local function own(q)
  local c <const> = random(4) - 1
  return pick {
    ("ty * %d + tx + %d"):format(q.bx + random(3) - 1, c), ("ty * %d + tx + %d"):format(q.bx, c),
    ("(ty + 1) * %d + tx"):format(q.bx + 2), ("r + %d"):format(c), ("r + %d"):format(c),
    ("2 * r + %d"):format(c), ("%d - r"):format(q.bx * q.by - 1 + c),
    ("tx * %d + ty + %d"):format(q.by, c), ("f[r] + %d"):format(c) }
end

--- An index that several threads may have.
local function any(q)
  local c <const> = random(6) - 3
  return pick {
    ("ty * %d + tx + %d"):format(q.bx, c), ("ty * %d + tx + %d"):format(q.bx + 2, c),
    ("(ty + %d) * %d + tx"):format(random(3) - 1, q.bx + random(2) - 1),
    ("ty * %d + tx"):format(math.max(q.bx - 1, 1)), ("r + %d"):format(c), ("r + %d"):format(c),
    ("r * 2 + %d"):format(c), ("%d - r"):format(q.bx * q.by + c), ("r / 2 + %d"):format(c),
    ("r %% 4 + %d"):format(c), ("tx + %d"):format(c), ("ty + %d"):format(c),
    ("r ^ %d"):format(random(3)), ("f[r] + %d"):format(c), ("f[%d] + tx"):format(random(8) - 1),
    "r + m", "ty * m + tx", tostring(random(8)) }
end

local function guard(q)
  return pick { "r < " .. random(q.bx * q.by), "tx > 0", "tx < " .. random(q.bx), "ty == 0",
    "r % 2 == 0", "f[r] > 3", "m > 2", "blockIdx.x == 0" }
end

-- ---- statements ---------------------------------------------------------------------------------
--- An element of an array where the index is inside, otherwise a number.
local function element(from, e)
  return ("(%s >= 0 && %s < %d ? %s[%s] : 0.3)"):format(e, e, CELLS, from, e)
end

--- A sum of elements: read at places that are inside in any case, or under conditions.
local function reads(q, from)
  local terms = {}
  for i = 1, random(4) do
    local e <const> = any(q)
    local bare <const> = ("%s[(%s) + %d]"):format(from, e, q.left)
    terms[i] = pick { bare, bare, element(from, e), ("x[r %% n] * %s"):format(bare),
      ("%s * %s"):format(bare, bare) }
  end
  return table.concat(terms, " + ")
end

--- Statements that read 'from' and add to v.
local function take(q, from)
  local sum <const> = ("v += 0.1 * (%s);"):format(reads(q, from))
  return pick { sum, sum, sum, sum .. " " .. ("v = 0.5 * v + 0.1 * (%s);"):format(reads(q, from)),
    ("if (%s) %s"):format(guard(q), sum),
    ("if (%s) { %s } else v += 0.1 * (%s);"):format(guard(q), sum, reads(q, from)),
    ("for (int j = 0; j < %d; j++) { %s }"):format(random(3), sum) }
end

--- Statements that write elements of the threads.
local function give(q, to)
  local e <const> = own(q)
  local store <const> = ("%s[(%s) + %d] = %s;"):format(to, e, q.left,
    pick { "0.7 * sin(v)", "0.3 * cos(v) + 0.4 * x[r % n]", "sin(v)" })
  return pick { store, store, ("if (%s) %s"):format(guard(q), store),
    store .. (" v += %s[(%s) + %d];"):format(to, e, q.left) }
end

local BARRIER <const> = "__syncthreads();"

local function step(q)
  local from, to = "s", "s"
  if random(3) > 1 then from, to = pick { "s", "u" }, pick { "s", "u" } end
  local list = { take(q, from) }
  if random(3) == 1 then list[#list + 1] = take(q, pick { "s", "u" }) end
  list[#list + 1] = BARRIER
  list[#list + 1] = give(q, to)
  if random(4) == 1 and from ~= to then list[#list + 1] = give(q, from) end
  list[#list + 1] = BARRIER
  return table.concat(list, "\n  ")
end

local function steps(q)
  local list = {}
  for i = 1, random(2) do list[i] = step(q) end
  local all <const> = table.concat(list, "\n  ")
  return pick { all, all, ("for (int k = 0; k < %d; k++) {\n  %s\n  }"):format(random(4), all),
    ("for (int k = 0; k < m; k++) {\n  %s\n  }"):format(all),
    ("if (m > %d) {\n  %s\n  }"):format(random(4), all) }
end

--- The text of a kernel, and its launch.
local function program(seed)
  state = seed * 7919 + 1
  local q = { bx = pick { 1, 3, 4, 4, 5, 8 }, by = pick { 1, 1, 2, 3, 4 }, left = 16 }
  if q.bx * q.by > 20 then q.by = 2 end
  local list = {}
  for i = 1, random(3) do list[i] = steps(q) end
  local start <const> = pick { "int z = r; z < 120; z += blockDim.x * blockDim.y",
    ("int z = ty * %d + tx; z < 120; z += %d"):format(q.bx, q.bx * q.by),
    ("int z = ty * %d + tx; z < 120; z += %d"):format(random(q.bx), q.bx),  -- some of them twice
    ("int z = ty * %d + tx; z < 120; z += %d"):format(q.bx, q.bx * q.by // 2 + 1) }
  return ([[
__global__ void k(const double *x, double *y, int m, int n) {
  __shared__ double s[120], u[120];
  __shared__ int f[24];
  const int tx = threadIdx.x, ty = threadIdx.y, r = ty * blockDim.x + tx;
  for (int z = r; z < 24; z += blockDim.x * blockDim.y) f[z] = z * 7 %% 24;
  for (%s) { s[z] = x[z %% n]; u[z] = x[(z + 5) %% n] * 0.7; }
  double v = 0.3;
  __syncthreads();
  %s
  v += s[r + 16] * 0.5 + u[r + 17];
  atomicAdd(&y[(r + 5 * blockIdx.x) %% n], v);
}]]):format(start, table.concat(list, "\n  ")), q
end

-- ---- the check ----------------------------------------------------------------------------------
local function wave(flame, step_, phase)
  return (flame.arange(N, { dtype = "f64" }) * step_ + phase):sin()
end

--- Compares the gradients of programs first … first + count - 1. Returns how many had some.
local function run(flame, first, count)
  local compared = 0
  for seed = first, first + count - 1 do
    local text <const>, q = program(seed)
    local k <const> = flame.kernel { source = text, shape = { N }, grid = { 2 },
      block = { q.bx, q.by } }
    local m <const> = random(5) - 1
    local at, u, seeds = wave(flame, 1.7, 2), wave(flame, 0.9, 0.4), wave(flame, 1.3, 1.8)
    local function loss(x) return (k(x, m, N) * seeds):sum() end
    local x <const> = at:detach():requires_grad_()
    local g <const> = loss(x):gradients({ x })[x]
    local back <const> = (g * u):sum():item()
    local along <const> = (loss(at + u * 1e-5):item() - loss(at - u * 1e-5):item()) / 2e-5
    assert(math.abs(along - back) <= 1e-5 * (1 + math.abs(along)),
      ("%d: m = %d: %.12g by differences, %.12g by the adjoint\n%s"):format(seed, m, along, back,
        text))
    compared = compared + 1
  end
  return compared
end

return { run = run, program = program }
