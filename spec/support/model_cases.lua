--- For comparing models with transformers: makes weights from seeds, writes model folders with
-- them, and runs a model on given inputs. Used by spec/nn/models_spec.lua and spec/peer/models.lua;
-- spec/peer/models.py makes the same weights with the same formulas.
local flame = require "flame"

local cases = {}

--- n numbers from -1 to 1: 32-bit hashes of 1, 2, … and the seed.
function cases.values(seed, n)
  local out = {}
  for i = 1, n do
    local h = (i * 2654435761 + seed * 97) & 0xFFFFFFFF
    h = ((h ~ (h >> 15)) * 2246822519) & 0xFFFFFFFF
    h = ((h ~ (h >> 13)) * 3266489917) & 0xFFFFFFFF
    out[i] = (h ~ (h >> 16)) / 2 ^ 31 - 1
  end
  return out
end

local function is_norm(name)
  return name:find "norm%.weight$" or name:find "LayerNorm%.weight" or name:find "layernorm"
    or name:find "%.ln_"
end
--- A weight of this shape: the seed gives its values, its name and its shape give their scale.
function cases.weight(seed, name, shape, gain)
  local n = 1
  for _, k in ipairs(shape) do n = n * k end
  local v = flame.tensor(cases.values(seed, n), { dtype = "f64" }):reshape(shape)
  if #shape == 1 then
    v = v * 0.2 + (is_norm(name) and name:find "weight$" and 1 or 0)
  elseif name:find "embed" or name:find "wte" or name:find "wpe" or name:find "cls_token$" then
    v = v * 0.8
  else
    local fan = #shape == 4 and n // shape[1] or math.min(table.unpack(shape))
    v = v * (gain / math.sqrt(fan))
  end
  return v:to("f32")
end

--- The weights of a case as name -> tensor. case: { seed =, tensors = { { name, sizes… }, … } }.
function cases.weights(case)
  local out = {}
  for i, t in ipairs(case.tensors) do
    out[t[1]] = cases.weight(case.seed * 1000 + i, t[1], { table.unpack(t, 2) }, 2.0)
  end
  return out
end

--- Writes a model folder: config.json with the text 'config', and one file of weights.
function cases.write(folder, config, weights)
  local f <close> = assert(io.open(folder .. "/config.json", "wb"))
  f:write(config)
  local names, list = {}, {}
  for name in pairs(weights) do names[#names + 1] = name end
  table.sort(names)
  for i, name in ipairs(names) do list[i] = weights[name] end
  flame.internal.io_save(folder .. "/model.safetensors", names, list, { "format" }, { "pt" })
end

local function ids(rows) return flame.tensor(rows, { dtype = "i64" }) end
local function flat(x) return x:detach():double():reshape(-1):totable() end
local function lists(tensors)
  local out = {}
  for i, x in ipairs(tensors) do out[i] = x:totable() end
  return out
end

--- Runs BERT on a padded batch. Gives each prompt's hidden states and the pooled one, or scores.
local function run_bert(model, given)
  local longest, rows, mask, types, out = 0, {}, {}, {}, {}
  for _, p in ipairs(given.prompts) do longest = math.max(longest, #p) end
  for i, p in ipairs(given.prompts) do
    rows[i], mask[i], types[i] = {}, {}, {}
    for k = 1, longest do
      rows[i][k], mask[i][k], types[i][k] = p[k] or 0, p[k] and 1 or 0, given.types[i][k] or 0
    end
  end
  local y, pooled = model(ids(rows), { attention_mask = ids(mask), token_type_ids = ids(types) })
  for i, p in ipairs(given.prompts) do
    local own = y[i]
    if own.ndim == 2 then own = own:narrow(1, 1, #p) end
    out[i] = flat(own)
    if pooled then table.move(flat(pooled[i]), 1, pooled:size(2), #out[i] + 1, out[i]) end
  end
  return { logits = out }
end

--- The results of a model for one of three kinds of input. given.pixels: a seed for two images.
--- given.prompts and types: a batch for BERT. given.prompts and new: each prompt's last logits, and
--- 'new' tokens generated for it alone, in a padded batch, and in that batch without a cache.
function cases.run(model, given)
  if given.pixels then
    local c = model.config
    local n = 2 * c.num_channels * c.image_size ^ 2 // 1 | 0
    local x = flame.tensor(cases.values(given.pixels, n)):reshape(2, c.num_channels, c.image_size,
      c.image_size)
    local y = model(x)
    return { logits = { flat(y[1]), flat(y[2]) } }
  end
  if given.types then return run_bert(model, given) end
  local out = { logits = {}, alone = {}, uncached = {} }
  for i, p in ipairs(given.prompts) do
    out.logits[i] = flat(model(ids { p })[{ 1, -1 }])
    out.alone[i] = flame.generate(model, p, given.new):totable()
  end
  out.texts = lists(flame.generate(model, given.prompts, given.new))
  out.uncached = lists(flame.generate(model, given.prompts, given.new, { cache = false }))
  return out
end

return cases
