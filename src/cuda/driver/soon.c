/*
** Results that are read soon after a run. A script that reads the loss of each step need not wait
** for the whole step, nor for the runs that come between (an average of the weights, new values
** that processes gather): the reads that follow a plan's runs show which of its small results are
** read, and from then on each of these is copied to the host right after the step that makes it.
*/
#include "cuda/driver/state.h"
#include "base/hooks.h"
#include <string.h>

void fl_soon_forget(fl_cuda *s, const void *at, int64_t bytes) {
  const uintptr_t a = (uintptr_t)at;
  for (int i = 0; i < FL_SOON_SLOTS && !FL_PLANTED(s->ctx, FL_PLANT_SOON); i++) {
    fl_soon *q = &s->soon[i];
    const uintptr_t b = (uintptr_t)q->from;
    if (q->bytes && a < b + (uintptr_t)q->bytes && b < a + (uintptr_t)bytes) q->bytes = 0;
  }
}

void fl_soon_forget_all(fl_cuda *s) {
  for (int i = 0; i < FL_SOON_SLOTS; i++) s->soon[i].bytes = 0;
}

void fl_soon_begin(fl_cuda *s, const fl_plan *p, const fl_binding *b) {
  int any = 0;
  for (int i = 0; i < FL_SOON_SLOTS; i++) any |= s->soon[i].bytes != 0;
  for (int32_t i = 0; any && i < p->nout; i++) fl_soon_forget(s, b->out[i], p->out[i].bytes);
  if (any) fl_soon_forget(s, b->arena, p->arena_bytes);
}

flame_status fl_soon_send(fl_cuda *s, const fl_plan *p, const fl_binding *b, int32_t i) {
  fl_soon *q = &s->soon[s->soon_turn++ % FL_SOON_SLOTS];
  const void *src = b->out[p->read[i]];
  const int64_t bytes = p->out[p->read[i]].bytes;
  q->bytes = 0;
  flame_status e = fl_cuda_check(s, s->cu->CopyOut(q->host, (fl_cu_ptr)(uintptr_t)src,
                                                   (size_t)bytes, s->stream),
                                 "cuMemcpyDtoHAsync");
  if (e == FLAME_OK) e = fl_cuda_check(s, s->cu->EventRecord(q->there, s->stream), "cuEventRecord");
  if (e != FLAME_OK) return e;
  q->from = src;
  q->bytes = bytes;
  return FLAME_OK;
}

/* Are the bytes at 'src' within those at 'from'? *at: their offset. */
static int is_in(const void *src, int64_t bytes, const void *from, int64_t room, int64_t *at) {
  const uintptr_t a = (uintptr_t)src, b = (uintptr_t)from;
  if (bytes > room || a < b || a - b > (uintptr_t)(room - bytes)) return 0;
  *at = (int64_t)(a - b);
  return 1;
}

int fl_soon_take(fl_cuda *s, void *dst, const void *src, int64_t bytes, flame_status *e) {
  int64_t at;
  for (int i = 0; i < FL_SOON_SLOTS && bytes > 0; i++) {
    const fl_soon *q = &s->soon[i];
    if (!is_in(src, bytes, q->from, q->bytes, &at)) continue;
    *e = fl_cuda_wait(s, q->there);
    if (*e == FLAME_OK) memcpy(dst, q->host + at, (size_t)bytes);
    return 1;
  }
  return 0;
}

void fl_soon_ran(fl_cuda *s, fl_plan *p, const fl_binding *b) {
  fl_ran *r = &s->ran[s->ran_turn++ % FL_SOON_RUNS];
  r->plan = NULL;
  r->out.n = 0;
  if (!FL_RESERVE(s->mem, &r->out, p->nout)) return;
  if (p->nout) memcpy(r->out.at, b->out, (size_t)p->nout * sizeof *b->out);
  r->out.n = p->nout;
  r->plan = p;
}

void fl_soon_freed(fl_cuda *s, const fl_plan *p) {
  for (int i = 0; i < FL_SOON_RUNS; i++) if (s->ran[i].plan == p) s->ran[i].plan = NULL;
}

/* Is the address in the result? */
static int holds(const fl_out *o, const void *at, const void *src) {
  int64_t byte;
  return o->step >= 0 && is_in(src, 1, at, o->bytes, &byte);
}

/* Notes that result i of the plan is read. */
static void learn(fl_plan *p, int32_t i) {
  for (int32_t k = 0; k < p->nread; k++) if (p->read[k] == i) return;
  if (p->nread < FL_PLAN_READS) p->read[p->nread++] = i;
}

void fl_soon_learn(fl_cuda *s, const void *src) {
  for (uint32_t k = 1; k <= FL_SOON_RUNS; k++) {            /* the newest first */
    const fl_ran *r = &s->ran[(s->ran_turn - k) % FL_SOON_RUNS];
    for (int32_t i = 0; r->plan && i < r->plan->nout; i++) {
      const fl_out *o = &r->plan->out[i];
      if (!holds(o, r->out.at[i], src)) continue;
      /* a result of the newest run's last step is not copied early: no work comes after it */
      if (o->bytes <= FL_SOON_BYTES && (k > 1 || o->step < r->plan->nstep - 1)) learn(r->plan, i);
      return;
    }
  }
}
