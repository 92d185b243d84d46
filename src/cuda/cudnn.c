/*
** Convolutions by cuDNN (cudnn.h). The table of entry points is the process', filled once; the
** handle and the kept plans are the device's. A failure to make a plan is no error: the call
** then goes to our own kernel.
*/
#include "cuda/cudnn.h"
#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

enum { KEPT_MAX = 1024, BINS = 64, MOST = 12 };
static const int64_t SPACE_MAX = 256ll << 20;

typedef struct library {
#define DNN(name, params) fl_dnn_status(*name) params;
#include "cuda/cudnn.def"
} library;

static library table; /* constant after pthread_once */
static int loaded;

static void load(void) {
  static const char *const files[] = { "libcudnn.so.9", "/usr/local/cuda/lib64/libcudnn.so.9", NULL };
  static const struct {
    const char *name;
    size_t at;
  } symbols[] = {
#define DNN(name, params) { #name, offsetof(library, name) },
#include "cuda/cudnn.def"
  };
  void *h = NULL;
  for (int i = 0; files[i] && !h; i++) h = dlopen(files[i], RTLD_NOW | RTLD_LOCAL);
  if (!h) return;
  for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
    void *p = dlsym(h, symbols[i].name);
    if (!p) return;
    memcpy((char *)&table + symbols[i].at, &p, sizeof p);
  }
  loaded = 1;
}

struct fl_dnn_plan {
  struct fl_dnn_plan *next;
  int64_t key[24]; /* kind, dtype, the call's integers */
  fl_dnn_tensor x, y;
  fl_dnn_filter w;
  fl_dnn_conv conv;
  unsigned algo;
  int64_t space;
  uint8_t ok;
};

typedef struct fl_dnn {
  fl_dnn_handle handle; /* NULL: cuDNN is not there */
  fl_dnn_plan *bin[BINS];
  int64_t n;
} fl_dnn;

/* ---- descriptors ---- */

static int type_of(int dtype) {
  switch (dtype) {
  case FLAME_F64: return FL_DNN_F64;
  case FLAME_F32: return FL_DNN_F32;
  case FLAME_F16: return FL_DNN_F16;
  case FLAME_BF16: return FL_DNN_BF16;
  default: return -1;
  }
}

/* cuDNN derives 'out' from padding on both sides: does it come to ours? */
static int expressible(const fl_conv *v) {
  for (int a = 0; a < 3; a++) {
    const int64_t room = v->in[a] + 2 * v->pad[a] - (v->dil[a] * (v->k[a] - 1) + 1);
    if (v->pad[a] < 0 || room < 0 || room / v->stride[a] + 1 != v->out[a]) return 0;
    if (v->in[a] > INT32_MAX || v->out[a] > INT32_MAX) return 0;
  }
  return v->n <= INT32_MAX && v->c <= INT32_MAX && v->o <= INT32_MAX;
}

/* A packed tensor (n, c, the last 'axes' of size). */
static void sizes_of(int64_t n, int64_t c, const int64_t size[3], int axes, int out[5], int stride[5]) {
  out[0] = (int)n;
  out[1] = (int)c;
  for (int i = 0; i < axes; i++) out[2 + i] = (int)size[3 - axes + i];
  int64_t step = 1;
  for (int i = axes + 1; i >= 0; i--) {
    stride[i] = (int)step;
    step *= out[i];
  }
}

static fl_dnn_status set_tensor(fl_dnn_tensor *d, int type, int64_t n, int64_t c, const int64_t size[3],
                                int axes) {
  int s[5], t[5];
  sizes_of(n, c, size, axes, s, t);
  fl_dnn_status r = table.cudnnCreateTensorDescriptor(d);
  if (r != FL_DNN_OK) *d = NULL;
  return r == FL_DNN_OK ? table.cudnnSetTensorNdDescriptor(*d, (unsigned)type, axes + 2, s, t) : r;
}

static fl_dnn_status set_filter(fl_dnn_plan *p, int type, const fl_conv *v, int axes) {
  int s[5], t[5];
  sizes_of(v->o, v->c / v->groups, v->k, axes, s, t);
  fl_dnn_status r = table.cudnnCreateFilterDescriptor(&p->w);
  if (r != FL_DNN_OK) p->w = NULL;
  return r == FL_DNN_OK
             ? table.cudnnSetFilterNdDescriptor(p->w, (unsigned)type, FL_DNN_NCHW, axes + 2, s)
             : r;
}

static fl_dnn_status set_conv(fl_dnn_plan *p, int dtype, const fl_conv *v, int axes) {
  int pad[3], stride[3], dil[3];
  for (int i = 0; i < axes; i++) {
    const int a = 3 - axes + i;
    pad[i] = (int)v->pad[a], stride[i] = (int)v->stride[a], dil[i] = (int)v->dil[a];
  }
  fl_dnn_status r = table.cudnnCreateConvolutionDescriptor(&p->conv);
  if (r != FL_DNN_OK) p->conv = NULL;
  if (r == FL_DNN_OK)
    r = table.cudnnSetConvolutionNdDescriptor(p->conv, axes, pad, stride, dil, FL_DNN_CROSS_CORRELATION,
                                              dtype == FLAME_F64 ? FL_DNN_F64 : FL_DNN_F32);
  if (r == FL_DNN_OK) r = table.cudnnSetConvolutionGroupCount(p->conv, (int)v->groups);
  if (r == FL_DNN_OK)
    r = table.cudnnSetConvolutionMathType(p->conv,
                                          fl_dtype_size(dtype) == 2 ? FL_DNN_TENSOR_OP : FL_DNN_FMA);
  return r;
}

static void plan_free(fl_cuda *s, fl_dnn_plan *p, int host_only) {
  if (!host_only) {
    if (p->x) table.cudnnDestroyTensorDescriptor(p->x);
    if (p->y) table.cudnnDestroyTensorDescriptor(p->y);
    if (p->w) table.cudnnDestroyFilterDescriptor(p->w);
    if (p->conv) table.cudnnDestroyConvolutionDescriptor(p->conv);
  }
  fl_free(s->mem, p, sizeof *p);
}

/* ---- plans ---- */

/* The heuristic's first deterministic answer within bounds. */
static void choose(fl_dnn *q, fl_dnn_plan *p, int kind, int dtype) {
  fl_dnn_perf found[MOST];
  int n = 0;
  fl_dnn_status r;
  memset(found, 0, sizeof found);
  if (kind == FL_CALL_conv)
    r = table.cudnnGetConvolutionForwardAlgorithm_v7(q->handle, p->x, p->w, p->conv, p->y, MOST, &n,
                                                     found);
  else if (kind == FL_CALL_conv_data)
    r = table.cudnnGetConvolutionBackwardDataAlgorithm_v7(q->handle, p->w, p->y, p->conv, p->x, MOST,
                                                          &n, found);
  else
    r = table.cudnnGetConvolutionBackwardFilterAlgorithm_v7(q->handle, p->x, p->y, p->conv, p->w, MOST,
                                                            &n, found);
  for (int any = fl_dtype_size(dtype) == 2; any < 2 && !p->ok;
       any++) /* f32: first those without tensor cores */
    for (int i = 0; r == FL_DNN_OK && i < n && !p->ok; i++) {
      if (found[i].status != FL_DNN_OK || found[i].deterministic != FL_DNN_DETERMINISTIC) continue;
      if (found[i].memory > (uint64_t)SPACE_MAX || (!any && found[i].math != FL_DNN_FMA)) continue;
      p->algo = found[i].algo;
      p->space = (int64_t)found[i].memory;
      p->ok = 1;
    }
}

static void make(fl_dnn *q, fl_dnn_plan *p, const fl_call *c, const fl_conv *v) {
  const int type = type_of(c->dtype),
            flat = v->in[0] == 1 && v->k[0] == 1 && v->out[0] == 1 && v->pad[0] == 0;
  const int axes = flat ? 2 : 3;
  if (type < 0 || !expressible(v)) return;
  for (int i = 0; i <= 2; i++)
    if ((i < 2 ? c->in_numel[i] : c->numel) > INT32_MAX) return;
  fl_dnn_status r = set_tensor(&p->x, type, v->n, v->c, v->in, axes);
  if (r == FL_DNN_OK) r = set_tensor(&p->y, type, v->n, v->o, v->out, axes);
  if (r == FL_DNN_OK) r = set_filter(p, type, v, axes);
  if (r == FL_DNN_OK) r = set_conv(p, c->dtype, v, axes);
  if (r == FL_DNN_OK) choose(q, p, c->kind, c->dtype);
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
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  if (s->dnn) return s->dnn;
  fl_dnn *q = fl_zalloc(s->mem, sizeof *q);
  if (!q) return NULL;
  s->dnn = q;
  if (s->lib != &fl_cuda_libraries) return q; /* a test's libraries stand in */
  pthread_once(&once, load);
  if (!loaded || table.cudnnCreate(&q->handle) != FL_DNN_OK) q->handle = NULL;
  else if (table.cudnnSetStream(q->handle, s->stream) != FL_DNN_OK) {
    table.cudnnDestroy(q->handle);
    q->handle = NULL;
  }
  return q;
}

const fl_dnn_plan *fl_dnn_find(fl_cuda *s, const fl_call *c) {
  fl_dnn *q = state_of(s);
  fl_conv v;
  int64_t key[24] = { c->kind, c->dtype };
  if (!q || !q->handle || !fl_conv_read(c, &v)) return NULL;
  memcpy(key + 2, c->p, 22 * sizeof *key);
  fl_dnn_plan **b = &q->bin[fl_hash64(key, sizeof key, 9) % BINS];
  for (fl_dnn_plan *p = *b; p; p = p->next)
    if (memcmp(p->key, key, sizeof key) == 0) return p->ok ? p : NULL;
  if (q->n >= KEPT_MAX) forget_all(s, q, 0);
  fl_dnn_plan *p = fl_zalloc(s->mem, sizeof *p);
  if (!p) return NULL;
  memcpy(p->key, key, sizeof key);
  make(q, p, c, &v);
  p->next = *b;
  *b = p;
  q->n++;
  return p->ok ? p : NULL;
}

int64_t fl_dnn_space(const fl_dnn_plan *p) { return p->space; }

flame_status fl_dnn_run(fl_cuda *s, const fl_dnn_plan *p, const fl_call_run *r) {
  static const double one_d = 1, zero_d = 0;
  static const float one_f = 1, zero_f = 0;
  const int wide = r->call->dtype == FLAME_F64;
  const void *one = wide ? (const void *)&one_d : &one_f,
             *zero = wide ? (const void *)&zero_d : &zero_f;
  const fl_dnn_handle h = s->dnn->handle;
  const size_t bytes = (size_t)p->space;
  fl_dnn_status e;
  if (r->call->kind == FL_CALL_conv)
    e = table.cudnnConvolutionForward(h, one, p->x, r->in[0], p->w, r->in[1], p->conv, p->algo,
                                      r->scratch, bytes, zero, p->y, r->out);
  else if (r->call->kind == FL_CALL_conv_data)
    e = table.cudnnConvolutionBackwardData(h, one, p->w, r->in[1], p->y, r->in[0], p->conv, p->algo,
                                           r->scratch, bytes, zero, p->x, r->out);
  else
    e = table.cudnnConvolutionBackwardFilter(h, one, p->x, r->in[1], p->y, r->in[0], p->conv, p->algo,
                                             r->scratch, bytes, zero, p->w, r->out);
  if (e == FL_DNN_OK) return FLAME_OK;
  const flame_status w = fl_cuda_wait_all(s); /* a lost device says so itself */
  return w != FLAME_OK
             ? w
             : FL_FAIL(s->ctx, FLAME_INTERNAL, r->call->what, "cuDNN failed with status %u", e);
}

void fl_dnn_close(fl_cuda *s, int host_only) {
  fl_dnn *q = s->dnn;
  if (!q) return;
  forget_all(s, q, host_only);
  if (q->handle && !host_only) table.cudnnDestroy(q->handle);
  fl_free(s->mem, q, sizeof *q);
  s->dnn = NULL;
}
