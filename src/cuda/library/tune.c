/* Timing several ways to compute one result: see tune.h. */
#include "cuda/library/tune.h"
#include <string.h>

enum { ROUNDS = 5 };
static const float HOPELESS = 1.3f;     /* a way to compute the result that is slower by this factor
                                        ** in the first round is not run again */
static const float WINS = 0.97f;        /* a way is taken in place of way 0 only below this share of
                                        ** its time */

typedef struct tuning {
  fl_cu_event from, to;
  float ms[FL_TUNE_MOST][ROUNDS];
  uint8_t out[FL_TUNE_MOST];            /* it failed, or is too slow */
} tuning;

static flame_status time_way(fl_cuda *s, tuning *t, fl_tune_way way, void *arg, int i, float *ms) {
  flame_status e = fl_cuda_check(s, s->cu->EventRecord(t->from, s->stream), "cuEventRecord");
  if (e == FLAME_OK) e = way(s, arg, i);
  if (e == FLAME_OK)
    e = fl_cuda_check(s, s->cu->EventRecord(t->to, s->stream), "cuEventRecord");
  if (e == FLAME_OK) e = fl_cuda_wait(s, t->to);
  if (e == FLAME_OK)
    e = fl_cuda_check(s, s->cu->EventElapsed(ms, t->from, t->to), "cuEventElapsedTime");
  return e;
}

/* Runs all ways to compute the result that are left, once. round -1: only loads their code, without
** timing. */
static flame_status run_round(fl_cuda *s, tuning *t, int n, fl_tune_way way, void *arg, int round) {
  for (int i = 0; i < n; i++) {
    const fl_error before = s->ctx->err;
    float ms = 0;
    if (t->out[i]) continue;
    const flame_status e = time_way(s, t, way, arg, i, &ms);
    if (e == FLAME_INTERRUPTED || s->dead || (e != FLAME_OK && i == 0)) return e;
    if (e != FLAME_OK) {
      s->ctx->err = before;
      t->out[i] = 1;
    } else if (round >= 0) t->ms[i][round] = ms;
  }
  return FLAME_OK;
}

static void drop_hopeless(tuning *t, int n) {
  float least = t->ms[0][0];
  for (int i = 1; i < n; i++) if (!t->out[i] && t->ms[i][0] < least) least = t->ms[i][0];
  for (int i = 1; i < n; i++) t->out[i] |= t->ms[i][0] > HOPELESS * least;
}

static float median(float *x) {
  for (int i = 1; i < ROUNDS; i++)
    for (int j = i; j > 0 && x[j] < x[j - 1]; j--) {
      const float y = x[j];
      x[j] = x[j - 1];
      x[j - 1] = y;
    }
  return x[ROUNDS / 2];
}

static int fastest(tuning *t, int n) {
  const float first = median(t->ms[0]);
  float least = WINS * first;
  int best = 0;
  for (int i = 1; i < n; i++) {
    if (t->out[i]) continue;
    const float ms = median(t->ms[i]);
    if (ms >= least) continue;
    least = ms;
    best = i;
  }
  return best;
}

flame_status fl_tune(fl_cuda *s, int n, fl_tune_way way, void *arg, int *best) {
  tuning t;
  memset(&t, 0, sizeof t);
  *best = 0;
  flame_status e = fl_cuda_check(s, s->cu->EventCreate(&t.from, 0), "cuEventCreate");
  if (e != FLAME_OK) return e;
  e = fl_cuda_check(s, s->cu->EventCreate(&t.to, 0), "cuEventCreate");
  for (int round = -1; round < ROUNDS && e == FLAME_OK; round++) {
    e = run_round(s, &t, n, way, arg, round);
    if (round == 0) drop_hopeless(&t, n);
  }
  if (e == FLAME_OK) *best = fastest(&t, n);
  if (t.to) s->cu->EventDestroy(t.to);
  s->cu->EventDestroy(t.from);
  return e;
}
