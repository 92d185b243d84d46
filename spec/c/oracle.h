/*
** For C tests of builders and gradients without a device: a bare context whose memory is malloc's,
** and an evaluator that computes every recorded node in order, in f64, element by element. Of the
** library it uses only the C expressions of ops.def: no planner, no kernels.
*/
#ifndef SPEC_ORACLE_H
#define SPEC_ORACLE_H
#include "autograd/autograd.h"
#include "tensor/math.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int passed, failed;
#define CHECK(cond) do { if (cond) passed++; else { failed++; \
  printf("%s:%d: failed: %s\n", __FILE__, __LINE__, #cond); } } while (0)

static void *test_alloc(flame_context *c, int device, int64_t bytes) {
  (void)c; (void)device;
  return malloc((size_t)bytes + 1);
}
static void test_free(flame_context *c, int device, void *p, int64_t bytes) {
  (void)c; (void)device; (void)bytes;
  free(p);
}
static const fl_upcalls test_up = { .device_alloc = test_alloc, .device_free = test_free };

static flame_context *open_context(void) {
  flame_context *c = calloc(1, sizeof *c);
  c->up = &test_up;
  c->budget = INT64_MAX;
  c->grad_mode = 1;
  c->rng.seed = 7;
  if (!fl_tensor_init(c)) abort();
  return c;
}

/* Closes; checks that nothing is left. */
static void close_context(flame_context *c) {
  CHECK(c->nodes.live == 0);
  CHECK(c->entries.live == 0);
  CHECK(c->attrs.live == 0);
  CHECK(c->buffers.live == 0);
  CHECK(c->tensors.live == 0);
  CHECK(c->borrowed.n == 0);
  CHECK(fl_tensor_close(c));
  CHECK(c->mem.live_bytes == 0);
  CHECK(c->mem.live_blocks == 0);
  free(c);
}

/* Makes a STORED node with the values v, converted to dtype. The result is borrowed. */
static fl_node *stored(flame_context *c, int dtype, int rank, const int64_t *size,
                       const double *v) {
  fl_layout *l = fl_layout_of(&c->layouts, rank, size, NULL);
  fl_buffer *b = fl_buffer_new(c, 0, l->numel * fl_dtype_size(dtype));
  for (int64_t i = 0; i < l->numel; i++) {
    const fl_scalar s =
        fl_is_float(dtype) ? (fl_scalar){ .d = v[i] } : (fl_scalar){ .i = (int64_t)v[i] };
    fl_scalar_store((char *)b->ptr + i * fl_dtype_size(dtype), dtype, s);
  }
  return fl_node_stored(c, dtype, b, l, 0);
}

/* ---- evaluator --------------------------------------------------------------------- */

typedef struct { fl_node *node; double *v; } known;
static known *known_at;
static int64_t known_n;

static double *values_of(fl_node *n);

/* The offset in an array of 'rank' axes, broadcast to shape s, of row-major element i of s. Axes
** are aligned at the last one; an axis of size 1 is repeated. */
static int64_t index_in(const fl_layout *s, int64_t i, int rank, const int64_t *size,
                        const int64_t *stride) {
  int64_t at = 0;
  for (int a = s->rank - 1; a >= 0; a--) {
    const int64_t k = s->size[a] ? i % s->size[a] : 0;
    const int b = a - (s->rank - rank);
    i /= s->size[a] ? s->size[a] : 1;
    if (b >= 0 && size[b] != 1) at += k * stride[b];
  }
  return at;
}
static double at_broadcast(const double *v, const fl_layout *from, const fl_layout *s, int64_t i) {
  return v[index_in(s, i, from->rank, from->size, from->stride)];
}

#define T double
#define M(f) fl_##f##_f64
#define EVAL_FLOAT(e) (e)
#define EVAL_NUM(e) (e)
#define EVAL_SAME(e) (e)
#define EVAL_TEST(e) (e)
#define EVAL_WHERE(e) (e)
#define EVAL_INT(e) NAN
static double value_of_op(int op, double x1, double x2, double x3) {
  const double x = x1;
  (void)x; (void)x2; (void)x3;
  switch (op) {
#define UNARY(name, kind, value, grad, domain, doc) case FL_OP_##name: return EVAL_##kind(value);
#define BINARY(name, kind, value, g1, g2, domain, doc) case FL_OP_##name: return EVAL_##kind(value);
#define TERNARY(name, kind, value, g1, g2, g3, domain, doc) \
  case FL_OP_##name: return EVAL_##kind(value);
#define REDUCE(name, kind, init, value, grad, doc)
#define SPECIAL(...)
#include "tensor/ops.def"
  }
  return NAN;
}
#undef T
#undef M

static double combine(int op, double a, double b) {
  switch (op) {
    case FL_OP_sum: return a + b;
    case FL_OP_prod: return a * b;
    case FL_OP_amax: return fl_max_f64(a, b);
    case FL_OP_amin: return fl_min_f64(a, b);
    case FL_OP_any: return a != 0 || b != 0;
    default: return a != 0 && b != 0;
  }
}

static void eval_reduce(fl_node *n, double *v) {
  const fl_layout *s = n->in[0]->shape;
  const double *x = values_of(n->in[0]);
  const int op = n->op;
  for (int64_t i = 0; i < n->shape->numel; i++)
    v[i] = op == FL_OP_prod || op == FL_OP_all ? 1
           : op == FL_OP_amax                  ? -INFINITY
           : op == FL_OP_amin                  ? INFINITY
                                               : 0;
  double *best = calloc((size_t)n->shape->numel + 1, sizeof *best);
  int64_t *count = calloc((size_t)n->shape->numel + 1, sizeof *count);
  for (int64_t i = 0; i < s->numel; i++) {
    const int64_t k = index_in(s, i, n->shape->rank, n->shape->size, n->shape->stride);
    if (op == FL_OP_argmax || op == FL_OP_argmin) {
      const int better = op == FL_OP_argmax ? x[i] > best[k] : x[i] < best[k];
      if (count[k]++ == 0 || better) { best[k] = x[i]; v[k] = (double)count[k]; }
    } else v[k] = combine(op, v[k], x[i]);
  }
  free(best);
  free(count);
}

static void eval_gather(fl_node *n, double *v) {
  const fl_layout *s = n->in[0]->shape, *k = n->in[1]->shape;
  const double *x = values_of(n->in[0]), *idx = values_of(n->in[1]);
  const int axis = n->attr->axis, own = n->attr->flags & 1, nidx = n->attr->naxes;
  for (int64_t i = 0; i < n->shape->numel; i++) {
    int64_t c[FL_MAX_AXES], r = i, at = 0, p = 0;
    for (int a = n->shape->rank - 1; a >= 0; a--) {
      c[a] = r % n->shape->size[a];
      r /= n->shape->size[a];
    }
    if (own) {
      for (int a = 0; a < s->rank; a++) if (a != axis) at += c[a] * s->stride[a];
      at += (int64_t)idx[i] * s->stride[axis];
    } else {
      for (int a = 0; a < nidx; a++) p += c[axis + a] * k->stride[a];
      for (int a = 0; a < s->rank; a++)
        at += (a < axis ? c[a] : a == axis ? (int64_t)idx[p] : c[a + nidx - 1]) * s->stride[a];
    }
    v[i] = x[at];
  }
}

static void eval_scatter(fl_node *n, double *v) {
  const fl_layout *s = n->shape, *k = n->in[1]->shape, *f = n->in[2]->shape;
  const double *x = values_of(n->in[0]), *idx = values_of(n->in[1]), *src = values_of(n->in[2]);
  const int axis = n->attr->axis, own = n->attr->flags & 1, nidx = n->attr->naxes;
  memcpy(v, x, sizeof *v * (size_t)s->numel);
  for (int64_t i = 0; i < f->numel; i++) {
    int64_t c[FL_MAX_AXES], r = i, at = 0, p = 0;
    for (int a = f->rank - 1; a >= 0; a--) { c[a] = r % f->size[a]; r /= f->size[a]; }
    for (int a = 0; !own && a < nidx; a++) p += c[axis + a] * k->stride[a];
    if (own) p = i;
    for (int a = 0; a < s->rank; a++) {
      const int64_t q = a == axis ? (int64_t)idx[p] : own || a < axis ? c[a] : c[a + nidx - 1];
      at += q * s->stride[a];
    }
    v[at] = n->attr->add ? v[at] + src[i] : src[i];
  }
}

static void eval_setslice(fl_node *n, double *v) {
  const fl_layout *s = n->shape, *f = n->in[1]->shape;
  const double *w = values_of(n->in[1]);
  memcpy(v, values_of(n->in[0]), sizeof *v * (size_t)s->numel);
  fl_layout *box = fl_layout_of(&n->ctx->layouts, s->rank, n->attr->size, NULL);
  for (int64_t i = 0; i < box->numel; i++) {
    int64_t r = i, at = 0;
    for (int a = s->rank - 1; a >= 0; a--) {
      at += (n->attr->start[a] + r % box->size[a] * n->attr->step[a]) * s->stride[a];
      r /= box->size[a];
    }
    v[at] = at_broadcast(w, f, box, i);
  }
  fl_layout_release(&n->ctx->layouts, box);
}

static void eval_cat(fl_node *n, double *v) {
  const int axis = n->attr->axis;
  int64_t inner = 1, outer = 1, at = 0;
  for (int a = 0; a < n->shape->rank; a++)
    if (a < axis) outer *= n->shape->size[a]; else if (a > axis) inner *= n->shape->size[a];
  for (int i = 0; i < n->nin; i++) {
    const double *x = values_of(n->in[i]);
    const int64_t k = n->in[i]->shape->size[axis] * inner;
    for (int64_t o = 0; o < outer; o++)
      memcpy(v + o * n->shape->size[axis] * inner + at, x + o * k, sizeof *v * (size_t)k);
    at += k;
  }
}

static void eval_matmul(fl_node *n, double *v) {
  const fl_layout *p = n->in[0]->shape, *q = n->in[1]->shape, *s = n->shape;
  const double *a = values_of(n->in[0]), *b = values_of(n->in[1]);
  const int64_t m = p->size[p->rank - 2], k = p->size[p->rank - 1], c = q->size[q->rank - 1];
  fl_layout *batch = fl_layout_of(&n->ctx->layouts, s->rank - 2, s->size, NULL);
  for (int64_t t = 0; t < batch->numel; t++) {
    int64_t sa[FL_MAX_AXES], sb[FL_MAX_AXES];
    fl_row_major(p->rank, p->size, sa);
    fl_row_major(q->rank, q->size, sb);
    const double *x = a + index_in(batch, t, p->rank - 2, p->size, sa);
    const double *y = b + index_in(batch, t, q->rank - 2, q->size, sb);
    for (int64_t i = 0; i < m; i++)
      for (int64_t j = 0; j < c; j++) {
        double sum = 0;
        for (int64_t l = 0; l < k; l++) sum += x[i * k + l] * y[l * c + j];
        v[(t * m + i) * c + j] = sum;
      }
  }
  fl_layout_release(&n->ctx->layouts, batch);
}

static double as_class(double v, int dtype) {
  if (dtype == FLAME_BOOL) return v != 0;
  return fl_is_float(dtype) ? v : trunc(v);
}

/* Evaluates a node of an optimiser's step, which does several operations at once for each element;
** its inputs have equal shapes, and its scalars are numbers of the step. */
static void eval_joint(fl_node *n, double *v) {
  const double *x = values_of(n->in[0]), *y = values_of(n->in[1]);
  const double *z = n->nin > 2 ? values_of(n->in[2]) : NULL;
  const double a = n->scal[0].d, b = n->scal[1].d, d = n->scal[2].d;
  for (int64_t i = 0; i < n->shape->numel; i++)
    v[i] = n->op == FL_OP_mix ? x[i] * a + y[i] * b
           : z                ? x[i] - y[i] / (sqrt(z[i]) * a + b) * d
                              : x[i] * a + y[i] * y[i] * b;
}

static void eval_special(fl_node *n, double *v) {
  const int isfloat = fl_is_float(n->dtype);
  const int64_t numel = n->shape->numel;
  switch (n->op) {
  case FL_OP_fill:
    for (int64_t i = 0; i < numel; i++)
      v[i] = isfloat ? n->scal[0].d : (double)n->scal[0].i;
    break;
  case FL_OP_iota:
    for (int64_t i = 0; i < numel; i++)
      v[i] = isfloat ? n->scal[0].d + n->scal[1].d * (double)i
                     : (double)(n->scal[0].i + n->scal[1].i * i);
    break;
  case FL_OP_uniform:
    for (int64_t i = 0; i < numel; i++)
      v[i] = fl_random_uniform_f64(i, (uint64_t)n->scal[2].i, (uint64_t)n->scal[3].i,
                                   n->scal[0].d, n->scal[1].d);
    break;
  case FL_OP_cast:
  case FL_OP_copy:
    for (int64_t i = 0; i < numel; i++) v[i] = as_class(values_of(n->in[0])[i], n->dtype);
    break;
  case FL_OP_index:
    for (int64_t i = 0; i < numel; i++) {
      const double k = values_of(n->in[0])[i];
      v[i] = k == -100 ? 0 : k - 1;
    }
    break;
  case FL_OP_gather: eval_gather(n, v); break;
  case FL_OP_scatter: eval_scatter(n, v); break;
  case FL_OP_setslice: eval_setslice(n, v); break;
  case FL_OP_cat: eval_cat(n, v); break;
  case FL_OP_matmul: eval_matmul(n, v); break;
  case FL_OP_mix:
  case FL_OP_mix_square:
  case FL_OP_adam: eval_joint(n, v); break;
  default: printf("oracle: no op %s\n", fl_ops[n->op].name); failed++;
  }
}

static void eval_elementwise(fl_node *n, double *v) {
  const double *x[3] = { NULL, NULL, NULL };
  for (int i = 0; i < n->nin; i++) if (n->in[i]) x[i] = values_of(n->in[i]);
  for (int64_t e = 0; e < n->shape->numel; e++) {
    double a[3] = { 0, 0, 0 };
    for (int i = 0; i < n->nin; i++) {
      const int isfloat = n->in[i] ? 0 : fl_is_float(n->in[!i] ? n->in[!i]->dtype : n->dtype);
      const int wheres = n->op == FL_OP_where ? fl_is_float(n->dtype) : isfloat;
      a[i] = x[i]     ? at_broadcast(x[i], n->in[i]->shape, n->shape, e)
             : wheres ? n->scal[i].d
                      : (double)n->scal[i].i;
    }
    v[e] = value_of_op(n->op, a[0], a[1], a[2]);
  }
}

static double *fresh_values(fl_node *n) {
  double *v = malloc(sizeof *v * (size_t)(n->shape->numel + 1));
  if ((known_n & (known_n - 1)) == 0)            /* the array is full: its size is doubled */
    known_at = realloc(known_at, sizeof *known_at * (size_t)(known_n ? 2 * known_n : 1));
  known_at[known_n++] = (known){ n, v };
  n->slot = (int32_t)known_n - 1;
  return v;
}

static double *values_of(fl_node *n) {
  if (n->slot >= 0 && n->slot < known_n && known_at[n->slot].node == n) return known_at[n->slot].v;
  double *v = fresh_values(n);
  if (n->state == FL_STORED) {
    for (int64_t i = 0; i < n->shape->numel; i++) {
      const int64_t at = n->offset + index_in(n->shape, i, n->layout->rank,
                                              n->layout->size, n->layout->stride);
      const fl_scalar s =
          fl_scalar_load((char *)n->buffer->ptr + at * fl_dtype_size(n->dtype), n->dtype);
      v[i] = fl_is_float(n->dtype) ? s.d : (double)s.i;
    }
  } else if (n->base) {
    const double *b = values_of(n->base);
    for (int64_t i = 0; i < n->shape->numel; i++)
      v[i] = b[n->offset + index_in(n->shape, i, n->layout->rank, n->layout->size,
                                    n->layout->stride)];
  } else if (n->state != FL_PENDING) {
    printf("oracle: a %s is not to be read\n", fl_ops[n->op].name);
    failed++;
  } else if (fl_ops[n->op].form == FL_FORM_SPECIAL) eval_special(n, v);
  else if (fl_ops[n->op].form == FL_FORM_REDUCE) eval_reduce(n, v);
  else eval_elementwise(n, v);
  return v;
}

/* The values of n, row-major. The array is valid until the next call of read_node. */
static const double *read_node(fl_node *n) {
  flame_context *c = n->ctx;
  for (int64_t i = 0; i < known_n; i++) free(known_at[i].v);
  known_n = 0;
  for (int64_t i = 0; n->state == FL_PENDING && i < n->index;
       i++) /* oldest node first, so that values_of does not recurse deeply */
    if (c->win.nodes.at[i]) values_of(c->win.nodes.at[i]);
  return values_of(n);
}
static void forget_values(void) {
  for (int64_t i = 0; i < known_n; i++) free(known_at[i].v);
  free(known_at);
  known_at = NULL;
  known_n = 0;
}
#endif
