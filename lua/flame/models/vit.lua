--- The vision transformer (Dosovitskiy et al. 2020). The file returns a function that takes the
-- helpers of models/parts.lua and returns the model's entry in KINDS (models.lua).
local flame = require "flame"
local nn = require "flame.nn"

return function(parts)
  local class = parts.class

  local SelfAttention = class("ViTSelfAttention", function(self, c, as)
    local d, heads = c:heads("hidden_size", "num_attention_heads")
    local o = { bias = c:flag("qkv_bias", true), device = as.device, dtype = as.dtype }
    self.num_heads, self.dropout = heads, c:num("attention_probs_dropout_prob", 0)
    self.query = nn.Linear(d, d, o)
    self.key = nn.Linear(d, d, o)
    self.value = nn.Linear(d, d, o)
  end, function(self, x)
    return parts.attend(self, self.query(x), self.key(x), self.value(x))
  end)

  local Output = class("ViTOutput", function(self, c, as, inputs)
    self.dense = nn.Linear(inputs, c:int "hidden_size", as)
    self.dropout = nn.Dropout(c:num("hidden_dropout_prob", 0))
  end, function(self, x) return self.dropout(self.dense(x)) end)

  local Attention = class("ViTAttention", function(self, c, as)
    self.attention = SelfAttention(c, as)
    self.output = Output(c, as, c:int "hidden_size")
  end, function(self, x) return self.output(self.attention(x)) end)

  local Intermediate = class("ViTIntermediate", function(self, c, as)
    self.dense = nn.Linear(c:int "hidden_size", c:int "intermediate_size", as)
    rawset(self, "act", c:activation("hidden_act", "gelu"))
  end, function(self, x) return self.act(self.dense(x)) end)

  local Layer = class("ViTLayer", function(self, c, as)
    local d, eps = c:int "hidden_size", c:num("layer_norm_eps", 1e-12)
    self.attention = Attention(c, as)
    self.intermediate = Intermediate(c, as)
    self.output = Output(c, as, c:int "intermediate_size")
    self.layernorm_before = nn.LayerNorm(d, eps, as)
    self.layernorm_after = nn.LayerNorm(d, eps, as)
  end, function(self, x)
    x = x + self.attention(self.layernorm_before(x))
    return x + self.output(self.intermediate(self.layernorm_after(x)))
  end)

  local Encoder = class("ViTEncoder", function(self, c, as)
    self.layer = parts.Stack(c:int "num_hidden_layers", function() return Layer(c, as) end)
  end, function(self, x)
    for _, layer in ipairs(self.layer.list) do x = layer(x) end
    return x
  end)

  local Patches = class("ViTPatchEmbeddings", function(self, c, as)
    local size = c:int("patch_size", 16)
    self.projection = nn.Conv2d(c:int("num_channels", 3), c:int "hidden_size", size,
      { stride = size, device = as.device, dtype = as.dtype })
  end, function(self, x) return self.projection(x):flatten(3, 4):transpose(2, 3) end)

  local Embeddings = class("ViTEmbeddings", function(self, c, as)
    local d, side, patch = c:int "hidden_size", c:int("image_size", 224), c:int("patch_size", 16)
    if side % patch ~= 0 then
      c:fail("image_size is %d, which does not split into patches of %d", side, patch)
    end
    self.side, self.channels = side, c:int("num_channels", 3)
    self.cls_token = nn.Parameter(flame.zeros({ 1, 1, d }, as))
    self.position_embeddings =
      nn.Parameter(flame.normal({ 1, (side // patch) * (side // patch) + 1, d }, 0, 0.02, as))
    self.patch_embeddings = Patches(c, as)
    self.dropout = nn.Dropout(c:num("hidden_dropout_prob", 0))
  end, function(self, x)
    local first = self.cls_token:expand(x:size(1), 1, self.cls_token:size(3))
    return self.dropout(flame.cat({ first, self.patch_embeddings(x) }, 2)
      + self.position_embeddings)
  end)

  local Pooler = class("ViTPooler", function(self, c, as)
    local d = c:int "hidden_size"
    self.dense = nn.Linear(d, d, as)
  end, function(self, x) return self.dense(x:select(2, 1)):tanh() end)

  local Model = class("ViTModel", function(self, c, as, pooler)
    self.embeddings = Embeddings(c, as)
    self.encoder = Encoder(c, as)
    self.layernorm = nn.LayerNorm(c:int "hidden_size", c:num("layer_norm_eps", 1e-12), as)
    if pooler ~= false then self.pooler = Pooler(c, as) end
  end)
  flame.internal.module_call(Model, "(pixel_values: T) -> T, T", function(self, x)
    local e = self.embeddings
    if x.ndim ~= 4 or x:size(2) ~= e.channels or x:size(3) ~= e.side or x:size(4) ~= e.side then
      parts.fail("ViTModel", "pixel_values has shape (%s), need (batch, %d, %d, %d)",
        table.concat(x.shape, ", "), e.channels, e.side, e.side)
    end
    local y = self.layernorm(self.encoder(e(x)))
    return y, self.pooler and self.pooler(y) or nil
  end)

  local Classifier = class("ViTForImageClassification", function(self, c, as)
    self.vit = Model(c, as, false)
    self.classifier = nn.Linear(c:int "hidden_size", c:labels(), as)
  end)
  flame.internal.module_call(Classifier, "(pixel_values: T) -> T", function(self, x)
    return self.classifier(self.vit(x):select(2, 1))
  end)

  return { prefix = "vit", usual = "ViTForImageClassification",
    architectures = { ViTModel = Model, ViTForImageClassification = Classifier },
    unused = { ViTForImageClassification = { "^vit%.pooler%." } } }
end
