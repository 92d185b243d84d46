-- Calls with wrong arguments: a script must get a clean error that names its line, and the session
-- must stay usable. No call may read memory that is not its own or leave anything behind.
local flame = require "flame"
local in_folder = require "spec.support.folder"
local border = require "spec.support.border"

local here = debug.getinfo(1, "S").short_src
local error_of, survives = border.error_of, border.survives

-- All functions of flame, as {name, function} in order of their names.
local function functions()
  local out = {}
  for name, f in pairs(flame) do
    if type(f) == "function" then out[#out + 1] = { name, f } end
  end
  table.sort(out, function(a, b) return a[1] < b[1] end)
  return out
end

-- Values that are not tensors. A function may still accept some of them in another meaning.
local function strangers()
  local bad_index = setmetatable({},
    { __index = function() error("in __index") end, __len = function() error("in __len") end })
  local looped = {}
  looped[1] = looped
  local deep = 1
  for _ = 1, 200 do deep = { deep } end
  return {
    io.stdout, coroutine.create(function() end), bad_index, looped, deep, "%s%n%d", "", "\0", 0 / 0,
    math.huge, -math.huge, 2 ^ 53, math.mininteger, math.maxinteger, -1, 0, 1.5, true, {}, { {} },
    { 1, { 2 } }, rawequal, function() error("called") end,
    setmetatable({}, { __tostring = function() error("in __tostring") end }), { x = 1 },
    { 1, nil, 3 },
    setmetatable({ 1, 2 }, { __index = function() return 7 end, __len = function() return 5 end }),
  }
end

-- Functions that are not called with random arguments: they end the process, read files, wait for
-- input or change the session.
local skip = { load = true, save = true, debug = true, default_device = true, seed = true,
  rng_state = true, deterministic = true, budget = true, scope = true, no_grad = true,
  enable_grad = true, timer = true, info = true, leakcheck = true, use = true,
  autocast = true, profile = true, bench = true }

describe("a call with strange arguments", function()
  it("raises or works, and the session goes on", function()
    -- TSan does not see that errors of Lua leave C frames, so many would overflow its stack
    local every = os.getenv("FLAME_SANITIZE") == "thread" and 9 or 1
    local calls, errors = 0, 0
    local tensor = flame.arange(6.0):reshape(2, 3):clone()
    local odd = strangers()
    for _, nf in ipairs(functions()) do
      local name, f = nf[1], nf[2]
      if not skip[name] then
        if os.getenv("FLAME_BORDER_TRACE") then io.stderr:write(name, "\n") end
        for i = 1, #odd, every do
          for form = 1, 3 do
            local ok, e
            -- with true it takes over its tensor
            local given = name:find("to_dlpack", 1, true)
            local x = given and tensor:clone() or tensor
            if form == 1 then ok, e = pcall(f, odd[i])
            elseif form == 2 then ok, e = pcall(f, x, odd[i])
            else ok, e = pcall(f, x, odd[i], odd[i % #odd + 1]) end
            calls = calls + 1
            if not ok then
              errors = errors + 1
              assert(type(e) == "string" or form, name)
            end
            e = nil
          end
        end
        collectgarbage()
      end
    end
    assert.same({ { 1, 2, 3 }, { 4, 5, 6 } }, tensor:totable())
    assert.is_true(calls > 5000 // every and errors > calls / 2)
    survives()
  end)
  it("of another type says what it got, not a C address", function()
    for _, v in ipairs({ io.stdout, "text", {}, print, true }) do
      local e = error_of(flame.exp, v)
      assert.matches("^" .. border.here:gsub("%p", "%%%0") .. ":%d+: exp: x must be a tensor, got ",
        e)
    end
    assert.matches("got nil", error_of(flame.exp, nil))
    assert.matches("got userdata", error_of(flame.exp, io.stdout))
  end)
  it("keeps percent signs and zero bytes of strings as they are", function()
    assert.matches("%%s%%n", error_of(flame.zeros, 2, { device = "%s%n" }))
    assert.matches("%%d", error_of(function() return flame.ones(2)["%d"] end))
    assert.matches("%%x", error_of(function() flame.ones(2)["%x"] = 1 end))
    assert.matches("%%s", error_of(flame.einsum, "%s", flame.ones(2)))
    error_of(flame.zeros, 2, { dtype = "f32\0x" })
    error_of(flame.zeros, 2, { ["%n"] = 1 })
    survives()
  end)
end)

describe("sizes", function()
  it("out of any range raise", function()
    local sizes = { -1, math.mininteger, 0 / 0, math.huge, -math.huge, 1.5, "3x", {},
      true, io.stdout }
    for _, make in ipairs({ flame.zeros, flame.ones, flame.empty, flame.rand, flame.randn }) do
      for i = 1, #sizes do
        if type(sizes[i]) ~= "table" then error_of(make, 2, sizes[i]) end
      end
      error_of(make, 1, 1, 1, 1, 1, 1, 1, 1, 1)
      error_of(make, { 1, 1, 1, 1, 1, 1, 1, 1, 1 })
      error_of(make, math.maxinteger, math.maxinteger)
      error_of(make, 1 << 40, 1 << 40)
    end
    error_of(flame.eye, -1)
    error_of(flame.arange, 0 / 0)
    error_of(flame.arange, math.huge)
    error_of(flame.arange, 1, 2, 0)
    error_of(flame.linspace, 0, 1, -1)
    error_of(flame.randperm, -1)
    survives()
  end)
  it("that no memory holds raise when they are read, and nothing else is lost", function()
    local x = flame.ones(3)
    for _, n in ipairs({ 1 << 45, 1 << 59, 1 << 60 }) do
      local ok, big = pcall(flame.zeros, n)
      if ok then
        error_of(function() flame.eval(big + 1) end)
        big:free()
      end
    end
    assert.equal(3, x:sum():item())
    survives()
  end)
  it("of reshape, views and windows raise where they do not fit", function()
    local x = flame.arange(12.0):reshape(3, 4)
    for _, f in ipairs({
      function() return x:reshape(5) end, function() return x:reshape(-1, -1) end,
      function() return x:reshape(0, -1) end,
      function() return x:reshape(-2, 6) end, function() return x:reshape(math.mininteger) end,
      function() return x:reshape(1 << 62, 1 << 62) end, function() return x:permute(1, 1) end,
      function() return x:permute(1) end,
      function() return x:permute(0, 1) end, function() return x:transpose(1, 3) end,
      function() return x:narrow(1, 3, 2) end,
      function() return x:narrow(1, 1, math.maxinteger) end,
      function() return x:narrow(1, math.maxinteger, 2) end,
      function() return x:narrow(1, math.mininteger, 1) end, function() return x:select(3, 1) end,
      function() return x:select(1, 4) end,
      function() return x:expand(3, 5) end, function() return x:expand(4) end,
      function() return x:unfold(1, 0, 1) end,
      function() return x:unfold(1, 2, 0) end, function() return x:unfold(1, 9, 1) end,
      function() return x:split(0, 1) end,
      function() return x:chunk(0, 1) end, function() return x:squeeze(5) end,
      function() return x:unsqueeze(9) end,
      function() return x:sum(0) end, function() return x:sum(3) end,
      function() return x:sum({ 1, 1 }) end,
      function() return x:tile(-1) end, function() return x:flip(7) end,
      function() return x:movedim(1, 9) end,
      function() return x:narrow(1, 2, math.maxinteger) end,
      function() return x:unflatten(1, { 1 << 40, 1 << 40, -1 }) end,
      function() return x:pad({ math.maxinteger, math.maxinteger }) end,
      function() return flame.zeros(1 << 62, 0, 1 << 62) end,
      function() return x:cuda(1 << 32) end,
      function() return x:reshape(1, 1, 3, 4):interpolate({ size = { 1 << 40, 1 << 40 } }) end,
      function() return x:reshape(1, 1, 3, 4):interpolate({ scale_factor = 1e18 }) end,
    }) do
      error_of(f)
    end
    assert.same({ { { 1, 5 }, { 2, 6 }, { 3, 7 }, { 4, 8 } } },
      x:unfold(1, 2, math.maxinteger):totable())
    survives()
  end)
  it("of a range fit its dtype, or it raises", function()
    for _, r in ipairs({ { 1, 128, 1, "i8" }, { -129, 0, 1, "i8" }, { 1, 256, 1, "u8" },
      { 1, -1, -1, "u8" }, { 1, 2, 1, "bool" },
      { 1e300, 1e300, 1, "i64" }, { 1, 2, 1e30, "i64" }, { 2 ^ 63 - 1024, 2 ^ 63, 512, "i64" } }) do
      error_of(flame.arange, r[1], r[2], r[3], { dtype = r[4] })
    end
    assert.equal(-128, flame.arange(127, -128, -1, { dtype = "i8" })[256]:item())
    assert.equal(255, flame.arange(255, { dtype = "u8" })[255]:item())
    assert.equal(0x7ffffffffffffc00,
      flame.arange(2 ^ 63 - 2048, 2 ^ 63 - 1024, 512, { dtype = "i64" })[3]:item())
  end)
  it("of a triangle may be any integer", function()
    local x = flame.ones(2, 3)
    local all, none = { { 1, 1, 1 }, { 1, 1, 1 } }, { { 0, 0, 0 }, { 0, 0, 0 } }
    assert.same(all, x:tril(math.maxinteger):totable())
    assert.same(none, x:tril(math.mininteger):totable())
    assert.same(none, x:triu(math.maxinteger):totable())
    assert.same(all, x:triu(math.mininteger):totable())
    assert.same(all, x:tril(2):totable())
    assert.same(none, x:tril(-2):totable())
  end)
end)

describe("a key", function()
  it("with positions of any size raises or clips, and never reads elsewhere", function()
    local x = flame.arange(12.0):reshape(3, 4):clone()
    local odd = { 0, 4, -4, 5, math.maxinteger, math.mininteger, 1.5, 0 / 0, math.huge, "1", true,
      io.stdout, print }
    for i = 1, #odd do
      error_of(function() return x[odd[i]] end)
      error_of(function() x[odd[i]] = 1 end)
      error_of(function() return x[{ odd[i], 1 }] end)
      error_of(function() return x(1, 2, odd[i]) end)
    end
    for _, r in ipairs({ { 1, 99 }, { -99, 2 }, { 1, 2, 0 }, { 1, 2, 3, 4 }, { 1.5, 2 }, { 0, 3 },
      { 1, math.maxinteger },
      { math.mininteger, 1 }, { first = 1 } }) do
      error_of(function() return x[{ r }] end)
      error_of(function() x[{ r }] = 0 end)
    end
    error_of(function() return x[{ 1, 2, 3 }] end)
    error_of(function() return x[nil] end)
    assert.same({ { 1, 2, 3, 4 } }, x[{ { 1, 1, math.maxinteger } }]:totable())
    assert.same({ { 1, 2, 3, 4 } }, x[{ { 1, 3, math.maxinteger } }]:totable())
    assert.same({ { 9, 10, 11, 12 } }, x[{ { 3, 1, math.mininteger } }]:totable())
    assert.same({ { 1, 2, 3, 4 }, { 5, 6, 7, 8 }, { 9, 10, 11, 12 } }, x:totable())
  end)
  it("with index tensors out of range raises at the latest when it is read", function()
    local x = flame.arange(12.0):reshape(3, 4):clone()
    for _, v in ipairs({ 0, 4, -4, math.maxinteger, math.mininteger }) do
      local i = flame.tensor({ 1, v }, { dtype = "i64" })
      error_of(function() return x[i]:totable() end)
      error_of(function() return x:index_select(1, i):totable() end)
      error_of(function() return x:gather(1, i:reshape(2, 1)):totable() end)
      error_of(function() return flame.embedding(i, x):totable() end)
      error_of(function() return flame.one_hot(i, 3):totable() end)
      local y = x:clone()
      error_of(function() y[i] = 0 flame.eval(y) y:totable() end)
      error_of(function() return x:scatter_add(1, i:reshape(2, 1), flame.ones(2, 1)):totable() end)
    end
    error_of(function() return x[flame.ones(2)] end)
    error_of(function() return x[flame.ones(2, { dtype = "bool" })] end)
    assert.equal(78, x:sum():item())
  end)
  it("whose table a finaliser empties in mid-call is still safe", function()
    for _ = 1, 20 do
      local x = flame.arange(12.0):reshape(3, 4):clone()
      local key = { flame.tensor({ 1, 2 }, { dtype = "i64" }),
        flame.tensor({ true, false, true, true }) }
      local list = { flame.ones(2), flame.ones(2) }
      local keep = {}
      for i = 1, 50 do keep[i] = x + i end
      setmetatable({}, { __gc = function()
        key[1], key[2], list[1], list[2] = nil, nil, nil, nil
        collectgarbage()
        x:free()
      end })
      local before = flame.internal.budget(1)
      pcall(function() return x[key]:sum():item() end)
      pcall(function() return flame.cat(list, 1):sum():item() end)
      flame.internal.budget(before)
      collectgarbage()
    end
    survives()
  end)
end)

describe("nested tables", function()
  it("with holes, strings, loops or too many levels raise with the position", function()
    local deep = 1
    for _ = 1, 200 do deep = { deep } end
    local loop = {}
    loop[1] = loop
    assert.matches("deeper than 8 axes", error_of(flame.tensor, deep))
    assert.matches("deeper than 8 axes", error_of(flame.tensor, loop))
    assert.matches("position %(2%)", error_of(flame.tensor, { 1, "x" }))
    assert.matches("ragged", error_of(flame.tensor, { { 1, 2 }, { 3 } }))
    assert.matches("ragged", error_of(flame.tensor, { { 1, 2 }, 3 }))
    assert.matches("ragged", error_of(flame.tensor, { 1, { 2 } }))
    error_of(flame.tensor, { 1, nil, 3 })
    error_of(flame.tensor, { 1, 2, x = 3 })
    error_of(flame.tensor, { io.stdout })
    error_of(flame.tensor, { flame.ones(1) })
    error_of(flame.tensor, { { 1, 2 }, flame.ones(2) })
    survives()
  end)
  it("with metatables are read raw", function()
    local t = setmetatable({ 1, 2, 3 },
      { __index = function() error("no") end, __len = function() return 1 << 50 end,
      __pairs = function() error("no") end })
    assert.same({ 1, 2, 3 }, flame.tensor(t):totable())
  end)
  it("that have their elements from a metatable are refused", function()
    local proxy = setmetatable({}, { __len = function() return 2 end, __index = rawlen })
    assert.matches("tensor: the elements at the top come from a metatable",
      error_of(flame.tensor, proxy))
    assert.matches("the elements at position %(2%) come from a metatable",
      error_of(flame.tensor, { { 1, 2 }, proxy }))
    assert.matches("the elements at position %(2%) come", error_of(flame.tensor, { {}, proxy }))
    assert.same({ 0 },
      flame.tensor(setmetatable({}, { __len = function() return 0 end })).shape)
  end)
  it("refuse integers and floats that do not fit", function()
    error_of(flame.tensor, { 256 }, { dtype = "u8" })
    error_of(flame.tensor, { -1 }, { dtype = "u8" })
    error_of(flame.tensor, { 0 / 0 }, { dtype = "i64" })
    error_of(flame.tensor, { math.huge }, { dtype = "i32" })
    error_of(flame.tensor, { 2 ^ 63 }, { dtype = "i64" })
    error_of(flame.tensor, { 1.5 }, { dtype = "i8" })
    assert.same({ math.mininteger }, flame.tensor({ math.mininteger }, { dtype = "i64" }):totable())
  end)
end)

describe("the library's own tables", function()
  it("take internal functions with nonsense", function()
    local odd = strangers()
    local risky = { fail_alloc = true, interrupt = true, budget = true, pin = true, unpin = true,
      plant = true, profile_start = true, enter_folder = true, dry = true, stacks_start = true,
      watch_walks = true }
    for line in io.lines("lua/meta/flame.lua") do      -- their parts are read at first use
      local name = line:match("^function flame%.([%w_]+)%(")
      if name then assert(flame[name], name) end
    end
    local all = {}                              -- a copy, since some calls add to flame.internal
    local function made_here()
      local pipe <close> = assert(io.popen("ls -a"))
      return pipe:read("a")
    end
    local before = made_here()
    for name, f in pairs(flame.internal) do
      if type(f) == "function" and not risky[name] then all[#all + 1] = f end
    end
    in_folder(function()
      for _, f in ipairs(all) do
        pcall(f)
        for i = 1, #odd, os.getenv("FLAME_SANITIZE") == "thread" and 9 or 1 do
          pcall(f, odd[i])
          pcall(f, odd[i], odd[i])
          pcall(f, flame.ones(2), odd[i])
          pcall(f, odd[i], odd[i], odd[i], odd[i])
          pcall(f, { flame.ones(1) }, { flame.ones(1), flame.ones(1) }, odd[i], {})
        end
      end
    end)
    assert.equal(before, made_here())
    survives()
  end)
  it("do not let a script reach a tensor's metatable", function()
    local x = flame.ones(1)
    assert.is_false(getmetatable(x))
    assert.is_false(pcall(setmetatable, x, {}))
    local meta = debug.getmetatable(x)
    meta.__gc(x)                              -- possible only with the debug library
    meta.__gc(x)
    meta.__gc(io.stdout)
    meta.__close(io.stdout)
    assert.is_false(meta.__eq(io.stdout, x))
    error_of(function() return x + 1 end)
    survives()
  end)
end)

describe("an error", function()
  it("in a module called from a script names the script's line", function()
    local nn, optim = require "flame.nn", require "flame.optim"
    local layer = nn.Linear(4, 2)
    local at = debug.getinfo(1, "l").currentline + 1
    local e = error_of(function() local y = layer(flame.ones(3, 5)) return y end)
    assert.matches("^" .. (here .. ":" .. at):gsub("%p", "%%%0") .. ": ", e)
    at = debug.getinfo(1, "l").currentline + 2
    e = error_of(function()
      local y = nn.Sequential { nn.Linear(4, 3), nn.ReLU(), nn.Linear(9, 1) }(flame.ones(2, 4))
      return y
    end)
    assert.matches("^" .. (here .. ":" .. at):gsub("%p", "%%%0") .. ": ", e)
    at = debug.getinfo(1, "l").currentline + 1
    e = error_of(function() local o = optim.SGD({ 1 }, { lr = 0.1 }) return o end)
    assert.matches("^" .. (here .. ":" .. at):gsub("%p", "%%%0") .. ": ", e)
    at = debug.getinfo(1, "l").currentline + 1
    e = error_of(function() local t = flame.load("/nonexistent/file.safetensors") return t end)
    assert.matches("^" .. (here .. ":" .. at):gsub("%p", "%%%0") .. ": ", e)
  end)
  it("in a user's module names the module's line", function()
    package.preload["spec.border.user"] = function()
      return load("return function(a, b)\n  return a:matmul(b)\nend", "=user.lua")()
    end
    local f = require "spec.border.user"
    assert.matches("^user.lua:2: matmul: ", error_of(f, flame.ones(2, 3), flame.ones(2, 3)))
    package.loaded["spec.border.user"], package.preload["spec.border.user"] = nil, nil
  end)
  it("thrown through coroutines keeps its line", function()
    local at = debug.getinfo(1, "l").currentline + 2
    local co = coroutine.wrap(function()
      return flame.ones(2) + flame.ones(3)
    end)
    assert.matches("^" .. (here .. ":" .. at):gsub("%p", "%%%0") .. ": add: ", error_of(co))
    local outer = coroutine.wrap(function()
      return coroutine.wrap(function() return flame.ones(1):reshape(7) end)()
    end)
    assert.matches(here:gsub("%p", "%%%0") .. ":%d+: reshape: ", error_of(outer))
  end)
  it("of a pcall of the function itself names the pcall's line", function()
    local at = debug.getinfo(1, "l").currentline + 1
    local _, e = pcall(flame.matmul, flame.ones(4, 3), flame.ones(5, 2))
    assert.equal(("%s:%d: matmul: inner sizes differ, (4, 3) and (5, 2)"):format(here, at), e)
  end)
  it("found when a value is read names the line that recorded it and the line that read it", function()
    local at = debug.getinfo(1, "l").currentline + 1
    local x = flame.arange(3.0)[flame.tensor({ 7 }, { dtype = "i64" })]
    local e = error_of(function() return x:totable() end)
    assert.matches("^" .. (here .. ":" .. at):gsub("%p", "%%%0") .. ": ", e)
    assert.matches("read at " .. (here .. ":" .. (at + 1)):gsub("%p", "%%%0"), e)
  end)
end)
