--- Grouped-query attention with rotary positions and a cache: the attention of Llama, Mistral,
-- Qwen.
-- Given the table of flame.nn, adds to it.
local flame = require "flame"

return function(nn, shared)
  local fail, class, call, put, positive = shared.raise, shared.class, shared.call, shared.put,
    shared.count
  local GQA <const> = "GroupedQueryAttention"

  -- ---- rotary positions -------------------------------------------------------------------------
  local SCALINGS = {
    linear = { factor = true },
    llama3 = { factor = true, low_freq_factor = true, high_freq_factor = true,
      original_max_position_embeddings = true },
  }
  --- The scaling of rotary frequencies: {type = "linear", factor =} or "llama3" with its four.
  local function need_scaling(o)
    if o == nil then return nil end
    local kind = type(o) == "table" and (o.rope_type or o.type)
    local names = SCALINGS[kind]
    if not names then
      fail(GQA, 'rope_scaling is %s, need {type = "linear", …} or {type = "llama3", …}',
        type(o) == "table" and "of type " .. tostring(kind) or flame.internal.word(o))
    end
    local own = { type = kind }
    for key, v in pairs(o) do
      if key ~= "type" and key ~= "rope_type" and not names[key] then
        flame.internal.no_option(GQA, key, names)
      end
      own[key] = v
    end
    for key in pairs(names) do
      if type(own[key]) ~= "number" or not (own[key] > 0) then
        fail(GQA, "rope_scaling.%s is %s, need a number above 0", key, tostring(own[key]))
      end
    end
    return own
  end

  --- How far each pair of features turns per position, as numbers.
  local function rates_of(d, base, scaling)
    local list = {}
    for i = 0, d // 2 - 1 do
      local rate = base ^ (-2 * i / d)
      if scaling and scaling.type == "linear" then rate = rate / scaling.factor
      elseif scaling then
        local wave = 2 * math.pi / rate                  -- positions of a full turn
        local turns = scaling.original_max_position_embeddings / wave
        local low, high = scaling.low_freq_factor, scaling.high_freq_factor
        -- slow ones are divided by the factor, fast ones stay, those between are mixed
        local share = math.max(0, math.min(1, (turns - low) / (high - low)))
        rate = rate * (share + (1 - share) / scaling.factor)
      end
      list[i + 1] = rate
    end
    return list
  end

  --- x (batch, heads, time, size) turned by the positions at (time), of which the first features.
  local function turned(self, x, at)
    local d = self.rotary_dim
    local rates = flame.tensor(self.rates, { dtype = "f64", device = x.device })
    local angle = at:double():unsqueeze(2) * rates:unsqueeze(1)
    angle = self.interleaved and angle:repeat_interleave(2, 2) or flame.cat({ angle, angle }, 2)
    local dtype = (x.dtype == "f16" or x.dtype == "bf16") and "f32" or x.dtype
    local o = { interleaved = self.interleaved }
    local cos, sin = angle:cos():to(dtype), angle:sin():to(dtype)
    if d == x:size(-1) then return x:rotary(cos, sin, o) end
    return flame.cat({ x:narrow(-1, 1, d):rotary(cos, sin, o),
      x:narrow(-1, d + 1, x:size(-1) - d) }, -1)
  end

  -- ---- the module -------------------------------------------------------------------------------
  local function check_sizes(d, heads, kv_heads, head_dim, rotary_dim)
    positive(GQA, "embed_dim", d)
    positive(GQA, "num_heads", heads)
    positive(GQA, "num_kv_heads", kv_heads)
    positive(GQA, "head_dim", head_dim)
    if heads % kv_heads ~= 0 then
      fail(GQA, "%d heads do not share %d heads of keys alike", heads, kv_heads)
    end
    if rotary_dim < 0 or rotary_dim > head_dim or rotary_dim % 2 ~= 0 then
      fail(GQA, "rotary_dim is %d, need an even number from 0 to %d, the size of a head", rotary_dim,
        head_dim)
    end
  end

  --- Attention over (batch, time, embed_dim) in which groups of num_heads / num_kv_heads heads read
  --- the same keys and values; positions turn queries and keys (rotary; the first rotary_dim
  --- features of a head, 0: none). q_proj, k_proj, v_proj and o_proj are linear layers; qk_norm:
  --- RMS norms of queries and keys, q_norm and k_norm. rope_scaling = {type = "linear", factor =},
  --- or "llama3". attention(x, {attn_mask: true takes part, or floats that are added; cache = of
  --- its method}).
  class([[nn.GroupedQueryAttention(embed_dim: int, num_heads: int, num_kv_heads?: int, *,
    head_dim?: int, causal = true, bias = false, out_bias = false, dropout = 0, qk_norm = false,
    rotary_dim?: int, rope_base = 10000, rope_scaling?: any, interleaved = false, eps = 1e-6,
    device?: device, dtype?: dtype)]],
    function(self, d, heads, kv_heads, head_dim, causal, bias, out_bias, dropout, qk_norm,
      rotary_dim,
      rope_base, rope_scaling, interleaved, eps, device, dtype)
      if heads < 1 then positive(GQA, "num_heads", heads) end
      if not head_dim and d % heads ~= 0 then
        fail(GQA, "%d features do not split into %d heads", d, heads)
      end
      kv_heads, head_dim = kv_heads or heads, head_dim or d // heads
      rotary_dim = rotary_dim or head_dim
      check_sizes(d, heads, kv_heads, head_dim, rotary_dim)
      local as = { bias = bias, device = device, dtype = dtype }
      self.num_heads, self.num_kv_heads, self.head_dim = heads, kv_heads, head_dim
      self.causal, self.dropout, self.interleaved = causal, nn.Dropout(dropout).p, interleaved
      self.q_proj = nn.Linear(d, heads * head_dim, as)
      self.k_proj = nn.Linear(d, kv_heads * head_dim, as)
      self.v_proj = nn.Linear(d, kv_heads * head_dim, as)
      self.o_proj = nn.Linear(heads * head_dim, d, { bias = out_bias, device = device,
        dtype = dtype })
      if qk_norm then
        self.q_norm = nn.RMSNorm(head_dim, { eps = eps, device = device, dtype = dtype })
        self.k_norm = nn.RMSNorm(head_dim, { eps = eps, device = device, dtype = dtype })
      end
      self.rotary_dim = rotary_dim
      self.rates = rates_of(rotary_dim, rope_base, need_scaling(rope_scaling))
    end)

  local Cache = { __name = "KeyCache" }                  -- of k, v, seen, length
  --- Room for the keys and values of up to 'length' positions of a batch, which is written token by
  --- token: for forward, which counts them in 'seen'. Nothing is differentiated through it.
  put(nn.GroupedQueryAttention, "GroupedQueryAttention:cache(batch: int, length: int) -> KeyCache",
    function(self, batch, length)
      positive("GroupedQueryAttention:cache", "batch", batch)
      positive("GroupedQueryAttention:cache", "length", length)
      local w = self.k_proj.weight
      local function rows()
        return flame.zeros({ batch, self.num_kv_heads, length, self.head_dim },
          { dtype = w.dtype, device = w.device })
      end
      return setmetatable({ k = rows(), v = rows(), seen = 0, length = length }, Cache)
    end)

  local function check_cache(self, cache, b, t)
    local of = cache.k.shape
    if of[1] ~= b or of[2] ~= self.num_kv_heads or of[4] ~= self.head_dim then
      fail(GQA, "x has batch %d, heads %d, size %d, the cache (%d, %d, %d); make one for this batch", b,
        self.num_kv_heads, self.head_dim, of[1], of[2], of[4])
    end
    if cache.seen + t > cache.length then
      fail(GQA, "%d positions after %d do not fit a cache of %d; make a longer one", t, cache.seen,
        cache.length)
    end
  end
  --- Keys and values after those that the cache has; the positions not yet written are masked.
  local function remember(cache, k, v, at)
    cache.k:index_copy_(3, at, k:detach():to(cache.k.dtype))
    cache.v:index_copy_(3, at, v:detach():to(cache.v.dtype))
    cache.seen = cache.seen + #at
    return cache.k:to(k.dtype), cache.v:to(v.dtype)
  end
  --- The mask given and the one of the order, which a cache needs as well.
  local function mask_of(self, mask, cache, at)
    if not cache then return mask, self.causal and not mask, self.causal and mask and #at or nil end
    return mask, false, cache.length
  end

  call(nn.GroupedQueryAttention, "(x: T, attn_mask?: T, cache?: KeyCache) -> T",
    function(self, x, attn_mask, cache)
      if x.ndim ~= 3 then
        fail(GQA, "x has %d axes, need 3 (batch, time, features)", x.ndim)
      end
      local b, t = x:size(1), x:size(2)
      if cache then check_cache(self, cache, b, t) end
      local function heads(y, n) return y:reshape(b, t, n, self.head_dim):transpose(2, 3) end
      local q = heads(self.q_proj(x), self.num_heads)
      local k = heads(self.k_proj(x), self.num_kv_heads)
      local v = heads(self.v_proj(x), self.num_kv_heads)
      if self.q_norm then q, k = self.q_norm(q), self.k_norm(k) end
      local seen = cache and cache.seen or 0
      local at = flame.arange(t, { device = x.device }) + seen
      if self.rotary_dim > 0 then q, k = turned(self, q, at - 1), turned(self, k, at - 1) end
      if cache then k, v = remember(cache, k, v, at) end
      local mask, causal, keys = mask_of(self, attn_mask, cache, at)
      if keys then
        local order = flame.arange(keys, { device = x.device }):reshape(1, -1)
          :le((self.causal and at or at[-1]:expand(t)):reshape(t, 1))
        if not mask then mask = order
        elseif mask.dtype == "bool" then mask = mask:logical_and(order)
        else mask = mask:masked_fill(order:logical_not(), -math.huge) end
      end
      local y = flame.scaled_dot_product_attention(q, k, v, { attn_mask = mask, is_causal = causal,
        dropout_p = self.training and self.dropout or 0,
        enable_gqa = self.num_kv_heads ~= self.num_heads })
      return self.o_proj(y:transpose(2, 3):reshape(b, t, self.num_heads * self.head_dim))
    end)
  function nn.GroupedQueryAttention:extra()
    return ("%d heads of %d, %d of keys%s"):format(self.num_heads, self.head_dim, self.num_kv_heads,
      self.rotary_dim > 0 and ", rotary" or "")
  end
end
