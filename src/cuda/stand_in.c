/*
** Stand-ins: memory for inputs that are at another address in each run (the batches of an array,
** one after another), and whose addresses graphs hold. Once runs with ever new addresses have shown
** which these are, an input is copied to its stand-in before each run, and the run reads that.
** Inputs that the plan writes, and large ones, have none. Owned by the plan's replay data.
*/
#include "cuda/recording.h"
#include <string.h>

/* FRESH: after more runs than this, one after another, whose addresses were all new, inputs get
** stand-ins. MOST: bytes of the largest such input (it is copied in the time of few launches); ALL:
** bytes of all stand-ins of a plan. */
enum { FRESH = 3, MOST = 16 << 20, ALL = 64 << 20 };

/* The bytes that x's elements lie in; *low: the first, counted from x's first element. */
static int64_t reach(const fl_node *x, int64_t *low) {
  const int64_t size = fl_dtype_size(x->dtype);
  const fl_layout *y = x->layout;
  int64_t high = 0;
  *low = 0;
  for (int i = 0; i < y->rank; i++) {
    const int64_t far = (y->size[i] - 1) * y->stride[i] * size;
    if (far < 0) *low += far; else high += far;
  }
  return y->numel ? high - *low + size : 0;
}

flame_status fl_stand_ins_use(fl_cuda *s, fl_replay *r, const fl_plan *p, fl_binding *b) {
  flame_status e = FLAME_OK;
  if (r->stand_ins.n == 0) return e;
  memcpy(r->ext, b->ext, (size_t)p->next * sizeof *r->ext);
  for (int64_t i = 0; i < r->stand_ins.n && e == FLAME_OK; i++) {
    const fl_stand_in *x = &r->stand_ins.at[i];
    e = fl_cuda_check(s, s->cu->CopyOn((fl_cu_ptr)(uintptr_t)x->at,
                                       (fl_cu_ptr)((uintptr_t)b->ext[x->ext] + (uintptr_t)x->low),
                                       (size_t)x->bytes, s->stream), "cuMemcpyDtoDAsync");
    r->ext[x->ext] = (char *)x->at - x->low;
  }
  b->ext = r->ext;
  return e;
}

static int has_stand_in(const fl_replay *r, int32_t ext) {
  for (int64_t i = 0; i < r->stand_ins.n; i++) if (r->stand_ins.at[i].ext == ext) return 1;
  return 0;
}

/* Gives input 'ext' a stand-in, if it may have one and there is memory. */
static int add(fl_cuda *s, fl_replay *r, const fl_plan *p, int32_t ext, const fl_node *x) {
  fl_stand_in y = { .ext = ext };
  y.bytes = reach(x, &y.low);
  if (has_stand_in(r, ext) || p->ext[ext].home >= 0 || y.bytes == 0 || y.bytes > MOST ||
      y.bytes > ALL - r->stood) return 0;
  if (!r->ext) r->ext = fl_alloc(r->mem, (size_t)p->next * sizeof *r->ext);
  if (!r->ext || fl_cuda_reserve(s, &y.at, y.bytes, "an input's copy") != FLAME_OK) return 0;
  fl_stand_in *at = FL_PUSH(r->mem, &r->stand_ins);
  if (!at) {
    fl_cuda_release(s, y.at);
    return 0;
  }
  *at = y;
  r->stood += y.bytes;
  return 1;
}

void fl_stand_ins_learn(fl_cuda *s, fl_replay *r, const fl_plan *p, const fl_binding *b,
                        int known) {
  const fl_error before = s->ctx->err;
  if (known || !r->was.address) r->fresh = 0;
  if (known || !b->program || ++r->fresh <= FRESH) return;
  for (int64_t k = 0; k < r->frozen.n; k++) {
    const int32_t ext = r->frozen.at[k];
    if (ext >= 0 && r->was.address && r->was.address[k] != b->ext[ext] &&
        add(s, r, p, ext, b->program->ext.at[ext])) r->fresh = 0;
  }
  if (!s->dead) s->ctx->err = before;
}

void fl_stand_ins_free(fl_replay *r, int driver) {
  for (int64_t i = 0; driver && i < r->stand_ins.n; i++)
    fl_cuda_release(r->s, r->stand_ins.at[i].at);
  r->stand_ins.n = 0;
  r->stood = 0;
}
