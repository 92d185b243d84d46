--- Runs the tests of a spec file without busted, each in a separate process. Specs of failing
-- allocations do thousands of full collections, each of which traverses the whole heap: without
-- busted and what other tests have loaded, the heap is much smaller. At the top of a file,
--
--   if require "spec.support.bare"(describe, it, "spec/memory/oom_spec.lua") then return end
--
-- makes a test of busted for each test that the child processes have run, and returns true. In a
-- child it returns false, 'assert' is Lua's own, and describe, it and teardown are those below.
local MARK <const> = "spec/support/bare.lua: "

-- ---- in the child -------------------------------------------------------------------------------

local function say(state, name, why)
  io.write(MARK, state, "\t", name, "\t", (why or ""):gsub("\n", "\t"), "\n")
  io.flush()
end

--- Reads a file: its tests, a list of {name, f}, and the function to call after them.
local function tests_of(file)
  local tests, last = {}, {}
  package.loaded["spec.support.bare"] = function() return false end
  require("flame").internal.collector_waits(0)               -- as spec/support/helper.lua
  rawset(_G, "describe", function(about, f)
    table.insert(last, about .. " ")
    f()
    table.remove(last)
  end)
  rawset(_G, "it", function(name, f) tests[#tests + 1] = { table.concat(last) .. name, f } end)
  rawset(_G, "teardown", function(f) tests.teardown = f end)
  dofile(file)
  return tests
end

--- Runs the test of that name.
local function run_test(file, name)
  local tests = tests_of(file)
  for _, test in ipairs(tests) do
    if test[1] == name then
      local ok, why = xpcall(test[2], debug.traceback)
      say(ok and "passed" or "failed", name, not ok and tostring(why))
    end
  end
  if tests.teardown then tests.teardown() end
end

local function quoted(text) return "'" .. text:gsub("'", "'\\''") .. "'" end

local function run_file(file)
  local tests = tests_of(file)
  local part, parts = (os.getenv("SPEC_PART") or ""):match("^(%d+)/(%d+)$")
  local command = quoted(dofile("spec/support/interpreter.lua")) .. " spec/support/bare.lua "
    .. file
  for n, test in ipairs(tests) do
    if part and n % parts ~= part % parts then say("left", test[1])
    else
      local _, how, status = os.execute(command .. " " .. quoted(test[1]) .. " 2>&1")
      if status ~= 0 then say("failed", test[1], ("%s %d"):format(how, status)) end
    end
  end
  if tests.teardown then tests.teardown() end
  say("end", tostring(#tests))
end

if arg and arg[0] and arg[0]:find("bare.lua", 1, true) then
  if arg[2] then return run_test(arg[1], arg[2]) end
  return run_file(arg[1])
end

-- ---- in busted ----------------------------------------------------------------------------------

return function(describe, it, file)
  local command = ("'%s' spec/support/bare.lua %s 2>&1"):format(
    dofile("spec/support/interpreter.lua"), file)
  describe("without busted,", function()
    local other, n, last = {}, 0, nil
    local p = assert(io.popen(command))
    for line in p:lines() do
      local own = line:sub(1, #MARK) == MARK and line:sub(#MARK + 1) or ""
      local state, name, why = own:match "^(%a+)\t([^\t]*)\t?(.*)"
      if state == "end" then last = tonumber(name)
      elseif state then
        n = n + 1
        it(name, function() if state ~= "passed" then error(why:gsub("\t", "\n"), 0) end end)
      else
        other[#other + 1] = line
        if os.getenv "FLAME_OOM_COUNTS" then print(line) end
      end
    end
    local ended, how, status = p:close()
    it(file .. " runs to its end", function()
      assert(ended and last == n, ("%s %s after %d of %s tests: %s"):format(how, status, n, last,
        table.concat(other, "\n")))
    end)
  end)
  return true
end
