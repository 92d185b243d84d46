--- for key, value in ordered(t): like pairs, but in the order of the keys as text. For tests made
-- in a loop: SPEC_PART (helper.lua) counts tests, so their order must be the same in every process.
return function(t)
  local keys, k = {}, 0
  for key in pairs(t) do keys[#keys + 1] = key end
  table.sort(keys, function(a, b) return tostring(a) < tostring(b) end)
  return function()
    k = k + 1
    return keys[k], t[keys[k]]
  end
end
