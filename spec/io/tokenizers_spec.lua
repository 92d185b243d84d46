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
  it("names what it refuses, and where a pattern ends to be one", function()
    local function refused(part, why)
      assert.error_matches(function()
        tokenizers.from_string((BPE:gsub("{", "{" .. part .. ",", 1)))
      end, why, 1, true)
    end
    refused('"normalizer":{"type":"Other"}', "the normalizer 'Other' is not supported")
    refused('"pre_tokenizer":{"type":"Sequence","pretokenizers":[{"type":"FixedLength"}]}',
      "the pre-tokenizer 'FixedLength' is not supported")
    refused('"decoder":{"type":"CTC"}', "the decoder 'CTC' is not supported")
    refused('"post_processor":{"type":"Other"}', "the post-processor 'Other' is not supported")
    refused('"pre_tokenizer":{"type":"Split","pattern":{"Regex":"ab(?<=c)"}}',
      "the pattern 'ab(?<=c)' is refused at character 3")
    refused('"pre_tokenizer":{"type":"Split","pattern":{"Regex":"a\\\\bc"}}',
      "is refused at character 2: an escape that is not supported")
    assert.error_matches(function() tokenizers.from_string('{"model":') end, "byte ")
    assert.error_matches(function() tokenizers.from_string('{"model":{"type":"Other"}}') end,
      "the model 'Other' is not supported", 1, true)
  end)
  it("puts long runs of marks into canonical order", function()
    local vocab = {}
    for b = 0, 255 do vocab[b + 1] = ('"<0x%02X>":%d'):format(b, b) end
    local t = tokenizers.from_string(('{"normalizer":{"type":"NFD"},"decoder":{"type":"Sequence",' ..
      '"decoders":[{"type":"ByteFallback"},{"type":"Fuse"}]},"model":{"type":"BPE",' ..
      '"byte_fallback":true,"vocab":{%s},"merges":[]}}'):format(table.concat(vocab, ",")))
    local above, below = ("\u{301}"):rep(20000), ("\u{323}"):rep(20000)
    assert.equal("a" .. below .. above .. "b",
      t:decode(t:encode("a" .. ("\u{301}\u{323}"):rep(20000) .. "b")))
  end)
  it("takes any bytes as text", function()
    local t = tokenizers.train_bpe({ "some text" }, 256)
    assert.equal("a\u{FFFD}b\u{FFFD}", t:decode(t:encode("a\xFFb\xE4\xBD")))
    assert.equal(0, #t:encode("", { list = true }))
  end)
  it("is written as a whole, and an old file stays where that fails", function()
    local t, path = tokenizers.from_string(BPE), os.tmpname()
    t:save(path)
    assert.equal(7, tokenizers.load(path).vocab_size)
    os.remove(path)
    assert.error_matches(function() t:save("/nowhere/at/all.json") end, "No such file")
  end)
  it("is read or refused at each length of its file", function()
    for n = 0, #BPE - 1 do
      assert.is_false((pcall(tokenizers.from_string, BPE:sub(1, n))))
    end
  end)
end)
