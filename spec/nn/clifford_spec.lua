-- Clifford algebras: products are compared with the definition in plain Lua (a blade is a sorted
-- set of generators) and with known numbers; laws of the algebra. Layers: clifford_layers_spec.lua.

local flame = require "flame"
local ordered = require "spec.support.ordered"
local clifford = require "flame.clifford"

local F64 = { dtype = "f64" }
local SIGNATURES = { { 1, 1 }, { 1, 1, 1 }, { 0, 1, 1, 1 }, { 1, -1, 0 }, { 1 }, { -1, 1, 1, 1 } }

local refused = require("spec.support.helper").raises
local function same(expected, actual, tol)
  assert.allclose(expected, actual, { rtol = tol or 1e-9, atol = tol or 1e-9 })
end
local function title(signature) return "{" .. table.concat(signature, ", ") .. "}" end

-- ---- the definition -----------------------------------------------------------------------------
--- All sets of n generators as bit sets, ordered by their size, then by their generators.
local function sets_of(n)
  local list = {}
  for set = 0, 2 ^ n - 1 | 0 do list[#list + 1] = set end
  local function key(set)
    local many, text = 0, ""
    for g = 1, n do if set >> g - 1 & 1 == 1 then many, text = many + 1, text .. g end end
    return many .. text, many
  end
  table.sort(list, function(a, b) return key(a) < key(b) end)
  local place, grades = {}, {}
  for i, set in ipairs(list) do place[set], grades[i] = i, select(2, key(set)) end
  return list, place, grades
end
--- The product of the blades a and b, its sign and set: generators in a row are exchanged until
--- they ascend, each exchange changes the sign, and two equal ones are replaced by their square.
local function multiply(a, b, squares)
  local row, sign, set = {}, 1, 0
  for _, of in ipairs { a, b } do
    for g = 1, #squares do if of >> g - 1 & 1 == 1 then row[#row + 1] = g end end
  end
  local i = 1
  while i < #row do
    if row[i] == row[i + 1] then
      sign = sign * squares[row[i]]
      table.remove(row, i)
      table.remove(row, i)
      i = math.max(i - 1, 1)
    elseif row[i] > row[i + 1] then
      row[i], row[i + 1], sign = row[i + 1], row[i], -sign
      i = math.max(i - 1, 1)
    else i = i + 1 end
  end
  for _, g in ipairs(row) do set = set | 1 << g - 1 end
  return sign, set
end
--- Calls f(i, j, k, sign, their grades) for each pair of blades i, j whose product k is not 0.
local function each_pair(squares, f)
  local sets, place, grades = sets_of(#squares)
  for i, a in ipairs(sets) do
    for j, b in ipairs(sets) do
      local sign, set = multiply(a, b, squares)
      local k = place[set]
      if sign ~= 0 then f(i, j, k, sign, grades[i], grades[j], grades[k]) end
    end
  end
  return #sets
end
--- The order of paths for 2 and 3 generators; a path "xyr": the grades of both factors and result.
local PATHS = {
  [2] = "000 011 022 110 101 121 112 220 211 202",
  [3] = "000 011 022 033 110 101 121 112 132 123 220 211 231 202 222 213 330 321 312 303",
}
local function path_numbers(dims)
  local number, n = {}, 0
  for path in PATHS[dims]:gmatch("%d+") do
    n = n + 1
    number[path] = n
  end
  return number, n
end
--- The weighted product by its definition, r[component][feature]: weight(path, feature of x,
--- feature of the result) is the factor of each term.
local function by_definition(squares, x, y, outputs, weight)
  local number, r = path_numbers(#squares) , {}
  local size = each_pair(squares, function() end)
  for k = 1, size do
    r[k] = {}
    for m = 1, outputs do r[k][m] = 0 end
  end
  each_pair(squares, function(i, j, k, sign, gi, gj, gk)
    for m = 1, outputs do
      for n = 1, #x[1] do
        r[k][m] = r[k][m] + sign * weight(number[("%d%d%d"):format(gi, gj, gk)], n,
          m) * x[i][n] * y[j][n]
      end
    end
  end)
  return r
end

local versor = dofile "spec/support/versor.lua"

-- ---- algebras -----------------------------------------------------------------------------------

describe("an algebra", function()
  it("has its blades by grade, named by their generators", function()
    assert.equal("1 e1 e2 e12", table.concat(clifford.algebra(2).blades, " "))
    assert.equal("1 e1 e2 e3 e12 e13 e23 e123",
      table.concat(clifford.algebra { 1, 1, 1 }.blades, " "))
    assert.equal("1 e0 e1 e2 e3 e01 e02 e03 e12 e13 e23 e012 e013 e023 e123 e0123",
      table.concat(clifford.algebra { 0, 1, 1, 1 }.blades, " "))
    assert.same({ 0, 1, 1, 1, 2, 2, 2, 3 }, clifford.algebra(3).grades)
    assert.same({ "Cl(3,0)", "G(3,0,1)", "Cl(1,1)" },
      { tostring(clifford.algebra(3)), tostring(clifford.algebra { 0, 1, 1, 1 }),
      tostring(clifford.algebra { 1, -1 }) })
    assert.same({ 3, 8, { 1, 1, 1 } },
      { clifford.algebra(3).dims, clifford.algebra(3).size, clifford.algebra(3).signature })
    assert.is_true(rawequal(flame.clifford, clifford))
    assert.is_true(rawequal(clifford.algebra(3), clifford.algebra { 1, 1, 1 }))
  end)

  it("numbers paths of grades by the grade of x, of the result and of y", function()
    for dims in pairs(PATHS) do
      local given = {}
      for p, path in ipairs(clifford.algebra(dims).paths) do
        given[p] = ("%d%d%d"):format(path[1], path[2], path[3])
      end
      assert.equal(PATHS[dims], table.concat(given, " "))
    end
  end)

  it("refuses what is no signature, and unknown names", function()
    refused("algebra: need the squares of 1 to 6 generators, as {1, 1, 1}, or their number, got 0",
      clifford.algebra, 0)
    refused("got 2.5", clifford.algebra, 2.5)
    refused("got a list of 7", clifford.algebra, { 1, 1, 1, 1, 1, 1, 1 })
    refused("got a list of 0", clifford.algebra, {})
    refused("got string", clifford.algebra, "Cl(3,0)")
    refused("algebra: signature must be a number or a list of numbers, got nothing",
      clifford.algebra)
    refused("algebra: generator 2 squares to 2, need 1, -1 or 0", clifford.algebra, { 1, 2 })
    refused("Algebra has no field 'prodct'; did you mean 'product'?",
      function() return clifford.algebra(2).prodct end)
    refused("product: 3 arguments at most, got 4", function()
      clifford.algebra(2):product(1, 2, 3, 4)
    end)
  end)
end)

-- ---- products -----------------------------------------------------------------------------------

describe("the geometric product", function()
  for _, squares in ipairs(SIGNATURES) do
    it("is the definition's for " .. title(squares), function()
      local A = clifford.algebra(squares)
      local x, y = flame.randn(A.size, 3, F64), flame.randn(A.size, 3, F64)
      local a, b, r = x:totable(), y:totable(), flame.zeros(A.size, 3, F64):totable()
      local many = 0
      each_pair(squares, function(i, j, k, sign)
        many = many + 1
        for n = 1, 3 do r[k][n] = r[k][n] + sign * a[i][n] * b[j][n] end
      end)
      same(r, A:product(x, y))
      if #squares == 4 and squares[1] == 0 then assert.equal(192, many) end
    end)

    it("is associative, and linear in both, for " .. title(squares), function()
      local A = clifford.algebra(squares)
      local x, y, z = flame.randn(A.size, 5, F64), flame.randn(A.size, 5, F64),
        flame.randn(A.size, 5, F64)
      same(A:product(A:product(x, y), z), A:product(x, A:product(y, z)))
      same(A:product(x, y) * 2 - A:product(z, y), A:product(x * 2 - z, y))
      same(A:product(x, y) * 2 - A:product(x, z), A:product(x, y * 2 - z))
    end)
  end

  it("squares e12 and e123 to -1, and has e1 e23 = e123, e2 e13 = -e123", function()
    local A = clifford.algebra(3)
    local at = {}
    for i, name in ipairs(A.blades) do
      at[name] = flame.one_hot(flame.tensor({ i }, { dtype = "i64" }), 8)[1]:float()
    end
    assert.same((-at["1"]):totable(), A:product(at.e12, at.e12):totable())
    assert.same((-at["1"]):totable(), A:product(at.e123, at.e123):totable())
    assert.same(at.e123:totable(), A:product(at.e1, at.e23):totable())
    assert.same((-at.e123):totable(), A:product(at.e2, at.e13):totable())
  end)

  it("broadcasts the axes after the first, takes views, integers and empty batches", function()
    local A = clifford.algebra(3)
    local v, x = flame.randn(8), flame.randn(8, 4, 5)
    local r = A:product(v, x)
    assert.same({ 8, 4, 5 }, r.shape)
    same(A:product(v, x[{ {}, 2, 3 }]), r[{ {}, 2, 3 }], 1e-5)
    same(r, A:product(v:reshape(8, 1, 1), x:permute(3, 2, 1):contiguous():permute(3, 2, 1)), 1e-5)
    assert.same({ 8, 4, 5 }, A:product(x[{ {}, { 2 }, {} }], x[{ {}, {}, { 1 } }]).shape)
    local i = flame.arange(8):reshape(8, 1)
    assert.equal("f32", A:product(i, i).dtype)
    same(A:product(i:float(), i:float()), A:product(i, i))
    assert.equal("f64", A:product(x, x:double()).dtype)
    assert.same({ 8, 0, 5 }, A:product(flame.zeros(8, 0, 5), x[{ {}, { 1 }, {} }]).shape)
    assert.same({ 8, 2, 0 },
      A:product(flame.zeros(8, 2, 0), flame.zeros(8, 2, 0), flame.zeros(20, 0)).shape)
    local one = A:product(x:to("bf16"), x:to("bf16"))
    assert.equal("bf16", one.dtype)
    assert.allclose(A:product(x:to("bf16"):double(), x:to("bf16"):double()), one:double(),
      { rtol = 0.004, atol = 1e-6 })
    local wide = flame.randn(8, 1, 2, 1, 2, 1, 3)
    assert.same(wide.shape, A:product(wide, wide).shape)
  end)

  it("keeps an infinity to the components that it reaches", function()
    local A = clifford.algebra { 0, 1, 1, 1 }
    local x, y = flame.ones(16), flame.ones(16)
    x[2] = math.huge                                     -- e0 squares to 0: not in the scalar part
    local r = A:product(x, y):totable()
    assert.is_true(r[1] > -100 and r[1] < 100)
    assert.equal(math.huge, r[2])
  end)

  it("holds across a scope that made its tables", function()
    local A = clifford.algebra { 1, 1, -1 }
    local x = flame.randn(8, 2)
    local first = flame.scope(function() return A:product(x, x):totable() end)
    assert.same(first, A:product(x, x):totable())
  end)

  it("is one kernel with its gradients by x and y, and one more is the weight's", function()
    local A = clifford.algebra(3)
    local x, y, w = flame.randn(8, 6, 10), flame.randn(8, 6, 10), flame.randn(20, 10)
    local g = flame.randn(8, 6, 10)
    local function launches(f)
      f()
      flame.stats("reset")
      f()
      return flame.stats().launches
    end
    flame.eval(x, y, w, g)
    assert.equal(1, launches(function() flame.eval((A:product(x, y))) end))
    assert.equal(1, launches(function() flame.eval((A:product(x, y, w))) end))
    assert.equal(4 * (3 * 8 * 60 + 200), flame.stats().bytes_moved)        -- each array once
    assert.equal(2, launches(function()
      for _, p in ipairs { x, y, w } do p:requires_grad_() end
      local r = A:product(x, y, w)
      r:backward(g)
      flame.eval(r, x.grad, y.grad, w.grad)
      x.grad, y.grad, w.grad = nil, nil, nil
    end))
  end)

  it("is one kernel with gates and norm, also in G(3,0,1)", function()
    for _, signature in ipairs { { 1, 1, 1 }, { 0, 1, 1, 1 } } do
      local A = clifford.algebra(signature)
      local x, y = flame.randn(A.size, 40, 10), flame.randn(A.size, 40, 10)
      local w = flame.randn(#A.paths, 10)
      local function layer() flame.eval((A:grade_norm(A:product(A:gelu(x), A:gelu(y), w)))) end
      flame.eval(x, y, w)
      layer()
      flame.stats("reset")
      layer()
      assert.equal(1, flame.stats().launches)
    end
  end)
end)

-- ---- known numbers -----------------------------------------------------------------------------

--- Inputs with known results: x[k,n] = sin(1+k+10n), y[k,n] = cos(2+k+7n), w[p,n] = 0.1(p+1)-0.05n,
--- f[p,a,b] = 0.1(p+1)-0.05a+0.02b, all indices from 0.
local function known_inputs(A)
  local x, y, w, f = {}, {}, {}, {}
  for k = 0, A.size - 1 do
    x[k + 1] = { math.sin(1 + k), math.sin(11 + k) }
    y[k + 1] = { math.cos(2 + k), math.cos(9 + k) }
  end
  for p = 1, #A.paths do
    w[p] = { 0.1 * p, 0.1 * p - 0.05 }
    f[p] = { { 0.1 * p, 0.1 * p + 0.02 }, { 0.1 * p - 0.05, 0.1 * p - 0.03 } }
  end
  return flame.tensor(x, F64), flame.tensor(y, F64), flame.tensor(w, F64), flame.tensor(f, F64)
end
local KNOWN = {
  [2] = {
    plain = { { -1.127939, 0.527276 }, { -0.756802, 0.977776 }, { -1.100044, -0.008851 },
      { 0.098986, -1.396243 } },
    weighted = { { -0.070504, -0.012160 }, { 0.017713, 0.004442 }, { -0.178504, 0.008176 },
      { 0.018502, -0.024160 } },
    normed = { { -1.393367, -0.240308 }, { 0.139451, 0.034970 }, { -1.405369, 0.064372 },
      { 0.858904, -1.121594 } },
    full = { { -0.082664, -0.088472 }, { 0.022154, 0.018616 }, { -0.170328, -0.176293 },
      { -0.005659, -0.005925 } },
    loss = -0.995935, dx = { { 1, 1, 0.57409 }, { 2, 2, 0.00790 } },
    dy = { { 1, 2, -0.13929 }, { 3, 1, 3.95025 } }, dw = { { 6, 1, -0.00268 }, { 7, 2, 0.20432 } },
  },
  [3] = {
    weighted = { { 0.607789, -0.054788 }, { 0.434866, -0.068001 }, { 0.310681, -0.005146 },
      { -0.531020, 0.023562 },
      { 0.615806, -0.093406 }, { 0.153754, 0.043120 }, { -0.733575, 0.078443 },
      { -1.046665, 0.142497 } },
    normed = { { 1.408499, -0.126966 }, { 0.812571, -0.127063 }, { 0.580524, -0.009616 },
      { -0.992239, 0.044026 },
      { 0.889893, -0.134980 }, { 0.222188, 0.062312 }, { -1.060079, 0.113356 },
      { -1.401285, 0.190776 } },
    full = { { 0.553001, 0.556210 }, { 0.366865, 0.369120 }, { 0.305535, 0.307534 },
      { -0.507458, -0.510524 },
      { 0.522400, 0.532425 }, { 0.196874, 0.200558 }, { -0.655132, -0.665475 },
      { -0.904168, -0.919330 } },
    loss = -0.933701, dx = { { 1, 1, -0.00039 }, { 2, 2, -0.03061 } },
    dy = { { 1, 2, 0.22059 }, { 3, 1, -0.59339 } }, dw = { { 6, 1, 0.00570 }, { 7, 2, -0.00971 } },
  },
}

describe("known numbers", function()
  for dims, known in ordered(KNOWN) do
    it(("of Cl(%d,0): gated, weighted, normed and fully connected"):format(dims), function()
      local A = clifford.algebra(dims)
      local x, y, w, f = known_inputs(A)
      if known.plain then same(known.plain, A:product(x, y), 1e-6) end
      local o = A:product(A:gelu(x), A:gelu(y), w)
      same(known.weighted, o, 1e-6)
      same(known.normed, A:grade_norm(o), 2e-6)
      same(known.full, A:fully_connected(A:gelu(x), A:gelu(y), f), 1e-6)
    end)

    it(("of Cl(%d,0): the gradients of gelu, product and norm"):format(dims), function()
      local A = clifford.algebra(dims)
      local x, y, w = known_inputs(A)
      for _, p in ipairs { x, y, w } do p:requires_grad_() end
      local o = A:grade_norm(A:product(A:gelu(x), A:gelu(y), w))
      local by = flame.arange(0, A.size - 1, 1, F64):reshape(-1, 1) * 0.1 - flame.arange(0, 1, 1,
        F64) * 0.2 + 0.3
      local loss = (o * by):sum()
      local g = loss:gradients { x, y, w }
      assert.close(known.loss, loss, 5e-6)
      for name, p in pairs { dx = x, dy = y, dw = w } do
        for _, e in ipairs(known[name]) do assert.close(e[3], g[p][{ e[1], e[2] }], 2e-4) end
      end
    end)
  end
end)

describe("weighted products", function()
  for dims in ordered(PATHS) do
    it(("of Cl(%d,0) are the definition's, one weight per path and feature"):format(dims),
      function()
      local A, squares = clifford.algebra(dims), clifford.algebra(dims).signature
      local _, many = path_numbers(dims)
      local x, y, w = flame.randn(A.size, 3, F64), flame.randn(A.size, 3, F64),
        flame.randn(many, 3, F64)
      local t = w:totable()
      same(by_definition(squares, x:totable(), y:totable(), 3,
        function(p, n, m) return n == m and t[p][n] or 0 end), A:product(x, y, w))
      local f = flame.randn(many, 3, 2, F64)
      local u = f:totable()
      same(by_definition(squares, x:totable(), y:totable(), 2,
        function(p, n, m) return u[p][n][m] end), A:fully_connected(x, y, f))
    end)
  end

  it("agree where the fully connected weight is diagonal, in any algebra and with batch axes", function()
    for _, squares in ipairs(SIGNATURES) do
      local A = clifford.algebra(squares)
      local x, y = flame.randn(A.size, 2, 3, 4, F64), flame.randn(A.size, 2, 3, 4, F64)
      local w = flame.randn(#A.paths, 4, F64)
      same(A:product(x, y, w), A:fully_connected(x, y, w:unsqueeze(3) * flame.eye(4, 4, F64)))
      same(A:product(x, y), A:product(x, y, flame.ones(#A.paths, 4, F64)))
    end
  end)

  it("take one feature and no batch", function()
    local A = clifford.algebra(2)
    local x, w = flame.randn(4, 1), flame.randn(10, 1)
    same(A:product(x, x, w), A:fully_connected(x, x, w:unsqueeze(3)), 1e-5)
  end)
end)

-- ---- parts and motions --------------------------------------------------------------------------

describe("parts", function()
  local A = clifford.algebra(3)
  it("are taken by grade and put back", function()
    local x = flame.randn(8, 2, 3)
    assert.same({ 3, 2, 3 }, A:grade(x, 2).shape)
    assert.same(x[{ { 5, 7 } }]:totable(), A:grade(x, 2):totable())
    local whole = flame.zeros(8, 2, 3)
    for g = 0, 3 do whole = whole + A:embed(A:grade(x, g), g) end
    assert.same(x:totable(), whole:totable())
    assert.same(A:embed(A:grade(x, 1), 1):totable(), A:project(x, 1):totable())
    assert.same(x:totable(), A:project(x, 0, 1, 2, 3):totable())
    assert.same({ 0, 0, 0, 0, 7, 8, 9, 0 }, A:embed(flame.tensor { 7, 8, 9 }, 2):totable())
  end)

  it("have the signs of reverse and involution; the reverse of a product is the product of the reverses, exchanged", function()
    local one = flame.ones(8)
    assert.same({ 1, 1, 1, 1, -1, -1, -1, -1 }, A:reverse(one):totable())
    assert.same({ 1, -1, -1, -1, 1, 1, 1, -1 }, A:involute(one):totable())
    for _, squares in ipairs(SIGNATURES) do
      local B = clifford.algebra(squares)
      local x, y = flame.randn(B.size, 2, F64), flame.randn(B.size, 2, F64)
      same(B:reverse(B:product(x, y)), B:product(B:reverse(y), B:reverse(x)))
      same(B:involute(B:product(x, y)), B:product(B:involute(x), B:involute(y)))
    end
  end)

  it("have a norm, of gradient 0 at 0", function()
    same({ 3 }, A:norm(flame.tensor { { 1 }, { 2 }, { 0 }, { 0 }, { 0 }, { 0 }, { 2 }, { 0 } }))
    local B = clifford.algebra { 0, 1, -1 }              -- 1 e0 e1 e2 e01 e02 e12 e012
    same({ 0, 5, 4 },
      B:norm(flame.tensor { { 0, 3, 0 }, { 7, 0, 7 }, { 0, 4, 0 }, { 0, 0, 4 }, { 1, 1, 1 },
      { 1, 1, 1 }, { 0, 0, 0 },
      { 2, 2, 2 } }))
    local x = flame.zeros({ 8, 2 }, { requires_grad = true })
    A:norm(x):sum():backward()
    assert.equal(0, x.grad:abs():sum():item())
    local q = flame.randn(8, 4, F64)
    same(A:product(q, A:reverse(q))[1]:sqrt(), A:norm(q))
  end)

  it("have inverses where they are versors", function()
    for _, squares in ipairs(SIGNATURES) do
      local B = clifford.algebra(squares)
      local v = versor(B, 2)
      same(flame.cat({ flame.ones(1, 1, F64), flame.zeros(B.size - 1, 1, F64) }, 1),
        B:product(v, B:inverse(v)), 1e-7)
    end
  end)
end)

describe("sandwich", function()
  it("rotates and reflects vectors as matrices do, and blades with them", function()
    local A = clifford.algebra(3)
    local u, v = flame.randn(3, F64), flame.randn(3, F64)
    local function mirror(n)
      return flame.eye(3, 3, F64) - 2 * n:reshape(3, 1) * n:reshape(1, 3) / (n * n):sum()
    end
    local p = flame.randn(3, 7, F64)
    local x = A:embed(p, 1)
    local one, two = A:embed(u:reshape(3, 1), 1), A:embed(v:reshape(3, 1), 1)
    same(mirror(u):matmul(p), A:grade(A:sandwich(one, x), 1))
    local R = mirror(u):matmul(mirror(v))
    local rotor = A:product(one, two)
    same(R:matmul(p), A:grade(A:sandwich(rotor, x), 1))
    same(flame.zeros(8, 7, F64)[{ { 5, 8 } }], A:sandwich(rotor, x)[{ { 5, 8 } }])
    local y = flame.randn(8, 7, F64)
    same(A:product(A:sandwich(rotor, x), A:sandwich(rotor, y)), A:sandwich(rotor, A:product(x, y)))
    same(A:product(A:sandwich(one, x), A:sandwich(one, y)), A:sandwich(one, A:product(x, y)))
    local volume = A:embed(flame.ones(1, 1, F64), 3)
    same(volume, A:sandwich(rotor, volume))
    same(-volume, A:sandwich(one, volume))
  end)

  it("turns by twice the angle, from the second vector to the first", function()
    local A = clifford.algebra(2)
    local half = math.pi / 6
    local r = A:product(A:embed(flame.tensor({ math.cos(half), math.sin(half) }, F64), 1),
      A:embed(flame.tensor({ 1, 0 }, F64), 1))
    same({ 0, math.cos(2 * half), math.sin(2 * half), 0 },
      A:sandwich(r, A:embed(flame.tensor({ 1, 0 }, F64), 1)))
  end)

  it("moves planes of G(3,0,1) by 1 + e01", function()
    local A = clifford.algebra { 0, 1, 1, 1 }
    local t = flame.zeros(16, F64)
    t[1], t[6] = 1, -0.5                                -- a translation by 1 along e1
    local plane = A:embed(flame.tensor({ -2, 1, 0, 0 }, F64), 1)      -- x = 2
    local moved = A:grade(A:sandwich(t, plane), 1):totable()
    assert.close(1, math.abs(moved[1] - -2), 1e-12)
    same({ 1, 0, 0 }, { moved[2], moved[3], moved[4] })
  end)
end)
