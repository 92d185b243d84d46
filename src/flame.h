/*
** flame.h: the C interface of flame-lua. The one public header.
**
** A context holds everything; it is entered by one thread at a time, by any thread, and contexts
** share nothing. A call by another thread meanwhile does nothing (flame_free: the tensor stays)
** and fails with FLAME_BAD_ARGUMENT, which that thread reads until it clears it; facts are not
** checked. Tensors are owned by the caller and freed with flame_free; a context may be closed
** before its tensors are (they then answer with errors), but not used. Functions that make a
** tensor return NULL on failure; NULL in (a context, too) gives NULL out, so calls can be
** chained and checked once: flame_error(c) gives the first message since the last
** flame_clear_error(c). Axes and positions are 0-based here, also in messages; negative axes
** count from the end. The values inside index tensors count from 1, as in Lua.
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
  FLAME_INTERRUPTED,      /* by flame_interrupt, or a limit is used up: the message says which */
  FLAME_IO,
  FLAME_NOT_SUPPORTED,
  FLAME_INTERNAL          /* a bug of ours */
} flame_status;

typedef enum flame_dtype {
  FLAME_F64, FLAME_F32, FLAME_F16, FLAME_BF16, FLAME_I64, FLAME_I32, FLAME_I16, FLAME_I8,
  FLAME_U8, FLAME_BOOL, FLAME_DTYPE_COUNT
} flame_dtype;

/* ---- limits and permissions: docs/security.md ----------------------------------------- */
/* Of the first four so many are in use at once: what would go over the limit fails, as out of
** memory does, and nothing else changes. The others are used up: then every call that records or
** computes fails with FLAME_INTERRUPTED, and Lua raises at each instruction, until
** flame_lua_pcall or flame_limit_restart. */
typedef enum flame_limit {
  FLAME_HOST_BYTES,       /* memory of the context, of its Lua state and of its sandboxes */
  FLAME_DEVICE_BYTES,     /* memory held from the drivers of GPUs, that kept for later included */
  FLAME_NODES,            /* recorded values that are still wanted */
  FLAME_COROUTINES,       /* of a state that flame_lua_new made */
  FLAME_CALL_NS,          /* of one flame_lua_pcall, or function of flame.h called by the host */
  FLAME_TOTAL_NS,         /* of all of them */
  FLAME_LUA_STEPS,        /* instructions, and what functions of C do instead of them */
  FLAME_KERNEL_STEPS,     /* instructions of user kernels, one for all threads of a block */
  FLAME_OUTPUT_BYTES,     /* written by print, io.write and to files */
  FLAME_LIMITS = 16
} flame_limit;

/* What a context may not do; ~0u: all of it, and what later versions can do besides. */
typedef enum flame_permission {
  FLAME_READ = 1,         /* open files for reading */
  FLAME_WRITE = 2,        /* make, change and remove files */
  FLAME_KERNELS = 4,      /* compile kernels of the user's */
  FLAME_CODE = 8,         /* Lua's load */
  FLAME_WORKERS = 16,     /* threads of loaders: never in a state with limits */
  FLAME_DEVICES = 32,     /* devices but the default one */
  FLAME_LIBRARIES = 64,   /* the host's BLAS and LAPACK, which can not be stopped half-way */
  FLAME_CLOCK = 128       /* os.time, os.clock, os.date */
} flame_permission;

/* All zero is as NULL: no limits, everything allowed. Written by FLAME_OPTIONS, which sets the
** size; size 0 is refused, as is what this version does not know. A context whose options are
** refused fails in every call. */
typedef struct flame_options {
  size_t size;
  const char *device;           /* default device, NULL: FLAME_DEVICE or "cpu" */
  int threads;                  /* CPU threads, 0: FLAME_THREADS or one per core */
  uint32_t deny;                /* bits of flame_permission */
  const char *folder;           /* files are opened beneath it alone, links are not followed out of
                                ** it; NULL: anywhere */
  int64_t limit[FLAME_LIMITS];  /* by flame_limit; 0: none */
  void (*print)(void *arg, const char *s, size_t n);   /* of a limited state; NULL: stdout */
  void (*warn)(void *arg, const char *s);  /* slips, once for a line; NULL: Lua's warn */
  void *arg;
  uint32_t allow;               /* FLAME_LIBRARIES: also where a limit can be used up */
} flame_options;
#define FLAME_OPTIONS(...) (&(flame_options){ .size = sizeof(flame_options), __VA_ARGS__ })

/* ---- contexts ------------------------------------------------------------------ */
/* NULL: no memory. Options that are refused, a bad device: the first error of the context. */
FLAME_API flame_context *flame_open(const flame_options *options);
FLAME_API void flame_close(flame_context *c);               /* NULL is fine */
/* "op: message", "" if none; c's, till its next call */
FLAME_API const char *flame_error(flame_context *c);
FLAME_API flame_status flame_error_code(flame_context *c);
FLAME_API void flame_clear_error(flame_context *c);
FLAME_API void flame_interrupt(flame_context *c);           /* async-signal-safe, any thread */
/* The limit before, 0: none; most < 0 only asks. Allowed in a call: it holds from then on. -1: no
** such limit. */
FLAME_API int64_t flame_limit_set(flame_context *c, flame_limit which, int64_t most);
FLAME_API int64_t flame_limit_used(flame_context *c, flame_limit which);
/* What is used up counts from 0 again, and the context is usable again. */
FLAME_API void flame_limit_restart(flame_context *c);
/* Keep an error, as functions of this header do: for what the library calls. Gives the code. */
FLAME_API flame_status flame_fail(flame_context *c, flame_status code, const char *op,
                                  const char *message);
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
/* DLPack: 'managed' is a DLManagedTensor. Its memory is used as flame_borrow uses memory, and
** its deleter called at the end; NULL: it stays the caller's. CPU, and CUDA devices that c can
** use. */
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

/* ---- functions of the host, with their own gradient ---------------------------------- */
/* 'in', 'out', 'dout' are borrowed by the callbacks, 'out' and 'din' handed over, also where they
** fail. They may call all but flame_close, and another status than FLAME_OK, or an error that
** they leave in the context, is the failure of what called them. Written by FLAME_FUNCTION, which
** sets the size; what a smaller struct lacks is 0. */
typedef struct flame_function {
  size_t size;
  const char *name;             /* in messages */
  int nin, nout;                /* inputs and results: at most 255, nout 1 or more */
  void *arg;
  void (*release)(void *arg);   /* called once, when nothing needs 'arg' any more; frees only */
  /* Runs once, in flame_apply, outside the tape. */
  flame_status (*forward)(flame_context *c, void *arg, flame_tensor *const *in,
                          flame_tensor **out);
  /* Runs once in each walk that comes here; its ops are recorded, so gradients have gradients.
  ** dout[i] is NULL where out[i] is no float, zeros where nothing depends on it; din[i], of in[i]'s
  ** shape, may stay NULL: nothing. NULL: the results are not tracked. */
  flame_status (*backward)(flame_context *c, void *arg, flame_tensor *const *in,
                           flame_tensor *const *out, flame_tensor *const *dout,
                           flame_tensor **din);
} flame_function;
#define FLAME_FUNCTION(...) (&(flame_function){ .size = sizeof(flame_function), __VA_ARGS__ })
/* nout tensors into out, all NULL on failure. f is copied. 'release' is called also where the call
** fails, unless f itself is refused: size 0, no forward, a wrong number of inputs or results. */
FLAME_API flame_status flame_apply(flame_context *c, const flame_function *f,
                                   flame_tensor *const *in, flame_tensor **out);

#ifdef __cplusplus
}
#endif
#endif
