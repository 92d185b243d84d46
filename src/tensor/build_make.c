/*
** Builders of values without tensor inputs: fills, ranges and random numbers. Rules. Numbers are
** stored in the node (scal) and not in the plan, so a fill with another value has the same plan. A
** random node reserves its counters when it is recorded, whether it is used or not: one 32-bit word
** per element, two for f64 and for all randint (tensor/math.h); counter base and seed are scalars 2
** and 3.
*/
#include "tensor/build_util.h"

fl_node *n_fill(flame_context *c, int dtype, int device, int rank, const int64_t *size,
                fl_scalar v) {
  fl_layout *shape = fl_shape_of(c, rank, size, "full");
  fl_node *y = shape ? fl_node_new(c, FL_OP_fill, dtype, device, shape, 0, NULL) : NULL;
  if (!y) return fl_no_memory(c, "full");
  y->scal[0] = v;
  return y;
}

fl_node *n_iota(flame_context *c, int dtype, int device, int rank, const int64_t *size,
                fl_scalar first, fl_scalar step) {
  fl_layout *shape = fl_shape_of(c, rank, size, "arange");
  if (!shape) return NULL;
  if (dtype == FLAME_BOOL) {
    fl_layout_release(&c->layouts, shape);
    FL_FAIL(c, FLAME_BAD_ARGUMENT, "arange",
            "dtype bool is not supported, need a number type");
    return NULL;
  }
  fl_node *y = fl_node_new(c, FL_OP_iota, dtype, device, shape, 0, NULL);
  if (!y) return fl_no_memory(c, "arange");
  y->scal[0] = first;
  y->scal[1] = step;
  if (fl_is_integer(dtype) && first.i == 0 && step.i == 1) {
    fl_attr *a = fl_node_attr(y);
    if (!a) return fl_no_memory(c, "arange");
    a->flags = FL_IOTA_COUNT;
  }
  return y;
}

static int random_dtype_ok(flame_context *c, int op, int dtype) {
  const int ints = op == FL_OP_randint;
  if (ints ? fl_is_integer(dtype) : fl_is_float(dtype)) return 1;
  FL_FAIL(c, FLAME_BAD_ARGUMENT, fl_ops[op].name, "dtype %s is not supported, need %s",
          fl_dtype_name(dtype), ints ? "an integer type" : "a float type");
  return 0;
}

/* Records a random node, which draws this many random words; -1: as many as its elements need. a,
** b: its range or other parameters, which become scalars 0 and 1. */
static fl_node *draws(flame_context *c, int op, int dtype, int device, int rank,
                      const int64_t *size, fl_scalar a, fl_scalar b, int64_t words) {
  const char *name = fl_ops[op].name;
  fl_layout *shape = fl_shape_of(c, rank, size, name);
  if (!shape) return NULL;
  const int twice = op == FL_OP_randint || dtype == FLAME_F64;
  if (words < 0) words = shape->numel * (twice ? 2 : 1);
  fl_node *y = fl_node_new(c, op, dtype, device, shape, 0, NULL);
  if (!y) return fl_no_memory(c, name);
  y->scal[0] = a;
  y->scal[1] = b;
  y->scal[2].i = (int64_t)fl_rng_take(&c->rng, words);
  y->scal[3].i = (int64_t)c->rng.seed;
  return y;
}

fl_node *n_random(flame_context *c, int op, int dtype, int device, int rank,
                  const int64_t *size, double a, double b) {
  if (op == FL_OP_randint)
    return n_randint(c, dtype, device, rank, size, (int64_t)a, (int64_t)b);
  if (!random_dtype_ok(c, op, dtype)) return NULL;
  if (op == FL_OP_uniform && !(a <= b)) {
    FL_FAIL(c, FLAME_BAD_ARGUMENT, "uniform", "the range from %g to %g is empty", a, b);
    return NULL;
  }
  if (op == FL_OP_normal && b < 0) {
    FL_FAIL(c, FLAME_BAD_ARGUMENT, "normal", "std = %.14g is negative", b);
    return NULL;
  }
  return draws(c, op, dtype, device, rank, size, (fl_scalar){ .d = a }, (fl_scalar){ .d = b }, -1);
}

fl_node *n_randint(flame_context *c, int dtype, int device, int rank, const int64_t *size,
                   int64_t low, int64_t high) {
  if (!random_dtype_ok(c, FL_OP_randint, dtype)) return NULL;
  const int bits = 8 * (int)fl_dtype_size(dtype), u = dtype == FLAME_U8;
  const int64_t most = bits == 64 ? INT64_MAX : (INT64_C(1) << (bits - !u)) - 1,
                least = u ? 0 : -most - 1;
  if (low > high || low < least || high > most) {
    FL_FAIL(c, FLAME_BAD_ARGUMENT, "randint", "the range from %lld to %lld is %s %s",
            (long long)low, (long long)high, low > high ? "empty for" : "not in that of",
            fl_dtype_name(dtype));
    return NULL;
  }
  return draws(c, FL_OP_randint, dtype, device, rank, size, (fl_scalar){ .i = low },
               (fl_scalar){ .i = high }, -1);
}

fl_node *n_draw_key(flame_context *c, int device, int64_t words) {
  const fl_scalar none = { .i = 0 };
  fl_node *y = draws(c, FL_OP_draw_key, FLAME_I64, device, 1, (int64_t[]){ 2 }, none, none, words);
  if (!y) return NULL;
  y->scal[0] = y->scal[2];
  y->scal[1].i = (int64_t)((uint64_t)y->scal[3].i - (uint64_t)y->scal[2].i);
  return y;
}

fl_node *n_drawn(flame_context *c, int device, int rank, const int64_t *size, int64_t base,
                 int64_t seed) {
  const fl_scalar low = { .d = 0 }, high = { .d = 1 };
  fl_node *y = draws(c, FL_OP_uniform, FLAME_F32, device, rank, size, low, high, 0);
  if (!y) return NULL;
  y->scal[2].i = base;
  y->scal[3].i = seed;
  return y;
}
