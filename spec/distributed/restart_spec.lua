--- A job whose processes have ended and which is started again, as torchrun does.
require "spec.support.helper"
local ranks = require "spec.support.ranks"

describe("a job that is started again", function()
  it("goes on from what rank 1 has saved, at the same port, to the same weights", function()
    local file = os.tmpname() .. ".safetensors"
    local port = 20000 + os.time() % 20000
    local function attempt(count, dies)
      return ranks.run(2, [[
        local file, dies = os.getenv "SAVED", os.getenv "DIES" == "yes"
        local x = flame.arange(96):float():reshape(32, 3):sin()
        local y = x:sum(2, true)
        flame.seed(r)
        local net = distributed.data_parallel(flame.nn.Linear(3, 1))
        local opt = flame.optim.AdamW(net:parameters(), { lr = 0.1 })
        local step, position = 0, nil
        local saved = io.open(file)
        if saved then
          saved:close()
          saved = flame.load(file)
          net:load_state_dict(saved.net)
          opt:load_state_dict(saved.opt)
          step, position = saved.step, saved.data
        end
        local batches = flame.data.batches({ x, y },
          { size = 4, shuffle = true, seed = 3, shard = true, state = position })
        while step < 6 do
          for _, xs, ys in batches do
            step = step + 1
            opt:zero_grad();
            ((net(xs) - ys) ^ 2):mean():backward()
            opt:step()
            if r == 1 then
              flame.save(file, { net = net:state_dict(), opt = opt:state_dict(), step = step,
                data = batches:state() })
            end
            distributed.barrier()
            if dies and r == 2 and step == 3 then os.execute("kill -9 $PPID") end
            if step == 6 then break end
          end
        end
        print(step, table.unpack(net.weight:totable()[1]))]], { by = "tcp",
        with = ("FLAME_THREADS=1 SAVED=%s DIES=%s MASTER_PORT=%d TORCHELASTIC_RUN_ID=job TORCHELASTIC_RESTART_COUNT=%d"):format(
            file, dies and "yes" or "no", port, count) })
    end
    local died = attempt(0, true)
    assert.is_truthy(died[1]:find("the connection to rank 2 has ended", 1, true), died[1])
    local went_on = attempt(1)
    os.remove(file)
    local whole = attempt(2)
    os.remove(file)
    assert.is_truthy(whole[1]:find("^6\t"), whole[1])
    assert.same({ whole[1], whole[1] }, { went_on[1], went_on[2] })
  end)
end)
