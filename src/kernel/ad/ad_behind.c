/*
** Loops that write an array in global or shared memory and read it, but never an element before
** they write it: y[j] = f(y[j - 1]). Each read finds what the element holds after the loop, so
** going back through the rounds needs no older values of it. Asked in the source as written, for
** loops without barriers whose accesses of the array stand directly in them.
*/
#include "kernel/ad/ad_state.h"

typedef struct behind {
  fl_kad_state *d;
  const fl_kfunc *f;
  const fl_kindices *k;
  const fl_kstmt *loop, *s;
  fl_kaccess_at write[16];
  int n_writes, var, bad;
  fl_kaccess_at read;
} behind;

static int see_write(void *arg, fl_kstmt *s) {
  behind *b = arg;
  if (s->kind == FL_KS_BARRIER) b->bad = 1;
  if (s->kind != FL_KS_STORE && s->kind != FL_KS_ATOMIC) return 1;
  const fl_kvar *x = &b->f->vars[s->var], *y = &b->f->vars[b->var];
  /* dynamic shared memory is one array */
  if (s->var != b->var && !(x->dynamic && y->dynamic)) return 1;
  if (x->type != y->type) b->bad = 1;
  if (s->kind == FL_KS_ATOMIC || s->accumulate || b->n_writes == 16) b->bad = 1;
  else b->write[b->n_writes++] = (fl_kaccess_at){s, s->x[0]};
  return 1;
}

static int see_read(void *arg, fl_kexpr *x) {
  behind *b = arg;
  if (x->kind != FL_KX_LOAD) return 1;
  const fl_kvar *of = &b->f->vars[x->var];
  if ((of->kind != FL_KV_POINTER && of->kind != FL_KV_SHARED) || of->is_const) return 1;
  if (x->site < 0 || x->site >= b->d->n_sites0) return 1;
  const fl_kvisitor writes = {see_write, NULL, b};
  const fl_kaccess_at read = {b->s, x->x[0]};
  b->var = x->var;
  b->n_writes = b->bad = 0;
  fl_kwalk_block(&writes, b->loop->body);
  fl_kwalk_block(&writes, b->loop->other);
  for (int i = 0; i < b->n_writes && !b->bad; i++)
    b->bad = !fl_kindex_is_behind(b->k, &read, &b->write[i], b->loop->label);
  if (b->n_writes && !b->bad) b->d->site_behind[x->site] |= (uint64_t)1 << b->loop->label;
  return 1;
}

static void walk(behind *b, fl_kblock body) {
  const fl_kvisitor reads = {NULL, see_read, b};
  const fl_kstmt *const around = b->loop;
  for (fl_kstmt *s = body.first; s && !b->d->a->failed; s = s->next) {
    b->s = s;
    for (int i = 0; around && s->kind != FL_KS_LOOP && i < 4; i++) fl_kwalk_expr(&reads, s->x[i]);
    if (s->kind == FL_KS_LOOP) b->loop = s->label >= 0 && s->label < 64 ? s : NULL;
    walk(b, s->body);
    walk(b, s->other);
    b->loop = around;
  }
}

void fl_kad_behind(fl_kad_state *d, const fl_kfunc *f, const fl_kindices *k) {
  behind b = {.d = d, .f = f, .k = k};
  walk(&b, f->body);
}
