--- Datasets and their loader: items have numbers and are made in order, by worker threads if
-- requested. The file returns a function that adds them to flame.data.
local flame = require "flame"
local internal = flame.internal
local arguments = require "flame.base.arguments"
local objects = require "flame.base.objects"
local items = require "flame.data.items"
local cross = require "flame.data.cross"

return function(data, shared)
  local fail, put = shared.fail, shared.put

  -- ---- datasets ---------------------------------------------------------------------------------
  local Dataset = { __name = "Dataset" }        -- {recipe =}, a description: data/items.lua
  objects.classes.Dataset = Dataset
  Dataset.__index, Dataset.__newindex = objects.closed("a dataset", Dataset,
    { classes = true, names = true })

  local function dataset_of(recipe) return setmetatable({ recipe = recipe }, Dataset) end
  shared.dataset_of = dataset_of

  local function length_of(op, name, v)
    if flame.is_tensor(v) then
      if v.ndim == 0 then fail(op, "column '%s' is a tensor without an axis", name) end
      return v:size(1)
    elseif type(v) == "table" then return #v end
    fail(op, "column '%s' must be a tensor or a list, got %s", name, arguments.word(v))
  end

  -- The recipe of the dataset {name = tensor or list, …}: item i is {name = element i, …}.
  local function columns_recipe(op, t)
    local first, n
    local names = {}
    for name in next, t do names[#names + 1] = name end
    for _, name in ipairs(names) do
      if type(name) ~= "string" then
        fail(op, "a table is a list of items, or columns by name; it has the key %s too",
          tostring(name))
      end
    end
    table.sort(names)
    for _, name in ipairs(names) do
      local k = length_of(op, name, t[name])
      if n and k ~= n then
        fail(op, "column '%s' has %d items and '%s' %d", first, n, name, k)
      end
      first, n = first or name, n or k
    end
    return { kind = "columns", columns = t, n = n or 0 }
  end

  local function table_recipe(op, t)
    local recipe = #t > 0 and { kind = "list", list = t, n = #t } or columns_recipe(op, t)
    if recipe.n == 0 then fail(op, "the dataset has no items") end
    return recipe
  end

  -- The dataset d that the script gave to op; a plain table t means data.dataset(t).
  local function need_dataset(op, d)
    if getmetatable(d) == Dataset then return d end
    if getmetatable(d) ~= nil then fail(op, "dataset must be a dataset or a plain table") end
    return dataset_of(table_recipe(op, d))
  end

  --- A dataset of n items that a function makes, or of the items of a table. item(i, given, random)
  --- gives the parts of item i, one or more: tensors, numbers, strings, plain tables of them.
  --- random() is uniform in [0, 1) and depends only on the loader's seed, the epoch and i, as do
  --- flame's random numbers in the function. item may also be the source text of a function, or the
  --- name of a module that returns one. A table is a list of items, or {name = tensor or list}, of
  --- which an item is {name = element}.
  put(data, [[data.dataset(n: int, item: fn|str, *, given?: any) -> Dataset
data.dataset(items: table) -> Dataset]], function(n, item, given)
    if n < 1 then fail("dataset", "n must be a positive integer, got %d", n) end
    return dataset_of { kind = "call", n = n, item = item, given = given }
  end, function(t) return dataset_of(table_recipe("dataset", t)) end)

  function Dataset:__len() return self.recipe.n end

  --- The parts of item i, as in epoch 0 of a loader with seed 0.
  put(Dataset, "Dataset:item(i: int) -> any", function(self, i)
    if i < 1 or i > #self then fail("item", "item %d of %d", i, #self) end
    local ok, made = pcall(function() return items.parts(items.get_of(self.recipe), i, 0, 0) end)
    if not ok then shared.item_failed("item", made) end
    return table.unpack(made, 1, made.n)
  end)

  --- The dataset whose items are the results of f(part, …, random) for the items of this one;
  --- random is that of data.dataset.
  put(Dataset, "Dataset:map(f: fn|str) -> Dataset", function(self, f)
    local new = dataset_of { kind = "map", n = #self, base = self.recipe, map = f }
    rawset(new, "classes", rawget(self, "classes"))
    return new
  end)

  -- The sizes of the parts of n items. 'parts' are integers that sum to n, or fractions that sum to
  -- 1; items left over by rounding go to the first parts.
  local function part_sizes(n, parts)
    local sizes, total, sum, whole = {}, 0, 0, true
    for k, p in ipairs(parts) do
      if type(p) ~= "number" or not (p >= 0) then
        fail("split", "part %d is %s, need a number of 0 or more", k, tostring(p))
      end
      whole, sum = whole and math.type(p) == "integer", sum + p
    end
    if #parts == 0 then fail("split", "parts must be a list of fractions, got an empty one") end
    if not whole and math.abs(sum - 1) > 1e-6 then
      fail("split", "the fractions sum to %.6g, need 1", sum)
    elseif whole and sum ~= n then
      fail("split", "the parts sum to %d, the dataset has %d", sum, n)
    end
    for k, p in ipairs(parts) do
      sizes[k] = whole and p or math.floor(p * n + 1e-9)
      total = total + sizes[k]
    end
    for k = 1, n - total do
      local to = (k - 1) % #sizes + 1
      sizes[to] = sizes[to] + 1
    end
    for k, size in ipairs(sizes) do
      if size == 0 then fail("split", "part %d of the %d items would be empty", k, n) end
    end
    return sizes
  end

  --- The dataset in parts, by fractions that sum to 1 or numbers of items; an item is in one part.
  --- The same seed gives the same parts; shuffle = false cuts the items in order.
  put(data, [[data.split(dataset: Dataset|table, parts: num[], *, seed: int = 0, shuffle = true)
    -> part: Dataset, ...]], function(dataset, parts, seed, shuffle)
    dataset = need_dataset("split", dataset)
    local n = #dataset
    local sizes, order, from, out = part_sizes(n, parts), nil, 0, {}
    if shuffle then order = items.order(n, items.generator(items.mix(seed))) end
    for k, size in ipairs(sizes) do
      local at = {}
      for i = 1, size do at[i] = order and order[from + i] or from + i end
      out[k] = dataset_of { kind = "subset", n = size, base = dataset.recipe, at = at }
      rawset(out[k], "classes", rawget(dataset, "classes"))
      from = from + size
    end
    return table.unpack(out)
  end)

  -- ---- the loader -------------------------------------------------------------------------------
  local Loader = { __name = "Loader" }
  objects.classes.Loader = Loader
  Loader.__index, Loader.__newindex = objects.closed("a loader", Loader, { size = true,
    shuffle = true, drop_last = true, workers = true, prefetch = true, device = true, seed = true,
    epoch = true })

  --- Raises an error of items.parts or items.batch again, as a message of op that names the item.
  function shared.item_failed(op, why)
    if type(why) ~= "table" or not why.why then
      why = tostring(why)
      if why:find("interrupted!$") then error(why, 0) end
      internal.fail(op, why)
    end
    internal.fail(op, why.item and why.item ~= 0 and ("item %d: %s"):format(why.item, why.why)
      or why.why)
  end

  -- The numbers of the items of batch k (both from 1 on), as a list; nil if there is no batch k.
  local function items_of(self, k)
    local first, count = shared.span(self, k)
    if not first then return nil end
    if self.shuffle and not self.order then
      self.order = items.order(self.n, items.generator(items.mix(self.seed) + self.epoch))
    end
    local at = {}
    for i = 1, count do at[i] = self.order and self.order[first + i - 1] or first + i - 1 end
    return at
  end

  -- All tensors of v on the device.
  local function moved(v, device)
    if flame.is_tensor(v) then return v:to(device) end
    if type(v) ~= "table" or getmetatable(v) ~= nil then return v end
    for key, part in next, v do
      if type(part) == "table" or flame.is_tensor(part) then v[key] = moved(part, device) end
    end
    return v
  end

  local function start(self)
    local ok, setup = pcall(function()
      return cross.pack({ dataset = items.portable(self.recipe), path = package.path,
        cpath = package.cpath, dtype = flame.default_dtype(),
        collate = self.collate and cross.code(self.collate, "collate") }, "")
    end)
    if not ok then internal.fail("loader", setup) end
    self.crew = internal.crew_open(self.workers, setup)
  end

  -- Drops all requests that were made.
  local function forget(self)
    self.asked, self.tickets = self.at, {}
    if self.crew then internal.crew_forget(self.crew, self.ticket + 1) end
  end

  -- Sends requests to the workers until 'prefetch' batches per worker are requested ahead.
  local function ask(self)
    if not self.crew then start(self) end
    while self.asked < self.at + self.workers * self.prefetch do
      local at = items_of(self, self.asked + 1)
      if not at then return end
      self.asked, self.ticket = self.asked + 1, self.ticket + 1
      self.tickets[self.asked] = self.ticket
      internal.crew_send(self.crew, self.ticket,
        cross.pack({ at = at, seed = self.seed, epoch = self.epoch }, "the request"))
    end
  end

  -- Waits for batch k from the workers and returns it; raises what items.batch raised there.
  local function taken(self, k)
    local answer, why
    repeat answer, why = internal.crew_take(self.crew, self.tickets[k]) until answer ~= true
    self.tickets[k] = nil
    if not answer then error(why, 0) end
    answer = cross.unpack(answer, "cpu")
    if answer[1] then return answer[2] end
    error({ item = answer[2], why = answer[3] }, 0)
  end

  local function made_here(self, at)
    self.get = self.get or items.get_of(self.recipe)
    self.how = self.how or (self.collate and cross.callable(self.collate, "collate"))
    return items.batch(self.get, self.how, at, self.seed, self.epoch)
  end

  local function end_epoch(self)
    self.at, self.epoch, self.order = 0, self.epoch + 1, false
    forget(self)
  end

  --- The next batch: its number in the epoch and its parts; nil ends the epoch. After an error the
  --- loader's position is unchanged.
  put(Loader, "Loader:next() -> number: int, parts: any", function(self)
    if self.closed then fail("loader", "the loader is closed") end
    local k = self.at + 1
    local at = items_of(self, k)
    if not at then
      end_epoch(self)
      return nil
    end
    if self.workers > 0 then ask(self) end
    local ok, made
    if self.workers > 0 then ok, made = pcall(taken, self, k)
    else ok, made = pcall(made_here, self, at) end
    if not ok then
      forget(self)
      shared.item_failed("loader", made)
    end
    self.at = k
    if self.workers > 0 then ask(self) end
    moved(made, self.device or flame.default_device())
    return k, table.unpack(made, 1, made.n)
  end)
  function Loader:__call() return self:next() end

  --- The number of batches of an epoch.
  function Loader:__len() return shared.batches_of(self) end

  --- The position, to be saved: load_state, or {state = it}, continues from it, bit for bit and
  --- with any number of workers. Batches that workers made ahead do not count.
  put(Loader, "Loader:state() -> table", shared.state_of)
  Loader.state_dict = Loader.state
  --- Goes to a position that state() gave.
  put(Loader, "Loader:load_state(state: table)", function(self, s)
    shared.check_state(s, "load_state")
    self.at = shared.position("load_state", s, self.size * self.shard[2])
    self.seed, self.epoch, self.order = s.seed, s.epoch, false
    forget(self)
  end)
  Loader.load_state_dict = Loader.load_state
  --- Ends the workers. They also end when the loader is collected, or leaves a block as <close>.
  put(Loader, "Loader:close()", function(self)
    if self.crew then internal.crew_close(self.crew) end
    self.crew, self.closed = false, true
  end)
  function Loader:__close() self:close() end

  -- A loader of options o at position s; absent fields are false, since reading nil raises.
  local function new_loader(o, s)
    local at = shared.position("loader", s, o.size * o.shard[2])
    o.n, o.seed, o.epoch, o.at, o.asked = o.recipe.n, s.seed, s.epoch, at, at
    for _, name in ipairs { "crew", "order", "get", "how", "closed" } do o[name] = false end
    o.tickets, o.ticket = {}, 0
    return setmetatable(o, Loader)
  end

  --- for i, x, y in data.loader(dataset, {size = 64, shuffle = true, workers = 4}) do … end
  --- Batches of a dataset, one epoch per loop: the parts of items, each collated: tensors stacked,
  --- numbers as a tensor, strings as a list, tables by key; collate(xs, ys, …) gets the list of
  --- each part instead. Tensors go to 'device'. With workers, threads with separate Lua states make
  --- them, 'prefetch' batches ahead each; order and bits are those of workers = 0. The functions
  --- (of the dataset, of map, collate) then use no local of the script but modules, which are
  --- required again, and no global that it made; data.dataset's option 'given' is copied to each
  --- worker. shard: as in data.batches.
  put(data, [[data.loader(dataset: Dataset|table, size: int = 32, *, shuffle = false,
    drop_last = false, workers: int = 0, prefetch: int = 2, collate?: fn|str, device?: device,
    seed?: int, state?: table, shard?: bool|int[]) -> Loader]],
    function(dataset, size, shuffle, drop_last, workers, prefetch, collate, device, seed, state,
      shard)
    dataset = need_dataset("loader", dataset)
    shared.check_size("loader", size)
    if workers < 0 or workers > 256 then
      fail("loader", "workers must be 0 to 256, got %d", workers)
    end
    if prefetch < 1 then fail("loader", "prefetch must be a positive integer, got %d", prefetch) end
    local s = shared.check_state(
      state or { seed = seed or (shuffle and shared.own_seed() or 0), epoch = 0, at = 0 }, "loader")
    shard, seed = shared.shard_of("loader", shard, s, seed or state, dataset.recipe.n, size,
      shuffle)
    return new_loader({ recipe = dataset.recipe, size = size, shuffle = shuffle,
      drop_last = drop_last, workers = workers, prefetch = prefetch, collate = collate or false,
      device = device or false, shard = shard },
      { seed = seed, epoch = s.epoch, at = s.at, each = s.each })
  end)
end
