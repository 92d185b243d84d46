--- Linear algebra: equations, factorisations, determinants, and what is made of them. All work
-- on batches: the last two axes are a matrix. f32 and f64; other dtypes raise, as in PyTorch.
-- The numbers come from calls (src/tensor/calls.def); results of several parts are one flat
-- tensor there, taken apart by views. Gradients are written in terms of functions that have
-- gradients themselves, so they can be differentiated again.
-- Also under flame.linalg; norms and products are in core_vector.lua.
local flame, _, internal = ...
local fail, need_tensor, options, def = internal.failf, internal.need_tensor, internal.options, internal.def
local where, matmul = flame.where, flame.matmul

local linalg = {}
flame.linalg = linalg

--- linalg[name] = f with at most 'most' arguments.
local function under(name, most, f)
  linalg[name] = function(...)
    if select("#", ...) > most then
      fail(name, "%d argument%s at most, got %d", most, most == 1 and "" or "s", select("#", ...))
    end
    return f(...)
  end
end
internal.under_linalg = under

-- ---- arguments -------------------------------------------------------------------------------
local function shape_text(x) return "(" .. table.concat(x.shape, ", ") .. ")" end

local function need_real(op, name, x)
  need_tensor(op, name, x)
  if x.dtype ~= "f32" and x.dtype ~= "f64" then fail(op, "%s is %s, need f32 or f64", name, x.dtype) end
  return x
end

--- A matrix or a batch of them: axes before the last two, their number, rows, columns.
local function need_matrix(op, name, x)
  need_real(op, name, x)
  if x.ndim < 2 then fail(op, "%s has shape %s, need a matrix (two axes or more)", name, shape_text(x)) end
  local shape, count = x.shape, 1
  local n, m = table.remove(shape), table.remove(shape)
  for _, s in ipairs(shape) do count = count * s end
  return shape, count, m, n
end

local function need_square(op, name, x)
  local lead, count, m, n = need_matrix(op, name, x)
  if m ~= n then fail(op, "%s has shape %s, need square matrices: %d rows, %d columns", name, shape_text(x), m, n) end
  return lead, count, n
end

local function need_same_dtype(op, a, b, x, y)
  if x.dtype ~= y.dtype then fail(op, "%s is %s and %s %s, need one dtype", a, x.dtype, b, y.dtype) end
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

--- Views of a flat tensor: parts of these shapes, one behind the other.
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

--- Run a call on matrices of one tensor; sizes: of the result.
local function call(kind, op, inputs, count, lead, sizes, ...)
  return internal.call(kind, op, inputs, { count, #lead > 0 and 1 or 0, ... }, sizes, inputs[1].dtype)
end

--- Options of which some may stand before by position.
local function given(op, names, known, ...)
  return internal.defaults(op, names, known, ...)
end

--- Save for backward, tracked inputs as tracked ones: forward itself runs without a tape.
local function save(ctx, ...)
  local _ <close> = flame.enable_grad()
  ctx:save(...)
end

local function turned(x) return x:transpose(-2, -1) end
local function eye_like(x, m, n) return flame.eye(m, n or m, { dtype = x.dtype, device = x.device }) end
local function on_diagonal(v) return v:unsqueeze(-1) * eye_like(v, v.shape[v.ndim]) end
local epsilon = { f32 = 2.0 ^ -23, f64 = 2.0 ^ -52 }
internal.linalg_parts = { need_matrix = need_matrix, need_square = need_square, need_real = need_real,
  shape_text = shape_text, turned = turned, eye_like = eye_like, epsilon = epsilon }

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
---@param x flame.Tensor  (…, n, n)
---@return flame.Tensor
def("inverse", 1, function(x) return inverse(x, "inverse", false) end)
linalg.inv = flame.inverse
--- Gives Inf where a matrix is singular.
internal.quiet_inverse = function(x, op) return inverse(x, op, true) end

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
    local x = call("triangular", "solve_triangular", { a, b }, count, lead, b.shape, n, b.shape[b.ndim],
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

--- a and b with one batch shape: (…, n, n) and (…, n, k).
local function same_batch(op, a, b)
  local la, _, n, _ = need_matrix(op, "a", a)
  local lb, _, m, k = need_matrix(op, "b", b)
  need_same_dtype(op, "a", "b", a, b)
  if n ~= m then fail(op, "a has shape %s and b %s: %d rows and %d", shape_text(a), shape_text(b), n, m) end
  if table.concat(la, ",") == table.concat(lb, ",") then return a, b end
  local lead = {}
  for d = 1, math.max(#la, #lb) do
    local x, y = la[#la - d + 1] or 1, lb[#lb - d + 1] or 1
    if x ~= y and x ~= 1 and y ~= 1 then
      fail(op, "a has shape %s and b %s: batch sizes %d and %d do not go together", shape_text(a), shape_text(b), x, y)
    end
    table.insert(lead, 1, x == 1 and y or x)
  end
  return a:expand(joined(lead, n, a.shape[a.ndim])), b:expand(joined(lead, n, k))
end

--- Is b one vector for each matrix of a? As PyTorch decides.
local function is_vector(a, b)
  if b.ndim == 1 then return true end
  if b.ndim ~= a.ndim - 1 then return false end
  local s, t = a.shape, b.shape
  for d = 1, #t do if s[d] ~= t[d] then return false end end
  return true
end

local function solve_any(a, b, o)
  need_square("solve", "a", a)
  need_real("solve", "b", b)
  o = options("solve", o, { left = true })
  local vector = is_vector(a, b)
  if vector then b = b:unsqueeze(-1) end
  if not o.left then
    if vector then fail("solve", "left = false needs a matrix b, got shape %s", shape_text(b:squeeze(-1))) end
    a, b = turned(a), turned(b)
  end
  a, b = same_batch("solve", a, b)
  local x = solve(a, b, "solve")
  if vector then return x:squeeze(-1) end
  return o.left and x or turned(x)
end
--- x with a x = b: b is (…, n, k), or (…, n) for one vector a matrix. {left = false}: x a = b.
---@param a flame.Tensor
---@param b flame.Tensor
---@param o table?
---@return flame.Tensor
def("solve", 3, solve_any)
linalg.solve = flame.solve

local function solve_triangular(a, b, o)
  local op = "solve_triangular"
  need_square(op, "a", a)
  o = options(op, o, { upper = false, left = true, unitriangular = false })
  need_matrix(op, "b", b)
  if not o.left then
    a, b = same_batch(op, turned(a), turned(b))
    return turned(triangle(a, b, not o.upper, o.unitriangular))
  end
  a, b = same_batch(op, a, b)
  return triangle(a, b, o.upper, o.unitriangular)
end
--- x with a x = b for a triangle a. {upper =, left = true, unitriangular = false}
under("solve_triangular", 3, solve_triangular)

-- ---- Cholesky ------------------------------------------------------------------------------------
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
--- The triangle L with L L' = x, or {upper = true} U with U' U = x; one half of x is read.
---@param x flame.Tensor  (…, n, n), positive definite: another raises with its position
---@return flame.Tensor
def("cholesky", 2, function(x, upper)
  need_square("cholesky", "x", x)
  return cholesky(x, given("cholesky", { "upper" }, { upper = false }, upper).upper)
end)
linalg.cholesky = flame.cholesky

--- x with a x = b, from the triangle of a's Cholesky factorisation.
def("cholesky_solve", 3, function(b, l, upper)
  upper = given("cholesky_solve", { "upper" }, { upper = false }, upper).upper
  need_square("cholesky_solve", "l", l)
  l, b = same_batch("cholesky_solve", upper and turned(l) or l, b)
  return triangle(turned(l), triangle(l, b, false, false), true, false)
end)
def("cholesky_inverse", 2, function(l, upper)
  upper = given("cholesky_inverse", { "upper" }, { upper = false }, upper).upper
  local lead, _, n = need_square("cholesky_inverse", "l", l)
  local one = eye_like(l, n):expand(joined(lead, n, n))
  local half = triangle(upper and turned(l) or l, one, false, false)
  return matmul(turned(half), half)
end)

-- ---- LU ----------------------------------------------------------------------------------------------
--- Cotangent of a, rows as P a has them: L (m, k), U (k, n) and theirs.
local function lu_cotangent(l, u, gl, gu, m, n)
  local k = math.min(m, n)
  local l1, u1 = l:narrow(-2, 1, k), u:narrow(-1, 1, k)
  local low, high = matmul(turned(l1), gl:narrow(-2, 1, k)), matmul(gu:narrow(-1, 1, k), turned(u1))
  if m > k then high = high - matmul(turned(l:narrow(-2, k + 1, m - k)), gl:narrow(-2, k + 1, m - k)) end
  if n > k then low = low - matmul(gu:narrow(-1, k + 1, n - k), turned(u:narrow(-1, k + 1, n - k))) end
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

--- P with P[rows[i]][i] = 1: a = P L U.
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
--- P, L, U with x = P L U, rows pivoted.
---@return flame.Tensor, flame.Tensor, flame.Tensor
under("lu", 1, function(x)
  local lead, _, m, n = need_matrix("lu", "x", x)
  local packed, rows = parts(lu(x), joined(lead, m, n), joined(lead, m))
  local l, u = lu_factors(packed, m, n)
  return permutation(rows, m), l, u
end)

-- ---- determinants --------------------------------------------------------------------------------------
local cofactor_grad
--- det(x) (<g, x^-T> x^-T - x^-T g' x^-T): what cofactor_grad computes, for regular x.
local function regular_form(x, g)
  local y = turned(inverse(x, "det", true))
  local d = flame.det(x):unsqueeze(-1):unsqueeze(-1)
  return d * ((y * g):sum({ -2, -1 }, { keepdim = true }) * y - matmul(matmul(y, turned(g)), y))
end
cofactor_grad = flame.func {
  name = "det",
  forward = function(ctx, x, g)
    local lead, count, n = need_square("det", "x", x)
    save(ctx, x)
    return call("cofactor_grad", "det", { x, g }, count, lead, x.shape, n)
  end,
  backward = function(ctx, e)
    local x = ctx:saved()
    local _ <close> = flame.enable_grad()
    local y, g = x:detach():requires_grad_(true), e:detach()
    local gx = internal.gradients({ regular_form(y, g) }, { e }, { y }, {})[1]
    return gx, cofactor_grad(x, e)
  end,
}
local cofactor = flame.func {
  name = "det",
  forward = function(ctx, x)
    local lead, count, n = need_square("det", "x", x)
    save(ctx, x)
    return call("cofactor", "det", { x }, count, lead, x.shape, n)
  end,
  backward = function(ctx, g) return cofactor_grad(ctx:saved(), g) end,
}
local det = flame.func {
  name = "det",
  forward = function(ctx, x)
    local lead, count, n = need_square("det", "x", x)
    save(ctx, x)
    return call("determinant", "det", { x }, count, lead, { 3 * count }, n):narrow(1, 1, count):reshape(lead):clone()
  end,
  backward = function(ctx, g) return g:unsqueeze(-1):unsqueeze(-1) * cofactor(ctx:saved()) end,
}
--- Determinants; the gradient exists where they are 0 as well.
---@return flame.Tensor
def("det", 1, function(x) return det(x) end)
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
---@return flame.Tensor, flame.Tensor
def("slogdet", 1, function(x)
  local lead = need_square("slogdet", "x", x)
  local _, sign, log = parts(slogdet(x), lead, lead, lead)
  return sign:detach(), log
end)
linalg.slogdet = flame.slogdet
def("logdet", 1, function(x)
  local sign, log = flame.slogdet(x)
  return where(sign:lt(0), 0 / 0, log)
end)

-- ---- QR ----------------------------------------------------------------------------------------------------
--- Cotangent of x = q r with a square r.
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
    local flat = call("qr", "qr", { x }, count, lead, { count * ((want and m * k or 0) + k * n) }, m, n,
      mode == "complete" and 1 or 0, want and 1 or 0)
    save(ctx, x, flat)
    ctx.mode = mode
    return flat
  end,
  backward = function(ctx, g)
    local x, flat = ctx:saved()
    local lead, _, m, n = need_matrix("qr", "x", x)
    if ctx.mode == "r" then fail("qr", 'mode "r" has no gradient: it needs Q, take mode "reduced"') end
    if ctx.mode == "complete" and m > n then
      fail("qr", 'mode "complete" has no gradient for %d rows and %d columns: take mode "reduced"', m, n)
    end
    local k = math.min(m, n)
    local q, r = parts(flat, joined(lead, m, k), joined(lead, k, n))
    local gq, gr = parts(g, joined(lead, m, k), joined(lead, k, n))
    if m >= n then return qr_cotangent(q, r, gq, gr) end
    local rest, gv = x:narrow(-1, m + 1, n - m), gr:narrow(-1, m + 1, n - m)      -- x = q [r1, q' rest]
    gq = gq + matmul(rest, turned(gv))
    return flame.cat({ qr_cotangent(q, r:narrow(-1, 1, m), gq, gr:narrow(-1, 1, m)), matmul(q, gv) }, -1)
  end,
}
local function qr_any(x, mode)
  local lead, _, m, n = need_matrix("qr", "x", x)
  if type(mode) == "table" then
    local o = options("qr", mode, { mode = "reduced", some = true })
    mode = o.some and o.mode or "complete"
  elseif type(mode) == "boolean" then
    mode = mode and "reduced" or "complete"
  end
  mode = mode or "reduced"
  if mode ~= "reduced" and mode ~= "complete" and mode ~= "r" then
    fail("qr", 'mode must be "reduced", "complete" or "r", got %s', tostring(mode))
  end
  local k, flat = mode == "complete" and m or math.min(m, n), qr(x, mode)
  if mode == "r" then return flame.empty({ 0 }, { dtype = x.dtype, device = x.device }), flat:reshape(joined(lead, k, n)) end
  return parts(flat, joined(lead, m, k), joined(lead, k, n))
end
--- Q with orthonormal columns and the triangle R, x = Q R. mode: "reduced", "complete", or "r" (R alone).
---@param x flame.Tensor
---@param mode string?
---@return flame.Tensor, flame.Tensor
def("qr", 2, qr_any)
linalg.qr = flame.qr

-- ---- singular values ---------------------------------------------------------------------------------------
--- 1 / x, but 0 where 'none' holds.
local function inverse_unless(none, x) return where(none, 0, 1 / where(none, 1, x)) end

--- 1 / (s_j^2 - s_i^2); 0 on the diagonal and for values that are equal up to rounding, where a
--- function that has a gradient does not ask for it.
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
    local flat = call("svd", "svd", { x }, count, lead, { count * (m * ctx.ku + k + ctx.kv * n) }, m, n, full and 1 or 0, 1)
    save(ctx, flat)
    ctx.lead, ctx.m, ctx.n = lead, m, n
    return flat
  end,
  backward = function(ctx, g)
    local lead, m, n, k = ctx.lead, ctx.m, ctx.n, math.min(ctx.m, ctx.n)
    local su, ss, sv = joined(lead, m, ctx.ku), joined(lead, k), joined(lead, ctx.kv, n)
    local u, s, vh = parts(ctx:saved(), su, ss, sv)
    local gu, gs, gv = parts(g, su, ss, sv)
    if k == 0 or product(lead) == 0 then return flame.zeros(joined(lead, m, n), { dtype = g.dtype, device = g.device }) end
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
  return parts(svd(x, full), joined(lead, m, full and m or k), joined(lead, k), joined(lead, full and n or k, n))
end
internal.svd = svd_parts

--- Singular values, falling. Tracked: by way of the vectors, which their gradient is made of.
local function svdvals(x, op)
  local lead, count, m, n = need_matrix(op, "x", x)
  if x.requires_grad and flame.is_grad_enabled() then
    local _, s = svd_parts(x, false)
    return s
  end
  return call("svd", op, { x }, count, lead, joined(lead, math.min(m, n)), m, n, 0, 0)
end
internal.svdvals = svdvals

--- U, S, V with x = U diag(S) V', as torch.svd has it. {some = true, compute_uv = true}
---@return flame.Tensor, flame.Tensor, flame.Tensor
def("svd", 3, function(x, ...)
  local lead, _, m, n = need_matrix("svd", "x", x)
  local o = given("svd", { "some", "compute_uv" }, { some = true, compute_uv = true }, ...)
  if not o.compute_uv then
    local how = { dtype = x.dtype, device = x.device }
    return flame.zeros(joined(lead, m, m), how), svdvals(x, "svd"), flame.zeros(joined(lead, n, n), how)
  end
  local u, s, vh = svd_parts(x, not o.some)
  return u, s, turned(vh)
end)
--- U, S, V' with x = U diag(S) V', as torch.linalg.svd has it. {full_matrices = true}
---@return flame.Tensor, flame.Tensor, flame.Tensor
under("svd", 2, function(x, ...)
  need_matrix("svd", "x", x)
  return svd_parts(x, given("svd", { "full_matrices" }, { full_matrices = true }, ...).full_matrices)
end)
under("svdvals", 1, function(x) return svdvals(x, "svdvals") end)

-- ---- symmetric eigenvalues ---------------------------------------------------------------------------------
local eigh = flame.func {
  name = "eigh",
  forward = function(ctx, x, upper)
    local lead, count, n = need_square("eigh", "x", x)
    local flat = call("eigh", "eigh", { x }, count, lead, { count * (n + n * n) }, n, upper and 1 or 0, 1)
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
    return matmul(matmul(v, matmul(turned(v), gv) * f + on_diagonal(gw)), turned(v))
  end,
}
local function upper_of(op, o)
  if type(o) == "string" then o = { UPLO = o } end
  local name = options(op, o, { UPLO = "L" }).UPLO
  local letter = type(name) == "string" and name:upper()
  if letter ~= "L" and letter ~= "U" then fail(op, 'UPLO must be "L" or "U", got %s', tostring(name)) end
  return letter == "U"
end
--- Eigenvalues (rising) and eigenvectors (columns) of symmetric matrices, of which one half is read.
---@param x flame.Tensor  (…, n, n)
---@param o table|string?  {UPLO = "L"}
---@return flame.Tensor, flame.Tensor
def("eigh", 2, function(x, o)
  local lead, _, n = need_square("eigh", "x", x)
  return parts(eigh(x, upper_of("eigh", o)), joined(lead, n), joined(lead, n, n))
end)
linalg.eigh = flame.eigh
local function eigvalsh(x, o)
  local lead, count, n = need_square("eigvalsh", "x", x)
  local upper = upper_of("eigvalsh", o)
  if x.requires_grad and flame.is_grad_enabled() then return (parts(eigh(x, upper), joined(lead, n))) end
  return call("eigh", "eigvalsh", { x }, count, lead, joined(lead, n), n, upper and 1 or 0, 0)
end
under("eigvalsh", 2, eigvalsh)

-- ---- pseudo-inverse and least squares ------------------------------------------------------------------------
--- Cotangent of x from that of its pseudo-inverse p.
local function pinv_cotangent(x, p, g)
  local pt, gt = turned(p), turned(g)
  local left = matmul(matmul(gt, p), pt)
  local right = matmul(pt, matmul(p, gt))
  return left - matmul(x, matmul(p, left)) + right - matmul(matmul(right, p), x) - matmul(matmul(pt, g), pt)
end

--- U', 1 / S and V of an untracked x, 0 for values that count as 0: at most max(atol, rtol * largest).
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
--- Limits below which a singular value counts as 0, as torch.linalg has them.
local function limits(x, o)
  local s = x.shape
  local atol, rtol = o.atol or 0, o.rtol or nil
  rtol = rtol or (atol > 0 and 0 or math.max(s[#s], s[#s - 1]) * epsilon[x.dtype])
  return atol, rtol
end
local function symmetric_from_lower(x) return x:tril() + turned(x:tril(-1)) end
local function pinv_any(op, x, o)
  need_matrix(op, "x", x)
  if o.hermitian then
    need_square(op, "x", x)
    x = symmetric_from_lower(x)
  end
  return pinv(x, op, limits(x, o))
end
--- Pseudo-inverses. {atol =, rtol = max(m, n) eps, hermitian = false}
under("pinv", 3, function(x, rtol, hermitian)
  return pinv_any("pinv", x, given("pinv", { "rtol", "hermitian" }, { atol = false, rtol = false, hermitian = false }, rtol,
    hermitian))
end)
def("pinverse", 2, function(x, rcond)
  return pinv_any("pinverse", x, { rtol = given("pinverse", { "rcond" }, { rcond = 1e-15 }, rcond).rcond })
end)

--- How many singular values count. {atol =, rtol = max(m, n) eps, hermitian = false}; i64
under("matrix_rank", 3, function(x, tol, o)
  need_matrix("matrix_rank", "x", x)
  if type(tol) == "number" then
    o = options("matrix_rank", o, { hermitian = false })
    o.atol, o.rtol = tol, 0
  else
    o = options("matrix_rank", tol, { atol = false, rtol = false, hermitian = false, tol = false })
    if o.tol then o.atol, o.rtol = o.tol, 0 end
  end
  x = x:detach()
  local s = o.hermitian and eigvalsh(x):abs() or svdvals(x, "matrix_rank")
  if s.shape[s.ndim] == 0 then return s:long():sum(-1) end
  local atol, rtol = limits(x, o)
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
local drivers = { gels = true, gelsy = true, gelsd = true, gelss = true }
--- Solution of least length, residuals (sums of squares, for another driver than "gelsy" where a has
--- more rows than columns and full rank; else empty), ranks (i64; empty for "gels"), singular values
--- ("gelsd" and "gelss"; else empty), as PyTorch has it.
---@param a flame.Tensor  (…, m, n)
---@param b flame.Tensor  (…, m, k), or (…, m) for one vector a matrix
---@param o table?  {rcond = max(m, n) eps, driver = "gelsy"}
---@return flame.Tensor, flame.Tensor, flame.Tensor, flame.Tensor
def("lstsq", 4, function(a, b, ...)
  local op = "lstsq"
  need_matrix(op, "a", a)
  need_real(op, "b", b)
  local o = given(op, { "rcond", "driver" }, { rcond = false, driver = "gelsy" }, ...)
  if not drivers[o.driver] then fail(op, 'driver must be "gels", "gelsy", "gelsd" or "gelss", got %s', tostring(o.driver)) end
  local vector = b.ndim == a.ndim - 1
  if vector then b = b:unsqueeze(-1) end
  a, b = same_batch(op, a, b)
  local m, n = a.shape[a.ndim - 1], a.shape[a.ndim]
  local rcond = o.rcond or math.max(m, n) * epsilon[a.dtype]
  local ut, over, v, s, counts = truncated(op, a:detach(), 0, rcond)
  local x = lstsq(a, b, { ut = ut, over = over, v = v, rcond = rcond })
  local rank = counts:sum(-1)
  local none = { dtype = a.dtype, device = a.device }
  local residuals = flame.empty({ 0 }, none)
  if m > n and (o.driver == "gels" or o.driver ~= "gelsy" and rank:eq(n):all():item()) then
    local r = matmul(a:detach(), x:detach()) - b:detach()
    residuals = (r * r):sum(-2)
    if vector then residuals = residuals:squeeze(-1) end
  end
  if o.driver ~= "gelsd" and o.driver ~= "gelss" then s = flame.empty({ 0 }, none) end
  if o.driver == "gels" then rank = flame.empty({ 0 }, { dtype = "i64", device = a.device }) end
  return vector and x:squeeze(-1) or x, residuals, rank, s
end)
linalg.lstsq = flame.lstsq

-- ---- functions of matrices ---------------------------------------------------------------------------------------
local matrix_exp
matrix_exp = flame.func {
  name = "matrix_exp",
  forward = function(ctx, x)
    local lead, count, n = need_square("matrix_exp", "x", x)
    save(ctx, x)
    return call("matrix_exp", "matrix_exp", { x }, count, lead, x.shape, n)
  end,
  backward = function(ctx, g)           -- the upper right block of exp [x', g; 0, x']
    local x = turned(ctx:saved())
    local n = x.shape[x.ndim]
    local above, below = flame.cat({ x, g }, -1), flame.cat({ flame.zeros_like(g), x }, -1)
    return matrix_exp(flame.cat({ above, below }, -2)):narrow(-2, 1, n):narrow(-1, n + 1, n)
  end,
}
--- Exponentials of matrices.
---@return flame.Tensor
def("matrix_exp", 1, function(x)
  need_square("matrix_exp", "x", x)
  return matrix_exp(x)
end)
linalg.matrix_exp = flame.matrix_exp

--- x multiplied with itself n times; of the inverse for n < 0.
def("matrix_power", 2, function(x, n)
  need_tensor("matrix_power", "x", x)
  n = internal.need_int("matrix_power", "n", n)
  local s = x.shape
  if #s < 2 or s[#s] ~= s[#s - 1] then fail("matrix_power", "x has shape %s, need square matrices", shape_text(x)) end
  if n == 0 then return flame.eye(s[#s], { dtype = x.dtype, device = x.device }):expand(s):clone() end
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
