-- Ops that the CPU does in one pass give the same bits as one after the other.
local flame = require "flame"

local function same_bits(want, got)
  local a, b = want:flatten():totable(), got:flatten():totable()
  assert.equal(#a, #b)
  for i = 1, #a do
    if not (a[i] == b[i] and 1 / a[i] == 1 / b[i] or a[i] ~= a[i] and b[i] ~= b[i]) then
      error(("element %d: %a, not %a"):format(i, b[i], a[i]), 2)
    end
  end
end

local ops = {
  add = function(a, b) return a + b end,
  sub = function(a, b) return a - b end,
  rsub = function(a, b) return b - a end,
  mul = function(a, b) return a * b end,
}

--- Checks that f(stop) gives the same bits whether stop evaluates its argument or only returns it.
local function compare(f)
  local want = f(function(t) flame.eval(t) return t end)
  local got = f(function(t) return t end)
  flame.eval(want, got)
  same_bits(want, got)
end

describe("operations of one trip", function()
  flame.default_device("cpu")
  for _, dtype in ipairs { "f32", "f64" } do
    it("pair sums, differences and products of any length in " .. dtype, function()
      flame.seed(3)
      for _, n in ipairs { 1, 3, 7, 8, 17, 63, 1000, 1025, 5003 } do
        local x, y, z = flame.randn(n, { dtype = dtype }), flame.randn(n, { dtype = dtype }),
          flame.randn(n, { dtype = dtype })
        for _, first in pairs(ops) do
          for _, second in pairs(ops) do
            compare(function(stop) return second(stop(first(x, y)), z) end)
            compare(function(stop) return second(stop(first(x, 1.5)), z) end)
            compare(function(stop) return second(stop(first(x, y)), -0.1) end)
            compare(function(stop) return second(stop(first(2, x)), 0.3) end)
          end
        end
      end
    end)

    it("take values of a row and of a column in " .. dtype, function()
      flame.seed(4)
      for _, shape in ipairs { { 5, 64 }, { 33, 100 }, { 40, 129 }, { 9, 1000 }, { 3, 5000 } } do
        local m, n = shape[1], shape[2]
        local x, y = flame.randn(m, n, { dtype = dtype }), flame.randn(m, n, { dtype = dtype })
        local column = flame.randn(n, { dtype = dtype })
        for axis = 1, 2 do
          compare(function(stop)
            local mean = stop(x:sum(axis, true))
            local centred = stop(x - mean)
            local sum = stop(stop(centred * y):sum(axis, true))
            return stop(stop(stop(centred * sum) * column) + y) - mean
          end)
          compare(function(stop) return stop(stop(x * y):sum(axis)) end)
          compare(function(stop) return stop(stop(x - column):square():sum(axis)) end)
        end
        compare(function(stop) return stop(x * y):sum() end)
      end
    end)
  end

  -- Trees of ops that the CPU does as a chain in one pass (vm_pair_loops.h). Some values are read
  -- twice, and some ops end a chain.
  local programs = {
    function(s, x) return s(s(s(x * 2) + 1):relu()) end,
    function(s, x, y, z) return s(s(s(x * y) - s(y * z)) * s(s(x - 1) / s(z:square() + 1))) end,
    function(s, x, y, z) local d = s(x - y) return s(s(d * z) + s(d * d)) end,
    function(s, x, y) local d = s(x + y) return s(s(s(d + d) - s(d * 3)):neg() / 7) end,
    function(s, x, y, z) local m, v = s(s(x * 0.9) + s(y * 0.1)),
    s(s(z:square() * 0.99) + s(s(y * y) * 0.01))
      return s(x - s(s(m / s(s(v:sqrt() * 3) + 1e-8)) * 0.01)) end,
    function(s, x, y, z) return s(s(s(s(x - y):exp() * z) - x):relu() + s(z:tanh() * y)) end,
    function(s, x, y, z)                                       -- more links than a chain has
      local t = x
      for i = 1, 9 do t = s(s(t * y) + s(z * (i / 8))) end
      return t
    end,
  }

  for _, dtype in ipairs { "f32", "f64", "bf16", "f16" } do
    it("go in chains of " .. dtype, function()
      flame.seed(5)
      for _, shape in ipairs { { 1 }, { 63 }, { 65 }, { 5003 }, { 7, 64 }, { 50, 100 },
          { 9, 1000 } } do
        local n = shape[#shape]
        local x, y, z = flame.randn(shape, { dtype = dtype }),
          flame.randn(shape, { dtype = dtype }), flame.randn(shape, { dtype = dtype })
        local line, column = flame.randn({ n }, { dtype = dtype }),
          #shape > 1 and flame.randn({ shape[1], 1 }, { dtype = dtype }) or z
        for _, f in ipairs(programs) do
          compare(function(stop) return f(stop, x, y, z) end)
          compare(function(stop) return f(stop, x, line, column) end)
          compare(function(stop) return f(stop, column, y, line) end)
          compare(function(stop) return stop(f(stop, x, y, column):sum(1)) end)
          compare(function(stop) return stop(f(stop, x, line, z):sum(#shape)) end)
        end
      end
    end)
  end

  -- Random trees with flame.where: the condition tests a value that is also selected, or is used
  -- for two selections; selections are nested.
  local SPECIAL = { 0.0, -0.0, 1 / 0, -1 / 0, 0 / 0, 1.5, -2.0, 0.25 }
  local TESTS = { "gt", "ge", "lt", "le", "eq", "ne" }
  local function tree(s, leaves, depth, known)
    local function leaf()
      if #known > 0 and math.random(3) == 1 then return known[math.random(#known)] end
      return leaves[math.random(#leaves)]
    end
    local function part()
      return depth > 1 and math.random(5) > 1 and tree(s, leaves, depth - 1, known) or leaf()
    end
    local function operand()
      return math.random(3) == 1 and SPECIAL[math.random(#SPECIAL)] or part()
    end
    local function chosen(c) return flame.where(c, part(), operand()) end
    local kind, a, y = math.random(12), part(), nil
    if kind == 1 then y = s(a + operand())
    elseif kind == 2 then y = s(a * operand())
    elseif kind == 3 then y = s(a - part())
    elseif kind == 4 then y = s(a:relu())
    elseif kind == 5 then y = s(a:maximum(part()))
    elseif kind == 6 then y = s(a:minimum(part()))
    elseif kind == 7 then y = s(a:clamp(SPECIAL[math.random(8)], SPECIAL[math.random(8)]))
    elseif kind == 8 then y = s(a:exp())
    else
      local c = s(a[TESTS[math.random(6)]](a, operand()))
      y = s(chosen(c))
      if kind == 9 then
        y = s(y + s(chosen(c)))
      elseif kind == 10 then
        y = s(flame.where(c, a, y))
      end
    end
    known[#known + 1] = y
    return y
  end
  for _, dtype in ipairs { "f32", "f64", "bf16" } do
    it("choose in chains of " .. dtype, function()
      flame.seed(6)
      for case = 1, 150 do
        local shape = ({ { 5 }, { 64 }, { 1100 }, { 5003 }, { 7, 64 }, { 50, 100 },
          { 9, 1000 } })[case % 7 + 1]
        local function numbers(size)
          local x = flame.randn(size, { dtype = "f64" })
          return flame.where(x:gt(1.2),
            flame.tensor(SPECIAL, { dtype = "f64" })[flame.randint(size, 1, #SPECIAL)], x):to(dtype)
        end
        local leaves = { numbers(shape), numbers(shape), numbers { shape[#shape] } }
        if #shape > 1 then leaves[4] = numbers { shape[1], 1 } end
        local sum = #shape > 1 and case % 3 == 0
        compare(function(stop)
          math.randomseed(case)
          local y = tree(stop, leaves, 4, {}) + leaves[1] * 0
          return sum and stop(y):sum(case % 2 + 1) or y
        end)
      end
    end)
  end

  it("read and write halves in place, whole and in pieces", function()
    local data = { 0, -0.0, 1 / 0, -1 / 0, 0 / 0, 1.00390625, 3.3895313892515355e+38,
      9.1835496157991212e-41 }
    for i = #data + 1, 200 do data[i] = (i * 37 % 101 - 50) / 7 end
    for _, first in ipairs { 1, 2, 5 } do
      local x = flame.tensor(data, { dtype = "bf16" }):narrow(1, first, 190)
      compare(function(stop) return stop(stop(x * 1.1) + x) end)
      compare(function(stop) return stop(stop(x:reshape(19, 10):t() * 3) - 1):t() end)
      local a, b = x:clone(), x:clone()
      a:mul_(1.5):add_(x)
      b:copy_(x * 1.5 + x)
      compare(function() return a end)
      same_bits(b, a)
    end
  end)

  it("sum halves and their products where they lie, as widened before", function()
    local function sums(x, y)
      for dim = 1, #x.shape do
        compare(function(stop) return stop(x:to("f32")):sum(dim) end)
        compare(function(stop) return (stop(x:to("f32")) * stop(y:to("f32"))):sum(dim) end)
        compare(function(stop) return stop(x:to("f32")):square():sum(dim) end)
        compare(function(stop)                  -- a, b: read by elementwise ops and a sum
          local a, b = stop(x:to("f32")), stop(y:to("f32"))
          return flame.stack({ ((a - b) * a):sum(dim) + b:sum(dim),
            (b:exp() * a):sum(dim) + a:sum(dim) }, 1)
        end)
      end
      compare(function(stop) return stop(x:to("f32")):sum() end)
    end
    for _, shape in ipairs { { 70001 }, { 5, 7 }, { 17, 16 }, { 33, 63 }, { 3, 64 }, { 21, 65 },
                             { 5, 1023 }, { 9, 1024 }, { 6, 2065 },
                             { 2, 5000 }, { 300, 37 }, { 1030, 3 }, { 3, 40, 50 } } do
      local x, y = flame.randn(shape, { dtype = "bf16" }), flame.randn(shape, { dtype = "bf16" })
      sums(x, y)
      if #shape > 1 then                              -- views: a part, and one transposed operand
        sums(x:narrow(2, 2, shape[2] - 1), y:narrow(2, 1, shape[2] - 1))
        sums(x:clone(), y:transpose(1, 2):clone():transpose(1, 2))
      end
    end
    local odd =
      flame.tensor({ { -0.0, -0.0, -0.0 }, { 1 / 0, 0 / 0, 1 }, { -1 / 0, 1 / 0, 2 },
        { 1e-40, 3e38, 3e38 } }, { dtype = "bf16" })
    sums(odd, odd:flip(1))
    sums(odd:expand(30, 4, 3):reshape(30 * 4, 3):t():clone(),
      odd:expand(30, 4, 3):reshape(30 * 4, 3):t():clone())
  end)

  -- Sums read half floats directly from memory. Here the widened value is also stored, or read by
  -- another op, or multiplied by another stored value. The values are small integers, so that every
  -- sum is exact.
  it("read what is both widened for a result and summed #halves", function()
    local function rows(n, m, f)
      local t = {}
      for i = 1, n do t[i] = {} for j = 1, m do t[i][j] = f(i, j) end end
      return t
    end
    local function by_row(t, f)
      local y = {}
      for i, row in ipairs(t) do y[i] = f(row) end
      return y
    end
    local function sum(list) local s = 0 for _, v in ipairs(list) do s = s + v end return s end
    local function squares(list)
      local s = 0
      for _, v in ipairs(list) do s = s + v * v end
      return s
    end
    for _, dtype in ipairs { "bf16", "f16" } do
      for _, size in ipairs { { 2, 4 }, { 3, 64 }, { 5, 100 }, { 2, 1024 }, { 2, 3000 } } do
        local n, m = size[1], size[2]
        local a = rows(n, m, function(i, j) return (7 * i + 3 * j) % 5 - 1 end)
        local b = rows(n, m, function(i, j) return (i + j * j) % 4 - 1 end)
        local c = rows(m, n, function(i, j) return a[j][i] end)
        local X, Y, Z = flame.tensor(a):to(dtype), flame.tensor(b):to(dtype),
          flame.tensor(c):to(dtype)
        flame.eval(X, Y, Z)
        local dots = {}
        for i = 1, n do dots[i] = 0 for j = 1, m do dots[i] = dots[i] + a[i][j] * b[i][j] end end
        local U = X:to("f32")
        local s, q, mean, d = U:sum(2), U:square():sum(2), U:mean(2), (U * Y:to("f32")):sum(2)
        local double, var, norm = U * 2, U:var(2), U:layer_norm { m }
        flame.eval(s, q, mean, d, U, double, var, norm)
        assert.same(a, U:totable())
        assert.same(by_row(a, sum), s:totable())
        assert.same(by_row(a, squares), q:totable())
        assert.same(dots, d:totable())
        assert.allclose(by_row(a, function(row) return sum(row) / m end), mean:totable())
        assert.allclose(by_row(a,
          function(row) return (squares(row) - sum(row) ^ 2 / m) / (m - 1) end), var,
          { rtol = 1e-4 })
        local mu = by_row(a, function(row) return sum(row) / m end)
        local root = by_row(a, function(row)
          return math.sqrt(squares(row) / m - (sum(row) / m) ^ 2 + 1e-5)
        end)
        assert.allclose(rows(n, m, function(i, j) return (a[i][j] - mu[i]) / root[i] end), norm,
          { rtol = 1e-4, atol = 1e-4 })
        for _, f in ipairs { function(V, W) return (V * W):sum(2), V end,
            function(V, W) return (V * W):sum(2), W end } do
          local V, W = X:to("f32"), Y:to("f32")
          local p, kept = f(V, W)
          flame.eval(p, kept)
          assert.same(dots, p:totable())
          assert.same(kept == V and a or b, kept:totable())
        end
        -- sums of widened values: along rows, across rows, and where another op reads the values
        -- too
        for _, kept in ipairs { true, false } do
          local V, W, T = X:to("f32"), Z:to("f32"), X:to("f32")
          local r, t, u = V:sum(2), W:sum(1), T:sum(2, true) - T:exp() * 0
          if kept then
            flame.eval(r, V)
            flame.eval(t, W)
            flame.eval(u, T)
          else
            flame.eval(r, t, u)
          end
          assert.same({ by_row(a, sum), by_row(a, sum), a },
            { r:totable(), t:totable(), V:totable() })
          assert.same({ c, a, by_row(a, sum) },
            { W:totable(), T:totable(), u:select(2, 1):totable() })
        end
      end
    end
  end)

  it("read halves alike on every instruction set", function()
    local program = dofile("spec/support/interpreter.lua")
    for _, set in ipairs { "base", "avx2", "avx512" } do
      local command = "FLAME_ISA=%s '%s' tools/busted.lua --tags=halves spec/plan/fuse_spec.lua 2>&1"
      local pipe = assert(io.popen(command:format(set, program)))
      local log = pipe:read "a"
      pipe:close()
      assert(log:find("1 passed, 0 failed", 1, true), set .. ": " .. log)
    end
  end)

  it("find the largest of a long row whatever lies in it", function()
    for _, dtype in ipairs { "f32", "f64", "bf16" } do
      for _, odd in ipairs { {}, { 0 / 0 }, { 0.0 }, { -0.0 }, { -0.0, 0.0 }, { 1 / 0 },
          { -1 / 0 } } do
        for _, n in ipairs { 1025, 4096, 5003, 40000 } do
          local x = flame.rand({ 2, n }, { dtype = dtype }) - 2
          for k, v in ipairs(odd) do x[{ 1, n // 2 * k }] = v x[{ 2, k }] = v end
          local turned = x:t():contiguous()
          flame.eval(x, turned)
          same_bits(turned:amax(1), x:amax(2))
          same_bits((-turned):amin(1), (-x):amin(2))
          same_bits(turned:amax(), x:amax())
        end
      end
    end
  end)

  it("give rows of a few thousand points in all, which workers share, what each gets alone", function()
    for _, dtype in ipairs { "f32", "f64", "bf16" } do
      for _, shape in ipairs { { 64, 128 }, { 333, 16 }, { 5, 3001 } } do
        local x = flame.randn(shape, { dtype = dtype })
        local at = flame.randint(shape, 1, shape[2])
        for _, f in ipairs { function(v) return v:softmax(-1) end,
                             function(v) return (v:exp() * v + 1):tanh() end,
                             function(v) return (v:logcumsumexp(-1)) end,
                             function(v) return (v:cummax(-1)) end,
                             function(v) return select(2, v:cummin(-1)) end,
                             function(v, i) return v:gather(-1, i) end } do
          local got, rows = f(x, at), {}
          flame.eval(got)
          for r = 1, shape[1] do rows[r] = f(x[r]:clone(), at[r]:clone()) end
          same_bits(flame.stack(rows, 1), got)
        end
      end
    end
  end)

  it("move narrow elements as they are, and convert those of another type", function()
    for _, dtype in ipairs { "bf16", "f16", "i16", "u8", "bool" } do
      local values = {}
      for i = 1, 24 * 16 do values[i] = i * 5 % 7 end
      local x = flame.tensor(values):reshape(24, 16):to(dtype)
      local i = flame.tensor({ 3, 24, 1, 24, 3 }, { dtype = "i64" })
      local both = flame.cat({ x, x:narrow(2, 3, 7), x }, 2):to("f32"):totable()
      local rows, part = x:index_select(1, i):to("f32"):totable(),
        x:narrow(1, 2, 5):clone():to("f32"):totable()
      local want = x:to("f32"):totable()
      for r = 1, 24 do
        for c = 1, 39 do
          assert.equal(want[r][c <= 16 and c or c <= 23 and c - 14 or c - 23], both[r][c])
        end
      end
      for k, r in ipairs { 3, 24, 1, 24, 3 } do assert.same(want[r], rows[k]) end
      for r = 1, 5 do assert.same(want[r + 1], part[r]) end
    end
    for _, pair in ipairs { { "bf16", "f16" }, { "f16", "bf16" }, { "i8", "bool" },
        { "bool", "u8" } } do
      local x = flame.tensor({ 0, 1, -2, 3, 200, 5, 6, 7.25 }):to(pair[1])
      flame.eval(x)
      local want = {}
      for k, v in ipairs(x:totable()) do
        want[k] = flame.tensor(v, { dtype = pair[1] }):to("f64"):to(pair[2]):item()
      end
      assert.same(want, x:to(pair[2]):totable())
    end
  end)

  it("read a tensor that a number fills as its dtype has the number", function()
    local rounded = {
      bf16 = { [0.725] = 0.7265625, [1.1] = 1.1015625, [1e-3] = 0x1.06p-10, [1.0e38] = 0x1.2cp126 },
      f16 = { [0.725] = 0.72509765625, [1.1] = 1.099609375, [1e-3] = 0x1.064p-10,
        [1.0e38] = math.huge } }
    for dtype, numbers in pairs(rounded) do
      for number, value in pairs(numbers) do
        local function of(x) return x:to("f64"):sum():item() / 4 end
        assert.equal(value, of(flame.full({ 4 }, number, { dtype = dtype })))
        assert.equal(value,
          of(flame.zeros({ 2, 2 }, { dtype = dtype }):fill_(number):unsqueeze(1):to("f32")))
        assert.equal(value,
          of(flame.zeros({ 2, 2 }, { dtype = dtype }):masked_fill(flame.ones(2, 2):gt(0), number)))
        local one = flame.ones({ 3, 2 }, { dtype = dtype })
        one[{ { 2, 3 } }] = number
        assert.equal(value, of(one:to("f32"):narrow(1, 2, 2)))
        local kept = flame.full({ 4 }, number, { dtype = dtype })
        local wide, twice = kept:to("f32"), kept:to("f32") + kept:to("f32")
        flame.eval(kept, wide, twice)
        assert.same({ value, value, value, value }, kept:totable())
        assert.same({ value, value, value, value }, wide:totable())
        assert.equal(2 * value, twice[1]:item())
      end
    end
  end)

  it("sum a broadcast negative with the sign of zero that it had", function()
    local x = flame.tensor({ { 1, -1 }, { 2, 3 } })
    local c = flame.tensor({ { 0.5 }, { 0.25 } }, { requires_grad = true })
    local y = x - c
    y:backward(flame.tensor({ { 1, -1 }, { 2, 3 } }))
    assert.same({ { 0 }, { -5 } }, c.grad:totable())
    assert.equal(math.huge, 1 / c.grad:totable()[1][1])
  end)
end)

describe("long rows in several rounds", function()
  -- A long row is computed in several rounds, and values that a later round computes again may then
  -- be in other memory. Compares sums and pointwise results that use such values with the same ops
  -- one by one. 128 x 196 elements per row are more than the CPU holds for 40 instructions.
  local function of(N, C, H, dtype, eager, more)
    flame.seed(5)
    local function e(t) if eager then flame.eval(t) end return t end
    local x, g, w = flame.randn(N, C, H):to(dtype), flame.randn(N, C, H):to(dtype),
      flame.randn(C, 1):to(dtype)
    flame.eval(x, g, w)
    local axes, keep = { 1, 3 }, { keepdim = true }
    local m = e(x:mean(axes, keep))
    local d = e(x - m)
    local r = e(1 / e(e(e(d * d):mean(axes, keep)) + 1e-5):sqrt())
    local h = e(d * r)
    local y = e(e(h * w):relu())
    local u = e(flame.where(e(y:gt(0)), g, 0))
    local q = e(u * w)
    local s = e(e(q * d):mean(axes, keep))
    local out = { e(e(u * h):sum(axes)), e(e(q - e(d * s)) * r), more and e(u:sum(axes)) or nil,
      more and y or nil }
    -- only what is returned is stored
    y, u, q, h, s, d, r, m = nil, nil, nil, nil, nil, nil, nil, nil
    flame.eval(table.unpack(out))
    return out
  end
  for _, size in ipairs { { 16, 4, 25 }, { 64, 4, 196 }, { 128, 32, 196 }, { 300, 3, 200 },
      { 2, 2, 40001 } } do
    for _, dtype in ipairs { "f32", "f64", "bf16" } do
      it(("have the values of their ops: %d x %d x %d, %s"):format(size[1], size[2], size[3],
        dtype), function()
        for _, more in ipairs { false, true } do
          local one = of(size[1], size[2], size[3], dtype, false, more)
          local each = of(size[1], size[2], size[3], dtype, true, more)
          for k = 1, #one do
            local far = (one[k]:double() - each[k]:double()):abs():max():item()
            local most = each[k]:double():abs():max():item()
            assert.is_true(far <= (dtype == "bf16" and 0.02 or 1e-5) * most,
              ("result %d: %g of %g"):format(k, far, most))
          end
        end
      end)
    end
  end

  it("have the gradients of batch norm by its formula", function()
    local N, C, H = 128, 32, 200
    local x, w, b, g = flame.randn(N, C, H), flame.randn(C), flame.randn(C), flame.randn(N, C, H)
    flame.eval(x, w, b, g)
    for _, t in ipairs { x, w, b } do t:requires_grad_(true) end
    local y = x:batch_norm(nil, nil, w, b, { training = true }):relu()
    local d = y:gradients({ x, w, b }, { seed = g })
    flame.eval(y, d[x], d[w], d[b])
    local X = x:detach():double()
    local c = X - X:mean({ 1, 3 }, { keepdim = true })
    local u = g:double() * y:detach():gt(0):double()
    flame.eval(c, u)
    local hat = c / ((c * c):mean({ 1, 3 }, { keepdim = true }) + 1e-5):sqrt()
    flame.eval(hat)
    local p = u * hat
    flame.eval(p)
    assert.is_true((d[w]:double() - p:sum({ 1, 3 })):abs():max():item() < 1e-2)
    assert.is_true((d[b]:double() - u:sum({ 1, 3 })):abs():max():item() < 1e-2)
  end)
end)
