/*
** A naive executor of the planner's kernels, for tests. It goes row by row and value by value, and
** stores every value of a row. It follows plan/kernel.h literally, the order of reductions
** included, and shares nothing with cpu/ but the functions of tensor/math.h.
*/
#ifndef FL_SPEC_KERNEL_REF_H
#define FL_SPEC_KERNEL_REF_H
#include "device/device.h"
#include "tensor/math.h"
#include <stdlib.h>

typedef union ref_value { double f64; float f32; int64_t i64; int32_t i32; } ref_value;

typedef struct ref_run {
  const fl_kernel *k;
  char *const *buffer;              /* buffer[i]: the address of element 0 of operand i */
  const fl_scalar *scalar;
  fl_fault fault;
  ref_value **val;                  /* [i]: values of instruction i: one at level 0, n at level 1 */
  int64_t coord[FL_MAX_AXES];
} ref_run;

static ref_value ref_load(const char *p, int dtype) {
  const fl_scalar s = fl_scalar_load(p, dtype);
  ref_value v = { .i64 = 0 };
  switch (fl_dtype_reg(dtype)) {
    case FL_REG_F64: v.f64 = s.d; break;
    case FL_REG_F32: v.f32 = (float)s.d; break;
    case FL_REG_I64: v.i64 = s.i; break;
    default: v.i32 = (int32_t)s.i; break;
  }
  return v;
}

static fl_scalar ref_scalar(ref_value v, int dtype) {
  fl_scalar s = { .i = 0 };
  switch (fl_dtype_reg(dtype)) {
    case FL_REG_F64: s.d = v.f64; break;
    case FL_REG_F32: s.d = (double)v.f32; break;
    case FL_REG_I64: s.i = v.i64; break;
    default: s.i = v.i32; break;
  }
  return s;
}

static ref_value ref_of_scalar(fl_scalar s, int dtype) {
  ref_value v = { .i64 = 0 };
  switch (fl_dtype_reg(dtype)) {
    case FL_REG_F64: v.f64 = s.d; break;
    case FL_REG_F32: v.f32 = (float)s.d; break;
    case FL_REG_I64: v.i64 = s.i; break;
    default: v.i32 = (int32_t)s.i; break;
  }
  return v;
}

static ref_value ref_round(ref_value v, int dtype) {
  switch (dtype) {
    case FLAME_F16: v.f32 = fl_round_f16(v.f32); break;
    case FLAME_BF16: v.f32 = fl_round_bf16(v.f32); break;
    case FLAME_I16: v.i32 = fl_round_i16(v.i32); break;
    case FLAME_I8: v.i32 = fl_round_i8(v.i32); break;
    case FLAME_U8: v.i32 = fl_round_u8(v.i32); break;
    case FLAME_BOOL: v.i32 = v.i32 != 0; break;
    default: break;
  }
  return v;
}

/* ---- operations by register type, from ops.def ------------------------------------------ */

#define RJOIN_(a, b) a##_##b
#define RJOIN(a, b) RJOIN_(a, b)
#define M(f) RJOIN(fl_##f, SUFFIX)
#define REF_OUT_FLOAT(x) r.SUFFIX = (x)
#define REF_OUT_NUM(x) r.SUFFIX = (x)
#define REF_OUT_SAME(x) r.SUFFIX = (x)
#define REF_OUT_INT(x) r.SUFFIX = (x)
#define REF_OUT_WHERE(x) r.SUFFIX = (x)
#define REF_OUT_TEST(x) r.i32 = (x)
#define UNARY(name, kind, value, grad, domain, doc) \
  REF_##kind(case FL_OP_##name: { const T x = a.SUFFIX; REF_OUT_##kind(value); break; })
#define BINARY(name, kind, value, g1, g2, domain, doc) \
  REF_##kind(case FL_OP_##name: { const T x1 = a.SUFFIX, x2 = b.SUFFIX; \
                                  REF_OUT_##kind(value); break; })
#define TERNARY(name, kind, value, g1, g2, g3, domain, doc) \
  case FL_OP_##name: { \
    REF_FIRST_##kind; \
    const T x2 = b.SUFFIX, x3 = c.SUFFIX; \
    REF_OUT_##kind(value); \
    break; \
  }
#define REDUCE(name, kind, init, value, grad, doc)
#define SPECIAL(...)
#define REF_FIRST_SAME const T x1 = a.SUFFIX
#define REF_FIRST_WHERE const int32_t x1 = a.i32
#define REF_NUM(...) __VA_ARGS__
#define REF_SAME(...) __VA_ARGS__
#define REF_TEST(...) __VA_ARGS__
#define REF_WHERE(...) __VA_ARGS__
#define REF_FLOAT(...) __VA_ARGS__
#define REF_INT(...)
static ref_value ref_op_f64(int op, ref_value a, ref_value b, ref_value c) {
  ref_value r = { .i64 = 0 };
#define T double
#define SUFFIX f64
  switch (op) {
#include "tensor/ops.def"
    default: break;
  }
#undef T
#undef SUFFIX
  return r;
}
#define UNARY(name, kind, value, grad, domain, doc) \
  REF_##kind(case FL_OP_##name: { const T x = a.SUFFIX; REF_OUT_##kind(value); break; })
#define BINARY(name, kind, value, g1, g2, domain, doc) \
  REF_##kind(case FL_OP_##name: { const T x1 = a.SUFFIX, x2 = b.SUFFIX; \
                                  REF_OUT_##kind(value); break; })
#define TERNARY(name, kind, value, g1, g2, g3, domain, doc) \
  case FL_OP_##name: { \
    REF_FIRST_##kind; \
    const T x2 = b.SUFFIX, x3 = c.SUFFIX; \
    REF_OUT_##kind(value); \
    break; \
  }
#define REDUCE(name, kind, init, value, grad, doc)
#define SPECIAL(...)
static ref_value ref_op_f32(int op, ref_value a, ref_value b, ref_value c) {
  ref_value r = { .i64 = 0 };
#define T float
#define SUFFIX f32
  switch (op) {
#include "tensor/ops.def"
    default: break;
  }
#undef T
#undef SUFFIX
  return r;
}
#undef REF_FLOAT
#undef REF_INT
#define REF_FLOAT(...)
#define REF_INT(...) __VA_ARGS__
#define UNARY(name, kind, value, grad, domain, doc) \
  REF_##kind(case FL_OP_##name: { const T x = a.SUFFIX; REF_OUT_##kind(value); break; })
#define BINARY(name, kind, value, g1, g2, domain, doc) \
  REF_##kind(case FL_OP_##name: { const T x1 = a.SUFFIX, x2 = b.SUFFIX; \
                                  REF_OUT_##kind(value); break; })
#define TERNARY(name, kind, value, g1, g2, g3, domain, doc) \
  case FL_OP_##name: { \
    REF_FIRST_##kind; \
    const T x2 = b.SUFFIX, x3 = c.SUFFIX; \
    REF_OUT_##kind(value); \
    break; \
  }
#define REDUCE(name, kind, init, value, grad, doc)
#define SPECIAL(...)
static ref_value ref_op_i64(int op, ref_value a, ref_value b, ref_value c) {
  ref_value r = { .i64 = 0 };
#define T int64_t
#define SUFFIX i64
  switch (op) {
#include "tensor/ops.def"
    default: break;
  }
#undef T
#undef SUFFIX
  return r;
}
#define UNARY(name, kind, value, grad, domain, doc) \
  REF_##kind(case FL_OP_##name: { const T x = a.SUFFIX; REF_OUT_##kind(value); break; })
#define BINARY(name, kind, value, g1, g2, domain, doc) \
  REF_##kind(case FL_OP_##name: { const T x1 = a.SUFFIX, x2 = b.SUFFIX; \
                                  REF_OUT_##kind(value); break; })
#define TERNARY(name, kind, value, g1, g2, g3, domain, doc) \
  case FL_OP_##name: { \
    REF_FIRST_##kind; \
    const T x2 = b.SUFFIX, x3 = c.SUFFIX; \
    REF_OUT_##kind(value); \
    break; \
  }
#define REDUCE(name, kind, init, value, grad, doc)
#define SPECIAL(...)
static ref_value ref_op_i32(int op, ref_value a, ref_value b, ref_value c) {
  ref_value r = { .i64 = 0 };
#define T int32_t
#define SUFFIX i32
  switch (op) {
#include "tensor/ops.def"
    default: break;
  }
#undef T
#undef SUFFIX
  return r;
}
#undef M

static ref_value ref_op(const fl_instr *x, ref_value a, ref_value b, ref_value c) {
  ref_value r;
  if (x->op == FL_OP_bitwise_not && x->dtype == FLAME_BOOL) {
    r.i64 = 0;
    r.i32 = !a.i32;
    return r;
  }
  switch (fl_dtype_reg(x->from)) {
    case FL_REG_F64: r = ref_op_f64(x->op, a, b, c); break;
    case FL_REG_F32: r = ref_op_f32(x->op, a, b, c); break;
    case FL_REG_I64: r = ref_op_i64(x->op, a, b, c); break;
    default: r = ref_op_i32(x->op, a, b, c); break;
  }
  return ref_round(r, x->dtype);
}

/* ---- reductions: combine two values of a dtype's register --------------------------------- */

static ref_value ref_combine(int op, int dtype, ref_value a, ref_value b) {
  const int as = op == FL_OP_sum ? FL_OP_add : op == FL_OP_prod ? FL_OP_mul :
                 op == FL_OP_amax || op == FL_OP_argmax ? FL_OP_maximum :
                 op == FL_OP_amin || op == FL_OP_argmin ? FL_OP_minimum :
                 op == FL_OP_any ? FL_OP_logical_or : FL_OP_logical_and;
  static const int of_register[] = { FLAME_F64, FLAME_F32, FLAME_I64, FLAME_I32 };
  /* wide: the register's dtype; a reduction is computed in it and rounded once, at the end */
  const int wide = of_register[fl_dtype_reg(dtype)];
  const fl_instr x = { .code = FL_I_OP, .op = (uint16_t)as, .from = (uint8_t)wide,
                       .dtype = (uint8_t)wide };
  return ref_op(&x, a, b, a);
}

static ref_value ref_start(int op, int dtype) {
  ref_value v = { .i64 = 0 };
  const double inf = (double)fl_highest_f32();
  const int low = op == FL_OP_amax || op == FL_OP_argmax,
            high = op == FL_OP_amin || op == FL_OP_argmin;
  const int one = op == FL_OP_prod || op == FL_OP_all;
  switch (fl_dtype_reg(dtype)) {
    case FL_REG_F64: v.f64 = low ? -inf : high ? inf : one; break;
    case FL_REG_F32: v.f32 = low ? -(float)inf : high ? (float)inf : (float)one; break;
    case FL_REG_I64: v.i64 = low ? INT64_MIN : high ? INT64_MAX : one; break;
    default: v.i32 = low ? INT32_MIN : high ? INT32_MAX : one; break;
  }
  return v;
}

typedef struct ref_counter { ref_value part[64]; int64_t size[64]; int depth; } ref_counter;

static void ref_push(ref_counter *s, int op, int dtype, ref_value v) {
  int64_t size = 1;
  while (s->depth > 0 && s->size[s->depth - 1] == size) {
    v = ref_combine(op, dtype, s->part[--s->depth], v);
    size *= 2;
  }
  s->part[s->depth] = v;
  s->size[s->depth++] = size;
}

static ref_value ref_pop_all(ref_counter *s, int op, int dtype) {
  ref_value v = s->part[--s->depth];
  while (s->depth > 0) v = ref_combine(op, dtype, s->part[--s->depth], v);
  return v;
}

static ref_value ref_block(int op, int dtype, const ref_value *x, int64_t n) {
  ref_value lane[16];
  for (int l = 0; l < 16; l++) lane[l] = ref_start(op, dtype);
  for (int64_t i = 0; i < n; i++) lane[i % 16] = ref_combine(op, dtype, lane[i % 16], x[i]);
  for (int s = 8; s > 0; s /= 2)
    for (int l = 0; l < s; l++) lane[l] = ref_combine(op, dtype, lane[l], lane[l + s]);
  return lane[0];
}

static ref_value ref_fold(int kind, int op, int dtype, const ref_value *x, int64_t n) {
  ref_counter s = { .depth = 0 };
  if (n == 0) return ref_start(op, dtype);
  if (kind == FL_K_COL) {
    for (int64_t i = 0; i < n; i += 256) {
      ref_value v = ref_start(op, dtype);
      for (int64_t j = i; j < n && j < i + 256; j++) v = ref_combine(op, dtype, v, x[j]);
      ref_push(&s, op, dtype, v);
    }
  } else {
    for (int64_t i = 0; i < n; i += 1024)
      ref_push(&s, op, dtype, ref_block(op, dtype, x + i, n - i < 1024 ? n - i : 1024));
  }
  return ref_pop_all(&s, op, dtype);
}

static int64_t ref_position(int op, int dtype, const ref_value *x, int64_t n) {
  int64_t best = 0;
  for (int64_t i = 1; i < n; i++) {
    const fl_scalar a = ref_scalar(x[best], dtype), b = ref_scalar(x[i], dtype);
    const int up = op == FL_OP_argmax;
    if (fl_is_float(dtype)) {
      if (a.d != a.d) continue;
      if (b.d != b.d || (up ? b.d > a.d : b.d < a.d)) best = i;
    } else if (up ? b.i > a.i : b.i < a.i) {
      best = i;
    }
  }
  return best + 1;
}

static ref_value ref_reduce(const ref_run *r, const fl_instr *x) {
  const fl_kernel *k = r->k;
  const int kind = fl_ops[x->op].kind;
  const ref_value *src = r->val[x->a];
  ref_value v = { .i64 = 0 };
  if (kind == FL_KIND_POSITION) {
    v.i64 = ref_position(x->op, x->from, src, k->n);
    return v;
  }
  int dtype = x->from;
  ref_value *copy = malloc(sizeof *copy * (size_t)(k->n + 1));
  if (kind == FL_KIND_TEST) dtype = FLAME_BOOL;
  if (kind == FL_KIND_SUMS && !fl_is_float(x->from)) dtype = FLAME_I64;
  for (int64_t i = 0; i < k->n; i++)
    copy[i] = dtype == x->from ? src[i]
                               : ref_of_scalar(fl_scalar_cast(ref_scalar(src[i], x->from), x->from,
                                                              dtype), dtype);
  v = ref_round(ref_fold(k->kind, x->op, dtype, copy, k->n), x->dtype);
  free(copy);
  return v;
}

/* ---- one value at one point ------------------------------------------------------------------ */

static int64_t ref_offset(const ref_run *r, const fl_operand *o) {
  int64_t at = o->offset;
  for (int d = 0; d < r->k->nkept + r->k->nred; d++) at += r->coord[d] * o->stride[d];
  return at;
}

static ref_value ref_random(const ref_run *r, const fl_instr *x, int64_t i, ref_value a,
                            ref_value b) {
  const uint64_t base = (uint64_t)r->scalar[r->k->scalar[x->arg]].i;
  const uint64_t seed = (uint64_t)r->scalar[r->k->scalar[x->arg + 1]].i;
  ref_value v = { .i64 = 0 };
  if (x->op == FL_OP_randint) {
    if (x->dtype == FLAME_I64) v.i64 = fl_random_randint_i64(i, base, seed, a.i64, b.i64);
    else v.i32 = fl_random_randint_i32(i, base, seed, (int32_t)a.i64, (int32_t)b.i64);
  } else if (x->op == FL_OP_normal) {
    if (x->dtype == FLAME_F64) v.f64 = fl_random_normal_f64(i, base, seed, a.f64, b.f64);
    else v.f32 = fl_random_normal_f32(i, base, seed, a.f32, b.f32);
  } else if (x->dtype == FLAME_F64) {
    v.f64 = fl_random_uniform_f64(i, base, seed, a.f64, b.f64);
  } else if (x->dtype == FLAME_F16) {
    v.f32 = fl_random_uniform_f16(i, base, seed, a.f32, b.f32);
  } else if (x->dtype == FLAME_BF16) {
    v.f32 = fl_random_uniform_bf16(i, base, seed, a.f32, b.f32);
  } else {
    v.f32 = fl_random_uniform_f32(i, base, seed, a.f32, b.f32);
  }
  return ref_round(v, x->dtype);
}

static ref_value ref_index(ref_run *r, const fl_instr *x, int64_t v, int64_t size, int64_t place) {
  ref_value out = { .i64 = 0 };
  if ((x->op & FL_INDEX_IGNORE) && v == -100) return out;
  if (v >= 1 && v <= size) out.i64 = v - 1;
  else if ((x->op & FL_INDEX_NEGATIVE) && v < 0 && v >= -size) out.i64 = v + size;
  else if (r->fault.site < 0 || x->arg < r->fault.site ||
           (x->arg == r->fault.site && place < r->fault.position))
    r->fault = (fl_fault){ .site = x->arg, .value = v, .position = place };
  return out;
}

static ref_value ref_value_at(ref_run *r, const fl_instr *x, int64_t i) {
  const fl_kernel *k = r->k;
  const uint16_t in[3] = { x->a, x->b, x->c };
  ref_value v[3];
  for (int j = 0; j < 3; j++) {
    v[j] = (ref_value){ .i64 = 0 };
    if (in[j] < (uint16_t)(x - k->instr)) v[j] = r->val[in[j]][k->instr[in[j]].level ? i : 0];
  }
  const fl_operand *o = &k->operand[x->arg < k->noperand ? x->arg : 0];
  ref_value y = { .i64 = 0 };
  switch (x->code) {
    case FL_I_LOAD:
      return ref_load(r->buffer[x->arg] + ref_offset(r, o) * fl_dtype_size(o->dtype), o->dtype);
    case FL_I_GATHER:
      return ref_load(r->buffer[x->arg] + (ref_offset(r, o) + v[0].i64 * o->gstride) *
                      fl_dtype_size(o->dtype), o->dtype);
    case FL_I_IOTA: y.i64 = ref_offset(r, o); return y;
    case FL_I_SCALAR: return ref_of_scalar(r->scalar[k->scalar[x->arg]], x->dtype);
    case FL_I_OP: return ref_op(x, v[0], v[1], v[2]);
    case FL_I_CAST:
      return ref_of_scalar(fl_scalar_cast(ref_scalar(v[0], x->from), x->from, x->dtype), x->dtype);
    case FL_I_INDEX: return ref_index(r, x, v[0].i64, v[1].i64, v[2].i64);
    case FL_I_RANDOM: return ref_random(r, x, v[0].i64, v[1], v[2]);
    default: return y;
  }
}

static void ref_set_coord(ref_run *r, int first, int n, int64_t i) {
  for (int d = first + n - 1; d >= first; d--) {
    r->coord[d] = i % r->k->size[d];
    i /= r->k->size[d];
  }
}

static void ref_row(ref_run *r, int64_t row) {
  const fl_kernel *k = r->k;
  memset(r->coord, 0, sizeof r->coord);
  ref_set_coord(r, 0, k->nkept, row);
  for (int v = 0; v < k->ninstr; v++) {
    const fl_instr *x = &k->instr[v];
    const int64_t n = x->level ? k->n : 1;
    if (x->code == FL_I_REDUCE) {
      r->val[v][0] = ref_reduce(r, x);
      continue;
    }
    for (int64_t i = 0; i < n; i++) {
      for (int d = 0; d < k->nred; d++) r->coord[k->nkept + d] = 0;
      if (x->level) ref_set_coord(r, k->nkept, k->nred, i);
      r->val[v][i] = ref_value_at(r, x, i);
    }
  }
  for (int s = 0; s < k->nstore; s++) {
    const fl_operand *o = &k->operand[k->store[s].operand];
    const int v = k->store[s].value, full = k->instr[v].level;
    for (int64_t i = 0; i < (full ? k->n : 1); i++) {
      for (int d = 0; d < k->nred; d++) r->coord[k->nkept + d] = 0;
      if (full) ref_set_coord(r, k->nkept, k->nred, i);
      fl_scalar_store(r->buffer[k->store[s].operand] + ref_offset(r, o) * fl_dtype_size(o->dtype),
                      o->dtype, ref_scalar(r->val[v][i], o->dtype));
    }
  }
}

/* Runs the kernel. buffer[i] is the memory of operand i, which the kernel may write to. Returns the
** first fault (its site is -1 if there is none). */
static fl_fault ref_kernel(const fl_kernel *k, char *const *buffer, const fl_scalar *scalar) {
  ref_run r = { .k = k, .buffer = buffer, .scalar = scalar, .fault = { .site = -1 } };
  const int64_t rows = k->kind == FL_K_MAP ? k->points : k->rows;
  r.val = malloc(sizeof *r.val * (k->ninstr + 1u));
  for (int v = 0; v < k->ninstr; v++)
    r.val[v] = malloc(sizeof(ref_value) * (size_t)((k->instr[v].level ? k->n : 1) + 1));
  for (int64_t i = 0; i < rows; i++) ref_row(&r, i);
  for (int v = 0; v < k->ninstr; v++) free(r.val[v]);
  free(r.val);
  return r.fault;
}
#endif
