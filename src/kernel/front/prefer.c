/*
** Which of two functions that fit a call equally well C++ prefers. Of two templates the more
** specialised one: its formals are instances of the other's, but not conversely; or, if that does
** not tell, it has "T &" for "T &&", or refers or points to const where the other does not. Of two
** functions: the one with "T &&" for "T &" or "const T &"; of "T &" and "const T &" the second if
** the argument is a value or const, else the first.
*/
#include "kernel/front/template.h"
#include <string.h>

enum { MOST = 32 };
/* The type of one formal: its n tokens without those that is_idle names. ref: 1 for &, 2 for &&;
** is_const: how many of const and volatile there are before its first '*'; points: it has a '*' */
typedef struct pattern { const fl_ktok *t[MOST]; int n, ref, is_const, points; } pattern;
typedef struct given { const fl_ktok *name; pattern is; } given;   /* a template parameter, and the
                                                                   ** tokens that it stands for */

static int is_idle(const fl_ktok *t) {
  static const char *const words[] = { "const", "typename", "volatile", "__restrict__",
                                       "__restrict", "struct", "class" };
  return fl_ktok_among(t, words, sizeof words / sizeof *words) >= 0 ||
         fl_ktok_punct(t) == '&' || fl_ktok_punct(t) == FL_PU_LAND;
}

/* Reads the type of formal i from token *at on, and moves *at past its ','. 0: not understood. */
static int read_formal(fl_front *p, const fl_kdevice *d, int i, int64_t *at, pattern *out) {
  int depth = 0, set = 0, stars = 0;
  out->n = out->ref = out->is_const = 0;
  for (;; (*at)++) {
    const fl_ktok *t = &p->toks.at[*at];
    const int c = fl_ktok_punct(t);
    if (t->kind == FL_TOK_END || c == '[' || c == FL_PU_ELLIPSIS || out->n == MOST) return 0;
    if (!depth && (c == ',' || c == ')')) break;
    depth += (c == '(' || c == '<' || c == '{') - (c == ')' || c == '>' || c == '}') -
             2 * (c == FL_PU_SHR);
    set |= c == '=';
    if (!set && !depth && (c == '&' || c == FL_PU_LAND)) out->ref = c == '&' ? 1 : 2;
    if (!set && !depth && !stars)
      out->is_const += fl_ktok_is(t, "const") || fl_ktok_is(t, "volatile");
    stars |= c == '*';
    out->points = stars;
    if (!set && !is_idle(t)) out->t[out->n++] = t;
  }
  (*at)++;
  const char *name = d->params ? d->params[i].name : NULL;
  if (out->n > 1 && out->t[out->n - 1]->kind == FL_TOK_NAME &&
      (!name || fl_ktok_is(out->t[out->n - 1], name) || out->n == 2))
    out->n--;
  return out->n > 0;
}

static int same_tokens(const fl_ktok *const *a, const fl_ktok *const *b, int n) {
  for (int i = 0; i < n; i++)
    if (a[i]->kind != b[i]->kind || fl_ktok_punct(a[i]) != fl_ktok_punct(b[i]) ||
        a[i]->n != b[i]->n || memcmp(a[i]->text, b[i]->text, (size_t)a[i]->n))
      return 0;
  return 1;
}

static int is_parameter(const fl_kdevice *d, const fl_ktok *t) {
  for (int i = 0; i < d->n_tparams; i++)
    if (fl_ktok_is(t, d->tparams[i].name)) return 1;
  return 0;
}

/* Is 'what' an instance of 'of', which is a formal of d? list: the *n parameters of d's template
** that earlier formals have determined; those that this one determines are added. */
static int matches(const fl_kdevice *d, const pattern *of, const pattern *what, given *list,
                   int *n) {
  int k = 0;
  for (int i = 0; i < of->n; i++) {
    if (k >= what->n) return 0;
    if (!is_parameter(d, of->t[i])) {
      if (!same_tokens(&of->t[i], &what->t[k++], 1)) return 0;
      continue;
    }
    const int length = of->n == 1 ? what->n : 1;
    given *g = NULL;
    for (int j = 0; j < *n && !g; j++)
      if (same_tokens(&list[j].name, &of->t[i], 1)) g = &list[j];
    if (g && (g->is.n != length || !same_tokens(g->is.t, &what->t[k], length))) return 0;
    if (!g && *n == MOST) return 0;
    if (!g) {
      g = &list[(*n)++];
      g->name = of->t[i];
      g->is.n = length;
      memcpy(g->is.t, &what->t[k], (size_t)length * sizeof *g->is.t);
    }
    k += length;
  }
  return k == what->n;
}

/* Are all formals of a instances of those of b? */
static int is_instance(fl_front *p, const fl_kdevice *a, const fl_kdevice *b, int count) {
  given list[MOST];
  int64_t at = a->open + 1, other = b->open + 1;
  int n = 0;
  for (int i = 0; i < count; i++) {
    pattern x, y;
    if (!read_formal(p, a, i, &at, &x) || !read_formal(p, b, i, &other, &y)) return 0;
    if (!matches(b, &y, &x, list, &n)) return 0;
  }
  return 1;
}

/* Has a, in one formal at least, "T &" where b has "T &&", or more of const where b has the same
** kind of reference or pointer? 0 if b has so in another formal. */
static int is_narrower(fl_front *p, const fl_kdevice *a, const fl_kdevice *b, int count) {
  int64_t at = a->open + 1, other = b->open + 1;
  int more = 0, less = 0;
  for (int i = 0; i < count; i++) {
    pattern x, y;
    if (!read_formal(p, a, i, &at, &x) || !read_formal(p, b, i, &other, &y)) return 0;
    if (!x.ref != !y.ref || (!x.ref && !(x.points && y.points))) continue;
    more |= x.ref < y.ref || (x.ref == y.ref && x.is_const > y.is_const);
    less |= x.ref > y.ref || (x.ref == y.ref && x.is_const < y.is_const);
  }
  return more && !less;
}

int fl_template_prefers(fl_front *p, const fl_kdevice *a, const fl_kdevice *b, int count) {
  const int is = is_instance(p, a, b, count), other = is_instance(p, b, a, count);
  if (is != other || !is) return is - other;
  return is_narrower(p, a, b, count) - is_narrower(p, b, a, count);
}

int fl_reference_prefers(const fl_kdevice *a, const fl_kdevice *b, const fl_kcall *c) {
  int wins = 0, losses = 0;
  for (int i = 0; i < c->n; i++) {
    const fl_cvalue *v = &c->args[i];
    const int value = v->kind != FL_V_PLACE && (v->kind == FL_V_LIST || !(v->either || v->named));
    const int fixed = value || v->rvalue || v->moved || v->is_const;
    const fl_kformal *x = &a->params[i], *y = &b->params[i];
    if (x->by_reference && y->by_reference && x->by_reference != y->by_reference) {
      wins += x->by_reference == 2;       /* (of a variable it has another rank than T &) */
      losses += y->by_reference == 2;
    }
    if (x->by_reference != 1 || y->by_reference != 1 || x->is_const == y->is_const) continue;
    wins += x->is_const == fixed;
    losses += y->is_const == fixed;
  }
  return wins && !losses ? 1 : losses && !wins ? -1 : 0;
}
