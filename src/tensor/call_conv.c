/* Checks of convolutions (call_conv.h): do sizes and dtypes agree with the integers? */
#include "tensor/call_conv.h"
#include <string.h>

enum { FAR = 1 << 30 }; /* bound of every step, padding and kernel size */

static int between(const int64_t *v, int n, int64_t low, int64_t high) {
  for (int i = 0; i < n; i++)
    if (v[i] < low || v[i] > high) return 0;
  return 1;
}

/* Reads 'in k out stride pad dilation' at p, and checks that they are in range, so that index
** arithmetic stays in int64_t. */
static int read_axes(const int64_t *p, int64_t *in) {
  memcpy(in, p, 18 * sizeof *p);
  return between(p, 3, 0, INT64_MAX / 4) && between(p + 3, 3, 1, FAR) &&
         between(p + 6, 3, 0, INT64_MAX / 4) && between(p + 9, 3, 1, FAR) &&
         between(p + 12, 3, -FAR, FAR) && between(p + 15, 3, 1, FAR);
}

/* Are the positions i * stride and k * dilation small enough that nothing overflows? */
static int moderate(const int64_t *out, const int64_t *k, const int64_t *stride,
                    const int64_t *dil) {
  for (int a = 0; a < 3; a++)
    if (out[a] > (INT64_MAX / 8) / stride[a] || k[a] > (INT64_MAX / 8) / dil[a]) return 0;
  return 1;
}

int fl_conv_read(const fl_call *call, fl_conv *s) {
  const int64_t *p = call->p;
  *s = (fl_conv){ .n = p[0], .c = p[1], .o = p[2], .groups = p[3] };
  return between(p, 3, 0, INT64_MAX / 4) && between(p + FL_CONV_FREE, 1, 0, 1) && s->groups >= 1 &&
         s->c % s->groups == 0 && s->o % s->groups == 0 && read_axes(p + 4, s->in) &&
         moderate(s->out, s->k, s->stride, s->dil);
}

int fl_pooling_read(const fl_call *call, fl_pooling *s) {
  const int64_t *p = call->p;
  *s = (fl_pooling){ .planes = p[0], .adaptive = p[19], .include_pad = p[20], .divisor = p[21] };
  if (p[0] < 0 || !read_axes(p + 1, s->in) || !moderate(s->out, s->k, s->stride, s->dil)) return 0;
  return between(p + 19, 2, 0, 1) && between(s->in, 3, 0, FAR) && between(s->out, 3, 0, FAR);
}

static int64_t size_of(int64_t a, int64_t b, const int64_t s[3]) {
  return fl_call_product(5, (const int64_t[]){ a, b, s[0], s[1], s[2] });
}
static int64_t x_size(const fl_conv *s) { return size_of(s->n, s->c, s->in); }
static int64_t w_size(const fl_conv *s) { return size_of(s->o, s->c / s->groups, s->k); }
static int64_t y_size(const fl_conv *s) { return size_of(s->n, s->o, s->out); }

/* Are the two inputs and the result of one dtype and of these sizes (-1: overflow)? */
static int agree(const fl_call *call, int64_t out, int64_t a, int64_t b) {
  return call->nin == 2 && call->in_dtype[0] == call->dtype && call->in_dtype[1] == call->dtype &&
         call->dtype != FLAME_BOOL && out >= 0 && a >= 0 && b >= 0 && call->numel == out &&
         call->in_numel[0] == a && call->in_numel[1] == b;
}

int fl_call_fits_conv(const fl_call *call) {
  fl_conv s;
  return fl_conv_read(call, &s) && agree(call, y_size(&s), x_size(&s), w_size(&s));
}

int fl_call_fits_conv_data(const fl_call *call) {
  fl_conv s;
  return fl_conv_read(call, &s) && agree(call, x_size(&s), y_size(&s), w_size(&s));
}

int fl_call_fits_conv_weight(const fl_call *call) {
  fl_conv s;
  return fl_conv_read(call, &s) && fl_is_float(call->dtype) &&
         agree(call, w_size(&s), y_size(&s), x_size(&s));
}
