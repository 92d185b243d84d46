-- Fine-tunes a language model on a text with low-rank adapters (LoRA), and saves the adapters.
--   flame-lua examples/lora.lua [--model FOLDER] [--text FILE] [--out FILE.safetensors] …
-- FOLDER has Hugging Face's format. Without it a small model of bytes is trained first, on licence
-- texts of the system. Then only adapters are trained, on FILE or this file. --help: all options.
local flame = require "flame"
local nn, optim, data = require "flame.nn", require "flame.optim", require "flame.data"
local models = require "flame.models"

local options = data.options(arg, {
  { "model", "", "folder with config.json, weights and tokenizer.json" },
  { "text", "", "file to learn; default: this one" },
  { "device", "auto", "auto, cpu or cuda" },
  { "base", 200, "steps of the small model before the adapters" },
  { "steps", 100, "steps of the adapters" },
  { "batch", 8, "sequences a step" },
  { "context", 64, "tokens of a sequence" },
  { "rank", 8, "of the adapters" },
  { "targets", "", "pattern of the layers' names; default: all linear layers of the blocks" },
  { "rate", 5e-3, "learning rate" },
  { "seed", 1, "of the random numbers" },
  { "out", "", "write the adapters here" },
  { "sample", 60, "tokens to write at the end" },
})
local device = options.device == "auto" and flame.best_device() or options.device
flame.default_device(device)
flame.seed(options.seed)

-- ---- tokens: ids from 0 -------------------------------------------------------------------------

--- The tokenizer without a folder: each byte is a token.
local tokenizer = {}
function tokenizer:encode(text) return flame.from_bytes(text, { #text }, "u8"):long() end
function tokenizer:decode(ids)
  local out = {}
  for i, id in ipairs(ids:totable()) do out[i] = id < 256 and string.char(id) or "" end
  return table.concat(out)
end
local function read(path)
  local f <close> = assert(io.open(path, "rb"))
  return f:read "a"
end

--- The tokens of a text: nine tenths to learn from, and the rest, which is held back for a test.
local function parts_of(text)
  local ids = tokenizer:encode(text):to(device)
  local n = #ids * 9 // 10
  if #ids - n <= options.context then
    error(("the text has %d tokens, need %d"):format(#ids, 10 * (options.context + 1)), 0)
  end
  return ids:narrow(1, 1, n), ids:narrow(1, n + 1, #ids - n)
end
local offsets = flame.arange(options.context + 1):reshape(1, -1) - 1
--- Sequences of context + 1 tokens that start at the given positions.
local function sequences(ids, starts) return ids[starts:reshape(-1, 1) + offsets] end
local function random(ids)
  return sequences(ids, flame.randint({ options.batch }, 1, #ids - options.context))
end
--- The mean loss over the first sequences of the held-back part, at most 16.
local function held_loss(model, held)
  local count = math.min(16, (#held - 1) // options.context)
  local starts = (flame.arange(count) - 1) * options.context + 1
  return flame.no_grad(function() return model:loss(sequences(held, starts)):item() end)
end

local function train(model, ids, steps, rate, what)
  local opt = optim.AdamW(model:parameter_groups { {} }, { lr = rate, weight_decay = 0 })
  local progress = data.progress { steps = steps }
  model:train()
  for step = 1, steps do
    opt:zero_grad()
    local loss = model:loss(random(ids))
    loss:backward()
    optim.clip_grad_norm(model:parameters(), 1.0)
    opt:step()
    if step == steps then progress:line(step, ("%s: loss %.3f"):format(what, loss:item()))
    else progress:tick(step, loss) end
  end
  model:eval()
end

-- ---- the model ----------------------------------------------------------------------------------

local model
if options.model ~= "" then
  model = models.from_pretrained(options.model)
  local file = io.open(options.model .. "/tokenizer.json")
  if file then
    file:close()
    tokenizer = require "flame.tokenizers".load(options.model .. "/tokenizer.json")
  end
else
  model = models.from_config { model_type = "llama", vocab_size = 256, hidden_size = 64,
    intermediate_size = 160, num_hidden_layers = 2, num_attention_heads = 4,
    num_key_value_heads = 2, tie_word_embeddings = true }
  for _, p in ipairs(model:parameters()) do if p.ndim == 2 then nn.init.normal(p, 0, 0.05) end end
  if options.base > 0 then
    local text = data.text(data.licences())
    train(model, (parts_of(text.decode(text.ids))), options.base, 3e-3, "licences")
  end
end

-- ---- the adapters -------------------------------------------------------------------------------

local ids, held = parts_of(read(options.text ~= "" and options.text or arg[0]))
local before = held_loss(model, held)
nn.lora.attach(model, { rank = options.rank,
  targets = options.targets ~= "" and options.targets or { "_proj$", "c_attn$", "c_fc$" } })
local trained = 0
for _, p in ipairs(model:parameters()) do
  if p.requires_grad then trained = trained + p:numel() end
end
print(("%d parameters, %d of them in adapters, %d tokens"):format(model:count(), trained, #ids))
train(model, ids, options.steps, options.rate, "adapters")
print(("held-back loss %.3f before, %.3f after"):format(before, held_loss(model, held)))
if options.out ~= "" then
  flame.save(options.out, nn.lora.state_dict(model))
  print("adapters in " .. options.out)
end
if options.sample > 0 then
  nn.lora.merge(model)
  local start = held:narrow(1, 1, 16)
  print("--- sample ---\n" .. tokenizer:decode(start) .. tokenizer:decode(flame.generate(model,
    start, options.sample, { temperature = 0.8, top_k = 40, seed = options.seed })))
end
