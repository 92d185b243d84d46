-- Modules: their parameters and submodules, with names; moving to a device, saving, hooks,
-- printing; shapes of layers and attention (spec/peer/nn.py compares their values with PyTorch).

local flame = require "flame"
local nn = require "flame.nn"

local refused = require("spec.support.helper").raises

local function names_of(iterator)
  local out = {}
  for name in iterator do out[#out + 1] = name end
  return out
end

local Block = nn.Module.extend("Block")
function Block:init(d)
  self.norm = nn.LayerNorm(d)
  self.w = nn.Parameter(flame.ones(d, d))
  self.seen = nn.Buffer(flame.zeros(1))
  self.list = { nn.Linear(d, d), nn.Linear(d, d, { bias = false }) }
end
function Block:forward(x) return x + self.norm(x):matmul(self.w) end

describe("the tree", function()
  it("names parameters in order of first assignment, lists from 1, shared ones once", function()
    local b = Block(3)
    b.tied = b.w
    assert.same({ "norm.weight", "norm.bias", "w", "list.1.weight", "list.1.bias",
      "list.2.weight" }, names_of(b:named_parameters()))
    assert.same({ "seen" }, names_of(b:named_buffers()))
    assert.equal(6, #b:parameters())
    assert.equal(3 + 3 + 9 + 9 + 3 + 9, b:count())
    for name, p in pairs(b:named_parameters()) do
      assert.truthy(rawequal(p, b:get_parameter(name)), name)
    end
    local state = {}
    for name in pairs(b:state_dict()) do state[#state + 1] = name end
    assert.equal(7, #state)
  end)

  it("a parameter given again stands at the old place", function()
    local b = Block(2)
    b.w = nn.Parameter(flame.zeros(2, 2))
    assert.same("w", names_of(b:named_parameters())[3])
    b.w = nil
    assert.equal(5, #b:parameters())
    b.w = nn.Parameter(flame.zeros(2, 2))
    assert.equal(6, #b:parameters())
  end)

  it("refuses in a parameter's name what is no parameter, and keeps the parameter", function()
    local b, list = Block(2), nn.ParameterList { flame.ones(2) }
    local w = b.w
    for what, v in pairs { ["a tensor"] = b.w * 0.02, number = 3, boolean = false } do
      refused("Block: w is a Parameter: it can be one or nil, got " .. what
        .. ": write nn.Parameter(…), or "
        .. "flame.no_grad(function() self.w:copy_(…) end)", function() b.w = v end)
    end
    refused("is a Parameter", function() b.norm.weight = flame.zeros(2) end)
    refused("is a Parameter", function() b.list[2].weight = b.list[2].weight * 0 end)
    refused("ParameterList: 1 is a Parameter", function() list[1] = flame.ones(2) end)
    assert.is_true(rawequal(w, b.w))
    assert.equal(6, #b:parameters())
    assert.same({ 1, { 1, 1 } }, { #list, list[1]:totable() })
    b.late = 3                                          -- a plain value first, then a parameter
    b.late = nn.Parameter(flame.ones(1))
    assert.equal(7, #b:parameters())
    refused("Block: late is a Parameter", function() b.late = flame.zeros(1) end)
    b.late = nil
    b.late = flame.zeros(1)                             -- a plain tensor now
    assert.equal(6, #b:parameters())
  end)

  it("keeps a buffer a buffer when its name is given a tensor", function()
    local b = Block(2)
    b.more = nn.Buffer(flame.zeros(1), false)
    for _ = 1, 2 do
      b.seen = b.seen + 1
      b.more = b.more + 2
    end
    assert.same({ "seen", "more" }, names_of(b:named_buffers()))
    assert.same({ 2 }, b:state_dict().seen:totable())
    assert.is_nil(b:state_dict().more)                   -- still not saved
    b:double()
    assert.same({ "f64", "f64" }, { b.seen.dtype, b.more.dtype })
    refused("Block: seen is a Buffer: it can be a tensor or nil, got number",
      function() b.seen = 1 end)
    b.seen = nil
    assert.same({ "more" }, names_of(b:named_buffers()))
    b.more = nn.Parameter(flame.ones(1))
    assert.equal(0, #b:buffers())
    assert.equal(7, #b:parameters())
  end)

  it("shows parameters to pairs, and to what differentiates by a module", function()
    local seen = {}
    for name, v in pairs(nn.ParameterDict { a = flame.ones(1), b = flame.ones(2) }) do
      if flame.is_tensor(v) then seen[name] = #v end
    end
    assert.same({ a = 1, b = 2 }, seen)
    local l = nn.Linear(2, 1)
    local _, g = flame.value_and_grad(function(net, x)
      return flame.linear(x, net.weight, net.bias):sum()
    end)(l, flame.ones(1, 2))
    assert.same({ { 1, 1 } }, g.weight:totable())
  end)

  it("children are direct, modules are all, apply goes from the leaves up", function()
    local net = nn.Sequential { nn.Sequential { nn.ReLU(), nn.Tanh() }, nn.Linear(1, 1) }
    assert.same({ "1", "2" }, names_of(net:named_children()))
    assert.same({ "", "1", "1.1", "1.2", "2" }, names_of(net:named_modules()))
    local seen, count = {}, 0
    net:apply(function(m) seen[#seen + 1] = getmetatable(m).__name end)
    assert.same({ "ReLU", "Tanh", "Sequential", "Linear", "Sequential" }, seen)
    for m in net:modules() do count = count + (m.training and 1 or 0) end
    assert.same({ 5, 5, 2 }, { count, #net:modules(), #net:children() })
    assert.equal("Tanh", getmetatable(net:get_submodule("1.2")).__name)
    refused("there is no 1.5", net.get_submodule, net, "1.5")
  end)

  it("lists of modules begin again in each for, after a break and in one another", function()
    local list, seen = nn.Sequential { nn.ReLU(), nn.Tanh(), nn.GELU() }:children(), {}
    for m in list do
      seen[#seen + 1] = m
      if m == list[1] then break end
    end
    for m in list do
      seen[#seen + 1] = m
      for k in list do seen[#seen + 1] = k end
    end
    local a, b, c = list[1], list[2], list[3]
    assert.same({ a, a, a, b, c, b, a, b, c, c, a, b, c }, seen)
    for m in list do if m == a then break end end
    assert.equal(b, list())
  end)

  it("nn.functional.unfold gives columns of windows, and other names are flame's", function()
    local image = flame.arange(16.0):reshape(1, 1, 4, 4)
    assert.same({ 1, 4, 9 }, nn.functional.unfold(image, 2).shape)
    assert.equal(flame.relu, nn.functional.relu)
    refused("flame has no 'reluu'", function() return nn.functional.reluu end)
  end)

  it("train, eval and requires_grad_ reach everything", function()
    local net = nn.Sequential { nn.Dropout(0.5), nn.Linear(2, 2) }
    net:eval()
    assert.falsy(net[1].training)
    local x = flame.ones(3, 2)
    assert.truthy(flame.equal(net[1](x), x))
    net:train()
    assert.truthy(net[1].training)
    net:requires_grad_(false)
    assert.falsy(net[2].weight.requires_grad)
    net:requires_grad_()
    assert.truthy(net[2].bias.requires_grad)
    refused("train: mode must be true or false, got number 1", net.train, net, 1)
  end)

  it("converts by dtype, device and like a tensor", function()
    local net = Block(2)
    assert.equal("f16", net:half().w.dtype)
    assert.equal("bf16", net:bfloat16().w.dtype)
    assert.equal("f64", net:double().w.dtype)
    assert.equal("f32", net:to(flame.zeros(1)).w.dtype)
    assert.equal("f64", net:to("cpu", "f64").norm.weight.dtype)
    refused("not to i32", net.to, net, "i32")
    refused("need a device or a floating dtype", net.to, net)
  end)

  it("a view becomes a separate value as a parameter", function()
    local p = nn.Parameter(flame.arange(6.0):reshape(2, 3))
    flame.no_grad(function() p:mul_(2) end)
    assert.same({ { 2, 4, 6 }, { 8, 10, 12 } }, p:totable())
    assert.truthy(p.is_leaf and p.requires_grad)
    refused("Parameter: x must be a tensor, got table", nn.Parameter, { 1 })
  end)

  it("register_buffer and register_parameter do what assigning does", function()
    local m = nn.Module.extend("M")()
    m:register_buffer("kept", flame.ones(1))
    m:register_buffer("passing", flame.ones(1), false)
    m:register_parameter("w", flame.ones(2))
    m:add_module("layer", nn.Linear(1, 1))
    assert.same({ "kept", "passing" }, names_of(m:named_buffers()))
    assert.is_nil(m:state_dict().passing)
    assert.same({ "w", "layer.weight", "layer.bias" }, names_of(m:named_parameters()))
  end)

  it("classes inherit", function()
    local Twice = nn.Module.extend("Twice", nn.Linear)
    function Twice:forward(x) return nn.Linear.forward(self, x) * 2 end
    local m = Twice(2, 3)
    assert.allclose(flame.linear(flame.ones(1, 2), m.weight, m.bias) * 2, m(flame.ones(1, 2)))
    assert.truthy(tostring(m):find("^Twice%(in_features=2"))
  end)
end)

describe("loading a state", function()
  it("names what is missing, surplus and of another shape, and changes nothing then", function()
    local net = nn.Sequential { nn.Linear(2, 3), nn.Linear(3, 1) }
    local before = net[1].weight:totable()
    local state = net:state_dict()
    state["1.weight"], state["2.bias"], state.other = flame.zeros(2, 2), nil, flame.zeros(1)
    refused("1.weight is (2, 2) in the file and (3, 2) in the module; missing 2.bias; not in the module other",
      net.load_state_dict, net, state)
    assert.same(before, net[1].weight:totable())
    state["1.weight"] = flame.ones(3, 2)
    local told = net:load_state_dict(state, { strict = false })
    assert.same({ { "2.bias" }, { "other" } }, { told.missing_keys, told.unexpected_keys })
    assert.equal(6, net[1].weight:sum():item())
    refused("is a number, need a tensor", net.load_state_dict, net, { ["1.weight"] = 3 },
      { strict = false })
    refused("load_state_dict: no option 'strickt'", net.load_state_dict, net, state,
      { strickt = true })
  end)

  it("takes PyTorch's names, other dtypes, and either name of a tied tensor", function()
    local net = nn.Sequential { nn.Linear(1, 1), nn.ReLU(), nn.Linear(1, 1) }
    net:load_state_dict({ ["0.weight"] = flame.tensor({ { 2 } }, { dtype = "f64" }),
      ["0.bias"] = flame.zeros(1),
      ["2.weight"] = flame.tensor({ { 3 } }):half(), ["2.bias"] = flame.zeros(1) },
    { zero_based = true })
    assert.equal(6, net(flame.ones(1, 1)):item())
    local Tied = nn.Module.extend("Tied")
    function Tied:init()
      self.a = nn.Embedding(3, 2)
      self.b = nn.Linear(2, 3, { bias = false })
      self.b.weight = self.a.weight
    end
    local m = Tied()
    assert.same({ "a.weight" }, names_of(m:named_parameters()))
    m:load_state_dict({ ["a.weight"] = flame.ones(3, 2), ["b.weight"] = flame.ones(3, 2) })
    m:load_state_dict({ ["b.weight"] = flame.full({ 3, 2 }, 5) })
    assert.equal(5, m.a.weight[{ 1, 1 }]:item())
  end)

  it("is written under PyTorch's names: lists from 0, shared tensors under all they have", function()
    local layer, Net = nn.Linear(2, 2), nn.Module.extend("Net")
    function Net:init()
      self.blocks = nn.ModuleList { layer, nn.Sequential { nn.ReLU(), layer } }
      self.head = nn.Linear(2, 2, { bias = false })
      self.head.weight = layer.weight
      self.above = self                                  -- a circle ends
    end
    local net, names = Net(), {}
    local state = net:state_dict { zero_based = true }
    for name in pairs(state) do if not name:find "^above" then names[#names + 1] = name end end
    table.sort(names)
    assert.same({ "blocks.0.bias", "blocks.0.weight", "blocks.1.1.bias", "blocks.1.1.weight",
      "head.weight" }, names)
    assert.same({ "blocks.1.weight", "blocks.1.bias" }, names_of(net:named_parameters()))
    flame.no_grad(function() layer.weight:zero_() end)
    net:load_state_dict(state, { zero_based = true })
    assert.is_true(flame.equal(state["blocks.1.1.weight"], layer.weight))
    refused("state_dict: blocks.0.weight counts from 0 as it is: leave out zero_based",
      function()
        local named = nn.Module.extend("Named")()
        named.blocks = nn.ModuleDict { ["0"] = nn.Linear(1, 1, { bias = false }) }
        named:state_dict { zero_based = true }
      end)
  end)
end)

describe("hooks", function()
  it("before and behind forward may change what comes and goes, until removed", function()
    local layer = nn.Identity()
    local one = layer:register_forward_pre_hook(function(_, args) return args[1] * 2 end)
    local two = layer:register_forward_hook(function(m, args, y)
      assert.equal(layer, m)
      assert.equal(6, args[1]:item())
      return y + 1
    end)
    assert.equal(7, layer(flame.tensor(3)):item())
    one:remove()
    two:remove()
    assert.equal(3, layer(flame.tensor(3)):item())
    refused("register_forward_hook: f must be a function", layer.register_forward_hook, layer, 3)
  end)
end)

describe("printing", function()
  it("shows the tree as PyTorch does", function()
    local net = nn.Sequential { nn.Linear(2, 3), nn.Sequential { nn.LeakyReLU(0.2) },
      nn.Dropout(0.1) }
    assert.equal(
      table.concat({ "Sequential(", "  (1): Linear(in_features=2, out_features=3, bias=true)",
      "  (2): Sequential(", "    (1): LeakyReLU(negative_slope=0.2)", "  )",
      "  (3): Dropout(p=0.1)", ")" }, "\n"), tostring(net))
    assert.equal("ReLU()", tostring(nn.ReLU()))
  end)
end)

describe("containers", function()
  it("Sequential takes a list or arguments, and passes several arguments to the first", function()
    local add = nn.Module.extend("Add")
    function add:forward(a, b) return a + b end
    assert.equal(6,
      nn.Sequential(add(), function(x) return x * 2 end)(flame.tensor(1), flame.tensor(2)):item())
    refused("modules[1] must be a Module or a function, got number 3", nn.Sequential, { 3 })
  end)

  it("ModuleList, ModuleDict, ParameterList and ParameterDict are found", function()
    local list = nn.ModuleList { nn.Linear(1, 1) }
    list:append(nn.ReLU()):extend({ nn.Linear(1, 2) })
    list:insert(1, nn.Tanh())
    assert.same({ 4, "Tanh", "Linear" },
      { #list, getmetatable(list[1]).__name, getmetatable(list[2]).__name })
    assert.same({ "2.weight", "2.bias", "4.weight", "4.bias" }, names_of(list:named_parameters()))
    assert.same({ "a.weight", "a.bias", "b.weight", "b.bias" },
      names_of(nn.ModuleDict { b = nn.Linear(1, 1), a = nn.Linear(1, 1) }:named_parameters()))
    assert.equal(2, #nn.ParameterList { flame.ones(1), nn.Parameter(flame.ones(2)) }:parameters())
    assert.equal(1, #nn.ParameterDict { w = nn.Parameter(flame.ones(1)) }:parameters())
  end)
end)

describe("layers", function()
  it("start as PyTorch's do", function()
    flame.seed(2)
    local w = nn.Linear(100, 400).weight:abs()
    assert.close(0.1, w:max():item(), 1e-3)
    assert.close(0.05, w:mean():item(), 1e-3)
    assert.close(1, nn.Embedding(100, 100).weight:std():item(), 0.02)
    assert.close(math.sqrt(6 / (64 + 3 * 64)),
      nn.MultiheadAttention(64, 4).in_proj_weight:abs():max():item(), 1e-2)
    assert.equal(0.25, nn.PReLU().weight:item())
  end)

  it("the padding row of an embedding is zero and has no gradient", function()
    local e = nn.Embedding(4, 2, { padding_idx = 2 })
    local y = e(flame.tensor({ 1, 2, 2 }, { dtype = "i64" }))
    assert.same({ 0, 0 }, y[2]:totable())
    y:sum():backward()
    assert.same({ { 1, 1 }, { 0, 0 }, { 0, 0 }, { 0, 0 } }, e.weight.grad:totable())
    local fixed = nn.Embedding.from_pretrained(flame.ones(3, 2))
    assert.falsy(fixed.weight.requires_grad)
    refused("padding_idx is 9, need 1 to 4", nn.Embedding, 4, 2, { padding_idx = 9 })
  end)

  it("batch norm counts batches, and takes their mean without a momentum", function()
    local m = nn.BatchNorm1d(2, { momentum = false })
    m(flame.tensor({ { 0, 0 }, { 2, 4 } }))
    m(flame.tensor({ { 2, 2 }, { 4, 6 } }))
    assert.equal(2, m.num_batches_tracked:item())
    assert.allclose({ 2, 3 }, m.running_mean)
    m:eval()
    assert.allclose({ { 0, 0 } }, m(flame.tensor({ { 2, 3 } })))
    refused("BatchNorm1d: x has 4 axes, need 2 or 3", m, flame.ones(1, 2, 3, 4))
    refused("x has 3 channels, need 2", m, flame.ones(2, 3))
  end)

  it("instance norm without a momentum keeps its statistics, as in PyTorch", function()
    local m = nn.InstanceNorm1d(2, { momentum = false, track_running_stats = true })
    m(flame.tensor({ { { 0, 2 }, { 4, 8 } } }))
    assert.allclose({ 0, 0 }, m.running_mean)
    assert.allclose({ 1, 1 }, m.running_var)
  end)

  it("batch norm does not count a batch whose values fail", function()
    local m = nn.BatchNorm1d(2, { momentum = false })
    local function batch(id)
      local x = flame.tensor { { 0, 0 }, { 2, 4 }, { 4, 6 } }
      local y = m(x:index_select(1, flame.tensor({ 1, id }, { dtype = "i64" })))
      return y:totable()
    end
    batch(2)
    refused("index 9 at position 2 is out of range", batch, 9)
    batch(3)
    assert.equal(2, m.num_batches_tracked:item())
    assert.allclose({ 1.5, 2.5 }, m.running_mean)
  end)

  it("channel dropout drops whole channels", function()
    flame.seed(1)
    local y = nn.Dropout2d(0.5)(flame.ones(4, 8, 3, 3))
    local sums = y:sum({ 3, 4 })
    assert.truthy((sums:eq(0):logical_or(sums:eq(18))):all():item())
  end)

  it("say which argument is wrong", function()
    refused("Linear: in_features is 0, need a positive integer", nn.Linear, 0, 3)
    refused("Linear: in_features must be an integer, got a tensor", nn.Linear, flame.ones(2))
    refused('Module: make a class of your own first: local Net = nn.Module.extend("Net"), then Net(…)', nn.Module)
    local layer = nn.Linear(1, 1)
    refused("load_state_dict: state must be a table, got a tensor", layer.load_state_dict,
      layer, flame.ones(1))
    refused("Linear: no option 'bais'", nn.Linear, 2, 3, { bais = true })
    refused("Dropout: p = 2, need 0 <= p <= 1", nn.Dropout, 2)
    refused("7 features do not split into 2 heads", nn.MultiheadAttention, 7, 2)
    refused("5 channels do not divide into 2 groups", nn.GroupNorm, 2, 5)
  end)

  it("RMSNorm adds the least that its dtype knows, unless told", function()
    local x = flame.full({ 1, 4 }, 1e-4)
    assert.close(1e-4 / math.sqrt(1e-8 + 2 ^ -23), nn.RMSNorm(4)(x)[{ 1, 1 }]:item(), 1e-6)
    assert.close(1e-4 / math.sqrt(1e-8 + 1e-2),
      nn.RMSNorm(4, { eps = 1e-2 })(x)[{ 1, 1 }]:item(), 1e-6)
  end)

  it("losses are modules, and their weights move with them", function()
    local x, y = flame.randn(4, 3), flame.tensor({ 1, 3, 2, 1 }, { dtype = "i64" })
    local w = flame.tensor({ 1, 2, 3 })
    assert.allclose(flame.cross_entropy(x, y, { weight = w }), nn.CrossEntropyLoss(w)(x, y))
    local loss = nn.CrossEntropyLoss { weight = w, reduction = "sum" }
    loss:double()
    assert.equal("f64", loss(x:double(), y).dtype)
    assert.close(6,
      nn.TripletMarginLoss { margin = 6 }(flame.ones(1, 2), flame.ones(1, 2),
        flame.ones(1, 2)):item(), 1e-3)
  end)
end)

describe("attention", function()
  it("gives the weights unless told not to, and looks only back when causal", function()
    local mha = nn.MultiheadAttention(8, 2, { batch_first = true })
    local x = flame.randn(3, 5, 8)
    local y, w = mha(x, x, x, { is_causal = true })
    assert.same({ 3, 5, 5 }, w.shape)
    assert.equal(0, w:triu(1):abs():sum():item())
    assert.allclose(flame.ones(3, 5), w:sum(-1))
    local z, none = mha(x, { is_causal = true, need_weights = false })
    assert.is_nil(none)
    assert.allclose(y, z, { atol = 1e-5 })
    local _, each = mha(x, x, x, { average_attn_weights = false })
    assert.same({ 3, 2, 5, 5 }, each.shape)
  end)

  it("a block learns to repeat what stood before", function()
    flame.seed(5)
    local optim = require "flame.optim"
    local Net = nn.Module.extend("Net")
    function Net:init()
      self.embed, self.block, self.head = nn.Embedding(6, 16),
        nn.TransformerBlock(16, 2, { causal = true }), nn.Linear(16, 6)
    end
    function Net:forward(ids) return self.head(self.block(self.embed(ids):rotary())) end
    local net = Net()
    local opt = optim.AdamW(net:parameters(), { lr = 5e-3 })
    local ids = flame.randint({ 32, 9 }, 1, 6)
    local loss
    for _ = 1, 60 do
      opt:zero_grad()
      loss = flame.cross_entropy(net(ids)[{ {}, { 2, 9 } }]:reshape(-1, 6),
        ids[{ {}, { 1, 8 } }]:reshape(-1))
      loss:backward()
      opt:step()
    end
    assert.is_true(loss:item() < 0.9, loss:item())
  end)
end)

describe("nn.init and nn.utils", function()
  it("have the variances that they promise", function()
    flame.seed(7)
    local init = nn.init
    local w = flame.empty(300, 200)
    assert.close(math.sqrt(2 / 200), init.kaiming_normal_(w):std():item(), 2e-3)
    assert.close(math.sqrt(2 / 300),
      init.kaiming_uniform(w, { mode = "fan_out" }):std():item(), 2e-3)
    assert.close(math.sqrt(2 / 500), init.xavier_normal(w):std():item(), 2e-3)
    assert.close(2 * math.sqrt(2 / 500), init.xavier_uniform(w, 2):std():item(), 3e-3)
    assert.close(3, init.normal(w, 3, 0.1):mean():item(), 1e-2)
    local t = init.trunc_normal(w, { std = 0.5, a = -0.5, b = 0.5 })
    assert.is_true(t:abs():max():item() <= 0.5)
    assert.same({ { 1, 0, 0 }, { 0, 1, 0 } }, init.eye(flame.empty(2, 3)):totable())
    assert.close(5 / 3, init.calculate_gain("tanh"), 1e-12)
    refused("need at least two axes", init.xavier_uniform, flame.empty(3))
    refused("there is no nonlinearity", init.calculate_gain, "step")
    refused("init.sparse: x has 3 axes, need 2", init.sparse, flame.empty(4, 4, 4))
    local sparse = init.sparse(flame.empty(10, 4), { sparsity = 0.3 })
    assert.same({ 3, 3, 3, 3 }, sparse:eq(0):sum(1):totable())
    assert.equal(2, init.dirac(flame.empty(2, 3, 3)):sum():item())
    local q = init.orthogonal(flame.empty(4, 2, 3), 2)
    q = q:reshape(4, 6)
    assert.allclose(flame.eye(4) * 4, q:matmul(q:t()), { atol = 1e-5 })
  end)

  it("vectors of parameters survive the way to a vector and back", function()
    local net = nn.Linear(2, 3)
    local v = nn.utils.parameters_to_vector(net:parameters())
    assert.equal(9, v:numel())
    nn.utils.vector_to_parameters(flame.arange(9.0), net:parameters())
    assert.same({ { 1, 2 }, { 3, 4 }, { 5, 6 } }, net.weight:totable())
    assert.same({ 7, 8, 9 }, net.bias:totable())
    refused("8 values, the parameters have 9", nn.utils.vector_to_parameters, flame.arange(8.0),
      net:parameters())
  end)

  it("pad_sequence puts sequences side by side", function()
    local y = nn.utils.pad_sequence({ flame.ones(2), flame.full({ 3 }, 2) },
      { batch_first = true, padding_value = 9 })
    assert.same({ { 1, 1, 9 }, { 2, 2, 2 } }, y:totable())
  end)
  it("AdaptiveLogSoftmaxWithLoss gives the log-probabilities of a head and its clusters", function()
    flame.seed(4)
    local m = nn.AdaptiveLogSoftmaxWithLoss(6, 9, { 3, 5 }, { div_value = 2 })
    local names = {}
    for name in m:named_parameters() do names[#names + 1] = name end
    assert.same({ "head.weight", "tail.1.1.weight", "tail.1.2.weight", "tail.2.1.weight",
      "tail.2.2.weight" }, names)
    assert.same({ { 5, 6 }, { 2, 3 }, { 1, 6 } },
      { m.head.weight.shape, m.tail[1][2].weight.shape, m.tail[2][1].weight.shape })
    local x, target = flame.randn(5, 6), flame.tensor({ 1, 4, 9, 3, 6 }, { dtype = "i64" })
    local every = m:log_prob(x)
    assert.allclose(flame.ones(5), every:exp():sum(2))
    local y, loss = m(x, target)
    assert.allclose(every:gather(2, target:unsqueeze(2)):squeeze(2), y)
    assert.allclose(-y:mean(), loss)
    assert.same(every:argmax(2):totable(), m:predict(x):totable())
    assert.allclose(y[3], (m(x[3], target[3])))
    loss:backward()
    for _, p in m:named_parameters() do assert.same(p.shape, p.grad.shape) end
    local bad = flame.tensor({ 1, 4, 10, 3, 6 }, { dtype = "i64" })
    for text, f in pairs { ["class 10 at position 3, need 1 to 9"] = function()
      return m(x, bad)
    end,
      ["cluster 2 has no features, since in_features = 6 is below div_value ^ 2 = 16: lower "] =
        function() return nn.AdaptiveLogSoftmaxWithLoss(6, 9, { 3, 5 }) end,
      ["cutoffs must rise"] = function() return nn.AdaptiveLogSoftmaxWithLoss(6, 9, { 5, 3 }) end,
      ["cutoffs must be a list of integers, got nothing"] = function()
        return nn.AdaptiveLogSoftmaxWithLoss(6, 9)
      end } do
      refused(text, f)
    end
  end)
end)
