--- What the attention modules share: rotary positions of queries and keys, and the cache of keys
--- and values for a text that is generated token by token. The file returns a function that sets
--- shared.keys.
local flame = require "flame"
local arguments = require "flame.base.arguments"
local objects = require "flame.base.objects"

return function(_, shared)
  local fail, positive = shared.raise, shared.count
  local WIDEST <const> = 65536                             -- most rotated features of a head
  local keys = {}
  shared.keys = keys

  -- ---- rotary positions -------------------------------------------------------------------------
  local SCALINGS = {
    linear = { factor = true },
    llama3 = { factor = true, low_freq_factor = true, high_freq_factor = true,
      original_max_position_embeddings = true },
  }
  --- Checks the scaling of rotary frequencies: {type = "linear", factor =}, or "llama3" with its
  --- four numbers.
  function keys.scaling(op, o)
    if o == nil then return nil end
    local kind = type(o) == "table" and (o.rope_type or o.type)
    local names = SCALINGS[kind]
    if not names then
      fail(op, 'rope_scaling is %s, need {type = "linear", …} or {type = "llama3", …}',
        type(o) == "table" and "of type " .. tostring(kind) or arguments.word(o))
    end
    local own = { type = kind }
    for key, v in pairs(o) do
      if key ~= "type" and key ~= "rope_type" and not names[key] then
        objects.no_option(op, key, names)
      end
      own[key] = v
    end
    for key in pairs(names) do
      if type(own[key]) ~= "number" or not (own[key] > 0) then
        fail(op, "rope_scaling.%s is %s, need a number above 0", key, tostring(own[key]))
      end
    end
    return own
  end

  --- The list of angles by which pairs of features are rotated per position; d: features.
  function keys.rates(d, base, scaling)
    local list = {}
    for i = 0, d // 2 - 1 do
      local rate = base ^ (-2 * i / d)
      if scaling and scaling.type == "linear" then rate = rate / scaling.factor
      elseif scaling then
        local wave = 2 * math.pi / rate                  -- positions of a full turn
        local turns = scaling.original_max_position_embeddings / wave
        local low, high = scaling.low_freq_factor, scaling.high_freq_factor
        -- low rates are divided by the factor, high ones are unchanged, those in between are
        -- interpolated
        local share = math.max(0, math.min(1, (turns - low) / (high - low)))
        rate = rate * (share + (1 - share) / scaling.factor)
      end
      list[i + 1] = rate
    end
    return list
  end

  --- Rotary embedding of x (batch, heads, time, size): the first rotary_dim features of each head
  --- are rotated by angles proportional to the position. at (time): the positions, from 1.
  function keys.turned(self, x, at)
    local d = self.rotary_dim
    if d == 0 then return x end
    local rates = flame.tensor(self.rates, { dtype = "f64", device = x.device })
    local angle = (at - 1):double():unsqueeze(2) * rates:unsqueeze(1)
    angle = self.interleaved and angle:repeat_interleave(2, 2) or flame.cat({ angle, angle }, 2)
    local dtype = (x.dtype == "f16" or x.dtype == "bf16") and "f32" or x.dtype
    local o = { interleaved = self.interleaved }
    local cos, sin = angle:cos():to(dtype), angle:sin():to(dtype)
    if d == x:size(-1) then return x:rotary(cos, sin, o) end
    return flame.cat({ x:narrow(-1, 1, d):rotary(cos, sin, o),
      x:narrow(-1, d + 1, x:size(-1) - d) }, -1)
  end

  function keys.check_turned(op, rotary_dim, size)
    if rotary_dim < 0 or rotary_dim > size or rotary_dim % 2 ~= 0 then
      fail(op, "rotary_dim is %d, need an even number from 0 to %d, the size of a head", rotary_dim,
        size)
    end
    positive(op, "rotary_dim", math.max(rotary_dim, 1), WIDEST)
  end

  local ROTARY <const> = { dim = true, base = true, scaling = true, interleaved = true }
  --- Sets the fields that keys.turned reads from the option 'rotary': true, or {dim =, base =,
  --- scaling =, interleaved =}; nil or false: no rotation.
  function keys.set_rotary(self, op, rotary, size)
    local o = type(rotary) == "table" and rotary or {}
    for key in pairs(o) do
      if not ROTARY[key] then objects.no_option(op, "rotary." .. tostring(key), ROTARY) end
    end
    local dim, base = o.dim or (rotary and size or 0), o.base or 10000
    if math.type(dim) ~= "integer" then fail(op, "rotary.dim must be an integer") end
    if type(base) ~= "number" or not (base > 0) then
      fail(op, "rotary.base is %s, need a number above 0", tostring(base))
    end
    keys.check_turned(op, dim, size)
    self.rotary_dim, self.interleaved = dim, o.interleaved and true or false
    self.rates = keys.rates(dim, base, keys.scaling(op, o.scaling))
  end

  --- The number of heads of keys: by default that of queries, otherwise a divisor of it.
  function keys.heads(op, heads, kv_heads)
    if not kv_heads then return heads end
    positive(op, "num_kv_heads", kv_heads)
    if heads % kv_heads ~= 0 then
      fail(op, "%d heads do not share %d heads of keys alike", heads, kv_heads)
    end
    return kv_heads
  end

  -- ---- the cache --------------------------------------------------------------------------------
  -- Its fields: k and v (batch, heads, length, size), of whose 'length' positions the first 'seen'
  -- are written.
  local Cache = { __name = "KeyCache" }
  function keys.cache(op, w, batch, heads, length, size)
    positive(op, "batch", batch)
    positive(op, "length", length)
    local function rows()
      return flame.zeros({ batch, heads, length, size }, { dtype = w.dtype, device = w.device })
    end
    return setmetatable({ k = rows(), v = rows(), seen = 0, length = length }, Cache)
  end
  --- Checks that the cache fits this batch and these heads of keys, and has room for t more
  --- positions.
  function keys.check(op, cache, b, heads, t, size)
    if not flame.is_tensor(cache.k) then
      fail(op, "cache must come from its cache(batch, length), got %s", arguments.word(cache))
    end
    local of = cache.k.shape
    if of[1] ~= b or of[2] ~= heads or of[4] ~= size then
      fail(op, "x has batch %d, heads %d, size %d, the cache (%d, %d, %d); make one for this batch", b,
        heads, size, of[1], of[2], of[4])
    end
    if cache.seen + t > cache.length then
      fail(op, "%d positions after %d do not fit a cache of %d; make a longer one", t, cache.seen,
        cache.length)
    end
  end
  --- Appends keys and values to the cache, and returns those of all its positions; the caller masks
  --- positions that are not yet written.
  function keys.remember(cache, k, v, at)
    cache.k:index_copy_(3, at, k:detach():to(cache.k.dtype))
    cache.v:index_copy_(3, at, v:detach():to(cache.v.dtype))
    cache.seen = cache.seen + #at
    return cache.k:to(k.dtype), cache.v:to(v.dtype)
  end
  --- A bool mask (time, count): which of 'count' keys the queries at positions 'at' may read: if
  --- causal those up to the query's position, else those up to the last position.
  function keys.order(count, at, causal)
    return flame.arange(count, { device = at.device }):reshape(1, -1)
      :le((causal and at or at[-1]:expand(#at)):reshape(#at, 1))
  end
end
