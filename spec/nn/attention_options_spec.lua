-- The options of CausalSelfAttention, MultiheadAttention and TransformerBlock for key heads, rotary
-- positions and caches: results are those of nn.GroupedQueryAttention with the same weights.
local flame = require "flame"
local nn = require "flame.nn"

local F64 <const> = { dtype = "f64" }
local CLOSE <const> = { rtol = 1e-9, atol = 1e-11 }
local refused = require("spec.support.helper").refused

local SCALED <const> = { type = "llama3", factor = 8, low_freq_factor = 1, high_freq_factor = 4,
  original_max_position_embeddings = 16 }
--- { value of the option 'rotary', the options of GroupedQueryAttention with the same meaning }
local VARIANTS <const> = {
  { nil, { rotary_dim = 0 } }, { true, {} }, { { base = 500 }, { rope_base = 500 } },
  { { dim = 2, interleaved = true }, { rotary_dim = 2, interleaved = true } },
  { { scaling = { type = "linear", factor = 4 } }, { rope_scaling = { type = "linear",
    factor = 4 } } },
  { { scaling = SCALED }, { rope_scaling = SCALED } },
}

--- A GroupedQueryAttention with the weights w, b of a packed projection and those of a layer, out.
local function grouped(w, b, out, heads, kv, options)
  local o = { dtype = "f64", bias = b ~= nil, out_bias = b ~= nil }
  for key, v in pairs(options) do o[key] = v end
  local d = w:size(2)
  local size = d // heads
  local m = nn.GroupedQueryAttention(d, heads, kv, o)
  local at = 1
  for _, part in ipairs { { m.q_proj, d }, { m.k_proj, kv * size }, { m.v_proj, kv * size } } do
    local state = { weight = w:narrow(1, at, part[2]), bias = b and b:narrow(1, at, part[2]) }
    part[1]:load_state_dict(state)
    at = at + part[2]
  end
  m.o_proj:load_state_dict(out:state_dict())
  return m
end

--- The result of f(x), and the gradient of x for the cotangent g.
local function both(f, x, g)
  x = x:detach():clone():requires_grad_(true)
  local y = f(x)
  y:backward(g)
  return y, x.grad
end
local function agree(f, other, x)
  local g = flame.randn(x.shape, F64)
  local y, dx = both(f, x, g)
  local want, dwant = both(other, x, g)
  assert.allclose(want, y, CLOSE)
  assert.allclose(dwant, dx, CLOSE)
end

describe("options of attention", function()
  before_each(function() flame.seed(11) end)

  it("make CausalSelfAttention grouped and rotary", function()
    for _, kv in ipairs { 4, 2, 1 } do
      for _, variant in ipairs(VARIANTS) do
        local m =
          nn.CausalSelfAttention(16, 4, { num_kv_heads = kv, rotary = variant[1] }):to("f64")
        agree(m, grouped(m.qkv.weight, m.qkv.bias, m.proj, 4, kv, variant[2]),
          flame.randn({ 2, 5, 16 }, F64))
      end
    end
  end)

  it("make MultiheadAttention grouped and rotary, with its weights and without", function()
    for _, kv in ipairs { 4, 2, 1 } do
      for _, variant in ipairs(VARIANTS) do
        for _, need_weights in ipairs { false, true } do
          for _, causal in ipairs { false, true } do
            local m = nn.MultiheadAttention(16, 4, { batch_first = true, dtype = "f64",
              num_kv_heads = kv, rotary = variant[1] })
            local o = { causal = causal }
            for key, v in pairs(variant[2]) do o[key] = v end
            agree(function(x)
              return (m(x, { is_causal = causal, need_weights = need_weights }))
            end, grouped(m.in_proj_weight, m.in_proj_bias, m.out_proj, 4, kv, o),
              flame.randn({ 2, 5, 16 }, F64))
          end
        end
      end
    end
  end)

  it("have gradients that differences agree with", function()
    local x = flame.randn({ 1, 3, 8 }, F64)
    for _, m in ipairs {
      nn.CausalSelfAttention(8, 2, { num_kv_heads = 1, rotary = true }),
      nn.TransformerBlock(8, 2,
        { num_kv_heads = 1, rotary = { interleaved = true }, causal = true }),
    } do
      m = m:to("f64")
      for _, w in ipairs(m:parameters()) do
        m:zero_grad()
        local loss = m(x):square():sum()
        loss:backward()
        local direction = flame.randn(w.shape, F64)
        local slope = (w.grad * direction):sum():item()
        local function moved(h)
          return flame.no_grad(function()
            w:add_(direction * h)
            local v = m(x):square():sum():item()
            w:sub_(direction * h)
            return v
          end)
        end
        local want = (moved(1e-5) - moved(-1e-5)) / 2e-5
        assert.is_true(math.abs(slope - want) <= 1e-6 * math.max(1, math.abs(want)),
          ("%g by the rule, %g by differences"):format(slope, want))
      end
    end
  end)

  it("take other sizes of keys and values, and separate rows", function()
    local m = nn.MultiheadAttention(8, 4, { kdim = 6, vdim = 5, num_kv_heads = 2, dtype = "f64",
      batch_first = true, add_bias_kv = true, add_zero_attn = true })
    assert.same({ 4, 6 }, { m.k_proj_weight:size(1), m.k_proj_weight:size(2) })
    assert.same({ 1, 1, 4 }, { m.bias_k:size(1), m.bias_k:size(2), m.bias_k:size(3) })
    local q, k, v = flame.randn({ 2, 3, 8 }, F64), flame.randn({ 2, 4, 6 }, F64),
      flame.randn({ 2, 4, 5 }, F64)
    local slow, weights = m(q, k, v)
    assert.same({ 2, 3, 6 }, { weights:size(1), weights:size(2), weights:size(3) })
    assert.allclose(slow, (m(q, k, v, { need_weights = false })), CLOSE)
  end)

  it("leave names, shapes and values of modules without them as they were", function()
    local function names(m)
      local out = {}
      for name, w in pairs(m:state_dict()) do out[name] = table.concat(w.shape, ",") end
      return out
    end
    assert.same({ ["qkv.weight"] = "24,8", ["qkv.bias"] = "24", ["proj.weight"] = "8,8",
      ["proj.bias"] = "8" }, names(nn.CausalSelfAttention(8, 2)))
    assert.same({ in_proj_weight = "24,8", in_proj_bias = "24", ["out_proj.weight"] = "8,8",
      ["out_proj.bias"] = "8" }, names(nn.MultiheadAttention(8, 2)))
    local x = flame.randn(2, 5, 8)
    local a, b = nn.CausalSelfAttention(8, 2), nn.CausalSelfAttention(8, 2, { num_kv_heads = 2 })
    b:load_state_dict(a:state_dict())
    assert.is_true(flame.equal(a(x), b(x)))
  end)
end)

describe("a cache", function()
  local function steps(t, m, x, pieces, more)
    local cache, parts, at = m:cache(x:size(1), t), {}, 1
    for k, n in ipairs(pieces) do
      local o = { cache = cache }
      for key, v in pairs(more) do o[key] = v end
      -- a cache by position, without options
      if nn.is(m, nn.CausalSelfAttention) then o = cache end
      parts[k] = (m(x:narrow(2, at, n), o))
      at = at + n
    end
    return flame.cat(parts, 2), cache
  end

  it("of each writes token by token as all at once", function()
    for _, variant in ipairs(VARIANTS) do
      for _, kv in ipairs { 4, 2 } do
        local o = { num_kv_heads = kv, rotary = variant[1], batch_first = true, causal = true,
          dtype = "f64" }
        local function with(...)
          local own = {}
          for _, name in ipairs { "num_kv_heads", "rotary", ... } do own[name] = o[name] end
          return own
        end
        local x = flame.randn({ 2, 7, 16 }, F64)
        for _, case in ipairs {
          { nn.CausalSelfAttention(16, 4, with()), {}, {} },
          { nn.TransformerBlock(16, 4, with "causal"), {}, {} },
          { nn.MultiheadAttention(16, 4, with "batch_first"), { is_causal = true }, {} },
          { nn.MultiheadAttention(16, 4, with "batch_first"),
            { is_causal = true, need_weights = false } },
        } do
          local m = case[1]:to("f64"):eval()
          for _, pieces in ipairs { { 7 }, { 1, 1, 5 }, { 4, 1, 1, 1 } } do
            local y, cache = steps(9, m, x, pieces, case[2])
            assert.allclose((m(x, next(case[2]) and case[2])), y, CLOSE)
            assert.equal(7, cache.seen)
            assert.equal(kv, cache.k:size(2))
          end
        end
      end
    end
  end)

  it("take a cache by its place and by its name", function()
    local m, x = nn.CausalSelfAttention(8, 2), flame.randn(1, 3, 8)
    local placed, named = m:cache(1, 4), m:cache(1, 4)
    assert.same(m(x, placed):totable(), m(x, { cache = named }):totable())
    assert.same({ 3, 3 }, { placed.seen, named.seen })
  end)

  it("hides what a mask of its length hides, and what is not written", function()
    local m = nn.MultiheadAttention(8, 2, { batch_first = true, dtype = "f64", rotary = true })
    local x = flame.randn({ 2, 4, 8 }, F64)
    local hidden = flame.zeros({ 2, 6 }, { dtype = "bool" })
    hidden[{ 2, 1 }] = true
    for _, need_weights in ipairs { false, true } do
      local o = { is_causal = true, need_weights = need_weights, key_padding_mask = hidden }
      local y = steps(6, m, x, { 3, 1 }, o)
      o.key_padding_mask = hidden:narrow(2, 1, 4)
      -- position 1 is not compared, since it sees no key in row 2 of the batch
      assert.allclose((m(x, o)):narrow(2, 2, 3), y:narrow(2, 2, 3), CLOSE)
      local free = { need_weights = need_weights }
      assert.allclose((m(x, free)), (steps(6, m, x, { 4 }, free)), CLOSE)
    end
  end)
end)

describe("what does not fit the options of attention", function()
  it("is told", function()
    local function causal(o) return nn.CausalSelfAttention(16, 4, o) end
    refused("CausalSelfAttention: 4 heads do not share 3 heads of keys alike", causal,
      { num_kv_heads = 3 })
    refused("num_kv_heads is 0, need a positive integer", causal, { num_kv_heads = 0 })
    refused("rotary_dim is 3, need an even number from 0 to 4, the size of a head", causal,
      { rotary = { dim = 3 } })
    refused("rotary.dim must be an integer", causal, { rotary = { dim = 2.5 } })
    refused("rotary.base is x, need a number above 0", causal, { rotary = { base = "x" } })
    refused("no option 'rotary.bases'", causal, { rotary = { bases = 1 } })
    refused("rope_scaling is of type yarn", causal, { rotary = { scaling = { type = "yarn" } } })
    refused("rotary must be ", causal, { rotary = 3 })
    local m = nn.MultiheadAttention(8, 2, { batch_first = true, num_kv_heads = 1 })
    local x = flame.randn(1, 3, 8)
    refused("3 positions after 0 do not fit a cache of 2; make a longer one", m, x,
      { cache = m:cache(1, 2) })
    refused("x has batch 1, heads 1, size 4, the cache (2, 1, 4)", m, x, { cache = m:cache(2, 4) })
    refused("cache must be a KeyCache, got table", m, x, { cache = {} })
    refused("3 queries and 2 keys, with a cache need as many", m, x, flame.randn(1, 2, 8),
      { cache = m:cache(1, 4) })
    local rows = nn.MultiheadAttention(8, 2, { batch_first = true, add_zero_attn = true })
    refused("a cache is not for add_bias_kv and add_zero_attn", rows, x,
      { cache = rows:cache(1, 4) })
    refused("length is 0", m.cache, m, 1, 0)
    local own = nn.CausalSelfAttention(8, 2)
    refused("3 positions after 0 do not fit a cache of 2", own, x, { cache = own:cache(1, 2) })
    refused("cache must come from its cache(batch, length)", own, x, { cache = {} })
  end)
end)
