--- flame's side of bench/compare.py. Reads a line for each request, and answers each with a line of
--- JSON, { "error": … } where it failed:
---   hello                     versions, device, threads
---   make NAME FILE KEY=VALUE… makes a case, writes what it was given (weights, data) to FILE.in,
---                             computes its results and writes them to FILE.out
---   time WHO REPS             seconds of one of REPS repetitions; WHO: ours, or another that the
---                             case has ("hand": kernels written by hand)
---   rate                      bytes per second of a copy
---   drop                      forgets the case
--- Run from the root of the repository:
---   flame-lua bench/peers/worker.lua DEVICE [cpu-time]
local flame = require "flame"
local json = require "flame.models.json"
for _, name in ipairs { "nn", "optim", "data", "models", "distributions" } do
  require("flame." .. name)
end
local device, own = arg[1] or flame.best_device(), arg[2] == "cpu-time"
flame.default_device(device)
local cases = dofile "bench/cases/list.lua"

local peer = dofile "bench/peers/peer.lua"
local current

--- One level of a table whose tensors are to be written: copies, since training changes them.
local function copies(list)
  local out, all = {}, {}
  for name, x in pairs(list) do
    x = x:detach():clone()
    out[name] = x
    all[#all + 1] = x
  end
  flame.eval(all)
  return out
end

local function make(name, file, options)
  local build = cases[name] or error("no case " .. name, 0)
  flame.seed(1)
  flame.deterministic(true)
  peer.start()
  local case = build(options, peer)
  flame.save(file .. ".in.safetensors", copies(peer.given))
  local results = case.check()
  if options.plant == 1 then                   -- a wrong result, which must be found
    local planted = next(results)
    if planted then results[planted] = results[planted]:float() * 1.01 + 0.5 end
  end
  for i, x in ipairs(peer.drawn) do results["draw." .. i] = x end
  flame.save(file .. ".out.safetensors", copies(results))
  peer.finish()
  current = case
  local who = {}
  for key in pairs(case.others or {}) do who[#who + 1] = key end
  local differ = case.differ and case.differ() or {}
  for key in pairs(options.plant == 1 and differ or {}) do differ[key] = differ[key] + 0.5 end
  return { who = setmetatable(who, json.list), differ = differ }
end

local function seconds(who, reps)
  local step = who == "ours" and current.step or current.others[who]
  flame.synchronize()
  local clock, start = flame.timer(), os.clock()
  if own then clock = function() return os.clock() - start end end
  for _ = 1, reps do step() end
  flame.synchronize()
  return clock() / reps
end

local function rate()
  local n = device:sub(1, 4) == "cuda" and 1 << 28 or 1 << 23
  local x, best = flame.rand(n), math.huge
  current = { step = function() flame.eval(x + 0) end }
  flame.eval(x)
  for _ = 1, 5 do best = math.min(best, seconds("ours", 3)) end
  current = nil
  return 8 * n / best
end

local answers = {}
function answers.hello()
  return { version = flame.version, device = device }
end
function answers.make(rest)
  local name, file, text = rest:match("^(%S+) (%S+) ?(.*)$")
  local options = {}
  for key, value in text:gmatch("(%S+)=(%S+)") do options[key] = tonumber(value) or value end
  return make(name, file, options)
end
function answers.time(rest)
  local who, reps = rest:match("^(%S+) (%d+)$")
  return { seconds = seconds(who, tonumber(reps)) }
end
function answers.rate() return { rate = rate() } end
function answers.drop()
  current = nil
  collectgarbage() collectgarbage()
  flame.empty_cache()
  return {}
end

for line in io.lines() do
  local word, rest = line:match("^(%S+) ?(.*)$")
  local ok, answer = pcall(answers[word] or error, rest)
  if not ok then answer = { error = tostring(answer):match("[^\n]*"):sub(1, 300) } end
  io.stdout:write((json.write(answer):gsub("\n *", "")), "\n")
  io.stdout:flush()
end
