-- Measures what the garbage collector costs, and how much memory it leaves uncollected. For several
-- loops, modes of the collector and sizes of the script's heap it prints how much more processor
-- time a round takes than with the collector stopped (processes run in turns; medians), and the
-- largest resident memory and Lua heap in the first 1 % of the rounds and in all. Arguments: rounds
-- for memory (default 1,000,000; 0: only times), another interpreter ("": this one), turns (default
-- 7), names of loops (default all). Stock lua5.4 finds flame by LUA_CPATH=build/?.so.

local function word_of(command)
  local pipe = assert(io.popen(command))
  local text = pipe:read("a")
  pipe:close()
  return text
end

--- Makes records until Lua's heap has this many MB, and returns them.
local function fill(megabytes)
  local records = {}
  while collectgarbage("count") < megabytes * 1024 do
    for _ = 1, 1000 do
      records[#records + 1] = { #records, "record " .. #records, next = records[#records] }
    end
  end
  return records
end

local function loops()
  local flame = require "flame"
  local nn, optim = require "flame.nn", require "flame.optim"
  require "flame.data"
  flame.seed(1)
  local net = nn.Sequential { nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 3) }
  local opt = optim.AdamW(net:parameters(), { lr = 1e-3 })
  local start = flame.ones(16)
  flame.eval(start)
  local losses = {}
  return {
    chain = function()
      local y = start
      for _ = 1, 500 do y = y * 1.0001 + 0.5 end
      flame.eval(y)
    end,
    inference = function()
      flame.no_grad(function() return net(flame.tensor { { 1, 2, 3, 4 } }):argmax(2):item() end)
    end,
    metric = function()
      local out = flame.no_grad(function() return net(flame.tensor { { 1, 2, 3, 4 } }) end)
      local best, total = out:argmax(2):item(), out:sum():item()
      losses[#losses % 10000 + 1] = best + total
    end,
    training = function()
      local loss = flame.cross_entropy(net(flame.tensor { { 1, 2, 3, 4 }, { 4, 3, 2, 1 } }),
        flame.tensor({ 1, 2 }, { dtype = "i64" }))
      opt:zero_grad()
      loss:backward()
      opt:step()
      loss:item()
    end,
    values = function()                                  -- temporaries of 1 MB
      local x = flame.full({ 256, 1024 }, 0.5)
      for _ = 1, 4 do x = x * 0.5 + 1 end
      x:sum():item()
    end,
  }
end
local names = { "chain", "inference", "metric", "training", "values" }
local ROUNDS = { chain = 150, inference = 6000, metric = 4000, training = 1500, values = 200 }

local function resident()                                -- KB
  local f <close> = assert(io.open("/proc/self/statm"))
  f:read("n")
  return f:read("n") * 4
end

local function most_of(round, n, most)
  for i = 1, n do
    round()
    if i % 50 == 0 then
      most[1], most[2] = math.max(most[1], resident()), math.max(most[2], collectgarbage("count"))
    end
  end
  return most
end

--- What a child process does: it measures one loop and prints numbers. what: "time" or "memory".
local function child(what, name, mode, megabytes, rounds)
  collectgarbage(mode == "stopped" and "generational" or mode)
  local round = loops()[name]
  for _ = 1, 30 do round() end
  local kept = fill(megabytes)
  collectgarbage()
  -- costs that arise once, before the measurement
  for _ = 1, 100 do round() end
  if what == "time" then
    if mode == "stopped" then collectgarbage("stop") end
    local from = os.clock()
    for _ = 1, rounds do round() end
    print((os.clock() - from) / rounds * 1e6)
  else
    local most = most_of(round, rounds // 100, { 0, 0 })
    local early, early_heap = most[1], most[2]
    most_of(round, rounds - rounds // 100, most)
    print(early, most[1], early_heap, most[2])
  end
  return kept
end

if arg[1] == "time" or arg[1] == "memory" then
  child(arg[1], arg[2], arg[3], tonumber(arg[4]), tonumber(arg[5]))
  os.exit(true, false)
end

local interpreter = (arg[2] or "") ~= "" and arg[2] or arg[-1]
local turns = tonumber(arg[3]) or 7
if arg[4] then names = table.move(arg, 4, #arg, 1, {}) end

local function run(what, name, mode, megabytes, rounds)
  local list = {}
  for field in word_of(("'%s' bench/collector.lua %s %s %s %d %d"):format(interpreter, what, name,
    mode, megabytes,
    rounds)):gmatch("%S+") do list[#list + 1] = tonumber(field) end
  return table.unpack(list)
end
local function median(list)
  table.sort(list)
  return list[(#list + 1) // 2]
end

--- Microseconds of a round with the collector stopped, and by how many percent a round takes longer
--- in generational and in incremental mode.
local function shares(name, megabytes)
  local base, more = {}, { generational = {}, incremental = {} }
  for turn = 1, turns do
    base[turn] = run("time", name, "stopped", megabytes, ROUNDS[name])
    for mode, list in pairs(more) do
      local t = run("time", name, mode, megabytes, ROUNDS[name] * (megabytes > 0 and 3 or 1))
      list[turn] = (t / base[turn] - 1) * 100
    end
  end
  return median(base), median(more.generational), median(more.incremental)
end

for _, megabytes in ipairs { 0, 200 } do
  for _, name in ipairs(names) do
    local line = "%3d MB %-10s stopped %8.1f us a round, generational %+5.1f %%, incremental %+5.1f %%"
    print(line:format(megabytes, name, shares(name, megabytes)))
  end
end
local rounds = tonumber(arg[1]) or 1000000
if rounds == 0 then return end
for _, name in ipairs { "inference", "metric", "training" } do
  for _, mode in ipairs { "generational", "incremental" } do
    local early, late, early_heap, late_heap = run("memory", name, mode, 0, rounds)
    print(("%-10s %-12s resident %7.0f KB, then %7.0f KB (%.2f times); heap %6.0f KB, then %6.0f KB (%.2f times)"):format(name,
      mode, early, late, late / early, early_heap, late_heap, late_heap / early_heap))
  end
end
