--- A generator of random numbers from a seed: splitmix64, the same on every host.
return function(seed)
  -- mixed, so that seeds in succession start far apart in the sequence
  local s = (seed * 0xD1342543DE82EF95 ~ seed >> 7) * 0xAF251AF3B0F025B5
  local function bits()
    s = s + 0x9E3779B97F4A7C15
    local z = s
    z = (z ~ z >> 30) * 0xBF58476D1CE4E5B9
    z = (z ~ z >> 27) * 0x94D049BB133111EB
    return z ~ z >> 31
  end
  local r = {}
  function r.int(lo, hi) return lo + (bits() >> 1) % (hi - lo + 1) end
  function r.real() return (bits() >> 11) * 2^-53 end
  function r.chance(p) return r.real() < p end
  function r.pick(list) return list[r.int(1, #list)] end
  return r
end
