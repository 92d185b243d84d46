/*
** Damaged files for the readers that Lua has: flame.load with the metadata of flame.save and lists
** of files, data.csv, data.text and data.tokens; and tokenizer.json, with texts that are encoded
** and decoded. A reader gives a value or an error in its own words: one of Lua (an index of nil, a
** stack overflow) is a fault, and so is a time that is not proportional to the file.
*/
#include "fuzz.h"
#include "io/io.h"
#include "lua/flame_lua.h"
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>

static lua_State *L;
static fuzz_bytes work;
static int values, refusals;
static char folder[] = "/tmp/flame-fuzz-XXXXXX";

static const char *const words[] = {
  "{", "}", "[", "]", ",", ":", ";", "\"", "\"\"", "\\u0041", "1:", "2:{}", "i5;",
  "d3ff0000000000000;", "sab;", "%41", "T", "F", "ta;", "tb;",
  "\"flame\"", "\"weight_map\"", "\"weight_map\":{", "\"p.safetensors\"", "\"q.safetensors\"",
  "\"s.safetensors\"", "../", "JAX", "nan", "-inf", "1e400", "0x10",
  "\t", " ", "\r\n", "\n", "\xEF\xBB\xBF", NULL
};

static const char *const tokenizer_words[] = {
  "{", "}", "[", "]", ",", ":", "\"", "\"\"", "\\u0000", "\\u00e9", "\\ud83d", "\\ud83d\\ude00",
  "null", "true", "false", "0", "-1", "255", "2147483647", "4294967296", "1e400", "a",
  "\xE4\xBD\xA0", "\xE4\xBD", "\xF0\x9F\x98", "\xFF", "<0x41>", "##", "\"NFD\"", "\"NFKC\"",
  "\"Lowercase\"", "\"Strip\"", "\"StripAccents\"", "\"Replace\"", "\"Prepend\"",
  "\"BertNormalizer\"", "\"Nmt\"", "\"ByteLevel\"", "\"Split\"", "\"Metaspace\"", "\"Digits\"",
  "\"Punctuation\"", "\"Sequence\"", "\"WordPiece\"", "\"Unigram\"", "\"WordLevel\"", "\"BPE\"",
  "\"ByteFallback\"", "\"Fuse\"", "\"BPEDecoder\"", "(?i:", "(?=", "(?!", "(", ")", "|", "*", "+",
  "?", "{2,5}", "[^", "&&", "\\\\p{L}", "\\\\s", "\\\\w", "^", "$", NULL
};

/* Names and valid texts; those of safetensors are headers. */
static const struct { const char *name, *text; } seeds[] = {
  { "a.csv", "\"x\", y,z\r\n1,2.5,\r\n-3e2, nan,\"4\"\r\n" },
  { "a.csv", "1\t2\n\"3\"\t4\n" },
  { "a.index.json", "{\"weight_map\": {\"a\": \"p.safetensors\", \"b\": \"p.safetensors\"}}" },
  { "a.index.json", "{\"metadata\":{\"n\":1},\"weight_map\":{\"value\":\"s.safetensors\"}}" },
  { "a.safetensors",
    "{\"__metadata__\":{\"flame\":\"1:{[ta;]sb;tb;sc;i-5;sd;d3ff0000000000000;se;{[TF]}}\"},"
                     "\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},\"b\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[1,2]}}" },
  { "a.safetensors",
    "{\"__metadata__\":{\"flame\":\"JAX 0.4\",\"x\":\"y\"},\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]}}" },
  { "a.txt", "some text\n" },
  { "a.bin", "\1\0\2\0" },
  { "a.tokenizer",
    "{\"added_tokens\":[{\"id\":9,\"content\":\"<s>\",\"special\":true,\"lstrip\":true},{\"id\":8,\"content\":\" a\",\"normalized\":true}],"
    "\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"NFC\"},{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"[^b-z]{2,}|c+?\"},\"content\":\"a\"},{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"CAAAAGEBAABhBQAAw6kAYg==\"}]},"
    "\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(?i:'s|'t)| ?\\\\p{L}+|\\\\s+(?!\\\\S)|\\\\s+\"},\"behavior\":\"MergedWithNext\",\"invert\":true},{\"type\":\"ByteLevel\",\"use_regex\":false}]},"
    "\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"<s>\",\"type_id\":0}},{\"Sequence\":{\"id\":\"A\",\"type_id\":0}}],\"pair\":[{\"Sequence\":{\"id\":\"B\",\"type_id\":1}}],\"special_tokens\":{\"<s>\":{\"id\":\"<s>\",\"ids\":[9]}}},"
    "\"decoder\":{\"type\":\"ByteLevel\"},\"model\":{\"type\":\"BPE\",\"unk_token\":\"u\",\"fuse_unk\":true,\"vocab\":{\"u\":0,\"a\":1,\"b\":2,\"ab\":3,\"\xC3\x83\":4,\"\xC2\xA9\":5,\"\xC3\x83\xC2\xA9\":6},\"merges\":[\"a b\",[\"\xC3\x83\",\"\xC2\xA9\"]]}}" },
  { "a.tokenizer",
    "{\"normalizer\":{\"type\":\"BertNormalizer\",\"lowercase\":true},\"pre_tokenizer\":{\"type\":\"BertPreTokenizer\"},"
    "\"post_processor\":{\"type\":\"BertProcessing\",\"sep\":[\"a\",1],\"cls\":[\"u\",0]},\"decoder\":{\"type\":\"WordPiece\",\"prefix\":\"##\",\"cleanup\":true},"
    "\"model\":{\"type\":\"WordPiece\",\"unk_token\":\"u\",\"max_input_chars_per_word\":100,\"vocab\":{\"u\":0,\"a\":1,\"##b\":2,\"##\xE4\xBD\xA0\":3}}}" },
  { "a.tokenizer",
    "{\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Prepend\",\"prepend\":\"_\"},{\"type\":\"Nmt\"},{\"type\":\"Strip\"},{\"type\":\"NFKD\"},{\"type\":\"StripAccents\"}]},"
    "\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Metaspace\",\"replacement\":\"_\",\"prepend_scheme\":\"first\",\"split\":true},{\"type\":\"Digits\"},{\"type\":\"Punctuation\",\"behavior\":\"Contiguous\"}]},"
    "\"decoder\":{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"ByteFallback\"},{\"type\":\"Fuse\"},{\"type\":\"Metaspace\",\"replacement\":\"_\"},{\"type\":\"Strip\",\"content\":\" \",\"start\":1,\"stop\":1}]},"
    "\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"byte_fallback\":true,\"vocab\":[[\"u\",0],[\"_a\",-1.5],[\"b\",-2e0],[\"<0x41>\",-3],[\"<0xE4>\",-3]]}}" },
  { "a.tokenizer",
    "{\"pre_tokenizer\":{\"type\":\"Whitespace\"},\"decoder\":{\"type\":\"BPEDecoder\",\"suffix\":\"</w>\"},"
    "\"model\":{\"type\":\"WordLevel\",\"unk_token\":\"u\",\"vocab\":{\"u\":0,\"ab\":1,\"a</w>\":2}}}" }
};

/* (folder) -> a function of a path: nil for a value, "refused", or what is wrong with the error. */
static const char script[] =
  "local folder = ...\n"
  "local flame = require 'flame'\n"
  "local data = require 'flame.data'\n"
  "flame.save(folder .. '/p.safetensors', { a = flame.ones(2), b = flame.zeros(1, 2) })\n"
  "flame.save(folder .. '/s.safetensors', flame.ones(2))\n"
  "local function tabs(path) return data.csv(path, { sep = '\\t', dtype = 'f64' }) end\n"
  "local texts = { 'ab \\u{301}\\u{323}\\u{E9}<s> a\\u{4F60} 12.!', ('aB \\n'):rep(50), '\\xF0\\x9F\\x98', 'A' .. ('\\u{323}\\u{301}'):rep(90) }\n"
  "local function tokenizer(path)\n"
  "  local t = flame.tokenizers.load(path)\n"
  "  for i, text in ipairs(texts) do\n"
  "    local ids = t:encode(text, i == 2 and texts[1] or nil, { list = true })\n"
  "    if not utf8.len(t:decode(ids)) then error('bad argument: a decoded text that is not UTF-8') end\n"
  "    local s = t:stream()\n"
  "    for _, id in ipairs(ids) do s:put(id) end\n"
  "    s:finish()\n"
  "  end\n"
  "end\n"
  "local readers = { tokenizer = { tokenizer }, csv = { data.csv, tabs }, json = { flame.load }, safetensors = { flame.load }, txt = { data.text }, bin = { data.tokens } }\n"
  "local function read(v, depth)\n"
  "  if flame.is_tensor(v) then v:totable()\n"
  "  elseif type(v) == 'table' and depth < 200 then for _, x in pairs(v) do read(x, depth + 1) end end\n"
  "end\n"
  "return function(path, which)\n"
  "  local list = readers[path:match '%.(%w+)$']\n"
  "  local ok, v = pcall(list[which % #list + 1], path)\n"
  "  if ok then read(v, 1) return nil end\n"
  "  for _, own in ipairs { 'attempt to', 'bad argument', 'stack overflow', 'malformed', 'string slice', 'out of range)' } do\n"
  "    if type(v) ~= 'string' or v:find(own, 1, true) then return 'an error of Lua: ' .. tostring(v) end\n"
  "  end\n"
  "  return 'refused'\n"
  "end\n";

static void make_file(char *path, size_t size) {
  const unsigned k = fuzz_draw(sizeof seeds / sizeof *seeds);
  snprintf(path, size, "%s/%s", folder, seeds[k].name);
  const char *const *with = strstr(seeds[k].name, ".tokenizer") ? tokenizer_words : words;
  work.n = strcmp(seeds[k].name, "a.bin") == 0 ? 4 : strlen(seeds[k].text);
  memcpy(work.at, seeds[k].text, work.n);
  fuzz_damage(&work, 0, with);
  if (fuzz_draw(4) == 0) fuzz_damage(&work, 0, with);
  if (strstr(seeds[k].name, ".safetensors")) {
    const unsigned char head[8] = { (unsigned char)work.n, (unsigned char)(work.n >> 8),
                                    (unsigned char)(work.n >> 16) };
    fuzz_replace(&work, work.n, 0, "\1\2", 2);
    fuzz_replace(&work, 0, 0, head, 8);
  }
  FILE *f = fopen(path, "wb");
  if (!f || fwrite(work.at, 1, work.n, f) != work.n || fclose(f) != 0) exit(2);
}

static void round_of_files(void) {
  char path[64];
  make_file(path, sizeof path);
  lua_pushvalue(L, 1);
  lua_pushstring(L, path);
  lua_pushinteger(L, (lua_Integer)fuzz_draw(2));
  if (lua_pcall(L, 2, 1, 0) != LUA_OK ||
      (lua_isstring(L, -1) && strcmp(lua_tostring(L, -1), "refused") != 0))
    fuzz_fault(lua_tostring(L, -1));
  else if (lua_isnil(L, -1)) values++;
  else refusals++;
  lua_settop(L, 1);
  lua_gc(L, LUA_GCCOLLECT);                    /* runs the finalisers, too */
}

static void remove_files(void) {
  static const char *const names[] = { "a.csv", "a.index.json", "a.safetensors", "a.txt", "a.bin",
                                       "a.tokenizer", "p.safetensors", "s.safetensors" };
  char path[64];
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    snprintf(path, sizeof path, "%s/%s", folder, names[i]);
    unlink(path);
  }
  rmdir(folder);
}

int main(int argc, char **argv) {
  if (!mkdtemp(folder)) return 2;
  L = luaL_newstate();
  luaL_openlibs(L);
  luaL_requiref(L, "flame", luaopen_flame, 0);
  lua_settop(L, 0);
  if (luaL_loadstring(L, script) != LUA_OK ||
      (lua_pushstring(L, folder), lua_pcall(L, 1, 1, 0)) != LUA_OK) {
    printf("fuzz_load: %s\n", lua_tostring(L, -1));
    return 2;
  }
  fuzz_budget = 2;
  const int result = fuzz_main(argc, argv, &flame_lua_context(L)->mem, round_of_files, 1);
  printf("%s: %d values, %d refusals\n", fuzz_name, values, refusals);
  lua_close(L);
  remove_files();
  return result;
}
