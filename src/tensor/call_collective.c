/*
** Collectives: do sizes fit (call_collective.h)? Memory safety depends on it.
*/
#include "tensor/call_collective.h"

/* How many elements the array must have for a result of k->numel elements; -1: any number; -2: no
** number fits. */
static int64_t array_of(const fl_call *k) {
  const int64_t n = k->p[FL_COLLECT_RANKS];
  int64_t out;
  switch (k->p[FL_COLLECT_WHAT]) {
    case FL_COLLECT_ALL_REDUCE: case FL_COLLECT_BROADCAST: return k->numel;
    case FL_COLLECT_ALL_TO_ALL: return k->numel % n ? -2 : k->numel;
    case FL_COLLECT_ALL_GATHER: return k->numel % n ? -2 : k->numel / n;
    case FL_COLLECT_REDUCE_SCATTER: return __builtin_mul_overflow(n, k->numel, &out) ? -2 : out;
    case FL_COLLECT_SEND: return k->numel ? -2 : -1;
    default: return -2;                                          /* has no array */
  }
}

int fl_call_fits_collective(const fl_call *k) {
  const int64_t *p = k->p, what = p[FL_COLLECT_WHAT], n = p[FL_COLLECT_RANKS];
  const int alone = what == FL_COLLECT_BARRIER || what == FL_COLLECT_RECEIVE;
  if (what < 0 || what >= FL_COLLECT_COUNT || n < 1 || p[FL_COLLECT_PEER] < 0 ||
      p[FL_COLLECT_PEER] >= n || p[FL_COLLECT_REDUCE] < 0 ||
      p[FL_COLLECT_REDUCE] >= FL_REDUCE_COUNT) return 0;
  if (p[FL_COLLECT_NDIM] < 0 || p[FL_COLLECT_NDIM] > FL_MAX_AXES) return 0;
  if (p[FL_COLLECT_ARRAYS] != !alone || k->nin < !alone || k->nin > !alone + 1) return 0;
  if (alone) return what == FL_COLLECT_RECEIVE || k->numel == 0;
  const int64_t want = array_of(k);
  return k->in_dtype[0] == k->dtype && (want == -1 || want == k->in_numel[0]);
}
