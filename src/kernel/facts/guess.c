/* Goes from the values that each atomicCAS compares with, through copies and casts, back to loads
** (guess.h). */
#include "kernel/facts/guess.h"
#include "kernel/tree/builtins.h"

typedef struct search {
  const fl_kfunc *f;
  uint8_t *guess, *compared;     /* guess[site]: the load gives what an atomicCAS of the same
                                 ** element expects; compared[variable]: an atomicCAS expects its
                                 ** value */
  int changed;
} search;

/* x without conversions, and without calls of one argument, which may turn numbers into their bits
** or back. */
static const fl_kexpr *plain(const fl_kexpr *x) {
  while (x && (x->kind == FL_KX_CAST || (x->kind == FL_KX_CALL && x->n == 1))) x = x->x[0];
  return x;
}

static int is_swap(const fl_kstmt *s) { return s->kind == FL_KS_ATOMIC && s->op == FL_KA_CAS; }

static int swaps_element(const void *load, const fl_kstmt *s) {
  const fl_kexpr *x = load;
  return is_swap(s) && s->var == x->var && fl_kexpr_same(s->x[0], x->x[0]);
}

static void compare(search *s, const fl_kexpr *x) {
  x = plain(x);
  if (!x) return;
  if (x->kind == FL_KX_VAR && !s->compared[x->var]) s->compared[x->var] = s->changed = 1;
  if (x->kind == FL_KX_LOAD && x->site >= 0 && fl_kblock_any(s->f->body, swaps_element, x))
    s->guess[x->site] = 1;
}

static int see(void *arg, fl_kstmt *st) {
  search *s = arg;
  if (is_swap(st)) compare(s, st->x[2]);
  if (st->kind == FL_KS_ASSIGN && s->compared[st->var]) compare(s, st->x[0]);
  return 1;
}

uint8_t *fl_kguess_find(fl_mem *m, const fl_kfunc *f) {
  const size_t vars = (size_t)f->n_vars + 1;
  search s = { .f = f, .guess = fl_zalloc(m, (size_t)f->n_sites + 1) };
  s.compared = s.guess ? fl_zalloc(m, vars) : NULL;
  if (!s.compared) {
    fl_kguess_free(m, f, s.guess);
    return NULL;
  }
  do {
    s.changed = 0;
    fl_kwalk_block(&(fl_kvisitor){ see, NULL, &s }, f->body);
  } while (s.changed);
  fl_free(m, s.compared, vars);
  return s.guess;
}

void fl_kguess_free(fl_mem *m, const fl_kfunc *f, uint8_t *guess) {
  if (guess) fl_free(m, guess, (size_t)f->n_sites + 1);
}
