-- PNG files: written images are read back, every kind of image is read, damaged ones are refused.
-- The images to read are encoded here, by code after the specification of the format.

local flame = require "flame"
local helper = require "spec.support.helper"

local folder = os.tmpname()
os.remove(folder)
assert(os.execute("mkdir -p '" .. folder .. "'"))
local path = folder .. "/a.png"
local function write(text)
  local f = assert(io.open(path, "wb"))
  f:write(text)
  f:close()
  return path
end
teardown(function() os.execute("rm -rf '" .. folder .. "'") end)

-- ---- an encoder ---------------------------------------------------------------------------------

local function crc32(s)
  local crc = 0xFFFFFFFF
  for i = 1, #s do
    crc = crc ~ s:byte(i)
    for _ = 1, 8 do crc = crc & 1 == 1 and (crc >> 1) ~ 0xEDB88320 or crc >> 1 end
  end
  return crc ~ 0xFFFFFFFF
end

local function chunk(kind, data)
  return string.pack(">I4", #data) .. kind .. data .. string.pack(">I4", crc32(kind .. data))
end

--- A short text as a zlib stream of one uncompressed block.
local function stored(raw)
  local a, b = 1, 0
  for i = 1, #raw do
    a = (a + raw:byte(i)) % 65521
    b = (b + a) % 65521
  end
  return "\x78\x01\1" .. string.pack("<I2I2", #raw, ~#raw & 0xFFFF) .. raw
    .. string.pack(">I4", b << 16 | a)
end

local passes = { { 0, 0, 8, 8 }, { 4, 0, 8, 8 }, { 0, 4, 4, 8 }, { 2, 0, 4, 4 }, { 0, 2, 2, 4 },
  { 1, 0, 2, 2 }, { 0, 1, 1, 2 } }
local samples = { [0] = 1, [2] = 3, [3] = 1, [4] = 2, [6] = 4 }

--- A list of the bytes of a row of samples of 'depth' bits, the first sample in the high bits.
local function packed(row, depth)
  local out, bits, n = {}, 0, 0
  for _, v in ipairs(row) do
    bits, n = bits << depth | v, n + depth
    while n >= 8 do
      n = n - 8
      out[#out + 1] = bits >> n & 255
      bits = bits & ((1 << n) - 1)
    end
  end
  if n > 0 then out[#out + 1] = bits << (8 - n) & 255 end
  return out
end

local function paeth(a, b, c)
  local p = a + b - c
  local pa, pb, pc = math.abs(p - a), math.abs(p - b), math.abs(p - c)
  return pa <= pb and pa <= pc and a or pb <= pc and b or c
end

local function filtered(filter, row, above, step)
  local out = { string.char(filter) }
  for i, x in ipairs(row) do
    local a, b, c = row[i - step] or 0, above[i] or 0, above[i - step] or 0
    local q = ({ [0] = 0, a, b, (a + b) // 2, paeth(a, b, c) })[filter]
    out[#out + 1] = string.char((x - q) & 255)
  end
  return table.concat(out)
end

--- The filtered rows, pass by pass if interlaced, of an image with samples v(x, y, channel).
local function rows(o, v)
  local out, step, filter = {}, math.max(1, o.depth * samples[o.type] // 8), 0
  for _, p in ipairs(o.interlaced and passes or { { 0, 0, 1, 1 } }) do
    local above = {}
    for y = p[2], o.height - 1, p[4] do
      local row = {}
      for x = p[1], o.width - 1, p[3] do
        for c = 0, samples[o.type] - 1 do row[#row + 1] = v(x, y, c) end
      end
      if #row == 0 then break end
      row = packed(row, o.depth)
      out[#out + 1] = filtered(filter, row, above, step)
      above, filter = row, (filter + 1) % 5
    end
  end
  return table.concat(out)
end

local signature = "\x89PNG\r\n\x1a\n"
local function head(o)
  return chunk("IHDR",
    string.pack(">I4I4BBBBB", o.width, o.height, o.depth, o.type, 0, 0, o.interlaced and 1 or 0))
end

local function encoded(o, v)
  local z = stored(rows(o, v))
  local palette = o.palette and chunk("PLTE", o.palette) or ""
  local clear = o.clear and chunk("tRNS", o.clear) or ""
  return signature .. head(o) .. chunk("gAMA", "\0\0\xb1\x8f") .. palette .. clear
    .. chunk("IDAT", z:sub(1, 5)) .. chunk("IDAT", z:sub(6))
    .. chunk("IEND", "")
end

--- The values and shape of a tensor whose channels at (x, y) are the list f(x, y), plane by plane.
local function planes(o, f)
  local out, n = {}, #f(0, 0)
  for c = 1, n do
    for y = 0, o.height - 1 do for x = 0, o.width - 1 do out[#out + 1] = f(x, y)[c] end end
  end
  return out, n == 1 and { o.height, o.width } or { n, o.height, o.width }
end

local function reads(o, v, f)
  local expected, shape = planes(o, f)
  local x = flame.load(write(encoded(o, v)))
  assert.equal(o.depth == 16 and "i32" or "u8", x.dtype)
  assert.same(shape, x.shape)
  assert.same(expected, x:reshape(-1):totable())
end

describe("flame.load of a PNG", function()
  for type, depths in pairs { [0] = { 1, 2, 4, 8, 16 }, [2] = { 8, 16 }, [4] = { 8, 16 },
      [6] = { 8, 16 } } do
    for _, depth in ipairs(depths) do
      it(("reads colour type %d with %d bits, interlaced or not, with a clear colour or not"):format(
        type, depth), function()
        local most, scale = (1 << depth) - 1, depth < 8 and 255 // ((1 << depth) - 1) or 1
        local function v(x, y, c)
          return (x * 37 + y * 11 * x + c * 5) * (depth == 16 and 257 or 1) & most
        end
        for _, size in ipairs { { 1, 1 }, { 3, 2 }, { 5, 9 }, { 11, 8 } } do
          for _, interlaced in ipairs { false, true } do
            for _, clear in ipairs { false, true } do
              local o = { type = type, depth = depth, width = size[1], height = size[2],
                interlaced = interlaced }
              local n, key = samples[type], clear and (type == 0 or type == 2)
              if key then
                o.clear = ""
                for c = 0, n - 1 do o.clear = o.clear .. string.pack(">I2", v(0, 0, c)) end
              end
              reads(o, v, function(x, y)
                local out, same = {}, true
                for c = 0, n - 1 do
                  out[c + 1] = v(x, y, c) * scale
                  same = same and v(x, y, c) == v(0, 0, c)
                end
                if key then out[n + 1] = same and 0 or (depth == 16 and 65535 or 255) end
                return out
              end)
            end
          end
        end
      end)
    end
  end

  it("reads palettes of 1 to 8 bits, clear or not", function()
    for _, depth in ipairs { 1, 2, 4, 8 } do
      local function v(x, y) return (x * 3 + y) & ((1 << depth) - 1) end
      local o = { type = 3, depth = depth, width = 9, height = 5, palette = "" }
      for k = 0, (1 << depth) - 1 do
        o.palette = o.palette .. string.char(k, 255 - k, k * 7 & 255)
      end
      local function colour(x, y) local k = v(x, y) return { k, 255 - k, k * 7 & 255 } end
      reads(o, v, colour)
      o.clear, o.interlaced = "\9", true
      reads(o, v, function(x, y)
        local out = colour(x, y)
        out[4] = v(x, y) == 0 and 9 or 255
        return out
      end)
    end
  end)
end)

describe("flame.save and flame.load of a PNG", function()
  it("give every shape and dtype back", function()
    flame.seed(1)
    for _, shape in ipairs { { 5, 7 }, { 2, 5, 7 }, { 3, 1, 1 }, { 4, 6, 2 } } do
      for dtype, most in pairs { u8 = 256, i32 = 65536 } do
        local x = (flame.rand(shape) * most):floor():to(dtype)
        flame.save(path, x)
        local y = flame.load(path)
        assert.equal(dtype, y.dtype)
        assert.same(shape, y.shape)
        assert.is_true(y:eq(x):all():item())
      end
    end
    flame.save(path, flame.ones { 1, 2, 3 })
    assert.same({ { 255, 255, 255 }, { 255, 255, 255 } }, flame.load(path):totable())
  end)

  it("refuse values and shapes that a PNG has not", function()
    for _, x in ipairs { flame.full({ 2, 2 }, 65536, { dtype = "i32" }),
      flame.full({ 2, 2 }, -1, { dtype = "i32" }), flame.ones({ 5, 2, 2 }), flame.ones(3),
      flame.ones({ 0, 2 }), flame.ones({ 2, 2 }, { dtype = "i64" }) } do
      assert.has_error(function() flame.save(path, x) end)
    end
  end)
end)

describe("a damaged PNG", function()
  local o = { type = 2, depth = 8, width = 3, height = 2 }
  local good = encoded(o, function(x, y, c) return x + y + c end)

  it("is refused cut off at any byte and with any byte another", function()
    for n = 4, #good - 1 do
      local why = helper.message(flame.load, write(good:sub(1, n)))
      assert.truthy(why:find("load: ", 1, true) and why:find("a.png", 1, true), why)
    end
    for n = 5, #good do
      helper.raises("load: ", flame.load,
        write(good:sub(1, n - 1) .. string.char(good:byte(n) ~ 64) .. good:sub(n + 1)))
    end
  end)

  it("is refused by what is wrong with it", function()
    local z, tail = stored(rows(o, function() return 0 end)), chunk("IEND", "")
    local function with(change) return head(setmetatable(change, { __index = o })) end
    local idat = chunk("IDAT", z)
    local small = { type = 3, depth = 8, width = 1, height = 1 }
    local function small_image(...)
      return head(small) .. table.concat({ ... }) .. chunk("IDAT", stored "\0\5") .. tail
    end
    for text, pattern in pairs {
      [idat] = "IHDR must come first",
      [head(o) .. head(o)] = "IHDR must come first, and once",
      [head(o) .. tail] = "there are no image data",
      [head(o) .. idat] = "8 bytes were to come",
      [with { depth = 4 } .. idat .. tail] = "there is no colour type 2 with 4 bits",
      [with { type = 5 } .. idat .. tail] = "there is no colour type 5",
      [with { depth = 3, type = 0 } .. idat .. tail] = "there is no colour type 0 with 3 bits",
      [with { width = 0 } .. idat .. tail] = "0 columns and 2 rows",
      [with { width = 1 << 31 } .. idat .. tail] = "columns and 2 rows, need 1 to 2^31 - 1",
      [with { width = 0x7fffffff, height = 0x7fffffff } .. idat .. tail] = "the image is too large",
      [with { width = 0x7fffffff } .. idat .. tail] = "do not fit into",
      [with { width = 4 } .. idat .. tail] = "the packed data hold fewer than 26 bytes",
      [with { width = 2 } .. idat .. tail] = "the packed data hold more than 14 bytes",
      [head(o) .. idat .. chunk("tEXt", "x") .. idat .. tail] = "image data are not in one piece",
      [head(o) .. chunk("IDAT", z:sub(1, -5))
        .. tail] = "the packed data ends too early after 20 unpacked bytes",
      [head(o) .. chunk("IDAT", "xyz") .. tail] = "damaged packed data after 0 unpacked bytes",
      [head(o) .. chunk("ABCD", "") .. idat .. tail] = "a chunk that is critical and unknown",
      [head(o) .. chunk("tRNS", "\0\0") .. idat
        .. tail] = "tRNS of 2 bytes does not fit colour type 2",
      [with { type = 6 } .. chunk("tRNS", "") .. idat
        .. tail] = "tRNS of 0 bytes does not fit colour type 6",
      [head(o) .. chunk("IDAT", stored(("\7" .. ("\0"):rep(9)):rep(2)))
        .. tail] = "a row has the filter 7",
      [head(o) .. string.pack(">I4", 0x7fffffff)
        .. "tEXt"] = "cut off: a chunk of 2147483647 bytes",
      [small_image()] = "colour type 3 has no palette",
      [small_image(chunk("PLTE", "\1\2\3"))] = "a colour beyond the palette's 1",
      [small_image(chunk("PLTE", "\1\2"))] = "a palette of 2 bytes",
      [small_image(chunk("tRNS", "\1"), chunk("PLTE", "\1\2\3"))] = "tRNS of 1 bytes",
    } do
      helper.raises(pattern, flame.load, write(signature .. text))
    end
  end)
end)
