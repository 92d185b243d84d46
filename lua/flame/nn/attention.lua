--- Attention and the blocks built on it. The file returns a function that adds them to flame.nn.
local flame = require "flame"
local arguments = require "flame.base.arguments"
local of_rows = require "flame.ops.attention".of_rows

return function(nn, shared)
  local fail, positive, class, call = shared.fail, shared.positive, shared.class, shared.call
  local put, keys = shared.put, shared.keys

  -- Checks the numbers of features and heads; name, heads_name: their names in the declaration.
  local function heads_of(what, d, heads, name, heads_name)
    positive(what, name, d)
    positive(what, heads_name, heads)
    if d % heads ~= 0 then fail("%s: %d features do not split into %d heads", what, d, heads) end
  end

  --- Causal self-attention over (batch, time, size) with 'heads' heads:
  --- softmax(Q K^T / sqrt(size / heads) with the future at -inf) V, then a projection. Groups of
  --- heads / num_kv_heads heads read the same keys and values. rotary = true, or {dim =, base =,
  --- scaling =, interleaved =} as in GroupedQueryAttention: queries and keys are rotated by
  --- position.
  class([[nn.CausalSelfAttention(size: int, heads: int, dropout = 0, bias = true, *,
    num_kv_heads?: int, rotary?: bool|table)]],
    function(self, d, heads, dropout, bias, kv_heads, rotary)
      local op = "CausalSelfAttention"
      heads_of(op, d, heads, "size", "heads")
      self.d, self.heads, self.num_kv_heads = d, heads, keys.heads(op, heads, kv_heads)
      keys.set_rotary(self, op, rotary, d // heads)
      self.qkv = nn.Linear(d, d + 2 * self.num_kv_heads * (d // heads), bias)
      self.proj = nn.Linear(d, d, bias)
      self.drop = nn.Dropout(dropout)
    end)
  --- A cache for a text that is generated token by token: keys and values of up to 'length'
  --- positions, so that each is computed once. Pass it to forward; its field 'seen' counts the
  --- positions in it. No gradient goes through it.
  put(nn.CausalSelfAttention, "CausalSelfAttention:cache(batch: int, length: int) -> KeyCache",
    function(self, batch, length)
      return keys.cache("CausalSelfAttention:cache", self.qkv.weight, batch, self.num_kv_heads,
        length, self.d // self.heads)
    end, "CausalSelfAttention:cache")
  --- x (batch, time, d); cache: from self:cache; its positions come before those of x.
  call(nn.CausalSelfAttention, "(x: T, cache?: table) -> T", function(self, x, cache)
    -- A plain table may be the options, with the cache by name.
    if cache and not getmetatable(cache) and cache.cache ~= nil then cache = cache.cache end
    local b, t, d = x:size(1), x:size(2), self.d
    local h, kv, size = self.heads, self.num_kv_heads, self.d // self.heads
    if cache then keys.check("CausalSelfAttention", cache, b, kv, t, size) end
    local qkv = self.qkv(x):reshape(b, t, h + 2 * kv, size)
    local drop = self.drop.training and self.drop.p or 0
    local whole = not cache and self.rotary_dim == 0 and of_rows(qkv, h, kv, true, drop)
    if whole then return self.proj(whole:reshape(b, t, d)) end
    local function part(from, n) return qkv:narrow(3, from, n):transpose(2, 3) end
    local q, k, v = part(1, h), part(h + 1, kv), part(h + kv + 1, kv)           -- (b, h, t, size)
    local mask
    if cache or self.rotary_dim > 0 then
      local at = flame.arange(t, { device = x.device }) + (cache and cache.seen or 0)
      q, k = keys.turned(self, q, at), keys.turned(self, k, at)
      if cache then
        k, v = keys.remember(cache, k, v, at)
        mask = keys.order(cache.length, at, true)
      end
    end
    local y = flame.scaled_dot_product_attention(q, k, v, { attn_mask = mask, is_causal = not cache,
      dropout_p = drop, enable_gqa = kv ~= h })
    return self.proj(y:transpose(2, 3):reshape(b, t, d))
  end)
  function nn.CausalSelfAttention:extra()
    return self.d .. " features, " .. self.heads .. " heads"
  end

  -- ---- MultiheadAttention -----------------------------------------------------------------------
  --- Attention over (time, batch, d), or (batch, time, d) with batch_first = true, or (time, d);
  --- PyTorch's layout: in_proj_weight (3 d, d), or q_proj_weight, k_proj_weight and v_proj_weight
  --- where keys or values have other sizes (kdim, vdim).
  ---
  --- mha(query, key, value, {key_padding_mask, need_weights = true, attn_mask, average_attn_weights
  --- = true, is_causal}) gives the result and the weights (batch, time, source), nil without
  --- need_weights. In a bool mask true leaves a position out, as in PyTorch's module (and not as in
  --- scaled_dot_product_attention). With query alone it is self-attention; is_causal needs no mask,
  --- and is applied in addition to one.
  ---
  --- num_kv_heads and rotary as in CausalSelfAttention. With a cache, made by its method cache, the
  --- keys of a call are appended to those of earlier calls; masks then cover the cache's length.
  class([[nn.MultiheadAttention(embed_dim: int, num_heads: int, dropout = 0, bias = true,
    add_bias_kv = false, add_zero_attn = false, kdim: int = embed_dim, vdim: int = embed_dim,
    batch_first = false, device?: device, dtype?: dtype, *, num_kv_heads?: int,
    rotary?: bool|table)]], function(self, d, heads, dropout, bias, add_bias_kv, add_zero_attn,
      kdim, vdim, batch_first, device, dtype, kv_heads, rotary)
    local as = { device = device, dtype = dtype }
    heads_of("MultiheadAttention", d, heads, "embed_dim", "num_heads")
    self.embed_dim, self.num_heads, self.dropout = d, heads, dropout
    self.num_kv_heads = keys.heads("MultiheadAttention", heads, kv_heads)
    keys.set_rotary(self, "MultiheadAttention", rotary, d // heads)
    local kv = self.num_kv_heads * (d // heads)            -- features of keys
    self.batch_first, self.add_zero_attn = batch_first, add_zero_attn
    local function weight(rows, columns)
      return nn.Parameter(nn.init.xavier_uniform(flame.empty({ rows, columns }, as)))
    end
    if kdim == d and vdim == d then
      self.in_proj_weight = weight(d + 2 * kv, d)
    else
      self.q_proj_weight = weight(d, d)
      self.k_proj_weight = weight(kv, kdim)
      self.v_proj_weight = weight(kv, vdim)
    end
    if bias then self.in_proj_bias = nn.Parameter(flame.zeros({ d + 2 * kv }, as)) end
    self.out_proj = nn.Linear(d, d, bias, device, dtype)
    if bias then nn.init.zeros(self.out_proj.bias) end
    if add_bias_kv then                                    -- an additional learnt key and value
      local function row()
        return nn.Parameter(nn.init.xavier_normal(flame.empty({ 1, 1, kv }, as)))
      end
      self.bias_k = row()
      self.bias_v = row()
    end
  end)

  local separate = { "q_proj_weight", "k_proj_weight", "v_proj_weight" }
  -- Projects x (batch, time, features) to the queries (i = 1), keys (2) or values (3) of all heads.
  local function project(self, x, i)
    local d, b = self.embed_dim, self.in_proj_bias
    local size = d // self.num_heads
    local h, kv = i == 1 and self.num_heads or self.num_kv_heads, self.num_kv_heads * size
    local first, rows = i == 1 and 1 or d + (i - 2) * kv + 1, h * size
    local w = self.in_proj_weight and self.in_proj_weight:narrow(1, first, rows)
      or self[separate[i]]
    if x:size(3) ~= w:size(2) then
      fail("MultiheadAttention: %s has %d features, need %d", ({ "query", "key", "value" })[i],
        x:size(3), w:size(2))
    end
    local y = flame.linear(x, w, b and b:narrow(1, first, rows))
    return y:reshape(x:size(1), x:size(2), h, size):transpose(2, 3)
  end

  -- The bias of the scores (batch, heads, time, source): float masks, and -inf where a bool mask is
  -- true, in the future if causal, and where the cache has no position yet. nil: no bias.
  local function bias_of(self, o, q, k, extra, causal)
    local out
    local function add(mask, shape, name)
      local n = 1
      arguments.need_tensor("MultiheadAttention", name, mask)
      for _, size in ipairs(shape) do n = n * size end
      if mask:numel() ~= n then
        fail("MultiheadAttention: %s has shape (%s), need %d elements: (%s)", name,
          table.concat(mask.shape, ", "), n,
          table.concat(shape, ", "))
      end
      if mask.dtype == "bool" then
        mask = flame.zeros(mask.shape, { dtype = q.dtype, device = q.device })
          :masked_fill(mask, -math.huge)
      end
      mask = mask:reshape(shape)
      out = out and out + mask or mask
    end
    local b, t, s = q:size(1), q:size(3), k:size(3) - extra
    if o.attn_mask then
      local m = arguments.need_tensor("MultiheadAttention", "attn_mask", o.attn_mask)
      if m.ndim == 2 then add(m, { 1, 1, t, s }, "attn_mask")
      elseif m.ndim == 3 then add(m, { b, self.num_heads, t, s }, "attn_mask")
      else fail("MultiheadAttention: attn_mask has %d axes, need 2 or 3", m.ndim) end
    end
    if o.cache then
      add(keys.order(s, o.at, o.is_causal):logical_not(), { 1, 1, t, s }, "the order of the cache")
    elseif causal then
      add(flame.ones({ t, s }, { dtype = "bool", device = q.device }):triu(1), { 1, 1, t, s },
        "the causal mask")
    end
    if o.key_padding_mask then
      add(o.key_padding_mask, { b, 1, 1, s }, "key_padding_mask")
    end
    return out and extra > 0 and out:pad({ 0, extra }) or out
  end

  -- Appends to keys or values the learnt row (1, 1, features), if any, and zeros if add_zero_attn.
  local function with_rows(self, x, row)
    local h, more = self.num_kv_heads, { x }
    if row then more[2] = row:reshape(1, h, 1, x:size(4)):expand({ x:size(1), h, 1, x:size(4) }) end
    if self.add_zero_attn then more[#more + 1] = x:narrow(3, 1, 1):detach() * 0 end
    return #more > 1 and flame.cat(more, 3) or x
  end

  -- Result (batch, heads, time, size) and, if asked for, the weights (batch, heads, time, source).
  local function attend(self, q, k, v, o)
    local drop, extra = self.training and self.dropout or 0,
      (self.bias_k and 1 or 0) + (self.add_zero_attn and 1 or 0)
    local groups = self.num_heads // self.num_kv_heads
    k, v = with_rows(self, k, self.bias_k), with_rows(self, v, self.bias_v)
    if o.need_weights == false then
      -- the appended rows are seen by all
      local causal = o.is_causal and extra == 0 and not o.cache
      return flame.scaled_dot_product_attention(q, k, v,
        { is_causal = causal or false, dropout_p = drop, enable_gqa = groups > 1,
          attn_mask = bias_of(self, o, q, k, extra, o.is_causal and not causal) })
    end
    if groups > 1 then k, v = k:repeat_interleave(groups, 2), v:repeat_interleave(groups, 2) end
    local scores, bias = (q * q:size(4) ^ -0.5):matmul(k:transpose(-2, -1)),
      bias_of(self, o, q, k, extra, o.is_causal)
    local weights = (bias and scores + bias or scores):softmax(-1)
    if drop > 0 then weights = weights:dropout(drop) end
    return weights:matmul(v), weights
  end

  --- Memory for the keys and values of up to 'length' positions of a batch, for successive calls;
  --- 'seen' counts the positions in it. No gradient goes through it.
  put(nn.MultiheadAttention, "MultiheadAttention:cache(batch: int, length: int) -> KeyCache",
    function(self, batch, length)
      return keys.cache("MultiheadAttention:cache", self.out_proj.weight, batch, self.num_kv_heads,
        length, self.embed_dim // self.num_heads)
    end)

  -- q, k and v after rotary positions; with a cache, k and v include those of earlier calls. Sets
  -- o.at, the positions of q, if there are rotary positions or a cache.
  local function placed(self, o, q, k, v)
    local cache, seen = o.cache, o.cache and o.cache.seen or 0
    if cache then
      if self.bias_k or self.add_zero_attn then
        fail("MultiheadAttention: a cache is not for add_bias_kv and add_zero_attn")
      elseif k:size(3) ~= q:size(3) then
        fail("MultiheadAttention: %d queries and %d keys, with a cache need as many", q:size(3),
          k:size(3))
      end
      keys.check("MultiheadAttention", cache, k:size(1), k:size(2), k:size(3), k:size(4))
    end
    if not cache and self.rotary_dim == 0 then return q, k, v end
    local function at(x) return flame.arange(x:size(3), { device = x.device }) + seen end
    o.at = at(q)
    q, k = keys.turned(self, q, o.at), keys.turned(self, k, at(k))
    if cache then k, v = keys.remember(cache, k, v, o.at) end
    return q, k, v
  end

  call(nn.MultiheadAttention, [[(query: T, key: T = query, value: T = key, key_padding_mask?: T,
    need_weights = true, attn_mask?: T, average_attn_weights = true, is_causal = false,
    cache?: KeyCache) -> T, weights: T if need_weights]], function(self, query, key, value,
      padding_mask, need_weights, attn_mask, average, is_causal, cache)
    local flat = query.ndim == 2
    local function come(x)
      if x.ndim ~= (flat and 2 or 3) then
        fail("MultiheadAttention: query has %d axes, another %d", query.ndim, x.ndim)
      end
      if flat then return x:unsqueeze(1) end
      return self.batch_first and x or x:transpose(1, 2)
    end
    local q, k, v = project(self, come(query), 1), project(self, come(key), 2),
      project(self, come(value), 3)
    local o = { key_padding_mask = padding_mask, need_weights = need_weights,
      attn_mask = attn_mask, is_causal = is_causal, cache = cache }
    q, k, v = placed(self, o, q, k, v)
    local y, weights = attend(self, q, k, v, o)
    y = self.out_proj(y:transpose(2, 3):reshape(q:size(1), q:size(3), self.embed_dim))
    if weights and average then weights = weights:mean(2) end
    if flat then return y:squeeze(1), weights and weights:squeeze(1) end
    return self.batch_first and y or y:transpose(1, 2), weights
  end)
  function nn.MultiheadAttention:extra()
    return ("embed_dim=%d, num_heads=%d, batch_first=%s"):format(self.embed_dim, self.num_heads,
      self.batch_first)
  end

  -- ---- blocks -----------------------------------------------------------------------------------
  --- x + attention(norm(x)), then x + mlp(norm(x)), over (batch, time, size); mlp has 'hidden' (4
  --- size) features between two linear layers, with GELU. causal: is_causal in calls block(x,
  --- {attn_mask, key_padding_mask, is_causal, cache = of block:cache(batch, length)}). Masks,
  --- num_kv_heads and rotary are those of MultiheadAttention.
  class([[nn.TransformerBlock(size: int, heads: int, dropout = 0, bias = true, causal = false,
    hidden?: int, *, num_kv_heads?: int, rotary?: bool|table)]],
    function(self, d, heads, dropout, bias, causal, hidden, kv_heads, rotary)
    heads_of("TransformerBlock", d, heads, "size", "heads")
    hidden = hidden or 4 * d
    self.causal = causal
    self.norm1 = nn.LayerNorm(d)
    self.attention = nn.MultiheadAttention(d, heads,
      { dropout = dropout, bias = bias, batch_first = true, num_kv_heads = kv_heads,
        rotary = rotary })
    self.norm2 = nn.LayerNorm(d)
    self.mlp = nn.Sequential { nn.Linear(d, hidden, bias), nn.GELU(), nn.Linear(hidden, d, bias),
      nn.Dropout(dropout) }
  end)
  --- A cache for its attention.
  put(nn.TransformerBlock, "TransformerBlock:cache(batch: int, length: int) -> KeyCache",
    function(self, batch, length) return self.attention:cache(batch, length) end)
  call(nn.TransformerBlock, [[(x: T, attn_mask?: T, key_padding_mask?: T, is_causal?: bool,
    cache?: KeyCache) -> T]],
    function(self, x, attn_mask, padding_mask, is_causal, cache)
      if is_causal == nil then is_causal = self.causal end
      local y = self.attention(self.norm1(x), { attn_mask = attn_mask,
        key_padding_mask = padding_mask, is_causal = is_causal, need_weights = false,
        cache = cache })
      x = x + y
      return x + self.mlp(self.norm2(x))
    end)

  --- The function of an activation, which is given as a function or by name.
  function shared.activation_of(what, f)
    local given = type(f) == "string" and flame[f] or f
    if not flame.internal.callable(given) then fail("%s: there is no activation %s", what, f) end
    return given
  end

  --- Adds the modules of PyTorch's transformer layer (of a decoder if 'cross') in PyTorch's order.
  function shared.fill_layer(name, cross, self, d, heads, hidden, p, activation, eps, batch_first,
      norm_first, bias, device, dtype)
    local as = { bias = bias, dtype = dtype, device = device }
    self.norm_first = norm_first
    local attention = { dropout = p, bias = bias, batch_first = batch_first, dtype = dtype,
      device = device }
    -- separate statements: parameters() has the order of assignment
    self.self_attn = nn.MultiheadAttention(d, heads, attention)
    if cross then self.multihead_attn = nn.MultiheadAttention(d, heads, attention) end
    self.linear1 = nn.Linear(d, hidden, as)
    self.dropout = nn.Dropout(p)
    self.linear2 = nn.Linear(hidden, d, as)
    local count = cross and 3 or 2
    for k = 1, count do self["norm" .. k] = nn.LayerNorm(d, eps, as) end
    for k = 1, count do self["dropout" .. k] = nn.Dropout(p) end
    rawset(self, "activation", shared.activation_of(name, activation))
  end

  --- PyTorch's encoder layer: norms after the sums (or before, norm_first), ReLU, (time, batch, d)
  --- unless batch_first.
  class([[nn.TransformerEncoderLayer(d_model: int, nhead: int, dim_feedforward: int = 2048,
    dropout = 0.1, activation: fn|str = "relu", layer_norm_eps = 1e-5, batch_first = false,
    norm_first = false, bias = true, *, device?: device, dtype?: dtype)]],
    function(self, ...) shared.fill_layer("TransformerEncoderLayer", false, self, ...) end)
  call(nn.TransformerEncoderLayer, [[(src: T, src_mask?: T, src_key_padding_mask?: T,
    is_causal = false) -> T]], function(self, x, mask, padding_mask, is_causal)
    local function look(y)
      local z = self.self_attn(y, y, y, { attn_mask = mask, key_padding_mask = padding_mask,
        is_causal = is_causal, need_weights = false })
      return self.dropout1(z)
    end
    local function feed(y)
      return self.dropout2(self.linear2(self.dropout(self.activation(self.linear1(y)))))
    end
    if self.norm_first then
      x = x + look(self.norm1(x))
      return x + feed(self.norm2(x))
    end
    x = self.norm1(x + look(x))
    return self.norm2(x + feed(x))
  end)
end
