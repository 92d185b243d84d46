/*
** flame.h: the C interface of flame-lua. The one public header.
**
** A context holds everything; it is entered by one thread at a time, by any thread, and contexts
** share nothing. A call by another thread during that time does nothing (flame_free: the tensor
** stays) and fails with FLAME_BAD_ARGUMENT, which that thread sees until it clears it; functions
** that only return facts do not check this. Tensors are owned by the caller and freed with
** flame_free; a context may be closed before its tensors are (they then answer with errors), but
** not used. Functions that make a tensor return NULL on failure; a NULL argument (also for a
** context) gives NULL, so calls can be chained and checked once: flame_error(c) gives the first
** message since the last flame_clear_error(c). Axes and positions are 0-based here, also in
** messages; negative axes count from the end. The values inside index tensors count from 1, as in
** Lua.
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
  FLAME_NO_MEMORY,        /* host or device; the message says which, and the bytes asked for, free
                          ** and in use */
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
/* For the first four, the limit is the amount in use at once: a request beyond it fails, as out of
** memory does, and nothing else changes. The others can be used up: then every call that records or
** computes fails with FLAME_INTERRUPTED, and Lua raises at each instruction, until flame_lua_pcall
** or flame_limit_restart. */
typedef enum flame_limit {
  FLAME_HOST_BYTES,       /* memory of the context, of its Lua state and of its sandboxes */
  FLAME_DEVICE_BYTES,     /* memory that GPU drivers have given, including cached memory */
  FLAME_NODES,            /* recorded values that are still needed */
  FLAME_COROUTINES,       /* of a state made by flame_lua_new */
  FLAME_CALL_NS,   /* time of one flame_lua_pcall, or of a function of flame.h called by the host */
  FLAME_TOTAL_NS,         /* of all of them */
  FLAME_LUA_STEPS,        /* instructions, and equivalent work of C functions */
  FLAME_KERNEL_STEPS,    /* instructions of user kernels, counted once for all threads of a block */
  FLAME_OUTPUT_BYTES,     /* written by print, io.write and to files */
  FLAME_LIMITS = 16
} flame_limit;

/* Permissions, as bits of 'deny'. ~0u denies everything, including what later versions add. */
typedef enum flame_permission {
  FLAME_READ = 1,         /* open files for reading */
  FLAME_WRITE = 2,        /* create, change and remove files */
  FLAME_KERNELS = 4,      /* compile kernels of the user */
  FLAME_CODE = 8,         /* Lua's load */
  FLAME_WORKERS = 16,     /* threads of data loaders; always denied in a state with limits */
  FLAME_DEVICES = 32,     /* devices other than the default one */
  FLAME_LIBRARIES = 64,   /* the host's BLAS and LAPACK, which can not be stopped half-way */
  FLAME_CLOCK = 128       /* os.time, os.clock, os.date, flame.timer */
} flame_permission;

/* Initialised by FLAME_OPTIONS, which sets 'size'. If all other fields are zero it is the same as
** NULL: no limits, everything allowed. Size 0 is refused, and so are fields that this version does
** not know, unless they are 0. A context whose options are refused fails in every call. */
typedef struct flame_options {
  size_t size;
  const char *device;           /* default device, NULL: FLAME_DEVICE or "cpu" */
  int threads;                  /* CPU threads, 0: FLAME_THREADS or one per core */
  uint32_t deny;                /* bits of flame_permission */
  const char *folder;           /* files are opened only below it, and links out of it are not
                                ** followed; NULL: anywhere */
  int64_t limit[FLAME_LIMITS];  /* by flame_limit; 0: none */
  void (*print)(void *arg, const char *s, size_t n);   /* output of a limited state; NULL: stdout */
  void (*warn)(void *arg, const char *s);  /* hints about likely mistakes, once per line; NULL:
                                           ** Lua's warn */
  void *arg;
  uint32_t allow;               /* FLAME_LIBRARIES: allowed despite limits of time or steps */
} flame_options;
#define FLAME_OPTIONS(...) (&(flame_options){ .size = sizeof(flame_options), __VA_ARGS__ })

/* ---- contexts ------------------------------------------------------------------ */
/* NULL: no memory. Refused options, or a bad device, are the first error of the context. */
FLAME_API flame_context *flame_open(const flame_options *options);
FLAME_API void flame_close(flame_context *c);               /* NULL is fine */
/* "op: message", "" if there is none; owned by c, until its next call */
FLAME_API const char *flame_error(flame_context *c);
FLAME_API flame_status flame_error_code(flame_context *c);
FLAME_API void flame_clear_error(flame_context *c);
FLAME_API void flame_interrupt(flame_context *c);           /* async-signal-safe, any thread */
/* Sets a limit, 0: none, and returns the previous one; most < 0 only returns it. Allowed during a
** call: the new limit holds from then on. -1: no such limit. */
FLAME_API int64_t flame_limit_set(flame_context *c, flame_limit which, int64_t most);
/* What is in use, or has been used up, of that limit; -1: no such limit. */
FLAME_API int64_t flame_limit_used(flame_context *c, flame_limit which);
/* Resets the counts of what is used up, and makes the context usable again. */
FLAME_API void flame_limit_restart(flame_context *c);
/* Stores an error in c, as functions of this header do; for callbacks of the library. Returns the
** code. */
FLAME_API flame_status flame_fail(flame_context *c, flame_status code, const char *op,
                                  const char *message);
FLAME_API const char *flame_version(void);

/* ---- making tensors (shape: the sizes of ndim axes, at most 8 of them) ---------------------- */
/* Copies 'data': row-major, elements of dtype t. */
FLAME_API flame_tensor *flame_from_data(flame_context *c, flame_dtype t, int ndim,
                                        const int64_t *shape, const void *data);
/* Uses memory of the host, which must not change until release(data, arg) is called; flame never
** writes it. Row-major, aligned to its elements. NULL: the memory remains the caller's, and release
** is not called. CPU only. */
FLAME_API flame_tensor *flame_borrow(flame_context *c, flame_dtype t, int ndim,
                                     const int64_t *shape, void *data,
                                     void (*release)(void *data, void *arg), void *arg);
/* DLPack: 'managed' is a DLManagedTensor. Its memory is used as by flame_borrow, and its deleter is
** called at the end; NULL: it remains the caller's. CPU, and CUDA devices that c can use. */
FLAME_API flame_tensor *flame_from_dlpack(flame_context *c, void *managed);
/* A DLManagedTensor * for another library, which calls its deleter: a copy, unless give_away is
** true (then x is freed, and its own memory is handed over if nothing else uses it). Copies of CPU
** tensors outlive the context, other exports must be deleted before it is closed. Evaluates x. */
FLAME_API void *flame_to_dlpack(flame_tensor *x, int give_away);
FLAME_API flame_tensor *flame_full(flame_context *c, flame_dtype t, int ndim, const int64_t *shape,
                                   double value);
FLAME_API flame_tensor *flame_uniform(flame_context *c, flame_dtype t, int ndim,
                                      const int64_t *shape, double low, double high);
FLAME_API flame_tensor *flame_normal(flame_context *c, flame_dtype t, int ndim,
                                     const int64_t *shape, double mean, double deviation);
/* from low to high, both included */
FLAME_API flame_tensor *flame_randint(flame_context *c, flame_dtype t, int ndim,
                                      const int64_t *shape, int64_t low, int64_t high);
FLAME_API void flame_seed(flame_context *c, uint64_t seed);
FLAME_API void flame_free(flame_tensor *x);                 /* NULL is fine */

/* ---- facts; none evaluates ---------------------------------------------------------- */
/* -1, or FLAME_DTYPE_COUNT: x is NULL or closed, or has no such axis. */
FLAME_API flame_context *flame_context_of(const flame_tensor *x);
FLAME_API int flame_ndim(const flame_tensor *x);
FLAME_API int64_t flame_size(const flame_tensor *x, int axis);
FLAME_API int64_t flame_numel(const flame_tensor *x);
FLAME_API flame_dtype flame_dtype_of(const flame_tensor *x);
FLAME_API const char *flame_device_of(const flame_tensor *x);   /* "cpu", "cuda:0"; "" if freed */
FLAME_API const char *flame_dtype_name(flame_dtype t);          /* "f32"; "" if there is none */
FLAME_API size_t flame_dtype_size(flame_dtype t);       /* bytes of an element; 0: no such dtype */

/* ---- values: these evaluate ------------------------------------------------------------ */
FLAME_API flame_status flame_item(flame_tensor *x, double *value);          /* one element */
/* Copies all elements, row-major, in x's dtype; 'bytes' must be exactly their size. */
FLAME_API flame_status flame_read(flame_tensor *x, void *out, size_t bytes);
/* All that is recorded. On a GPU the index checks of a run that repeats an earlier one are read
** later: by the next of these three, flame_synchronize, or the next evaluation. */
FLAME_API flame_status flame_eval(flame_context *c);

/* ---- devices and memory ---------------------------------------------------------------------- */
FLAME_API int flame_device_count(flame_context *c);    /* number of GPUs: "cuda:0" up to one less */
/* evaluates everything, and waits for the devices */
FLAME_API flame_status flame_synchronize(flame_context *c);
typedef struct flame_memory_use {       /* bytes */
  size_t size;                          /* size of the struct, set by the caller */
  int64_t tensors, tensors_peak;        /* tensors that have values */
  int64_t used, used_peak;              /* also temporary arrays of computations */
  int64_t reserved, reserved_peak;      /* also memory that is cached for reuse */
  int64_t available;                    /* free on the device */
  int64_t host, host_peak;              /* the context's own memory on the host */
} flame_memory_use;
/* device NULL: the default one */
FLAME_API flame_status flame_memory(flame_context *c, const char *device, flame_memory_use *m);
FLAME_API void flame_empty_cache(flame_context *c);     /* frees cached memory */

/* ---- files: safetensors, npz, npy ------------------------------------------------------------ */
/* Saves n tensors; the path's ending tells the format: ".npy" holds one tensor, ".npz" any number,
** and so does safetensors, which every other ending means. The old file stays until the new one is
** complete. */
FLAME_API flame_status flame_save(flame_context *c, const char *path, int n,
                                  const char *const *names, flame_tensor *const *x);
/* Loads the tensor of that name to the default device; name NULL: the file's only tensor. */
FLAME_API flame_tensor *flame_load(flame_context *c, const char *path, const char *name);
/* Reads all tensors, in the file's order: take owns x from then on, the name is valid during the
** call. A status other than FLAME_OK ends the reading. */
FLAME_API flame_status flame_load_all(flame_context *c, const char *path,
                                      flame_status (*take)(void *arg, const char *name,
                                                           flame_tensor *x),
                                      void *arg);

/* ---- ops: by name, from the op table ("exp", "add", "where"); and the usual ones ---------- */
FLAME_API flame_tensor *flame_unary(const char *op, flame_tensor *x);
FLAME_API flame_tensor *flame_binary(const char *op, flame_tensor *x, flame_tensor *y);
FLAME_API flame_tensor *flame_ternary(const char *op, flame_tensor *x, flame_tensor *y,
                                      flame_tensor *z);
FLAME_API flame_tensor *flame_reduce(const char *op, flame_tensor *x, int naxes, const int *axes,
                                     int keepdim);
/* 0-d, takes the other operand's dtype */
FLAME_API flame_tensor *flame_number(flame_context *c, double v);
FLAME_API flame_tensor *flame_sum_all(flame_tensor *x);
FLAME_API flame_tensor *flame_mean_all(flame_tensor *x);

/* Lines of src/tensor/ops.def: this part is generated by tools/docs. naxes 0: all axes. */
/* <ops> */
FLAME_API flame_tensor *flame_neg(flame_tensor *x);   /* minus x */
FLAME_API flame_tensor *flame_abs(flame_tensor *x);   /* absolute value */
FLAME_API flame_tensor *flame_sign(flame_tensor *x);   /* -1, 0 or 1 by the sign of x; NaN stays */
FLAME_API flame_tensor *flame_square(flame_tensor *x);   /* x times x */
FLAME_API flame_tensor *flame_sqrt(flame_tensor *x);   /* square root */
FLAME_API flame_tensor *flame_rsqrt(flame_tensor *x);   /* one over the square root */
FLAME_API flame_tensor *flame_reciprocal(flame_tensor *x);   /* one over x */
FLAME_API flame_tensor *flame_cbrt(flame_tensor *x);   /* cube root */
FLAME_API flame_tensor *flame_exp(flame_tensor *x);   /* e to the power x */
FLAME_API flame_tensor *flame_exp2(flame_tensor *x);   /* 2 to the power x */
FLAME_API flame_tensor *flame_expm1(flame_tensor *x);   /* exp(x) - 1, accurate near 0 */
FLAME_API flame_tensor *flame_log(flame_tensor *x);   /* natural logarithm */
FLAME_API flame_tensor *flame_log2(flame_tensor *x);   /* logarithm to base 2 */
FLAME_API flame_tensor *flame_log10(flame_tensor *x);   /* logarithm to base 10 */
FLAME_API flame_tensor *flame_log1p(flame_tensor *x);   /* log(1 + x), accurate near 0 */
FLAME_API flame_tensor *flame_sin(flame_tensor *x);   /* sine of x in radians */
FLAME_API flame_tensor *flame_cos(flame_tensor *x);   /* cosine of x in radians */
FLAME_API flame_tensor *flame_tan(flame_tensor *x);   /* tangent of x in radians */
FLAME_API flame_tensor *flame_asin(flame_tensor *x);   /* arc sine */
FLAME_API flame_tensor *flame_acos(flame_tensor *x);   /* arc cosine */
FLAME_API flame_tensor *flame_atan(flame_tensor *x);   /* arc tangent */
FLAME_API flame_tensor *flame_sinh(flame_tensor *x);   /* hyperbolic sine */
FLAME_API flame_tensor *flame_cosh(flame_tensor *x);   /* hyperbolic cosine */
FLAME_API flame_tensor *flame_tanh(flame_tensor *x);   /* hyperbolic tangent */
FLAME_API flame_tensor *flame_asinh(flame_tensor *x);   /* inverse hyperbolic sine */
FLAME_API flame_tensor *flame_acosh(flame_tensor *x);   /* inverse hyperbolic cosine */
FLAME_API flame_tensor *flame_atanh(flame_tensor *x);   /* inverse hyperbolic tangent */
FLAME_API flame_tensor *flame_erf(flame_tensor *x);   /* error function */
FLAME_API flame_tensor *flame_erfc(flame_tensor *x);   /* 1 - erf(x) */
FLAME_API flame_tensor *flame_erfinv(flame_tensor *x);   /* inverse of erf */
FLAME_API flame_tensor *flame_lgamma(flame_tensor *x);   /* logarithm of |gamma(x)| */
FLAME_API flame_tensor *flame_digamma(flame_tensor *x);   /* derivative of lgamma */
FLAME_API flame_tensor *flame_trigamma(flame_tensor *x);   /* derivative of digamma */
FLAME_API flame_tensor *flame_floor(flame_tensor *x);   /* largest integer not above x */
FLAME_API flame_tensor *flame_ceil(flame_tensor *x);   /* smallest integer not below x */
FLAME_API flame_tensor *flame_round(flame_tensor *x);   /* nearest integer, halves to even */
FLAME_API flame_tensor *flame_trunc(flame_tensor *x);   /* integer part, towards 0 */
FLAME_API flame_tensor *flame_frac(flame_tensor *x);   /* x - trunc(x) */
FLAME_API flame_tensor *flame_relu(flame_tensor *x);   /* max(x, 0) */
FLAME_API flame_tensor *flame_sigmoid(flame_tensor *x);   /* 1 / (1 + exp(-x)) */
FLAME_API flame_tensor *flame_softplus(flame_tensor *x);   /* log(1 + exp(x)) */
FLAME_API flame_tensor *flame_isnan(flame_tensor *x);   /* is x not a number */
FLAME_API flame_tensor *flame_isinf(flame_tensor *x);   /* is x infinite */
FLAME_API flame_tensor *flame_isfinite(flame_tensor *x);   /* is x neither infinite nor NaN */
FLAME_API flame_tensor *flame_logical_not(flame_tensor *x);   /* is x zero */
FLAME_API flame_tensor *flame_bitwise_not(flame_tensor *x);   /* all bits flipped; of bool: not */
FLAME_API flame_tensor *flame_add(flame_tensor *x1, flame_tensor *x2);   /* sum */
FLAME_API flame_tensor *flame_sub(flame_tensor *x1, flame_tensor *x2);   /* difference */
FLAME_API flame_tensor *flame_mul(flame_tensor *x1, flame_tensor *x2);   /* product */
FLAME_API flame_tensor *flame_div(flame_tensor *x1, flame_tensor *x2);   /* quotient, a float */
/* the first to the power of the second */
FLAME_API flame_tensor *flame_pow(flame_tensor *x1, flame_tensor *x2);
/* quotient rounded down; integers by zero give 0 */
FLAME_API flame_tensor *flame_floordiv(flame_tensor *x1, flame_tensor *x2);
/* remainder with the sign of the divisor */
FLAME_API flame_tensor *flame_mod(flame_tensor *x1, flame_tensor *x2);
/* remainder with the sign of the dividend */
FLAME_API flame_tensor *flame_fmod(flame_tensor *x1, flame_tensor *x2);
/* the larger; NaN wins; ties share the gradient */
FLAME_API flame_tensor *flame_maximum(flame_tensor *x1, flame_tensor *x2);
/* the smaller; NaN wins; ties share the gradient */
FLAME_API flame_tensor *flame_minimum(flame_tensor *x1, flame_tensor *x2);
/* arc tangent of the first over the second, from -pi to pi by their signs */
FLAME_API flame_tensor *flame_atan2(flame_tensor *x1, flame_tensor *x2);
/* root of the sum of the squares of both, without overflow */
FLAME_API flame_tensor *flame_hypot(flame_tensor *x1, flame_tensor *x2);
/* the first with the sign of the second */
FLAME_API flame_tensor *flame_copysign(flame_tensor *x1, flame_tensor *x2);
FLAME_API flame_tensor *flame_eq(flame_tensor *x1, flame_tensor *x2);   /* are both equal */
FLAME_API flame_tensor *flame_ne(flame_tensor *x1, flame_tensor *x2);   /* do they differ */
/* is the first below the second */
FLAME_API flame_tensor *flame_lt(flame_tensor *x1, flame_tensor *x2);
/* is the first at most the second */
FLAME_API flame_tensor *flame_le(flame_tensor *x1, flame_tensor *x2);
/* is the first above the second */
FLAME_API flame_tensor *flame_gt(flame_tensor *x1, flame_tensor *x2);
/* is the first at least the second */
FLAME_API flame_tensor *flame_ge(flame_tensor *x1, flame_tensor *x2);
/* are both not zero */
FLAME_API flame_tensor *flame_logical_and(flame_tensor *x1, flame_tensor *x2);
/* is either not zero */
FLAME_API flame_tensor *flame_logical_or(flame_tensor *x1, flame_tensor *x2);
/* is exactly one not zero */
FLAME_API flame_tensor *flame_logical_xor(flame_tensor *x1, flame_tensor *x2);
FLAME_API flame_tensor *flame_bitwise_and(flame_tensor *x1, flame_tensor *x2);   /* bits in both */
FLAME_API flame_tensor *flame_bitwise_or(flame_tensor *x1, flame_tensor *x2);   /* bits in either */
/* bits in exactly one */
FLAME_API flame_tensor *flame_bitwise_xor(flame_tensor *x1, flame_tensor *x2);
/* x2 where x1 holds, else x3 */
FLAME_API flame_tensor *flame_where(flame_tensor *x1, flame_tensor *x2, flame_tensor *x3);
/* x1 kept between x2 and x3; NaN stays */
FLAME_API flame_tensor *flame_clamp(flame_tensor *x1, flame_tensor *x2, flame_tensor *x3);
/* sum */
FLAME_API flame_tensor *flame_sum(flame_tensor *x, int naxes, const int *axes, int keepdim);
/* product */
FLAME_API flame_tensor *flame_prod(flame_tensor *x, int naxes, const int *axes, int keepdim);
/* largest; NaN wins; ties share the gradient */
FLAME_API flame_tensor *flame_amax(flame_tensor *x, int naxes, const int *axes, int keepdim);
/* smallest; NaN wins; ties share the gradient */
FLAME_API flame_tensor *flame_amin(flame_tensor *x, int naxes, const int *axes, int keepdim);
/* position of the largest, the first of ties; NaN wins */
FLAME_API flame_tensor *flame_argmax(flame_tensor *x, int naxes, const int *axes, int keepdim);
/* position of the smallest, the first of ties; NaN wins */
FLAME_API flame_tensor *flame_argmin(flame_tensor *x, int naxes, const int *axes, int keepdim);
/* is any element not zero */
FLAME_API flame_tensor *flame_any(flame_tensor *x, int naxes, const int *axes, int keepdim);
/* is every element not zero */
FLAME_API flame_tensor *flame_all(flame_tensor *x, int naxes, const int *axes, int keepdim);
/* </ops> */

/* ---- of several ops: products, along axes, norms, activations, losses ----------------------- */
FLAME_API flame_tensor *flame_matmul(flame_tensor *x, flame_tensor *y);
/* x w' + b; w: (out, in); b may be NULL: none */
FLAME_API flame_tensor *flame_linear(flame_tensor *x, flame_tensor *w, flame_tensor *b);
FLAME_API flame_tensor *flame_mean(flame_tensor *x, int naxes, const int *axes, int keepdim);
/* variance: the sum of the squared deviations from the mean, divided by n - correction */
FLAME_API flame_tensor *flame_var(flame_tensor *x, int naxes, const int *axes, double correction,
                                  int keepdim);
FLAME_API flame_tensor *flame_logsumexp(flame_tensor *x, int naxes, const int *axes, int keepdim);
FLAME_API flame_tensor *flame_softmax(flame_tensor *x, int axis);
FLAME_API flame_tensor *flame_log_softmax(flame_tensor *x, int axis);
/* normalises over the last naxes axes; w and b, of the sizes of these, may be NULL */
FLAME_API flame_tensor *flame_layer_norm(flame_tensor *x, int naxes, flame_tensor *w,
                                         flame_tensor *b, double eps);
/* normalises; channels are axis 1; w and b, one number for each channel, may be NULL */
FLAME_API flame_tensor *flame_group_norm(flame_tensor *x, int64_t groups, flame_tensor *w,
                                         flame_tensor *b, double eps);
FLAME_API flame_tensor *flame_gelu(flame_tensor *x, int tanh_form);
FLAME_API flame_tensor *flame_silu(flame_tensor *x);
/* zeros with probability p, the others scaled by 1 / (1 - p) */
FLAME_API flame_tensor *flame_dropout(flame_tensor *x, double p);
/* rows of w (count, size) by ids from 1 */
FLAME_API flame_tensor *flame_embedding(flame_tensor *ids, flame_tensor *w);
typedef enum flame_reduction { FLAME_EACH, FLAME_MEAN, FLAME_SUM } flame_reduction;
/* x: (n, classes, …) scores; target: classes from 1 (n, …), or floats of x's shape, probabilities;
** weight: one for each class, or NULL; ignore: a class that is not counted, such as -100 */
FLAME_API flame_tensor *flame_cross_entropy(flame_tensor *x, flame_tensor *target,
                                            flame_tensor *weight, flame_reduction reduction,
                                            int64_t ignore, double smoothing);
/* softmax(scale q k' + mask) v of q (b, h, t, d), k (b, hk, s, d), v (b, hk, s, d2), where hk
** divides h; mask: bool (true takes part) or added, broadcast to (b, h, t, s), or NULL */
FLAME_API flame_tensor *flame_attention(flame_tensor *q, flame_tensor *k, flame_tensor *v,
                                        flame_tensor *mask, double scale, int causal);

/* ---- shapes ---------------------------------------------------------------------------------- */
/* first, first + step, …: n of them */
FLAME_API flame_tensor *flame_arange(flame_context *c, flame_dtype t, double first, double step,
                                     int64_t n);
FLAME_API flame_tensor *flame_cat(flame_context *c, int n, flame_tensor *const *x, int axis);
FLAME_API flame_tensor *flame_stack(flame_context *c, int n, flame_tensor *const *x, int axis);
/* adds this many elements at the sides of each axis; < 0: removes them */
FLAME_API flame_tensor *flame_pad(flame_tensor *x, const int64_t *before, const int64_t *after,
                                  double value);
/* Views; reshape copies where no view of x has the shape. One of its sizes may be -1; sizes of
** expand that are -1 stay as they are. */
FLAME_API flame_tensor *flame_reshape(flame_tensor *x, int ndim, const int64_t *shape);
FLAME_API flame_tensor *flame_permute(flame_tensor *x, const int *axes);
FLAME_API flame_tensor *flame_transpose(flame_tensor *x, int axis1, int axis2);
FLAME_API flame_tensor *flame_slice(flame_tensor *x, int axis, int64_t first, int64_t count,
                                    int64_t step);
FLAME_API flame_tensor *flame_select(flame_tensor *x, int axis, int64_t i);  /* without the axis */
FLAME_API flame_tensor *flame_expand(flame_tensor *x, int ndim, const int64_t *shape);
/* x without the axis if its size is 1, else x */
FLAME_API flame_tensor *flame_squeeze(flame_tensor *x, int axis);
/* x with one more axis, of size 1; 'axis' is its place in the result */
FLAME_API flame_tensor *flame_unsqueeze(flame_tensor *x, int axis);

/* ---- indexing: idx holds positions from 1, or negative ones, of any integer dtype ---------- */
/* the parts x[…, idx, …] along the axis */
FLAME_API flame_tensor *flame_index_select(flame_tensor *x, int axis, flame_tensor *idx);
/* gathers single elements: idx has the shape of the result, and is not larger than x in the axes
** other than 'axis' */
FLAME_API flame_tensor *flame_gather(flame_tensor *x, int axis, flame_tensor *idx);
/* x with src stored, or added, at the positions that flame_gather reads */
FLAME_API flame_tensor *flame_scatter(flame_tensor *x, int axis, flame_tensor *idx,
                                      flame_tensor *src);
FLAME_API flame_tensor *flame_scatter_add(flame_tensor *x, int axis, flame_tensor *idx,
                                          flame_tensor *src);
/* x with src stored, or added, at the positions that flame_index_select reads */
FLAME_API flame_tensor *flame_index_copy(flame_tensor *x, int axis, flame_tensor *idx,
                                         flame_tensor *src);
FLAME_API flame_tensor *flame_index_add(flame_tensor *x, int axis, flame_tensor *idx,
                                        flame_tensor *src);
/* the lower triangle of the last two axes, up to diagonal k, and the upper one, from diagonal k on;
** diagonal 0 is the main one, 1 the one above it */
FLAME_API flame_tensor *flame_tril(flame_tensor *x, int64_t k);
FLAME_API flame_tensor *flame_triu(flame_tensor *x, int64_t k);

/* ---- separate values, devices, writes -------------------------------------------------------- */
FLAME_API flame_tensor *flame_cast(flame_tensor *x, flame_dtype t);
FLAME_API flame_tensor *flame_to_device(flame_tensor *x, const char *device);
FLAME_API flame_tensor *flame_clone(flame_tensor *x);
FLAME_API flame_tensor *flame_detach(flame_tensor *x);
/* x gets the value v (same shape; v is cast). A view handle, or a tracked leaf outside no_grad, is
** refused. */
FLAME_API flame_status flame_write(flame_tensor *x, flame_tensor *v);
/* Writes v, broadcast, to the elements first, first + step, … of an axis of x. */
FLAME_API flame_status flame_write_slice(flame_tensor *x, int axis, int64_t first, int64_t count,
                                         int64_t step, flame_tensor *v);

/* ---- gradients ------------------------------------------------------------------------------- */
FLAME_API flame_status flame_requires_grad(flame_tensor *x, int on);
/* seed NULL: x has one element */
FLAME_API flame_status flame_backward(flame_tensor *x, flame_tensor *seed);
/* a new handle on .grad, or NULL (no error) */
FLAME_API flame_tensor *flame_grad_of(flame_tensor *x);
FLAME_API void flame_zero_grad(flame_tensor *x);
FLAME_API int flame_grad_mode(flame_context *c, int on);      /* returns the mode before */

/* ---- functions of the host, with their own gradient ---------------------------------- */
/* 'in', 'out' and 'dout' are borrowed by the callbacks; 'out' and 'din' are handed over, also if a
** callback fails. Callbacks may call every function but flame_close; a status other than FLAME_OK,
** or an error that they leave in the context, is a failure of the function that called them.
** Initialised by FLAME_FUNCTION, which sets the size; fields that a smaller struct lacks are 0. */
typedef struct flame_function {
  size_t size;
  const char *name;             /* in messages */
  int nin, nout;                /* inputs and results: at most 255, nout 1 or more */
  void *arg;
  void (*release)(void *arg);   /* called once, when 'arg' is no longer needed; may do nothing but
                                ** free memory */
  /* Runs once, in flame_apply, outside the tape. */
  flame_status (*forward)(flame_context *c, void *arg, flame_tensor *const *in,
                          flame_tensor **out);
  /* Runs once in each walk that reaches it; its ops are recorded, so gradients have gradients.
  ** dout[i] is NULL if out[i] is not a float, zeros if nothing depends on it; din[i] has in[i]'s
  ** shape and may stay NULL for no gradient. backward NULL: the results are not tracked. */
  flame_status (*backward)(flame_context *c, void *arg, flame_tensor *const *in,
                           flame_tensor *const *out, flame_tensor *const *dout,
                           flame_tensor **din);
} flame_function;
#define FLAME_FUNCTION(...) (&(flame_function){ .size = sizeof(flame_function), __VA_ARGS__ })
/* Calls f on 'in' and writes nout tensors to out, all NULL on failure. f is copied. 'release' is
** called also if this fails, unless f itself is refused: size 0, no forward, a wrong nin or
** nout. */
FLAME_API flame_status flame_apply(flame_context *c, const flame_function *f,
                                   flame_tensor *const *in, flame_tensor **out);

/* ---- saved programs: docs/programs.md -------------------------------------------------------- */
/* A program from a file of flame.export, which runs without Lua: graphs of operations, their
** weights, state and kernels, on c's default device. A program belongs to the caller, who frees it,
** and is used like its context, by one thread at a time; after flame_close it can only be freed. */
typedef struct flame_program flame_program;
/* Loads a program; everything in the file is checked. NULL: an error. */
FLAME_API flame_program *flame_program_load(flame_context *c, const char *path);
FLAME_API void flame_program_free(flame_program *p);        /* NULL is fine */
/* The number of axes of input or output i, from 0; -1: there is none. Each pointer may be NULL:
** name, owned by p; dtype; sizes, at most 8, -1 if several are accepted. */
FLAME_API int flame_program_input(const flame_program *p, int i, const char **name, flame_dtype *t,
                                  int64_t *size);
FLAME_API int flame_program_output(const flame_program *p, int i, const char **name,
                                   flame_dtype *t, int64_t *size);
/* Restarts the program's own stream of random numbers, as flame_seed does for a context's. */
FLAME_API void flame_program_seed(flame_program *p, uint64_t seed);
/* Resets the state to that in the file, and the random numbers to seed 0. */
FLAME_API void flame_program_reset(flame_program *p);
/* Records one run, as a call of the function would: nothing is computed yet. Inputs must have the
** right number, dtype and device, and sizes for which the program has a graph. out: nout new
** handles, untracked; all NULL on failure, and the state is as before. */
FLAME_API flame_status flame_program_run(flame_program *p, int nin, flame_tensor *const *in,
                                         int nout, flame_tensor **out);

/* <full> */
/* ---- everything else, by name: in libflame-full and flame.so, not in libflame ---------------- */
/* Functions, modules, optimisers and their methods, as scripts call them: "cat", "nn.Linear",
** "optim.Adam", "linalg.svd". Arguments are checked by the declarations that docs/ops.md shows;
** axes count from 0, also in messages (those within the lists of tensordot excepted), and every
** other number means what that page says. The first call makes a hidden Lua state, which exists as
** long as the context; a context that was made by a state uses that state. */
typedef enum flame_kind {
  FLAME_NIL, FLAME_BOOLEAN, FLAME_INTEGER, FLAME_NUMBER, FLAME_STRING, FLAME_TENSOR, FLAME_LIST,
  FLAME_OBJECT
} flame_kind;
typedef struct flame_object flame_object;

/* name: of an option, or of a field of a list; NULL: by position. count: elements of a list, bytes
** of a string (0: up to its zero byte). A list with names is a table with fields. Tensors and
** objects in results are owned by the caller; texts, and the elements of lists, are valid until the
** next call in the context. A table without a metatable is returned as a list, every other kind of
** value as an object. */
typedef struct flame_value {
  const char *name;
  flame_kind kind;
  size_t count;
  union {
    int64_t i;                  /* for FLAME_BOOLEAN too: 0 or 1 */
    double n;
    const char *s;
    flame_tensor *t;
    flame_object *o;
    const struct flame_value *list;
  } as;
} flame_value;

/* Returns the first nresult results, FLAME_NIL where there are fewer or if it fails. If the name is
** that of a value and not of a function ("version"), it returns the value. */
FLAME_API flame_status flame_call(flame_context *c, const char *function, int narg,
                                  const flame_value *arg, int nresult, flame_value *result);
/* name NULL: calls the object itself, like a module. Without arguments a field is read, with one it
** is set. */
FLAME_API flame_status flame_method(flame_object *o, const char *name, int narg,
                                    const flame_value *arg, int nresult, flame_value *result);
FLAME_API void flame_object_free(flame_object *o);   /* NULL is allowed; also after flame_close */
FLAME_API flame_context *flame_object_context(const flame_object *o);   /* NULL: it is closed */
/* Frees the tensors and objects of results, and makes them FLAME_NIL. */
FLAME_API void flame_values_free(int n, flame_value *v);

/* ---- user kernels (docs/kernels.md), in the libraries that have flame_call ------------------- */
typedef struct flame_kernel flame_kernel;
/* entry NULL: the source's only one. Options by name, as flame.kernel takes them: "block", "grid",
** "shape", "inout", "constants". */
FLAME_API flame_kernel *flame_kernel_open(flame_context *c, const char *source, const char *entry,
                                          int nopt, const flame_value *options);
FLAME_API void flame_kernel_free(flame_kernel *k);
/* grid, block NULL: as configured for the kernel. The arguments are those of the signature without
** outputs, FLAME_NIL for a null pointer if the kernel tests that one for NULL; with a name they are
** options of this launch ("shape"). Recorded and differentiated like an op; there are as many
** results as the kernel has, NULL for an inout that is nil. */
FLAME_API flame_status flame_kernel_run(flame_kernel *k, const int64_t grid[3],
                                        const int64_t block[3], int narg, const flame_value *arg,
                                        int nout, flame_tensor **out);
/* The text of parameter i, as "const float *x: in", until the next call; NULL beyond the last. */
FLAME_API const char *flame_kernel_param(flame_kernel *k, int i);
/* The kernel's text; of: NULL for its own, "adjoint" or "tangent" for that of the derived kernel.
** NULL: there is none. */
FLAME_API const char *flame_kernel_source(flame_kernel *k, const char *of);
/* </full> */

#ifdef __cplusplus
}
#endif
#endif
