-- Datasets, the loader with and without workers, and files as datasets.

local flame = require "flame"
local data = require "flame.data"
local internal = flame.internal

local files = dofile "spec/support/files.lua" ()
local folder, path, write = files.name, files.path, files.write
teardown(files.remove)

local message = require("spec.support.helper").placed
local function says(text, f, ...) assert.equal(text, message(f, ...)) end

--- A value as text for comparisons: tensors by their bits, tables with all that is in them.
local function shown(v)
  if flame.is_tensor(v) then
    return ("%s(%s)%s"):format(v.dtype, table.concat(v.shape, ","),
      v:bytes():gsub(".", function(c) return ("%02x"):format(c:byte()) end))
  elseif type(v) ~= "table" then return math.type(v) == "float" and ("%a"):format(v) or tostring(v)
  end
  local keys, out = {}, {}
  for key in pairs(v) do keys[#keys + 1] = key end
  table.sort(keys, function(a, b) return tostring(a) < tostring(b) end)
  for _, key in ipairs(keys) do out[#out + 1] = tostring(key) .. "=" .. shown(v[key]) end
  return "{" .. table.concat(out, ";") .. "}"
end

--- Up to n batches of the loader l, each as text.
local function batches(l, n)
  local out = {}
  for _ = 1, n or math.huge do
    local parts = table.pack(l())
    if parts[1] == nil then break end
    out[#out + 1] = shown(parts)
  end
  return table.concat(out, "\n")
end

local function threads()
  local n = 0
  for _ in pairs(internal.io_list("/proc/self/task")) do n = n + 1 end
  return n
end

local function mixed(i, given, random)
  return flame.full({ 2 }, i) * given.scale, i, "n" .. i,
    { at = random(), drawn = flame.rand(3), big = i > 3, pair = { i, i / 2 } }
end
local function mixed_set(n)
  return data.dataset(n, mixed, { given = { scale = flame.tensor(2) } })
end

describe("data.dataset", function()
  it("has the items of a function, each value a part", function()
    local set = data.dataset(5, function(i) return i, "x" .. i end)
    assert.equal(5, #set)
    assert.same({ 3, "x3" }, { set:item(3) })
    set = data.dataset(9, "return function(i) return i, 'x' .. i end")
    assert.same({ 6, "x6" }, { set:item(6) })
  end)

  it("has the items of a list, and rows of columns", function()
    assert.equal("b", (data.dataset({ "a", "b" }):item(2)))
    local x = flame.tensor { { 1, 2 }, { 3, 4 } }
    local row = data.dataset({ x = x, name = { "p", "q" } }):item(2)
    assert.same({ 3, 4 }, row.x:totable())
    assert.equal("q", row.name)
  end)

  it("maps items, with random numbers of the item's own", function()
    local set = data.dataset({ 1, 2, 3 }):map(function(v, random) return v * 10, random() end)
    local a, r = set:item(2)
    local _, again = set:item(2)
    local _, other = set:item(3)
    assert.equal(20, a)
    assert.equal(r, again)
    assert.not_equal(r, other)
  end)

  it("leaves the script's random state alone", function()
    flame.seed(5)
    local before = flame.rng_state()
    batches(data.loader(mixed_set(6), { size = 2 }))
    assert.same(before, flame.rng_state())
  end)

  it("refuses what is none", function()
    says("dataset: n must be a positive integer, got 0", data.dataset, 0, print)
    says("dataset: the dataset has no items", data.dataset, {})
    says("dataset: column 'a' has 1 items and 'b' 2", data.dataset, { a = { 1 }, b = { 1, 2 } })
    says("dataset: column 'a' must be a tensor or a list, got number", data.dataset, { a = 1 })
    says("loader: the dataset has no items", data.loader, {})
    says("item: item 6 of 5", function() data.dataset({ 1, 2, 3, 4, 5 }):item(6) end)
  end)
end)

describe("data.split", function()
  local function items_of(set)
    local out = {}
    for i = 1, #set do out[i] = set:item(i) end
    return out
  end

  it("puts each item into one part, the same for the same seed", function()
    local list = {}
    for i = 1, 11 do list[i] = i end
    local set = data.dataset(list)
    local a, b, c = data.split(set, { 0.5, 0.3, 0.2 }, { seed = 4 })
    assert.same({ 6, 3, 2 }, { #a, #b, #c })
    local all = items_of(a)
    for _, part in ipairs { b, c } do
      for _, v in ipairs(items_of(part)) do all[#all + 1] = v end
    end
    assert.not_same(list, all)
    local _, again = data.split(set, { 0.5, 0.3, 0.2 }, { seed = 4 })
    assert.same(items_of(b), items_of(again))
    assert.not_same(items_of(a), items_of((data.split(set, { 6, 3, 2 }, { seed = 5 }))))
    table.sort(all)
    assert.same(list, all)
    assert.same({ 10, 11 }, items_of((select(2, data.split(list, { 9, 2 }, { shuffle = false })))))
  end)

  it("refuses parts that are none", function()
    local set = data.dataset { 1, 2, 3 }
    says("split: the fractions sum to 0.9, need 1", data.split, set, { 0.5, 0.4 })
    says("split: the parts sum to 4, the dataset has 3", data.split, set, { 2, 2 })
    says("split: part 4 of the 3 items would be empty", data.split, set, { .25, .25, .25, .25 })
    says("split: part 1 is -1, need a number of 0 or more", data.split, set, { -1, 4 })
  end)
end)

describe("data.loader", function()
  it("collates tensors, numbers, booleans, strings and tables", function()
    local _, x, n, s, t = data.loader(mixed_set(4), { size = 4 })()
    assert.same({ { 2, 2 }, { 4, 4 }, { 6, 6 }, { 8, 8 } }, x:totable())
    assert.equal("i64", n.dtype)
    assert.same({ "n1", "n2", "n3", "n4" }, s)
    assert.same({ 4, 3 }, { t.drawn:size(1), t.drawn:size(2) })
    assert.same({ false, false, false, true }, t.big:totable())
    assert.equal("f32", t.pair[2].dtype)
  end)

  it("gives the same batches with any number of workers", function()
    for _, o in ipairs { { size = 3 }, { size = 4, shuffle = true, seed = 9, drop_last = true } } do
      local seen
      for _, workers in ipairs { 0, 1, 4 } do
        o.workers = workers
        local l = data.loader(mixed_set(14), o)
        local text = batches(l) .. "\n--\n" .. batches(l)
        seen = seen or text
        assert.equal(seen, text)
        l:close()
      end
    end
  end)

  it("resumes bit for bit in the middle of an epoch, with other workers too", function()
    local o = { size = 3, shuffle = true, seed = 2 }
    local whole = data.loader(mixed_set(20), o)
    batches(whole)
    batches(whole, 2)
    local state, rest = whole:state(), batches(whole)
    for _, workers in ipairs { 0, 1, 3 } do
      local l <close> = data.loader(mixed_set(20), { size = 3, shuffle = true, workers = workers })
      batches(l, 1)
      l:load_state(state)
      assert.equal(rest, batches(l))
      local other <close> = data.loader(mixed_set(20),
        { size = 3, shuffle = true, workers = workers, state = state })
      assert.equal(rest, batches(other))
    end
  end)

  it("stands the same whatever is read, saved and loaded at random", function()
    local draw = math.random
    for round = 1, 6 do
      math.randomseed(round)
      local n = draw(1, 30)
      local o = { size = draw(1, 7), shuffle = draw(2) == 1, drop_last = draw(2) == 1, seed = round,
        prefetch = draw(1, 3) }
      local loaders, states, jumps = {}, {}, {}
      for k, workers in ipairs { 0, 1, 4 } do
        o.workers = workers
        loaders[k] = data.loader(mixed_set(n), o)
      end
      for step = 1, 15 do
        states[step], jumps[step] = loaders[1]:state(), draw(4) == 1 and draw(step)
        local count, seen = draw(0, 4), nil
        for _, l in ipairs(loaders) do
          if jumps[step] then l:load_state(states[jumps[step]]) end
          local text = batches(l, count)
          seen = seen or text
          assert.equal(seen, text)
          assert.same(loaders[1]:state(), l:state())
        end
      end
      for _, l in ipairs(loaders) do l:close() end
    end
  end)

  it("takes a collate of the script's, modules among its locals", function()
    local function longest(list)
      local most = 0
      for _, x in ipairs(list) do most = math.max(most, #x) end
      local rows = {}
      for k, x in ipairs(list) do rows[k] = x:pad({ 0, most - #x }) end
      return flame.stack(rows, 1), #list
    end
    local set = data.dataset(4, function(i) return flame.ones(i) end)
    for _, workers in ipairs { 0, 2 } do
      local l <close> = data.loader(set, { size = 4, workers = workers, collate = longest })
      local _, x, count = l()
      assert.same({ { 1, 0, 0, 0 }, { 1, 1, 0, 0 }, { 1, 1, 1, 0 }, { 1, 1, 1, 1 } }, x:totable())
      assert.equal(4, count)
    end
  end)

  it("takes a module of the script's path", function()
    write("loader_items.lua", "return function(i) return i * i end")
    local before = package.path
    package.path = folder .. "/?.lua;" .. package.path
    local l <close> = data.loader(data.dataset(3, "loader_items"), { workers = 1, size = 3 })
    local _, x = l()
    package.path, package.loaded.loader_items = before, nil
    assert.same({ 1, 4, 9 }, x:totable())
  end)
end)

describe("a fault of an item", function()
  local function each(f)
    for _, workers in ipairs { 0, 1, 2 } do f(workers) end
  end
  local function drain(set, o)
    local l <close> = data.loader(set, o)
    for _ in l do assert.truthy(l) end
  end

  it("is raised at the script's line, with the item and the message", function()
    each(function(workers)
      local set = data.dataset(9, function(i)
        if i == 6 then error("no such thing") end
        return i
      end)
      assert.matches("^loader: item 6: spec/io/loader_spec%.lua:%d+: no such thing$",
        message(drain, set, { size = 2, workers = workers }))
      set = data.dataset(9, function(i) return flame.ones(2) + flame.ones(i + 2) end)
      assert.matches("^loader: item 1: spec/io/loader_spec%.lua:%d+: add: ",
        message(drain, set, { size = 2, workers = workers }))
    end)
  end)

  it("leaves the loader before the batch, which can be asked for again", function()
    each(function(workers)
      local set = data.dataset(4, function(i, name)
        if i > 2 then assert(io.open(name), "it is not there"):close() end
        return i
      end, { given = path("needed" .. workers) })
      local l <close> = data.loader(set, { size = 2, workers = workers })
      assert.equal(1, (l()))
      assert.matches("item 3: .*it is not there", message(function() l() end))
      assert.equal(1, l:state().at)
      write("needed" .. workers, "")
      assert.equal(2, (l()))
    end)
  end)

  it("of collating is named with the items", function()
    local function told(f)
      local seen
      each(function(workers)
        local text = message(drain, data.dataset(3, f), { workers = workers })
        seen = seen or text
        assert.equal(seen, text)
      end)
      return seen
    end
    assert.equal("loader: item 2: shape (2) where item 1 has (1)",
      told(function(i) return flame.ones(i) end))
    assert.equal("loader: item 2: shape (2) where item 1 has (1) in part 2[a]",
      told(function(i) return i, { a = flame.ones(i) } end))
    assert.equal("loader: item 3: dtype f64 where item 1 has f32",
      told(function(i) return i < 3 and flame.ones(2) or flame.ones(2, { dtype = "f64" }) end))
    assert.equal("loader: item 2: a string where item 1 has a number",
      told(function(i) return i == 2 and "x" or i end))
    assert.equal("loader: item 3: 2 parts where item 1 has 1",
      told(function(i) if i == 3 then return 1, 2 end return 1 end))
    assert.equal("loader: item 2: nothing where item 1 has something in [b]",
      told(function(i) return { a = 1, b = i == 1 and 2 or nil } end))
    assert.equal("loader: item 2: a value where item 1 has none in [b]",
      told(function(i) return { a = 1, b = i == 2 and 2 or nil } end))
    assert.equal("loader: item 1: the dataset gave nothing for it", told(function() end))
    assert.equal("loader: item 1: part 2 of it is nil", told(function(i) return i, nil, 3 end))
  end)

  it("is a function that can not cross, with what to do", function()
    local k = 3
    local o = { workers = 1 }
    assert.matches("^loader: the dataset's function uses the local 'k' of the script, which is not a"
      .. " module: give what it needs as given", message(drain, data.dataset(3, function(i)
        return i + k
      end), o))
    assert.matches("^loader: the dataset's function is a function of C",
      message(drain, data.dataset(3, print), o))
    assert.matches("^loader: the function of map uses the local 'k'",
      message(drain, data.dataset({ 1 }):map(function() return k end), o))
    assert.matches("^loader: collate uses the local 'k'", message(drain, { 1, 2 },
      { workers = 1, collate = function() return k end }))
    assert.matches("^loader: dataset%[given%]%[f%] is a function: plain tables",
      message(drain, data.dataset(3, function(i) return i end, { given = { f = print } }), o))
    local loop = {}
    loop.loop = loop
    assert.matches("is nested deeper than 100, or holds itself",
      message(drain, data.dataset(3, function(i) return i end, { given = loop }), o))
    assert.matches("^loader: the batch.* is a function: plain tables",
      message(drain, data.dataset(3, function() return print end),
      { workers = 1, collate = function() return print end }))
  end)

  it("is a text that is no function", function()
    each(function(workers)
      local o = { workers = workers }
      assert.matches("^loader: the dataset's function: .*unexpected symbol",
        message(drain, data.dataset(3, "= 1"), o))
      assert.equal("loader: the dataset's function: the text gives number, need a function",
        message(drain, data.dataset(3, "return 1 + 2"), o))
      assert.matches("^loader: the dataset's function: module 'no%.such%.module' not found",
        message(drain, data.dataset(3, "no.such.module"), o))
    end)
  end)

  it("is an attempt to end the program", function()
    assert.matches("a worker can not end the program", message(drain,
      data.dataset(1, function() os.exit(3) end), { workers = 1 }))
  end)

  it("of the loader's own options", function()
    says("loader: size must be a positive integer, got 0", data.loader, { 1 }, 0)
    says("loader: workers must be 0 to 256, got -1", data.loader, { 1 }, { workers = -1 })
    says("loader: prefetch must be a positive integer, got 0", data.loader, { 1 }, { prefetch = 0 })
    says("loader: state needs the integers seed, epoch and at", data.loader, { 1 }, { state = {} })
    says("loader: the loader is closed", function()
      local l = data.loader { 1 }
      l:close()
      l()
    end)
  end)
end)

describe("the workers of a loader", function()
  it("end when it is dropped half way, and when it is closed", function()
    collectgarbage()
    collectgarbage()
    local before = threads()
    local l = data.loader(mixed_set(100), { size = 4, workers = 3 })
    l()
    assert.equal(before + 3, threads())
    l = nil  -- luacheck: ignore 311
    collectgarbage()
    collectgarbage()
    assert.equal(before, threads())
    do
      local closed <close> = data.loader(mixed_set(100), { size = 4, workers = 2 })
      closed()
    end
    assert.equal(before, threads())
  end)

  it("end in the middle of an item that never would, also within pcall", function()
    local before = threads()
    local l = data.loader(data.dataset(9, function(i)
      while i > 1 do pcall(function() while true do end end) end
      return i
    end), { size = 1, workers = 2 })
    assert.equal(1, (l()))
    l:close()
    assert.equal(before, threads())
  end)

  it("leave no memory behind", function()
    local function count()
      collectgarbage()
      collectgarbage()
      local s = flame.stats()
      return { s.live_tensors, s.live_nodes, s.live_bytes }
    end
    local function go()
      local l <close> = data.loader(mixed_set(40), { size = 4, workers = 2 })
      batches(l, 3)
    end
    go()
    local before = count()
    for _ = 1, 4 do go() end
    assert.same(before, count())
  end)
end)

describe("data.tokens by blocks", function()
  local function file(n, head)
    local list = {}
    for i = 1, n do list[i] = string.pack("<I2", 40000 + i) end
    return write("tokens.bin", (head or "") .. table.concat(list))
  end

  it("gives each block and the ids one further", function()
    local set = data.tokens(file(10, "head"), { block = 3, header = 4 })
    assert.equal(3, #set)
    local x, y = set:item(2)
    assert.same({ 40004, 40005, 40006 }, x:totable())
    assert.same({ 40005, 40006, 40007 }, y:totable())
    assert.equal("i32", x.dtype)
    assert.equal(7, #data.tokens(path("tokens.bin"), { block = 3, header = 4, step = 1 }))
  end)

  it("gives the same with workers, shuffled", function()
    local seen
    for _, workers in ipairs { 0, 2 } do
      local l <close> = data.loader(data.tokens(file(100), { block = 7 }),
        { size = 4, shuffle = true, seed = 1, workers = workers })
      local text = batches(l)
      seen = seen or text
      assert.equal(seen, text)
    end
  end)

  it("says when the file is too short, cut off, or packed", function()
    assert.matches("tokens.bin: 3 tokens, a block of 3 needs 4",
      message(data.tokens, file(3), { block = 3 }))
    assert.matches("tokens.bin: 5 bytes after the header are not a multiple of u16",
      message(data.tokens, write("tokens.bin", "abcde"), { block = 1 }))
    assert.matches("ends 5 bytes before the 10 bytes of its header do",
      message(data.tokens, path("tokens.bin"), { block = 1, header = 10 }))
    assert.matches("No such file", message(data.tokens, path("absent"), { block = 1 }))
    local set = data.tokens(file(100), { block = 9 })
    local l = data.loader(set, { size = 2 })
    l()
    file(30)
    assert.matches("^loader: item 4: .*tokens.bin: ends at offset 60, it had 200 bytes when it was"
      .. " opened", message(function() for _ in l do assert.truthy(l) end end))
    file(100)
    assert(os.execute("gzip -kf '" .. path("tokens.bin") .. "'"))
    assert.matches("is packed by gzip and can not be read at an offset: unpack it",
      message(data.tokens, path("tokens.bin.gz"), { block = 3 }))
    assert.matches("block must be a positive integer, got 0",
      message(data.tokens, path("tokens.bin"), { block = 0 }))
  end)
end)

describe("data.images", function()
  local function picture(name, x)
    assert(os.execute("mkdir -p '" .. path(name:match("^(.*)/")) .. "'"))
    flame.save(path(name), x)
  end

  it("has a class for each folder, in order of their names", function()
    picture("photos/dog/1.png", flame.full({ 2, 3 }, 51):to("u8"))
    picture("photos/cat/b.png", flame.full({ 3, 2, 3 }, 255):to("u8"))
    picture("photos/cat/a.png", flame.full({ 3, 2, 3 }, 0):to("u8"))
    write("photos/cat/.hidden", "")
    local set = data.images(path("photos"))
    assert.same({ "cat", "dog" }, set.classes)
    local x, class = set:item(3)
    assert.equal(2, class)
    assert.allclose(flame.full({ 1, 2, 3 }, 0.2), x)
    assert.same({ 3, 2, 3 }, table.move((set:item(1)).shape, 1, 3, 1, {}))
    local l <close> = data.loader(data.images(path("photos"), { channels = 3 }),
      { workers = 2, size = 3 })
    local _, images, classes = l()
    assert.same({ 1, 1, 2 }, classes:totable())
    assert.same({ 3, 3, 2, 3 }, table.move(images.shape, 1, 4, 1, {}))
    assert.allclose(flame.full({ 1, 2, 3 }, 1),
      (data.images(path("photos"), { channels = 1 }):item(2)))
    assert.matches("item 3: shape %(1, 2, 3%) where item 1 has %(3, 2, 3%)",
      message(function() data.loader(set)() end))
  end)

  it("says what is missing or no image", function()
    assert.matches("absent: No such file", message(data.images, path("absent")))
    assert(os.execute("mkdir -p '" .. path("empty/of") .. "'"))
    assert.matches("its folders have no images", message(data.images, path("empty")))
    assert.matches("no folders in it: make one for each class",
      message(data.images, path("empty/of")))
    write("empty/of/a.png", "hello")
    assert.matches("empty/of/a.png: is not a PNG file", message(data.images, path("empty")))
    write("empty/of/a.png", "\x89PNG\r\n\x1a\nhello")
    assert.matches("^loader: item 1: .*a.png", message(function()
      data.loader(data.images(path("empty")))()
    end))
    assert.matches("channels is 2, need 1 or 3", message(data.images, path("photos"),
      { channels = 2 }))
  end)
end)

describe("data.csv with types", function()
  local text = 'name,age,size,kind\n"Ann, B.",31,1.5,b\n"two\nlines ""x""",7,,a\n\nC,8,3,b\n'

  it("gives columns of different types", function()
    local t, names, classes = data.csv(write("a.csv", text), { types = "auto" })
    assert.same({ "name", "age", "size", "kind" }, names)
    assert.same({ "Ann, B.", 'two\nlines "x"', "C" }, t.name)
    assert.same({ 31, 7, 8 }, t.age:totable())
    assert.equal("i64", t.age.dtype)
    assert.allclose({ 1.5, 0 / 0, 3 }, t.size)
    assert.same({ "b", "a", "b" }, t.kind)
    assert.same({}, classes)
  end)

  it("takes the types that are named, and classes", function()
    local t, _, classes = data.csv(write("a.csv", text),
      { types = { age = "f64", kind = "class", size = "text" } })
    assert.equal("f64", t.age.dtype)
    assert.same({ 2, 1, 2 }, t.kind:totable())
    assert.same({ kind = { "a", "b" } }, classes)
    assert.same({ "1.5", "", "3" }, t.size)
    assert.same({ "1" }, data.csv(write("b.csv", "1,2\n"), { types = { "text" } })[1])
  end)

  it("makes a dataset", function()
    local l = data.loader(data.csv(write("a.csv", text), { types = "auto" }), { size = 3 })
    local _, row = l()
    assert.same({ 31, 7, 8 }, row.age:totable())
    assert.equal("C", row.name[3])
  end)

  it("names the line, the column and the type that do not fit", function()
    local function csv(s, types) return message(data.csv, write("a.csv", s), { types = types }) end
    assert.matches("a.csv: line 3 has 1 fields, the first has 2", csv("a,b\n1,2\n3\n", "auto"))
    assert.matches("line 5 has 1 fields", csv('a,b\n"x\ny\nz",2\n3\n', "auto"))
    assert.matches("line 2, column 'b': 'x' is no number, and its type is f32",
      csv("a,b\n1,x\n", { b = "f32" }))
    assert.matches("line 3, column 'a': '1.5' is no integer, and its type is i32",
      csv("a,b\n1,2\n1.5,2\n", { a = "i32" }))
    assert.matches("line 3, column 'a': '' is no integer",
      csv("a,b\n1,2\n,2\n", { a = "i64" }))
    assert.matches("types names the column 'c', there is: a, b", csv("a,b\n1,2\n", { c = "text" }))
    assert.matches("the type of column 'a' is word, need", csv("a,b\n1,2\n", { a = "word" }))
    assert.matches("two columns are named 'a'", csv("a,a\n1,2\n", "auto"))
    assert.matches("no rows behind the header", csv("a,b\n", "auto"))
    assert.matches("no rows", csv("", "auto"))
    assert.matches("a.csv: line 2: a quotation mark is not closed", csv('a,b\n"1,2\n3,4\n', "auto"))
    assert.matches("types = \"auto\" gives columns of text",
      message(data.csv, write("a.csv", "a\n1\nx\n")))
  end)
end)
