--- Random programs over long rows and columns, which are computed in several rounds and in parts,
--- with numbers made of all rows in between, so that kernels wait for others. One evaluation is
--- compared with the same ops evaluated one by one. FLAME_FUZZ=n: number of programs;
--- FLAME_FUZZ_SEED=s: first seed.
local flame = require "flame"
local count, first = tonumber(os.getenv "FLAME_FUZZ") or 300,
  tonumber(os.getenv "FLAME_FUZZ_SEED") or 1180
if os.getenv "FLAME_SANITIZE" then count = 40 end

local LENGTHS = { 1025, 5000, 9001, 20001, 33000, 66001 }
local ROWS = { 1, 2, 3, 4, 40, 66 }               -- 40 and 66 of at most 5000 elements

--- The program of a seed: its sizes, reduced axis, steps {op, operand, operand}, and the values
--- that are results; then its inputs.
local function draw(seed)
  math.randomseed(seed)
  local p = { rows = ROWS[math.random(#ROWS)], length = LENGTHS[math.random(#LENGTHS)],
    axis = math.random(2), steps = {}, kept = {} }
  if p.rows > 4 then p.length = math.min(p.length, 5000) end
  flame.seed(seed)
  local a, b, w = flame.randn(p.rows, p.length), flame.randn(p.rows, p.length),
    flame.randn(p.rows, 1)
  if p.axis == 1 then a, b, w = a:t():clone(), b:t():clone(), w:t():clone() end
  p.ids = flame.randint({ p.rows, 1 }, 1, p.length)
  if p.axis == 1 then p.ids = p.ids:t():clone() end
  flame.eval(a, b, w, p.ids)
  p.full, p.lines = { a, b }, { w }
  for i = 1, math.random(15, 50) do
    p.steps[i] = { math.random(13), math.random(), math.random() }
  end
  for i = 1, 3 do p.kept[i] = math.random() end
  return p
end

local function pick(list, r) return list[math.max(1, math.ceil(#list * (0.05 + 0.95 * r)))] end

-- x, y have a value at each point, r one per row or column, ids a position in each; e evaluates its
-- argument or only returns it
local ops = {
  function(e, x, y) return e(x + y) end,
  function(e, x, y) return e(e(x * y) * 0.5) end,
  function(e, x, _, r) return e(x - r) end,
  function(e, x, _, r) return e(x * r) end,
  function(e, x) return e(x:relu()) end,
  function(e, x, y, r) return e(flame.where(e(x:gt(r)), y, 0)) end,
  function(e, x) return e(x:tanh()) end,
  function(e, x, _, _, axis) return nil, e(x:mean(axis, { keepdim = true })) end,
  function(e, x, y, _, axis) return nil, e(e(e(x * y):mean(axis, { keepdim = true })):tanh()) end,
  function(e, x, _, r) return e(x / (1 + e(e(r:gt(0)):float():sum()))) end,
  function(e, _, _, r) return nil, e(r * e(e(r * 0.5):mean())) end,
  function(e, x, _, r, axis, ids) return nil, e(e(x:gather(axis, ids)) - r) end,
  function(e, x, _, _, axis)
    local z = e(e(x - e(x:amax(axis, { keepdim = true }))):exp())
    return e(z / e(z:sum(axis, { keepdim = true })))
  end,
}

local function run(p, each)
  local full, lines = { table.unpack(p.full) }, { table.unpack(p.lines) }
  local function e(t) if each then flame.eval(t) end return t end
  for _, s in ipairs(p.steps) do
    local f, l = ops[s[1]](e, pick(full, s[2]), pick(full, s[3]), pick(lines, s[3]), p.axis, p.ids)
    full[#full + 1], lines[#lines + 1] = f, l
  end
  local out = { lines[#lines], lines[math.max(1, #lines - 1)] }
  for i = 1, 2 do
    if p.kept[i] > 0.4 then out[#out + 1] = full[math.max(1, math.ceil(#full * p.kept[i]))] end
  end
  full, lines = nil, nil
  collectgarbage() collectgarbage()               -- only results are stored
  flame.eval(table.unpack(out))
  return out
end

local function same(seed, one, each)
  for k = 1, #one do
    assert(one[k]:eq(each[k]):all():item(), ("seed %d: result %d differs"):format(seed, k))
  end
end

describe("random programs over long rows", function()
  it("give what their ops give one by one, by bits", function()
    for seed = first, first + count - 1 do
      local p = draw(seed)
      same(seed, run(p, false), run(p, true))
    end
  end)
end)

-- ---- values that only products read ------------------------------------------------------------
-- Such values are intermediates, which share memory; kernels may write over values that they read
-- for the last time.

local function shapes(seed)
  math.randomseed(seed)
  flame.seed(seed)
  return ({ "f32", "f64" })[math.random(2)]
end

--- Evaluates products of some of the values, after the script has dropped the values.
local function products(values, weights)
  local out = {}
  for k = 1, math.random(2, 4) do out[k] = values[math.random(#values)]:matmul(weights) end
  for k in ipairs(values) do values[k] = nil end
  collectgarbage() collectgarbage()
  flame.eval(table.unpack(out))
  return out
end

--- Random vectors, some made with sums of others; e evaluates its argument or only returns it.
local function vectors(seed, e)
  local o = { dtype = shapes(seed) }
  local n, v = ({ 5, 64, 1000, 3000, 40000 })[math.random(5)], {}
  local rows = flame.rand(n, 4, o) + 1
  flame.eval(rows)
  for k = 1, 3 do v[k] = e((rows * k):sum(2, { keepdim = true })) end
  local function any() return v[math.random(#v)] end
  for _ = 1, math.random(4, 14) do
    local way, x, y = math.random(5), any(), any()
    if way == 1 then v[#v + 1] = e(x / y)
    elseif way == 2 then v[#v + 1] = e(x * y / n)
    elseif way == 3 then v[#v + 1] = e(flame.where(x:gt(y), x, y * 0.5))
    elseif way == 4 then v[#v + 1] = e(x / e(y:sum()) + 1)
    else v[#v + 1] = e(e(x:mean()) * y / x) end
  end
  return products(v, flame.ones(1, 3, o))
end

--- Random matrices, some made with a number per row, or with elements gathered from rows at given
--- positions or at the largest element.
local function matrices(seed, e)
  local o = { dtype = shapes(seed) }
  local rows, n = ({ 3, 40 })[math.random(2)], ({ 700, 1025, 2000, 40000 })[math.random(4)]
  if n > 2000 then rows = 3 end
  local a, b, ids = flame.rand(rows, 4, o), flame.rand(4, n, o), flame.randint({ rows, 1 }, 1, n)
  flame.eval(a, b, ids)
  local v, r = { e(a:matmul(b)), e(a:matmul(b * 0.5)) }, { e(a:sum(2, { keepdim = true })) }
  local function any(list) return list[math.random(#list)] end
  for _ = 1, math.random(4, 12) do
    local way, x, y, q = math.random(8), any(v), any(v), any(r)
    if way == 1 then v[#v + 1] = e(x:softmax(2) * n)
    elseif way == 2 then v[#v + 1] = e(e(x - e(x:amax(2, { keepdim = true }))):exp() / q)
    elseif way == 3 then v[#v + 1] = e(flame.where(x:gt(y), x, y * 0.5))
    elseif way == 4 then r[#r + 1] = e(x:mean(2, { keepdim = true }) + 1)
    elseif way == 5 then r[#r + 1] = e(e(x:gather(2, ids)) + q)
    elseif way == 6 then r[#r + 1] = e(e(x:gather(2, x:argmax(2, { keepdim = true }))) + 1)
    elseif way == 7 then v[#v + 1] = e((x - q) / (e(x:sum(2, { keepdim = true })) + n))
    else v[#v + 1] = e(e(x:gather(2, ids)) + y - e(y:mean(2, { keepdim = true }))) end
  end
  return products(v, flame.ones(n, 2, o))
end

for name, make in pairs { vectors = vectors, matrices = matrices } do
  describe("random programs over " .. name, function()
    it("give what their ops give one by one, by bits", function()
      for seed = first, first + count - 1 do
        local one = make(seed, function(t) return t end)
        local each = make(seed, function(t) flame.eval(t) return t end)
        same(seed, one, each)
      end
    end)
  end)
end
