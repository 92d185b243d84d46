-- For spec/peer/run.py: flame-lua batch.lua functions.lua data.bin out.bin. functions.lua returns a
-- list of functions of base tensors. Little-endian: texts, bytes: s4; sizes: i8; other numbers: i4;
-- a tensor: dtype, rank, sizes, bytes. data.bin, for each function: 1 if second derivatives are
-- wanted; a count and base tensors, each and 1 if it is tracked; a count and cotangents of results,
-- each 0 (none), or 1, a tensor and an unused flag. out.bin: the function's number, 1 if its inputs
-- are unchanged, its error and that of the derivatives ("": none); then results, gradients and
-- second gradients, each list a count and tensors (for a gradient that does not exist: false).
local functions, data, out = assert(loadfile(arg[1]))(), assert(io.open(arg[2], "rb")),
  assert(io.open(arg[3], "wb"))
local blob, at = data:read("a"), 1
data:close()

local function take(form)
  local v
  v, at = string.unpack("<" .. form, blob, at)
  return v
end

local function take_tensor()
  local dtype, rank, shape = take("s4"), take("i4"), {}
  for d = 1, rank do shape[d] = take("i8") end
  local bytes, tracked = take("s4"), take("i4") == 1
  local x = flame.from_bytes(bytes, shape, dtype)
  if tracked then x:requires_grad_(true) end
  return x, bytes
end

local function put(form, ...) out:write(string.pack("<" .. form, ...)) end

local function put_value(v)
  if flame.is_tensor(v) then
    v = v:detach()
    put("s4i4", v.dtype, v.ndim)
    for _, n in ipairs(v.shape) do put("i8", n) end
    put("s4", v:contiguous():bytes())
  elseif type(v) == "number" then
    put("s4i4s4", math.type(v) == "integer" and "i64" or "f64", 0,
      string.pack(math.type(v) == "integer" and "<i8" or "<d", v))
  elseif type(v) == "boolean" then
    put("s4i4s4", "bool", 0, v and "\1" or "\0")
  else
    put("s4i4s4", "nil", 0, "")
  end
end

local function flat(into, ...)
  for i = 1, select("#", ...) do
    local v = select(i, ...)
    if type(v) == "table" then
      flat(into, table.unpack(v))
    else
      into[#into + 1] = v == nil and "nil" or v
    end
  end
  return into
end

local function force(list)
  for _, v in ipairs(list) do if flame.is_tensor(v) then v:detach():bytes() end end
  return list
end

--- The sum of all tracked float results times their cotangents; nil if nothing is tracked.
local function loss_of(results, seeds)
  local total
  for i, y in ipairs(results) do
    if flame.is_tensor(y) and y.requires_grad and seeds[i] then
      local part = (y * seeds[i]):sum():double()
      total = total and total + part or part
    end
  end
  return total
end

local function derivatives(loss, bases, second)
  local tracked = {}
  for _, x in ipairs(bases) do if x.requires_grad then tracked[#tracked + 1] = x end end
  if not loss or #tracked == 0 then return {}, {} end
  local g, first, twice = loss:gradients(tracked, { allow_unused = true, create_graph = second }),
    {}, {}
  for i, x in ipairs(bases) do first[i] = x.requires_grad and g[x] or false end
  if not second then return first, twice end
  local next_loss
  for i, x in ipairs(bases) do
    if first[i] and first[i].requires_grad then
      local part = (first[i] * x:detach()):sum()
      next_loss = next_loss and next_loss + part or part
    end
  end
  if not next_loss then return first, twice end
  local h = next_loss:gradients(tracked, { allow_unused = true })
  for i, x in ipairs(bases) do twice[i] = x.requires_grad and h[x] or false end
  return first, twice
end

for k, f in ipairs(functions) do
  local bases, originals, seeds = {}, {}, {}
  local second = take("i4") == 1
  for i = 1, take("i4") do bases[i], originals[i] = take_tensor() end
  for i = 1, take("i4") do seeds[i] = take("i4") == 1 and take_tensor() or false end
  local ok, results = pcall(function() return force(flat({}, f(table.unpack(bases)))) end)
  local first, twice, bad = {}, {}, ""
  if ok then
    local fine, why = pcall(function()
      first, twice = derivatives(loss_of(results, seeds), bases, second)
      force(first)
      force(twice)
    end)
    if not fine then first, twice, bad = {}, {}, tostring(why) end
  end
  local same = true
  for i, x in ipairs(bases) do same = same and x:detach():bytes() == originals[i] end
  put("i4i4s4s4", k, same and 1 or 0, ok and "" or tostring(results), bad)
  if not ok then results = {} end
  for _, list in ipairs { results, first, twice } do
    put("i4", list == results and #list or #bases)
    for i = 1, list == results and #list or #bases do put_value(list[i]) end
  end
  out:flush()
end
out:close()
