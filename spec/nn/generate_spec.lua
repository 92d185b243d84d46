--- flame.generate: how tokens are chosen, where sequences end, and calls of the option 'stream'.
local flame = require "flame"
local models, nn = require "flame.models", require "flame.nn"
local machine = require "spec.support.machine"

local refused = require("spec.support.helper").refused

--- The number that a script prints on the simulated GPU, or on 'device'.
local function on_no_gpu(script, device)
  local folder <close> = setmetatable({ at = machine.new() },
    { __close = function(f) machine.remove(f.at) end })
  local text = machine.run(folder.at, script, device and "FLAME_DEVICE=" .. device)
  return tonumber(text) or error(text)
end

local function random_model(kind)
  flame.seed(5)
  local model = models.from_config(kind == "gpt2"
    and { model_type = "gpt2", vocab_size = 61, n_embd = 24, n_layer = 2, n_head = 3,
      n_positions = 300 }
    or { model_type = "llama", vocab_size = 61, hidden_size = 24, intermediate_size = 40,
      num_hidden_layers = 2, num_attention_heads = 6, num_key_value_heads = 2 })
  flame.no_grad(function()
    for _, p in ipairs(model:parameters()) do if p.ndim > 1 then p:normal_(0, 0.5) end end
  end)
  return model
end

--- A model with scripted output: texts[i] has the ids of sequence i after the first 'from' ones.
local Scripted = nn.Module.extend("Scripted", models.CausalLM)
function Scripted:init(texts, from, size)
  rawset(self, "texts", texts)
  rawset(self, "from", from)
  rawset(self, "size", size)
  rawset(self, "config", {})
  self.lm_head = nn.Linear(1, size)
end
function Scripted:cache() return { seen = 0 } end
function Scripted:forward(ids, o)
  local seen = ids:size(2)
  if o.cache then
    o.cache.seen = o.cache.seen + seen
    seen = o.cache.seen
  end
  local rows = {}
  for i = 1, ids:size(1) do
    rows[i] = {}
    for k = 1, self.size do
      rows[i][k] = k - 1 == (self.texts[i][seen - self.from + 1] or 0) and 9 or -9
    end
  end
  return flame.tensor { rows }:transpose(1, 2)
end
--- A tokenizer with bytes as ids.
local bytes = {}
function bytes:encode(text) return flame.tensor({ text:byte(1, -1) }, { dtype = "i64" }) end
function bytes:stream()
  local open = ""
  return { put = function(_, id)
    open = open .. string.char(id)
    if not utf8.len(open) then return "" end
    local piece = open
    open = ""
    return piece
  end, finish = function() return open end }
end
local function says(...)
  local texts = {}
  for i, text in ipairs { ... } do texts[i] = { text:byte(1, -1) } end
  return Scripted(texts, 1, 256)
end

describe("generate", function()
  it("takes the likeliest tokens, with a cache as without, alone as in a batch", function()
    for _, kind in ipairs { "gpt2", "llama" } do
      local model = random_model(kind)
      local prompts = { { 1, 5, 9 }, { 7 }, { 3, 1, 4, 1, 5, 9, 2, 6 } }
      local batch = flame.generate(model, prompts, 200)
      for i, p in ipairs(prompts) do
        local ids = flame.tensor({ p }, { dtype = "i64" })
        local want = {}
        flame.no_grad(function()
          for n = 1, 30 do
            want[n] = model(ids)[{ 1, -1 }]:argmax():item() - 1
            ids = flame.cat({ ids, flame.tensor({ { want[n] } }, { dtype = "i64" }) }, 2)
          end
        end)
        local own = flame.generate(model, p, 200)
        assert.equal("i64", own.dtype)
        assert.same({ 200 }, own.shape)
        assert.same(want, own:narrow(1, 1, 30):totable())
        assert.is_true(flame.equal(own, batch[i]))
        assert.is_true(flame.equal(own, flame.generate(model, p, 200, { cache = false })))
        assert.is_true(flame.equal(own, flame.generate(model,
          flame.tensor(p, { dtype = "i64" }), 200)))
      end
      -- one tensor (batch, time); attention_mask hides padding on either side
      local ids = flame.tensor({ { 1, 5, 9, 0 }, { 0, 0, 0, 7 } }, { dtype = "i64" })
      local mask = flame.tensor({ { 1, 1, 1, 0 }, { 0, 0, 0, 1 } }, { dtype = "i64" })
      local masked = flame.generate(model, ids, 20, { attention_mask = mask })
      for i = 1, 2 do
        assert.is_true(flame.equal(batch[i]:narrow(1, 1, 20), masked[i]))
      end
    end
  end)

  it("draws by weight, from the likeliest only where it is told so", function()
    local model = random_model "llama"
    local scores = model(flame.tensor({ { 1, 5, 9 } }, { dtype = "i64" }))[{ 1, -1 }]:detach()
    local function drawn(o)
      local many, counts = {}, {}
      for i = 1, 4000 do many[i] = { 1, 5, 9 } end
      o.seed = 3
      for _, x in ipairs(flame.generate(model, many, 1, o)) do
        local id = x:item()
        counts[id] = (counts[id] or 0) + 1
      end
      return counts
    end
    local order, at = {}, {}
    local function shares(temperature, keep)
      local p, sum = (scores / temperature):softmax(1):totable(), 0
      for k in ipairs(p) do order[k] = k end
      table.sort(order, function(a, b) return p[a] > p[b] end)
      for n, k in ipairs(order) do at[k] = n end
      local before = 0
      for _, k in ipairs(order) do
        local v = p[k]
        if not keep(at[k], before, v / p[order[1]]) then p[k] = 0 end
        before, sum = before + v, sum + p[k]
      end
      for k in ipairs(p) do p[k] = p[k] / sum end
      return p
    end
    for _, case in ipairs {
      { { temperature = 1 }, function() return true end },
      { { temperature = 0.5 }, function() return true end },
      { { temperature = 1.5, top_k = 4 }, function(n) return n <= 4 end },
      { { temperature = 1, top_p = 0.6 }, function(_, before) return before < 0.6 end },
      { { temperature = 1, min_p = 0.3 }, function(_, _, share) return share >= 0.3 end },
    } do
      local o, keep = case[1], case[2]
      local p, counts = shares(o.temperature, keep), drawn(o)
      for k, share in ipairs(p) do
        local n = counts[k - 1] or 0
        if share == 0 then assert.equal(0, n) end
        assert.close(share, n / 4000, 5 * math.sqrt(share * (1 - share) / 4000) + 3 / 4000)
      end
    end
    -- of the four likeliest tokens, those that together have half of the four's probability
    local counts, p = drawn { temperature = 1, top_k = 4, top_p = 0.5 }, shares(1,
      function(n) return n <= 4 end)
    local before = 0
    for _, k in ipairs(order) do
      assert.equal(p[k] > 0 and before < 0.5, counts[k - 1] ~= nil)
      before = before + p[k]
    end
  end)

  it("draws the same with the same seed, and leaves the script's draws alone", function()
    local model = random_model "gpt2"
    local function text(seed) return flame.generate(model, { 3, 4 }, 20,
      { temperature = 1, seed = seed }):totable() end
    flame.seed(9)
    local a = text(1)
    local own = flame.rand(3):totable()
    flame.seed(9)
    assert.same(own, flame.rand(3):totable())
    assert.same(a, text(1))
    assert.is_not.same(a, text(2))
    flame.seed(4)
    local free = text()
    assert.is_not.same(free, text())
    flame.seed(4)
    assert.same(free, text())
  end)

  it("makes tokens that came before less likely", function()
    local model = random_model "llama"
    local plain = flame.generate(model, { 1, 5, 9 }, 40):totable()
    local other = flame.generate(model, { 1, 5, 9 }, 40, { repetition_penalty = 1e9 }):totable()
    local function different(list)
      local seen, n = {}, 0
      for _, id in ipairs(list) do
        if not seen[id] then n = n + 1 end
        seen[id] = true
      end
      return n
    end
    assert.equal(40, different(other))
    assert.is_true(different(plain) < 40)
    for _, id in ipairs(other) do assert.is_true(id ~= 1 and id ~= 5 and id ~= 9) end
    assert.same(plain, flame.generate(model, { 1, 5, 9 }, 40, { repetition_penalty = 1 }):totable())
    -- by the formula, for one token
    local ids = flame.tensor({ { 1, 5, 9 } }, { dtype = "i64" })
    local s = model(ids)[{ 1, -1 }]:totable()
    for _, k in ipairs { 2, 6, 10 } do s[k] = s[k] < 0 and s[k] * 3 or s[k] / 3 end
    assert.equal(flame.tensor(s):argmax():item() - 1,
      flame.generate(model, ids, 1, { repetition_penalty = 3 })[1]:item())
  end)

  it("ends at ids and words, and gives texts for texts", function()
    local model = says "hello world. and more"
    local o = { tokenizer = bytes, stop = { "wor", "ll" } }
    assert.equal("he", flame.generate(model, "x", 50, o))
    assert.same({ "he" }, flame.generate(model, { "x" }, 50, o))
    assert.equal("hello", flame.generate(model, "x", 50, { tokenizer = bytes, stop = 32 }))
    assert.equal("hello ", flame.generate(model, "x", 6, { tokenizer = bytes }))
    assert.same({ 104, 101 }, flame.generate(model, { 120 }, 50, { stop = { 108 } }):totable())
    assert.same({ 0 }, flame.generate(model, { 120 }, 50, { stop = 104 }).shape)
    rawset(model, "config", { eos_token_id = { 99, 46 } })
    assert.equal("hello world", flame.generate(model, "x", 50, { tokenizer = bytes }))
    assert.equal("hello world. an",
      flame.generate(model, "x", 15, { tokenizer = bytes, stop = {} }))
  end)

  it("streams characters when they are whole, and no beginnings of stop words", function()
    local model = says("añ中😀 stop it", "abcdefgh stop")
    local pieces, texts = { {}, {} }, nil
    local function stream(piece, i) table.insert(pieces[i], piece) end
    texts = flame.generate(model, { "x", "y" }, 50, { tokenizer = bytes, stop = "stop it",
      stream = stream, cache = false })
    assert.equal("añ中😀 ", texts[1])
    assert.same({ "a", "ñ", "中", "😀", " " }, pieces[1])
    assert.equal(texts[2], table.concat(pieces[2]))
    assert.equal("abcdefgh stop", texts[2]:sub(1, 13))
    for _, piece in ipairs(pieces[2]) do assert.is_true(#piece == 1 or piece:find "stop" ~= nil) end
    -- bytes of a character that is incomplete are returned at the end of the sequence
    assert.equal("a\xC3", flame.generate(model, "x", 2, { tokenizer = bytes }))
    -- without a tokenizer stream gets ids; returning false ends all sequences
    local ids = {}
    local out = flame.generate(model, { { 1 }, { 2 } }, 50, { stream = function(id, i)
      ids[#ids + 1] = { id, i }
      return #ids < 3
    end })
    assert.same({ { 97, 1 }, { 97, 2 }, { 195, 1 } }, ids)
    assert.same({ 97, 195 }, out[1]:totable())
  end)

  it("runs in the mode of use, and gives back the mode that was", function()
    local model = random_model "gpt2"
    local want = flame.generate(model, { 1, 2 }, 20):totable()
    model:train()
    model.transformer.h[1].attn:eval()
    assert.same(want, flame.generate(model, { 1, 2 }, 20):totable())
    assert.is_true(model.training and model.transformer.h[0].attn.training)
    assert.is_false(model.transformer.h[1].attn.training)
    pcall(flame.generate, model, { 1 }, 2, { stream = function() error "x" end })
    assert.is_true(model.training)
  end)

  it("has the same plan for each token", function()
    local model = random_model "llama"
    flame.generate(model, { 1, 2, 3 }, 100)
    flame.stats "reset"
    flame.generate(model, { 1, 2, 3 }, 100)
    local plans, hits = flame.stats().plans, flame.stats().hits
    assert.is_true(plans <= 2 and hits >= 98, ("%d plans, %d times found"):format(plans, hits))
  end)

  it("has the same plans for calls of nearly the same length", function()
    local model = random_model "llama"
    flame.generate(model, { 1, 2, 3 }, 30)
    flame.stats "reset"
    flame.generate(model, { 1, 2, 3 }, 61)
    assert.equal(0, flame.stats().plans)
    flame.generate(model, { 1, 2, 3 }, 260)
    assert.is_true(flame.stats().plans > 0)
  end)

  it("runs the steps of a GPU as graphs, although handles wait for the collector", function()
    assert.is_true(on_no_gpu [[
      local model = require "flame.models".from_config { model_type = "llama", vocab_size = 61,
        hidden_size = 24, intermediate_size = 40, num_hidden_layers = 2, num_attention_heads = 6 }
      flame.generate(model, { 1, 2, 3 }, 40)
      io.write(flame.stats().replays)]] >= 30)
  end)

  it("draws on a GPU as often as on the CPU, although it works ahead", function()
    local script = [[
      local model = require "flame.models".from_config({ model_type = "llama", vocab_size = 61,
        hidden_size = 24, intermediate_size = 40, num_hidden_layers = 1, num_attention_heads = 6 })
      flame.seed(3)
      flame.generate(model, { 1, 2 }, 9, { temperature = 1, stream = function() return false end })
      io.write(flame.rng_state().counter)]]
    assert.equal(on_no_gpu(script, "cpu"), on_no_gpu(script))
  end)

  it("refuses scores that are not numbers, greedy and drawn", function()
    local model = random_model "llama"
    flame.no_grad(function() model.lm_head.weight:fill_(0 / 0) end)
    for _, o in ipairs { {}, { temperature = 1 }, { temperature = 1, top_k = 3 },
      { temperature = 1, top_p = 0.5 }, { repetition_penalty = 2 }, { cache = false } } do
      refused("the scores after token 0 of sequence 1 are NaN or infinite", flame.generate, model,
        { { 1, 2 }, { 3 } }, 4, o)
    end
  end)

  it("refuses what it can not use", function()
    local model = random_model "gpt2"
    local function gives(message, ...)
      local args = table.pack(...)
      refused(message, function()
        return flame.generate(table.unpack(args, 1, args.n))
      end)
    end
    gives("generate: model is a Linear, need a model of flame.models that scores the next token",
      nn.Linear(2, 2), { 1 })
    gives("generate: model is", 3, { 1 })
    gives("ids is a text: give tokenizer = one", model, "hello")
    gives("ids has no sequences", model, {})
    gives("sequence 2 has no tokens, need at least 1", model, { { 1 }, {} })
    gives("sequence 1 has id 61, the model has 0 to 60", model, { 1, 61 })
    gives("sequence 1 has id -1", model, { -1 })
    gives("sequence 1 has id 1.5", model, { 1.5 })
    gives("ids must be ids or a text, got boolean", model, true)
    gives("ids[1] must be ids or a text, got boolean", model, { true })
    gives("ids is f32, need integers", model, flame.ones(3))
    gives("ids has 3 axes, need 1 or 2", model, flame.ones({ 1, 2, 3 }, { dtype = "i64" }))
    gives("attention_mask needs ids of 2 axes", model, { 1 }, { attention_mask = flame.ones(1, 1) })
    gives("attention_mask has shape (1, 3), ids (1, 2)", model, flame.ones({ 1, 2 },
      { dtype = "i64" }), { attention_mask = flame.ones(1, 3) })
    gives("10 tokens and 291 new ones do not fit the model's 300 positions", model,
      { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 }, 291)
    gives("max_new_tokens is 0, need at least 1", model, { 1 }, 0)
    gives("temperature is -1", model, { 1 }, { temperature = -1 })
    gives("top_p is 1.5, need a number above 0, at most 1", model, { 1 },
      { temperature = 1, top_p = 1.5 })
    gives("min_p is 0", model, { 1 }, { temperature = 1, min_p = 0 })
    gives("top_k is 0, need at least 1", model, { 1 }, { temperature = 1, top_k = 0 })
    gives("top_k has no effect at temperature 0; give temperature = 1", model, { 1 }, { top_k = 3 })
    gives("repetition_penalty is 0", model, { 1 }, { repetition_penalty = 0 })
    gives("stop[1] is a text: give tokenizer = one", model, { 1 }, { stop = "x" })
    gives("stop[2] is boolean, need an id or a text", model, { 1 }, { stop = { 1, true } })
    gives("no option 'top_q'", model, { 1 }, { top_q = 1 })
  end)
end)
