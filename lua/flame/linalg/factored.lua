--- Factorisations in LAPACK's packed forms: LU in one matrix with pivots, L D L', and the
-- orthogonal matrix of a list of reflections. But for L D L', which has no gradient, all are
-- compositions of other ops, so gradients need no rules.
local flame = require "flame"
local func = require "flame.autograd.func"
local arguments = require "flame.base.arguments"
local solve = require "flame.linalg.solve"
local fail, def = arguments.fail, arguments.def
local linalg, part = flame.linalg, solve
local shape_text = part.shape_text

--- LAPACK's pivots for each matrix: row swaps i <-> pivots[i] that make the order 'rows'.
local function pivots_of(rows, n)
  local shape, out = rows.shape, {}
  local count = shape[#shape]
  for b, order in ipairs(rows:reshape(-1, count):totable()) do
    local now, one = {}, {}
    for i = 1, count do now[i] = i end
    for i = 1, n do
      local j = i
      while now[j] ~= order[i] do j = j + 1 end
      now[i], now[j], one[i] = now[j], now[i], j
    end
    out[b] = one
  end
  shape[#shape] = n
  return flame.tensor(out, { dtype = "i32", device = rows.device }):reshape(shape)
end
--- The inverse of pivots_of: the order of rows after the swaps of 'pivots', one list per matrix.
local function swapped_rows(op, pivots, count)
  local shape, out = arguments.need_integers(op, "pivots", pivots).shape, {}
  for b, swaps in ipairs(pivots:reshape(-1, shape[#shape]):totable()) do
    local now = {}
    for i = 1, count do now[i] = i end
    for i, j in ipairs(swaps) do
      if not now[i] or not now[j] then
        fail(op, "pivot %s at position %d, need 1 to %d", tostring(j), i, count)
      end
      now[i], now[j] = now[j], now[i]
    end
    out[b] = now
  end
  return out
end
local function rows_of(op, pivots, count)
  local shape = pivots.shape
  shape[#shape] = count
  return flame.tensor(swapped_rows(op, pivots, count), { dtype = "i64", device = pivots.device })
    :reshape(shape)
end

--- The LU factorisation packed: L (below the diagonal, without its diagonal of ones) and U in one
--- matrix, and the pivots (i32, from 1): row i was swapped with row pivots[i].
def("linalg.lu_factor(x: T, pivot = true) -> LU: T, pivots: T @neutral", function(x, pivot)
  solve.need_pivot("lu_factor", pivot)
  local p, l, u = linalg.lu(x)
  local m, n = x.shape[x.ndim - 1], x.shape[x.ndim]
  local k = math.min(m, n)
  if x:numel() == 0 then
    local shape = table.move(x.shape, 1, x.ndim - 2, 1, {})
    shape[#shape + 1] = k
    return x:clone(), flame.zeros(shape, { dtype = "i32", device = x.device })
  end
  local packed = l:tril(-1):pad({ 0, n - k }) + u:pad({ 0, 0, 0, m - k })
  return packed, pivots_of(p:detach():argmax(-2), k)
end)
--- The position (i32) of the first 0 on the diagonal of U, which makes the matrix singular; 0:
--- there is none.
local function info_of(lu)
  local zero = lu:diagonal(0, -2, -1):eq(0)
  local batch = table.move(lu.shape, 1, lu.ndim - 2, 1, {})
  if zero:numel() == 0 then return flame.zeros(batch, { dtype = "i32", device = lu.device }) end
  return flame.where(zero:any(-1), zero:long():argmax(-1), 0):int()
end
--- lu_factor's result, and where the diagonal of U has its first 0 (i32; 0: nowhere).
def("linalg.lu_factor_ex(x: T, pivot = true) -> LU: T, pivots: T, info: T @neutral",
function(x, pivot)
  local lu, pivots = linalg.lu_factor(x, pivot)
  return lu, pivots, info_of(lu:detach())
end)
--- linalg.lu_factor in the form of torch.lu; get_infos: linalg.lu_factor_ex.
def([[lu(x: T, pivot = true, get_infos = false)
    -> LU: T, pivots: T, info: T if get_infos @neutral]], function(x, pivot, get_infos)
  solve.need_pivot("lu", pivot)
  if get_infos then return linalg.lu_factor_ex(x) end
  return linalg.lu_factor(x)
end)
--- The solution of a x = b, or x a = b with left = false, from lu_factor's result for a. adjoint:
--- with a' in place of a.
def("linalg.lu_solve(lu: T, pivots: T, b: T, *, left = true, adjoint = false) -> T @neutral",
function(lu, pivots, b, left, adjoint)
  local op = "lu_solve"
  local n = lu.ndim >= 2 and lu.shape[lu.ndim]
  local at = lu.shape
  at[#at] = nil
  if not n or lu.shape[lu.ndim - 1] ~= n or shape_text(pivots) ~= "(" .. table.concat(at, ", ")
      .. ")" or b.ndim < 2
    or b.shape[left and b.ndim - 1 or b.ndim] ~= n then
    fail(op, "lu has shape %s, pivots %s and b %s, need (…, n, n), (…, n) and (…, n, k)",
      shape_text(lu), shape_text(pivots), shape_text(b))
  end
  if lu:numel() == 0 or b:numel() == 0 then return b:clone() end
  if adjoint then                                                           -- a' x = b is x' a = b'
    return part.turned(linalg.lu_solve(lu, pivots, part.turned(b), { left = not left })):clone()
  end
  local all = flame.arange(1, n, { dtype = "i64", device = lu.device })
  -- p is P': row i of P' b is row rows[i] of b
  local p = rows_of(op, pivots, n):unsqueeze(-1):eq(all):to(lu.dtype)
  if not left then
    local y = linalg.solve_triangular(lu:triu(), b, { upper = true, left = false })
    return linalg.solve_triangular(lu:tril(), y,
      { upper = false, left = false, unitriangular = true }):matmul(p)
  end
  local y = linalg.solve_triangular(lu:tril(), p:matmul(b), { upper = false, unitriangular = true })
  return linalg.solve_triangular(lu:triu(), y, { upper = true })
end)
--- linalg.lu_solve with the right side first, as torch.lu_solve has it.
def("lu_solve(b: T, lu: T, pivots: T) -> T @neutral",
  function(b, lu, pivots) return linalg.lu_solve(lu, pivots, b) end)

--- P, L and U as separate matrices, from lu_factor's result.
def(".lu_unpack(lu: T, pivots: T) -> P: T, L: T, U: T", function(lu, pivots)
  if lu.ndim < 2 then fail("lu_unpack", "lu has %d axes, need 2 or more", lu.ndim) end
  if pivots.ndim == 0 then fail("lu_unpack", "pivots is 0-d, need (…, %d)", lu.shape[lu.ndim]) end
  local m, n = lu.shape[lu.ndim - 1], lu.shape[lu.ndim]
  local k = math.min(m, n)
  local like = { dtype = lu.dtype, device = lu.device }
  local l, u = lu:narrow(-1, 1, k), lu:narrow(-2, 1, k)
  local all = flame.arange(1, m, { dtype = "i64", device = lu.device }):reshape(m, 1)
  return rows_of("lu_unpack", pivots, m):unsqueeze(-2):eq(all):to(lu.dtype),
    l:tril(-1) + flame.eye(m, k, like), u:triu()
end)

--- The first n columns of the product of the reflections 1 - tau[i] v[i] v[i]', with v[i] the i-th
--- column of x below the diagonal, and 1 on it: the Q of a QR factorisation as LAPACK leaves it.
def("linalg.householder_product(x: T, tau: T) -> T @neutral", function(x, tau)
  local op = "householder_product"
  local m, n, k = rawget(x.shape, x.ndim - 1), rawget(x.shape, x.ndim), rawget(tau.shape, tau.ndim)
  if x.ndim < 2 or n > m or tau.ndim ~= x.ndim - 1 or k > n then
    fail(op, "x has shape %s and tau %s, need (…, m, n), n <= m, and (…, k), k <= n", shape_text(x),
      shape_text(tau))
  end
  local one = flame.eye(m, n, { dtype = x.dtype, device = x.device })
  local q, v = one:expand(x.shape), x:tril(-1) + one
  for i = k, 1, -1 do
    local column = v:narrow(-1, i, 1)
    q = q - tau:narrow(-1, i, 1):unsqueeze(-1) * column:matmul(column:transpose(-2, -1):matmul(q))
  end
  return k == 0 and q:clone() or q
end)
--- linalg.householder_product under its older name.
def("orgqr(x: T, tau: T) -> T @neutral", linalg.householder_product)

-- ---- reflections that are applied, and found ----------------------------------------------------
--- The i-th reflection's v of the columns of x, and its tau, as (…, m, 1) and (…, 1, 1).
local function reflection(x, tau, i)
  local m = x.shape[x.ndim - 1]
  local below = flame.arange(1, m, { dtype = "i64", device = x.device }):reshape(m, 1)
  local v = flame.where(below:gt(i), x:narrow(-1, i, 1), below:eq(i):to(x.dtype))
  return v, tau:narrow(-1, i, 1):unsqueeze(-1)
end
--- Q c, or c Q with left = false, for the Q of the reflections in x and tau (as geqrf returns
--- them); transpose = true: Q' in place of Q.
def("ormqr(x: T, tau: T, c: T, left = true, transpose = false) -> T @neutral",
function(x, tau, c, left, transpose)
  local op = "ormqr"
  for name, t in pairs { x = x, tau = tau, c = c } do part.need_real(op, name, t) end
  local m, k = rawget(x.shape, x.ndim - 1), rawget(tau.shape, tau.ndim)
  if x.ndim < 2 or c.ndim ~= x.ndim or tau.ndim ~= x.ndim - 1 or k > x.shape[x.ndim] or k > m
    or c.shape[left and c.ndim - 1 or c.ndim] ~= m then
    fail(op,
      "x has shape %s, tau %s and c %s, need (…, m, k), (…, k) and (…, m, n), or (…, n, m) from the right",
      shape_text(x), shape_text(tau), shape_text(c))
  end
  local y = left and c or part.turned(c)                       -- c Q is (Q' c')'
  local first, last, step = k, 1, -1
  if left == transpose then first, last, step = 1, k, 1 end
  for i = first, last, step do
    local v, t = reflection(x, tau, i)
    y = y - t * v:matmul(part.turned(v):matmul(y))
  end
  return (left and y or part.turned(y)):clone()
end)
--- The QR factorisation packed: one matrix with R and, below its diagonal, the reflections whose
--- product is Q (see linalg.householder_product); and their factors tau.
def("geqrf(x: T) -> QR: T, tau: T @neutral", function(x)
  local lead, _, m, n = part.need_matrix("geqrf", "x", x)
  local k = math.min(m, n)
  if x:numel() == 0 then
    return x:clone(), flame.zeros(part.joined(lead, k), { dtype = x.dtype, device = x.device })
  end
  local columns, taus, rest = {}, {}, x
  for i = 1, k do
    local c = rest:narrow(-1, 1, 1)
    local alpha, tail = c:narrow(-2, i, 1), c:narrow(-2, i + 1, m - i)
    local size = tail:square():sum(-2, { keepdim = true })
    local none = size:eq(0)                                    -- nothing to reflect: tau is 0
    local beta = -flame.where(none, 1, size + alpha:square()):sqrt():copysign(alpha)
    local tau = flame.where(none, 0, (beta - alpha) / beta)
    tail = tail / flame.where(none, 1, alpha - beta)
    columns[i] = flame.cat({ c:narrow(-2, 1, i - 1), flame.where(none, alpha, beta), tail }, -2)
    taus[i] = tau:squeeze(-1)
    rest = rest:narrow(-1, 2, n - i)
    local v = flame.cat({ flame.zeros_like(c:narrow(-2, 1, i - 1)), flame.ones_like(alpha), tail },
      -2)
    if i < n then rest = rest - tau * v:matmul(part.turned(v):matmul(rest)) end
  end
  columns[k + 1] = rest
  return flame.cat(columns, -1), flame.cat(taus, -1)
end)

-- ---- forms that report instead of raising ------------------------------------------------------
--- The inverse, and where the diagonal of U (x = P L U) has its first 0 (i32; 0: nowhere). The
--- inverse of a singular matrix is Inf. check_errors: raises as linalg.inv does.
def("linalg.inv_ex(x: T, check_errors = false) -> inverse: T, info: T @neutral",
function(x, check_errors)
  part.need_square("inv_ex", "x", x)
  local _, _, u = linalg.lu(x:detach())
  if check_errors then return linalg.inv(x), info_of(u) end
  return solve.quiet_inverse(x, "inv_ex"), info_of(u)
end)
--- The solution of a x = b (or x a = b with left = false), and where the diagonal of U (a = P L U)
--- has its first 0 (i32; 0: nowhere). The solution for a singular matrix is not finite.
def("linalg.solve_ex(a: T, b: T, left = true, check_errors = false) -> solution: T, info: T @neutral",
function(a, b, left, check_errors)
  local op = "solve_ex"
  part.need_square(op, "a", a)
  part.need_real(op, "b", b)
  local p, l, u = linalg.lu(a)
  local info = info_of(u:detach())
  if check_errors then return flame.solve(a, b, { left = left }), info end
  local vector = part.is_vector(a, b)
  if vector and not left then
    fail(op, "left = false needs a matrix b, got shape %s", shape_text(b))
  end
  if vector then b = b:unsqueeze(-1) end
  local x
  if left then
    x = linalg.solve_triangular(l, part.turned(p):matmul(b), { unitriangular = true })
    x = linalg.solve_triangular(u, x, { upper = true })
  else
    x = linalg.solve_triangular(u, b, { upper = true, left = false })
    x = linalg.solve_triangular(l, x, { unitriangular = true, left = false }):matmul(part.turned(p))
  end
  return vector and x:squeeze(-1):clone() or x, info
end)

--- Cholesky's triangles of x's matrices, nil if one is not positive definite; other errors raise.
local function factored(x, upper)
  local l = flame.cholesky(x, { upper = upper })
  local ok, why = pcall(flame.eval, l)
  if ok then return l end
  if not tostring(why):find("not positive definite", 1, true) then error(why, 0) end
end
--- The order of the first leading minor of x that is not positive definite; 0: there is none.
local function minor_of(x, upper)
  if factored(x, upper) then return 0 end
  local good, bad = 0, x.shape[1]
  while bad - good > 1 do
    local k = (good + bad) // 2
    if factored(x:narrow(1, 1, k):narrow(2, 1, k), upper) then good = k else bad = k end
  end
  return bad
end
--- Cholesky's triangle, and the order of the first leading minor that is not positive definite
--- (i32; 0: none; otherwise the triangle is NaN). It reads values, so it evaluates.
--- check_errors: raises as linalg.cholesky does.
def("linalg.cholesky_ex(x: T, upper = false, check_errors = false) -> L: T, info: T @neutral",
function(x, upper, check_errors)
  local lead, count, n = part.need_square("cholesky_ex", "x", x)
  local like = { dtype = "i32", device = x.device }
  local l = check_errors and flame.cholesky(x, { upper = upper }) or factored(x, upper)
  if l then return l, flame.zeros(lead, like) end
  local found, each = {}, x:detach():reshape(count, n, n)
  for i = 1, count do found[i] = minor_of(each:select(1, i), upper) end
  local info = flame.tensor(found, like):reshape(lead)
  local fine = info:eq(0):unsqueeze(-1):unsqueeze(-1)
  l = flame.cholesky(flame.where(fine, x, flame.eye(n, { dtype = x.dtype, device = x.device })),
    { upper = upper })
  return flame.where(fine, l, 0 / 0), info
end)

-- ---- symmetric indefinite matrices --------------------------------------------------------------
--- Exchanges rows and columns 'from' and 'to' of the lower half of the symmetric a; if from > k (a
--- block of two rows, k and from), in column k as well.
local function exchange(a, n, k, from, to)
  for i = to + 1, n do a[i][from], a[i][to] = a[i][to], a[i][from] end
  for j = from + 1, to - 1 do a[j][from], a[to][j] = a[to][j], a[j][from] end
  a[from][from], a[to][to] = a[to][to], a[from][from]
  if from > k then a[from][k], a[to][k] = a[to][k], a[from][k] end
end
--- Eliminates the diagonal block of rows k to 'from' (one or two) from the rows below it, and
--- stores the multipliers in the block's columns.
local function eliminate(a, n, k, from)
  local two, update = from > k, {}
  local d, off, e = a[k][k], two and a[from][k] or 0, two and a[from][from] or 1
  local det = d * e - off * off
  if det == 0 then return end
  for j = from + 1, n do
    local u, v = a[j][k], two and a[j][from] or 0
    update[j] = { (u * e - v * off) / det, two and (v * d - u * off) / det or 0 }
  end
  for j = from + 1, n do
    for i = j, n do
      a[i][j] = a[i][j] - a[i][k] * update[j][1] - (two and a[i][from] * update[j][2] or 0)
    end
  end
  for j = from + 1, n do
    a[j][k] = update[j][1]
    if two then a[j][from] = update[j][2] end
  end
end
--- Bunch and Kaufman's factorisation of one symmetric matrix in place, as LAPACK's sytf2. a is a
--- list of rows, of which the lower half is read. Returns the pivots, and the first position where
--- D is singular (0: nowhere).
local function bunch_kaufman(a, n)
  local alpha <const>, pivots, info, k = (1 + math.sqrt(17)) / 8, {}, 0, 1
  local function at(i, j) return math.abs(i >= j and a[i][j] or a[j][i]) end
  --- The row and the size of the largest element in column j among the rows from 'first' on,
  --- without row j.
  local function largest(j, first)
    local best, size = j, 0
    for i = first, n do if i ~= j and at(i, j) > size then best, size = i, at(i, j) end end
    return best, size
  end
  while k <= n do
    local low, size = largest(k, k)
    local to, two = k, false
    if at(k, k) == 0 and size == 0 then
      info = info == 0 and k or info
    elseif at(k, k) < alpha * size then
      local _, row = largest(low, k)
      if at(k, k) < alpha * size * (size / row) then to, two = low, at(low, low) < alpha * row end
    end
    local from = two and k + 1 or k
    if to ~= from then exchange(a, n, k, from, to) end
    eliminate(a, n, k, from)
    pivots[k] = two and -to or to
    if two then pivots[from] = -to end
    k = from + 1
  end
  return pivots, info
end
--- The factors of x = L D L' in one matrix (L below the blocks of D), the pivots (i32, from 1;
--- negative in pairs where a block of D has two rows), and the first position where D is singular.
--- It reads values, and has no gradient: backward raises.
local function ldl(op, x)
  part.need_square(op, "x", x)
  local n, lead = x.shape[x.ndim], x.shape
  lead[#lead] = nil
  local alone = table.move(lead, 1, #lead - 1, 1, {})
  if x:numel() == 0 then
    return x:clone(), flame.zeros(lead, { dtype = "i32", device = x.device }),
      flame.zeros(alone, { dtype = "i32", device = x.device })
  end
  local list, pivots, info = x:detach():double():reshape(-1, n, n):tril():totable(), {}, {}
  for b, a in ipairs(list) do pivots[b], info[b] = bunch_kaufman(a, n) end
  local function made(values, dtype, shape)
    return flame.tensor(values, { dtype = dtype, device = x.device }):reshape(shape)
  end
  return func.opaque(op, made(list, "f64", x.shape):to(x.dtype), x), made(pivots, "i32", lead),
    made(info, "i32", alone)
end
--- x = L D L' for symmetric matrices, packed as LAPACK does it; only the lower half of x is read.
def("linalg.ldl_factor(x: T, *, hermitian = false) -> LD: T, pivots: T", function(x)
  local ld, pivots, info = ldl("ldl_factor", x)
  if info:ne(0):any():item() then fail("ldl_factor", "D is singular: ldl_factor_ex says where") end
  return ld, pivots
end)
--- ldl_factor's result, and where D has its first 0 (i32; 0: nowhere).
def([[linalg.ldl_factor_ex(x: T, *, hermitian = false,
    check_errors = false) -> LD: T, pivots: T, info: T]], function(x, _, check_errors)
  local ld, pivots, info = ldl("ldl_factor_ex", x)
  if check_errors and info:ne(0):any():item() then
    fail("ldl_factor_ex", "D is singular: without check_errors the third result says where")
  end
  return ld, pivots, info
end)
--- D and L as lists of rows, and the order of the rows, from a packed matrix and its pivots.
local function unpacked(a, p, n)
  local d, unit, now, i = {}, {}, {}, 1
  for j = 1, n do
    d[j], unit[j], now[j] = {}, table.move(a[j], 1, n, 1, {}), j
    for k = 1, n do d[j][k] = 0 end
  end
  while i <= n do                                        -- L's rows follow the later exchanges
    local two = p[i] < 0
    local from, to = two and i + 1 or i, math.abs(p[i])
    if from > n or to < from or to > n or two and p[from] ~= p[i] then
      fail("ldl_solve", "pivot %d at position %d: need the pivots of ldl_factor", p[i], i)
    end
    d[i][i], d[from][from] = a[i][i], a[from][from]
    if two then d[from][i], d[i][from], unit[from][i] = a[from][i], a[from][i], 0 end
    now[from], now[to] = now[to], now[from]
    for j = 1, i - 1 do unit[from][j], unit[to][j] = unit[to][j], unit[from][j] end
    i = from + 1
  end
  return d, unit, now
end
--- The solution of a x = b from ldl_factor's result for a. Waits for LD's values; no gradient:
--- backward raises.
def("linalg.ldl_solve(LD: T, pivots: T, B: T, *, hermitian = false) -> T", function(ld, pivots, b)
  local op = "ldl_solve"
  part.need_square(op, "LD", ld)
  arguments.need_integers(op, "pivots", pivots)
  local n = ld.shape[ld.ndim]
  if b.ndim < 2 or b.shape[b.ndim - 1] ~= n
      or rawget(pivots.shape, pivots.ndim) ~= n or
    pivots:numel() * n ~= ld:numel() then
    fail(op, "LD has shape %s, B %s and pivots %s: need (…, n, n), (…, n, k) and (…, n)",
      shape_text(ld), shape_text(b),
      shape_text(pivots))
  end
  if b:numel() == 0 then return b:clone() end
  local d, unit, order = {}, {}, {}
  for k, a in ipairs(ld:detach():double():reshape(-1, n, n):totable()) do
    d[k], unit[k], order[k] = unpacked(a, pivots:reshape(-1, n)[k]:totable(), n)
  end
  local function made(v, dtype, shape)
    return flame.tensor(v, { dtype = dtype or "f64", device = b.device }):reshape(shape or ld.shape)
  end
  local l, rows = made(unit), made(order, "i64", pivots.shape):unsqueeze(-1)
  local shape = flame.broadcast_shapes(table.move(ld.shape, 1, ld.ndim - 2, 1, {}),
    table.move(b.shape, 1, b.ndim - 2, 1, {}))
  local full = table.move({ n, b.shape[b.ndim] }, 1, 2, #shape + 1, shape)
  rows = rows:expand(full)
  local y = linalg.solve_triangular(l, b:detach():double():expand(full):gather(-2, rows),
    { upper = false, unitriangular = true })
  y = linalg.solve_triangular(l.mT, linalg.solve(made(d), y),
    { upper = true, unitriangular = true })
  return func.opaque(op,
    flame.zeros(full, { dtype = "f64", device = b.device }):scatter(-2, rows, y):to(b.dtype), ld, b)
end)

-- ---- low rank -----------------------------------------------------------------------------------
--- Approximations of the largest q singular values of x - M and of their vectors (Halko, Martinsson
--- and Tropp 2009): U (…, m, q), S and V (…, n, q). Singular values that decrease slowly need a
--- larger niter.
def("svd_lowrank(x: T, q: int = 6, niter: int = 2, M?: T|num) -> U: T, S: T, V: T @neutral",
function(x, q, niter, M)
  part.need_matrix("svd_lowrank", "x", x)
  local a = M and x - M or x
  local shape = a.shape
  q = math.min(q, shape[#shape], shape[#shape - 1])
  if q < 0 or niter < 0 or niter > 100 then
    fail("svd_lowrank", "q = %d and niter = %d, need 0 or more, niter up to 100", q, niter)
  end
  shape[#shape - 1], shape[#shape] = shape[#shape], q
  local basis = linalg.qr(a:matmul(flame.randn(shape, { dtype = a.dtype, device = a.device })))
  for _ = 1, niter do basis = linalg.qr(a:matmul((linalg.qr(a.mT:matmul(basis))))) end
  local u, s, vh = linalg.svd(basis.mT:matmul(a), { full_matrices = false })
  return basis:matmul(u), s, vh.mT:clone()
end)
--- The q principal components of the rows of x: svd_lowrank of x minus the mean of its rows. q is
--- at most the number of rows and of columns.
def("pca_lowrank(x: T, q: int = 6, center = true, niter: int = 2) -> U: T, S: T, V: T @neutral",
  function(x, q, center, niter)
    part.need_matrix("pca_lowrank", "x", x)
    return flame.svd_lowrank(center and x - x:mean(-2, { keepdim = true }) or x, q, niter)
  end)
