/*
** Builders of values out of nothing: fills, ranges and random numbers.
**
** Rules. Scalars are slots: a fill with another value is the same plan. A random node
** takes its counters when it is recorded, used or not (API 1), one 32-bit word an
** element, two for f64 and for all randint (tensor/math.h); counter base and seed are
** scalars 2 and 3.
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
  return y;
}

static int random_dtype_ok(flame_context *c, int op, int dtype) {
  const int ints = op == FL_OP_randint;
  if (ints ? fl_is_integer(dtype) : fl_is_float(dtype)) return 1;
  FL_FAIL(c, FLAME_BAD_ARGUMENT, fl_ops[op].name, "dtype %s is not supported, need %s",
          fl_dtype_name(dtype), ints ? "an integer type" : "a float type");
  return 0;
}

fl_node *n_random(flame_context *c, int op, int dtype, int device, int rank,
                  const int64_t *size, double a, double b) {
  const char *name = fl_ops[op].name;
  const int ints = op == FL_OP_randint;
  if (!random_dtype_ok(c, op, dtype)) return NULL;
  if (ints ? !(a <= b) : op == FL_OP_uniform && !(a <= b)) {
    FL_FAIL(c, FLAME_BAD_ARGUMENT, name, "the range from %g to %g is empty", a, b);
    return NULL;
  }
  fl_layout *shape = fl_shape_of(c, rank, size, name);
  if (!shape) return NULL;
  const int64_t words = shape->numel * (ints || dtype == FLAME_F64 ? 2 : 1);
  fl_node *y = fl_node_new(c, op, dtype, device, shape, 0, NULL);
  if (!y) return fl_no_memory(c, name);
  if (ints) {
    y->scal[0].i = (int64_t)a;
    y->scal[1].i = (int64_t)b;
  } else {
    y->scal[0].d = a;
    y->scal[1].d = b;
  }
  y->scal[2].i = (int64_t)fl_rng_take(&c->rng, words);
  y->scal[3].i = (int64_t)c->rng.seed;
  return y;
}
