--- Comparing tensors, and describing them.
local flame = require "flame"
local internal = flame.internal
local arguments = require "flame.base.arguments"
local fail, need_tensor, def = arguments.fail, arguments.need_tensor, arguments.def
local is_tensor = flame.is_tensor

-- ---- comparing and describing ------------------------------------------------------------------
--- Do both tensors have the same shape and the same values?
def("equal(x: T, other: T) -> bool", function(a, b)
  local s, t = a.shape, b.shape
  if #s ~= #t then return false end
  for d = 1, #s do if s[d] ~= t[d] then return false end end
  return a:detach():eq(b:detach()):all():item()
end)
--- A text that says where a and b differ most, except where 'close' is true, and by how much.
local function difference(a, b, close)
  -- converted first, so that no unsigned number wraps
  local apart = (a:detach():double() - b:detach():double()):abs()
  apart = flame.where(apart:isnan(), math.huge, apart):masked_fill(close, -1)
  local flat, at = (apart:reshape(-1):argmax():item()) - 1, {}
  local shape = close.shape
  a, b = a:expand(shape):reshape(-1), b:expand(shape):reshape(-1)
  local x, y, rest = a[flat + 1]:item(), b[flat + 1]:item(), flat
  for d = #shape, 1, -1 do at[d], rest = rest % shape[d] + 1, rest // shape[d] end
  local place = #at > 0 and (" at (%s)"):format(table.concat(at, ", ")) or ""
  return ("%d of %d elements differ, most%s: %.9g and %.9g, by %.3g"):format(
    close:logical_not():sum():item(), close:numel(), place, x, y, math.abs(x - y))
end
--- Is |x - other| <= atol + rtol |other| everywhere? If not, the second result says where and by
--- how much, so that assert(x:allclose(y)) shows it.
def([[allclose(x: T, other: T, rtol = 1e-5, atol = 1e-8,
    equal_nan = false) -> close: bool, where: str]], function(a, b, rtol, atol, equal_nan)
  a, b = a:detach():double(), b:detach():double()
  local close = (a:eq(b)):logical_or(
    ((a - b):abs():le(b:abs() * rtol + atol)):logical_and(b:isfinite()))
  if equal_nan then close = close:logical_or(a:isnan():logical_and(b:isnan())) end
  if close:all():item() then return true end
  return false, (difference(a, b, close):gsub(",(%d)", ".%1"))
end)
--- One line: shape, dtype, device, minimum, maximum, mean, deviation, counts of NaN and Inf.
def("summary(x: T, name?: str) -> str", function(x, name)
  local text = ("%s(%s) %s %s%s"):format(name and name .. " " or "", table.concat(x.shape, ", "),
    x.dtype, x.device,
    x.requires_grad and " requires_grad" or "")
  if x:numel() == 0 then return text .. " empty" end
  local v = x:detach():double()
  local nan, inf = v:isnan():sum():item(), v:isinf():sum():item()
  -- minimum, maximum, mean and deviation are those of the finite values
  if nan + inf > 0 then v = v:masked_select(v:isfinite()) end
  if v:numel() == 0 then return ("%s nan %d inf %d"):format(text, nan, inf) end
  local numbers = ("min %.6g max %.6g mean %.6g std %.6g"):format(v:amin():item(), v:amax():item(),
    -- the host's locale may write a comma
    v:mean():item(), v:std({ correction = 0 }):item()):gsub(",", ".")
  return ("%s %s nan %d inf %d"):format(text, numbers, nan, inf)
end)
-- A magnitude to warn about: finite, but its fourth power is above f32's largest number (3e38).
local LARGE <const> = 1e10

--- Adds the float tensors in v with their names to the list: v is a tensor, a module (its
--- parameters and gradients are added), or a table of these.
local function named(v, name, list)
  if is_tensor(v) then
    if v:is_floating_point() and v:numel() > 0 then list[#list + 1] = { name = name, x = v } end
  elseif type(v) == "table" and v.named_parameters then
    for k, p in v:named_parameters() do
      named(p, (name and name .. "." or "") .. k, list)
      if p.grad then named(p.grad, (name and name .. "." or "") .. k .. ".grad", list) end
    end
  elseif type(v) == "table" then
    local keys, seen = {}, list.seen or {}
    if seen[v] then return end                      -- a table that contains itself, or occurs twice
    list.seen, seen[v] = seen, true
    for k in pairs(v) do keys[#keys + 1] = k end
    table.sort(keys, function(a, b) return tostring(a) < tostring(b) end)
    for _, k in ipairs(keys) do named(v[k], (name and name .. "." or "") .. tostring(k), list) end
  else
    need_tensor("check_finite", name or "x", v)
  end
end
--- For each tensor of the list the number of values that are not finite and the largest magnitude
--- of the others. All are read at once.
local function extremes(list)
  local facts = {}
  for i, e in ipairs(list) do
    local v = e.x:detach():double():abs()
    local fine = v:isfinite()
    facts[i] = flame.stack({ fine:logical_not():sum():double(),
      flame.where(fine, v, 0.0):amax() }, 1):cpu()
  end
  return #list > 0 and flame.stack(facts, 1):totable() or {}
end
--- Raises if a tensor has a NaN or Inf, and warns once per line about values above 1e10; otherwise
--- returns its arguments. These are tensors, each optionally followed by a name, tables of tensors,
--- and modules (their parameters and gradients are checked): check_finite(loss, "loss", net).
def(".check_finite(...) -> ...", function(...)
  local args, list, count = table.pack(...), {}, 0
  for i = 1, args.n do
    local v, name = args[i], args[i + 1]
    if is_tensor(v) then
      count = count + 1
      named(v, type(name) == "string" and name or "tensor " .. count, list)
    elseif type(v) ~= "string" or not is_tensor(args[i - 1]) then
      if type(v) ~= "table" then need_tensor("check_finite", "tensor " .. count + 1, v) end
      named(v, nil, list)
    end
  end
  for i, e in ipairs(extremes(list)) do
    if e[1] > 0 then
      fail("check_finite", "%s has %d values that are NaN or Inf", list[i].name, e[1] // 1 | 0)
    elseif e[2] > LARGE then
      internal.slip(("check_finite: %s holds %.3g; values above 1e10 overflow soon"):format(
        list[i].name, e[2]))
    end
  end
  return ...
end)

--- Counts what is alive after all pending work is computed and garbage collected: tensors, their
--- bytes, and recorded values (the tape may keep more values than there are tensors).
local function alive()
  flame.eval()
  collectgarbage()
  collectgarbage()
  local s = flame.stats()
  return { s.live_tensors, s.live_bytes, s.live_nodes }
end

local function more(now, before)
  return now[1] > before[1] or now[2] > before[2] or now[3] > before[3]
end

--- The script's line whose values have grown most since 'before', by bytes, then by number.
local function grown(before)
  local line, values, bytes = "", 0, 0
  for site, now in pairs(internal.census()) do
    local was = before[site] or { values = 0, bytes = 0 }
    local v, b = now.values - was.values, now.bytes - was.bytes
    local is_more = b > bytes or (b == bytes and (v > values or (v == values and site < line)))
    if site ~= "" and is_more then
      line, values, bytes = site, v, b
    end
  end
  return line == "" and "" or ("; most at %s, %d values of %d bytes"):format(line, values, bytes)
end

--- Runs f once, then n more times. Raises if the number of tensors, their bytes, or the number of
--- values that the tape keeps has grown; the message names the run in which that began and the line
--- that made the values.
def(".leakcheck(f: fn, n: int = 5) -> bool", function(f, n)
  f()
  local before, census, first = alive(), internal.census(), nil
  local now = before
  for i = 1, n do
    f()
    now = alive()
    if more(now, before) then first = first or i + 1 else first = nil end
  end
  if first then
    fail("leakcheck", "%d runs left %d tensors, %d bytes and %d recorded values more, from run %d on%s",
      n, now[1] - before[1], now[2] - before[2], now[3] - before[3], first, grown(census))
  end
  return true
end)
