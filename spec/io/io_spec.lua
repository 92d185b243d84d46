-- Files of tensors: what is saved comes back, damaged files are refused, replacing is safe.

local flame = require "flame"
local interpreter = dofile("spec/support/interpreter.lua")
local helper = require "spec.support.helper"
local raises = helper.raises

local folder = os.tmpname()
os.remove(folder)
assert(os.execute("mkdir -p '" .. folder .. "'"))
local function path(name) return folder .. "/" .. name end

local function write(name, text)
  local f = assert(io.open(path(name), "wb"))
  f:write(text)
  f:close()
  return path(name)
end

local function read(name)
  local f = assert(io.open(path(name), "rb"))
  local text = f:read("a")
  f:close()
  return text
end

local function quote(s) return "'" .. s:gsub("'", "'\\''") .. "'" end

local function listing()
  local pipe = assert(io.popen("ls -A '" .. folder .. "'"))
  local names = pipe:read("a")
  pipe:close()
  return names
end

--- A safetensors file of a header text and data bytes.
local function safetensors(header, data)
  return string.pack("<I8", #header) .. header .. (data or "")
end

local function refused(text, pattern)
  local message = helper.message(flame.load, write("refused.safetensors", text))
  assert.truthy(message:find(pattern, 1, true), message)
  assert.truthy(message:find("refused.safetensors", 1, true), message)
end

local function entry(name, fields) return ('"%s":{%s}'):format(name, fields) end
local one = '"dtype":"F32","shape":[2],"data_offsets":[0,8]'

teardown(function() os.execute("rm -rf '" .. folder .. "'") end)

describe("flame.save and flame.load", function()
  local dtypes = { "f64", "f32", "f16", "bf16", "i64", "i32", "i16", "i8", "u8", "bool" }

  it("give every dtype back, bit for bit", function()
    flame.seed(1)
    local t = {}
    for _, dtype in ipairs(dtypes) do t[dtype] = (flame.randn(3, 5) * 3):to(dtype) end
    flame.save(path("dtypes.safetensors"), t)
    local u = flame.load(path("dtypes.safetensors"))
    for _, dtype in ipairs(dtypes) do
      assert.equal(dtype, u[dtype].dtype)
      assert.same({ 3, 5 }, u[dtype].shape)
      assert.equal(t[dtype]:bytes(), u[dtype]:bytes())
    end
  end)

  it("keep shapes, also of 0-d and empty tensors and of views", function()
    local x = flame.arange(12.0):reshape(3, 4)
    flame.save(path("shapes.safetensors"),
      { zero = flame.tensor(5), empty = flame.zeros(0, 3), turned = x:t(), row = x[2] })
    local u = flame.load(path("shapes.safetensors"))
    assert.equal(5, u.zero:item())
    assert.same({}, u.zero.shape)
    assert.same({ 0, 3 }, u.empty.shape)
    assert.allclose(x:t(), u.turned)
    assert.allclose({ 5, 6, 7, 8 }, u.row)
  end)

  it("keep nested tables with their types of keys and values", function()
    local t = { 1, 2.0, { "x", { y = true } }, [-3] = "minus", [2.5] = false, [true] = "yes",
                ["1"] = "text",
                ["a.b"] = 1, a = { b = 2 }, empty = {}, ["caf\xE9 %41\0\n\""] = "\xff\0",
                big = math.maxinteger }
    flame.save(path("nested.safetensors"), t)
    local u = flame.load(path("nested.safetensors"))
    assert.same(t, u)
    assert.equal("integer", math.type(u[1]))
    assert.equal("float", math.type(u[2]))
  end)

  it("keep floats exactly", function()
    local t = { 0.1, -0.0, 1e-320, math.huge, -math.huge, math.pi, 0 / 0 }
    flame.save(path("floats.safetensors"), t)
    local u = flame.load(path("floats.safetensors"))
    for i = 1, #t do assert.equal(string.pack(">d", t[i]), string.pack(">d", u[i])) end
  end)

  it("name tensors by dotted paths", function()
    flame.save(path("names.safetensors"),
      { model = { blocks = { { w = flame.ones(1) } } }, step = 3 })
    assert.truthy(read("names.safetensors")
      :find('"model.blocks.1.w":{"dtype":"F32","shape":[1]', 1, true))
  end)

  it("keep apart names that look the same when dotted", function()
    local t = { a = { b = flame.tensor(1) }, ["a.b"] = flame.tensor(2), [1] = flame.tensor(3),
                ["1"] = flame.tensor(4),
                ["__metadata__"] = flame.tensor(5) }
    flame.save(path("apart.safetensors"), t)
    local u = flame.load(path("apart.safetensors"))
    assert.same({ 1, 2, 3, 4, 5 },
      { u.a.b:item(), u["a.b"]:item(), u[1]:item(), u["1"]:item(), u["__metadata__"]:item() })
  end)

  it("write a shared tensor once and give back one handle", function()
    local w = flame.ones(100)
    flame.save(path("shared.safetensors"), { a = w, b = { w } })
    local u = flame.load(path("shared.safetensors"))
    assert.truthy(rawequal(u.a, u.b[1]))
    assert.truthy(#read("shared.safetensors") < 800)
  end)

  it("save the values of the moment", function()
    local x = flame.zeros(3)
    flame.save(path("moment.safetensors"), { x = x })
    x:add_(1)
    assert.allclose({ 0, 0, 0 }, flame.load(path("moment.safetensors")).x)
  end)

  it("save the state of the random numbers", function()
    flame.seed(5)
    flame.rand(7)
    flame.save(path("rng.safetensors"), { random = flame.rng_state() })
    local a = flame.rand(4)
    flame.rng_state(flame.load(path("rng.safetensors")).random)
    assert.truthy(flame.equal(a, flame.rand(4)))
  end)

  it("write equal tables as equal bytes", function()
    local function make() return { b = flame.ones(2), a = { 1, x = flame.zeros(2) }, c = "z" } end
    flame.save(path("equal1.safetensors"), make())
    flame.save(path("equal2.safetensors"), make())
    assert.equal(read("equal1.safetensors"), read("equal2.safetensors"))
  end)

  it("refuse what is no data and name where it is", function()
    local function unsaved(text, t) raises(text, flame.save, path("no.safetensors"), t) end
    unsaved("model.f is a function", { model = { f = print } })
    unsaved("1 has a key that is a table", { { [{}] = 1 } })
    local loop = { x = {} }
    loop.x.y = loop
    unsaved("x.y contains itself", loop)
    unsaved("net has a metatable", { net = setmetatable({}, {}) })
    unsaved("got number", 7)
    assert.falsy(io.open(path("no.safetensors")))
  end)

  it("name the script's line in an error", function()
    local text = helper.message(function() flame.load(path("absent.safetensors")) end)
    assert.truthy(text:find("io_spec.lua:%d+: load: .*absent.safetensors"))
  end)
end)

describe("replacing a file", function()
  it("leaves no temporary file behind", function()
    flame.save(path("clean.safetensors"), { flame.ones(3) })
    flame.save(path("clean.safetensors"), { flame.zeros(3) })
    assert.falsy(listing():find("tmp", 1, true))
    assert.allclose({ 0, 0, 0 }, flame.load(path("clean.safetensors"))[1])
  end)

  it("keeps the old file when a tensor can not be computed", function()
    flame.save(path("old.safetensors"), { flame.ones(3) })
    local bad = flame.arange(3.0)[flame.tensor({ 9 }, { dtype = "i64" })]
    local ok = pcall(flame.save, path("old.safetensors"), { flame.ones(3), bad })
    assert.falsy(ok)
    assert.allclose({ 1, 1, 1 }, flame.load(path("old.safetensors"))[1])
    assert.falsy(listing():find("tmp", 1, true))
  end)

  it("keeps the file's mode and follows a link", function()
    flame.save(path("mode.safetensors"), { flame.ones(1) })
    assert(
      os.execute(("chmod 640 '%s' && ln -sf mode.safetensors '%s'"):format(path("mode.safetensors"),
        path("link.safetensors"))))
    flame.save(path("link.safetensors"), { flame.tensor(2) })
    assert.equal(2, flame.load(path("mode.safetensors"))[1]:item())
    local facts = ("stat -c %%a '%s'; test -L '%s' && echo link"):format(path("mode.safetensors"),
      path("link.safetensors"))
    local pipe = assert(io.popen(facts))
    assert.equal("640\nlink\n", pipe:read("a"))
    pipe:close()
  end)

  it("refuses folders, devices and folders that are not there", function()
    for _, target in ipairs { folder, "/dev/null", path("none/x.safetensors") } do
      assert.falsy((pcall(flame.save, target, { flame.ones(1) })))
    end
  end)
end)

describe("a temporary file", function()
  it("whose writer was killed goes with the next save to its folder, another's stays", function()
    local dead, live, other = ".flame-0123456789abcdef.tmp", ".flame-fedcba9876543210.tmp",
      ".flame-notes.tmp"
    for _, name in ipairs { dead, live, other } do write(name, "x") end
    local lock =
      assert(
        io.popen(("flock -x %s sh -c 'echo held; read line' >%s"):format(quote(path(live)),
          quote(path("held"))), "w"))
    repeat
      local f = io.open(path("held"))
      local text = f and f:read("a")
      if f then f:close() end
    until text == "held\n"
    flame.save(path("a.safetensors"), { flame.ones(1) })
    local names = listing()
    assert.falsy(names:find(dead, 1, true))
    assert.truthy(names:find(live, 1, true))
    assert.truthy(names:find(other, 1, true))
    lock:close()
    flame.save(path("a.safetensors"), { flame.ones(1) })
    assert.falsy(listing():find(live, 1, true))
    assert.truthy(listing():find(other, 1, true))
    os.remove(path(other))
  end)

  it("takes no time in proportion to the folder in each save", function()
    for i = 1, 640 do write(("many-%d"):format(i), "") end
    flame.save(path("a.safetensors"), { flame.ones(1) })
    local dead = ".flame-00000000000000aa.tmp"
    write(dead, "x")
    flame.save(path("a.safetensors"), { flame.ones(1) })
    assert.truthy(listing():find(dead, 1, true))             -- not looked for yet
    for _ = 1, 20 do flame.save(path("a.safetensors"), { flame.ones(1) }) end
    assert.falsy(listing():find(dead, 1, true))
    for i = 1, 640 do os.remove(path(("many-%d"):format(i))) end
  end)
end)

describe("a limit of file sizes", function()
  it("is an error that leaves the old file and the process", function()
    flame.save(path("old.safetensors"), { flame.ones(3) })
    local before = read("old.safetensors")
    local script = ("local f = require 'flame' print(pcall(f.save, %q, { f.ones(100000) })) print(pcall(f.save, %q, { f.ones(1) }))")
      :format(path("old.safetensors"), path("small.safetensors"))
    local pipe = io.popen(("ulimit -f 8; %s -e %s 2>&1"):format(interpreter, quote(script)))
    local said = pipe:read("a")
    assert.truthy(pipe:close())
    assert.truthy(said:find("old.safetensors: the file is larger than the process (ulimit -f)",
      1, true), said)
    assert.truthy(said:find("true", 1, true), said)
    assert.equal(before, read("old.safetensors"))
    assert.falsy(listing():find("%.tmp"))
  end)
end)

describe("reading safetensors", function()
  it("takes the file of another program as a flat table", function()
    local text = safetensors('{"__metadata__":{"format":"pt"},' .. entry("a.b", one) .. "," ..
      entry("c", '"shape":[],"data_offsets":[8,9],"dtype":"BOOL"') .. "}   ",
      string.pack("<ff", 1.5, -2) .. "\7")
    local t, meta = flame.load(write("foreign.safetensors", text))
    assert.allclose({ 1.5, -2 }, t["a.b"])
    assert.equal(true, t.c:item())
    assert.equal(1, t.c:long():item())
    assert.same({ format = "pt" }, meta)
  end)

  it("decodes escapes in names", function()
    local t =
      flame.load(write("escapes.safetensors",
        safetensors("{" .. entry([[\u00e9\n\ud83d\ude00\/]], one) .. "}", ("\0"):rep(8))))
    assert.truthy(t["é\n😀/"])
  end)

  it("refuses a file that is cut off at any byte", function()
    local text = safetensors("{" .. entry("w", one) .. "}", string.pack("<ff", 1, 2))
    assert.truthy(flame.load(write("whole.safetensors", text)).w)
    for n = 0, #text - 1 do
      raises("cut.safetensors", flame.load, write("cut.safetensors", text:sub(1, n)))
    end
  end)

  it("survives any one byte being another", function()
    flame.save(path("flip.safetensors"), { w = flame.ones(2), n = 3, l = { "x", 1.5 } })
    local text = read("flip.safetensors")
    for i = 1, #text do
      for _, b in ipairs { 0, 0x22, 0x39, 0x7b, 0xff } do
        pcall(flame.load,
          write("flipped.safetensors", text:sub(1, i - 1) .. string.char(b) .. text:sub(i + 1)))
      end
    end
  end)

  it("refuses headers that claim too much", function()
    refused(string.pack("<I8", 1 << 62) .. "{}", "header length at offset 0")
    refused(string.pack("<I8", 3) .. "{}", "header length at offset 0")
    refused(safetensors("[]"), "does not begin with '{'")
    refused(safetensors("{" .. entry("w", '"dtype":"F32","shape":[3],"data_offsets":[0,12]') .. "}",
      ("x"):rep(8)), "go beyond the file")
    refused(
      safetensors("{"
        .. entry("w", '"dtype":"F32","shape":[4294967296,4294967296,2],"data_offsets":[0,0]')
        .. "}"), "hold 0 bytes")
    refused(safetensors("{" .. entry("w", '"dtype":"F32","shape":[2],"data_offsets":[8,0]') .. "}",
      ("x"):rep(8)), "ends before it begins")
    refused(safetensors("{" .. entry("w", '"dtype":"F32","shape":[3],"data_offsets":[0,8]') .. "}",
      ("x"):rep(8)), "shape (3) of F32")
    refused(
      safetensors("{" .. entry("w",
        '"dtype":"F32","shape":[99999999999999999999],"data_offsets":[0,8]') .. "}"), "beyond 2^63")
  end)

  it("refuses names twice, overlaps, unknown dtypes and missing fields", function()
    refused(safetensors("{" .. entry("w", one) .. "," .. entry("w", one) .. "}", ("x"):rep(8)),
      "'w' appears twice")
    local later, small = '"dtype":"U8","shape":[2],"data_offsets":[7,9]',
      '"dtype":"F8_E4M3","shape":[8],"data_offsets":[0,8]'
    refused(safetensors("{" .. entry("v", one) .. "," .. entry("w", later) .. "}", ("x"):rep(9)),
      "overlap at offset 7")
    refused(safetensors("{" .. entry("w", small) .. "}", ("x"):rep(8)), "'w' has dtype F8_E4M3")
    refused(safetensors("{" .. entry("w", '"dtype":"F32","shape":[2]') .. "}", ("x"):rep(8)),
      "needs 'dtype', 'shape' and 'data_offsets'")
    refused(safetensors("{" .. entry("w", one .. ',"dtype":"F32"') .. "}", ("x"):rep(8)),
      "a field appears twice")
    refused(safetensors('{"__metadata__":{"a":"1","a":"2"}}'), "'a' appears twice")
    refused(safetensors('{"__metadata__":{"a":1}}'), "a string must stand here")
    refused(
      safetensors("{" .. entry("w", '"dtype":"U8","shape":[1,1,1,1,1,1,1,1,1],"data_offsets":[0,1]')
        .. "}", "x"), "more than 8 axes")
  end)

  it("refuses JSON that is none, with its offset", function()
    refused(safetensors("{" .. entry("w", one) .. ",}", ("x"):rep(8)), "at offset")
    refused(safetensors('{"a":' .. ("["):rep(100) .. "}"), "an object must stand here")
    refused(safetensors("{" .. entry("w", '"more":' .. ("["):rep(100) .. ("]"):rep(100)) .. "}"),
      "nested too deep")
    refused(
      safetensors("{" .. entry("w", '"dtype":"F32","shape":[02],"data_offsets":[0,8]') .. "}"),
      "leading zero")
    refused(
      safetensors("{" .. entry("w", '"dtype":"F32","shape":[-2],"data_offsets":[0,8]') .. "}"),
      "not negative")
    refused(safetensors("{" .. entry("w\1", one) .. "}", ("x"):rep(8)), "control character")
    refused(safetensors("{" .. entry("w\xff", one) .. "}", ("x"):rep(8)), "not UTF-8")
    refused(safetensors("{" .. entry("\\ud800", one) .. "}", ("x"):rep(8)), "surrogate")
    refused(safetensors("{} x"), "text after the end")
  end)

  it("refuses a name of more than 64 KB", function()
    refused(safetensors("{" .. entry(("n"):rep(70000), one) .. "}", ("x"):rep(8)), "64 KB")
  end)

  it("takes another program's text under the key flame as its metadata", function()
    for _, text in ipairs { "JAX", "true", "", "1:", "1:30 pm", "12:30", "1:true", "{}" } do
      local t, meta = flame.load(write("foreign.safetensors",
        safetensors('{"__metadata__":{"flame":"' .. text .. '"},' .. entry("w", one) .. "}",
          string.pack("<ff", 1, 2))))
      assert.same({ 1, 2 }, t.w:totable())
      assert.same({ flame = text }, meta)
    end
  end)

  it("refuses metadata of flame that was tampered with", function()
    local function with(text) return safetensors('{"__metadata__":{"flame":"' .. text .. '"}}') end
    refused(with("1:{"), "unreadable text")
    refused(with("1:" .. ("{["):rep(500)), "nested too deep")
    refused(with("1:tw;"), "tensor 'w' is not in the file")
    refused(with("1:{sa;T}x"), "text after the end")
    refused(with("1:i99999999999999999999;"), "out of range")
    refused(with("1:{sa;Tsa;F}"), "appears twice")
    refused(with("2:{}"), "later flame")
  end)
end)

describe("a model in several files", function()
  it("is read by its list, which names files beside it only", function()
    flame.save(path("part-1.safetensors"), { ["a.weight"] = flame.ones(2), extra = flame.zeros(1) })
    flame.save(path("part-2.safetensors"), { ["b.weight"] = flame.full({ 3 }, 2) })
    local function list(map)
      return write("m.safetensors.index.json",
        '{"metadata": {"total_size": 20}, "weight_map": {' .. map .. "}}")
    end
    local t = flame.load(list('"a.weight": "part-1.safetensors", "b.weight": "part-2.safetensors"'))
    assert.same({ 1, 1 }, t["a.weight"]:totable())
    assert.same({ 2, 2, 2 }, t["b.weight"]:totable())
    assert.is_nil(t.extra)
    for map, pattern in pairs {
      ['"c": "part-1.safetensors"'] = "part-1.safetensors has no tensor 'c'",
      ['"c": "../part-1.safetensors"'] = "is no name of a safetensors file",
      ['"c": "/etc/passwd"'] = "is no name of a safetensors file",
    } do
      raises(pattern, flame.load, list(map))
    end
    flame.save(path("one.safetensors"), flame.ones(2))       -- one tensor, not a table of them
    flame.save(path("deep.safetensors"), { a = { b = flame.ones(2) } })
    t = flame.load(list('"a\\u002eb": "deep.safetensors", "value": "one.safetensors"'))
    assert.same({ 1, 1 }, t["a.b"]:totable())
    for map, pattern in pairs {
      ['"a": "one.safetensors"'] = "one.safetensors has no tensor 'a'",
      ['"a": 5'] = "a string must stand here",
      ['"a": "one.safetensors", "a": "deep.safetensors"'] = "appears twice in the weight_map",
    } do
      raises(pattern, flame.load, list(map))
    end
    raises("it has no weight_map", flame.load, write("n.index.json", "{}"))
  end)
end)

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
    -- b's place is now a's
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
      local ok, message = pcall(flame.save, path(name), { flame.ones(1) })
      assert.falsy(ok, name)
      local known = "there is .safetensors, .npz (tensors), .npy (one tensor), .png (an image), .csv (rows and columns)"
      assert.truthy(message:find(known, 1, true), message)
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
        path("pipe"), folder)
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
