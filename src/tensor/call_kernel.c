/*
** Checks a call of a user kernel as far as possible without knowing the kernel: every argument must
** be within an input, the result or the scalars (kernel/function.h has the layout of p[], which the
** binding writes).
*/
#include "tensor/call.h"

enum { ARGS = 9, COUNT = 7, SHARED = 6, BATCH = FL_CALL_PARAMS - 1,
       LARGEST = (FL_CALL_PARAMS - ARGS) / 2 };
enum { NOTHING, IN, OUT, COPY, VALUE, RAW, IN_EACH };

static int arg_fits(const fl_call *c, int64_t bytes, int64_t w, int64_t b) {
  const int64_t a = w >> 3, batch = c->p[BATCH] ? c->p[BATCH] : 1;
  switch (w & 7) {
    case NOTHING: return 1;
    case IN: return a >= 0 && a < c->nin;
    case IN_EACH: return a >= 0 && a < c->nin && c->in_numel[a] % batch == 0;
    case OUT: case RAW:
      return a >= 0 && b >= 0 && a <= bytes && b <= bytes - a && a % batch == 0;
    case COPY: {
      if (a < 0 || a >= c->nin) return 0;
      const int64_t n = c->in_numel[a] * fl_dtype_size(c->in_dtype[a]);
      return b >= 0 && n <= bytes && b <= bytes - n && c->in_numel[a] % batch == 0;
    }
    case VALUE: return a >= 0 && b >= 0 && a <= c->nscalar && (b + 7) / 8 <= c->nscalar - a;
    default: return 0;
  }
}

int fl_call_fits_kernel(const fl_call *c) {
  const int64_t n = c->p[COUNT], bytes = c->numel * fl_dtype_size(c->dtype);
  if (!c->callee || n < 0 || n > LARGEST || c->p[SHARED] < 0 || c->p[BATCH] < 0) return 0;
  for (int i = 0; i < 6; i++) if (c->p[i] < 1 || c->p[i] > INT32_MAX) return 0;
  for (int64_t i = 0; i < n; i++)
    if (!arg_fits(c, bytes, c->p[ARGS + 2 * i], c->p[ARGS + 2 * i + 1])) return 0;
  return 1;
}

int64_t fl_call_prepared_kernel(const fl_call *c) {
  int64_t bytes = 0;
  for (int i = 0; i < c->p[COUNT]; i++) {
    const int64_t w = c->p[ARGS + 2 * i], a = w >> 3;
    if ((w & 7) == OUT) bytes += a;
    if ((w & 7) == COPY) bytes += c->in_numel[a] * fl_dtype_size(c->in_dtype[a]);
  }
  return bytes;
}
