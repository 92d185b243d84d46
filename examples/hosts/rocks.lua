-- rocks: a program for the usual lua5.4 that uses flame and another module of LuaRocks: lua-cjson
-- reads lines of JSON, and writes the result as JSON.
--
--   luarocks make && luarocks install lua-cjson && lua5.4 rocks.lua [FILE of {"x": [..], "y": ..}]
--
-- It fits y as a linear function of the numbers in x, and prints the weights and the largest error.
-- Without a file it makes lines for y = 3 a - 2 b + 0.5.
local cjson = require "cjson"
local flame = require "flame"

--- An iterator over the lines of a file, or over 200 lines that are made here.
local function lines_of(path)
  if path then return io.lines(path) end
  local i, state = 0, 7
  local function roll()
    state = (state * 1103515245 + 12345) % 2147483648
    return state / 1073741824 - 1
  end
  return function()
    i = i + 1
    if i > 200 then return nil end
    local a, b = roll(), roll()
    return cjson.encode { x = { a, b }, y = 3 * a - 2 * b + 0.5 }
  end
end

local xs, ys = {}, {}
for line in lines_of(arg[1]) do
  local ok, row = pcall(cjson.decode, line)
  if not ok or type(row) ~= "table" or type(row.x) ~= "table" or type(row.y) ~= "number" then
    io.stderr:write(("line %d is no {x = […], y = number}\n"):format(#xs + 1))
    os.exit(1)
  end
  xs[#xs + 1], ys[#ys + 1] = row.x, { row.y }
end

flame.seed(1)
local x, y = flame.tensor(xs), flame.tensor(ys)
local net = flame.nn.Linear(x:size(2), 1)
local adam = flame.optim.Adam(net:parameters(), { lr = 0.05 })
for _ = 1, 400 do
  adam:zero_grad()
  flame.mse_loss(net(x), y):backward()
  adam:step()
end
print(cjson.encode {
  weight = net.weight:totable()[1], bias = net.bias:item(),
  error = (net(x) - y):abs():amax():item(),
})
