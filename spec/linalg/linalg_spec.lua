-- Linear algebra: factors multiply to the matrix; gradients to second order; messages for matrices
-- without a factorisation. Sizes are on both sides of 24, above which LAPACK is used.
local flame = require "flame"
local linalg = flame.linalg

local fails = require("spec.support.helper").raises
local matrices = dofile "spec/support/matrices.lua"
local randn, t, eye, regular = matrices.randn, matrices.t, matrices.eye, matrices.regular
local largest, is_close, orthonormal = matrices.largest, matrices.is_close, matrices.orthonormal

describe("equations", function()
  it("inverse times matrix is one, for batches and sizes of either way", function()
    for _, n in ipairs { 1, 2, 5, 24, 25, 60 } do
      local a = regular(3, n, n)
      is_close(a:inverse():matmul(a), eye(n):expand(3, n, n))
    end
  end)
  it("solve takes batches that broadcast, and vectors", function()
    local a, b = regular(2, 1, 4, 4), randn(3, 4, 2)
    is_close(a:matmul(flame.solve(a, b)), b:expand(2, 3, 4, 2))
    local v = randn(4)
    is_close(a:select(1, 1):select(1, 1):matmul(flame.solve(a:select(1, 1):select(1, 1), v)), v)
    local r = randn(3, 2, 4)
    is_close(flame.solve(a, r, { left = false }):matmul(a), r:expand(2, 3, 2, 4))
  end)
  it("works in f32 to its precision", function()
    local a = regular(40, 40):float()
    assert.equal("f32", a:inverse().dtype)
    assert.is_true(largest(a:inverse():matmul(a) - flame.eye(40)) < 1e-5)
  end)
  it("errors grow with the condition number, not more", function()
    local n = 30
    local q, p = flame.qr(randn(n, n)), flame.qr(randn(n, n))
    local s = flame.tensor(10, { dtype = "f64" }) ^ flame.linspace(0, -8, n, { dtype = "f64" })
    local a = (q * s):matmul(t(p))                                   -- condition number 1e8
    local x = randn(n, 2)
    is_close(flame.solve(a, a:matmul(x)), x, 1e-16 * 1e8 * 100)
    is_close(linalg.svdvals(a), s, 4 * n * 2.0^-52)         -- four steps with rounding errors
    local ratio = linalg.cond(a):item()
    assert.is_true(math.abs(ratio / 1e8 - 1) < 1e-6, tostring(ratio))
  end)
  it("triangles: each half, unit diagonals, from either side", function()
    local a = regular(2, 30, 30)
    for _, upper in ipairs { true, false } do
      local tri = upper and a:triu() or a:tril()
      local b = randn(2, 30, 3)
      is_close(tri:matmul(linalg.solve_triangular(a, b, { upper = upper })), b)
      is_close(linalg.solve_triangular(a, t(b), { upper = upper, left = false }):matmul(tri), t(b))
      local unit = randn(2, 5, 5)
      local one = (upper and unit:triu(1) or unit:tril(-1)) + eye(5)
      local c = randn(2, 5, 2)
      is_close(
        one:matmul(linalg.solve_triangular(unit, c, { upper = upper, unitriangular = true })), c,
        1e-8)
    end
  end)
  it("Cholesky gives either triangle and solves", function()
    for _, n in ipairs { 3, 40 } do
      local g = randn(2, n, n)
      local a = g:matmul(t(g)) + eye(n)
      local l, u = a:cholesky(), a:cholesky { upper = true }
      is_close(l:matmul(t(l)), a)
      is_close(u, t(l))
      assert.equal(0, largest(l:triu(1)))
      is_close(flame.cholesky_inverse(l), a:inverse())
      is_close(flame.cholesky_solve(g, l), flame.solve(a, g))
    end
  end)
  it("name the matrix that is singular", function()
    local a = flame.stack { eye(3), eye(3), eye(3) * 0 }
    fails("inverse: matrix 3 of the batch is singular", function() return a:inverse():totable() end)
    fails("inverse: the matrix is singular", function() return (eye(3) * 0):inverse():totable() end)
    fails("solve: matrix 3 of the batch is singular", function()
      return flame.solve(a, a):totable()
    end)
    fails("cholesky: matrix 2 of the batch is not positive definite",
      function() return flame.stack({ eye(2), -eye(2) }):cholesky():totable() end)
    fails("cholesky: the matrix is not positive definite",
      function() return (-eye(30)):cholesky():totable() end)
    fails("svd: matrix 1 of the batch holds NaN or Inf", function()
      local _, s = flame.svd(flame.full({ 1, 2, 2 }, 0 / 0))
      return s:totable()
    end)
  end)
  it("name shapes and dtypes that do not fit", function()
    fails("inverse: x has shape (2, 3), need square matrices: 2 rows, 3 columns", flame.inverse,
      flame.ones(2, 3))
    fails("inverse: x has shape (2), need a matrix", flame.inverse, flame.ones(2))
    fails("det: x is f16, need f32 or f64", flame.det, flame.ones(2, 2):half())
    fails("eigh: x is i64, need f32 or f64", flame.eigh, flame.ones(2, 2):long())
    fails("solve: a has shape (2, 2) and b (3, 1): 2 rows and 3", flame.solve, flame.eye(2),
      flame.ones(3, 1))
    fails("solve: a is f32 and b f64, need one dtype", flame.solve, flame.eye(2), randn(2, 1))
    fails("batch sizes 2 and 3 do not go together", flame.solve, regular(2, 2, 2), randn(3, 2, 2))
    fails("qr: no form takes (a tensor, string 'full'); there is qr(x: T, mode: ", flame.qr, eye(2),
      "full")
    fails('qr: mode must be "reduced", "complete" or "r", got string \'full\'', flame.qr, eye(2),
      { mode = "full" })
    fails("inverse: 1 argument at most, got 2", flame.inverse, eye(2), 1)
  end)
end)

describe("factorisations", function()
  local sizes = { { 1, 1 }, { 4, 4 }, { 5, 3 }, { 3, 5 }, { 30, 30 }, { 40, 26 }, { 26, 40 },
    { 0, 3 }, { 3, 0 } }
  it("LU: x = P L U", function()
    for _, s in ipairs(sizes) do
      local x = randn(2, s[1], s[2])
      local p, l, u = linalg.lu(x)
      is_close(p:matmul(l):matmul(u), x)
      is_close(p:sum(-1), flame.ones(2, s[1]))
    end
  end)
  it("QR: x = Q R with orthonormal columns, in each mode", function()
    for _, s in ipairs(sizes) do
      local x = randn(2, s[1], s[2])
      for _, mode in ipairs { "reduced", "complete" } do
        local q, r = flame.qr(x, mode)
        is_close(q:matmul(r), x)
        orthonormal(q)
        assert.equal(0, largest(r:tril(-1)))
        assert.equal(mode == "complete" and s[1] or math.min(s[1], s[2]), q.shape[3])
      end
      local q, r = linalg.qr(x, { mode = "r" })
      assert.equal(0, q:numel())
      is_close(r:abs(), select(2, flame.qr(x)):abs())
    end
  end)
  it("SVD: flame.svd gives V, flame.linalg.svd its transpose and full matrices", function()
    for _, s in ipairs(sizes) do
      local x, k = randn(2, s[1], s[2]), math.min(s[1], s[2])
      local u, d, v = flame.svd(x)
      is_close((u * d:unsqueeze(-2)):matmul(t(v)), x)
      orthonormal(u)
      orthonormal(v)
      is_close(linalg.svdvals(x), d)
      local fu, fs, fv = linalg.svd(x)
      assert.same({ { 2, s[1], s[1] }, { 2, k }, { 2, s[2], s[2] } },
        { fu.shape, fs.shape, fv.shape })
      orthonormal(fu)
      orthonormal(fv)
      is_close((fu:narrow(-1, 1, k) * fs:unsqueeze(-2)):matmul(fv:narrow(-2, 1, k)), x)
    end
  end)
  it("SVD of matrices without full rank keeps its vectors orthonormal", function()
    for _, n in ipairs { 6, 40 } do
      local x = randn(n, 2):matmul(randn(2, n))
      for _, y in ipairs { x, x * 0, flame.ones({ n, n }, { dtype = "f64" }) } do
        local u, s, v = flame.svd(y)
        orthonormal(u)
        orthonormal(v)
        is_close((u * s):matmul(t(v)), y)
      end
      assert.equal(2, linalg.matrix_rank(x):item())
    end
  end)
  it("eigenvalues rise and vectors are orthonormal; one half is read", function()
    for _, n in ipairs { 1, 4, 40 } do
      local g = randn(2, n, n)
      local x = g + t(g)
      local w, v = flame.eigh(x)
      is_close((v * w:unsqueeze(-2)):matmul(t(v)), x)
      orthonormal(v)
      if n > 1 then assert.is_true(w:narrow(2, 2, n - 1):ge(w:narrow(2, 1, n - 1)):all():item()) end
      is_close(linalg.eigvalsh(x:tril()), w)
      is_close(linalg.eigvalsh(x:triu(), { UPLO = "U" }), w)
    end
  end)
  it("pseudo-inverse and least squares agree, also without full rank", function()
    for _, s in ipairs { { 5, 3 }, { 3, 5 }, { 30, 28 } } do
      local a, b = randn(s[1], s[2]), randn(s[1], 2)
      is_close(flame.lstsq(a, b), linalg.pinv(a):matmul(b), 1e-9)
      local low = randn(s[1], 1):matmul(randn(1, s[2]))
      local x, _, rank, values = flame.lstsq(low, b, { driver = "gelsd" })
      is_close(x, linalg.pinv(low):matmul(b), 1e-9)
      assert.equal(1, rank:item())
      assert.equal(math.min(s[1], s[2]), values:numel())
    end
    local _, residuals = flame.lstsq(flame.tensor { { 1 }, { 1 } }, flame.tensor { { 0 }, { 2 } },
      { driver = "gels" })
    assert.allclose({ 2 }, residuals)
  end)
  it("least squares' residuals and singular values are differentiable", function()
    for _, driver in ipairs { "gels", "gelsd", "gelss" } do
      for _, b in ipairs { randn(2, 5), randn(2, 5, 3) } do
        local function residuals(x, y)
          return (select(2, flame.lstsq(x, y, { driver = driver })))
        end
        assert.is_true(flame.gradcheck(residuals, { randn(2, 5, 3), b }, { order = 2 }))
        local a = randn(2, 5, 3):requires_grad_()
        assert.is_true(residuals(a, b).requires_grad)
        if driver ~= "gels" then
          assert.is_true(
            flame.gradcheck(function(x)
              return (select(4, flame.lstsq(x, b, { driver = driver })))
            end, { a:detach() }))
        end
      end
    end
  end)
  it("results are new handles: row-major, and open to writes", function()
    local x = randn(4, 3)
    for _, f in ipairs { flame.svd, linalg.svd, flame.qr, flame.lstsq } do
      for _, y in ipairs { f(x, f == flame.lstsq and randn(4) or nil) } do
        assert.is_true(y:is_contiguous())
        y:zero_()
      end
    end
    local _, s = flame.svd(x)
    s[3] = 0
    assert.equal(0, s[3]:item())
    local w, v = flame.eigh(eye(3))
    w:zero_()
    v:zero_()
    flame.solve(eye(3), randn(3)):zero_()
  end)
  it("views, empty batches and empty matrices", function()
    local x = regular(3, 4, 4):permute(2, 3, 1):permute(3, 2, 1)
    is_close(x:inverse():matmul(x), eye(4):expand(3, 4, 4), 1e-8)
    assert.same({ 0, 3, 3 }, flame.inverse(flame.zeros(0, 3, 3)).shape)
    assert.same({ 0, 0 }, flame.inverse(flame.zeros(0, 0)).shape)
    assert.equal(1, flame.det(flame.zeros(0, 0)):item())
    assert.same({ 2, 0 }, linalg.svdvals(flame.zeros(2, 0, 5)).shape)
    assert.same({ 0 }, flame.det(flame.zeros(0, 3, 3)).shape)
    assert.same({ 3, 0 }, flame.solve(flame.eye(3), flame.zeros(3, 0)).shape)
  end)
end)

describe("determinants, powers and exponentials", function()
  it("of known matrices", function()
    assert.close(-2, flame.det(flame.tensor { { 1, 2 }, { 3, 4 } }))
    local sign, log = flame.slogdet(flame.tensor { { 0, 2 }, { 3, 0 } })
    assert.close(-1, sign)
    assert.close(math.log(6), log)
    sign, log = flame.slogdet(flame.zeros(2, 2))
    assert.same({ 0, -math.huge }, { sign:item(), log:item() })
    assert.is_true(flame.isnan(flame.logdet(flame.tensor { { -1 } })):item())
    local angle = flame.tensor({ { 0, -2 }, { 2, 0 } }, { dtype = "f64" })
    assert.allclose({ { math.cos(2), -math.sin(2) }, { math.sin(2), math.cos(2) } },
      angle:matrix_exp())
    assert.same({ { 1, 3 }, { 0, 1 } },
      flame.tensor({ { 1, 1 }, { 0, 1 } }):matrix_power(3):totable())
    assert.same({ { 1, -2 }, { 0, 1 } },
      flame.tensor({ { 1, 1 }, { 0, 1 } }):matrix_power(-2):totable())
    assert.same({ { 1, 0 }, { 0, 1 } },
      flame.tensor({ { 5, 1 }, { 0, 1 } }):matrix_power(0):totable())
  end)
  it("the exponential of sums of commuting matrices is a product", function()
    local a = randn(2, 30, 30)
    is_close((a * 0.3):matrix_exp():matmul((a * 0.2):matrix_exp()), (a * 0.5):matrix_exp(),
      1e-11 * largest((a * 0.5):matrix_exp()))
  end)
end)

describe("norms and products", function()
  it("norms of vectors and matrices", function()
    local x = flame.tensor { { 3, 0 }, { 0, -4 } }
    for p, want in pairs { fro = 5, nuc = 7, [1] = 4, [2] = 4, [-2] = 3,
        [math.huge] = 4, [-1] = 3 } do
      assert.close(want, linalg.matrix_norm(x, p), 1e-5)
    end
    assert.close(5, linalg.norm(x))
    assert.close(7, linalg.vector_norm(x, 1))
    assert.close(2, linalg.vector_norm(x, 0))
    assert.allclose({ { 3 }, { 4 } }, linalg.vector_norm(x, math.huge, 2, true))
    assert.close(7, x:norm("nuc"), 1e-5)
    assert.same({ 1, 1 }, linalg.norm(x, { keepdim = true }).shape)
    fails('ord must be "fro"', linalg.matrix_norm, x, 3)
    fails("norm: x is i64, need a float", linalg.norm, x:long())
    local v = flame.tensor({ 2, 0, 4 }, { dtype = "f64" }):requires_grad_(true)
    v:norm(-1):backward()                              -- 0 if an element is 0, as in PyTorch
    assert.same({ 0, 0, 0 }, v.grad:totable())
    is_close(flame.tensor({ 1 / (1 / 2 + 1 / 4), 0 }, { dtype = "f64" }),
      flame.tensor({ { 2, 4 }, { 0, 1 } }, { dtype = "f64" }):norm(-1, 2))
  end)
  it("products of tensors", function()
    assert.equal(5, flame.tensor({ { 1, 2 }, { 3, 4 } }):trace():item())
    fails("trace: x has shape (3), need a matrix", flame.trace, flame.ones(3))
    assert.same({ 1, 2, 10, 20 }, flame.tensor({ 1, 10 }):kron(flame.tensor { 1, 2 }):totable())
    assert.same({ 2, 6, 4 }, flame.ones(1, 2, 4):kron(flame.ones(2, 3, 1)).shape)
    assert.same({ 0, 0, 1 },
      linalg.cross(flame.tensor { 1, 0, 0 }, flame.tensor { 0, 1, 0 }):totable())
    local a, b = randn(2, 3, 4), randn(4, 3, 5)
    is_close(flame.tensordot(a, b, { { 2, 3 }, { 2, 1 } }), flame.einsum("ijk,kjl->il", a, b))
    is_close(linalg.multi_dot { randn(3) * 0 + 1, randn(3, 4) * 0 + 1, randn(4) * 0 + 2 },
      flame.tensor(24))
    assert.same({ { { 0, 1 }, { 0, 0 } } }, flame.tensor({ { 1 } }):diag_embed(1):totable())
    assert.same({ { 4, 2, 1 } }, flame.vander(flame.tensor { 2 }, 3):totable())
    assert.same({ { 1, 2, 4 } }, linalg.vander(flame.tensor { 2 }, { N = 3 }):totable())
    local u = flame.tensor { { 0, 0 }, { 1, 5 } }
    assert.allclose({ { 7 }, { 3 } }, flame.cdist(u, flame.tensor { { 3, 4 } }, 1))
    assert.same({ 2, 0 }, flame.cdist(flame.ones(2, 3), flame.ones(0, 3)).shape)
    assert.same({ 2, 3, 6 }, linalg.tensorinv(regular(6, 6):reshape(6, 2, 3), 1).shape)
  end)
  it("the module flame.linalg is the table", function()
    assert.equal(flame.linalg, require "flame.linalg")
    for _, name in ipairs { "inverse", "solve", "cholesky", "qr", "svd", "eigh", "det", "slogdet",
        "lstsq", "matrix_exp" } do
      assert.equal("function", type(linalg[name]), name)
      assert.equal("function", type(eye(2)[name]), name)
    end
  end)
end)

describe("products of half types", function()
  -- Elements -1, 0, 1: every sum is exact. Most rows of 257, 261, … elements begin at addresses
  -- that are not multiples of 16 bytes.
  local function whole(...) return flame.randint({ ... }, -1, 1):double() end

  it("are exact wherever their rows begin, alone and with what follows them", function()
    for _, size in ipairs { { 256, 257, 259 }, { 300, 512, 261 }, { 257, 264, 256 },
        { 261, 1000, 272 } } do
      local m, k, n = table.unpack(size)
      flame.seed(m + n)
      local a, b = whole(m, k), whole(k, n)
      local want = a:matmul(b)
      assert.is_true(want:abs():amax():item() <= 256)
      for _, dtype in ipairs { "bf16", "f16" } do
        local x, y = a:to(dtype), b:to(dtype)
        local xt, yt = a.T:clone():to(dtype), b.T:clone():to(dtype)
        flame.eval(x, y, xt, yt)
        for _, p in ipairs { { x, y }, { xt.T, y }, { x, yt.T }, { xt.T, yt.T } } do
          local z = p[1]:matmul(p[2])
          flame.eval(z)
          assert.is_true(flame.equal(want, z:double()))
          local later = (p[1]:matmul(p[2]) + 1):double() - 1                -- not kept
          assert.is_true(flame.equal(want, later))
        end
      end
    end
  end)
end)

describe("norms", function()
  it("leave a list of axes as it is", function()
    local x, dims, none = flame.randn(2, 3), { -1 }, {}
    flame.linalg.vector_norm(x, 2, dims)
    flame.linalg.norm(x, nil, dims)
    flame.linalg.vector_norm(x, 2, none)
    assert.same({ -1 }, dims)
    assert.same({}, none)
  end)
  it("and products take what PyTorch gives a name by it", function()
    local x, y = flame.randn(2, 3), flame.randn(2, 3)
    assert.allclose(flame.linalg.cross(x, y), flame.linalg.cross(x, y, { dim = -1 }))
    assert.allclose(x:norm(2, 1, true), x:norm { p = 2, dim = 1, keepdim = true })
    assert.allclose(flame.linalg.vander(x), flame.linalg.vander(x, { N = 3 }))
    assert.allclose(flame.linalg.diagonal(x), flame.linalg.diagonal(x, { dim1 = 1, dim2 = 2 }))
  end)
end)
