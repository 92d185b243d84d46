/*
** Sizes and dtypes of the scans, and of sums over several arrays. The scans treat in[0] as (outer,
** n, inner) and scan along n.
*/
#include "tensor/call.h"
#include "tensor/dtype.h"

static int flag(int64_t v) { return v == 0 || v == 1; }

static int sizes_fit(const fl_call *call, int inputs) {
  const int64_t n = fl_call_product(3, call->p);
  if (n < 0 || call->nin != inputs || call->numel != n) return 0;
  for (int i = 0; i < inputs; i++) if (call->in_numel[i] != n) return 0;
  return 1;
}

/* p: [outer n inner op reverse]; op 0: sum, 1: product, 2: log-sum-exp */
int fl_call_fits_scan(const fl_call *call) {
  const int dtype = call->in_dtype[0], real = fl_is_float(dtype);
  return sizes_fit(call, 1) && call->dtype == (real ? dtype : FLAME_I64) && flag(call->p[4]) &&
         call->p[3] >= 0 && call->p[3] <= (real ? 2 : 1);
}

/* p: [outer n inner least values]. Running minimum (least) or maximum; the result is its values, or
** else its positions. For values the positions may be given as an input. */
int fl_call_fits_extreme(const fl_call *call) {
  const int placed = call->nin == 2 && call->p[4] == 1 && call->in_dtype[1] == FLAME_I64;
  return sizes_fit(call, placed ? 2 : 1) && flag(call->p[3]) && flag(call->p[4]) &&
         call->dtype == (call->p[4] ? call->in_dtype[0] : FLAME_I64);
}

/* [what joined root]; what: 0: squares, 1: magnitudes, 2: the largest magnitude */
int fl_call_fits_power_sum(const fl_call *call) {
  int fits = call->nin > 0 && call->numel == 1 && call->p[0] >= 0 && call->p[0] <= 2 &&
             flag(call->p[1]) && flag(call->p[2]), wide = 0;
  for (int i = 0; fits && i < call->nin; i++) {
    fits = fl_is_float(call->in_dtype[i]);
    wide |= call->in_dtype[i] == FLAME_F64;
  }
  return fits && call->dtype == (wide ? FLAME_F64 : FLAME_F32);
}

/* [outer n inner reverse] */
int fl_call_fits_recurrence(const fl_call *call) {
  return sizes_fit(call, 2) && fl_is_float(call->dtype) && call->in_dtype[0] == call->dtype &&
         call->in_dtype[1] == call->dtype && flag(call->p[3]);
}
