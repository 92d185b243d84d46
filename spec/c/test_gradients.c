/*
** Gradients: every rule of ops.def and every structural rule against central differences in f64, of
** first and second order, computed by the evaluator in oracle.h. Then the backward walk itself:
** accumulation, retain_graph, create_graph, errors, depth, leaks.
*/
#include "oracle.h"

enum { MAX_IN = 6 };
typedef fl_node *(*builder)(flame_context *c, fl_node **x, int arg);

static uint64_t state = 99;
static double uniform(double a, double b) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return a + (b - a) * (double)(state >> 11) / 9007199254740992.0;
}

static double sample(const char *domain, int op) {
  if (op == FL_OP_acosh) return uniform(1.2, 3);
  if (!strcmp(domain, "ABOVE0") || !strcmp(domain, "SMALLPOS")) return uniform(0.3, 2);
  if (!strcmp(domain, "BELOW0")) return -uniform(0.3, 2);
  if (!strcmp(domain, "UNIT")) return uniform(-0.8, 0.8);
  if (!strcmp(domain, "ABOVE1")) return uniform(1.2, 3);
  const double v = uniform(0.3, 2.3) + (op == FL_OP_frac ? 0.01 : 0);
  return uniform(-1, 1) < 0 ? -v : v;
}

/* Sums y with fixed weights, so that the gradient differs between elements. */
static fl_node *weighted(flame_context *c, fl_node *y) {
  if (!y) return NULL;
  const fl_scalar from = { .d = 0.7 }, step = { .d = 0.13 };
  return n_sum(
      n_mul(y, n_iota(c, FLAME_F64, 0, y->shape->rank, y->shape->size, from, step)),
      FL_ALL_AXES, 0);
}

typedef struct { int rank; int64_t size[4]; double v[64]; } input;

static double loss_at(flame_context *c, builder f, int n, const input *in, int arg,
                      int order, const double *dir) {
  fl_node *x[MAX_IN];
  flame_tensor *t[MAX_IN];
  const int64_t mark = fl_scope_begin(c);
  const uint64_t counter = c->rng.counter;
  for (int i = 0; i < n; i++) {
    x[i] = stored(c, FLAME_F64, in[i].rank, in[i].size, in[i].v);
    t[i] = fl_tensor_new(c, x[i]);
    flame_requires_grad(t[i], order == 2);
  }
  fl_node *y = weighted(c, f(c, x, arg)), *g[MAX_IN];
  double v = NAN;
  if (y && order == 2) {          /* first-order gradients in a fixed direction */
    const fl_backward how = { .retain_graph = 1, .create_graph = 1 };
    v = 0;
    if (y->entry && fl_gradients(c, 1, &y, NULL, n, x, g, how) == FLAME_OK)
      for (int i = 0, k = 0; i < n; i++) {
        const int64_t m = x[i]->shape->numel;
        if (g[i]) for (int64_t e = 0; e < m; e++) v += read_node(g[i])[e] * dir[k + e];
        k += (int)m;
      }
  } else if (y) v = *read_node(y);
  for (int i = 0; i < n; i++) flame_free(t[i]);
  fl_scope_end(c, mark);
  c->rng.counter = counter;
  return v;
}

/* Writes the gradients of f at the inputs 'in' to out, one after the other; with order 2 the
** gradients of <gradient of f, dir>. Returns 0 if backward fails. */
static int analytic(flame_context *c, builder f, int n, const input *in, int arg,
                    int order, const double *dir, double *out) {
  fl_node *x[MAX_IN], *g[MAX_IN];
  flame_tensor *t[MAX_IN];
  const int64_t mark = fl_scope_begin(c);
  const uint64_t counter = c->rng.counter;
  for (int i = 0; i < n; i++) {
    x[i] = stored(c, FLAME_F64, in[i].rank, in[i].size, in[i].v);
    t[i] = fl_tensor_new(c, x[i]);
    flame_requires_grad(t[i], 1);
  }
  const fl_backward keep = { .retain_graph = 1, .create_graph = 1 }, plain = { 0 };
  fl_node *y = weighted(c, f(c, x, arg));
  int ok = y && y->entry &&
           fl_gradients(c, 1, &y, NULL, n, x, g, order == 2 ? keep : plain) == FLAME_OK;
  if (ok && order == 2) {
    fl_node *s = NULL;
    for (int i = 0, k = 0; i < n; i++) {
      if (g[i]) {
        fl_node *p =
            n_sum(n_mul(g[i], stored(c, FLAME_F64, in[i].rank, in[i].size, dir + k)),
                  FL_ALL_AXES, 0);
        s = s ? n_add(s, p) : p;
      }
      k += (int)x[i]->shape->numel;
    }
    if (s && s->entry) ok = fl_gradients(c, 1, &s, NULL, n, x, g, plain) == FLAME_OK;
    else for (int i = 0; i < n; i++) g[i] = NULL;       /* constant gradient */
  }
  for (int i = 0, k = 0; ok && i < n; i++) {
    const int64_t m = x[i]->shape->numel;
    for (int64_t e = 0; e < m; e++) out[k + e] = g[i] ? read_node(g[i])[e] : 0;
    k += (int)m;
  }
  for (int i = 0; i < n; i++) flame_free(t[i]);
  fl_scope_end(c, mark);
  c->rng.counter = counter;
  return ok;
}

static void check_order(const char *name, builder f, int n, input *in, int arg, int order) {
  flame_context *c = open_context();
  double got[256], dir[256];
  int bad = 0;
  for (int i = 0; i < 256; i++) dir[i] = uniform(-1, 1);
  if (!analytic(c, f, n, in, arg, order, dir, got)) {
    printf("%s: order %d: no gradient: %s\n", name, order, flame_error(c));
    failed++;
  } else {
    for (int i = 0, k = 0; i < n; i++) {
      int64_t m = 1;
      for (int a = 0; a < in[i].rank; a++) m *= in[i].size[a];
      for (int64_t e = 0; e < m; e++, k++) {
        const double old = in[i].v[e], h = 1e-5;
        in[i].v[e] = old + h;
        const double up = loss_at(c, f, n, in, arg, order, dir);
        in[i].v[e] = old - h;
        const double down = loss_at(c, f, n, in, arg, order, dir), want = (up - down) / (2 * h);
        in[i].v[e] = old;
        if (fabs(want - got[k]) <= 2e-6 * (1 + fabs(want))) continue;
        if (!bad++)
          printf("%s: order %d, input %d, element %lld: %.9g, need %.9g\n", name, order,
                 i, (long long)e, got[k], want);
      }
    }
    if (bad) failed++; else passed++;
  }
  if (c->err.code) printf("%s: %s\n", name, flame_error(c));
  close_context(c);
}

static void check2(const char *name, builder f, int n, input *in, int arg) {
  check_order(name, f, n, in, arg, 1);
  check_order(name, f, n, in, arg, 2);
}

static input make(int rank, int64_t a, int64_t b, int64_t d, const char *domain, int op) {
  input x = { .rank = rank, .size = { a, b, d } };
  int64_t n = 1;
  for (int i = 0; i < rank; i++) n *= x.size[i];
  for (int64_t i = 0; i < n; i++) x.v[i] = sample(domain, op);
  return x;
}

/* ---- every op of ops.def ----------------------------------------------------------- */

static fl_node *op_unary(flame_context *c, fl_node **x, int op) {
  (void)c;
  return fl_build_unary(op, x[0]);
}
static fl_node *op_binary(flame_context *c, fl_node **x, int op) {
  (void)c;
  return fl_build_binary(op, x[0], x[1]);
}
static fl_node *op_number1(flame_context *c, fl_node **x, int op) {
  return fl_build_binary(op, n_num(c, 1.37), x[0]);
}
static fl_node *op_number2(flame_context *c, fl_node **x, int op) {
  return fl_build_binary(op, x[0], n_num(c, 1.37));
}
static fl_node *op_reduce(flame_context *c, fl_node **x, int op) {
  (void)c;
  return fl_build_reduce(op, x[0], 5, 0);
}
static fl_node *op_square(flame_context *c, fl_node **x, int op) {
  (void)c;
  return fl_build_binary(op, x[0], x[0]);
}

static void test_ops(void) {
  char name[64];
  for (int op = 0; op < FL_OP_COUNT; op++) {
    const fl_op_info *o = &fl_ops[op];
    const int nograd = o->nograd || op == FL_OP_where || op == FL_OP_clamp;
    if (nograd || o->form == FL_FORM_SPECIAL || o->kind == FL_KIND_TEST ||
        o->kind == FL_KIND_INT)
      continue;
    if (o->form == FL_FORM_UNARY) {
      input x = make(2, 2, 3, 1, o->domain, op);
      check_order(o->name, op_unary, 1, &x, op, 1);
      if (op != FL_OP_digamma && op != FL_OP_lgamma) check_order(o->name, op_unary, 1, &x, op, 2);
    } else if (o->form == FL_FORM_BINARY) {
      input x[2] = { make(2, 2, 3, 1, o->domain, op), make(1, 3, 1, 1, o->domain, op) };
      if (op == FL_OP_copysign) { check2(o->name, op_number2, 1, x, op); continue; }
      check2(o->name, op_binary, 2, x, op);
      snprintf(name, sizeof name, "%s(number, x)", o->name);
      check2(name, op_number1, 1, x, op);
      snprintf(name, sizeof name, "%s(x, number)", o->name);
      check2(name, op_number2, 1, x, op);
      if (op == FL_OP_mul || op == FL_OP_pow) check2("op(x, x)", op_square, 1, x, op);
    } else if (o->form == FL_FORM_REDUCE) {
      input x = make(3, 2, 3, 2, "REALS", op);
      check2(o->name, op_reduce, 1, &x, op);
      if (op != FL_OP_prod) continue;
      x.v[3] = 0;
      check2("prod with a zero", op_reduce, 1, &x, op);
      x.v[0] = x.v[2] = 0;
      check2("prod with zeros", op_reduce, 1, &x, op);
    }
  }
}

/* ---- structural -------------------------------------------------------------------- */

static const int64_t ids_size[2] = { 2, 2 };
static const double ids_v[4] = { 3, 1, 3, 2 };

static fl_node *ids(flame_context *c, int64_t n) {
  return n_index(stored(c, FLAME_I64, 2, ids_size, ids_v), n, 0, "take");
}

/* Structural op number 'which' applied to the square of x[0], of shape (3, 4), so that its second
** derivative is not 0. x[1] is a second input of a shape that fits. */
static fl_node *structural(flame_context *c, fl_node **x, int which) {
  fl_node *s = n_square(x[0]), *t = x[1];
  const int64_t b[2] = { 2, 0 }, st[2] = { -2, 3 }, n[2] = { 2, 2 };
  switch (which) {
    case 0: return n_permute(s, (int[]){ 1, 0 });
    case 1: return n_reshape(n_transpose(s, 0, 1), 2, (int64_t[]){ 2, 6 });
    case 2: return n_box(s, b, st, n, 0);
    case 3: return n_select(n_slice(s, 1, 3, 2, -2), 0, 1);
    case 4: return n_mul(n_expand(n_unsqueeze(s, 1), 3, (int64_t[]){ 3, 2, 4 }), t);
    case 5: return n_strided(s, 2, (int64_t[]){ 4, 3 }, (int64_t[]){ 2, 1 }, 1);
    case 6: return n_strided(n_transpose(s, 0, 1), 2, (int64_t[]){ 4, 3 }, (int64_t[]){ 2, 1 }, 1);
    case 7: return n_take_axis(s, 0, ids(c, 3));
    case 8: return n_gather_axis(s, 1, ids(c, 4));
    case 9: return n_scatter_axis(s, 1, ids(c, 4), n_square(t), 0);
    case 10: return n_scatter_axis(s, 1, ids(c, 4), n_square(t), 1);
    case 11: return n_put_axis(s, 1, ids(c, 4), n_square(t), 0);
    case 12: return n_put_axis(s, 1, ids(c, 4), n_square(t), 1);
    case 13: return n_setslice(s, b, st, n, n_square(t));
    case 14: return n_cat(c, 5, (fl_node *[]){ s, n_square(t), s, x[0], t }, 0);
    case 15: return n_stack(c, 2, (fl_node *[]){ s, n_mul(s, s) }, 1);
    case 16: return n_pad(s, (int64_t[]){ 1, -1 }, (int64_t[]){ 0, 2 }, 3.0);
    case 17: return n_tril(s, 0, 0);
    case 18: return n_tril(s, -1, 1);
    case 19: return n_matmul(s, t);
    case 20: return n_matmul(t, s);
    case 21: return n_linear(s, t, x[2]);
    case 22: return n_where(n_gt(s, n_num(c, 1)), s, t);
    case 23: return fl_build_ternary(FL_OP_clamp, s, n_num(c, 0.5), n_num(c, 2.5));
    case 24: return fl_build_ternary(FL_OP_clamp, s, t, x[2]);
    case 25: return n_cast(n_copy(n_alias(s)), FLAME_F64);
    case 26: return n_pow(s, n_int(c, 3));
    case 27: return n_squeeze(n_slice(s, 0, 1, 1, 1), -1);
    default: return n_div(n_pow(s, n_num(c, 0.5)), n_num(c, 3));
  }
}

static void test_structural(void) {
  struct { const char *name; int rank; int64_t size[3];
  } with[] = { { "permute", 0, { 0 } },
               { "reshape", 0, { 0 } },
               { "box", 0, { 0 } },
               { "select", 0, { 0 } },
               { "expand", 3, { 1, 2, 4 } },
               { "strided", 0, { 0 } },
               { "strided of a view", 0, { 0 } },
               { "take", 0, { 0 } },
               { "gather", 0, { 0 } },
               { "scatter", 2, { 2, 2 } },
               { "scatter_add", 2, { 2, 2 } },
               { "put", 3, { 3, 2, 2 } },
               { "index_add", 3, { 3, 2, 2 } },
               { "setslice", 1, { 2 } },
               { "cat", 2, { 2, 4 } },
               { "stack", 0, { 0 } },
               { "pad", 0, { 0 } },
               { "tril", 0, { 0 } },
               { "triu", 0, { 0 } },
               { "matmul", 3, { 2, 4, 2 } },
               { "matmul b", 3, { 2, 2, 3 } },
               { "linear", 2, { 5, 4 } },
               { "where", 1, { 4 } },
               { "clamp", 0, { 0 } },
               { "clamp tensors", 1, { 4 } },
               { "alias", 0, { 0 } },
               { "pow 3", 0, { 0 } },
               { "squeeze", 0, { 0 } },
               { "div number", 0, { 0 } } };
  for (int k = 0; k < (int)(sizeof with / sizeof with[0]); k++) {
    input x[3] = { make(2, 3, 4, 1, "REALS", 0),
                   make(with[k].rank, with[k].size[0], with[k].size[1], with[k].size[2],
                        "REALS", 0),
                   make(1, k == 21 ? 5 : 4, 1, 1, "REALS", 0) };
    check2(with[k].name, structural, k == 21 || k == 24 ? 3 : with[k].rank ? 2 : 1, x, k);
  }
}

/* ---- composites -------------------------------------------------------------------- */

static fl_node *composite(flame_context *c, fl_node **x, int which) {
  const int64_t one[1] = { 3 };
  const double labels[3] = { 4, 1, -100 };
  fl_node *y = stored(c, FLAME_I64, 1, one, labels);
  switch (which) {
    case 0: return n_mean(x[0], 2, 0);
    case 1: return n_var(x[0], 3, 1, 1);
    case 2: return n_logsumexp(x[0], 1, 0);
    case 3: return n_softmax(x[0], 1);
    case 4: return n_log_softmax(x[0], 0);
    case 5: return n_layer_norm(x[0], 1, x[1], x[1], 1e-5);
    case 6: return n_layer_norm(x[0], 2, &fl_none, &fl_none, 1e-5);
    case 7: return n_gelu(x[0], 0);
    case 8: return n_gelu(x[0], 1);
    case 9: return n_silu(x[0]);
    case 10: return n_cross_entropy(x[0], y, &fl_none, 1, -100, 0);
    case 11:
      return n_cross_entropy(
          x[0], y, stored(c, FLAME_F64, 1, (int64_t[]){ 4 }, (double[]){ 1, 0.5, 3, 2 }),
          1, -100, 0.1);
    case 12: return n_cross_entropy(x[0], y, &fl_none, 0, -100, 0.1);
    case 13: return n_cross_entropy(x[0], n_softmax(x[2], 1), &fl_none, 2, -100, 0.2);
    case 14: return n_embedding(stored(c, FLAME_I64, 1, one, (double[]){ 2, 2, 3 }), x[0]);
    case 15: return n_dropout(x[0], 0.4);
    default:
      return n_cross_entropy(x[1], stored(c, FLAME_I64, 0, NULL, (double[]){ 2 }),
                             &fl_none, 1, 3, 0);
  }
}

static void test_composites(void) {
  for (int k = 0; k <= 16; k++) {
    char name[32];
    input x[3] = { make(2, 3, 4, 1, "REALS", 0), make(1, 4, 1, 1, "REALS", 0),
                   make(2, 3, 4, 1, "REALS", 0) };
    snprintf(name, sizeof name, "composite %d", k);
    const int which = k == 13 ? 3 : k == 5 || k == 16 ? 2 : 1;
    check2(name, composite, which, x, k);
  }
}

/* ---- special points ---------------------------------------------------------------- */

static flame_tensor *leaf(flame_context *c, int n, const double *v) {
  const int64_t size = n;
  flame_tensor *t = fl_tensor_new(c, stored(c, FLAME_F64, 1, &size, v));
  flame_requires_grad(t, 1);
  return t;
}

/* 1 if the gradient of sum(y) with respect to the leaf x has the n elements 'want'. */
static int grad_is(flame_context *c, flame_tensor *x, fl_node *y, int n, const double *want) {
  flame_tensor *loss = fl_tensor_new(c, n_sum(y, FL_ALL_AXES, 0));
  int ok = loss && flame_backward(loss, NULL) == FLAME_OK && x->grad;
  if (ok) {
    const double *g = read_node(x->grad->node);
    for (int i = 0; i < n; i++) ok = ok && (g[i] == want[i] || (isnan(g[i]) && isnan(want[i])));
    if (!ok) for (int i = 0; i < n; i++) printf("  %d: %g, need %g\n", i, g[i], want[i]);
  }
  flame_free(loss);
  flame_zero_grad(x);
  return ok;
}

static void test_points(void) {
  flame_context *c = open_context();
  FL_ENTER(c);
  flame_tensor *z = leaf(c, 3, (double[]){ 0, 0, 2 }),
               *i = leaf(c, 2, (double[]){ -INFINITY, -INFINITY });
  flame_tensor *n = leaf(c, 3, (double[]){ 1, NAN, 5 });
  fl_node *x = z->node;
  const int64_t three = 3;
  CHECK(grad_is(c, z, n_pow(x, n_num(c, 0)), 3, (double[]){ 0, 0, 0 }));
  CHECK(grad_is(c, z, n_pow(x, stored(c, FLAME_F64, 1, &three, (double[]){ 0, 1, 2 })), 3,
                (double[]){ 0, 1, 4 }));
  CHECK(grad_is(c, z, n_pow(n_num(c, 0), x), 3, (double[]){ 0, 0, 0 }));
  CHECK(grad_is(c, z, n_maximum(x, n_num(c, 0)), 3, (double[]){ 0.5, 0.5, 1 }));
  CHECK(grad_is(c, z, n_amax(x, 1, 0), 3, (double[]){ 0, 0, 1 }));
  CHECK(grad_is(c, z, n_amin(x, 1, 0), 3, (double[]){ 0.5, 0.5, 0 }));
  CHECK(grad_is(c, z, fl_build_ternary(FL_OP_clamp, x, n_num(c, 0), n_num(c, 1)), 3,
                (double[]){ 1, 1, 0 }));
  CHECK(grad_is(c, z, fl_build_ternary(FL_OP_clamp, x, &fl_none, n_num(c, 1)), 3,
                (double[]){ 1, 1, 0 }));
  CHECK(grad_is(c, z, n_relu(x), 3, (double[]){ 0, 0, 1 }));
  CHECK(grad_is(c, i, n_logsumexp(i->node, 1, 0), 2, (double[]){ 0, 0 }));
  CHECK(grad_is(c, n, n_maximum(n->node, n_num(c, 2)), 3, (double[]){ 0, 1, 1 }));
  CHECK(grad_is(c, z, n_abs(x), 3, (double[]){ 0, 0, 1 }));
  CHECK(isinf(*read_node(n_logsumexp(i->node, 1, 0))));
  flame_free(z); flame_free(i); flame_free(n);
  FL_LEAVE(c);
  CHECK(c->err.code == FLAME_OK);
  close_context(c);
}

/* ---- the walk ---------------------------------------------------------------------- */

static flame_tensor *loss_of(flame_context *c, flame_tensor *x) {
  return fl_tensor_new(c, n_sum(n_square(x->node), FL_ALL_AXES, 0));
}

static void test_accumulation(void) {
  flame_context *c = open_context();
  FL_ENTER(c);
  flame_tensor *x = leaf(c, 2, (double[]){ 2, 3 }), *a = loss_of(c, x), *b = loss_of(c, x);
  CHECK(flame_backward(a, NULL) == FLAME_OK);
  flame_tensor *g = flame_grad_of(x);
  CHECK(g && read_node(g->node)[1] == 6);
  CHECK(!g->node->entry && g->node->layout->contiguous);
  CHECK(flame_backward(b, NULL) == FLAME_OK);
  CHECK(x->grad == g && read_node(g->node)[1] == 12);        /* .grad keeps its handle */
  CHECK(flame_backward(a, NULL) == FLAME_BAD_ARGUMENT);      /* its tape is gone */
  CHECK(strstr(flame_error(c), "retain_graph"));
  CHECK(read_node(g->node)[1] == 12);
  flame_clear_error(c);
  flame_tensor *k = loss_of(c, x);
  const fl_backward keep = { .retain_graph = 1 };
  CHECK(fl_backward_into_leaves(k, NULL, keep) == FLAME_OK);
  CHECK(fl_backward_into_leaves(k, NULL, keep) == FLAME_OK);
  CHECK(read_node(g->node)[0] == 16);
  flame_zero_grad(x);
  CHECK(!x->grad && read_node(g->node)[0] == 16);
  flame_free(g); flame_free(a); flame_free(b); flame_free(k); flame_free(x);
  FL_LEAVE(c);
  close_context(c);
}

static void test_misuse(void) {
  flame_context *c = open_context();
  FL_ENTER(c);
  flame_tensor *x = leaf(c, 2, (double[]){ 2, 3 }), *y = fl_tensor_new(c, n_square(x->node));
  flame_tensor *d = fl_tensor_new(c, n_detach(y->node));
  CHECK(flame_backward(y, NULL) && strstr(flame_error(c), "shape (2), not one element") &&
        strstr(flame_error(c), "x:sum()"));
  flame_clear_error(c);
  CHECK(flame_backward(d, NULL) && strstr(flame_error(c), "backward: the tensor is not tracked"));
  flame_clear_error(c);
  CHECK(flame_backward(y, x) == FLAME_OK);                    /* x as the seed */
  CHECK(x->grad && read_node(x->grad->node)[1] == 18);
  flame_tensor *s =
      fl_tensor_new(c, stored(c, FLAME_F64, 1, (int64_t[]){ 3 }, (double[]){ 1, 1, 1 }));
  flame_tensor *y2 = fl_tensor_new(c, n_square(x->node));
  CHECK(flame_backward(y2, s) &&
        strstr(flame_error(c), "the seed has shape (3) and the tensor (2)"));
  flame_clear_error(c);
  flame_grad_mode(c, 0);
  flame_tensor *q = loss_of(c, x);
  CHECK(!q->node->entry);
  flame_grad_mode(c, 1);
  CHECK(c->grad_mode == 1 && c->win.nodes.n >= 0);
  flame_free(x); flame_free(y); flame_free(d); flame_free(s); flame_free(y2); flame_free(q);
  FL_LEAVE(c);
  close_context(c);
}

/* fl_gradients returns gradients of the requested tensors only and leaves their .grad alone. */
static void test_gradients_map(void) {
  flame_context *c = open_context();
  FL_ENTER(c);
  flame_tensor *x = leaf(c, 2, (double[]){ 2, 3 }), *w = leaf(c, 2, (double[]){ 5, 7 }),
               *u = leaf(c, 1, (double[]){ 1 });
  fl_node *mid = n_mul(x->node, w->node), *loss = n_sum(n_square(mid), FL_ALL_AXES, 0);
  fl_node *wrt[4] = { w->node, mid, u->node, w->node }, *g[4];
  const fl_backward plain = { 0 };
  CHECK(fl_gradients(c, 1, &loss, NULL, 4, wrt, g, plain) == FLAME_OK);
  CHECK(read_node(g[0])[0] == 2 * 10 * 2 && read_node(g[1])[1] == 42 && !g[2] && g[3] == g[0]);
  CHECK(!x->grad && !w->grad && !g[0]->entry);
  fl_node *two[2] = { n_sum(x->node, 1, 0), n_sum(n_mul(x->node, x->node), 1, 0) };
  CHECK(fl_gradients(c, 2, two, NULL, 1, &x->node, g, plain) == FLAME_OK);
  /* gradients of several roots are added */
  CHECK(read_node(g[0])[1] == 7);
  flame_free(x); flame_free(w); flame_free(u);
  FL_LEAVE(c);
  CHECK(c->err.code == FLAME_OK);
  close_context(c);
}

static void test_leaf_keeps_through_writes(void) {
  flame_context *c = open_context();
  FL_ENTER(c);
  flame_tensor *w = leaf(c, 2, (double[]){ 2, 3 }), *l = loss_of(c, w);
  flame_grad_mode(c, 0);
  CHECK(fl_tensor_write(w, n_mul(w->node, n_num(c, 0.5)), "mul_") == FLAME_OK);
  flame_grad_mode(c, 1);
  fl_node *g;
  const fl_backward keep = { .retain_graph = 1 };
  CHECK(fl_gradients(c, 1, &l->node, NULL, 1, &w->node, &g, keep) == FLAME_OK);
  /* 6 = 2 w at w = 3, the value that the loss was computed with */
  CHECK(g && read_node(g)[1] == 6);
  CHECK(flame_backward(l, NULL) == FLAME_OK && w->grad && read_node(w->grad->node)[0] == 4);
  flame_tensor *r = fl_tensor_new(c, n_exp(w->node));          /* retain_grad on a result */
  r->retain = 1;
  r->node->entry->handle = r;
  flame_tensor *m = loss_of(c, r);
  CHECK(flame_backward(m, NULL) == FLAME_OK && r->grad);
  flame_free(w); flame_free(l); flame_free(r); flame_free(m);
  FL_LEAVE(c);
  CHECK(c->err.code == FLAME_OK);
  close_context(c);
}

static int released;
static flame_status triple(flame_context *c, void *arg, fl_node *y, fl_node *g, int nin,
                           fl_node **gin) {
  (void)arg;
  for (int i = 0; i < nin; i++) gin[i] = i == y->attr->offset ? n_mul(g, n_num(c, 3)) : NULL;
  return FLAME_OK;
}
static void let_go(void *arg) { (void)arg; released++; }

static flame_status doubled(flame_context *c, void *hooks, fl_node **g) {
  *g = n_mul(*g, n_num(c, *(double *)hooks));
  return *g ? FLAME_OK : c->err.code;
}

static void test_host_functions(void) {
  flame_context *c = open_context();
  static fl_upcalls up;
  static double factor = 2;
  up = test_up;
  up.run_hooks = doubled;
  c->up = &up;
  FL_ENTER(c);
  flame_tensor *x = leaf(c, 2, (double[]){ 2, 3 }), *w = leaf(c, 2, (double[]){ 5, 7 });
  fl_node *in[5] = { x->node, w->node, NULL, x->node, w->node };
  fl_custom *f = fl_zalloc(&c->mem, sizeof *f);
  *f = (fl_custom){ .backward = triple, .release = let_go };
  fl_node *y = n_custom(n_add(x->node, w->node), 5, in, f, 1);
  flame_tensor *l = fl_tensor_new(c, n_sum(y, FL_ALL_AXES, 0));
  CHECK(read_node(y)[1] == 10 && y->entry && y->entry->custom == f);
  CHECK(flame_backward(l, NULL) == FLAME_OK && !x->grad && w->grad &&
        read_node(w->grad->node)[0] == 3);
  CHECK(released == 1);
  flame_tensor *m = loss_of(c, x);
  x->node->entry->hooks = &factor;
  CHECK(flame_backward(m, NULL) == FLAME_OK && read_node(x->grad->node)[0] == 8);
  x->node->entry->hooks = NULL;
  flame_free(x); flame_free(w); flame_free(l); flame_free(m);
  FL_LEAVE(c);
  CHECK(c->err.code == FLAME_OK);
  close_context(c);
}

static void test_depth(void) {
  flame_context *c = open_context();
  FL_ENTER(c);
  flame_tensor *x = leaf(c, 2, (double[]){ 2, 3 });
  fl_node *y = x->node;
  for (int i = 0; i < 100000; i++) y = n_mul(y, n_num(c, 1.0));
  flame_tensor *l = fl_tensor_new(c, n_sum(y, FL_ALL_AXES, 0));
  FL_LEAVE(c);
  CHECK(flame_backward(l, NULL) == FLAME_OK && x->grad && read_node(x->grad->node)[1] == 1);
  flame_free(l); flame_free(x);
  close_context(c);
}

/* If the k-th allocation fails, for any k, there must be an error and no leak. */
static void test_out_of_memory(void) {
  for (int64_t k = 1; k < 400; k++) {
    flame_context *c = open_context();
    FL_ENTER(c);
    flame_tensor *x = leaf(c, 2, (double[]){ 2, 3 }), *w = leaf(c, 2, (double[]){ 5, 7 });
    c->mem.fail_at = c->mem.calls + k;
    fl_node *five[5] = { x->node, w->node, x->node, w->node, n_exp(x->node) };
    fl_node *y = n_cat(c, 5, five, 0);
    y = n_softmax(n_stack(c, 2, (fl_node *[]){ y, y }, 0), 1);
    flame_tensor *l = fl_tensor_new(c, weighted(c, n_cast(n_square(y), FLAME_F64)));
    const flame_status e = l ? flame_backward(l, NULL) : FLAME_NO_MEMORY;
    const int done = c->mem.calls < c->mem.fail_at;
    CHECK(done ? e == FLAME_OK : (e == FLAME_OK || e == FLAME_NO_MEMORY));
    CHECK(e == FLAME_OK || c->err.code == FLAME_NO_MEMORY);
    c->mem.fail_at = 0;
    flame_free(l); flame_free(x); flame_free(w);
    FL_LEAVE(c);
    close_context(c);
    if (done) break;
  }
}

int main(void) {
  test_ops();
  test_structural();
  test_composites();
  test_points();
  test_accumulation();
  test_misuse();
  test_gradients_map();
  test_leaf_keeps_through_writes();
  test_host_functions();
  test_depth();
  test_out_of_memory();
  forget_values();
  printf("gradients: %d passed, %d failed\n", passed, failed);
  return failed != 0;
}
