--- flame.sandbox: scripts that you have not read, in a separate state (src/lua/sandbox.c).
local internal = require("flame").internal
local arguments = require "flame.base.arguments"
local objects = require "flame.base.objects"
local fail = arguments.fail

-- Numbers of the limits and bits of the permissions, as flame.h has them.
local LIMIT = { memory = 0, device_memory = 1, nodes = 2, coroutines = 3, time = 4, total_time = 5,
  steps = 6, kernel_steps = 7, output = 8 }
local BIT = { read = 1, write = 2, kernels = 4, code = 8, workers = 16, devices = 32,
  libraries = 64, clock = 128 }
local ALL = 0xffffffff

local Sandbox = { __name = "Sandbox" }
objects.classes.Sandbox = Sandbox
Sandbox.__index, Sandbox.__newindex = objects.closed("a sandbox", Sandbox, {})
-- sandbox object -> its internal handle, which scripts must not reach
local handles = setmetatable({}, { __mode = "k" })

local function handle(self)
  return handles[self] or fail("sandbox", "need a sandbox, got %s", arguments.word(self))
end

local function bits(allow)
  local denied = ALL
  for _, name in ipairs(allow or {}) do
    if not BIT[name] then
      fail("sandbox", "no permission '%s'%s", tostring(name), internal.hint(tostring(name), BIT))
    end
    denied = denied & ~BIT[name]
  end
  return denied
end

--- A separate state for scripts that you have not read, with limits and without the rights of this
-- program: no files, no processes, no threads, and no modules except flame's. memory and
-- device_memory in bytes, nodes in recorded values that are needed, time (of a call) and total_time
-- in seconds, steps in instructions, kernel_steps in those of kernels (once for all threads of a
-- block), output in bytes written; 0 is no limit. allow is a list of "read", "write" (files beneath
-- folder), "kernels", "code" (load), "devices", "libraries", "clock", and, where all limits are 0,
-- "workers". print gets what scripts print; by default that goes to this program's output. Limits
-- of this state apply inside too. See docs/security.md.
arguments.def(".sandbox(*, memory = 268435456, device_memory: int = 1073741824, nodes = 1000000, "
  .. "coroutines = 1000, time: num = 10, total_time: num = 0, steps = 0, kernel_steps = 0, "
  .. "output = 1048576, allow?: str[], folder = \".\", print?: fn, device?: str, threads = 1) "
  .. "-> Sandbox",
  function(memory, device_memory, nodes, coroutines, time, total_time, steps, kernel_steps, output,
           allow, folder, print, device, threads)
    local o = { folder = folder, device = device, threads = threads, deny = bits(allow) }
    local given = { memory = memory, device_memory = device_memory, nodes = nodes,
      coroutines = coroutines, time = time * 1e9, total_time = total_time * 1e9, steps = steps,
      kernel_steps = kernel_steps, output = output }
    for name, k in next, LIMIT do
      local v = given[name]
      if not (v >= 0 and v < 2^62) then fail("sandbox", "%s is %s, need 0 or more", name, v) end
      o[k] = math.tointeger(v) or math.floor(v)
      if o[k] > 0 and o.deny & BIT.workers == 0 then
        fail("sandbox", "workers can be allowed only where all limits are 0, since they have none")
      end
    end
    local self = setmetatable({}, Sandbox)
    handles[self] = internal.sandbox_open(o, print)
    return self
  end)

local function results(ok, ...)
  if not ok then fail("sandbox", "%s", (...)) end
  return ...
end

local function put(text, f) Sandbox[text:match(":([%w_]+)%(")] = internal.declare(text, "", f) end

--- Runs the text as a chunk with these arguments, and returns its results. Arguments and results
--- are copied: numbers, strings, booleans, plain tables and tensors. An error in the chunk is
--- raised here.
put("Sandbox:run(text: str, ...) -> ...", function(self, text, ...)
  return results(internal.sandbox_run(handle(self), text, "=sandbox", ...))
end)

--- Calls the global function of this name that an earlier chunk has defined.
put("Sandbox:call(name: str, ...) -> ...", function(self, name, ...)
  return results(internal.sandbox_call(handle(self), name, ...))
end)

--- What is in use and what the last call has used up, by the names of the limits.
put("Sandbox:used() -> table", function(self)
  local now, out = internal.sandbox_used(handle(self)), {}
  for name, k in next, LIMIT do
    out[name] = name:find("time$") and now[k] / 1e9 or now[k]
  end
  return out
end)

--- Ends the sandbox and frees its memory. A sandbox may be a <close> variable.
put("Sandbox:close()", function(self) internal.sandbox_close(handle(self)) end)
Sandbox.__close = function(self) internal.sandbox_close(handle(self)) end
