/*
** Sums, maxima and minima of two arrays. They use the functions of tensor/math.h that the ops
** 'add', 'maximum' and 'minimum' use, so a sum over ranks has the bits of x1 + x2 + …, where each
** sum is rounded to the dtype.
*/
#include "group/group.h"
#include "tensor/math.h"

#define LOOP(T, f, load, store) { \
    T *a = acc; \
    const T *b = x; \
    for (int64_t i = 0; i < n; i++) { a[i] = store(f(load(a[i]), load(b[i]))); } \
    break; \
  }
#define KEEP(v) (v)
#define OPS(T, t, load, store) \
  switch (reduce) { \
    case FL_REDUCE_MAX: LOOP(T, fl_max_##t, load, store) \
    case FL_REDUCE_MIN: LOOP(T, fl_min_##t, load, store) \
    default: LOOP(T, fl_add_##t, load, store) \
  } \
  break;

void fl_group_combine(int dtype, int reduce, void *acc, const void *x, int64_t n) {
  switch (dtype) {
    case FLAME_F64: OPS(double, f64, KEEP, KEEP)
    case FLAME_F32: OPS(float, f32, KEEP, KEEP)
    case FLAME_F16: OPS(uint16_t, f32, fl_f16_to_f32, fl_f32_to_f16)
    case FLAME_BF16: OPS(uint16_t, f32, fl_bf16_value, fl_bf16_bits)
    case FLAME_I64: OPS(int64_t, i64, KEEP, KEEP)
    case FLAME_I32: OPS(int32_t, i32, KEEP, KEEP)
    case FLAME_I16: OPS(int16_t, i32, KEEP, (int16_t))
    case FLAME_I8: OPS(int8_t, i32, KEEP, (int8_t))
    case FLAME_U8: OPS(uint8_t, i32, KEEP, (uint8_t))
    default: OPS(uint8_t, i32, KEEP, 0 != )                              /* bool */
  }
}

#define DIVIDE(T, V, load, store) { \
    T *a = acc; \
    const V by = (V)ranks; \
    for (int64_t i = 0; i < n; i++) a[i] = store(load(a[i]) / by); \
    break; \
  }

void fl_group_divide(int dtype, void *acc, int64_t n, int ranks) {
  switch (dtype) {
    case FLAME_F64: DIVIDE(double, double, KEEP, KEEP)
    case FLAME_F32: DIVIDE(float, float, KEEP, KEEP)
    case FLAME_F16: DIVIDE(uint16_t, float, fl_f16_to_f32, fl_f32_to_f16)
    case FLAME_BF16: DIVIDE(uint16_t, float, fl_bf16_value, fl_bf16_bits)
    default: break;
  }
}
