-- For the specs of linear algebra, in f64: randn, eye and regular make matrices; t transposes;
-- largest gives the largest absolute value; is_close and orthonormal are assertions.
local flame = require "flame"

local function randn(...) return flame.randn({ ... }, { dtype = "f64" }) end
local function t(x) return x:transpose(-2, -1) end
local function eye(n) return flame.eye(n, { dtype = "f64" }) end
local function regular(...)
  local s = { ... }
  return randn(...) + eye(s[#s]) * (2 * s[#s])
end
local function largest(x) return x:numel() == 0 and 0 or x:abs():amax():item() end
local function is_close(a, b, tol)
  assert(largest(a - b) <= (tol or 1e-10), tostring(largest(a - b)))
end
local function orthonormal(q) is_close(t(q):matmul(q), eye(q.shape[q.ndim])) end

return { randn = randn, t = t, eye = eye, regular = regular, largest = largest,
  is_close = is_close, orthonormal = orthonormal }
