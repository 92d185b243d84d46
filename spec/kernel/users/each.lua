--- A table of f(0) to f(n - 1) at the indices 0 to n - 1.
return function(n, f)
  local y = {}
  for i = 0, n - 1 do y[i] = f(i) end
  return y
end
