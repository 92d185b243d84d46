--- Multilinear forms by lists of terms: r[i] = sum of c x[a] y[b] … over the terms of i, one sum
-- for each component of the result, in few kernels.
--
-- A form is { name =, order = { "x", "y", … }, size = { role = components }, shared = { role =
-- true }, terms = { { c =, role = component, … } } }; c is 1 or -1; "r", the result, and the names
-- of the operands are its roles. The derivative with respect to an operand has the same list of
-- terms with the operand and the result exchanged: so one function computes form and gradients, and
-- gradients have gradients.
--
-- The sums for all components of a role are one recorded op (src/tensor/form.h). Terms of a
-- component that have the last operand's component in common are summed before they are multiplied
-- by it: of the weighted product of Cl(2,0), r[1] is (x[1] y[1]) p[1] + (x[2] y[2] + x[3] y[3])
-- p[5] - (x[4] y[4]) p[9]. The planner makes one kernel of them, which reads each operand once and
-- stores each component in its place in the result.
--
-- Operands are (components, …, features). A shared one (weights) is (components, features): it has
-- no axes in between, and its derivative is summed over them. Results are in memory in the
-- order of their axes; with inside = true their components come directly before the features, for a
-- matrix product over both.
local flame = require "flame"
local internal = flame.internal

local constants = setmetatable({}, { __mode = "k" })    -- list -> device and dtype -> tensor
-- A list of numbers as a tensor, made once for each device and dtype.
local function constant(list, dtype, device)
  local made = constants[list] or {}
  constants[list] = made
  local key = dtype .. device
  made[key] = made[key]
    or flame.internal.hold(flame.tensor(list, { dtype = dtype, device = device }))
  return made[key]
end

-- The roles (operands, result) other than 'role': all, those that are multiplied first (factors),
-- and the last factor or nil. This is a shared operand, or else the last role if there are three.
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

-- By component of 'role': a list of groups { at = a component of 'last', terms = those with it },
-- for the sum over all terms. Groups and terms of coefficient 1 come before those of -1.
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

-- The sums as a string of 16-bit integers in the format of src/tensor/form.h, with components from
-- 0 (-1: none). A group has the sign of its first term; its terms have signs relative to that.
local function code_of(sums, factors, last)
  local head, body = { #factors, last and 1 or 0, #sums }, {}
  local function put(v) body[#body + 1] = v end
  for k, sum in ipairs(sums) do
    head[3 + k] = 3 + #sums + #body
    put(#sum)
    for _, group in ipairs(sum) do
      local sign = group.terms[1].c
      put(sign)
      put(group.at and group.at - 1 or -1)
      put(#group.terms)
      for _, t in ipairs(group.terms) do
        put(t.c * sign)
        for _, q in ipairs(factors) do put(t[q] and t[q] - 1 or -1) end
      end
    end
  end
  table.move(body, 1, #body, #head + 1, head)
  for i, v in ipairs(head) do head[i] = ("i2"):pack(v) end
  return table.concat(head)
end

local work = { f16 = "f32", bf16 = "f32" }        -- half types are computed in f32 and rounded once
local READS = 80              -- most components of operands that one sum reads in one op
local MOST = 16               -- terms of a sum in one op, if all its terms read more than READS
local WIDEST = 128            -- components per op

-- Does each sum read at most READS components of operands, so that one op can compute it?
local function is_short(sums, others)
  for _, sum in ipairs(sums) do
    local seen, n = {}, 0
    for _, group in ipairs(sum) do
      for _, t in ipairs(group.terms) do
        for _, q in ipairs(others) do
          local key = t[q] and q .. t[q]
          if key and not seen[key] then seen[key], n = true, n + 1 end
        end
      end
    end
    if n > READS then return false end
  end
  return true
end

-- Splits sums if one is too long for an op: their first MOST terms; the rest; is there a rest?
local function split(sums, others)
  local now, later, more = {}, {}, false
  if is_short(sums, others) then return sums, later, more end
  for i, sum in ipairs(sums) do
    local n = 0
    now[i], later[i] = {}, {}
    for _, group in ipairs(sum) do
      n = n + #group.terms
      if #now[i] == 0 or n <= MOST then table.insert(now[i], group)
      else
        table.insert(later[i], group)
        more = true
      end
    end
  end
  return now, later, more
end

-- How to compute a role. codes: per range of WIDEST components a list of strings of code_of, one
-- per op, whose results are added; inputs: the operands of each op, as positions in 'others';
-- batch: the role is shared, so its values are sums over the axes in between.
local function plan_of(form, role)
  local others, factors, last = others_of(form, role)
  local plan = { others = others, inputs = {}, codes = {}, shared = form.shared or {},
    batch = form.shared and form.shared[role], inside = form.inside }
  for i, q in ipairs(others) do
    for k, f in ipairs(factors) do if f == q then plan.inputs[k] = i end end
    if q == last then plan.inputs[#factors + 1] = i end
  end
  local sums = sums_of(form, role, last)
  for first = 1, #sums, WIDEST do
    local some, codes = { table.unpack(sums, first, math.min(first + WIDEST - 1, #sums)) }, {}
    repeat
      local now, later, more = split(some, others)
      codes[#codes + 1] = code_of(now, factors, last)
      some = later
    until not more
    plan.codes[#plan.codes + 1] = codes
  end
  return plan
end

-- Computes the result, or an operand's gradient, by its plan. xs: the tensors of plan.others.
local function run(name, plan, xs)
  local rank, dtype, list = 0, xs[1].dtype, {}
  for _, x in ipairs(xs) do rank = math.max(rank, x.ndim) end
  local d = plan.inside and rank - 1 or 1
  for k, i in ipairs(plan.inputs) do
    local x = xs[i]
    if work[dtype] then x = x:to(work[dtype]) end
    for _ = 3, plan.shared[plan.others[i]] and rank or 2 do x = x:unsqueeze(2) end
    list[k] = d == 1 and x or x:movedim(1, d)
  end
  local ranges = {}
  for k, codes in ipairs(plan.codes) do
    for _, code in ipairs(codes) do
      local y = internal.form(name, d, code, plan.batch, table.unpack(list))
      ranges[k] = ranges[k] and ranges[k] + y or y
    end
  end
  local total = #ranges == 1 and ranges[1] or flame.cat(ranges, plan.batch and 1 or d)
  if work[dtype] then total = total:to(dtype) end
  return d == 1 and total or total:movedim(d, 1)
end

local made = setmetatable({}, { __mode = "k" })         -- form -> role -> function

-- The function that computes a role ("r": the form; else that operand's gradient) from the tensors
-- of the other roles, in the form's 'order', "r" last. Tensors of one dtype; shapes agree.
local function contract(form, role)
  made[form] = made[form] or {}
  if made[form][role] then return made[form][role] end
  local plan = plan_of(form, role)
  made[form][role] = flame.func {
    name = form.name,
    forward = function(ctx, ...)
      ctx:save(...)
      return run(form.name, plan, { ... })
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
