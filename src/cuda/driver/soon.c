/*
** Results that are read soon. A script that reads the loss of each step need not wait for the
** whole step: the reads that follow a plan's runs show which of its small results are read, and
** from then on each of these is copied to the host right after the step that makes it.
*/
#include "cuda/driver/state.h"
#include "base/hooks.h"
#include <string.h>

void fl_soon_forget(fl_cuda *s) {
  for (int i = 0; i < FL_PLAN_READS && !FL_PLANTED(s->ctx, FL_PLANT_SOON); i++)
    s->soon[i].bytes = 0;
}

flame_status fl_soon_send(fl_cuda *s, const fl_plan *p, const fl_binding *b, int32_t i) {
  fl_soon *q = &s->soon[i];
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
  for (int i = 0; i < FL_PLAN_READS && bytes > 0; i++) {
    const fl_soon *q = &s->soon[i];
    if (!is_in(src, bytes, q->from, q->bytes, &at)) continue;
    *e = fl_cuda_wait(s, q->there);
    if (*e == FLAME_OK) memcpy(dst, q->host + at, (size_t)bytes);
    return 1;
  }
  return 0;
}

void fl_soon_ran(fl_cuda *s, fl_plan *p, const fl_binding *b) {
  s->ran.plan = NULL;
  if (p->nread == FL_PLAN_READS || p->nstep < 2) return;
  s->ran.out.n = 0;
  if (!FL_RESERVE(s->mem, &s->ran.out, p->nout)) return;
  if (p->nout) memcpy(s->ran.out.at, b->out, (size_t)p->nout * sizeof *b->out);
  s->ran.out.n = p->nout;
  s->ran.plan = p;
}

void fl_soon_learn(fl_cuda *s, const void *src) {
  fl_plan *p = s->ran.plan;
  int64_t at;
  for (int32_t i = 0; p && i < p->nout; i++) {
    const fl_out *o = &p->out[i];
    if (o->bytes > FL_SOON_BYTES || o->step < 0 || o->step == p->nstep - 1 ||
        !is_in(src, 1, s->ran.out.at[i], o->bytes, &at)) continue;
    for (int32_t k = 0; k < p->nread; k++) if (p->read[k] == i) return;
    if (p->nread < FL_PLAN_READS) p->read[p->nread++] = i;
    return;
  }
}
