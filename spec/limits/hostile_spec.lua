-- Hostile scripts in sandboxes (flame.sandbox): each must be ended by the limit that it attacks,
-- and leave the process unchanged. Each group of scripts runs in a child process, which is killed
-- if it hangs. FLAME_HOSTILE_TIMES=1 prints slow scripts.
local program = dofile("spec/support/interpreter.lua")
local machine = require "spec.support.machine"
local sanitizer = os.getenv "FLAME_SANITIZE"
-- Resident KB allowed: the sandboxes' limit plus 64 MB; no bound under TSan. Under ASan 8 times the
-- limit: small blocks take 7 times as much, and freed ones are kept unless OPTIONS forbids it.
local RESIDENT = sanitizer == "thread" and math.huge
  or (sanitizer and 8 or 1) * 64 * 1024 + 64 * 1024
local OPTIONS = sanitizer == "address" and "ASAN_OPTIONS=$ASAN_OPTIONS:quarantine_size_mb=1 " or ""

local function child(arguments)
  -- On the CPU. The limit of a GPU's memory is tested apart, by the last test of this file.
  local command = OPTIONS .. "FLAME_DEVICE=cpu timeout -s KILL %d %s %s %s 2>&1"
  local pipe = assert(io.popen(command:format(sanitizer and 600 or 240, program,
    "spec/support/hostile_run.lua", arguments)))
  local out = pipe:read("a")
  pipe:close()
  if os.getenv("FLAME_HOSTILE_TIMES") then io.write(arguments, ": ", out) end
  return out
end

describe("hostile scripts", function()
  local count = {}
  for _, s in ipairs(dofile("spec/limits/hostile_scripts.lua")) do
    count[s.way] = (count[s.way] or 0) + 1
  end
  for way, n in pairs(count) do
    it(("end by the limit they aim at: %s"):format(way), function()
      local out = child(("'%s'"):format(way))
      assert.is_true(n >= 15)
      local runs, bad, kb = out:match("done: (%d+) runs, (%d+) bad, .- (%d+) KB")
      assert.truthy(runs, out)
      assert.equal("0", bad, out)
      assert.is_nil(out:find("bad:", 1, true), out)
      assert.is_true(tonumber(runs) >= n, out)
      assert.is_true(tonumber(kb) < RESIDENT, out)
    end)
  end
  for _, limit in ipairs { "time", "total_time", "steps", "memory", "nodes", "coroutines", "output",
    "kernel_steps" } do
    it(("are seen where the limit is off: %s"):format(limit), function()
      local tried, seen = child("without " .. limit):match("done: (%d+) tried, (%d+) seen")
      assert.is_true(tonumber(tried or 0) > 0)
      assert.equal(tried, seen)
    end)
  end

  -- On the fake driver: sandboxes limit the memory of GPUs too.
  it("end by the limit of a device's memory, and are seen where it is off", function()
    local folder = machine.new()
    local pipe = assert(io.popen(("FLAME_DEVICE=cuda FLAME_CACHE_DIR=off FLAME_TEST_MACHINE=%s "
      .. "FAKE_CUDA= timeout -s KILL 240 %s spec/support/hostile_run.lua device 2>&1")
      :format(folder, program)))
    local out = pipe:read "a"
    pipe:close()
    machine.remove(folder)
    assert.equal("done: 3 tried, 3 ended, 3 seen\n", out)
  end)
end)
