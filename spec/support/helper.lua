--- Loaded by busted before every spec file: number comparisons for nested tables and tensors,
-- and two full collections after each test so that finalisers run where they belong. In a build for
-- tests the collector makes its steps before each evaluation, however long they take: otherwise it
-- postpones some on a busy machine, and plans then store dead values (src/engine/collect.c).
--
--   assert.close(expected, actual[, tol])              numbers, |difference| <= tol (1e-6)
--   assert.allclose(expected, actual[, {rtol=, atol=}])  nested tables or tensors
--
-- NaN equals NaN, an infinity equals itself. The message names the worst element.

local busted = require "busted"
local luassert = require "luassert"
local say = require "say"

local function is_tensor(v)
  return type(v) == "userdata" and type(v.totable) == "function"
end

--- A tensor as a Lua value (a 0-d one as a number); other values unchanged.
local function plain(v)
  if not is_tensor(v) then return v end
  return v.ndim == 0 and v:item() or v:totable()
end

--- By how much the difference of two numbers exceeds the tolerance: <= 0 is fine.
local function excess(e, a, rtol, atol)
  if e ~= e or a ~= a then return (e ~= e and a ~= a) and 0 or math.huge end
  if e == a then return 0 end
  if e == math.huge or e == -math.huge or a == math.huge or a == -math.huge then
    return math.huge
  end
  return math.abs(e - a) - (atol + rtol * math.abs(e))
end

--- Walk both values; the worst element goes into 'worst', a difference of form into its text.
local function compare(e, a, options, place, worst)
  if type(e) == "table" and type(a) == "table" then
    if #e ~= #a then
      worst.form = worst.form or ("%s: %d elements, expected %d"):format(place, #a, #e)
      return
    end
    for i = 1, #e do compare(e[i], a[i], options, ("%s[%d]"):format(place, i), worst) end
  elseif type(e) == "number" and type(a) == "number" then
    local x = excess(e, a, options.rtol, options.atol)
    worst.count = worst.count + 1
    if x > 0 then worst.bad = worst.bad + 1 end
    if x > worst.excess then
      worst.excess, worst.place, worst.expected, worst.actual = x, place, e, a
    end
  elseif e ~= a then
    worst.form = worst.form or ("%s: %s, expected %s"):format(place, tostring(a), tostring(e))
  end
end

local function allclose(state, arguments)
  local options = arguments[3] or {}
  options = { rtol = options.rtol or 1e-5, atol = options.atol or 1e-6 }
  local worst = { count = 0, bad = 0, excess = 0 }
  compare(plain(arguments[1]), plain(arguments[2]), options, "value", worst)
  if worst.form then
    state.failure_message = "different form: " .. worst.form
  elseif worst.excess > 0 then
    state.failure_message = ("%d of %d elements differ; worst: %s is %.17g, expected %.17g" ..
      " (difference %.3g, rtol %g, atol %g)"):format(worst.bad, worst.count, worst.place,
      worst.actual, worst.expected, math.abs(worst.actual - worst.expected),
      options.rtol, options.atol)
  else
    state.failure_message = "the values are close"
    return true
  end
  return false
end

local function close(state, arguments)
  local e, a, tol = plain(arguments[1]), plain(arguments[2]), arguments[3] or 1e-6
  if type(e) ~= "number" or type(a) ~= "number" then
    state.failure_message = ("close needs numbers, got %s and %s"):format(type(e), type(a))
    return false
  end
  state.failure_message = ("expected %.17g, got %.17g (difference %.3g, tolerance %g)"):format(
    e, a, math.abs(e - a), tol)
  return excess(e, a, 0, tol) <= 0
end

-- luassert has a 'near'; these two carry their own message.
say:set("assertion.close.negative", "the numbers are close")
say:set("assertion.allclose.negative", "the values are close")
luassert:register("assertion", "close", close, "", "assertion.close.negative")
luassert:register("assertion", "allclose", allclose, "", "assertion.allclose.negative")

--- Called once, although busted runs this file and specs require it as well.
local function subscribe()
  -- The garbage of a test is collected before the next test begins, if it includes tensors.
  local flame, left = require "flame", 0
  if flame.internal.collector_waits then flame.internal.collector_waits(0) end
  busted.subscribe({ "test", "end" }, function()
    if flame.stats().live_tensors > left then
      collectgarbage()
      collectgarbage()
    end
    left = flame.stats().live_tensors
    return nil, true
  end)
  -- SPEC_PART=2/8: every eighth test from the second, for machines that run a file in several
  -- processes.
  local part, parts = (os.getenv("SPEC_PART") or ""):match("^(%d+)/(%d+)$")
  if not part then return end
  local n = 0
  busted.subscribe({ "register", "it" }, function()
    n = n + 1
    return nil, n % parts == part % parts
  end, { priority = 1 })
end
if not package.loaded["spec.support.helper.subscribed"] then
  package.loaded["spec.support.helper.subscribed"] = true
  subscribe()
end

--- The message of the error that f(…) raises.
local function message(f, ...)
  local ok, e = pcall(f, ...)
  luassert.is_false(ok, "an error was expected")
  return tostring(e)
end

--- f(…) raises an error whose message contains 'text'.
local function raises(text, f, ...)
  local e = message(f, ...)
  luassert.is_true(e:find(text, 1, true) ~= nil, e)
end

--- f(…) raises an error whose message, after the place, is 'text'.
local function says(text, f, ...)
  luassert.equal(text, (message(f, ...):gsub("^[^:]*:%d+: ", "")))
end

-- Calls f(…) at a line of what counts as a spec, for functions of the library that are given as
-- they are.
local call = load("local f = ... f(select(2, ...)) return", "@spec/caller.lua")

--- The message of the error that f(…) raises, without its place, which must be a line of a spec.
local function placed(f, ...)
  local e = message(call, f, ...)
  luassert.matches("^spec/[%w_/]+%.lua:%d+: ", e)
  return (e:gsub("^[^ ]+ ", ""))
end

--- f(…) raises an error at a line of a spec, whose message contains 'text'.
local function refused(text, f, ...)
  local e = placed(f, ...)
  luassert.is_true(e:find(text, 1, true) ~= nil, e)
end

--- Runs f repeatedly; the n-th run is stopped by an error at the n-th line that it executes, until
--- a run reaches its end. 'after' is called after each run. Returns the number of lines.
local function stopped_everywhere(f, after)
  local hook, raise = debug.sethook, error
  local line, seen = 0, 0
  local function strike()
    seen = seen + 1
    if seen ~= line then return end
    hook()
    raise("stop", 0)
  end
  local function run()
    hook(strike, "l")
    f()
    hook()
  end
  repeat
    line, seen = line + 1, 0
    local done, why = pcall(run)
    hook()
    assert(done or why == "stop", why)
    after()
  until done
  return line
end

return { message = message, raises = raises, says = says, placed = placed, refused = refused,
  stopped_everywhere = stopped_everywhere }
