/*
** The messages for calls whose arguments do not fit: the function's name, what is expected and what
** was given, and if there is one the remedy. Several forms (parameter lists) are listed together,
** with what was given.
*/
#include "lua/declare.h"
#include <assert.h>
#include <math.h>
#include <stdio.h>

typedef struct line { char at[400]; size_t n; } line;       /* cut where it is full */

static void add(line *s, const char *text, int n) {
  const size_t room = sizeof s->at - 1 - s->n, want = n < 0 ? strlen(text) : (size_t)n;
  const size_t k = want < room ? want : room;
  memcpy(s->at + s->n, text, k);
  s->n += k;
  s->at[s->n] = 0;
}

/* ---- what is needed -------------------------------------------------------------------------- */
static const char *const one[] = {
  "a tensor", "a number", "an integer", "true or false", "a string", "a function", "a value",
  "an integer", "an axis or a list of axes", "an integer or a list of", "a dtype", "a device",
  "", "", "a table"
};
static const char *const lists[] = {
  "a list of tensors", "a list of numbers", "a list of integers", "a list of booleans",
  "a list of strings", "a list of functions", "a list", "a list of integers",
  "a list of integers", "a list of integers", "a list of dtypes", "a list of devices",
  "", "", "a list of tables"
};

static void add_atom(line *s, const fl_decl_atom *a, int element) {
  char text[64];
  const int list = a->list && !element;
  if (a->kind == FL_ATOM_WORD) {
    add(s, list ? "a list of \"" : "\"", -1);
    add(s, a->text.at, a->text.n);
    add(s, "\"", 1);
  } else if (a->kind == FL_ATOM_CLASS) {
    add(s, list ? "a list of " : strchr("AEIOU", a->text.at[0]) ? "an " : "a ", -1);
    add(s, a->text.at, a->text.n);
  } else if (a->kind == FL_ATOM_DIMS && !list) {
    snprintf(text, sizeof text, "%s %d", one[a->kind], a->n);
    add(s, element ? "an integer" : text, -1);
  } else {
    const int axis = element && a->kind == FL_ATOM_AXES;
    add(s, list ? lists[a->kind] : axis ? "an integer" : one[a->kind], -1);
  }
}

/* Writes "a tensor, a number or "none""; for an element of a list the types in the list. */
static void add_types(line *s, const fl_declared *d, const fl_decl_param *p, int element) {
  int lists = 0, n = 0;
  assert(p);
  const fl_decl_atom *atom = &d->atom[p->atom];
  for (int k = 0; k < p->natoms; k++) lists += fl_declare_takes_list(&atom[k]);
  const int some = element && lists > 0, all = some ? lists : p->natoms;
  for (int k = 0; k < p->natoms; k++) {
    if (some && !fl_declare_takes_list(&atom[k])) continue;
    if (n > 0) add(s, n + 1 < all ? ", " : " or ", -1);
    add_atom(s, &atom[k], element);
    n++;
  }
}

static int takes(const fl_declared *d, const fl_decl_param *p, fl_decl_atom_kind kind) {
  for (int k = p->atom; k < p->atom + p->natoms; k++) if (d->atom[k].kind == kind) return 1;
  return 0;
}

static int takes_number(const fl_declared *d, const fl_decl_param *p) {
  for (int k = p->atom; k < p->atom + p->natoms; k++) {
    const fl_decl_atom_kind kind = (fl_decl_atom_kind)d->atom[k].kind;
    if (kind == FL_ATOM_NUM || fl_declare_is_whole(kind)) return 1;
  }
  return 0;
}

/* Adds the remedy if there is one, such as the word that may be meant, floor division for a whole
** number, or how to get the number that a tensor holds. */
static void add_remedy(line *s, lua_State *L, const fl_declared *d, const fl_decl_param *p,
    int at) {
  char hint[64];
  if (lua_type(L, at) == LUA_TSTRING) {
    fl_word_guess g = fl_word_begin(lua_tostring(L, at));
    for (int k = p->atom; k < p->atom + p->natoms; k++) {
      if (d->atom[k].kind == FL_ATOM_WORD) fl_word_offer(&g, d->atom[k].text.at, d->atom[k].text.n);
    }
    add(s, fl_word_hint(&g, hint), -1);
  } else if (p->whole && lua_type(L, at) == LUA_TNUMBER) {
    const double v = lua_tonumber(L, at);
    if (isfinite(v) && v != floor(v)) add(s, " (a / b is a float, a // b an integer)", -1);
  } else if (box_at(L, at) != NULL && takes_number(d, p)) {
    add(s, FL_DO ": write x:item()", -1);
  } else if (lua_type(L, at) == LUA_TTABLE && fl_declare_is_options(L, at)) {
    add(s, " with names; the options table comes last", -1);
  } else if (takes(d, p, FL_ATOM_T) &&
      fl_declare_is_of_class(L, (fl_decl_span){ "Module", 6 }, at)) {
    add(s, FL_DO "; of a module: net:parameters()", -1);
  }
}

/* Reports a method without its object, which was most likely called with a dot. */
static void say_self(lua_State *L, const fl_declared *d, const fl_decl_misfit *w, const char *op) {
  line s = { "", 0 };
  add_types(&s, d, w->p, 0);
  fl_lua_fail(L, op, "the object before the arguments must be %s, got %s" FL_DO
      "; write object:%.*s(…)", s.at, w->at ? fl_arg_found(L, w->at) : "nothing", d->name.n,
      d->name.at);
}


static void say_type(lua_State *L, const fl_declared *d, const fl_decl_misfit *w, const char *op) {
  line s = { "", 0 };
  char place[32] = "";
  add_types(&s, d, w->p, w->kind == FL_MISFIT_ELEMENT);
  const int named = w->at && lua_type(L, w->at) == LUA_TSTRING;
  const int dtype = named && takes(d, w->p, FL_ATOM_DTYPE);
  const int device = named && takes(d, w->p, FL_ATOM_DEVICE);
  if (dtype) add(&s, " (f64 f32 f16 bf16 i64 i32 i16 i8 u8 bool", -1);
  if (device) add(&s, dtype ? ", " : " (", -1), add(&s, "\"cpu\", \"cuda\", \"cuda:1\"", -1);
  if (dtype || device) add(&s, ")", 1);
  add(&s, ", got ", -1);
  add(&s, w->at ? fl_arg_found(L, w->at) : "nothing", -1);
  if (w->at) add_remedy(&s, L, d, w->p, w->at);
  if (w->kind == FL_MISFIT_ELEMENT) snprintf(place, sizeof place, "[%lld]", (long long)w->element);
  fl_lua_fail(L, op, "%.*s%s must be %s", w->p->name.n, w->p->name.at, place, s.at);
}

/* ---- names ----------------------------------------------------------------------------------- */
static int is_key(const fl_decl_form *f, int j) {
  return j > 0 || f->options_first || (f->npos == 0 && !f->self);
}

/* Was this name listed already: is it a key of a parameter before p, in the forms from f on? */
static int is_told(const fl_declared *d, const fl_decl_form *f, const fl_decl_param *p) {
  for (;; f++) {
    for (int j = 0; j < f->nparams + (f->rest == 1); j++) {
      const fl_decl_param *q = &d->param[f->param + j];
      if (q == p) return 0;
      if (is_key(f, j) && fl_decl_same(q->name, p->name.at, (size_t)p->name.n)) return 1;
    }
  }
}

/* Adds the names that options of n forms may have, in the order of the declaration, each once. */
static void add_names(line *s, const fl_declared *d, const fl_decl_form *forms, int n,
    fl_word_guess *g) {
  for (int k = 0; k < n; k++) {
    const fl_decl_form *f = &forms[k];
    for (int j = 0; j < f->nparams + (f->rest == 1); j++) {
      const fl_decl_param *p = &d->param[f->param + j];
      if (!is_key(f, j) || is_told(d, forms, p)) continue;
      if (s->n > 0) add(s, " ", 1);
      add(s, p->name.at, p->name.n);
      if (g != NULL) fl_word_offer(g, p->name.at, p->name.n);
    }
  }
}

static void say_option(lua_State *L, const fl_declared *d, const fl_decl_form *f, int n,
    const fl_decl_misfit *w, const char *op) {
  line s = { "", 0 };
  char hint[64] = "";
  if (w->kind == FL_MISFIT_KEY) {
    add_names(&s, d, f, n, NULL);
    fl_lua_fail(L, op, "options have names (%s), got a key %s", s.at, fl_arg_found(L, w->at));
  }
  fl_word_guess g = fl_word_begin(lua_tostring(L, w->at));
  add_names(&s, d, f, n, &g);
  if (s.n == 0) add(&s, "none", -1);
  fl_lua_fail(L, op, "no option '%.60s', there is: %s%s", lua_tostring(L, w->at), s.at,
      fl_word_hint(&g, hint));
}

static int axes_of(const fl_declared *d, const fl_decl_param *p) {
  assert(p);
  for (int k = p->atom; k < p->atom + p->natoms; k++) {
    if (d->atom[k].kind == FL_ATOM_DIMS) return d->atom[k].n;
  }
  return 0;
}

static void say_one(lua_State *L, const fl_declared *d, const fl_decl_form *f,
    const fl_decl_misfit *w, const char *op) {
  const fl_decl_span it = fl_declare_takes(f);
  const int n = w->p != NULL ? w->p->name.n : 0;
  const char *name = w->p != NULL ? w->p->name.at : "";
  switch (w->kind) {
    case FL_MISFIT_MANY:
      fl_lua_fail(L, op, "%d argument%s at most, got %d; it is %s%.*s", f->npos - f->self,
          f->npos - f->self == 1 ? "" : "s", (int)w->element - f->self, op, it.n, it.at);
    case FL_MISFIT_LENGTH:
      fl_lua_fail(L, op, "%.*s must be an integer or a list of %d, got a list of %lld", n, name,
          axes_of(d, w->p), (long long)w->element);
    case FL_MISFIT_COUNT:
      fl_lua_fail(L, op, lua_type(L, w->at) == LUA_TNUMBER && lua_tointeger(L, w->at) > 0
          ? "a list of %s is too long"
          : "the length of a list must be an integer from 0 on, its __len gives %s",
          luaL_tolstring(L, w->at, NULL));
    case FL_MISFIT_TWICE:
      fl_lua_fail(L, op, "%.*s is given by position and by name" FL_DO "; give it once", n, name);
    case FL_MISFIT_MIXED:
      fl_lua_fail(L, op, "%.*s come as values or as one list, not both", n, name);
    case FL_MISFIT_OPTION: case FL_MISFIT_KEY: say_option(L, d, f, 1, w, op); break;
    case FL_FITS: case FL_MISFIT_TYPE: case FL_MISFIT_ELEMENT: case FL_MISFIT_MISSING: break;
  }
  if (f->self && w->p == &d->param[f->param]) say_self(L, d, w, op);
  say_type(L, d, w, op);
}

/* ---- several forms --------------------------------------------------------------------------- */
/* The misfit (in w) of an option that no form (parameter list) has, or, if all forms refuse a key
** that is not a string, of that key; NULL: there is none. */
static const fl_decl_misfit *unknown_in_all(lua_State *L, const fl_declared *d,
    const fl_decl_misfit *w) {
  const fl_decl_form *last = &d->form[d->nforms - 1];
  const int n = last->param + last->nparams + (last->rest == 1);
  int keys = 0;
  for (int k = 0; k < d->nforms; k++) {
    keys += w[k].kind == FL_MISFIT_KEY;
    if (w[k].kind != FL_MISFIT_OPTION) continue;
    size_t length = 0;
    const char *name = lua_tolstring(L, w[k].at, &length);
    int known = 0;
    for (int j = 0; j < n; j++) known |= fl_decl_same(d->param[j].name, name, length);
    if (!known) return &w[k];
  }
  return keys == d->nforms ? w : NULL;
}

/* How far a form (parameter list) matched: 0: its arguments by position do not fit; 1: it does not
** have all of the given names; 2: only a value under a name is wrong or missing. */
static int how_far(const fl_declared *d, const fl_decl_form *f, const fl_decl_misfit *w,
    int positional) {
  const int j = w->p != NULL ? (int)(w->p - &d->param[f->param]) : 0;
  switch (w->kind) {
    case FL_MISFIT_OPTION: case FL_MISFIT_KEY: return 1;
    case FL_MISFIT_TWICE: case FL_MISFIT_MISSING: return 2;
    case FL_MISFIT_MANY: case FL_MISFIT_MIXED: case FL_FITS: case FL_MISFIT_COUNT: return 0;
    case FL_MISFIT_TYPE: case FL_MISFIT_ELEMENT: case FL_MISFIT_LENGTH: break;
  }
  return j < positional ? 0 : 2;
}

/* The form (parameter list) meant by a call with a table of options at the end: the one that
** matches furthest (how_far). -1: several do, or the arguments by position fit none. */
static int meant(lua_State *L, const fl_declared *d, const fl_decl_misfit *why, int n) {
  int best = 0, form = -1;
  if (n == 0 || !fl_declare_is_options(L, n)) return -1;
  for (int k = 0; k < d->nforms; k++) {
    const int first = n == 1 && !d->form[k].options_first;
    const int far = first ? 0 : how_far(d, &d->form[k], &why[k], n - 1);
    if (far > best) best = far, form = k;
    else if (far == best) form = -1;
  }
  return form;
}

/* Adds the given arguments, from the stack as it was when the function was called: the misfits are
** above them. */
static void add_given(line *s, lua_State *L, int n) {
  for (int i = 1; i <= n; i++) {
    if (i > 1) add(s, ", ", -1);
    const int table = lua_type(L, i) == LUA_TTABLE, options = fl_declare_is_options(L, i);
    add(s, options ? "options" : table ? "a table" : fl_arg_found(L, i), -1);
  }
}

/* Pushes all forms (parameter lists) in one line, each after 'op', the name under which the
** function was called. */
const char *fl_declare_forms(lua_State *L, const fl_declared *d, const char *op) {
  line forms = { "", 0 };
  for (int k = 0; k < d->nforms; k++) {
    if (k > 0) add(&forms, k + 1 < d->nforms ? ", " : " or ", -1);
    const fl_decl_span it = fl_declare_takes(&d->form[k]);
    add(&forms, op, -1);
    add(&forms, it.at, it.n);
  }
  return lua_pushstring(L, forms.at);
}

int fl_declare_refuse(lua_State *L, const fl_declared *d, const fl_decl_misfit *why, int n,
    const char *op) {
  line given = { "", 0 };
  luaL_checkstack(L, 64, "arguments");
  if (d->nforms == 1) say_one(L, d, d->form, why, op);
  const fl_decl_misfit *option = unknown_in_all(L, d, why);
  if (option != NULL) say_option(L, d, d->form, d->nforms, option, op);
  for (int k = 0; k < d->nforms; k++) {
    if (why[k].kind == FL_MISFIT_COUNT) say_one(L, d, &d->form[k], &why[k], op);
  }
  const int form = meant(L, d, why, n);
  if (form >= 0) say_one(L, d, &d->form[form], &why[form], op);
  add_given(&given, L, n);
  for (;;) fl_lua_fail(L, op, "no form takes (%.120s); there is %s", given.at,
      fl_declare_forms(L, d, op));
}
