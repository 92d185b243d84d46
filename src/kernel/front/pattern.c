/*
** Partial specialisations: "template <class T> struct V<T *>", "V<const T>", "V<T, 0>", "V<T, T>",
** "V<Vec<T, N>>". A parameter is deduced where it occurs alone, beside const, '*' and '&', or as an
** argument of another template; then the pattern is read with the deduced parameters and must give
** the arguments. Of two that fit, that one is taken which is the other with more of const, '*' and
** '&', or with a name or number for a parameter (narrows); where neither is, both are refused.
*/
#include "kernel/front/template.h"
#include <string.h>

/* What stands beside the name of T in "const T", "T *", "const T &": n words. fixed: T itself is
** const; ref: 1 for &, 2 for &&; name: the token T. */
typedef struct around { int64_t name; int n, fixed, stars, ref; } around;

static around read_around(const fl_front *p, int64_t from, int64_t end) {
  around a = { .name = -1 };
  for (int64_t i = from; i < end; i++) {
    const fl_ktok *t = &p->toks.at[i];
    const int c = fl_ktok_punct(t), is_const = fl_ktok_is(t, "const");
    if (t->kind == FL_TOK_NAME && !is_const && a.name < 0) a.name = i;
    a.fixed |= is_const && !a.stars;
    a.stars += c == '*';
    a.ref = c == '&' ? 1 : c == FL_PU_LAND ? 2 : a.ref;
    a.n += is_const || c == '*' || c == '&' || c == FL_PU_LAND;
  }
  return a;
}

/* Deduces the parameter 'which' from the type 'arg', where a is what the pattern has beside the
** parameter's name. */
static void deduce_type(const fl_kdeduction *d, int which, const around *a, const fl_symbol *arg) {
  const fl_ctype *t = arg->type;
  int is_const = arg->is_const, ref = arg->ref;
  if (a->ref && ref != a->ref) return;
  if (a->ref) ref = 0;
  if (a->stars && ref) return;
  for (int k = 0; k < a->stars; k++) {
    if (t->kind != FL_C_POINTER) return;
    is_const = t->const_of, t = t->of;
  }
  if (a->fixed && (!is_const || ref)) return;
  fl_deduce_type(d, which, t, is_const && !a->fixed, ref);
}

/* Deduces from one argument of the pattern, tokens 'from' to end - 1. */
static void deduce(fl_front *p, const fl_kdeduction *d, int64_t from, int64_t end,
                   const fl_symbol *arg) {
  const around a = read_around(p, from, end);
  const fl_ktok *t = &p->toks.at[a.name < 0 ? from : a.name];
  const int which = fl_deduce_index(d, t), alone = end == from + 1 + a.n;
  if (which >= 0 && alone && arg->kind == FL_SYM_TYPE) deduce_type(d, which, &a, arg);
  if (which >= 0 && end == from + 1 && arg->kind == FL_SYM_CONSTANT && arg->v.e)
    fl_deduce_value(p, d, which, arg->v.e->value.i);
  const fl_symbol *s = which < 0 ? fl_front_named(p, t) : NULL;
  if (s && s->kind == FL_SYM_TEMPLATE && arg->kind == FL_SYM_TYPE)
    fl_deduce_struct(p, d, s->structs, a.name + 1, arg->type);
}

static int deduce_all(fl_front *p, const fl_kdeduction *d, int64_t open,
                      const fl_symbol *args, int n) {
  int depth = 1, arg = 0;
  int64_t from = open + 1;
  for (int64_t i = from; depth > 0 && i < p->toks.n; i++) {
    const int c = fl_ktok_punct(&p->toks.at[i]);
    depth += (c == '<' || c == '(') - (c == '>' || c == ')') - 2 * (c == FL_PU_SHR);
    if (depth > 0 && !(c == ',' && depth == 1)) continue;
    const int64_t end = i + (c == FL_PU_SHR && depth == 0);
    if (arg == n) return 0;
    deduce(p, d, from, end, &args[arg++]);
    from = i + 1;
  }
  return arg == n;
}

static int fits(fl_front *p, const fl_ktemplate *t, const fl_kpattern *s, const fl_symbol *args,
                fl_symbol *env) {
  fl_symbol again[FL_K_MAX_TPARAMS];
  const fl_kdeduction d = { s->tparams, s->n_tparams, env };
  if (!deduce_all(p, &d, s->pattern, args, t->n_tparams)) return 0;
  for (int i = 0; i < s->n_tparams; i++)
    if (!env[i].name) return 0;
  const fl_kbookmark back = fl_front_open(p, s->pattern, NULL);
  fl_front_push(p, env, s->n_tparams);
  const int n = fl_template_args(p, again);
  fl_front_close(p, back);
  return !p->failed && n == t->n_tparams && fl_template_same(again, args, n);
}

/* The index of the pattern's parameter that the token names; -1: none. */
static int param_of(const fl_kpattern *s, const fl_ktok *t) {
  for (int i = 0; i < s->n_tparams; i++)
    if (s->tparams[i].name && fl_ktok_is(t, s->tparams[i].name)) return i;
  return -1;
}

static int is_same_token(const fl_ktok *a, const fl_ktok *b) {
  return a->kind == b->kind && a->n == b->n && !memcmp(a->text, b->text, (size_t)a->n);
}

/* Is pattern a that of b with more of const, '*' and '&', or with a name or number where b has a
** parameter? Then a is the more special one. Not if b names a parameter twice: that would stand for
** two parts of a. */
static int narrows(const fl_front *p, const fl_kpattern *a, const fl_kpattern *b) {
  uint64_t seen = 0;
  int64_t j = b->pattern;
  if (b->n_tparams > 64) return 0;
  for (int64_t i = a->pattern; i < a->at; i++) {
    const fl_ktok *x = &p->toks.at[i], *y = &p->toks.at[j];
    const int c = fl_ktok_punct(x), is_const = fl_ktok_is(x, "const");
    const int which = j < b->at ? param_of(b, y) : -1;
    const int same = j < b->at && (which >= 0 ? !c && !is_const : is_same_token(x, y));
    if (same && which >= 0 && seen >> which & 1) return 0;
    if (same) j++;
    else if (c != '*' && c != '&' && !is_const) return 0;
    if (same && which >= 0) seen |= UINT64_C(1) << which;
  }
  return j == b->at;
}

const fl_kpattern *fl_pattern_find(fl_front *p, const fl_ktemplate *t, const fl_symbol *args,
                                   fl_symbol **env, int32_t line) {
  const fl_kpattern *found = NULL;
  int two = 0;
  for (const fl_kpattern *s = t->patterns; s && !p->failed; s = s->next) {
    fl_symbol *now = fl_karena_new(p->a, (FL_K_MAX_TPARAMS + 1) * sizeof *now);
    if (!now || !fits(p, t, s, args, now)) continue;
    const int less = found && narrows(p, found, s), more = found && narrows(p, s, found);
    two |= found && less == more;
    if (less) continue;
    found = s;
    *env = now;
  }
  if (two) fl_refuse(p, line, "two partial specialisations of '%s' fit", t->name);
  return p->failed ? NULL : found;
}

/* Are a and b the same type, with pointees that are const in both or in neither? */
static int same_type(const fl_ctype *a, const fl_ctype *b) {
  if (!fl_ctype_same(a, b)) return 0;
  for (; a->kind == FL_C_POINTER || a->kind == FL_C_ARRAY; a = a->of, b = b->of)
    if (a->const_of != b->const_of) return 0;
  return 1;
}

int fl_template_same(const fl_symbol *a, const fl_symbol *b, int n) {
  for (int i = 0; i < n; i++) {
    if (a[i].kind != b[i].kind) return 0;
    if (a[i].kind == FL_SYM_TYPE) {
      if (!same_type(a[i].type, b[i].type) || a[i].ref != b[i].ref ||
          a[i].is_const != b[i].is_const) return 0;
    } else if (a[i].kind == FL_SYM_FUNCTION || a[i].kind == FL_SYM_TEMPLATE) {
      if (a[i].device != b[i].device || a[i].structs != b[i].structs) return 0;
    } else if (!a[i].v.e || !b[i].v.e || a[i].v.e->value.i != b[i].v.e->value.i) {
      return 0;
    }
  }
  return 1;
}

void fl_pattern_add(fl_front *p, fl_ktemplate *t, fl_ktparam *params, int n) {
  fl_kpattern *s = fl_karena_new(p->a, sizeof *s);
  const int angle = fl_template_angle(p, 0);
  if (!s) return;
  for (int i = 0; i < n; i++)
    if (params[i].is_template)
      fl_refuse(p, fl_front_tok(p)->line, "a partial specialisation with a template as an argument "
                "is outside the language");
  *s = (fl_kpattern){ .tparams = params, .n_tparams = n, .pattern = p->at, .at = p->at + angle,
                      .next = t->patterns };
  p->at += angle;
  fl_front_seek(p, '{', '{');
  fl_front_skip(p);
  if (fl_front_need(p, ';')) t->patterns = s;
}

/* Skips "typename std::enable_if<…>::type" as the type of a constant; returns its first token; 0:
** it is something else. */
int64_t fl_pattern_condition(fl_front *p) {
  const int64_t at = p->at;
  int k = fl_ktok_is(fl_front_tok(p), "typename");
  if (fl_ktok_is(fl_front_ahead(p, k), "std") && fl_front_is_at(p, k + 1, FL_PU_SCOPE)) k += 2;
  const fl_ktok *t = fl_front_ahead(p, k);
  if (!fl_ktok_is(t, "enable_if") && !fl_ktok_is(t, "enable_if_t")) return 0;
  p->at += k + 1;
  p->at += fl_template_angle(p, 0);
  if (fl_front_take(p, FL_PU_SCOPE)) p->at++;
  fl_front_take(p, '*');
  return at;
}

int fl_pattern_drops(fl_front *p, int64_t from) {
  int depth = 0;
  for (int64_t i = from; p->failed && !p->a->failed && i < p->toks.n; i++) {
    const fl_ktok *t = &p->toks.at[i];
    const int c = fl_ktok_punct(t);
    if (fl_ktok_is(t, "enable_if") || fl_ktok_is(t, "enable_if_t")) return p->failed = 0, 1;
    depth += (c == '<') - (c == '>') - 2 * (c == FL_PU_SHR);
    if (c == '{' || c == ';' || c == '(' || depth < 0 || (c == ',' && !depth)) break;
  }
  return 0;
}

int64_t fl_template_alignment(fl_front *p, const fl_ktemplate *t, const fl_symbol *args) {
  const fl_kbookmark back = fl_front_open(p, t->align, NULL);
  fl_front_push(p, args, t->n_tparams);
  const int64_t n = fl_decl_alignment(p);
  fl_front_close(p, back);
  return n;
}
