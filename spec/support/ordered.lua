--- for key, value in ordered(t): as pairs, in the order of the keys as text. For tests that are
-- made in a loop: SPEC_PART counts them in each process again.
return function(t)
  local keys, k = {}, 0
  for key in pairs(t) do keys[#keys + 1] = key end
  table.sort(keys, function(a, b) return tostring(a) < tostring(b) end)
  return function()
    k = k + 1
    return keys[k], t[keys[k]]
  end
end
