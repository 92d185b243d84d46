-- Results at the limits of number types and of memory are defined, and the same on all devices.
local flame = require "flame"

local helper = require "spec.support.helper"
local function raises(pattern, ...) assert.matches(pattern, helper.message(...)) end

describe("integers", function()
  local LOW = { i64 = math.mininteger, i32 = -2147483648, i16 = -32768, i8 = -128 }
  local HIGH = { i64 = math.maxinteger, i32 = 2147483647, i16 = 32767, i8 = 127, u8 = 255 }

  it("wrap when the lowest is divided by -1 or negated", function()
    for dtype, low in pairs(LOW) do
      local x = flame.tensor({ low }, { dtype = dtype })
      assert.equal(low, (x // -1):item(), dtype)
      assert.equal(low, (x // flame.tensor({ -1 }, { dtype = dtype })):item(), dtype)
      assert.equal(0, (x % -1):item(), dtype)
      assert.equal(0, x:fmod(-1):item(), dtype)
      assert.equal(low, (-x):item(), dtype)
      assert.equal(low, x:abs():item(), dtype)
    end
  end)

  it("give 0 when divided by zero, // and %", function()
    for dtype, high in pairs(HIGH) do
      local x = flame.tensor({ high, 0, 7 }, { dtype = dtype })
      local zero = flame.zeros({ 3 }, { dtype = dtype })
      assert.same({ 0, 0, 0 }, (x // zero):totable(), dtype)
      assert.same({ 0, 0, 0 }, (x % zero):totable(), dtype)
      assert.same({ 0, 0, 0 }, (x // 0):totable(), dtype)
      assert.same({ 0, 0, 0 }, (x % 0):totable(), dtype)
    end
  end)

  it("wrap past the highest", function()
    for dtype, high in pairs(HIGH) do
      local x = flame.tensor({ high }, { dtype = dtype })
      assert.equal(LOW[dtype] or 0, (x + 1):item(), dtype)
    end
    assert.equal(-2, (flame.tensor({ math.maxinteger }, { dtype = "i64" }) * 2):item())
  end)

  it("are rounded down by // and % as in Lua", function()
    local x, y = flame.tensor({ 7, -7, 7, -7 }, { dtype = "i32" }),
      flame.tensor({ 2, 2, -2, -2 }, { dtype = "i32" })
    assert.same({ 3, -4, -4, 3 }, (x // y):totable())
    assert.same({ 1, 1, -1, -1 }, (x % y):totable())
  end)

  it("come from floats truncated and saturated, NaN as 0", function()
    local x = flame.tensor({ 0 / 0, math.huge, -math.huge, 1e30, -1e30, -1.9, 1.9, 300, -300 })
    local function expect(dtype, low, high, small, large)
      assert.same({ 0, high, low, high, low, low == 0 and 0 or -1, 1, large, small },
        x:to(dtype):totable(), dtype)
      assert.same({ 0, high, low, high, low, low == 0 and 0 or -1, 1, large, small },
        x:double():to(dtype):totable(), dtype)
    end
    expect("i64", math.mininteger, math.maxinteger, -300, 300)
    expect("i32", -2147483648, 2147483647, -300, 300)
    expect("i16", -32768, 32767, -300, 300)
    expect("i8", -128, 127, -128, 127)
    expect("u8", 0, 255, 0, 255)
    assert.same({ true, true, true, true, true, true, true, true, true }, x:to("bool"):totable())
  end)

  it("refuse numbers that do not fit", function()
    raises("does not fit in i8", function() return flame.zeros({ 2 }, { dtype = "i8" }) + 128 end)
    raises("does not fit in u8", function() return flame.zeros({ 2 }, { dtype = "u8" }) + -1 end)
    raises("", function() return flame.tensor({ 1.5 }, { dtype = "i32" }) end)
    raises("", function() local x = flame.zeros({ 2 }, { dtype = "i32" }); x[1] = 1.5 end)
  end)
end)

describe("floats", function()
  it("divide by zero as IEEE says", function()
    local x = flame.tensor { 1, -1, 0 }
    local y = (x / 0):totable()
    assert.equal(math.huge, y[1])
    assert.equal(-math.huge, y[2])
    assert.is_true(y[3] ~= y[3])
    local z = (x // 0):totable()
    assert.equal(math.huge, z[1])
    assert.equal(-math.huge, z[2])
    assert.is_true(z[3] ~= z[3])
    local m = (x % 0):totable()
    assert.is_true(m[1] ~= m[1] and m[3] ~= m[3])
  end)

  it("overflow to infinity in each width", function()
    assert.equal(math.huge, (flame.tensor({ 65504 }, { dtype = "f16" }) + 32):item())
    assert.equal(65504, (flame.tensor({ 65504 }, { dtype = "f16" }) + 15):item())
    assert.equal(math.huge, (flame.tensor({ 3e38 }, { dtype = "bf16" }) * 2):item())
    assert.equal(math.huge, (flame.tensor({ 3e38 }) * 2):item())
    assert.equal(math.huge, flame.tensor({ 1e300 }, { dtype = "f64" }):float():item())
  end)

  it("let NaN through max, min, maximum, minimum and clamp", function()
    local nan = 0 / 0
    local x = flame.tensor { 1, nan, 3 }
    for _, v in ipairs { x:amax():item(), x:amin():item(), (x:max()):item(),
      (x:clamp(0, 2))[2]:item(), flame.maximum(x, 5)[2]:item(), flame.minimum(5, x)[2]:item() } do
      assert.is_true(v ~= v)
    end
    assert.equal(2, x:argmax():item())
    assert.equal(2, x:argmin():item())
  end)
end)

describe("empty and 0-d tensors", function()
  it("reduce to what the op starts from, or raise", function()
    local x = flame.zeros(0, 3)
    assert.equal(0, x:sum():item())
    assert.equal(1, x:prod():item())
    assert.equal(true, x:all():item())
    assert.equal(false, x:any():item())
    assert.same({ 0, 0, 0 }, x:sum(1):totable())
    assert.same({ 0 }, x:sum(2).shape)
    raises("amax", function() return x:amax() end)
    raises("argmax", function() return x:argmax(1) end)
    local m = x:mean():item()
    assert.is_true(m ~= m)
  end)

  it("go through matmul, cat, softmax and backward", function()
    assert.same({ { 0, 0 }, { 0, 0 } }, flame.zeros(2, 0):matmul(flame.zeros(0, 2)):totable())
    assert.same({ 0, 4 }, flame.zeros(0, 3):matmul(flame.ones(3, 4)).shape)
    assert.same({ 2, 3 }, flame.cat({ flame.zeros(0, 3), flame.ones(2, 3) }, 1).shape)
    assert.same({ 0, 3 }, flame.zeros(0, 3):softmax(2).shape)
    local x = flame.zeros({ 0, 3 }, { requires_grad = true });
    (x * 2):sum():backward()
    assert.same({ 0, 3 }, x.grad.shape)
    local y = flame.tensor(2, { requires_grad = true });
    (y * y):backward()
    assert.equal(4, y.grad:item())
  end)
end)

describe("sizes", function()
  it("of 2^31 elements and more are addressed right through views", function()
    local n = 2^31 + 5 | 0
    local x = flame.tensor({ 3 }, { dtype = "u8" }):expand(n)
    assert.equal(n, x:numel())
    assert.equal(3, x[n]:item())
    assert.equal(3, x[-1]:item())
    local grid = flame.tensor({ { 1 }, { 2 } }, { dtype = "i32" }):expand(2, n)
    assert.equal(2 * n, grid:numel())
    assert.equal(2, grid[{ 2, n }]:item())
    local corner = grid[{ {}, { n - 1, n } }] + 1
    assert.same({ { 2, 2 }, { 3, 3 } }, corner:totable())
  end)

  it("#slow of 2^31 elements hold values, where memory allows", function()
    local free = 0
    local f = io.open "/proc/meminfo"
    if f then
      free = tonumber(f:read("a"):match "MemAvailable:%s*(%d+)") or 0
      f:close()
    end
    if free < 6 * 2^20 or os.getenv "FLAME_SANITIZE" or not os.getenv "FLAME_LONG" then
      return pending "needs 6 GB of free memory and FLAME_LONG=1"
    end
    local n = 2^31 + 3 | 0
    local x = flame.zeros({ n }, { dtype = "u8" })
    x[n] = 7
    x[2^31 | 0] = 5
    assert.equal(7, x[n]:item())
    assert.equal(12, x:sum():item())
    assert.equal(n, x:argmax():item())
    x:free()
    collectgarbage()
  end)

  it("that overflow or exceed memory raise and leave the session as it was", function()
    raises("more elements than can be counted", function()
      return flame.zeros(2^40 | 0, 2^40 | 0)
    end)
    local before = flame.stats()
    if not os.getenv "FLAME_SANITIZE" then          -- a sanitizer would end the process
      raises("", function() return flame.eval(flame.ones(2^45 | 0) + 1) end)
    end
    raises("%d+ axes", function() return flame.zeros(1, 1, 1, 1, 1, 1, 1, 1, 1) end)
    raises("negative", function() return flame.zeros(-1, 2) end)
    assert.equal(3, (flame.ones(3) * 1):sum():item())
    collectgarbage()
    collectgarbage()
    assert.is_true(flame.stats().live_bytes <= before.live_bytes + 64)
  end)
end)

describe("an error that only values can show", function()
  local function bad()
    return flame.ones(3):index_select(1, flame.tensor({ 1, 5 }, { dtype = "i64" }))
  end

  it("leaves the other values of its window alone", function()
    local w = flame.tensor { 1, 2, 3 }
    local a = w * 2
    local x = bad()
    local b = (w + 1):sum()
    local m = w:reshape(1, 3):matmul(w:reshape(3, 1))
    local r = x:sum() + 1
    assert.equal(12, a:sum():item())
    assert.equal(9, b:item())
    assert.equal(14, m:item())
    raises("index 5 at position 2 is out of range", function() return r:item() end)
    raises("index 5 at position 2 is out of range", function() return x:totable() end)
    assert.equal(14, m:item())
  end)

  it("leaves a write's target unchanged, and other writes done", function()
    local x, y = flame.ones(3), flame.ones(3)
    flame.eval(x, y)
    local keep = y:clone()
    x:add_(bad():sum())
    y:add_(1)
    local message = helper.message(function() return x:totable() end)
    assert.truthy(message:find "index 5 at position 2 is out of range")
    assert.same({ 1, 1, 1 }, x:totable())
    assert.same({ 2, 2, 2 }, y:totable())
    assert.same({ 1, 1, 1 }, keep:totable())
  end)
end)

describe("a decimal comma in LC_NUMERIC", function()
  local script = [[
    local flame = require "flame"
    local name = os.getenv "FLAME_SPEC_LOCALE"
    if name ~= "C" then assert(os.setlocale(name, "numeric"), "no locale") end
    assert((("%.1f"):format(0.5) == "0,5") == (name ~= "C"))
    local x = flame.tensor { 1.5, 2.25 }
    local _, message = pcall(function() return flame.uniform({ 2 }, 2.5, 1.5) end)
    print(x, x * 0.5, x:summary(), x:mean():item() == 1.875, message)
    os.setlocale("C", "numeric")
    local path = os.tmpname() .. ".safetensors"
    os.setlocale(name, "numeric")
    flame.save(path, { x = x, lr = 0.125 })
    local t = flame.load(path)
    os.remove(path)
    print(t.x, t.lr == 0.125)
    print(flame.map("x -> 0.5f * x + 1e-3f")(x), flame.map("x -> cospif(x) * 0.25f")(x))
    local scaled = flame.kernel { constants = { scale = 2.5 }, source = [=[
      __global__ void f(const float *x, float *y, int n) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < n) y[i] = x[i] * ${scale};
      }]=] }
    print(scaled(x), pcall(flame.arange, 1, 2.5, 0.5, { dtype = "i32" }))
  ]]

  --- A new folder with a locale whose decimal point is a comma, or nil if none can be made.
  local function locale_folder()
    local folder = os.tmpname()
    os.remove(folder)
    local made =
      os.execute(
        ("mkdir -p '%s' && localedef -i de_DE -f UTF-8 '%s/de_DE.UTF-8' >/dev/null 2>&1"):format(
          folder, folder))
    if made then return folder end
    os.execute(("rm -rf '%s'"):format(folder))
  end

  it("changes nothing", function()
    local folder = locale_folder()
    if not folder then return pending "localedef can not make de_DE.UTF-8" end
    local file = os.tmpname()
    local f = assert(io.open(file, "w"))
    f:write(script)
    f:close()
    local first = 0
    while arg[first - 1] do first = first - 1 end
    local function run(name)
      local pipe =
        io.popen(("LOCPATH='%s' FLAME_SPEC_LOCALE=%s '%s' '%s' 2>&1"):format(folder, name,
          arg[first], file))
      local text = pipe:read "a"
      pipe:close()
      return text
    end
    local plain, comma = run "C", run "de_DE.UTF-8"
    os.remove(file)
    os.execute(("rm -rf '%s'"):format(folder))
    assert.equal(plain, comma)
    assert.truthy(comma:find("1.5", 1, true), comma)
    assert.falsy(comma:find("traceback", 1, true), comma)
  end)
end)
