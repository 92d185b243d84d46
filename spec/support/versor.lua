local flame = require "flame"

--- Versors: products of random vectors, with random components also along the null generators.
return function(A, many)
  local v
  for _ = 1, many do
    local u = A:embed(flame.randn(A.dims, 1, { dtype = "f64" }), 1)
    v = v and A:product(v, u) or u
  end
  return v
end
