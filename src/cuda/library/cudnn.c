/*
** Convolutions by cuDNN (cudnn.h): the graph of one operation (cudnn_graph.h), and the conversion
** of half types to channels last. If no plan can be made, that is not an error: our own kernel does
** the call then.
*/
#include "cuda/library/cudnn_graph.h"
#include "base/num.h"
#include "cuda/compile/module.h"
#include "tensor/call_conv.h"
#include <string.h>

enum { THIN = 8 };
enum { X, W, Y, TENSORS };
static const int64_t IDS[TENSORS] = { 'x', 'w', 'y' };

/* A packed tensor (n, c, the last 'axes' of size), in this order or with channels last. */
static fl_dnn_item new_tensor(fl_dnn_maker *m, int which, int type, int64_t n, int64_t c,
                              const int64_t *size, int axes) {
  int64_t s[5] = { n, c }, stride[5], step = m->p->last ? c : 1;
  memcpy(s + 2, size + 3 - axes, (size_t)axes * sizeof *s);
  for (int i = axes + 1; i >= (m->p->last ? 2 : 0); i--) {
    stride[i] = step;
    step *= s[i];
  }
  if (m->p->last) stride[1] = 1, stride[0] = step;
  return fl_dnn_tensor(m, FL_DNN_STORED, IDS[which], type, axes + 2, s, stride);
}

/* The padding after an axis with which cuDNN's result has our size: the same as before the axis, or
** as much as is needed; -1: no padding gives that size, or the padding before the axis is
** negative. */
static int64_t padding_behind(const fl_conv *v, int a) {
  const int64_t span = v->dil[a] * (v->k[a] - 1) + 1;
  const int64_t needed = (v->out[a] - 1) * v->stride[a] + span - v->in[a] - v->pad[a];
  const int64_t most = needed + v->stride[a] - 1;
  if (v->pad[a] < 0 || most < 0) return -1;
  if (v->pad[a] >= needed && v->pad[a] <= most) return v->pad[a];
  return needed > 0 ? needed : 0;
}

static fl_dnn_item new_convolution(fl_dnn_maker *m, const fl_conv *v, int dtype, int axes) {
  const unsigned type = dtype == FLAME_F64 ? FL_DNN_F64 : FL_DNN_F32,
                 mode = FL_DNN_CROSS_CORRELATION;
  const int64_t n = axes;
  const int first = 3 - axes;
  int64_t behind[3];
  fl_dnn_item d = fl_dnn_new(m, FL_DNN_CONVOLUTION);
  for (int a = 0; a < 3; a++) behind[a] = padding_behind(v, a);
  fl_dnn_set(m, d, FL_DNN_CONV_TYPE, FL_DNN_IS_DTYPE, 1, &type);
  fl_dnn_set(m, d, FL_DNN_CONV_MODE, FL_DNN_IS_CONV_MODE, 1, &mode);
  fl_dnn_set(m, d, FL_DNN_CONV_AXES, FL_DNN_IS_I64, 1, &n);
  fl_dnn_set(m, d, FL_DNN_CONV_PRE, FL_DNN_IS_I64, n, v->pad + first);
  fl_dnn_set(m, d, FL_DNN_CONV_POST, FL_DNN_IS_I64, n, behind + first);
  fl_dnn_set(m, d, FL_DNN_CONV_STRIDES, FL_DNN_IS_I64, n, v->stride + first);
  fl_dnn_set(m, d, FL_DNN_CONV_DILATIONS, FL_DNN_IS_I64, n, v->dil + first);
  fl_dnn_finish(m, d);
  return d;
}

/* The graph of one operation. */
static fl_dnn_item new_graph(fl_dnn_maker *m, fl_dnn_handle h, int kind, const fl_conv *v,
                             int dtype, int axes) {
  const int forward = kind == FL_CALL_conv, data = kind == FL_CALL_conv_data;
  const int alpha = forward ? FL_DNN_FORWARD_ALPHA : data ? FL_DNN_DATA_ALPHA : FL_DNN_FILTER_ALPHA;
  const int type = fl_dnn_type_of(dtype);
  static const double one_d = 1, zero_d = 0;
  static const float one_f = 1, zero_f = 0;
  const int wide = dtype == FLAME_F64, real = wide ? FL_DNN_IS_F64 : FL_DNN_IS_F32;
  fl_dnn_item conv = new_convolution(m, v, dtype, axes),
              x = new_tensor(m, X, type, v->n, v->c, v->in, axes);
  fl_dnn_item w = new_tensor(m, W, type, v->o, v->c / v->groups, v->k, axes);
  fl_dnn_item y = new_tensor(m, Y, type, v->n, v->o, v->out, axes);
  fl_dnn_item op = fl_dnn_new(m, forward ? FL_DNN_FORWARD
                                       : data ? FL_DNN_BACKWARD_DATA : FL_DNN_BACKWARD_FILTER);
  fl_dnn_set(m, op, alpha, real, 1,
      wide ? (const void *)&one_d : &one_f); /* alpha is the first of six consecutive attributes,
                                             ** for each of the three kinds */
  fl_dnn_set(m, op, alpha + 1, real, 1, wide ? (const void *)&zero_d : &zero_f);
  fl_dnn_set(m, op, alpha + 2, FL_DNN_IS_ITEM, 1, &conv);
  fl_dnn_set(m, op, alpha + 3, FL_DNN_IS_ITEM, 1, &w);
  fl_dnn_set(m, op, alpha + 4, FL_DNN_IS_ITEM, 1, &x);
  fl_dnn_set(m, op, alpha + 5, FL_DNN_IS_ITEM, 1, &y);
  fl_dnn_finish(m, op);
  return fl_dnn_graph(m, h, 1, &op);
}

/* ---- plans ---- */

static void make_in_order(fl_dnn *q, fl_dnn_plan *p, const fl_call *c, const fl_conv *v, int last) {
  const int flat = v->in[0] == 1 && v->k[0] == 1 && v->out[0] == 1 && v->pad[0] == 0;
  fl_dnn_maker m = { p, FL_DNN_OK };
  p->last = last;
  fl_dnn_item graph = new_graph(&m, q->handle, c->kind, v, c->dtype, flat ? 2 : 3);
  /* for x's gradient with groups the first proposal takes three times as long as the fallback
  ** (H200, cuDNN 9.19) */
  const int odd = c->kind == FL_CALL_conv_data && c->dtype == FLAME_F32 && v->groups > 1 &&
                  v->groups < v->c, free = (int)c->p[FL_CONV_FREE];
  if (m.error == FL_DNN_OK)
    fl_dnn_choose(&m, q->handle, graph, odd ? FL_DNN_MODE_FALLBACK : FL_DNN_MODE_A, c->dtype, free);
  if (m.error == FL_DNN_OK && !p->plan)
    fl_dnn_choose(&m, q->handle, graph, odd ? FL_DNN_MODE_A : FL_DNN_MODE_FALLBACK, c->dtype, free);
  if (!p->plan) fl_dnn_drop(p);
}

static void make(fl_dnn *q, fl_dnn_plan *p, const fl_call *c, const fl_conv *v) {
  const int64_t size = fl_dtype_size(c->dtype);
  if (fl_dnn_type_of(c->dtype) < 0) return;
  for (int a = 0; a < 3; a++)
    if (padding_behind(v, a) < 0) return;
  if (size == 2 && v->c / v->groups >= THIN && v->o / v->groups >= THIN)
    make_in_order(q, p, c, v, 1);
  if (!p->plan) make_in_order(q, p, c, v, 0);
  if (!p->plan || !p->last) return;
  const int64_t in = fl_volume3(v->in), k = fl_volume3(v->k), out = fl_volume3(v->out);
  if (in > 1 && v->c > 1) p->bytes[X] = fl_round_up(v->n * v->c * in * size, 256);
  if (k > 1 && v->c > v->groups)
    p->bytes[W] = fl_round_up(v->o * (v->c / v->groups) * k * size, 256);
  if (out > 1 && v->o > 1) p->bytes[Y] = fl_round_up(v->n * v->o * out * size, 256);
}

const fl_dnn_plan *fl_dnn_find(fl_cuda *s, const fl_call *c) {
  fl_conv v;
  fl_dnn_plan *p;
  if (!fl_conv_read(c, &v)) return NULL;
  if (fl_dnn_kept(s, c, &p) && p) make(s->dnn, p, c, &v);
  return p && p->plan ? p : NULL;
}

int fl_dnn_turns(const fl_dnn_plan *p) { return p->last; }
int64_t fl_dnn_space(const fl_dnn_plan *p) {
  return fl_round_up(p->space, 256) + p->bytes[X] + p->bytes[W] + p->bytes[Y];
}

/* ---- running ---- */

/* Transposes 'count' matrices of rows x cols of 16 bits. */
static flame_status turn(fl_cuda *s, const void *from, void *to, int64_t count, int64_t rows,
                         int64_t cols) {
  const int64_t tiles = count * ((rows + 63) / 64) * ((cols + 63) / 64);
  fl_cu_function f;
  const flame_status e = fl_cuda_file_entry(s, "turn.cu", "", 0, "turn", &f);
  if (e != FLAME_OK) return e;
  void *params[] = { &from, &to, &count, &rows, &cols };
  return fl_cuda_launch(s, f,
                        (const unsigned[]){ (unsigned)(tiles < INT32_MAX ? tiles : INT32_MAX), 1,
                                            1 },
                        (const unsigned[]){ 256, 1, 1 }, 0, params);
}

/* Converts tensor 'which' to channels last, or back. */
static flame_status turn_tensor(fl_cuda *s, const fl_conv *v, int which, const void *from, void *to,
                                int back) {
  const int64_t count = which == W ? v->o : v->n, channels = which == X   ? v->c
                                                             : which == W ? v->c / v->groups
                                                                          : v->o;
  const int64_t places = fl_volume3(which == X ? v->in : which == W ? v->k : v->out);
  return back ? turn(s, from, to, count, places, channels)
              : turn(s, from, to, count, channels, places);
}

/* Puts the inputs into the plan's layout. copy: to be released afterwards. */
static flame_status arrange(fl_cuda *s, const fl_dnn_plan *p, const fl_call_run *r, int result,
                            void *at[TENSORS], void *copy[TENSORS]) {
  char *room = (char *)r->scratch + fl_round_up(p->space, 256);
  fl_conv v;
  flame_status e = FLAME_OK;
  if (!fl_conv_read(r->call, &v)) return FLAME_OK;
  const int64_t size = fl_dtype_size(r->call->dtype),
                numel[TENSORS] = { [X] = v.n * v.c * fl_volume3(v.in),
                                   [W] = v.o * (v.c / v.groups) * fl_volume3(v.k),
                                   [Y] = v.n * v.o * fl_volume3(v.out) };
  for (int i = 0; i < TENSORS && e == FLAME_OK; i++) {
    if (p->bytes[i]) {
      if (i != result) e = turn_tensor(s, &v, i, at[i], room, 0);
      at[i] = room;
      room += p->bytes[i];
    } else if (i != result) {
      e = fl_dnn_align(s, &at[i], numel[i] * size, &copy[i], "conv");
    }
  }
  return e;
}

flame_status fl_dnn_run(fl_cuda *s, const fl_dnn_plan *p, const fl_call_run *r) {
  const int kind = r->call->kind,
            result = kind == FL_CALL_conv ? Y : kind == FL_CALL_conv_data ? X : W;
  void *at[TENSORS] = { [X] = kind == FL_CALL_conv ? r->in[0] : kind == FL_CALL_conv_data
                        ? r->out : r->in[1],
                        [W] = kind == FL_CALL_conv_weight ? r->out : r->in[1],
                        [Y] = kind == FL_CALL_conv ? r->out : r->in[0] };
  void *copy[TENSORS] = { NULL };
  fl_conv v;
  fl_dnn_status done = FL_DNN_OK;
  if (!fl_conv_read(r->call, &v)) return FLAME_OK;
  flame_status e = arrange(s, p, r, result, at, copy);
  if (e == FLAME_OK) done = fl_dnn_execute(s, p, TENSORS, IDS, at, r->scratch);
  for (int i = 0; i < TENSORS; i++)
    if (copy[i]) fl_cuda_release(s, copy[i]);
  if (e != FLAME_OK) return e;
  if (done == FL_DNN_OK)
    return p->bytes[result] ? turn_tensor(s, &v, result, at[result], r->out, 1) : FLAME_OK;
  return fl_dnn_failed(s, r->call->what, done);
}
