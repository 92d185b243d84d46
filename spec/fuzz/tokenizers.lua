--- Tokenizers of damaged files: parts of a tokenizer.json are removed, doubled, exchanged and
-- overwritten. With files that are still accepted, random bytes are encoded and decoded. Some
-- allocations fail. Nothing may end the process, and errors must be strings.
--   flame-lua spec/fuzz/tokenizers.lua SECONDS [SEED]      0 SEED: one round
local flame = require "flame"
local tokenizers = require "flame.tokenizers"
local internal = flame.internal

local function bytes(sep)
  local out = {}
  for b = 0, 255 do out[#out + 1] = ('"<0x%02X>":%d'):format(b, b) end
  return table.concat(out, sep or ",")
end
local NORMALIZERS <const> = { '{"type":"NFC"}', '{"type":"NFKD"}', '{"type":"Lowercase"}', "null",
  '{"type":"StripAccents"}', '{"type":"Nmt"}',
  '{"type":"Strip","strip_left":true,"strip_right":true}',
  '{"type":"Replace","pattern":{"Regex":"(a|b)+|\\\\s{2,}|[^\\\\p{L}&&[^x]]"},"content":"▁"}',
  '{"type":"Replace","pattern":{"String":" "},"content":"▁▁"}', '{"type":"Prepend","prepend":"▁"}',
  '{"type":"BertNormalizer","clean_text":true,"handle_chinese_chars":true,"lowercase":true}',
  '{"type":"Precompiled","precompiled_charsmap":"DAAAAAAAAAEAAgADAGFiYwA="}' }
local SPLITTERS <const> = { '{"type":"ByteLevel","add_prefix_space":true}', '{"type":"Whitespace"}',
  '{"type":"BertPreTokenizer"}', '{"type":"Metaspace","replacement":"▁","prepend_scheme":"first"}',
  '{"type":"Digits","individual_digits":true}', "null",
  '{"type":"Punctuation","behavior":"MergedWithNext"}',
  '{"type":"Split","pattern":{"Regex":"(?i:\'s|\'t)|\\\\p{N}{1,3}|\\\\s+(?!\\\\S)|x*"},' ..
    '"behavior":"Isolated"}' }
local DECODERS <const> = { '{"type":"ByteLevel"}', '{"type":"ByteFallback"}', '{"type":"Fuse"}',
  '{"type":"WordPiece","prefix":"##","cleanup":true}', "null",
  '{"type":"Metaspace","replacement":"▁"}',
  '{"type":"Strip","content":" ","start":1,"stop":2}', '{"type":"BPEDecoder","suffix":"</w>"}' }
local MODELS <const> = {
  '{"type":"BPE","byte_fallback":true,"unk_token":"a","vocab":{' .. bytes() ..
    ',"a":256,"b":257,"ab":258,"▁":259,"▁a":260},"merges":["a b",["▁","a"]]}',
  '{"type":"Unigram","unk_id":0,"vocab":[["<unk>",0],["a",-1.25],["ab",-3e0],["▁",-2],["é",-9.125]]}',
  '{"type":"WordPiece","unk_token":"[UNK]","max_input_chars_per_word":5,' ..
    '"vocab":{"[UNK]":0,"a":1,"##b":2,"##bc":3}}',
  '{"type":"WordLevel","unk_token":"?","vocab":{"?":0,"a":1,"▁ab":2}}' }
local WORDS <const> = { "null", "true", "-1", "1e999", "4294967296", '""', "[]", "{}", '"\\ud800"',
  '"type"', '"vocab"', '"\\u0000"', "[[[[", '"(((("', '"(a*)*"', '"[^"', "0.5", '"▁"' }
local SAMPLES <const> = { "a", "ab", "▁", " ", "  \n", "é", "e\u{301}", "你好", "👩\u{200D}👩", "\xFF",
  "\xE4\xBD", "\0", "<s>", "don't", "123", "x", "\u{FDFA}", "\u{1D160}", "ﬁ", "K" }

local function one(list) return list[math.random(#list)] end

local function list_of(kind, parts)
  local out = {}
  for k = 1, math.random(0, 3) do out[k] = one(parts) end
  return ('{"type":"Sequence","%s":[%s]}'):format(kind, table.concat(out, ","))
end

local function file()
  return ('{"normalizer":%s,"pre_tokenizer":%s,"decoder":%s,"model":%s,"added_tokens":[{"id":%d,' ..
    '"content":"<s>","special":true,"lstrip":true,"single_word":false}],"post_processor":%s}'):format(
    math.random() < 0.5 and one(NORMALIZERS) or list_of("normalizers", NORMALIZERS),
    math.random() < 0.5 and one(SPLITTERS) or list_of("pretokenizers", SPLITTERS),
    math.random() < 0.5 and one(DECODERS) or list_of("decoders", DECODERS), one(MODELS),
    math.random(0, 300), one { "null", '{"type":"TemplateProcessing","single":[{"SpecialToken":' ..
      '{"id":"<s>","type_id":0}},{"Sequence":{"id":"A","type_id":0}}],"pair":[],"special_tokens":' ..
      '{"<s>":{"id":"<s>","ids":[3],"tokens":["<s>"]}}}' })
end

--- The text with up to four random changes.
local function broken(text)
  for _ = 1, math.random(0, 4) do
    local a = math.random(#text)
    local b = math.min(#text, a + math.random(0, 12))
    local how = math.random(5)
    local between = how == 1 and "" or how == 2 and text:sub(a, b):rep(math.random(2, 60)) or
      how == 3 and string.char(math.random(0, 255)) or how == 4 and one(WORDS) or
      text:sub(math.random(#text)):sub(1, 20)
    text = text:sub(1, a - 1) .. between .. text:sub(b + 1)
    if #text == 0 then text = "{" end
  end
  return text
end

local function sample()
  local out = {}
  for k = 1, math.random(0, 12) do out[k] = one(SAMPLES):rep(math.random(1, 3)) end
  return table.concat(out)
end

--- Returns what f returns; nothing if it raises an error. Sometimes a random allocation fails.
local function call(f, ...)
  local fails = internal.fail_alloc and math.random(4) == 1
  if fails then internal.fail_alloc(math.random(30), math.random(2) == 1) end
  local ok, what = pcall(f, ...)
  if fails then internal.fail_alloc(0) end
  if ok then return what end
  assert(type(what) == "string" and what ~= "", "an error without a text")
end

local function round(seed)
  math.randomseed(seed)
  local t = call(tokenizers.from_string, broken(file()))
  if not t then return false end
  for _ = 1, 6 do
    local text = sample()
    local ids = call(t.encode, t, text, { list = true })
    call(t.encode, t, text, { pair = sample(), max_length = math.random(5) })
    if ids then call(t.decode, t, ids, { skip_special = math.random(2) == 1 }) end
    call(t.decode, t, { math.random(-2, 400), math.random(0, 1 << 40) })
    local stream = t:stream()
    for _, id in ipairs(ids or {}) do call(stream.put, stream, id) end
    call(stream.finish, stream)
  end
  return true
end

local seconds, seed = tonumber(arg[1] or 10), math.tointeger(tonumber(arg[2] or 1))
local till, rounds, accepted = os.time() + seconds, 0, 0
repeat
  if seconds == 0 or rounds % 1000 == 0 then
    io.write(("fuzz_tokenizers: seed %d\n"):format(seed)) io.flush()
  end
  if round(seed) then accepted = accepted + 1 end
  rounds, seed = rounds + 1, seed + 1
until os.time() >= till
print(("fuzz_tokenizers: %d rounds, %d files were accepted"):format(rounds, accepted))
