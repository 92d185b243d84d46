--- Multilinear forms by lists of terms: r[i] = sum of c x[a] y[b] … over the terms of i, as one kernel with
-- gathers instead of a kernel for each component.
--
-- A form is { name =, size = { role = components }, shared = { role = true }, terms = { { c =, role = component, … } } };
-- 'r' and the names of its operands are its roles. The derivative by an operand is the same list of terms
-- with that operand and the result in each other's place: so one function computes form and gradients,
-- and gradients have gradients.
--
-- Operands are (components, …, features). A shared one (weights) is (components, features): it has no
-- axes in between, and a derivative by it is summed over them. In memory results lie as they are written; with
-- inside = true their components lie before the features, for a matrix product over both.
local flame = require "flame"

--- The terms of one role as rows of equal length, a row for each of its components: T terms a row, the coefficients (row-major),
--- and for each other role its components. Rows that are shorter repeat a term of theirs with the coefficient 0.
local function rows_of(form, role, others)
  local rows, longest = {}, 1
  for i = 1, form.size[role] do rows[i] = {} end
  for _, t in ipairs(form.terms) do table.insert(rows[t[role]], t) end
  for _, row in ipairs(rows) do
    table.sort(row, function(a, b)
      for _, q in ipairs(others) do if a[q] ~= b[q] then return a[q] < b[q] end end
      return false
    end)
    longest = math.max(longest, #row)
  end
  local out = { n = longest, c = {}, at = {}, padded = false }
  for _, q in ipairs(others) do out.at[q] = {} end
  for _, row in ipairs(rows) do
    for k = 1, longest do
      local t = row[k] or row[#row] or {}
      out.padded = out.padded or not row[k]
      out.c[#out.c + 1] = row[k] and t.c or 0
      for _, q in ipairs(others) do table.insert(out.at[q], t[q] or 1) end
    end
  end
  return out
end

--- Are the components of each row 1, 2, … size? Then they need no gather.
local function in_order(at, n, size)
  for k, i in ipairs(at) do if i ~= (k - 1) % n + 1 then return false end end
  return n == size
end

local function all_ones(list)
  for _, c in ipairs(list) do if c ~= 1 then return false end end
  return true
end

local constants = setmetatable({}, { __mode = "k" })    -- list -> device and dtype -> tensor
--- A list of numbers as a tensor, made once for each device and dtype.
local function constant(list, shape, dtype, device)
  local made = constants[list] or {}
  constants[list] = made
  local key = dtype .. device
  made[key] = made[key] or flame.internal.hold(flame.tensor(list, { dtype = dtype, device = device }):reshape(shape))
  return made[key]
end

--- Axis d of x, its components, as two axes: the components 'at', by rows and terms. The rows are 1 where all are alike.
local function picked(x, d, at, m, n)
  if in_order(at, n, x:size(d)) then return x:unsqueeze(d) end
  return x:index_select(d, constant(at, { m * n }, "i64", x.device)):unflatten(d, { m, n })
end

--- x (a, b) with k axes of size 1 between (behind: after) its two.
local function widened(x, k, behind)
  local shape = { x:size(1) }
  for i = 1, k do shape[i + 1] = 1 end
  table.insert(shape, behind and 2 or #shape + 1, x:size(2))
  return x:reshape(shape)
end

local work = { f16 = "f32", bf16 = "f32" }               -- half types are computed in f32 and rounded once

--- The result of a role from the operands of the others, in the order of 'others'.
local function run(form, role, others, rows, xs)
  local shared, rank, y = form.shared or {}, 0, nil
  local n, m, dtype = rows.n, form.size[role], xs[1].dtype
  for _, x in ipairs(xs) do rank = math.max(rank, x.ndim) end
  local d = form.inside and rank - 1 or 1
  for i, q in ipairs(others) do
    local x = xs[i]
    if shared[q] then x = widened(x, rank - 2) end
    x = picked(x:movedim(1, d), d, rows.at[q], m, n):to(work[dtype] or dtype)
    y = y and y * x or x
  end
  if not all_ones(rows.c) then
    local c = widened(constant(rows.c, { m, n }, y.dtype, y.device), rank - d, true)
    y = y * c
    if rows.padded then y = flame.where(c:eq(0), 0, y) end
  end
  local sums = { d + 1 }
  if shared[role] then for k = 3, rank do sums[#sums + 1] = k end end
  y = (n == 1 and #sums == 1 and y:squeeze(d + 1) or y:sum(sums)):to(dtype)
  return y:movedim(d, 1)
end

local made = setmetatable({}, { __mode = "k" })         -- form -> role -> function

--- The function that computes the component list of a role ("r": the form itself) from the tensors of all other
--- roles, in the order of the form's 'order', "r" last. Tensors of one dtype; shapes agree.
local function contract(form, role)
  made[form] = made[form] or {}
  if made[form][role] then return made[form][role] end
  local others = {}
  for _, q in ipairs(form.order) do if q ~= role then others[#others + 1] = q end end
  if role ~= "r" then others[#others + 1] = "r" end
  local rows = rows_of(form, role, others)
  made[form][role] = flame.func {
    name = form.name,
    forward = function(ctx, ...)
      ctx:save(...)
      return run(form, role, others, rows, { ... })
    end,
    backward = function(ctx, g)
      local given, gradients = { [role] = g }, {}
      for i, x in ipairs { ctx:saved() } do given[others[i]] = x end
      for i, q in ipairs(others) do
        local xs = {}
        for _, p in ipairs(form.order) do if p ~= q then xs[#xs + 1] = given[p] end end
        if q ~= "r" then xs[#xs + 1] = given.r end
        gradients[i] = contract(form, q)(table.unpack(xs))
      end
      return table.unpack(gradients, 1, #others)
    end,
  }
  return made[form][role]
end

return { contract = contract, constant = constant }
