-- flame.reload runs the file of a Lua module again while objects of its classes exist. They get the
-- new methods, and training continues.

local flame = require "flame"

local interpreter = dofile("spec/support/interpreter.lua")
if not interpreter:find "^/" then interpreter = os.getenv "PWD" .. "/" .. interpreter end
local folder = os.tmpname()
os.remove(folder)
assert(os.execute("mkdir '" .. folder .. "'"))
local path = package.path
setup(function() package.path = folder .. "/?.lua;" .. package.path end)
teardown(function()
  package.path = path
  os.execute("rm -rf '" .. folder .. "'")
end)

local count = 0
local function write(name, text)
  local f <close> = assert(io.open(folder .. "/" .. name .. ".lua", "w"))
  f:write(text)
end
--- Writes a new Lua module with this text; returns its name and what it returns.
local function module(text)
  count = count + 1
  local name = "reloaded" .. count
  write(name, text)
  return name, require(name)
end

describe("flame.reload", function()
  it("gives living objects the new methods, and loss and moments go on", function()
    local text = [[
      local flame = require "flame"
      local nn = flame.nn
      local Net = nn.Module.extend("Net")
      function Net:init() self.a, self.b = nn.Linear(3, 8), nn.Linear(8, 1) end
      function Net:forward(x) return self.b(self.a(x):tanh()) end
      function Net:name() return "old" end
      return { Net = Net, make = function() return Net() end }]]
    flame.seed(4)
    local name, m = module(text)
    local net, other = m.make(), nil
    local opt = flame.optim.Adam(net:parameters(), { lr = 0.05 })
    local x = flame.randn(16, 3)
    local y = x:sum(2):sin():reshape(16, 1)
    local function step()
      opt:zero_grad()
      local loss = (net(x) - y):square():mean()
      loss:backward()
      opt:step()
      return loss:item()
    end
    local first, last = step(), nil
    for _ = 1, 20 do last = step() end
    local p = net:parameters()[1]
    local moment = opt:state_of(p).exp_avg
    local Net, make = m.Net, m.make
    local expected = (net(x) * 2):clone()
    write(name, (text:gsub('"old"', '"new"'):gsub("self.b%(", "2 * self.b(")))
    assert.equal(m, flame.reload(name))
    assert.equal("new", net:name())
    assert.is_true(net(x):equal(expected))
    assert.equal(Net, m.Net)
    assert.equal(moment, opt:state_of(p).exp_avg)
    assert.equal(p, net:parameters()[1])
    assert.not_equal(make, m.make)
    local doubled = step()
    for _ = 1, 40 do last = step() end
    assert.is_true(last < doubled and last < first)
    assert.equal(62, opt:state_of(p).step)
    other = m.make()                                  -- an object of the existing class
    assert.equal(getmetatable(net), getmetatable(other))
    assert.equal("new", other:name())
  end)

  it("finds classes that only functions know, and plain ones", function()
    local text = [[
      local Local = {}
      Local.__index = Local
      function Local:size() return 1 end
      local function make() return setmetatable({}, Local) end
      local M = { Point = {} }
      M.Point.__index = M.Point
      function M.Point.new(x) return setmetatable({ x = x }, M.Point) end
      function M.Point:get() return self.x end
      function M.make() return make() end
      return M]]
    local name, m = module(text)
    local a, b = m.make(), m.Point.new(3)
    write(name, (text:gsub("return 1", "return 2"):gsub("self.x end", "self.x + 10 end")))
    flame.reload(name)
    assert.equal(2, a:size())
    assert.equal(13, b:get())
    assert.equal(getmetatable(a), getmetatable(m.make()))
    assert.equal(getmetatable(b), getmetatable(m.Point.new(1)))
  end)

  it("takes plain values, keeps objects, and begins locals again but for what is kept", function()
    local text = [[
      local flame = require "flame"
      local calls, all = 0, flame.keep("all", function() return { n = 0 } end)
      local M = { rate = 0.1, weights = flame.zeros(2), gone = function() end, list = { 1 } }
      function M.call()
        calls, all.n = calls + 1, all.n + 1
        return calls, all.n
      end
      return M]]
    local name, m = module(text)
    local w, list = m.weights, m.list
    m.call()
    m.call()
    w:add_(1)
    write(name, (text:gsub("0%.1", "0.5"):gsub("gone", "here")))
    flame.reload(name)
    local calls, all = m.call()
    assert.same({ 1, 3, 0.5 }, { calls, all, m.rate })
    assert.equal(w, m.weights)
    assert.same({ 1, 1 }, m.weights:totable())
    assert.equal(list, m.list)
    assert.is_nil(rawget(m, "gone"))
    assert.is_function(m.here)
  end)

  it("changes nothing when the file has an error", function()
    local name, m = module("local M = { a = 1 } function M.f() return 1 end return M")
    local f = m.f
    write(name, "local M = { a = 2 } error('half way') return M")
    assert.error_matches(function() flame.reload(name) end, "^half way$")
    write(name, "return = 3")
    assert.error_matches(function() flame.reload(name) end,
      "^reload: .*reloaded%d+.lua:1: unexpected symbol near '='$")
    assert.same({ 1, f, m }, { m.a, m.f, package.loaded[name] })
    assert.error_matches(function() flame.reload("nowhere") end, "module 'nowhere' is not loaded")
    assert.error_matches(function() flame.reload("string") end,
      "is not in a file of Lua\n\tno file")
  end)

  it("keeps nothing of a file that fails half way, and takes no other kind of value", function()
    local name, m = module("return { kept = flame.keep('old', 1) }")
    write(name, "package.loaded[...] = {} flame.keep('new', 'wrong') error('half way')")
    assert.error_matches(function() flame.reload(name) end, "^half way$")
    assert.equal(m, package.loaded[name])
    write(name, "return { kept = flame.keep('old', 2), new = flame.keep('new', 'right') }")
    flame.reload(name)
    assert.same({ 1, "right" }, { m.kept, m.new })
    write(name, "return 5")
    assert.error_matches(function() flame.reload(name) end,
      "module 'reloaded%d+' returned a table and returns a number now")
    assert.equal(m, package.loaded[name])
  end)

  it("without a name takes what has changed", function()
    local name, m = module("return { f = function() return 1 end }")
    flame.reload()
    assert.same({}, flame.reload())
    write(name, "return { f = function() return 20 end }")
    assert.same({ name }, flame.reload())
    assert.equal(20, m.f())
  end)
end)

describe("flame-lua --watch", function()
  it("takes a changed module over at the end of a step, and goes on after an error", function()
    write("watched", "return { rate = function() return 1 end }")
    write("main", [[
      local flame = require "flame"
      local m = require "watched"
      local w = flame.ones(1):requires_grad_()
      local opt = flame.optim.SGD({ w }, { lr = 0.1 })
      local function step()
        opt:zero_grad()
        local loss = (w * w):sum()
        loss:backward()
        opt:step()
      end
      local function change(text)
        local f <close> = io.open("watched.lua", "w")
        f:write(text)
      end
      step()
      change "return { rate = function() return 200 end }"
      local before = m.rate()
      for k = 1, 1e6 do step() if m.rate() ~= 1 then break end end
      print(before, m.rate())
      change "return +"
      local t = flame.timer and 0
      local begin = os.clock()
      while os.clock() - begin < 0.5 do step() end
      print(m.rate())]])
    local command = ("cd '%s' && '%s' --watch main.lua 2>&1"):format(folder, interpreter)
    local f = assert(io.popen(command))
    local out = f:read "a"
    f:close()
    assert.matches("flame: reloaded %./watched.lua\n1\t200\n", out)
    assert.matches("watched.lua:1: unexpected symbol.*: the old one goes on\n200\n$", out)
  end)
end)
