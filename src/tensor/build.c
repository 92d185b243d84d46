/*
** Builders (functions that check operands and record nodes) of elementwise ops and reductions, and
** what all builders share.
**
** Rules. Operands may be numbers (n_num, n_int): they take the dtype in which the tensors compute,
** are not rounded to it, and are stored in the node (scal), with NULL as that input. Promotion
** inserts cast nodes, so each recorded op has operands of one dtype. Shapes broadcast without
** nodes: an input may be smaller than its result. A reduction records one node that keeps the
** reduced axes with size 1, and a reshape view that drops them.
*/
#include "tensor/build_util.h"
#include <assert.h>
#include <string.h>

fl_node fl_none = { .state = FL_NUMBER };

void *fl_no_memory(flame_context *c, const char *op) {
  FL_FAIL(c, FLAME_NO_MEMORY, op, "host memory is out");
  return NULL;
}

const char *fl_place_name(int device, char *buf) {
  if (device == 0) return "cpu";
  memcpy(buf, "cuda:", 5);
  if (device > 10) { buf[5] = '1'; buf[6] = (char)('0' + device - 11); buf[7] = 0; }
  else { buf[5] = (char)('0' + device - 1); buf[6] = 0; }
  return buf;
}

/* ---- numbers ----------------------------------------------------------------------- */

fl_node *n_num(flame_context *c, double v) {
  return fl_node_number(c, 0, (fl_scalar){ .d = v });
}
fl_node *n_int(flame_context *c, int64_t v) {
  return fl_node_number(c, 1, (fl_scalar){ .i = v });
}

static int fits(int64_t v, int dtype) {
  switch (dtype) {
    case FLAME_I32: return v == (int32_t)v;
    case FLAME_I16: return v == (int16_t)v;
    case FLAME_I8: return v == (int8_t)v;
    case FLAME_U8: return v == (uint8_t)v;
    case FLAME_BOOL: return v == 0 || v == 1;
    default: return 1;
  }
}

/* Stores the number x in *out as a double or an integer, as 'dtype' needs it. Returns 0 with an
** error if x does not fit in an integer dtype. */
static int number_as(fl_node *x, int dtype, const char *op, fl_scalar *out) {
  if (fl_is_float(dtype)) {
    out->d = x->isint ? (double)x->scal[0].i : x->scal[0].d;
    return 1;
  }
  if (!x->isint) {
    FL_FAIL(x->ctx, FLAME_BAD_ARGUMENT, op, "%g is not an integer, as dtype %s needs",
            x->scal[0].d, fl_dtype_name(dtype));
    return 0;
  }
  if (!fits(x->scal[0].i, dtype)) {
    FL_FAIL(x->ctx, FLAME_BAD_ARGUMENT, op, "%lld does not fit in %s",
            (long long)x->scal[0].i, fl_dtype_name(dtype));
    return 0;
  }
  out->i = x->scal[0].i;
  return 1;
}

fl_node *fl_as_tensor(fl_node *x, int dtype, int device, const char *op) {
  fl_scalar v;
  if (!x || !fl_is_number(x)) return x;
  return number_as(x, dtype, op, &v) ? n_fill(x->ctx, dtype, device, 0, NULL, v) : NULL;
}

/* ---- checks ------------------------------------------------------------------------ */

int fl_usable(fl_node *x, const char *op) {
  if (x->state <= FL_STORED) return 1;
  if (x->state == FL_FAILED) fl_node_raise(x);
  else if (x == &fl_none || x->state == FL_NUMBER) {
    if (x->ctx)
      FL_FAIL(x->ctx, FLAME_BAD_ARGUMENT, op, "expected a tensor, got a number");
  } else FL_FAIL(x->ctx, FLAME_INTERNAL, op, "a value that is needed was dropped");
  return 0;
}

int fl_same_device(const fl_node *x, const fl_node *y, const char *op) {
  char a[16], b[16];
  if (x->device == y->device) return 1;
  FL_FAIL(x->ctx, FLAME_BAD_ARGUMENT, op, "x is on %s and y on %s" FL_DO "; use y:to(x.device)",
          fl_place_name(x->device, a), fl_place_name(y->device, b));
  return 0;
}

int fl_check_axis(fl_node *x, int axis, const char *op) {
  char s[FL_SHAPE_TEXT];
  if (axis >= 0 && axis < x->shape->rank) return 1;
  FL_FAIL(x->ctx, FLAME_BAD_ARGUMENT, op, "axis %d is out of range for shape %s",
          (int)fl_counted(x->ctx, axis), FL_SHAPE(s, x->shape));
  return 0;
}

int fl_given(flame_context *c, const void *list, int n, const char *op, const char *what) {
  if (list || n == 0) return 1;
  FL_FAIL(c, FLAME_BAD_ARGUMENT, op, "%d %s without a list of them", n, what);
  return 0;
}

fl_layout *fl_shape_of(flame_context *c, int rank, const int64_t *size, const char *op) {
  char s[FL_SHAPE_TEXT];
  if (rank < 0 || rank > FL_MAX_AXES) {
    FL_FAIL(c, FLAME_BAD_ARGUMENT, op, "%d axes, at most %d", rank,
            FL_MAX_AXES);
    return NULL;
  }
  if (!fl_given(c, size, rank, op, "sizes")) return NULL;
  for (int a = 0; a < rank; a++) {
    if (size[a] >= 0) continue;
    FL_FAIL(c, FLAME_BAD_ARGUMENT, op, "size %lld is negative", (long long)size[a]);
    return NULL;
  }
  if (fl_numel(rank, size) < 0) {
    FL_FAIL(c, FLAME_BAD_ARGUMENT, op, "%s elements are too many",
            fl_shape_text(s, rank, size));
    return NULL;
  }
  fl_layout *l = fl_layout_of(&c->layouts, rank, size, NULL);
  return l ? l : fl_no_memory(c, op);
}

/* ---- recording --------------------------------------------------------------------- */

fl_node *fl_finish(fl_node *n) {
  if (!n->ctx->grad_mode) return n;
  for (int i = 0; i < n->nin; i++) {
    if (!n->in[i] || !n->in[i]->entry) continue;
    return fl_entry_attach(n) ? n : fl_no_memory(n->ctx, fl_ops[n->op].name);
  }
  return n;
}

fl_node *fl_record(flame_context *c, int op, int dtype, int device, fl_layout *shape,
                   int nin, fl_node *const *in) {
  fl_node *n = fl_node_new(c, op, dtype, device, shape, nin, in);
  return n ? fl_finish(n) : fl_no_memory(c, fl_ops[op].name);
}

fl_node *n_cast(fl_node *x, int dtype) {
  if (!x || x->dtype == dtype) return x && !fl_usable(x, "to") ? NULL : x;
  if (!fl_usable(x, "to")) return NULL;
  fl_node *y = fl_record(x->ctx, FL_OP_cast, dtype, x->device, fl_layout_retain(x->shape), 1,
                         &x);
  if (y) y->scal[0].i = x->dtype;
  return y;
}

fl_node *n_narrowed(fl_node *y) {
  const int known = y->op == FL_OP_cast || y->op == FL_OP_view;
  const int from = known ? (int)y->scal[0].i : y->dtype;
  if (!fl_is_half(from) || from == y->dtype || !fl_is_float(y->dtype)) return NULL;
  const fl_node *x = y->base ? y->base : y;
  const int pending = x->state == FL_PENDING && x->op == FL_OP_cast && x->scal[0].i == from;
  return pending && x->shape == y->shape ? x->in[0] : n_cast(y, from);
}

fl_node *n_copy(fl_node *x) {
  if (!x || !fl_usable(x, "clone")) return NULL;
  return fl_record(x->ctx, FL_OP_copy, x->dtype, x->device, fl_layout_retain(x->shape), 1,
                   &x);
}

/* Is a view row-major over all of the memory that it refers to? */
static int fills(const fl_node *x) {
  if (!x->layout->contiguous) return 0;
  if (x->state == FL_STORED)
    return x->buffer && x->shape->numel * fl_dtype_size(x->dtype) == x->buffer->bytes;
  return x->nin > 0 && x->in[0]->shape->numel == x->shape->numel;
}

fl_node *n_clone(fl_node *x) {
  if (!x || !fl_usable(x, "clone")) return NULL;
  const int part = fl_ops[x->op].fuse == FL_FUSE_V && !fills(x);
  return part ? n_copy(x) : n_alias(x);
}

fl_node *n_contiguous(fl_node *x) {
  if (!x || !fl_usable(x, "contiguous")) return NULL;
  return x->layout->contiguous ? x : n_copy(x);
}

/* ---- elementwise ------------------------------------------------------------------- */

int fl_broadcast(int ra, const int64_t *a, int rb, const int64_t *b, int64_t *out) {
  const int r = ra > rb ? ra : rb;
  for (int k = 1; k <= r; k++) {
    const int64_t p = k <= ra ? a[ra - k] : 1, q = k <= rb ? b[rb - k] : 1;
    if (p != q && p != 1 && q != 1) return -1;
    out[r - k] = p == 1 ? q : p;
  }
  return r;
}

/* The shape of an elementwise result of n operands, with a reference for the caller; NULL: an
** error. */
static fl_layout *joint_shape(int n, fl_node *const *x, const char *op) {
  const fl_layout *first = NULL;
  int64_t size[FL_MAX_AXES];
  int rank = 0, same = 1;
  flame_context *c = NULL;
  for (int i = 0; i < n; i++) {
    if (fl_is_number(x[i])) continue;
    const fl_layout *s = x[i]->shape;
    c = x[i]->ctx;
    if (!first) {
      first = s;
      rank = s->rank;
      memcpy(size, s->size, sizeof size);
      continue;
    }
    if (s == first && same) continue;
    same = 0;
    const int r = fl_broadcast(rank, size, s->rank, s->size, size);
    if (r < 0) {
      char a[FL_SHAPE_TEXT], b[FL_SHAPE_TEXT];
      FL_FAIL(c, FLAME_BAD_ARGUMENT, op, "shapes %s and %s do not broadcast",
              fl_shape_text(a, rank, size), FL_SHAPE(b, s));
      return NULL;
    }
    rank = r;
  }
  assert(!same || first);                    /* some operand is a tensor */
  if (same) return fl_layout_retain((fl_layout *)first);
  for (int i = 0; i < n; i++) {              /* mostly one operand has that shape */
    fl_layout *s = fl_is_number(x[i]) ? NULL : x[i]->shape;
    if (s && s->rank == rank && !memcmp(s->size, size, sizeof *size * (size_t)rank))
      return fl_layout_retain(s);
  }
  return fl_shape_of(c, rank, size, op);
}

int fl_operand_dtype(int n, fl_node *const *x, const char *op) {
  int t = -1, anyfloat = 0, numbers = 0;
  const fl_node *first = NULL;
  for (int i = 0; i < n; i++) {
    if (fl_is_none(x[i])) continue;
    if (fl_is_number(x[i])) { numbers++; anyfloat |= !x[i]->isint; continue; }
    if (!fl_usable(x[i], op)) return -1;
    if (first && !fl_same_device(first, x[i], op)) return -1;
    if (!first) first = x[i];
    t = t < 0 ? x[i]->dtype : fl_promote(t, x[i]->dtype);
  }
  if (t < 0) t = FLAME_BOOL;                    /* all operands are numbers: treated as if beside a
                                                ** bool */
  if (!numbers || fl_is_float(t)) return t;
  if (anyfloat) return FLAME_F32;
  return t == FLAME_BOOL ? FLAME_I64 : t;
}

/* The dtype in which an op of this kind computes operands of dtype t; -1: it can not. */
static int compute_dtype(flame_context *c, const fl_op_info *o, int t) {
  switch (o->kind) {
    case FL_KIND_FLOAT: return fl_is_float(t) ? t : FLAME_F32;
    case FL_KIND_NUM:
      if (t != FLAME_BOOL) return t;
      break;
    case FL_KIND_INT:
      if (!fl_is_float(t)) return t;
      break;
    default: return t;
  }
  FL_FAIL(c, FLAME_BAD_ARGUMENT, o->name, "dtype %s is not supported, need %s",
          fl_dtype_name(t),
          o->kind == FL_KIND_INT ? "integers or bool" : "a number type");
  return -1;
}

/* Casts operand x to dtype t: *in; of a number *in is NULL, and *scal is its value for that dtype.
** 0: an error. */
static int operand(fl_node *x, int t, const char *op, fl_node **in, fl_scalar *scal) {
  if (fl_is_number(x)) {
    *in = NULL;
    return number_as(x, t, op, scal);
  }
  *in = x->dtype == t ? x : n_cast(x, t);
  return *in != NULL;
}

/* Records op over n operands, at least one of them a tensor. They are cast to dtype t, but the
** condition of where to bool. result: the dtype of the new node. */
static fl_node *elementwise(flame_context *c, int op, int t, int result, int n,
                            fl_node *const *x) {
  const char *name = fl_ops[op].name;
  fl_node *in[3], *lead = NULL;
  fl_scalar scal[3] = { { 0 } };
  for (int i = 0; i < n; i++) {
    const int own = op == FL_OP_where && i == 0;
    if (!operand(x[i], own ? FLAME_BOOL : t, name, &in[i], &scal[i])) return NULL;
    if (!lead && in[i]) lead = in[i];
  }
  assert(lead);
  fl_layout *shape = joint_shape(n, x, name);
  if (!shape) return NULL;
  fl_node *y = fl_node_new(c, op, result, lead->device, shape, n, in);
  if (!y) return fl_no_memory(c, name);
  memcpy(y->scal, scal, sizeof scal[0] * (size_t)n);
  return fl_finish(y);
}

fl_node *fl_build_unary(int op, fl_node *x) {
  if (!x) return NULL;
  const fl_op_info *o = &fl_ops[op];
  if (fl_is_number(x)) x = fl_as_tensor(x, FLAME_F32, x->ctx->default_device, o->name);
  if (!x || !fl_usable(x, o->name)) return NULL;
  const int t = compute_dtype(x->ctx, o, x->dtype);
  if (t < 0) return NULL;
  if (t != x->dtype && !(x = n_cast(x, t))) return NULL;
  return fl_record(x->ctx, op, o->kind == FL_KIND_TEST ? FLAME_BOOL : t, x->device,
                   fl_layout_retain(x->shape), 1, &x);
}

/* x to a constant power e that has an exact or cheaper form, such as a square. Sets *done to 0 if
** there is no such form. */
static fl_node *pow_number(fl_node *x, fl_node *e, int *done) {
  const double p = e->isint ? (double)e->scal[0].i : e->scal[0].d;
  fl_node *both[2] = { x, e };
  *done = 1;
  const int t = fl_operand_dtype(2, both, "pow");
  if (t < 0) return NULL;
  if (t == FLAME_BOOL || (!fl_is_float(t) && p < 0)) {
    FL_FAIL(x->ctx, FLAME_BAD_ARGUMENT, "pow",
            "integers to the negative power %g" FL_DO "; cast to a float first", p);
    return NULL;
  }
  if (p == 2) return n_square(n_cast(x, t));
  if (p == 3) { x = n_cast(x, t); return n_mul(n_square(x), x); }
  if (p == -1) return n_reciprocal(n_cast(x, t));
  if (p == 0.5) return n_sqrt(n_cast(x, t));
  *done = 0;
  return NULL;
}

/* A faster path for the common cases: floats of one dtype, shape and device, and a float with a
** number, for which NULL and a scalar stand. The caller has checked that the op computes in its
** operands' dtype. elementwise() gives the same result. */
static inline fl_node *short_way(int op, fl_node *x1, fl_node *x2) {
  fl_node *in[2] = { x1, x2 };
  const fl_node *lead = x1 ? x1 : x2;
  flame_context *c = lead->ctx;
  fl_node *y =
      fl_node_new(c, op, lead->dtype, lead->device, fl_layout_retain(lead->shape), 2, in);
  if (!y) return fl_no_memory(c, fl_ops[op].name);
  if (!c->grad_mode || !((x1 && x1->entry) || (x2 && x2->entry))) return y;
  return fl_entry_attach(y) ? y : fl_no_memory(c, fl_ops[op].name);
}

static fl_node *short_number(int op, fl_node *x, int isint, fl_scalar v, int first) {
  fl_node *y = short_way(op, first ? NULL : x, first ? x : NULL);
  if (y) y->scal[!first].d = isint ? (double)v.i : v.d;
  return y;
}

/* A value of a float dtype that can be read. */
static inline int plain_float(const fl_node *x) {
  return x->state <= FL_STORED && fl_is_float(x->dtype);
}

/* Does op compute floats in their own dtype, whatever the number beside them? */
static inline int takes_floats(int op) {
  return fl_ops[op].kind <= FL_KIND_SAME && op != FL_OP_pow;
}

fl_node *fl_build_number(int op, fl_node *x, int isint, fl_scalar v, int first) {
  if (!x) return NULL;
  if (takes_floats(op) && plain_float(x)) return short_number(op, x, isint, v, first);
  fl_node *number = fl_node_number(x->ctx, isint, v);
  return first ? fl_build_binary(op, number, x) : fl_build_binary(op, x, number);
}

fl_node *fl_build_binary(int op, fl_node *x1, fl_node *x2) {
  if (!x1 || !x2) return NULL;
  const fl_op_info *o = &fl_ops[op];
  fl_node *x[2] = { x1, x2 };
  flame_context *c = x1->ctx;
  if (takes_floats(op)) {
    const int p1 = plain_float(x1), p2 = plain_float(x2);
    if (p1 && p2 && x1->dtype == x2->dtype && x1->shape == x2->shape &&
        x1->device == x2->device)
      return short_way(op, x1, x2);
    if (p1 && fl_is_number(x2)) return short_number(op, x1, x2->isint, x2->scal[0], 0);
    if (p2 && fl_is_number(x1)) return short_number(op, x2, x1->isint, x1->scal[0], 1);
  }
  if (fl_is_number(x1) && fl_is_number(x2)) {
    x[0] = fl_as_tensor(x1, FLAME_F32, c->default_device, o->name);
    if (!x[0]) return NULL;
  }
  if (op == FL_OP_pow && fl_is_number(x2)) {
    int done;
    fl_node *y = pow_number(x[0], x2, &done);
    if (done) return y;
  }
  int t = fl_operand_dtype(2, x, o->name);
  if (t < 0 || (t = compute_dtype(c, o, t)) < 0) return NULL;
  return elementwise(c, op, t, o->kind == FL_KIND_TEST ? FLAME_BOOL : t, 2, x);
}

static fl_node *build_where(fl_node *q, fl_node *a, fl_node *b) {
  fl_node *x[3] = { q, a, b };
  if (!fl_usable(q, "where")) return NULL;
  if (q->dtype != FLAME_BOOL) {
    FL_FAIL(q->ctx, FLAME_BAD_ARGUMENT, "where", "the condition is %s, need bool",
            fl_dtype_name(q->dtype));
    return NULL;
  }
  for (int i = 1; i < 3; i++)
    if (!fl_is_number(x[i]) && !fl_same_device(q, x[i], "where")) return NULL;
  const int t = fl_operand_dtype(2, x + 1, "where");
  return t < 0 ? NULL : elementwise(q->ctx, FL_OP_where, t, t, 3, x);
}

/* x limited from below (upper: from above). Unlike in maximum, for equal values x gets the whole
** gradient; if one of them is NaN neither gets any. */
static fl_node *bounded(fl_node *x, fl_node *bound, int upper) {
  if (!x) return NULL;
  flame_context *c = x->ctx;
  const uint8_t mode = c->grad_mode;
  c->grad_mode = 0;
  fl_node *y = upper ? n_minimum(x, bound) : n_maximum(x, bound);
  c->grad_mode = mode;
  if (!y || !mode || !(x->entry || bound->entry)) return y;
  if (bound->entry) y = n_where(upper ? n_gt(x, bound) : n_lt(x, bound), bound, y);
  return n_where(upper ? n_le(x, bound) : n_ge(x, bound), x, y);
}

fl_node *fl_build_ternary(int op, fl_node *x1, fl_node *x2, fl_node *x3) {
  if (!x1 || !x2 || !x3) return NULL;
  if (op == FL_OP_where) return build_where(x1, x2, x3);
  const char *name = fl_ops[op].name;
  flame_context *c = x1->ctx;
  if (op == FL_OP_clamp && (fl_is_none(x2) || fl_is_none(x3))) {
    if (!fl_is_none(x2)) return bounded(x1, x2, 0);
    if (!fl_is_none(x3)) return bounded(x1, x3, 1);
    FL_FAIL(c, FLAME_BAD_ARGUMENT, name, "neither a lower nor an upper bound is given");
    return NULL;
  }
  if (op == FL_OP_clamp && c->grad_mode && (x2->entry || x3->entry))
    return bounded(bounded(x1, x2, 0), x3, 1);       /* tracked bounds have gradients too */
  fl_node *x[3] = {
    fl_is_number(x1) ? fl_as_tensor(x1, FLAME_F32, c->default_device, name) : x1, x2, x3
  };
  if (!x[0]) return NULL;
  int t = fl_operand_dtype(3, x, name);
  if (t < 0 || (t = compute_dtype(c, &fl_ops[op], t)) < 0) return NULL;
  return elementwise(c, op, t, t, 3, x);
}

/* ---- reductions -------------------------------------------------------------------- */

/* Determines the operand and result dtype of a reduction; casts the operand. */
static fl_node *reduce_operand(const fl_op_info *o, fl_node *x, int *result) {
  *result = x->dtype;
  switch (o->kind) {
    case FL_KIND_SUMS:
      if (!fl_is_float(x->dtype)) { x = n_cast(x, FLAME_I64); *result = FLAME_I64; }
      break;
    case FL_KIND_TEST: x = n_cast(x, FLAME_BOOL); *result = FLAME_BOOL; break;
    case FL_KIND_POSITION: *result = FLAME_I64; break;
    default: break;
  }
  return x;
}

int fl_empty_axis(int op, const fl_node *x, uint32_t axes) {
  const int kind = fl_ops[op].kind;
  if (kind != FL_KIND_SAME && kind != FL_KIND_POSITION) return -1;
  for (int a = 0; a < x->shape->rank; a++)
    if (axes >> a & 1 && x->shape->size[a] == 0) return a;
  return -1;
}

/* The mask of the given axes, checked; 0 with *ok = 0 on error. */
static uint32_t reduce_mask(int op, fl_node *x, uint32_t axes, int *ok) {
  const char *name = fl_ops[op].name;
  char s[FL_SHAPE_TEXT];
  const int rank = x->shape->rank;
  *ok = 0;
  if (axes == FL_ALL_AXES) axes = fl_mask_of(rank);
  if (axes & ~fl_mask_of(rank)) {
    FL_FAIL(x->ctx, FLAME_BAD_ARGUMENT, name, "an axis is out of range for shape %s",
            FL_SHAPE(s, x->shape));
    return 0;
  }
  const int a = fl_empty_axis(op, x, axes);
  if (a >= 0) {
    FL_FAIL(x->ctx, FLAME_BAD_ARGUMENT, name,
            "axis %d of shape %s is empty and has no %s", (int)fl_counted(x->ctx, a),
            FL_SHAPE(s, x->shape), name);
    return 0;
  }
  *ok = 1;
  return axes;
}

fl_node *fl_build_reduce(int op, fl_node *x, uint32_t axes, int keepdim) {
  if (!x) return NULL;
  const fl_op_info *o = &fl_ops[op];
  flame_context *c = x->ctx;
  if (fl_is_number(x)) x = fl_as_tensor(x, FLAME_F32, c->default_device, o->name);
  int ok, result;
  if (!x || !fl_usable(x, o->name)) return NULL;
  axes = reduce_mask(op, x, axes, &ok);
  if (!ok || !(x = reduce_operand(o, x, &result))) return NULL;
  if (!axes) {
    if (o->kind != FL_KIND_POSITION) return n_alias(x);
    return n_fill(c, FLAME_I64, x->device, x->shape->rank, x->shape->size,
                  (fl_scalar){ .i = 1 });
  }
  int64_t size[FL_MAX_AXES], left[FL_MAX_AXES];
  int rank = x->shape->rank, nleft = 0;
  for (int a = 0; a < rank; a++) {
    const int gone = axes >> a & 1;
    size[a] = gone ? 1 : x->shape->size[a];
    if (!gone) left[nleft++] = size[a];
  }
  fl_layout *shape = fl_layout_of(&c->layouts, rank, size, NULL);
  fl_node *y = shape ? fl_node_new(c, op, result, x->device, shape, 1, &x) : NULL;
  if (!y) return fl_no_memory(c, o->name);
  y->axes = (uint8_t)axes;
  if (!(y = fl_finish(y))) return NULL;
  return keepdim ? y : n_reshape(y, nleft, left);
}

/* Sums over the axes that broadcasting added, so that g gets 'shape' again; a g that is smaller
** than 'shape' is broadcast to it. A sum of negated values is computed as 0 minus the sum, with the
** same bits: this subtracts few values instead of negating many. */
fl_node *fl_sum_to(fl_node *g, const fl_layout *shape) {
  if (!g || g->shape == shape) return g;
  const fl_layout *s = g->shape;
  const int lead = s->rank - shape->rank;
  uint32_t axes = 0;
  if (lead < 0) return n_expand(g, shape->rank, shape->size);
  for (int a = 0; a < s->rank; a++) {
    const int64_t want = a < lead ? 1 : shape->size[a - lead];
    if (want == 1 && s->size[a] != 1) axes |= 1u << a;
    else if (want != s->size[a]) return n_expand(g, shape->rank, shape->size);
  }
  if (axes && g->op == FL_OP_neg && g->nin == 1 && g->in[0])
    g = n_sub(n_num(g->ctx, 0), n_sum(g->in[0], axes, 1));
  else if (axes) g = n_sum(g, axes, 1);
  return g && g->shape != shape ? n_reshape(g, shape->rank, shape->size) : g;
}
