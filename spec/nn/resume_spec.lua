-- A training run that saves, ends and is resumed by another process gives the same bits as one that
-- did not stop.

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

  it("a loop with workers, draws, adapters and averages is the same twice, and goes on", function()
    local script = folder .. "/whole.lua"
    local f = assert(io.open(script, "w"))
    f:write([[
      local flame = require "flame"
      local nn, optim, data = require "flame.nn", require "flame.optim", require "flame.data"
      local D = require "flame.distributions"
      local from, to, save = arg[1], tonumber(arg[2]), arg[3]
      flame.seed(4)
      local set = data.dataset(30, function(i, _, random)   -- an item's own random numbers
        local flame = require "flame"
        return flame.randn(6) * 0.1 + i % 3, random() < 0.5
      end)
      local net = nn.Sequential { nn.Linear(6, 16), nn.SwiGLU(16, 8), nn.Dropout(0.2),
        nn.Linear(8, 4) }
      nn.lora.attach(net, { rank = 2, dropout = 0.1, targets = { "^1$", "^4$" } })
      net:unfreeze "^2"
      local decode = nn.Linear(2, 6)
      local all = nn.ModuleList { net, decode }
      local groups = all:parameter_groups { { "bias$", weight_decay = 0 }, {} }
      local opt = optim.AdamW(groups, { lr = 0.01 })
      local plan = optim.schedule.cosine { opt = opt, steps = 20, warmup = 3 }
      local scaler, ema = optim.GradScaler {}, nn.AveragedModel(all, { decay = 0.9 })
      local loader, step = data.loader(set, { size = 4, shuffle = true, workers = 2, seed = 8 }), 0
      if from ~= "-" then
        local saved = flame.load(from)
        all:load_state_dict(saved.model)
        ema:load_state_dict(saved.ema)
        opt:load_state_dict(saved.optimizer)
        plan:load_state_dict(saved.plan)
        scaler:load_state_dict(saved.scaler)
        flame.rng_state(saved.random)
        loader:load_state(saved.loader)
        step = saved.step
      end
      while step < to do
        local i, x, keep = loader:next()
        if i then
          opt:zero_grad()
          local h = net(x)
          local q = D.Gamma(h:narrow(2, 1, 2):exp(), h:narrow(2, 3, 2):exp())
          local loss = ((decode(q:rsample()) - x):square():mean(2) * keep:float()):mean()
            + D.kl_divergence(q, D.Gamma(flame.ones(2), 1)):mean() * 0.01
          scaler:scale(loss):backward()
          scaler:step(opt)
          scaler:update()
          plan:step()
          ema:update_parameters(all)
          step = step + 1
        end
      end
      flame.save(save, { model = all:state_dict(), ema = ema:state_dict(),
        optimizer = opt:state_dict(), plan = plan:state_dict(), scaler = scaler:state_dict(),
        random = flame.rng_state(), loader = loader:state(), step = step })
      loader:close()
    ]])
    f:close()
    run("", script, ("- 18 %s/one.safetensors"):format(folder))
    run("", script, ("- 18 %s/two.safetensors"):format(folder))
    assert.equal(bytes("one.safetensors"), bytes("two.safetensors"))
    run("", script, ("- 7 %s/part.safetensors"):format(folder))
    run("", script, ("%s/part.safetensors 18 %s/rest.safetensors"):format(folder, folder))
    assert.equal(bytes("one.safetensors"), bytes("rest.safetensors"))
  end)
end)
