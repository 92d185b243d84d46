/*
** Values in and out: from host data to tensors, from tensors to host bytes, and between devices.
*/
#include "engine/faults.h"
#include "tensor/build.h"
#include "tensor/entry.h"
#include <string.h>

/* ---- in -------------------------------------------------------------------------------------- */

static int64_t checked_bytes(flame_context *c, const char *op, flame_dtype t, int ndim,
                             const int64_t *shape) {
  if (ndim < 0 || ndim > FL_MAX_AXES) {
    FL_FAIL(c, FLAME_BAD_ARGUMENT, op, "%d axes, at most %d", ndim, FL_MAX_AXES);
    return -1;
  }
  if (!fl_given(c, shape, ndim, op, "sizes")) return -1;
  for (int i = 0; i < ndim; i++)
    if (shape[i] < 0) {
      FL_FAIL(c, FLAME_BAD_ARGUMENT, op, "size %lld of axis %d is negative",
              (long long)shape[i], i);
      return -1;
    }
  const int64_t n = fl_numel(ndim, shape);
  if (n >= 0 && (int)t >= 0 && t < FLAME_DTYPE_COUNT) return n * fl_dtype_size((int)t);
  if (n < 0) FL_FAIL(c, FLAME_BAD_ARGUMENT, op, "the product of the sizes is too large");
  else FL_FAIL(c, FLAME_BAD_ARGUMENT, op, "no dtype has the number %d", (int)t);
  return -1;
}

fl_node *fl_node_from_host(flame_context *c, int device, int dtype, int ndim, const int64_t *shape,
                           const void *data) {
  const int64_t bytes = checked_bytes(c, "tensor", (flame_dtype)dtype, ndim, shape);
  if (bytes < 0) return NULL;
  fl_buffer *b = fl_buffer_new(c, device, bytes);
  if (!b) return NULL;
  if (bytes && c->up->upload(c, device, b->ptr, data, bytes) != FLAME_OK) {
    fl_buffer_release(c, b);
    return NULL;
  }
  return fl_node_stored(c, dtype, b, fl_layout_of(&c->layouts, ndim, shape, NULL), 0);
}

static int usable_memory(flame_context *c, const char *op, const void *data, int64_t bytes) {
  if (data || bytes == 0) return 1;
  FL_FAIL(c, FLAME_BAD_ARGUMENT, op, "there is no data for %lld bytes", (long long)bytes);
  return 0;
}

flame_tensor *flame_from_data(flame_context *c, flame_dtype t, int ndim, const int64_t *shape,
                              const void *data) {
  FL_HOLD(c, NULL);
  const int64_t bytes = checked_bytes(c, "tensor", t, ndim, shape);
  if (bytes < 0 || !usable_memory(c, "tensor", data, bytes)) return NULL;
  FL_ENTER(c);
  flame_tensor *x =
      fl_tensor_new(c, fl_node_from_host(c, c->default_device, (int)t, ndim, shape, data));
  FL_LEAVE(c);
  return x;
}

flame_tensor *flame_borrow(flame_context *c, flame_dtype t, int ndim, const int64_t *shape,
                           void *data, void (*release)(void *, void *), void *arg) {
  FL_HOLD(c, NULL);
  const int64_t bytes = checked_bytes(c, "borrow", t, ndim, shape);
  if (bytes < 0 || !usable_memory(c, "borrow", data, bytes)) return NULL;
  if ((uintptr_t)data % (uintptr_t)fl_dtype_size((int)t) != 0) {
    FL_FAIL(c, FLAME_BAD_ARGUMENT, "borrow", "the first element is not aligned to its size");
    return NULL;
  }
  FL_ENTER(c);
  fl_buffer *b = fl_buffer_foreign(c, data, bytes, NULL, NULL);
  flame_tensor *x = b
                    ? fl_tensor_new(c,
                                    fl_node_stored(c, (int)t, b,
                                                   fl_layout_of(&c->layouts, ndim, shape, NULL),
                                                   0)) : NULL;
  if (x) {                               /* only now: until here the memory belongs to the caller */
    b->release = release;
    b->arg = arg;
  }
  FL_LEAVE(c);
  return x;
}

/* ---- out ------------------------------------------------------------------------------------- */

/* n itself if its elements are row-major in one stretch of its buffer; otherwise a recorded
** copy. */
static fl_node *in_one_piece(flame_context *c, fl_node *n) {
  if (fl_evaluate(c, n) != FLAME_OK) return NULL;
  if (n->layout->contiguous) return n;
  const uint8_t grad = c->grad_mode;
  c->grad_mode = 0;
  fl_node *k = n_copy(n);
  c->grad_mode = grad;
  return k && fl_evaluate(c, k) == FLAME_OK ? k : NULL;
}

flame_status fl_read_node(flame_context *c, fl_node *n, void *out, size_t bytes) {
  const size_t have = (size_t)(n->shape->numel * fl_dtype_size(n->dtype));
  if (bytes != have)
    return FL_FAIL(c, FLAME_BAD_ARGUMENT, "read", "room for %zu bytes, the tensor has %zu",
                   bytes, have);
  const int64_t mark = fl_scope_begin(c);
  fl_node_hold(n);
  const fl_node *k = in_one_piece(c, n);
  flame_status s = FLAME_OK;
  if (!k) s = c->err.code != FLAME_OK ? c->err.code : FLAME_INTERNAL;
  else if (bytes) {
    c->stats.syncs++;
    s = c->up->download(c, k->device, out,
                        (const char *)k->buffer->ptr + k->offset * fl_dtype_size(k->dtype),
                        (int64_t)bytes);
  }
  fl_node_drop(n);
  fl_scope_end(c, mark);
  return s;
}

flame_status flame_read(flame_tensor *x, void *out, size_t bytes) {
  FL_HOLD(x ? x->ctx : NULL, FLAME_BAD_ARGUMENT);
  flame_context *c = x->ctx;
  if (!fl_tensor_open(x, "read")) return FLAME_BAD_ARGUMENT;
  if (!out && bytes)
    return FL_FAIL(c, FLAME_BAD_ARGUMENT, "read", "there is no room for %zu bytes", bytes);
  FL_ENTER(c);
  const flame_status s = fl_read_node(c, x->node, out, bytes);
  FL_LEAVE(c);
  return s;
}

flame_status flame_item(flame_tensor *x, double *value) {
  FL_HOLD(x ? x->ctx : NULL, FLAME_BAD_ARGUMENT);
  uint64_t bits = 0;
  flame_context *c = x->ctx;
  if (!fl_tensor_open(x, "item")) return FLAME_BAD_ARGUMENT;
  if (x->node->shape->numel != 1)
    return FL_FAIL(c, FLAME_BAD_ARGUMENT, "item", "the tensor has %lld elements, need one",
                   (long long)x->node->shape->numel);
  if (!value) return FL_FAIL(c, FLAME_BAD_ARGUMENT, "item", "there is no room for the value");
  const int dtype = x->node->dtype, number = x->node->state == FL_NUMBER;
  const flame_status s = number ? FLAME_OK : flame_read(x, &bits, (size_t)fl_dtype_size(dtype));
  if (s != FLAME_OK) return s;
  const fl_scalar v = number ? x->node->scal[0] : fl_scalar_load(&bits, dtype);
  *value = fl_is_float(dtype) ? v.d : (double)v.i;
  return FLAME_OK;
}

flame_status flame_eval(flame_context *c) {
  FL_HOLD(c, FLAME_BAD_ARGUMENT);
  return fl_evaluate_all(c);
}

/* ---- between devices ------------------------------------------------------------------------- */

/* Copies the bytes through host memory. */
static fl_node *carry(flame_context *c, fl_node *n, int device) {
  const int64_t bytes = n->shape->numel * fl_dtype_size(n->dtype);
  void *host = fl_alloc(&c->mem, (size_t)bytes);
  if (!host) {
    FL_FAIL(c, FLAME_NO_MEMORY, "to", "no %lld bytes of host memory", (long long)bytes);
    return NULL;
  }
  fl_node *y = NULL;
  if (fl_read_node(c, n, host, (size_t)bytes) == FLAME_OK)
    y = fl_node_from_host(c, device, n->dtype, n->shape->rank, n->shape->size, host);
  fl_free(&c->mem, host, (size_t)bytes);
  return y;
}

/* The gradient of a transfer is the transfer back. 'arg' is the source's device index. */
static flame_status carry_back(flame_context *c, void *arg, fl_node *y, fl_node *g, int nin,
                               fl_node **gin) {
  (void)y;
  (void)nin;
  gin[0] = fl_to_device(c, g, (int)(intptr_t)arg);
  return gin[0] ? FLAME_OK : c->err.code;
}

fl_node *fl_to_device(flame_context *c, fl_node *n, int device) {
  if (!n || n->device == device) return n;
  if (!fl_engine_device(c, device)) return NULL;
  fl_node *y = carry(c, n, device);
  if (!y || !n->entry || !c->grad_mode) return y;
  return n_ruled(y, 1, &n, carry_back, NULL, (void *)(intptr_t)n->device);
}

flame_tensor *flame_to_device(flame_tensor *x, const char *device) {
  FL_HOLD(x ? x->ctx : NULL, NULL);
  flame_context *c = x->ctx;
  const int d = fl_tensor_open(x, "to") ? fl_device_index(c, device ? device : "") : -1;
  if (d < 0) return NULL;
  FL_ENTER(c);
  flame_tensor *y = fl_tensor_new(c, fl_to_device(c, x->node, d));
  FL_LEAVE(c);
  return y;
}
