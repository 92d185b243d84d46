--- Tokenizers: their results, and their messages for wrong files. spec/peer/tokenizers.py compares
--- random tokenizers with Hugging Face's library.
local flame = require "flame"
local helper = require "spec.support.helper"
local tokenizers = flame.tokenizers

local BPE = [=[{"added_tokens":[{"id":6,"content":"<s>","special":true}],"model":{"type":"BPE",
  "unk_token":"<u>","vocab":{"<u>":0,"a":1,"b":2,"ab":3,"c":4,"abc":5},
  "merges":["a b",["ab","c"]]}}]=]

describe("a tokenizer", function()
  it("merges pairs by rank and finds added tokens", function()
    local t = tokenizers.from_string(BPE)
    assert.same({ 5, 6, 3, 0, 1 }, t:encode("abc<s>ab?a", { list = true }))
    assert.equal(7, t.vocab_size)
    assert.same({ true, false, false }, { t:is_special(6), t:is_special(3), t:is_special(99) })
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
    local path = os.tmpname()
    local f <close> = assert(io.open(path, "w"))
    f:write '{"model": '
    f:flush()
    assert.error_matches(function() tokenizers.load(path) end,
      "tokenizer: " .. path .. ": byte 10: a value must stand here", 1, true)
    os.remove(path)
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
  it("has in each part the Unicode that the library has there", function()
    local vocab = {}
    for b = 0, 255 do vocab[b + 1] = ('"<0x%02X>":%d'):format(b, b) end
    local function by(normalizer)
      local t = tokenizers.from_string(('{"normalizer":{"type":%s},"model":{"type":"BPE",' ..
        '"byte_fallback":true,"vocab":{%s},"merges":[]}}'):format(normalizer,
        table.concat(vocab, ",")))
      return function(text)
        local ids = t:encode(text, { list = true })
        return string.char(table.unpack(ids))
      end
    end
    -- combining marks: U+0898 since Unicode 14, U+08D4 since 9; U+1734 is spacing since 14
    local nfc = by '"NFC"'
    assert.equal("a\u{898}\u{334}", nfc("a\u{898}\u{334}"))
    assert.equal("a\u{334}\u{8D4}", nfc("a\u{8D4}\u{334}"))
    assert.equal("\u{32FF}\u{661F}", by '"NFKC"'("\u{32FF}\u{2F47}\u{661F}"):gsub("\u{65E5}", ""))
    assert.equal("a\u{898}\u{1885}", by '"StripAccents"'("a\u{898}\u{8D4}\u{1734}\u{1885}")
      .. "\u{1885}")
    local bert = by '"BertNormalizer","strip_accents":true,"clean_text":true'
    assert.equal("a\u{8D4}\u{1885}\u{8E2}", bert("a\u{301}\u{8D4}\u{1734}\u{1885}\u{8E2}\u{AD}"))
  end)
  it("has scores as the library reads them", function()
    -- Hugging Face's library rounds a number with a point twice, and reads at most 19 digits
    local function score_of(text, other)
      local t = tokenizers.from_string(('{"model":{"type":"Unigram","unk_id":0,' ..
        '"vocab":[["?",-99],' ..
        '["a",0],["b",%s],["ab",%s]]}}'):format(other, text))
      return t:encode("ab", { list = true })[1]
    end
    -- "ab" as one token (id 3) is chosen if its score is at least the sum of those of "a" and "b"
    assert.equal(3, score_of("-900719925474099.3", "-900719925474099.2"))
    assert.equal(1, score_of("-900719925474099.9", "-900719925474099.2"))
    assert.equal(3, score_of("-0.5", "-5.0e-1"))
    assert.equal(3, score_of("-1e-400", "-1e-300"))
    assert.equal(3, score_of("-2.00000000000000000000001", "-2.0"))
    assert.equal(1, score_of("-2.1e3", "-2.0E+03"))
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

--- The text BPE with another part at the start of its object.
local function with(part) return (BPE:gsub("{", "{" .. part:gsub("%%", "%%%%") .. ",", 1)) end

local function base64(bytes)
  local digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
  local out = bytes:gsub("..?.?", function(three)
    local a, b, c = three:byte(1, 3)
    local v = a << 16 | (b or 0) << 8 | (c or 0)
    local four = ""
    for shift = 18, 0, -6 do
      local k = (v >> shift & 63) + 1
      four = four .. digits:sub(k, k)
    end
    return four:sub(1, #three + 1) .. ("="):rep(3 - #three)
  end)
  return out
end

--- A normaliser with sentencepiece's map of characters: "a" becomes the text at texts[offset].
local function charsmap(texts, offset)
  local units = {}
  for i = 0, 0x61 do units[i] = 0xFF end
  units[0], units[0x60], units[0x61] = 1 << 10, 0x61 | 1 << 8 | 1 << 10, offset
  local trie = string.pack("<" .. ("I4"):rep(0x62), table.unpack(units, 0, 0x61))
  return ('"normalizer":{"type":"Precompiled","precompiled_charsmap":"%s"}'):format(
    base64(string.pack("<I4", #trie) .. trie .. texts))
end

describe("a hostile tokenizer.json", function()
  local function refused(part, why)
    assert.error_matches(function() tokenizers.from_string(with(part)) end, why, 1, true)
  end
  local function passes(one, n)
    return '{"type":"Sequence","%s":[' .. (one .. ","):rep(n - 1) .. one .. "]}"
  end
  it("does not lead a map into the middle of a character", function()
    local function ids(offset)
      return tokenizers.from_string(with(charsmap("\u{E9}\0b\0", offset))):encode("ac",
        { list = true })
    end
    assert.same({ 0, 4 }, ids(0))
    assert.same({ 1, 4 }, ids(1))
    assert.same({ 4 }, ids(2))
    assert.same({ 2, 4 }, ids(3))
    assert.same({ 1, 4 }, ids(99))
  end)
  it("has passes up to a number", function()
    local list = passes('{"type":"Digits"}', 250):format("pretokenizers")
    assert.same({ 1 }, tokenizers.from_string(with('"pre_tokenizer":' .. list)):encode("a",
      { list = true }))
    list = passes('{"type":"Digits"}', 251):format("pretokenizers")
    refused('"pre_tokenizer":' .. list, "more than 250 passes")
    refused('"normalizer":' .. passes('{"type":"Lowercase"}', 251):format("normalizers"),
      "more than 250 passes")
  end)
  it("does not make a text grow without end", function()
    local double = '{"type":"Replace","pattern":{"String":"a"},"content":"aa"}'
    local function grows(part, f)
      local t = tokenizers.from_string(with(part))
      assert.error_matches(function() f(t) end, "make more than %d+ bytes of a text")
    end
    local function encode(t) t:encode("a\u{E9}") end
    grows('"normalizer":' .. passes(double, 60):format("normalizers"), encode)
    grows('"normalizer":' .. passes('{"type":"ByteLevel"}', 60):format("normalizers"), encode)
    grows(('"pre_tokenizer":' .. passes('{"type":"ByteLevel","use_regex":false}', 60))
      :format("pretokenizers"), encode)
    grows('"decoder":' .. passes(double, 60):format("decoders"), function(t) t:decode({ 1 }) end)
    grows(charsmap(("x"):rep(70000), 0), encode)
    assert.error_matches(function()
      tokenizers.from_string((with('"normalizer":' .. passes(double, 60):format("normalizers"))
        :gsub('"special":true', '"content":"a c","normalized":true', 1)))
    end, "make more than %d+ bytes of a text")
  end)
  it("does not match a pattern in exponentially many ways", function()
    local t = tokenizers.from_string(
      with('"pre_tokenizer":{"type":"Split","pattern":{"Regex":"(a|a)*c"}}'))
    assert.same({ 1, 1, 1, 4 }, t:encode("aaac", { list = true }))
    assert.error_matches(function() t:encode(("a"):rep(60)) end,
      "encode: a pattern of the tokenizer has more than 10003840 ways to match 60 bytes of text")
  end)
  it("names characters where they are needed", function()
    refused('"pre_tokenizer":{"type":"Metaspace","replacement":"ab"}',
      "\"replacement\" is 'ab', need one character")
    refused('"pre_tokenizer":{"type":"CharDelimiterSplit","delimiter":""}',
      "\"delimiter\" is '', need one character")
    refused('"decoder":{"type":"BPEDecoder"}', "'BPEDecoder' needs \"suffix\", a string")
  end)
  it("has a NUL in a pattern as a character", function()
    local t = tokenizers.from_string(
      with('"pre_tokenizer":{"type":"Split","pattern":{"Regex":"a\\u0000"}}'))
    assert.same({ 3, 0, 1 }, t:encode("ab\0a", { list = true }))
  end)
  it("has ids up to 2^31 - 1", function()
    local t = tokenizers.from_string((BPE:gsub('"id":6', '"id":2147483647')))
    assert.equal(2147483647, t.top_id)
    assert.same({ 2147483647 }, t:encode("<s>", { list = true }))
    assert.equal("<s>", t:decode({ 2147483647 }, { skip_special = false }))
    assert.error_matches(function()
      tokenizers.from_string((BPE:gsub('"id":6', '"id":2147483648')))
    end, 'needs "content", a string, and "id", a count', 1, true)
  end)
  it("is UTF-8, whole", function()
    for _, bytes in ipairs { "\xE4", "\xE4\xBD", "\xF0\x9F\x98", "\x80", "\xC0\xAF", "\xED\xA0\x80",
      "\xF4\x90\x80\x80", "\xFF" } do
      for _, place in ipairs { '"content":"<s>"', '"unk_token":"<u>"', '"ab"' } do
        local broken = place:sub(1, -2) .. bytes .. '"'
        assert.error_matches(function()
          tokenizers.from_string((BPE:gsub(place, function() return broken end, 1)))
        end, "a string that is not UTF-8", 1, true)
      end
    end
    for _, half in ipairs { "\\ud83d", "\\ude00", "\\ud83d\\u0041" } do
      assert.error_matches(function()
        tokenizers.from_string((BPE:gsub("<s>", function() return half end, 1)))
      end, "a surrogate without its other half", 1, true)
    end
  end)
  it("is told of in whole characters", function()
    local why = helper.message(tokenizers.from_string, with(('"decoder":{"type":"%s"}')
      :format("a" .. ("\u{4F60}"):rep(30))))
    assert.truthy(utf8.len(why), why)
    assert.truthy(why:find("'a" .. ("\u{4F60}"):rep(13) .. "' is not supported", 1, true), why)
  end)
end)

describe("a tokenizer's special case", function()
  it("gives no id for an added token in the space that the one before stripped", function()
    local t = tokenizers.from_string((BPE:gsub('"content":"<s>"',
      '"content":"  ","lstrip":true,"rstrip":true', 1)))
    assert.same({ 1, 6, 2 }, t:encode("a  \t\n    b", { list = true }))
    assert.same({ 6, 2, 6 }, t:encode("     b  ", { list = true }))
  end)
  it("is a training's special token once, in UTF-8", function()
    local function refused(options, why)
      assert.error_matches(function() tokenizers.train_bpe({ "a" }, 300, options) end, why, 1, true)
    end
    refused({ special_tokens = { "a", "b", "a" } }, "train_bpe: special_tokens[3] is 'a' again")
    refused({ special_tokens = { "\xE4" } }, "train_bpe: special_tokens[1] is not UTF-8")
    refused({ pattern = "\xE4" }, "train_bpe: the pattern is not UTF-8")
    refused({ max_token_length = 0 }, "train_bpe: max_token_length is 0, need a positive integer")
    assert.error_matches(function()
      tokenizers.from_string(BPE):decode_batch({ { 1 }, { "x" } })
    end, "decode_batch: an id must be an integer, got a string", 1, true)
  end)
  it("knows the characters that the library knows", function()
    local t = tokenizers.from_string([[{"normalizer":{"type":"Lowercase"},"pre_tokenizer":
      {"type":"Split","pattern":{"Regex":"\\p{L}"},"behavior":"Removed"},
      "model":{"type":"BPE","unk_token":"?","vocab":{"?":0,"\u10D4":1,"\u088F":2},"merges":[]}}]])
    local function ids(text) return t:encode(text, { list = true }) end
    assert.same({ 0 }, ids "\u{10D82}#")                        -- a letter of 16.0
    assert.same({ 2, 0 }, ids "\u{88F}#")                       -- of 17.0
    local lower = tokenizers.from_string([[{"normalizer":{"type":"Lowercase"},"model":
      {"type":"BPE","unk_token":"?","vocab":{"?":0,"\uA7CF":1,"\uA7CE":2},"merges":[]}}]])
    assert.same({ 1 }, lower:encode("\u{A7CE}", { list = true }))   -- of 17.0
  end)
  it("goes on after a failed allocation", function()
    local internal = flame.internal
    local file = with('"normalizer":{"type":"Sequence","normalizers":[' ..
      '{"type":"BertNormalizer"},{"type":"NFKD"},{"type":"Replace","pattern":{"Regex":"c+"},' ..
      '"content":"c"}]},"pre_tokenizer":{"type":"ByteLevel"}')
    local t, other = tokenizers.from_string(file), tokenizers.from_string(file)
    local function ids(of, text) return table.concat(of:encode(text, { list = true }), " ") end
    local failures = 0
    for n = 1, 40 do
      local text = ("abcc\u{E9}<s>"):rep(n) .. ("\u{1EA1}"):rep(n)
      internal.fail_alloc(1, true)
      local ok, why = pcall(ids, t, text)
      internal.fail_alloc(0)
      if not ok then
        failures = failures + 1
        assert.truthy(tostring(why):find("memory", 1, true), why)
      end
      assert.equal(ids(other, text), ids(t, text))
    end
    assert.is_true(failures > 0)
  end)
end)
