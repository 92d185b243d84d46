--- Linear algebra by the library is never part of a graph: a call that fails because it is captured
-- fails once more after that. On a device that is not there, whose library does so.
require "spec.support.helper"
local interpreter = dofile("spec/support/interpreter.lua")

local machine
setup(function()
  machine = os.tmpname()
  assert(os.execute("rm " .. machine .. " && mkdir " .. machine))
  for _, name in ipairs { "libcuda.so.1", "libnvrtc.so.13", "libcublasLt.so.13",
    "libcusolver.so.12", "libcublas.so.13" } do
    assert(os.execute(("cp %s/spec/fake_cuda.so %s/%s"):format(interpreter:match "^(.*)/[^/]*$",
      machine, name)))
  end
end)
teardown(function() os.execute("rm -rf " .. machine) end)

describe("programs with linear algebra", function()
  for _, call in ipairs { "linalg.eigvalsh", "linalg.eigh", "linalg.svdvals", "linalg.qr" } do
    it("are replayed around " .. call, function()
      local pipe = assert(io.popen(("FLAME_DEVICE=cuda FLAME_CACHE_DIR=off FLAME_TEST_MACHINE=%s "
        .. "FAKE_CUDA= '%s' -e '%s' 2>&1"):format(machine, interpreter, ([[
          local flame = require "flame"
          local x = flame.ones(300, 300)
          flame.eval(x)
          for _ = 1, 6 do
            local y = (x * 2):softmax(1):matmul(x):tanh():matmul(x)
            local r = flame.CALL(y:matmul(y) + x)
            flame.eval((r * 2):softmax(-1):cumsum(-1):tanh():sum() + y:softmax(2):sum())
          end
          io.write(flame.stats().replays)]]):gsub("CALL", call))))
      local text = pipe:read "a"
      assert.truthy(pipe:close(), text)
      assert.is_true(tonumber(text) >= 1, text)
    end)
  end
end)
