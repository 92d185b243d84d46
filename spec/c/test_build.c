/*
** Tests of the functions that build nodes: promotion, numbers, broadcasting, shapes and dtypes of
** results, error texts, and views (chains of random views of pending and stored values are compared
** with plain copies). The structure of nodes is checked directly; oracle.h computes values.
*/
#include "oracle.h"
#include "tensor/update.h"

/* ---- helpers ----------------------------------------------------------------------- */

static fl_node *zeros(flame_context *c, int dtype, int rank, int64_t a, int64_t b, int64_t d) {
  const int64_t size[3] = { a, b, d };
  return n_fill(c, dtype, 0, rank, size, (fl_scalar){ .i = 0 });
}
static fl_node *vec(flame_context *c, int dtype) { return zeros(c, dtype, 1, 3, 0, 0); }

static int shape_is(const fl_node *n, int rank, int64_t a, int64_t b, int64_t d) {
  const int64_t want[3] = { a, b, d };
  if (!n || n->shape->rank != rank) return 0;
  for (int k = 0; k < rank; k++) if (n->shape->size[k] != want[k]) return 0;
  return 1;
}

/* 1 if n is NULL and the context's error contains 'text'; clears the error. */
static int says(flame_context *c, const fl_node *n, const char *text) {
  const int ok = !n && strstr(flame_error(c), text);
  if (!ok) printf("  got '%s', need '%s'\n", flame_error(c), text);
  flame_clear_error(c);
  return ok;
}

/* ---- promotion and numbers --------------------------------------------------------- */

static void test_promotion(void) {
  flame_context *c = open_context();
  FL_ENTER(c);
  for (int a = 0; a < FLAME_DTYPE_COUNT; a++)
    for (int b = 0; b < FLAME_DTYPE_COUNT; b++) {
      const int t = fl_promote(a, b);
      fl_node *x = vec(c, a), *y = vec(c, b), *s = n_add(x, y), *q = n_eq(x, y), *d = n_div(x, y);
      CHECK(s && s->dtype == t && s->in[0]->dtype == t && s->in[1]->dtype == t);
      CHECK(q && q->dtype == FLAME_BOOL && q->in[0]->dtype == t);
      CHECK(d && d->dtype == (fl_is_float(t) ? t : FLAME_F32));
      CHECK(s && (s->in[0] == x) == (a == t));
    }
  CHECK(n_add(vec(c, FLAME_F16), vec(c, FLAME_BF16))->dtype == FLAME_F32);
  CHECK(n_add(vec(c, FLAME_U8), vec(c, FLAME_I8))->dtype == FLAME_I16);
  CHECK(n_add(vec(c, FLAME_F16), zeros(c, FLAME_F32, 0, 0, 0, 0))->dtype ==
        FLAME_F32); /* a 0-d tensor counts */
  FL_LEAVE(c);
  close_context(c);
}

static void test_numbers(void) {
  flame_context *c = open_context();
  FL_ENTER(c);
  fl_node *h = vec(c, FLAME_F16), *i = vec(c, FLAME_I32), *u = vec(c, FLAME_U8),
          *b = vec(c, FLAME_BOOL);
  fl_node *y = n_mul(h, n_num(c, 2.1));
  CHECK(y->dtype == FLAME_F16 && y->in[1] == NULL && y->scal[1].d == 2.1);
  y = n_sub(n_int(c, 3), h);
  CHECK(y->dtype == FLAME_F16 && y->in[0] == NULL && y->scal[0].d == 3 && y->in[1] == h);
  y = n_add(i, n_int(c, -7));
  CHECK(y->dtype == FLAME_I32 && y->scal[1].i == -7);
  y = n_add(i, n_num(c, 2));
  CHECK(y->dtype == FLAME_F32 && y->in[0]->op == FL_OP_cast && y->scal[1].d == 2);
  CHECK(n_add(b, n_int(c, 1))->dtype == FLAME_I64 && n_add(b, n_num(c, 1))->dtype == FLAME_F32);
  CHECK(n_div(i, n_int(c, 2))->dtype == FLAME_F32 && n_div(i, n_int(c, 2))->scal[1].d == 2);
  CHECK(n_exp(i)->dtype == FLAME_F32 && n_exp(b)->dtype == FLAME_F32 &&
        n_exp(h)->dtype == FLAME_F16);
  CHECK(says(c, n_add(u, n_int(c, 256)), "add: 256 does not fit in u8"));
  CHECK(says(c, n_lt(u, n_int(c, -1)), "lt: -1 does not fit in u8"));
  CHECK(says(c, n_neg(b), "neg: dtype bool is not supported"));
  CHECK(says(c, n_bitwise_and(h, i),
             "bitwise_and: dtype f16 is not supported, need integers or bool"));
  y = n_add(n_int(c, 1), n_num(c, 2));                                    /* a 0-d f32 */
  CHECK(y && y->dtype == FLAME_F32 && shape_is(y, 0, 0, 0, 0) && *read_node(y) == 3);
  y = n_where(b, n_int(c, 1), n_int(c, 2));
  CHECK(y->dtype == FLAME_I64 && y->scal[2].i == 2 &&
        n_where(b, n_num(c, 1), n_int(c, 0))->dtype == FLAME_F32);
  CHECK(n_where(b, h, n_num(c, 0))->dtype == FLAME_F16 && n_where(b, i, h)->dtype == FLAME_F16);
  CHECK(says(c, n_where(h, h, h), "where: the condition is f16, need bool"));
  CHECK(n_pow(h, n_num(c, 2))->op == FL_OP_square &&
        n_pow(h, n_int(c, -1))->op == FL_OP_reciprocal);
  CHECK(n_pow(i, n_num(c, 0.5))->op == FL_OP_sqrt && n_pow(h, n_int(c, 3))->op == FL_OP_mul);
  CHECK(n_pow(i, n_int(c, 2))->dtype == FLAME_I32 && n_pow(h, n_num(c, 2.5))->op == FL_OP_pow);
  CHECK(says(c, n_pow(i, n_int(c, -1)), "pow: integers to the negative power -1"));
  CHECK(fl_build_ternary(FL_OP_clamp, h, &fl_none, n_int(c, 1))->op == FL_OP_minimum);
  CHECK(fl_build_ternary(FL_OP_clamp, i, n_num(c, 0.5), &fl_none)->dtype == FLAME_F32);
  CHECK(says(c, fl_build_ternary(FL_OP_clamp, i, &fl_none, &fl_none), "clamp: neither"));
  FL_LEAVE(c);
  close_context(c);
}

/* ---- shapes ------------------------------------------------------------------------ */

static void test_broadcasting(void) {
  flame_context *c = open_context();
  FL_ENTER(c);
  fl_node *a = zeros(c, FLAME_F32, 2, 2, 3, 0), *b = zeros(c, FLAME_F32, 1, 3, 0, 0),
          *d = zeros(c, FLAME_F32, 3, 4, 2, 1);
  const int64_t before = c->win.live;
  fl_node *y = n_add(n_add(a, b), d);
  CHECK(shape_is(y, 3, 4, 2, 3) && c->win.live == before + 2 &&
        y->in[1] == d); /* broadcasting makes no nodes */
  CHECK(shape_is(n_mul(zeros(c, FLAME_F32, 1, 0, 0, 0), zeros(c, FLAME_F32, 2, 5, 1, 0)),
                 2, 5, 0, 0));
  CHECK(shape_is(n_where(zeros(c, FLAME_BOOL, 2, 2, 1, 0), b, n_num(c, 0)), 2, 2, 3, 0));
  CHECK(says(c, n_add(a, zeros(c, FLAME_F32, 1, 4, 0, 0)),
             "add: shapes (2, 3) and (4) do not broadcast"));
  fl_node *g = n_fill(c, FLAME_F32, 1, 1, (int64_t[]){ 3 }, (fl_scalar){ .d = 0 });
  CHECK(says(c, n_add(g, b), "add: x is on cuda:0 and y on cpu; use y:to(x.device)"));
  fl_node *long1 = zeros(c, FLAME_F32, 2, INT64_C(1) << 40, 1, 0),
          *long2 = zeros(c, FLAME_F32, 2, 1, INT64_C(1) << 40, 0);
  CHECK(says(c, n_add(long1, long2), "elements are too many"));
  CHECK(says(c, zeros(c, FLAME_F32, 2, -1, 2, 0), "full: size -1 is negative"));
  CHECK(says(
      c, n_fill(c, 1, 0, 9, (int64_t[9]){ 1, 1, 1, 1, 1, 1, 1, 1, 1 }, (fl_scalar){ 0 }),
      "9 axes, at most 8"));
  CHECK(n_add(NULL, a) == NULL && n_exp(NULL) == NULL && c->err.code == FLAME_OK);
  FL_LEAVE(c);
  close_context(c);
}

static void test_reductions(void) {
  flame_context *c = open_context();
  FL_ENTER(c);
  fl_node *x = zeros(c, FLAME_F16, 3, 2, 3, 4), *i = zeros(c, FLAME_I8, 1, 3, 0, 0),
          *e = zeros(c, FLAME_F32, 2, 2, 0, 0);
  fl_node *s = n_sum(x, 5, 1);
  CHECK(shape_is(s, 3, 1, 3, 1) && s->op == FL_OP_sum && s->axes == 5 && s->dtype == FLAME_F16);
  s = n_sum(x, 5, 0);
  CHECK(shape_is(s, 1, 3, 0, 0) && s->op == FL_OP_view && s->base->op == FL_OP_sum);
  CHECK(shape_is(n_sum(x, FL_ALL_AXES, 0), 0, 0, 0, 0));
  CHECK(n_sum(i, 1, 0)->dtype == FLAME_I64 &&
        n_prod(zeros(c, FLAME_BOOL, 1, 2, 0, 0), 1, 0)->dtype == FLAME_I64);
  CHECK(n_amax(i, 1, 0)->dtype == FLAME_I8 && n_argmax(x, 4, 0)->dtype == FLAME_I64);
  CHECK(n_any(x, 1, 0)->dtype == FLAME_BOOL && n_any(x, 1, 1)->in[0]->dtype == FLAME_BOOL);
  CHECK(shape_is(n_sum(e, 2, 0), 1, 2, 0, 0) && *read_node(n_prod(e, FL_ALL_AXES, 0)) == 1);
  CHECK(says(c, n_amax(e, 2, 0), "amax: axis 2 of shape (2, 0) is empty"));
  CHECK(says(c, n_argmin(e, FL_ALL_AXES, 0), "argmin: axis 2 of shape (2, 0) is empty"));
  CHECK(shape_is(n_amax(e, 1, 0), 1, 0, 0, 0));
  CHECK(says(c, n_sum(x, 8, 0), "sum: an axis is out of range for shape (2, 3, 4)"));
  CHECK(says(c, n_mean(i, 1, 0), "mean: dtype i8 is not supported; cast first"));
  CHECK(says(c, n_var(i, 1, 1, 0), "var: dtype i8"));
  fl_node *scalar = zeros(c, FLAME_F32, 0, 0, 0, 0);
  CHECK(n_sum(scalar, FL_ALL_AXES, 0) != scalar &&
        *read_node(n_argmax(scalar, FL_ALL_AXES, 0)) == 1);
  CHECK(n_mean(x, 4, 0)->dtype == FLAME_F16 && n_mean(x, 4, 0)->in[0]->dtype == FLAME_F32);
  FL_LEAVE(c);
  close_context(c);
}

static void test_errors_of_shapes(void) {
  flame_context *c = open_context();
  FL_ENTER(c);
  fl_node *a = zeros(c, FLAME_F32, 2, 4, 3, 0), *b = zeros(c, FLAME_F32, 2, 5, 2, 0),
          *f = vec(c, FLAME_F32);
  CHECK(says(c, n_matmul(a, b), "matmul: inner sizes differ, (4, 3) and (5, 2)"));
  CHECK(says(c, n_matmul(a, zeros(c, FLAME_F32, 0, 0, 0, 0)),
             "matmul: both need at least one axis"));
  CHECK(says(c,
             n_matmul(zeros(c, FLAME_F32, 3, 2, 4, 3), zeros(c, FLAME_F32, 3, 3, 3, 4)),
             "matmul: batch sizes do not broadcast, (2, 4, 3) and (3, 3, 4)"));
  CHECK(says(c, n_reshape(a, 2, (int64_t[]){ 5, -1 }),
             "reshape: shape (4, 3) can not become (5, -1)"));
  CHECK(says(c, n_reshape(a, 2, (int64_t[]){ -1, -1 }), "reshape: shape (4, 3) can not become"));
  CHECK(says(c, n_reshape(zeros(c, FLAME_F32, 1, 0, 0, 0), 2, (int64_t[]){ 0, -1 }), "reshape"));
  CHECK(says(c, n_permute(a, (int[]){ 0, 0 }), "permute: axis 1 appears twice"));
  CHECK(says(c, n_transpose(a, 0, 2), "transpose: axis 3 is out of range for shape (4, 3)"));
  CHECK(says(c, n_slice(a, 0, 2, 3, 1),
             "slice: 3 positions from 2 by 1 leave axis 0 of shape (4, 3)"));
  CHECK(says(c, n_select(a, 1, 3), "select: position 4 is outside axis 2 of shape (4, 3)"));
  CHECK(says(c, n_expand(a, 2, (int64_t[]){ 4, 4 }), "expand: shape (4, 3) can not become (4, 4)"));
  CHECK(says(c, n_index(f, 3, 0, "gather"),
             "gather: the index tensor is f32, need an integer dtype: use :long() (arange(n / 2) is f32, as n / 2 is a float; "
             "arange(n // 2) is i64)"));
  CHECK(says(c, n_cat(c, 2, (fl_node *[]){ a, b }, 0),
             "cat: shapes (4, 3) and (5, 2) differ outside axis 1"));
  CHECK(says(c, n_stack(c, 2, (fl_node *[]){ a, b }, 0), "stack: shapes (4, 3) and (5, 2) differ"));
  CHECK(says(c, n_strided(a, 1, (int64_t[]){ 5 }, (int64_t[]){ 3 }, 0),
             "strided: the layout leaves the 12 elements"));
  FL_LEAVE(c);
  close_context(c);
}

static void test_errors_of_writes(void) {
  flame_context *c = open_context();
  FL_ENTER(c);
  fl_node *a = zeros(c, FLAME_F32, 2, 4, 3, 0), *f = vec(c, FLAME_F32);
  fl_node *i = vec(c, FLAME_I64);
  const int64_t zero = 0, one = 1, three = 3;
  CHECK(says(c, n_setslice(i, &zero, &one, &three, f),
             "a float can not be written into dtype i64"));
  CHECK(says(c, n_setslice(i, &zero, &one, &three, n_num(c, 1.5)),
             "a float can not be written into dtype i64"));
  CHECK(says(c, n_setslice(f, &one, &one, &three, f),
             "x[…] = v: 3 positions from 1 by 1 leave axis 0 of shape (3)"));
  CHECK(says(c, n_setslice(f, &zero, &one, &three, a),
             "x[…] = v: a value of shape (4, 3) does not fit a region of shape (3)"));
  FL_LEAVE(c);
  close_context(c);
}

static void test_errors_of_composites(void) {
  flame_context *c = open_context();
  FL_ENTER(c);
  const int64_t three = 3;
  fl_node *a = zeros(c, FLAME_F32, 2, 4, 3, 0), *b = zeros(c, FLAME_F32, 2, 5, 2, 0),
          *f = vec(c, FLAME_F32);
  CHECK(says(c, n_linear(f, b, &fl_none), "linear: x has shape (3) and w (5, 2)"));
  CHECK(says(c, n_layer_norm(a, 1, zeros(c, FLAME_F32, 1, 4, 0, 0), &fl_none, 1e-5),
             "layer_norm: weight has shape (4), need (3)"));
  CHECK(says(c, n_cross_entropy(a, zeros(c, FLAME_I64, 1, 5, 0, 0), &fl_none, 1, -100, 0),
             "cross_entropy: input has shape (4, 3) and target (5), need (4)"));
  CHECK(says(c, n_softmax(a, 2), "softmax: axis 3 is out of range"));
  CHECK(says(c, n_dropout(a, 1.5), "dropout: p = 1.5, need 0 <= p <= 1"));
  CHECK(says(c, n_random(c, FL_OP_uniform, FLAME_I64, 0, 1, &three, 0, 1),
             "uniform: dtype i64 is not supported, need a float type"));
  CHECK(says(c, n_random(c, FL_OP_randint, FLAME_I64, 0, 1, &three, 5, 4),
             "randint: the range from 5 to 4 is empty"));
  CHECK(says(c, n_exp(n_add(a, b)), "add: shapes"));               /* the first error stays */
  FL_LEAVE(c);
  close_context(c);
}

/* ---- structure of moving ops ------------------------------------------------------- */

static void test_products(void) {
  flame_context *c = open_context();
  FL_ENTER(c);
  fl_node *m = zeros(c, FLAME_F32, 2, 4, 3, 0), *v = vec(c, FLAME_F32),
          *t = zeros(c, FLAME_F32, 3, 2, 5, 4);
  CHECK(shape_is(n_matmul(m, v), 1, 4, 0, 0) &&
        shape_is(n_matmul(v, n_transpose(m, 0, 1)), 1, 4, 0, 0));
  CHECK(shape_is(n_matmul(v, v), 0, 0, 0, 0));
  fl_node *y = n_matmul(t, m);
  CHECK(shape_is(y, 3, 2, 5, 3) && y->op == FL_OP_view &&
        shape_is(y->base, 2, 10, 3, 0)); /* the rows of t are one matrix */
  y = n_matmul(n_permute(t, (int[]){ 1, 0, 2 }), m);
  CHECK(shape_is(y, 3, 5, 2, 3) && y->op == FL_OP_matmul);
  y = n_matmul(zeros(c, FLAME_F32, 2, 6, 5, 0), t);
  CHECK(shape_is(y, 3, 2, 6, 4) && y->op == FL_OP_matmul && shape_is(y->in[0], 2, 6, 5, 0));
  CHECK(shape_is(n_matmul(v, zeros(c, FLAME_F32, 3, 2, 3, 4)), 2, 2, 4, 0));
  CHECK(n_matmul(zeros(c, FLAME_F16, 2, 4, 3, 0), v)->dtype == FLAME_F32);
  CHECK(shape_is(
      n_linear(t, zeros(c, FLAME_F32, 2, 7, 4, 0), zeros(c, FLAME_F32, 1, 7, 0, 0)), 3, 2,
      5, 7));
  FL_LEAVE(c);
  close_context(c);
}

static void test_joins(void) {
  flame_context *c = open_context();
  FL_ENTER(c);
  const double v[6] = { 1, 2, 3, 4, 5, 6 };
  fl_node *x = stored(c, FLAME_F32, 2, (int64_t[]){ 2, 3 }, v), *many[600];
  for (int k = 0; k < 600; k++) many[k] = k % 2 ? x : n_slice(x, 0, 0, 1, 1);
  fl_node *y = n_cat(c, 600, many, 0);
  CHECK(shape_is(y, 2, 900, 3, 0));
  const double *got = read_node(y);
  CHECK(got[0] == 1 && got[3] == 1 && got[6] == 4 && got[899 * 3 + 2] == 6);
  CHECK(n_cat(c, 2, (fl_node *[]){ x, vec(c, FLAME_F64) }, 0) == NULL);
  flame_clear_error(c);
  y = n_cat(
      c, 3,
      (fl_node *[]){ zeros(c, FLAME_F64, 1, 0, 0, 0), x, zeros(c, FLAME_I8, 2, 0, 3, 0) },
      0);
  CHECK(shape_is(y, 2, 2, 3, 0) && y->dtype == FLAME_F64);
  CHECK(shape_is(n_stack(c, 2, (fl_node *[]){ x, x }, 2), 3, 2, 3, 2));
  got = read_node(n_pad(x, (int64_t[]){ 0, 1 }, (int64_t[]){ 0, -1 }, 9));
  CHECK(got[0] == 9 && got[1] == 1 && got[2] == 2 && got[3] == 9);
  got = read_node(n_tril(x, 0, 0));
  CHECK(got[0] == 1 && got[1] == 0 && got[3] == 4 && got[4] == 5 && got[5] == 0);
  CHECK(n_tril(zeros(c, FLAME_BOOL, 2, 2, 2, 0), 0, 1)->dtype == FLAME_BOOL);
  FL_LEAVE(c);
  close_context(c);
}

static void test_random(void) {
  flame_context *c = open_context();
  FL_ENTER(c);
  const int64_t five = 5;
  fl_node *a = n_random(c, FL_OP_uniform, FLAME_F32, 0, 1, &five, 0, 1),
          *b = n_random(c, FL_OP_normal, FLAME_F64, 0, 1, &five, 2, 3);
  fl_node *d = n_random(c, FL_OP_randint, FLAME_I32, 0, 1, &five, -1, 9),
          *e = n_random(c, FL_OP_uniform, FLAME_F16, 0, 1, &five, 0, 1);
  CHECK(a->scal[2].i == 0 && a->scal[3].i == 7 && b->scal[2].i == 2 &&
        d->scal[2].i == 5 && e->scal[2].i == 8);
  CHECK(b->scal[0].d == 2 && b->scal[1].d == 3 && d->scal[0].i == -1 && d->scal[1].i == 9);
  CHECK(c->rng.counter == 10);
  FL_LEAVE(c);
  close_context(c);
}

/* ---- views against copies ---------------------------------------------------------- */

typedef struct { int rank; int64_t size[8], numel; double v[4096]; } model;   /* row-major */
static uint64_t state = 5;
static int64_t below(int64_t n) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (int64_t)((state >> 33) % (uint64_t)n);
}

/* A view: coordinate k along its axis a is coordinate start[f] + k * step[f] along axis f = from[a]
** of the model; from[a] = -1: a new axis. */
typedef struct { int64_t start[8], step[8]; int from[8]; } view;

static void model_map(const model *x, model *y, const view *v) {
  int64_t stride[8], at[8] = { 0 };
  fl_row_major(x->rank, x->size, stride);
  y->numel = 1;
  for (int a = 0; a < y->rank; a++) y->numel *= y->size[a];
  int64_t base = 0;
  for (int a = 0; a < x->rank; a++) base += v->start[a] * stride[a];
  for (int64_t i = 0; i < y->numel; i++) {
    int64_t p = base;
    for (int a = 0; a < y->rank; a++)
      if (v->from[a] >= 0) p += at[a] * v->step[v->from[a]] * stride[v->from[a]];
    y->v[i] = x->v[p];
    for (int a = y->rank - 1; a >= 0 && ++at[a] == y->size[a]; a--) at[a] = 0;
  }
}

/* A random slice of axis a, forwards or backwards. */
static fl_node *random_slice(fl_node *n, const model *x, model *y, view *v, int a) {
  const int64_t count = 1 + below(x->size[a]);
  const int64_t most = count > 1 ? (x->size[a] - 1) / (count - 1) : 1;
  v->step[a] = 1 + below(most);
  v->start[a] = below(x->size[a] - (count - 1) * v->step[a]);
  if (below(2)) { v->start[a] += (count - 1) * v->step[a]; v->step[a] = -v->step[a]; }
  y->size[a] = count;
  model_map(x, y, v);
  return n_slice(n, a, v->start[a], count, v->step[a]);
}

static fl_node *random_permutation(fl_node *n, const model *x, model *y, view *v) {
  for (int k = x->rank - 1; k > 0; k--) {
    const int j = (int)below(k + 1), t = v->from[k];
    v->from[k] = v->from[j];
    v->from[j] = t;
  }
  for (int k = 0; k < x->rank; k++) y->size[k] = x->size[v->from[k]];
  model_map(x, y, v);
  return n_permute(n, v->from);
}

static fl_node *random_select(fl_node *n, const model *x, model *y, view *v, int a) {
  v->start[a] = below(x->size[a]);
  y->rank--;
  for (int k = a; k < y->rank; k++) { y->size[k] = x->size[k + 1]; v->from[k] = k + 1; }
  model_map(x, y, v);
  return n_select(n, a, v->start[a]);
}

static fl_node *new_leading_axis(fl_node *n, const model *x, model *y, view *v) {
  y->rank++;
  y->size[0] = 2;
  v->from[0] = -1;
  for (int k = 0; k < x->rank; k++) { y->size[k + 1] = x->size[k]; v->from[k + 1] = k; }
  model_map(x, y, v);
  return n_expand(n, y->rank, y->size);
}

/* A reshape that merges two axes, splits axis a, or changes nothing. */
static fl_node *random_reshape(fl_node *n, const model *x, model *y, int a) {
  if (x->rank > 1 && below(2)) {
    const int k = a ? a - 1 : 0;
    y->size[k] *= y->size[k + 1];
    for (int j = k + 1; j + 1 < x->rank; j++) y->size[j] = x->size[j + 1];
    y->rank--;
  } else if (x->rank && x->rank < 5 && x->size[a] % 2 == 0) {
    y->rank++;
    for (int j = x->rank; j > a; j--) y->size[j] = x->size[j - 1];
    y->size[a] = 2;
    y->size[a + 1] = x->size[a] / 2;
  }
  return n_reshape(n, y->rank, y->size);
}

static fl_node *overlapping_windows(fl_node *n, const model *x, model *y) {
  y->rank = 2;
  y->size[0] = y->numel = x->numel - 2;
  y->size[1] = 3;
  y->numel *= 3;
  if (y->numel > 4096) { memcpy(y, x, sizeof *y); return n_detach(n); }
  for (int64_t i = 0; i < y->numel; i++) y->v[i] = x->v[i / 3 + i % 3];
  return n_strided(n, 2, y->size, (int64_t[]){ 1, 1 }, 0);
}

/* Makes a random view of n, and y by copying the same elements of the model x. */
static fl_node *random_view(fl_node *n, const model *x, model *y) {
  view v = { .start = { 0 } };
  for (int a = 0; a < x->rank; a++) { v.step[a] = 1; v.from[a] = a; }
  y->rank = x->rank;
  memcpy(y->size, x->size, sizeof y->size);
  const int kind = (int)below(6), a = x->rank ? (int)below(x->rank) : 0;
  if (kind == 0 && x->rank) return random_slice(n, x, y, &v, a);
  if (kind == 1 && x->rank) return random_permutation(n, x, y, &v);
  if (kind == 2 && x->rank > 1) return random_select(n, x, y, &v, a);
  if (kind == 3 && x->rank < 5 && x->numel < 1000) return new_leading_axis(n, x, y, &v);
  memcpy(y, x, sizeof *y);
  if (kind == 4) return random_reshape(n, x, y, a);
  return x->numel < 4 ? n_alias(n) : overlapping_windows(n, x, y);
}

static void test_views(void) {
  static model m[2];
  int64_t copies = 0;
  for (int round = 0; round < 1500; round++) {
    flame_context *c = open_context();
    FL_ENTER(c);
    m[0].rank = 1 + (int)below(4);
    m[0].numel = 1;
    for (int a = 0; a < m[0].rank; a++) m[0].numel *= m[0].size[a] = 1 + below(6);
    for (int64_t i = 0; i < m[0].numel; i++) m[0].v[i] = (double)i;
    fl_node *n = round % 2 ? stored(c, FLAME_F64, m[0].rank, m[0].size, m[0].v)
                           : n_iota(c, FLAME_F64, 0, m[0].rank, m[0].size,
                                    (fl_scalar){ .d = 0 }, (fl_scalar){ .d = 1 });
    int now = 0, ok = 1;
    for (int k = 0; ok && k < 6; k++, now = !now) {
      n = random_view(n, &m[now], &m[!now]);
      ok = n && n->shape->numel == m[!now].numel &&
           (round % 2 == 0 || n->state == FL_STORED || n->op == FL_OP_copy || n->base);
      ok = ok && (!n->base || (n->base->op != FL_OP_view && n->base->state == FL_PENDING));
      copies += n && n->base && n->base->op == FL_OP_copy;
      const double *v = ok ? read_node(n) : NULL;
      for (int64_t i = 0; ok && i < n->shape->numel; i++) ok = v[i] == m[!now].v[i];
    }
    if (ok) passed++;
    else { failed++; printf("views: round %d: %s\n", round, flame_error(c)); }
    FL_LEAVE(c);
    if (c->nodes.live || c->attrs.live || c->buffers.live) {
      failed++;
      printf("views: round %d leaks\n", round);
    }
    fl_tensor_close(c);
    free(c);
  }
  CHECK(copies > 20);                                  /* reshapes that strides can not express */
}

/* ---- steps of optimisers ----------------------------------------------------------- */

enum { STEP_P, STEP_G, STEP_M, STEP_V, STEP_TOP, STEP_COUNT };

static int near(const double *got, const double *want, int64_t n) {
  for (int64_t i = 0; i < n; i++)
    if (!(fabs(got[i] - want[i]) <= 1e-13 * (1 + fabs(want[i])))) return 0;
  return 1;
}

/* The op that made the value of t, perhaps copied by a write. */
static int maker(const flame_tensor *t) {
  const fl_node *n = t->node;
  return n->op == FL_OP_copy ? n->in[0]->op : n->op;
}

/* One step of Adam by the formulas of the paper: replaces m, v, top and p in the values x. */
static void adam_by_hand(const fl_adam *r, double x[STEP_COUNT][4], int amsgrad, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    double p = x[STEP_P][i], g = x[STEP_G][i] + (r->decoupled ? 0 : r->decay * p);
    if (r->decoupled) p *= 1 - r->lr * r->decay;
    x[STEP_M][i] = r->beta1 * x[STEP_M][i] + (1 - r->beta1) * g;
    x[STEP_V][i] = r->beta2 * x[STEP_V][i] + (1 - r->beta2) * g * g;
    x[STEP_TOP][i] = fmax(x[STEP_TOP][i], x[STEP_V][i]);
    const double mean = x[STEP_M][i] / (1 - pow(r->beta1, (double)r->step));
    const double square = x[amsgrad ? STEP_TOP : STEP_V][i] / (1 - pow(r->beta2, (double)r->step));
    x[STEP_P][i] = p - r->lr * mean / (sqrt(square) + r->eps);
  }
}

/* One step of Adam on arrays of a dtype and shape; joint: several operations are one node. */
static void one_adam(int dtype, int rank, int64_t size, int amsgrad, int decoupled, int joint) {
  static const double from[STEP_COUNT][4] = { { 1, -2, 3, 0.5 }, { 0.25, -0.5, 4, 0 },
    { 0.125, 1, -1, 0 }, { 0.5, 2, 0.25, 0 }, { 1, 0.25, 8, 0 } };
  flame_context *c = open_context();
  FL_ENTER(c);
  double x[STEP_COUNT][4];
  flame_tensor *t[STEP_COUNT];
  memcpy(x, from, sizeof x);
  for (int k = 0; k < STEP_COUNT; k++)
    t[k] = fl_tensor_new(c, stored(c, dtype, rank, &size, from[k]));
  fl_adam r = { .lr = 0.1, .beta1 = 0.9, .beta2 = 0.99, .eps = 1e-3, .decay = 0.5,
                .decoupled = decoupled };
  fl_adam_count(&r, 3);
  c->grad_mode = !joint;
  CHECK(fl_adam_step(t[STEP_P], t[STEP_G]->node, t[STEP_M], t[STEP_V],
                     amsgrad ? t[STEP_TOP] : NULL, &r) == FLAME_OK);
  const int64_t n = t[STEP_P]->node->shape->numel;
  adam_by_hand(&r, x, amsgrad, n);
  CHECK((maker(t[STEP_P]) == FL_OP_adam) == joint);
  CHECK((maker(t[STEP_M]) == FL_OP_mix) == joint);
  CHECK((maker(t[STEP_V]) == FL_OP_mix_square) == joint);
  for (int k = 0; k < STEP_COUNT - !amsgrad; k++) CHECK(near(read_node(t[k]->node), x[k], n));
  FL_LEAVE(c);
  for (int k = 0; k < STEP_COUNT; k++) flame_free(t[k]);
  close_context(c);
}

static void test_steps(void) {
  static const int dtypes[] = { FLAME_F32, FLAME_F64, FLAME_F16, FLAME_BF16 };
  for (int d = 0; d < 4; d++)
    for (int how = 0; how < 8; how++) {
      one_adam(dtypes[d], 0, 1, how & 1, how >> 1 & 1, how >> 2 & 1);
      one_adam(dtypes[d], 1, 0, how & 1, how >> 1 & 1, how >> 2 & 1);
      one_adam(dtypes[d], 1, 4, how & 1, how >> 1 & 1, how >> 2 & 1);
    }
}

int main(void) {
  test_promotion();
  test_numbers();
  test_broadcasting();
  test_reductions();
  test_errors_of_shapes();
  test_errors_of_writes();
  test_errors_of_composites();
  test_products();
  test_joins();
  test_random();
  test_views();
  test_steps();
  forget_values();
  printf("build: %d passed, %d failed\n", passed, failed);
  return failed != 0;
}
