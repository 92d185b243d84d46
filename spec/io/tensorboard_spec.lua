-- data.tensorboard: its files are read by a reader in this spec, which shares no code with the
-- writer (it computes CRCs bit by bit and decodes messages by wire types), and by TensorBoard if
-- Python has it.

local flame = require "flame"
local data = require "flame.data"

local folder = os.tmpname()
os.remove(folder)
teardown(function() os.execute("rm -rf '" .. folder .. "'") end)

-- ---- a reader -----------------------------------------------------------------------------------

local function crc32c(s)
  local crc = 0xFFFFFFFF
  for i = 1, #s do
    local byte = s:byte(i)
    for bit = 0, 7 do
      local top = (crc ~ byte >> bit) & 1
      crc = crc >> 1
      if top == 1 then crc = crc ~ 0x82F63B78 end
    end
  end
  return crc ~ 0xFFFFFFFF
end
local function unmasked(v)
  local r = (v - 0xA282EAD8) & 0xFFFFFFFF
  return (r << 15 | r >> 17) & 0xFFFFFFFF
end

local function read_varint(s, at)
  local v, shift = 0, 0
  while true do
    local b = s:byte(at)
    v, at, shift = v | (b & 127) << shift, at + 1, shift + 7
    if b < 128 then return v, at end
  end
end

--- Decodes a protobuf message: field number -> list of values; 8- and 4-byte values as strings.
local function fields(s)
  local out, at = {}, 1
  while at <= #s do
    local key, v
    key, at = read_varint(s, at)
    if key & 7 == 0 then v, at = read_varint(s, at)
    else
      local n = key & 7 == 1 and 8 or key & 7 == 5 and 4
      if not n then
        assert.equal(2, key & 7)
        n, at = read_varint(s, at)
      end
      v = s:sub(at, at + n - 1)
      assert.equal(n, #v)
      at = at + n
    end
    out[key >> 3] = out[key >> 3] or {}
    table.insert(out[key >> 3], v)
  end
  return out
end
local function f64(s) return (string.unpack("<d", s)) end
local function f64s(s)
  local out = {}
  for i = 1, #s, 8 do out[#out + 1] = string.unpack("<d", s, i) end
  return out
end

local function events(path)
  local f <close> = assert(io.open(path, "rb"))
  local s, at, out = f:read("a"), 1, {}
  while at <= #s do
    local length = string.unpack("<I8", s, at)
    assert.equal(crc32c(s:sub(at, at + 7)), unmasked(string.unpack("<I4", s, at + 8)))
    local event = s:sub(at + 12, at + 11 + length)
    assert.equal(length, #event)
    assert.equal(crc32c(event), unmasked(string.unpack("<I4", s, at + 12 + length)))
    out[#out + 1] = fields(event)
    at = at + 16 + length
  end
  return out
end

--- The tag, the step and the decoded fields of the one value in an event.
local function value_of(event)
  local list = fields(event[5][1])[1]
  assert.equal(1, #list)
  local v = fields(list[1])
  return v[1][1], event[2][1], v
end

local function writer()
  return data.tensorboard(folder, { time = function() return 1700000000 end })
end

-- ---- the specs ----------------------------------------------------------------------------------

describe("data.tensorboard", function()
  it("has the CRC that its authors' examples have", function()
    assert.equal(0xE3069283, crc32c("123456789"))
    assert.equal(0x8A9136AA, crc32c(("\0"):rep(32)))
  end)
  it("makes the folder, and begins with the version", function()
    local w <close> = data.tensorboard(folder .. "/a/b", { time = function() return 12.5 end })
    assert.truthy(w.path:find("/a/b/events%.out%.tfevents%.0000000012%.flame$"))
    local list = events(w.path)
    assert.equal(1, #list)
    assert.equal("brain.Event:2", list[1][3][1])
    assert.equal(12.5, f64(list[1][1][1]))
  end)
  it("writes scalars of numbers and tensors", function()
    local w <close> = writer()
    local given = { 0, -1.5, 0.1, 1e300, -1e300, 0 / 0, math.huge, 3 }
    for i, v in ipairs(given) do w:scalar("loss/train", v, i - 1) end
    w:scalar("µ", flame.tensor(2.5), 2 ^ 40 | 0)
    w:scalar("loss/train", flame.tensor({ 7 }, { dtype = "i32" }), 300)
    local list = events(w.path)
    assert.equal(11, #list)
    for i, v in ipairs(given) do
      local tag, step, fields_of_value = value_of(list[i + 1])
      local got = string.unpack("<f", fields_of_value[2][1])
      local expected = math.abs(v) == 1e300 and v * 1e300
        or (string.unpack("<f", string.pack("<f", v)))
      assert.equal("loss/train", tag)
      assert.equal(i - 1, step)
      assert.is_true(got == expected or got ~= got and expected ~= expected)
    end
    local tag, step, v = value_of(list[10])
    assert.same({ "µ", 2 ^ 40, 2.5 }, { tag, step, (string.unpack("<f", v[2][1])) })
    tag, step, v = value_of(list[11])
    assert.same({ "loss/train", 300, 7 }, { tag, step, (string.unpack("<f", v[2][1])) })
  end)
  it("writes images as PNG", function()
    local w <close> = writer()
    local x = flame.randint({ 3, 5, 7 }, 0, 255):byte()
    w:image("picture", x, 4)
    w:image("grey", flame.tensor { { 0, 1 } }, 5)
    local list = events(w.path)
    local tag, step, v = value_of(list[2])
    local image = fields(v[4][1])
    assert.same({ "picture", 4, 5, 7, 3 }, { tag, step, image[1][1], image[2][1], image[3][1] })
    local name = folder .. "/x.png"
    local f = assert(io.open(name, "wb"))
    f:write(image[4][1])
    f:close()
    assert.is_true(flame.equal(x, flame.load(name)))
    f = assert(io.open(name, "wb"))
    f:write(fields(select(3, value_of(list[3]))[4][1])[4][1])
    f:close()
    assert.same({ { { 0, 255 } }, { { 0, 255 } }, { { 0, 255 } } }, flame.load(name):totable())
  end)
  it("writes histograms of the finite values", function()
    local w <close> = writer()
    local function histogram(x)
      w:histogram("weights", x, 0)
      local list = events(w.path)
      local h = fields(select(3, value_of(list[#list]))[5][1])
      local out = { limits = f64s(h[6][1]), counts = f64s(h[7][1]) }
      for i, name in ipairs { "min", "max", "num", "sum", "squares" } do
        out[name] = f64(h[i][1])
      end
      return out
    end
    local values = {}
    for i = 1, 1000 do values[i] = (i * 0.618034 % 1 - 0.3) ^ 3 end
    local h = histogram(flame.tensor(values, { dtype = "f64" }))
    local counts, sum, squares = {}, 0, 0
    for i = 1, 64 do counts[i] = 0 end
    for _, v in ipairs(values) do
      local k = 1
      while k < 64 and v >= h.limits[k] do k = k + 1 end
      counts[k], sum, squares = counts[k] + 1, sum + v, squares + v * v
    end
    assert.same(counts, h.counts)
    assert.same({ math.min(table.unpack(values)), math.max(table.unpack(values)), 1000 },
      { h.min, h.max, h.num })
    assert.close(sum, h.sum, 1e-9)
    assert.close(squares, h.squares, 1e-9)
    assert.equal(h.max, h.limits[64])
    h = histogram(flame.full({ 2, 3 }, 4))
    assert.same({ 4, 4, 6, 24, 96, { 6, 0 } }, { h.min, h.max, h.num, h.sum, h.squares, h.counts })
    assert.equal(2, histogram(flame.tensor { 1, 0 / 0, 3, math.huge }).num)
    assert.same({ 0, { 0 } },
      { histogram(flame.zeros(0)).num, histogram(flame.tensor { 0 / 0 }).counts })
    assert.equal(3, histogram(flame.tensor({ 1, 2, 2 }, { dtype = "i64" })).num)
    assert.equal(3, histogram(flame.tensor { true, false, true }).num)
  end)
  it("gives each writer its own file, and the same bytes for the same events", function()
    local a, b = writer(), writer()
    assert.is_true(a.path ~= b.path)
    local function read(w)
      w:scalar("x", 1, 2)
      w:close()
      local f <close> = assert(io.open(w.path, "rb"))
      return f:read("a")
    end
    assert.equal(read(a), read(b))
  end)
  it("refuses what does not fit", function()
    local raises = require("spec.support.helper").raises
    local w = writer()
    raises("tensorboard.scalar: value has 2 elements, need one: give its mean()", w.scalar, w, "a",
      flame.zeros(2), 0)
    raises("tensorboard.scalar: value must be a number or a tensor, got string",
      w.scalar, w, "a", "1", 0)
    raises("tensorboard.scalar: tag must be a string, got number",
      w.scalar, w, 3, 1, 0)
    raises("tensorboard.scalar: step must be an integer, got number 1.5", w.scalar,
      w, "a", 1, 1.5)
    raises("tensorboard.scalar: step must be an integer, got nothing", w.scalar, w, "a", 1)
    raises("tensorboard.scalar: step must be an integer from 0 on, got -1", w.scalar, w, "a", 1, -1)
    raises("tensorboard.scalar: tag must be a text of UTF-8 that is not empty", w.scalar, w, "", 1,
      1)
    raises("tensorboard.histogram: x must be a tensor, got table", w.histogram, w, "a", { 1 }, 0)
    raises("tensorboard.image: the shape of an image is", w.image, w, "a", flame.zeros(3), 0)
    raises("has no field 'scaler'; did you mean 'scalar'?", function() return w.scaler end)
    w:close()
    raises("is closed", w.scalar, w, "a", 1, 0)
    raises("tensorboard: no option 'tiem'", data.tensorboard, folder, { tiem = os.time })
    raises("tensorboard: folder must be a string, got nothing", data.tensorboard)
    raises("make_folder: path must be a string, got number", flame.internal.io_make_folder, 0 / 0)
    raises(w.path .. ": Not a directory", data.tensorboard, w.path)
    raises("/proc/none: No such file or directory", data.tensorboard, "/proc/none")
  end)
  it("is what TensorBoard reads", function()
    local ask = "python3 -c 'import tensorboard.backend.event_processing.event_accumulator' 2>/dev/null"
    if not os.execute(ask) then return pending("Python has no tensorboard") end
    local own = folder .. "/peer"
    local w = data.tensorboard(own)
    for i = 1, 3 do w:scalar("loss", 1 / i, i) end
    w:image("picture", flame.rand(3, 4, 5), 1)
    w:histogram("weights", flame.randn(100), 1)
    w:close()
    local program = "from tensorboard.backend.event_processing.event_accumulator import EventAccumulator as E; a = E(\"" .. own ..
      "\"); a.Reload(); print([s.step for s in a.Scalars(\"loss\")], a.Images(\"picture\")[0].width, " ..
      "a.Histograms(\"weights\")[0].histogram_value.num)"
    local pipe = assert(io.popen("python3 -c '" .. program .. "' 2>/dev/null"))
    local text = pipe:read("a")
    pipe:close()
    assert.equal("[1, 2, 3] 5 100.0\n", text)
  end)
end)
