--- lua/flame/nn/transformer.lua, and modules that few models have: attention with extra keys,
-- dropout that keeps mean and variance, embeddings with options. spec/peer/nn.py compares them
-- with PyTorch.
require "spec.support.helper"
local flame = require "flame"
local nn, optim = require "flame.nn", require "flame.optim"
local T = flame.tensor
local function eq(expected, x, tol)
  assert.allclose(expected, x, { rtol = tol or 1e-5, atol = tol or 1e-6 })
end
local function ids(list) return T(list, { dtype = "i64" }) end
local small = { dim_feedforward = 8, dropout = 0 }

describe("transformer stacks", function()
  it("hold separate layers that begin alike, under PyTorch's names", function()
    local net = nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, small), 2, nn.LayerNorm(4))
    local names = {}
    for name in net:named_parameters() do names[#names + 1] = name end
    assert.equal("layers.1.self_attn.in_proj_weight", names[1])
    assert.equal("norm.bias", names[#names])
    assert.equal(2 * 12 + 2, #names)
    local state = net:state_dict()
    eq(state["layers.1.linear1.weight"]:totable(), state["layers.2.linear1.weight"])
    flame.no_grad(function() net.layers[1].linear1.weight:zero_() end)
    assert.is_true(net.layers[2].linear1.weight:abs():sum():item() > 0)
  end)
  it("run their layers one after the other, with masks", function()
    flame.seed(1)
    local a, b = nn.TransformerEncoderLayer(4, 2, small), nil
    local net = nn.TransformerEncoder(a, 2)
    local wide = nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, small):to("f64"), 2)
    for _, p in wide:named_parameters() do assert.equal("f64", p.dtype) end
    b = net.layers[2]
    local x, mask = flame.randn(3, 2, 4), nn.Transformer.generate_square_subsequent_mask(3)
    assert.same({ { 0, -math.huge, -math.huge }, { 0, 0, -math.huge }, { 0, 0, 0 } },
      mask:totable())
    eq(b(a(x)):totable(), net(x))
    eq(b(a(x, mask), mask):totable(), net(x, { mask = mask }))
    assert.has_error(function() nn.TransformerEncoder(nn.Linear(1, 1), 2) end)
  end)
  it("decode with a memory; what is ahead has no influence", function()
    flame.seed(2)
    local model = nn.Transformer(4, 2, 1, 2,
      { dim_feedforward = 8, dropout = 0, batch_first = true })
    local src, tgt = flame.randn(1, 5, 4), flame.randn(1, 3, 4)
    local y = model(src, tgt,
      { tgt_is_causal = true, tgt_mask = nn.Transformer.generate_square_subsequent_mask(3) })
    assert.same({ 1, 3, 4 }, y.shape)
    local later = tgt:clone()
    later[{ 1, 3 }] = 9
    local z = model(src, later, { tgt_mask = nn.Transformer.generate_square_subsequent_mask(3) })
    eq(y[{ 1, { 1, 2 } }]:totable(), z[{ 1, { 1, 2 } }])
    assert.is_false(flame.allclose(y[{ 1, 3 }], z[{ 1, 3 }]))
    assert.is_false(flame.allclose(y,
      model(src * 2, tgt, { tgt_mask = nn.Transformer.generate_square_subsequent_mask(3) })))
    local before = nn.TransformerDecoderLayer(4, 2,
      { dim_feedforward = 8, dropout = 0, norm_first = true })
    assert.same({ 3, 1, 4 },
      nn.TransformerDecoder(before, 2)(flame.randn(3, 1, 4), flame.randn(5, 1, 4)).shape)
  end)
end)

describe("a block", function()
  it("looks at all positions, and at none ahead where it is told so at its making or in a call", function()
    flame.seed(4)
    local plain = nn.TransformerBlock(4, 2)
    local causal = nn.TransformerBlock(4, 2, { causal = true })
    causal:load_state_dict(plain:state_dict())
    local x = flame.randn(2, 3, 4)
    local later = x:clone()
    later[{ {}, 3 }] = 9
    local function same_before(f)
      return flame.allclose(f(x)[{ {}, { 1, 2 } }], f(later)[{ {}, { 1, 2 } }])
    end
    local mask = flame.ones({ 3, 3 }, { dtype = "bool" }):triu(1)
    assert.is_false(same_before(plain))
    assert.is_true(same_before(causal))
    assert.is_true(same_before(function(v) return plain(v, { is_causal = true }) end))
    assert.is_true(same_before(function(v) return plain(v, mask) end))
    assert.is_true(same_before(function(v)
      return plain(v, { attn_mask = mask:float():masked_fill(mask, -math.huge) })
    end))
    assert.is_false(same_before(function(v) return causal(v, { is_causal = false }) end))
    local padding = T({ { false, false, true }, { false, false, true } })
    assert.is_true(same_before(function(v) return plain(v, nil, padding) end))
    assert.is_true(same_before(function(v) return plain(v, { key_padding_mask = padding }) end))
    eq(plain(x, mask):totable(), causal(x), 1e-5)
  end)
  it("keeps a mask and is_causal both", function()
    local mha, x = nn.MultiheadAttention(4, 2, { batch_first = true }), flame.randn(1, 3, 4)
    -- true hides a key: queries 1 and 2 see key 1, query 3 sees keys 2 and 3
    local first = T({ { false, true, true }, { false, true, true }, { true, false, true } })
    for _, need_weights in ipairs { true, false } do
      local both = mha(x, { attn_mask = first, is_causal = true, need_weights = need_weights })
      -- no visible key is in the future, so is_causal changes nothing
      eq(mha(x, { attn_mask = first }):totable(), both)
      local ahead = T({ { true, false, false }, { false, false, false }, { false, false, false } })
      local _, w = mha(x, { attn_mask = flame.zeros(3, 3), is_causal = true })
      eq({ 0, 0 }, w[{ 1, 1, { 2, 3 } }])
      assert.is_false(flame.allclose(mha(x, { attn_mask = ahead })[{ {}, 3 }], both[{ {}, 3 }]))
    end
  end)
end)

describe("attention with more keys", function()
  it("attends to zeros, and to a learnt key", function()
    flame.seed(3)
    local zero = nn.MultiheadAttention(4, 2, { add_zero_attn = true, batch_first = true })
    local x = flame.randn(1, 3, 4)
    local y, w = zero(x)
    assert.same({ 1, 3, 4 }, w.shape)
    eq(flame.ones(1, 3):totable(), w:sum(-1))
    local learnt = nn.MultiheadAttention(4, 2, { add_bias_kv = true, batch_first = true })
    assert.same({ 1, 1, 4 }, learnt.bias_k.shape)
    local mask = flame.ones({ 3, 3 }, { dtype = "bool" })
    -- the mask hides all keys except the learnt one, which comes last
    y, w = learnt(x, x, x, { attn_mask = mask })
    eq({ { { 0, 0, 0, 1 }, { 0, 0, 0, 1 }, { 0, 0, 0, 1 } } }, w)
    eq(flame.linear(learnt.bias_v:reshape(4), learnt.out_proj.weight,
      learnt.out_proj.bias):totable(), y[{ 1, 2 }])
  end)
end)

describe("noise and lookups", function()
  it("AlphaDropout keeps mean and variance", function()
    flame.seed(4)
    local x = flame.randn(200000)
    local y = nn.AlphaDropout(0.3)(x)
    assert.is_true(math.abs(y:mean():item()) < 0.02)
    assert.is_true(math.abs(y:std():item() - 1) < 0.02)
    assert.same(x:totable(), nn.AlphaDropout(0.3):eval()(x):totable())
    local z = nn.FeatureAlphaDropout(0.5)(flame.zeros(8, 8, 3))
    eq(z[{ {}, {}, 1 }]:totable(), z[{ {}, {}, 3 }])
  end)
  it("RReLU draws slopes while training alone", function()
    local m, x = nn.RReLU(0.1, 0.3), flame.full({ 100 }, -1)
    local y = m(x)
    assert.is_true(y:amin():item() >= -0.3 and y:amax():item() <= -0.1 and y:std():item() > 0.01)
    eq(-0.2, m:eval()(x)[1])
  end)
  it("Embedding and EmbeddingBag take the options of the functions", function()
    local e = nn.Embedding(3, 2, { padding_idx = -1, max_norm = 1 })
    eq({ 0, 0 }, e.weight[3])
    assert.is_true(e(ids { 1, 2 }):norm(2, 2):amax():item() <= 1.0001)
    local bag = nn.EmbeddingBag(3, 2, { mode = "sum" })
    eq((bag.weight[1] + bag.weight[2]):totable(), bag(ids { { 1, 2 } })[1])
    eq((bag.weight[2] * 3):totable(), bag(ids { 2 }, ids { 1 }, T { 3 })[1])
  end)
  it("Upsampling modules fix the mode", function()
    local x = T { { { { 1, 3 } } } }
    eq({ { { { 1, 1, 3, 3 }, { 1, 1, 3, 3 } } } }, nn.UpsamplingNearest2d({ scale_factor = 2 })(x))
    eq({ { { { 1, 2, 3 } } } }, nn.UpsamplingBilinear2d({ size = { 1, 3 } })(x))
  end)
  it("losses have modules", function()
    local x, y = T { { 0.1, 0.9 } }, ids { 2 }
    eq(flame.multi_margin_loss(x, y):item(), nn.MultiMarginLoss()(x, y))
    eq(flame.multilabel_margin_loss(x, ids { { 1, 0 } }):item(),
      nn.MultiLabelMarginLoss()(x, ids { { 1, 0 } }))
    eq(flame.multilabel_soft_margin_loss(x, x):item(), nn.MultiLabelSoftMarginLoss()(x, x))
    eq(flame.ctc_loss(x:unsqueeze(1):log_softmax(3), ids { 2 }, { 1 }, { 1 }):item(),
      nn.CTCLoss()(x:unsqueeze(1):log_softmax(3), ids { 2 }, { 1 }, { 1 }))
    eq(1.5, nn.TripletMarginWithDistanceLoss({ margin = 1.5 })(x, x, x))
    eq(flame.triplet_margin_loss(x, x * 2, x * 3, { swap = true }):item(),
      nn.TripletMarginLoss({ swap = true })(x, x * 2, x * 3))
  end)
  it("InstanceNorm counts no batches", function()
    local m = nn.InstanceNorm1d(2, { track_running_stats = true })
    m(flame.randn(2, 2, 3))
    assert.equal(0, m.num_batches_tracked:item())
  end)
end)

describe("ASGD and schedules", function()
  it("ASGD averages behind t0", function()
    local p = T({ 1 }, { dtype = "f64" }):requires_grad_(true)
    local opt = optim.ASGD({ p }, { lr = 0.1, lambd = 0, t0 = 1 })
    local path = {}
    for i = 1, 4 do
      p.grad = nil
      p:sum():backward()
      opt:step()
      path[i] = p:item()
    end
    eq({ 0.9, 0.8, 0.7, 0.6 }, T(path))
  end)
  local function rates(make, n)
    local opt = optim.SGD({ T({ 1 }):requires_grad_(true) }, { lr = 1, momentum = 0.5 })
    local plan, out, momentum = make(opt), {}, {}
    for i = 1, n do
      out[i], momentum[i] = opt.lr, opt.groups[1].momentum
      plan:step()
    end
    return T(out), T(momentum)
  end
  local lr = optim.lr_scheduler
  it("CosineAnnealingLR takes torch's names and rises again", function()
    eq({ 1, 0.55, 0.1, 0.55, 1 },
      (rates(function(o) return lr.CosineAnnealingLR(o, { T_max = 2, eta_min = 0.1 }) end, 5)))
    eq({ 1, 0.5, 0 }, (rates(function(o) return lr.CosineAnnealingLR(o, 2) end, 3)))
  end)
  it("LambdaLR and MultiplicativeLR", function()
    eq({ 1, 0.5, 0.25 },
      (rates(function(o) return lr.LambdaLR(o, { lr_lambda = function(k) return 0.5 ^ k end }) end,
        3)))
    eq({ 1, 0.5, 1 / 6 },
      (rates(function(o) return lr.MultiplicativeLR(o, function(k) return 1 / (k + 1) end) end, 3)))
    eq({ 1, 0.5 },
      (rates(function(o)
        return optim.schedule.multiplicative { opt = o, f = function() return 0.5 end }
      end, 2)))
  end)
  it("CyclicLR moves the momentum the other way unless told not to", function()
    local v, m = rates(function(o)
      return lr.CyclicLR(o, 0, 1, { step_size_up = 2, base_momentum = 0.6, max_momentum = 0.8 })
    end, 5)
    eq({ 0, 0.5, 1, 0.5, 0 }, v)
    eq({ 0.8, 0.7, 0.6, 0.7, 0.8 }, m)
    local _, n = rates(function(o)
      return lr.CyclicLR(o, 0, 1, { step_size_up = 2, cycle_momentum = false })
    end, 2)
    eq({ 0.5, 0.5 }, n)
  end)
end)
