-- Gradients of linear algebra to second order; functions that return a status instead of raising.
local flame = require "flame"
local linalg = flame.linalg

local fails = require("spec.support.helper").raises
local matrices = dofile "spec/support/matrices.lua"
local randn, t, eye, regular = matrices.randn, matrices.t, matrices.eye, matrices.regular
local largest, is_close, orthonormal = matrices.largest, matrices.is_close, matrices.orthonormal
local function check(f, inputs, o)
  o = o or {}
  o.order = o.order or 2
  assert.is_true(flame.gradcheck(f, inputs, o))
end

describe("gradients to second order", function()
  it("of equations", function()
    check(flame.inverse, { regular(2, 3, 3) })
    check(flame.solve, { regular(2, 1, 3, 3), randn(2, 3, 2) })
    check(function(a, b) return flame.solve(a, b, { left = false }) end,
      { regular(3, 3), randn(2, 3) })
    for _, upper in ipairs { true, false } do
      check(function(a, b) return linalg.solve_triangular(a, b, { upper = upper }) end,
        { regular(3, 3), randn(3, 2) })
      check(function(a, b)
        return linalg.solve_triangular(a, b, { upper = upper, unitriangular = true })
      end,
        { randn(3, 3) * 0.3, randn(3, 2) })
      check(function(a) return flame.cholesky(a:matmul(t(a)) + eye(3), upper) end, { randn(3, 3) })
    end
    check(function(b, l) return flame.cholesky_solve(b, l) end, { randn(3, 2), regular(3, 3) })
  end)
  it("of factorisations, square, tall and wide", function()
    for _, s in ipairs { { 3, 3 }, { 4, 2 }, { 2, 4 } } do
      local x = randn(1, s[1], s[2])
      check(function(a)
        local _, l, u = linalg.lu(a)
        return l, u
      end, { x })
      check(function(a) return flame.qr(a) end, { x })
      check(function(a)
        local u, d, vh = linalg.svd(a, { full_matrices = false })
        return u * u, d, vh * vh, u:matmul(vh)
      end, { x })
      check(linalg.svdvals, { x })
      check(linalg.pinv, { x }, { atol = 1e-4 })
      check(function(a, b) return (flame.lstsq(a, b)) end, { x, randn(1, s[1], 2) },
        { atol = 1e-4 })
    end
    check(function(a)
      local w, v = flame.eigh(a + t(a))
      return w, v * v
    end, { randn(2, 3, 3) })
    check(function(a) return linalg.eigvalsh(a + t(a)) end, { randn(3, 3) })
  end)
  it("of determinants, where they are 0 too", function()
    check(flame.det, { randn(2, 3, 3) })
    local one = flame.tensor({ { 1, 2, 3 }, { 2, 4, 6 }, { 1, 0, 1 } }, { dtype = "f64" })
    check(flame.det, { one })
    check(flame.det, { flame.ones({ 3, 3 }, { dtype = "f64" }) })
    check(flame.det, { flame.zeros({ 2, 2 }, { dtype = "f64" }) })
    check(function(a) return select(2, flame.slogdet(a)) end, { regular(2, 3, 3) })
  end)
  it("by products, as a GPU computes them, are those of the host's calls", function()
    local on_device = flame.internal.on_device
    local _ <close> = setmetatable({},
      { __close = function() flame.internal.on_device = on_device end })
    local function both(f)
      flame.internal.on_device = function() return false end
      local want = f()
      flame.internal.on_device = function() return true end
      return want, f()
    end
    for _, dtype in ipairs { "f32", "f64" } do
      local tol = dtype == "f32" and 1e-6 or 1e-12
      for _, scale in ipairs { 0, 1e-9, 0.2, 1, 9, 400 } do
        local x = (randn(4, 6, 6) * scale):to(dtype)
        x[{ 1 }] = x[1] - t(x[1])
        -- antisymmetric: the exponential is a rotation, whose norm stays 1 in 11 squarings
        if scale == 400 then x = x - t(x) end
        local want, got = both(function() return x:matrix_exp() end)
        is_close(got, want, tol * largest(want) * math.max(1, scale))
      end
      local odd =
        flame.tensor({ { { 0 / 0, 0 }, { 0, 1 } }, { { 1, 0 }, { 0, -1e5 } },
          { { math.huge, 0 }, { 0, 0 } } }):to(dtype)
      local want, got = both(function() return odd:matrix_exp() end)
      assert.is_true(flame.allclose(want, got, { equal_nan = true }))
      for _, x in ipairs { regular(3, 4, 4), flame.ones(2, 3, 3), flame.zeros(0, 2, 2) } do
        x = x:to(dtype):requires_grad_(true)
        local a, b = both(function()
          local g = x:det():sum():gradients({ x }, { create_graph = true })[x]
          return { g, (g * g):sum():gradients({ x })[x] }
        end)
        for i = 1, 2 do
          is_close(a[i]:detach(), b[i]:detach(), tol * (1 + largest(a[i]:detach())))
        end
      end
    end
    check(flame.matrix_exp, { randn(2, 3, 3) })
    check(flame.det, { regular(2, 3, 3) })
  end)
  it("of exponentials keep their digits whatever the seed's size", function()
    local x = randn(4, 4):requires_grad_(true)
    local function at(k)
      return x:matrix_exp():gradients({ x },
        { seed = flame.full({ 4, 4 }, k, { dtype = "f64" }) })[x]
    end
    local one = at(1)
    for _, k in ipairs { 1e10, 1e-20, 1e100 } do is_close(at(k) / k, one, 1e-13 * largest(one)) end
    assert.equal(0, largest(at(0)))
  end)
  it("of exponentials, powers and norms", function()
    check(flame.matrix_exp, { randn(2, 3, 3) })
    check(function(a) return a:matrix_power(-2) end, { regular(3, 3) })
    for _, p in ipairs { "fro", "nuc", 1, 2, math.huge, -1, -2, -math.huge } do
      check(function(a) return linalg.matrix_norm(a, p) end, { randn(2, 3, 4) })
      check(function(a) return linalg.cond(a, p) end, { regular(3, 3) })
    end
    for _, p in ipairs { 1, 2, 3, math.huge } do
      check(function(a, b) return flame.cdist(a, b, p) end, { randn(3, 2), randn(2, 2) })
    end
  end)
  it("are finite where singular values, eigenvalues or distances are equal", function()
    local x = eye(3):requires_grad_(true)
    local s = linalg.svdvals(x)
    s:sum():backward()
    is_close(x.grad, eye(3))
    x.grad = nil
    local w = linalg.eigvalsh(x);
    (w * w):sum():backward()
    is_close(x.grad, eye(3) * 2)
    local p = flame.ones({ 3, 2 }, { dtype = "f64", requires_grad = true })
    flame.cdist(p, p:detach()):sum():backward()
    is_close(p.grad, p:detach() * 0)
  end)
  it("say why there is none", function()
    local x = randn(4, 2):requires_grad_(true)
    local _, r = flame.qr(x, "complete")
    fails('mode "complete" has no gradient for 4 rows and 2 columns',
      function() r:sum():backward() end)
    local _, only = linalg.qr(x, "r")
    fails('mode "r" has no gradient', function() only:sum():backward() end)
  end)
end)

describe("forms that tell instead of raising", function()
  local function T(v, dtype) return flame.tensor(v, { dtype = dtype or "f64" }) end
  local good, bad = T { { 4, 1 }, { 1, 3 } }, T { { 1, 2 }, { 2, 4 } }
  it("inv_ex and solve_ex give what inv and solve give, and 0", function()
    local a, b = regular(2, 5, 5), randn(2, 5, 3)
    local y, info = linalg.inv_ex(a)
    is_close(y, a:inverse())
    assert.same({ 0, 0 }, info:totable())
    assert.equal("i32", info.dtype)
    is_close((linalg.solve_ex(a, b)), flame.solve(a, b))
    is_close((linalg.solve_ex(a, t(b), { left = false })), flame.solve(a, t(b), { left = false }))
    is_close((linalg.solve_ex(a, b:select(-1, 1))), flame.solve(a, b:select(-1, 1)))
    is_close((linalg.solve_ex(a:select(1, 1), b)), flame.solve(a:select(1, 1), b))
    check(function(x) return (linalg.inv_ex(x)) end, { regular(2, 3, 3) })
    check(function(x, z) return (linalg.solve_ex(x, z)) end, { regular(3, 3), randn(3, 2) })
  end)
  it("and tell which matrix is singular, and where", function()
    local both = flame.stack { good, bad }
    local y, info = linalg.inv_ex(both)
    assert.same({ 0, 2 }, info:totable())
    is_close(y[1], good:inverse())
    assert.is_false(y[2]:isfinite():any():item())
    y, info = linalg.solve_ex(both, flame.ones({ 2, 2 }, { dtype = "f64" }))
    assert.same({ 0, 2 }, info:totable())
    is_close(y[1], flame.solve(good, flame.ones({ 2 }, { dtype = "f64" })))
    assert.is_false(y[2]:isfinite():all():item())
    fails("inverse: matrix 2 of the batch is singular", function()
      return linalg.inv_ex(both, { check_errors = true }):totable()
    end)
    fails("solve: matrix 2 of the batch is singular", function()
      return linalg.solve_ex(both, flame.ones({ 2, 2 }, { dtype = "f64" }),
        { check_errors = true }):totable()
    end)
  end)
  it("cholesky_ex tells the order of the first minor that is not positive definite", function()
    local x = T { { 4, 1, 0, 0 }, { 1, 3, 0, 0 }, { 0, 0, -1, 0 }, { 0, 0, 0, 1 } }
    local all = flame.stack { eye(4), x, -eye(4) }
    for _, upper in ipairs { false, true } do
      local l, info = linalg.cholesky_ex(all, { upper = upper })
      assert.same({ 0, 3, 1 }, info:totable())
      is_close(l[1], eye(4))
      assert.is_true(l:narrow(1, 2, 2):isnan():all():item())
      l, info = linalg.cholesky_ex(good, upper)
      is_close(l, flame.cholesky(good, upper))
      assert.equal(0, info:item())
    end
    fails("not positive definite", function()
      return linalg.cholesky_ex(all, { check_errors = true }):totable()
    end)
    fails("cholesky_ex: x has shape (2, 3), need square", linalg.cholesky_ex, randn(2, 3))
    local z = all:clone():requires_grad_(true)
    local first = linalg.cholesky_ex(z)[1]:sum():gradients({ z })[z]
    local one = eye(4):requires_grad_(true)
    is_close(first[1], flame.cholesky(one):sum():gradients({ one })[one])
    assert.equal(0, largest(first:narrow(1, 2, 2)))
    check(function(a) return (linalg.cholesky_ex(a:matmul(t(a)) + eye(3))) end, { randn(3, 3) })
  end)
  it("geqrf, householder_product and ormqr are the parts of qr", function()
    for _, s in ipairs { { 5, 3 }, { 3, 3 }, { 3, 5 } } do
      local x = randn(2, s[1], s[2])
      local k = math.min(s[1], s[2])
      local packed, tau = flame.geqrf(x)
      assert.same({ 2, k }, tau.shape)
      local q = linalg.householder_product(packed:narrow(-1, 1, k), tau)
      orthonormal(q)
      is_close(q:matmul(packed:triu():narrow(-2, 1, k)), x)
      local c = randn(2, s[1], 4)
      is_close(flame.ormqr(packed:narrow(-1, 1, k), tau,
        flame.ormqr(packed:narrow(-1, 1, k), tau, c), { transpose = true }), c)
      is_close(flame.ormqr(packed:narrow(-1, 1, k), tau, x, true, true):narrow(-2, 1, k),
        packed:triu():narrow(-2, 1, k))
      is_close(flame.ormqr(packed:narrow(-1, 1, k), tau, t(c), { left = false }),
        t(flame.ormqr(packed:narrow(-1, 1, k), tau, c, { transpose = true })))
    end
    local packed, tau = flame.geqrf(eye(3))
    is_close(packed, eye(3))
    assert.equal(0, largest(tau))
    assert.same({ 2, 0 }, select(2, flame.geqrf(randn(2, 3, 0))).shape)
    fails("ormqr: x has shape (2, 4, 2)", flame.ormqr, randn(2, 4, 2), randn(2, 2), randn(2, 3, 3))
    check(function(a) return flame.geqrf(a) end, { randn(1, 4, 3) })
    check(function(v, w, c) return flame.ormqr(v, w, c) end, { randn(4, 2), randn(2), randn(4, 3) })
  end)
  it("ldl_factor solves what is symmetric and not definite, with pivots of one row and of two", function()
    local x = flame.tensor({ { 1, 2, 3 }, { 2, 0, 1 }, { 3, 1, 5 } }, { dtype = "f64" })
    local ld, pivots = linalg.ldl_factor(x)
    is_close(ld,
      flame.tensor({ { 5, 0, 0 }, { 0.2, -0.2, 0 }, { 0.6, 1.4, -0.8 } }, { dtype = "f64" }))
    assert.same({ 3, -3, -3 }, pivots:totable())
    for _, shape in ipairs { { 1, 1 }, { 2, 5, 5 }, { 2, 3, 30, 30 }, { 0, 3, 3 }, { 2, 0, 0 } } do
      local a, right = randn(table.unpack(shape)), { table.unpack(shape) }
      right[#right] = 2
      a = a + t(a)
      if #shape == 3 then a = a * (1 - eye(shape[3])) end    -- zeros on the diagonal: blocks of two
      local b = randn(table.unpack(right))
      local packed, order = linalg.ldl_factor(a:tril())                -- the upper half is not read
      is_close(a:matmul(linalg.ldl_solve(packed, order, b)), b)
    end
    fails("ldl_factor: D is singular", linalg.ldl_factor, flame.zeros(2, 2))
    local _, _, info = linalg.ldl_factor_ex(flame.zeros(2, 3, 3))
    assert.same({ 1, 1 }, info:totable())
    assert.equal(0, select(3, linalg.ldl_factor_ex(x, { check_errors = true })):item())
    fails("ldl_factor: x has shape (2, 3)", linalg.ldl_factor, randn(2, 3))
    fails("ldl_solve: LD has shape (3, 3), B (4, 1)", linalg.ldl_solve, ld, pivots, randn(4, 1))
    fails("and pivots (2, 3): need", linalg.ldl_solve, ld, pivots:expand(2, 3), randn(3, 1))
    fails("ldl_solve: pivots is f64, need integers", linalg.ldl_solve, ld, randn(3), randn(3, 1))
    fails("ldl_solve: pivot 7 at position 1: need the pivots of ldl_factor", linalg.ldl_solve, ld,
      pivots * 0 + 7, randn(3, 1))
    fails("ldl_factor_ex: D is singular: without check_errors the third result says where",
      linalg.ldl_factor_ex, flame.zeros(2, 2),
      { check_errors = true })
  end)
  it("svd_lowrank and pca_lowrank find the largest singular values", function()
    for _, s in ipairs { { 30, 12 }, { 12, 30 } } do
      local x = randn(s[1], 4):matmul(randn(4, s[2]))
      local u, values, v = flame.svd_lowrank(x, { q = 4 })
      orthonormal(u)
      orthonormal(v)
      is_close((u * values):matmul(t(v)), x)
      local m = randn(1, s[2])
      local _, less = flame.svd_lowrank(x, 6, 2, m:expand(x.shape))
      is_close(less, linalg.svdvals(x - m):narrow(1, 1, 6))
      local _, centred, axes = flame.pca_lowrank(x, { q = 5, niter = 3 })
      assert.same({ s[2], 5 }, axes.shape)
      is_close(centred, linalg.svdvals(x - x:mean(1)):narrow(1, 1, 5))
      is_close(select(2, flame.pca_lowrank(x, { center = false })):narrow(1, 1, 4), values)
    end
    -- low has rank 2, so the sum of squares of two singular values is that of its elements
    local low = randn(6, 2):matmul(randn(2, 5)):requires_grad_(true)
    select(2, flame.svd_lowrank(low, 2)):square():sum():backward()
    is_close(low.grad, 2 * low:detach())
    fails("svd_lowrank: q = -1 and niter = 2, need 0 or more", flame.svd_lowrank, randn(3, 2), -1)
    fails("pca_lowrank: no option 'k', there is: q center niter", flame.pca_lowrank,
      randn(3, 2), { k = 1 })
    fails("svd_lowrank: x has shape (3)", flame.svd_lowrank, randn(3))
  end)
end)
