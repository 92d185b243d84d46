/*
** Matrix products. A node's operands have its dtype and at least 2 axes: in[0] (…, m,
** k), in[1] (…, k, n), result (broadcast batch…, m, n); batches broadcast without nodes.
** Vectors get an axis by a view, which is dropped again; a batch times one matrix becomes one
** product of flattened rows if no copy is needed. Half types may have in[2] (n), which is added to
** each row before the result is rounded to the half type, so that it is rounded only once. In f32
** and f64 a separate addition has the same bits. In f32 in[2] may have the shape of the result
** (n_matmul_add).
*/
#include "tensor/build_util.h"
#include <string.h>

/* SUM_LEAST: from this many elements on (4 MB) a product and a sum are one step. Many small ones in
** a row, as in a recurrent net, would wait for each other. */
enum { SUM_LEAST = 1 << 20 };

static fl_node *mismatch(fl_node *a, fl_node *b, const char *what) {
  char s[FL_SHAPE_TEXT], t[FL_SHAPE_TEXT];
  FL_FAIL(a->ctx, FLAME_BAD_ARGUMENT, "matmul", "%s, %s and %s", what,
          FL_SHAPE(s, a->shape), FL_SHAPE(t, b->shape));
  return NULL;
}

/* Can the axes before the last be merged without a copy? */
static int rows_merge(const fl_node *a) {
  const fl_layout *l = a->layout;
  const int r = l->rank;
  int64_t two[2] = { 1, l->size[r - 1] }, stride[2];
  for (int k = 0; k < r - 1; k++) two[0] *= l->size[k];
  return l->contiguous || fl_view_strides(r, l->size, l->stride, 2, two, stride);
}

/* May a product of a, recorded now, round its operands to TF32? Its node has this as 'axes', which
** is a part of the plan's key. */
static uint8_t rounds(const fl_node *a) {
  return a->ctx->tf32 && a->device > 0 && a->dtype == FLAME_F32;
}

/* Records the product of a and b, which are checked, have at least 2 axes and one dtype; bias:
** in[2] or NULL. */
static fl_node *product(fl_node *a, fl_node *b, fl_node *bias) {
  int64_t size[FL_MAX_AXES];
  const fl_layout *p = a->shape, *q = b->shape;
  int rank = fl_broadcast(p->rank - 2, p->size, q->rank - 2, q->size, size);
  if (rank < 0) return mismatch(a, b, "batch sizes do not broadcast");
  size[rank++] = p->size[p->rank - 2];
  size[rank++] = q->size[q->rank - 1];
  fl_layout *shape = fl_shape_of(a->ctx, rank, size, "matmul");
  if (!shape) return NULL;
  fl_node *in[3] = { a, b, bias };
  fl_node *y = fl_record(a->ctx, FL_OP_matmul, a->dtype, a->device, shape, bias ? 3 : 2, in);
  if (y) y->axes = rounds(a);
  return y;
}

/* a (…, m, k) times one matrix b (k, n), as one product of matrices: all rows of a times b. */
static fl_node *flat_product(fl_node *a, fl_node *b, fl_node *bias) {
  int64_t size[FL_MAX_AXES];
  const int r = a->shape->rank;
  int64_t rows = 1;
  for (int k = 0; k < r - 1; k++) rows *= size[k] = a->shape->size[k];
  size[r - 1] = b->shape->size[1];
  fl_node *y = n_reshape(a, 2, (int64_t[]){ rows, a->shape->size[r - 1] });
  y = y ? product(y, b, bias) : NULL;
  return y ? n_reshape(y, r, size) : NULL;
}

static fl_node *multiply(fl_node *a, fl_node *b, fl_node *bias) {
  if (!a || !b || !fl_usable(a, "matmul") || !fl_usable(b, "matmul")) return NULL;
  if (!fl_same_device(a, b, "matmul")) return NULL;
  const int ra = a->shape->rank, rb = b->shape->rank;
  if (ra == 0 || rb == 0) return mismatch(a, b, "both need at least one axis");
  if (a->shape->size[ra - 1] != b->shape->size[rb == 1 ? 0 : rb - 2])
    return mismatch(a, b, "inner sizes differ");
  const int t = fl_promote(a->dtype, b->dtype);
  if (t == FLAME_BOOL) {
    FL_FAIL(a->ctx, FLAME_BAD_ARGUMENT, "matmul",
            "dtype bool is not supported, need a number type");
    return NULL;
  }
  a = n_cast(a, t);
  b = n_cast(b, t);
  if (a && ra == 1) a = n_unsqueeze(a, 0);
  if (b && rb == 1) b = n_unsqueeze(b, 1);
  if (!a || !b) return NULL;
  fl_node *y = a->shape->rank > 2 && b->shape->rank == 2 && rows_merge(a)
                   ? flat_product(a, b, bias)
                   : product(a, b, bias);
  if (y && rb == 1) y = n_squeeze(y, y->shape->rank - 1);
  if (y && ra == 1) y = n_squeeze(y, y->shape->rank - 1 - (rb != 1));
  return y;
}

fl_node *n_matmul(fl_node *a, fl_node *b) { return multiply(a, b, NULL); }

fl_node *n_matmul_bias(fl_node *a, fl_node *b, fl_node *bias) {
  if (!a || !b || !bias) return NULL;
  if (!fl_usable(bias, "matmul") || !fl_same_device(a, bias, "matmul")) return NULL;
  if (a->shape->rank < 2 || b->shape->rank < 2 || !fl_is_half(a->dtype) ||
      b->dtype != a->dtype || bias->dtype != a->dtype || bias->shape->rank != 1 ||
      bias->shape->size[0] != b->shape->size[b->shape->rank - 1] ||
      a->shape->size[a->shape->rank - 1] == 0)
    return mismatch(a, b, "a bias needs half types, terms, and an element for each column");
  return multiply(a, b, n_contiguous(bias));
}

fl_node *n_matmul_add(fl_node *a, fl_node *b, fl_node *x) {
  if (!a || !b || !x || !fl_usable(a, "matmul") || !fl_usable(b, "matmul") ||
      !fl_usable(x, "matmul") || !fl_same_device(a, b, "matmul") ||
      !fl_same_device(a, x, "matmul")) return NULL;
  const fl_layout *p = a->shape, *q = b->shape;
  int64_t size[FL_MAX_AXES];
  int fits = p->rank > 1 && q->rank > 1 && a->dtype == FLAME_F32 && b->dtype == FLAME_F32 &&
             x->dtype == FLAME_F32 && p->size[p->rank - 1] == q->size[q->rank - 2];
  const int batch = fits ? fl_broadcast(p->rank - 2, p->size, q->rank - 2, q->size, size) : -1;
  fits = batch >= 0 && x->shape->rank == batch + 2;
  if (fits) {
    size[batch] = p->size[p->rank - 2];
    size[batch + 1] = q->size[q->rank - 1];
    fits = memcmp(size, x->shape->size, sizeof *size * (size_t)(batch + 2)) == 0;
  }
  if (!fits) return mismatch(a, b, "a sum needs f32, and an array of the product's shape");
  return product(a, b, n_contiguous(x));
}

/* p, or the node of which p is a view with the same elements in the same order, if that is a large
** PENDING f32 product on a GPU that has no user (but for that view); else NULL. */
static fl_node *product_in(fl_node *p) {
  fl_node *y = p->base ? p->base : p;
  const int sole = p->held <= 1 && p->uses == 0 && p->grefs == 0 &&
                   (y == p || (y->held == 0 && y->uses == 1 && y->grefs == 0));
  return sole && y->op == FL_OP_matmul && y->state == FL_PENDING && y->nin == 2 && y->device > 0 &&
         y->dtype == FLAME_F32 && y->axes == rounds(y) && y->shape->numel >= SUM_LEAST &&
         p->layout == p->shape && p->shape->numel == y->shape->numel ? y : NULL;
}

/* p + x as a product of three operands, if p is a product that can be; else NULL. */
static fl_node *sum_in_product(fl_node *p, fl_node *x) {
  fl_node *const y = product_in(p);
  if (!y || x == p || x->base || x->state != FL_PENDING || x->dtype != FLAME_F32 ||
      x->shape != p->shape || x->layout != x->shape) return NULL;
  x = n_reshape(x, y->shape->rank, y->shape->size);
  fl_node *sum = n_matmul_add(y->in[0], y->in[1], x);
  return n_reshape(sum, p->shape->rank, p->shape->size);
}

fl_node *n_add_fused(fl_node *p, fl_node *x) {
  fl_node *y = p && x ? sum_in_product(p, x) : NULL;
  if (!y && p && x && !p->ctx->err.code) y = sum_in_product(x, p);
  return y || (p && p->ctx->err.code) ? y : n_add(p, x);
}

/* May b be in[2] of the product of x and w', where w is (out, in)? The product must have at least
** one term. */
static int joins_product(const fl_node *x, const fl_node *w, const fl_node *b) {
  const int rank = x->shape->rank;
  if (fl_is_number(x) || fl_is_number(w) || fl_is_number(b) || rank < 2 || w->shape->rank != 2)
    return 0;
  const int t = fl_promote(x->dtype, w->dtype);
  return fl_is_half(t) && fl_promote(t, b->dtype) == t && w->shape->size[1] > 0 &&
         b->shape->rank == 1 && b->shape->size[0] == w->shape->size[0];
}

fl_node *n_linear(fl_node *x, fl_node *w, fl_node *b) {
  char s[FL_SHAPE_TEXT], t[FL_SHAPE_TEXT];
  if (!x || !w || !b || !fl_usable(x, "linear") || !fl_usable(w, "linear")) return NULL;
  const int rx = x->shape->rank, rw = w->shape->rank;
  if (rx < 1 || (rw != 2 && rw != 1) ||
      x->shape->size[rx - 1] != w->shape->size[rw - 1]) {
    FL_FAIL(x->ctx, FLAME_BAD_ARGUMENT, "linear",
            "x has shape %s and w %s, need (…, in) and (out, in)", FL_SHAPE(s, x->shape),
            FL_SHAPE(t, w->shape));
    return NULL;
  }
  if (!fl_is_none(b) && fl_usable(b, "linear") && joins_product(x, w, b)) {
    const int t = fl_promote(x->dtype, w->dtype);
    return n_matmul_bias(n_cast(x, t), n_transpose(n_cast(w, t), 0, 1), n_cast(b, t));
  }
  fl_node *y = n_matmul(x, rw == 2 ? n_transpose(w, 0, 1) : w);
  return fl_is_none(b) ? y : n_add(y, b);
}
