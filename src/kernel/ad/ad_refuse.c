/* Kernels that are refused (get no derivative) before any code is made for one: those that use bits
** of real numbers, results of atomics as real numbers or, beside results of atomics, elements that
** other threads may have written. What only the code of a statement shows is refused where that
** code is made. Dynamic shared memory of several types is refused launch by launch
** (fl_kad.views). */
#include "kernel/ad/ad_state.h"

/* compared: the operands of a comparison, which has no derivative */
typedef struct bits { fl_kad_state *d; int line, back; const fl_kexpr *compared[2]; } bits;

static int see_bits(void *arg, fl_kexpr *x) {
  bits *b = arg;
  if (x->kind == FL_KX_BINARY && x->type == FL_KT_BOOL)
    b->compared[0] = x->x[0], b->compared[1] = x->x[1];
  if (x->kind != FL_KX_CALL || fl_kbuiltins[x->op].rule != FL_KBR_BITS) return 1;
  if (fl_kt_is_float(x->type)) b->back |= x != b->compared[0] && x != b->compared[1];
  else if (fl_kad_flows(b->d->varied, x->x[0]) && !b->line) b->line = x->line ? x->line : 1;
  return 1;
}

/* Looks for an atomic that treats memory as numbers of another type: sets b->line if it makes bits
** of a real number, and b->back if bits may become one. */
static int see_seen(void *arg, fl_kstmt *s) {
  bits *b = arg;
  if (s->kind != FL_KS_ATOMIC || !s->as) return 1;
  const int real = fl_kt_is_float(b->d->f->vars[s->var].type),
            flows = fl_kad_flows(b->d->varied, s->x[1]);
  b->back |= real || flows;
  if ((flows || (real && b->d->varied[s->var])) && !b->line) b->line = s->line;
  return 1;
}

/* Refuses real numbers that are taken apart into bits where bits may become real numbers again:
** their derivative would be lost without notice. */
static void refuse_bits(fl_kad_state *d) {
  bits b = { .d = d };
  const fl_kvisitor v = {see_seen, see_bits, &b};
  fl_kwalk_block(&v, d->body);
  if (b.line && b.back) fl_kad_refuse(d, b.line, "the bits of a real number");
}

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
  refuse_bits(d);
  find_regions(d);
  fl_kwalk_block(&v, d->body);
}
