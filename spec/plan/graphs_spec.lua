-- Which runs are replayed, and as how many graphs: counted on the fake driver (spec/c/fake_cuda.c),
-- whose memory is handed out as a GPU's is. What graphs compute is replay_spec's.

local interpreter = dofile("spec/support/interpreter.lua")
local machine

setup(function()
  machine = os.tmpname()
  assert(os.execute("rm " .. machine .. " && mkdir " .. machine))
  for _, name in ipairs { "libcuda.so.1", "libnvrtc.so.13", "libcublasLt.so.13" } do
    assert(os.execute(("cp %s/spec/fake_cuda.so %s/%s"):format(interpreter:match "^(.*)/[^/]*$",
      machine, name)))
  end
end)
teardown(function() os.execute("rm -rf " .. machine) end)

--- What a script prints there.
local function run(script)
  local pipe = assert(io.popen(("FLAME_DEVICE=cuda FLAME_CACHE_DIR=off FLAME_TEST_MACHINE=%s "
    .. "FAKE_CUDA= %s -e '%s' 2>&1"):format(machine, interpreter, script)))
  local text = pipe:read "a"
  assert.truthy(pipe:close(), text)
  return text
end

describe("a result", function()
  it("returns to its address, when other memory is free beside it", function()
    assert.equal("0001" .. ("1"):rep(20) .. "\n", run [[
      local x, w = flame.randn(32, 64), flame.randn(64, 64):requires_grad_()
      local other = {}
      for i = 1, 6 do other[i] = flame.randn(64, 64) end
      flame.eval(x, w, table.unpack(other))
      local replays = {}
      for i = 1, 24 do
        w.grad = nil
        collectgarbage()
        if i > 4 and i % 5 == 0 then                   -- freed after it: served first
          other[i // 5] = nil
          collectgarbage()
        end
        flame.stats("reset")
        x:matmul(w):tanh():sum():backward()
        flame.eval(w.grad)
        replays[i] = flame.stats().replays
      end
      print(table.concat(replays))]])
  end)
end)
