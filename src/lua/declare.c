/*
** Functions that read their arguments by a declaration, and what a declaration says as a table, for
** pages and help.
*/
#include "lua/declare.h"

enum { AT_TEXT = 3, AT_NAME = 4, AT_FUNCTION = 5 };     /* upvalues */

static const fl_declared *declared_of(lua_State *L) {
  const fl_declared *d = (const fl_declared *)lua_touserdata(L, lua_upvalueindex(AT_TEXT));
  if (d != NULL) return d;
  luaL_checkstack(L, 24, "a declaration");
  d = fl_declare_parse(L, lua_upvalueindex(AT_TEXT));
  lua_replace(L, lua_upvalueindex(AT_TEXT));
  return d;
}

/* An argument of a type that the declaration leaves open (an element of a table): Lua's own
** error in one of flame's files. Raised again with the function's name and what it takes. */
static int misfit(lua_State *L) {
  const char *text = lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : "", *rest = NULL;
  if (strncmp(text, "attempt to ", 11) == 0) rest = text;
  else if (strncmp(text, "flame/", 6) == 0 && strstr(text, ".lua:") != NULL)
    rest = strstr(text, ": ") + 2;
  if (rest == NULL) return lua_error(L);
  const fl_declared *d = declared_of(L);
  const char *op = lua_tostring(L, lua_upvalueindex(AT_NAME));
  const fl_decl_span it = fl_declare_takes(d->form);
  return fl_lua_fail(L, op, "these arguments can not be taken: %s; it is %s%.*s", rest, op,
      it.n, it.at);
}

static int results(lua_State *L, int status, lua_KContext unused) {
  (void)unused;
  return status == LUA_OK || status == LUA_YIELD ? lua_gettop(L) : misfit(L);
}

int fl_lua_declared(lua_State *L) {
  const fl_declared *d = declared_of(L);
  const int form = fl_declare_read(L, d, lua_upvalueindex(AT_TEXT));
  lua_pushvalue(L, lua_upvalueindex(AT_FUNCTION + form));
  lua_insert(L, 1);
  return results(L, lua_pcallk(L, lua_gettop(L) - 1, LUA_MULTRET, 0, 0, results), 0);
}

/* The name in the head, without parsing, or 'name' where that is no suffix: pushed. */
static void push_name(lua_State *L, const char *text, const char *suffix) {
  const size_t head = strcspn(text, "(");
  size_t from = head, to = head;
  if (suffix[0] != 0 && suffix[0] != '_') {
    lua_pushstring(L, suffix);
    return;
  }
  if (to > 1 && text[to - 1] == '?') to -= 2;
  while (from > 0 && text[from - 1] != '.' && text[from - 1] != ':') from--;
  if (from >= to) luaL_error(L, "declaration '%s': expected a name and '('", text);
  lua_pushlstring(L, text + from, to - from);
  lua_pushstring(L, suffix);
  lua_concat(L, 2);
}

/* (text, suffix, f, …): the public function of a declaration, with a Lua function for each of
** its forms, and its name with the suffix ("" or "_"), by which messages call it; instead of a
** suffix the name itself may stand. Nothing is parsed. */
static int declare(lua_State *L) {
  const int forms = lua_gettop(L) - 2;
  const char *text = luaL_checkstring(L, 1), *suffix = luaL_checkstring(L, 2);
  luaL_argcheck(L, forms >= 1 && forms <= FL_DECL_FORMS, 3, "a function for each form is expected");
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_pushvalue(L, lua_upvalueindex(2));
  lua_pushvalue(L, 1);
  push_name(L, text, suffix);
  for (int k = 0; k < forms; k++) {
    luaL_checktype(L, 3 + k, LUA_TFUNCTION);
    lua_pushvalue(L, 3 + k);
  }
  push_name(L, text, suffix);
  lua_insert(L, -(forms + 5));
  lua_pushcclosure(L, fl_lua_declared, forms + 4);
  lua_insert(L, -2);
  return 2;
}

/* ---- what it says --------------------------------------------------------------------------- */
static void set_span(lua_State *L, const char *key, fl_decl_span s) {
  if (s.n == 0) return;
  lua_pushlstring(L, s.at, (size_t)s.n);
  lua_setfield(L, -2, key);
}
static void set_flag(lua_State *L, const char *key, int on) {
  lua_pushboolean(L, on);
  lua_setfield(L, -2, key);
}

static const char *const of_kind[] = { "T", "num", "int", "bool", "str", "fn", "any" };

int fl_declare_has_self(lua_State *L, int i) {
  if (lua_tocfunction(L, i) != fl_lua_declared) return 0;
  lua_getupvalue(L, i, AT_TEXT);
  const fl_declared *d = (const fl_declared *)lua_touserdata(L, -1);
  lua_pop(L, 1);
  return d != NULL && d->form->self;
}

static void push_param(lua_State *L, const fl_declared *d, const fl_decl_param *p) {
  lua_createtable(L, 0, 6);
  set_span(L, "name", p->name);
  set_span(L, "type", p->type);
  if (p->type.n == 0) {
    lua_pushfstring(L, "%s%s", of_kind[d->atom[p->atom].kind], d->atom[p->atom].list ? "[]" : "");
    lua_setfield(L, -2, "type");
  }
  set_span(L, "default", p->given);
  set_flag(L, "optional", p->optional);
  set_flag(L, "named", p->named);
}

static void push_results(lua_State *L, const fl_declared *d, const fl_decl_form *f) {
  lua_createtable(L, f->nresults, 0);
  for (int k = 0; k < f->nresults; k++) {
    const fl_decl_result *r = &d->result[f->result + k];
    lua_createtable(L, 0, 3);
    set_span(L, "name", r->name);
    set_span(L, "type", r->type);
    set_span(L, "flag", r->flag);
    lua_rawseti(L, -2, k + 1);
  }
}

static void push_form(lua_State *L, const fl_declared *d, const fl_decl_form *f) {
  static const char *const rests[] = { NULL, "list", "as they are" };
  lua_createtable(L, 0, 7);
  set_span(L, "scope", f->scope);
  set_flag(L, "self", f->self);
  set_span(L, "text", f->text);
  lua_pushstring(L, rests[f->rest]);
  lua_setfield(L, -2, "rest");
  lua_createtable(L, f->nparams + 1, 0);
  for (int j = f->self; j < f->nparams + (f->rest == 1); j++) {
    push_param(L, d, &d->param[f->param + j]);
    lua_rawseti(L, -2, j + 1 - f->self);
  }
  lua_setfield(L, -2, "params");
  push_results(L, d, f);
  lua_setfield(L, -2, "results");
}

/* (function or text): {name =, in_place =, a table for each form}; nil: the function has no
** declaration. */
static int declaration(lua_State *L) {
  lua_settop(L, 1);
  if (lua_isfunction(L, 1)) {
    if (lua_tocfunction(L, 1) != fl_lua_declared) return 0;
    lua_getupvalue(L, 1, AT_TEXT);
    if (lua_type(L, -1) == LUA_TUSERDATA) lua_getiuservalue(L, -1, 1);
  }
  const fl_declared *d = fl_declare_parse(L, lua_gettop(L));
  lua_createtable(L, d->nforms, 2);
  set_span(L, "name", d->name);
  set_flag(L, "in_place", d->in_place);
  for (int k = 0; k < d->nforms; k++) {
    push_form(L, d, &d->form[k]);
    lua_rawseti(L, -2, k + 1);
  }
  return 1;
}

const fl_lua_reg fl_reg_declare[] = {
  { "declare", declare, 0 }, { "declaration", declaration, 0 }, { NULL, NULL, 0 }
};
