-- flame-lua spec/support/hostile_run.lua WAY runs the hostile scripts with this 'way'
-- (spec/limits/hostile_scripts.lua), each in a sandbox, and prints those that did not end as they
-- must. With "without LIMIT" three scripts run that aim at a limit, which is switched off, and with
-- "device" some that use up device memory. Prints counts at the end.
local flame = require "flame"
local scripts = dofile("spec/limits/hostile_scripts.lua")

local says = {
  time = "for a call is used up", total_time = "for all calls is used up",
  steps = "instructions of Lua is used up",
  memory = "of host memory; the limit of the context",
  nodes = "the limit of the context is %d+ nodes",
  coroutines = "the limit of the context is %d+ coroutines", output = "of output is used up",
  kernel_steps = "instructions of kernels is used up",
}
local MEMORY = 64 << 20
-- the seconds over the limit of time that docs/security.md allows; the test for data races is slow
local LATE = os.getenv("FLAME_SANITIZE") == "thread" and math.huge or 0.2 + 20e-9 * MEMORY

-- Makes a folder with a secret and with "in", which scripts may read, and returns its path.
local function make_folder()
  local base = os.tmpname()
  os.remove(base)
  assert(os.execute(([[mkdir -p %s/in/folder && cd %s && echo secret >outside && cd in && echo hello >inside &&
    mkfifo pipe && ln -s ../outside link && ln -s ../outside link.npy &&
    ln -s .. up]]):format(base, base)))
  return base
end

local function open(limits, folder, allow)
  local o = { memory = MEMORY, time = 0.2, output = 100000, coroutines = 1000, nodes = 10000,
    allow = allow or { "read", "write", "kernels", "code", "clock" }, folder = folder,
    print = function() end }
  for name, most in pairs(limits) do o[name] = most end
  return flame.sandbox(o)
end

-- Runs script s once. Returns true or what was wrong, and the seconds over the limit of time.
local function run(s, aim, limits, folder)
  local box <close> = open(limits, folder)
  local start, clock = flame.timer(), os.clock()
  local ok, why = pcall(box.run, box, s.text)
  -- processor time, if less: the process may have waited for a processor
  local took = math.min(start(), os.clock() - clock)
  local over = (aim == "time" or aim == "total_time") and took - 0.2 or 0
  if os.getenv("FLAME_HOSTILE_TIMES") and start() > 2 then print(start(), aim, s.text) end
  if aim == "ends" then return ok or why, over end
  if ok then return "it ran to its end", over end
  for text in (says[aim] or aim):gmatch("[^|]+") do
    if tostring(why):find(says[aim] and text or text, 1, not says[aim]) then return true, over end
  end
  return tostring(why), over
end

-- The limits under which a script with this aim runs: the limit it aims at has to stop it first.
local function limits_for(aim)
  if aim == "time" then return {} end
  if aim == "total_time" then return { total_time = 0.2, time = 60 } end
  if aim == "steps" then return { steps = 1000000, time = 60 } end
  if aim == "kernel_steps" then return { kernel_steps = 10000000, time = 60 } end
  return { time = 60, nodes = aim == "memory" and 0 or nil }
end

local function resident()
  for line in io.lines("/proc/self/status") do
    local kb = line:match("^VmHWM:%s*(%d+)")
    if kb then return tonumber(kb) end
  end
  return 0
end

local function way(name)
  local folder, n, bad, worst = make_folder(), 0, 0, 0
  for _, s in ipairs(scripts) do
    if s.way == name then
      for _, aim in ipairs(s.aim == "loop" and { "time", "steps" } or { s.aim }) do
        local good, over = run(s, aim, limits_for(aim), folder .. "/in")
        n, worst = n + 1, math.max(worst, over)
        if over > LATE and good == true then good = ("only %.2f s after its time"):format(over) end
        if good ~= true then
          bad = bad + 1
          print(("bad: must end by %s, got %s: %s"):format(aim, good, s.text))
        end
        if os.getenv("FLAME_HOSTILE_TIMES") and over > 0.05 then print(over, s.text) end
      end
    end
  end
  local secret = io.open(folder .. "/outside"):read("a")
  if secret ~= "secret\n" then print("bad: a file outside was written") end
  os.execute("rm -r " .. folder)
  print(("done: %d runs, %d bad, %.3f s over the limit at most, %d KB resident"):format(n, bad,
    worst, resident()))
end

-- Tests this file: with a limit switched off, run must find that scripts do not end as they must.
local function without(limit)
  local off = limits_for(limit)
  off[limit] = 0
  if limit == "time" then off.steps = 3000000 else off.time = 0.5 end
  if limit == "memory" then off.steps = 300000 end
  local tried, seen = 0, 0
  for _, s in ipairs(scripts) do
    if (s.aim == limit or (s.aim == "loop" and (limit == "time" or limit == "steps"))) and tried < 3
        and s.way ~= "nested" then
      tried = tried + 1
      local good = run(s, limit, off)
      if good ~= true then seen = seen + 1 end
    end
  end
  print(("done: %d tried, %d seen"):format(tried, seen))
end

-- Runs scripts that use up the memory of a device, with a limit and without one.
local function device()
  local texts = {
    "local t = {} for i = 1, 300 do t[i] = flame.zeros(1 << 18) flame.eval(t[i]) end",
    "local x = flame.zeros(1 << 18) for i = 1, 8 do x = flame.cat({ x, x }, 1) flame.eval(x) end",
    "local t = {} for i = 1, 300 do pcall(function() t[i] = flame.ones(1 << 18) + i "
      .. "flame.eval(t[i]) end) end flame.eval(flame.ones(1 << 23))",
  }
  local ended, seen = 0, 0
  for _, text in ipairs(texts) do
    for _, most in ipairs { 32 << 20, 0 } do
      local box <close> = flame.sandbox { device_memory = most, time = 60 }
      local _, why = pcall(box.run, box, text)
      local told = tostring(why):find("of device memory; the limit of the context", 1, true)
      if most > 0 then ended = ended + (told and 1 or 0) else seen = seen + (told and 0 or 1) end
    end
  end
  print(("done: %d tried, %d ended, %d seen"):format(#texts, ended, seen))
end

if arg[1] == "without" then without(arg[2])
elseif arg[1] == "device" then device()
else way(arg[1]) end
