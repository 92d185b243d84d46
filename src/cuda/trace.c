/*
** Times of the steps of one run, while a profile is on: two events around each step, read once
** all of them have passed. The events are created for the run and destroyed with it; after a
** failure only times are missing.
*/
#include "cuda/run.h"
#include "cuda/replay.h"
#include <string.h>

struct fl_marks {
  fl_cu_event *at;               /* before and after each step; NULL: not made */
  int32_t n;
  double *host;                  /* fl_trace_now, at the same places */
  double start;                  /* of the run, fl_trace_now */
};

fl_marks *fl_marks_open(fl_cuda *s, int32_t nstep) {
  fl_marks *m = fl_zalloc(s->mem, sizeof *m);
  if (m == NULL) return NULL;
  m->n = 2 * nstep;
  m->at = fl_zalloc(s->mem, sizeof *m->at * (size_t)(m->n + 1));
  m->host = fl_zalloc(s->mem, sizeof *m->host * (size_t)(m->n + 1));
  int made = m->at != NULL && m->host != NULL;
  for (int32_t i = 0; made && i < m->n; i++) made = s->cu->EventCreate(&m->at[i], 0) == FL_CU_OK;
  m->start = fl_trace_now();
  if (made) return m;
  fl_marks_close(s, m);
  return NULL;
}

void fl_marks_set(fl_cuda *s, fl_marks *m, int32_t step, int behind) {
  if (m == NULL) return;
  m->host[2 * step + behind] = fl_trace_now();
  s->cu->EventRecord(m->at[2 * step + behind], s->stream);
}

/* Events give floats, so a step may seem to begin before the previous one ends; that is
** corrected. */
void fl_marks_tell(fl_device *d, fl_marks *m, const fl_plan *p, int32_t done) {
  const fl_cuda *s = d->state;
  double end = 0;
  if (m == NULL || s->cu->StreamSynchronize(s->stream) != FL_CU_OK) return;
  for (int32_t i = 0; i < done; i++) {
    float from = 0, ms = 0;
    if (s->cu->EventElapsed(&from, m->at[0], m->at[2 * i]) != FL_CU_OK) return;
    if (s->cu->EventElapsed(&ms, m->at[2 * i], m->at[2 * i + 1]) != FL_CU_OK) return;
    const double start = m->start + (double)from, host = m->host[2 * i];
    const fl_timing w = { start > end ? start : end, (double)ms, host, m->host[2 * i + 1] - host,
                          fl_replay_has(p) };
    d->trace->step(d->trace, d, p, i, &w);
    end = w.start + w.ms;
  }
}

void fl_marks_close(fl_cuda *s, fl_marks *m) {
  if (m == NULL) return;
  for (int32_t i = 0; m->at && i < m->n; i++) if (m->at[i]) s->cu->EventDestroy(m->at[i]);
  fl_free(s->mem, m->host, sizeof *m->host * (size_t)(m->n + 1));
  fl_free(s->mem, m->at, sizeof *m->at * (size_t)(m->n + 1));
  fl_free(s->mem, m, sizeof *m);
}
