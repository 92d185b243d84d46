-- nn.GroupedQueryAttention with rotary positions, masks and caches, compared with its definition.
local flame = require "flame"
local nn = require "flame.nn"

local F64 <const> = { dtype = "f64" }
local CLOSE <const> = { rtol = 1e-9, atol = 1e-11 }
local refused = require("spec.support.helper").raises

--- Rotary positions: turns pair i of the features of x (…, t, d) at position p by p * rate(i).
local function turn(x, rate, interleaved, first)
  local d, rows = x:size(-1), {}
  for p = 1, x:size(-2) do
    local row, out = x:select(-2, p), {}
    for i = 0, d // 2 - 1 do
      local a, b = i + 1, i + 1 + d // 2
      if interleaved then a, b = 2 * i + 1, 2 * i + 2 end
      local angle = (p - 1 + (first or 0)) * rate(i)
      local u, w = row:select(-1, a), row:select(-1, b)
      out[a] = u * math.cos(angle) - w * math.sin(angle)
      out[b] = w * math.cos(angle) + u * math.sin(angle)
    end
    rows[p] = flame.stack(out, -1)
  end
  return flame.stack(rows, -2)
end
--- The module by its definition.
local function defined(m, x, rate, mask)
  local b, t, groups = x:size(1), x:size(2), m.num_heads // m.num_kv_heads
  local function heads(layer, n) return layer(x):reshape(b, t, n, m.head_dim):transpose(2, 3) end
  local q, k, v = heads(m.q_proj, m.num_heads), heads(m.k_proj, m.num_kv_heads),
    heads(m.v_proj, m.num_kv_heads)
  if m.q_norm then q, k = m.q_norm(q), m.k_norm(k) end
  if rate then q, k = turn(q, rate, m.interleaved), turn(k, rate, m.interleaved) end
  k, v = k:repeat_interleave(groups, 2), v:repeat_interleave(groups, 2)
  local scores = q:matmul(k:transpose(-2, -1)) / math.sqrt(m.head_dim)
  if m.causal then
    scores = scores:masked_fill(flame.ones(t, t, { dtype = "bool" }):triu(1), -math.huge)
  end
  if mask then scores = scores + mask end
  return m.o_proj(scores:softmax(-1):matmul(v):transpose(2, 3):reshape(b, t, -1))
end

describe("grouped-query attention", function()
  local function usual(i) return 10000 ^ (-2 * i / 4) end
  for title, o in pairs {
    ["by its definition"] = {}, ["without an order"] = { causal = false },
    ["with biases and norms"] = { bias = true, out_bias = true, qk_norm = true },
    ["of neighbours"] = { interleaved = true }, ["without positions"] = { rotary_dim = 0 },
  } do
    it("is " .. title, function()
      o.dtype = "f64"
      local m = nn.GroupedQueryAttention(16, 4, 2, o)
      local x = flame.randn({ 2, 5, 16 }, F64)
      assert.allclose(defined(m, x, o.rotary_dim ~= 0 and usual), m(x), CLOSE)
      m(x):square():sum():backward()
      for name, p in m:named_parameters() do assert.truthy(p.grad, name) end
    end)
  end
  it("takes heads of any size, all heads or one of keys, and part of the features", function()
    local x = flame.randn({ 1, 3, 6 }, F64)
    for _, kv in ipairs { 1, 3 } do
      local m = nn.GroupedQueryAttention(6, 3, kv, { head_dim = 4, dtype = "f64" })
      assert.same({ 12, 6 }, m.q_proj.weight.shape)
      assert.same({ 4 * kv, 6 }, m.k_proj.weight.shape)
      assert.allclose(defined(m, x, usual), m(x), CLOSE)
    end
    local m = nn.GroupedQueryAttention(6, 3, { head_dim = 4, rotary_dim = 2, dtype = "f64" })
    local q = m.q_proj(x):reshape(1, 3, 3, 4):transpose(2, 3)
    local whole = flame.cat({ turn(q:narrow(-1, 1, 2), function() return 1 end), q:narrow(-1, 3,
      2) }, -1)
    local k = m.k_proj(x):reshape(1, 3, 3, 4):transpose(2, 3)
    k = flame.cat({ turn(k:narrow(-1, 1, 2), function() return 1 end), k:narrow(-1, 3, 2) }, -1)
    local v = m.v_proj(x):reshape(1, 3, 3, 4):transpose(2, 3)
    local y = flame.scaled_dot_product_attention(whole, k, v, { is_causal = true })
    assert.allclose(m.o_proj(y:transpose(2, 3):reshape(1, 3, 12)), m(x), CLOSE)
  end)
  it("scales its frequencies as asked", function()
    local x = flame.randn({ 1, 6, 8 }, F64)
    local m = nn.GroupedQueryAttention(8, 2, { rope_base = 500, dtype = "f64",
      rope_scaling = { type = "linear", factor = 4 } })
    assert.allclose(defined(m, x, function(i) return 500 ^ (-2 * i / 4) / 4 end), m(x), CLOSE)
    m = nn.GroupedQueryAttention(16, 2, { rope_base = 100, dtype = "f64", rope_scaling = {
      rope_type = "llama3", factor = 8, low_freq_factor = 1, high_freq_factor = 4,
      original_max_position_embeddings = 64 } })
    -- wavelengths 2 pi 100^(i / 4): 6.3, 19.9, 62.8, 198.7; those between 16 and 64 are
    -- interpolated
    local function rate(i)
      local own = 100 ^ (-i / 4)
      local wave = 2 * math.pi / own
      if wave < 64 / 4 then return own end
      if wave > 64 then return own / 8 end
      local smooth = (64 / wave - 1) / (4 - 1)
      return (1 - smooth) * own / 8 + smooth * own
    end
    x = flame.randn({ 1, 6, 16 }, F64)
    assert.allclose(defined(m, x, rate), m(x), CLOSE)
  end)
  it("takes masks beside its order", function()
    local m = nn.GroupedQueryAttention(8, 4, 2, { dtype = "f64" })
    local x = flame.randn({ 2, 4, 8 }, F64)
    local seen = flame.tensor { { true, true, true, true }, { true, false, true, true } }
      :reshape(2, 1, 1, 4)
    local added = flame.zeros({ 2, 1, 1, 4 }, F64):masked_fill(seen:logical_not(), -math.huge)
    local want = defined(m, x, function(i) return 10000 ^ (-2 * i / 2) end, added)
    assert.allclose(want, m(x, seen), CLOSE)
    assert.allclose(want, m(x, { attn_mask = added }), CLOSE)
  end)
  it("writes token by token as all at once", function()
    for _, o in ipairs { {}, { qk_norm = true, interleaved = true }, { rotary_dim = 0 } } do
      o.dtype = "f64"
      local m = nn.GroupedQueryAttention(16, 4, 2, o):eval()
      local x = flame.randn({ 2, 7, 16 }, F64)
      local whole, cache, parts = m(x), m:cache(2, 9), {}
      assert.same({ 2, 2, 9, 4 }, cache.k.shape)
      local at = 1
      for _, n in ipairs { 3, 1, 1, 2 } do
        parts[#parts + 1] = m(x:narrow(2, at, n), { cache = cache })
        at = at + n
      end
      assert.equal(7, cache.seen)
      assert.allclose(whole, flame.cat(parts, 2), CLOSE)
    end
    -- a mask over all positions of the cache: the first token of sequence 2 is padding
    local m = nn.GroupedQueryAttention(8, 2, 1, { dtype = "f64" })
    local x, cache = flame.randn({ 2, 4, 8 }, F64), m:cache(2, 5)
    local seen = flame.ones({ 2, 1, 1, 5 }, { dtype = "bool" })
    seen[{ 2, 1, 1, 1 }] = false
    local whole = m(x, seen:narrow(-1, 1, 4))
    local first = m(x:narrow(2, 1, 3), seen, cache)
    local last = m(x:narrow(2, 4, 1), seen, cache)
    assert.allclose(whole[{ {}, { 2, 4 } }], flame.cat({ first, last }, 2)[{ {}, { 2, 4 } }], CLOSE)
  end)
  it("drops weights while training, and takes adapters", function()
    local m = nn.GroupedQueryAttention(8, 2, { dropout = 0.5 })
    local x = flame.randn(1, 6, 8)
    assert.is_false(flame.equal(m(x), m(x)))
    m:eval()
    assert.is_true(flame.equal(m(x), m(x)))
    assert.same({ "q_proj", "v_proj" }, nn.lora.attach(m, { targets = { "q_proj", "v_proj" } }))
    assert.equal("GroupedQueryAttention(\n  2 heads of 4, 2 of keys, rotary",
      tostring(m):match "^(.-)\n  %(")
  end)
  it("tells what does not fit", function()
    local new = nn.GroupedQueryAttention
    refused("10 features do not split into 4 heads", new, 10, 4)
    refused("4 heads do not share 3 heads of keys alike", new, 8, 4, 3)
    refused("num_heads is 0, need a positive integer", new, 8, 0)
    refused("rotary_dim is 3, need an even number from 0 to 4, the size of a head", new, 8, 2,
      { rotary_dim = 3 })
    refused("rotary_dim is 3", new, 6, 2)
    refused('rope_scaling is of type yarn, need {type = "linear", …}', new, 8, 2,
      { rope_scaling = { type = "yarn" } })
    refused("rope_scaling.factor is nil, need a number above 0", new, 8, 2,
      { rope_scaling = { type = "linear" } })
    refused("no option 'facotr'", new, 8, 2, { rope_scaling = { type = "linear", facotr = 2 } })
    refused("no option 'num_kv_head'", new, 8, 2, { num_kv_head = 1 })
    local m = new(8, 2)
    refused("x has 2 axes, need 3 (batch, time, features)", m, flame.ones(3, 8))
    refused("cache must be a KeyCache, got number", m, flame.ones(1, 3, 8),
      nil, 3)
    refused("3 positions after 0 do not fit a cache of 2; make a longer one", m, flame.ones(1, 3,
      8),
      { cache = m:cache(1, 2) })
    refused("make one for this batch", m, flame.ones(1, 3, 8), { cache = m:cache(2, 4) })
    refused("length is 0", m.cache, m, 1, 0)
  end)
end)
