--- Linear algebra by singular values and eigenvalues: svd, eigh, pseudo-inverses, least squares,
-- ranks; and functions of matrices. dtypes, batches and gradients as in linalg/solve.lua.
local flame = require "flame"
local arguments = require "flame.base.arguments"
local recording = require "flame.base.recording"
local solve = require "flame.linalg.solve"
local fail, def = arguments.fail, arguments.def
local where, matmul, linalg = flame.where, flame.matmul, flame.linalg
local part = solve
local need_matrix, need_square, need_real, shape_text = part.need_matrix, part.need_square,
  part.need_real, part.shape_text
local same_batch, joined, product, parts, own = part.same_batch, part.joined, part.product,
  part.parts, part.own
local call, save, turned, on_diagonal = part.call, part.save, part.turned, part.on_diagonal
local inverse, epsilon = part.inverse, part.epsilon

-- ---- singular values ----------------------------------------------------------------------------
--- 1 / x, but 0 where 'none' holds.
local function inverse_unless(none, x) return where(none, 0, 1 / where(none, 1, x)) end

--- The matrix 1 / (s_j^2 - s_i^2) for the gradient of singular vectors; 0 on the diagonal and for
--- values equal up to rounding, where no differentiable function depends on the quotient.
local function gaps(s)
  local row, column = s:unsqueeze(-2), s:unsqueeze(-1)
  local top = s:detach():amax(-1, { keepdim = true }):unsqueeze(-1)
  local near = (row - column):detach():abs():le(top * (4 * epsilon[s.dtype]))
  return inverse_unless(near, (row - column) * (row + column))
end

local function skew(x) return x - turned(x) end

local svd = flame.func {
  name = "svd",
  forward = function(ctx, x, full)
    local lead, count, m, n = need_matrix("svd", "x", x)
    local k = math.min(m, n)
    ctx.ku, ctx.kv = full and m or k, full and n or k
    local flat = call("svd", "svd", { x }, count, lead, { count * (m * ctx.ku + k + ctx.kv * n) },
      m, n, full and 1 or 0, 1)
    save(ctx, flat)
    ctx.lead, ctx.m, ctx.n = lead, m, n
    return flat
  end,
  backward = function(ctx, g)
    local lead, m, n, k = ctx.lead, ctx.m, ctx.n, math.min(ctx.m, ctx.n)
    local su, ss, sv = joined(lead, m, ctx.ku), joined(lead, k), joined(lead, ctx.kv, n)
    local u, s, vh = parts(ctx:saved(), su, ss, sv)
    local gu, gs, gv = parts(g, su, ss, sv)
    if k == 0 or product(lead) == 0 then
      return flame.zeros(joined(lead, m, n), { dtype = g.dtype, device = g.device })
    end
    u, gu = u:narrow(-1, 1, k), gu:narrow(-1, 1, k)
    vh, gv = vh:narrow(-2, 1, k), gv:narrow(-2, 1, k)
    local f = gaps(s)
    local none = s:detach():eq(0)
    local over = inverse_unless(none, s)
    local middle = skew(matmul(turned(u), gu)) * f * s:unsqueeze(-2)
      + s:unsqueeze(-1) * (skew(matmul(vh, turned(gv))) * f) + on_diagonal(gs)
    local x = matmul(matmul(u, middle), vh)
    if m > k then
      local h = gu * over:unsqueeze(-2)
      x = x + matmul(h - matmul(u, matmul(turned(u), h)), vh)
    end
    if n > k then
      local h = gv * over:unsqueeze(-1)
      x = x + matmul(u, h - matmul(matmul(h, turned(vh)), vh))
    end
    return x
  end,
}

local function svd_parts(x, full)
  local lead, _, m, n = need_matrix("svd", "x", x)
  local k = math.min(m, n)
  return parts(svd(x, full), joined(lead, m, full and m or k), joined(lead, k),
    joined(lead, full and n or k, n))
end

--- Singular values in descending order. If x is tracked, singular vectors are computed as well,
--- since the gradient needs them.
local function svdvals(x, op)
  local lead, count, m, n = need_matrix(op, "x", x)
  if x.requires_grad and flame.is_grad_enabled() then
    local _, s = svd_parts(x, false)
    return own(s)
  end
  return call("svd", op, { x }, count, lead, joined(lead, math.min(m, n)), m, n, 0, 0)
end

--- U, S, V with x = U diag(S) V', as torch.svd has it.
def("svd(x: T, some = true, compute_uv = true) -> U: T, S: T, V: T @neutral",
  function(x, some, compute_uv)
    local lead, _, m, n = need_matrix("svd", "x", x)
    if not compute_uv then
      local how = { dtype = x.dtype, device = x.device }
      return flame.zeros(joined(lead, m, m), how), svdvals(x, "svd"),
        flame.zeros(joined(lead, n, n), how)
    end
    local u, s, vh = svd_parts(x, not some)
    return own(u, s, turned(vh))
  end)
--- U, S, V' with x = U diag(S) V', as torch.linalg.svd has it.
def("linalg.svd(x: T, full_matrices = true) -> U: T, S: T, Vh: T @neutral",
function(x, full_matrices)
  need_matrix("svd", "x", x)
  return own(svd_parts(x, full_matrices))
end)
--- Singular values in descending order.
def("linalg.svdvals(x: T) -> T @neutral", function(x) return svdvals(x, "svdvals") end)

-- ---- symmetric eigenvalues ----------------------------------------------------------------------
local eigh = flame.func {
  name = "eigh",
  forward = function(ctx, x, upper)
    local lead, count, n = need_square("eigh", "x", x)
    local flat = call("eigh", "eigh", { x }, count, lead, { count * (n + n * n) }, n,
      upper and 1 or 0, 1)
    save(ctx, flat)
    ctx.lead, ctx.n = lead, n
    return flat
  end,
  backward = function(ctx, g)
    local lead, n = ctx.lead, ctx.n
    local w, v = parts(ctx:saved(), joined(lead, n), joined(lead, n, n))
    local gw, gv = parts(g, joined(lead, n), joined(lead, n, n))
    if n == 0 or product(lead) == 0 then return gv end
    local apart = w:unsqueeze(-2) - w:unsqueeze(-1)
    local top = w:detach():abs():amax(-1, { keepdim = true }):unsqueeze(-1)
    local f = inverse_unless(apart:detach():abs():le(top * (4 * epsilon[w.dtype])), apart)
    local gx = matmul(matmul(v, matmul(turned(v), gv) * f + on_diagonal(gw)), turned(v))
    return (gx + turned(gx)) * 0.5                  -- x counts as a symmetric matrix
  end,
}
local UPLO = '(x: T, UPLO: "L"|"U"|"l"|"u" = "L") -> '
--- Eigenvalues (ascending) and eigenvectors (columns) of symmetric matrices; only one half of each
--- is read.
def("eigh" .. UPLO .. "values: T, vectors: T @neutral", function(x, half)
  local lead, _, n = need_square("eigh", "x", x)
  return own(parts(eigh(x, half:upper() == "U"), joined(lead, n), joined(lead, n, n)))
end)
linalg.eigh = flame.eigh
local function eigvalsh(x, upper)
  local lead, count, n = need_square("eigvalsh", "x", x)
  if x.requires_grad and flame.is_grad_enabled() then
    return own(parts(eigh(x, upper), joined(lead, n)))
  end
  return call("eigh", "eigvalsh", { x }, count, lead, joined(lead, n), n, upper and 1 or 0, 0)
end
--- Eigenvalues of symmetric matrices in ascending order.
def("linalg.eigvalsh" .. UPLO .. "T @neutral",
  function(x, half) return eigvalsh(x, half:upper() == "U") end)

-- ---- pseudo-inverse and least squares -----------------------------------------------------------
--- The cotangent of x from g, the cotangent of its pseudo-inverse p.
local function pinv_cotangent(x, p, g)
  local pt, gt = turned(p), turned(g)
  local left = matmul(matmul(gt, p), pt)
  local right = matmul(pt, matmul(p, gt))
  return left - matmul(x, matmul(p, left)) + right - matmul(matmul(right, p),
    x) - matmul(matmul(pt, g), pt)
end

--- For an untracked x = U S V': U', reciprocals of S, V, S, and which of S count: those above
--- max(atol, rtol * largest). The reciprocals of the others are 0.
local function truncated(op, x, atol, rtol)
  local lead, count, m, n = need_matrix(op, "x", x)
  local k = math.min(m, n)
  local flat = call("svd", op, { x }, count, lead, { count * (m * k + k + k * n) }, m, n, 0, 1)
  local u, s, vh = parts(flat, joined(lead, m, k), joined(lead, k), joined(lead, k, n))
  if k == 0 then return turned(u), s, turned(vh), s, s:ne(s) end
  local none = s:le((s:narrow(-1, 1, 1) * rtol):clamp({ min = atol }))
  return turned(u), inverse_unless(none, s), turned(vh), s, none:logical_not()
end

local pinv = flame.func {
  name = "pinv",
  forward = function(ctx, x, op, atol, rtol)
    local ut, over, v = truncated(op, x, atol, rtol)
    local y = matmul(v, over:unsqueeze(-1) * ut)
    save(ctx, x, y)
    return y
  end,
  backward = function(ctx, g)
    local x, y = ctx:saved()
    return pinv_cotangent(x, y, g)
  end,
}
--- The absolute and relative limits up to which a singular value counts as 0, with torch.linalg's
--- defaults: numbers, or tensors with one element per matrix.
local function limits(x, atol, rtol)
  local s = x.shape
  local function limit(v) return flame.is_tensor(v) and v:to(x.dtype):unsqueeze(-1) or v or nil end
  atol, rtol = limit(atol) or 0, limit(rtol)
  if not rtol then
    rtol = math.max(s[#s], s[#s - 1]) * epsilon[x.dtype]
    if flame.is_tensor(atol) then
      rtol = where(atol:gt(0), 0, rtol)
    elseif atol > 0 then
      rtol = 0
    end
  end
  return atol, rtol
end
--- The symmetric matrix with the given lower half; its cotangent is passed on unchanged, as in
--- PyTorch.
local symmetric_from_lower = flame.func {
  name = "pinv",
  forward = function(_, x) return x:tril() + turned(x:tril(-1)) end,
  backward = function(_, g) return g end,
}
--- Pseudo-inverses. Singular values up to atol, or up to rtol times the largest, count as 0; rtol
--- is max(m, n) eps, or 0 with atol.
def("linalg.pinv(x: T, rtol?: num|T, hermitian = false, *, atol?: num|T) -> T @neutral",
  function(x, rtol, hermitian, atol)
    need_matrix("pinv", "x", x)
    if hermitian then
      need_square("pinv", "x", x)
      x = symmetric_from_lower(x)
    end
    return pinv(x, "pinv", limits(x, atol, rtol))
  end)
--- The pseudo-inverse. Singular values up to rcond times the largest count as 0.
def("pinverse(x: T, rcond: num|T = 1e-15) -> T @neutral", function(x, rcond)
  need_matrix("pinverse", "x", x)
  return pinv(x, "pinverse", limits(x, nil, rcond))
end)

--- The number of singular values (i64) above atol and above rtol (default: max(m, n) eps; 0 with
--- atol) times the largest, or above tol if given.
def([[linalg.matrix_rank(x: T, tol?: num|T, hermitian = false, *, atol?: num|T,
    rtol?: num|T) -> T @neutral]],
  function(x, tol, hermitian, atol, rtol)
    need_matrix("matrix_rank", "x", x)
    x = x:detach()
    local s = hermitian and eigvalsh(x, false):abs() or svdvals(x, "matrix_rank")
    if s.shape[s.ndim] == 0 then return s:long():sum(-1) end
    if tol then atol, rtol = tol, 0 end
    atol, rtol = limits(x, atol, rtol)
    return s:gt((s:amax(-1, { keepdim = true }) * rtol):clamp({ min = atol })):sum(-1)
  end)

local lstsq = flame.func {
  name = "lstsq",
  forward = function(ctx, a, b, known)
    save(ctx, a, b)
    ctx.atol, ctx.rtol = 0, known.rcond
    return matmul(known.v, known.over:unsqueeze(-1) * matmul(known.ut, b))
  end,
  backward = function(ctx, g)
    local a, b = ctx:saved()
    local p = pinv(a, "lstsq", ctx.atol, ctx.rtol)
    return pinv_cotangent(a, p, matmul(g, turned(b))), matmul(turned(p), g)
  end,
}

--- The least-squares solution of least length, residuals (sums of squares, if a has more rows than
--- columns and full rank and the driver is not "gelsy"; else empty), ranks (i64; empty for "gels"),
--- singular values ("gelsd" and "gelss"; else empty), as in PyTorch. b is (…, m, k), or (…, m) for
--- one vector per matrix; rcond is max(m, n) eps by default.
def([[lstsq(a: T, b: T, rcond?: num, driver: "gels"|"gelsy"|"gelsd"|"gelss" = "gelsy")
    -> solution: T, residuals: T, rank: T, singular_values: T @neutral]],
function(a, b, rcond, driver)
  local op = "lstsq"
  need_matrix(op, "a", a)
  need_real(op, "b", b)
  local vector = b.ndim == a.ndim - 1
  if vector then b = b:unsqueeze(-1) end
  a, b = same_batch(op, a, b)
  local m, n = a.shape[a.ndim - 1], a.shape[a.ndim]
  rcond = rcond or math.max(m, n) * epsilon[a.dtype]
  local ut, over, v, s, counts = truncated(op, a:detach(), 0, rcond)
  local x = lstsq(a, b, { ut = ut, over = over, v = v, rcond = rcond })
  local rank = counts:sum(-1)
  local none = { dtype = a.dtype, device = a.device }
  local residuals = flame.empty({ 0 }, none)
  if m > n and (driver == "gels" or driver ~= "gelsy" and rank:eq(n):all():item()) then
    local r = matmul(a, x) - b
    residuals = (r * r):sum(-2)
    if vector then residuals = own(residuals:squeeze(-1)) end
  end
  if driver ~= "gelsd" and driver ~= "gelss" then s = flame.empty({ 0 }, none)
  elseif recording.tracked(a) then s = svdvals(a, op) end                -- s above is not tracked
  if driver == "gels" then rank = flame.empty({ 0 }, { dtype = "i64", device = a.device }) end
  return vector and own(x:squeeze(-1)) or x, residuals, rank, s
end)
linalg.lstsq = flame.lstsq

-- ---- functions of matrices ----------------------------------------------------------------------
--- Taylor's polynomial of exp(a), of degree step * blocks, from the powers of a up to 'step'
--- (Paterson and Stockmeyer 1973).
local function taylor(a, step, blocks)
  local n = a.shape[a.ndim]
  local power, factor, y = { [0] = flame.eye(n, { dtype = a.dtype, device = a.device }), a },
    { [0] = 1.0 }, nil
  for k = 2, step do power[k] = matmul(power[k // 2], power[k - k // 2]) end
  for k = 1, step * blocks do factor[k] = factor[k - 1] / k end
  for j = blocks - 1, 0, -1 do
    local sum = y and matmul(power[step], y) or power[step] * factor[step * blocks]
    for k = 0, step - 1 do sum = sum + power[k] * factor[step * j + k] end
    y = sum
  end
  return y
end
--- Matrix exponentials by products alone, in f64: exp(x / 2^s), where x / 2^s has a norm of at most
--- 1, squared s times. Every matrix has its own s; the largest s is read from the device. At norm 1
--- the errors of Taylor's polynomials are 2e-20 for f64 and 2e-10 for f32.
local function exp_by_products(x)
  if x:numel() == 0 then return x:clone() end
  local a = x:double()
  local norm = a:abs():sum(-2, { keepdim = true }):amax(-1, { keepdim = true })
  local bad = norm:lt(math.huge):logical_not()
  local s = where(bad, 1, norm):clamp({ min = 1 }):log2():ceil()
  a = where(bad, 0, a) * (-s):exp2()
  local y
  if x.dtype == "f32" then y = taylor(a, 4, 3) else y = taylor(a, 5, 4) end
  for k = 1, s:amax():item() do y = where(s:ge(k), matmul(y, y), y) end
  return where(bad, 0 / 0, y):to(x.dtype)
end

local matrix_exp
matrix_exp = flame.func {
  name = "matrix_exp",
  forward = function(ctx, x)
    local lead, count, n = need_square("matrix_exp", "x", x)
    save(ctx, x)
    if solve.on_device(x) then return exp_by_products(x) end
    return call("matrix_exp", "matrix_exp", { x }, count, lead, x.shape, n)
  end,
  backward = function(ctx, g)           -- x's gradient: the upper right block of exp [x', g; 0, x']
    local x = turned(ctx:saved())
    local n = x.shape[x.ndim]
    if g:numel() == 0 then return g end
    -- g is scaled to size 1: a g much larger than x would cost digits of x in the exponential
    local size = g:detach():abs():amax({ -2, -1 }, { keepdim = true })
    size = where(size:eq(0), 1, size)
    g = g / size
    local above, below = flame.cat({ x, g }, -1), flame.cat({ flame.zeros_like(g), x }, -1)
    return matrix_exp(flame.cat({ above, below }, -2)):narrow(-2, 1, n):narrow(-1, n + 1, n) * size
  end,
}
--- Exponentials of matrices.
def("matrix_exp(x: T) -> T @neutral", function(x)
  need_square("matrix_exp", "x", x)
  return matrix_exp(x)
end)
linalg.matrix_exp = flame.matrix_exp

--- x multiplied with itself n times; for n < 0 a power of the inverse.
def("matrix_power(x: T, n: int) -> T @neutral", function(x, n)
  local s = x.shape
  if #s < 2 or s[#s] ~= s[#s - 1] then
    fail("matrix_power", "x has shape %s, need square matrices", shape_text(x))
  end
  if n == 0 then
    return flame.eye(s[#s], { dtype = x.dtype, device = x.device }):expand(s):clone()
  end
  if n == math.mininteger then fail("matrix_power", "n = %d has no opposite", n) end
  if n < 0 then x, n = inverse(x, "matrix_power", false), -n end
  local y
  while n > 0 do
    if n % 2 == 1 then y = y and matmul(y, x) or x end
    n = n // 2
    if n > 0 then x = matmul(x, x) end
  end
  return y:clone()
end)
linalg.matrix_power = flame.matrix_power

return { svdvals = svdvals }
