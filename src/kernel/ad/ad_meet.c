/*
** Stores of several threads to one element. They are no race where all write the same value
** ("m = x[0];" in every thread), and the element has been stored once: the cotangent must go to
** one of the threads, whichever. The adjoint then exchanges it for 0.
**
** Asked in the source as written. A store may meet others unless its element is proven to be one
** thread's own (own.c); in shared memory: one of the block's. What the proof took from the launch
** is kept with the result. So are the pairs of stores that write an element in one thread alone;
** ad_modes.c asks for them.
*/
#include "kernel/ad/ad_state.h"

enum { MOST_STORES = 64 };

typedef struct meets {
  fl_kad_state *d;
  const fl_kfunc *f;
  const fl_kindices *k;
  const fl_kstmt *own[MOST_STORES];
  int n;
} meets;

static int enough(const meets *m, const fl_kstmt *s) {
  return m->f->vars[s->var].kind == FL_KV_SHARED ? FL_KI_OWNED_IN_BLOCK : FL_KI_OWNED_IN_GRID;
}

static int see_store(void *arg, fl_kstmt *s) {
  meets *m = arg;
  if (s->kind != FL_KS_STORE || s->accumulate || s->site < 0 || s->site >= m->d->n_sites0) return 1;
  const int kind = m->f->vars[s->var].kind;
  if (kind != FL_KV_SHARED && kind != FL_KV_POINTER) return 1;
  const int own = fl_kindex_owned(m->k, s, s->x[0]) & enough(m, s);
  m->d->site_meets[s->site] = own ? 0 : FL_KAD_MEETS | FL_KAD_MEETS_AT_ONCE | FL_KAD_MEETS_ALIKE;
  if (own && m->n < MOST_STORES) m->own[m->n++] = s;
  return 1;
}

static void see_pair(meets *m, const fl_kstmt *s, const fl_kstmt *t) {
  const fl_kaccess_at p = {s, s->x[0]}, q = {t, t->x[0]};
  if (s->var != t->var || !(fl_kindex_owned_by_one(m->k, &p, &q) & enough(m, s))) return;
  fl_kad_pair *one = fl_karena_new(m->d->a, sizeof *one);
  if (!one) return;
  *one = (fl_kad_pair){s->site, t->site, m->d->own_pairs};
  m->d->own_pairs = one;
}

void fl_kad_meets(fl_kad_state *d, const fl_kfunc *f, const fl_kindices *k) {
  meets m = {.d = d, .f = f, .k = k};
  const fl_kvisitor v = {see_store, NULL, &m};
  fl_kwalk_block(&v, f->body);
  for (int i = 0; i < m.n; i++)
    for (int j = 0; j < i; j++) see_pair(&m, m.own[i], m.own[j]);
}

int fl_kad_has_pair(const fl_kad_state *d, int32_t site, int32_t other) {
  for (const fl_kad_pair *p = d->own_pairs; p; p = p->next)
    if ((p->site == site && p->other == other) || (p->site == other && p->other == site)) return 1;
  return 0;
}
