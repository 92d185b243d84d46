--- Multilinear forms by lists of terms: r[i] = sum of c x[a] y[b] … over the terms of i, as one kernel with
-- gathers instead of a kernel for each component.
--
-- A form is { name =, size = { role = components }, shared = { role = true }, terms = { { c =, role = component, … } } };
-- 'r' and the names of its operands are its roles. The derivative by an operand is the same list of terms
-- with that operand and the result in each other's place: so one function computes form and gradients,
-- and gradients have gradients.
--
-- Operands are (components, …, features). A shared one (weights) is (components, features): it has no
-- axes in between, and a derivative by it is summed over them. Inside, components stand before the
-- last axis: the terms of one result then lie close together.
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

--- The components 'at' of x (…, components, features) as (…, rows, terms, features); the rows are 1 where all are alike.
local function picked(x, at, rows, n, size)
  if in_order(at, n, size) then return x:unsqueeze(-3) end
  return x:index_select(-2, constant(at, { rows * n }, "i64", x.device)):unflatten(-2, { rows, n })
end

local work = { f16 = "f32", bf16 = "f32" }               -- half types are computed in f32 and rounded once

--- The result of a role from the operands of the others, in the order of 'others'.
local function run(form, role, others, rows, xs)
  local shared, high, y = form.shared or {}, 2, nil
  local n, m, dtype, device = rows.n, form.size[role], xs[1].dtype, xs[1].device
  for i, q in ipairs(others) do
    local x = shared[q] and xs[i] or xs[i]:movedim(1, -2)
    high = math.max(high, x.ndim)
    x = picked(x, rows.at[q], m, n, form.size[q]):to(work[dtype] or dtype)
    y = y and y * x or x
  end
  if not all_ones(rows.c) then
    local c = constant(rows.c, { m, n, 1 }, y.dtype, device)
    y = y * c
    if rows.padded then y = flame.where(c:eq(0), 0, y) end
  end
  local sums = { -2 }
  if shared[role] then for d = 1, high - 2 do sums[#sums + 1] = d end end
  y = (n == 1 and #sums == 1 and y:squeeze(-2) or y:sum(sums)):to(dtype)
  return shared[role] and y or y:movedim(-2, 1)
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
