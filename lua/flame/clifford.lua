--- Clifford (geometric) algebras: multivectors, their products, and layers that commute with
-- rotations, reflections and, in G(3,0,1), motions. All are composed of ordinary ops, so they are
-- differentiable and run on every device.
--
-- A multivector is a tensor whose axis 1 holds its components, by grade: 1, e1, e2, e3, e12, e13,
-- e23, e123 for Cl(3,0). Between it and the last axis, the features, there may be batch axes:
-- (components, …, features), the layout of flash-clifford. x[1] is the scalar part; features are
-- adjacent in memory.
--
-- clifford/algebra.lua: the tables of an algebra; clifford/form.lua: products and their gradients
-- from such tables; clifford/layers.lua: modules.
local flame = require "flame"
local internal = flame.internal
local objects = require "flame.base.objects"
local tables_of = require "flame.clifford.algebra"
local form = require "flame.clifford.form"
local contract, constant = form.contract, form.constant

local clifford = {}

--- Raises "op: message" at the line of the script, however deep in the library it is called.
local function fail(op, message, ...) internal.fail(op, message:format(...)) end

---@class flame.Algebra
---@field dims integer        number of generators
---@field size integer        number of components, 2 ^ dims
---@field signature integer[] squares of the generators
---@field blades string[]     names of the components: "1", "e1", …
---@field grades integer[]    their grades
---@field paths integer[][]   grades that products have: {of x, of y, of the result}
local Algebra = {}
Algebra.__name = "Algebra"
objects.classes.Algebra = Algebra

--- Adds a method to the class Algebra; text declares its name and arguments (src/lua/declare.h).
local function put(text, f)
  Algebra[text:match(":([%w_]+)%(")] = internal.declare(text, "", f)
end
clifford.Algebra = Algebra

-- ---- arguments ----------------------------------------------------------------------------------

--- x as a multivector of the algebra: a float tensor whose axis 1 has its components. Integers
--- become f32; anything else raises.
local function need(self, op, name, x)
  if x.dtype == "bool" then fail(op, "%s is bool, need numbers", name) end
  if x.ndim < 1 or x.ndim > 7 then
    fail(op, "%s has %d axes, need 1 to 7 (components, …, features)", name, x.ndim)
  end
  if x:size(1) ~= self.size then
    fail(op, "%s has %d component%s on axis 1, %s has %d", name, x:size(1),
      x:size(1) == 1 and "" or "s", tostring(self), self.size)
  end
  return x:is_floating_point() and x or x:float()
end

local function need_grade(self, op, g)
  if g < 0 or g > self.dims then
    fail(op, "there is no grade %d in %s, grades are 0 to %d", g, tostring(self), self.dims)
  end
  return g
end

--- The given float tensors in a common dtype that holds all values; raises if their devices differ.
local function alike(op, names, ...)
  local xs, dtype = { ... }, (...).dtype
  for i, x in ipairs(xs) do
    if x.device ~= xs[1].device then
      fail(op, "%s is on %s, %s on %s", names[1], xs[1].device, names[i], x.device)
    end
    if x.dtype ~= dtype then dtype = (x.dtype == "f64" or dtype == "f64") and "f64" or "f32" end
  end
  for i, x in ipairs(xs) do xs[i] = x:to(dtype) end
  return table.unpack(xs)
end

--- Broadcasts the axes after the first of x and y (components, …) against each other. Returns x, y,
--- each with at least one such axis, and whether that axis was added.
local function spread(op, x, y)
  local function tail(v) return table.move(v.shape, 2, v.ndim, 1, {}) end
  local a, b, s = tail(x), tail(y), {}
  local n = math.max(#a, #b)
  for d = 1, n do
    local m, k = a[d - n + #a] or 1, b[d - n + #b] or 1
    if m ~= k and m ~= 1 and k ~= 1 then
      fail(op, "x has shape (%s) and y (%s): their axes after the first do not go together",
        table.concat(x.shape, ", "),
        table.concat(y.shape, ", "))
    end
    s[d] = m == 1 and k or m
  end
  if n == 0 then s[1] = 1 end
  local function as(v, own)
    local shape = { v:size(1) }
    for d = 1, #s do shape[d + 1] = own[d - #s + #own] or 1 end
    return v:reshape(shape):expand(v:size(1), table.unpack(s))
  end
  return as(x, a), as(y, b), n == 0
end

--- w, if it is a float tensor of the sizes '...' (false: any size); raises otherwise.
local function need_weight(op, name, w, what, ...)
  if not w:is_floating_point() then fail(op, "%s is %s, need a float", name, w.dtype) end
  local fits, sizes = w.ndim == select("#", ...), { ... }
  for d, n in ipairs(sizes) do fits = fits and (not n or w:size(d) == n) end
  if fits then return w end
  for d, n in ipairs(sizes) do sizes[d] = n and tostring(n) or "any" end
  fail(op, "%s has shape (%s), need (%s): %s", name, table.concat(w.shape, ", "),
    table.concat(sizes, ", "), what)
end

--- A list of one number per component as a tensor that broadcasts against x (components, …).
local function by_component(self, list, x)
  local shape = { self.size }
  for d = 2, x.ndim do shape[d] = 1 end
  return constant(list, x.dtype, x.device):reshape(shape)
end

-- ---- forms --------------------------------------------------------------------------------------

--- An algebra's products and norms as multilinear forms: lists of terms for clifford/form.lua.
local function forms_of(t)
  local size, many = { x = t.size, y = t.size, r = t.size, p = #t.paths }, {}
  local slot, slots = {}, 0           -- by path: its number among the paths to the same grade
  for p, path in ipairs(t.paths) do
    many[path[3]] = (many[path[3]] or 0) + 1
    slot[p], slots = many[path[3]], math.max(slots, many[path[3]])
  end
  local pairs_of_paths, weights, seen = {}, {}, {}
  for _, e in ipairs(t.terms) do
    local r = (e.r - 1) * slots + slot[e.p]
    pairs_of_paths[#pairs_of_paths + 1] = { x = e.x, y = e.y, r = r, c = e.c }
    if not seen[r] then weights[#weights + 1] = { x = e.p, r = r, c = 1 } end
    seen[r] = true
  end
  local of_grade, squares = {}, {}
  for i, g in ipairs(t.grades) do
    of_grade[i] = { x = g + 1, r = i, c = 1 }
    for j, h in ipairs(t.grades) do
      if g == h and t.metric[j] ~= 0 then
        squares[#squares + 1] = { x = j, r = i, c = t.metric[j] }
      end
    end
  end
  local rows = { x = t.size, y = t.size, r = t.size * slots }
  return {
    product = { name = "product", order = { "x", "y" }, size = size, terms = t.terms },
    weighted = { name = "product", order = { "x", "y", "p" }, size = size, shared = { p = true },
      terms = t.terms },
    pairs = { name = "fully_connected", order = { "x", "y" }, size = rows, terms = pairs_of_paths,
      slots = slots, inside = true },
    weights = { name = "fully_connected", order = { "x" }, size = { x = #t.paths, r = rows.r },
      terms = weights },
    of_grade = { name = "linear", order = { "x" }, size = { x = #t.many + 1, r = t.size },
      terms = of_grade },
    squares = { name = "grade_norm", order = { "x" }, size = { x = t.size, r = t.size },
      terms = squares },
  }
end

local forms = setmetatable({}, { __mode = "k" })         -- algebra -> its forms

-- ---- algebras -----------------------------------------------------------------------------------

local known = setmetatable({}, { __mode = "v" })         -- "1 1 1" -> algebra

local function signature_of(signature)
  if math.type(signature) == "integer" and signature >= 1 and signature <= 6 then
    local all = {}
    for k = 1, signature do all[k] = 1 end
    return all
  end
  local number = type(signature) == "number"
  if number or #signature < 1 or #signature > 6 then
    fail("algebra", "need the squares of 1 to 6 generators, as {1, 1, 1}, or their number, got %s",
      number and tostring(signature) or ("a list of %d"):format(#signature))
  end
  local own = {}
  for k, v in ipairs(signature) do
    if v ~= 1 and v ~= -1 and v ~= 0 then
      fail("algebra", "generator %d squares to %s, need 1, -1 or 0", k, tostring(v))
    end
    own[k] = math.tointeger(v)
  end
  return own
end

--- The Clifford algebra with the given squares of its generators, which anticommute. {1, 1} is
--- Cl(2,0), {1, 1, 1} (or 3) Cl(3,0), {0, 1, 1, 1} G(3,0,1), the projective one, whose e0 squares
--- to 0. The table of products is computed from the signature once. Fields: dims, size, signature,
--- blades, grades, paths.
--- signature: squares (1, -1 or 0) of 1 to 6 generators, or how many that square to 1.
clifford.algebra = internal.declare("clifford.algebra(signature: num|num[]) -> Algebra", "",
  function(signature)
  local squares = signature_of(signature)
  local key = table.concat(squares, " ")
  if known[key] then return known[key] end
  local t = tables_of(squares)
  t.dims, t.signature = #squares, squares
  forms[t] = forms_of(t)
  known[key] = setmetatable(t, Algebra)
  return t
end)

function Algebra:__tostring()
  local n = { [1] = 0, [-1] = 0, [0] = 0 }
  for _, square in ipairs(self.signature) do n[square] = n[square] + 1 end
  if n[0] > 0 then return ("G(%d,%d,%d)"):format(n[1], n[-1], n[0]) end
  return ("Cl(%d,%d)"):format(n[1], n[-1])
end

-- ---- parts and signs ----------------------------------------------------------------------------

--- The components of one grade: (components of the grade, …).
--- x (size, …), grade 0 to dims.
put("Algebra:grade(x: T, grade: int) -> T", function(self, x, grade)
  x = need(self, "grade", "x", x)
  grade = need_grade(self, "grade", grade)
  return x:narrow(1, self.first[grade], self.many[grade])
end)

--- The multivector that has these components in one grade, and 0 elsewhere: the inverse of
-- Algebra:grade. Points and velocities are embedded as grade 1. v (components of the grade, …),
-- grade 0 to dims; gives (size, …).
put("Algebra:embed(v: T, grade: int) -> T", function(self, v, grade)
  grade = need_grade(self, "embed", grade)
  local many, first = self.many[grade], self.first[grade]
  if v.ndim < 1 or v:size(1) ~= many then
    fail("embed", "v has shape (%s), grade %d of %s has %d component%s on axis 1",
      table.concat(v.shape, ", "), grade, tostring(self),
      many, many == 1 and "" or "s")
  end
  local amounts = {}
  for d = 1, 2 * v.ndim do amounts[d] = 0 end
  amounts[2 * v.ndim - 1], amounts[2 * v.ndim] = first - 1, self.size - many - first + 1
  return (v:is_floating_point() and v or v:float()):pad(amounts)
end)

--- x with all but the given grades set to 0.
--- x (size, …); gives (size, …).
put("Algebra:project(x: T, grades...: int) -> T", function(self, x, ...)
  x = need(self, "project", "x", x)
  local kept, drop = {}, {}
  for i = 1, select("#", ...) do kept[need_grade(self, "project", (select(i, ...)))] = true end
  if next(kept) == nil then fail("project", "need the grades that stay") end
  for i, g in ipairs(self.grades) do drop[i] = not kept[g] end
  local shape = { self.size }
  for d = 2, x.ndim do shape[d] = 1 end
  return flame.where(flame.tensor(drop, { device = x.device }):reshape(shape), 0, x)
end)

--- The reverse: of each blade the generators in opposite order, so that grade
--- g gets the sign (-1)^(g (g - 1) / 2).
--- x (size, …); gives (size, …).
put("Algebra:reverse(x: T) -> T", function(self, x)
  x = need(self, "reverse", "x", x)
  return x * by_component(self, self.reverse_signs, x)
end)

--- The main involution: the sign of odd grades changes.
--- x (size, …); gives (size, …).
put("Algebra:involute(x: T) -> T", function(self, x)
  x = need(self, "involute", "x", x)
  return x * by_component(self, self.involute_signs, x)
end)

-- ---- products -----------------------------------------------------------------------------------

--- The geometric product x y, with a weight the weighted one. Each component is the sum of c x_i
--- y_j over the pairs of blades whose product is c times the component's. Axes after the first
--- broadcast. With a weight (Brandstetter et al. and Ruhe et al., both 2023) each summand is
--- multiplied by that of its path, the grades of x, of y and of the result (algebra.paths):
--- each feature is multiplied with the same feature of y, and has separate weights. Half types are
--- computed in f32. x (size, …, features); without a weight any axes, weight (#paths, features);
--- gives (size, …, features).
put("Algebra:product(x: T, y: T, weight?: T) -> T", function(self, x, y, weight)
  local whole
  x, y = need(self, "product", "x", x), need(self, "product", "y", y)
  if weight == nil then
    x, y = alike("product", { "x", "y" }, x, y)
    x, y, whole = spread("product", x, y)
    local r = contract(forms[self].product, "r")(x, y)
    return whole and r:squeeze(-1) or r
  end
  x, y, whole = spread("product", x, y)
  if whole then fail("product", "x and y have no axis of features, which a weight needs: (components, …, features)") end
  need_weight("product", "weight", weight, "a number for each path and feature",
    #self.paths, x:size(-1))
  return contract(forms[self].weighted, "r")(alike("product", { "x", "y", "weight" }, x, y, weight))
end)

--- x (size, …, n) reshaped to (size, batch, n), and the list of the axes '…'.
local function flat(x)
  local between = table.move(x.shape, 2, x.ndim - 1, 1, {})
  return x:reshape(x:size(1), -1, x:size(-1)), between
end
--- Undoes 'flat': x (size, batch, n) with the axes 'between' in place of batch.
local function unflat(x, between)
  between[#between + 1] = x:size(-1)
  return x:reshape(x:size(1), table.unpack(between))
end

--- Raises unless x and y have the same shape, with an axis of features.
local function need_same(op, x, y)
  local a, b = table.concat(x.shape, ", "), table.concat(y.shape, ", ")
  if x.ndim < 2 then fail(op, "x has shape (%s), need (components, …, features)", a) end
  if a ~= b then fail(op, "x has shape (%s) and y (%s), need the same", a, b) end
end

--- The geometric product in which each feature of x and y feeds every feature of the result. (Ruhe
--- et al. 2023, "fully connected".) Component k of feature m is the sum over paths p and features n
--- of weight[p][n][m] times the part on path p of component k of x_n y_n. One matrix product per
--- component.
--- x (size, …, features), y the same shape, weight (#paths, features, features of the result);
--- gives (size, …, features of the result).
put("Algebra:fully_connected(x: T, y: T, weight: T) -> T", function(self, x, y, weight)
  local op = "fully_connected"
  x, y = need(self, op, "x", x), need(self, op, "y", y)
  need_same(op, x, y)
  need_weight(op, "weight", weight, "a matrix for each path", #self.paths, x:size(-1), false)
  x, y, weight = alike(op, { "x", "y", "weight" }, x, y, weight)
  local own, n, m = forms[self], x:size(-1), weight:size(3)
  local slots = own.pairs.slots
  local parts, between = flat(contract(own.pairs, "r")(x, y))
  local matrices = contract(own.weights, "r")(weight:reshape(#self.paths, n * m))
    :reshape(self.size, slots * n, m)
  parts = parts:movedim(1, 2):reshape(-1, self.size, slots * n):movedim(2, 1)
  return unflat(parts:matmul(matrices), between)
end)

--- y (size, batch, features) with bias (features) added to the component where mask is 1, the
--- scalar part. The gradient of bias is therefore the scalar part of g, summed over the batch.
local add_to_scalar = flame.func {
  name = "linear",
  forward = function(_, y, bias, mask) return y + bias * mask end,
  backward = function(_, g) return g, g[1]:sum(1), nil end,
}

--- Mixes features, with a matrix for each grade. y_k = x_k weight[grade of k + 1]. The bias is
--- added to the scalar part, which no rotation changes; bias_all = true adds it to every component,
--- as flash-clifford's layer does: then rotations of x do not rotate the result any more.
--- x (size, …, features), weight (dims + 1, features, features of the result), bias (features of
--- the result); gives (size, …, features of the result).
put("Algebra:linear(x: T, weight: T, bias?: T, bias_all = false) -> T",
  function(self, x, weight, bias, bias_all)
  x = need(self, "linear", "x", x)
  if x.ndim < 2 then
    fail("linear", "x has shape (%s), need (components, …, features)", table.concat(x.shape, ", "))
  end
  need_weight("linear", "weight", weight, "a matrix for each grade", self.dims + 1,
    x:size(-1), false)
  local n, m = x:size(-1), weight:size(3)
  if bias then
    need_weight("linear", "bias", bias, "a number for each feature of the result", m)
    x, weight, bias = alike("linear", { "x", "weight", "bias" }, x, weight, bias)
  else
    x, weight = alike("linear", { "x", "weight" }, x, weight)
  end
  local between
  x, between = flat(x)
  local y =
    x:matmul(contract(forms[self].of_grade, "r")(weight:reshape(self.dims + 1, n * m))
      :reshape(self.size, n, m))
  if bias and bias_all then y = y + bias
  elseif bias then y = add_to_scalar(y, bias, by_component(self, self.is_scalar, y)) end
  return unflat(y, between)
end)

-- ---- norms, inverses, motions -------------------------------------------------------------------

--- The scalar part of x times its reverse, for each multivector: in Cl(n,0) the sum of its squared
--- components; in other algebras the summands have signs, and the result may be negative.
local function square(self, x) return (x * x * by_component(self, self.metric, x)):sum(1) end

--- The norm of each multivector, the root of |scalar part of x times its
--- reverse|. Its gradient at 0 is 0.
--- x (size, …); gives (…).
put("Algebra:norm(x: T) -> T", function(self, x)
  local q = square(self, need(self, "norm", "x", x))
  local zero = q:eq(0)
  return flame.where(zero, 0, flame.where(zero, 1, q:abs()):sqrt())
end)

--- The inverse of versors, products of vectors that do not square to 0: the reverse divided by the
--- scalar part of v times its reverse. For other multivectors it is not an inverse; where that
--- scalar is 0, it is not finite.
--- v (size, …); gives (size, …).
put("Algebra:inverse(v: T) -> T", function(self, v)
  v = need(self, "inverse", "v", v)
  return self:reverse(v) / square(self, v):unsqueeze(1)
end)

--- Moves x by a versor v. That is v x v^-1, with the sign of v's reflections for the odd grades of
--- x (Ruhe et al. 2023): a vector v reflects in the plane that it is normal to, the product of two
--- vectors rotates by twice the angle between them, from the second to the first. In G(3,0,1)
--- translations are among them. Axes after the first broadcast.
--- v (size, …), all of its grades even or all odd, x (size, …); gives (size, …).
put("Algebra:sandwich(v: T, x: T) -> T", function(self, v, x)
  v, x = need(self, "sandwich", "v", v), need(self, "sandwich", "x", x)
  local even = self:project(x, table.unpack(self.even))
  local moved = self:product(v, even) + self:product(self:involute(v), x - even)
  return self:product(moved, self:inverse(v))
end)

-- ---- activations and norms of layers ------------------------------------------------------------

--- The components of x along axis 1, each (1, …).
local function components(x)
  local list = {}
  for k = 1, x:size(1) do list[k] = x:narrow(1, k, 1) end
  return list
end

--- Gated GELU, each component times Phi of the scalar part x_0. Phi(a) = (1 + erf(a / sqrt 2)) / 2.
--- The scalar part becomes gelu(x_0), and rotations commute with it.
--- x (size, …); gives (size, …).
put("Algebra:gelu(x: T) -> T", function(self, x)
  local list = components(need(self, "gelu", "x", x))
  local gate = ((list[1] * math.sqrt(0.5)):erf() + 1) * 0.5
  for k, part in ipairs(list) do list[k] = part * gate end
  return flame.cat(list, 1)
end)

--- Divides each grade g by r_g = sqrt(mean_n sum_k x_k(n)^2 + eps), the mean being over the
--- features n and the sum over the components k of grade g. In algebras with generators
--- that square to -1 or 0 the squares get signs (those of blade times reverse), |mean| is taken,
--- and grades in which all blades square to 0 stay as they are.
--- x (size, …, features); gives (size, …, features).
put("Algebra:grade_norm(x: T, eps = 1e-6) -> T", function(self, x, eps)
  x = need(self, "grade_norm", "x", x)
  if x.ndim < 2 then
    fail("grade_norm", "x has shape (%s), need (components, …, features)",
      table.concat(x.shape, ", "))
  end
  local list, q = components(x.dtype ~= "f64" and x:float() or x), {}
  for k, part in ipairs(list) do
    local g, c = self.grades[k], self.metric[k]
    if c ~= 0 then
      local mean = (part * part):mean(-1, true)
      q[g] = not q[g] and (c == 1 and mean or -mean) or c == 1 and q[g] + mean or q[g] - mean
    end
  end
  for g, v in pairs(q) do q[g] = 1 / ((self.definite and v or v:abs()) + eps):sqrt() end
  for k, part in ipairs(list) do
    local r = q[self.grades[k]]
    list[k] = (r and part * r or part):to(x.dtype)
  end
  return flame.cat(list, 1)
end)

--- The product, weighted or fully connected, of gelu(x) and gelu(y).
local function gated_product(self, x, y, weight)
  x, y = self:gelu(x), self:gelu(y)
  if weight.ndim == 3 then return self:fully_connected(x, y, weight) end
  return self:product(x, y, weight)
end

Algebra.__index = objects.closed("Algebra", Algebra, {})
require "flame.clifford.layers"(clifford, { fail = fail, gated_product = gated_product })
return objects.namespace(clifford, "clifford")
