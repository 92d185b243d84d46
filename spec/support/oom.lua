--- Lets allocations of an operation fail: the k-th alone, or the k-th and all after it, for every k
-- until the operation succeeds (FLAME_OOM_STRIDE=n: every n-th k; under sanitizers every 7th). An
-- error must be a plain string, nothing may leak, inputs keep their bits, and a repetition without
-- failures gives the same result as before. Plans are forgotten first, so that planning fails, too.
local flame = require "flame"
local internal = flame.internal

local sanitized = os.getenv("FLAME_SANITIZE") ~= nil
-- the step between the k that are tried: 7 under sanitizers, else FLAME_OOM_STRIDE, or 1
local STRIDE = sanitized and 7 or tonumber(os.getenv "FLAME_OOM_STRIDE") or 1
local MOST = 20000

-- Collects garbage until there are this many tensors and nodes again, at most six times. Returns
-- the numbers of tensors, nodes and bytes. Once is not enough: what a function of the host keeps
-- lives one collection longer than its result, and its inputs may be results of such functions.
local function live(tensors, nodes)
  local s
  for _ = 1, 6 do
    collectgarbage()
    s = flame.stats()
    if s.live_tensors == tensors and s.live_nodes == nodes then break end
  end
  return s.live_tensors, s.live_nodes, s.live_bytes
end

-- Raises if there are not as many tensors, nodes and bytes as there were. Mostly the library has
-- collected all when memory was out; then no garbage is collected, unless 'always' is true.
local function is_clean(at, was, always)
  local s = flame.stats()
  local now = { s.live_tensors, s.live_nodes, s.live_bytes }
  if not always and now[1] == was[1] and now[2] == was[2] and now[3] == was[3] then return end
  now = { live(was[1], was[2]) }
  assert(now[1] == was[1] and now[2] == was[2] and now[3] == was[3],
    ("%s: %d tensors, %d nodes, %d bytes; were %d, %d, %d"):format(at, now[1], now[2], now[3],
      table.unpack(was)))
end

local function bits(tensors)
  local out = {}
  for i, t in ipairs(tensors) do out[i] = t:bytes() end
  return out
end

-- A copy of results in which tensors are replaced with their bytes, so that NaN equals itself.
local function plain(v)
  if flame.is_tensor(v) then return v:bytes() end
  if type(v) ~= "table" then return v end
  local out = {}
  for k, x in pairs(v) do out[k] = plain(x) end
  return out
end

local function same(a, b)
  if type(a) ~= "table" or type(b) ~= "table" then return a == b end
  for k, v in pairs(a) do if not same(v, b[k]) then return false end end
  for k in pairs(b) do if a[k] == nil then return false end end
  return true
end

-- pcall of f on the inputs, with the same seed each time, so that random values are the same.
local function try(f, inputs)
  flame.seed(7)
  return pcall(function() return plain({ f(table.unpack(inputs)) }) end)
end

-- Runs f with every stride-th k and raises where it does not survive (see the head of this file).
-- inputs: tensors that f may not change. Returns for how many k f raised an error.
local function survive(name, f, inputs, stride)
  inputs = inputs or {}
  flame.eval(table.unpack(inputs))
  local ok, expected = try(f, inputs)
  assert(ok, expected)
  assert(try(f, inputs))                     -- loads what is loaded only once
  local before = bits(inputs)
  local was = table.pack(live())
  local failures, met = 0, false
  for pass = 1, 2 do
    local forever, k, reached = pass == 2, 1, true
    while reached do
      local at = ("%s, allocation %d%s"):format(name, k, forever and " and all later" or "")
      internal.forget_plans()
      flame.empty_cache()
      local calls = internal.fail_alloc(k, forever)
      local done, result = try(f, inputs)
      reached = internal.fail_alloc(0) >= calls + k
      met = met or reached
      if not done then
        failures = failures + 1
        assert(type(result) == "string", at .. ": the error is no string")
        assert(result:find("memory", 1, true) or result:find("bytes", 1, true),
          at .. ": " .. result)
      else
        assert(same(expected, result), at .. ": another value")
      end
      result = nil                             -- luacheck: ignore 311 (its tensors must go)
      is_clean(at, was)
      assert(same(before, bits(inputs)), at .. ": an input changed")
      local again, value = try(f, inputs)
      assert(again, at .. ", then again: " .. tostring(value))
      assert(same(expected, value), at .. ", then again: another value")
      k = k + stride
      assert(k < MOST, name .. " never gets through")
    end
    is_clean(name, was, true)
  end
  -- An operation on a GPU possibly allocates nothing on the host, so that nothing can fail.
  assert(failures > 0 or not met and flame.default_device() ~= "cpu",
    name .. ": nothing was made to fail")
  return failures
end

local function ramp(...)
  local n = 1
  for _, s in ipairs({ ... }) do n = n * s end
  return flame.eval((flame.arange(1.0, n) * 0.37 - 1):sin():reshape(...):clone())
end

--- Returns family(name, f, make), which makes a test (by busted's 'it') that runs f with every
--- stride-th k, or every STRIDE-th if that is more or FLAME_OOM_STRIDE is set. make(): f's inputs.
local function families(it, stride)
  stride = math.max(STRIDE, os.getenv "FLAME_OOM_STRIDE" and 1 or stride)
  return function(name, f, make)
    it("is survived by " .. name, function()
      local n = survive(name, f, make and { make() } or nil, stride)
      if os.getenv("FLAME_OOM_COUNTS") then print(name, n) end
    end)
  end
end
return { families = families, ramp = ramp, STRIDE = STRIDE, MOST = MOST }
