--- einsum of several tensors: the order in which they are multiplied.
local raises = require("spec.support.helper").raises
local flame = require "flame"

--- The number of elements of the largest matrix product that is computed for x, without the last
--- one, which is x itself.
local function largest(x)
  local most, last = 0, 0
  for line in (flame.graph(x) .. "\n"):gmatch("(.-)\n") do
    local n, shape = 1, line:match("matmul.-%((.-)%) f")
    if shape then
      for size in shape:gmatch("%d+") do n = n * tonumber(size) end
      most, last = math.max(most, last), n
    end
  end
  return most
end
local function tensors(spec, sizes)
  local list = {}
  for term in spec:gsub("%->.*", ""):gmatch("%a+") do
    local shape = {}
    for c in term:gmatch(".") do shape[#shape + 1] = sizes[c] end
    list[#list + 1] = flame.randn(shape):double()
  end
  return list
end
--- The sum over all names, written out.
local function by_sums(spec, sizes, list)
  local left, right = spec:match("(.*)%->(.*)")
  local names, wide = {}, nil
  for c in pairs(sizes) do names[#names + 1] = c end
  table.sort(names)
  local k = 0
  for term in left:gmatch("%a+") do
    k = k + 1
    local order, shape = {}, {}
    for _, c in ipairs(names) do
      local at = term:find(c, 1, true)
      if at then order[#order + 1] = at end
      shape[#shape + 1] = at and sizes[c] or 1
    end
    local x = list[k]:permute(order):reshape(shape)
    wide = wide and wide * x or x
  end
  local gone, rest = {}, ""
  for i, c in ipairs(names) do
    if right:find(c, 1, true) then rest = rest .. c else gone[#gone + 1] = i end
  end
  if #gone > 0 then wide = wide:sum(gone) end
  local order = {}
  for c in right:gmatch(".") do order[#order + 1] = rest:find(c, 1, true) end
  return #order > 0 and wide:permute(order) or wide
end

describe("einsum", function()
  it("multiplies a chain in the order that makes the least", function()
    for spec, bound in pairs { ["ab,bc,cd,de->ae"] = 6, ["cd,ab,de,bc->ae"] = 6,
        ["ab,de,cd,bc->ea"] = 6 } do
      local sizes = { a = 200, b = 2, c = 300, d = 2, e = 3 }
      local list = tensors(spec, sizes)
      local y = flame.einsum(spec, table.unpack(list))
      assert.is_true(largest(y) <= bound, spec .. ": " .. largest(y))
      assert.allclose(by_sums(spec, sizes, list), y, { rtol = 1e-9 })
    end
  end)
  it("gives the same for batches, sums, outer products and scalars of three and more tensors", function()
    local sizes = { a = 2, b = 3, c = 4, d = 1, e = 5 }
    for _, spec in ipairs { "ab,bc,ca->", "ab,ac,ad->abcd", "abc,bcd,cde->ae", "ab,c,bd->adc",
      "abe,be,ea->b", "a,b,c,d,e->cab", "ab,ab,ab->a", "ace,bd,ab,cd,e->eb" } do
      local list = tensors(spec, sizes)
      -- by_sums needs every index of 'sizes' in the spec
      for _, c in ipairs { "a", "b", "c", "d", "e" } do
        if not spec:find(c, 1, true) then sizes[c] = nil end
      end
      assert.allclose(by_sums(spec, sizes, list), flame.einsum(spec, list), { rtol = 1e-9 })
      sizes = { a = 2, b = 3, c = 4, d = 1, e = 5 }
    end
  end)
  it("takes more tensors than it tries all orders of", function()
    local list, spec, product = {}, {}, nil
    for k = 1, 11 do
      list[k] = flame.randn(k % 3 + 2, (k + 1) % 3 + 2):double()
      spec[k] = string.char(96 + k, 97 + k)
      product = product and product:mm(list[k]) or list[k]
    end
    assert.allclose(product, flame.einsum(table.concat(spec, ",") .. "->al", list), { rtol = 1e-9 })
  end)
  it("plans again when the sizes change", function()
    for _, n in ipairs { 2, 50 } do
      local sizes = { a = n, b = 3, c = 52 - n, d = 4 }
      local list = tensors("ab,bc,cd->ad", sizes)
      assert.allclose(list[1]:mm(list[2]):mm(list[3]), flame.einsum("ab,bc,cd->ad", list),
        { rtol = 1e-9 })
    end
  end)
  it("has gradients in every order", function()
    local xs = tensors("ab,bc,cd->ad", { a = 3, b = 2, c = 4, d = 2 })
    assert.is_true(flame.gradcheck(function(...) return flame.einsum("ab,bc,cd->ad", ...) end, xs))
  end)
  it("refuses a name twice in the result", function()
    raises("einsum: 'ij->ii' names i twice behind the arrow", flame.einsum, "ij->ii",
      flame.ones(2, 3))
  end)
end)

describe("rearrange", function()
  it("takes '...' for axes without a name", function()
    local x = flame.arange(120.0):reshape(2, 3, 4, 5)
    local function same(expected, spec, sizes)
      assert.same(expected:totable(), x:rearrange(spec, sizes):totable())
    end
    same(x:flatten(3, 4), "... h w -> ... (h w)")
    same(x:permute(2, 3, 4, 1), "b ... -> ... b")
    same(x:permute(2, 3, 4, 1):flatten(1, 3), "b ... -> (...) b")
    same(x:flatten(2, 4), "b ... c -> b (... c)")
    same(x:permute(4, 1, 2, 3):reshape(5, 2, 3, 2, 2), "... (h w) c -> c ... h w", { h = 2 })
    same(x:permute(2, 1, 3, 4), "a b ... c d -> b a ... c d")
    raises("rearrange: 'a ... -> a': '...' stands once on both sides, or on none", x.rearrange,
      x, "a ... -> a")
    raises("rearrange: 'a b c d e ... -> a ...' has 5 axes on the left, x has shape (2, 3, 4, 5)",
      x.rearrange, x, "a b c d e ... -> a ...")
  end)
end)
