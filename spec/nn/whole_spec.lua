-- Functions of whole networks: clone, functional_call, nn.is, freezing and parameter groups by
-- pattern, averages of weights, parametrisations, gated layers.
local flame = require "flame"
local nn, optim = require "flame.nn", require "flame.optim"

local refused = require("spec.support.helper").raises
local function names_of(net)
  local list = {}
  for name in net:named_parameters() do list[#list + 1] = name end
  return list
end

describe("clone", function()
  --- A network with all that a module can hold: lists of modules, buffers, hooks, tied weights ….
  local function everything()
    local Net = nn.Module.extend "Net"
    function Net:init()
      self.embed = nn.Embedding(7, 4)
      self.blocks = { nn.TransformerBlock(4, 2), nn.Linear(4, 4) }
      self.norm = nn.BatchNorm1d(4)
      self.head = nn.Linear(4, 7, { bias = false })
      self.head.weight = self.embed.weight               -- shared
      self.counts = nn.Buffer(flame.zeros(2), { persistent = false })
      self.options = { scale = 2, list = { 1, 2 } }
      self.act = flame.gelu
    end
    function Net:forward(ids)
      local x = self.act(self.blocks[2](self.blocks[1](self.embed(ids))))
      return self.head(self.norm(x:flatten(1, 2)) * self.options.scale)
    end
    return Net()
  end
  local ids = flame.tensor({ { 1, 2, 3 }, { 4, 5, 7 } }, { dtype = "i64" })

  it("gives the same values, and shares none", function()
    local net = everything()
    net(ids)
    local copy = net:clone()
    assert.same(names_of(net), names_of(copy))
    assert.is_true(flame.equal(net(ids), copy(ids)))
    assert.equal(tostring(net), tostring(copy))
    local kept = copy:state_dict()
    flame.no_grad(function() for _, p in ipairs(net:parameters()) do p:add_(1) end end)
    for name, x in pairs(copy:state_dict()) do assert.is_true(flame.equal(kept[name], x), name) end
    copy.options.list[1] = 9
    assert.equal(1, net.options.list[1])
    assert.equal(getmetatable(net), getmetatable(copy))
    assert.is_false(rawequal(copy.norm.running_mean, net.norm.running_mean))
  end)
  it("keeps what is shared shared, what is frozen frozen and what is not saved unsaved", function()
    local net = everything()
    net.norm.weight:requires_grad_(false)
    local copy = net:eval():clone()
    assert.is_true(rawequal(copy.head.weight, copy.embed.weight))
    assert.equal(#net:parameters(), #copy:parameters())
    assert.is_false(copy.norm.weight.requires_grad)
    assert.is_true(copy.head.weight.requires_grad)
    assert.is_false(copy.training)
    assert.is_false(copy.norm.training)
    assert.is_nil(copy:state_dict().counts)
    assert.same({ 0, 0 }, copy.counts:totable())
  end)
  it("copies hooks, weight and spectral norm and parametrisations with it", function()
    local calls = 0
    local net = nn.Linear(3, 2)
    net:register_forward_hook(function() calls = calls + 1 end)
    local x = flame.randn(4, 3)
    net:clone()(x)
    assert.equal(1, calls)
    for _, make in ipairs { nn.utils.weight_norm, nn.utils.spectral_norm } do
      local made = make(nn.Linear(3, 2)):eval()
      local copy = made:clone()
      assert.is_true(flame.equal(made(x), copy(x)))
      flame.no_grad(function() for _, p in ipairs(copy:parameters()) do p:mul_(3):add_(1) end end)
      assert.is_false(flame.equal(made(x), copy(x)))
    end
    local copy = nn.utils.weight_norm(nn.Linear(3, 2)):clone()
    nn.utils.remove_weight_norm(copy)
    assert.same({ "weight", "bias" }, names_of(copy))
    copy(x)
  end)
end)

describe("functional_call", function()
  it("computes with other values, whose gradients come, and leaves the network as it was", function()
    local net = nn.Sequential { nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2) }
    local x, values = flame.randn(5, 3), {}
    for name, p in net:named_parameters() do
      values[name] = (p:detach() * 2):requires_grad_(true)
    end
    local y = flame.functional_call(net, values, x)
    local hidden = flame.linear(x, values["1.weight"], values["1.bias"]):tanh()
    assert.is_true(flame.equal(flame.linear(hidden, values["3.weight"], values["3.bias"]), y))
    y:sum():backward()
    for name, v in pairs(values) do assert.truthy(v.grad, name) end
    for name, p in net:named_parameters() do
      assert.is_nil(p.grad)
      assert.is_true(flame.equal(p * 2, values[name]))
    end
  end)
  it("replaces a shared parameter everywhere, parameters in lists, and buffers", function()
    local Net = nn.Module.extend "Net"
    function Net:init()
      self.a, self.b = nn.Linear(2, 2, { bias = false }), nn.Linear(2, 2, { bias = false })
      self.b.weight = self.a.weight
      self.list = { nn.Parameter(flame.ones(2)) }
      self.shift = nn.Buffer(flame.zeros(2))
    end
    function Net:forward(x) return self.b(self.a(x)) * self.list[1] + self.shift end
    local net, x = Net(), flame.tensor { { 1, 2 } }
    local y = flame.functional_call(net, { ["b.weight"] = flame.eye(2) * 3,
      ["list.1"] = flame.full({ 2 }, 2), shift = flame.ones(2) }, x)
    assert.same({ { 19, 37 } }, y:totable())
    assert.same({ 1, 1 }, net.list[1]:totable())
    assert.same({ 0, 0 }, net.shift:totable())
  end)
  it("restores after an error, and tells what it cannot take", function()
    local net = nn.Linear(2, 2)
    local w = net.weight
    assert.is_false(pcall(flame.functional_call, net, { weight = flame.ones(5, 5) }, flame.ones(1,
      2)))
    assert.is_true(rawequal(w, net.weight))
    refused("functional_call: the module has no parameter or buffer 'wieght'; did you mean 'weight'?",
      flame.functional_call, net, { wieght = w }, flame.ones(1, 2))
    refused("functional_call: weight must be a tensor, got number", flame.functional_call, net,
      { weight = 3 }, flame.ones(1, 2))
    refused("net is a number", flame.functional_call, 3, {})
    refused("values are a table by name", flame.functional_call, net, 3)
  end)
  it("learns to learn: gradients through steps of descent agree with differences", function()
    flame.seed(5)
    local net = nn.Sequential { nn.Linear(1, 6), nn.Tanh(), nn.Linear(6, 1) }:double()
    local function task(phase)
      local x = flame.linspace(-1, 1, 8, { dtype = "f64" }):reshape(-1, 1)
      return x, (x * 3 + phase):sin()
    end
    --- The loss on a task after two steps of descent on its first half, from these weights.
    local function adapted(values, phase)
      local x, y = task(phase)
      local now = {}
      for name, v in pairs(values) do now[name] = v end
      for _ = 1, 2 do
        local list, names = {}, {}
        for name, v in pairs(now) do list[#list + 1], names[#names + 1] = v, name end
        local loss = (flame.functional_call(net, now, x[{ { 1, 4 } }]) - y[{ { 1,
          4 } }]):square():mean()
        local g = loss:gradients(list, { create_graph = true })
        for i, name in ipairs(names) do now[name] = list[i] - g[list[i]] * 0.1 end
      end
      return (flame.functional_call(net, now, x) - y):square():mean()
    end
    local start = {}
    for name, p in net:named_parameters() do start[name] = p end
    local w = start["3.weight"]
    adapted(start, 0.5):backward()
    local slope, h = w.grad[{ 1, 2 }]:item(), 1e-6
    local function moved(by)
      local v = w:detach():clone()
      v[{ 1, 2 }] = v[{ 1, 2 }] + by
      local other = {}
      for name, p in pairs(start) do other[name] = p end
      other["3.weight"] = v:requires_grad_(true)
      return adapted(other, 0.5):item()
    end
    assert.close((moved(h) - moved(-h)) / (2 * h), slope, 1e-7)
    -- training through adapted() finds weights from which two steps lead to a smaller loss
    local opt = optim.Adam(net:parameters(), 0.01)
    local function mean_loss()
      local sum = 0
      for k = 1, 5 do sum = sum + adapted(start, k):item() end
      return sum / 5
    end
    local before = mean_loss()
    for step = 1, 60 do
      opt:zero_grad()
      adapted(start, step % 5 + 1):backward()
      opt:step()
    end
    assert.is_true(mean_loss() < 0.7 * before)
  end)
end)

describe("names and classes", function()
  it("is tells classes and those they extend", function()
    local Mine = nn.Module.extend("Mine", nn.Linear)
    local m = Mine(2, 3)
    assert.is_true(nn.is(m, Mine))
    assert.is_true(nn.is(m, nn.Linear))
    assert.is_true(nn.is(m, nn.Module))
    assert.is_false(nn.is(m, nn.Conv2d))
    assert.is_false(nn.is(nn.Linear(2, 2), Mine))
    for _, v in ipairs { 3, "x", flame.ones(2), {}, nn.Linear } do
      assert.is_false(nn.is(v, nn.Linear))
    end
    assert.is_false(nn.is(nil, nn.Linear))
    refused("is: class must be a table, got number", nn.is, m, 3)
  end)
  it("freeze and unfreeze go by patterns of names", function()
    local net = nn.Sequential { nn.Linear(2, 3), nn.Linear(3, 3), nn.Linear(3, 1) }
    net(flame.ones(1, 2)):sum():backward()
    assert.has_error(function() net:freeze("bias", "nosuch") end)
    assert.is_true(net[1].bias.requires_grad)         -- a refused call freezes nothing
    refused("freeze: '[' is no pattern of Lua: malformed pattern", net.freeze, net, "[")
    assert.same({ "1.weight", "1.bias", "2.bias" }, net:freeze("^1%.", "2%.bias"))
    assert.is_nil(net[1].weight.grad)
    assert.truthy(net[3].weight.grad)
    local on = {}
    for name, p in net:named_parameters() do if p.requires_grad then on[#on + 1] = name end end
    assert.same({ "2.weight", "3.weight", "3.bias" }, on)
    assert.same({ "1.bias", "2.bias", "3.bias" }, net:unfreeze("bias$"))
    assert.is_true(net[1].bias.requires_grad)
    refused("no parameter's name holds 'wieght', the first is '1.weight'", net.freeze, net,
      "wieght")
    refused("need a pattern", net.freeze, net)
  end)
  it("parameter_groups sorts them for an optimiser", function()
    local net = nn.Sequential { nn.Embedding(4, 2), nn.LayerNorm(2), nn.Linear(2, 3), nn.Linear(3,
      1) }
    net:freeze("^4%.")
    local groups = net:parameter_groups { { "^1%." , lr = 1 }, { "bias$", "^2%.",
      weight_decay = 0 },
      { lr = 3 } }
    assert.equal(3, #groups)
    assert.same({ 1, 3, 1 }, { #groups[1].params, #groups[2].params, #groups[3].params })
    assert.is_true(rawequal(net[3].weight, groups[3].params[1]))
    assert.same({ 1, 0, 3 }, { groups[1].lr, groups[2].weight_decay, groups[3].lr })
    local opt = optim.AdamW(groups, 0.5)
    assert.same({ 1, 0.5, 3 }, { opt.groups[1].lr, opt.groups[2].lr, opt.groups[3].lr })
    -- the other parameters make a group too
    assert.equal(2, #net:parameter_groups { { "bias$" } })
    assert.equal(1, #net:parameter_groups { { "^4%." },
      {} })        -- ^4 is frozen: its group is left out
    refused("group 1: a pattern is a string", net.parameter_groups, net, { { 3 } })
    refused("groups 1 and 2 have no pattern", net.parameter_groups, net, { { lr = 1 }, { lr = 2 } })
    refused("no option 'lr'", net.parameter_groups, net, { lr = 3 })
    refused("need a list of groups", net.parameter_groups, net, {})
    refused("groups[1] must be a table, got number", net.parameter_groups, net, { 3 })
    refused("no parameter's name holds 'nrom'", net.parameter_groups, net, { { "nrom" } })
  end)
end)

describe("averages", function()
  it("are means of the weights, or exponential ones", function()
    local net = nn.Linear(2, 1)
    local swa = nn.AveragedModel(net)
    local ema = nn.AveragedModel(net, { decay = 0.9 })
    local own = nn.AveragedModel(net, { avg_fn = function(old, new) return old:maximum(new) end })
    local sum, slow, most = 0, nil, -math.huge
    for k = 1, 5 do
      flame.no_grad(function() net.weight:fill_(k % 3) end)
      for _, a in ipairs { swa, ema, own } do a:update_parameters(net) end
      sum, most = sum + k % 3, math.max(most, k % 3)
      slow = slow and 0.9 * slow + 0.1 * (k % 3) or k % 3
    end
    assert.allclose({ { sum / 5, sum / 5 } }, swa.module.weight)
    assert.allclose({ { slow, slow } }, ema.module.weight)
    assert.allclose({ { most, most } }, own.module.weight)
    assert.equal(5, swa.n_averaged:item())
    assert.is_false(swa.module.weight.requires_grad)
    assert.is_true(net.weight.requires_grad)
    local x = flame.ones(1, 2)
    assert.allclose(swa.module(x), swa(x))
  end)
  it("go on where a saved one stopped", function()
    local net = nn.Linear(2, 1)
    local a = nn.AveragedModel(net)
    a:update_parameters(net)
    local b = nn.AveragedModel(nn.Linear(2, 1))
    b:load_state_dict(a:state_dict())
    flame.no_grad(function() net.weight:add_(1) end)
    a:update_parameters(net)
    b:update_parameters(net)
    assert.is_true(flame.equal(a.module.weight, b.module.weight))
    assert.truthy(a:state_dict()["module.weight"])
  end)
  it("take buffers as they are, or averaged", function()
    local net = nn.BatchNorm1d(1)
    local last, mean = nn.AveragedModel(net), nn.AveragedModel(net, { use_buffers = true })
    for k = 1, 2 do
      net.running_mean:fill_(k)
      last:update_parameters(net)
      mean:update_parameters(net)
    end
    assert.equal(2, last.module.running_mean:item())
    assert.equal(1.5, mean.module.running_mean:item())
  end)
  it("refuse other models and rules", function()
    refused("AveragedModel: decay is 2, need 0 to 1", nn.AveragedModel, nn.Linear(1, 1),
      { decay = 2 })
    refused("got both", nn.AveragedModel, nn.Linear(1, 1), { decay = 0.5, avg_fn = print })
    local a = nn.AveragedModel(nn.Linear(1, 1))
    refused("the models differ, tensor 1 is (1, 1) and (1, 2)", a.update_parameters, a,
      nn.Linear(2, 1))
    refused("the models differ, 2 and 1 tensors", a.update_parameters, a,
      nn.Linear(1, 1, { bias = false }))
  end)
  it("of batch norms come from the inputs given to update_bn", function()
    local net = nn.Sequential { nn.BatchNorm1d(2), nn.Linear(2, 1) }:eval()
    local batches = { flame.randn(4, 2) + 3, flame.randn(4, 2) * 2 }
    nn.utils.update_bn(batches, net)
    local want = (batches[1]:mean(1) + batches[2]:mean(1)) / 2
    assert.allclose(want, net[1].running_mean)
    assert.allclose((batches[1]:var(1) + batches[2]:var(1)) / 2, net[1].running_var)
    assert.is_false(net[1].training)
    assert.equal(0.1, net[1].momentum)
    local i = 0
    nn.utils.update_bn(function() i = i + 1 return batches[i] end, net)
    assert.allclose(want, net[1].running_mean)
    nn.utils.update_bn({}, nn.Linear(1, 1))
    refused("batches are a list of inputs or an iterator, got number", nn.utils.update_bn, 3, net)
  end)
end)

describe("parametrisations", function()
  local Symmetric = nn.Module.extend "Symmetric"
  function Symmetric:forward(x) return x:triu() + x:triu(1):t() end
  local Scaled = nn.Module.extend "Scaled"
  function Scaled:init() self.by = nn.Parameter(flame.full({}, 2.0)) end
  function Scaled:forward(x) return x * self.by end
  function Scaled:right_inverse(x) return x / self.by:detach() end

  it("compute a weight at each read, with PyTorch's names", function()
    local m = nn.Linear(3, 3)
    local w = m.weight:detach()
    assert.is_true(rawequal(m, nn.utils.register_parametrization(m, "weight", Symmetric())))
    assert.is_true(flame.equal(m.weight, m.weight:t()))
    assert.is_true(flame.equal(m.weight:triu(), w:triu()))
    assert.same({ "bias", "parametrizations.weight.original" }, names_of(m))
    assert.is_true(nn.utils.is_parametrized(m))
    assert.is_true(nn.utils.is_parametrized(m, "weight"))
    assert.is_false(nn.utils.is_parametrized(m, "bias"))
    assert.is_false(nn.utils.is_parametrized(nn.Linear(1, 1)))
    assert.is_true(nn.is(m, nn.Linear))
    m(flame.randn(2, 3)):square():sum():backward()
    local original = m.parametrizations.weight.original
    assert.equal(0, original.grad:tril(-1):abs():sum():item())
    flame.no_grad(function() original:add_(1) end)
    assert.is_true(flame.equal(m.weight:triu(), original:triu()))
    refused("weight is computed from others", function() m.weight = nn.Parameter(w) end)
  end)
  it("stand behind one another, start from right_inverse, and go again", function()
    local m = nn.Linear(2, 2)
    local w = m.weight:detach()
    nn.utils.register_parametrization(m, "weight", Scaled())
    assert.allclose(w, m.weight)
    assert.allclose(w / 2, m.parametrizations.weight.original)
    nn.utils.register_parametrization(m, "weight", Scaled())
    assert.allclose(w, m.weight)
    assert.same({ "bias", "parametrizations.weight.original", "parametrizations.weight.1.by",
      "parametrizations.weight.2.by" }, names_of(m))
    local copy = m:clone()
    flame.no_grad(function() copy.parametrizations.weight[1].by:fill_(0) end)
    assert.equal(0, copy.weight:abs():sum():item())
    assert.allclose(w, m.weight)
    local y = flame.functional_call(m, { ["parametrizations.weight.original"] = flame.zeros(2, 2),
      bias = flame.ones(2) }, flame.randn(1, 2))
    assert.same({ { 1, 1 } }, y:totable())
    nn.utils.remove_parametrizations(m, "weight")
    assert.allclose(w, m.weight)
    assert.same({ "weight", "bias" }, names_of(m))
    assert.equal(nn.Linear, getmetatable(m))
    nn.utils.remove_parametrizations(copy, "weight", { leave_parametrized = false })
    assert.allclose(w / 4, copy.weight)
    m.weight = nn.Parameter(w)
  end)
  it("refuse what does not fit", function()
    local m = nn.Linear(2, 3)
    refused("Linear has no parameter 'wieght'", nn.utils.register_parametrization, m, "wieght",
      Scaled())
    local Flat = nn.Module.extend "Flat"
    function Flat:forward(x) return x:flatten() end
    refused("the result is f32 (6), Linear's weight is f32 (3, 2); unsafe = true allows it",
      nn.utils.register_parametrization, m, "weight", Flat())
    nn.utils.register_parametrization(m, "weight", Flat(), { unsafe = true })
    assert.same({ 6 }, m.weight.shape)
    refused("Linear's 'bias' has none", nn.utils.remove_parametrizations, m, "bias")
    refused("must be a Module, got number", nn.utils.register_parametrization, m, "bias", 3)
  end)
end)

describe("gated layers", function()
  it("are a product of one half with the other through the gate", function()
    for name, f in pairs { GEGLU = flame.gelu, SwiGLU = flame.silu } do
      local m, x = nn[name](3, 4), flame.randn(2, 5, 3)
      local y = flame.linear(x, m.proj.weight, m.proj.bias)
      assert.allclose(y:narrow(-1, 1, 4) * f(y:narrow(-1, 5, 4)), m(x))
      assert.is_nil(nn[name](3, 4, false).proj.bias)
      refused("out_features is 0, need a positive integer", nn[name], 3, 0)
      assert.equal("f64", nn[name](3, 4, { dtype = "f64" }).proj.weight.dtype)
    end
  end)
  it("FeedForward has two layers with an activation or a gate", function()
    local x = flame.randn(2, 3)
    local m = nn.FeedForward(3)
    assert.same({ 12, 3 }, m.up.weight.shape)
    assert.allclose(m.down(m.up(x):gelu()), m(x))
    m = nn.FeedForward(3, 5, "swiglu", { out_features = 2, bias = false })
    assert.same({ 10, 3 }, m.up.proj.weight.shape)
    assert.allclose(m.down(m.up(x)), m(x))
    assert.same({ 2, 2 }, m(x).shape)
    assert.is_nil(m.down.bias)
    m = nn.FeedForward(3, { activation = "relu", dropout = 1 })
    assert.allclose(m.down.bias:detach():expand(2, 3), m(x))
    assert.is_true(m:eval()(x):sub(m.down.bias):abs():sum():item() > 0)
    refused("there is no activation 'gelo'", nn.FeedForward, 3, { activation = "gelo" })
    refused("hidden is -1", nn.FeedForward, 3, -1)
  end)
end)
