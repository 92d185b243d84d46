/*
** DLPack: tensors handed over in memory, without a copy where that is safe. The structs are
** those of the DLPack standard (its unversioned DLManagedTensor, which every framework takes).
**
** In: the memory is the producer's, unchanged until its deleter is called; flame never writes
** it, the first write to the tensor allocates new memory. Memory of a CUDA device is taken
** when the context has that device; work queued there is waited for before the deleter runs.
** Out: a copy in separate memory, independent of the context, for a value on the CPU; for one
** on CUDA a device copy. A tensor that is given away is handed over without a copy if nothing else
** uses its memory. Exports that are not independent of the context must be deleted before
** flame_close, on a thread that has entered the context.
*/
#include "engine/engine.h"
#include "io/io.h"
#include "tensor/build.h"
#include "tensor/tensor.h"
#include <stdlib.h>
#include <string.h>

typedef struct dl_device { int32_t type, id; } dl_device;
typedef struct dl_dtype { uint8_t code, bits; uint16_t lanes; } dl_dtype;
typedef struct dl_tensor {
  void *data;
  dl_device device;
  int32_t ndim;
  dl_dtype dtype;
  int64_t *shape, *strides;      /* strides count elements; NULL: row-major */
  uint64_t byte_offset;
} dl_tensor;
typedef struct dl_managed {
  dl_tensor t;
  void *manager;
  void (*deleter)(struct dl_managed *self);
} dl_managed;

enum { DL_CPU = 1, DL_CUDA = 2, DL_CUDA_HOST = 3, DL_CUDA_MANAGED = 13 };
enum { DL_INT = 0, DL_UINT = 1, DL_FLOAT = 2, DL_BFLOAT = 4, DL_BOOL = 6 };

static const dl_dtype dtypes[FLAME_DTYPE_COUNT] = {
  [FLAME_F64] = { DL_FLOAT, 64, 1 }, [FLAME_F32] = { DL_FLOAT, 32, 1 },
  [FLAME_F16] = { DL_FLOAT, 16, 1 },
  [FLAME_BF16] = { DL_BFLOAT, 16, 1 }, [FLAME_I64] = { DL_INT, 64, 1 },
  [FLAME_I32] = { DL_INT, 32, 1 },
  [FLAME_I16] = { DL_INT, 16, 1 }, [FLAME_I8] = { DL_INT, 8, 1 }, [FLAME_U8] = { DL_UINT, 8, 1 },
  [FLAME_BOOL] = { DL_BOOL, 8, 1 },
};

/* ---- in ------------------------------------------------------------------------------------ */

static int dtype_of(flame_context *c, dl_dtype d) {
  for (int i = 0; i < FLAME_DTYPE_COUNT; i++)
    if (d.lanes == 1 && dtypes[i].code == d.code && dtypes[i].bits == d.bits) return i;
  FL_FAIL(c, FLAME_NOT_SUPPORTED, "from_dlpack",
          "no dtype here is code %d with %d bits and %d lanes", d.code, d.bits, d.lanes);
  return -1;
}

static int device_of(flame_context *c, dl_device d) {
  if (d.type == DL_CPU || d.type == DL_CUDA_HOST) return 0;
  if ((d.type == DL_CUDA || d.type == DL_CUDA_MANAGED) && d.id >= 0 && d.id < FL_MAX_DEVICES - 1) {
    const int index = d.id + 1;
    return fl_engine_device(c, index) ? index : -1;
  }
  FL_FAIL(c, FLAME_NOT_SUPPORTED, "from_dlpack", "device type %d is neither the CPU nor CUDA",
          (int)d.type);
  return -1;
}

/* Layout of the elements: strides, and how many elements of memory are needed before the first
** element and from it on. */
typedef struct extent { int64_t stride[FL_MAX_AXES], before, behind; } extent;

static int measure(flame_context *c, const dl_tensor *t, extent *e) {
  const char *op = "from_dlpack";
  if (t->ndim < 0 || t->ndim > FL_MAX_AXES)
    return FL_FAIL(c, FLAME_BAD_ARGUMENT, op, "%d axes, at most %d", (int)t->ndim,
                   FL_MAX_AXES), 0;
  for (int i = 0; i < t->ndim; i++)
    if (t->shape[i] < 0)
      return FL_FAIL(c, FLAME_BAD_ARGUMENT, op, "size %lld of axis %d is negative",
                                        (long long)t->shape[i], i), 0;
  const int64_t n = fl_numel(t->ndim, t->shape);
  if (n < 0) return FL_FAIL(c, FLAME_BAD_ARGUMENT, op, "the product of the sizes is too large"), 0;
  if (t->strides) memcpy(e->stride, t->strides, sizeof *t->strides * (size_t)t->ndim);
  else fl_row_major(t->ndim, t->shape, e->stride);
  e->before = e->behind = 0;
  for (int i = 0; i < t->ndim && n > 0; i++) {
    int64_t reach;
    if (__builtin_mul_overflow(t->shape[i] - 1, e->stride[i], &reach) || reach > INT64_MAX / 256 ||
        reach < -INT64_MAX / 256)
      return FL_FAIL(c, FLAME_BAD_ARGUMENT, op, "stride %lld of axis %d is too large",
                     (long long)e->stride[i], i), 0;
    if (reach < 0) e->before -= reach;
    else e->behind += reach;
  }
  if (n > 0) e->behind += 1;
  return 1;
}

typedef struct import { fl_device *device; dl_managed *m; } import;

/* Gives imported memory back, when its last use is over, including queued work. */
static void give_back(void *p, void *arg) {
  import *in = arg;
  fl_fault fault = { .site = -1 };
  (void)p;
  if (in->device->index > 0 && in->device->table && in->device->state)
    in->device->table->sync(in->device, &fault);
  if (in->m->deleter) in->m->deleter(in->m);
  free(in);
}

/* Makes a tensor over m's memory; if that fails, m still belongs to the caller. */
static flame_tensor *adopt(flame_context *c, dl_managed *m, int dtype, int device,
                           const extent *e) {
  const dl_tensor *t = &m->t;
  const int64_t size = fl_dtype_size(dtype);
  fl_device *d = fl_engine_device(c, device);
  if (!d) return NULL;
  import *in = malloc(sizeof *in);         /* not from c->mem: c may be closing when it is freed */
  if (!in) return FL_FAIL(c, FLAME_NO_MEMORY, "from_dlpack", "no host memory"), NULL;
  *in = (import){ d, m };
  char *first = (char *)t->data + t->byte_offset;
  fl_layout *l = fl_layout_of(&c->layouts, t->ndim, t->shape, e->stride);
  fl_buffer *b = l ? fl_buffer_foreign(c, first - e->before * size, (e->before + e->behind) * size,
                                       NULL, NULL) : NULL;
  if (b) b->device = (uint8_t)device;
  if (!b && l) fl_layout_release(&c->layouts, l);
  flame_tensor *x = b ? fl_tensor_new(c, fl_node_stored(c, dtype, b, l, e->before)) : NULL;
  if (!x) {
    free(in);
    return c->err.code ? NULL
                       : (FL_FAIL(c, FLAME_NO_MEMORY, "from_dlpack", "no host memory"), NULL);
  }
  b->release = give_back;
  b->arg = in;
  return x;
}

flame_tensor *flame_from_dlpack(flame_context *c, void *managed) {
  FL_HOLD(c, NULL);
  dl_managed *m = managed;
  extent e;
  FL_ENTER(c);
  flame_tensor *x = NULL;
  if (!m) FL_FAIL(c, FLAME_BAD_ARGUMENT, "from_dlpack", "there is no tensor");
  const int dtype = m ? dtype_of(c, m->t.dtype) : -1;
  const int device = dtype >= 0 ? device_of(c, m->t.device) : -1;
  if (device >= 0 && measure(c, &m->t, &e)) {
    const uintptr_t at = (uintptr_t)m->t.data + m->t.byte_offset;
    if (e.behind > 0 && !m->t.data)
      FL_FAIL(c, FLAME_BAD_ARGUMENT, "from_dlpack", "there is no data");
    else if (at % (uintptr_t)fl_dtype_size(dtype) != 0)
      FL_FAIL(c, FLAME_BAD_ARGUMENT, "from_dlpack", "the first element is not aligned to its size");
    else x = adopt(c, m, dtype, device, &e);
  }
  FL_LEAVE(c);
  return x;
}

/* ---- out ----------------------------------------------------------------------------------- */

/* What a consumer gets: the struct that it knows, followed by what is freed with it. */
typedef struct export {
  dl_managed m;                  /* first: m is the address the consumer has */
  flame_tensor *held;            /* owns the memory; NULL: memory follows the struct */
  int64_t shape[FL_MAX_AXES], stride[FL_MAX_AXES];
} export;

enum { ALIGNED = 64 };

static void delete_export(dl_managed *self) {
  export *x = (export *)self;
  flame_free(x->held);
  free(x);
}

/* A new struct with room for 'bytes' after it. It is not in the context's memory, since it may
** outlive the context. */
static export *new_export(flame_context *c, const fl_node *n, int64_t bytes) {
  const size_t head = (sizeof(export) + ALIGNED - 1) / ALIGNED * ALIGNED;
  const size_t size = (head + (size_t)bytes + ALIGNED - 1) / ALIGNED * ALIGNED;
  export *x = aligned_alloc(ALIGNED, size);
  if (!x)
    return FL_FAIL(c, FLAME_NO_MEMORY, "to_dlpack", "no %lld bytes of host memory",
                   (long long)bytes), NULL;
  memset(x, 0, sizeof *x);
  dl_tensor *t = &x->m.t;
  t->data = (char *)x + head;
  t->device = n->device == 0 ? (dl_device){ DL_CPU, 0 } : (dl_device){ DL_CUDA, n->device - 1 };
  t->ndim = (uint8_t)n->shape->rank;
  t->dtype = dtypes[n->dtype];
  t->shape = x->shape;
  t->strides = x->stride;
  memcpy(x->shape, n->shape->size, sizeof x->shape);
  fl_row_major(n->shape->rank, x->shape, x->stride);
  x->m.deleter = delete_export;
  return x;
}

/* Does only this handle refer to the memory? */
static int alone(const flame_tensor *x) {
  const fl_node *n = x->node;
  return x->refs == 1 && n->held == 1 && n->uses == 0 && n->guards == 0 && n->grefs == 0 &&
         n->buffer->refs == 1 && !n->buffer->foreign;
}

/* The struct for a tensor's own memory; the struct then owns that memory. */
static dl_managed *over(flame_context *c, flame_tensor *x) {
  const fl_node *n = x->node;
  export *e = new_export(c, n, 0);
  if (!e) return NULL;
  e->held = x;
  n->buffer->pinned = 1;
  e->m.t.data = (char *)n->buffer->ptr + n->offset * fl_dtype_size(n->dtype);
  memcpy(e->stride, n->layout->stride, sizeof e->stride);
  for (int i = 0; i < n->shape->rank; i++) if (n->shape->size[i] == 1) e->stride[i] = 1;
  return &e->m;
}

static dl_managed *host_copy(flame_context *c, fl_node *n) {
  const int64_t bytes = n->shape->numel * fl_dtype_size(n->dtype);
  export *e = new_export(c, n, bytes);
  if (!e) return NULL;
  if (fl_read_node(c, n, e->m.t.data, (size_t)bytes) == FLAME_OK) return &e->m;
  free(e);
  return NULL;
}

static dl_managed *device_copy(flame_context *c, fl_node *n) {
  const uint8_t grad = c->grad_mode;
  c->grad_mode = 0;
  flame_tensor *y = fl_tensor_new(c, n_copy(n));
  c->grad_mode = grad;
  if (!y || c->up->evaluate(c, y->node) != FLAME_OK) {
    flame_free(y);
    return NULL;
  }
  dl_managed *m = over(c, y);
  if (!m) flame_free(y);
  return m;
}

/* Consumers read without synchronising with our stream, so its work must be finished. */
static int finished(flame_context *c, int device) {
  fl_fault fault = { .site = -1 };
  fl_device *d = fl_engine_device(c, device);
  return d && d->table->sync(d, &fault) == FLAME_OK;
}

void *flame_to_dlpack(flame_tensor *x, int give_away) {
  FL_HOLD(x ? x->ctx : NULL, NULL);
  flame_context *c = x->ctx;
  if (!fl_tensor_open(x, "to_dlpack")) return NULL;
  FL_ENTER(c);
  dl_managed *m = NULL;
  int kept = 1;
  if (c->up->evaluate(c, x->node) == FLAME_OK) {
    if (give_away && alone(x)) {
      m = over(c, x);
      kept = m == NULL;
    } else {
      m = x->node->device == 0 ? host_copy(c, x->node) : device_copy(c, x->node);
    }
    if (m && m->t.device.type != DL_CPU && !finished(c, m->t.device.id + 1)) {
      if (!kept) ((export *)m)->held = NULL;               /* stays the caller's */
      m->deleter(m);
      m = NULL;
      kept = 1;
    }
  }
  FL_LEAVE(c);
  if (m && give_away && kept) flame_free(x);
  return m;
}

void fl_dlpack_delete(void *managed) {
  dl_managed *m = managed;
  if (m->deleter) m->deleter(m);
}
