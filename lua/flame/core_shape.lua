--- pad with its modes, and einsum.
local flame, _, internal = ...
local fail, need_tensor, options, def = internal.failf, internal.need_tensor, internal.options, internal.def

-- ---- pad -----------------------------------------------------------------------------------------
--- The pieces that go before and after axis d, n elements long, in each mode.
local edges = {}
function edges.reflect(x, d, n, before, after)
  if math.max(before, after) >= n then
    fail("pad", "reflecting needs less than the axis: %d and %d, axis %d has %d", before, after, d, n)
  end
  return x:narrow(d, 2, before):flip(d), x:narrow(d, n - after, after):flip(d)
end
function edges.circular(x, d, n, before, after)
  if math.max(before, after) > n then
    fail("pad", "%d and %d around axis %d that has %d", before, after, d, n)
  end
  return x:narrow(d, n - before + 1, before), x:narrow(d, 1, after)
end
function edges.replicate(x, d, n, before, after)
  if n == 0 then fail("pad", "axis %d is empty: there is nothing to repeat", d) end
  local shape = x.shape
  local function of(at, count)
    shape[d] = count
    return x:narrow(d, at, 1):expand(shape)
  end
  return of(1, before), of(n, after)
end

local function pad_axis(x, d, before, after, mode)
  local n = x.shape[d]
  if before < 0 or after < 0 then
    local cut, rest = math.max(-before, 0), n - math.max(-before, 0) - math.max(-after, 0)
    if rest < 0 then fail("pad", "axis %d would be shorter than nothing", d) end
    x, n, before, after = rest > 0 and x:narrow(d, cut + 1, rest) or x:narrow(d, 1, 0), rest, math.max(before, 0), math.max(after, 0)
  end
  if before == 0 and after == 0 then return x end
  local first, last = edges[mode](x, d, n, before, after)
  local parts = { x }
  if before > 0 then table.insert(parts, 1, first) end
  if after > 0 then parts[#parts + 1] = last end
  return flame.cat(parts, d)
end

--- x:pad({before, after, …}, {mode =, value =}): pairs from the last axis backwards.
def("pad", 4, function(x, pairs_of, o, value)
  need_tensor("pad", "x", x)
  if type(o) == "string" or value ~= nil then o = { mode = o, value = value } end
  local mode = type(o) == "table" and o.mode or "constant"
  if mode == "constant" then return internal.pad_constant(x, pairs_of, o) end
  options("pad", o, { mode = "constant", value = 0 })
  if not edges[mode] then fail("pad", "no mode '%s', there is: constant reflect replicate circular", tostring(mode)) end
  if type(pairs_of) ~= "table" or #pairs_of % 2 ~= 0 or #pairs_of > 2 * x.ndim then
    fail("pad", "need {before, after, …}, a pair an axis at most")
  end
  local y = x
  for k = 1, #pairs_of, 2 do
    local before = internal.need_int("pad", "amount", pairs_of[k])
    local after = internal.need_int("pad", "amount", pairs_of[k + 1])
    y = pad_axis(y, x.ndim - (k - 1) // 2, before, after, mode)
  end
  return y:clone()
end)

-- ---- einsum --------------------------------------------------------------------------------------------
-- Products of two at a time over one batched matmul. "..." becomes the digits 1 to 8, aligned
-- at the right, as names of their own.
local DIGITS = "12345678"

--- The names of the axes of each tensor and of the result. xs: "..." axes are expanded here.
local function parse_einsum(spec, xs)
  local n = #xs
  local bare = tostring(spec):gsub("%s", "")
  local left, right = bare:match("^(.-)%->(.*)$")
  left = left or bare
  local terms, wide, count = {}, 0, {}
  for term in (left .. ","):gmatch("([^,]*),") do terms[#terms + 1] = term end
  if #terms ~= n then fail("einsum", "'%s' names %d tensors, got %d", spec, #terms, n) end
  for i, term in ipairs(terms) do
    need_tensor("einsum", "tensor " .. i, xs[i])
    local letters, dots = term:gsub("%.%.%.", "")
    if letters:find("%A") or dots > 1 then fail("einsum", "'%s' is not like \"ij,jk->ik\"", spec) end
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
    if not count[c] and not digits:find(c, 1, true) then fail("einsum", "'%s': nothing has an axis '%s'", spec, c) end
  end
  return terms, right
end

--- x with its repeated names taken along the diagonal, and the names left.
local function take_diagonals(x, have)
  for i = 1, #have do
    local j = have:find(have:sub(i, i), i + 1, true)
    if j then
      if x.shape[i] ~= x.shape[j] then fail("einsum", "'%s': axes %d and %d differ, %d and %d", have, i, j, x.shape[i], x.shape[j]) end
      local left = have:sub(1, i - 1) .. have:sub(i + 1, j - 1) .. have:sub(j + 1) .. have:sub(i, i)
      return take_diagonals(x:diagonal(0, i, j), left)
    end
  end
  return x, have
end

--- Sizes by name, checked over all terms; "..." axes of size 1 give way.
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
end

--- x with axes named by 'have' as axes 'want' (those missing become size 1); others are summed.
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
local function product_of(sizes, first, last)
  local p = 1
  for i = first, last do p = p * sizes[i] end
  return p
end
local function einsum_pair(a, ta, b, tb, want)
  local batch, m, n, k = "", "", "", ""
  for c in ta:gmatch(".") do
    local in_b, out = tb:find(c, 1, true), want:find(c, 1, true)
    if in_b and out then batch = batch .. c elseif in_b then k = k .. c elseif out then m = m .. c end
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
  local z = x:reshape(product_of(xs, 1, nb), rows, inner):matmul(y:reshape(product_of(ys, 1, nb), inner,
    product_of(ys, nb + nk + 1, #ys)))
  return z:reshape(shape), batch .. m .. n
end
def("einsum", 16, function(spec, ...)
  local xs = { ... }
  if #xs == 1 and type(xs[1]) == "table" then xs = table.move(xs[1], 1, #xs[1], 1, {}) end
  local terms, right = parse_einsum(spec, xs)
  for i = 1, #xs do xs[i], terms[i] = take_diagonals(xs[i], terms[i]) end
  expand_dots(xs, terms)
  local x, t = xs[1], terms[1]
  for i = 2, #xs do
    local later = right .. table.concat(terms, "", i + 1)
    x, t = einsum_pair(x, t, xs[i], terms[i], later)
  end
  return arrange(x, t, right):clone()
end, "module")
