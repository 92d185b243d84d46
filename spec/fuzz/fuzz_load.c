/*
** Damaged files for the readers that Lua has: flame.load with the metadata of flame.save and lists
** of files, data.csv, data.text and data.tokens. A reader gives a value or an error in its own
** words: one of Lua (an index of nil, a stack overflow) is a fault, and so is time out of
** proportion.
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

/* Extension, what follows the text, and a valid text; safetensors texts are headers. */
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
  { "a.bin", "\1\0\2\0" }
};

/* (folder) -> a function of a path: nil for a value, "refused", or what is wrong with the error. */
static const char script[] =
  "local folder = ...\n"
  "local flame = require 'flame'\n"
  "local data = require 'flame.data'\n"
  "flame.save(folder .. '/p.safetensors', { a = flame.ones(2), b = flame.zeros(1, 2) })\n"
  "flame.save(folder .. '/s.safetensors', flame.ones(2))\n"
  "local function tabs(path) return data.csv(path, { sep = '\\t', dtype = 'f64' }) end\n"
  "local readers = { csv = { data.csv, tabs }, json = { flame.load }, safetensors = { flame.load }, txt = { data.text }, bin = { data.tokens } }\n"
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
  work.n = k < 7 ? strlen(seeds[k].text) : 4;
  memcpy(work.at, seeds[k].text, work.n);
  fuzz_damage(&work, 0, words);
  if (fuzz_draw(4) == 0) fuzz_damage(&work, 0, words);
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
                                       "p.safetensors", "s.safetensors" };
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
