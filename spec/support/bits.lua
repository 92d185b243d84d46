--- bits(h, x): the number h mixed with all bytes of x's elements, so that a difference in one bit
--- of them shows.
return function(h, x)
  local bytes = x:detach():cpu():contiguous():bytes()
  bytes = bytes .. ("\0"):rep(-#bytes % 32)
  for at = 1, #bytes, 32 do
    local p, q, r, s = string.unpack("<i8i8i8i8", bytes, at)
    h = ((((h ~ p) * 3 ~ q) * 5 ~ r) * 7 ~ s) * 1099511628211
  end
  return h
end
