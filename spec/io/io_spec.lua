-- Files of tensors: saved values are read back, damaged files are refused, and a save that fails
-- leaves the old file as it was.

local flame = require "flame"
local interpreter = dofile("spec/support/interpreter.lua")
local helper = require "spec.support.helper"
local raises = helper.raises

local folder = dofile("spec/support/files.lua")()
local path, write, read = folder.path, folder.write, folder.read
local quote, listing = folder.quote, folder.listing

--- The bytes of a safetensors file with this header and these data.
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

teardown(folder.remove)

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
    for _, target in ipairs { folder.name, "/dev/null", path("none/x.safetensors") } do
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
    assert.truthy(listing():find(dead, 1, true))             -- stale files are not searched for yet
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
