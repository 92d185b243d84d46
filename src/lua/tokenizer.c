/*
** Tokenizers for scripts: what lua/flame/tokenizers.lua builds on. A tokenizer and its work space
** are in a userdata with a finaliser, so that no error leaves them open. Ids are passed as strings
** of i64 in the machine's byte order, from which Lua makes tensors.
*/
#include "base/utf8.h"
#include "lua/binding.h"
#include "text/tokenizer.h"

typedef struct box {
  fl_tokenizer *t;
  fl_trainer *trainer;
  fl_ids ids, types;
  fl_text out;
} box;

static int box_gc(lua_State *L) {
  box *x = (box *)lua_touserdata(L, 1);
  flame_context *c = self_of(L)->c;
  if (!c) return 0;
  fl_trainer_close(x->trainer);
  fl_tokenizer_close(x->t);
  FL_DROP(&c->mem, &x->ids);
  FL_DROP(&c->mem, &x->types);
  if (x->out.mem) fl_text_free(&x->out);
  memset(x, 0, sizeof *x);
  return 0;
}

static const char box_mark;

static box *box_of(lua_State *L) {
  box *x = (box *)fl_lua_marked(L, 1, &box_mark);
  luaL_argcheck(L, x && x->t, 1, "a tokenizer is expected");
  x->ids.n = x->types.n = 0;
  x->out.n = 0;
  x->out.failed = 0;
  return x;
}

static fl_span span_at(lua_State *L, int i) {
  fl_span s = { NULL, 0 };
  if (!lua_isnoneornil(L, i)) s.at = luaL_checklstring(L, i, &s.n);
  return s;
}

/* Adds the file's name to the message of the error in the context. */
static flame_status in_file(flame_context *c, const char *path) {
  const fl_error e = c->err;
  if (!path || e.code != FLAME_IO) return e.code;
  fl_error_clear(&c->err);
  return FL_FAIL(c, e.code, e.op, "%s: %s", path, e.message);
}

/* (text of a tokenizer.json[, its path]) -> the userdata. */
static int tok_open(lua_State *L) {
  fl_lua *b = self_of(L);
  const fl_span text = span_at(L, 1);
  const char *path = lua_tostring(L, 2);
  if (b->c == NULL) fl_lua_raise(L, b);
  box *x = (box *)lua_newuserdatauv(L, sizeof *x, 0);
  memset(x, 0, sizeof *x);
  lua_createtable(L, 0, 2);
  fl_lua_mark(L, &box_mark);
  fl_push_closure(L, b, box_gc);
  lua_setfield(L, -2, "__gc");
  lua_setmetatable(L, -2);
  const int64_t m = fl_lua_enter(L, b);
  fl_text_init(&x->out, &b->c->mem);
  x->t = fl_tokenizer_open(b->c, text.at, text.n);
  fl_lua_leave_status(L, b, m, x->t ? FLAME_OK : in_file(b->c, path));
  return 1;
}

static void push_ids(lua_State *L, const fl_ids *ids) {
  luaL_Buffer buffer;
  char *p = luaL_buffinitsize(L, &buffer, (size_t)ids->n * sizeof(int64_t));
  for (int64_t i = 0; i < ids->n; i++) {
    const int64_t v = ids->at[i];
    memcpy(p + i * 8, &v, 8);
  }
  luaL_pushresultsize(&buffer, (size_t)ids->n * sizeof(int64_t));
}

/* (tokenizer, text, second text or nil, then the fields of fl_tok_how) -> ids, types. */
static int tok_encode(lua_State *L) {
  fl_lua *b = self_of(L);
  box *x = box_of(L);
  const fl_span text = span_at(L, 2), pair = span_at(L, 3);
  const fl_tok_how how = { lua_toboolean(L, 4), lua_toboolean(L, 5), luaL_optinteger(L, 6, 0),
                           lua_toboolean(L, 7) };
  const int64_t m = fl_lua_enter(L, b);
  fl_lua_leave_status(L, b, m, fl_tokenizer_encode(x->t, text, pair, &how, &x->ids, &x->types));
  push_ids(L, &x->ids);
  push_ids(L, &x->types);
  return 2;
}

/* (tokenizer, ids, skip special tokens, raw) -> text. */
static int tok_decode(lua_State *L) {
  fl_lua *b = self_of(L);
  box *x = box_of(L);
  const fl_span s = span_at(L, 2);
  const int skip = lua_toboolean(L, 3), raw = lua_toboolean(L, 4);
  const int64_t n = (int64_t)(s.n / 8), m = fl_lua_enter(L, b);
  flame_status e = FLAME_OK;
  int64_t *ids = fl_alloc(&b->c->mem, (size_t)n * 8);
  if (ids && n) memcpy(ids, s.at, (size_t)n * 8);
  if (ids) e = fl_tokenizer_decode(x->t, ids, n, skip, raw, &x->out);
  else e = FL_FAIL(b->c, FLAME_NO_MEMORY, "decode", "no host memory");
  fl_free(&b->c->mem, ids, ids ? (size_t)n * 8 : 0);
  fl_lua_leave_status(L, b, m, e);
  lua_pushlstring(L, x->out.at ? x->out.at : "", x->out.n);
  return 1;
}

/* (tokenizer, token) -> id or nil. */
static int tok_id(lua_State *L) {
  const box *x = box_of(L);
  const int64_t id = fl_tokenizer_id(x->t, span_at(L, 2));
  if (id >= 0) lua_pushinteger(L, id);
  else lua_pushnil(L);
  return 1;
}

/* (tokenizer, id) -> token, special; or nil. */
static int tok_token(lua_State *L) {
  const box *x = box_of(L);
  fl_span token;
  int special;
  if (!fl_tokenizer_token(x->t, luaL_checkinteger(L, 2), &token, &special)) return 0;
  lua_pushlstring(L, token.at, token.n);
  lua_pushboolean(L, special);
  return 2;
}

/* (tokenizer) -> tokens, tokens without added ones, the largest id, model, the file's padding id */
static int tok_facts(lua_State *L) {
  const box *x = box_of(L);
  lua_pushinteger(L, fl_tokenizer_size(x->t, 1));
  lua_pushinteger(L, fl_tokenizer_size(x->t, 0));
  lua_pushinteger(L, fl_tokenizer_top(x->t) - 1);
  lua_pushstring(L, fl_tokenizer_model(x->t));
  if (fl_tokenizer_pad(x->t) >= 0) lua_pushinteger(L, fl_tokenizer_pad(x->t));
  else lua_pushnil(L);
  return 5;
}

/* (text) -> how many bytes at its end begin a character without completing it. */
static int tok_open_bytes(lua_State *L) {
  const fl_span s = span_at(L, 1);
  lua_pushinteger(L, (lua_Integer)fl_utf8_cut(s.at, s.n));
  return 1;
}

/* (tokenizer, text) -> the text with U+FFFD in place of invalid UTF-8. */
static int tok_mend(lua_State *L) {
  fl_lua *b = self_of(L);
  box *x = box_of(L);
  const fl_span s = span_at(L, 2);
  const int64_t m = fl_lua_enter(L, b);
  flame_status e = FLAME_OK;
  fl_utf8_mend(&x->out, s.at, s.n);
  if (x->out.failed) e = FL_FAIL(b->c, FLAME_NO_MEMORY, "decode", "no host memory");
  fl_lua_leave_status(L, b, m, e);
  lua_pushlstring(L, x->out.at ? x->out.at : "", x->out.n);
  return 1;
}

/* (tokenizer, text): counts its words for training. */
static int tok_feed(lua_State *L) {
  fl_lua *b = self_of(L);
  box *x = box_of(L);
  const fl_span text = span_at(L, 2);
  const int64_t m = fl_lua_enter(L, b);
  if (!x->trainer) x->trainer = fl_trainer_open(b->c, x->t);
  fl_lua_leave_status(L, b, m, x->trainer ? fl_trainer_feed(x->trainer, text) : b->c->err.code);
  return 0;
}

/* (tokenizer, vocabulary, least, longest, special tokens) -> the model's JSON. */
static int tok_train(lua_State *L) {
  fl_lua *b = self_of(L);
  box *x = box_of(L);
  luaL_checktype(L, 5, LUA_TTABLE);
  const int64_t n = (int64_t)lua_rawlen(L, 5);
  fl_span *special = (fl_span *)lua_newuserdatauv(L, (size_t)(n + 1) * sizeof *special, 0);
  for (int64_t i = 0; i < n; i++) {
    lua_rawgeti(L, 5, i + 1);
    special[i].at = luaL_checklstring(L, -1, &special[i].n);        /* the table keeps it */
    lua_pop(L, 1);
  }
  const fl_train_how how = { luaL_checkinteger(L, 2), luaL_checkinteger(L, 3), special, n,
                             luaL_checkinteger(L, 4) };
  const int64_t m = fl_lua_enter(L, b);
  flame_status e = FLAME_OK;
  if (!x->trainer && !(x->trainer = fl_trainer_open(b->c, x->t))) e = b->c->err.code;
  if (e == FLAME_OK) e = fl_trainer_finish(x->trainer, &how, &x->out);
  fl_trainer_close(x->trainer);
  x->trainer = NULL;
  fl_lua_leave_status(L, b, m, e);
  lua_pushlstring(L, x->out.at, x->out.n);
  return 1;
}

const fl_lua_reg fl_reg_tokenizer[] = {
  { "tok_open", tok_open, 0 }, { "tok_encode", tok_encode, 0 }, { "tok_decode", tok_decode, 0 },
  { "tok_id", tok_id, 0 }, { "tok_token", tok_token, 0 }, { "tok_facts", tok_facts, 0 },
  { "tok_open_bytes", tok_open_bytes, 0 }, { "tok_mend", tok_mend, 0 },
  { "tok_feed", tok_feed, 0 }, { "tok_train", tok_train, 0 },
  { NULL, NULL, 0 }
};
