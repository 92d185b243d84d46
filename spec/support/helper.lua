--- busted loads this file before every spec file. It adds assertions for numbers, nested tables and
-- tensors, and collects the garbage of each test, so that finalisers run before the next one. In a
-- build for tests it has the collector make its steps before each evaluation, however long they
-- take: on a busy machine some would be postponed, and plans store dead values (engine/collect.c).
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

--- A tensor as nested tables, or as a number if it has no axes; other values unchanged.
local function plain(v)
  if not is_tensor(v) then return v end
  return v.ndim == 0 and v:item() or v:totable()
end

--- By how much the difference of two numbers exceeds the tolerance: they are close if it is <= 0.
local function excess(e, a, rtol, atol)
  if e ~= e or a ~= a then return (e ~= e and a ~= a) and 0 or math.huge end
  if e == a then return 0 end
  if e == math.huge or e == -math.huge or a == math.huge or a == -math.huge then
    return math.huge
  end
  return math.abs(e - a) - (atol + rtol * math.abs(e))
end

--- Compares nested tables e and a. worst: gets the worst element, and what differs in their shapes.
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

-- luassert's 'near' is similar; the messages of these two name the difference and the element.
say:set("assertion.close.negative", "the numbers are close")
say:set("assertion.allclose.negative", "the values are close")
luassert:register("assertion", "close", close, "", "assertion.close.negative")
luassert:register("assertion", "allclose", allclose, "", "assertion.allclose.negative")

--- What is to be done once, although busted runs this file and specs require it as well.
local function subscribe()
  -- Before the next test begins, garbage is collected if the test has left tensors. Most are young:
  -- whole collections, which look at all that busted and the library hold, come when some remain.
  local flame, left = require "flame", 0
  if flame.internal.collector_waits then flame.internal.collector_waits(0) end
  local how <const> = { "step", "step", "collect", "collect" }
  busted.subscribe({ "test", "end" }, function()
    for _, part in ipairs(how) do
      if flame.stats().live_tensors <= left then break end
      collectgarbage(part)
    end
    left = flame.stats().live_tensors
    return nil, true
  end)
  -- SPEC_PART=2/8 runs the second of every eight tests: several processes then share the tests of
  -- a file.
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

--- The message of the error that f(…) must raise.
local function message(f, ...)
  local ok, e = pcall(f, ...)
  luassert.is_false(ok, "an error was expected")
  return tostring(e)
end

--- Asserts that f(…) raises an error with 'text' in its message.
local function raises(text, f, ...)
  local e = message(f, ...)
  luassert.is_true(e:find(text, 1, true) ~= nil, e)
end

--- Asserts that f(…) raises an error with the message 'text', after "file:line: ".
local function says(text, f, ...)
  luassert.equal(text, (message(f, ...):gsub("^[^:]*:%d+: ", "")))
end

-- Calls f(…) in a file that counts as a spec, so that f may be a function of the library: an error
-- then names a line of the caller.
local call = load("local f = ... f(select(2, ...)) return", "@spec/caller.lua")

--- The message of the error that f(…) raises, without "file:line: ", where file must be a spec.
local function placed(f, ...)
  local e = message(call, f, ...)
  luassert.matches("^spec/[%w_/]+%.lua:%d+: ", e)
  return (e:gsub("^[^ ]+ ", ""))
end

--- Asserts that f(…) raises an error at a line of a spec, with 'text' in its message.
local function refused(text, f, ...)
  local e = placed(f, ...)
  luassert.is_true(e:find(text, 1, true) ~= nil, e)
end

--- Runs f repeatedly, the n-th time with an error at the n-th line that is executed, until f
--- reaches its end. 'after' is called after each run. Returns the number of runs.
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
