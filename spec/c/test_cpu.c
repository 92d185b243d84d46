/*
** The CPU device against the naive executor of kernel_ref.h: random kernels of all dtypes,
** strides and sizes, on every instruction set that this machine has and on 1 and 2 threads. All
** must have the bits of the reference (NaNs compare equal). Products, scatter, copies, failing
** allocations and interrupts are tested in test_cpu_steps.h.
*/
#include "kernel_ref.h"
#include "cpu/program/program.h"
#include <stdio.h>
#include <string.h>

static int passed, failed;
static void check(int ok, const char *what, long seed) {
  if (ok) { passed++; return; }
  failed++;
  if (failed < 20) printf("cpu: FAILED %s (seed %ld)\n", what, seed);
}

static uint64_t state;
static uint64_t next(void) {
  state += 0x9E3779B97F4A7C15u;
  uint64_t z = state;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}
static int pick(int n) { return (int)(next() % (uint64_t)n); }
static double unit(void) { return (double)(next() >> 11) * 0x1p-53; }

/* ---- devices ------------------------------------------------------------------------------ */

typedef struct setup { flame_context *c; fl_device d; } setup;

static setup *open_setup(const char *isa, int threads, const char *blas) {
  setup *s = calloc(1, sizeof *s);
  s->c = calloc(1, sizeof *s->c);
  setenv("FLAME_ISA", isa, 1);
  setenv("FLAME_BLAS", blas, 1);
  if (fl_cpu_open(s->c, &s->d, threads)) {
    free(s->c);
    free(s);
    return NULL;
  }
  return s;
}

static void close_setup(setup *s, const char *what) {
  s->d.table->close(&s->d);
  check(s->c->mem.live_bytes == 0 && s->c->mem.live_blocks == 0, what, 0);
  free(s->c);
  free(s);
}

/* ---- random kernels -------------------------------------------------------------------------- */

enum { MAX_OPERANDS = 16, MAX_VALUES = 40 };

typedef struct sample {
  fl_kernel k;
  fl_instr instr[MAX_VALUES];
  fl_operand operand[MAX_OPERANDS];
  fl_store store[MAX_OPERANDS];
  uint32_t scalar[16];
  fl_scalar value[16];
  int64_t bytes[MAX_OPERANDS];
  char *data[MAX_OPERANDS];          /* initial contents */
  int shares[MAX_OPERANDS];          /* [i]: operand whose memory operand i uses; i: its own */
} sample;

static void random_element(char *p, int dtype) {
  fl_scalar v;
  const int k = pick(20);
  if (fl_is_float(dtype)) {
    const double odd[] = { 0.0, -0.0, 1.0, -1.0, 1e30, (double)INFINITY, -(double)INFINITY,
                           (double)NAN };
    v.d = k < 17 ? (unit() - 0.5) * (k < 8 ? 2 : 20) : odd[pick(8)];
  } else if (dtype == FLAME_BOOL) {
    v.i = pick(2);
  } else {
    v.i = k < 17 ? pick(20) - 6 : (int64_t)next();
  }
  fl_scalar_store(p, dtype, v);
}

/* Gives o a random layout over the dims in the bit set 'dims': permuted, with gaps, reversed
** ('plain': row-major). Sets its strides and offset; returns the number of elements to allocate. */
static int64_t random_layout(const fl_kernel *k, fl_operand *o, unsigned dims, int plain) {
  int order[FL_MAX_AXES], n = k->nkept + k->nred;
  int64_t span = 1;
  for (int i = 0; i < n; i++) order[i] = i;
  if (!plain && pick(3) == 0)
    for (int i = n - 1; i > 0; i--) {
      const int j = pick(i + 1), t = order[i];
      order[i] = order[j];
      order[j] = t;
    }
  o->offset = pick(3) ? 0 : pick(5);
  for (int i = n - 1; i >= 0; i--) {
    const int d = order[i];
    o->stride[d] = 0;
    if (!(dims >> d & 1) || k->size[d] == 1) continue;
    if (!plain && pick(8) == 0) span *= 2;
    o->stride[d] = span;
    span *= k->size[d] ? k->size[d] : 1;
    if (!plain && pick(8) == 0 && k->size[d] > 0) {
      o->offset += (k->size[d] - 1) * o->stride[d];
      o->stride[d] = -o->stride[d];
    }
  }
  return span + 16;
}

static int new_operand(sample *s, int dtype, unsigned dims, int plain) {
  const int i = s->k.noperand++;
  fl_operand *o = &s->operand[i];
  o->dtype = (uint8_t)dtype;
  o->place = (fl_place){ FL_AT_EXT, i, 0 };
  const int64_t n = random_layout(&s->k, o, dims, plain);
  s->bytes[i] = n * fl_dtype_size(dtype);
  s->data[i] = malloc((size_t)s->bytes[i]);
  for (int64_t e = 0; e < n; e++) random_element(s->data[i] + e * fl_dtype_size(dtype), dtype);
  s->shares[i] = i;
  return i;
}

static int add(sample *s, fl_instr x) {
  s->instr[s->k.ninstr] = x;
  return s->k.ninstr++;
}

static int scalar_value(sample *s, int dtype, fl_scalar v, int level) {
  const int slot = s->k.nscalar++;
  s->scalar[slot] = (uint32_t)slot;
  s->value[slot] = v;
  return add(s, (fl_instr){ .code = FL_I_SCALAR, .dtype = (uint8_t)dtype, .from = (uint8_t)dtype,
                            .level = (uint8_t)level, .arg = (uint16_t)slot });
}

static unsigned kept_mask(const fl_kernel *k) { return (1u << k->nkept) - 1; }
static unsigned all_mask(const fl_kernel *k) { return (1u << (k->nkept + k->nred)) - 1; }

static int load(sample *s, int dtype, int level) {
  unsigned mask = level ? all_mask(&s->k) : kept_mask(&s->k);
  if (pick(4) == 0) mask &= (unsigned)next();
  const int o = new_operand(s, dtype, mask, pick(2));
  return add(s, (fl_instr){ .code = FL_I_LOAD, .dtype = (uint8_t)dtype, .from = (uint8_t)dtype,
                            .level = (uint8_t)level, .arg = (uint16_t)o });
}

static int iota(sample *s, int level) {
  const int o = s->k.noperand++;
  s->operand[o].dtype = FLAME_I64;
  s->operand[o].place = (fl_place){ FL_AT_EXT, 1000, 0 };
  s->bytes[o] = 0;
  s->data[o] = NULL;
  s->shares[o] = o;
  random_layout(&s->k, &s->operand[o], level ? all_mask(&s->k) : kept_mask(&s->k), pick(2));
  return add(s, (fl_instr){ .code = FL_I_IOTA, .dtype = FLAME_I64, .from = FLAME_I64,
                            .level = (uint8_t)level, .arg = (uint16_t)o });
}

static int is_map(const sample *s) { return s->k.kind == FL_K_MAP; }
static int random_level(const sample *s) { return is_map(s) || pick(3) > 0; }

/* The number of a value of 'dtype' and of at most 'level' (0: one per row, 1: one per point): an
** earlier value, cast if necessary, or a new load or scalar. */
static int value_of(sample *s, int dtype, int level) {
  for (int tries = 0; tries < 4 && s->k.ninstr; tries++) {
    const int v = pick(s->k.ninstr);
    const fl_instr *x = &s->instr[v];
    if (x->level > level) continue;
    if (x->dtype == dtype) return v;
    if (tries == 3 && s->k.ninstr < MAX_VALUES - 1)
      return add(s, (fl_instr){ .code = FL_I_CAST, .dtype = (uint8_t)dtype, .from = x->dtype,
                                .level = x->level, .a = (uint16_t)v });
  }
  if (s->k.noperand < MAX_OPERANDS - 6 && pick(4)) return load(s, dtype, level && pick(4));
  fl_scalar v = { .d = 0 };
  if (s->k.nscalar > 12) return load(s, dtype, level);
  if (fl_is_float(dtype)) v.d = (unit() - 0.5) * 8;
  else v.i = dtype == FLAME_BOOL ? pick(2) : pick(9) - 2;
  return scalar_value(s, dtype, v, is_map(s));
}

static int max3(int a, int b, int c) { return a > b ? (a > c ? a : c) : (b > c ? b : c); }

static void random_op(sample *s) {
  int op, dtype;
  do op = pick(FL_OP_COUNT); while (fl_ops[op].form > FL_FORM_TERNARY);
  do dtype = pick(FLAME_DTYPE_COUNT);
  while ((fl_ops[op].kind == FL_KIND_FLOAT && !fl_is_float(dtype)) ||
         (fl_ops[op].kind == FL_KIND_INT && fl_is_float(dtype)) ||
         (fl_ops[op].kind == FL_KIND_NUM && dtype == FLAME_BOOL));
  const int level = random_level(s), n = fl_ops[op].nin;
  int v[3] = { 0, 0, 0 };
  for (int i = 0; i < n; i++)
    v[i] = value_of(s, fl_ops[op].kind == FL_KIND_WHERE && i == 0 ? FLAME_BOOL : dtype, level);
  int top = 0;
  for (int i = 0; i < n; i++) top = max3(top, s->instr[v[i]].level, 0);
  add(s, (fl_instr){ .code = FL_I_OP,
                     .dtype = (uint8_t)(fl_ops[op].kind == FL_KIND_TEST ? FLAME_BOOL : dtype),
                     .from = (uint8_t)dtype, .level = (uint8_t)top, .op = (uint16_t)op,
                     .a = (uint16_t)v[0], .b = (uint16_t)v[1], .c = (uint16_t)v[2] });
}

static void random_reduce(sample *s) {
  static const int ops[] = { FL_OP_sum, FL_OP_prod, FL_OP_amax, FL_OP_amin, FL_OP_argmax,
                             FL_OP_argmin, FL_OP_any, FL_OP_all };
  const int op = ops[pick(8)], kind = fl_ops[op].kind, from = pick(FLAME_DTYPE_COUNT);
  const int v = value_of(s, from, 1);
  int dtype = from;
  if (s->k.n == 0 && kind == FL_KIND_POSITION) return;
  if (kind == FL_KIND_SUMS && !fl_is_float(from)) dtype = FLAME_I64;
  if (kind == FL_KIND_TEST) dtype = FLAME_BOOL;
  if (kind == FL_KIND_POSITION) dtype = FLAME_I64;
  if (!s->instr[v].level) return;
  add(s, (fl_instr){ .code = FL_I_REDUCE, .dtype = (uint8_t)dtype, .from = (uint8_t)from,
                     .op = (uint16_t)op,
                     .a = (uint16_t)v });
}

static void random_draw(sample *s) {
  static const int ops[] = { FL_OP_uniform, FL_OP_normal, FL_OP_randint };
  const int op = ops[pick(3)], integer = op == FL_OP_randint;
  if (s->k.nscalar > 10) return;
  const int dtype = integer ? FLAME_I64 + pick(2) : pick(4), level = random_level(s);
  const int v = iota(s, level);
  const fl_scalar a = { .i = 3 }, b = { .i = 17 }, x = { .d = -1.5 }, y = { .d = 2.25 };
  const int lo = scalar_value(s, integer ? FLAME_I64 : dtype, integer ? a : x, is_map(s));
  const int hi = scalar_value(s, integer ? FLAME_I64 : dtype, integer ? b : y, is_map(s));
  const int slot = s->k.nscalar;
  for (int i = 0; i < 2; i++) {
    s->scalar[slot + i] = (uint32_t)(slot + i);
    s->value[slot + i].i = (int64_t)(next() >> 8);
  }
  s->k.nscalar += 2;
  add(s, (fl_instr){ .code = FL_I_RANDOM, .dtype = (uint8_t)dtype, .from = (uint8_t)dtype,
                     .op = (uint16_t)op,
                     .level = (uint8_t)level, .a = (uint16_t)v, .b = (uint16_t)lo,
                     .c = (uint16_t)hi,
                     .arg = (uint16_t)slot });
}

/* Adds a gather from a table of 1 to 9 rows by the checked indices in an i64 operand, of which some
** are out of range if 'wrong'. */
static void random_gather(sample *s, int wrong) {
  if (s->k.nscalar > 12 || s->k.noperand > MAX_OPERANDS - 8 || s->k.ninstr > MAX_VALUES - 8) return;
  const int level = random_level(s), size = 1 + pick(9), flags = pick(4),
            at = load(s, FLAME_I64, level);
  const int o = s->instr[at].arg;
  for (int64_t i = 0; i < s->bytes[o] / 8; i++) {
    int64_t v = 1 + pick(size);
    if (wrong && pick(50) == 0) v = pick(40) - 20;
    if ((flags & FL_INDEX_NEGATIVE) && pick(3) == 0) v = -1 - pick(size);
    if ((flags & FL_INDEX_IGNORE) && pick(9) == 0) v = -100;
    memcpy(s->data[o] + 8 * i, &v, 8);
  }
  const int n = scalar_value(s, FLAME_I64, (fl_scalar){ .i = size }, is_map(s)),
            place = iota(s, level);
  const int v = add(s, (fl_instr){ .code = FL_I_INDEX, .dtype = FLAME_I64, .from = FLAME_I64,
                                   .op = (uint16_t)flags,
                                   .level = (uint8_t)level, .a = (uint16_t)at, .b = (uint16_t)n,
                                   .c = (uint16_t)place, .arg = (uint16_t)pick(4) });
  const int dtype = pick(FLAME_DTYPE_COUNT);
  const unsigned mask = (level ? all_mask(&s->k) : kept_mask(&s->k)) & (unsigned)next();
  const int src = new_operand(s, dtype, mask, 1);
  const int64_t row = s->bytes[src] / fl_dtype_size(dtype);
  free(s->data[src]);
  s->bytes[src] *= size;
  s->data[src] = malloc((size_t)s->bytes[src]);
  for (int64_t e = 0; e < row * size; e++)
    random_element(s->data[src] + e * fl_dtype_size(dtype), dtype);
  s->operand[src].gstride = row;
  add(s, (fl_instr){ .code = FL_I_GATHER, .dtype = (uint8_t)dtype, .from = (uint8_t)dtype,
                     .level = (uint8_t)level,
                     .a = (uint16_t)v, .arg = (uint16_t)src });
}

/* Adds a store of value v: sometimes in place, over an operand that is loaded with the same dtype
** and level, else to a new operand. */
static void random_store(sample *s, int v) {
  const fl_instr *x = &s->instr[v];
  const unsigned mask = x->level ? all_mask(&s->k) : kept_mask(&s->k);
  if (s->k.noperand >= MAX_OPERANDS) return;
  const int o = s->k.noperand;
  s->store[s->k.nstore++] = (fl_store){ (uint16_t)v, (uint16_t)o, 0 };
  for (int i = 0; i < s->k.ninstr && pick(3) == 0; i++) {
    const fl_instr *y = &s->instr[i];
    if (y->code != FL_I_LOAD || y->dtype != x->dtype || y->level != x->level ||
        s->shares[y->arg] != y->arg)
      continue;
    int whole = 1;
    for (int d = 0; d < s->k.nkept + s->k.nred; d++)
      if ((mask >> d & 1) && s->k.size[d] != 1 && s->operand[y->arg].stride[d] == 0) whole = 0;
    for (int j = 0; j < o; j++) if (s->shares[j] == y->arg && j != y->arg) whole = 0;
    if (!whole) continue;
    s->operand[o] = s->operand[y->arg];
    s->bytes[o] = 0;
    s->data[o] = NULL;
    s->shares[o] = y->arg;
    s->k.noperand++;
    return;
  }
  new_operand(s, x->dtype, mask, pick(2));
}

static int random_size(void) {
  static const int sizes[] = { 1, 2, 3, 5, 7, 8, 16, 17, 31, 64, 100, 257, 1000, 1025 };
  return pick(25) == 0 ? 0 : sizes[pick(14)];
}

static void random_space(sample *s) {
  fl_kernel *k = &s->k;
  const int wide = pick(12) == 0;
  int64_t span;          /* number of points, dims of size 0 counted as 1: bounds the memory used */
  do {
    k->kind = (uint8_t)pick(3);
    k->nkept = (uint8_t)pick(4);
    k->nred = k->kind == FL_K_MAP ? 0 : (uint8_t)(1 + pick(2));
    if (k->kind == FL_K_COL && !k->nkept) k->nkept = 1;
    k->rows = k->n = span = 1;
    for (int d = 0; d < k->nkept + k->nred; d++) {
      k->size[d] = random_size();
      if (wide && d == k->nkept && k->nred) k->size[d] = 3000 + pick(90000);
      *(d < k->nkept ? &k->rows : &k->n) *= k->size[d];
      span *= k->size[d] ? k->size[d] : 1;
    }
    k->points = k->rows * k->n;
  } while (span > (wide ? 200000 : 30000) || k->rows > 30000 || k->n > 200000);
}

/* Adds a reduction to a ROW or COL kernel that has none, since the planner makes no such kernel. In
** such a kernel the device could skip reads whose indices the reference checks. */
static void require_reduction(sample *s) {
  for (int i = 0; i < s->k.ninstr; i++) if (s->instr[i].code == FL_I_REDUCE) return;
  const uint8_t dtype = s->instr[0].dtype;
  if (!is_map(s))
    add(s, (fl_instr){ .code = FL_I_REDUCE, .dtype = dtype, .from = dtype, .op = FL_OP_amax });
}

static sample *random_kernel(long seed, int wrong) {
  sample *s = calloc(1, sizeof *s);
  state = (uint64_t)seed * 77;
  s->k.instr = s->instr;
  s->k.operand = s->operand;
  s->k.store = s->store;
  s->k.scalar = s->scalar;
  random_space(s);
  const int steps = 1 + pick(14);
  load(s, pick(FLAME_DTYPE_COUNT), 1);
  for (int i = 0; i < steps && s->k.ninstr < MAX_VALUES - 12 && s->k.noperand < MAX_OPERANDS - 5;
       i++) {
    const int what = pick(12);
    if (what < 7) random_op(s);
    else if (what < 10 && !is_map(s)) random_reduce(s);
    else if (what == 10) random_draw(s);
    else random_gather(s, wrong);
  }
  require_reduction(s);
  random_store(s, s->k.ninstr - 1);
  for (int i = 0; i < 3; i++) random_store(s, pick(s->k.ninstr));
  for (int i = 0; i < s->k.ninstr; i++) s->k.passes |= s->instr[i].code == FL_I_REDUCE;
  return s;
}

/* Makes the sample a reduction of shape[0] rows of shape[1] elements (FL_K_ROW), or if shape[2] is
** not 0 one over the first of these two axes (FL_K_COL). */
static void set_shape(sample *s, const int *shape) {
  const int cols = shape[2];
  fl_kernel *k = &s->k;
  k->kind = (uint8_t)(cols ? FL_K_COL : FL_K_ROW);
  k->nkept = k->nred = 1;
  k->size[0] = k->rows = shape[cols];
  k->size[1] = k->n = shape[!cols];
  k->points = k->rows * k->n;
  k->instr = s->instr;
  k->operand = s->operand;
  k->store = s->store;
  k->scalar = s->scalar;
}

/* A kernel that reduces an operand, or the squares of its elements, and does nothing else. The
** shapes are around the sizes at which the device chooses another loop. */
static sample *streaming_kernel(long seed) {
  static const int shapes[][3] = { { 5000, 16 }, { 70, 16 }, { 300, 1030 }, { 40, 4096 },
                                   { 9, 17000 }, { 3, 140000 },
    { 700, 1024, 1 }, { 300, 4100, 1 }, { 90, 9001, 1 }, { 3000, 20, 1 }, { 600, 256, 1 },
    { 1100, 513, 1 } };
  static const uint16_t ops[] = { FL_OP_sum, FL_OP_prod, FL_OP_amax, FL_OP_amin, FL_OP_argmax };
  sample *s = calloc(1, sizeof *s);
  const int *shape = shapes[seed % 12], cols = shape[2], square = seed / 24 % 2;
  fl_kernel *k = &s->k;
  state = (uint64_t)seed * 99;
  const int op = square ? 0 : pick(5);
  set_shape(s, shape);
  const int dtype = seed / 12 % 2 ? FLAME_F64 : FLAME_F32, from = new_operand(s, dtype, 3, 1);
  s->operand[from].stride[0] = cols ? 1 : k->n;
  s->operand[from].stride[1] = cols ? k->rows : 1;
  if (seed % 7 < 2)                                        /* zeros, most of them -0 */
    for (int64_t e = 0; e < k->points; e++) {
      const fl_scalar zero = { .d = seed % 7 || pick(50) ? -0.0 : 0.0 };
      fl_scalar_store(s->data[from] + e * fl_dtype_size(dtype), dtype, zero);
    }
  fl_instr x = { .code = FL_I_LOAD, .dtype = (uint8_t)dtype, .from = (uint8_t)dtype, .level = 1,
                 .arg = (uint16_t)from };
  uint16_t v = (uint16_t)add(s, x);
  x.code = FL_I_OP;
  x.op = FL_OP_square;
  x.a = v;
  if (square) v = (uint16_t)add(s, x);
  x = (fl_instr){ .code = FL_I_REDUCE,
                  .dtype = (uint8_t)(ops[op] == FL_OP_argmax ? FLAME_I64 : dtype),
                  .from = (uint8_t)dtype,
                  .op = ops[op], .a = v };
  const int y = add(s, x), to = new_operand(s, x.dtype, 1, 1);
  s->store[k->nstore++] = (fl_store){ .value = (uint16_t)y, .operand = (uint16_t)to };
  k->passes = 1;
  return s;
}

static void free_kernel(sample *s) {
  for (int i = 0; i < s->k.noperand; i++) free(s->data[i]);
  free(s);
}

static void copies(const sample *s, char **out) {
  for (int i = 0; i < s->k.noperand; i++) {
    out[i] = NULL;
    if (s->bytes[i]) {
      out[i] = malloc((size_t)s->bytes[i]);
      memcpy(out[i], s->data[i], (size_t)s->bytes[i]);
    } else if (s->shares[i] != i) {
      out[i] = out[s->shares[i]];
    }
  }
}

static void free_copies(const sample *s, char **at) {
  for (int i = 0; i < s->k.noperand; i++) if (s->bytes[i]) free(at[i]);
}

static int same(const char *a, const char *b, int64_t bytes, int dtype) {
  if (!memcmp(a, b, (size_t)bytes)) return 1;
  if (!fl_is_float(dtype)) return 0;
  const int size = fl_dtype_size(dtype);
  for (int64_t i = 0; i < bytes; i += size) {
    const double x = fl_scalar_load(a + i, dtype).d, y = fl_scalar_load(b + i, dtype).d;
    if (memcmp(a + i, b + i, (size_t)size) && (x == x || y == y)) {
      if (getenv("VERBOSE")) printf("  at %ld: want %g got %g\n", (long)(i / size), x, y);
      return 0;
    }
  }
  return 1;
}

static void describe(const sample *s) {
  const fl_kernel *k = &s->k;
  printf("  kind %d kept %d red %d sizes", k->kind, k->nkept, k->nred);
  for (int d = 0; d < k->nkept + k->nred; d++) printf(" %ld", (long)k->size[d]);
  printf("\n");
  for (int i = 0; i < k->ninstr; i++)
    printf("  %d: code %d op %s %s from %s level %d (%d %d %d) arg %d\n", i, k->instr[i].code,
           k->instr[i].op < FL_OP_COUNT ? fl_ops[k->instr[i].op].name : "",
           fl_dtype_name(k->instr[i].dtype), fl_dtype_name(k->instr[i].from), k->instr[i].level,
           k->instr[i].a, k->instr[i].b, k->instr[i].c, k->instr[i].arg);
  for (int i = 0; i < k->nstore; i++)
    printf("  store %d -> %d\n", k->store[i].value, k->store[i].operand);
}

/* Runs n kernels as one step of a plan. Operand i of kernel j is the memory at[j][i]. */
static flame_status run_samples(setup *u, sample **s, int n, char *at[][MAX_OPERANDS],
                                fl_fault *fault) {
  fl_kernel k[3];
  fl_operand operand[3][MAX_OPERANDS];
  uint32_t scalar[3][16];
  fl_scalar value[48];
  void *ext[3 * MAX_OPERANDS];
  fl_step step = { .kind = FL_S_KERNEL, .count = n, .kernel = k };
  fl_plan p = { .nstep = 1, .nfault = 4, .step = &step, .mem = &u->c->mem };
  for (int j = 0; j < n; j++) {
    k[j] = s[j]->k;
    k[j].operand = operand[j];
    k[j].scalar = scalar[j];
    memcpy(operand[j], s[j]->operand, sizeof operand[j]);
    for (int i = 0; i < k[j].noperand; i++) {
      ext[j * MAX_OPERANDS + i] = at[j][i];
      if (s[j]->bytes[i] || s[j]->shares[i] != i) operand[j][i].place.index = j * MAX_OPERANDS + i;
    }
    for (int i = 0; i < 16; i++) {
      scalar[j][i] = (uint32_t)(j * 16 + i);
      value[j * 16 + i] = s[j]->value[i];
    }
  }
  const fl_binding b = { .ext = ext, .scalar = value };
  int32_t done = 0;
  flame_status st = u->d.table->prepare(&u->d, &p);
  if (!st) st = u->d.table->run(&u->d, &p, &b, fault, &done);
  if (p.unprepare) p.unprepare(&p);
  return st;
}

static void compare(setup **u, int nu, sample **s, int n, long seed) {
  char *ref[3][MAX_OPERANDS], *got[3][MAX_OPERANDS];
  fl_fault want = { .site = -1 };
  for (int j = 0; j < n; j++) {
    copies(s[j], ref[j]);
    const fl_fault f = ref_kernel(&s[j]->k, ref[j], s[j]->value);
    if (f.site >= 0 && (want.site < 0 || f.site < want.site ||
                        (f.site == want.site && f.position < want.position)))
      want = f;
  }
  for (int i = 0; i < nu; i++) {
    fl_fault fault = { .site = -1 };
    int ok = 1;
    for (int j = 0; j < n; j++) copies(s[j], got[j]);
    ok = run_samples(u[i], s, n, got, &fault) == FLAME_OK;
    for (int j = 0; j < n; j++)
      for (int o = 0; o < s[j]->k.noperand; o++)
        if (s[j]->bytes[o] && !same(ref[j][o], got[j][o], s[j]->bytes[o], s[j]->operand[o].dtype)) {
          if (ok && failed < 3) {
            describe(s[j]);
            printf("  operand %d of kernel %d differs, setup %d\n", o, j, i);
          }
          ok = 0;
        }
    check(ok, "random kernel", seed);
    if (getenv("VERBOSE") &&
        (fault.site != want.site || (want.site >= 0 && fault.position != want.position))) {
      printf("  fault %d %ld, want %d %ld\n", fault.site, (long)fault.position, want.site,
             (long)want.position);
      for (int j = 0; j < n; j++) describe(s[j]);
    }
    int empty = 0;                      /* a kernel without points may check no index */
    for (int j = 0; j < n; j++) empty |= s[j]->k.points == 0;
    check(empty || (fault.site == want.site && (want.site < 0 || fault.position == want.position)),
          "fault", seed);
    for (int j = 0; j < n; j++) free_copies(s[j], got[j]);
  }
  for (int j = 0; j < n; j++) free_copies(s[j], ref[j]);
}

static void test_random(setup **u, int nu, long first, long count) {
  for (long seed = first; seed < first + count; seed++) {
    sample *s[3];
    const int n = seed % 5 == 0 ? 3 : 1;
    for (int j = 0; j < n; j++) s[j] = random_kernel(seed * 3 + j, seed % 3 == 0);
    compare(u, nu, s, n, seed);
    for (int j = 0; j < n; j++) free_kernel(s[j]);
  }
}

static void test_streaming(setup **u, int nu) {
  for (long seed = 0; seed < 96; seed++) {
    sample *s = streaming_kernel(seed);
    compare(u, nu, &s, 1, seed);
    free_kernel(s);
  }
}

#include "test_cpu_steps.h"

int main(int argc, char **argv) {
  const long first = argc > 1 ? atol(argv[1]) : 1, count = argc > 2 ? atol(argv[2]) : 1500;
  setup *u[4] = { open_setup("base", 1, "off"), open_setup("avx2", 1, "off"),
                  open_setup("avx512", 1, "off"), open_setup("", 2, "off") };
  test_random(u, 4, first, count);
  test_streaming(u, 4);
  test_steps(u, 4);
  for (int i = 0; i < 4; i++) close_setup(u[i], "closing leaves nothing");
  printf("cpu: %d passed, %d failed\n", passed, failed);
  return failed != 0;
}
