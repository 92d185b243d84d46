--- Models with weights in folders of Hugging Face's form: config.json with model.safetensors, or
-- with several such files and model.safetensors.index.json. GPT-2, Llama, Mistral, Qwen2, Qwen3,
-- BERT and ViT. models/files.lua reads and writes folders; models/generate.lua has flame.generate.
--
-- Names in state_dict() and ids are Hugging Face's, so both count from 0 here.
local flame = require "flame"
local nn = require "flame.nn"
local parts = require "flame.models.parts"
local internal = flame.internal
local objects = require "flame.base.objects"
local fail = parts.fail

local models = {}
local function declare(text, f) models[text:match("^([%w_]+)")] = internal.declare(text, "", f) end

-- ---- decoders -----------------------------------------------------------------------------------
--- Makes a decoder's classes with these names: 'base' gives hidden states, 'causal' tokens' scores.
local function decoder(kind, base, causal)
  local Base = nn.Module.extend(base, kind.Trunk)
  local signature = [[(ids: T, attention_mask?: T, cache?: ModelCache, logits_to_keep: int = 0)
    -> T]]
  internal.module_call(Base, "(ids: T, attention_mask?: T, cache?: ModelCache) -> T",
    function(self, ids, mask, cache) return self:hidden(base, ids, mask, cache) end)
  function Base:init(c, as) kind.Trunk.init(self, c, as, kind.own or {}) end

  local Causal = nn.Module.extend(causal, models.CausalLM)
  function Causal:init(c, as)
    self[kind.prefix] = Base(c, as)
    self.lm_head = nn.Linear(c:int(kind.width or "hidden_size"), c:int "vocab_size",
      { bias = false, device = as.device, dtype = as.dtype })
    if c:flag("tie_word_embeddings", kind.tied) then
      self.lm_head.weight = self[kind.prefix][kind.table_of].weight
    end
    rawset(self, "trunk", kind.prefix)
  end
  internal.module_call(Causal, signature, function(self, ids, mask, cache, keep)
    if keep < 0 then fail(causal, "logits_to_keep is %d, need 0 (all) or more", keep) end
    local x = self[self.trunk]:hidden(causal, ids, mask, cache)
    local t = x:size(2)
    return self.lm_head(keep > 0 and keep < t and x:narrow(2, t - keep + 1, keep) or x)
  end)
  return { [base] = Base, [causal] = Causal }
end

---@class flame.CausalLM: flame.Module
--- A model that scores the next token: model(ids, {attention_mask, cache, logits_to_keep}) gives
--- (batch, time, vocabulary).
local CausalLM = nn.Module.extend("CausalLM")
models.CausalLM = CausalLM
objects.classes.CausalLM = CausalLM

--- Memory for the keys and values of 'length' positions of a batch in all layers. Each call
--- model(ids, {cache = cache}) continues after those of the last call. No gradient goes through it.
CausalLM.cache = internal.declare("CausalLM:cache(batch: int, length: int) -> ModelCache", "",
  function(self, batch, length)
    for name, n in pairs { batch = batch, length = length } do
      if n < 1 then fail("cache", "%s is %d, need a positive integer", name, n) end
    end
    return parts.cache(batch, length, self[self.trunk]:layer_caches(batch, length))
  end)
--- The mean loss of the next token over the positions that have one, for training. ids and
--- attention_mask (batch, time).
CausalLM.loss = internal.declare("CausalLM:loss(ids: T, attention_mask?: T) -> T", "",
  function(self, ids, mask)
    parts.need_ids("loss", "ids", ids)
    mask = parts.need_mask("loss", mask, ids)
    local t = ids:size(2)
    if t < 2 then fail("loss", "ids have %d positions, need at least 2", t) end
    local logits = self(ids, { attention_mask = mask }):narrow(2, 1, t - 1)
    local next_ids = ids:narrow(2, 2, t - 1) + 1
    if mask then next_ids = next_ids:masked_fill(mask:narrow(2, 2, t - 1):logical_not(), -100) end
    return flame.cross_entropy(logits:reshape(-1, logits:size(3)), next_ids:reshape(-1),
      { ignore_index = -100 })
  end)

-- ---- the known models --------------------------------------------------------------------------
--- model_type -> {prefix, usual, architectures}: the field with the base model in classes with a
--- head, the class for a configuration that names none, and the classes by name.
local function known_kinds()
  local kinds = require "flame.models.llama"(parts)
  kinds.gpt2 = require "flame.models.gpt2"(parts)
  for name, titles in pairs { gpt2 = { "GPT2Model", "GPT2LMHeadModel" },
    llama = { "LlamaModel", "LlamaForCausalLM" },
    mistral = { "MistralModel", "MistralForCausalLM" },
    qwen2 = { "Qwen2Model", "Qwen2ForCausalLM" }, qwen3 = { "Qwen3Model", "Qwen3ForCausalLM" } } do
    local kind = kinds[name]
    kind.architectures, kind.usual = decoder(kind, titles[1], titles[2]), titles[2]
  end
  kinds.bert = require "flame.models.bert"(parts)
  kinds.vit = require "flame.models.vit"(parts)
  return kinds
end
local KINDS <const> = known_kinds()

local function names_of(t)
  local list = {}
  for name in pairs(t) do list[#list + 1] = name end
  table.sort(list)
  return table.concat(list, " ")
end
--- The entry of KINDS for configuration c and the name of its class; raises if one is not known.
local function kind_of(c, architecture)
  local model_type = c:get "model_type"
  local kind = type(model_type) == "string" and KINDS[model_type]
  if not kind then
    c:fail("%s is not known, there is: %s", model_type == nil and "a model without model_type"
      or "model_type '" .. tostring(model_type) .. "'", names_of(KINDS))
  end
  local list = c:get "architectures"
  local name = architecture or type(list) == "table" and list[1] or kind.usual
  if not kind.architectures[name] then
    c:fail("architecture '%s' of %s is not known, there is: %s%s", tostring(name), model_type,
      names_of(kind.architectures), architecture and "" or "; give architecture = one of them")
  end
  return kind, name
end

--- A new model from configuration c, in evaluation mode, and its entry of KINDS.
local function build(c, o)
  local kind, name = kind_of(c, o.architecture)
  local as = { device = o.device, dtype = o.dtype or "f32" }
  if as.dtype ~= "f64" and as.dtype ~= "f32" and as.dtype ~= "f16" and as.dtype ~= "bf16" then
    fail(c.op, "dtype is %s, need f64, f32, f16 or bf16", as.dtype)
  end
  local model = kind.architectures[name](c, as)
  rawset(model, "config", c.values)
  rawset(model, "kind", kind)
  return model:eval(), kind
end

--- A model with random weights made from a configuration, a table with the names of config.json
--- such as {model_type = "gpt2", vocab_size = 100, n_embd = 32, n_layer = 2, n_head = 2}, in
--- evaluation mode (call train() to train it). architecture: the class, if not the configuration's.
declare([[from_config(config: table, *, architecture?: str, device?: device, dtype: dtype = "f32")
  -> Module]], function(config, architecture, device, dtype)
    local own = {}
    for key, v in pairs(config) do own[key] = v end
    return (build(parts.config("from_config", "config", own),
      { architecture = architecture, device = device, dtype = dtype }))
  end)

local files = require "flame.models.files"(parts, kind_of, build)

--- The model in a folder of Hugging Face's form, with its weights converted to dtype, in evaluation
--- mode. architecture: the class, such as "BertModel", if not that of config.json. strict = false:
--- names that only the files or only the model have are not an error; they are the second result,
--- {missing_keys, unexpected_keys}.
declare([[from_pretrained(folder: str, *, architecture?: str, strict = true, device?: device,
  dtype: dtype = "f32") -> Module, table]], function(folder, architecture, strict, device, dtype)
    return files.load(folder, { architecture = architecture, strict = strict, device = device,
      dtype = dtype })
  end)

--- Writes a model into a folder in Hugging Face's form, which the library transformers reads:
--- config.json and safetensors files of at most max_shard_size bytes. A missing folder is made.
declare("save_pretrained(model: Module, folder: str, *, max_shard_size = 5e9)",
  function(model, folder, most) files.save(model, folder, most) end)

require "flame.models.generate"(parts, models)

return objects.namespace(models, "models")
