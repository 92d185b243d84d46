/*
** Loops no round of which touches an array's elements of another round, though it has several of
** them: the halves of a row that are turned into each other, a pair of neighbours. Asked in the
** source as written, for arrays that the loop writes and whose accesses in it stand directly in it;
** ad_pass.c asks for the answer.
*/
#include "kernel/ad/ad_state.h"

enum { MOST_ACCESSES = 24 };

typedef struct rounds {
  const fl_kstmt *loop, *s;
  fl_kaccess_at at[MOST_ACCESSES];
  int32_t var;
  int n, writes, bad;
} rounds;

static void add(rounds *r, const fl_kstmt *s, const fl_kexpr *index) {
  for (int i = 0; i < r->n; i++)
    if (r->at[i].s == s && fl_kexpr_same(r->at[i].index, index)) return;
  if (r->n == MOST_ACCESSES) r->bad = 1;
  else r->at[r->n++] = (fl_kaccess_at){s, index};
}

static int see_load(void *arg, fl_kexpr *x) {
  rounds *r = arg;
  if (x->kind == FL_KX_LOAD && x->var == r->var) add(r, r->s, x->x[0]);
  return 1;
}

static void look(rounds *r, const fl_kblock *b) {
  const fl_kvisitor loads = {NULL, see_load, r};
  for (const fl_kstmt *s = b->first; s && !r->bad; s = s->next) {
    r->s = s;                                          /* an inner loop's accesses have no answer */
    for (int i = 0; i < 4; i++) fl_kwalk_expr(&loads, s->x[i]);
    if (s->kind == FL_KS_STORE && s->var == r->var) add(r, s, s->x[0]), r->writes = 1;
    if (s->kind == FL_KS_ATOMIC && s->var == r->var) r->bad = 1;
    look(r, &s->body);
    look(r, &s->other);
  }
}

static int is_one_round(rounds *r, const fl_kindices *k) {
  look(r, &r->loop->body);
  look(r, &r->loop->other);
  int ok = r->writes && !r->bad;
  for (int i = 0; ok && i < r->n; i++)
    for (int j = 0; ok && j < i; j++)
      ok = fl_kindex_in_one_round(k, &r->at[i], &r->at[j], r->loop->label);
  return ok;
}

static void walk(fl_kad_state *d, const fl_kfunc *f, const fl_kindices *k, const fl_kblock *b) {
  for (const fl_kstmt *s = b->first; s && !d->a->failed; s = s->next) {
    for (int v = 0; s->kind == FL_KS_LOOP && s->label >= 0 && s->label < 64 && v < f->n_vars; v++) {
      rounds r = {.loop = s, .var = v};
      if (f->vars[v].kind == FL_KV_POINTER && !f->vars[v].is_const && is_one_round(&r, k))
        d->var_rounds[v] |= (uint64_t)1 << s->label;
    }
    walk(d, f, k, &s->body);
    walk(d, f, k, &s->other);
  }
}

void fl_kad_rounds(fl_kad_state *d, const fl_kfunc *f, const fl_kindices *k) {
  walk(d, f, k, &f->body);
}
