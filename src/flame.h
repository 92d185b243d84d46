/*
** flame.h: the C interface of flame-lua. The one public header.
**
** A context holds everything; it is entered by one thread at a time, by any thread, and
** contexts share nothing. A call by another thread meanwhile does nothing (flame_free: the tensor
** stays) and fails with FLAME_BAD_ARGUMENT, which that thread reads until it clears it; facts are
** not checked. Tensors are owned by the caller and freed with flame_free; a context may be closed
** before its tensors are (they then answer with errors), but not used. Functions that make a tensor
** return NULL on failure; NULL in (a context, too) gives NULL out, so calls can be chained and
** checked once: flame_error(c) gives the first message since the last flame_clear_error(c). Axes
** and positions are 0-based here, also in messages; negative axes count from the end. The values
** inside index tensors count from 1, as in Lua.
*/
#ifndef FLAME_H
#define FLAME_H
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#if defined(__GNUC__)
#define FLAME_API __attribute__((visibility("default")))
#else
#define FLAME_API
#endif

#define FLAME_VERSION "0.1.0"

typedef struct flame_context flame_context;
typedef struct flame_tensor flame_tensor;

typedef enum flame_status {
  FLAME_OK = 0,
  FLAME_BAD_ARGUMENT,     /* misuse: type, shape, dtype, axis, a view written, … */
  FLAME_BAD_VALUE,        /* found while computing: an index out of range */
  FLAME_NO_MEMORY,        /* host or device; the message says which, asked, free and live */
  FLAME_NO_DEVICE,        /* no such device, driver or library */
  FLAME_DEVICE_LOST,      /* sticky: the first cause is repeated from now on */
  FLAME_INTERRUPTED,
  FLAME_IO,
  FLAME_NOT_SUPPORTED,
  FLAME_INTERNAL          /* a bug of ours */
} flame_status;

typedef enum flame_dtype {
  FLAME_F64, FLAME_F32, FLAME_F16, FLAME_BF16, FLAME_I64, FLAME_I32, FLAME_I16, FLAME_I8,
  FLAME_U8, FLAME_BOOL, FLAME_DTYPE_COUNT
} flame_dtype;

typedef struct flame_options {
  const char *device;           /* default device, NULL: FLAME_DEVICE or "cpu" */
  int threads;                  /* CPU threads, 0: FLAME_THREADS or one per core */
  int64_t max_host_bytes;       /* 0: no limit */
} flame_options;

/* ---- contexts ------------------------------------------------------------------ */
FLAME_API flame_context *flame_open(const flame_options *options);   /* NULL: no memory */
FLAME_API void flame_close(flame_context *c);               /* NULL is fine */
/* "op: message", "" if none; c's, till its next call */
FLAME_API const char *flame_error(flame_context *c);
FLAME_API flame_status flame_error_code(flame_context *c);
FLAME_API void flame_clear_error(flame_context *c);
FLAME_API void flame_interrupt(flame_context *c);           /* async-signal-safe, any thread */
FLAME_API const char *flame_version(void);

/* ---- making tensors (shape: ndim sizes, at most 8) ---------------------------------- */
/* Copies 'data': row-major, elements of dtype t. */
FLAME_API flame_tensor *flame_from_data(flame_context *c, flame_dtype t, int ndim,
                                        const int64_t *shape, const void *data);
/* Memory of the host, unchanged until release(data, arg) is called; flame never writes it.
** Row-major, aligned to its elements. NULL: it stays the caller's, release is not called. CPU
** only. */
FLAME_API flame_tensor *flame_borrow(flame_context *c, flame_dtype t, int ndim,
                                     const int64_t *shape, void *data,
                                     void (*release)(void *data, void *arg), void *arg);
/* DLPack: 'managed' is a DLManagedTensor. Its memory is used as flame_borrow uses memory, and its
** deleter called at the end; NULL: it stays the caller's. CPU, and CUDA devices that c can use. */
FLAME_API flame_tensor *flame_from_dlpack(flame_context *c, void *managed);
/* A DLManagedTensor * for another library, which calls its deleter: a copy, unless give_away is
** true (then x is freed, and handed over as it is where nothing else uses its memory). Copies of
** CPU tensors outlive the context, other exports must be deleted before it is closed. Evaluates. */
FLAME_API void *flame_to_dlpack(flame_tensor *x, int give_away);
FLAME_API flame_tensor *flame_full(flame_context *c, flame_dtype t, int ndim, const int64_t *shape,
                                   double value);
FLAME_API flame_tensor *flame_uniform(flame_context *c, flame_dtype t, int ndim,
                                      const int64_t *shape, double low, double high);
FLAME_API flame_tensor *flame_normal(flame_context *c, flame_dtype t, int ndim,
                                     const int64_t *shape, double mean, double deviation);
FLAME_API void flame_seed(flame_context *c, uint64_t seed);
FLAME_API void flame_free(flame_tensor *x);                 /* NULL is fine */

/* ---- facts; none evaluates ---------------------------------------------------------- */
FLAME_API flame_context *flame_context_of(const flame_tensor *x);
FLAME_API int flame_ndim(const flame_tensor *x);
FLAME_API int64_t flame_size(const flame_tensor *x, int axis);
FLAME_API int64_t flame_numel(const flame_tensor *x);
FLAME_API flame_dtype flame_dtype_of(const flame_tensor *x);

/* ---- values: these evaluate ------------------------------------------------------------ */
FLAME_API flame_status flame_item(flame_tensor *x, double *value);          /* one element */
/* row-major, x's dtype */
FLAME_API flame_status flame_read(flame_tensor *x, void *out, size_t bytes);
FLAME_API flame_status flame_eval(flame_context *c);                      /* all that is recorded */

/* ---- ops: by name, from the op table ("exp", "add", "where"); and the usual ones ---------- */
FLAME_API flame_tensor *flame_unary(const char *op, flame_tensor *x);
FLAME_API flame_tensor *flame_binary(const char *op, flame_tensor *x, flame_tensor *y);
FLAME_API flame_tensor *flame_ternary(const char *op, flame_tensor *x, flame_tensor *y,
                                      flame_tensor *z);
FLAME_API flame_tensor *flame_reduce(const char *op, flame_tensor *x, int naxes, const int *axes,
                                     int keepdim);
/* 0-d, takes the other operand's dtype */
FLAME_API flame_tensor *flame_number(flame_context *c, double v);
FLAME_API flame_tensor *flame_exp(flame_tensor *x);
FLAME_API flame_tensor *flame_log(flame_tensor *x);
FLAME_API flame_tensor *flame_tanh(flame_tensor *x);
FLAME_API flame_tensor *flame_relu(flame_tensor *x);
FLAME_API flame_tensor *flame_add(flame_tensor *x, flame_tensor *y);
FLAME_API flame_tensor *flame_sub(flame_tensor *x, flame_tensor *y);
FLAME_API flame_tensor *flame_mul(flame_tensor *x, flame_tensor *y);
FLAME_API flame_tensor *flame_div(flame_tensor *x, flame_tensor *y);
FLAME_API flame_tensor *flame_sum_all(flame_tensor *x);
FLAME_API flame_tensor *flame_mean_all(flame_tensor *x);
FLAME_API flame_tensor *flame_softmax(flame_tensor *x, int axis);
FLAME_API flame_tensor *flame_matmul(flame_tensor *x, flame_tensor *y);
FLAME_API flame_tensor *flame_reshape(flame_tensor *x, int ndim, const int64_t *shape);
FLAME_API flame_tensor *flame_permute(flame_tensor *x, const int *axes);
FLAME_API flame_tensor *flame_slice(flame_tensor *x, int axis, int64_t first, int64_t count,
                                    int64_t step);
FLAME_API flame_tensor *flame_cast(flame_tensor *x, flame_dtype t);
FLAME_API flame_tensor *flame_to_device(flame_tensor *x, const char *device);
FLAME_API flame_tensor *flame_clone(flame_tensor *x);
FLAME_API flame_tensor *flame_detach(flame_tensor *x);
/* x becomes v (same shape; v is cast). A view handle or a tracked leaf
** (outside no_grad) refuses. */
FLAME_API flame_status flame_write(flame_tensor *x, flame_tensor *v);

/* ---- gradients ------------------------------------------------------------------------------- */
FLAME_API flame_status flame_requires_grad(flame_tensor *x, int on);
/* seed NULL: x has one element */
FLAME_API flame_status flame_backward(flame_tensor *x, flame_tensor *seed);
/* a new handle on .grad, or NULL (no error) */
FLAME_API flame_tensor *flame_grad_of(flame_tensor *x);
FLAME_API void flame_zero_grad(flame_tensor *x);
FLAME_API int flame_grad_mode(flame_context *c, int on);      /* returns the mode before */

#ifdef __cplusplus
}
#endif
#endif
