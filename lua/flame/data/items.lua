--- Items of datasets and batches of items, in the script's Lua state and in those of workers.
-- A recipe is a plain table that describes a dataset: {kind =, n =, …}; get_of makes from it the
-- function that returns an item. The seed of an item follows from the loader's seed, the epoch and
-- the item's number alone, so that its random numbers do not depend on who makes it.
local flame = require "flame"
local internal = flame.internal
local cross = require "flame.data.cross"

local items = {}

-- ---- random numbers ---------------------------------------------------------------------------
-- splitmix64 (Steele, Lea and Flood, OOPSLA 2014): a counter and a mixing function.
function items.mix(z)
  z = (z ~ (z >> 30)) * 0xBF58476D1CE4E5B9
  z = (z ~ (z >> 27)) * 0x94D049BB133111EB
  return z ~ (z >> 31)
end
local mix = items.mix

--- A function that gives uniform numbers in [0, 1).
function items.generator(seed)
  local state = mix(seed + 0x9E3779B97F4A7C15)
  return function()
    state = state + 0x9E3779B97F4A7C15
    return (mix(state) >> 11) * 0x1p-53
  end
end

--- The positions 1 … n in random order (Fisher and Yates); draw() is uniform in [0, 1).
function items.order(n, draw)
  local order = {}
  for i = 1, n do order[i] = i end
  for i = n, 2, -1 do
    local j = 1 + math.floor(draw() * i)
    order[i], order[j] = order[j], order[i]
  end
  return order
end

local function seed_of(seed, epoch, i) return mix(mix(mix(seed) + epoch) + i) end

-- ---- datasets -----------------------------------------------------------------------------------
local kinds = {}

function kinds.call(r)
  local f = cross.callable(r.item, "the dataset's function")
  local given = r.given
  return function(i, random) return f(i, given, random) end
end

function kinds.list(r)
  local list = r.list
  return function(i) return list[i] end
end

function kinds.columns(r)
  local columns = r.columns
  return function(i)
    local row = {}
    for name, column in next, columns do row[name] = column[i] end
    return row
  end
end

function kinds.subset(r)
  local get, at = items.get_of(r.base), r.at
  return function(i, random) return get(at[i], random) end
end

function kinds.map(r)
  local get, f = items.get_of(r.base), cross.callable(r.map, "the function of map")
  local function through(random, ...)
    local n = select("#", ...)
    local list = { ... }
    list[n + 1] = random
    return f(table.unpack(list, 1, n + 1))
  end
  return function(i, random) return through(random, get(i, random)) end
end

function kinds.images(r)
  local channels = r.channels
  return function(i)
    local path = r.paths[i]
    local x = internal.io_load_png(path, flame.default_device())
    x = x:float() / (x.dtype == "i32" and 65535 or 255)
    if x.ndim == 2 then x = x:unsqueeze(1) end
    local colours = x:size(1) > 2 and 3 or 1             -- without alpha
    if channels then x = x:narrow(1, 1, colours) end
    if channels == 3 and colours == 1 then x = x:expand({ 3, x:size(2), x:size(3) })
    elseif channels == 1 and colours == 3 then
      x = x[1] * 0.299 + x[2] * 0.587 + x[3] * 0.114
      x = x:unsqueeze(1)
    end
    return x, r.ids[i]
  end
end

-- type of the ids in a token file -> dtype in which they are read, bytes per id, conversion to i32
items.token_kinds = {
  u8 = { "u8", 1, function(x) return x:int() end },
  u16 = { "i16", 2, function(x) return x:int() & 0xFFFF end },
  i32 = { "i32", 4, function(x) return x end },
  u32 = { "i32", 4, function(x) return x end },
}

function kinds.tokens(r)
  local kind = items.token_kinds[r.dtype]
  local file = internal.io_open_at(r.path, "tokens")
  return function(i)
    local first = r.header + (i - 1) * r.step * kind[2]
    local bytes = internal.io_read_at(file, first, (r.block + 1) * kind[2])
    local ids = kind[3](flame.from_bytes(bytes, { r.block + 1 }, kind[1]))
    return ids:narrow(1, 1, r.block), ids:narrow(1, 2, r.block)
  end
end

--- The function get(i, random) of a recipe's dataset: it returns the parts of item i.
function items.get_of(recipe) return kinds[recipe.kind](recipe) end

--- A dataset's recipe for another Lua state (data/cross.lua); raises if a function can not be sent.
function items.portable(r)
  if r.kind == "call" then
    return { kind = "call", n = r.n, given = r.given,
      item = cross.code(r.item, "the dataset's function") }
  elseif r.kind == "map" then
    return { kind = "map", n = r.n, base = items.portable(r.base),
      map = cross.code(r.map, "the function of map") }
  elseif r.kind == "subset" then
    return { kind = "subset", n = r.n, base = items.portable(r.base), at = r.at }
  end
  return r
end

-- Ends the work on item i: restores the random state, checks pcall's results, packs the parts.
local function settled(before, i, ok, ...)
  flame.rng_state(before)
  if not ok then
    local why = tostring((...))
    -- an interrupt (Ctrl-C) is passed on as it is: it is not an error of the item
    if why:find("interrupted!$") then error(why, 0) end
    error({ item = i, why = why }, 0)
  end
  if select("#", ...) == 0 then error({ item = i, why = "the dataset gave nothing for it" }, 0) end
  for k = 1, select("#", ...) do
    if (select(k, ...)) == nil then
      error({ item = i, why = ("part %d of it is nil"):format(k) }, 0)
    end
  end
  return table.pack(...)
end

--- The parts of item i as {n =, …}, made with the item's random seed; raises {item =, why =}.
function items.parts(get, i, seed, epoch)
  local own, before = seed_of(seed, epoch, i), flame.rng_state()
  flame.rng_state({ seed = own, counter = 0 })
  if items.alone then math.randomseed(own) end           -- only in a worker's Lua state
  return settled(before, i, pcall(get, i, items.generator(own)))
end

-- ---- batches ------------------------------------------------------------------------------------
local collate

local function sort_of(v)
  if flame.is_tensor(v) then return "tensor" end
  return type(v)
end

local function misfit(at, k, path, fmt, ...)
  error({ item = at[k], why = fmt:format(...) .. (path == "" and "" or " in " .. path) }, 0)
end

local function sizes(x) return ("(%s)"):format(table.concat(x.shape, ", ")) end

local function same_shape(x, y)
  if x.ndim ~= y.ndim then return false end
  for d = 1, x.ndim do if x:size(d) ~= y:size(d) then return false end end
  return true
end

local function stack(list, at, path)
  local first = list[1]
  for k, x in ipairs(list) do
    if not same_shape(x, first) then
      misfit(at, k, path, "shape %s where item %d has %s", sizes(x), at[1], sizes(first))
    elseif x.dtype ~= first.dtype then
      misfit(at, k, path, "dtype %s where item %d has %s", x.dtype, at[1], first.dtype)
    end
  end
  return flame.stack(list, 1)
end

local function numbers(list)
  local dtype = "i64"
  for _, v in ipairs(list) do
    if math.type(v) == "float" then dtype = flame.default_dtype() end
  end
  return flame.tensor(list, { dtype = dtype })
end

local function tables(list, at, path)
  local out, first = {}, list[1]
  for key in next, first do
    local column = {}
    local below = ("%s[%s]"):format(path, tostring(key))
    for k, v in ipairs(list) do
      column[k] = v[key]
      if v[key] == nil then misfit(at, k, below, "nothing where item %d has something", at[1]) end
    end
    out[key] = collate(column, at, below)
  end
  for k, v in ipairs(list) do
    for key in next, v do
      if first[key] == nil then
        misfit(at, k, ("%s[%s]"):format(path, tostring(key)), "a value where item %d has none",
          at[1])
      end
    end
  end
  return out
end

--- A batch's value from a list of items' values: tensors are stacked, numbers and booleans become a
--- tensor, strings stay a list, tables are treated key by key. at (items), path: for errors.
function collate(list, at, path)
  local sort = sort_of(list[1])
  for k, v in ipairs(list) do
    if sort_of(v) ~= sort then
      misfit(at, k, path, "a %s where item %d has a %s", sort_of(v), at[1], sort)
    end
  end
  if sort == "tensor" then return stack(list, at, path)
  elseif sort == "number" then return numbers(list)
  elseif sort == "boolean" then return flame.tensor(list, { dtype = "bool" })
  elseif sort == "table" then return tables(list, at, path) end
  return list
end

local function columns_of(list, at)
  local columns, n = {}, list[1].n
  for part = 1, n do columns[part] = {} end
  for k, parts in ipairs(list) do
    if parts.n ~= n then
      misfit(at, k, "", "%d parts where item %d has %d", parts.n, at[1], n)
    end
    for part = 1, n do columns[part][k] = parts[part] end
  end
  return columns
end

--- The batch of the items with the numbers 'at', {n =, part, …}; raises {item =, why =} or a text.
--- how(list, …) gets one list per part of an item, and gives the batch's parts; nil: collate.
function items.batch(get, how, at, seed, epoch)
  local list = {}
  for k, i in ipairs(at) do list[k] = items.parts(get, i, seed, epoch) end
  local columns = columns_of(list, at)
  if how then
    local made = table.pack(how(table.unpack(columns)))
    if made.n == 0 then error("collate gave nothing", 0) end
    return made
  end
  for part, column in ipairs(columns) do
    columns[part] = collate(column, at, #columns > 1 and ("part %d"):format(part) or "")
  end
  columns.n = #columns
  return columns
end

-- ---- a worker -----------------------------------------------------------------------------------
local function message_of(ok, made)
  if not ok then
    if type(made) ~= "table" or not made.why then made = { why = tostring(made) } end
    return cross.pack({ false, made.item or 0, made.why }, "")
  end
  return cross.pack({ true, made }, "the batch")
end

--- Called in a worker with the loader's settings: returns the function that answers its requests.
function items.serve(message)
  local setup = cross.unpack(message)
  items.alone = true
  rawset(os, "exit", function() error("a worker can not end the program", 2) end)
  package.path, package.cpath = setup.path, setup.cpath
  flame.default_dtype(setup.dtype)
  local ready, get, how = pcall(function()
    return items.get_of(setup.dataset), setup.collate and cross.callable(setup.collate, "collate")
  end)
  return function(request)
    local r = cross.unpack(request)
    if not ready then return message_of(false, get) end
    local ok, made = pcall(items.batch, get, how, r.at, r.seed, r.epoch)
    local crossed, answer = pcall(message_of, ok, made)
    return crossed and answer or message_of(false, answer)
  end
end

return items
