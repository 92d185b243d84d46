--- Llama (Touvron et al. 2023) and similar models: Mistral, Qwen2, Qwen3. This file's function
--- takes the helpers of models/parts.lua and returns their entries in KINDS (models.lua).
local nn = require "flame.nn"

return function(parts)
  local class = parts.class

  --- The configuration's rope_scaling, as attention takes it, and the base of the rotary angles.
  --- Newer files have both in rope_parameters.
  local function rotary_of(c)
    local scaling, base = c:get "rope_scaling", c:num("rope_theta", 10000)
    local newer = c:get "rope_parameters"
    for name, v in pairs { rope_scaling = scaling or false, rope_parameters = newer or false } do
      if v and type(v) ~= "table" then c:fail("%s is not an object", name) end
    end
    if newer then
      scaling, base = newer, parts.config(c.op, c.where, newer):num("rope_theta", base)
    end
    local kind = scaling and (scaling.rope_type or scaling.type) or "default"
    if kind == "default" then return nil, base end
    if kind ~= "linear" and kind ~= "llama3" then
      c:fail("rotary positions of type '%s' are not known, there is: default linear llama3",
        tostring(kind))
    end
    local s = parts.config(c.op, c.where, scaling)
    local out = { type = kind, factor = s:num "factor" }
    if kind == "llama3" then
      for _, name in ipairs { "low_freq_factor", "high_freq_factor",
        "original_max_position_embeddings" } do out[name] = s:num(name) end
    end
    return out, base
  end

  local function attention(c, as, own)
    local d, heads = c:int "hidden_size", c:int "num_attention_heads"
    if not c:get "head_dim" then c:heads("hidden_size", "num_attention_heads") end
    local kv = c:int("num_key_value_heads", heads)
    if heads % kv ~= 0 then
      c:fail("num_key_value_heads = %d does not divide num_attention_heads = %d", kv, heads)
    end
    local scaling, base = rotary_of(c)
    local bias = c:flag("attention_bias", false)
    return nn.GroupedQueryAttention(d, heads, kv, { head_dim = c:int("head_dim", d // heads),
      bias = own.bias or bias, out_bias = not own.bias and bias, qk_norm = own.qk_norm,
      dropout = c:num("attention_dropout", 0), rope_base = base, rope_scaling = scaling,
      eps = c:num("rms_norm_eps", 1e-6), device = as.device, dtype = as.dtype })
  end

  local MLP = class("LlamaMLP", function(self, c, as)
    local d, hidden = c:int "hidden_size", c:int "intermediate_size"
    local o = { bias = c:flag("mlp_bias", false), device = as.device, dtype = as.dtype }
    self.gate_proj = nn.Linear(d, hidden, o)
    self.up_proj = nn.Linear(d, hidden, o)
    self.down_proj = nn.Linear(hidden, d, o)
    rawset(self, "act", c:activation("hidden_act", "silu"))
  end, function(self, x) return self.down_proj(self.act(self.gate_proj(x)) * self.up_proj(x)) end)

  local Layer = class("LlamaDecoderLayer", function(self, c, as, own)
    local d, eps = c:int "hidden_size", c:num("rms_norm_eps", 1e-6)
    self.self_attn = attention(c, as, own)
    self.mlp = MLP(c, as)
    self.input_layernorm = nn.RMSNorm(d, eps, as)
    self.post_attention_layernorm = nn.RMSNorm(d, eps, as)
  end, function(self, x, mask, cache)
    x = x + self.self_attn(self.input_layernorm(x), { attn_mask = mask, cache = cache })
    return x + self.mlp(self.post_attention_layernorm(x))
  end)

  --- The width of the attention window (nil: none), and the first layer (from 0) that has it.
  local function window_of(c, own)
    local width = own.window and c:get "sliding_window" and c:int "sliding_window"
    if own.window ~= "flag" then return width, 0 end
    if not c:flag("use_sliding_window", false) then return nil, 0 end
    return width, c:num("max_window_layers", 28)
  end

  local Trunk = class("LlamaModel", function(self, c, as, own)
    local d = c:int "hidden_size"
    self.embed_tokens = nn.Embedding(c:int "vocab_size", d, as)
    self.layers = parts.Stack(c:int "num_hidden_layers", function() return Layer(c, as, own) end)
    self.norm = nn.RMSNorm(d, c:num("rms_norm_eps", 1e-6), as)
    self.window, self.windows_from = window_of(c, own)
  end)
  function Trunk:hidden(op, ids, mask, cache)
    local run = parts.run(op, ids, mask, cache, self.window)
    local x = parts.rows(self.embed_tokens, ids)
    for i, layer in ipairs(self.layers.list) do
      x = layer(x, i > self.windows_from and run.near or run.mask, run.layers[i])
    end
    run.done()
    return self.norm(x)
  end
  function Trunk:layer_caches(batch, length)
    local list = {}
    for i, layer in ipairs(self.layers.list) do
      list[i] = layer.self_attn:cache(batch, length)
    end
    return list
  end

  local function kind(own)
    return { prefix = "model", tied = false, Trunk = Trunk, table_of = "embed_tokens", own = own }
  end
  return { llama = kind {}, mistral = kind { window = true },
    qwen2 = kind { bias = true, window = "flag" },
    qwen3 = kind { qk_norm = true, window = "flag" } }
end
