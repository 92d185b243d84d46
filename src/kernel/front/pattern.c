/*
** Partial specialisations: "template <class T> struct V<T *>", "V<const T>", "V<T, 0>", "V<T, T>",
** "V<Vec<T, N>>". What stands in <…> is the pattern. A parameter is deduced where it occurs alone,
** beside const, '*' and '&', or as an argument of another template; then the pattern is read with
** the deduced parameters and must give the arguments. Of several that fit, the one that is more
** specialised than all others (is_above) is taken; if there is none, the use is refused.
*/
#include "kernel/front/template.h"
#include <string.h>

/* Reads the pattern of s with 'env' as its parameters, and writes the arguments of t that it gives
** to 'out', those by default too. 0: it can not be read. */
static int instance_of(fl_front *p, const fl_ktemplate *t, const fl_kpattern *s,
                       const fl_symbol *env, fl_symbol *out) {
  const fl_kbookmark back = fl_front_open(p, s->pattern, NULL);
  fl_front_push(p, env, s->n_tparams);
  const int bound = fl_template_take(p, t, out);
  fl_front_close(p, back);
  return !fl_pattern_drops(p) && !p->failed && bound;
}

/* Does s fit the arguments 'args' of t? Sets 'env', which is zeroed, to the parameters of s that it
** deduces. Refuses the text if they can not be told. */
static int fits(fl_front *p, const fl_ktemplate *t, const fl_kpattern *s, const fl_symbol *args,
                fl_symbol *env, int32_t line) {
  fl_symbol again[FL_K_MAX_TPARAMS];
  const fl_kdeduction d = { s->tparams, s->n_tparams, env, NULL, 0 };
  const int is = fl_match_all(p, &d, s->pattern, args, t->n_tparams);
  int known = is == FL_MATCH_YES;
  if (is == FL_MATCH_NO) return 0;
  for (int i = 0; i < s->n_tparams; i++) known &= env[i].name != NULL;
  if (!known)
    fl_refuse(p, line, "whether the partial specialisation of '%s' in line %d fits is not known "
              "here" FL_DO ": write its arguments without types of functions and without other "
              "names of templates", t->name, (int)p->toks.at[s->pattern].line);
  return known && instance_of(p, t, s, env, again) && fl_template_same(again, args, t->n_tparams);
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

/* Do the patterns of a and b agree, except that a may have further const, volatile, '*' and '&',
** and a name or number where b has a parameter? 0 if b names a parameter twice: two parts of a
** would have to be compared. */
static int narrows(const fl_front *p, const fl_kpattern *a, const fl_kpattern *b) {
  uint64_t seen = 0;
  int64_t j = b->pattern;
  if (b->n_tparams > 64) return 0;
  for (int64_t i = a->pattern; i < a->at; i++) {
    const fl_ktok *x = &p->toks.at[i], *y = &p->toks.at[j];
    const int c = fl_ktok_punct(x), is_const = fl_ktok_is(x, "const") ||
                                             fl_ktok_is(x, "volatile");
    const int which = j < b->at ? param_of(b, y) : -1;
    const int same = j < b->at && (which >= 0 ? !c && !is_const : is_same_token(x, y));
    if (same && which >= 0 && seen >> which & 1) return 0;
    if (same) j++;
    else if (c != '*' && c != '&' && !is_const) return 0;
    if (same && which >= 0) seen |= UINT64_C(1) << which;
  }
  return j == b->at;
}

/* Gives the parameters of the pattern of a new types and numbers (n of them for a pack), and tells
** whether b fits the arguments that this makes. 0 also if they can not be read. */
static int covers_with(fl_front *p, const fl_ktemplate *t, const fl_kpattern *b,
                       const fl_kpattern *a, int n) {
  fl_symbol own[FL_K_MAX_TPARAMS], args[FL_K_MAX_TPARAMS], found[FL_K_MAX_TPARAMS + 1];
  memset(own, 0, sizeof own);
  memset(found, 0, sizeof found);
  const fl_kdeduction d = { a->tparams, a->n_tparams, own, NULL, 0 };
  for (int i = 0; i < a->n_tparams; i++) {
    const fl_ktparam *q = &a->tparams[i];
    if (q->type) fl_deduce_value(p, &d, i, fl_ctype_scalar(FL_KT_I32), 101 + i);
    else fl_deduce_type(&d, i, fl_ctype_struct(p->a, "own", NULL, 0, 1), 0, 0);
    if (q->is_pack) fl_template_give_pack(p, &own[i], q, (fl_symbol[]){ own[i], own[i] }, n);
  }
  if (p->a->failed) return 0;
  const fl_kattempt from = fl_front_try(p);
  const int is = instance_of(p, t, a, own, args) && fits(p, t, b, args, found, 0);
  fl_front_undo(p, &from);
  return is;
}

static int covers(fl_front *p, const fl_ktemplate *t, const fl_kpattern *b, const fl_kpattern *a) {
  return covers_with(p, t, b, a, 0) && covers_with(p, t, b, a, 2);
}

/* Is a more specialised than b? By the tokens of the patterns, if they tell; else it is if b fits
** what a stands for, and a does not fit what b stands for. */
static int is_above(fl_front *p, const fl_ktemplate *t, const fl_kpattern *a,
                    const fl_kpattern *b) {
  const int less = narrows(p, b, a), more = narrows(p, a, b);
  if (less != more) return more;
  return covers(p, t, b, a) && !covers(p, t, a, b);
}

enum { MOST_FIT = 16 };

const fl_kpattern *fl_pattern_find(fl_front *p, const fl_ktemplate *t, const fl_symbol *args,
                                   fl_symbol **env, int32_t line) {
  const fl_kpattern *list[MOST_FIT];
  fl_symbol *of[MOST_FIT];
  int n = 0, best = -1;
  for (const fl_kpattern *s = t->patterns; s && !p->failed; s = s->next) {
    fl_symbol *now = fl_karena_new(p->a, (FL_K_MAX_TPARAMS + 1) * sizeof *now);
    if (!now || !fits(p, t, s, args, now, line)) continue;
    if (!fl_front_room(p, n, MOST_FIT, "partial specialisations that fit")) break;
    list[n] = s;
    of[n++] = now;
  }
  for (int i = 0; i < n && best < 0 && !p->failed; i++) {
    best = i;
    for (int k = 0; k < n && best == i; k++)
      if (k != i && !is_above(p, t, list[i], list[k])) best = -1;
  }
  if (n && best < 0) fl_refuse(p, line, "two partial specialisations of '%s' fit", t->name);
  if (p->failed || best < 0) return NULL;
  *env = of[best];
  return list[best];
}

int fl_template_same(const fl_symbol *a, const fl_symbol *b, int n) {
  for (int i = 0; i < n; i++) {
    if (a[i].kind != b[i].kind) return 0;
    if (a[i].kind == FL_SYM_PACK) {
      if (a[i].n_inner != b[i].n_inner ||
          !fl_template_same(a[i].inner, b[i].inner, (int)a[i].n_inner)) return 0;
    } else if (a[i].kind == FL_SYM_TYPE) {
      if (!fl_ctype_equal(a[i].type, b[i].type) || a[i].ref != b[i].ref ||
          a[i].is_const != b[i].is_const) return 0;
    } else if (a[i].kind == FL_SYM_FUNCTION || a[i].kind == FL_SYM_TEMPLATE) {
      if (a[i].device != b[i].device || a[i].structs != b[i].structs) return 0;
    } else if (!a[i].v.e || !b[i].v.e || a[i].v.e->value.i != b[i].v.e->value.i ||
               !fl_ctype_like(a[i].v.type, b[i].v.type)) {
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

int fl_pattern_drops(fl_front *p) {
  if (!p->failed || !p->absent || p->a->failed) return 0;
  p->failed = 0;
  return 1;
}

int64_t fl_template_alignment(fl_front *p, const fl_ktemplate *t, const fl_symbol *args) {
  const fl_kbookmark back = fl_front_open(p, t->align, NULL);
  fl_front_push(p, args, t->n_tparams);
  const int64_t n = fl_decl_alignment(p);
  fl_front_close(p, back);
  return n;
}
