--- BERT (Devlin et al. 2018): the encoder with its pooler, and heads on it. The file returns a
-- function that takes models/parts.lua's helpers and returns BERT's entry in KINDS (models.lua).
local flame = require "flame"
local nn = require "flame.nn"

return function(parts)
  local class = parts.class

  --- The end of a block: a linear layer, then the layer norm of its result plus the block's input.
  local Output = class("BertOutput", function(self, c, as, inputs)
    local d = c:int "hidden_size"
    self.dense = nn.Linear(inputs, d, as)
    self.LayerNorm = nn.LayerNorm(d, c:num("layer_norm_eps", 1e-12), as)
    self.dropout = nn.Dropout(c:num("hidden_dropout_prob", 0.1))
  end, function(self, x, before) return self.LayerNorm(self.dropout(self.dense(x)) + before) end)

  local SelfAttention = class("BertSelfAttention", function(self, c, as)
    local d, heads = c:heads("hidden_size", "num_attention_heads")
    self.num_heads, self.dropout = heads, c:num("attention_probs_dropout_prob", 0.1)
    self.query = nn.Linear(d, d, as)
    self.key = nn.Linear(d, d, as)
    self.value = nn.Linear(d, d, as)
  end, function(self, x, mask)
    return parts.attend(self, self.query(x), self.key(x), self.value(x), mask)
  end)

  local Attention = class("BertAttention", function(self, c, as)
    self.self = SelfAttention(c, as)
    self.output = Output(c, as, c:int "hidden_size")
  end, function(self, x, mask) return self.output(self.self(x, mask), x) end)

  local Intermediate = class("BertIntermediate", function(self, c, as)
    self.dense = nn.Linear(c:int "hidden_size", c:int "intermediate_size", as)
    rawset(self, "act", c:activation("hidden_act", "gelu"))
  end, function(self, x) return self.act(self.dense(x)) end)

  local Layer = class("BertLayer", function(self, c, as)
    self.attention = Attention(c, as)
    self.intermediate = Intermediate(c, as)
    self.output = Output(c, as, c:int "intermediate_size")
  end, function(self, x, mask)
    x = self.attention(x, mask)
    return self.output(self.intermediate(x), x)
  end)

  local Encoder = class("BertEncoder", function(self, c, as)
    self.layer = parts.Stack(c:int "num_hidden_layers", function() return Layer(c, as) end)
  end, function(self, x, mask)
    for _, layer in ipairs(self.layer.list) do x = layer(x, mask) end
    return x
  end)

  local Embeddings = class("BertEmbeddings", function(self, c, as)
    local d = c:int "hidden_size"
    c:word("position_embedding_type", "absolute", { absolute = true })
    self.word_embeddings = nn.Embedding(c:int "vocab_size", d, as)
    self.position_embeddings = nn.Embedding(c:int("max_position_embeddings", 512), d, as)
    self.token_type_embeddings = nn.Embedding(c:int("type_vocab_size", 2), d, as)
    self.LayerNorm = nn.LayerNorm(d, c:num("layer_norm_eps", 1e-12), as)
    self.dropout = nn.Dropout(c:num("hidden_dropout_prob", 0.1))
  end, function(self, ids, types)
    local t, most = ids:size(2), self.position_embeddings.weight:size(1)
    if t > most then
      parts.fail("BertModel", "%d positions, the model has %d (max_position_embeddings)", t, most)
    end
    local x = parts.rows(self.word_embeddings, ids)
      + parts.rows(self.token_type_embeddings, types or flame.zeros_like(ids))
      + self.position_embeddings(flame.arange(t, { device = ids.device }):reshape(1, t))
    return self.dropout(self.LayerNorm(x))
  end)

  local Pooler = class("BertPooler", function(self, c, as)
    local d = c:int "hidden_size"
    self.dense = nn.Linear(d, d, as)
  end, function(self, x) return self.dense(x:select(2, 1)):tanh() end)

  local Model = class("BertModel", function(self, c, as, pooler)
    self.embeddings = Embeddings(c, as)
    self.encoder = Encoder(c, as)
    if pooler ~= false then self.pooler = Pooler(c, as) end
  end)
  flame.internal.module_call(Model, "(ids: T, attention_mask?: T, token_type_ids?: T) -> T, T",
    function(self, ids, mask, types)
      local op = "BertModel"
      parts.need_ids(op, "ids", ids)
      mask = parts.need_mask(op, mask, ids)
      if types then parts.need_mask(op, parts.need_ids(op, "token_type_ids", types), ids) end
      local x = self.encoder(self.embeddings(ids, types),
        mask and mask:reshape(ids:size(1), 1, 1, -1))
      return x, self.pooler and self.pooler(x) or nil
    end)

  local Transform = class("BertPredictionHeadTransform", function(self, c, as)
    local d = c:int "hidden_size"
    self.dense = nn.Linear(d, d, as)
    rawset(self, "act", c:activation("hidden_act", "gelu"))
    self.LayerNorm = nn.LayerNorm(d, c:num("layer_norm_eps", 1e-12), as)
  end, function(self, x) return self.LayerNorm(self.act(self.dense(x))) end)

  --- Scores of all tokens; words: the weight of the embedding, if the last layer shares it.
  local Predictions = class("BertLMPredictionHead", function(self, c, as, words)
    local n = c:int "vocab_size"
    self.transform = Transform(c, as)
    self.bias = nn.Parameter(flame.zeros({ n }, as))
    self.decoder = nn.Linear(c:int "hidden_size", n, as)
    self.decoder.bias = self.bias
    if c:flag("tie_word_embeddings", true) then self.decoder.weight = words end
  end, function(self, x) return self.decoder(self.transform(x)) end)

  local Heads = class("BertPreTrainingHeads", function(self, c, as, words, pairs_too)
    self.predictions = Predictions(c, as, words)
    if pairs_too then self.seq_relationship = nn.Linear(c:int "hidden_size", 2, as) end
  end)

  --- Makes a class with the encoder in the field 'bert' and a head: head(…) adds the head's
  --- modules, and result(…) computes the result from the hidden states and the pooled state.
  local function with_head(name, pooler, head, result)
    local made = class(name, function(self, c, as)
      self.bert = Model(c, as, pooler)
      head(self, c, as)
    end)
    flame.internal.module_call(made, "(ids: T, attention_mask?: T, token_type_ids?: T) -> ...",
      function(self, ids, mask, types)
        return result(self, self.bert(ids, { attention_mask = mask, token_type_ids = types }))
      end)
    return made
  end
  local function classifier(self, c, as)
    self.dropout = nn.Dropout(c:num("classifier_dropout", c:num("hidden_dropout_prob", 0.1)))
    self.classifier = nn.Linear(c:int "hidden_size", c:labels(), as)
  end
  local architectures = {
    BertModel = Model,
    BertForMaskedLM = with_head("BertForMaskedLM", false, function(self, c, as)
      self.cls = Heads(c, as, self.bert.embeddings.word_embeddings.weight)
    end, function(self, x) return self.cls.predictions(x) end),
    BertForPreTraining = with_head("BertForPreTraining", true, function(self, c, as)
      self.cls = Heads(c, as, self.bert.embeddings.word_embeddings.weight, true)
    end, function(self, x, pooled)
      return self.cls.predictions(x), self.cls.seq_relationship(pooled)
    end),
    BertForSequenceClassification = with_head("BertForSequenceClassification", true, classifier,
      function(self, _, pooled) return self.classifier(self.dropout(pooled)) end),
    BertForTokenClassification = with_head("BertForTokenClassification", false, classifier,
      function(self, x) return self.classifier(self.dropout(x)) end),
  }
  return { prefix = "bert", architectures = architectures, usual = "BertForMaskedLM",
    -- class -> patterns of tensors in its files that only classes with other heads use
    unused = { BertForMaskedLM = { "^cls%.seq_relationship%.", "^bert%.pooler%." },
      BertForTokenClassification = { "^bert%.pooler%." } } }
end
