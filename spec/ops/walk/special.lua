--- A test of each structural op, through a public function that records it, against plain loops.
-- walk_spec.lua fails for a structural op of ops.def that has no entry here.
local S = {}

local function flat(views, x) return views.flat(x) end
local function same(expected, got, tol)
  assert(#expected == #got, ("%d elements, expected %d"):format(#got, #expected))
  for i, e in ipairs(expected) do
    if not (e == got[i] or math.abs(e - got[i]) <= (tol or 0)) then
      error(("element %d is %.17g, expected %.17g"):format(i, got[i], e), 2)
    end
  end
end
local DTYPES = { "f64", "f32", "f16", "bf16", "i64", "i32", "i16", "i8", "u8" }
local function counting(flame, n, dtype) return flame.arange(1, n, { dtype = dtype or "f64" }) end

function S.fill(flame, views)
  for _, d in ipairs(DTYPES) do same({ 3, 3 }, flat(views, flame.full({ 2 }, 3, { dtype = d }))) end
end
function S.iota(flame, views)
  for _, d in ipairs(DTYPES) do
    same({ 2, 4, 6 }, flat(views, flame.arange(2, 6, 2, { dtype = d })))
  end
end
--- view(dtype) for each pair of dtypes against string.pack, of values with bits in all their bytes.
local FORMAT = { f64 = "<d", f32 = "<f", i64 = "<i8", i32 = "<i4", i16 = "<i2", i8 = "<i1",
  u8 = "<B" }
function S.bits(flame, views)
  for a, read in pairs(FORMAT) do
    local x, bytes = counting(flame, 16, "f64"):mul(1.75):to(a), {}
    for i, v in ipairs(flat(views, x)) do bytes[i] = read:pack(v) end
    bytes = table.concat(bytes)
    for b, write in pairs(FORMAT) do
      local expected, at = {}, 1
      while at <= #bytes do expected[#expected + 1], at = write:unpack(bytes, at) end
      local y = x:view(b)
      assert(y.dtype == b)
      local got = flat(views, y)
      for i, e in ipairs(expected) do
        assert(got[i] == e or e ~= e, ("%s as %s: %s, expected %s"):format(a, b, got[i], e))
      end
      assert(#got == #expected and flame.equal(x, y:view(a)))
    end
  end
end
local function in_range(flame, make, low, high)
  for _, n in ipairs { 0, 1, 3, 1001 } do
    local x = make(n)
    assert(x:numel() == n)
    if n > 0 then assert(x:amin():item() >= low and x:amax():item() <= high) end
    assert(not flame.equal(x, make(n)) or n < 3, "the same numbers twice")
  end
end
function S.uniform(flame)
  for _, d in ipairs { "f64", "f32", "f16", "bf16" } do
    in_range(flame, function(n) return flame.uniform({ n }, -2, 3, { dtype = d }) end, -2, 3)
  end
end
function S.normal(flame)
  for _, d in ipairs { "f64", "f32", "f16", "bf16" } do
    in_range(flame, function(n) return flame.normal({ n }, 1, 0.5, { dtype = d }) end, -5, 7)
  end
end
function S.randint(flame)
  for _, d in ipairs { "i64", "i32", "i16", "i8", "u8" } do
    in_range(flame, function(n) return flame.randint({ n }, 2, 90, { dtype = d }) end, 2, 90)
  end
end
--- A dropout inside attention takes as many numbers as its weights have elements.
function S.draw_key(flame)
  local x = flame.ones(1, 2, 70, 8)
  local function after(f)
    flame.manual_seed(3)
    f()
    return flame.rand(1):item()
  end
  local dropped = after(function()
    return flame.scaled_dot_product_attention(x, x, x, { dropout_p = 0.5 })
  end)
  same({ after(function() return flame.rand(1, 2, 70, 70) end) }, { dropped })
end
--- Casts of floats to integers truncate and saturate, NaN becomes 0; integers wrap; casts to bool.
function S.cast(flame, views)
  local x = flame.tensor({ 1.75, -1.75, 300, -300, 0 / 0, 1e30 }, { dtype = "f64" })
  same({ 1, -1, 127, -128, 0, 127 }, flat(views, x:to("i8")))
  same({ 1, 0, 255, 0, 0, 255 }, flat(views, x:to("u8")))
  same({ 1, -1, 300, -300, 0, 2147483647 }, flat(views, x:to("i32")))
  same({ 44, 212 }, flat(views, flame.tensor({ 300, -300 }, { dtype = "i32" }):to("u8")))
  same({ 1, 1, 0 }, flat(views, flame.tensor({ 0.5, 0 / 0, 0 }):to("bool")))
  for _, a in ipairs(DTYPES) do
    for _, b in ipairs(DTYPES) do
      same({ 1, 2, 100 }, flat(views, flame.tensor({ 1, 2, 100 }, { dtype = a }):to(b)))
    end
  end
end
function S.copy(flame, views)
  for _, kind in ipairs(views.names) do
    local x, values = views.make(flame, kind, { 3, 4 }, "f32",
      function() return math.random(1, 50) * 1.0 end)
    if x then same(values, flat(views, x:clone())) end
  end
end
function S.index(flame, views)
  local x, at = counting(flame, 5), flame.tensor({ 5, 1, 3 }, { dtype = "i64" })
  same({ 5, 1, 3 }, flat(views, x:index_select(1, at)))
  assert(not pcall(function()
    x:index_select(1, flame.tensor({ 6 }, { dtype = "i64" })):totable()
  end))
  assert(not pcall(function()
    x:index_select(1, flame.tensor({ 0 }, { dtype = "i64" })):totable()
  end))
end
function S.gather(flame, views)
  local x = counting(flame, 12):reshape(3, 4)
  for _, d in ipairs { "i64", "i32", "i16", "u8" } do
    local at = flame.tensor({ { 4, 1 }, { 2, 2 }, { 1, 3 } }, { dtype = d })
    same({ 4, 1, 6, 6, 9, 11 }, flat(views, x:gather(2, at)))
    same({ 4, 1, 6, 6, 9, 11 },
      flat(views, x:t():contiguous():t():gather(2, at:t():contiguous():t())))
  end
end
function S.view(flame, views)
  local x = counting(flame, 6):reshape(2, 3)
  same({ 1, 4, 2, 5, 3, 6 }, flat(views, x:t()))
  same({ 3, 2, 1, 6, 5, 4 }, flat(views, x[{ {}, { 3, 1, -1 } }]))
  same({ 2, 5 }, flat(views, x:select(2, 2)))
  same({ 1, 2, 3, 1, 2, 3 }, flat(views, x[1]:expand(2, 3)))
  same({ 1, 2, 2, 3, 4, 5, 5, 6 }, flat(views, x:unfold(2, 2, 1)))
  same({ 1, 5 }, flat(views, x:diagonal()))
end
local function product(x, y, n, k, m)
  local out = {}
  for i = 1, n do
    for j = 1, m do
      local sum = 0
      for l = 1, k do sum = sum + x[(i - 1) * k + l] * y[(l - 1) * m + j] end
      out[#out + 1] = sum
    end
  end
  return out
end
function S.matmul(flame, views)
  local function draw() return math.random(-4, 4) * 1.0 end
  for _, d in ipairs { "f64", "f32" } do
    for _, size in ipairs { { 1, 1, 1 }, { 3, 5, 7 }, { 17, 33, 9 }, { 4, 0, 2 }, { 0, 3, 2 },
        { 64, 40, 65 } } do
      local n, k, m = table.unpack(size)
      for i, kind in ipairs(views.names) do
        local x, xs = views.make(flame, kind, { n, k }, d, draw)
        local y, ys = views.make(flame, views.names[#views.names + 1 - i], { k, m }, d, draw)
        -- whole numbers: exact
        if x and y then same(product(xs, ys, n, k, m), flat(views, x:matmul(y))) end
      end
    end
  end
end
function S.cat(flame, views)
  local x, y = counting(flame, 4):reshape(2, 2), counting(flame, 2):reshape(2, 1) * 10
  same({ 1, 2, 10, 3, 4, 20 }, flat(views, flame.cat({ x, y }, 2)))
  same({ 1, 3, 2, 4, 10, 20 }, flat(views, flame.cat({ x:t(), y:t() }, 1)))
  same({ 1, 2, 3, 4 }, flat(views, flame.cat({ x, flame.zeros(0, 2, { dtype = "f64" }) }, 1)))
end
function S.setslice(flame, views)
  local x = flame.zeros(3, 4)
  x[{ { 1, 3, 2 }, { 4, 2, -2 } }] = flame.tensor({ { 1, 2 }, { 3, 4 } })
  same({ 0, 2, 0, 1, 0, 0, 0, 0, 0, 4, 0, 3 }, flat(views, x))
end
function S.scatter(flame, views)
  local at = flame.tensor({ 2, 2, 4 }, { dtype = "i64" })
  local src = flame.tensor({ 5, 6, 7 })
  same({ 0, 6, 0, 7 }, flat(views, flame.zeros(4):scatter(1, at, src)))
  same({ 0, 11, 0, 7 }, flat(views, flame.zeros(4):scatter_add(1, at, src)))
  same({ 1, 12, 1, 8 }, flat(views, flame.ones(4):index_add(1, at, src)))
end
function S.custom(flame, views)
  local double = flame.func { name = "double", forward = function(_, x) return x * 2 end,
    backward = function(_, g) return g * 2 end }
  local x = flame.tensor({ 1, 2 }, { requires_grad = true })
  double(x):sum():backward()
  same({ 2, 2 }, flat(views, x.grad))
end
--- The op 'call', whose kinds are rows of calls.def; each kind is tested in other specs.
function S.call(flame, views)
  same({ 1, 2, 3 }, flat(views, (flame.tensor({ 3, 1, 2 }):sort())))
  same({ 1, 3, 6 }, flat(views, flame.tensor({ 1, 2, 3 }):cumsum(1)))
end
--- The op 'form', sums of products of components, by the geometric product of Cl(2,0), whose blades
-- are 1, e1, e2 and e12, with a weight for each combination of grades.
function S.form(flame, views)
  local algebra = flame.clifford.algebra { 1, 1 }
  local sign = { { 1, 1, 1, 1 }, { 1, 1, 1, 1 }, { 1, -1, 1, -1 }, { 1, -1, 1, -1 } }
  local at = { { 1, 2, 3, 4 }, { 2, 1, 4, 3 }, { 3, 4, 1, 2 }, { 4, 3, 2, 1 } }
  local a, b, expected = { 1, -2, 3, 0.5 }, { 4, 0.25, -1, 2 }, { 0, 0, 0, 0 }
  for i = 1, 4 do
    for j = 1, 4 do
      expected[at[i][j]] = expected[at[i][j]] + sign[i][j] * a[i] * b[j]
    end
  end
  for _, d in ipairs { "f64", "f32" } do
    local x, y = flame.tensor(a, { dtype = d }), flame.tensor(b, { dtype = d })
    same(expected, flat(views, algebra:product(x, y)), 1e-6)
  end
end

--- The ops that are a step of an optimiser at each point. momentum: SGD's, which records mix; else
-- Adam's, which records mix, mix_square and adam.
local function steps(flame, views, momentum)
  local optim, slope = require "flame.optim", { 0.5, -1, 2 }
  for d, tol in pairs { f64 = 1e-14, f32 = 1e-6, f16 = 4e-3, bf16 = 4e-2 } do
    local x, m, v = { 1, -2, 0.25 }, { 0, 0, 0 }, { 0, 0, 0 }
    local p = flame.tensor(x, { dtype = d, requires_grad = true })
    local options = { lr = 0.1, momentum = momentum and 0.9, dampening = momentum and 0.25 }
    local opt = optim[momentum and "SGD" or "Adam"]({ p }, options)
    for t = 1, 3 do
      opt:zero_grad()
      local c = flame.tensor(slope, { dtype = d })
      ;(p * c):sum():backward()
      opt:step()
      for i, g in ipairs(slope) do
        if momentum then
          m[i] = t == 1 and g or 0.9 * m[i] + 0.75 * g
          x[i] = x[i] - 0.1 * m[i]
        else
          m[i], v[i] = 0.9 * m[i] + 0.1 * g, 0.999 * v[i] + 0.001 * g * g
          x[i] = x[i] - 0.1 * m[i] / (1 - 0.9 ^ t) / (math.sqrt(v[i] / (1 - 0.999 ^ t)) + 1e-8)
        end
      end
      same(x, flat(views, p:detach()), tol)
    end
  end
end
function S.mix(flame, views) steps(flame, views, true) end
function S.mix_square(flame, views) steps(flame, views) end
S.adam = S.mix_square

return S
