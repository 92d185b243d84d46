/*
** One instruction set's table: the loops of vm_loops.h for the four register types, the memory
** functions of vm_memory.h for the ten dtypes, and a few functions for single types. Compiled for
** each instruction set (base/isa.h). The text and so the order of operations is the same in all,
** and so are the bits.
*/
#if defined(__AVX2__)
#define FL_VECTORS                       /* tensor/math_special.h then has forms that vectorise */
#endif
#include "cpu/vm/vm.h"
#include "base/isa.h"
#include "cpu/vm/vm_turn.h"
#include "tensor/math.h"
#include "tensor/node.h"
#include <string.h>

/* CHEAP(op): 1 if a scalar operand deserves a separate loop. */
#define CHEAP_add ~, 1
#define CHEAP_sub ~, 1
#define CHEAP_mul ~, 1
#define CHEAP_div ~, 1
#define CHEAP_maximum ~, 1
#define CHEAP_minimum ~, 1
#define CHEAP_eq ~, 1
#define CHEAP_ne ~, 1
#define CHEAP_lt ~, 1
#define CHEAP_le ~, 1
#define CHEAP_gt ~, 1
#define CHEAP_ge ~, 1
#define CHEAP(name) SECOND(CHEAP_##name, 0, ~)
#define SECOND(...) SECOND_(__VA_ARGS__)
#define SECOND_(a, b, ...) b

/* QUICK: the lanes in which the largest or smallest is searched (vm_reduce_loops.h). */
enum { QUICK = 64 };
/* Rows of at most this length are processed 16 side by side to find the position of the largest or
** smallest. */
enum { SIDE_BY_SIDE = 256 };
#define BEATS_amax >
#define BEATS_argmax >
#define BEATS_amin <
#define BEATS_argmin <

static inline float unit_f32(int64_t i, uint64_t base, uint64_t seed, float a, float b) {
  (void)a; (void)b;
  return fl_uniform01_f32(i, base, seed);
}

#define T double
#define SUFFIX f64
#define IS_FLOAT 1
#define NEAR_CIRCULAR 0x1p20
#define DRAWS DRAW4(uniform_f64, fl_random_uniform_f64, f64, d) \
  DRAW(normal_f64, fl_random_normal_f64, f64, d)
#include "cpu/vm/vm_loops.h"
#define T float
#define SUFFIX f32
#define IS_FLOAT 1
#define NEAR_CIRCULAR 0x1p49f
#define DRAWS DRAW4(unit_f32, unit_f32, f32, d) UNIFORM(f32) UNIFORM(f16) UNIFORM(bf16) \
  NORMAL4 NORMAL_ROUNDED(f16) NORMAL_ROUNDED(bf16)
#include "cpu/vm/vm_loops.h"
#define T int64_t
#define SUFFIX i64
#define IS_FLOAT 0
#define DRAWS DRAW4(randint_i64, fl_random_randint_i64, i64, i)
#include "cpu/vm/vm_loops.h"
#define T int32_t
#define SUFFIX i32
#define IS_FLOAT 0
#define DRAWS DRAW_FROM_I64 DRAW_NARROW(i16) DRAW_NARROW(i8) DRAW_NARROW(u8) DRAW_NARROW(bool)
#include "cpu/vm/vm_loops.h"

#define S double
#define T double
#define NAME f64
#define FROM(s) (s)
#define TO(x) (x)
#include "cpu/vm/vm_memory.h"
#define S float
#define T float
#define NAME f32
#define FROM(s) (s)
#define TO(x) (x)
#include "cpu/vm/vm_memory.h"
#define S uint16_t
#define T float
#define NAME f16
#define FROM(s) fl_f16_value(s)
#define TO(x) fl_f16_bits(x)
#include "cpu/vm/vm_memory.h"
#define S uint16_t
#define T float
#define NAME bf16
#define FROM(s) fl_bf16_value(s)
#define TO(x) fl_bf16_bits(x)
#include "cpu/vm/vm_memory.h"
#define S int64_t
#define T int64_t
#define NAME i64
#define FROM(s) (s)
#define TO(x) (x)
#include "cpu/vm/vm_memory.h"
#define S int32_t
#define T int32_t
#define NAME i32
#define FROM(s) (s)
#define TO(x) (x)
#include "cpu/vm/vm_memory.h"
#define S int16_t
#define T int32_t
#define NAME i16
#define FROM(s) (s)
#define TO(x) (x)
#include "cpu/vm/vm_memory.h"
#define S int8_t
#define T int32_t
#define NAME i8
#define FROM(s) (s)
#define TO(x) (x)
#include "cpu/vm/vm_memory.h"
#define S uint8_t
#define T int32_t
#define NAME u8
#define FROM(s) (s)
#define TO(x) (x)
#include "cpu/vm/vm_memory.h"
#define S uint8_t
#define T int32_t
#define NAME bool
#define FROM(s) ((s) != 0)
#define TO(x) ((x) != 0)
#include "cpu/vm/vm_memory.h"

#define ROUND(d, T) \
  static void round_##d(void *y_, const void *x_, int64_t n) { \
    T *y = y_; \
    const T *x = x_; \
    _Pragma("GCC ivdep") for (int64_t i = 0; i < n; i++) y[i] = fl_round_##d(x[i]); \
  }
ROUND(f16, float) ROUND(bf16, float) ROUND(i16, int32_t) ROUND(i8, int32_t)
ROUND(u8, int32_t) ROUND(bool, int32_t)
#undef ROUND

static void iota(int64_t *y, const fl_walk *w, int64_t offset, int64_t point, int64_t n) {
  const int64_t size = w->size[w->rank - 1], stride = w->stride[w->rank - 1];
  fl_cursor c;
  fl_walk_seek(w, point, &c);
  while (n > 0) {
    const int64_t left = size - c.at[w->rank - 1], run = left < n ? left : n;
    const int64_t first = offset + c.off;
    for (int64_t i = 0; i < run; i++) y[i] = first + i * stride;
    y += run;
    n -= run;
    fl_walk_next(w, &c, run);
  }
}

/* Converts the 1-based index v (negative: from the end, if 'negative' is set) to the 0-based k.
** Masks, with all bits set or none: 'in' if k is in range, 'skip' if v is to be ignored. */
#define INDEX(v) \
  const int64_t skip = ignore & -(int64_t)((v) == -100), back = negative & ((v) >> 63); \
  const int64_t k = (int64_t)((uint64_t)(v) - 1 + (uint64_t)(back & (size + 1))); \
  const int64_t in = -(int64_t)((k >= 0) & (k < size));
#define INDEX_FLAGS \
  const int64_t negative = -(int64_t)((flags & FL_INDEX_NEGATIVE) != 0); \
  const int64_t ignore = -(int64_t)((flags & FL_INDEX_IGNORE) != 0);

static int index_check(int64_t *y, const int64_t *a, int64_t size, int64_t n, int flags) {
  int64_t bad = 0;
  INDEX_FLAGS
  if (!flags) {
    _Pragma("GCC ivdep") for (int64_t i = 0; i < n; i++) {
      const int64_t in = -(int64_t)((a[i] >= 1) & (a[i] <= size));
      bad |= ~in;
      y[i] = (int64_t)((uint64_t)a[i] - 1) & in;
    }
    return !bad;
  }
  _Pragma("GCC ivdep") for (int64_t i = 0; i < n; i++) {
    INDEX(a[i])
    bad |= ~(in | skip);
    y[i] = k & in & ~skip;
  }
  return !bad;
}

/* Reports indices out of range in *f, which keeps the lowest (site, position) seen so far. */
static void index_report(const int64_t *a, int64_t size, const int64_t *place, int64_t n, int uni,
                         int flags, int site, fl_vm_fault *f) {
  INDEX_FLAGS
  if (f->site >= 0 && f->site < site) return;
  for (int64_t i = 0; i < n; i++) {
    const int64_t at = uni & 4 ? place[0] : place[i];
    INDEX(a[i])
    if ((in | skip) || (f->site == site && f->position <= at)) continue;
    *f = (fl_vm_fault){ site, a[i], at };
  }
}
#undef INDEX
#undef INDEX_FLAGS

/* ---- the table --------------------- */

#define ALL(f) { f##_f64, f##_f32, f##_i64, f##_i32 }
#define ROW_FLOAT(f) { f##_f64, f##_f32, 0, 0 }
#define ROW_INT(f) { 0, 0, f##_i64, f##_i32 }
#define ROW_NUM(f) ALL(f)
#define ROW_SAME(f) ALL(f)
#define ROW_TEST(f) ALL(f)
#define ROW_WHERE(f) ALL(f)
#define STATE(name, t) \
  { start_##name##_##t, rows_##name##_##t, cols_##name##_##t, merge_##name##_##t }
#define STATES_ALL(n) { STATE(n, f64), STATE(n, f32), STATE(n, i64), STATE(n, i32) }
#define STATES_SUMS(n) STATES_ALL(n)
#define STATES_SAME(n) STATES_ALL(n)
#define STATES_POSITION(n) STATES_ALL(n)
#define STATES_TEST(n) { [FL_REG_I64] = STATE(n, i64), [FL_REG_I32] = STATE(n, i32) }
#define CASTS(t) { cast_f64_##t, cast_f32_##t, cast_f16_##t, cast_bf16_##t, cast_i64_##t, \
                   cast_i32_##t, cast_i16_##t, cast_i8_##t, cast_u8_##t, cast_bool_##t }
#define DTYPES(f) { f##_f64, f##_f32, f##_f16, f##_bf16, f##_i64, f##_i32, f##_i16, f##_i8, \
                    f##_u8, f##_bool }

/* Loops that replace those of ops.def: the same bits, faster. */
#define NEAR_NUM(f) { near_##f##_f64, near_##f##_f32, b_##f##_i64, b_##f##_i32 }
#define NEAR_FLOAT(f) { near_##f##_f64, near_##f##_f32, 0, 0 }
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Woverride-init"

const fl_vm FL_ISA_NAME(fl_vm) = {
  .name = FL_ISA_TEXT,
  .op = {
#define UNARY(name, kind, value, grad, domain, doc) [FL_OP_##name] = ROW_##kind(u_##name),
#define BINARY(name, kind, value, g1, g2, domain, doc) [FL_OP_##name] = ROW_##kind(b_##name),
#define TERNARY(name, kind, value, g1, g2, g3, domain, doc) [FL_OP_##name] = ROW_##kind(t_##name),
#define REDUCE(name, kind, init, value, grad, doc)
#define SPECIAL(...)
#include "tensor/ops.def"
    [FL_OP_fmod] = NEAR_NUM(fmod), [FL_OP_mod] = NEAR_NUM(mod),
    [FL_OP_floordiv] = NEAR_NUM(floordiv),
    [FL_OP_sin] = NEAR_FLOAT(sin), [FL_OP_cos] = NEAR_FLOAT(cos), [FL_OP_tan] = NEAR_FLOAT(tan),
  },
  .uniform = {
#define UNARY(name, kind, value, grad, domain, doc)
#define BINARY(name, kind, value, g1, g2, domain, doc) [FL_OP_##name] = CHEAP(name),
#define TERNARY(name, kind, value, g1, g2, g3, domain, doc) [FL_OP_##name] = 1,
#define REDUCE(name, kind, init, value, grad, doc)
#define SPECIAL(...)
#include "tensor/ops.def"
  },
  .reduce = {
#define UNARY(name, kind, value, grad, domain, doc)
#define BINARY(name, kind, value, g1, g2, domain, doc)
#define TERNARY(name, kind, value, g1, g2, g3, domain, doc)
#define REDUCE(name, kind, init, value, grad, doc) [FL_OP_##name] = STATES_##kind(name),
#define SPECIAL(...)
#include "tensor/ops.def"
  },
  .pairs = &FL_ISA_NAME(fl_vm_pairs),
  .cast = { CASTS(f64), CASTS(f32), CASTS(i64), CASTS(i32) },
  .round = { 0, 0, round_f16, round_bf16, 0, 0, round_i16, round_i8, round_u8, round_bool },
  .load = DTYPES(load),
  .store = DTYPES(store),
  .gather = DTYPES(gather),
  .draw = {
    { draw_uniform_f64, draw_uniform_f32, draw_uniform_f16, draw_uniform_bf16 },
    { draw_normal_f64, draw_normal_f32, draw_normal_f16, draw_normal_bf16 },
    { 0, 0, 0, 0, draw_randint_i64, draw_randint_i32, draw_randint_i16, draw_randint_i8,
      draw_randint_u8, draw_randint_bool } },
  .fill = ALL(fill),
  .spread = ALL(spread),
  .tile = ALL(tile),
  .iota = iota,
  .index = index_check,
  .report = index_report,
};
#pragma GCC diagnostic pop
