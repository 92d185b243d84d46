--- Multilinear forms by lists of terms: r[i] = sum of c x[a] y[b] … over the terms of i, one sum for
-- each component of the result, in few kernels.
--
-- A form is { name =, order = { "x", "y", … }, size = { role = components }, shared = { role =
-- true }, terms = { { c =, role = component, … } } }; c is 1 or -1; "r", the result, and the names
-- of the operands are its roles. The derivative by an operand is the same list of terms with that
-- operand and the result in each other's place: so one function computes form and gradients, and
-- gradients have gradients.
--
-- The sums are written out. Terms of a component that have the last operand's component in common
-- are summed before they are multiplied by it: of the weighted product of Cl(2,0), r[1] is
-- (x[1] y[1]) p[1] + (x[2] y[2] + x[3] y[3]) p[5] - (x[4] y[4]) p[9]. The planner computes all
-- components in one kernel that reads each operand once and writes each sum where it belongs in
-- the result.
--
-- Operands are (components, …, features). A shared one (weights) is (components, features): it has
-- no axes in between, and a derivative by it is summed over them. In memory results lie as they
-- are written; with inside = true their components lie before the features, for a matrix product
-- over both.
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

--- The others of a role, the one that terms are collected by last: a shared one, of three any.
local function others_of(form, role)
  local shared, others = form.shared or {}, {}
  for _, q in ipairs(form.order) do if q ~= role then others[#others + 1] = q end end
  if role ~= "r" then others[#others + 1] = "r" end
  local factors, last = {}, nil
  for _, q in ipairs(others) do if shared[q] then last = q end end
  last = last or (#others > 2 and others[#others]) or nil
  for _, q in ipairs(others) do if q ~= last then factors[#factors + 1] = q end end
  return others, factors, last
end

--- By component of a role: lists of { at = component of 'last', terms = those that have it },
--- terms of coefficient 1 before those of -1, in both lists.
local function sums_of(form, role, last)
  local sums, groups = {}, {}
  for i = 1, form.size[role] do sums[i], groups[i] = {}, {} end
  for _, c in ipairs { 1, -1 } do
    for _, t in ipairs(form.terms) do
      local sum, known, key = sums[t[role]], groups[t[role]], last and t[last] or t
      if t.c == c then
        if not known[key] then
          known[key] = { at = last and t[last], terms = {} }
          sum[#sum + 1] = known[key]
        end
        table.insert(known[key].terms, t)
      end
    end
  end
  return sums
end

local work = { f16 = "f32", bf16 = "f32" }        -- half types are computed in f32 and rounded once

--- What the sums of a role need.
local function plan_of(form, role)
  local others, factors, last = others_of(form, role)
  return { others = others, factors = factors, last = last, shared = form.shared or {},
    batch = form.shared and form.shared[role], inside = form.inside,
    sums = sums_of(form, role, last) }
end

--- a + c b; a may be nil.
local function added(a, b, c)
  if not a then return c == 1 and b or -b end
  return c == 1 and a + b or a - b
end

--- The sum of the terms of one group, and the sign that it is to be multiplied by.
local function factored(group, factors, parts)
  local sign, total = group.terms[1].c, nil
  for _, t in ipairs(group.terms) do
    local y
    for _, q in ipairs(factors) do
      local x = parts[q][t[q]]
      y = y and y * x or x
    end
    total = added(total, y, t.c * sign)
  end
  return total, sign
end

--- One component of the result.
local function component(sum, plan, parts)
  local total
  for _, group in ipairs(sum) do
    local y, sign = factored(group, plan.factors, parts)
    if plan.last then y = y * parts[plan.last][group.at] end
    total = added(total, y, sign)
  end
  return total
end

--- The components of the operands along axis d, by role: made where they are asked for.
local function parts_of(plan, xs, rank, d)
  local parts = {}
  for i, q in ipairs(plan.others) do
    local x = xs[i]:to(work[xs[i].dtype] or xs[i].dtype)
    for _ = 3, plan.shared[q] and rank or 2 do x = x:unsqueeze(2) end
    x = x:movedim(1, d)
    parts[q] = setmetatable({}, { __index = function(list, k)
      list[k] = x:narrow(d, k, 1)
      return list[k]
    end })
  end
  return parts
end

--- The result of a plan's role from the operands, in the order of its others.
local function run(plan, xs)
  local rank, dtype, between, list = 0, xs[1].dtype, {}, {}
  for _, x in ipairs(xs) do rank = math.max(rank, x.ndim) end
  for k = 2, rank - 1 do between[k - 1] = k end
  local d = plan.inside and rank - 1 or 1
  local parts = parts_of(plan, xs, rank, d)
  for i, sum in ipairs(plan.sums) do
    local y = component(sum, plan, parts)
    if y and plan.batch and #between > 0 then y = y:sum(between) end
    list[i] = y and y:to(dtype)
  end
  local _, some = next(list)
  for i = 1, #plan.sums do list[i] = list[i] or flame.zeros_like(some) end
  return flame.cat(list, d):movedim(d, 1)
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
