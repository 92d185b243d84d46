/*
** Functions that read their arguments by a declaration, and the content of a declaration as a
** table, for pages and help.
*/
#include "lua/declare.h"

enum { AT_TEXT = 3, AT_NAME = 4, AT_FUNCTION = 5 };     /* upvalues */

/* Pushes the text of a declaration, unparsed. The value at 'text' is that text, for a function
** written in Lua, or the text's address, for one in C. The declarations of the op table begin after
** the name, which is the value at 'name'. */
static void push_text(lua_State *L, int text, int name) {
  const char *row = (const char *)lua_touserdata(L, text);
  size_t n = 0;
  if (row == NULL) {
    lua_pushvalue(L, text);
    return;
  }
  if (row[0] != '(' && row[0] != '_') {
    lua_pushstring(L, row);
    return;
  }
  const char *op = lua_tolstring(L, name, &n);
  lua_pushlstring(L, op, n - (row[0] == '_' && op[n - 1] == '_'));
  lua_pushstring(L, row);
  lua_concat(L, 2);
}

const fl_declared *fl_declared_here(lua_State *L) {
  const fl_declared *d = (const fl_declared *)lua_touserdata(L, lua_upvalueindex(AT_TEXT));
  if (d != NULL && d->parsed == 0) return d;
  luaL_checkstack(L, 24, "a declaration");
  push_text(L, lua_upvalueindex(AT_TEXT), lua_upvalueindex(AT_NAME));
  d = fl_declare_parse(L, lua_gettop(L));
  lua_replace(L, lua_upvalueindex(AT_TEXT));
  lua_pop(L, 1);
  return d;
}

/* Takes Lua's own error in one of flame's files as a wrong argument, one whose type the declaration
** leaves open (an element of a table), and raises it again with the function's name and forms
** (parameter lists). */
static int misfit(lua_State *L) {
  const char *text = lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : "", *rest = NULL;
  if (self_of(L)->c != NULL && fl_is_stuck(self_of(L)->c)) return lua_error(L);
  if (strncmp(text, "attempt to ", 11) == 0) rest = text;
  else if (strncmp(text, "flame/", 6) == 0 && strstr(text, ".lua:") != NULL)
    rest = strstr(text, ": ") + 2;
  if (rest == NULL) return lua_error(L);
  if (strcmp(rest, "interrupted!") == 0 && self_of(L)->c != NULL) {      /* by a hook of the host */
    FL_FAIL(self_of(L)->c, FLAME_INTERRUPTED, "", "interrupted!");
    return fl_lua_raise(L, self_of(L));
  }
  const char *op = lua_tostring(L, lua_upvalueindex(AT_NAME));
  return fl_lua_fail(L, op, "these arguments can not be taken: %s; it is %s", rest,
      fl_declare_forms(L, fl_declared_here(L), op));
}

/* The end of a call: returns its results, or raises its error again (misfit). casting: the call has
** cast its arguments for autocast and switched casting off for the ops inside it; now it is on
** again. */
static int results(lua_State *L, int status, lua_KContext casting) {
  if (casting) self_of(L)->inside = 0;
  return status == LUA_OK || status == LUA_YIELD ? lua_gettop(L) : misfit(L);
}

int fl_lua_declared(lua_State *L) {
  const fl_declared *d = fl_declared_here(L);
  fl_lua *b = self_of(L);
  const int form = fl_declare_read(L, d, lua_upvalueindex(AT_TEXT));
  const int casting = d->cast && b->autocast && !b->inside;
  if (casting) {
    fl_declare_cast(L, b, d->cast);
    b->inside = 1;
  }
  lua_pushvalue(L, lua_upvalueindex(AT_FUNCTION + form));
  lua_insert(L, 1);
  return results(L, lua_pcallk(L, lua_gettop(L) - 1, LUA_MULTRET, 0, casting, results), casting);
}

int fl_args(lua_State *L) {
  const fl_declared *d = fl_declared_here(L);
  fl_lua *b = self_of(L);
  const int form = fl_declare_read(L, d, lua_upvalueindex(AT_TEXT));
  if (d->cast && b->autocast && !b->inside) fl_declare_cast(L, b, d->cast);
  return form;
}

/* Pushes the name before the '(' of a declaration, followed by the suffix ("" or "_"); or 'suffix'
** itself if that is a name. Nothing is parsed. */
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

/* (text, suffix, f, …): makes the public function of a declaration, with a Lua function for each of
** its forms (parameter lists), and its name for messages: with the suffix ("" or "_"), or the name
** given in place of a suffix. Nothing is parsed. */
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
  lua_createtable(L, 0, 8);
  set_span(L, "scope", f->scope);
  set_flag(L, "self", f->self);
  set_flag(L, "options_first", f->options_first);
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

/* Pushes the text of the declared function at i; 0: it has no declaration. One in C has it in an
** upvalue after the metatable of tensors, as all closures of the binding. */
static int push_text_of(lua_State *L, const fl_lua *b, int i) {
  if (lua_tocfunction(L, i) == NULL || lua_getupvalue(L, i, 1) == NULL) return 0;
  const int ours = lua_touserdata(L, -1) == (const void *)b;
  if (!ours || lua_getupvalue(L, i, AT_NAME) == NULL || lua_type(L, -1) != LUA_TSTRING) return 0;
  const int name = lua_gettop(L);
  lua_getupvalue(L, i, AT_TEXT);
  if (lua_type(L, -1) == LUA_TUSERDATA) lua_getiuservalue(L, -1, 1);
  else if (lua_type(L, -1) == LUA_TNUMBER || lua_type(L, -1) == LUA_TFUNCTION) return 0;
  else push_text(L, name + 1, name);
  return 1;
}

const fl_declared *fl_declared_of(lua_State *L, fl_lua *b, int i) {
  const int top = lua_gettop(L);
  i = lua_absindex(L, i);
  luaL_checkstack(L, 24, "a declaration");
  if (!push_text_of(L, b, i)) {
    lua_settop(L, top);
    return NULL;
  }
  const fl_declared *d = fl_declare_parse(L, lua_gettop(L));
  lua_replace(L, top + 1);
  lua_settop(L, top + 1);
  return d;
}

/* (function or text): {name =, doc =, autocast =, in_place =, a table for each form (parameter
** list)}; nil: the function has no declaration. */
static int declaration(lua_State *L) {
  static const char *const casts[] = { NULL, "half", "single", "neutral" };
  lua_settop(L, 1);
  if (lua_isfunction(L, 1) && !push_text_of(L, self_of(L), 1)) return 0;
  const fl_declared *d = fl_declare_parse(L, lua_gettop(L));
  lua_createtable(L, d->nforms, 4);
  set_span(L, "name", d->name);
  set_span(L, "doc", d->doc);
  if (d->cast) lua_pushstring(L, casts[d->cast]), lua_setfield(L, -2, "autocast");
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
