--- f(0) to f(n - 1), in a table from 0 on.
return function(n, f)
  local y = {}
  for i = 0, n - 1 do y[i] = f(i) end
  return y
end
