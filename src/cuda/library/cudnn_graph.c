/* cuDNN's graph API for our calls (cudnn_graph.h). The handle and the kept plans are the
** device's. */
#include "cuda/library/cudnn_graph.h"
#include "base/hash.h"
#include "base/signals.h"
#include "cuda/compile/module.h"
#include <string.h>

enum { KEPT_MAX = 1024, CONFIGS = 64, NOTES = 16 };
static const int64_t SPACE_MAX = 1ll << 30;

/* ---- descriptors ---- */

int fl_dnn_type_of(int dtype) {
  switch (dtype) {
  case FLAME_F64: return FL_DNN_F64;
  case FLAME_F32: return FL_DNN_F32;
  case FLAME_F16: return FL_DNN_F16;
  case FLAME_BF16: return FL_DNN_BF16;
  default: return -1;
  }
}

fl_dnn_item fl_dnn_new(fl_dnn_maker *m, int kind) {
  fl_dnn_item d = NULL;
  if (m->p->items == FL_DNN_ITEMS) m->error = FL_DNN_FULL;
  if (m->error == FL_DNN_OK)
    m->error = m->p->lib->cudnnBackendCreateDescriptor((fl_dnn_kind)kind, &d);
  if (m->error != FL_DNN_OK) return NULL;
  m->p->item[m->p->items++] = d;
  return d;
}

void fl_dnn_set(fl_dnn_maker *m, fl_dnn_item d, int name, int type, int64_t n, const void *values) {
  if (m->error == FL_DNN_OK)
    m->error = m->p->lib->cudnnBackendSetAttribute(d, (fl_dnn_name)name, (fl_dnn_type)type,
                                                   n, values);
}
void fl_dnn_finish(fl_dnn_maker *m, fl_dnn_item d) {
  if (m->error == FL_DNN_OK) m->error = m->p->lib->cudnnBackendFinalize(d);
}

fl_dnn_item fl_dnn_tensor(fl_dnn_maker *m, fl_dnn_where where, int64_t id, int type, int axes,
                          const int64_t *size, const int64_t *stride) {
  const int64_t alignment = FL_DNN_ALIGNED;
  const _Bool yes = 1;
  fl_dnn_item d = fl_dnn_new(m, FL_DNN_TENSOR);
  fl_dnn_set(m, d, FL_DNN_TENSOR_TYPE, FL_DNN_IS_DTYPE, 1, &type);
  fl_dnn_set(m, d, FL_DNN_TENSOR_SIZES, FL_DNN_IS_I64, axes, size);
  fl_dnn_set(m, d, FL_DNN_TENSOR_STRIDES, FL_DNN_IS_I64, axes, stride);
  fl_dnn_set(m, d, FL_DNN_TENSOR_ID, FL_DNN_IS_I64, 1, &id);
  fl_dnn_set(m, d, FL_DNN_TENSOR_ALIGNMENT, FL_DNN_IS_I64, 1, &alignment);
  if (where != FL_DNN_STORED)
    fl_dnn_set(m, d, where == FL_DNN_VIRTUAL ? FL_DNN_TENSOR_VIRTUAL : FL_DNN_TENSOR_NUMBER,
               FL_DNN_IS_BOOL, 1, &yes);
  fl_dnn_finish(m, d);
  return d;
}

fl_dnn_item fl_dnn_graph(fl_dnn_maker *m, fl_dnn_handle h, int n, const fl_dnn_item *op) {
  fl_dnn_item graph = fl_dnn_new(m, FL_DNN_GRAPH);
  fl_dnn_set(m, graph, FL_DNN_GRAPH_HANDLE, FL_DNN_IS_HANDLE, 1, &h);
  fl_dnn_set(m, graph, FL_DNN_GRAPH_OPS, FL_DNN_IS_ITEM, n, op);
  fl_dnn_finish(m, graph);
  return graph;
}

/* ---- engines ---- */

/* Are results of this engine acceptable? They must be reproducible unless 'free', f32 in f32, sums
** of halves in f32. */
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

/* Makes the plan of an engine's configuration. 0: it can not be made, or needs more than SPACE_MAX
** bytes of workspace. */
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

void fl_dnn_choose(fl_dnn_maker *m, fl_dnn_handle h, fl_dnn_item graph, unsigned mode, int dtype,
                   int free) {
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
    if (is_exact(lib, config[i], dtype, free) && try_plan(m->p, h, config[i]))
      taken = (int)i;
  for (int64_t i = 0; i < made; i++)
    if (i == taken) m->p->item[m->p->items++] = config[i];
    else lib->cudnnBackendDestroyDescriptor(config[i]);
  lib->cudnnBackendDestroyDescriptor(results);
}

/* ---- plans ---- */

/* Destroys later items first, since an item may refer to earlier ones. */
void fl_dnn_drop(fl_dnn_plan *p) {
  if (p->plan) p->lib->cudnnBackendDestroyDescriptor(p->plan);
  p->plan = NULL;
  while (p->items > 0) p->lib->cudnnBackendDestroyDescriptor(p->item[--p->items]);
}

static void forget_all(fl_cuda *s, fl_dnn *q, int host_only) {
  for (int i = 0; i < FL_DNN_BINS; i++) {
    for (fl_dnn_plan *p = q->bin[i], *next; p; p = next) {
      next = p->next;
      if (!host_only) fl_dnn_drop(p);
      fl_free(s->mem, p, sizeof *p);
    }
    q->bin[i] = NULL;
  }
  q->n = 0;
}

/* The version: 91900 is 9.19.0; 0: unknown. */
static int64_t version_of(const fl_cudnn *lib) {
  int major = 0, minor = 0, patch = 0;
  if (lib->cudnnGetProperty(FL_DNN_MAJOR, &major) != FL_DNN_OK ||
      lib->cudnnGetProperty(FL_DNN_MINOR, &minor) != FL_DNN_OK ||
      lib->cudnnGetProperty(FL_DNN_PATCH, &patch) != FL_DNN_OK) return 0;
  return major * 10000 + minor * 100 + patch;
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
  if (q->handle) q->version = version_of(q->lib);
  return q;
}

int fl_dnn_kept(fl_cuda *s, const fl_call *c, fl_dnn_plan **p) {
  fl_dnn *q = state_of(s);
  int64_t key[FL_DNN_KEY] = { c->kind, c->dtype };
  *p = NULL;
  if (!q || !q->handle) return 0;
  memcpy(key + 2, c->p, sizeof key - 2 * sizeof *key);
  fl_dnn_plan **b = &q->bin[fl_hash64(key, sizeof key, 9) % FL_DNN_BINS];
  for (*p = *b; *p; *p = (*p)->next)
    if (memcmp((*p)->key, key, sizeof key) == 0) return 0;
  if (q->n >= KEPT_MAX) forget_all(s, q, 0);
  *p = fl_zalloc(s->mem, sizeof **p);
  if (!*p) return 0;
  memcpy((*p)->key, key, sizeof key);
  (*p)->lib = q->lib;
  (*p)->next = *b;
  *b = *p;
  q->n++;
  return 1;
}

/* ---- running ---- */

fl_dnn_status fl_dnn_execute(fl_cuda *s, const fl_dnn_plan *p, int n, const int64_t *id,
                             void *const *at, void *space) {
  fl_dnn_item d = NULL;
  fl_dnn_status r = p->lib->cudnnBackendCreateDescriptor(FL_DNN_VALUES, &d);
  if (r != FL_DNN_OK) return r;
  r = p->lib->cudnnBackendSetAttribute(d, FL_DNN_VALUES_IDS, FL_DNN_IS_I64, n, id);
  if (r == FL_DNN_OK)
    r = p->lib->cudnnBackendSetAttribute(d, FL_DNN_VALUES_POINTERS, FL_DNN_IS_POINTER, n, at);
  if (r == FL_DNN_OK)
    r = p->lib->cudnnBackendSetAttribute(d, FL_DNN_VALUES_SPACE, FL_DNN_IS_POINTER, 1, &space);
  if (r == FL_DNN_OK) r = p->lib->cudnnBackendFinalize(d);
  if (r == FL_DNN_OK) r = p->lib->cudnnBackendExecute(s->dnn->handle, p->plan, d);
  p->lib->cudnnBackendDestroyDescriptor(d);
  return r;
}

flame_status fl_dnn_align(fl_cuda *s, void **at, int64_t bytes, void **copy, const char *what) {
  if ((uintptr_t)*at % FL_DNN_ALIGNED == 0) return FLAME_OK;
  const flame_status e = fl_cuda_reserve(s, copy, bytes, what);
  if (e != FLAME_OK) return e;
  const void *from = *at;
  *at = *copy;
  return fl_cuda_check(s,
                       s->cu->CopyOn((fl_cu_ptr)(uintptr_t)*copy, (fl_cu_ptr)(uintptr_t)from,
                                     (size_t)bytes, s->stream),
                       "cuMemcpyDtoDAsync");
}

flame_status fl_dnn_failed(fl_cuda *s, const char *what, fl_dnn_status status) {
  const flame_status e = fl_cuda_wait_all(s);     /* a lost device has reported that itself */
  return e != FLAME_OK
             ? e : FL_FAIL(s->ctx, FLAME_INTERNAL, what, "cuDNN failed with status %u", status);
}

void fl_dnn_close(fl_cuda *s, int host_only) {
  fl_dnn *q = s->dnn;
  if (!q) return;
  forget_all(s, q, host_only);
  if (q->handle && !host_only) q->lib->cudnnDestroy(q->handle);
  fl_free(s->mem, q, sizeof *q);
  s->dnn = NULL;
}
