-- Finalisers of a script run wherever Lua allocates, also in the middle of a call of the library.
-- They may free the tensors that the call was given. The call must then raise, or use the values
-- that it has read, but not read freed memory, which ends the process under sanitizers. A child
-- process does this, with a collector that runs a full cycle at each allocation.
local interpreter = dofile("spec/support/interpreter.lua")

local child = [[
local flame = require "flame"
local action, left
local function arm()
  setmetatable({}, { __gc = function()
    left = left - 1
    if left == 0 and action then action() end
    arm()
  end })
end

-- Calls f(x, y) while a finaliser runs do_this(x, y): at the first allocation of the call, at the
-- second, and so on.
local function disturbed(make, do_this, f)
  for k = 1, 8 do
    local x, y = make()
    action, left = function() do_this(x, y) end, k
    collectgarbage("incremental", 1, 1000, 40) collectgarbage("restart")
    pcall(f, x, y)
    collectgarbage("incremental", 200, 100, 13)
    action = nil
  end
end
left = 0
arm()

local function free(x, y) x:free() if y then y:free() end end
local function two() return flame.ones(3, 3):requires_grad_(true), flame.ones(3, 3) end
local function with_gradient()
  local x = flame.ones(3):requires_grad_(true)
  ;(x * 2):sum():backward()
  return x, flame.ones(3)
end
]] .. "%s" .. [[

assert(flame.arange(4.0):sum():item() == 10)
print("survived")
]]

local function survives(script)
  local path = os.tmpname()
  local f = assert(io.open(path, "w"))
  f:write((child:gsub("%%s", function() return script end)))
  f:close()
  local pipe = assert(io.popen(("'%s' '%s' 2>&1"):format(interpreter, path)))
  local output = pipe:read("a")
  pipe:close()
  os.remove(path)
  assert.equal("survived\n", output)
end

describe("a finaliser that frees the arguments of the call it interrupts", function()
  it("leaves facts and values safe", function()
    survives [[
for _, name in ipairs { "shape", "ndim", "dtype", "device", "T", "mT", "is_leaf" } do
  disturbed(two, free, function(x) return x[name] end)
end
for _, name in ipairs { "size", "stride", "numel", "totable", "bytes", "item", "sum" } do
  disturbed(two, free, function(x) return x[name](x) end)
end]]
  end)

  it("leaves shapes safe, also where an axis stands by its name", function()
    survives [[
for _, name in ipairs { "squeeze", "unsqueeze", "split", "chunk", "unbind", "flatten", "cumsum", "sum", "softmax" } do
  disturbed(two, free, function(x) return x[name](x, { dim = 1 }) end)
  disturbed(two, free, function(x) return x[name](x, 2, { dim = 1 }) end)
end
for _, name in ipairs { "expand_as", "add", "matmul", "gather", "transpose" } do
  disturbed(two, free, function(x, y) return x[name](x, y) end)
end]]
  end)

  it("leaves indexing and its writes safe", function()
    survives [[
local function indexed() return flame.ones(3, 3), flame.ones(2):long() end
disturbed(indexed, free, function(x, i) return x[{ i }] end)
disturbed(indexed, free, function(x, i) return x[{ { 1, 2 }, i }] end)
disturbed(indexed, free, function(x, i) x[{ i }] = 1 end)
disturbed(indexed, free, function(x) x[{ { 1, 2 } }] = 2 end)]]
  end)

  it("leaves indexing safe where it turns index tensors into masks, and back", function()
    survives [[
local function indexed() return flame.ones(3, 3, 3, 3), flame.ones({ 1, 1, 1, 1 }, { dtype = "i64" }) end
local function masked() return flame.ones(2, 2), flame.ones({ 2, 2 }, { dtype = "bool" }) end
for _, to in ipairs { "bool", "i64", "f32" } do
  local function turn(_, i) i:to_(to) end
  for _, make in ipairs { indexed, masked } do
    disturbed(make, turn, function(x, i) return x(i, i, i, i) end)
    disturbed(make, turn, function(x, i) return x[i]:sum():item() end)
    disturbed(make, turn, function(x, i) x[{ i, i, i, i }] = 1 end)
    disturbed(make, turn, function(x, i) x[i] = flame.ones(1) end)
  end
end]]
  end)

  it("leaves gradients and hooks safe", function()
    survives [[
disturbed(with_gradient, function(x) x.grad = nil end, function(x) return x.grad end)
disturbed(with_gradient, free, function(x) return x.grad end)
disturbed(with_gradient, free, function(x, g) x.grad = g end)
disturbed(with_gradient, free, function(x) x:register_hook(print) end)]]
  end)
end)
