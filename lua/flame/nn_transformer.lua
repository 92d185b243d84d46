--- PyTorch's transformer: stacks of encoder layers, decoder layers and the two together, with its
-- names of parameters. The encoder layer stands in nn_attention.lua. Given the table of
-- flame.nn, adds to it.
local flame = require "flame"

return function(nn, shared)
  local Module, fail, positive, read = nn.Module, shared.fail, shared.positive, shared.read

  --- A second layer as the first, with values of its own that begin as the first's.
  local function copies(name, layer, count)
    positive(name, "num_layers", count)
    if type(layer) ~= "table" or not layer.again then
      fail("%s: need a transformer's layer, got %s", name, type(layer))
    end
    local list = { layer }
    for i = 2, count do
      list[i] = layer.again()
      list[i]:load_state_dict(layer:state_dict())
      if not layer.training then list[i]:eval() end
    end
    return nn.ModuleList(list)
  end

  --- n encoder layers like 'layer' (which is the first of them), and a norm.
  nn.TransformerEncoder = Module.extend("TransformerEncoder")
  function nn.TransformerEncoder:init(layer, count, ...)
    -- the last two: of no effect
    local o = read("TransformerEncoder", "norm enable_nested_tensor mask_check", "", ...)
    self.layers = copies("TransformerEncoder", layer, count)
    self.num_layers = count
    if o.norm then self.norm = o.norm end
  end
  --- (x[, mask, src_key_padding_mask, is_causal]), or a table of them.
  function nn.TransformerEncoder:forward(x, ...)
    local o = read("TransformerEncoder", "mask src_key_padding_mask is_causal", "", ...)
    for _, layer in ipairs(self.layers) do
      x = layer(x, o.mask, o.src_key_padding_mask, o.is_causal)
    end
    return self.norm and self.norm(x) or x
  end

  --- Attention to itself, attention to the encoder's result, a small network;
  --- each with norm and sum.
  nn.TransformerDecoderLayer = Module.extend("TransformerDecoderLayer")
  function nn.TransformerDecoderLayer:init(d, heads, ...)
    local given = table.pack(...)
    local o = read("TransformerDecoderLayer",
      "dim_feedforward dropout activation layer_norm_eps batch_first norm_first bias",
      "dtype device", ...)
    local hidden, p = o.dim_feedforward or 2048, o.dropout or 0.1
    rawset(self, "again", function()
      return nn.TransformerDecoderLayer(d, heads, table.unpack(given, 1, given.n))
    end)
    self.norm_first = o.norm_first == true
    local kind = { bias = o.bias, dtype = o.dtype, device = o.device }
    local attention = { dropout = p, bias = o.bias, batch_first = o.batch_first, dtype = o.dtype,
      device = o.device }
    -- a line each: order of assignment counts
    self.self_attn = nn.MultiheadAttention(d, heads, attention)
    self.multihead_attn = nn.MultiheadAttention(d, heads, attention)
    self.linear1 = nn.Linear(d, hidden, kind)
    self.dropout = nn.Dropout(p)
    self.linear2 = nn.Linear(hidden, d, kind)
    local norm = { eps = o.layer_norm_eps, bias = o.bias, dtype = o.dtype, device = o.device }
    self.norm1 = nn.LayerNorm(d, norm)
    self.norm2 = nn.LayerNorm(d, norm)
    self.norm3 = nn.LayerNorm(d, norm)
    self.dropout1 = nn.Dropout(p)
    self.dropout2 = nn.Dropout(p)
    self.dropout3 = nn.Dropout(p)
    local f = o.activation or "relu"
    rawset(self, "activation", type(f) == "string" and flame[f] or f)
    if self.activation == nil then
      fail("TransformerDecoderLayer: there is no activation %s", tostring(f))
    end
  end
  local decoder_names =
    "tgt_mask memory_mask tgt_key_padding_mask memory_key_padding_mask tgt_is_causal memory_is_causal"
  --- (x, memory[, tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask,
  --- tgt_is_causal, memory_is_causal]).
  function nn.TransformerDecoderLayer:forward(x, memory, ...)
    local o = read("TransformerDecoderLayer", decoder_names, "", ...)
    local function own(y)
      return self.dropout1(
        (self.self_attn(y, y, y,
          { attn_mask = o.tgt_mask, key_padding_mask = o.tgt_key_padding_mask,
        is_causal = o.tgt_is_causal, need_weights = false })))
    end
    local function cross(y)
      return self.dropout2((self.multihead_attn(y, memory, memory, { attn_mask = o.memory_mask,
        key_padding_mask = o.memory_key_padding_mask, is_causal = o.memory_is_causal,
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
  end

  --- n decoder layers like 'layer' (which is the first of them), and a norm.
  nn.TransformerDecoder = Module.extend("TransformerDecoder")
  function nn.TransformerDecoder:init(layer, count, ...)
    local o = read("TransformerDecoder", "norm", "", ...)
    self.layers = copies("TransformerDecoder", layer, count)
    self.num_layers = count
    if o.norm then self.norm = o.norm end
  end
  --- (x, memory[, …]): what follows goes to each layer.
  function nn.TransformerDecoder:forward(x, memory, ...)
    for _, layer in ipairs(self.layers) do x = layer(x, memory, ...) end
    return self.norm and self.norm(x) or x
  end

  --- Encoder and decoder: {d_model = 512, nhead = 8, num_encoder_layers = 6, num_decoder_layers =
  --- 6, …} and the options of the layers; model(src, tgt[, {src_mask =, tgt_mask =, …}]).
  nn.Transformer = Module.extend("Transformer")
  function nn.Transformer:init(...)
    local o = read("Transformer",
      "d_model nhead num_encoder_layers num_decoder_layers dim_feedforward dropout activation custom_encoder"
      .. " custom_decoder layer_norm_eps batch_first norm_first bias", "dtype device", ...)
    local d, heads = o.d_model or 512, o.nhead or 8
    local layer = { dim_feedforward = o.dim_feedforward, dropout = o.dropout,
      activation = o.activation, bias = o.bias, layer_norm_eps = o.layer_norm_eps,
      batch_first = o.batch_first, norm_first = o.norm_first, dtype = o.dtype, device = o.device }
    local norm = { eps = o.layer_norm_eps, bias = o.bias, dtype = o.dtype, device = o.device }
    self.encoder = o.custom_encoder
      or nn.TransformerEncoder(nn.TransformerEncoderLayer(d, heads, layer),
      o.num_encoder_layers or 6,
      nn.LayerNorm(d, norm))
    self.decoder = o.custom_decoder
      or nn.TransformerDecoder(nn.TransformerDecoderLayer(d, heads, layer),
      o.num_decoder_layers or 6,
      nn.LayerNorm(d, norm))
    for _, p in ipairs(self:parameters()) do if p.ndim > 1 then nn.init.xavier_uniform(p) end end
    self.d_model, self.nhead = d, heads
  end
  function nn.Transformer:forward(src, tgt, ...)
    local o = read("Transformer",
      "src_mask tgt_mask memory_mask src_key_padding_mask tgt_key_padding_mask"
      .. " memory_key_padding_mask src_is_causal tgt_is_causal memory_is_causal", "", ...)
    local memory = self.encoder(src, o.src_mask, o.src_key_padding_mask, o.src_is_causal)
    return self.decoder(tgt, memory,
      { tgt_mask = o.tgt_mask, memory_mask = o.memory_mask,
      tgt_key_padding_mask = o.tgt_key_padding_mask,
      memory_key_padding_mask = o.memory_key_padding_mask, tgt_is_causal = o.tgt_is_causal,
      memory_is_causal = o.memory_is_causal })
  end
  --- The mask of a sequence that must not look ahead: 0, and -inf above the diagonal.
  function nn.Transformer.generate_square_subsequent_mask(n, options)
    return flame.full({ n, n }, -math.huge, options):triu(1)
  end
end
