--- GPT-2 (Radford et al. 2019). The file returns a function that takes the helpers of
--- models/parts.lua and returns GPT-2's entry in KINDS (models.lua).
local flame = require "flame"
local nn = require "flame.nn"

return function(parts)
  local class = parts.class

  --- x W + b with the weight (in, out), as GPT-2's files have it.
  local Conv1D = class("Conv1D", function(self, inputs, outputs, as)
    self.weight = nn.Parameter(flame.normal({ inputs, outputs }, 0, 0.02, as))
    self.bias = nn.Parameter(flame.zeros({ outputs }, as))
  end, function(self, x) return x:matmul(self.weight) + self.bias end)
  Conv1D.adapted = { "weight" }                          -- takes adapters (nn/lora.lua)
  function Conv1D:extra()
    return ("in_features=%d, out_features=%d"):format(self.weight:size(1), self.weight:size(2))
  end

  local Attention = class("GPT2Attention", function(self, c, as, i)
    local d, heads = c:heads("n_embd", "n_head")
    self.num_heads, self.dropout = heads, c:num("attn_pdrop", 0.1)
    self.scale = c:flag("scale_attn_weights", true) and (d // heads) ^ -0.5 or 1
    if c:flag("scale_attn_by_inverse_layer_idx", false) then self.scale = self.scale / (i + 1) end
    self.c_attn = Conv1D(d, 3 * d, as)
    self.c_proj = Conv1D(d, d, as)
  end, function(self, x, run, cache)
    local b, t, d = x:size(1), x:size(2), x:size(3)
    local qkv = self.c_attn(x):reshape(b, t, 3, self.num_heads, d // self.num_heads)
    local function head(i) return qkv:select(3, i):transpose(2, 3) end
    local q, k, v = head(1), head(2), head(3)
    if cache then k, v = parts.remember(cache, k, v) end
    local mask = run.ordered()
    local y = flame.scaled_dot_product_attention(q, k, v, { attn_mask = mask,
      is_causal = not mask, scale = self.scale, dropout_p = self.training and self.dropout or 0 })
    return self.c_proj(y:transpose(2, 3):reshape(b, t, d))
  end)

  local MLP = class("GPT2MLP", function(self, c, as)
    local d = c:int("n_embd")
    local hidden = c:int("n_inner", 4 * d)
    self.c_fc = Conv1D(d, hidden, as)
    self.c_proj = Conv1D(hidden, d, as)
    rawset(self, "act", c:activation("activation_function", "gelu_new"))
  end, function(self, x) return self.c_proj(self.act(self.c_fc(x))) end)

  local Block = class("GPT2Block", function(self, c, as, i)
    local d, eps = c:int("n_embd"), c:num("layer_norm_epsilon", 1e-5)
    self.ln_1 = nn.LayerNorm(d, eps, as)
    self.attn = Attention(c, as, i)
    self.ln_2 = nn.LayerNorm(d, eps, as)
    self.mlp = MLP(c, as)
    self.dropout = nn.Dropout(c:num("resid_pdrop", 0.1))
  end, function(self, x, run, cache)
    x = x + self.dropout(self.attn(self.ln_1(x), run, cache))
    return x + self.dropout(self.mlp(self.ln_2(x)))
  end)

  local Trunk = class("GPT2Model", function(self, c, as)
    local d = c:heads("n_embd", "n_head")
    self.wte = nn.Embedding(c:int("vocab_size"), d, as)
    self.wpe = nn.Embedding(c:int("n_positions", 1024), d, as)
    self.drop = nn.Dropout(c:num("embd_pdrop", 0.1))
    self.h = parts.Stack(c:int("n_layer"), function(i) return Block(c, as, i) end)
    self.ln_f = nn.LayerNorm(d, c:num("layer_norm_epsilon", 1e-5), as)
  end)
  function Trunk:hidden(op, ids, mask, cache)
    local run, most = parts.run(op, ids, mask, cache), self.wpe.weight:size(1)
    local n = (cache and cache.seen or 0) + ids:size(2)
    if n > most and not mask then
      parts.fail(op, "%d positions, the model has %d (n_positions)", n, most)
    end
    local x = parts.rows(self.wte, ids) + parts.rows(self.wpe, run.positions)
    x = self.drop(x)
    for i, block in ipairs(self.h.list) do x = block(x, run, run.layers[i]) end
    run.done()
    return self.ln_f(x)
  end
  function Trunk:layer_caches(batch, length)
    local w, heads, list = self.wte.weight, self.h[0].attn.num_heads, {}
    for i = 1, #self.h.list do
      local function rows()
        return flame.zeros({ batch, heads, length, w:size(2) // heads },
          { dtype = w.dtype, device = w.device })
      end
      list[i] = { k = rows(), v = rows(), seen = 0 }
    end
    return list
  end

  return { prefix = "transformer", tied = true, Trunk = Trunk, table_of = "wte",
    width = "n_embd" }
end
