/* Sizes of Fourier transforms (call_fft.h). One dtype, f32 or f64, for input and result. */
#include "tensor/call_fft.h"
#include <string.h>

static const int64_t longest = (int64_t)1 << 40;

int fl_fft_form_of(const fl_call *call, fl_fft_form *f) {
  const int64_t *p = call->p;
  *f = (fl_fft_form){ p[0], p[1], p[2], p[3], p[4], (int)p[5], (int)p[6], (int)p[7],
                      p[8] > 1 ? p[8] : 1 };
  if (p[8] < 0 || p[8] >= longest) return 0;
  if (p[8] > 1 && (p[5] != FL_FFT_COMPLEX || p[1] != p[3] || p[4] != p[3] || p[2] != 1)) return 0;
  return p[0] >= 0 && p[1] >= 0 && p[2] >= 0 && p[3] > 0 && p[3] < longest && p[4] >= 0 &&
         p[5] >= 0 && p[5] <= 2 && p[6] >= 0 && p[6] <= 1 && p[7] >= 0 && p[7] <= 2;
}

void fl_fft_passes(const fl_call *call, fl_call pass[2]) {
  const int64_t *p = call->p, across = p[8], n = p[3];
  pass[0] = pass[1] = *call;
  memcpy(pass[0].p, (int64_t[9]){ p[0], across, n, across, across, p[5], p[6], p[7], 0 },
         9 * sizeof *p);
  memcpy(pass[1].p, (int64_t[9]){ p[0] * across, n, 1, n, n, p[5], p[6], p[7], 0 }, 9 * sizeof *p);
}

int fl_call_fits_fft(const fl_call *k) {
  fl_fft_form f;
  if ((k->dtype != FLAME_F32 && k->dtype != FLAME_F64) || k->nin != 1 || k->in_dtype[0] != k->dtype)
    return 0;
  if (!fl_fft_form_of(k, &f)) return 0;
  const int64_t in = f.mode == FL_FFT_TO_HALF ? 1 : 2, out = f.mode == FL_FFT_FROM_HALF ? 1 : 2;
  return k->in_numel[0] ==
         fl_call_product(5, (int64_t[]){ f.outer, f.across, f.size_in, f.inner, in }) &&
         k->numel == fl_call_product(5, (int64_t[]){ f.outer, f.across, f.size_out, f.inner, out });
}
