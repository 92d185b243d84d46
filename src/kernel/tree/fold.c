/*
** Constant folding: all operators of integers and BOOL; negation, + - * / and comparisons of
** floats; casts. Division by zero is left to the kernel. Results are in the form of fl_kvalue:
** integers wrapped to the type (I64 holds them with their sign), floats rounded to the type.
*/
#include "kernel/tree/fold.h"
#include "tensor/dtype.h"
#include <math.h>

static int64_t wrap(int type, uint64_t u) {
  switch (type) {
    case FL_KT_BOOL: return u != 0;
    case FL_KT_I8: return (int8_t)u;
    case FL_KT_U8: return (uint8_t)u;
    case FL_KT_I16: return (int16_t)u;
    case FL_KT_U16: return (uint16_t)u;
    case FL_KT_I32: return (int32_t)u;
    case FL_KT_U32: return (uint32_t)u;
    default: return (int64_t)u;
  }
}

static double round_to(int type, double d) {
  switch (type) {
    case FL_KT_F16: return fl_f16_to_f32(fl_f32_to_f16((float)d));
    case FL_KT_BF16: return fl_bf16_to_f32(fl_f32_to_bf16((float)d));
    case FL_KT_F32: return (float)d;
    default: return d;
  }
}

/* Truncates and saturates at the ends of the type; NaN gives 0. BOOL: d != 0. */
static int64_t to_integer(int type, double d) {
  static const struct { double low, top; int64_t first, last; } range[FL_KT_COUNT] = {
    [FL_KT_I8] = { -128, 128, -128, 127 },           [FL_KT_U8] = { 0, 256, 0, 255 },
    [FL_KT_I16] = { -32768, 32768, -32768, 32767 },  [FL_KT_U16] = { 0, 65536, 0, 65535 },
    [FL_KT_I32] = { -0x1p31, 0x1p31, INT32_MIN, INT32_MAX },
    [FL_KT_U32] = { 0, 0x1p32, 0, UINT32_MAX },
    [FL_KT_I64] = { -0x1p63, 0x1p63, INT64_MIN, INT64_MAX },
    [FL_KT_U64] = { 0, 0x1p64, 0, -1 },
  };
  if (type == FL_KT_BOOL) return d != 0;
  if (d != d) return 0;
  if (d >= range[type].top) return range[type].last;
  if (d <= range[type].low) return range[type].first;
  return type == FL_KT_U64 ? (int64_t)(uint64_t)d : (int64_t)d;
}

fl_kvalue fl_kfold_cast(fl_kvalue v, int from, int to) {
  fl_kvalue r;
  if (fl_kt_is_float(to)) {
    if (fl_kt_is_float(from)) r.d = round_to(to, v.d);
    else if (to == FL_KT_F64) r.d = from == FL_KT_U64 ? (double)(uint64_t)v.i : (double)v.i;
    else r.d = round_to(to, from == FL_KT_U64 ? (float)(uint64_t)v.i : (float)v.i);
  } else {
    r.i = fl_kt_is_float(from) ? to_integer(to, v.d) : wrap(to, (uint64_t)v.i);
  }
  return r;
}

int fl_kfold_unary(int op, int type, fl_kvalue x, fl_kvalue *out) {
  if (fl_kt_is_float(type)) {
    if (op != FL_KO_NEG) return 0;
    out->d = -x.d;
    return 1;
  }
  switch (op) {
    case FL_KO_NEG: out->i = wrap(type, 0 - (uint64_t)x.i); return 1;
    case FL_KO_INVERT: out->i = wrap(type, ~(uint64_t)x.i); return 1;
    case FL_KO_NOT: out->i = !x.i; return 1;
    default: return 0;
  }
}

static int fold_float(int op, int type, double x, double y, fl_kvalue *out) {
  switch (op) {
    case FL_KO_ADD: out->d = round_to(type, x + y); return 1;
    case FL_KO_SUB: out->d = round_to(type, x - y); return 1;
    case FL_KO_MUL: out->d = round_to(type, x * y); return 1;
    case FL_KO_DIV: out->d = round_to(type, x / y); return y != 0;
    case FL_KO_LT: out->i = x < y; return 1;
    case FL_KO_LE: out->i = x <= y; return 1;
    case FL_KO_GT: out->i = x > y; return 1;
    case FL_KO_GE: out->i = x >= y; return 1;
    case FL_KO_EQ: out->i = x == y; return 1;
    case FL_KO_NE: out->i = x != y; return 1;
    default: return 0;
  }
}

static int fold_compare(int op, int is_u64, int64_t x, int64_t y, fl_kvalue *out) {
  const int less = is_u64 ? (uint64_t)x < (uint64_t)y : x < y;
  const int more = is_u64 ? (uint64_t)x > (uint64_t)y : x > y;
  switch (op) {
    case FL_KO_LT: out->i = less; return 1;
    case FL_KO_LE: out->i = !more; return 1;
    case FL_KO_GT: out->i = more; return 1;
    case FL_KO_GE: out->i = !less; return 1;
    case FL_KO_EQ: out->i = x == y; return 1;
    case FL_KO_NE: out->i = x != y; return 1;
    case FL_KO_LAND: out->i = x && y; return 1;
    case FL_KO_LOR: out->i = x || y; return 1;
    default: return 0;
  }
}

static int64_t shift(int op, int type, int64_t x, int64_t count) {
  const int width = 8 * fl_kt_size(type);
  const int is_signed = fl_ktypes[type].is_signed;
  if (count < 0 || count >= width) return op == FL_KO_SHR && is_signed && x < 0 ? -1 : 0;
  if (op == FL_KO_SHL) return wrap(type, (uint64_t)x << count);
  if (is_signed) return x >> count;
  return wrap(type, (uint64_t)x >> count);
}

int fl_kfold_binary(int op, int type, fl_kvalue x, fl_kvalue y, fl_kvalue *out) {
  if (fl_kt_is_float(type)) return fold_float(op, type, x.d, y.d, out);
  const int is_u64 = type == FL_KT_U64;
  if (fold_compare(op, is_u64, x.i, y.i, out)) return 1;
  const uint64_t a = (uint64_t)x.i, b = (uint64_t)y.i;
  switch (op) {
    case FL_KO_ADD: out->i = wrap(type, a + b); return 1;
    case FL_KO_SUB: out->i = wrap(type, a - b); return 1;
    case FL_KO_MUL: out->i = wrap(type, a * b); return 1;
    case FL_KO_AND: out->i = wrap(type, a & b); return 1;
    case FL_KO_OR: out->i = wrap(type, a | b); return 1;
    case FL_KO_XOR: out->i = wrap(type, a ^ b); return 1;
    case FL_KO_SHL: case FL_KO_SHR: out->i = shift(op, type, x.i, y.i); return 1;
    case FL_KO_DIV: case FL_KO_REM:
      if (!y.i) return 0;
      if (y.i == -1 && !is_u64) out->i = op == FL_KO_DIV ? wrap(type, 0 - a) : 0;
      else if (is_u64) out->i = (int64_t)(op == FL_KO_DIV ? a / b : a % b);
      else out->i = op == FL_KO_DIV ? x.i / y.i : x.i % y.i;
      return 1;
    default: return 0;
  }
}
