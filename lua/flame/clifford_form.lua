--- Multilinear forms by lists of terms: r[i] = sum of c x[a] y[b] … over the terms of i, in a few
-- kernels instead of one for each component.
--
-- A form is { name =, order = { "x", "y", … }, size = { role = components }, shared = { role =
-- true }, terms = { { c =, role = component, … } } }; "r", the result, and the names of the
-- operands are its roles. The derivative by an operand is the same list of terms with that operand
-- and the result in each other's place: so one function computes form and gradients, and gradients
-- have gradients.
--
-- The sum is written out in steps, one term of each component of the result at a time: a component
-- of one operand, and the components of the others that go with it, gathered. The planner makes
-- one kernel of the steps. Of Cl(2,0), with x[1] to x[4] of 1, e1, e2, e12, step 2 of the product
-- is x[2] (y[2], y[1], y[4], y[3]), whose signs are (1, 1, 1, 1).
--
-- Operands are (components, …, features). A shared one (weights) is (components, features): it has
-- no axes in between, and a derivative by it is summed over them, term by term, before terms of
-- one component are. In memory results lie as they are written; with inside = true their
-- components lie before the features, for a matrix product over both.
local flame = require "flame"

local constants = setmetatable({}, { __mode = "k" })    -- list -> device and dtype -> tensor
--- A list of numbers as a tensor, made once for each device and dtype.
local function constant(list, dtype, device)
  local made = constants[list] or {}
  constants[list] = made
  local key = dtype .. device
  made[key] = made[key]
    or flame.internal.hold(flame.tensor(list, { dtype = dtype, device = device }))
  return made[key]
end

--- The terms of each component of a role, and the most that one has.
local function by_component(terms, role, size)
  local rows, longest = {}, 1
  for i = 1, size do rows[i] = {} end
  for _, t in ipairs(terms) do
    local row = rows[t[role]]
    row[#row + 1] = t
    longest = math.max(longest, #row)
  end
  return rows, longest
end

--- The row with each term at the place of its component of a role; nil where two have the same.
local function aligned(row, role)
  local out = {}
  for _, t in ipairs(row) do
    if out[t[role]] then return nil end
    out[t[role]] = t
  end
  return out
end

--- The steps of a sum: lists by component of the result, of coefficients (c) and of the components
--- of others (at). A component that has no term in a step repeats one with the coefficient 0. All
--- terms of a step have the same component of the first of the others where that takes no more
--- steps.
local function steps_of(terms, role, others, sizes)
  local rows, longest = by_component(terms, role, sizes[role])
  if longest == sizes[others[1]] then
    for i, row in ipairs(rows) do rows[i] = aligned(row, others[1]) or row end
  end
  local steps = {}
  for k = 1, longest do
    local step = { c = {}, at = {} }
    for _, q in ipairs(others) do step.at[q] = {} end
    for i, row in ipairs(rows) do
      local t = row[k] or select(2, next(row)) or {}
      step.c[i] = row[k] and t.c or 0
      for _, q in ipairs(others) do step.at[q][i] = t[q] or 1 end
    end
    steps[k] = step
  end
  return steps
end

--- The components 'at' of x, along its axis d; the axis is 1 where all are the same.
local function picked(x, d, at)
  local same, in_order = true, #at == x:size(d)
  for k, i in ipairs(at) do same, in_order = same and i == at[1], in_order and i == k end
  if in_order then return x end
  if same then return x:narrow(d, at[1], 1) end
  return x:index_select(d, constant(at, "i64", x.device))
end

--- The product of the components of others that 'at' names.
local function product(others, xs, d, at)
  local y
  for i, q in ipairs(others) do
    local x = picked(xs[i], d, at[q])
    y = y and y * x or x
  end
  return y
end

local function all_are(list, value)
  for _, v in ipairs(list) do if v ~= value then return false end end
  return true
end

--- The sum of the steps.
local function sum(steps, others, xs, d)
  local total
  for _, step in ipairs(steps) do
    local y = product(others, xs, d, step.at)
    if all_are(step.c, -1) and total then
      total = total - y
    else
      if not all_are(step.c, 1) then
        local c = constant(step.c, y.dtype, y.device):reshape(#step.c,
          table.unpack({ 1, 1, 1, 1, 1, 1, 1 }, 1, y.ndim - d))
        y = y * c
        for _, v in ipairs(step.c) do if v == 0 then y = flame.where(c:eq(0), 0, y) break end end
      end
      total = total and total + y or y
    end
  end
  return total
end

local work = { f16 = "f32", bf16 = "f32" }        -- half types are computed in f32 and rounded once

--- The lists of terms that the sum of a role needs.
local function plan_of(form, role)
  local others = {}
  for _, q in ipairs(form.order) do if q ~= role then others[#others + 1] = q end end
  if role ~= "r" then others[#others + 1] = "r" end
  local plan = { role = role, others = others, shared = form.shared or {}, inside = form.inside }
  if not plan.shared[role] then
    plan.steps = steps_of(form.terms, role, others, form.size)
    return plan
  end
  local terms = {}                     -- the operand of the second sum: one component for each term
  plan.each = {}
  for _, q in ipairs(others) do plan.each[q] = {} end
  for k, t in ipairs(form.terms) do
    terms[k] = { c = t.c, term = k, [role] = t[role] }
    for _, q in ipairs(others) do plan.each[q][k] = t[q] end
  end
  plan.steps = steps_of(terms, role, { "term" }, { term = #terms, [role] = form.size[role] })
  return plan
end

--- The result of a plan's role from the operands, in the order of its others.
local function run(plan, xs)
  local rank, dtype = 0, xs[1].dtype
  for _, x in ipairs(xs) do rank = math.max(rank, x.ndim) end
  local d = plan.inside and rank - 1 or 1
  for i, q in ipairs(plan.others) do
    local x = xs[i]:to(work[dtype] or dtype)
    for _ = 3, plan.shared[q] and rank or 2 do x = x:unsqueeze(2) end
    xs[i] = x:movedim(1, d)
  end
  if not plan.each then return sum(plan.steps, plan.others, xs, d):to(dtype):movedim(d, 1) end
  local y, between = product(plan.others, xs, d, plan.each), {}
  for k = 2, rank - 1 do between[k - 1] = k end
  return sum(plan.steps, { "term" }, { #between > 0 and y:sum(between) or y }, 1):to(dtype)
end

local made = setmetatable({}, { __mode = "k" })         -- form -> role -> function

--- The function that computes a role ("r": the form itself) from the tensors of all other roles, in
--- the order of the form's 'order', "r" last. Tensors of one dtype; shapes agree.
local function contract(form, role)
  made[form] = made[form] or {}
  if made[form][role] then return made[form][role] end
  local plan = plan_of(form, role)
  made[form][role] = flame.func {
    name = form.name,
    forward = function(ctx, ...)
      ctx:save(...)
      return run(plan, { ... })
    end,
    backward = function(ctx, g)
      local given, gradients = { [role] = g }, {}
      for i, x in ipairs { ctx:saved() } do given[plan.others[i]] = x end
      for i, q in ipairs(plan.others) do
        local xs = {}
        for _, p in ipairs(form.order) do if p ~= q then xs[#xs + 1] = given[p] end end
        if q ~= "r" then xs[#xs + 1] = given.r end
        gradients[i] = contract(form, q)(table.unpack(xs))
      end
      return table.unpack(gradients, 1, #plan.others)
    end,
  }
  return made[form][role]
end

return { contract = contract, constant = constant }
