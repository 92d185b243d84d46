--- Data: readers of files (numbers come unchanged), batches, and small helpers for scripts.
-- Event files are in data/tensorboard.lua. Nothing here touches the global random state: shuffling
-- and data.random have separate generators. A gzip file is read wherever a file is.
local flame = require "flame"
local internal = flame.internal
local arguments = require "flame.base.arguments"
local objects = require "flame.base.objects"
local items = require "flame.data.items"

local data = {}

local function fail(op, message, ...) internal.fail(op, message:format(...)) end

-- Adds to table t what 'text' declares (src/lua/declare.h); '...': a function per signature.
local function put(t, text, ...) t[text:match("([%w_]+)%(")] = internal.declare(text, "", ...) end

-- ---- random numbers, apart from the script's ----------------------------------------------------

local mix, generator = items.mix, items.generator
local random = generator(0)

--- A uniform number in [0, 1), from a generator that no tensor operation uses.
put(data, "data.random() -> num", function() return random() end)

--- Seeds data.random.
put(data, "data.seed(seed: int)", function(seed) random = generator(seed) end)

-- ---- readers -----------------------------------------------------------------------------------

--- An IDX file (MNIST's format), gzip or not, in the file's dtype, unscaled.
put(data, "data.idx(path: str) -> T", function(path) return internal.io_load_idx(path) end)

--- A .npy file.
put(data, "data.npy(path: str) -> T", function(path) return internal.io_load_npy(path) end)

local function list_of(op, folder)
  local found, why = internal.io_list(folder)
  if not found then fail(op, "%s: %s", folder, why) end
  local names = {}
  for name in pairs(found) do names[#names + 1] = name end
  table.sort(names)
  return names, found
end

local function is_folder(path) return internal.io_list(path) ~= nil end

--- Path of 'name' or 'name.gz' in a folder; raises if it has neither.
put(data, "data.find(folder: str, name: str) -> str", function(folder, name)
  local names, kinds = list_of("find", folder)
  for _, candidate in ipairs { name, name .. ".gz" } do
    if kinds[candidate] == "f" or kinds[candidate] == "l" then return folder .. "/" .. candidate end
  end
  local some = table.concat(names, ", ", 1, math.min(#names, 12))
  fail("find", "no %s or %s.gz in %s, there is: %s%s", name, name, folder,
    #names == 0 and "nothing" or some,
    #names > 12 and (" and %d more"):format(#names - 12) or "")
end)

--- Folder of the licence texts that every Debian machine has.
put(data, "data.licences() -> str", function()
  local path = "/usr/share/common-licenses"
  if not is_folder(path) then
    fail("licences", "no %s on this machine\1: name a text with --data", path)
  end
  return path
end)

-- Text of a file, of the files of a folder in order of their names (without links, which name the
-- same text again, and names that begin with a dot), or of a list of such paths.
local function gather(source, parts, depth)
  if type(source) == "table" then
    if depth > 100 then
      fail("text", "lists of paths are nested deeper than 100, or one holds itself")
    end
    for _, path in ipairs(source) do gather(path, parts, depth + 1) end
    return
  end
  if type(source) ~= "string" then
    fail("text", "path must be a string, got %s", arguments.word(source))
  end
  if is_folder(source) then
    local names, kinds = list_of("text", source)
    for _, name in ipairs(names) do
      if kinds[name] == "f" and name:sub(1, 1) ~= "." then
        parts[#parts + 1] = internal.io_read(source .. "/" .. name, "text")
      end
    end
  else
    parts[#parts + 1] = internal.io_read(source, "text")
  end
end

local function shown(c)
  return c:find("^[\x20-\x7e]$") and ("'%s'"):format(c) or ("byte 0x%02x"):format(c:byte())
end

--- A text as ids from 1, one for each byte: {ids =, vocab =, encode =, decode =}. vocab is the
--- sorted list of the characters that occur; encode gives a list of ids, decode takes one or a
--- tensor. The source is a file, a folder or a list of them, in which lists may be nested.
put(data, "data.text(source: str|any[]) -> table", function(source)
  local parts = {}
  gather(source, parts, 1)
  local text = table.concat(parts)
  if #text == 0 then fail("text", "%s: no text", type(source) == "table" and "list" or source) end
  local vocab, id_of, lookup = {}, {}, {}
  for byte = 0, 255 do
    local c = string.char(byte)
    if text:find(c, 1, true) then
      vocab[#vocab + 1] = c
      id_of[c] = #vocab
    end
    lookup[byte + 1] = id_of[c] or 0
  end
  local bytes = flame.from_bytes(text, { #text }, "u8", { device = "cpu" })
  local ids = flame.tensor(lookup, { dtype = "i64", device = "cpu" })[bytes:long() + 1]
  local encode = internal.declare("encode(text: str) -> int[]", "", function(s)
    local list = {}
    for i = 1, #s do
      local c = s:sub(i, i)
      list[i] = id_of[c] or fail("encode",
        "%s at position %d is not among the %d characters of the text", shown(c), i, #vocab)
    end
    return list
  end)
  local decode = internal.declare("decode(ids: T|any[]) -> str", "", function(list)
    if flame.is_tensor(list) then list = list:reshape(-1):totable() end
    local out = {}
    for i, id in ipairs(list) do
      out[i] = vocab[id]
        or fail("decode", "id %s at position %d, need 1 to %d", tostring(id), i, #vocab)
    end
    return table.concat(out)
  end)
  return { ids = ids:to(flame.default_device()), vocab = vocab, encode = encode, decode = decode }
end)

-- ---- batches ------------------------------------------------------------------------------------

local Batches = { __name = "Batches" }
objects.classes.Batches = Batches
Batches.__index, Batches.__newindex = objects.closed("batches", Batches,
  { size = true, shuffle = true, drop_last = true, prefetch = true, device = true, seed = true,
    epoch = true })

-- The seed of a loader that got none: derived from the script's seed and from the number of loaders
-- before it. This number restarts at 0 when the script sets its seed again.
local seedings, loaders = 0, 0
local function own_seed()
  if internal.io_seedings() ~= seedings then seedings, loaders = internal.io_seedings(), 0 end
  loaders = loaders + 1
  return mix(flame.rng_state().seed + mix(loaders))
end

-- The positions 1 … n in the order of this epoch, a CPU tensor.
local function order_of(self)
  local order = items.order(self.n, generator(mix(self.seed) + self.epoch))
  return flame.tensor(order, { dtype = "i64", device = "cpu" })
end

-- The order of this epoch as a tensor on 'device'; made once per device.
local function order_on(self, device)
  if not self.order[device] then
    -- held, so that the end of a flame.scope of the script does not release it
    self.order.cpu = self.order.cpu or internal.hold(order_of(self))
    self.order[device] = internal.hold(self.order.cpu:to(device))
  end
  return self.order[device]
end

-- ---- shards -------------------------------------------------------------------------------------
-- Rank k of n gets the k-th part of each n * size items in the order of the epoch. So a step of all
-- ranks has the items that one process with batches of n * size would take. All ranks have equally
-- many items: the last n_items % n of an epoch are left out.

local SHARDS <const>, LARGEST <const> = 1 << 20, 1 << 40
local function check_size(op, size)
  if size < 1 then fail(op, "size must be a positive integer, got %d", size) end
  if size > LARGEST then fail(op, "size is %d, need at most %d", size, LARGEST) end
end

-- {k, n} for an option 'shard', and the seed. shard = true means this rank of the distributed
-- group: raises if the ranks have other seeds (without a given one all use rank 1's), numbers of
-- items, sizes or positions, since they would not share out one order then.
local function shard_of(op, shard, s, given, count, size, shuffle)
  if not shard then return { 1, 1 }, s.seed end
  if shard == true then
    local distributed = require "flame.distributed"
    local k, n, seed = distributed.rank(), distributed.size(), s.seed
    local note = given and seed or 0
    for _, v in ipairs { count, size, shuffle and 1 or 0, s.epoch, s.at, s.each or 0 } do
      note = note * 31 + v
    end
    internal.same_on_ranks(op, note)
    if not given and n > 1 then
      seed = distributed.broadcast(flame.tensor(seed, { dtype = "i64", device = "cpu" })):item()
    end
    return { k, n }, seed
  end
  local k, n = shard[1], shard[2]
  if #shard ~= 2 or n < 1 or k < 1 or k > n then
    fail(op, "shard is {%s}, need {k, n} with k from 1 to n", table.concat(shard, ", "))
  end
  if n > SHARDS then fail(op, "shard has %d parts, need at most %d", n, SHARDS) end
  return { k, n }, s.seed
end

-- Batch b (from 1 on) of this rank: the position of its first item in the order of the epoch, and
-- its number of items; nil if the epoch has no batch b.
local function span(self, b)
  local k, n = self.shard[1], self.shard[2]
  local start = (b - 1) * self.size
  local count = math.min(self.size, self.n // n - start)
  if count < 1 or (self.drop_last and count < self.size) then return nil end
  return start * n + (k - 1) * count + 1, count
end

-- The number of batches of an epoch.
local function batches_of(self)
  local n = self.n // self.shard[2]
  return self.drop_last and n // self.size or (n + self.size - 1) // self.size
end

-- The loader's position as a table to be saved. For a shard it has 'each', the number of items
-- that a step takes on all ranks, so that another number of ranks can continue from it.
local function state_of(self)
  local n = self.shard[2]
  return { seed = self.seed, epoch = self.epoch, at = self.at,
    each = n > 1 and n * self.size or nil }
end

-- How many batches of 'each' items (on all ranks) are before position s; raises if s is in one.
local function position(op, s, each)
  local done = s.at * (s.each or each)
  if done % each ~= 0 then
    fail(op, "state: %d items of the epoch are done, which is not a multiple of the %d of a step",
      done, each)
  end
  return done // each
end

local function part(self, x, first, count)
  local y
  if self.shuffle then y = x:index_select(1, order_on(self, x.device):narrow(1, first, count))
  else y = x:narrow(1, first, count):contiguous() end
  return self.device and y:to(self.device) or y
end

-- Makes the batch after number self.made: {its number, part, …}; nil at the end of the epoch.
local function make(self)
  local first, count = span(self, self.made + 1)
  if not first then return nil end
  self.made = self.made + 1
  local out = { self.made }
  for k, x in ipairs(self.list) do out[k + 1] = part(self, x, first, count) end
  return out
end

--- The next batch: its number in the epoch and a part of each tensor; nil ends the epoch.
put(Batches, "Batches:next() -> number: int, parts: T", function(self)
  local ahead = self.ahead
  while #ahead <= self.prefetch do
    local batch = make(self)
    if not batch then break end
    if #ahead > 0 then internal.hold(table.unpack(batch, 2)) end          -- for a later step
    ahead[#ahead + 1] = batch
  end
  local batch = table.remove(ahead, 1)
  if not batch then
    self.at, self.made, self.epoch, self.order = 0, 0, self.epoch + 1, {}
    return nil
  end
  self.at = batch[1]
  return table.unpack(batch)
end)
function Batches:__call() return self:next() end

--- The number of batches of an epoch.
function Batches:__len() return batches_of(self) end

--- The position, to be saved; data.batches(…, {state = it}) continues from it, bit for bit. Batches
--- made ahead do not count.
put(Batches, "Batches:state() -> table", state_of)

local function check_state(s, op)
  for _, key in ipairs { "seed", "epoch", "at" } do
    if type(s) ~= "table" or math.type(s[key]) ~= "integer" then
      fail(op, "state needs the integers seed, epoch and at")
    end
  end
  if s.at < 0 or s.epoch < 0 then
    fail(op, "state: at is %d and epoch %d, need 0 or more", s.at, s.epoch)
  end
  return s
end
Batches.state_dict = Batches.state
--- Goes to a position that state() gave.
put(Batches, "Batches:load_state_dict(state: table)", function(self, s)
  check_state(s, "batches")
  local at = position("batches", s, self.size * self.shard[2])
  self.seed, self.epoch, self.at, self.made, self.order, self.ahead = s.seed, s.epoch,
    at, at, {}, {}
end)

--- for i, xb, yb in data.batches({x, y}, {size = 64, shuffle = true}) do … end
--- Parts of the first axis. The loop is one epoch; the same object gives the next one in another
--- order. 'prefetch' batches are recorded ahead, so that they are gathered (and copied to 'device')
--- together with the work of the batch before; it changes no value and no random number.
--- 'state' is a position that state() gave. shard = true: of each size * n items this rank gets
--- 'size', in a group of n ranks (flame.distributed); shard = {k, n}: it gets the k-th part of n.
put(data, [[data.batches(tensors: T|T[], size: int = 32, *, shuffle = false, drop_last = false,
  prefetch: int = 0, device?: device, seed?: int, state?: table, shard?: bool|int[]) -> Batches]],
  function(tensors, size, shuffle, drop_last, prefetch, device, seed, state, shard)
  if flame.is_tensor(tensors) then tensors = { tensors } end
  if #tensors == 0 then fail("batches", "need a list of tensors, got an empty one") end
  check_size("batches", size)
  if prefetch < 0 then
    fail("batches", "prefetch must be a number of batches, got %d", prefetch)
  end
  local n
  for i, x in ipairs(tensors) do
    if x.ndim == 0 then fail("batches", "item %d must be a tensor with an axis", i) end
    n = n or x:size(1)
    if x:size(1) ~= n then
      fail("batches", "the first axis of tensor 1 is %d and of tensor %d %d", n, i, x:size(1))
    end
  end
  if n == 0 then fail("batches", "the tensors have no rows") end
  local s = check_state(
    state or { seed = seed or (shuffle and own_seed() or 0), epoch = 0, at = 0 }, "batches")
  shard, seed = shard_of("batches", shard, s, seed or state, n, size, shuffle)
  local at = position("batches", s, size * shard[2])
  return setmetatable(
    { list = table.move(tensors, 1, #tensors, 1, {}), n = n, size = size, shuffle = shuffle,
    drop_last = drop_last, prefetch = prefetch, device = device, ahead = {},
    seed = seed, epoch = s.epoch, at = at, made = at, order = {}, shard = shard }, Batches)
end)

local shared = { fail = fail, put = put, own_seed = own_seed, check_state = check_state,
  shard_of = shard_of, span = span, batches_of = batches_of, state_of = state_of,
  position = position, check_size = check_size }
require "flame.data.csv"(data, shared)
require "flame.data.loader"(data, shared)
require "flame.data.files"(data, shared)

-- ---- digits that need no file -------------------------------------------------------------------

-- The segments of a seven-segment digit, each from (x, y) to (x, y) on a 2 by 4 grid; then the
-- segments of each digit.
local segments = { { 0, 0, 2, 0 }, { 2, 0, 2, 2 }, { 2, 2, 2, 4 }, { 0, 4, 2, 4 }, { 0, 2, 0, 4 },
  { 0, 0, 0, 2 }, { 0, 2, 2, 2 } }
local strokes = { [0] = "123456", "23", "12754", "12734", "6723", "16734", "165437", "123",
  "1234567", "167234" }

local function draw_digit(digit, draw, image)
  local scale, thick = 3.4 + 1.4 * draw(), 0.9 + 0.9 * draw()
  local left, top, lean = 7 + 5 * draw(), 3 + 5 * draw(), 0.5 * (draw() - 0.5)
  for i = 1, 784 do image[i] = 0.12 * draw() end
  for stroke in strokes[digit]:gmatch(".") do
    local s = segments[tonumber(stroke)]
    local x1, y1 = left + scale * s[1] + lean * scale * (2 - s[2]), top + scale * s[2]
    local x2, y2 = left + scale * s[3] + lean * scale * (2 - s[4]), top + scale * s[4]
    local dx, dy = x2 - x1, y2 - y1
    local long = dx * dx + dy * dy
    for y = math.max(0, math.floor(math.min(y1, y2) - 3)),
        math.min(27, math.ceil(math.max(y1, y2) + 3)) do
      for x = math.max(0, math.floor(math.min(x1, x2) - 3)),
          math.min(27, math.ceil(math.max(x1, x2) + 3)) do
        local t = math.max(0, math.min(1, ((x - x1) * dx + (y - y1) * dy) / long))
        local ex, ey = x - x1 - t * dx, y - y1 - t * dy
        local ink = 1 - math.max(0, math.sqrt(ex * ex + ey * ey) - thick)
        local i = y * 28 + x + 1
        if ink > image[i] then image[i] = ink end
      end
    end
  end
end

--- n drawn digits, always the same: images (n, 28, 28) of f32 in 0 … 1, and classes from 1 (for
--- the digit 0) to 10, i64.
put(data, "data.drawn_digits(n: int) -> images: T, labels: T", function(n)
  if n < 1 or n > 1000000 then fail("drawn_digits", "n is %d, need 1 to 1000000", n) end
  local draw, image, bytes, rows, labels = generator(28), {}, {}, {}, {}
  for k = 1, n do
    local digit = math.floor(10 * draw())
    labels[k] = digit + 1
    draw_digit(digit, draw, image)
    for i = 1, 784 do bytes[i] = string.char(math.floor(255 * image[i])) end
    rows[k] = table.concat(bytes)
  end
  local pixels = flame.from_bytes(table.concat(rows), { n, 28, 28 }, "u8")
  return pixels:float() / 255, flame.tensor(labels, { dtype = "i64" })
end)

--- A writer of event files for TensorBoard. Its methods are w:scalar(tag, value, step),
--- w:image(tag, x, step), w:histogram(tag, x, step) and w:close(). The folder is made if it does
--- not exist; each writer has its own file in it. time() returns the time of an event in seconds
--- (default: os.time).
put(data, "data.tensorboard(folder: str, *, time?: fn) -> EventWriter",
  function(...) return require("flame.data.tensorboard").open(...) end)

-- ---- for scripts --------------------------------------------------------------------------------

local script = require "flame.script"
data.options, data.progress = script.options, script.progress

return objects.namespace(data, "data")
