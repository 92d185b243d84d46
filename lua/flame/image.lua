--- Images: PNG files, several as one, other sizes. An image is a tensor (h, w) or (channels, h, w)
-- with 1 channel (grey), 2 (grey, alpha), 3 (colour) or 4 (colour, alpha): u8, or floats from 0 to
-- 1.
local flame = require "flame"
local internal = flame.internal
local arguments = require "flame.base.arguments"
local objects = require "flame.base.objects"

local image = {}

local function fail(op, message, ...) internal.fail(op, message:format(...)) end
--- Adds a function to the module; text declares its name and arguments (src/lua/declare.h).
local function def(text, f)
  local name = text:match("^[%w_.]+")
  image[name:match("[%w_]+$")] = internal.declare(text, name, f)
end
local function shape_of(x) return "(" .. table.concat(x.shape, ", ") .. ")" end

local word = arguments.word

local function need_image(op, x)
  if not flame.is_tensor(x) then fail(op, "an image must be a tensor, got %s", word(x)) end
  local channels = x.ndim == 3 and x:size(1) or 1
  if x.ndim < 2 or x.ndim > 3 or channels < 1 or channels > 4 then
    fail(op, "the shape of an image is (h, w) or (1 to 4, h, w), got %s%s", shape_of(x),
      x.ndim == 3 and x:size(3) <= 4 and "\1: make permute(3, 1, 2) of channels last" or "")
  end
  if not x:is_floating_point() and x.dtype ~= "u8" then
    fail(op, "an image must be u8, or floats from 0 to 1, got %s", x.dtype)
  end
  return x
end

--- Reads a PNG file as (h, w) or (channels, h, w), u8 or, of 16 bits per
--- channel, i32. With float = true f32 from 0 to 1.
def("image.load(path: str, *, float = false, device?: device) -> T", function(path, float, device)
  local x = internal.io_load_png(path, device or flame.default_device())
  if float then return x:float() / (x.dtype == "i32" and 65535 or 255) end
  return x
end)

--- Writes a PNG file of u8, i32 from 0 to 65535 (16 bits per channel), or floats from 0 to 1.
def("image.save(path: str, x: T)", function(path, x)
  if not path:lower():find("%.png$") then
    fail("image.save", "%s: images are written as .png", path)
  end
  flame.save(path, x)
end)

--- Several images as one, row by row. x: (n, h, w) or (n, channels, h, w); padding: pixels of
--- 'value' between them. normalize: scales the values to the range from 0 to 1.
def([[image.make_grid(x: T, *, columns: int = 8, padding: int = 2, value = 0.0, normalize = false) -> T]],
function(x, most, p, value, normalize)
  local op = "image.make_grid"
  if x.ndim < 3 or x.ndim > 4 then
    fail(op, "need a tensor (n, h, w) or (n, channels, h, w), got %s", shape_of(x))
  end
  if most < 1 then fail(op, "columns must be an integer from 1 on, got %d", most) end
  if p < 0 then fail(op, "padding must be an integer from 0 on, got %d", p) end
  local n = x:size(1)
  if x:numel() == 0 then fail(op, "the images have no pixels: %s", shape_of(x)) end
  if normalize then
    x = x:is_floating_point() and x or x:float()
    local lo, hi = x:amin(), x:amax()
    x = (x - lo) / (hi - lo):clamp(1e-12, math.huge)
  end
  if x.ndim == 3 then x = x:unsqueeze(2) end
  local columns = math.min(most, n)
  local rows, c = (n + columns - 1) // columns, x:size(2)
  local h, w = x:size(3) + p, x:size(4) + p
  local padded = x:pad({ 0, p, 0, p }, { value = value })
  if rows * columns > n then
    padded =
      flame.cat({ padded,
        flame.full({ rows * columns - n, c, h, w }, value,
          { dtype = x.dtype, device = x.device }) }, 1)
  end
  local all = padded:reshape(rows, columns, c, h, w):permute(3, 1, 4, 2, 5):reshape(c,
    rows * h, columns * w)
  all = all:pad({ p, 0, p, 0 }, { value = value })
  return c == 1 and all:squeeze(1) or all
end)

--- An image, or a batch (n, channels, h, w), in another size {h, w}. A number is the length of the
--- shorter side; u8 stays u8.
def([[image.resize(x: T, size: int|int[], *, mode: "bilinear"|"nearest"|"bicubic"|"area" = "bilinear",
  antialias = true) -> T]], function(x, size, mode, antialias)
  local op = "image.resize"
  if x.ndim < 2 or x.ndim > 4 then
    fail(op, "need a tensor (h, w), (channels, h, w) or (n, channels, h, w), got %s", shape_of(x))
  end
  if x:numel() == 0 then fail(op, "the image has no pixels: %s", shape_of(x)) end
  local h, w = x:size(-2), x:size(-1)
  if math.type(size) == "integer" then
    local k = size / math.min(h, w)
    size = { math.max(1, math.floor(h * k + 0.5)), math.max(1, math.floor(w * k + 0.5)) }
  end
  local function fits(v) return math.type(v) == "integer" and v >= 1 end
  if type(size) ~= "table" or #size ~= 2 or not fits(size[1]) or not fits(size[2]) then
    fail(op, "size must be an integer or {height, width}, from 1 on")
  end
  local lead = x.ndim
  local y = x:is_floating_point() and x or x:float()
  while y.ndim < 4 do y = y:unsqueeze(1) end
  local smooth = mode == "bilinear" or mode == "bicubic"
  y = y:interpolate { size = size, mode = mode, antialias = smooth and antialias or nil }
  while y.ndim > lead do y = y:squeeze(1) end
  if x:is_floating_point() then return y end
  return y:round():clamp(0, x.dtype == "u8" and 255 or math.huge):to(x.dtype)
end)

--- For plots and event files: the image as u8 (3, h, w) on the CPU, alpha over white, reduced to at
--- most 'most' rows and columns if that is given.
local function opaque(op, x, most)
  x = need_image(op, x):detach():cpu()
  local y = x:is_floating_point() and x:float():nan_to_num(0):clamp(0, 1) or x:float() / 255
  if y.ndim == 2 then y = y:unsqueeze(1) end
  local h, w = y:size(2), y:size(3)
  if h == 0 or w == 0 then fail(op, "the image has no pixels: %s", shape_of(x)) end
  if most and (h > most or w > most) then
    local k = most / math.max(h, w)
    y = image.resize(y, { math.max(1, math.floor(h * k)), math.max(1, math.floor(w * k)) })
  end
  local c = y:size(1)
  if c == 2 or c == 4 then
    local alpha = y:narrow(1, c, 1)
    y = y:narrow(1, 1, c - 1) * alpha + (1 - alpha)
  end
  if y:size(1) == 1 then y = y:expand(3, -1, -1) end
  return (y * 255):round():to("u8")
end
internal.image_opaque = opaque

--- The image x as a list of pixels 0xRRGGBB, row by row; its height; its width.
function internal.image_pixels(op, x, most)
  local y = opaque(op, x, most):to("i32")
  return (y[1] * 65536 + y[2] * 256 + y[3]):reshape(-1):totable(), y:size(2), y:size(3)
end

return objects.namespace(image, "image")
