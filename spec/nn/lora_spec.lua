-- nn.lora: adapters of linear, convolution and attention layers.
local flame = require "flame"
local nn, optim = require "flame.nn", require "flame.optim"

local refused = require("spec.support.helper").raises
local function trained(net)
  local list = {}
  for name, p in net:named_parameters() do if p.requires_grad then list[#list + 1] = name end end
  return list
end
local function sorted(list)
  table.sort(list)
  return list
end
--- Fills the matrices B of all adapters, which are 0 at first, so that adapters have an effect.
local function fill(net)
  for _, m in ipairs(net:modules()) do
    if nn.is(m, nn.LoRA) then flame.no_grad(function() m.B:normal_() end) end
  end
  return net
end

local kinds = {
  { "Linear", function() return nn.Linear(3, 4) end, { 2, 3 } },
  { "Linear without bias in f64", function() return nn.Linear(3, 4, { bias = false,
    dtype = "f64" }) end,
    { 2, 5, 3 } },
  { "Conv1d", function() return nn.Conv1d(2, 3, 3, { padding = 1 }) end, { 1, 2, 6 } },
  { "Conv2d of groups", function() return nn.Conv2d(4, 6, 3, { groups = 2, stride = 2 }) end,
    { 2, 4, 7, 7 } },
  { "ConvTranspose2d", function() return nn.ConvTranspose2d(2, 3, 2, { stride = 2 }) end, { 1, 2,
    4, 4 } },
  { "Conv3d", function() return nn.Conv3d(1, 2, 2) end, { 1, 1, 3, 3, 3 } },
  { "MultiheadAttention", function() return nn.MultiheadAttention(4, 2, { batch_first = true }) end,
    { 2, 3, 4 } },
  { "MultiheadAttention of other keys",
    function() return nn.MultiheadAttention(4, 2, { batch_first = true, kdim = 6, vdim = 5,
      dtype = "f64" }) end,
    { 2, 3, 4 }, { 6, 5 } },
  { "CausalSelfAttention", function() return nn.CausalSelfAttention(4, 2) end, { 2, 3, 4 } },
  { "TransformerBlock", function() return nn.TransformerBlock(4, 2) end, { 2, 3, 4 } },
}

describe("adapters", function()
  for _, kind in ipairs(kinds) do
    local title, make, shape = kind[1], kind[2], kind[3]
    it(("of %s change nothing at first, then act as the sum of weights"):format(title), function()
      flame.seed(3)
      local net = make()
      local x = flame.randn(shape, { dtype = net:parameters()[1].dtype })
      local close = { rtol = 1e-4, atol = 1e-5 }
      local more = {}
      for i, n in ipairs(kind[4] or {}) do more[i] = flame.randn(2, 3, n, { dtype = x.dtype }) end
      local function run(m) return (m(x, table.unpack(more))) end
      local before, names = run(net), {}
      for name in net:named_parameters() do names[name] = true end
      local layers = nn.lora.attach(net, { rank = 2, alpha = 6 })
      assert.is_true(#layers >= 1)
      assert.is_true(flame.equal(before, run(net)))
      for _, name in ipairs(trained(net)) do assert.truthy(name:find "lora[%w_]*%.[AB]$", name) end
      for name in net:named_parameters() do names[name] = nil end
      assert.is_nil(next(names))                         -- the names of the base are unchanged
      fill(net)
      -- compared with a new layer whose weights are W + 3 B A
      local plain, state, own = make(), net:state_dict(), {}
      for name, w in pairs(state) do
        if not name:find "lora" then
          local head, last = name:match "^(.-)([%w_]+)$"
          local slot = head .. (last == "weight" and "lora" or "lora_" .. last)
          local a, b = state[slot .. ".A"], state[slot .. ".B"]
          own[name] = a and w + 3 * b:matmul(a):reshape(w.shape) or w
        end
      end
      plain:load_state_dict(own)
      local acting = run(net)
      assert.is_false(flame.allclose(before, acting))
      assert.allclose(run(plain), acting, close)
      acting:square():sum():backward()
      for name, p in net:named_parameters() do
        assert.equal(name:find "lora" ~= nil, p.grad ~= nil, name)
      end
      -- merged and back
      assert.is_true(rawequal(net, nn.lora.merge(net)))
      assert.allclose(acting, run(net), close)
      assert.allclose(own, (function()
        local now = {}
        for name, v in pairs(net:state_dict()) do if own[name] then now[name] = v end end
        return now
      end)(), close)
      nn.lora.merge(net)                                 -- a second merge changes nothing
      assert.allclose(acting, run(net), close)
      nn.lora.unmerge(net)
      for name, v in pairs(net:state_dict()) do
        assert.is_true(flame.equal(state[name], v), name)
      end
      assert.is_true(flame.equal(acting, run(net)))
      -- saved adapters are loaded into a base
      local saved = nn.lora.state_dict(net)
      for name in pairs(saved) do assert.truthy(name:find "lora", name) end
      local base = make()
      local base_state = {}
      for name, v in pairs(state) do if not name:find "lora" then base_state[name] = v end end
      base:load_state_dict(base_state)
      nn.lora.load(base, saved)
      assert.is_true(flame.equal(acting, run(base)))
      assert.same(sorted(trained(net)), sorted(trained(base)))
      -- a copy has its own adapters
      local copy = net:clone()
      assert.is_true(flame.equal(acting, run(copy)))
      for _, p in ipairs(net:parameters()) do
        if p.requires_grad then flame.no_grad(function() p:zero_() end) end
      end
      assert.is_true(flame.equal(acting, run(copy)))
      assert.is_true(flame.equal(before, run(net)))
      nn.lora.merge(copy)
      -- taken away
      nn.lora.remove(copy)
      assert.allclose(acting, run(copy), close)
      nn.lora.remove(net)
      assert.is_true(flame.equal(before, run(net)))
      assert.same({}, trained(net))
      assert.equal(#make():parameters(), #net:parameters())
    end)
  end
  it("go to the layers whose names hold a pattern", function()
    local net = nn.Sequential { nn.TransformerBlock(4, 2), nn.Linear(4, 2) }
    assert.same({ "1.attention", "2" }, nn.lora.attach(net, { targets = { "attention$", "^2$" } }))
    assert.same({ "1.attention.lora_in_proj_weight.A", "1.attention.lora_in_proj_weight.B",
      "2.lora.A",
      "2.lora.B" }, trained(net))
    assert.same({ "1.mlp.1", "1.mlp.3" }, nn.lora.attach(net, { targets = "mlp" }))
  end)
  it("drop the input of a linear layer's way while training", function()
    local net = nn.Linear(3, 2)
    nn.lora.attach(net, { dropout = 1 })
    fill(net)
    local x = flame.randn(4, 3)
    assert.allclose(flame.linear(x, net.weight, net.bias), net(x))
    assert.is_false(flame.allclose(net(x), net:eval()(x)))
  end)
  it("learn, keep the base, move with it and merge into other dtypes", function()
    flame.seed(1)
    local net = nn.Sequential { nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1) }
    local x = flame.randn(32, 4)
    local y = x:sum(2):sin():unsqueeze(2)
    local kept = net[1].weight:clone()
    nn.lora.attach(net, { rank = 4, alpha = 8 })
    local opt = optim.Adam(net:parameters(), 0.02)
    local function loss() return (net(x) - y):square():mean() end
    local first = loss():item()
    for _ = 1, 80 do
      opt:zero_grad()
      loss():backward()
      opt:step()
    end
    assert.is_true(loss():item() < 0.5 * first)
    assert.is_true(flame.equal(kept, net[1].weight))
    net:to("bf16")
    nn.lora.merge(net)
    assert.equal("bf16", net[1].weight.dtype)
    nn.lora.unmerge(net)
    assert.is_true(flame.equal(kept:to("bf16"), net[1].weight))
  end)
  it("are saved to a file and read from it", function()
    local net, name = nn.Linear(3, 2), os.tmpname()
    nn.lora.attach(net, { rank = 2, alpha = 1 })
    fill(net)
    flame.save(name, nn.lora.state_dict(net))
    local other = nn.Linear(3, 2)
    flame.no_grad(function() other.weight:copy_(net.weight) other.bias:copy_(net.bias) end)
    nn.lora.load(other, flame.load(name))
    os.remove(name)
    local x = flame.randn(2, 3)
    assert.is_true(flame.equal(net(x), other(x)))
  end)
  it("are not merged into a weight that another layer has too", function()
    local net = nn.Sequential { nn.Linear(3, 3), nn.Linear(3, 3) }
    net[2].weight = net[1].weight
    nn.lora.attach(net, { rank = 2, targets = "2" })
    flame.no_grad(function() net[2].lora.B:fill_(1) end)
    local before, weight = net(flame.ones(1, 3)), net[1].weight:clone()
    refused("merge: '1.weight' is '2.weight' as well, which the sum would change", nn.lora.merge,
      net)
    assert.is_true(flame.equal(weight, net[1].weight))
    net[2].weight = nn.Parameter(net[2].weight:detach():clone())
    assert.allclose(before, nn.lora.merge(net)(flame.ones(1, 3)))
    local once = nn.Linear(3, 3)
    local twice = nn.Sequential { once, once }        -- one layer twice: it has one adapter
    nn.lora.attach(twice, 2)
    flame.no_grad(function() once.lora.B:fill_(1) end)
    before = twice(flame.ones(1, 3))
    assert.allclose(before, nn.lora.merge(twice)(flame.ones(1, 3)), { rtol = 1e-5, atol = 1e-5 })
  end)
  it("refuse what does not fit", function()
    local net = nn.Sequential { nn.Linear(3, 2), nn.GELU() }
    refused("the network has no adapters: call nn.lora.attach(net)", nn.lora.merge, net)
    refused("no linear, convolution or attention layer whose name holds 'atention'", nn.lora.attach,
      net,
      { targets = "atention" })
    refused("no linear, convolution", nn.lora.attach, nn.GELU())
    refused("attach: '(' is no pattern of Lua: unfinished capture", nn.lora.attach, net,
      { targets = { "1", "(" } })
    refused("rank is 0", nn.lora.attach, net, 0)
    refused("no option 'rnak'", nn.lora.attach, net, { rnak = 2 })
    nn.lora.attach(net)
    refused("layer '1' has an adapter: call nn.lora.remove(net)", nn.lora.attach, net)
    local state = nn.lora.state_dict(net)
    refused("there is no layer for '1.lora' in the network", nn.lora.load, nn.Linear(3, 2), state)
    refused("'1.lora' has A (8, 3) and B (2, 8), the weight is (2, 5)", nn.lora.load,
      nn.Sequential { nn.Linear(5, 2) }, state)
    refused("'weight' is no tensor of an adapter", nn.lora.load, net, { weight = flame.ones(1) })
    refused("'1.lora' needs A, B and scale", nn.lora.load, net, { ["1.lora.A"] = flame.ones(8, 3) })
    refused("the state is empty", nn.lora.load, net, {})
    refused("lora.load: net must be a Module, got number", nn.lora.load, 3, {})
    refused("lora.load: state must be a table, got number", nn.lora.load, net, 3)
    nn.lora.merge(net)
    refused("'1.lora' is there, merged", nn.lora.load, net, state)
    assert.truthy(tostring(net):find("rank=8, merged", 1, true))
  end)
end)
