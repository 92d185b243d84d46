--- Event files for TensorBoard, written without its libraries. A file is a sequence of records:
-- length (8 bytes), masked CRC of the length, the event, masked CRC of the event; the CRC is
-- CRC-32C (Castagnoli), little-endian like all other numbers. An event is a message of protocol
-- buffers; the numbers of its fields are those of TensorBoard's event.proto and summary.proto.
local flame = require "flame"
local internal = flame.internal
local objects = require "flame.base.objects"

local BINS = 64
local huge = math.huge

local function fail(op, message, ...) internal.fail("tensorboard." .. op, message:format(...)) end

-- ---- records ------------------------------------------------------------------------------------

local crcs = {}
for i = 0, 255 do
  local c = i
  for _ = 1, 8 do c = c & 1 == 1 and (c >> 1) ~ 0x82F63B78 or c >> 1 end
  crcs[i] = c
end

local function masked_crc(s)
  local c = 0xFFFFFFFF
  for at = 1, #s, 4096 do
    local bytes = { s:byte(at, at + 4095) }
    for i = 1, #bytes do c = crcs[(c ~ bytes[i]) & 255] ~ (c >> 8) end
  end
  c = c ~ 0xFFFFFFFF
  return ((c >> 15 | c << 17) + 0xA282EAD8) & 0xFFFFFFFF
end

local function record(event)
  local length = string.pack("<I8", #event)
  return length .. string.pack("<I4", masked_crc(length)) .. event
    .. string.pack("<I4", masked_crc(event))
end

-- ---- messages: a field is its number and the kind of encoding, then its value -------------------

local function varint(v)
  local out = {}
  while v > 127 or v < 0 do                    -- as an unsigned number
    out[#out + 1] = string.char(v & 127 | 128)
    v = v >> 7
  end
  return table.concat(out) .. string.char(v)
end

local function integer(field, v) return varint(field << 3) .. varint(v) end
local function double(field, v) return varint(field << 3 | 1) .. string.pack("<d", v) end
local function bytes(field, s) return varint(field << 3 | 2) .. varint(#s) .. s end
local function single(field, v)
  if v > 3.4028234663852886e38 and v < huge then v = huge end
  if v < -3.4028234663852886e38 and v > -huge then v = -huge end
  return varint(field << 3 | 5) .. string.pack("<f", v)
end
local function doubles(field, list)
  local out = {}
  for i, v in ipairs(list) do out[i] = string.pack("<d", v) end
  return bytes(field, table.concat(out))
end

-- ---- a writer -----------------------------------------------------------------------------------

local Writer = { __name = "EventWriter" }
objects.classes.EventWriter = Writer

--- Adds a method to the class Writer; text declares its name and arguments (src/lua/declare.h).
--- Error messages call it tensorboard.name.
local function put(text, f)
  local name = text:match(":([%w_]+)%(")
  Writer[name] = internal.declare(text, "tensorboard." .. name, f)
end

Writer.__index, Writer.__newindex = objects.closed("a writer of data.tensorboard", Writer,
  { path = true, file = true, time = true })

local function write(self, op, text)
  if not self.file then fail(op, "%s is closed", self.path) end
  local ok, why = self.file:write(text)
  if ok then ok, why = self.file:flush() end
  if not ok then fail(op, "%s: %s", self.path, why) end
  return self
end

local function need(op, tag, step)
  if tag == "" or not utf8.len(tag) then
    fail(op, "tag must be a text of UTF-8 that is not empty, got %q", tag)
  end
  if step < 0 then fail(op, "step must be an integer from 0 on, got %d", step) end
end

local function add(self, op, tag, step, value)
  local summary = bytes(1, bytes(1, tag) .. value)
  return write(self, op, record(double(1, self.time()) .. integer(2, step) .. bytes(5, summary)))
end

--- Adds a number to the curve of a tag: a loss, a rate. A tensor of one element is read.
put("EventWriter:scalar(tag: str, value: num|T, step: int) -> self",
  function(self, tag, value, step)
  need("scalar", tag, step)
  if flame.is_tensor(value) then
    if value:numel() ~= 1 then
      fail("scalar", "value has %d elements, need one\1: give its mean()", value:numel())
    end
    value = value:detach():double():item()
  end
  return add(self, "scalar", tag, step, single(2, value))
end)

--- Adds an image, as flame.plot.image takes it.
put("EventWriter:image(tag: str, x: T, step: int) -> self", function(self, tag, x, step)
  need("image", tag, step)
  require "flame.image"
  local y = internal.image_opaque("tensorboard.image", x)
  local h, w = y:size(2), y:size(3)
  return add(self, "image", tag, step,
    bytes(4, integer(1, h) .. integer(2, w) .. integer(3, 3) .. bytes(4, internal.io_png_bytes(y))))
end)

-- BINS bins of equal width from lo to hi, or two if lo is hi: their upper limits, their counts.
local function bins_of(x, lo, hi)
  if lo == hi then
    local span = math.max(math.abs(lo) * 1e-6, 1e-12)
    return { lo, lo + span }, { x:numel(), 0 }
  end
  local width, limits = hi / BINS - lo / BINS, {}
  for i = 1, BINS - 1 do limits[i] = lo + i * width end
  limits[BINS] = hi
  local at = ((x - lo) / (hi - lo) * BINS):floor():clamp(0, BINS - 1):long() + 1
  return limits, at:bincount(nil, BINS):double():totable()
end

--- Adds the distribution of a tensor's finite values, in 64 bins.
put("EventWriter:histogram(tag: str, x: T, step: int) -> self", function(self, tag, x, step)
  need("histogram", tag, step)
  local flat = x:detach():cpu():to("f64"):reshape(-1)
  local finite = flat:masked_select(flat:isfinite())
  local n, lo, hi, sum, squares, limits, counts = finite:numel(), 0, 0, 0, 0, { 0 }, { 0 }
  if n > 0 then
    lo, hi, sum, squares = finite:amin():item(), finite:amax():item(), finite:sum():item(),
      (finite * finite):sum():item()
    limits, counts = bins_of(finite, lo, hi)
  end
  return add(self, "histogram", tag, step,
    bytes(5, double(1, lo) .. double(2, hi) .. double(3, n) .. double(4, sum)
    .. double(5, squares) .. doubles(6, limits) .. doubles(7, counts)))
end)

--- Closes the file; nothing can be added any more. A writer declared as local w <close> is closed
--- at the end of its block.
put("EventWriter:close()", function(self)
  if self.file then self.file:close() end
  self.file = false
end)
function Writer:__close() self:close() end

local function exists(path)
  local f = internal.open(path, "rb")
  if f then f:close() end
  return f ~= nil
end

local function open(folder, time)
  local function refuse(text, ...) internal.fail("tensorboard", text:format(...)) end
  if folder == "" then refuse("folder must be a path, got an empty string") end
  time = time or os.time
  local made, why = internal.io_make_folder(folder)
  if not made then refuse("%s: %s", folder, why) end
  local base = ("%s/events.out.tfevents.%010d.flame"):format(folder, math.floor(time()))
  local path, k = base, 1
  while exists(path) do path, k = base .. "." .. k, k + 1 end
  local file, wrong = internal.open(path, "wb")
  if not file then refuse("%s", wrong) end
  local self = setmetatable({ path = path, file = file, time = function() return time() + 0.0 end },
    Writer)
  return write(self, "open", record(double(1, self.time()) .. bytes(3, "brain.Event:2")))
end

return { open = open, Writer = Writer }
