--- einsum and rearrange.
local arguments = require "flame.base.arguments"
local fail, def, need_int = arguments.fail, arguments.def, arguments.need_int

-- ---- einsum -------------------------------------------------------------------------------------
-- Two tensors at a time are multiplied by one batched matmul, three and more in the order with the
-- fewest multiplications. "..." becomes names of axes: the digits 1 to 8, aligned at the right.
local DIGITS = "12345678"

-- The names of the axes of each tensor of xs and of the result, from the text spec ("ij,jk->ik").
local function parse_einsum(spec, xs)
  local n = #xs
  local bare = tostring(spec):gsub("%s", "")
  local left, right = bare:match("^(.-)%->(.*)$")
  left = left or bare
  local terms, wide, count = {}, 0, {}
  for term in (left .. ","):gmatch("([^,]*),") do terms[#terms + 1] = term end
  if #terms ~= n then fail("einsum", "'%s' names %d tensors, got %d", spec, #terms, n) end
  for i, term in ipairs(terms) do
    local letters, dots = term:gsub("%.%.%.", "")
    if letters:find("%A") or dots > 1 then
      fail("einsum", "'%s' is not like \"ij,jk->ik\"", spec)
    end
    local rest = xs[i].ndim - #letters
    if rest < 0 or (rest > 0 and dots == 0) then
      fail("einsum", "'%s' names %d axes, tensor %d has %d", term, #letters, i, xs[i].ndim)
    end
    if dots == 1 then wide = math.max(wide, rest) end
    terms[i] = term:gsub("%.%.%.", DIGITS:sub(9 - rest))
    for c in letters:gmatch(".") do count[c] = (count[c] or 0) + 1 end
  end
  local digits = DIGITS:sub(9 - wide)
  if not right then
    local once = {}
    for c, k in pairs(count) do if k == 1 then once[#once + 1] = c end end
    table.sort(once)
    return terms, digits .. table.concat(once)
  end
  right = right:gsub("%.%.%.", digits)
  for c in right:gmatch(".") do
    if right:find(c, right:find(c, 1, true) + 1, true) then
      fail("einsum", "'%s' names %s twice behind the arrow", spec, c)
    end
    if not count[c] and not digits:find(c, 1, true) then
      fail("einsum", "'%s': nothing has an axis '%s'", spec, c)
    end
  end
  return terms, right
end

-- Replaces axes of x with the same name (in 'have') by their diagonal; returns x and its names.
local function take_diagonals(x, have)
  for i = 1, #have do
    local j = have:find(have:sub(i, i), i + 1, true)
    if j then
      if x.shape[i] ~= x.shape[j] then
        fail("einsum", "'%s': axes %d and %d differ, %d and %d", have, i, j, x.shape[i], x.shape[j])
      end
      local left = have:sub(1, i - 1) .. have:sub(i + 1, j - 1) .. have:sub(j + 1) .. have:sub(i, i)
      return take_diagonals(x:diagonal(0, i, j), left)
    end
  end
  return x, have
end

-- Name of an axis -> size, checked over all terms; xs with axes of size 1 are expanded to it.
local function expand_dots(xs, terms)
  local sizes = {}
  for i, x in ipairs(xs) do
    for k = 1, #terms[i] do
      local c, n = terms[i]:sub(k, k), x.shape[k]
      if sizes[c] and sizes[c] ~= n and sizes[c] ~= 1 and n ~= 1 then
        fail("einsum", "axis '%s' has %d and %d elements", c, sizes[c], n)
      end
      sizes[c] = (sizes[c] or 1) == 1 and n or sizes[c]
    end
  end
  for i, x in ipairs(xs) do
    local shape, differs = x.shape, false
    for k = 1, #shape do
      local want = sizes[terms[i]:sub(k, k)]
      differs = differs or shape[k] ~= want
      shape[k] = want
    end
    if differs then xs[i] = x:expand(shape) end
  end
  return sizes
end

-- x, which has the axes 'have', with the axes 'want' (missing ones get size 1); the others are
-- summed.
local function arrange(x, have, want)
  local keep, gone, left = {}, {}, ""
  for i = 1, #have do
    local c = have:sub(i, i)
    if want:find(c, 1, true) then left = left .. c else gone[#gone + 1] = i end
  end
  if #gone > 0 then x = x:sum(gone) end
  local order, shape = {}, {}
  for i = 1, #want do
    local at = left:find(want:sub(i, i), 1, true)
    if at then order[#order + 1] = at end
    keep[i] = at or false
  end
  if #order > 0 then x = x:permute(order) end
  local sizes, k = x.shape, 0
  for i = 1, #want do
    if keep[i] then k = k + 1; shape[i] = sizes[k] else shape[i] = 1 end
  end
  return x:reshape(shape)
end
-- The product of sizes[first] … sizes[last].
local function product_of(sizes, first, last)
  local p = 1
  for i = first, last do p = p * sizes[i] end
  return p
end
-- The product of a and b, whose axes are ta and tb, by one matmul; returns its axes too. want: the
-- axes that are needed afterwards; others are summed.
local function einsum_pair(a, ta, b, tb, want)
  local batch, m, n, k = "", "", "", ""
  for c in ta:gmatch(".") do
    local in_b, out = tb:find(c, 1, true), want:find(c, 1, true)
    if in_b and out then
      batch = batch .. c
    elseif in_b then
      k = k .. c
    elseif out then
      m = m .. c
    end
  end
  for c in tb:gmatch(".") do
    if not ta:find(c, 1, true) and want:find(c, 1, true) then n = n .. c end
  end
  local x, y = arrange(a, ta, batch .. m .. k), arrange(b, tb, batch .. k .. n)
  local xs, ys, shape = x.shape, y.shape, {}
  local nb, nm, nk = #batch, #m, #k
  for i = 1, nb + nm do shape[i] = xs[i] end
  for i = 1, #n do shape[nb + nm + i] = ys[nb + nk + i] end
  local rows, inner = product_of(xs, nb + 1, nb + nm), product_of(xs, nb + nm + 1, #xs)
  local z = x:reshape(product_of(xs, 1, nb), rows,
    inner):matmul(y:reshape(product_of(ys, 1, nb), inner,
    product_of(ys, nb + nk + 1, #ys)))
  return z:reshape(shape), batch .. m .. n
end

-- Sets of names and of tensors are bits of integers. A plan is a tensor's number, or a product of
-- two plans: {plan, plan, want = the names of axes that are needed outside of it}.
-- Up to EXACT tensors every order is tried, which costs 3^n splits of sets for n tensors.
local EXACT = 8

-- Terms and result as sets of names, and a function: set of names -> product of their sizes.
local function einsum_sets(terms, right, sizes)
  local bit, size, count, sets = {}, {}, 0, {}
  for c, n in pairs(sizes) do
    bit[c], size[1 << count] = 1 << count, n
    count = count + 1
  end
  local function set_of(text)
    local s = 0
    for c in text:gmatch(".") do s = s | (bit[c] or 0) end
    return s
  end
  for i, term in ipairs(terms) do sets[i] = set_of(term) end
  local known = {}
  local function products(s)
    if known[s] then return known[s] end
    local p, rest = 1.0, s
    while rest ~= 0 do
      local one = rest & -rest
      p, rest = p * size[one], rest & ~one
    end
    known[s] = p
    return p
  end
  return sets, set_of(right), products
end

-- The cheapest order of all: the best split of each set of tensors, from small sets to large ones.
-- Of equally cheap ones, the order that takes the last tensor last, as written.
local function best_order(sets, right, products)
  local n, cost, split, names = #sets, {}, {}, {}
  local all = (1 << n) - 1
  local function union(s)
    local u = 0
    for i = 1, n do if s & (1 << (i - 1)) ~= 0 then u = u | sets[i] end end
    return u
  end
  for s = 1, all do
    names[s] = union(s) & (right | union(all & ~s))
    local rest, last = s & (s - 1), 1                     -- without the first tensor; the last one
    while last * 2 <= s do last = last * 2 end
    cost[s] = rest == 0 and 0.0 or math.huge
    local function try(b)
      local a = s & ~b
      local c = cost[a] + cost[b] + products(names[a] | names[b])
      if c < cost[s] or not split[s] then cost[s], split[s] = c, a end
    end
    if rest ~= 0 then try(last) end
    local b = rest
    while b ~= 0 do
      try(b)
      b = (b - 1) & rest
    end
  end
  return split, all
end

-- An order for many tensors: multiplies the pair with the fewest multiplications next.
local function greedy_order(sets, right, products)
  local split, list = {}, {}
  for i, names in ipairs(sets) do list[i] = { set = 1 << (i - 1), names = names } end
  local function outside(i, j)
    local u = right
    for k, v in ipairs(list) do if k ~= i and k ~= j then u = u | v.names end end
    return u
  end
  while #list > 1 do
    local best, p, q = math.huge, 1, 2
    for i = 1, #list do
      for j = i + 1, #list do
        local c = products(list[i].names | list[j].names)
        if c < best then best, p, q = c, i, j end
      end
    end
    local a, b = list[p], list[q]
    local names = (a.names | b.names) & outside(p, q)
    list[p] = { set = a.set | b.set, names = names }
    split[a.set | b.set] = a.set
    table.remove(list, q)
  end
  return split, list[1].set
end

-- The plan for these terms and sizes.
local function einsum_plan(terms, right, sizes)
  local sets, out, products = einsum_sets(terms, right, sizes)
  local split, all = (#terms <= EXACT and best_order or greedy_order)(sets, out, products)
  local function node(s)
    local number, others = 0, {}
    for i, term in ipairs(terms) do
      if s == 1 << (i - 1) then number = i end
      if s & (1 << (i - 1)) == 0 then others[#others + 1] = term end
    end
    if number > 0 then return number end
    return { node(split[s]), node(s & ~split[s]), want = right .. table.concat(others) }
  end
  return node(all)
end

-- The product of the tensors of a plan, and the names of its axes.
local function einsum_run(plan, xs, terms)
  if type(plan) == "number" then return xs[plan], terms[plan] end
  local a, ta = einsum_run(plan[1], xs, terms)
  local b, tb = einsum_run(plan[2], xs, terms)
  return einsum_pair(a, ta, b, tb, plan.want)
end

local einsum_plans, einsum_count = {}, 0
-- The plan for spec and the sizes, from a cache if there are three tensors or more.
local function einsum_plan_for(spec, xs, terms, right, sizes)
  if #xs < 3 then return #xs == 1 and 1 or { 1, 2, want = right } end
  local key = { tostring(spec) }
  for i, x in ipairs(xs) do key[i + 1] = table.concat(x.shape, ",") end
  key = table.concat(key, ";")
  if not einsum_plans[key] then
    if einsum_count >= 256 then einsum_plans, einsum_count = {}, 0 end
    einsum_plans[key], einsum_count = einsum_plan(terms, right, sizes), einsum_count + 1
  end
  return einsum_plans[key]
end

--- Einstein summation: "ij,jk->ik" names the axes by letters; "..." is for any further axes, which
--- broadcast. Letters that are not on the right are summed. Without an arrow the result has "..."
--- and, in alphabetical order, the letters that occur once.
def(".einsum(spec: str, operands...: T) -> T @half", function(spec, ...)
  local xs = { ... }
  if #xs > 62 then fail("einsum", "%d tensors, at most 62", #xs) end
  local terms, right = parse_einsum(spec, xs)
  for i = 1, #xs do xs[i], terms[i] = take_diagonals(xs[i], terms[i]) end
  local sizes = expand_dots(xs, terms)
  local x, t = einsum_run(einsum_plan_for(spec, xs, terms, right, sizes), xs, terms)
  return arrange(x, t, right):clone()
end)

-- ---- rearrange ----------------------------------------------------------------------------------
--- Parses one side, as "b (h d) t 1": groups, each a list of names (1: an empty one); the names in
--- order; their set.
local function parse_side(text, whole)
  local groups, names, seen, at, open = {}, {}, {}, 1, nil
  while at <= #text do
    local token, after = text:match("^%s*([%a_][%w_]*)()", at)
    local mark, behind = text:match("^%s*([()1])()", at)
    if token then
      if seen[token] then fail("rearrange", "'%s' names %s twice", whole, token) end
      seen[token] = true
      names[#names + 1] = token
      if open then open[#open + 1] = token else groups[#groups + 1] = { token } end
    elseif mark == "(" and not open then
      open = {}
    elseif mark == ")" and open then
      groups[#groups + 1], open = open, nil
    elseif mark == "1" and not open then
      groups[#groups + 1] = {}
    elseif text:match("^%s*$", at) then
      break
    else
      fail("rearrange", "'%s' is not like \"b (h d) t -> b h t d\"", whole)
    end
    at = after or behind
  end
  if open then fail("rearrange", "'%s': '(' without ')'", whole) end
  return groups, names, seen
end

-- Replaces '...' on both sides by names for its axes; rank: the number of axes of the tensor.
local function without_dots(left, right, spec, rank)
  local plain, n = left:gsub("%.%.%.", " ")
  local _, again = right:gsub("%.%.%.", " ")
  if n ~= again or n > 1 then
    fail("rearrange", "'%s': '...' stands once on both sides, or on none", spec)
  end
  if n == 0 then return left, right end
  local names = {}
  for k = 1, rank - #parse_side(plain, spec) do names[k] = "_axis" .. k end
  names = " " .. table.concat(names, " ") .. " "
  return left:gsub("%.%.%.", names), right:gsub("%.%.%.", names)
end

-- Name of an axis -> size, from x's shape and from the sizes that the script gave.
local function name_sizes(spec, groups, shape, given)
  local size = {}
  for k, v in pairs(given) do size[k] = need_int("rearrange", tostring(k), v) end
  for d, group in ipairs(groups) do
    local known, open = 1, nil
    for _, name in ipairs(group) do
      if size[name] then known = known * size[name]
      elseif open then fail("rearrange", "'%s'\1: give the size of %s or of %s", spec, open, name)
      else open = name end
    end
    if open then
      if known == 0 or shape[d] % known ~= 0 then
        fail("rearrange", "axis %d has %d elements, which %d does not divide", d, shape[d], known)
      end
      size[open] = shape[d] // known
    elseif known ~= shape[d] then
      fail("rearrange", "axis %d has %d elements, '%s' makes %d of it", d, shape[d], spec, known)
    end
  end
  return size
end

--- Reorders, splits and joins axes by name: x:rearrange("b (h d) t -> b h t d", {h = 8}), where {…}
--- gives sizes; '...' is for axes without a name, 1 for an axis of size 1.
def("rearrange(x: T, spec: str, sizes?: table) -> T", function(x, spec, sizes)
  local left, right = spec:match("^(.-)%->(.*)$")
  if not left then fail("rearrange", "'%s' is not like \"b (h d) t -> b h t d\"", spec) end
  left, right = without_dots(left, right, spec, x.ndim)
  local from, names, there = parse_side(left, spec)
  local to, wanted, asked = parse_side(right, spec)
  if #from ~= x.ndim then
    fail("rearrange", "'%s' has %d axes on the left, x has shape (%s)", spec, #from,
      table.concat(x.shape, ", "))
  end
  for _, name in ipairs(wanted) do
    if not there[name] then fail("rearrange", "'%s': %s stands on the right only", spec, name) end
  end
  for _, name in ipairs(names) do
    if not asked[name] then fail("rearrange", "'%s': %s stands on the left only", spec, name) end
  end
  for name in pairs(sizes or {}) do
    if not there[name] then fail("rearrange", "'%s' has no axis %s", spec, tostring(name)) end
  end
  local size = name_sizes(spec, from, x.shape, sizes or {})
  local position, apart, order, joined = {}, {}, {}, {}
  for i, name in ipairs(names) do
    position[name], apart[i] = i, size[name]
  end
  for i, name in ipairs(wanted) do order[i] = position[name] end
  for i, group in ipairs(to) do
    joined[i] = 1
    for _, name in ipairs(group) do joined[i] = joined[i] * size[name] end
  end
  local y = x:reshape(apart)
  if #order > 0 then y = y:permute(order) end
  return y:reshape(joined)
end)
