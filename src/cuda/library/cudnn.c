/*
** Convolutions by cuDNN's graph API (cudnn.h). The handle and the kept plans are the device's. A
** plan is the first engine, in the order of cuDNN's heuristics, that is exact, deterministic unless
** the call says otherwise, and can be made. That none can be made is no error: the call then goes
** to our own kernel.
*/
#include "cuda/library/cudnn.h"
#include "base/hash.h"
#include "cuda/compile/module.h"
#include "base/num.h"
#include "base/signals.h"
#include <string.h>

enum { KEPT_MAX = 1024, BINS = 64, CONFIGS = 64, NOTES = 16, ITEMS = 8, ALIGNMENT = 16, THIN = 8 };
enum { X, W, Y, TENSORS };
static const int64_t SPACE_MAX = 1ll << 30;
static const int64_t IDS[TENSORS] = { 'x', 'w', 'y' };

struct fl_dnn_plan {
  struct fl_dnn_plan *next;
  const fl_cudnn *lib;
  int64_t key[25]; /* kind, dtype, the call's integers */
  fl_dnn_item item[ITEMS]; /* what the plan was made of, and may refer to */
  int items;
  fl_dnn_item plan; /* NULL: there is none */
  int64_t space; /* cuDNN's own workspace */
  int last; /* tensors are turned to channels last */
  int64_t bytes[TENSORS]; /* of each, turned; 0: has no order to turn */
};

typedef struct fl_dnn {
  const fl_cudnn *lib;
  fl_dnn_handle handle; /* NULL: cuDNN is not there */
  fl_dnn_plan *bin[BINS];
  int64_t n;
} fl_dnn;

/* ---- descriptors: each step does nothing once one has failed ---- */

typedef struct maker {
  fl_dnn_plan *p;
  fl_dnn_status error;
} maker;

static fl_dnn_item new_item(maker *m, int kind) {
  fl_dnn_item d = NULL;
  if (m->error == FL_DNN_OK)
    m->error = m->p->lib->cudnnBackendCreateDescriptor((fl_dnn_kind)kind, &d);
  if (m->error != FL_DNN_OK) return NULL;
  m->p->item[m->p->items++] = d;
  return d;
}

static void set(maker *m, fl_dnn_item d, int name, int type, int64_t n, const void *values) {
  if (m->error == FL_DNN_OK)
    m->error = m->p->lib->cudnnBackendSetAttribute(d, (fl_dnn_name)name, (fl_dnn_type)type,
                                                   n, values);
}
static void finish(maker *m, fl_dnn_item d) {
  if (m->error == FL_DNN_OK) m->error = m->p->lib->cudnnBackendFinalize(d);
}

static int type_of(int dtype) {
  switch (dtype) {
  case FLAME_F64: return FL_DNN_F64;
  case FLAME_F32: return FL_DNN_F32;
  case FLAME_F16: return FL_DNN_F16;
  case FLAME_BF16: return FL_DNN_BF16;
  default: return -1;
  }
}

/* A packed tensor (n, c, the last 'axes' of size), in this order or with channels last. */
static fl_dnn_item new_tensor(maker *m, int which, unsigned type, int64_t n, int64_t c,
                              const int64_t *size, int axes) {
  int64_t s[5] = { n, c }, stride[5], step = m->p->last ? c : 1;
  const int64_t alignment = ALIGNMENT;
  fl_dnn_item d = new_item(m, FL_DNN_TENSOR);
  memcpy(s + 2, size + 3 - axes, (size_t)axes * sizeof *s);
  for (int i = axes + 1; i >= (m->p->last ? 2 : 0); i--) {
    stride[i] = step;
    step *= s[i];
  }
  if (m->p->last) stride[1] = 1, stride[0] = step;
  set(m, d, FL_DNN_TENSOR_TYPE, FL_DNN_IS_DTYPE, 1, &type);
  set(m, d, FL_DNN_TENSOR_SIZES, FL_DNN_IS_I64, axes + 2, s);
  set(m, d, FL_DNN_TENSOR_STRIDES, FL_DNN_IS_I64, axes + 2, stride);
  set(m, d, FL_DNN_TENSOR_ID, FL_DNN_IS_I64, 1, &IDS[which]);
  set(m, d, FL_DNN_TENSOR_ALIGNMENT, FL_DNN_IS_I64, 1, &alignment);
  finish(m, d);
  return d;
}

/* Padding behind an axis that makes cuDNN's size of the result ours: the same as before it, or
** what is needed; -1: there is none. */
static int64_t padding_behind(const fl_conv *v, int a) {
  const int64_t span = v->dil[a] * (v->k[a] - 1) + 1;
  const int64_t needed = (v->out[a] - 1) * v->stride[a] + span - v->in[a] - v->pad[a];
  const int64_t most = needed + v->stride[a] - 1;
  if (v->pad[a] < 0 || most < 0) return -1;
  if (v->pad[a] >= needed && v->pad[a] <= most) return v->pad[a];
  return needed > 0 ? needed : 0;
}

static fl_dnn_item new_convolution(maker *m, const fl_conv *v, int dtype, int axes) {
  const unsigned type = dtype == FLAME_F64 ? FL_DNN_F64 : FL_DNN_F32,
                 mode = FL_DNN_CROSS_CORRELATION;
  const int64_t n = axes;
  const int first = 3 - axes;
  int64_t behind[3];
  fl_dnn_item d = new_item(m, FL_DNN_CONVOLUTION);
  for (int a = 0; a < 3; a++) behind[a] = padding_behind(v, a);
  set(m, d, FL_DNN_CONV_TYPE, FL_DNN_IS_DTYPE, 1, &type);
  set(m, d, FL_DNN_CONV_MODE, FL_DNN_IS_CONV_MODE, 1, &mode);
  set(m, d, FL_DNN_CONV_AXES, FL_DNN_IS_I64, 1, &n);
  set(m, d, FL_DNN_CONV_PRE, FL_DNN_IS_I64, n, v->pad + first);
  set(m, d, FL_DNN_CONV_POST, FL_DNN_IS_I64, n, behind + first);
  set(m, d, FL_DNN_CONV_STRIDES, FL_DNN_IS_I64, n, v->stride + first);
  set(m, d, FL_DNN_CONV_DILATIONS, FL_DNN_IS_I64, n, v->dil + first);
  finish(m, d);
  return d;
}

/* The graph of one operation. */
static fl_dnn_item new_graph(maker *m, fl_dnn_handle h, int kind, const fl_conv *v, int dtype,
                             int axes) {
  const int forward = kind == FL_CALL_conv, data = kind == FL_CALL_conv_data;
  const int alpha = forward ? FL_DNN_FORWARD_ALPHA : data ? FL_DNN_DATA_ALPHA : FL_DNN_FILTER_ALPHA;
  const unsigned type = (unsigned)type_of(dtype);
  static const double one_d = 1, zero_d = 0;
  static const float one_f = 1, zero_f = 0;
  /* read as they are */
  const int wide = dtype == FLAME_F64, real = wide ? FL_DNN_IS_F64 : FL_DNN_IS_F32;
  fl_dnn_item conv = new_convolution(m, v, dtype, axes),
              x = new_tensor(m, X, type, v->n, v->c, v->in, axes);
  fl_dnn_item w = new_tensor(m, W, type, v->o, v->c / v->groups, v->k, axes);
  fl_dnn_item y = new_tensor(m, Y, type, v->n, v->o, v->out, axes);
  fl_dnn_item op = new_item(m, forward ? FL_DNN_FORWARD
                                       : data ? FL_DNN_BACKWARD_DATA : FL_DNN_BACKWARD_FILTER);
  set(m, op, alpha, real, 1,
      wide ? (const void *)&one_d : &one_f); /* attributes of all three follow each other */
  set(m, op, alpha + 1, real, 1, wide ? (const void *)&zero_d : &zero_f);
  set(m, op, alpha + 2, FL_DNN_IS_ITEM, 1, &conv);
  set(m, op, alpha + 3, FL_DNN_IS_ITEM, 1, &w);
  set(m, op, alpha + 4, FL_DNN_IS_ITEM, 1, &x);
  set(m, op, alpha + 5, FL_DNN_IS_ITEM, 1, &y);
  finish(m, op);
  fl_dnn_item graph = new_item(m, FL_DNN_GRAPH);
  set(m, graph, FL_DNN_GRAPH_HANDLE, FL_DNN_IS_HANDLE, 1, &h);
  set(m, graph, FL_DNN_GRAPH_OPS, FL_DNN_IS_ITEM, 1, &op);
  finish(m, graph);
  return graph;
}

/* ---- engines ---- */

/* May results of this engine be ours? The same each time unless 'free', f32
** in f32, sums of halves in f32. */
static int is_exact(const fl_cudnn *lib, fl_dnn_item config, int dtype, int free) {
  fl_dnn_item engine = NULL;
  unsigned note[NOTES];
  int64_t n = 0;
  if (lib->cudnnBackendCreateDescriptor(FL_DNN_ENGINE, &engine) != FL_DNN_OK) return 0;
  fl_dnn_status r =
      lib->cudnnBackendGetAttribute(config, FL_DNN_CONFIG_ENGINE, FL_DNN_IS_ITEM, 1, &n, &engine);
  if (r == FL_DNN_OK)
    r = lib->cudnnBackendGetAttribute(engine, FL_DNN_ENGINE_NOTES, FL_DNN_IS_NOTE, NOTES, &n, note);
  int exact = r == FL_DNN_OK && n <= NOTES;
  for (int64_t i = 0; i < n && exact; i++)
    exact = (free || note[i] != FL_DNN_NOTE_NONDETERMINISTIC) && note[i] != FL_DNN_NOTE_REDUCED &&
            note[i] != FL_DNN_NOTE_DOWN_CONVERT &&
            !(dtype == FLAME_F32 && note[i] == FL_DNN_NOTE_TENSOR_CORE);
  lib->cudnnBackendDestroyDescriptor(engine);
  return exact;
}

/* Makes the plan of an engine's configuration, if it can be made within bounds. */
static int try_plan(fl_dnn_plan *p, fl_dnn_handle h, fl_dnn_item config) {
  fl_dnn_item plan = NULL;
  int64_t n = 0, space = 0;
  if (p->lib->cudnnBackendCreateDescriptor(FL_DNN_PLAN, &plan) != FL_DNN_OK) return 0;
  fl_dnn_status r = p->lib->cudnnBackendSetAttribute(plan, FL_DNN_PLAN_HANDLE,
                                                     FL_DNN_IS_HANDLE, 1, &h);
  if (r == FL_DNN_OK)
    r = p->lib->cudnnBackendSetAttribute(plan, FL_DNN_PLAN_CONFIG, FL_DNN_IS_ITEM, 1, &config);
  sigset_t mask;
  fl_signals_hold(&mask);                         /* some engines are compiled */
  if (r == FL_DNN_OK) r = p->lib->cudnnBackendFinalize(plan);
  fl_signals_release(&mask);
  if (r == FL_DNN_OK)
    r = p->lib->cudnnBackendGetAttribute(plan, FL_DNN_PLAN_SPACE, FL_DNN_IS_I64, 1, &n, &space);
  if (r == FL_DNN_OK && space >= 0 && space <= SPACE_MAX) {
    p->plan = plan;
    p->space = space;
    return 1;
  }
  p->lib->cudnnBackendDestroyDescriptor(plan);
  return 0;
}

/* Goes through the configurations of one mode of the heuristics until a plan is made. */
static void choose(maker *m, fl_dnn_handle h, fl_dnn_item graph, unsigned mode, const fl_call *c) {
  const fl_cudnn *lib = m->p->lib;
  fl_dnn_item config[CONFIGS], results = NULL;
  int64_t n = 0, made = 0;
  fl_dnn_status r = lib->cudnnBackendCreateDescriptor(FL_DNN_HEURISTIC, &results);
  if (r != FL_DNN_OK) return;
  r = lib->cudnnBackendSetAttribute(results, FL_DNN_HEUR_GRAPH, FL_DNN_IS_ITEM, 1, &graph);
  if (r == FL_DNN_OK)
    r = lib->cudnnBackendSetAttribute(results, FL_DNN_HEUR_MODE, FL_DNN_IS_HEUR_MODE, 1, &mode);
  if (r == FL_DNN_OK) r = lib->cudnnBackendFinalize(results);
  while (r == FL_DNN_OK && made < CONFIGS &&
         lib->cudnnBackendCreateDescriptor(FL_DNN_CONFIG, &config[made]) == FL_DNN_OK)
    made++;
  if (r == FL_DNN_OK)
    r = lib->cudnnBackendGetAttribute(results, FL_DNN_HEUR_RESULTS, FL_DNN_IS_ITEM, made,
                                      &n, config);
  int taken = -1;
  for (int64_t i = 0; r == FL_DNN_OK && i < n && i < made && taken < 0; i++)
    if (is_exact(lib, config[i], c->dtype, (int)c->p[FL_CONV_FREE]) && try_plan(m->p, h, config[i]))
      taken = (int)i;
  for (int64_t i = 0; i < made; i++)
    if (i == taken) m->p->item[m->p->items++] = config[i];
    else lib->cudnnBackendDestroyDescriptor(config[i]);
  lib->cudnnBackendDestroyDescriptor(results);
}

/* ---- plans ---- */

/* Later ones first: an item may refer to those before it. */
static void drop_items(fl_dnn_plan *p) {
  if (p->plan) p->lib->cudnnBackendDestroyDescriptor(p->plan);
  p->plan = NULL;
  while (p->items > 0) p->lib->cudnnBackendDestroyDescriptor(p->item[--p->items]);
}

static void plan_free(fl_cuda *s, fl_dnn_plan *p, int host_only) {
  if (!host_only) drop_items(p);
  fl_free(s->mem, p, sizeof *p);
}

static void make_in_order(fl_dnn *q, fl_dnn_plan *p, const fl_call *c, const fl_conv *v, int last) {
  const int flat = v->in[0] == 1 && v->k[0] == 1 && v->out[0] == 1 && v->pad[0] == 0;
  maker m = { p, FL_DNN_OK };
  p->last = last;
  fl_dnn_item graph = new_graph(&m, q->handle, c->kind, v, c->dtype, flat ? 2 : 3);
  /* of x's gradient in groups its first proposal takes three times as long as
  ** its fallback (H200, 9.19) */
  const int odd = c->kind == FL_CALL_conv_data && c->dtype == FLAME_F32 && v->groups > 1 &&
                  v->groups < v->c;
  if (m.error == FL_DNN_OK)
    choose(&m, q->handle, graph, odd ? FL_DNN_MODE_FALLBACK : FL_DNN_MODE_A, c);
  if (m.error == FL_DNN_OK && !p->plan)
    choose(&m, q->handle, graph, odd ? FL_DNN_MODE_A : FL_DNN_MODE_FALLBACK, c);
  if (!p->plan) drop_items(p);
}

static void make(fl_dnn *q, fl_dnn_plan *p, const fl_call *c, const fl_conv *v) {
  const int64_t size = fl_dtype_size(c->dtype);
  if (type_of(c->dtype) < 0) return;
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

static void forget_all(fl_cuda *s, fl_dnn *q, int host_only) {
  for (int i = 0; i < BINS; i++) {
    for (fl_dnn_plan *p = q->bin[i], *next; p; p = next) {
      next = p->next;
      plan_free(s, p, host_only);
    }
    q->bin[i] = NULL;
  }
  q->n = 0;
}

/* The device's state, opened at first use; NULL without memory. */
static fl_dnn *state_of(fl_cuda *s) {
  if (s->dnn) return s->dnn;
  fl_dnn *q = fl_zalloc(s->mem, sizeof *q);
  if (!q) return NULL;
  s->dnn = q;
  q->lib = s->lib->dnn ? s->lib->dnn(NULL) : NULL;
  if (!q->lib || q->lib->cudnnCreate(&q->handle) != FL_DNN_OK) q->handle = NULL;
  else if (q->lib->cudnnSetStream(q->handle, s->stream) != FL_DNN_OK) {
    q->lib->cudnnDestroy(q->handle);
    q->handle = NULL;
  }
  return q;
}

const fl_dnn_plan *fl_dnn_find(fl_cuda *s, const fl_call *c) {
  fl_dnn *q = state_of(s);
  fl_conv v;
  int64_t key[25] = { c->kind, c->dtype };
  if (!q || !q->handle || !fl_conv_read(c, &v)) return NULL;
  memcpy(key + 2, c->p, 23 * sizeof *key);
  fl_dnn_plan **b = &q->bin[fl_hash64(key, sizeof key, 9) % BINS];
  for (fl_dnn_plan *p = *b; p; p = p->next)
    if (memcmp(p->key, key, sizeof key) == 0) return p->plan ? p : NULL;
  if (q->n >= KEPT_MAX) forget_all(s, q, 0);
  fl_dnn_plan *p = fl_zalloc(s->mem, sizeof *p);
  if (!p) return NULL;
  memcpy(p->key, key, sizeof key);
  p->lib = q->lib;
  make(q, p, c, &v);
  p->next = *b;
  *b = p;
  q->n++;
  return p->plan ? p : NULL;
}

int fl_dnn_turns(const fl_dnn_plan *p) { return p->last; }
int64_t fl_dnn_space(const fl_dnn_plan *p) {
  return fl_round_up(p->space, 256) + p->bytes[X] + p->bytes[W] + p->bytes[Y];
}

/* ---- running ---- */

/* Matrices of rows x cols of 16 bits, 'count' of them, to their transposes. */
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

/* Tensor 'which' turned, with channels last, or back. */
static flame_status turn_tensor(fl_cuda *s, const fl_conv *v, int which, const void *from, void *to,
                                int back) {
  const int64_t count = which == W ? v->o : v->n, channels = which == X   ? v->c
                                                             : which == W ? v->c / v->groups
                                                                          : v->o;
  const int64_t places = fl_volume3(which == X ? v->in : which == W ? v->k : v->out);
  return back ? turn(s, from, to, count, places, channels)
              : turn(s, from, to, count, channels, places);
}

static fl_dnn_status execute(fl_cuda *s, const fl_dnn_plan *p, void *at[TENSORS], void *space) {
  fl_dnn_item d = NULL;
  fl_dnn_status r = p->lib->cudnnBackendCreateDescriptor(FL_DNN_VALUES, &d);
  if (r != FL_DNN_OK) return r;
  r = p->lib->cudnnBackendSetAttribute(d, FL_DNN_VALUES_IDS, FL_DNN_IS_I64, TENSORS, IDS);
  if (r == FL_DNN_OK)
    r = p->lib->cudnnBackendSetAttribute(d, FL_DNN_VALUES_POINTERS, FL_DNN_IS_POINTER, TENSORS, at);
  if (r == FL_DNN_OK)
    r = p->lib->cudnnBackendSetAttribute(d, FL_DNN_VALUES_SPACE, FL_DNN_IS_POINTER, 1, &space);
  if (r == FL_DNN_OK) r = p->lib->cudnnBackendFinalize(d);
  if (r == FL_DNN_OK) r = p->lib->cudnnBackendExecute(s->dnn->handle, p->plan, d);
  p->lib->cudnnBackendDestroyDescriptor(d);
  return r;
}

/* A copy of an input that begins between two multiples of ALIGNMENT, as slices may. */
static flame_status copy_aligned(fl_cuda *s, void **at, int64_t bytes, void **copy) {
  const flame_status e = fl_cuda_reserve(s, copy, bytes, "conv");
  if (e != FLAME_OK) return e;
  const void *from = *at;
  *at = *copy;
  return fl_cuda_check(s,
                       s->cu->CopyOn((fl_cu_ptr)(uintptr_t)*copy, (fl_cu_ptr)(uintptr_t)from,
                                     (size_t)bytes, s->stream),
                       "cuMemcpyDtoDAsync");
}

/* Inputs in the order that the plan has them. copy: what is to be released. */
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
    } else if (i != result && (uintptr_t)at[i] % ALIGNMENT != 0) {
      e = copy_aligned(s, &at[i], numel[i] * size, &copy[i]);
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
  if (e == FLAME_OK) done = execute(s, p, at, r->scratch);
  for (int i = 0; i < TENSORS; i++)
    if (copy[i]) fl_cuda_release(s, copy[i]);
  if (e != FLAME_OK) return e;
  if (done == FL_DNN_OK)
    return p->bytes[result] ? turn_tensor(s, &v, result, at[result], r->out, 1) : FLAME_OK;
  e = fl_cuda_wait_all(s); /* a lost device says so itself */
  return e != FLAME_OK
             ? e
             : FL_FAIL(s->ctx, FLAME_INTERNAL, r->call->what, "cuDNN failed with status %u", done);
}

void fl_dnn_close(fl_cuda *s, int host_only) {
  fl_dnn *q = s->dnn;
  if (!q) return;
  forget_all(s, q, host_only);
  if (q->handle && !host_only) q->lib->cudnnDestroy(q->handle);
  fl_free(s->mem, q, sizeof *q);
  s->dnn = NULL;
}
