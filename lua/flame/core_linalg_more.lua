--- Factorisations in the form that LAPACK keeps them: LU packed in one matrix with pivots, and the
-- orthogonal matrix of a list of reflections. Compositions: gradients come of themselves.
local flame, _, internal = ...
local fail, need_tensor = internal.failf, internal.need_tensor
local under, linalg, part = internal.under_linalg, flame.linalg, internal.linalg_parts
local shape_text = part.shape_text

--- The row swaps, one after the other, that bring the rows of each matrix into the order 'rows'.
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
--- And the way back: the order of rows behind the swaps of 'pivots', a list a matrix.
local function swapped_rows(pivots, count)
  local shape, out = pivots.shape, {}
  for b, swaps in ipairs(pivots:reshape(-1, shape[#shape]):totable()) do
    local now = {}
    for i = 1, count do now[i] = i end
    for i, j in ipairs(swaps) do now[i], now[j] = now[j], now[i] end
    out[b] = now
  end
  return out
end
local function rows_of(pivots, count)
  local shape = pivots.shape
  shape[#shape] = count
  return flame.tensor(swapped_rows(pivots, count), { dtype = "i64", device = pivots.device }):reshape(shape)
end

--- L (below the diagonal, its ones left out) and U in one matrix, and the pivots (i32, from 1): row i was swapped
--- with row pivots[i].
---@param x flame.Tensor  (…, m, n)
---@param o table?  {pivot = true}
---@return flame.Tensor, flame.Tensor
under("lu_factor", 2, function(x, o)
  internal.need_pivot("lu_factor", o)
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
--- Where the diagonal of U has its first 0, which divides in solutions; 0: nowhere. i32.
local function info_of(lu)
  local zero = lu:diagonal(0, -2, -1):eq(0)
  local batch = table.move(lu.shape, 1, lu.ndim - 2, 1, {})
  if zero:numel() == 0 then return flame.zeros(batch, { dtype = "i32", device = lu.device }) end
  return flame.where(zero:any(-1), zero:long():argmax(-1), 0):int()
end
--- lu_factor's result, and where the diagonal of U has its first 0 (i32; 0: nowhere).
---@param x flame.Tensor  (…, m, n)
---@param o table?  {pivot = true}
---@return flame.Tensor, flame.Tensor, flame.Tensor
under("lu_factor_ex", 2, function(x, o)
  local lu, pivots = linalg.lu_factor(x, o)
  return lu, pivots, info_of(lu:detach())
end)
--- linalg.lu_factor as torch.lu has it; get_infos: as lu_factor_ex.
---@param x flame.Tensor  (…, m, n)
---@param ... any  pivot = true, get_infos = false, or a table of them
---@return flame.Tensor, flame.Tensor
internal.def("lu", 3, function(x, ...)
  local o = internal.defaults("lu", { "pivot", "get_infos" }, { pivot = true, get_infos = false }, ...)
  internal.need_pivot("lu", { pivot = o.pivot })
  if o.get_infos then return linalg.lu_factor_ex(x) end
  return linalg.lu_factor(x)
end)
--- The solution of a x = b (or x a = b with left = false; adjoint: of a transposed) from lu_factor's result.
---@param lu flame.Tensor  (…, n, n)
---@param pivots flame.Tensor  (…, n)
---@param b flame.Tensor  (…, n, k)
---@param o? table  {left = true, adjoint = false}
under("lu_solve", 4, function(lu, pivots, b, o)
  local op = "lu_solve"
  o = internal.options(op, o, { left = true, adjoint = false })
  need_tensor(op, "lu", lu)
  need_tensor(op, "pivots", pivots)
  need_tensor(op, "b", b)
  local n = lu.ndim >= 2 and lu.shape[lu.ndim]
  local at = lu.shape
  at[#at] = nil
  if not n or lu.shape[lu.ndim - 1] ~= n or shape_text(pivots) ~= "(" .. table.concat(at, ", ") .. ")" or b.ndim < 2
    or b.shape[o.left and b.ndim - 1 or b.ndim] ~= n then
    fail(op, "lu has shape %s, pivots %s and b %s, need (…, n, n), (…, n) and (…, n, k)", shape_text(lu), shape_text(pivots), shape_text(b))
  end
  if lu:numel() == 0 or b:numel() == 0 then return b:clone() end
  if o.adjoint then                                                             -- a' x = b is x' a = b'
    return part.turned(linalg.lu_solve(lu, pivots, part.turned(b), { left = not o.left })):clone()
  end
  local all = flame.arange(1, n, { dtype = "i64", device = lu.device })
  local p = rows_of(pivots, n):unsqueeze(-1):eq(all):to(lu.dtype)                 -- P' b: row i is row rows[i] of b
  local left = o.left
  if not left then
    local y = linalg.solve_triangular(lu:triu(), b, { upper = true, left = false })
    return linalg.solve_triangular(lu:tril(), y, { upper = false, left = false, unitriangular = true }):matmul(p)
  end
  local y = linalg.solve_triangular(lu:tril(), p:matmul(b), { upper = false, unitriangular = true })
  return linalg.solve_triangular(lu:triu(), y, { upper = true })
end)
--- torch.lu_solve: the right side first.
internal.def("lu_solve", 3, function(b, lu, pivots) return linalg.lu_solve(lu, pivots, b) end, "module")

--- P, L and U of lu_factor's result.
---@param lu flame.Tensor  (…, m, n)
---@param pivots flame.Tensor  (…, k)
---@return flame.Tensor, flame.Tensor, flame.Tensor
internal.def("lu_unpack", 2, function(lu, pivots)
  need_tensor("lu_unpack", "lu", lu)
  need_tensor("lu_unpack", "pivots", pivots)
  if lu.ndim < 2 then fail("lu_unpack", "lu has %d axes, need 2 or more", lu.ndim) end
  local m, n = lu.shape[lu.ndim - 1], lu.shape[lu.ndim]
  local k = math.min(m, n)
  local like = { dtype = lu.dtype, device = lu.device }
  local l, u = lu:narrow(-1, 1, k), lu:narrow(-2, 1, k)
  local all = flame.arange(1, m, { dtype = "i64", device = lu.device }):reshape(m, 1)
  return rows_of(pivots, m):unsqueeze(-2):eq(all):to(lu.dtype), l:tril(-1) + flame.eye(m, k, like), u:triu()
end, "module")

--- The first n columns of the product of the reflections 1 - tau[i] v[i] v[i]', with v[i] the i-th column of x below
--- the diagonal, and 1 on it: the Q of a QR factorisation as LAPACK leaves it.
---@param x flame.Tensor  (…, m, n)
---@param tau flame.Tensor  (…, k), k <= n
under("householder_product", 2, function(x, tau)
  local op = "householder_product"
  need_tensor(op, "x", x)
  need_tensor(op, "tau", tau)
  local m, n, k = x.shape[x.ndim - 1], x.shape[x.ndim], tau.shape[tau.ndim]
  if x.ndim < 2 or n > m or tau.ndim ~= x.ndim - 1 or k > n then
    fail(op, "x has shape %s and tau %s, need (…, m, n), n <= m, and (…, k), k <= n", shape_text(x), shape_text(tau))
  end
  local one = flame.eye(m, n, { dtype = x.dtype, device = x.device })
  local q, v = one:expand(x.shape), x:tril(-1) + one
  for i = k, 1, -1 do
    local column = v:narrow(-1, i, 1)
    q = q - tau:narrow(-1, i, 1):unsqueeze(-1) * column:matmul(column:transpose(-2, -1):matmul(q))
  end
  return k == 0 and q:clone() or q
end)
flame.orgqr = linalg.householder_product
