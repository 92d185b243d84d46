/* Launches of user kernels (launch.h): arguments, geometry, the node that is recorded. */
#include "engine/launch.h"
#include <string.h>

enum { SECTION = 256, MOST_SHARED = FL_K_MOST_SHARED };
#define MOST_ELEMENTS (INT64_C(1) << 50)

#define FAIL(l, ...) FL_FAIL((l)->c, FLAME_BAD_ARGUMENT, (l)->name, __VA_ARGS__)

/* Begins a launch of k. The struct's large arrays are not cleared, which would take too long:
** recording a call takes less than a microsecond. */
void fl_launch_begin(fl_launch *l, flame_context *c, fl_kfunction *k) {
  l->c = c;
  l->k = k;
  l->name = k->f->name;
  l->device = c ? c->default_device : 0;
  l->nscalar = l->nin = l->nout = 0;
  l->bytes = l->batch = 0;
  memset(l->p, 0, sizeof l->p[0] * (size_t)(FL_KP_ARGS + 2 * k->f->n_params));
  l->p[FL_KP_COUNT_ARGS] = k->f->n_params;
}

/* ---- arrays ---------------------------------------------------------------------------------- */

/* Are the elements of one type without gaps: a float4, a struct of floats? */
static int is_plain(const fl_kparam *q) {
  return fl_kt_held_as(q->type) >= 0 && q->pointee_size == (int64_t)q->width * fl_kt_size(q->type);
}

static int has_type(const fl_launch *l, const fl_kparam *q, const fl_node *x) {
  const int want = q->type < FL_KT_COUNT ? fl_kt_held_as(q->type) : -1;
  const char *got = fl_dtype_name(x->dtype);
  if (l->k->binary || x->dtype == (is_plain(q) ? want : FLAME_U8)) return 1;
  if (!is_plain(q) || (q->is_struct && q->type == FL_KT_U8))
    FAIL(l, "%s points to %s" FL_DO ": pass its bytes as a u8 tensor, got %s", q->name,
         q->type_name, got);
  else if (x->dtype == FLAME_U8 && (q->is_struct || fl_ktypes[q->type].dtype < 0)) return 1;
  else
    FAIL(l, "%s must be %s, got %s" FL_DO "; cast it first", q->name, fl_dtype_name(want), got);
  return 0;
}

static int is_on_device(fl_launch *l, const fl_kparam *q, const fl_node *x) {
  char a[16], b[16];
  if (!l->nin) l->device = x->device;
  if (x->device == l->device) return 1;
  fl_device_name(x->device, a);
  fl_device_name(l->device, b);
  FAIL(l, "%s is on %s and the arguments before it on %s" FL_DO "; use :to()", q->name, a, b);
  return 0;
}

int fl_launch_takes(fl_launch *l, int i, const char *index, const fl_node *x) {
  char shape[192];
  const fl_kparam *q = &l->k->f->params[i];
  if (!has_type(l, q, x) || !is_on_device(l, q, x)) return 0;
  fl_shape_text(shape, x->shape->rank, x->shape->size);
  if (!x->layout->contiguous)
    FAIL(l, "%s of shape %s is not contiguous" FL_DO "; use %s:contiguous()", q->name, shape,
         q->name);
  else if (q->width > 1 && x->shape->numel % q->width)
    FAIL(l, "%s has shape %s, which is not a multiple of %s", q->name, shape, q->type_name);
  else if (q->wide && x->offset * fl_dtype_size(x->dtype) % q->wide)
    FAIL(l, "%s begins at byte %lld of its memory, and is read or written in types that begin at "
         "multiples of %d" FL_DO "; use %s:clone()", q->name,
         (long long)(x->offset * fl_dtype_size(x->dtype)), q->wide, q->name);
  else if (x->shape->numel > INT32_MAX && index)
    FAIL(l, "%s has more elements than an %s can count" FL_DO "; give the kernel a long", q->name,
         index);
  else return 1;
  return 0;
}

int fl_launch_hold(fl_launch *l, fl_node *x) {
  if (l->nin < FL_CALL_INPUTS) {
    l->in[l->nin] = x;
    return l->nin++;
  }
  FAIL(l, "more than %d tensors", FL_CALL_INPUTS);
  return -1;
}

int fl_launch_each(fl_launch *l, int i, int held) {
  const fl_kparam *q = &l->k->f->params[i];
  const fl_node *x = l->in[held];
  const int64_t n = x->shape->numel / l->batch, bytes = n * fl_dtype_size(x->dtype);
  if (x->shape->numel % l->batch || (q->width > 1 && n % q->width))
    FAIL(l, "%s has %lld element%s for each launch of a batch of %lld, not a multiple of %s", q->name,
         (long long)n, FL_S(n), (long long)l->batch, q->type_name);
  else if (q->wide && bytes % q->wide)
    FAIL(l, "%s has %lld bytes for each launch of a batch, and is read or written in types that "
         "begin at multiples of %d" FL_DO ": launch it for each, without vmap", q->name,
         (long long)bytes, q->wide);
  else {
    l->p[FL_KP_ARGS + 2 * i] = FL_KARG_IN_EACH + 8 * (int64_t)held;
    return 1;
  }
  return 0;
}

/* The number of elements is bounded so that the sum of all outputs' bytes does not overflow, nor 8
** times that sum: p[] holds 8 * bytes + the kind of the argument. */
flame_status fl_launch_output(fl_launch *l, int i, int dtype, int rank, const int64_t *size,
                              int input) {
  char text[192];
  int64_t n = l->batch ? l->batch : 1;
  const int more = l->batch > 0;           /* axes before those of one launch */
  if (rank + more > FL_MAX_AXES)
    return FAIL(l, "an output of %d axes has none left for a batch", rank);
  for (int a = 0; a < rank; a++)
    if (__builtin_mul_overflow(n, size[a], &n)) n = INT64_MAX;
  if (n > MOST_ELEMENTS)
    return FAIL(l, "an output of shape %s is too large", fl_shape_text(text, rank, size));
  const int64_t bytes = n * fl_dtype_size(dtype), at = (l->bytes + SECTION - 1) / SECTION * SECTION;
  struct fl_launch_out *o = &l->out[l->nout++];
  *o = (struct fl_launch_out){ .dtype = dtype, .input = input, .rank = rank + more,
                               .at = at, .bytes = bytes };
  o->size[0] = l->batch;
  memcpy(o->size + more, size, sizeof *size * (size_t)rank);
  l->p[FL_KP_ARGS + 2 * i] = input >= 0 ? FL_KARG_COPY + 8 * (int64_t)input
                                        : FL_KARG_OUT + 8 * bytes;
  l->p[FL_KP_ARGS + 2 * i + 1] = at;
  l->bytes = at + bytes;
  return FLAME_OK;
}

/* ---- numbers --------------------------------------------------------------------------------- */

void *fl_launch_room(fl_launch *l, int i, int64_t bytes) {
  const int64_t n = (bytes + 7) / 8;
  if (n > FL_KP_SCALARS - l->nscalar) {
    FAIL(l, "its scalar arguments take too many bytes");
    return NULL;
  }
  fl_scalar *s = l->scalar + l->nscalar;
  memset(s, 0, (size_t)n * sizeof *s);
  l->p[FL_KP_ARGS + 2 * i] = FL_KARG_VALUE + 8 * (int64_t)l->nscalar;
  l->p[FL_KP_ARGS + 2 * i + 1] = bytes;
  l->nscalar += (int)n;
  return s;
}

void fl_launch_put_float(int type, double d, void *to) {
  const float f = (float)d;
  if (type == FL_KT_F64) memcpy(to, &d, sizeof d);
  else if (type == FL_KT_F32) memcpy(to, &f, sizeof f);
  else fl_scalar_store(to, fl_ktypes[type].dtype, (fl_scalar){ .d = d });
}

/* ---- geometry -------------------------------------------------------------------------------- */

int64_t fl_launch_block(const fl_kfunc *f) {
  return f->max_threads > 0 && f->max_threads < 256 ? f->max_threads : 256;
}

void fl_launch_elements(fl_launch *l, int64_t n) {
  int64_t *grid = l->p + FL_KP_GRID, *block = l->p + FL_KP_BLOCK;
  block[0] = fl_launch_block(l->k->f);
  grid[0] = n > 0 ? (n + block[0] - 1) / block[0] : 1;
  grid[1] = grid[2] = block[1] = block[2] = 1;
}

flame_status fl_launch_check(const fl_launch *l) {
  static const int64_t most_block[3] = { 1024, 1024, 64 },
                       most_grid[3] = { 2147483647, 65535, 65535 };
  const int64_t *grid = l->p + FL_KP_GRID, *block = l->p + FL_KP_BLOCK;
  const int most = l->k->f->max_threads;
  for (int i = 0; i < 3; i++) {
    if (grid[i] < 1 || grid[i] > most_grid[i])
      return FAIL(l, "grid.%c = %lld, need 1 to %lld", "xyz"[i], (long long)grid[i],
                  (long long)most_grid[i]);
    if (block[i] < 1 || block[i] > most_block[i])
      return FAIL(l, "block.%c = %lld, need 1 to %lld", "xyz"[i], (long long)block[i],
                  (long long)most_block[i]);
  }
  const int64_t threads = block[0] * block[1] * block[2];
  if (threads > 1024)
    return FAIL(l, "a block of (%lld, %lld, %lld) has %lld threads, at most 1024",
                (long long)block[0], (long long)block[1], (long long)block[2], (long long)threads);
  if (most && threads > most)
    return FAIL(l, "a block of (%lld, %lld, %lld) has %lld threads, __launch_bounds__ allows %d"
                FL_DO ": give a smaller block", (long long)block[0], (long long)block[1],
                (long long)block[2], (long long)threads, most);
  if (l->k->ad && l->device == 0) return FLAME_OK;          /* a CPU has memory enough */
  if (l->p[FL_KP_SHARED] < 0 || l->p[FL_KP_SHARED] > MOST_SHARED)
    return FAIL(l, "shared = %lld bytes, need 0 to %d", (long long)l->p[FL_KP_SHARED], MOST_SHARED);
  if (l->p[FL_KP_SHARED] + fl_kfunc_moved(l->k->f) > MOST_SHARED)
    return FAIL(l, "%lld bytes of shared memory, of which its own arrays %lld, a block has at most %d",
                (long long)(l->p[FL_KP_SHARED] + fl_kfunc_moved(l->k->f)),
                (long long)fl_kfunc_moved(l->k->f), MOST_SHARED);
  return FLAME_OK;
}

/* ---- the node -------------------------------------------------------------------------------- */

flame_status fl_kernel_ready(flame_context *c, fl_kfunction *k, int device) {
  const unsigned checks = fl_kfunction_checks(c);
  if (k->ready_for != checks) k->ready = 0;
  k->ready_for = checks;
  if (k->ready >> device & 1) return FLAME_OK;
  fl_device *d = fl_engine_device(c, device);
  if (!d) return c->err.code;
  const flame_status e = d->table->ready(d, &k, 1);
  if (e != FLAME_OK) fl_kunit_retell(k->unit, &c->err);
  return e;
}

flame_status fl_launch_ready(const fl_launch *l) {
  fl_kfunction *k = l->k;
  if (!l->batch || l->device == 0) return fl_kernel_ready(l->c, k, l->device);
  if (!fl_kfunction_batch(k)) return FAIL(l, "no host memory");
  const int whole = k->batched && !fl_kfunction_checks(l->c);
  return fl_kernel_ready(l->c, whole ? k->batched : k, l->device);
}

typedef struct numbers { const int64_t *p; const fl_scalar *scalar; } numbers;

static const void *argument_of(void *arg, int i) {
  const numbers *x = arg;
  const int64_t w = x->p[FL_KP_ARGS + 2 * i];
  return (w & 7) == FL_KARG_VALUE ? (const void *)(x->scalar + (w >> 3)) : NULL;
}

int fl_kernel_covers(const fl_kfunction *k, const int64_t *p, const fl_scalar *scalar, int i,
                     int64_t bytes) {
  numbers given = { p, scalar };
  fl_kcover_launch x = { .argument = argument_of, .arg = &given };
  const int64_t size = fl_kt_size(k->f->params[i].type);
  if (bytes <= 0 || !size || !k->cover || p[FL_KP_CHECKS]) return 0;
  for (int a = 0; a < 3; a++) {
    x.grid[a] = p[FL_KP_GRID + a];
    x.block[a] = p[FL_KP_BLOCK + a];
  }
  return fl_kcover_all(k->cover, i, bytes / size, &x);
}

/* The bytes of a result that begins as zeros, or as a copy that no other argument refers to; else
** 0. */
static int64_t own_result(const fl_launch *l, int i) {
  const int64_t *w = &l->p[FL_KP_ARGS + 2 * i], kind = w[0] & 7;
  if (kind == FL_KARG_OUT) return w[0] >> 3;
  if (kind != FL_KARG_COPY) return 0;
  for (int j = 0; j < l->p[FL_KP_COUNT_ARGS]; j++) {
    const int64_t *o = &l->p[FL_KP_ARGS + 2 * j];
    if (j != i && (o[0] & 7) == FL_KARG_COPY && o[1] == w[1]) return 0;
  }
  const fl_node *n = l->in[w[0] >> 3];
  return n->shape->numel * fl_dtype_size(n->dtype);
}

/* Changes to RAW the results that this launch is proven to write completely, so that they get no
** initial value. While checks are on all results have one. */
static void find_whole(fl_launch *l) {
  for (int i = 0; i < l->p[FL_KP_COUNT_ARGS]; i++) {
    const int64_t bytes = own_result(l, i);
    if (fl_kernel_covers(l->k, l->p, l->scalar, i, l->batch ? bytes / l->batch : bytes))
      l->p[FL_KP_ARGS + 2 * i] = FL_KARG_RAW + 8 * bytes;
  }
}

/* One node for all results: the array of a single result, or the packed bytes of several. */
static fl_node *packed(fl_launch *l) {
  const unsigned checks = fl_kfunction_checks(l->c);
  /* derived kernels copy local arrays before these are written, so unset elements are not
  ** reported */
  l->p[FL_KP_CHECKS] = l->k->ad ? checks & ~(unsigned)FL_LANE_UNINIT : checks;
  find_whole(l);
  const int one = l->nout == 1, used = FL_KP_ARGS + 2 * (int)l->p[FL_KP_COUNT_ARGS];
  if (l->batch) {
    memset(l->p + used, 0, sizeof *l->p * (size_t)(FL_CALL_PARAMS - used));
    l->p[FL_KP_BATCH] = l->batch;
  }
  return n_call(l->c, FL_CALL_kernel, l->name, l->nin, l->in, l->device,
                one ? l->out[0].dtype : FLAME_U8, one ? l->out[0].rank : 1,
                one ? l->out[0].size : &l->bytes, l->batch ? FL_CALL_PARAMS : used, l->p,
                &l->k->callee, l->nscalar, l->scalar);
}

flame_status fl_launch_record(fl_launch *l, fl_node **results) {
  fl_node *all = packed(l);
  if (l->nout == 1) results[0] = all;
  for (int i = 0; i < l->nout && all && l->nout > 1; i++) {
    const struct fl_launch_out *o = &l->out[i];
    results[i] = n_call(l->c, FL_CALL_part, l->name, 1, &all, l->device, o->dtype, o->rank, o->size,
                        1, &o->at, NULL, 0, NULL);
    if (!results[i]) all = NULL;
  }
  return all ? FLAME_OK : l->c->err.code;
}
