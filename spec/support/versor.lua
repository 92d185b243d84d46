local flame = require "flame"

--- A random versor of algebra A: the product of 'many' vectors with random components everywhere.
return function(A, many)
  local v
  for _ = 1, many do
    local u = A:embed(flame.randn(A.dims, 1, { dtype = "f64" }), 1)
    v = v and A:product(v, u) or u
  end
  return v
end
