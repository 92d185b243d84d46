-- Sums at positions on the default device beside sums in plain Lua, in the order of the terms:
--   flame-lua spec/plan/scatter_run.lua ordered|any [terms]
-- Positions by row (index_add), by element (scatter_add), and from the gradient of embedding; keys
-- with none, one, few and many terms, fewer and more keys than terms. Prints what differs, then the
-- number of cases. any: flame.deterministic(false), so floats may differ by their rounding.
-- terms: one case of so many terms more.
local flame = require "flame"
local any, terms = arg[1] == "any", tonumber(arg[2])
flame.deterministic(not any)
local count = 0

--- The rows of base (of k numbers) after row i of src was added to row at[i], one by one.
local function added(base, at, src, k)
  local sums = table.move(base, 1, #base, 1, {})
  for i, row in ipairs(at) do
    for c = 1, k do
      local to = (row - 1) * k + c
      sums[to] = sums[to] + src[(i - 1) * k + c]
    end
  end
  return sums
end

local function compare(name, got, want)
  count = count + 1
  got = got:reshape(-1):totable()
  for i, x in ipairs(want) do
    if got[i] ~= x and not (any and math.abs(got[i] - x) <= 1e-12 * (1 + math.abs(x)) * #want) then
      return print(("%s: element %d is %.17g, not %.17g"):format(name, i, got[i], x))
    end
  end
end

local function draw(dtype, ...)
  local x = flame.rand({ ... }, { dtype = "f64" }) * 100 - 50
  return dtype == "f64" and x or x:floor():to(dtype)
end

--- n terms of k numbers go to 'keys' rows; 'hot' of them to one row.
local function case(dtype, keys, n, k, hot)
  flame.seed(keys + n)
  local at = flame.randint({ n }, 1, keys)
  at = flame.where(flame.rand({ n }):lt(hot), keys // 2 + 1, at)
  local base, src = draw(dtype, keys, k), draw(dtype, n, k)
  local rows = at:totable()
  local want = added(base:reshape(-1):totable(), rows, src:reshape(-1):totable(), k)
  local name = ("%s, %d rows of %d, %d terms"):format(dtype, keys, k, n)
  compare(name .. ": index_add", base:index_add(1, at, src), want)
  compare(name .. ": scatter_add", base:scatter_add(1, at:reshape(n, 1):expand(n, k), src), want)
  compare(name .. ": scatter_add of elements", base:t():contiguous()
    :scatter_add(2, at:reshape(1, n):expand(k, n):contiguous(), src:t()):t():contiguous(), want)
  if dtype == "f64" then
    local w = flame.zeros({ keys, k }, { dtype = dtype, requires_grad = true });
    (flame.embedding(at, w) * src):sum():backward()
    compare(name .. ": embedding", w.grad, added(flame.zeros(keys * k):totable(), rows,
      src:reshape(-1):totable(), k))
  end
end

for _, dtype in ipairs { "f64", "i32", "i16" } do
  case(dtype, 5000, 40, 3, 0)                -- a table of slots
  case(dtype, 20000, 300, 2, 0.9)            -- also one key of many terms
  case(dtype, 4, 300, 1, 0)
  case(dtype, 3, 1100, 40, 0.5)              -- two chunks of columns
  case(dtype, 1, 256, 2, 0)                  -- at the bound, and beyond it
  case(dtype, 1, 257, 2, 0)
  case(dtype, 9, 1, 5, 0)
end
if terms then case("f64", 3, terms, 1, 0.5) end
print(count)
