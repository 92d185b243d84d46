--- Tables that begin at index 0, as arrays in C, for the Lua functions that check users' kernels.
local lists = {}

--- f(0) … f(n - 1).
function lists.each(n, f)
  local y = {}
  for i = 0, n - 1 do y[i] = f(i) end
  return y
end

--- Their sum.
function lists.sum(n, f)
  local s = 0
  for i = 0, n - 1 do s = s + f(i) end
  return s
end

return lists
