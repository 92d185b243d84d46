-- The hooks by which specs plant bugs and failures (flame.internal, src/base/hooks.h) are in builds
-- for tests and not in a release. tools/test sets FLAME_RELEASE when this spec runs on a release.
local flame = require "flame"
local hooks = { "fail_alloc", "forget_plans", "plant", "interrupt", "budget", "enter_folder",
  "collector_waits" }

describe("#smoke a test hook", function()
  if os.getenv "FLAME_RELEASE" then
    for _, name in ipairs(hooks) do
      it(name .. " is not in a release", function()
        assert.is_nil(flame.internal[name])
      end)
    end

    it("is not in a release's text either", function()
      local program = dofile "spec/support/interpreter.lua"
      local path = program:find("flame%-lua$") and program
        or package.searchpath("flame", package.cpath)
      local file = assert(io.open(path, "rb"))
      local text = file:read("a")
      file:close()
      -- a name that is in a release must be found: it shows that the search works
      assert.truthy(text:find("profile_start", 1, true))
      for _, name in ipairs { "fail_alloc", "forget_plans", "enter_folder",
          "collector_waits", "FLAME_TEST_MACHINE" } do
        assert.is_nil(text:find(name, 1, true), name)
      end
    end)
  else
    for _, name in ipairs(hooks) do
      it(name .. " is in a build for tests", function()
        assert.equal("function", type(flame.internal[name]))
      end)
    end

    -- FLAME_TEST_MACHINE names the folder that is searched for libraries, instead of the system's.
    it("FLAME_TEST_MACHINE is in a build for tests", function()
      local pipe = assert(io.popen(("FLAME_TEST_MACHINE=/proc/nowhere '%s' --info 2>&1"):format(
        dofile "spec/support/interpreter.lua")))
      local text = pipe:read "a"
      pipe:close()
      assert.truthy(text:find("cuda: none (libcuda.so.1 not found", 1, true), text)
    end)
  end
end)
