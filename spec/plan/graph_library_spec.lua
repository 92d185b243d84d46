--- Calls of cuSOLVER are never part of a CUDA graph: the library can not be captured, and a call
--- that fails because of that makes the next call fail too. Runs on the fake driver, whose cuSOLVER
--- does the same.
require "spec.support.helper"
local machine = require "spec.support.machine"

local folder
setup(function() folder = machine.new({ "libcusolver.so.12", "libcublas.so.13" }) end)
teardown(function() machine.remove(folder) end)

describe("programs with linear algebra", function()
  for _, call in ipairs { "linalg.eigvalsh", "linalg.eigh", "linalg.svdvals", "linalg.qr" } do
    it("are replayed around " .. call, function()
      local text = machine.run(folder, (([[
        local flame = require "flame"
        local x = flame.ones(300, 300)
        flame.eval(x)
        for _ = 1, 6 do
          local y = (x * 2):softmax(1):matmul(x):tanh():matmul(x)
          local r = flame.CALL(y:matmul(y) + x)
          flame.eval((r * 2):softmax(-1):cumsum(-1):tanh():sum() + y:softmax(2):sum())
        end
        io.write(flame.stats().replays)]]):gsub("CALL", call)))
      assert.is_true(tonumber(text) >= 1, text)
    end)
  end
end)
