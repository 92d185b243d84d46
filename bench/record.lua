-- Measures the host's costs of an op: of recording it, of planning it, and of running it with a
-- known plan, for a chain of 1,000 ops (x * a + b, 500 times) on 16 floats. Medians of 30 runs (of
-- planning: 10), with the collector on; all of the library is loaded, since the collector has to
-- traverse it.
local flame = require "flame"
for _, name in ipairs { "nn", "optim", "data" } do require("flame." .. name) end

local clock = os.clock
local function chain(x)
  local y = x
  for _ = 1, 500 do y = y * 1.0001 + 0.5 end
  return y
end
local function median(list)
  table.sort(list)
  return list[#list // 2 + 1]
end
local function measure(name, make, longer)
  local record, run = {}, {}
  for k = 1, 30 do
    local x = make()
    flame.eval(x)
    local start = clock()
    local y = chain(x)
    local done = clock()
    flame.eval(y)
    record[k], run[k] = done - start, clock() - done
  end
  local plan = {}
  for k = 1, 10 do                     -- chains of different lengths: each needs a new plan
    local x = make()
    flame.eval(x)
    local y = chain(x)
    for _ = 1, k + longer do y = -y end
    local start = clock()
    flame.eval(y)
    plan[k] = clock() - start
  end
  local first, again = median(plan), median(run)
  local both, sum = {}, 0
  for k = 1, 30 do
    both[k] = record[k] + run[k]
    sum = sum + both[k]
  end
  print(("%-10s %6.0f ns an op recorded, %6.0f ns a node planned, %6.0f ns a node found and run, %6.0f ns both (mean %.0f)"):format(
    name, median(record) * 1e6, (first - again) * 1e6, again * 1e6, median(both) * 1e6,
    sum / 30 * 1e6))
end
measure("untracked", function() return flame.ones(16) end, 0)
measure("tracked", function() return flame.ones({ 16 }, { requires_grad = true }) end, 10)

-- What a checked call of a kernel costs: the least of 99 times 1,000.
local saxpy = flame.kernel [[
__global__ void saxpy(float a, const float *x, const float *y, float *out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = a * x[i] + y[i];
}]]
local x, y, best = flame.randn(256), flame.randn(256), math.huge
for _ = 1, 99 do
  local start = clock()
  for _ = 1, 1000 do saxpy(2, x, y) end
  best = math.min(best, (clock() - start) / 1000)
end
print(("kernel     %6.0f ns a call recorded"):format(best * 1e9))
