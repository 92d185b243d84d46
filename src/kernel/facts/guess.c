/* Finds the values that an atomicCAS compares with, through copies and casts, back to the loads. */
#include "kernel/facts/guess.h"
#include "kernel/tree/builtins.h"

typedef struct search {
  const fl_kfunc *f;
  uint8_t *guess, *compared;     /* guess[site]: the load gives what an atomicCAS expects;
                                 ** compared[variable]: an atomicCAS expects its value */
  struct { const fl_kstmt **at; int64_t n, cap; } swaps;
  int changed, failed;
  fl_mem *mem;
} search;

/* x without conversions between numbers, and from numbers to their bits or back. */
static const fl_kexpr *plain(const fl_kexpr *x) {
  while (x && (x->kind == FL_KX_CAST || (x->kind == FL_KX_CALL && x->n == 1))) x = x->x[0];
  return x;
}

static void compare(search *s, const fl_kexpr *x) {
  x = plain(x);
  if (!x) return;
  if (x->kind == FL_KX_VAR && !s->compared[x->var]) s->compared[x->var] = 1, s->changed = 1;
  if (x->kind != FL_KX_LOAD || x->site < 0 || s->guess[x->site]) return;
  for (int64_t k = 0; k < s->swaps.n; k++) {
    const fl_kstmt *c = s->swaps.at[k];
    if (c->var == x->var && fl_kexpr_same(c->x[0], x->x[0])) s->guess[x->site] = 1;
  }
}

static int collect(void *arg, fl_kstmt *st) {
  search *s = arg;
  if (st->kind != FL_KS_ATOMIC || st->op != FL_KA_CAS) return 1;
  const fl_kstmt **at = FL_PUSH(s->mem, &s->swaps);
  if (at) *at = st;
  else s->failed = 1;
  return 1;
}

static int follow(void *arg, fl_kstmt *st) {
  search *s = arg;
  if (st->kind == FL_KS_ASSIGN && s->compared[st->var]) compare(s, st->x[0]);
  return 1;
}

uint8_t *fl_kguess_find(fl_mem *m, const fl_kfunc *f) {
  search s = { .f = f, .mem = m };
  const size_t sites = (size_t)f->n_sites + 1, vars = (size_t)f->n_vars + 1;
  s.guess = fl_zalloc(m, sites);
  s.compared = fl_zalloc(m, vars);
  s.failed = !s.guess || !s.compared;
  if (!s.failed) fl_kwalk_block(&(fl_kvisitor){ collect, NULL, &s }, f->body);
  for (int64_t k = 0; k < s.swaps.n && !s.failed; k++) compare(&s, s.swaps.at[k]->x[2]);
  while (s.changed && !s.failed) {
    s.changed = 0;
    fl_kwalk_block(&(fl_kvisitor){ follow, NULL, &s }, f->body);
  }
  if (s.compared) fl_free(m, s.compared, vars);
  FL_DROP(m, &s.swaps);
  if (s.failed && s.guess) fl_free(m, s.guess, sites);
  return s.failed ? NULL : s.guess;
}

void fl_kguess_free(fl_mem *m, const fl_kfunc *f, uint8_t *guess) {
  if (guess) fl_free(m, guess, (size_t)f->n_sites + 1);
}
