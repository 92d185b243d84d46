--- flame.models: models from folders in Hugging Face's format must compute the same as in PyTorch
--- (spec/peer/models.py); messages for damaged folders.
local flame = require "flame"
local models, nn = require "flame.models", require "flame.nn"
local json = require "flame.models.json"
local cases = require "spec.support.model_cases"
local reference = dofile "spec/nn/models_reference.lua"

local folder
local function write(name, text)
  local f <close> = assert(io.open(folder .. "/" .. name, "wb"))
  f:write(text)
end
local function read(name)
  local f <close> = assert(io.open(folder .. "/" .. name, "rb"))
  return f:read "a"
end
local refused = require("spec.support.helper").refused
local function load(o) return models.from_pretrained(folder, o) end
local function load_refused(message, o) refused(message, function() return load(o) end) end

local function case_of(title)
  for _, case in ipairs(reference) do if case.title == title then return case end end
end
--- Writes the case with this title into the folder; change(weights) may change its weights before.
local function put(title, change)
  local case = case_of(title)
  local weights = cases.weights(case)
  if change then weights = change(weights) or weights end
  cases.write(folder, case.config, weights)
  return case
end
local function ids(rows) return flame.tensor(rows, { dtype = "i64" }) end

before_each(function()
  folder = os.tmpname()
  os.remove(folder)
  assert(flame.internal.io_make_folder(folder))
end)
after_each(function() os.execute("rm -rf '" .. folder .. "'") end)

describe("a model of a folder", function()
  for _, case in ipairs(reference) do
    it(("gives PyTorch's figures: %s"):format(case.title), function()
      put(case.title)
      local got = cases.run(load(), case.given)
      for i, row in ipairs(case.results.logits) do
        assert.equal(#row, #got.logits[i])
        for k, v in ipairs(row) do assert.close(v, got.logits[i][k], 1e-4) end
      end
      for _, how in ipairs { "texts", "alone", "uncached" } do
        if case.results.texts then assert.same(case.results.texts, got[how], how) end
      end
    end)

    it(("has its names, and is saved by them: %s"):format(case.title), function()
      put(case.title)
      local model = load()
      local names = {}
      for _, t in ipairs(case.tensors) do names[t[1]] = table.concat(t, ", ", 2) end
      local own = {}
      for name, x in pairs(model:state_dict()) do own[name] = table.concat(x.shape, ", ") end
      assert.same(names, own)
      for _, most in ipairs { 5e9, 20000 } do
        models.save_pretrained(model, folder .. "/again", { max_shard_size = most })
        local again = models.from_pretrained(folder .. "/again/")
        for name, x in pairs(again:state_dict()) do
          assert.is_true(flame.equal(x, model:state_dict()[name]), name)
        end
        assert.equal(getmetatable(model), getmetatable(again))
      end
    end)
  end

  it("runs in steps with a cache as in one", function()
    for _, title in ipairs { "GPT-2", "Mistral with a window", "Qwen3" } do
      put(title)
      local model = load { dtype = "f64" }
      local x = ids { { 3, 14, 15, 9, 26, 5, 35, 8, 9, 7, 9, 3 },
        { 2, 7, 1, 8, 2, 8, 1, 8, 2, 8, 4, 5 } }
      local mask = flame.ones({ 2, 12 }, { dtype = "bool" })
      mask[{ 2, 1 }], mask[{ 2, 2 }] = false, false
      local whole = model(x, { attention_mask = mask })
      local cache, out = model:cache(2, 15), {}
      for _, part in ipairs { { 1, 5 }, { 6, 1 }, { 7, 4 }, { 11, 2 } } do
        out[#out + 1] = model(x:narrow(2, part[1], part[2]), { cache = cache,
          attention_mask = part[1] == 1 and mask:narrow(2, 1, 5) or nil })
      end
      assert.equal(12, cache.seen)
      assert.allclose(whole[1], flame.cat(out, 2)[1], { rtol = 1e-10, atol = 1e-10 })
      assert.allclose(whole[2]:narrow(1, 3, 10), flame.cat(out, 2)[2]:narrow(1, 3, 10),
        { rtol = 1e-10, atol = 1e-10 })
      assert.allclose(whole:narrow(2, 11, 2),
        model(x, { attention_mask = mask, logits_to_keep = 2 }), { rtol = 1e-12 })
      -- masked positions have no effect
      local other = x:clone()
      other[{ 2, 1 }] = 60
      assert.allclose(whole[2]:narrow(1, 3, 10),
        model(other, { attention_mask = mask })[2]:narrow(1, 3, 10), { rtol = 1e-12 })
    end
  end)

  it("has the dtype that is asked for, whatever the files have", function()
    for _, stored in ipairs { "f16", "bf16", "f64" } do
      put("Qwen2", function(weights)
        for name, x in pairs(weights) do weights[name] = x:to(stored) end
      end)
      for _, dtype in ipairs { "f32", "bf16", "f64" } do
        local model = load { dtype = dtype }
        local w = flame.load(folder .. "/model.safetensors")["model.norm.weight"]
        assert.equal(stored, w.dtype)
        assert.equal(dtype, model.model.norm.weight.dtype)
        assert.is_true(flame.equal(w:to(dtype), model.model.norm.weight:detach()))
        assert.equal(dtype, model(ids { { 1, 2 } }).dtype)
      end
    end
    models.save_pretrained(load { dtype = "bf16" }, folder)
    assert.equal("bfloat16", json.read(read "config.json").torch_dtype)
    assert.equal("bf16", flame.load(folder .. "/model.safetensors")["model.norm.weight"].dtype)
  end)

  it("is found under the names of other programs and times", function()
    local want = put "GPT-2".results.logits[1]
    local function check()
      local got = load()(ids { case_of "GPT-2".given.prompts[1] })[{ 1, -1 }]
      assert.allclose(flame.tensor(want), got, { rtol = 1e-4, atol = 1e-4 })
    end
    -- the base model's names, including its masks
    put("GPT-2", function(weights)
      local out = {}
      for name, x in pairs(weights) do out[name:gsub("^transformer%.", "")] = x end
      out["h.0.attn.bias"] = flame.ones(1, 1, 4, 4)
      return out
    end)
    check()
    put("GPT-2", function(weights)
      weights["lm_head.weight"] = weights["transformer.wte.weight"]
    end)
    check()
    put("BERT for masked words", function(weights)
      local out = {}
      for name, x in pairs(weights) do
        out[name:gsub("LayerNorm%.weight", "LayerNorm.gamma"):gsub("LayerNorm%.bias",
          "LayerNorm.beta")] = x
      end
      out["cls.seq_relationship.weight"] = flame.ones(2, 32)
      out["bert.pooler.dense.bias"] = flame.ones(32)
      return out
    end)
    local got = cases.run(load(), case_of "BERT for masked words".given)
    assert.close(case_of "BERT for masked words".results.logits[1][1], got.logits[1][1], 1e-4)
    -- loads only the encoder of a model that also has a classifier
    put "BERT for classes"
    local model, rest = load { architecture = "BertModel", strict = false }
    assert.same({ "classifier.bias", "classifier.weight" }, rest.unexpected_keys)
    assert.same({}, rest.missing_keys)
    local hidden, pooled = model(ids { { 1, 2, 3 } })
    assert.same({ 1, 3, 32 }, hidden.shape)
    assert.same({ 1, 32 }, pooled.shape)
  end)

  it("shares tied weights, trains with adapters, and is copied", function()
    for _, title in ipairs { "GPT-2", "Qwen2" } do
      put(title)
      local model = load()
      local trunk = model[title == "GPT-2" and "transformer" or "model"]
      assert.equal(model.lm_head.weight, (trunk.wte or trunk.embed_tokens).weight)
      assert.is_false(model.training)
      local x = ids { { 3, 14, 15, 9, 26 }, { 7, 8, 3, 1, 0 } }
      local copy = model:clone()
      assert.is_true(flame.equal(model(x), copy(x)))
      nn.lora.attach(model, { rank = 2,
        targets = title == "GPT-2" and { "c_attn", "c_fc" } or { "q_proj", "up_proj" } })
      local opt = flame.optim.AdamW(model:parameters(), { lr = 0.02 })
      local first, last
      for _ = 1, 15 do
        opt:zero_grad()
        local loss = model:loss(x)
        loss:backward()
        opt:step()
        first, last = first or loss:item(), loss:item()
      end
      assert.is_true(last < first - 0.3)
      refused("save_pretrained: the model has adapters: call nn.lora.merge(model) and nn.lora.remove(model)",
        function() models.save_pretrained(model, folder) end)
      local before = model(x)
      nn.lora.merge(model)
      nn.lora.remove(model)
      models.save_pretrained(model, folder)
      assert.allclose(before, load()(x), { rtol = 1e-4, atol = 1e-4 })
      assert.is_false(flame.equal(before, copy(x)))
    end
  end)

  it("has the loss of the next token, over what the mask shows", function()
    put "GPT-2"
    local model = load { dtype = "f64" }
    local x = ids { { 3, 14, 15, 9 }, { 7, 8, 3, 0 } }
    local mask = ids { { 1, 1, 1, 1 }, { 1, 1, 1, 0 } }
    local logs = model(x, { attention_mask = mask }):log_softmax(3):totable()
    local function of(i, t) return -logs[i][t][x:totable()[i][t + 1] + 1] end
    local want = (of(1, 1) + of(1, 2) + of(1, 3) + of(2, 1) + of(2, 2)) / 5
    assert.close(want, model:loss(x, mask):item(), 1e-9)
  end)

  it("is made of a configuration alone", function()
    local model = models.from_config { model_type = "gpt2", vocab_size = 20, n_embd = 8,
      n_layer = 1, n_head = 2 }
    assert.same({ 1, 2, 20 }, model(ids { { 1, 2 } }).shape)
    assert.matches("^GPT2LMHeadModel%(", tostring(model))
    assert.equal("f16", models.from_config({ model_type = "vit", hidden_size = 8,
      num_hidden_layers = 1, num_attention_heads = 2, intermediate_size = 8 },
      { dtype = "f16" }).classifier.weight.dtype)
    assert.equal(model.transformer.h[0], model:get_submodule "transformer.h.0")
  end)
end)

describe("a folder is refused", function()
  local function change_config(name, value)
    local c = json.read(read "config.json")
    c[name] = value
    write("config.json", json.write(c))
  end

  it("that is none, is empty, or has no weights", function()
    refused("from_pretrained: none/at/all: No such file or directory",
      function() models.from_pretrained "none/at/all" end)
    load_refused(folder .. " has no config.json: give a folder with config.json and model.safetensors")
    write("config.json", '{"model_type": "gpt2"}')
    load_refused("has no model.safetensors and no model.safetensors.index.json")
    write("pytorch_model.bin", "")
    load_refused("convert pytorch_model.bin once with Python")
    write("config.json", '{"model_type": "t5"}')
    load_refused("model_type 't5' is not known, there is: ")
  end)

  it("whose configuration is broken, at every length", function()
    put "Qwen2"
    local text = read "config.json"
    for n = 0, #text - 1 do
      write("config.json", text:sub(1, n))
      load_refused "config.json: "
    end
    write("config.json", "[1]")
    load_refused "config.json is not an object"
    write("config.json", text .. "x")
    load_refused "config.json: text after the end at offset"
    write("config.json", ("["):rep(1000))
    load_refused "nested deeper than 100"
  end)

  it("whose configuration is of nothing known", function()
    put "Qwen2"
    change_config("model_type", "t5")
    load_refused "config.json: model_type 't5' is not known, there is: bert gpt2 llama mistral qwen2 qwen3 vit"
    change_config("model_type", nil)
    load_refused "a model without model_type is not known"
    change_config("model_type", "qwen2")
    change_config("architectures", setmetatable({ "Qwen2ForRewards" }, json.list))
    load_refused "architecture 'Qwen2ForRewards' of qwen2 is not known, there is: Qwen2ForCausalLM Qwen2Model; give architecture = one of them"
    load_refused("architecture 'Bert' of qwen2 is not known", { architecture = "Bert" })
    change_config("architectures", nil)
    assert.equal("Qwen2ForCausalLM", getmetatable(load()).__name)
    change_config("rope_scaling", { rope_type = "yarn", factor = 2 })
    load_refused "rotary positions of type 'yarn' are not known, there is: default linear llama3"
    change_config("rope_scaling", { rope_type = "llama3", factor = 2 })
    load_refused "low_freq_factor is missing"
    change_config("rope_scaling", nil)
    for name, value in pairs { hidden_size = "wide", num_hidden_layers = 0, vocab_size = 1.5,
      tie_word_embeddings = 1, hidden_act = "sine", num_key_value_heads = 3, rms_norm_eps = "x",
      num_attention_heads = 5, sliding_window = false } do
      local old = json.read(read "config.json")[name]
      change_config(name, value)
      if name == "sliding_window" then assert.is_table(load())
      else load_refused(name) end
      change_config(name, old)
    end
    change_config("hidden_size", nil)
    load_refused "config.json: hidden_size is missing, need a positive integer"
  end)

  it("whose tensors do not fit", function()
    put("GPT-2", function(w) w["transformer.h.1.ln_2.bias"] = flame.zeros(31) end)
    load_refused "model.safetensors: transformer.h.1.ln_2.bias is (31), need (32) by config.json"
    put("GPT-2", function(w)
      w["transformer.h.1.ln_2.bias"] = flame.zeros({ 32 }, { dtype = "i64" })
    end)
    load_refused "transformer.h.1.ln_2.bias is i64, need f64, f32, f16 or bf16"
    put("GPT-2", function(w) w["transformer.h.1.ln_2.bias"] = nil end)
    load_refused(folder .. ": missing transformer.h.1.ln_2.bias; give strict = false to go on")
    put("GPT-2", function(w) w["transformer.h.2.ln_2.bias"] = flame.zeros(32) end)
    load_refused "not in the model transformer.h.2.ln_2.bias; give strict = false"
    local _, report = load { strict = false }
    assert.same({ "transformer.h.2.ln_2.bias" }, report.unexpected_keys)
    local file = read "model.safetensors"
    write("model.safetensors", file:sub(1, #file // 2))
    load_refused "model.safetensors: "
    load_refused("no option 'strickt'", { strickt = true })
    load_refused("dtype is i64, need f64, f32, f16 or bf16", { dtype = "i64" })
  end)

  it("of which a part is missing", function()
    put "Qwen2"
    models.save_pretrained(load(), folder, { max_shard_size = 20000 })
    assert.is_nil(io.open(folder .. "/model.safetensors"))
    load()
    local index = read "model.safetensors.index.json"
    local second = "model-00002-of-" .. index:match "model%-00002%-of%-(%d+%.safetensors)"
    assert(os.rename(folder .. "/" .. second, folder .. "/kept"))
    load_refused(("%s has no %s, which model.safetensors.index.json names for "):format(folder,
      second))
    os.rename(folder .. "/kept", folder .. "/" .. second)
    local name = index:match('"([^"]+)": "' .. second:gsub("%-", "%%-"))
    write("model.safetensors.index.json", (index:gsub('"' .. name:gsub("[.%-]", "%%%0") .. '"',
      '"other"')))
    load_refused(("%s has no tensor 'other', which model.safetensors.index.json says it has"):format(
      second))
    write("model.safetensors.index.json",
      (index:gsub(second:gsub("%-", "%%-"), "../x.safetensors")))
    load_refused "'../x.safetensors' is no name of a safetensors file"
    write("model.safetensors.index.json", index:sub(1, -20))
    load_refused "index.json"
  end)

  it("that cannot be written, and what is no model", function()
    put "Qwen2"
    local model = load()
    write("file", "")
    refused("save_pretrained: ", function() models.save_pretrained(model, folder .. "/file") end)
    refused("save_pretrained: a Linear is not a model of flame.models",
      function() models.save_pretrained(nn.Linear(2, 2), folder) end)
    refused("max_shard_size is 0",
      function() models.save_pretrained(model, folder, { max_shard_size = 0 }) end)
  end)
end)

describe("a model's input is refused", function()
  it("where it does not fit", function()
    put "GPT-2"
    local model = load()
    refused("GPT2LMHeadModel: ids has 1 axes, need 2", function() model(ids { 1, 2 }) end)
    refused("ids is f32, need integers", function() model(flame.zeros(1, 2)) end)
    refused("attention_mask has shape (1, 3), ids (1, 2)",
      function() model(ids { { 1, 2 } }, { attention_mask = ids { { 1, 1, 1 } } }) end)
    refused("257 positions, the model has 256 (n_positions)",
      function() model(flame.zeros({ 1, 257 }, { dtype = "i64" })) end)
    local cache = model:cache(2, 3)
    refused("ids are 1 sequences, the cache is for 2",
      function() model(ids { { 1 } }, { cache = cache }) end)
    model(ids { { 1, 2 }, { 3, 4 } }, { cache = cache })
    refused("2 positions after 2 do not fit a cache of 3; make a longer one",
      function() model(ids { { 1, 2 }, { 3, 4 } }, { cache = cache }) end)
    refused("length is 0", function() model:cache(1, 0) end)
    refused("ids have 1 positions, need at least 2", function() model:loss(ids { { 1 } }) end)
    refused("61", function() return model(ids { { 61 } }):totable() end)
    put "BERT"
    refused("33 positions, the model has 32", function()
      load()(flame.zeros({ 1, 33 }, { dtype = "i64" }))
    end)
    put "ViT"
    refused("pixel_values has shape (1, 3, 12, 13), need (batch, 3, 12, 12)",
      function() load()(flame.zeros(1, 3, 12, 13)) end)
  end)
end)

describe("JSON", function()
  it("is read as its grammar says, and written so that it is read again", function()
    local v = json.read ' {"a": [1, -2.5e3, true, null, "x\\u00e9\\n\\ud83d\\ude00\\/"], "b": {}, "c": []} '
    assert.same({ 1, -2500.0, true, json.null, "xé\n😀/" }, setmetatable(v.a, nil))
    v.a = setmetatable(v.a, json.list)
    local again = json.read(json.write(v))
    assert.equal(json.null, again.a[4])
    assert.equal("xé\n😀/", again.a[5])
    assert.equal(json.list, getmetatable(again.c))
    assert.is_nil(getmetatable(again.b))
    assert.equal("float", math.type(json.read(json.write { x = 2.0 }).x))
    assert.equal(0.1 + 0.2, json.read(json.write { x = 0.1 + 0.2 }).x)
    for _, text in ipairs { "", "{", "[1,]", '{"a"}', '{"a":1,}', "01", "1.", "tru", '"a', '"\\x"',
      '"\n"', "{a:1}", "[1 2]", "1 2", '"\\u12"', "-", "+1", ".5", "1e" } do
      local value, what, at = json.read(text)
      assert.is_nil(value, text)
      assert.is_string(what)
      assert.equal("integer", math.type(at))
    end
  end)
end)
