--- Linear algebra: equations, triangular factorisations, determinants. All work
-- on batches: the last two axes are a matrix. f32 and f64; other dtypes raise, as in PyTorch.
-- Calls (ops by a routine in C or CUDA: src/tensor/calls.def) compute the numbers. A call with
-- several results returns one flat tensor; they are views of it. Gradients are written in terms of
-- functions that have gradients themselves, so they can be differentiated again. The functions are
-- in flame.linalg as well; singular values and eigenvalues are in linalg/spectrum.lua, norms in
-- linalg/norm.lua, products in linalg/product.lua.
local flame = require "flame"
local internal = flame.internal
local arguments = require "flame.base.arguments"
local fail, need_tensor, def = arguments.fail, arguments.need_tensor, arguments.def
local where, matmul = flame.where, flame.matmul

local linalg = flame.linalg


-- ---- arguments -------------------------------------------------------------------------------
local function shape_text(x) return "(" .. table.concat(x.shape, ", ") .. ")" end

local function need_real(op, name, x)
  need_tensor(op, name, x)
  if x.dtype ~= "f32" and x.dtype ~= "f64" then
    fail(op, "%s is %s, need f32 or f64", name, x.dtype)
  end
  return x
end

--- Raises unless x is a matrix or a batch of them. Gives batch axes, their product, rows, columns.
local function need_matrix(op, name, x)
  need_real(op, name, x)
  if x.ndim < 2 then
    fail(op, "%s has shape %s, need a matrix (two axes or more)", name, shape_text(x))
  end
  local shape, count = x.shape, 1
  local n, m = table.remove(shape), table.remove(shape)
  for _, s in ipairs(shape) do count = count * s end
  return shape, count, m, n
end

local function need_square(op, name, x)
  local lead, count, m, n = need_matrix(op, name, x)
  if m ~= n then
    fail(op, "%s has shape %s, need square matrices: %d rows, %d columns", name,
      shape_text(x), m, n)
  end
  return lead, count, n
end

local function need_same_dtype(op, a, b, x, y)
  if x.dtype ~= y.dtype then
    fail(op, "%s is %s and %s %s, need one dtype", a, x.dtype, b, y.dtype)
  end
end

--- The sizes of lead, then those given.
local function joined(lead, ...)
  local shape = table.move(lead, 1, #lead, 1, {})
  for i = 1, select("#", ...) do shape[#shape + 1] = (select(i, ...)) end
  return shape
end

local function product(list)
  local n = 1
  for _, s in ipairs(list) do n = n * s end
  return n
end

--- Cuts a 1-d tensor into views of these shapes, one after the other.
local function parts(flat, ...)
  local out, at = {}, 1
  for i = 1, select("#", ...) do
    local shape = select(i, ...)
    local n = product(shape)
    out[i] = flat:narrow(1, at, n):reshape(shape)
    at = at + n
  end
  return table.unpack(out)
end

--- Copies of results that are views of one flat tensor: row-major tensors, which scripts may write.
local function own(first, ...)
  if first == nil then return end
  return first:clone(), own(...)
end

--- Records an op of src/tensor/calls.def on matrices with batch axes 'lead'; sizes: of its result.
local function call(kind, op, inputs, count, lead, sizes, ...)
  return internal.call(kind, op, inputs, { count, #lead > 0 and 1 or 0, ... }, sizes,
    inputs[1].dtype)
end


--- Saves tensors for backward. Tracked inputs stay tracked, although forward itself runs without a
--- tape.
local function save(ctx, ...)
  local _ <close> = flame.enable_grad()
  ctx:save(...)
end

local function turned(x) return x:transpose(-2, -1) end
local function eye_like(x, m, n)
  return flame.eye(m, n or m, { dtype = x.dtype, device = x.device })
end
local function on_diagonal(v) return v:unsqueeze(-1) * eye_like(v, v.shape[v.ndim]) end

-- ---- equations ---------------------------------------------------------------------------------
local inverse = flame.func {
  name = "inverse",
  forward = function(ctx, x, op, quiet)
    local lead, count, n = need_square(op, "x", x)
    local y = call("inverse", op, { x }, count, lead, x.shape, n, quiet and 1 or 0)
    save(ctx, y)
    return y
  end,
  backward = function(ctx, g)
    local y = turned(ctx:saved())
    return -matmul(matmul(y, g), y)
  end,
}
--- Inverses. A singular matrix raises with its position in the batch.
def("inverse(x: T) -> T @neutral", function(x) return inverse(x, "inverse", false) end)
linalg.inv, linalg.inverse = flame.inverse, flame.inverse
--- The inverse of each matrix, filled with Inf where a matrix is singular, instead of an error.
local function quiet_inverse(x, op) return inverse(x, op, true) end

local solve
solve = flame.func {
  name = "solve",
  forward = function(ctx, a, b, op)
    local lead, count, n = need_square(op, "a", a)
    local x = call("solve", op, { a, b }, count, lead, b.shape, n, b.shape[b.ndim])
    save(ctx, a, x)
    return x
  end,
  backward = function(ctx, g)
    local a, x = ctx:saved()
    local gb = solve(turned(a), g, "solve")
    return -matmul(gb, turned(x)), gb
  end,
}

local triangle
triangle = flame.func {
  name = "solve_triangular",
  forward = function(ctx, a, b, upper, unit)
    local lead, count, n = need_square("solve_triangular", "a", a)
    local x = call("triangular", "solve_triangular", { a, b }, count, lead, b.shape, n,
      b.shape[b.ndim],
      upper and 1 or 0, unit and 1 or 0)
    save(ctx, a, x)
    ctx.upper, ctx.unit = upper, unit
    return x
  end,
  backward = function(ctx, g)
    local a, x = ctx:saved()
    local gb = triangle(turned(a), g, not ctx.upper, ctx.unit)
    local ga = -matmul(gb, turned(x))
    local k = ctx.unit and 1 or 0
    return ctx.upper and ga:triu(k) or ga:tril(-k), gb
  end,
}

--- a (…, n, n) and b (…, n, k), batch axes broadcast to one shape; raises if they do not fit.
local function same_batch(op, a, b)
  local la, _, n, _ = need_matrix(op, "a", a)
  local lb, _, m, k = need_matrix(op, "b", b)
  need_same_dtype(op, "a", "b", a, b)
  if n ~= m then
    fail(op, "a has shape %s and b %s: %d rows and %d", shape_text(a), shape_text(b), n, m)
  end
  if table.concat(la, ",") == table.concat(lb, ",") then return a, b end
  local lead = {}
  for d = 1, math.max(#la, #lb) do
    local x, y = rawget(la, #la - d + 1) or 1, rawget(lb, #lb - d + 1) or 1
    if x ~= y and x ~= 1 and y ~= 1 then
      fail(op, "a has shape %s and b %s: batch sizes %d and %d do not go together", shape_text(a),
        shape_text(b), x, y)
    end
    table.insert(lead, 1, x == 1 and y or x)
  end
  return a:expand(joined(lead, n, a.shape[a.ndim])), b:expand(joined(lead, n, k))
end

--- Does 'solve' take b as one vector for each matrix of a, and not as matrices? PyTorch's rule.
local function is_vector(a, b)
  if b.ndim == 1 then return true end
  if b.ndim ~= a.ndim - 1 then return false end
  local s, t = a.shape, b.shape
  for d = 1, #t do if s[d] ~= t[d] then return false end end
  return true
end

--- The x with a x = b: b is (…, n, k), or (…, n) for one vector per matrix. {left = false}: the x
--- with x a = b.
def("solve(a: T, b: T, *, left = true) -> T @neutral", function(a, b, left)
  need_square("solve", "a", a)
  need_real("solve", "b", b)
  local vector = is_vector(a, b)
  if vector then b = b:unsqueeze(-1) end
  if not left then
    if vector then
      fail("solve", "left = false needs a matrix b, got shape %s", shape_text(b:squeeze(-1)))
    end
    a, b = turned(a), turned(b)
  end
  a, b = same_batch("solve", a, b)
  local x = solve(a, b, "solve")
  if vector then return own(x:squeeze(-1)) end
  return left and x or own(turned(x))
end)
linalg.solve = flame.solve

--- The x with a x = b, or x a = b if left is false, for a triangular matrix a.
def([[linalg.solve_triangular(a: T, b: T, upper = false, left = true,
    unitriangular = false) -> T @neutral]], function(a, b, upper, left, unitriangular)
  local op = "solve_triangular"
  need_square(op, "a", a)
  need_matrix(op, "b", b)
  if not left then
    a, b = same_batch(op, turned(a), turned(b))
    return own(turned(triangle(a, b, not upper, unitriangular)))
  end
  a, b = same_batch(op, a, b)
  return triangle(a, b, upper, unitriangular)
end)

-- ---- Cholesky -----------------------------------------------------------------------------------
--- The lower triangle, half the diagonal.
local function half_lower(x) return x:tril() - on_diagonal(x:diagonal(0, -2, -1)) * 0.5 end

local cholesky = flame.func {
  name = "cholesky",
  forward = function(ctx, x, upper)
    local lead, count, n = need_square("cholesky", "x", x)
    local y = call("cholesky", "cholesky", { x }, count, lead, x.shape, n, upper and 1 or 0)
    save(ctx, y)
    ctx.upper = upper
    return y
  end,
  backward = function(ctx, g)
    local up = ctx:saved()                          -- a = up' up
    if ctx.upper then g = turned(g) else up = turned(up) end
    local x = triangle(up, half_lower(matmul(up, g)), true, false)
    x = turned(triangle(up, turned(x), true, false))
    return (x + turned(x)) * 0.5
  end,
}
--- The triangle L with L L' = x, or if upper U with U' U = x; one half of x is read. Raises with
--- the position of a matrix that is not positive definite.
def("cholesky(x: T, upper = false) -> T @neutral", function(x, upper)
  need_square("cholesky", "x", x)
  return cholesky(x, upper)
end)
linalg.cholesky = flame.cholesky

--- The x with a x = b, from the triangle l of a's Cholesky factorisation.
def("cholesky_solve(b: T, l: T, upper = false) -> T @neutral", function(b, l, upper)
  need_square("cholesky_solve", "l", l)
  l, b = same_batch("cholesky_solve", upper and turned(l) or l, b)
  return triangle(turned(l), triangle(l, b, false, false), true, false)
end)
--- The inverse of a from the triangle l of its Cholesky factorisation.
def("cholesky_inverse(l: T, upper = false) -> T @neutral", function(l, upper)
  local lead, _, n = need_square("cholesky_inverse", "l", l)
  local one = eye_like(l, n):expand(joined(lead, n, n))
  local half = triangle(upper and turned(l) or l, one, false, false)
  return matmul(turned(half), half)
end)

-- ---- LU -----------------------------------------------------------------------------------------
--- For a = P L U, the cotangent of L U (that of a, with permuted rows), from L (m, k), U (k, n) and
--- their cotangents gl, gu.
local function lu_cotangent(l, u, gl, gu, m, n)
  local k = math.min(m, n)
  local l1, u1 = l:narrow(-2, 1, k), u:narrow(-1, 1, k)
  local low, high = matmul(turned(l1), gl:narrow(-2, 1, k)), matmul(gu:narrow(-1, 1, k), turned(u1))
  if m > k then
    high = high - matmul(turned(l:narrow(-2, k + 1, m - k)), gl:narrow(-2, k + 1, m - k))
  end
  if n > k then
    low = low - matmul(gu:narrow(-1, k + 1, n - k), turned(u:narrow(-1, k + 1, n - k)))
  end
  local function by_u(x) return turned(triangle(u1, turned(x), true, false)) end        -- x U^-T
  local function by_l(x) return triangle(turned(l1), x, true, true) end                  -- L^-T x
  local first = by_l(by_u(low:tril(-1) + high:triu()))
  if m > k then return flame.cat({ first, by_u(gl:narrow(-2, k + 1, m - k)) }, -2) end
  if n > k then return flame.cat({ first, by_l(gu:narrow(-1, k + 1, n - k)) }, -1) end
  return first
end

local function lu_factors(packed, m, n)
  local k = math.min(m, n)
  local l, u = packed:narrow(-1, 1, k), packed:narrow(-2, 1, k)
  return l:tril(-1) + eye_like(packed, m, k), u:triu()
end

--- The permutation matrix with P[rows[i]][i] = 1, for a = P L U with a's rows in the order 'rows'.
local function permutation(rows, m)
  local all = flame.arange(1, m, { dtype = rows.dtype, device = rows.device }):reshape(m, 1)
  return rows:detach():unsqueeze(-2):eq(all):to(rows.dtype)
end

local lu = flame.func {
  name = "lu",
  forward = function(ctx, x)
    local lead, count, m, n = need_matrix("lu", "x", x)
    local flat = call("lu", "lu", { x }, count, lead, { count * (m * n + m) }, m, n)
    save(ctx, flat)
    ctx.lead, ctx.m, ctx.n = lead, m, n
    return flat
  end,
  backward = function(ctx, g)
    local lead, m, n = ctx.lead, ctx.m, ctx.n
    local packed, rows = parts(ctx:saved(), joined(lead, m, n), joined(lead, m))
    local k, gp = math.min(m, n), parts(g, joined(lead, m, n))
    local l, u = lu_factors(packed, m, n)
    local ga = lu_cotangent(l, u, gp:narrow(-1, 1, k):tril(-1), gp:narrow(-2, 1, k):triu(), m, n)
    return matmul(permutation(rows, m), ga)
  end,
}
--- Raises if the script gave pivot = false: as in PyTorch on the CPU, rows are always pivoted.
local function need_pivot(op, pivot)
  if not pivot then fail(op, "pivot = false is not supported: rows are always pivoted") end
end
--- P, L, U with x (…, m, n) = P L U, with pivoting of rows.
---@return flame.Tensor, flame.Tensor, flame.Tensor
def("linalg.lu(x: T, pivot = true) -> P: T, L: T, U: T @neutral", function(x, pivot)
  local lead, _, m, n = need_matrix("lu", "x", x)
  need_pivot("lu", pivot)
  local packed, rows = parts(lu(x), joined(lead, m, n), joined(lead, m))
  local l, u = lu_factors(packed, m, n)
  return permutation(rows, m), l, u
end)

-- ---- determinants -------------------------------------------------------------------------------
--- Is x on a GPU? Then matrix products are faster than routines that only the host has.
local function on_device(x) return x.device ~= "cpu" end

local function largest_column(x) return x:abs():sum(-2):amax(-1) end
--- Determinants and transposed inverses of x in f64; nil unless all matrices are far from singular.
--- To find that out it reads one flag from the device (so this evaluates).
local function regular_parts(x, lead, count, n)
  if x:numel() == 0 then return end
  local wide = x:double()
  local y = inverse(wide, "det", true)
  local d = call("determinant", "det", { wide }, count, lead, { 3 * count }, n):narrow(1, 1,
    count):reshape(lead)
  local far = (largest_column(wide) * largest_column(y) * (64 * n * 2.0 ^ -52)):lt(1)
  local size = d:abs()
  if not far:logical_and(size:ge(2.0 ^ -1022)):logical_and(size:lt(math.huge)):all():item() then
    return
  end
  return d:unsqueeze(-1):unsqueeze(-1), turned(y)
end

local cofactor_grad
--- The second derivative of det(x) along g, for regular x: d (<g, y> y - y g' y), where d = det(x)
--- and y = x^-T.
local function gradient_form(d, y, g)
  return d * ((y * g):sum({ -2, -1 }, { keepdim = true }) * y - matmul(matmul(y, turned(g)), y))
end

--- The third derivative of det(x) along a and b, for regular x: d times the transpose of
--- ((tr(p) tr(q) - tr(p q)) I - tr(p) q - tr(q) p + p q + q p) x^-1, where p
--- = x^-1 a and q = x^-1 b.
local function third_form(x, a, b)
  local function trace(m) return m:diagonal(0, -2, -1):sum(-1):unsqueeze(-1):unsqueeze(-1) end
  local n = inverse(x, "det", true)
  local p, q = matmul(n, a), matmul(n, b)
  local pn, qn = matmul(p, n), matmul(q, n)
  local t = (trace(p) * trace(q) - trace(matmul(p, q))) * n - trace(p) * qn - trace(
    q) * pn + matmul(p, qn) + matmul(q, pn)
  return flame.det(x):unsqueeze(-1):unsqueeze(-1) * turned(t)
end

cofactor_grad = flame.func {
  name = "det",
  forward = function(ctx, x, g)
    local lead, count, n = need_square("det", "x", x)
    save(ctx, x, g)
    local d, y
    if on_device(x) then d, y = regular_parts(x, lead, count, n) end
    if d then return gradient_form(d, y, g:double()):to(x.dtype) end
    return call("cofactor_grad", "det", { x, g }, count, lead, x.shape, n)
  end,
  backward = function(ctx, e)
    local x, g = ctx:saved()
    return third_form(x, g, e), cofactor_grad(x, e)
  end,
}
local cofactor = flame.func {
  name = "det",
  forward = function(ctx, x)
    local lead, count, n = need_square("det", "x", x)
    save(ctx, x)
    local d, y
    if on_device(x) then d, y = regular_parts(x, lead, count, n) end
    if d then return (d * y):to(x.dtype) end
    return call("cofactor", "det", { x }, count, lead, x.shape, n)
  end,
  backward = function(ctx, g) return cofactor_grad(ctx:saved(), g) end,
}
local det = flame.func {
  name = "det",
  forward = function(ctx, x)
    local lead, count, n = need_square("det", "x", x)
    save(ctx, x)
    return call("determinant", "det", { x }, count, lead, { 3 * count }, n):narrow(1, 1,
      count):reshape(lead):clone()
  end,
  backward = function(ctx, g) return g:unsqueeze(-1):unsqueeze(-1) * cofactor(ctx:saved()) end,
}
--- Determinants; they have a gradient also where they are 0.
def("det(x: T) -> T @neutral", function(x) return det(x) end)
linalg.det = flame.det

local slogdet = flame.func {
  name = "slogdet",
  forward = function(ctx, x)
    local lead, count, n = need_square("slogdet", "x", x)
    save(ctx, x)
    ctx.lead, ctx.count = lead, count
    return call("determinant", "slogdet", { x }, count, lead, { 3 * count }, n)
  end,
  backward = function(ctx, g)
    local _, _, log = parts(g, ctx.lead, ctx.lead, ctx.lead)
    return log:unsqueeze(-1):unsqueeze(-1) * turned(inverse(ctx:saved(), "slogdet", true))
  end,
}
--- Sign and logarithm of the absolute value of determinants.
def("slogdet(x: T) -> sign: T, logarithm: T @neutral", function(x)
  local lead = need_square("slogdet", "x", x)
  local _, sign, log = parts(slogdet(x), lead, lead, lead)
  return own(sign:detach(), log)
end)
linalg.slogdet = flame.slogdet
--- Logarithms of determinants; NaN for negative ones.
def("logdet(x: T) -> T @neutral", function(x)
  local sign, log = flame.slogdet(x)
  return where(sign:lt(0), 0 / 0, log)
end)

-- ---- QR -----------------------------------------------------------------------------------------
--- The cotangent of x = q r with a square r, from those of q and r (gq, gr).
local function qr_cotangent(q, r, gq, gr)
  local m = matmul(gr, turned(r)) - matmul(turned(q), gq)
  m = m:triu()
  m = m + turned(m) - on_diagonal(m:diagonal(0, -2, -1))
  local x = gq + matmul(q, m)
  return turned(triangle(r, turned(x), true, false))
end

local qr = flame.func {
  name = "qr",
  forward = function(ctx, x, mode)
    local lead, count, m, n = need_matrix("qr", "x", x)
    local k, want = mode == "complete" and m or math.min(m, n), mode ~= "r"
    local flat = call("qr", "qr", { x }, count, lead,
      { count * ((want and m * k or 0) + k * n) }, m, n,
      mode == "complete" and 1 or 0, want and 1 or 0)
    save(ctx, x, flat)
    ctx.mode = mode
    return flat
  end,
  backward = function(ctx, g)
    local x, flat = ctx:saved()
    local lead, _, m, n = need_matrix("qr", "x", x)
    if ctx.mode == "r" then
      fail("qr", 'mode "r" has no gradient: it needs Q\1, take mode "reduced"')
    end
    if ctx.mode == "complete" and m > n then
      fail("qr",
        'mode "complete" has no gradient for %d rows and %d columns\1: take mode "reduced"', m, n)
    end
    local k = math.min(m, n)
    local q, r = parts(flat, joined(lead, m, k), joined(lead, k, n))
    local gq, gr = parts(g, joined(lead, m, k), joined(lead, k, n))
    if m >= n then return qr_cotangent(q, r, gq, gr) end
    local rest, gv = x:narrow(-1, m + 1, n - m), gr:narrow(-1, m + 1, n - m)  -- x = q [r1, q' rest]
    gq = gq + matmul(rest, turned(gv))
    return flame.cat(
      { qr_cotangent(q, r:narrow(-1, 1, m), gq, gr:narrow(-1, 1, m)), matmul(q, gv) }, -1)
  end,
}
local function qr_any(x, mode)
  local lead, _, m, n = need_matrix("qr", "x", x)
  local k, flat = mode == "complete" and m or math.min(m, n), qr(x, mode)
  if mode == "r" then
    return flame.empty({ 0 }, { dtype = x.dtype, device = x.device }),
      own(flat:reshape(joined(lead, k, n)))
  end
  return own(parts(flat, joined(lead, m, k), joined(lead, k, n)))
end
--- Q with orthonormal columns and the triangle R, x = Q R. mode: "reduced", "complete", or "r" (R
--- alone); some = false is "complete".
def('qr(x: T, mode: "reduced"|"complete"|"r" = "reduced") -> Q: T, R: T @neutral', qr_any,
  "qr(x: T, some: bool) -> Q: T, R: T",
  function(x, some) return qr_any(x, some and "reduced" or "complete") end)
linalg.qr = flame.qr

-- ---- for the other files of linalg/ --------------------------------------------------------
return {
  quiet_inverse = quiet_inverse, need_pivot = need_pivot, on_device = on_device,
  need_matrix = need_matrix, need_square = need_square, need_real = need_real,
  shape_text = shape_text, is_vector = is_vector, same_batch = same_batch, joined = joined,
  product = product, parts = parts, own = own, call = call,
  save = save, turned = turned, eye_like = eye_like, on_diagonal = on_diagonal, inverse = inverse,
  epsilon = { f32 = 2.0 ^ -23, f64 = 2.0 ^ -52 },
}
