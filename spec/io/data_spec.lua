-- Readers, batches and the helpers of scripts.

local flame = require "flame"
local data = require "flame.data"

local files = dofile "spec/support/files.lua" ()
local folder, path, write = files.name, files.path, files.write
teardown(files.remove)

local helper = require "spec.support.helper"
local message, raises = helper.message, helper.raises

describe("data.idx", function()
  local function idx(type, sizes, bytes)
    local head = string.char(0, 0, type, #sizes)
    for _, n in ipairs(sizes) do head = head .. string.pack(">I4", n) end
    return head .. bytes
  end

  it("reads every type, unchanged", function()
    local cases = {
      { 0x08, "u8", "BB", 7, 255 }, { 0x09, "i8", "bb", -7, 127 },
      { 0x0B, "i16", ">i2i2", -300, 299 },
      { 0x0C, "i32", ">i4i4", -70000, 2000000000 }, { 0x0D, "f32", ">ff", 0.5, -2.25 },
      { 0x0E, "f64", ">dd", 0.1, -1e300 },
    }
    for _, c in ipairs(cases) do
      local x = data.idx(write("a.idx", idx(c[1], { 2 }, string.pack(c[3], c[4], c[5]))))
      assert.equal(c[2], x.dtype)
      assert.same({ c[4], c[5] }, x:totable())
    end
  end)

  it("reads several axes, gzip or not", function()
    local plain = write("b-ubyte", idx(8, { 2, 3 }, "\1\2\3\4\5\6"))
    assert.same({ { 1, 2, 3 }, { 4, 5, 6 } }, data.idx(plain):totable())
    assert(os.execute("gzip -kf '" .. plain .. "'"))
    assert.same({ { 1, 2, 3 }, { 4, 5, 6 } }, data.idx(plain .. ".gz"):totable())
  end)

  it("refuses what is cut off, goes on or is no IDX file", function()
    local text = idx(8, { 2, 3 }, "\1\2\3\4\5\6")
    for n = 0, #text - 1 do
      raises("c.idx", data.idx, write("c.idx", text:sub(1, n)))
    end
    raises("goes on after its last element", data.idx, write("c.idx", text .. "x"))
    raises("begins with 68 65 6c 6c", data.idx, write("c.idx", "hello, world"))
    assert.truthy(message(data.idx,
      write("c.idx", idx(8, { 0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF }, ""))):find("cut off", 1, true))
    raises("No such file", data.idx, path("absent"))
  end)

  it("refuses damaged gzip data", function()
    assert(os.execute(("head -c 20000 /dev/zero | gzip > '%s'"):format(path("z.gz"))))
    local f = assert(io.open(path("z.gz"), "rb"))
    local text = f:read("a")
    f:close()
    for n = 1, #text - 1 do pcall(data.idx, write("cut.gz", text:sub(1, n))) end
    raises("ends too early", data.text, write("cut.gz", text:sub(1, #text - 9)))
    local bad = write("bad.gz", text:sub(1, 12) .. "\xff\xff\xff" .. text:sub(16))
    raises("damaged packed data", data.text, bad)
  end)
end)

describe("data.find", function()
  it("finds a name with or without .gz and lists what there is", function()
    assert(
      os.execute(("mkdir -p '%s/f' && touch '%s/f/one' '%s/f/two.gz'"):format(folder,
        folder, folder)))
    assert.equal(path("f/one"), data.find(path("f"), "one"))
    assert.equal(path("f/two.gz"), data.find(path("f"), "two"))
    raises("there is: one, two.gz", data.find, path("f"), "three")
  end)
end)

describe("data.text", function()
  it("gives ids from 1 in the order of the sorted characters", function()
    local t = data.text(write("t.txt", "banana"))
    assert.same({ "a", "b", "n" }, t.vocab)
    assert.equal("i64", t.ids.dtype)
    assert.same({ 2, 1, 3, 1, 3, 1 }, t.ids:totable())
    assert.same({ 3, 1, 2 }, t.encode("nab"))
    assert.equal("nab", t.decode({ 3, 1, 2 }))
    assert.equal("banana", t.decode(t.ids))
    raises("'x' at position 3", t.encode, "nax")
    raises("need 1 to 3", t.decode, { 4 })
  end)

  it("knows every byte", function()
    local all = {}
    for b = 0, 255 do all[b + 1] = string.char(b) end
    local t = data.text(write("all.bin", "x" .. table.concat(all)))
    assert.equal(256, #t.vocab)
    assert.equal(table.concat(all), t.decode(t.encode(table.concat(all))))
  end)

  it("reads folders in order of names without links, and lists", function()
    assert(os.execute(("mkdir -p '%s/g'"):format(folder)))
    write("g/b", "two")
    write("g/a", "one")
    assert(os.execute(("ln -sf a '%s/g/c'"):format(folder)))
    local t = data.text(path("g"))
    assert.equal("onetwo", t.decode(t.ids))
    t = data.text { path("g/b"), path("g/a") }
    assert.equal("twoone", t.decode(t.ids))
  end)
end)

describe("data.text of what names no text", function()
  it("says so in its own words", function()
    local loop = {}
    loop[1] = loop
    assert.truthy(message(data.text,
      loop):find("text: lists of paths are nested deeper than 100, or one holds itself", 1, true))
    assert.truthy(message(data.text,
      5):find("text: source must be a string or a list, got number", 1, true))
  end)
end)

describe("data.tokens", function()
  it("reads ids as i32 after a header", function()
    local x = data.tokens(write("t.bin", "head" .. string.pack("<I2I2I2", 1, 40000, 65535)),
      { dtype = "u16", header = 4 })
    assert.equal("i32", x.dtype)
    assert.same({ 1, 40000, 65535 }, x:totable())
    assert.same({ 255 }, data.tokens(write("u.bin", "\xff"), { dtype = "u8" }):totable())
    assert.truthy(message(data.tokens,
      write("t.bin", "abc")):find("not a multiple of u16", 1, true))
  end)
end)

describe("data.csv", function()
  it("reads numbers and a header", function()
    local x, names = data.csv(write("a.csv", '"x", y\r\n1,2.5\r\n-3e2, \r\n'))
    assert.same({ "x", "y" }, names)
    assert.allclose({ { 1, 2.5 }, { -300, 0 / 0 } }, x)
    assert.same({ { 1, 2 } },
      data.csv(write("b.csv", "1;2\n"), { sep = ";", dtype = "i64" }):totable())
  end)

  it("reads lines that end in carriage returns alone", function()
    assert.same({ { 1, 2 }, { 3, 4 } }, data.csv(write("r.csv", "1,2\r3,4\r")):totable())
  end)

  it("names the line that is wrong", function()
    raises("line 2 has 1 fields", data.csv, write("c.csv", "1,2\n3\n"))
    raises("line 2, field 2: 'x'", data.csv, write("c.csv", "1,2\n3,x\n"))
    raises("line 2, field 2: '' is no integer, and its type is i32: a float dtype has NaN for it",
      data.csv, write("c.csv", "1,2\n3,\n"), { dtype = "i32" })
    for dtype, field in pairs { u8 = "256", i8 = "-129", i16 = "32768", i32 = "-2147483649",
        bool = "2" } do
      raises(("line 2, field 1: '%s' is out of range, and its type is %s"):format(field, dtype),
        data.csv, write("c.csv", "1,0\n" .. field .. ",0\n"), { dtype = dtype })
    end
    assert.same({ { 255, 0 } }, data.csv(write("c.csv", "255,0\n"), { dtype = "u8" }):totable())
    assert.same({ { -128, 127 } },
      data.csv(write("c.csv", "-128,127\n"), { dtype = "i8" }):totable())
  end)

  it("keeps an empty field before a quoted one where blanks separate", function()
    assert.allclose({ { 1, 0 / 0, 2 } }, data.csv(write("e.csv", '1\t\t"2"\n'), { sep = "\t" }))
  end)

  it("refuses text after a quoted field", function()
    raises("line 1: text after a closed quotation mark", data.csv, write("e.csv", '"1"2,3\n'))
  end)

  it("is not moved by a decimal comma", function()
    local before = os.setlocale(nil, "numeric")
    for _, name in ipairs { "de_DE.UTF-8", "de_DE", "fr_FR.UTF-8" } do
      if os.setlocale(name, "numeric") then break end
    end
    local x = data.csv(write("d.csv", "1.5,2.25\n"))
    flame.save(path("l.safetensors"), { x, 1.5 })
    local t = flame.load(path("l.safetensors"))
    os.setlocale(before, "numeric")
    assert.allclose({ { 1.5, 2.25 } }, x)
    assert.equal(1.5, t[2])
  end)
end)

describe("data.batches", function()
  local function sums(loader)
    local out = {}
    for _, x in loader do out[#out + 1] = x:totable() end
    return out
  end

  it("gives parts of the first axis, the last one short", function()
    local x, y = flame.arange(10.0):reshape(5, 2), flame.arange(5)
    local seen = {}
    for i, xb, yb in data.batches({ x, y }, { size = 2 }) do
      seen[i] = { xb.shape, yb:totable() }
    end
    assert.same({ { { 2, 2 }, { 1, 2 } }, { { 2, 2 }, { 3, 4 } }, { { 1, 2 }, { 5 } } }, seen)
    assert.equal(3, #data.batches({ x }, { size = 2 }))
    assert.equal(2, #sums(data.batches({ y }, { size = 2, drop_last = true })))
  end)

  it("gives tensors that can be written", function()
    local x = flame.arange(4.0)
    for _, xb in data.batches({ x }, { size = 2 }) do xb:mul_(0) end
    assert.allclose({ 1, 2, 3, 4 }, x)
  end)

  it("shuffles rows together, every row once, another order each epoch", function()
    local x = flame.arange(50.0)
    local loader = data.batches({ x, x * 2 }, { size = 7, shuffle = true, seed = 3 })
    local function epoch()
      local list = {}
      for _, a, b in loader do
        assert.allclose(a * 2, b)
        for _, v in ipairs(a:totable()) do list[#list + 1] = v end
      end
      return list
    end
    local first, second = epoch(), epoch()
    assert.is_not.same(first, second)
    table.sort(first)
    assert.same(x:totable(), first)
    local function again()
      return sums(data.batches({ x }, { size = 7, shuffle = true, seed = 3 }))
    end
    assert.same(again(), again())
  end)

  it("leaves the global random numbers alone, yet follows the script's seed", function()
    local x = flame.arange(30.0)
    local function run(seed)
      flame.seed(seed)
      local before = flame.rng_state().counter
      local order = sums(data.batches({ x }, { size = 30, shuffle = true }))
      local again = sums(data.batches({ x }, { size = 30, shuffle = true }))
      assert.equal(before, flame.rng_state().counter)
      flame.rand(1)
      return { order, again }
    end
    local a = run(1)
    assert.is_not.same(a[1], a[2])
    assert.same(a, run(1))
    assert.is_not.same(a, run(2))
  end)

  it("goes on from a saved position as if it had not stopped", function()
    local x = flame.arange(23.0)
    local whole, parts = data.batches({ x }, { size = 5, shuffle = true, seed = 9 }), {}
    for _ = 1, 2 do for _, b in whole do parts[#parts + 1] = b:totable() end end
    local loader = data.batches({ x }, { size = 5, shuffle = true, seed = 9 })
    local got = {}
    for _ = 1, 7 do
      local i, b = loader:next()
      if i then got[#got + 1] = b:totable() end
    end
    flame.save(path("loader.safetensors"), loader:state())
    loader = data.batches({ x },
      { size = 5, shuffle = true, state = flame.load(path("loader.safetensors")) })
    for _, b in loader do got[#got + 1] = b:totable() end
    assert.same(parts, got)
  end)

  it("refuses tensors that do not go together and unknown options", function()
    raises("of tensor 1 is 2 and of tensor 2 3", data.batches, { flame.ones(2), flame.ones(3) })
    raises("batches: the tensors have no rows", data.batches, { flame.ones(0, 3) })
    assert.truthy(message(data.batches, { flame.ones(2) },
      { sise = 3 }):find("no option 'sise'", 1, true))
    assert.truthy(message(data.batches, { flame.ones(2) },
      { size = 0 }):find("size must be a positive integer", 1, true))
  end)
end)

describe("data.random", function()
  it("is uniform in [0, 1) and seeded apart", function()
    data.seed(4)
    local a, sum = data.random(), 0
    for _ = 1, 1000 do
      local v = data.random()
      assert.truthy(v >= 0 and v < 1)
      sum = sum + v
    end
    assert.close(500, sum, 40)
    data.seed(4)
    assert.equal(a, data.random())
  end)
end)

describe("data.drawn_digits", function()
  it("draws the same digits every time", function()
    local x, y = data.drawn_digits(20)
    local x2, y2 = data.drawn_digits(20)
    assert.same({ 20, 28, 28 }, x.shape)
    assert.truthy(flame.equal(x, x2) and flame.equal(y, y2))
    assert.truthy(x:amin():item() >= 0 and x:amax():item() <= 1)
    assert.truthy(y:amin():item() >= 1 and y:amax():item() <= 10)
  end)
end)

describe("data.options", function()
  local spec = { { "steps", 5, "how many" }, { "rate", 0.5, "" }, { "data", "", "" },
    { "fast", false, "" } }

  it("takes values in the type of the default", function()
    local o = data.options({ "--steps", "1e2", "--rate=3", "--data", "x=y", "--fast" }, spec)
    assert.same({ steps = 100, rate = 3.0, data = "x=y", fast = true }, o)
    assert.equal("integer", math.type(o.steps))
    assert.equal("float", math.type(o.rate))
    assert.same({ steps = 5, rate = 0.5, data = "", fast = false }, data.options(nil, spec))
  end)
end)

describe("data.progress", function()
  it("reads no loss where there is no terminal", function()
    local out, real = {}, print
    local p = data.progress { steps = 10, unit = "tokens", each = 4 }
    flame.eval()
    local syncs = flame.stats().syncs
    for step = 1, 9 do p:tick(step, flame.tensor(1)) end
    _G.print = function(text) out[#out + 1] = text end
    p:line(10, "loss 1.000")
    _G.print = real
    assert.equal(syncs, flame.stats().syncs)
    assert.truthy(out[1]:find("^step 10/10  loss 1%.000"), out[1])
  end)

  -- What the progress bar p writes on a terminal for ticks with these losses, if each is drawn.
  local function drawn(p, losses)
    local out, library = {}, _G.io
    local real = library.write
    p.terminal = true
    library.write = function(...) out[#out + 1] = table.concat { ... } end
    local ok, why = pcall(function()
      for i, loss in ipairs(losses) do
        p.drawn = -1
        p:tick(50 * i, loss)
      end
    end)
    library.write = real
    assert(ok, why)
    return out
  end
  it("draws the curve of the loss beside the line", function()
    local losses = {}
    for i = 1, 8 do losses[i] = flame.tensor(9 - i) end
    local out = drawn(data.progress { steps = 400, curve = 8 }, losses)
    assert.truthy(out[1]:find("^step 50/400  loss 8%.000  [%d.]"), out[1])
    assert.truthy(out[#out]:find("loss 1.000  █▇▆▅▄▃▂▁", 1, true), out[#out])
    losses[9], losses[10] = 0 / 0, 2
    assert.truthy(drawn(data.progress { steps = 500, curve = 10 },
      losses)[#losses]:find("▁!▂", 1, true))
    out = drawn(data.progress { steps = 500, curve = 0 }, losses)
    assert.is_nil(out[#out]:find("▁", 1, true))
    out = drawn(data.progress { steps = 500, curve = 3 }, { 1, 1, 1, 1 })
    assert.truthy(out[#out]:find("▁▁▁", 1, true))
  end)
  it("draws the last step whenever it comes, and leaves its line", function()
    local out, library = {}, _G.io
    local real = library.write
    local p = data.progress { steps = 3 }
    p.terminal = true
    library.write = function(...) out[#out + 1] = table.concat { ... } end
    local ok, why = pcall(function()
      for step = 1, 3 do p:tick(step, flame.tensor(4 - step)) end
    end)
    library.write = real
    assert(ok, why)
    local text = table.concat(out)
    assert.matches("^step 1/3  loss 3.000  [^\n]*\r\27%[Kstep 3/3  loss 1.000  █▁ [^\n]*\n$", text)
    assert.is_nil(text:find("3/3[^\n]* of "), text)
  end)
  it("keeps losses for a plot, a bounded number of them, where the curve is asked for", function()
    local p = data.progress { steps = 10 ^ 6 | 0, curve = 16 }
    for step = 1, 200000 do p:tick(step, step % 100) end
    assert.is_true(#p.losses > 200 and #p.losses <= 512)
    assert.equal(#p.losses, #p.steps_read)
    assert.truthy(p:plot():svg():find(">loss<", 1, true))
    p = data.progress { steps = 10 }
    p:tick(1, flame.tensor(1))
    assert.equal(0, #p.losses)
    assert.truthy(p:plot():svg():find("no data", 1, true))
    assert.is_false(pcall(data.progress, { steps = 1, curve = -1 }))
  end)
end)

describe("batches made ahead", function()
  local x, y = flame.arange(23.0), flame.arange(23.0):reshape(23, 1) * 10

  local function bytes_of(options, epochs)
    local loader, out = data.batches({ x, y }, options), {}
    for _ = 1, epochs do
      for i, a, b in loader do out[#out + 1] = i .. a:bytes() .. b:bytes() end
    end
    return table.concat(out, "|")
  end

  it("are the same as without, and shift no random number", function()
    flame.seed(6)
    local plain = bytes_of({ size = 5, shuffle = true, seed = 3 }, 3)
    local after = flame.rand(4):bytes()
    for _, ahead in ipairs { 1, 2, 9 } do
      flame.seed(6)
      assert.equal(plain, bytes_of({ size = 5, shuffle = true, seed = 3, prefetch = ahead }, 3))
      assert.equal(after, flame.rand(4):bytes())
    end
    assert.equal(bytes_of({ size = 4, drop_last = true }, 2),
      bytes_of({ size = 4, drop_last = true, prefetch = 2 }, 2))
  end)

  it("do not count in the position that is saved", function()
    local options = { size = 4, shuffle = true, prefetch = 3, seed = 8 }
    local one = data.batches({ x }, options)
    for _ = 1, 8 do one:next() end                                    -- into the second epoch
    options.state = one:state()
    local two = data.batches({ x }, options)
    for _ = 1, 9 do
      local i, a = one:next()
      local j, b = two:next()
      assert.equal(i, j)
      if a then assert.equal(a:bytes(), b:bytes()) end
    end
    options.state = { seed = 1, epoch = 0 }
    assert.falsy((pcall(data.batches, { x }, options)))
    two:load_state_dict(one:state())
    assert.same(one:state(), two:state())
  end)

  it("outlive the scope of the step that made them", function()
    local loader, total = data.batches({ x }, { size = 4, shuffle = true, prefetch = 2 }), 0
    for _ = 1, 6 do
      total = total + flame.scope(function()
        local _, a = loader:next()
        return a:sum():item()
      end)
    end
    assert.equal(23 * 24 // 2, total)
  end)

  it("take one tensor, a number for the size, and a device", function()
    local n = 0
    for _, a in data.batches(x, 10) do n = n + #a end
    assert.equal(23, n)
    local _, a = data.batches({ x }, { size = 2, device = "cpu" }):next()
    assert.equal("cpu", a.device)
    assert.falsy((pcall(data.batches, { x }, { prefetch = -1 })))
  end)
end)

describe("text files of numbers", function()
  it("may quote fields, leave them empty, and spell out nan and inf", function()
    local t, names = data.csv(write("a.csv", 'a,"b, c","say ""x"""\r\n1,"2",3\r\n,-inf,NaN\r\n'))
    assert.same({ "a", "b, c", 'say "x"' }, names)
    assert.allclose({ { 1, 2, 3 }, { 0 / 0, -math.huge, 0 / 0 } }, t)
    raises("line 1: a quotation mark is not closed", data.csv, write("a.csv", '1,"2\n3,4\n'))
    assert.falsy((pcall(data.csv, write("a.csv", "1,2\n3,inn\n"))))
    assert.falsy((pcall(data.csv, path("a.csv"), { sep = "" })))
  end)

  it("tokens say when the file ends within its header", function()
    raises("ends 6 bytes before the 10 bytes of its header do",
      data.tokens, write("a.bin", "\1\0\2\0"), { header = 10 })
    assert.same({ 2 }, data.tokens(path("a.bin"), { header = 2 }):totable())
  end)
end)
