--- The tables of a Clifford algebra, in plain Lua, from the squares of its generators: basis
-- blades, the signed product of each pair, the paths of grades. Nothing here knows of tensors.
--
-- A blade is a set of generators, here the bits of an integer: e1 e3 of Cl(3,0) is 101 in binary.
-- Blades are ordered by grade, and in a grade by their generators: 1, e1, e2, e3, e12, e13, e23,
-- e123. The product of two blades is the symmetric difference of their sets, with a sign for each
-- exchange of two generators on the way to ascending order and with the squares of the generators
-- that both have.

--- The number of set bits.
local function count(bits)
  local n = 0
  while bits > 0 do bits, n = bits & (bits - 1), n + 1 end
  return n
end

--- The coefficient, 1, -1 or 0, of the product of the blades a and b; the product's blade is a ~ b.
local function coefficient(a, b, squares)
  local exchanges, above, c = 0, a >> 1, 1
  while above > 0 do above, exchanges = above >> 1, exchanges + count(above & b) end
  for k, square in ipairs(squares) do
    if a & b & (1 << k - 1) ~= 0 then c = c * square end
  end
  return exchanges % 2 == 0 and c or -c
end

--- All blades in their order.
local function blades_of(n)
  local blades = {}
  local function extend(bits, first, missing)
    if missing == 0 then blades[#blades + 1] = bits end
    for k = first, n - missing + 1 do
      if missing > 0 then extend(bits | 1 << k - 1, k + 1, missing - 1) end
    end
  end
  for grade = 0, n do extend(0, 1, grade) end
  return blades
end

--- The blade's name, as "e13"; generators count from 0 if the first squares to 0, as in G(3,0,1).
local function name_of(bits, squares)
  if bits == 0 then return "1" end
  local text, base = { "e" }, squares[1] == 0 and -1 or 0
  for k = 1, #squares do if bits & (1 << k - 1) ~= 0 then text[#text + 1] = k + base end end
  return table.concat(text)
end

--- The paths: all triples of grades (of x, of y, of the result) that occur in products of blades,
--- sorted by the grade of x, then of the result, then of y.
local function paths_of(terms, grades)
  local paths, number = {}, {}
  for _, t in ipairs(terms) do
    local x, y, r = grades[t.x], grades[t.y], grades[t.r]
    local key = ("%d %d %d"):format(x, r, y)
    if not number[key] then
      number[key] = { x, y, r }
      paths[#paths + 1] = number[key]
    end
    t.path = number[key]
  end
  table.sort(paths, function(a, b)
    if a[1] ~= b[1] then return a[1] < b[1] end
    if a[3] ~= b[3] then return a[3] < b[3] end
    return a[2] < b[2]
  end)
  for p, path in ipairs(paths) do number[path] = p end
  for _, t in ipairs(terms) do t.p, t.path = number[t.path], nil end
  return paths
end

--- Adds to t the even grades, whether metric is 1 for all components (definite) and, by component:
--- is it the scalar part, do all blades of its grade square to 0?
local function note_kinds(t, dims)
  local length = {}
  t.even, t.is_scalar, t.null, t.definite = {}, {}, {}, true
  for g = 0, dims, 2 do t.even[#t.even + 1] = g end
  for i, g in ipairs(t.grades) do
    length[g] = (length[g] or 0) + math.abs(t.metric[i])
    t.definite = t.definite and t.metric[i] == 1
    t.is_scalar[i] = g == 0 and 1 or 0
  end
  for i, g in ipairs(t.grades) do t.null[i] = length[g] == 0 and 1 or 0 end
end

--- The tables of an algebra from the squares (1, -1 or 0) of its generators. The result:
---   size, blades, grades    number of blades; by component: their names; their grades, from 0
---   first, many   by grade (keys 0 to #squares): its first component and how many it has
---   terms         { x =, y =, r =, c =, p = }: component x times component y is c (1
---                 or -1) times component r; p is the number of the path
---   paths         { grade of x, of y, of the result }
---   metric        by component: scalar part of blade times its reverse; definite: all are 1
---   reverse_signs, involute_signs   by component: its sign in the reverse, in the involution
---   is_scalar, null   by component, 1 or 0: is its grade 0; do all blades of its grade square to 0
---   even          the even grades
return function(squares)
  local bits, place = blades_of(#squares), {}
  local t = { size = #bits, blades = {}, grades = {}, first = {}, many = {}, terms = {},
    metric = {}, reverse_signs = {}, involute_signs = {} }
  for i, b in ipairs(bits) do
    local g = count(b)
    place[b], t.blades[i], t.grades[i] = i, name_of(b, squares), g
    t.first[g], t.many[g] = t.first[g] or i, (t.many[g] or 0) + 1
    t.reverse_signs[i], t.involute_signs[i] = g * (g - 1) // 2 % 2 == 0 and 1 or -1,
      g % 2 == 0 and 1 or -1
    t.metric[i] = t.reverse_signs[i] * coefficient(b, b, squares)
  end
  for i, a in ipairs(bits) do
    for j, b in ipairs(bits) do
      local c = coefficient(a, b, squares)
      if c ~= 0 then t.terms[#t.terms + 1] = { x = i, y = j, r = place[a ~ b], c = c } end
    end
  end
  t.paths = paths_of(t.terms, t.grades)
  note_kinds(t, #squares)
  return t
end
