/* Kernels that are refused (get no derivative) before any code is made for one: those that use bits
** of real numbers, results of atomics as real numbers or, beside results of atomics, elements that
** other threads may have written. What only the code of a statement shows is refused where that
** code is made. Dynamic shared memory of several types is refused launch by launch
** (fl_kad.views). */
#include "kernel/ad/ad_state.h"

static int see_atomic(void *arg, fl_kstmt *s) {
  fl_kad_state *d = arg;
  if (s->kind == FL_KS_ATOMIC && s->result >= 0 && d->active[s->result])
    fl_kad_refuse(d, s->line, "the result of an atomic operation on '%s' (it depends on the "
                  "order of the threads)", d->f->vars[s->var].source);
  return 1;
}

/* Counts the regions of dynamic shared memory that shadows need. Sets 'views', also where none has
** a derivative: a store to one may overwrite another, which the derivative does not track. */
static void find_regions(fl_kad_state *d) {
  int n = 0, whole = 0;
  uint8_t *used = fl_karena_new(d->a, (size_t)d->n0 + 1);
  if (!used) return;
  fl_kaccessed(d->body, used, used);
  for (int i = 0; i < d->n0; i++) {
    const fl_kvar *x = &d->f->vars[i];
    n += x->dynamic == 1 && used[i];
    if (!x->dynamic || !d->active[i]) continue;
    d->halves |= fl_kt_is_half(x->type);
    whole |= !fl_kt_is_half(x->type);
  }
  d->regions = d->halves ? 3 + whole : 2;
  d->res->views = n > 1;
}

/* In the replay of a kernel that uses results of atomics (record.h), refuses loads of elements that
** carry a derivative and that another thread may have written. There a block can wait by a counter
** until another has written them; the reverse code would not wait. */
static int see_foreign(void *arg, fl_kexpr *x) {
  fl_kad_state *d = arg;
  if (x->kind == FL_KX_LOAD && d->f->vars[x->var].kind == FL_KV_POINTER && d->active[x->var]
      && fl_kad_written(d, x->var)
      && !fl_kfact_of(d->facts, x->site)->own)
    fl_kad_refuse(d, x->line, "'%s', which is read where another thread may have written, beside "
                  "an atomic whose result is used,", d->f->vars[x->var].source);
  return 1;
}

static void refuse_foreign(fl_kad_state *d) {
  const fl_kvisitor v = {NULL, see_foreign, d};
  if (d->f->replays) fl_kwalk_block(&v, d->body);
}

void fl_kad_refuse_early(fl_kad_state *d) {
  const fl_kvisitor v = {see_atomic, NULL, d};
  refuse_foreign(d);
  fl_kad_refuse_bits(d);
  find_regions(d);
  fl_kwalk_block(&v, d->body);
}
