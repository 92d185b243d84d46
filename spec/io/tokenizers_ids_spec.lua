-- Ids and texts of each kind of tokenizer must be those of Hugging Face's library
-- (spec/io/tokenizers_reference.lua, written by spec/peer/tokenizers_reference.py).
local flame = require "flame"
local tokenizers = flame.tokenizers
local reference = dofile "spec/io/tokenizers_reference.lua"

for _, entry in ipairs(reference) do
  describe("a tokenizer: " .. entry.title, function()
    local t = tokenizers.from_string(entry.json)
    for i, text in ipairs(reference.texts) do
      it(("has the library's ids of text %d, and gives its text back"):format(i), function()
        local result = entry.results[i]
        assert.same(result.ids, t:encode(text, { list = true }))
        assert.equal(result.decoded, t:decode(result.ids, { skip_special = false }))
      end)
    end
    it("has the same ids in a batch, and after it is saved and read", function()
      local path = os.tmpname()
      t:save(path)
      local again = tokenizers.load(path)
      os.remove(path)
      local batch = again:encode_batch(reference.texts, { pad = 0 })
      for i, result in ipairs(entry.results) do
        local row, mask = batch.ids[i]:totable(), batch.mask[i]:long():sum():item()
        assert.equal(#result.ids, mask)
        assert.same(result.ids, table.move(row, 1, mask, 1, {}))
      end
    end)
  end)
end
