--- PyTorch's transformer: stacks of encoder layers, decoder layers and the two together, with its
-- names of parameters. The encoder layer is in nn/attention.lua. The file returns a function that
-- adds them to flame.nn.
local flame = require "flame"

return function(nn, shared)
  local fail, positive, class, call = shared.fail, shared.positive, shared.class, shared.call

  -- A list of the layer and count - 1 copies of it (Module:clone).
  local function copies(name, layer, count)
    positive(name, "num_layers", count, shared.LAYERS)
    if not layer.self_attn then
      fail("%s: need a transformer's layer, got a %s", name, getmetatable(layer).__name)
    end
    local list = { layer }
    for i = 2, count do
      list[i] = layer:clone()
    end
    return nn.ModuleList(list)
  end

  --- Encoder layers like the given one, which is the first of them, and a norm. The last two
  --- options have no effect.
  class([[nn.TransformerEncoder(encoder_layer: Module, num_layers: int, norm?: Module|fn,
    enable_nested_tensor = true, mask_check = true)]], function(self, layer, count, norm)
    self.layers = copies("TransformerEncoder", layer, count)
    self.num_layers = count
    if norm then self.norm = norm end
  end)
  call(nn.TransformerEncoder, [[(src: T, mask?: T, src_key_padding_mask?: T, is_causal = false)
    -> T]], function(self, x, mask, padding_mask, is_causal)
    for _, layer in ipairs(self.layers) do x = layer(x, mask, padding_mask, is_causal) end
    return self.norm and self.norm(x) or x
  end)

  --- A decoder layer: self-attention, attention to the encoder's result and a feed-forward network,
  --- each with a layer norm and a residual sum.
  class([[nn.TransformerDecoderLayer(d_model: int, nhead: int, dim_feedforward: int = 2048,
    dropout = 0.1, activation: fn|str = "relu", layer_norm_eps = 1e-5, batch_first = false,
    norm_first = false, bias = true, *, device?: device, dtype?: dtype)]],
    function(self, ...) shared.fill_layer("TransformerDecoderLayer", true, self, ...) end)
  call(nn.TransformerDecoderLayer, [[(tgt: T, memory: T, tgt_mask?: T, memory_mask?: T,
    tgt_key_padding_mask?: T, memory_key_padding_mask?: T, tgt_is_causal = false,
    memory_is_causal = false) -> T]], function(self, x, memory, mask, memory_mask, padding_mask,
      memory_padding_mask, is_causal, memory_is_causal)
    local function own(y)
      return self.dropout1((self.self_attn(y, y, y, { attn_mask = mask,
        key_padding_mask = padding_mask, is_causal = is_causal, need_weights = false })))
    end
    local function cross(y)
      return self.dropout2((self.multihead_attn(y, memory, memory, { attn_mask = memory_mask,
        key_padding_mask = memory_padding_mask, is_causal = memory_is_causal,
        need_weights = false })))
    end
    local function feed(y)
      return self.dropout3(self.linear2(self.dropout(self.activation(self.linear1(y)))))
    end
    if self.norm_first then
      x = x + own(self.norm1(x))
      x = x + cross(self.norm2(x))
      return x + feed(self.norm3(x))
    end
    x = self.norm1(x + own(x))
    x = self.norm2(x + cross(x))
    return self.norm3(x + feed(x))
  end)

  --- Decoder layers like the given one, which is the first of them, and a norm.
  class("nn.TransformerDecoder(decoder_layer: Module, num_layers: int, norm?: Module|fn)",
    function(self, layer, count, norm)
      self.layers = copies("TransformerDecoder", layer, count)
      self.num_layers = count
      if norm then self.norm = norm end
    end)
  call(nn.TransformerDecoder, [[(tgt: T, memory: T, tgt_mask?: T, memory_mask?: T,
    tgt_key_padding_mask?: T, memory_key_padding_mask?: T, tgt_is_causal = false,
    memory_is_causal = false) -> T]], function(self, x, memory, ...)
    for _, layer in ipairs(self.layers) do x = layer(x, memory, ...) end
    return self.norm and self.norm(x) or x
  end)

  --- Encoder and decoder. model(src, tgt[, {src_mask =, tgt_mask =, …}]).
  class([[nn.Transformer(d_model: int = 512, nhead: int = 8, num_encoder_layers: int = 6,
    num_decoder_layers: int = 6, dim_feedforward: int = 2048, dropout = 0.1,
    activation: fn|str = "relu", custom_encoder?: Module|fn, custom_decoder?: Module|fn,
    layer_norm_eps = 1e-5, batch_first = false, norm_first = false, bias = true, *,
    device?: device, dtype?: dtype)]], function(self, d, heads, encoders, decoders, hidden, p,
      activation, encoder, decoder, eps, batch_first, norm_first, bias, device, dtype)
    local as = { bias = bias, dtype = dtype, device = device }
    self.encoder = encoder or nn.TransformerEncoder(nn.TransformerEncoderLayer(d, heads, hidden, p,
      activation, eps, batch_first, norm_first, as), encoders, nn.LayerNorm(d, eps, as))
    self.decoder = decoder or nn.TransformerDecoder(nn.TransformerDecoderLayer(d, heads, hidden, p,
      activation, eps, batch_first, norm_first, as), decoders, nn.LayerNorm(d, eps, as))
    for _, w in ipairs(self:parameters()) do if w.ndim > 1 then nn.init.xavier_uniform(w) end end
    self.d_model, self.nhead = d, heads
  end)
  call(nn.Transformer, [[(src: T, tgt: T, src_mask?: T, tgt_mask?: T, memory_mask?: T,
    src_key_padding_mask?: T, tgt_key_padding_mask?: T, memory_key_padding_mask?: T,
    src_is_causal = false, tgt_is_causal = false, memory_is_causal = false) -> T]],
    function(self, src, tgt, src_mask, tgt_mask, memory_mask, src_padding, tgt_padding,
      memory_padding, src_is_causal, tgt_is_causal, memory_is_causal)
    local memory = self.encoder(src, src_mask, src_padding, src_is_causal)
    return self.decoder(tgt, memory, { tgt_mask = tgt_mask, memory_mask = memory_mask,
      tgt_key_padding_mask = tgt_padding, memory_key_padding_mask = memory_padding,
      tgt_is_causal = tgt_is_causal, memory_is_causal = memory_is_causal })
  end)
  --- The mask of a sequence that must not look ahead: 0, and -inf above the diagonal.
  shared.put(nn.Transformer, [[nn.Transformer.generate_square_subsequent_mask(size: int, *factory)
    -> T]], function(n, dtype, device, requires_grad)
      return flame.full({ n, n }, -math.huge,
        { dtype = dtype, device = device, requires_grad = requires_grad }):triu(1)
    end)
end
