/*
** Axes for flame.h count from 0. A call's arguments are translated by the declaration of the called
** function: a whole number >= 0, or each of a list of them, where a parameter takes an axis.
** Messages are translated by their text: the library writes "axis 2", "axes 1 and 2", "1 to 2, or
** -1 to -2".
*/
#include "lua/declare.h"
#include "lua/host.h"
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- arguments ----------------------------------------------------------------------------- */

static int takes_axis(const fl_declared *d, const fl_decl_param *p) {
  for (int k = p->atom; k < p->atom + p->natoms; k++)
    if (d->atom[k].kind == FL_ATOM_AXIS || d->atom[k].kind == FL_ATOM_AXES) return 1;
  return 0;
}

/* Converts the axis at stack index i, counted from 0, to one counted from 1. */
static void shift(lua_State *L, int i) {
  int whole = 0;
  const lua_Integer k = lua_type(L, i) == LUA_TNUMBER ? lua_tointegerx(L, i, &whole) : 0;
  if (!whole || k < 0 || k == LUA_MAXINTEGER) return;
  lua_pushinteger(L, k + 1);
  lua_replace(L, i);
}

/* Converts the value at i: a number, or the numbers of a list, which belongs to this call unless it
** has a metatable. */
static void shift_value(lua_State *L, int i) {
  if (lua_type(L, i) != LUA_TTABLE) {
    shift(L, i);
    return;
  }
  if (lua_getmetatable(L, i)) {
    lua_pop(L, 1);
    return;
  }
  const lua_Integer n = (lua_Integer)lua_rawlen(L, i);
  for (lua_Integer k = 1; k <= n; k++) {
    lua_rawgeti(L, i, k);
    shift(L, lua_gettop(L));
    lua_rawseti(L, i, k);
  }
}

/* Does parameter j, counted without the object, take an axis in any form (parameter list)? */
static int is_axis_at(const fl_declared *d, int j) {
  for (int k = 0; k < d->nforms; k++) {
    const fl_decl_form *f = &d->form[k];
    const int at = j + f->self;
    const fl_decl_param *p = at < f->npos ? &d->param[f->param + at] : fl_declare_rest(d, f);
    if (p && takes_axis(d, p)) return 1;
  }
  return 0;
}

static int is_axis_named(const fl_declared *d, const char *name, size_t n) {
  for (int k = 0; k < d->nforms; k++) {
    const fl_decl_form *f = &d->form[k];
    for (int j = f->self; j < f->nparams + (f->rest == 1); j++) {
      const fl_decl_param *p = &d->param[f->param + j];
      if (fl_decl_same(p->name, name, n) && takes_axis(d, p)) return 1;
    }
  }
  return 0;
}

/* Converts the options in the table at i. Existing fields may be set during a traversal. */
static void shift_named(lua_State *L, const fl_declared *d, int i) {
  for (lua_pushnil(L); lua_next(L, i); lua_pop(L, 1)) {
    size_t n = 0;
    const char *name = lua_type(L, -2) == LUA_TSTRING ? lua_tolstring(L, -2, &n) : NULL;
    if (!name || !is_axis_named(d, name, n)) continue;
    shift_value(L, lua_gettop(L));
    lua_pushvalue(L, -2);
    lua_pushvalue(L, -2);
    lua_rawset(L, i);
  }
}

/* Pushes the function that reads the arguments of the callable at i: for a class its 'init', for an
** object 'forward'. 0: unknown. */
static int push_reader(lua_State *L, int i) {
  if (lua_isfunction(L, i)) {
    lua_pushvalue(L, i);
    return 1;
  }
  if (lua_type(L, i) != LUA_TTABLE || luaL_getmetafield(L, i, "__name") == LUA_TNIL) return 0;
  const int class = lua_type(L, -1) == LUA_TSTRING && strcmp(lua_tostring(L, -1), "class") == 0;
  lua_pop(L, 1);
  lua_getfield(L, i, class ? "init" : "forward");
  return 1;
}

void fl_host_axes(lua_State *L, fl_lua *b, int callee, int first) {
  const int last = lua_gettop(L);
  luaL_checkstack(L, 16, "axes");
  const fl_declared *d = push_reader(L, callee) ? fl_declared_of(L, b, lua_gettop(L)) : NULL;
  const int self = d && d->form->self && first - callee > 1;
  for (int i = first; d && i <= last; i++) {
    if (i == last && fl_declare_is_options(L, i)) shift_named(L, d, i);
    else if (is_axis_at(d, i - first + (first - callee > 1 && !self))) shift_value(L, i);
  }
  lua_settop(L, last);
}

/* ---- messages ------------------------------------------------------------------------------ */

/* Reads the number at *p and writes it, minus one, to 'to'. 0: there is no number, or it is
** negative. */
static int less_one(const char **p, char **to, const char *end) {
  char *after;
  if (!isdigit((unsigned char)**p)) return 0;
  const long long k = strtoll(*p, &after, 10);
  const int n = snprintf(*to, (size_t)(end - *to), "%lld", k - 1);
  *p = after;
  *to += n < end - *to ? n : end - *to - 1;
  return 1;
}

static int begins(const char *p, const char *word) { return strncmp(p, word, strlen(word)) == 0; }

static void copy(const char **p, char **to, const char *end, size_t n) {
  while (n-- > 0 && **p && *to < end - 1) *(*to)++ = *(*p)++;
}

void fl_host_axes_said(char *text, size_t size) {
  char out[800];
  const char *p = text, *end = out + (size < sizeof out ? size : sizeof out);
  char *to = out;
  int ranged = 0;                            /* 1: the message says that an axis is out of range,
                                             ** and gives the range */
  while (*p && to < end - 1) {
    const int start = p == text || !isalnum((unsigned char)p[-1]);
    if (start && (begins(p, "axis ") || begins(p, "axes "))) {
      const int both = p[1] == 'x' && p[2] == 'e';
      copy(&p, &to, end, 5);
      if (less_one(&p, &to, end) && both && begins(p, " and ")) {
        copy(&p, &to, end, 5);
        less_one(&p, &to, end);
      }
      ranged = ranged || strstr(p, "is out of range, the tensor has") != NULL;
    } else if (ranged && begins(p, "(1 to ")) {
      copy(&p, &to, end, 1);
      *to++ = '0';
      p++;
      copy(&p, &to, end, 4);
      less_one(&p, &to, end);
    } else {
      copy(&p, &to, end, 1);
    }
  }
  *to = 0;
  snprintf(text, size, "%s", out);
}
