--- Measures the tokens per second of flame.generate with a KV cache, for a Llama with random
--- weights, on the default device. Run from the root of the repository (TOKENS, PROMPT: how many):
---   flame-lua bench/generate.lua [SIZE [BATCH [TOKENS [DTYPE [PROMPT]]]]]
--- SIZE: spec (tiny, for a test), small (30M), 1b, 8b. bench/generate.py compares with PyTorch.
local flame = require "flame"
local models = require "flame.models"

local SIZES <const> = {
  spec = { 16, 1, 2, 1, 32, 40 }, small = { 512, 8, 8, 4, 1408, 8192 },
  ["1b"] = { 2048, 16, 32, 8, 8192, 128256 }, ["8b"] = { 4096, 32, 32, 8, 14336, 128256 },
}
local name, batch, tokens, dtype, prompt = arg[1] or "small", tonumber(arg[2] or 1),
  tonumber(arg[3] or 128), arg[4] or "f32", tonumber(arg[5] or 128)
local width, layers, heads, kv, hidden, vocabulary = table.unpack(
  SIZES[name] or error("SIZE is spec, small, 1b or 8b", 0))
local model = models.from_config({ model_type = "llama", vocab_size = vocabulary,
  hidden_size = width, num_hidden_layers = layers, num_attention_heads = heads,
  num_key_value_heads = kv, intermediate_size = hidden }, { dtype = dtype })
flame.eval(model:parameters())

local rows = {}
for i = 1, batch do
  rows[i] = {}
  for k = 1, prompt do rows[i][k] = (i * 31 + k * 7) % vocabulary end
end
--- Generates n tokens; the seconds until the last row has its first token, and its last one.
local function seconds(n)
  flame.synchronize()
  local clock, first, last = flame.timer(), nil, nil
  flame.generate(model, rows, n, { stop = {}, stream = function(_, row)
    if row < batch then return end
    last = clock()
    first = first or last
  end })
  return first, last
end
--- The first call plans and compiles, the second is measured; the third has a shorter prompt.
local cold = seconds(tokens + 1)
local first, whole = seconds(tokens + 1)
prompt = prompt - 1
for _, row in ipairs(rows) do table.remove(row) end
local other = seconds(tokens + 1)
print(("%s, batch %d, %s: %d tokens of prompt in %.1f ms, then %.1f tokens/s"):format(name, batch,
  dtype, prompt + 1, first * 1e3, batch * tokens / (whole - first)))
print(("  the first prompt %.1f ms, one of %d tokens after it %.1f"):format(cold * 1e3, prompt,
  other * 1e3))
