--- Random programs whose values have 0 to 4 rows, all in f32 with as many columns: rows are
-- shifted, joined and left out, so that parts without elements meet scans, sorts, products, sums at
-- positions and kernels. Most values are dropped, so that nothing but an empty part reads some
-- steps. What is kept has the bits of a run op by op.
-- FLAME_FUZZ: number of programs, FLAME_FUZZ_SEED: first seed.
local flame = require "flame"
local count = math.tointeger(os.getenv "FLAME_FUZZ" or 150)
local first = math.tointeger(os.getenv "FLAME_FUZZ_SEED" or 1)
local WIDE <const>, STEPS <const>, MOST <const> = 3, 14, 4

local mirror = flame.kernel [[__global__ void mirror(const float *x, float *y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] * x[n - 1 - i] * 0.5f;
}]]

local function row(v) return flame.full({ 1, WIDE }, v) end
local function places(n) return flame.ones({ n }, { dtype = "i64" }) end

--- Functions of a value with rows, another one, and one with as many rows.
local of_rows <const> = {
  function(x) return x:narrow(1, 2, #x - 1) end,
  function(x) return flame.cat({ row(1.5), x:narrow(1, 1, #x - 1) }, 1) end,
  function(x) return flame.cat({ x:narrow(1, 2, #x - 1), row(0) }, 1) end,
  function(x) return x:index_add(1, places(1), row(0.5)) end,
  function(x) return x:index_add(1, places(0), flame.zeros(0, WIDE)) end,
  function(x) return x - x:amax(1, { keepdim = true }) end,
  function(x) return x:index_select(1, places(1)) end,
}
--- Of any value.
local of_any <const> = {
  function(x, other) return #x + #other <= MOST and flame.cat({ x, other }, 1) or x * 2 end,
  function(x) return x:narrow(1, 1, 0) end,
  function(x) return x:cumsum(1) * 0.5 end,
  function(x) return x:cumprod(1) end,
  function(x) return (x:sort(1)) end,
  function(x) return x:matmul(flame.eye(WIDE) + 0.25) end,
  function(x) return x:t():matmul(x) * 0.1 end,
  function(x, _, like) return x + like end,
  function(x, _, like) return flame.where(x:gt(0), x, like) end,
  function(x, _, like) return flame.stack({ x, like }, 1):sum(1) * 0.5 end,
  function(x) return x + x:sum(1, { keepdim = true }) * 0.1 end,
  function(x) return x:layer_norm { WIDE } end,
  function(x) return x:softmax(2) end,
  function(x) return mirror(x:contiguous()) end,
  function(x) return x:flip(1) end,
  function(x) return x:index_select(1, places(0)) end,
  function(x, _, like)
    local y = x:clone()
    y:add_(like)
    return y
  end,
}

--- Numbers below n that follow from the seed.
local function chance(seed)
  local state = seed * 7919 + 13
  return function(n)
    state = state * 6364136223846793005 + 1442695040888963407
    return (state >> 33) % n
  end
end

--- The values that a program keeps; each: evaluates every value as soon as it is recorded.
local function run(seed, each)
  local r, all, kept = chance(seed), {}, {}
  for i, rows in ipairs { 0, 1, 2, 1 } do
    all[i] = (flame.arange(rows * WIDE) * 1.3 + 3 * i):sin():reshape(rows, WIDE)
    flame.eval(all[i])
  end
  for _ = 1, STEPS do
    local x, other = all[r(#all) + 1], all[r(#all) + 1]
    local like = x
    for _ = 1, 9 do
      local y = all[r(#all) + 1]
      if #y == #x then like = y end
    end
    local list = #x > 0 and r(3) == 0 and of_rows or of_any
    local y = list[r(#list) + 1](x, other, like)
    all[#all + 1] = y
    if each then flame.eval(y) end
  end
  for i, x in ipairs(all) do if r(4) == 0 or i == #all then kept[#kept + 1] = x end end
  return kept
end

describe("random programs with empty parts", function()
  it(("have the bits of a run op by op, %d of them"):format(count), function()
    for seed = first, first + count - 1 do
      local want = {}
      for i, x in ipairs(run(seed, true)) do want[i] = x:totable() end
      for _ = 1, 4 do                                -- a plan, the same one again, a recorded one
        local got = run(seed)
        collectgarbage()                             -- what is dropped is not evaluated
        flame.eval(table.unpack(got))
        for i, x in ipairs(got) do
          assert.same(want[i], x:totable(), ("seed %d, value %d"):format(seed, i))
        end
      end
    end
  end)
end)
