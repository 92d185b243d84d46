-- Files in formats of other programs: npy, npz and CSV. The ending of a file's name says which.

local flame = require "flame"
local interpreter = dofile("spec/support/interpreter.lua")
local helper = require "spec.support.helper"
local raises = helper.raises

local folder = dofile("spec/support/files.lua")()
local path, write, read = folder.path, folder.write, folder.read
local quote, listing = folder.quote, folder.listing

teardown(folder.remove)

describe("npy and npz", function()
  it("give numbers back, also big-endian and in Fortran order", function()
    flame.save(path("a.npy"), flame.arange(6.0):reshape(2, 3))
    assert.allclose({ { 1, 2, 3 }, { 4, 5, 6 } }, flame.load(path("a.npy")))
    local function npy(dictionary, bytes)
      return "\x93NUMPY\1\0" .. string.pack("<I2", #dictionary + 1) .. dictionary .. "\n" .. bytes
    end
    local columns = string.pack(">i4i4i4i4i4i4", 1, 4, 2, 5, 3, 6)
    local t =
      flame.load(write("b.npy",
        npy("{'descr': '>i4', 'fortran_order': True, 'shape': (2, 3), }", columns)))
    assert.same({ { 1, 2, 3 }, { 4, 5, 6 } }, t:totable())
    for bad, pattern in pairs {
      ["{'descr': '<c8', 'fortran_order': False, 'shape': (1,), }"] = "dtype '<c8'",
      ["{'descr': '|O', 'fortran_order': False, 'shape': (1,), }"] =
        "a pickle, which can run code; convert it once",
      ["{'descr': '<f4', 'fortran_order': False, 'shape': (9999999999, 9999999999), }"] = "cut off",
      ["{'descr': '<f4', 'shape': (1,), }"] = "needs descr",
      ["{'descr': '<f4', 'fortran_order': False, 'shape': (1 1), }"] = "can not be read",
    } do
      raises(pattern, flame.load, write("bad.npy", npy(bad, "abcd")))
    end
  end)

  it("give unsigned integers as the next wider ones", function()
    local function npy(descriptor, bytes)
      local d = ("{'descr': '%s', 'fortran_order': False, 'shape': (2,), }"):format(descriptor)
      return write("u.npy", "\x93NUMPY\1\0" .. string.pack("<I2", #d + 1) .. d .. "\n" .. bytes)
    end
    local function check(dtype, want, file)
      local x = flame.load(file)
      assert.equal(dtype, x.dtype)
      assert.same(want, x:totable())
    end
    check("i32", { 1, 65535 }, npy("<u2", string.pack("<I2I2", 1, 65535)))
    check("i32", { 1, 65535 }, npy(">u2", string.pack(">I2I2", 1, 65535)))
    check("i64", { 7, 4294967295 }, npy("<u4", string.pack("<I4I4", 7, 4294967295)))
    check("i64", { 7, 1 << 62 }, npy("<u8", string.pack("<i8i8", 7, 1 << 62)))
    raises("element 2 is 18446744073709551615, beyond i64",
      flame.load, npy("<u8", string.pack("<i8i8", 7, -1)))
    local header = '{"w":{"dtype":"U16","shape":[2],"data_offsets":[0,4]}}'
    check("i32", { 3, 40000 },
      write("u.safetensors",
        string.pack("<I8", #header) .. header .. string.pack("<I2I2", 3, 40000)) and
      (function()
        flame.save(path("w.npy"), flame.load(path("u.safetensors")).w)
        return path("w.npy")
      end)())
  end)

  it("hold tensors by name, and refuse to hold more", function()
    flame.save(path("a.npz"), { x = flame.ones(2, 2), deep = { y = flame.tensor(3):int() } })
    local t = flame.load(path("a.npz"))
    assert.allclose({ { 1, 1 }, { 1, 1 } }, t.x)
    assert.equal(3, t["deep.y"]:item())
    assert.falsy((pcall(flame.save, path("b.npz"), { n = 1 })))
    assert.falsy((pcall(flame.save, path("b.npy"), { flame.ones(1) })))
  end)

  it("keep names with dots, and refuse to write what could not be read", function()
    local x = flame.ones(1)
    flame.save(path("dots.npz"), { ["a..b"] = x, ["w."] = x, ["..c"] = x, d = { [""] = x } })
    local t = flame.load(path("dots.npz"))
    for _, name in ipairs { "a..b", "w.", "..c", "d." } do assert.equal(1, t[name]:item()) end
    local function unsaved(pattern, value)
      raises(pattern, flame.save, path("bad.npz"), value)
    end
    unsaved("two tensors have the name a.b", { a = { b = x }, ["a.b"] = flame.zeros(1) })
    unsaved("two tensors have the name 1", { x, ["1"] = x })
    for _, name in ipairs { "", "/a", "..", "../a", "a/../b", ("x"):rep(5000) } do
      unsaved("npz can not have the name", { [name] = x })
    end
  end)

  it("refuse members that lie over one another", function()
    flame.save(path("two.npz"), { a = flame.ones(50), b = flame.ones(50) })
    local text = read("two.npz")
    local first = text:find("PK\1\2", 1, true)
    local second = text:find("PK\1\2", first + 4, true)
    -- the directory of the zip file now gives the entry b the offset of the entry a
    local same = text:sub(1, second + 41) .. "\0\0\0\0" .. text:sub(second + 46)
    raises("lies over the next one", flame.load, write("same.npz", same))
  end)

  it("refuse damage anywhere", function()
    flame.save(path("whole.npz"), { x = flame.arange(3.0), y = flame.ones(2) })
    local text = read("whole.npz")
    for n = 0, #text - 1, 3 do
      assert.falsy((pcall(flame.load, write("cut.npz", text:sub(1, n)))),
        "read a file cut off at " .. n)
    end
    for i = 1, #text, 2 do
      pcall(flame.load, write("flipped.npz", text:sub(1, i - 1) .. "\xff" .. text:sub(i + 1)))
    end
    local at = text:find(flame.arange(3.0):bytes(), 1, true)
    local message = helper.message(flame.load,
      write("sum.npz", text:sub(1, at - 1) .. "\1" .. text:sub(at + 1)))
    assert.truthy(message:find("checksum", 1, true), message)
  end)
end)

describe("the ending of a file's name", function()
  it("that flame does not write is refused with those that it does", function()
    for _, name in ipairs { "x.jpg", "x.bmp", "x.json", "x.svg", "x.txt", "x.gz", "x.safetensor",
        "x.npy.gz", "x.tar_z", "x.7", "x.JPG" } do
      local known = "there is .safetensors, .npz (tensors), .npy (one tensor), .png (an image), .csv (rows and columns)"
      raises(known, flame.save, path(name), { flame.ones(1) })
      assert.falsy(("\n" .. listing()):find("\n" .. name .. "\n", 1, true))
    end
  end)

  it("may be missing", function()
    assert(os.execute("mkdir -p '" .. path("v1.jpg") .. "'"))
    for _, name in ipairs { "plain", ".hidden", "v1.jpg/plain", "dot." } do
      flame.save(path(name), { flame.ones(1) })
      assert.same({ 1 }, flame.load(path(name))[1]:totable())
    end
  end)

  it("in capitals is the same", function()
    flame.save(path("C.NPY"), flame.ones(2))
    assert.equal("\x93NUMPY", read("C.NPY"):sub(1, 6))
  end)
end)

describe("csv", function()
  local csv = require("flame.data").csv

  it("gives the same numbers back in every dtype", function()
    flame.seed(3)
    for _, dtype in ipairs { "f64", "f32", "f16", "bf16", "i64", "i32", "i16", "i8", "u8" } do
      local x = dtype:find("^[fb]") and flame.randn({ 40, 3 }, { dtype = "f64" }):mul(1e3):to(dtype)
        or
        flame.randint({ 40, 3 }, 0, 100):to(dtype) - (dtype == "u8" and 0 or 50)
      flame.save(path("a.csv"), x)
      local y = csv(path("a.csv"), { dtype = dtype })
      assert.equal(dtype, y.dtype)
      assert.is_true(y:eq(x):all():item(), dtype)
    end
    local large = flame.tensor({ { math.maxinteger, math.mininteger + 1 } }, { dtype = "i64" })
    flame.save(path("a.csv"), large)
    assert.same(large:totable(), csv(path("a.csv"), { dtype = "i64" }):totable())
    flame.save(path("a.csv"), flame.tensor { { 1 / 3, 0 / 0, math.huge, -math.huge, -0.0, 1e-45 } })
    local back = csv(path("a.csv"))[1]:totable()
    assert.equal(flame.tensor(1 / 3):item(), back[1])
    assert.is_true(back[2] ~= back[2] and back[3] == math.huge and back[4] == -math.huge
      and 1 / back[5] == -math.huge and back[6] > 0)
    assert.same(csv(path("a.csv")):nan_to_num():totable(),
      flame.load(path("a.csv")):nan_to_num():totable())
    flame.save(path("a.csv"), flame.tensor { { true, false } })
    assert.equal("1,0\n", read("a.csv"))
  end)

  it("holds what has rows and columns, also tracked and transposed, and is not moved by a decimal comma", function()
    local x = flame.tensor({ { 1.5, 2 }, { 3, 4 } }, { requires_grad = true })
    local before = os.setlocale(nil, "numeric")
    for _, name in ipairs { "de_DE.UTF-8", "de_DE", "fr_FR.UTF-8" } do
      if os.setlocale(name, "numeric") then break end
    end
    flame.save(path("a.csv"), x:t())
    os.setlocale(before, "numeric")
    assert.equal("1.5,3\n2,4\n", read("a.csv"))
    for _, bad in ipairs { flame.ones(3), flame.tensor(1), flame.ones { 1, 2, 3 },
        flame.ones { 0, 2 }, { flame.ones { 1, 1 } } } do
      raises("a csv file holds", flame.save, path("a.csv"), bad)
    end
  end)
end)

describe("files of other kinds", function()
  it("are refused without waiting for them: pipes, folders, devices", function()
    assert(os.execute("mkfifo " .. quote(path("pipe"))))
    local script =
      ("for _, p in ipairs { %q, %q, '/dev/zero' } do print(select(2, pcall(flame.load, p))) end"):format(
        path("pipe"), folder.name)
    local pipe =
      assert(io.popen(("timeout 20 %s -e %s 2>&1"):format(quote(interpreter), quote(script))))
    local said = pipe:read("a")
    pipe:close()
    assert(os.remove(path("pipe")))
    assert.truthy(said:find("pipe: is not a regular file", 1, true), said)
    assert.truthy(said:find("is a folder", 1, true), said)
    assert.truthy(said:find("/dev/zero: is not a regular file", 1, true), said)
  end)

  it("are refused with the line that converts a pickle", function()
    helper.raises("torch.load", flame.load, write("model.pt", "\x80\2}q\0."))
    raises("use .safetensors", flame.save, path("model.pt"), { flame.ones(1) })
  end)
end)

describe("x:to_", function()
  it("converts inside the handle and keeps a leaf a leaf", function()
    local x = flame.tensor({ 1, 2 }, { requires_grad = true })
    x:to_("f64")
    assert.equal("f64", x.dtype)
    assert.truthy(x.requires_grad and x.is_leaf)
    local y = (x * x):sum()
    y:backward()
    assert.equal("f64", x.grad.dtype)
    assert.allclose({ 2, 4 }, x.grad)
    x:to_("f32")
    assert.equal("f32", x.grad.dtype)
  end)

  it("refuses views, tracked values and integers that need gradients", function()
    local x = flame.tensor({ 1, 2 }, { requires_grad = true })
    assert.falsy((pcall(function() return x:to_("i64") end)))
    assert.falsy((pcall(function() return (x * 2):to_("f64") end)))
    assert.falsy((pcall(function() return flame.ones(2, 2)[1]:to_("f64") end)))
  end)
end)
