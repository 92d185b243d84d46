-- FLAME_CHECK=nan: recorded ops are planned and run as usual; if a NaN is made, they run again one
-- by one, to find the op (src/engine/scan.c).
local interpreter = dofile("spec/support/interpreter.lua")

local function quote(s) return "'" .. s:gsub("'", "'\\''") .. "'" end

--- What a script prints under FLAME_CHECK=nan, or in another environment.
local function run(script, environment)
  local pipe = assert(io.popen(("%s %s -e %s 2>&1"):format(environment or "FLAME_CHECK=nan",
    quote(interpreter), quote(script))))
  local text = pipe:read "a"
  pipe:close()
  return text
end

local function has(text, ...)
  for _, part in ipairs { ... } do
    assert.truthy(text:find(part, 1, true), part .. "\nin\n" .. text)
  end
end

local network = [[
local nn, optim = require "flame.nn", require "flame.optim"
flame.seed(3)
local layers = {}
for i = 1, 12 do layers[i] = nn.Linear(4, 4) end
local net = nn.Sequential(table.unpack(layers))
local opt = optim.AdamW(net:parameters(), { lr = 1e-2 })
local x = flame.randn(3, 4)
local function step(factor)
  local h = x
  for i = 1, 12 do
    h = layers[i](h):tanh()
    if i == 7 then h = ((h * factor) ^ 2):sqrt() end
  end
  local loss = h:square():mean()
  opt:zero_grad()
  loss:backward()
  opt:step()
  return loss
end
]]

describe("FLAME_CHECK=nan", function()
  it("names the op, line and operands of a NaN that a later step makes in backward", function()
    local text = run(network .. [[
for i = 1, 4 do step(1):item() end
local before = layers[1].weight:clone()
flame.eval(before)
print(pcall(function() return step(0):item() end))
print("kept", flame.equal(before, layers[1].weight))
print("goes on", step(1):item() > 0)]])
    has(text, "false\t(command line):12: backward of square: mul made NaN out of operands without",
      ", in 12 of 12 elements of shape (3, 4); operands: ",
      "(3, 4) f32 from -inf to inf, 12 infinite",
      "kept\ttrue", "goes on\ttrue")
  end)

  it("finds one that no result shows", function()
    has(run [[
local x = flame.tensor{ -1, 4 }
local root = x:sqrt()
print(pcall(function() return flame.where(x:gt(0), root, 0.0):sum():item() end))]],
      "false\t(command line):2: sqrt: made NaN out of operands without one, in 1 of 2 elements of shape (2)",
      "operands: (2) f32 from -1 to 4, mean 1.5 (read at (command line):3)")
  end)

  it("finds one in a product, a call, a scatter, a half and a row's sum", function()
    has(run [[
local inf = flame.full({ 2, 2 }, math.huge)
local zero = flame.zeros(2, 2)
local index = flame.tensor({ 1, 1 }, { dtype = "i64" })
for name, f in pairs {
  a = function() return inf:matmul(zero) end,
  b = function() return inf:cumsum(1):sub(inf):cumsum(1) end,
  c = function() return (-inf):index_add(1, index, inf) end,
  d = function() return (inf:half() * zero:half()):sum() end,
  e = function() return (inf - flame.arange(2.0)):softmax(2) end,
  f = function() return flame.cat({ inf, -inf }, 1):cumsum(1) end,
} do print(name, select(2, pcall(function() return f():sum():item() end))) end]],
      "a\t(command line):5: matmul: made NaN", "b\t(command line):6: sub: made NaN",
      "c\t(command line):7: ", "d\t(command line):8: mul: made NaN", "e\t(command line):9: ",
      "f\t(command line):10: cumsum: made NaN")
  end)

  it("gives the values of a run without it where a NaN was given", function()
    local script = [[
flame.seed(5)
local x, w = flame.tensor{ 0 / 0, 2, 3 }, flame.tensor{ 1.0, 2.0, 3.0 }
local old = w
for i = 1, 3 do
  local y = x * w + flame.rand(3)
  local before = w:detach()
  w:add_(y * 0.5)
  w:mul_(2)
  print(y[2]:item(), (before + 1)[3]:item())
end
flame.eval(w)
print(w, old, flame.randn(2))]]
    assert.equal(run(script, "FLAME_CHECK="), run(script):gsub("^flame: [^\n]*\n", ""), nil)
  end)

  it("counts the launches and bytes of the plan alone, which is the one without it", function()
    local text = network .. [[
step(1):item()
local before = flame.stats()
for i = 1, 3 do step(1):item() end
local after = flame.stats()
print(after.launches - before.launches, after.bytes_moved - before.bytes_moved, after.plans)]]
    local without = run(text, "FLAME_CHECK=")
    assert.truthy(without:find "^%d+\t%d+\t%d+\n$", without)
    has(run(text), without)
  end)

  it("says once that memory may double, and not where nothing is written", function()
    local said = "flame: FLAME_CHECK=nan keeps a copy of what a step writes, so memory may double\n"
    local text = run "local x = flame.ones(3) for _ = 1, 4 do x:mul_(2) flame.eval(x) end print(x[1]:item())"
    assert.equal(said .. "16.0\n", text)
    assert.equal("3.0\n", run "print(flame.ones(3):sum():item())")
  end)

  it("names it at the next read where a full window made it", function()
    has(run [[
flame.internal.budget(3)
local y = flame.tensor{ -1 }:sqrt()
local z = flame.ones(3)
for _ = 1, 9 do z = z + 1 end
print(pcall(function() return z[1]:item() end))
print(z[1]:item())]], "false\t(command line):2: sqrt: made NaN", "\n10.0\n")
  end)

  it("leaves a state as it was where memory runs out in a copy", function()
    has(run [[
local x = flame.ones(100)
flame.eval(x)
local failed
for k = 1, 40 do
  x:mul_(2):div_(2)
  flame.internal.forget_plans()
  flame.internal.fail_alloc(k, true)
  local ok = pcall(flame.eval, x)
  flame.internal.fail_alloc(0)
  if not ok then failed = true end
  assert(x:sum():item() == 100)
end
print("failed", failed)]], "failed\ttrue")
  end)
end)
