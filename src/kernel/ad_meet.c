/*
** Stores of several threads to one element. They are no race where all write the same value
** ("m = x[0];" in every thread), and the element has been stored once: the cotangent must go to
** one of the threads, whichever. The adjoint then exchanges it for 0.
**
** Asked in the source as written. A store may meet others unless its element is proven to be one
** thread's own (own.c); in shared memory: one of the block's. What the proof took from the launch is
** kept with the result.
*/
#include "kernel/ad_state.h"

typedef struct meets { fl_kad_state *d; const fl_kfunc *f; const fl_kindices *k; } meets;

static int see_store(void *arg, fl_kstmt *s) {
  meets *m = arg;
  if (s->kind != FL_KS_STORE || s->accumulate || s->site < 0 || s->site >= m->d->n_sites0) return 1;
  const int kind = m->f->vars[s->var].kind;
  if (kind != FL_KV_SHARED && kind != FL_KV_POINTER) return 1;
  if (!fl_kt_is_float(m->f->vars[s->var].type)) return 1;
  const int own = fl_kindex_owned(m->k, s, s->x[0]);
  const int enough = kind == FL_KV_SHARED ? FL_KI_OWNED_IN_BLOCK : FL_KI_OWNED_IN_GRID;
  m->d->site_meets[s->site] = (uint8_t)((own & enough ? 0 : FL_KAD_MEETS)
                                        | (own & FL_KI_OWNED_IN_BLOCK ? 0 : FL_KAD_MEETS_IN_BLOCK));
  return 1;
}

void fl_kad_meets(fl_kad_state *d, const fl_kfunc *f, const fl_kindices *k) {
  meets m = {.d = d, .f = f, .k = k};
  const fl_kvisitor v = {see_store, NULL, &m};
  fl_kwalk_block(&v, f->body);
}
