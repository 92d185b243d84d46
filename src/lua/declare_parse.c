/*
** The parser of declarations (declare.h has the language). Everything is collected in a draft on
** the C stack, then copied into one userdata of the right size: an error needs no clean-up.
*/
#include "lua/declare.h"

typedef struct draft {
  lua_State *L;
  const char *start, *p;               /* p: the next character to read */
  fl_declared d;
  fl_decl_form form[FL_DECL_FORMS];
  fl_decl_param param[FL_DECL_PARAMS];
  fl_decl_atom atom[FL_DECL_ATOMS];
  fl_decl_result result[FL_DECL_RESULTS];
  /* Defaults that are strings or lists (which begin with "{"): user values from 2 on. */
  fl_decl_span word[FL_DECL_PARAMS];
  int nparams, natoms, nresults, nwords;
} draft;

static _Noreturn void refuse(draft *s, const char *what) {
  const int at = (int)(s->p - s->start) + 1;
  for (;;) luaL_error(s->L, "declaration '%s': %s at character %d", s->start, what, at);
}
static void need_room(draft *s, int have, int most) {
  if (have >= most) refuse(s, "too many of a kind");
}

/* ---- words ---------------------------------------------------------------------------------- */
static int is_upper(char c) { return c >= 'A' && c <= 'Z'; }
static int is_letter(char c) { return (c >= 'a' && c <= 'z') || is_upper(c) || c == '_'; }
static int is_digit(char c) { return c >= '0' && c <= '9'; }
static void skip(draft *s) { while (*s->p == ' ') s->p++; }
static int take(draft *s, const char *word) {
  skip(s);
  const size_t n = strlen(word);
  if (strncmp(s->p, word, n) != 0) return 0;
  if (is_letter(word[0]) && (is_letter(s->p[n]) || is_digit(s->p[n]))) return 0;
  s->p += n;
  return 1;
}
static void need(draft *s, const char *word) {
  if (take(s, word)) return;
  lua_pushfstring(s->L, "expected '%s'", word);
  refuse(s, lua_tostring(s->L, -1));
}
static fl_decl_span identifier(draft *s) {
  skip(s);
  fl_decl_span w = { s->p, 0 };
  if (!is_letter(*s->p)) refuse(s, "expected a name");
  while (is_letter(*s->p) || is_digit(*s->p)) s->p++;
  w.n = (int)(s->p - w.at);
  return w;
}
static fl_decl_span quoted(draft *s) {
  need(s, "\"");
  fl_decl_span w = { s->p, (int)strcspn(s->p, "\"\n") };
  s->p += w.n;
  if (*s->p != '"') refuse(s, "a word is not closed");
  s->p++;
  return w;
}
static int same(fl_decl_span a, fl_decl_span b) {
  return a.n == b.n && memcmp(a.at, b.at, (size_t)a.n) == 0;
}
static fl_decl_span span_of(const char *text) {
  return (fl_decl_span){ text, (int)strlen(text) };
}

/* ---- types ---------------------------------------------------------------------------------- */
static const struct { const char *name; fl_decl_atom_kind kind; } atoms[] = {
  { "T", FL_ATOM_T }, { "num", FL_ATOM_NUM }, { "int", FL_ATOM_INT }, { "bool", FL_ATOM_BOOL },
  { "str", FL_ATOM_STR }, { "fn", FL_ATOM_FN }, { "any", FL_ATOM_ANY }, { "axis", FL_ATOM_AXIS },
  { "axes", FL_ATOM_AXES }, { "dims", FL_ATOM_DIMS }, { "dtype", FL_ATOM_DTYPE },
  { "device", FL_ATOM_DEVICE }, { "table", FL_ATOM_TABLE }
};

static void read_atom(draft *s, fl_decl_atom *a) {
  *a = (fl_decl_atom){ .kind = FL_ATOM_WORD };
  skip(s);
  if (*s->p == '"') {
    a->text = quoted(s);
  } else {
    a->text = identifier(s);
    a->kind = FL_ATOM_CLASS;
    for (size_t k = 0; k < sizeof atoms / sizeof *atoms; k++) {
      if (same(a->text, span_of(atoms[k].name))) a->kind = (uint8_t)atoms[k].kind;
    }
    if (a->kind == FL_ATOM_CLASS && !is_upper(a->text.at[0])) refuse(s, "there is no such type");
  }
  if (a->kind == FL_ATOM_DIMS) {
    need(s, "(");
    skip(s);
    if (!is_digit(*s->p)) refuse(s, "expected the number of axes");
    a->n = *s->p++ - '0';
    need(s, ")");
  }
  a->list = (uint8_t)(strncmp(s->p, "[]", 2) == 0);
  if (a->list) s->p += 2;
}

/* The Lua types that fit an atom (a type in a declaration) without further checks. Tables are not
** among them, since a table may hold options. */
static uint16_t plain_of(fl_decl_atom_kind kind) {
  switch (kind) {
    case FL_ATOM_NUM: return 1 << LUA_TNUMBER;
    case FL_ATOM_BOOL: return 1 << LUA_TBOOLEAN;
    case FL_ATOM_STR: return 1 << LUA_TSTRING;
    case FL_ATOM_FN: return 1 << LUA_TFUNCTION;
    case FL_ATOM_ANY:
      return 1 << LUA_TNUMBER | 1 << LUA_TBOOLEAN | 1 << LUA_TSTRING | 1 << LUA_TFUNCTION |
        1 << LUA_TUSERDATA | 1 << LUA_TLIGHTUSERDATA | 1 << LUA_TTHREAD;
    default: return 0;
  }
}

/* Combines what the atoms (types) of parameter p accept, for the quick way of reading. */
static void sum_up(draft *s, fl_decl_param *p) {
  int whole = 0;
  for (int k = p->atom; k < p->atom + p->natoms; k++) {
    const fl_decl_atom *a = &s->atom[k];
    if (a->list) continue;
    p->plain |= plain_of((fl_decl_atom_kind)a->kind);
    p->tensor |= a->kind == FL_ATOM_T;
    whole |= fl_declare_is_whole((fl_decl_atom_kind)a->kind);
  }
  p->whole = (uint8_t)(whole && !(p->plain >> LUA_TNUMBER & 1));
  if (p->optional) p->plain |= 1 << LUA_TNIL;
}

static void read_type(draft *s, fl_decl_param *p) {
  skip(s);
  p->type.at = s->p;
  p->atom = (uint8_t)s->natoms;
  do {
    need_room(s, s->natoms, FL_DECL_ATOMS);
    read_atom(s, &s->atom[s->natoms++]);
    p->type.n = (int)(s->p - p->type.at);
  } while (take(s, "|"));
  p->natoms = (uint8_t)(s->natoms - p->atom);
}

/* ---- parameters ----------------------------------------------------------------------------- */
static int in_form(const draft *s, const fl_decl_form *f, fl_decl_span name) {
  for (int k = f->param; k < s->nparams; k++) if (same(s->param[k].name, name)) return k - f->param;
  return -1;
}

/* Reads a number by Lua's own rules, which do not depend on the host's locale. */
static void read_number(draft *s, fl_decl_param *p) {
  char text[40];
  const int minus = *s->p == '-', infinite = strncmp(s->p + minus, "inf", 3) == 0;
  const size_t n = infinite ? (size_t)minus + 3 : strspn(s->p, "+-.0123456789eE");
  if (n >= sizeof text) refuse(s, "a number is too long");
  memcpy(text, s->p, n);
  text[n] = 0;
  if (infinite) strcpy(text, minus ? "-1e999" : "1e999");
  if (lua_stringtonumber(s->L, text) == 0) refuse(s, "expected a default");
  p->by_default = lua_isinteger(s->L, -1) ? FL_DEFAULT_INT : FL_DEFAULT_NUM;
  p->i = lua_tointeger(s->L, -1);
  p->d = lua_tonumber(s->L, -1);
  lua_pop(s->L, 1);
  s->p += n;
}

/* "{" numbers "}" */
static void read_list(draft *s, fl_decl_param *p) {
  fl_decl_param number = { 0 };
  const char *at = s->p++;
  do {
    skip(s);
    read_number(s, &number);
  } while (take(s, ","));
  need(s, "}");
  p->by_default = FL_DEFAULT_LIST;
  s->word[s->nwords++] = (fl_decl_span){ at, (int)(s->p - at) };
  p->i = s->nwords + 1;
}

static void read_default(draft *s, const fl_decl_form *f, fl_decl_param *p) {
  skip(s);
  p->given.at = s->p;
  if (*s->p == '{') {
    read_list(s, p);
  } else if (*s->p == '"') {
    p->by_default = FL_DEFAULT_WORD;
    s->word[s->nwords++] = quoted(s);
    p->i = s->nwords + 1;
  } else if (take(s, "true") || take(s, "false")) {
    p->by_default = FL_DEFAULT_BOOL;
    p->i = s->p[-2] == 'u';
  } else if (is_letter(*s->p) && strncmp(s->p, "inf", 3) != 0) {
    p->by_default = FL_DEFAULT_PARAM;
    p->i = in_form(s, f, identifier(s));
    if (p->i < 0) refuse(s, "expected an earlier parameter");
  } else {
    read_number(s, p);
  }
  p->given.n = (int)(s->p - p->given.at);
}

/* A parameter without a type gets it from its default: num for any number (a whole one too), bool,
** str for a word, num[] for a list, or the type of the parameter it names; without one, any. */
static void type_of_default(draft *s, fl_decl_param *p, const fl_decl_form *f) {
  static const fl_decl_atom_kind kinds[] = {
    FL_ATOM_ANY, FL_ATOM_NUM, FL_ATOM_NUM, FL_ATOM_BOOL, FL_ATOM_STR, FL_ATOM_ANY, FL_ATOM_NUM
  };
  if (p->by_default == FL_DEFAULT_PARAM) {
    p->atom = s->param[f->param + p->i].atom;
    p->natoms = s->param[f->param + p->i].natoms;
    p->type = s->param[f->param + p->i].type;
    return;
  }
  need_room(s, s->natoms, FL_DECL_ATOMS);
  p->atom = (uint8_t)s->natoms;
  p->natoms = 1;
  s->atom[s->natoms++] = (fl_decl_atom){ .kind = (uint8_t)kinds[p->by_default],
    .list = p->by_default == FL_DEFAULT_LIST };
}

static int word_fits(const draft *s, const fl_decl_param *p, fl_decl_span word) {
  for (int k = p->atom; k < p->atom + p->natoms; k++) {
    const fl_decl_atom *a = &s->atom[k];
    const int any = a->kind == FL_ATOM_STR || a->kind == FL_ATOM_ANY || a->kind == FL_ATOM_DTYPE ||
      a->kind == FL_ATOM_DEVICE;
    if (!a->list && (any || (a->kind == FL_ATOM_WORD && same(a->text, word)))) return 1;
  }
  return 0;
}

/* Does p accept a list of numbers? */
static int takes_numbers(const draft *s, const fl_decl_param *p) {
  for (int k = p->atom; k < p->atom + p->natoms; k++) {
    const fl_decl_atom *a = &s->atom[k];
    if (fl_declare_takes_list(a) &&
        (a->kind == FL_ATOM_NUM || fl_declare_is_whole((fl_decl_atom_kind)a->kind))) return 1;
  }
  return 0;
}

static void check_default(draft *s, const fl_decl_param *p) {
  const int number = p->plain >> LUA_TNUMBER & 1;
  int wrong = 0;
  switch ((fl_decl_default_kind)p->by_default) {
    case FL_DEFAULT_NONE: case FL_DEFAULT_PARAM: break;
    case FL_DEFAULT_INT: wrong = !number && !p->whole; break;
    case FL_DEFAULT_NUM: wrong = !number; break;
    case FL_DEFAULT_BOOL: wrong = !(p->plain >> LUA_TBOOLEAN & 1); break;
    case FL_DEFAULT_WORD: wrong = !word_fits(s, p, s->word[p->i - 2]); break;
    case FL_DEFAULT_LIST: wrong = !takes_numbers(s, p); break;
  }
  if (wrong) refuse(s, "a default is not of its type");
}

static fl_decl_param *new_param(draft *s, const fl_decl_form *f, fl_decl_span name) {
  need_room(s, s->nparams, FL_DECL_PARAMS);
  if (in_form(s, f, name) >= 0) refuse(s, "a parameter appears twice");
  fl_decl_param *p = &s->param[s->nparams++];
  *p = (fl_decl_param){ .name = name };
  return p;
}

static void read_param(draft *s, fl_decl_form *f, int named) {
  fl_decl_param *p = new_param(s, f, identifier(s));
  p->named = (uint8_t)named;
  p->optional = (uint8_t)(*s->p == '?');
  if (p->optional) s->p++;
  const int rest = take(s, "...");
  if (take(s, ":")) read_type(s, p);
  if (!rest && take(s, "=")) read_default(s, f, p);
  if (p->natoms == 0) type_of_default(s, p, f);
  sum_up(s, p);
  check_default(s, p);
  if (rest && (p->optional || named)) refuse(s, "'...' takes any number, and by position");
  if (rest) f->rest = 1;
  else f->npos += (uint8_t)!named;
}

/* Adds the parameters for which "*factory" stands; all are optional. */
static void add_factory(draft *s, const fl_decl_form *f) {
  static const struct { const char *name; fl_decl_atom_kind kind; const char *type; } all[] = {
    { "dtype", FL_ATOM_DTYPE, "dtype" }, { "device", FL_ATOM_DEVICE, "device" },
    { "requires_grad", FL_ATOM_BOOL, "bool" }
  };
  for (int k = 0; k < 3; k++) {
    fl_decl_param *p = new_param(s, f, span_of(all[k].name));
    need_room(s, s->natoms, FL_DECL_ATOMS);
    p->type = span_of(all[k].type);
    p->atom = (uint8_t)s->natoms;
    p->natoms = 1;
    p->named = 1;
    p->optional = 1;
    s->atom[s->natoms++] = (fl_decl_atom){ .kind = (uint8_t)all[k].kind };
    sum_up(s, p);
  }
}

/* Moves the parameter of "id..." after the others. */
static void move_rest(draft *s, const fl_decl_form *f, int rest) {
  const fl_decl_param p = s->param[rest];
  for (int k = rest; k + 1 < s->nparams; k++) s->param[k] = s->param[k + 1];
  s->param[s->nparams - 1] = p;
  for (int k = f->param; k < s->nparams; k++) {
    fl_decl_param *q = &s->param[k];
    if (q->by_default != FL_DEFAULT_PARAM) continue;
    if (q->i == rest - f->param) refuse(s, "a default is one value, not '...'");
    q->i -= q->i > rest - f->param;
  }
}

/* Decides where 'id...' goes, and whether a table of options may be the first argument. It may not
** in a method, nor if the first parameter may be a table. Otherwise it may if there is no first
** parameter, if that may be omitted, or if it is an object (which differs from a table of
** options). */
static void finish_params(draft *s, fl_decl_form *f, int rest) {
  if (f->rest == 1) move_rest(s, f, rest);
  f->nparams = (uint8_t)(s->nparams - f->param - (f->rest == 1));
  const fl_decl_param *first = f->npos > 0 ? &s->param[f->param] : NULL;
  int tables = 0, others = 0;
  for (int k = first ? first->atom : 0; first && k < first->atom + first->natoms; k++) {
    const fl_decl_atom *a = &s->atom[k];
    tables |= a->kind == FL_ATOM_ANY || a->kind == FL_ATOM_TABLE;
    others |= a->kind != FL_ATOM_CLASS || a->list;
  }
  const int may_lack = first == NULL || first->optional || first->by_default || !others;
  f->options_first = (uint8_t)(may_lack && !tables && !f->self);
}

static void read_params(draft *s, fl_decl_form *f) {
  int named = 0, rest = -1;
  if (take(s, ")")) {
    finish_params(s, f, rest);
    return;
  }
  do {
    if (f->rest == 2) refuse(s, "nothing comes behind '...'");
    if (take(s, "...")) {
      if (f->rest || named) refuse(s, "'...' is all that is left");
      f->rest = 2;
    } else if (take(s, "*")) {
      named = 1;
      if (strncmp(s->p, "factory", 7) == 0) s->p += 7, add_factory(s, f);
    } else {
      if (f->rest && !named) refuse(s, "what comes behind '...' has a name: '*' before it");
      const int had = f->rest;
      read_param(s, f, named);
      if (f->rest != had) rest = s->nparams - 1;
    }
  } while (take(s, ","));
  need(s, ")");
  finish_params(s, f, rest);
}

/* ---- results and heads ---------------------------------------------------------------------- */
static void read_result(draft *s, const fl_decl_form *f) {
  need_room(s, s->nresults, FL_DECL_RESULTS);
  fl_decl_result *r = &s->result[s->nresults++];
  fl_decl_param type = { 0 };
  *r = (fl_decl_result){ 0 };
  skip(s);
  const char *at = s->p;
  if (take(s, "...") || take(s, "self")) {
    r->type = (fl_decl_span){ at, (int)(s->p - at) };
    return;
  }
  const int atoms_before = s->natoms;
  if (is_letter(*s->p)) {
    r->name = identifier(s);
    if (!take(s, ":")) {
      r->name.n = 0;
      s->p = at;
    }
  }
  read_type(s, &type);
  s->natoms = atoms_before;            /* calls do not need the types of results */
  r->type = type.type;
  if (!take(s, "if")) return;
  r->flag = identifier(s);
  if (in_form(s, f, r->flag) < 0) refuse(s, "'if' is followed by a parameter");
}

static void read_results(draft *s, fl_decl_form *f) {
  f->result = (uint8_t)s->nresults;
  if (take(s, "->")) do read_result(s, f); while (take(s, ","));
  f->nresults = (uint8_t)(s->nresults - f->result);
}

/* Adds the object of a method or constructor before the parameters in the text. */
static void add_self(draft *s, fl_decl_form *f, fl_decl_span class) {
  fl_decl_param *p = new_param(s, f, span_of("self"));
  need_room(s, s->natoms, FL_DECL_ATOMS);
  p->type = class;
  p->atom = (uint8_t)s->natoms;
  p->natoms = 1;
  s->atom[s->natoms++] = (fl_decl_atom){ .kind = FL_ATOM_CLASS, .text = class };
  f->self = f->npos = 1;
}

static void read_head(draft *s, fl_decl_form *f) {
  skip(s);
  const int made = strncmp(s->p, "new ", 4) == 0;
  if (made) s->p += 4;
  skip(s);
  f->scope.at = f->text.at = s->p;
  int method = 0;
  if (*s->p == '.' || *s->p == ':') s->p++;
  fl_decl_span name = identifier(s), class = name;
  while (*s->p == '.' || *s->p == ':') {
    class = name;
    method = *s->p++ == ':';
    name = identifier(s);
  }
  f->scope.n = (int)(name.at - f->scope.at);
  if (*s->p == '?' && name.n > 1 && name.at[name.n - 1] == '_') {
    s->p++;
    name.n--;
    s->d.in_place = 1;
  }
  if (s->d.nforms > 0 && !same(s->d.name, name)) refuse(s, "the forms have different names");
  s->d.name = name;
  if (made || method) add_self(s, f, made ? name : class);
}

/* Reads "@ class", which holds for all forms. */
static void read_class(draft *s) {
  static const char *const names[] = { "half", "single", "neutral" };
  if (!take(s, "@")) return;
  const fl_decl_span w = identifier(s);
  for (int k = 0; k < 3; k++) if (same(w, span_of(names[k]))) s->d.cast = (uint8_t)(k + 1);
  if (s->d.cast == FL_CAST_NONE) refuse(s, "expected half, single or neutral");
}

static void read_form(draft *s) {
  need_room(s, s->d.nforms, FL_DECL_FORMS);
  fl_decl_form *f = &s->form[s->d.nforms];
  *f = (fl_decl_form){ .param = (uint8_t)s->nparams };
  read_head(s, f);
  s->d.nforms++;
  need(s, "(");
  read_params(s, f);
  read_results(s, f);
  f->text.n = (int)(s->p - f->text.at);
  while (f->text.n > 0 && f->text.at[f->text.n - 1] == ' ') f->text.n--;
  read_class(s);
  skip(s);
}

/* Reads "--- text" to the end: the description of the function. */
static int read_doc(draft *s) {
  if (strncmp(s->p, "--- ", 4) != 0) return 0;
  s->d.doc = span_of(s->p + 4);
  return 1;
}

/* Pushes a default that is a string, or the list given by its text. */
static void push_word(lua_State *L, fl_decl_span w) {
  if (w.at[0] != '{') {
    lua_pushlstring(L, w.at, (size_t)w.n);
    return;
  }
  lua_newtable(L);
  int n = 0;
  for (const char *p = w.at + 1; *p != '}'; p += *p == ',') {
    char text[40];
    p += strspn(p, " ");
    const size_t length = strcspn(p, " ,}");             /* read_number has seen it */
    const int infinite = strncmp(p + (*p == '-'), "inf", 3) == 0;
    memcpy(text, p, length);
    text[length] = 0;
    lua_stringtonumber(L, !infinite ? text : *p == '-' ? "-1e999" : "1e999");
    lua_rawseti(L, -2, ++n);
    p += length;
    p += strspn(p, " ");
  }
}

/* Copies the draft into a userdata whose user values are the text and the defaults that are
** strings or lists. */
static const fl_declared *keep(draft *s, int text) {
  const size_t forms = sizeof *s->form * (size_t)s->d.nforms;
  const size_t params = sizeof *s->param * (size_t)s->nparams;
  const size_t types = sizeof *s->atom * (size_t)s->natoms;
  const size_t results = sizeof *s->result * (size_t)s->nresults;
  const size_t size = sizeof(fl_declared) + forms + params + types + results;
  fl_declared *d = (fl_declared *)lua_newuserdatauv(s->L, size, s->nwords + 1);
  char *at = (char *)(d + 1);
  *d = s->d;
  d->form = (fl_decl_form *)memcpy(at, s->form, forms);
  d->param = (fl_decl_param *)memcpy(at += forms, s->param, params);
  d->atom = (fl_decl_atom *)memcpy(at += params, s->atom, types);
  d->result = (fl_decl_result *)memcpy(at + types, s->result, results);
  lua_pushvalue(s->L, text);
  lua_setiuservalue(s->L, -2, 1);
  for (int k = 0; k < s->nwords; k++) {
    push_word(s->L, s->word[k]);
    lua_setiuservalue(s->L, -2, k + 2);
  }
  return d;
}

/* Pushes the text with lines that begin with a space joined to the lines before them. */
static void push_joined(lua_State *L, const char *text) {
  luaL_Buffer out;
  luaL_buffinit(L, &out);
  for (const char *p = text; *p != 0; p++) {
    if (*p != '\n' || p[1] != ' ') luaL_addchar(&out, *p);
    else while (p[1] == ' ' && p[2] == ' ') p++;
  }
  luaL_pushresult(&out);
}

const fl_declared *fl_declare_parse(lua_State *L, int text) {
  draft s;
  memset(&s.d, 0, sizeof s.d);
  s.L = L;
  push_joined(L, luaL_checkstring(L, text));
  text = lua_gettop(L);
  s.start = s.p = lua_tostring(L, text);
  s.nparams = s.natoms = s.nresults = s.nwords = 0;
  do {
    while (*s.p == '\n' || *s.p == ' ') s.p++;
    read_form(&s);
    if (*s.p != '\n' && *s.p != 0) refuse(&s, "expected the end of the line");
    while (*s.p == '\n' || *s.p == ' ') s.p++;
  } while (*s.p != 0 && !read_doc(&s));
  const fl_declared *d = keep(&s, text);
  lua_remove(L, text);
  return d;
}
