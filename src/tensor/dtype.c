/*
** Dtype facts, promotion, and conversions of single elements. The rules are those of
** tensor/math.h, which the vector loops and the GPU text share; here they are chosen by a
** dtype known only at run time (printing, item, scalars of recorded ops).
*/
#include "tensor/dtype.h"
#include "tensor/math.h"
#include <string.h>

#define DTYPE(id, name, size, reg, cls, ctype, bits, least, kernel)                             \
  { name, kernel, size, FL_REG_##reg, FL_CLASS_##cls, bits, least },
const fl_dtype_info fl_dtypes[FLAME_DTYPE_COUNT] = {
#include "tensor/dtype.def"
};
#undef DTYPE

/* flame.h, which hosts include alone, repeats the list of dtype.def: the order must be the same. */
#define DTYPE(id, ...) AT_##id,
enum {
#include "tensor/dtype.def"
  AT_END
};
#undef DTYPE
#define DTYPE(id, ...) _Static_assert((int)AT_##id == (int)FLAME_##id, "the order of dtype.def");
#include "tensor/dtype.def"
#undef DTYPE
_Static_assert((int)AT_END == (int)FLAME_DTYPE_COUNT, "the dtypes of dtype.def");

int fl_dtype_of_name(const char *name) {
  if (!name) return -1;
  for (int d = 0; d < FLAME_DTYPE_COUNT; d++)
    if (strcmp(fl_dtypes[d].name, name) == 0) return d;
  return -1;
}

static int is_pair(int a, int b, int p, int q) {
  return (a == p && b == q) || (a == q && b == p);
}

int fl_promote(int a, int b) {
  if (a == b) return a;
  if (is_pair(a, b, FLAME_F16, FLAME_BF16)) return FLAME_F32;   /* neither holds the other */
  if (is_pair(a, b, FLAME_U8, FLAME_I8)) return FLAME_I16;
  if (fl_dtypes[a].cls != fl_dtypes[b].cls)
    return fl_dtypes[a].cls > fl_dtypes[b].cls ? a : b;
  return fl_dtypes[a].size >= fl_dtypes[b].size ? a : b;
}

float fl_f16_to_f32(uint16_t h) { return fl_f16_value(h); }
uint16_t fl_f32_to_f16(float f) { return fl_f16_bits(f); }
float fl_bf16_to_f32(uint16_t h) { return fl_bf16_value(h); }
uint16_t fl_f32_to_bf16(float f) { return fl_bf16_bits(f); }

/* Reads the element e of type 'type' at p, and stores 'value', an expression of e, in v.m. */
#define LOAD(type, m, value) { type e; memcpy(&e, p, sizeof e); v.m = (value); break; }

fl_scalar fl_scalar_load(const void *p, int dtype) {
  fl_scalar v = { .i = 0 };
  switch (dtype) {
    case FLAME_F64: LOAD(double, d, e)
    case FLAME_F32: LOAD(float, d, (double)e)
    case FLAME_F16: LOAD(uint16_t, d, (double)fl_f16_value(e))
    case FLAME_BF16: LOAD(uint16_t, d, (double)fl_bf16_value(e))
    case FLAME_I64: LOAD(int64_t, i, e)
    case FLAME_I32: LOAD(int32_t, i, e)
    case FLAME_I16: LOAD(int16_t, i, e)
    case FLAME_I8: LOAD(int8_t, i, e)
    case FLAME_U8: LOAD(uint8_t, i, e)
    case FLAME_BOOL: LOAD(uint8_t, i, e != 0)
    default: break;
  }
  return v;
}
#undef LOAD

#define STORE(type, value) { const type e = (value); memcpy(p, &e, sizeof e); break; }

void fl_scalar_store(void *p, int dtype, fl_scalar v) {
  switch (dtype) {
    case FLAME_F64: STORE(double, v.d)
    case FLAME_F32: STORE(float, (float)v.d)
    case FLAME_F16: STORE(uint16_t, fl_f16_bits((float)v.d))
    case FLAME_BF16: STORE(uint16_t, fl_bf16_bits((float)v.d))
    case FLAME_I64: STORE(int64_t, v.i)
    case FLAME_I32: STORE(int32_t, fl_cast_i64_i32(v.i))
    case FLAME_I16: STORE(int16_t, (int16_t)fl_cast_i64_i16(v.i))
    case FLAME_I8: STORE(int8_t, (int8_t)fl_cast_i64_i8(v.i))
    case FLAME_U8: STORE(uint8_t, (uint8_t)fl_cast_i64_u8(v.i))
    case FLAME_BOOL: STORE(uint8_t, v.i != 0)
    default: break;
  }
}
#undef STORE

/* Converts a float to dtype 'to'. A float dtype narrower than f64 is reached through f32, as in
** kernels. */
static fl_scalar cast_float(double x, int to) {
  fl_scalar r = { .i = 0 };
  switch (to) {
    case FLAME_F64: r.d = x; break;
    case FLAME_F32: r.d = (double)(float)x; break;
    case FLAME_F16: r.d = (double)fl_cast_f64_f16(x); break;
    case FLAME_BF16: r.d = (double)fl_cast_f64_bf16(x); break;
    case FLAME_I64: r.i = fl_cast_f64_i64(x); break;
    case FLAME_I32: r.i = fl_cast_f64_i32(x); break;
    case FLAME_I16: r.i = fl_cast_f64_i16(x); break;
    case FLAME_I8: r.i = fl_cast_f64_i8(x); break;
    case FLAME_U8: r.i = fl_cast_f64_u8(x); break;
    case FLAME_BOOL: r.i = fl_cast_f64_bool(x); break;
    default: break;
  }
  return r;
}

static fl_scalar cast_integer(int64_t x, int to) {
  fl_scalar r = { .i = 0 };
  switch (to) {
    case FLAME_F64: r.d = (double)x; break;
    case FLAME_F32: r.d = (double)(float)x; break;
    case FLAME_F16: r.d = (double)fl_cast_i64_f16(x); break;
    case FLAME_BF16: r.d = (double)fl_cast_i64_bf16(x); break;
    case FLAME_I64: r.i = x; break;
    case FLAME_I32: r.i = fl_cast_i64_i32(x); break;
    case FLAME_I16: r.i = fl_cast_i64_i16(x); break;
    case FLAME_I8: r.i = fl_cast_i64_i8(x); break;
    case FLAME_U8: r.i = fl_cast_i64_u8(x); break;
    case FLAME_BOOL: r.i = x != 0; break;
    default: break;
  }
  return r;
}

fl_scalar fl_scalar_cast(fl_scalar v, int from, int to) {
  return fl_is_float(from) ? cast_float(v.d, to) : cast_integer(v.i, to);
}

fl_scalar fl_dtype_lowest(int dtype) {
  const fl_dtype_info *t = &fl_dtypes[dtype];
  if (t->cls == FL_CLASS_FLOAT) return (fl_scalar){ .d = -__builtin_inf() };
  const int has_sign = t->cls == FL_CLASS_INTEGER && t->bits < 8 * t->size;
  return (fl_scalar){ .i = has_sign ? (int64_t)(UINT64_MAX << t->bits) : 0 };
}
