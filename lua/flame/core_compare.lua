--- Comparing tensors, and telling what they are.
local flame, _, internal = ...
local fail, need_tensor, def = internal.failf, internal.need_tensor, internal.def

-- ---- comparing and telling ----------------------------------------------------------------------
--- Same shape and same values.
def("equal(x: T, other: T) -> bool", function(a, b)
  local s, t = a.shape, b.shape
  if #s ~= #t then return false end
  for d = 1, #s do if s[d] ~= t[d] then return false end end
  return a:detach():eq(b:detach()):all():item()
end)
--- Is |x - other| <= atol + rtol |other| everywhere?
def([[allclose(x: T, other: T, rtol = 1e-5, atol = 1e-8,
    equal_nan = false) -> bool]], function(a, b, rtol, atol, equal_nan)
  a, b = a:detach():double(), b:detach():double()
  local close = (a:eq(b)):logical_or(
    ((a - b):abs():le(b:abs() * rtol + atol)):logical_and(b:isfinite()))
  if equal_nan then close = close:logical_or(a:isnan():logical_and(b:isnan())) end
  return close:all():item()
end)
--- One line: shape, dtype, device, least, largest, mean, deviation, counts of NaN and Inf.
def("summary(x: T, name?: str) -> str", function(x, name)
  local text = ("%s(%s) %s %s%s"):format(name and name .. " " or "", table.concat(x.shape, ", "),
    x.dtype, x.device,
    x.requires_grad and " requires_grad" or "")
  if x:numel() == 0 then return text .. " empty" end
  local v = x:detach():double()
  local nan, inf = v:isnan():sum():item(), v:isinf():sum():item()
  -- the other numbers are of the finite values
  if nan + inf > 0 then v = v:masked_select(v:isfinite()) end
  if v:numel() == 0 then return ("%s nan %d inf %d"):format(text, nan, inf) end
  local numbers = ("min %.6g max %.6g mean %.6g std %.6g"):format(v:amin():item(), v:amax():item(),
    -- the host's locale may write a comma
    v:mean():item(), v:std({ correction = 0 }):item()):gsub(",", ".")
  return ("%s %s nan %d inf %d"):format(text, numbers, nan, inf)
end)
--- Raises when one has a NaN or Inf; else gives them back.
def(".check_finite(...) -> ...", function(...)
  for i, x in ipairs({ ... }) do
    need_tensor("check_finite", "tensor " .. i, x)
    local bad = x:detach():isfinite():logical_not():sum():item()
    if bad > 0 then fail("check_finite", "tensor %d has %d values that are NaN or Inf", i, bad) end
  end
  return ...
end)

--- Run f n times; raise when handles or bytes grow from the second run on.
def(".leakcheck(f: fn, n: int = 5) -> bool", function(f, n)
  local function count()
    collectgarbage()
    collectgarbage()
    local s = flame.stats()
    return s.live_tensors, s.live_bytes
  end
  f()
  local tensors, bytes = count()
  for _ = 1, n do f() end
  local t, b = count()
  if t > tensors or b > bytes then
    fail("leakcheck", "%d runs left %d tensors and %d bytes more", n, t - tensors, b - bytes)
  end
  return true
end)
