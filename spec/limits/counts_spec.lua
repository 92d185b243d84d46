--- Every public function with counts out of all bounds (spec/fuzz/counts.lua), in processes with
-- limits of time and memory. A call that does not end, or a crash, shows in the exit status.
require "spec.support.helper"
local interpreter = dofile("spec/support/interpreter.lua")
local PARTS <const>, SECONDS <const> = 4, 300
local sanitized = os.getenv("FLAME_SANITIZE")

--- Runs one of PARTS parts: its output with the exit status. Memory is limited, so that tensors of
--- 2^31 elements are refused.
local function walk(part, environment)
  local limit = sanitized and "" or "ulimit -v 3000000; "
  local pipe <close> = assert(io.popen(("%s%s FLAME_DEVICE=cpu "
    .. 'ASAN_OPTIONS="$ASAN_OPTIONS:max_allocation_size_mb=1000" '
    .. 'TSAN_OPTIONS="$TSAN_OPTIONS:max_allocation_size_mb=1000" '
    .. "timeout %d '%s' spec/fuzz/counts.lua %d %d 2>&1; echo status $?"):format(limit,
    environment or "", SECONDS, interpreter, part, sanitized and 8 * PARTS or PARTS)))
  local text = pipe:read "a"
  return text, text:match "status (%d+)\n$"
end

describe("counts that no tensor has", function()
  for part = 1, PARTS do
    it(("are worked with or refused, in time, by all functions: part %d of %d"):format(part, PARTS),
      function()
        local text, status = walk(part)
        local faults = {}
        for f in text:gmatch "fault: ([^\n]*)" do faults[#faults + 1] = f end
        assert.same({}, faults)
        assert.equal("0", status, text:sub(-600))
        local made, forms, working = text:match "counts: (%d+) calls of (%d+) forms, (%d+) of"
        if not sanitized then
          assert.is_true(tonumber(made) > 8000, made)
          assert.is_true(tonumber(working) > 0.8 * tonumber(forms), text:sub(-200))
        end
      end)
  end
  it("are seen where a function that is planted goes on, or tells Lua's errors", function()
    local text = walk(1, "COUNTS_PLANT=1")
    for _, what in ipairs { "planted: n = 1099511627776: its text speaks of attempt to : .-goes on",
      "planted: n = %-1: its text speaks of attempt to : .-index a number",
      "planted: n = 0: its text names no op: wrong" } do
      assert.is_truthy(text:find(what), what .. "\n" .. text:sub(-600))
    end
  end)
end)
