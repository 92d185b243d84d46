--- Grouped-query attention with rotary positions and a cache of keys and values: the attention
-- of Llama, Mistral and Qwen. The file returns a function that adds the module to
-- flame.nn.
local flame = require "flame"

return function(nn, shared)
  local fail, class, call, put, positive, keys = shared.raise, shared.class, shared.call,
    shared.put, shared.count, shared.keys
  local GQA <const> = "GroupedQueryAttention"

  -- ---- the module -------------------------------------------------------------------------------
  local function check_sizes(d, heads, kv_heads, head_dim, rotary_dim)
    positive(GQA, "embed_dim", d)
    positive(GQA, "num_heads", heads)
    positive(GQA, "num_kv_heads", kv_heads)
    positive(GQA, "head_dim", head_dim)
    if heads % kv_heads ~= 0 then
      fail(GQA, "%d heads do not share %d heads of keys alike", heads, kv_heads)
    end
    keys.check_turned(GQA, rotary_dim, head_dim)
  end

  --- Attention over (batch, time, embed_dim) in which groups of num_heads / num_kv_heads heads read
  --- the same keys and values; queries and keys are rotated by position (the first rotary_dim
  --- features of a head, by default all). q_proj, k_proj, v_proj and o_proj are linear layers;
  --- qk_norm: RMS norms of queries and keys, q_norm and k_norm. rope_scaling = {type = "linear",
  --- factor =}, or "llama3". attention(x, {attn_mask: true takes part, or floats that are added;
  --- cache: made by its method cache}).
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
      self.rates = keys.rates(rotary_dim, rope_base, keys.scaling(GQA, rope_scaling))
    end)

  --- Memory for the keys and values of up to 'length' positions of a batch that is generated token
  --- by token. Pass it to forward; 'seen' counts the positions in it. No gradient goes through it.
  put(nn.GroupedQueryAttention, "GroupedQueryAttention:cache(batch: int, length: int) -> KeyCache",
    function(self, batch, length)
      return keys.cache("GroupedQueryAttention:cache", self.k_proj.weight, batch, self.num_kv_heads,
        length, self.head_dim)
    end)

  -- Returns mask, is_causal and, if keys.order's mask must be joined with it, the number of keys.
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
      if cache then keys.check(GQA, cache, b, self.num_kv_heads, t, self.head_dim) end
      local function heads(y, n) return y:reshape(b, t, n, self.head_dim):transpose(2, 3) end
      local q = heads(self.q_proj(x), self.num_heads)
      local k = heads(self.k_proj(x), self.num_kv_heads)
      local v = heads(self.v_proj(x), self.num_kv_heads)
      if self.q_norm then q, k = self.q_norm(q), self.k_norm(k) end
      local seen = cache and cache.seen or 0
      local at = flame.arange(t, { device = x.device }) + seen
      q, k = keys.turned(self, q, at), keys.turned(self, k, at)
      if cache then k, v = keys.remember(cache, k, v, at) end
      local mask, causal, count = mask_of(self, attn_mask, cache, at)
      if count then
        local order = keys.order(count, at, self.causal)
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
