/*
** Reads arguments by a declaration, in place on the stack. The quick way is for calls whose
** arguments have types that fit the first form (parameter list) without further checks, by position
** or, if it is the only form, with options after them; every other call tries the forms in order
** without changing anything, then places the parameters of the first that fits.
*/
#include "lua/declare.h"

/* The arguments of the call. n: their number; keyed: the last one is a table of options; empty: it
** is an empty table; given: their number including trailing nils. */
typedef struct call { int n, keyed, empty, given; } call;

/* ---- values ---------------------------------------------------------------------------------- */
/* Is the value at i a table whose metatable has __call or __name? */
static int is_object(lua_State *L, int i) {
  const int object = luaL_getmetafield(L, i, "__call") != LUA_TNIL ||
    luaL_getmetafield(L, i, "__name") != LUA_TNIL;
  if (object) lua_pop(L, 1);
  return object;
}

int fl_declare_is_options(lua_State *L, int i) {
  return fl_is_options(L, i) && !is_object(L, i);
}

/* Is the value at i a table whose metatable gives its elements or their number? */
static int is_proxy(lua_State *L, int i) {
  if (fl_is_sizes(L, i)) return 0;
  const int proxy = luaL_getmetafield(L, i, "__index") != LUA_TNIL ||
    luaL_getmetafield(L, i, "__len") != LUA_TNIL;
  if (proxy) lua_pop(L, 1);
  return proxy;
}

static int names_class(lua_State *L, fl_decl_span of) {
  size_t n = 0;
  const char *name = lua_type(L, -1) == LUA_TSTRING ? lua_tolstring(L, -1, &n) : NULL;
  const size_t want = (size_t)of.n;
  if (name == NULL || n < want || memcmp(name + n - want, of.at, want) != 0) return 0;
  return n == want || name[n - want - 1] == '.';
}

/* Compares the metatable's __name, and that of the tables to which __index of the metatables
** refers. */
int fl_declare_is_of_class(lua_State *L, fl_decl_span name, int i) {
  const int top = lua_gettop(L);
  int found = 0;
  if (!lua_getmetatable(L, i)) return 0;
  for (int depth = 0; depth < 16 && !found; depth++) {
    const int class = lua_gettop(L);
    luaL_checkstack(L, 8, "classes");
    lua_pushliteral(L, "__name");
    lua_rawget(L, class);
    found = names_class(L, name);
    if (found || !lua_getmetatable(L, class)) break;
    lua_pushliteral(L, "__index");
    if (lua_rawget(L, -2) != LUA_TTABLE) break;
  }
  lua_settop(L, top);
  return found;
}

static int is_whole(lua_State *L, int i) {
  int ok = 0;
  if (lua_type(L, i) == LUA_TNUMBER) lua_tointegerx(L, i, &ok);
  return ok;
}

static int is_device(const char *s) { return strcmp(s, "cpu") == 0 || strncmp(s, "cuda", 4) == 0; }

/* Does the value at i fit atom a (a type in a declaration) as one value, not as a list? */
static int is_one(lua_State *L, const fl_decl_atom *a, int i) {
  const int t = lua_type(L, i);
  size_t n = 0;
  const char *s = t == LUA_TSTRING ? lua_tolstring(L, i, &n) : NULL;
  switch ((fl_decl_atom_kind)a->kind) {
    case FL_ATOM_T: return box_at(L, i) != NULL;
    case FL_ATOM_NUM: return t == LUA_TNUMBER;
    case FL_ATOM_INT: case FL_ATOM_AXIS: case FL_ATOM_AXES: case FL_ATOM_DIMS:
      return is_whole(L, i);
    case FL_ATOM_BOOL: return t == LUA_TBOOLEAN;
    case FL_ATOM_STR: return t == LUA_TSTRING;
    case FL_ATOM_FN: return fl_is_callable(L, i);
    case FL_ATOM_ANY: return t != LUA_TNIL;
    case FL_ATOM_DTYPE: return s != NULL && fl_dtype_of_name(s) >= 0;
    case FL_ATOM_DEVICE: return s != NULL && is_device(s);
    case FL_ATOM_CLASS: return fl_declare_is_of_class(L, a->text, i);
    case FL_ATOM_WORD: return s != NULL && fl_decl_same(a->text, s, n);
    case FL_ATOM_TABLE: return t == LUA_TTABLE;
  }
  return 0;
}

static int misfit(fl_decl_misfit *why, fl_decl_misfit_kind kind, const fl_decl_param *p, int at,
    int64_t element) {
  *why = (fl_decl_misfit){ kind, p, at, element };
  return 0;
}

enum { LONGEST = 900000 };            /* most elements of a list that is read through a metatable or
                                      ** spread: these fit on Lua's stack */

/* The length of the list at i, as its metatable gives it; -1: that is not a length, or the list is
** too long to read every element through the metatable; the length is then left on the stack. */
static int64_t length_of(lua_State *L, int i) {
  int whole = 0;
  lua_len(L, i);
  const lua_Integer n = lua_type(L, -1) == LUA_TNUMBER ? lua_tointegerx(L, -1, &whole) : 0;
  if (!whole || n < 0 || n > LONGEST) return -1;
  lua_pop(L, 1);
  return n;
}

/* Is the value at i a list that the atom accepts? A list with a metatable is read through it; an
** object of a class is not a list. */
static int is_list(lua_State *L, const fl_decl_atom *a, const fl_decl_param *p, int i,
    fl_decl_misfit *why) {
  if (!fl_declare_takes_list(a) || lua_type(L, i) != LUA_TTABLE) return 0;
  const int proxy = is_proxy(L, i);
  if (proxy ? is_object(L, i) : fl_is_options(L, i)) return 0;
  const int64_t n = proxy ? length_of(L, i) : (int64_t)lua_rawlen(L, i);
  if (n < 0) return misfit(why, FL_MISFIT_COUNT, p, lua_gettop(L), 0);
  const int dims = a->kind == FL_ATOM_DIMS && !a->list;
  if (dims && n != a->n && n != 1) return misfit(why, FL_MISFIT_LENGTH, p, i, n);
  if (a->kind == FL_ATOM_ANY) return 1;
  for (int64_t k = 1; k <= n; k++) {
    if (proxy) lua_geti(L, i, k);
    else lua_rawgeti(L, i, k);
    if (!is_one(L, a, lua_gettop(L))) return misfit(why, FL_MISFIT_ELEMENT, p, lua_gettop(L), k);
    lua_pop(L, 1);
  }
  return 1;
}

/* Does a given value fit the parameter? If several types of lists do not fit, the one that fits the
** most elements is reported. */
static int fits(lua_State *L, const fl_declared *d, const fl_decl_param *p, int i,
    fl_decl_misfit *why) {
  const int t = lua_type(L, i), top = lua_gettop(L);
  if (p->plain >> t & 1 || (p->tensor && box_at(L, i) != NULL)) return 1;
  if (p->optional && t == LUA_TBOOLEAN && !lua_toboolean(L, i)) return 1;
  misfit(why, FL_MISFIT_TYPE, p, i, 0);
  for (int k = p->atom; k < p->atom + p->natoms; k++) {
    const fl_decl_atom *a = &d->atom[k];
    fl_decl_misfit list = { 0 };
    if ((a->list || !is_one(L, a, i)) && !is_list(L, a, p, i, &list)) {
      if (list.kind && list.element >= why->element) *why = list;
      continue;
    }
    lua_settop(L, top);                  /* drops an element that another atom did not accept */
    return 1;
  }
  return 0;
}

static int takes_table(const fl_declared *d, const fl_decl_param *p) {
  for (int k = p->atom; k < p->atom + p->natoms; k++) {
    if (d->atom[k].kind == FL_ATOM_TABLE && !d->atom[k].list) return 1;
  }
  return 0;
}

static int takes_list(const fl_declared *d, const fl_decl_param *p) {
  for (int k = p->atom; k < p->atom + p->natoms; k++) {
    const fl_decl_atom *a = &d->atom[k];
    if (fl_declare_takes_list(a) || a->kind == FL_ATOM_ANY || a->kind == FL_ATOM_TABLE) return 1;
  }
  return 0;
}

/* ---- forms ----------------------------------------------------------------------------------- */
static int has_options(const fl_decl_form *f) {
  const int no_key = f->self || (f->npos > 0 && !f->options_first);
  return f->nparams + (f->rest == 1) > no_key;
}

/* How many arguments are given by position; the next one, if any, is the table of options. An empty
** table is one argument too many if there are no options. */
static int by_position(const fl_declared *d, const fl_decl_form *f, const call *c) {
  const int place = c->n - 1, there = place < f->npos;
  if (c->empty && !has_options(f)) return c->n;
  if (f->rest == 2 || (!c->keyed && !c->empty) || (place == 0 && !f->options_first)) return c->n;
  const fl_decl_param *p = &d->param[f->param + (there ? place : 0)];
  if (c->keyed) return there && takes_table(d, p) ? c->n : place;
  if (place == 0 && there && !p->optional && !p->by_default) return c->n;
  if (there) return takes_list(d, p) ? c->n : place;
  return f->rest == 1 && place == f->npos ? c->n : place;
}

/* Is the only value of "id..." a list of values, and not an object that is one value? */
static int is_rest_list(lua_State *L, const fl_declared *d, const fl_decl_param *p, int i) {
  fl_decl_misfit why;
  const int top = lua_gettop(L);
  if (lua_type(L, i) != LUA_TTABLE || fl_declare_is_options(L, i)) return 0;
  const int one = is_object(L, i) && fits(L, d, p, i, &why);
  lua_settop(L, top);
  return !one;
}

/* Do the values from 'first' to 'last' fit "id...", or is there one, a list whose elements do? */
static int rest_fits(lua_State *L, const fl_declared *d, const fl_decl_param *p, int first,
    int last, fl_decl_misfit *why) {
  if (first == last && is_rest_list(L, d, p, first)) {
    const int64_t n = length_of(L, first);
    if (n < 0) return misfit(why, FL_MISFIT_COUNT, p, lua_gettop(L), 0);
    for (int64_t k = 1; k <= n; k++) {
      lua_geti(L, first, k);
      const int at = lua_gettop(L);
      if (!fits(L, d, p, at, why)) return misfit(why, FL_MISFIT_ELEMENT, p, at, k);
      lua_pop(L, 1);
    }
    return 1;
  }
  for (int i = first; i <= last; i++) {
    if (fits(L, d, p, i, why)) continue;
    const int mixed = lua_type(L, i) == LUA_TTABLE && first < last && !fl_is_options(L, i);
    return misfit(why, mixed ? FL_MISFIT_MIXED : FL_MISFIT_ELEMENT, p, i, i - first + 1);
  }
  return 1;
}

/* The number of the parameter with this name in form f, "id..." included; -1: there is none. */
static int param_of(const fl_declared *d, const fl_decl_form *f, const char *name, size_t n) {
  const fl_decl_param *p = &d->param[f->param];
  for (int j = f->self; j < f->nparams + (f->rest == 1); j++) {
    if (fl_decl_same(p[j].name, name, n)) return j;
  }
  return -1;
}

/* Was parameter j given by position, as one of the first m arguments? */
static int came(lua_State *L, const fl_decl_form *f, int j, int m) {
  return j < f->npos && j < m && !lua_isnil(L, j + 1);
}

/* Is the key below the top a parameter that was not given yet, and does the value on top fit it? m
** arguments were given by position. */
static int option_fits(lua_State *L, const fl_declared *d, const fl_decl_form *f, int m,
    fl_decl_misfit *why) {
  const int at = lua_gettop(L);
  size_t n = 0;
  if (lua_type(L, at - 1) != LUA_TSTRING) return misfit(why, FL_MISFIT_KEY, NULL, at - 1, 0);
  const char *name = lua_tolstring(L, at - 1, &n);
  const int j = param_of(d, f, name, n);
  if (j < 0) return misfit(why, FL_MISFIT_OPTION, NULL, at - 1, 0);
  const fl_decl_param *p = &d->param[f->param + j];
  const int rest = j == f->nparams;
  if (rest ? m > f->npos : came(L, f, j, m)) return misfit(why, FL_MISFIT_TWICE, p, at, 0);
  const int list = rest && lua_type(L, at) == LUA_TTABLE;
  return list ? rest_fits(L, d, p, at, at, why) : fits(L, d, p, at, why);
}

/* Does form f (a parameter list) fit the arguments? If not, the value that does not fit is left on
** the stack, for the message. */
static int form_fits(lua_State *L, const fl_declared *d, const fl_decl_form *f, const call *c,
    fl_decl_misfit *why) {
  const int m = by_position(d, f, c), opts = m < c->n ? c->n : 0;
  const fl_decl_param *p = &d->param[f->param];
  if (m > f->npos && f->rest == 0) return misfit(why, FL_MISFIT_MANY, NULL, 0, m);
  for (int j = 0; j < f->npos && j < m; j++) {
    if (came(L, f, j, m) && !fits(L, d, &p[j], j + 1, why)) return 0;
  }
  const int rest = m > f->npos && f->rest == 1;
  if (rest && !rest_fits(L, d, &p[f->nparams], f->npos + 1, m, why)) return 0;
  if (opts) {
    lua_pushnil(L);
    while (lua_next(L, opts)) {
      if (!option_fits(L, d, f, m, why)) return 0;
      lua_pop(L, 1);
    }
  }
  for (int j = 0; j < f->nparams; j++) {
    if (p[j].optional || p[j].by_default || came(L, f, j, m)) continue;
    lua_pushlstring(L, p[j].name.at, (size_t)p[j].name.n);
    const int missing = !opts || lua_rawget(L, opts) == LUA_TNIL;
    lua_pop(L, 1);
    const int there = j + 1 <= (opts ? m : c->given);
    if (missing) return misfit(why, FL_MISFIT_MISSING, &p[j], there ? j + 1 : 0, 0);
  }
  return 1;
}

/* ---- placing --------------------------------------------------------------------------------- */
/* Replaces the list on top by a copy. */
static void copy_list(lua_State *L) {
  const lua_Integer n = (lua_Integer)lua_rawlen(L, -1);
  lua_createtable(L, (int)n, 0);
  for (lua_Integer k = 1; k <= n; k++) {
    lua_rawgeti(L, -2, k);
    lua_rawseti(L, -2, k);
  }
  lua_remove(L, -2);
}

/* Pushes the default of p. base: the stack index before the first parameter. */
static void push_default(lua_State *L, const fl_decl_param *p, int holder, int base) {
  switch ((fl_decl_default_kind)p->by_default) {
    case FL_DEFAULT_NONE: lua_pushnil(L); break;
    case FL_DEFAULT_INT: lua_pushinteger(L, p->i); break;
    case FL_DEFAULT_NUM: lua_pushnumber(L, p->d); break;
    case FL_DEFAULT_BOOL: lua_pushboolean(L, (int)p->i); break;
    case FL_DEFAULT_WORD: lua_getiuservalue(L, holder, (int)p->i); break;
    case FL_DEFAULT_PARAM: lua_pushvalue(L, base + 1 + (int)p->i); break;
    case FL_DEFAULT_LIST: lua_getiuservalue(L, holder, (int)p->i), copy_list(L); break;
  }
}

/* Raises: a list's metatable gives something else than it did when the list was checked. */
static void changed(lua_State *L, const fl_decl_param *p, const char *op) {
  fl_lua_fail(L, op, "%.*s changed while it was read", p->name.n, p->name.at);
}

/* Does a type of p accept the value at i, or, if 'element' is 1, a list with this element? */
static int is_taken(lua_State *L, const fl_declared *d, const fl_decl_param *p, int i,
    int element) {
  for (int k = p->atom; k < p->atom + p->natoms; k++) {
    const fl_decl_atom *a = &d->atom[k];
    if ((element ? fl_declare_takes_list(a) : !a->list) && is_one(L, a, i)) return 1;
  }
  return 0;
}

/* Replaces a list whose elements come from its metatable with a plain list of these elements. */
static void settle_list(lua_State *L, const fl_declared *d, const fl_decl_param *p, int i,
    const char *op) {
  if (!is_proxy(L, i) || is_taken(L, d, p, i, 0)) return;
  const int64_t n = length_of(L, i);
  if (n < 0) changed(L, p, op);
  lua_createtable(L, (int)n, 0);
  for (int64_t k = 1; k <= n; k++) {
    lua_geti(L, i, k);
    if (!is_taken(L, d, p, lua_gettop(L), 1)) changed(L, p, op);
    lua_rawseti(L, -2, k);
  }
  lua_replace(L, i);
}

/* Converts whole numbers to integers, and false to nil where it means none; checks that a tensor is
** usable, and makes a list plain. */
static void settle(lua_State *L, const fl_declared *d, const fl_decl_param *p, int i,
    const char *op) {
  const fl_box *x = p->tensor ? box_at(L, i) : NULL;
  if (lua_type(L, i) == LUA_TTABLE) settle_list(L, d, p, i, op);
  if (x != NULL && x->t == NULL) fl_arg_tensor(L, i, op, "x");
  if (p->whole && lua_type(L, i) == LUA_TNUMBER && !lua_isinteger(L, i)) {
    lua_pushinteger(L, lua_tointeger(L, i));
    lua_replace(L, i);
  }
  if (p->optional && !(p->plain >> LUA_TBOOLEAN & 1) && lua_isboolean(L, i)) {
    lua_pushnil(L);
    lua_replace(L, i);
  }
}

/* Replaces the list on top by its elements. */
static void spread(lua_State *L, const fl_declared *d, const fl_decl_param *p, const char *op) {
  fl_decl_misfit why;
  const int list = lua_gettop(L), proxy = is_proxy(L, list);
  const int64_t n = length_of(L, list);
  if (n < 0) changed(L, p, op);
  if (!lua_checkstack(L, (int)n + 8))
    fl_lua_fail(L, op, "a list of %lld is too long", (long long)n);
  for (int64_t k = 1; k <= n; k++) {
    lua_geti(L, list, k);
    if (proxy && !fits(L, d, p, lua_gettop(L), &why)) changed(L, p, op);
  }
  lua_remove(L, list);
}

static void place_rest(lua_State *L, const fl_declared *d, const fl_decl_param *p, int first,
    const char *op) {
  if (lua_gettop(L) == first && is_rest_list(L, d, p, first)) spread(L, d, p, op);
  for (int i = first; i <= lua_gettop(L); i++) settle(L, d, p, i, op);
}

/* Moves the values of the options, which are at 1, to their parameters, which begin at 2; those of
** "id..." are not moved. */
static void place_options(lua_State *L, const fl_declared *d, const fl_decl_form *f) {
  lua_pushnil(L);
  while (lua_next(L, 1)) {
    size_t n = 0;
    const char *name = lua_tolstring(L, -2, &n);
    const int j = param_of(d, f, name, n);
    if (j < f->nparams) lua_replace(L, j + 2);
    else lua_pop(L, 1);
  }
}

/* Turns the arguments, which fit, into the parameters. The options, or nil, are at 1 meanwhile. */
static void place(lua_State *L, const fl_declared *d, const fl_decl_form *f, const call *c,
    int holder, const char *op) {
  const int m = by_position(d, f, c), named = f->nparams - f->npos;
  const fl_decl_param *p = &d->param[f->param], *rest = fl_declare_rest(d, f);
  lua_settop(L, c->n);
  luaL_checkstack(L, f->nparams + 8, "arguments");
  if (m == c->n) lua_pushnil(L);
  lua_insert(L, 1);
  lua_settop(L, 1 + (m > f->npos ? m : f->npos));
  lua_settop(L, lua_gettop(L) + named);
  if (m > f->npos && named > 0) lua_rotate(L, 2 + f->npos, named);
  if (m < c->n) place_options(L, d, f);
  for (int j = 0; j < f->nparams; j++) {
    if (lua_isnil(L, j + 2)) {
      push_default(L, &p[j], holder, 1);
      lua_replace(L, j + 2);
    }
    settle(L, d, &p[j], j + 2, op);
  }
  if (rest != NULL && m <= f->npos && m < c->n) {
    lua_pushlstring(L, rest->name.at, (size_t)rest->name.n);
    if (lua_rawget(L, 1) == LUA_TNIL) lua_pop(L, 1);
  }
  if (rest != NULL) place_rest(L, d, rest, f->nparams + 2, op);
  lua_remove(L, 1);
}

/* If the single value of "id..." is a list that it accepts, without a metatable or other keys, its
** elements replace it. Only short lists of integers are accepted, such as sizes and axes. */
static int spread_quickly(lua_State *L, const fl_decl_param *p, int list) {
  const int64_t n = (int64_t)lua_rawlen(L, list);
  int64_t keys = 0;
  if (n > 8 || n == 0 || lua_getmetatable(L, list)) return 0;
  lua_pushnil(L);
  while (lua_next(L, list)) {
    const int fits = lua_isinteger(L, -2) && p->whole && lua_isinteger(L, -1);
    lua_pop(L, 1);
    if (fits && ++keys) continue;
    lua_pop(L, 1);
    return 0;
  }
  if (keys != n) return 0;
  luaL_checkstack(L, 16, "a list");
  for (int64_t k = 1; k <= n; k++) lua_rawgeti(L, list, k);
  lua_remove(L, list);
  return 1;
}

/* Handles the values of "id...", from argument 'first' on. 0: they need the complete checks. */
static int rest_quickly(lua_State *L, const fl_decl_param *p, int first, int n) {
  if (n == first && lua_type(L, n) == LUA_TTABLE) return spread_quickly(L, p, first);
  for (int i = first; i <= n; i++) if (!p->whole || !lua_isinteger(L, i)) return 0;
  return 1;
}

/* Does the argument or option at i fit without further checks? */
static int fits_quickly(lua_State *L, const fl_decl_param *p, int i) {
  const int t = lua_type(L, i);
  if (t == LUA_TUSERDATA && p->tensor) {
    const fl_box *x = box_at(L, i);
    if (x != NULL && x->t != NULL) return 1;
  }
  return (p->plain >> t & 1) || (p->whole && lua_isinteger(L, i));
}

/* Do the first n arguments fit parameters 1 to n? */
static int first_fit(lua_State *L, const fl_declared *d, const fl_decl_form *f, int n) {
  const fl_decl_param *p = &d->param[f->param];
  for (int j = 0; j < n; j++) {
    if (j == 0 && f->self ? !fl_declare_is_of_class(L, d->atom[p->atom].text, 1)
        : !fits_quickly(L, &p[j], j + 1))
      return 0;
  }
  return 1;
}

/* Moves the values of the table on top to the nparams parameters before it, of which 'given' were
** given by position. 0: the table is empty, or has a key that names no parameter, or one of those
** given, or a value that needs the complete checks. */
static int take_options(lua_State *L, const fl_declared *d, const fl_decl_form *f, int given) {
  const fl_decl_param *p = &d->param[f->param];
  const int options = f->nparams + 1;
  int any = 0;
  lua_pushnil(L);
  while (lua_next(L, options)) {
    size_t n = 0;
    const char *name = lua_type(L, -2) == LUA_TSTRING ? lua_tolstring(L, -2, &n) : NULL;
    const int j = name != NULL ? param_of(d, f, name, n) : -1;
    if (j < given || !fits_quickly(L, &p[j], options + 2)) return 0;
    lua_replace(L, j + 1);
    any = 1;
  }
  return any;
}

/* Handles arguments by position that fit, followed by a plain table of options that fit. */
static int read_options_quickly(lua_State *L, const fl_declared *d, const fl_decl_form *f,
    int holder, int n) {
  const fl_decl_param *p = &d->param[f->param];
  const int first = n == 1 && !f->options_first;
  if (f->rest || first || n - 1 > f->npos || lua_getmetatable(L, n)) return 0;
  if ((n - 1 < f->npos && takes_list(d, &p[n - 1])) || !first_fit(L, d, f, n - 1)) return 0;
  luaL_checkstack(L, f->nparams + 8, "arguments");
  lua_settop(L, f->nparams + 1);
  lua_rotate(L, n, -1);
  int fits = take_options(L, d, f, n - 1);
  for (int j = 0; fits && j < f->nparams; j++) {
    if (!lua_isnil(L, j + 1)) continue;
    fits = p[j].optional || p[j].by_default;
    if (!p[j].by_default) continue;
    push_default(L, &p[j], holder, 0);
    lua_replace(L, j + 1);
  }
  lua_settop(L, f->nparams + 1);
  if (fits) lua_settop(L, f->nparams);
  else lua_rotate(L, n, 1), lua_settop(L, n);
  return fits;
}

/* Handles calls in which every argument fits without further checks, and no table is given except
** for options or a short list for "id...": only defaults are missing. The arguments of "..." are
** not changed. */
static int read_quickly(lua_State *L, const fl_declared *d, const fl_decl_form *f, int holder,
    int n) {
  const fl_decl_param *p = &d->param[f->param];
  const int most = n < f->npos ? n : f->npos;
  if (n > 0 && d->nforms == 1 && lua_type(L, n) == LUA_TTABLE &&
      read_options_quickly(L, d, f, holder, n)) return 1;
  if ((n > f->npos && f->rest == 0) || !first_fit(L, d, f, most)) return 0;
  for (int j = most; j < f->nparams; j++) if (!p[j].optional && !p[j].by_default) return 0;
  if (n > f->npos && f->rest == 1 && !rest_quickly(L, &p[f->nparams], f->npos + 1, n)) return 0;
  if (f->nparams > most + 8) luaL_checkstack(L, f->nparams - most + 8, "arguments");
  for (int j = most; j < f->nparams; j++) push_default(L, &p[j], holder, 0);
  if (n > f->npos && f->nparams > most) lua_rotate(L, most + 1, f->nparams - most);
  return 1;
}

static int read_slowly(lua_State *L, const fl_declared *d, int holder, int n) {
  fl_decl_misfit why[FL_DECL_FORMS];
  call c = { n, 0, 0, n };
  const char *op = lua_tostring(L, holder + FL_DECL_NAME);
  if (d->form->rest != 2) while (c.n > 0 && lua_isnil(L, c.n)) c.n--;
  luaL_checkstack(L, 8 * FL_DECL_FORMS + FL_DECL_PARAMS, "arguments");
  if (c.n > 0 && lua_type(L, c.n) == LUA_TTABLE) {
    c.keyed = fl_declare_is_options(L, c.n);
    lua_pushnil(L);
    c.empty = !lua_next(L, c.n) && !is_proxy(L, c.n) && !is_object(L, c.n);
    lua_settop(L, c.n);
  }
  for (int k = 0; k < d->nforms; k++) {
    if (!form_fits(L, d, &d->form[k], &c, &why[k])) continue;
    place(L, d, &d->form[k], &c, holder, op);
    return k;
  }
  return fl_declare_refuse(L, d, why, c.n, op);
}

int fl_declare_read(lua_State *L, const fl_declared *d, int holder) {
  const int n = lua_gettop(L);
  return read_quickly(L, d, d->form, holder, n) ? 0 : read_slowly(L, d, holder, n);
}
