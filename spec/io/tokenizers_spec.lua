--- Tokenizers: what they give, and what they say of files that are wrong. spec/peer/tokenizers.py
-- compares random ones with the library of the format.
local flame = require "flame"
local tokenizers = flame.tokenizers

local BPE = [=[{"added_tokens":[{"id":6,"content":"<s>","special":true}],"model":{"type":"BPE",
  "unk_token":"<u>","vocab":{"<u>":0,"a":1,"b":2,"ab":3,"c":4,"abc":5},
  "merges":["a b",["ab","c"]]}}]=]

describe("a tokenizer", function()
  it("merges pairs by rank and finds added tokens", function()
    local t = tokenizers.from_string(BPE)
    assert.same({ 5, 6, 3, 0, 1 }, t:encode("abc<s>ab?a", { list = true }))
    assert.equal(7, t.vocab_size)
    assert.equal(3, t:id("ab"))
    assert.is_nil(t:id("x"))
  end)
  it("gives a trained text back, whole and as a stream", function()
    local text = "hello 你好 😀 e\u{301}\n  x"
    local t = tokenizers.train_bpe({ text, text }, 300)
    local ids = t:encode(text)
    assert.equal("i64", ids.dtype)
    assert.equal(text, t:decode(ids))
    local stream, out = t:stream(), {}
    for i, id in ipairs(ids:totable()) do
      out[i] = stream:put(id)
      assert.truthy(utf8.len(out[i]))
    end
    assert.equal(text, table.concat(out) .. stream:finish())
  end)
  it("fills the rows of a batch", function()
    local t = tokenizers.from_string(BPE)
    local batch = t:encode_batch({ "a", "abab" }, { pad = 4, pad_side = "left" })
    assert.same({ { 4, 1 }, { 3, 3 } }, batch.ids:totable())
    assert.same({ { false, true }, { true, true } }, batch.mask:totable())
  end)
  it("says what is wrong with a file", function()
    assert.error_matches(function() tokenizers.from_string("{}") end, 'there is no "model"')
    assert.error_matches(function()
      tokenizers.from_string((BPE:gsub('"a b"', '"a x"')))
    end, "merge 1 names 'x', which is not in the vocabulary")
    assert.error_matches(function() tokenizers.from_string(BPE):decode({ 9 }) end,
      "id 9 at position 1, need a token's: 0 to 6")
  end)
  it("is read or refused at each length of its file", function()
    for n = 0, #BPE - 1 do
      assert.is_false((pcall(tokenizers.from_string, BPE:sub(1, n))))
    end
  end)
end)
