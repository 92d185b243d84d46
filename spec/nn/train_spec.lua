-- Models learn; optimisers compute what their papers say; repeated steps reuse a plan of kernels.

local flame = require "flame"
local nn, optim, data = require "flame.nn", require "flame.optim", require "flame.data"

describe("optimisers", function()
  -- The values of one parameter, 1 at first, after steps with the gradients g1 and g2.
  local function two_steps(make, g1, g2)
    local p = flame.tensor({ 1 }, { dtype = "f64", requires_grad = true })
    local opt, values = make({ p }), {}
    for i, g in ipairs { g1, g2 } do
      p.grad = flame.tensor({ g }, { dtype = "f64" })
      opt:step()
      values[i] = p:item()
    end
    return values
  end

  it("SGD with momentum and weight decay", function()
    local v = two_steps(function(p)
      return optim.SGD(p, { lr = 0.1, momentum = 0.9, weight_decay = 0.01 })
    end, 0.5, -0.25)
    local g = 0.5 + 0.01
    local buf, p = g, 1 - 0.1 * g
    assert.close(p, v[1], 1e-15)
    g = -0.25 + 0.01 * p
    buf = 0.9 * buf + g
    assert.close(p - 0.1 * buf, v[2], 1e-15)
  end)

  it("SGD with Nesterov's momentum", function()
    local v = two_steps(function(p)
      return optim.SGD(p, { lr = 0.1, momentum = 0.5, nesterov = true })
    end, 1, 1)
    assert.close(1 - 0.1 * 1.5, v[1], 1e-15)
    assert.close(1 - 0.15 - 0.1 * (1 + 0.5 * 1.5), v[2], 1e-15)
  end)

  local function adam_by_hand(decay_in_gradient, decay_apart)
    local p, m, v, out = 1, 0, 0, {}
    for t, g in ipairs { 0.5, -0.25 } do
      g = g + decay_in_gradient * p
      m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
      local step = 0.01 * (m / (1 - 0.9 ^ t)) / (math.sqrt(v / (1 - 0.999 ^ t)) + 1e-8)
      p = p * (1 - 0.01 * decay_apart) - step
      out[t] = p
    end
    return out
  end

  it("Adam with weight decay in the gradient", function()
    local v, want = two_steps(function(p)
      return optim.Adam(p, { lr = 0.01, weight_decay = 0.1 })
    end, 0.5, -0.25), adam_by_hand(0.1, 0)
    assert.close(want[1], v[1], 1e-14)
    assert.close(want[2], v[2], 1e-14)
  end)

  it("AdamW with weight decay apart", function()
    local v, want = two_steps(function(p)
      return optim.AdamW(p, { lr = 0.01, weight_decay = 0.1 })
    end, 0.5, -0.25), adam_by_hand(0, 0.1)
    assert.close(want[1], v[1], 1e-14)
    assert.close(want[2], v[2], 1e-14)
  end)

  it("take groups with their own settings, and a new rate", function()
    local a, b = flame.tensor({ 1 }, { requires_grad = true }),
      flame.tensor({ 1 }, { requires_grad = true })
    local opt = optim.SGD({ { params = { a }, lr = 0.5 }, { params = { b } } }, { lr = 0.25 })
    a.grad, b.grad = flame.ones(1), flame.ones(1)
    opt:step()
    assert.allclose({ 0.5, 0.75 }, { a:item(), b:item() })
    opt.lr = 0.125
    opt:step()
    assert.allclose({ 0.375, 0.625 }, { a:item(), b:item() })
    opt:zero_grad()
    assert.equal(nil, a.grad)
  end)

  it("go on after load_state_dict as if they had not stopped", function()
    local function run(stop)
      local p = flame.tensor({ 1, 2 }, { requires_grad = true })
      local opt = optim.AdamW({ p }, { lr = 0.1 })
      for i = 1, 6 do
        if i == stop then
          local saved = opt:state_dict()
          opt = optim.AdamW({ p }, { lr = 0.7 })
          opt:load_state_dict(saved)
        end
        opt:zero_grad()
        local loss = (p * p):sum()
        loss:backward()
        opt:step()
      end
      return p:bytes()
    end
    assert.equal(run(0), run(4))
  end)

  it("clip_grad_norm scales all gradients to the norm and returns the norm before", function()
    local a, b = flame.tensor({ 0 }, { requires_grad = true }),
      flame.tensor({ 0, 0 }, { requires_grad = true })
    a.grad, b.grad = flame.tensor({ 3 }), flame.tensor({ 0, 4 })
    assert.close(5, optim.clip_grad_norm({ a, b }, 1):item(), 1e-6)
    assert.allclose({ 0.6 }, a.grad, { rtol = 1e-5 })
    assert.allclose({ 0, 0.8 }, b.grad, { rtol = 1e-5 })
    assert.close(1, optim.clip_grad_norm({ a, b }, 10):item(), 1e-5)
    assert.allclose({ 0.6 }, a.grad, { rtol = 1e-5 })
    optim.clip_grad_value({ a, b }, 0.7)
    assert.allclose({ 0, 0.7 }, b.grad)
  end)

  it("the cosine schedule warms up, peaks and ends at its least rate", function()
    local p = flame.tensor({ 1 }, { requires_grad = true })
    local opt = optim.SGD({ p }, { lr = 1 })
    local plan, rates = optim.schedule.cosine { opt = opt, warmup = 2, steps = 6, min = 0.1 }, {}
    for i = 1, 8 do
      rates[i] = opt.lr
      plan:step()
    end
    local function at(x) return 0.1 + 0.9 * 0.5 * (1 + math.cos(math.pi * x)) end
    assert.allclose({ 0.5, 1, at(0), at(0.25), at(0.5), at(0.75), at(1), at(1) }, rates)
  end)
end)

describe("modules", function()
  it("convert inside their handles and leave integers alone", function()
    local Net = nn.Module.extend("Net")
    function Net:init()
      self.layer = nn.Linear(2, 3)
      self.ids = nn.Buffer(flame.arange(3))
    end
    local net = Net()
    local w = net.layer.weight
    net:to("f64")
    assert.truthy(rawequal(w, net.layer.weight))
    assert.equal("f64", w.dtype)
    assert.truthy(w.is_leaf and w.requires_grad)
    assert.equal("i64", net.ids.dtype)
    assert.equal("f64", net.layer(flame.ones(1, 2, { dtype = "f64" })).dtype)
  end)

  it("give snapshots that training does not change", function()
    local net = nn.Linear(2, 1)
    local saved = net:state_dict()
    local before = saved.weight:totable()
    flame.no_grad(function() net.weight:add_(1) end)
    assert.same(before, saved.weight:totable())
    net:load_state_dict(saved)
    assert.same(before, net.weight:totable())
  end)
end)

describe("training", function()
  it("teaches an MLP a function of two inputs", function()
    flame.seed(1)
    local net = nn.Sequential { nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 1) }
    local opt = optim.Adam(net:parameters(), { lr = 0.01 })
    local x = flame.rand(256, 2) * 2 - 1
    local y = (x[{ {}, { 1 } }] * x[{ {}, { 2 } }])
    local first, last
    for _ = 1, 200 do
      local loss = flame.mse_loss(net(x), y)
      opt:zero_grad()
      loss:backward()
      opt:step()
      last = loss:item()
      first = first or last
    end
    assert.truthy(last < 0.02 * first, ("loss %g to %g"):format(first, last))
  end)

  it("tells drawn digits apart", function()
    flame.seed(2)
    local x, y = data.drawn_digits(300)
    x = x:reshape(300, 784)
    local net = nn.Sequential { nn.Linear(784, 32), nn.ReLU(), nn.Linear(32, 10) }
    local opt = optim.AdamW(net:parameters(), { lr = 3e-3 })
    for _ = 1, 30 do
      for _, xb, yb in data.batches({ x, y }, { size = 50, shuffle = true }) do
        opt:zero_grad()
        flame.cross_entropy(net(xb), yb):backward()
        opt:step()
      end
    end
    local right = flame.no_grad(function() return net(x):argmax(2):eq(y):sum():item() end)
    assert.truthy(right > 270, right .. " of 300")
  end)

  --- A transformer of one block over sequences of ids; returns a function that trains on a batch.
  local function tiny_transformer()
    flame.seed(3)
    local Block = nn.Module.extend("Block")
    function Block:init(d)
      self.norm1, self.attention = nn.LayerNorm(d), nn.CausalSelfAttention(d, 2)
      self.norm2, self.up, self.down = nn.LayerNorm(d), nn.Linear(d, 2 * d), nn.Linear(2 * d, d)
    end
    function Block:forward(x)
      x = x + self.attention(self.norm1(x))
      return x + self.down(self.up(self.norm2(x)):gelu())
    end
    local Net = nn.Module.extend("Net")
    function Net:init()
      self.token, self.place = nn.Embedding(5, 16), nn.Embedding(8, 16)
      self.block, self.head = Block(16), nn.Linear(16, 5)
    end
    function Net:forward(ids)
      return self.head(self.block(self.token(ids) + self.place(flame.arange(ids:size(2)))))
    end
    local net = Net()
    local opt = optim.AdamW(net:parameters(), { lr = 1e-2 })
    local plan = optim.schedule.cosine { opt = opt, steps = 500 }
    return function(batch)
      -- each id is equal to the one two positions before, so attention has to look back
      local pair = flame.randint({ batch, 2 }, 1, 5)
      local ids = flame.cat({ pair, pair, pair, pair, pair[{ {}, { 1 } }] }, 2)
      local logits = net(ids:narrow(2, 1, 8))
      local loss = flame.cross_entropy(logits[{ {}, { 2, 8 } }]:reshape(-1, 5),
        ids:narrow(2, 3, 7):reshape(-1))
      opt:zero_grad()
      loss:backward()
      optim.clip_grad_norm(net:parameters(), 1)
      opt:step()
      plan:step()
      return loss
    end
  end

  it("teaches a transformer to look back", function()
    local step, loss = tiny_transformer(), nil
    for _ = 1, 120 do loss = step(16) end
    assert.truthy(loss:item() < 0.2, "loss " .. loss:item())
  end)

  it("builds no plan and no kernel text after the third step, whatever the batch", function()
    local step = tiny_transformer()
    for _ = 1, 3 do step(8) end
    flame.eval()
    local before = flame.stats()
    for _ = 1, 20 do step(8) end
    local after = flame.stats()
    assert.equal(before.plans, after.plans)
    assert.equal(before.texts, after.texts)
    assert.equal(before.compiles, after.compiles)
  end)

  it("copies nothing over 100 steps of AdamW", function()
    local net = nn.Sequential { nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1) }
    local opt = optim.AdamW(net:parameters(), { lr = 1e-3 })
    local x, y = flame.randn(16, 8), flame.randn(16, 1)
    flame.stats("reset")
    for _ = 1, 100 do
      opt:zero_grad()
      flame.mse_loss(net(x), y):backward()
      opt:step()
    end
    assert.equal(0, flame.stats().copies)
  end)
end)
