-- A run that saves, ends and is resumed by another process is bit for bit one that did not stop.

local interpreter = dofile("spec/support/interpreter.lua")

local folder = os.tmpname()
os.remove(folder)
assert(os.execute("mkdir -p '" .. folder .. "'"))
teardown(function() os.execute("rm -rf '" .. folder .. "'") end)

local function run(environment, script, arguments)
  local pipe =
    assert(io.popen(("%s '%s' %s %s 2>&1"):format(environment, interpreter, script, arguments)))
  local output = pipe:read("a")
  local _, _, status = pipe:close()
  assert.equal(0, status, output)
  return output
end

local function bytes(name)
  local f = assert(io.open(folder .. "/" .. name, "rb"))
  local text = f:read("a")
  f:close()
  return text
end

describe("resuming", function()
  local fixed = "--device cpu --size small --steps 12 --every 6 --batch 2 --sample 20 "
  local function chargpt(options, environment)
    return run(environment or "", "examples/chargpt.lua", fixed .. options:gsub("@", folder .. "/"))
  end

  it("chargpt.lua gives the same checkpoint and the same text", function()
    local whole = chargpt("--save @whole.safetensors")
    chargpt("--stop 6 --save @half.safetensors")
    local rest = chargpt("--resume @half.safetensors --save @rest.safetensors")
    assert.equal(bytes("whole.safetensors"), bytes("rest.safetensors"))
    assert.equal(whole:match("%-%-%- sample.*"), rest:match("%-%-%- sample.*"))
  end)

  it("is the same from an op-by-op run", function()
    chargpt("--save @planned.safetensors")
    chargpt("--save @eager.safetensors", "FLAME_EAGER=1")
    assert.equal(bytes("planned.safetensors"), bytes("eager.safetensors"))
  end)

  it("a loop over shuffled batches with dropout goes on in mid-epoch", function()
    local script = folder .. "/loop.lua"
    local f = assert(io.open(script, "w"))
    f:write([[
      local flame = require "flame"
      local nn, optim, data = require "flame.nn", require "flame.optim", require "flame.data"
      local from, to, save = arg[1], tonumber(arg[2]), arg[3]
      flame.seed(4)
      local x = flame.randn(40, 6)
      local y = x:sum(2, { keepdim = true })
      local net = nn.Sequential { nn.Linear(6, 16), nn.ReLU(), nn.Dropout(0.3), nn.Linear(16, 1) }
      local opt, loader, step = optim.AdamW(net:parameters(), { lr = 0.01 }), nil, 0
      if from ~= "-" then
        local saved = flame.load(from)
        net:load_state_dict(saved.model)
        opt:load_state_dict(saved.optimizer)
        flame.rng_state(saved.random)
        loader = data.batches({ x, y }, { size = 7, shuffle = true, state = saved.loader })
        step = saved.step
      end
      loader = loader or data.batches({ x, y }, { size = 7, shuffle = true })
      while step < to do
        local i, xb, yb = loader:next()
        if i then
          opt:zero_grad()
          flame.mse_loss(net(xb), yb):backward()
          opt:step()
          step = step + 1
        end
      end
      flame.save(save, { model = net:state_dict(), optimizer = opt:state_dict(), random = flame.rng_state(),
                         loader = loader:state(), step = step })
    ]])
    f:close()
    run("", script, ("- 20 %s/a.safetensors"):format(folder))
    run("", script, ("- 9 %s/b.safetensors"):format(folder))
    run("", script, ("%s/b.safetensors 20 %s/c.safetensors"):format(folder, folder))
    assert.equal(bytes("a.safetensors"), bytes("c.safetensors"))
  end)
end)
