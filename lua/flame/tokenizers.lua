--- Tokenizers of Hugging Face's tokenizer.json: texts to ids and back, and training of a BPE.
-- src/text does the work; this file reads arguments and makes tensors. Ids are those of the file,
-- from 0; pass ids + 1 to a layer that counts from 1.
local flame = require "flame"
local internal = flame.internal
local objects = require "flame.base.objects"

local tokenizers = {}

-- Raises "op: message" at the line of the script, however deep in the library it is called.
local function fail(op, message, ...) internal.fail(op, message:format(...)) end
local function declare(text, f)
  tokenizers[text:match("^([%w_]+)")] = internal.declare(text, "", f)
end

---@class flame.Tokenizer
---@field model string        "BPE", "Unigram", "WordPiece" or "WordLevel"
---@field vocab_size integer  number of tokens, including added ones
---@field top_id integer      the largest id
local Tokenizer = { __name = "Tokenizer" }
---@class flame.TokenStream
local TokenStream = { __name = "TokenStream" }
tokenizers.Tokenizer, tokenizers.TokenStream = Tokenizer, TokenStream
objects.classes.Tokenizer, objects.classes.TokenStream = Tokenizer, TokenStream
-- Adds a method to a class; text declares its name and arguments (src/lua/declare.h).
local function put(class, text, f)
  class[text:match(":([%w_]+)%(")] = internal.declare(text, "", f)
end
Tokenizer.__index, Tokenizer.__newindex = objects.closed("Tokenizer", Tokenizer,
  { model = true, vocab_size = true, top_id = true, core = true, text = true, pad = true })
TokenStream.__index, TokenStream.__newindex = objects.closed("TokenStream", TokenStream,
  { tokenizer = true, skip_special = true, ids = true, shown = true, read = true })
function Tokenizer:__tostring()
  return ("Tokenizer(%s, %d tokens)"):format(self.model, self.vocab_size)
end
function TokenStream.__tostring() return "TokenStream" end

-- ---- opening ------------------------------------------------------------------------------------

local function open(text, path)
  local core = internal.tok_open(text, path)
  local size, _, top, model, pad = internal.tok_facts(core)
  return setmetatable({ core = core, text = text, vocab_size = size, top_id = top, model = model,
    pad = pad }, Tokenizer)
end

--- The tokenizer of a file, or of a folder's tokenizer.json.
declare("load(path: str) -> Tokenizer", function(path)
  if internal.io_list(path) then path = path .. "/tokenizer.json" end
  return open(internal.io_read(path, "load"), path)
end)

--- The tokenizer of a text that is a tokenizer.json.
declare("from_string(text: str) -> Tokenizer", open)

-- ---- texts to ids -------------------------------------------------------------------------------

-- ids and types as strings of i64.
local function encode(self, text, pair, o)
  if o.max_length and o.max_length < 1 then
    fail("encode", "max_length is %d, need a positive integer", o.max_length)
  end
  return internal.tok_encode(self.core, text, pair, not o.special, not o.special_in_text,
    o.max_length, o.side == "left")
end

local function list_of(bytes)
  local list = {}
  for i = 1, #bytes // 8 do list[i] = string.unpack("i8", bytes, 8 * i - 7) end
  return list
end

--- The ids of a text, or of a pair of texts: i64 of one axis, or a list. special = false leaves out
--- the tokens that the file's template puts around a text; with special_in_text = false, special
--- tokens written in the text count as text. max_length: the most ids; more are cut off at 'side'.
put(Tokenizer, [[Tokenizer:encode(text: str, pair?: str, *, special = true, special_in_text = true,
  max_length?: int, side: "right"|"left" = "right", list = false, device?: device) -> T|table]],
  function(self, text, pair, special, special_in_text, max_length, side, list, device)
    local ids = encode(self, text, pair, { special = special, special_in_text = special_in_text,
      max_length = max_length, side = side })
    if list then return list_of(ids) end
    local x = flame.from_bytes(ids, { #ids // 8 }, "i64")
    return device and x:to(device) or x
  end)

-- The id that fills short rows; if none is given or known, raises if it is needed, else 0.
local function pad_of(self, pad, needed)
  if type(pad) == "string" then
    local id = internal.tok_id(self.core, pad)
    return id or fail("encode_batch", "there is no token '%s'", pad)
  end
  pad = pad or self.pad or internal.tok_id(self.core, "<pad>")
    or internal.tok_id(self.core, "[PAD]")
  if not pad and needed then
    fail("encode_batch", "the texts have different lengths and the file names no token to fill " ..
      "them with\1; use pad = a token or an id")
  end
  return pad or 0
end

-- The rows (strings of i64) padded with 'pad' to equal length, as one string, and a string of
-- bytes: 1 at ids, 0 at padding.
local function fill(rows, length, pad, left)
  local ids, mask, unit = {}, {}, string.pack("i8", pad)
  for i, row in ipairs(rows) do
    local n = #row // 8
    local rest, on, off = unit:rep(length - n), ("\1"):rep(n), ("\0"):rep(length - n)
    ids[i] = left and rest .. row or row .. rest
    mask[i] = left and off .. on or on .. off
  end
  return table.concat(ids), table.concat(mask)
end

--- Many texts at once: { ids = (texts, length) i64, mask = bool, false at padding, types = i64,
--- which text of a pair an id comes from, as the file's template says }, all of the same shape.
--- Rows are padded to the longest one, or to the given length; pad is a token or an id, by default
--- the file's.
put(Tokenizer, [[Tokenizer:encode_batch(texts: str[], pairs?: str[], *, special = true,
  special_in_text = true, max_length?: int, side: "right"|"left" = "right", length?: int,
  pad?: int|str, pad_side: "right"|"left" = "right", device?: device) -> table]],
  function(self, texts, seconds, special, special_in_text, max_length, side, length, pad, pad_side,
      device)
    local op = "encode_batch"
    if seconds and #seconds ~= #texts then fail(op, "%d texts and %d pairs", #texts, #seconds) end
    local o = { special = special, special_in_text = special_in_text, max_length = max_length,
      side = side }
    local rows, types, longest, shortest = {}, {}, 0, math.huge
    for i, text in ipairs(texts) do
      rows[i], types[i] = encode(self, text, seconds and seconds[i], o)
      longest = math.max(longest, #rows[i] // 8)
      shortest = math.min(shortest, #rows[i] // 8)
    end
    if length and longest > length then
      fail(op, "a text has %d ids, and length is %d\1; use max_length = %d", longest, length,
        length)
    end
    longest = length or longest
    local id = pad_of(self, pad, #texts > 0 and shortest < longest)
    local left, shape = pad_side == "left", { #texts, longest }
    local ids, mask = fill(rows, longest, id, left)
    local batch = { ids = flame.from_bytes(ids, shape, "i64"),
      mask = flame.from_bytes(mask, shape, "bool"),
      types = flame.from_bytes(fill(types, longest, 0, left), shape, "i64") }
    for k, x in pairs(device and batch or {}) do batch[k] = x:to(device) end
    return batch
  end)

-- ---- ids to texts -------------------------------------------------------------------------------

local function need_integers(op, ids)
  if flame.is_tensor(ids) and not ids.dtype:find("^[iu]%d") then
    fail(op, "ids have dtype %s, need integers", ids.dtype)
  end
end

-- Ids as a string of i64: a tensor, an integer or a list of them.
local function bytes_of(op, ids)
  if flame.is_tensor(ids) then
    need_integers(op, ids)
    return ids:cpu():long():flatten():bytes()
  end
  local list = {}
  for i, id in ipairs(type(ids) == "table" and ids or { ids }) do
    if math.type(id) ~= "integer" then fail(op, "an id must be an integer, got a %s", type(id)) end
    list[i] = string.pack("i8", id)
  end
  return table.concat(list)
end

--- The text of ids; skip_special leaves out special tokens.
put(Tokenizer, "Tokenizer:decode(ids: T|int|int[], *, skip_special = true) -> str",
  function(self, ids, skip_special)
    return internal.tok_decode(self.core, bytes_of("decode", ids), skip_special)
  end)

--- The texts of the rows of ids (rows, length), or of a list of what decode takes.
put(Tokenizer, "Tokenizer:decode_batch(ids: T|table, *, skip_special = true) -> table",
  function(self, ids, skip_special)
    local list = {}
    if flame.is_tensor(ids) and ids.ndim ~= 2 then
      fail("decode_batch", "ids have %d axes, need 2", ids.ndim)
    end
    for i = 1, #ids do
      list[i] = internal.tok_decode(self.core, bytes_of("decode_batch", ids[i]), skip_special)
    end
    return list
  end)

-- A token's text may end within a character, and may depend on the token before (a space at the
-- very beginning is dropped). So a stream decodes the last ids with and without the new id, and
-- returns the difference, without an incomplete character at its end. A stream's 'ids' are the last
-- ids; 'shown' is the text, already returned, of the first 'read' of them.

--- A decoder for ids that come one after another: stream:put(id) returns the text that is certain
--- so far, stream:finish() the rest.
put(Tokenizer, "Tokenizer:stream(*, skip_special = true) -> TokenStream",
  function(self, skip_special)
    return setmetatable({ tokenizer = self, skip_special = skip_special, ids = {}, shown = "",
      read = 0 }, TokenStream)
  end)

--- The new text that is certain after one more id; "" while a character is incomplete.
put(TokenStream, "TokenStream:put(id: T|int) -> str", function(self, id)
  local ids = self.ids
  need_integers("put", id)
  ids[#ids + 1] = flame.is_tensor(id) and id:item() or id
  local core = self.tokenizer.core
  local ok, text = pcall(internal.tok_decode, core, bytes_of("put", ids), self.skip_special, true)
  if not ok then
    ids[#ids] = nil
    error(text, 0)
  end
  local open_bytes = internal.tok_open_bytes(text)
  if open_bytes > 0 or #text <= #self.shown then return "" end
  local new = internal.tok_mend(core, text:sub(#self.shown + 1))
  self.ids = table.move(ids, self.read + 1, #ids, 1, {})
  self.shown = internal.tok_decode(core, bytes_of("put", self.ids), self.skip_special, true)
  self.read = #self.ids
  return new
end)

--- The rest of the text, with U+FFFD for an incomplete character; afterwards the stream is empty.
put(TokenStream, "TokenStream:finish() -> str", function(self)
  local core = self.tokenizer.core
  local text = internal.tok_decode(core, bytes_of("finish", self.ids), self.skip_special, true)
  local new = internal.tok_mend(core, text:sub(#self.shown + 1))
  self.ids, self.shown, self.read = {}, "", 0
  return new
end)

-- ---- tokens -------------------------------------------------------------------------------------

--- A token's id; nil if there is no such token.
put(Tokenizer, "Tokenizer:id(token: str) -> int", function(self, token)
  return internal.tok_id(self.core, token)
end)

--- The token with this id, as the file spells it; nil: no token has the id.
put(Tokenizer, "Tokenizer:token(id: int) -> str", function(self, id)
  return (internal.tok_token(self.core, id))
end)

--- Is it the id of a special token? decode leaves those out.
put(Tokenizer, "Tokenizer:is_special(id: int) -> bool", function(self, id)
  local _, special = internal.tok_token(self.core, id)
  return special or false
end)

--- Writes the tokenizer.json.
put(Tokenizer, "Tokenizer:save(path: str)", function(self, path)
  internal.io_write(path, "save", self.text)
end)

-- ---- training -----------------------------------------------------------------------------------

local function quote(text)
  return '"' .. text:gsub('[%c"\\]', function(c) return ("\\u%04x"):format(c:byte()) end) .. '"'
end

-- The text of a tokenizer.json for a byte-level BPE, with the given model part.
local function file_of(model, specials, pattern, prefix)
  local added = {}
  for i, token in ipairs(specials) do
    added[i] = ('{"id":%d,"content":%s,"single_word":false,"lstrip":false,"rstrip":false,' ..
      '"normalized":false,"special":true}'):format(i - 1, quote(token))
  end
  local level = ('{"type":"ByteLevel","add_prefix_space":%s,"trim_offsets":true,"use_regex":%s}')
  local cut = level:format(prefix, not pattern)
  if pattern then
    cut = ('{"type":"Sequence","pretokenizers":[{"type":"Split","pattern":{"Regex":%s},' ..
      '"behavior":"Isolated","invert":false},%s]}'):format(quote(pattern), cut)
  end
  return ('{"version":"1.0","truncation":null,"padding":null,"added_tokens":[%s],' ..
    '"normalizer":null,"pre_tokenizer":%s,"post_processor":null,"decoder":%s,' ..
    '"model":{"type":"BPE","dropout":null,"unk_token":null,"continuing_subword_prefix":null,' ..
    '"end_of_word_suffix":null,"fuse_unk":false,"byte_fallback":false,"ignore_merges":false,%s}}')
    :format(table.concat(added, ","), cut, level:format(true, true), model)
end

-- Checks that each special token occurs once, since its place in the list is its id.
local function check_specials(op, specials)
  local seen = {}
  for i, token in ipairs(specials) do
    if not utf8.len(token) then fail(op, "special_tokens[%d] is not UTF-8", i) end
    if seen[token] then fail(op, "special_tokens[%d] is '%s' again", i, token) end
    seen[token] = true
  end
end

--- Learns a byte-level BPE of at most vocab_size tokens from texts: a list, or a function giving
--- one text after another and then nil. Pairs that occur fewer than min_frequency times are not
--- merged. Special tokens get the first ids. pattern cuts texts into words, by default GPT-2's.
--- Tokens of three or more characters have fewer than max_token_length.
declare([[train_bpe(texts: any, vocab_size: int = 30000, *, min_frequency: int = 2,
  special_tokens?: str[], pattern?: str, add_prefix_space = false, max_token_length?: int)
  -> Tokenizer]],
  function(texts, size, least, specials, pattern, prefix, longest)
    local op, i = "train_bpe", 0
    specials = specials or {}
    check_specials(op, specials)
    if pattern and not utf8.len(pattern) then fail(op, "the pattern is not UTF-8") end
    if longest and longest < 1 then
      fail(op, "max_token_length is %d, need a positive integer", longest)
    end
    if size < 256 + #specials then
      fail(op, "vocab_size is %d, need %d or more: 256 bytes and the special tokens", size,
        256 + #specials)
    end
    local shape = open(file_of('"vocab":{},"merges":[]', {}, pattern, prefix)).core
    local function next_text()
      i = i + 1
      return texts[i]
    end
    if type(texts) == "function" then next_text = texts
    elseif type(texts) ~= "table" then
      fail(op, "texts are %s, need a list or a function", type(texts))
    end
    local count = 0
    for text in next_text do
      count = count + 1
      if type(text) ~= "string" then fail(op, "text %d is a %s", count, type(text)) end
      internal.tok_feed(shape, text)
    end
    local model = internal.tok_train(shape, size, least, longest or 0, specials)
    return open(file_of(model, specials, pattern, prefix))
  end)

return objects.namespace(tokenizers, "tokenizers")
